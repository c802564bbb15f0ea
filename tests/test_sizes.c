/* test_sizes.c - autoregressions and state spaces beyond what fits their structs, in models: several engines against each
   other, gradients against differences, fits. The operators themselves: test_op_ar.c, test_op_ssm.c.

   Tolerances: as test_series.c, 500 M eps, for a likelihood that is a sum over M entries, and for gradients, which cancel from
   terms of that size. Differences of the likelihood, in double alone, along one direction of length one: rounding over h and
   a third derivative, removed by one extrapolation, leave some 1e-9 of the NLL. */
#include "pu_test.h"
#include "test_common.h"

typedef struct {
    pu_model model;
    pu_real *theta, *y;
    pu_data data;
} fixture;

enum { NOISY_AR, STATE_SPACE, FACTORS, STRUCTURAL };

typedef struct {
    int what;
    pu_int steps, size; /* order or states */
    pu_ssm_start start;
} sized;

static pu_status make(const sized *c, pu_model *model, pu_report *report)
{
    pu_part part = {PU_PART_AR, 0, 0};
    part.size = c->size;
    switch (c->what) {
    case NOISY_AR: return pu_model_noisy_ar(model, c->steps, c->size, report);
    case STATE_SPACE: return pu_model_state_space(model, c->steps, c->size, c->start, report);
    case FACTORS: return pu_model_dynamic_factors(model, c->steps, 3, c->size, c->start, report);
    default: return pu_model_structural(model, c->steps, &part, 1, report);
    }
}

/* A random theta well inside, and two series with gaps. */
static fixture *build(const sized *c)
{
    static const char *const name[] = {"noisy AR", "state space", "factors", "structural AR"};
    fixture *f = (fixture *)tc_bytes(sizeof *f);
    pu_int i, S = c->size, M;
    tc_set_case("%s of size %d, %d steps, start %d", name[c->what], (int)c->size, (int)c->steps, (int)c->start);
    f->model.memory = tc_workspace();
    if (make(c, &f->model, NULL) != PU_OK) exit(2);
    M = f->model.lgm.Phi->rows;
    f->theta = tc_normal(7 + (uint64_t)S, f->model.params);
    for (i = 0; i < f->model.params; i++) f->theta[i] = (pu_real)(0.3 / sqrt((double)S) * (double)f->theta[i]);
    for (i = 0; i < S && (c->what == STATE_SPACE || c->what == FACTORS); i++) f->theta[i * S + i] += PU_R(0.4);
    if (c->start == PU_SSM_DIFFUSE) { /* a level and rotations that one series tells apart */
        for (i = 0; i < S * S + S; i++) f->theta[i] = 0;
        f->theta[S * S - 1] = 1;
        for (i = 0; i < S; i += 2) f->theta[S * S + i] = 1;
        for (i = 0; i + 1 < S; i += 2) {
            double turn = 3.14159265358979323846 * (double)(i + 2) / (double)(S + 1);
            pu_real cosine = (pu_real)(0.98 * cos(turn)), sine = (pu_real)(0.98 * sin(turn));
            f->theta[i * S + i] = f->theta[(i + 1) * S + i + 1] = cosine;
            f->theta[i * S + i + 1] = sine, f->theta[(i + 1) * S + i] = -sine;
        }
    }
    if (pu_model_set(&f->model, f->theta, NULL) != PU_OK) exit(2);
    f->y = tc_normal(9, 2 * M);
    if (c->start != PU_SSM_DIFFUSE && pu_simulate(&f->model.lgm, 2, 3, NULL, NULL, f->y, NULL) != PU_OK) exit(2);
    for (i = 0; i < 2 * M; i++)
        if (tc_hash((uint64_t)i) % 6 == 0 || (i > M / 2 && i < M / 2 + 5)) f->y[i] = PU_R(NAN);
    f->data = pu_data_nan(2, M, f->y);
    return f;
}

static const sized cases[] = {
    {NOISY_AR, 40, 40, PU_SSM_ZERO},         {NOISY_AR, 70, 40, PU_SSM_ZERO},        {NOISY_AR, 300, 64, PU_SSM_ZERO},
    {NOISY_AR, 360, 168, PU_SSM_ZERO},       {STATE_SPACE, 5, 17, PU_SSM_ZERO},      {STATE_SPACE, 6, 17, PU_SSM_STATIONARY},
    {STATE_SPACE, 5, 17, PU_SSM_GIVEN},      {STATE_SPACE, 6, 40, PU_SSM_STATIONARY}, {STATE_SPACE, 4, 40, PU_SSM_GIVEN},
    {STATE_SPACE, 60, 17, PU_SSM_DIFFUSE},   {FACTORS, 5, 20, PU_SSM_STATIONARY},    {FACTORS, 4, 20, PU_SSM_GIVEN},
    {STRUCTURAL, 120, 48, PU_SSM_ZERO},      {STRUCTURAL, 90, 100, PU_SSM_ZERO}};
enum { CASES = sizeof cases / sizeof *cases };

/* The NLL at theta + h d. */
static double moved(fixture *f, const double *d, double h, const pu_options *o)
{
    pu_real *theta = tc_reals(f->model.params);
    double nll = NAN;
    for (pu_int i = 0; i < f->model.params; i++) theta[i] = (pu_real)((double)f->theta[i] + h * d[i]);
    if (pu_model_nll(&f->model, theta, &f->data, o, NULL, &nll, NULL, NULL) < 0) return NAN;
    return nll;
}

/* Every engine that applies has the same likelihood and gradient, and that is the slope. A diffuse start leaves dense and
   banded; a structural model has one engine. */
TEST engines_agree_and_gradients_are_slopes(const sized *c)
{
    static const pu_engine engines[] = {PU_DENSE, PU_DUAL, PU_BANDED, PU_KALMAN};
    fixture *f = build(c);
    pu_int params = f->model.params, i, first = -1;
    pu_real *grad[4];
    double M = (double)f->model.lgm.Phi->rows, tol = 500 * M * PU_TEST_EPS, nll[4], *d = tc_doubles(params), sum = 0, along = 0;
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT, o.threads = 1;
    for (int e = 0; e < 4; e++) {
        pu_report report;
        pu_status status;
        grad[e] = tc_reals(params);
        if (engines[e] == PU_KALMAN && c->what == NOISY_AR && c->size > 64) continue; /* 2 n P^3 in every sense */
        o.engine = engines[e];
        status = pu_model_gradient(&f->model, f->theta, &f->data, &o, NULL, grad[e], NULL, &report);
        if (c->what == STRUCTURAL && engines[e] != PU_KALMAN) continue;
        if (c->start == PU_SSM_DIFFUSE && (engines[e] == PU_DUAL || engines[e] == PU_KALMAN)) continue;
        TC_ASSERT(status == PU_OK || (status == PU_INEXACT && sizeof(pu_real) == sizeof(float)));
        nll[e] = report.nll;
        if (first < 0) first = e;
        TC_CLOSE(nll[e], nll[first], tol);
        for (i = 0; i < params; i++) TC_CLOSE(grad[e][i], grad[first][i], tol);
    }
    TC_ASSERT(first >= 0);
    if (sizeof(pu_real) == sizeof(float)) PASS();
    o.engine = c->what == STRUCTURAL ? PU_KALMAN : PU_BANDED;
    for (int t = 0; t < 3; t++) {
        pu_real *z = tc_normal(50 + (uint64_t)t, params);
        double got[2], size = 0;
        for (i = 0; i < params; i++) size += (double)z[i] * (double)z[i];
        for (i = 0, along = 0; i < params; i++) {
            d[i] = (double)z[i] / sqrt(size);
            along += d[i] * (double)grad[first][i];
        }
        for (int k = 0; k < 2; k++) {
            double h = k ? 1e-3 : 2e-3;
            got[k] = (moved(f, d, h, &o) - moved(f, d, -h, &o)) / (2 * h);
        }
        sum = (4 * got[1] - got[0]) / 3;
        TC_CLOSE(along, sum, tol + 1e-9 * (1 + fabs(nll[first])));
    }
    PASS();
}

/* The two ways to an AR: as a precision, and as shocks of a chain. The same parameters in the same order. */
TEST a_structural_autoregression_is_the_noisy_one(pu_int steps, pu_int order)
{
    sized one = {NOISY_AR, 0, 0, PU_SSM_ZERO}, other = {STRUCTURAL, 0, 0, PU_SSM_ZERO};
    pu_int i;
    fixture *a, *b;
    one.steps = other.steps = steps, one.size = other.size = order;
    a = build(&one), b = build(&other);
    pu_real *x = tc_reals(order + 2), *y = tc_reals(order + 2);
    double tol = 500 * (double)steps * PU_TEST_EPS;
    pu_report r1, r2;
    TC_ASSERT(a->model.params == order + 2 && b->model.params == order + 2);
    TC_ASSERT(pu_model_gradient(&a->model, a->theta, &a->data, NULL, NULL, x, NULL, &r1) >= 0);
    TC_ASSERT(pu_model_gradient(&b->model, a->theta, &a->data, NULL, NULL, y, NULL, &r2) >= 0);
    TC_CLOSE(r1.nll, r2.nll, tol);
    for (i = 0; i < order + 2; i++) TC_CLOSE(x[i], y[i], tol);
    PASS();
}

/* The network gradient through CG for such a prior: the bits do not depend on the threads, and with all its steps and many
   probes it is the exact one within its errors. */
TEST probes_are_unbiased(void)
{
    static const sized c = {NOISY_AR, 150, 40, PU_SSM_ZERO};
    fixture *f = build(&c);
    pu_int params = f->model.params, i;
    pu_real *exact = tc_reals(params), *g = tc_reals(params), *again = tc_reals(params), *se = tc_reals(params);
    pu_options o;
    pu_report report;
    double off = 0;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    TC_STATUS(pu_model_gradient(&f->model, f->theta, &f->data, &o, NULL, exact, NULL, NULL), PU_OK);
    o.kind = PU_NETWORK, o.engine = PU_ITERATIVE, o.samples = 100, o.groups = 20, o.solve.iterations = 60;
    for (int t = 1; t <= 2; t++) {
        o.threads = t;
        TC_STATUS(pu_model_gradient(&f->model, f->theta, &f->data, &o, NULL, t == 1 ? g : again, se, &report), PU_OK);
    }
    TC_ASSERT(!memcmp(g, again, (size_t)params * sizeof *g));
    for (i = 0; i < params; i++) {
        double z = ((double)g[i] - (double)exact[i]) / (double)se[i];
        TC_ASSERT(se[i] > 0);
        TC_CLOSE(z, 0, 6); /* of 42, with 19 degrees of freedom */
        off += z * z;
    }
    TC_ASSERT(off / (double)params < 2.5 && off / (double)params > 0.2);
    PASS();
}

/* An AR(40) with little at the first lags and much at the last: what a fit reaches is no worse than the truth, it knows the last
   coefficient, and it fills a gap with the right errors. */
TEST a_long_autoregression_is_fitted(int gap)
{
    enum { T = 900, P = 40 };
    pu_model model;
    pu_real truth[P + 2] = {0}, theta[P + 2], se[P + 2], *y = tc_reals(T), *z = tc_reals(T), *mean = tc_reals(T), *var = tc_reals(T);
    pu_data data;
    pu_fit_report fit;
    pu_report report;
    pu_predict_result out;
    pu_param param;
    double best, misses = 0;
    memset(&model, 0, sizeof model), memset(&out, 0, sizeof out);
    model.memory = tc_workspace();
    tc_set_case("AR(40), gap %d", gap);
    truth[0] = PU_R(0.3), truth[11] = PU_R(-0.3), truth[P - 1] = PU_R(0.8), truth[P + 1] = (pu_real)log(0.2);
    TC_STATUS(pu_model_noisy_ar(&model, T, P, &report), PU_OK);
    TC_STATUS(pu_model_set(&model, truth, NULL), PU_OK);
    TC_STATUS(pu_simulate(&model.lgm, 1, 5, NULL, z, y, NULL), PU_OK);
    for (pu_int t = 400; t < 400 + gap; t++) y[t] = PU_R(NAN);
    data = pu_data_nan(1, T, y);
    TC_STATUS(pu_model_nll(&model, truth, &data, NULL, NULL, &best, NULL, NULL), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 0, theta, &report), PU_OK);
    TC_ASSERT(pu_fit(&model, &data, NULL, NULL, theta, &fit) >= 0);
    TC_ASSERT(fit.stop == PU_FIT_CONVERGED || fit.stop == PU_FIT_BOUNDARY || fit.stop == PU_FIT_GRADIENT || sizeof(pu_real) == sizeof(float));
    /* 42 parameters gain half a squared standard error each, 21 +- 6.5 for the largest of a parabola; and twice that at most */
    TC_ASSERT(fit.best < best && fit.best > best - 42);
    TC_ASSERT(pu_fit_errors(&model, &data, NULL, NULL, theta, se, &report) >= 0);
    TC_STATUS(pu_model_param(&model, P - 1, &param), PU_OK);
    TC_ASSERT(!strcmp(param.name, "gamma[39]"));
    TC_ASSERT(se[P - 1] > 0 && se[P - 1] < PU_R(0.3));
    TC_CLOSE(theta[P - 1], truth[P - 1], 4 * (double)se[P - 1]);
    out.mean = mean, out.variance = var;
    TC_STATUS(pu_model_predict(&model, theta, &data, NULL, NULL, &out, &report), PU_OK);
    for (pu_int t = 400; t < 400 + gap; t++) misses += fabs((double)z[t] - (double)mean[t]) > 1.96 * sqrt((double)var[t]);
    TC_ASSERT(misses <= 0.15 * gap);
    PASS();
}

/* One block of memory, told beforehand; a byte less is refused. */
TEST a_block_of_the_callers_is_enough(const sized *c)
{
    pu_model model;
    pu_report report;
    size_t bytes;
    unsigned char *block = (unsigned char *)tc_bytes(1);
    tc_set_case("block, kind %d, size %d", c->what, (int)c->size);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, block, 0);
    TC_STATUS(make(c, &model, &report), PU_E_BLOCK);
    bytes = report.bytes;
    block = (unsigned char *)tc_bytes(bytes);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, block, bytes - 1);
    TC_STATUS(make(c, &model, &report), PU_E_BLOCK);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, block, bytes);
    TC_STATUS(make(c, &model, &report), PU_OK);
    PASS();
}

/* A theta that is refused leaves the process as it was: gradients before and after are the same bits. */
TEST a_refused_theta_changes_nothing(const sized *c)
{
    fixture *f = build(c);
    pu_int params = f->model.params, index = params - 1;
    pu_real *bad = tc_reals(params), *before, *after;
    pu_op *Gamma = &f->model.Gamma;
    pu_int n = Gamma->rows;
    pu_report report;
    pu_real *x = tc_normal(1, n), *work = tc_reals(Gamma->work + 1);
    before = tc_reals(n), after = tc_reals(n);
    if (c->what == STRUCTURAL) PASS(); /* its Gamma has no product */
    TC_STATUS(Gamma->apply(Gamma, 1, tc_block(x, n), tc_block(before, n), 0, work), PU_OK);
    memcpy(bad, f->theta, (size_t)params * sizeof *bad);
    bad[0] = PU_R(0.9), bad[index] = PU_R(1e6);
    if (c->what != NOISY_AR && c->start == PU_SSM_STATIONARY) bad[0] = PU_R(9), bad[index] = f->theta[index];
    TC_ASSERT(pu_model_set(&f->model, bad, &report) < 0);
    TC_STATUS(Gamma->apply(Gamma, 1, tc_block(x, n), tc_block(after, n), 0, work), PU_OK);
    TC_ASSERT(!memcmp(before, after, (size_t)n * sizeof *before));
    PASS();
}

/* pu_solve with the precision of a long AR: value and gradient through the solver are those of the same matrix as a general one. */
TEST solves_have_the_gradient(void)
{
    enum { n = 120, P = 40, K = 3 };
    pu_ar ar;
    size_t bytes;
    pu_real *gamma = tc_normal(4, P), *a = tc_reals(n * n), *I = tc_reals(n * n), *U = tc_normal(5, n * K), *X = tc_reals(n * K);
    pu_real *Y = tc_reals(n * K), *grad = tc_reals(P + 1), *entries = tc_reals(n * n), *work, *theta = tc_reals(P + 1);
    pu_op op, spd;
    pu_solve_options o;
    pu_solve_arrays io;
    memset(&o, 0, sizeof o), memset(&io, 0, sizeof io);
    tc_set_case("pu_solve");
    for (pu_int i = 0; i < P; i++) gamma[i] = (pu_real)tanh(0.05 * (double)gamma[i]);
    TC_STATUS(pu_ar_bytes(P, &bytes), PU_OK);
    TC_STATUS(pu_ar_memory(&ar, tc_bytes(bytes), bytes), PU_OK);
    TC_STATUS(pu_ar_set(&ar, n, P, gamma, PU_R(0.8), NULL), PU_OK);
    op = pu_op_ar(&ar);
    work = tc_reals(n * op.work);
    for (pu_int i = 0; i < n; i++) I[i * (n + 1)] = 1;
    TC_STATUS(op.apply(&op, n, tc_block(I, n), tc_block(a, n), 0, work), PU_OK);
    for (pu_int i = 0; i < n * n; i++) a[i] = a[i / n <= i % n ? i : i % n * n + i / n];
    spd = pu_op_spd(n, a, NULL);
    io.k = K, io.U = U, io.X = X, io.grad_A = grad, o.iterations = 8;
    TC_STATUS(pu_solve(&op, &io, &o, NULL, NULL, NULL), PU_OK);
    io.X = Y, io.grad_A = entries;
    TC_STATUS(pu_solve(&spd, &io, &o, NULL, NULL, NULL), PU_OK);
    for (pu_int i = 0; i < n * K; i++) TC_CLOSE(X[i], Y[i], 2000 * PU_TEST_EPS);
    /* <entries, dGamma/dgamma_i>: Gamma is quadratic in gamma_i, so that a wide difference is exact */
    memcpy(theta, gamma, P * sizeof *gamma);
    for (pu_int i = 0; i < P; i += 13) {
        double want = 0, size = 0;
        for (int side = 0; side < 2; side++) {
            pu_real *moved_by = tc_reals(n * n);
            theta[i] = gamma[i] + (side ? PU_R(-0.25) : PU_R(0.25));
            TC_STATUS(pu_ar_set(&ar, n, P, theta, PU_R(0.8), NULL), PU_OK);
            TC_STATUS(op.apply(&op, n, tc_block(I, n), tc_block(moved_by, n), 0, work), PU_OK);
            for (pu_int j = 0; j < n * n; j++) {
                double term = (double)entries[j] * (double)moved_by[j] / 0.5;
                want += side ? -term : term;
                size += fabs(term);
            }
        }
        theta[i] = gamma[i];
        TC_CLOSE(grad[i], want, 1000 * PU_TEST_EPS * size);
    }
    PASS();
}

/* Long orders and many states of a size that users have: made, set, and one gradient. */
TEST hundreds_are_possible(const sized *c)
{
    fixture *f = build(c);
    pu_real *grad = tc_reals(f->model.params);
    pu_report report;
    pu_status status = pu_model_gradient(&f->model, f->theta, &f->data, NULL, NULL, grad, NULL, &report);
    TC_ASSERT(status == PU_OK || (status == PU_INEXACT && sizeof(pu_real) == sizeof(float)));
    TC_ASSERT(report.has_nll && fabs(report.nll) < 1e5);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const sized large[] = {{NOISY_AR, 800, 400, PU_SSM_ZERO}, {STATE_SPACE, 3, 100, PU_SSM_STATIONARY}};
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (int i = 0; i < CASES; i++) {
        RUN_TESTp(engines_agree_and_gradients_are_slopes, &cases[i]);
        RUN_TESTp(a_block_of_the_callers_is_enough, &cases[i]);
        RUN_TESTp(a_refused_theta_changes_nothing, &cases[i]);
    }
    RUN_TESTp(a_structural_autoregression_is_the_noisy_one, 100, 48);
    RUN_TESTp(a_structural_autoregression_is_the_noisy_one, 200, 168);
    RUN_TEST(probes_are_unbiased);
    RUN_TEST(solves_have_the_gradient);
    RUN_TESTp(a_long_autoregression_is_fitted, 0);
    RUN_TESTp(a_long_autoregression_is_fitted, 60);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) RUN_TESTp(hundreds_are_possible, &large[i]);
    PU_TEST_MAIN_END();
}

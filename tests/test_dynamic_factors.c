/* test_dynamic_factors.c - a vector of observations per time step: the readouts against a Kronecker product, the model's
   likelihood against the covariance of all observations, its gradient against differences; starts and fits. */
#include "pu_test.h"
#include "test_common.h"

/* ---- the operator ----------------------------------------------------------------------------- */

TEST readouts_are_a_kronecker_product(pu_int T, pu_int S, pu_int q, int add)
{
    enum { K = 3 };
    pu_real *C = tc_normal(1, q * S), *w = tc_random_positive(2, T * q), *weight = tc_normal(3, K), *work, *grad[2], *diag[2];
    pu_op op = pu_op_readouts(T, S, q, C), one = pu_op_identity(T), block = pu_op_dense(q, S, C);
    pu_op kron = pu_op_kronecker(&one, &block);
    pu_int rows = T * q, cols = T * S;
    uint64_t seed = 10;
    pu_block X = tc_random_block(&seed, cols, K, cols + 1), Y = tc_random_block(&seed, rows, K, rows + 2);
    pu_block forth[2], back[2];
    double eps = 4 * (double)(S + q) * PU_TEST_EPS;
    tc_set_case("T %d, S %d, q %d, add %d", (int)T, (int)S, (int)q, add);
    TC_ASSERT(op.rows == rows && op.cols == cols && op.params == q * S && op.band == S - 1);
    work = tc_reals(K * kron.work);
    for (int i = 0; i < 2; i++) {
        const pu_op *by = i ? &kron : &op;
        uint64_t same = 20;
        forth[i] = tc_random_block(&same, rows, K, rows);
        back[i] = tc_random_block(&same, cols, K, cols);
        grad[i] = tc_reals(q * S);
        diag[i] = tc_reals(cols);
        tc_fill(q * S, grad[i], 1);
        tc_fill(cols, diag[i], 1);
        TC_STATUS(by->apply(by, K, X, forth[i], add, work), PU_OK);
        TC_STATUS(by->apply_t(by, K, Y, back[i], add, work), PU_OK);
        TC_STATUS(by->grad(by, K, Y, X, weight, grad[i], work), PU_OK);
        TC_STATUS(by->gram_diag(by, w, diag[i], work), PU_OK);
    }
    /* numbers of order one, sums of S, q and T K of them */
    for (pu_int i = 0; i < rows * K; i++) TC_CLOSE(forth[0].at[i], forth[1].at[i], 10 * eps);
    for (pu_int i = 0; i < cols * K; i++) TC_CLOSE(back[0].at[i], back[1].at[i], 10 * eps);
    for (pu_int i = 0; i < q * S; i++) TC_CLOSE(grad[0][i], grad[1][i], 40 * (double)(T * K) * PU_TEST_EPS);
    for (pu_int i = 0; i < cols; i++) TC_CLOSE(diag[0][i], diag[1][i], 10 * eps * fabs((double)diag[1][i]));
    for (pu_int m = 0; m < rows; m++) {
        pu_real *row = tc_reals(S);
        pu_int first = -1;
        TC_ASSERT(op.row(&op, m, &first, row) == S && first == m / q * S);
        TC_ASSERT(memcmp(row, C + m % q * S, (size_t)S * sizeof *row) == 0);
    }
    PASS();
}

TEST readouts_of_no_size_are_refused(void)
{
    static const pu_int sizes[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {-1, 2, 2}, {3, 2, -2}};
    pu_real C = 1, psi = 1, y = 1;
    pu_op Gamma = pu_op_identity(1), op;
    pu_lgm lgm;
    pu_data data = pu_data_nan(1, 1, &y);
    double nll;
    pu_report report;
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma;
    lgm.Phi = &op;
    lgm.psi = &psi;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tc_set_case("sizes %d", (int)i);
        op = pu_op_readouts(sizes[i][0], sizes[i][1], sizes[i][2], &C);
        TC_ASSERT(pu_nll(&lgm, &data, NULL, NULL, &nll, NULL, &report) < 0);
    }
    op = pu_op_readouts(PTRDIFF_MAX / 2, 3, 3, &C);
    TC_ASSERT(op.params == PU_ZERO);
    op = pu_op_readouts(1, 1, 1, NULL);
    TC_STATUS(pu_nll(&lgm, &data, NULL, NULL, &nll, NULL, &report), PU_E_NULL);
    op = pu_op_readouts(1, 1, 1, &C);
    TC_STATUS(pu_nll(&lgm, &data, NULL, NULL, &nll, NULL, &report), PU_OK);
    PASS();
}

/* ---- the model -------------------------------------------------------------------------------- */

typedef struct {
    pu_int T, q, S;
    pu_ssm_start start;
} factor_case;

static const factor_case cases[] = {{1, 1, 1, PU_SSM_ZERO},       {1, 3, 1, PU_SSM_STATIONARY}, {6, 1, 2, PU_SSM_STATIONARY},
                                    {7, 2, 1, PU_SSM_ZERO},       {8, 3, 2, PU_SSM_STATIONARY}, {6, 2, 3, PU_SSM_GIVEN},
                                    {9, 4, 1, PU_SSM_STATIONARY}, {8, 3, 2, PU_SSM_DIFFUSE},    {7, 2, 2, PU_SSM_GIVEN},
                                    {10, 2, 1, PU_SSM_DIFFUSE}};
#define CASES ((int)(sizeof cases / sizeof *cases))

enum { N = 2 };

typedef struct {
    pu_model model;
    pu_real *theta, *y;
    pu_data data;
    pu_int offset[7]; /* A, C, L, d, log sigma2, m0, L0 */
} fitted;

static fitted *build(const factor_case *c)
{
    fitted *f = (fitted *)tc_bytes(sizeof *f);
    pu_int S = c->S, q = c->q, M = c->T * q, triangle = S * (S + 1) / 2, at = 0;
    pu_int sizes[7];
    memset(f, 0, sizeof *f);
    f->model.memory = tc_workspace();
    tc_set_case("T %d, q %d, S %d, start %d", (int)c->T, (int)q, (int)S, (int)c->start);
    if (pu_model_dynamic_factors(&f->model, c->T, q, S, c->start, NULL)) return NULL;
    sizes[0] = S * S, sizes[1] = q * S, sizes[2] = triangle, sizes[3] = sizes[4] = q, sizes[5] = S, sizes[6] = triangle;
    for (int i = 0; i < 7; i++) {
        f->offset[i] = at;
        at += sizes[i];
    }
    f->theta = tc_normal(31, at);
    f->y = tc_normal(32, N * M);
    for (pu_int i = 0; i < at; i++) f->theta[i] = (pu_real)(0.3 * (double)f->theta[i]);
    for (pu_int i = 0; i < S; i++) f->theta[i * (S + 1)] += PU_R(0.5) - (pu_real)i / 4;
    for (pu_int i = 0; i < q * S; i++) f->theta[f->offset[1] + i] += i % 2 ? -1 : 1;
    for (pu_int i = 2; i < N * M && c->T > 1; i += 4) f->y[i] = PU_R(NAN); /* entries, not steps */
    f->data = pu_data_nan(N, M, f->y);
    return f;
}

/* C = L L' of a lower triangle row by row, its diagonal as log */
static void square(pu_int S, const pu_real *theta, double *C)
{
    double L[9] = {0};
    for (pu_int i = 0; i < S; i++) {
        for (pu_int j = 0; j <= i; j++) {
            double x = (double)theta[i * (i + 1) / 2 + j];
            L[i * S + j] = i == j ? exp(x) : x;
        }
    }
    for (pu_int i = 0; i < S * S; i++) {
        C[i] = 0;
        for (pu_int k = 0; k < S; k++) C[i] += L[i / S * S + k] * L[i % S * S + k];
    }
}

/* out = A P A' + Q */
static void ahead(pu_int S, const double *A, const double *P, const double *Q, double *out)
{
    for (pu_int i = 0; i < S * S; i++) {
        out[i] = Q[i];
        for (pu_int k = 0; k < S * S; k++) out[i] += A[i / S * S + k / S] * P[k] * A[i % S * S + k % S];
    }
}

/* The mean over the data of -log p(y), from the mean and the covariance of all T q observations. */
static double covariance_nll(const factor_case *c, const fitted *f)
{
    pu_int S = c->S, q = c->q, T = c->T, M = T * q, SS = S * S;
    double A[9], Q[9], P[9], next[9], mean[3] = {0}, *V = tc_doubles(M * M), *eta = tc_doubles(M), sum = 0;
    const pu_real *C = f->theta + f->offset[1];
    for (pu_int i = 0; i < SS; i++) A[i] = (double)f->theta[i];
    square(S, f->theta + f->offset[2], Q);
    memcpy(P, Q, sizeof P);
    if (c->start == PU_SSM_GIVEN) {
        square(S, f->theta + f->offset[6], P);
        for (pu_int i = 0; i < S; i++) mean[i] = (double)f->theta[f->offset[5] + i];
    }
    for (int k = 0; k < 3000 && c->start == PU_SSM_STATIONARY; k++) {
        ahead(S, A, P, Q, next);
        memcpy(P, next, sizeof P);
    }
    for (pu_int t = 0; t < T; t++) {
        double cross[9], moved[3];
        memcpy(cross, P, sizeof cross); /* cov(z_u, z_t) */
        for (pu_int u = t; u < T; u++) {
            for (pu_int i = 0; i < q * q; i++) {
                pu_int row = u * q + i / q, col = t * q + i % q;
                double value = 0;
                for (pu_int k = 0; k < SS; k++)
                    value += (double)C[i / q * S + k / S] * cross[k] * (double)C[i % q * S + k % S];
                if (row == col) value += exp((double)f->theta[f->offset[4] + i % q]);
                V[row * M + col] = V[col * M + row] = value;
            }
            for (pu_int i = 0; i < SS; i++) {
                next[i] = 0;
                for (pu_int k = 0; k < S; k++) next[i] += A[i / S * S + k] * cross[k * S + i % S];
            }
            memcpy(cross, next, sizeof cross);
        }
        ahead(S, A, P, Q, next);
        memcpy(P, next, sizeof P);
        for (pu_int r = 0; r < q; r++) {
            eta[t * q + r] = (double)f->theta[f->offset[3] + r];
            for (pu_int k = 0; k < S; k++) eta[t * q + r] += (double)C[r * S + k] * mean[k];
        }
        tc_matvec(S, S, A, mean, moved);
        memcpy(mean, moved, (size_t)S * sizeof *mean);
    }
    for (pu_int n = 0; n < N; n++) {
        double *L = tc_doubles(M * M), *e = tc_doubles(M), *x = tc_doubles(M);
        pu_int *at = (pu_int *)tc_bytes((size_t)M * sizeof *at), count = 0;
        for (pu_int i = 0; i < M; i++) {
            if (f->y[n * M + i] == f->y[n * M + i]) at[count++] = i;
        }
        for (pu_int i = 0; i < count; i++) {
            x[i] = e[i] = (double)f->y[n * M + at[i]] - eta[at[i]];
            for (pu_int j = 0; j < count; j++) L[i * count + j] = V[at[i] * M + at[j]];
        }
        if (!tc_cholesky(count, L)) exit(2);
        tc_solve(count, L, x);
        for (pu_int i = 0; i < count; i++) sum += (e[i] * x[i] + log(2 * 3.14159265358979323846)) / 2 / N;
        sum += tc_logdet(count, L) / 2 / N;
    }
    return sum;
}

static const pu_engine engines[] = {PU_BANDED, PU_KALMAN, PU_DENSE, PU_DUAL};

/* Condition numbers are below 100 here. A diffuse start has no covariance; its engines are compared with each other. */
TEST likelihood_is_that_of_the_covariance(int which)
{
    const factor_case *c = &cases[which];
    fitted *f = build(c);
    int diffuse = c->start == PU_SSM_DIFFUSE;
    double want = 0;
    TC_ASSERT(f != NULL);
    if (!diffuse) want = covariance_nll(c, f);
    for (int i = 0; i < (diffuse ? 3 : 4); i++) {
        pu_options o;
        pu_report report;
        double nll;
        if (diffuse && engines[i] == PU_KALMAN) continue;
        memset(&o, 0, sizeof o);
        o.engine = engines[i];
        TC_STATUS(pu_model_nll(&f->model, f->theta, &f->data, &o, NULL, &nll, NULL, &report), PU_OK);
        if (diffuse && i == 0) want = nll;
        TC_CLOSE(nll, want, 1000 * PU_TEST_EPS * (fabs(want) + 1));
    }
    pu_model_free(&f->model);
    PASS();
}

TEST gradient_is_that_of_the_likelihood(int which, pu_engine engine)
{
    fitted *f = build(&cases[which]);
    pu_options o;
    pu_report report;
    pu_real *grad;
    double size = 0;
    TC_ASSERT(f != NULL);
    if (cases[which].start == PU_SSM_DIFFUSE && (engine == PU_KALMAN || engine == PU_DUAL)) SKIP();
    memset(&o, 0, sizeof o);
    o.engine = engine;
    o.kind = PU_EXACT;
    grad = tc_reals(f->model.params);
    TC_STATUS(pu_model_gradient(&f->model, f->theta, &f->data, &o, NULL, grad, NULL, &report), PU_OK);
    for (pu_int i = 0; i < f->model.params; i++) size = fmax(size, fabs((double)grad[i]));
    for (pu_int i = 0; i < f->model.params; i++) {
        double h = PU_TEST_PICK(1e-5, 1e-2), value[2]; /* third order: h^2; rounding of the values: eps nll / h */
        pu_real kept = f->theta[i];
        for (int k = 0; k < 2; k++) {
            f->theta[i] = kept + (pu_real)(k ? -h : h);
            TC_STATUS(pu_model_nll(&f->model, f->theta, &f->data, &o, NULL, value + k, NULL, &report), PU_OK);
        }
        f->theta[i] = kept;
        TC_CLOSE(grad[i], (value[0] - value[1]) / (2 * h), 30 * h * h * (1 + size) + 20 * PU_TEST_EPS * fabs(value[0]) / h);
    }
    pu_model_free(&f->model);
    PASS();
}

/* A missing entry is known by the others of its step: banded, Kalman and dense agree on mean and variance. */
TEST predictions_agree(int which)
{
    fitted *f = build(&cases[which]);
    pu_int M = cases[which].T * cases[which].q;
    pu_real *mean[2], *variance[2];
    TC_ASSERT(f != NULL);
    for (int i = 0; i < 3; i++) {
        pu_predict_result out;
        pu_options o;
        pu_report report;
        if (cases[which].start == PU_SSM_DIFFUSE && engines[i] == PU_KALMAN) continue;
        memset(&out, 0, sizeof out);
        memset(&o, 0, sizeof o);
        o.engine = engines[i];
        o.kind = PU_EXACT;
        out.mean = tc_reals(N * M);
        out.variance = tc_reals(N * M);
        TC_STATUS(pu_model_predict(&f->model, f->theta, &f->data, &o, NULL, &out, &report), PU_OK);
        mean[i > 0] = out.mean;
        variance[i > 0] = out.variance;
        for (pu_int j = 0; i > 0 && j < N * M; j++) {
            TC_CLOSE(mean[1][j], mean[0][j], 1000 * PU_TEST_EPS);
            TC_CLOSE(variance[1][j], variance[0][j], 1000 * PU_TEST_EPS * (double)variance[0][j]);
        }
    }
    pu_model_free(&f->model);
    PASS();
}

TEST entries_of_theta_have_names(void)
{
    fitted *f = build(&cases[5]); /* q 2, S 3, given */
    static const struct {
        int part;
        pu_int entry;
        const char *name;
    } names[] = {{0, 5, "A[1,2]"}, {1, 4, "C[1,1]"}, {2, 4, "L[2,1]"}, {3, 1, "d[1]"},
                 {4, 1, "sigma2[1]"}, {5, 2, "m0[2]"}, {6, 0, "L0[0,0]"}};
    TC_ASSERT(f != NULL && f->model.params == 9 + 6 + 6 + 2 + 2 + 3 + 6);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pu_param p;
        tc_set_case("name %d", (int)i);
        TC_STATUS(pu_model_param(&f->model, f->offset[names[i].part] + names[i].entry, &p), PU_OK);
        TC_ASSERT(strcmp(p.name, names[i].name) == 0);
        TC_ASSERT((p.scale == PU_SCALE_LOG) == (i == 4 || i == 6));
    }
    TC_ASSERT(pu_model_get_ssm(&f->model)->states == 3);
    pu_model_free(&f->model);
    PASS();
}

TEST bad_sizes_are_refused(void)
{
    static const struct {
        pu_int T, q, S;
        int start;
        pu_status want;
        const char *what;
    } bad[] = {{0, 2, 1, 0, PU_E_ARGUMENT, "steps"},  {5, 0, 1, 0, PU_E_ARGUMENT, "outputs"},
               {5, -3, 1, 0, PU_E_ARGUMENT, "outputs"}, {5, 2, 0, 0, PU_E_ARGUMENT, "states"},
               {5, 2, PTRDIFF_MAX, 0, PU_E_OVERFLOW, "states"}, {5, 2, 1, 4, PU_E_ARGUMENT, "start"},
               {PTRDIFF_MAX / 4, 99, 1, 0, PU_E_OVERFLOW, "steps"}};
    pu_report report;
    pu_model m;
    TC_STATUS(pu_model_dynamic_factors(NULL, 5, 2, 1, PU_SSM_ZERO, &report), PU_E_NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&m, 0, sizeof m);
        tc_set_case("sizes %d", (int)i);
        TC_STATUS(pu_model_dynamic_factors(&m, bad[i].T, bad[i].q, bad[i].S, (pu_ssm_start)bad[i].start, &report), bad[i].want);
        TC_ASSERT(tc_named(report.where.what, bad[i].what));
    }
    {
        fitted *f = build(&cases[4]);
        pu_real before;
        TC_ASSERT(f != NULL);
        TC_STATUS(pu_model_set(&f->model, f->theta, &report), PU_OK);
        before = f->model.lgm.psi[2];
        f->theta[f->offset[4] + 2] = PU_R(-1e4);
        TC_STATUS(pu_model_set(&f->model, f->theta, &report), PU_E_ARGUMENT);
        TC_ASSERT(report.where.index == f->offset[4] + 2 && f->model.lgm.psi[2] == before);
        pu_model_free(&f->model);
    }
    PASS();
}

/* ---- starts and fits -------------------------------------------------------------------------- */

static pu_data observed_nothing(pu_int M)
{
    pu_real *y = tc_reals(2 * M);
    tc_fill(2 * M, y, PU_R(NAN));
    return pu_data_nan(2, M, y);
}

/* Constant, missing, short data and more states than outputs have a start, at which there is a gradient. */
TEST odd_data_have_a_start(void)
{
    enum { T = 12 };
    for (int kind = 0; kind < 8; kind++) {
        pu_int q = kind % 2 ? 3 : 1, S = kind >= 4 ? 5 : 1, M = T * q;
        pu_model m;
        pu_data data = observed_nothing(M);
        pu_real *y = (pu_real *)(uintptr_t)data.y, *theta[2], *grad;
        pu_report report;
        memset(&m, 0, sizeof m);
        m.memory = tc_workspace();
        tc_set_case("kind %d", kind);
        TC_STATUS(pu_model_dynamic_factors(&m, T, q, S, PU_SSM_STATIONARY, &report), PU_OK);
        for (pu_int i = 0; i < M && kind % 4 >= 2; i += 2) y[i] = 7;
        for (int i = 0; i < 2; i++) {
            theta[i] = tc_reals(m.params);
            TC_STATUS(pu_model_start(&m, &data, 3, theta[i], &report), PU_OK);
        }
        TC_ASSERT(memcmp(theta[0], theta[1], (size_t)m.params * sizeof **theta) == 0);
        grad = tc_reals(m.params);
        TC_STATUS(pu_model_gradient(&m, theta[0], &data, NULL, NULL, grad, NULL, &report), PU_OK);
        pu_model_free(&m);
    }
    PASS();
}

/* One factor behind six outputs of different size and mean, a fifth of the entries missing: the start is near, and a fit
   finds loadings in units of the factor's innovations, A, means and noise. Errors are of order (T or fewer)^-1/2. */
TEST one_factor_is_found(void)
{
    enum { T = 1500, q = 6, M = T * q };
    static const double load[q] = {1, -2, 0.5, 30, 1.5, -0.25}, noise[q] = {1, 1, 0.5, 20, 2, 0.5};
    pu_model m;
    pu_real *y = tc_normal(50, M), *step = tc_normal(51, T), *theta;
    pu_data data = pu_data_nan(1, M, y);
    pu_fit_options o;
    pu_fit_report fit;
    pu_report report;
    double z = 0, size[2] = {0, 0}, along = 0, start_nll;
    memset(&m, 0, sizeof m);
    memset(&o, 0, sizeof o);
    m.memory = tc_workspace();
    tc_set_case("one factor");
    TC_STATUS(pu_model_dynamic_factors(&m, T, q, 1, PU_SSM_STATIONARY, &report), PU_OK);
    theta = tc_reals(m.params);
    for (int t = 0; t < T; t++) {
        z = 0.8 * z + (double)step[t];
        for (int r = 0; r < q; r++) {
            pu_real *at = y + t * q + r;
            *at = (pu_real)(noise[r] * (double)*at + load[r] * z + 5 * r);
            if (tc_hash((uint64_t)(t * q + r)) % 5 == 0) *at = PU_R(NAN);
        }
    }
    TC_STATUS(pu_model_start(&m, &data, 1, theta, &report), PU_OK);
    for (int r = 0; r < q; r++) { /* loadings in units of the noise */
        double at = (double)theta[1 + r] / noise[r], want = load[r] / noise[r];
        along += at * want;
        size[0] += at * at;
        size[1] += want * want;
    }
    TC_ASSERT(fabs(along) / sqrt(size[0] * size[1]) > 0.95);
    TC_CLOSE(theta[0], 0.8, 0.15);
    TC_STATUS(pu_model_nll(&m, theta, &data, NULL, NULL, &start_nll, NULL, &report), PU_OK);
    o.steps = 200;
    {
        pu_status status = pu_fit(&m, &data, &o, NULL, theta, &fit);
        TC_ASSERT(status == PU_OK || status == PU_INEXACT || status == PU_CAP);
    }
    TC_ASSERT(fit.best < start_nll);
    TC_CLOSE(theta[0], 0.8, 0.06);
    for (int r = 0; r < q; r++) {
        double scale = exp((double)theta[1 + q]) * (along < 0 ? -1 : 1);
        TC_CLOSE((double)theta[1 + r] * scale, load[r], 0.12 * (fabs(load[r]) + noise[r]));
        TC_CLOSE(theta[2 + q + r], 5 * r, 0.2 * (fabs(load[r]) * 2.5 + noise[r]));
        TC_CLOSE(exp((double)theta[2 + 2 * q + r] / 2), noise[r], 0.15 * noise[r]);
    }
    pu_model_free(&m);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const pu_int sizes[][3] = {{1, 1, 1}, {1, 3, 2}, {5, 1, 4}, {7, 2, 1}, {70, 3, 5}, {130, 9, 2}, {64, 17, 3}};
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        RUN_TESTp(readouts_are_a_kronecker_product, sizes[i][0], sizes[i][1], sizes[i][2], 0);
        RUN_TESTp(readouts_are_a_kronecker_product, sizes[i][0], sizes[i][1], sizes[i][2], 1);
    }
    RUN_TEST(readouts_of_no_size_are_refused);
    for (int i = 0; i < CASES; i++) {
        RUN_TESTp(likelihood_is_that_of_the_covariance, i);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_BANDED);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_KALMAN);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_DENSE);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_DUAL);
        RUN_TESTp(predictions_agree, i);
    }
    RUN_TEST(entries_of_theta_have_names);
    RUN_TEST(bad_sizes_are_refused);
    RUN_TEST(odd_data_have_a_start);
    RUN_TEST(one_factor_is_found);
    PU_TEST_MAIN_END();
}

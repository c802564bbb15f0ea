/* test_fields.c - pu_model_field: fields on a grid with noise and gaps, by exact engines and by probes. */
#include "pu_test.h"
#include "test_common.h"

/* A simulated field of a x b points, every third one and a block missing. */
typedef struct {
    pu_model model;
    pu_data data;
    pu_real theta[4], *y;
} seen;

static void see(seen *s, pu_int a, pu_int b, int alpha, int intrinsic, uint64_t seed)
{
    const pu_int size[2] = {a, b};
    static const pu_real truth[4] = {PU_R(0.4), PU_R(-1.2), PU_R(1.5), PU_R(-1.6)};
    pu_model proper;
    pu_real *z = tc_reals(a * b);
    memset(s, 0, sizeof *s);
    memset(&proper, 0, sizeof proper);
    s->y = tc_reals(a * b);
    if (pu_model_field(&proper, 2, size, NULL, alpha, 0, NULL)) exit(2);
    if (pu_model_simulate(&proper, truth, 1, seed, NULL, z, s->y, NULL)) exit(2);
    pu_model_free(&proper);
    if (pu_model_field(&s->model, 2, size, NULL, alpha, intrinsic, NULL)) exit(2);
    memcpy(s->theta, truth, sizeof s->theta);
    if (intrinsic) s->theta[1] = truth[3];
    for (pu_int i = 0; i < a * b; i++)
        if (i % 3 == 1 || (i / b < 3 && i % b < 3)) s->y[i] = PU_R(NAN);
    s->data = pu_data_nan(1, a * b, s->y);
    tc_set_case("%d x %d, alpha %d, %s", (int)a, (int)b, alpha, intrinsic ? "intrinsic" : "proper");
}

#define EACH_MODEL(alpha, intrinsic)               \
    for (int alpha = 1; alpha <= 2; alpha++)       \
        for (int intrinsic = 0; intrinsic < 2; intrinsic++)

static pu_options probes(pu_int K, double tolerance)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.engine = PU_ITERATIVE;
    o.kind = PU_MONTE_CARLO;
    o.samples = K;
    o.solve.solver = PU_PCG;
    o.solve.tolerance = tolerance;
    return o;
}

static pu_options exact(pu_engine engine)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.engine = engine;
    o.kind = PU_EXACT;
    return o;
}

/* Differences of the exact NLL; h^2 times a third derivative of order n, and the rounding of the NLL over h. */
TEST the_exact_gradient_is_that_of_the_likelihood(void)
{
    double h = PU_TEST_PICK(1e-4, 3e-2);
    EACH_MODEL(alpha, intrinsic)
    {
        seen s;
        pu_real grad[4];
        pu_options o = exact(PU_BANDED);
        pu_report r;
        see(&s, 9, 7, alpha, intrinsic, 1);
        TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, grad, NULL, &r), PU_OK);
        for (pu_int i = 0; i < s.model.params; i++) {
            double nll[2] = {0, 0};
            for (int d = 0; d < 2; d++) {
                pu_real theta[4];
                memcpy(theta, s.theta, sizeof theta);
                theta[i] += (pu_real)(d ? h : -h);
                TC_STATUS(pu_model_nll(&s.model, theta, &s.data, &o, NULL, nll + d, NULL, &r), PU_OK);
            }
            TC_CLOSE(grad[i], (nll[1] - nll[0]) / (2 * h), 63 * h * h + 100 * PU_TEST_EPS * 63 / h);
        }
        pu_model_free(&s.model);
    }
    PASS();
}

#ifdef PU_USE_CHOLMOD
/* Likelihood, gradient, mean and variances by CHOLMOD against dense, edges of both kinds, one to three axes. The condition of A, as the
   engines tell it, is below 1e4 here; CHOLMOD works in double, dense in pu_real. */
TEST cholmod_has_the_numbers_of_dense(void)
{
    static const struct {
        int axes;
        pu_int size[3];
        pu_edge edge[3];
    } grids[] = {{2, {32, 32, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
                 {2, {7, 12, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
                 {2, {2, 2, 0}, {PU_EDGE_PERIODIC, PU_EDGE_PERIODIC, PU_EDGE_PERIODIC}},
                 {1, {40, 0, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
                 {1, {2, 0, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
                 {3, {4, 5, 6}, {PU_EDGE_NEUMANN, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}}};
    double tol = 1e4 * PU_TEST_EPS;
    for (size_t shape = 0; shape < sizeof grids / sizeof *grids; shape++)
        EACH_MODEL(alpha, intrinsic)
        {
            pu_model model;
            pu_posterior_result post[2] = {{0}, {0}};
            pu_real theta[4] = {PU_R(0.4), PU_R(-1.2), PU_R(1.5), PU_R(-1.6)}, grad[2][4];
            pu_int n = 1;
            double nll[2] = {0, 0}, size = 1;
            pu_report r;
            for (int a = 0; a < grids[shape].axes; a++) n *= grids[shape].size[a];
            if (n < 4 && intrinsic) continue; /* nothing would be observed beside the flat direction */
            pu_real *y = tc_normal(40 + shape, n);
            for (pu_int i = 0; i < n; i++)
                if (i % 3 == 1) y[i] = PU_R(NAN);
            pu_data data = pu_data_nan(1, n, y);
            memset(&model, 0, sizeof model);
            tc_set_case("grid %d, alpha %d, %s", (int)shape, alpha, intrinsic ? "intrinsic" : "proper");
            TC_STATUS(pu_model_field(&model, grids[shape].axes, grids[shape].size, grids[shape].edge, alpha, intrinsic, &r), PU_OK);
            for (int e = 0; e < 2; e++) {
                pu_options o = exact(e ? PU_CHOLMOD : PU_DENSE);
                post[e].mean = tc_reals(n);
                post[e].variance = tc_reals(n);
                TC_STATUS(pu_model_gradient(&model, theta, &data, &o, NULL, grad[e], NULL, &r), PU_OK);
                TC_ASSERT(r.served[o.engine] == 1);
                nll[e] = r.nll;
                TC_STATUS(pu_model_posterior(&model, theta, &data, &o, NULL, &post[e], &r), PU_OK);
            }
            TC_CLOSE(nll[1], nll[0], tol * fabs(nll[0]));
            for (pu_int i = 0; i < model.params; i++) size += fabs((double)grad[0][i]) + (double)n / 2;
            for (pu_int i = 0; i < model.params; i++) TC_CLOSE(grad[1][i], grad[0][i], tol * size);
            for (pu_int i = 0; i < n; i++) {
                TC_CLOSE(post[1].mean[i], post[0].mean[i], tol * 5);
                TC_CLOSE(post[1].variance[i], post[0].variance[i], tol * (double)post[0].variance[i]);
            }
            pu_model_free(&model);
        }
    PASS();
}
#else
TEST cholmod_is_refused_where_it_is_not_compiled_in(void)
{
    seen s;
    pu_options o = exact(PU_CHOLMOD);
    pu_report r;
    pu_real grad[4];
    see(&s, 5, 4, 2, 0, 1);
    TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, grad, NULL, &r), PU_E_UNSUPPORTED);
    TC_ASSERT(strstr(r.where.what, "PU_USE_CHOLMOD"));
    pu_model_free(&s.model);
    PASS();
}
#endif

/* SSOR and the incomplete factor of a field's A: the mean is dense's, the likelihood within its interval, and steps are fewer than with
   none. */
TEST preconditioners_are_made_of_a_field(void)
{
    static const pu_precond made[] = {PU_PRECOND_SSOR, PU_PRECOND_INCOMPLETE};
    EACH_MODEL(alpha, intrinsic)
    {
        seen s;
        pu_int n = 15 * 13;
        pu_options dense = exact(PU_DENSE);
        pu_posterior_result want = {0};
        pu_report r;
        double nll = 0;
        see(&s, 15, 13, alpha, intrinsic, 3);
        want.mean = tc_reals(n);
        TC_STATUS(pu_model_posterior(&s.model, s.theta, &s.data, &dense, NULL, &want, &r), PU_OK);
        TC_STATUS(pu_model_nll(&s.model, s.theta, &s.data, &dense, NULL, &nll, NULL, &r), PU_OK);
        for (int k = 0; k < 2; k++) {
            pu_options o = probes(200, PU_TEST_PICK(1e-10, 1e-5));
            pu_posterior_result got = {0};
            double there = 0, se = 0;
            got.mean = tc_reals(n);
            o.solve.preconditioner = made[k];
            o.solve.compare = 1;
            TC_STATUS(pu_model_nll(&s.model, s.theta, &s.data, &o, NULL, &there, &se, &r), PU_OK);
            TC_CLOSE(there, nll, 4 * se + r.nll_gap + PU_TEST_PICK(1e-8, 1e-2));
            TC_ASSERT(strstr(r.plan, "A as a sparse matrix"));
            TC_ASSERT(r.steps_with < r.steps_without);
            TC_STATUS(pu_model_posterior(&s.model, s.theta, &s.data, &o, NULL, &got, &r), PU_OK);
            for (pu_int i = 0; i < n; i++) TC_CLOSE(got.mean[i], want.mean[i], PU_TEST_PICK(1e-8, 1e-3));
        }
        pu_model_free(&s.model);
    }
    PASS();
}

/* Mean and variance of z by PCG with the model's M against dense, and the NLL within its error. In float the tolerance of the
   solver, 1e-5, is what counts; 600 probes leave (2 / 600)^1/2 = 6 % of a variance. */
TEST moments_by_the_preconditioner_are_those_of_dense(void)
{
    EACH_MODEL(alpha, intrinsic)
    {
        seen s;
        pu_int n = 11 * 8;
        pu_options dense = exact(PU_DENSE), o = probes(600, PU_TEST_PICK(1e-10, 1e-5));
        pu_posterior_result want = {0}, got = {0};
        pu_report r;
        double nll[2] = {0, 0}, se = 0, worst = 0;
        see(&s, 11, 8, alpha, intrinsic, 2);
        want.mean = tc_reals(n);
        want.variance = tc_reals(n);
        got.mean = tc_reals(n);
        got.variance = tc_reals(n);
        TC_STATUS(pu_model_posterior(&s.model, s.theta, &s.data, &dense, NULL, &want, &r), PU_OK);
        TC_STATUS(pu_model_posterior(&s.model, s.theta, &s.data, &o, NULL, &got, &r), PU_OK);
        for (pu_int i = 0; i < n; i++) {
            double off = fabs((double)got.variance[i] / (double)want.variance[i] - 1);
            TC_CLOSE(got.mean[i], want.mean[i], PU_TEST_PICK(1e-8, 1e-3));
            worst = off > worst ? off : worst;
        }
        TC_ASSERT(worst < 5 * sqrt(2.0 / 600));
        TC_STATUS(pu_model_nll(&s.model, s.theta, &s.data, &dense, NULL, nll, NULL, &r), PU_OK);
        TC_STATUS(pu_model_nll(&s.model, s.theta, &s.data, &o, NULL, nll + 1, &se, &r), PU_OK);
        TC_ASSERT(r.nll_converged);
        TC_CLOSE(nll[1], nll[0], 4 * se + r.nll_gap + PU_TEST_PICK(1e-8, 1e-2));
        pu_model_free(&s.model);
    }
    PASS();
}

/* Gradients by probes, with the control variate and without: both within 4 of their standard errors, and the variance of log
   tau's at least four times smaller with it. */
TEST the_control_variate_changes_the_variance_alone(void)
{
    EACH_MODEL(alpha, intrinsic)
    {
        seen s;
        pu_options o = exact(PU_BANDED);
        pu_report r;
        pu_real want[4], got[4], se[2][4];
        see(&s, 24, 20, alpha, intrinsic, 3);
        s.theta[0] += 2; /* smoother, where most directions are the prior's */
        TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, want, NULL, &r), PU_OK);
        o = probes(64, PU_TEST_PICK(1e-8, 1e-5));
        o.groups = 32;
        for (int plain = 0; plain < 2; plain++) {
            o.no_control_variate = plain;
            TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, got, se[plain], &r), PU_OK);
            for (pu_int i = 0; i < s.model.params; i++)
                TC_CLOSE(got[i], want[i], 4 * (double)se[plain][i] + PU_TEST_PICK(1e-5, 2e-2) * (1 + fabs((double)want[i])));
        }
        TC_ASSERT(se[0][0] > 0 && 2 * se[0][0] < se[1][0]);
        pu_model_free(&s.model);
    }
    PASS();
}

/* A mean over 200 seeds has a fourteenth of the standard error: a bias would show. */
TEST gradients_with_the_control_variate_are_unbiased(void)
{
    enum { SEEDS = 200 };
    seen s;
    pu_options o = exact(PU_BANDED);
    pu_report r;
    pu_real want[4], got[4];
    double sum[4] = {0}, square[4] = {0};
    see(&s, 12, 10, 2, 0, 4);
    TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, want, NULL, &r), PU_OK);
    o = probes(4, PU_TEST_PICK(1e-8, 1e-5));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        o.seed = seed;
        TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, got, NULL, &r), PU_OK);
        for (int i = 0; i < 4; i++) {
            sum[i] += (double)got[i] / SEEDS;
            square[i] += (double)got[i] * (double)got[i] / SEEDS;
        }
    }
    for (int i = 0; i < 4; i++) {
        double spread = square[i] > sum[i] * sum[i] ? sqrt((square[i] - sum[i] * sum[i]) / SEEDS) : 0;
        TC_CLOSE(sum[i], want[i], 3.5 * spread + PU_TEST_PICK(1e-6, 1e-3) * (1 + fabs((double)want[i])));
    }
    pu_model_free(&s.model);
    PASS();
}

/* Same seed, same bits, however many threads: the control variate is part of that. */
TEST threads_do_not_show(void)
{
    seen s;
    pu_options o = probes(6, PU_TEST_PICK(1e-6, 1e-4));
    pu_report r;
    pu_real one[4], four[4];
    see(&s, 15, 13, 2, 0, 5);
    o.threads = 1;
    TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, one, NULL, &r), PU_OK);
    o.threads = 4;
    TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, four, NULL, &r), PU_OK);
    ASSERT(memcmp(one, four, sizeof one) == 0);
    pu_model_free(&s.model);
    PASS();
}

/* Where nothing is missing M is A: a step, and no variance at all. */
TEST a_field_without_gaps_takes_a_step(void)
{
    seen s;
    pu_options o = probes(4, PU_TEST_PICK(1e-8, 1e-4));
    pu_report r;
    pu_real grad[4], se[4], *z = tc_reals(80);
    see(&s, 10, 8, 2, 0, 6);
    TC_STATUS(pu_model_simulate(&s.model, s.theta, 1, 6, NULL, z, s.y, &r), PU_OK);
    o.solve.compare = 1;
    TC_STATUS(pu_model_gradient(&s.model, s.theta, &s.data, &o, NULL, grad, se, &r), PU_OK);
    ASSERT(r.steps_with <= 2 && r.steps_without > 5);
    for (int i = 0; i < 4; i++) TC_CLOSE(se[i], 0, PU_TEST_PICK(1e-6, 0.05)); /* the tolerance times sums of 80 */
    ASSERT(r.nll_se < PU_TEST_PICK(1e-6, 0.05));
    pu_model_free(&s.model);
    PASS();
}

/* A start from the data: within a factor of 2.5 of kappa and of the field's variance, 2 of the noise. */
TEST starts_are_near_the_truth(void)
{
    for (int alpha = 1; alpha <= 2; alpha++) {
        const pu_int size[2] = {90, 80}, n = 7200;
        pu_model m;
        pu_real truth[4] = {alpha == 1 ? PU_R(0.3) : PU_R(1.2), alpha == 1 ? PU_R(-2) : PU_R(-1.5), PU_R(-3), PU_R(-2.5)}, theta[4], masked[4];
        pu_real *z = tc_reals(n), *y = tc_reals(n);
        unsigned char *mask = (unsigned char *)tc_bytes((size_t)n);
        pu_int *index = (pu_int *)tc_bytes((size_t)n * sizeof *index), start[2] = {0, 0};
        pu_data data;
        pu_report r;
        double want = 0, got = 0;
        tc_set_case("alpha %d", alpha);
        memset(&m, 0, sizeof m);
        TC_STATUS(pu_model_field(&m, 2, size, NULL, alpha, 0, &r), PU_OK);
        TC_STATUS(pu_model_simulate(&m, truth, 1, 11, NULL, z, y, &r), PU_OK);
        pu_lattice_moments(pu_model_get_field(&m), &want, NULL, NULL);
        for (pu_int i = 0; i < n; i++) {
            mask[i] = tc_hash((uint64_t)i) % 5 > 1;
            if (!mask[i]) y[i] = PU_R(NAN);
        }
        data = pu_data_nan(1, n, y);
        TC_STATUS(pu_model_start(&m, &data, 0, theta, &r), PU_OK);
        TC_STATUS(pu_model_set(&m, theta, &r), PU_OK);
        pu_lattice_moments(pu_model_get_field(&m), &got, NULL, NULL);
        TC_CLOSE(log(got / want), 0, log(2.5));
        TC_CLOSE(theta[1], truth[1], log(2.5));
        TC_CLOSE(theta[2], truth[2], 1);
        TC_CLOSE(theta[3], truth[3], log(2.0));
        /* however the gaps are written */
        data = pu_data_masked(1, n, y, mask);
        TC_STATUS(pu_model_start(&m, &data, 0, masked, &r), PU_OK);
        TC_ASSERT(memcmp(masked, theta, sizeof theta) == 0);
        for (pu_int i = 0; i < n; i++)
            if (mask[i]) {
                index[start[1]] = i;
                y[start[1]++] = y[i];
            }
        data = pu_data_lists(1, n, start, index, y);
        TC_STATUS(pu_model_start(&m, &data, 0, masked, &r), PU_OK);
        TC_ASSERT(memcmp(masked, theta, sizeof theta) == 0);
        pu_model_free(&m);
    }
    PASS();
}

/* Starts of poor data are finite and accepted: nothing observed, one point, a constant, no two neighbours; also intrinsic. */
TEST starts_of_poor_data_are_accepted(void)
{
    EACH_MODEL(alpha, intrinsic)
    {
        for (int kind = 0; kind < 5; kind++) {
            seen s;
            pu_real theta[4];
            pu_report r;
            see(&s, 6, 5, alpha, intrinsic, 7);
            for (pu_int i = 0; i < 30; i++) {
                pu_real y = kind == 2 ? PU_R(7) : s.y[i];
                if (kind == 0 || (kind == 1 && i != 12) || (kind == 3 && i % 10 != 2)) y = PU_R(NAN);
                if (kind == 4) y = PU_R(PU_TEST_PICK(1e150, 1e18f)) * (pu_real)(i % 7);
                s.y[i] = y;
            }
            tc_set_case("alpha %d, intrinsic %d, kind %d", alpha, intrinsic, kind);
            TC_STATUS(pu_model_start(&s.model, &s.data, 0, theta, &r), PU_OK);
            for (pu_int i = 0; i < s.model.params; i++) TC_ASSERT(theta[i] - theta[i] == 0);
            TC_STATUS(pu_model_set(&s.model, theta, &r), PU_OK);
            pu_model_free(&s.model);
        }
    }
    PASS();
}

TEST entries_of_theta_have_names(void)
{
    static const char *const names[2][4] = {{"tau", "kappa", "mean", "var.noise"}, {"tau", "var.noise", "", ""}};
    for (int intrinsic = 0; intrinsic < 2; intrinsic++) {
        seen s;
        pu_param param;
        see(&s, 4, 3, 2, intrinsic, 8);
        ASSERT_EQ(s.model.params, intrinsic ? 2 : 4);
        for (pu_int i = 0; i < s.model.params; i++) {
            TC_STATUS(pu_model_param(&s.model, i, &param), PU_OK);
            ASSERT_STR_EQ(names[intrinsic][i], param.name);
            ASSERT(param.linear == (i == 2) && (param.scale == PU_SCALE_FREE) == (i == 2));
        }
        ASSERT_STR_EQ(intrinsic ? "intrinsic field of order 2 {4 x 3}" : "field of order 2 {4 x 3}", s.model.name);
        pu_model_free(&s.model);
    }
    PASS();
}

/* A fit by probes ends where the exact one does, up to what 32 probes leave: half of a standard error. */
TEST a_fit_by_probes_ends_near_the_exact_one(void)
{
    seen s;
    pu_fit_options fit;
    pu_fit_report r;
    pu_report report;
    pu_real want[4], got[4], se[4];
    see(&s, 26, 22, 2, 0, 9);
    memset(&fit, 0, sizeof fit);
    fit.optimizer = PU_LBFGS;
    fit.gradient = exact(PU_BANDED);
    TC_STATUS(pu_model_start(&s.model, &s.data, 0, want, &report), PU_OK);
    memcpy(got, want, sizeof got);
    TC_STATUS(pu_fit(&s.model, &s.data, &fit, NULL, want, &r), PU_OK);
    TC_STATUS(pu_fit_errors(&s.model, &s.data, &fit.gradient, NULL, want, se, &report), PU_OK);
    fit.gradient = probes(32, PU_TEST_PICK(1e-6, 1e-4));
    fit.fixed_probes = 1;
    TC_STATUS(pu_fit(&s.model, &s.data, &fit, NULL, got, &r), PU_OK);
    ASSERT(r.gradients < 80);
    for (int i = 0; i < 4; i++) TC_CLOSE(got[i], want[i], 0.5 * (double)se[i]);
    pu_model_free(&s.model);
    PASS();
}

TEST what_makes_no_model_is_refused(void)
{
    const pu_int size[3] = {4, 3, 2}, none[2] = {4, 0}, one[1] = {1};
    pu_real theta[4] = {0, 0, 0, 0};
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    TC_STATUS(pu_model_field(&m, 2, NULL, NULL, 2, 0, &r), PU_E_NULL);
    TC_STATUS(pu_model_field(NULL, 2, size, NULL, 2, 0, &r), PU_E_NULL);
    TC_STATUS(pu_model_field(&m, 2, none, NULL, 2, 0, &r), PU_E_SIZE);
    ASSERT_EQ(r.where.index, 1);
    TC_STATUS(pu_model_field(&m, 4, size, NULL, 2, 0, &r), PU_E_ARGUMENT);
    TC_STATUS(pu_model_field(&m, 2, size, NULL, 3, 0, &r), PU_E_ARGUMENT);
    TC_STATUS(pu_model_field(&m, 1, one, NULL, 2, 1, &r), PU_E_ARGUMENT);
    TC_STATUS(pu_model_field(&m, 3, size, NULL, 1, 0, &r), PU_OK);
    ASSERT(pu_model_get_field(&m) && pu_model_get_field(&m)->n == 24 && !pu_model_get_ar(&m));
    for (int i = 0; i < 4; i++) {
        if (i == 2) continue;
        theta[i] = 1000;
        TC_STATUS(pu_model_set(&m, theta, &r), PU_E_ARGUMENT);
        ASSERT_EQ(r.where.index, i);
        theta[i] = 0;
    }
    TC_STATUS(pu_model_set(&m, theta, &r), PU_OK);
    pu_model_free(&m);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(the_exact_gradient_is_that_of_the_likelihood);
#ifdef PU_USE_CHOLMOD
    RUN_TEST(cholmod_has_the_numbers_of_dense);
#else
    RUN_TEST(cholmod_is_refused_where_it_is_not_compiled_in);
#endif
    RUN_TEST(preconditioners_are_made_of_a_field);
    RUN_TEST(moments_by_the_preconditioner_are_those_of_dense);
    RUN_TEST(the_control_variate_changes_the_variance_alone);
    RUN_TEST(gradients_with_the_control_variate_are_unbiased);
    RUN_TEST(threads_do_not_show);
    RUN_TEST(a_field_without_gaps_takes_a_step);
    RUN_TEST(starts_are_near_the_truth);
    RUN_TEST(starts_of_poor_data_are_accepted);
    RUN_TEST(entries_of_theta_have_names);
    RUN_TEST(a_fit_by_probes_ends_near_the_exact_one);
    RUN_TEST(what_makes_no_model_is_refused);
    PU_TEST_MAIN_END();
}

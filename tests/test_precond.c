/* test_precond.c - preconditioners that are operators, the caller's (options.solve.M, model.M) and those made of A where
   it is a sparse matrix. The oracle is dense algebra in double: A = Gamma + Phi'W Phi of each datum, its Cholesky factor, and the exact engine. */
#include "pu_test.h"
#include "test_common.h"
#include "field_models.h"

/* ---- an M as a user writes it: solve and logdet, and nothing else -------------------------------------- */

typedef struct {
    pu_int n;
    const double *factor; /* lower, n x n */
    double scale;         /* M = scale L L' */
    int fails, logdet_fails;
    double spoil; /* added to entry (0, 1) of M^-1 */
} user_m;

static pu_status user_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    const user_m *m = (const user_m *)op->data;
    pu_int n = m->n, i, j;
    double *x = (double *)malloc((size_t)n * sizeof *x);
    (void)work;
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) x[i] = (double)X.at[j * X.ld + i];
        tc_solve(n, m->factor, x);
        for (i = 0; i < n; i++) Y.at[j * Y.ld + i] = (pu_real)(x[i] / m->scale);
        if (m->spoil != 0) Y.at[j * Y.ld] += (pu_real)m->spoil * X.at[j * X.ld + 1];
    }
    free(x);
    return m->fails ? PU_E_OPERATOR : PU_OK;
}

static pu_status user_logdet(const pu_op *op, double *value, pu_real *work)
{
    const user_m *m = (const user_m *)op->data;
    (void)work;
    *value = (double)m->n * log(m->scale) + tc_logdet(m->n, m->factor);
    return m->logdet_fails ? PU_E_OPERATOR : PU_OK;
}

static pu_op user_op(const user_m *m)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = op.cols = m->n;
    op.data = m;
    op.solve = user_solve;
    op.logdet = user_logdet;
    return op;
}

/* ---- a model and the A of its first datum --------------------------------------------------------------- */

typedef struct {
    tc_model t;
    double *A, *factor; /* D x D: of datum 0, and its Cholesky factor */
    user_m m;           /* M = A of datum 0 */
    pu_op M;
} problem;

/* A of datum n in double. */
static double *posterior_precision(const tc_model *t, pu_int n)
{
    pu_int D = t->D, i, j, l;
    double *a = tc_doubles(D * D);
    for (i = 0; i < D * D; i++) a[i] = (double)t->gamma[i];
    for (l = 0; l < t->M; l++) {
        const pu_real *row = t->phi + l * D;
        if (!t->mask[n * t->M + l]) continue;
        for (i = 0; i < D; i++)
            for (j = 0; j < D; j++) a[i * D + j] += (double)t->psi[l] * (double)row[i] * (double)row[j];
    }
    return a;
}

static void make_problem(problem *p, pu_int D, pu_int M, pu_int N, uint64_t seed)
{
    tc_random_model(&p->t, TC_SPD, D, M, N, seed);
    p->A = posterior_precision(&p->t, 0);
    p->factor = tc_doubles(D * D);
    memcpy(p->factor, p->A, (size_t)(D * D) * sizeof(double));
    if (!tc_cholesky(D, p->factor)) exit(2);
    memset(&p->m, 0, sizeof p->m);
    p->m.n = D;
    p->m.factor = p->factor;
    p->m.scale = 1;
    p->M = user_op(&p->m);
}

/* Probes sqrt(D) L e_k for datum n, k = 1 .. D: the mean of sigma sigma' over them is Sigma itself. */
static pu_real *unit_probes(const tc_model *t)
{
    pu_int D = t->D, n, i, k;
    pu_real *delta = tc_reals(t->N * D * D);
    for (n = 0; n < t->N; n++) {
        double *a = posterior_precision(t, n);
        if (!tc_cholesky(D, a)) exit(2);
        for (k = 0; k < D; k++)
            for (i = 0; i < D; i++)
                delta[(n * D + k) * D + i] = (pu_real)(i < k ? 0 : sqrt((double)D) * a[i * D + k]);
    }
    return delta;
}

static pu_options pcg_options(const pu_op *M, pu_kind kind)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.engine = PU_ITERATIVE;
    o.solve.solver = PU_PCG;
    o.solve.M = M;
    return o;
}

/* ---- solves ---------------------------------------------------------------------------------------------- */

/* With M = A one step is the solution; with A = M + (rank r) CG ends after r + 1 steps, since M^-1 A has r + 1
   different eigenvalues. In floating point one step more may be taken to get below the tolerance. */
TEST steps_are_those_of_the_spectrum_of_M_inverse_A(void)
{
    enum { N = 40, K = 3, RANK = 4 };
    pu_real *a = tc_random_spd(1, N), *v = tc_normal(2, N * RANK), *u = tc_normal(3, N * K), *x = tc_reals(N * K);
    double *l = tc_doubles(N * N), *want = tc_doubles(N);
    pu_op A = pu_op_spd(N, a, NULL), M;
    pu_column columns[K];
    pu_solve_options o;
    pu_report report;
    user_m m = {N, NULL, 1, 0, 0, 0};
    pu_int i, j, rank;
    for (rank = 0; rank <= RANK; rank += RANK) {
        tc_set_case("rank %d", (int)rank);
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++) l[i * N + j] = (double)a[i * N + j];
        tc_cholesky(N, l);
        m.factor = l;
        M = user_op(&m);
        for (i = 0; i < N; i++) /* A = M + 100 V V' */
            for (j = 0; j < N; j++) {
                double sum = (double)a[i * N + j];
                pu_int s;
                for (s = 0; s < rank; s++) sum += 100 * (double)v[i * RANK + s] * (double)v[j * RANK + s];
                a[i * N + j] = (pu_real)sum;
            }
        for (i = 0; i < N; i++)
            for (j = 0; j < i; j++) a[i * N + j] = a[j * N + i];
        memset(&o, 0, sizeof o);
        o.solver = PU_PCG;
        o.M = &M;
        o.tolerance = PU_TEST_PICK(1e-9, 1e-3);
        o.compare = 1;
        TC_STATUS(tc_pu_solve(&A, K, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, columns, &report), PU_OK);
        for (j = 0; j < K; j++) {
            TC_ASSERT(columns[j].stop == PU_STOP_TOLERANCE);
            TC_ASSERT(columns[j].steps >= rank + 1 && columns[j].steps <= rank + 2);
        }
        TC_ASSERT(report.steps_with == columns[0].steps);
        TC_ASSERT(report.steps_without > 2 * report.steps_with);
        /* |x - A^-1 u| <= tolerance |u| |A^-1| and A >= I */
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++) l[i * N + j] = (double)a[i * N + j];
        tc_cholesky(N, l);
        for (i = 0; i < N; i++) want[i] = (double)u[i];
        tc_solve(N, l, want);
        for (i = 0; i < N; i++) TC_CLOSE(x[i], want[i], 10 * o.tolerance * columns[0].rhs);
    }
    PASS();
}

/* An operator that is a diagonal does what the diagonal does: the same recurrence, sums of the same terms. With few steps
   the two differ by rounding alone, which conditions of about 10 enlarge little. */
TEST a_diagonal_operator_is_the_diagonal(void)
{
    enum { N = 61, K = 5, STEPS = 6 };
    pu_real *a = tc_random_spd(5, N), *d = tc_random_positive(6, N), *m = tc_reals(N), *u = tc_normal(7, N * K);
    pu_real *x = tc_reals(N * K), *y = tc_reals(N * K), *x0 = tc_normal(8, N * K);
    pu_op A = pu_op_spd(N, a, NULL), M = pu_op_diagonal(N, d);
    pu_solve_options o;
    int warm;
    pu_int i;
    for (i = 0; i < N; i++) m[i] = 1 / d[i];
    for (warm = 0; warm < 2; warm++) {
        memset(&o, 0, sizeof o);
        o.solver = PU_PCG;
        o.iterations = STEPS;
        o.precond = m;
        ASSERT_EQ(PU_OK, tc_pu_solve(&A, K, u, 0, x, 0, warm ? x0 : NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, NULL));
        o.precond = NULL;
        o.M = &M;
        ASSERT_EQ(PU_OK, tc_pu_solve(&A, K, u, 0, y, 0, warm ? x0 : NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, NULL));
        PU_CHECK_VECTOR(N * K, y, x, 200 * PU_TEST_EPS);
    }
    PASS();
}

/* ---- likelihood ------------------------------------------------------------------------------------------- */

/* With M = A every probe sees log det (M^-1 A) = 0, whatever M's scale: s of the control variate follows it. So the
   likelihood is exact but for rounding, D eps times what log det M and A's entries have. */
TEST with_M_equal_to_A_the_likelihood_has_no_error(void)
{
    static const double scale[] = {1, 1e4, 1e-4};
    problem p;
    pu_options o, exact;
    pu_report report;
    double nll, se, want;
    int i;
    make_problem(&p, 30, 50, 1, 11);
    memset(&exact, 0, sizeof exact);
    exact.kind = PU_EXACT;
    exact.engine = PU_DENSE;
    ASSERT_EQ(PU_OK, pu_nll(&p.t.lgm, &p.t.data, &exact, NULL, &want, NULL, NULL));
    for (i = 0; i < 3; i++) {
        tc_set_case("scale %g", scale[i]);
        p.m.scale = scale[i];
        o = pcg_options(&p.M, PU_OUTPUT);
        o.samples = 4;
        TC_STATUS(pu_nll(&p.t.lgm, &p.t.data, &o, NULL, &nll, &se, &report), PU_OK);
        TC_ASSERT(report.has_nll && report.nll_converged);
        TC_CLOSE(nll, want, 1000 * PU_TEST_EPS * fabs(want));
        TC_ASSERT(se >= 0 && se <= 1000 * PU_TEST_EPS * fabs(want));
        TC_CLOSE(report.ritz_max * scale[i], 1, 1000 * PU_TEST_EPS);
    }
    PASS();
}

/* M of datum 0 serves all data. The interval covers the exact value (fixed seed; checked over seeds below), and its width
   is smaller than without M, on average over the seeds. */
TEST the_interval_of_the_likelihood_covers(void)
{
    problem p;
    pu_options o, exact;
    pu_report report, plain;
    double nll, se, want, with = 0, without = 0;
    int seed, covered = 0, seeds = PU_TEST_SANITIZED ? 20 : 60;
    make_problem(&p, 30, 50, 3, 13);
    memset(&exact, 0, sizeof exact);
    exact.kind = PU_EXACT;
    ASSERT_EQ(PU_OK, pu_nll(&p.t.lgm, &p.t.data, &exact, NULL, &want, NULL, NULL));
    for (seed = 0; seed < seeds; seed++) {
        o = pcg_options(&p.M, PU_OUTPUT);
        o.samples = 8;
        o.seed = (uint64_t)seed;
        ASSERT_EQ(PU_OK, pu_nll(&p.t.lgm, &p.t.data, &o, NULL, &nll, &se, &report));
        covered += fabs(nll - want) <= report.nll_95;
        o.solve.M = NULL;
        o.solve.solver = PU_CG;
        ASSERT_EQ(PU_OK, pu_nll(&p.t.lgm, &p.t.data, &o, NULL, &nll, NULL, &plain));
        with += report.nll_se * report.nll_se;
        without += plain.nll_se * plain.nll_se;
    }
    ASSERT(with < without);
    /* 95 % of 60: below 51 has a probability of 1e-3 */
    ASSERT(covered >= (seeds == 60 ? 51 : 16));
    PASS();
}

/* ---- gradients ------------------------------------------------------------------------------------------- */

/* With probes whose mean of sigma sigma' is Sigma itself, output and Monte Carlo gradients of converged solves are the
   exact gradient. Errors: solves at rounding level, eps times the condition (below 100) and sums of D terms. */
TEST gradients_of_all_unit_probes_are_exact(void)
{
    static const pu_kind kinds[] = {PU_OUTPUT, PU_MONTE_CARLO};
    problem p;
    pu_options o;
    pu_report report;
    tc_outputs want, got;
    double tolerance = 2000 * PU_TEST_EPS;
    int i;
    make_problem(&p, 21, 33, 3, 17);
    want = tc_make_outputs(&p.t.lgm, 3, 0, 0);
    want.out.x = want.out.residual = want.out.alpha = want.out.beta = want.out.logdet = NULL;
    want.out.columns = NULL;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &want.out, NULL));
    for (i = 0; i < 2; i++) {
        tc_set_case("kind %d", (int)kinds[i]);
        o = pcg_options(&p.M, kinds[i]);
        o.samples = p.t.D;
        o.delta = unit_probes(&p.t);
        o.solve.iterations = 60;
        got = tc_make_outputs(&p.t.lgm, 3, p.t.D, 60);
        TC_STATUS(pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &got.out, &report), PU_OK);
        TC_ASSERT(tc_gaps_untouched(&got));
        PU_CHECK_VECTOR(p.t.D, got.out.nu, want.out.nu, tolerance);
        PU_CHECK_VECTOR(p.t.D * p.t.D, got.out.Gamma, want.out.Gamma, tolerance);
        PU_CHECK_VECTOR(p.t.D * p.t.M, got.out.Phi, want.out.Phi, tolerance);
        PU_CHECK_VECTOR(p.t.M, got.out.eta, want.out.eta, tolerance);
        PU_CHECK_VECTOR(p.t.M, got.out.psi, want.out.psi, tolerance);
    }
    PASS();
}

/* The posterior's mean to the tolerance, variances from probes within their error: the Rao-Blackwell estimate of
   Sigma_jj has a relative error of at most (2/K)^1/2 = 0.1; 5 of these for 30 entries. */
TEST moments_go_through_M(void)
{
    enum { D = 30, M = 50 };
    problem p;
    pu_options o;
    pu_posterior_result out, want;
    pu_predict_result fit, fit_want;
    pu_int i;
    make_problem(&p, D, M, 2, 19);
    memset(&out, 0, sizeof out);
    memset(&want, 0, sizeof want);
    memset(&fit, 0, sizeof fit);
    memset(&fit_want, 0, sizeof fit_want);
    out.mean = tc_reals(2 * D), out.variance = tc_reals(2 * D);
    want.mean = tc_reals(2 * D), want.variance = tc_reals(2 * D);
    fit.mean = tc_reals(2 * M), fit.variance = tc_reals(2 * M);
    fit_want.mean = tc_reals(2 * M), fit_want.variance = tc_reals(2 * M);
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    ASSERT_EQ(PU_OK, pu_posterior(&p.t.lgm, &p.t.data, &o, NULL, &want, NULL));
    ASSERT_EQ(PU_OK, pu_predict(&p.t.lgm, &p.t.data, &o, NULL, &fit_want, NULL));
    o = pcg_options(&p.M, PU_NETWORK); /* no gradient is asked for: no derivative of M is needed */
    o.samples = 200;
    ASSERT_EQ(PU_OK, pu_posterior(&p.t.lgm, &p.t.data, &o, NULL, &out, NULL));
    ASSERT_EQ(PU_OK, pu_predict(&p.t.lgm, &p.t.data, &o, NULL, &fit, NULL));
    PU_CHECK_VECTOR(2 * D, out.mean, want.mean, PU_TEST_PICK(1e-10, 1e-4));
    PU_CHECK_VECTOR(2 * M, fit.mean, fit_want.mean, PU_TEST_PICK(1e-10, 1e-4));
    for (i = 0; i < 2 * D; i++) PU_CHECK_REL(out.variance[i], want.variance[i], 0.5);
    for (i = 0; i < 2 * M; i++) PU_CHECK_REL(fit.variance[i], fit_want.variance[i], 0.5);
    PASS();
}

/* ---- bits, memory ------------------------------------------------------------------------------------------ */

TEST threads_and_blocks_of_memory_change_no_bit(void)
{
    problem p;
    pu_options o;
    pu_workspace ws;
    pu_report report;
    tc_outputs one, other;
    size_t bytes;
    make_problem(&p, 25, 40, 7, 23);
    o = pcg_options(&p.M, PU_OUTPUT);
    o.samples = 6;
    o.solve.iterations = 9;
    o.threads = 1;
    one = tc_make_outputs(&p.t.lgm, 7, 6, 9);
    other = tc_make_outputs(&p.t.lgm, 7, 6, 9);
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &one.out, NULL));
    o.threads = 3;
    ASSERT_EQ(PU_OK, pu_gradient_bytes(&p.t.lgm, &p.t.data, &o, &other.out, &bytes, NULL));
    memset(&ws, 0, sizeof ws);
    pu_workspace_block(&ws, tc_bytes(bytes), bytes);
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, &ws, &other.out, &report));
    ASSERT_EQ(bytes, report.bytes);
    ASSERT_EQ(0, memcmp(one.bytes, other.bytes, one.size));
    pu_workspace_block(&ws, tc_bytes(bytes - 1), bytes - 1);
    tc_spoil_outputs(&other);
    ASSERT_EQ(PU_E_BLOCK, pu_gradient(&p.t.lgm, &p.t.data, &o, &ws, &other.out, &report));
    ASSERT(tc_outputs_untouched(&other));
    PASS();
}

/* ---- misuse ------------------------------------------------------------------------------------------------ */

enum {
    BAD_SOLVER, BAD_BOTH, BAD_ROWS, BAD_COLS, BAD_EMPTY, BAD_WORK, BAD_NO_SOLVE, BAD_NETWORK, BAD_ASYMMETRIC, BAD_NEGATIVE,
    BAD_FAILS, BAD_LOGDET, BAD_LOGDET_MISSING, BAD_COMPARE, BAD_TRUSTED_NEGATIVE, BAD_COUNT
};

static pu_status nan_solve(const pu_op *op, pu_int k, pu_block X, pu_block Y, pu_real *work)
{
    pu_int i, j;
    (void)work, (void)X;
    for (j = 0; j < k; j++)
        for (i = 0; i < op->rows; i++) Y.at[j * Y.ld + i] = PU_R(NAN);
    return PU_OK;
}

TEST misuse_is_refused_by_name_and_leaves_outputs_alone(void)
{
    static const struct {
        pu_status status;
        const char *what;
    } want[BAD_COUNT] = {{PU_E_ARGUMENT, "options.solve.M"},
                         {PU_E_ARGUMENT, "options.solve.M, precond"},
                         {PU_E_SIZE, "options.solve.M"},
                         {PU_E_SIZE, "options.solve.M"},
                         {PU_E_ARGUMENT, "options.solve.M"},
                         {PU_E_ARGUMENT, "options.solve.M"},
                         {PU_E_UNSUPPORTED, "options.solve.M"},
                         {PU_E_UNSUPPORTED, "options.solve.M, preconditioner"},
                         {PU_E_NOT_SYMMETRIC, "options.solve.M"},
                         {PU_E_NOT_DEFINITE, "options.solve.M"},
                         {PU_E_OPERATOR, "options.solve.M.solve"},
                         {PU_E_OPERATOR, "options.solve.M.logdet"},
                         {PU_E_UNSUPPORTED, "options.solve.M"},
                         {PU_E_ARGUMENT, "options.solve.compare"},
                         {PU_BREAKDOWN, "options.solve.M"}};
    int bad;
    for (bad = 0; bad < BAD_COUNT; bad++) {
        problem p;
        pu_options o;
        pu_report report;
        tc_outputs out;
        pu_status status;
        make_problem(&p, 12, 20, 2, 29);
        o = pcg_options(&p.M, PU_OUTPUT);
        o.samples = 3;
        o.solve.iterations = 5;
        tc_set_case("case %d", bad);
        switch (bad) {
        case BAD_SOLVER: o.solve.solver = PU_CG; break;
        case BAD_BOTH: o.solve.precond = tc_random_positive(1, 24); break;
        case BAD_ROWS: p.M.rows = 11; break;
        case BAD_COLS: p.M.cols = 13; break;
        case BAD_EMPTY: p.M.rows = 0; break;
        case BAD_WORK: p.M.work = -1; break;
        case BAD_NO_SOLVE: p.M.solve = NULL; break;
        case BAD_NETWORK: o.kind = PU_NETWORK; break;
        case BAD_ASYMMETRIC: p.m.spoil = 0.01; break;
        case BAD_NEGATIVE: p.m.scale = -1; break;
        case BAD_FAILS: p.m.fails = 1; break;
        case BAD_LOGDET: p.m.logdet_fails = 1; break;
        case BAD_LOGDET_MISSING: p.M.logdet = NULL; break;
        case BAD_COMPARE: o.solve.solver = PU_CG, o.solve.M = NULL, o.solve.compare = 1; break;
        default: p.m.scale = -1, p.M.trusted = 2, p.M.logdet = NULL; break;
        }
        out = tc_make_outputs(&p.t.lgm, 2, 3, 5);
        if (bad == BAD_TRUSTED_NEGATIVE) out.out.logdet = NULL;
        status = pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &out.out, &report);
        TC_STATUS(status, want[bad].status);
        GREATEST_ASSERTm(tc_say(report.where.what), tc_named(report.where.what, want[bad].what));
        TC_ASSERT(tc_outputs_untouched(&out));
    }
    PASS();
}

/* M^-1 that is not a number ends in PU_NONFINITE, with random tests and without; pu_solve likewise. */
TEST numbers_that_are_none_do_not_come_through(void)
{
    problem p;
    pu_options o;
    pu_report report;
    pu_real *x = tc_reals(12), *u = tc_normal(1, 12);
    tc_outputs out;
    int trusted;
    make_problem(&p, 12, 20, 2, 31);
    p.M.solve = nan_solve;
    for (trusted = 0; trusted <= 2; trusted += 2) {
        p.M.trusted = trusted;
        o = pcg_options(&p.M, PU_OUTPUT);
        o.samples = 3;
        out = tc_make_outputs(&p.t.lgm, 2, 3, 30);
        ASSERT_EQ(PU_NONFINITE, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &out.out, &report));
        ASSERT(tc_outputs_untouched(&out));
        tc_fill(12, x, 7);
        ASSERT_EQ(PU_NONFINITE,
                  tc_pu_solve(&p.t.Gamma, 1, u, 0, x, 0, NULL, NULL, &o.solve, NULL, NULL, NULL, NULL, NULL, &report));
        ASSERT(x[0] == 7 && x[11] == 7);
    }
    PASS();
}

TEST gradients_of_pu_solve_are_refused(void)
{
    problem p;
    pu_solve_options o;
    pu_report report;
    pu_real *x = tc_reals(12), *u = tc_normal(1, 12), *grad = tc_reals(12);
    make_problem(&p, 12, 20, 1, 37);
    memset(&o, 0, sizeof o);
    o.solver = PU_PCG;
    o.M = &p.M;
    ASSERT_EQ(PU_E_UNSUPPORTED,
              tc_pu_solve(&p.t.Gamma, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, grad, NULL, &report));
    ASSERT(strstr(report.where.what, "derivative"));
    PASS();
}

TEST without_logdet_there_is_a_gradient_and_no_likelihood(void)
{
    problem p;
    pu_options o;
    pu_report report;
    pu_gradient_result out;
    double nll;
    make_problem(&p, 12, 20, 2, 41);
    p.M.logdet = NULL;
    memset(&out, 0, sizeof out);
    out.psi = tc_reals(20);
    o = pcg_options(&p.M, PU_OUTPUT);
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &out, &report));
    ASSERT(!report.has_nll && report.solver_error >= 0);
    ASSERT(strstr(report.plan, "no logdet"));
    ASSERT_EQ(PU_E_UNSUPPORTED, pu_nll(&p.t.lgm, &p.t.data, &o, NULL, &nll, NULL, &report));
    ASSERT(tc_named(report.where.what, "options.solve.M"));
    PASS();
}

/* ---- checks by pu_op_check ---------------------------------------------------------------------------------- */

TEST op_check_tries_an_operator_that_only_solves(void)
{
    problem p;
    pu_check_report report;
    int i, tested = 0;
    make_problem(&p, 14, 20, 1, 43);
    ASSERT_EQ(PU_OK, pu_op_check(&p.M, NULL, &report));
    for (i = 0; i < report.count; i++)
        tested += report.entry[i].tested && (!strcmp(report.entry[i].function, "solve") || !strcmp(report.entry[i].function, "logdet"));
    ASSERT_EQ(2, tested);
    p.m.spoil = 0.01;
    ASSERT_EQ(PU_E_CONTRACT, pu_op_check(&p.M, NULL, &report));
    ASSERT_STR_EQ("solve", report.where.what);
    p.m.spoil = 0;
    p.m.scale = -1;
    ASSERT_EQ(PU_E_CONTRACT, pu_op_check(&p.M, NULL, &report));
    p.m.scale = 1;
    p.M.solve = nan_solve;
    ASSERT_EQ(PU_E_CONTRACT, pu_op_check(&p.M, NULL, &report));
    p.M.solve = NULL;
    ASSERT_EQ(PU_E_NULL, pu_op_check(&p.M, NULL, &report));
    PASS();
}

/* ---- models --------------------------------------------------------------------------------------------------- */

/* A model that brings its M: sparse regression, A = diag(alpha) + beta Phi'Phi of complete data, factored at every set. */
typedef struct {
    pu_model inner;
    const pu_real *phi;
    pu_int rows;
    double *factor;
    user_m m;
    pu_op M;
    pu_status (*set)(pu_model *model, const pu_real *theta, pu_int *index);
} with_m;

static with_m *bring; /* of the test that runs */

static pu_status set_with_m(pu_model *model, const pu_real *theta, pu_int *index)
{
    pu_status status = bring->set(model, theta, index);
    pu_int D = bring->m.n, i, j, l;
    if (status) return status;
    for (i = 0; i < D; i++)
        for (j = 0; j < D; j++) {
            double sum = i == j ? exp((double)theta[i]) : 0;
            for (l = 0; l < bring->rows; l++)
                sum += exp((double)theta[D]) * (double)bring->phi[l * D + i] * (double)bring->phi[l * D + j];
            bring->factor[i * D + j] = sum;
        }
    return tc_cholesky(D, bring->factor) ? PU_OK : PU_E_NOT_DEFINITE;
}

TEST a_model_brings_its_own_M(void)
{
    enum { D = 15, M = 40 };
    with_m w;
    pu_real *phi = tc_normal(47, M * D), *y = tc_normal(48, 2 * M), *theta = tc_reals(D + 1), *grad = tc_reals(D + 1);
    pu_real *want = tc_reals(D + 1);
    pu_op Phi = pu_op_dense(M, D, phi);
    pu_data data = pu_data_full(2, M, y);
    pu_options o;
    pu_report report;
    double nll, exact;
    memset(&w, 0, sizeof w);
    ASSERT_EQ(PU_OK, pu_model_sparse(&w.inner, &Phi, NULL));
    w.phi = phi;
    w.rows = M;
    w.factor = tc_doubles(D * D);
    w.m.n = D;
    w.m.scale = 1;
    w.m.factor = w.factor;
    w.M = user_op(&w.m);
    w.set = w.inner.set;
    w.inner.set = set_with_m;
    w.inner.M = &w.M;
    bring = &w;
    o = pcg_options(NULL, PU_OUTPUT);
    o.solve.tolerance = PU_TEST_PICK(1e-10, 1e-4);
    o.solve.compare = 1;
    o.samples = 5;
    ASSERT_EQ(PU_OK, pu_model_gradient(&w.inner, theta, &data, &o, NULL, grad, NULL, &report));
    ASSERT(report.steps_with <= 2 && report.steps_without > report.steps_with);
    ASSERT(strstr(report.plan, "without preconditioner"));
    ASSERT_EQ(PU_OK, pu_model_nll(&w.inner, theta, &data, &o, NULL, &nll, NULL, &report));
    o.kind = PU_EXACT;
    o.solve.solver = PU_CG;
    o.solve.compare = 0;
    o.engine = PU_DENSE;
    ASSERT_EQ(PU_OK, pu_model_nll(&w.inner, theta, &data, &o, NULL, &exact, NULL, NULL));
    PU_CHECK_REL(nll, exact, PU_TEST_PICK(1e-9, 1e-4));
    /* the network gradient goes through precond, as it did without M */
    o = pcg_options(NULL, PU_NETWORK);
    o.solve.iterations = 8;
    ASSERT_EQ(PU_OK, pu_model_gradient(&w.inner, theta, &data, &o, NULL, grad, NULL, &report));
    w.inner.M = NULL;
    ASSERT_EQ(PU_OK, pu_model_gradient(&w.inner, theta, &data, &o, NULL, want, NULL, &report));
    ASSERT_EQ(0, memcmp(grad, want, (D + 1) * sizeof(pu_real)));
    pu_model_free(&w.inner);
    PASS();
}

/* PU_CHOOSE with M: K and I are found through it. */
TEST the_pilot_goes_through_M(void)
{
    problem p;
    pu_options o;
    pu_report with, without;
    pu_gradient_result out;
    make_problem(&p, 30, 60, 4, 53);
    memset(&out, 0, sizeof out);
    out.psi = tc_reals(60);
    o = pcg_options(&p.M, PU_OUTPUT);
    o.samples = PU_CHOOSE;
    o.solve.iterations = PU_CHOOSE;
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &out, &with));
    o.solve.M = NULL;
    o.solve.solver = PU_CG;
    ASSERT_EQ(PU_OK, pu_gradient(&p.t.lgm, &p.t.data, &o, NULL, &out, &without));
    ASSERT(with.iterations < without.iterations);
    PASS();
}

/* ---- A as a sparse matrix, preconditioners made of it --------------------------------------------------------- */

static const pu_precond made[] = {PU_PRECOND_DIAGONAL, PU_PRECOND_SSOR, PU_PRECOND_INCOMPLETE};

/* All kinds, two priors: solutions, log det and gradients against dense algebra. Solves go to rounding level, errors are
   eps times the condition (below 300) and sums of D terms. The log det of unit probes is a trace, and so exact. */
TEST preconditioners_made_of_A_leave_results_alone(void)
{
    int diagonal, kind, i;
    for (diagonal = 0; diagonal < 2; diagonal++) {
        field f;
        pu_options o;
        pu_gradient_result want, got;
        pu_report report;
        double logdet[3], tolerance = 5000 * PU_TEST_EPS, sum;
        pu_int j;
        make_field(&f, 5, 6, 40, 3, diagonal, 0.5, 1);
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        want.nu = tc_reals(f.D), got.nu = tc_reals(f.D);
        want.psi = tc_reals(f.M), got.psi = tc_reals(f.M);
        want.Phi = tc_reals(f.M * f.D), got.Phi = tc_reals(f.Phi.params);
        want.Gamma = tc_reals(f.D * f.D), got.Gamma = tc_reals(f.Gamma.params);
        got.logdet = tc_reals(3 * f.D);
        memset(&o, 0, sizeof o);
        o.kind = PU_EXACT;
        o.engine = PU_DENSE;
        ASSERT_EQ(PU_OK, pu_gradient(&f.dense, &f.data, &o, NULL, &want, NULL));
        for (kind = 0; kind < 3; kind++) {
            tc_set_case("diagonal %d, kind %d", diagonal, kind);
            o = pcg_options(NULL, PU_MONTE_CARLO);
            o.solve.preconditioner = made[kind];
            o.samples = f.D;
            o.delta = field_probes(&f, logdet);
            TC_STATUS(pu_gradient(&f.sparse, &f.data, &o, NULL, &got, &report), PU_OK);
            TC_ASSERT(report.stops[PU_STOP_STEPS] == 0);
            PU_CHECK_VECTOR(f.D, got.nu, want.nu, tolerance);
            PU_CHECK_VECTOR(f.M, got.psi, want.psi, tolerance);
            for (i = 0; i < f.M; i++)
                for (j = f.phi.start[i]; j < f.phi.start[i + 1]; j++)
                    TC_CLOSE(got.Phi[j], want.Phi[i * f.D + f.phi.index[j]], 10 * tolerance);
            for (i = 0; diagonal && i < f.D; i++) TC_CLOSE(got.Gamma[i], want.Gamma[i * f.D + i], 10 * tolerance);
            for (i = 0; !diagonal && i < f.D; i++)
                for (j = f.gamma.start[i]; j < f.gamma.start[i + 1]; j++)
                    TC_CLOSE(got.Gamma[j], want.Gamma[i * f.D + f.gamma.index[j]], 10 * tolerance);
            for (i = 0; i < 3; i++) {
                for (sum = 0, j = 0; j < f.D; j++) sum += (double)got.logdet[i * f.D + j] / (double)f.D;
                TC_CLOSE(sum, logdet[i], 20 * tolerance * fabs(logdet[i]));
            }
        }
    }
    PASS();
}

/* Steps on a field of 24 x 24 with strong coupling, to 1e-6. For the five-point Laplacian symmetric Gauss-Seidel and the
   incomplete factor lower the condition by a factor: steps fall to less than two thirds, and less than half. A chain is
   tridiagonal, where nothing is left out of the incomplete factor: M = A, one step (two, where rounding asks for it). */
TEST better_preconditioners_take_fewer_steps(void)
{
    int kind;
    pu_int steps[3];
    for (kind = 0; kind < 3; kind++) {
        field f;
        pu_options o;
        pu_report report;
        double nll;
        tc_set_case("kind %d", kind);
        make_field(&f, 24, 24, 100, 1, 0, 0.001, 10);
        o = pcg_options(NULL, PU_OUTPUT);
        o.solve.preconditioner = made[kind];
        o.solve.tolerance = PU_TEST_PICK(1e-6, 1e-3);
        o.solve.compare = 1;
        o.samples = 3;
        TC_STATUS(pu_nll(&f.sparse, &f.data, &o, NULL, &nll, NULL, &report), PU_OK);
        TC_ASSERT(strstr(report.plan, "A as a sparse matrix"));
        steps[kind] = report.steps_with;
        TC_ASSERT(kind == 0 || report.steps_without > steps[kind]);
        make_field(&f, 60, 1, 0 + 30, 1, 0, 0.001, 10);
        if (kind == 2) { /* rows that see one point: A stays tridiagonal */
            pu_int i;
            pu_real *ones = tc_reals(60);
            for (i = 0; i < 60; i++) ones[i] = 1 + (pu_real)(i % 3);
            f.Phi = pu_op_diagonal(60, ones);
            f.sparse.psi = tc_random_positive(3, 60);
            f.data = pu_data_full(1, 60, tc_normal(4, 60));
            TC_STATUS(pu_nll(&f.sparse, &f.data, &o, NULL, &nll, NULL, &report), PU_OK);
            TC_ASSERT(report.steps_with <= 2);
        }
    }
    ASSERT(3 * steps[1] < 2 * steps[0]);
    ASSERT(2 * steps[2] < steps[0]);
    PASS();
}

/* The likelihood's estimate is within its interval, and its error falls with the preconditioner. */
TEST the_likelihood_goes_through_made_preconditioners(void)
{
    field f;
    pu_options o;
    pu_report report;
    double want, nll, se, before = 0;
    int kind, seed, covered;
    make_field(&f, 8, 8, 60, 2, 0, 0.05, 1);
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    ASSERT_EQ(PU_OK, pu_nll(&f.dense, &f.data, &o, NULL, &want, NULL, NULL));
    for (kind = 0; kind < 3; kind++) {
        double variance = 0;
        tc_set_case("kind %d", kind);
        covered = 0;
        for (seed = 0; seed < 40; seed++) {
            o = pcg_options(NULL, PU_OUTPUT);
            o.solve.preconditioner = made[kind];
            o.solve.tolerance = PU_TEST_PICK(1e-8, 1e-4);
            o.samples = 8;
            o.seed = (uint64_t)seed;
            TC_STATUS(pu_nll(&f.sparse, &f.data, &o, NULL, &nll, &se, &report), PU_OK);
            TC_ASSERT(report.nll_converged);
            covered += fabs(nll - want) <= report.nll_95;
            variance += se * se / 40;
        }
        TC_ASSERT(covered >= 33); /* of 40 at 95 %: 32 or fewer have a probability of 1e-3 */
        TC_ASSERT(kind == 0 || variance < before);
        before = variance;
    }
    PASS();
}

/* Crossed groups: the same added to all levels of one group and taken from all of the other is nearly free, an eigenvalue of M^-1 A far
   below all others, which makes log det as skewed as a squared normal. The probes' own spread with Student's t then holds the exact
   value in 84 % of all cases for 4 probes, 89 % for 16. Intervals must hold it in 95 %: of 500 seeds at least 460 (1 in 1,000 has
   fewer at 95 %). */
TEST intervals_hold_where_one_eigenvalue_is_far_from_all_others(void)
{
    enum { LEVELS_1 = 14, LEVELS_2 = 9, D = LEVELS_1 + LEVELS_2, ROWS = 600 };
    static const pu_int probes[3] = {2, 4, 16};
    pu_int *start = (pu_int *)tc_bytes((ROWS + 1) * sizeof *start), *index = (pu_int *)tc_bytes(2 * ROWS * sizeof *index), i;
    pu_real *value = tc_reals(2 * ROWS), *gamma = tc_reals(D), *psi = tc_reals(ROWS);
    const pu_data data = pu_data_full(1, ROWS, tc_normal(5, ROWS));
    const int seeds = PU_TEST_SANITIZED ? 50 : 500;
    pu_csr csr;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_options o;
    double want;
    int kind, which, seed;
    start[0] = 0;
    for (i = 0; i < ROWS; i++) {
        start[i + 1] = 2 * i + 2;
        index[2 * i] = i % LEVELS_1, index[2 * i + 1] = LEVELS_1 + (i / 3) % LEVELS_2;
        value[2 * i] = value[2 * i + 1] = 1;
        psi[i] = PU_R(1.2);
    }
    for (i = 0; i < D; i++) gamma[i] = 3;
    memset(&csr, 0, sizeof csr);
    csr.rows = ROWS, csr.cols = D, csr.start = start, csr.index = index, csr.value = value;
    Gamma = pu_op_diagonal(D, gamma), Phi = pu_op_csr(&csr);
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma, lgm.Phi = &Phi, lgm.psi = psi;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT, o.engine = PU_DENSE;
    ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &o, NULL, &want, NULL, NULL));
    for (kind = 0; kind < 3; kind++)
        for (which = 0; which < 3; which++) {
            int covered = 0;
            tc_set_case("kind %d, %d probes", kind, (int)probes[which]);
            for (seed = 0; seed < seeds; seed++) {
                pu_report report;
                double nll;
                o = pcg_options(NULL, PU_OUTPUT);
                o.solve.preconditioner = made[kind];
                o.solve.tolerance = PU_TEST_PICK(1e-8, 1e-4);
                o.samples = probes[which];
                o.seed = (uint64_t)seed;
                TC_STATUS(pu_nll(&lgm, &data, &o, NULL, &nll, NULL, &report), PU_OK);
                covered += fabs(nll - want) <= report.nll_95;
            }
            if (getenv("PU_SHOW")) printf("kind %d, %d probes: %d of %d\n", kind, (int)probes[which], covered, seeds);
            TC_ASSERT(covered >= (seeds == 500 ? 460 : 40));
            TC_ASSERT(seeds < 500 || probes[which] < 16 || covered <= 492); /* and no wider than that takes */
        }
    PASS();
}

/* Kershaw's matrix is positive definite (its smallest eigenvalue is 3 - 8^1/2 = 0.17), but its incomplete factor has a
   negative pivot: the diagonal is raised, the solve goes on, and the plan tells. */
TEST an_incomplete_factor_that_breaks_down_is_shifted(void)
{
    static const double kershaw[16] = {3, -2, 0, 2, -2, 3, -2, 0, 0, -2, 3, -2, 2, 0, -2, 3};
    pu_real *a = tc_reals(16), *u = tc_normal(1, 8), *x = tc_reals(8), psi[4] = {1, 1, 1, 1};
    double *l = tc_doubles(16), want[8];
    pu_csr csr;
    pu_op A, Gamma, Phi;
    pu_solve_options o;
    pu_report report;
    pu_lgm lgm;
    pu_data data;
    pu_options all;
    pu_real zeros[16] = {0};
    double nll;
    int i;
    for (i = 0; i < 16; i++) a[i] = (pu_real)kershaw[i], l[i] = kershaw[i];
    ASSERT(tc_cholesky(4, l));
    csr = csr_of_dense(4, 4, a);
    A = pu_op_csr(&csr);
    memset(&o, 0, sizeof o);
    o.solver = PU_PCG;
    o.preconditioner = PU_PRECOND_INCOMPLETE;
    o.tolerance = PU_TEST_PICK(1e-12, 1e-5);
    ASSERT_EQ(PU_OK, tc_pu_solve(&A, 2, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, &report));
    for (i = 0; i < 8; i++) want[i] = (double)u[i];
    tc_solve(4, l, want);
    tc_solve(4, l, want + 4);
    ASSERT(strstr(report.plan, "raised"));
    for (i = 0; i < 8; i++) PU_CHECK_CLOSE(x[i], want[i], 100 * o.tolerance);
    /* as the A of a datum of which nothing is observed */
    Gamma = prior_op(&csr, l);
    csr_of_dense(4, 4, a);
    {
        pu_csr none = csr_of_dense(4, 4, zeros);
        Phi = pu_op_csr(&none);
        memset(&lgm, 0, sizeof lgm);
        lgm.Gamma = &Gamma;
        lgm.Phi = &Phi;
        lgm.psi = psi;
        data = pu_data_full(1, 4, u);
        all = pcg_options(NULL, PU_OUTPUT);
        all.solve = o;
        all.samples = 4;
        ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &all, NULL, &nll, NULL, &report));
        ASSERT(strstr(report.plan, "raised"));
        data = pu_data_full(2, 4, u);
        ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &all, NULL, &nll, NULL, &report));
        ASSERT(strstr(report.plan, "raised"));
    }
    PASS();
}

TEST misuse_of_made_preconditioners_is_refused(void)
{
    int bad;
    for (bad = 0; bad < 9; bad++) {
        static const pu_status want[9] = {PU_E_UNSUPPORTED, PU_E_UNSUPPORTED, PU_E_ARGUMENT, PU_E_ARGUMENT, PU_E_ARGUMENT,
                                          PU_E_ARGUMENT,    PU_E_NOT_SYMMETRIC, PU_E_SIZE,   PU_E_NOT_POSITIVE};
        field f;
        pu_options o;
        pu_report report;
        tc_outputs out;
        pu_real *lower;
        int i;
        tc_set_case("case %d", bad);
        make_field(&f, 4, 3, 20, 2, 0, 0.5, 1);
        o = pcg_options(NULL, PU_OUTPUT);
        o.samples = 3;
        o.solve.iterations = 5;
        o.solve.preconditioner = PU_PRECOND_SSOR;
        switch (bad) {
        case 0: f.sparse.Phi = &f.Phi_dense; break;
        case 1: o.kind = PU_NETWORK; break;
        case 2: o.solve.solver = PU_CG; break;
        case 3: o.solve.preconditioner = (pu_precond)3; break;
        case 4: o.solve.precond = tc_random_positive(1, 24); break;
        case 5: o.solve.M = &f.Gamma_dense; break;
        case 6: /* a lower triangle that calls itself symmetric */
            lower = tc_reals(144);
            memcpy(lower, f.gamma_dense, 144 * sizeof *lower);
            for (i = 0; i < 144; i++)
                if (i % 12 > i / 12) lower[i] = 0;
            lower[11 * 12] = lower[11 * 12 + 1] = lower[10 * 12] = lower[9 * 12] = lower[8 * 12] = 1;
            f.gamma = csr_of_dense(12, 12, lower);
            f.Gamma = prior_op(&f.gamma, f.gamma_factor);
            f.Gamma.trusted = 2;
            f.phi = csr_of_dense(20, 12, tc_reals(240));
            f.Phi = pu_op_csr(&f.phi);
            break;
        case 7: ((pu_int *)(uintptr_t)f.phi.start)[3] = -5; break;
        default: /* nothing on the diagonal, where nothing is observed either */
            f.gamma_dense[0] = 0;
            f.gamma = csr_of_dense(12, 12, f.gamma_dense);
            f.Gamma = prior_op(&f.gamma, f.gamma_factor);
            f.Gamma.trusted = 2;
        }
        out = tc_make_outputs(&f.sparse, 2, 3, 5);
        TC_STATUS(pu_gradient(&f.sparse, &f.data, &o, NULL, &out.out, &report), want[bad]);
        TC_ASSERT(tc_outputs_untouched(&out));
    }
    PASS();
}

/* One datum, whose A all threads share, and several. */
TEST sparse_results_do_not_depend_on_threads(void)
{
    pu_int N;
    for (N = 1; N <= 5; N += 4) {
        field f;
        pu_options o;
        pu_workspace ws;
        pu_report report;
        tc_outputs one, other;
        size_t bytes;
        tc_set_case("N %d", (int)N);
        make_field(&f, 7, 5, 50, N, 0, 0.2, 1);
        o = pcg_options(NULL, PU_OUTPUT);
        o.solve.preconditioner = PU_PRECOND_INCOMPLETE;
        o.solve.iterations = 8;
        o.samples = 9;
        o.threads = 1;
        one = tc_make_outputs(&f.sparse, N, 9, 8);
        other = tc_make_outputs(&f.sparse, N, 9, 8);
        TC_STATUS(pu_gradient(&f.sparse, &f.data, &o, NULL, &one.out, &report), PU_OK);
        TC_ASSERT(tc_gaps_untouched(&one));
        o.threads = 4;
        TC_STATUS(pu_gradient_bytes(&f.sparse, &f.data, &o, &other.out, &bytes, NULL), PU_OK);
        memset(&ws, 0, sizeof ws);
        pu_workspace_block(&ws, tc_bytes(bytes), bytes);
        TC_STATUS(pu_gradient(&f.sparse, &f.data, &o, &ws, &other.out, &report), PU_OK);
        TC_ASSERT(report.bytes == bytes);
#ifdef _OPENMP
        TC_ASSERT(report.threads > 1);
#endif
        TC_ASSERT(memcmp(one.bytes, other.bytes, one.size) == 0);
    }
    PASS();
}

/* One unknown; nothing observed; rows without entries. */
TEST the_smallest_sparse_systems(void)
{
    pu_real alpha[1] = {2}, phi[2] = {3, 0}, psi[2] = {1, 1}, y[4] = {PU_R(NAN), PU_R(NAN), 1, 5}, mean[2], variance[2];
    pu_csr csr = csr_of_dense(2, 1, phi);
    pu_op Gamma = pu_op_diagonal(1, alpha), Phi = pu_op_csr(&csr);
    pu_lgm lgm = {&Gamma, &Phi, NULL, NULL, psi, 0};
    pu_data data = pu_data_nan(2, 2, y);
    pu_posterior_result out;
    int kind;
    for (kind = 0; kind < 3; kind++) {
        pu_options o = pcg_options(NULL, PU_OUTPUT);
        o.solve.preconditioner = made[kind];
        memset(&out, 0, sizeof out);
        out.mean = mean;
        out.variance = variance;
        ASSERT_EQ(PU_OK, pu_posterior(&lgm, &data, &o, NULL, &out, NULL));
        PU_CHECK_CLOSE(mean[0], 0, 0);
        PU_CHECK_REL(mean[1], 3.0 / 11, 10 * PU_TEST_EPS);
        PU_CHECK_REL(variance[0], 0.5, 10 * PU_TEST_EPS);
        PU_CHECK_REL(variance[1], 1.0 / 11, 10 * PU_TEST_EPS);
    }
    PASS();
}

/* ---- low rank plus diagonal ---------------------------------------------------------------------------------- */

/* Factor analysis with two strong factors among 40: A = I + Phi'psi Phi of a few rows is near diag + U U', U the two strong
   rows' directions. As M that takes the outliers out of the spectrum: with 2 outliers CG needs about two steps more for each,
   and steps of M^-1 A are those of the bulk. Here A = M to rounding when U has all rows. */
TEST low_rank_plus_diagonal_is_a_preconditioner(void)
{
    enum { D = 40, M = 6 };
    pu_real *phi = tc_normal(61, M * D), *psi = tc_random_positive(62, M), *y = tc_normal(63, M), *d = tc_reals(D);
    pu_real *u = tc_reals(D * M), *factor = tc_reals(M * M);
    pu_op Gamma, Phi = pu_op_dense(M, D, phi), op;
    pu_low_rank low = {D, M, NULL, NULL, NULL};
    pu_lgm lgm;
    pu_data data = pu_data_full(1, M, y);
    pu_options o, exact;
    pu_report report;
    double nll, want;
    pu_int i, j;
    for (i = 0; i < M; i++) psi[i] *= 100;
    for (i = 0; i < D; i++) {
        d[i] = 1 + (pu_real)(i % 5);
        for (j = 0; j < M; j++) u[i * M + j] = phi[j * D + i] * (pu_real)sqrt((double)psi[j]);
    }
    Gamma = pu_op_diagonal(D, d);
    low.d = d;
    low.u = u;
    low.factor = factor;
    ASSERT_EQ(PU_OK, pu_low_rank_factor(&low, NULL));
    op = pu_op_low_rank(&low);
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma;
    lgm.Phi = &Phi;
    lgm.psi = psi;
    o = pcg_options(&op, PU_OUTPUT);
    o.samples = 3;
    o.solve.tolerance = PU_TEST_PICK(1e-9, 1e-3);
    o.solve.compare = 1;
    ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &o, NULL, &nll, NULL, &report));
    ASSERT(report.steps_with <= 2 && report.steps_without >= M);
    memset(&exact, 0, sizeof exact);
    exact.kind = PU_EXACT;
    exact.engine = PU_DENSE;
    ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &exact, NULL, &want, NULL, NULL));
    /* condition of C, 1e4, times eps */
    PU_CHECK_REL(nll, want, 1e5 * PU_TEST_EPS);
    /* as a prior it now serves the dual engine: the same likelihood as dense */
    lgm.Gamma = &op;
    exact.engine = PU_DUAL;
    ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &exact, NULL, &nll, NULL, &report));
    exact.engine = PU_DENSE;
    ASSERT_EQ(PU_OK, pu_nll(&lgm, &data, &exact, NULL, &want, NULL, NULL));
    PU_CHECK_REL(nll, want, 1e5 * PU_TEST_EPS);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SET_TEARDOWN(tc_release, NULL);
    RUN_TEST(steps_are_those_of_the_spectrum_of_M_inverse_A);
    RUN_TEST(a_diagonal_operator_is_the_diagonal);
    RUN_TEST(with_M_equal_to_A_the_likelihood_has_no_error);
    RUN_TEST(the_interval_of_the_likelihood_covers);
    RUN_TEST(gradients_of_all_unit_probes_are_exact);
    RUN_TEST(moments_go_through_M);
    RUN_TEST(threads_and_blocks_of_memory_change_no_bit);
    RUN_TEST(misuse_is_refused_by_name_and_leaves_outputs_alone);
    RUN_TEST(numbers_that_are_none_do_not_come_through);
    RUN_TEST(gradients_of_pu_solve_are_refused);
    RUN_TEST(without_logdet_there_is_a_gradient_and_no_likelihood);
    RUN_TEST(op_check_tries_an_operator_that_only_solves);
    RUN_TEST(a_model_brings_its_own_M);
    RUN_TEST(the_pilot_goes_through_M);
    RUN_TEST(preconditioners_made_of_A_leave_results_alone);
    RUN_TEST(better_preconditioners_take_fewer_steps);
    RUN_TEST(the_likelihood_goes_through_made_preconditioners);
    RUN_TEST(intervals_hold_where_one_eigenvalue_is_far_from_all_others);
    RUN_TEST(an_incomplete_factor_that_breaks_down_is_shifted);
    RUN_TEST(misuse_of_made_preconditioners_is_refused);
    RUN_TEST(sparse_results_do_not_depend_on_threads);
    RUN_TEST(the_smallest_sparse_systems);
    RUN_TEST(low_rank_plus_diagonal_is_a_preconditioner);
    PU_TEST_MAIN_END();
}

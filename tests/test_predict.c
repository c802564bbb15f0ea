/* test_predict.c - draws from the model, posterior moments and predictions, against dense algebra. Run with -v for
   the worst z-scores. */
#include "pu_test.h"
#include "test_common.h"

enum { D = 6, M = 8, N = 60 };

/* A model with missing entries; the last datum has none observed. */
static tc_model *build(tc_prior prior, uint64_t seed)
{
    static const char *const name[] = {"identity", "diagonal", "spd"};
    tc_model *t = (tc_model *)tc_bytes(sizeof *t);
    tc_random_model(t, prior, D, M, N, seed);
    memset(t->mask + (N - 1) * M, 0, M);
    tc_set_case("%s", name[prior]);
    return t;
}

/* ---- the oracle: A and its inverse in double ------------------------------------------------- */

typedef struct {
    double mu[D], Sigma[D * D], A[D * D];
} oracle;

/* Gamma as a matrix, through the operator */
static void prior_matrix(const pu_op *Gamma, double *g)
{
    pu_int n = Gamma->rows, i;
    pu_block E = tc_block(tc_reals(n * n), n), Y = tc_block(tc_reals(n * n), n);
    for (i = 0; i < n; i++) E.at[i * n + i] = PU_R(1);
    if (Gamma->apply(Gamma, n, E, Y, 0, tc_reals(n * Gamma->work)) != PU_OK) exit(2);
    for (i = 0; i < n * n; i++) g[i] = (double)Y.at[i];
}

static void solve_datum(const tc_model *t, pu_int n, oracle *o)
{
    double L[D * D], b[D];
    pu_int i, j, m;
    prior_matrix(&t->Gamma, o->A);
    for (i = 0; i < D; i++) {
        for (j = 0, b[i] = 0; j < D; j++) b[i] += o->A[i * D + j] * (double)t->nu[j];
    }
    for (m = 0; m < M; m++) {
        if (!t->mask[n * M + m]) continue;
        for (i = 0; i < D; i++) {
            double w = (double)t->psi[m] * (double)t->phi[m * D + i];
            b[i] += w * ((double)t->y[n * M + m] - (double)t->eta[m]);
            for (j = 0; j < D; j++) o->A[i * D + j] += w * (double)t->phi[m * D + j];
        }
    }
    memcpy(L, o->A, sizeof L);
    if (!tc_cholesky(D, L)) exit(2);
    tc_inverse(D, L, o->Sigma);
    memcpy(o->mu, b, sizeof b);
    tc_solve(D, L, o->mu);
}

/* (Phi mu + eta)_m and (Phi Sigma Phi')_mm */
static void fit_of(const tc_model *t, const oracle *o, pu_int m, double *mean, double *variance)
{
    pu_int i, j;
    *mean = (double)t->eta[m], *variance = 0;
    for (i = 0; i < D; i++) {
        double p = (double)t->phi[m * D + i];
        *mean += p * o->mu[i];
        for (j = 0; j < D; j++) *variance += p * o->Sigma[i * D + j] * (double)t->phi[m * D + j];
    }
}

/* Eigenvalues of A lie between about 0.2 and 30 here; a solve loses their ratio, about 100, and a few D roundings. */
static const double exact_tol = 100 * 4 * D;

typedef struct {
    pu_posterior_result z;
    pu_predict_result y;
} outputs;

static outputs make_outputs(pu_int n, pu_int K)
{
    outputs o;
    memset(&o, 0, sizeof o);
    o.z.mean = tc_reals(n * D), o.z.variance = tc_reals(n * D), o.z.samples = K ? tc_reals(n * K * D) : NULL;
    o.y.mean = tc_reals(n * M), o.y.fit = tc_reals(n * M);
    o.y.variance = tc_reals(n * M), o.y.imputed = tc_reals(n * M);
    return o;
}

static pu_options engine_options(pu_kind kind, pu_engine engine, pu_int K)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind, o.engine = engine, o.samples = K, o.seed = 5;
    return o;
}

/* ---- exact engines --------------------------------------------------------------------------- */

TEST direct_engines_are_exact(tc_prior prior, pu_kind kind, pu_engine engine)
{
    tc_model *t = build(prior, 100 + (uint64_t)prior);
    pu_int K = kind == PU_EXACT ? 0 : 3, n, i;
    pu_options options = engine_options(kind, engine, K);
    outputs o = make_outputs(N, K);
    pu_workspace ws = tc_workspace();
    double tol = exact_tol * PU_TEST_EPS;
    pu_report report;
    tc_set_case("prior %d, kind %d, engine %d", (int)prior, (int)kind, (int)engine);
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, &ws, &o.z, &report), PU_OK);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, &ws, &o.y, &report), PU_OK);
    TC_ASSERT(o.z.exact == 1 && o.z.probes == K && o.y.exact == 1 && o.y.probes == K);
    for (n = 0; n < N; n++) {
        oracle want;
        solve_datum(t, n, &want);
        for (i = 0; i < D; i++) {
            TC_CLOSE(o.z.mean[n * D + i], want.mu[i], tol);
            /* the dual engine takes a difference from the prior's variance, at most 5 */
            TC_CLOSE(o.z.variance[n * D + i], want.Sigma[i * D + i], tol);
        }
        for (i = 0; i < M; i++) {
            double mean, fit;
            pu_int at = n * M + i;
            fit_of(t, &want, i, &mean, &fit);
            TC_CLOSE(o.y.mean[at], mean, tol);
            TC_CLOSE(o.y.fit[at], fit, tol);
            TC_CLOSE(o.y.variance[at], fit + 1 / (double)t->psi[i], tol);
            TC_ASSERT(o.y.imputed[at] == (t->mask[at] ? t->y[at] : o.y.mean[at]));
        }
    }
    if (K) { /* samples are mu + sigma, the columns that pu_gradient delivers */
        pu_gradient_result r;
        memset(&r, 0, sizeof r);
        r.x = tc_reals(N * (K + 1) * D);
        TC_STATUS(pu_gradient(&t->lgm, &t->data, &options, &ws, &r, NULL), PU_OK);
        for (n = 0; n < N; n++) {
            const pu_real *x = r.x + n * (K + 1) * D;
            for (i = 0; i < K * D; i++) TC_ASSERT(o.z.samples[n * K * D + i] == (pu_real)(x[i % D] + x[D + i]));
        }
    }
    PASS();
}

/* ---- sampled --------------------------------------------------------------------------------- */

static double worst_z;

/* Estimates against their expectation, in standard errors. Data are independent, entries of one datum are not: the mean
   square of the z-scores is one, give or take (2 / N)^1/2. A mean of K = 500 squares is normal enough. */
typedef struct {
    double square, worst;
    pu_int count;
} scores;

static void score(scores *s, double got, double want, double se)
{
    double z = (got - want) / se;
    s->square += z * z;
    s->count++;
    if (!(fabs(z) <= s->worst)) s->worst = fabs(z);
    if (!(fabs(z) <= worst_z)) worst_z = fabs(z);
}

TEST check_scores(const scores *s, pu_int independent)
{
    double mean = s->square / (double)s->count;
    TC_ASSERT(s->worst < 4.5);
    TC_CLOSE(mean, 1, 4.5 * sqrt(2 / (double)independent));
    PASS();
}

/* with = 1: diag(A) is known, and what is left to chance is Sigma_jj - 1/A_jj */
TEST sampled_variance_is_unbiased(tc_prior prior, int with)
{
    enum { K = 500 };
    tc_model *t = build(prior, 200 + (uint64_t)prior);
    pu_options options = engine_options(PU_MONTE_CARLO, PU_ITERATIVE, K);
    outputs o = make_outputs(N, 0);
    pu_workspace ws = tc_workspace();
    scores z = {0, 0, 0}, y = {0, 0, 0};
    pu_report report;
    pu_int n, i;
    tc_set_case("prior %d, diagonal known %d", (int)prior, with);
    if (!with) t->Phi.gram_diag = NULL;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, &ws, &o.z, &report), PU_OK);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, &ws, &o.y, &report), PU_OK);
    TC_ASSERT(!o.z.exact && o.z.probes == K && !o.y.exact && o.y.probes == K);
    for (n = 0; n < N; n++) {
        oracle want;
        solve_datum(t, n, &want);
        for (i = 0; i < D; i++) {
            double v = want.Sigma[i * D + i], chance = v - (with ? 1 / want.A[i * D + i] : 0);
            TC_CLOSE(o.z.mean[n * D + i], want.mu[i], exact_tol * PU_TEST_EPS);
            if (chance > 1e-3 * v) score(&z, (double)o.z.variance[n * D + i], v, chance * sqrt(2.0 / K));
            else TC_CLOSE(o.z.variance[n * D + i], v, 1e-3 * v + exact_tol * PU_TEST_EPS); /* next to no chance */
        }
        for (i = 0; i < M; i++) {
            double mean, fit;
            fit_of(t, &want, i, &mean, &fit);
            TC_CLOSE(o.y.mean[n * M + i], mean, exact_tol * PU_TEST_EPS);
            score(&y, (double)o.y.fit[n * M + i], fit, fit * sqrt(2.0 / K));
            TC_CLOSE(o.y.variance[n * M + i], (double)o.y.fit[n * M + i] + 1 / (double)t->psi[i], exact_tol * PU_TEST_EPS);
        }
    }
    TC_ASSERT(z.count > N);
    CHECK_CALL(check_scores(&z, N));
    CHECK_CALL(check_scores(&y, N));
    PASS();
}

/* Any split of the columns and any number of threads: the same numbers. */
TEST splits_do_not_matter(void)
{
    tc_model *t = build(TC_SPD, 300);
    pu_int K = 7;
    pu_options one = engine_options(PU_OUTPUT, PU_ITERATIVE, K), many;
    outputs a = make_outputs(N, K), b = make_outputs(N, K);
    double tol = 100 * exact_tol * PU_TEST_EPS; /* 30 steps in another order of summation */
    one.threads = 1;
    many = one, many.threads = 3, many.lanes = 5, many.columns = 3;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &one, NULL, &a.z, NULL), PU_OK);
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &many, NULL, &b.z, NULL), PU_OK);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &one, NULL, &a.y, NULL), PU_OK);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &many, NULL, &b.y, NULL), PU_OK);
    PU_CHECK_VECTOR(N * D, b.z.variance, a.z.variance, tol);
    PU_CHECK_VECTOR(N * K * D, b.z.samples, a.z.samples, tol);
    PU_CHECK_VECTOR(N * M, b.y.fit, a.y.fit, tol);
    PASS();
}

/* Probes of the caller's: the estimate is the formula. */
TEST formula_with_given_probes(int with)
{
    enum { K = 2 };
    tc_model *t = build(TC_DIAGONAL, 350);
    pu_options options = engine_options(PU_MONTE_CARLO, PU_ITERATIVE, K);
    outputs o = make_outputs(N, K);
    pu_real *delta = tc_normal(7, N * K * D);
    double tol = 10 * exact_tol * PU_TEST_EPS; /* squares of numbers up to about 5 */
    pu_int n, i, j, k;
    if (!with) t->Gamma.diag = NULL;
    tc_set_case("diagonal known %d", with);
    options.delta = delta;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, &o.z, NULL), PU_OK);
    for (n = 0; n < N; n++) {
        oracle a;
        solve_datum(t, n, &a);
        for (i = 0; i < D; i++) {
            double known = with ? 1 / a.A[i * D + i] : 0, want = known;
            for (k = 0; k < K; k++) {
                const pu_real *d = delta + (n * K + k) * D;
                double sigma = 0;
                for (j = 0; j < D; j++) sigma += a.Sigma[i * D + j] * (double)d[j];
                want += (sigma - known * (double)d[i]) * (sigma - known * (double)d[i]) / K;
                TC_CLOSE(o.z.samples[(n * K + k) * D + i], a.mu[i] + sigma, tol);
            }
            TC_CLOSE(o.z.variance[n * D + i], want, tol);
        }
    }
    PASS();
}

/* The mean alone needs no probes, to speak of. */
TEST mean_alone_is_cheap(void)
{
    tc_model *t = build(TC_DIAGONAL, 400);
    pu_options options = engine_options(PU_MONTE_CARLO, PU_ITERATIVE, 50);
    outputs a = make_outputs(N, 0), b = make_outputs(N, 0);
    pu_report report;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, &a.z, &report), PU_OK);
    TC_ASSERT(report.samples == 50);
    b.z.variance = NULL;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, &b.z, &report), PU_OK);
    TC_ASSERT(report.samples == 1 && b.z.probes == 1);
    PU_CHECK_VECTOR(N * D, b.z.mean, a.z.mean, exact_tol * PU_TEST_EPS);
    b.y.fit = b.y.variance = NULL;
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, NULL, &b.y, &report), PU_OK);
    TC_ASSERT(report.samples == 1);
    PASS();
}

/* The four ways to say what is missing, and y as its own place for what is imputed. */
TEST imputation(void)
{
    tc_model *t = build(TC_SPD, 500);
    pu_options options = engine_options(PU_EXACT, PU_DENSE, 0);
    pu_real *y = tc_reals(N * M), *values = tc_reals(N * M);
    pu_int *start = (pu_int *)tc_bytes((N + 1) * sizeof *start), *index = (pu_int *)tc_bytes(N * M * sizeof *index);
    pu_data kinds[3];
    pu_int i, k, n, count = 0;
    outputs a = make_outputs(N, 0), b;
    for (n = 0; n < N; n++) {
        for (i = 0; i < M; i++) {
            pu_int at = n * M + i;
            y[at] = t->mask[at] ? t->y[at] : PU_R(NAN);
            if (t->mask[at]) values[count] = t->y[at], index[count++] = i;
        }
        start[n + 1] = count;
    }
    kinds[0] = pu_data_nan(N, M, y);
    kinds[1] = pu_data_lists(N, M, start, index, values);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, NULL, &a.y, NULL), PU_OK);
    for (k = 0; k < 2; k++) {
        b = make_outputs(N, 0);
        TC_STATUS(pu_predict(&t->lgm, &kinds[k], &options, NULL, &b.y, NULL), PU_OK);
        TC_ASSERT(!memcmp(a.y.imputed, b.y.imputed, N * M * sizeof *y));
        TC_ASSERT(!memcmp(a.y.variance, b.y.variance, N * M * sizeof *y));
    }
    b.y.imputed = y; /* in place */
    TC_STATUS(pu_predict(&t->lgm, &kinds[0], &options, NULL, &b.y, NULL), PU_OK);
    TC_ASSERT(!memcmp(a.y.imputed, y, N * M * sizeof *y));
    kinds[2] = pu_data_full(N, M, y); /* nothing missing: nothing imputed */
    b = make_outputs(N, 0);
    TC_STATUS(pu_predict(&t->lgm, &kinds[2], &options, NULL, &b.y, NULL), PU_OK);
    TC_ASSERT(!memcmp(b.y.imputed, y, N * M * sizeof *y));
    PASS();
}

/* A batch picked out of the data, imputed into the data's own array: the rows of the batch go to its front in the batch's
   order, and each is made from the data as they were, although earlier rows lie where later ones are read from. */
TEST imputation_of_a_batch_in_place(int masked)
{
    enum { BATCH = 5 };
    static const pu_int pick[BATCH] = {1, 0, N - 1, 3, 0};
    tc_model *t = build(TC_SPD, 510);
    pu_options options = engine_options(PU_EXACT, PU_DENSE, 0);
    pu_real *y = tc_reals(N * M), *before = tc_reals(N * M);
    outputs all = make_outputs(N, 0), batch = make_outputs(BATCH, 0);
    pu_data data;
    pu_int n, i;
    tc_set_case(masked ? "mask" : "NaN");
    for (i = 0; i < N * M; i++) y[i] = before[i] = t->mask[i] || masked ? t->y[i] : PU_R(NAN);
    data = masked ? pu_data_masked(N, M, y, t->mask) : pu_data_nan(N, M, y);
    TC_STATUS(pu_predict(&t->lgm, &data, &options, NULL, &all.y, NULL), PU_OK);
    data.n = BATCH, data.pick = pick, batch.y.imputed = y;
    TC_STATUS(pu_predict(&t->lgm, &data, &options, NULL, &batch.y, NULL), PU_OK);
    for (n = 0; n < BATCH; n++) {
        TC_ASSERT(!memcmp(y + n * M, all.y.imputed + pick[n] * M, M * sizeof *y));
        TC_ASSERT(!memcmp(batch.y.mean + n * M, all.y.mean + pick[n] * M, M * sizeof *y));
        TC_ASSERT(!memcmp(batch.y.variance + n * M, all.y.variance + pick[n] * M, M * sizeof *y));
    }
    TC_ASSERT(!memcmp(y + BATCH * M, before + BATCH * M, (N - BATCH) * M * sizeof *y));
    PASS();
}

/* ---- simulation ------------------------------------------------------------------------------ */

/* Covariances of z and y over `draws` draws against C = Gamma^-1 and Phi C Phi' + Psi^-1; a sample covariance has variance
   (C_ii C_jj + C_ij^2) / n. Means are known. */
TEST check_covariance(pu_int n, pu_int draws, const pu_real *x, const double *mean, const double *C)
{
    pu_int d, i, j;
    for (i = 0; i < n; i++) {
        double average = 0;
        for (d = 0; d < draws; d++) average += ((double)x[d * n + i] - mean[i]) / (double)draws;
        TC_CLOSE(average, 0, 4.5 * sqrt(C[i * n + i] / (double)draws));
        for (j = 0; j <= i; j++) {
            double sum = 0, se = sqrt((C[i * n + i] * C[j * n + j] + C[i * n + j] * C[i * n + j]) / (double)draws);
            for (d = 0; d < draws; d++) {
                sum += ((double)x[d * n + i] - mean[i]) * ((double)x[d * n + j] - mean[j]) / (double)draws;
            }
            if (fabs(sum - C[i * n + j]) / se > worst_z) worst_z = fabs(sum - C[i * n + j]) / se;
            TC_CLOSE(sum, C[i * n + j], 4.5 * se);
        }
    }
    PASS();
}

TEST check_simulation(const pu_lgm *lgm, const pu_real *phi)
{
    enum { DRAWS = 3000 };
    pu_int d = lgm->Gamma->rows, m = lgm->Phi->rows, i, j, l;
    double *C = tc_doubles(d * d), *L = tc_doubles(d * d), *P = tc_doubles(m * d), *PC = tc_doubles(m * d);
    double *Cy = tc_doubles(m * m), *nu = tc_doubles(d), *eta = tc_doubles(m);
    pu_real *z = tc_reals(DRAWS * d), *y = tc_reals(DRAWS * m), *again = tc_reals(DRAWS * (d > m ? d : m));
    pu_workspace ws = tc_workspace();
    pu_report report;
    prior_matrix(lgm->Gamma, L);
    if (!tc_cholesky(d, L)) exit(2);
    tc_inverse(d, L, C);
    for (i = 0; i < m * d; i++) P[i] = (double)phi[i];
    tc_matmul(m, d, d, P, C, PC);
    for (i = 0; i < d; i++) nu[i] = lgm->nu ? (double)lgm->nu[i] : 0;
    tc_matvec(m, d, P, nu, eta);
    for (i = 0; i < m; i++) {
        eta[i] += lgm->eta ? (double)lgm->eta[i] : 0;
        for (j = 0; j < m; j++) {
            for (l = 0; l < d; l++) Cy[i * m + j] += PC[i * d + l] * P[j * d + l];
            if (i == j) Cy[i * m + j] += 1 / (double)lgm->psi[i];
        }
    }
    TC_STATUS(pu_simulate(lgm, DRAWS, 11, &ws, z, y, &report), PU_OK);
    TC_ASSERT(ws.allocations == 1 && report.bytes == ws.bytes);
    CHECK_CALL(check_covariance(d, DRAWS, z, nu, C));
    CHECK_CALL(check_covariance(m, DRAWS, y, eta, Cy));
    TC_STATUS(pu_simulate(lgm, DRAWS, 11, &ws, again, NULL, NULL), PU_OK); /* same seed, same bits */
    TC_ASSERT(!memcmp(again, z, (size_t)(DRAWS * d) * sizeof *z));
    TC_STATUS(pu_simulate(lgm, DRAWS, 11, &ws, NULL, again, NULL), PU_OK);
    TC_ASSERT(!memcmp(again, y, (size_t)(DRAWS * m) * sizeof *z));
    TC_ASSERT(ws.allocations == 1);
    TC_STATUS(pu_simulate(lgm, 3, 11, &ws, NULL, again, NULL), PU_OK); /* a draw does not depend on how many there are */
    PU_CHECK_VECTOR(3 * m, again, y, 1000 * PU_TEST_EPS);
    TC_STATUS(pu_simulate(lgm, 3, 12, &ws, NULL, again, NULL), PU_OK);
    TC_ASSERT(pu_test_relerr(3 * m, again, y) > 0.01);
    PASS();
}

TEST simulate_basic(tc_prior prior)
{
    tc_model *t = build(prior, 600 + (uint64_t)prior);
    CHECK_CALL(check_simulation(&t->lgm, t->phi));
    t->lgm.nu = t->lgm.eta = NULL;
    CHECK_CALL(check_simulation(&t->lgm, t->phi));
    PASS();
}

TEST simulate_series(int which)
{
    tc_model *t = build(TC_IDENTITY, 700);
    pu_ar ar;
    pu_ssm ssm;
    pu_real gamma[2] = {PU_R(0.6), PU_R(-0.4)}, A[4] = {PU_R(0.8), PU_R(0.3), PU_R(-0.2), PU_R(0.5)};
    pu_real Q[4] = {PU_R(1), PU_R(0.25), PU_R(0.25), PU_R(0.5)};
    tc_set_case("series %d", which);
    if (which == 0) {
        TC_STATUS(pu_ar_set(&ar, D, 2, gamma, PU_R(1.5), NULL), PU_OK);
        t->Gamma = pu_op_ar(&ar);
    } else {
        TC_STATUS(pu_ssm_set(&ssm, D / 2, 2, A, Q, which == 1 ? PU_SSM_ZERO : PU_SSM_STATIONARY, NULL, NULL), PU_OK);
        t->Gamma = pu_op_ssm(&ssm);
    }
    CHECK_CALL(check_simulation(&t->lgm, t->phi));
    PASS();
}

/* Without Gamma.solve: PCG where there is a diagonal, else CG. */
TEST simulate_by_iteration(int diag)
{
    tc_model *t = build(TC_SPD, 800);
    pu_op ridge = pu_op_diagonal(D, tc_random_positive(9, D)), sum = pu_op_sum(&t->Gamma, &ridge);
    tc_set_case("sum of operators, diag %d", diag);
    if (!diag) sum.diag = NULL;
    TC_ASSERT(!sum.solve);
    t->lgm.Gamma = &sum;
    { /* the sum's normals are 2 D */
        const pu_lgm lgm = t->lgm;
        CHECK_CALL(check_simulation(&lgm, t->phi));
    }
    PASS();
}

/* 1,000 steps are not enough for 10 decades of eigenvalues: said so, and the best there is delivered. */
TEST simulate_says_when_it_does_not_converge(void)
{
    enum { n = 1500 };
    pu_real *a = tc_reals(n), *psi = tc_reals(n), *z = tc_reals(2 * n);
    pu_op Gamma = pu_op_diagonal(n, a), Phi = pu_op_identity(n);
    pu_lgm lgm = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_report report;
    pu_int i;
    for (i = 0; i < n; i++) a[i] = (pu_real)pow(10, 10 * (double)(tc_hash((uint64_t)i) % 10000) / 10000), psi[i] = PU_R(1);
    lgm.psi = psi;
    Gamma.solve = NULL, Gamma.diag = NULL;
    tc_set_case("ill-conditioned");
    TC_STATUS(pu_simulate(&lgm, 2, 1, NULL, z, NULL, &report), PU_CAP);
    TC_ASSERT(strstr(report.where.what, "Gamma^-1") && report.where.datum >= 0 && report.where.datum < 2);
    for (i = 0; i < 2 * n && z[i] == PU_R(0); i++) continue;
    TC_ASSERT(i < 2 * n);
    PASS();
}

/* ---- refusals -------------------------------------------------------------------------------- */

static int countdown; /* products until the operator below fails */

static pu_status failing(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_op *inner = (const pu_op *)op->aux;
    return --countdown < 0 ? PU_E_OPERATOR : inner->apply(inner, k, X, Y, add, work);
}

typedef struct {
    unsigned char *bytes;
    size_t size;
    outputs o;
    pu_real *z;
} guarded; /* all outputs in one block, filled with a pattern */

static guarded guard(pu_int K)
{
    guarded g;
    pu_real *at;
    g.size = (size_t)(N * (2 * D + K * D + 4 * M + D)) * sizeof(pu_real);
    g.bytes = (unsigned char *)tc_bytes(g.size);
    memset(g.bytes, TC_PATTERN, g.size);
    memset(&g.o, 0, sizeof g.o);
    at = (pu_real *)(void *)g.bytes;
    g.o.z.mean = at, at += N * D;
    g.o.z.variance = at, at += N * D;
    g.o.y.mean = at, at += N * M;
    g.o.y.fit = at, at += N * M;
    g.o.y.variance = at, at += N * M;
    g.o.y.imputed = at, at += N * M;
    g.z = at, at += N * D;
    if (K) g.o.z.samples = at;
    g.o.z.exact = g.o.y.exact = -7;
    return g;
}

static int untouched(const guarded *g)
{
    return tc_is_pattern(g->bytes, g->size) && g->o.z.exact == -7 && g->o.y.exact == -7;
}

TEST refusals(void)
{
    tc_model *t = build(TC_SPD, 900);
    pu_options options = engine_options(PU_MONTE_CARLO, PU_ITERATIVE, 4);
    guarded g = guard(4);
    pu_report report;
    pu_lgm bad = t->lgm;
    pu_real keep;
    pu_op plain = t->Gamma;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, NULL, &report), PU_E_NULL);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, NULL, NULL, &report), PU_E_NULL);
    TC_STATUS(pu_posterior(NULL, &t->data, &options, NULL, &g.o.z, &report), PU_E_NULL);
    TC_STATUS(pu_predict(&t->lgm, NULL, &options, NULL, &g.o.y, &report), PU_E_NULL);
    TC_STATUS(pu_simulate(NULL, 1, 0, NULL, g.z, NULL, &report), PU_E_NULL);
    TC_STATUS(pu_simulate(&t->lgm, 1, 0, NULL, NULL, NULL, &report), PU_E_NULL);
    TC_STATUS(pu_simulate(&t->lgm, 0, 0, NULL, g.z, NULL, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "n"));
    TC_STATUS(pu_simulate(&t->lgm, PTRDIFF_MAX, 0, NULL, g.z, NULL, &report), PU_E_OVERFLOW);
    plain.sample = NULL, bad.Gamma = &plain;
    TC_STATUS(pu_simulate(&bad, 1, 0, NULL, g.z, NULL, &report), PU_E_UNSUPPORTED);
    TC_ASSERT(!strcmp(report.where.what, "Gamma.sample"));
    options.samples = PU_CHOOSE;
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, &g.o.z, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "out.samples"));
    options.samples = 4;
    keep = t->psi[3], t->psi[3] = PU_R(-1);
    TC_STATUS(pu_posterior(&t->lgm, &t->data, &options, NULL, &g.o.z, &report), PU_E_NOT_POSITIVE);
    TC_ASSERT(report.where.index == 3);
    TC_STATUS(pu_predict(&t->lgm, &t->data, &options, NULL, &g.o.y, &report), PU_E_NOT_POSITIVE);
    TC_STATUS(pu_simulate(&t->lgm, 2, 0, NULL, g.z, NULL, &report), PU_E_NOT_POSITIVE);
    t->psi[3] = keep;
    TC_ASSERT(untouched(&g));
    PASS();
}

/* The operator fails at its first, second, .. call: every call stops, names it and leaves the outputs alone. */
TEST failure_half_way(pu_kind kind, pu_engine engine)
{
    tc_model *t = build(TC_SPD, 1000);
    pu_options options = engine_options(kind, engine, kind == PU_EXACT ? PU_ZERO : 4);
    pu_op Phi = t->Phi, Gamma = t->Gamma;
    pu_lgm lgm = t->lgm;
    guarded g = guard(0);
    pu_report report;
    int after, seen[3] = {0, 0, 0}, call;
    tc_set_case("kind %d, engine %d", (int)kind, (int)engine);
    lgm.Phi = &Phi, lgm.Gamma = &Gamma;
    Phi.apply = failing, Phi.aux = &t->Phi, Phi.apply_rows = NULL, Phi.data = t->Phi.data;
    options.threads = 1;
    for (call = 0; call < 3; call++) {
        for (after = 0; after < 100000; after = after < 5 ? after + 1 : 2 * after) {
            pu_status status;
            countdown = after;
            status = call == 0   ? pu_posterior(&lgm, &t->data, &options, NULL, &g.o.z, &report)
                     : call == 1 ? pu_predict(&lgm, &t->data, &options, NULL, &g.o.y, &report)
                                 : pu_simulate(&lgm, N, 1, NULL, g.z, NULL, &report);
            if (status == PU_OK) break;
            TC_STATUS(status, PU_E_OPERATOR);
            TC_ASSERT(!strcmp(report.where.what, "Phi.apply"));
            TC_ASSERT(untouched(&g));
            seen[call]++;
        }
        TC_ASSERT(countdown >= 0 && seen[call] > 0);
        g = guard(0);
    }
    PASS();
}

/* One allocation, none the second time; a block of exactly the size reported will do, one byte less will not. */
TEST memory(pu_kind kind, pu_engine engine)
{
    tc_model *t = build(TC_SPD, 1100);
    pu_options options = engine_options(kind, engine, kind == PU_EXACT ? PU_ZERO : 4);
    guarded g = guard(0);
    pu_report report;
    int call;
    tc_set_case("kind %d, engine %d", (int)kind, (int)engine);
    for (call = 0; call < 3; call++) {
        pu_workspace ws = tc_workspace(), fixed;
        size_t bytes = 0;
        int round;
        for (round = 0; round < 5; round++) {
            pu_workspace *use = round < 2 ? &ws : &fixed;
            pu_status status, want = round == 2 || round == 3 ? PU_E_BLOCK : PU_OK;
            memset(&fixed, 0, sizeof fixed);
            if (round == 2) pu_workspace_block(&fixed, NULL, 0);
            if (round == 3) pu_workspace_block(&fixed, tc_bytes(bytes - 1), bytes - 1);
            if (round == 4) pu_workspace_block(&fixed, tc_bytes(bytes), bytes);
            status = call == 0   ? pu_posterior(&t->lgm, &t->data, &options, use, &g.o.z, &report)
                     : call == 1 ? pu_predict(&t->lgm, &t->data, &options, use, &g.o.y, &report)
                                 : pu_simulate(&t->lgm, N, 1, use, g.z, NULL, &report);
            TC_STATUS(status, want);
            TC_ASSERT(bytes == 0 || report.bytes == bytes);
            bytes = report.bytes;
            TC_ASSERT(ws.allocations == 1);
        }
    }
    PASS();
}

/* Precisions, data and means of any size a number can have: moments and draws that are written are finite; those that
   overflow are refused, and leave the arrays alone. */
TEST nothing_infinite_is_predicted(void)
{
    enum { n = 3, K = 3 };
    const double most = PU_TEST_EPS < 1e-10 ? 308 : 38;
    pu_real big[6][n] = {{0}}, y[n], z[K * n], mean[n], variance[n], fit[n], imputed[n];
    pu_op Gamma = pu_op_diagonal(n, big[0]), Phi = pu_op_diagonal(n, big[2]);
    pu_lgm lgm = {&Gamma, &Phi, big[3], big[4], big[1], 0};
    pu_data data = pu_data_full(1, n, y);
    int written[3] = {0}, refused[3] = {0}, call;
    uint64_t seed;
    for (seed = 1; seed <= 3000; seed++) {
        pu_options o;
        pu_int i, j;
        for (j = 0; j < 6; j++)
            for (i = 0; i < n; i++) {
                double u = (double)(tc_hash(seed * 100 + (uint64_t)(3 * j + i)) % 2001) / 1000 - 1;
                big[j][i] = tc_hash(seed * 100 + 50 + (uint64_t)j) % 3 ? PU_R(1) : (pu_real)pow(10, most * u);
            }
        for (i = 0; i < n; i++) y[i] = big[5][i];
        memset(&o, 0, sizeof o);
        o.samples = K;
        o.kind = (pu_kind)(tc_hash(seed) % 4);
        o.engine = o.kind == PU_EXACT || o.kind == PU_MONTE_CARLO ? PU_DENSE : PU_ITERATIVE;
        for (call = 0; call < 3; call++) {
            pu_posterior_result a;
            pu_predict_result b;
            pu_status status;
            memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
            for (i = 0; i < K * n; i++) z[i] = PU_R(7);
            for (i = 0; i < n; i++) mean[i] = variance[i] = fit[i] = imputed[i] = PU_R(7);
            a.mean = mean, a.variance = variance, a.samples = o.kind == PU_EXACT ? NULL : z;
            b.mean = mean, b.variance = variance, b.fit = fit, b.imputed = imputed;
            tc_set_case("seed %d, call %d", (int)seed, call);
            status = call == 0   ? pu_posterior(&lgm, &data, &o, NULL, &a, NULL)
                     : call == 1 ? pu_predict(&lgm, &data, &o, NULL, &b, NULL)
                                 : pu_simulate(&lgm, 1, 5, NULL, mean, variance, NULL);
            if (status >= 0 && status != PU_NONFINITE && status != PU_BREAKDOWN) {
                written[call]++;
                for (i = 0; i < K * n; i++) TC_ASSERT(fabs((double)z[i]) <= DBL_MAX);
                for (i = 0; i < n; i++) TC_ASSERT(fabs((double)mean[i]) <= DBL_MAX && fabs((double)variance[i]) <= DBL_MAX);
                for (i = 0; i < n; i++) TC_ASSERT(fabs((double)fit[i]) <= DBL_MAX && fabs((double)imputed[i]) <= DBL_MAX);
                continue;
            }
            refused[call]++;
            for (i = 0; i < n; i++)
                TC_ASSERT(mean[i] == PU_R(7) && variance[i] == PU_R(7) && fit[i] == PU_R(7) && imputed[i] == PU_R(7) && z[i] == PU_R(7));
        }
    }
    for (call = 0; call < 3; call++) TC_ASSERT(written[call] > 100 && refused[call] > 20);
    PASS();
}

/* 1/psi overflows: the variance of an observation is refused by its name. */
TEST a_variance_that_overflows_is_named(void)
{
    pu_real one[2] = {1, 1}, tiny[2], y[2] = {1, 2}, mean[2], variance[2];
    pu_op Gamma = pu_op_diagonal(2, one), Phi = pu_op_identity(2);
    pu_lgm lgm = {&Gamma, &Phi, NULL, NULL, tiny, 0};
    pu_data data = pu_data_full(1, 2, y);
    pu_predict_result out;
    pu_options o;
    pu_report report;
    tiny[0] = PU_R(1), tiny[1] = PU_TEST_EPS < 1e-10 ? (pu_real)1e-310 : (pu_real)1e-40;
    memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
    o.kind = PU_EXACT, o.samples = PU_ZERO, out.mean = mean, out.variance = variance;
    tc_set_case("1/psi");
    TC_STATUS(pu_predict(&lgm, &data, &o, NULL, &out, &report), PU_NONFINITE);
    TC_ASSERT(strcmp(report.where.what, "variance") == 0 && report.where.datum == 0 && report.where.index == 1);
    PASS();
}

/* The iterative engine with no word about steps: means of a system that 30 steps of CG are too few for are right, and where the most
   steps are too few the status says so. */
TEST moments_are_converged(int y_wanted, double spread)
{
    enum { n = 300 };
    static pu_real gamma[n], ones[n], y[n], mean[n];
    pu_op Gamma = pu_op_diagonal(n, gamma), Phi = pu_op_identity(n);
    pu_lgm lgm = {&Gamma, &Phi, NULL, NULL, ones, 0};
    pu_data data = pu_data_full(1, n, y);
    pu_options o = engine_options(PU_NETWORK, PU_ITERATIVE, 0);
    int steps, i;
    for (i = 0; i < n; i++) {
        gamma[i] = (pu_real)pow(10, spread * i / n);
        ones[i] = PU_R(1);
        y[i] = (pu_real)(tc_hash((uint64_t)i) % 2001) / 1000 * gamma[i];
    }
    for (steps = 0; steps <= 30; steps += 30) {
        pu_posterior_result z;
        pu_predict_result out;
        pu_report report;
        pu_status status;
        double off = 0;
        memset(&z, 0, sizeof z), memset(&out, 0, sizeof out);
        z.mean = out.mean = mean;
        o.solve.iterations = steps;
        status = y_wanted ? pu_predict(&lgm, &data, &o, NULL, &out, &report) : pu_posterior(&lgm, &data, &o, NULL, &z, &report);
        for (i = 0; i < n; i++) off = fmax(off, fabs((double)mean[i] - (double)y[i] / (1 + (double)gamma[i])));
        tc_set_case("spread %g, steps %d, status %d, off by %g", spread, steps, (int)status, off);
        if (spread > 5 && steps == 0) {
            TC_ASSERT(status == PU_CAP && report.iterations == 1000);
        } else {
            TC_ASSERT(status == PU_OK);
            TC_ASSERT(steps ? off > 0.05 && report.iterations == 30 : off < 1e5 * PU_TEST_EPS);
        }
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const tc_prior priors[] = {TC_IDENTITY, TC_DIAGONAL, TC_SPD};
    int p;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (p = 0; p < 3; p++) {
        RUN_TESTp(direct_engines_are_exact, priors[p], PU_EXACT, PU_DENSE);
        RUN_TESTp(direct_engines_are_exact, priors[p], PU_EXACT, PU_DUAL);
        RUN_TESTp(direct_engines_are_exact, priors[p], PU_MONTE_CARLO, PU_DENSE);
        RUN_TESTp(sampled_variance_is_unbiased, priors[p], 0);
        RUN_TESTp(sampled_variance_is_unbiased, priors[p], 1);
        RUN_TESTp(simulate_basic, priors[p]);
        RUN_TESTp(simulate_series, p);
    }
    RUN_TEST(splits_do_not_matter);
    RUN_TESTp(formula_with_given_probes, 0);
    RUN_TESTp(formula_with_given_probes, 1);
    RUN_TEST(mean_alone_is_cheap);
    RUN_TEST(imputation);
    RUN_TESTp(imputation_of_a_batch_in_place, 0);
    RUN_TESTp(imputation_of_a_batch_in_place, 1);
    RUN_TESTp(simulate_by_iteration, 0);
    RUN_TESTp(simulate_by_iteration, 1);
    RUN_TEST(simulate_says_when_it_does_not_converge);
    RUN_TEST(refusals);
    RUN_TESTp(failure_half_way, PU_EXACT, PU_DENSE);
    RUN_TESTp(failure_half_way, PU_EXACT, PU_DUAL);
    RUN_TESTp(failure_half_way, PU_MONTE_CARLO, PU_ITERATIVE);
    RUN_TESTp(memory, PU_EXACT, PU_DENSE);
    RUN_TESTp(memory, PU_EXACT, PU_DUAL);
    RUN_TESTp(memory, PU_MONTE_CARLO, PU_ITERATIVE);
    RUN_TEST(nothing_infinite_is_predicted);
    RUN_TEST(a_variance_that_overflows_is_named);
    for (p = 0; p < 2; p++) {
        RUN_TESTp(moments_are_converged, p, 4.0);
        RUN_TESTp(moments_are_converged, p, 10.0);
    }
    if (greatest_get_verbosity() > 0) printf("worst z-score: %.2f\n", worst_z);
    PU_TEST_MAIN_END();
}

/* test_sharing.c - data with the same observed rows share one factor of A: the same numbers as one call for each datum.

   The mean of a datum, its variances and its part of the likelihood have the same bits alone and in company, unless AUTO
   takes another engine because it is cheaper in company. Gradients are sums
   in another order: of N = 90 data, each of up to D + 1 = 31 columns, whose rounding is at most the number of terms
   times eps times their size; terms are up to a hundred times larger than what is left of them. Hence 1e4 eps of the sum of
   the sizes of the data's gradients. */
#include "pu_test.h"
#include "test_common.h"
#ifdef _OPENMP
#include <omp.h>
#endif

enum { N = 90, PATTERNS = 4 };

typedef enum { MATRIX, WIDE_MATRIX, SERIES, STATES, PARTS, KINDS } kind_of_model;

typedef struct {
    pu_ar ar;
    pu_ssm ssm;
    pu_model model; /* PARTS */
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
    pu_real *y;
    unsigned char *mask;
    pu_int D, M;
} shared;

/* Data in a mixed order: a complete pattern, one without any entry, two others, and every seventh datum unlike all others. */
static void fill_data(shared *s, uint64_t seed)
{
    pu_int M = s->M, n, i;
    s->y = tc_normal(seed, N * M);
    s->mask = (unsigned char *)tc_bytes((size_t)(N * M));
    for (n = 0; n < N; n++)
        for (i = 0; i < M; i++) {
            uint64_t pattern = tc_hash((uint64_t)n) % PATTERNS, chance;
            int seen = pattern == 0;
            if (n % 7 == 0) pattern = 100 + (uint64_t)n;
            chance = tc_hash(1000 * pattern + (uint64_t)i) % 3;
            if (pattern > 1) seen = chance > 0;
            if (n % 7 == 0 && i == n / 7 % M) seen = !seen;
            s->mask[n * M + i] = (unsigned char)seen;
        }
    s->data = pu_data_masked(N, M, s->y, s->mask);
}

/* Parts whose start is known: a datum without any entry has a likelihood, too. Parameters by number. */
static int build_parts(shared *s)
{
    static const pu_part parts[2] = {{PU_PART_AR, 2, 0}, {PU_PART_MATERN32, 0, 0}};
    static const pu_real theta[6] = {PU_R(0.7), PU_R(-0.3), PU_R(0.1), PU_R(-0.5), PU_R(1.5), PU_R(-0.7)};
    pu_workspace_block(&s->model.memory, tc_bytes(1 << 16), 1 << 16);
    if (pu_model_structural(&s->model, 25, parts, 2, NULL)) return 0;
    if (s->model.params != 6 || pu_model_set(&s->model, theta, NULL)) return 0;
    s->Gamma = s->model.Gamma, s->Phi = s->model.Phi, s->M = 25, s->D = s->Gamma.rows;
    return 1;
}

static int build(shared *s, kind_of_model kind, int whole)
{
    static const pu_real gamma[2] = {PU_R(0.6), PU_R(-0.3)}, Q[4] = {PU_R(0.5), PU_R(0.1), PU_R(0.1), PU_R(0.7)};
    static const pu_real A[4] = {PU_R(0.6), PU_R(0.2), PU_R(-0.1), PU_R(0.5)};
    pu_real *psi, *a, *factor;
    pu_int i;
    memset(s, 0, sizeof *s);
    if (kind == MATRIX || kind == WIDE_MATRIX) {
        s->D = kind == MATRIX ? 9 : 30, s->M = kind == MATRIX ? 21 : 13;
        a = tc_random_spd(3, s->D), factor = tc_reals(s->D * s->D);
        if (pu_spd_factor(s->D, a, factor, NULL)) return 0;
        s->Gamma = pu_op_spd(s->D, a, factor);
        s->Phi = pu_op_dense(s->M, s->D, tc_normal(4, s->M * s->D));
    } else if (kind == SERIES) {
        s->D = s->M = 25;
        if (pu_ar_set(&s->ar, s->D, 2, gamma, PU_R(0.6), NULL)) return 0;
        s->Gamma = pu_op_ar(&s->ar), s->Phi = pu_op_identity(s->D);
    } else if (kind == PARTS) {
        if (!build_parts(s)) return 0;
    } else {
        s->D = 24, s->M = 12;
        if (pu_ssm_set(&s->ssm, s->M, 2, A, Q, PU_SSM_STATIONARY, NULL, NULL)) return 0;
        s->Gamma = pu_op_ssm(&s->ssm), s->Phi = pu_op_readout(s->M, 2, tc_normal(77, 2));
    }
    psi = tc_reals(s->M);
    for (i = 0; i < s->M; i++) psi[i] = PU_R(0.5) + (pu_real)(i % 5) / PU_R(4);
    s->lgm.Gamma = &s->Gamma, s->lgm.Phi = &s->Phi, s->lgm.psi = psi;
    if (whole) s->lgm.nu = kind == PARTS ? NULL : tc_normal(5, s->D), s->lgm.eta = tc_normal(6, s->M);
    fill_data(s, 7);
    return 1;
}

/* [nu | Gamma | Phi | eta | psi] */
static pu_int length(const shared *s) { return s->D + s->Gamma.params + s->Phi.params + 2 * s->M; }

static pu_gradient_result results(const shared *s, pu_real *g)
{
    pu_gradient_result out;
    memset(&out, 0, sizeof out);
    out.nu = s->model.params ? NULL : g, out.Gamma = g + s->D, out.Phi = out.Gamma + s->Gamma.params;
    out.eta = out.Phi + s->Phi.params, out.psi = out.eta + s->M;
    return out;
}

static pu_options with(pu_kind kind, pu_engine engine)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind, o.engine = engine, o.seed = 5;
    if (kind != PU_EXACT) o.samples = 3;
    return o;
}

/* Gradient, likelihood and columns x of all data in one call against a call for each. */
static greatest_test_res equals_one_by_one(const shared *s, pu_kind kind, pu_engine engine)
{
    pu_int P = length(s), columns = kind == PU_EXACT ? 1 : 4, n, i;
    pu_options o = with(kind, engine);
    pu_real *all = tc_reals(P), *one = tc_reals(P), *x = tc_reals(N * columns * s->D), *x1 = tc_reals(columns * s->D);
    double *sum = tc_doubles(P), *size = tc_doubles(P), nll = 0, q = 0, tol;
    pu_gradient_result out = results(s, all);
    pu_report report, single;
    out.x = x;
    TC_STATUS(pu_gradient(&s->lgm, &s->data, &o, NULL, &out, &report), PU_OK);
    for (n = 0; n < N; n++) {
        pu_data data = s->data;
        data.n = 1, data.pick = &n;
        out = results(s, one), out.x = x1;
        TC_STATUS(pu_gradient(&s->lgm, &data, &o, NULL, &out, &single), PU_OK);
        for (i = 0; i < columns * s->D; i++) {
            double scale = 1e3 * PU_TEST_EPS * (1 + fabs((double)x1[i]));
            TC_CLOSE(x[n * columns * s->D + i], x1[i], engine == PU_ENGINE_AUTO ? scale : 0);
        }
        for (i = 0; i < P; i++) sum[i] += (double)one[i] / N, size[i] += fabs((double)one[i]) / N;
        nll += single.nll / N, q += single.q / N;
    }
    for (i = 0; i < P; i++) {
        double largest = size[i];
        pu_int j;
        for (j = 0; j < P; j++) largest = largest > size[j] ? largest : size[j];
        TC_CLOSE(all[i], sum[i], 1e4 * (double)PU_TEST_EPS * largest);
    }
    /* with AUTO of two engines, else of the same numbers */
    tol = engine == PU_ENGINE_AUTO ? 1e3 * PU_TEST_EPS : 100 * DBL_EPSILON;
    TC_CLOSE(report.nll, nll, tol * (fabs(nll) + 1));
    TC_CLOSE(report.q, q, tol * (fabs(q) + 1));
    PASS();
}

static const pu_engine engines[] = {PU_DENSE, PU_DUAL, PU_BANDED, PU_KALMAN, PU_ENGINE_AUTO};

/* Does it serve such a model? */
static int serves(pu_engine engine, int kind)
{
    if (kind == PARTS) return engine == PU_KALMAN || engine == PU_ENGINE_AUTO;
    return (kind != MATRIX && kind != WIDE_MATRIX) || (engine != PU_BANDED && engine != PU_KALMAN);
}

TEST one_call_is_the_mean_of_one_call_for_each(void)
{
    int kind, e, whole;
    for (kind = 0; kind < KINDS; kind++)
        for (whole = 0; whole < 2; whole++)
            for (e = 0; e < 5; e++) {
                shared s;
                size_t mark = tc_kept_count;
                if (!serves(engines[e], kind)) continue;
                tc_set_case("model %d, %s, engine %s", kind, whole ? "nu and eta" : "no means", pu_engine_text(engines[e]));
                ASSERT(build(&s, (kind_of_model)kind, whole));
                CHECK_CALL(equals_one_by_one(&s, PU_EXACT, engines[e]));
                if (engines[e] != PU_KALMAN && engines[e] != PU_ENGINE_AUTO)
                    CHECK_CALL(equals_one_by_one(&s, PU_MONTE_CARLO, engines[e]));
                tc_release_to(mark);
            }
    PASS();
}

/* Means and variances, of z and of y. */
TEST posteriors_do_not_depend_on_company(void)
{
    int kind, e;
    for (kind = 0; kind < KINDS; kind++)
        for (e = 0; e < 4; e++) {
            shared s;
            pu_options o = with(PU_EXACT, engines[e]);
            pu_posterior_result z, z1;
            pu_predict_result y, y1;
            pu_int n;
            if (!serves(engines[e], kind)) continue;
            tc_set_case("model %d, engine %s", kind, pu_engine_text(engines[e]));
            ASSERT(build(&s, (kind_of_model)kind, 1));
            memset(&z, 0, sizeof z), memset(&y, 0, sizeof y);
            z.mean = tc_reals(N * s.D), z.variance = tc_reals(N * s.D);
            y.mean = tc_reals(N * s.M), y.fit = tc_reals(N * s.M), z1 = z, y1 = y;
            TC_STATUS(pu_posterior(&s.lgm, &s.data, &o, NULL, &z, NULL), PU_OK);
            TC_STATUS(pu_predict(&s.lgm, &s.data, &o, NULL, &y, NULL), PU_OK);
            z1.mean = tc_reals(s.D), z1.variance = tc_reals(s.D), y1.mean = tc_reals(s.M), y1.fit = tc_reals(s.M);
            for (n = 0; n < N; n++) {
                pu_data data = s.data;
                data.n = 1, data.pick = &n;
                TC_STATUS(pu_posterior(&s.lgm, &data, &o, NULL, &z1, NULL), PU_OK);
                TC_STATUS(pu_predict(&s.lgm, &data, &o, NULL, &y1, NULL), PU_OK);
                TC_ASSERT(!memcmp(z1.mean, z.mean + n * s.D, (size_t)s.D * sizeof(pu_real)));
                TC_ASSERT(!memcmp(z1.variance, z.variance + n * s.D, (size_t)s.D * sizeof(pu_real)));
                TC_ASSERT(!memcmp(y1.mean, y.mean + n * s.M, (size_t)s.M * sizeof(pu_real)));
                TC_ASSERT(!memcmp(y1.fit, y.fit + n * s.M, (size_t)s.M * sizeof(pu_real)));
            }
        }
    PASS();
}

/* 1, 2, 3 threads; NaN, mask and lists; a block of just the bytes that were told. */
TEST bits_depend_on_neither_threads_nor_the_kind_of_data(void)
{
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        shared s;
        pu_data kinds[3];
        pu_int *start = (pu_int *)tc_bytes((N + 1) * sizeof *start), *index, P, count = 0, i;
        pu_real *first, *again, *values, *y;
        int way, threads;
        ASSERT(build(&s, (kind_of_model)kind, 1));
        P = length(&s), first = tc_reals(P), again = tc_reals(P), values = tc_reals(N * s.M), y = tc_reals(N * s.M);
        index = (pu_int *)tc_bytes((size_t)(N * s.M) * sizeof *index);
        for (i = 0; i < N * s.M; i++) {
            y[i] = s.mask[i] ? s.y[i] : PU_R(NAN);
            if (s.mask[i]) values[count] = y[i], index[count++] = i % s.M;
            start[i / s.M + 1] = count;
        }
        kinds[0] = s.data, kinds[1] = pu_data_nan(N, s.M, y), kinds[2] = pu_data_lists(N, s.M, start, index, values);
        for (way = 0; way < 3; way++)
            for (threads = 1; threads < 4; threads++) {
                pu_options o = with(PU_EXACT, PU_ENGINE_DEFAULT);
                pu_gradient_result out = results(&s, way + threads > 1 ? again : first);
                pu_report report;
                pu_workspace ws;
                size_t bytes = 0;
                tc_set_case("model %d, data %d, %d threads", kind, way, threads);
                o.threads = threads;
                TC_STATUS(pu_gradient_bytes(&s.lgm, &kinds[way], &o, &out, &bytes, NULL), PU_OK);
                memset(&ws, 0, sizeof ws);
                pu_workspace_block(&ws, tc_bytes(bytes), bytes);
                TC_STATUS(pu_gradient(&s.lgm, &kinds[way], &o, &ws, &out, &report), PU_OK);
                if (way + threads > 1) TC_ASSERT(!memcmp(first, again, (size_t)P * sizeof *first));
                TC_ASSERT(strstr(report.plan, " patterns") != NULL);
            }
    }
    PASS();
}

/* Diffuse starts, and steps enough for the covariances to come to rest, before a gap and behind it: a series has the bits that it has
   alone, its draws as well; the gradient is the mean over the series. */
TEST series_by_components_share_their_covariances(void)
{
    enum { T = 150, SERIES_COUNT = 70, DRAWS = 2 };
    static const pu_part parts[3] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 4, 0}};
    pu_real *y = tc_normal(11, SERIES_COUNT * T), theta[4], g[4], g1[4], *x, *x1, *fit, *fit1;
    double nll = 0, sum[4] = {0}, size = 0;
    pu_model model;
    pu_data data;
    pu_options o = with(PU_EXACT, PU_ENGINE_DEFAULT), draws = o;
    pu_report report, single;
    pu_posterior_result z, z1;
    pu_predict_result fits, fits1;
    pu_int n, i, D;
    memset(&model, 0, sizeof model), memset(&z, 0, sizeof z), memset(&fits, 0, sizeof fits);
    TC_STATUS(pu_model_structural(&model, T, parts, 3, NULL), PU_OK);
    for (i = 0; i < SERIES_COUNT * T; i++) {
        pu_int t = i % T;
        if ((t > 100 && t < 104) || (i / T == 7 && t == 3)) y[i] = PU_R(NAN); /* one series has a gap of its own */
    }
    data = pu_data_nan(SERIES_COUNT, T, y);
    TC_STATUS(pu_model_start(&model, &data, 0, theta, NULL), PU_OK);
    TC_STATUS(pu_model_gradient(&model, theta, &data, &o, NULL, g, NULL, &report), PU_OK);
    TC_ASSERT(strstr(report.plan, "70 of 70 data by kalman in 2 patterns,") != NULL);
    D = model.Gamma.rows, draws.samples = DRAWS;
    z.mean = tc_reals(SERIES_COUNT * D), z.variance = tc_reals(SERIES_COUNT * D), z.samples = x = tc_reals(SERIES_COUNT * DRAWS * D);
    fits.fit = fit = tc_reals(SERIES_COUNT * T), z1 = z, fits1 = fits;
    z1.mean = tc_reals(D), z1.variance = tc_reals(D), z1.samples = x1 = tc_reals(DRAWS * D), fits1.fit = fit1 = tc_reals(T);
    TC_STATUS(pu_model_posterior(&model, theta, &data, &draws, NULL, &z, NULL), PU_OK);
    TC_STATUS(pu_model_predict(&model, theta, &data, &o, NULL, &fits, NULL), PU_OK);
    for (n = 0; n < SERIES_COUNT; n++) {
        pu_data one = data;
        one.n = 1, one.pick = &n;
        TC_STATUS(pu_model_gradient(&model, theta, &one, &o, NULL, g1, NULL, &single), PU_OK);
        TC_STATUS(pu_model_posterior(&model, theta, &one, &draws, NULL, &z1, NULL), PU_OK);
        TC_STATUS(pu_model_predict(&model, theta, &one, &o, NULL, &fits1, NULL), PU_OK);
        TC_ASSERT(!memcmp(z1.mean, z.mean + n * D, (size_t)D * sizeof(pu_real)));
        TC_ASSERT(!memcmp(z1.variance, z.variance + n * D, (size_t)D * sizeof(pu_real)));
        TC_ASSERT(!memcmp(x1, x + n * DRAWS * D, (size_t)(DRAWS * D) * sizeof(pu_real)));
        TC_ASSERT(!memcmp(fit1, fit + n * T, (size_t)T * sizeof(pu_real)));
        nll += single.nll / SERIES_COUNT;
        for (i = 0; i < 4; i++) sum[i] += (double)g1[i] / SERIES_COUNT, size += fabs((double)g1[i]);
    }
    TC_CLOSE(report.nll, nll, 100 * DBL_EPSILON * fabs(nll));
    /* sums of 70 and 150 terms in another order */
    for (i = 0; i < 4; i++) TC_CLOSE(g[i], sum[i], 1e3 * PU_TEST_EPS * size / SERIES_COUNT);
    pu_model_free(&model);
    PASS();
}

/* The price and the words: N complete data cost little more than one. */
TEST the_plan_knows_that_complete_data_share(void)
{
    pu_int D = 300, M = 400;
    pu_real *psi = tc_reals(M);
    pu_op Gamma = pu_op_identity(D), Phi = pu_op_dense(M, D, tc_normal(1, M * D));
    pu_lgm lgm;
    pu_options o = with(PU_EXACT, PU_DENSE);
    pu_real g;
    pu_gradient_result out;
    pu_data data = pu_data_full(1, M, tc_normal(2, N * M));
    pu_report one, all, none;
    memset(&lgm, 0, sizeof lgm), memset(&out, 0, sizeof out);
    tc_fill(M, psi, 1);
    lgm.Gamma = &Gamma, lgm.Phi = &Phi, lgm.psi = psi, out.psi = &g;
    TC_STATUS(pu_plan(&lgm, &data, &o, &out, &one), PU_OK);
    data.n = N;
    TC_STATUS(pu_plan(&lgm, &data, &o, &out, &all), PU_OK);
    ASSERT(strstr(all.plan, "90 of 90 data by dense in 1 pattern,") != NULL);
    ASSERT(strstr(one.plan, "pattern") == NULL);
    ASSERT(all.seconds < 10 * one.seconds);
    data.n = 0;
    TC_STATUS(pu_plan(&lgm, &data, &o, &out, &none), pu_gradient(&lgm, &data, &o, NULL, &out, NULL));
    PASS();
}

/* Near a double unit root, and with two entries seen, the cheapest engine, dual, loses more than half of the digits.
   Others (Kalman) take the data over one by one, in one call as in one call for each. */
TEST data_that_rounding_spoils_find_their_engine_one_by_one(void)
{
    const pu_real gamma[2] = {PU_R(1) - PU_R(1e-5), PU_R(1) - PU_R(1e-5)};
    pu_options o = with(PU_EXACT, PU_ENGINE_AUTO);
    pu_gradient_result out;
    pu_real *all, *one;
    double *sum;
    pu_report report;
    pu_int n, i;
    shared s;
    tc_set_case("near a unit root");
    ASSERT(build(&s, SERIES, 0));
    TC_STATUS(pu_ar_set(&s.ar, s.D, 2, gamma, PU_R(0.6), NULL), PU_OK);
    for (i = 0; i < N * s.M; i++) s.mask[i] = i % s.M == 0 || i % s.M == 20;
    memset(&out, 0, sizeof out);
    all = out.psi = tc_reals(s.M), one = tc_reals(s.M), sum = tc_doubles(s.M);
    TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
    ASSERT_EQ(0, (int)report.served[PU_DUAL]);
    ASSERT(strstr(report.plan, "because of rounding") != NULL);
    out.psi = one;
    for (n = 0; n < N; n++) {
        s.data.n = 1, s.data.pick = &n;
        TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
        for (i = 0; i < s.M; i++) sum[i] += (double)one[i] / N;
    }
    for (i = 0; i < s.M; i++) TC_CLOSE(all[i], sum[i], 1e3 * PU_TEST_EPS * (1 + fabs(sum[i])));
    PASS();
}

/* An offset for each datum: the gradient of each, too, has the bits that it has alone, but for the division by N. */
TEST offsets_of_each_datum(void)
{
    shared s;
    pu_options o = with(PU_EXACT, PU_DENSE);
    pu_gradient_result out;
    pu_real *all, *one;
    pu_int n, i;
    tc_set_case("an offset for each datum");
    ASSERT(build(&s, MATRIX, 0));
    s.lgm.eta = tc_normal(9, N * s.M), s.lgm.eta_count = N;
    memset(&out, 0, sizeof out);
    all = out.eta = tc_reals(N * s.M), one = tc_reals(s.M);
    TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, NULL), PU_OK);
    out.eta = one;
    for (n = 0; n < N; n++) {
        s.data.n = 1, s.data.pick = &n;
        TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, NULL), PU_OK);
        for (i = 0; i < s.M; i++) TC_CLOSE(all[n * s.M + i] * N, one[i], 4 * PU_TEST_EPS * fabs((double)one[i]));
    }
    PASS();
}

enum { ROWS = 400, COLUMNS = 12, FACTORS = 3 };

/* Three factors under noise that differs from column to column. */
static pu_real *table(void)
{
    pu_real *y = tc_normal(1, ROWS * COLUMNS), *z = tc_normal(2, ROWS * FACTORS), *phi = tc_normal(3, COLUMNS * FACTORS);
    pu_int n, i, d;
    for (n = 0; n < ROWS; n++)
        for (i = 0; i < COLUMNS; i++) {
            pu_real *to = y + n * COLUMNS + i;
            *to = 5 + *to * (pu_real)(1 + i % 3) / 2;
            for (d = 0; d < FACTORS; d++) *to += 2 * phi[i * FACTORS + d] * z[n * FACTORS + d];
        }
    return y;
}

/* The start on complete data is the maximum of the likelihood, within a hundredth of a standard error: (N g'H^-1 g)^1/2 with
   N = 400, |g| <= 1e-4 and H about 1/4 or more where theta is identified; float has a gradient of 1e-2 by rounding alone. A fit from there works on 24 data, has the likelihood of all 400, and ends at once. */
TEST complete_data_start_and_end_at_the_maximum(int tied)
{
    pu_model model;
    pu_data data = pu_data_full(ROWS, COLUMNS, table());
    pu_fit_options o;
    pu_fit_report fit;
    pu_report report;
    pu_real *theta, *g;
    pu_workspace ws;
    size_t bytes = 0;
    double nll = 0, size = 0, start;
    pu_int i;
    tc_set_case(tied ? "ppca" : "factors");
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o), memset(&ws, 0, sizeof ws);
    model.memory = tc_workspace();
    TC_STATUS((tied ? pu_model_ppca : pu_model_factors)(&model, COLUMNS, FACTORS, NULL), PU_OK);
    theta = tc_reals(model.params), g = tc_reals(model.params);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    TC_STATUS(pu_model_gradient(&model, theta, &data, NULL, NULL, g, NULL, &report), PU_OK);
    start = report.nll;
    for (i = 0; i < model.params; i++) size += (double)g[i] * (double)g[i];
    TC_CLOSE(sqrt(size), 0, PU_TEST_PICK(1e-4, 1e-2));
    TC_STATUS(pu_fit_bytes(&model, &data, &o, &bytes, NULL), PU_OK);
    pu_workspace_block(&ws, tc_bytes(bytes), bytes);
    TC_STATUS(pu_fit(&model, &data, &o, &ws, theta, &fit), PU_OK);
    /* Either way it has hardly anything to do. Probabilistic PCA in closed form is seen to be there by a single gradient. */
    if (tied || strstr(fit.plan, "at the maximum")) {
        TC_ASSERT(strstr(fit.plan, "at the maximum for complete data from the start") != NULL);
        TC_ASSERT(fit.gradients == 1 && fit.step == 0 && fit.best_step == 0 && fit.objective == fit.best);
    } else
        TC_ASSERT(strstr(fit.plan, "on 24 data of the same mean and covariance") != NULL);
    TC_STATUS(pu_model_nll(&model, theta, &data, NULL, NULL, &nll, NULL, NULL), PU_OK);
    /* the covariance is known to eps, times how far entries are from being sums of others: about 10 */
    TC_CLOSE(fit.best, nll, 1e3 * PU_TEST_EPS * fabs(nll));
    TC_ASSERT(nll <= start + 1e3 * PU_TEST_EPS * fabs(nll));
    TC_ASSERT(fit.stop == PU_FIT_CONVERGED);
    /* from somewhere else it comes back, on data made up */
    for (i = 0; i < model.params; i++) theta[i] += PU_R(0.1) * (pu_real)(i % 3 - 1);
    TC_STATUS(pu_fit(&model, &data, &o, &ws, theta, &fit), PU_OK);
    TC_ASSERT(strstr(fit.plan, "on 24 data of the same mean and covariance") != NULL && fit.gradients > 1);
    TC_CLOSE(fit.best, nll, PU_TEST_PICK(1e-7, 1e-5) * fabs(nll));
    PASS();
}

/* Complete data of M entries, 2 M of them, whose covariance has the eigenvalues lambda and whose mean is mean: mean +- (M lambda_i)^1/2
   times unit vectors, turned by two reflections. sorted: all + before all -. */
static pu_real *of_spectrum(pu_int M, const double *lambda, pu_real mean, int sorted)
{
    pu_real *y = tc_reals(2 * M * M), *u = tc_normal(77, 2 * M);
    double square[2] = {0, 0};
    pu_int i, j, r;
    for (r = 0; r < 2; r++)
        for (i = 0; i < M; i++) square[r] += (double)u[r * M + i] * (double)u[r * M + i];
    for (j = 0; j < M; j++) {
        pu_real *plus = y + (sorted ? j : 2 * j) * M, *minus = y + (sorted ? M + j : 2 * j + 1) * M;
        double *v = (double *)tc_bytes((size_t)M * sizeof(double));
        for (i = 0; i < M; i++) v[i] = i == j ? sqrt((double)M * lambda[j]) : 0;
        for (r = 0; r < 2; r++) {
            double dot = 0;
            for (i = 0; i < M; i++) dot += v[i] * (double)u[r * M + i];
            for (i = 0; i < M; i++) v[i] -= 2 * dot / square[r] * (double)u[r * M + i];
        }
        for (i = 0; i < M; i++) plus[i] = mean + (pu_real)v[i], minus[i] = mean - (pu_real)v[i];
    }
    return y;
}

/* Starts of probabilistic PCA are the maximum in closed form, whichever way the eigenvectors are found: with M entries by a
   tridiagonal form, or without a covariance by products with the data; eigenvalues apart, or several equal ones, of which none may be
   missed. With sigma2 the mean of the eigenvalues that are left
     NLL = (M log 2 pi + sum_{d<D} log lambda_d + (M - D) log sigma2 + M) / 2.
   Entries of y are rounded to eps of the largest deviation, (M lambda_0)^1/2, whose square is in lambda: M eps lambda_0 / sigma2 relative
   to a term of the sum at worst, and a mean of 3 costs 3 eps / sigma2^1/2 of each. The gradient, by the engines and so without any of that code, is zero up
   to the same times M D terms. */
TEST principal_components_are_the_maximum(pu_int M, int equal, int sorted)
{
    enum { D = 4 };
    double *lambda = (double *)tc_bytes((size_t)M * sizeof(double)), nll = (double)M * (log(2 * 3.14159265358979323846) + 1), sigma2 = 0;
    double off, allowed, size = 0, most = 0;
    pu_model model;
    pu_data data;
    pu_fit_options o;
    pu_fit_report fit;
    pu_report report;
    pu_real *theta, *g;
    pu_status status;
    pu_int i, d;
    tc_set_case(equal ? "equal eigenvalues" : "eigenvalues apart");
    for (i = 0; i < M; i++) lambda[i] = i < 6 ? 40 - 6 * (double)i : 1 + (double)i / (double)M;
    if (equal) lambda[1] = lambda[2] = lambda[3] = 22;
    for (i = 0; i < M; i++) {
        if (i < D) nll += log(lambda[i]);
        else sigma2 += lambda[i] / (double)(M - D);
    }
    nll = (nll + (double)(M - D) * log(sigma2)) / 2;
    data = pu_data_full(2 * M, M, of_spectrum(M, lambda, 3, sorted));
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    TC_STATUS(pu_model_ppca(&model, M, D, NULL), PU_OK);
    theta = tc_reals(model.params), g = tc_reals(model.params);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    /* with most entries a float engine says that it lost half of its digits, and has lost a few */
    status = pu_model_gradient(&model, theta, &data, NULL, NULL, g, NULL, &report);
    TC_ASSERT(status == PU_OK || status == PU_TEST_PICK(PU_OK, PU_INEXACT));
    allowed = PU_TEST_EPS * (double)M * lambda[0] / sigma2;
    TC_CLOSE(report.nll, nll, allowed * fabs(nll));
    for (i = 0; i < model.params; i++) size += (double)g[i] * (double)g[i];
    TC_CLOSE(sqrt(size), 0, allowed * (double)(M * D));
    /* columns of Phi: orthogonal, lengths lambda_d - sigma2 */
    for (d = 0; d < D; d++) {
        double square = 0;
        for (i = 0; i < M; i++) square += (double)theta[i * D + d] * (double)theta[i * D + d];
        off = fabs(square - (lambda[d] - sigma2));
        if (off > most) most = off;
    }
    TC_CLOSE(most, 0, allowed * lambda[0]);
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_ASSERT(fit.stop == PU_FIT_CONVERGED && fit.gradients == 1);
    TC_CLOSE(fit.objective, report.nll, allowed * fabs(nll));
    pu_model_free(&model);
    PASS();
}

/* OpenMP's number of threads from here on, which is all that starts can be told; returns what it was. */
static int set_threads(int threads)
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
#else
    return threads;
#endif
}

/* Complete data are the same whatever their kind and the number of threads: the start and the report of the fit, to the bit. */
TEST starts_depend_on_neither_threads_nor_the_kind_of_data(pu_int n, pu_int M)
{
    pu_real *y = tc_normal(5, n * M), *theta[4];
    unsigned char *mask = (unsigned char *)tc_bytes((size_t)(n * M));
    pu_data data[4];
    pu_fit_report fit[4];
    pu_fit_options o;
    pu_model model;
    memset(mask, 1, (size_t)(n * M));
    data[0] = data[3] = pu_data_full(n, M, y), data[1] = pu_data_nan(n, M, y), data[2] = pu_data_masked(n, M, y, mask);
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    TC_STATUS(pu_model_ppca(&model, M, 2, NULL), PU_OK);
    for (int kind = 0; kind < 4; kind++) {
        int threads = set_threads(kind == 3 ? 3 : 1);
        theta[kind] = tc_reals(model.params);
        TC_STATUS(pu_model_start(&model, data + kind, 1, theta[kind], NULL), PU_OK);
        o.gradient.threads = kind == 3 ? 3 : 1;
        TC_STATUS(pu_fit(&model, data + kind, &o, NULL, theta[kind], fit + kind), PU_OK);
        set_threads(threads);
        TC_ASSERT(memcmp(theta[kind], theta[0], (size_t)model.params * sizeof *y) == 0);
        TC_ASSERT(fit[kind].gradients == 1 && fit[kind].objective == fit[0].objective && fit[kind].gradient == fit[0].gradient);
    }
    pu_model_free(&model);
    PASS();
}

/* A look at complete data as a whole skips no check: options that are refused, data that are not finite, a model that sits elsewhere. */
TEST quick_ends_refuse_what_fits_refuse(void)
{
    pu_real *y = table(), *theta;
    pu_data data = pu_data_full(ROWS, COLUMNS, y);
    pu_model model;
    pu_fit_options o;
    pu_fit_report fit;
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    TC_STATUS(pu_model_ppca(&model, COLUMNS, FACTORS, NULL), PU_OK);
    theta = tc_reals(model.params);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    o.gradient.lanes = -1;
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_E_ARGUMENT);
    o.gradient.lanes = 0;
    y[17] = (pu_real)NAN;
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_E_NONFINITE);
    TC_ASSERT(fit.where.datum == 17 / COLUMNS && fit.where.index == 17 % COLUMNS);
    y[17] = 50;
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_ASSERT(fit.gradients > 1);
    pu_model_free(&model);
    PASS();
}

/* Where a column is another one but for 1e-6 of it, the covariance alone has lost what tells them apart. */
/* Means far above the noise: what is told is the likelihood of the data, not of data made up and rounded. */
TEST objective_is_that_of_the_data(void)
{
    pu_model model;
    pu_real *y = table(), *theta;
    pu_data data = pu_data_full(ROWS, COLUMNS, y);
    pu_fit_options o;
    pu_fit_report fit;
    double nll;
    for (pu_int i = 0; i < ROWS * COLUMNS; i++) y[i] += PU_R(50000) * (pu_real)(i % COLUMNS);
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    model.memory = tc_workspace();
    TC_STATUS(pu_model_ppca(&model, COLUMNS, FACTORS, NULL), PU_OK);
    theta = tc_reals(model.params);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_STATUS(pu_model_nll(&model, theta, &data, NULL, NULL, &nll, NULL, NULL), PU_OK);
    /* sums over a datum's entries, each of which is rounded; in double made-up data are used, rounded at the size of the means:
       eps mean, next to a noise of about 1 */
    PU_CHECK_CLOSE(fit.best, nll, 100 * PU_TEST_EPS * (fabs(nll) + COLUMNS) + PU_TEST_PICK(DBL_EPSILON * 50000 * COLUMNS, 0));
    TC_ASSERT(strstr(fit.plan, "at the maximum") != NULL || (strstr(fit.plan, "same mean") == NULL) == PU_TEST_PICK(0, 1));
    PASS();
}

TEST nearly_equal_columns_keep_their_data(void)
{
    pu_model model;
    pu_real *y = table(), *noise = tc_normal(8, ROWS), *theta;
    pu_data data = pu_data_full(ROWS, COLUMNS, y);
    pu_fit_options o;
    pu_fit_report fit;
    pu_int n;
    tc_set_case("nearly equal columns");
    for (n = 0; n < ROWS; n++) y[n * COLUMNS] = y[n * COLUMNS + 1] + PU_R(1e-6) * noise[n];
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    model.memory = tc_workspace();
    TC_STATUS(pu_model_ppca(&model, COLUMNS, FACTORS, NULL), PU_OK);
    theta = tc_reals(model.params);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_ASSERT(strstr(fit.plan, "same mean") == NULL);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(one_call_is_the_mean_of_one_call_for_each);
    RUN_TEST(posteriors_do_not_depend_on_company);
    RUN_TEST(bits_depend_on_neither_threads_nor_the_kind_of_data);
    RUN_TEST(series_by_components_share_their_covariances);
    RUN_TEST(the_plan_knows_that_complete_data_share);
    RUN_TEST(data_that_rounding_spoils_find_their_engine_one_by_one);
    RUN_TEST(offsets_of_each_datum);
    RUN_TEST1(complete_data_start_and_end_at_the_maximum, 0);
    RUN_TEST1(complete_data_start_and_end_at_the_maximum, 1);
    RUN_TESTp(principal_components_are_the_maximum, 12, 0, 0);
    RUN_TESTp(principal_components_are_the_maximum, 12, 1, 0);
    RUN_TESTp(principal_components_are_the_maximum, 12, 1, 1);
    RUN_TESTp(principal_components_are_the_maximum, 100, 1, 0);
    RUN_TESTp(principal_components_are_the_maximum, 300, 0, 0);
    RUN_TESTp(principal_components_are_the_maximum, 300, 1, 0);
    RUN_TESTp(principal_components_are_the_maximum, 530, 1, 1);
    RUN_TESTp(starts_depend_on_neither_threads_nor_the_kind_of_data, 2000, 20);
    RUN_TESTp(starts_depend_on_neither_threads_nor_the_kind_of_data, 6000, 200);
    RUN_TEST(quick_ends_refuse_what_fits_refuse);
    RUN_TEST(objective_is_that_of_the_data);
    RUN_TEST(nearly_equal_columns_keep_their_data);
    PU_TEST_MAIN_END();
}

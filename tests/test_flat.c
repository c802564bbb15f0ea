/* test_flat.c - the flat layer: every model has the bits of the structs, refusals name their key, nothing needs a struct. */
#include <stdlib.h>

/* Memory that fails when it is told to: after so many allocations; negative: never. */
static long until_failure = -1;

static void *failing_malloc(size_t bytes)
{
    if (until_failure == 0) return NULL;
    if (until_failure > 0) until_failure--;
    return malloc(bytes);
}

#define malloc(bytes) failing_malloc(bytes)
#define PU_IMPLEMENTATION
#include "pu_test.h"

enum { N = 6, M = 12 };

static pu_real y[N * M], X[M * 2];

static void numbers(void)
{
    for (int i = 0; i < N * M; i++) y[i] = (pu_real)(sin(1.7 * i) + 0.3 * cos(0.31 * i * i));
    for (int i = 0; i < M * 2; i++) X[i] = (pu_real)cos(0.9 * i + 0.2 * i * i);
}

static int real_type(void) { return sizeof(pu_real) == 8 ? 'd' : 'f'; }

static int rows(pu_flat *f, pu_int n)
{
    return pu_flat_data(f, n, M, y, real_type(), M * (pu_int)sizeof(pu_real), (pu_int)sizeof(pu_real));
}

/* Start, gradient, fit of two steps and prediction by both roads. */
static int same(pu_flat *f, pu_model *model, pu_int n)
{
    pu_real a[200], b[200], grad_a[200], grad_b[200], mean_a[N * M], mean_b[N * M];
    pu_data data = pu_data_full(n, M, y);
    pu_fit_options fit;
    pu_fit_report report;
    pu_predict_result out;
    size_t bytes = (size_t)model->params * sizeof(pu_real);
    int first, second;
    memset(&fit, 0, sizeof fit);
    memset(&out, 0, sizeof out);
    fit.steps = 2;
    out.mean = mean_b;
    if (model->params > 200 || rows(f, n) || pu_flat_number(f, "params") != (double)model->params) return 0;
    if (pu_flat_set_number(f, "steps", 2)) return 0;
    if (pu_flat_start(f, a) != (int)pu_model_start(model, &data, 0, b, NULL) || memcmp(a, b, bytes)) return 0;
    first = pu_flat_gradient(f, a, grad_a, NULL);
    second = pu_model_gradient(model, b, &data, NULL, NULL, grad_b, NULL, NULL);
    if (first != second || first < 0 || memcmp(grad_a, grad_b, bytes)) return 0;
    first = pu_flat_fit(f, a);
    second = pu_fit(model, &data, &fit, NULL, b, &report);
    if (first != second || first < 0 || memcmp(a, b, bytes)) return 0;
    if (pu_flat_number(f, "objective") != report.objective) return 0;
    first = pu_flat_predict(f, a, mean_a, NULL, NULL);
    second = pu_model_predict(model, b, &data, NULL, NULL, &out, NULL);
    return first == second && first >= 0 && !memcmp(mean_a, mean_b, (size_t)(n * M) * sizeof(pu_real));
}

#define MODEL(name, made, n, keys)                                  \
    do {                                                            \
        pu_flat *f = pu_flat_new(name);                             \
        pu_model model;                                             \
        memset(&model, 0, sizeof model);                            \
        ASSERT(f);                                                  \
        keys;                                                       \
        ASSERT_EQ(PU_OK, made);                                     \
        ASSERTm(pu_flat_text(f, "explain"), same(f, &model, n));    \
        pu_flat_free(f);                                            \
        pu_model_free(&model);                                      \
    } while (0)
#define SET(key, value) ASSERT_EQ(PU_OK, pu_flat_set_number(f, key, value))
#define ARRAY(key, at, type, count) ASSERT_EQ(PU_OK, pu_flat_set_array(f, key, at, type, count))

TEST bits_of_the_structs(void)
{
    pu_op Phi = pu_op_dense(M, 2, X);
    pu_part parts[2] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_AR, 1, 0}};
    int32_t level[M];
    int64_t wide[M], size[2] = {3, 4};
    pu_int sizes[2] = {3, 4};
    pu_edge edge[2] = {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN};
    pu_group group = {3, level, NULL, "g"};
    for (int i = 0; i < M; i++) wide[i] = level[i] = i % 3;
    numbers();
    MODEL("factors", pu_model_factors(&model, M, 2, NULL), N, { SET("rows", M); SET("latent", 2); });
    MODEL("ppca", pu_model_ppca(&model, M, 2, NULL), N, { SET("rows", M); SET("latent", 2); });
    MODEL("sparse", pu_model_sparse(&model, &Phi, NULL), 1,
          { SET("rows", M); SET("latent", 2); ARRAY("Phi", X, real_type(), M * 2); });
    MODEL("regression", pu_model_regression(&model, &Phi, NULL), 1,
          { SET("rows", M); SET("latent", 2); ARRAY("Phi", X, real_type(), M * 2); });
    MODEL("neural", pu_model_neural(&model, M, 2, X, 3, 0, NULL), 1,
          { SET("points", M); SET("inputs", 2); SET("hidden", 3); ARRAY("X", X, real_type(), M * 2); });
    MODEL("noisy_ar", pu_model_noisy_ar(&model, M, 1, NULL), N, { SET("length", M); SET("order", 1); });
    MODEL("state_space", pu_model_state_space(&model, M, 2, PU_SSM_STATIONARY, NULL), N,
          { SET("length", M); SET("states", 2); ASSERT_EQ(PU_OK, pu_flat_set_text(f, "start", "stationary")); });
    MODEL("dynamic_factors", pu_model_dynamic_factors(&model, M / 3, 3, 1, PU_SSM_ZERO, NULL), N,
          { SET("length", M / 3); SET("outputs", 3); SET("states", 1); });
    MODEL("structural", pu_model_structural(&model, M, parts, 2, NULL), N,
          { SET("length", M); ASSERT_EQ(PU_OK, pu_flat_set_text(f, "parts", "level ar:1")); });
    MODEL("field", pu_model_field(&model, 2, sizes, edge, 2, 0, NULL), N, { ARRAY("size", size, 'l', 2); });
    MODEL("effects", pu_model_effects(&model, M, 1, &group, 2, X, PU_ML, NULL), 1,
          { SET("rows", M); SET("columns", 2); ARRAY("X", X, real_type(), M * 2); ARRAY("level.g", wide, 'l', M); });
    PASS();
}

TEST regressors_are_added(void)
{
    pu_part parts[1] = {{PU_PART_LEVEL, 0, 0}};
    pu_model inner;
    memset(&inner, 0, sizeof inner);
    numbers();
    ASSERT_EQ(PU_OK, pu_model_structural(&inner, M, parts, 1, NULL));
    MODEL("structural", pu_model_regressors(&model, &inner, 2, X, 0, NULL), 1, {
        SET("length", M);
        ASSERT_EQ(PU_OK, pu_flat_set_text(f, "parts", "level"));
        SET("regressors.columns", 2);
        ARRAY("regressors", X, real_type(), M * 2);
    });
    pu_model_free(&inner);
    PASS();
}

/* Refused, and the text has the word. */
static int told(pu_flat *f, int status, const char *word)
{
    return status < 0 && strstr(pu_flat_text(f, "explain"), word) && pu_flat_number(f, "status") == (double)status;
}

TEST refusals_name_their_key(void)
{
    pu_flat *f = pu_flat_new("ppca"), *none = pu_flat_new("pca");
    pu_real theta[200];
    int32_t start[3] = {0, 2, 1}, index[2] = {0, 1};
    ASSERT(told(none, pu_flat_start(none, theta), "noisy_ar"));
    ASSERT(told(none, pu_flat_set_number(none, "rows", 3), "noisy_ar"));
    ASSERT(told(f, pu_flat_set_number(f, "row", 3), "row (no such key"));
    ASSERT(strstr(pu_flat_text(f, "explain"), "latent"));
    ASSERT(told(f, pu_flat_set_number(f, "order", 3), "order"));
    ASSERT(told(f, pu_flat_set_number(f, "rows", 2.5), "rows"));
    ASSERT(told(f, pu_flat_set_number(f, "rows", -1), "rows"));
    ASSERT(told(f, pu_flat_set_number(f, "steps", (double)NAN), "steps"));
    ASSERT(told(f, pu_flat_set_number(f, "seed", -1), "seed"));
    ASSERT(told(f, pu_flat_set_number(f, "engine", 1), "iterative"));
    ASSERT(told(f, pu_flat_set_text(f, "engine", "fast"), "kalman"));
    ASSERT(told(f, pu_flat_set_text(f, "rate", "1"), "rate"));
    ASSERT(told(f, pu_flat_set_text(f, "rows", "1"), "rows"));
    ASSERT(told(f, pu_flat_set_array(f, "regressors", X, 'q', 2), "regressors"));
    ASSERT(told(f, pu_flat_set_array(f, "regressors", NULL, 'd', 2), "regressors"));
    ASSERT(told(f, pu_flat_set_array(f, "rate", X, 'd', 2), "rate"));
    ASSERT(told(f, pu_flat_data(f, 0, M, y, 'd', 0, 0), "data"));
    ASSERT(told(f, pu_flat_data(f, 1, M, NULL, 'd', 0, 0), "data"));
    ASSERT(told(f, pu_flat_lists(f, 2, M, start, index, 'i', y, real_type()), "start"));
    ASSERT(told(f, pu_flat_start(f, theta), ""));
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "rows", M));
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "latent", 2));
    ASSERT(told(f, pu_flat_start(f, NULL), "theta"));
    ASSERT(pu_flat_start(f, theta) < 0);
    ASSERT(isnan(pu_flat_number(f, "objective")) && isnan(pu_flat_number(f, "nothing")));
    ASSERT_STR_EQ("", pu_flat_text(f, "nothing"));
    ASSERT_STR_EQ("", pu_flat_param_name(f, 10000));
    ASSERT_STR_EQ("Phi[0,0]", pu_flat_param_name(f, 0));
    ASSERT_EQ(PU_SCALE_LOG, pu_flat_param_scale(f, M * 2 + M));
    ASSERT_EQ(PU_E_NULL, pu_flat_fit(NULL, theta));
    ASSERT_EQ(PU_E_NULL, pu_flat_set_number(NULL, "rows", 1));
    pu_flat_free(f);
    pu_flat_free(none);
    pu_flat_free(NULL);
    PASS();
}

static int stop_at_once(pu_flat *f, void *user)
{
    *(double *)user = pu_flat_number(f, "steps");
    return 1;
}

TEST gaps_strides_lists_and_progress(void)
{
    pu_flat *f = pu_flat_new("ppca"), *g = pu_flat_new("ppca");
    double columns[M * N], seen = -1;
    unsigned char mask[N * M];
    int64_t start[N + 1], index[N * M];
    pu_real list[N * M], a[200], b[200];
    pu_int used = 0;
    numbers();
    for (int i = 0; i < N; i++) {
        start[i] = used;
        for (int j = 0; j < M; j++) {
            columns[j * N + i] = (double)y[i * M + j];
            mask[i * M + j] = (i + j) % 4 != 0;
            if (!mask[i * M + j]) continue;
            index[used] = j;
            list[used++] = y[i * M + j];
        }
    }
    start[N] = used;
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "rows", M) | pu_flat_set_number(f, "latent", 2));
    ASSERT_EQ(PU_OK, pu_flat_set_number(g, "rows", M) | pu_flat_set_number(g, "latent", 2));
    ASSERT_EQ(PU_OK, pu_flat_data(f, N, M, columns, 'd', 8, 8 * N));
    ASSERT_EQ(PU_OK, pu_flat_mask(f, mask, M, 1));
    ASSERT_EQ(PU_OK, pu_flat_lists(g, N, M, start, index, 'l', list, real_type()));
    ASSERT(pu_flat_start(f, a) >= 0 && pu_flat_nll(f, a) >= 0 && pu_flat_nll(g, a) >= 0);
    ASSERT(fabs(pu_flat_number(f, "nll") - pu_flat_number(g, "nll")) < 1e-4);
    memcpy(b, a, sizeof a);
    ASSERT_EQ(PU_OK, pu_flat_progress(f, stop_at_once, &seen));
    ASSERT(pu_flat_fit(f, b) >= 0);
    ASSERT_EQ(1, (int)seen);
    ASSERT_EQ(PU_FIT_CALLBACK, (int)pu_flat_number(f, "stop"));
    ASSERT_EQ(0, (int)pu_flat_number(f, "converged"));
    pu_flat_free(f);
    pu_flat_free(g);
    PASS();
}

TEST sizes_of_structs(void)
{
    ASSERT_EQ(PU_ABI, pu_abi());
    ASSERT_EQ(sizeof(pu_fit_options), pu_sizeof("pu_fit_options"));
    ASSERT_EQ(sizeof(pu_real), pu_sizeof("pu_real"));
    ASSERT_EQ(0, pu_sizeof("pu_nothing") + pu_sizeof("") + pu_sizeof(NULL) + pu_sizeof("pu") + pu_sizeof("pux_real"));
    ASSERT_EQ(sizeof(pu_real) == 4 ? (size_t)4 : (size_t)0, pu_sizeof("puf_real"));
    PASS();
}

/* A handle with a small model and its data; NULL: no memory. */
static pu_flat *small(void)
{
    pu_flat *f = pu_flat_new("ppca");
    if (f && !pu_flat_set_number(f, "rows", M) && !pu_flat_set_number(f, "latent", 2) && !rows(f, N)) return f;
    pu_flat_free(f);
    return NULL;
}

/* What a user might do in a progress function: entries that were refused. */
static int meddle(pu_flat *f, void *user)
{
    int *refused = (int *)user;
    pu_real theta[200] = {0};
    pu_flat_free(f);
    *refused += pu_flat_set_number(f, "rows", 3) < 0;
    *refused += pu_flat_set_number(f, "steps", 3) < 0;
    *refused += pu_flat_set_text(f, "solver", "cg") < 0;
    *refused += pu_flat_set_array(f, "regressors", X, real_type(), 2) < 0;
    *refused += rows(f, 1) < 0;
    *refused += pu_flat_mask(f, (const unsigned char *)"1", 0, 0) < 0;
    *refused += pu_flat_lists(f, 1, 1, theta, theta, 'i', theta, 'd') < 0;
    *refused += pu_flat_progress(f, NULL, NULL) < 0;
    *refused += pu_flat_fit(f, theta) < 0;
    *refused += strstr(pu_flat_text(f, "explain"), "while a fit runs") != NULL;
    *refused += pu_flat_number(f, "params") > 0 && pu_flat_number(f, "objective") < 1e30;
    return 0;
}

TEST a_fit_is_left_alone_by_its_progress_function(void)
{
    pu_flat *f = small(), *g = small();
    pu_real a[200], b[200];
    int refused = 0, steps;
    numbers();
    y[3] = (pu_real)NAN;    /* the start of complete data is the end */
    ASSERT(f && g);
    ASSERT_EQ(PU_OK, rows(f, N) | rows(g, N));
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "steps", 3) | pu_flat_set_number(g, "steps", 3));
    ASSERT_EQ(PU_OK, pu_flat_start(f, a));
    memcpy(b, a, sizeof a);
    ASSERT_EQ(PU_OK, pu_flat_progress(f, meddle, &refused));
    ASSERT_EQ(pu_flat_fit(g, b), pu_flat_fit(f, a));
    steps = (int)pu_flat_number(g, "steps");
    ASSERT(steps > 0);
    ASSERT_EQ(11 * steps, refused);
    ASSERT_EQ(0, memcmp(a, b, (size_t)pu_flat_number(f, "params") * sizeof *a));
    ASSERT_EQ((int)pu_flat_number(g, "status"), (int)pu_flat_number(f, "status"));
    ASSERT(strstr(pu_flat_text(f, "explain"), "step"));
    ASSERT_EQ(PU_OK, pu_flat_progress(f, NULL, NULL));
    pu_flat_free(f);
    pu_flat_free(g);
    PASS();
}

/* Numbers of a call that told none are NaN, not 0. */
static int unknown(pu_flat *f, const char *names)
{
    char name[32];
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        memcpy(name, names, n);
        name[n] = 0;
        if (!isnan(pu_flat_number(f, name))) return 0;
    }
    return 1;
}

TEST what_is_not_known_is_nan(void)
{
    static const char call[] = "nll nll_se nll_95 engine samples seconds", of_fit[] = "objective steps stop converged best";
    pu_flat *f = small(), *g = pu_flat_new("ppca");
    pu_real theta[200] = {0}, out[200];
    ASSERT(f && g);
    numbers();
    ASSERT(unknown(f, call) && unknown(f, of_fit));
    ASSERT_EQ(PU_OK, pu_flat_set_number(g, "rows", M) | pu_flat_set_number(g, "latent", 2));
    ASSERT(pu_flat_start(g, theta) < 0 && pu_flat_fit(g, theta) < 0);   /* no data */
    ASSERT(strstr(pu_flat_text(g, "explain"), "data") && unknown(g, call) && unknown(g, of_fit));
    ASSERT_STR_EQ("", pu_flat_text(g, "stop"));
    ASSERT(pu_flat_start(f, theta) >= 0 && unknown(f, call));
    ASSERT(pu_flat_gradient(f, theta, out, NULL) >= 0 && !unknown(f, "nll"));
    ASSERT(pu_flat_simulate(f, theta, 1, 7, NULL, out) >= 0 && unknown(f, call));
    ASSERT(pu_flat_nll(f, theta) >= 0 && !unknown(f, "nll"));
    ASSERT(pu_flat_nll(f, NULL) < 0 && unknown(f, call));
    ASSERT(pu_flat_fit(f, theta) >= 0 && !unknown(f, "nll") && !unknown(f, "objective") && !unknown(f, "converged"));
    ASSERT_EQ(PU_OK, pu_flat_set_text(f, "engine", "iterative") | pu_flat_set_text(f, "solver", "gd"));
    ASSERT(pu_flat_gradient(f, theta, out, NULL) >= 0 && unknown(f, "nll nll_se nll_95") && !unknown(f, "samples")); /* GD has none */
    ASSERT_EQ(PU_OK, pu_flat_set_text(f, "engine", "default") | pu_flat_set_text(f, "solver", "cg"));
    ASSERT_EQ(PU_OK, pu_flat_data(f, 1, 3, y, real_type(), 0, 8));
    ASSERT(pu_flat_fit(f, theta) < 0 && unknown(f, call) && unknown(f, of_fit)); /* not those of the fit before */
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "rows", 3));
    ASSERT_EQ(3 * 2 + 3 + 1, (int)pu_flat_number(f, "params"));
    ASSERT(pu_flat_start(f, theta) >= 0);
    pu_flat_free(f);
    pu_flat_free(g);
    PASS();
}

TEST a_key_without_its_other_half_is_refused(void)
{
    pu_flat *f = pu_flat_new("effects"), *g = small(), *h = pu_flat_new("structural");
    int32_t level[M] = {0};
    pu_real theta[200];
    ASSERT(f && g && h);
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "rows", M));
    ASSERT_EQ(PU_OK, pu_flat_set_array(f, "level.user", level, 'i', M));
    ASSERT_EQ(PU_OK, pu_flat_set_array(f, "slope.users", y, real_type(), M));
    ASSERT(told(f, pu_flat_start(f, theta), "slope.users (there is no group of this name: level.users)"));
    ASSERT(told(f, pu_flat_set_array(f, "level.", level, 'i', M), "level. (no such key"));
    ASSERT_EQ(PU_OK, pu_flat_set_number(g, "regressors.columns", 1));
    ASSERT(told(g, pu_flat_start(g, theta), "regressors (it was not given)"));
    ASSERT_EQ(PU_OK, pu_flat_set_array(g, "regressors", X, real_type(), M));
    ASSERT_EQ(PU_OK, pu_flat_set_number(g, "regressors.data", 8e15));
    ASSERT(told(g, pu_flat_start(g, theta), "regressors (its length"));
    ASSERT_EQ(PU_OK, pu_flat_set_number(h, "length", M));
    ASSERT_EQ(PU_OK, pu_flat_set_text(h, "parts", "level season:"));
    ASSERT(told(h, pu_flat_start(h, theta), "a size behind a colon"));
    ASSERT_EQ(PU_OK, pu_flat_set_text(h, "parts", "  level   season:4 "));
    ASSERT_EQ(3, (int)pu_flat_number(h, "params"));
    pu_flat_free(f);
    pu_flat_free(g);
    pu_flat_free(h);
    PASS();
}

TEST strides_may_be_negative_or_zero(void)
{
    pu_flat *f = small(), *g = small();
    pu_real turned[N * M], theta[200];
    const pu_int row = M * (pu_int)sizeof(pu_real), column = (pu_int)sizeof(pu_real);
    double nll;
    ASSERT(f && g);
    numbers();
    for (int i = 0; i < N * M; i++) turned[i] = y[N * M - 1 - i];
    ASSERT_EQ(PU_OK, pu_flat_data(g, N, M, turned + N * M - 1, real_type(), -row, -column));
    ASSERT_EQ(PU_OK, rows(f, N));
    ASSERT_EQ(PU_OK, pu_flat_start(f, theta));
    ASSERT(pu_flat_nll(f, theta) >= 0 && pu_flat_nll(g, theta) >= 0);
    nll = pu_flat_number(f, "nll");
    ASSERT(nll == pu_flat_number(g, "nll"));
    ASSERT_EQ(PU_OK, rows(f, 1));
    ASSERT_EQ(PU_OK, pu_flat_data(g, N, M, y, real_type(), 0, column)); /* the first one N times: its mean is itself */
    ASSERT(pu_flat_nll(f, theta) >= 0 && pu_flat_nll(g, theta) >= 0);
    ASSERT(nll != pu_flat_number(f, "nll"));
    ASSERT(fabs(pu_flat_number(f, "nll") - pu_flat_number(g, "nll")) <= 1e3 * (double)PU__EPS * fabs(nll));
    ASSERT(told(g, pu_flat_data(g, (pu_int)1 << (sizeof(pu_int) * 4), PTRDIFF_MAX / 2, y, 'd', 0, 0), "data"));
    ASSERT_EQ(N, (int)pu_flat_number(g, "data"));                       /* a refusal leaves what was there */
    pu_flat_free(f);
    pu_flat_free(g);
    PASS();
}

/* One model from name to prediction, each step checked; the first status that is negative, or 0. */
static int whole_way(void)
{
    pu_flat *f = pu_flat_new("structural");
    pu_real theta[10], mean[M];
    int status = PU_E_MEMORY;
    if (!f) return status;
    status = pu_flat_set_number(f, "length", M);
    if (status >= 0) status = pu_flat_set_text(f, "parts", "level");
    if (status >= 0) status = pu_flat_set_number(f, "regressors.columns", 1);
    if (status >= 0) status = pu_flat_set_array(f, "regressors", X, real_type(), M);
    if (status >= 0) status = rows(f, 1);
    if (status >= 0) status = pu_flat_start(f, theta);
    if (status >= 0) status = pu_flat_fit(f, theta);
    if (status >= 0) status = pu_flat_predict(f, theta, mean, NULL, NULL);
    if (status < 0 && (!strstr(pu_flat_text(f, "explain"), "memory") || pu_flat_number(f, "status") != (double)status)) status = 1;
    pu_flat_free(f);
    return status < 0 ? status : status > 0;
}

TEST every_allocation_may_fail(void)
{
    long failed = 0;
    numbers();
    ASSERT_EQ(PU_OK, whole_way());
    for (int status = -1; status; failed++) {
        until_failure = failed;
        status = whole_way();
        until_failure = -1;
        ASSERT(status == PU_OK || status == PU_E_MEMORY);
    }
    ASSERT(failed > 10);
    PASS();
}

TEST a_file_of_another_shape_is_refused(void)
{
    pu_flat *f = small();
    pu_real theta[200], back[200];
    size_t bytes;
    ASSERT(f);
    numbers();
    ASSERT_EQ(PU_OK, pu_flat_start(f, theta));
    bytes = (size_t)pu_flat_number(f, "params") * sizeof *theta;
    memcpy(back, theta, bytes);
    ASSERT_EQ(PU_OK, pu_flat_save(f, theta, "of a test", "build/tests/flat.model"));
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "latent", 3));
    ASSERT(told(f, pu_flat_load(f, "build/tests/flat.model", back), "theta is"));
    ASSERT_EQ(0, memcmp(back, theta, bytes));
    ASSERT_EQ(PU_OK, pu_flat_set_number(f, "latent", 2));
    memset(back, 0, sizeof back);
    ASSERT_EQ(PU_OK, pu_flat_load(f, "build/tests/flat.model", back));
    ASSERT_EQ(0, memcmp(back, theta, bytes));
    ASSERT(told(f, pu_flat_load(f, "build/tests/no.model", back), "model file"));
    ASSERT(told(f, pu_flat_save(f, theta, NULL, NULL), "file"));
    remove("build/tests/flat.model");
    pu_flat_free(f);
    PASS();
}

TEST handles_share_nothing(void)
{
    enum { HANDLES = 8 };
    double nll[HANDLES];
    numbers();
#ifdef _OPENMP
#pragma omp parallel for num_threads(4)
#endif
    for (int i = 0; i < HANDLES; i++) {
        pu_flat *f = small();
        pu_real theta[200];
        nll[i] = f && !pu_flat_start(f, theta) && pu_flat_nll(f, theta) >= 0 ? pu_flat_number(f, "nll") : (double)NAN;
        pu_flat_free(f);
    }
    for (int i = 0; i < HANDLES; i++) ASSERT(nll[i] == nll[0]);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(bits_of_the_structs);
    RUN_TEST(regressors_are_added);
    RUN_TEST(refusals_name_their_key);
    RUN_TEST(gaps_strides_lists_and_progress);
    RUN_TEST(sizes_of_structs);
    RUN_TEST(a_fit_is_left_alone_by_its_progress_function);
    RUN_TEST(what_is_not_known_is_nan);
    RUN_TEST(a_key_without_its_other_half_is_refused);
    RUN_TEST(strides_may_be_negative_or_zero);
    RUN_TEST(every_allocation_may_fail);
    RUN_TEST(a_file_of_another_shape_is_refused);
    RUN_TEST(handles_share_nothing);
    PU_TEST_MAIN_END();
}

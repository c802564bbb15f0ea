/* test_flat.c - the flat layer: every model has the bits of the structs, refusals name their key, nothing needs a struct. */
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
    ASSERT_EQ(0, pu_sizeof("pu_nothing") + pu_sizeof("") + pu_sizeof(NULL) + pu_sizeof("pu"));
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
    PU_TEST_MAIN_END();
}

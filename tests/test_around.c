/* test_around.c - models around models (pu_model_fix, pu_model_regressors), and an offset for each datum (pu_lgm.eta_count):
   they are the inner model at the theta, and the data less the offset, that they say. */
#include "pu_test.h"
#include "test_common.h"

/* the builds of this test run side by side, in one directory */
#ifdef __SANITIZE_ADDRESS__
static const char *const FILE_NAME = PU_TEST_PICK("test_around.double_asan", "test_around.float_asan");
#else
static const char *const FILE_NAME = PU_TEST_PICK("test_around.double", "test_around.float");
#endif

static pu_options exact_options(pu_engine engine)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT, o.engine = engine;
    return o;
}

static int says(const pu_report *report, pu_status status, const char *what, pu_int index)
{
    return report->status == status && tc_named(report->where.what, what) && report->where.index == index;
}

/* A model with memory that the test gives back. */
static void empty(pu_model *model)
{
    memset(model, 0, sizeof *model);
    model->memory = tc_workspace();
}

/* ---- fixed and tied ---------------------------------------------------------------------------- */

enum { M = 5, D = 2, N = 4, PARAMS = M * D + 2 * M };

/* Factor analysis with all psi tied, eta[1] = eta[3], Phi[0,1] fixed at 0 and eta[4] at 0.3; psi comes first. */
typedef struct {
    pu_model inner, model;
    pu_int from[PARAMS];
    pu_real value[PARAMS], theta[PARAMS], whole[PARAMS];
    pu_data data;
    pu_workspace ws;
} tied;

static int tied_make(tied *t)
{
    pu_real *y = tc_normal(3, N * M);
    pu_int next;
    memset(t, 0, sizeof *t);
    empty(&t->inner), empty(&t->model);
    t->ws = tc_workspace();
    y[2] = y[11] = PU_R(NAN);
    t->data = pu_data_nan(N, M, y);
    for (pu_int i = 0; i < PARAMS; i++) t->from[i] = i == 1 || i == M * D + 4 ? PU_ZERO : 0;
    t->value[M * D + 4] = PU_R(0.3);
    next = 1;
    for (pu_int i = 0; i < M * D + M; i++) {
        if (t->from[i] == PU_ZERO) continue;
        t->from[i] = i == M * D + 3 ? t->from[M * D + 1] : next++;
    }
    tc_fill_normal(5, PARAMS, t->theta);
    for (pu_int i = 0; i < PARAMS; i++) t->theta[i] *= PU_R(0.5);
    for (pu_int i = 0; i < PARAMS; i++) t->whole[i] = t->from[i] == PU_ZERO ? t->value[i] : t->theta[t->from[i]];
    return !pu_model_factors(&t->inner, M, D, NULL) && !pu_model_fix(&t->model, &t->inner, t->from, t->value, NULL) &&
           t->model.params == next;
}

/* The likelihood is that of the inner model, to the bit, and the gradient the sum over what is tied. */
TEST a_tied_model_is_the_inner_one(void)
{
    tied t;
    pu_options o = exact_options(PU_DENSE);
    pu_real grad[PARAMS], inner[PARAMS], want[PARAMS] = {0};
    double nll, inner_nll;
    pu_report report;
    ASSERT(tied_make(&t));
    TC_STATUS(pu_model_gradient(&t.inner, t.whole, &t.data, &o, &t.ws, inner, NULL, &report), PU_OK);
    TC_STATUS(pu_model_nll(&t.inner, t.whole, &t.data, &o, &t.ws, &inner_nll, NULL, NULL), PU_OK);
    TC_STATUS(pu_model_nll(&t.model, t.theta, &t.data, &o, &t.ws, &nll, NULL, NULL), PU_OK);
    ASSERT(nll == inner_nll);
    TC_STATUS(pu_model_gradient(&t.model, t.theta, &t.data, &o, &t.ws, grad, NULL, &report), PU_OK);
    ASSERT(report.nll == inner_nll);
    for (pu_int i = 0; i < PARAMS; i++)
        if (t.from[i] >= 0) want[t.from[i]] += inner[i];
    for (pu_int i = 0; i < t.model.params; i++) ASSERT(grad[i] == want[i]);
    ASSERT(t.model.lgm.psi[0] == t.model.lgm.psi[4] && t.model.lgm.eta[1] == t.model.lgm.eta[3]);
    ASSERT(t.model.lgm.eta[4] == PU_R(0.3));
    PASS();
}

/* Standard errors come from replicates of the sum, not from those of its terms. */
TEST tied_entries_have_a_standard_error_of_their_own(void)
{
    enum { G = 3 };
    tied t;
    pu_options o;
    pu_gradient_result out;
    pu_real grad[PARAMS], se[PARAMS], Phi[M * D], psi[M], replicates[G * (M * D + M)], se_psi[M];
    double sum = 0, variance = 0, apart = 0, size = 0;
    ASSERT(tied_make(&t));
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    o.samples = 6, o.groups = G;
    TC_STATUS(pu_model_gradient(&t.model, t.theta, &t.data, &o, &t.ws, grad, se, NULL), PU_OK);
    out.Phi = Phi, out.psi = psi, out.replicates = replicates, out.se_psi = se_psi;
    TC_STATUS(pu_gradient(&t.model.lgm, &t.data, &o, &t.ws, &out, NULL), PU_OK);
    for (int m = 0; m < M; m++) sum += (double)psi[m];
    for (int g = 0; g < G; g++) {
        double all = 0;
        for (int m = 0; m < M; m++) all += (double)replicates[g * (M * D + M) + M * D + m];
        variance += (all - sum) * (all - sum) / (G * (G - 1));
    }
    for (int m = 0; m < M; m++) {
        apart += (double)se_psi[m] * (double)se_psi[m];
        size += fabs((double)psi[m]);
    }
    /* a replicate is rounded once, relative to the gradient, before the mean is taken away again */
    TC_CLOSE(se[0], (double)t.model.lgm.psi[0] * sqrt(variance),
             8 * M * PU_TEST_EPS * (double)t.model.lgm.psi[0] * (size + sqrt(variance)));
    ASSERT(fabs(sqrt(apart) / sqrt(variance) - 1) > 0.01); /* which would have been another number */
    PASS();
}

/* Names, scales and bounds are those of the first entry; the start is the mean of the inner start. */
TEST names_and_starts_follow(void)
{
    tied t;
    pu_real start[PARAMS], inner[PARAMS];
    double want[PARAMS] = {0}, count[PARAMS] = {0};
    pu_param one, first;
    pu_report report;
    ASSERT(tied_make(&t));
    TC_STATUS(pu_model_start(&t.inner, &t.data, 7, inner, NULL), PU_OK);
    TC_STATUS(pu_model_start(&t.model, &t.data, 7, start, &report), PU_OK);
    for (pu_int i = 0; i < PARAMS; i++)
        if (t.from[i] >= 0) want[t.from[i]] += (double)inner[i], count[t.from[i]]++;
    for (pu_int i = PARAMS - 1; i >= 0; i--) {
        if (t.from[i] < 0) continue;
        TC_CLOSE(start[t.from[i]], want[t.from[i]] / count[t.from[i]], 4 * M * PU_TEST_EPS * fabs(want[t.from[i]]));
        if (t.from[i] == 0) continue;
        ASSERT_EQ(PU_OK, pu_model_param(&t.model, t.from[i], &one));
        ASSERT_EQ(PU_OK, pu_model_param(&t.inner, i == M * D + 3 ? M * D + 1 : i, &first));
        ASSERT_STR_EQ(first.name, one.name);
        ASSERT(one.scale == first.scale);
    }
    ASSERT_EQ(PU_OK, pu_model_param(&t.model, 0, &one));
    ASSERT_STR_EQ("psi[0]", one.name);
    ASSERT(one.scale == PU_SCALE_LOG && one.lower == 0);
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_param(&t.model, t.model.params, &one));
    PASS();
}

/* AR(2): the process, prediction, posterior, draws and plan come through two models around it; sets that are refused name
   the entry of the new theta, or none where it is fixed. */
TEST everything_goes_through(void)
{
    enum { LENGTH = 12 };
    const pu_int from[4] = {1, PU_ZERO, 0, 0}, again[2] = {0, 1};
    const pu_real value[4] = {9, PU_R(0.25), 9, 9};
    pu_real theta[2] = {PU_R(-0.3), PU_R(0.8)}, whole[4], y[LENGTH] = {0}, mean[LENGTH], want[LENGTH], bad[2];
    pu_model inner, fixed, model;
    pu_data data = pu_data_nan(1, LENGTH, y);
    pu_predict_result out;
    pu_posterior_result post;
    pu_report r, direct;
    const pu_ar *ar;
    size_t bytes = 0;
    empty(&inner), empty(&fixed), empty(&model);
    memset(&out, 0, sizeof out), memset(&post, 0, sizeof post);
    tc_fill_normal(9, LENGTH, y);
    y[3] = PU_R(NAN);
    whole[0] = theta[1], whole[1] = value[1], whole[2] = whole[3] = theta[0];
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, LENGTH, 2, &r));
    ASSERT_EQ(PU_OK, pu_model_fix(&fixed, &inner, from, value, &r));
    ASSERT_EQ(PU_OK, pu_model_fix(&model, &fixed, again, NULL, &r));
    ASSERT(r.bytes > 0 && r.bytes == model.memory.bytes && model.params == 2 && model.uses == inner.uses && model.tied_psi);
    TC_STATUS(pu_model_gradient_bytes(&model, &data, NULL, 1, &bytes, &r), PU_OK); /* not set yet */
    TC_STATUS(pu_model_plan(&model, &data, NULL, &r), PU_OK);
    TC_STATUS(pu_model_set(&model, theta, &r), PU_OK);
    ar = pu_model_get_ar(&model);
    ASSERT(ar && ar == pu_model_get_ar(&inner) && ar->order == 2 && !pu_model_get_ssm(&model));
    TC_CLOSE(ar->gamma[0], tanh((double)theta[1]), 2 * PU_TEST_EPS);
    out.mean = mean;
    TC_STATUS(pu_model_predict(&model, theta, &data, NULL, NULL, &out, &r), PU_OK);
    out.mean = want;
    TC_STATUS(pu_model_predict(&inner, whole, &data, NULL, NULL, &out, &direct), PU_OK);
    ASSERT(memcmp(mean, want, sizeof mean) == 0);
    post.mean = mean;
    TC_STATUS(pu_model_posterior(&model, theta, &data, NULL, NULL, &post, &r), PU_OK);
    post.mean = want;
    TC_STATUS(pu_model_posterior(&inner, whole, &data, NULL, NULL, &post, &r), PU_OK);
    ASSERT(memcmp(mean, want, sizeof mean) == 0);
    TC_STATUS(pu_model_simulate(&model, theta, 1, 4, NULL, NULL, mean, &r), PU_OK);
    TC_STATUS(pu_model_simulate(&inner, whole, 1, 4, NULL, NULL, want, &r), PU_OK);
    ASSERT(memcmp(mean, want, sizeof mean) == 0);
    bad[0] = PU_R(1e5), bad[1] = 0;
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_set(&model, bad, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "theta", 0));
    bad[0] = 0, bad[1] = PU_R(NAN);
    ASSERT_EQ(PU_E_NONFINITE, pu_model_set(&model, bad, &r));
    ASSERT(says(&r, PU_E_NONFINITE, "theta", 1));
    pu_model_free(&model);
    ASSERT(model.set == NULL && fixed.params == 2 && pu_model_set(&fixed, theta, &r) == PU_OK);
    PASS();
}

TEST fixing_refuses(void)
{
    const struct {
        pu_int from[4];
        pu_status status;
        const char *what;
        pu_int index;
    } rows[] = {{{0, 1, 2, -2}, PU_E_ARGUMENT, "from", 3},        {{0, 1, 4, 2}, PU_E_ARGUMENT, "from", 2},
                {{0, 3, 2, 0}, PU_E_ARGUMENT, "from", 3},         /* ties atanh gamma and log lambda */
                {{3, PU_ZERO, 0, 1}, PU_E_ARGUMENT, "from", 0},   /* 2 is missing */
                {{PU_ZERO, 0, 1, 2}, PU_E_NONFINITE, "value", 0}, {{0, PU_ZERO, 1, 2}, PU_OK, "", -1},
                {{0, 0, 1, 1}, PU_OK, "", -1}};
    const pu_real value[4] = {PU_R(INFINITY), 30, 0, 0};
    const pu_int fine[4] = {0, 1, PU_ZERO, 2}, all[4] = {PU_ZERO, PU_ZERO, PU_ZERO, PU_ZERO};
    const pu_real zero[4] = {0, 0, 0, PU_R(-2e5)};
    pu_real theta[4] = {0}, y[3] = {1, 2, 3}, grad[4];
    pu_data data = pu_data_full(1, 3, y);
    pu_model inner, model, before;
    pu_fit_report fit;
    pu_report r;
    size_t bytes;
    empty(&inner), empty(&model);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, 3, 2, &r));
    before = model;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tc_set_case("row %d", (int)i);
        TC_STATUS(pu_model_fix(&model, &inner, rows[i].from, value, &r), rows[i].status);
        TC_ASSERT(says(&r, rows[i].status, rows[i].what, rows[i].index));
        pu_model_free(&model);
        model = before;
    }
    ASSERT_EQ(PU_E_NULL, pu_model_fix(&model, &inner, fine, NULL, &r));
    ASSERT(says(&r, PU_E_NULL, "value", 2) && model.set == NULL && model.memory.block == NULL);
    ASSERT_EQ(PU_E_NULL, pu_model_fix(&model, &inner, NULL, value, &r));
    ASSERT(says(&r, PU_E_NULL, "from", -1));
    ASSERT_EQ(PU_E_NULL, pu_model_fix(&model, NULL, fine, value, &r));
    ASSERT(says(&r, PU_E_NULL, "inner", -1));
    ASSERT_EQ(PU_E_NULL, pu_model_fix(NULL, &inner, fine, value, NULL));
    ASSERT_EQ(PU_E_NULL, pu_model_fix(&inner, &model, fine, value, &r));
    ASSERT(says(&r, PU_E_NULL, "inner.set", -1) && inner.set);
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_fix(&inner, &inner, fine, value, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "model", -1) && inner.set);
    /* a fixed entry that only the inner set refuses */
    ASSERT_EQ(PU_OK, pu_model_fix(&model, &inner, rows[5].from, zero, &r));
    pu_model_free(&model);
    model = before;
    {
        const pu_int last[4] = {0, 1, 2, PU_ZERO};
        ASSERT_EQ(PU_OK, pu_model_fix(&model, &inner, last, zero, &r));
        ASSERT_EQ(PU_E_ARGUMENT, pu_model_set(&model, theta, &r));
        ASSERT(says(&r, PU_E_ARGUMENT, "theta", -1));
        pu_model_free(&model);
        model = before;
    }
    /* nothing left: refused by whatever would set it */
    ASSERT_EQ(PU_OK, pu_model_fix(&model, &inner, all, theta, &r));
    ASSERT(model.params == 0);
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_set(&model, theta, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "model.params", -1));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_gradient(&model, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_gradient_bytes(&model, &data, NULL, 0, &bytes, &r));
    ASSERT(pu_fit(&model, &data, NULL, NULL, theta, &fit) < 0 && tc_named(fit.where.what, "model.params"));
    PASS();
}

static void *no_memory(size_t bytes, void *user)
{
    (void)bytes, (void)user;
    return NULL;
}

/* One block, whose size is told; too small is refused, and none leaves the struct empty. */
TEST memory_is_one_block(void)
{
    const pu_int from[3] = {0, 1, PU_ZERO};
    const pu_real value[3] = {0}, X[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    pu_model inner, model;
    pu_report r;
    empty(&inner);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, 4, 1, &r));
    for (int which = 0; which < 2; which++) {
        size_t bytes;
        tc_set_case("%d", which);
        memset(&model, 0, sizeof model);
        model.memory.allocator.alloc = no_memory;
        model.memory.allocator.free = tc_hook_free;
        TC_STATUS(which ? pu_model_regressors(&model, &inner, 1, X, 2, &r) : pu_model_fix(&model, &inner, from, value, &r),
                  PU_E_MEMORY);
        bytes = r.bytes;
        TC_ASSERT(bytes > 0 && !model.set && !model.memory.block);
        memset(&model, 0, sizeof model);
        pu_workspace_block(&model.memory, tc_bytes(bytes - 1), bytes - 1);
        TC_STATUS(which ? pu_model_regressors(&model, &inner, 1, X, 2, &r) : pu_model_fix(&model, &inner, from, value, &r),
                  PU_E_BLOCK);
        memset(&model, 0, sizeof model);
        pu_workspace_block(&model.memory, tc_bytes(bytes), bytes);
        TC_STATUS(which ? pu_model_regressors(&model, &inner, 1, X, 2, &r) : pu_model_fix(&model, &inner, from, value, &r),
                  PU_OK);
        {
            pu_real y[8] = {1, 2, 1, 0, 3, 4, 3, 2}, theta[4];
            pu_data data = pu_data_full(2, 4, y);
            TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
            TC_STATUS(pu_model_set(&model, theta, &r), PU_OK);
        }
    }
    PASS();
}

/* ---- regressors -------------------------------------------------------------------------------- */

/* pu_model_check: start, names, uses, and the gradient against differences of the exact likelihood, for models around
   built-in ones, both ways round, with a shared X and one for each datum, also where the inner model has an eta. */
TEST regressors_pass_the_check_of_models(void)
{
    enum { P = 2, LENGTH = 7, COUNT = 3 };
    pu_real *X = tc_normal(21, COUNT * LENGTH * P), *more = tc_normal(22, LENGTH), *y = tc_normal(23, COUNT * LENGTH);
    pu_data data = pu_data_nan(COUNT, LENGTH, y);
    const pu_int from[6] = {0, 1, PU_ZERO, 2, 3, PU_ZERO}, tie[6] = {2, 0, 0, 1, 3, 1};
    const pu_real value[6] = {0, 0, -1, 0, 0, PU_R(0.5)};
    char text[400];
    y[4] = PU_R(NAN);
    for (int k = 0; k < 9; k++) {
        pu_model ar, factors, fixed, inside, model, *m = &model;
        pu_real theta[40];
        pu_check_report report;
        pu_report r;
        empty(&ar), empty(&factors), empty(&fixed), empty(&inside), empty(&model);
        tc_set_case("%d", k);
        TC_STATUS(pu_model_noisy_ar(&ar, LENGTH, 1, &r), PU_OK);
        TC_STATUS(pu_model_factors(&factors, LENGTH, 1, &r), PU_OK);
        switch (k) {
        case 0: TC_STATUS(pu_model_regressors(m, &ar, P, X, 0, &r), PU_OK); break;
        case 1: TC_STATUS(pu_model_regressors(m, &ar, P, X, COUNT, &r), PU_OK); break;
        case 2: TC_STATUS(pu_model_regressors(m, &factors, P, X, 0, &r), PU_OK); break;
        case 3: TC_STATUS(pu_model_regressors(m, &factors, P, X, COUNT, &r), PU_OK); break;
        case 4: /* lambda fixed, then regressors */
            TC_STATUS(pu_model_fix(&fixed, &ar, from, value, &r), PU_OK);
            TC_STATUS(pu_model_regressors(m, &fixed, P, X, COUNT, &r), PU_OK);
            break;
        case 5: /* regressors, then one of them fixed */
            TC_STATUS(pu_model_regressors(&inside, &ar, 3, X, 0, &r), PU_OK);
            TC_STATUS(pu_model_fix(m, &inside, from, value, &r), PU_OK);
            break;
        case 6: /* regressors in regressors: one for each datum, then shared, */
            TC_STATUS(pu_model_regressors(&inside, &factors, P, X, COUNT, &r), PU_OK);
            TC_STATUS(pu_model_regressors(m, &inside, 1, more, 0, &r), PU_OK);
            break;
        case 7: /* and the other way round */
            TC_STATUS(pu_model_regressors(&inside, &factors, 1, more, 0, &r), PU_OK);
            TC_STATUS(pu_model_regressors(m, &inside, P, X, COUNT, &r), PU_OK);
            break;
        default: /* kappa = lambda, and two of the coefficients are one */
            TC_STATUS(pu_model_regressors(&inside, &ar, 3, X, 0, &r), PU_OK);
            TC_STATUS(pu_model_fix(m, &inside, tie, NULL, &r), PU_OK);
        }
        TC_STATUS(pu_model_start(m, &data, 1, theta, &r), PU_OK);
        for (pu_int i = 0; i < m->params; i++) theta[i] += PU_R(0.1) * (pu_real)(1 + i % 3);
        {
            pu_status status = pu_model_check(m, theta, &data, NULL, &report);
            GREATEST_ASSERTm(tc_say(pu_check_explain(&report, 0, text, sizeof text)), status == PU_OK);
        }
    }
    PASS();
}

/* The likelihood and all else is that of the inner model for the data less X b, and predictions are shifted by X b: to
   rounding of y - X b. Batches, repetitions and lists; NLL and gradients of the parts of theta that are the inner ones'. */
TEST regressors_shift_the_data(void)
{
    enum { P = 2, LENGTH = 9, COUNT = 4, BATCH = 5 };
    const pu_int pick[BATCH] = {2, 0, 3, 3, 1};
    pu_real X[COUNT * LENGTH * P], y[COUNT * LENGTH], less[COUNT * LENGTH], shift[COUNT * LENGTH];
    pu_real theta[5] = {PU_R(0.4), PU_R(-0.2), PU_R(-1), 2, PU_R(-0.5)}, grad[5], want[3], mean[BATCH * LENGTH];
    pu_real plain[BATCH * LENGTH], z[COUNT * LENGTH], draws[COUNT * LENGTH];
    double size = 0;
    /* rounding of y - X b, |y| + |X b| < 8, through solves of condition below 50, sums of LENGTH terms */
    const double tol = 8 * 50 * LENGTH * PU_TEST_EPS;
    pu_model inner, model;
    pu_predict_result out;
    pu_report r, direct;
    tc_fill_normal(31, COUNT * LENGTH * P, X);
    tc_fill_normal(32, COUNT * LENGTH, y);
    y[1] = y[20] = PU_R(NAN);
    for (int n = 0; n < COUNT; n++)
        for (int m = 0; m < LENGTH; m++) {
            int i = n * LENGTH + m;
            shift[i] = X[2 * i] * theta[3] + X[2 * i + 1] * theta[4];
            less[i] = y[i] - shift[i];
        }
    empty(&inner), empty(&model);
    memset(&out, 0, sizeof out);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, LENGTH, 1, NULL));
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &inner, P, X, COUNT, &r));
    ASSERT(model.params == 5);
    for (int kind = 0; kind < 3; kind++) {
        pu_data data = pu_data_nan(kind ? BATCH : COUNT, LENGTH, y), moved;
        pu_int start[COUNT + 1] = {0}, index[COUNT * LENGTH];
        pu_real values[COUNT * LENGTH], moved_values[COUNT * LENGTH];
        data.pick = kind ? pick : NULL;
        moved = data, moved.y = less;
        tc_set_case("%s", kind == 2 ? "lists" : kind ? "picked" : "all");
        if (kind == 2) {
            pu_int at = 0;
            for (int i = 0; i < COUNT * LENGTH; i++) {
                if (y[i] == y[i]) index[at] = i % LENGTH, values[at] = y[i], moved_values[at++] = less[i];
                start[i / LENGTH + 1] = at;
            }
            data = pu_data_lists(BATCH, LENGTH, start, index, values), data.pick = pick;
            moved = data, moved.y = moved_values;
        }
        TC_STATUS(pu_model_gradient(&model, theta, &data, NULL, NULL, grad, NULL, &r), PU_OK);
        TC_STATUS(pu_model_gradient(&inner, theta, &moved, NULL, NULL, want, NULL, &direct), PU_OK);
        TC_CLOSE(r.nll, direct.nll, tol * (1 + fabs(direct.nll)));
        for (int i = 0; i < 3; i++) TC_CLOSE(grad[i], want[i], tol * (1 + fabs((double)want[i])));
        out.mean = mean;
        TC_STATUS(pu_model_predict(&model, theta, &data, NULL, NULL, &out, &r), PU_OK);
        out.mean = plain;
        TC_STATUS(pu_model_predict(&inner, theta, &moved, NULL, NULL, &out, &r), PU_OK);
        for (pu_int i = 0; i < data.n * LENGTH; i++) {
            pu_int number = kind ? pick[i / LENGTH] : i / LENGTH;
            TC_CLOSE(mean[i], plain[i] + shift[number * LENGTH + i % LENGTH], tol);
        }
    }
    /* draw i has the X of datum i */
    TC_STATUS(pu_model_simulate(&inner, theta, COUNT, 8, NULL, NULL, z, &r), PU_OK);
    TC_STATUS(pu_model_simulate(&model, theta, COUNT, 8, NULL, NULL, draws, &r), PU_OK);
    for (int i = 0; i < COUNT * LENGTH; i++) {
        size = fabs((double)z[i]) + fabs((double)shift[i]) + fabs((double)draws[i]);
        TC_CLOSE(draws[i], z[i] + shift[i], 8 * PU_TEST_EPS * (1 + size));
    }
    draws[0] = 7;
    ASSERT_EQ(PU_E_SIZE, pu_model_simulate(&model, theta, COUNT + 1, 8, NULL, NULL, draws, &r));
    ASSERT(says(&r, PU_E_SIZE, "model.eta_count", -1) && r.where.datum == COUNT && r.where.most == COUNT);
    ASSERT(draws[0] == PU_R(7));
    PASS();
}

/* Factors have a level for each row. With an X for each datum that goes up with the level, b is what explains differences within
   rows: the start has it, and the fit from there ends where the data came from. The levels are 1000 times the noise; least squares over
   all entries would have b near 1000, and levels that make up for it. */
TEST levels_of_rows_are_not_regressed(void)
{
    enum { ROWS = 6, MANY = 150, ENTRIES = 2 * ROWS + ROWS + 1 };
    pu_real *X = tc_normal(61, MANY * ROWS), *y = tc_normal(62, MANY * ROWS), *z = tc_normal(63, MANY), theta[ENTRIES];
    pu_model inner, model;
    pu_fit_options o;
    pu_fit_report fit;
    pu_data data;
    pu_real at_start;
    for (int i = 0; i < MANY * ROWS; i++) {
        int row = i % ROWS;
        X[i] += (pu_real)row;
        y[i] = 1000 * (pu_real)row + PU_R(0.7) * X[i] + z[i / ROWS] * PU_R(0.5) + y[i];
    }
    y[4] = y[40] = PU_R(NAN);
    empty(&inner), empty(&model);
    memset(&o, 0, sizeof o);
    data = pu_data_nan(MANY, ROWS, y);
    ASSERT_EQ(PU_OK, pu_model_factors(&inner, ROWS, 1, NULL));
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &inner, 1, X, MANY, NULL));
    ASSERT(model.params == ENTRIES);
    ASSERT_EQ(PU_OK, pu_model_start(&model, &data, 1, theta, NULL));
    /* standard error: noise and factor of variance 1.25 over 900 entries, X of variance 1; five of them */
    at_start = theta[ENTRIES - 1];
    TC_CLOSE(at_start, 0.7, 5 * sqrt(1.25 / 900) + PU_TEST_PICK(0, 0.01));
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_CLOSE(theta[ENTRIES - 1], 0.7, 5 * sqrt(1.25 / 900) + PU_TEST_PICK(0, 0.01));
    for (int row = 0; row < ROWS; row++) TC_CLOSE(theta[ROWS + row], 1000 * row, 2);
    PASS();
}

TEST regressors_refuse(void)
{
    pu_real X[12] = {1, 2, 3, 4, 5, PU_R(NAN), 7, 8, 9, 1, 1, 1}, fine[12], theta[5] = {0}, grad[5], y[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const pu_int pick[2] = {0, 2};
    pu_model inner, model, outer, own;
    pu_data data = pu_data_full(3, 3, y);
    pu_report r;
    empty(&inner), empty(&model), empty(&outer);
    memset(&own, 0, sizeof own);
    memcpy(fine, X, sizeof fine);
    fine[5] = 6;
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, 3, 1, NULL));
    ASSERT_EQ(PU_E_NONFINITE, pu_model_regressors(&model, &inner, 2, X, 0, &r));
    ASSERT(says(&r, PU_E_NONFINITE, "X", 5));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_regressors(&model, &inner, 0, X, 0, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "p", -1));
    ASSERT_EQ(PU_E_ARGUMENT, pu_model_regressors(&model, &inner, 1, X, -1, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "n", -1));
    ASSERT_EQ(PU_E_NULL, pu_model_regressors(&model, &inner, 1, NULL, 0, &r));
    ASSERT_EQ(PU_E_NULL, pu_model_regressors(&model, NULL, 1, fine, 0, &r));
    ASSERT_EQ(PU_E_NULL, pu_model_regressors(&model, &own, 1, fine, 0, &r));
    ASSERT(says(&r, PU_E_NULL, "inner.set", -1));
    own.set = inner.set; /* has no Phi yet */
    ASSERT_EQ(PU_E_NULL, pu_model_regressors(&model, &own, 1, fine, 0, &r));
    ASSERT(says(&r, PU_E_NULL, "inner.lgm.Phi", -1));
    ASSERT_EQ(PU_E_OVERFLOW, pu_model_regressors(&model, &inner, PTRDIFF_MAX / 2, fine, 0, &r));
    ASSERT(model.set == NULL);
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &inner, 2, fine, 2, &r));
    ASSERT_EQ(PU_E_SIZE, pu_model_regressors(&outer, &model, 1, fine, 3, &r));
    ASSERT(says(&r, PU_E_SIZE, "n", -1));
    /* three data, or number 2 of them, where there are two */
    ASSERT_EQ(PU_E_SIZE, pu_model_gradient(&model, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(says(&r, PU_E_SIZE, "model.eta_count", -1) && r.where.datum == 2 && r.where.most == 2);
    ASSERT_EQ(PU_E_SIZE, pu_model_start(&model, &data, 0, theta, &r));
    data.n = 2, data.pick = pick;
    ASSERT_EQ(PU_E_SIZE, pu_model_gradient(&model, theta, &data, NULL, NULL, grad, NULL, &r));
    ASSERT(r.where.datum == 1);
    data.pick = NULL;
    ASSERT_EQ(PU_OK, pu_model_gradient(&model, theta, &data, NULL, NULL, grad, NULL, &r));
    PASS();
}

/* White noise of known variance: b and its errors are those of least squares. Columns that depend on others start at 0
   and are not identified. Without an observed entry nothing is. */
TEST least_squares_is_the_start_and_the_end(void)
{
    enum { LENGTH = 40, P = 3 };
    pu_real X[LENGTH * P], y[LENGTH] = {0}, theta[3], se[3], tol = (pu_real)PU_TEST_PICK(1e-9, 2e-3);
    const pu_int all[2] = {PU_ZERO, PU_ZERO};
    const pu_real value[2] = {0, PU_R(-1.0)}; /* kappa = 1, lambda = 1/e */
    double xx[3] = {0}, xy[2] = {0}, det, b[2], variance = 1 + exp(-1.0);
    pu_model inner, fixed, model;
    pu_data data = pu_data_nan(1, LENGTH, y);
    pu_fit_report fit;
    pu_report r;
    tc_fill_normal(41, LENGTH, y);
    for (int m = 0; m < LENGTH; m++) {
        X[m * P] = 1, X[m * P + 1] = (pu_real)(m - 20), X[m * P + 2] = 2 - (pu_real)(m - 20);
        y[m] += (pu_real)(100 + 0.5 * m);
        if (m % 7 == 3) y[m] = PU_R(NAN);
        if (m % 7 == 3) continue;
        xx[0] += 1, xx[1] += m - 20, xx[2] += (m - 20) * (m - 20);
        xy[0] += (double)y[m], xy[1] += (double)y[m] * (m - 20);
    }
    det = xx[0] * xx[2] - xx[1] * xx[1];
    b[0] = (xx[2] * xy[0] - xx[1] * xy[1]) / det, b[1] = (xx[0] * xy[1] - xx[1] * xy[0]) / det;
    empty(&inner), empty(&fixed), empty(&model);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, LENGTH, 0, NULL));
    ASSERT_EQ(PU_OK, pu_model_fix(&fixed, &inner, all, value, NULL));
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &fixed, P, X, 0, &r));
    ASSERT(model.params == P);
    TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
    TC_CLOSE(theta[0], b[0], 100 * PU_TEST_EPS * 120);
    TC_CLOSE(theta[1], b[1], 100 * PU_TEST_EPS * 120);
    ASSERT(theta[2] == PU_R(0));
    ASSERT_EQ(PU_UNIDENTIFIED, pu_fit_errors(&model, &data, NULL, NULL, theta, se, &r));
    for (int i = 0; i < P; i++) ASSERT(se[i] != se[i]);
    pu_model_free(&model);
    /* the first two columns alone */
    for (int m = 0; m < LENGTH; m++) X[2 * m] = 1, X[2 * m + 1] = (pu_real)(m - 20);
    empty(&model);
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &fixed, 2, X, 0, &r));
    theta[0] = theta[1] = 0;
    TC_STATUS(pu_fit(&model, &data, NULL, NULL, theta, &fit), PU_OK);
    ASSERT(fit.stop == PU_FIT_CONVERGED);
    TC_CLOSE(theta[0], b[0], (double)tol * 100);
    TC_CLOSE(theta[1], b[1], (double)tol * 10);
    TC_STATUS(pu_fit_errors(&model, &data, NULL, NULL, theta, se, &r), PU_OK);
    TC_CLOSE(se[0], sqrt(variance * xx[2] / det), 1e-3 * sqrt(variance * xx[2] / det));
    TC_CLOSE(se[1], sqrt(variance * xx[0] / det), 1e-3 * sqrt(variance * xx[0] / det));
    for (int m = 0; m < LENGTH; m++) y[m] = PU_R(NAN);
    TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
    ASSERT(theta[0] == PU_R(0) && theta[1] == PU_R(0));
    PASS();
}

/* y_t = 580 - 0.02 (t - 45) + AR(2): like yearly levels of a lake. */
static void lake(pu_int n, pu_real *y)
{
    pu_real *e = tc_normal(52, n + 100);
    double before = 0, last = 0;
    for (pu_int t = 0; t < n + 100; t++) {
        double next = 1.0048 * last - 0.2913 * before + 0.6757 * (double)e[t];
        before = last, last = next;
        if (t >= 100) y[t - 100] = (pu_real)(580 - 0.02 * (double)(t - 145) + next);
    }
}

/* -log density of y - X b under an AR(2) with gamma1, gamma2, kappa and noise lambda, all data observed, densely. */
static double dense_nll(pu_int n, const pu_ar *ar, double lambda, const pu_real *X, const pu_real *b, const pu_real *y)
{
    double *C = tc_doubles(n * n), *e = tc_doubles(n), *x = tc_doubles(n), *c = tc_doubles(n), nll;
    double phi1 = (double)ar->phi[0], phi2 = (double)ar->phi[1], kappa = (double)ar->kappa;
    c[0] = kappa * (1 - phi2) / ((1 + phi2) * ((1 - phi2) * (1 - phi2) - phi1 * phi1));
    c[1] = c[0] * phi1 / (1 - phi2);
    for (pu_int k = 2; k < n; k++) c[k] = phi1 * c[k - 1] + phi2 * c[k - 2];
    for (pu_int i = 0; i < n * n; i++) C[i] = c[i / n > i % n ? i / n - i % n : i % n - i / n] + (i / n == i % n ? lambda : 0);
    for (pu_int m = 0; m < n; m++)
        e[m] = x[m] = (double)y[m] - (double)X[2 * m] * (double)b[0] - (double)X[2 * m + 1] * (double)b[1];
    if (!tc_cholesky(n, C)) return HUGE_VAL;
    tc_solve(n, C, x);
    nll = tc_logdet(n, C) + (double)n * log(2 * 3.14159265358979323846);
    for (pu_int m = 0; m < n; m++) nll += e[m] * x[m];
    return nll / 2;
}

/* AR(2) with intercept and trend in one fit, the noise fixed at next to nothing: the likelihood is the dense one, and the
   fit ends at the same minimum whatever the units of y, and wherever the years are counted from, within 4e-5 squared standard
   errors. (Before pu_fit took Newton steps of b it "converged" 0.05 above the minimum in some of these.) */
TEST series_with_intercept_and_trend(void)
{
    enum { LENGTH = 98 };
    const struct {
        double origin, unit;
    } rows[] = {{1920, 1}, {0, 1}, {1920, 1e6}, {0, 1e6}, {0, 1e-3}};
    const pu_int from[4] = {0, 1, 2, PU_ZERO};
    pu_real y[LENGTH], scaled[LENGTH], X[2 * LENGTH], theta[5], value[4] = {0};
    double least = 0;
    lake(LENGTH, y);
    for (size_t k = 0; k < PU_TEST_PICK(sizeof rows / sizeof *rows, 1); k++) {
        double lambda = PU_TEST_PICK(1e-6, 1e-3) * rows[k].unit * rows[k].unit, nll;
        pu_model ar, fixed, model;
        pu_data data = pu_data_full(1, LENGTH, scaled);
        pu_fit_report fit;
        pu_report r;
        tc_set_case("years from %g, units of %g", rows[k].origin, rows[k].unit);
        for (int m = 0; m < LENGTH; m++) {
            scaled[m] = (pu_real)((double)y[m] * rows[k].unit);
            X[2 * m] = 1, X[2 * m + 1] = (pu_real)(1875 + m - rows[k].origin);
        }
        value[3] = (pu_real)log(lambda);
        empty(&ar), empty(&fixed), empty(&model);
        TC_STATUS(pu_model_noisy_ar(&ar, LENGTH, 2, &r), PU_OK);
        TC_STATUS(pu_model_fix(&fixed, &ar, from, value, &r), PU_OK);
        TC_STATUS(pu_model_regressors(&model, &fixed, 2, X, 0, &r), PU_OK);
        TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
        TC_STATUS(pu_fit(&model, &data, NULL, NULL, theta, &fit), PU_OK);
        /* in float the rounding of X b, eps 580, may end it before */
        TC_ASSERT(fit.stop == PU_FIT_CONVERGED || fit.stop == PU_TEST_PICK(PU_FIT_CONVERGED, PU_FIT_STUCK));
        nll = dense_nll(LENGTH, pu_model_get_ar(&model), lambda, X, theta + 3, scaled);
        /* the dense one loses eps cond(C) < 1e3, and y - X b eps 580 over the innovations, squares of which are summed */
        TC_CLOSE(fit.best, nll, LENGTH * (1e3 + 580) * 10 * PU_TEST_EPS);
        nll -= LENGTH * log(rows[k].unit);
        if (k == 0) least = nll;
        TC_CLOSE(nll, least, 2e-5);
        if (k > 0) continue;
        /* a minimum: a tenth of a standard error to either side is higher, by 0.005 less what rounding takes */
        pu_real se[5], moved[5];
        pu_status status = pu_fit_errors(&model, &data, NULL, NULL, theta, se, &r);
        TC_ASSERT(status == PU_OK || status == PU_TEST_PICK(PU_OK, PU_INEXACT));
        for (int i = 0; i < 10 && PU_TEST_PICK(1, 0); i++) {
            double there;
            memcpy(moved, theta, sizeof moved);
            moved[i / 2] += PU_R(0.1) * (i % 2 ? se[i / 2] : -se[i / 2]);
            TC_STATUS(pu_model_nll(&model, moved, &data, NULL, NULL, &there, NULL, &r), PU_OK);
            TC_ASSERT(there > fit.best + 0.004);
        }
    }
    PASS();
}

/* An AR(2) without noise about an intercept and a trend: the covariance of all parameters, from years as they are, is that from
   years counted from their middle, c = b0 + m b1, b1. A third column that is a sum of these two is not identified, and neither are
   they; the others are. Tolerance: theta is the same point up to rounding; the differences of gradients over eps^1/3 leave
   eps^2/3, and X b, which is up to 2 m |b1|, eps of that in units of the innovations: 1e-4 and 1e-2 are room enough for both. */
TEST errors_do_not_depend_on_where_regressors_count_from(void)
{
    enum { LENGTH = 98, MIDDLE = 1920 };
    static const pu_part parts[] = {{PU_PART_AR, 2, 0}, {PU_PART_NO_IRREGULAR, 0, 0}};
    const double tolerance = PU_TEST_PICK(1e-4, 1e-2);
    pu_real y[LENGTH] = {0}, X[3 * LENGTH], theta[6], C[36], want[25], se[6];
    pu_data data = pu_data_full(1, LENGTH, y);
    lake(LENGTH, y);
    for (int k = 0; k < 3; k++) {
        const int p = k < 2 ? 2 : 3;
        pu_model series, model;
        pu_fit_report fit;
        pu_report r;
        tc_set_case("%s", k == 0 ? "from the middle" : k == 1 ? "years" : "and a sum of both");
        for (int m = 0; m < LENGTH; m++) {
            X[p * m] = 1;
            X[p * m + 1] = (pu_real)(1875 + m - (k ? 0 : MIDDLE));
            if (p > 2) X[p * m + 2] = (pu_real)(3 * (1875 + m) - 5000);
        }
        empty(&series), empty(&model);
        TC_STATUS(pu_model_structural(&series, LENGTH, parts, 2, &r), PU_OK);
        TC_STATUS(pu_model_regressors(&model, &series, p, X, 0, &r), PU_OK);
        if (k == 0) {
            TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
            TC_STATUS(pu_fit(&model, &data, NULL, NULL, theta, &fit), PU_OK);
            TC_STATUS(pu_fit_covariance(&model, &data, NULL, NULL, theta, want, &r), PU_OK);
            theta[3] -= MIDDLE * theta[4];
            theta[5] = 0;
            continue;
        }
        if (k == 1) {
            TC_STATUS(pu_fit_covariance(&model, &data, NULL, NULL, theta, C, &r), PU_OK);
            TC_STATUS(pu_fit_errors(&model, &data, NULL, NULL, theta, se, &r), PU_OK);
            for (int i = 0; i < 5; i++)
                for (int j = 0; j < 5; j++) {
                    double x = (double)want[5 * i + j], size = sqrt((double)C[6 * i] * (double)C[6 * j]);
                    if (i == 3) x -= MIDDLE * (double)want[5 * 4 + j];
                    if (j == 3) x -= MIDDLE * (double)want[5 * i + 4];
                    if (i == 3 && j == 3) x += MIDDLE * (double)MIDDLE * (double)want[24];
                    TC_CLOSE(C[5 * i + j], x, tolerance * size);
                    if (i == j) TC_CLOSE(se[i], sqrt((double)C[6 * i]), 10 * PU_TEST_EPS * sqrt((double)C[6 * i]));
                }
            continue;
        }
        TC_STATUS(pu_fit_errors(&model, &data, NULL, NULL, theta, se, &r), PU_UNIDENTIFIED);
        TC_ASSERT(r.where.index == 3);
        for (int i = 0; i < 6; i++) TC_ASSERT((se[i] != se[i]) == (i >= 3));
        for (int i = 0; i < 3; i++) TC_CLOSE(se[i], sqrt((double)want[6 * i]), tolerance * sqrt((double)want[6 * i]));
    }
    PASS();
}

/* A checkpoint of another value, pattern or X is refused; the same goes on to the same bits. */
TEST checkpoints_tell_models_apart(void)
{
    enum { LENGTH = 30 };
    pu_real y[LENGTH] = {0}, X[LENGTH], theta[4], whole[4], broken[4], start[4];
    const pu_int from[3] = {0, 1, PU_ZERO}, other_from[3] = {0, PU_ZERO, 1};
    pu_real value[3] = {0, -1, -2}, other_value[3] = {0, -1, PU_R(-2.5)};
    pu_data data = pu_data_full(1, LENGTH, y);
    pu_fit_options o;
    pu_fit_report report;
    tc_fill_normal(61, LENGTH, y), tc_fill_normal(62, LENGTH, X);
    memset(&o, 0, sizeof o);
    o.optimizer = PU_LBFGS;
    for (int k = 0; k < 5; k++) {
        pu_model ar, fixed, model;
        empty(&ar), empty(&fixed), empty(&model);
        tc_set_case("%d", k);
        if (k == 4) X[7] += 1;
        TC_STATUS(pu_model_noisy_ar(&ar, LENGTH, 1, NULL), PU_OK);
        TC_STATUS(pu_model_fix(&fixed, &ar, k == 2 ? other_from : from, k == 3 ? other_value : value, NULL), PU_OK);
        TC_STATUS(pu_model_regressors(&model, &fixed, 1, X, 0, NULL), PU_OK);
        if (k == 0) {
            TC_STATUS(pu_model_start(&model, &data, 0, start, NULL), PU_OK);
            memcpy(whole, start, sizeof whole);
            o.steps = 40;
            TC_STATUS(pu_fit(&model, &data, &o, NULL, whole, &report), PU_OK);
            TC_ASSERT(report.step > 3);
            o.steps = 3, o.checkpoint = FILE_NAME, o.resume = 1;
            remove(FILE_NAME);
            memcpy(broken, start, sizeof broken);
            TC_STATUS(pu_fit(&model, &data, &o, NULL, broken, &report), PU_OK);
            o.steps = 40;
            continue;
        }
        memcpy(theta, start, sizeof theta);
        TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), k == 1 ? PU_OK : PU_E_FILE);
        if (k == 1)
            TC_ASSERT(report.resumed == 3 && memcmp(theta, whole, 3 * sizeof *theta) == 0);
        else
            TC_ASSERT(strstr(report.where.what, "checkpoint: model is ") != NULL);
        if (k > 1) continue;
        /* the others meet the checkpoint of three steps */
        remove(FILE_NAME);
        o.steps = 3;
        memcpy(broken, start, sizeof broken);
        TC_STATUS(pu_fit(&model, &data, &o, NULL, broken, &report), PU_OK);
        o.steps = 40;
    }
    remove(FILE_NAME);
    PASS();
}

/* Mini-batches of data that have an X each: the fit finds b, with any number of threads the same. */
TEST mini_batches_have_their_own_regressors(void)
{
    enum { COUNT = 120, LENGTH = 4 };
    pu_real X[COUNT * LENGTH], y[COUNT * LENGTH], theta[6], again[6], *noise = tc_normal(72, COUNT * LENGTH);
    pu_model inner, model;
    pu_data data = pu_data_full(COUNT, LENGTH, y);
    pu_fit_options o;
    pu_fit_report fit;
    pu_report r;
    tc_fill_normal(71, COUNT * LENGTH, X);
    for (int i = 0; i < COUNT * LENGTH; i++) y[i] = PU_R(1.5) * X[i] + PU_R(0.1) * noise[i];
    empty(&inner), empty(&model);
    memset(&o, 0, sizeof o);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&inner, LENGTH, 0, NULL));
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &inner, 1, X, COUNT, NULL));
    TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
    TC_CLOSE(theta[2], 1.5, 0.05); /* six standard errors, 0.1 / sqrt(480), and more */
    theta[2] = 0;
    memcpy(again, theta, sizeof again);
    o.batch = 17, o.steps = 300, o.schedule = PU_RATE_COSINE, o.gradient.threads = 1;
    TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &fit), PU_OK);
    TC_CLOSE(theta[2], 1.5, 0.05);
    o.gradient.threads = 3;
    TC_STATUS(pu_fit(&model, &data, &o, NULL, again, &fit), PU_OK);
    ASSERT(memcmp(theta, again, 3 * sizeof *theta) == 0);
    /* more data than X */
    pu_model_free(&model);
    empty(&model);
    ASSERT_EQ(PU_OK, pu_model_regressors(&model, &inner, 1, X, COUNT - 1, NULL));
    ASSERT_EQ(PU_E_SIZE, pu_fit(&model, &data, &o, NULL, theta, &fit));
    PASS();
}

/* ---- an offset for each datum ------------------------------------------------------------------ */

/* eta of each datum is as good as data less eta, to the bit: values, gradients, solutions, of all engines and kinds; the
   gradient in eta is what each datum alone has, over N. */
TEST an_offset_for_each_datum_shifts_the_data(void)
{
    enum { LENGTH = 8, COUNT = 5, BATCH = 4, K = 3 };
    const pu_int pick[BATCH] = {4, 1, 1, 2};
    const struct {
        pu_kind kind;
        pu_engine engine;
    } runs[] = {{PU_EXACT, PU_DENSE},        {PU_EXACT, PU_DUAL},        {PU_EXACT, PU_BANDED},        {PU_EXACT, PU_KALMAN},
                {PU_MONTE_CARLO, PU_DENSE},  {PU_NETWORK, PU_ITERATIVE}, {PU_OUTPUT, PU_ITERATIVE},
                {PU_MONTE_CARLO, PU_ITERATIVE}, {PU_EXACT, PU_ENGINE_AUTO}};
    pu_real *eta = tc_normal(81, COUNT * LENGTH), *y = tc_normal(82, COUNT * LENGTH), less[COUNT * LENGTH], psi[LENGTH];
    const pu_real gamma[2] = {PU_R(0.6), PU_R(-0.2)};
    pu_ar ar;
    pu_op Phi = pu_op_identity(LENGTH), Gamma;
    ASSERT_EQ(PU_OK, pu_ar_set(&ar, LENGTH, 2, gamma, PU_R(0.5), NULL));
    Gamma = pu_op_ar(&ar);
    y[3] = y[14] = PU_R(NAN);
    for (int i = 0; i < COUNT * LENGTH; i++) less[i] = y[i] - eta[i];
    for (int i = 0; i < LENGTH; i++) psi[i] = (pu_real)(1 + i);
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++)
        for (int picked = 0; picked < 2; picked++) {
            pu_lgm own = {&Gamma, &Phi, NULL, eta, psi, COUNT}, none = {&Gamma, &Phi, NULL, NULL, psi, 0};
            pu_data data = pu_data_nan(picked ? BATCH : COUNT, LENGTH, y), moved;
            pu_real a[2][3 + LENGTH + COUNT * (K + 1) * LENGTH], grads[COUNT * LENGTH], sum[LENGTH], one[LENGTH];
            pu_gradient_result out[2];
            pu_report r[2];
            pu_options o;
            int exact = runs[k].kind == PU_EXACT;
            memset(&o, 0, sizeof o);
            o.kind = runs[k].kind, o.engine = runs[k].engine, o.samples = exact ? 0 : K;
            data.pick = picked ? pick : NULL;
            moved = data, moved.y = less;
            tc_set_case("kind %d, %s%s", (int)o.kind, pu_engine_text(o.engine), picked ? ", picked" : "");
            memset(out, 0, sizeof out), memset(a, 0, sizeof a);
            for (int j = 0; j < 2; j++) {
                out[j].Gamma = a[j], out[j].psi = a[j] + 3, out[j].x = a[j] + 3 + LENGTH;
                out[j].eta = j ? sum : grads;
                o.threads = j ? 1 : 3;
                TC_STATUS(pu_gradient(j ? &none : &own, j ? &moved : &data, &o, NULL, &out[j], &r[j]), PU_OK);
            }
            TC_ASSERT(r[0].nll == r[1].nll && r[0].q == r[1].q && memcmp(a[0], a[1], sizeof a[0]) == 0);
            for (int m = 0; m < LENGTH; m++) {
                double all = 0, size = 0;
                for (pu_int n = 0; n < data.n; n++)
                    all += (double)grads[n * LENGTH + m], size += fabs((double)grads[n * LENGTH + m]);
                TC_CLOSE(all, sum[m], 8 * PU_TEST_EPS * (size + fabs((double)sum[m])));
            }
            for (pu_int n = 0; n < data.n; n++) {
                pu_int number = picked ? pick[n] : n;
                pu_data alone = data;
                pu_gradient_result want;
                memset(&want, 0, sizeof want);
                want.eta = one;
                alone.n = 1, alone.pick = &number;
                TC_STATUS(pu_gradient(&own, &alone, &o, NULL, &want, NULL), PU_OK);
                for (int m = 0; m < LENGTH; m++)
                    TC_CLOSE(grads[n * LENGTH + m] * (pu_real)data.n, one[m], 4 * PU_TEST_EPS * fabs((double)one[m]));
            }
        }
    PASS();
}

TEST offsets_are_checked(void)
{
    pu_real eta[6] = {0, 0, 0, 0, PU_R(INFINITY), 0}, y[6] = {1, 2, 3, 4, 5, 6}, psi[2] = {1, 1}, grad[6], draws[6], mean[6];
    const pu_int pick[2] = {2, 0};
    pu_op I = pu_op_identity(2);
    pu_lgm lgm = {&I, &I, NULL, eta, psi, 3};
    pu_data data = pu_data_full(3, 2, y);
    pu_gradient_result out;
    pu_predict_result predicted;
    pu_exact_result exact;
    pu_report r;
    size_t bytes;
    memset(&out, 0, sizeof out), memset(&predicted, 0, sizeof predicted), memset(&exact, 0, sizeof exact);
    out.eta = grad;
    predicted.mean = mean;
    tc_fill(6, grad, PU_R(7));
    ASSERT_EQ(PU_E_NONFINITE, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    ASSERT(says(&r, PU_E_NONFINITE, "model.eta", 0) && r.where.datum == 2);
    data.n = 2; /* what is not asked for is not looked at */
    ASSERT_EQ(PU_OK, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    data.pick = pick;
    ASSERT_EQ(PU_E_NONFINITE, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    ASSERT(r.where.datum == 0);
    eta[4] = 0;
    ASSERT_EQ(PU_OK, pu_exact(&lgm, &data, 0, NULL, &exact, &r));
    ASSERT_EQ(PU_OK, pu_exact_bytes(&lgm, &bytes, &r));
    lgm.eta_count = 2;
    ASSERT_EQ(PU_E_SIZE, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    ASSERT_EQ(PU_E_SIZE, pu_predict(&lgm, &data, NULL, NULL, &predicted, &r));
    ASSERT_EQ(PU_E_SIZE, pu_exact(&lgm, &data, 0, NULL, &exact, &r));
    ASSERT_EQ(PU_OK, pu_simulate(&lgm, 2, 0, NULL, NULL, draws, &r));
    ASSERT_EQ(PU_E_SIZE, pu_simulate(&lgm, 3, 0, NULL, NULL, draws, &r));
    lgm.eta_count = -1;
    ASSERT_EQ(PU_E_ARGUMENT, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    ASSERT(says(&r, PU_E_ARGUMENT, "model.eta", -1));
    lgm.eta_count = 3, lgm.eta = NULL;
    ASSERT_EQ(PU_E_NULL, pu_gradient(&lgm, &data, NULL, NULL, &out, &r));
    PASS();
}

SUITE(around)
{
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(a_tied_model_is_the_inner_one);
    RUN_TEST(tied_entries_have_a_standard_error_of_their_own);
    RUN_TEST(names_and_starts_follow);
    RUN_TEST(everything_goes_through);
    RUN_TEST(fixing_refuses);
    RUN_TEST(memory_is_one_block);
    RUN_TEST(regressors_pass_the_check_of_models);
    RUN_TEST(regressors_shift_the_data);
    RUN_TEST(levels_of_rows_are_not_regressed);
    RUN_TEST(regressors_refuse);
    RUN_TEST(least_squares_is_the_start_and_the_end);
    RUN_TEST(series_with_intercept_and_trend);
    RUN_TEST(errors_do_not_depend_on_where_regressors_count_from);
    RUN_TEST(checkpoints_tell_models_apart);
    RUN_TEST(mini_batches_have_their_own_regressors);
    RUN_TEST(an_offset_for_each_datum_shifts_the_data);
    RUN_TEST(offsets_are_checked);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(around);
    PU_TEST_MAIN_END();
}

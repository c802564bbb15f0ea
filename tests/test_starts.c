/* test_starts.c - several starts of a fit (fit.starts): the result is that of the best single fit, to the bit, also after
   interruptions; of two maxima the higher one is found; starts that fail are counted; a time limit ends them all; what
   cannot be compared is refused. */
#include "pu_test.h"
#include "test_common.h"

#include <stdio.h>

/* Variants of this program may run side by side. */
#if PU_TEST_SANITIZED
static const char *const FILE_NAME = PU_TEST_PICK("test_starts.double_asan", "test_starts.float_asan");
#else
static const char *const FILE_NAME = PU_TEST_PICK("test_starts.double", "test_starts.float");
#endif

enum { M = 6, D = 2, N = 20, SEED = 7, MOST = 80 };

typedef struct {
    pu_model model;
    pu_data data;
    pu_real theta[MOST], *y;
} problem;

static pu_fit_options exact(pu_optimizer optimizer, pu_int steps, pu_int starts)
{
    pu_fit_options o;
    memset(&o, 0, sizeof o);
    o.optimizer = optimizer, o.steps = steps, o.starts = starts;
    o.gradient.kind = PU_EXACT, o.gradient.engine = PU_ENGINE_AUTO, o.gradient.seed = SEED;
    return o;
}

/* Factor analysis, whose start depends on the seed. */
static int factors(problem *p)
{
    pu_real *common;
    memset(p, 0, sizeof *p);
    p->model.memory = tc_workspace();
    p->y = tc_normal(5, N * M);
    /* two factors behind three entries each, so that no noise goes to zero */
    common = tc_normal(9, 2 * N);
    for (pu_int i = 0; i < N * M; i++) p->y[i] += 2 * common[2 * (i / M) + i % M / 3];
    p->data = pu_data_full(N, M, p->y);
    return !pu_model_factors(&p->model, M, D, NULL) && !pu_model_start(&p->model, &p->data, SEED, p->theta, NULL);
}

/* Two states, and a series that goes round. */
static int states(problem *p)
{
    enum { STEPS = 60 };
    pu_real *noise;
    pu_int i;
    memset(p, 0, sizeof *p);
    p->model.memory = tc_workspace();
    p->y = tc_normal(6, STEPS);
    noise = tc_normal(8, STEPS);
    for (i = 2; i < STEPS; i++) p->y[i] += PU_R(1.3) * p->y[i - 1] - PU_R(0.8) * p->y[i - 2];
    for (i = 0; i < STEPS; i++) p->y[i] += noise[i];
    p->data = pu_data_full(1, STEPS, p->y);
    return !pu_model_state_space(&p->model, STEPS, 2, PU_SSM_STATIONARY, NULL) &&
           !pu_model_start(&p->model, &p->data, SEED, p->theta, NULL);
}

static size_t size_of(const problem *p) { return (size_t)p->model.params * sizeof(pu_real); }

/* pu_fit from the start of the problem. */
static pu_status fit(problem *p, const pu_fit_options *o, pu_real *theta, pu_fit_report *report)
{
    memcpy(theta, p->theta, size_of(p));
    return pu_fit(&p->model, &p->data, o, NULL, theta, report);
}

static greatest_test_res as_single_fits(problem *p, pu_optimizer optimizer, pu_int steps)
{
    enum { STARTS = 4 };
    pu_real theta[MOST], best[MOST], start[MOST];
    pu_fit_options one = exact(optimizer, steps, 0), all = exact(optimizer, steps, STARTS);
    pu_fit_report single[STARTS], report;
    double lowest = HUGE_VAL, highest = -HUGE_VAL;
    pu_int s, which = -1, gradients = 1, as_low = 0;
    char text[2000];
    for (s = 0; s < STARTS; s++) {
        TC_STATUS(pu_model_start(&p->model, &p->data, (uint64_t)(SEED + s), start, NULL), PU_OK);
        TC_ASSERT(s == 0 || memcmp(start, p->theta, size_of(p)) != 0);
        memcpy(theta, start, size_of(p));
        one.gradient.seed = SEED;
        TC_STATUS(pu_fit(&p->model, &p->data, &one, NULL, theta, &single[s]), PU_OK);
        TC_ASSERT(single[s].starts == 0 && single[s].start == 0);
        gradients += single[s].gradients;
        highest = fmax(highest, single[s].best);
        if (single[s].best < lowest) {
            lowest = single[s].best, which = s;
            memcpy(best, theta, size_of(p));
        }
    }
    for (s = 0; s < STARTS; s++) as_low += (single[s].best - lowest) * (double)p->data.n <= 0.01;
    TC_STATUS(fit(p, &all, theta, &report), PU_OK);
    TC_ASSERT(memcmp(theta, best, size_of(p)) == 0);
    TC_ASSERT(report.start == which && report.starts == STARTS && report.failed == 0 && report.near_best == as_low);
    TC_ASSERT(report.stop == single[which].stop && report.step == single[which].step && report.gradients == gradients);
    TC_ASSERT(report.best_step == single[which].best_step && report.boundaries == single[which].boundaries);
    TC_CLOSE(report.best, lowest, 0);
    TC_CLOSE(report.worst, highest, 0);
    TC_CLOSE(report.objective, lowest, 100 * PU_TEST_EPS * fabs(lowest)); /* measured again */
    TC_ASSERT(strstr(report.plan, "starts: 4") != NULL);
    TC_ASSERT(strstr(pu_fit_explain(&report, text, sizeof text), "; starts done 4, failed 0, as low as the best ") != NULL);
    PASS();
}

TEST the_result_is_that_of_the_best_single_fit(void)
{
    problem p;
    tc_set_case("factors, L-BFGS");
    TC_ASSERT(factors(&p));
    CHECK_CALL(as_single_fits(&p, PU_LBFGS, 25));
    tc_set_case("factors, Adam");
    CHECK_CALL(as_single_fits(&p, PU_ADAM, 12));
    if (sizeof(pu_real) == sizeof(float)) PASS(); /* these fits may end as PU_INEXACT there */
    tc_set_case("states");
    TC_ASSERT(states(&p));
    CHECK_CALL(as_single_fits(&p, PU_LBFGS, 60));
    PASS();
}

/* The start of a state space: that of seed 0 has independent states, others are as many different points that the model takes,
   however many states there are. */
TEST the_start_of_a_state_space_depends_on_the_seed(void)
{
    enum { STEPS = 30 };
    pu_real *y = tc_normal(3, STEPS);
    pu_data data = pu_data_full(1, STEPS, y);
    pu_int S;
    for (S = 1; S <= PU_SSM_MAX; S += 5) {
        pu_model model;
        pu_real *theta, *before, *zero;
        uint64_t seed;
        pu_int i;
        tc_set_case("%d states", (int)S);
        memset(&model, 0, sizeof model);
        model.memory = tc_workspace();
        TC_STATUS(pu_model_state_space(&model, STEPS, S, PU_SSM_STATIONARY, NULL), PU_OK);
        theta = tc_reals(model.params), before = tc_reals(model.params), zero = tc_reals(model.params);
        TC_STATUS(pu_model_start(&model, &data, 0, zero, NULL), PU_OK);
        for (i = 0; i < S * S; i++) TC_ASSERT(i % (S + 1) == 0 || zero[i] == 0);
        for (seed = 1; seed < 10; seed++) {
            memcpy(before, theta, (size_t)model.params * sizeof *theta);
            TC_STATUS(pu_model_start(&model, &data, seed, theta, NULL), PU_OK);
            TC_ASSERT(memcmp(theta, before, (size_t)model.params * sizeof *theta) != 0 && theta[0] != zero[0]);
            TC_STATUS(pu_model_set(&model, theta, NULL), PU_OK);
        }
    }
    PASS();
}

/* ---- a model of two maxima, without a start of its own: y ~ N((theta^2 - 1, theta / 3), 1), data near (0, 1/3) ---- */

typedef struct {
    pu_real Phi[2], eta[2], psi[2];
    double theta;
    double bad_above; /* gradients are refused from here on */
    int calls;
} wells;

static pu_status wells_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    wells *w = (wells *)model->data;
    *index = 0;
    if (theta[0] > PU_R(50)) return PU_E_ARGUMENT;
    w->theta = (double)theta[0];
    w->eta[0] = theta[0] * theta[0] - 1, w->eta[1] = theta[0] / 3;
    return PU_OK;
}

static pu_status wells_grad(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    wells *w = (wells *)model->data;
    w->calls++;
    if (w->theta > w->bad_above) return PU_E_OPERATOR;
    grad[0] = 2 * (pu_real)w->theta * g->eta[0] + g->eta[1] / 3;
    return PU_OK;
}

static void make_wells(problem *p, wells *w)
{
    memset(p, 0, sizeof *p), memset(w, 0, sizeof *w);
    w->psi[0] = w->psi[1] = 1, w->bad_above = 1e9;
    p->y = tc_reals(2 * N);
    tc_fill_normal(9, 2 * N, p->y);
    for (pu_int i = 0; i < 2 * N; i++) p->y[i] = p->y[i] / 20 + (i % 2 ? PU_R(1) / 3 : 0);
    p->data = pu_data_full(N, 2, p->y);
    p->model.name = "two wells", p->model.params = 1, p->model.uses = PU_USES_ETA, p->model.data = w;
    p->model.Gamma = pu_op_identity(1), p->model.Phi = pu_op_dense(2, 1, w->Phi);
    p->model.lgm.eta = w->eta, p->model.lgm.psi = w->psi;
    p->model.set = wells_set, p->model.grad = wells_grad;
    p->theta[0] = -1;
}

TEST the_higher_of_two_maxima_is_found(void)
{
    problem p;
    wells w;
    pu_real theta[1], again[1];
    pu_fit_options o = exact(PU_LBFGS, 0, 0);
    pu_fit_report report;
    tc_set_case("wells");
    make_wells(&p, &w);
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(theta[0] < 0 && report.stop == PU_FIT_CONVERGED && report.starts == 0);
    o.starts = 8;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(theta[0] > 0 && report.stop == PU_FIT_CONVERGED && report.starts == 8 && report.start > 0);
    TC_ASSERT(report.near_best >= 1 && report.near_best < 8 && report.worst > report.best + 0.1);
    o.gradient.threads = 3;
    TC_STATUS(fit(&p, &o, again, &report), PU_OK);
    TC_ASSERT(again[0] == theta[0]);
    o.starts = 1; /* as 0 */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(theta[0] < 0 && report.starts == 0);
    PASS();
}

/* A start that fails is counted, and the others go on; theta is as it was when all fail. */
TEST starts_that_fail_are_counted(void)
{
    problem p;
    wells w;
    pu_real theta[1];
    pu_fit_options o = exact(PU_LBFGS, 0, 8);
    pu_fit_report report;
    pu_int good;
    tc_set_case("wells");
    make_wells(&p, &w);
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    good = report.near_best;
    w.bad_above = 0.2; /* all that goes to the right */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(theta[0] < 0 && report.failed >= good && report.failed < 8 && report.starts == 8);
    TC_ASSERT(report.where.what[0] == 0 && report.stop == PU_FIT_CONVERGED);
    p.theta[0] = PU_R(1.5); /* the first one fails */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(theta[0] < 0 && report.failed >= 1 && report.start > 0);
    w.bad_above = -1e9;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_OPERATOR);
    TC_ASSERT(theta[0] == p.theta[0] && report.failed == 8 && report.starts == 8);
    TC_ASSERT(tc_named(report.where.what, "model.grad"));
    PASS();
}

/* ---- what ends all starts ---- */

static double ticks;
static double tick(void *user)
{
    (void)user;
    return ticks += 1;
}

static pu_int seen, stop_after; /* steps of all starts */
static int count(const pu_fit_report *now, void *user)
{
    (void)now, (void)user;
    return ++seen == stop_after;
}

TEST time_and_the_caller_end_all_starts(void)
{
    problem p;
    wells w;
    pu_real theta[1];
    pu_fit_options o = exact(PU_ADAM, 40, 8);
    pu_fit_report report;
    tc_set_case("wells");
    make_wells(&p, &w);
    o.rate = 0.05, o.progress = count;
    seen = 0, stop_after = 100; /* in the third start */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(seen == 100 && report.stop == PU_FIT_CALLBACK && report.starts == 3 && report.failed == 0);
    stop_after = -1, seen = 0;
    ticks = 0, o.clock = tick, o.seconds = 100; /* a tick per step, and some */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(seen < 100 && report.stop == PU_FIT_TIME && report.starts >= 2 && report.starts <= 3);
    o.seconds = 1e6;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(report.stop == PU_FIT_STEPS && report.starts == 8 && report.seconds_left >= 0);
    TC_CLOSE(report.steps_per_second, 320 / report.seconds, 1e-9); /* steps of all */
    PASS();
}

/* ---- interruptions ---- */

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    double sum = 0;
    (void)user;
    for (pu_int i = 0; i < model->params; i++) sum += fabs((double)theta[i]);
    return sum;
}

static greatest_test_res interrupted(problem *p, pu_fit_options o)
{
    pu_real whole[MOST], theta[MOST], other[MOST];
    pu_fit_report want, report;
    pu_int breaks = 0, k;
    o.progress = count, stop_after = -1;
    TC_STATUS(fit(p, &o, whole, &want), PU_OK);
    TC_ASSERT(want.starts == o.starts);
    o.checkpoint = FILE_NAME, o.checkpoint_every = 3;
    for (k = 1; k < 8; k++) { /* every k steps: many breaks, also at the ends of starts */
        remove(FILE_NAME);
        for (o.resume = 0, breaks = 0; breaks < 1000; breaks++) {
            memcpy(other, p->theta, size_of(p));
            if (o.resume) other[0] += PU_R(0.1); /* what is given at a resume is not looked at */
            seen = 0, stop_after = k;
            memcpy(theta, other, size_of(p));
            TC_STATUS(pu_fit(&p->model, &p->data, &o, NULL, theta, &report), PU_OK);
            o.resume = 1;
            if (report.stop != PU_FIT_CALLBACK) break;
        }
        TC_ASSERT(breaks >= 2 && memcmp(theta, whole, size_of(p)) == 0);
        TC_ASSERT(report.start == want.start && report.starts == want.starts && report.near_best == want.near_best);
        TC_ASSERT(report.stop == want.stop && report.step == want.step && report.gradients == want.gradients);
        TC_ASSERT(report.best == want.best && report.worst == want.worst && report.objective == want.objective);
    }
    stop_after = -1;
    TC_STATUS(fit(p, &o, theta, &report), PU_OK); /* nothing is left to do */
    TC_ASSERT(memcmp(theta, whole, size_of(p)) == 0 && report.start == want.start && report.worst == want.worst);
    o.starts++;
    TC_STATUS(fit(p, &o, theta, &report), PU_E_FILE);
    TC_ASSERT(strstr(report.where.what, "checkpoint: fit.starts is ") != NULL);
    o.starts--, o.steps++;
    TC_STATUS(fit(p, &o, theta, &report), PU_E_FILE);
    TC_ASSERT(strstr(report.where.what, "checkpoint: fit.steps (schedule or next start need it) is ") != NULL);
    remove(FILE_NAME);
    PASS();
}

TEST interruptions_leave_no_trace(void)
{
    problem p;
    wells w;
    pu_fit_options o;
    tc_set_case("factors, L-BFGS");
    TC_ASSERT(factors(&p));
    CHECK_CALL(interrupted(&p, exact(PU_LBFGS, 15, 4)));
    tc_set_case("wells, Adam");
    make_wells(&p, &w);
    o = exact(PU_ADAM, 9, 5);
    o.schedule = PU_RATE_COSINE;
    CHECK_CALL(interrupted(&p, o));
    tc_set_case("wells, L-BFGS"); /* they end before their steps are done */
    CHECK_CALL(interrupted(&p, exact(PU_LBFGS, 100, 5)));
    tc_set_case("mini-batches, SGD, probes, warm starts, validation");
    TC_ASSERT(factors(&p));
    o = exact(PU_SGD, 8, 3);
    o.gradient.kind = PU_OUTPUT, o.gradient.engine = PU_ITERATIVE, o.gradient.samples = 3, o.gradient.solve.iterations = 3;
    o.batch = 7, o.fixed_probes = o.warm_start = 1, o.validate = validate, o.validate_every = 2;
    CHECK_CALL(interrupted(&p, o));
    PASS();
}

/* ---- what is refused ---- */

TEST what_cannot_be_compared_is_refused(void)
{
    problem p;
    pu_real theta[MOST];
    pu_fit_options o = exact(PU_ADAM, 4, 3);
    pu_fit_report report;
    size_t bytes, more;
    pu_workspace ws;
    TC_ASSERT(factors(&p));
    tc_set_case("mini-batches");
    o.batch = 5;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "fit.starts") && report.gradients == 0);
    TC_ASSERT(memcmp(theta, p.theta, size_of(&p)) == 0);
    o.validate = validate, o.validate_every = 1;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(report.starts == 3 && report.best == validate(&p.model, theta, NULL));
    tc_set_case("probes");
    o = exact(PU_ADAM, 4, 3), o.gradient.kind = PU_OUTPUT, o.gradient.engine = PU_ITERATIVE, o.gradient.samples = 2;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "fit.starts"));
    tc_set_case("numbers");
    o = exact(PU_ADAM, 4, -1);
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "fit.starts"));
    o.starts = 10001;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "fit.starts"));
    tc_set_case("memory"); /* a block of the size that is told will do, and the starts need some of it */
    o.starts = 0;
    TC_STATUS(pu_fit_bytes(&p.model, &p.data, &o, &bytes, NULL), PU_OK);
    o.starts = 3;
    TC_STATUS(pu_fit_bytes(&p.model, &p.data, &o, &more, NULL), PU_OK);
    TC_ASSERT(more > bytes);
    memset(&ws, 0, sizeof ws);
    pu_workspace_block(&ws, tc_bytes(more), more);
    memcpy(theta, p.theta, size_of(&p));
    TC_STATUS(pu_fit(&p.model, &p.data, &o, &ws, theta, &report), PU_OK);
    TC_ASSERT(report.starts == 3);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(the_result_is_that_of_the_best_single_fit);
    RUN_TEST(the_start_of_a_state_space_depends_on_the_seed);
    RUN_TEST(the_higher_of_two_maxima_is_found);
    RUN_TEST(starts_that_fail_are_counted);
    RUN_TEST(time_and_the_caller_end_all_starts);
    RUN_TEST(interruptions_leave_no_trace);
    RUN_TEST(what_cannot_be_compared_is_refused);
    PU_TEST_MAIN_END();
}

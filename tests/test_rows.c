/* test_rows.c - fits of factors that move only the rows that a step touches: the same theta as when all are moved, whenever it is
   looked at, and no trace of when that was. */
#define _POSIX_C_SOURCE 200809L
#include "pu_test.h"
#include "test_common.h"
#include <unistd.h>

enum { M = 40, D = 3, N = 60, MOST = 7, PARAMS = M * (D + 2), STEPS = 90 };

static pu_int start[N + 1], item[N * MOST];
static pu_real y[N * MOST], first[PARAMS];
static char file[80];

/* Some rows are in most data, most rows in few, the last in one alone; data N - 1 has no entry at all. */
static void make_data(void)
{
    pu_real noise[N * MOST];
    pu_model model;
    pu_data data;
    tc_fill_normal(5, N * MOST, noise);
    for (int n = 0; n < N; n++) {
        int count = n == N - 1 ? 0 : 1 + n % MOST, row = -1;
        start[n + 1] = start[n];
        for (int k = 0; k < count; k++) {
            row = k == 0 ? n % 3 : row + 1 + (n * (k + 3)) % 9;
            if (row >= M - 1) break;
            item[start[n + 1]] = row, y[start[n + 1]++] = noise[n * MOST + k] + (pu_real)(row % 4);
        }
        if (n == 17) item[start[n + 1]] = M - 1, y[start[n + 1]++] = PU_R(1.5);
    }
    memset(&model, 0, sizeof model);
    pu_model_factors(&model, M, D, NULL);
    data = pu_data_lists(N, M, start, item, y);
    pu_model_start(&model, &data, 1, first, NULL);
    pu_model_free(&model);
}

/* A fit, its options, and what becomes of it. */
typedef struct {
    pu_model model;
    pu_data data;
    pu_fit_options o;
    pu_workspace ws;
    pu_fit_report report;
    pu_real theta[PARAMS], seen[PARAMS];
    double curve[4000];
    int look, looks, early; /* at theta at every so many steps; how often; it was there unasked */
    pu_int end;             /* the step to stop after */
    int wrong;              /* validations that saw a model of another theta */
} run;

static int watch(const pu_fit_report *now, void *user)
{
    run *r = (run *)user;
    const pu_real *theta;
    r->curve[now->step - 1] = now->objective;
    r->early += now->theta != NULL;
    if (r->look && now->step % r->look == 0) {
        theta = pu_fit_theta(now);
        memcpy(r->seen, theta, sizeof r->seen);
        r->looks++;
        r->wrong += theta != pu_fit_theta(now) || theta != now->theta;
    }
    return r->end && now->step >= r->end;
}

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    run *r = (run *)user;
    const pu_real *Phi = (const pu_real *)model->lgm.Phi->data;
    double sum = 0;
    for (int i = 0; i < M * D; i++) r->wrong += Phi[i] != theta[i];
    for (int i = 0; i < M; i++) {
        r->wrong += model->lgm.eta[i] != theta[M * D + i];
        r->wrong += !(fabs(log((double)model->lgm.psi[i]) - (double)theta[M * D + M + i]) < 1e-5);
    }
    for (int i = 0; i < PARAMS; i++) sum += (double)theta[i] * (double)theta[i];
    return -sum; /* so that the last is the best, mostly */
}

static void prepare(run *r, int dense)
{
    memset(r, 0, sizeof *r);
    pu_model_factors(&r->model, M, D, NULL);
    r->data = pu_data_lists(N, M, start, item, y);
    memcpy(r->theta, first, sizeof first);
    r->o.steps = STEPS, r->o.optimizer = PU_ADAM, r->o.rate = 0.02, r->o.batch = 2, r->o.dense = dense;
    r->o.gradient.engine = PU_ITERATIVE, r->o.gradient.samples = 3, r->o.gradient.solve.iterations = 4;
    r->o.gradient.threads = 1;
    r->o.progress = watch, r->o.user = r;
}

static pu_status go(run *r) { return pu_fit(&r->model, &r->data, &r->o, &r->ws, r->theta, &r->report); }

static void end(run *r)
{
    pu_workspace_free(&r->ws);
    pu_model_free(&r->model);
}

/* The largest difference of two thetas. */
static double apart(const pu_real *a, const pu_real *b)
{
    double most = 0;
    for (int i = 0; i < PARAMS; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static run few, all;

/* ---- the same as all rows ---- */

TEST touched_rows_move_as_all_do(void)
{
    static const pu_schedule schedules[] = {PU_RATE_CONSTANT, PU_RATE_COSINE, PU_RATE_HYPERBOLIC, PU_RATE_TAIL};
    static const double betas[][3] = {{0, 0, 0}, {0.5, 0.9, 1e-3}, {0.95, 0.85, 0.1}, {0.99, 0.999, 0.1}};
    for (int s = 0; s < 4; s++)
        for (int b = 0; b < 4; b++)
            for (pu_int accumulate = 1; accumulate <= 4; accumulate += 3) {
                tc_set_case("schedule %d, betas %d, accumulate %d", s, b, (int)accumulate);
                for (int dense = 0; dense < 2; dense++) {
                    run *r = dense ? &all : &few;
                    prepare(r, dense);
                    r->o.schedule = schedules[s], r->o.accumulate = accumulate;
                    r->o.beta1 = betas[b][0], r->o.beta2 = betas[b][1], r->o.epsilon = betas[b][2];
                    TC_STATUS(go(r), PU_OK);
                }
                TC_ASSERT(strstr(few.report.plan, "Adam of touched rows") != NULL);
                TC_ASSERT(strstr(all.report.plan, "Adam of all rows, since fit.dense") != NULL);
                TC_ASSERT(few.report.gradients == all.report.gradients && few.report.epoch == all.report.epoch);
                /* a step's rounding, of a few units times its rate, is carried on by the 90 steps that follow */
                TC_CLOSE(apart(few.theta, all.theta), 0, 50 * STEPS * 0.02 * PU_TEST_EPS * 16);
                for (int i = 0; i < STEPS; i++) TC_CLOSE(few.curve[i], all.curve[i], 1e4 * PU_TEST_EPS * (1 + fabs(all.curve[i])));
                TC_ASSERT(apart(few.theta, first) > 0.1);
                end(&few), end(&all);
            }
    PASS();
}

/* Rows that are behind by more steps than are remembered, and whose m has gone to zero on the way. */
TEST rows_that_wait_for_long(void)
{
    for (int dense = 0; dense < 2; dense++) {
        run *r = dense ? &all : &few;
        prepare(r, dense);
        r->o.steps = 2600, r->o.batch = 1, r->o.rate = 0.001;
        r->o.gradient.kind = PU_EXACT, r->o.gradient.engine = PU_ENGINE_AUTO, r->o.gradient.samples = r->o.gradient.solve.iterations = 0;
        TC_STATUS(go(r), PU_OK);
    }
    TC_CLOSE(apart(few.theta, all.theta), 0, 2600 * 0.001 * PU_TEST_EPS * 3000);
    end(&few), end(&all);
    PASS();
}

/* ---- no trace ---- */

/* Bits of theta and curve after a run with other options but for what must not count. */
TEST looking_leaves_no_trace(void)
{
    prepare(&few, 0);
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(few.early == 0);
    for (int look = 1; look <= 7; look += 3) {
        prepare(&all, 0);
        all.look = look;
        TC_STATUS(go(&all), PU_OK);
        TC_ASSERT(all.looks == STEPS / look && all.wrong == 0);
        TC_ASSERT(memcmp(few.theta, all.theta, sizeof few.theta) == 0 && memcmp(few.curve, all.curve, sizeof few.curve) == 0);
        end(&all);
    }
    for (int threads = 2; threads <= 3; threads++) {
        prepare(&all, 0);
        all.o.gradient.threads = threads;
        TC_STATUS(go(&all), PU_OK);
        TC_ASSERT(memcmp(few.theta, all.theta, sizeof few.theta) == 0);
        end(&all);
    }
    end(&few);
    PASS();
}

/* What a look shows is what all rows would be. */
TEST a_look_shows_all_rows(void)
{
    static const pu_int ends[] = {1, 2, 13, 57};
    for (int e = 0; e < 4; e++) {
        prepare(&few, 0), prepare(&all, 1);
        few.look = 1, few.end = all.end = ends[e];
        TC_STATUS(go(&few), PU_OK);
        TC_STATUS(go(&all), PU_OK);
        TC_ASSERT(memcmp(few.seen, few.theta, sizeof few.seen) == 0 && few.report.theta == few.theta);
        TC_CLOSE(apart(few.theta, all.theta), 0, 50 * STEPS * 0.02 * PU_TEST_EPS * 16);
        end(&few), end(&all);
    }
    TC_ASSERT(pu_fit_theta(NULL) == NULL);
    PASS();
}

TEST checkpoints_leave_no_trace(void)
{
    prepare(&few, 0);
    few.o.schedule = PU_RATE_COSINE;
    TC_STATUS(go(&few), PU_OK);
    for (pu_int stop = 1; stop < STEPS; stop += 11) {
        tc_set_case("broken off after step %d", (int)stop);
        prepare(&all, 0);
        all.o.schedule = PU_RATE_COSINE, all.o.checkpoint = file, all.o.checkpoint_every = stop % 2 ? 1 : 4, all.end = stop;
        TC_STATUS(go(&all), PU_OK);
        end(&all);
        prepare(&all, 0);
        all.o.schedule = PU_RATE_COSINE, all.o.checkpoint = file, all.o.checkpoint_every = 5, all.o.resume = 1;
        TC_STATUS(go(&all), PU_OK);
        TC_ASSERT(all.report.resumed == (int)stop);
        TC_ASSERT(memcmp(few.theta, all.theta, sizeof few.theta) == 0);
        end(&all);
        remove(file);
    }
    /* of all rows it is another fit */
    prepare(&all, 0);
    all.o.checkpoint = file, all.end = 3;
    TC_STATUS(go(&all), PU_OK);
    end(&all);
    prepare(&all, 1);
    all.o.checkpoint = file, all.o.resume = 1;
    TC_STATUS(go(&all), PU_E_FILE);
    TC_ASSERT(strstr(all.report.where.what, "dense") != NULL);
    TC_ASSERT(memcmp(all.theta, first, sizeof first) == 0);
    end(&all);
    /* a damaged file leaves theta alone */
    FILE *f = fopen(file, "r+b");
    TC_ASSERT(f && fseek(f, -20, SEEK_END) == 0 && fputc(77, f) == 77 && fclose(f) == 0);
    prepare(&all, 0);
    all.o.checkpoint = file, all.o.resume = 1;
    TC_STATUS(go(&all), PU_E_FILE);
    TC_ASSERT(memcmp(all.theta, first, sizeof first) == 0);
    end(&all), end(&few);
    remove(file);
    PASS();
}

/* ---- validation, the model at the end ---- */

TEST validation_sees_all_rows(void)
{
    pu_fit_report ignored;
    for (int dense = 0; dense < 2; dense++) {
        run *r = dense ? &all : &few;
        prepare(r, dense);
        r->o.validate = validate, r->o.validate_every = 7;
        TC_STATUS(go(r), PU_OK);
        TC_ASSERT(r->wrong == 0);
        (void)validate(&r->model, r->theta, r); /* the model is set to the result, of its own */
        TC_ASSERT(r->wrong == 0 && r->model.lgm.Phi->data != r->theta);
    }
    TC_ASSERT(few.report.best_step == all.report.best_step && few.report.best_step > 0);
    TC_CLOSE(apart(few.theta, all.theta), 0, 50 * STEPS * 0.02 * PU_TEST_EPS * 16);
    TC_CLOSE(few.report.best, all.report.best, 1e4 * PU_TEST_EPS * fabs(all.report.best));
    /* refused: the model is set to theta all the same */
    memcpy(few.theta, first, sizeof first);
    few.o.gradient.lanes = -1;
    TC_ASSERT(pu_fit(&few.model, &few.data, &few.o, NULL, few.theta, &ignored) < 0);
    (void)validate(&few.model, first, &few);
    TC_ASSERT(few.wrong == 0 && few.model.lgm.Phi->data != few.theta);
    end(&few), end(&all);
    PASS();
}

/* ---- who says that it is all rows ---- */

TEST the_plan_tells_why_all_rows_move(void)
{
    pu_prior prior;
    memset(&prior, 0, sizeof prior);
    prior.count = M * D, prior.precision = 1;
    prepare(&few, 0);
    few.model.priors = &prior, few.model.prior_count = 1, few.o.steps = 2;
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(strstr(few.report.plan, "of all rows, since model.priors") != NULL && few.early == 2);
    end(&few);
    prepare(&few, 0);
    few.o.tolerance = 1e-9, few.o.steps = 2;
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(strstr(few.report.plan, "of all rows, since fit.tolerance") != NULL);
    end(&few);
    prepare(&few, 0);
    few.o.warm_start = few.o.fixed_probes = 1, few.o.steps = 2;
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(strstr(few.report.plan, "of all rows, since fit.warm_start") != NULL);
    end(&few);
    prepare(&few, 0);
    few.o.optimizer = PU_SGD, few.o.steps = 2;
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(strstr(few.report.plan, "rows") == NULL);
    end(&few);
    PASS();
}

/* ---- what goes wrong ---- */

/* Steps so long that psi would overflow are halved, and theta stays finite. */
TEST steps_too_far_are_halved(void)
{
    for (int dense = 0; dense < 2; dense++) {
        run *r = dense ? &all : &few;
        prepare(r, dense);
        r->o.rate = 300, r->o.steps = 12;
        r->o.gradient.kind = PU_EXACT, r->o.gradient.engine = PU_ENGINE_AUTO, r->o.gradient.samples = r->o.gradient.solve.iterations = 0;
        (void)go(r);
        TC_ASSERT(r->report.rejected > 0);
        for (int i = 0; i < PARAMS; i++) TC_ASSERT(fabs((double)r->theta[i]) < 1e5);
    }
    end(&few), end(&all);
    PASS();
}

/* A number that is none is told by its row, and theta is as it was. */
TEST bad_data_are_told_by_their_row(void)
{
    pu_real bad[N * MOST];
    for (int dense = 0; dense < 2; dense++) {
        prepare(&few, dense);
        memcpy(bad, y, sizeof bad);
        bad[start[23] + 2] = (pu_real)NAN;
        few.data.y = bad;
        TC_STATUS(go(&few), PU_E_NONFINITE);
        TC_ASSERT(few.report.where.index == item[start[23] + 2] && few.report.where.datum == 23);
        TC_ASSERT(memcmp(few.theta, first, sizeof first) == 0);
        end(&few);
    }
    PASS();
}

/* The block of pu_fit_bytes is enough, a smaller one is refused. */
TEST memory_is_what_is_told(void)
{
    size_t bytes;
    pu_report report;
    prepare(&few, 0), prepare(&all, 0);
    few.o.accumulate = all.o.accumulate = 3, few.o.steps = all.o.steps = 40;
    TC_STATUS(go(&all), PU_OK);
    TC_STATUS(pu_fit_bytes(&few.model, &few.data, &few.o, &bytes, &report), PU_OK);
    pu_workspace_block(&few.ws, tc_bytes(bytes), bytes);
    TC_STATUS(go(&few), PU_OK);
    TC_ASSERT(memcmp(few.theta, all.theta, sizeof few.theta) == 0);
    pu_workspace_block(&few.ws, tc_bytes(2000), 2000);
    memcpy(few.theta, first, sizeof first);
    TC_STATUS(go(&few), PU_E_BLOCK);
    TC_ASSERT(memcmp(few.theta, first, sizeof first) == 0);
    end(&few), end(&all);
    PASS();
}

/* Batches of one datum, of all, more batches than data, a batch without an entry. */
TEST sizes_at_the_ends(void)
{
    static const pu_int sizes[][3] = {{1, 1, 40}, {N, 1, 5}, {N, 3, 5}, {1, 130, 3}};
    for (int s = 0; s < 4; s++) {
        tc_set_case("batch %d, accumulate %d", (int)sizes[s][0], (int)sizes[s][1]);
        for (int dense = 0; dense < 2; dense++) {
            run *r = dense ? &all : &few;
            prepare(r, dense);
            r->o.batch = sizes[s][0], r->o.accumulate = sizes[s][1], r->o.steps = sizes[s][2];
            TC_STATUS(go(r), PU_OK);
        }
        TC_CLOSE(apart(few.theta, all.theta), 0, 50 * STEPS * 0.02 * PU_TEST_EPS * 16);
        end(&few), end(&all);
    }
    /* one datum with one entry of one row */
    for (int dense = 0; dense < 2; dense++) {
        run *r = dense ? &all : &few;
        prepare(r, dense);
        pu_model_free(&r->model);
        memset(&r->model, 0, sizeof r->model);
        TC_STATUS(pu_model_factors(&r->model, 1, 1, NULL), PU_OK);
        memset(r->theta, 0, sizeof r->theta);
        r->theta[0] = 1;
        r->data = pu_data_lists(1, 1, start, item, y);
        r->o.batch = 1, r->o.steps = 20;
        TC_STATUS(go(r), PU_OK);
    }
    TC_CLOSE(apart(few.theta, all.theta), 0, 50 * STEPS * 0.02 * PU_TEST_EPS * 16);
    end(&few), end(&all);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    snprintf(file, sizeof file, "build/test_rows.%ld", (long)getpid());
    make_data();
    RUN_TEST(touched_rows_move_as_all_do);
    RUN_TEST(rows_that_wait_for_long);
    RUN_TEST(looking_leaves_no_trace);
    RUN_TEST(a_look_shows_all_rows);
    RUN_TEST(checkpoints_leave_no_trace);
    RUN_TEST(validation_sees_all_rows);
    RUN_TEST(the_plan_tells_why_all_rows_move);
    RUN_TEST(steps_too_far_are_halved);
    RUN_TEST(bad_data_are_told_by_their_row);
    RUN_TEST(memory_is_what_is_told);
    RUN_TEST(sizes_at_the_ends);
    PU_TEST_MAIN_END();
}

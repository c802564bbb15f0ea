/* demo.c - the paper's three experiments, small and on built-in data, and what gradients cost: a page in half a minute.

   cc -O3 -march=native -fopenmp -I. examples/demo.c -o demo -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/demo.c -o demo -lcublas -lcufft -lcurand       (for --device cuda)
   ./demo --out build/demo

   Noisy autoregression, compressed sensing, ratings: each is fitted by probabilistic unrolling (PU: K probes, I solver steps)
   and by what there is to compare it with. Prints a table and leaves a page with pictures, report.html. Plain ./build.sh builds
   and runs this program; the same on your own data: noisy_ar, compressed_sensing, ratings.
*/
#define _POSIX_C_SOURCE 200809L /* mkdir, and the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include <sys/stat.h>

#include "common/program.h"
#include "common/fit.h"
#include "common/problem.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/picture.h"
#include "common/strokes.h"
#include "common/sensing.h"
#include "common/movielens.h"
#include "common/ratings.h"
#include "common/convergence.h"

static fit_flags flags; /* --seed --threads --device --quiet --json; the rest of it stays as fit_flags_default has it */

/* Time on the wall, and of the processor (all threads together), which is what compares on a machine with other work, but does
   not see what a device does. */
typedef struct {
    double wall, cpu, told; /* told: the one of the two that tables have */
} spent;

static const char *told_name(void) { return device_choice ? "on the wall" : "of the processor"; }

static spent now_spent(void)
{
    spent s;
    s.wall = seconds(), s.cpu = (double)clock() / CLOCKS_PER_SEC, s.told = device_choice ? s.wall : s.cpu;
    return s;
}

static spent since(spent start)
{
    spent s = now_spent();
    s.wall -= start.wall, s.cpu -= start.cpu, s.told -= start.told;
    return s;
}

/* ---- the table that everything ends in ------------------------------------------------------------------ */

enum { EXPERIMENTS = 3, ROWS = 12 };

static const char *const experiment_name[EXPERIMENTS] = {"noisy autoregression", "compressed sensing", "ratings"};
static const char *const experiment_error[EXPERIMENTS] = {"relative error of phi", "relative error of the images",
                                                          "test error in stars"};

typedef struct {
    int experiment;
    const char *method;
    double error;
    const char *format; /* of the error */
    int fitted;
    spent fit; /* its time, where something was fitted */
} row;

static row rows[ROWS];
static int row_count;

static void row_texts(const row *r, char error[32], char time[32])
{
    snprintf(error, 32, r->format, r->error);
    snprintf(time, 32, r->fitted ? "%.2f s" : "-", r->fit.told);
}

/* fit: its time; NULL when nothing was fitted */
static void add_row(int experiment, const char *method, double error, const char *format, const spent *fit)
{
    row *r = &rows[row_count++];
    char text[32], time[32];
    r->experiment = experiment, r->method = method, r->error = error, r->format = format, r->fitted = fit != NULL;
    if (fit) r->fit = *fit;
    row_texts(r, text, time);
    if (!flags.quiet) printf("   %-44s %8s %8s\n", method, text, time), fflush(stdout);
}

static void heading(const char *text)
{
    if (!flags.quiet) printf("%s\n", text), fflush(stdout);
}

/* Ends an experiment: how long it took in all. */
static spent took(spent start)
{
    const spent s = since(start);
    if (!flags.quiet) printf("   %.1f s in all, %.1f s of processor time\n\n", s.wall, s.cpu), fflush(stdout);
    return s;
}

/* ---- 1. noisy autoregression -------------------------------------------------------------------------------- */

enum { AR_P = 5, AR_THETA = AR_P + 2, AR_COUNT = 5, AR_LENGTH = 400, AR_AHEAD = 24, AR_STEPS = 200, AR_METHODS = 3 };

typedef struct {
    series s;
    double error[AR_METHODS][3], nll[AR_METHODS]; /* of phi, kappa, lambda; exact */
    double nll_truth;
    double path[AR_STEPS + 1][AR_THETA];             /* of PU: the parameters after each step, */
    double probes[AR_STEPS], se[AR_STEPS];           /* the likelihood as the probes see it */
    double step[AR_STEPS], exact[AR_STEPS];          /* and as it is */
    spent all;
} ar_record;

static int ar_watch(const pu_fit_report *now, void *user)
{
    ar_record *r = (ar_record *)user;
    int i;
    r->probes[now->step - 1] = now->objective, r->se[now->step - 1] = now->objective_se; /* at the point before the step */
    for (i = 0; i < AR_THETA; i++) r->path[now->step][i] = (double)now->theta[i];
    return fit_progress(now, &flags);
}

/* Experiments return 1, or 0 when Ctrl-C came in between: what was begun then does not count. */
static int ar_run(ar_record *r)
{
    static const char *const method[AR_METHODS] = {"PU (K = 10, I = 30), 200 steps of Adam",
                                                   "exact gradient (banded), 200 steps of Adam",
                                                   "default: exact, L-BFGS from moments"};
    const uint64_t seed = (uint64_t)flags.seed;
    const spent start = now_spent();
    pu_real theta[AR_THETA], x[AR_THETA], truth[AR_THETA];
    pu_model model;
    pu_data data;
    pu_options exact;
    pu_report told;
    int i, j;
    heading("1. Noisy autoregression: 5 series of 400 entries, order 5, a tenth of the entries hidden");
    memset(&model, 0, sizeof model), memset(&exact, 0, sizeof exact);
    exact.kind = PU_EXACT, exact.engine = PU_BANDED, exact.threads = (int)flags.threads;
    series_default(&r->s);
    r->s.forecast = AR_AHEAD, r->s.hide = 0.1;
    need(pu_model_noisy_ar(&model, AR_LENGTH + AR_AHEAD, AR_P, &told), &told);
    ar_truth(AR_P, seed, theta);
    series_simulate(&r->s, &model, theta, AR_COUNT, 0, seed);
    ar_natural(&model, theta, truth);
    series_hide(&r->s, seed);
    data = pu_data_nan(r->s.count, r->s.length, r->s.y);
    need(pu_model_nll(&model, theta, &data, &exact, NULL, &r->nll_truth, NULL, &told), &told);

    for (i = 0; i < AR_METHODS; i++) {
        pu_fit_options options;
        pu_fit_report report;
        spent began, fit;
        fit_flags_options(&flags, &options);
        options.gradient = exact, options.gradient.seed = seed; /* on the host */
        memset(theta, 0, sizeof theta); /* gamma = 0, kappa = lambda = 1 */
        if (i == 0) {
            options.gradient.kind = PU_NETWORK, options.gradient.engine = PU_ITERATIVE, options.gradient.backend = device_backend();
            options.steps = AR_STEPS, options.progress = ar_watch, options.user = r;
        } else if (i == 2) {
            options.optimizer = PU_LBFGS, options.rate = 0;
            need(pu_model_start(&model, &data, seed, theta, &told), &told);
        }
        began = now_spent();
        need_fit(pu_fit(&model, &data, &options, NULL, theta, &report), &report);
        if (fit_interrupted) break;
        fit = since(began);
        need(pu_model_nll(&model, theta, &data, &exact, NULL, &r->nll[i], NULL, &told), &told);
        ar_natural(&model, theta, x);
        ar_errors(AR_P, x, truth, r->error[i]);
        add_row(0, method[i], r->error[i][0], "%.1f %%", &fit);
    }
    if (!fit_interrupted) series_look(&r->s, &model, theta, &exact); /* at the last, the best of them */
    for (i = 0; i < AR_STEPS && !fit_interrupted; i++) {
        for (j = 0; j < AR_THETA; j++) theta[j] = (pu_real)r->path[i][j];
        need(pu_model_nll(&model, theta, &data, &exact, NULL, &r->exact[i], NULL, &told), &told);
        r->step[i] = i;
    }
    pu_model_free(&model);
    r->all = took(start);
    return !fit_interrupted;
}

/* The likelihood on the way of PU, from probes and exactly. */
static void ar_draw(const ar_record *r, FILE *file)
{
    const double best = r->nll[AR_METHODS - 1], ends[2] = {0, AR_STEPS}, bottom[2] = {best, best};
    double low[AR_STEPS], high[AR_STEPS];
    svg_plot p;
    int i, from = 0;
    for (i = 0; i < AR_STEPS; i++) low[i] = r->probes[i] - 2 * r->se[i], high[i] = r->probes[i] + 2 * r->se[i];
    memset(&p, 0, sizeof p);
    p.file = file, p.title = "negative log-likelihood during the fit by PU", p.top = 72;
    p.x_label = "steps of Adam", p.y_label = "negative log-likelihood";
    p.x1 = AR_STEPS, p.y0 = best - 6, p.y1 = best + 24;
    for (i = 0; i < AR_STEPS / 2; i++)
        if (!svg_inside(&p, r->exact[i])) from = i + 1; /* the start is far above the frame */
    svg_begin(&p);
    svg_key(&p, p.left, 16, "c2", 0, "PU sees, from probes, &#177; 2 standard errors");
    svg_key(&p, p.left, 38, "c1", 1, "exactly, at the same parameters");
    svg_key(&p, p.left, 60, "note", 1, "the best there is, found by L-BFGS");
    svg_line(&p, 2, ends, bottom, "note", 1, 0);
    svg_band(&p, AR_STEPS - from, r->step + from, low + from, high + from, "c2");
    svg_line(&p, AR_STEPS - from, r->step + from, r->probes + from, "c2", 0, 0);
    svg_line(&p, AR_STEPS - from, r->step + from, r->exact + from, "c1", 1, 0);
    svg_end(&p);
}

/* ---- 2. compressed sensing ---------------------------------------------------------------------------------- */

enum { CS_N = 10, CS_SIZE = 32, CS_STEPS = 40, CS_SHOWN = 3, CS_METHODS = 3, CS_PERCENT = 20 };

typedef struct {
    scene s;
    pu_real *mean, *variance; /* N x D, of the better of the first two */
    double ink;               /* share of pixels that are not paper */
    double error[CS_METHODS + 1], noise[CS_METHODS];
    spent all;
} cs_record;

static int cs_run(cs_record *r)
{
    static const char *const method[CS_METHODS] = {"PU, network gradient, fresh probes",
                                                   "PU, output gradient, warm starts",
                                                   "exact gradient (dual)"};
    const uint64_t seed = (uint64_t)flags.seed;
    const spent start = now_spent();
    pu_real *theta, *mean, *variance;
    pu_model model;
    pu_op map;
    pu_data data;
    pu_report told;
    pu_int i;
    int k;
    heading("2. Compressed sensing: 10 images of 32 x 32, a fifth of their frequencies, 40 steps of Adam, K = 10, I = 25");
    memset(&model, 0, sizeof model);
    r->s.N = CS_N;
    scene_draw(&r->s, 3, CS_SIZE, seed);
    scene_measure(&r->s, CS_PERCENT / 100.0, 0.01, seed);
    for (i = 0; i < CS_N * r->s.D; i++) r->ink += (r->s.truth[i] > 0) / (double)(CS_N * r->s.D);
    data = pu_data_masked(CS_N, 2 * r->s.D, r->s.y, r->s.mask);
    map = pu_op_fourier(&r->s.plan);
    need(pu_model_sparse(&model, &map, &told), &told);
    theta = need_reals(model.params), mean = need_reals(2 * CS_N * r->s.D), variance = mean + CS_N * r->s.D;
    r->mean = need_reals(2 * CS_N * r->s.D), r->variance = r->mean + CS_N * r->s.D;
    r->error[CS_METHODS] = scene_error(&r->s, r->s.filled);
    add_row(1, "zero-filled inverse transform", r->error[CS_METHODS], "%.1f %%", NULL);

    for (k = 0; k < CS_METHODS; k++) {
        pu_fit_options options;
        pu_fit_report report;
        spent began, fit;
        fit_flags_options(&flags, &options);
        options.steps = CS_STEPS, options.rate = 1, options.schedule = PU_RATE_COSINE;
        options.gradient.engine = PU_ITERATIVE, options.gradient.kind = k == 0 ? PU_NETWORK : PU_OUTPUT;
        options.gradient.solve.solver = PU_PCG, options.gradient.solve.iterations = 25, options.gradient.rao_blackwell = 1;
        options.fixed_probes = options.warm_start = k == 1;
        if (k == 2) options.gradient.engine = PU_DUAL, options.gradient.kind = PU_EXACT, options.gradient.rao_blackwell = 0;
        pu_normals(seed, 0, DRAW_START, 0, STREAM_SCENE, 0, r->s.D, theta);
        theta[r->s.D] = 0;
        began = now_spent();
        need_fit(pu_fit(&model, &data, &options, NULL, theta, &report), &report);
        if (fit_interrupted) break;
        fit = since(began);
        scene_posterior(&model, theta, &data, &options.gradient, NULL, mean, variance);
        r->error[k] = scene_error(&r->s, mean), r->noise[k] = exp(-0.5 * (double)theta[r->s.D]);
        if (k == 0 || (k == 1 && r->error[1] < r->error[0]))
            memcpy(r->mean, mean, (size_t)(2 * CS_N * r->s.D) * sizeof *mean); /* with the variance */
        add_row(1, method[k], r->error[k], "%.1f %%", &fit);
    }
    free(theta), free(mean);
    pu_model_free(&model);
    r->all = took(start);
    return !fit_interrupted;
}

/* ---- 3. ratings ----------------------------------------------------------------------------------------------- */

enum { RATE_USERS = 300, RATE_ITEMS = 100, RATE_D = 4, RATE_STEPS = 60, RATE_EVERY = 5, RATE_METHODS = 2 };
enum { RATE_POINTS = RATE_STEPS / RATE_EVERY };
#define RATE_NOISE 0.7

typedef struct {
    ratings r;
    pu_options posterior;
    pu_workspace ws;
    int now, points[RATE_METHODS]; /* validations on the way: which method, how many */
    double step[RATE_POINTS + 1], valid[RATE_METHODS][RATE_POINTS + 1];
    double valid_mean, valid_truth;
    char plan[600]; /* of the automatic engine */
    spent all;
} rate_record;

/* User u has factors z_u ~ N(0, I), item m has loadings and a mean: the truth. What the user says is in half stars, and only
   about a quarter of the items has been seen. */
static void rate_make(ratings *r, uint64_t seed, pu_real *Phi, pu_real *eta)
{
    pu_int u, m, j;
    normals(seed, 0, 10, RATE_ITEMS * RATE_D, Phi), normals(seed, 0, 11, RATE_ITEMS, eta);
    for (m = 0; m < RATE_ITEMS * RATE_D; m++) Phi[m] *= PU_R(0.4);
    for (m = 0; m < RATE_ITEMS; m++) eta[m] = PU_R(3.4) + PU_R(0.5) * eta[m];
    for (u = 0; u < RATE_USERS; u++) {
        pu_real z[RATE_D], wild[2 * RATE_ITEMS];
        normals(seed, u, 12, RATE_D, z), normals(seed, u, 13, 2 * RATE_ITEMS, wild);
        for (m = 0; m < RATE_ITEMS; m++) {
            double y = (double)eta[m] + RATE_NOISE * (double)wild[m];
            if (wild[RATE_ITEMS + m] < PU_R(0.6745)) continue; /* P(normal > 0.6745) = 1/4 */
            for (j = 0; j < RATE_D; j++) y += (double)Phi[m * RATE_D + j] * (double)z[j];
            y = floor(2 * y + 0.5) / 2;
            if (!movielens_add(&r->all, u, m, (float)(y < 0.5 ? 0.5 : y > 5 ? 5 : y))) fail(1, "memory", "there is not enough");
        }
    }
    if (!movielens_index(&r->all)) fail(1, "ratings", r->all.error);
    for (m = 0; m < r->all.items; m++) { /* items that nobody has rated drop out */
        memmove(Phi + m * RATE_D, Phi + r->all.item_id[m] * RATE_D, RATE_D * sizeof *Phi);
        eta[m] = eta[r->all.item_id[m]];
    }
}

static double rate_validate(pu_model *model, const pu_real *theta, void *user)
{
    rate_record *r = (rate_record *)user;
    const int i = r->points[r->now]++;
    pu_report told;
    need(pu_model_set(model, theta, &told), &told);
    r->step[i] = (i + 1) * RATE_EVERY;
    return r->valid[r->now][i] = ratings_rmse(&r->r, &model->lgm, &r->r.valid, &r->posterior, &r->ws);
}

static int rate_watch(const pu_fit_report *now, void *user)
{
    (void)user;
    return fit_progress(now, &flags);
}

static int rate_run(rate_record *r)
{
    static const char *const method[RATE_METHODS] = {"4 factors by PU (K = 10, I = 4)", "4 factors, automatic engine"};
    static pu_real Phi[RATE_ITEMS * RATE_D], eta[RATE_ITEMS], psi[RATE_ITEMS], mean[RATE_ITEMS], none[RATE_ITEMS * RATE_D];
    const uint64_t seed = (uint64_t)flags.seed;
    const spent start = now_spent();
    pu_op prior = pu_op_identity(RATE_D), map;
    pu_lgm known = {NULL, NULL, NULL, NULL, NULL, 0};
    pu_model model;
    pu_fit_options options;
    pu_real *theta, count[RATE_ITEMS];
    pu_report told;
    pu_int i;
    memset(&model, 0, sizeof model), memset(count, 0, sizeof count);
    heading("3. Ratings: 300 users, 100 items, a quarter of the ratings known; made from 4 factors, noise and half stars");
    rate_make(&r->r, seed, Phi, eta);
    ratings_split(&r->r, flags.seed, 1);
    fit_flags_options(&flags, &options);
    r->posterior = ratings_posterior(&options.gradient);

    /* below and above what a fit can do: the mean of each item, and the parameters that made the data */
    for (i = 0; i < r->r.train.start[r->r.seen]; i++)
        mean[r->r.train.item[i]] += r->r.train.y[i], count[r->r.train.item[i]] += 1;
    for (i = 0; i < r->r.items; i++) mean[i] = count[i] > 0 ? mean[i] / count[i] : PU_R(3);
    for (i = 0; i < r->r.items; i++) psi[i] = (pu_real)(1 / (RATE_NOISE * RATE_NOISE + 0.25 / 12)); /* with the rounding */
    map = pu_op_dense(r->r.items, RATE_D, none);
    known.Gamma = &prior, known.Phi = &map, known.nu = NULL, known.eta = mean, known.psi = psi;
    r->valid_mean = ratings_rmse(&r->r, &known, &r->r.valid, &r->posterior, &r->ws);
    add_row(2, "mean of each item", ratings_rmse(&r->r, &known, &r->r.test, &r->posterior, &r->ws), "%.3f", NULL);
    map = pu_op_dense(r->r.items, RATE_D, Phi), known.eta = eta;
    r->valid_truth = ratings_rmse(&r->r, &known, &r->r.valid, &r->posterior, &r->ws);

    need(pu_model_factors(&model, r->r.items, RATE_D, &told), &told);
    theta = need_reals(model.params);
    for (r->now = 0; r->now < RATE_METHODS; r->now++) {
        pu_fit_report report;
        spent began, fit;
        need(pu_model_start(&model, &r->r.data, seed, theta, &told), &told);
        options.steps = RATE_STEPS, options.rate = 0.05, options.schedule = PU_RATE_COSINE;
        options.gradient.engine = r->now == 0 ? PU_ITERATIVE : PU_ENGINE_AUTO, options.gradient.solve.iterations = RATE_D;
        options.validate = rate_validate, options.validate_every = RATE_EVERY, options.user = r, options.progress = rate_watch;
        began = now_spent();
        need_fit(pu_fit(&model, &r->r.data, &options, NULL, theta, &report), &report);
        if (fit_interrupted) break;
        fit = since(began);
        need(pu_model_set(&model, theta, &told), &told);
        add_row(2, method[r->now], ratings_rmse(&r->r, &model.lgm, &r->r.test, &r->posterior, &r->ws), "%.3f", &fit);
        memcpy(r->plan, report.last.plan, sizeof r->plan);
    }
    if (!fit_interrupted)
        add_row(2, "the parameters that made the data", ratings_rmse(&r->r, &known, &r->r.test, &r->posterior, &r->ws), "%.3f",
                NULL);
    free(theta);
    pu_model_free(&model);
    pu_workspace_free(&r->ws);
    r->all = took(start);
    return !fit_interrupted;
}

static void rate_draw(const rate_record *r, FILE *file)
{
    const double ends[2] = {0, RATE_STEPS}, mean[2] = {r->valid_mean, r->valid_mean};
    const double truth[2] = {r->valid_truth, r->valid_truth}, room = 0.05 * (r->valid_mean - r->valid_truth);
    svg_plot p;
    memset(&p, 0, sizeof p);
    p.file = file, p.title = "error of the validation ratings during the fit", p.top = 50;
    p.x_label = "steps of Adam", p.y_label = "validation error (stars)";
    p.x1 = RATE_STEPS, p.y0 = r->valid_truth - room, p.y1 = r->valid_mean + room;
    svg_begin(&p);
    svg_key_dot(&p, p.left + 13, 16, "c2", "PU");
    svg_key(&p, p.left + 184, 16, "c1", 0, "automatic engine");
    svg_key(&p, p.left, 38, "c0", 1, "mean of each item");
    svg_key(&p, p.left + 184, 38, "c3", 1, "true parameters");
    svg_line(&p, 2, ends, mean, "c0", 1, 0);
    svg_line(&p, 2, ends, truth, "c3", 1, 0);
    svg_line(&p, r->points[1], r->step, r->valid[1], "c1", 0, 0);
    svg_dots(&p, r->points[0], r->step, r->valid[0], "c2");
    svg_end(&p);
}

/* ---- 4. cost against the exact gradient --------------------------------------------------------------- */

enum { SIZES = 4 };

typedef struct {
    int D[SIZES];
    double exact[SIZES], network[SIZES]; /* seconds */
    spent all;
} cost_record;

/* Best of two, and of more while that takes less than 0.1 s. */
static double best_time(problem *p, const pu_options *options, pu_real *grad)
{
    double best = 0, sum = 0;
    pu_report report;
    int i;
    for (i = 0; (i < 2 || sum < 0.1) && !fit_interrupted; i++) {
        const spent start = now_spent();
        double t;
        problem_gradient(p, options, grad, &report);
        t = since(start).told;
        best = i == 0 || t < best ? t : best;
        sum += t;
    }
    return best;
}

static int cost_run(cost_record *c, convergence *e)
{
    const spent start = now_spent();
    problem p;
    int i;
    heading("4. Gradients: error after a number of solver steps (D = 200), time against the exact one");
    problem_open(&p, 200, 200, 1, (uint64_t)flags.seed);
    e->threads = (int)flags.threads, e->backend = device_backend();
    convergence_measure(e, &p, 10, flags.seed);
    problem_close(&p);
    if (!flags.quiet) convergence_print(e, 3), printf("\n      D       exact     network   exact : network\n");
    for (i = 0; i < SIZES && !fit_interrupted; i++) {
        pu_options options;
        pu_real *grad;
        memset(&options, 0, sizeof options);
        options.threads = (int)flags.threads;
        c->D[i] = 100 << i;
        problem_open(&p, c->D[i], c->D[i] / 2, 2, (uint64_t)flags.seed);
        grad = need_reals(p.params);
        options.kind = PU_EXACT;
        c->exact[i] = best_time(&p, &options, grad);
        options.kind = PU_NETWORK, options.backend = device_backend(); /* K = 10, I = 30 of CG are the defaults */
        c->network[i] = best_time(&p, &options, grad);
        if (!flags.quiet && !fit_interrupted)
            printf("   %4d   %6.1f ms   %6.1f ms   %.2f\n", c->D[i], 1e3 * c->exact[i], 1e3 * c->network[i],
                   c->exact[i] / c->network[i]);
        free(grad);
        problem_close(&p);
    }
    c->all = took(start);
    return !fit_interrupted;
}

/* ---- the report --------------------------------------------------------------------------------------- */

/* The directory and its parents, as far as they are missing. */
static void make_directory(const char *path)
{
    char part[1024];
    const size_t length = strlen(path);
    size_t i;
    if (length >= sizeof part) fail(1, path, "the path is too long");
    for (i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) && errno != EEXIST) fail_errno("cannot create the directory", part);
    }
}

static const char *const page_head =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>pu: demo report</title>\n";

/* Pictures are ink on white paper; on a dark page they are turned over, and the paper is the page. */
static const char *const page_style =
    "body{max-width:40rem;margin:0 auto;padding:1rem;font:16px/1.5 system-ui,sans-serif;\n"
    "color:var(--ink);background:var(--paper)}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}small,.soft{color:var(--soft)}\n"
    ".plot{display:block;width:100%;max-width:30rem;margin:1rem auto}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;vertical-align:bottom;padding:.3rem;border-bottom:1px solid var(--rule)}\n"
    "th:first-child,td:first-child{text-align:left}td+td{white-space:nowrap}\n"
    "tr.group th{padding-top:.9rem}tr.group th+th{font-weight:normal;color:var(--soft)}\n"
    ".sheet{max-width:26rem;margin:1rem auto}.sheet img{display:block;width:100%;height:auto;image-rendering:pixelated}\n"
    ".sheet div{display:flex;text-align:center;font-size:.85rem}.sheet span{flex:1}\n"
    "@media (prefers-color-scheme:dark){.sheet img{filter:invert(1);mix-blend-mode:screen}}\n"
    "@media (max-width:30rem){table{font-size:.9rem}}\n";

static void page_table(FILE *f)
{
    char error[32], time[32];
    int i;
    fprintf(f, "<table>\n");
    for (i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        if (i == 0 || r->experiment != rows[i - 1].experiment)
            fprintf(f, "<tr class=\"group\"><th>%s<th>error<th>time\n", experiment_name[r->experiment]);
        row_texts(r, error, time);
        fprintf(f, "<tr><td>%s<td>%s<td>%s\n", r->method, error, time);
    }
    fprintf(f, "</table>\n<p class=\"soft\"><small>Errors: ");
    for (i = 0; i < EXPERIMENTS; i++)
        fprintf(f, "%s%s (%s)", i ? ", " : "", experiment_error[i], experiment_name[i]);
    fprintf(f, ". Times: %s, for the fit.</small></p>\n", told_name());
}

/* Ends a section. */
static void page_note(FILE *f, const char *note, spent all)
{
    fprintf(f, "<p class=\"soft\"><small>%s %.1f&nbsp;s in all, %.1f&nbsp;s of processor time.</small></p>\n", note,
            all.wall, all.cpu);
}

static void page_ar(FILE *f, const ar_record *r)
{
    int i;
    fprintf(f, "<h2>1. Noisy autoregression</h2>\n"
               "<p>Five series of 400 entries. Each value depends on the five before it (coefficients phi, noise\n"
               "kappa) and is seen through further noise (lambda), except for a tenth that is hidden. From what is\n"
               "left the fit finds these seven numbers; the hidden values and the future come with a margin.</p>\n");
    series_plot(&r->s, f, 0, "a series, its posterior band and forecast");
    fprintf(f, "<p>Of the %ld hidden values %.1f&nbsp;%% are within their 95&nbsp;%% interval. Their typical error is\n"
               "%.3g; that of a straight line between the neighbours is %.3g.</p>\n",
            r->s.checked, 100 * r->s.coverage, r->s.error, r->s.error_linear);
    ar_draw(r, f);
    fprintf(f, "<p>PU never forms the exact likelihood: it goes by what random probes tell it. It ends %.2f above the\n"
               "best there is; the exact gradient ends %.2f above after as many steps of the same optimiser. The\n"
               "parameters that made the data are %.2f above, so that differences of that size mean little. The first\n"
               "steps, far above, are left out.</p>\n"
               "<table>\n<tr><th>method<th>phi<th>kappa<th>lambda<th>NLL\n",
            r->nll[0] - r->nll[2], r->nll[1] - r->nll[2], r->nll_truth - r->nll[2]);
    for (i = 0; i < AR_METHODS; i++)
        fprintf(f, "<tr><td>%s<td>%.1f&nbsp;%%<td>%.1f&nbsp;%%<td>%.1f&nbsp;%%<td>%.2f\n",
                i == 0 ? "PU, Adam" : i == 1 ? "exact, Adam" : "exact, L-BFGS", r->error[i][0], r->error[i][1], r->error[i][2],
                r->nll[i]);
    fprintf(f, "<tr><td>the truth<td><td><td><td>%.2f\n</table>\n", r->nll_truth);
    page_note(f, "Relative errors; exact negative log-likelihood (NLL) per series. For series the exact gradient is cheap: use "
                 "it there.", r->all);
}

static void page_cs(FILE *f, const cs_record *r)
{
    picture p = scene_sheet(&r->s, CS_SHOWN, r->mean, r->variance);
    fprintf(f, "<h2>2. Compressed sensing</h2>\n"
               "<p>Ten drawings of a digit, of each a random fifth of the Fourier transform, with noise. The model\n"
               "knows no more than that many pixels are paper (here %.0f&nbsp;%%), much the same ones in all images.\n"
               "Which ones, and how strong the noise is, it has to find: %ld parameters.</p>\n",
            100 * (1 - r->ink), (long)r->s.D + 1);
    fprintf(f, "<div class=\"sheet\"><div><span>truth</span><span>zero-filled</span><span>PU</span><span>its doubt</span>"
               "</div>\n");
    picture_embed(&p, f, "three images: truth, zero-filled inverse, reconstruction, posterior standard deviation");
    picture_free(&p);
    fprintf(f, "</div>\n<p>The zero-filled inverse transform is off by %.0f&nbsp;%%, PU by %.1f&nbsp;%% with the network\n"
               "gradient, by %.1f&nbsp;%% with the output gradient and warm starts, and the exact gradient by\n"
               "%.1f&nbsp;%%. The true noise is 0.010; found: %.4f, %.4f and %.4f. The last column is the standard deviation of\n"
               "each pixel, the largest being darkest\n"
               "(brightest on a dark page).</p>\n",
            r->error[CS_METHODS], r->error[0], r->error[1], r->error[2], r->noise[0], r->noise[1], r->noise[2]);
    page_note(f, "The exact gradient costs the cube of the number of measurements, the others do not.", r->all);
}

static void page_rate(FILE *f, const rate_record *r)
{
    fprintf(f, "<h2>3. Ratings</h2>\n"
               "<p>%ld ratings that %ld users gave to %ld items, made up: four hidden tastes per user, noise, half\n"
               "stars. A tenth of them is kept for the test and a tenth of the rest for validation, by which the\n"
               "best step is chosen.</p>\n",
            r->r.all.count, (long)r->r.users, (long)r->r.items);
    rate_draw(r, f);
    fprintf(f, "<p>Two lines frame what can be done: the mean of each item knows nothing about the user; the\n"
               "parameters that made the data are what no fit can know. Four factors are few, so that the exact\n"
               "gradient is cheap. The automatic engine says: <q>%s</q>.</p>\n",
            r->plan);
    page_note(f, "", r->all);
}

static void page_cost(FILE *f, const cost_record *c, const convergence *e)
{
    int i;
    fprintf(f, "<h2>4. Why go back through the solver</h2>\n"
               "<p>D&nbsp;=&nbsp;200 unknowns. Error of the gradient after a number of solver steps, against the same\n"
               "probes solved to the end. With every step the network gradient, taken through the solver, gains\n"
               "nearly twice the digits of the gradient formed from the solver's output.</p>\n");
    convergence_draw(e, f, 0);
    fprintf(f, "<p>Its price against the exact gradient: two data, a dense map to D/2 entries, 10 probes, 30 steps of\n"
               "CG. The exact gradient grows as D<sup>3</sup>, the network gradient as D<sup>2</sup>; where the ratio\n"
               "is below 1, exact is the better choice.</p>\n"
               "<table>\n<tr><th>D<th>exact<th>network<th>exact : network\n");
    for (i = 0; i < SIZES; i++)
        fprintf(f, "<tr><td>%d<td>%.1f ms<td>%.1f ms<td>%.2f\n", c->D[i], 1e3 * c->exact[i], 1e3 * c->network[i],
                c->exact[i] / c->network[i]);
    fprintf(f, "</table>\n");
    page_note(f, device_choice ? "Time on the wall, best of two runs or more." : "Processor time, best of two runs or more.", c->all);
}

static void json_write(json *j, double all)
{
    int i;
    json_number(j, "seed", (double)flags.seed);
    json_text(j, "device", device_name);
    json_number(j, "threads", (double)flags.threads);
    json_number(j, "seconds", all);
    json_text(j, "stopped", pu_fit_stop_text(fit_interrupted ? PU_FIT_CALLBACK : PU_FIT_STEPS));
    json_key(j, "results");
    for (i = 0; i < row_count && j->file; i++) { /* names without anything to escape */
        const row *r = &rows[i];
        fprintf(j->file, "%s{\"experiment\": \"%s\", \"method\": \"%s\", ", i ? ",\n    " : "[\n    ",
                experiment_name[r->experiment], r->method);
        fprintf(j->file, "\"error\": "), json_value(j, r->error);
        fprintf(j->file, ", \"seconds\": "), json_value(j, r->fitted ? r->fit.wall : (double)NAN);
        fprintf(j->file, ", \"processor_seconds\": "), json_value(j, r->fitted ? r->fit.cpu : (double)NAN);
        fprintf(j->file, "}");
    }
    if (j->file) fprintf(j->file, row_count ? "]" : "[]");
    json_close(j);
}

int main(int argc, char **argv)
{
    static ar_record ar;
    static cs_record cs;
    static rate_record rate;
    static convergence errors;
    static cost_record cost;
    const double start = seconds();
    const char *out = "build/demo";
    option list[6];
    int count = 0, done, i;
    char path[1100], error[32], time[32];
    double all;
    FILE *file;
    json j;
    fit_flags_default(&flags);
    list[count++] = opt_text("out", "directory for report.html", &out);
    list[count++] = opt_number("seed", "of all random numbers", &flags.seed, 0, 1000000000);
    list[count++] = opt_number("threads", "0 = as many as are worth it, at most one per core", &flags.threads, 0, 1024);
    list[count++] = opt_device();
    list[count++] = opt_text("json", "write the results to this file", &flags.json);
    list[count++] = opt_flag("quiet", "no progress, no tables", &flags.quiet);
    options_read(argc, argv, "demo",
                 "Three experiments on built-in data, and what gradients cost; writes a page with pictures.", count, list);
    device_open();
    fit_listen();
    make_directory(out);
    snprintf(path, sizeof path, "%s/report.html", out);
    file = file_open(path); /* better to fail now than after the work */
    j = json_open(flags.json);

    done = ar_run(&ar);
    if (done == 1) done += cs_run(&cs);
    if (done == 2) done += rate_run(&rate);
    if (done == 3) done += cost_run(&cost, &errors);
    all = seconds() - start;
    if (fit_interrupted) fprintf(stderr, "demo: interrupted; what follows is what there is\n");

    fprintf(file, "%s<style>\n%s%s</style>\n", page_head, svg_style, page_style);
    fprintf(file, "<h1>pu: demo report</h1>\n"
                  "<p>Latent Gaussian models fitted without inverting a matrix: a few solver steps for the posterior\n"
                  "mean and for random probes, and the gradient taken through the solver (probabilistic unrolling,\n"
                  "PU). Three experiments on built-in data, beside exact and simple methods where there are any.</p>\n");
    page_table(file);
    if (done > 0) page_ar(file, &ar);
    if (done > 1) page_cs(file, &cs);
    if (done > 2) page_rate(file, &rate);
    if (done > 3) page_cost(file, &cost, &errors);
    if (fit_interrupted) fprintf(file, "<p>Interrupted: the rest is missing.</p>\n");
    fprintf(file, "<p class=\"soft\"><small>pu %s, %s precision, device of PU: %s, seed %ld, %.0f&nbsp;s.</small></p>\n</html>\n", pu_version(),
            sizeof(pu_real) == sizeof(float) ? "single" : "double", device_name, flags.seed, all);
    file_close(file, path);
    json_write(&j, all);

    if (!flags.quiet) {
        printf("%-22s %-44s %8s %8s\n", "experiment", "method", "error", "time");
        for (i = 0; i < row_count; i++) {
            const int first = i == 0 || rows[i].experiment != rows[i - 1].experiment;
            row_texts(&rows[i], error, time);
            printf("%-22s %-44s %8s %8s\n", first ? experiment_name[rows[i].experiment] : "", rows[i].method, error, time);
        }
        printf("\nerrors:");
        for (i = 0; i < EXPERIMENTS; i++) printf("%s %s (%s)", i ? "," : "", experiment_error[i], experiment_name[i]);
        printf("\ntimes: %s, for the fit\ndevice of PU: %s\n%.1f s. Report with pictures: %s\n", told_name(), device_name, all, path);
    }
    series_free(&ar.s), scene_free(&cs.s), free(cs.mean), ratings_free(&rate.r);
    device_close();
    return fit_code();
}

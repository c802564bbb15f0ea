/* demo.c - four experiments, small and on built-in data, and what gradients cost: a page within half a minute.

   cc -O3 -march=native -fopenmp -I. examples/demo.c -o demo -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/demo.c -o demo -lcublas -lcufft -lcurand       (for --device cuda)
   ./demo --out build/demo

   Compressed sensing, a Matern field, ratings, noisy autoregression: each is fitted with probes (PU: K probes, I solver steps;
   the field by probes solved to a tolerance) and exactly. Prints a table and leaves a page with pictures, report.html, whose
   conclusions follow from the numbers of the run. --quick has smaller problems. Plain ./build.sh builds and runs this program;
   the same on your own data: compressed_sensing, field, ratings, noisy_ar. */
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
#include "common/report.h"

static int quick; /* --quick: smaller problems, for a first look or a slow machine */

static int image_side(void) { return quick ? 16 : 32; }
static int field_side(void) { return quick ? 40 : 80; }
static int cost_sizes(void) { return quick ? 4 : 7; }

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

enum { SENSING, FIELD, RATINGS, SERIES, EXPERIMENTS, ROWS = 16 };
enum { SIMPLE, PROBES, EXACT }; /* who made a row: neither of the two, random probes and a solver, exact algebra */

static const char *const experiment_name[EXPERIMENTS] = {"compressed sensing", "Matern field", "ratings", "noisy autoregression"};
static const char *const experiment_place[EXPERIMENTS] = {"compressed sensing", "the Matern field", "ratings", "noisy autoregression"};
static const char *const experiment_error[EXPERIMENTS] = {"relative error of the images", "error of the hidden points",
                                                          "test error in stars", "relative error of phi"};

typedef struct {
    int experiment, made_by;
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
    const double t = r->fit.told;
    snprintf(error, 32, r->format, r->error);
    if (!r->fitted) snprintf(time, 32, "-");
    else if (t < 0.001) snprintf(time, 32, "< 1 ms");
    else if (t < 0.0995) snprintf(time, 32, "%.0f ms", 1e3 * t);
    else snprintf(time, 32, "%.2f s", t);
}

/* fit: its time; NULL when nothing was fitted */
static void add_row(int experiment, int made_by, const char *method, double error, const char *format, const spent *fit)
{
    row *r = &rows[row_count++];
    char text[32], time[32];
    r->experiment = experiment, r->made_by = made_by, r->method = method, r->error = error, r->format = format, r->fitted = fit != NULL;
    if (fit) r->fit = *fit;
    row_texts(r, text, time);
    if (!flags.quiet) printf("   %-44s %8s %8s\n", method, text, time), fflush(stdout);
}

static void heading(const char *text)
{
    if (!flags.quiet) printf("%s\n", text), fflush(stdout);
}

/* The row of an experiment with the least error among those that `made_by` made; NULL without one. */
static const row *best_row(int experiment, int made_by)
{
    const row *best = NULL;
    int i;
    for (i = 0; i < row_count; i++)
        if (rows[i].experiment == experiment && rows[i].made_by == made_by && (!best || rows[i].error < best->error)) best = &rows[i];
    return best;
}

/* Who wins, by the numbers of this run: errors within 5 % of each other count as the same. */
typedef enum { OPEN, PROBES_WIN, EXACT_WINS, TRADE } verdict;

static verdict conclude(int experiment, char *text, size_t size)
{
    const row *probes = best_row(experiment, PROBES), *exact = best_row(experiment, EXACT);
    char error[2][32], time[2][32];
    const char *found;
    double ratio;
    verdict result;
    snprintf(text, size, "There is nothing to compare.");
    if (!probes || !exact) return OPEN;
    row_texts(probes, error[0], time[0]), row_texts(exact, error[1], time[1]);
    ratio = fmax(exact->fit.told, 1e-3) / fmax(probes->fit.told, 1e-3); /* times are not known better than that */
    if (ratio > 1 && probes->error <= 1.05 * exact->error) result = PROBES_WIN, found = "Probes win";
    else if (ratio <= 1 && exact->error <= 1.05 * probes->error) result = EXACT_WINS, found = "Exact wins";
    else result = TRADE, found = ratio > 1 ? "A trade, speed by probes against precision by exact algebra" :
                                            "A trade, speed by exact algebra against precision by probes";
    snprintf(text, size, "%s: error %s by probes in %s, %s exactly in %s, which is %.1f times %s.", found, error[0], time[0], error[1],
             time[1], ratio > 1 ? ratio : 1 / fmax(ratio, 1e-9), ratio > 1 ? "slower" : "faster");
    return result;
}

/* Ends an experiment: how long it took in all. */
static spent took(spent start)
{
    const spent s = since(start);
    if (!flags.quiet) printf("   %.1f s in all, %.1f s of processor time\n\n", s.wall, s.cpu), fflush(stdout);
    return s;
}

/* ---- 4. noisy autoregression -------------------------------------------------------------------------------- */

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
    heading("4. Noisy autoregression: 5 series of 400 entries, order 5, a tenth of the entries hidden");
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
        add_row(SERIES, i == 0 ? PROBES : EXACT, method[i], r->error[i][0], "%.1f %%", &fit);
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

/* ---- 1. compressed sensing ---------------------------------------------------------------------------------- */

enum { CS_N = 10, CS_STEPS = 40, CS_SHOWN = 3, CS_METHODS = 3, CS_PERCENT = 20 };

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
    char text[160];
    pu_int i;
    int k;
    snprintf(text, sizeof text, "1. Compressed sensing: %d images of %d x %d, a fifth of their frequencies, %d steps of Adam, K = 10, I = 25", CS_N,
             image_side(), image_side(), CS_STEPS);
    heading(text);
    memset(&model, 0, sizeof model);
    r->s.N = CS_N;
    scene_draw(&r->s, 3, image_side(), seed);
    scene_measure(&r->s, CS_PERCENT / 100.0, 0.01, seed);
    for (i = 0; i < CS_N * r->s.D; i++) r->ink += (r->s.truth[i] > 0) / (double)(CS_N * r->s.D);
    data = pu_data_masked(CS_N, 2 * r->s.D, r->s.y, r->s.mask);
    map = pu_op_fourier(&r->s.plan);
    need(pu_model_sparse(&model, &map, &told), &told);
    theta = need_reals(model.params), mean = need_reals(2 * CS_N * r->s.D), variance = mean + CS_N * r->s.D;
    r->mean = need_reals(2 * CS_N * r->s.D), r->variance = r->mean + CS_N * r->s.D;
    r->error[CS_METHODS] = scene_error(&r->s, r->s.filled);
    add_row(SENSING, SIMPLE, "zero-filled inverse transform", r->error[CS_METHODS], "%.1f %%", NULL);

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
        add_row(SENSING, k == 2 ? EXACT : PROBES, method[k], r->error[k], "%.1f %%", &fit);
    }
    free(theta), free(mean);
    pu_model_free(&model);
    r->all = took(start);
    return !fit_interrupted;
}

/* ---- 2. a Matern field ------------------------------------------------------------------------------------- */

enum { FIELD_THETA = 4, FIELD_METHODS = 2 };

typedef struct {
    pu_real *y, *z, *mean, *deviation; /* of each point; y is NAN where hidden; the last two by probes */
    double inside;                     /* share of the hidden points within 1.96 of these deviations */
    double range[FIELD_METHODS + 1];   /* found, and the truth */
    spent all;
} field_record;

/* Error of the hidden points, and the share of them within 1.96 deviations. */
static double field_error(const field_record *r, const pu_real *mean, const pu_real *deviation, double *inside)
{
    const int n = field_side() * field_side();
    double sum = 0, in = 0, count = 0;
    int i;
    for (i = 0; i < n; i++) {
        const double off = (double)mean[i] - (double)r->z[i];
        if (r->y[i] == r->y[i]) continue;
        sum += off * off, in += fabs(off) <= 1.96 * (double)deviation[i], count++;
    }
    *inside = in / fmax(count, 1);
    return sqrt(sum / fmax(count, 1));
}

static int field_run(field_record *r)
{
    static const char *const method[FIELD_METHODS] = {"probes (K = 16), PCG, L-BFGS", "exact (banded factor), L-BFGS"};
    const pu_int size[2] = {field_side(), field_side()};
    const int n = field_side() * field_side();
    const pu_edge edge[2] = {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN};
    const uint64_t seed = (uint64_t)flags.seed;
    const spent start = now_spent();
    pu_real truth[FIELD_THETA], theta[FIELD_THETA], *draw;
    double inside, variance = 1;
    pu_lattice lattice;
    pu_model model;
    pu_data data;
    pu_report told;
    char text[160];
    int i, k;
    snprintf(text, sizeof text, "2. Matern field: a grid of %d x %d, four points in ten hidden, noise; range, variance, mean and noise unknown",
             field_side(), field_side());
    heading(text);
    memset(&model, 0, sizeof model);
    need(pu_model_field(&model, 2, size, edge, 2, 0, &told), &told);
    r->y = need_reals(5 * n), r->z = r->y + n, r->mean = r->z + n, r->deviation = r->mean + n;
    draw = r->deviation + n;
    truth[1] = (pu_real)log(sqrt(8.0) / 20), truth[2] = 0, truth[3] = (pu_real)log(0.1); /* range 20 */
    if (pu_lattice_set(&lattice, 2, size, edge, 2, 1, (pu_real)exp((double)truth[1]), NULL) || pu_lattice_moments(&lattice, &variance, NULL, NULL))
        fail(1, "field", "there is no such field");
    truth[0] = (pu_real)log(variance); /* tau that makes the variance 1 */
    need(pu_model_simulate(&model, truth, 1, seed, NULL, r->z, r->y, &told), &told);
    need(pu_model_set(&model, truth, &told), &told);
    (void)pu_lattice_moments(pu_model_get_field(&model), NULL, &r->range[FIELD_METHODS], NULL);
    normals(seed, 0, 20, n, draw);
    for (i = 0; i < n; i++)
        if (draw[i] > PU_R(0.2533)) r->y[i] = (pu_real)NAN; /* P(normal > 0.2533) = 0.4 */
    data = pu_data_nan(1, n, r->y);

    for (k = 0; k < FIELD_METHODS; k++) {
        pu_real *mean = k == 0 ? r->mean : need_reals(2 * n), *deviation = k == 0 ? r->deviation : mean + n;
        pu_posterior_result out;
        pu_fit_options options;
        pu_fit_report report;
        spent began, fit;
        double error;
        fit_flags_options(&flags, &options);
        options.optimizer = PU_LBFGS, options.rate = 0, options.steps = 100;
        options.gradient.solve.iterations = 0;
        if (k == 0) {
            options.fixed_probes = 1, options.tolerance = 1e-3 * sqrt(0.6 * n); /* hundredths of a standard error */
            options.gradient.engine = PU_ITERATIVE, options.gradient.kind = PU_MONTE_CARLO, options.gradient.samples = 16;
            options.gradient.solve.solver = PU_PCG, options.gradient.solve.tolerance = 1e-4;
        } else
            options.gradient.engine = PU_BANDED, options.gradient.kind = PU_EXACT, options.gradient.samples = 0, options.gradient.backend = NULL;
        need(pu_model_start(&model, &data, seed, theta, &told), &told);
        began = now_spent();
        need_fit(pu_fit(&model, &data, &options, NULL, theta, &report), &report);
        if (!fit_interrupted) {
            fit = since(began);
            memset(&out, 0, sizeof out);
            out.mean = mean, out.variance = deviation;
            if (k == 0) options.gradient.samples = 64, options.gradient.step = 1;
            need_result(pu_model_posterior(&model, theta, &data, &options.gradient, NULL, &out, &told), &told);
            for (i = 0; i < n; i++) mean[i] += theta[2], deviation[i] = (pu_real)sqrt((double)deviation[i]);
            error = field_error(r, mean, deviation, k == 0 ? &r->inside : &inside);
            (void)pu_lattice_moments(pu_model_get_field(&model), NULL, &r->range[k], NULL);
            add_row(FIELD, k == 0 ? PROBES : EXACT, method[k], error, "%.4f", &fit);
        }
        if (k > 0) free(mean);
        if (fit_interrupted) break;
    }
    pu_model_free(&model);
    r->all = took(start);
    return !fit_interrupted;
}

/* Truth, what is there, filled in, doubt. Gaps are white, which no value is. */
static picture field_sheet(const field_record *r)
{
    enum { GAP = 6 };
    const int side = field_side(), step = side + GAP, n = side * side;
    picture p = picture_new(4 * step - GAP, side);
    pu_real *there = need_reals(n);
    double low = 0, high = 0, most = 1e-30;
    int i;
    for (i = 0; i < n; i++) {
        low = fmin(low, (double)r->z[i]);
        high = fmax(high, (double)r->z[i]);
        most = fmax(most, (double)r->deviation[i]);
    }
    low -= 0.2 * (high - low);
    for (i = 0; i < n; i++) there[i] = r->y[i] == r->y[i] ? (pu_real)fmax((double)r->y[i], low + 0.1 * (high - low)) : (pu_real)low;
    picture_tile(&p, 0, 0, side, side, r->z, low, high);
    picture_tile(&p, step, 0, side, side, there, low, high);
    picture_tile(&p, 2 * step, 0, side, side, r->mean, low, high);
    picture_tile(&p, 3 * step, 0, side, side, r->deviation, 0, most);
    free(there);
    return p;
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
    add_row(RATINGS, SIMPLE, "mean of each item", ratings_rmse(&r->r, &known, &r->r.test, &r->posterior, &r->ws), "%.3f", NULL);
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
        memcpy(r->plan, report.last.plan, sizeof r->plan);
        add_row(RATINGS, r->now == 0 || strstr(r->plan, "by iterative") ? PROBES : EXACT, method[r->now],
                ratings_rmse(&r->r, &model.lgm, &r->r.test, &r->posterior, &r->ws), "%.3f", &fit);
    }
    if (!fit_interrupted)
        add_row(RATINGS, SIMPLE, "the parameters that made the data", ratings_rmse(&r->r, &known, &r->r.test, &r->posterior, &r->ws), "%.3f",
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

/* ---- 5. cost against the exact gradient --------------------------------------------------------------- */

enum { SIZES = 7, TIMES = 15 };

typedef struct {
    int sizes; /* that were measured */
    double D[SIZES], exact[SIZES], network[SIZES]; /* seconds, medians */
    spent all;
} cost_record;

/* Seconds of `runs` gradients, by the clock that tables have. */
static double time_runs(problem *p, const pu_options *options, pu_real *grad, int runs)
{
    const spent start = now_spent();
    pu_report report;
    int run;
    for (run = 0; run < runs && !fit_interrupted; run++) problem_gradient(p, options, grad, &report);
    return since(start).told;
}

/* Median of five timings, and of more while they take less than 0.2 s. Each is of as many gradients as take 20 ms or more, for the
   clock of the processor learns of other threads at their ticks, some ms late; the first gradient, which finds memory and caches cold, is left out. */
static double median_time(problem *p, const pu_options *options, pu_real *grad)
{
    double times[TIMES], sum = 0;
    int count, runs = 1;
    (void)time_runs(p, options, grad, 1);
    while (time_runs(p, options, grad, runs) < 0.02 && runs < 10000 && !fit_interrupted) runs *= 2;
    for (count = 0; count < TIMES && (count < 5 || sum < 0.2) && !fit_interrupted; count++) {
        times[count] = time_runs(p, options, grad, runs), sum += times[count];
        times[count] /= runs;
    }
    return svg_median(count, times);
}

static int cost_run(cost_record *c, convergence *e)
{
    const spent start = now_spent();
    problem p;
    int i;
    heading("5. Gradients: error after a number of solver steps (D = 200), time against the exact one");
    problem_open(&p, 200, 200, 1, (uint64_t)flags.seed);
    e->threads = (int)flags.threads, e->backend = device_backend();
    convergence_measure(e, &p, 10, flags.seed);
    problem_close(&p);
    if (!flags.quiet) convergence_print(e, 3), printf("\n      D       exact     network   exact : network\n");
    for (i = 0; i < cost_sizes() && !fit_interrupted; i++) {
        pu_options options;
        pu_real *grad;
        const pu_int D = (pu_int)(100 * pow(2, 0.5 * i) + 0.5);
        c->D[i] = (double)D;
        problem_open(&p, D, D / 2, 2, (uint64_t)flags.seed);
        grad = need_reals(p.params);
        memset(&options, 0, sizeof options);
        options.threads = (int)flags.threads, options.kind = PU_EXACT;
        c->exact[i] = median_time(&p, &options, grad);
        options.kind = PU_NETWORK, options.engine = PU_ITERATIVE; /* left to itself it would take an exact engine */
        options.backend = device_backend(); /* K = 10, I = 30 of CG are the defaults */
        c->network[i] = median_time(&p, &options, grad);
        if (!fit_interrupted) c->sizes = i + 1;
        if (!flags.quiet && !fit_interrupted)
            printf("   %4.0f   %6.1f ms   %6.1f ms   %.2f\n", c->D[i], 1e3 * c->exact[i], 1e3 * c->network[i],
                   c->exact[i] / c->network[i]);
        free(grad);
        problem_close(&p);
    }
    c->all = took(start);
    return !fit_interrupted;
}

/* Slopes are of the last four sizes. */
static int cost_from(const cost_record *c) { return c->sizes > 4 ? c->sizes - 4 : 0; }

static double cost_slope(const cost_record *c, const double *y)
{
    return svg_slope(c->sizes - cost_from(c), c->D + cost_from(c), y + cost_from(c));
}

/* Where the lines through the last four sizes meet beyond them, within ten times the last one; 0: they do not. */
static double cost_meeting(const cost_record *c)
{
    const int last = c->sizes - 1;
    const double gap = cost_slope(c, c->exact) - cost_slope(c, c->network), behind = log(c->network[last] / c->exact[last]);
    return gap > 0 && behind > 0 && behind / gap < log(10.0) ? c->D[last] * exp(behind / gap) : 0;
}

static void cost_draw(const cost_record *c, FILE *file)
{
    const double cross = svg_crossing(c->sizes, c->D, c->exact, c->network);
    char name[2][64];
    double low = HUGE_VAL, high = 0;
    svg_plot p;
    int i;
    for (i = 0; i < c->sizes; i++) {
        low = fmin(low, fmin(c->exact[i], c->network[i]));
        high = fmax(high, fmax(c->exact[i], c->network[i]));
    }
    memset(&p, 0, sizeof p);
    p.file = file, p.title = "time of a gradient against the number of unknowns", p.top = 30;
    p.x_label = "unknowns D", p.y_label = "seconds";
    p.log_x = p.log_y = 1, p.x0 = 0.9 * c->D[0], p.x1 = 1.1 * c->D[c->sizes - 1], p.y0 = low / 1.5, p.y1 = high * 1.5;
    snprintf(name[0], sizeof name[0], "exact, slope %.1f", cost_slope(c, c->exact));
    snprintf(name[1], sizeof name[1], "network, slope %.1f", cost_slope(c, c->network));
    svg_begin(&p);
    svg_legend(&p, "c1", '-', name[0]), svg_legend(&p, "c2", '-', name[1]);
    svg_line(&p, c->sizes, c->D, c->exact, "c1", 0, 1);
    svg_line(&p, c->sizes, c->D, c->network, "c2", 0, 1);
    if (cross > 0) svg_mark(&p, cross, "equal");
    svg_end(&p);
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

/* What is not in report_style. */
static const char *const page_style =
    "<style>.sheet div{display:flex;text-align:center;font-size:.85rem;gap:.3rem}.sheet span{flex:1}\n"
    "td+td{white-space:nowrap}.wrap td:first-child{white-space:normal}tr.group th{padding-top:.9rem}\n"
    "tr.group th+th{font-weight:normal;color:var(--soft)}.claim{font-weight:600;border-left:4px solid var(--c2);padding-left:.7rem}\n"
    "@media (max-width:30rem){table{font-size:.9rem}}</style>\n";

/* The names of experiments that ended so: "a", "a and b", "a, b and c"; "" without any. */
static void page_names(verdict wanted, char *out, size_t size)
{
    char text[300];
    int i, found = 0, left = 0;
    out[0] = 0;
    for (i = 0; i < EXPERIMENTS; i++) left += conclude(i, text, sizeof text) == wanted;
    for (i = 0; i < EXPERIMENTS; i++) {
        const size_t used = strlen(out);
        if (conclude(i, text, sizeof text) != wanted) continue;
        snprintf(out + used, size - used, "%s%s", found == 0 ? "" : left == 1 ? " and " : ", ", experiment_place[i]);
        found++, left--;
    }
}

/* What the run has found, in large letters. */
static void page_answer(const report_page *page)
{
    char probes[200], exact[200], trade[200];
    page_names(PROBES_WIN, probes, sizeof probes);
    page_names(EXACT_WINS, exact, sizeof exact);
    page_names(TRADE, trade, sizeof trade);
    if (!probes[0] && !exact[0] && !trade[0]) {
        report_answer(page, "Interrupted before there was anything to compare.");
        return;
    }
    report_answer(page, "%s%s%s%s%s%s%s%s%s", probes[0] ? "Random probes and a few solver steps win at " : "", probes, probes[0] ? ". " : "",
                  exact[0] ? "Exact algebra wins at " : "", exact, exact[0] ? ". " : "", trade[0] ? "A trade between speed and precision: " : "",
                  trade, trade[0] ? "." : "");
}

/* The row has the least error, or time, of those that were fitted in its experiment, as far as printed digits tell. */
static int page_best(const row *r, int time)
{
    char mine[2][32], other[2][32];
    int i;
    if (!r->fitted) return 0;
    row_texts(r, mine[0], mine[1]);
    for (i = 0; i < row_count; i++) {
        const row *o = &rows[i];
        if (o->experiment != r->experiment || !o->fitted) continue;
        row_texts(o, other[0], other[1]);
        if ((time ? o->fit.told < r->fit.told : o->error < r->error) && strcmp(mine[time], other[time])) return 0;
    }
    return 1;
}

static void page_table(const report_page *page)
{
    char error[32], time[32];
    int i;
    fprintf(page->file, "<div class=\"box wrap\"><table>");
    for (i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        if (i == 0 || r->experiment != rows[i - 1].experiment)
            fprintf(page->file, "\n<tr class=\"group\"><th>%s<th>error<th>time", experiment_name[r->experiment]);
        row_texts(r, error, time);
        report_row(page, r->method);
        report_cell(page, page_best(r, 0), "%s", error);
        report_cell(page, page_best(r, 1), "%s", time);
    }
    fprintf(page->file, "\n</table></div>\n<p class=\"soft\">Green: the best of what was fitted. Errors: ");
    for (i = 0; i < EXPERIMENTS; i++)
        fprintf(page->file, "%s%s (%s)", i ? ", " : "", experiment_error[i], experiment_name[i]);
    fprintf(page->file, ". Times: %s, for the fit.</p>\n", told_name());
}

/* The conclusion of an experiment. */
static void page_claim(FILE *f, int experiment)
{
    char text[400];
    (void)conclude(experiment, text, sizeof text);
    fprintf(f, "<p class=\"claim\">");
    report_escape(f, text);
    fprintf(f, "</p>\n");
}

/* Ends a section. */
static void page_note(FILE *f, const char *note, spent all)
{
    fprintf(f, "<p class=\"soft\">%s%s%.1f&nbsp;s in all, %.1f&nbsp;s of processor time.</p>\n", note, *note ? " " : "", all.wall, all.cpu);
}

static void page_sheet(FILE *f, picture p, const char *heads, const char *alt)
{
    fprintf(f, "<figure class=\"sheet ink\"><div>%s</div>\n", heads);
    picture_embed(&p, f, alt);
    picture_free(&p);
}

static void page_cs(const report_page *page, const cs_record *r)
{
    FILE *f = page->file;
    report_section(page, "1. Compressed sensing");
    page_claim(f, SENSING);
    fprintf(f, "<p>Ten drawings of a digit, of each a random fifth of the Fourier transform, with noise. The model\n"
               "knows no more than that many pixels are paper (here %.0f&nbsp;%%), much the same ones in all images.\n"
               "Which ones, and how strong the noise is, it has to find: %ld parameters.</p>\n",
            100 * (1 - r->ink), (long)r->s.D + 1);
    page_sheet(f, scene_sheet(&r->s, CS_SHOWN, r->mean, r->variance),
               "<span>truth</span><span>zero-filled</span><span>PU</span><span>its doubt</span>",
               "three images: truth, zero-filled inverse, reconstruction, posterior standard deviation");
    report_caption(page, "Compare the third column with the first. The zero-filled inverse transform is off by %.0f %%, PU by %.1f %%. The last column is the "
                         "standard deviation of each pixel, strongest where it is largest.", r->error[CS_METHODS], fmin(r->error[0], r->error[1]));
    fprintf(f, "<p>The true noise is 0.010; found: %.4f (PU, network gradient), %.4f (output gradient, warm starts) and %.4f\n"
               "(exact).</p>\n", r->noise[0], r->noise[1], r->noise[2]);
    page_note(f, "The exact gradient costs the cube of the number of measurements, the others do not.", r->all);
}

static void page_field(const report_page *page, const field_record *r)
{
    FILE *f = page->file;
    report_section(page, "2. A Matern field");
    page_claim(f, FIELD);
    fprintf(f, "<p>A smooth field on a grid of %d&nbsp;&#215;&nbsp;%d, seen with noise at six points in ten. The fit finds range,\n"
               "variance, mean and noise, then fills in the rest. True range %.1f; found %.1f by probes, %.1f exactly.</p>\n",
            field_side(), field_side(), r->range[FIELD_METHODS], r->range[0], r->range[1]);
    page_sheet(f, field_sheet(r), "<span>truth</span><span>data</span><span>filled in</span><span>its doubt</span>",
               "a field: truth, data with gaps in grey, filled in, standard deviations");
    report_caption(page, "The third picture is made from the second, whose gaps are left empty. %.1f %% of the hidden points are within 1.96 of the standard deviations in the "
                         "last one.", 100 * r->inside);
    page_note(f, "Exact: a banded factor, whose width is twice the side of the grid.", r->all);
}

static void page_rate(const report_page *page, const rate_record *r)
{
    FILE *f = page->file;
    report_section(page, "3. Ratings");
    page_claim(f, RATINGS);
    fprintf(f, "<p>%ld ratings that %ld users gave to %ld items, made up: four hidden tastes per user, noise, half\n"
               "stars. A tenth of them is kept for the test and a tenth of the rest for validation, by which the\n"
               "best step is chosen.</p>\n",
            r->r.all.count, (long)r->r.users, (long)r->r.items);
    report_figure(page);
    rate_draw(r, f);
    report_caption(page, "Two lines frame what can be done: the mean of each item knows nothing about the user; the parameters that made the data "
                         "are what no fit can know.");
    fprintf(f, "<p>Four factors are few; section 5 has the costs of hundreds. The automatic engine says: <q>%s</q>.</p>\n", r->plan);
    page_note(f, "", r->all);
}

static void page_ar(const report_page *page, const ar_record *r)
{
    FILE *f = page->file;
    double least[4];
    int i, k;
    for (k = 0; k < 4; k++)
        for (i = 0; i < AR_METHODS; i++) {
            const double x = k < 3 ? r->error[i][k] : r->nll[i];
            least[k] = i == 0 || x < least[k] ? x : least[k];
        }
    report_section(page, "4. Noisy autoregression");
    page_claim(f, SERIES);
    fprintf(f, "<p>Five series of 400 entries. Each value depends on the five before it (coefficients phi, noise\n"
               "kappa) and is seen through further noise (lambda), except for a tenth that is hidden. From what is\n"
               "left the fit finds these seven numbers; the hidden values and the future come with a margin.</p>\n");
    report_figure(page);
    series_plot(&r->s, f, 0, "a series, its posterior band and forecast");
    report_caption(page, "Of the %ld hidden values %.1f %% are within their 95 %% interval. Their typical error is %.3g; that of a straight line "
                         "between the neighbours is %.3g.", r->s.checked, 100 * r->s.coverage, r->s.error, r->s.error_linear);
    report_figure(page);
    ar_draw(r, f);
    report_caption(page, "PU never forms the exact likelihood: it goes by what random probes tell it. It ends %.2f above the best there is; the exact "
                         "gradient ends %.2f above after as many steps. The parameters that made the data are %.2f above. The first steps, "
                         "far above, are left out.", r->nll[0] - r->nll[2], r->nll[1] - r->nll[2], r->nll_truth - r->nll[2]);
    report_table(page, "method|phi|kappa|lambda|NLL");
    for (i = 0; i < AR_METHODS; i++) {
        report_row(page, i == 0 ? "PU, Adam" : i == 1 ? "exact, Adam" : "exact, L-BFGS");
        for (k = 0; k < 3; k++) report_cell(page, r->error[i][k] <= least[k] + 0.005, "%.1f %%", r->error[i][k]);
        report_cell(page, r->nll[i] <= least[3] + 0.0005, "%.2f", r->nll[i]);
    }
    report_table_end(page, "Relative errors; exact negative log-likelihood (NLL) per series.");
    page_note(f, "", r->all);
}

static void page_cost(const report_page *page, const cost_record *c, const convergence *e)
{
    FILE *f = page->file;
    const int last = c->sizes - 1;
    const double cross = svg_crossing(c->sizes, c->D, c->exact, c->network), ratio = c->exact[last] / c->network[last];
    const double gain = convergence_ratio(e, 2 /* CG */), meet = cost_meeting(c);
    int i;
    report_section(page, "5. What a gradient costs, and what it gains");
    fprintf(f, "<p class=\"claim\">At D&nbsp;=&nbsp;%.0f the %s gradient is the faster one, %.1f times", c->D[last], ratio > 1 ? "network" : "exact",
            ratio > 1 ? ratio : 1 / ratio);
    if (cross > 0) fprintf(f, "; both cost the same near D&nbsp;=&nbsp;%.0f, and below that exact is the better choice", cross);
    else if (ratio <= 1 && meet > 0) fprintf(f, "; if the slopes stayed, both would cost the same near D&nbsp;=&nbsp;%.0f", 100 * floor(meet / 100 + 0.5));
    fprintf(f, ".</p>\n<p>As in ratings with D factors: two users, D/2 items, of which a fifth is missing; 10 probes, 30 steps of CG.</p>\n");
    report_figure(page);
    cost_draw(c, f);
    report_caption(page, "Time %s, medians of five gradients or more; slopes of the last four points. Theory, for large D: 3 for exact, 2 for the "
                         "network gradient.", told_name());
    report_table(page, "D|exact|network|exact : network");
    for (i = 0; i < c->sizes; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.0f", c->D[i]);
        report_row(page, name);
        report_cell(page, c->exact[i] <= c->network[i], "%.2f ms", 1e3 * c->exact[i]);
        report_cell(page, c->network[i] <= c->exact[i], "%.2f ms", 1e3 * c->network[i]);
        report_cell(page, 0, "%.2f", c->exact[i] / c->network[i]);
    }
    report_table_end(page, "Green: the faster one.");
    if (gain > 0)
        fprintf(f, "<p class=\"claim\">Going back through CG, the network gradient gains %.2f times the digits per step of the gradient\n"
                   "formed from the solver's output, and takes %.1f times as long.</p>\n", gain, e->seconds[2][1] / e->seconds[2][0]);
    report_figure(page);
    convergence_draw(e, f, 0);
    report_caption(page, "D = 200. Error of the gradient after a number of solver steps, against the same probes solved to the end. Compare lines of "
                         "one colour, which are of one solver: solid is the network gradient, dashed the output gradient.");
    page_note(f, "", c->all);
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
    static field_record field;
    static rate_record rate;
    static convergence errors;
    static cost_record cost;
    const double start = seconds();
    const char *out = "build/demo";
    option list[7];
    int count = 0, done, i;
    char path[1100], error[32], time[32], text[400];
    double all;
    report_page page;
    json j;
    fit_flags_default(&flags);
    list[count++] = opt_text("out", "directory for report.html", &out);
    list[count++] = opt_flag("quick", "smaller problems: a page in a few seconds, whose conclusions are of these", &quick);
    list[count++] = opt_number("seed", "of all random numbers", &flags.seed, 0, 1000000000);
    list[count++] = opt_number("threads", "0 = as many as are worth it, at most one per core", &flags.threads, 0, 1024);
    list[count++] = opt_device();
    list[count++] = opt_text("json", "write the results to this file", &flags.json);
    list[count++] = opt_flag("quiet", "no progress, no tables", &flags.quiet);
    options_read(argc, argv, "demo",
                 "Four experiments on built-in data, and what gradients cost; writes a page with pictures.", count, list);
    device_open();
    fit_listen();
    make_directory(out);
    snprintf(path, sizeof path, "%s/report.html", out);
    page = report_open(path, "pu: latent Gaussian models at scale"); /* better to fail now than after the work */
    j = json_open(flags.json);

    done = cs_run(&cs);
    if (done == 1) done += field_run(&field);
    if (done == 2) done += rate_run(&rate);
    if (done == 3) done += ar_run(&ar);
    if (done == 4) done += cost_run(&cost, &errors);
    all = seconds() - start;
    if (fit_interrupted) fprintf(stderr, "demo: interrupted; what follows is what there is\n");

    fputs(page_style, page.file);
    if (row_count > 0) page_answer(&page);
    report_text(&page, "pu fits latent Gaussian models (hidden normal variables seen through a linear map and noise) without inverting a "
                       "matrix: a few solver steps for the posterior mean and for random probes, and the gradient taken through the solver "
                       "(probabilistic unrolling, PU). It is made for thousands of unknowns that all hang together: images from few measurements, "
                       "fields on grids. Small, dense and banded problems it solves exactly.");
    if (row_count > 0) page_table(&page);
    if (done > 0) page_cs(&page, &cs);
    if (done > 1) page_field(&page, &field);
    if (done > 2) page_rate(&page, &rate);
    if (done > 3) page_ar(&page, &ar);
    if (done > 4) page_cost(&page, &cost, &errors);
    if (fit_interrupted) report_text(&page, "Interrupted: the rest is missing.");
    report_text(&page, "Device of PU: %s. %.0f s in all.%s", device_name, all,
                quick ? " By --quick: problems are smaller than the demo's, which favours exact algebra." : "");
    report_close(&page, argc, argv, count, list);
    json_write(&j, all);

    if (!flags.quiet) {
        printf("%-22s %-44s %8s %8s\n", "experiment", "method", "error", "time");
        for (i = 0; i < row_count; i++) {
            const int first = i == 0 || rows[i].experiment != rows[i - 1].experiment;
            row_texts(&rows[i], error, time);
            printf("%-22s %-44s %8s %8s\n", first ? experiment_name[rows[i].experiment] : "", rows[i].method, error, time);
        }
        printf("\n");
        for (i = 0; i < EXPERIMENTS; i++)
            if (conclude(i, text, sizeof text) != OPEN) printf("%s. %s\n", experiment_name[i], text);
        printf("\nerrors:");
        for (i = 0; i < EXPERIMENTS; i++) printf("%s %s (%s)", i ? "," : "", experiment_error[i], experiment_name[i]);
        printf("\ntimes: %s, for the fit\ndevice of PU: %s\n%.1f s. Report with pictures: %s\n", told_name(), device_name, all, path);
    }
    series_free(&ar.s), scene_free(&cs.s), free(cs.mean), free(field.y), ratings_free(&rate.r);
    device_close();
    return fit_code();
}

/* workloads.c - the paper's workloads at the paper's sizes, timed; float, unless built with BENCH_DOUBLE.

   workloads                     all of them, one table
   workloads ar --length 30000 --threads 2 --json

   ar              a network gradient of a noisy AR(5), N = 5 series, a tenth missing, K = 10, I = 30
   ar-fit          the same model fitted to the optimum: L-BFGS on the exact likelihood, by the engine that auto picks
   sensing         a network gradient of compressed sensing, N = 10 images, 15 % of the frequencies, K = 30, I = 25, PCG
   sensing-fit     the same model fitted; the error of the images on the way, and when it fell below --target
   ratings         steps of factor analysis, 100 users each with Adam, K = I = 10, output gradient; --engine auto or iterative
   growth-ar, growth-fourier, growth-factors, growth-users      seconds of a gradient over a range of sizes, and threads

   Every line of --json is one object with its settings. A gradient is timed where no column of the solver ends before its I
   steps (the share that ran them all is told, "full_columns"), since a rival without that rule does them all; so neither noisy
   AR nor sensing is timed at its usual start, where A is nearly diagonal. Times are wall time: the best of --runs gradients, or
   for ratings the best of three means over thirds of the steps, the first step left out. --once runs one gradient and times
   nothing: for counting instructions. --data: the problem of a rival, as compare.py writes it; without it one is made here.
   --ratings FILE: a file of MovieLens; without it ratings are made up, 6,040 users with as many ratings as those have. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE         /* getrusage in fit.h */
#ifndef BENCH_DOUBLE
#define PU_FLOAT
#endif
#define PU_IMPLEMENTATION
#include "pu.h"

#include "examples/common/program.h"
#include "examples/common/fit.h"
#include "examples/common/picture.h"
#include "examples/common/strokes.h"
#include "examples/common/sensing.h"
#include "examples/common/movielens.h"
#include "examples/common/ratings.h"

enum { ORDER = 5, SIZES = 12, STEPS = 4096 };

typedef struct {
    long length, series, size, images, samples, iterations, factors, batch, steps, threads, runs, seed, most, columns;
    int adjoint, engine, json, once;
    double target, rate, least; /* least: growth, seconds of gradients at each size, however small they are */
    const char *data, *ratings, *save;
} flags;

/* ---- what a workload tells: key and number or text, as one line of JSON or of a table ---- */

static int told;

static void tell_key(const flags *f, const char *key)
{
    if (f->json) printf("%s\"%s\": ", told++ ? ", " : "{", key);
    else printf("%s%s ", told++ ? ", " : "  ", key);
}

static void tell(const flags *f, const char *key, double x)
{
    tell_key(f, key);
    if (x - x == 0) printf("%.9g", x);
    else printf("null");
}

static void tell_text(const flags *f, const char *key, const char *text)
{
    tell_key(f, key);
    if (f->json) putchar('"');
    for (; *text; text++) putchar(f->json && (*text == '"' || *text == '\\' || (unsigned char)*text < 32) ? ' ' : *text);
    if (f->json) putchar('"');
}

static void tell_list(const flags *f, const char *key, int n, const double *x)
{
    int i;
    tell_key(f, key);
    for (i = 0; i < n; i++) printf("%s%.6g", i ? (f->json ? ", " : " ") : f->json ? "[" : "", x[i]);
    if (f->json) printf("%s", n ? "]" : "[]");
}

static void tell_begin(const flags *f, const char *name)
{
    told = 0;
    if (f->json) tell_text(f, "workload", name);
    else printf("%s\n", name);
    tell_text(f, "precision", sizeof(pu_real) == 4 ? "float" : "double");
#ifdef PU_USE_FFTW
    tell_text(f, "transforms", "FFTW");
#endif
    tell(f, "threads", (double)f->threads);
}

static void tell_end(const flags *f)
{
    tell(f, "peak_mb", peak_mb());
    printf(f->json ? "}\n" : "\n");
    fflush(stdout);
}

/* ---- timing ---- */

/* Best seconds of the model's gradient, fresh probes each time; the first call pays for the memory and is not counted. */
static double time_gradient(const flags *f, pu_model *model, const pu_real *theta, const pu_data *data, pu_options *o,
                            pu_report *report)
{
    pu_workspace ws;
    pu_real *grad = need_reals(model->params);
    double best = 1e30, spent = 0;
    long run;
    memset(&ws, 0, sizeof ws);
    for (run = 0; run <= (f->once ? 0 : f->runs) || spent < f->least; run++) {
        double start = seconds(), t;
        o->step = (uint32_t)run;
        need(pu_model_gradient(model, theta, data, o, &ws, grad, NULL, report), report);
        t = seconds() - start, spent += t;
        if ((run > 0 || f->once) && t < best) best = t;
    }
    pu_workspace_free(&ws);
    free(grad);
    return best;
}

static void tell_gradient(const flags *f, double best, const pu_options *o, const pu_report *r)
{
    static const char *const adjoints[] = {"full", "shortcut", "reorthogonal", "auto"};
    pu_int columns = 0;
    int s;
    for (s = 0; s < PU_STOP_COUNT; s++) columns += r->stops[s];
    tell(f, "seconds", best);
    tell(f, "runs", (double)f->runs);
    tell(f, "K", (double)r->samples);
    tell(f, "I", (double)r->iterations);
    tell_text(f, "adjoint", adjoints[o->solve.adjoint]);
    tell(f, "full_columns", columns ? (double)r->stops[PU_STOP_STEPS] / (double)columns : 0);
    tell(f, "reorthogonalised", (double)r->reorthogonalised);
    tell(f, "workspace_mb", (double)r->bytes / 1048576);
}

/* The statistic of the rival: the first step dropped, the rest in three blocks, the least of their means. */
static double best_third(int n, const double *t)
{
    double best = 1e30;
    int skip = n >= 4, part;
    t += skip, n -= skip;
    for (part = 0; part < 3; part++) {
        const int parts = n < 3 ? 1 : 3, from = n * part / parts, to = part < parts ? n * (part + 1) / parts : from;
        double sum = 0;
        int i;
        for (i = from; i < to; i++) sum += t[i];
        if (to > from && sum / (to - from) < best) best = sum / (to - from);
    }
    return best;
}

typedef struct { /* seconds of every step of a fit */
    double step[STEPS], last;
    int count;
} stopwatch;

static int stopwatch_step(const pu_fit_report *now, void *user)
{
    stopwatch *w = (stopwatch *)user;
    const double t = seconds();
    (void)now;
    if (w->count < STEPS) w->step[w->count++] = t - w->last;
    w->last = seconds();
    return 0;
}

/* ---- problems that come from a rival: N and a size as two 64-bit integers, then arrays of doubles ---- */

static double *read_problem(const char *path, int arrays, pu_int per_size, pu_int *N, pu_int *size)
{
    int64_t head[2];
    size_t count;
    double *x;
    FILE *file = fopen(path, "rb");
    if (!file) fail_errno("cannot read", path);
    if (fread(head, sizeof *head, 2, file) != 2 || head[0] < 1 || head[1] < 1 || head[0] > 1 << 20 || head[1] > 1 << 26)
        fail(1, path, "is not a problem that compare.py has written");
    *N = (pu_int)head[0], *size = (pu_int)head[1];
    count = (size_t)arrays * (size_t)*N * (size_t)(per_size == 2 ? *size * *size : *size);
    x = (double *)need_bytes(count * sizeof *x);
    if (fread(x, sizeof *x, count, file) != count) fail(1, path, "is too short");
    fclose(file);
    return x;
}

/* ---- noisy AR ---- */

/* Partial autocorrelations well inside (-1, 1), kappa = 1, lambda = 0.5: 30 steps of CG do not reach rounding level there. */
static const pu_real ar_theta[ORDER + 2] = {PU_R(1.2), PU_R(-0.6), PU_R(0.4), PU_R(-0.3), PU_R(0.2), PU_R(0), PU_R(-0.7)};

/* N series of this length, a tenth missing (NaN). */
static pu_real *ar_series(const flags *f, pu_int N, pu_int n)
{
    pu_real *y = need_reals(N * n), *wild = need_reals(N * n);
    pu_model model;
    pu_report report;
    pu_int i;
    memset(&model, 0, sizeof model);
    need(pu_model_noisy_ar(&model, n, ORDER, &report), &report);
    need(pu_model_set(&model, ar_theta, &report), &report);
    need(pu_simulate(&model.lgm, N, (uint64_t)f->seed, NULL, NULL, y, &report), &report);
    pu_normals((uint64_t)f->seed, 0, 0, 0, 3, 0, N * n, wild);
    for (i = 0; i < N * n; i++)
        if (wild[i] > PU_R(1.2815516)) y[i] = (pu_real)NAN; /* the upper tenth */
    pu_model_free(&model);
    free(wild);
    return y;
}

static double ar_gradient(const flags *f, pu_int N, pu_int n, int threads, pu_options *o, pu_report *report)
{
    static const pu_adjoint adjoints[] = {PU_ADJOINT_AUTO, PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT};
    pu_real *y = ar_series(f, N, n);
    pu_data data = pu_data_nan(N, n, y);
    pu_model model;
    double best;
    memset(&model, 0, sizeof model), memset(o, 0, sizeof *o);
    need(pu_model_noisy_ar(&model, n, ORDER, report), report);
    o->samples = (pu_int)f->samples, o->solve.iterations = (pu_int)f->iterations, o->threads = threads;
    o->solve.adjoint = adjoints[f->adjoint];
    best = time_gradient(f, &model, ar_theta, &data, o, report);
    pu_model_free(&model);
    free(y);
    return best;
}

static void run_ar(const flags *f)
{
    pu_options o;
    pu_report report;
    const double best = ar_gradient(f, (pu_int)f->series, (pu_int)f->length, (int)f->threads, &o, &report);
    tell_begin(f, "ar");
    tell(f, "N", (double)f->series);
    tell(f, "D", (double)f->length);
    tell_gradient(f, best, &o, &report);
    tell_end(f);
}

/* Series one after the other as columns of a CSV file, for the rival in statsmodels_ar.py. */
static void ar_save(const char *path, pu_int N, pu_int n, const pu_real *y)
{
    FILE *file = file_open(path);
    pu_int i, t;
    for (i = 0; i < N; i++) fprintf(file, "%sy%ld", i ? "," : "", (long)i + 1);
    for (t = 0; t < n; t++)
        for (i = 0; i < N; i++) {
            const double x = (double)y[i * n + t];
            fprintf(file, i ? "," : "\n");
            if (x == x) fprintf(file, "%.9g", x);
            else fprintf(file, "NA");
        }
    fprintf(file, "\n");
    file_close(file, path);
}

static void run_ar_fit(const flags *f)
{
    pu_int N = (pu_int)f->series, n = (pu_int)f->length, i;
    pu_real *y, theta[ORDER + 2];
    double start, best = 1e30, nll = 0, fitted[ORDER + 2];
    pu_model model;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_report set;
    long run;
    if (f->data) {
        double *x = read_problem(f->data, 1, 1, &N, &n);
        y = need_reals(N * n);
        for (i = 0; i < N * n; i++) y[i] = (pu_real)x[i];
        free(x);
    } else {
        y = ar_series(f, N, n);
    }
    if (f->save) ar_save(f->save, N, n, y);
    data = pu_data_nan(N, n, y);
    memset(&model, 0, sizeof model), memset(&fit, 0, sizeof fit);
    need(pu_model_noisy_ar(&model, n, ORDER, &set), &set);
    fit.optimizer = PU_LBFGS, fit.gradient.kind = PU_EXACT, fit.gradient.engine = PU_ENGINE_AUTO;
    fit.gradient.threads = (int)f->threads, fit.clock = fit_clock;
    fit.tolerance = 1e-3 * sqrt((double)n / (double)N); /* a step is then about a thousandth of a standard error */
    if (f->once) {
        need(pu_model_start(&model, &data, (uint64_t)f->seed, theta, &set), &set);
        (void)time_gradient(f, &model, theta, &data, &fit.gradient, &set);
    }
    for (run = 0; run < f->runs && !f->once; run++) {
        start = seconds(); /* the starting values count as well */
        need(pu_model_start(&model, &data, (uint64_t)f->seed, theta, &set), &set);
        need_fit(pu_fit(&model, &data, &fit, NULL, theta, &report), &report);
        best = fmin(best, seconds() - start);
    }
    if (f->once) memset(&report, 0, sizeof report), report.last = set;
    need(pu_model_nll(&model, theta, &data, &fit.gradient, NULL, &nll, NULL, &set), &set);
    need(pu_model_set(&model, theta, &set), &set);
    for (i = 0; i < ORDER; i++) fitted[i] = (double)pu_model_get_ar(&model)->phi[i];
    fitted[ORDER] = exp((double)theta[ORDER]), fitted[ORDER + 1] = exp((double)theta[ORDER + 1]);
    tell_begin(f, "ar-fit");
    tell(f, "N", (double)N);
    tell(f, "D", (double)n);
    tell(f, "seconds", best);
    tell(f, "runs", (double)f->runs);
    tell(f, "steps", (double)report.step);
    tell(f, "gradients", (double)report.gradients);
    tell_text(f, "stopped", pu_fit_stop_text(report.stop));
    tell_text(f, "plan", report.last.plan);
    tell(f, "nll", nll);
    tell(f, "nll_per_entry", nll / (double)n);
    tell_list(f, "phi_kappa_lambda", ORDER + 2, fitted);
    tell_end(f);
    pu_model_free(&model);
    free(y);
}

/* ---- compressed sensing ---- */

static void sensing_scene(const flags *f, scene *s)
{
    memset(s, 0, sizeof *s);
    s->N = (pu_int)f->images;
    if (f->data) { /* truth, real and imaginary parts, mask */
        pu_int side, i, n;
        double *x = read_problem(f->data, 4, 2, &s->N, &side);
        size_t bytes;
        s->rows = s->cols = side, s->D = side * side;
        s->truth = need_reals(s->N * s->D), s->y = need_reals(2 * s->N * s->D);
        s->mask = (unsigned char *)need_bytes((size_t)(2 * s->N * s->D));
        for (n = 0; n < s->N; n++)
            for (i = 0; i < s->D; i++) {
                const pu_int at = n * s->D + i, all = s->N * s->D;
                s->truth[at] = (pu_real)x[at];
                s->y[2 * n * s->D + i] = (pu_real)x[all + at], s->y[(2 * n + 1) * s->D + i] = (pu_real)x[2 * all + at];
                s->mask[2 * n * s->D + i] = s->mask[(2 * n + 1) * s->D + i] = x[3 * all + at] > 0;
            }
        free(x);
        if (pu_fourier_bytes(side, side, &bytes)) fail(1, f->data, "images are too large");
        s->plan_memory = need_bytes(bytes);
        if (pu_fourier_init(&s->plan, side, side, s->plan_memory, bytes)) fail(1, f->data, "cannot be transformed");
        return;
    }
    scene_draw(s, 3, (pu_int)f->size, (uint64_t)f->seed);
    scene_measure(s, 0.15, 0.01, (uint64_t)f->seed);
}

static void run_sensing(const flags *f)
{
    static const pu_adjoint adjoints[] = {PU_ADJOINT_AUTO, PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT};
    scene s;
    pu_op Phi;
    pu_model model;
    pu_data data;
    pu_options o;
    pu_report report;
    pu_real *theta;
    double best;
    sensing_scene(f, &s);
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    Phi = pu_op_fourier(&s.plan);
    data = pu_data_masked(s.N, 2 * s.D, s.y, s.mask);
    need(pu_model_sparse(&model, &Phi, &report), &report);
    theta = need_reals(model.params);
    pu_normals((uint64_t)f->seed, 0, DRAW_START, 0, STREAM_SCENE, 0, s.D, theta);
    theta[s.D] = PU_R(9.2103404); /* log beta at the true noise */
    o.samples = (pu_int)f->samples, o.solve.iterations = (pu_int)f->iterations, o.solve.solver = PU_PCG;
    o.solve.adjoint = adjoints[f->adjoint], o.threads = (int)f->threads;
    o.columns = (pu_int)f->columns;
    /* the full adjoint is timed as it is: its check calls it unstable here, though it is as near as the repeated one */
    o.solve.no_repeat = o.solve.adjoint == PU_ADJOINT_FULL;
    best = time_gradient(f, &model, theta, &data, &o, &report);
    tell_begin(f, "sensing");
    tell(f, "N", (double)s.N);
    tell(f, "side", (double)s.rows);
    tell_gradient(f, best, &o, &report);
    tell_end(f);
    free(theta);
    pu_model_free(&model), scene_free(&s);
}

typedef struct { /* of a sensing fit */
    const scene *s;
    pu_model *model;
    const pu_data *data;
    const pu_options *gradient;
    pu_workspace ws;
    pu_real *mean;
    double target, spent, began, reached, when, at[STEPS], error[STEPS];
    int count;
} sensing_watch;

/* Stops the clock, looks at the error, and lets the clock go on. The solve for the images that reach the target counts. */
static int sensing_look(const pu_fit_report *now, void *user)
{
    sensing_watch *w = (sensing_watch *)user;
    const double t = seconds();
    double error;
    w->spent += t - w->began;
    if (w->count < STEPS) {
        scene_posterior(w->model, now->theta, w->data, w->gradient, &w->ws, w->mean, NULL);
        error = scene_error(w->s, w->mean);
        w->at[w->count] = w->spent, w->error[w->count++] = error;
        if (w->reached < 0 && error <= w->target) w->reached = w->spent + (seconds() - t), w->when = (double)now->step;
    }
    w->began = seconds();
    return w->target > 0 && w->reached >= 0;
}

/* Fixed probes, warm starts and the output gradient, as examples/compressed_sensing --warm has them; start, optimiser, rate
   and what is known of the noise (nothing) are the rival's. Probes that stay the same leave a bias that falls with K: on the
   rival's images the error goes down to 23.6 % with K = 8, 22.5 % with 12, and with 16 or more below the rival's 21.2 %. Since
   a solve goes on from the last one, 10 steps of it do where the rival takes 25; 5 do not. */
static void run_sensing_fit(const flags *f)
{
    static sensing_watch w;
    scene s;
    pu_op Phi;
    pu_model model;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_real *theta;
    sensing_scene(f, &s);
    memset(&model, 0, sizeof model), memset(&fit, 0, sizeof fit);
    Phi = pu_op_fourier(&s.plan);
    data = pu_data_masked(s.N, 2 * s.D, s.y, s.mask);
    need(pu_model_sparse(&model, &Phi, &report.last), &report.last);
    theta = need_reals(model.params);
    pu_normals((uint64_t)f->seed, 0, DRAW_START, 0, STREAM_SCENE, 0, s.D, theta);
    fit.steps = (pu_int)f->steps, fit.rate = f->rate, fit.schedule = PU_RATE_CONSTANT;
    fit.fixed_probes = fit.warm_start = 1;
    fit.gradient.kind = PU_OUTPUT, fit.gradient.solve.solver = PU_PCG, fit.gradient.rao_blackwell = 1;
    fit.gradient.samples = (pu_int)f->samples, fit.gradient.solve.iterations = (pu_int)f->iterations;
    fit.gradient.threads = (int)f->threads, fit.gradient.seed = (uint64_t)f->seed;
    fit.progress = sensing_look, fit.user = &w;
    w.s = &s, w.model = &model, w.data = &data, w.gradient = &fit.gradient, w.mean = need_reals(s.N * s.D);
    w.target = f->target, w.reached = -1, w.began = seconds();
    need_fit(pu_fit(&model, &data, &fit, NULL, theta, &report), &report);
    tell_begin(f, "sensing-fit");
    tell(f, "N", (double)s.N);
    tell(f, "side", (double)s.rows);
    tell(f, "K", (double)f->samples);
    tell(f, "I", (double)f->iterations);
    tell(f, "rate", f->rate);
    tell(f, "steps", (double)report.step);
    tell(f, "seconds_all", w.spent);
    tell(f, "target", f->target);
    tell(f, "seconds", w.reached >= 0 ? w.reached : (double)NAN); /* to the target */
    tell(f, "steps_to_target", w.reached >= 0 ? w.when : (double)NAN);
    tell(f, "nrmse", w.count ? w.error[w.count - 1] : (double)NAN);
    tell_list(f, "trace_seconds", w.count, w.at);
    tell_list(f, "trace_nrmse", w.count, w.error);
    tell_end(f);
    free(theta), free(w.mean);
    pu_workspace_free(&w.ws), pu_model_free(&model), scene_free(&s);
}

/* ---- factor analysis ---- */

/* Made-up ratings: users have from 20 to 2,314 of 3,706 items, log-normally many, 166 on average, as MovieLens-1M has them. */
static void ratings_make(const flags *f, ratings *r, pu_int users)
{
    const pu_int items = 3706;
    pu_real *wild = need_reals(users), *y = need_reals(items);
    pu_int *count = (pu_int *)need_bytes((size_t)users * sizeof *count), u, i, at = 0;
    double *share = (double *)need_bytes((size_t)users * sizeof *share), sum;
    uint32_t key[2] = {0, 0x72617465u}, counter[4] = {0, 0, 0, 0}, word[4];
    int pass;
    key[0] = (uint32_t)f->seed;
    pu_normals((uint64_t)f->seed, 0, 1, 0, 3, 0, users, wild);
    for (u = 0; u < users; u++) share[u] = exp((double)wild[u]);
    for (pass = 0; pass < 20; pass++) {
        for (sum = 0, u = 0; u < users; u++) sum += share[u];
        for (u = 0; u < users; u++) share[u] = fmin(2314, fmax(20, share[u] * 165.6 * (double)users / sum));
    }
    for (u = 0; u < users; u++) count[u] = (pu_int)(share[u] + 0.5), at += count[u];
    memset(&r->all, 0, sizeof r->all);
    r->all.pair = (uint64_t *)need_bytes((size_t)at * sizeof *r->all.pair), r->all.value = need_reals(at);
    r->all.item_bits = movielens_bits((int32_t)items);
    r->all.count = (long)at, r->all.users = (int32_t)users, r->all.items = (int32_t)items, r->all.low = 1, r->all.high = 5;
    for (at = 0, u = 0; u < users; u++) {
        pu_int need_more = count[u];
        counter[1] = (uint32_t)u;
        pu_normals((uint64_t)f->seed, (uint32_t)u, 2, 0, 3, 0, items, y);
        for (i = 0; i < items; i++) { /* a random subset of this size, in order */
            counter[0] = (uint32_t)i;
            pu_philox(key, counter, word);
            if ((double)word[0] / 4294967296.0 * (double)(items - i) >= (double)need_more) continue;
            r->all.pair[at] = (uint64_t)u << r->all.item_bits | (uint64_t)i;
            r->all.value[at++] = (pu_real)fmin(5, fmax(1, floor(3.6 + 1.1 * (double)y[i] + 0.5)));
            need_more--;
        }
    }
    r->all.count = (long)at;
    free(wild), free(y), free(count), free(share);
}

static void run_ratings(const flags *f)
{
    static stopwatch w;
    ratings r;
    pu_model model;
    pu_fit_options fit;
    pu_fit_report report;
    pu_real *theta;
    double sum = 0;
    int e, most = 0, i;
    memset(&r, 0, sizeof r), memset(&model, 0, sizeof model), memset(&fit, 0, sizeof fit);
    if (f->ratings) {
        if (!movielens_read(f->ratings, &r.all)) fail(1, f->ratings, r.all.error);
    } else {
        ratings_make(f, &r, f->once ? 200 : 6040);
    }
    ratings_split(&r, f->seed, 1);
    need(pu_model_factors(&model, r.items, (pu_int)f->factors, &report.last), &report.last);
    theta = need_reals(model.params);
    need(pu_model_start(&model, &r.data, (uint64_t)f->seed, theta, &report.last), &report.last);
    fit.gradient.kind = PU_OUTPUT, fit.gradient.engine = f->engine ? PU_ITERATIVE : PU_ENGINE_AUTO;
    fit.gradient.samples = (pu_int)f->samples, fit.gradient.solve.iterations = (pu_int)f->iterations;
    fit.gradient.threads = (int)f->threads, fit.gradient.seed = (uint64_t)f->seed;
    fit.batch = (pu_int)f->batch, fit.rate = 1e-3, fit.steps = f->once ? 1 : (pu_int)f->steps;
    fit.progress = stopwatch_step, fit.user = &w;
    w.last = seconds();
    if (f->once) { /* the first users, in place of a step */
        pu_data some = r.data;
        some.n = (pu_int)f->batch;
        (void)time_gradient(f, &model, theta, &some, &fit.gradient, &report.last);
    } else {
        need_fit(pu_fit(&model, &r.data, &fit, NULL, theta, &report), &report);
    }
    for (i = 0; i < w.count; i++) sum += w.step[i];
    for (e = 0; e < PU_ENGINES; e++)
        if (report.last.served[e] > report.last.served[most]) most = e;
    tell_begin(f, "ratings");
    tell_text(f, "data", f->ratings ? "file" : "made up");
    tell(f, "users", (double)r.seen);
    tell(f, "items", (double)r.items);
    tell(f, "D", (double)f->factors);
    tell(f, "batch", (double)f->batch);
    tell(f, "K", (double)f->samples);
    tell(f, "I", (double)f->iterations);
    tell_text(f, "engine", f->engine ? "iterative" : "auto");
    tell_text(f, "served_most", pu_engine_text((pu_engine)most));
    tell(f, "served_exactly", (double)(report.last.served[PU_DUAL] + report.last.served[PU_DENSE]));
    tell(f, "steps", (double)w.count);
    tell(f, "seconds", w.count ? best_third(w.count, w.step) : 0);
    tell(f, "seconds_mean", w.count ? sum / w.count : 0);
    tell_end(f);
    pu_model_free(&model), ratings_free(&r);
    free(theta);
}

/* ---- growth: one gradient over sizes ---- */

typedef struct {
    int count;
    double x[SIZES], theory[SIZES], t[SIZES]; /* size, work that theory expects, seconds */
    double full[SIZES];                       /* share of columns that ran all I steps, where told */
    double one;                               /* seconds of the last by one thread */
} sweep;

enum { ROUNDS = 3 }; /* of the last size, two threads and one in turns */

static void keep_least(double *least, double t)
{
    if (*least == 0 || t < *least) *least = t;
}

static double slope(const sweep *s, const double *y)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, n = s->count;
    int i;
    for (i = 0; i < s->count; i++) {
        const double u = log(s->x[i]), v = log(y[i]);
        sx += u, sy += v, sxx += u * u, sxy += u * v;
    }
    return n > 1 ? (n * sxy - sx * sy) / (n * sxx - sx * sx) : 0;
}

static void tell_sweep(const flags *f, const char *name, const char *settings, const sweep *s)
{
    tell_begin(f, name);
    tell_text(f, "settings", settings);
    tell_list(f, "size", s->count, s->x);
    tell_list(f, "seconds", s->count, s->t);
    if (s->full[0] > 0) tell_list(f, "full_columns", s->count, s->full);
    tell(f, "slope", slope(s, s->t));
    tell(f, "slope_expected", slope(s, s->theory));
    tell(f, "threads_gain", s->one / s->t[s->count - 1]);
    tell_end(f);
}

/* seconds at the size that is next; at the last one with one thread as well, in turns */
static void time_at(const flags *f, int last, pu_model *model, const pu_real *theta, const pu_data *data, pu_options *o,
                    pu_report *report, sweep *s)
{
    int round;
    for (round = 0; round < (last ? ROUNDS : 1); round++) {
        o->threads = (int)f->threads;
        keep_least(&s->t[s->count], time_gradient(f, model, theta, data, o, report));
        o->threads = 1;
        if (last) keep_least(&s->one, time_gradient(f, model, theta, data, o, report));
    }
}

static void run_growth_ar(const flags *f)
{
    sweep s;
    pu_options o;
    pu_report report;
    pu_int n;
    int round;
    memset(&s, 0, sizeof s);
    for (n = 1000; n <= (f->most ? f->most : 1000000); n *= 10, s.count++) {
        s.x[s.count] = s.theory[s.count] = (double)n;
        for (round = 0; round == 0 || (n * 10 > (f->most ? f->most : 1000000) && round < ROUNDS); round++) {
            keep_least(&s.t[s.count], ar_gradient(f, 4, n, (int)f->threads, &o, &report));
            if (n * 10 > (f->most ? f->most : 1000000)) keep_least(&s.one, ar_gradient(f, 4, n, 1, &o, &report));
        }
    }
    tell_sweep(f, "growth-ar", "network, 4 series, K = 10, I = 30; size: length", &s);
}

static void run_growth_fourier(const flags *f)
{
    const long most = f->most ? f->most : 1024;
    sweep s;
    flags small = *f;
    memset(&s, 0, sizeof s);
    for (small.size = 32; small.size <= most; small.size *= 2, s.count++) {
        scene c;
        pu_op Phi;
        pu_model model;
        pu_data data;
        pu_options o;
        pu_report report;
        pu_real *theta;
        small.data = NULL, small.images = 4;
        sensing_scene(&small, &c);
        memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
        Phi = pu_op_fourier(&c.plan), data = pu_data_masked(c.N, 2 * c.D, c.y, c.mask);
        need(pu_model_sparse(&model, &Phi, &report), &report);
        theta = need_reals(model.params);
        theta[c.D] = PU_R(9.2103404);
        o.samples = 3, o.solve.iterations = 10, o.solve.solver = PU_PCG;
        o.columns = (pu_int)f->columns;
        s.x[s.count] = (double)c.D, s.theory[s.count] = (double)c.D * log((double)c.D);
        time_at(f, small.size * 2 > most, &model, theta, &data, &o, &report, &s);
        free(theta);
        pu_model_free(&model), scene_free(&c);
    }
    tell_sweep(f, "growth-fourier", "network, 4 images, K = 3, I = 10, PCG; size: pixels; theory D log D", &s);
}

/* Users with 100 ratings of 1,000 items each; factors or users grow. Rows of Phi are from 1 to 30 times as long as at the start,
   by their number: there A is close to the identity, the more so the larger D, and columns would end at rounding level after 9
   steps (D = 200) or 6 (2,000) instead of all I. */
static void growth_factors(const flags *f, const char *name, const char *settings, int count, const pu_int *D, const pu_int *N)
{
    const pu_int items = 1000, each = 100;
    sweep s;
    memset(&s, 0, sizeof s);
    for (; s.count < count; s.count++) {
        const pu_int d = D[s.count], n = N[s.count];
        pu_real *y = need_reals(n * each), *theta;
        pu_int *start = (pu_int *)need_bytes((size_t)(n + 1) * sizeof *start), i,
               *index = (pu_int *)need_bytes((size_t)(n * each) * sizeof *index);
        pu_model model;
        pu_data data;
        pu_options o;
        pu_report report;
        pu_normals((uint64_t)f->seed, 0, 3, 0, 3, 0, n * each, y);
        for (i = 0; i < n * each; i++) start[i / each + 1] = i + 1, index[i] = i % each * 10 + i / each % 10;
        data = pu_data_lists(n, items, start, index, y);
        memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
        need(pu_model_factors(&model, items, d, &report), &report);
        theta = need_reals(model.params);
        need(pu_model_start(&model, &data, (uint64_t)f->seed, theta, &report), &report);
        for (i = 0; i < items * d; i++) theta[i] *= (pu_real)pow(30, (double)(i / d) / (double)items);
        o.kind = PU_OUTPUT, o.samples = 7, o.solve.iterations = 10;
        s.x[s.count] = (double)(N[0] == N[1] ? d : n), s.theory[s.count] = (double)d * (double)n;
        time_at(f, s.count + 1 == count, &model, theta, &data, &o, &report, &s);
        s.full[s.count] = (double)report.stops[PU_STOP_STEPS] / (double)(n * (o.samples + 1));
        free(y), free(start), free(index), free(theta);
        pu_model_free(&model);
    }
    tell_sweep(f, name, settings, &s);
}

static void run_growth_factors(const flags *f)
{
    static const pu_int D[6] = {50, 100, 200, 500, 1000, 2000}, N[6] = {200, 200, 200, 200, 200, 200};
    growth_factors(f, "growth-factors", "output, iterative, 200 users, K = 7, I = 10; size: D", f->most ? 4 : 6, D, N);
}

static void run_growth_users(const flags *f)
{
    static const pu_int D[5] = {50, 50, 50, 50, 50}, N[5] = {1000, 3000, 10000, 30000, 100000};
    growth_factors(f, "growth-users", "output, iterative, D = 50, K = 7, I = 10; size: N", f->most ? 3 : 5, D, N);
}

/* ---- */

typedef struct {
    const char *name;
    void (*run)(const flags *f);
    long samples, iterations, runs, steps;
} workload;

static const workload workloads[] = {
    {"ar", run_ar, 10, 30, 5, 0},
    {"ar-fit", run_ar_fit, 0, 0, 2, 0},
    {"sensing", run_sensing, 30, 25, 3, 0},
    {"sensing-fit", run_sensing_fit, 23, 10, 1, 60},
    {"ratings", run_ratings, 10, 10, 1, 7},
    {"growth-ar", run_growth_ar, 10, 30, 3, 0},
    {"growth-fourier", run_growth_fourier, 3, 10, 3, 0},
    {"growth-factors", run_growth_factors, 7, 10, 3, 0},
    {"growth-users", run_growth_users, 7, 10, 2, 0},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

int main(int argc, char **argv)
{
    flags f;
    option list[24];
    const char *name = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    int count = 0, i, ran = 0;
    memset(&f, 0, sizeof f);
    f.length = 30000, f.series = 5, f.size = 128, f.images = 10, f.factors = 1000, f.batch = 100, f.threads = 2, f.seed = 1;
    f.rate = 1;
    list[count++] = opt_number("threads", "of ours", &f.threads, 1, 1024);
    list[count++] = opt_number("runs", "timed, the best counts (0 = the workload's own number)", &f.runs, 0, 1000);
    list[count++] = opt_number("length", "ar: of a series", &f.length, 10, 100000000);
    list[count++] = opt_number("series", "ar: how many", &f.series, 1, 10000);
    list[count++] = opt_number("size", "sensing: side of an image", &f.size, 8, 4096);
    list[count++] = opt_number("images", "sensing: how many", &f.images, 1, 10000);
    list[count++] = opt_number("factors", "ratings: D", &f.factors, 1, 100000);
    list[count++] = opt_number("batch", "ratings: users of a step", &f.batch, 1, 100000);
    list[count++] = opt_number("steps", "of a fit (0 = the workload's own number)", &f.steps, 0, STEPS);
    list[count++] = opt_number("samples", "K (0 = the workload's own number)", &f.samples, 0, 10000);
    list[count++] = opt_number("iterations", "I (0 = the workload's own number)", &f.iterations, 0, 10000);
    list[count++] = opt_number("most", "growth: largest size (0 = the paper's)", &f.most, 0, 100000000);
    list[count++] = opt_number("columns", "sensing: solved at a time (0 = the library's choice)", &f.columns, 0, 1024);
    list[count++] = opt_number("seed", "of all random numbers", &f.seed, 0, 1000000000);
    list[count++] = opt_choice("adjoint", "how the network gradient goes back", &f.adjoint, "auto,full,shortcut");
    list[count++] = opt_choice("engine", "ratings", &f.engine, "auto,iterative");
    list[count++] = opt_real("target", "sensing-fit: stop at this NRMSE in percent (0 = never)", &f.target, 0, 100);
    list[count++] = opt_text("data", "problem of a rival (ar-fit, sensing, sensing-fit)", &f.data);
    list[count++] = opt_text("ratings", "file of MovieLens", &f.ratings);
    list[count++] = opt_text("save", "ar-fit: write the series to this CSV file", &f.save);
    list[count++] = opt_flag("json", "a line of JSON for each workload", &f.json);
    list[count++] = opt_flag("once", "one gradient, not timed", &f.once);
    options_read(argc - (name != NULL), argv + (name != NULL), "workloads",
                 "The paper's workloads, timed. First word: which one; none: all.", count, list);
    for (i = 0; i < WORKLOADS; i++) {
        flags own = f;
        if (name && strcmp(name, workloads[i].name)) continue;
        if (strncmp(workloads[i].name, "growth", 6) == 0 && !f.most && !f.once) own.least = 0.5;
        if (!own.samples) own.samples = workloads[i].samples;
        if (!own.iterations) own.iterations = workloads[i].iterations;
        if (!own.runs) own.runs = workloads[i].runs;
        if (!own.steps) own.steps = workloads[i].steps;
        workloads[i].run(&own);
        ran++;
    }
    if (!ran) fail(2, name, "is no workload; see --help");
    return 0;
}

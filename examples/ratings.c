/* ratings.c - who will like which film: factor analysis of MovieLens ratings, with an uncertainty for every prediction.

   cc -O3 -march=native -fopenmp -I. examples/ratings.c -o ratings -lm
   mpicc -O3 -march=native -DPU_MPI -I. examples/ratings.c -o ratings_mpi -lm                 (then mpirun -n 4 ./ratings_mpi ..)
   nvcc -O3 -x cu -DPU_CUDA -I. examples/ratings.c -o ratings -lcublas -lcufft -lcurand       (for --device cuda)
   ./ratings --data ratings.csv --recommend 1 --save films.model --report ratings.html
   ./ratings --load films.model --data new_users.csv --recommend all        (no fit: what is known of these users, and the model)
   ./ratings --load films.model --data ratings.csv --predict pairs.csv --predictions answers.csv

   User n has factors z_n ~ N(0, I) and gives item m the rating y = Phi_m'z_n + eta_m + N(0, 1/psi_m). Phi, eta, psi are found
   from the ratings that are there, by maximum a posteriori: most items have few ratings, and maximum likelihood believes them.
   How strong the priors are is found from the data as well (see "priors"); rate and epochs follow their size, so that --data
   is all that must be said. --paper is the paper's recipe instead: maximum likelihood, 20 epochs of Adam at the rate 0.001 with
   4 x 25 users a step, CG with K = I = 10 for every user.
   A tenth of the ratings is kept for the test and a tenth of the others for validation; the parameters with the best validation
   error are tested. Predictions are made from the training ratings of the user, kept within the rating scale, and are 3 for a
   user without any.
   A model that was saved serves any file of ratings: items are found by their numbers, and users who were not there get their
   factors from their ratings. --recommend and --predict go from all ratings of a user in --data, exactly, and give the same bits in
   the process that fitted and in others.

   Numbers are float here: half the memory, and ratings are not known to six digits. -DRATINGS_DOUBLE makes them double.
*/
#define _POSIX_C_SOURCE 200809L /* the clock and the terminal in common/ */
#if !defined(PU_FLOAT) && !defined(RATINGS_DOUBLE)
#define PU_FLOAT
#endif
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/team_mpi.h"
#include "common/movielens.h"
#include "common/ratings.h"
#include "common/ratings_model.h"
#include "common/report.h"
#include "common/ratings_page.h"

enum { TOP = 100, PAGE_USERS = 3 }; /* most recommendations; most users whose recommendations a page has */

typedef struct {
    fit_flags flags; /* first: pu_fit's user pointer serves the progress line, too */
    long factors, batch, accumulate, epochs, split_seed, validate, keep, top, lanes;
    int dense;
    double loadings_prior, graded, means_prior, noise_prior; /* precisions; negative = from the data, see "priors" */
    double epsilon;
    int paper, schedule, decay, no_validation, train_nll;
    const char *path, *checkpoint, *resume, *save, *load, *recommend, *predict, *predictions, *simulate, *curve, *svg, *report;
    FILE *curve_file;
    ratings_way way;         /* of a page */
    double before, error;    /* steps of the pilot; the last validation error, until it is in `way` (NAN: it is) */
    ratings r;
    pu_options posterior;
    pu_workspace ws;
    pu_model model;
    pu_prior *priors, *kept; /* D + 2 each: columns of Phi, eta, log psi; those that the best pilot was under */
    double *count, *h;       /* per item: training ratings; what they say of an entry, a precision */
    pu_int each;             /* steps per epoch */
    pu_data share;           /* what this process fits */
    uint32_t mark;           /* fingerprint */
    ratings_model saved;     /* --load */
    pu_int *row;             /* of the model, for each item of the data; -1: it does not know that item. NULL: the items are its rows */
    pu_real *given;          /* of a team: what the user of --recommend gave every item, -1 where nothing */
} app;

/* ---- the data ---------------------------------------------------------------------------------------------- */

/* A line while the file is read, as fit_progress has it. */
static void read_progress(long count, double share, void *user)
{
    fit_flags *f = (fit_flags *)user;
    const int terminal = isatty(2);
    const double t = seconds();
    if (f->quiet || (!terminal && !(f->every > 0))) return;
    if (f->drawn <= 0) f->drawn = t;
    if (t - f->drawn < (terminal ? 0.2 : f->every)) return;
    f->drawn = t;
    fprintf(stderr, "%s  %.1f million ratings read", terminal ? "\r" : "", 1e-6 * (double)count);
    if (share >= 0) fprintf(stderr, ", %.0f %%", 100 * share);
    fprintf(stderr, "%s", terminal ? " \033[K" : "\n");
    fflush(stderr);
}

/* A number of the training data and the split: a checkpoint of others does not fit. All processes have the same. */
static uint32_t fingerprint_make(const app *a)
{
    uint32_t h = 2166136261u;
    pu_int i;
    share_begin(&a->r.team, sizeof h, &h);
    for (i = 0; i < a->r.train.start[a->r.seen]; i++)
        h = (h ^ (uint32_t)(a->r.train.item[i] * 1000 + (pu_int)(20 * a->r.train.y[i]))) * 16777619u;
    share_end(&a->r.team, sizeof h, &h);
    return h ^ (uint32_t)a->r.seen;
}

static uint32_t fingerprint(const app *a) { return a->mark; }

/* ---- predictions --------------------------------------------------------------------------------------------- */

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    app *a = (app *)user;
    double error;
    (void)theta; /* to which Adam has set the model */
    error = ratings_rmse(&a->r, &model->lgm, &a->r.valid, &a->posterior, &a->ws);
    if (!a->flags.quiet) printf("  validation RMSE %.4f\n", error), fflush(stdout);
    return a->error = error;
}

/* ---- priors -----------------------------------------------------------------------------------------------------

   Column j of Phi ~ N(c_j, 1/a_j), eta ~ N(c, 1/a), log psi ~ N(c, 1/a), each with a precision a and a centre c of its own. c_0
   is the spread of the users' means: the first factor is how kind a user is. The other columns have c_j = 0.
   Precisions that nobody has given are found by empirical Bayes. Given a, the posterior variance of an entry of row m is about
   1/(a + h_m), h_m = psi_m times the ratings of item m (half of them for log psi), and the likelihood of a is largest where

       1/a = mean over m of (entry - c)^2 + 1/(a + h_m),

   which is iterated. A factor that the data do not support ends at a = infinity, so that too many do no harm. A pilot fit does
   so after every epoch; the fit proper then goes on from its best point with priors that stay. They are twice as strong for Phi:
   its entries, which are taken for known when ratings are predicted, and which wander at the constant rate of a pilot, scatter
   more than they should. */

enum { ROUNDS = 20 }; /* of the iteration, after an epoch */
static const double start_share = 150, start_graded = 10, firmer = 2;

static int from_data(const app *a) { return a->loadings_prior < 0 || a->means_prior < 0 || a->noise_prior < 0; }

/* A prior of the entries first, first + stride, .. of theta, one per item. */
static pu_prior prior_make(const app *a, pu_int first, pu_int stride, double mean, double precision)
{
    pu_prior p;
    memset(&p, 0, sizeof p);
    p.kind = PU_PRIOR_GAUSSIAN, p.first = first, p.count = a->r.items, p.stride = stride;
    p.mean = mean, p.precision = precision;
    return p;
}

/* Precision of column j at the start: a 150th of the noise's variance, and less for later ones, or what was asked for. */
static double loadings_precision(const app *a, pu_int j, double psi)
{
    if (a->loadings_prior < 0) return start_share * psi * (1 + (double)j / start_graded);
    return a->loadings_prior * (a->graded > 0 ? 1 + (double)j / a->graded : 1);
}

/* The precision of one prior by the iteration above, with a->h. */
static void prior_learn(const app *a, pu_prior *p, const pu_real *theta)
{
    const pu_int M = a->r.items;
    double square = 0;
    pu_int m;
    int round;
    for (m = 0; m < M; m++) {
        const double off = (double)theta[p->first + m * p->stride] - p->mean;
        square += off * off;
    }
    for (round = 0; round < ROUNDS; round++) {
        double sum = square;
        for (m = 0; m < M; m++) sum += 1 / (p->precision + a->h[m]);
        p->precision = (double)M / sum;
    }
}

/* The middle of the entries of a prior. */
static double prior_middle(const app *a, const pu_prior *p, const pu_real *theta)
{
    double sum = 0;
    pu_int m;
    for (m = 0; m < a->r.items; m++) sum += (double)theta[p->first + m * p->stride];
    return sum / (double)a->r.items;
}

/* Priors that nobody has given, from the theta that there is. */
static void priors_learn(app *a, const pu_real *theta)
{
    const pu_int M = a->r.items, D = (pu_int)a->factors;
    pu_prior *means = &a->priors[D], *noise = &a->priors[D + 1];
    pu_int m, j;
    for (m = 0; m < M; m++) a->h[m] = a->count[m] * exp((double)theta[noise->first + m]);
    for (j = 0; j < D && a->loadings_prior < 0; j++) prior_learn(a, &a->priors[j], theta);
    if (a->means_prior < 0) {
        means->mean = prior_middle(a, means, theta);
        prior_learn(a, means, theta);
    }
    if (a->noise_prior < 0) {
        for (m = 0; m < M; m++) a->h[m] = a->count[m] / 2;
        noise->mean = prior_middle(a, noise, theta);
        prior_learn(a, noise, theta);
    }
}

/* Root mean square of the users' means, after those of the items are taken off. */
static double users_spread(const app *a, const pu_real *eta)
{
    const ratings_lists *t = &a->r.train;
    double sum = 0;
    pu_int i, k;
    share_begin(&a->r.team, sizeof sum, &sum);
    for (i = 0; i < a->r.seen; i++) {
        double off = 0;
        if (t->start[i] == t->start[i + 1]) continue; /* a user of another process */
        for (k = t->start[i]; k < t->start[i + 1]; k++) off += (double)(t->y[k] - eta[t->item[k]]);
        off /= (double)(t->start[i + 1] - t->start[i]);
        sum += off * off / (double)a->r.seen;
    }
    share_end(&a->r.team, sizeof sum, &sum);
    return sqrt(sum);
}

/* The library's start from ratings that nobody has all of: from two users in their place, who give every item its mean plus and minus
   its standard deviation (that of all items where it has fewer than two that differ), and one who gives none. moment: per item the number
   of ratings, their sum and the sum of their squares. */
static void start_from_moments(app *a, const double *moment, pu_real *theta)
{
    const pu_int M = a->r.items;
    pu_int *item = (pu_int *)need_bytes((size_t)(2 * M) * sizeof *item), start[4], m;
    pu_real *y = need_reals(2 * M);
    double count = 0, sum = 0, within = 0; /* of all ratings; squares about the means of their items */
    pu_data two;
    pu_report report;
    for (m = 0; m < M; m++) {
        const double *const own = moment + 3 * m;
        count += own[0], sum += own[1];
        if (own[0] > 0) within += fmax(own[2] - own[1] * own[1] / own[0], 0);
    }
    for (m = 0; m < M; m++) {
        const double *const own = moment + 3 * m, mean = own[0] > 0 ? own[1] / own[0] : sum / count;
        double variance = own[0] > 0 ? own[2] / own[0] - mean * mean : 0;
        if (!(variance > 1e-9 * mean * mean)) variance = within / count;
        item[m] = item[M + m] = m;
        y[m] = (pu_real)(mean - sqrt(variance)), y[M + m] = (pu_real)(mean + sqrt(variance));
    }
    start[0] = 0, start[1] = M, start[2] = start[3] = 2 * M;
    two = pu_data_lists(3, M, start, item, y);
    need(pu_model_start(&a->model, &two, (uint64_t)a->flags.seed, theta, &report), &report);
    free(item), free(y);
}

/* Per item the number of training ratings, their sum and the sum of their squares; then the mean of all. The same on all processes. */
static double *start_moments(const app *a)
{
    const ratings_lists *t = &a->r.train;
    const pu_int M = a->r.items;
    const size_t bytes = (size_t)(3 * M + 1) * sizeof(double);
    double *moment = (double *)need_bytes(bytes);
    pu_int i;
    share_begin(&a->r.team, bytes, moment);
    for (i = 0; i < t->start[a->r.seen]; i++) {
        const double y = (double)t->y[i];
        double *const own = moment + 3 * t->item[i];
        own[0] += 1, own[1] += y, own[2] += y * y;
        moment[3 * M] += y / (double)a->r.total[RATINGS_TRAIN];
    }
    share_end(&a->r.team, bytes, moment);
    return moment;
}

/* The model, its priors, and a start from the training ratings. */
static pu_real *start(app *a)
{
    const pu_int M = a->r.items, D = (pu_int)a->factors;
    pu_real *theta, *eta, *log_psi;
    double mean, middle = 0, spread, *moment = start_moments(a);
    pu_report report;
    pu_int m, j;
    need(pu_model_factors(&a->model, M, D, &report), &report);
    theta = need_reals(a->model.params), eta = theta + M * D, log_psi = eta + M;
    if (a->r.team.ranks) start_from_moments(a, moment, theta);
    else need(pu_model_start(&a->model, &a->r.data, (uint64_t)a->flags.seed, theta, &report), &report);
    a->count = (double *)need_bytes((size_t)M * sizeof(double)), a->h = (double *)need_bytes((size_t)M * sizeof(double));
    a->priors = (pu_prior *)need_bytes((size_t)(D + 2) * sizeof(pu_prior));
    a->kept = (pu_prior *)need_bytes((size_t)(D + 2) * sizeof(pu_prior));
    mean = moment[3 * M];
    for (m = 0; m < M; m++) a->count[m] = moment[3 * m];
    free(moment);
    for (m = 0; m < M; m++) middle += (double)log_psi[m] / (double)M;
    spread = users_spread(a, eta);
    for (j = 0; j < D; j++) a->priors[j] = prior_make(a, j, D, j ? 0 : spread, loadings_precision(a, j, exp(middle)));
    a->priors[D] = prior_make(a, M * D, 1, mean, a->means_prior < 0 ? 3 * exp(middle) : a->means_prior);
    a->priors[D + 1] = prior_make(a, M * D + M, 1, middle, a->noise_prior < 0 ? 10 : a->noise_prior);
    for (m = 0; m < M; m++) {
        const double known = a->count[m] / (a->count[m] + 10); /* few ratings: near the middle of the prior */
        for (j = 0; j < D && a->loadings_prior != 0; j++) /* the library's random row has entries of variance 1 / (3 D psi) */
            theta[m * D + j] *= (pu_real)(known * sqrt(3 * (double)D * exp((double)log_psi[m]) / a->priors[j].precision));
        theta[m * D] = (pu_real)spread; /* the first factor begins as how kind a user is, the same for all items */
        if (a->means_prior != 0) eta[m] = (pu_real)(mean + known * ((double)eta[m] - mean));
        if (a->noise_prior != 0) log_psi[m] = (pu_real)(middle + known * ((double)log_psi[m] - middle));
    }
    if (a->loadings_prior != 0 || a->means_prior != 0 || a->noise_prior != 0)
        a->model.priors = a->priors, a->model.prior_count = D + 2;
    return theta;
}

/* ---- the fit ---------------------------------------------------------------------------------------------------- */

/* A line of progress, and one of --curve. */
static int progress(const pu_fit_report *now, void *user)
{
    app *a = (app *)user;
    if (a->curve_file) fprintf(a->curve_file, "%ld,%.9g,%.9g\n", (long)now->step, now->objective, now->gradient);
    if (a->error == a->error) ratings_way_add(&a->way, a->before + (double)now->step, a->error), a->error = (double)NAN;
    return fit_progress(now, user);
}

/* What a pilot leaves behind: the report of it, and theta. It is kept beside the checkpoint of the fit that follows. */
typedef struct {
    char magic[8];
    uint32_t data;
    pu_int params, of, step, best_step; /* of: steps that were asked for, in all */
    double best, seconds;
} pilot_end;

static const char pilot_magic[] = "ratings2";

static char *pilot_path(const app *a, const char *end)
{
    const char *state = a->resume ? a->resume : a->checkpoint;
    char *path = (char *)need_bytes(strlen(state) + strlen(end) + 1);
    strcpy(path, state), strcat(path, end);
    return path;
}

/* The end of a pilot, its priors and its theta to or from a file; 0: it is not all there. */
static int pilot_pass(app *a, FILE *file, int write, pilot_end *e, pu_real *theta)
{
    const size_t priors = (size_t)a->factors + 2, params = (size_t)a->model.params;
    if (write)
        return fwrite(e, sizeof *e, 1, file) == 1 && fwrite(a->priors, sizeof *a->priors, priors, file) == priors &&
               fwrite(theta, sizeof *theta, params, file) == params;
    return fread(e, sizeof *e, 1, file) == 1 && !memcmp(e->magic, pilot_magic, sizeof e->magic) && e->data == fingerprint(a) &&
           e->params == a->model.params && fread(a->priors, sizeof *a->priors, priors, file) == priors &&
           fread(theta, sizeof *theta, params, file) == params;
}

static void pilot_save(app *a, pilot_end *e, pu_real *theta)
{
    char *path = pilot_path(a, ".pilot"), *new_path = pilot_path(a, ".pilot~");
    FILE *file = fopen(new_path, "wb");
    if (!file) fail_errno("cannot write", new_path);
    if (!pilot_pass(a, file, 1, e, theta)) fail(1, new_path, "writing failed");
    file_close(file, new_path);
    if (rename(new_path, path)) fail_errno("cannot write", path);
    free(path), free(new_path);
}

/* 0: there is none that fits, so that the pilot is fitted again, with the same end. theta and priors are then as they were. */
static int pilot_load(app *a, pilot_end *e, pu_real *theta)
{
    const size_t bytes = (size_t)a->model.params * sizeof *theta, room = ((size_t)a->factors + 2) * sizeof *a->priors;
    char *path = pilot_path(a, ".pilot");
    pu_real *before = need_reals(a->model.params);
    FILE *file = fopen(path, "rb");
    int good;
    memcpy(before, theta, bytes), memcpy(a->kept, a->priors, room);
    good = file && pilot_pass(a, file, 0, e, theta);
    if (!good) memcpy(theta, before, bytes), memcpy(a->priors, a->kept, room);
    if (file) fclose(file);
    free(before), free(path);
    return good;
}

/* What the first process of a team has taken up, to all: its files may be there alone. */
static void pilot_tell(app *a, const pu_team *team, int *loaded, pilot_end *e, pu_real *theta)
{
    pu_status status;
    if (!team) return;
    status = pu_team_broadcast(team, sizeof *loaded, loaded);
    if (!status && *loaded) status = pu_team_broadcast(team, sizeof *e, e);
    if (!status && *loaded) status = pu_team_broadcast(team, ((size_t)a->factors + 2) * sizeof *a->priors, a->priors);
    if (!status && *loaded) status = pu_team_broadcast(team, (size_t)a->model.params * sizeof *theta, theta);
    if (status) fail(1, "team.swap", pu_status_text(status));
}

/* After every epoch of a pilot: the priors of the best point so far are kept, and learned anew. */
static int pilot_progress(const pu_fit_report *now, void *user)
{
    app *a = (app *)user;
    if (now->step % a->each == 0) {
        if (now->best_step < 0 || now->best_step == now->step)
            memcpy(a->kept, a->priors, ((size_t)a->factors + 2) * sizeof *a->kept);
        priors_learn(a, pu_fit_theta(now));
    }
    return progress(now, user);
}

/* Half of the steps at a constant rate, fewer once validation does not improve; then the priors of the fit proper. */
static void pilot(app *a, const pu_fit_options *options, pu_real *theta, pu_fit_report *report)
{
    pu_fit_options o = *options;
    pu_int j;
    o.steps = options->steps / 2, o.schedule = PU_RATE_CONSTANT, o.checkpoint = NULL, o.resume = 0, o.checkpoint_every = 0;
    o.progress = pilot_progress;
    if (o.validate) o.validate_every = a->each, o.patience = 2;
    memcpy(a->kept, a->priors, ((size_t)a->factors + 2) * sizeof *a->kept);
    fit_run(&a->model, &a->share, &o, &a->ws, theta, report);
    if (report->step >= a->each) {
        memcpy(a->priors, a->kept, ((size_t)a->factors + 2) * sizeof *a->kept);
        priors_learn(a, theta);
    }
    for (j = 0; j < (pu_int)a->factors && a->loadings_prior < 0; j++) a->priors[j].precision *= firmer;
}

/* The whole fit; the report is of all of it. */
static void fit(app *a, pu_fit_options *options, pu_real *theta, pu_fit_report *report)
{
    const int keeps = options->checkpoint != NULL;
    pu_real *first;
    pilot_end e;
    int loaded = 0;
    if (!from_data(a) || options->steps < 2) {
        fit_run(&a->model, &a->share, options, &a->ws, theta, report);
        return;
    }
    memset(&e, 0, sizeof e);
    if (options->resume && team_rank() == 0) loaded = pilot_load(a, &e, theta);
    if (options->resume) pilot_tell(a, options->team, &loaded, &e, theta);
    if (loaded && e.of != options->steps) { /* another pilot would have come before, and other priors of it */
        char why[160];
        snprintf(why, sizeof why, "is of a fit of %ld steps, half of them for its priors; %ld cannot go on from there", (long)e.of,
                 (long)options->steps);
        fail(1, a->resume, why);
    }
    if (!loaded) {
        pilot(a, options, theta, report);
        if (report->stop == PU_FIT_CALLBACK) return;
        memcpy(e.magic, pilot_magic, sizeof e.magic);
        e.data = fingerprint(a), e.params = a->model.params, e.of = options->steps;
        e.step = report->step, e.best = report->best, e.best_step = report->best_step, e.seconds = report->seconds;
        if (keeps && team_rank() == 0) pilot_save(a, &e, theta);
    }
    first = need_reals(a->model.params);
    memcpy(first, theta, (size_t)a->model.params * sizeof *theta);
    options->steps -= options->steps / 2, a->before = (double)e.step;
    fit_run(&a->model, &a->share, options, &a->ws, theta, report);
    if (e.best_step >= 0 && !(report->best < e.best)) { /* the pilot was better */
        pu_report told;
        memcpy(theta, first, (size_t)a->model.params * sizeof *theta);
        need(pu_model_set(&a->model, theta, &told), &told);
        report->best = e.best, report->best_step = e.best_step;
    } else if (report->best_step >= 0) report->best_step += e.step;
    report->step += e.step, report->steps += e.step;
    if (loaded) report->resumed += (int)e.step;
    else report->seconds += e.seconds;
    free(first);
}

/* NLL of the training ratings per user and its standard error. Of a team each process has that of its parts, by the numbers of all. */
static void train_nll(app *a, const pu_real *theta, const pu_options *gradient, double *nll, double *nll_se)
{
    const pu_int parts = a->r.team.ranks ? a->r.team.parts : 0;
    double sum[2] = {0, 0}, *of_part = (double *)need_bytes((size_t)(2 * parts) * sizeof(double));
    double *passed = (double *)need_bytes((size_t)(2 * parts) * sizeof(double));
    pu_report report;
    pu_int p, first, count, i;
    if (!parts) fit_nll(&a->model, theta, &a->r.data, gradient, &a->ws, nll, nll_se, &report);
    for (p = 0; p < parts; p++) {
        pu_data part = a->r.data;
        pu_int *id;
        if (!ratings_of_part(&a->r, p, &first, &count)) continue;
        id = (pu_int *)need_bytes((size_t)count * sizeof *id);
        for (i = 0; i < count; i++) id[i] = first + i;
        part.start += first, part.n = count, part.id = id;
        fit_nll(&a->model, theta, &part, gradient, &a->ws, nll, nll_se, &report);
        of_part[2 * p] = *nll * (double)count / (double)a->r.seen;
        of_part[2 * p + 1] = pow(*nll_se * (double)count / (double)a->r.seen, 2);
        free(id);
    }
    share_begin(&a->r.team, (size_t)(2 * parts) * sizeof *passed, passed);
    for (p = 0; p < 2 * parts; p++) passed[p] += of_part[p];
    share_end(&a->r.team, (size_t)(2 * parts) * sizeof *passed, passed);
    for (p = 0; p < 2 * parts; p++) sum[p % 2] += passed[p];
    if (parts) *nll = sum[0], *nll_se = sqrt(sum[1]);
    free(of_part), free(passed);
}

/* ---- predictions and recommendations ------------------------------------------------------------------------- */

static int by_item(const void *a, const void *b)
{
    const ratings_pair *p = (const ratings_pair *)a, *q = (const ratings_pair *)b;
    return p->item < q->item ? -1 : p->item > q->item;
}

/* What the user of --recommend gave every item, -1 where nothing. All processes have a part in it, and all get it. */
static pu_real *rated(const app *a)
{
    const pu_int M = a->r.items, user = a->r.number[movielens_place(strtoll(a->recommend, NULL, 10), a->r.all.users, a->r.all.user_id)];
    const ratings_lists *const part[3] = {&a->r.train, &a->r.valid, &a->r.test};
    const size_t bytes = (size_t)M * sizeof(pu_real);
    pu_real *y = need_reals(M);
    pu_int i, n;
    for (i = 0; i < M; i++) y[i] = -PU_R(1);
    share_begin(&a->r.team, bytes, y);
    for (n = 0; n < 3; n++)
        for (i = part[n]->start[user]; i < part[n]->start[user + 1]; i++) y[part[n]->item[i]] = part[n]->y[i];
    share_end(&a->r.team, bytes, y);
    return y;
}

/* All ratings of a user of the data (its place there, or -1: none), in the order of the model's rows. */
static ratings_known known(const app *a, pu_int place)
{
    const ratings_lists *const part[3] = {&a->r.train, &a->r.valid, &a->r.test};
    const pu_int user = place < 0 ? 0 : a->r.number[place];
    ratings_known k = {0, NULL, NULL};
    ratings_pair *all;
    pu_int n, i, most = 0;
    if (a->given) { /* in a team, which has no other users to ask for */
        k.item = (pu_int *)need_bytes(((size_t)a->r.items + 1) * sizeof *k.item), k.y = need_reals(a->r.items + 1);
        for (i = 0; i < a->r.items; i++)
            if (a->given[i] >= PU_R(0)) k.item[k.count] = i, k.y[k.count++] = a->given[i];
        return k;
    }
    for (n = 0; n < 3 && place >= 0; n++) most += part[n]->start[user + 1] - part[n]->start[user];
    all = (ratings_pair *)need_bytes((size_t)most * sizeof *all);
    for (n = 0; n < 3 && place >= 0; n++)
        for (i = part[n]->start[user]; i < part[n]->start[user + 1]; i++) {
            const pu_int row = a->row ? a->row[part[n]->item[i]] : part[n]->item[i];
            if (row < 0) continue;
            all[k.count].item = row, all[k.count++].rating = (double)part[n]->y[i];
        }
    qsort(all, (size_t)k.count, sizeof *all, by_item);
    k.item = (pu_int *)need_bytes(((size_t)k.count + 1) * sizeof *k.item), k.y = need_reals(k.count + 1);
    for (i = 0; i < k.count; i++) k.item[i] = (pu_int)all[i].item, k.y[i] = (pu_real)all[i].rating;
    free(all);
    return k;
}

static pu_options exactly(const app *a)
{
    pu_options o = a->posterior;
    o.kind = PU_EXACT, o.engine = PU_ENGINE_AUTO, o.solve.tolerance = 0;
    return o;
}

/* Numbers of items: those of the model. */
static const int64_t *item_ids(const app *a) { return a->load ? a->saved.item_id : a->r.all.item_id; }

/* What is recommended to a user. */
typedef struct {
    int count;
    long known; /* ratings of this user */
    double middle; /* the mean of these */
    int64_t id[TOP];
    pu_real mean[TOP], sd[TOP], sd_rating[TOP]; /* of the expected rating, and of a rating */
} top_items;

/* The items with the highest expected rating among those that this user has not rated, given all ratings of the user. */
static void top_find(app *a, pu_int place, top_items *t)
{
    const pu_int M = a->model.lgm.Phi->rows;
    const int64_t *const ids = item_ids(a);
    pu_real *mean = need_reals(3 * M), *variance = mean + M, *noisy = mean + 2 * M;
    const pu_options exact = exactly(a);
    ratings_known k = known(a, place);
    pu_int start[2] = {0, 0}, i, n;
    pu_predict_result p;
    pu_data one;
    pu_report report;
    start[1] = k.count;
    one = pu_data_lists(1, M, start, k.item, k.y);
    memset(&p, 0, sizeof p);
    p.mean = mean, p.fit = variance, p.variance = noisy;
    need(pu_predict(&a->model.lgm, &one, &exact, &a->ws, &p, &report), &report);
    for (t->middle = 0, i = 0; i < k.count; i++) t->middle += (double)k.y[i] / (double)k.count;
    for (i = 0; i < k.count; i++) mean[k.item[i]] = -PU_R(1e30); /* seen already */
    for (t->known = (long)k.count, t->count = 0; t->count < a->top && t->count < M - k.count; t->count++) {
        for (n = 0, i = 1; i < M; i++)
            if (mean[i] > mean[n]) n = i;
        t->mean[t->count] = (pu_real)ratings_clip(&a->r, (double)mean[n]), t->sd[t->count] = (pu_real)sqrt((double)variance[n]);
        t->sd_rating[t->count] = (pu_real)sqrt((double)noisy[n]), t->id[t->count] = ids[n];
        mean[n] = -PU_R(1e30);
    }
    free(mean), free(k.item), free(k.y);
}

static void recommend_to(app *a, pu_int place, json *out, int alone)
{
    top_items t;
    int i;
    top_find(a, place, &t);
    if (!a->flags.quiet)
        printf("\nfor user %lld, who has rated %ld:\n    item  expected rating\n", (long long)a->r.all.user_id[place], t.known);
    for (i = 0; i < t.count && !a->flags.quiet; i++)
        printf("%8lld  %.2f +- %.2f\n", (long long)t.id[i], (double)t.mean[i], (double)t.sd[i]);
    if (!alone && out->file) fprintf(out->file, "%s\n  \"recommended_to_%lld\": {", out->keys++ ? "," : "", (long long)a->r.all.user_id[place]), out->keys = 0;
    json_key(out, "recommended");
    for (i = 0; i < t.count && out->file; i++) fprintf(out->file, "%s%lld", i ? ", " : "[", (long long)t.id[i]);
    if (out->file) fprintf(out->file, t.count ? "]" : "[]");
    json_array(out, "recommended_mean", t.count, t.mean);
    json_array(out, "recommended_sd", t.count, t.sd);
    if (!alone && out->file) fprintf(out->file, "\n  }");
}

/* --recommend: a user, several with commas between, or all. write = 0: whether there are such users is all that is wanted. */
static void recommend(app *a, json *out, int write)
{
    const char *at = a->recommend;
    pu_int i;
    if (!strcmp(at, "all")) {
        for (i = 0; i < a->r.users && write; i++) recommend_to(a, i, out, 0);
        return;
    }
    for (;;) {
        char *end;
        long long user;
        int32_t place;
        if (*at < '0' || *at > '9') fail(2, "--recommend", "takes the number of a user, several with commas between, or all");
        user = strtoll(at, &end, 10), place = movielens_place(user, a->r.all.users, a->r.all.user_id);
        if (*end && *end != ',') fail(2, "--recommend", "takes the number of a user, several with commas between, or all");
        if (place < 0) fail(1, "--recommend", "there is no such user");
        if (write) recommend_to(a, place, out, !strchr(a->recommend, ','));
        if (!*end) return;
        at = end + 1;
    }
}

/* --predict: the pairs of a file, user by user, written in the order of the file. */
static void predict(app *a, json *out)
{
    const pu_int M = a->model.lgm.Phi->rows;
    const pu_options exact = exactly(a);
    FILE *to = a->predictions ? file_open(a->predictions) : stdout;
    ratings_pairs all;
    double sum = 0;
    long i, n, known_rated = 0;
    pu_int *row;
    ratings_pairs_read(a->predict, &all);
    row = (pu_int *)need_bytes((size_t)all.count * sizeof *row);
    qsort(all.pair, (size_t)all.count, sizeof *all.pair, ratings_pair_by_user);
    for (i = 0; i < all.count; i++) {
        row[i] = movielens_place(all.pair[i].item, (int32_t)M, item_ids(a));
        all.unknown += row[i] < 0;
    }
    for (i = 0; i < all.count; i += n) {
        ratings_known k = known(a, movielens_place(all.pair[i].user, a->r.all.users, a->r.all.user_id));
        for (n = 1; i + n < all.count && all.pair[i + n].user == all.pair[i].user && n < 10000; n++) {}
        ratings_predict(&a->model.lgm, &k, &exact, &a->ws, n, row + i, all.pair + i);
        free(k.item), free(k.y);
    }
    qsort(all.pair, (size_t)all.count, sizeof *all.pair, ratings_pair_by_place);
    fprintf(to, "userId,movieId,prediction,sd,sd_rating\n");
    for (i = 0; i < all.count; i++) {
        const ratings_pair *p = &all.pair[i];
        const double y = ratings_clip(&a->r, p->mean);
        if (p->mean - p->mean == 0)
            fprintf(to, "%lld,%lld,%.9g,%.9g,%.9g\n", (long long)p->user, (long long)p->item, y, p->sd, p->sd_rating);
        else
            fprintf(to, "%lld,%lld,NA,NA,NA\n", (long long)p->user, (long long)p->item);
        if (p->rating >= 0 && p->mean - p->mean == 0) sum += (y - p->rating) * (y - p->rating), known_rated++;
    }
    if (a->predictions) file_close(to, a->predictions);
    if (all.unknown)
        fprintf(stderr, "%s: %s: %ld of %ld pairs have an item that the model does not know: NA\n", program_name, a->predict, all.unknown,
                all.count);
    if (!a->flags.quiet && a->predictions) {
        printf("%ld predictions", all.count - all.unknown);
        if (known_rated) printf(", RMSE %.4f of the %ld that have a rating", sqrt(sum / (double)known_rated), known_rated);
        printf("\n");
    }
    json_number(out, "predictions", (double)(all.count - all.unknown));
    json_number(out, "predictions_rmse", known_rated ? sqrt(sum / (double)known_rated) : (double)NAN);
    free(row), free(all.pair);
}

/* ---- a model that is kept ---------------------------------------------------------------------------------------- */

static void save(app *a, const pu_real *theta, const pu_fit_report *fitted)
{
    char *notes = ratings_notes(&a->r, fingerprint(a), (long)fitted->step, (long)fitted->steps), text[700];
    pu_report report;
    if (pu_model_save(&a->model, theta, notes, a->save, &report)) fail(1, a->save, pu_explain(&report, text, sizeof text));
    free(notes);
}

/* Which rows of a loaded model the items of the data are; the scale of ratings is the model's. */
static void match(app *a)
{
    long left = 0, items = 0;
    pu_int i;
    a->row = (pu_int *)need_bytes((size_t)a->r.items * sizeof *a->row);
    for (i = 0; i < a->r.items; i++) {
        a->row[i] = movielens_place(a->r.all.item_id[i], (int32_t)a->saved.items, a->saved.item_id);
        items += a->row[i] < 0;
    }
    for (i = 0; i < a->r.train.start[a->r.users]; i++) left += a->row[a->r.train.item[i]] < 0;
    for (i = 0; i < a->r.valid.start[a->r.users]; i++) left += a->row[a->r.valid.item[i]] < 0;
    for (i = 0; i < a->r.test.start[a->r.users]; i++) left += a->row[a->r.test.item[i]] < 0;
    if (items)
        fprintf(stderr, "%s: %s: %ld of %ld items are not in %s: their %ld ratings are left out\n", program_name, a->path, items,
                (long)a->r.items, a->load, left);
    a->r.all.low = a->saved.low, a->r.all.high = a->saved.high;
}

/* Were these ratings, split like this, those that a loaded model was trained on? Then its test error is one. */
static int is_its_own(const app *a)
{
    pu_int i;
    if (a->saved.data != fingerprint(a) || a->saved.items != a->r.items) return 0;
    for (i = 0; i < a->r.items; i++)
        if (a->row[i] != i) return 0;
    return 1;
}

/* Better to fail now than after the fit: can the model be kept there? */
static void save_ready(const char *path)
{
    FILE *there = path ? fopen(path, "rb") : NULL;
    const int empty = there && fgetc(there) == EOF;
    pu_saved about;
    if (there) fclose(there);
    if (there && !empty && pu_model_saved(path, &about, NULL)) fail(1, path, "is there, and is no saved model: it would not be replaced");
    file_ready(path);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

typedef struct { /* what the page tells beside the recommendations */
    const pu_fit_report *fit;
    double test;
    ratings_rival rival;
    ratings_check_record check;
} page_facts;

static void page_answer(const app *a, const report_page *page, const page_facts *facts)
{
    const double test = facts->test, mean = facts->rival.mean;
    if (!(test == test)) {
        report_answer(page, "What a model of %ld items, with %ld factors, recommends to users it need not have met.", (long)a->saved.items,
                      (long)a->saved.factors);
        return;
    }
    report_answer(page, "A rating is predicted to within %.3f (root mean square, %ld test ratings, on a scale from %g to %g); the mean of the item "
                        "is off by %.3f.", test, a->r.total[RATINGS_TEST], a->r.all.low, a->r.all.high, mean);
    if (fit_interrupted) report_text(page, "Interrupted: this is the state after its last step.");
    report_text(page, "%ld ratings of %ld items by %ld users. %s", a->r.total[0] + a->r.total[1] + a->r.total[2], (long)a->r.items, (long)a->r.users,
                test >= facts->rival.both ? "The means of item and user together do as well or better: the factors have found nothing that counts."
                : test > 0.98 * facts->rival.both ? "The means of item and user together come within 2 % of that: the factors add little."
                                                   : "What the factors know beyond the means of item and user is in the table below.");
}

static void page_rivals(const report_page *page, const page_facts *facts)
{
    static const char *const name[3] = {"mean of the item", "mean of the item, offset of the user", "factors"};
    const double error[3] = {facts->rival.mean, facts->rival.both, facts->test}, least = fmin(error[0], fmin(error[1], error[2]));
    int i;
    report_table(page, "prediction|test error|gain");
    for (i = 0; i < 3; i++) {
        report_row(page, name[i]);
        report_cell(page, error[i] <= least, "%.4f", error[i]);
        if (i == 0) report_cell(page, 0, "-");
        else report_cell(page, 0, "%.1f %%", 100 * (1 - error[i] / error[0]));
    }
    report_table_end(page, "Root mean square errors of the test ratings, and how much less they are than the first. All three know the training ratings and "
                           "nothing else.");
}

static void page_way(const app *a, const report_page *page, const page_facts *facts)
{
    const double each = (double)a->each;
    report_section(page, "Learning curve");
    if (a->way.points == 0) {
        report_text(page, "There was no validation on the way.");
        return;
    }
    report_figure(page);
    (void)ratings_draw_way(&a->way, each, (double)facts->fit->best_step, facts->rival.valid_mean, page->file, 0);
    report_caption(page, "Error of %ld validation ratings, which the fit does not see. It was least, %.4f, after %.3g of %.3g passes; the parameters of "
                         "then are kept.%s%s", a->r.total[RATINGS_VALID], facts->fit->best, (double)facts->fit->best_step / each,
                   (double)facts->fit->step / each,
                   a->before > 0 ? " The first part, at a constant rate, is to find how strong the priors are; the second begins from its best point." : "",
                   facts->fit->resumed ? " The passes before the checkpoint that it went on from are not drawn." : "");
}

static void page_check(const report_page *page, const ratings_check_record *c)
{
    static const double level[4] = {0.5, 0.8, 0.9, 0.95}, wide[4] = {0.674490, 1.281552, 1.644854, 1.959964};
    double error, sd, se;
    char text[40];
    int i;
    report_section(page, "Do the intervals hold?");
    if (c->count == 0) {
        report_text(page, "There are no test ratings of users with training ratings.");
        return;
    }
    ratings_errors(c, 0, c->count, &error, &sd);
    report_figure(page);
    (void)ratings_draw_check(c, page->file, 0);
    report_caption(page, "%ld test ratings of %ld users, in groups by how certain they were said to be. On the dashed line errors are as large as "
                         "predicted; over all they are %.2f times that. Bars: 95 %% intervals.", c->count, c->users, error / sd);
    report_table(page, "interval|of the test ratings within");
    for (i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%.0f %%", 100 * level[i]);
        report_row(page, text);
        report_cell(page, 0, "%.1f %%", 100 * ratings_inside(c, wide[i]));
    }
    se = 100 * sqrt(0.95 * 0.05 / (double)c->count);
    snprintf(text, sizeof text, "%.1f", 1.96 * se);
    report_table_end(page, "Intervals of a normal distribution, with the parameters taken for known. Ratings are few whole or half steps, so that shares "
                           "below 95 % need not fit exactly.");
    if (fabs(ratings_inside(c, wide[3]) - 0.95) * 100 <= 1.96 * se)
        report_text(page, "The 95 %% intervals hold as often as they should, as far as this many ratings tell (+- %s %%).", text);
    else
        report_text(page, "The 95 %% intervals hold %s often than they should: by %.1f points, where chance explains %s.",
                    ratings_inside(c, wide[3]) < 0.95 ? "less" : "more", 100 * fabs(ratings_inside(c, wide[3]) - 0.95), text);
}

/* Errors by how many training ratings the item has. */
static void page_items(const report_page *page, const page_facts *facts)
{
    static const long from[5] = {0, 5, 20, 100, LONG_MAX};
    const ratings_check_record *c = &facts->check;
    int k;
    if (c->count == 0) return;
    report_section(page, "Known and unknown items");
    report_table(page, "training ratings of the item|test ratings|error|predicted");
    for (k = 0; k < 4; k++) {
        double count = 0, error = 0, sd = 0;
        char text[60];
        long i;
        for (i = 0; i < c->count; i++) {
            const ratings_checked *one = &c->at[i];
            const long n = (long)facts->rival.count[one->item];
            if (n < from[k] || n >= from[k + 1]) continue;
            count++, error += (one->y - one->mean) * (one->y - one->mean), sd += one->sd * one->sd;
        }
        if (count < 1) continue;
        if (k < 3) snprintf(text, sizeof text, "%ld to %ld", from[k], from[k + 1] - 1);
        else snprintf(text, sizeof text, "%ld or more", from[k]);
        report_row(page, text);
        report_cell(page, 0, "%.0f", count), report_cell(page, 0, "%.3f", sqrt(error / count)), report_cell(page, 0, "%.3f", sqrt(sd / count));
    }
    report_table_end(page, "Root mean squares. Predicted: the standard deviation that the model gives such a rating.");
}

static void page_top(app *a, const report_page *page, pu_int place)
{
    top_items t;
    svg_plot p;
    double low, high;
    int i, clear = 0;
    top_find(a, place, &t);
    if (t.count == 0) {
        report_text(page, "User %lld has rated every item.", (long long)a->r.all.user_id[place]);
        return;
    }
    low = t.known ? t.middle : (double)t.mean[0], high = low;
    for (i = 0; i < t.count; i++) {
        const double mean = (double)t.mean[i], half = 1.96 * (double)t.sd[i];
        low = fmin(low, mean - half), high = fmax(high, mean + half);
        clear += mean - half > t.middle;
    }
    memset(&p, 0, sizeof p);
    p.file = page->file, p.title = "recommendations", p.top = 30, p.height = 180, p.x_label = "recommendation", p.y_label = "expected rating";
    p.x0 = 0, p.x1 = t.count + 1, p.y0 = fmax(low - 0.1, a->r.all.low), p.y1 = fmin(high + 0.1, a->r.all.high);
    report_figure(page);
    svg_begin(&p);
    svg_legend(&p, "c2", '.', "expected, 95 %");
    if (t.known) {
        const double ends[2] = {p.x0, p.x1}, middle[2] = {t.middle, t.middle};
        svg_legend(&p, "note", '=', "mean of this user");
        svg_line(&p, 2, ends, middle, "note", 1, 0);
    }
    for (i = 0; i < t.count; i++)
        svg_interval(&p, i + 1, (double)t.mean[i] - 1.96 * (double)t.sd[i], (double)t.mean[i], (double)t.mean[i] + 1.96 * (double)t.sd[i], "c2");
    svg_end(&p);
    if (t.known)
        report_caption(page, "User %lld has rated %ld items, %.2f in the mean. Of the %d best others %d lie above that with their whole interval.",
                       (long long)a->r.all.user_id[place], t.known, t.middle, t.count, clear);
    else
        report_caption(page, "User %lld has rated nothing that the model knows: these are the items that people in general like.",
                       (long long)a->r.all.user_id[place]);
    report_table(page, "item|expected|95 % of that|95 % of a rating");
    for (i = 0; i < t.count; i++) {
        const double mean = (double)t.mean[i], half[2] = {1.96 * (double)t.sd[i], 1.96 * (double)t.sd_rating[i]};
        char text[40];
        int k;
        snprintf(text, sizeof text, "%lld", (long long)t.id[i]);
        report_row(page, text);
        report_cell(page, 0, "%.2f", mean);
        for (k = 0; k < 2; k++) report_cell(page, 0, "%.2f to %.2f", ratings_clip(&a->r, mean - half[k]), ratings_clip(&a->r, mean + half[k]));
    }
    report_table_end(page, "The first interval is where the mean of many such ratings lies, the second where one rating lies; both within the scale.");
}

/* Of the users of --recommend the first few; else the first user with twenty ratings for training, or with any. */
static void page_recommended(app *a, const report_page *page)
{
    const char *at = a->recommend;
    pu_int shown = 0, i;
    report_section(page, "Recommendations");
    if (at && strcmp(at, "all") != 0) {
        for (; *at && shown < PAGE_USERS; shown++) {
            char *end;
            page_top(a, page, movielens_place(strtoll(at, &end, 10), a->r.all.users, a->r.all.user_id));
            at = *end ? end + 1 : end;
        }
        if (*at) report_text(page, "The other users of --recommend are not on this page.");
        return;
    }
    for (i = 0; i < a->r.users && !shown; i++) {
        const pu_int user = a->r.number[i];
        if (a->r.train.start[user + 1] - a->r.train.start[user] >= 20) page_top(a, page, i), shown = 1;
    }
    if (!shown && a->r.users > 0) page_top(a, page, 0);
}

/* The picture and the page, where they are wanted. */
static void draw(app *a, const pu_fit_report *fit, double test, int argc, char **argv, int count, const option *list)
{
    const pu_options exact = exactly(a);
    page_facts facts;
    report_page page;
    if (!a->svg && !a->report) return;
    memset(&facts, 0, sizeof facts);
    facts.fit = fit, facts.test = test;
    if (test == test) {
        ratings_rivals(&a->r, &facts.rival);
        ratings_check(&a->r, &a->model.lgm, &exact, &a->ws, &facts.check);
    }
    if (a->svg) {
        const int panels = (a->way.points > 0) + (facts.check.count > 0);
        FILE *file = file_open(a->svg);
        double below = 1;
        svg_sheet(file, 1 + 356.0 * (panels ? panels : 1), "ratings: the learning curve, and errors against what was predicted of them");
        if (a->way.points > 0) below = ratings_draw_way(&a->way, (double)a->each, (double)fit->best_step, facts.rival.valid_mean, file, below);
        if (facts.check.count > 0) (void)ratings_draw_check(&facts.check, file, below);
        fprintf(file, "</svg>\n");
        file_close(file, a->svg);
    }
    page = report_open(a->report, "ratings: report");
    if (a->report) {
        page_answer(a, &page, &facts);
        if (a->load) page_recommended(a, &page);
        if (test == test) {
            if (!a->load) page_way(a, &page, &facts);
            page_rivals(&page, &facts);
            page_check(&page, &facts.check);
            page_items(&page, &facts);
        }
        if (!a->load) page_recommended(a, &page);
        if (!a->load) report_text(&page, "%s. Device %s: %s.", fit->plan, device_name, fit->last.plan);
        report_close(&page, argc, argv, count, list);
    }
    ratings_rival_free(&facts.rival), ratings_check_free(&facts.check);
}

/* ---- the program ----------------------------------------------------------------------------------------------- */

/* Returns the number of options, into list. */
static int read_options(app *a, int argc, char **argv, option *list)
{
    static const char *const fits[] = {"paper", "factors", "batch", "accumulate", "epochs", "steps", "rate", "validate", "schedule", "decay",
                                       "epsilon", "keep-every", "train-nll", "prior-loadings", "prior-graded", "prior-means",
                                       "prior-noise", "gradient", "iterations", "engine", "dense", "curve"};
    size_t i;
    int n = 0;
    const int paper = option_given(argc, argv, "paper", strlen("paper"));
    fit_flags_default(&a->flags);
    a->flags.gradient = 2 /* output */, a->flags.iterations = 10, a->flags.steps = 0;
    a->factors = 50, a->batch = 25, a->split_seed = 1, a->top = 10, a->keep = 20, a->lanes = 2;
    if (paper) {
        a->flags.engine = 1 /* iterative */, a->flags.rate = 0.001, a->accumulate = 4, a->epochs = 20, a->epsilon = 1e-8;
    } else {
        a->flags.rate = 0.01, a->accumulate = 1, a->epochs = -1, a->epsilon = 3e-4, a->schedule = 1 /* cosine */;
        a->loadings_prior = a->means_prior = a->noise_prior = -1;
    }
    list[n++] = opt_text("data", "ratings.csv, ratings.dat or u.data of MovieLens, or .npy: n x 3, records, or user.npy,item.npy,rating.npy", &a->path);
    list[n++] = opt_text("simulate", "USERS,ITEMS,RATINGS: make up ratings with margins like those of --data, to measure time and memory",
                         &a->simulate);
    list[n++] = opt_flag("paper", "the paper's recipe: no priors, its optimiser, rate, epochs, solver; other flags count beside it",
                         &a->paper);
    list[n++] = opt_number("factors", "D, numbers per user", &a->factors, 1, 100000);
    list[n++] = opt_number("batch", "users per gradient", &a->batch, 1, 1000000);
    list[n++] = opt_number("accumulate", "gradients per step", &a->accumulate, 1, 100000);
    list[n++] = opt_number("epochs", "passes through the users, unless --steps says; -1 = by their number", &a->epochs, -1, 1000000);
    list[n++] = opt_number("split-seed", "of training, validation and test ratings", &a->split_seed, 0, 1000000000);
    list[n++] = opt_number("validate", "steps between validations; 0 = an epoch, with --paper two", &a->validate, 0, 1000000);
    list[n++] = opt_flag("no-validation", "those ratings train, too; the last parameters are tested", &a->no_validation);
    list[n++] = opt_real("prior-loadings", "precision of a normal prior on Phi; 0 = no prior, negative = from the data", &a->loadings_prior, -1, 1e9);
    list[n++] = opt_real("prior-graded", "1 + j / this times what --prior-loadings gives, for factor j; 0 = all alike", &a->graded, 0, 1e9);
    list[n++] = opt_real("prior-means", "the same for eta about the mean rating", &a->means_prior, -1, 1e9);
    list[n++] = opt_real("prior-noise", "the same for log psi about its mean", &a->noise_prior, -1, 1e9);
    list[n++] = opt_choice("schedule", "of the rate", &a->schedule, "constant,cosine");
    list[n++] = opt_flag("decay", "the same as --schedule cosine", &a->decay);
    list[n++] = opt_real("epsilon", "of Adam", &a->epsilon, 1e-30, 1);
    list[n++] = opt_text("curve", "write step, objective and |gradient| of every step to this file", &a->curve);
    list[n++] = opt_text("svg", "draw the learning curve, and errors against what was predicted of them, into this file", &a->svg);
    list[n++] = opt_text("report", "write a page with pictures, intervals and recommendations to this file (HTML)", &a->report);
    list[n++] = opt_text("checkpoint", "file to keep the state of the fit in", &a->checkpoint);
    list[n++] = opt_text("resume", "go on from this checkpoint, and keep the state there", &a->resume);
    list[n++] = opt_number("keep-every", "steps between checkpoints", &a->keep, 1, 1000000);
    list[n++] = opt_text("save", "keep the fitted model in this file; numpy.load reads its parameters", &a->save);
    list[n++] = opt_text("load", "no fit: the model of this file, for the users of --data, who may be new", &a->load);
    list[n++] = opt_text("predict", "a file of user,item: their expected ratings, given those in --data", &a->predict);
    list[n++] = opt_text("predictions", "where these go (CSV); standard output unless given", &a->predictions);
    list[n++] = opt_text("recommend", "what this user might like; several with commas between, or all", &a->recommend);
    list[n++] = opt_flag("train-nll", "NLL of the training ratings at the end: as long as a gradient of all users", &a->train_nll);
    list[n++] = opt_number("top", "how many recommendations", &a->top, 1, TOP);
    list[n++] = opt_flag("dense", "Adam moves all items at every step, also those that no user of it has rated", &a->dense);
    list[n++] = opt_number("lanes", "sums kept apart, a gradient of memory each", &a->lanes, 1, 64);
    n += fit_flags_table(&a->flags, list + n);
    list[n++] = team_option();
    options_read(argc, argv, "ratings", "Factor analysis of ratings; predictions and recommendations with their uncertainty.",
                 n, list);
    if (!a->path) fail(2, "--data", "is needed; see --help");
    if (a->predictions && !a->predict) fail(2, "--predictions", "needs --predict");
    if (a->load && (a->save || a->checkpoint || a->resume)) fail(2, "--load", "does not fit: not with --save, --checkpoint, --resume");
    if (team_ranks() > 1 && (a->load || a->predict || (a->recommend && strspn(a->recommend, "0123456789") < strlen(a->recommend))))
        fail(2, "a team", "has no --load, --predict or several users of --recommend: --save, then --load in one process");
    if (team_ranks() > 1 && (a->svg || a->report))
        fail(2, a->svg ? "--svg" : "--report", "is not for a team: --save, then --load with it in one process");
    if (a->simulate && (a->svg || a->report)) fail(2, a->svg ? "--svg" : "--report", "there is nothing to find in ratings made up by --simulate");
    if (a->load && a->svg) fail(2, "--svg", "draws a fit, and --load has none; --report shows what a model knows of users");
    team_quiet(&a->flags.quiet, &a->flags.json);
    for (i = 0; i < sizeof fits / sizeof *fits && a->load; i++)
        if (option_given(argc, argv, fits[i], strlen(fits[i]))) fail(2, "--load", "does not fit: not with flags of a fit or of the split");
    if (a->checkpoint && a->resume && strcmp(a->checkpoint, a->resume) != 0)
        fail(2, "--resume", "names another file than --checkpoint");
    if (team_rank() > 0) return n;
    file_ready(a->predictions), file_ready(a->svg), file_ready(a->report), save_ready(a->save);
    return n;
}

/* --simulate: the sizes, which are checked, and the ratings. */
static void simulate(app *a)
{
    double size[3];
    const char *at = a->simulate;
    int i;
    for (i = 0; i < 3; i++) {
        char *end;
        size[i] = strtod(at, &end);
        if (end == at || (i < 2 && *end != ',') || (i == 2 && *end) || !(size[i] >= (i == 1 ? 8 : 1) && size[i] <= 2e9) || size[i] != floor(size[i]))
            fail(2, "--simulate", "three whole numbers: users, items (at least 8), ratings");
        at = end + 1;
    }
    if (size[2] < 100 || size[2] < size[0]) fail(2, "--simulate", "at least 100 ratings, and one for each user");
    ratings_simulate(&a->r, (pu_int)size[0], (pu_int)size[1], size[2], a->split_seed);
}

/* What pu_fit is to do. */
static pu_fit_options fit_setup(app *a)
{
    const pu_int step = (pu_int)(a->batch * a->accumulate);
    const double epochs = a->epochs >= 0 ? (double)a->epochs : fmax(2, 25 * cbrt(1000 / (double)a->r.seen));
    pu_fit_options o;
    a->each = (a->r.seen + step - 1) / step;
    fit_flags_options(&a->flags, &o);
    if (o.steps == 0) o.steps = (pu_int)(epochs + 0.5) * a->each;
    o.batch = (pu_int)a->batch < a->r.seen ? (pu_int)a->batch : a->r.seen, o.accumulate = (pu_int)a->accumulate;
    o.gradient.seed |= (uint64_t)fingerprint(a) << 32, o.gradient.lanes = (int)a->lanes;
    if (!a->no_validation) o.validate = validate, o.validate_every = a->validate ? (pu_int)a->validate : (1 + a->paper) * a->each;
    o.user = a, o.progress = progress;
    o.checkpoint = a->resume ? a->resume : a->checkpoint, o.resume = a->resume != NULL;
    if (o.checkpoint) o.checkpoint_every = (pu_int)a->keep;
    o.schedule = a->decay || a->schedule ? PU_RATE_COSINE : PU_RATE_CONSTANT, o.epsilon = a->epsilon;
    o.dense = a->dense;
    o.team = team_of(a->r.seen, PU_TEAM_DATA);
    a->share = team_data(a->r.data, o.team);
    if (o.team) { /* as many users a step, at least one for each part */
        o.batch = (step + o.team->parts - 1) / o.team->parts, o.accumulate = 0;
        a->each = (a->r.seen + o.batch * o.team->parts - 1) / (o.batch * o.team->parts);
    }
    a->posterior = ratings_posterior(&o.gradient);
    return o;
}

/* The ratings, split; of a team those of this process's users. */
static void load(app *a)
{
    const pu_team *team = team_of(1, PU_TEAM_DATA);
    int ok;
    if (a->simulate || a->load) { /* a model that was loaded takes any number of ratings */
        ok = movielens_load(a->path, &a->r.all, read_progress, &a->flags);
        if (ok && a->simulate) simulate(a);
        if (ok) ratings_split(&a->r, a->split_seed, !a->no_validation), ratings_keep_own(&a->r, team);
    } else ok = ratings_load(a->path, team, a->split_seed, !a->no_validation, &a->r, read_progress, &a->flags);
    if (a->flags.drawn > 0 && isatty(2)) fprintf(stderr, "\r\033[K");
    a->flags.drawn = 0;
    if (!ok) { /* all say the same: once will do */
        if (team_rank() == 0) fprintf(stderr, "%s: %s: %s\n", program_name, a->path, a->r.all.error);
        (void)team_close();
        exit(1);
    }
    a->mark = fingerprint_make(a);
}

int main(int argc, char **argv)
{
    static app a;
    pu_fit_options options;
    pu_fit_report report;
    pu_real *theta;
    pu_report last;
    double test, nll = (double)NAN, nll_se = (double)NAN, processor;
    size_t bytes;
    json out;
    option list[FIT_FLAGS + 33];
    int count;
    team_open(&argc, &argv);
    a.error = (double)NAN;
    count = read_options(&a, argc, argv, list);
    device_open();
    if (a.resume && team_rank() == 0) {
        FILE *file = fopen(a.resume, "rb");
        if (!file) fail_errno("cannot read", a.resume);
        fclose(file);
    }
    if (a.load) ratings_model_read(a.load, &a.model, &a.saved);
    load(&a);
    if (a.recommend) recommend(&a, &out, 0);
    if (a.load) match(&a), theta = a.saved.theta;
    else theta = start(&a);
    options = fit_setup(&a);
    if (!a.flags.quiet && a.load)
        printf("%ld ratings of %ld items by %ld users\n", a.r.total[0] + a.r.total[1] + a.r.total[2], (long)a.r.items, (long)a.r.users);
    else if (!a.flags.quiet)
        printf("%ld ratings of %ld items by %ld users; %ld for training, %ld for validation, %ld for the test\n",
               a.r.total[0] + a.r.total[1] + a.r.total[2], (long)a.r.items, (long)a.r.users, a.r.total[RATINGS_TRAIN],
               a.r.total[RATINGS_VALID], a.r.total[RATINGS_TEST]);
    if (a.curve && team_rank() == 0) a.curve_file = file_open(a.curve), fprintf(a.curve_file, "step,objective,gradient\n");
    memset(&report, 0, sizeof report), report.best = (double)NAN;
    processor = processor_seconds();
    if (!a.load && options.steps > 0) fit(&a, &options, theta, &report);
    else if (!a.load) need(pu_model_set(&a.model, theta, &last), &last), report.best = validate(&a.model, theta, &a);
    processor = (processor_seconds() - processor) / (double)(report.step > report.resumed ? report.step - report.resumed : 1);
    if (a.curve_file) file_close(a.curve_file, a.curve);
    if (a.no_validation) report.best = (double)NAN;
    test = a.simulate || (a.load && !is_its_own(&a)) ? (double)NAN /* there is nothing to find, or to test */
                                                     : ratings_rmse(&a.r, &a.model.lgm, &a.r.test, &a.posterior, &a.ws);
    if (a.recommend && team_ranks() > 1) a.given = rated(&a);
    if (a.train_nll && !a.load) train_nll(&a, theta, &options.gradient, &nll, &nll_se);
    if (team_rank() > 0) return team_close();
    if (a.save) save(&a, theta, &report);
    if (!a.load && a.share.n && pu_model_gradient_bytes(&a.model, &a.share, &options.gradient, 0, &bytes, &last) == PU_OK)
        report.last = last; /* who serves whom */
    if (!a.flags.quiet && a.load) {
        printf("%s: %ld items, %ld factors", a.load, (long)a.saved.items, (long)a.saved.factors);
        if (test >= 0) printf("; test RMSE %.4f", test);
        printf("\n");
    } else if (!a.flags.quiet) {
        printf("test RMSE %.4f", test);
        if (!a.no_validation)
            printf(" (validation %.4f at step %ld of %ld)", report.best, (long)report.best_step, (long)report.step);
        if (a.train_nll) printf("\ntraining NLL per user %.3f", nll);
        printf("\n%.3g s per step, %.3g s of processors, peak memory %.0f MB\n%s\ndevice %s: %s\n", report.step > report.resumed ? report.seconds / (double)(report.step - report.resumed) : 0,
               processor, peak_mb(), report.plan, device_name, report.last.plan);
    }
    out = json_open(a.flags.json);
    json_fit(&out, &a.flags, &report, nll, nll_se);
    json_number(&out, "test_rmse", test);
    json_number(&out, "validation_rmse", report.best);
    json_number(&out, "best_step", (double)report.best_step);
    json_text(&out, "optimiser", report.plan);
    json_number(&out, "processor_seconds_per_step", processor);
    json_number(&out, "factors", (double)(a.load ? a.saved.factors : (pu_int)a.factors));
    json_number(&out, "users", (double)a.r.users);
    json_number(&out, "items", (double)a.r.items);
    team_json(&out, a.model.params, theta);
    if (a.predict) predict(&a, &out);
    if (a.recommend) recommend(&a, &out, 1);
    json_close(&out);
    draw(&a, &report, test, argc, argv, count, list);
    pu_workspace_free(&a.ws), pu_model_free(&a.model), ratings_free(&a.r);
    free(theta), free(a.row), free(a.saved.item_id), free(a.given);
    device_close();
    (void)team_close();
    return fit_code();
}

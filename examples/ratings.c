/* ratings.c - who will like which film: factor analysis of MovieLens ratings, with an uncertainty for every prediction.

   cc -O3 -march=native -fopenmp -I. examples/ratings.c -o ratings -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/ratings.c -o ratings -lcublas -lcufft -lcurand       (for --device cuda)
   ./ratings --data ratings.csv --factors 100 --recommend 1

   User n has factors z_n ~ N(0, I) and gives item m the rating y = Phi_m'z_n + eta_m + N(0, 1/psi_m). Phi, eta, psi are found
   by maximum likelihood from the ratings that are there (with --prior-.. by maximum a posteriori). A tenth of the ratings is
   kept for the test and a tenth of the others for validation; the parameters with the best validation error are tested.
   Predictions are made from the training ratings of the user, kept within the rating scale, and are 3 for a user without any.

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
#include "common/movielens.h"
#include "common/ratings.h"

enum { TOP = 100 }; /* most recommendations */

typedef struct {
    fit_flags flags; /* first: pu_fit's user pointer serves the progress line, too */
    long factors, batch, accumulate, epochs, split_seed, validate, keep, recommend, top, lanes;
    double loadings_prior, graded, means_prior, noise_prior; /* see prior_grad */
    double epsilon;
    int decay, no_validation, train_nll;
    const char *path, *checkpoint, *resume;
    ratings r;
    pu_options posterior;
    pu_workspace ws;
    pu_model model;
    pu_status (*grad)(const pu_model *model, const pu_gradient_result *g, pu_real *grad); /* the model's own */
    double mean, spread, log_psi;                                                 /* what the priors pull towards */
    char name[100];
} app;

/* ---- the data ---------------------------------------------------------------------------------------------- */

/* A number of the training data and the split: a checkpoint of others does not fit. */
static uint32_t fingerprint(const app *a)
{
    uint32_t h = 2166136261u;
    pu_int i;
    for (i = 0; i < a->r.train.start[a->r.seen]; i++)
        h = (h ^ (uint32_t)(a->r.train.item[i] * 1000 + (pu_int)(20 * a->r.train.y[i]))) * 16777619u;
    return h ^ (uint32_t)a->r.seen;
}

/* ---- predictions --------------------------------------------------------------------------------------------- */

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    app *a = (app *)user;
    pu_report report;
    double error;
    need(pu_model_set(model, theta, &report), &report);
    error = ratings_rmse(&a->r, &model->lgm, &a->r.valid, &a->posterior, &a->ws);
    if (!a->flags.quiet) printf("  validation RMSE %.4f\n", error), fflush(stdout);
    return error;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Maximum a posteriori. Entry j of a row of Phi ~ N(0, 1/(loadings (1 + j/graded))): later factors are smaller, so that many
   of them do no harm; but the first is about the spread of the users' means. eta ~ N(mean rating, 1/means), log psi ~ N(its
   mean at the start, 1/noise). A precision of 0 means no prior. Matters for items with few ratings; the NLL that is told
   leaves it out. */
static double loadings_precision(const app *a, pu_int j)
{
    return a->loadings_prior * (a->graded > 0 ? 1 + (double)j / a->graded : 1);
}

static pu_status prior_grad(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    const app *a = (const app *)((const char *)model - offsetof(app, model));
    const pu_real *Phi = (const pu_real *)model->lgm.Phi->data, *eta = model->lgm.eta, *psi = model->lgm.psi;
    const pu_int M = a->r.items, D = (pu_int)a->factors;
    const double n = (double)a->r.seen; /* the objective is a mean over users */
    pu_status status = a->grad(model, g, grad);
    pu_int m, j;
    for (j = 0; j < D && a->loadings_prior > 0; j++) {
        const pu_real precision = (pu_real)(loadings_precision(a, j) / n), centre = j ? PU_R(0) : (pu_real)a->spread;
        for (m = 0; m < M; m++) grad[m * D + j] += precision * (Phi[m * D + j] - centre);
    }
    for (m = 0; m < M; m++) {
        grad[M * D + m] += (pu_real)(a->means_prior / n * ((double)eta[m] - a->mean));
        grad[M * D + M + m] += (pu_real)(a->noise_prior / n * (log((double)psi[m]) - a->log_psi));
    }
    return status;
}

/* A start from the training ratings, and what the priors pull towards. */
static pu_real *start(app *a)
{
    const pu_int M = a->r.items, D = (pu_int)a->factors, all = a->r.train.start[a->r.seen];
    pu_real *theta, *count = need_reals(M), *eta, *log_psi;
    pu_report report;
    pu_int i, k, m, j;
    need(pu_model_factors(&a->model, M, D, &report), &report);
    theta = need_reals(a->model.params), eta = theta + M * D, log_psi = eta + M;
    need(pu_model_start(&a->model, &a->r.data, (uint64_t)a->flags.seed, theta, &report), &report);
    for (i = 0; i < all; i++) a->mean += (double)a->r.train.y[i] / (double)all, count[a->r.train.item[i]] += 1;
    for (m = 0; m < M; m++) a->log_psi += (double)log_psi[m] / (double)M;
    for (i = 0; i < a->r.seen; i++) { /* the first factor begins as how kind a user is, the same for all items */
        double off = 0;
        for (k = a->r.train.start[i]; k < a->r.train.start[i + 1]; k++)
            off += (double)(a->r.train.y[k] - eta[a->r.train.item[k]]);
        off /= (double)(a->r.train.start[i + 1] - a->r.train.start[i]);
        a->spread += off * off / (double)a->r.seen;
    }
    a->spread = sqrt(a->spread);
    for (m = 0; m < M; m++) {
        const double known = (double)count[m] / ((double)count[m] + 10); /* few ratings: near the middle of the prior */
        for (j = 0; j < D && a->loadings_prior > 0; j++) /* the library's random row has entries of variance 1 / (3 D psi) */
            theta[m * D + j] *= (pu_real)(known * sqrt(3 * (double)D * exp((double)log_psi[m]) / loadings_precision(a, j)));
        theta[m * D] = (pu_real)a->spread;
        if (a->means_prior > 0) eta[m] = (pu_real)(a->mean + known * ((double)eta[m] - a->mean));
        if (a->noise_prior > 0) log_psi[m] = (pu_real)(a->log_psi + known * ((double)log_psi[m] - a->log_psi));
    }
    a->grad = a->model.grad, a->model.grad = prior_grad;
    a->model.begins_with_Phi = 0, a->model.grad_is_finite = NULL; /* true of the function that was there */
    snprintf(a->name, sizeof a->name, "ratings, priors %g %g %g %g", a->loadings_prior, a->graded, a->means_prior,
             a->noise_prior);
    a->model.name = a->name; /* a checkpoint belongs to a model of this name */
    free(count);
    return theta;
}

/* ---- recommendations ------------------------------------------------------------------------------------------ */

/* The items with the highest expected rating among those that this user has not rated, given all ratings of the user. */
static void recommend(app *a, json *out)
{
    const pu_int M = a->r.items;
    pu_real *mean = need_reals(M), *variance = need_reals(M), *y = need_reals(M), best[TOP], sd[TOP];
    int32_t id[TOP];
    pu_options exact = a->posterior;
    pu_int *item = (pu_int *)calloc((size_t)M, sizeof(pu_int)), start[2] = {0, 0}, i, n, count = 0;
    const pu_int user = a->r.number[movielens_place((int32_t)a->recommend, a->r.all.users, a->r.all.user_id)];
    const ratings_lists *const part[3] = {&a->r.train, &a->r.valid, &a->r.test};
    pu_predict_result p;
    pu_data one;
    pu_report report;
    if (!item) fail(1, "memory", "there is not enough");
    for (i = 0; i < M; i++) mean[i] = -PU_R(1); /* all ratings of the user in the order of items: marked, then collected */
    for (n = 0; n < 3; n++)
        for (i = part[n]->start[user]; i < part[n]->start[user + 1]; i++) mean[part[n]->item[i]] = part[n]->y[i];
    for (i = 0; i < M; i++)
        if (mean[i] >= PU_R(0)) item[start[1]] = i, y[start[1]++] = mean[i];
    one = pu_data_lists(1, M, start, item, y);
    memset(&p, 0, sizeof p);
    p.mean = mean, p.fit = variance;
    exact.kind = PU_EXACT, exact.engine = PU_ENGINE_AUTO, exact.solve.tolerance = 0;
    need(pu_predict(&a->model.lgm, &one, &exact, &a->ws, &p, &report), &report);
    for (i = 0; i < start[1]; i++) mean[item[i]] = -PU_R(1e30); /* seen already */
    if (!a->flags.quiet)
        printf("\nfor user %ld, who has rated %ld:\n    item  expected rating\n", a->recommend, (long)start[1]);
    for (; count < a->top && count < M - start[1]; count++) {
        for (n = 0, i = 1; i < M; i++)
            if (mean[i] > mean[n]) n = i;
        best[count] = (pu_real)ratings_clip(&a->r, (double)mean[n]), sd[count] = (pu_real)sqrt((double)variance[n]);
        id[count] = a->r.all.item_id[n];
        if (!a->flags.quiet)
            printf("%8ld  %.2f +- %.2f\n", (long)a->r.all.item_id[n], (double)best[count], (double)sd[count]);
        mean[n] = -PU_R(1e30);
    }
    json_key(out, "recommended");
    for (i = 0; i < count && out->file; i++) fprintf(out->file, "%s%ld", i ? ", " : "[", (long)id[i]);
    if (out->file) fprintf(out->file, count ? "]" : "[]");
    json_array(out, "recommended_mean", count, best);
    json_array(out, "recommended_sd", count, sd);
    free(mean), free(variance), free(y), free(item);
}

/* ---- the program ----------------------------------------------------------------------------------------------- */

static void read_options(app *a, int argc, char **argv)
{
    option list[FIT_FLAGS + 21];
    int n = 0;
    fit_flags_default(&a->flags);
    a->flags.gradient = 2 /* output */, a->flags.iterations = 10, a->flags.rate = 0.001, a->flags.steps = 0;
    a->factors = 50, a->batch = 25, a->accumulate = 4, a->epochs = 20, a->split_seed = 1, a->recommend = -1, a->top = 10;
    a->keep = 20, a->lanes = 2, a->epsilon = 1e-8;
    list[n++] = opt_text("data", "ratings.csv, ratings.dat or u.data of MovieLens", &a->path);
    list[n++] = opt_number("factors", "D, numbers per user", &a->factors, 1, 100000);
    list[n++] = opt_number("batch", "users per gradient", &a->batch, 1, 1000000);
    list[n++] = opt_number("accumulate", "gradients per step", &a->accumulate, 1, 100000);
    list[n++] = opt_number("epochs", "passes through the users, unless --steps says", &a->epochs, 0, 1000000);
    list[n++] = opt_number("split-seed", "of training, validation and test ratings", &a->split_seed, 0, 1000000000);
    list[n++] = opt_number("validate", "steps between validations; 0 = two epochs", &a->validate, 0, 1000000);
    list[n++] = opt_flag("no-validation", "those ratings train, too; the last parameters are tested", &a->no_validation);
    list[n++] = opt_real("prior-loadings", "precision of a normal prior on Phi", &a->loadings_prior, 0, 1e9);
    list[n++] = opt_real("prior-graded", "1 + j / this times that for factor j; 0 = all alike", &a->graded, 0, 1e9);
    list[n++] = opt_real("prior-means", "the same for eta about the mean rating", &a->means_prior, 0, 1e9);
    list[n++] = opt_real("prior-noise", "the same for log psi about its mean", &a->noise_prior, 0, 1e9);
    list[n++] = opt_flag("decay", "the rate falls to 0 like a cosine", &a->decay);
    list[n++] = opt_real("epsilon", "of Adam", &a->epsilon, 1e-30, 1);
    list[n++] = opt_text("checkpoint", "file to keep the state of the fit in", &a->checkpoint);
    list[n++] = opt_text("resume", "go on from this checkpoint, and keep the state there", &a->resume);
    list[n++] = opt_number("keep-every", "steps between checkpoints", &a->keep, 1, 1000000);
    list[n++] = opt_number("recommend", "what this user might like", &a->recommend, -1, INT32_MAX);
    list[n++] = opt_flag("train-nll", "NLL of the training ratings at the end: as long as a gradient of all users", &a->train_nll);
    list[n++] = opt_number("top", "how many recommendations", &a->top, 1, TOP);
    list[n++] = opt_number("lanes", "sums kept apart, a gradient of memory each", &a->lanes, 1, 64);
    n += fit_flags_table(&a->flags, list + n);
    options_read(argc, argv, "ratings", "Factor analysis of ratings; predictions and recommendations with their uncertainty.",
                 n, list);
    if (!a->path) fail(2, "--data", "is needed; see --help");
    if (a->checkpoint && a->resume && strcmp(a->checkpoint, a->resume) != 0)
        fail(2, "--resume", "names another file than --checkpoint");
}

/* What pu_fit is to do. */
static pu_fit_options fit_setup(app *a)
{
    const pu_int step = (pu_int)(a->batch * a->accumulate), each = (a->r.seen + step - 1) / step;
    pu_fit_options o;
    fit_flags_options(&a->flags, &o);
    if (o.steps == 0) o.steps = (pu_int)a->epochs * each;
    o.batch = (pu_int)a->batch < a->r.seen ? (pu_int)a->batch : a->r.seen, o.accumulate = (pu_int)a->accumulate;
    o.gradient.seed |= (uint64_t)fingerprint(a) << 32, o.gradient.lanes = (int)a->lanes;
    if (!a->no_validation) o.validate = validate, o.validate_every = a->validate ? (pu_int)a->validate : 2 * each;
    o.user = a;
    o.checkpoint = a->resume ? a->resume : a->checkpoint, o.resume = a->resume != NULL, o.checkpoint_every = (pu_int)a->keep;
    o.schedule = a->decay ? PU_RATE_COSINE : PU_RATE_CONSTANT, o.epsilon = a->epsilon;
    a->posterior = ratings_posterior(&o.gradient);
    return o;
}

int main(int argc, char **argv)
{
    static app a;
    pu_fit_options options;
    pu_fit_report report;
    pu_real *theta;
    pu_report last;
    double test, nll = (double)NAN, nll_se = (double)NAN;
    size_t bytes;
    json out;
    read_options(&a, argc, argv);
    device_open();
    if (a.resume) {
        FILE *file = fopen(a.resume, "rb");
        if (!file) fail_errno("cannot read", a.resume);
        fclose(file);
    }
    if (!movielens_read(a.path, &a.r.all)) fail(1, a.path, a.r.all.error);
    if (a.r.all.count < 100) fail(1, a.path, "fewer than 100 ratings cannot be split");
    ratings_split(&a.r, a.split_seed, !a.no_validation);
    if (a.recommend >= 0 && movielens_place((int32_t)a.recommend, a.r.all.users, a.r.all.user_id) < 0)
        fail(1, "--recommend", "there is no such user");
    theta = start(&a);
    options = fit_setup(&a);
    if (!a.flags.quiet)
        printf("%ld ratings of %ld items by %ld users; %ld for training, %ld for validation, %ld for the test\n", a.r.all.count,
               (long)a.r.items, (long)a.r.users, (long)a.r.train.start[a.r.users], (long)a.r.valid.start[a.r.users],
               (long)a.r.test.start[a.r.users]);
    if (options.steps > 0)
        fit_run(&a.model, &a.r.data, &options, &a.ws, theta, &report);
    else
        memset(&report, 0, sizeof report), report.best = validate(&a.model, theta, &a);
    if (a.no_validation) report.best = (double)NAN;
    test = ratings_rmse(&a.r, &a.model.lgm, &a.r.test, &a.posterior, &a.ws);
    if (pu_model_gradient_bytes(&a.model, &a.r.data, &options.gradient, 0, &bytes, &last) == PU_OK)
        report.last = last; /* who serves whom */
    if (a.train_nll) fit_nll(&a.model, theta, &a.r.data, &options.gradient, &a.ws, &nll, &nll_se, &last);
    if (!a.flags.quiet) {
        printf("test RMSE %.4f", test);
        if (!a.no_validation)
            printf(" (validation %.4f at step %ld of %ld)", report.best, (long)report.best_step, (long)report.step);
        if (a.train_nll) printf("\ntraining NLL per user %.3f", nll);
        printf("\n%.3g s per step, peak memory %.0f MB\ndevice %s: %s\n", report.step > report.resumed ? report.seconds / (double)(report.step - report.resumed) : 0, peak_mb(),
               device_name, report.last.plan);
    }
    out = json_open(a.flags.json);
    json_fit(&out, &a.flags, &report, nll, nll_se);
    json_number(&out, "test_rmse", test);
    json_number(&out, "validation_rmse", report.best);
    json_number(&out, "best_step", (double)report.best_step);
    json_number(&out, "factors", (double)a.factors);
    json_number(&out, "users", (double)a.r.users);
    json_number(&out, "items", (double)a.r.items);
    if (a.recommend >= 0) recommend(&a, &out);
    json_close(&out);
    pu_workspace_free(&a.ws), pu_model_free(&a.model), ratings_free(&a.r);
    free(theta);
    device_close();
    return fit_code();
}

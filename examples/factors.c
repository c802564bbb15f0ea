/* factors.c - factor analysis and probabilistic PCA of a table of one's own, with gaps.

   cc -O3 -march=native -fopenmp -I. examples/factors.c -o factors -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/factors.c -o factors -lcublas -lcufft -lcurand       (for --device cuda)
   ./factors                                                                       a simulated table
   ./factors --data answers.csv --loadings loadings.csv --impute answers_full.csv --report answers.html
   ./factors --data digits.npy --method ppca --factors 10 --scores scores.csv

   Rows are data, y = Phi z + eta + noise, z ~ N(0, I): pu_model_factors (a noise for each column) or pu_model_ppca (one noise). The fit
   is maximum likelihood of what is observed. Loadings are told in coordinates of z that are well defined (rotation.h), and
   their standard errors are those of these coordinates: D (D - 1) / 2 entries of a lower triangular Phi are fixed at 0, which
   identifies the rest, the inverse of the observed information is the covariance of that, and the delta method goes through
   the rotation. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/csv.h"
#include "common/table.h"
#include "common/npy.h"
#include "common/report.h"
#include "common/frame.h"
#include "common/rotation.h"

enum { PPCA = 1, CHUNK = 512, SHOWN = 40, WIDE = 8, CANDIDATES = 200, WARNINGS = 12 }; /* rows at a time; columns, factors that are shown */

/* What the command line asks for. */
typedef struct {
    int method, rotate, standardise, choose, errors;
    const char *factors, *impute, *gaps, *loadings, *scores, *svg, *report;
    long most, rows, columns, rank;
    double hold_out, lost;
} request;

/* The table. y is (x - mean) / scale of what is read; times `unit` a number is in the units of the results. */
typedef struct {
    frame f;
    int is_simulated;
    pu_int n, m;
    pu_real *y;
    unsigned char *seen; /* 1 where an entry is observed and not hidden; NULL: nothing is hidden */
    double *mean, *scale, *unit;
    long gaps, hidden;
} sheet;

/* A number of factors that was tried. */
typedef struct {
    pu_int factors;
    double nll, bic, rmse; /* nll: sum over all rows, in the units of the results */
} candidate;

/* What is predicted of hidden entries: errors in standard deviations of their columns, and as they are. */
typedef struct {
    long count;
    double rmse, rmse_means, error, coverage, score;
} check;

typedef struct {
    pu_model model;
    pu_int factors;
    pu_real *theta;
    pu_fit_report report;
    pu_report told;
    double nll, nll_se; /* per row, in the units of the results */
} fitted;

typedef struct {
    fitted *fit;
    candidate tried[CANDIDATES];
    int candidates, is_chosen;
    check hidden;
    double read;
    int has_errors;
    const char *no_errors; /* why */
    char warning[WARNINGS][300];
    int warnings;
    double *block;      /* which the next are in */
    double *loading, *se, *noise, *noise_se, *mean_se, *share; /* M x D, M; share: D, of all variance */
} result;

/* ---- the table ---- */

static const char *column_name(const sheet *s, pu_int j)
{
    static char name[32];
    if (!s->is_simulated) return s->f.term[j].name;
    snprintf(name, sizeof name, "y%ld", (long)j + 1);
    return name;
}

/* Direction d has strength 3 / (d + 1) in every column, noise 0.5; NaN where an entry is lost. */
static void simulate(sheet *s, const request *ask, uint64_t seed)
{
    const pu_int rank = (pu_int)ask->rank;
    pu_real *phi, *z = need_reals(rank), *noise, *coin;
    pu_int i, j, d;
    s->n = (pu_int)ask->rows, s->m = (pu_int)ask->columns, s->is_simulated = 1;
    phi = need_reals(s->m * rank), noise = need_reals(s->m), coin = need_reals(s->m), s->y = need_reals(s->n * s->m);
    pu_normals(seed, 0, 0, 0, 3, 0, s->m * rank, phi);
    for (i = 0; i < s->n; i++) {
        pu_normals(seed, (uint32_t)i, 1, 0, 3, 0, rank, z);
        pu_normals(seed, (uint32_t)i, 2, 0, 3, 0, s->m, noise);
        pu_normals(seed, (uint32_t)i, 3, 0, 3, 0, s->m, coin);
        for (j = 0; j < s->m; j++) {
            double sum = 10 + 0.5 * (double)noise[j];
            for (d = 0; d < rank; d++) sum += 3.0 / (double)(d + 1) * (double)phi[j * rank + d] * (double)z[d];
            s->y[i * s->m + j] = 0.5 * erfc(-(double)coin[j] / sqrt(2.0)) < ask->lost ? PU_R(NAN) : (pu_real)sum;
        }
    }
    free(phi), free(z), free(noise), free(coin);
}

/* Means and standard deviations of what is observed; numbers become (x - mean) / scale in place. Of factor analysis the maximum of the
   likelihood does not depend on the scales, so that each column has its own; probabilistic PCA has one, unless --standardise. */
static void standardise(sheet *s, const request *ask)
{
    const int apart = ask->method != PPCA || ask->standardise;
    double *square = (double *)need_bytes((size_t)s->m * sizeof *square), all = 0;
    long *count = (long *)need_bytes((size_t)s->m * sizeof *count);
    pu_int i, j;
    s->mean = (double *)need_bytes(3 * (size_t)s->m * sizeof *s->mean), s->scale = s->mean + s->m, s->unit = s->scale + s->m;
    for (i = 0; i < s->n; i++)
        for (j = 0; j < s->m; j++) { /* Welford: squares of differences, whatever the mean */
            const double x = (double)s->y[i * s->m + j], off = x - s->mean[j];
            if (x != x) continue;
            s->mean[j] += off / (double)++count[j], square[j] += off * (x - s->mean[j]);
        }
    for (j = 0; j < s->m; j++) {
        s->gaps += (long)s->n - count[j];
        s->scale[j] = count[j] ? sqrt(square[j] / (double)count[j]) : 0;
        if (!(s->scale[j] > 0)) fail(1, column_name(s, j), "is the same wherever it is observed");
        all += s->scale[j] * s->scale[j] / (double)s->m;
    }
    for (j = 0; j < s->m; j++) {
        if (!apart) s->scale[j] = sqrt(all);
        s->unit[j] = ask->standardise ? 1 : s->scale[j];
    }
    for (i = 0; i < s->n; i++)
        for (j = 0; j < s->m; j++) s->y[i * s->m + j] = (pu_real)(((double)s->y[i * s->m + j] - s->mean[j]) / s->scale[j]);
    free(square), free(count);
}

static void read_table(sheet *s, const request *ask, const fit_flags *flags)
{
    if (!s->f.data) {
        if (s->f.column_list || s->f.exclude_list || s->f.missing) fail(2, "--data", "is needed where columns are named");
        simulate(s, ask, (uint64_t)flags->seed);
    } else {
        frame_read(&s->f, flags->quiet);
        s->n = (pu_int)s->f.rows, s->m = s->f.terms, s->y = s->f.x;
    }
    if (s->m < 2) fail(1, s->f.data ? s->f.data : "the table", "has one column of numbers: factors are what several have in common");
    if (s->n < 3) fail(1, s->f.data ? s->f.data : "the table", s->n == 1 ? "has one row: nothing varies" : "has two rows: at least three are needed");
    standardise(s, ask);
}

/* Entries to predict: each by chance, a function of seed, row and column alone. */
static void hide(sheet *s, double share, uint64_t seed)
{
    pu_real *coin = need_reals(s->m);
    pu_int i, j;
    s->seen = (unsigned char *)need_bytes((size_t)s->n * (size_t)s->m);
    for (i = 0; i < s->n; i++) {
        pu_normals(seed, (uint32_t)i, 4, 0, 3, 0, s->m, coin);
        for (j = 0; j < s->m; j++) {
            const int there = s->y[i * s->m + j] == s->y[i * s->m + j];
            const int chosen = 0.5 * erfc(-(double)coin[j] / sqrt(2.0)) < share;
            s->seen[i * s->m + j] = (unsigned char)(there && !chosen);
            s->hidden += there && chosen;
        }
    }
    free(coin);
}

/* Rows first .. first + count - 1, without what is hidden. */
static pu_data rows_of(const sheet *s, pu_int first, pu_int count)
{
    const pu_real *y = s->y + first * s->m;
    if (s->seen) return pu_data_masked(count, s->m, y, s->seen + first * s->m);
    return s->gaps ? pu_data_nan(count, s->m, y) : pu_data_full(count, s->m, y);
}

/* ---- a fit ---- */

/* An L-BFGS that its number of steps has ended goes on, unless --steps says how many, until parameters are within about a hundredth of
   their standard errors. */
static void fit_on(pu_model *model, const pu_data *data, const pu_fit_options *options, const fit_flags *flags, fitted *r)
{
    pu_fit_options more = *options;
    pu_fit_report first = r->report;
    if (flags->steps || r->report.stop != PU_FIT_STEPS || strncmp(r->report.plan, "L-BFGS", 6)) return;
    more.optimizer = PU_LBFGS, more.steps = 5000, more.tolerance = 0.01 * sqrt((double)model->params / (double)data->n);
    fit_run(model, data, &more, NULL, r->theta, &r->report);
    r->report.step += first.step, r->report.gradients += first.gradients;
}

/* Where a fit begins. Of complete data and up to 512 columns the library's start is the maximum already. Else probabilistic PCA of some rows
   whose gaps are filled by means, in closed form; what that makes too small is made up for, and each column has its own noise. */
static void start_factors(const sheet *s, const request *ask, const pu_data *data, uint64_t seed, fitted *r)
{
    const pu_int M = s->m, D = r->factors, most = 10000000 / M + 4 * D + 10, n = s->n < most ? s->n : most;
    pu_model ppca;
    pu_real *y, *theta;
    pu_data filled;
    pu_int i, j, d;
    need(pu_model_start(&r->model, data, seed, r->theta, &r->told), &r->told);
    if ((!s->gaps && !s->seen && (M <= 512 || ask->method == PPCA)) || D >= M) return;
    memset(&ppca, 0, sizeof ppca);
    y = need_reals(n * M);
    for (i = 0; i < n; i++) {
        const pu_int row = (pu_int)((double)i * ((double)s->n / (double)n));
        for (j = 0; j < M; j++) {
            const pu_real value = s->y[row * M + j];
            y[i * M + j] = value != value || (s->seen && !s->seen[row * M + j]) ? PU_R(0) : value;
        }
    }
    filled = pu_data_full(n, M, y);
    need(pu_model_ppca(&ppca, M, D, &r->told), &r->told);
    theta = need_reals(ppca.params);
    need(pu_model_start(&ppca, &filled, seed, theta, &r->told), &r->told);
    for (j = 0; j < M; j++) {
        double there = 0, square = 0, communality = 0;
        for (i = 0; i < n; i++) there += y[i * M + j] < 0 || y[i * M + j] > 0, square += (double)y[i * M + j] * (double)y[i * M + j];
        there = fmax(there, 1);
        for (d = 0; d < D; d++) {
            r->theta[j * D + d] = (pu_real)((double)theta[j * D + d] * sqrt((double)n / there));
            communality += (double)r->theta[j * D + d] * (double)r->theta[j * D + d];
        }
        r->theta[M * D + j] = theta[M * D + j];
        if (ask->method != PPCA) r->theta[M * D + M + j] = (pu_real)-log(fmax(square / there - communality, 0.05 * square / there + 1e-6));
    }
    if (ask->method == PPCA) r->theta[M * D + M] = theta[M * D + M];
    pu_model_free(&ppca);
    free(y), free(theta);
}

static fitted *fit_factors(const sheet *s, const request *ask, fit_flags *flags, pu_int factors)
{
    fitted *r = (fitted *)need_bytes(sizeof *r);
    const pu_data data = rows_of(s, 0, s->n);
    pu_fit_options options;
    double scale = 0, began;
    pu_int j;
    r->factors = factors;
    need((ask->method == PPCA ? pu_model_ppca : pu_model_factors)(&r->model, s->m, factors, &r->told), &r->told);
    r->theta = need_reals(r->model.params);
    began = seconds();
    start_factors(s, ask, &data, (uint64_t)flags->seed, r);
    fit_flags_options(flags, &options);
    if (!s->gaps && !s->seen && ask->method != PPCA && s->m > 512 && options.gradient.kind == PU_EXACT && !(flags->rate > 0)) {
        options.optimizer = PU_LBFGS; /* from so near */
        if (!options.steps) options.steps = 500, options.tolerance = 0.01 * sqrt((double)r->model.params / (double)s->n);
    }
    fit_run(&r->model, &data, &options, NULL, r->theta, &r->report);
    if (!fit_interrupted && !s->seen) fit_on(&r->model, &data, &options, flags, r);
    r->report.seconds = seconds() - began;
    fit_nll(&r->model, r->theta, &data, &options.gradient, NULL, &r->nll, &r->nll_se, &r->told);
    for (j = 0; j < s->m && !ask->standardise; j++) { /* densities of x, not of y */
        pu_int i;
        long count = 0;
        for (i = 0; i < s->n && (s->gaps || s->seen); i++)
            count += s->seen ? s->seen[i * s->m + j] : s->y[i * s->m + j] == s->y[i * s->m + j];
        scale += log(s->scale[j]) * (s->gaps || s->seen ? (double)count / (double)s->n : 1);
    }
    r->nll += scale;
    return r;
}

static void fitted_free(fitted *r)
{
    if (!r) return;
    pu_model_free(&r->model);
    free(r->theta), free(r);
}

/* Parameters that are free: a rotation of the factors is none. */
static double parameters(const sheet *s, const request *ask, pu_int factors)
{
    const double m = (double)s->m, d = (double)factors;
    return m * d - d * (d - 1) / 2 + m + (ask->method == PPCA ? 1 : m);
}

/* Hidden entries, a few rows at a time. */
static void look_at_hidden(const sheet *s, fitted *r, const pu_options *options, check *c)
{
    const pu_int m = s->m;
    double *mean = (double *)need_bytes(2 * (size_t)m * sizeof *mean), *square = mean + m, squares = 0, flat = 0, raw = 0, inside = 0, score = 0;
    long *count = (long *)need_bytes((size_t)m * sizeof *count);
    pu_predict_result out;
    pu_workspace ws;
    pu_report told;
    pu_int i, j, first;
    memset(&ws, 0, sizeof ws), memset(&out, 0, sizeof out), memset(c, 0, sizeof *c);
    for (i = 0; i < s->n; i++)
        for (j = 0; j < m; j++)
            if (s->seen[i * m + j]) mean[j] += (double)s->y[i * m + j], square[j] += (double)s->y[i * m + j] * (double)s->y[i * m + j], count[j]++;
    for (j = 0; j < m; j++) {
        mean[j] /= (double)(count[j] ? count[j] : 1);
        square[j] = square[j] / (double)(count[j] ? count[j] : 1) - mean[j] * mean[j];
    }
    out.mean = need_reals(2 * CHUNK * m), out.variance = out.mean + CHUNK * m;
    for (first = 0; first < s->n; first += CHUNK) {
        const pu_int rows = s->n - first < CHUNK ? s->n - first : CHUNK;
        const pu_data data = rows_of(s, first, rows);
        need_result(pu_model_predict(&r->model, r->theta, &data, options, &ws, &out, &told), &told);
        for (i = 0; i < rows; i++)
            for (j = 0; j < m; j++) {
                const pu_int at = (first + i) * m + j;
                const double y = (double)s->y[at], off = y - (double)out.mean[i * m + j], v = (double)out.variance[i * m + j];
                if (s->seen[at] || y != y || !(square[j] > 0)) continue;
                c->count++;
                squares += off * off / square[j], flat += (y - mean[j]) * (y - mean[j]) / square[j];
                raw += off * off * s->unit[j] * s->unit[j];
                inside += off * off <= 1.96 * 1.96 * v;
                score -= off * off / (2 * v) + log(6.28318530717958647692 * v * s->unit[j] * s->unit[j]) / 2;
            }
    }
    if (c->count) {
        const double n = (double)c->count;
        c->rmse = sqrt(squares / n), c->rmse_means = sqrt(flat / n), c->error = sqrt(raw / n), c->coverage = inside / n, c->score = score / n;
    }
    pu_workspace_free(&ws);
    free(mean), free(count), free(out.mean);
}

/* ---- how many factors? ---- */

/* So many can be told apart by a covariance of m columns (Ledermann), and by n rows. */
static pu_int most_factors(const sheet *s, const request *ask)
{
    const double m = (double)s->m, ledermann = floor((2 * m + 1 - sqrt(8 * m + 1)) / 2);
    pu_int most = s->m - 1 < s->n - 2 ? s->m - 1 : s->n - 2;
    if (ask->method != PPCA && (double)most > ledermann) most = (pu_int)ledermann;
    if (most < 1) most = 1;
    return most < (pu_int)ask->most ? most : (pu_int)ask->most;
}

/* The number of --factors, 0 for auto. */
static pu_int asked_factors(const sheet *s, const request *ask)
{
    char why[200], *end;
    const long number = strtol(ask->factors, &end, 10);
    const long most = (long)(s->m - 1 < s->n - 1 ? s->m - 1 : s->n - 1);
    if (!strcmp(ask->factors, "auto")) return 0;
    if (*end || end == ask->factors || number < 1) fail(2, "--factors", "needs a number from 1, or auto");
    snprintf(why, sizeof why, "%ld: there are %ld columns and %ld rows: at most %ld", number, (long)s->m, (long)s->n, most);
    if (number > most) fail(2, "--factors", why);
    return (pu_int)number;
}

/* Fits one number after the other until three have been no better than the best; the best fit stays in r->fit. */
static void choose_factors(sheet *s, const request *ask, fit_flags *flags, result *r)
{
    const pu_int asked = asked_factors(s, ask), most = asked ? asked : most_factors(s, ask);
    const int by_bic = ask->choose == 0;
    double best = HUGE_VAL;
    pu_int d, worse = 0;
    r->is_chosen = asked == 0;
    for (d = asked ? asked : 1; d <= most && worse < 3 && r->candidates < CANDIDATES && !fit_interrupted; d++) {
        candidate *c = r->tried + r->candidates++;
        const pu_options exact = fit_exact(flags);
        check hidden;
        fitted *one;
        double value;
        memset(&hidden, 0, sizeof hidden), hidden.rmse = (double)NAN;
        one = fit_factors(s, ask, flags, d);
        if (s->seen) look_at_hidden(s, one, &exact, &hidden);
        c->factors = d, c->nll = one->nll * (double)s->n, c->rmse = hidden.rmse;
        c->bic = 2 * c->nll + parameters(s, ask, d) * log((double)s->n);
        value = by_bic ? c->bic : c->rmse;
        worse++;
        if (value < best || r->candidates == 1) {
            best = value, worse = 0;
            fitted_free(r->fit);
            r->fit = one, r->hidden = hidden;
        } else fitted_free(one);
    }
}

/* Are the columns better told without any factor? Their BIC is known in closed form. */
static double bic_without(const sheet *s, const request *ask)
{
    double nll = 0, all = 0, entries = 0;
    pu_int i, j;
    for (j = 0; j < s->m; j++) {
        double mean = 0, square = 0, count = 0;
        for (i = 0; i < s->n; i++)
            if (s->seen ? s->seen[i * s->m + j] : s->y[i * s->m + j] == s->y[i * s->m + j]) {
                const double off = (double)s->y[i * s->m + j] - mean;
                mean += off / ++count, square += off * ((double)s->y[i * s->m + j] - mean);
            }
        if (ask->method != PPCA && count > 0 && square > 0) nll += count / 2 * (log(6.28318530717958647692 * square / count) + 1);
        nll += count * log(s->unit[j]), all += square, entries += count;
    }
    if (ask->method == PPCA) nll += entries / 2 * (log(6.28318530717958647692 * all / entries) + 1);
    return 2 * nll + parameters(s, ask, 0) * log((double)s->n);
}

/* ---- what came out, in coordinates that can be read ---- */

/* Covariance of the free parameters where Phi is the triangle T; place: the number of each entry of theta, -1 where it is fixed. What has no
   noise to speak of (a Heywood case) is fixed, too. NULL: there is none. */
static pu_real *covariance(const sheet *s, const request *ask, fit_flags *flags, fitted *f, const double *T, const pu_int *pivot, pu_int *place,
                           pu_int *free_count, const char **why)
{
    const pu_int M = s->m, D = f->factors, P = f->model.params;
    const pu_data data = rows_of(s, 0, s->n);
    pu_options o = fit_exact(flags);
    pu_int *from = (pu_int *)need_bytes((size_t)P * sizeof *from), n = 0, i, k, e;
    pu_real *theta = need_reals(3 * P), *start = theta + P, *gradient = start + P, *C = NULL;
    double one;
    pu_model fixed;
    pu_report told;
    pu_status status;
    memset(&fixed, 0, sizeof fixed);
    for (i = 0; i < P; i++) theta[i] = i < M * D ? (pu_real)T[i] : f->theta[i], from[i] = 0;
    for (k = 0; k < D; k++)
        for (e = k + 1; e < D; e++) from[pivot[k] * D + e] = PU_ZERO;
    for (i = M * D + M; i < P; i++)
        if (exp(-(double)theta[i]) < 1e-6) from[i] = PU_ZERO, theta[i] = (pu_real)log(1e6);
    for (i = 0; i < P; i++) {
        place[i] = from[i] == PU_ZERO ? -1 : n;
        if (place[i] >= 0) start[n] = theta[i], from[i] = n++;
    }
    *free_count = n;
    need(pu_model_fix(&fixed, &f->model, from, theta, &told), &told);
    one = seconds();
    status = pu_model_gradient(&fixed, start, &data, &o, NULL, gradient, NULL, &told);
    one = seconds() - one;
    *why = "the gradient cannot be computed at the end of the fit";
    if (status == PU_INEXACT) status = PU_OK; /* pu_fit_covariance looks again */
    if (!status && !ask->errors && (n > 1500 || 2 * (double)n * one + 1e-10 * pow((double)n, 3) > 60))
        *why = "they would take more than a minute: --errors yes";
    else if (!status) {
        if (2 * (double)n * one > 5 && !flags->quiet) fprintf(stderr, "factors: standard errors, about %.0f s\n", 2 * (double)n * one);
        C = need_reals(n * n);
        status = pu_fit_covariance(&fixed, &data, &o, NULL, start, C, &told);
        *why = status == PU_E_NOT_DEFINITE ? "the fit has not come to rest at a maximum" : pu_status_text(status);
        if (status && status != PU_UNIDENTIFIED && status != PU_INEXACT) free(C), C = NULL;
    }
    pu_model_free(&fixed);
    free(from), free(theta);
    return C;
}

/* Phi is turned; loadings, noises, shares of variance in the units of the results, and standard errors. */
static void read_result(const sheet *s, const request *ask, fit_flags *flags, result *r)
{
    const pu_int M = s->m, D = r->fit->factors, P = r->fit->model.params;
    const int kind = ask->rotate ? ROTATION_VARIMAX : ROTATION_CANONICAL, tied = ask->method == PPCA;
    double *block = (double *)need_bytes((size_t)(5 * M * D + 5 * M + D * D + D) * sizeof *block), *L = block, *T = L + M * D, *variance = T + M * D;
    double *psi, *Q, all = 0;
    pu_int *pivot = (pu_int *)need_bytes((size_t)D * sizeof *pivot), *place = (pu_int *)need_bytes((size_t)P * sizeof *place), n, i, d;
    pu_real *C = NULL;
    r->block = block;
    r->loading = variance + M * D, r->se = r->loading + M * D, r->noise = r->se + M * D, r->noise_se = r->noise + M, r->mean_se = r->noise_se + M;
    psi = r->mean_se + M, Q = psi + 2 * M, r->share = Q + D * D;
    for (i = 0; i < M * D; i++) L[i] = (double)r->fit->theta[i];
    for (i = 0; i < M; i++) psi[i] = exp((double)r->fit->theta[M * D + M + (tied ? 0 : i)]);
    rotation_find(kind, M, D, L, psi);
    rotation_triangle(M, D, L, pivot, Q, T);
    if (ask->errors < 2 && !fit_interrupted) C = covariance(s, ask, flags, r->fit, T, pivot, place, &n, &r->no_errors);
    else r->no_errors = fit_interrupted ? "the fit was interrupted" : NULL;
    r->has_errors = C != NULL;
    for (i = 0; i < M * D; i++) variance[i] = (double)NAN;
    if (C) { /* which knows no means: theta has them between Phi and the noises */
        pu_int *turned = (pu_int *)need_bytes((size_t)(P - M) * sizeof *turned);
        for (i = 0; i < P - M; i++) turned[i] = place[i < M * D ? i : i + M];
        rotation_errors(kind, M, D, T, psi, Q, turned, n, C, tied, variance);
        free(turned);
    }
    for (i = 0; i < M; i++) {
        const pu_int at = M * D + M + (tied ? 0 : i), k = C ? place[at] : -1, mean = C ? place[M * D + i] : -1;
        r->noise[i] = s->unit[i] / sqrt(psi[i]);
        r->noise_se[i] = k >= 0 ? r->noise[i] / 2 * sqrt((double)C[k * (n + 1)]) : (double)NAN;
        r->mean_se[i] = mean >= 0 ? s->scale[i] * sqrt((double)C[mean * (n + 1)]) : (double)NAN;
        all += r->noise[i] * r->noise[i];
        for (d = 0; d < D; d++) {
            r->loading[i * D + d] = L[i * D + d] * s->unit[i], r->se[i * D + d] = sqrt(variance[i * D + d]) * s->unit[i];
            r->share[d] += r->loading[i * D + d] * r->loading[i * D + d], all += r->loading[i * D + d] * r->loading[i * D + d];
            r->fit->theta[i * D + d] = (pu_real)L[i * D + d];
        }
    }
    for (d = 0; d < D; d++) r->share[d] /= all;
    free(C), free(pivot), free(place);
}

static double share_of_all(const result *r)
{
    double sum = 0;
    pu_int d;
    for (d = 0; d < r->fit->factors; d++) sum += r->share[d];
    return sum;
}

/* Variance of a column that the factors explain. */
static double communality(const result *r, pu_int j)
{
    const pu_int D = r->fit->factors;
    double sum = 0;
    pu_int d;
    for (d = 0; d < D; d++) sum += r->loading[j * D + d] * r->loading[j * D + d];
    return sum / (sum + r->noise[j] * r->noise[j]);
}

static double original_mean(const sheet *s, const result *r, pu_int j)
{
    return s->mean[j] + s->scale[j] * (double)r->fit->theta[s->m * r->fit->factors + j];
}

/* ---- files ---- */

static void write_loadings(const sheet *s, const result *r, const char *path)
{
    const pu_int D = r->fit->factors;
    FILE *file = file_open(path);
    pu_int j, d;
    fprintf(file, "column,mean,se.mean,noise,se.noise,communality");
    for (d = 0; d < D; d++) fprintf(file, ",factor%ld,se.factor%ld", (long)d + 1, (long)d + 1);
    for (j = 0; j < s->m; j++) {
        fprintf(file, "\n");
        table_write_name(file, column_name(s, j));
        table_write_number(file, original_mean(s, r, j)), table_write_number(file, r->mean_se[j]);
        table_write_number(file, r->noise[j]), table_write_number(file, r->noise_se[j]), table_write_number(file, communality(r, j));
        for (d = 0; d < D; d++) table_write_number(file, r->loading[j * D + d]), table_write_number(file, r->se[j * D + d]);
    }
    fprintf(file, "\n");
    file_close(file, path);
}

/* Scores of all rows into the file, or, without one, of so many rows into `two`: those of the first two factors, for a picture. */
static void write_scores(const sheet *s, result *r, const pu_options *options, const char *path, pu_int wanted, double *two)
{
    const pu_int D = r->fit->factors, all = path ? s->n : wanted;
    FILE *file = path ? file_open(path) : NULL;
    pu_posterior_result out;
    pu_workspace ws;
    pu_report told;
    pu_int i, d, first;
    memset(&ws, 0, sizeof ws), memset(&out, 0, sizeof out);
    out.mean = need_reals(2 * CHUNK * D), out.variance = out.mean + CHUNK * D;
    if (file) fprintf(file, "row");
    for (d = 0; d < D && file; d++) fprintf(file, ",factor%ld,sd.factor%ld", (long)d + 1, (long)d + 1);
    if (file) fprintf(file, "\n");
    for (first = 0; first < all; first += CHUNK) {
        const pu_int rows = all - first < CHUNK ? all - first : CHUNK;
        const pu_data data = rows_of(s, first, rows);
        need_result(pu_model_posterior(&r->fit->model, r->fit->theta, &data, options, &ws, &out, &told), &told);
        for (i = 0; i < rows; i++) {
            if (file) fprintf(file, "%ld", (long)(first + i) + 1);
            for (d = 0; d < D && file; d++)
                table_write_number(file, (double)out.mean[i * D + d]), table_write_number(file, sqrt((double)out.variance[i * D + d]));
            if (file) fprintf(file, "\n");
            for (d = 0; d < 2 && first + i < wanted; d++) two[2 * (first + i) + d] = d < D ? (double)out.mean[i * D + d] : 0;
        }
    }
    pu_workspace_free(&ws);
    free(out.mean);
    if (file) file_close(file, path);
}

/* What the gaps probably held: into --gaps, and into s->y, which then is in the units of the file. The last thing that is done with it. */
static void fill_gaps(sheet *s, result *r, const pu_options *options, const request *ask)
{
    const pu_int M = s->m;
    FILE *file = ask->gaps ? file_open(ask->gaps) : NULL;
    pu_predict_result out;
    pu_workspace ws;
    pu_report told;
    pu_int i, j, first;
    memset(&ws, 0, sizeof ws), memset(&out, 0, sizeof out);
    out.mean = need_reals(2 * CHUNK * M), out.variance = out.mean + CHUNK * M;
    if (file) fprintf(file, "row,column,mean,sd,low,high\n");
    for (first = 0; first < s->n; first += CHUNK) {
        const pu_int rows = s->n - first < CHUNK ? s->n - first : CHUNK;
        const pu_data data = rows_of(s, first, rows);
        need_result(pu_model_predict(&r->fit->model, r->fit->theta, &data, options, &ws, &out, &told), &told);
        for (i = 0; i < rows; i++)
            for (j = 0; j < M; j++) {
                const pu_int at = (first + i) * M + j;
                const double mean = s->mean[j] + s->scale[j] * (double)out.mean[i * M + j], sd = s->scale[j] * sqrt((double)out.variance[i * M + j]);
                if (s->y[at] == s->y[at]) continue;
                s->y[at] = (pu_real)mean;
                if (!file) continue;
                fprintf(file, "%ld,", (long)(first + i) + 1);
                table_write_name(file, column_name(s, j));
                table_write_number(file, mean), table_write_number(file, sd), table_write_number(file, mean - 1.96 * sd), table_write_number(file, mean + 1.96 * sd);
                fprintf(file, "\n");
            }
    }
    pu_workspace_free(&ws);
    free(out.mean);
    if (file) file_close(file, ask->gaps);
    if (ask->impute) frame_fill_in(&s->f, ask->impute);
}

/* ---- pictures ---- */

/* Loadings of the columns, in their standard deviations: colour is the sign, strength the size. Returns the height. */
static double draw_loadings(const sheet *s, const result *r, FILE *file, double below)
{
    const pu_int D = r->fit->factors < 12 ? r->fit->factors : 12, rows = s->m < SHOWN ? s->m : SHOWN;
    const double left = 140, width = fmin(70, (470 - left) / (double)D), line = 18, height = 44 + line * (double)rows + 10;
    svg_plot p;
    pu_int j, d;
    memset(&p, 0, sizeof p);
    p.file = file;
    p.below = below;
    p.title = "loadings";
    svg_open(&p, height);
    if (below > 0) fprintf(file, "<text x=\"8\" y=\"18\" font-weight=\"bold\">%s</text>\n", p.title);
    for (d = 0; d < D; d++)
        fprintf(file, "<text x=\"%.1f\" y=\"38\" text-anchor=\"middle\" font-size=\"12\">%ld</text>\n", left + width * ((double)d + 0.5),
                (long)d + 1);
    for (j = 0; j < rows; j++) {
        const double y = 44 + line * (double)j;
        double total = r->noise[j] * r->noise[j];
        for (d = 0; d < r->fit->factors; d++) total += pow(r->loading[j * r->fit->factors + d], 2);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" font-size=\"12\">", left - 8, y + 13);
        frame_label(file, column_name(s, j), 18);
        fprintf(file, "</text>\n");
        for (d = 0; d < D; d++) {
            const double share = r->loading[j * r->fit->factors + d] / sqrt(total);
            fprintf(file,
                    "<g class=\"c%d\"><rect fill=\"currentColor\" opacity=\"%.2f\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></g>\n",
                    share < 0 ? 1 : 2, 0.05 + 0.75 * fabs(share), left + width * (double)d + 1, y, width - 2, line - 2);
            if (width >= 30)
                fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"11\">%.2f</text>\n", left + width * ((double)d + 0.5),
                        y + 12, share);
        }
    }
    fprintf(file, "</svg>\n");
    return height;
}

/* How much of the variance each factor explains. */
static double draw_shares(const result *r, FILE *file, double below)
{
    const pu_int D = r->fit->factors < 30 ? r->fit->factors : 30;
    svg_plot p;
    pu_int d;
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.top = 10, p.height = 160;
    p.title = "share of the variance", p.x_label = "factor", p.y_label = "share, %";
    p.x0 = 0.5, p.x1 = fmax((double)D, 8) + 0.5; /* whole numbers on the axis */
    for (d = 0; d < D; d++) p.y1 = fmax(p.y1, 105 * r->share[d]);
    svg_begin(&p);
    for (d = 0; d < D; d++)
        fprintf(file, "<g class=\"c2\"><rect fill=\"currentColor\" opacity=\"0.7\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></g>\n",
                svg_x(&p, (double)d + 0.65), svg_y(&p, 100 * r->share[d]), svg_x(&p, (double)d + 1.35) - svg_x(&p, (double)d + 0.65),
                p.bottom - svg_y(&p, 100 * r->share[d]));
    svg_end(&p);
    return p.bottom + 46;
}

/* The numbers of factors that were tried. */
static double draw_candidates(const request *ask, const result *r, FILE *file, double below)
{
    double x[CANDIDATES], y[CANDIDATES], best = HUGE_VAL, at = 0;
    svg_plot p;
    int i;
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.top = 10, p.height = 180, p.title = "numbers of factors", p.x_label = "factors";
    p.y_label = ask->choose ? "error of hidden entries" : "BIC above the best";
    p.x0 = 0.5, p.x1 = 8.5, p.y0 = HUGE_VAL, p.y1 = -HUGE_VAL;
    for (i = 0; i < r->candidates; i++) {
        const double value = ask->choose ? r->tried[i].rmse : r->tried[i].bic;
        if (value < best) best = value, at = (double)r->tried[i].factors;
    }
    for (i = 0; i < r->candidates; i++) {
        x[i] = (double)r->tried[i].factors, y[i] = ask->choose ? r->tried[i].rmse : r->tried[i].bic - best;
        p.x1 = fmax(p.x1, x[i] + 0.5), p.y0 = fmin(p.y0, y[i]), p.y1 = fmax(p.y1, y[i]);
    }
    svg_begin(&p);
    svg_line(&p, r->candidates, x, y, "c2", 0, 1);
    svg_mark(&p, at, "chosen");
    svg_end(&p);
    return p.bottom + 46;
}

/* Rows and columns together: scores of up to 2000 rows on the first two factors, and arrows for the columns that load most on them. */
static double draw_biplot(const sheet *s, const result *r, const double *two, pu_int rows, FILE *file, double below)
{
    const pu_int D = r->fit->factors;
    double *x = (double *)need_bytes((size_t)(2 * rows) * sizeof *x), *y = x + rows, most = 0, longest = 0;
    unsigned char *drawn = (unsigned char *)need_bytes((size_t)s->m);
    double named[2][12]; /* where names begin, for none is written upon another */
    svg_plot p;
    pu_int i, j;
    int arrows, names = 0, k;
    for (i = 0; i < rows; i++) x[i] = two[2 * i], y[i] = two[2 * i + 1], most = fmax(most, fmax(fabs(x[i]), fabs(y[i])));
    memset(&p, 0, sizeof p);
    if (!(most > 0)) most = 1;
    p.file = file, p.below = below, p.top = 28, p.height = 394, p.title = "rows and columns", p.x_label = "factor 1", p.y_label = "factor 2";
    p.x0 = p.y0 = -1.05 * most, p.x1 = p.y1 = 1.05 * most;
    svg_begin(&p);
    svg_legend(&p, "note", '.', "rows");
    svg_legend(&p, "c1", '-', "columns");
    svg_dots(&p, (int)rows, x, y, "note");
    for (j = 0; j < s->m; j++) longest = fmax(longest, hypot(r->loading[j * D], r->loading[j * D + 1]) / s->unit[j]);
    for (arrows = 0; arrows < 12 && arrows < s->m && longest > 0; arrows++) {
        pu_int best = -1;
        double size = -1, u, v;
        for (j = 0; j < s->m; j++) {
            const double one = hypot(r->loading[j * D], r->loading[j * D + 1]) / s->unit[j];
            if (!drawn[j] && one > size) size = one, best = j;
        }
        if (best < 0) break;
        drawn[best] = 1;
        u = r->loading[best * D] / s->unit[best] / longest * 0.85 * most, v = r->loading[best * D + 1] / s->unit[best] / longest * 0.85 * most;
        fprintf(file, "<g class=\"c1\"><path class=\"line\" d=\"M%.1f %.1fL%.1f %.1f\"/></g>\n", svg_x(&p, 0), svg_y(&p, 0), svg_x(&p, u), svg_y(&p, v));
        named[0][names] = svg_x(&p, u) + (u < 0 ? -4 : 4), named[1][names] = svg_y(&p, v) + (v < 0 ? 12 : -2);
        for (k = 0; k < names; k++)
            if (fabs(named[1][k] - named[1][names]) < 12 && fabs(named[0][k] - named[0][names]) < 100) break;
        if (k < names) continue;
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"12\">", named[0][names], named[1][names], u < 0 ? "end" : "start");
        names++;
        frame_label(file, column_name(s, best), 14);
        fprintf(file, "</text>\n");
    }
    svg_end(&p);
    free(x), free(drawn);
    return p.bottom + 46;
}

/* All pictures, below each other. */
static void draw_all(const sheet *s, const request *ask, const result *r, const double *two, pu_int rows)
{
    const pu_int columns = s->m < SHOWN ? s->m : SHOWN;
    const double height = 1 + 54 + 18 * (double)columns + 216 + (r->candidates > 1 ? 236 : 0) + (r->fit->factors > 1 ? 468 : 0);
    FILE *file = file_open(ask->svg);
    double below = 1;
    svg_sheet(file, height, "factors: loadings, shares of the variance, rows and columns");
    below += draw_loadings(s, r, file, below);
    below += draw_shares(r, file, below);
    if (r->candidates > 1) below += draw_candidates(ask, r, file, below);
    if (r->fit->factors > 1) (void)draw_biplot(s, r, two, rows, file, below);
    fprintf(file, "</svg>\n");
    file_close(file, ask->svg);
}

/* ---- what is told ---- */

static const char *method_name(const request *ask) { return ask->method == PPCA ? "probabilistic PCA" : "factor analysis"; }

static const char *coordinates(const request *ask)
{
    if (ask->rotate) return "rotated by varimax (Kaiser's normalisation), largest sum of squares first, signs such that each sum is positive";
    return ask->method == PPCA ? "principal axes: Phi'Phi diagonal, largest first, signs such that each sum is positive"
                               : "canonical: Phi' diag(1/noise^2) Phi diagonal, largest first, signs such that each sum is positive";
}

static const char *units(const request *ask) { return ask->standardise ? "of standardised columns" : "in the units of the columns"; }

/* What a reader must know of the fit: lines for the terminal and the page. */
static void warn(result *r, const char *format, ...)
{
    va_list list;
    if (r->warnings == WARNINGS) return;
    va_start(list, format);
    vsnprintf(r->warning[r->warnings++], sizeof r->warning[0], format, list);
    va_end(list);
}

static void find_warnings(const sheet *s, const request *ask, result *r)
{
    const fitted *f = r->fit;
    const double m = (double)s->m;
    pu_int j, d;
    if (f->report.status == PU_INEXACT)
        warn(r, "rounding has taken more than half of the digits of the last gradient: columns are nearly combinations of each other");
    if (fit_interrupted) warn(r, "interrupted: all that follows is of a fit under way");
    else if (!fit_converged(&f->report))
        warn(r, "the fit has not converged (%s, step %ld): more --steps may improve it", pu_fit_stop_text(f->report.stop), (long)f->report.step);
    for (j = 0; j < s->m && ask->method != PPCA; j++)
        if (r->noise[j] < 1e-3 * s->unit[j])
            warn(r, "%s has no noise left (a Heywood case): the factors reproduce it; fewer factors, or more rows", column_name(s, j));
    if (ask->method != PPCA && (double)f->factors > (2 * m + 1 - sqrt(8 * m + 1)) / 2)
        warn(r, "%ld factors are more than the covariance of %ld columns can tell apart", (long)f->factors, (long)s->m);
    for (d = 0; d < f->factors && f->factors > 1 && r->has_errors; d++) {
        double error = 0, size = 0;
        for (j = 0; j < s->m; j++) error += pow(r->se[j * f->factors + d], 2), size += pow(r->loading[j * f->factors + d], 2);
        if (error > size / 2)
            warn(r, "factor %ld is hardly told apart from another one of its strength: its loadings have large errors%s", (long)d + 1,
                 ask->rotate ? "" : "; --rotate varimax may help");
    }
    if (!r->has_errors && r->no_errors) warn(r, "no standard errors: %s", r->no_errors);
}

static void print_candidates(const sheet *s, const request *ask, const result *r)
{
    int i;
    if (r->candidates < 2) return;
    printf("\n  factors    parameters             NLL            BIC%s\n", s->hidden ? "   error of hidden entries" : "");
    for (i = 0; i < r->candidates; i++) {
        const candidate *c = r->tried + i;
        printf("  %7ld %13.0f %15.3f %14.3f", (long)c->factors, parameters(s, ask, c->factors), c->nll, c->bic);
        if (s->hidden) printf(" %12.4f", c->rmse);
        printf("%s\n", c->factors == r->fit->factors ? "   <- chosen" : "");
    }
}

static void print_loadings(const sheet *s, const request *ask, const result *r)
{
    const pu_int D = r->fit->factors, shown = D < WIDE ? D : WIDE, rows = s->m < SHOWN ? s->m : SHOWN;
    pu_int j, d;
    printf("\n  loadings %s (+- standard error)\n  %s\n  %-20s", units(ask), coordinates(ask), "");
    for (d = 0; d < shown; d++) printf("  %-18ld", (long)d + 1);
    printf("  noise (sd)\n");
    for (j = 0; j < rows; j++) {
        printf("  ");
        frame_pad(column_name(s, j), 20);
        for (d = 0; d < shown; d++) {
            char text[64];
            if (r->has_errors && r->se[j * D + d] == r->se[j * D + d])
                snprintf(text, sizeof text, "%9.4g +- %.2g", r->loading[j * D + d], r->se[j * D + d]);
            else snprintf(text, sizeof text, "%9.4g", r->loading[j * D + d]);
            printf("  %-18s", text);
        }
        printf("  %.4g", r->noise[j]);
        if (r->noise_se[j] == r->noise_se[j]) printf(" +- %.2g", r->noise_se[j]);
        printf("\n");
    }
    if (rows < s->m || shown < D)
        printf("  the other %s left out here: --loadings FILE has all of them\n", rows < s->m ? "columns are" : "factors are");
    printf("  %-20s", "share of variance");
    for (d = 0; d < shown; d++) printf("  %8.2f %%        ", 100 * r->share[d]);
    printf("  all %.2f %%\n", 100 * share_of_all(r));
}

static void print_hidden(const sheet *s, const request *ask, const result *r)
{
    const check *c = &r->hidden;
    if (!c->count) return;
    printf("\n  %ld hidden entries: error %.4f standard deviations of their columns (column means %.4f), 95 %% intervals hold %.1f %%, mean log "
           "density %.4f\n",
           c->count, c->rmse, c->rmse_means, 100 * c->coverage, c->score);
    if (s->is_simulated && !ask->standardise) printf("  hidden entries: error %.3f (noise 0.5)\n", c->error);
}

static void print_all(const sheet *s, const request *ask, const result *r)
{
    const fitted *f = r->fit;
    double mean = 0;
    pu_int j;
    int k;
    for (j = 0; j < s->m; j++) mean += r->noise[j] / (double)s->m;
    printf("%s, %ld rows, %ld columns, %ld gaps; %ld factors%s\n", method_name(ask), (long)s->n, (long)s->m, s->gaps, (long)f->factors,
           !r->is_chosen ? "" : ask->choose ? " (chosen by hidden entries)" : " (chosen by BIC)");
    printf("device %s\n", device_name);
    print_candidates(s, ask, r);
    if (r->is_chosen && !ask->choose && bic_without(s, ask) < r->tried[0].bic)
        printf("  no factor at all has a smaller BIC than one: %.3f\n", bic_without(s, ask));
    print_loadings(s, ask, r);
    if (s->is_simulated && !ask->standardise) {
        printf("  simulated: rank %ld, noise 0.5; found: noise %.4f%s\n", ask->rank, mean, ask->method == PPCA ? "" : " on average");
    }
    print_hidden(s, ask, r);
    printf("\n  NLL per row %.6f%s, of all rows %.4f%s; BIC %.3f\n", f->nll, nll_error(&f->told).text, f->nll * (double)s->n,
           ask->standardise ? ", of standardised columns" : "", 2 * f->nll * (double)s->n + parameters(s, ask, f->factors) * log((double)s->n));
    printf("  %ld steps, %ld gradients in %.2f s (%s); reading %.2f s; %.0f MB\n  %s\n", (long)f->report.step, (long)f->report.gradients,
           f->report.seconds, pu_fit_stop_text(f->report.stop), r->read, peak_mb(), f->report.last.plan);
    for (k = 0; k < r->warnings; k++) printf("  %s\n", r->warning[k]);
}

/* {"a": 1, "b": 2}, or with lists {"a": [..], "b": [..]}: numbers for each column. */
static void json_rows(json *j, const sheet *s, const char *key, pu_int width, int is_list, const double *x)
{
    pu_int i, d;
    json_key(j, key);
    for (i = 0; j->file && i < s->m; i++) {
        fprintf(j->file, i ? ", " : "{");
        json_string(j, column_name(s, i));
        fprintf(j->file, is_list ? ": [" : ": ");
        for (d = 0; d < width; d++) {
            if (d) fprintf(j->file, ", ");
            json_value(j, x[i * width + d]);
        }
        if (is_list) fprintf(j->file, "]");
    }
    if (j->file) fprintf(j->file, "}");
}

static void write_json(const sheet *s, const request *ask, const fit_flags *flags, const result *r)
{
    json j = json_open(flags->json);
    const fitted *f = r->fit;
    double *mean;
    pu_int i;
    int k;
    if (!j.file) return;
    mean = (double *)need_bytes((size_t)s->m * sizeof *mean);
    for (i = 0; i < s->m; i++) mean[i] = original_mean(s, r, i);
    json_fit(&j, flags, &f->report, f->nll, f->nll_se);
    json_text(&j, "method", ask->method == PPCA ? "ppca" : "factors");
    json_text(&j, "rotation", ask->rotate ? "varimax" : "canonical");
    json_number(&j, "rows", (double)s->n);
    json_number(&j, "columns", (double)s->m);
    json_number(&j, "gaps", (double)s->gaps);
    json_number(&j, "factors", (double)f->factors);
    json_number(&j, "nll_total", f->nll * (double)s->n);
    json_number(&j, "bic", 2 * f->nll * (double)s->n + parameters(s, ask, f->factors) * log((double)s->n));
    json_number(&j, "explained", share_of_all(r));
    json_key(&j, "share");
    for (i = 0; i < f->factors; i++) fprintf(j.file, i ? ", " : "["), json_value(&j, r->share[i]);
    fprintf(j.file, "]");
    json_rows(&j, s, "mean", 1, 0, mean);
    json_rows(&j, s, "noise", 1, 0, r->noise);
    json_rows(&j, s, "loadings", f->factors, 1, r->loading);
    json_key(&j, "standard_errors");
    if (r->has_errors) {
        fprintf(j.file, "{");
        j.keys = 0;
        json_rows(&j, s, "mean", 1, 0, r->mean_se), json_rows(&j, s, "noise", 1, 0, r->noise_se);
        json_rows(&j, s, "loadings", f->factors, 1, r->se);
        fprintf(j.file, "}");
    } else fprintf(j.file, "null");
    json_number(&j, "hidden", (double)r->hidden.count);
    if (r->hidden.count) {
        json_number(&j, "hidden_rmse", r->hidden.rmse);
        json_number(&j, "hidden_rmse_means", r->hidden.rmse_means);
        json_number(&j, "hidden_error", r->hidden.error);
        json_number(&j, "coverage", r->hidden.coverage);
        json_number(&j, "log_score", r->hidden.score);
    }
    json_key(&j, "candidates");
    for (k = 0; k < r->candidates; k++) {
        fprintf(j.file, "%s{\"factors\": %ld, \"nll\": ", k ? ", " : "[", (long)r->tried[k].factors);
        json_value(&j, r->tried[k].nll), fprintf(j.file, ", \"bic\": "), json_value(&j, r->tried[k].bic);
        fprintf(j.file, ", \"rmse\": "), json_value(&j, r->tried[k].rmse), fprintf(j.file, "}");
    }
    fprintf(j.file, "]");
    json_close(&j);
    free(mean);
}

static void report_candidates(report_page *page, const sheet *s, const request *ask, const result *r)
{
    int i;
    if (r->candidates < 2) return;
    report_section(page, "How many factors?");
    report_figure(page);
    (void)draw_candidates(ask, r, page->file, 0);
    report_caption(page, "%s. The lowest point is taken; where the curve is flat a smaller number is as good.",
                   ask->choose ? "Error of the hidden entries, in standard deviations of their columns"
                               : "BIC: twice the negative log-likelihood, and log(rows) for each parameter");
    report_table(page, s->hidden ? "factors|NLL|BIC|error of hidden entries" : "factors|NLL|BIC");
    for (i = 0; i < r->candidates; i++) {
        const candidate *c = r->tried + i;
        const int best = c->factors == r->fit->factors;
        char name[24];
        snprintf(name, sizeof name, "%ld", (long)c->factors);
        report_row(page, name);
        report_cell(page, 0, "%.2f", c->nll);
        report_cell(page, best && !ask->choose, "%.2f", c->bic);
        if (s->hidden) report_cell(page, best && ask->choose, "%.4f", c->rmse);
    }
    report_table_end(page, NULL);
}

static void write_report(const sheet *s, const request *ask, const result *r, const double *two, pu_int rows, int argc, char **argv, int count,
                         const option *list)
{
    const pu_int D = r->fit->factors, shown = D < WIDE ? D : WIDE;
    report_page page = report_open(ask->report, "factors: report");
    const char *told = ask->standardise ? "Standard errors take the standard deviations of columns for known: they are rather too large."
                                        : "Standard errors are those of these coordinates.";
    char heads[40 * WIDE + 100] = "column";
    pu_int j, d;
    int i;
    if (!page.file) return;
    if (r->hidden.count)
        report_answer(&page,
                      "%ld factor%s explain%s %.0f %% of the variance of %ld columns; hidden entries are predicted to within %.2f standard "
                      "deviations (column means: %.2f).",
                      (long)D, D > 1 ? "s" : "", D > 1 ? "" : "s", 100 * share_of_all(r), (long)s->m, r->hidden.rmse, r->hidden.rmse_means);
    else
        report_answer(&page, "%ld factor%s explain%s %.0f %% of the variance of %ld columns.", (long)D, D > 1 ? "s" : "", D > 1 ? "" : "s",
                      100 * share_of_all(r), (long)s->m);
    for (i = 0; i < r->warnings; i++) report_warning(&page, "Take care: %s.", r->warning[i]);
    report_text(&page, "%s of %ld rows by maximum likelihood, with %ld gaps. %s.", ask->method == PPCA ? "Probabilistic PCA" : "Factor analysis",
                (long)s->n, s->gaps,
                !r->is_chosen ? "The number of factors was given"
                : ask->choose ? "The number of factors was chosen by hidden entries"
                              : "The number of factors was chosen by BIC");
    for (i = 0; i < s->f.notes; i++) report_text(&page, "Of the table: %s.", s->f.note[i]);
    report_section(&page, "Loadings");
    report_figure(&page);
    (void)draw_loadings(s, r, page.file, 0);
    report_caption(&page,
                   "Each cell is what one standard deviation of a factor (column) adds to a column of the table (row), in standard deviations of "
                   "that: look for rows with the same dark cells.%s",
                   s->m > SHOWN ? " The first 40 columns are shown." : "");
    report_figure(&page);
    (void)draw_shares(r, page.file, 0);
    report_caption(&page, "How much of the variance of all columns, %s, each factor explains.", units(ask));
    if (D > 1) {
        report_figure(&page);
        (void)draw_biplot(s, r, two, rows, page.file, 0);
        report_caption(&page,
                       "Rows of the table by their scores on the first two factors, and the columns that load most on them: a row lies in the "
                       "direction of the columns in which it is large.%s",
                       rows < s->n ? " The first 2000 rows are shown." : "");
    }
    report_candidates(&page, s, ask, r);
    report_section(&page, "Numbers");
    for (d = 0; d < shown; d++) snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|factor %ld|std. error", (long)d + 1);
    snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|noise|explained");
    report_table(&page, heads);
    for (j = 0; j < s->m && j < 4 * SHOWN; j++) {
        report_row(&page, column_name(s, j));
        for (d = 0; d < shown; d++) {
            report_cell(&page, 0, "%.4g", r->loading[j * D + d]);
            if (r->se[j * D + d] == r->se[j * D + d]) report_cell(&page, 0, "%.2g", r->se[j * D + d]);
            else report_cell(&page, 0, "-");
        }
        report_cell(&page, 0, "%.4g", r->noise[j]);
        report_cell(&page, 0, "%.0f %%", 100 * communality(r, j));
    }
    snprintf(heads, sizeof heads, "Loadings %s; %s. %s%s", units(ask), coordinates(ask),
             r->has_errors  ? told
             : r->no_errors ? "No standard errors: "
                            : "",
             r->has_errors || !r->no_errors ? "" : r->no_errors);
    report_table_end(&page, heads);
    report_text(&page, "NLL per row %.6f%s. %ld steps: %s. %s.", r->fit->nll, ask->standardise ? ", of standardised columns" : "",
                (long)r->fit->report.step, pu_fit_stop_text(r->fit->report.stop), r->fit->report.last.plan);
    report_close(&page, argc, argv, count, list);
}

static int read_options(int argc, char **argv, request *ask, frame *f, fit_flags *flags, option *list)
{
    int n = 0;
    memset(ask, 0, sizeof *ask);
    frame_default(f), fit_flags_default(flags);
    ask->factors = "auto", ask->most = 20, ask->rows = 400, ask->columns = 12, ask->rank = 3, ask->lost = 0.1;
    need_silent = 1; /* find_warnings tells */
    flags->gradient = 0, flags->steps = 0, flags->rate = 0; /* exact; what the library advises */
    n += frame_flags_table(f, list + n);
    list[n++] = opt_choice("method", "a noise for each column, or one for all", &ask->method, "factors,ppca");
    list[n++] = opt_text("factors", "how many, or auto", &ask->factors);
    list[n++] = opt_choice("choose", "the number of factors by BIC, or by hidden entries (--hold-out)", &ask->choose, "bic,hold-out");
    list[n++] = opt_number("most", "factors that --factors auto tries", &ask->most, 1, CANDIDATES);
    list[n++] = opt_real("hold-out", "share of entries to hide first and predict; the last fit has them all", &ask->hold_out, 0, 0.9);
    list[n++] =
        opt_flag("standardise", "results are of columns divided by their standard deviations, which errors take for known", &ask->standardise);
    list[n++] = opt_choice("rotate", "coordinates of the factors", &ask->rotate, "canonical,varimax");
    list[n++] = opt_choice("errors", "standard errors; auto: unless they take more than a minute", &ask->errors, "auto,yes,no");
    list[n++] = opt_text("impute", "write --data with its gaps filled in to this file, all else as it is", &ask->impute);
    list[n++] = opt_text("gaps", "write mean, sd and 95 % interval of every gap to this CSV file", &ask->gaps);
    list[n++] = opt_text("loadings", "write loadings, means, noises and their standard errors to this CSV file", &ask->loadings);
    list[n++] = opt_text("scores", "write posterior mean and sd of the factors of every row to this CSV file", &ask->scores);
    list[n++] = opt_text("svg", "write pictures to this file", &ask->svg);
    list[n++] = opt_text("report", "write a page of results to this file", &ask->report);
    list[n++] = opt_number("simulate-rows", "without --data: rows", &ask->rows, 3, 2000000000);
    list[n++] = opt_number("simulate-columns", "without --data: columns", &ask->columns, 2, 1000000);
    list[n++] = opt_number("simulate-rank", "without --data: true factors", &ask->rank, 1, 1000);
    list[n++] = opt_real("simulate-missing", "without --data: share of gaps", &ask->lost, 0, 0.95);
    n += fit_flags_table(flags, list + n);
    options_read(argc, argv, "factors",
                 "Factor analysis or probabilistic PCA of a table (CSV, or .npy of numpy), gaps included, by maximum likelihood: loadings with\n"
                 "standard errors, scores, gaps filled in, the number of factors. Without --data a table is simulated.\n"
                 "JSON: nll (per row), nll_total, bic, factors, share, loadings {column: [..]}, noise, mean, standard_errors, candidates.\n"
                 "--steps 0 and --rate 0: as the library advises.", n, list);
    options_apart(argc, argv, "data", "simulate-rows,simulate-columns,simulate-rank,simulate-missing");
    if (ask->impute && !f->data) fail(2, "--impute", "needs --data: it is that file with its gaps filled in");
    if (ask->choose && !(ask->hold_out > 0)) ask->hold_out = 0.1;
    if (!f->data && !(ask->hold_out > 0) && !option_given(argc, argv, "hold-out", 8)) ask->hold_out = 0.1;
    file_ready(ask->impute), file_ready(ask->gaps), file_ready(ask->loadings), file_ready(ask->scores), file_ready(ask->svg);
    file_ready(ask->report), file_ready(flags->json);
    return n;
}

int main(int argc, char **argv)
{
    static sheet s;
    static result r;
    static option list[FIT_FLAGS + FRAME_FLAGS + 20];
    request ask;
    fit_flags flags;
    pu_options exact;
    double *two;
    pu_int rows;
    const int count = read_options(argc, argv, &ask, &s.f, &flags, list);
    device_open();
    exact = fit_exact(&flags);
    r.read = seconds();
    read_table(&s, &ask, &flags);
    r.read = seconds() - r.read;
    if (ask.hold_out > 0) hide(&s, ask.hold_out, (uint64_t)flags.seed);
    choose_factors(&s, &ask, &flags, &r);
    if (s.seen) { /* once more, with all that is there */
        const pu_int factors = r.fit->factors;
        free(s.seen), s.seen = NULL;
        if (!fit_interrupted) {
            fitted_free(r.fit);
            r.fit = fit_factors(&s, &ask, &flags, factors);
        }
    }
    read_result(&s, &ask, &flags, &r);
    find_warnings(&s, &ask, &r);
    rows = s.n < 2000 ? s.n : 2000;
    two = (double *)need_bytes(2 * (size_t)rows * sizeof *two);
    if (ask.scores || ask.svg || ask.report) write_scores(&s, &r, &exact, ask.scores, rows, two);
    if (!flags.quiet) print_all(&s, &ask, &r);
    write_json(&s, &ask, &flags, &r);
    if (ask.loadings) write_loadings(&s, &r, ask.loadings);
    if (ask.svg) draw_all(&s, &ask, &r, two, rows);
    if (ask.report) write_report(&s, &ask, &r, two, rows, argc, argv, count, list);
    if (ask.impute || ask.gaps) fill_gaps(&s, &r, &exact, &ask);
    fitted_free(r.fit);
    if (s.is_simulated) free(s.y);
    frame_free(&s.f);
    free(s.mean), free(two);
    free(r.block);
    device_close();
    return fit_code();
}

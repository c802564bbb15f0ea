/* regress.c - Bayesian, sparse or neural regression of a column of one's own table on the others.

   cc -O3 -march=native -fopenmp -I. examples/regress.c -o regress -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/regress.c -o regress -lcublas -lcufft -lcurand       (for --device cuda)
   ./regress                                                                       a simulated curve on bumps
   ./regress --method neural --svg curve.svg                                       several of them on learnt features
   ./regress --data houses.csv --response price --categories district --hold-out 0.2 --report houses.html
   ./regress --data houses.csv --response price --predict new.csv --out prices.csv

   bayes: y = x'b + noise of precision beta, b ~ N(0, 1/alpha), alpha and beta maximise the likelihood with b integrated out.
   sparse: an alpha for each coefficient; those that are of no use go to infinity (automatic relevance determination).
   neural: x goes through tanh(W1 x + b1) first, with a prior on the weights (and W2, b2 where there are --features).
   Rows of a table enter bayes and sparse through an orthogonal transform alone: of n rows and p columns p + 1 rows are left, and the
   n - p - 1 that have become zero are so many observations of the noise (a gamma prior of rate 0), which is the same likelihood. */
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
#include "common/curve.h"
#include "common/reduce.h"

enum { BAYES, SPARSE, NEURAL };
enum { MOST_PARAMS = 500, CHUNK = 512, SHOWN = 40, DRAWN = 2000 }; /* weights whose uncertainty is known; rows at a time; coefficients, dots */

/* What the command line asks for. */
typedef struct {
    int method, raw;
    const char *predict, *out, *coefficients, *svg, *report, *prior_word;
    double hold_out, prior; /* prior: of weights, below 0 where it is to be chosen */
    int is_trial;           /* a short fit, to choose by */
    long points, bumps, targets, hidden, features;
} request;

/* The table: rows x (response, then p columns), those that are used first. */
typedef struct {
    frame f;
    pu_int n, p, width;
    pu_real *x;
    long no_response, gaps; /* rows that are left out */
} sheet;

/* A fit to the first n rows. Columns are (x - centre) / scale, the response likewise with number 0. */
typedef struct {
    int method;
    pu_int n, p, rows; /* rows: of `design` and `y` */
    double *centre, *scale;
    pu_real *design, *y, *theta, *C; /* C: covariance of a neural theta, or NULL */
    pu_int params, hidden, features;
    pu_prior prior[3];
    pu_int priors;
    pu_fit_report report;
    double nll, alpha, noise;      /* nll: of all rows, in the units of the response, like the noise */
    double *b, *sd;                /* coefficients in the units of the table; 0: the intercept */
    unsigned char *is_kept;        /* sparse: those of some use */
    pu_int kept;
    double rmse, flat;             /* of the rows that were fitted; of their mean */
} fitted;

/* What is predicted: n of each. fit: variance of the mean; all: with the noise. */
typedef struct {
    pu_int n;
    double *y, *mean, *fit, *all;
} predictions;

/* Rows that were hidden. */
typedef struct {
    pu_int count;
    double rmse, flat, coverage, score, score_flat;
} check;

static const char *const method_words[] = {"Bayesian linear regression", "sparse Bayesian regression", "neural linear regression"};

/* ---- the table ---- */

/* Levels of a category that no row has are refused where rows are predicted, see frame_take: does a row have that without a term? */
static void look_for_base(sheet *s, int place)
{
    pu_int i, k;
    for (i = 0; i < s->n; i++) {
        int is_base = 1;
        for (k = 1; k < s->width; k++) is_base &= s->f.term[k].place != place || !(s->x[i * s->width + k] > 0);
        if (is_base) return;
    }
    s->f.column[place].base = -1;
}

/* A column of the matrix goes. */
static void drop_column(sheet *s, pu_int k)
{
    frame *f = &s->f;
    pu_int i, j;
    if (f->term[k].level >= 0 && s->x[k] > 0) f->column[f->term[k].place].base = f->term[k].level; /* that of all rows */
    frame_note(f, "left out, the same in all rows that are used: %s", f->term[k].name);
    for (i = 0; i < s->n; i++)
        for (j = 0; j < s->width; j++)
            if (j != k) s->x[i * (s->width - 1) + j - (j > k)] = s->x[i * s->width + j];
    free(f->term[k].name);
    for (j = k; j + 1 < s->width; j++) f->term[j] = f->term[j + 1];
    f->terms--, s->width--, s->p--;
}

/* Complete rows come first; the others are left out. Columns that are constant there go, too. */
static void read_table(sheet *s, const fit_flags *flags)
{
    frame *f = &s->f;
    pu_int i, j, k;
    frame_read(f, flags->quiet);
    s->x = f->x, s->width = f->terms, s->p = s->width - 1;
    for (i = 0; i < (pu_int)f->rows; i++) {
        const pu_real *row = s->x + i * s->width;
        int gap = 0;
        for (j = 1; j < s->width; j++) gap |= row[j] != row[j];
        if (row[0] != row[0]) s->no_response++;
        else if (gap) s->gaps++;
        else if (s->n++ < i) memmove(s->x + (s->n - 1) * s->width, row, (size_t)s->width * sizeof *row);
    }
    if (s->no_response) frame_note(f, "left out: %ld rows without a response", s->no_response);
    if (s->gaps) frame_note(f, "left out: %ld rows with a gap in another column (factors --impute fills gaps)", s->gaps);
    if (s->n < 3) frame_fail(f, "fewer than three rows are left; --exclude leaves out columns with many gaps");
    for (k = 0; k < f->columns; k++)
        if (f->column[k].use == FRAME_CATEGORY) look_for_base(s, (int)k);
    for (k = s->width - 1; k >= 0; k--) {
        for (i = 1; i < s->n && s->x[i * s->width + k] <= s->x[k] && s->x[i * s->width + k] >= s->x[k]; i++) continue;
        if (i < s->n) continue;
        if (k == 0) frame_fail(f, "the response is the same in all rows that are used: there is nothing to explain");
        drop_column(s, k);
    }
    if (s->p < 1) frame_fail(f, "no column is left to explain the response by");
    for (k = 1; k < s->width; k++)
        if (!strcmp(f->term[k].name, "intercept")) fail(1, "intercept", "is what the constant is called here: this column needs another name");
}

static void swap_rows(sheet *s, pu_int a, pu_int b)
{
    pu_int j;
    for (j = 0; j < s->width; j++) {
        const pu_real x = s->x[a * s->width + j];
        s->x[a * s->width + j] = s->x[b * s->width + j], s->x[b * s->width + j] = x;
    }
}

/* A number from 0 to 1 that belongs to row i. */
static double chance(uint64_t seed, pu_int i, uint32_t what)
{
    pu_real coin;
    pu_normals(seed, (uint32_t)i, what, 0, 3, 0, 1, &coin);
    return 0.5 * erfc(-(double)coin / sqrt(2.0));
}

/* Rows to hide, by chance, go to the end. Returns how many stay. */
static pu_int hide_rows(sheet *s, double share, uint64_t seed)
{
    pu_int i, end = s->n;
    for (i = s->n - 1; i >= 0; i--)
        if (chance(seed, i, 4) < share) swap_rows(s, i, --end);
    if (end == s->n) fail(2, "--hold-out", "no row is hidden: there are too few");
    if (end < 3) fail(2, "--hold-out", "fewer than three rows are left");
    return end;
}

/* ---- the fit ---- */

/* Means and standard deviations of the first n rows. Where columns keep their units (--raw) all but the response have one scale. */
static void measure(const sheet *s, const request *ask, fitted *r)
{
    double all = 0;
    pu_int i, k;
    r->centre = (double *)need_bytes(2 * (size_t)s->width * sizeof *r->centre), r->scale = r->centre + s->width;
    for (k = 0; k < s->width; k++) {
        double mean = 0, square = 0;
        for (i = 0; i < r->n; i++) {
            const double x = (double)s->x[i * s->width + k], off = x - mean;
            mean += off / (double)(i + 1), square += off * (x - mean);
        }
        r->centre[k] = mean, r->scale[k] = square > 0 ? sqrt(square / (double)r->n) : 1;
        if (k == 0 && !(square > 0)) fail(1, s->f.term[0].name, "is the same in all rows that are not hidden");
        if (k > 0) all += square / (double)r->n / (double)s->p;
    }
    for (k = 1; k < s->width && ask->raw && ask->method == BAYES; k++) r->scale[k] = sqrt(all);
    r->flat = r->scale[0];
}

/* A row of the table as the model has it: regressors, and the response where y is not NULL. */
static void transform(const sheet *s, const fitted *r, const pu_real *row, pu_real *x, pu_real *y)
{
    pu_int k;
    for (k = 1; k < s->width; k++) x[k - 1] = (pu_real)(((double)row[k] - r->centre[k]) / r->scale[k]);
    if (y) *y = (pu_real)(((double)row[0] - r->centre[0]) / r->scale[0]);
}

static void reduce_row(void *user, long row, double *to)
{
    void **both = (void **)user;
    const sheet *s = (const sheet *)both[0];
    const fitted *r = (const fitted *)both[1];
    const pu_real *from = s->x + row * s->width;
    pu_int k;
    for (k = 1; k < s->width; k++) to[k - 1] = ((double)from[k] - r->centre[k]) / r->scale[k];
    to[s->p] = ((double)from[0] - r->centre[0]) / r->scale[0];
}

/* Design and response of the model: all rows, or the triangle that they can be turned into. What is missing is in r->prior. */
static void make_design(const sheet *s, fitted *r)
{
    const int is_reduced = r->method != NEURAL && r->n > s->p + 1;
    pu_int i, k;
    r->rows = is_reduced ? s->p + 1 : r->n;
    r->design = need_reals(r->rows * s->p), r->y = need_reals(r->rows);
    for (i = 0; i < r->n && !is_reduced; i++) transform(s, r, s->x + i * s->width, r->design + i * s->p, r->y + i);
    if (is_reduced) {
        const void *both[2];
        double *R;
        both[0] = s, both[1] = r;
        R = reduce_rows((long)r->n, (int)s->p + 1, reduce_row, (void *)both);
        for (i = 0; i <= s->p; i++) {
            for (k = 0; k < s->p; k++) r->design[i * s->p + k] = (pu_real)R[i * (s->p + 1) + k];
            r->y[i] = (pu_real)R[i * (s->p + 1) + s->p];
        }
        free(R);
        if (!(fabs((double)r->y[s->p]) >= 1e-9 * sqrt((double)r->n)))
            fail(1, s->f.term[0].name, "is a combination of the other columns: there is no noise, and nothing to estimate");
    }
    if (r->method == NEURAL) return;
    r->prior[0].kind = PU_PRIOR_GAMMA, r->prior[0].count = 1, r->prior[0].first = r->method == SPARSE ? s->p : 1;
    r->prior[0].shape = 0.5 * (double)(r->n - r->rows);
    if (!is_reduced) { /* as many columns as rows: noise might vanish */
        r->prior[0].kind = PU_PRIOR_CEILING, r->prior[0].bound = 1e6, r->prior[0].shape = 0;
    }
    r->priors = 1;
}

/* The model of r for these rows; `op` lives as long as it. */
static void make_model(const fitted *r, pu_int rows, const pu_real *x, pu_op *op, pu_model *model)
{
    pu_report told;
    memset(model, 0, sizeof *model);
    if (r->method == NEURAL) {
        need(pu_model_neural(model, rows, r->p, x, r->hidden, r->features, &told), &told);
        return;
    }
    *op = pu_op_dense(rows, r->p, x);
    need((r->method == SPARSE ? pu_model_sparse : pu_model_regression)(model, op, &told), &told);
}

/* Priors on the weights of a network, N(0, 1/precision) in units of its start: every tanh is of a sum of about unit variance, whatever
   the scale of the inputs, of which x is one row after the other. Returns how many. */
static pu_int weight_priors(double precision, pu_int rows, pu_int inputs, const pu_real *x, pu_int hidden, pu_int features, pu_prior *list)
{
    double square = 0;
    pu_int i;
    memset(list, 0, 3 * sizeof *list);
    if (!(precision > 0)) return 0;
    for (i = 0; i < rows * inputs; i++) square += (double)x[i] * (double)x[i] / (double)rows;
    list[0].count = hidden * inputs, list[0].precision = precision * square;                       /* W1 */
    list[1].first = hidden * inputs, list[1].count = hidden, list[1].precision = precision;        /* b1 */
    list[2].first = hidden * (inputs + 1), list[2].count = features * hidden + features;           /* W2, b2 */
    list[2].precision = precision * (double)hidden;
    return features ? 3 : 2;
}

static void fit_options_of(fit_flags *flags, int method, pu_fit_options *o)
{
    fit_flags_options(flags, o);
    if (o->steps == 0) o->steps = method == NEURAL ? 3000 : 2000;
    if (o->gradient.kind == PU_EXACT && !(flags->rate > 0)) o->optimizer = PU_LBFGS, o->starts = method == NEURAL ? 4 : 0;
    else o->optimizer = PU_ADAM, o->schedule = PU_RATE_COSINE, o->rate = flags->rate > 0 ? flags->rate : 0.02;
}

/* Coefficients in the units of the table. The intercept comes from a prediction at x = 0, see predict. */
static void read_coefficients(const sheet *s, fitted *r, pu_model *model, const pu_data *data, const pu_options *options)
{
    pu_posterior_result out;
    pu_report told;
    pu_int k;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(2 * s->p), out.variance = out.mean + s->p;
    need_result(pu_model_posterior(model, r->theta, data, options, NULL, &out, &told), &told);
    for (k = 0; k < s->p; k++) {
        r->b[k + 1] = (double)out.mean[k] * r->scale[0] / r->scale[k + 1];
        r->sd[k + 1] = sqrt((double)out.variance[k]) * r->scale[0] / r->scale[k + 1];
        r->is_kept[k + 1] = r->method != SPARSE || exp((double)r->theta[k]) < 1e6;
        r->kept += r->is_kept[k + 1];
    }
    free(out.mean);
}

/* Residuals of the rows of the model; those that the transform has made zero have none. */
static double residual(const fitted *r, pu_model *model, const pu_data *data, const pu_options *options)
{
    pu_predict_result out;
    pu_report told;
    double square = 0;
    pu_int i;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(r->rows);
    need_result(pu_model_predict(model, r->theta, data, options, NULL, &out, &told), &told);
    for (i = 0; i < r->rows; i++) square += pow((double)r->y[i] - (double)out.mean[i], 2);
    free(out.mean);
    return r->scale[0] * sqrt(square / (double)r->n);
}

static fitted *fit_rows(const sheet *s, const request *ask, fit_flags *flags, pu_int n)
{
    fitted *r = (fitted *)need_bytes(sizeof *r);
    const pu_options exact = fit_exact(flags);
    pu_fit_options options;
    pu_model model;
    pu_data data;
    pu_op op;
    pu_report told;
    double log_beta, nll_se;
    pu_int k;
    r->method = ask->method, r->n = n, r->p = s->p, r->hidden = (pu_int)ask->hidden, r->features = (pu_int)ask->features;
    measure(s, ask, r);
    make_design(s, r);
    make_model(r, r->rows, r->design, &op, &model);
    data = pu_data_full(1, r->rows, r->y);
    r->params = model.params, r->theta = need_reals(r->params);
    need(pu_model_start(&model, &data, (uint64_t)flags->seed, r->theta, &told), &told);
    if (r->method == NEURAL) r->priors = weight_priors(ask->prior, r->rows, s->p, r->design, r->hidden, r->features, r->prior);
    else { /* half of the variance is noise, the rest is shared by all columns */
        for (k = 0; k + 1 < r->params; k++) r->theta[k] = (pu_real)log(2 * (double)s->p);
        r->theta[r->params - 1] = (pu_real)log(2);
    }
    model.priors = r->prior, model.prior_count = r->priors;
    fit_options_of(flags, r->method, &options);
    if (ask->is_trial) options.steps = 300, options.starts = 0;
    fit_run(&model, &data, &options, NULL, r->theta, &r->report);
    fit_nll(&model, r->theta, &data, &options.gradient, NULL, &r->nll, &nll_se, &told);
    log_beta = (double)r->theta[r->params - 1];
    r->nll += (double)(n - r->rows) * (log(6.28318530717958647692) - log_beta) / 2 + (double)n * log(r->scale[0]);
    r->noise = r->scale[0] * exp(-log_beta / 2);
    r->alpha = r->method == SPARSE ? (double)NAN : exp((double)r->theta[r->params - 2]) * (ask->raw ? pow(r->scale[1] / r->scale[0], 2) : 1);
    r->rmse = residual(r, &model, &data, &exact);
    r->b = (double *)need_bytes(2 * (size_t)s->width * sizeof *r->b), r->sd = r->b + s->width;
    r->is_kept = (unsigned char *)need_bytes((size_t)s->width), r->is_kept[0] = 1;
    if (r->method != NEURAL) read_coefficients(s, r, &model, &data, &exact);
    else if (r->params <= MOST_PARAMS && !fit_interrupted && !ask->is_trial) {
        r->C = need_reals(r->params * r->params);
        if (pu_fit_covariance(&model, &data, &exact, NULL, r->theta, r->C, &told) != PU_OK) free(r->C), r->C = NULL;
    }
    pu_model_free(&model);
    return r;
}

static void fitted_free(fitted *r)
{
    if (!r) return;
    free(r->centre), free(r->design), free(r->y), free(r->theta), free(r->C), free(r->b), free(r->is_kept), free(r);
}

/* ---- predictions ---- */

/* Adds to variances what the uncertainty of theta is worth, J C J' with J by differences: of all predictions but the first `from`. */
static void add_uncertainty(pu_model *model, const pu_real *theta, const pu_real *C, const pu_data *data, const pu_options *options, pu_int from,
                            double *variance)
{
    const pu_int P = model->params, all = data->n * data->m, n = all - from;
    const double step = 1e-4;
    pu_real *J = need_reals(P * n), *at = need_reals(P), *mean = need_reals(all);
    pu_report told;
    pu_int i, j, k;
    int side;
    for (i = 0; i < P; i++)
        for (side = -1; side < 2; side += 2) {
            pu_predict_result out;
            memset(&out, 0, sizeof out);
            out.mean = mean;
            memcpy(at, theta, (size_t)P * sizeof *at);
            at[i] += (pu_real)(side * step);
            need_result(pu_model_predict(model, at, data, options, NULL, &out, &told), &told);
            for (k = 0; k < n; k++) J[i * n + k] += (pu_real)(side * (double)mean[from + k] / (2 * step));
        }
    for (i = 0; i < P; i++)
        for (j = 0; j < P; j++)
            for (k = 0; k < n; k++) variance[k] += (double)(J[i * n + k] * C[i * P + j] * J[j * n + k]);
    need(pu_model_set(model, theta, &told), &told);
    free(J), free(at), free(mean);
}

/* Means and variances of rows of a table, `count` of them from `row` on, each of s->width numbers; to p, from its place `to` on. Variances
   have the uncertainty of weights in them where that is known, unless the means alone are wanted. */
static void predict_rows(const sheet *s, const fitted *r, const pu_options *options, const pu_real *row, pu_int count, int means, predictions *p,
                         pu_int to)
{
    const pu_int all = r->rows + count;
    pu_real *x = need_reals(all * s->p), *y = need_reals(3 * all), *mean = y + all, *variance = mean + all;
    double *more = (double *)need_bytes((size_t)count * sizeof *more);
    const double square = r->scale[0] * r->scale[0], noise = r->noise * r->noise;
    pu_data data = pu_data_nan(1, all, y);
    pu_predict_result out;
    pu_report told;
    pu_model model;
    pu_op op;
    pu_int i;
    memcpy(x, r->design, (size_t)(r->rows * s->p) * sizeof *x);
    memcpy(y, r->y, (size_t)r->rows * sizeof *y);
    for (i = 0; i < count; i++) transform(s, r, row + i * s->width, x + (r->rows + i) * s->p, NULL), y[r->rows + i] = (pu_real)NAN;
    make_model(r, all, x, &op, &model);
    memset(&out, 0, sizeof out);
    out.mean = mean, out.fit = variance;
    need_result(pu_model_predict(&model, r->theta, &data, options, NULL, &out, &told), &told);
    for (i = 0; i < count; i++) more[i] = (double)variance[r->rows + i];
    if (r->C && !means) add_uncertainty(&model, r->theta, r->C, &data, options, r->rows, more);
    for (i = 0; i < count; i++) {
        p->y[to + i] = (double)row[i * s->width];
        p->mean[to + i] = r->centre[0] + r->scale[0] * (double)mean[r->rows + i];
        p->fit[to + i] = square * more[i] + noise / (double)r->n; /* the mean of y is known so well */
        p->all[to + i] = p->fit[to + i] + noise;
    }
    pu_model_free(&model);
    free(x), free(y), free(more);
}

/* The same for as many rows as there are; those with a gap have NaN. */
static predictions predict(const sheet *s, const fitted *r, const pu_options *options, const pu_real *x, pu_int n, int means)
{
    const pu_int most = r->method == NEURAL ? 8 * CHUNK : CHUNK;
    predictions p;
    pu_int i, k, first, count;
    p.n = n;
    p.y = (double *)need_bytes(4 * (size_t)n * sizeof *p.y), p.mean = p.y + n, p.fit = p.mean + n, p.all = p.fit + n;
    for (first = 0; first < n; first += count) {
        for (count = 0; first + count < n && count < most; count++) {
            int gap = 0;
            for (k = 1; k < s->width; k++) gap |= x[(first + count) * s->width + k] != x[(first + count) * s->width + k];
            if (gap) break;
        }
        if (count) predict_rows(s, r, options, x + first * s->width, count, means, &p, first);
        else {
            i = first, count = 1;
            p.y[i] = (double)x[i * s->width], p.mean[i] = p.fit[i] = p.all[i] = (double)NAN;
        }
    }
    return p;
}

static void look_at(const predictions *p, const fitted *r, check *c)
{
    double square = 0, flat = 0, inside = 0, score = 0, score_flat = 0;
    pu_int i;
    memset(c, 0, sizeof *c);
    for (i = 0; i < p->n; i++) {
        const double off = p->y[i] - p->mean[i], away = p->y[i] - r->centre[0];
        if (off != off) continue;
        c->count++, square += off * off, flat += away * away, inside += off * off <= 1.96 * 1.96 * p->all[i];
        score -= off * off / (2 * p->all[i]) + log(6.28318530717958647692 * p->all[i]) / 2;
        score_flat -= away * away / (2 * r->flat * r->flat) + log(6.28318530717958647692 * r->flat * r->flat) / 2;
    }
    if (!c->count) return;
    c->rmse = sqrt(square / (double)c->count), c->flat = sqrt(flat / (double)c->count), c->coverage = inside / (double)c->count;
    c->score = score / (double)c->count, c->score_flat = score_flat / (double)c->count;
}

/* The intercept: what is predicted where all columns are 0. */
static void find_intercept(const sheet *s, fitted *r, const pu_options *options)
{
    pu_real *zero = need_reals(s->width);
    predictions p = predict(s, r, options, zero, 1, 1);
    r->b[0] = p.mean[0], r->sd[0] = sqrt(p.fit[0]);
    free(p.y), free(zero);
}

/* The prior on weights of a network that predicts best: each of a list is tried on the first n rows, of which each quarter is hidden in turn
   (one of them where there are many rows). Those rows change their order. */
static double choose_prior(sheet *s, const request *ask, fit_flags *flags, pu_int n)
{
    static const double list[] = {0.3, 1, 3, 10};
    const pu_options exact = fit_exact(flags);
    const pu_int block = n / 4;
    const int tries = (int)(sizeof list / sizeof *list), folds = n > 2000 ? 1 : 4;
    double score[sizeof list / sizeof *list] = {0};
    request trial = *ask;
    pu_int i;
    int fold, k, best = 0;
    if (block < 2) return 3;
    for (i = n - 1; i > 0; i--) swap_rows(s, i, (pu_int)(chance((uint64_t)flags->seed, i, 5) * (double)i + 0.5));
    trial.is_trial = 1;
    for (fold = 0; fold < folds; fold++) {
        for (i = 0; i < block; i++) swap_rows(s, fold * block + i, n - block + i);
        for (k = 0; k < tries && !fit_interrupted; k++) {
            check c;
            fitted *r;
            predictions p;
            trial.prior = list[k];
            r = fit_rows(s, &trial, flags, n - block);
            p = predict(s, r, &exact, s->x + (n - block) * s->width, block, 1);
            look_at(&p, r, &c);
            score[k] += c.score;
            free(p.y), fitted_free(r);
        }
        for (i = 0; i < block; i++) swap_rows(s, fold * block + i, n - block + i);
    }
    for (k = 1; k < tries; k++)
        if (score[k] > score[best]) best = k;
    return list[best];
}

/* --predict, --out */
static void predict_file(sheet *s, const request *ask, const fitted *r, const pu_options *options, check *c)
{
    static frame more;
    predictions p;
    FILE *file;
    pu_int i;
    long gaps = 0;
    if (!ask->predict) return;
    frame_read_more(&more, &s->f, ask->predict);
    p = predict(s, r, options, more.x, (pu_int)more.rows, 0);
    file = file_open(ask->out);
    fprintf(file, "row,mean,sd.mean,sd,low,high,y\n");
    for (i = 0; i < p.n; i++) {
        const double sd = sqrt(p.all[i]);
        fprintf(file, "%ld", (long)i + 1);
        gaps += p.mean[i] != p.mean[i];
        table_write_number(file, p.mean[i]), table_write_number(file, sqrt(p.fit[i])), table_write_number(file, sd);
        table_write_number(file, p.mean[i] - 1.96 * sd), table_write_number(file, p.mean[i] + 1.96 * sd), table_write_number(file, p.y[i]);
        fprintf(file, "\n");
    }
    file_close(file, ask->out);
    if (gaps) fprintf(stderr, "regress: %s: %ld rows lack a number and are not predicted\n", ask->predict, gaps);
    look_at(&p, r, c);
    free(p.y);
    frame_free(&more);
}

/* ---- pictures ---- */

static int coefficient_order(const void *a, const void *b)
{
    const double *p = *(const double *const *)a, *q = *(const double *const *)b;
    return (p[0] < q[0]) - (p[0] > q[0]); /* the largest first */
}

/* Coefficients to show: numbers of those that matter most, in standard deviations of the response, in order. Returns how many. */
static int largest(const fitted *r, int *chosen)
{
    double *size = (double *)need_bytes((size_t)r->p * 2 * sizeof *size);
    const double **at = (const double **)need_bytes((size_t)r->p * sizeof *at);
    int count = 0;
    pu_int k;
    for (k = 0; k < r->p; k++) {
        size[2 * k] = r->is_kept[k + 1] ? fabs(r->b[k + 1]) * r->scale[k + 1] / r->scale[0] : -1, size[2 * k + 1] = (double)k + 1;
        at[k] = size + 2 * k;
    }
    qsort((void *)at, (size_t)r->p, sizeof *at, coefficient_order);
    while (count < SHOWN && count < r->p && at[count][0] >= 0) chosen[count] = (int)at[count][1], count++;
    free(size), free((void *)at);
    return count;
}

/* Coefficients with 95 % intervals, in standard deviations: of the response for one of the column. Returns the height. */
static double draw_coefficients(const sheet *s, const fitted *r, FILE *file, double below)
{
    int chosen[SHOWN], i;
    const int count = largest(r, chosen);
    svg_row row[SHOWN];
    svg_plot p;
    memset(&p, 0, sizeof p);
    p.file = file;
    p.below = below;
    p.title = "coefficients";
    p.x_label = "sd of the response for one sd of the column";
    for (i = 0; i < count; i++) {
        const double unit = r->scale[chosen[i]] / r->scale[0];
        snprintf(row[i].name, sizeof row[i].name, "%s", s->f.term[chosen[i]].name);
        row[i].value = r->b[chosen[i]] * unit;
        row[i].low = row[i].value - 1.96 * r->sd[chosen[i]] * unit;
        row[i].high = row[i].value + 1.96 * r->sd[chosen[i]] * unit;
    }
    return svg_forest(&p, count, row, below > 0 ? p.title : "", 1);
}

/* Dots of y against x, and a line: the diagonal, or zero. Returns the height. */
static double draw_dots(const char *title, const char *x_label, const char *y_label, int n, const double *x, const double *y, int diagonal,
                        FILE *file, double below)
{
    double ends[2], line[2];
    svg_plot p;
    int i;
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.top = 10, p.title = title, p.x_label = x_label, p.y_label = y_label;
    p.x0 = p.y0 = HUGE_VAL, p.x1 = p.y1 = -HUGE_VAL;
    for (i = 0; i < n; i++)
        p.x0 = fmin(p.x0, x[i]), p.x1 = fmax(p.x1, x[i]), p.y0 = fmin(p.y0, y[i]), p.y1 = fmax(p.y1, y[i]);
    if (!(p.x1 - p.x0 > 1e-9 * fmax(fabs(p.x0), fabs(p.x1)))) p.x0 -= 1 + fabs(p.x0) / 100, p.x1 += 1 + fabs(p.x1) / 100;
    {
        const double wide = 0.03 * (p.x1 - p.x0), high = 0.03 * (p.y1 - p.y0); /* room for dots */
        p.x0 -= wide, p.x1 += wide, p.y0 -= high, p.y1 += high;
    }
    svg_begin(&p);
    ends[0] = diagonal ? fmax(p.x0, p.y0) : p.x0, ends[1] = diagonal ? fmin(p.x1, p.y1) : p.x1;
    line[0] = diagonal ? ends[0] : 0, line[1] = diagonal ? ends[1] : 0;
    svg_dots(&p, n, x, y, "c2");
    if (ends[1] > ends[0]) svg_line(&p, 2, ends, line, "c1", 1, 0);
    svg_end(&p);
    return p.bottom + 46;
}

/* Predicted and observed, of hidden rows where there are some: x and y have room for DRAWN each. Returns how many. */
static int dots(const predictions *p, double *mean, double *y, double *residuals)
{
    int n = 0;
    pu_int i;
    for (i = 0; i < p->n && n < DRAWN; i++) {
        if (p->y[i] != p->y[i] || p->mean[i] != p->mean[i]) continue;
        mean[n] = p->mean[i], y[n] = p->y[i], residuals[n] = p->y[i] - p->mean[i], n++;
    }
    return n;
}

static void draw_all(const sheet *s, const request *ask, const fitted *r, int n, const double *mean, const double *y, const double *off)
{
    FILE *file = file_open(ask->svg);
    int chosen[SHOWN];
    const int count = largest(r, chosen);
    double below = 1;
    svg_sheet(file, 1 + 2 * 326 + (r->method == NEURAL ? 0 : 84 + 18 * (double)count), "regression: coefficients, predictions, residuals");
    if (r->method != NEURAL) below += draw_coefficients(s, r, file, below);
    below += draw_dots("predicted and observed", "predicted", "observed", n, mean, y, 1, file, below);
    (void)draw_dots("residuals", "predicted", "observed - predicted", n, mean, off, 0, file, below);
    fprintf(file, "</svg>\n");
    file_close(file, ask->svg);
}

/* ---- what is told ---- */

static void write_coefficients(const sheet *s, const fitted *r, const char *path)
{
    FILE *file = file_open(path);
    pu_int k;
    fprintf(file, "column,estimate,sd,low,high\n");
    for (k = 0; k <= s->p; k++) {
        table_write_name(file, k ? s->f.term[k].name : "intercept");
        table_write_number(file, r->b[k]);
        table_write_number(file, r->sd[k]);
        table_write_number(file, r->b[k] - 1.96 * r->sd[k]);
        table_write_number(file, r->b[k] + 1.96 * r->sd[k]);
        fprintf(file, "\n");
    }
    file_close(file, path);
}

static void print_coefficients(const sheet *s, const fitted *r)
{
    int chosen[SHOWN], i;
    const int count = largest(r, chosen);
    printf("\n                              estimate          sd   95 %% interval             in standard deviations\n");
    for (i = -1; i < count; i++) {
        const int k = i < 0 ? 0 : chosen[i];
        printf("  ");
        frame_pad(k ? s->f.term[k].name : "intercept", 24);
        printf(" %12.6g %11.3g %12.4g .. %-12.4g", r->b[k], r->sd[k], r->b[k] - 1.96 * r->sd[k], r->b[k] + 1.96 * r->sd[k]);
        if (k) printf(" %8.3f", r->b[k] * r->scale[k] / r->scale[0]);
        printf("\n");
    }
    if (r->kept < s->p) printf("  %ld of %ld columns are of some use; the coefficients of the others are 0\n", (long)r->kept, (long)s->p);
    if (count < r->kept) printf("  the largest %d; --coefficients FILE has all\n", count);
}

static void print_check(const char *what, const char *unit, const check *c)
{
    if (!c->count) return;
    printf("  %ld %s: error %.5g%s (their mean alone %.5g), 95 %% intervals hold %.1f %%, mean log density %.4f (a normal alone %.4f)\n",
           (long)c->count, what, c->rmse, unit, c->flat, 100 * c->coverage, c->score, c->score_flat);
}

/* How many coefficients the data have determined, not the prior: that of MacKay. */
static double determined(const fitted *r)
{
    const double precision = exp((double)r->theta[r->params - 2]);
    double sum = 0;
    pu_int k;
    for (k = 1; k <= r->p; k++) sum += 1 - precision * pow(r->sd[k] * r->scale[k] / r->scale[0], 2);
    return sum;
}

/* What a reader must know of the fit: lines for the terminal and the page. Returns how many. */
static int find_warnings(const sheet *s, const fitted *r, const char *list[5])
{
    int n = 0;
    if (r->method == NEURAL && !r->C)
        list[n++] = "the uncertainty of the weights is not known (more than 500 of them, or the data do not identify them), and not in the intervals";
    if (r->n <= s->p + 1 && r->method != NEURAL && r->noise < 0.01 * r->flat)
        list[n++] = "as many columns as rows explain the response with hardly any noise: the likelihood has no maximum there, the noise is at a "
                    "floor, and standard deviations mean little; fewer --columns, or more rows";
    if (r->method == SPARSE ? r->kept == 0 : r->method == BAYES && determined(r) < 0.01)
        list[n++] = "the columns explain nothing: the likelihood is highest where all coefficients are 0, so that their standard deviations and "
                    "intervals are those of the prior and say nothing of the data";
    if (r->report.status == PU_INEXACT) list[n++] = "rounding has taken more than half of the digits: columns are nearly combinations of each other";
    if (fit_interrupted) list[n++] = "interrupted: all that follows is of a fit under way";
    else if (!fit_converged(&r->report)) list[n++] = "the fit has not converged: more --steps may improve it";
    return n;
}

static void print_all(const sheet *s, const fitted *r, double prior, const check *hidden, const check *predicted)
{
    const char *warnings[5];
    const int count = find_warnings(s, r, warnings);
    int k;
    printf("%s of %s on %ld column%s, %ld rows\n", method_words[r->method], s->f.term[0].name, (long)s->p, s->p > 1 ? "s" : "", (long)r->n);
    if (r->method != NEURAL) print_coefficients(s, r);
    if (r->method == NEURAL) printf("  %ld hidden units, %ld weights of prior precision %g\n", (long)r->hidden, (long)r->params - 2, prior);
    printf("\n  noise (sd) %.5g of a standard deviation of %.5g; error of the fit %.5g, R^2 %.4f\n", r->noise, r->flat, r->rmse,
           1 - r->rmse * r->rmse / (r->flat * r->flat));
    print_check("hidden rows", "", hidden);
    print_check("predicted rows with a response", "", predicted);
    printf("  NLL %.6f%s\n  %ld steps, %ld gradients in %.2f s (%s); %.0f MB\n  %s\n", r->nll,
           r->method == NEURAL ? ", without the prior of the weights" : "", (long)r->report.step, (long)r->report.gradients, r->report.seconds,
           pu_fit_stop_text(r->report.stop), peak_mb(), r->report.last.plan);
    for (k = 0; k < count; k++) printf("  %s\n", warnings[k]);
}

static void json_names(json *j, const sheet *s, const char *key, const double *x)
{
    pu_int k;
    json_key(j, key);
    if (!j->file) return;
    for (k = 0; k <= s->p; k++) {
        fprintf(j->file, k ? ", " : "{");
        json_string(j, k ? s->f.term[k].name : "intercept");
        fprintf(j->file, ": ");
        json_value(j, x[k]);
    }
    fprintf(j->file, "}");
}

static void json_check(json *j, const char *what, const check *c)
{
    json_key(j, what);
    if (!j->file) return;
    fprintf(j->file, "{\"rows\": %ld, \"rmse\": ", (long)c->count);
    json_value(j, c->count ? c->rmse : (double)NAN), fprintf(j->file, ", \"rmse_mean\": "), json_value(j, c->count ? c->flat : (double)NAN);
    fprintf(j->file, ", \"coverage\": "), json_value(j, c->count ? c->coverage : (double)NAN);
    fprintf(j->file, ", \"log_score\": "), json_value(j, c->count ? c->score : (double)NAN);
    fprintf(j->file, "}");
}

static void write_json(const sheet *s, const fit_flags *flags, const fitted *r, double prior, const check *hidden, const check *predicted)
{
    json j = json_open(flags->json);
    json_fit(&j, flags, &r->report, r->nll, 0);
    json_text(&j, "method", r->method == BAYES ? "bayes" : r->method == SPARSE ? "sparse" : "neural");
    json_text(&j, "response", s->f.term[0].name);
    json_number(&j, "rows", (double)r->n);
    json_number(&j, "rows_left_out", (double)(s->no_response + s->gaps));
    json_number(&j, "columns", (double)s->p);
    json_number(&j, "alpha", r->alpha);
    json_number(&j, "beta", 1 / (r->noise * r->noise));
    json_number(&j, "noise", r->noise);
    json_number(&j, "rmse", r->rmse);
    json_number(&j, "r2", 1 - r->rmse * r->rmse / (r->flat * r->flat));
    if (r->method != NEURAL) {
        json_number(&j, "kept", (double)r->kept);
        json_names(&j, s, "coefficients", r->b), json_names(&j, s, "standard_deviations", r->sd);
    }
    if (r->method == NEURAL) json_number(&j, "prior", prior);
    if (hidden->count) json_check(&j, "hidden", hidden);
    if (predicted->count) json_check(&j, "predicted", predicted);
    json_close(&j);
}

static void report_coefficients(report_page *page, const sheet *s, const fitted *r)
{
    int chosen[SHOWN], i;
    const int count = largest(r, chosen);
    report_section(page, "Coefficients");
    report_figure(page);
    (void)draw_coefficients(s, r, page->file, 0);
    report_caption(page,
                   "What one standard deviation of a column adds to the response, in its standard deviations, with 95 %% intervals: look for those "
                   "that do not cross zero.%s",
                   count < r->kept ? " The largest are shown." : "");
    report_table(page, "column|estimate|std. deviation|low|high");
    for (i = -1; i < count; i++) {
        const int k = i < 0 ? 0 : chosen[i];
        report_row(page, k ? s->f.term[k].name : "intercept");
        report_cell(page, 0, "%.5g", r->b[k]), report_cell(page, 0, "%.3g", r->sd[k]);
        report_cell(page, 0, "%.4g", r->b[k] - 1.96 * r->sd[k]), report_cell(page, 0, "%.4g", r->b[k] + 1.96 * r->sd[k]);
    }
    report_table_end(page, "In the units of the table. Standard deviations and intervals of 95 % are of the posterior given the fitted precisions.");
    if (r->kept < s->p) report_text(page, "%ld of %ld columns are of some use; the coefficients of the others are 0.", (long)r->kept, (long)s->p);
}

static void write_report(const sheet *s, const request *ask, const fitted *r, const check *hidden, int n, const double *mean, const double *y,
                         const double *off, int argc, char **argv, int count, const option *list)
{
    report_page page = report_open(ask->report, "regress: report");
    const char *name = s->f.term[0].name, *warnings[5];
    const int warned = find_warnings(s, r, warnings);
    int i;
    if (!page.file) return;
    if (hidden->count)
        report_answer(&page, "%s of a hidden row is predicted to within %.3g (its mean alone: %.3g); 95 %% intervals hold %.0f %% of them.", name,
                      hidden->rmse, hidden->flat, 100 * hidden->coverage);
    else
        report_answer(&page, "%ld column%s explain%s %.0f %% of the variance of %s: the noise is %.3g of %.3g.", (long)s->p,
                      s->p > 1 ? "s" : "", s->p > 1 ? "" : "s", 100 * (1 - r->rmse * r->rmse / (r->flat * r->flat)), name, r->noise, r->flat);
    for (i = 0; i < warned; i++) report_warning(&page, "Take care: %s.", warnings[i]);
    report_text(&page, "%s of %s on %ld column%s, %ld rows.", method_words[r->method], name, (long)s->p, s->p > 1 ? "s" : "", (long)r->n);
    for (i = 0; i < s->f.notes; i++) report_text(&page, "Of the table: %s.", s->f.note[i]);
    if (r->method != NEURAL) report_coefficients(&page, s, r);
    report_section(&page, "Predictions");
    report_figure(&page);
    (void)draw_dots("predicted and observed", "predicted", "observed", n, mean, y, 1, page.file, 0);
    report_caption(&page, "Predicted and observed %s of %s rows: the nearer to the line the better.", name, hidden->count ? "hidden" : "the fitted");
    report_figure(&page);
    (void)draw_dots("residuals", "predicted", "observed - predicted", n, mean, off, 0, page.file, 0);
    report_caption(&page, "What is left: look for a bend (the relation is not linear) or a funnel (the noise is not the same everywhere).");
    if (hidden->count) {
        report_table(&page, "hidden rows|this model|mean alone");
        report_row(&page, "error (root mean square)"), report_cell(&page, hidden->rmse < hidden->flat, "%.4g", hidden->rmse),
            report_cell(&page, 0, "%.4g", hidden->flat);
        report_row(&page, "mean log density"), report_cell(&page, hidden->score > hidden->score_flat, "%.4g", hidden->score),
            report_cell(&page, 0, "%.4g", hidden->score_flat);
        report_row(&page, "95 % intervals hold"), report_cell(&page, 0, "%.1f %%", 100 * hidden->coverage), report_cell(&page, 0, "-");
        report_table_end(&page, "The model of the tables above is fitted to all rows.");
    }
    report_text(&page, "NLL %.4f. %ld steps: %s. %s.", r->nll, (long)r->report.step, pu_fit_stop_text(r->report.stop), r->report.last.plan);
    report_close(&page, argc, argv, count, list);
}

/* ---- a simulated curve ---- */

/* Bumps along x: the columns of a linear model. */
static pu_real *make_bumps(const curve *c, pu_int count)
{
    pu_real *bumps = need_reals(c->all * count);
    pu_int i, j;
    for (i = 0; i < c->all; i++)
        for (j = 0; j < count; j++) {
            const double width = 9.0 / (double)count + 0.15, u = ((double)c->x[i] + 3 - 6 * ((double)j + 0.5) / (double)count) / width;
            bumps[i * count + j] = (pu_real)exp(-u * u / 2);
        }
    return bumps;
}

/* What there is of the fit of a curve. */
typedef struct {
    pu_fit_report report;
    double first, nll, nll_se, error, inside, inside_z;
    nll_words words;
    int known; /* the uncertainty of the weights */
    pu_real se[2];
} curve_result;

static void print_curve(const request *ask, const pu_model *model, const pu_real *theta, const curve_result *r)
{
    const pu_int P = model->params;
    printf("device %s\n", device_name);
    printf("%s of a simulated curve: %ld points of %ld curve%s, ", method_words[ask->method], ask->points, ask->targets, ask->targets > 1 ? "s" : "");
    if (ask->method == NEURAL) printf("%ld hidden units, %ld parameters", ask->hidden, (long)P);
    else printf("%ld bumps", ask->bumps);
    printf(": %s, %ld steps, %.3f s\n", r->report.last.plan, (long)r->report.step, r->report.seconds);
    if (ask->method == BAYES)
        printf("prior precision alpha %.3g (+- %.0f %%), noise %.3f (+- %.0f %%; truth %.3f)\nNLL per curve %.3f%s\n", exp((double)theta[0]),
               100 * (double)r->se[0], exp(-(double)theta[1] / 2), 50 * (double)r->se[1], CURVE_NOISE, r->nll, r->words.text);
    else
        printf("NLL per curve %.3f at the start, %.3f%s at the end; noise %.3f (truth %.3f)\n", r->first, r->nll, r->words.text,
               exp(-(double)theta[P - 1] / 2), CURVE_NOISE);
    if (r->report.starts)
        printf("start %ld of %ld is the best, %ld end as low; with the prior %.3f per curve, the worst %.3f\n", (long)r->report.start,
               (long)r->report.starts, (long)r->report.near_best, r->report.best, r->report.worst);
    printf("error on [-3, 3] %.3f, of which the 95 %% band holds %.1f %%", r->error, 100 * r->inside);
    if (ask->method != NEURAL) printf("\n");
    else if (r->known) printf(" (without the uncertainty of the weights %.1f %%)\n", 100 * r->inside_z);
    else printf(" (that of the weights is not known, and not in it)\n");
}

static void json_curve(const request *ask, const fit_flags *flags, const pu_model *model, const pu_real *theta, const curve_result *r)
{
    json out = json_open(flags->json);
    json_fit(&out, flags, &r->report, r->nll, r->nll_se);
    json_number(&out, "alpha", ask->method == SPARSE ? (double)NAN : exp((double)theta[model->params - 2]));
    json_number(&out, "beta", exp((double)theta[model->params - 1]));
    json_number(&out, "error", r->error);
    json_number(&out, "coverage", r->inside);
    if (ask->method == NEURAL) json_number(&out, "coverage_fixed_weights", r->inside_z);
    json_close(&out);
}

static void report_curve(const request *ask, const curve *c, const curve_result *r, int argc, char **argv, int count, const option *list)
{
    report_page page = report_open(ask->report, "regress: report");
    if (!page.file) return;
    report_answer(&page, "The curve is known to within %.3f on average, and the 95 %% band holds %.0f %% of it.", r->error, 100 * r->inside);
    if (fit_interrupted) report_warning(&page, "Interrupted: all that follows is of a fit under way.");
    else if (!fit_converged(&r->report)) report_warning(&page, "The fit has not converged: more --steps may improve it.");
    report_text(&page, "%s of a simulated curve (sin 2x + x^2/4 with noise %.1f), of which %ld points are seen and none between 0.3 and 1.5.",
                method_words[ask->method], CURVE_NOISE, ask->points);
    report_figure(&page);
    curve_picture(c, page.file, 0, method_words[ask->method]);
    report_caption(&page, "Look at the gap, where there are no points: the band is %.1f times as wide there as elsewhere.", curve_gap(c));
    report_text(&page, "NLL per curve %.3f%s. %ld steps: %s. %s.", r->nll, r->words.text, (long)r->report.step,
                pu_fit_stop_text(r->report.stop), r->report.last.plan);
    report_close(&page, argc, argv, count, list);
}

/* Points of one or more curves, learnt on bumps or features that the curves share; the picture is of the first one. Plain maximum likelihood
   (--prior 0) of a network fits the noise, too, and its band knows nothing of the uncertainty of the weights: of the truth it holds 59 to
   81 %, where 95 % are meant. With the prior, the best of four starts and the band of z and the weights it is 87 to 92 %. */
static void run_curve(const request *ask, fit_flags *flags, int argc, char **argv, int count, const option *list)
{
    static curve_result r;
    pu_prior priors[3];
    curve c;
    pu_real *bumps = NULL, *theta, *C;
    pu_model model;
    pu_op Phi;
    pu_data data;
    pu_fit_options options;
    pu_report told;
    pu_predict_result out;
    memset(&model, 0, sizeof model), memset(&out, 0, sizeof out);
    curve_make(&c, (pu_int)ask->points, (pu_int)ask->targets, (uint64_t)flags->seed);
    data = pu_data_nan(c.targets, c.all, c.y);
    if (ask->method == NEURAL) need(pu_model_neural(&model, c.all, 1, c.x, (pu_int)ask->hidden, (pu_int)ask->features, &told), &told);
    else {
        bumps = make_bumps(&c, (pu_int)ask->bumps);
        Phi = pu_op_dense(c.all, (pu_int)ask->bumps, bumps);
        need((ask->method == SPARSE ? pu_model_sparse : pu_model_regression)(&model, &Phi, &told), &told);
    }
    theta = need_reals(model.params);
    need(pu_model_start(&model, &data, (uint64_t)flags->seed, theta, &told), &told);
    fit_options_of(flags, ask->method, &options);
    model.priors = priors;
    if (ask->method == NEURAL) model.prior_count = weight_priors(ask->prior, c.all, 1, c.x, (pu_int)ask->hidden, (pu_int)ask->features, priors);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &r.first, &r.nll_se, &told);
    fit_run(&model, &data, &options, NULL, theta, &r.report);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &r.nll, &r.nll_se, &told);
    r.words = nll_error(&told);
    if (ask->method == BAYES) need(pu_fit_errors(&model, &data, &options.gradient, NULL, theta, r.se, &told), &told);
    out.mean = c.mean, out.fit = c.variance;
    need(pu_model_predict(&model, theta, &data, &options.gradient, NULL, &out, &told), &told);
    curve_error(&c, &r.error, &r.inside_z);
    if (ask->method == NEURAL && model.params <= MOST_PARAMS) {
        double *more = (double *)need_bytes((size_t)(c.targets * c.all) * sizeof *more);
        pu_int i;
        C = need_reals(model.params * model.params);
        r.known = pu_fit_covariance(&model, &data, &options.gradient, NULL, theta, C, &told) == PU_OK;
        if (r.known) add_uncertainty(&model, theta, C, &data, &options.gradient, 0, more);
        for (i = 0; i < c.targets * c.all; i++) c.variance[i] += (pu_real)more[i];
        free(more), free(C);
    }
    curve_error(&c, &r.error, &r.inside);
    if (!flags->quiet) print_curve(ask, &model, theta, &r);
    curve_draw(&c, ask->svg, method_words[ask->method]);
    json_curve(ask, flags, &model, theta, &r);
    report_curve(ask, &c, &r, argc, argv, count, list);
    pu_model_free(&model);
    curve_free(&c);
    free(bumps), free(theta);
}

/* ---- the whole ---- */

static void run_table(sheet *s, request *ask, fit_flags *flags, int argc, char **argv, int count, const option *list)
{
    const pu_options exact = fit_exact(flags);
    static double mean[DRAWN], y[DRAWN], off[DRAWN];
    check hidden, predicted;
    predictions shown;
    fitted *r;
    int n = 0;
    memset(&hidden, 0, sizeof hidden), memset(&predicted, 0, sizeof predicted);
    read_table(s, flags);
    if (ask->hold_out > 0) {
        const pu_int kept = hide_rows(s, ask->hold_out, (uint64_t)flags->seed);
        if (ask->prior < 0 && ask->method == NEURAL) ask->prior = choose_prior(s, ask, flags, kept);
        r = fit_rows(s, ask, flags, kept);
        shown = predict(s, r, &exact, s->x + kept * s->width, s->n - kept, 0);
        look_at(&shown, r, &hidden);
        n = dots(&shown, mean, y, off);
        free(shown.y), fitted_free(r);
    }
    if (ask->prior < 0 && ask->method == NEURAL) ask->prior = choose_prior(s, ask, flags, s->n);
    r = fit_rows(s, ask, flags, s->n);
    if (r->method != NEURAL) find_intercept(s, r, &exact);
    if (!hidden.count && (ask->svg || ask->report)) {
        shown = predict(s, r, &exact, s->x, s->n < DRAWN ? s->n : DRAWN, 1);
        n = dots(&shown, mean, y, off);
        free(shown.y);
    }
    predict_file(s, ask, r, &exact, &predicted);
    if (!flags->quiet) print_all(s, r, ask->prior, &hidden, &predicted);
    write_json(s, flags, r, ask->prior, &hidden, &predicted);
    if (ask->coefficients) write_coefficients(s, r, ask->coefficients);
    if (ask->svg) draw_all(s, ask, r, n, mean, y, off);
    if (ask->report) write_report(s, ask, r, &hidden, n, mean, y, off, argc, argv, count, list);
    fitted_free(r);
    frame_free(&s->f);
}

static int read_options(int argc, char **argv, request *ask, frame *f, fit_flags *flags, option *list)
{
    int n = 0;
    char *end;
    memset(ask, 0, sizeof *ask);
    frame_default(f), fit_flags_default(flags);
    ask->points = 80, ask->bumps = 40, ask->targets = 0, ask->hidden = 20, ask->prior_word = "auto";
    flags->gradient = 0, flags->steps = 0, flags->rate = 0; /* exact, L-BFGS */
    f->has_categories = 1;
    n += frame_flags_table(f, list + n);
    list[n++] = opt_text("response", "column of --data to explain: a name, or a number from 1", &f->response);
    list[n++] = opt_text("categories", "columns of names: a coefficient for each name but the first", &f->category_list);
    list[n++] = opt_choice("method", "one prior for all coefficients, one for each, or learnt features", &ask->method, "bayes,sparse,neural");
    list[n++] = opt_flag("raw", "bayes: the prior is on coefficients as they are, not on those of standardised columns", &ask->raw);
    list[n++] = opt_real("hold-out", "share of rows to hide first and predict; the last fit has them all", &ask->hold_out, 0, 0.9);
    list[n++] = opt_number("hidden", "neural: units with tanh", &ask->hidden, 1, 100000);
    list[n++] = opt_number("features", "neural: of a linear layer on top; 0 = none", &ask->features, 0, 100000);
    list[n++] =
        opt_text("prior", "neural: precision of a weight, in units of the start's; 0 = maximum likelihood; auto: by hidden rows", &ask->prior_word);
    list[n++] = opt_text("predict", "table of rows to predict, same columns; the response may be missing", &ask->predict);
    list[n++] = opt_text("out", "write the predictions of --predict to this CSV file", &ask->out);
    list[n++] = opt_text("coefficients", "write all coefficients to this CSV file", &ask->coefficients);
    list[n++] = opt_text("svg", "write pictures to this file", &ask->svg);
    list[n++] = opt_text("report", "write a page of results to this file", &ask->report);
    list[n++] = opt_number("simulate-points", "without --data: points of the curve", &ask->points, 5, 1000000);
    list[n++] = opt_number("simulate-targets", "without --data: curves that share all parameters; 0 = one, neural three", &ask->targets, 0, 1000);
    list[n++] = opt_number("simulate-bumps", "without --data: columns of the linear models", &ask->bumps, 1, 100000);
    n += fit_flags_table(flags, list + n);
    options_read(argc, argv, "regress",
                 "Bayesian, sparse or neural regression of a column of a table (CSV, or .npy of numpy) on the others: coefficients with standard\n"
                 "deviations, predictions with intervals. Rows with a gap are left out. Without --data a curve is simulated.\n"
                 "JSON: nll, alpha, beta (1 / noise^2), noise, r2, coefficients {\"intercept\": b, ..}, standard_deviations, hidden, predicted.\n"
                 "--steps 0 and --rate 0: as many as are needed, by L-BFGS; a rate asks for Adam.", n, list);
    options_apart(argc, argv, "data", "simulate-points,simulate-targets,simulate-bumps");
    if (!f->data && (f->response || f->column_list || f->exclude_list || f->category_list || f->missing || ask->predict || ask->hold_out > 0 ||
                     ask->coefficients))
        fail(2, "--data", "is needed: columns, hidden rows, predictions and coefficients are of a table");
    if (f->data && !f->response) fail(2, "--response", "which column is to be explained? A name, or a number from 1");
    if (!ask->predict != !ask->out) fail(2, "--predict", "and --out go together: rows to predict, and where to write them");
    if (ask->method == NEURAL && ask->coefficients) fail(2, "--coefficients", "a neural model has none that could be read");
    ask->prior = f->data ? -1 : 0.3;
    if (strcmp(ask->prior_word, "auto")) {
        ask->prior = strtod(ask->prior_word, &end);
        if (*end || !(ask->prior >= 0 && ask->prior <= 1e9)) fail(2, "--prior", "needs a number from 0 to 1e9, or auto");
    }
    if (!ask->targets) ask->targets = ask->method == NEURAL ? 3 : 1;
    file_ready(ask->out), file_ready(ask->coefficients), file_ready(ask->svg), file_ready(ask->report), file_ready(flags->json);
    return n;
}

int main(int argc, char **argv)
{
    static sheet s;
    static option list[FIT_FLAGS + FRAME_FLAGS + 18];
    request ask;
    fit_flags flags;
    const int count = read_options(argc, argv, &ask, &s.f, &flags, list);
    device_open();
    if (s.f.data) {
        need_silent = 1; /* print_all tells */
        run_table(&s, &ask, &flags, argc, argv, count, list);
    } else run_curve(&ask, &flags, argc, argv, count, list);
    device_close();
    return fit_code();
}

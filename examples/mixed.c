/* mixed.c - mixed effects for a table of one's own: rows that share levels of one or more groups, crossed or nested.

   cc -O3 -march=native -fopenmp -I. examples/mixed.c -o mixed -lm
   ./mixed                                                                         simulated
   ./mixed --data ratings.csv --response rating --groups user,item --svg effects.svg
   ./mixed --data u.data --response 3 --groups 1,2 --json fit.json                 no header: columns by number
   ./mixed --data pupils.csv --response score --groups school,school:class --slopes school:age --fixed age,factor(sex) --method reml

   y = X b + sum_g Z_g u_g + e, u_g ~ N(0, sigma_g^2 I), e ~ N(0, sigma^2 I): pu_model_effects. In lme4's words the last line is
   lmer(score ~ age + factor(sex) + (1 | school) + (1 | school:class) + (0 + age | school)). Variances are fitted by maximum
   likelihood (ml) or restricted maximum likelihood (reml); b is then generalised least squares, and its standard errors take the
   variances for known, as lme4's do. Standard errors of variances are by the curvature of the likelihood at these b (delta method).
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/team_mpi.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/estimates.h"
#include "common/table.h"
#include "common/design.h"

enum { SHOWN = 24 }; /* levels of a group in the picture */

/* What the command line asks for beside the design. */
typedef struct {
    int method, engine;
    double tolerance;
    const char *effects, *out, *svg;
} request;

/* What came out. */
typedef struct {
    pu_int params;
    pu_fit_report fit;
    pu_report nll_report;
    double nll, nll_se;      /* REML: as lme4 has it, half of the criterion */
    pu_real *theta;          /* of the model that was fitted */
    estimate *variance;      /* groups, then the noise */
    estimate *fixed;         /* p */
    int has_errors;          /* of variances */
    double read, errors;     /* seconds */
    double processor;        /* seconds of processors, of the fit */
} result;

/* Seconds of processors so far, of all threads. */
static double processor(void) { return (double)clock() / (double)CLOCKS_PER_SEC; }

static const char engine_words[] = "auto,iterative,schur,cholmod,dense,dual";

/* ---- the model ---- */

static void make_model(const design *d, pu_method method, int all, pu_model *model)
{
    pu_report told;
    pu_status status;
    memset(model, 0, sizeof *model);
    status = pu_model_effects(model, all ? d->all : d->rows, d->groups, d->group, d->p, d->X, method, &told);
    if (status == PU_E_ARGUMENT && !strncmp(told.where.what, "X (", 3))
        fail(1, d->term[told.where.index].name, "is a combination of the fixed effects before it, the intercept included");
    need(status, &told);
}

/* The engine of a word of the command line; what this library has not is refused. */
static pu_engine find_engine(int place)
{
    const option words = opt_choice("engine", "", &place, engine_words);
    const char *word = option_word(&words, place);
    const size_t length = strcspn(word, ",");
    int e;
    for (e = 0; e < PU_ENGINES; e++)
        if (strlen(pu_engine_text((pu_engine)e)) == length && !strncmp(pu_engine_text((pu_engine)e), word, length)) return (pu_engine)e;
    fail(2, "--engine", "this library has no such engine");
    return PU_ENGINE_AUTO;
}

/* Of all gradients: exact where an exact engine is asked for or the cheapest, else solves to --tolerance and --samples probes. */
static void gradient_options(const request *ask, const fit_flags *flags, pu_options *o)
{
    memset(o, 0, sizeof *o);
    o->engine = find_engine(ask->engine);
    o->seed = (uint64_t)flags->seed, o->threads = (int)flags->threads;
    o->kind = PU_EXACT;
    if (o->engine != PU_ITERATIVE && o->engine != PU_ENGINE_AUTO) return;
    o->kind = PU_MONTE_CARLO;
    o->samples = (pu_int)flags->samples;
    o->solve.solver = PU_PCG, o->solve.tolerance = ask->tolerance;
}

/* The start knows what least squares leave of y: nothing but rounding has no variance. */
static void check_rest(const design *d, pu_real residual)
{
    double square = 0;
    pu_int m;
    for (m = 0; m < d->rows; m++) square += (double)d->y[m] * (double)d->y[m] / (double)d->rows;
    if (d->p >= d->rows) fail(1, "--fixed", "has as many coefficients as there are rows, or more: nothing is left for variances");
    if (square < HUGE_VAL && exp((double)residual) < 1e-25 * square)
        fail(1, d->data ? d->column[0].name : "y", "is a combination of the fixed effects: nothing is left for variances");
}

static int exact_fit(const pu_fit_report *report) { return report->last.served[PU_ITERATIVE] == 0; }

/* ---- fixed effects ---- */

/* Generalised least squares at these variances (logarithms): b with a flat prior is N(b, (X'V^-1 X)^-1) given y, so that it comes out
   of the posterior of the model for REML, whatever the units of y and X. */
static void fit_fixed(const design *d, const pu_options *options, const pu_real *variances, estimate *e)
{
    pu_options o = *options;
    pu_model flat;
    pu_data data = pu_data_full(1, d->rows, d->y);
    pu_posterior_result out;
    pu_report told;
    pu_status status;
    pu_int i, first;
    if (d->p == 0) return;
    make_model(d, PU_REML, 0, &flat);
    first = flat.Gamma.rows - d->p;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(2 * flat.Gamma.rows), out.variance = out.mean + flat.Gamma.rows;
    if (o.engine == PU_DUAL) o.engine = PU_ENGINE_AUTO; /* which needs a prior that is proper */
    if (o.kind != PU_EXACT) o.samples = 2;              /* b depends on none of them */
    status = pu_model_posterior(&flat, variances, &data, &o, NULL, &out, &told);
    if (status == PU_E_NOT_DEFINITE)
        fail(1, d->data ? d->column[0].name : "y", "is explained so well that the residual variance is lost in rounding beside the others");
    need_result(status, &told);
    for (i = 0; i < d->p; i++) {
        snprintf(e[i].name, sizeof e[i].name, "%.140s", d->term[i].name);
        e[i].value = (double)out.mean[first + i], e[i].se = sqrt((double)out.variance[first + i]);
        e[i].truth = d->data ? (double)NAN : d->coefficient[i];
    }
    free(out.mean);
    pu_model_free(&flat);
}

/* ---- the fit ---- */

/* Covariance C of the logarithms of the variances, the fixed effects being taken for known; NaN, and 0, where there is none. Exact
   gradients then take one step of Newton's method from where the fit came to rest, if that is near. */
static int fit_errors(const design *d, const fit_flags *flags, const pu_options *options, pu_model *model, result *r, pu_real *C)
{
    const pu_data data = pu_data_full(1, d->rows, d->y);
    const pu_int k = d->groups + 1, first = model->params - k;
    const double one = r->fit.seconds / (double)(r->fit.gradients > 0 ? r->fit.gradients : 1);
    pu_int *from = (pu_int *)need_bytes((size_t)model->params * sizeof *from), i, j;
    pu_real *g = need_reals(k), *v = r->theta + first;
    double distance = 0;
    pu_model fixed;
    pu_report told;
    int there;
    memset(&fixed, 0, sizeof fixed);
    for (i = 0; i < model->params; i++) from[i] = i < first ? PU_ZERO : i - first;
    need(pu_model_fix(&fixed, model, from, r->theta, &told), &told);
    there = estimates_covariance(&fixed, &data, options, flags, one, v, C);
    if (there && exact_fit(&r->fit) && pu_model_gradient(&fixed, v, &data, options, NULL, g, NULL, &told) == PU_OK) {
        for (i = 0; i < k; i++)
            for (j = 0; j < k; j++)
                if (C[i * k + j] == C[i * k + j]) distance += (double)g[i] * (double)C[i * k + j] * (double)g[j];
        for (i = 0; i < k && distance < 0.01; i++)
            for (j = 0; j < k; j++)
                if (C[i * k + j] == C[i * k + j]) v[i] -= C[i * k + j] * g[j];
    }
    pu_model_free(&fixed);
    free(from), free(g);
    return there;
}

static void fit_model(design *d, const request *ask, fit_flags *flags, const pu_options *options, pu_model *model, result *r)
{
    const pu_data data = pu_data_full(1, d->rows, d->y);
    const pu_int k = d->groups + 1, first = ask->method ? 0 : d->p;
    pu_real *C = need_reals(k * k);
    pu_fit_options fit;
    pu_report told;
    double began, *means = (double *)need_bytes((size_t)(d->p + 1) * sizeof *means);
    const int centred = design_centre(d, means);
    pu_int i;
    memset(&fit, 0, sizeof fit);
    fit.gradient = *options, fit.optimizer = PU_LBFGS, fit.fixed_probes = 1, fit.steps = (pu_int)flags->steps;
    fit.clock = fit_clock, fit.progress = fit_progress, fit.user = flags;
    r->processor = processor();
    make_model(d, ask->method ? PU_REML : PU_ML, 0, model);
    r->params = model->params;
    need(pu_model_start(model, &data, (uint64_t)flags->seed, r->theta, &told), &told);
    fit_keep(flags, team_rank() == 0, &fit);
    fit.team = team_of(1, PU_TEAM_PROBES);
    check_rest(d, r->theta[model->params - 1]);
    fit_run(model, &data, &fit, NULL, r->theta, &r->fit);
    if (team_rank() > 0) exit(team_close());
    r->processor = processor() - r->processor;
    began = seconds();
    for (i = 0; i < k * k; i++) C[i] = (pu_real)NAN;
    if (fit_converged(&r->fit)) r->has_errors = fit_errors(d, flags, options, model, r, C);
    if (centred) { /* back to the columns as they are */
        design_back(d, means);
        pu_model_free(model);
        make_model(d, ask->method ? PU_REML : PU_ML, 0, model);
    }
    fit_fixed(d, options, r->theta + first, r->fixed);
    for (i = 0; first > 0 && i < d->p; i++) r->theta[i] = (pu_real)r->fixed[i].value;
    need_result(pu_model_nll(model, r->theta, &data, options, NULL, &r->nll, &r->nll_se, &r->nll_report), &r->nll_report);
    if (ask->method) r->nll -= (double)d->p * log(6.28318530717958647692) / 2;
    for (i = 0; i < k; i++) {
        pu_param param;
        estimate *e = r->variance + i;
        pu_model_param(model, first + i, &param);
        estimate_make(&param, r->theta[first + i], C[i * (k + 1)], d->data ? (double)NAN : log(d->truth[i]), e);
        snprintf(e->name, sizeof e->name, "%.140s", i < d->groups ? d->name[i] : "residual");
    }
    r->errors = seconds() - began;
    free(C), free(means);
}

/* ---- effects ---- */

typedef struct {
    double mean, sd;
    pu_int level;
} effect;

static int effect_order(const void *a, const void *b)
{
    const effect *p = (const effect *)a, *q = (const effect *)b;
    if (p->mean < q->mean) return -1;
    return p->mean > q->mean ? 1 : (p->level > q->level) - (p->level < q->level);
}

/* A text cell of CSV, always in quotes. */
static void quote(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void write_effects(const design *d, const pu_real *mean, const pu_real *variance, const char *path)
{
    FILE *file = file_open(path);
    static char name[8192];
    pu_int g, l, m, at = 0;
    fprintf(file, "group,level,rows,mean,sd\n");
    for (g = 0; g < d->groups; at += d->known[g++]) {
        long *rows = (long *)need_bytes((size_t)d->known[g] * sizeof *rows);
        for (m = 0; m < d->rows; m++) rows[d->group[g].level[m]]++;
        for (l = 0; l < d->known[g]; l++) {
            quote(file, d->name[g]), fputc(',', file);
            quote(file, design_level(d, g, l, name, sizeof name));
            fprintf(file, ",%ld,%.10g,%.10g\n", rows[l], (double)mean[at + l], sqrt((double)variance[at + l]));
        }
        free(rows);
    }
    file_close(file, path);
}

/* A name as text of a picture: at most `most` characters, with what XML needs; what is no UTF-8 becomes a question mark. */
static void draw_name(const svg_plot *p, double x, double y, const char *style, const char *name, int most)
{
    const unsigned char *at = (const unsigned char *)name;
    int count = 0;
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    for (; *at && count < most; count++) {
        const int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
        int k, good = more >= 0 && *at >= 32;
        for (k = 1; good && k <= more; k++) good = (at[k] & 0xc0) == 0x80;
        if (!good) fputc('?', p->file), at++;
        else if (*at == '<') fputs("&lt;", p->file), at++;
        else if (*at == '&') fputs("&amp;", p->file), at++;
        else fwrite(at, 1, (size_t)more + 1, p->file), at += more + 1;
    }
    fprintf(p->file, "%s</text>\n", *at ? ".." : "");
}

/* One group: its largest effects of both signs, with 95 % intervals, below each other. Returns where the next panel begins. */
static double draw_group(const design *d, pu_int g, const pu_real *mean, const pu_real *variance, FILE *file, double below)
{
    const pu_int levels = d->known[g], count = levels < SHOWN ? levels : SHOWN;
    effect *e = (effect *)need_bytes((size_t)levels * sizeof *e);
    svg_plot p;
    double tick, step;
    char name[64], text[200];
    pu_int l;
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.top = 30, p.left = 128, p.right = 462, p.bottom = p.top + 16 * (double)count + 8;
    for (l = 0; l < levels; l++) e[l].mean = (double)mean[l], e[l].sd = sqrt((double)variance[l]), e[l].level = l;
    qsort(e, (size_t)levels, sizeof *e, effect_order);
    for (l = count / 2; l < count; l++) e[l] = e[levels - count + l];
    for (l = 0; l < count; l++) p.x0 = fmin(p.x0, e[l].mean - 1.96 * e[l].sd), p.x1 = fmax(p.x1, e[l].mean + 1.96 * e[l].sd);
    if (!(p.x1 > p.x0)) p.x0 = -1, p.x1 = 1;
    step = svg_step(p.x1 - p.x0, 6);
    fprintf(file, "<svg class=\"plot\" y=\"%.0f\" width=\"480\" height=\"%.0f\" viewBox=\"0 0 480 %.0f\">\n", below, p.bottom + 30, p.bottom + 30);
    draw_name(&p, 8, 18, "font-weight=\"bold\"", d->name[g], 20);
    if (levels > count) snprintf(text, sizeof text, "the %ld largest effects of %ld, with 95 %% intervals", (long)count, (long)levels);
    else snprintf(text, sizeof text, "effects with 95 %% intervals");
    draw_name(&p, p.right, 18, "text-anchor=\"end\" font-size=\"12\"", text, 80);
    for (tick = ceil(p.x0 / step); tick * step <= p.x1 + 1e-9 * step; tick++) {
        snprintf(text, sizeof text, "%g", tick * step);
        fprintf(file, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\"/>\n", tick > -0.5 && tick < 0.5 ? "axis" : "grid", svg_x(&p, tick * step), p.top, p.bottom);
        svg_text(&p, svg_x(&p, tick * step), p.bottom + 18, "middle", text);
    }
    for (l = 0; l < count; l++) {
        const double y = p.bottom - 12 - 16 * (double)l;
        draw_name(&p, p.left - 8, y + 4, "text-anchor=\"end\" font-size=\"11\"", design_level(d, g, e[l].level, name, sizeof name), 16);
        fprintf(file, "<g class=\"c%d\"><path class=\"line\" d=\"M%.1f %.1fH%.1f\"/><circle class=\"dot\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/></g>\n",
                e[l].mean < 0 ? 1 : 2, svg_x(&p, e[l].mean - 1.96 * e[l].sd), y, svg_x(&p, e[l].mean + 1.96 * e[l].sd), svg_x(&p, e[l].mean), y);
    }
    fprintf(file, "</svg>\n");
    free(e);
    return below + p.bottom + 36;
}

static void draw_effects(const design *d, const pu_real *mean, const pu_real *variance, const char *path)
{
    FILE *file = file_open(path);
    double height = 1, below = 1;
    pu_int g, at = 0;
    for (g = 0; g < d->groups; g++) height += 74 + 16 * (double)(d->known[g] < SHOWN ? d->known[g] : SHOWN);
    svg_sheet(file, height, "mixed effects: the largest effects of each group");
    for (g = 0; g < d->groups; at += d->known[g++]) below = draw_group(d, g, mean + at, variance + at, file, below);
    fprintf(file, "</svg>\n");
    file_close(file, path);
}

/* --svg, --effects */
static void show_effects(const design *d, const request *ask, const pu_options *options, pu_model *model, const pu_real *theta)
{
    const pu_data data = pu_data_full(1, d->rows, d->y);
    const pu_int D = model->Gamma.rows;
    pu_posterior_result out;
    pu_report told;
    if (!ask->svg && !ask->effects) return;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(D), out.variance = need_reals(D);
    need_result(pu_model_posterior(model, theta, &data, options, NULL, &out, &told), &told);
    if (!out.exact)
        fprintf(stderr, "mixed: standard deviations of effects are from %ld probes, to about %.0f %% each\n", (long)out.probes,
                100 * sqrt(0.5 / (double)out.probes));
    if (ask->effects) write_effects(d, out.mean, out.variance, ask->effects);
    if (ask->svg) draw_effects(d, out.mean, out.variance, ask->svg);
    free(out.mean), free(out.variance);
}

/* ---- predictions ---- */

/* A model of all rows, those to predict without a response, levels that the data have not included. */
static void predict_rows(design *d, const request *ask, const pu_options *options, const pu_real *theta, int quiet)
{
    const pu_data data = pu_data_nan(1, d->all, d->y);
    double square = 0, inside = 0, count = 0;
    pu_model model;
    pu_predict_result out;
    pu_report told;
    FILE *file;
    pu_int g, m;
    if (!ask->out) return;
    for (g = 0; g < d->groups; g++) d->group[g].levels = d->column[d->of[g]].names.count;
    make_model(d, ask->method ? PU_REML : PU_ML, 1, &model);
    memset(&out, 0, sizeof out);
    out.mean = need_reals(d->all), out.fit = need_reals(d->all), out.variance = need_reals(d->all);
    need_result(pu_model_predict(&model, theta, &data, options, NULL, &out, &told), &told);
    file = file_open(ask->out);
    fprintf(file, "row,mean,sd.mean,sd,low,high,y\n");
    for (m = d->rows; m < d->all; m++) {
        const double y = (double)d->hidden[m - d->rows], mean = (double)out.mean[m], sd = sqrt((double)out.variance[m]);
        fprintf(file, "%ld,%.10g,%.6g,%.6g,%.10g,%.10g,", (long)(m - d->rows) + 1, mean, sqrt((double)out.fit[m]), sd,
                mean - 1.96 * sd, mean + 1.96 * sd);
        if (y == y) fprintf(file, "%.10g", y), count += 1, square += (y - mean) * (y - mean), inside += fabs(y - mean) <= 1.96 * sd;
        fprintf(file, "\n");
    }
    file_close(file, ask->out);
    if (!quiet && count > 0)
        printf("\n  predicted: %.0f rows with a response, root mean square error %.4g, %.1f %% within their 95 %% intervals\n", count,
               sqrt(square / count), 100 * inside / count);
    free(out.mean), free(out.fit), free(out.variance);
    pu_model_free(&model);
}

/* ---- what is told ---- */

static void print_left_out(const design *d)
{
    if (d->t.no_response) printf("  left out: %ld rows without a response\n", d->t.no_response);
    if (d->t.no_cell)
        printf("  left out: %ld rows that lack another cell, the first in line %ld, column %d\n", d->t.no_cell, d->t.gap_line, d->t.gap_column);
    if (d->t.comments) printf("  left out: %ld lines that begin with #\n", d->t.comments);
}

/* How good the likelihood is, with this program's flag where the solver should go on. */
static nll_words likelihood_error(const pu_report *report)
{
    pu_report told = *report;
    nll_words w;
    told.nll_converged = 1;
    w = nll_error(&told);
    if (report->served[PU_ITERATIVE] && !report->nll_converged)
        snprintf(w.text + strlen(w.text), sizeof w.text - strlen(w.text), ", about %.2g more from solves that end early (a smaller --tolerance)",
                 report->nll_gap);
    return w;
}

static void print_tables(const design *d, const request *ask, const result *r)
{
    const pu_fit_report *fit = &r->fit;
    pu_int i;
    printf("mixed effects by %s, %ld rows\n", ask->method ? "restricted maximum likelihood" : "maximum likelihood", (long)d->rows);
    print_left_out(d);
    printf("\nRandom effects\n  %-20s %12s %12s %12s %10s%s\n", "group", "variance", "std. error", "std. dev.", "levels", d->data ? "" : "  (truth)");
    for (i = 0; i <= d->groups; i++) {
        const estimate *e = r->variance + i;
        printf("  %-20s", e->name);
        print_number(e->value, 12, 6), print_number(e->se, 12, 3), print_number(sqrt(e->value), 12, 5);
        if (i < d->groups) printf(" %10ld", (long)d->known[i]);
        else printf(" %10s", "");
        if (!d->data) printf("  (%.4g)", e->truth);
        printf("\n");
    }
    if (d->p) printf("\nFixed effects\n  %-20s %12s %12s %12s%s\n", "", "estimate", "std. error", "t", d->data ? "" : "  (truth)");
    for (i = 0; i < d->p; i++) {
        const estimate *e = r->fixed + i;
        printf("  %-20s", e->name);
        print_number(e->value, 12, 6), print_number(e->se, 12, 4), print_number(e->value / e->se, 12, 4);
        if (!d->data) printf("  (%.4g)", e->truth);
        printf("\n");
    }
    estimates_explain(fit, r->has_errors);
    for (i = 0; i <= d->groups && r->has_errors && fit->stop != PU_FIT_BOUNDARY; i++)
        if (r->variance[i].se != r->variance[i].se) printf("  %s has no standard error: the data do not identify it\n", r->variance[i].name);
    if (ask->method) printf("\n  REML criterion %.4f; half of it %.4f%s\n", 2 * r->nll, r->nll, likelihood_error(&r->nll_report).text);
    else printf("\n  NLL %.4f%s\n", r->nll, likelihood_error(&r->nll_report).text);
    printf("  %ld steps, %ld gradients in %.2f s (%s), %.2f s of processors; reading %.2f s, errors %.2f s; %.0f MB\n  %s\n", (long)fit->step,
           (long)fit->gradients, fit->seconds, pu_fit_stop_text(fit->stop), r->processor, r->read, r->errors, peak_mb(), fit->last.plan);
}

/* "standard_errors": {"variances": {..}, "fixed": {..}} */
static void json_errors(json *j, const design *d, const result *r)
{
    json_key(j, "standard_errors");
    if (!j->file) return;
    fprintf(j->file, "{\"variances\": ");
    json_object(j, (int)d->groups + 1, r->variance, 1);
    fprintf(j->file, ", \"fixed\": ");
    json_object(j, (int)d->p, r->fixed, 1);
    fprintf(j->file, "}");
}

static void write_json(const design *d, const request *ask, const fit_flags *flags, const result *r)
{
    json j = json_open(flags->json);
    pu_int g;
    json_fit(&j, flags, &r->fit, r->nll, r->nll_se);
    json_number(&j, "nll_95", r->nll_report.nll_95);
    json_number(&j, "iterations", (double)r->fit.step);
    json_number(&j, "gradients", (double)r->fit.gradients);
    json_number(&j, "seconds_read", r->read);
    json_number(&j, "seconds_errors", r->errors);
    json_number(&j, "processor_seconds", r->processor);
    json_number(&j, "processor_seconds_total", processor());
    json_converged(&j, &r->fit);
    json_text(&j, "method", ask->method ? "reml" : "ml");
    if (ask->method) json_number(&j, "reml_criterion", 2 * r->nll);
    json_number(&j, "rows", (double)d->rows);
    json_number(&j, "rows_left_out", (double)(d->t.no_response + d->t.no_cell));
    json_key(&j, "levels");
    for (g = 0; j.file && g < d->groups; g++) {
        fprintf(j.file, g ? ", " : "{");
        json_string(&j, d->name[g]);
        fprintf(j.file, ": %ld%s", (long)d->known[g], g + 1 == d->groups ? "}" : "");
    }
    json_estimates(&j, "variances", (int)d->groups + 1, r->variance, 0);
    json_estimates(&j, "fixed", (int)d->p, r->fixed, 0);
    json_errors(&j, d, r);
    team_json(&j, r->params, r->theta);
    json_close(&j);
}

static void read_options(int argc, char **argv, request *ask, design *d, fit_flags *flags)
{
    option list[DESIGN_FLAGS + FIT_KEEP + 17];
    int n = 0;
    memset(ask, 0, sizeof *ask);
    design_default(d), fit_flags_default(flags);
    ask->tolerance = 1e-6, flags->samples = 16;
    n += design_flags_table(d, list + n);
    list[n++] = opt_choice("method", "maximum likelihood, or restricted", &ask->method, "ml,reml");
    list[n++] = opt_choice("engine", "auto takes the cheapest", &ask->engine, engine_words);
    list[n++] = opt_number("threads", "0 = as many as are worth it, at most one per core", &flags->threads, 0, 1024);
    list[n++] = opt_real("tolerance", "of the iterative engine's solves, |r| / |u|", &ask->tolerance, 1e-14, 0.1);
    list[n++] = opt_number("samples", "K, probes of the iterative engine", &flags->samples, 2, 100000);
    list[n++] = opt_number("seed", "of all random numbers", &flags->seed, 0, 1000000000);
    list[n++] = opt_number("steps", "of the optimiser, at most", &flags->steps, 1, 100000000);
    list[n++] = opt_text("json", "write the results to this file", &flags->json);
    list[n++] = opt_text("effects", "write mean and standard deviation of every level's effect to this CSV file", &ask->effects);
    list[n++] = opt_text("out", "write the predictions of --predict to this CSV file", &ask->out);
    list[n++] = opt_text("svg", "write a picture of the largest effects to this file", &ask->svg);
    list[n++] = opt_real("progress", "seconds between lines of progress where stderr is no terminal; 0 = none", &flags->every, 0, 1e9);
    list[n++] = opt_flag("quiet", "no progress, no tables", &flags->quiet);
    n += fit_keep_table(flags, list + n);
    list[n++] = team_option();
    options_read(argc, argv, "mixed",
                 "Mixed effects: variances of groups of levels, crossed or nested, fixed effects, predictions.\n"
                 "JSON: nll, nll_se, variances {\"residual\": v, ..}, fixed {\"intercept\": v, ..}, standard_errors {\"variances\": {..},\n"
                 "\"fixed\": {..}}, seconds (of the fit), peak_mb, engine, iterations, converged, stop; with reml nll is half of the\n"
                 "criterion as lme4 has it. Standard errors of fixed effects take the variances for known.", n, list);
    options_apart(argc, argv, "data", "simulate-rows,simulate-levels,simulate-fixed,simulate-write");
    if (!d->predict != !ask->out) fail(2, "--predict", "and --out go together: rows to predict, and where to write them");
    (void)find_engine(ask->engine);
}

int main(int argc, char **argv)
{
    static design d;
    static result r;
    request ask;
    fit_flags flags;
    pu_options options;
    pu_model model;
    int is_last; /* rows are written, and no more */
    team_open(&argc, &argv);
    read_options(argc, argv, &ask, &d, &flags);
    team_quiet(&flags.quiet, &flags.json);
    is_last = d.save && d.write_only;
    if (team_rank() > 0) ask.effects = ask.out = ask.svg = d.save = NULL;
    file_ready(flags.json), file_ready(ask.effects), file_ready(ask.out), file_ready(ask.svg), file_ready(d.save);
    r.read = seconds();
    design_make(&d, (uint64_t)flags.seed);
    r.read = seconds() - r.read;
    if (is_last) return team_close();
    gradient_options(&ask, &flags, &options);
    r.theta = need_reals(d.p + d.groups + 1);
    r.variance = (estimate *)need_bytes((size_t)(d.groups + 1 + d.p) * sizeof *r.variance), r.fixed = r.variance + d.groups + 1;
    fit_model(&d, &ask, &flags, &options, &model, &r);
    if (!flags.quiet) print_tables(&d, &ask, &r);
    write_json(&d, &ask, &flags, &r);
    show_effects(&d, &ask, &options, &model, r.theta);
    pu_model_free(&model);
    predict_rows(&d, &ask, &options, r.theta, flags.quiet);
    free(r.theta), free(r.variance);
    design_free(&d);
    (void)team_close();
    return fit_code();
}

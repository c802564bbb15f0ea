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
    const char *effects, *out, *svg, *report;
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
        e[i].low = e[i].value - 1.96 * e[i].se, e[i].high = e[i].value + 1.96 * e[i].se;
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
            table_write_name(file, d->name[g]), fputc(',', file);
            table_write_name(file, design_level(d, g, l, name, sizeof name));
            fprintf(file, ",%ld,%.15g,%.10g\n", rows[l], (double)mean[at + l], sqrt((double)variance[at + l]));
        }
        free(rows);
    }
    file_close(file, path);
}

/* What a picture of a group came out as. */
typedef struct {
    pu_int shown, clear; /* levels; those of all whose interval does not hold 0 */
    char low[64], high[64];
    double least, most; /* the smallest and the largest effect, of these levels */
} group_view;

/* One group: its largest effects of both signs, the largest on top, with 95 % intervals. p has file, and below in a sheet. */
static double draw_group(const design *d, pu_int g, const pu_real *mean, const pu_real *variance, svg_plot *p, group_view *view)
{
    const pu_int levels = d->known[g], count = levels < SHOWN ? levels : (pu_int)SHOWN;
    effect *e = (effect *)need_bytes((size_t)levels * sizeof *e);
    svg_row row[SHOWN];
    char head[200];
    double height;
    pu_int l;
    memset(view, 0, sizeof *view);
    for (l = 0; l < levels; l++) {
        e[l].mean = (double)mean[l], e[l].sd = sqrt((double)variance[l]), e[l].level = l;
        view->clear += fabs(e[l].mean) > 1.96 * e[l].sd;
    }
    qsort(e, (size_t)levels, sizeof *e, effect_order);
    for (l = count / 2; l < count; l++) e[l] = e[levels - count + l];
    for (l = 0; l < count; l++) {
        svg_row *to = row + count - 1 - l;
        design_level(d, g, e[l].level, to->name, sizeof to->name);
        to->low = e[l].mean - 1.96 * e[l].sd, to->value = e[l].mean, to->high = e[l].mean + 1.96 * e[l].sd;
    }
    snprintf(head, sizeof head, levels > count ? "%.60s: %ld of %ld levels" : "%.60s", d->name[g], (long)count, (long)levels);
    p->title = "effects with 95 % intervals", p->x_label = "effect, with its 95 % interval";
    height = svg_forest(p, (int)count, row, head, 1);
    view->shown = count, view->least = row[count - 1].value, view->most = row[0].value;
    memcpy(view->low, row[count - 1].name, sizeof view->low), memcpy(view->high, row[0].name, sizeof view->high);
    free(e);
    return height;
}

static void draw_effects(const design *d, const pu_real *mean, const pu_real *variance, const char *path)
{
    FILE *file = file_open(path);
    double height = 1, below = 1;
    group_view view;
    svg_plot p;
    pu_int g, at = 0;
    for (g = 0; g < d->groups; g++) height += 90 + 18 * (double)(d->known[g] < SHOWN ? d->known[g] : (pu_int)SHOWN);
    svg_sheet(file, height, "mixed effects: the largest effects of each group");
    for (g = 0; g < d->groups; at += d->known[g++]) {
        memset(&p, 0, sizeof p);
        p.file = file, p.below = below;
        below += draw_group(d, g, mean + at, variance + at, &p, &view) + 6;
    }
    fprintf(file, "</svg>\n");
    file_close(file, path);
}

/* ---- the page of --report ---- */

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

/* A name in a sentence: columns without one are numbers. */
static const char *spoken(const char *name, char text[DESIGN_NAME + 8])
{
    snprintf(text, DESIGN_NAME + 8, "%s%.*s", strspn(name, "0123456789") == strlen(name) ? "column " : "", DESIGN_NAME - 1, name);
    return text;
}

/* Who makes how much of the variance: slopes, whose variance has other units, stay outside. */
static void say_shares(const design *d, const result *r, char *text, size_t size)
{
    char name[DESIGN_NAME + 8];
    double sum = 0;
    pu_int g;
    for (g = 0; g <= d->groups; g++)
        if (g == d->groups || d->slope[g] < 0) sum += r->variance[g].value;
    report_add(text, size, "Of the variance of %s%s", spoken(d->data ? d->column[0].name : "y", name),
               d->p > (pu_int)!d->no_intercept ? " that the fixed effects leave" : "");
    for (g = 0; g < d->groups; g++)
        if (d->slope[g] < 0)
            report_add(text, size, "%s makes %s %%,", spoken(r->variance[g].name, name),
                       report_digits(3, 100 * r->variance[g].value / sum));
    report_add(text, size, "and %s %% is between rows of the same levels.", report_digits(3, 100 * r->variance[d->groups].value / sum));
}

static void report_deviations(const report_page *page, const design *d, const result *r)
{
    svg_row row[DESIGN_GROUPS + 1];
    svg_plot p;
    pu_int g;
    int bars = 0;
    for (g = 0; g <= d->groups; g++) {
        const estimate *e = r->variance + g;
        snprintf(row[g].name, sizeof row[g].name, "%.60s", e->name);
        row[g].low = sqrt(e->low), row[g].value = sqrt(e->value), row[g].high = sqrt(e->high);
        if (!(e->se == e->se)) row[g].low = row[g].high = (double)NAN;
        else bars++;
    }
    memset(&p, 0, sizeof p);
    p.file = page->file, p.title = "standard deviations with 95 % intervals", p.x_label = "standard deviation, in units of the response";
    report_figure(page);
    svg_forest(&p, (int)d->groups + 1, row, "", 0);
    report_caption(page, "How far levels of a group lie apart, and rows of the same levels (residual).%s%s",
                   bars ? " Bars are 95 % intervals." : " There are no intervals.",
                   bars && bars <= (int)d->groups ? " Those without a bar have none." : "");
}

static void report_group(const report_page *page, const design *d, pu_int g, const pu_real *mean, const pu_real *variance)
{
    group_view view;
    svg_plot p;
    memset(&p, 0, sizeof p);
    p.file = page->file;
    report_figure(page);
    draw_group(d, g, mean, variance, &p, &view);
    report_caption(page, "%s %s is highest at %s, %s %s lowest at %s. %ld of %ld intervals do not hold 0.%s", d->name[g], view.high,
                   report_digits(3, view.most), d->name[g], view.low, report_digits(3, view.least), (long)view.clear, (long)d->known[g],
                   view.shown < d->known[g] ? " The levels between are left out; --effects FILE has all." : "");
}

static void report_fixed(const report_page *page, const design *d, const result *r)
{
    char note[400] = "Standard errors take the variances for known.";
    int i, most = -1;
    if (d->p == 0) return;
    report_section(page, "Fixed effects");
    report_table(page, d->data ? "|estimate|std. error|t|95 % from|to" : "|estimate|std. error|t|95 % from|to|truth");
    for (i = 0; i < (int)d->p; i++) {
        const estimate *e = r->fixed + i;
        report_row(page, e->name);
        report_number(page, 5, e->value), report_number(page, 2, e->se), report_number(page, 3, e->value / e->se);
        report_number(page, 4, e->low), report_number(page, 4, e->high);
        if (!d->data) report_number(page, 4, e->truth);
        if (d->term[i].column >= 0 && (most < 0 || fabs(e->value / e->se) > fabs(r->fixed[most].value / r->fixed[most].se))) most = i;
    }
    if (most >= 0)
        report_add(note, sizeof note, "Clearest is %.100s, %.1f standard errors from 0.", r->fixed[most].name,
                   fabs(r->fixed[most].value / r->fixed[most].se));
    report_table_end(page, note);
}

static void write_report(const design *d, const request *ask, const result *r, const pu_posterior_result *effects)
{
    report_page page;
    char text[2000] = "", name[DESIGN_NAME + 8];
    pu_int g, at = 0;
    snprintf(text, sizeof text, "mixed: %.60s%s%.80s", spoken(d->data ? d->column[0].name : "y", name),
             d->data ? " of " : ", simulated", d->data ? report_base(d->data) : "");
    page = report_open(ask->report, text);
    *text = 0, say_shares(d, r, text, sizeof text);
    report_answer(&page, "%s", text);
    report_doubts(&page, &r->fit, r->has_errors, (int)d->groups + 1, r->variance);
    if (!effects->exact)
        report_warning(&page, "Standard deviations of effects are from %ld probes, to about %.0f %% each (--samples).",
                       (long)effects->probes, 100 * sqrt(0.5 / (double)effects->probes));
    report_deviations(&page, d, r);
    *text = 0;
    report_add(text, sizeof text, "%ld rows, by %s.", (long)d->rows, ask->method ? "restricted maximum likelihood" : "maximum likelihood");
    if (d->t.no_response) report_add(text, sizeof text, "%ld rows without a response are left out.", d->t.no_response);
    if (d->t.no_cell)
        report_add(text, sizeof text, "%ld rows that lack another cell are left out, the first in line %ld.", d->t.no_cell,
                   d->t.gap_line);
    report_text(&page, "%s", text);
    report_section(&page, "Effects of the levels");
    for (g = 0; g < d->groups; at += d->known[g++])
        if (g < 6) report_group(&page, d, g, effects->mean + at, effects->variance + at);
    if (d->groups > 6) report_text(&page, "%ld more groups are left out here; --effects FILE has all.", (long)d->groups - 6);
    report_fixed(&page, d, r);
    report_section(&page, "Variances");
    snprintf(text, sizeof text, "%s%.6g%s. residual: between rows of the same levels.",
             ask->method ? "Half of the REML criterion: " : "Negative log-likelihood: ", r->nll, likelihood_error(&r->nll_report).text);
    report_estimates(&page, (int)d->groups + 1, r->variance, !d->data, text);
    report_end(&page);
}

/* --svg, --effects, --report */
static void show_effects(const design *d, const request *ask, const pu_options *options, pu_model *model, const result *r)
{
    const pu_data data = pu_data_full(1, d->rows, d->y);
    const pu_int D = model->Gamma.rows;
    pu_posterior_result out;
    pu_report told;
    if (!ask->svg && !ask->effects && !ask->report) return;
    memset(&out, 0, sizeof out);
    out.mean = need_reals(D), out.variance = need_reals(D);
    need_result(pu_model_posterior(model, r->theta, &data, options, NULL, &out, &told), &told);
    if (!out.exact)
        fprintf(stderr, "mixed: standard deviations of effects are from %ld probes, to about %.0f %% each\n", (long)out.probes,
                100 * sqrt(0.5 / (double)out.probes));
    if (ask->effects) write_effects(d, out.mean, out.variance, ask->effects);
    if (ask->svg) draw_effects(d, out.mean, out.variance, ask->svg);
    if (ask->report) write_report(d, ask, r, &out);
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
        fprintf(file, "%ld,%.15g,%.6g,%.6g,%.15g,%.15g,", (long)(m - d->rows) + 1, mean, sqrt((double)out.fit[m]), sd,
                mean - 1.96 * sd, mean + 1.96 * sd);
        if (y == y) fprintf(file, "%.15g", y), count += 1, square += (y - mean) * (y - mean), inside += fabs(y - mean) <= 1.96 * sd;
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

static void print_tables(const design *d, const request *ask, const result *r)
{
    const pu_fit_report *fit = &r->fit;
    pu_int i;
    printf("mixed effects by %s, %ld rows\n", ask->method ? "restricted maximum likelihood" : "maximum likelihood", (long)d->rows);
    print_left_out(d);
    printf("\nRandom effects\n  %-20s %12s %12s %12s %10s%s\n", "group", "variance", "std. error", "std. dev.", "levels",
           d->data ? "" : "  (truth)");
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
    static option list[DESIGN_FLAGS + FIT_KEEP + 22];
    int n = 0;
    memset(ask, 0, sizeof *ask);
    design_default(d), fit_flags_default(flags);
    ask->tolerance = 1e-6, flags->samples = 16;
    n += design_flags_table(d, list + n);
    list[n++] = opt_heading("how it is fitted");
    list[n++] = opt_choice("method", "maximum likelihood, or restricted", &ask->method, "ml,reml");
    list[n++] = opt_choice("engine", "auto takes the cheapest", &ask->engine, engine_words);
    list[n++] = opt_number("threads", "0 = as many as are worth it, at most one per core", &flags->threads, 0, 1024);
    list[n++] = opt_real("tolerance", "of the iterative engine's solves, |r| / |u|", &ask->tolerance, 1e-14, 0.1);
    list[n++] = opt_number("samples", "K, probes of the iterative engine", &flags->samples, 2, 100000);
    list[n++] = opt_number("seed", "of all random numbers", &flags->seed, 0, 1000000000);
    list[n++] = opt_number("steps", "of the optimiser, at most", &flags->steps, 1, 100000000);
    list[n++] = opt_heading("what is written");
    list[n++] = opt_text("report", "write a page with answer, pictures, tables and settings to this HTML file", &ask->report);
    list[n++] = opt_text("json", "write the results to this file", &flags->json);
    list[n++] = opt_text("effects", "write mean and standard deviation of every level's effect to this CSV file", &ask->effects);
    list[n++] = opt_text("out", "write the predictions of --predict to this CSV file", &ask->out);
    list[n++] = opt_text("svg", "write a picture of the largest effects to this file", &ask->svg);
    list[n++] = opt_real("progress", "seconds between lines of progress where stderr is no terminal; 0 = none", &flags->every, 0, 1e9);
    list[n++] = opt_flag("quiet", "no progress, no tables", &flags->quiet);
    n += fit_keep_table(flags, list + n);
    list[n++] = team_option();
    program_more =
        "--data is a table: names in the first line, or none (then columns are numbers from 1), a row a line; comma, semicolon, tab or ::\n"
        "between cells. Rows without a response, or with a gap elsewhere, are left out and counted. Without --data rows are simulated.\n\n"
        "  mixed --data ratings.csv --response rating --groups user,item --report ratings.html\n"
        "  mixed --data u.data --response 3 --groups 1,2 --json fit.json             no header: columns by number\n"
        "  mixed --data pupils.csv --response score --groups school,school:class --slopes school:age --fixed age,factor(sex)\n\n"
        "Tables go to standard output, progress to stderr, files only where an option names one: --report, --svg, --json, --effects, --out,\n"
        "--checkpoint, --simulate-write.";
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
    if (team_rank() > 0) ask.effects = ask.out = ask.svg = ask.report = d.save = NULL;
    file_ready(flags.json), file_ready(ask.effects), file_ready(ask.out), file_ready(ask.svg), file_ready(ask.report), file_ready(d.save);
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
    show_effects(&d, &ask, &options, &model, &r);
    pu_model_free(&model);
    predict_rows(&d, &ask, &options, r.theta, flags.quiet);
    free(r.theta), free(r.variance);
    design_free(&d);
    (void)team_close();
    return fit_code();
}

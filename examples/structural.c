/* structural.c - series made of a level, a slope, a season, a cycle ..: fit, what each part does, gaps, forecast.

   cc -O3 -march=native -fopenmp -I. examples/structural.c -o structural -lm
   ./structural --level --season 12 --forecast 24 --svg parts.svg                simulated
   ./structural --data AirPassengers.csv --columns value --transform log --level --slope --season 12 --forecast 24
   ./structural --data Nile.csv --columns flow --level --json nile.json --components nile_parts.csv
   ./structural --data lynx.csv --columns value --transform log --ar 2 --ma 1 --no-irregular     an ARMA with a mean, as arima() fits it

   y_t = level + season + cycle + ARMA + Gaussian process + regressors + N(0, var.irregular), of what is asked for:
   pu_model_structural has the equations. Levels, slopes and seasons begin diffuse, nothing is known of them before the data; the
   likelihood is the exact one of that, by a Kalman filter in O(length). Standard errors are of the natural values (delta
   method), 95 % intervals those of the scale on which a parameter is free, e.g. the logarithm of a variance. Bands of parts and
   forecasts take the parameters for known.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/estimates.h"
#include "common/series_report.h"

enum { PARTS = 8, NAME = CSV_NAME + 8 }; /* parts at most; bytes of a name */

static const double two_pi = 6.28318530717958647692;

/* What the command line asks for. */
typedef struct {
    int level, slope, form, cycle, matern, no_irregular;
    long season, ar, ma, starts;
    const char *constant, *components;
} request;

/* The model: its parts, and the regressors around them. */
typedef struct {
    pu_model parts_model, around;
    pu_model *model; /* the one of the two that is fitted */
    pu_part part[PARTS];
    const char *name[PARTS];
    int count;
    const series *s; /* its regressors */
    pu_int inner;    /* parameters of the parts */
} structure;

/* ---- the model ---- */

static void add_part(structure *m, const request *ask, pu_part_kind kind, long size, const char *name)
{
    pu_part *p = m->part + m->count;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->size = (pu_int)size;
    p->constant = series_listed(ask->constant, name);
    m->name[m->count++] = name;
}

/* The level and its slope come first: their states are the first two. */
static void choose_parts(structure *m, const request *ask)
{
    static const pu_part_kind matern[] = {PU_PART_MATERN12, PU_PART_MATERN32, PU_PART_MATERN52};
    const char *word;
    if (ask->level || ask->slope) add_part(m, ask, PU_PART_LEVEL, 0, "level");
    if (ask->slope) add_part(m, ask, PU_PART_SLOPE, 0, "slope");
    if (ask->season) add_part(m, ask, ask->form ? PU_PART_SEASON_TRIG : PU_PART_SEASON, ask->season, "season");
    if (ask->cycle) add_part(m, ask, PU_PART_CYCLE, 0, "cycle");
    if (ask->ar) add_part(m, ask, PU_PART_AR, ask->ar, ask->ma ? "arma" : "ar");
    if (ask->ma) add_part(m, ask, PU_PART_MA, ask->ma, "ma");
    if (ask->matern) add_part(m, ask, matern[ask->matern - 1], 0, "matern");
    if (ask->no_irregular) add_part(m, ask, PU_PART_NO_IRREGULAR, 0, "");
    for (word = ask->constant; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        char one[NAME];
        int i, found = 0;
        snprintf(one, sizeof one, "%.*s", (int)strcspn(word, ","), word);
        if (!series_listed("level,slope,season", one)) fail(2, "--constant", "takes level, slope, season, with commas between");
        for (i = 0; i < m->count; i++) found += !strcmp(m->name[i], one);
        if (!found) fail(2, one, "is to be constant, but is not asked for; see --help");
    }
}

static void make_model(structure *m, pu_int length)
{
    pu_report told;
    need(pu_model_structural(&m->parts_model, length, m->part, m->count, &told), &told);
    m->model = &m->parts_model;
    m->inner = m->parts_model.params;
    if (!m->s->regressors) return;
    need(pu_model_regressors(&m->around, &m->parts_model, m->s->regressors, m->s->X, 0, &told), &told);
    m->model = &m->around;
}

/* Name and scale of entry i of theta: regressors are called b. and the name of their column. */
static pu_param parameter(const structure *m, pu_int i, char *name)
{
    pu_param param;
    pu_report told;
    const pu_status status = pu_model_param(m->model, i, &param);
    memset(&told, 0, sizeof told);
    told.status = status;
    need(status, &told);
    if (i < m->inner) snprintf(name, NAME, "%s", param.name);
    else snprintf(name, NAME, "b.%s", m->s->regressor[i - m->inner]);
    return param;
}

/* Likelihoods of more than two parameters may have several maxima: three starts where these are cheap, unless told otherwise. */
static pu_int choose_starts(const request *ask, const pu_model *model, pu_int length)
{
    const double work = (double)length * (10 + (double)ask->season + (double)ask->ar + (double)ask->ma);
    if (ask->starts) return (pu_int)ask->starts;
    return model->params > 2 && work <= 2e5 ? 3 : 1;
}

/* What a simulation begins with. */
static void make_truth(const structure *m, pu_real *theta)
{
    static const struct {
        const char *name;
        double value;
    } truth[] = {{"var.level", 0.1},   {"var.slope", 1e-4}, {"var.season", 0.02}, {"var.cycle", 0.1},   {"rho.cycle", 0.95},
                 {"frequency.", 0.35}, {"gamma.ar", 0.6},   {"var.ar", 0.5},      {"gamma.ma", 0.4},    {"var.ma", 0.5},
                 {"var.matern", 1},    {"length.matern", 8}, {"var.irregular", 0.25}};
    char name[NAME];
    pu_int i;
    size_t k;
    for (i = 0; i < m->model->params; i++) {
        const pu_param param = parameter(m, i, name);
        double x = 1;
        for (k = 0; k < sizeof truth / sizeof *truth; k++)
            if (!strncmp(name, truth[k].name, strlen(truth[k].name))) x = truth[k].value;
        if (!strncmp(name, "gamma.ar[", 9) && strcmp(name, "gamma.ar[0]")) x = -0.2;
        theta[i] = (pu_real)pu_param_theta(&param, x);
    }
}

/* ---- what came out ---- */

/* All parameters, natural, and what follows from them: phi of an autoregression, theta of a moving average, the period of a cycle.
   Returns how many. */
static int make_estimates(const structure *m, const pu_real *theta, const pu_real *truth, const pu_real *C, estimate *e)
{
    const pu_int n = m->model->params;
    int count = 0, i, P = 0, first = 0, Q = 0, first_ma = 0;
    for (i = 0; i < (int)m->inner; i++) {
        const pu_param param = parameter(m, i, e[i].name);
        estimate_make(&param, theta[i], C[i * (n + 1)], truth ? (double)truth[i] : (double)NAN, e + i);
        if (!strncmp(e[i].name, "gamma.ar", 8) && P++ == 0) first = i;
        if (!strncmp(e[i].name, "gamma.ma", 8) && Q++ == 0) first_ma = i;
    }
    estimate_last(m->s, theta, C, n, truth, e + m->inner);
    count = (int)n;
    for (i = 0; i < (int)n; i++)
        if (!strcmp(e[i].name, "frequency.cycle")) {
            estimate *period = e + count++;
            snprintf(period->name, sizeof period->name, "period.cycle");
            period->value = two_pi / e[i].value, period->se = period->value / e[i].value * e[i].se;
            period->low = two_pi / e[i].high, period->high = two_pi / e[i].low, period->truth = two_pi / e[i].truth;
        }
    if (P) count += estimate_phi(P, 1, C + first * (n + 1), n, e + first, e + count, "phi.ar");
    if (Q) count += estimate_phi(Q, -1, C + first_ma * (n + 1), n, e + first_ma, e + count, "theta.ma");
    return count;
}

/* ---- the parts of the first series ---- */

/* Mean and variance of part i of the first series at every entry; of a slope those of the slope itself, which y sees through
   the level only. i beyond the parts: the regressors, whose variance is that of b. */
static void look_at(structure *m, int i, const series *s, const pu_real *theta, const pu_options *options, const pu_real *C,
                    pu_real *mean, pu_real *variance)
{
    const pu_data data = pu_data_nan(1, s->length, s->y);
    const pu_int p = s->regressors, n = m->model->params;
    pu_predict_result out;
    pu_report told;
    pu_int t, a, b;
    for (t = 0; t < s->length && i >= m->count; t++) {
        const pu_real *x = s->X + t * p;
        mean[t] = variance[t] = 0;
        for (a = 0; a < p; a++) {
            mean[t] += x[a] * theta[m->inner + a];
            for (b = 0; b < p; b++) variance[t] += x[a] * x[b] * C[(m->inner + a) * n + m->inner + b];
        }
    }
    if (i < m->count) {
        pu_op map = pu_model_part(&m->parts_model, i);
        pu_real *slope = need_reals(map.cols / s->length);
        if (m->part[i].kind == PU_PART_SLOPE) {
            slope[1] = 1;
            map = pu_op_readout(s->length, map.cols / s->length, slope);
        }
        memset(&out, 0, sizeof out);
        out.mean = mean, out.fit = variance, out.map = &map;
        need(pu_model_predict(m->model, theta, &data, options, NULL, &out, &told), &told);
        free(slope);
    }
}

static const char *part_name(const structure *m, int i) { return i < m->count ? m->name[i] : "regressors"; }

/* A moving average is seen in the autoregression that it belongs to. */
static int is_shown(const structure *m, int i)
{
    if (i >= m->count) return 1;
    if (m->part[i].kind == PU_PART_NO_IRREGULAR) return 0;
    return m->part[i].kind != PU_PART_MA || i == 0 || m->part[i - 1].kind != PU_PART_AR;
}

/* Data and fit on the scale of the file, then the parts on the scale of the fit; part i at part + 2 i length: means, variances. */
static void draw_parts(const structure *m, int all, const series *s, const pu_real *part)
{
    double *curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length), below = 1;
    FILE *file = file_open(s->svg);
    pu_int t;
    int i, side, shown = 0;
    for (i = 0; i < all; i++) shown += is_shown(m, i);
    svg_sheet(file, 1 + SERIES_PANEL * (shown + 1), "a structural model: data, fit, parts");
    series_curve(s, 0, curve);
    below = series_panel_below(s, file, below, "data, fit, forecast", curve, 0);
    for (i = 0; i < all; i++, part += 2 * s->length) {
        if (!is_shown(m, i)) continue;
        for (t = 0; t < s->length; t++)
            for (side = -1; side <= 1; side++)
                curve[3 * t + side + 1] = (double)part[t] + (side ? side * 1.96 * sqrt((double)part[s->length + t]) : 0); /* may be NaN */
        below = series_panel_below(s, file, below, part_name(m, i), curve, -1);
    }
    fprintf(file, "</svg>\n");
    file_close(file, s->svg);
    free(curve);
}

/* A cell of a CSV file; empty where there is no number. */
static void cell(FILE *file, double x)
{
    if (x == x) fprintf(file, ",%.15g", x);
    else fprintf(file, ",");
}

static void write_parts(const structure *m, int all, const series *s, const pu_real *part, const char *path)
{
    FILE *file = file_open(path);
    pu_int t;
    int i;
    fprintf(file, "row,y,fit,sd.fit");
    for (i = 0; i < all; i++)
        if (is_shown(m, i)) fprintf(file, ",%s,sd.%s", part_name(m, i), part_name(m, i));
    for (t = 0; t < s->length; t++) {
        fprintf(file, "\n%ld", (long)t + 1);
        cell(file, (double)s->y[t]), cell(file, (double)s->mean[t]), cell(file, sqrt((double)s->variance[t]));
        for (i = 0; i < all; i++)
            if (is_shown(m, i)) cell(file, (double)part[2 * i * s->length + t]), cell(file, sqrt((double)part[(2 * i + 1) * s->length + t]));
    }
    fprintf(file, "\n");
    file_close(file, path);
}

/* ---- the page of --report ---- */

static const char *scale_of(const series *s)
{
    static const char *const words[] = {"", " (log)", " (log1p)", " (sqrt)"};
    return words[s->transform];
}

/* What to say of a part, from its mean and variance at each time. */
static void part_words(const structure *m, int i, const series *s, const pu_real *mean, const pu_real *variance, char *text, size_t size)
{
    const pu_int now = s->known - 1, period = i < m->count ? m->part[i].size : 0;
    const double value = (double)mean[now], half = 1.96 * sqrt((double)variance[now]);
    const pu_part_kind kind = i < m->count ? m->part[i].kind : PU_PART_NO_IRREGULAR;
    double square = 0;
    char at[2][100];
    pu_int t;
    if (kind == PU_PART_LEVEL) {
        report_add(text, size, "The level went from %s at first to %s now (95 %%: %s to %s)", report_digits(4, (double)mean[0]),
                   report_digits(4, value), report_digits(4, value - half), report_digits(4, value + half));
        if (s->transform == 1)
            report_add(text, size, "on the scale of logarithms, which is %s times as much",
                       report_digits(3, exp(value - (double)mean[0])));
        snprintf(text + strlen(text), size - strlen(text), ".");
    } else if (kind == PU_PART_SLOPE) {
        report_add(text, size, "The slope is now %s a step (95 %%: %s to %s)%s.", report_digits(3, value),
                   report_digits(3, value - half), report_digits(3, value + half),
                   fabs(value) > half ? "" : ", which is not clear of zero");
    } else if ((kind == PU_PART_SEASON || kind == PU_PART_SEASON_TRIG) && s->known >= period) {
        pu_int low = now, high = now;
        for (t = s->known - period; t < s->known; t++) {
            if (mean[t] < mean[low]) low = t;
            if (mean[t] > mean[high]) high = t;
        }
        report_add(text, size, "In the last period of %ld steps the season is lowest at %s (%s) and highest at %s (%s).", (long)period,
                   series_at(s, low, at[0], sizeof at[0]), report_digits(3, (double)mean[low]), series_at(s, high, at[1], sizeof at[1]),
                   report_digits(3, (double)mean[high]));
    } else {
        for (t = 0; t < s->known; t++) square += (double)mean[t] * (double)mean[t] / (double)s->known;
        report_add(text, size, "Its root mean square is %s; now it is %s", report_digits(3, sqrt(square)), report_digits(3, value));
        if (half == half) report_add(text, size, "(95 %%: %s to %s)", report_digits(3, value - half), report_digits(3, value + half));
        snprintf(text + strlen(text), size - strlen(text), ".");
    }
    if (half != half) report_add(text, size, "There is no band, since the fit has no standard errors.");
}

static void report_parts(const report_page *r, const structure *m, int all, const series *s, const pu_real *part)
{
    double *curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length);
    char name[100], text[700];
    series_view view;
    svg_plot p;
    pu_int t;
    int i, side;
    report_section(r, "What it is made of");
    for (i = 0; i < all; i++, part += 2 * s->length) {
        if (!is_shown(m, i)) continue;
        for (t = 0; t < s->length; t++)
            for (side = -1; side <= 1; side++)
                curve[3 * t + side + 1] = (double)part[t] + (side ? side * 1.96 * sqrt((double)part[s->length + t]) : 0); /* may be NaN */
        snprintf(name, sizeof name, "%s%s", part_name(m, i), scale_of(s));
        memset(&p, 0, sizeof p);
        p.file = r->file, p.title = p.y_label = name, p.height = 130;
        *text = 0;
        part_words(m, i, s, part, part + s->length, text, sizeof text);
        report_figure(r);
        view = series_panel(s, &p, curve, -1, 0, s->length, NULL);
        if (view.cut) report_add(text, sizeof text, "The band goes beyond the frame where the data say little.");
        if (i == 0) report_add(text, sizeof text, "Bands are 95 %% intervals of the part%s.", s->count > 1 ? ", of the first series" : "");
        report_caption(r, "%s", text);
    }
    free(curve);
}

/* The value that all others make least likely: y_t less its mean given the others, whose variance follows from that given all. */
static void report_surprise(const report_page *r, const structure *m, const series *s)
{
    const pu_real *psi = m->model->lgm.psi;
    double most = 0, expected = 0, half = 0;
    pu_int n, t, at = -1, of = 0;
    long count = 0;
    char place[100];
    if (m->part[m->count - 1].kind == PU_PART_NO_IRREGULAR) return;
    for (n = 0; n < s->count; n++)
        for (t = 0; t < s->known; t++) {
            const pu_int k = n * s->length + t;
            const double noise = 1 / (double)psi[t], left = 2 * noise - (double)s->variance[k], off = (double)s->y[k] - (double)s->mean[k];
            if (off != off || !(left > 1e-6 * noise)) continue; /* of what it alone tells, nothing is expected */
            count++;
            if (fabs(off) / sqrt(left) <= most) continue;
            most = fabs(off) / sqrt(left), at = t, of = n;
            expected = (double)s->y[k] - off * noise / left, half = 1.96 * noise / sqrt(left);
        }
    if (count < 12) return;
    report_section(r, "What surprises most");
    report_text(
        r,
        "%s at %s is %s, where all other values let expect %s (95 %%: %s to %s). That is %.1f standard deviations; of "
        "%ld values the largest of a "
        "right model has about %.1f%s",
        s->table.name[of], series_at(s, at, place, sizeof place), report_digits(4, series_seen(s, of, at, 0)),
        report_digits(4, series_back(s, expected)), report_digits(4, series_back(s, expected - half)),
        report_digits(4, series_back(s, expected + half)), most, count, innovations_largest(count),
        most > innovations_largest(count) + 1 ? ": look at this value." : ".");
}

static void write_report(const structure *m, int all, const series *s, const pu_real *part, const outcome *o)
{
    report_page r = series_report_open(s);
    char text[1000];
    series_say_forecast(s, text, sizeof text);
    if (!*text) {
        report_add(text, sizeof text, "%s%s:", s->table.name[0], scale_of(s));
        part_words(m, 0, s, part, part + s->length, text, sizeof text);
    }
    report_answer(&r, "%s", text);
    report_doubts(&r, o->report, o->has_errors, (int)m->model->params, o->e);
    series_report_pictures(&r, s);
    report_parts(&r, m, all, s, part);
    report_surprise(&r, m, s);
    series_report_forecast(&r, s);
    report_section(&r, "Parameters");
    snprintf(text, sizeof text,
             "Variances are those of what moves a part in a step; var.irregular is the noise. Negative log-likelihood%s%s: %.6g.",
             s->count > 1 ? ", the sum over the series" : "", s->transform ? ", of the transformed numbers" : "", o->nll);
    report_estimates(&r, o->count, o->e, !s->data, text);
    report_end(&r);
}

/* Of --svg, --components, --report: part i at part + 2 i length, means, then variances; NULL where nothing asks for them. */
static pu_real *look_parts(structure *m, const request *ask, const series *s, const pu_real *theta, const pu_options *options,
                           const pu_real *C, int all)
{
    pu_real *part;
    int i;
    if (!s->svg && !ask->components && !s->report) return NULL;
    part = need_reals((pu_int)(2 * all) * s->length);
    for (i = 0; i < all; i++)
        if (is_shown(m, i)) look_at(m, i, s, theta, options, C, part + 2 * i * s->length, part + (2 * i + 1) * s->length);
    return part;
}

/* ---- what is told ---- */

static void print_table(const structure *m, const series *s, const pu_fit_report *report, int count, const estimate *e)
{
    pu_int known = 0, i;
    int k;
    for (i = 0; i < s->count * s->length; i++) known += s->y[i] == s->y[i];
    printf("structural model:");
    for (k = 0; k < m->count; k++) {
        const int joined = k + 1 < m->count && m->part[k].kind == PU_PART_AR && !is_shown(m, k + 1) && m->part[k + 1].kind == PU_PART_MA;
        if (!is_shown(m, k)) continue;
        printf("%s %s%s", k ? " +" : "", m->part[k].constant ? "constant " : "", m->name[k]);
        if (m->part[k].size) printf(" of %ld", (long)m->part[k].size);
        if (joined) printf(" and %ld", (long)m->part[k + 1].size);
    }
    printf("%s%s\n  %ld series of %ld entries, %ld values", s->regressors ? " + regressors" : "",
           m->part[m->count - 1].kind == PU_PART_NO_IRREGULAR ? ", and no noise" : " + noise", (long)s->count, (long)s->known, (long)known);
    printf("%s\n  %ld steps, %ld gradients in %.2f s (%s)\n  %s\n\n", s->transform ? ", transformed" : "", (long)report->step,
           (long)report->gradients, report->seconds, pu_fit_stop_text(report->stop), report->last.plan);
    estimates_print(count, e, !s->data);
}

static void write_json(const fit_flags *flags, const series *s, const pu_fit_report *report, double nll, int count, const estimate *e)
{
    json j = json_open(flags->json);
    json_fit(&j, flags, report, nll, 0);
    json_converged(&j, report);
    json_estimates(&j, "parameters", count, e, 0);
    json_estimates(&j, "standard_errors", count, e, 1);
    series_json(s, &j);
    json_close(&j);
}

static void read_options(int argc, char **argv, request *ask, series *s, fit_flags *flags, long *length, long *count,
                        double *missing)
{
    static option list[FIT_FLAGS + SERIES_FLAGS + 20];
    int n = 0;
    memset(ask, 0, sizeof *ask);
    series_default(s), fit_flags_default(flags);
    s->raw = 1, flags->rate = 0, ask->starts = 0;
    list[n++] = opt_heading("what the series are made of");
    list[n++] = opt_flag("level", "a level that moves", &ask->level);
    list[n++] = opt_flag("slope", "of the level, and the level", &ask->slope);
    list[n++] = opt_number("season", "its period; 0 = none", &ask->season, 0, 1000);
    list[n++] = opt_choice("season-form", "one noise a step, or one for every harmonic", &ask->form, "dummy,trig");
    list[n++] = opt_flag("cycle", "damped, of a frequency that is fitted", &ask->cycle);
    list[n++] = opt_number("ar", "order of a stationary autoregression; 0 = none", &ask->ar, 0, 1000);
    list[n++] = opt_number("ma", "order of a moving average: with --ar an ARMA, else of white noise; 0 = none", &ask->ma, 0, 1000);
    list[n++] = opt_flag("no-irregular", "no noise besides the parts: with --ar and --ma alone what arima() fits", &ask->no_irregular);
    list[n++] = opt_choice("matern", "a Gaussian process of smoothness 1/2, 3/2, 5/2", &ask->matern, "none,12,32,52");
    list[n++] = opt_text("regress", "columns of --data to regress on, names with commas between; without a level also an intercept",
                         &s->regress);
    list[n++] = opt_text("constant", "parts that do not move, of level,slope,season", &ask->constant);
    list[n++] = opt_number("starts", "fits from so many starts; the best one counts; 0 = one, or three where these are cheap",
                           &ask->starts, 0, 1000);
    list[n++] = opt_text("components", "write the parts of the first series to this CSV file: means and standard deviations", &ask->components);
    list[n++] = opt_number("length", "simulate: entries of a series", length, 1, 100000000);
    list[n++] = opt_number("series", "simulate: how many", count, 1, CSV_COLUMNS);
    list[n++] = opt_real("missing", "simulate: share of missing entries", missing, 0, 0.99);
    n += series_flags_table(s, list + n);
    n += fit_flags_table(flags, list + n);
    program_more =
        "--data is a CSV file: names in the first line, then a row for each time, in order; empty cells, NA and NaN "
        "are gaps. Empty rows at\n"
        "its end are forecast. Without --data series are simulated, and the tables have the truth beside.\n\n"
        "  structural --data AirPassengers.csv --time time --columns value --transform log --slope --season 12 "
        "--forecast 24 --report air.html\n"
        "  structural --data Nile.csv --columns flow --level --json nile.json --components nile_parts.csv\n"
        "  structural --data lynx.csv --columns value --transform log --ar 2 --ma 1 --no-irregular      an ARMA with a mean\n\n"
        "Tables go to standard output, progress to stderr, files only where an option names one: --report, --svg, --json, --components,\n"
        "--save.";
    options_read(argc, argv, "structural",
                 "Fits a sum of components to series with gaps. Several columns are several series with the same parameters,\n"
                 "each with states of its own; \"nll\" is the sum over them, of the transformed numbers.", n, list);
    options_apart(argc, argv, "data", "length,series,missing");
    if (ask->season == 1) fail(2, "--season", "a period is at least 2; 0 = none");
    if (ask->level || ask->slope || ask->season || ask->cycle || ask->ar || ask->ma || ask->matern) return;
    if (s->data) fail(2, "--data", "what is the series made of? --level, --slope, --season, --cycle, --ar, --ma, --matern; see --help");
    ask->level = 1, ask->season = 12; /* something to see */
}

int main(int argc, char **argv)
{
    static series s;
    static structure m;
    static request ask;
    fit_flags flags;
    long length = 240, count = 1;
    double missing = 0.1, nll = 0;
    pu_real *theta, *truth, *C, *part;
    estimate *e;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_options exact;
    pu_report told;
    outcome o;
    int estimates, has_se, all;

    read_options(argc, argv, &ask, &s, &flags, &length, &count, &missing);
    device_open();
    choose_parts(&m, &ask);
    if (s.data) series_load(&s);
    if (s.data && !s.columns && s.count > 1) fail(2, "--columns", "which of them are the series? They share all parameters");
    if (!s.data) s.known = (pu_int)length, s.length = s.known + (pu_int)s.forecast;
    series_regressors(&s, !(ask.level || ask.slope));
    m.s = &s;
    make_model(&m, s.length);
    theta = need_reals(2 * m.model->params), truth = theta + m.model->params;
    C = need_reals(m.model->params * m.model->params);
    e = (estimate *)need_bytes((size_t)(m.model->params + ask.ar + ask.ma + 1) * sizeof *e);
    if (!s.data) {
        make_truth(&m, truth);
        series_simulate(&s, m.model, truth, (pu_int)count, missing, (uint64_t)flags.seed);
    }
    series_hide(&s, (uint64_t)flags.seed);
    file_ready(ask.components);
    data = pu_data_nan(s.count, s.length, s.y);

    /* the fit, and what it is worth */
    fit_flags_options(&flags, &fit);
    fit.optimizer = PU_LBFGS;
    fit.fixed_probes = 1;
    fit.starts = choose_starts(&ask, m.model, s.length);
    memset(&exact, 0, sizeof exact);
    exact.engine = PU_ENGINE_AUTO, exact.kind = PU_EXACT, exact.threads = (int)flags.threads;
    need(pu_model_start(m.model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_run(m.model, &data, &fit, NULL, theta, &report);
    has_se = estimates_errors(m.model, &data, &exact, &flags, &report, theta, C);
    need(pu_model_nll(m.model, theta, &data, &exact, NULL, &nll, NULL, &told), &told);
    nll *= (double)s.count;
    series_look(&s, m.model, theta, &exact);
    estimates = make_estimates(&m, theta, s.data ? NULL : truth, C, e);

    if (!flags.quiet) {
        print_table(&m, &s, &report, estimates, e);
        estimates_explain(&report, has_se);
        printf("\n  NLL %.6f%s%s\n", nll, s.count > 1 ? ", the sum over the series" : "", s.transform ? ", of the transformed numbers" : "");
        series_print(&s);
    }
    write_json(&flags, &s, &report, nll, estimates, e);
    all = m.count + (s.regressors > 0);
    part = look_parts(&m, &ask, &s, theta, &exact, C, all);
    if (s.svg) draw_parts(&m, all, &s, part);
    if (ask.components) write_parts(&m, all, &s, part, ask.components);
    o.report = &report, o.has_errors = has_se, o.count = estimates, o.e = e, o.nll = nll;
    if (s.report) write_report(&m, all, &s, part, &o);
    free(part);
    series_free(&s);
    free(theta), free(C), free(e);
    pu_model_free(&m.around);
    pu_model_free(&m.parts_model);
    device_close();
    return fit_code();
}

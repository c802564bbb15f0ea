/* series.h - time series for the programs that model them: from a CSV file or simulated, gaps, hiding known values to see how
   well they are filled in, forecasts, a picture.

       series s;
       series_default(&s);
       count += series_flags_table(&s, list + count);   --data --columns .. --hide --forecast --svg
       options_read(..);
       if (s.data) series_load(&s);  else series_simulate(&s, &model, theta, ..);
       series_hide(&s, seed);
       .. fit to series_data(&s) ..
       series_look(&s, &model, theta, options);   mean and variance of every entry; how the hidden ones came out
       series_print(&s);  series_json(&s, &json);  series_draw(&s, ..);  series_free(&s);

   A forecast is the posterior of a longer series whose end is missing: the series simply get `forecast` more entries, NaN.
   What a model with mean zero cannot know is taken out of a file's columns first: --transform, then by least squares a
   polynomial of degree --trend (0: the mean) and --harmonics waves of period --period. A model that knows levels itself has
   `raw`: series_regress_table has --intercept and --regress, series_regressors reads their X for pu_model_regressors.
   Several columns are several data, or with `vector` one datum with a vector per step. Include after program.h, fit.h. */
#ifndef EXAMPLES_SERIES_H
#define EXAMPLES_SERIES_H

#include "csv.h"
#include "svg.h"

enum { SERIES_FLAGS = 18, SERIES_LEVEL = 24 }; /* options of both tables; terms of the level */

typedef struct {
    /* flags */
    const char *data, *columns, *time, *save, *svg, *report, *regress;
    int separator, no_header, transform, intercept;
    long trend, harmonics, forecast;
    double period, mark, hide;
    int raw; /* set by a program whose model knows levels itself: none is taken out, and rows of a file below its last value
                are steps of the forecast */
    int vector; /* set by a program whose model has a vector of all series per step */
    /* the series */
    pu_int count, known, length; /* how many; entries; with the forecast */
    csv_table table;
    pu_real *y, *hidden;      /* count x length: what is fitted; what was hidden, NaN elsewhere */
    pu_real *mean, *variance; /* count x length, of a new observation: set by series_look */
    pu_real *steps;           /* length x count, y as series_data gives it to a model of vectors */
    /* set by series_regressors: (column - centre) / scale, length x regressors; names, centres and scales of the columns */
    pu_real *X;
    pu_int regressors;
    double *centre, *scale;
    char (*regressor)[CSV_NAME];
    double level[CSV_COLUMNS][SERIES_LEVEL];
    double *when; /* length, the times of --time; NULL: 1, 2, 3 .. */
    /* of the hidden values: how many, share within the 95 % interval, root mean square errors (transformed scale) */
    long checked;
    double coverage, error, error_linear;
} series;

static inline void series_default(series *s)
{
    memset(s, 0, sizeof *s);
    s->mark = (double)NAN, s->harmonics = 2;
}

static inline int series_flags_table(series *s, option *list)
{
    int n = 0;
    list[n++] = opt_heading("the series, and what is written");
    list[n++] = opt_text("data", "CSV file; empty, NA, NaN = missing", &s->data);
    list[n++] = opt_text("columns", "of it, names with commas between; without this all", &s->columns);
    list[n++] = opt_text("time", "its column of times, increasing numbers such as years: for pictures and reports alone", &s->time);
    list[n++] = opt_choice("separator", "of its cells", &s->separator, "comma,semicolon,tab");
    list[n++] = opt_flag("no-header", "its first line is data; columns are numbers from 1", &s->no_header);
    list[n++] = opt_real("mark", "a number in it that means missing, too, such as -99", &s->mark, -1e300, 1e300);
    list[n++] = opt_choice("transform", "of its numbers", &s->transform, "none,log,log1p,sqrt");
    if (!s->raw) {
        list[n++] = opt_number("trend", "degree of the polynomial taken out of it", &s->trend, 0, 9);
        list[n++] = opt_real("period", "of a season taken out of it, in rows; 0 = none", &s->period, 0, 1e9);
        list[n++] = opt_number("harmonics", "waves of that season", &s->harmonics, 1, 6);
    }
    list[n++] = opt_real("hide", "share of known values to hide and compare with", &s->hide, 0, 0.9);
    list[n++] = opt_number("forecast", "steps beyond the end; the first 12 are printed, --json has all", &s->forecast, 0, 100000);
    list[n++] = opt_text("save", "write the series that are fitted to this CSV file", &s->save);
    list[n++] = opt_text("svg", "write a picture of the series to this file", &s->svg);
    list[n++] = opt_text("report", "write a page with answer, pictures, tables and settings to this HTML file", &s->report);
    return n;
}

/* Two more, of a program that has a model with regressors. */
static inline int series_regress_table(series *s, option *list)
{
    list[0] = opt_flag("intercept", "fit a mean, instead of taking it out before", &s->intercept);
    list[1] = opt_text("regress", "columns of --data to regress on, names with commas between; nothing is taken out before", &s->regress);
    return 2;
}

/* Beside those nothing is taken out before. */
static inline void series_regress_check(series *s)
{
    if (!s->intercept && !s->regress) return;
    if (s->trend > 0) fail(2, "--trend", "is taken out before the fit; beside --intercept and --regress name it as a column");
    if (s->period > 0) fail(2, "--period", "is taken out before the fit; beside --intercept and --regress name waves as columns");
    s->raw = 1;
}

/* Is this word in the list, words with commas between? */
static inline int series_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strcspn(list, ",") == length && !strncmp(list, word, length)) return 1;
    return 0;
}

static inline double series_transform(const series *s, double x)
{
    return s->transform == 1 ? log(x) : s->transform == 2 ? log1p(x) : s->transform == 3 ? sqrt(x) : x;
}

static inline double series_back(const series *s, double x)
{
    return s->transform == 1 ? exp(x) : s->transform == 2 ? expm1(x) : s->transform == 3 ? (x > 0 ? x * x : 0) : x;
}

/* ---- the level: polynomial and season ---- */

static inline int series_terms(const series *s) { return (int)s->trend + 1 + (s->period > 0 ? 2 * (int)s->harmonics : 0); }

/* Chebyshev polynomials of the time, scaled to -1 .. 1 over the known part; cosines and sines */
static inline void series_basis(const series *s, pu_int t, double *b)
{
    const double pi = 3.14159265358979323846, x = s->known > 1 ? 2 * (double)t / (double)(s->known - 1) - 1 : 0;
    int i, n = (int)s->trend + 1, h;
    for (i = 0; i < n; i++) b[i] = i == 0 ? 1 : i == 1 ? x : 2 * x * b[i - 1] - b[i - 2];
    for (h = 1; s->period > 0 && h <= s->harmonics; h++, n += 2)
        b[n] = cos(2 * pi * h * (double)t / s->period), b[n + 1] = sin(2 * pi * h * (double)t / s->period);
}

static inline double series_level(const series *s, pu_int n, pu_int t)
{
    double b[SERIES_LEVEL], sum = 0;
    int i;
    series_basis(s, t, b);
    for (i = 0; i < series_terms(s); i++) sum += b[i] * s->level[n][i];
    return sum;
}

/* Least squares over the known entries: normal equations G w = r, by Cholesky. */
static inline void series_fit_level(series *s, pu_int n)
{
    const int m = series_terms(s);
    double G[SERIES_LEVEL][SERIES_LEVEL], r[SERIES_LEVEL], b[SERIES_LEVEL], *w = s->level[n];
    pu_real *y = s->y + n * s->length;
    pu_int t;
    int i, j, l;
    memset(G, 0, sizeof G), memset(r, 0, sizeof r);
    for (t = 0; t < s->known; t++) {
        if (y[t] != y[t]) continue;
        series_basis(s, t, b);
        for (i = 0; i < m; i++)
            for (r[i] += b[i] * (double)y[t], j = 0; j <= i; j++) G[i][j] += b[i] * b[j];
    }
    for (i = 0; i < m; i++)
        for (j = 0; j <= i; j++) {
            double sum = G[i][j];
            for (l = 0; l < j; l++) sum -= G[i][l] * G[j][l];
            if (j == i && !(sum > 1e-9 * G[i][i])) fail(1, s->table.name[n], "too few values for --trend, --harmonics");
            G[i][j] = j == i ? sqrt(sum) : sum / G[j][j];
        }
    for (i = 0; i < m; w[i] = r[i] / G[i][i], i++)
        for (l = 0; l < i; l++) r[i] -= G[i][l] * w[l];
    for (i = m - 1; i >= 0; w[i] /= G[i][i], i--)
        for (l = i + 1; l < m; l++) w[i] -= G[l][i] * w[l];
    for (t = 0; t < s->known; t++) y[t] = (pu_real)((double)y[t] - series_level(s, n, t)); /* NaN stays NaN */
}

/* ---- where series come from ---- */

static inline void series_alloc(series *s, pu_int count, pu_int known)
{
    pu_int i;
    s->count = count, s->known = known, s->length = known + (pu_int)s->forecast;
    s->y = need_reals((s->vector ? 5 : 4) * count * s->length), s->hidden = s->y + count * s->length;
    s->mean = s->hidden + count * s->length, s->variance = s->mean + count * s->length;
    s->steps = s->vector ? s->variance + count * s->length : NULL;
    for (i = 0; i < 2 * count * s->length; i++) s->y[i] = (pu_real)NAN;
}

/* Rows of the file down to the last one that has a value. */
static inline pu_int series_rows(const csv_table *table)
{
    pu_int rows = table->rows, n;
    for (; rows > 0; rows--)
        for (n = 0; n < table->columns; n++) {
            const pu_real x = table->value[n * table->rows + rows - 1];
            if (x == x) return rows;
        }
    return 0;
}

/* These columns of the file (NULL: all). */
static inline void series_read(const series *s, const char *columns, csv_table *table)
{
    csv_format format = {',', 1, NULL, 0, 0};
    char why[CSV_WHY];
    format.separator = ",;\t"[s->separator], format.header = !s->no_header, format.columns = columns;
    format.marked = s->mark == s->mark, format.mark = s->mark;
    if (!csv_read(s->data, &format, table, why)) fail(1, s->data, why);
}

/* Without --columns: all but the regressors and the times. */
static inline void series_drop(series *s)
{
    csv_table *table = &s->table;
    const pu_int all = table->columns;
    pu_int n;
    for (n = 0, table->columns = 0; n < all; n++) {
        if (series_listed(s->regress, table->name[n]) || series_listed(s->time, table->name[n])) continue;
        memmove(table->name[table->columns], table->name[n], CSV_NAME);
        memmove(table->value + table->columns * table->rows, table->value + n * table->rows, (size_t)table->rows * sizeof(pu_real));
        table->columns++;
    }
    if (table->columns == 0) fail(2, s->regress ? "--regress" : "--time", "leaves no column to be the series");
}

/* The times of --time; beyond the rows of the file they go on by the mean step. */
static inline void series_times(series *s)
{
    csv_table table;
    char why[CSV_WHY];
    pu_int t;
    double step;
    if (strchr(s->time, ',')) fail(2, "--time", "takes one column");
    series_read(s, s->time, &table);
    for (t = 0; t < table.rows; t++) {
        if (t == 0 ? table.value[t] == table.value[t] : table.value[t] > table.value[t - 1]) continue;
        snprintf(why, sizeof why, "row %ld of column %.60s: times increase from row to row, without gaps", (long)t + 1, table.name[0]);
        fail(1, s->data, why);
    }
    s->when = (double *)need_bytes((size_t)s->length * sizeof *s->when);
    step = table.rows > 1 ? (double)(table.value[table.rows - 1] - table.value[0]) / (double)(table.rows - 1) : 1;
    for (t = 0; t < s->length; t++)
        s->when[t] = t < table.rows ? (double)table.value[t] : (double)table.value[table.rows - 1] + step * (double)(t - table.rows + 1);
    csv_free(&table);
}

static inline void series_load(series *s)
{
    char why[CSV_WHY];
    pu_int n, t, gaps, rows;
    int varies = 0;
    series_read(s, s->columns, &s->table);
    if (!s->columns && (s->regress || s->time)) series_drop(s);
    if (s->table.rows < 2) fail(1, s->data, "has one row of numbers; a series is a column, and takes at least two");
    rows = s->raw ? series_rows(&s->table) : s->table.rows;
    if (s->raw && s->forecast < (long)(s->table.rows - rows)) s->forecast = (long)(s->table.rows - rows);
    series_alloc(s, s->table.columns, rows);
    if (s->time) series_times(s);
    for (n = 0; n < s->count; n++) {
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (t = 0, gaps = 0; t < s->known; t++) {
            const double x = (double)s->table.value[n * s->table.rows + t], v = series_transform(s, x);
            if (x == x && !(v - v == 0)) {
                snprintf(why, sizeof why, "row %ld of column %.60s: no --transform of %g", (long)t + 1, s->table.name[n], x);
                fail(1, s->data, why);
            }
            s->y[n * s->length + t] = (pu_real)v, gaps += x != x;
            low = fmin(low, v), high = fmax(high, v);
        }
        if (gaps == s->known) fail(1, s->table.name[n], "the column has no value at all");
        varies |= high > low;
    }
    if (!varies) fail(1, s->table.name[0], "is the same wherever it is known: of what never changes there is nothing to estimate");
}

/* Column p of X counted from its mean where there is an intercept, in units of its standard deviation: numbers such as years
   would leave few digits to the curvature of the likelihood. A column that is constant stays as it is. */
static inline void series_standardise(series *s, int intercept, pu_int p)
{
    double mean = 0, square = 0;
    pu_int t;
    for (t = 0; t < s->length; t++) mean += (double)s->X[t * s->regressors + p] / (double)s->length;
    if (!intercept) mean = 0;
    for (t = 0; t < s->length; t++) {
        const double off = (double)s->X[t * s->regressors + p] - mean;
        square += off * off / (double)s->length;
    }
    if (!(square > 0) || square <= 1e-24 * mean * mean) return;
    s->centre[p] = mean, s->scale[p] = sqrt(square);
    for (t = 0; t < s->length; t++) {
        pu_real *x = s->X + t * s->regressors + p;
        *x = (pu_real)(((double)*x - mean) / s->scale[p]);
    }
}

/* X of all entries down to the end of the forecast: a column of ones where there is an intercept, the columns of --regress. */
static inline void series_regressors(series *s, int intercept)
{
    csv_table table;
    char why[CSV_WHY];
    pu_int i, t, p = 0;
    memset(&table, 0, sizeof table);
    if (s->regress) {
        if (!s->data) fail(2, "--regress", "needs --data and --columns");
        series_read(s, s->regress, &table);
        if (s->length > table.rows) {
            snprintf(why, sizeof why, "needs the regressors of the future: rows below the last value of the series, with that "
                     "empty; the file has %ld", (long)(table.rows - s->known));
            fail(1, "--forecast", why);
        }
    }
    s->regressors = (intercept != 0) + table.columns;
    s->X = need_reals(s->regressors * s->length);
    s->centre = (double *)need_bytes(2 * (size_t)s->regressors * sizeof(double)), s->scale = s->centre + s->regressors;
    for (i = 0; i < s->regressors; i++) s->scale[i] = 1;
    s->regressor = (char(*)[CSV_NAME])need_bytes((size_t)(s->regressors + 1) * CSV_NAME);
    if (intercept) {
        snprintf(s->regressor[p++], CSV_NAME, "intercept");
        for (t = 0; t < s->length; t++) s->X[t * s->regressors] = 1;
    }
    for (i = 0; i < table.columns; i++, p++) {
        memcpy(s->regressor[p], table.name[i], CSV_NAME);
        if (series_listed(s->columns, table.name[i])) fail(2, "--regress", "a column is a series or a regressor, not both");
        for (t = 0; t < s->length; t++) {
            const pu_real x = table.value[i * table.rows + t];
            snprintf(why, sizeof why, "row %ld of column %.60s is empty; regressors have no gaps", (long)t + 1, table.name[i]);
            if (x != x) fail(1, s->data, why);
            s->X[t * s->regressors + p] = x;
        }
        series_standardise(s, intercept, p);
    }
    csv_free(&table);
}

/* Uniform in (0, 1), a function of its arguments; other random numbers of the library have other keys. */
static inline double series_uniform(uint64_t seed, uint32_t what, uint64_t index)
{
    uint32_t key[2], counter[4] = {0, 0, 0, 0}, out[4];
    key[0] = (uint32_t)seed ^ 0x73657269u, key[1] = (uint32_t)(seed >> 32) ^ 0x65732e68u;
    counter[0] = (uint32_t)index, counter[1] = (uint32_t)(index >> 32), counter[2] = what;
    pu_philox(key, counter, out);
    return ((double)(out[0] >> 5) * 67108864.0 + (double)(out[1] >> 6) + 0.5) / 9007199254740992.0;
}

/* Takes share of the known values of each series out of y, into `to` where that is given: which ones is a function of the seed. */
static inline void series_take(series *s, double share, uint64_t seed, uint32_t what, pu_real *to)
{
    pu_int n, t, left, want;
    for (n = 0; n < s->count; n++) {
        pu_real *y = s->y + n * s->length;
        for (t = 0, left = 0; t < s->known; t++) left += y[t] == y[t];
        want = (pu_int)(share * (double)left + 0.5);
        for (t = 0; t < s->known; t++) { /* `want` of the `left` that are still to come */
            if (y[t] != y[t]) continue;
            if (series_uniform(seed, what, (uint64_t)(n * s->known + t)) * (double)left < (double)want) {
                if (to) to[n * s->length + t] = y[t];
                y[t] = (pu_real)NAN, want--;
            }
            left--;
        }
    }
}

/* `count` draws of the model (whose series have the length with the forecast), or one of vectors, with a share of values
   missing. */
static inline void series_simulate(series *s, pu_model *model, const pu_real *theta, pu_int count, double missing, uint64_t seed)
{
    const pu_int rows = model->lgm.Phi->rows;
    pu_report report;
    pu_int n, t;
    series_alloc(s, count, (s->vector ? rows / count : rows) - (pu_int)s->forecast);
    need(pu_model_simulate(model, theta, s->vector ? 1 : count, seed, NULL, NULL, s->vector ? s->steps : s->y, &report), &report);
    for (n = 0; n < count && s->vector; n++)
        for (t = 0; t < s->length; t++) s->y[n * s->length + t] = s->steps[t * count + n];
    for (n = 0; n < count; n++)
        for (t = s->known; t < s->length; t++) s->y[n * s->length + t] = (pu_real)NAN;
    for (n = 0; n < count && n < CSV_COLUMNS; n++) snprintf(s->table.name[n], CSV_NAME, "y%ld", (long)n + 1);
    series_take(s, missing, seed, 1, NULL);
}

/* Hides what --hide asks for and takes the level out (of what is left, so that nothing leaks); --save. */
static inline void series_hide(series *s, uint64_t seed)
{
    pu_int n, t;
    if (s->columns && !s->data) fail(2, "--columns", "needs --data");
    if (s->time && !s->data) fail(2, "--time", "needs --data");
    file_ready(s->svg), file_ready(s->report);
    if (s->hide > 0) series_take(s, s->hide, seed, 2, s->hidden);
    for (n = 0; n < s->count && s->data && !s->raw; n++) {
        series_fit_level(s, n);
        for (t = 0; t < s->known; t++) s->hidden[n * s->length + t] -= (pu_real)series_level(s, n, t);
    }
    if (s->save) {
        FILE *file = file_open(s->save);
        for (n = 0; n < s->count; n++) fprintf(file, "%sy%ld", n ? "," : "", (long)n + 1);
        for (t = 0; t < s->known; t++)
            for (n = 0; n < s->count; n++) {
                const double y = (double)s->y[n * s->length + t];
                fprintf(file, n ? "," : "\n");
                if (y == y) fprintf(file, "%.17g", y);
                else fprintf(file, "NA"); /* an empty line would be lost on many a reader */
            }
        fprintf(file, "\n");
        file_close(file, s->save);
    }
}

/* What is fitted, as of now. */
static inline pu_data series_data(series *s)
{
    pu_int n, t;
    if (!s->vector) return pu_data_nan(s->count, s->length, s->y);
    for (n = 0; n < s->count; n++)
        for (t = 0; t < s->length; t++) s->steps[t * s->count + n] = s->y[n * s->length + t];
    return pu_data_nan(1, s->length * s->count, s->steps);
}

/* ---- what a fitted model says about them ---- */

/* y + level at t from the nearest known values on both sides, or on the one that has any */
static inline double series_interpolate(const series *s, pu_int n, pu_int t)
{
    const pu_real *y = s->y + n * s->length;
    pu_int a = t, b = t;
    double low, high;
    while (a >= 0 && y[a] != y[a]) a--;
    while (b < s->known && y[b] != y[b]) b++;
    if (a < 0) a = b;
    if (b == s->known) b = a;
    low = (double)y[a] + series_level(s, n, a), high = (double)y[b] + series_level(s, n, b);
    return a == b ? low : low + (high - low) * (double)(t - a) / (double)(b - a);
}

/* Vectors per step, one after the other, become series. */
static inline void series_from_steps(const series *s, pu_real *x)
{
    pu_real *copy = need_reals(s->count * s->length);
    pu_int n, t;
    memcpy(copy, x, (size_t)(s->count * s->length) * sizeof *copy);
    for (n = 0; n < s->count; n++)
        for (t = 0; t < s->length; t++) x[n * s->length + t] = copy[t * s->count + n];
    free(copy);
}

static inline void series_look(series *s, pu_model *model, const pu_real *theta, const pu_options *options)
{
    const pu_data data = series_data(s);
    pu_predict_result out;
    pu_report report;
    double inside = 0, square = 0, square_linear = 0;
    pu_int n, t;
    memset(&out, 0, sizeof out);
    out.mean = s->mean, out.variance = s->variance;
    need(pu_model_predict(model, theta, &data, options, NULL, &out, &report), &report);
    if (s->vector) series_from_steps(s, s->mean), series_from_steps(s, s->variance);
    for (n = 0, s->checked = 0; n < s->count; n++)
        for (t = 0; t < s->known; t++) {
            const pu_int i = n * s->length + t;
            const double off = (double)(s->hidden[i] - s->mean[i]);
            double linear;
            if (off != off) continue;
            linear = (double)s->hidden[i] + series_level(s, n, t) - series_interpolate(s, n, t);
            inside += fabs(off) <= 1.96 * sqrt((double)s->variance[i]);
            square += off * off, square_linear += linear * linear, s->checked++;
        }
    if (s->checked == 0) return;
    s->coverage = inside / (double)s->checked;
    s->error = sqrt(square / (double)s->checked), s->error_linear = sqrt(square_linear / (double)s->checked);
}

/* A 95 % interval of entry t of series n, on the scale of the file: -1 its lower end, 0 the middle, 1 the upper end. */
static inline double series_value(const series *s, pu_int n, pu_int t, int side)
{
    const pu_int i = n * s->length + t;
    return series_back(s, (double)s->mean[i] + series_level(s, n, t) + side * 1.96 * sqrt((double)s->variance[i]));
}

static inline void series_print(const series *s)
{
    pu_int t, show = (pu_int)s->forecast < 12 ? (pu_int)s->forecast : 12;
    if (s->checked)
        printf("\n  hidden values: %ld, %.1f %% within their 95 %% interval, rms error %.4g (linear interpolation %.4g)\n", s->checked,
               100 * s->coverage, s->error, s->error_linear);
    if (show) printf("\n  forecast of %s     95 %% interval\n", s->table.name[0]);
    for (t = s->known; t < s->known + show; t++)
        printf("    + %-4ld %10.4g   %10.4g .. %.4g\n", (long)(t - s->known) + 1, series_value(s, 0, t, 0), series_value(s, 0, t, -1),
               series_value(s, 0, t, 1));
    if (show < (pu_int)s->forecast) printf("    %ld more steps are left out here", (long)((pu_int)s->forecast - show));
    else if (show && s->count > 1) printf("    the other series are left out here");
    else return;
    printf("%s: --json FILE has all of them\n", show < (pu_int)s->forecast && s->count > 1 ? ", and the other series" : "");
}

static inline void series_json(const series *s, json *j)
{
    pu_int n, t;
    json_number(j, "length", (double)s->known);
    json_number(j, "series", (double)s->count);
    if (s->checked) {
        json_number(j, "hidden", (double)s->checked);
        json_number(j, "coverage", s->coverage);
        json_number(j, "rmse", s->error);
        json_number(j, "rmse_linear", s->error_linear);
    }
    if (!s->forecast || !j->file) return;
    json_key(j, "forecast"); /* per series a list of [lower, middle, upper] */
    for (n = 0; n < s->count; n++)
        for (t = s->known; t < s->length; t++) {
            fprintf(j->file, t > s->known ? ", [" : n ? "], [[" : "[[[");
            json_value(j, series_value(s, n, t, -1)), fprintf(j->file, ", ");
            json_value(j, series_value(s, n, t, 0)), fprintf(j->file, ", ");
            json_value(j, series_value(s, n, t, 1)), fprintf(j->file, "]");
        }
    fprintf(j->file, "]]");
}

static inline void series_free(series *s)
{
    csv_free(&s->table);
    free(s->y), free(s->X), free(s->centre), free(s->regressor), free(s->when);
}

#include "series_picture.h"

#endif /* EXAMPLES_SERIES_H */

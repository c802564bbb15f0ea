/* series_report.h - what the pages of results of noisy_ar, state_space and structural share: forecasts in words, pictures of the
   series, a spectrum, a table of forecasts. Include after series.h, estimates.h. */
#ifndef EXAMPLES_SERIES_REPORT_H
#define EXAMPLES_SERIES_REPORT_H

#include "innovations.h"

enum { SPECTRUM = 400, SPECTRA = 4 }; /* frequencies; curves at most */

/* Opens the page of --report; its title says of what. */
static inline report_page series_report_open(const series *s)
{
    char title[300], names[120] = "";
    pu_int n;
    for (n = 0; n < s->count && n < 4; n++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.24s", n ? ", " : "", s->table.name[n]);
    snprintf(title, sizeof title, "%s: %s%s, %s%.80s", program_name, names, s->count > 4 ? " .." : "", s->data ? "of " : "simulated",
             s->data ? report_base(s->data) : "");
    return report_open(s->report, title);
}

/* How many are missing among the known entries of series n; the longest gap, and its first entry. */
static inline long series_gaps(const series *s, pu_int n, long *longest, pu_int *from)
{
    long gaps = 0, run = 0;
    pu_int t;
    for (*longest = 0, *from = 0, t = 0; t < s->known; t++) {
        const int gone = s->y[n * s->length + t] != s->y[n * s->length + t];
        gaps += gone, run = gone ? run + 1 : 0;
        if (run > *longest) *longest = run, *from = t - (pu_int)run + 1;
    }
    return gaps;
}

/* "at row 145", "at year 1961": entry t. */
static inline const char *series_at(const series *s, pu_int t, char *text, size_t size)
{
    snprintf(text, size, "%.60s %.8g", s->time ? s->time : s->data ? "row" : "time", series_when(s, t));
    return text;
}

/* What is expected of the first series, as one sentence; empty without a forecast. */
static inline void series_say_forecast(const series *s, char *text, size_t size)
{
    const pu_int next = s->known, last = s->length - 1;
    char at[2][100];
    *text = 0;
    if (!s->forecast) return;
    snprintf(text, size, "%s is expected at %s at %s (95 %%: %s to %s)", s->table.name[0],
             report_digits(4, series_value(s, 0, next, 0)), series_at(s, next, at[0], sizeof at[0]),
             report_digits(4, series_value(s, 0, next, -1)), report_digits(4, series_value(s, 0, next, 1)));
    if (last > next)
        report_add(text, size, "and at %s at %s (%s to %s)", report_digits(4, series_value(s, 0, last, 0)),
                   series_at(s, last, at[1], sizeof at[1]), report_digits(4, series_value(s, 0, last, -1)),
                   report_digits(4, series_value(s, 0, last, 1)));
    snprintf(text + strlen(text), size - strlen(text), ".");
}

/* What to look at in a picture that came out as `view`. */
static inline void series_caption(const report_page *r, const series *s, pu_int n, const series_view *view, int whole)
{
    char text[1400] = "", at[100];
    long longest, gaps;
    pu_int from;
    gaps = series_gaps(s, n, &longest, &from);
    if (whole) report_add(text, sizeof text, "The whole series.");
    if (s->forecast && !whole) report_add(text, sizeof text, "Right of \"now\" is the forecast: its band is %s wide at first and %s at the end.",
                                          report_digits(3, series_value(s, n, s->known, 1) - series_value(s, n, s->known, -1)),
                                          report_digits(3, series_value(s, n, s->length - 1, 1) - series_value(s, n, s->length - 1, -1)));
    if (gaps > 0 && (whole || series_end(s, 160) == 0))
        report_add(text, sizeof text, "%ld of %ld values are missing%s; the longest gap is %ld from %s on.", gaps, (long)s->known,
                   s->checked ? " or hidden" : "", longest, series_at(s, from, at, sizeof at));
    if (view->each > 1) report_add(text, sizeof text, "Each stroke spans the least and the largest of %ld values.", (long)view->each);
    if (view->cut) report_add(text, sizeof text, "The band goes beyond the frame where the data say little.");
    if (!*text)
        report_add(text, sizeof text,
                   "The line is what the model takes for the value of %s at each time, the band where it expects observations.",
                   s->table.name[n]);
    report_caption(r, "%s", text);
}

/* The end of each series, with the forecast; the whole of the first one where that is more. */
static inline void series_report_pictures(const report_page *r, const series *s)
{
    const pu_int shown = s->count < SERIES_PANELS ? s->count : SERIES_PANELS;
    double *curve;
    char label[2 * CSV_NAME];
    series_view view;
    svg_plot p;
    pu_int n;
    for (n = 0; n < shown; n++) {
        report_figure(r);
        view = series_plot_end(s, n, r->file, 0, n > 0, "the end of a series, with the forecast");
        series_caption(r, s, n, &view, 0);
    }
    if (shown < s->count) report_text(r, "%ld more series are left out here: --json has the forecasts of all.", (long)(s->count - shown));
    if (s->checked)
        report_text(
            r,
            "Of %ld values that were hidden from the fit %.1f %% are within their 95 %% interval. Their root mean "
            "square error is %.3g, that of a straight "
            "line between the neighbours %.3g%s.",
            s->checked, 100 * s->coverage, s->error, s->error_linear, s->transform ? " (both transformed)" : "");
    if (series_end(s, 160) == 0) return;
    memset(&p, 0, sizeof p);
    p.file = r->file, p.title = "the whole series", p.y_label = series_label(s, 0, label), p.height = 180;
    curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length);
    series_curve(s, 0, curve);
    report_figure(r);
    view = series_panel(s, &p, curve, 0, 0, s->length, series_line);
    series_caption(r, s, 0, &view, 1);
    free(curve);
}

/* The first twelve steps of the first series; the next value of the others. */
static inline void series_report_forecast(const report_page *r, const series *s)
{
    const pu_int end = s->known + (s->forecast < 12 ? (pu_int)s->forecast : 12), shown = s->count < 40 ? s->count : 40;
    char head[200], name[100];
    pu_int t, n;
    if (!s->forecast) return;
    report_section(r, "Forecast");
    snprintf(head, sizeof head, "%.60s|%.60s|95 %% from|to", s->time ? s->time : s->data ? "row" : "time", s->table.name[0]);
    report_table(r, head);
    for (t = s->known; t < end; t++) {
        snprintf(name, sizeof name, "%.8g", series_when(s, t)), report_row(r, name);
        report_number(r, 4, series_value(s, 0, t, 0)), report_number(r, 4, series_value(s, 0, t, -1)),
            report_number(r, 4, series_value(s, 0, t, 1));
    }
    report_table_end(
        r, end < s->length ? "The first steps; --json has all of them. Intervals are of observations and take the parameters for known."
                           : "Intervals are of observations and take the parameters for known.");
    if (s->count == 1) return;
    report_table(r, "series|next value|95 % from|to");
    for (n = 0; n < shown; n++) {
        report_row(r, s->table.name[n]);
        report_number(r, 4, series_value(s, n, s->known, 0)), report_number(r, 4, series_value(s, n, s->known, -1));
        report_number(r, 4, series_value(s, n, s->known, 1));
    }
    report_table_end(r, shown < s->count ? "The first forty series." : NULL);
}

/* Spectral densities at frequencies (i + 1/2) / (2 SPECTRUM) cycles a step; floor: of the noise, 0 = none. Says where the first peaks. */
static inline void series_report_spectrum(const report_page *r, const series *s, int curves, const double *density, double floor)
{
    static const char *const colour[SPECTRA] = {"c2", "c1", "c3", "c0"};
    double x[SPECTRUM], ends[2], level[2];
    char text[700] = "", label[2 * CSV_NAME];
    svg_plot p;
    int i, k, peak = -1;
    memset(&p, 0, sizeof p);
    p.y0 = HUGE_VAL;
    for (i = 0; i < SPECTRUM; i++) x[i] = (i + 0.5) / (2 * SPECTRUM);
    for (i = 0; i < curves * SPECTRUM; i++) {
        if (!(density[i] > 0 && density[i] < HUGE_VAL)) return; /* there is none */
        p.y0 = fmin(p.y0, density[i]), p.y1 = fmax(p.y1, density[i]);
    }
    for (i = 1; i < SPECTRUM - 1; i++)
        if (density[i] > density[i - 1] && density[i] >= density[i + 1] && (peak < 0 || density[i] > density[peak])) peak = i;
    if (floor > p.y0 * 1e-3) p.y0 = fmin(p.y0, floor);
    report_section(r, "Rhythms");
    report_figure(r);
    p.file = r->file, p.title = "spectral density", p.x_label = "cycles per step", p.y_label = "spectral density", p.x0 = 0, p.x1 = 0.5,
    p.log_y = 1;
    p.y0 /= 1.5, p.y1 *= 1.5, p.top = 50, p.height = 170;
    svg_begin(&p);
    for (k = 0; k < curves; k++) {
        svg_legend(&p, colour[k], '-', curves > 1 ? series_label(s, k, label) : "without the noise");
        svg_line(&p, SPECTRUM, x, density + k * SPECTRUM, colour[k], 0, 0);
    }
    if (floor > p.y0 && floor < p.y1) {
        ends[0] = 0, ends[1] = 0.5, level[0] = level[1] = floor;
        svg_legend(&p, "note", '=', "noise");
        svg_line(&p, 2, ends, level, "note", 1, 0);
    }
    svg_end(&p);
    if (peak >= 0 && density[peak] > fmax(density[0], density[SPECTRUM - 1]))
        report_add(text, sizeof text, "%s swings most strongly with a period of about %.3g steps.",
                   curves > 1 ? s->table.name[0] : "The process", 1 / x[peak]);
    else if (peak >= 0)
        report_add(text, sizeof text, "Beside %s movements of %s a period of about %.3g steps stands out.",
                   density[0] > density[SPECTRUM - 1] ? "slow" : "fast", curves > 1 ? s->table.name[0] : "the process", 1 / x[peak]);
    else if (density[0] > density[SPECTRUM - 1])
        report_add(text, sizeof text,
                   "The density falls from the left to the right: slow movements prevail, and no period stands out.");
    else report_add(text, sizeof text, "The density rises from the left to the right: values alternate, and no period stands out.");
    if (floor > 0 && density[SPECTRUM - 1] < floor && density[0] > floor) {
        for (i = 0; i < SPECTRUM && density[i] > floor; i++) continue;
        report_add(text, sizeof text, "What is faster than %.3g steps is below the noise.", 1 / x[i]);
    }
    report_caption(r, "%s", text);
}

#endif /* EXAMPLES_SERIES_REPORT_H */

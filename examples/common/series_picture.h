/* series_picture.h - pictures of series: observations, what a model says between them, forecast. series.h includes it.

   Windows of more than SERIES_POINTS entries are drawn by parts: the least and the largest of each, so that pictures stay small
   and no spike is lost. Bands that would dwarf the data go beyond the frame. */
#ifndef EXAMPLES_SERIES_PICTURE_H
#define EXAMPLES_SERIES_PICTURE_H

enum { SERIES_POINTS = 600, SERIES_PARTS = 300, SERIES_PANEL = 210, SERIES_PANELS = 8 }; /* of a window; height of a panel; panels of series */

/* What a panel came out as. */
typedef struct {
    pu_int each;       /* entries of a part; 1: all are drawn */
    int cut;           /* a band goes beyond the frame */
    long seen, hidden; /* observations */
} series_view;

/* The name of series n as text of a picture. */
static inline const char *series_label(const series *s, pu_int n, char label[2 * CSV_NAME])
{
    return svg_safe(label, 2 * CSV_NAME, n < CSV_COLUMNS ? s->table.name[n] : "", 24);
}

static inline double series_when(const series *s, pu_int t) { return s->when ? s->when[t] : (double)t + 1; }

/* What the axis of time is called. */
static inline const char *series_clock(const series *s, char label[2 * CSV_NAME])
{
    return svg_safe(label, 2 * CSV_NAME, s->time ? s->time : s->data ? "row" : "time", 24);
}

/* Observation of series n at t, or with `secret` what was hidden there, as the file has it; n = -1: none. */
static inline double series_seen(const series *s, pu_int n, pu_int t, int secret)
{
    const pu_int at = n * s->length + t;
    if (n < 0) return (double)NAN;
    return series_back(s, (double)(secret ? s->hidden[at] : s->y[at]) + series_level(s, n, t));
}

/* Entries of series n as series_panel wants them: length x 3, low, middle, high. */
static inline void series_curve(const series *s, pu_int n, double *curve)
{
    pu_int t;
    int side;
    for (t = 0; t < s->length; t++)
        for (side = -1; side <= 1; side++) curve[3 * t + side + 1] = series_value(s, n, t, side);
}

/* Band and line of entries from .. to - 1. */
static inline void series_stretch(const series *s, const svg_plot *p, const double *curve, pu_int from, pu_int to, pu_int each,
                                  const char *colour)
{
    static double x[SERIES_POINTS + 2], low[SERIES_POINTS + 2], high[SERIES_POINTS + 2], line_x[2 * SERIES_POINTS + 4],
        line[2 * SERIES_POINTS + 4];
    pu_int begin, t;
    int n = 0, points = 0;
    for (begin = from; begin < to; begin += each, n++) {
        const pu_int end = begin + each < to ? begin + each : to;
        pu_int least = begin, most = begin;
        low[n] = curve[3 * begin], high[n] = curve[3 * begin + 2];
        for (t = begin; t < end; t++) {
            low[n] = fmin(low[n], curve[3 * t]), high[n] = fmax(high[n], curve[3 * t + 2]);
            if (curve[3 * t + 1] < curve[3 * least + 1]) least = t;
            if (curve[3 * t + 1] > curve[3 * most + 1]) most = t;
        }
        x[n] = (series_when(s, begin) + series_when(s, end - 1)) / 2;
        t = least < most ? least : most;
        line_x[points] = series_when(s, t), line[points++] = curve[3 * t + 1];
        if (each == 1) continue;
        t = least < most ? most : least;
        line_x[points] = series_when(s, t), line[points++] = curve[3 * t + 1];
    }
    svg_band(p, n, x, low, high, colour);
    svg_line(p, points, line_x, line, colour, 0, 0);
}

/* Observations of entries from .. to - 1, or what was hidden: points, or a stroke for each part. Returns how many. */
static inline long series_points(const series *s, const svg_plot *p, pu_int n, int secret, pu_int from, pu_int to, pu_int each,
                                 const char *colour)
{
    pu_int begin, t;
    long count = 0;
    fprintf(p->file, each > 1 ? "<g class=\"%s\"><path class=\"line\" d=\"" : "<g class=\"%s\">", colour);
    for (begin = from; begin < to; begin += each) {
        double low = (double)NAN, high = (double)NAN, x;
        for (t = begin; t < begin + each && t < to; t++) {
            const double y = series_seen(s, n, t, secret);
            count += y == y, low = fmin(low, y), high = fmax(high, y);
        }
        if (low != low) continue;
        x = svg_x(p, (series_when(s, begin) + series_when(s, t - 1)) / 2);
        if (each > 1) fprintf(p->file, "M%.1f %.1fV%.1f", x, svg_y(p, high) - 0.5, svg_y(p, low) + 0.5);
        else if (svg_inside(p, low))
            fprintf(p->file, "<circle class=\"dot\" r=\"%s\" cx=\"%.1f\" cy=\"%.1f\"/>", to - from > 250 ? "1.6" : "2.6", x,
                    svg_y(p, low));
    }
    fprintf(p->file, each > 1 ? "\"/></g>\n" : "</g>\n");
    return count;
}

/* A plot of entries begin .. end - 1 of a curve (length x 3), the forecast in another colour, with what is known of series n (-1:
   nothing). p has file, title, y_label, height, below and standalone; name: of the line in a legend, NULL: none. */
static inline series_view series_panel(const series *s, svg_plot *p, const double *curve, pu_int n, pu_int begin, pu_int end, const char *name)
{
    const pu_int count = end - begin, past = s->known < end ? s->known : end;
    double least = HUGE_VAL, most = -HUGE_VAL, span;
    char label[2 * CSV_NAME];
    series_view view;
    pu_int t;
    memset(&view, 0, sizeof view);
    view.each = count <= SERIES_POINTS ? 1 : (count + SERIES_PARTS - 1) / SERIES_PARTS;
    p->y0 = HUGE_VAL, p->y1 = -HUGE_VAL;
    for (t = begin; t < end; t++) {
        const double seen = t < past ? series_seen(s, n, t, 0) : (double)NAN, secret = t < past ? series_seen(s, n, t, 1) : (double)NAN;
        view.seen += seen == seen, view.hidden += secret == secret;
        least = fmin(fmin(least, curve[3 * t + 1]), fmin(seen, secret)), most = fmax(fmax(most, curve[3 * t + 1]), fmax(seen, secret));
        p->y0 = fmin(p->y0, curve[3 * t]), p->y1 = fmax(p->y1, curve[3 * t + 2]);
    }
    span = most - least;
    if (span <= 1e-6 * fmax(fabs(most), fabs(least))) span = 0; /* next to constant: the band is what there is to see */
    p->y0 = fmin(p->y0, least), p->y1 = fmax(p->y1, most);
    if (span > 0 && p->y1 > most + span) p->y1 = most + span, view.cut = 1;
    if (span > 0 && p->y0 < least - span) p->y0 = least - span, view.cut = 1;
    p->x0 = series_when(s, begin), p->x1 = count > 1 ? series_when(s, end - 1) : p->x0 + 1;
    p->x_label = series_clock(s, label);
    p->top = name ? 50 : 14;
    svg_begin(p);
    if (name) {
        svg_legend(p, "c2", '-', name);
        if (end > past) svg_legend(p, "c1", '-', "forecast");
        if (view.seen) svg_legend(p, "note", '.', view.each > 1 ? "observed (least, largest)" : "observed");
        if (view.hidden) svg_legend(p, "c3", '.', "hidden");
    }
    if (past > begin) series_stretch(s, p, curve, begin, past, view.each, "c2");
    if (end > past) series_stretch(s, p, curve, past > begin ? past - 1 : past, end, view.each, "c1"); /* so that the two meet */
    if (n >= 0) series_points(s, p, n, 0, begin, past, view.each, "note");
    if (view.hidden) series_points(s, p, n, 1, begin, past, view.each, "c3");
    if (end > past && past > begin) svg_mark(p, series_when(s, past - 1), "now");
    svg_end(p);
    return view;
}

/* Where a window of the end begins: `count` entries, the forecast's among them, of which at least as many are known. */
static inline pu_int series_end(const series *s, pu_int count)
{
    const pu_int ahead = s->length - s->known, want = 2 * ahead > count ? 2 * ahead : count;
    return s->length > want + want / 2 ? s->length - want : 0; /* a little more is shown as well */
}

static const char *const series_line = "mean given the data, 95 % of observations";

/* The end of series n, in a page or a file of its own. brief: without legend, and lower. */
static inline series_view series_plot_end(const series *s, pu_int n, FILE *file, int standalone, int brief, const char *title)
{
    double *curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length);
    char label[2 * CSV_NAME];
    series_view view;
    svg_plot p;
    memset(&p, 0, sizeof p);
    p.file = file, p.standalone = standalone, p.title = title, p.y_label = series_label(s, n, label);
    p.height = brief ? 150 : 0;
    series_curve(s, n, curve);
    view = series_panel(s, &p, curve, n, series_end(s, 160), s->length, brief ? NULL : series_line);
    free(curve);
    return view;
}

/* That of the first one. */
static inline void series_plot(const series *s, FILE *file, int standalone, const char *title)
{
    series_plot_end(s, 0, file, standalone, 0, title);
}

/* A panel of a sheet with the end of a curve; returns where the next one begins. */
static inline double series_panel_below(const series *s, FILE *file, double below, const char *label, const double *curve, pu_int n)
{
    svg_plot p;
    memset(&p, 0, sizeof p);
    p.file = file, p.below = below, p.title = p.y_label = label, p.height = 150;
    series_panel(s, &p, curve, n, series_end(s, 400), s->length, NULL);
    return below + p.bottom + 46;
}

/* --svg: a series by itself, or a panel for each. */
static inline void series_draw(const series *s, const char *title)
{
    double *curve, below = 1;
    char label[2 * CSV_NAME];
    FILE *file;
    pu_int n;
    if (!s->svg) return;
    file = file_open(s->svg);
    if (s->count == 1) series_plot(s, file, 1, title);
    else {
        curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s->length);
        svg_sheet(file, 1 + SERIES_PANEL * (double)s->count, title);
        for (n = 0; n < s->count; n++) {
            series_curve(s, n, curve);
            below = series_panel_below(s, file, below, series_label(s, n, label), curve, n);
        }
        fprintf(file, "</svg>\n");
        free(curve);
    }
    file_close(file, s->svg);
}

#endif /* EXAMPLES_SERIES_PICTURE_H */

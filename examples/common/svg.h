/* svg.h - line plots as SVG: one frame, axes linear or logarithmic.

   Colours are the classes c0 to c3 and note; svg_style has their values for light and dark as variables, and goes into
   the <style> of the page, or of the file when the picture stands alone. A plot is 480 units wide: narrow enough
   for its text to stay readable on a phone.
*/
#ifndef EXAMPLES_SVG_H
#define EXAMPLES_SVG_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const svg_style =
    ":root{--ink:#222;--paper:#fff;--soft:#555;--rule:#ddd;--axis:#888;\n"
    "--c0:#8a5fbf;--c1:#c2570c;--c2:#0b6bb8;--c3:#0a7d55}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#16181c;--soft:#aaa;--rule:#33373d;--axis:#777;\n"
    "--c0:#bb9af0;--c1:#f0964e;--c2:#62b0f5;--c3:#4fc79a}}\n"
    ".plot{font:15px system-ui,sans-serif;fill:var(--ink);background:var(--paper)}\n"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.note{color:var(--soft)}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--axis);fill:none}.line{stroke:currentColor;stroke-width:2;fill:none}\n"
    ".dash{stroke-dasharray:6 4}.dot,.band{fill:currentColor}.band{opacity:.2}\n";

typedef struct { /* zero it, then fill in */
    FILE *file;
    int standalone; /* a file of its own, not a part of a page */
    const char *title, *x_label, *y_label;
    double x0, x1, y0, y1; /* data coordinates of the frame */
    int log_x, log_y;
    int whole_x;                /* ticks at whole numbers: lags, steps */
    double top;                 /* room above the frame, for keys */
    double height;              /* of the frame; 0 = 270 */
    double below;               /* > 0: a panel of a sheet, so far below its upper edge (see svg_sheet) */
    double left, right, bottom; /* set by svg_begin */
    double key_x, key_y;        /* where svg_legend goes on */
} svg_plot;

/* The next character of a user's text as XML has it, at most 8 bytes; returns how many. What is no UTF-8, or forbidden there, comes
   out as a question mark. */
static inline int svg_character(const char **text, char *out)
{
    const unsigned char *at = (const unsigned char *)*text;
    const int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
    const char *entity = *at == '&' ? "&amp;" : *at == '<' ? "&lt;" : *at == '>' ? "&gt;" : *at == '"' ? "&quot;" : NULL;
    int k, good = more >= 0 && (*at >= 32 || *at == '\n' || *at == '\t') && *at != 127;
    for (k = 1; good && k <= more; k++) good = (at[k] & 0xc0) == 0x80;
    if (good && more > 1) /* no longer than need be, no surrogates, no ends of planes */
        good = !(*at == 0xe0 && at[1] < 0xa0) && !(*at == 0xed && at[1] > 0x9f) && !(*at == 0xf0 && at[1] < 0x90) &&
               !(*at == 0xf4 && at[1] > 0x8f) && !(*at == 0xef && at[1] == 0xbf && at[2] > 0xbd);
    *text += good ? more + 1 : 1;
    if (!good) entity = "?";
    if (!entity) memcpy(out, at, (size_t)more + 1);
    else memcpy(out, entity, strlen(entity));
    return entity ? (int)strlen(entity) : more + 1;
}

/* A name as text of a picture, at most `most` characters of it. */
static inline const char *svg_safe(char *to, size_t size, const char *name, int most)
{
    size_t used = 0;
    for (; *name && most > 0 && used + 11 <= size; most--) used += (size_t)svg_character(&name, to + used);
    snprintf(to + used, size - used, "%s", *name ? ".." : "");
    return to;
}

static inline double svg_x(const svg_plot *p, double x)
{
    const double part = p->log_x ? log(x / p->x0) / log(p->x1 / p->x0) : (x - p->x0) / (p->x1 - p->x0);
    return p->left + (p->right - p->left) * part;
}

static inline double svg_y(const svg_plot *p, double y)
{
    const double part = p->log_y ? log(y / p->y0) / log(p->y1 / p->y0) : (y - p->y0) / (p->y1 - p->y0);
    return p->bottom - (p->bottom - p->top) * part;
}

/* y0 and y1 of a linear axis as they can be drawn: something between them, more than rounding, and finite. */
static inline void svg_range(svg_plot *p)
{
    const double large = fmax(fabs(p->y0), fabs(p->y1));
    if (!(p->y1 - p->y0 < HUGE_VAL) || p->y0 > p->y1) p->y0 = 0, p->y1 = 1;
    else if (!(p->y1 - p->y0 > 1e-9 * large)) p->y0 -= 1 + large / 1000, p->y1 += 1 + large / 1000;
}

/* A step of 1, 2 or 5 times a power of ten that cuts a range into at most `parts` parts. */
static inline double svg_step(double range, int parts)
{
    const double raw = range / parts, ten = pow(10, floor(log10(raw)));
    return raw <= ten ? ten : raw <= 2 * ten ? 2 * ten : raw <= 5 * ten ? 5 * ten : 10 * ten;
}

static inline void svg_text(const svg_plot *p, double x, double y, const char *anchor, const char *text)
{
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

/* A tick of the y axis: rule and label. */
static inline void svg_tick_y(const svg_plot *p, double y, const char *label)
{
    fprintf(p->file, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, svg_y(p, y), p->right);
    svg_text(p, p->left - 6, svg_y(p, y) + 5, "end", label);
}

/* A tick of the x axis: mark and label. */
static inline void svg_tick_x(const svg_plot *p, double x, const char *label)
{
    fprintf(p->file, "<path class=\"axis\" d=\"M%.1f %.1fv5\"/>\n", svg_x(p, x), p->bottom);
    if (svg_x(p, x) + 4.2 * (double)strlen(label) > 480 && !strchr(label, '<')) svg_text(p, 478, p->bottom + 20, "end", label);
    else svg_text(p, svg_x(p, x), p->bottom + 20, "middle", label);
}

/* Ticks of a logarithmic axis from low to high: 1, 2, 5 times powers of ten below two decades, else powers of ten, of
   more than eight decades not all. */
static inline void svg_ticks_log(const svg_plot *p, double low, double high, void (*tick)(const svg_plot *, double, const char *))
{
    static const int digit[3] = {1, 2, 5};
    const double decades = log10(high / low), step = ceil(decades / 8);
    const int digits = decades <= 2 ? 3 : 1;
    double power;
    int i;
    for (power = digits > 1 ? floor(log10(low)) : ceil(log10(low) - 1e-9); power <= log10(high) + 1e-9; power += step)
        for (i = 0; i < digits; i++) {
            const double at = digit[i] * pow(10, power);
            char label[64];
            if (at < low * (1 - 1e-9) || at > high * (1 + 1e-9)) continue;
            if (digits > 1 && fabs(power) <= 4) snprintf(label, sizeof label, "%g", at);
            else
                snprintf(label, sizeof label, "%s10<tspan dy=\"-5\" font-size=\"11\">%.0f</tspan>",
                         digits == 1 ? "" : i == 0 ? "1&#183;" : i == 1 ? "2&#183;" : "5&#183;", power + 0.0); /* no -0 */
            tick(p, at, label);
        }
}

/* A tick's number, with as many decimals as its step has, so that neighbours differ; very small ones as a power of ten. */
static inline void svg_number(char *label, size_t size, double tick, double step)
{
    const int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    const double at = tick * step + 0.0; /* no -0 */
    if (decimals > 4 || fabs(at) >= 1e7) snprintf(label, size, "%.*g", decimals > 4 ? 3 : 4, at);
    else snprintf(label, size, "%.*f", decimals, at);
}

/* Opens a sheet of panels, one below the other, each a plot of its own with a `below`; ends with </svg>. */
static inline void svg_sheet(FILE *file, double height, const char *title)
{
    fprintf(file, "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 %.0f\"", height);
    fprintf(file, " role=\"img\" aria-label=\"%s\">\n<style>\n%s</style>\n", title, svg_style);
}

/* Opens a panel of this height: a part of a sheet, of a page, or a file of its own. */
static inline void svg_open(const svg_plot *p, double height)
{
    fprintf(p->file, "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 %.0f\"", height);
    if (p->below > 0) fprintf(p->file, " y=\"%.0f\" width=\"480\" height=\"%.0f\"", p->below, height);
    fprintf(p->file, " role=\"img\" aria-label=\"%s\">\n", p->title);
    if (p->standalone) fprintf(p->file, "<style>\n%s</style>\n", svg_style);
}

/* Opens the plot, with rules, ticks and the labels of the axes. */
static inline void svg_begin(svg_plot *p)
{
    char label[64];
    double tick, step;
    if (!p->log_y) svg_range(p);
    p->left = 68, p->right = 462, p->bottom = p->top + (p->height > 0 ? p->height : 270);
    svg_open(p, p->bottom + 46);
    if (p->log_y) {
        svg_ticks_log(p, p->y0, p->y1, svg_tick_y);
    } else {
        step = svg_step(p->y1 - p->y0, 6);
        for (tick = ceil(p->y0 / step); tick * step <= p->y1 + 1e-9 * step; tick++) {
            svg_number(label, sizeof label, tick, step);
            svg_tick_y(p, tick * step, label);
        }
    }
    if (p->log_x) {
        svg_ticks_log(p, p->x0, p->x1, svg_tick_x);
    } else {
        step = svg_step(p->x1 - p->x0, 8);
        svg_number(label, sizeof label, floor(p->x1 / step), step);
        if (strlen(label) > 4) step = svg_step(p->x1 - p->x0, 4); /* long numbers need more room */
        if (p->whole_x) step = fmax(step, 1);
        for (tick = ceil(p->x0 / step); tick * step <= p->x1 + 1e-9 * step; tick++) {
            svg_number(label, sizeof label, tick, step);
            svg_tick_x(p, tick * step, label);
        }
    }
    fprintf(p->file, "<path class=\"axis\" d=\"M%.1f %.1fV%.1f", p->left, p->top, p->bottom);
    fprintf(p->file, "H%.1f\"/>\n", p->right);
    svg_text(p, (p->left + p->right) / 2, p->bottom + 40, "middle", p->x_label);
    fprintf(p->file, "<text transform=\"translate(12 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
            (p->top + p->bottom) / 2, p->y_label);
}

static inline void svg_end(const svg_plot *p) { fprintf(p->file, "</svg>\n"); }

static inline int svg_inside(const svg_plot *p, double y) { return y >= p->y0 && y <= p->y1; }

/* The points alone, of those within the frame. */
static inline void svg_dots(const svg_plot *p, int n, const double *x, const double *y, const char *colour)
{
    int i;
    fprintf(p->file, "<g class=\"%s\">", colour);
    for (i = 0; i < n; i++)
        if (svg_inside(p, y[i]))
            fprintf(p->file, "<circle class=\"dot\" r=\"2.6\" cx=\"%.1f\" cy=\"%.1f\"/>", svg_x(p, x[i]), svg_y(p, y[i]));
    fprintf(p->file, "</g>\n");
}

/* A line through n points; points above or below the frame (or not a number) interrupt it. */
static inline void svg_line(const svg_plot *p, int n, const double *x, const double *y, const char *colour,
                            int dashed, int dots)
{
    FILE *f = p->file;
    int i, pen = 0;
    fprintf(f, "<g class=\"%s\"><path class=\"line%s\" d=\"", colour, dashed ? " dash" : "");
    for (i = 0; i < n; i++) {
        if (svg_inside(p, y[i])) fprintf(f, "%c%.1f %.1f", pen ? 'L' : 'M', svg_x(p, x[i]), svg_y(p, y[i]));
        pen = svg_inside(p, y[i]);
    }
    fprintf(f, "\"/>");
    fprintf(f, "</g>\n");
    if (dots) svg_dots(p, n, x, y, colour);
}

/* The area between two curves, cut off at the frame; without the points at which one of them is not known. */
static inline void svg_band(const svg_plot *p, int n, const double *x, const double *low, const double *high,
                            const char *colour)
{
    int i, points = 0;
    fprintf(p->file, "<g class=\"%s\"><path class=\"band\" d=\"", colour);
    for (i = 0; i < 2 * n; i++) {
        const int j = i < n ? i : 2 * n - 1 - i;
        const double y = fmin(fmax(i < n ? low[j] : high[j], p->y0), p->y1);
        if (low[j] != low[j] || high[j] != high[j]) continue;
        fprintf(p->file, "%c%.1f %.1f", points++ ? 'L' : 'M', svg_x(p, x[j]), svg_y(p, y));
    }
    fprintf(p->file, "%s\"/></g>\n", points ? "Z" : "");
}

/* A sample of a line, with its name, at (x, y). */
static inline void svg_key(const svg_plot *p, double x, double y, const char *colour, int dashed,
                           const char *name)
{
    fprintf(p->file, "<g class=\"%s\"><path class=\"line%s\" d=\"M%.1f %.1fh26\"/></g>\n", colour,
            dashed ? " dash" : "", x, y - 5);
    svg_text(p, x + 32, y, "start", name);
}

/* The same for points. */
static inline void svg_key_dot(const svg_plot *p, double x, double y, const char *colour, const char *name)
{
    fprintf(p->file, "<g class=\"%s\"><circle class=\"dot\" r=\"2.6\" cx=\"%.1f\" cy=\"%.1f\"/></g>\n", colour, x, y - 5);
    svg_text(p, x + 10, y, "start", name);
}

/* The next entry of a legend above the frame, for what is really drawn: entries go from left to right and wrap, a line of them
   takes 22 of `top`. kind: '-' a line, '=' a dashed one, '.' points, '#' an area. After svg_begin. */
static inline void svg_legend(svg_plot *p, const char *colour, char kind, const char *name)
{
    const double width = 50 + 8.0 * (double)strlen(name);
    if (p->key_y <= 0) p->key_x = p->left, p->key_y = 16;
    else if (p->key_x + width > p->right + 15) p->key_x = p->left, p->key_y += 22;
    if (kind == '.') svg_key_dot(p, p->key_x + 13, p->key_y, colour, name);
    else if (kind == '#') {
        fprintf(p->file, "<g class=\"%s\"><path class=\"band\" d=\"M%.1f %.1fh26v12h-26Z\"/></g>\n", colour, p->key_x,
                p->key_y - 11);
        svg_text(p, p->key_x + 32, p->key_y, "start", name);
    } else svg_key(p, p->key_x, p->key_y, colour, kind == '=', name);
    p->key_x += width - (kind == '.' ? 9 : 0);
}

/* An upright rule at x with a name at its head, such as "now". */
static inline void svg_mark(const svg_plot *p, double x, const char *name)
{
    const int flip = svg_x(p, x) > (p->left + p->right) / 2; /* the name stays inside the frame */
    fprintf(p->file, "<g class=\"note\"><path class=\"line dash\" d=\"M%.1f %.1fV%.1f\"/></g>\n", svg_x(p, x), p->top, p->bottom);
    svg_text(p, svg_x(p, x) + (flip ? -5 : 5), p->top + 13, flip ? "end" : "start", name);
}

/* An upright bar from low to high at x with a dot at y: an interval. */
static inline void svg_interval(const svg_plot *p, double x, double low, double y, double high, const char *colour)
{
    const double a = fmin(fmax(low, p->y0), p->y1), b = fmin(fmax(high, p->y0), p->y1);
    fprintf(p->file, "<g class=\"%s\"><path class=\"line\" d=\"M%.1f %.1fV%.1f\"/></g>\n", colour, svg_x(p, x), svg_y(p, a),
            svg_y(p, b));
    svg_dots(p, 1, &x, &y, colour);
}

/* A level rule across the frame. */
static inline void svg_level(const svg_plot *p, double y)
{
    if (svg_inside(p, y)) fprintf(p->file, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, svg_y(p, y), p->right);
}

/* A row of svg_forest; ends that are no numbers are not drawn. */
typedef struct {
    char name[64]; /* of the user: escaped here */
    double low, value, high;
} svg_row;

/* Values with their intervals, one below the other, names on the left; a head on top, and the rule of zero. p has file, title, x_label,
   below and standalone. Negative values have another colour where `signs`. Returns the height. */
static inline double svg_forest(svg_plot *p, int count, const svg_row *row, const char *head, int signs)
{
    const double pitch = 18;
    double tick, step, height;
    char text[200];
    int i;
    p->left = 140, p->right = 462, p->top = *head ? 30 : 8, p->bottom = p->top + pitch * count + 8, height = p->bottom + 46;
    for (i = 0, p->x0 = p->x1 = 0; i < count; i++) { /* zero is always there */
        p->x0 = fmin(p->x0, fmin(row[i].value, row[i].low)), p->x1 = fmax(p->x1, fmax(row[i].value, row[i].high));
    }
    if (!(p->x1 > p->x0) || !(p->x1 - p->x0 < HUGE_VAL)) p->x0 = -1, p->x1 = 1;
    step = (p->x1 - p->x0) / 40;
    p->x0 -= p->x0 < 0 ? step : 0, p->x1 += p->x1 > 0 ? step : 0;
    step = svg_step(p->x1 - p->x0, 6);
    svg_open(p, height);
    if (*head) fprintf(p->file, "<text x=\"8\" y=\"18\" font-weight=\"bold\">%s</text>\n", svg_safe(text, sizeof text, head, 50));
    for (tick = ceil(p->x0 / step); tick * step <= p->x1 + 1e-9 * step; tick++) {
        fprintf(p->file, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\"/>\n", fabs(tick) < 0.5 ? "axis" : "grid", svg_x(p, tick * step),
                p->top, p->bottom);
        svg_number(text, sizeof text, tick, step);
        svg_text(p, svg_x(p, tick * step), p->bottom + 18, "middle", text);
    }
    svg_text(p, (p->left + p->right) / 2, p->bottom + 38, "middle", p->x_label);
    for (i = 0; i < count; i++) {
        const double y = p->top + pitch * (i + 0.75);
        fprintf(p->file, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" font-size=\"12.5\">%s</text>\n", p->left - 8, y + 4,
                svg_safe(text, sizeof text, row[i].name, 18));
        fprintf(p->file, "<g class=\"%s\">", signs && row[i].value < 0 ? "c1" : "c2");
        if (row[i].high - row[i].low >= 0)
            fprintf(p->file, "<path class=\"line\" d=\"M%.1f %.1fH%.1f\"/>", svg_x(p, row[i].low), y, svg_x(p, row[i].high));
        if (row[i].value - row[i].value == 0)
            fprintf(p->file, "<circle class=\"dot\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>", svg_x(p, row[i].value), y);
        fprintf(p->file, "</g>\n");
    }
    fprintf(p->file, "</svg>\n");
    return height;
}

/* Slope of a straight line through n points of a log-log plot: y goes as x to this power. */
static inline double svg_slope(int n, const double *x, const double *y)
{
    double mx = 0, my = 0, xy = 0, xx = 0;
    int i;
    for (i = 0; i < n; i++) mx += log(x[i]) / n, my += log(y[i]) / n;
    for (i = 0; i < n; i++) xy += (log(x[i]) - mx) * (log(y[i]) - my), xx += (log(x[i]) - mx) * (log(x[i]) - mx);
    return xy / xx;
}

/* Where curve b of n points, with x increasing, falls below curve a for good, between two points of a log-log plot; 0: it does not. */
static inline double svg_crossing(int n, const double *x, const double *a, const double *b)
{
    int i;
    for (i = n - 1; i > 0; i--) {
        const double before = log(a[i - 1] / b[i - 1]), after = log(a[i] / b[i]);
        if (!(after >= 0)) return 0;
        if (before < 0) return x[i - 1] * pow(x[i] / x[i - 1], before / (before - after));
    }
    return 0;
}

static inline int svg_by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of n numbers, which it sorts; NAN without any. */
static inline double svg_median(int n, double *x)
{
    if (n == 0) return (double)NAN;
    qsort(x, (size_t)n, sizeof *x, svg_by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

#endif /* EXAMPLES_SVG_H */

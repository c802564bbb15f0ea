/* curve.h - a curve to be learnt from noisy points, for the regression examples: data, errors on a grid, a picture.

   Targets t = 0, 1, .. are f_t(x) = sin(2 x + t) + x^2 / 4 - t / 2 on [-3, 3], with noise; nothing is seen of (0.3, 1.5). One
   pu_data holds the points and, after them, a grid of GRID points that are always missing: predictions there come with the fit.
   Include after program.h and fit.h. */
#ifndef EXAMPLES_CURVE_H
#define EXAMPLES_CURVE_H

#include "svg.h"

enum { GRID = 241 };
#define CURVE_NOISE 0.2

typedef struct {
    pu_int points, all, targets; /* all = points + GRID */
    pu_real *x, *y;              /* all; targets x all, NaN on the grid */
    pu_real *mean, *variance;    /* targets x all: fill with pu_predict (variance: of the curve, without noise) */
} curve;

static inline double curve_truth(pu_int target, double x)
{
    return sin(2 * x + (double)target) + x * x / 4 - (double)target / 2;
}

static inline void curve_make(curve *c, pu_int points, pu_int targets, uint64_t seed)
{
    pu_int i, t;
    c->points = points, c->targets = targets, c->all = points + GRID;
    c->x = need_reals(c->all), c->y = need_reals(targets * c->all);
    c->mean = need_reals(targets * c->all), c->variance = need_reals(targets * c->all);
    for (i = 0; i < points; i++) { /* even, with a gap */
        const double u = 4.8 * ((double)i + 0.5) / (double)points;
        c->x[i] = (pu_real)(u < 3.3 ? u - 3 : u - 1.8);
    }
    for (i = 0; i < GRID; i++) c->x[points + i] = (pu_real)(-3 + 6.0 * (double)i / (GRID - 1));
    for (t = 0; t < targets; t++) {
        pu_real *y = c->y + t * c->all;
        pu_normals(seed, (uint32_t)t, 0, 0, 3, 0, c->all, y);
        for (i = 0; i < c->all; i++)
            y[i] = i < points ? (pu_real)(curve_truth(t, (double)c->x[i]) + CURVE_NOISE * (double)y[i]) : PU_R(NAN);
    }
}

/* Root mean square error of the mean on the grid, and the share of the grid where +- 1.96 standard deviations hold the truth. */
static inline void curve_error(const curve *c, double *error, double *inside)
{
    pu_int i, t;
    *error = *inside = 0;
    for (t = 0; t < c->targets; t++)
        for (i = c->points; i < c->all; i++) {
            const double off = (double)c->mean[t * c->all + i] - curve_truth(t, (double)c->x[i]);
            *error += off * off / (double)(GRID * c->targets);
            *inside += (off * off <= 1.96 * 1.96 * (double)c->variance[t * c->all + i]) / (double)(GRID * c->targets);
        }
    *error = sqrt(*error);
}

/* How many times as wide the band of the first target is in the gap as elsewhere, on average. */
static inline double curve_gap(const curve *c)
{
    double deviation[2] = {0, 0}, count[2] = {0, 0};
    pu_int i;
    for (i = c->points; i < c->all; i++) {
        const int in_gap = c->x[i] > PU_R(0.3) && c->x[i] < PU_R(1.5);
        deviation[in_gap] += sqrt((double)c->variance[i]);
        count[in_gap]++;
    }
    return deviation[1] / count[1] / (deviation[0] / count[0]);
}

/* The first target: truth, points, mean and 95 % band. standalone: a file of its own, else a part of a page. */
static inline void curve_picture(const curve *c, FILE *file, int standalone, const char *title)
{
    double x[GRID], mean[GRID], low[GRID], high[GRID], truth[GRID];
    svg_plot p;
    pu_int i;
    memset(&p, 0, sizeof p);
    p.file = file, p.standalone = standalone, p.title = title, p.x_label = "x", p.y_label = "y";
    p.x0 = -3, p.x1 = 3, p.y0 = -2.5, p.y1 = 4, p.top = 30;
    for (i = 0; i < GRID; i++) {
        const double m = (double)c->mean[c->points + i], s = sqrt((double)c->variance[c->points + i]);
        x[i] = (double)c->x[c->points + i], mean[i] = m, low[i] = m - 1.96 * s, high[i] = m + 1.96 * s;
        truth[i] = curve_truth(0, x[i]);
    }
    svg_begin(&p);
    svg_band(&p, GRID, x, low, high, "c2");
    svg_line(&p, GRID, x, truth, "c1", 1, 0);
    svg_line(&p, GRID, x, mean, "c2", 0, 0);
    for (i = 0; i < c->points; i++) {
        const double px = (double)c->x[i], py = (double)c->y[i];
        svg_dots(&p, 1, &px, &py, "note");
    }
    svg_key(&p, 70, 16, "c2", 0, "mean and 95 % band");
    svg_key(&p, 300, 16, "c1", 1, "truth");
    svg_end(&p);
}

/* The same in a file of its own; path NULL: none is wanted. */
static inline void curve_draw(const curve *c, const char *path, const char *title)
{
    FILE *file = path ? file_open(path) : NULL;
    if (!path) return;
    curve_picture(c, file, 1, title);
    file_close(file, path);
}

static inline void curve_free(curve *c) { free(c->x), free(c->y), free(c->mean), free(c->variance); }

#endif /* EXAMPLES_CURVE_H */

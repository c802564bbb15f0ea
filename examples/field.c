/* field.c - a picture or a grid with holes, filled in, with a map of standard deviations; how smooth it is, and how noisy.

   y = z + b + noise on a grid, z a Matern field with precision tau (kappa^2 + L)^alpha, L the differences between neighbours. Without
   --data a field is simulated and a part of it hidden, so that what comes back can be compared with what it was.

       field                                             a simulated field of 256 x 256, 40 % hidden at random
       field --size 1024 --blocks                        a larger one, hidden in squares
       field --data photo.pgm --mask scratches.pgm --picture filled.html
       field --data grid.csv --filled filled.csv --deviations sd.csv --json results.json

   Small grids are fitted exactly. Large ones by probes that are the same in every step, PCG with the precision that A would be
   without holes as preconditioner, and L-BFGS; standard errors then include what the probes leave open. */
#define _POSIX_C_SOURCE 200809L
#define PU_IMPLEMENTATION
#include "../pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/estimates.h"
#include "common/picture.h"
#include "common/grid.h"

typedef struct {
    fit_flags fit;
    const char *data, *mask, *picture, *filled, *deviations, *svg, *report;
    long size, alpha, map;
    double missing, range, variance, noise, level, tolerance;
    int blocks, intrinsic, edges;
} flags;

typedef struct {
    pu_int rows, cols, n, observed;
    pu_real *y;        /* NAN where it is missing */
    pu_real *z;        /* simulated: the field with its mean; else NULL */
    pu_real theta[4];  /* and its parameters */
    int picture;       /* from a PGM: values are 0 .. white */
    double white;
} scene;

/* ---- data ---- */

/* Hides a share of the points, one by one or in squares of up to a twelfth of the side. Stream 3 is the caller's. */
static void hide(scene *s, double share, int blocks, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    pu_int i, j, gone = 0, want = (pu_int)(share * (double)s->n);
    uint32_t turn[4] = {0, 0, 0, 77}, r[4];
    for (i = 0; !blocks && i < s->n; i++) {
        turn[0] = (uint32_t)i, turn[1] = 1;
        pu_philox(key, turn, r);
        if (r[0] < share * 4294967296.0) s->y[i] = (pu_real)NAN;
    }
    for (turn[1] = 2; blocks && gone < want; turn[0]++) {
        pu_int side, top, left, least = s->rows < s->cols ? s->rows : s->cols;
        pu_philox(key, turn, r);
        side = 1 + (pu_int)(r[0] % (uint32_t)(least / 12 + 1));
        top = (pu_int)(r[1] % (uint32_t)(s->rows - side + 1)), left = (pu_int)(r[2] % (uint32_t)(s->cols - side + 1));
        for (i = top; i < top + side; i++)
            for (j = left; j < left + side && gone < want; j++) {
                pu_real *y = s->y + i * s->cols + j;
                gone += *y == *y;
                *y = (pu_real)NAN;
            }
    }
}

static void simulate(const flags *f, scene *s, pu_model *model)
{
    pu_report report;
    pu_lattice field;
    pu_int i;
    double unit = 1;
    const double smooth = (double)f->alpha - 1, kappa = sqrt(8 * (smooth > 0.5 ? smooth : 0.5)) / f->range;
    const pu_int size[2] = {s->rows, s->cols};
    const pu_edge edge[2] = {f->edges ? PU_EDGE_PERIODIC : PU_EDGE_NEUMANN, f->edges ? PU_EDGE_PERIODIC : PU_EDGE_NEUMANN};
    if (pu_lattice_set(&field, 2, size, edge, (int)f->alpha, 1, (pu_real)kappa, NULL) || pu_lattice_moments(&field, &unit, NULL, NULL))
        fail(2, "--range", "there is no such field");
    s->theta[0] = (pu_real)log(unit / f->variance), s->theta[1] = (pu_real)log(kappa);
    s->theta[2] = (pu_real)f->level, s->theta[3] = (pu_real)log(f->noise);
    s->y = need_reals(s->n), s->z = need_reals(s->n);
    need(pu_model_simulate(model, s->theta, 1, (uint64_t)f->fit.seed, NULL, s->z, s->y, &report), &report);
    for (i = 0; i < s->n; i++) s->z[i] += s->theta[2];
    hide(s, f->missing, f->blocks, (uint64_t)f->fit.seed);
}

static void load(const flags *f, scene *s)
{
    char why[GRID_WHY];
    grid g, mask;
    pu_int i;
    if (!grid_read(f->data, &g, why)) fail(1, f->data, why);
    s->rows = g.rows, s->cols = g.cols, s->n = g.rows * g.cols, s->y = g.value;
    s->picture = g.picture, s->white = (double)g.white;
    if (!f->mask) return;
    if (!grid_read(f->mask, &mask, why)) fail(1, f->mask, why);
    if (mask.rows != g.rows || mask.cols != g.cols) fail(1, f->mask, "must have the rows and columns of --data");
    for (i = 0; i < s->n; i++)
        if (!(mask.value[i] > 0)) s->y[i] = (pu_real)NAN;
    grid_free(&mask);
}

/* ---- the fit ---- */

/* Exact where a banded factor is cheap; else probes. */
static void choose(const flags *f, const scene *s, pu_fit_options *o)
{
    const double band = (double)f->alpha * (double)s->cols * (f->edges ? (double)s->rows : 1);
    o->optimizer = PU_LBFGS, o->rate = 0;
    if (f->fit.engine > 1 || (f->fit.engine == 0 && band * band * (double)s->n < 2e8)) {
        if (f->fit.engine == 0) o->gradient.engine = PU_BANDED;
        o->gradient.kind = PU_EXACT, o->gradient.samples = 0, o->gradient.solve.iterations = 0;
        return;
    }
    o->fixed_probes = 1;
    o->tolerance = 1e-3 * sqrt((double)s->observed); /* a gradient so small is a few hundredths of a standard error off */
    o->gradient.engine = PU_ITERATIVE, o->gradient.kind = PU_MONTE_CARLO;
    o->gradient.solve.solver = PU_PCG, o->gradient.solve.tolerance = f->tolerance, o->gradient.solve.iterations = 0;
}

static void stage(const flags *f, const char *what, double took)
{
    if (!f->fit.quiet && f->fit.every > 0 && took > 5) fprintf(stderr, "  %s, about %.0f s\n", what, took);
}

/* Covariance of theta: (N H)^-1 = C and, with probes, what they leave in theta, C S C, S the squared errors of the gradient. 0: there
   is none, and it says why. */
static int errors(const flags *f, pu_model *model, const pu_data *data, const pu_fit_options *o, pu_workspace *ws, const pu_real *theta,
                  const pu_fit_report *fit, pu_real *C)
{
    const pu_int n = model->params;
    pu_options with = o->gradient;
    pu_report report;
    pu_real grad[4], se[4], total[16];
    pu_int i, j, l;
    double each = fit->gradients > 0 ? fit->seconds / (double)fit->gradients : 0;
    pu_status status;
    stage(f, "standard errors", 2.5 * (double)n * each);
    /* second derivatives are differences of gradients, in which what solves leave open would be as large */
    if (with.kind != PU_EXACT && with.solve.tolerance > 1e-7) with.solve.tolerance = 1e-7;
    status = pu_fit_covariance(model, data, &with, ws, theta, C, &report);
    if (status != PU_OK && status != PU_INEXACT && status != PU_UNIDENTIFIED) {
        char text[300];
        fprintf(stderr, "%s: no standard errors: %s\n", program_name, pu_explain(&report, text, sizeof text));
        return 0;
    }
    if (o->gradient.kind == PU_EXACT) return 1;
    need_result(pu_model_gradient(model, theta, data, &with, ws, grad, se, &report), &report);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            double sum = (double)C[i * n + j];
            for (l = 0; l < n; l++) /* an entry that is not identified has NaN, and no part in the others */
                if (C[l * (n + 1)] == C[l * (n + 1)]) sum += (double)C[i * n + l] * (double)se[l] * (double)se[l] * (double)C[l * n + j];
            total[i * n + j] = (pu_real)sum;
        }
    memcpy(C, total, (size_t)(n * n) * sizeof *C);
    return 1;
}

/* (sum_ij J_i C_ij J_j)^1/2 */
static double spread(pu_int n, const pu_real *C, double a, double b)
{
    return sqrt(a * a * (double)C[0] + 2 * a * b * (double)C[1] + b * b * (double)C[n + 1]);
}

/* A parameter with its error; the interval of one that is positive is that of its logarithm. */
static void tell_one(estimate *e, const char *name, double value, double se, double truth, int positive)
{
    snprintf(e->name, sizeof e->name, "%s", name);
    e->value = value, e->se = se, e->truth = truth;
    e->low = positive ? value * exp(-1.96 * se / value) : value - 1.96 * se;
    e->high = positive ? value * exp(1.96 * se / value) : value + 1.96 * se;
}

/* Parameters by the names that people use, with standard errors (NAN without C). Returns how many. */
static int tell(pu_model *model, const pu_real *theta, const pu_real *C, const scene *s, estimate *t)
{
    const double none = (double)NAN;
    const pu_int n = model->params, last = n - 1;
    double variance = 0, range = 0, slope = 0, truth[2] = {none, none};
    pu_report report;
    int count = 0;
    if (s->z && n == 4) {
        need(pu_model_set(model, s->theta, &report), &report);
        pu_lattice_moments(pu_model_get_field(model), truth, truth + 1, NULL);
    }
    need(pu_model_set(model, theta, &report), &report);
    if (n == 4 && !pu_lattice_moments(pu_model_get_field(model), &variance, &range, &slope)) {
        tell_one(t + count++, "range", range, C ? range * spread(n, C, 0, -1) : none, truth[1], 1);
        tell_one(t + count++, "variance", variance, C ? variance * spread(n, C, -1, slope) : none, truth[0], 1);
        tell_one(t + count++, "mean", (double)theta[2], C ? sqrt((double)C[2 * n + 2]) : none, s->z ? (double)s->theta[2] : none, 0);
    }
    for (int k = 0; k < (n == 4 ? 3 : 2); k++) { /* logarithms */
        static const char *const names[] = {"noise variance", "tau", "kappa"};
        const pu_int i = k == 0 ? last : k - 1;
        const double x = exp((double)theta[i]);
        tell_one(t + count++, names[k], x, C ? x * sqrt((double)C[i * (n + 1)]) : none,
                 s->z ? exp((double)s->theta[k == 0 ? 3 : k - 1]) : none, 1);
    }
    return count;
}

/* Mean and variance of every point, eight probes at a time: all at once would take their solutions' memory. */
static void make_map(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options, pu_workspace *ws, pu_real *mean,
                     pu_real *variance)
{
    const pu_int n = data->m, all = options->kind == PU_EXACT ? 1 : options->samples, each = options->kind == PU_EXACT ? 1 : 8;
    pu_options o = *options;
    pu_posterior_result out;
    pu_report report;
    pu_real *part = need_reals(n);
    memset(variance, 0, (size_t)n * sizeof *variance);
    for (pu_int done = 0; done < all; done += each, o.step++) {
        const pu_int some = all - done < each ? all - done : each;
        memset(&out, 0, sizeof out);
        out.mean = done == 0 ? mean : NULL, out.variance = part;
        if (o.kind != PU_EXACT) o.samples = some;
        need_result(pu_model_posterior(model, theta, data, &o, ws, &out, &report), &report);
        for (pu_int i = 0; i < n; i++) variance[i] += (pu_real)some / (pu_real)all * part[i];
    }
    free(part);
}

/* ---- pictures ---- */

/* What is there, what was filled in, how sure. Larger grids are thinned out to 700 points a side. */
static void draw(const flags *f, const scene *s, const pu_real *mean, const pu_real *deviation)
{
    static const char *const names = "what is there (gaps grey), filled in, standard deviations (dark: large)";
    const pu_int thin = 1 + ((s->rows > s->cols ? s->rows : s->cols) - 1) / 700;
    const pu_int rows = (s->rows + thin - 1) / thin, cols = (s->cols + thin - 1) / thin;
    const pu_real *from[3] = {s->y, mean, deviation};
    pu_real *tile = need_reals(rows * cols);
    picture p = picture_new((long)(3 * cols + 16), (long)rows);
    double low = HUGE_VAL, high = -HUGE_VAL, most = 0;
    for (pu_int i = 0; i < s->n; i++) {
        low = fmin(low, (double)mean[i]), high = fmax(high, (double)mean[i]);
        most = fmax(most, (double)deviation[i]);
    }
    for (int t = 0; t < 3; t++) {
        for (pu_int i = 0; i < rows * cols; i++) tile[i] = from[t][i / cols * thin * s->cols + i % cols * thin];
        if (t < 2) picture_tile(&p, (long)(t * (cols + 8)), 0, rows, cols, tile, high > low ? high : low + 1, low); /* large is white */
        else picture_tile(&p, (long)(t * (cols + 8)), 0, rows, cols, tile, 0, most > 0 ? most : 1);
    }
    if (picture_ends(f->picture, ".html")) {
        FILE *file = file_open(f->picture);
        fprintf(file, "<!doctype html><meta charset=\"utf-8\"><title>field</title>\n"
                      "<meta name=\"viewport\" content=\"width=device-width\"><style>:root{color-scheme:light dark}"
                      "body{font:16px system-ui,sans-serif}img{max-width:100%%;height:auto}</style>\n"
                      "<p>From left to right: %s. Values %.4g (black) to %.4g (white); deviations 0 (white) to %.4g (black).</p>\n",
                names, low, high, most);
        picture_embed(&p, file, names);
        file_close(file, f->picture);
    } else
        picture_write(&p, f->picture);
    picture_free(&p);
    free(tile);
}

static void write_map(const char *path, const scene *s, const pu_real *value, int levels)
{
    double low = 0, high = 0;
    if (!path) return;
    for (pu_int i = 0; i < s->n; i++) {
        if (i == 0 || (double)value[i] < low) low = (double)value[i];
        if (i == 0 || (double)value[i] > high) high = (double)value[i];
    }
    if (levels && s->picture) low = 0, high = s->white; /* as it came */
    grid_write(path, s->rows, s->cols, value, levels ? low : 0, high);
}

/* ---- the page of --report, and --svg ---- */

enum { TILES = 4, TILE_SIDE = 380, LAGS = 40 };

/* A picture of the field, with the scale that it is drawn by. */
typedef struct {
    picture p;
    const char *name;
    double low, high;
} tile;

/* Values thinned out to TILE_SIDE points a side: the mean of those that are numbers, so that none is lost. */
static tile make_tile(const scene *s, const pu_real *value, const char *name, const picture_scale *scale, double low, double high)
{
    const pu_int thin = 1 + ((s->rows > s->cols ? s->rows : s->cols) - 1) / TILE_SIDE;
    const pu_int rows = (s->rows + thin - 1) / thin, cols = (s->cols + thin - 1) / thin;
    pu_real *small = need_reals(rows * cols);
    tile t;
    for (pu_int i = 0; i < rows * cols; i++) {
        double sum = 0, count = 0;
        for (pu_int a = i / cols * thin; a < (i / cols + 1) * thin && a < s->rows; a++)
            for (pu_int b = i % cols * thin; b < (i % cols + 1) * thin && b < s->cols; b++)
                if (value[a * s->cols + b] == value[a * s->cols + b]) sum += (double)value[a * s->cols + b], count += 1;
        small[i] = count > 0 ? (pu_real)(sum / count) : (pu_real)NAN;
    }
    t.p = picture_new((long)cols, (long)rows), t.p.scale = scale, t.name = name, t.low = low, t.high = high;
    picture_map(&t.p, small, low, high);
    free(small);
    return t;
}

/* What is there, what it was, filled in, how sure: the first ones by one scale. Returns how many. */
static int make_tiles(const scene *s, const pu_real *mean, const pu_real *deviation, tile *t)
{
    const picture_scale *scale = s->picture ? &picture_light : &picture_depth;
    double low = HUGE_VAL, high = -HUGE_VAL, least = HUGE_VAL, most = 0;
    int n = 0;
    for (pu_int i = 0; i < s->n; i++) {
        low = fmin(low, (double)mean[i]), high = fmax(high, (double)mean[i]);
        least = fmin(least, (double)deviation[i]), most = fmax(most, (double)deviation[i]);
    }
    t[n++] = make_tile(s, s->y, "what is there", scale, low, high);
    t[n++] = make_tile(s, mean, "filled in", scale, low, high);
    if (s->z) t[n++] = make_tile(s, s->z, "the truth", scale, low, high);
    t[n++] = make_tile(s, deviation, "deviations", &picture_doubt, least, most);
    return n;
}

/* The tiles beside each other, with their scales below. */
static void draw_svg(const flags *f, const tile *t, int tiles)
{
    const double side = (480 - 10.0 * (tiles - 1)) / tiles, high = side * (double)t->p.height / (double)t->p.width;
    FILE *file = file_open(f->svg);
    fprintf(
        file,
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 %.0f\" role=\"img\" "
        "aria-label=\"a field: data, filled in, standard deviations\">\n"
        "<style>\n%s</style>\n",
        high + 62, svg_style);
    for (int i = 0; i < tiles; i++) {
        const double x = i * (side + 10);
        fprintf(
            file,
            "<text x=\"%.1f\" y=\"14\" font-size=\"12\">%s</text>\n<image x=\"%.1f\" y=\"20\" width=\"%.1f\" "
            "height=\"%.1f\" style=\"image-rendering:pixelated\" href=\"",
            x, t[i].name, x, side, high);
        picture_address(&t[i].p, file);
        fprintf(file, "\"/>\n");
        for (int k = 0; k < 32; k++) {
            unsigned char colours[768];
            picture_palette(t[i].p.scale, colours);
            fprintf(file, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"8\" fill=\"#%02x%02x%02x\"/>\n", x + k * side / 32,
                    high + 28, side / 32 + 0.2, colours[24 * k], colours[24 * k + 1], colours[24 * k + 2]);
        }
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\">%s</text>\n", x, high + 52, report_digits(3, t[i].low));
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"end\">%s</text>\n", x + side, high + 52,
                report_digits(3, t[i].high));
    }
    fprintf(file, "</svg>\n");
    file_close(file, f->svg);
}

static void report_tiles(const report_page *r, const tile *t, int tiles)
{
    fprintf(
        r->file,
        "<style>.tiles{display:flex;flex-wrap:wrap;gap:1rem}.tiles figure{flex:1 1 15rem;max-width:calc(50%% - "
        ".5rem);min-width:14rem;margin:0}"
        ".tiles img{max-height:36rem;object-fit:contain;object-position:left}.bar{height:.7rem;margin-top:.4rem}"
        ".ends{display:flex;justify-content:space-between;font-size:.8rem;color:var(--soft)}"
        "@media (max-width:33rem){.tiles figure{max-width:none}}</style>\n<div class=\"tiles\">\n");
    for (int i = 0; i < tiles; i++) {
        fprintf(r->file, "<figure><div>%s</div>\n", t[i].name);
        picture_embed(&t[i].p, r->file, t[i].name);
        fprintf(r->file, "<div class=\"bar\" style=\"background:linear-gradient(to right");
        for (int k = 0; k < PICTURE_STOPS; k++)
            fprintf(r->file, ",#%02x%02x%02x", t[i].p.scale->stop[k][0], t[i].p.scale->stop[k][1], t[i].p.scale->stop[k][2]);
        fprintf(r->file, ")\"></div><div class=\"ends\"><span>%s</span><span>%s</span></div></figure>\n", report_digits(3, t[i].low),
                report_digits(3, t[i].high));
    }
    fprintf(r->file, "</div>\n");
}

/* Half of the mean squared difference of points that are seen `lag` apart, along columns (down) or rows; of large grids some of the
   rows or columns. NAN: there are none. */
static double half_square(const scene *s, pu_int lag, int down)
{
    const pu_int lines = down ? s->cols : s->rows, length = down ? s->rows : s->cols, stride = 1 + (pu_int)((double)s->n / 1e6);
    double sum = 0, count = 0;
    for (pu_int i = 0; i < lines; i += stride)
        for (pu_int j = 0; j + lag < length; j++) {
            const pu_real *a = s->y + (down ? j * s->cols + i : i * s->cols + j);
            const double off = (double)a[0] - (double)a[down ? lag * s->cols : lag];
            if (off == off) sum += off * off, count += 1;
        }
    return count > 0 ? sum / count / 2 : (double)NAN;
}

/* The same of the fitted z, exactly for this grid and its edges, along an axis of n points with `other` ones on the second: sums over
   waves a of the axis, whose variance v each is, of the mean of (wave(i) - wave(i + lag))^2. Returns the variance of z. */
static double model_half_squares(const flags *f, double tau, double kappa, pu_int n, pu_int other, const double *lag, int lags, double *out)
{
    const double pi = 3.14159265358979323846, unit = f->edges ? 2 * pi : pi;
    double variance = 0;
    for (int k = 0; k < lags; k++) out[k] = 0;
    for (pu_int a = 0; a < n; a++) {
        const double turn = unit * (double)a / (double)n, first = kappa * kappa + 2 - 2 * cos(turn);
        double v = 0;
        for (pu_int b = 0; b < other; b++) {
            const double x = first + 2 - 2 * cos(unit * (double)b / (double)other);
            if (x > 0) v += 1 / (f->alpha == 2 ? x * x : x);
        }
        v /= tau * (double)other * (double)n, variance += v;
        for (int k = 0; k < lags && a > 0; k++) {
            const double m = (double)n - lag[k], half = sin(turn * lag[k] / 2),
                         ends = f->edges ? 0 : (a % 2 ? -1 : 1) * sin(turn * m) / sin(turn) / m;
            out[k] += v * 2 * half * half * (1 - ends);
        }
    }
    return variance;
}

/* The section with the variogram: data in both directions, and the model where its spectrum can be summed up. */
static void report_variogram(const report_page *r, const flags *f, const scene *s, int count, const estimate *t)
{
    const int fitted = count > 3, longest = (int)fmin(fmin((double)s->rows, (double)s->cols) / 2, fitted ? fmax(8, 1.5 * t[0].value) : 30);
    const double noise = t[fitted ? 3 : 0].value;
    const double tau = t[fitted ? 4 : 1].value, kappa = fitted ? t[5].value : 0;
    double lag[LAGS], across[LAGS], down[LAGS], model[2][LAGS], worst = 0, above = 0, found;
    char text[900] = "";
    svg_plot p;
    int n = 0, k, curve, last = 0;
    if (longest < 3) return;
    for (k = 1; k <= LAGS; k++) {
        const int at = k == 1 ? 1 : (int)((double)k * longest / LAGS + 0.999);
        if (at > last) lag[n] = last = at, across[n] = half_square(s, at, 0), down[n] = half_square(s, at, 1), n++;
    }
    memset(&p, 0, sizeof p);
    for (k = 0; k < n; k++) p.y1 = fmax(p.y1, fmax(across[k], down[k]));
    found = model_half_squares(f, tau, kappa, s->cols, s->rows, lag, n, model[0]);
    (void)model_half_squares(f, tau, kappa, s->rows, s->cols, lag, n, model[1]);
    curve = !fitted || fabs(found / t[1].value - 1) < 1e-3; /* else rounding has had it */
    for (k = 0; k < n && curve; k++) model[0][k] += noise, model[1][k] += noise, p.y1 = fmax(p.y1, fmax(model[0][k], model[1][k]));
    if (!(p.y1 > 0)) return;
    report_section(r, "How alike points are by their distance");
    report_figure(r);
    p.file = r->file, p.title = "variogram", p.x_label = "distance in points", p.y_label = "half the mean squared difference",
    p.x1 = longest, p.y1 *= 1.06;
    p.top = 50, p.height = 200, p.whole_x = 1;
    svg_begin(&p);
    svg_legend(&p, "c2", '.', "along rows"), svg_legend(&p, "c3", '.', "along columns");
    if (curve)
        svg_legend(&p, "c1", '-', s->rows != s->cols ? "fitted (columns: dashed)" : "the fitted field with noise"),
            svg_line(&p, n, lag, model[0], "c1", 0, 0);
    if (curve && s->rows != s->cols) svg_line(&p, n, lag, model[1], "c1", 1, 0);
    svg_dots(&p, n, lag, across, "c2"), svg_dots(&p, n, lag, down, "c3");
    svg_end(&p);
    for (k = 0; k < n && curve && lag[k] <= longest / 3.0; k++) {
        const double seen = (across[k] + down[k]) / 2, fit = (model[0][k] + model[1][k]) / 2;
        if (fabs(seen / fit - 1) > worst) worst = fabs(seen / fit - 1), above = seen - fit;
    }
    if (curve)
        report_add(text, sizeof text, "In the left third of the picture the data are at most %.0f %% off the fitted curve%s.",
                   100 * worst, worst > 0.05 ? above > 0 ? ", above it" : ", below it" : "");
    if (curve && worst > 0.5)
        report_add(text, sizeof text,
                   "Over such distances points differ otherwise than this model has it; between neighbours it may still fill in well.");
    for (k = 0, worst = 0; k < n; k++)
        if (down[k] + across[k] > 0 && fabs(log(down[k] / across[k])) > fabs(worst)) worst = log(down[k] / across[k]);
    if (fabs(worst) > log(1.5))
        report_add(
            text, sizeof text,
            "Along %s points differ up to %.1f times as much as along %s at the same distance: the field is not the "
            "same in all directions, the model is.",
            worst > 0 ? "columns" : "rows", exp(fabs(worst)), worst > 0 ? "rows" : "columns");
    else report_add(text, sizeof text, "Rows and columns differ by %.0f %% at most.", 100 * expm1(fabs(worst)));
    report_caption(r, "%s", text);
}

static int by_size(const void *a, const void *b)
{
    const pu_real x = *(const pu_real *)a, y = *(const pu_real *)b;
    return (x > y) - (x < y);
}

/* The median of the deviations where the field was missing, else of all. */
static double typical(const scene *s, const pu_real *deviation)
{
    pu_real *x = need_reals(s->n);
    pu_int n = 0;
    double middle;
    for (pu_int i = 0; i < s->n; i++)
        if (s->observed == s->n || s->y[i] != s->y[i]) x[n++] = deviation[i];
    qsort(x, (size_t)n, sizeof *x, by_size);
    middle = (double)x[n / 2];
    free(x);
    return middle;
}

static void write_report(const flags *f, const scene *s, const tile *tiles, int shown, const double *numbers,
                         const pu_real *deviation, const outcome *o)
{
    const long gone = (long)(s->n - s->observed);
    const pu_fit_report *fit = o->report;
    const estimate *t = o->e;
    const int count = o->count;
    char text[1200] = "";
    report_page r;
    snprintf(text, sizeof text, "field: %.120s", f->data ? report_base(f->data) : "simulated");
    r = report_open(f->report, text);
    *text = 0;
    if (gone)
        report_add(text, sizeof text,
                   "%ld of %ld points (%s %%) were missing and are filled in, half of them with a standard deviation of %s or less.",
                   gone, (long)s->n, report_digits(2, 100 * (double)gone / (double)s->n), report_digits(2, typical(s, deviation)));
    else
        report_add(
            text, sizeof text,
            "No point is missing; the field without its noise is known with a standard deviation of %s or less at half of the points.",
            report_digits(2, typical(s, deviation)));
    if (count > 3) report_add(text, sizeof text, "Beyond %s points little correlation is left.", report_digits(3, t[0].value));
    report_answer(&r, "%s", text);
    report_doubts(&r, fit, o->has_errors, count, t);
    if (fit_converged(fit) && count > 3 && t[0].value > (double)(s->rows > s->cols ? s->rows : s->cols))
        report_warning(&r, "The range is beyond the grid: the data cannot tell it from larger ones.");
    if (fit->last.served[PU_ITERATIVE])
        report_warning(&r, "The map of deviations is from %ld probes, each value to about %.0f %% (--map-samples).", f->map,
                       100 * sqrt(0.5 / (double)f->map));
    report_tiles(&r, tiles, shown);
    report_text(
        &r,
        "%ld rows, %ld columns%s. Where points are missing they have the %s of \"what is there\"; standard deviations "
        "are of the field, without the noise.",
        (long)s->rows, (long)s->cols, s->rows > TILE_SIDE || s->cols > TILE_SIDE ? ", drawn as means of squares" : "",
        s->picture ? "red" : "grey");
    if (s->z && gone)
        report_text(&r,
                    "Of the hidden points %.1f %% are within 1.96 standard deviations of the truth; the root mean square error is %s.",
                    100 * numbers[3], report_digits(3, numbers[2]));
    report_variogram(&r, f, s, count, t);
    report_section(&r, "Parameters");
    snprintf(
        text, sizeof text,
        "range: distance in points at which little correlation is left; tau, kappa: of the precision tau (kappa^2 + "
        "L)^%ld. Negative log-likelihood: %.8g%s.",
        f->alpha, numbers[0], nll_error(&fit->last).text);
    report_estimates(&r, count, t, s->z != NULL, text);
    report_end(&r);
}

/* ---- main ---- */

static void check_names(const flags *f)
{
    if (f->picture && !picture_ends(f->picture, ".png") && !picture_ends(f->picture, ".pgm") && !picture_ends(f->picture, ".html"))
        fail(2, "--picture", "needs a name that ends in .png, .pgm or .html");
    if (f->filled && !picture_ends(f->filled, ".csv") && !picture_ends(f->filled, ".pgm"))
        fail(2, "--filled", "needs a name that ends in .csv or .pgm");
    if (f->deviations && !picture_ends(f->deviations, ".csv") && !picture_ends(f->deviations, ".pgm"))
        fail(2, "--deviations", "needs a name that ends in .csv or .pgm");
    if (f->mask && !f->data) fail(2, "--mask", "needs --data");
    file_ready(f->picture), file_ready(f->filled), file_ready(f->deviations), file_ready(f->svg), file_ready(f->report);
}

/* Of the hidden points of a simulated field: the root mean square error, and the share within 1.96 deviations. */
static double hidden_error(const scene *s, const pu_real *mean, const pu_real *deviation, double *inside)
{
    double sum = 0, in = 0, count = 0;
    for (pu_int i = 0; i < s->n; i++) {
        const double off = (double)mean[i] - (double)(s->z ? s->z[i] : 0);
        if (s->y[i] == s->y[i]) continue;
        sum += off * off, count += 1;
        in += fabs(off) <= 1.96 * (double)deviation[i];
    }
    *inside = count > 0 ? in / count : (double)NAN;
    return count > 0 ? sqrt(sum / count) : (double)NAN;
}

static void results(const flags *f, const scene *s, const pu_fit_report *fit, int count, const estimate *t, const double *numbers)
{
    json out = json_open(f->fit.json);
    const double nll = numbers[0], nll_se = numbers[1];
    if (!f->fit.quiet) {
        printf("%ld x %ld, %ld observed (%.1f %% missing)\n", (long)s->rows, (long)s->cols, (long)s->observed,
               100 * (1 - (double)s->observed / (double)s->n));
        printf("  %-16s %12s %12s%s\n", "", "estimate", "std. error", s->z ? "        truth" : "");
        for (int i = 0; i < count; i++) {
            printf("  %-16s %12.5g", t[i].name, t[i].value);
            print_number(t[i].se, 12, 2);
            if (s->z && t[i].truth == t[i].truth) printf(" %12.5g", t[i].truth);
            printf("\n");
        }
        printf("  NLL %.8g%s\n", nll, nll_error(&fit->last).text);
        if (s->z)
            printf("  hidden points: root mean square error %.4g, %.1f %% within 1.96 standard deviations\n", numbers[2],
                   100 * numbers[3]);
        printf("  %s; %ld gradients, %.1f s; %.1f s in all, %.1f s of processors, %.0f MB\n", pu_fit_stop_text(fit->stop),
               (long)fit->gradients, fit->seconds, numbers[4], (double)clock() / CLOCKS_PER_SEC, peak_mb());
        printf("  %s\n", fit->last.plan);
    }
    json_fit(&out, &f->fit, fit, nll, nll_se);
    json_number(&out, "rows", (double)s->rows), json_number(&out, "cols", (double)s->cols);
    json_number(&out, "observed", (double)s->observed);
    json_number(&out, "gradients", (double)fit->gradients);
    json_text(&out, "stop", pu_fit_stop_text(fit->stop));
    json_number(&out, "seconds_in_all", numbers[4]);
    json_number(&out, "products", fit->last.products);
    json_number(&out, "processor_seconds", (double)clock() / CLOCKS_PER_SEC);
    for (int pass = 0; pass < (s->z ? 3 : 2); pass++) {
        json_key(&out, pass == 0 ? "estimates" : pass == 1 ? "standard_errors" : "truth");
        for (int i = 0; out.file && i < count; i++) {
            fprintf(out.file, "%s\"%s\": ", i ? ", " : "{", t[i].name);
            json_value(&out, pass == 0 ? t[i].value : pass == 1 ? t[i].se : t[i].truth);
        }
        if (out.file) fprintf(out.file, "}");
    }
    if (s->z) json_number(&out, "hidden_rmse", numbers[2]), json_number(&out, "hidden_coverage", numbers[3]);
    json_close(&out);
}

static void read_flags(int argc, char **argv, flags *f)
{
    static option list[FIT_FLAGS + 26];
    int count = 0;
    memset(f, 0, sizeof *f);
    fit_flags_default(&f->fit);
    f->fit.samples = 16, f->fit.steps = 100, f->fit.gradient = 1 /* mc */, f->fit.solver = 3 /* pcg */, f->fit.rate = 0;
    f->size = 256, f->alpha = 2, f->missing = 0.4, f->range = 30, f->variance = 1, f->noise = 0.1, f->tolerance = 1e-4, f->map = 32;
    list[count++] = opt_heading("the grid, and the model");
    list[count++] = opt_text("data", "PGM picture, or text: a line for each row, gaps empty or NA; without it, a field is simulated", &f->data);
    list[count++] = opt_text("mask", "PGM or text of the same size: 0 = missing", &f->mask);
    list[count++] = opt_number("alpha", "smoothness: 1 rough, 2 smooth", &f->alpha, 1, 2);
    list[count++] = opt_flag("intrinsic", "kappa = 0: a random walk, without range and variance", &f->intrinsic);
    list[count++] = opt_choice("edges", "of the grid", &f->edges, "neumann,periodic");
    list[count++] = opt_number("size", "simulated: side", &f->size, 2, 8192);
    list[count++] = opt_real("missing", "simulated: share that is hidden", &f->missing, 0, 0.99);
    list[count++] = opt_flag("blocks", "simulated: hidden in squares", &f->blocks);
    list[count++] = opt_real("range", "simulated: distance at which little correlation is left", &f->range, 0.1, 1e6);
    list[count++] = opt_real("variance", "simulated: of the field", &f->variance, 1e-12, 1e12);
    list[count++] = opt_real("noise", "simulated: variance of the noise", &f->noise, 1e-12, 1e12);
    list[count++] = opt_real("level", "simulated: mean", &f->level, -1e12, 1e12);
    list[count++] = opt_real("tolerance", "of the solver", &f->tolerance, 1e-12, 0.1);
    list[count++] = opt_number("map-samples", "probes of the map of deviations; each is 1 / sqrt(2 K) off", &f->map, 2, 10000);
    list[count++] = opt_heading("what is written");
    list[count++] = opt_text("report", "a page with answer, pictures, tables and settings: .html", &f->report);
    list[count++] = opt_text("svg", "data, filled in, deviations with their scales: .svg", &f->svg);
    list[count++] = opt_text("picture", "data, filled in, deviations side by side: .html, .png or .pgm", &f->picture);
    list[count++] = opt_text("filled", "the field filled in: .csv or .pgm", &f->filled);
    list[count++] = opt_text("deviations", "its standard deviations: .csv or .pgm (white: the largest)", &f->deviations);
    count += fit_flags_table(&f->fit, list + count);
    program_more =
        "--data is a grey picture (PGM) or text: a line for each row, cells separated by a comma, semicolon, tab or "
        "blanks, without a header;\n"
        "empty cells, NA and NaN are missing. Without it a field is simulated and a part of it hidden.\n\n"
        "  field --data grid.csv --report grid.html --filled filled.csv --deviations sd.csv\n"
        "  field --data photo.pgm --mask scratches.pgm --filled photo_filled.pgm\n"
        "  field --size 1024 --blocks            simulated: hidden in squares\n\n"
        "The table goes to standard output, progress to stderr, files only where an option names one.";
    options_read(argc, argv, "field", "Fills in the holes of a picture or grid by a Matern field, and tells range, variance and noise.",
                 count, list);
    check_names(f);
}

int main(int argc, char **argv)
{
    flags f;
    scene s;
    pu_model model;
    pu_data data;
    pu_fit_options options;
    pu_fit_report fit;
    pu_report report;
    pu_workspace ws;
    pu_options rest;
    pu_real theta[4], C[16], *mean, *deviation;
    estimate t[8];
    double numbers[5] = {0, 0, 0, 0, 0}, low = HUGE_VAL, high = -HUGE_VAL, began = seconds();
    int count, sure, shown = 0;
    tile tiles[TILES];
    outcome o;

    read_flags(argc, argv, &f);
    memset(&s, 0, sizeof s), memset(&model, 0, sizeof model), memset(&ws, 0, sizeof ws);
    device_open();
    s.rows = s.cols = f.size, s.n = s.rows * s.cols;
    if (f.data) load(&f, &s);
    {
        const pu_int size[2] = {s.rows, s.cols};
        const pu_edge edge[2] = {f.edges ? PU_EDGE_PERIODIC : PU_EDGE_NEUMANN, f.edges ? PU_EDGE_PERIODIC : PU_EDGE_NEUMANN};
        if (!f.data) {
            need(pu_model_field(&model, 2, size, edge, (int)f.alpha, 0, &report), &report);
            simulate(&f, &s, &model);
            pu_model_free(&model);
        }
        need(pu_model_field(&model, 2, size, edge, (int)f.alpha, f.intrinsic, &report), &report);
    }
    for (pu_int i = 0; i < s.n; i++) {
        if (s.y[i] != s.y[i]) continue;
        s.observed++;
        low = fmin(low, (double)s.y[i]), high = fmax(high, (double)s.y[i]);
    }
    if (s.observed < 10) fail(1, f.data ? f.data : "--missing", "leaves fewer than 10 observed points: nothing to fit");
    if (!(high > low)) fail(1, f.data ? f.data : "--noise", "has the same number in all points: nothing to fit");
    if (fmax(high, -low) > 1e100) fail(1, f.data ? f.data : "--noise", "has numbers beyond 1e100, whose squares are none: take a larger unit");
    if (high - low < 1e-100) fail(1, f.data ? f.data : "--noise", "has differences below 1e-100, whose squares vanish: take a smaller unit");
    data = pu_data_nan(1, s.n, s.y);

    fit_flags_options(&f.fit, &options);
    choose(&f, &s, &options);
    need(pu_model_start(&model, &data, (uint64_t)f.fit.seed, theta, &report), &report);
    fit_run(&model, &data, &options, &ws, theta, &fit);
    sure = errors(&f, &model, &data, &options, &ws, theta, &fit, C);
    count = tell(&model, theta, sure ? C : NULL, &s, t);

    rest = options.gradient;
    if (rest.kind != PU_EXACT) rest.samples = (pu_int)f.map, rest.step = 1;
    if (fit.gradients > 0)
        stage(&f, "the map of deviations", (double)(f.map + 1) / (double)(f.fit.samples + 1) * fit.seconds / (double)fit.gradients);
    mean = need_reals(s.n), deviation = need_reals(s.n);
    make_map(&model, theta, &data, &rest, &ws, mean, deviation);
    pu_workspace_free(&ws);
    fit_nll(&model, theta, &data, &rest, &ws, numbers, numbers + 1, &fit.last);
    for (pu_int i = 0; i < s.n; i++) {
        if (!f.intrinsic) mean[i] += theta[2];
        deviation[i] = (pu_real)sqrt((double)deviation[i]);
    }
    numbers[2] = hidden_error(&s, mean, deviation, numbers + 3);
    if (f.picture) draw(&f, &s, mean, deviation);
    if (f.svg || f.report) shown = make_tiles(&s, mean, deviation, tiles);
    if (f.svg) draw_svg(&f, tiles, shown);
    o.report = &fit, o.has_errors = sure, o.count = count, o.e = t, o.nll = numbers[0];
    if (f.report) write_report(&f, &s, tiles, shown, numbers, deviation, &o);
    for (int i = 0; i < shown; i++) picture_free(&tiles[i].p);
    write_map(f.filled, &s, mean, 1);
    write_map(f.deviations, &s, deviation, 0);
    numbers[4] = seconds() - began;
    results(&f, &s, &fit, count, t, numbers);

    pu_model_free(&model), pu_workspace_free(&ws);
    free(s.y), free(s.z), free(mean), free(deviation);
    device_close();
    return fit_code();
}

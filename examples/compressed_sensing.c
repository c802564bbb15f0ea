/* compressed_sensing.c - images from a sixth of their Fourier transform, by sparse Bayesian learning.

   cc -O3 -march=native -fopenmp -I. examples/compressed_sensing.c -o compressed_sensing -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/compressed_sensing.c -o compressed_sensing -lcublas -lcufft -lcurand       (for --device cuda)
   ./compressed_sensing --picture digits.png --report digits.html
   ./compressed_sensing --images images.idx --labels labels.idx --digit 3 --count 10 --picture digits.png

   N images of one digit; of the D frequencies of each, a random share is measured, another one for every image, with noise.
   The model: pixel j of every image is N(0, 1/alpha_j), measurements are F z + N(0, 1/beta). The images share alpha, so that
   a pixel that is paper in all of them is found to be zero (alpha_j grows without bound), and share beta. Maximum likelihood
   for these D + 1 numbers; the reconstruction is the posterior mean of each image.

   Conventions. Real and imaginary part of a measured frequency each get noise of the standard deviation --noise. It is relative
   to the transform: with --convention unitary F has a factor D^-1/2, with plain it has none, so that the same number is
   D^1/2 times less noise. Either way the program computes with the unitary F; plain divides data and noise by D^1/2, and
   beta by D when it is told, which changes nothing else.

   When it works. With little noise A is badly conditioned until most pixels are known to be paper, and I steps of the
   solver say little. These help (noise in unitary units, pixels are from 0 to 1), and all but the last are what is done unless
   other flags say otherwise, with --samples 8 --schedule cosine --steps 150:
     --warm --gradient output   probes stay the same, and a solve goes on from the last solution
     --start-noise 1            begin with much noise, also with --convention plain: first the outlines
     --hold 0.01                for the first 3/5 of the steps the noise found stays above 0.01: first the paper, then the noise
     --least-noise 0.01         it always does; for noise that is known, since maximum likelihood finds too little
   --paper is the paper's recipe instead: K = 30 fresh probes, I = 25 steps of PCG, the network gradient, Adam at the constant
   rate 1, here for 60 steps, from log beta = 0, and no floor under the noise.
   docs/results/compressed_sensing.md has the figures. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/idx.h"
#include "common/picture.h"
#include "common/strokes.h"
#include "common/sensing.h"
#include "common/report.h"

typedef struct {
    long digit, count, size, shrink, trace;
    double share, noise, start_noise, hold, least_noise;
    int paper, plain, schedule, plain_variance, constant_precond, warm, fresh;
    const char *images, *labels, *picture, *svg, *report;
    fit_flags fit;
} flags;

/* What the pictures of the way need. */
enum { CURVE_POINTS = 20 };

typedef struct {
    int points;
    double step[CURVE_POINTS + 2], error[CURVE_POINTS + 2], noise[CURVE_POINTS + 2]; /* errors in percent */
} error_curve;

/* ---- images ---- */

/* `count` images of the digit, drawn at random from the file; pixels are means over --shrink by --shrink of the file's. */
static void read_images(const flags *f, scene *s)
{
    char why[IDX_WHY];
    idx images, labels;
    pu_int *found, *order, n = 0, r, c;
    unsigned char *pixels, label;
    long i;
    if (!idx_open(&images, f->images, 3, why)) fail(1, f->images, why);
    if (f->labels && !idx_open(&labels, f->labels, 1, why)) fail(1, f->labels, why);
    if (f->labels && labels.size[0] != images.size[0]) fail(1, f->labels, "has another number of items than the images");
    if (images.size[1] % f->shrink || images.size[2] % f->shrink) fail(2, "--shrink", "does not divide the size of the images");
    found = (pu_int *)need_bytes((size_t)images.size[0] * sizeof *found);
    for (i = 0; i < images.size[0]; i++) {
        if (f->labels && !idx_read(&labels, i, &label, why)) fail(1, f->labels, why);
        if (!f->labels || label == f->digit) found[n++] = i;
    }
    if (n < f->count) fail(1, f->images, "has fewer images of this digit than --count asks for");
    order = (pu_int *)need_bytes((size_t)n * sizeof *order);
    scene_shuffle((uint64_t)f->fit.seed, DRAW_IMAGES, (uint32_t)f->digit, n, f->count, order);
    s->rows = images.size[1] / f->shrink, s->cols = images.size[2] / f->shrink, s->D = s->rows * s->cols;
    s->truth = need_reals(s->N * s->D);
    pixels = (unsigned char *)need_bytes((size_t)images.item);
    for (n = 0; n < s->N; n++) {
        if (!idx_read(&images, (long)found[order[n]], pixels, why)) fail(1, f->images, why);
        for (r = 0; r < images.size[1]; r++)
            for (c = 0; c < images.size[2]; c++)
                s->truth[n * s->D + r / f->shrink * s->cols + c / f->shrink] +=
                    (pu_real)pixels[r * images.size[2] + c] / (pu_real)(255 * f->shrink * f->shrink);
    }
    free(pixels), free(order), free(found);
    if (f->labels) idx_close(&labels);
    idx_close(&images);
}

/* ---- fitting ---- */

static void curve_add(error_curve *c, double step, double error, double noise)
{
    c->step[c->points] = step, c->error[c->points] = error, c->noise[c->points] = noise;
    c->points++;
}

typedef struct { /* for the progress of a fit */
    fit_flags *fit; /* first: fit_progress wants it */
    const flags *f;
    const scene *s;
    pu_model *model;
    const pu_data *data;
    const pu_options *options;
    pu_workspace ws;
    pu_real *mean;
    pu_int before, steps; /* steps of an earlier part of the fit; of all parts */
    error_curve *curve;       /* NULL: nobody wants it */
} watcher;

/* The model's own set with beta held down. The program fits one model, so that this can be kept here. */
static struct {
    pu_status (*set)(pu_model *model, const pu_real *theta, pu_int *index);
    pu_real *theta, most; /* the most that log beta may be */
} held;

static pu_status held_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    const pu_int last = model->params - 1;
    memcpy(held.theta, theta, (size_t)model->params * sizeof *theta);
    if (theta[last] > held.most) held.theta[last] = held.most;
    return held.set(model, held.theta, index);
}

/* `steps` steps that assume noise of at least this much (0 = any). */
static void fit_part(double noise, pu_int steps, pu_model *model, const pu_data *data, pu_fit_options *options,
                     pu_workspace *ws, pu_real *theta, pu_fit_report *report)
{
    options->steps = steps;
    if (noise > 0) held.set = model->set, model->set = held_set, held.most = (pu_real)(-2 * log(noise));
    fit_run(model, data, options, ws, theta, report);
    if (noise <= 0) return;
    model->set = held.set;
    if (theta[model->params - 1] > held.most) theta[model->params - 1] = held.most;
}

/* The noise is not below a thousandth of the measurements' root mean square. With more pixels than measurements maximum
   likelihood would let it vanish sooner or later, and beta grow without bound. Returns the number of priors. */
static pu_int noise_floor(const scene *s, pu_prior *p)
{
    double squares = 0, count = 0;
    pu_int i;
    for (i = 0; i < 2 * s->N * s->D; i++)
        if (s->mask[i]) squares += (double)s->y[i] * (double)s->y[i], count += 1;
    memset(p, 0, sizeof *p);
    p->kind = PU_PRIOR_CEILING, p->first = s->D, p->count = 1, p->bound = 1e6 * count / squares;
    return squares > 0;
}

/* One fit, or two: with beta held down, then from there without. The report counts both. */
static void fit(const flags *f, pu_model *model, const pu_data *data, pu_fit_options *options, pu_workspace *ws, pu_real *theta,
                pu_fit_report *report)
{
    const pu_int steps = options->steps;
    const double hold = fmax(f->hold, f->least_noise);
    pu_fit_report first;
    memset(&first, 0, sizeof first);
    held.theta = need_reals(model->params);
    if (hold > f->least_noise && steps > 1) fit_part(hold, steps * 3 / 5 + 1, model, data, options, ws, theta, &first);
    *report = first;
    if (first.step < steps && !fit_interrupted) {
        ((watcher *)options->user)->before = first.step;
        fit_part(f->least_noise, steps - first.step, model, data, options, ws, theta, report);
        report->step += first.step, report->seconds += first.seconds;
    }
    free(held.theta);
}

/* With --trace the error on the way, and with a picture of it; the fit never learns of it. */
static int watch(const pu_fit_report *now, void *user)
{
    watcher *w = (watcher *)user;
    const pu_int step = w->before + now->step, each = (w->steps + CURVE_POINTS - 1) / CURVE_POINTS;
    const int told = w->f->trace && (now->step % w->f->trace == 0 || now->step == now->steps);
    const int drawn = w->curve && w->curve->points < CURVE_POINTS && (step == 1 || step % each == 0) && step < w->steps;
    const double log_beta = (double)now->theta[w->s->D];
    double error;
    if (told || drawn) {
        scene_posterior(w->model, now->theta, w->data, w->options, &w->ws, w->mean, NULL);
        error = scene_error(w->s, w->mean);
        if (told)
            printf("  step %4ld  objective %12.6g  beta %10.4g  NRMSE %6.2f %%\n", (long)now->step, now->objective,
                   exp(log_beta) / (w->f->plain ? (double)w->s->D : 1), error);
        fflush(stdout);
        if (drawn) curve_add(w->curve, (double)step, error, exp(-0.5 * log_beta));
    }
    return fit_progress(now, w->fit);
}

/* The sheet of at most five images. */
static void draw(const flags *f, const scene *s, const pu_real *mean, const pu_real *variance)
{
    static const char *const names = "truth, zero-filled inverse, reconstruction, posterior standard deviation";
    picture p = scene_sheet(s, s->N < 5 ? s->N : 5, mean, variance);
    if (picture_ends(f->picture, ".html")) {
        FILE *file = file_open(f->picture);
        fprintf(file, "<!doctype html><meta charset=\"utf-8\"><title>compressed sensing</title>\n"
                      "<meta name=\"viewport\" content=\"width=device-width\"><style>:root{color-scheme:light dark}"
                      "body{font:16px system-ui,sans-serif}img{max-width:100%%;height:auto}</style>\n"
                      "<p>From left to right: %s.</p>\n", names);
        picture_embed(&p, file, names);
        file_close(file, f->picture);
    } else {
        picture_write(&p, f->picture);
    }
    picture_free(&p);
}

/* ---- the page ---- */

enum { SHOWN = 3, ROWS = 10 }; /* images of the page, rows of its table */

static void curve_draw(const error_curve *c, double blind, FILE *file, int standalone)
{
    const double ends[2] = {0, c->points ? c->step[c->points - 1] : 1}, without[2] = {blind, blind};
    double low = blind, high = blind;
    svg_plot p;
    int i;
    for (i = 0; i < c->points; i++) low = fmin(low, c->error[i]), high = fmax(high, c->error[i]);
    memset(&p, 0, sizeof p);
    p.file = file, p.standalone = standalone, p.title = "error of the reconstruction during the fit";
    p.x_label = "steps of the optimiser", p.y_label = "error of the images (%)", p.top = 30;
    p.x1 = ends[1], p.y0 = fmax(low / 1.3, 1e-6), p.y1 = fmax(high * 1.3, 2e-6), p.log_y = 1;
    svg_begin(&p);
    svg_legend(&p, "c2", '-', "reconstruction"), svg_legend(&p, "c1", '=', "zero-filled inverse");
    svg_line(&p, 2, ends, without, "c1", 1, 0);
    svg_line(&p, c->points, c->step, c->error, "c2", 0, 1);
    svg_end(&p);
}

/* One of the four pictures of an image, with its name and, where it has one, its error. */
static void page_tile(const report_page *page, const scene *s, const pu_real *values, double high, const char *name, double error)
{
    picture p = picture_new((long)s->cols, (long)s->rows);
    picture_tile(&p, 0, 0, s->rows, s->cols, values, 0, high);
    report_figure(page);
    picture_embed(&p, page->file, name);
    if (error == error) report_caption(page, "%s: %.1f %%", name, error);
    else report_caption(page, "%s", name);
    picture_free(&p);
}

static double image_error(const scene *s, const pu_real *guess, pu_int n)
{
    return 100 * relative_error(s->D, guess + n * s->D, s->truth + n * s->D);
}

static void page_pictures(const report_page *page, const scene *s, const pu_real *mean, const pu_real *variance)
{
    const pu_int shown = s->N < SHOWN ? s->N : (pu_int)SHOWN;
    pu_real *deviation = need_reals(shown * s->D);
    double largest = 1e-30;
    pu_int i;
    for (i = 0; i < shown * s->D; i++) {
        deviation[i] = (pu_real)sqrt((double)variance[i]);
        largest = fmax(largest, (double)deviation[i]);
    }
    for (i = 0; i < shown; i++) {
        fprintf(page->file, "<div class=\"pictures ink%s\">\n", s->cols > 64 ? " smooth" : "");
        page_tile(page, s, s->truth + i * s->D, 1, "truth", (double)NAN);
        page_tile(page, s, s->filled + i * s->D, 1, "zero-filled", image_error(s, s->filled, i));
        page_tile(page, s, mean + i * s->D, 1, "restored", image_error(s, mean, i));
        page_tile(page, s, deviation + i * s->D, largest, "its deviation", (double)NAN);
        fprintf(page->file, "</div>\n");
    }
    report_text(page, "Compare the third picture of a row with the first; percentages are errors relative to it. The last has the standard "
                      "deviation of each pixel, black where it is largest, %.2g, of pixels that reach from 0 to 1.", largest);
    free(deviation);
}

/* Of the pixels that are ink, and of those that are paper: how many there are, and the share within 1.96 standard deviations. */
static void page_inside(const report_page *page, const scene *s, const pu_real *mean, const pu_real *variance)
{
    double count[2] = {0, 0}, inside[2] = {0, 0}, square[2] = {0, 0};
    pu_int i;
    int k;
    for (i = 0; i < s->N * s->D; i++) {
        const double off = fabs((double)mean[i] - (double)s->truth[i]);
        k = s->truth[i] > PU_R(0);
        count[k]++, square[k] += off * off, inside[k] += off <= 1.96 * sqrt((double)variance[i]);
    }
    report_section(page, "Are the standard deviations right?");
    report_table(page, "pixels|how many|typical error|within 1.96 sd");
    for (k = 1; k >= 0; k--) {
        if (count[k] <= 0) continue;
        report_row(page, k ? "ink" : "paper");
        report_cell(page, 0, "%.0f", count[k]), report_cell(page, 0, "%.2g", sqrt(square[k] / count[k]));
        report_cell(page, 0, "%.1f %%", 100 * inside[k] / count[k]);
    }
    report_table_end(page, "Right would be 95 %. They are those of the model with its parameters taken for known; paper that the model has found to be "
                           "zero has a standard deviation of nearly nothing.");
}

static void page_images(const report_page *page, const scene *s, const pu_real *mean)
{
    char text[120];
    pu_int n;
    report_section(page, "Each image");
    report_table(page, "image|zero-filled|reconstruction");
    for (n = 0; n < s->N && n < ROWS; n++) {
        const double before = image_error(s, s->filled, n), after = image_error(s, mean, n);
        snprintf(text, sizeof text, "%ld", (long)n + 1);
        report_row(page, text);
        report_cell(page, before < after, "%.1f %%", before), report_cell(page, after <= before, "%.1f %%", after);
    }
    snprintf(text, sizeof text, "Errors relative to the image. The first %d of %ld.", ROWS, (long)s->N);
    report_table_end(page, s->N > ROWS ? text : "Errors relative to the image.");
}

/* The first point of the curve from which on the error stays below twice the last one's. */
static double settled(const error_curve *c)
{
    int i = c->points - 1;
    while (i > 0 && c->error[i - 1] < 2 * c->error[c->points - 1]) i--;
    return c->step[i];
}

/* error, blind: of all images, in percent; noise: found, and true, for the unitary transform */
static void page_write(const flags *f, const scene *s, const error_curve *c, const pu_real *mean, const pu_real *variance, double error, double blind,
                       double noise, double true_noise, const char *told, int argc, char **argv, int count, const option *list)
{
    report_page page = report_open(f->report, "compressed_sensing: report");
    if (!f->report) return;
    report_answer(&page, "%ld image%s of %ld \xc3\x97 %ld from %.3g %% of %s frequencies: the reconstruction is off by %.1f %%, the zero-filled "
                         "inverse transform by %.1f %%.", (long)s->N, s->N > 1 ? "s" : "", (long)s->rows, (long)s->cols, 100 * f->share,
                  s->N > 1 ? "their" : "its", error, blind);
    if (fit_interrupted) report_text(&page, "Interrupted: this is the state after its last step.");
    if (error > 0.5 * blind)
        report_text(&page, "That is not much better. What helps is in the head of the program: more images or a larger share, "
                           "--warm with --gradient output, and more steps.");
    page_pictures(&page, s, mean, variance);
    report_section(&page, "The way there");
    report_figure(&page);
    curve_draw(c, blind, page.file, 0);
    if (c->points > 1)
        report_caption(&page, "The model is not told which pixels are paper; it finds them. From step %.0f on the error is below twice that of the end.%s",
                       settled(c), f->hold > f->least_noise ? " For the first three fifths of the steps the noise is held up: first the outlines, then the "
                                                              "details." : "");
    else report_caption(&page, "There are too few steps to see a way.");
    report_text(&page, "The noise of the measurements is %.4g; found: %.4g. %s.", true_noise, noise, told);
    page_inside(&page, s, mean, variance);
    page_images(&page, s, mean);
    report_close(&page, argc, argv, count, list);
}

int main(int argc, char **argv)
{
    static const pu_schedule schedules[] = {PU_RATE_CONSTANT, PU_RATE_COSINE, PU_RATE_HYPERBOLIC, PU_RATE_TAIL};
    flags f;
    option list[FIT_FLAGS + 22];
    static error_curve way;
    scene s;
    watcher w;
    pu_op Phi;
    pu_model model;
    pu_prior floor_prior;
    pu_data data;
    pu_fit_options options;
    pu_options accurate;
    pu_fit_report report;
    pu_workspace ws;
    pu_real *theta, *mean, *variance;
    double error, blind, beta, nll = 0, nll_se = 0;
    pu_int measured = 0, i;
    json out;
    int count = 0;

    memset(&f, 0, sizeof f), memset(&s, 0, sizeof s), memset(&w, 0, sizeof w);
    memset(&model, 0, sizeof model), memset(&ws, 0, sizeof ws);
    fit_flags_default(&f.fit);
    f.fit.samples = 30, f.fit.iterations = 25, f.fit.solver = 3 /* pcg */, f.fit.engine = 1 /* iterative */, f.fit.rate = 1;
    f.fit.steps = 60;
    if (!option_given(argc, argv, "paper", strlen("paper"))) {
        f.fit.samples = 8, f.fit.gradient = 2 /* output */, f.fit.steps = 150;
        f.schedule = 1 /* cosine */, f.start_noise = 1, f.hold = 0.01;
    }
    f.digit = 3, f.count = 10, f.size = 128, f.shrink = 1, f.share = 0.15, f.noise = 0.01;
    list[count++] = opt_flag("paper", "the paper's recipe: fresh probes, network gradient, constant rate; other flags count beside it",
                             &f.paper);
    list[count++] = opt_text("images", "IDX file; without it, digits are drawn", &f.images);
    list[count++] = opt_text("labels", "IDX file of the images' digits; without it, all images count", &f.labels);
    list[count++] = opt_number("digit", "which one", &f.digit, 0, 9);
    list[count++] = opt_number("count", "images N", &f.count, 1, 10000);
    list[count++] = opt_number("size", "side of the drawn images", &f.size, 2, 4096);
    list[count++] = opt_number("shrink", "images of a file to this part of their width and height", &f.shrink, 1, 64);
    list[count++] = opt_real("share", "of the frequencies that is measured", &f.share, 0, 1);
    list[count++] = opt_real("noise", "standard deviation, in units of the convention", &f.noise, 0, 1e6);
    list[count++] = opt_choice("convention", "of the transform", &f.plain, "unitary,plain");
    list[count++] = opt_choice("schedule", "of the rate", &f.schedule, "constant,cosine,hyperbolic,tail");
    list[count++] = opt_choice("rao-blackwell", "less variance in the gradient of alpha", &f.plain_variance, "on,off");
    list[count++] = opt_choice("through-m", "network gradient also through the preconditioner", &f.constant_precond, "on,off");
    list[count++] = opt_real("start-noise", "noise at the start, unitary units (0 = 1 in units of the convention)",
                             &f.start_noise, 0, 1e6);
    list[count++] = opt_real("least-noise", "noise that the fit assumes at least, unitary units (0 = any)", &f.least_noise, 0,
                             1e6);
    list[count++] = opt_real("hold", "the same for the first 3/5 of the steps", &f.hold, 0, 1e6);
    list[count++] = opt_flag("warm", "the same probes at every step, each solve begun where the last one ended", &f.warm);
    list[count++] = opt_flag("fresh", "not so: other probes at every step. Goes without saying with --paper, and unless --gradient is output",
                             &f.fresh);
    list[count++] = opt_number("trace", "print the error every so many steps (0 = never)", &f.trace, 0, 1000000);
    list[count++] = opt_text("picture", "truth, inverse, reconstruction, deviation as .png, .pgm or .html", &f.picture);
    list[count++] = opt_text("svg", "draw the error during the fit into this file (20 posteriors more)", &f.svg);
    list[count++] = opt_text("report", "write a page with pictures and tables to this file (HTML; likewise)", &f.report);
    count += fit_flags_table(&f.fit, list + count);
    options_read(argc, argv, "compressed_sensing",
                 "Images from a part of their Fourier transform, by sparse Bayesian learning.", count, list);
    if (f.warm && f.fresh) fail(2, "--fresh", "says the opposite of --warm");
    if (!f.paper && !f.fresh && f.fit.gradient == 2 && f.fit.engine == 1) f.warm = 1;
    if (f.labels && !f.images) fail(2, "--labels", "needs --images");
    if (f.picture && !picture_ends(f.picture, ".png") && !picture_ends(f.picture, ".pgm") && !picture_ends(f.picture, ".html"))
        fail(2, "--picture", "needs a name that ends in .png, .pgm or .html");
    file_ready(f.picture), file_ready(f.svg), file_ready(f.report);
    device_open();

    s.N = f.count;
    if (f.images) read_images(&f, &s);
    else scene_draw(&s, (int)f.digit, f.size, (uint64_t)f.fit.seed);
    scene_measure(&s, f.share, f.noise / (f.plain ? sqrt((double)s.D) : 1), (uint64_t)f.fit.seed);
    blind = scene_error(&s, s.filled);
    for (i = 0; i < 2 * s.N * s.D; i++) measured += s.mask[i] != 0;
    data = pu_data_masked(s.N, 2 * s.D, s.y, s.mask);
    Phi = pu_op_fourier(&s.plan);
    need(pu_model_sparse(&model, &Phi, &report.last), &report.last);

    /* log alpha from N(0, 1), log beta from 0 in units of the convention, or as asked */
    theta = need_reals(model.params);
    pu_normals((uint64_t)f.fit.seed, 0, DRAW_START, 0, STREAM_SCENE, 0, s.D, theta);
    theta[s.D] = (pu_real)(f.start_noise > 0 ? -2 * log(f.start_noise) : f.plain ? log((double)s.D) : 0);

    model.priors = &floor_prior, model.prior_count = f.paper ? 0 : noise_floor(&s, &floor_prior);

    mean = need_reals(s.N * s.D), variance = need_reals(s.N * s.D);
    fit_flags_options(&f.fit, &options);
    options.schedule = schedules[f.schedule], options.gradient.rao_blackwell = !f.plain_variance;
    options.gradient.constant_precond = f.constant_precond;
    options.fixed_probes = options.warm_start = f.warm;
    w.fit = &f.fit, w.f = &f, w.s = &s, w.model = &model, w.data = &data, w.options = &options.gradient, w.mean = mean;
    w.steps = options.steps, w.curve = f.svg || f.report ? &way : NULL;
    options.progress = watch, options.user = &w;
    fit(&f, &model, &data, &options, &ws, theta, &report);

    scene_posterior(&model, theta, &data, &options.gradient, &ws, mean, f.picture || f.report ? variance : NULL);
    error = scene_error(&s, mean), beta = exp((double)theta[s.D]) / (f.plain ? (double)s.D : 1);
    accurate = options.gradient;
    if (accurate.kind != PU_EXACT) accurate.solve.tolerance = 1e-5, accurate.solve.iterations = 1000; /* not unrolled */
    fit_nll(&model, theta, &data, &accurate, &ws, &nll, &nll_se, &report.last);
    if (f.picture) draw(&f, &s, mean, variance);
    curve_add(&way, (double)report.step, error, exp(-0.5 * (double)theta[s.D]));
    if (f.svg) {
        FILE *file = file_open(f.svg);
        curve_draw(&way, blind, file, 1);
        file_close(file, f.svg);
    }
    page_write(&f, &s, &way, mean, variance, error, blind, exp(-0.5 * (double)theta[s.D]), f.noise / (f.plain ? sqrt((double)s.D) : 1),
               report.last.plan, argc, argv, count, list);
    if (!f.fit.quiet) {
        printf("%s %ld: %ld images of %ld x %ld, %.3g %% of the frequencies, noise %g (%s transform)\n",
               f.images ? "digit" : "drawn digit", f.digit, (long)s.N, (long)s.rows, (long)s.cols, 100 * f.share, f.noise,
               f.plain ? "plain" : "unitary");
        printf("  NRMSE of the zero-filled inverse  %6.2f %%\n  NRMSE of the reconstruction       %6.2f %%\n", blind, error);
        if (measured < s.D)
            printf("  %ld numbers were measured for %ld pixels: too few to tell paper from ink; more --count or --share\n",
                   (long)measured, (long)s.D);
        printf("  noise found %.4g (beta %.4g); NLL per image %.6g +- %.2g%s\n", 1 / sqrt(beta), beta, nll, nll_se,
               report.last.nll_converged ? "" : " (not converged)");
        printf("  %ld steps, %.1f s, %.2f s each; %.0f MB\n", (long)report.step, report.seconds,
               report.step ? report.seconds / (double)report.step : 0, peak_mb());
        printf("  device %s: %s\n", device_name, report.last.plan);
    }
    out = json_open(f.fit.json);
    json_fit(&out, &f.fit, &report, nll, nll_se);
    json_number(&out, "nrmse", error);
    json_number(&out, "nrmse_zero_filled", blind);
    json_number(&out, "beta", beta);
    json_number(&out, "digit", (double)f.digit);
    json_number(&out, "count", (double)s.N);
    json_text(&out, "convention", f.plain ? "plain" : "unitary");
    json_close(&out);

    pu_model_free(&model), pu_workspace_free(&ws), pu_workspace_free(&w.ws), scene_free(&s);
    free(theta), free(mean), free(variance);
    device_close();
    return fit_code();
}

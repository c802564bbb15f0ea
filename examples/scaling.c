/* scaling.c - time and memory of one gradient as a problem grows, with the exponents that theory has for them.

   cc -O3 -march=native -fopenmp -I. examples/scaling.c -o scaling -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/scaling.c -o scaling -lcublas -lcufft -lcurand       (for --device cuda)

   Noisy AR, Fourier sensing and factor analysis, each over a range of sizes by the iterative engine with K probes and I steps,
   and by an exact engine as far as that is affordable. Times are medians of several runs; the exponent is the slope of a line
   through the logarithms, the smallest size left out where two others remain: there calls and not numbers cost.
   ./scaling --svg scaling.svg --report scaling.html      draws all of it */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/report.h"

enum { SIZES = 12, TIMES = 20, SWEEPS = 7, PROBLEMS = 4 };
enum { SERIES, SENSING, FACTORS, USERS }; /* the problems */

typedef struct {
    const char *name;
    int problem, exact;
    int sizes;
    double x[SIZES], seconds[SIZES], fastest[SIZES], slowest[SIZES], mb[SIZES]; /* seconds: medians */
    double theory;        /* exponent of the time; logarithms count as nothing */
    char plan[600];       /* who made the last gradient */
} sweep;

static sweep sweeps[SWEEPS];
static int sweep_count;
static fit_flags flags;

static sweep *sweep_new(const char *name, int problem, int exact)
{
    sweep *s = &sweeps[sweep_count++];
    s->name = name, s->problem = problem, s->exact = exact, s->theory = 1;
    return s;
}

/* Times of the gradient: at least three, and up to twenty within 0.3 s. The first run, which finds memory and caches cold, does not
   count. After Ctrl-C this size does not, either. */
static void measure(const pu_lgm *model, const pu_data *data, const pu_options *o, const pu_gradient_result *out, double x, sweep *s)
{
    pu_workspace ws;
    pu_report report;
    double times[TIMES], spent = 0;
    int count = 0, run;
    memset(&ws, 0, sizeof ws);
    for (run = 0; count < TIMES && (count < 3 || spent < 0.3) && !fit_interrupted; run++) {
        double start;
        work_progress(&flags, "  %s, size %.0f: run %d", s->name, x, run + 1);
        start = seconds();
        need(pu_gradient(model, data, o, &ws, out, &report), &report);
        if (run == 0) continue;
        times[count] = seconds() - start, spent += times[count++];
    }
    work_progress(&flags, "");
    pu_workspace_free(&ws);
    if (fit_interrupted) return;
    s->seconds[s->sizes] = svg_median(count, times); /* which sorts them */
    s->x[s->sizes] = x, s->fastest[s->sizes] = times[0], s->slowest[s->sizes] = times[count - 1];
    s->mb[s->sizes] = (double)report.bytes / 1048576;
    s->sizes++;
    snprintf(s->plan, sizeof s->plan, "%s", report.plan);
}

/* The first size that an exponent is from; the exponent, or NAN where there are too few sizes. */
static int first_size(const sweep *s) { return s->sizes > 2; }

static double slope(const sweep *s, const double *y)
{
    const int from = first_size(s);
    return s->sizes - from > 1 ? svg_slope(s->sizes - from, s->x + from, y + from) : (double)NAN;
}

static void report_sweep(const sweep *s, json *out)
{
    char key[80];
    int i;
    if (!flags.quiet && s->sizes > 0) {
        printf("%s: %s\n", s->name, s->plan);
        for (i = 0; i < s->sizes; i++) printf("  %10g  %12.6f s  %10.2f MB\n", s->x[i], s->seconds[i], s->mb[i]);
        if (s->sizes > 1) printf("  exponents: time %.2f (theory %.1f), memory %.2f\n", slope(s, s->seconds), s->theory, slope(s, s->mb));
    }
    snprintf(key, sizeof key, "%s: time", s->name);
    json_number(out, key, slope(s, s->seconds));
    snprintf(key, sizeof key, "%s: memory", s->name);
    json_number(out, key, slope(s, s->mb));
}

static void series(pu_int most, int exact, json *out)
{
    static const pu_real gamma[5] = {PU_R(0.5), PU_R(-0.4), PU_R(0.3), PU_R(-0.2), PU_R(0.1)};
    sweep *s = sweep_new(exact ? "noisy AR(5), banded engine, length" : "noisy AR(5), iterative, length", SERIES, exact);
    pu_options o;
    pu_int n;
    fit_flags_gradient(&flags, &o);
    if (exact) o.kind = PU_EXACT, o.engine = PU_BANDED;
    else o.engine = PU_ITERATIVE;
    for (n = 1000; n <= most && s->sizes < SIZES && !fit_interrupted; n = (pu_int)(3.1623 * (double)n + 0.5)) {
        pu_real *y = need_reals(n), *psi = need_reals(n), *grad_psi = need_reals(n), grad[6];
        pu_ar ar;
        pu_op Gamma, Phi = pu_op_identity(n);
        pu_lgm model = {NULL, NULL, NULL, NULL, NULL, 0};
        pu_data data = pu_data_full(1, n, y);
        pu_gradient_result r;
        pu_int i;
        memset(&r, 0, sizeof r);
        for (i = 0; i < n; i++) psi[i] = PU_R(2);
        pu_normals((uint64_t)flags.seed, 0, 0, 0, 3, 0, n, y);
        if (pu_ar_set(&ar, n, 5, gamma, PU_R(0.5), NULL)) fail(1, "pu_ar_set", "refused");
        Gamma = pu_op_ar(&ar);
        model.Gamma = &Gamma, model.Phi = &Phi, model.psi = psi, r.Gamma = grad, r.psi = grad_psi;
        measure(&model, &data, &o, &r, (double)n, s);
        free(y), free(psi), free(grad_psi);
    }
    report_sweep(s, out);
}

static void sensing(pu_int most, json *out)
{
    sweep *s = sweep_new("Fourier sensing, iterative, pixels", SENSING, 0);
    pu_options o;
    pu_int side;
    fit_flags_gradient(&flags, &o);
    o.engine = PU_ITERATIVE;
    for (side = 32; side <= most && s->sizes < SIZES && !fit_interrupted; side *= 2) {
        const pu_int D = side * side;
        pu_real *y = need_reals(2 * D), *psi = need_reals(2 * D), *alpha = need_reals(D), *grad = need_reals(D);
        pu_fourier f;
        size_t bytes = 0;
        void *memory;
        pu_op Gamma, Phi;
        pu_lgm model = {NULL, NULL, NULL, NULL, NULL, 0};
        pu_data data = pu_data_nan(1, 2 * D, y);
        pu_gradient_result r;
        pu_int i;
        memset(&r, 0, sizeof r);
        pu_normals((uint64_t)flags.seed, 0, 1, 0, 3, 0, 2 * D, y);
        for (i = 0; i < D; i++) {
            alpha[i] = PU_R(1), psi[i] = psi[D + i] = PU_R(10);
            if (i % 3 == 1) y[i] = y[D + i] = PU_R(NAN); /* not sampled */
        }
        if (pu_fourier_bytes(side, side, &bytes)) fail(1, "pu_fourier_bytes", "refused");
        memory = malloc(bytes);
        if (!memory || pu_fourier_init(&f, side, side, memory, bytes)) fail(1, "memory", "there is not enough");
        Gamma = pu_op_diagonal(D, alpha), Phi = pu_op_fourier(&f);
        model.Gamma = &Gamma, model.Phi = &Phi, model.psi = psi, r.Gamma = grad;
        measure(&model, &data, &o, &r, (double)D, s);
        pu_fourier_free(&f);
        free(memory), free(y), free(psi), free(alpha), free(grad);
    }
    report_sweep(s, out);
}

/* `users` with 50 ratings of 1,000 films each; one of the two sizes grows. */
static void factors(int grow_users, pu_int most, int exact, json *out)
{
    const pu_int films = 1000, ratings = 50;
    sweep *s = sweep_new(grow_users ? (exact ? "factor analysis, dual engine, users" : "factor analysis, iterative, users")
                                    : (exact ? "factor analysis, dual engine, factors" : "factor analysis, iterative, factors"),
                         grow_users ? USERS : FACTORS, exact);
    pu_options o;
    pu_int size;
    fit_flags_gradient(&flags, &o);
    o.engine = PU_ITERATIVE;
    if (o.kind == PU_NETWORK) o.kind = PU_OUTPUT;
    if (exact) o.kind = PU_EXACT, o.engine = PU_DUAL;
    for (size = grow_users ? 100 : 50; size <= most && s->sizes < SIZES && !fit_interrupted; size = (pu_int)(2.1544 * (double)size + 0.5)) {
        const pu_int D = grow_users ? 50 : size, N = grow_users ? size : 50;
        pu_real *phi = need_reals(films * D), *grad = need_reals(films * D), *psi = need_reals(films),
                *y = need_reals(N * ratings);
        pu_int *start = (pu_int *)calloc((size_t)N + 1, sizeof *start),
               *index = (pu_int *)calloc((size_t)(N * ratings), sizeof *index), i;
        pu_op Gamma = pu_op_identity(D), Phi = pu_op_dense(films, D, phi);
        pu_lgm model = {NULL, NULL, NULL, NULL, NULL, 0};
        pu_data data;
        pu_gradient_result r;
        if (!start || !index) fail(1, "memory", "there is not enough");
        memset(&r, 0, sizeof r);
        pu_normals((uint64_t)flags.seed, 0, 2, 0, 3, 0, films * D, phi);
        pu_normals((uint64_t)flags.seed, 0, 3, 0, 3, 0, N * ratings, y);
        for (i = 0; i < films; i++) psi[i] = PU_R(1);
        for (i = 0; i < films * D; i++) phi[i] = (pu_real)(0.5 * (double)phi[i] / sqrt((double)D));
        for (i = 0; i < N * ratings; i++) start[i / ratings + 1] = i + 1, index[i] = i % ratings * 19 + i / ratings % 19;
        data = pu_data_lists(N, films, start, index, y);
        model.Gamma = &Gamma, model.Phi = &Phi, model.psi = psi, r.Phi = grad;
        measure(&model, &data, &o, &r, (double)size, s);
        free(phi), free(grad), free(psi), free(y), free(start), free(index);
    }
    report_sweep(s, out);
}

/* ---- pictures and the page ---- */

static const char *const problem_name[PROBLEMS] = {"Noisy autoregression", "Fourier sensing", "Factor analysis, more factors",
                                                   "Factor analysis, more users"};
static const char *const problem_size[PROBLEMS] = {"length of the series", "pixels of the image", "factors", "users"};
static const char *const problem_text[PROBLEMS] = {"One series of order 5, all of it seen through noise.",
                                                   "One image, two thirds of its frequencies.",
                                                   "50 users with 50 ratings each of 1,000 films.",
                                                   "50 factors; 50 ratings of 1,000 films by each user."};

/* The sweep of a problem, or NULL: there is none with a size. */
static const sweep *sweep_of(int problem, int exact)
{
    int i;
    for (i = 0; i < sweep_count; i++)
        if (sweeps[i].problem == problem && sweeps[i].exact == exact && sweeps[i].sizes > 0) return &sweeps[i];
    return NULL;
}

/* Where the iterative engine begins to be the faster one; 0: nowhere, or there is nothing to compare. */
static double crossing(int problem)
{
    const sweep *exact = sweep_of(problem, 1), *iterative = sweep_of(problem, 0);
    if (!exact || !iterative) return 0;
    return svg_crossing(exact->sizes < iterative->sizes ? exact->sizes : iterative->sizes, exact->x, exact->seconds, iterative->seconds);
}

/* A size with two digits, which is as well as a crossing is known. */
static double two_digits(double x)
{
    const double unit = pow(10, floor(log10(x)) - 1);
    return unit * floor(x / unit + 0.5);
}

static void draw_sweep(svg_plot *p, const sweep *s, const char *colour)
{
    const double power = slope(s, s->seconds);
    const int from = first_size(s), n = s->sizes - from;
    double x[2], y[2], middle[2] = {0, 0};
    char name[80];
    int i;
    if (power == power) snprintf(name, sizeof name, "%s, slope %.2f", s->exact ? "exact" : "iterative", power);
    else snprintf(name, sizeof name, "%s", s->exact ? "exact" : "iterative");
    svg_legend(p, colour, power == power ? '-' : '.', name);
    for (i = 0; i < s->sizes; i++) svg_interval(p, s->x[i], s->fastest[i], s->seconds[i], s->slowest[i], colour);
    if (!(power == power)) return;
    for (i = from; i < s->sizes; i++) middle[0] += log(s->x[i]) / n, middle[1] += log(s->seconds[i]) / n;
    x[0] = s->x[from], x[1] = s->x[s->sizes - 1];
    for (i = 0; i < 2; i++) y[i] = exp(middle[1] + power * (log(x[i]) - middle[0]));
    svg_line(p, 2, x, y, colour, 0, 0);
}

/* Times of a problem against its size; returns where a next panel begins. */
static double draw_problem(int problem, FILE *file, double below)
{
    double low = HUGE_VAL, high = 0, first = HUGE_VAL, last = 0;
    svg_plot p;
    int exact, i;
    memset(&p, 0, sizeof p);
    for (exact = 0; exact < 2; exact++) {
        const sweep *s = sweep_of(problem, exact);
        for (i = 0; s && i < s->sizes; i++) {
            low = fmin(low, s->fastest[i]), high = fmax(high, s->slowest[i]);
            first = fmin(first, s->x[i]), last = fmax(last, s->x[i]);
        }
    }
    p.file = file, p.below = below, p.title = problem_name[problem], p.x_label = problem_size[problem], p.y_label = "seconds per gradient";
    p.log_x = p.log_y = 1, p.x0 = first / 1.2, p.x1 = last * 1.2, p.y0 = low / 1.5, p.y1 = high * 1.5, p.top = 30;
    svg_begin(&p);
    if (sweep_of(problem, 1)) draw_sweep(&p, sweep_of(problem, 1), "c1");
    if (sweep_of(problem, 0)) draw_sweep(&p, sweep_of(problem, 0), "c2");
    if (crossing(problem) > 0) svg_mark(&p, crossing(problem), "equal");
    svg_end(&p);
    return below + p.bottom + 56;
}

static void draw(const char *path)
{
    FILE *file = path ? file_open(path) : NULL;
    double below = 1;
    int k, panels = 0;
    if (!path) return;
    for (k = 0; k < PROBLEMS; k++) panels += sweep_of(k, 0) != NULL;
    svg_sheet(file, 1 + 356.0 * (panels ? panels : 1), "time of a gradient against the size of the problem");
    for (k = 0; k < PROBLEMS; k++)
        if (sweep_of(k, 0)) below = draw_problem(k, file, below);
    fprintf(file, "</svg>\n");
    file_close(file, path);
}

/* Who wins, by the times of this run. */
static void page_claim(const report_page *page, int problem)
{
    const sweep *exact = sweep_of(problem, 1), *iterative = sweep_of(problem, 0);
    const double cross = crossing(problem);
    int last;
    double ratio;
    if (!exact) {
        report_caption(page, "%s Dots are medians, bars reach from the fastest run to the slowest, the line is fitted.", problem_text[problem]);
        return;
    }
    last = (exact->sizes < iterative->sizes ? exact->sizes : iterative->sizes) - 1;
    ratio = exact->seconds[last] / iterative->seconds[last];
    if (cross > 0)
        report_caption(page, "%s The exact engine is the faster one up to about %.0f, the iterative one beyond; at %.0f it is %.1f times as fast.",
                       problem_text[problem], two_digits(cross), exact->x[last], ratio);
    else
        report_caption(page, "%s At %.0f the %s engine is %.1f times as fast as the %s one.", problem_text[problem], exact->x[last],
                       ratio > 1 ? "iterative" : "exact", ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? "exact" : "iterative");
}

static void page_table(const report_page *page, const sweep *s)
{
    const double power[2] = {slope(s, s->seconds), slope(s, s->mb)};
    char text[900];
    int i;
    snprintf(text, sizeof text, "%s|median|fastest|slowest|memory", s->exact ? "exact" : "iterative");
    report_table(page, text);
    for (i = 0; i < s->sizes; i++) {
        snprintf(text, sizeof text, "%.0f", s->x[i]);
        report_row(page, text);
        report_cell(page, 0, "%.3g ms", 1e3 * s->seconds[i]), report_cell(page, 0, "%.3g ms", 1e3 * s->fastest[i]);
        report_cell(page, 0, "%.3g ms", 1e3 * s->slowest[i]), report_cell(page, 0, "%.2f MB", s->mb[i]);
    }
    if (power[0] == power[0])
        snprintf(text, sizeof text, "Exponents: time %.2f (theory %.0f), memory %.2f. %s.", power[0], s->theory, power[1], s->plan);
    else snprintf(text, sizeof text, "%s.", s->plan);
    report_table_end(page, text);
}

/* How the iterative engine's time grows, over all problems. */
static void page_answer(const report_page *page)
{
    double least = HUGE_VAL, most = -HUGE_VAL;
    int k, known = 0;
    for (k = 0; k < PROBLEMS; k++) {
        const sweep *s = sweep_of(k, 0);
        const double power = s ? slope(s, s->seconds) : (double)NAN;
        if (!(power == power)) continue;
        least = fmin(least, power), most = fmax(most, power), known++;
    }
    if (!known) report_answer(page, "Interrupted before there were sizes enough to tell how the time grows.");
    else if (known == 1) report_answer(page, "The time of an iterative gradient grows as the size to the power %.2f (theory: 1).", most);
    else
        report_answer(page, "In %d problems the time of an iterative gradient grows as the size to a power of %.2f to %.2f (theory: 1).",
                      known, least, most);
    for (k = 0; k < PROBLEMS; k++) {
        const sweep *s = sweep_of(k, 0), *exact = sweep_of(k, 1);
        int last;
        if (!s || !exact) continue;
        last = (exact->sizes < s->sizes ? exact->sizes : s->sizes) - 1;
        if (crossing(k) > 0)
            report_text(page, "%s: faster than exact algebra from about %.0f %s.", problem_name[k], two_digits(crossing(k)),
                        k == SERIES ? "entries" : problem_size[k]);
        else if (s->seconds[last] > exact->seconds[last])
            report_text(page, "%s: exact algebra is faster at every size here.", problem_name[k]);
        else report_text(page, "%s: faster than exact algebra at every size here.", problem_name[k]);
    }
}

static void page_write(const char *path, int argc, char **argv, int count, const option *list)
{
    report_page page = report_open(path, "scaling: report");
    int k, exact;
    if (!path) return;
    page_answer(&page);
    if (fit_interrupted) report_text(&page, "Interrupted: the last sizes and sweeps are missing.");
    for (k = 0; k < PROBLEMS; k++) {
        if (!sweep_of(k, 0)) continue;
        report_section(&page, problem_name[k]);
        report_figure(&page);
        (void)draw_problem(k, page.file, 0);
        page_claim(&page, k);
        for (exact = 1; exact >= 0; exact--)
            if (sweep_of(k, exact)) page_table(&page, sweep_of(k, exact));
    }
    report_text(&page, "Times are on the wall, on device %s. The smallest size is left out of a line where two others remain: there calls, and not "
                       "numbers, cost.", device_name);
    report_close(&page, argc, argv, count, list);
}

/* The flags of a fit but those that mean nothing here: they are then refused. */
static int flags_table(option *list)
{
    static const char *const refused[] = {"engine", "steps", "rate"};
    const int all = fit_flags_table(&flags, list);
    int i, k, kept = 0;
    for (i = 0; i < all; i++) {
        for (k = 0; k < 3 && strcmp(list[i].name, refused[k]); k++) continue;
        if (k == 3) list[kept++] = list[i];
    }
    return kept;
}

int main(int argc, char **argv)
{
    long length = 316228, side = 256, dims = 1100, users = 10000;
    option list[FIT_FLAGS + 6];
    const char *svg = NULL, *page = NULL;
    int count = 0;
    double start;
    json out;
    fit_flags_default(&flags);
    /* the least of these are the second size each, so that there is a slope */
    list[count++] = opt_number("length", "longest series", &length, 3162, 100000000);
    list[count++] = opt_number("side", "largest image", &side, 64, 8192);
    list[count++] = opt_number("dims", "most factors", &dims, 108, 100000);
    list[count++] = opt_number("users", "most users", &users, 215, 10000000);
    list[count++] = opt_text("svg", "draw times against sizes, log-log, into this file", &svg);
    list[count++] = opt_text("report", "write a page with figures and tables to this file (HTML)", &page);
    count += flags_table(list + count);
    options_read(argc, argv, "scaling", "Time and memory of a gradient against the size of the problem.", count, list);
    if (flags.gradient == 0) fail(2, "--gradient exact", "is measured in any case; this chooses the iterative one");
    device_open();
    fit_listen();
    file_ready(svg), file_ready(page);
    out = json_open(flags.json);
    json_text(&out, "engine", "iterative and exact");
    json_text(&out, "device", device_name);
    json_number(&out, "seed", (double)flags.seed);
    json_number(&out, "samples", (double)flags.samples);
    json_number(&out, "iterations", (double)flags.iterations);
    start = seconds();
    if (!flags.quiet)
        printf("K = %ld, I = %ld, %s, device %s\n", flags.samples, flags.iterations, sizeof(pu_real) == 4 ? "float" : "double",
               device_name);
    series(length, 0, &out);
    series(length, 1, &out);
    sensing(side, &out);
    factors(0, dims, 0, &out);
    factors(0, dims, 1, &out);
    factors(1, users, 0, &out);
    factors(1, users, 1, &out);
    json_number(&out, "seconds", seconds() - start);
    json_number(&out, "peak_mb", peak_mb());
    json_text(&out, "status", "PU_OK");
    json_text(&out, "stopped", pu_fit_stop_text(fit_interrupted ? PU_FIT_CALLBACK : PU_FIT_STEPS));
    json_close(&out);
    draw(svg);
    page_write(page, argc, argv, count, list);
    if (!flags.quiet && (svg || page)) printf("%s%s%s%s\n", svg ? "picture: " : "", svg ? svg : "", svg && page ? ", " : "", page ? page : "");
    device_close();
    if (fit_interrupted) fprintf(stderr, "scaling: interrupted; the last sizes and sweeps are missing\n");
    return fit_code();
}

/* scaling.c - time and memory of one gradient as a problem grows, with the exponents that theory has for them.

   cc -O3 -march=native -fopenmp -I. examples/scaling.c -o scaling -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/scaling.c -o scaling -lcublas -lcufft -lcurand       (for --device cuda)

   Noisy AR, Fourier sensing and factor analysis, each over a range of sizes by the iterative engine with K probes and I steps,
   and by an exact engine as far as that is affordable. Times are the best of several runs; the exponent is the slope of a line
   through the logarithms, the smallest size left out where two others remain: there calls and not numbers cost. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"

enum { SIZES = 12 };

typedef struct {
    const char *name;
    int sizes;
    double x[SIZES], seconds[SIZES], mb[SIZES];
    double theory;        /* exponent of the time; logarithms count as nothing */
    char plan[600];       /* who made the last gradient */
} sweep;

static fit_flags flags;

/* Best seconds of the gradient, and its workspace. After Ctrl-C this size does not count. */
static void measure(const pu_lgm *model, const pu_data *data, const pu_options *o, const pu_gradient_result *out, double x, sweep *s)
{
    pu_workspace ws = {0};
    pu_report report;
    double best = 1e30, spent = 0;
    int run;
    for (run = 0; run < 20 && (run < 2 || spent < 0.3) && !fit_interrupted; run++) {
        const double start = seconds();
        need(pu_gradient(model, data, o, &ws, out, &report), &report);
        spent += seconds() - start;
        if (run > 0 && seconds() - start < best) best = seconds() - start;
    }
    pu_workspace_free(&ws);
    if (fit_interrupted) return;
    s->x[s->sizes] = x, s->seconds[s->sizes] = best, s->mb[s->sizes] = (double)report.bytes / 1048576;
    s->sizes++;
    snprintf(s->plan, sizeof s->plan, "%s", report.plan);
    if (!flags.quiet && isatty(2)) fprintf(stderr, "\r  %s, size %g: %.4g s\033[K\r", s->name, x, best);
}

static double slope(const sweep *s, const double *y)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    int i;
    for (i = s->sizes > 2; i < s->sizes; i++) {
        const double u = log(s->x[i]), v = log(y[i]);
        n++, sx += u, sy += v, sxx += u * u, sxy += u * v;
    }
    return n > 1 ? (n * sxy - sx * sy) / (n * sxx - sx * sx) : (double)NAN; /* interrupted */
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
    sweep s = {NULL, 0, {0}, {0}, {0}, 1, {0}};
    pu_options o;
    pu_int n;
    s.name = exact ? "noisy AR(5), banded engine, length" : "noisy AR(5), iterative, length";
    fit_flags_gradient(&flags, &o);
    if (exact) o.kind = PU_EXACT, o.engine = PU_BANDED;
    else o.engine = PU_ITERATIVE;
    for (n = 1000; n <= most && s.sizes < SIZES && !fit_interrupted; n = (pu_int)(3.1623 * (double)n + 0.5)) {
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
        measure(&model, &data, &o, &r, (double)n, &s);
        free(y), free(psi), free(grad_psi);
    }
    report_sweep(&s, out);
}

static void sensing(pu_int most, json *out)
{
    sweep s = {NULL, 0, {0}, {0}, {0}, 1, {0}};
    pu_options o;
    pu_int side;
    s.name = "Fourier sensing, iterative, pixels";
    fit_flags_gradient(&flags, &o);
    o.engine = PU_ITERATIVE;
    for (side = 32; side <= most && s.sizes < SIZES && !fit_interrupted; side *= 2) {
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
        measure(&model, &data, &o, &r, (double)D, &s);
        pu_fourier_free(&f);
        free(memory), free(y), free(psi), free(alpha), free(grad);
    }
    report_sweep(&s, out);
}

/* `users` with 50 ratings of 1,000 films each; one of the two sizes grows. */
static void factors(int grow_users, pu_int most, int exact, json *out)
{
    const pu_int films = 1000, ratings = 50;
    sweep s = {NULL, 0, {0}, {0}, {0}, 1, {0}};
    pu_options o;
    pu_int size;
    s.name = grow_users ? (exact ? "factor analysis, dual engine, users" : "factor analysis, iterative, users")
                        : (exact ? "factor analysis, dual engine, factors" : "factor analysis, iterative, factors");
    fit_flags_gradient(&flags, &o);
    o.engine = PU_ITERATIVE;
    if (o.kind == PU_NETWORK) o.kind = PU_OUTPUT;
    if (exact) o.kind = PU_EXACT, o.engine = PU_DUAL;
    for (size = grow_users ? 100 : 50; size <= most && s.sizes < SIZES && !fit_interrupted; size = (pu_int)(2.1544 * (double)size + 0.5)) {
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
        measure(&model, &data, &o, &r, (double)size, &s);
        free(phi), free(grad), free(psi), free(y), free(start), free(index);
    }
    report_sweep(&s, out);
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
    option list[FIT_FLAGS + 4];
    int count = 0;
    double start;
    json out;
    fit_flags_default(&flags);
    /* the least of these are the second size each, so that there is a slope */
    list[count++] = opt_number("length", "longest series", &length, 3162, 100000000);
    list[count++] = opt_number("side", "largest image", &side, 64, 8192);
    list[count++] = opt_number("dims", "most factors", &dims, 108, 100000);
    list[count++] = opt_number("users", "most users", &users, 215, 10000000);
    count += flags_table(list + count);
    options_read(argc, argv, "scaling", "Time and memory of a gradient against the size of the problem.", count, list);
    if (flags.gradient == 0) fail(2, "--gradient exact", "is measured in any case; this chooses the iterative one");
    device_open();
    fit_listen();
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
    device_close();
    if (fit_interrupted) fprintf(stderr, "scaling: interrupted; the last sizes and sweeps are missing\n");
    return fit_code();
}

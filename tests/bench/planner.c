/* planner.c - is engine = auto as fast as the better engine, whatever the datum?

   First table: factor analysis with users of one size class at a time, 5 to 2,000 ratings of 3,706 films, output gradient with
   K = I = 10. Columns: milliseconds per user by the dual engine (exact), by CG, and by auto, taken in turns, best of several;
   what auto chose; auto over the better of the two, which should stay below 1.15.
   Second table: noisy AR(5), one series of 30,000: the exact engines against CG with K = 10, I = 30. The dense engine is timed
   at D = 1,000 and 2,000 and extrapolated as D^3 from the latter.
   One thread and processor time, so that the figures are those of the engines whatever else runs; settings as printed. */
#define _POSIX_C_SOURCE 199309L
#define PU_IMPLEMENTATION
#include "pu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILMS = 3706, MOST = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes)
{
    void *p = calloc(bytes, 1);
    if (!p) { fprintf(stderr, "planner: out of memory\n"); exit(1); }
    return p;
}

static pu_real *reals(pu_int n) { return (pu_real *)take((size_t)n * sizeof(pu_real)); }

/* One run, in seconds. */
static double once(const pu_lgm *model, const pu_data *data, const pu_options *o, const pu_gradient_result *out, pu_workspace *ws,
                   pu_report *report)
{
    const double start = now();
    if (pu_gradient(model, data, o, ws, out, report) != PU_OK) {
        char text[200];
        fprintf(stderr, "planner: %s\n", pu_explain(report, text, sizeof text));
        exit(1);
    }
    return now() - start;
}

/* Best time of each set of options, taken in turns until `patience` seconds have gone into each. */
static void race(const pu_lgm *model, const pu_data *data, const pu_gradient_result *out, int count, const pu_options *o,
                 pu_workspace *ws, pu_report *reports, double patience, double *best)
{
    double spent = 0;
    int run, e;
    for (e = 0; e < count; e++) best[e] = 1e30;
    for (run = 0; run < 60 && (run < 2 || spent < patience * count); run++)
        for (e = 0; e < count; e++) {
            const double t = once(model, data, &o[e], out, &ws[e], &reports[e]);
            spent += t;
            if (run > 0 && t < best[e]) best[e] = t; /* the first pays for the memory */
        }
}

static void options(pu_options *o, pu_kind kind, pu_engine engine, pu_int K, pu_int I)
{
    memset(o, 0, sizeof *o);
    o->kind = kind, o->engine = engine, o->samples = K, o->solve.iterations = I, o->threads = 1;
}

static double factors(pu_int D)
{
    static const pu_int sizes[] = {5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 200, 300, 500, 1000, MOST};
    pu_real *phi = reals(FILMS * D), *grad = reals(FILMS * D), *psi = reals(FILMS), *grad_psi = reals(FILMS),
            *eta = reals(FILMS), *grad_eta = reals(FILMS);
    pu_op Gamma = pu_op_identity(D), Phi = pu_op_dense(FILMS, D, phi);
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_gradient_result out;
    double worst = 0;
    size_t s;
    pu_int i;
    pu_normals(1, 0, 0, 0, 3, 0, FILMS * D, phi);
    for (i = 0; i < FILMS * D; i++) phi[i] *= PU_R(0.1);
    for (i = 0; i < FILMS; i++) psi[i] = PU_R(1.2);
    model.eta = eta, model.psi = psi;
    memset(&out, 0, sizeof out);
    out.Phi = grad, out.psi = grad_psi, out.eta = grad_eta;
    printf("\nfactor analysis, D = %d, K = 10, I = 10, output gradient, CG, 1 thread, %s; ms per user\n", (int)D,
           sizeof(pu_real) == 4 ? "float" : "double");
    printf("%8s %6s %10s %10s %10s  %-10s %10s\n", "ratings", "users", "dual", "CG", "auto", "chosen", "auto/best");
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const pu_int m = sizes[s], users = m > 300 ? 1 : m * D > 200000 ? 4 : 16;
        pu_int *start = (pu_int *)take((size_t)(users + 1) * sizeof *start),
               *index = (pu_int *)take((size_t)(users * m) * sizeof *index);
        pu_real *y = reals(users * m);
        pu_data data = pu_data_lists(users, FILMS, start, index, y);
        pu_options o[3];
        pu_workspace ws[3];
        pu_report report[3];
        double best[3], ratio;
        memset(ws, 0, sizeof ws);
        pu_normals(2, (uint32_t)m, 0, 0, 3, 0, users * m, y);
        for (i = 0; i < users * m; i++) { /* films at even distances, each user shifted */
            start[i / m + 1] = i + 1;
            index[i] = (i % m) * (FILMS - users) / m + i / m;
        }
        options(&o[0], PU_EXACT, PU_DUAL, 0, 10);
        options(&o[1], PU_OUTPUT, PU_ITERATIVE, 10, 10);
        options(&o[2], PU_OUTPUT, PU_ENGINE_AUTO, 10, 10);
        race(&model, &data, &out, 3, o, ws, report, 0.15, best);
        ratio = best[2] / (best[0] < best[1] ? best[0] : best[1]);
        if (ratio > worst) worst = ratio;
        printf("%8d %6d %10.4f %10.4f %10.4f  %-10s %10.2f\n", (int)m, (int)users, 1e3 * best[0] / (double)users,
               1e3 * best[1] / (double)users, 1e3 * best[2] / (double)users,
               report[2].served[PU_DUAL] == users        ? "dual"
               : report[2].served[PU_ITERATIVE] == users ? "CG"
               : report[2].served[PU_DENSE] == users     ? "dense"
                                                         : "mixed",
               ratio);
        fflush(stdout);
        for (i = 0; i < 3; i++) pu_workspace_free(&ws[i]);
        free(start), free(index), free(y);
    }
    printf("worst auto/best %.2f (target 1.15)\n", worst);
    free(phi), free(grad), free(psi), free(grad_psi), free(eta), free(grad_eta);
    return worst;
}

static void series(void)
{
    static const pu_real gamma[5] = {PU_R(0.5), PU_R(-0.4), PU_R(0.3), PU_R(-0.2), PU_R(0.1)};
    const pu_int D = 30000;
    pu_real *psi = reals(D), *y = reals(D), *grad_psi = reals(D), grad[6];
    pu_ar ar;
    pu_op Gamma, Phi;
    pu_lgm model = {NULL, NULL, NULL, NULL, NULL, 0};
    pu_gradient_result out;
    pu_options o[5];
    pu_workspace ws[5];
    pu_report report[5];
    double best[5], dense;
    static const char *const names[] = {"CG, network gradient", "CG, output gradient", "Kalman smoother", "banded", "auto"};
    pu_int i, n;
    int e;
    memset(&out, 0, sizeof out), memset(ws, 0, sizeof ws);
    out.Gamma = grad, out.psi = grad_psi;
    for (i = 0; i < D; i++) psi[i] = PU_R(2);
    pu_normals(3, 0, 0, 0, 3, 0, D, y);
    for (i = 0; i < D; i++)
        if (i % 10 == 3) y[i] = PU_R(NAN);
    model.Gamma = &Gamma, model.Phi = &Phi, model.psi = psi;
    dense = 0;
    for (n = 1000; n <= 2000; n *= 2) {
        pu_data data = pu_data_nan(1, n, y);
        (void)pu_ar_set(&ar, n, 5, gamma, PU_R(0.5), NULL);
        Gamma = pu_op_ar(&ar), Phi = pu_op_identity(n);
        options(&o[0], PU_EXACT, PU_DENSE, 0, 0);
        once(&model, &data, &o[0], &out, &ws[0], &report[0]);
        dense = once(&model, &data, &o[0], &out, &ws[0], &report[0]);
        printf("\n%s D = %d: dense %.3f s", n == 1000 ? "noisy AR(5), 10 % missing, K = 10, I = 30, 1 thread\n" : "", (int)n,
               dense);
    }
    dense *= (double)D * (double)D * (double)D / 8e9;
    printf(", i.e. about %.0f s at D = %d\n", dense, (int)D);
    (void)pu_ar_set(&ar, D, 5, gamma, PU_R(0.5), NULL);
    Gamma = pu_op_ar(&ar), Phi = pu_op_identity(D);
    options(&o[0], PU_NETWORK, PU_ITERATIVE, 10, 30);
    options(&o[1], PU_OUTPUT, PU_ITERATIVE, 10, 30);
    options(&o[2], PU_EXACT, PU_KALMAN, 0, 0);
    options(&o[3], PU_EXACT, PU_BANDED, 0, 0);
    options(&o[4], PU_NETWORK, PU_ENGINE_AUTO, 10, 30);
    {
        pu_data data = pu_data_nan(1, D, y);
        race(&model, &data, &out, 5, o, ws, report, 0.5, best);
    }
    printf("%-24s %10s %14s %16s\n", "D = 30,000", "ms", "over banded", "NLL per step");
    for (e = 0; e < 5; e++)
        printf("%-24s %10.2f %14.1f %16.8f\n", names[e], 1e3 * best[e], best[e] / best[3], report[e].nll / (double)D);
    printf("%-24s %10.0f %14.0f   (extrapolated)\n", "dense", 1e3 * dense, dense / best[3]);
    printf("auto: %s\n", report[4].plan);
    for (e = 0; e < 5; e++) pu_workspace_free(&ws[e]);
    free(psi), free(y), free(grad_psi);
}

int main(void)
{
    factors(100);
    factors(1000);
    series();
    return 0;
}

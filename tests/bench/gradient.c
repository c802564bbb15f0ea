/* gradient.c - seconds per gradient of a factor model, by kind, size and threads.

   What to look at: the ratios. Network over output should stay near 2.5 (twice the products, plus the gradient terms of every
   step); two threads over one near 2; the dense engine grows as D^3 while the iterative one grows as D.
   Settings are printed; nothing is hidden in defaults. Best of several runs, since machines are noisy. */
#define _POSIX_C_SOURCE 199309L
#define PU_IMPLEMENTATION
#include "pu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { M = 400, N = 8, K = 10, I = 30 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best seconds of pu_gradient with these options; the first call pays for the memory and is not counted. */
static double seconds(const pu_lgm *model, const pu_data *data, const pu_options *o, const pu_gradient_result *out, pu_workspace *ws,
                      size_t *bytes)
{
    double best = 1e30, spent = 0;
    pu_report report;
    int run;
    for (run = 0; run < 20 && (run < 3 || spent < 1.5); run++) {
        double start = now(), t;
        if (pu_gradient(model, data, o, ws, out, &report) != PU_OK) {
            char text[200];
            fprintf(stderr, "gradient: %s\n", pu_explain(&report, text, sizeof text));
            exit(1);
        }
        t = now() - start;
        spent += t;
        if (run > 0 && t < best) best = t;
    }
    *bytes = report.bytes;
    return best;
}

int main(void)
{
    static const pu_int sizes[] = {100, 300, 1000};
    size_t s;
    printf("factor model, M = %d, N = %d data, a quarter of the entries missing, K = %d, I = %d, CG, %s\n\n", (int)M, (int)N,
           (int)K, (int)I, sizeof(pu_real) == 4 ? "float" : "double");
    printf("%6s %12s %12s %12s %9s %12s %9s %10s\n", "D", "output 1t", "network 1t", "network 2t", "2t/1t", "exact 2t",
           "exact/net", "MB net");
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const pu_int D = sizes[s];
        pu_real *phi = (pu_real *)malloc((size_t)(M * D) * sizeof(pu_real));
        pu_real *grad = (pu_real *)malloc((size_t)(M * D) * sizeof(pu_real));
        pu_real *y = (pu_real *)malloc((size_t)(N * M) * sizeof(pu_real));
        pu_real psi[M], grad_psi[M], grad_eta[M], eta[M];
        pu_op Gamma = pu_op_identity(D), Phi = pu_op_dense(M, D, phi);
        pu_lgm model = {&Gamma, &Phi, NULL, eta, psi, 0};
        pu_data data = pu_data_nan(N, M, y);
        pu_workspace ws;
        pu_options o;
        pu_gradient_result out;
        double t[4];
        size_t bytes = 0, other = 0;
        pu_int i;
        if (!phi || !grad || !y) return 1;
        pu_normals(1, 0, 0, 0, 0, 0, M * D, phi);
        pu_normals(2, 0, 0, 0, 0, 0, N * M, y);
        for (i = 0; i < N * M; i++)
            if (i % 4 == 1) y[i] = (pu_real)NAN;
        for (i = 0; i < M * D; i++) phi[i] /= (pu_real)sqrt((double)D);
        for (i = 0; i < M; i++) psi[i] = PU_R(2), eta[i] = PU_R(0.1);
        memset(&ws, 0, sizeof ws);
        memset(&o, 0, sizeof o);
        memset(&out, 0, sizeof out);
        out.Phi = grad, out.psi = grad_psi, out.eta = grad_eta;
        o.samples = K, o.solve.iterations = I;
        o.threads = 1, o.kind = PU_OUTPUT;
        t[0] = seconds(&model, &data, &o, &out, &ws, &other);
        o.kind = PU_NETWORK;
        t[1] = seconds(&model, &data, &o, &out, &ws, &bytes);
        o.threads = 2;
        t[2] = seconds(&model, &data, &o, &out, &ws, &other);
        o.kind = PU_EXACT;
        t[3] = seconds(&model, &data, &o, &out, &ws, &other);
        printf("%6d %12.5f %12.5f %12.5f %9.2f %12.5f %9.2f %10.1f\n", (int)D, t[0], t[1], t[2], t[1] / t[2], t[3], t[3] / t[2],
               (double)bytes / 1e6);
        pu_workspace_free(&ws);
        free(phi), free(grad), free(y);
    }
    return 0;
}

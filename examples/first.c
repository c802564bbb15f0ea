/* first.c - a first program: gradient and likelihood of a factor model with missing entries, then a fit.

   cc -O3 -march=native -fopenmp -I. examples/first.c -o first -lm        (-fopenmp is optional)

   The model is   z ~ N(0, I) in D dimensions,   y = Phi z + noise,   noise of precision psi[m] in entry m.
   Nobody sees z. The negative log-likelihood (NLL) of the y's, averaged over the data, is what a fit lowers.
*/
#define PU_IMPLEMENTATION /* in one file of a program; the others only include pu.h */
#include "pu.h"

#include <math.h>
#include <stdio.h>

enum { N = 200, M = 8, D = 2 }; /* data, entries of each, hidden dimensions */

/* Every call fills a report, and pu_explain turns it into one line: what is wrong, in which array, where. */
static int failed(pu_status status, const pu_report *report)
{
    char text[200];
    if (status == PU_OK) return 0;
    fprintf(stderr, "first: %s\n", pu_explain(report, text, sizeof text));
    return 1;
}

/* n normals. The library's probes use streams 0 to 2 of the same generator, so stream 3 is free for us. */
static void normals(uint32_t datum, uint32_t what, pu_int n, pu_real *out)
{
    pu_normals(2023, datum, what, 0, 3, 0, n, out);
}

/* Data from known parameters: y = Phi z + noise / sqrt(psi), then a fifth of the entries is lost. */
static void simulate(const pu_real *Phi, const pu_real *psi, pu_real *y)
{
    pu_real z[D], noise[M], coin[M];
    int n, m, d;
    for (n = 0; n < N; n++) {
        normals((uint32_t)n, 0, D, z);
        normals((uint32_t)n, 1, M, noise);
        normals((uint32_t)n, 2, M, coin);
        for (m = 0; m < M; m++) {
            pu_real value = noise[m] / (pu_real)sqrt((double)psi[m]);
            for (d = 0; d < D; d++) value += Phi[m * D + d] * z[d];
            y[n * M + m] = coin[m] > PU_R(0.8416) ? (pu_real)NAN : value; /* P(normal > 0.8416) = 0.2 */
        }
    }
}

int main(void)
{
    pu_real true_Phi[M * D], true_psi[M], Phi[M * D], psi[M], grad_Phi[M * D], grad_psi[M];
    static pu_real y[N * M];
    double start, end, truth;
    int m, i, step;

    normals(0, 3, M * D, true_Phi);
    for (m = 0; m < M; m++) true_psi[m] = PU_R(2) + PU_R(0.5) * (pu_real)m;
    simulate(true_Phi, true_psi, y);

    /* Where the fit starts. Not at Phi = 0, where the gradient of Phi vanishes by symmetry. */
    normals(1, 3, M * D, Phi);
    for (i = 0; i < M * D; i++) Phi[i] *= PU_R(0.3);
    for (m = 0; m < M; m++) psi[m] = PU_R(1);

    /* The model borrows Phi and psi: change their numbers, and the next call sees the new ones. */
    pu_op prior = pu_op_identity(D), map = pu_op_dense(M, D, Phi);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0}; /* prior mean and offset: NULL means zero */
    pu_data data = pu_data_nan(N, M, y);            /* NaN marks a missing entry */

    /* Zeroed options are the defaults: the network gradient, 10 probes, 30 steps of conjugate gradients.
       These arrive at the exact solution after D steps, so here D are enough. */
    pu_options options = {0};
    pu_options dense = {0}; /* no probes, no solver: exact, at D^3 per datum */
    pu_gradient_result out = {0};   /* the arrays we want filled, the rest stays NULL */
    pu_workspace ws = {0};  /* keeps the memory from call to call; without it each call allocates */
    pu_report report;
    options.solve.iterations = D;
    dense.engine = PU_DENSE;
    out.Phi = grad_Phi;
    out.psi = grad_psi;

    if (failed(pu_nll(&model, &data, &dense, &ws, &start, NULL, &report), &report)) return 1;
    if (failed(pu_gradient(&model, &data, &options, &ws, &out, &report), &report)) return 1;
    printf("at the start   d NLL / d Phi[0] = %.4f, d NLL / d psi[0] = %.4f\n", (double)grad_Phi[0],
           (double)grad_psi[0]);
    printf("               NLL = %.4f +- %.4f from %d probes, exactly %.4f\n\n", report.nll, report.nll_se,
           (int)report.samples, start);

    /* Plain gradient descent. options.step stays the same, hence so do the probes, and what goes down is a
       smooth function; counting it up would give fresh probes, as a stochastic optimiser wants them.
       psi must stay positive: descend in log psi, where d NLL / d log psi = psi d NLL / d psi. */
    for (step = 1; step <= 200; step++) {
        const pu_real rate = PU_R(0.2);
        if (failed(pu_gradient(&model, &data, &options, &ws, &out, &report), &report)) return 1;
        for (i = 0; i < M * D; i++) Phi[i] -= rate * grad_Phi[i];
        for (m = 0; m < M; m++) psi[m] *= (pu_real)exp((double)(-rate * psi[m] * grad_psi[m]));
        if (step % 40 == 0) printf("step %3d       NLL = %.4f +- %.4f\n", step, report.nll, report.nll_se);
    }

    if (failed(pu_nll(&model, &data, &dense, &ws, &end, NULL, &report), &report)) return 1;
    map.data = true_Phi; /* the same model with other numbers */
    model.psi = true_psi;
    if (failed(pu_nll(&model, &data, &dense, &ws, &truth, NULL, &report), &report)) return 1;
    pu_workspace_free(&ws);

    printf("\nexact NLL      %.4f at the start, %.4f after the fit, %.4f at the truth\n", start, end, truth);
    printf("noise          true precision / fitted:");
    for (m = 0; m < M; m++) printf("  %.1f / %.1f", (double)true_psi[m], (double)psi[m]);
    printf("\n");
    if (!(end < start)) {
        fprintf(stderr, "first: the fit did not lower the NLL\n");
        return 1;
    }
    if (fflush(stdout) || ferror(stdout)) { /* a full disk, say: output that is lost is no success */
        fprintf(stderr, "first: writing failed\n");
        return 1;
    }
    return 0;
}

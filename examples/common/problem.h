/* problem.h - a random latent Gaussian model with data, for the examples that measure something.

   Gamma = diag(gamma) with gamma from 1 to 30, evenly in the logarithm; Phi dense, its entries normal with
   variance 1 / D; psi from 2 to 4; a fifth of the entries of y missing. The spread of gamma is what makes the
   diagonal preconditioner of PCG worth having. Include after pu.h and program.h.
*/
#ifndef EXAMPLES_PROBLEM_H
#define EXAMPLES_PROBLEM_H

#include <math.h>

typedef struct { /* holds pointers to itself: do not copy */
    pu_int D, M, N;
    pu_int params; /* length of the stacked gradient [gamma | Phi | psi] */
    pu_real *gamma, *Phi, *psi, *y;
    pu_op prior, map;
    pu_lgm model;
    pu_data data;
    pu_workspace ws;
} problem;

/* n normals; the library's probes use streams 0 to 2 of this generator, so that stream 3 is free. */
static inline void normals(uint64_t seed, pu_int datum, uint32_t what, pu_int n, pu_real *out)
{
    pu_normals(seed, (uint32_t)datum, what, 0, 3, 0, n, out);
}

/* One datum y = Phi z + noise of precision psi, a fifth of it then lost: P(normal > 0.8416) = 0.2. */
static inline void observe(uint64_t seed, pu_int datum, pu_int M, pu_int D, const pu_real *Phi,
                           const pu_real *psi, const pu_real *z, pu_real *y)
{
    pu_int m, d;
    for (m = 0; m < M; m++) {
        pu_real draw[2], value;
        pu_normals(seed, (uint32_t)datum, 1, 0, 3, (uint64_t)(2 * m), 2, draw);
        value = draw[0] / (pu_real)sqrt((double)psi[m]);
        for (d = 0; d < D; d++) value += Phi[m * D + d] * z[d];
        y[m] = draw[1] > PU_R(0.8416) ? (pu_real)NAN : value;
    }
}

static inline void problem_open(problem *p, pu_int D, pu_int M, pu_int N, uint64_t seed)
{
    pu_real *z;
    pu_int i, n;
    memset(p, 0, sizeof *p);
    p->D = D, p->M = M, p->N = N, p->params = D + M * D + M;
    p->gamma = need_reals(p->params + N * M + D);
    p->Phi = p->gamma + D, p->psi = p->Phi + M * D, p->y = p->psi + M, z = p->y + N * M;
    for (i = 0; i < D; i++) p->gamma[i] = (pu_real)pow(30, (double)i / (double)(D > 1 ? D - 1 : 1));
    for (i = 0; i < M; i++) p->psi[i] = PU_R(2) + PU_R(2) * (pu_real)i / (pu_real)M;
    normals(seed, 0, 2, M * D, p->Phi);
    for (i = 0; i < M * D; i++) p->Phi[i] /= (pu_real)sqrt((double)D);
    for (n = 0; n < N; n++) {
        /* z ~ N(0, 4 I), wider than the prior says. At the true parameters the gradient would be mostly noise
           and an error relative to it would mean little; in the midst of a fit it is not. */
        normals(seed, n, 0, D, z);
        for (i = 0; i < D; i++) z[i] *= PU_R(2);
        observe(seed, n, M, D, p->Phi, p->psi, z, p->y + n * M);
    }
    p->prior = pu_op_diagonal(D, p->gamma), p->map = pu_op_dense(M, D, p->Phi);
    p->model.Gamma = &p->prior, p->model.Phi = &p->map, p->model.psi = p->psi;
    p->data = pu_data_nan(N, M, p->y);
}

static inline void problem_close(problem *p)
{
    pu_workspace_free(&p->ws);
    free(p->gamma); /* the start of the one block */
}

/* The gradient in all parameters, stacked. */
static inline void problem_gradient(problem *p, const pu_options *options, pu_real *grad, pu_report *report)
{
    pu_gradient_result out;
    memset(&out, 0, sizeof out);
    out.Gamma = grad, out.Phi = grad + p->D, out.psi = grad + p->D + p->M * p->D;
    need(pu_gradient(&p->model, &p->data, options, &p->ws, &out, report), report);
}

#endif /* EXAMPLES_PROBLEM_H */

/* error_problems.h - three small models for tests of what is said about errors (test_standard_errors.c, test_tuning.c):
   a noisy autoregression, factor analysis and compressed sensing. Include after pu_test.h and test_common.h. */
#ifndef ERROR_PROBLEMS_H
#define ERROR_PROBLEMS_H

typedef struct {
    const char *name;
    pu_ar ar;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
    pu_fourier fourier;
    pu_real *alpha;
    pu_int iterations;
} problem;

PU_TEST_FN void gaps(pu_int n, pu_real *y, uint64_t seed)
{
    pu_int i;
    for (i = 0; i < n; i++)
        if (tc_hash(seed + (uint64_t)i) % 5 == 0) y[i] = PU_R(NAN);
}

PU_TEST_FN void common(problem *p, const char *name, pu_int n, pu_real precision, uint64_t seed)
{
    const pu_int M = p->Phi.rows;
    pu_real *psi = tc_reals(M), *y = tc_normal(seed, n * M);
    tc_fill(M, psi, precision);
    gaps(n * M, y, seed);
    p->name = name;
    p->lgm.Gamma = &p->Gamma, p->lgm.Phi = &p->Phi, p->lgm.psi = psi;
    p->data = pu_data_nan(n, M, y);
}

PU_TEST_FN void noisy_ar(problem *p)
{
    const pu_real gamma[3] = {PU_R(0.6), PU_R(-0.4), PU_R(0.2)};
    memset(p, 0, sizeof *p);
    (void)pu_ar_set(&p->ar, 120, 3, gamma, PU_R(0.5), NULL);
    p->Gamma = pu_op_ar(&p->ar), p->Phi = pu_op_identity(120);
    p->iterations = 40;
    common(p, "noisy AR", 2, PU_R(2), 11);
}

PU_TEST_FN void factors(problem *p)
{
    pu_real *Phi = tc_normal(3, 60 * 12);
    memset(p, 0, sizeof *p);
    p->Gamma = pu_op_identity(12), p->Phi = pu_op_dense(60, 12, Phi);
    p->iterations = 20;
    common(p, "factor analysis", 4, PU_R(0.5), 12);
}

/* Fourier compressed sensing after pruning: nine of ten coefficients have a large alpha, the rest 1. Both parts of a frequency
   are seen or not. */
PU_TEST_FN int sensing(problem *p, pu_int side, pu_real pruned)
{
    const pu_int D = side * side;
    size_t bytes = 0;
    pu_int i;
    pu_real *y;
    memset(p, 0, sizeof *p);
    if (pu_fourier_bytes(side, side, &bytes) || pu_fourier_init(&p->fourier, side, side, tc_bytes(bytes), bytes)) return 0;
    p->alpha = tc_reals(D);
    for (i = 0; i < D; i++) p->alpha[i] = tc_hash((uint64_t)i) % 10 == 0 ? PU_R(1) : pruned;
    p->Gamma = pu_op_diagonal(D, p->alpha), p->Phi = pu_op_fourier(&p->fourier);
    p->iterations = 60;
    common(p, "compressed sensing", 2, PU_R(50), 13);
    y = (pu_real *)(uintptr_t)p->data.y;
    for (i = 0; i < 2 * 2 * D; i++) {
        y[i] = PU_R(0.1) * (pu_real)((double)(tc_hash((uint64_t)i + 99) % 1000) / 500 - 1);
        if (tc_hash((uint64_t)(i % D) + 5) % 2) y[i] = PU_R(NAN);
    }
    return 1;
}

PU_TEST_FN pu_options options_for(const problem *p, pu_kind kind, pu_int K)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind, o.samples = K, o.solve.iterations = p->iterations, o.seed = 1;
    return o;
}

#endif /* ERROR_PROBLEMS_H */

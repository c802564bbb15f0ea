/* ar.h - the parameters of a noisy autoregression: truths to simulate from, natural values, errors. theta is
   [atanh gamma | log kappa | log lambda], as pu_model_noisy_ar has it. Include after pu.h, program.h and series.h. */
#ifndef EXAMPLES_AR_H
#define EXAMPLES_AR_H

/* The natural values that somebody wants to read: phi, kappa, lambda. */
static inline void ar_natural(const pu_model *model, const pu_real *theta, pu_real *x)
{
    const pu_ar *ar = pu_model_get_ar(model); /* as of the last pu_model_set */
    memcpy(x, ar->phi, (size_t)ar->order * sizeof(pu_real));
    x[ar->order] = ar->kappa, x[ar->order + 1] = (pu_real)exp((double)theta[ar->order + 1]);
}

/* phi of an autoregression and its derivatives J (P x P), J_jp = d phi_j / d atanh gamma_p, by differentiating
   phi^(k)_j = phi^(k-1)_j - gamma_k phi^(k-1)_{k-j}, phi^(k)_k = gamma_k. */
static inline void ar_derivatives(int P, const pu_real *gamma, double *phi, double *J)
{
    double *d = (double *)need_bytes((size_t)(3 * P + 1) * sizeof *d), *old = d + P, *d_old = old + P;
    int p, k, j;
    for (p = 0; p < P; p++) {
        for (k = 0; k < P; k++) {
            const double g = (double)gamma[k], dg = k == p ? 1 - g * g : 0;
            memcpy(old, phi, (size_t)k * sizeof *phi), memcpy(d_old, d, (size_t)k * sizeof *d);
            for (j = 0; j < k; j++) {
                phi[j] = old[j] - g * old[k - 1 - j];
                d[j] = d_old[j] - g * d_old[k - 1 - j] - dg * old[k - 1 - j];
            }
            phi[k] = g, d[k] = dg;
        }
        for (j = 0; j < P; j++) J[j * P + p] = d[j];
    }
    free(d);
}

/* As the paper draws its truths: gamma_p uniform in (-1, 1), kappa and lambda uniform in the logarithm from 0.1 to 10. Of orders
   that it does not have, gamma is smaller, for a variance of a few kappa. */
static inline void ar_truth(int P, uint64_t seed, pu_real *theta)
{
    const double most = P > PU_AR_MAX ? sqrt(3.0 / P) : 1;
    int i;
    for (i = 0; i < P; i++) {
        const double gamma = most * (2 * series_uniform(seed, 0, (uint64_t)i) - 1);
        theta[i] = (pu_real)(log((1 + gamma) / (1 - gamma)) / 2);
    }
    for (i = P; i < P + 2; i++) theta[i] = (pu_real)(log(0.1) + log(100.0) * series_uniform(seed, 0, (uint64_t)i));
}

/* |estimate - truth| / |truth| in percent, of phi, kappa and lambda */
static inline void ar_errors(int P, const pu_real *x, const pu_real *truth, double *error)
{
    error[0] = 100 * relative_error(P, x, truth);
    error[1] = 100 * relative_error(1, x + P, truth + P), error[2] = 100 * relative_error(1, x + P + 1, truth + P + 1);
}

#endif /* EXAMPLES_AR_H */

/* effects_reference.h - designs of mixed effects at random, and what follows from V = sigma^2 I + sum_g sigma_g^2 Z_g Z_g' of the
   observed rows by dense algebra in double: likelihood, its gradient, moments of the effects. Include after chance.h. */
#ifndef EFFECTS_REFERENCE_H
#define EFFECTS_REFERENCE_H

#define REF_GROUPS 4

/* What a design is made of; `fill` draws the rest. */
typedef struct {
    const char *name;
    int M, G, levels[REF_GROUPS];
    int slopes; /* bit g: group g has a covariate */
    int nested; /* group 1's levels are parts of group 0's */
    int p;
    double gaps;  /* share of missing rows */
    int repeated; /* rows come in copies of so many */
} ref_shape;

typedef struct {
    ref_shape shape;
    int D; /* all levels, and with REML p */
    pu_group group[REF_GROUPS];
    pu_real *X, *y;
    double theta[16]; /* [b | log variances | log noise] with ML; else without b */
    pu_method method;
} ref_design;

/* Levels, covariates, regressors, and y of the size of the effects that theta tells. */
PU_TEST_FN void ref_fill(ref_design *d, const ref_shape *shape, pu_method method, uint64_t seed)
{
    int M = shape->M, G = shape->G, p = shape->p, at = method == PU_ML ? p : 0;
    chance_state = seed;
    memset(d, 0, sizeof *d);
    d->shape = *shape;
    d->method = method;
    d->D = method == PU_ML ? 0 : p;
    d->X = tc_reals(M * p);
    d->y = tc_reals(M);
    for (int i = 0; i < at; i++) d->theta[i] = normal();
    for (int g = 0; g <= G; g++) d->theta[at + g] = between(-2, 1.5);
    for (int g = 0; g < G; g++) {
        int32_t *level = (int32_t *)tc_bytes((size_t)M * sizeof *level);
        pu_real *slope = tc_reals(M);
        for (int m = 0; m < M; m++) {
            level[m] = (int32_t)pick(shape->levels[g]);
            if (shape->nested && g == 1) level[m] = d->group[0].level[m] * 2 + (int32_t)pick(2);
            if (shape->repeated > 1 && m % shape->repeated) level[m] = level[m - m % shape->repeated];
            slope[m] = (pu_real)normal();
        }
        d->group[g].levels = shape->levels[g];
        d->group[g].level = level;
        d->group[g].slope = shape->slopes >> g & 1 ? slope : NULL;
        d->D += shape->levels[g];
    }
    for (int m = 0; m < M; m++) {
        for (int i = 0; i < p; i++) d->X[m * p + i] = (pu_real)(i ? normal() : 1);
        d->y[m] = (pu_real)(1 + 2 * normal());
        if (m > 0 && often(shape->gaps)) d->y[m] = (pu_real)NAN;
    }
}

typedef struct {
    double nll, grad[16];
    double *mean, *variance; /* D */
    double *fit, *fit_mean;  /* M: of every row, observed or not */
    double cond;             /* about that of A */
} ref_answer;

/* Phi of the whole z in row m; b's columns only with REML. */
PU_TEST_FN void ref_row(const ref_design *d, int m, double *phi)
{
    int at = 0;
    for (int i = 0; i < d->D; i++) phi[i] = 0;
    for (int g = 0; g < d->shape.G; g++) {
        phi[at + d->group[g].level[m]] = d->group[g].slope ? (double)d->group[g].slope[m] : 1;
        at += d->shape.levels[g];
    }
    for (int i = 0; d->method == PU_REML && i < d->shape.p; i++) phi[at + i] = (double)d->X[m * d->shape.p + i];
}

/* P = V^-1, or with REML V^-1 - V^-1 X (X'V^-1 X)^-1 X'V^-1: then
     NLL = 1/2 log det V (+ 1/2 log det X'V^-1 X) + 1/2 r'P r + n/2 log 2 pi,    d NLL / d log sigma_g^2 = sigma_g^2/2 (tr P Z Z' - |Z'P r|^2)
     u = sigma_g^2 Z'P r, variance sigma_g^2 - sigma_g^4 (Z'P Z)_ll;  b = H^-1 X'V^-1 y, H = X'V^-1 X; Sigma by A itself. */
PU_TEST_FN void ref_solve(const ref_design *d, ref_answer *out)
{
    const ref_shape *s = &d->shape;
    int n = 0, p = s->p, D = d->D, at = d->method == PU_ML ? p : 0;
    int *row = (int *)tc_bytes((size_t)s->M * sizeof *row);
    double noise = exp(d->theta[at + s->G]);
    for (int m = 0; m < s->M; m++)
        if (d->y[m] == d->y[m]) row[n++] = m;
    double *V = tc_doubles(n * n), *P = tc_doubles(n * n), *phi = tc_doubles(n * D), *r = tc_doubles(n), *Pr = tc_doubles(n);
    double *prior = tc_doubles(D), *VX = tc_doubles(n * p), *H = tc_doubles(p * p), *Hinv = tc_doubles(p * p);
    int first = 0;
    for (int g = 0; g < s->G; first += s->levels[g++])
        for (int l = 0; l < s->levels[g]; l++) prior[first + l] = exp(d->theta[at + g]);
    for (int i = 0; i < n; i++) {
        ref_row(d, row[i], phi + i * D);
        r[i] = (double)d->y[row[i]];
        for (int k = 0; k < at; k++) r[i] -= (double)d->X[row[i] * p + k] * d->theta[k];
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            V[i * n + j] = i == j ? noise : 0;
            for (int l = 0; l < D; l++) V[i * n + j] += phi[i * D + l] * prior[l] * phi[j * D + l];
        }
    if (!tc_cholesky(n, V)) exit(2);
    tc_inverse(n, V, P);
    out->nll = (tc_logdet(n, V) + n * log(6.283185307179586477)) / 2;
    if (d->method == PU_REML && p > 0) {
        for (int i = 0; i < n; i++)
            for (int k = 0; k < p; k++)
                for (int j = 0; j < n; j++) VX[i * p + k] += P[i * n + j] * (double)d->X[row[j] * p + k];
        for (int k = 0; k < p * p; k++)
            for (int i = 0; i < n; i++) H[k] += (double)d->X[row[i] * p + k / p] * VX[i * p + k % p];
        if (!tc_cholesky(p, H)) exit(2);
        tc_inverse(p, H, Hinv);
        out->nll += tc_logdet(p, H) / 2;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < p * p; k++) P[i * n + j] -= VX[i * p + k / p] * Hinv[k] * VX[j * p + k % p];
    }
    tc_matvec(n, n, P, r, Pr);
    for (int i = 0; i < n; i++) out->nll += r[i] * Pr[i] / 2;
    for (int k = 0; k < at; k++) {
        out->grad[k] = 0;
        for (int i = 0; i < n; i++) out->grad[k] -= (double)d->X[row[i] * p + k] * Pr[i];
    }
    for (int g = 0; g <= s->G; g++) {
        double sum = 0;
        int from = 0, to;
        for (int h = 0; h < g && h < s->G; h++) from += s->levels[h];
        to = g < s->G ? from + s->levels[g] : 0;
        for (int i = 0; i < n && g == s->G; i++) sum += P[i * n + i] - Pr[i] * Pr[i];
        for (int l = from; l < to && g < s->G; l++) {
            double dot = 0;
            for (int i = 0; i < n; i++) {
                dot += phi[i * D + l] * Pr[i];
                for (int j = 0; j < n && phi[i * D + l] != 0; j++) sum += phi[i * D + l] * P[i * n + j] * phi[j * D + l];
            }
            sum -= dot * dot;
        }
        out->grad[at + g] = exp(d->theta[at + g]) * sum / 2;
    }
    /* moments by A itself */
    double *A = tc_doubles(D * D), *Sigma = tc_doubles(D * D), *b = tc_doubles(D), *one = tc_doubles(D), least = HUGE_VAL;
    for (int l = 0; l < D; l++) A[l * (D + 1)] = prior[l] > 0 ? 1 / prior[l] : 0;
    for (int i = 0; i < n; i++)
        for (int l = 0; l < D; l++) {
            b[l] += phi[i * D + l] * r[i] / noise;
            for (int k = 0; k < D && phi[i * D + l] != 0; k++) A[l * D + k] += phi[i * D + l] * phi[i * D + k] / noise;
        }
    out->cond = tc_largest_eigenvalue(D, A);
    if (!tc_cholesky(D, A)) exit(2);
    tc_inverse(D, A, Sigma);
    out->cond *= tc_largest_eigenvalue(D, Sigma);
    (void)least;
    out->mean = tc_doubles(D);
    out->variance = tc_doubles(D);
    out->fit = tc_doubles(s->M);
    out->fit_mean = tc_doubles(s->M);
    tc_matvec(D, D, Sigma, b, out->mean);
    for (int l = 0; l < D; l++) out->variance[l] = Sigma[l * (D + 1)];
    for (int m = 0; m < s->M; m++) {
        ref_row(d, m, one);
        for (int k = 0; k < at; k++) out->fit_mean[m] += (double)d->X[m * p + k] * d->theta[k];
        for (int l = 0; l < D; l++) {
            out->fit_mean[m] += one[l] * out->mean[l];
            for (int k = 0; k < D; k++) out->fit[m] += one[l] * Sigma[l * D + k] * one[k];
        }
    }
}

#endif

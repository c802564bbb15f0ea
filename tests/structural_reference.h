/* structural_reference.h - structural models once more, from their definition: the series is a linear function of all shocks
   and of the diffuse first states, found by running the recursions on unit vectors. Then

     y = X delta + H w + noise,   V = H H' + sigma2 I,   delta flat

   and likelihood and posterior are dense generalised least squares in wide numbers. Nothing is shared with the library
   but the meaning of theta. */
#ifndef STRUCTURAL_REFERENCE_H
#define STRUCTURAL_REFERENCE_H

#include "wide.h"

#define REF_T 48      /* steps, at most */
#define REF_S 40      /* states */
#define REF_W 420     /* shocks in all */
#define REF_PARTS 6

typedef struct {
    int T, S, W, d, count;
    double F[REF_S][REF_S];
    double B[REF_S][REF_S], B0[REF_S][REF_S]; /* columns: shocks of a step, of the start */
    int r, r0;
    int diffuse[REF_S];
    double see[REF_PARTS][REF_S]; /* what y sees of each part */
    double sigma2;
    wide H[REF_PARTS + 1][REF_T][REF_W]; /* of the parts, and of their sum */
    wide X[REF_PARTS + 1][REF_T][REF_S];
} ref_model;

static double ref_logistic(double x) { return 1 / (1 + exp(-x)); }

/* Lower Cholesky factor in place, n x n of REF_S; the rest of the rows zero. */
static void ref_cholesky(int n, double a[REF_S][REF_S], int row, int col, double scale, const double *c)
{
    double L[3][3] = {{0}};
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = c[i * n + j];
            for (int l = 0; l < j; l++) sum -= L[i][l] * L[j][l];
            L[i][j] = i == j ? sqrt(sum) : sum / L[j][j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[row + i][col + j] = scale * L[i][j];
}

/* e^(A x) of a generator, n x n, by its series after halving x until it is small; twice as many digits are not needed. */
static void ref_exponential(int n, const double *A, double x, double *F)
{
    double term[9], next[9];
    int halvings = 12;
    double h = x / 4096;
    for (int i = 0; i < n * n; i++) F[i] = term[i] = i % (n + 1) == 0;
    for (int k = 1; k < 20; k++) {
        for (int i = 0; i < n * n; i++) {
            next[i] = 0;
            for (int l = 0; l < n; l++) next[i] += term[i / n * n + l] * A[l * n + i % n] * h / k;
        }
        memcpy(term, next, sizeof term);
        for (int i = 0; i < n * n; i++) F[i] += term[i];
    }
    while (halvings-- > 0) {
        for (int i = 0; i < n * n; i++) {
            next[i] = 0;
            for (int l = 0; l < n; l++) next[i] += F[i / n * n + l] * F[l * n + i % n];
        }
        memcpy(F, next, sizeof next);
    }
}

/* A Matern part in the states f, f'/l, f''/l^2: Q = P - F P F'. Lengths of a few steps, so that this loses few digits. */
static void ref_matern(ref_model *m, int p, double variance, double x)
{
    static const double A[3][9] = {{-1}, {0, 1, -1, -2}, {0, 1, 0, 0, 0, 1, -1, -3, -3}};
    static const double P[3][9] = {{1}, {1, 0, 0, 1}, {1, 0, -1.0 / 3, 0, 1.0 / 3, 0, -1.0 / 3, 0, 1}};
    double F[9], Q[9];
    ref_exponential(p, A[p - 1], x, F);
    for (int i = 0; i < p; i++)
        for (int j = 0; j < p; j++) {
            Q[i * p + j] = P[p - 1][i * p + j];
            for (int k = 0; k < p; k++)
                for (int l = 0; l < p; l++) Q[i * p + j] -= F[i * p + k] * P[p - 1][k * p + l] * F[j * p + l];
            m->F[m->S + i][m->S + j] = F[i * p + j];
        }
    ref_cholesky(p, m->B, m->S, m->r, sqrt(variance), Q);
    ref_cholesky(p, m->B0, m->S, m->r0, sqrt(variance), P[p - 1]);
    m->r += p;
    m->r0 += p;
}

/* An autoregression from its partial autocorrelations; the start by the recursion of growing orders, oldest state last. */
static void ref_autoregression(ref_model *m, int P, const double *gamma, double kappa)
{
    double phi[32] = {0}, error[33], next[32], rows[32][32] = {{0}};
    error[P] = kappa;
    for (int i = P; i > 0; i--) error[i - 1] = error[i] / (1 - gamma[i - 1] * gamma[i - 1]);
    for (int order = 0; order < P; order++) {
        /* state `order` given those with smaller numbers, which are its neighbours in time */
        rows[order][order] = sqrt(error[order]);
        for (int l = 0; l < order; l++)
            for (int j = 1; j <= order; j++) rows[order][l] += phi[j - 1] * rows[order - j][l];
        memcpy(next, phi, sizeof next);
        for (int j = 0; j < order; j++) next[j] = phi[j] - gamma[order] * phi[order - 1 - j];
        next[order] = gamma[order];
        memcpy(phi, next, sizeof phi);
    }
    for (int j = 0; j < P; j++) {
        m->F[m->S][m->S + j] = phi[j];
        if (j > 0) m->F[m->S + j][m->S + j - 1] = 1;
        for (int l = 0; l < P; l++) m->B0[m->S + j][m->r0 + l] = rows[j][l];
    }
    m->B[m->S][m->r++] = sqrt(kappa);
    m->r0 += P;
}

/* Parts with their theta -> F, B, B0. */
static void ref_make(ref_model *m, int T, const pu_part *parts, int count, const double *theta)
{
    memset(m, 0, sizeof *m);
    m->T = T;
    m->count = count;
    for (int n = 0; n < count; n++) {
        const pu_part *p = parts + n;
        int S = m->S, states = 1, diffuse = 1;
        double root = p->constant ? 0 : exp(*theta / 2), x[34];
        switch (p->kind) {
        case PU_PART_LEVEL:
        case PU_PART_SLOPE:
            m->F[S][S] = 1;
            if (p->kind == PU_PART_SLOPE) m->F[S - 1][S] = 1;
            else m->see[n][S] = 1;
            break;
        case PU_PART_SEASON:
            states = (int)p->size - 1;
            for (int j = 0; j < states; j++) {
                m->F[S][S + j] = -1;
                if (j > 0) m->F[S + j][S + j - 1] = 1;
            }
            m->see[n][S] = 1;
            break;
        case PU_PART_SEASON_TRIG:
            states = (int)p->size - 1;
            for (int i = 0; i < states; i += 2) {
                double angle = 2 * acos(-1.0) * (i / 2 + 1) / (double)p->size;
                m->see[n][S + i] = 1;
                m->F[S + i][S + i] = cos(angle);
                if (i + 1 == states) break;
                m->F[S + i][S + i + 1] = sin(angle);
                m->F[S + i + 1][S + i] = -sin(angle);
                m->F[S + i + 1][S + i + 1] = cos(angle);
            }
            break;
        case PU_PART_CYCLE: {
            double rho = ref_logistic(theta[1]), angle = acos(-1.0) * ref_logistic(theta[2]);
            states = 2;
            diffuse = 0;
            m->see[n][S] = 1;
            for (int i = 0; i < 2; i++) {
                m->F[S + i][S + i] = rho * cos(angle);
                m->B[S + i][m->r + i] = root;
                m->B0[S + i][m->r0 + i] = root / sqrt(1 - rho * rho);
            }
            m->F[S][S + 1] = rho * sin(angle);
            m->F[S + 1][S] = -rho * sin(angle);
            m->r += 2;
            m->r0 += 2;
            theta += 3;
            break;
        }
        case PU_PART_AR:
            states = (int)p->size;
            diffuse = 0;
            m->see[n][S] = 1;
            for (int i = 0; i < states; i++) x[i] = tanh(theta[i]);
            ref_autoregression(m, states, x, exp(theta[states]));
            theta += states + 1;
            break;
        default:
            states = (int)p->kind - (int)PU_PART_MATERN12 + 1;
            diffuse = 0;
            m->see[n][S] = 1;
            ref_matern(m, states, exp(theta[0]), sqrt(2.0 * states - 1) / exp(theta[1]));
            theta += 2;
        }
        if (diffuse) {
            for (int i = 0; i < states; i++) m->diffuse[m->d++] = S + i;
            if (!p->constant) {
                int shocks = p->kind == PU_PART_SEASON_TRIG ? states : 1;
                for (int i = 0; i < shocks; i++) m->B[S + i][m->r + i] = root;
                m->r += shocks;
                theta++;
            }
        }
        m->S += states;
    }
    m->sigma2 = exp(*theta);
    m->W = m->r0 + (T - 1) * m->r;
}

/* Runs the recursions from unit vector u (a shock, or past them a diffuse state), and writes what the parts make of it. */
static void ref_response(ref_model *m, int u, wide *to_part, int stride, int width)
{
    wide s[REF_S] = {0}, next[REF_S];
    for (int t = 0; t < m->T; t++) {
        for (int i = 0; i < m->S; i++) {
            next[i] = 0;
            for (int j = 0; j < m->S; j++) next[i] += (wide)m->F[i][j] * s[j];
            if (t == 0 && u < m->r0) next[i] += (wide)m->B0[i][u];
            if (t == 0 && u >= m->W && m->diffuse[u - m->W] == i) next[i] += 1;
            if (t > 0 && u < m->W && u >= m->r0 && (u - m->r0) / m->r == t - 1) next[i] += (wide)m->B[i][(u - m->r0) % m->r];
        }
        memcpy(s, next, sizeof s);
        for (int n = 0; n <= m->count; n++) {
            wide sum = 0;
            for (int i = 0; i < m->S; i++)
                for (int part = 0; part < m->count; part++)
                    if (part == n || n == m->count) sum += (wide)m->see[part][i] * s[i];
            to_part[(n * stride + t) * width] = sum;
        }
    }
}

static void ref_responses(ref_model *m)
{
    for (int u = 0; u < m->W; u++) ref_response(m, u, &m->H[0][0][u], REF_T, REF_W);
    for (int j = 0; j < m->d; j++) ref_response(m, m->W + j, &m->X[0][0][j], REF_T, REF_S);
}

/* L L' = A in place, n x n with rows of `ld`; log det. Returns 0 when a pivot is not positive. */
static int ref_factor(int n, int ld, wide *A, double *logdet)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            wide sum = A[i * ld + j];
            for (int l = 0; l < j; l++) sum -= A[i * ld + l] * A[j * ld + l];
            if (i == j) {
                double guess = sqrt((double)sum);
                wide root = guess;
                if (!(sum > 0)) return 0;
                for (int k = 0; k < 3; k++) root = (root + sum / root) / 2;
                A[i * ld + i] = root;
                *logdet += 2 * log((double)root);
            } else A[i * ld + j] = sum / A[j * ld + j];
        }
    return 1;
}

/* x = L^-1 x */
static void ref_forward(int n, int ld, const wide *L, wide *x)
{
    for (int i = 0; i < n; i++) {
        for (int l = 0; l < i; l++) x[i] -= L[i * ld + l] * x[l];
        x[i] /= L[i * ld + i];
    }
}

typedef struct {
    double nll;
    double mean[REF_PARTS + 1][REF_T], variance[REF_PARTS + 1][REF_T];
} ref_result;

/* Likelihood of y, NaN where missing, and the posterior of every part and of their sum. Returns 0 where the data do not identify
   the diffuse states. */
static int ref_run(ref_model *m, const double *y, int posterior, ref_result *out)
{
    static wide V[REF_T * REF_T], HV[REF_T][REF_W], XV[REF_S][REF_T], A[REF_S * REF_S];
    wide e[REF_T], b[REF_S];
    int seen[REF_T], n = 0, all = m->count;
    double logdet = 0, logdet_A = 0;
    wide square = 0;
    ref_responses(m);
    for (int t = 0; t < m->T; t++)
        if (y[t] == y[t]) seen[n++] = t;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            wide sum = i == j ? (wide)m->sigma2 : 0;
            for (int u = 0; u < m->W; u++) sum += m->H[all][seen[i]][u] * m->H[all][seen[j]][u];
            V[i * REF_T + j] = sum;
        }
        e[i] = (wide)y[seen[i]];
    }
    if (!ref_factor(n, REF_T, V, &logdet)) return 0;
    ref_forward(n, REF_T, V, e);
    for (int j = 0; j < m->d; j++) {
        for (int i = 0; i < n; i++) XV[j][i] = m->X[all][seen[i]][j];
        ref_forward(n, REF_T, V, XV[j]);
        b[j] = 0;
        for (int i = 0; i < n; i++) b[j] += XV[j][i] * e[i];
        for (int l = 0; l <= j; l++) {
            A[j * REF_S + l] = 0;
            for (int i = 0; i < n; i++) A[j * REF_S + l] += XV[j][i] * XV[l][i];
        }
    }
    if (!ref_factor(m->d, REF_S, A, &logdet_A)) return 0;
    ref_forward(m->d, REF_S, A, b);
    for (int i = 0; i < n; i++) square += e[i] * e[i];
    for (int j = 0; j < m->d; j++) square -= b[j] * b[j];
    out->nll = ((double)square + logdet + logdet_A + n * log(2 * acos(-1.0))) / 2;
    if (!posterior) return 1;
    /* delta = L'^-1 b; residual L^-1 (y - X delta) */
    for (int j = m->d - 1; j >= 0; j--) {
        for (int l = j + 1; l < m->d; l++) b[j] -= A[l * REF_S + j] * b[l];
        b[j] /= A[j * REF_S + j];
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m->d; j++) e[i] -= XV[j][i] * b[j];
    for (int u = 0; u < m->W; u++) {
        wide column[REF_T];
        for (int i = 0; i < n; i++) column[i] = m->H[all][seen[i]][u];
        ref_forward(n, REF_T, V, column);
        for (int i = 0; i < n; i++) HV[i][u] = column[i];
    }
    for (int part = 0; part <= all; part++)
        for (int t = 0; t < m->T; t++) {
            wide mean = 0, variance = 0, open[REF_S], seen_by[REF_T];
            for (int i = 0; i < n; i++) {
                seen_by[i] = 0;
                for (int u = 0; u < m->W; u++) seen_by[i] += HV[i][u] * m->H[part][t][u];
                mean += seen_by[i] * e[i];
                variance -= seen_by[i] * seen_by[i];
            }
            for (int u = 0; u < m->W; u++) variance += m->H[part][t][u] * m->H[part][t][u];
            for (int j = 0; j < m->d; j++) {
                open[j] = m->X[part][t][j];
                mean += open[j] * b[j];
                for (int i = 0; i < n; i++) open[j] -= seen_by[i] * XV[j][i];
            }
            ref_forward(m->d, REF_S, A, open);
            for (int j = 0; j < m->d; j++) variance += open[j] * open[j];
            out->mean[part][t] = (double)mean;
            out->variance[part][t] = (double)variance;
        }
    return 1;
}

#endif

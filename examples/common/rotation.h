/* rotation.h - loadings in coordinates that can be read: a likelihood of factors does not see rotations of them.

       rotation_find(kind, M, D, L, psi);                  L (Phi, M x D) is turned into coordinates of this kind:
       ROTATION_CANONICAL   Phi' diag(psi) Phi is diagonal, the largest first (of probabilistic PCA: the principal axes)
       ROTATION_VARIMAX     Kaiser's varimax of normalised rows; the column with the largest sum of squares first
       rotation_errors(..)                                 standard errors of the turned loadings

   The sum of every column is positive. psi: M. Include after program.h. */
#ifndef EXAMPLES_ROTATION_H
#define EXAMPLES_ROTATION_H

enum { ROTATION_CANONICAL, ROTATION_VARIMAX };

/* Columns p and q of the M x D matrix are turned by an angle in their plane. */
static inline void rotation_turn(pu_int M, pu_int D, double *L, pu_int p, pu_int q, double angle)
{
    const double c = cos(angle), s = sin(angle);
    pu_int i;
    for (i = 0; i < M; i++) {
        const double x = L[i * D + p], y = L[i * D + q];
        L[i * D + p] = c * x + s * y, L[i * D + q] = c * y - s * x;
    }
}

/* One-sided Jacobi: columns p and q become orthogonal under the weights w, the longer one first. Returns the angle. */
static inline double rotation_canonical_pair(pu_int M, pu_int D, double *L, const double *w, pu_int p, pu_int q)
{
    double a = 0, b = 0, c = 0, angle;
    pu_int i;
    for (i = 0; i < M; i++) {
        const double x = L[i * D + p], y = L[i * D + q];
        a += w[i] * x * x, b += w[i] * y * y, c += w[i] * x * y;
    }
    if (fabs(c) <= 1e-15 * sqrt(a * b) && a >= b) return 0;
    angle = 0.5 * atan2(2 * c, a - b);
    rotation_turn(M, D, L, p, q, angle);
    return angle;
}

/* Kaiser's angle, which maximises the variance of the squares of columns p and q; rows have the weights w. */
static inline double rotation_varimax_pair(pu_int M, pu_int D, double *L, const double *w, pu_int p, pu_int q)
{
    double a = 0, b = 0, c = 0, d = 0, angle;
    pu_int i;
    for (i = 0; i < M; i++) {
        const double x = L[i * D + p], y = L[i * D + q], u = w[i] * (x * x - y * y), v = 2 * w[i] * x * y;
        a += u, b += v, c += u * u - v * v, d += 2 * u * v;
    }
    angle = atan2(d - 2 * a * b / (double)M, c - (a * a - b * b) / (double)M) / 4;
    rotation_turn(M, D, L, p, q, angle);
    return angle;
}

/* Turns L from near its end, or from anywhere, without changing signs or order more than that takes. work: M */
static inline void rotation_refine(int kind, pu_int M, pu_int D, double *L, const double *psi, double *work)
{
    double most = 1;
    pu_int i, p, q;
    int sweep;
    for (i = 0; i < M; i++) {
        double square = 0;
        for (p = 0; p < D; p++) square += L[i * D + p] * L[i * D + p];
        work[i] = kind == ROTATION_CANONICAL ? psi[i] : square > 0 ? 1 / square : 0;
    }
    for (sweep = 0; sweep < 500 && most > 1e-11; sweep++)
        for (p = 0, most = 0; p < D; p++)
            for (q = p + 1; q < D; q++)
                most = fmax(most, fabs(kind == ROTATION_CANONICAL ? rotation_canonical_pair(M, D, L, work, p, q)
                                                                  : rotation_varimax_pair(M, D, L, work, p, q)));
}

/* Columns in order of their strength, each with a positive sum. */
static inline void rotation_sort(pu_int M, pu_int D, double *L, const double *weight)
{
    pu_int p, q, i;
    for (p = 0; p < D; p++) {
        double best = -1, sum = 0;
        pu_int at = p;
        for (q = p; q < D; q++) {
            double strength = 0;
            for (i = 0; i < M; i++) strength += weight[i] * L[i * D + q] * L[i * D + q];
            if (strength > best * (1 + 1e-12)) best = strength, at = q;
        }
        for (i = 0; i < M; i++) {
            const double x = L[i * D + at];
            L[i * D + at] = L[i * D + p], L[i * D + p] = x;
            sum += x;
        }
        for (i = 0; i < M && sum < 0; i++) L[i * D + p] = -L[i * D + p];
    }
}

static inline void rotation_find(int kind, pu_int M, pu_int D, double *L, const double *psi)
{
    double *work = (double *)need_bytes((size_t)M * sizeof *work);
    pu_int i;
    rotation_refine(ROTATION_CANONICAL, M, D, L, psi, work);
    rotation_sort(M, D, L, psi);
    if (kind == ROTATION_VARIMAX) {
        rotation_refine(kind, M, D, L, psi, work);
        for (i = 0; i < M; i++) work[i] = 1;
        rotation_sort(M, D, L, work);
    }
    free(work);
}

/* ---- standard errors ---- */

/* Coordinates in which all that is left of Phi can be estimated: those in which D rows, `pivot`, are a lower triangle. Q (D x D) turns L
   into them: T = L Q. */
static inline void rotation_triangle(pu_int M, pu_int D, const double *L, pu_int *pivot, double *Q, double *T)
{
    double *rest = (double *)need_bytes((size_t)(M * D) * sizeof *rest);
    pu_int i, k, d, e;
    memcpy(rest, L, (size_t)(M * D) * sizeof *rest);
    for (k = 0; k < D; k++) {
        double most = -1;
        for (i = 0; i < M; i++) {
            double square = 0;
            for (d = 0; d < D; d++) square += rest[i * D + d] * rest[i * D + d];
            if (square > most) most = square, pivot[k] = i;
        }
        for (d = 0; d < D; d++) Q[d * D + k] = rest[pivot[k] * D + d] / sqrt(most);
        for (i = 0; i < M; i++) {
            double along = 0;
            for (d = 0; d < D; d++) along += rest[i * D + d] * Q[d * D + k];
            for (d = 0; d < D; d++) rest[i * D + d] -= along * Q[d * D + k];
        }
    }
    for (i = 0; i < M; i++)
        for (e = 0; e < D; e++)
            for (T[i * D + e] = 0, d = 0; d < D; d++) T[i * D + e] += L[i * D + d] * Q[d * D + e];
    for (k = 0; k < D; k++)
        for (e = k + 1; e < D; e++) T[pivot[k] * D + e] = 0;
    free(rest);
}

/* The turned loadings that belong to T and psi, near those it was made of. */
static inline void rotation_back(int kind, pu_int M, pu_int D, const double *T, const double *psi, const double *Q, double *L, double *work)
{
    pu_int i, d, e;
    for (i = 0; i < M; i++)
        for (d = 0; d < D; d++)
            for (L[i * D + d] = 0, e = 0; e < D; e++) L[i * D + d] += T[i * D + e] * Q[d * D + e];
    rotation_refine(kind, M, D, L, psi, work);
}

/* Variances of the turned loadings L (M x D) by the delta method: derivatives by differences of the way back. C: covariance of the free
   entries among T (M x D) and log psi (M, after it), place[i] is the number of entry i in C, -1 where it is fixed. tied: log psi is one
   number, and the turned loadings do not depend on it. */
static inline void rotation_errors(int kind, pu_int M, pu_int D, double *T, double *psi, const double *Q, const pu_int *place, pu_int n,
                                   const pu_real *C, int tied, double *variance)
{
    const pu_int count = M * D, all = count + (tied || kind == ROTATION_VARIMAX ? 0 : M);
    double *J = (double *)need_bytes((size_t)(count * n) * sizeof *J), *L = (double *)need_bytes((size_t)count * sizeof *L);
    double *work = (double *)need_bytes((size_t)M * sizeof *work), *row = (double *)need_bytes((size_t)n * sizeof *row), largest = 0;
    pu_int i, j, k, l;
    int side;
    for (i = 0; i < count; i++) largest = fmax(largest, fabs(T[i]));
    for (i = 0; i < all; i++) {
        double *entry = i < count ? T + i : psi + (i - count);
        const double kept = *entry, step = i < count ? 1e-4 * largest : 1e-4;
        if (place[i] < 0) continue;
        for (side = -1; side < 2; side += 2) {
            *entry = i < count ? kept + side * step : kept * exp(side * step);
            rotation_back(kind, M, D, T, psi, Q, L, work);
            for (k = 0; k < count; k++) J[k * n + place[i]] += side * L[k] / (2 * step);
        }
        *entry = kept;
    }
    for (k = 0; k < count; k++) {
        variance[k] = 0;
        for (j = 0; j < n; j++) { /* C is NaN where an entry is not identified, which matters only where it enters */
            const double weight = J[k * n + j];
            for (row[j] = 0, l = 0; l < n && fabs(weight) > 1e-10; l++)
                if (fabs(J[k * n + l]) > 1e-10) row[j] += (double)C[j * n + l] * J[k * n + l];
            variance[k] += weight * row[j];
        }
    }
    free(J), free(L), free(work), free(row);
}

#endif /* EXAMPLES_ROTATION_H */

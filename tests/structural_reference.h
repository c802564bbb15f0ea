/* structural_reference.h - structural models once more, in wide numbers. Every part is a Gaussian process whose covariance K is
   known in closed form, once the shocks of its recursion are summed up, and X tells what its diffuse first states add to y:

     y = eta + X delta + e,   e ~ N(0, V),   V = sum K + sigma2 I,   delta flat;   sigma2 = 0 with PU_PART_NO_IRREGULAR

   Likelihood, gradients and posterior are dense generalised least squares. No chain, state or shock is in here: nothing is
   shared with the library but the meaning of theta. Functions of wide numbers are series, for there need not be a library of
   them. */
#ifndef STRUCTURAL_REFERENCE_H
#define STRUCTURAL_REFERENCE_H

#include "wide.h"

#define REF_T      32 /* steps, at most */
#define REF_D      32 /* diffuse states */
#define REF_PARTS  6
#define REF_PARAMS 48
#define REF_ORDER  16 /* of an autoregression */

/* ---- functions of wide numbers ---- */

static wide ref_abs(wide x) { return x < 0 ? -x : x; }
static wide ref_max(wide a, wide b) { return a > b ? a : b; }

/* Steps of Newton double the digits of a root in double. */
static wide ref_sqrt(wide x)
{
    wide root;
    if (!(x > 0)) return 0;
    root = (wide)sqrtl((long double)x);
    for (int k = 0; k < 2; k++) root = (root + x / root) / 2;
    return root;
}

/* Its series, after halving x until it is below 1/2. */
static wide ref_exp(wide x)
{
    wide sum = 1, term = 1;
    int halvings = 0;
    for (; ref_abs(x) > 0.5 && halvings < 60; halvings++) x /= 2;
    for (int k = 1; k < 32; k++) {
        term *= x / k;
        sum += term;
    }
    while (halvings-- > 0) sum *= sum;
    return sum;
}

/* cos x and sin x likewise, doubled as a complex number. */
static void ref_turn(wide x, wide *c, wide *s)
{
    wide term = 1;
    int halvings = 0;
    for (; ref_abs(x) > 0.5; halvings++) x /= 2;
    *c = 1;
    *s = 0;
    for (int k = 1; k < 32; k++) {
        term *= x / k;
        if (k % 2) *s += k % 4 == 1 ? term : -term;
        else *c += k % 4 == 0 ? term : -term;
    }
    while (halvings-- > 0) {
        wide both = *c * *s;
        *c = *c * *c - *s * *s;
        *s = 2 * both;
    }
}

static wide ref_arctan_of_inverse(int n)
{
    wide sum = 0, power = (wide)1 / n;
    for (int k = 1; k < 100; k += 2) {
        sum += k % 4 == 1 ? power / k : -power / k;
        power /= n * n;
    }
    return sum;
}

/* Machin's formula. */
static wide ref_pi(void)
{
    static wide pi;
    if (pi == 0) pi = 16 * ref_arctan_of_inverse(5) - 4 * ref_arctan_of_inverse(239);
    return pi;
}

static wide ref_logistic(wide x) { return 1 / (1 + ref_exp(-x)); }
static wide ref_tanh(wide x) { return 2 * ref_logistic(2 * x) - 1; }

/* ---- parts ---- */

static int ref_states(const pu_part *p)
{
    switch (p->kind) {
    case PU_PART_LEVEL:
    case PU_PART_SLOPE: return 1;
    case PU_PART_CYCLE: return 2;
    case PU_PART_AR:
    case PU_PART_MA: return (int)p->size;
    case PU_PART_SEASON:
    case PU_PART_SEASON_TRIG: return (int)p->size - 1;
    default: return (int)p->kind - (int)PU_PART_MATERN12 + 1;
    }
}

static int ref_is_diffuse(const pu_part *p) { return p->kind <= PU_PART_SEASON_TRIG; }

/* Is part n a moving average of the autoregression before it? */
static int ref_joins(const pu_part *parts, int n)
{
    return n > 0 && parts[n].kind == PU_PART_MA && parts[n - 1].kind == PU_PART_AR;
}

static int ref_part_params(const pu_part *parts, int n)
{
    const pu_part *p = parts + n;
    if (p->kind == PU_PART_NO_IRREGULAR) return 0;
    if (ref_is_diffuse(p)) return !p->constant;
    if (p->kind == PU_PART_CYCLE) return 3;
    if (p->kind == PU_PART_AR || p->kind == PU_PART_MA) return (int)p->size + !ref_joins(parts, n);
    return 2;
}

/* Shocks of a step. */
static int ref_shocks(const pu_part *p)
{
    if (ref_is_diffuse(p) && p->constant) return 0;
    if (ref_is_diffuse(p) && p->kind != PU_PART_SEASON_TRIG) return 1;
    return p->kind == PU_PART_AR || p->kind == PU_PART_MA ? 1 : ref_states(p);
}

/* What a shock of a seasonal pattern (dummy form) adds `lag` steps later. */
static int ref_season_response(int period, int lag)
{
    if (lag < 0) return 0;
    return (lag % period == 0) - (lag % period == 1);
}

/* Autocovariances c[0] .. c[T-1] of an autoregression from its partial autocorrelations: Durbin and Levinson. */
static void ref_autoregression(int P, const wide *theta, int T, wide *c)
{
    wide phi[REF_ORDER] = {0}, error = ref_exp(theta[P]), gamma[REF_ORDER];
    for (int i = 0; i < P; i++) {
        gamma[i] = ref_tanh(theta[i]);
        error /= (1 - gamma[i]) * (1 + gamma[i]);
    }
    c[0] = error;
    for (int t = 1; t < T; t++) {
        wide next[REF_ORDER], sum = 0;
        if (t <= P) {
            /* the order grows by one */
            memcpy(next, phi, sizeof next);
            sum = gamma[t - 1] * error;
            for (int j = 1; j < t; j++) sum += phi[j - 1] * c[t - j];
            for (int j = 1; j < t; j++) next[j - 1] = phi[j - 1] - gamma[t - 1] * phi[t - 1 - j];
            next[t - 1] = gamma[t - 1];
            memcpy(phi, next, sizeof phi);
            error *= (1 - gamma[t - 1]) * (1 + gamma[t - 1]);
        } else {
            for (int j = 1; j <= P; j++) sum += phi[j - 1] * c[t - j];
        }
        c[t] = sum;
    }
}

/* Those of an ARMA, from those of its autoregression: sum_ij b_i b_j c_{k + j - i}, b = (1, theta), which the moving average's
   entries of theta, q of them, give by Levinson's recursion. log variance is behind those of the autoregression. */
static void ref_arma(int P, const wide *theta, int q, const wide *ma, const wide *log_variance, int T, wide *c)
{
    wide ar[REF_ORDER + 1], x[REF_T + REF_ORDER], b[REF_ORDER + 1] = {0}, next[REF_ORDER + 1];
    memcpy(ar, theta, (size_t)P * sizeof *ar);
    ar[P] = *log_variance;
    ref_autoregression(P, ar, T + q, x);
    b[0] = 1;
    for (int m = 1; m <= q; m++) {
        wide gamma = ref_tanh(ma[m - 1]);
        for (int j = 0; j <= m; j++) next[j] = (j < m ? b[j] : 0) + (j > 0 ? gamma * b[m - j] : 0);
        memcpy(b, next, sizeof b);
    }
    for (int k = 0; k < T; k++) {
        c[k] = 0;
        for (int i = 0; i <= q; i++)
            for (int j = 0; j <= q; j++) c[k] += b[i] * b[j] * x[k + j - i < 0 ? i - j - k : k + j - i];
    }
}

/* Autocovariances of a cycle, an autoregression or a moving average; q: of the one that has joined an autoregression. */
static void ref_stationary(const pu_part *p, int q, const wide *theta, int T, wide *c)
{
    int P = (int)p->size;
    if (p->kind == PU_PART_MA) {
        ref_arma(0, theta, P, theta, theta + P, T, c);
    } else if (p->kind == PU_PART_AR) {
        ref_arma(P, theta, q, theta + P + 1, theta + P, T, c);
    } else {
        wide rho = ref_logistic(theta[1]), cosine, sine, re = 1, im = 0;
        wide one_minus = ref_logistic(-theta[1]), scale = ref_exp(theta[0]) / (one_minus * (1 + rho));
        ref_turn(ref_pi() * ref_logistic(theta[2]), &cosine, &sine);
        for (int t = 0; t < T; t++) {
            wide old = re;
            c[t] = scale * re;
            re = rho * (cosine * re - sine * im);
            im = rho * (cosine * im + sine * old);
        }
    }
}

/* The covariance of a Matern part over a time d, in units of its length / (2 p - 1)^1/2, and of variance one. */
static wide ref_matern(int states, wide d)
{
    wide poly = 1;
    if (states > 1) poly += d;
    if (states > 2) poly += d * d / 3;
    return poly * ref_exp(-d);
}

/* What the shocks of a part do to y, T x T of rows REF_T, lower half; theta: its entries, and those of the moving average of
   order q that has joined it. times: NULL, 0, 1, 2, .. */
static void ref_covariance(const pu_part *p, int q, const wide *theta, int T, const double *times, wide *K)
{
    wide c[REF_T], variance = 0, rate = 0;
    int period = (int)p->size, matern = p->kind >= PU_PART_MATERN12 && p->kind <= PU_PART_MATERN52;
    if (matern) {
        variance = ref_exp(theta[0]);
        rate = ref_sqrt(2 * ref_states(p) - 1) * ref_exp(-theta[1]);
        for (int t = 0; !times && t < T; t++) c[t] = variance * ref_matern(ref_states(p), rate * t);
    } else if (!ref_is_diffuse(p)) ref_stationary(p, q, theta, T, c);
    else if (!p->constant) variance = ref_exp(theta[0]);
    for (int t = 0; p->kind == PU_PART_SEASON_TRIG && t < T; t++) {
        /* each harmonic a rotation: t shocks, all turned by the same angle */
        c[t] = 0;
        for (int h = 1; h <= period / 2; h++) {
            wide cosine, sine;
            ref_turn(2 * ref_pi() * (h * t % period) / period, &cosine, &sine);
            c[t] += cosine;
        }
    }
    for (int t = 0; t < T; t++)
        for (int s = 0; s <= t; s++) {
            wide sum = 0;
            switch (p->kind) {
            case PU_PART_LEVEL: sum = times ? (wide)times[s] - (wide)times[0] : s; break;
            case PU_PART_SLOPE:
                for (int u = 1; u < s; u++) sum += (t - u) * (s - u);
                break;
            case PU_PART_SEASON:
                for (int u = 1; u <= s; u++) sum += ref_season_response(period, t - u) * ref_season_response(period, s - u);
                break;
            case PU_PART_SEASON_TRIG: sum = s * c[t - s]; break;
            default:
                if (matern && times) sum = variance * ref_matern(ref_states(p), rate * ((wide)times[t] - (wide)times[s]));
                else sum = c[t - s];
            }
            K[t * REF_T + s] = ref_is_diffuse(p) ? variance * sum : sum;
        }
}

/* What first state number i of a diffuse part adds to y at step t. */
static wide ref_first_state(const pu_part *p, int i, int t)
{
    int period = (int)p->size, phase;
    wide cosine, sine;
    switch (p->kind) {
    case PU_PART_LEVEL: return 1;
    case PU_PART_SLOPE: return t;
    case PU_PART_SEASON:
        /* states: the pattern now and i steps ago; what is left is minus their sum */
        phase = t % period;
        if (phase == 1 % period) return -1;
        return (period - phase) % period == i;
    default:
        ref_turn(2 * ref_pi() * ((i / 2 + 1) * t % period) / period, &cosine, &sine);
        return i % 2 ? sine : cosine;
    }
}

/* ---- a model ---- */

typedef struct {
    int T, count, params, d, exact;
    pu_part parts[REF_PARTS];
    int first[REF_PARTS]; /* of its entries of theta */
    int own[REF_PARTS];   /* how many: with those of the moving average of order `moving` that has joined it, which has none then */
    int moving[REF_PARTS];
    wide theta[REF_PARAMS];
    const double *times; /* NULL: 0, 1, 2, .. */
    wide sigma2;
    wide K[REF_PARTS][REF_T * REF_T]; /* lower half */
    wide X[REF_D][REF_T];
    int owner[REF_D]; /* part that a diffuse state belongs to; a slope's is its level, where it is seen */
} ref_model;

static int ref_owner(const ref_model *m, int part) { return m->parts[part].kind == PU_PART_SLOPE ? part - 1 : part; }

static void ref_make(ref_model *m, int T, const double *times, const pu_part *parts, int count, const wide *theta)
{
    int at = 0;
    memset(m, 0, sizeof *m);
    m->T = T;
    m->count = count;
    m->times = times;
    for (int n = 0; n < count; n++) {
        m->parts[n] = parts[n];
        m->first[n] = at;
        m->own[n] = ref_joins(parts, n) ? 0 : ref_part_params(parts, n);
        m->moving[n] = n + 1 < count && ref_joins(parts, n + 1) ? (int)parts[n + 1].size : 0;
        m->own[n] += m->moving[n];
        m->exact |= parts[n].kind == PU_PART_NO_IRREGULAR;
        if (!ref_joins(parts, n) && parts[n].kind != PU_PART_NO_IRREGULAR) ref_covariance(parts + n, m->moving[n], theta + at, T, times, m->K[n]);
        at += ref_part_params(parts, n);
        for (int i = 0; ref_is_diffuse(parts + n) && i < ref_states(parts + n); i++, m->d++) {
            m->owner[m->d] = ref_owner(m, n);
            for (int t = 0; t < T; t++) m->X[m->d][t] = ref_first_state(parts + n, i, t);
        }
    }
    /* without noise V may be singular. What flat states add is theirs whether they have some variance, too, or not */
    for (int j = 0; m->exact && j < m->d; j++)
        for (int t = 0; t < T; t++)
            for (int u = 0; u <= t; u++) m->K[m->owner[j]][t * REF_T + u] += m->X[j][t] * m->X[j][u];
    m->params = at + !m->exact;
    memcpy(m->theta, theta, (size_t)m->params * sizeof *theta);
    m->sigma2 = m->exact ? 0 : ref_exp(theta[at]);
}

/* L L' = A in place, n x n with rows of `ld`; adds log det, and keeps the least share of a diagonal entry that is left of it.
   Returns 0 when nothing is left of one. */
static int ref_factor(int n, int ld, wide *A, double *logdet, double *least)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            wide sum = A[i * ld + j], whole = sum;
            for (int l = 0; l < j; l++) sum -= A[i * ld + l] * A[j * ld + l];
            if (i == j) {
                if (!(sum > whole * (wide)1e-26)) return 0;
                *least = fmin(*least, (double)(sum / whole));
                A[i * ld + i] = ref_sqrt(sum);
                *logdet += (double)(2 * logl((long double)A[i * ld + i]));
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

/* x = L'^-1 x */
static void ref_backward(int n, int ld, const wide *L, wide *x)
{
    for (int i = n - 1; i >= 0; i--) {
        for (int l = i + 1; l < n; l++) x[i] -= L[l * ld + i] * x[l];
        x[i] /= L[i * ld + i];
    }
}

typedef struct {
    double nll, scale; /* scale: sum of the sizes of its terms */
    double condition;  /* of V about, and of what identifies the diffuse states: the larger one */
    double grad[REF_PARAMS], size[REF_PARAMS]; /* size: of the terms that grad is the sum of; see ref_gradient */
    double unsure[REF_PARAMS];                 /* error of grad */
    double mean[REF_PARTS + 1][REF_T], variance[REF_PARTS + 1][REF_T]; /* of the parts, and of their sum */
    double doubt[REF_PARTS + 1][REF_T]; /* error of such a variance, which is a difference */
    double residual[REF_T]; /* minus the derivative in eta; 0 where missing */
    /* inside */
    int seen[REF_T], n;
    wide V[REF_T * REF_T], A[REF_D * REF_D], XV[REF_D][REF_T], r[REF_T], delta[REF_D];
} ref_result;

/* V of the observed entries, lower half. */
static void ref_fill_V(const ref_model *m, ref_result *out)
{
    for (int i = 0; i < out->n; i++)
        for (int j = 0; j <= i; j++) {
            wide sum = i == j ? m->sigma2 : 0;
            for (int part = 0; part < m->count; part++) sum += m->K[part][out->seen[i] * REF_T + out->seen[j]];
            out->V[i * REF_T + j] = sum;
        }
}

/* Likelihood of e = y - eta, NaN where missing. Returns 1; 0 where the data do not identify the diffuse states; -1 where V is too
   ill-conditioned even for wide numbers. */
static int ref_run(const ref_model *m, const wide *e, ref_result *out)
{
    wide *V = out->V, *A = out->A, b[REF_D], square = 0, largest = 0;
    double logdet = 0, logdet_A = 0, least = 1, least_A = 1;
    int n = 0;
    for (int t = 0; t < m->T; t++) {
        out->residual[t] = 0;
        if (e[t] == e[t]) out->seen[n++] = t;
    }
    out->n = n;
    ref_fill_V(m, out);
    for (int i = 0; i < n; i++) {
        largest = ref_max(largest, V[i * REF_T + i]);
        out->r[i] = e[out->seen[i]];
    }
    if (!ref_factor(n, REF_T, V, &logdet, &least)) return -1;
    ref_forward(n, REF_T, V, out->r);
    for (int j = 0; j < m->d; j++) {
        for (int i = 0; i < n; i++) out->XV[j][i] = m->X[j][out->seen[i]];
        ref_forward(n, REF_T, V, out->XV[j]);
        b[j] = 0;
        for (int i = 0; i < n; i++) b[j] += out->XV[j][i] * out->r[i];
        for (int l = 0; l <= j; l++) {
            A[j * REF_D + l] = 0;
            for (int i = 0; i < n; i++) A[j * REF_D + l] += out->XV[j][i] * out->XV[l][i];
        }
    }
    if (!ref_factor(m->d, REF_D, A, &logdet_A, &least_A)) return 0;
    ref_forward(m->d, REF_D, A, b);
    ref_backward(m->d, REF_D, A, b);
    memcpy(out->delta, b, sizeof b);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m->d; j++) out->r[i] -= out->XV[j][i] * b[j];
        square += out->r[i] * out->r[i];
    }
    out->condition = fmax(m->exact ? 1 / least : (double)(largest / m->sigma2), 1 / least_A);
    out->nll = ((double)square + logdet + logdet_A + n * log(2 * acos(-1.0))) / 2;
    out->scale = ((double)square + fabs(logdet) + fabs(logdet_A) + (m->exact ? 0 : n * fabs(log((double)m->sigma2)))) / 2 + n + 1;
    ref_backward(n, REF_T, V, out->r);
    for (int i = 0; i < n; i++) out->residual[out->seen[i]] = (double)out->r[i];
    return 1;
}

/* The derivative of a part's covariance in entry i of its theta: central differences of three steps, extrapolated to h = 0. Good to
   all but 6 digits of wide numbers: V may be as ill-conditioned as it likes. */
static void ref_slope(const ref_model *m, int part, int i, wide *slope)
{
    static wide level[3][REF_T * REF_T], down[REF_T * REF_T];
    const wide *at = m->theta + m->first[part];
    int T = m->T;
    wide theta[2 * REF_ORDER + 1], h = WIDE_DIGITS >= 113 ? (wide)1e-6 : (wide)1e-3;
    memcpy(theta, at, (size_t)m->own[part] * sizeof *theta);
    for (int k = 0; k < 3; k++, h /= 2) {
        theta[i] = at[i] + h;
        ref_covariance(m->parts + part, m->moving[part], theta, T, m->times, level[k]);
        theta[i] = at[i] - h;
        ref_covariance(m->parts + part, m->moving[part], theta, T, m->times, down);
        for (int t = 0; t < T; t++)
            for (int s = 0; s <= t; s++) level[k][t * REF_T + s] = (level[k][t * REF_T + s] - down[t * REF_T + s]) / (2 * h);
    }
    for (int t = 0; t < T; t++)
        for (int s = 0; s <= t; s++) {
            int place = t * REF_T + s;
            wide first = (4 * level[1][place] - level[0][place]) / 3, second = (4 * level[2][place] - level[1][place]) / 3;
            slope[place] = (16 * second - first) / 15;
        }
}

/* After ref_run: with P = V^-1 - V^-1 X A^-1 X'V^-1 and r = P e the derivative in an entry of theta is
     tr(P dV)/2 - r'dV r/2,
   dV by differences in wide numbers (ref_slope). Size: both terms, and one half for each shock that the entry is a
   parameter of: a sum over shocks of 1 - E w^2 has no more digits. */
static void ref_gradient(const ref_model *m, ref_result *out)
{
    static wide P[REF_T][REF_T], slope[REF_T * REF_T];
    wide trace = 0, square = 0, all;
    int n = out->n;
    for (int i = 0; i < n; i++) {
        wide open[REF_D];
        memset(P[i], 0, sizeof P[i]);
        P[i][i] = 1;
        ref_forward(n, REF_T, out->V, P[i]);
        for (int j = 0; j < m->d; j++) {
            open[j] = 0;
            for (int k = 0; k < n; k++) open[j] += out->XV[j][k] * P[i][k];
        }
        ref_forward(m->d, REF_D, out->A, open);
        ref_backward(m->d, REF_D, out->A, open);
        for (int j = 0; j < m->d; j++)
            for (int k = 0; k < n; k++) P[i][k] -= out->XV[j][k] * open[j];
        ref_backward(n, REF_T, out->V, P[i]);
        trace += m->sigma2 * P[i][i];
        square += m->sigma2 * out->r[i] * out->r[i];
    }
    if (!m->exact) {
        out->grad[m->params - 1] = (double)(trace - square) / 2;
        out->size[m->params - 1] = (double)(trace + square + n) / 2;
    }
    for (int part = 0; part < m->count; part++)
        for (int i = 0; i < m->own[part]; i++) {
            ref_slope(m, part, i, slope);
            trace = 0;
            square = 0;
            all = 0;
            for (int k = 0; k < n; k++)
                for (int l = 0; l <= k; l++) {
                    int at = out->seen[k] * REF_T + out->seen[l];
                    wide dV = k == l ? slope[at] : 2 * slope[at];
                    trace += P[k][l] * dV;
                    square += out->r[k] * out->r[l] * dV;
                    all += ref_abs(P[k][l] * dV) + ref_abs(out->r[k] * out->r[l] * dV);
                }
            out->unsure[m->first[part] + i] = (WIDE_DIGITS >= 113 ? 1e-26 : 1e-12) * (double)all;
            out->grad[m->first[part] + i] = (double)(trace - square) / 2;
            out->size[m->first[part] + i] =
                (double)(ref_abs(trace) + ref_abs(square) + m->T * ref_shocks(m->parts + part)) / 2;
        }
}

/* After ref_run: means and variances of every part, those of a slope zero, and of their sum. */
static void ref_posterior(const ref_model *m, ref_result *out)
{
    for (int part = 0; part <= m->count; part++)
        for (int t = 0; t < m->T; t++) {
            wide with[REF_T], open[REF_D], mean = 0, variance = 0;
            memset(with, 0, sizeof with);
            for (int source = 0; source < m->count; source++) {
                const wide *K = m->K[source];
                if (part < m->count && ref_owner(m, source) != part) continue;
                variance += K[t * REF_T + t];
                for (int i = 0; i < out->n; i++) {
                    int s = out->seen[i];
                    with[i] += t > s ? K[t * REF_T + s] : K[s * REF_T + t];
                }
            }
            out->doubt[part][t] = (WIDE_DIGITS >= 113 ? 1e-31 : 1e-16) * (double)variance;
            for (int i = 0; i < out->n; i++) mean += with[i] * out->r[i];
            ref_forward(out->n, REF_T, out->V, with);
            for (int i = 0; i < out->n; i++) variance -= with[i] * with[i];
            for (int j = 0; j < m->d; j++) {
                open[j] = part == m->count || m->owner[j] == part ? m->X[j][t] : 0;
                mean += open[j] * out->delta[j];
                for (int i = 0; i < out->n; i++) open[j] -= with[i] * out->XV[j][i];
            }
            ref_forward(m->d, REF_D, out->A, open);
            for (int j = 0; j < m->d; j++) variance += open[j] * open[j];
            out->mean[part][t] = (double)mean;
            out->variance[part][t] = (double)variance;
        }
}

#endif

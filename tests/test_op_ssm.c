/* test_op_ssm.c - the state-space precision and its readout against dense matrices built in double:
   the precision from its definition, its derivatives from the covariance recursion, which the
   library never uses. Run with -v for the worst errors. */
#include "pu_test.h"
#include "test_common.h"

enum { MOST = 40 }; /* states */

/* ---- small matrices, S x S ------------------------------------------------------------------- */

/* c += scale a b, or a b' */
static void add_product(pu_int S, double scale, const double *a, const double *b, int transposed,
                        double *c)
{
    pu_int i, j, l;
    for (i = 0; i < S; i++) {
        for (j = 0; j < S; j++) {
            double sum = 0;
            for (l = 0; l < S; l++) {
                sum += a[i * S + l] * (transposed ? b[j * S + l] : b[l * S + j]);
            }
            c[i * S + j] += scale * sum;
        }
    }
}

/* out = a x a' + add; out may not overlap the others */
static void step_covariance(pu_int S, const double *a, const double *x, const double *add,
                            double *out)
{
    double ax[MOST * MOST] = {0};
    memcpy(out, add, (size_t)(S * S) * sizeof *out);
    add_product(S, 1, a, x, 0, ax);
    add_product(S, 1, ax, a, 1, out);
}

/* x := sum_i a^i x a'^i, summed term by term until a term is far below rounding */
static void sum_series(pu_int S, const double *a, double *x)
{
    static const double none[MOST * MOST] = {0};
    double term[MOST * MOST], next[MOST * MOST], left = 1, all = 1;
    size_t bytes = (size_t)(S * S) * sizeof *x;
    pu_int i;
    memcpy(term, x, bytes);
    while (left > 1e-20 * all) {
        step_covariance(S, a, term, none, next);
        memcpy(term, next, bytes);
        for (left = all = 0, i = 0; i < S * S; i++) {
            x[i] += term[i];
            left = fmax(left, fabs(term[i]));
            all = fmax(all, fabs(x[i]));
        }
    }
}

static double *invert(pu_int n, const double *a, double *logdet)
{
    double *l = tc_doubles(n * n), *inverse = tc_doubles(n * n);
    memcpy(l, a, (size_t)(n * n) * sizeof *l);
    if (!tc_cholesky(n, l)) exit(2);
    tc_inverse(n, l, inverse);
    if (logdet) *logdet = tc_logdet(n, l);
    return inverse;
}

static double frobenius(pu_int n, const double *a)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < n; i++) sum += a[i] * a[i];
    return sqrt(sum);
}

/* c = a b, n x n, mostly zeros */
static void sparse_product(pu_int n, const double *a, const double *b, double *c)
{
    pu_int i, j, l;
    memset(c, 0, (size_t)(n * n) * sizeof *c);
    for (i = 0; i < n; i++) {
        for (l = 0; l < n; l++) {
            for (j = 0; j < n && a[i * n + l] != 0; j++) c[i * n + j] += a[i * n + l] * b[l * n + j];
        }
    }
}

/* ---- a model in double ----------------------------------------------------------------------- */

typedef struct {
    pu_int T, S, D, params;
    pu_ssm_start start;
    pu_real *A, *Q, *P0; /* as given to the library */
    double *a, *q, *p;   /* the same in double; p whatever the start */
    double *Gamma, *size; /* B' W B, and the same of absolute values */
    double *Sigma;        /* covariance of the stacked states, by the recursion */
    double logdet;
    double kappa;  /* condition of Q and P0 */
    double rounds; /* relative error allowed in one product with Gamma */
    pu_ssm *model;
    pu_op op;
} reference;

/* c = B' W B with B = I and b below the diagonal, W = blockdiag(w0, w, .., w) */
static double *block_product(pu_int T, pu_int S, const double *b, const double *w0, const double *w)
{
    pu_int D = T * S, t, i, j;
    double *B = tc_doubles(D * D), *WB = tc_doubles(D * D), *c = tc_doubles(D * D);
    double *W = tc_doubles(D * D), *Bt = tc_doubles(D * D);
    for (t = 0; t < T; t++) {
        for (i = 0; i < S; i++) {
            B[(t * S + i) * D + t * S + i] = 1;
            for (j = 0; j < S; j++) {
                W[(t * S + i) * D + t * S + j] = t ? w[i * S + j] : w0[i * S + j];
                if (t) B[(t * S + i) * D + (t - 1) * S + j] = b[i * S + j];
            }
        }
    }
    for (i = 0; i < D; i++) {
        for (j = 0; j < D; j++) Bt[j * D + i] = B[i * D + j];
    }
    sparse_product(D, W, B, WB);
    sparse_product(D, Bt, WB, c);
    return c;
}

/* The covariance of (z_1 .. z_T), or its tangent when da, dq, dp are given:
   C_t = A C_{t-1} A' + Q, Sigma_{t+1,s} = A Sigma_{t,s}. */
static double *covariance(const reference *r, const double *da, const double *dq, const double *dp)
{
    pu_int T = r->T, S = r->S, D = r->D, SS = S * S, s, t, i, j;
    double *all = tc_doubles(D * D), *c = tc_doubles(SS), *dc = tc_doubles(SS);
    double *x = tc_doubles(SS), *dx = tc_doubles(SS), *next = tc_doubles(SS);
    double *rest = tc_doubles(SS), *ac = tc_doubles(SS);
    memcpy(c, r->p, (size_t)SS * sizeof *c);
    if (da) memcpy(dc, dp, (size_t)SS * sizeof *dc);
    for (s = 0; s < T; s++) {
        memcpy(x, c, (size_t)SS * sizeof *c);
        memcpy(dx, dc, (size_t)SS * sizeof *c);
        for (t = s; t < T; t++) {
            for (i = 0; i < S; i++) {
                for (j = 0; j < S; j++) {
                    double value = da ? dx[i * S + j] : x[i * S + j];
                    all[(t * S + i) * D + s * S + j] = all[(s * S + j) * D + t * S + i] = value;
                }
            }
            memset(next, 0, (size_t)SS * sizeof *c);
            if (da) add_product(S, 1, da, x, 0, next);
            add_product(S, 1, r->a, dx, 0, next);
            memcpy(dx, next, (size_t)SS * sizeof *c);
            memset(next, 0, (size_t)SS * sizeof *c);
            add_product(S, 1, r->a, x, 0, next);
            memcpy(x, next, (size_t)SS * sizeof *c);
        }
        if (da) { /* dA C A' + A C dA' + dQ */
            memcpy(rest, dq, (size_t)SS * sizeof *c);
            memset(ac, 0, (size_t)SS * sizeof *c);
            add_product(S, 1, r->a, c, 0, ac);
            add_product(S, 1, ac, da, 1, rest);
            memset(ac, 0, (size_t)SS * sizeof *c);
            add_product(S, 1, da, c, 0, ac);
            add_product(S, 1, ac, r->a, 1, rest);
            step_covariance(S, r->a, dc, rest, next);
            memcpy(dc, next, (size_t)SS * sizeof *c);
        }
        step_covariance(S, r->a, c, r->q, next);
        memcpy(c, next, (size_t)SS * sizeof *c);
    }
    return all;
}

/* d Sigma / d theta_k, Q and P0 symmetrised */
static double *covariance_tangent(const reference *r, pu_int k)
{
    pu_int S = r->S, SS = S * S, e = k % SS, f = e % S * S + e / S;
    double *da = tc_doubles(SS), *dq = tc_doubles(SS), *dp = tc_doubles(SS), *ac = tc_doubles(SS);
    double *moved = k < SS ? da : k < 2 * SS ? dq : dp;
    moved[e] += k < SS ? 1 : 0.5;
    if (k >= SS) moved[f] += 0.5;
    if (r->start == PU_SSM_ZERO) memcpy(dp, dq, (size_t)SS * sizeof *dp);
    if (r->start == PU_SSM_STATIONARY) {
        memcpy(dp, dq, (size_t)SS * sizeof *dp);
        add_product(S, 1, r->a, r->p, 0, ac);
        add_product(S, 1, ac, da, 1, dp);
        memset(ac, 0, (size_t)SS * sizeof *ac);
        add_product(S, 1, da, r->p, 0, ac);
        add_product(S, 1, ac, r->a, 1, dp);
        sum_series(S, r->a, dp);
    }
    return covariance(r, da, dq, dp);
}

static double *doubled(pu_int n, const pu_real *x)
{
    double *y = tc_doubles(n);
    pu_int i;
    for (i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

static double *magnitudes(pu_int n, const double *x, double scale)
{
    double *y = tc_doubles(n);
    pu_int i;
    for (i = 0; i < n; i++) y[i] = scale == 0 ? fabs(x[i]) : scale * x[i];
    return y;
}

/* *m with memory for so many states, every byte of which is accounted for. */
static void lend(pu_ssm *m, pu_int states)
{
    size_t bytes = 7;
    if (pu_ssm_bytes(states, &bytes) != PU_OK || (bytes > 0) != (states > PU_SSM_MAX)) exit(2);
    if (bytes && pu_ssm_memory(m, tc_bytes(bytes), bytes) != PU_OK) exit(2);
}

/* From r's A, Q, P0, T, S and start; the status is the library's. */
static pu_status complete(reference *r)
{
    pu_int SS = r->S * r->S;
    double lq, lp, *w, *w0;
    pu_status status;
    r->D = r->T * r->S;
    r->params = (r->start == PU_SSM_GIVEN ? 3 : 2) * SS;
    r->model = (pu_ssm *)tc_bytes(sizeof(pu_ssm));
    lend(r->model, r->S);
    status = pu_ssm_set(r->model, r->T, r->S, r->A, r->Q, r->start, r->P0, NULL);
    if (status != PU_OK) return status;
    r->op = pu_op_ssm(r->model);
    r->a = doubled(SS, r->A);
    r->q = doubled(SS, r->Q);
    r->p = r->start == PU_SSM_GIVEN ? doubled(SS, r->P0) : doubled(SS, r->Q);
    if (r->start == PU_SSM_STATIONARY) sum_series(r->S, r->a, r->p);
    w = invert(r->S, r->q, &lq);
    w0 = invert(r->S, r->p, &lp);
    r->logdet = -lp - (double)(r->T - 1) * lq;
    r->Gamma = block_product(r->T, r->S, magnitudes(SS, r->a, -1), w0, w);
    r->size = block_product(r->T, r->S, magnitudes(SS, r->a, 0), magnitudes(SS, w0, 0),
                            magnitudes(SS, w, 0));
    r->Sigma = covariance(r, NULL, NULL, NULL);
    r->kappa = frobenius(SS, r->q) * frobenius(SS, w);
    if (frobenius(SS, r->p) * frobenius(SS, w0) > r->kappa) {
        r->kappa = frobenius(SS, r->p) * frobenius(SS, w0);
    }
    /* three products of length S, and the inverses, which are taken in double */
    r->rounds = (3 * (double)r->S + 8) * PU_TEST_EPS + 4 * (double)r->S * r->kappa * DBL_EPSILON;
    return PU_OK;
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct {
    pu_int T, S;
    pu_ssm_start start;
} ssm_case;

static const char *const start_name[] = {"zero", "stationary", "given"};

static reference *build(const ssm_case *c)
{
    reference *r = (reference *)tc_bytes(sizeof *r);
    uint64_t seed = 1000 * (uint64_t)c->T + 10 * (uint64_t)c->S + (uint64_t)c->start;
    pu_int i;
    tc_set_case("T %d, S %d, %s", (int)c->T, (int)c->S, start_name[c->start]);
    r->T = c->T, r->S = c->S, r->start = c->start;
    r->A = tc_normal(seed, c->S * c->S);
    for (i = 0; i < c->S * c->S; i++) {
        r->A[i] = (pu_real)(0.7 * tanh((double)r->A[i]) / sqrt((double)c->S));
    }
    r->Q = tc_random_spd(seed + 1, c->S);
    if (c->start == PU_SSM_GIVEN) r->P0 = tc_random_spd(seed + 2, c->S);
    if (complete(r) != PU_OK) exit(2);
    return r;
}

enum { APPLY, ADJOINT, GRAD, DIAG, SAMPLE, LOGDET, LOGDET_GRAD, INVERSE, END_TO_END, SOLVE, FIGURES };
static const char *const figure_name[] = {"apply",  "adjoint",     "grad",    "diag",      "sample",
                                          "logdet", "logdet_grad", "inverse", "end to end", "solve"};
static double figure[FIGURES];

/* error relative to `scale`, remembered */
static void note(int which, double got, double want, double scale)
{
    double error = fabs(got - want) / (scale > 0 ? scale : 1);
    if (!(error <= figure[which])) figure[which] = error;
}

/* A block of k columns of normals with NaN between them. */
static pu_block random_block(uint64_t seed, pu_int n, pu_int k, pu_int ld)
{
    pu_block b = tc_block(tc_reals(ld * k), ld);
    pu_int i, j;
    tc_fill(ld * k, b.at, PU_R(NAN));
    for (j = 0; j < k; j++) {
        pu_real *x = tc_normal(seed + 77 * (uint64_t)j, n);
        for (i = 0; i < n; i++) b.at[j * ld + i] = x[i];
    }
    return b;
}

TEST apply_is_the_matrix(const ssm_case *c, pu_int k, pu_int gap, int add)
{
    reference *r = build(c);
    pu_int D = r->D, i, j, l;
    pu_block X = random_block(1, D, k, D + gap), Y = random_block(2, D, k, D + 2 * gap), Z;
    TC_ASSERT(r->op.rows == D && r->op.cols == D && r->op.params == r->params);
    TC_ASSERT(r->op.trusted == 2 && r->op.noise == 0);
    Z = tc_block(tc_reals(Y.ld * k), Y.ld);
    memcpy(Z.at, Y.at, (size_t)(Y.ld * k) * sizeof(pu_real));
    if (!add) { /* must not be read */
        for (j = 0; j < k; j++) tc_fill(D, Y.at + j * Y.ld, PU_R(NAN));
    }
    TC_STATUS(r->op.apply(&r->op, k, X, Y, add, tc_reals(k * r->op.work)), PU_OK);
    for (j = 0; j < k; j++) {
        for (i = 0; i < D; i++) {
            double before = add ? (double)Z.at[j * Z.ld + i] : 0, want = before, size = fabs(want);
            for (l = 0; l < D; l++) {
                want += r->Gamma[i * D + l] * (double)X.at[j * X.ld + l];
                size += r->size[i * D + l] * fabs((double)X.at[j * X.ld + l]);
            }
            note(APPLY, (double)Y.at[j * Y.ld + i], want, size);
            TC_CLOSE(Y.at[j * Y.ld + i], want, r->rounds * size);
        }
        for (i = D; i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

TEST apply_is_symmetric(const ssm_case *c)
{
    reference *r = build(c);
    pu_int D = r->D, i, l;
    pu_block X = random_block(3, D, 1, D), Y = random_block(4, D, 1, D);
    pu_block GX = random_block(5, D, 1, D), GY = random_block(6, D, 1, D);
    double left = 0, right = 0, size = 0;
    TC_STATUS(r->op.apply(&r->op, 1, X, GX, 0, tc_reals(r->op.work)), PU_OK);
    TC_STATUS(r->op.apply_t(&r->op, 1, Y, GY, 0, tc_reals(r->op.work)), PU_OK);
    for (i = 0; i < D; i++) {
        left += (double)Y.at[i] * (double)GX.at[i];
        right += (double)GY.at[i] * (double)X.at[i];
        for (l = 0; l < D; l++) {
            size += fabs((double)Y.at[i]) * r->size[i * D + l] * fabs((double)X.at[l]);
        }
    }
    note(ADJOINT, left, right, size);
    TC_CLOSE(left, right, 2 * r->rounds * size);
    PASS();
}

/* Gamma Sigma = I, Sigma from the recursion that defines the process */
TEST inverse_is_the_covariance(const ssm_case *c)
{
    reference *r = build(c);
    pu_int D = r->D, i, j, l;
    pu_block X = tc_block(tc_reals(D * D), D), Y = tc_block(tc_reals(D * D), D);
    for (i = 0; i < D; i++) X.at[i * D + i] = PU_R(1);
    TC_STATUS(r->op.apply(&r->op, D, X, Y, 0, tc_reals(D * r->op.work)), PU_OK);
    for (i = 0; i < D; i++) {
        for (j = 0; j < D; j++) {
            double sum = 0, size = 0;
            for (l = 0; l < D; l++) {
                sum += (double)Y.at[i * D + l] * r->Sigma[l * D + j];
                size += r->size[i * D + l] * fabs(r->Sigma[l * D + j]);
            }
            note(INVERSE, sum, i == j, size);
            /* the last term: rounding along the recursion for Sigma */
            TC_CLOSE(sum, i == j, (2 * r->rounds + 4 * (double)D * DBL_EPSILON) * size);
        }
    }
    PASS();
}

TEST diag_is_the_diagonal(const ssm_case *c)
{
    reference *r = build(c);
    pu_int D = r->D, i;
    pu_real *y = tc_normal(7, D), *before = tc_normal(7, D);
    TC_STATUS(r->op.diag(&r->op, y, NULL), PU_OK);
    for (i = 0; i < D; i++) {
        double size = fabs((double)before[i]) + r->size[i * D + i];
        note(DIAG, (double)y[i], (double)before[i] + r->Gamma[i * D + i], size);
        TC_CLOSE(y[i], (double)before[i] + r->Gamma[i * D + i], r->rounds * size);
    }
    PASS();
}

/* -(Gamma p)' dSigma_k (Gamma q), and the same of absolute values */
static double slope(const reference *r, const double *dSigma, const double *p, const double *q,
                    double *size)
{
    pu_int D = r->D, i, j;
    double *gp = tc_doubles(D), *gq = tc_doubles(D), *sp = tc_doubles(D), *sq = tc_doubles(D);
    double sum = 0;
    tc_matvec(D, D, r->Gamma, p, gp);
    tc_matvec(D, D, r->Gamma, q, gq);
    tc_matvec(D, D, r->size, magnitudes(D, p, 0), sp);
    tc_matvec(D, D, r->size, magnitudes(D, q, 0), sq);
    for (i = 0; i < D; i++) {
        for (j = 0; j < D; j++) {
            sum -= gp[i] * dSigma[i * D + j] * gq[j];
            *size += sp[i] * fabs(dSigma[i * D + j]) * sq[j];
        }
    }
    return sum;
}

TEST grad_is_the_derivative(const ssm_case *c, pu_int k)
{
    reference *r = build(c);
    pu_int D = r->D, stride = r->S > PU_SSM_MAX ? 311 : r->S > 8 ? 13 : 1, i, j; /* every row and column gets its turn */
    pu_block P = random_block(8, D, k, D + 3), Q = random_block(9, D, k, D + 1);
    pu_real *grad = tc_normal(10, r->params), *before = tc_normal(10, r->params);
    pu_real *weight = tc_normal(11, k);
    if (k > 1) weight[1] = PU_R(0);
    TC_STATUS(r->op.grad(&r->op, k, P, Q, weight, grad, tc_reals(k * r->op.work)), PU_OK);
    for (i = 0; i < r->params; i += stride) {
        size_t mark = tc_kept_count;
        double *dSigma = covariance_tangent(r, i), want = (double)before[i], size = fabs(want);
        double largest = 0;
        for (j = 0; j < k; j++) {
            double mine = 0, w = (double)weight[j];
            want += w * slope(r, dSigma, doubled(D, P.at + j * P.ld), doubled(D, Q.at + j * Q.ld),
                              &mine);
            size += fabs(w) * mine;
        }
        for (j = 0; j < r->params; j++) largest = fmax(largest, fabs((double)grad[j]));
        note(GRAD, (double)grad[i], want, largest);
        /* two factors Gamma, and sums in chunks of 64 */
        TC_CLOSE(grad[i], want, (3 * r->rounds + 64 * PU_TEST_EPS) * size);
        tc_release_to(mark);
    }
    /* Q and P0: symmetric to the last bit */
    for (i = r->S * r->S; i < r->params; i++) {
        pu_int SS = r->S * r->S, e = i % SS, twin = i - e + e % r->S * r->S + e / r->S;
        TC_CLOSE(grad[i] - before[i], grad[twin] - before[twin],
                 2 * PU_TEST_EPS * (fabs((double)grad[i]) + fabs((double)before[i]) +
                                    fabs((double)grad[twin]) + fabs((double)before[twin])));
    }
    PASS();
}

TEST sample_has_the_right_covariance(const ssm_case *c)
{
    reference *r = build(c);
    pu_int D = r->D, i, j, l;
    pu_block E = tc_block(tc_reals(D * (D + 1)), D + 1), Y = random_block(12, D, D, D + 2);
    for (i = 0; i < D; i++) E.at[i * E.ld + i] = PU_R(1);
    TC_STATUS(r->op.sample(&r->op, D, E, Y, tc_reals(D * r->op.work)), PU_OK);
    for (i = 0; i < D; i++) {
        for (j = 0; j < D; j++) {
            double sum = 0, size = sqrt(r->size[i * D + i] * r->size[j * D + j]);
            for (l = 0; l < D; l++) sum += (double)Y.at[l * Y.ld + i] * (double)Y.at[l * Y.ld + j];
            note(SAMPLE, sum, r->Gamma[i * D + j], size);
            TC_CLOSE(sum, r->Gamma[i * D + j], 2 * r->rounds * size);
        }
    }
    for (i = 0; i < D; i++) TC_ASSERT(isnan(Y.at[i * Y.ld + D]));
    PASS();
}

/* linear in the noise: all columns at once are the sum of one at a time */
/* Gamma^-1 x = Sigma x. What the two recursions add up is bounded by the covariance of the process whose A, Q and P0 are
   the magnitudes of these; a term passes at most 2 T steps of S + 1 roundings. */
TEST solve_is_the_covariance(const ssm_case *c)
{
    reference *r = build(c), positive = *r;
    pu_int D = r->D, SS = r->S * r->S, k = 3, i, j, l;
    pu_block X = random_block(21, D, k, D + 1), Y = random_block(22, D, k, D + 2);
    double *size, unit = (2 * (double)r->T * ((double)r->S + 1) + 8) * PU_TEST_EPS;
    positive.a = magnitudes(SS, r->a, 0), positive.q = magnitudes(SS, r->q, 0), positive.p = magnitudes(SS, r->p, 0);
    size = covariance(&positive, NULL, NULL, NULL);
    TC_STATUS(r->op.solve(&r->op, k, X, Y, tc_reals(r->op.work)), PU_OK);
    for (j = 0; j < k; j++) {
        for (i = 0; i < D; i++) {
            double want = 0, bound = 0;
            for (l = 0; l < D; l++) {
                want += r->Sigma[i * D + l] * (double)X.at[j * X.ld + l];
                bound += size[i * D + l] * fabs((double)X.at[j * X.ld + l]);
            }
            note(SOLVE, (double)Y.at[j * Y.ld + i], want, bound);
            TC_CLOSE(Y.at[j * Y.ld + i], want, unit * bound);
        }
        for (i = D; i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

TEST sample_is_linear(const ssm_case *c)
{
    reference *r = build(c);
    pu_int D = r->D, i, l;
    pu_block E = random_block(13, D, 2, D + 1), Y = random_block(14, D, 2, D + 5);
    pu_block I = tc_block(tc_reals(D * D), D), F = tc_block(tc_reals(D * D), D);
    for (i = 0; i < D; i++) I.at[i * D + i] = PU_R(1);
    TC_STATUS(r->op.sample(&r->op, 2, E, Y, tc_reals(2 * r->op.work)), PU_OK);
    TC_STATUS(r->op.sample(&r->op, D, I, F, tc_reals(D * r->op.work)), PU_OK);
    for (i = 0; i < D; i++) {
        double want = 0, size = 0;
        for (l = 0; l < D; l++) {
            want += (double)F.at[l * D + i] * (double)E.at[E.ld + l];
            size += sqrt(r->size[i * D + i]) * fabs((double)E.at[E.ld + l]);
        }
        TC_CLOSE(Y.at[Y.ld + i], want, 2 * r->rounds * size);
    }
    PASS();
}

TEST logdet_is_the_log_determinant(const ssm_case *c)
{
    reference *r = build(c);
    pu_int i, D = r->D, stride = r->S > PU_SSM_MAX ? 311 : r->S > 8 ? 13 : 1, a;
    double *l = tc_doubles(D * D), got = 0, size = 1;
    pu_real *grad = tc_normal(15, r->params), *before = tc_normal(15, r->params);
    memcpy(l, r->Gamma, (size_t)(D * D) * sizeof *l);
    TC_ASSERT(tc_cholesky(D, l));
    TC_STATUS(r->op.logdet(&r->op, &got, NULL), PU_OK);
    for (i = 0; i < D; i++) size += 1 + fabs(2 * log(l[i * D + i]));
    note(LOGDET, got, tc_logdet(D, l), size);
    /* everything is in double, in a float build too; the dense sum has D terms */
    TC_CLOSE(got, tc_logdet(D, l), (4 * (double)r->S * r->kappa + (double)D) * DBL_EPSILON * size);
    TC_CLOSE(got, r->logdet, 4 * (double)r->S * r->kappa * DBL_EPSILON * size);
    TC_STATUS(r->op.logdet_grad(&r->op, PU_R(-0.75), grad, tc_reals(r->op.work)), PU_OK);
    for (i = 0; i < r->params; i += stride) { /* d log det Gamma = -tr(Gamma dSigma) */
        size_t mark = tc_kept_count;
        double *dSigma = covariance_tangent(r, i), want = (double)before[i], all = fabs(want);
        double largest = 0;
        for (a = 0; a < D * D; a++) {
            want += 0.75 * r->Gamma[a] * dSigma[a];
            all += 0.75 * r->size[a] * fabs(dSigma[a]);
        }
        for (a = 0; a < r->params; a++) largest = fmax(largest, fabs((double)grad[a]));
        note(LOGDET_GRAD, (double)grad[i], want, largest);
        TC_CLOSE(grad[i], want, (2 * r->rounds + 4 * (double)D * DBL_EPSILON) * all);
        tc_release_to(mark);
    }
    PASS();
}

/* ---- the values of the published test problems: two states, six steps ------------------------- */

typedef struct {
    pu_ssm_start start;
    double A[4], c[2], first[4], below[4], middle[4], last[4], logdet;
    double y[18], nll, gA[4], gc[2], gQ[4], gs;
    const char *mask;
} golden;

static const golden goldens[2] = {
    {PU_SSM_ZERO,
     {0.72269081388085843, 0.18551770784901345, -0.16819999659657148, 0.61633030361182506},
     {1.0363361802942552, -0.48080198081326408},
     {1.8828227040698167, -0.75207014084420454, -0.75207014084420454, 2.0852125520832296},
     {-0.90039085825139464, 0.11397738516341062, 0.64222438705943108, -0.87047263369254935},
     {1.8828227040698167, -0.75207014084420454, -0.75207014084420454, 2.0852125520832296},
     {1.1240963621916, -0.52328623757195181, -0.52328623757195181, 1.5698587127158556},
     2.3960543415488118,
     {0, 0.45496616481764929, -0.15597968632827408, 0, -0.341638918464228, 0.15884830052063559,
      -0.045891266722006607, 0.93696061308733358, 1.8249523018219087, 0, 0, -1.0297172275474087,
      -1.7929711974768645, -3.3551630751750214, -3.2297198343119269, -4.2899183166881123, 0,
      0.69532591141996336},
     7.8074522745432207,
     {-0.16896797866534541, -0.47160505931547037, 0.84071695947144875, 0.16692848387258191},
     {-0.67521290474533069, -0.044202278450973242},
     {-0.38370430396018873, 0.077515956472107239, 0.077515956472107239, 0.013762494495916192},
     0.20416873054801468,
     "011011111001111101"},
    {PU_SSM_STATIONARY,
     {0.60900523565666642, 0.15837300228905321, -0.2057889225981234, 0.63044591398689298},
     {1.2305586231955878, -0.56242866220341392},
     {1.1951399897380153, -0.45712087691512715, -0.45712087691512721, 1.4222630757847359},
     {-0.79226708099765453, 0.15187715458032491, 0.64174359154946969, -0.9068365984676221},
     {1.7386548848468115, -0.80239714645920546, -0.80239714645920557, 2.1175168999235359},
     {1.1240963621916, -0.52328623757195181, -0.52328623757195181, 1.5698587127158556},
     1.2545674503881452,
     {0.45059476254410863, 1.0101610927745248, -0.54958678955152607, 0.49369320104277836,
      -0.23507249579064071, -1.4854766888534803, 1.7121116057546317, 2.3826280377586411, 0,
      2.1807302340842361, 2.3711589115583598, 0, 0.5401384710949203, -0.88847103547158968,
      -1.1185789039946339, -1.8686521943230416, 0.29170749197104578, 0},
     8.0855730996830086,
     {0.30060161977923522, 0.55143102635713492, -0.25451746819161053, -0.16318644411578043},
     {1.3161143531257933, -0.046417894684402758},
     {0.88368868557521085, -0.39379973947140567, -0.39379973947140567, 0.2238123893610971},
     0.43408130042588278,
     "111111110110111110"}};

TEST golden_precision_and_gradient(const golden *g)
{
    enum { T = 6, S = 2, D = 12, N = 3 };
    const double q[4] = {1.0530000000000002, 0.351, 0.351, 0.754}, tol = 400 * PU_TEST_EPS;
    pu_real A[4], Q[4], c[2], psi[T], y[N * T], unit[D], row[D];
    pu_real gG[8], gc[2], gpsi[T];
    unsigned char mask[N * T];
    pu_ssm *m = (pu_ssm *)tc_bytes(sizeof *m);
    pu_workspace ws = tc_workspace();
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
    pu_options options;
    pu_gradient_result out;
    pu_report report;
    double logdet = 0, slope_s = 0;
    pu_int i, j;
    tc_set_case("golden %s", start_name[g->start]);
    for (i = 0; i < 4; i++) A[i] = (pu_real)g->A[i], Q[i] = (pu_real)q[i];
    for (i = 0; i < S; i++) c[i] = (pu_real)g->c[i];
    for (i = 0; i < T; i++) psi[i] = (pu_real)exp(0.5);
    for (i = 0; i < N * T; i++) y[i] = (pu_real)g->y[i], mask[i] = g->mask[i] == '1';
    TC_STATUS(pu_ssm_set(m, T, S, A, Q, g->start, NULL, NULL), PU_OK);
    Gamma = pu_op_ssm(m);
    Phi = pu_op_readout(T, S, c);
    for (i = 0; i < D; i++) {
        pu_int t = i / S, a = i % S;
        memset(unit, 0, sizeof unit);
        unit[i] = PU_R(1);
        TC_STATUS(Gamma.apply(&Gamma, 1, tc_block(unit, D), tc_block(row, D), 0, tc_reals(Gamma.work)), PU_OK);
        for (j = 0; j < D; j++) {
            pu_int s = j / S, b = j % S;
            double want = 0;
            if (s == t) want = (t == 0 ? g->first : t == T - 1 ? g->last : g->middle)[a * S + b];
            if (s == t + 1) want = g->below[b * S + a];
            if (s == t - 1) want = g->below[a * S + b];
            TC_CLOSE(row[j], want, 20 * PU_TEST_EPS * 2);
        }
        TC_STATUS(Phi.apply(&Phi, 1, tc_block(unit, D), tc_block(row, T), 0, NULL), PU_OK);
        for (j = 0; j < T; j++) TC_ASSERT(row[j] == (j == t ? c[a] : PU_R(0)));
    }
    TC_STATUS(Gamma.logdet(&Gamma, &logdet, NULL), PU_OK);
    TC_CLOSE(logdet, g->logdet, tol);
    memset(&lgm, 0, sizeof lgm), memset(&options, 0, sizeof options), memset(&out, 0, sizeof out);
    lgm.Gamma = &Gamma, lgm.Phi = &Phi, lgm.psi = psi;
    data = pu_data_masked(N, T, y, mask);
    options.kind = PU_EXACT;
    options.samples = PU_ZERO;
    out.Gamma = gG, out.Phi = gc, out.psi = gpsi;
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &out, &report), PU_OK);
    TC_CLOSE(report.nll, g->nll, tol * g->nll);
    for (i = 0; i < 4; i++) TC_CLOSE(gG[i], g->gA[i], tol);
    for (i = 0; i < 4; i++) TC_CLOSE(gG[4 + i], g->gQ[i], tol);
    for (i = 0; i < 2; i++) TC_CLOSE(gc[i], g->gc[i], tol);
    for (i = 0; i < T; i++) slope_s -= (double)psi[i] * (double)gpsi[i];
    TC_CLOSE(slope_s, g->gs, tol);
    PASS();
}

/* ---- end to end: the same call with the dense operators of the same numbers -------------------- */

static double error_of(pu_int n, const pu_real *got, const pu_real *want)
{
    double error = pu_test_relerr(n, got, want);
    note(END_TO_END, error, 0, 1);
    return error;
}

TEST gradient_is_that_of_the_dense_model(const ssm_case *c, pu_kind kind, pu_solver solver)
{
    enum { N = 3, K = 2, I = 4 };
    reference *r = build(c);
    pu_int D = r->D, T = r->T, S = r->S, i, j;
    pu_real *cc = tc_normal(20, S), *phi = tc_reals(T * D), *gamma = tc_reals(D * D);
    pu_real *factor = tc_reals(D * D), *psi = tc_random_positive(21, T), *y = tc_normal(22, N * T);
    pu_real *nu = tc_normal(23, D), *eta = tc_normal(24, T), *folded = tc_reals(r->params);
    pu_real *fold_c = tc_reals(S);
    unsigned char *mask = (unsigned char *)tc_bytes((size_t)(N * T));
    pu_op dense_Gamma, dense_Phi, readout = pu_op_readout(T, S, cc);
    pu_workspace ws = tc_workspace();
    pu_lgm lgm, dense;
    pu_data data;
    pu_options options;
    pu_report report, dense_report;
    tc_outputs o, d;
    double *G, *GS, *M, tol;
    tc_set_case("T %d, S %d, %s, kind %d, solver %d", (int)T, (int)S, start_name[c->start],
                (int)kind, (int)solver);
    for (i = 0; i < D * D; i++) gamma[i] = (pu_real)r->Gamma[i];
    for (i = 0; i < D; i++) {
        phi[i / S * D + i] = cc[i % S];
        for (j = 0; j < i; j++) gamma[j * D + i] = gamma[i * D + j];
    }
    for (i = 0; i < N * T; i++) mask[i] = tc_hash(400 + (uint64_t)i) % 4 != 0;
    TC_STATUS(pu_spd_factor(D, gamma, factor, NULL), PU_OK);
    dense_Gamma = pu_op_spd(D, gamma, factor);
    dense_Phi = pu_op_dense(T, D, phi);
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &r->op, lgm.Phi = &readout, lgm.nu = nu, lgm.eta = eta, lgm.psi = psi;
    dense = lgm;
    dense.Gamma = &dense_Gamma, dense.Phi = &dense_Phi;
    data = pu_data_masked(N, T, y, mask);
    memset(&options, 0, sizeof options);
    options.kind = kind;
    options.samples = K;
    options.solve.solver = solver;
    options.solve.iterations = I;
    options.delta = tc_normal(25, N * K * D);
    o = tc_make_outputs(&lgm, N, K, I);
    d = tc_make_outputs(&dense, N, K, I);
    if (kind == PU_EXACT) {
        options.samples = PU_ZERO, options.delta = NULL;
        o.out.x = o.out.residual = o.out.alpha = o.out.beta = o.out.logdet = NULL;
        d.out.x = d.out.residual = d.out.alpha = d.out.beta = d.out.logdet = NULL;
        o.out.columns = d.out.columns = NULL;
    }
    if (solver == PU_SD || solver == PU_GD) o.out.logdet = d.out.logdet = NULL;
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &o.out, &report), PU_OK);
    TC_STATUS(pu_gradient(&dense, &data, &options, &ws, &d.out, &dense_report), PU_OK);
    TC_ASSERT(tc_gaps_untouched(&o));
    /* gamma is Gamma rounded: a relative change of eps, seen through the condition of the problem */
    tol = r->rounds * frobenius(D * D, r->size) * frobenius(D * D, r->Sigma);
    TC_ASSERT(error_of(D, o.out.nu, d.out.nu) <= tol);
    TC_ASSERT(error_of(T, o.out.eta, d.out.eta) <= tol);
    TC_ASSERT(error_of(T, o.out.psi, d.out.psi) <= tol);
    if (o.out.x) TC_ASSERT(error_of(N * (K + 1) * D, o.out.x, d.out.x) <= tol);
    TC_CLOSE(report.c, dense_report.c, tol * (fabs(report.c) + (double)D));
    TC_CLOSE(report.q, dense_report.q, tol * (fabs(report.q) + (double)D));
    TC_CLOSE(report.nll, dense_report.nll, tol * (fabs(report.nll) + (double)D));
    /* the dense gradients, folded: <G, dGamma_k> = -<Gamma G Gamma, dSigma_k>, d/dc = the blocks' sum */
    G = doubled(D * D, d.out.Gamma), GS = tc_doubles(D * D), M = tc_doubles(D * D);
    tc_matmul(D, D, D, r->Gamma, G, GS);
    tc_matmul(D, D, D, GS, r->Gamma, M);
    for (i = 0; i < r->params; i++) {
        double *dSigma = covariance_tangent(r, i), sum = 0;
        for (j = 0; j < D * D; j++) sum -= M[j] * dSigma[j];
        folded[i] = (pu_real)sum;
    }
    TC_ASSERT(error_of(r->params, o.out.Gamma, folded) <= tol);
    for (i = 0; i < D; i++) fold_c[i % S] += d.out.Phi[i / S * D + i];
    TC_ASSERT(error_of(S, o.out.Phi, fold_c) <= tol);
    if (kind == PU_NETWORK) { /* with probes of its own */
        options.delta = NULL;
        TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &o.out, &report), PU_OK);
    }
    PASS();
}

/* ---- the mean -------------------------------------------------------------------------------- */

TEST mean_and_its_reverse(const ssm_case *c)
{
    reference *r = build(c);
    pu_int S = r->S, T = r->T, SS = S * S, i, t, k;
    pu_real *m0 = tc_normal(30, S), *nu = tc_reals(r->D), *g = tc_normal(31, r->D);
    pu_real *gA = tc_normal(32, SS), *gm = tc_normal(33, S), *bA = tc_normal(32, SS);
    pu_real *bm = tc_normal(33, S);
    double *want = tc_doubles(r->D), *d = tc_doubles(S), *next = tc_doubles(S);
    for (i = 0; i < S; i++) want[i] = (double)m0[i];
    for (t = 1; t < T; t++) tc_matvec(S, S, r->a, want + (t - 1) * S, want + t * S);
    TC_STATUS(pu_ssm_mean(r->model, m0, nu), PU_OK);
    for (i = 0; i < r->D; i++) {
        TC_CLOSE(nu[i], want[i], 4 * (double)S * PU_TEST_EPS * frobenius(S, want));
    }
    TC_STATUS(pu_ssm_mean_grad(r->model, nu, g, gA, gm), PU_OK);
    for (k = 0; k < SS + S; k++) { /* tangent: dnu_t = dA nu_{t-1} + A dnu_{t-1} */
        double sum = 0, size = 1, got = (double)(k < SS ? gA[k] - bA[k] : gm[k - SS] - bm[k - SS]);
        for (i = 0; i < S; i++) d[i] = k >= SS && i == k - SS;
        for (t = 0; t < T; t++) {
            for (i = 0; i < S; i++) {
                sum += (double)g[t * S + i] * d[i];
                size += fabs((double)g[t * S + i] * d[i]) + frobenius(S, want);
            }
            tc_matvec(S, S, r->a, d, next);
            if (k < SS) next[k / S] += want[t * S + k % S];
            for (i = 0; i < S; i++) d[i] = next[i];
        }
        TC_CLOSE(got, sum, 8 * (double)S * PU_TEST_EPS * size);
    }
    TC_STATUS(pu_ssm_mean_grad(r->model, nu, g, NULL, NULL), PU_OK);
    ASSERT_EQ(pu_ssm_mean(NULL, m0, nu), PU_E_NULL);
    ASSERT_EQ(pu_ssm_mean(r->model, NULL, nu), PU_E_NULL);
    ASSERT_EQ(pu_ssm_mean_grad(r->model, NULL, g, gA, gm), PU_E_NULL);
    memset(r->model, 0, sizeof *r->model);
    ASSERT_EQ(pu_ssm_mean(r->model, m0, nu), PU_E_ARGUMENT);
    ASSERT_EQ(pu_ssm_mean_grad(r->model, nu, g, gA, gm), PU_E_ARGUMENT);
    PASS();
}

/* ---- refusals and check ---------------------------------------------------------------------- */

TEST set_refuses(void)
{
    pu_real A[4] = {PU_R(0.5), PU_R(0.1), 0, PU_R(0.5)}, Q[4] = {2, 1, 1, 2}, P[4] = {1, 0, 0, 1};
    pu_real bad[4];
    pu_ssm *m = (pu_ssm *)tc_bytes(sizeof *m);
    pu_int at = -5;
    tc_set_case("refusals");
    TC_STATUS(pu_ssm_set(NULL, 3, 2, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_NULL);
    TC_STATUS(pu_ssm_set(m, 3, 2, NULL, Q, PU_SSM_ZERO, NULL, &at), PU_E_NULL);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, NULL, PU_SSM_ZERO, NULL, &at), PU_E_NULL);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_GIVEN, NULL, &at), PU_E_NULL);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_ZERO, P, &at), PU_E_ARGUMENT);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_STATIONARY, P, &at), PU_E_ARGUMENT);
    TC_STATUS(pu_ssm_set(m, 0, 2, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_ARGUMENT);
    TC_STATUS(pu_ssm_set(m, 3, 0, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_ARGUMENT);
    TC_STATUS(pu_ssm_set(m, 3, PU_SSM_MAX + 1, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_BLOCK);
    TC_STATUS(pu_ssm_set(m, 3, PTRDIFF_MAX, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_OVERFLOW);
    TC_STATUS(pu_ssm_set(m, 3, (pu_int)1 << (4 * sizeof(pu_int)), A, Q, PU_SSM_ZERO, NULL, &at), PU_E_OVERFLOW);
    TC_STATUS(pu_ssm_set(m, PTRDIFF_MAX / 2, 2, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_OVERFLOW);
    ASSERT_EQ(at, -1);
    memcpy(bad, A, sizeof bad), bad[2] = PU_R(NAN);
    TC_STATUS(pu_ssm_set(m, 3, 2, bad, Q, PU_SSM_ZERO, NULL, &at), PU_E_NONFINITE);
    ASSERT_EQ(at, 2);
    memcpy(bad, Q, sizeof bad), bad[1] = PU_R(INFINITY);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, bad, PU_SSM_ZERO, NULL, &at), PU_E_NONFINITE);
    ASSERT_EQ(at, 5);
    memcpy(bad, Q, sizeof bad), bad[1] = PU_R(0.5);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, bad, PU_SSM_ZERO, NULL, &at), PU_E_NOT_SYMMETRIC);
    ASSERT_EQ(at, 6);
    bad[0] = bad[3] = PU_R(1), bad[1] = bad[2] = PU_R(2);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, bad, PU_SSM_ZERO, NULL, &at), PU_E_NOT_DEFINITE);
    ASSERT_EQ(at, 7);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_GIVEN, bad, &at), PU_E_NOT_DEFINITE);
    ASSERT_EQ(at, 11);
    bad[1] = PU_R(NAN);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_GIVEN, bad, &at), PU_E_NONFINITE);
    ASSERT_EQ(at, 9);
    TC_STATUS(pu_ssm_set(m, 3, 2, A, Q, PU_SSM_GIVEN, bad, NULL), PU_E_NONFINITE);
    /* what was refused has no size */
    ASSERT(m->steps == 0 && pu_op_ssm(m).rows == 0 && pu_op_ssm(m).apply == NULL);
    ASSERT(pu_op_ssm(NULL).rows == 0);
    PASS();
}

/* What the arrays of this file do not show: bands, scratch, two calls alike. */
TEST the_operator_passes_its_check(const ssm_case *c)
{
    reference *r = build(c);
    pu_check_options options;
    pu_check_report report;
    char text[300];
    memset(&options, 0, sizeof options);
    options.role = PU_ROLE_PRIOR;
    options.most = 40;
    if (pu_op_check(&r->op, &options, &report) != PU_OK) puts(pu_check_explain(&report, 0, text, sizeof text));
    TC_STATUS(report.status, PU_OK);
    PASS();
}

/* Memory that is too small by a byte is refused; a larger one serves fewer states; a copy is no process. */
TEST memory_is_asked_for(void)
{
    pu_real *A = tc_reals(MOST * MOST), *Q = tc_reals(MOST * MOST);
    pu_ssm *m = (pu_ssm *)tc_bytes(sizeof *m), *copy = (pu_ssm *)tc_bytes(sizeof *m);
    size_t bytes = 0, some = 0;
    unsigned char *memory;
    pu_int i, at;
    pu_op op;
    tc_set_case("memory");
    TC_STATUS(pu_ssm_bytes(MOST, NULL), PU_E_NULL);
    TC_STATUS(pu_ssm_bytes(0, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_ssm_bytes(PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_ssm_bytes((pu_int)1 << (4 * sizeof(pu_int)), &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_ssm_bytes(MOST, &bytes), PU_OK);
    TC_STATUS(pu_ssm_bytes(17, &some), PU_OK);
    TC_ASSERT(some < bytes && bytes < MOST * MOST * 17 * sizeof(double) + 256);
    memory = (unsigned char *)tc_bytes(bytes);
    memset(m, TC_PATTERN, sizeof *m);
    TC_STATUS(pu_ssm_memory(NULL, memory, bytes), PU_E_NULL);
    TC_STATUS(pu_ssm_memory(m, NULL, bytes), PU_E_NULL);
    TC_STATUS(pu_ssm_memory(m, memory + 1, bytes - 1), PU_OK);
    TC_ASSERT(pu_op_ssm(m).rows == 0);
    for (i = 0; i < MOST * MOST; i++) Q[i] = i % (MOST + 1) == 0;
    TC_STATUS(pu_ssm_set(m, 3, MOST, A, Q, PU_SSM_ZERO, NULL, &at), PU_E_BLOCK);
    TC_ASSERT(pu_op_ssm(m).rows == 0);
    for (i = 0; i < MOST * MOST; i++) Q[i] = i % 18 == 0;
    TC_STATUS(pu_ssm_set(m, 3, 17, A, Q, PU_SSM_ZERO, NULL, &at), PU_OK);
    op = pu_op_ssm(m);
    TC_ASSERT(op.rows == 51);
    TC_STATUS(op.check(&op, &at), PU_OK);
    /* few states, in the same struct, which asks for none of it */
    Q[0] = PU_R(2);
    TC_STATUS(pu_ssm_set(m, 3, 1, A, Q, PU_SSM_ZERO, NULL, &at), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_E_ARGUMENT);
    TC_ASSERT(pu_op_ssm(m).rows == 3);
    memcpy(copy, m, sizeof *m);
    TC_ASSERT(pu_op_ssm(copy).rows == 0);
    memset(copy, TC_PATTERN, sizeof *copy);
    copy->steps = 3;
    for (copy->states = 1; copy->states < 40; copy->states += 16) TC_ASSERT(pu_op_ssm(copy).rows == 0);
    /* and more again */
    Q[0] = PU_R(1);
    TC_STATUS(pu_ssm_set(m, 3, 17, A, Q, PU_SSM_ZERO, NULL, &at), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_OK);
    PASS();
}

/* radius 1, radius above 1, a rotation, a Jordan block: only the stationary start minds */
TEST set_refuses_unstable(void)
{
    static const pu_real unstable[4][4] = {{1, 0, 0, PU_R(0.5)},
                                           {PU_R(0.2), 3, 1, PU_R(0.2)},
                                           {0, 1, -1, 0},
                                           {1, 1, 0, 1}};
    pu_real Q[4] = {2, 1, 1, 2};
    pu_ssm *m = (pu_ssm *)tc_bytes(sizeof *m);
    pu_int at, i;
    for (i = 0; i < 4; i++) {
        tc_set_case("unstable %d", (int)i);
        at = -5;
        TC_STATUS(pu_ssm_set(m, 3, 2, unstable[i], Q, PU_SSM_STATIONARY, NULL, &at),
                  PU_E_NOT_DEFINITE);
        TC_ASSERT(at == 0);
        TC_STATUS(pu_ssm_set(m, 3, 2, unstable[i], Q, PU_SSM_ZERO, NULL, &at), PU_OK);
        TC_STATUS(pu_ssm_set(m, 3, 2, unstable[i], Q, PU_SSM_GIVEN, Q, &at), PU_OK);
        TC_ASSERT(at == -1);
    }
    PASS();
}

/* One state, radius 1 - h: P0 = Q / (1 - a^2), a number of condition 1/h. And states of very different
   scale, where the small one is the slow one. */
TEST stationary_close_to_one(void)
{
    pu_ssm *m = (pu_ssm *)tc_bytes(sizeof *m);
    pu_real a, q = PU_R(0.5), A[4] = {0}, Q[4] = {0};
    double h = 0.5, value, aa, f;
    int i;
    for (i = 1; i < PU_TEST_PICK(50, 23); i++, h /= 2) {
        a = (pu_real)(1 - h);
        tc_set_case("radius 1 - 2^-%d", i);
        TC_STATUS(pu_ssm_set(m, 2, 1, &a, &q, PU_SSM_STATIONARY, NULL, NULL), PU_OK);
        aa = (double)a, value = 0.5 / ((1 - aa) * (1 + aa));
        TC_CLOSE(m->P0[0], value, 8 * DBL_EPSILON / h * value);
    }
    A[0] = PU_R(0.5), A[3] = PU_R(0.99), Q[0] = PU_R(1), Q[3] = PU_R(1e-20);
    TC_STATUS(pu_ssm_set(m, 2, 2, A, Q, PU_SSM_STATIONARY, NULL, NULL), PU_OK);
    f = (double)A[3];
    TC_CLOSE(m->P0[3], (double)Q[3] / (1 - f * f), 1e-12 * m->P0[3]);
    PASS();
}

TEST check_finds_each_number(const ssm_case *c)
{
    reference *r = build(c);
    pu_ssm *m = r->model;
    pu_int SS = r->S * r->S, i, at = -5;
    TC_STATUS(r->op.check(&r->op, &at), PU_OK);
    TC_ASSERT(at == -1);
    for (i = 0; i < 2 * SS; i++) {
        pu_real *x = i < SS ? m->A + i : m->Q + (i - SS), old = *x;
        *x = i % 2 ? PU_R(NAN) : PU_R(-INFINITY);
        TC_STATUS(r->op.check(&r->op, &at), PU_E_NONFINITE);
        TC_ASSERT(at == i);
        *x = old * PU_R(1.5) + PU_R(0.25); /* changed, but not set */
        TC_STATUS(r->op.check(&r->op, &at), PU_E_ARGUMENT);
        *x = old;
    }
    for (i = 0; i < SS; i++) {
        double old = m->P0[i];
        m->P0[i] = NAN;
        TC_STATUS(r->op.check(&r->op, &at), PU_E_NONFINITE);
        TC_ASSERT(at == (r->start == PU_SSM_GIVEN ? 2 * SS + i : 0));
        m->P0[i] = old;
    }
    TC_STATUS(r->op.check(&r->op, &at), PU_OK);
    TC_STATUS(pu_ssm_set(m, r->T + 1, r->S, r->A, r->Q, r->start, r->P0, NULL), PU_OK);
    TC_STATUS(r->op.check(&r->op, &at), PU_E_ARGUMENT); /* the operator has the old size */
    PASS();
}

/* ---- readout --------------------------------------------------------------------------------- */

TEST readout_is_the_matrix(pu_int T, pu_int S, pu_int k, int add)
{
    pu_real *c = tc_normal(40, S), *y, *before, *w = tc_random_positive(41, T), *grad, *weight;
    pu_op op = pu_op_readout(T, S, c);
    pu_int D = T * S, t, i, j, at = -5;
    pu_block X = random_block(42, D, k, D + 2), Y = random_block(43, T, k, T + 1), Z;
    double left, right, size, eps = ((double)S + 4) * PU_TEST_EPS;
    tc_set_case("readout T %d, S %d, k %d, add %d", (int)T, (int)S, (int)k, add);
    TC_ASSERT(op.rows == T && op.cols == D && op.params == S && op.trusted == 1);
    Z = tc_block(tc_reals(Y.ld * k), Y.ld);
    memcpy(Z.at, Y.at, (size_t)(Y.ld * k) * sizeof(pu_real));
    for (j = 0; j < k && !add; j++) tc_fill(T, Y.at + j * Y.ld, PU_R(NAN));
    TC_STATUS(op.apply(&op, k, X, Y, add, NULL), PU_OK);
    for (j = 0; j < k; j++) {
        for (t = 0; t < T; t++) {
            double want = add ? (double)Z.at[j * Z.ld + t] : 0;
            size = fabs(want);
            for (i = 0; i < S; i++) {
                double term = (double)c[i] * (double)X.at[j * X.ld + t * S + i];
                want += term, size += fabs(term);
            }
            TC_CLOSE(Y.at[j * Y.ld + t], want, eps * size);
        }
        TC_ASSERT(isnan(Y.at[j * Y.ld + T]));
    }
    /* transpose */
    X = random_block(44, T, k, T + 3), Y = random_block(45, D, k, D + 1);
    Z = tc_block(tc_reals(Y.ld * k), Y.ld);
    memcpy(Z.at, Y.at, (size_t)(Y.ld * k) * sizeof(pu_real));
    for (j = 0; j < k && !add; j++) tc_fill(D, Y.at + j * Y.ld, PU_R(NAN));
    TC_STATUS(op.apply_t(&op, k, X, Y, add, NULL), PU_OK);
    for (j = 0; j < k; j++) {
        for (i = 0; i < D; i++) {
            double term = (double)c[i % S] * (double)X.at[j * X.ld + i / S];
            double old = add ? (double)Z.at[j * Z.ld + i] : 0;
            TC_CLOSE(Y.at[j * Y.ld + i], old + term, 2 * PU_TEST_EPS * (fabs(old) + fabs(term)));
        }
        TC_ASSERT(isnan(Y.at[j * Y.ld + D]));
    }
    /* <y, Phi x> = <Phi'y, x> */
    X = random_block(46, D, 1, D), Z = random_block(47, T, 1, T);
    Y = random_block(48, T, 1, T);
    TC_STATUS(op.apply(&op, 1, X, Y, 0, NULL), PU_OK);
    for (left = size = 0, t = 0; t < T; t++) left += (double)Z.at[t] * (double)Y.at[t];
    Y = random_block(49, D, 1, D);
    TC_STATUS(op.apply_t(&op, 1, Z, Y, 0, NULL), PU_OK);
    for (right = 0, i = 0; i < D; i++) {
        right += (double)X.at[i] * (double)Y.at[i];
        size += fabs((double)X.at[i] * (double)Y.at[i]);
    }
    TC_CLOSE(left, right, 2 * eps * size);
    /* gradient: linear in c, so d/dc_i = sum w p_t q_ti exactly */
    X = random_block(50, T, k, T + 1), Y = random_block(51, D, k, D + 2);
    grad = tc_normal(52, S), before = tc_normal(52, S), weight = tc_normal(53, k);
    TC_STATUS(op.grad(&op, k, X, Y, weight, grad, NULL), PU_OK);
    for (i = 0; i < S; i++) {
        double want = (double)before[i];
        size = fabs(want);
        for (j = 0; j < k; j++) {
            for (t = 0; t < T; t++) {
                double term = (double)weight[j] * (double)X.at[j * X.ld + t] *
                              (double)Y.at[j * Y.ld + t * S + i];
                want += term, size += fabs(term);
            }
        }
        TC_CLOSE(grad[i], want, (double)(k + 10) * PU_TEST_EPS * size); /* sums of 64 in 16 lanes */
    }
    /* gram_diag */
    y = tc_normal(54, D), before = tc_normal(54, D);
    w[T / 2] = PU_R(0);
    TC_STATUS(op.gram_diag(&op, w, y, NULL), PU_OK);
    for (i = 0; i < D; i++) {
        double term = (double)w[i / S] * (double)c[i % S] * (double)c[i % S];
        TC_CLOSE(y[i], (double)before[i] + term, 4 * PU_TEST_EPS * (fabs((double)before[i]) + term));
    }
    TC_STATUS(op.check(&op, &at), PU_OK);
    for (i = 0; i < S; i++) {
        pu_real old = c[i];
        c[i] = PU_R(NAN);
        TC_STATUS(op.check(&op, &at), PU_E_NONFINITE);
        TC_ASSERT(at == i);
        c[i] = old;
    }
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    /* 63 to 65, 127, 129: around the 63 or 64 steps that go through the loops together */
    static const pu_int sizes[][2] = {{1, 1}, {2, 1},  {7, 1},  {1, 3},  {2, 2},  {5, 3},  {9, 4},
                                      {6, 5}, {3, 16}, {63, 1}, {64, 2}, {65, 1}, {127, 1}, {129, 1}, {3, 17}, {3, 40}};
    static const pu_int readouts[][2] = {{1, 1}, {1, 4}, {5, 1}, {7, 3}, {70, 2}, {3, 35}};
    size_t i;
    int s, f;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (s = 0; s < 3; s++) {
            ssm_case c;
            c.T = sizes[i][0], c.S = sizes[i][1], c.start = (pu_ssm_start)s;
            RUN_TESTp(apply_is_the_matrix, &c, 1, 0, 0);
            RUN_TESTp(apply_is_the_matrix, &c, 3, 2, 1);
            RUN_TESTp(apply_is_the_matrix, &c, 2, 1, 0);
            RUN_TESTp(apply_is_symmetric, &c);
            RUN_TESTp(inverse_is_the_covariance, &c);
            RUN_TESTp(diag_is_the_diagonal, &c);
            RUN_TESTp(grad_is_the_derivative, &c, 1);
            RUN_TESTp(grad_is_the_derivative, &c, 3);
            RUN_TESTp(sample_has_the_right_covariance, &c);
            RUN_TESTp(solve_is_the_covariance, &c);
            RUN_TESTp(sample_is_linear, &c);
            RUN_TESTp(logdet_is_the_log_determinant, &c);
            RUN_TESTp(mean_and_its_reverse, &c);
            RUN_TESTp(check_finds_each_number, &c);
            RUN_TESTp(the_operator_passes_its_check, &c);
        }
    }
    for (s = 0; s < 3; s++) {
        ssm_case c;
        c.T = 5, c.S = 3, c.start = (pu_ssm_start)s;
        RUN_TESTp(gradient_is_that_of_the_dense_model, &c, PU_NETWORK, PU_CG);
        RUN_TESTp(gradient_is_that_of_the_dense_model, &c, PU_NETWORK, PU_PCG);
        RUN_TESTp(gradient_is_that_of_the_dense_model, &c, PU_NETWORK, PU_SD);
        RUN_TESTp(gradient_is_that_of_the_dense_model, &c, PU_OUTPUT, PU_CG);
        RUN_TESTp(gradient_is_that_of_the_dense_model, &c, PU_EXACT, PU_CG);
    }
    for (i = 0; i < 2; i++) RUN_TESTp(golden_precision_and_gradient, &goldens[i]);
    RUN_TEST(set_refuses);
    RUN_TEST(memory_is_asked_for);
    RUN_TEST(set_refuses_unstable);
    RUN_TEST(stationary_close_to_one);
    for (i = 0; i < sizeof readouts / sizeof readouts[0]; i++) {
        RUN_TESTp(readout_is_the_matrix, readouts[i][0], readouts[i][1], 1, 0);
        RUN_TESTp(readout_is_the_matrix, readouts[i][0], readouts[i][1], 3, 1);
    }
    for (f = 0; f < FIGURES && greatest_get_verbosity() > 0; f++) {
        printf("worst relative error, %s: %.2g\n", figure_name[f], figure[f]);
    }
    PU_TEST_MAIN_END();
}

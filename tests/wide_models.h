/* wide_models.h - random latent Gaussian models with every operator there is, and what is right about them, in
   numbers wide enough to be sure of it (test_differential.c). Include after pu_test.h and test_common.h.

   From top to bottom: wide numbers and matrices of them; random choices; operators with their matrices and the way
   back from a gradient in the matrix to one in the parameters; random models; posteriors, likelihood and gradients by
   dense formulas; the solvers step by step, and backwards. Nothing here calls the library but to make operators. */
#ifndef WIDE_MODELS_H
#define WIDE_MODELS_H

#include "chance.h"
#include "wide.h"

/* ---- arithmetic in wide numbers; matrices are row-major ------------------------------------------------------ */

/* Memory of the reference: given back as a whole after each model. */
static wide *pool;
static size_t pool_used, pool_room;

PU_TEST_FN wide *wides(pu_int n)
{
    wide *at = pool + pool_used;
    pool_used += (size_t)n;
    if (pool_used > pool_room) {
        fprintf(stderr, "test_differential: pool of %zu numbers is too small\n", pool_room);
        exit(2);
    }
    memset(at, 0, (size_t)n * sizeof *at);
    return at;
}

PU_TEST_FN wide wide_abs(wide x) { return x < 0 ? -x : x; }
PU_TEST_FN wide wide_max(wide a, wide b) { return a > b ? a : b; }

/* One step of Newton on the root in long double doubles its digits. */
PU_TEST_FN wide wide_sqrt(wide x)
{
    wide root;
    if (!(x > 0)) return 0;
    root = (wide)sqrtl((long double)x);
    return (root + x / root) / 2;
}

/* To the precision of long double, which is all that an NLL needs. */
PU_TEST_FN wide wide_log(wide x) { return (wide)logl((long double)x); }

/* Lower Cholesky factor in place, zeros above; 0 when not positive definite. */
PU_TEST_FN int wide_cholesky(pu_int n, wide *a)
{
    for (pu_int j = 0; j < n; j++) {
        for (pu_int i = 0; i < j; i++)
            a[i * n + j] = 0;
        for (pu_int l = 0; l < j; l++)
            a[j * n + j] -= a[j * n + l] * a[j * n + l];
        if (!(a[j * n + j] > 0)) return 0;
        a[j * n + j] = wide_sqrt(a[j * n + j]);
        for (pu_int i = j + 1; i < n; i++) {
            for (pu_int l = 0; l < j; l++)
                a[i * n + j] -= a[i * n + l] * a[j * n + l];
            a[i * n + j] /= a[j * n + j];
        }
    }
    return 1;
}

PU_TEST_FN wide wide_logdet(pu_int n, const wide *l)
{
    wide sum = 0;
    for (pu_int i = 0; i < n; i++)
        sum += 2 * wide_log(l[i * n + i]);
    return sum;
}

/* x := (L L')^-1 x */
PU_TEST_FN void wide_solve(pu_int n, const wide *l, wide *x)
{
    for (pu_int i = 0; i < n; i++) {
        for (pu_int j = 0; j < i; j++)
            x[i] -= l[i * n + j] * x[j];
        x[i] /= l[i * n + i];
    }
    for (pu_int i = n - 1; i >= 0; i--) {
        for (pu_int j = i + 1; j < n; j++)
            x[i] -= l[j * n + i] * x[j];
        x[i] /= l[i * n + i];
    }
}

/* inverse := (L L')^-1 = T'T, T = L^-1 */
PU_TEST_FN void wide_inverse(pu_int n, const wide *l, wide *inverse)
{
    wide *t = wides(n * n);
    for (pu_int j = 0; j < n; j++) {
        t[j * n + j] = 1 / l[j * n + j];
        for (pu_int i = j + 1; i < n; i++) {
            wide sum = 0;
            for (pu_int m = j; m < i; m++)
                sum -= l[i * n + m] * t[m * n + j];
            t[i * n + j] = sum / l[i * n + i];
        }
    }
    for (pu_int i = 0; i < n; i++) {
        for (pu_int j = 0; j <= i; j++) {
            wide sum = 0;
            for (pu_int m = i; m < n; m++)
                sum += t[m * n + i] * t[m * n + j];
            inverse[i * n + j] = inverse[j * n + i] = sum;
        }
    }
}

/* Condition of a positive definite matrix scaled to a unit diagonal, in the norm of the largest row sum. */
PU_TEST_FN double scaled_condition(pu_int n, const wide *a, const wide *inverse)
{
    wide size = 0, size_inverse = 0;
    wide *root = wides(n);
    for (pu_int i = 0; i < n; i++)
        root[i] = wide_sqrt(a[i * n + i]);
    for (pu_int i = 0; i < n; i++) {
        wide sum = 0, sum_inverse = 0;
        for (pu_int j = 0; j < n; j++) {
            sum += wide_abs(a[i * n + j]) / (root[i] * root[j]);
            sum_inverse += wide_abs(inverse[i * n + j]) * (root[i] * root[j]);
        }
        size = wide_max(size, sum);
        size_inverse = wide_max(size_inverse, sum_inverse);
    }
    return (double)(size * size_inverse);
}

/* C = A B (transpose bits: 1 of A, 2 of B), where op(A): n x m, op(B): m x k. */
PU_TEST_FN void wide_product(pu_int n, pu_int m, pu_int k, const wide *a, const wide *b, int transpose, wide *c)
{
    for (pu_int i = 0; i < n; i++) {
        for (pu_int j = 0; j < k; j++) {
            wide sum = 0;
            for (pu_int l = 0; l < m; l++) {
                wide left = transpose & 1 ? a[l * n + i] : a[i * m + l];
                if (left != 0) sum += left * (transpose & 2 ? b[j * m + l] : b[l * k + j]);
            }
            c[i * k + j] = sum;
        }
    }
}

/* ---- operators: parameters, matrix, and the way back from a gradient in the matrix --------------------------- */

typedef enum {
    DENSE,
    SPD,
    DIAGONAL,
    IDENTITY,
    SCALED,
    PRODUCT,
    SUM,
    AR,
    SSM,
    READOUT,
    CSR,
    LOW_RANK,
    KRONECKER,
    TOEPLITZ,
    CIRCULANT,
    FOURIER,
    OP_KINDS
} op_kind;

static const char *const op_name[OP_KINDS] = {"dense",     "spd",      "diagonal",  "identity", "scaled", "product",
                                              "sum",       "ar",       "ssm",       "readout",  "csr",    "low_rank",
                                              "kronecker", "toeplitz", "circulant", "fourier"};

#ifndef MOST_STATES
#define MOST_STATES 3
#endif
#define MOST_ORDER  4

typedef struct node node;
struct node {
    op_kind kind;
    pu_op op;
    pu_real *theta; /* the parameters, in the operator's order (ar: gamma, kappa; ssm: A, Q, P0) */
    pu_real *factor;
    pu_int order; /* ar; low_rank: r; readout, ssm: states */
    pu_ar *ar;
    pu_ssm *ssm;
    pu_csr csr;
    pu_int *start, *index;
    pu_low_rank low_rank;
    pu_lags lags;
    pu_fourier fourier;
    node *left, *right;
};

PU_TEST_FN node *new_node(op_kind kind)
{
    node *f = (node *)tc_bytes(sizeof *f);
    f->kind = kind;
    return f;
}

/* 10^x, x within [-spread, spread]/2, often at one of the ends */
PU_TEST_FN double spread_factor(double spread)
{
    double x = often(0.4) ? pick(2) - 0.5 : between(-0.5, 0.5);
    return pow(10, x * spread);
}

/* How extreme a model is: powers of ten. */
typedef struct {
    double psi, psi_spread, gamma, gamma_spread, phi, phi_spread, y;
} regime;

PU_TEST_FN node *make_diagonal(pu_int n, double size, double spread)
{
    node *f = new_node(DIAGONAL);
    f->theta = tc_reals(n);
    for (pu_int i = 0; i < n; i++)
        f->theta[i] = (pu_real)(size * spread_factor(spread));
    f->op = pu_op_diagonal(n, f->theta);
    return f;
}

/* B B' / n + ridge, symmetric; scaled by rows and columns, or with a small ridge, which no scaling repairs. */
PU_TEST_FN pu_real *random_spd(pu_int n, double size, double spread)
{
    pu_real *a = tc_reals(n * n);
    double *b = tc_doubles(n * n), *scale = tc_doubles(n);
    double ridge = often(0.5) ? 1 : pow(10, -spread);
    if (ridge < 100 * PU_TEST_EPS * (double)n)
        ridge = 100 * PU_TEST_EPS * (double)n; /* rounding must leave it positive definite */
    for (pu_int i = 0; i < n * n; i++)
        b[i] = normal();
    for (pu_int i = 0; i < n; i++)
        scale[i] = ridge < 1 ? 1 : sqrt(spread_factor(spread));
    for (pu_int i = 0; i < n; i++) {
        for (pu_int j = 0; j <= i; j++) {
            double sum = i == j ? ridge : 0;
            for (pu_int l = 0; l < (ridge < 1 ? (n + 1) / 2 : n); l++)
                sum += b[i * n + l] * b[j * n + l] / (double)n;
            a[i * n + j] = a[j * n + i] = (pu_real)(size * scale[i] * scale[j] * sum);
        }
    }
    return a;
}

/* with_factor: as a prior. NULL when rounding has made it indefinite. */
PU_TEST_FN node *make_spd(pu_int n, double size, double spread, int with_factor)
{
    node *f = new_node(SPD);
    f->theta = random_spd(n, size, spread);
    if (with_factor) {
        f->factor = tc_reals(n * n);
        if (pu_spd_factor(n, f->theta, f->factor, NULL) != PU_OK) return NULL;
    }
    f->op = pu_op_spd(n, f->theta, f->factor);
    return f;
}

PU_TEST_FN node *make_identity(pu_int n)
{
    node *f = new_node(IDENTITY);
    f->op = pu_op_identity(n);
    return f;
}

PU_TEST_FN node *make_scaled(pu_int n, double size)
{
    node *f = new_node(SCALED);
    f->theta = tc_reals(1);
    f->theta[0] = (pu_real)size;
    f->op = pu_op_scaled_identity(n, f->theta);
    return f;
}

/* Rows or columns of different sizes, or two columns that are nearly the same. */
PU_TEST_FN node *make_dense(pu_int rows, pu_int cols, double size, double spread)
{
    node *f = new_node(DENSE);
    int how = pick(3);
    f->theta = tc_reals(rows * cols);
    for (pu_int i = 0; i < rows; i++) {
        double row = how == 0 ? spread_factor(spread) : 1;
        for (pu_int j = 0; j < cols; j++)
            f->theta[i * cols + j] = (pu_real)(size * row * normal());
    }
    for (pu_int j = 0; how == 1 && j < cols; j++) {
        double column = spread_factor(spread);
        for (pu_int i = 0; i < rows; i++)
            f->theta[i * cols + j] = (pu_real)(column * (double)f->theta[i * cols + j]);
    }
    for (pu_int i = 0; how == 2 && cols > 1 && spread > 0 && i < rows; i++)
        f->theta[i * cols + 1] = (pu_real)((double)f->theta[i * cols] * (1 + pow(10, -spread) * normal()));
    f->op = pu_op_dense(rows, cols, f->theta);
    return f;
}

PU_TEST_FN node *make_pair(op_kind kind, node *left, node *right)
{
    node *f = new_node(kind);
    if (!left || !right) return NULL;
    f->left = left;
    f->right = right;
    if (kind == PRODUCT) f->op = pu_op_product(&left->op, &right->op);
    else if (kind == SUM) f->op = pu_op_sum(&left->op, &right->op);
    else f->op = pu_op_kronecker(&left->op, &right->op);
    return f;
}

/* close: powers of ten by which partial autocorrelations approach 1 */
PU_TEST_FN node *make_ar(pu_int n, double size, double close)
{
    node *f = new_node(AR);
    f->order = pick(MOST_ORDER + 1);
    if (f->order > n) f->order = n;
    f->ar = (pu_ar *)tc_bytes(sizeof *f->ar);
    f->theta = tc_reals(f->order + 1);
    for (pu_int i = 0; i < f->order; i++) {
        double g = often(0.5) ? 1 - pow(10, -between(0, close)) : between(-0.9, 0.9);
        f->theta[i] = (pu_real)(often(0.5) ? g : -g);
    }
    f->theta[f->order] = (pu_real)(1 / size);
    if (pu_ar_set(f->ar, n, f->order, f->theta, f->theta[f->order], NULL) != PU_OK) return NULL;
    f->op = pu_op_ar(f->ar);
    return f;
}

PU_TEST_FN node *make_ssm(pu_int steps, pu_int states, double size, double spread)
{
    node *f = new_node(SSM);
    pu_int S2 = states * states;
    pu_ssm_start start = (pu_ssm_start)pick(3);
    double radius = often(0.3) ? 1 - pow(10, -between(0, spread / 2)) : between(0, 0.95), largest = 0;
    pu_real *Q, *P0 = NULL;
    f->order = states;
    f->ssm = (pu_ssm *)tc_bytes(sizeof *f->ssm);
    f->theta = tc_reals(3 * S2);
    for (pu_int i = 0; i < S2; i++)
        f->theta[i] = (pu_real)normal();
    for (pu_int i = 0; i < states; i++) {
        double sum = 0;
        for (pu_int j = 0; j < states; j++)
            sum += fabs((double)f->theta[i * states + j]);
        largest = sum > largest ? sum : largest;
    }
    for (pu_int i = 0; i < S2; i++)
        f->theta[i] = (pu_real)(radius * (double)f->theta[i] / largest);
    Q = random_spd(states, 1 / size, often(0.5) ? 0 : spread);
    memcpy(f->theta + S2, Q, (size_t)S2 * sizeof *Q);
    if (start == PU_SSM_GIVEN) {
        P0 = random_spd(states, spread_factor(2 * spread) / size, often(0.5) ? 0 : spread);
        memcpy(f->theta + 2 * S2, P0, (size_t)S2 * sizeof *P0);
    }
    if (pu_ssm_set(f->ssm, steps, states, f->theta, Q, start, P0, NULL) != PU_OK) return NULL;
    f->op = pu_op_ssm(f->ssm);
    return f;
}

PU_TEST_FN node *make_readout(pu_int steps, pu_int states, double size, double spread)
{
    node *f = new_node(READOUT);
    f->order = states;
    f->theta = tc_reals(states);
    for (pu_int i = 0; i < states; i++)
        f->theta[i] = (pu_real)(size * spread_factor(spread) * (often(0.5) ? 1 : -1));
    f->op = pu_op_readout(steps, states, f->theta);
    return f;
}

/* About half of the entries; a row may be empty. */
PU_TEST_FN node *make_csr(pu_int rows, pu_int cols, double size, double spread)
{
    node *f = new_node(CSR);
    pu_int count = 0;
    double share = between(0, 1);
    f->start = (pu_int *)tc_bytes((size_t)(rows + 1) * sizeof(pu_int));
    f->index = (pu_int *)tc_bytes((size_t)(rows * cols) * sizeof(pu_int));
    for (pu_int i = 0; i < rows; i++) {
        for (pu_int j = 0; j < cols; j++) {
            if (often(share)) f->index[count++] = j;
        }
        f->start[i + 1] = count;
    }
    f->theta = tc_reals(count);
    for (pu_int i = 0; i < count; i++)
        f->theta[i] = (pu_real)(size * spread_factor(spread) * normal());
    f->csr.rows = rows;
    f->csr.cols = cols;
    f->csr.start = f->start;
    f->csr.index = f->index;
    f->csr.value = f->theta;
    f->op = pu_op_csr(&f->csr);
    return f;
}

PU_TEST_FN node *make_low_rank(pu_int n, double size, double spread)
{
    node *f = new_node(LOW_RANK);
    double large = spread_factor(spread);
    f->order = 1 + pick(3);
    f->theta = tc_reals(n * (f->order + 1));
    f->factor = tc_reals(f->order * f->order);
    for (pu_int i = 0; i < n; i++)
        f->theta[i] = (pu_real)(size * spread_factor(spread / 2));
    for (pu_int i = n; i < n * (f->order + 1); i++)
        f->theta[i] = (pu_real)(sqrt(size * large) * normal());
    f->low_rank.n = n;
    f->low_rank.r = f->order;
    f->low_rank.d = f->theta;
    f->low_rank.u = f->theta + n;
    f->low_rank.factor = f->factor;
    if (pu_low_rank_factor(&f->low_rank, NULL) != PU_OK) return NULL;
    f->op = pu_op_low_rank(&f->low_rank);
    return f;
}

/* Lags of a random sequence's autocorrelation (around the circle or not) plus a ridge; prior: it must be positive. */
PU_TEST_FN node *make_lags(op_kind kind, pu_int n, double size, double spread, int prior)
{
    node *f = new_node(kind);
    pu_int lags = kind == TOEPLITZ ? n : n / 2 + 1;
    double *h = tc_doubles(n), ridge = pow(10, -spread);
    size_t bytes = 0;
    pu_status status;
    if (ridge < 100 * PU_TEST_EPS * (double)n) ridge = 100 * PU_TEST_EPS * (double)n;
    for (pu_int i = 0; i < n; i++)
        h[i] = normal() / sqrt((double)n);
    f->theta = tc_reals(lags);
    for (pu_int l = 0; l < lags; l++) {
        double sum = l == 0 ? ridge : 0;
        for (pu_int i = 0; i < n; i++) {
            if (i + l < n) sum += h[i] * h[i + l];
            else if (kind == CIRCULANT) sum += h[i] * h[i + l - n];
        }
        f->theta[l] = (pu_real)(size * sum);
    }
    status = kind == TOEPLITZ ? pu_toeplitz_bytes(n, &bytes) : pu_circulant_bytes(n, &bytes);
    if (!status && kind == TOEPLITZ)
        status = pu_toeplitz_factor(&f->lags, n, f->theta, prior, tc_bytes(bytes), bytes, NULL);
    else if (!status) status = pu_circulant_factor(&f->lags, n, f->theta, prior, tc_bytes(bytes), bytes, NULL);
    if (status) return NULL;
    f->op = kind == TOEPLITZ ? pu_op_toeplitz(n, f->theta, &f->lags) : pu_op_circulant(n, f->theta, &f->lags);
    return f;
}

PU_TEST_FN node *make_fourier(pu_int n)
{
    node *f = new_node(FOURIER);
    size_t bytes = 0;
    pu_int rows = 1;
    while (often(0.5) && n % (rows + 1) == 0)
        rows++;
    if (n % rows != 0) rows = 1;
    if (pu_fourier_bytes(rows, n / rows, &bytes) != PU_OK) return NULL;
    if (pu_fourier_init(&f->fourier, rows, n / rows, tc_bytes(bytes), bytes) != PU_OK) return NULL;
    f->op = pu_op_fourier(&f->fourier);
    return f;
}

/* ---- autoregressions: Gamma = sum_t w_t a_t a_t', a_t the coefficients of the prediction error of z_t from at most
   P values before it, w_t one over its variance */

typedef struct {
    wide a[MOST_ORDER + 1][MOST_ORDER + 1]; /* a[k][j]: order k, coefficient of z_{t-j} */
    wide da[MOST_ORDER + 1][MOST_ORDER + 1];
    wide w[MOST_ORDER + 1], dw[MOST_ORDER + 1];
} ar_rows;

/* With derivatives in parameter number p (P: kappa). */
PU_TEST_FN void ar_of(const node *f, pu_int p, ar_rows *r)
{
    pu_int P = f->order;
    wide kappa = (wide)f->theta[P];
    memset(r, 0, sizeof *r);
    r->a[0][0] = 1;
    for (pu_int k = 1; k <= P; k++) {
        wide g = (wide)f->theta[k - 1], dg = p == k - 1;
        for (pu_int j = 0; j <= k; j++) { /* a_k = [a_{k-1} 0] - g [0 reversed(a_{k-1})] */
            wide same = j < k ? r->a[k - 1][j] : 0, turned = j > 0 ? r->a[k - 1][k - j] : 0;
            wide dsame = j < k ? r->da[k - 1][j] : 0, dturned = j > 0 ? r->da[k - 1][k - j] : 0;
            r->a[k][j] = same - g * turned;
            r->da[k][j] = dsame - dg * turned - g * dturned;
        }
    }
    r->w[P] = 1 / kappa;
    r->dw[P] = p == P ? -1 / (kappa * kappa) : 0;
    for (pu_int k = P; k > 0; k--) { /* v_{k-1} = v_k / (1 - g_k^2) */
        wide g = (wide)f->theta[k - 1], share = (1 - g) * (1 + g);
        r->w[k - 1] = r->w[k] * share;
        r->dw[k - 1] = r->dw[k] * share - (p == k - 1 ? 2 * g * r->w[k] : 0);
    }
}

PU_TEST_FN void ar_matrix(const node *f, wide *out)
{
    pu_int n = f->op.rows;
    ar_rows r;
    ar_of(f, -1, &r);
    for (pu_int t = 0; t < n; t++) {
        pu_int k = t < f->order ? t : f->order;
        for (pu_int i = 0; i <= k; i++) {
            for (pu_int j = 0; j <= k; j++)
                out[(t - i) * n + t - j] += r.w[k] * r.a[k][i] * r.a[k][j];
        }
    }
}

PU_TEST_FN void ar_pull(const node *f, const wide *S, wide *out)
{
    pu_int n = f->op.rows;
    ar_rows r;
    for (pu_int p = 0; p <= f->order; p++) {
        wide sum = 0;
        ar_of(f, p, &r);
        for (pu_int t = 0; t < n; t++) {
            pu_int k = t < f->order ? t : f->order;
            for (pu_int i = 0; i <= k; i++) {
                for (pu_int j = 0; j <= k; j++) {
                    wide d =
                        r.dw[k] * r.a[k][i] * r.a[k][j] + r.w[k] * (r.da[k][i] * r.a[k][j] + r.a[k][i] * r.da[k][j]);
                    sum += S[(t - i) * n + t - j] * d;
                }
            }
        }
        out[p] += sum;
    }
}

/* ---- state spaces: Gamma = sum_t b_t N_t b_t', b_t'z = z_t - A z_{t-1} ---------------------------------------- */

typedef struct {
    pu_int S;
    wide A[MOST_STATES * MOST_STATES], P0[MOST_STATES * MOST_STATES];
    wide N[MOST_STATES * MOST_STATES], N0[MOST_STATES * MOST_STATES]; /* inverses of Q, P0 */
} ssm_parts;

/* P = sum_k F^k Q F'^k by doubling: squarings of F until they no longer count. */
PU_TEST_FN void lyapunov(pu_int S, const wide *F, const wide *Q, wide *P)
{
    wide G[MOST_STATES * MOST_STATES], H[MOST_STATES * MOST_STATES], T[MOST_STATES * MOST_STATES];
    pu_int S2 = S * S;
    memcpy(G, F, (size_t)S2 * sizeof *G);
    memcpy(P, Q, (size_t)S2 * sizeof *P);
    for (int step = 0; step < 64; step++) {
        wide change = 0, size = 0;
        wide_product(S, S, S, G, P, 0, T);
        wide_product(S, S, S, T, G, 2, H);
        for (pu_int i = 0; i < S2; i++) {
            change = wide_max(change, wide_abs(H[i]));
            size = wide_max(size, wide_abs(P[i]));
            P[i] += H[i];
        }
        if (!(change > size * (wide)1e-36)) break;
        wide_product(S, S, S, G, G, 0, T);
        memcpy(G, T, (size_t)S2 * sizeof *G);
    }
}

PU_TEST_FN void ssm_of(const node *f, ssm_parts *s)
{
    pu_int S = f->order, S2 = S * S;
    wide Q[MOST_STATES * MOST_STATES], L[MOST_STATES * MOST_STATES];
    s->S = S;
    for (pu_int i = 0; i < S2; i++) {
        s->A[i] = (wide)f->theta[i];
        Q[i] = (wide)f->theta[S2 + i];
        s->P0[i] = f->ssm->start == PU_SSM_GIVEN ? (wide)f->theta[2 * S2 + i] : Q[i];
    }
    if (f->ssm->start == PU_SSM_STATIONARY) lyapunov(S, s->A, Q, s->P0);
    memcpy(L, Q, (size_t)S2 * sizeof *L);
    if (!wide_cholesky(S, L)) exit(2);
    wide_inverse(S, L, s->N);
    memcpy(L, s->P0, (size_t)S2 * sizeof *L);
    if (!wide_cholesky(S, L)) exit(2);
    wide_inverse(S, L, s->N0);
}

PU_TEST_FN void ssm_matrix(const node *f, wide *out)
{
    ssm_parts s;
    pu_int S = f->order, D = f->op.rows, T = D / S;
    wide NA[MOST_STATES * MOST_STATES], ANA[MOST_STATES * MOST_STATES];
    ssm_of(f, &s);
    wide_product(S, S, S, s.N, s.A, 0, NA);
    wide_product(S, S, S, s.A, NA, 1, ANA);
    for (pu_int t = 0; t < T; t++) {
        for (pu_int i = 0; i < S; i++) {
            for (pu_int j = 0; j < S; j++) {
                wide *at = out + (t * S + i) * D + t * S + j;
                *at += t == 0 ? s.N0[i * S + j] : s.N[i * S + j];
                if (t + 1 < T) {
                    *at += ANA[i * S + j];
                    at[S * D] -= NA[i * S + j]; /* block (t + 1, t) */
                    out[(t * S + j) * D + (t + 1) * S + i] -= NA[i * S + j];
                }
            }
        }
    }
}

/* out = block (t, u) of the symmetric part of M (D x D) */
PU_TEST_FN void block_of(const wide *M, pu_int D, pu_int S, pu_int t, pu_int u, wide *out)
{
    for (pu_int i = 0; i < S; i++) {
        for (pu_int j = 0; j < S; j++)
            out[i * S + j] = (M[(t * S + i) * D + u * S + j] + M[(u * S + j) * D + t * S + i]) / 2;
    }
}

/* out -= N C N */
PU_TEST_FN void subtract_sandwich(pu_int S, const wide *N, const wide *C, wide *out)
{
    wide T[MOST_STATES * MOST_STATES], U[MOST_STATES * MOST_STATES];
    wide_product(S, S, S, N, C, 0, T);
    wide_product(S, S, S, T, N, 0, U);
    for (pu_int i = 0; i < S * S; i++)
        out[i] -= U[i];
}

/* With C_t the residual's second moment under M, <Gamma, M> = sum_t <N_t, C_t>; dN = -N dQ N. */
PU_TEST_FN void ssm_pull(const node *f, const wide *M, wide *out)
{
    ssm_parts s;
    pu_int S = f->order, S2 = S * S, D = f->op.rows, T = D / S;
    wide C[MOST_STATES * MOST_STATES], E[MOST_STATES * MOST_STATES], F[MOST_STATES * MOST_STATES],
        G[MOST_STATES * MOST_STATES];
    wide Q[MOST_STATES * MOST_STATES] = {0}, P[MOST_STATES * MOST_STATES] = {0}, Lam[MOST_STATES * MOST_STATES],
                         At[MOST_STATES * MOST_STATES];
    ssm_of(f, &s);
    block_of(M, D, S, 0, 0, C);
    subtract_sandwich(S, s.N0, C, P);
    for (pu_int t = 1; t < T; t++) {
        block_of(M, D, S, t, t - 1, E);
        block_of(M, D, S, t - 1, t - 1, F);
        wide_product(S, S, S, s.A, F, 0, G);
        for (pu_int i = 0; i < S2; i++)
            E[i] -= G[i]; /* E = M_{t,t-1} - A M_{t-1,t-1} */
        wide_product(S, S, S, s.N, E, 0, G);
        for (pu_int i = 0; i < S2; i++)
            out[i] -= 2 * G[i];
        block_of(M, D, S, t, t, C);
        wide_product(S, S, S, E, s.A, 2, G); /* C_t = M_tt - A M_{t-1,t} - E A' */
        block_of(M, D, S, t - 1, t, E);
        wide_product(S, S, S, s.A, E, 0, F);
        for (pu_int i = 0; i < S2; i++)
            C[i] -= F[i] + G[i];
        subtract_sandwich(S, s.N, C, Q);
    }
    if (f->ssm->start == PU_SSM_STATIONARY) {
        for (pu_int i = 0; i < S; i++) {
            for (pu_int j = 0; j < S; j++)
                At[i * S + j] = s.A[j * S + i];
        }
        lyapunov(S, At, P, Lam); /* cotangent of P0 = A P0 A' + Q */
        wide_product(S, S, S, Lam, s.A, 0, E);
        wide_product(S, S, S, E, s.P0, 0, F);
        for (pu_int i = 0; i < S2; i++)
            out[i] += 2 * F[i];
        memcpy(P, Lam, sizeof P);
    }
    for (pu_int i = 0; i < S; i++) {
        for (pu_int j = 0; j < S; j++) {
            wide mean_Q = (Q[i * S + j] + Q[j * S + i]) / 2, mean_P = (P[i * S + j] + P[j * S + i]) / 2;
            if (f->ssm->start == PU_SSM_GIVEN) out[2 * S2 + i * S + j] += mean_P;
            else mean_Q += mean_P;
            out[S2 + i * S + j] += mean_Q;
        }
    }
}

/* ---- all kinds ------------------------------------------------------------------------------------------------- */

PU_TEST_FN wide *matrix_of(const node *f);

PU_TEST_FN void kronecker_matrix(const node *f, wide *out)
{
    wide *l = matrix_of(f->left), *r = matrix_of(f->right);
    pu_int lr = f->left->op.rows, lc = f->left->op.cols, rr = f->right->op.rows, rc = f->right->op.cols;
    for (pu_int i = 0; i < lr * rr; i++) {
        for (pu_int j = 0; j < lc * rc; j++)
            out[i * lc * rc + j] = l[i / rr * lc + j / rc] * r[i % rr * rc + j % rc];
    }
}

/* cos(2 pi p / n) for 0 <= p: by symmetries into an eighth of a turn, where the series ends soon; exact where it is 0
   or 1. */
PU_TEST_FN wide wide_cos(pu_int p, pu_int n)
{
    wide turn = 2 * ((wide)3.141592653589793 + (wide)1.2246467991473532e-16 - (wide)2.9947698097183397e-33);
    wide angle, square, term, sum;
    p %= n;
    if (2 * p > n) p = n - p;                          /* within half a turn */
    if (4 * p > n) return -wide_cos(n - 2 * p, 2 * n); /* a quarter */
    if (4 * p == n) return 0;
    if (8 * p > n) angle = turn * (wide)(n - 4 * p) / (wide)(4 * n); /* an eighth: sin(pi / 2 - .) */
    else angle = turn * (wide)p / (wide)n;
    square = angle * angle;
    term = sum = 8 * p > n ? angle : 1;
    for (int i = 8 * p > n ? 2 : 1; i < 34; i += 2) {
        term *= -square / (wide)(i * (i + 1));
        sum += term;
    }
    return sum;
}

PU_TEST_FN void fourier_matrix(const node *f, wide *out)
{
    pu_int n = f->op.cols, cols = f->fourier.cols, rows = n / cols;
    wide scale = 1 / wide_sqrt((wide)n);
    for (pu_int m = 0; m < n; m++) {
        for (pu_int j = 0; j < n; j++) {
            pu_int p = (m % cols) * (j % cols) * rows + (m / cols) * (j / cols) * cols;
            out[m * n + j] = scale * wide_cos(p, n);
            out[(n + m) * n + j] = -scale * wide_cos(4 * (p % n) + 3 * n, 4 * n); /* -sin x = -cos(x - pi / 2) */
        }
    }
}

PU_TEST_FN wide leaf_entry(const node *f, pu_int i, pu_int j)
{
    pu_int lag = i > j ? i - j : j - i, n = f->op.rows, r = f->order;
    wide sum = 0;
    switch (f->kind) {
    case DENSE:
    case SPD: return (wide)f->theta[i * f->op.cols + j];
    case DIAGONAL: return i == j ? (wide)f->theta[i] : 0;
    case IDENTITY: return i == j;
    case SCALED: return i == j ? (wide)f->theta[0] : 0;
    case READOUT: return j / r == i ? (wide)f->theta[j % r] : 0;
    case CSR:
        for (pu_int s = f->start[i]; s < f->start[i + 1]; s++) {
            if (f->index[s] == j) sum = (wide)f->theta[s];
        }
        return sum;
    case LOW_RANK:
        for (pu_int s = 0; s < r; s++)
            sum += (wide)f->theta[n + i * r + s] * (wide)f->theta[n + j * r + s];
        return i == j ? sum + (wide)f->theta[i] : sum;
    case TOEPLITZ: return (wide)f->theta[lag];
    case CIRCULANT: return (wide)f->theta[lag < n - lag ? lag : n - lag];
    default: return 0;
    }
}

/* The matrix that the parameters stand for. */
PU_TEST_FN wide *matrix_of(const node *f)
{
    pu_int rows = f->op.rows, cols = f->op.cols;
    wide *out = wides(rows * cols);
    wide *left, *right;
    switch (f->kind) {
    case PRODUCT: wide_product(rows, f->left->op.cols, cols, matrix_of(f->left), matrix_of(f->right), 0, out); break;
    case SUM:
        left = matrix_of(f->left);
        right = matrix_of(f->right);
        for (pu_int i = 0; i < rows * cols; i++)
            out[i] = left[i] + right[i];
        break;
    case KRONECKER: kronecker_matrix(f, out); break;
    case AR: ar_matrix(f, out); break;
    case SSM: ssm_matrix(f, out); break;
    case FOURIER: fourier_matrix(f, out); break;
    default:
        for (pu_int i = 0; i < rows; i++) {
            for (pu_int j = 0; j < cols; j++)
                out[i * cols + j] = leaf_entry(f, i, j);
        }
        break;
    }
    return out;
}

PU_TEST_FN void pull(const node *f, const wide *S, wide *out);

PU_TEST_FN void pull_kronecker(const node *f, const wide *S, wide *out)
{
    wide *l = matrix_of(f->left), *r = matrix_of(f->right);
    pu_int lr = f->left->op.rows, lc = f->left->op.cols, rr = f->right->op.rows, rc = f->right->op.cols;
    wide *Sl = wides(lr * lc), *Sr = wides(rr * rc);
    for (pu_int i = 0; i < lr * rr; i++) {
        for (pu_int j = 0; j < lc * rc; j++) {
            wide s = S[i * lc * rc + j];
            Sl[i / rr * lc + j / rc] += s * r[i % rr * rc + j % rc];
            Sr[i % rr * rc + j % rc] += s * l[i / rr * lc + j / rc];
        }
    }
    pull(f->left, Sl, out);
    pull(f->right, Sr, out + f->left->op.params);
}

PU_TEST_FN void pull_product(const node *f, const wide *S, wide *out)
{
    pu_int rows = f->op.rows, cols = f->op.cols, inner = f->left->op.cols;
    wide *Sl = wides(rows * inner), *Sr = wides(inner * cols);
    wide_product(rows, cols, inner, S, matrix_of(f->right), 2, Sl);
    wide_product(inner, rows, cols, matrix_of(f->left), S, 1, Sr);
    pull(f->left, Sl, out);
    pull(f->right, Sr, out + f->left->op.params);
}

/* out_p += sum_ij S_ij dOp_ij / dtheta_p; symmetrised where the operator says so */
PU_TEST_FN void pull(const node *f, const wide *S, wide *out)
{
    pu_int rows = f->op.rows, cols = f->op.cols, r = f->order;
    size_t mark = pool_used;
    switch (f->kind) {
    case DENSE:
        for (pu_int i = 0; i < rows * cols; i++)
            out[i] += S[i];
        break;
    case SPD:
        for (pu_int i = 0; i < rows; i++) {
            for (pu_int j = 0; j < cols; j++)
                out[i * cols + j] += (S[i * cols + j] + S[j * cols + i]) / 2;
        }
        break;
    case DIAGONAL:
        for (pu_int i = 0; i < rows; i++)
            out[i] += S[i * cols + i];
        break;
    case SCALED:
        for (pu_int i = 0; i < rows; i++)
            out[0] += S[i * cols + i];
        break;
    case READOUT:
        for (pu_int j = 0; j < cols; j++)
            out[j % r] += S[j / r * cols + j];
        break;
    case CSR:
        for (pu_int i = 0; i < rows; i++) {
            for (pu_int s = f->start[i]; s < f->start[i + 1]; s++)
                out[s] += S[i * cols + f->index[s]];
        }
        break;
    case LOW_RANK:
        for (pu_int i = 0; i < rows; i++) {
            out[i] += S[i * cols + i];
            for (pu_int j = 0; j < cols; j++) {
                for (pu_int s = 0; s < r; s++)
                    out[rows + i * r + s] += (S[i * cols + j] + S[j * cols + i]) * (wide)f->theta[rows + j * r + s];
            }
        }
        break;
    case TOEPLITZ:
    case CIRCULANT:
        for (pu_int i = 0; i < rows; i++) {
            for (pu_int j = 0; j < cols; j++) {
                pu_int lag = i > j ? i - j : j - i;
                if (f->kind == CIRCULANT && lag > rows - lag) lag = rows - lag;
                out[lag] += S[i * cols + j];
            }
        }
        break;
    case AR: ar_pull(f, S, out); break;
    case SSM: ssm_pull(f, S, out); break;
    case PRODUCT: pull_product(f, S, out); break;
    case KRONECKER: pull_kronecker(f, S, out); break;
    case SUM:
        pull(f->left, S, out);
        pull(f->right, S, out + f->left->op.params);
        break;
    default: break;
    }
    pool_used = mark;
}

/* Products by Fourier transforms are rounded relative to the largest entry of the result. */
PU_TEST_FN int transforms(const node *f)
{
    if (!f) return 0;
    return f->kind == FOURIER || f->kind == TOEPLITZ || f->kind == CIRCULANT || transforms(f->left) ||
           transforms(f->right);
}

/* ---- random models --------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t number;
    regime how;
    pu_int D, M, N, K;
    node *Gamma, *Phi;
    pu_real *nu, *eta, *psi, *y, *delta;
    unsigned char *mask;
    pu_lgm lgm;
    pu_data data;
    const char *data_kind;
} model;

/* A divisor of n, most often neither 1 nor n where there is such a one. */
PU_TEST_FN pu_int divisor(pu_int n)
{
    for (int tries = 0; tries < 4; tries++) {
        pu_int d = 1 + pick((int)n);
        if (n % d == 0 && (tries == 3 || (d > 1 && d < n))) return d;
    }
    return 1;
}

PU_TEST_FN node *make_prior(pu_int D, const regime *how, int depth)
{
    static const op_kind leaves[] = {DIAGONAL, DIAGONAL, SPD,      SPD,      IDENTITY,  SCALED,    AR,  AR,
                                     SSM,      SSM,      LOW_RANK, TOEPLITZ, CIRCULANT, KRONECKER, SUM, PRODUCT};
    double size = pow(10, how->gamma), spread = how->gamma_spread;
    regime half = *how;
    pu_int a;
    half.gamma /= 2;
    half.gamma_spread /= 2;
    switch (leaves[pick(depth > 0 ? 12 : 16)]) {
    case SPD: return make_spd(D, size, spread, 1);
    case IDENTITY: return make_identity(D);
    case SCALED: return make_scaled(D, size);
    case AR: return make_ar(D, size, spread);
    case SSM: a = divisor(D); return make_ssm(a <= MOST_STATES ? D / a : D, a <= MOST_STATES ? a : 1, size, spread);
    case LOW_RANK: return make_low_rank(D, size, spread);
    case TOEPLITZ: return make_lags(TOEPLITZ, D, size, spread, 1);
    case CIRCULANT: return make_lags(CIRCULANT, D, size, spread, 1);
    case KRONECKER:
        a = divisor(D);
        return make_pair(KRONECKER, make_prior(a, &half, depth + 1), make_prior(D / a, &half, depth + 1));
    case SUM: return make_pair(SUM, make_prior(D, how, depth + 1), make_prior(D, how, depth + 1));
    case PRODUCT: /* symmetric only where they commute */
        if (often(0.5)) return make_pair(PRODUCT, make_diagonal(D, size, spread / 2), make_diagonal(D, 1, spread / 2));
        return make_pair(PRODUCT, make_scaled(D, 2), make_spd(D, size, spread, 1));
    default: break;
    }
    return make_diagonal(D, size, spread);
}

/* M is a wish: square operators have D rows, a readout as many as there are steps. */
PU_TEST_FN node *make_map(pu_int M, const node *Gamma, const regime *how, int depth)
{
    static const op_kind kinds[] = {DENSE,    DENSE,  DENSE,   DENSE,     CSR,      CSR,      DIAGONAL,
                                    IDENTITY, SCALED, READOUT, SPD,       LOW_RANK, TOEPLITZ, CIRCULANT,
                                    FOURIER,  AR,     SSM,     KRONECKER, SUM,      PRODUCT};
    pu_int D = Gamma->op.rows, a, inner;
    double size = pow(10, how->phi), spread = how->phi_spread;
    op_kind kind = kinds[pick(depth > 0 ? 17 : 20)];
    node *between_them;
    if (Gamma->kind == SSM && often(0.6)) kind = READOUT;
    if (Gamma->kind == AR && often(0.3)) kind = often(0.5) ? IDENTITY : DIAGONAL;
    switch (kind) {
    case CSR: return make_csr(M, D, size, spread);
    case DIAGONAL: return make_diagonal(D, size, spread);
    case IDENTITY: return make_identity(D);
    case SCALED: return make_scaled(D, size);
    case READOUT: a = Gamma->kind == SSM ? Gamma->order : divisor(D); return make_readout(D / a, a, size, spread);
    case SPD: return make_spd(D, size, spread, 0);
    case LOW_RANK: return make_low_rank(D, size, spread);
    case TOEPLITZ: return make_lags(TOEPLITZ, D, size, spread, 0);
    case CIRCULANT: return make_lags(CIRCULANT, D, size, spread, 0);
    case FOURIER: return make_fourier(D);
    case AR: return make_ar(D, size, spread / 4);
    case SSM: return make_ssm(D, 1, size, spread / 4);
    case KRONECKER:
        a = divisor(D);
        return make_pair(KRONECKER, make_dense(1 + pick(2), a, size, spread), make_dense((M + 1) / 2, D / a, 1, 0));
    case SUM: return make_pair(SUM, make_dense(M, D, size, spread), make_csr(M, D, size, spread));
    case PRODUCT:
        inner = 1 + pick((int)M + 1);
        between_them = make_dense(inner, D, 1, spread);
        return make_pair(PRODUCT, make_dense(M, inner, size, 0), between_them);
    default: break;
    }
    return make_dense(M, D, size, spread);
}

/* Each number is extreme in about a third of the models, so that some are extreme in one only, and some in none. */
PU_TEST_FN regime random_regime(void)
{
    regime how;
    int tame = often(0.25);
    memset(&how, 0, sizeof how);
    how.psi = tame || often(0.4) ? between(-1, 1) : between(-12, 12);
    how.psi_spread = tame || often(0.7) ? between(0, 1) : between(0, 12);
    how.gamma = tame || often(0.7) ? between(-1, 1) : between(-6, 6);
    how.gamma_spread = tame || often(0.6) ? between(0, 1) : between(0, 12);
    how.phi = tame || often(0.8) ? between(-0.5, 0.5) : between(-3, 3);
    how.phi_spread = tame || often(0.7) ? between(0, 0.5) : between(0, 12);
    how.y = often(0.7) ? 0 : between(-4, 4);
    if (how.psi + how.psi_spread / 2 > 12) how.psi = 12 - how.psi_spread / 2;
    if (how.psi - how.psi_spread / 2 < -12) how.psi = how.psi_spread / 2 - 12;
    return how;
}

PU_TEST_FN pu_int random_size(void)
{
    double u = uniform();
    if (u < 0.12) return 1;
    if (u < 0.985) return 1 + pick(8);
    return 9 + pick(12);
}

/* What was observed: all, nothing, one entry of each datum, or some. Missing entries of y are NaN. */
PU_TEST_FN void random_mask(model *m)
{
    static const char *const kinds[] = {"all observed", "all observed", "all observed", "nothing observed",
                                        "one observed", "some observed", "some observed", "some observed"};
    int how = pick(8);
    double share = between(0, 1);
    pu_int *start, *index, count = 0;
    pu_real *values;
    for (pu_int n = 0; n < m->N; n++) {
        pu_int only = pick((int)m->M);
        for (pu_int i = 0; i < m->M; i++) {
            int seen = how < 3 || (how > 4 && often(share)) || (how == 4 && i == only);
            m->mask[n * m->M + i] = (unsigned char)seen;
            if (!seen) m->y[n * m->M + i] = PU_R(NAN);
        }
    }
    m->data_kind = kinds[how];
    if (how < 3) m->data = pu_data_full(m->N, m->M, m->y);
    else if (often(0.34)) m->data = pu_data_nan(m->N, m->M, m->y);
    else m->data = pu_data_masked(m->N, m->M, m->y, m->mask);
    if (!often(0.2)) return;
    start = (pu_int *)tc_bytes((size_t)(m->N + 1) * sizeof(pu_int));
    index = (pu_int *)tc_bytes((size_t)(m->N * m->M) * sizeof(pu_int));
    values = tc_reals(m->N * m->M);
    for (pu_int n = 0; n < m->N; n++) {
        for (pu_int i = 0; i < m->M; i++) {
            if (!m->mask[n * m->M + i]) continue;
            values[count] = m->y[n * m->M + i];
            index[count++] = i;
        }
        start[n + 1] = count;
    }
    m->data = pu_data_lists(m->N, m->M, start, index, values);
}

/* y = Phi z + eta + noise of the model's own size, or numbers that the model does not expect */
PU_TEST_FN void random_data(model *m)
{
    int expected = often(0.5);
    double size = pow(10, m->how.y);
    wide *Phi = matrix_of(m->Phi);
    m->y = tc_reals(m->N * m->M);
    m->mask = (unsigned char *)tc_bytes((size_t)(m->N * m->M));
    for (pu_int n = 0; n < m->N; n++) {
        double *z = tc_doubles(m->D);
        for (pu_int j = 0; j < m->D; j++)
            z[j] = (m->nu ? (double)m->nu[j] : 0) + normal() * size;
        for (pu_int i = 0; i < m->M; i++) {
            double sum = normal() * (expected ? 1 / sqrt((double)m->psi[i]) : size);
            for (pu_int j = 0; expected && j < m->D; j++)
                sum += (double)Phi[i * m->D + j] * z[j];
            m->y[n * m->M + i] = (pu_real)(sum + (m->eta ? (double)m->eta[i] : 0));
        }
    }
    random_mask(m);
}

/* Everything but the probes. The struct must stay where it is. 0: these numbers make no model, as rounding has it. */
PU_TEST_FN int random_model(model *m, uint64_t seed, uint64_t number)
{
    double size;
    memset(m, 0, sizeof *m);
    chance_state = tc_hash(seed * UINT64_C(0x2545f4914f6cdd1d) + number);
    m->number = number;
    m->how = random_regime();
    m->N = often(0.5) ? 1 : 1 + pick(3);
    m->K = often(0.3) ? 1 : 1 + pick(4);
    m->Gamma = make_prior(random_size(), &m->how, 0);
    if (!m->Gamma) return 0;
    m->Phi = make_map(random_size(), m->Gamma, &m->how, 0);
    if (!m->Phi) return 0;
    m->D = m->Gamma->op.rows;
    m->M = m->Phi->op.rows;
    size = pow(10, m->how.y);
    if (often(0.5)) {
        m->nu = tc_reals(m->D);
        for (pu_int i = 0; i < m->D; i++)
            m->nu[i] = (pu_real)(size * normal());
    }
    if (often(0.5)) {
        m->eta = tc_reals(m->M);
        for (pu_int i = 0; i < m->M; i++)
            m->eta[i] = (pu_real)(size * normal());
    }
    m->psi = tc_reals(m->M);
    for (pu_int i = 0; i < m->M; i++)
        m->psi[i] = (pu_real)(pow(10, m->how.psi) * spread_factor(m->how.psi_spread));
    random_data(m);
    m->lgm.Gamma = &m->Gamma->op;
    m->lgm.Phi = &m->Phi->op;
    m->lgm.nu = m->nu;
    m->lgm.eta = m->eta;
    m->lgm.psi = m->psi;
    return 1;
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

typedef enum { NU, GAMMA, PHI, ETA, PSI, BLOCKS } block;
enum { NLL = BLOCKS, MEAN, VARIANCE, FITTED, FIT, NEW, PARTS };

static const char *const part_name[PARTS] = {"nu",   "Gamma",    "Phi",       "eta", "psi", "nll",
                                             "mean", "variance", "predicted", "fit", "new"};

/* What follows from a model without probes; per datum D x D and M x D parts are kept for the gradients. */
typedef struct {
    wide *Gamma, *Gamma_inverse, *Phi;
    wide **A, **factor, **Sigma; /* per datum, D x D */
    wide **d, **mu, **r, **w;    /* mu - nu: D, mu: D, e - Phi mu: M, mask psi: M */
    wide logdet_Gamma;
    double nll, nll_scale;
    double condition; /* largest of A, unit diagonal, and of Gamma: */
    double gamma_condition;
    double cancellation; /* largest of |e| / |e - Phi mu| (largest entries), and see_cancellation() */
    double shrinkage;    /* largest prior variance / posterior variance */
    double low, high;    /* of the diagonals of A and Sigma, of psi: all numbers must be of a safe size */
    double unit;         /* rounding of the reference's matrices */
} reference;

PU_TEST_FN void see_range(reference *f, wide x)
{
    double size = (double)wide_abs(x);
    if (size < f->low) f->low = size;
    if (size > f->high) f->high = size;
}

PU_TEST_FN wide largest(pu_int n, const wide *x)
{
    wide size = 0;
    for (pu_int i = 0; i < n; i++)
        size = wide_max(size, wide_abs(x[i]));
    return size;
}

/* Digits that are lost where e - Phi mu and mu - nu are used: in W (e - Phi mu), in Gamma (mu - nu), and where the
   latter is squared beside Sigma. */
PU_TEST_FN void see_cancellation(const model *m, reference *f, pu_int n, const wide *d, const wide *mu,
                                 const wide *Sigma)
{
    pu_int D = m->D;
    wide sums = 0, sizes = 0;
    const wide *r = f->r[n];
    for (pu_int i = 0; i < m->M; i++) {
        if (!m->mask[n * m->M + i]) continue;
        sizes = wide_max(sizes, wide_abs((wide)m->y[n * m->M + i] - (m->eta ? (wide)m->eta[i] : 0)));
        sums = wide_max(sums, wide_abs(r[i]));
    }
    if (sizes > 0) f->cancellation = fmax(f->cancellation, (double)(sizes / sums));
    sums = sizes = 0;
    for (pu_int i = 0; i < D; i++) {
        wide sum = 0, size = 0, square = mu[i] * mu[i] / (d[i] * d[i] + Sigma[i * D + i]);
        for (pu_int j = 0; j < D; j++) {
            sum += f->Gamma[i * D + j] * d[j];
            size += wide_abs(f->Gamma[i * D + j] * mu[j]);
        }
        sums = wide_max(sums, wide_abs(sum));
        sizes = wide_max(sizes, size);
        f->cancellation = fmax(f->cancellation, (double)square);
    }
    if (sums > 0) f->cancellation = fmax(f->cancellation, (double)(sizes / sums));
}

/* A, its factor and inverse, mu, the residual, and the datum's part of the NLL; 0 when A is not positive. */
PU_TEST_FN int solve_datum(const model *m, reference *f, pu_int n)
{
    pu_int D = m->D, M = m->M;
    wide *A = wides(D * D), *L = wides(D * D), *Sigma = wides(D * D), *d = wides(D), *mu = wides(D), *r = wides(M),
         *w = wides(M);
    wide quadratic = 0, log_psi = 0, logdet;
    pu_int observed = 0;
    memcpy(A, f->Gamma, (size_t)(D * D) * sizeof *A);
    for (pu_int i = 0; i < M; i++) {
        if (!m->mask[n * M + i]) continue;
        observed++;
        w[i] = (wide)m->psi[i];
        r[i] = (wide)m->y[n * M + i] - (m->eta ? (wide)m->eta[i] : 0);
        log_psi += wide_log(w[i]);
        for (pu_int j = 0; m->nu && j < D; j++)
            r[i] -= f->Phi[i * D + j] * (wide)m->nu[j];
        for (pu_int j = 0; j < D; j++) {
            wide row = w[i] * f->Phi[i * D + j];
            if (row == 0) continue;
            d[j] += row * r[i];
            for (pu_int l = 0; l < D; l++)
                A[j * D + l] += row * f->Phi[i * D + l];
        }
    }
    memcpy(L, A, (size_t)(D * D) * sizeof *L);
    if (!wide_cholesky(D, L)) return 0;
    wide_inverse(D, L, Sigma);
    wide_solve(D, L, d);
    for (pu_int j = 0; j < D; j++) {
        wide sum = 0;
        mu[j] = d[j] + (m->nu ? (wide)m->nu[j] : 0);
        for (pu_int l = 0; l < D; l++)
            sum += f->Gamma[j * D + l] * d[l];
        quadratic += sum * d[j];
        f->shrinkage = fmax(f->shrinkage, (double)(f->Gamma_inverse[j * D + j] / Sigma[j * D + j]));
        see_range(f, A[j * D + j]);
        see_range(f, Sigma[j * D + j]);
    }
    for (pu_int i = 0; i < M; i++) {
        for (pu_int j = 0; w[i] != 0 && j < D; j++)
            r[i] -= f->Phi[i * D + j] * d[j];
        quadratic += w[i] * r[i] * r[i];
        see_range(f, (wide)m->psi[i]);
    }
    logdet = wide_logdet(D, L);
    f->nll +=
        (double)((quadratic + logdet - f->logdet_Gamma - log_psi) / 2) + 0.5 * (double)observed * log(2 * acos(-1.0));
    f->nll_scale += (double)((quadratic + wide_abs(logdet) + wide_abs(f->logdet_Gamma) + wide_abs(log_psi)) / 2) +
                    (double)(observed + D);
    f->condition = fmax(f->condition, scaled_condition(D, A, Sigma));
    f->A[n] = A;
    f->factor[n] = L;
    f->Sigma[n] = Sigma;
    f->d[n] = d;
    f->mu[n] = mu;
    f->r[n] = r;
    f->w[n] = w;
    see_cancellation(m, f, n, d, mu, Sigma);
    return 1;
}

PU_TEST_FN wide **wide_pointers(pu_int n) { return (wide **)tc_bytes((size_t)n * sizeof(wide *)); }

PU_TEST_FN int solve_model(const model *m, reference *f)
{
    pu_int D = m->D;
    wide *L = wides(D * D);
    memset(f, 0, sizeof *f);
    f->low = HUGE_VAL;
    f->unit = pow(2, -WIDE_DIGITS + 1) * (double)(D + m->M);
    f->Gamma = matrix_of(m->Gamma);
    f->Phi = matrix_of(m->Phi);
    f->Gamma_inverse = wides(D * D);
    memcpy(L, f->Gamma, (size_t)(D * D) * sizeof *L);
    if (!wide_cholesky(D, L)) return 0;
    wide_inverse(D, L, f->Gamma_inverse);
    f->logdet_Gamma = wide_logdet(D, L);
    f->gamma_condition = scaled_condition(D, f->Gamma, f->Gamma_inverse);
    f->A = wide_pointers(m->N);
    f->factor = wide_pointers(m->N);
    f->Sigma = wide_pointers(m->N);
    f->d = wide_pointers(m->N);
    f->mu = wide_pointers(m->N);
    f->r = wide_pointers(m->N);
    f->w = wide_pointers(m->N);
    for (pu_int n = 0; n < m->N; n++) {
        if (!solve_datum(m, f, n)) return 0;
    }
    f->nll /= (double)m->N;
    f->nll_scale /= (double)m->N;
    return 1;
}

/* A gradient and the sizes of its terms. floor_: where all of them are 0, what was subtracted. */
typedef struct {
    pu_int size[BLOCKS];
    wide *value[BLOCKS], *scale[BLOCKS];
    wide subtracted[BLOCKS];
} gradient;

/* A state space's gradient in A is N (M_{t,t-1} - A M_{t-1,t-1}), which vanishes when the data say nothing, and has other
   units than the gradients in Q and P0: scale (its first S^2 entries) += |N| |M_{t,t-1}|, what it is the difference of. */
PU_TEST_FN void add_transition_size(const node *op, const wide *M, wide *scale)
{
    ssm_parts s;
    pu_int S = op->order, D = op->op.rows;
    wide E[MOST_STATES * MOST_STATES], F[MOST_STATES * MOST_STATES], N[MOST_STATES * MOST_STATES];
    ssm_of(op, &s);
    for (pu_int i = 0; i < S * S; i++)
        N[i] = wide_abs(s.N[i]);
    for (pu_int t = 1; t < D / S; t++) {
        block_of(M, D, S, t, t - 1, E);
        for (pu_int i = 0; i < S * S; i++)
            E[i] = wide_abs(E[i]);
        wide_product(S, S, S, N, E, 0, F);
        for (pu_int i = 0; i < S * S; i++)
            scale[i] += 2 * F[i];
    }
}

/* value += sum_ij S_ij dOp_ij, scale += its size */
PU_TEST_FN void add_pulled(const node *op, const wide *S, wide *value, wide *scale)
{
    size_t mark = pool_used;
    wide *term = wides(op->op.params);
    pull(op, S, term);
    for (pu_int i = 0; i < op->op.params; i++) {
        value[i] += term[i];
        scale[i] += wide_abs(term[i]);
    }
    if (op->kind == SSM) add_transition_size(op, S, scale);
    pool_used = mark;
}

/* One datum's terms, but for log det Gamma. Sigma: exact, or the mean of sigma sigma'. */
PU_TEST_FN void add_datum(const model *m, const reference *f, pu_int n, const wide *Sigma, gradient *g)
{
    pu_int D = m->D, M = m->M;
    size_t mark = pool_used;
    const wide *d = f->d[n], *mu = f->mu[n], *r = f->r[n], *w = f->w[n];
    wide *S = wides(D * D), *T = wides(M * D), *U = wides(M * D);
    for (pu_int i = 0; i < D; i++) {
        wide sum = 0, size = 0;
        for (pu_int j = 0; j < D; j++) {
            sum += f->Gamma[i * D + j] * d[j];
            size += wide_abs(f->Gamma[i * D + j] * mu[j]);
            S[i * D + j] = d[i] * d[j] / 2;
        }
        g->value[NU][i] -= sum;
        g->scale[NU][i] += wide_abs(sum);
        g->subtracted[NU] = wide_max(g->subtracted[NU], size);
    }
    if (g->size[GAMMA]) {
        add_pulled(m->Gamma, S, g->value[GAMMA], g->scale[GAMMA]);
        for (pu_int i = 0; i < D * D; i++)
            S[i] = Sigma[i] / 2;
        add_pulled(m->Gamma, S, g->value[GAMMA], g->scale[GAMMA]);
    }
    for (pu_int i = 0; i < M; i++) {
        wide spread = 0;
        if (w[i] == 0) continue;
        for (pu_int j = 0; j < D; j++) {
            wide sum = 0;
            for (pu_int l = 0; l < D; l++) {
                if (f->Phi[i * D + l] != 0) sum += f->Phi[i * D + l] * Sigma[l * D + j];
            }
            spread += sum * f->Phi[i * D + j];
            T[i * D + j] = w[i] * sum;
            U[i * D + j] = -w[i] * r[i] * mu[j];
        }
        g->value[ETA][i] -= w[i] * r[i];
        g->scale[ETA][i] += wide_abs(w[i] * r[i]);
        g->value[PSI][i] += (r[i] * r[i] + spread - 1 / w[i]) / 2;
        g->scale[PSI][i] += (r[i] * r[i] + spread + 1 / w[i]) / 2;
    }
    if (g->size[PHI]) {
        add_pulled(m->Phi, T, g->value[PHI], g->scale[PHI]);
        add_pulled(m->Phi, U, g->value[PHI], g->scale[PHI]);
    }
    pool_used = mark;
}

PU_TEST_FN void begin_gradient(const model *m, gradient *g)
{
    memset(g, 0, sizeof *g);
    g->size[NU] = m->D;
    g->size[GAMMA] = m->Gamma->op.logdet_grad ? m->Gamma->op.params : 0;
    g->size[PHI] = m->Phi->op.params;
    g->size[ETA] = g->size[PSI] = m->M;
    for (int b = 0; b < BLOCKS; b++) {
        g->value[b] = wides(g->size[b]);
        g->scale[b] = wides(g->size[b]);
    }
}

/* From sums over the data to means; - 1/2 log det Gamma is the same for all of them. */
PU_TEST_FN void end_gradient(const model *m, const reference *f, gradient *g)
{
    wide *S = wides(m->D * m->D);
    for (pu_int i = 0; i < m->D * m->D; i++)
        S[i] = -f->Gamma_inverse[i] * (wide)m->N / 2;
    if (g->size[GAMMA]) add_pulled(m->Gamma, S, g->value[GAMMA], g->scale[GAMMA]);
    for (int b = 0; b < BLOCKS; b++) {
        for (pu_int i = 0; i < g->size[b]; i++) {
            g->value[b][i] /= (wide)m->N;
            g->scale[b][i] /= (wide)m->N;
        }
    }
}

/* mean_k sigma_k sigma_k' of K x D solutions */
PU_TEST_FN wide *second_moment(const model *m, const wide *sigma)
{
    pu_int D = m->D;
    wide *Sigma = wides(D * D);
    for (pu_int k = 0; k < m->K; k++) {
        const wide *s = sigma + k * D;
        for (pu_int i = 0; i < D; i++) {
            for (pu_int j = 0; j < D; j++)
                Sigma[i * D + j] += s[i] * s[j] / (wide)m->K;
        }
    }
    return Sigma;
}

/* sigmas: NULL, or per datum the K solutions of the probes (K x D), whose mean square takes the place of Sigma */
PU_TEST_FN void reference_gradient(const model *m, const reference *f, wide *const *sigmas, gradient *g)
{
    begin_gradient(m, g);
    for (pu_int n = 0; n < m->N; n++)
        add_datum(m, f, n, sigmas ? second_moment(m, sigmas[n]) : f->Sigma[n], g);
    end_gradient(m, f, g);
}

/* ---- the solvers, step by step ---- */

/* A run of a solver on one column, and what the reverse pass needs of it. */
typedef struct {
    pu_int steps;                  /* taken */
    wide *x;                       /* D */
    wide *d, *r, *q;               /* per step D, r also at the end: (steps + 1) x D */
    wide *alpha, *beta, *rho, *pi; /* per step */
} run;

typedef struct {
    pu_int iterations;
    pu_solver solver;
    const wide *m;  /* PCG: diagonal of M^-1 */
    const wide *x0; /* or NULL */
    wide step;      /* GD */
    int detached;   /* alpha and beta are constants in the reverse pass */
} recurrence;

PU_TEST_FN wide wide_dot(pu_int n, const wide *a, const wide *b)
{
    wide sum = 0;
    for (pu_int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A x = u by `how->iterations` steps; ends before where the residual is lost in the reference's rounding. */
PU_TEST_FN run solve_by_steps(pu_int D, const wide *A, const wide *u, const recurrence *how)
{
    run t;
    pu_int I = how->iterations;
    memset(&t, 0, sizeof t);
    t.x = wides(D);
    t.d = wides((I + 1) * D);
    t.r = wides((I + 1) * D);
    t.q = wides(I * D);
    t.alpha = wides(I);
    t.beta = wides(I);
    t.rho = wides(I + 1);
    t.pi = wides(I);
    if (how->x0) memcpy(t.x, how->x0, (size_t)D * sizeof *t.x);
    for (pu_int i = 0; i < D; i++) {
        t.r[i] = u[i] - wide_dot(D, A + i * D, t.x);
        t.d[i] = how->m ? how->m[i] * t.r[i] : t.r[i];
    }
    t.rho[0] = wide_dot(D, t.r, t.d);
    for (pu_int s = 0; s < I; s++) {
        wide *d = t.d + s * D, *r = t.r + s * D, *q = t.q + s * D, *next = r + D, *ahead = d + D;
        if (!(wide_dot(D, r, r) > (wide)1e-50 * wide_dot(D, u, u))) break;
        for (pu_int i = 0; i < D; i++)
            q[i] = wide_dot(D, A + i * D, d);
        t.pi[s] = wide_dot(D, d, q);
        t.alpha[s] = how->solver == PU_GD ? how->step : t.rho[s] / t.pi[s];
        for (pu_int i = 0; i < D; i++) {
            t.x[i] += t.alpha[s] * d[i];
            next[i] = r[i] - t.alpha[s] * q[i];
            ahead[i] = how->m ? how->m[i] * next[i] : next[i];
        }
        t.rho[s + 1] = wide_dot(D, next, ahead);
        t.beta[s] = how->solver == PU_CG || how->solver == PU_PCG ? t.rho[s + 1] / t.rho[s] : 0;
        for (pu_int i = 0; i < D; i++)
            ahead[i] += t.beta[s] * d[i];
        t.steps++;
    }
    return t;
}

/* The same backwards: xbar -> cotangents of A (added to Abar) and u (ubar, overwritten). Plain reverse mode,
   statement by statement of solve_by_steps. */
PU_TEST_FN void reverse_steps(pu_int D, const wide *A, const recurrence *how, const run *t, const wide *xbar,
                              wide *Abar, wide *ubar)
{
    wide *dbar = wides(D), *qbar = wides(D), *rbar = ubar, rhobar = 0;
    memset(rbar, 0, (size_t)D * sizeof *rbar);
    for (pu_int s = t->steps - 1; s >= 0; s--) {
        const wide *d = t->d + s * D, *q = t->q + s * D, *next = t->r + (s + 1) * D;
        wide a = t->alpha[s], b = t->beta[s], bbar = 0, abar, pibar = 0, rhobar_before = 0;
        if (!how->detached && b != 0) {
            bbar = wide_dot(D, dbar, d);
            rhobar += bbar / t->rho[s];
            rhobar_before = -bbar * b / t->rho[s];
        }
        for (pu_int i = 0; i < D; i++) {
            wide m = how->m ? how->m[i] : 1;
            rbar[i] += m * dbar[i] + 2 * rhobar * m * next[i];
            dbar[i] = b * dbar[i] + a * xbar[i];
        }
        abar = wide_dot(D, xbar, d) - wide_dot(D, rbar, q);
        if (!how->detached && how->solver != PU_GD) {
            rhobar_before += abar / t->pi[s];
            pibar = -abar * a / t->pi[s];
        }
        for (pu_int i = 0; i < D; i++)
            qbar[i] = pibar * d[i] - a * rbar[i];
        for (pu_int i = 0; i < D; i++) {
            dbar[i] += pibar * q[i] + wide_dot(D, A + i * D, qbar);
            for (pu_int j = 0; j < D; j++)
                Abar[i * D + j] += qbar[i] * d[j];
        }
        rhobar = rhobar_before;
    }
    for (pu_int i = 0; i < D; i++) {
        wide m = how->m ? how->m[i] : 1;
        rbar[i] += m * dbar[i] + 2 * rhobar * m * t->r[i];
    }
    for (pu_int i = 0; how->x0 && i < D; i++) {
        for (pu_int j = 0; j < D; j++)
            Abar[i * D + j] -= rbar[i] * how->x0[j];
    }
}

/* <Abar, dA> + ubar'db, A = Gamma + Phi'W Phi, b = Gamma nu + Phi'W e; e = r + Phi mu at any mu */
PU_TEST_FN void add_cotangents(const model *m, const reference *f, pu_int n, const wide *Abar, const wide *ubar,
                               gradient *g)
{
    pu_int D = m->D, M = m->M;
    wide *S = wides(D * D), *T = wides(M * D);
    const wide *w = f->w[n];
    for (pu_int i = 0; i < D; i++) {
        wide sum = wide_dot(D, f->Gamma + i * D, ubar);
        g->value[NU][i] += sum;
        g->scale[NU][i] += wide_abs(sum);
        for (pu_int j = 0; j < D; j++) {
            S[i * D + j] = (Abar[i * D + j] + Abar[j * D + i]) / 2;
            if (m->nu) S[i * D + j] += (ubar[i] * (wide)m->nu[j] + ubar[j] * (wide)m->nu[i]) / 2;
        }
    }
    if (g->size[GAMMA]) add_pulled(m->Gamma, S, g->value[GAMMA], g->scale[GAMMA]);
    for (pu_int i = 0; i < M; i++) {
        const wide *row = f->Phi + i * D;
        wide e, along, spread = 0;
        if (w[i] == 0) continue;
        e = f->r[n][i] + wide_dot(D, row, f->mu[n]);
        along = wide_dot(D, row, ubar);
        for (pu_int j = 0; j < D; j++) {
            wide sum = 0;
            for (pu_int l = 0; l < D; l++)
                sum += row[l] * (Abar[l * D + j] + Abar[j * D + l]);
            spread += sum * row[j] / 2;
            T[i * D + j] = w[i] * (sum + e * ubar[j]);
        }
        g->value[ETA][i] -= w[i] * along;
        g->scale[ETA][i] += wide_abs(w[i] * along);
        g->value[PSI][i] += spread + along * e;
        g->scale[PSI][i] += wide_abs(spread) + wide_abs(along * e);
    }
    if (g->size[PHI]) add_pulled(m->Phi, T, g->value[PHI], g->scale[PHI]);
}

/* The right-hand side of the mean. */
PU_TEST_FN wide *right_side(const model *m, const reference *f, pu_int n)
{
    wide *b = wides(m->D);
    for (pu_int i = 0; i < m->D; i++)
        b[i] = wide_dot(m->D, f->A[n] + i * m->D, f->mu[n]);
    return b;
}

/* What PU_OUTPUT (network = 0) and PU_NETWORK give after so many steps. hows: one for each datum and column (N x (K +
   1)). *left: the smallest |u - A x| / |u|; *cancellation: what see_cancellation() finds there. */
PU_TEST_FN void gradient_of_steps(const model *m, const reference *f, const recurrence *hows, int network, gradient *g,
                                  double *left, double *cancellation)
{
    pu_int D = m->D, M = m->M;
    wide **ds = wide_pointers(m->N), **mus = wide_pointers(m->N), **rs = wide_pointers(m->N);
    begin_gradient(m, g);
    *left = HUGE_VAL;
    *cancellation = 0;
    for (pu_int n = 0; n < m->N; n++) {
        reference here = *f; /* with the datum's mu, mu - nu and residual replaced */
        wide *sigma = wides(m->K * D), *Abar = wides(D * D), *ubar = wides(D), *none = wides(D), *d = wides(D),
             *r = wides(M);
        wide *xbar = wides(D), *mu = NULL;
        const wide *A = f->A[n];
        for (pu_int c = 0; c <= m->K; c++) {
            const recurrence *how = hows + n * (m->K + 1) + c;
            wide *u = c == 0 ? right_side(m, f, n) : wides(D), size, weight = c == 0 ? 1 : 1 / (wide)m->K;
            run t;
            for (pu_int i = 0; c > 0 && i < D; i++)
                u[i] = (wide)m->delta[(n * m->K + c - 1) * D + i];
            t = solve_by_steps(D, A, u, how);
            for (pu_int i = 0; i < D; i++)
                xbar[i] = weight * (wide_dot(D, A + i * D, t.x) - u[i]);
            if (network) reverse_steps(D, A, how, &t, xbar, Abar, c == 0 ? ubar : none);
            size = wide_dot(D, u, u);
            if (size > 0) *left = fmin(*left, sqrt((double)(wide_dot(D, xbar, xbar) / size / (weight * weight))));
            if (c == 0) mu = t.x;
            else memcpy(sigma + (c - 1) * D, t.x, (size_t)D * sizeof *sigma);
        }
        for (pu_int i = 0; i < D; i++)
            d[i] = mu[i] - (m->nu ? (wide)m->nu[i] : 0);
        for (pu_int i = 0; i < M; i++) {
            r[i] = f->r[n][i];
            for (pu_int j = 0; f->w[n][i] != 0 && j < D; j++)
                r[i] += f->Phi[i * D + j] * (f->mu[n][j] - mu[j]);
        }
        here.d = ds;
        here.mu = mus;
        here.r = rs;
        ds[n] = d;
        mus[n] = mu;
        rs[n] = r;
        see_cancellation(m, &here, n, d, mu, f->Sigma[n]);
        *cancellation = fmax(*cancellation, here.cancellation);
        add_datum(m, &here, n, second_moment(m, sigma), g);
        if (network) add_cotangents(m, f, n, Abar, ubar, g);
    }
    end_gradient(m, f, g);
}

#endif /* WIDE_MODELS_H */

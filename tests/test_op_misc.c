/* test_op_misc.c - sparse rows, diagonal plus low rank, Kronecker products, Toeplitz and circulant matrices, each
   against the dense matrix built from the same parameters by plain loops in double. */
#include "pu_test.h"
#include "test_common.h"

/* ---- fixtures: an operator, its parameters, and the matrix it stands for --------------------- */

typedef enum { CSR, LOW_RANK, TOEPLITZ, CIRCULANT, DENSE, SPD, DIAGONAL, IDENTITY, KRONECKER } op_kind;

typedef struct fixture fixture;
struct fixture {
    op_kind kind;
    pu_op op;
    pu_real *theta, *factor; /* leaves */
    pu_csr csr;
    pu_int *start, *index;
    pu_low_rank low_rank;
    pu_lags lags;
    fixture *left, *right; /* Kronecker products */
};

static uint64_t next_seed = 1;

static fixture *make(op_kind kind)
{
    fixture *f = (fixture *)tc_bytes(sizeof *f);
    f->kind = kind;
    next_seed++;
    return f;
}

/* About two entries in five, a few rows and columns empty. */
static fixture *csr(pu_int rows, pu_int cols)
{
    fixture *f = make(CSR);
    pu_int i, j, count = 0;
    f->start = (pu_int *)tc_bytes((size_t)(rows + 1) * sizeof(pu_int));
    f->index = (pu_int *)tc_bytes((size_t)(rows * cols) * sizeof(pu_int));
    for (i = 0; i < rows; i++) {
        for (j = 0; j < cols; j++) {
            int keep = tc_hash(next_seed * 1000003 + (uint64_t)(i * cols + j)) % 5 < 2;
            if (i % 5 == 3 || j % 7 == 4) keep = 0;
            if (keep || rows * cols == 1) f->index[count++] = j;
        }
        f->start[i + 1] = count;
    }
    f->theta = tc_normal(next_seed, count);
    f->csr.rows = rows;
    f->csr.cols = cols;
    f->csr.start = f->start;
    f->csr.index = f->index;
    f->csr.value = f->theta;
    f->op = pu_op_csr(&f->csr);
    return f;
}

static fixture *low_rank(pu_int n, pu_int r)
{
    fixture *f = make(LOW_RANK);
    pu_real *d = tc_random_positive(next_seed, n);
    f->theta = tc_normal(next_seed + 500, n * (r + 1));
    f->factor = tc_reals(r * r);
    memcpy(f->theta, d, (size_t)n * sizeof *d);
    f->low_rank.n = n;
    f->low_rank.r = r;
    f->low_rank.d = f->theta;
    f->low_rank.u = f->theta + n;
    f->low_rank.factor = f->factor;
    if (pu_low_rank_factor(&f->low_rank, NULL) != PU_OK) exit(2);
    f->op = pu_op_low_rank(&f->low_rank);
    return f;
}

/* Lags of a random sequence's autocorrelation (around the circle or not), plus one: eigenvalues above 1. */
static void autocorrelation(pu_int n, pu_int lags, int circle, pu_real *t)
{
    pu_real *h = tc_normal(next_seed, n);
    pu_int i, l;
    for (l = 0; l < lags; l++) {
        double sum = 0;
        for (i = 0; i < n; i++) {
            if (i + l < n) sum += (double)h[i] * (double)h[i + l];
            else if (circle) sum += (double)h[i] * (double)h[i + l - n];
        }
        t[l] = (pu_real)(2 * sum / (double)n + (l == 0));
    }
}

/* The factor of n lags t as a prior, or for products alone. */
static pu_status factor(pu_lags *f, op_kind kind, pu_int n, const pu_real *t, int prior, pu_int *index)
{
    size_t bytes = 0;
    void *memory;
    pu_status status = kind == TOEPLITZ ? pu_toeplitz_bytes(n, &bytes) : pu_circulant_bytes(n, &bytes);
    if (status) return status;
    memory = tc_bytes(bytes);
    memset(memory, 0x7f, bytes); /* whatever was in it */
    if (kind == TOEPLITZ) return pu_toeplitz_factor(f, n, t, prior, memory, bytes, index);
    return pu_circulant_factor(f, n, t, prior, memory, bytes, index);
}

static fixture *toeplitz(pu_int n)
{
    fixture *f = make(TOEPLITZ);
    f->theta = tc_reals(n);
    autocorrelation(n, n, 0, f->theta);
    if (factor(&f->lags, TOEPLITZ, n, f->theta, 1, NULL) != PU_OK) exit(2);
    f->op = pu_op_toeplitz(n, f->theta, &f->lags);
    return f;
}

static fixture *circulant(pu_int n)
{
    fixture *f = make(CIRCULANT);
    f->theta = tc_reals(n / 2 + 1);
    autocorrelation(n, n / 2 + 1, 1, f->theta);
    if (factor(&f->lags, CIRCULANT, n, f->theta, 1, NULL) != PU_OK) exit(2);
    f->op = pu_op_circulant(n, f->theta, &f->lags);
    return f;
}

static fixture *dense(pu_int rows, pu_int cols)
{
    fixture *f = make(DENSE);
    f->theta = tc_normal(next_seed, rows * cols);
    f->op = pu_op_dense(rows, cols, f->theta);
    return f;
}

static fixture *spd(pu_int n)
{
    fixture *f = make(SPD);
    f->theta = tc_random_spd(next_seed, n);
    f->factor = tc_reals(n * n);
    if (pu_op_spd_factor(n, f->theta, f->factor, NULL) != PU_OK) exit(2);
    f->op = pu_op_spd(n, f->theta, f->factor);
    return f;
}

static fixture *diagonal(pu_int n)
{
    fixture *f = make(DIAGONAL);
    f->theta = tc_random_positive(next_seed, n);
    f->op = pu_op_diagonal(n, f->theta);
    return f;
}

static fixture *identity(pu_int n)
{
    fixture *f = make(IDENTITY);
    f->op = pu_op_identity(n);
    return f;
}

static fixture *kronecker(fixture *left, fixture *right)
{
    fixture *f = make(KRONECKER);
    f->left = left;
    f->right = right;
    f->op = pu_op_kronecker(&left->op, &right->op);
    return f;
}

/* Entry (i, j) of a leaf from its parameters; with `absolute`, without cancellation. */
static double leaf_entry(const fixture *f, pu_int i, pu_int j, int absolute)
{
    const pu_real *t = f->theta;
    pu_int n = f->op.rows, lag = i > j ? i - j : j - i, s;
    double sum = 0;
    switch (f->kind) {
    case CSR:
        for (s = f->start[i]; s < f->start[i + 1]; s++) {
            if (f->index[s] == j) sum = (double)t[s];
        }
        break;
    case LOW_RANK:
        for (s = 0; s < f->low_rank.r; s++) {
            double term = (double)t[n + i * f->low_rank.r + s] * (double)t[n + j * f->low_rank.r + s];
            sum += absolute ? fabs(term) : term;
        }
        if (i == j) sum += (double)t[i];
        break;
    case TOEPLITZ: sum = (double)t[lag]; break;
    case CIRCULANT: sum = (double)t[lag < n - lag ? lag : n - lag]; break;
    case DENSE:
    case SPD: sum = (double)t[i * f->op.cols + j]; break;
    case DIAGONAL: sum = i == j ? (double)t[i] : 0; break;
    case IDENTITY: sum = i == j; break;
    case KRONECKER: break;
    }
    return absolute ? fabs(sum) : sum;
}

static double *matrix(const fixture *f, int absolute)
{
    pu_int i, j, p, q, rows = f->op.rows, cols = f->op.cols;
    double *a = tc_doubles(rows * cols), *l, *r;
    if (f->kind != KRONECKER) {
        for (i = 0; i < rows; i++) {
            for (j = 0; j < cols; j++) a[i * cols + j] = leaf_entry(f, i, j, absolute);
        }
        return a;
    }
    l = matrix(f->left, absolute);
    r = matrix(f->right, absolute);
    for (i = 0; i < f->left->op.rows; i++) {
        for (j = 0; j < f->left->op.cols; j++) {
            for (p = 0; p < f->right->op.rows; p++) {
                for (q = 0; q < f->right->op.cols; q++) {
                    a[(i * f->right->op.rows + p) * cols + j * f->right->op.cols + q] =
                        l[i * f->left->op.cols + j] * r[p * f->right->op.cols + q];
                }
            }
        }
    }
    return a;
}

static double *transposed(pu_int rows, pu_int cols, const double *a)
{
    double *t = tc_doubles(rows * cols);
    pu_int i, j;
    for (i = 0; i < rows; i++) {
        for (j = 0; j < cols; j++) t[j * rows + i] = a[i * cols + j];
    }
    return t;
}

/* Roundings on the way to one entry of a product: the lengths of the sums, and a few more. */
static double roundings(const fixture *f)
{
    if (f->kind == KRONECKER) return roundings(f->left) + roundings(f->right);
    return (double)(f->op.rows > f->op.cols ? f->op.rows : f->op.cols) + 4 +
           (f->kind == LOW_RANK ? (double)f->low_rank.r : 0);
}

static pu_real *parameter(const fixture *f, pu_int i)
{
    if (f->kind != KRONECKER) return &f->theta[i];
    if (i < f->left->op.params) return parameter(f->left, i);
    return parameter(f->right, i - f->left->op.params);
}

/* The parameter that must move along with i (the mirror entry of a symmetric matrix), or i itself. */
static pu_int partner(const fixture *f, pu_int i)
{
    pu_int n = f->op.rows, first;
    if (f->kind == SPD) return i % n * n + i / n;
    if (f->kind != KRONECKER) return i;
    first = f->left->op.params;
    return i < first ? partner(f->left, i) : first + partner(f->right, i - first);
}

/* d Op / d theta_i (and its mirror entry): a central difference with a wide step is exact up to rounding, since Op is
   at most quadratic in each parameter. An spd gradient splits the derivative between two entries: `share` for each. */
static double *derivative(const fixture *f, pu_int i, double *share)
{
    pu_int m = partner(f, i), e, size = f->op.rows * f->op.cols;
    pu_real *t = parameter(f, i), *mirror = parameter(f, m), old = *t, up = old + PU_R(0.5), down = old - PU_R(0.5);
    double *above, *below;
    if (f->kind == CSR) { /* a single one, and quickly */
        pu_int row = 0;
        while (f->start[row + 1] <= i) row++;
        above = tc_doubles(size);
        above[row * f->op.cols + f->index[i]] = *share = 1;
        return above;
    }
    *t = *mirror = up;
    above = matrix(f, 0);
    *t = *mirror = down;
    below = matrix(f, 0);
    *t = *mirror = old;
    for (e = 0; e < size; e++) above[e] = (above[e] - below[e]) / ((double)up - (double)down);
    *share = m == i ? 1 : 0.5;
    return above;
}

static double norm(pu_int n, const double *a)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < n; i++) sum += a[i] * a[i];
    return sqrt(sum);
}

/* A bound on what multiplies p and q on the way to any entry of the gradient. */
static double gain(const fixture *f)
{
    double sum = 2;
    if (f->kind == KRONECKER) return gain(f->left) * gain(f->right);
    if (f->kind == LOW_RANK) {
        pu_int i, n = f->low_rank.n * f->low_rank.r;
        double u = 0;
        for (i = 0; i < n; i++) u += pow((double)f->low_rank.u[i], 2);
        sum += 2 * sqrt(u);
    }
    return sum + norm(f->op.rows * f->op.cols, matrix(f, 1));
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    op_kind kind;
    pu_int n, m; /* rows and columns, or n and r */
    int which;   /* Kronecker products: which operands */
} op_case;

static const op_case op_cases[] = {
    {"csr 1x1", CSR, 1, 1, 0},
    {"csr 3x5", CSR, 3, 5, 0},
    {"csr 9x2", CSR, 9, 2, 0},
    {"csr 17x17", CSR, 17, 17, 0},
    {"csr 2x1301", CSR, 2, 1301, 0},
    {"low rank 1, 1", LOW_RANK, 1, 1, 0},
    {"low rank 1, 3", LOW_RANK, 1, 3, 0},
    {"low rank 7, 2", LOW_RANK, 7, 2, 0},
    {"low rank 5, 9", LOW_RANK, 5, 9, 0},
    {"low rank 19, 17", LOW_RANK, 19, 17, 0},
    {"toeplitz 1", TOEPLITZ, 1, 1, 0},
    {"toeplitz 2", TOEPLITZ, 2, 2, 0},
    {"toeplitz 3", TOEPLITZ, 3, 3, 0},
    {"toeplitz 8", TOEPLITZ, 8, 8, 0},
    {"toeplitz 37", TOEPLITZ, 37, 37, 0},
    {"toeplitz 64", TOEPLITZ, 64, 64, 0}, /* from here on by transforms */
    {"toeplitz 101", TOEPLITZ, 101, 101, 0},
    {"circulant 1", CIRCULANT, 1, 1, 0},
    {"circulant 2", CIRCULANT, 2, 2, 0},
    {"circulant 3", CIRCULANT, 3, 3, 0},
    {"circulant 8", CIRCULANT, 8, 8, 0},
    {"circulant 37", CIRCULANT, 37, 37, 0},
    {"circulant 64", CIRCULANT, 64, 64, 0},
    {"circulant 101", CIRCULANT, 101, 101, 0},
    {"dense 3x2 (x) dense 4x5", KRONECKER, 12, 10, 0},
    {"dense 1x1 (x) dense 3x1", KRONECKER, 3, 1, 1},
    {"csr 5x3 (x) dense 2x4", KRONECKER, 10, 12, 2},
    {"spd 3 (x) diagonal 5", KRONECKER, 15, 15, 3},
    {"low rank 4, 2 (x) spd 3", KRONECKER, 12, 12, 4},
    {"spd 3 (x) low rank 2, 3", KRONECKER, 6, 6, 5},
    {"toeplitz 4 (x) circulant 5", KRONECKER, 20, 20, 6},
    {"identity 3 (x) low rank 3, 1", KRONECKER, 9, 9, 7},
    {"diagonal 2 (x) (toeplitz 3 (x) spd 2)", KRONECKER, 12, 12, 8},
    {"dense 17x3 (x) csr 2x19", KRONECKER, 34, 57, 9},
};

#define OP_CASES (sizeof op_cases / sizeof op_cases[0])

static fixture *build_kronecker(int which)
{
    switch (which) {
    case 0: return kronecker(dense(3, 2), dense(4, 5));
    case 1: return kronecker(dense(1, 1), dense(3, 1));
    case 2: return kronecker(csr(5, 3), dense(2, 4));
    case 3: return kronecker(spd(3), diagonal(5));
    case 4: return kronecker(low_rank(4, 2), spd(3));
    case 5: return kronecker(spd(3), low_rank(2, 3));
    case 6: return kronecker(toeplitz(4), circulant(5));
    case 7: return kronecker(identity(3), low_rank(3, 1));
    case 8: return kronecker(diagonal(2), kronecker(toeplitz(3), spd(2)));
    default: break;
    }
    return kronecker(dense(17, 3), csr(2, 19));
}

static fixture *build(const op_case *c)
{
    tc_set_case("%s", c->name);
    switch (c->kind) {
    case CSR: return csr(c->n, c->m);
    case LOW_RANK: return low_rank(c->n, c->m);
    case TOEPLITZ: return toeplitz(c->n);
    case CIRCULANT: return circulant(c->n);
    default: break;
    }
    return build_kronecker(c->which);
}

/* Symmetric positive definite, with everything a prior needs. */
static int is_prior(const op_case *c)
{
    return c->kind == KRONECKER ? c->which >= 3 && c->which <= 8 : c->kind != CSR;
}

static pu_real *scratch(const pu_op *op, pu_int k)
{
    pu_real *work = tc_reals(k * op->work);
    tc_fill(k * op->work, work, PU_R(NAN));
    return work;
}

/* TC_CLOSE that can also show the largest share of the tolerance used: compile with -DOP_MISC_WORST. */
#ifdef OP_MISC_WORST
static double worst[KRONECKER + 1][8];
#define CLOSE(f, what, got, want, tol)                                                             \
    do {                                                                                           \
        double used = fabs((double)(got) - (double)(want)) / (double)(tol);                        \
        if (used > worst[(f)->kind][what]) worst[(f)->kind][what] = used;                          \
        TC_CLOSE(got, want, tol);                                                                  \
    } while (0)
#else
#define CLOSE(f, what, got, want, tol) TC_CLOSE(got, want, tol)
#endif
enum { W_APPLY, W_ADJOINT, W_GRAD, W_DIAG, W_SAMPLE, W_LOGDET, W_LOGDET_GRAD, W_GRADIENT };

/* ---- shape ----------------------------------------------------------------------------------- */

TEST dimensions(const op_case *c)
{
    fixture *f = build(c);
    pu_int rows = c->n, cols = c->kind == LOW_RANK ? c->n : c->m, params = 0;
    if (c->kind == CSR) params = f->start[rows];
    if (c->kind == LOW_RANK) params = c->n + c->n * c->m;
    if (c->kind == TOEPLITZ) params = c->n;
    if (c->kind == CIRCULANT) params = c->n / 2 + 1;
    if (c->kind == KRONECKER) params = f->left->op.params + f->right->op.params;
    TC_ASSERT(f->op.rows == rows && f->op.cols == cols && f->op.params == params);
    TC_ASSERT(f->op.apply && f->op.apply_t && f->op.grad && f->op.check);
    TC_ASSERT(f->op.trusted == (is_prior(c) ? 2 : 1));
    if (is_prior(c)) TC_ASSERT(f->op.diag && f->op.sample && f->op.logdet && f->op.logdet_grad);
    else TC_ASSERT(!f->op.sample && !f->op.logdet && !f->op.logdet_grad);
    PASS();
}

/* ---- apply, apply_t -------------------------------------------------------------------------- */

TEST check_apply(const fixture *f, int transpose, pu_int k, pu_int pad, int add, const double *a, const double *size)
{
    pu_int rows = transpose ? f->op.cols : f->op.rows, cols = transpose ? f->op.rows : f->op.cols;
    pu_block X = tc_random_block(&next_seed, cols, k, cols + pad), Y = tc_random_block(&next_seed, rows, k, rows + pad);
    double *want = tc_doubles(rows), *bound = tc_doubles(rows);
    double unit = roundings(f) * PU_TEST_EPS;
    pu_real *before = tc_reals(rows * k), *work = scratch(&f->op, k);
    pu_int i, j;
    X.at[0] = PU_R(0); /* as an unobserved entry has it */
    for (j = 0; j < k; j++) memcpy(before + j * rows, Y.at + j * Y.ld, (size_t)rows * sizeof *before);
    for (j = 0; !add && j < k; j++) tc_fill(rows, Y.at + j * Y.ld, PU_R(NAN));
    TC_ASSERT((transpose ? f->op.apply_t : f->op.apply)(&f->op, k, X, Y, add, work) == PU_OK);
    for (j = 0; j < k; j++) {
        double *x = tc_column(X, cols, j);
        tc_matvec(rows, cols, a, x, want);
        for (i = 0; i < cols; i++) x[i] = fabs(x[i]);
        tc_matvec(rows, cols, size, x, bound);
        for (i = 0; i < rows; i++) {
            double base = add ? (double)before[j * rows + i] : 0;
            CLOSE(f, W_APPLY, Y.at[j * Y.ld + i], base + want[i], unit * (bound[i] + fabs(base)) + DBL_MIN);
        }
        for (i = rows; j + 1 < k && i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

TEST apply_is_the_matrix(const op_case *c)
{
    static const pu_int widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 11};
    fixture *f = build(c);
    double *a = matrix(f, 0), *size = matrix(f, 1);
    double *at = transposed(f->op.rows, f->op.cols, a);
    double *size_at = transposed(f->op.rows, f->op.cols, size);
    size_t mark = tc_kept_count, w;
    pu_int pad;
    int add;
    for (w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (pad = 0; pad <= 3; pad += 3) {
            for (add = 0; add <= 1; add++) {
                tc_set_case("%s k %d pad %d add %d", c->name, (int)widths[w], (int)pad, add);
                CHECK_CALL(check_apply(f, 0, widths[w], pad, add, a, size));
                CHECK_CALL(check_apply(f, 1, widths[w], pad, add, at, size_at));
                tc_release_to(mark);
            }
        }
    }
    PASS();
}

/* <y, Op x> = <Op'y, x>: needs no reference at all. */
TEST transpose_is_the_adjoint(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, j, l, rows = f->op.rows, cols = f->op.cols, k = 5;
    pu_block X = tc_random_block(&next_seed, cols, k, cols), Y = tc_random_block(&next_seed, rows, k, rows);
    pu_block OpX = tc_block(tc_reals(rows * k), rows), OpY = tc_block(tc_reals(cols * k), cols);
    double *size = matrix(f, 1);
    TC_ASSERT(f->op.apply(&f->op, k, X, OpX, 0, scratch(&f->op, k)) == PU_OK);
    TC_ASSERT(f->op.apply_t(&f->op, k, Y, OpY, 0, scratch(&f->op, k)) == PU_OK);
    for (j = 0; j < k; j++) {
        double left = 0, right = 0, bound = 0, *x = tc_column(X, cols, j), *y = tc_column(Y, rows, j);
        for (i = 0; i < rows; i++) left += y[i] * (double)OpX.at[j * rows + i];
        for (i = 0; i < cols; i++) right += x[i] * (double)OpY.at[j * cols + i];
        for (i = 0; i < rows; i++) {
            for (l = 0; l < cols; l++) bound += fabs(y[i]) * size[i * cols + l] * fabs(x[l]);
        }
        CLOSE(f, W_ADJOINT, left, right, 2 * roundings(f) * PU_TEST_EPS * bound);
    }
    PASS();
}

/* ---- grad ------------------------------------------------------------------------------------ */

TEST check_grad(const fixture *f, pu_int k, pu_int pad, const pu_real *weight)
{
    pu_int rows = f->op.rows, cols = f->op.cols, i, j, a, b, n = f->op.params;
    pu_block P = tc_random_block(&next_seed, rows, k, rows + pad), Q = tc_random_block(&next_seed, cols, k, cols + pad);
    pu_real *before = tc_normal(++next_seed, n), *grad = tc_reals(n);
    double unit = ((double)k + roundings(f)) * PU_TEST_EPS, size = 0, *outer = tc_doubles(rows * cols), most = gain(f);
    P.at[0] = PU_R(0);
    for (j = 0; j < k; j++) {
        double *p = tc_column(P, rows, j), *q = tc_column(Q, cols, j);
        size += fabs((double)weight[j]) * norm(rows, p) * norm(cols, q);
        for (a = 0; a < rows; a++) {
            for (b = 0; b < cols; b++) outer[a * cols + b] += (double)weight[j] * p[a] * q[b];
        }
    }
    memcpy(grad, before, (size_t)n * sizeof *grad);
    TC_ASSERT(f->op.grad(&f->op, k, P, Q, weight, grad, scratch(&f->op, k)) == PU_OK);
    for (i = 0; i < n; i++) {
        size_t mark = tc_kept_count;
        double share, *d = derivative(f, i, &share), want = 0;
        for (a = 0; a < rows * cols; a++) want += share * d[a] * outer[a];
        CLOSE(f, W_GRAD, grad[i], (double)before[i] + want, unit * (size * most + fabs((double)before[i])));
        tc_release_to(mark);
    }
    PASS();
}

TEST grad_is_the_derivative(const op_case *c)
{
    static const pu_int widths[] = {1, 2, 4, 5, 11};
    fixture *f = build(c);
    size_t w;
    for (w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        pu_int k = widths[w];
        pu_real *weight = tc_normal(++next_seed, k);
        if (k > 2) weight[1] = PU_R(0);
        tc_set_case("%s k %d", c->name, (int)k);
        CHECK_CALL(check_grad(f, k, 0, weight));
        CHECK_CALL(check_grad(f, k, 3, weight));
    }
    PASS();
}

/* ---- diag, gram_diag ------------------------------------------------------------------------- */

TEST diag_is_the_diagonal(const op_case *c)
{
    fixture *f = build(c);
    double *a = matrix(f, 0), *size = matrix(f, 1);
    pu_int i, n = f->op.rows;
    pu_real *y = tc_normal(++next_seed, n), *before = tc_reals(n);
    if (f->op.rows != f->op.cols) {
        TC_ASSERT(f->op.diag == NULL);
        PASS();
    }
    TC_ASSERT(f->op.diag != NULL);
    memcpy(before, y, (size_t)n * sizeof *y);
    TC_ASSERT(f->op.diag(&f->op, y, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < n; i++) {
        CLOSE(f, W_DIAG, y[i], (double)before[i] + a[i * n + i],
              roundings(f) * PU_TEST_EPS * (size[i * n + i] + fabs((double)before[i])));
    }
    PASS();
}

TEST gram_diag_is_the_diagonal(const op_case *c)
{
    fixture *f = build(c);
    double *a = matrix(f, 0);
    pu_int i, m, rows = f->op.rows, cols = f->op.cols;
    pu_real *y = tc_normal(++next_seed, cols), *before = tc_reals(cols), *w = tc_random_positive(++next_seed, rows);
    if (!f->op.gram_diag) { /* n^2 r operations would be no bargain */
        TC_ASSERT(c->kind == LOW_RANK || c->which == 4 || c->which == 5 || c->which == 7);
        PASS();
    }
    if (rows > 1) w[rows / 2] = PU_R(0); /* a missing entry */
    memcpy(before, y, (size_t)cols * sizeof *y);
    TC_ASSERT(f->op.gram_diag(&f->op, w, y, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < cols; i++) {
        double want = (double)before[i], size = fabs(want);
        for (m = 0; m < rows; m++) {
            double term = (double)w[m] * a[m * cols + i] * a[m * cols + i];
            want += term;
            size += term;
        }
        CLOSE(f, W_DIAG, y[i], want, 2 * roundings(f) * PU_TEST_EPS * size);
    }
    PASS();
}

/* ---- the functions of a prior ---------------------------------------------------------------- */

/* |A| |A^-1| in the Frobenius norm, and the inverse. */
static double condition(const fixture *f, double *inverse)
{
    pu_int n = f->op.rows;
    double *a = matrix(f, 0), size = norm(n * n, a);
    if (!tc_cholesky(n, a)) exit(2);
    tc_inverse(n, a, inverse);
    return size * norm(n * n, inverse);
}

/* Unit vectors in, so that F comes out; then F F' = Op. The recursions of Toeplitz matrices and the spectrum of
   circulants have errors relative to the largest eigenvalue; those of a predictor grow with the condition. */
TEST sample_has_the_right_covariance(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, j, l, n = f->op.rows, noise = f->op.noise ? f->op.noise : n;
    pu_block E = tc_block(tc_reals(noise * noise), noise), Y = tc_random_block(&next_seed, n, noise, n + 2);
    double *a = matrix(f, 0), grow = c->kind == LOW_RANK ? 1 : condition(f, tc_doubles(n * n));
    for (i = 0; i < noise; i++) E.at[i * noise + i] = PU_R(1);
    TC_ASSERT(f->op.sample(&f->op, noise, E, Y, scratch(&f->op, noise)) == PU_OK);
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (l = 0; l < noise; l++) sum += (double)Y.at[l * Y.ld + i] * (double)Y.at[l * Y.ld + j];
            CLOSE(f, W_SAMPLE, sum, a[i * n + j],
                  4 * roundings(f) * PU_TEST_EPS * grow * sqrt(a[i * n + i] * a[j * n + j]));
        }
    }
    for (l = 0; l + 1 < noise; l++) TC_ASSERT(isnan(Y.at[l * Y.ld + n]) && isnan(Y.at[l * Y.ld + n + 1]));
    PASS();
}

/* Linear in the noise, whatever the leading dimension: F E = sum of columns. */
TEST sample_is_linear(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, j, l, n = f->op.rows, noise = f->op.noise ? f->op.noise : n;
    pu_block E = tc_random_block(&next_seed, noise, 3, noise + 1), Y = tc_random_block(&next_seed, n, 3, n + 4);
    pu_block I = tc_block(tc_reals(noise * noise), noise), F = tc_block(tc_reals(n * noise), n);
    double grow = c->kind == LOW_RANK ? 1 : condition(f, tc_doubles(n * n));
    for (i = 0; i < noise; i++) I.at[i * noise + i] = PU_R(1);
    TC_ASSERT(f->op.sample(&f->op, 3, E, Y, scratch(&f->op, 3)) == PU_OK);
    TC_ASSERT(f->op.sample(&f->op, noise, I, F, scratch(&f->op, noise)) == PU_OK);
    for (j = 0; j < 3; j++) {
        for (i = 0; i < n; i++) {
            double want = 0, size = 0;
            for (l = 0; l < noise; l++) {
                double term = (double)F.at[l * n + i] * (double)E.at[j * E.ld + l];
                want += term;
                size += fabs(term);
            }
            CLOSE(f, W_SAMPLE, Y.at[j * Y.ld + i], want, 2 * roundings(f) * PU_TEST_EPS * grow * size);
        }
    }
    PASS();
}

TEST logdet_is_the_log_determinant(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, n = f->op.rows;
    double *l = matrix(f, 0), got = -1, size = condition(f, tc_doubles(n * n));
    TC_ASSERT(tc_cholesky(n, l));
    for (i = 0; i < n; i++) size += 1 + fabs(2 * log(l[i * n + i]));
    TC_ASSERT(f->op.logdet(&f->op, &got, scratch(&f->op, 1)) == PU_OK);
    CLOSE(f, W_LOGDET, got, tc_logdet(n, l), 4 * roundings(f) * PU_TEST_EPS * size);
    PASS();
}

/* d log det Op / d theta = <Op^-1, d Op / d theta> */
TEST logdet_grad_is_the_derivative(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, e, n = f->op.rows;
    pu_real *before = tc_normal(++next_seed, f->op.params), *grad = tc_reals(f->op.params), weight = PU_R(-0.75);
    double *inverse = tc_doubles(n * n), cond = condition(f, inverse), size = norm(n * n, inverse);
    memcpy(grad, before, (size_t)f->op.params * sizeof *grad);
    TC_ASSERT(f->op.logdet_grad(&f->op, weight, grad, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < f->op.params; i++) {
        size_t mark = tc_kept_count;
        double share, *d = derivative(f, i, &share), want = 0, bound = cond * size * (1 + norm(n * n, d));
        for (e = 0; e < n * n; e++) want += share * d[e] * inverse[e];
        CLOSE(f, W_LOGDET_GRAD, grad[i], (double)before[i] + (double)weight * want,
              4 * roundings(f) * PU_TEST_EPS * (bound + fabs((double)before[i])));
        tc_release_to(mark);
    }
    PASS();
}

/* ---- check ----------------------------------------------------------------------------------- */

TEST check_finds_each_number(const op_case *c)
{
    static const pu_real bad[3] = {PU_R(NAN), PU_R(INFINITY), PU_R(-INFINITY)};
    fixture *f = build(c);
    pu_int i, index = -5;
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
    TC_ASSERT(index == -1);
    for (i = 0; i < f->op.params; i++) {
        pu_real *t = parameter(f, i), old = *t;
        tc_set_case("%s, parameter %d", c->name, (int)i);
        *t = bad[i % 3];
        index = -5;
        TC_STATUS(f->op.check(&f->op, &index), PU_E_NONFINITE);
        TC_ASSERT(index == i);
        *t = old;
    }
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
    PASS();
}

TEST check_of_csr(void)
{
    fixture *f = csr(7, 6);
    pu_int index = -5, s, old, m;
    pu_csr changed;
    pu_op op;
    for (s = 0; s < f->op.params; s++) { /* a column out of range, and one that repeats or runs back */
        old = f->index[s];
        tc_set_case("entry %d", (int)s);
        f->index[s] = 6;
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = -1;
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = old;
    }
    for (m = 0; m < 7; m++) {
        if (f->start[m + 1] < f->start[m] + 2) continue;
        s = f->start[m] + 1;
        old = f->index[s];
        f->index[s] = f->index[s - 1];
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = old;
    }
    old = f->start[2];
    f->start[2] = f->start[3] + 1;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    TC_ASSERT(index == 3);
    f->start[2] = old;
    f->start[0] = 1;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    TC_ASSERT(index == 0);
    f->start[0] = 0;
    f->start[7]--;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    f->start[7]++;
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
    changed = f->csr;
    changed.value = NULL;
    op = pu_op_csr(&changed);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    changed = f->csr;
    changed.start = NULL;
    op = pu_op_csr(&changed);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    ASSERT(pu_op_csr(NULL).rows == 0);
    changed = f->csr;
    changed.rows = -3;
    ASSERT(pu_op_csr(&changed).rows == 0);
    PASS();
}

TEST check_of_low_rank(void)
{
    fixture *f = low_rank(5, 3);
    pu_low_rank bare = f->low_rank;
    pu_int i, index = -5;
    pu_op op;
    for (i = 0; i < 5; i++) {
        pu_real old = f->theta[i];
        tc_set_case("d %d", (int)i);
        f->theta[i] = i % 2 ? PU_R(0) : PU_R(-1);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_NOT_POSITIVE);
        TC_ASSERT(index == i);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_E_NOT_POSITIVE);
        TC_ASSERT(index == i);
        f->theta[i] = old * PU_R(1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT); /* stale */
        f->theta[i] = old;
    }
    for (i = 5; i < 20; i++) {
        pu_real old = f->theta[i];
        tc_set_case("u %d", (int)i);
        f->theta[i] = old * PU_R(1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == (i - 5) % 3 * 4);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_OK);
        TC_STATUS(f->op.check(&f->op, &index), PU_OK);
        f->theta[i] = PU_R(NAN);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_E_NONFINITE);
        TC_ASSERT(index == i);
        f->theta[i] = old;
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_OK);
    }
    TC_STATUS(pu_low_rank_factor(NULL, &index), PU_E_NULL);
    bare.factor = NULL;
    TC_STATUS(pu_low_rank_factor(&bare, &index), PU_E_NULL);
    op = pu_op_low_rank(&bare);
    TC_ASSERT(op.sample && op.diag && !op.logdet && !op.logdet_grad);
    TC_STATUS(op.check(&op, &index), PU_OK);
    bare = f->low_rank;
    bare.r = 0;
    TC_STATUS(pu_low_rank_factor(&bare, NULL), PU_E_ARGUMENT);
    TC_ASSERT(pu_op_low_rank(&bare).rows == 0 && pu_op_low_rank(NULL).rows == 0);
    bare.n = bare.r = PTRDIFF_MAX / 4;
    TC_STATUS(pu_low_rank_factor(&bare, NULL), PU_E_OVERFLOW);
    PASS();
}

TEST check_of_toeplitz(void)
{
    pu_real t[4] = {1, PU_R(0.5), PU_R(-0.75), 0}, memory[400];
    fixture *f = toeplitz(6);
    pu_int index = -5, i;
    pu_lags lags;
    size_t bytes = 0;
    pu_op op;
    /* the 2 x 2 part is definite, the 3 x 3 part is not: kappa_2 = (-3/4 - 1/4) / (3/4) = -4/3 */
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    ASSERT(pu_op_toeplitz(4, t, &lags).rows == 0);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 0, memory, sizeof memory, &index), PU_OK);
    op = pu_op_toeplitz(4, t, &lags);
    ASSERT(op.rows == 4 && op.apply && !op.sample && !op.logdet && !op.logdet_grad);
    ASSERT(pu_op_toeplitz(3, t, &lags).rows == 0 && pu_op_circulant(4, t, &lags).rows == 0);
    t[0] = 0;
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 0);
    t[0] = t[1] = 1; /* singular */
    TC_STATUS(pu_toeplitz_factor(&lags, 2, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 1);
    t[3] = PU_R(NAN);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 3);
    TC_STATUS(pu_toeplitz_factor(NULL, 4, t, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, NULL, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, NULL, 0, NULL), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 0, t, 1, memory, sizeof memory, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_toeplitz_factor(&lags, PTRDIFF_MAX, t, 1, memory, sizeof memory, NULL), PU_E_OVERFLOW);
    TC_STATUS(pu_toeplitz_bytes(4, &bytes), PU_OK);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, bytes - 1, NULL), PU_E_BLOCK);
    TC_STATUS(pu_toeplitz_bytes(4, NULL), PU_E_NULL);
    TC_STATUS(pu_toeplitz_bytes(0, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_toeplitz_bytes(PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    for (i = 0; i < 6; i++) {
        pu_real old = f->theta[i];
        f->theta[i] += PU_R(0.25);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->theta[i] = old;
    }
    TC_STATUS(pu_toeplitz_factor(&f->lags, 6, f->theta, 1, memory, 1, NULL), PU_E_BLOCK);
    TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT); /* its factor is gone */
    op = pu_op_toeplitz(6, f->theta, NULL);
    ASSERT(!op.sample && !op.logdet && !op.logdet_grad && op.diag);
    TC_STATUS(op.check(&op, &index), PU_OK);
    op = pu_op_toeplitz(6, NULL, NULL);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    PASS();
}

TEST check_of_circulant(void)
{
    pu_real c[3] = {1, PU_R(0.5), PU_R(0.25)}, memory[400];
    fixture *f = circulant(7);
    pu_int index = -5, i;
    pu_lags lags;
    pu_op op;
    c[2] = PU_R(-0.5); /* n = 4: eigenvalues 1.5, 1.5, -0.5 */
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 0, memory, sizeof memory, &index), PU_OK);
    op = pu_op_circulant(4, c, &lags);
    ASSERT(op.rows == 4 && !op.sample && !op.logdet);
    c[2] = PU_R(INFINITY);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, memory, sizeof memory, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 2);
    TC_STATUS(pu_circulant_factor(&lags, 4, NULL, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, NULL, 0, NULL), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(&lags, -1, c, 1, memory, sizeof memory, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_circulant_factor(&lags, PTRDIFF_MAX, c, 1, memory, sizeof memory, NULL), PU_E_OVERFLOW);
    for (i = 0; i < 4; i++) {
        pu_real old = f->theta[i];
        f->theta[i] += PU_R(0.25);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->theta[i] = old;
    }
    op = pu_op_circulant(7, f->theta, NULL);
    ASSERT(!op.sample && !op.logdet && !op.logdet_grad && op.diag);
    PASS();
}

/* An operator with a factor against the direct sums of one without: products, also beside a column that is smaller by a factor of
   a million and beside one that is not finite, gradients, gram_diag. Errors of transforms are relative to the largest entry
   of a column times the sum of the lags. */
TEST transforms_are_the_direct_sums(op_kind kind, pu_int n)
{
    enum { K = 3 };
    fixture *f = kind == TOEPLITZ ? toeplitz(n) : circulant(n);
    pu_op direct = kind == TOEPLITZ ? pu_op_toeplitz(n, f->theta, NULL) : pu_op_circulant(n, f->theta, NULL);
    pu_block X = tc_random_block(&next_seed, n, K, n), P = tc_random_block(&next_seed, n, K, n);
    pu_block Y = tc_block(tc_reals(n * K), n), want = tc_block(tc_reals(n * K), n);
    pu_real *grad = tc_reals(f->op.params), *other = tc_reals(f->op.params), weight[K] = {1, PU_R(-0.5), 2};
    double sum = 0, unit = 4 * log2((double)n + 1) * PU_TEST_EPS;
    pu_int i, j;
    tc_set_case("kind %d, n %d", (int)kind, (int)n);
    for (i = 0; i < n; i++) {
        sum += fabs(leaf_entry(f, 0, i, 1));
        X.at[n + i] *= PU_R(1e-6);
        if (i % 3 == 1) X.at[i] = PU_R(0);
    }
    TC_STATUS(f->op.apply(&f->op, K, X, Y, 0, scratch(&f->op, K)), PU_OK);
    TC_STATUS(direct.apply(&direct, K, X, want, 0, scratch(&direct, K)), PU_OK);
    for (j = 0; j < K; j++) {
        for (i = 0; i < n; i++)
            TC_CLOSE(Y.at[j * n + i], want.at[j * n + i], unit * sum * (j == 1 ? 5e-6 : 5));
    }
    TC_STATUS(f->op.grad(&f->op, K, P, X, weight, grad, scratch(&f->op, K)), PU_OK);
    TC_STATUS(direct.grad(&direct, K, P, X, weight, other, scratch(&direct, K)), PU_OK);
    for (i = 0; i < f->op.params; i++) TC_CLOSE(grad[i], other[i], unit * 8 * 3 * (double)n);
    memset(Y.at, 0, (size_t)n * sizeof *Y.at);
    memset(want.at, 0, (size_t)n * sizeof *Y.at);
    TC_STATUS(f->op.gram_diag(&f->op, X.at + 2 * n, Y.at, scratch(&f->op, 1)), PU_OK);
    TC_STATUS(direct.gram_diag(&direct, X.at + 2 * n, want.at, scratch(&direct, 1)), PU_OK);
    for (i = 0; i < n; i++) TC_CLOSE(Y.at[i], want.at[i], unit * 5 * sum * sum);
    X.at[n / 2] = PU_R(INFINITY);
    TC_STATUS(f->op.apply(&f->op, 2, X, Y, 0, scratch(&f->op, 2)), PU_OK);
    TC_STATUS(direct.apply(&direct, 1, tc_block(X.at + n, n), want, 0, scratch(&direct, 1)), PU_OK);
    for (i = 0; i < n; i++) {
        TC_ASSERT(!isfinite(Y.at[i]));
        TC_CLOSE(Y.at[n + i], want.at[i], unit * sum * 5e-6);
    }
    PASS();
}

/* F F' = T for lags that can be embedded and for lags that cannot; the factor says which. */
TEST draws_of_toeplitz(pu_int n, int embedded)
{
    pu_real *t = tc_reals(n), *unit;
    pu_int i, j, l;
    pu_lags lags;
    pu_block E, F;
    pu_op op;
    tc_set_case("n %d, embedded %d", (int)n, embedded);
    for (i = 0; i < n; i++) {
        double x = (double)i;
        t[i] = (pu_real)(embedded ? exp(-x / 20) : (i == 0 ? 0.3 : 0) + cos(0.7 * x) * exp(-x / 200));
    }
    TC_STATUS(factor(&lags, TOEPLITZ, n, t, 1, NULL), PU_OK);
    ASSERT_EQ(lags.embedded, embedded);
    op = pu_op_toeplitz(n, t, &lags);
    ASSERT(op.noise >= 2 * n && op.noise <= 3 * n);
    unit = tc_reals(op.noise);
    E = tc_block(unit, op.noise);
    F = tc_block(tc_reals(op.noise * n), n);
    for (l = 0; l < op.noise; l++) {
        unit[l] = PU_R(1);
        TC_STATUS(op.sample(&op, 1, E, tc_block(F.at + l * n, n), scratch(&op, 1)), PU_OK);
        unit[l] = PU_R(0);
    }
    for (i = 0; i < n; i += 1 + n / 37) {
        for (j = 0; j <= i; j += 1 + n / 41) {
            double sum = 0;
            for (l = 0; l < op.noise; l++) sum += (double)F.at[l * n + i] * (double)F.at[l * n + j];
            TC_CLOSE(sum, t[i - j], 400 * PU_TEST_EPS * (double)t[0]);
        }
    }
    PASS();
}

TEST kronecker_misfits(void)
{
    fixture *a = spd(3), *d = diagonal(2), *m = dense(2, 3);
    pu_op huge = pu_op_identity(PTRDIFF_MAX / 2), op, bare = pu_op_spd(3, a->theta, NULL);
    ASSERT(pu_op_kronecker(NULL, &a->op).rows == 0 && pu_op_kronecker(&a->op, NULL).rows == 0);
    op = pu_op_kronecker(&a->op, &huge);
    ASSERT(op.params < 0 && op.apply == NULL);
    op = pu_op_kronecker(&m->op, &d->op);
    ASSERT(op.apply && op.gram_diag && !op.diag && !op.sample && !op.logdet && op.trusted == 1);
    op = pu_op_kronecker(&bare, &d->op);
    ASSERT(op.diag && !op.sample && !op.logdet && !op.logdet_grad && op.trusted == 2);
    op = pu_op_kronecker(&a->op, &huge);
    op.rows = op.cols = 0;
    op = pu_op_kronecker(&op, &d->op);
    ASSERT(op.rows == 0);
    PASS();
}

/* ---- in a model: the same gradient as with the dense matrix of the same numbers --------------- */

static pu_real *rounded(pu_int n, const double *a)
{
    pu_real *x = tc_reals(n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = (pu_real)a[i];
    return x;
}

/* Largest eigenvalue of a positive definite matrix, by a few hundred steps of the power method. */
static double largest(pu_int n, const double *a)
{
    double *x = tc_doubles(n), *y = tc_doubles(n), size = 1;
    pu_int i, step;
    for (i = 0; i < n; i++) x[i] = 1 + 0.1 * (double)(i % 3);
    for (step = 0; step < 300; step++) {
        tc_matvec(n, n, a, x, y);
        size = norm(n, y);
        for (i = 0; i < n; i++) x[i] = y[i] / size;
    }
    return size;
}

/* Largest eigenvalue of the posterior precision with everything observed, times that of the prior's covariance: no
   datum's condition is larger, since Gamma <= A. */
static double posterior_condition(const double *gamma, const double *phi, const pu_real *psi, pu_int D, pu_int M)
{
    double *a = tc_doubles(D * D), *inverse = tc_doubles(D * D), size, prior;
    pu_int i, j, m;
    memcpy(a, gamma, (size_t)(D * D) * sizeof *a);
    if (!tc_cholesky(D, a)) exit(2);
    tc_inverse(D, a, inverse);
    prior = largest(D, inverse);
    memcpy(a, gamma, (size_t)(D * D) * sizeof *a);
    for (m = 0; m < M; m++) {
        for (i = 0; i < D; i++) {
            for (j = 0; j < D; j++) a[i * D + j] += (double)psi[m] * phi[m * D + i] * phi[m * D + j];
        }
    }
    size = largest(D, a);
    return size * prior;
}

/* Dense gradient g contracted with the derivative of each parameter, against `got`. */
TEST check_contraction(const fixture *f, const pu_real *got, const pu_real *g, double tol)
{
    pu_int i, e, size = f->op.rows * f->op.cols;
    double *gd = tc_doubles(size), scale;
    for (e = 0; e < size; e++) gd[e] = (double)g[e];
    scale = norm(size, gd);
    for (i = 0; i < f->op.params; i++) {
        size_t mark = tc_kept_count;
        double share, *d = derivative(f, i, &share), want = 0;
        for (e = 0; e < size; e++) want += share * d[e] * gd[e];
        CLOSE(f, W_GRADIENT, got[i], want, tol * scale * (1 + norm(size, d)));
        tc_release_to(mark);
    }
    PASS();
}

TEST check_model(const fixture *prior, const fixture *map, pu_kind kind)
{
    enum { N = 3, K = 4, I = 4 };
    pu_int D = map->op.cols, M = map->op.rows, i;
    double *gamma, *phi = matrix(map, 0), tol;
    pu_real *gamma_r, *phi_r = rounded(M * D, phi), *factor = tc_reals(D * D);
    pu_real *psi = tc_random_positive(++next_seed, M), *nu = tc_normal(++next_seed, D);
    pu_real *y = tc_normal(++next_seed, N * M);
    pu_op dense_prior, dense_map = pu_op_dense(M, D, phi_r);
    pu_lgm model, other;
    pu_data data = pu_data_nan(N, M, y);
    pu_options options;
    pu_report report, other_report;
    pu_workspace ws = tc_workspace();
    tc_outputs a, b;
    gamma = matrix(prior, 0);
    gamma_r = rounded(D * D, gamma);
    for (i = 0; i < N * M; i++) {
        if (tc_hash((uint64_t)i + 77) % 4 == 0) y[i] = PU_R(NAN);
    }
    TC_STATUS(pu_op_spd_factor(D, gamma_r, factor, NULL), PU_OK);
    dense_prior = pu_op_spd(D, gamma_r, factor);
    memset(&model, 0, sizeof model);
    model.Gamma = &prior->op;
    model.Phi = &map->op;
    model.psi = psi;
    model.nu = nu;
    other = model;
    other.Gamma = &dense_prior;
    other.Phi = &dense_map;
    memset(&options, 0, sizeof options);
    options.kind = kind;
    options.samples = kind == PU_EXACT ? PU_NONE : K;
    options.solve.iterations = I;
    if (kind != PU_EXACT) options.delta = tc_normal(++next_seed, N * K * D);
    a = tc_make_outputs(&model, N, kind == PU_EXACT ? 0 : K, I);
    b = tc_make_outputs(&other, N, kind == PU_EXACT ? 0 : K, I);
    a.out.x = a.out.residual = a.out.alpha = a.out.beta = a.out.logdet = NULL;
    b.out.x = b.out.residual = b.out.alpha = b.out.beta = b.out.logdet = NULL;
    TC_STATUS(pu_gradient(&model, &data, &options, &ws, &a.out, &report), PU_OK);
    TC_STATUS(pu_gradient(&other, &data, &options, &ws, &b.out, &other_report), PU_OK);
    /* each run perturbs A by its roundings, which add up like a random walk, and every step passes that on times the
       condition of A */
    tol = 4 * I * sqrt(roundings(prior) + roundings(map) + (double)(M + D)) * PU_TEST_EPS *
          posterior_condition(gamma, phi, psi, D, M);
    CHECK_CALL(check_contraction(prior, a.out.Gamma, b.out.Gamma, tol));
    CHECK_CALL(check_contraction(map, a.out.Phi, b.out.Phi, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("nu", (size_t)D, a.out.nu, b.out.nu, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("psi", (size_t)M, a.out.psi, b.out.psi, tol));
    GREATEST_ASSERTm(tc_say(pu_test_message), pu_test_vector_close("eta", (size_t)M, a.out.eta, b.out.eta, tol));
    TC_ASSERT(report.has_objective && other_report.has_objective);
    TC_CLOSE(report.c, other_report.c, tol * (1 + fabs(other_report.c)));
    TC_CLOSE(report.q, other_report.q, tol * (1 + fabs(other_report.q)));
    if (kind == PU_EXACT) TC_CLOSE(report.nll, other_report.nll, tol * (1 + fabs(other_report.nll)));
    options.delta = NULL; /* with the operator's own draws it runs as well */
    TC_STATUS(pu_gradient(&model, &data, &options, &ws, &a.out, &report), PU_OK);
    TC_ASSERT(tc_gaps_untouched(&a));
    PASS();
}

static fixture *model_map(int which)
{
    switch (which) {
    case 0: return csr(11, 12);
    case 1: return kronecker(dense(3, 4), dense(5, 3));
    case 2: return toeplitz(12);
    default: break;
    }
    return kronecker(identity(2), csr(7, 6));
}

static fixture *model_prior(int which)
{
    switch (which) {
    case 0: return low_rank(12, 3);
    case 1: return toeplitz(12);
    case 2: return circulant(12);
    case 3: return kronecker(spd(4), toeplitz(3));
    case 4: return kronecker(low_rank(4, 2), circulant(3));
    default: break;
    }
    return diagonal(12);
}

TEST gradient_is_that_of_the_dense_operator(int prior, int map)
{
    static const pu_kind kinds[] = {PU_NETWORK, PU_OUTPUT, PU_EXACT};
    int i;
    for (i = 0; i < 3; i++) {
        fixture *f = model_prior(prior), *g = model_map(map);
        tc_set_case("prior %d, map %d, kind %d", prior, map, i);
        CHECK_CALL(check_model(f, g, kinds[i]));
    }
    PASS();
}

/* Bad numbers are refused by name before anything runs. */
TEST gradient_refuses(void)
{
    fixture *prior = low_rank(6, 2), *map = csr(5, 6);
    pu_real *psi = tc_random_positive(1, 5), *y = tc_normal(2, 5);
    pu_lgm model;
    pu_data data = pu_data_full(1, 5, y);
    pu_results out;
    pu_report report;
    pu_workspace ws = tc_workspace();
    memset(&model, 0, sizeof model);
    memset(&out, 0, sizeof out);
    model.Gamma = &prior->op;
    model.Phi = &map->op;
    model.psi = psi;
    prior->theta[6] *= PU_R(2);
    ASSERT_EQ(pu_gradient(&model, &data, NULL, &ws, &out, &report), PU_E_ARGUMENT);
    ASSERT_STR_EQ("Gamma (stale factor)", report.where.what);
    ASSERT_EQ(pu_low_rank_factor(&prior->low_rank, NULL), PU_OK);
    map->index[2] = 99;
    ASSERT_EQ(pu_gradient(&model, &data, NULL, &ws, &out, &report), PU_E_SIZE);
    ASSERT_STR_EQ("Phi", report.where.what);
    ASSERT_EQ(report.where.index, 2);
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

static void run_case(const op_case *c)
{
    RUN_TESTp(dimensions, c);
    RUN_TESTp(apply_is_the_matrix, c);
    RUN_TESTp(transpose_is_the_adjoint, c);
    RUN_TESTp(grad_is_the_derivative, c);
    RUN_TESTp(diag_is_the_diagonal, c);
    RUN_TESTp(gram_diag_is_the_diagonal, c);
    RUN_TESTp(check_finds_each_number, c);
    if (!is_prior(c)) return;
    RUN_TESTp(sample_has_the_right_covariance, c);
    RUN_TESTp(sample_is_linear, c);
    RUN_TESTp(logdet_is_the_log_determinant, c);
    RUN_TESTp(logdet_grad_is_the_derivative, c);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const pu_int lengths[] = {1, 2, 63, 64, 65, 97, 128, 129, 211, 1000, 1009};
    size_t i;
    int prior, map;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < OP_CASES; i++) run_case(&op_cases[i]);
    RUN_TEST(check_of_csr);
    RUN_TEST(check_of_low_rank);
    RUN_TEST(check_of_toeplitz);
    RUN_TEST(check_of_circulant);
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        RUN_TESTp(transforms_are_the_direct_sums, TOEPLITZ, lengths[i]);
        RUN_TESTp(transforms_are_the_direct_sums, CIRCULANT, lengths[i]);
    }
    RUN_TESTp(draws_of_toeplitz, 101, 1);
    RUN_TESTp(draws_of_toeplitz, 101, 0);
    RUN_TESTp(draws_of_toeplitz, 1000, 1);
    RUN_TEST(kronecker_misfits);
    for (prior = 0; prior < 6; prior++) {
        for (map = 0; map < 4; map++) RUN_TESTp(gradient_is_that_of_the_dense_operator, prior, map);
    }
    RUN_TEST(gradient_refuses);
#ifdef OP_MISC_WORST
    for (prior = 0; prior <= KRONECKER; prior++) {
        printf("kind %d:", prior);
        for (map = 0; map < 8; map++) printf(" %.3f", worst[prior][map]);
        printf("\n");
    }
#endif
    PU_TEST_MAIN_END();
}

/* test_operators.c - every operator against a dense matrix built from the same parameters by plain
   loops in double. */
#include "pu_test.h"
#include "test_common.h"

/* ---- user operators: the same interface, filled in by hand ----------------------------------- */

/* Lower bidiagonal B: y_i = t0 x_i + t1 x_{i-1}. It takes the detour through `work` to test its
   size. */
static pu_status shift_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                             pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, j, n = op->rows;
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld, *s = work + j * n;
        for (i = 0; i < n; i++) s[i] = t[0] * x[i] + (i > 0 ? t[1] * x[i - 1] : PU_R(0));
        for (i = 0; i < n; i++) y[i] = add ? y[i] + s[i] : s[i];
    }
    return PU_OK;
}

static pu_status shift_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                               pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, j, n = op->rows;
    for (j = 0; j < k; j++) {
        const pu_real *x = X.at + j * X.ld;
        pu_real *y = Y.at + j * Y.ld, *s = work + j * n;
        for (i = 0; i < n; i++) s[i] = t[0] * x[i] + (i + 1 < n ? t[1] * x[i + 1] : PU_R(0));
        for (i = 0; i < n; i++) y[i] = add ? y[i] + s[i] : s[i];
    }
    return PU_OK;
}

static pu_status shift_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q,
                            const pu_real *weight, pu_real *grad, pu_real *work)
{
    pu_int i, j, n = op->rows;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *p = P.at + j * P.ld, *q = Q.at + j * Q.ld;
        for (i = 0; i < n; i++) {
            grad[0] += weight[j] * p[i] * q[i];
            if (i > 0) grad[1] += weight[j] * p[i] * q[i - 1];
        }
    }
    return PU_OK;
}

static pu_status shift_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += ((const pu_real *)op->data)[0];
    return PU_OK;
}

static pu_status shift_gram_diag(const pu_op *op, const pu_real *w, pu_real *y, pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, n = op->rows;
    (void)work;
    for (i = 0; i < n; i++) {
        y[i] += w[i] * t[0] * t[0];
        if (i + 1 < n) y[i] += w[i + 1] * t[1] * t[1];
    }
    return PU_OK;
}

/* (t0^2 + t1^2) I, drawn as t0 e1 + t1 e2: twice as many normals as rows, and a work area of its
   own. */
static pu_status wide_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                            pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, j;
    for (j = 0; j < k; j++) {
        pu_real *y = Y.at + j * Y.ld;
        work[2 * j] = t[0] * t[0];
        work[2 * j + 1] = t[1] * t[1];
        for (i = 0; i < op->rows; i++) {
            pu_real value = (work[2 * j] + work[2 * j + 1]) * X.at[j * X.ld + i];
            y[i] = add ? y[i] + value : value;
        }
    }
    return PU_OK;
}

static pu_status wide_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight,
                           pu_real *grad, pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        for (i = 0; i < op->rows; i++) {
            pu_real pq = weight[j] * P.at[j * P.ld + i] * Q.at[j * Q.ld + i];
            grad[0] += 2 * t[0] * pq;
            grad[1] += 2 * t[1] * pq;
        }
    }
    return PU_OK;
}

static pu_status wide_diag(const pu_op *op, pu_real *y, pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) y[i] += t[0] * t[0] + t[1] * t[1];
    return PU_OK;
}

static pu_status wide_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_real *t = (const pu_real *)op->data;
    pu_int i, j;
    (void)work;
    for (j = 0; j < k; j++) {
        const pu_real *e = E.at + j * E.ld;
        for (i = 0; i < op->rows; i++) {
            Y.at[j * Y.ld + i] = t[0] * e[2 * i] + t[1] * e[2 * i + 1];
        }
    }
    return PU_OK;
}

/* ---- fixtures: an operator, its parameters, and the matrix it stands for --------------------- */

typedef enum { DENSE, SPD, DIAGONAL, IDENTITY, SCALED, SHIFT, WIDE, PRODUCT, SUM } op_kind;

typedef struct fixture fixture;
struct fixture {
    op_kind kind;
    pu_op op;
    pu_real *theta, *factor; /* leaves */
    fixture *left, *right;   /* products and sums */
};

static uint64_t next_seed = 1; /* every leaf of every fixture gets numbers of its own */

static fixture *make(op_kind kind)
{
    fixture *f = (fixture *)tc_bytes(sizeof *f);
    f->kind = kind;
    next_seed++;
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
    if (pu_spd_factor(n, f->theta, f->factor, NULL) != PU_OK) exit(2);
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

static fixture *scaled(pu_int n)
{
    fixture *f = make(SCALED);
    f->theta = tc_random_positive(next_seed, 1);
    f->op = pu_op_scaled_identity(n, f->theta);
    return f;
}

static fixture *shift(pu_int n)
{
    fixture *f = make(SHIFT);
    f->theta = tc_normal(next_seed, 2);
    f->op.rows = f->op.cols = f->op.work = n;
    f->op.params = 2;
    f->op.data = f->theta;
    f->op.apply = shift_apply;
    f->op.apply_t = shift_apply_t;
    f->op.grad = shift_grad;
    f->op.diag = shift_diag;
    f->op.gram_diag = shift_gram_diag;
    return f;
}

static fixture *wide(pu_int n)
{
    fixture *f = make(WIDE);
    f->theta = tc_normal(next_seed, 2);
    f->op.rows = f->op.cols = n;
    f->op.params = f->op.work = 2;
    f->op.noise = 2 * n;
    f->op.data = f->theta;
    f->op.apply = f->op.apply_t = wide_apply;
    f->op.grad = wide_grad;
    f->op.diag = wide_diag;
    f->op.sample = wide_sample;
    return f;
}

static fixture *product(fixture *left, fixture *right)
{
    fixture *f = make(PRODUCT);
    f->left = left;
    f->right = right;
    f->op = pu_op_product(&left->op, &right->op);
    return f;
}

static fixture *sum(fixture *left, fixture *right)
{
    fixture *f = make(SUM);
    f->left = left;
    f->right = right;
    f->op = pu_op_sum(&left->op, &right->op);
    return f;
}

/* Entry (i, j) of a leaf, from its parameters. */
static double leaf_entry(const fixture *f, pu_int i, pu_int j)
{
    const pu_real *t = f->theta;
    double a, b;
    switch (f->kind) {
    case DENSE:
    case SPD: return (double)t[i * f->op.cols + j];
    case DIAGONAL: return i == j ? (double)t[i] : 0;
    case IDENTITY: return i == j;
    case SCALED: return i == j ? (double)t[0] : 0;
    case SHIFT: return i == j ? (double)t[0] : i == j + 1 ? (double)t[1] : 0;
    default: break;
    }
    a = (double)t[0];
    b = (double)t[1];
    return i == j ? a * a + b * b : 0;
}

/* The matrix, row-major. With `absolute`, every entry of every factor is replaced by its size: the
   bound on rounding errors needs the sums without cancellation. */
static double *matrix(const fixture *f, int absolute)
{
    pu_int i, j, rows = f->op.rows, cols = f->op.cols;
    double *a = tc_doubles(rows * cols), *l, *r;
    if (f->kind != PRODUCT && f->kind != SUM) {
        for (i = 0; i < rows; i++) {
            for (j = 0; j < cols; j++) {
                double value = leaf_entry(f, i, j);
                a[i * cols + j] = absolute ? fabs(value) : value;
            }
        }
        return a;
    }
    l = matrix(f->left, absolute);
    r = matrix(f->right, absolute);
    if (f->kind == PRODUCT) {
        tc_matmul(rows, f->left->op.cols, cols, l, r, a);
    } else {
        for (i = 0; i < rows * cols; i++) a[i] = l[i] + r[i];
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

/* How many roundings one entry of a result may pass: the lengths of the sums on the way, and a few
   more. */
static double roundings(const fixture *f)
{
    if (f->kind == PRODUCT || f->kind == SUM) return roundings(f->left) + roundings(f->right) + 1;
    return (double)(f->op.rows > f->op.cols ? f->op.rows : f->op.cols) + 4;
}

/* Parameter i of the operator: those of the left operand come first. */
static pu_real *parameter(const fixture *f, pu_int i)
{
    if (f->kind != PRODUCT && f->kind != SUM) return &f->theta[i];
    if (i < f->left->op.params) return parameter(f->left, i);
    return parameter(f->right, i - f->left->op.params);
}

/* The parameter that must move along with i (the mirror entry of a symmetric matrix), or i itself.
   */
static pu_int partner(const fixture *f, pu_int i)
{
    pu_int n = f->op.rows, first;
    if (f->kind == SPD) return i % n * n + i / n;
    if (f->kind != PRODUCT && f->kind != SUM) return i;
    first = f->left->op.params;
    return i < first ? partner(f->left, i) : first + partner(f->right, i - first);
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    op_kind kind;
    pu_int rows, inner, cols;
    int which; /* for products and sums: which operands */
} op_case;

static const op_case op_cases[] = {
    {"dense 1x1", DENSE, 1, 0, 1, 0},
    {"dense 3x5", DENSE, 3, 0, 5, 0},
    {"dense 5x3", DENSE, 5, 0, 3, 0},
    {"dense 1x9", DENSE, 1, 0, 9, 0},
    {"dense 9x1", DENSE, 9, 0, 1, 0},
    {"dense 17x13", DENSE, 17, 0, 13, 0},
    {"dense 40x33", DENSE, 40, 0, 33, 0},
    {"dense 4x129", DENSE, 4, 0, 129, 0},
    {"spd 1", SPD, 1, 0, 1, 0},
    {"spd 2", SPD, 2, 0, 2, 0},
    {"spd 7", SPD, 7, 0, 7, 0},
    {"spd 33", SPD, 33, 0, 33, 0},
    {"diagonal 1", DIAGONAL, 1, 0, 1, 0},
    {"diagonal 5", DIAGONAL, 5, 0, 5, 0},
    {"diagonal 33", DIAGONAL, 33, 0, 33, 0},
    {"identity 1", IDENTITY, 1, 0, 1, 0},
    {"identity 31", IDENTITY, 31, 0, 31, 0},
    {"scaled identity 1", SCALED, 1, 0, 1, 0},
    {"scaled identity 33", SCALED, 33, 0, 33, 0},
    {"user shift 1", SHIFT, 1, 0, 1, 0},
    {"user shift 19", SHIFT, 19, 0, 19, 0},
    {"user wide 6", WIDE, 6, 0, 6, 0},
    {"dense * dense 1x1x1", PRODUCT, 1, 1, 1, 0},
    {"dense * dense 3x4x5", PRODUCT, 3, 4, 5, 0},
    {"dense * dense 1x7x1", PRODUCT, 1, 7, 1, 0},
    {"dense * dense 7x1x7", PRODUCT, 7, 1, 7, 0},
    {"dense * dense 9x33x2", PRODUCT, 9, 33, 2, 0},
    {"diagonal * dense", PRODUCT, 6, 6, 5, 1},
    {"dense * shift", PRODUCT, 4, 9, 9, 2},
    {"shift * shift", PRODUCT, 8, 8, 8, 3},
    {"(dense + dense) * (shift * dense)", PRODUCT, 5, 6, 3, 4},
    {"dense + dense", SUM, 3, 0, 5, 0},
    {"spd + diagonal", SUM, 7, 0, 7, 1},
    {"identity + scaled identity", SUM, 9, 0, 9, 2},
    {"shift + diagonal", SUM, 5, 0, 5, 3},
    {"wide + diagonal", SUM, 5, 0, 5, 4},
    {"(spd + wide) + (diagonal + wide)", SUM, 4, 0, 4, 5},
    {"dense * dense + shift", SUM, 6, 3, 6, 6},
};

#define OP_CASES (sizeof op_cases / sizeof op_cases[0])

static fixture *build_product(const op_case *c)
{
    switch (c->which) {
    case 0: return product(dense(c->rows, c->inner), dense(c->inner, c->cols));
    case 1: return product(diagonal(c->rows), dense(c->rows, c->cols));
    case 2: return product(dense(c->rows, c->cols), shift(c->cols));
    case 3: return product(shift(c->rows), shift(c->rows));
    default: break;
    }
    return product(sum(dense(c->rows, c->inner), dense(c->rows, c->inner)),
                   product(shift(c->inner), dense(c->inner, c->cols)));
}

static fixture *build_sum(const op_case *c)
{
    switch (c->which) {
    case 0: return sum(dense(c->rows, c->cols), dense(c->rows, c->cols));
    case 1: return sum(spd(c->rows), diagonal(c->rows));
    case 2: return sum(identity(c->rows), scaled(c->rows));
    case 3: return sum(shift(c->rows), diagonal(c->rows));
    case 4: return sum(wide(c->rows), diagonal(c->rows));
    case 5: return sum(sum(spd(c->rows), wide(c->rows)), sum(diagonal(c->rows), wide(c->rows)));
    default: break;
    }
    return sum(product(dense(c->rows, c->inner), dense(c->inner, c->cols)), shift(c->rows));
}

static fixture *build(const op_case *c)
{
    tc_set_case("%s", c->name);
    switch (c->kind) {
    case DENSE: return dense(c->rows, c->cols);
    case SPD: return spd(c->rows);
    case DIAGONAL: return diagonal(c->rows);
    case IDENTITY: return identity(c->rows);
    case SCALED: return scaled(c->rows);
    case SHIFT: return shift(c->rows);
    case WIDE: return wide(c->rows);
    case PRODUCT: return build_product(c);
    case SUM: break;
    }
    return build_sum(c);
}

/* Scratch of exactly the promised size, holding NaN: what is read must have been written. */
static pu_real *scratch(const pu_op *op, pu_int k)
{
    pu_real *work = tc_reals(k * op->work);
    tc_fill(k * op->work, work, PU_R(NAN));
    return work;
}

/* ---- shape ----------------------------------------------------------------------------------- */

TEST dimensions(const op_case *c)
{
    fixture *f = build(c);
    pu_int params = 0;
    if (c->kind == DENSE || c->kind == SPD) params = c->rows * c->cols;
    if (c->kind == DIAGONAL) params = c->rows;
    if (c->kind == SCALED) params = 1;
    if (c->kind == SHIFT || c->kind == WIDE) params = 2;
    if (f->left) params = f->left->op.params + f->right->op.params;
    TC_ASSERT(f->op.rows == c->rows);
    TC_ASSERT(f->op.cols == c->cols);
    TC_ASSERT(f->op.params == params);
    TC_ASSERT(f->op.apply != NULL && f->op.apply_t != NULL && f->op.grad != NULL);
    PASS();
}

/* ---- apply, apply_t -------------------------------------------------------------------------- */

/* Y = A X or Y += A X through the operator, against `a` (rows x cols), rounding bounded by `size` =
   |A|. */
TEST check_apply(const fixture *f, int transpose, pu_int k, pu_int pad, int add, const double *a,
                 const double *size)
{
    pu_int rows = transpose ? f->op.cols : f->op.rows, cols = transpose ? f->op.rows : f->op.cols;
    pu_block X = tc_random_block(&next_seed, cols, k, cols + pad), Y = tc_random_block(&next_seed, rows, k, rows + pad);
    double *want = tc_doubles(rows), *bound = tc_doubles(rows);
    double unit = roundings(f) * PU_TEST_EPS;
    pu_real *before = tc_reals(rows * k), *work = scratch(&f->op, k);
    pu_int i, j;
    for (j = 0; j < k; j++)
        memcpy(before + j * rows, Y.at + j * Y.ld, (size_t)rows * sizeof *before);
    for (j = 0; !add && j < k; j++) tc_fill(rows, Y.at + j * Y.ld, PU_R(NAN));
    TC_ASSERT((transpose ? f->op.apply_t : f->op.apply)(&f->op, k, X, Y, add, work) == PU_OK);
    for (j = 0; j < k; j++) {
        double *x = tc_column(X, cols, j);
        tc_matvec(rows, cols, a, x, want);
        for (i = 0; i < cols; i++) x[i] = fabs(x[i]);
        tc_matvec(rows, cols, size, x, bound);
        for (i = 0; i < rows; i++) {
            double base = add ? (double)before[j * rows + i] : 0;
            TC_CLOSE(Y.at[j * Y.ld + i], base + want[i], unit * (bound[i] + fabs(base)));
        }
        for (i = rows; j + 1 < k && i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

TEST apply_is_the_matrix(const op_case *c)
{
    fixture *f = build(c);
    double *a = matrix(f, 0), *size = matrix(f, 1);
    double *at = transposed(f->op.rows, f->op.cols, a);
    double *size_at = transposed(f->op.rows, f->op.cols, size);
    size_t mark = tc_kept_count;
    pu_int k, pad;
    int add;
    for (k = 1; k <= 17; k++) {
        for (pad = 0; pad <= 3; pad += 3) {
            for (add = 0; add <= 1; add++) {
                tc_set_case("%s k %d pad %d add %d", c->name, (int)k, (int)pad, add);
                CHECK_CALL(check_apply(f, 0, k, pad, add, a, size));
                CHECK_CALL(check_apply(f, 1, k, pad, add, at, size_at));
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
    pu_int i, j, rows = f->op.rows, cols = f->op.cols, k = 5;
    pu_block X = tc_random_block(&next_seed, cols, k, cols), Y = tc_random_block(&next_seed, rows, k, rows);
    pu_block OpX = tc_block(tc_reals(rows * k), rows), OpY = tc_block(tc_reals(cols * k), cols);
    double *size = matrix(f, 1);
    TC_ASSERT(f->op.apply(&f->op, k, X, OpX, 0, scratch(&f->op, k)) == PU_OK);
    TC_ASSERT(f->op.apply_t(&f->op, k, Y, OpY, 0, scratch(&f->op, k)) == PU_OK);
    for (j = 0; j < k; j++) {
        double left = 0, right = 0, bound = 0, *x = tc_column(X, cols, j), *y = tc_column(Y, rows, j);
        pu_int l;
        for (i = 0; i < rows; i++) left += y[i] * (double)OpX.at[j * rows + i];
        for (i = 0; i < cols; i++) right += x[i] * (double)OpY.at[j * cols + i];
        for (i = 0; i < rows; i++) {
            for (l = 0; l < cols; l++) bound += fabs(y[i]) * size[i * cols + l] * fabs(x[l]);
        }
        TC_CLOSE(left, right, 2 * roundings(f) * PU_TEST_EPS * bound);
    }
    PASS();
}

/* ---- grad ------------------------------------------------------------------------------------ */

/* sum_j w_j p_j'Op(theta) q_j from the matrix alone. */
static double bilinear(const fixture *f, pu_int k, pu_block P, pu_block Q, const pu_real *weight)
{
    pu_int i, j, l, rows = f->op.rows, cols = f->op.cols;
    size_t mark = tc_kept_count;
    double *a = matrix(f, 0), total = 0;
    for (j = 0; j < k; j++) {
        for (i = 0; i < rows; i++) {
            double row = 0;
            for (l = 0; l < cols; l++) row += a[i * cols + l] * (double)Q.at[j * Q.ld + l];
            total += (double)weight[j] * (double)P.at[j * P.ld + i] * row;
        }
    }
    tc_release_to(mark);
    return total;
}

/* Central difference with a wide step: exact up to rounding, since the form is at most quadratic in
   a parameter. */
static double difference(const fixture *f, pu_int i, pu_int k, pu_block P, pu_block Q,
                         const pu_real *weight)
{
    pu_real *t = parameter(f, i), *mirror = parameter(f, partner(f, i)), old = *t;
    pu_real up = old + PU_R(0.5), down = old - PU_R(0.5);
    double above, below;
    *t = *mirror = up;
    above = bilinear(f, k, P, Q, weight);
    *t = *mirror = down;
    below = bilinear(f, k, P, Q, weight);
    *t = *mirror = old;
    return (above - below) / ((double)up - (double)down);
}

/* A bound on |d Op / d theta_i| and on what multiplies it on the way: the operands' largest row or
   column sums. */
static double gain(const fixture *f)
{
    pu_int i, n = f->op.rows * f->op.cols;
    double *a = matrix(f, 1), sum = 0;
    if (f->kind == PRODUCT) return (1 + gain(f->left)) * (1 + gain(f->right));
    if (f->kind == SUM) return gain(f->left) + gain(f->right);
    for (i = 0; i < n; i++) sum += a[i] * a[i];
    return 2 + sqrt(sum);
}

static double form_size(const fixture *f, pu_int k, pu_block P, pu_block Q, const pu_real *weight)
{
    pu_int i, j;
    double total = 0;
    for (j = 0; j < k; j++) {
        double pp = 0, qq = 0;
        for (i = 0; i < f->op.rows; i++) pp += pow((double)P.at[j * P.ld + i], 2);
        for (i = 0; i < f->op.cols; i++) qq += pow((double)Q.at[j * Q.ld + i], 2);
        total += fabs((double)weight[j]) * sqrt(pp * qq);
    }
    return total;
}

/* All parameters, on top of what grad held before. */
TEST check_grad(const fixture *f, pu_int k, pu_int pad, const pu_real *weight)
{
    pu_block P = tc_random_block(&next_seed, f->op.rows, k, f->op.rows + pad);
    pu_block Q = tc_random_block(&next_seed, f->op.cols, k, f->op.cols + pad);
    pu_int i, n = f->op.params;
    pu_real *before = tc_normal(++next_seed, n), *grad = tc_reals(n);
    double unit = ((double)k + roundings(f)) * PU_TEST_EPS, size;
    memcpy(grad, before, (size_t)n * sizeof *grad);
    TC_ASSERT(f->op.grad(&f->op, k, P, Q, weight, grad, scratch(&f->op, k)) == PU_OK);
    size = form_size(f, k, P, Q, weight) * (f->left ? gain(f) : 2);
    for (i = 0; i < n; i++) {
        pu_int m = partner(f, i);
        double got = (double)grad[i] - (double)before[i];
        double want = difference(f, i, k, P, Q, weight);
        double tol = unit * (size + fabs((double)before[i]));
        TC_CLOSE(m == i ? got : 2 * got, want, 2 * tol);
    }
    PASS();
}

TEST grad_is_the_derivative(const op_case *c)
{
    static const pu_int widths[] = {1, 2, 3, 8, 17};
    fixture *f = build(c);
    size_t w;
    for (w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        pu_int j, k = widths[w];
        pu_real *weight = tc_normal(++next_seed, k);
        if (k > 2) weight[1] = PU_R(0);
        tc_set_case("%s k %d", c->name, (int)k);
        CHECK_CALL(check_grad(f, k, 0, weight));
        for (j = 0; j < k; j++) weight[j] = PU_R(1);
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
    TC_ASSERT(f->op.diag != NULL);
    memcpy(before, y, (size_t)n * sizeof *y);
    TC_ASSERT(f->op.diag(&f->op, y, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < n; i++) {
        TC_CLOSE(y[i], (double)before[i] + a[i * n + i],
                 roundings(f) * PU_TEST_EPS * (size[i * n + i] + fabs((double)before[i])));
    }
    PASS();
}

TEST gram_diag_is_the_diagonal(const op_case *c)
{
    fixture *f = build(c);
    double *a = matrix(f, 0);
    pu_int i, m, rows = f->op.rows, cols = f->op.cols;
    pu_real *y = tc_normal(++next_seed, cols), *before = tc_reals(cols);
    pu_real *w = tc_random_positive(++next_seed, rows);
    TC_ASSERT(f->op.gram_diag != NULL);
    w[rows / 2] = PU_R(0); /* a missing entry */
    memcpy(before, y, (size_t)cols * sizeof *y);
    TC_ASSERT(f->op.gram_diag(&f->op, w, y, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < cols; i++) {
        double want = (double)before[i], size = fabs(want);
        for (m = 0; m < rows; m++) {
            double term = (double)w[m] * a[m * cols + i] * a[m * cols + i];
            want += term;
            size += term;
        }
        TC_CLOSE(y[i], want, 2 * roundings(f) * PU_TEST_EPS * size);
    }
    PASS();
}

/* ---- sample ---------------------------------------------------------------------------------- */

/* Unit vectors in, so that F comes out; then F F' = Op. */
TEST sample_has_the_right_covariance(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, j, l, n = f->op.rows, noise = f->op.noise ? f->op.noise : n;
    pu_block E = tc_block(tc_reals(noise * noise), noise), Y;
    double *a = matrix(f, 0);
    TC_ASSERT(f->op.sample != NULL);
    Y = tc_random_block(&next_seed, n, noise, n + 2);
    for (i = 0; i < noise; i++) E.at[i * noise + i] = PU_R(1);
    TC_ASSERT(f->op.sample(&f->op, noise, E, Y, scratch(&f->op, noise)) == PU_OK);
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (l = 0; l < noise; l++) {
                sum += (double)Y.at[l * Y.ld + i] * (double)Y.at[l * Y.ld + j];
            }
            TC_CLOSE(sum, a[i * n + j],
                     4 * roundings(f) * PU_TEST_EPS * sqrt(a[i * n + i] * a[j * n + j]));
        }
    }
    PASS();
}

/* Linear in the noise, whatever the leading dimension: F E = sum of columns. */
TEST sample_is_linear(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, l, n = f->op.rows, noise = f->op.noise ? f->op.noise : n;
    pu_block E, Y, I, F;
    TC_ASSERT(f->op.sample != NULL);
    E = tc_random_block(&next_seed, noise, 3, noise + 1);
    Y = tc_random_block(&next_seed, n, 3, n + 4);
    I = tc_block(tc_reals(noise * noise), noise);
    F = tc_block(tc_reals(n * noise), n);
    for (i = 0; i < noise; i++) I.at[i * noise + i] = PU_R(1);
    TC_ASSERT(f->op.sample(&f->op, 3, E, Y, scratch(&f->op, 3)) == PU_OK);
    TC_ASSERT(f->op.sample(&f->op, noise, I, F, scratch(&f->op, noise)) == PU_OK);
    for (i = 0; i < n; i++) {
        double want = 0, size = 0;
        for (l = 0; l < noise; l++) {
            double term = (double)F.at[l * n + i] * (double)E.at[2 * E.ld + l];
            want += term;
            size += fabs(term);
        }
        TC_CLOSE(Y.at[2 * Y.ld + i], want, 2 * roundings(f) * PU_TEST_EPS * size);
        TC_ASSERT(isnan(Y.at[n]));
    }
    PASS();
}

/* ---- log det --------------------------------------------------------------------------------- */

TEST logdet_is_the_log_determinant(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, n = f->op.rows;
    double *l = matrix(f, 0), got = -1, size = 1;
    TC_ASSERT(f->op.logdet != NULL);
    TC_ASSERT(tc_cholesky(n, l));
    for (i = 0; i < n; i++) size += 1 + fabs(2 * log(l[i * n + i]));
    TC_ASSERT(f->op.logdet(&f->op, &got, scratch(&f->op, 1)) == PU_OK);
    TC_CLOSE(got, tc_logdet(n, l), 4 * roundings(f) * PU_TEST_EPS * size);
    PASS();
}

static double *inverse_of(const fixture *f)
{
    pu_int n = f->op.rows;
    double *l = matrix(f, 0), *inverse = tc_doubles(n * n);
    if (!tc_cholesky(n, l)) exit(2);
    tc_inverse(n, l, inverse);
    return inverse;
}

/* d log det Op / d theta = <Op^-1, d Op / d theta>, for the operators whose derivative is a pattern
   of ones. */
static double logdet_derivative(const fixture *f, const double *inverse, pu_int i)
{
    pu_int j, n = f->op.rows;
    double trace = 0;
    if (f->kind == SPD) return inverse[i];
    if (f->kind == DIAGONAL) return inverse[i * n + i];
    for (j = 0; j < n; j++) trace += inverse[j * n + j];
    return trace;
}

TEST logdet_grad_is_the_inverse(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, n = f->op.params;
    pu_real *before = tc_normal(++next_seed, n), *grad = tc_reals(n), weight = PU_R(-0.75);
    double *inverse;
    TC_ASSERT(f->op.logdet_grad != NULL);
    inverse = inverse_of(f);
    memcpy(grad, before, (size_t)n * sizeof *grad);
    TC_ASSERT(f->op.logdet_grad(&f->op, weight, grad, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < n; i++) {
        double step = (double)weight * logdet_derivative(f, inverse, i);
        /* the eigenvalues of the spd cases lie between 1 and about 5, so its condition needs no
           further factor */
        TC_CLOSE(grad[i], (double)before[i] + step,
                 8 * roundings(f) * PU_TEST_EPS * (fabs((double)before[i]) + 2));
    }
    PASS();
}

/* The operator's own logdet, differenced along a random direction. With h = eps^(1/3) the
   truncation error h^2 f''' and the rounding error eps f / h are both about eps^(2/3) of the value.
   */
TEST logdet_grad_is_the_derivative(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, n = f->op.params, side = f->op.rows;
    pu_real *grad = tc_reals(n), *old = tc_reals(n), *direction = tc_normal(++next_seed, n);
    double h = pow(PU_TEST_EPS, 1.0 / 3), value[2], slope = 0, size = 0, pace = 0;
    int s;
    TC_ASSERT(f->op.logdet_grad != NULL && n > 0);
    TC_ASSERT(f->op.logdet_grad(&f->op, PU_R(1), grad, scratch(&f->op, 1)) == PU_OK);
    memcpy(old, f->theta, (size_t)n * sizeof *old);
    for (s = 0; s < 2; s++) {
        for (i = 0; i < n; i++) {
            double move = (s ? h : -h) * (double)direction[i < partner(f, i) ? i : partner(f, i)];
            f->theta[i] = (pu_real)((double)old[i] + move);
        }
        if (f->kind == SPD) TC_ASSERT(pu_spd_factor(side, f->theta, f->factor, NULL) == PU_OK);
        TC_ASSERT(f->op.logdet(&f->op, &value[s], scratch(&f->op, 1)) == PU_OK);
    }
    for (i = 0; i < n; i++) {
        double d = (double)direction[i < partner(f, i) ? i : partner(f, i)];
        slope += (double)grad[i] * d;
        size += fabs((double)grad[i] * d);
        pace += d * d;
    }
    TC_CLOSE((value[1] - value[0]) / (2 * h), slope,
             4 * h * h * (1 + size) * (1 + pace) * (1 + size + (double)side));
    PASS();
}

/* ---- which operator can do what -------------------------------------------------------------- */

TEST abilities(void)
{
    fixture *a = spd(3), *d = diagonal(3), *s = shift(3);
    pu_op bare = pu_op_spd(3, a->theta, NULL);
    pu_op both = pu_op_sum(&a->op, &d->op), half = pu_op_sum(&s->op, &d->op);
    pu_op blind = pu_op_sum(&bare, &d->op);
    ASSERT(a->op.sample && a->op.logdet && a->op.logdet_grad && a->op.diag);
    ASSERT(!bare.sample && !bare.logdet && !bare.logdet_grad);
    ASSERT(d->op.sample && d->op.logdet && d->op.logdet_grad && d->op.diag);
    ASSERT(dense(3, 2)->op.gram_diag != NULL);
    ASSERT(both.diag && both.sample && !both.logdet && !both.logdet_grad);
    ASSERT(half.diag && !half.sample);
    ASSERT(blind.diag && !blind.sample);
    PASS();
}

/* ---- dense: kernels work in panels and tiles, so every kind of rest must occur ------------------ */

typedef struct {
    pu_int cols, n, k; /* n of n + 3 rows are at work, or all n */
} dense_case;

/* Products and gradient on all rows and on a list of rows, against plain sums; both roundings of the
   sums are bounded by the number of terms. Each column alone gives the same bits, except that gemm (k >= 8, all
   rows, with PU_USE_CBLAS) rounds in its own way: that is why the comparison is made with lists. */
TEST dense_rows(const dense_case *c, int listed)
{
    const pu_int D = c->cols, n = c->n, k = c->k, M = listed ? n + 3 : n, ldx = D + 1, ldy = n + 2;
    pu_real *a = tc_normal(81, M * D), *x = tc_normal(82, ldx * k), *y = tc_normal(83, ldy * k);
    pu_real *y1 = tc_normal(84, ldy * k), *x1 = tc_normal(85, ldx * k), *g = tc_normal(86, M * D), *g0 = tc_normal(86, M * D);
    pu_real *y0 = tc_normal(84, ldy * k), *x0 = tc_normal(85, ldx * k), *alone, *weight = tc_normal(87, k), *work;
    pu_int *rows = (pu_int *)tc_bytes((size_t)n * sizeof(pu_int)), i, j, d, at;
    pu_op op = pu_op_dense(M, D, a);
    tc_set_case("%d columns, %d rows, %d at a time, listed %d", (int)D, (int)n, (int)k, listed);
    work = scratch(&op, k);
    for (i = 0; i < n; i++) rows[i] = listed ? i + (i > n / 3) + 2 * (i > n / 2) : i;
    if (listed) {
        TC_STATUS(op.apply_rows(&op, n, rows, k, tc_block(x, ldx), tc_block(y1, ldy), 1, work), PU_OK);
        TC_STATUS(op.apply_rows_t(&op, n, rows, k, tc_block(y, ldy), tc_block(x1, ldx), 1, work), PU_OK);
        TC_STATUS(op.grad_rows(&op, n, rows, k, tc_block(y, ldy), tc_block(x, ldx), weight, g, work), PU_OK);
    } else {
        TC_STATUS(op.apply(&op, k, tc_block(x, ldx), tc_block(y1, ldy), 1, work), PU_OK);
        TC_STATUS(op.apply_t(&op, k, tc_block(y, ldy), tc_block(x1, ldx), 1, work), PU_OK);
        TC_STATUS(op.grad(&op, k, tc_block(y, ldy), tc_block(x, ldx), weight, g, work), PU_OK);
    }
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) {
            double sum = (double)y0[j * ldy + i], size = fabs(sum);
            for (d = 0; d < D; d++) {
                double term = (double)a[rows[i] * D + d] * (double)x[j * ldx + d];
                sum += term, size += fabs(term);
            }
            TC_CLOSE(y1[j * ldy + i], sum, (double)(D + 2) * PU_TEST_EPS * size);
        }
        for (d = 0; d < D; d++) {
            double sum = (double)x0[j * ldx + d], size = fabs(sum);
            for (i = 0; i < n; i++) {
                double term = (double)a[rows[i] * D + d] * (double)y[j * ldy + i];
                sum += term, size += fabs(term);
            }
            TC_CLOSE(x1[j * ldx + d], sum, (double)(n + 2) * PU_TEST_EPS * size);
        }
        TC_ASSERT(memcmp(x1 + j * ldx + D, x0 + j * ldx + D, sizeof *x) == 0); /* the gaps */
        TC_ASSERT(memcmp(y1 + j * ldy + n, y0 + j * ldy + n, 2 * sizeof *y) == 0);
    }
    for (i = 0, at = 0; i < M; i++) {
        int used = at < n && rows[at] == i;
        for (d = 0; d < D; d++) {
            double sum = (double)g0[i * D + d], size = fabs(sum);
            for (j = 0; j < k && used; j++) {
                double term = (double)weight[j] * (double)y[j * ldy + at] * (double)x[j * ldx + d];
                sum += term, size += fabs(term);
            }
            TC_CLOSE(g[i * D + d], sum, used ? (double)(k + 3) * PU_TEST_EPS * size : 0);
        }
        at += used;
    }
    for (j = 0; j < k && listed; j++) {
        alone = tc_normal(84, ldy * k);
        TC_STATUS(op.apply_rows(&op, n, rows, 1, tc_block(x + j * ldx, ldx), tc_block(alone + j * ldy, ldy), 1, work), PU_OK);
        TC_ASSERT(memcmp(alone + j * ldy, y1 + j * ldy, (size_t)n * sizeof *y) == 0);
        alone = tc_normal(85, ldx * k);
        TC_STATUS(op.apply_rows_t(&op, n, rows, 1, tc_block(y + j * ldy, ldy), tc_block(alone + j * ldx, ldx), 1, work), PU_OK);
        TC_ASSERT(memcmp(alone + j * ldx, x1 + j * ldx, (size_t)D * sizeof *x) == 0);
    }
    PASS();
}

/* ---- spd factor ------------------------------------------------------------------------------ */

TEST spd_factor_is_cholesky(pu_int n)
{
    pu_real *a = tc_random_spd((uint64_t)n + 900, n), *l = tc_reals(n * n);
    pu_int i, j, m, index = 123;
    tc_set_case("n %d", (int)n);
    TC_ASSERT(pu_spd_factor(n, a, l, &index) == PU_OK);
    for (i = 0; i < n; i++) {
        TC_ASSERT(l[i * n + i] > PU_R(0));
        for (j = 0; j <= i; j++) {
            double sum = 0, size = sqrt((double)a[i * n + i] * (double)a[j * n + j]);
            for (m = 0; m <= j; m++) sum += (double)l[i * n + m] * (double)l[j * n + m];
            TC_CLOSE(sum, a[i * n + j], ((double)n + 2) * PU_TEST_EPS * size);
        }
    }
    PASS();
}

/* Positive on the diagonal and indefinite all the same: refused at its second pivot. */
TEST spd_factor_refuses_indefinite(void)
{
    pu_real a[9] = {1, 2, 0, 2, 1, 0, 0, 0, 1}, l[9];
    pu_int index = -5;
    ASSERT_EQ(pu_spd_factor(3, a, l, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 4); /* entry (1, 1) */
    PASS();
}

TEST spd_factor_refuses(void)
{
    pu_real a[4] = {2, 1, 1, 2}, l[4];
    pu_int index = -5;
    memset(l, TC_PATTERN, sizeof l);
    ASSERT_EQ(pu_spd_factor(2, NULL, l, &index), PU_E_NULL);
    ASSERT_EQ(pu_spd_factor(2, a, NULL, &index), PU_E_NULL);
    ASSERT_EQ(pu_spd_factor(0, a, l, &index), PU_E_ARGUMENT);
    ASSERT_EQ(pu_spd_factor(-2, a, l, &index), PU_E_ARGUMENT);
    ASSERT_EQ(pu_spd_factor(PTRDIFF_MAX / 2, a, l, &index), PU_E_OVERFLOW);
    a[1] = PU_R(1.5);
    ASSERT_EQ(pu_spd_factor(2, a, l, &index), PU_E_NOT_SYMMETRIC);
    ASSERT_EQ(index, 2);
    a[1] = PU_R(NAN);
    ASSERT_EQ(pu_spd_factor(2, a, l, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 1);
    ASSERT(tc_is_pattern((unsigned char *)l, sizeof l));
    ASSERT_EQ(pu_spd_factor(2, a, l, NULL), PU_E_NONFINITE);
    PASS();
}

/* ---- check ----------------------------------------------------------------------------------- */

/* Every parameter in turn becomes NaN or an infinity; the index found must be that parameter's. */
TEST check_finds_each_number(const op_case *c)
{
    static const pu_real bad[3] = {PU_R(NAN), PU_R(INFINITY), PU_R(-INFINITY)};
    fixture *f = build(c);
    pu_int i, index = -5;
    TC_ASSERT(f->op.check != NULL);
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
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

TEST check_of_spd(void)
{
    enum { SIDE = 4 };
    fixture *f = spd(SIDE);
    pu_int i, j, index = -5;
    for (i = 0; i < SIDE; i++) {
        for (j = 0; j < SIDE; j++) {
            pu_real *t = &f->theta[i * SIDE + j], old = *t;
            tc_set_case("entry %d, %d", (int)i, (int)j);
            *t = i == j ? PU_R(-1) : *t + PU_R(0.01);
            TC_STATUS(f->op.check(&f->op, &index), i == j ? PU_E_NOT_DEFINITE : PU_E_NOT_SYMMETRIC);
            /* of a pair that differs, the entry below the diagonal is named */
            TC_ASSERT(index == (i >= j ? i * SIDE + j : j * SIDE + i));
            *t = old;
        }
    }
    PASS();
}

/* Entries that cancelled to rounding noise may differ in every digit; the matrix is symmetric for
   all that. */
TEST check_tolerates_rounding(void)
{
    pu_real a[4], l[4];
    pu_op op;
    pu_int index = -5;
    a[0] = a[3] = PU_R(3);
    a[1] = (pu_real)(0.5 * PU_TEST_EPS);
    a[2] = (pu_real)(-0.5 * PU_TEST_EPS);
    op = pu_op_spd(2, a, NULL);
    tc_set_case("off-diagonal entries +-eps/2, diagonal 3");
    TC_STATUS(op.check(&op, &index), PU_OK);
    TC_STATUS(pu_spd_factor(2, a, l, &index), PU_OK);
    PASS();
}

/* A factor that belongs to another matrix, found at the row's diagonal entry. */
TEST check_finds_stale_factor(void)
{
    enum { SIDE = 4 };
    pu_int i, index = -5;
    for (i = 0; i < SIDE; i++) {
        fixture *f = spd(SIDE);
        tc_set_case("row %d", (int)i);
        f->factor[i * SIDE + i] *= PU_R(1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i * SIDE + i);
    }
    PASS();
}

/* ---- operands that do not fit ---------------------------------------------------------------- */

TEST misfits_have_no_size(void)
{
    pu_op a = dense(3, 4)->op, b = dense(3, 5)->op;
    pu_op product_op = pu_op_product(&a, &b), sum_op = pu_op_sum(&a, &b);
    ASSERT(product_op.rows == 0 && product_op.apply == NULL);
    ASSERT(sum_op.rows == 0 && sum_op.apply == NULL);
    ASSERT(pu_op_product(NULL, &a).rows == 0 && pu_op_product(&a, NULL).rows == 0);
    ASSERT(pu_op_sum(NULL, &a).rows == 0 && pu_op_sum(&a, NULL).rows == 0);
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

static int is_leaf(const op_case *c)
{
    return c->kind != PRODUCT && c->kind != SUM;
}

static int has_diag(const op_case *c)
{
    if (c->kind == SUM) return c->which != 0 && c->which != 6;
    return is_leaf(c) && c->kind != DENSE;
}

static int has_sample(const op_case *c)
{
    if (c->kind == SUM) return c->which == 1 || c->which == 2 || c->which == 4 || c->which == 5;
    return (c->kind >= SPD && c->kind <= SCALED) || c->kind == WIDE;
}

static int has_logdet(const op_case *c)
{
    return c->kind >= SPD && c->kind <= SCALED;
}

/* The check of a shift or wide operator is the user's own business; these have none. */
static int has_check(const op_case *c)
{
    if (c->kind == PRODUCT) return c->which <= 1;
    if (c->kind == SUM) return c->which <= 2;
    return c->kind <= SCALED;
}

static void run_case(const op_case *c)
{
    RUN_TESTp(dimensions, c);
    RUN_TESTp(apply_is_the_matrix, c);
    RUN_TESTp(transpose_is_the_adjoint, c);
    RUN_TESTp(grad_is_the_derivative, c);
    if (has_diag(c)) RUN_TESTp(diag_is_the_diagonal, c);
    if (c->kind <= SHIFT) RUN_TESTp(gram_diag_is_the_diagonal, c);
    if (has_sample(c)) RUN_TESTp(sample_has_the_right_covariance, c);
    if (has_sample(c)) RUN_TESTp(sample_is_linear, c);
    if (has_logdet(c)) RUN_TESTp(logdet_is_the_log_determinant, c);
    if (has_logdet(c)) RUN_TESTp(logdet_grad_is_the_inverse, c);
    if (has_logdet(c) && c->kind != IDENTITY) RUN_TESTp(logdet_grad_is_the_derivative, c);
    if (has_check(c)) RUN_TESTp(check_finds_each_number, c);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const pu_int sides[] = {1, 2, 3, 17, 64};
    /* rests of tiles (2 or 4 .. 16 wide), stretches (256), panels (8, 256 rows), chunks (512), groups of columns (4) */
    static const dense_case shapes[] = {{1, 1, 1},   {3, 5, 2},   {4, 9, 3},    {7, 4, 4},    {8, 8, 5},    {15, 17, 11},
                                        {16, 16, 8}, {17, 33, 9}, {31, 2, 66},  {64, 15, 6},  {65, 31, 7},  {103, 24, 11},
                                        {257, 7, 3}, {270, 6, 5}, {511, 3, 12}, {512, 3, 12}, {533, 5, 11}, {9, 261, 9}};
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < OP_CASES; i++) run_case(&op_cases[i]);
    for (i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        RUN_TESTp(spd_factor_is_cholesky, sides[i]);
    }
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        RUN_TESTp(dense_rows, &shapes[i], 0);
        RUN_TESTp(dense_rows, &shapes[i], 1);
    }
    RUN_TEST(abilities);
    RUN_TEST(spd_factor_refuses_indefinite);
    RUN_TEST(spd_factor_refuses);
    RUN_TEST(check_of_spd);
    RUN_TEST(check_tolerates_rounding);
    RUN_TEST(check_finds_stale_factor);
    RUN_TEST(misfits_have_no_size);
    PU_TEST_MAIN_END();
}

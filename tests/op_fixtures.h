/* op_fixtures.h - what the tests of structured operators share (test_op_sparse.c, test_op_toeplitz.c,
   test_op_kronecker.c, test_op_models.c).

   A fixture is an operator with its parameters and the dense matrix they stand for, built by plain loops in double.
   run_case() runs every general test on one fixture: shape, products, gradient, diagonals, draws, log det and check,
   each against that matrix. A test file lists its cases, calls run_case for each, and adds what is special to them.
   Include after pu_test.h and test_common.h. */
#ifndef OP_FIXTURES_H
#define OP_FIXTURES_H

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

PU_TEST_FN fixture *make(op_kind kind)
{
    fixture *f = (fixture *)tc_bytes(sizeof *f);
    f->kind = kind;
    next_seed++;
    return f;
}

/* About two entries in five, a few rows and columns empty. */
PU_TEST_FN fixture *csr(pu_int rows, pu_int cols)
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

PU_TEST_FN fixture *low_rank(pu_int n, pu_int r)
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
PU_TEST_FN void autocorrelation(pu_int n, pu_int lags, int circle, pu_real *t)
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
PU_TEST_FN pu_status factor(pu_lags *f, op_kind kind, pu_int n, const pu_real *t, int prior, pu_int *index)
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

PU_TEST_FN fixture *toeplitz(pu_int n)
{
    fixture *f = make(TOEPLITZ);
    f->theta = tc_reals(n);
    autocorrelation(n, n, 0, f->theta);
    if (factor(&f->lags, TOEPLITZ, n, f->theta, 1, NULL) != PU_OK) exit(2);
    f->op = pu_op_toeplitz(n, f->theta, &f->lags);
    return f;
}

PU_TEST_FN fixture *circulant(pu_int n)
{
    fixture *f = make(CIRCULANT);
    f->theta = tc_reals(n / 2 + 1);
    autocorrelation(n, n / 2 + 1, 1, f->theta);
    if (factor(&f->lags, CIRCULANT, n, f->theta, 1, NULL) != PU_OK) exit(2);
    f->op = pu_op_circulant(n, f->theta, &f->lags);
    return f;
}

PU_TEST_FN fixture *dense(pu_int rows, pu_int cols)
{
    fixture *f = make(DENSE);
    f->theta = tc_normal(next_seed, rows * cols);
    f->op = pu_op_dense(rows, cols, f->theta);
    return f;
}

PU_TEST_FN fixture *spd(pu_int n)
{
    fixture *f = make(SPD);
    f->theta = tc_random_spd(next_seed, n);
    f->factor = tc_reals(n * n);
    if (pu_spd_factor(n, f->theta, f->factor, NULL) != PU_OK) exit(2);
    f->op = pu_op_spd(n, f->theta, f->factor);
    return f;
}

PU_TEST_FN fixture *diagonal(pu_int n)
{
    fixture *f = make(DIAGONAL);
    f->theta = tc_random_positive(next_seed, n);
    f->op = pu_op_diagonal(n, f->theta);
    return f;
}

PU_TEST_FN fixture *identity(pu_int n)
{
    fixture *f = make(IDENTITY);
    f->op = pu_op_identity(n);
    return f;
}

PU_TEST_FN fixture *kronecker(fixture *left, fixture *right)
{
    fixture *f = make(KRONECKER);
    f->left = left;
    f->right = right;
    f->op = pu_op_kronecker(&left->op, &right->op);
    return f;
}

/* Entry (i, j) of a leaf from its parameters; with `absolute`, without cancellation. */
PU_TEST_FN double leaf_entry(const fixture *f, pu_int i, pu_int j, int absolute)
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

PU_TEST_FN double *matrix(const fixture *f, int absolute)
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

PU_TEST_FN double *transposed(pu_int rows, pu_int cols, const double *a)
{
    double *t = tc_doubles(rows * cols);
    pu_int i, j;
    for (i = 0; i < rows; i++) {
        for (j = 0; j < cols; j++) t[j * rows + i] = a[i * cols + j];
    }
    return t;
}

/* Roundings on the way to one entry of a product: the lengths of the sums, and a few more. */
PU_TEST_FN double roundings(const fixture *f)
{
    if (f->kind == KRONECKER) return roundings(f->left) + roundings(f->right);
    return (double)(f->op.rows > f->op.cols ? f->op.rows : f->op.cols) + 4 +
           (f->kind == LOW_RANK ? (double)f->low_rank.r : 0);
}

PU_TEST_FN pu_real *parameter(const fixture *f, pu_int i)
{
    if (f->kind != KRONECKER) return &f->theta[i];
    if (i < f->left->op.params) return parameter(f->left, i);
    return parameter(f->right, i - f->left->op.params);
}

/* The parameter that must move along with i (the mirror entry of a symmetric matrix), or i itself. */
PU_TEST_FN pu_int partner(const fixture *f, pu_int i)
{
    pu_int n = f->op.rows, first;
    if (f->kind == SPD) return i % n * n + i / n;
    if (f->kind != KRONECKER) return i;
    first = f->left->op.params;
    return i < first ? partner(f->left, i) : first + partner(f->right, i - first);
}

/* d Op / d theta_i (and its mirror entry): a central difference with a wide step is exact up to rounding, since Op is
   at most quadratic in each parameter. An spd gradient splits the derivative between two entries: `share` for each. */
PU_TEST_FN double *derivative(const fixture *f, pu_int i, double *share)
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

/* A bound on what multiplies p and q on the way to any entry of the gradient. */
PU_TEST_FN double gain(const fixture *f)
{
    double sum = 2;
    if (f->kind == KRONECKER) return gain(f->left) * gain(f->right);
    if (f->kind == LOW_RANK) {
        pu_int i, n = f->low_rank.n * f->low_rank.r;
        double u = 0;
        for (i = 0; i < n; i++) u += pow((double)f->low_rank.u[i], 2);
        sum += 2 * sqrt(u);
    }
    return sum + tc_norm(f->op.rows * f->op.cols, matrix(f, 1));
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    op_kind kind;
    pu_int n, m; /* rows and columns, or n and r */
    int which;   /* Kronecker products: which operands */
} op_case;

PU_TEST_FN fixture *build_kronecker(int which)
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

PU_TEST_FN fixture *build(const op_case *c)
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
PU_TEST_FN int is_prior(const op_case *c)
{
    return c->kind == KRONECKER ? c->which >= 3 && c->which <= 8 : c->kind != CSR;
}

PU_TEST_FN pu_real *scratch(const pu_op *op, pu_int k)
{
    pu_real *work = tc_reals(k * op->work);
    tc_fill(k * op->work, work, PU_R(NAN));
    return work;
}

/* TC_CLOSE that can also show the largest share of the tolerance used: compile with -DOP_WORST. */
#ifdef OP_WORST
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

PU_TEST_FN greatest_test_res dimensions(const op_case *c)
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

PU_TEST_FN greatest_test_res check_apply(const fixture *f, int transpose, pu_int k, pu_int pad, int add,
                                         const double *a, const double *size)
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

PU_TEST_FN greatest_test_res apply_is_the_matrix(const op_case *c)
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
PU_TEST_FN greatest_test_res transpose_is_the_adjoint(const op_case *c)
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

PU_TEST_FN greatest_test_res check_grad(const fixture *f, pu_int k, pu_int pad, const pu_real *weight)
{
    pu_int rows = f->op.rows, cols = f->op.cols, i, j, a, b, n = f->op.params;
    pu_block P = tc_random_block(&next_seed, rows, k, rows + pad), Q = tc_random_block(&next_seed, cols, k, cols + pad);
    pu_real *before = tc_normal(++next_seed, n), *grad = tc_reals(n);
    double unit = ((double)k + roundings(f)) * PU_TEST_EPS, size = 0, *outer = tc_doubles(rows * cols), most = gain(f);
    P.at[0] = PU_R(0);
    for (j = 0; j < k; j++) {
        double *p = tc_column(P, rows, j), *q = tc_column(Q, cols, j);
        size += fabs((double)weight[j]) * tc_norm(rows, p) * tc_norm(cols, q);
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

PU_TEST_FN greatest_test_res grad_is_the_derivative(const op_case *c)
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

PU_TEST_FN greatest_test_res diag_is_the_diagonal(const op_case *c)
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

PU_TEST_FN greatest_test_res gram_diag_is_the_diagonal(const op_case *c)
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
PU_TEST_FN double condition(const fixture *f, double *inverse)
{
    pu_int n = f->op.rows;
    double *a = matrix(f, 0), size = tc_norm(n * n, a);
    if (!tc_cholesky(n, a)) exit(2);
    tc_inverse(n, a, inverse);
    return size * tc_norm(n * n, inverse);
}

/* Unit vectors in, so that F comes out; then F F' = Op. The recursions of Toeplitz matrices and the spectrum of
   circulants have errors relative to the largest eigenvalue; those of a predictor grow with the condition. */
PU_TEST_FN greatest_test_res sample_has_the_right_covariance(const op_case *c)
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
PU_TEST_FN greatest_test_res sample_is_linear(const op_case *c)
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

PU_TEST_FN greatest_test_res logdet_is_the_log_determinant(const op_case *c)
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
PU_TEST_FN greatest_test_res logdet_grad_is_the_derivative(const op_case *c)
{
    fixture *f = build(c);
    pu_int i, e, n = f->op.rows;
    pu_real *before = tc_normal(++next_seed, f->op.params), *grad = tc_reals(f->op.params), weight = PU_R(-0.75);
    double *inverse = tc_doubles(n * n), cond = condition(f, inverse), size = tc_norm(n * n, inverse);
    memcpy(grad, before, (size_t)f->op.params * sizeof *grad);
    TC_ASSERT(f->op.logdet_grad(&f->op, weight, grad, scratch(&f->op, 1)) == PU_OK);
    for (i = 0; i < f->op.params; i++) {
        size_t mark = tc_kept_count;
        double share, *d = derivative(f, i, &share), want = 0, bound = cond * size * (1 + tc_norm(n * n, d));
        for (e = 0; e < n * n; e++) want += share * d[e] * inverse[e];
        CLOSE(f, W_LOGDET_GRAD, grad[i], (double)before[i] + (double)weight * want,
              4 * roundings(f) * PU_TEST_EPS * (bound + fabs((double)before[i])));
        tc_release_to(mark);
    }
    PASS();
}

/* ---- check ----------------------------------------------------------------------------------- */

PU_TEST_FN greatest_test_res check_finds_each_number(const op_case *c)
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

/* ---- running --------------------------------------------------------------------------------- */

/* Every general test on one case; those of a prior where it can be one. */
PU_TEST_FN void run_case(const op_case *c)
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

/* With -DOP_WORST: the largest shares of the tolerances, a line for each kind of operator. */
PU_TEST_FN void print_worst(void)
{
#ifdef OP_WORST
    int kind, what;
    for (kind = 0; kind <= KRONECKER; kind++) {
        printf("kind %d:", kind);
        for (what = 0; what < 8; what++) printf(" %.3f", worst[kind][what]);
        printf("\n");
    }
#endif
}

#endif /* OP_FIXTURES_H */

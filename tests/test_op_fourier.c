/* test_op_fourier.c - the Fourier transform against its definition in long double, and the Fourier
   sensing operator against the dense matrix [Re F; Im F]. */
#define PU_IMPLEMENTATION /* the fused products are private */
#include "pu_test.h"
#include "test_common.h"

static double worst_forward, worst_round, worst_apply, worst_gram, worst_gradient; /* of the allowed */

static void note(double *worst, double ratio)
{
    if (ratio > *worst) *worst = ratio;
}

/* 10 eps log2(n), the growth of a good fast transform; 10 eps for n < 2. */
static double allowed(pu_int n)
{
    return 10 * PU_TEST_EPS * (n > 2 ? log((double)n) / log(2.0) : 1);
}

/* ---- the definition -------------------------------------------------------------------------- */

/* cos and sin of 2 pi k / n for k = 0 .. n-1 */
static void roots(pu_int n, long double *c, long double *s)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    pu_int k;
    for (k = 0; k < n; k++) {
        c[k] = cosl(two_pi * (long double)k / (long double)n);
        s[k] = sinl(two_pi * (long double)k / (long double)n);
    }
}

/* In place, `count` sequences `apart` from each other whose entries lie `step` apart. */
static void naive(pu_int n, pu_int step, pu_int count, pu_int apart, long double *re,
                  long double *im)
{
    size_t mark = tc_kept_count, bytes = (size_t)n * sizeof(long double);
    long double *c = (long double *)tc_bytes(bytes), *s = (long double *)tc_bytes(bytes);
    long double *yr = (long double *)tc_bytes(bytes), *yi = (long double *)tc_bytes(bytes);
    pu_int a, j, k;
    roots(n, c, s);
    for (a = 0; a < count; a++) {
        for (k = 0; k < n; k++) {
            yr[k] = yi[k] = 0;
            for (j = 0; j < n; j++) {
                long double xr = re[a * apart + j * step], xi = im[a * apart + j * step];
                pu_int at = j * k % n;
                yr[k] += xr * c[at] + xi * s[at];
                yi[k] += xi * c[at] - xr * s[at];
            }
        }
        for (k = 0; k < n; k++) {
            re[a * apart + k * step] = yr[k] / sqrtl((long double)n);
            im[a * apart + k * step] = yi[k] / sqrtl((long double)n);
        }
    }
    tc_release_to(mark);
}

static long double *widen(pu_int n, const pu_real *x)
{
    long double *y = (long double *)tc_bytes((size_t)n * sizeof(long double));
    pu_int i;
    for (i = 0; i < n; i++) y[i] = (long double)x[i];
    return y;
}

/* max |got - want| / max |want|, complex entries */
static double complex_error(pu_int n, const pu_real *gr, const pu_real *gi, const long double *wr,
                            const long double *wi)
{
    double error = 0, scale = DBL_MIN;
    pu_int i;
    for (i = 0; i < n; i++) {
        double dr = (double)((long double)gr[i] - wr[i]), di = (double)((long double)gi[i] - wi[i]);
        double e = sqrt(dr * dr + di * di);
        double w = sqrt((double)(wr[i] * wr[i] + wi[i] * wi[i]));
        if (!(e <= DBL_MAX)) return HUGE_VAL;
        if (e > error) error = e;
        if (w > scale) scale = w;
    }
    return error / scale;
}

/* ---- plans, given back after each test ------------------------------------------------------- */

static pu_fft plans_1d[8];
static pu_fourier plans_2d[8];
static int count_1d, count_2d;

static void release(void *unused)
{
    while (count_1d > 0) pu_fft_free(&plans_1d[--count_1d]);
    while (count_2d > 0) pu_fourier_free(&plans_2d[--count_2d]);
    tc_release(unused);
}

static pu_fft *plan_1d(pu_int n)
{
    size_t bytes = 0;
    if (pu_fft_bytes(n, &bytes) != PU_OK || count_1d == 8) return NULL;
    if (pu_fft_init(&plans_1d[count_1d], n, tc_bytes(bytes), bytes) != PU_OK) return NULL;
    return &plans_1d[count_1d++];
}

static pu_fourier *plan_2d(pu_int rows, pu_int cols)
{
    size_t bytes = 0;
    if (pu_fourier_bytes(rows, cols, &bytes) != PU_OK || count_2d == 8) return NULL;
    if (pu_fourier_init(&plans_2d[count_2d], rows, cols, tc_bytes(bytes), bytes) != PU_OK) return NULL;
    return &plans_2d[count_2d++];
}

TEST one_dimension(pu_int n)
{
    pu_fft *plan = plan_1d(n);
    pu_real *re = tc_normal(1, n), *im = tc_normal(2, n), *work;
    long double *xr = widen(n, re), *xi = widen(n, im), *wr = widen(n, re), *wi = widen(n, im);
    double error;
    tc_set_case("n = %d", (int)n);
    TC_ASSERT(plan != NULL);
    work = tc_reals(plan->work);
    naive(n, 1, 1, 0, wr, wi);
    TC_STATUS(pu_fft_run(plan, 0, re, im, work), PU_OK);
    error = complex_error(n, re, im, wr, wi);
    note(&worst_forward, error / allowed(n));
    TC_CLOSE(error, 0, allowed(n));
    TC_STATUS(pu_fft_run(plan, 1, re, im, work), PU_OK);
    error = complex_error(n, re, im, xr, xi);
    note(&worst_round, error / allowed(n));
    TC_CLOSE(error, 0, allowed(n));
    PASS();
}

/* x[j] = e^(2 pi i j k / n) goes to sqrt(n) at k and to nothing elsewhere */
TEST inverse_of_a_peak_is_a_wave(void)
{
    static const pu_int lengths[] = {2, 12, 35, 64, 127, 134};
    size_t t;
    for (t = 0; t < sizeof lengths / sizeof lengths[0]; t++) {
        pu_int n = lengths[t], k = n / 3 + 1, j;
        pu_fft *plan = plan_1d(n);
        pu_real *re = tc_reals(n), *im = tc_reals(n), *work;
        double angle = 2 * acos(-1.0) / (double)n, root = sqrt((double)n);
        tc_set_case("n = %d", (int)n);
        TC_ASSERT(plan != NULL);
        work = tc_reals(plan->work);
        re[k] = PU_R(1);
        TC_STATUS(pu_fft_run(plan, 1, re, im, work), PU_OK);
        for (j = 0; j < n; j++) {
            double at = angle * (double)(j * k % n);
            TC_CLOSE(re[j], cos(at) / root, allowed(n) / root);
            TC_CLOSE(im[j], sin(at) / root, allowed(n) / root);
        }
    }
    PASS();
}

typedef struct {
    pu_int rows, cols;
} shape;

TEST two_dimensions(const shape *size)
{
    pu_int rows = size->rows, cols = size->cols, D = rows * cols;
    pu_fourier *plan = plan_2d(rows, cols);
    pu_real *re = tc_normal(3, D), *im = tc_normal(4, D), *work;
    long double *xr = widen(D, re), *xi = widen(D, im), *wr = widen(D, re), *wi = widen(D, im);
    double error;
    tc_set_case("%d x %d", (int)rows, (int)cols);
    TC_ASSERT(plan != NULL);
    work = tc_reals(plan->work);
    naive(cols, 1, rows, cols, wr, wi);
    naive(rows, cols, cols, 1, wr, wi);
    TC_STATUS(pu_fourier_run(plan, 0, re, im, work), PU_OK);
    error = complex_error(D, re, im, wr, wi);
    note(&worst_forward, error / allowed(D));
    TC_CLOSE(error, 0, allowed(D));
    TC_STATUS(pu_fourier_run(plan, 1, re, im, work), PU_OK);
    error = complex_error(D, re, im, xr, xi);
    note(&worst_round, error / allowed(D));
    TC_CLOSE(error, 0, allowed(D));
    PASS();
}

TEST memory_of_any_alignment(void)
{
    static const pu_int lengths[] = {1, 30, 67};
    size_t t, shift;
    for (t = 0; t < 3; t++) {
        for (shift = 0; shift < 3; shift++) {
            pu_int n = lengths[t];
            pu_fft plan;
            pu_real *re = tc_normal(1, n), *im = tc_normal(2, n), *work;
            long double *wr = widen(n, re), *wi = widen(n, im);
            size_t bytes = 0;
            tc_set_case("n = %d, shift %d", (int)n, (int)shift);
            TC_STATUS(pu_fft_bytes(n, &bytes), PU_OK);
            TC_STATUS(pu_fft_init(&plan, n, (char *)tc_bytes(bytes + shift) + shift, bytes), PU_OK);
            work = tc_reals(plan.work);
            naive(n, 1, 1, 0, wr, wi);
            TC_STATUS(pu_fft_run(&plan, 0, re, im, work), PU_OK);
            pu_fft_free(&plan);
            TC_CLOSE(complex_error(n, re, im, wr, wi), 0, allowed(n));
        }
    }
    PASS();
}

/* Scratch of any alignment, and no more of it than promised: the same bits. */
TEST scratch_of_any_alignment(void)
{
    const pu_int rows = 12, cols = 10, D = rows * cols;
    pu_fourier *f = plan_2d(rows, cols);
    pu_fft *plan = plan_1d(D);
    pu_real *first[4] = {NULL, NULL, NULL, NULL}, *x[4];
    pu_int shift, i;
    tc_set_case("scratch");
    TC_ASSERT(f != NULL && plan != NULL);
    for (shift = 0; shift < 8; shift++) {
        for (i = 0; i < 4; i++) x[i] = tc_normal((uint64_t)(51 + i), D);
        TC_STATUS(pu_fourier_run(f, 0, x[0], x[1], tc_reals(f->work + shift) + shift), PU_OK);
        TC_STATUS(pu_fft_run(plan, 1, x[2], x[3], tc_reals(plan->work + shift) + shift), PU_OK);
        for (i = 0; i < 4; i++) {
            if (!first[i]) first[i] = x[i];
            TC_ASSERT(memcmp(first[i], x[i], (size_t)D * sizeof(pu_real)) == 0);
        }
    }
    PASS();
}

TEST freeing_empties(void)
{
    pu_fft *plan = plan_1d(12);
    pu_fourier *f = plan_2d(3, 4);
    pu_real x[12] = {0}, y[12] = {0}, *work;
    pu_int index = 0;
    pu_op op;
    tc_set_case("free");
    TC_ASSERT(plan != NULL && f != NULL);
    work = tc_reals(plan->work + f->work);
    op = pu_op_fourier(f);
    pu_fft_free(plan), pu_fourier_free(f);
    TC_STATUS(pu_fft_run(plan, 0, x, y, work), PU_E_ARGUMENT);
    TC_STATUS(pu_fourier_run(f, 0, x, y, work), PU_E_ARGUMENT);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    pu_fft_free(plan), pu_fourier_free(f); /* twice does no harm */
    pu_fft_free(NULL), pu_fourier_free(NULL);
    PASS();
}

TEST refusals(void)
{
    pu_fft plan;
    pu_fourier f;
    pu_op op;
    pu_int index = 0;
    pu_real x = PU_R(1), work[8];
    size_t bytes = 0, bytes2 = 0;
    void *memory;
    tc_set_case("refusals");
    TC_STATUS(pu_fft_bytes(0, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_fft_bytes(-3, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_fft_bytes(4, NULL), PU_E_NULL);
    TC_STATUS(pu_fft_bytes(PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_fourier_bytes(0, 3, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_fourier_bytes(3, -1, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_fourier_bytes(3, 3, NULL), PU_E_NULL);
    TC_STATUS(pu_fourier_bytes(PTRDIFF_MAX / 2, 3, &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_fourier_bytes(PTRDIFF_MAX, PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    TC_ASSERT(bytes == 0); /* untouched */
    TC_STATUS(pu_fft_bytes(67, &bytes), PU_OK);
    TC_STATUS(pu_fourier_bytes(67, 6, &bytes2), PU_OK);
    memory = tc_bytes(bytes > bytes2 ? bytes : bytes2);
    TC_STATUS(pu_fft_init(NULL, 67, memory, bytes), PU_E_NULL);
    TC_STATUS(pu_fft_init(&plan, 67, NULL, bytes), PU_E_NULL);
    TC_STATUS(pu_fft_init(&plan, 0, memory, bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_fft_init(&plan, PTRDIFF_MAX, memory, bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_fft_init(&plan, 67, memory, bytes - 1), PU_E_BLOCK);
    TC_STATUS(pu_fft_run(&plan, 0, &x, &x, work), PU_E_ARGUMENT); /* left empty by the failure */
    TC_STATUS(pu_fourier_init(NULL, 67, 6, memory, bytes2), PU_E_NULL);
    TC_STATUS(pu_fourier_init(&f, 67, 6, NULL, bytes2), PU_E_NULL);
    TC_STATUS(pu_fourier_init(&f, 67, 0, memory, bytes2), PU_E_ARGUMENT);
    TC_STATUS(pu_fourier_init(&f, 67, 6, memory, bytes2 - 1), PU_E_BLOCK);
    TC_STATUS(pu_fourier_run(&f, 0, &x, &x, work), PU_E_ARGUMENT);
    op = pu_op_fourier(&f);
    TC_ASSERT(op.rows == 0 && op.cols == 0);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    op = pu_op_fourier(NULL);
    TC_ASSERT(op.rows == 0 && op.cols == 0 && !op.apply);
    TC_STATUS(pu_fourier_init(&f, 67, 6, memory, bytes2), PU_OK);
    TC_STATUS(pu_fourier_run(&f, 0, NULL, &x, work), PU_E_NULL);
    TC_STATUS(pu_fourier_run(&f, 0, &x, NULL, work), PU_E_NULL);
    TC_STATUS(pu_fourier_run(&f, 0, &x, &x, NULL), PU_E_NULL);
    op = pu_op_fourier(&f);
    TC_STATUS(op.check(&op, &index), PU_OK);
    pu_fourier_free(&f);
    TC_STATUS(pu_fourier_init(&f, 6, 7, memory, bytes2), PU_OK);
    TC_STATUS(op.check(&op, &index), PU_E_SIZE); /* the plan changed under the operator */
    pu_fourier_free(&f);
    PASS();
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* [Re F; Im F], 2D x D, from the definition */
static double *dense_matrix(pu_int rows, pu_int cols)
{
    pu_int D = rows * cols, m, d;
    double *a = tc_doubles(2 * D * D);
    long double *c = (long double *)tc_bytes((size_t)D * sizeof(long double));
    long double *s = (long double *)tc_bytes((size_t)D * sizeof(long double));
    roots(D, c, s);
    for (m = 0; m < D; m++) {
        for (d = 0; d < D; d++) {
            /* u i / rows + v j / cols in units of 1 / D */
            pu_int at = ((m / cols) * (d / cols) * cols + (m % cols) * (d % cols) * rows) % D;
            a[m * D + d] = (double)(c[at] / sqrtl((long double)D));
            a[(D + m) * D + d] = (double)(-s[at] / sqrtl((long double)D));
        }
    }
    return a;
}

static double largest(pu_int n, const double *x)
{
    double max = 0;
    pu_int i;
    for (i = 0; i < n; i++) max = fabs(x[i]) > max ? fabs(x[i]) : max;
    return max;
}

/* Y = Op X or Op' X for k columns and both values of add, against the dense product. */
static double product_error(const pu_op *op, const double *a, int transpose, pu_int k, int add)
{
    pu_int in = transpose ? op->rows : op->cols, out = transpose ? op->cols : op->rows;
    pu_int ldx = in + 3, ldy = out + 5, i, j, l;
    pu_real *x = tc_normal(11, ldx * k), *y = tc_normal(12, ldy * k), *before = tc_normal(12, ldy * k);
    pu_real *work = tc_reals(k * op->work);
    double *want = tc_doubles(out), worst = 0;
    pu_status status = transpose ? op->apply_t(op, k, tc_block(x, ldx), tc_block(y, ldy), add, work)
                                 : op->apply(op, k, tc_block(x, ldx), tc_block(y, ldy), add, work);
    if (status != PU_OK) return HUGE_VAL;
    for (j = 0; j < k; j++) {
        double scale, error = 0;
        for (i = 0; i < out; i++) {
            want[i] = add ? (double)before[j * ldy + i] : 0;
            for (l = 0; l < in; l++) {
                double entry = transpose ? a[l * op->cols + i] : a[i * op->cols + l];
                want[i] += entry * (double)x[j * ldx + l];
            }
            if (!(fabs((double)y[j * ldy + i] - want[i]) <= error)) error = fabs((double)y[j * ldy + i] - want[i]);
        }
        /* a transform rounds relative to its largest complex value, packing to that of the pair */
        scale = largest(out, want);
        for (i = 0; i < k; i++)
            for (l = 0; l < in; l++)
                scale = fmax(scale, fabs((double)x[i * ldx + l]) * (transpose ? 1 : 0.5));
        if (!(error / scale <= worst)) worst = error / scale;
        for (i = out; i < ldy; i++) /* the gap between columns */
            if (memcmp(&y[j * ldy + i], &before[j * ldy + i], sizeof(pu_real)) != 0) return HUGE_VAL;
    }
    return worst;
}

TEST apply_is_the_matrix(const shape *size)
{
    pu_fourier *f = plan_2d(size->rows, size->cols);
    pu_int D = size->rows * size->cols, k;
    double *a = dense_matrix(size->rows, size->cols);
    pu_op op;
    int t;
    tc_set_case("%d x %d", (int)size->rows, (int)size->cols);
    TC_ASSERT(f != NULL);
    op = pu_op_fourier(f);
    TC_ASSERT(op.rows == 2 * D && op.cols == D && op.params == 0 && op.trusted == 1);
    for (k = 1; k <= 5; k++) {
        for (t = 0; t < 4; t++) {
            size_t mark = tc_kept_count;
            double error = product_error(&op, a, t / 2, k, t % 2);
            note(&worst_apply, error / allowed(2 * D));
            tc_set_case("%d x %d, k = %d, transpose %d, add %d", (int)size->rows, (int)size->cols,
                        (int)k, t / 2, t % 2);
            TC_CLOSE(error, 0, allowed(2 * D));
            tc_release_to(mark);
        }
    }
    PASS();
}

/* <p, Phi q> = <Phi'p, q> and Phi'Phi = I */
TEST transpose_is_the_adjoint(const shape *size)
{
    pu_fourier *f = plan_2d(size->rows, size->cols);
    pu_int D = size->rows * size->cols, j, i, k = 3;
    pu_real *p = tc_normal(21, 2 * D * k), *q = tc_normal(22, D * k);
    pu_real *Pq = tc_reals(2 * D * k), *Ptp = tc_reals(D * k), *back = tc_reals(D * k), *work, one = 1;
    pu_op op;
    tc_set_case("%d x %d", (int)size->rows, (int)size->cols);
    TC_ASSERT(f != NULL);
    op = pu_op_fourier(f);
    work = tc_reals(k * op.work);
    TC_STATUS(op.apply(&op, k, tc_block(q, D), tc_block(Pq, 2 * D), 0, work), PU_OK);
    TC_STATUS(op.apply_t(&op, k, tc_block(p, 2 * D), tc_block(Ptp, D), 0, work), PU_OK);
    TC_STATUS(op.apply_t(&op, k, tc_block(Pq, 2 * D), tc_block(back, D), 0, work), PU_OK);
    for (j = 0; j < k; j++) {
        double left = 0, right = 0, size2 = 0;
        for (i = 0; i < 2 * D; i++) {
            left += (double)p[j * 2 * D + i] * (double)Pq[j * 2 * D + i];
            size2 += fabs((double)p[j * 2 * D + i] * (double)Pq[j * 2 * D + i]);
        }
        for (i = 0; i < D; i++) {
            right += (double)Ptp[j * D + i] * (double)q[j * D + i];
            size2 += fabs((double)Ptp[j * D + i] * (double)q[j * D + i]);
        }
        TC_CLOSE(left, right, allowed(D) * (size2 + 1));
    }
    TC_CLOSE(pu_test_relerr(D * k, back, q), 0, 2 * allowed(D));
    TC_STATUS(op.grad(&op, 1, tc_block(p, 2 * D), tc_block(q, D), &one, NULL, work), PU_OK);
    PASS();
}

/* kind 0: any weights; 1: the same for Re and Im; 2: one row only; 3: signs */
TEST gram_diag_is_the_diagonal(const shape *size)
{
    pu_fourier *f = plan_2d(size->rows, size->cols);
    pu_int D = size->rows * size->cols, m, d;
    double *a = dense_matrix(size->rows, size->cols);
    int kind;
    for (kind = 0; kind < 4; kind++) {
        pu_real *w = kind == 3 ? tc_normal(31, 2 * D) : tc_random_positive(31, 2 * D);
        pu_real *y = tc_normal(32, D), *before = tc_normal(32, D), *work;
        double total = 0, tolerance;
        pu_op op;
        tc_set_case("%d x %d, weights %d", (int)size->rows, (int)size->cols, kind);
        TC_ASSERT(f != NULL);
        op = pu_op_fourier(f);
        work = tc_reals(op.work);
        for (m = 0; m < D && kind == 1; m++) w[D + m] = w[m];
        for (m = 0; m < 2 * D && kind == 2; m++) w[m] = m == D + D / 2 ? PU_R(1) : PU_R(0);
        for (m = 0; m < 2 * D; m++) total += fabs((double)w[m]) / (double)D;
        TC_STATUS(op.gram_diag(&op, w, y, work), PU_OK);
        for (d = 0; d < D; d++) {
            double want = (double)before[d];
            for (m = 0; m < 2 * D; m++) want += (double)w[m] * a[m * D + d] * a[m * D + d];
            /* the sum rounds relative to sum |w| / D, adding to y relative to y */
            tolerance = allowed(D) * total + PU_TEST_EPS * (fabs(want) + fabs((double)before[d]));
            note(&worst_gram, fabs((double)y[d] - want) / tolerance);
            TC_CLOSE(y[d], want, tolerance);
        }
    }
    PASS();
}

/* Y (+)= Phi' diag(w) Phi X with the same kinds of weights, one to three columns */
TEST gram_is_the_product(const shape *size)
{
    pu_fourier *f = plan_2d(size->rows, size->cols);
    pu_int D = size->rows * size->cols, ld = D + 3, k, j, m, d;
    double *a = dense_matrix(size->rows, size->cols), *t = tc_doubles(2 * D);
    int kind, add;
    for (kind = 0; kind < 4; kind++)
        for (k = 1; k <= 3; k++)
            for (add = 0; add < 2; add++) {
                size_t mark = tc_kept_count;
                pu_real *w = kind == 3 ? tc_normal(31, 2 * D) : tc_random_positive(31, 2 * D);
                pu_real *x = tc_normal(33, ld * k), *y = tc_normal(34, ld * k), *before = tc_normal(34, ld * k);
                double scale = 0, heaviest = 0;
                pu_op op;
                tc_set_case("%d x %d, weights %d, k = %d, add %d", (int)size->rows, (int)size->cols, kind, (int)k, add);
                TC_ASSERT(f != NULL);
                op = pu_op_fourier(f);
                for (m = 0; m < D && kind == 1; m++) w[D + m] = w[m];
                for (m = 0; m < 2 * D && kind == 2; m++) w[m] = m == D + D / 2 ? PU_R(1) : PU_R(0);
                for (m = 0; m < 2 * D; m++) heaviest = fmax(heaviest, fabs((double)w[m]));
                for (m = 0; m < ld * k; m++) scale = fmax(scale, fabs((double)x[m]));
                TC_STATUS(pu__fourier_gram(&op, w, k, tc_block(x, ld), tc_block(y, ld), add, tc_reals(k * op.work)), PU_OK);
                for (j = 0; j < k; j++) {
                    for (m = 0; m < 2 * D; m++) {
                        t[m] = 0;
                        for (d = 0; d < D; d++) t[m] += a[m * D + d] * (double)x[j * ld + d];
                        t[m] *= (double)w[m];
                    }
                    for (d = 0; d < D; d++) {
                        double want = add ? (double)before[j * ld + d] : 0;
                        for (m = 0; m < 2 * D; m++) want += a[m * D + d] * t[m];
                        /* two unitary transforms of numbers up to |w| sqrt(D) |x|, in pairs; at most that in any entry */
                        TC_CLOSE(y[j * ld + d], want,
                                 2 * allowed(D) * heaviest * scale * sqrt((double)D) + PU_TEST_EPS * (fabs(want) + 4));
                    }
                    for (d = D; d < ld; d++)
                        TC_ASSERT(memcmp(&y[j * ld + d], &before[j * ld + d], sizeof(pu_real)) == 0);
                }
                tc_release_to(mark);
            }
    PASS();
}

/* pu__fourier_gram_pairs against pu__fourier_gram: the product with and without c (a zero: column not touched), added or
   not, and the two sums */
TEST gram_of_pairs_is_gram_and_more(const shape *size)
{
    enum { K = 3 };
    pu_fourier *f = plan_2d(size->rows, size->cols);
    pu_int D = size->rows * size->cols, ld = D + 3, j, d;
    int kind, add, scaled, same, dry;
    TC_ASSERT(f != NULL);
    for (kind = 0; kind < 2; kind++)
        for (add = 0; add < 2; add++)
            for (scaled = 0; scaled < 3; scaled++)
                for (same = 0; same < 2; same++)
                    for (dry = 0; dry < 2; dry++) {
                        size_t mark = tc_kept_count;
                        const pu_real some[2][K] = {{PU_R(0.5), PU_R(-2), PU_R(3)}, {PU_R(0), PU_R(-2), PU_R(0)}};
                        const pu_real *c = scaled ? some[scaled - 1] : NULL;
                        pu_real *w = tc_random_positive(51, 2 * D), *a = tc_random_positive(52, D), *p = tc_normal(53, ld * K);
                        pu_real *q = same ? p : tc_normal(54, ld * K), *y = tc_normal(55, ld * K), *was = tc_normal(55, ld * K);
                        pu_real *z = tc_reals(ld * K);
                        const pu_block none = {NULL, 0};
                        double s[K], t[K], limit = 0;
                        pu__pairs pairs;
                        pu_op op = pu_op_fourier(f);
                        pu_real *made = tc_reals(pu__fourier_gram_size(&op)), *work = tc_reals(op.work);
                        tc_set_case("%d x %d, weights %d, add %d, c %d, same %d, dry %d", (int)size->rows, (int)size->cols, kind,
                                    add, scaled, same, dry);
                        for (d = 0; d < D && kind; d++) w[D + d] = w[d];
                        TC_STATUS(pu__fourier_gram(&op, w, K, tc_block(p, ld), tc_block(z, ld), 0, work), PU_OK);
                        for (d = 0; d < ld && scaled == 2; d++) p[d] = p[2 * ld + d] = (pu_real)NAN; /* not read */
                        pu__fourier_gram_make(&op, w, made);
                        pairs.k = K;
                        pairs.c = c;
                        pairs.P = tc_block(p, ld);
                        pairs.Q = tc_block(q, ld);
                        pairs.Y = dry ? none : tc_block(y, ld);
                        pairs.weight = NULL;
                        TC_STATUS(pu__fourier_gram_pairs(&op, made, a, &pairs, add, s, t, work), PU_OK);
                        for (j = 0; j < K; j++) {
                            const double cj = c ? (double)c[j] : 1;
                            double want_s = 0, want_t = 0, sizes[2] = {0, 0};
                            for (d = 0; d < D; d++) limit = fmax(limit, fabs((double)z[j * ld + d]));
                            for (d = 0; d < D && cj != 0; d++) {
                                const double zi = (double)z[j * ld + d], ap = (double)a[d] * (double)p[j * ld + d];
                                const double qi = (double)q[j * ld + d];
                                want_s += qi * zi, want_t += qi * ap;
                                sizes[0] += fabs(qi) * (limit + fabs(zi)), sizes[1] += fabs(qi * ap);
                            }
                            TC_CLOSE(s[j], want_s, allowed(D) * sizes[0]);
                            TC_CLOSE(t[j], want_t, allowed(D) * sizes[1]);
                            for (d = 0; d < ld; d++) {
                                const double before = (double)was[j * ld + d], zi = (double)z[j * ld + d];
                                if (dry || cj == 0 || d >= D) {
                                    TC_ASSERT(memcmp(&y[j * ld + d], &was[j * ld + d], sizeof(pu_real)) == 0);
                                    continue;
                                }
                                TC_CLOSE(y[j * ld + d],
                                         (add ? before : 0) + cj * (zi + (double)a[d] * (double)p[j * ld + d]),
                                         allowed(D) * fabs(cj) * (limit + 1) + 8 * PU_TEST_EPS * (fabs(before) + fabs(cj) * 4));
                            }
                        }
                        tc_release_to(mark);
                    }
    PASS();
}

/* ---- sparse Bayesian learning: the operator in a whole gradient ------------------------------ */

static double total(pu_int n, const pu_real *x, double *size)
{
    double sum = 0;
    pu_int i;
    for (*size = 0, i = 0; i < n; i++) sum += (double)x[i], *size += fabs((double)x[i]);
    return sum;
}

/* psi tied: the sum of its gradient and of each replicate, and all else, as without; warm or cold start; one datum
   has observed nothing */
TEST tied_psi_is_the_sum(int warm, int fused)
{
    enum { R = 5, C = 6, D = R * C, M = 2 * D, N = 3, K = 4, I = 5 };
    pu_fourier *f = plan_2d(R, C);
    pu_real *alpha = tc_random_positive(41, D), *psi = tc_reals(M), *y = tc_normal(43, N * M),
            *x0 = tc_normal(45, N * (K + 1) * D);
    pu_real *Gamma_grad[2], *psi_grad[2], *replicates[2];
    unsigned char *mask = (unsigned char *)tc_bytes(N * M);
    pu_op Gamma = pu_op_diagonal(D, alpha), Phi;
    pu_lgm lgm;
    pu_data data;
    pu_options options;
    pu_report report;
    pu_workspace ws = tc_workspace();
    pu_gradient_result out;
    double sums[2], size, tolerance = (2 * I + 1) * allowed(D);
    pu_int i, n, g;
    int tied;
    TC_ASSERT(f != NULL);
    Phi = pu_op_fourier(f);
    if (!fused) Gamma = pu_op_scaled_identity(D, alpha); /* no prior that the transform takes along */
    for (i = 0; i < M; i++) psi[i] = PU_R(2.5);
    for (n = 1; n < N; n++) /* the first datum has nothing */
        for (i = 0; i < M; i++) mask[n * M + i] = tc_hash((uint64_t)(n * M + i)) % 3 != 0; /* also half a frequency */
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma, lgm.Phi = &Phi, lgm.psi = psi;
    data = pu_data_masked(N, M, y, mask);
    memset(&options, 0, sizeof options);
    options.samples = K, options.solve.iterations = I, options.solve.solver = PU_PCG, options.x0 = warm ? x0 : NULL,
    options.threads = 1;
    for (tied = 0; tied < 2; tied++) {
        options.tied_psi = tied;
        memset(&out, 0, sizeof out);
        out.Gamma = Gamma_grad[tied] = tc_reals(D), out.psi = psi_grad[tied] = tc_reals(M);
        out.replicates = replicates[tied] = tc_reals(K * (D + M));
        TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &out, &report), PU_OK);
        TC_ASSERT(report.groups == K);
    }
    PU_CHECK_VECTOR(Gamma.params, Gamma_grad[1], Gamma_grad[0], tolerance);
    for (g = -1; g < K; g++) {
        for (tied = 0; tied < 2; tied++)
            sums[1 - tied] = total(M, g < 0 ? psi_grad[1 - tied] : replicates[1 - tied] + g * (Gamma.params + M) + Gamma.params, &size);
        tc_set_case("warm %d, replicate %d", warm, (int)g);
        TC_CLOSE(sums[1], sums[0], tolerance * size);
    }
    psi[7] = PU_R(2.25);
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &out, &report), PU_E_ARGUMENT);
    TC_ASSERT(report.where.index == 7 && tc_named(report.where.what, "model.psi"));
    PASS();
}

typedef struct {
    pu_int rows, cols;
    pu_solver solver;
    pu_int columns;
} sbl_case;

TEST gradient_is_that_of_the_matrix(const sbl_case *t)
{
    pu_int D = t->rows * t->cols, M = 2 * D, N = 3, K = 4, I = 6, n, i;
    pu_fourier *f = plan_2d(t->rows, t->cols);
    double *a = dense_matrix(t->rows, t->cols), tolerance, error;
    pu_real *phi = tc_reals(M * D), *alpha = tc_random_positive(41, D), *psi = tc_reals(M);
    pu_real *y = tc_normal(43, N * M), *delta = tc_normal(44, N * K * D);
    unsigned char *mask = (unsigned char *)tc_bytes((size_t)(N * M));
    pu_op Gamma = pu_op_diagonal(D, alpha), fast, dense = pu_op_dense(M, D, phi);
    pu_lgm lgm;
    pu_data data;
    pu_options options;
    pu_report report;
    pu_workspace ws = tc_workspace(), ws2 = tc_workspace();
    tc_outputs o1, o2, o3;
    tc_set_case("%d x %d, solver %d", (int)t->rows, (int)t->cols, (int)t->solver);
    TC_ASSERT(f != NULL);
    fast = pu_op_fourier(f);
    for (i = 0; i < M * D; i++) phi[i] = (pu_real)a[i];
    for (i = 0; i < M; i++) psi[i] = PU_R(2.5);
    for (n = 0; n < N; n++)
        for (i = 0; i < D; i++) /* about a third of the frequencies is not sampled */
            mask[n * M + i] = mask[n * M + D + i] = tc_hash((uint64_t)(n * D + i)) % 3 != 0;
    memset(&lgm, 0, sizeof lgm);
    lgm.Gamma = &Gamma, lgm.psi = psi;
    data = pu_data_masked(N, M, y, mask);
    memset(&options, 0, sizeof options);
    options.samples = K, options.delta = delta, options.columns = t->columns;
    options.solve.solver = t->solver, options.solve.iterations = I;
    options.threads = 1;
    lgm.Phi = &dense;
    o1 = tc_make_outputs(&lgm, N, K, I);
    o1.out.Phi = NULL;    /* the fast operator has none */
    o1.out.logdet = NULL; /* CG and PCG only */
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws, &o1.out, &report), PU_OK);
    lgm.Phi = &fast;
    o2 = tc_make_outputs(&lgm, N, K, I);
    o2.out.logdet = NULL;
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws2, &o2.out, &report), PU_OK);
    /* A is well conditioned (alpha and psi within 1/5 .. 5): the difference of each step is a few
       times that of a product, and steps add up */
    tolerance = (double)(2 * I + 1) * allowed(D);
    error = pu_test_relerr(D, o2.out.Gamma, o1.out.Gamma);
    error = fmax(error, pu_test_relerr(M, o2.out.psi, o1.out.psi));
    note(&worst_gradient, error / tolerance);
    PU_CHECK_VECTOR(D, o2.out.Gamma, o1.out.Gamma, tolerance);
    PU_CHECK_VECTOR(M, o2.out.psi, o1.out.psi, tolerance);
    PU_CHECK_VECTOR(M, o2.out.eta, o1.out.eta, tolerance);
    PU_CHECK_VECTOR(D, o2.out.nu, o1.out.nu, tolerance);
    PU_CHECK_VECTOR(N * (K + 1) * D, o2.out.x, o1.out.x, tolerance);
    TC_ASSERT(tc_gaps_untouched(&o2));
    /* threads share the plan: the same bits */
    options.threads = 3;
    o3 = tc_make_outputs(&lgm, N, K, I);
    o3.out.logdet = NULL;
    TC_STATUS(pu_gradient(&lgm, &data, &options, &ws2, &o3.out, &report), PU_OK);
    TC_ASSERT(memcmp(o3.out.Gamma, o2.out.Gamma, (size_t)D * sizeof(pu_real)) == 0);
    TC_ASSERT(memcmp(o3.out.psi, o2.out.psi, (size_t)M * sizeof(pu_real)) == 0);
    TC_ASSERT(memcmp(o3.out.x, o2.out.x, (size_t)(N * (K + 1) * D) * sizeof(pu_real)) == 0);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    /* prime factors up to 61 directly, 67 and above by convolution; 1 x n, n x 1, strips with a rest */
    static const pu_int lengths[] = {67, 81, 100, 121, 125, 127, 128, 134, 243, 360, 512, 625, 1009, 1024, 2001};
    static const shape images[] = {{1, 1},  {1, 7},   {7, 1},   {2, 2},   {3, 4},    {4, 3},    {8, 8},
                                   {5, 17}, {17, 16}, {33, 31}, {67, 9},  {100, 75}, {128, 128}, {1, 127},
                                   {2, 71}, {64, 1},  {16, 48}, {127, 3}, {128, 5},  {5, 128},  {128, 19},
                                   {3, 512}, {512, 3}};
    static const shape operators[] = {{1, 1}, {1, 2},  {2, 1},  {1, 9}, {7, 1},   {3, 4},  {4, 3},
                                      {5, 6}, {8, 8}, {1, 67}, {9, 17}, {2, 2}, {128, 3}, {3, 128}};
    static const sbl_case models[] = {{3, 4, PU_CG, 0},  {4, 3, PU_CG, 0}, {4, 3, PU_PCG, 0}, {4, 3, PU_SD, 2},
                                      {8, 8, PU_CG, 0},  {8, 8, PU_CG, 3}, {8, 8, PU_PCG, 1}, {1, 15, PU_CG, 0}};
    pu_int n;
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(release, NULL);
    for (n = 1; n <= 64; n++) RUN_TESTp(one_dimension, n);
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) RUN_TESTp(one_dimension, lengths[i]);
    RUN_TEST(inverse_of_a_peak_is_a_wave);
    for (i = 0; i < sizeof images / sizeof images[0]; i++) RUN_TESTp(two_dimensions, &images[i]);
    RUN_TEST(memory_of_any_alignment);
    RUN_TEST(scratch_of_any_alignment);
    RUN_TEST(freeing_empties);
    RUN_TEST(refusals);
    for (i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        RUN_TESTp(apply_is_the_matrix, &operators[i]);
        RUN_TESTp(transpose_is_the_adjoint, &operators[i]);
        RUN_TESTp(gram_diag_is_the_diagonal, &operators[i]);
        RUN_TESTp(gram_is_the_product, &operators[i]);
        RUN_TESTp(gram_of_pairs_is_gram_and_more, &operators[i]);
    }
    for (i = 0; i < sizeof models / sizeof models[0]; i++) {
        RUN_TESTp(gradient_is_that_of_the_matrix, &models[i]);
    }
    RUN_TESTp(tied_psi_is_the_sum, 0, 0);
    RUN_TESTp(tied_psi_is_the_sum, 0, 1);
    RUN_TESTp(tied_psi_is_the_sum, 1, 0);
    RUN_TESTp(tied_psi_is_the_sum, 1, 1);
    printf("worst error / allowed: forward %.2g, round trip %.2g, apply %.2g, gram_diag %.2g, gradient %.2g\n",
           worst_forward, worst_round, worst_apply, worst_gram, worst_gradient);
    PU_TEST_MAIN_END();
}

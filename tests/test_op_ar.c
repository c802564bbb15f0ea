/* test_op_ar.c - the autoregressive precision against matrices built from its definition in double,
   and those against the inverse of the process's autocovariances. */
#define PU_IMPLEMENTATION /* the fused products are private */
#include "pu_test.h"
#include "test_common.h"

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct {
    pu_int n, P;
    double spread; /* gamma = tanh(spread * normal) */
} ar_case;

static const ar_case ar_cases[] = {
    {1, 0, 0},     {7, 0, 0},     {1, 1, 0.8},   {2, 1, 0.8},   {3, 1, 0.8},    {34, 1, 0.8},
    {2, 2, 0.8},   {3, 2, 0.8},   {4, 2, 0.8},   {5, 2, 0.8},   {12, 2, 0.8},   {3, 3, 0.6},
    {6, 3, 0.6},   {41, 3, 0.6},  {5, 5, 0.5},   {7, 5, 0.5},   {9, 5, 0.5},    {10, 5, 0.5},
    {11, 5, 0.5},  {75, 5, 0.5},  {33, 8, 0.4},  {32, 32, 0.1}, {45, 32, 0.1},  {63, 32, 0.1},
    {64, 32, 0.1}, {65, 32, 0.1}, {131, 32, 0.1}, {1, 1, 2.5},   {23, 2, 1.5},   {1067, 3, 0.5},
    {577, 5, 0.4},
    /* orders that need memory of the caller's: n = P, the two ends overlap, meet, are apart */
    {33, 33, 0.1}, {50, 33, 0.1}, {66, 33, 0.1}, {140, 33, 0.1}, {64, 64, 0.05}, {127, 64, 0.05},
    {128, 64, 0.05}, {150, 64, 0.05}, {168, 168, 0.02}, {190, 168, 0.02}, {350, 168, 0.02},
};
enum { MOST = 168 };

#define AR_CASES (sizeof ar_cases / sizeof ar_cases[0])

typedef struct {
    pu_int n, P;
    pu_real gamma[MOST], kappa;
    double theta[MOST + 1]; /* gamma, kappa */
    pu_ar ar;
    pu_op op;
    pu_real *work;
} fixture;

/* The next parameter whose gradient is looked at: of large orders some, and the last ones. */
static pu_int after(const fixture *f, pu_int i)
{
    return f->P <= PU_AR_MAX || i >= f->P - 1 ? i + 1 : i + 40 < f->P - 1 ? i + 40 : f->P - 1;
}

/* *ar with memory for this order, every byte of which is accounted for. */
static void lend(pu_ar *ar, pu_int order)
{
    size_t bytes = 7;
    if (pu_ar_bytes(order, &bytes) != PU_OK || (bytes > 0) != (order > PU_AR_MAX)) exit(2);
    if (bytes && pu_ar_memory(ar, tc_bytes(bytes), bytes) != PU_OK) exit(2);
}

static uint64_t next_seed = 1;

static fixture *build(const ar_case *c)
{
    fixture *f = (fixture *)tc_bytes(sizeof *f);
    pu_real *z = tc_normal(++next_seed, c->P + 1);
    pu_int i;
    tc_set_case("n %d P %d", (int)c->n, (int)c->P);
    f->n = c->n;
    f->P = c->P;
    for (i = 0; i < c->P; i++) f->gamma[i] = (pu_real)tanh(c->spread * (double)z[i]);
    f->kappa = (pu_real)exp(0.5 * (double)z[c->P]);
    for (i = 0; i < c->P; i++) f->theta[i] = (double)f->gamma[i];
    f->theta[c->P] = (double)f->kappa;
    lend(&f->ar, c->P);
    if (pu_ar_set(&f->ar, c->n, c->P, f->gamma, f->kappa, NULL) != PU_OK) exit(2);
    f->op = pu_op_ar(&f->ar);
    f->work = tc_reals(f->op.work + 1);
    return f;
}

/* ---- the matrix, by the definition ----------------------------------------------------------- */

/* phi^(m) from phi^(m-1) as textbooks write it; phi[0] is phi_1. With `absolute` every difference
   becomes a sum: a bound on what the recursion adds up. */
static void durbin_levinson(pu_int order, const double *gamma, int absolute, double *phi)
{
    double old[MOST];
    pu_int m, j;
    for (m = 1; m <= order; m++) {
        double g = absolute ? -fabs(gamma[m - 1]) : gamma[m - 1];
        for (j = 1; j < m; j++) old[j] = phi[j - 1];
        for (j = 1; j < m; j++) phi[j - 1] = old[j] - g * old[m - j];
        phi[m - 1] = g;
    }
}

/* a += scale * u u', u the errors' row at time t of a predictor of this order, cut off at the
   matrix's border. */
static void add_row(pu_int n, pu_int t, pu_int order, const double *phi, double scale, double *a)
{
    pu_int i, j;
    for (i = 0; i <= order; i++) {
        for (j = 0; j <= order; j++) {
            double ci = i ? -phi[i - 1] : 1, cj = j ? -phi[j - 1] : 1;
            pu_int r = t - i, c = t - j;
            if (r >= 0 && c >= 0 && r < n && c < n) a[r * n + c] += scale * ci * cj;
        }
    }
}

/* Gamma = sum_t e_t e_t' / var_t, the errors e_t of predicting z_t from min(t, P) predecessors,
   their variance kappa / prod_{i > t} (1 - gamma_i^2). absolute = 1: the sums without cancellation;
   absolute = 2: with what a gradient by lag sums adds and takes off at the ends, too. */
static double *precision(pu_int n, pu_int P, const double *theta, int absolute)
{
    double *a = tc_doubles(n * n), phi[MOST];
    pu_int t, i;
    for (t = 0; t < n; t++) {
        pu_int m = t < P ? t : P;
        double inverse = 1 / theta[P];
        for (i = m; i < P; i++) {
            double g = theta[i];
            inverse *= absolute == 2 ? 1 + g * g : (1 - g) * (1 + g);
        }
        if (t <= P) durbin_levinson(m, theta, absolute, phi);
        add_row(n, t, m, phi, inverse, a);
    }
    if (absolute == 2) {
        durbin_levinson(P, theta, 1, phi);
        for (t = 0; t < n + P; t++) add_row(n, t, P, phi, 2 / theta[P], a);
    }
    return a;
}

/* A bound on the terms of either form of Gamma: from the first entry on, and from the last one
   back. */
static double *size_of(const fixture *f)
{
    double *a = precision(f->n, f->P, f->theta, 1), *size = tc_doubles(f->n * f->n);
    pu_int i, n2 = f->n * f->n;
    for (i = 0; i < n2; i++) size[i] = a[i] + a[n2 - 1 - i];
    return size;
}

/* d Gamma / d theta_i. Gamma is quadratic in each gamma_i, so a wide central difference is exact;
   and it is linear in 1 / kappa. */
static double *slope(const fixture *f, pu_int i, int absolute)
{
    double theta[MOST + 1], h = 0.25, *up, *down;
    pu_int l, n2 = f->n * f->n;
    for (l = 0; l <= f->P; l++) theta[l] = absolute ? fabs(f->theta[l]) : f->theta[l];
    if (i == f->P) {
        up = precision(f->n, f->P, theta, absolute);
        for (l = 0; l < n2; l++) up[l] *= (absolute ? 1 : -1) / theta[i];
        return up;
    }
    theta[i] += h;
    up = precision(f->n, f->P, theta, absolute);
    theta[i] -= 2 * h;
    down = precision(f->n, f->P, theta, absolute);
    for (l = 0; l < n2; l++) up[l] = (up[l] - down[l]) / (2 * h);
    return up;
}

/* Roundings that an entry of a result may pass: the recursion, the taps, and a few more. */
static double roundings(const fixture *f)
{
    return 4 * (double)f->P + 16;
}

static double norm(pu_int n, const double *a)
{
    double largest = 0;
    pu_int i, j;
    for (i = 0; i < n; i++) {
        double sum = 0;
        for (j = 0; j < n; j++) sum += fabs(a[i * n + j]);
        if (sum > largest) largest = sum;
    }
    return largest;
}

/* ---- the oracle: autocovariances ------------------------------------------------------------- */

/* Gaussian elimination with row pivoting; b becomes the solution. */
static void eliminate(pu_int n, double *a, double *b)
{
    pu_int i, j, l;
    for (j = 0; j < n; j++) {
        pu_int pivot = j;
        double swap;
        for (i = j; i < n; i++) {
            if (fabs(a[i * n + j]) > fabs(a[pivot * n + j])) pivot = i;
        }
        for (l = 0; l < n; l++) {
            swap = a[j * n + l], a[j * n + l] = a[pivot * n + l], a[pivot * n + l] = swap;
        }
        swap = b[j], b[j] = b[pivot], b[pivot] = swap;
        for (i = j + 1; i < n; i++) {
            double factor = a[i * n + j] / a[j * n + j];
            for (l = j; l < n; l++) a[i * n + l] -= factor * a[j * n + l];
            b[i] -= factor * b[j];
        }
    }
    for (i = n - 1; i >= 0; i--) {
        for (j = i + 1; j < n; j++) b[i] -= a[i * n + j] * b[j];
        b[i] /= a[i * n + i];
    }
}

/* c_0 .. c_{count-1} of the process: Yule-Walker, c_k = sum_j phi_j c_|k-j| + (k == 0) kappa. */
static double *autocovariances(pu_int P, const pu_real *phi, double kappa, pu_int count)
{
    pu_int k, j, room = count > P + 1 ? count : P + 1;
    double *a = tc_doubles((P + 1) * (P + 1)), *c = tc_doubles(room);
    c[0] = kappa;
    for (k = 0; k <= P; k++) {
        a[k * (P + 1) + k] += 1;
        for (j = 1; j <= P; j++) a[k * (P + 1) + (k > j ? k - j : j - k)] -= (double)phi[j - 1];
    }
    eliminate(P + 1, a, c);
    for (k = P + 1; k < count; k++) {
        for (j = 1; j <= P; j++) c[k] += (double)phi[j - 1] * c[k - j];
    }
    return c;
}

static double *toeplitz(pu_int n, const double *c)
{
    double *q = tc_doubles(n * n);
    pu_int i, j;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) q[i * n + j] = c[i > j ? i - j : j - i];
    }
    return q;
}

/* The operator's own matrix, column by column. */
static double *matrix_of(const pu_op *op)
{
    pu_int i, n = op->rows;
    pu_block E = tc_block(tc_reals(n * n), n), Y = tc_block(tc_reals(n * n), n);
    double *a = tc_doubles(n * n);
    for (i = 0; i < n; i++) E.at[i * n + i] = PU_R(1);
    if (op->apply(op, n, E, Y, 0, NULL) != PU_OK) exit(2);
    for (i = 0; i < n * n; i++) a[i] = (double)Y.at[i];
    return a;
}

/* Gamma times the covariance is I, both for the operator and for the matrix the other tests use;
   and gamma_k is the last coefficient of the best predictor from k predecessors. phi is rounded,
   and rounding passes through the inverse: hence the condition number. */
TEST precision_inverts_the_autocovariances(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, j, k, n = f->n;
    double *cov = autocovariances(f->P, f->ar.phi, f->theta[f->P], n + f->P + 1);
    double *Q = toeplitz(n, cov), *product = tc_doubles(n * n), *sides[2], tol;
    sides[0] = matrix_of(&f->op);
    sides[1] = precision(n, f->P, f->theta, 0);
    tol = 4 * roundings(f) * PU_TEST_EPS * norm(n, size_of(f)) * norm(n, Q);
    for (k = 0; k < 2; k++) {
        tc_matmul(n, n, n, sides[k], Q, product);
        for (i = 0; i < n; i++) {
            for (j = 0; j < n; j++) TC_CLOSE(product[i * n + j], i == j, tol);
        }
    }
    for (k = 1; k <= f->P; k = after(f, k)) {
        double *b = tc_doubles(k);
        for (i = 0; i < k; i++) b[i] = cov[i + 1];
        eliminate(k, toeplitz(k, cov), b);
        TC_CLOSE(b[k - 1], f->gamma[k - 1], tol);
    }
    PASS();
}

/* Numbers of an independent program: P = 2, 5 with kappa = exp(1/2). */
TEST golden_numbers(void)
{
    static const double gamma2[2] = {0.59435226893744741, 0.037202780365214433};
    static const double row2[4][4] = {
        {0.60653065971263342, -0.34708153657385588, -0.022564626918057714, 0},
        {-0.34708153657385588, 0.8051448453294725, -0.33416913839987755, -0.022564626918057714},
        {-0.022564626918057714, -0.33416913839987755, 0.80598431218872801, -0.33416913839987755},
        {0, -0.022564626918057714, -0.33416913839987755, 0.80598431218872801}};
    static const double gamma5[5] = {-0.090582806723964154, -0.061439684521275031,
                                     0.013480933335494091, 0.38385276103343269,
                                     0.30476077776780369};
    static const double phi5[5] = {-0.21747788098395593, -0.052316557548594621,
                                   0.061363348401040727, 0.41447957805715457, 0.30476077776780369};
    static const double start5[3][5] = {
        {0.90712086833436345, 0.091160762406386375, 0.033615415763456738, -0.045419313632396957,
         -0.34820084990119032},
        {0.091160762406386375, 0.78262417642519833, 0.077104601728992417, 0.041954389481262525,
         -0.045419313632396971},
        {0.033615415763456738, 0.077104601728992417, 0.78159573809194627, 0.077104601728992417,
         0.033615415763456738}};
    double tol = 16 * PU_TEST_EPS, *a, value;
    pu_real gamma[5], kappa = (pu_real)exp(0.5);
    pu_ar ar;
    pu_op op;
    pu_int i, j;
    tc_set_case("P 2, n 12");
    for (i = 0; i < 2; i++) gamma[i] = (pu_real)gamma2[i];
    TC_STATUS(pu_ar_set(&ar, 12, 2, gamma, kappa, NULL), PU_OK);
    op = pu_op_ar(&ar);
    a = matrix_of(&op);
    for (i = 0; i < 4; i++) {
        for (j = 0; j < 4; j++) {
            TC_CLOSE(a[i * 12 + j], row2[i][j], tol);
            TC_CLOSE(a[(11 - i) * 12 + 11 - j], row2[i][j], tol);
        }
    }
    TC_STATUS(op.logdet(&op, &value, NULL), PU_OK);
    TC_CLOSE(value, -6.4385726118074897, 12 * tol);
    tc_set_case("P 5, n 5"); /* the first P states alone: precision Dm / kappa */
    for (i = 0; i < 5; i++) gamma[i] = (pu_real)gamma5[i];
    TC_STATUS(pu_ar_set(&ar, 5, 5, gamma, kappa, NULL), PU_OK);
    op = pu_op_ar(&ar);
    a = matrix_of(&op);
    for (i = 0; i < 3; i++) {
        for (j = 0; j < 5; j++) {
            TC_CLOSE(exp(0.5) * a[i * 5 + j], start5[i][j], tol);
            TC_CLOSE(exp(0.5) * a[(4 - i) * 5 + 4 - j], start5[i][j], tol);
        }
    }
    for (i = 0; i < 5; i++) TC_CLOSE(ar.phi[i], phi5[i], tol);
    TC_STATUS(pu_ar_set(&ar, 12, 5, gamma, kappa, NULL), PU_OK);
    op = pu_op_ar(&ar);
    TC_STATUS(op.logdet(&op, &value, NULL), PU_OK);
    TC_CLOSE(value, -7.1413376036620697, 12 * tol);
    PASS();
}

/* ---- apply ----------------------------------------------------------------------------------- */

TEST check_apply(const fixture *f, pu_int k, pu_int pad, int add, const double *a,
                 const double *size)
{
    pu_int i, j, n = f->n;
    pu_block X = tc_random_block(&next_seed, n, k, n + pad), Y = tc_random_block(&next_seed, n, k, n + pad), before;
    double *want = tc_doubles(n), *bound = tc_doubles(n), unit = roundings(f) * PU_TEST_EPS;
    before = tc_block(tc_reals(Y.ld * (k - 1) + n), Y.ld);
    memcpy(before.at, Y.at, (size_t)(Y.ld * (k - 1) + n) * sizeof *Y.at);
    for (j = 0; !add && j < k; j++) tc_fill(n, Y.at + j * Y.ld, PU_R(NAN));
    TC_ASSERT((k % 2 ? f->op.apply : f->op.apply_t)(&f->op, k, X, Y, add, f->work) == PU_OK);
    for (j = 0; j < k; j++) {
        double *x = tc_column(X, n, j);
        tc_matvec(n, n, a, x, want);
        for (i = 0; i < n; i++) x[i] = fabs(x[i]);
        tc_matvec(n, n, size, x, bound);
        for (i = 0; i < n; i++) {
            double base = add ? (double)before.at[j * Y.ld + i] : 0;
            TC_CLOSE(Y.at[j * Y.ld + i], base + want[i], unit * (bound[i] + fabs(base)));
        }
        for (i = n; j + 1 < k && i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

TEST apply_is_the_matrix(const ar_case *c)
{
    fixture *f = build(c);
    double *a = precision(f->n, f->P, f->theta, 0), *size = size_of(f);
    size_t mark = tc_kept_count;
    pu_int k, pad;
    int add;
    for (k = 1; k <= (f->n > 200 ? 2 : 9); k++) {
        for (pad = 0; pad <= 3; pad += 3) {
            for (add = 0; add <= 1; add++) {
                tc_set_case("n %d P %d k %d pad %d add %d", (int)f->n, (int)f->P, (int)k, (int)pad,
                            add);
                CHECK_CALL(check_apply(f, k, pad, add, a, size));
                tc_release_to(mark);
            }
        }
    }
    PASS();
}

/* <y, Gamma x> = <Gamma y, x> */
TEST apply_is_symmetric(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, l, n = f->n;
    pu_block X = tc_random_block(&next_seed, n, 2, n), Y = tc_block(tc_reals(2 * n), n);
    double left = 0, right = 0, bound = 0, *size = size_of(f);
    TC_ASSERT(f->op.apply(&f->op, 2, X, Y, 0, f->work) == PU_OK);
    for (i = 0; i < n; i++) {
        left += (double)X.at[i] * (double)Y.at[n + i];
        right += (double)X.at[n + i] * (double)Y.at[i];
        for (l = 0; l < n; l++) {
            bound += fabs((double)X.at[i]) * size[i * n + l] * fabs((double)X.at[n + l]);
        }
    }
    TC_CLOSE(left, right, 2 * roundings(f) * PU_TEST_EPS * bound);
    PASS();
}

/* ---- grad ------------------------------------------------------------------------------------ */

static double bilinear(pu_int n, const double *a, pu_int k, pu_block P, pu_block Q,
                       const pu_real *weight, int absolute)
{
    double total = 0;
    pu_int i, j, l;
    for (j = 0; j < k; j++) {
        for (i = 0; i < n; i++) {
            double row = 0, pw = (double)weight[j] * (double)P.at[j * P.ld + i];
            for (l = 0; l < n; l++) {
                double q = (double)Q.at[j * Q.ld + l];
                row += a[i * n + l] * (absolute ? fabs(q) : q);
            }
            total += absolute ? fabs(pw) * row : pw * row;
        }
    }
    return total;
}

/* 40: the roundings of a lag sum, 32 in each of 16 lanes and 4 when these are added. */
TEST check_grad(const fixture *f, pu_int k, pu_block P, pu_block Q, const pu_real *weight)
{
    pu_int i, params = f->P + 1;
    pu_real *before = tc_normal(++next_seed, params), *grad = tc_reals(params);
    double unit = (roundings(f) + 40) * PU_TEST_EPS;
    memcpy(grad, before, (size_t)params * sizeof *grad);
    TC_ASSERT(f->op.grad(&f->op, k, P, Q, weight, grad, f->work) == PU_OK);
    for (i = 0; i < params; i = after(f, i)) {
        size_t mark = tc_kept_count;
        double base = (double)before[i];
        double want = bilinear(f->n, slope(f, i, 0), k, P, Q, weight, 0);
        double size = bilinear(f->n, slope(f, i, 2), k, P, Q, weight, 1);
        TC_CLOSE(grad[i], base + want, unit * (size + fabs(base)));
        tc_release_to(mark);
    }
    PASS();
}

/* Y = Gamma X + w o X, Y += that, and x'y, against apply, which is tested above */
TEST check_apply_plus(const fixture *f, pu_int k, int add, int with_w)
{
    const pu_int n = f->n;
    pu_block X = tc_random_block(&next_seed, n, k, n + 3), Y = tc_random_block(&next_seed, n, k, n + 3);
    pu_block want = tc_block(tc_reals(Y.ld * k), Y.ld);
    pu_real *w = with_w ? tc_normal(++next_seed, n) : NULL, *s = tc_reals(k);
    double *size = size_of(f), *bound = tc_doubles(n), unit = (roundings(f) + 3) * PU_TEST_EPS;
    pu_int i, j;
    for (j = 0; j < k; j++) memcpy(want.at + j * Y.ld, Y.at + j * Y.ld, (size_t)n * sizeof *Y.at);
    TC_ASSERT(f->op.apply(&f->op, k, X, want, add, f->work) == PU_OK);
    TC_ASSERT(pu__ar_apply_plus(&f->op, w, k, X, Y, add, add ? NULL : s) == PU_OK);
    for (j = 0; j < k; j++) {
        double *x = tc_column(X, n, j), dot = 0, sum = 0;
        for (i = 0; i < n; i++) x[i] = fabs(x[i]);
        tc_matvec(n, n, size, x, bound);
        for (i = 0; i < n; i++) {
            double wx = w ? (double)w[i] * (double)X.at[j * X.ld + i] : 0, y = (double)Y.at[j * Y.ld + i];
            TC_CLOSE(y, (double)want.at[j * Y.ld + i] + wx, unit * (bound[i] + fabs(wx) + fabs((double)want.at[j * Y.ld + i])));
            dot += (double)X.at[j * X.ld + i] * y, sum += x[i] * fabs(y);
        }
        if (!add) TC_CLOSE(s[j], dot, 40 * PU_TEST_EPS * sum);
    }
    PASS();
}

TEST apply_plus_adds_a_diagonal(const ar_case *c)
{
    fixture *f = build(c);
    int add, with_w;
    for (add = 0; add <= 1; add++)
        for (with_w = 0; with_w <= 1; with_w++) {
            tc_set_case("n %d P %d add %d w %d", (int)f->n, (int)f->P, add, with_w);
            CHECK_CALL(check_apply_plus(f, 3, add, with_w));
        }
    PASS();
}

/* pu__ar_grad_pairs for four pairs of columns */
static pu_status pairs(const fixture *f, const pu_real *w, const pu_real *c, pu_block P, pu_block Q, pu_block Y,
                       const pu_real *weight, pu_real *grad, double *s)
{
    pu__pairs of;
    of.k = 4;
    of.c = c;
    of.P = P;
    of.Q = Q;
    of.Y = Y;
    of.weight = weight;
    return pu__ar_grad_pairs(&f->op, w, &of, grad, s, f->work);
}

/* grad_pairs with c p in the place of p: grad's gradient, the weighted sum, and the product, which also a column of weight zero
   gets; c = 0 leaves everything as it was */
TEST grad_of_pairs_is_grad_and_apply(const ar_case *c)
{
    enum { K = 4 };
    fixture *f = build(c);
    const pu_int n = f->n, params = f->P + 1;
    pu_block P = tc_random_block(&next_seed, n, K, n + 2), Q = tc_random_block(&next_seed, n, K, n);
    pu_block Y = tc_random_block(&next_seed, n, K, n + 1), want = tc_block(tc_reals(Y.ld * K), Y.ld);
    pu_block cP = tc_block(tc_reals(n * K), n);
    pu_real *w = tc_normal(++next_seed, n), *weight = tc_normal(++next_seed, K), *by = tc_normal(++next_seed, K);
    pu_real *grad = tc_reals(params), *plus = tc_reals(params), *alone = tc_reals(params);
    double *size = size_of(f), *bound = tc_doubles(n), s[K], unit = (roundings(f) + 42) * PU_TEST_EPS;
    const pu_block none = {NULL, 0};
    pu_int i, j;
    tc_set_case("n %d P %d", (int)n, (int)f->P);
    weight[1] = by[3] = PU_R(0);
    for (i = 0; i < params; i++) grad[i] = plus[i] = alone[i] = PU_R(0);
    for (j = 0; j < K; j++) {
        memcpy(want.at + j * Y.ld, Y.at + j * Y.ld, (size_t)n * sizeof *Y.at);
        for (i = 0; i < n; i++) cP.at[j * n + i] = by[j] * P.at[j * P.ld + i];
    }
    TC_ASSERT(f->op.grad(&f->op, K, cP, Q, weight, grad, f->work) == PU_OK);
    TC_ASSERT(pairs(f, NULL, NULL, cP, Q, none, weight, alone, NULL) == PU_OK);
    TC_ASSERT(pu__ar_apply_plus(&f->op, w, K, cP, want, 1, NULL) == PU_OK);
    TC_ASSERT(pairs(f, w, by, P, Q, Y, weight, plus, s) == PU_OK);
    for (i = 0; i < params; i = after(f, i)) {
        size_t mark = tc_kept_count;
        double bar = unit * bilinear(n, slope(f, i, 2), K, cP, Q, weight, 1);
        TC_CLOSE(plus[i], grad[i], bar);
        TC_CLOSE(alone[i], grad[i], bar);
        tc_release_to(mark);
    }
    for (j = 0; j < K; j++) {
        double *p = tc_column(cP, n, j), sum = 0, total = 0;
        for (i = 0; i < n; i++) {
            const double term = (double)w[i] * (double)P.at[j * P.ld + i] * (double)Q.at[j * Q.ld + i];
            sum += term, total += fabs(term), p[i] = fabs(p[i]);
        }
        if (j != 1) TC_CLOSE(s[j], j == 3 ? 0 : sum, 40 * PU_TEST_EPS * total);
        tc_matvec(n, n, size, p, bound);
        for (i = 0; i < n; i++)
            TC_CLOSE(Y.at[j * Y.ld + i], want.at[j * Y.ld + i],
                     unit * (bound[i] + fabs((double)w[i]) * p[i] + fabs((double)want.at[j * Y.ld + i])));
    }
    PASS();
}

TEST grad_is_the_derivative(const ar_case *c)
{
    static const pu_int widths[] = {1, 2, 5};
    fixture *f = build(c);
    size_t w;
    for (w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        pu_int k = widths[w], pad = k == 2 ? 3 : 0;
        pu_real *weight = tc_normal(++next_seed, k);
        pu_block P = tc_random_block(&next_seed, f->n, k, f->n + pad), Q = tc_random_block(&next_seed, f->n, k, f->n + 2 * pad);
        if (k > 2) weight[1] = PU_R(0);
        tc_set_case("n %d P %d k %d", (int)f->n, (int)f->P, (int)k);
        CHECK_CALL(check_grad(f, k, P, Q, weight));
        tc_set_case("n %d P %d k %d, p = q", (int)f->n, (int)f->P, (int)k);
        CHECK_CALL(check_grad(f, k, P, P, weight));
        if (f->n > 200) break;
    }
    PASS();
}

/* ---- diag, sample, log det ------------------------------------------------------------------- */

TEST diag_is_the_diagonal(const ar_case *c)
{
    fixture *f = build(c);
    double *a = precision(f->n, f->P, f->theta, 0), *size = size_of(f);
    pu_int i, n = f->n;
    pu_real *y = tc_normal(++next_seed, n), *before = tc_reals(n);
    memcpy(before, y, (size_t)n * sizeof *y);
    TC_ASSERT(f->op.diag(&f->op, y, f->work) == PU_OK);
    for (i = 0; i < n; i++) {
        double base = (double)before[i];
        TC_CLOSE(y[i], base + a[i * n + i],
                 roundings(f) * PU_TEST_EPS * (size[i * n + i] + fabs(base)));
    }
    PASS();
}

/* Unit vectors in, so that F comes out; then F F' = Gamma. */
TEST sample_has_the_right_covariance(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, j, l, n = f->n;
    pu_block E = tc_block(tc_reals(n * n), n), Y = tc_random_block(&next_seed, n, n, n + 2);
    double *a = precision(n, f->P, f->theta, 0), *size = size_of(f), *ff = tc_doubles(n * n);
    for (i = 0; i < n; i++) E.at[i * n + i] = PU_R(1);
    TC_ASSERT(f->op.noise == 0);
    TC_ASSERT(f->op.sample(&f->op, n, E, Y, f->work) == PU_OK);
    for (l = 0; l < n; l++) {
        for (i = 0; i < n; i++) {
            double x = (double)Y.at[l * Y.ld + i];
            for (j = 0; x != 0 && j < n; j++) ff[i * n + j] += x * (double)Y.at[l * Y.ld + j];
        }
        for (i = n; l + 1 < n && i < Y.ld; i++) TC_ASSERT(isnan(Y.at[l * Y.ld + i]));
    }
    for (i = 0; i < n * n; i++) TC_CLOSE(ff[i], a[i], 2 * roundings(f) * PU_TEST_EPS * size[i]);
    PASS();
}

/* Gamma^-1 x = the process's covariance times x. The two sweeps are backward stable for X' and X, so that the error is
   that of Gamma passed through its inverse. */
TEST solve_is_the_covariance(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, j, n = f->n, k = 3;
    pu_block X = tc_random_block(&next_seed, n, k, n + 1), Y = tc_random_block(&next_seed, n, k, n + 2);
    double *Q = toeplitz(n, autocovariances(f->P, f->ar.phi, f->theta[f->P], n)), *want = tc_doubles(n), tol;
    TC_ASSERT(f->op.solve(&f->op, k, X, Y, f->work) == PU_OK);
    tol = 4 * roundings(f) * PU_TEST_EPS * norm(n, size_of(f)) * norm(n, Q);
    for (j = 0; j < k; j++) {
        double scale = 0;
        tc_matvec(n, n, Q, tc_column(X, n, j), want);
        for (i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
        for (i = 0; i < n; i++) TC_CLOSE(Y.at[j * Y.ld + i], want[i], tol * scale);
        for (i = n; j + 1 < k && i < Y.ld; i++) TC_ASSERT(isnan(Y.at[j * Y.ld + i]));
    }
    PASS();
}

/* gamma and kappa are exact doubles even in a float build, and so must be the value. */
TEST logdet_is_the_log_determinant(const ar_case *c)
{
    fixture *f = build(c);
    pu_int n = f->n;
    double *l = precision(n, f->P, f->theta, 0), *inverse = tc_doubles(n * n), got = -1, tol;
    tol = 4 * ((double)n + roundings(f)) * DBL_EPSILON * norm(n, l);
    TC_ASSERT(tc_cholesky(n, l));
    tc_inverse(n, l, inverse);
    TC_ASSERT(f->op.logdet(&f->op, &got, f->work) == PU_OK);
    TC_CLOSE(got, tc_logdet(n, l), tol * norm(n, inverse));
    PASS();
}

/* d log det / d theta_i = <Gamma^-1, d Gamma / d theta_i> */
TEST logdet_grad_is_the_derivative(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, j, n = f->n, params = f->P + 1;
    double *l = precision(n, f->P, f->theta, 0), *inverse = tc_doubles(n * n), condition;
    pu_real *before = tc_normal(++next_seed, params), *grad = tc_reals(params), w = PU_R(-0.75);
    condition = norm(n, l);
    TC_ASSERT(tc_cholesky(n, l));
    tc_inverse(n, l, inverse);
    condition *= norm(n, inverse);
    memcpy(grad, before, (size_t)params * sizeof *grad);
    TC_ASSERT(f->op.logdet_grad(&f->op, w, grad, f->work) == PU_OK);
    for (i = 0; i < params; i = after(f, i)) {
        size_t mark = tc_kept_count;
        double *d = slope(f, i, 0), want = 0, size = 0, base = (double)before[i];
        for (j = 0; j < n * n; j++) {
            want += (double)w * inverse[j] * d[j];
            size += fabs(inverse[j] * d[j]);
        }
        TC_CLOSE(grad[i], base + want,
                 4 * PU_TEST_EPS * (fabs(base) + fabs(want)) +
                     4 * ((double)n + roundings(f)) * DBL_EPSILON * condition * size);
        tc_release_to(mark);
    }
    PASS();
}

/* What this file does not look at one by one: bands, scratch, two calls alike. */
TEST the_operator_passes_its_check(const ar_case *c)
{
    fixture *f = build(c);
    pu_check_options options;
    pu_check_report report;
    char text[300];
    memset(&options, 0, sizeof options);
    options.role = PU_ROLE_PRIOR;
    options.most = 40;
    if (pu_op_check(&f->op, &options, &report) != PU_OK) puts(pu_check_explain(&report, 0, text, sizeof text));
    TC_STATUS(report.status, PU_OK);
    PASS();
}

/* ---- phi ------------------------------------------------------------------------------------- */

/* pu_ar_phi_grad solves J'b = g, J = d phi / d gamma: multiplied back, J exact since phi is linear
   in each gamma. */
TEST pull_phi_is_the_gradient_in_phi(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, j, P = f->P;
    pu_real *g = tc_normal(++next_seed, P + 1), *b = tc_reals(P + 1), *same = tc_reals(P + 1);
    b[P] = same[P] = PU_R(7);
    for (i = 0; i < P; i++) same[i] = g[i];
    pu_ar_phi_grad(&f->ar, g, b);
    pu_ar_phi_grad(&f->ar, same, same);
    for (i = 0; i < P; i++) TC_ASSERT(same[i] == b[i]);
    TC_ASSERT(b[P] == PU_R(7) && same[P] == PU_R(7));
    for (i = 0; i < P; i = after(f, i)) {
        double gamma[MOST], up[MOST], down[MOST], sum = 0, size = fabs((double)g[i]);
        for (j = 0; j < P; j++) gamma[j] = f->theta[j];
        gamma[i] += 0.5;
        durbin_levinson(P, gamma, 0, up);
        gamma[i] -= 1;
        durbin_levinson(P, gamma, 0, down);
        for (j = 0; j < P; j++) {
            sum += (up[j] - down[j]) * (double)b[j];
            size += fabs((up[j] - down[j]) * (double)b[j]);
        }
        TC_CLOSE(sum, g[i], roundings(f) * PU_TEST_EPS * size);
    }
    PASS();
}

/* gamma -> phi -> gamma. Each step down divides by 1 - gamma^2 after adding 1 + |gamma| times as
   much. */
TEST set_phi_is_the_inverse(const ar_case *c)
{
    fixture *f = build(c);
    pu_int i, P = f->P, index = -5;
    double tol = roundings(f) * PU_TEST_EPS;
    pu_ar ar;
    for (i = 0; i < P; i++) tol /= 1 - fabs(f->theta[i]);
    memset(&ar, TC_PATTERN, sizeof ar);
    lend(&ar, P);
    TC_STATUS(pu_ar_set_phi(&ar, f->n, P, f->ar.phi, f->kappa, &index), PU_OK);
    TC_ASSERT(index == -1 && ar.n == f->n && ar.order == P && ar.kappa == f->kappa);
    for (i = 0; i < P; i++) TC_CLOSE(ar.gamma[i], f->gamma[i], tol);
    PASS();
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST set_refuses(void)
{
    pu_real gamma[4] = {PU_R(0.5), PU_R(-0.25), PU_R(0.125), PU_R(0)}, bad[4], many[MOST] = {0};
    const pu_real one = PU_R(1);
    pu_ar ar;
    pu_int i, index;
    memset(&ar, TC_PATTERN, sizeof ar);
    tc_set_case("refusals");
#define REFUSED(call, status, at)                                                                  \
    do {                                                                                           \
        index = -5;                                                                                \
        TC_STATUS(call, status);                                                                   \
        TC_ASSERT(index == (at));                                                                  \
        TC_ASSERT(tc_is_pattern((const unsigned char *)&ar, sizeof ar));                           \
    } while (0)
    REFUSED(pu_ar_set(NULL, 9, 4, gamma, one, &index), PU_E_NULL, -1);
    REFUSED(pu_ar_set(&ar, 9, 4, NULL, one, &index), PU_E_NULL, -1);
    REFUSED(pu_ar_set(&ar, 0, 0, gamma, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set(&ar, -3, 1, gamma, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set(&ar, 3, 4, gamma, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set(&ar, 9, -1, gamma, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set(&ar, 99, PU_AR_MAX + 1, many, one, &index), PU_E_BLOCK, -1);
    REFUSED(pu_ar_set_phi(&ar, 99, PU_AR_MAX + 1, many, one, &index), PU_E_BLOCK, -1);
    REFUSED(pu_ar_set(&ar, 33, 34, many, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set(&ar, PTRDIFF_MAX, 34, many, one, &index), PU_E_BLOCK, -1);
    REFUSED(pu_ar_set(&ar, 9, 4, gamma, PU_R(0), &index), PU_E_NOT_POSITIVE, 4);
    REFUSED(pu_ar_set(&ar, 9, 4, gamma, PU_R(-1), &index), PU_E_NOT_POSITIVE, 4);
    REFUSED(pu_ar_set(&ar, 9, 4, gamma, PU_R(NAN), &index), PU_E_NONFINITE, 4);
    REFUSED(pu_ar_set(&ar, 9, 4, gamma, PU_R(INFINITY), &index), PU_E_NONFINITE, 4);
    REFUSED(pu_ar_set(&ar, 9, 4, gamma, (pu_real)PU_TEST_PICK(1e-310, 1e-40), &index),
            PU_E_ARGUMENT, 4);
    REFUSED(pu_ar_set_phi(NULL, 9, 4, gamma, one, &index), PU_E_NULL, -1);
    REFUSED(pu_ar_set_phi(&ar, 9, 4, NULL, one, &index), PU_E_NULL, -1);
    REFUSED(pu_ar_set_phi(&ar, 3, 4, gamma, one, &index), PU_E_ARGUMENT, -1);
    REFUSED(pu_ar_set_phi(&ar, 9, 4, gamma, PU_R(0), &index), PU_E_NOT_POSITIVE, 4);
    for (i = 0; i < 4; i++) {
        memcpy(bad, gamma, sizeof bad);
        bad[i] = PU_R(1);
        REFUSED(pu_ar_set(&ar, 9, 4, bad, one, &index), PU_E_ARGUMENT, i);
        bad[i] = PU_R(-1);
        REFUSED(pu_ar_set(&ar, 9, 4, bad, one, &index), PU_E_ARGUMENT, i);
        bad[i] = PU_R(NAN);
        REFUSED(pu_ar_set(&ar, 9, 4, bad, one, &index), PU_E_NONFINITE, i);
        REFUSED(pu_ar_set_phi(&ar, 9, 4, bad, one, &index), PU_E_NONFINITE, i);
        bad[i] = PU_R(-INFINITY);
        REFUSED(pu_ar_set(&ar, 9, 4, bad, one, &index), PU_E_NONFINITE, i);
    }
    bad[0] = PU_R(1), bad[1] = PU_R(0); /* a random walk written as an AR(2) */
    REFUSED(pu_ar_set_phi(&ar, 9, 2, bad, one, &index), PU_E_ARGUMENT, 0);
    bad[0] = PU_R(0), bad[1] = PU_R(1.5);
    REFUSED(pu_ar_set_phi(&ar, 9, 2, bad, one, &index), PU_E_ARGUMENT, 1);
    TC_STATUS(pu_ar_set(&ar, 1, 0, NULL, one, NULL), PU_OK);
    TC_STATUS(pu_ar_set(&ar, 4, 4, gamma, one, NULL), PU_OK);
    PASS();
}

/* Memory that is too small by a byte is refused, and the process stays as it was; a larger one serves smaller orders. */
TEST memory_is_asked_for(void)
{
    pu_real *gamma = tc_normal(3, MOST), phi, top;
    size_t bytes = 0, some = 0;
    unsigned char *memory;
    pu_int i, index = -5;
    pu_ar ar, copy;
    pu_op op;
    tc_set_case("memory");
    for (i = 0; i < MOST; i++) gamma[i] = (pu_real)tanh(0.02 * (double)gamma[i]);
    TC_STATUS(pu_ar_bytes(MOST, NULL), PU_E_NULL);
    TC_STATUS(pu_ar_bytes(-1, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_ar_bytes(PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_ar_bytes((pu_int)1 << (4 * sizeof(pu_int)), &bytes), PU_E_OVERFLOW);
    TC_STATUS(pu_ar_bytes(MOST, &bytes), PU_OK);
    TC_STATUS(pu_ar_bytes(40, &some), PU_OK);
    TC_ASSERT(some < bytes && bytes < MOST * (MOST + 20) * (sizeof(double) + sizeof(pu_real)) / 2 + 256);
    memory = (unsigned char *)tc_bytes(bytes);
    TC_STATUS(pu_ar_memory(NULL, memory, bytes), PU_E_NULL);
    TC_STATUS(pu_ar_memory(&ar, NULL, bytes), PU_E_NULL);
    TC_STATUS(pu_ar_memory(&ar, memory + 1, bytes - 1), PU_OK);
    TC_ASSERT(pu_op_ar(&ar).rows == 0);
    TC_STATUS(pu_ar_set(&ar, 200, MOST, gamma, PU_R(1), &index), PU_E_BLOCK);
    TC_STATUS(pu_ar_set(&ar, 90, 40, gamma, PU_R(1), &index), PU_OK);
    phi = ar.phi[39];
    top = ar.band[40];
    /* refused after the arithmetic, with another order, and before it */
    TC_STATUS(pu_ar_set(&ar, 90, 50, gamma, (pu_real)PU_TEST_PICK(1e-310, 1e-40), &index), PU_E_ARGUMENT);
    TC_STATUS(pu_ar_set(&ar, 200, MOST, gamma, PU_R(1), &index), PU_E_BLOCK);
    TC_ASSERT(ar.n == 90 && ar.order == 40 && ar.phi[39] == phi && ar.band[40] == top);
    op = pu_op_ar(&ar);
    TC_STATUS(op.check(&op, &index), PU_OK);
    /* another order in the same memory, which asks for none */
    TC_STATUS(pu_ar_set(&ar, 90, 3, gamma, PU_R(1), &index), PU_OK);
    TC_STATUS(op.check(&op, &index), PU_E_SIZE);
    TC_ASSERT(pu_op_ar(&ar).rows == 90);
    /* a copy has the arrays of the original */
    copy = ar;
    TC_ASSERT(pu_op_ar(&copy).rows == 0);
    memset(&copy, TC_PATTERN, sizeof copy);
    copy.n = 90;
    copy.order = 3;
    TC_ASSERT(pu_op_ar(&copy).rows == 0);
    copy.order = 40;
    TC_ASSERT(pu_op_ar(&copy).rows == 0);
    PASS();
}

TEST check_finds_each_number(void)
{
    static const ar_case c = {9, 3, 0.5};
    fixture *f = build(&c);
    pu_ar good = f->ar; /* its pointers are to f->ar: it is for putting that back */
    pu_int i, index = -5;
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
    TC_ASSERT(index == -1);
    for (i = 0; i < 3; i++) {
        f->ar.gamma[i] = PU_R(NAN);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_NONFINITE);
        TC_ASSERT(index == i);
        f->ar.gamma[i] = PU_R(-1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->ar.gamma[i] = f->gamma[i] / 2; /* written without pu_ar_set */
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        f->ar = good;
    }
    f->ar.kappa = PU_R(NAN);
    TC_STATUS(f->op.check(&f->op, &index), PU_E_NONFINITE);
    TC_ASSERT(index == 3);
    f->ar.kappa = PU_R(-1);
    TC_STATUS(f->op.check(&f->op, &index), PU_E_NOT_POSITIVE);
    TC_ASSERT(index == 3);
    f->ar.kappa = 2 * good.kappa;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
    f->ar = good;
    f->ar.n = 10;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    f->ar = good;
    f->ar.order = 2;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    TC_ASSERT(pu_op_ar(NULL).rows == 0);
    f->ar.order = 10;
    TC_ASSERT(pu_op_ar(&f->ar).rows == 0);
    PASS();
}

TEST dimensions(const ar_case *c)
{
    fixture *f = build(c);
    TC_ASSERT(f->op.rows == c->n && f->op.cols == c->n && f->op.params == c->P + 1);
    TC_ASSERT((f->op.work > 0) == (c->P > PU_AR_MAX) && f->op.noise == 0 && f->op.trusted == 2);
    PASS();
}

/* ---- in a model ------------------------------------------------------------------------------ */

/* |A| |A^-1| of the worst datum. */
static double condition_of(const tc_model *t)
{
    pu_int D = t->D, n, i;
    pu_real *A = tc_reals(D * D), *S = tc_reals(D * D);
    double *a = tc_doubles(D * D), *s = tc_doubles(D * D), worst = 1;
    pu_exact_result r;
    memset(&r, 0, sizeof r);
    r.A = A;
    r.Sigma = S;
    for (n = 0; n < t->N; n++) {
        if (pu_exact(&t->lgm, &t->data, n, NULL, &r, NULL) != PU_OK) exit(2);
        for (i = 0; i < D * D; i++) a[i] = (double)A[i], s[i] = (double)S[i];
        if (norm(D, a) * norm(D, s) > worst) worst = norm(D, a) * norm(D, s);
    }
    return worst;
}

/* The same numbers as an operator with an entry each: every output agrees, and the gradient in the
   entries, contracted with d Gamma / d theta, is the gradient in theta. */
TEST gradient_agrees_with_dense(const ar_case *c, pu_kind kind)
{
    enum { N = 2, K = 3, I = 6 };
    fixture *f = build(c);
    pu_int i, j, D = f->n, params = f->P + 1;
    tc_model t;
    tc_outputs band, full;
    pu_op spd;
    pu_options options;
    pu_report r1, r2;
    pu_real *a = tc_reals(D * D), *factor = tc_reals(D * D);
    double *exact = precision(D, f->P, f->theta, 0), tol, scale = 0;
    tc_set_case("n %d P %d kind %d", (int)D, (int)f->P, (int)kind);
    tc_random_model(&t, TC_IDENTITY, D, D + 2, N, 77 + (uint64_t)D);
    for (i = 0; i < D * D; i++) a[i] = (pu_real)exact[i];
    TC_STATUS(pu_spd_factor(D, a, factor, NULL), PU_OK);
    spd = pu_op_spd(D, a, factor);
    memset(&options, 0, sizeof options);
    options.kind = kind;
    options.samples = K;
    if (kind != PU_MONTE_CARLO) options.solve.iterations = I; /* that one runs to convergence */
    options.delta = tc_normal(5, N * K * D);
    t.lgm.Gamma = &spd;
    tol = 4 * ((double)I + (double)D + roundings(f)) * PU_TEST_EPS * condition_of(&t);
    full = tc_make_outputs(&t.lgm, N, K, I);
    full.out.alpha = full.out.beta = full.out.logdet = NULL;
    TC_STATUS(pu_gradient(&t.lgm, &t.data, &options, NULL, &full.out, &r2), PU_OK);
    t.lgm.Gamma = &f->op;
    band = tc_make_outputs(&t.lgm, N, K, I);
    band.out.alpha = band.out.beta = band.out.logdet = NULL;
    TC_STATUS(pu_gradient(&t.lgm, &t.data, &options, NULL, &band.out, &r1), PU_OK);
    TC_ASSERT(pu_test_relerr(N * (K + 1) * D, band.out.x, full.out.x) <= tol);
    TC_ASSERT(pu_test_relerr(D, band.out.nu, full.out.nu) <= tol);
    TC_ASSERT(pu_test_relerr((D + 2) * D, band.out.Phi, full.out.Phi) <= tol);
    TC_ASSERT(pu_test_relerr(D + 2, band.out.eta, full.out.eta) <= tol);
    TC_ASSERT(pu_test_relerr(D + 2, band.out.psi, full.out.psi) <= tol);
    TC_CLOSE(r1.q, r2.q, tol * (fabs(r2.q) + (double)D));
    TC_CLOSE(r1.c, r2.c, tol * (fabs(r2.c) + (double)D));
    for (j = 0; j < D * D; j++) {
        if (fabs((double)full.out.Gamma[j]) > scale) scale = fabs((double)full.out.Gamma[j]);
    }
    for (i = 0; i < params; i = after(f, i)) {
        double *d = slope(f, i, 0), want = 0, size = 0;
        for (j = 0; j < D * D; j++) {
            want += (double)full.out.Gamma[j] * d[j];
            size += scale * fabs(d[j]);
        }
        TC_CLOSE(band.out.Gamma[i], want, tol * size);
    }
    PASS();
}

/* The probes drawn by the operator itself have covariance A: the library's estimate of the negative
   log-likelihood then agrees with the exact value within a few of its standard errors. */
TEST own_probes_estimate_the_likelihood(void)
{
    static const ar_case c = {40, 2, 0.5};
    fixture *f = build(&c);
    tc_model t;
    pu_options options;
    double exact, estimate, se;
    tc_random_model(&t, TC_IDENTITY, f->n, f->n, 1, 7);
    t.lgm.Gamma = &f->op;
    memset(&options, 0, sizeof options);
    options.samples = 200;
    options.engine = PU_DENSE;
    TC_STATUS(pu_nll(&t.lgm, &t.data, &options, NULL, &exact, NULL, NULL), PU_OK);
    options.engine = PU_ITERATIVE;
    TC_STATUS(pu_nll(&t.lgm, &t.data, &options, NULL, &estimate, &se, NULL), PU_OK);
    TC_ASSERT(se > 0);
    TC_CLOSE(estimate, exact, 5 * se);
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

static void run_case(const ar_case *c)
{
    RUN_TESTp(dimensions, c);
    RUN_TESTp(apply_is_the_matrix, c);
    RUN_TESTp(apply_is_symmetric, c);
    RUN_TESTp(grad_is_the_derivative, c);
    RUN_TESTp(apply_plus_adds_a_diagonal, c);
    RUN_TESTp(grad_of_pairs_is_grad_and_apply, c);
    RUN_TESTp(diag_is_the_diagonal, c);
    RUN_TESTp(sample_has_the_right_covariance, c);
    RUN_TESTp(pull_phi_is_the_gradient_in_phi, c);
    RUN_TESTp(set_phi_is_the_inverse, c);
    RUN_TESTp(the_operator_passes_its_check, c);
    if (c->n > 200) return; /* what follows is cubic in n */
    RUN_TESTp(precision_inverts_the_autocovariances, c);
    RUN_TESTp(solve_is_the_covariance, c);
    RUN_TESTp(logdet_is_the_log_determinant, c);
    RUN_TESTp(logdet_grad_is_the_derivative, c);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const ar_case models[] = {
        {1, 1, 0.5}, {7, 5, 0.4}, {13, 2, 0.5}, {21, 0, 0}, {40, 5, 0.3}, {45, 40, 0.05}, {90, 40, 0.05}};
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < AR_CASES; i++) run_case(&ar_cases[i]);
    RUN_TEST(golden_numbers);
    RUN_TEST(set_refuses);
    RUN_TEST(memory_is_asked_for);
    RUN_TEST(check_finds_each_number);
    for (i = 0; i < sizeof models / sizeof models[0]; i++) {
        RUN_TESTp(gradient_agrees_with_dense, &models[i], PU_NETWORK);
        RUN_TESTp(gradient_agrees_with_dense, &models[i], PU_OUTPUT);
        RUN_TESTp(gradient_agrees_with_dense, &models[i], PU_MONTE_CARLO);
        RUN_TESTp(gradient_agrees_with_dense, &models[i], PU_EXACT);
    }
    RUN_TEST(own_probes_estimate_the_likelihood);
    PU_TEST_MAIN_END();
}

/* test_op_lattice.c - fields on a grid (pu_op_lattice, pu_op_lattice_plus) against dense matrices that are made from the
   coordinates of the points by plain loops in double. */
#include "pu_test.h"
#include "test_common.h"

/* ---- a field and its matrices ---- */

typedef struct {
    int axes;
    pu_int size[3];
    pu_edge edge[3];
} grid;

static const pu_edge N = PU_EDGE_NEUMANN, P = PU_EDGE_PERIODIC;

static const grid grids[] = {
    {1, {1, 0, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {1, {1, 0, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {1, {2, 0, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {1, {2, 0, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {1, {3, 0, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {1, {67, 0, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}}, /* a prime that goes through a convolution */
    {1, {40, 0, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {1, 7, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {7, 1, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {7, 1, 0}, {PU_EDGE_PERIODIC, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}},
    {2, {2, 2, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {2, 2, 0}, {PU_EDGE_PERIODIC, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}},
    {2, {5, 9, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {9, 5, 0}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {2, {4, 35, 0}, {PU_EDGE_NEUMANN, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}},
    {2, {35, 4, 0}, {PU_EDGE_PERIODIC, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}},
    {3, {3, 1, 2}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {3, {2, 2, 2}, {PU_EDGE_PERIODIC, PU_EDGE_PERIODIC, PU_EDGE_PERIODIC}},
    {3, {3, 4, 5}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}},
    {3, {5, 3, 6}, {PU_EDGE_PERIODIC, PU_EDGE_NEUMANN, PU_EDGE_PERIODIC}},
};
enum { GRIDS = sizeof grids / sizeof *grids };

/* B = kappa^2 + L, n x n. */
static double *matrix_b(const grid *g, double kappa)
{
    pu_int n = 1;
    double *B;
    for (int a = 0; a < g->axes; a++) n *= g->size[a];
    B = tc_doubles(n * n);
    for (pu_int i = 0; i < n; i++) {
        pu_int left = i, step = 1;
        B[i * n + i] += kappa * kappa;
        for (int a = g->axes - 1; a >= 0; a--) {
            pu_int m = g->size[a], at = left % m;
            for (int by = -1; by <= 1; by += 2) {
                pu_int next = at + by;
                if (g->edge[a] == PU_EDGE_PERIODIC) next = (next + m) % m;
                if (next < 0 || next >= m) continue;
                B[i * n + i] += 1;
                B[i * n + i + (next - at) * step] -= 1;
            }
            left /= m;
            step *= m;
        }
    }
    return B;
}

/* tau B^alpha */
static double *matrix_gamma(pu_int n, const double *B, int alpha, double tau)
{
    double *G = tc_doubles(n * n);
    if (alpha == 2) tc_matmul(n, n, n, B, B, G);
    for (pu_int i = 0; i < n * n; i++) G[i] = tau * (alpha == 2 ? G[i] : B[i]);
    return G;
}

typedef struct {
    pu_lattice field;
    pu_modes modes;
    pu_op op;
    double *B, *G;
    double size; /* bounds the eigenvalues of Gamma, and so all of its entries */
} made;

static void make(made *m, const grid *g, int alpha, double tau, double kappa)
{
    size_t bytes = 0;
    memset(m, 0xa5, sizeof *m);
    if (pu_lattice_set(&m->field, g->axes, g->size, g->edge, alpha, (pu_real)tau, (pu_real)kappa, NULL)) exit(2);
    if (pu_modes_bytes(&m->field, &bytes)) exit(2);
    if (pu_modes_init(&m->modes, &m->field, tc_bytes(bytes), bytes)) exit(2);
    m->op = pu_op_lattice(&m->field, &m->modes);
    m->B = matrix_b(g, (double)(pu_real)kappa);
    m->G = matrix_gamma(m->field.n, m->B, alpha, (double)(pu_real)tau);
    m->size = tau * pow(kappa * kappa + 4 * g->axes, alpha);
    tc_set_case("%d axes, %d x %d x %d, edges %d %d %d, alpha %d, tau %g, kappa %g", g->axes, (int)m->field.size[0],
                (int)m->field.size[1], (int)m->field.size[2], (int)g->edge[0], (int)g->edge[1], (int)g->edge[2], alpha, tau, kappa);
}

/* A copy, whose operator reads the original. */
static made field_of(const grid *g, int alpha, double tau, double kappa)
{
    made *m = (made *)tc_bytes(sizeof *m);
    make(m, g, alpha, tau, kappa);
    return *m;
}

#define EACH_FIELD(g, alpha)                          \
    for (const grid *g = grids; g < grids + GRIDS; g++) \
        for (int alpha = 1; alpha <= 2; alpha++)

/* x'A y for columns of blocks */
static double form(pu_int n, const double *A, const double *x, const double *y)
{
    double sum = 0;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j < n; j++) sum += A[i * n + j] * x[i] * y[j];
    return sum;
}

/* ---- products ---- */

/* A sum of up to 26 terms that are at most m.size times the largest entry: 64 eps has room for their order. */
TEST products_are_those_of_the_matrix(double kappa)
{
    EACH_FIELD(g, alpha)
    {
        made m = field_of(g, alpha, 0.7, kappa);
        pu_int n = m.field.n, k = 3, ld = n + 5;
        uint64_t seed = 3;
        pu_block X = tc_random_block(&seed, n, k, ld), Y = tc_random_block(&seed, n, k, ld);
        pu_real *work = tc_reals(k * m.op.work);
        double *want = tc_doubles(n);
        for (int add = 0; add < 2; add++) {
            double *before[3];
            for (pu_int j = 0; j < k; j++) before[j] = tc_column(Y, n, j);
            TC_STATUS(m.op.apply(&m.op, k, X, Y, add, work), PU_OK);
            for (pu_int j = 0; j < k; j++) {
                tc_matvec(n, n, m.G, tc_column(X, n, j), want);
                for (pu_int i = 0; i < n; i++) {
                    double from = add ? before[j][i] : 0;
                    TC_CLOSE(Y.at[j * ld + i], want[i] + from, 64 * PU_TEST_EPS * (5 * m.size + fabs(from)));
                }
            }
        }
        tc_release(NULL);
    }
    PASS();
}

/* However small kappa is beside the differences: Gamma 1 = tau kappa^(2 alpha), to a few eps. */
TEST constants_are_seen_exactly(void)
{
    EACH_FIELD(g, alpha)
    {
        double tau = 3, kappa = PU_TEST_PICK(1e-9, 1e-6), want = tau * pow((double)(pu_real)kappa, 2 * alpha);
        made m = field_of(g, alpha, tau, kappa);
        pu_int n = m.field.n;
        pu_real *x = tc_reals(n), *y = tc_reals(n);
        tc_fill(n, x, PU_R(1));
        TC_STATUS(m.op.apply(&m.op, 1, tc_block(x, n), tc_block(y, n), 0, tc_reals(m.op.work)), PU_OK);
        for (pu_int i = 0; i < n; i++) TC_CLOSE(y[i], want, 8 * PU_TEST_EPS * want);
        tc_release(NULL);
    }
    PASS();
}

/* ---- the other functions of a prior ---- */

/* F F' = Gamma, F from draws with unit normals. An entry of F F' is a sum of at most 13 products. */
TEST draws_have_gamma_for_their_covariance(double kappa)
{
    EACH_FIELD(g, alpha)
    {
        made m = field_of(g, alpha, 0.7, kappa);
        pu_int n = m.field.n, noise = m.op.noise ? m.op.noise : n;
        pu_real *e = tc_reals(noise), *y = tc_reals(n), *work = tc_reals(m.op.work);
        double *sum = tc_doubles(n * n);
        for (pu_int l = 0; l < noise; l++) {
            memset(e, 0, (size_t)noise * sizeof *e);
            e[l] = 1;
            TC_STATUS(m.op.sample(&m.op, 1, tc_block(e, noise), tc_block(y, n), work), PU_OK);
            for (pu_int i = 0; i < n; i++)
                for (pu_int j = 0; j < n; j++) sum[i * n + j] += (double)y[i] * (double)y[j];
        }
        for (pu_int i = 0; i < n * n; i++) TC_CLOSE(sum[i], m.G[i], 64 * PU_TEST_EPS * m.size);
        tc_release(NULL);
    }
    PASS();
}

/* p'Gamma q is quadratic in kappa^2 and linear in tau: its derivatives are written down with the matrices. */
TEST gradients_are_those_of_the_matrix(double kappa)
{
    EACH_FIELD(g, alpha)
    {
        double tau = 0.7, norm = 0;
        made m = field_of(g, alpha, tau, kappa);
        pu_int n = m.field.n, k = 3;
        uint64_t seed = 5;
        pu_block X = tc_random_block(&seed, n, k, n + 1), Y = tc_random_block(&seed, n, k, n + 2);
        pu_real weight[3] = {PU_R(0.5), 0, PU_R(-2)}, grad[2], *work = tc_reals(k * m.op.work);
        for (int same = 0; same < 2; same++) {
            pu_block Q = same ? X : Y;
            double want[2] = {1, 1};
            norm = 0;
            grad[0] = grad[1] = 1;
            TC_STATUS(m.op.grad(&m.op, k, X, Q, weight, grad, work), PU_OK);
            for (pu_int c = 0; c < k; c++) {
                double *p = tc_column(X, n, c), *q = tc_column(Q, n, c), w = (double)weight[c];
                double first = form(n, m.B, p, q), plain = 0;
                for (pu_int i = 0; i < n; i++) plain += p[i] * q[i];
                want[0] += w * form(n, m.G, p, q) / (double)m.field.tau;
                want[1] += w * 2 * kappa * tau * (alpha == 1 ? plain : 2 * first);
                norm += fabs(w) * tc_norm(n, p) * tc_norm(n, q);
            }
            /* sums of n terms, in double but for chunks of 512; tau and kappa are rounded */
            TC_CLOSE(grad[0], want[0], 64 * PU_TEST_EPS * (1 + norm * m.size));
            if (m.op.params > 1) TC_CLOSE(grad[1], want[1], 64 * PU_TEST_EPS * (1 + norm * (1 + kappa) * m.size));
            else ASSERT_EQ(grad[1], PU_R(1));
        }
        tc_release(NULL);
    }
    PASS();
}

/* log det by the eigenvalues against a Cholesky factor; its gradient against tr(Gamma^-1 dGamma); solve against the inverse.
   Errors of the reference are eps of a double times the condition of Gamma, those of solve the library's eps times it. */
TEST log_det_and_solve_are_those_of_the_matrix(void)
{
    EACH_FIELD(g, alpha)
    {
        double tau = 0.7, kappa = 0.6, condition, trace[2] = {0, 0}, value = 0;
        made m = field_of(g, alpha, tau, kappa);
        pu_int n = m.field.n, k = 2;
        double *L = tc_doubles(n * n), *inverse = tc_doubles(n * n), *want = tc_doubles(n);
        pu_real grad[2] = {0, 0}, *work = tc_reals(k * m.op.work);
        uint64_t seed = 7;
        pu_block X = tc_random_block(&seed, n, k, n + 3), Y = tc_random_block(&seed, n, k, n + 1);
        condition = m.size / (tau * pow(kappa, 2 * alpha));
        memcpy(L, m.G, (size_t)(n * n) * sizeof *L);
        ASSERT(tc_cholesky(n, L));
        tc_inverse(n, L, inverse);
        TC_STATUS(m.op.logdet(&m.op, &value, work), PU_OK);
        TC_CLOSE(value, tc_logdet(n, L), 16 * (double)n * (DBL_EPSILON * condition + PU_TEST_EPS));
        TC_STATUS(m.op.logdet_grad(&m.op, PU_R(1.5), grad, work), PU_OK);
        for (pu_int i = 0; i < n; i++)
            for (pu_int j = 0; j < n; j++) {
                trace[0] += inverse[i * n + j] * m.G[i * n + j] / tau;
                trace[1] += inverse[i * n + j] * 2 * kappa * tau * (alpha == 1 ? i == j : 2 * m.B[i * n + j]);
            }
        for (int i = 0; i < 2; i++)
            TC_CLOSE(grad[i], 1.5 * trace[i], 16 * (PU_TEST_EPS + DBL_EPSILON * condition) * (double)n * 4 / kappa);
        TC_STATUS(m.op.solve(&m.op, k, X, Y, work), PU_OK);
        for (pu_int j = 0; j < k; j++) {
            double *x = tc_column(X, n, j), bound = tc_norm(n, x) / (tau * pow(kappa, 2 * alpha));
            tc_matvec(n, n, inverse, x, want);
            for (pu_int i = 0; i < n; i++) TC_CLOSE(Y.at[j * (n + 1) + i], want[i], (32 * PU_TEST_EPS + 4 * DBL_EPSILON * condition) * bound);
        }
        tc_release(NULL);
    }
    PASS();
}

/* The diagonal, the band and the gradient of tr(Gamma S), whose entries outside of Gamma's pattern are not read. */
TEST entries_are_those_of_the_matrix(double kappa)
{
    EACH_FIELD(g, alpha)
    {
        double tau = 0.7, want[2] = {0, 0}, norm = 0;
        made m = field_of(g, alpha, tau, kappa);
        pu_int n = m.field.n, width = m.op.band + 2;
        double *band = tc_doubles(n * (width + 1)), *S = tc_doubles(n * (width + 1));
        pu_real *diag = tc_reals(n), grad[2] = {0, 0};
        ASSERT(m.op.band < n);
        TC_STATUS(m.op.diag(&m.op, diag, tc_reals(m.op.work)), PU_OK);
        TC_STATUS(m.op.band_add(&m.op, width, band, NULL), PU_OK);
        for (pu_int i = 0; i < n; i++) {
            TC_CLOSE(diag[i], m.G[i * n + i], 8 * PU_TEST_EPS * m.size);
            for (pu_int j = 0; j <= i; j++) {
                double entry = m.G[i * n + j], other = alpha == 1 ? i == j : 2 * m.B[i * n + j];
                double s = cos((double)(3 * i + j));
                int twice = j < i ? 2 : 1;
                if (i - j > m.op.band) {
                    TC_ASSERT(entry == 0);
                    continue;
                }
                TC_CLOSE(band[i * (width + 1) + i - j], entry, 8 * PU_TEST_EPS * m.size);
                S[i * (width + 1) + i - j] = i != j && entry == 0 && other == 0 ? (double)NAN : s;
                want[0] += twice * s * entry / (double)m.field.tau;
                want[1] += twice * s * 2 * kappa * tau * other;
                norm += twice * fabs(s) * (fabs(entry) / tau + (1 + kappa) * fabs(other));
            }
        }
        TC_STATUS(m.op.band_grad(&m.op, width, S, 0.5, grad, NULL), PU_OK);
        TC_CLOSE(grad[0], want[0] / 2, 16 * PU_TEST_EPS * norm);
        if (m.op.params > 1) TC_CLOSE(grad[1], want[1] / 2, 16 * PU_TEST_EPS * norm);
        tc_release(NULL);
    }
    PASS();
}

/* The eigenvalues of L with the most room for mistakes: a mode of each grid must be one, and log det of an intrinsic field the
   limit of that of a proper one: log det - log(tau kappa^(2 alpha)), up to kappa^2 times the sum of 1 / lambda. */
TEST an_intrinsic_field_is_the_limit_of_proper_ones(void)
{
    EACH_FIELD(g, alpha)
    {
        double kappa = 1e-3, near = 0, limit = 0;
        made proper, flat;
        double step;
        pu_real one[2] = {0, 0};
        make(&proper, g, alpha, 0.7, kappa);
        make(&flat, g, alpha, 0.7, 0);
        step = alpha * (double)proper.field.n * kappa * kappa * (double)proper.field.n;
        TC_STATUS(proper.op.logdet(&proper.op, &near, NULL), PU_OK);
        TC_STATUS(flat.op.logdet(&flat.op, &limit, NULL), PU_OK);
        near -= log((double)flat.field.tau) + 2 * alpha * log((double)proper.field.kappa);
        TC_CLOSE(limit, near, step + 16 * (double)proper.field.n * PU_TEST_EPS);
        TC_ASSERT(flat.op.params == 1 && !flat.op.solve && flat.op.sample);
        TC_STATUS(flat.op.logdet_grad(&flat.op, 2, one, NULL), PU_OK);
        TC_CLOSE(one[0], 2 * (double)(flat.field.n - 1) / 0.7, 8 * PU_TEST_EPS * (double)flat.field.n);
        TC_ASSERT(one[1] == 0);
        tc_release(NULL);
    }
    PASS();
}

TEST plus_adds_a_multiple_of_the_identity(double kappa)
{
    EACH_FIELD(g, alpha)
    {
        made m = field_of(g, alpha, 0.7, kappa);
        pu_lattice_plus plus = {&m.field, &m.modes, PU_R(0.4)};
        pu_op op = pu_op_lattice_plus(&plus);
        pu_int n = m.field.n;
        double *L = tc_doubles(n * n), *want = tc_doubles(n), *x, value = 0;
        pu_real *diag = tc_reals(n), *work = tc_reals(op.work);
        uint64_t seed = 9;
        pu_block X = tc_random_block(&seed, n, 1, n), Y = tc_random_block(&seed, n, 1, n);
        double w = (double)plus.w, bound;
        memcpy(L, m.G, (size_t)(n * n) * sizeof *L);
        for (pu_int i = 0; i < n; i++) L[i * (n + 1)] += w;
        TC_STATUS(op.apply(&op, 1, X, Y, 0, work), PU_OK);
        TC_STATUS(op.diag(&op, diag, work), PU_OK);
        x = tc_column(X, n, 0);
        tc_matvec(n, n, L, x, want);
        for (pu_int i = 0; i < n; i++) {
            TC_CLOSE(Y.at[i], want[i], 64 * PU_TEST_EPS * 5 * (m.size + w));
            TC_CLOSE(diag[i], L[i * (n + 1)], 8 * PU_TEST_EPS * (m.size + w));
        }
        ASSERT(tc_cholesky(n, L));
        TC_STATUS(op.logdet(&op, &value, work), PU_OK);
        TC_CLOSE(value, tc_logdet(n, L), 16 * (double)n * (DBL_EPSILON * m.size / w + PU_TEST_EPS));
        TC_STATUS(op.solve(&op, 1, X, Y, work), PU_OK);
        bound = tc_norm(n, x) / w;
        tc_solve(n, L, x);
        for (pu_int i = 0; i < n; i++) TC_CLOSE(Y.at[i], x[i], 32 * PU_TEST_EPS * bound);
        plus.w = kappa > 0 ? PU_R(-0.1) : 0;
        {
            pu_int index = 5;
            TC_STATUS(op.check(&op, &index), PU_E_NOT_POSITIVE);
            plus.w = PU_R(INFINITY);
            TC_STATUS(op.check(&op, &index), PU_E_NONFINITE);
        }
        tc_release(NULL);
    }
    PASS();
}

/* Variance and range against the inverse, the slope against differences. */
TEST moments_are_those_of_the_covariance(void)
{
    EACH_FIELD(g, alpha)
    {
        double tau = 0.7, kappa = 0.6, variance = 0, range = 0, slope = 0, sum = 0, up = 0, down = 0, h = 1e-4;
        double smooth = alpha - g->axes / 2.0;
        made m = field_of(g, alpha, tau, kappa);
        pu_int n = m.field.n;
        double *L = tc_doubles(n * n), *inverse = tc_doubles(n * n), tolerance;
        pu_lattice other;
        memcpy(L, m.G, (size_t)(n * n) * sizeof *L);
        ASSERT(tc_cholesky(n, L));
        tc_inverse(n, L, inverse);
        for (pu_int i = 0; i < n; i++) sum += inverse[i * (n + 1)] / (double)n;
        TC_STATUS(pu_lattice_moments(&m.field, &variance, &range, &slope), PU_OK);
        TC_CLOSE(variance, sum, 64 * (PU_TEST_EPS + 1e3 * DBL_EPSILON) * sum);
        TC_CLOSE(range, sqrt(8 * (smooth < 0.5 ? 0.5 : smooth)) / kappa, 4 * PU_TEST_EPS * range);
#ifndef PU_FLOAT
        tolerance = 100 * h * h + 100 * DBL_EPSILON / h;
        TC_STATUS(pu_lattice_set(&other, g->axes, g->size, g->edge, alpha, tau, kappa * exp(h), NULL), PU_OK);
        TC_STATUS(pu_lattice_moments(&other, &up, NULL, NULL), PU_OK);
        TC_STATUS(pu_lattice_set(&other, g->axes, g->size, g->edge, alpha, tau, kappa * exp(-h), NULL), PU_OK);
        TC_STATUS(pu_lattice_moments(&other, &down, NULL, NULL), PU_OK);
        TC_CLOSE(slope, (log(up) - log(down)) / (2 * h), tolerance);
#else
        (void)tolerance, (void)up, (void)down, (void)h, (void)other;
#endif
        tc_release(NULL);
    }
    PASS();
}

/* ---- refusals ---- */

TEST what_makes_no_field_is_refused_and_named(void)
{
    const pu_int size[3] = {3, 4, 5}, none[3] = {3, 0, 5}, huge[3] = {70000, 70000, 1};
    pu_edge edge[3] = {N, P, N};
    pu_lattice f, same;
    pu_modes modes;
    pu_lattice_plus plus = {&f, &modes, 1};
    pu_int at = 7;
    size_t bytes = 0;
    pu_op op;
    static char memory[20000];
    memset(&f, 0, sizeof f);
    TC_STATUS(pu_modes_bytes(&f, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_lattice_moments(&f, NULL, NULL, NULL), PU_E_ARGUMENT);
    ASSERT_EQ(pu_op_lattice(&f, NULL).rows, 0);
    ASSERT_EQ(pu_op_lattice(NULL, NULL).rows, 0);
    TC_STATUS(pu_lattice_set(&f, 3, size, edge, 2, 1, PU_R(0.5), &at), PU_OK);
    ASSERT_EQ(at, -1);
    same = f;
#define REFUSED(call, status, culprit)                  \
    TC_STATUS(call, status);                            \
    TC_ASSERT(at == (culprit));                         \
    TC_ASSERT(memcmp(&f, &same, sizeof f) == 0)
    REFUSED(pu_lattice_set(NULL, 3, size, edge, 2, 1, 1, &at), PU_E_NULL, -1);
    REFUSED(pu_lattice_set(&f, 3, NULL, edge, 2, 1, 1, &at), PU_E_NULL, -1);
    REFUSED(pu_lattice_set(&f, 0, size, edge, 2, 1, 1, &at), PU_E_ARGUMENT, -1);
    REFUSED(pu_lattice_set(&f, 4, size, edge, 2, 1, 1, &at), PU_E_ARGUMENT, -1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 3, 1, 1, &at), PU_E_ARGUMENT, -1);
    REFUSED(pu_lattice_set(&f, 3, none, edge, 2, 1, 1, &at), PU_E_SIZE, 1);
    REFUSED(pu_lattice_set(&f, 3, huge, edge, 2, 1, 1, &at), PU_E_OVERFLOW, 1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, PU_R(NAN), 1, &at), PU_E_NONFINITE, 0);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 0, 1, &at), PU_E_NOT_POSITIVE, 0);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 1, PU_R(INFINITY), &at), PU_E_NONFINITE, 1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 1, -1, &at), PU_E_NOT_POSITIVE, 1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 1, PU_R(PU_TEST_PICK(1e-200, 1e-25f)), &at), PU_E_ARGUMENT, 1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 1, PU_R(PU_TEST_PICK(1e100, 1e15f)), &at), PU_E_ARGUMENT, 1);
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, PU_R(PU_TEST_PICK(1e307, 1e37f)), 1, &at), PU_E_ARGUMENT, 0);
    edge[2] = (pu_edge)5;
    REFUSED(pu_lattice_set(&f, 3, size, edge, 2, 1, 1, &at), PU_E_ARGUMENT, -1);
    edge[2] = N;
    TC_STATUS(pu_modes_bytes(&f, &bytes), PU_OK);
    ASSERT(bytes <= sizeof memory);
    TC_STATUS(pu_modes_bytes(NULL, &bytes), PU_E_NULL);
    TC_STATUS(pu_modes_bytes(&f, NULL), PU_E_NULL);
    TC_STATUS(pu_modes_init(&modes, &f, memory, bytes - 1), PU_E_BLOCK);
    ASSERT_EQ(pu_op_lattice(&f, &modes).rows, 0);
    ASSERT_EQ(pu_op_lattice_plus(&plus).rows, 0);
    ASSERT_EQ(pu_op_lattice_plus(NULL).rows, 0);
    TC_STATUS(pu_modes_init(NULL, &f, memory, bytes), PU_E_NULL);
    TC_STATUS(pu_modes_init(&modes, NULL, memory, bytes), PU_E_NULL);
    TC_STATUS(pu_modes_init(&modes, &f, NULL, bytes), PU_E_NULL);
    TC_STATUS(pu_modes_init(&modes, &f, memory, bytes), PU_OK);
    op = pu_op_lattice(&f, &modes);
    TC_STATUS(op.check(&op, &at), PU_OK);
    f.kappa *= 2; /* by hand */
    TC_STATUS(op.check(&op, &at), PU_E_ARGUMENT);
    ASSERT_EQ(at, 1);
    /* set anew: other numbers will do, another edge, alpha, size, or no kappa will not */
    TC_STATUS(pu_lattice_set(&f, 3, size, edge, 2, 3, 2, NULL), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_OK);
    TC_STATUS(pu_lattice_set(&f, 3, size, edge, 2, 3, 0, NULL), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_E_SIZE);
    TC_STATUS(pu_lattice_set(&f, 3, size, NULL, 2, 3, 1, NULL), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_E_SIZE);
    TC_STATUS(pu_lattice_set(&f, 3, size, edge, 1, 3, 1, NULL), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_E_SIZE);
    TC_STATUS(pu_lattice_set(&f, 2, size, edge, 2, 3, 1, NULL), PU_OK);
    TC_STATUS(op.check(&op, &at), PU_E_SIZE);
    TC_STATUS(pu_lattice_moments(&same, NULL, NULL, NULL), PU_OK);
    same.kappa = 0;
    TC_STATUS(pu_lattice_moments(&same, NULL, NULL, NULL), PU_E_UNSUPPORTED);
    TC_STATUS(pu_lattice_moments(NULL, NULL, NULL, NULL), PU_E_NULL);
    PASS();
}

/* ---- in a model ---- */

/* y = z + noise on a grid with gaps. */
typedef struct {
    made m;
    pu_op Phi;
    pu_lgm lgm;
    pu_data data;
    pu_real *y, *psi;
} noisy;

static noisy noisy_field(const grid *g, int alpha, double kappa)
{
    noisy f;
    pu_int n;
    memset(&f, 0, sizeof f);
    make(&f.m, g, alpha, 0.7, kappa);
    n = f.m.field.n;
    f.Phi = pu_op_identity(n);
    f.y = tc_normal(21, n);
    f.psi = tc_reals(n);
    tc_fill(n, f.psi, 2);
    for (pu_int i = 0; i < n; i++)
        if (i % 5 == 2 || i % 7 == 3) f.y[i] = PU_R(NAN);
    f.data = pu_data_nan(1, n, f.y);
    return f;
}

/* Pointers into the struct: after it has come to rest. */
static void noisy_point(noisy *f)
{
    f->m.op = pu_op_lattice(&f->m.field, f->m.field.kappa > 0 ? &f->m.modes : NULL);
    f->lgm.Gamma = &f->m.op;
    f->lgm.Phi = &f->Phi;
    f->lgm.psi = f->psi;
}

/* NLL and gradients of the banded engine and of converged CG with the same probes as the dense one's, for proper and
   intrinsic fields. Condition of A: below (12 + 0.36)^2 0.7 / its smallest eigenvalue, which gaps of a point leave near 1. */
TEST engines_agree_on_a_field(double kappa)
{
    double tolerance = PU_TEST_PICK(1e-9, 2e-3); /* eps times a condition of 1e4, times sums of 60 terms */
    EACH_FIELD(g, alpha)
    {
        noisy f = noisy_field(g, alpha, kappa);
        pu_options o;
        pu_report report;
        pu_real exact[2] = {0, 0}, banded[2] = {0, 0}, other[2] = {0, 0};
        double nll[3] = {0, 0, 0};
        const pu_engine engines[3] = {PU_DENSE, PU_BANDED, PU_ITERATIVE};
        noisy_point(&f);
        for (int e = 0; e < 3; e++) {
            pu_gradient_result out;
            pu_real psi[200];
            memset(&o, 0, sizeof o);
            memset(&out, 0, sizeof out);
            o.engine = engines[e];
            o.kind = e < 2 ? PU_EXACT : PU_MONTE_CARLO;
            o.tied_psi = 1;
            o.samples = e < 2 ? 0 : 400;
            out.Gamma = e == 0 ? exact : e == 1 ? banded : other;
            out.psi = psi;
            TC_STATUS(pu_gradient(&f.lgm, &f.data, &o, NULL, &out, &report), PU_OK);
            nll[e] = report.nll;
            if (e == 2) TC_CLOSE(nll[2], nll[0], 5 * report.nll_se + report.nll_gap + tolerance * (1 + fabs(nll[0])));
        }
        TC_CLOSE(nll[1], nll[0], tolerance * (1 + fabs(nll[0])));
        for (int i = 0; i < f.m.op.params; i++) {
            TC_CLOSE(banded[i], exact[i], tolerance * (double)f.m.field.n * 4);
            /* 400 probes of n squared normals each: a relative standard error of (2 / 400 n)^1/2 of a trace of at most about n/tau */
            TC_CLOSE(other[i], exact[i], 5 * sqrt((double)f.m.field.n / 800) * (i ? 2 / 0.3 : 2 / 0.7) + tolerance);
        }
        tc_release(NULL);
    }
    PASS();
}

TEST a_level_that_nothing_tells_is_refused(void)
{
    const grid g = {2, {3, 4, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}};
    noisy f = noisy_field(&g, 2, 0);
    pu_report report;
    double nll = 0;
    noisy_point(&f);
    for (int i = 0; i < 12; i++) f.y[i] = PU_R(NAN);
    TC_STATUS(pu_nll(&f.lgm, &f.data, NULL, NULL, &nll, NULL, &report), PU_E_NOT_DEFINITE);
    ASSERT_STR_EQ("A (intrinsic field: the data do not identify its level)", report.where.what);
    f.y[7] = PU_R(2.5); /* one will do */
    TC_STATUS(pu_nll(&f.lgm, &f.data, NULL, NULL, &nll, NULL, &report), PU_OK);
    /* that entry says nothing about tau: with the level integrated out, only the constants of flat and noise remain:
       NLL = 1/2 log(2 pi) - 1/2 log psi + 1/2 log det(A) - 1/2 log det* Gamma, and det A = psi det*(Gamma) / n */
    TC_CLOSE(nll, 0.5 * log(2 * 3.14159265358979) - 0.5 * log(12.0), 1e3 * PU_TEST_EPS);
    TC_STATUS(pu_simulate(&f.lgm, 1, 1, NULL, f.psi, NULL, &report), PU_E_UNSUPPORTED);
    PASS();
}

/* Where a field is far from zero the prior's square is a sum of small differences: the likelihood of a level of 1e6 (float: 1e3) is
   that of zero. */
TEST a_far_level_costs_no_digits(void)
{
    const grid g = {2, {6, 7, 0}, {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN, PU_EDGE_NEUMANN}};
    double far = PU_TEST_PICK(1e6, 1e3), near_nll = 0, far_nll = 0;
    for (int alpha = 1; alpha <= 2; alpha++) {
        noisy f = noisy_field(&g, alpha, 0);
        pu_report report;
        noisy_point(&f);
        for (pu_int i = 0; i < 42; i++) /* a grid of 1/64 that both levels can tell */
            if (f.y[i] == f.y[i]) f.y[i] = (pu_real)(floor(64 * (double)f.y[i]) / 64);
        TC_STATUS(pu_nll(&f.lgm, &f.data, NULL, NULL, &near_nll, NULL, &report), PU_OK);
        for (pu_int i = 0; i < 42; i++) f.y[i] += (pu_real)far;
        TC_STATUS(pu_nll(&f.lgm, &f.data, NULL, NULL, &far_nll, NULL, &report), PU_OK);
        /* mu has an error of eps far, which counts squared times A, and once times w (e - mu) that it is beside */
        TC_CLOSE(far_nll, near_nll, 42 * 100 * PU_TEST_EPS * far);
        tc_release(NULL);
    }
    PASS();
}

/* A form of the caller's own is the built-in operator. */
TEST a_form_is_enough(void)
{
    const grid g = {2, {4, 5, 0}, {PU_EDGE_NEUMANN, PU_EDGE_PERIODIC, PU_EDGE_NEUMANN}};
    noisy f = noisy_field(&g, 2, 0.5), h;
    pu_report report;
    double own = 0, ours = 0;
    noisy_point(&f);
    h = f;
    noisy_point(&h);
    TC_STATUS(pu_nll(&f.lgm, &f.data, NULL, NULL, &ours, NULL, &report), PU_OK);
    h.m.op.form = PU_FORM_GENERAL;
    TC_STATUS(pu_nll(&h.lgm, &f.data, NULL, NULL, &own, NULL, &report), PU_OK);
    TC_CLOSE(own, ours, 1e4 * PU_TEST_EPS);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TESTp(products_are_those_of_the_matrix, 0.6);
    RUN_TESTp(products_are_those_of_the_matrix, 0);
    RUN_TEST(constants_are_seen_exactly);
    RUN_TESTp(draws_have_gamma_for_their_covariance, 0.6);
    RUN_TESTp(draws_have_gamma_for_their_covariance, 0);
    RUN_TESTp(gradients_are_those_of_the_matrix, 0.6);
    RUN_TESTp(gradients_are_those_of_the_matrix, 0);
    RUN_TEST(log_det_and_solve_are_those_of_the_matrix);
    RUN_TESTp(entries_are_those_of_the_matrix, 0.6);
    RUN_TESTp(entries_are_those_of_the_matrix, 0);
    RUN_TEST(an_intrinsic_field_is_the_limit_of_proper_ones);
    RUN_TESTp(plus_adds_a_multiple_of_the_identity, 0.6);
    RUN_TESTp(plus_adds_a_multiple_of_the_identity, 0);
    RUN_TEST(moments_are_those_of_the_covariance);
    RUN_TEST(what_makes_no_field_is_refused_and_named);
    RUN_TESTp(engines_agree_on_a_field, 0.3);
    RUN_TESTp(engines_agree_on_a_field, 0);
    RUN_TEST(a_level_that_nothing_tells_is_refused);
    RUN_TEST(a_far_level_costs_no_digits);
    RUN_TEST(a_form_is_enough);
    PU_TEST_MAIN_END();
}

/* test_solver.c - pu_solve on its own: identities that hold step by step, stopping, and gradients on spectra that ruin a
   naive reverse pass. The oracle is exact CG in extended precision with full orthogonalisation. */
#include "pu_test.h"
#include "test_common.h"
#include "wide.h"

/* ---- matrices with a given spectrum ------------------------------------------------------------------- */

/* Q diag(lambda) Q' with Q a product of random reflections; symmetric to the bit. */
static pu_real *with_spectrum(pu_int n, const double *lambda, uint64_t seed)
{
    double *b = tc_doubles(n * n);
    pu_real *a = tc_reals(n * n);
    pu_int i, j, h;
    for (i = 0; i < n; i++) b[i * n + i] = lambda[i];
    for (h = 0; h < 6; h++) {
        pu_real *v = tc_normal(seed + (uint64_t)h, n);
        double s = 0;
        for (i = 0; i < n; i++) s += (double)v[i] * (double)v[i];
        for (j = 0; j < n; j++) { /* columns, then rows */
            double p = 0;
            for (i = 0; i < n; i++) p += (double)v[i] * b[i * n + j];
            for (i = 0; i < n; i++) b[i * n + j] -= 2 * p / s * (double)v[i];
        }
        for (j = 0; j < n; j++) {
            double p = 0;
            for (i = 0; i < n; i++) p += (double)v[i] * b[j * n + i];
            for (i = 0; i < n; i++) b[j * n + i] -= 2 * p / s * (double)v[i];
        }
    }
    for (i = 0; i < n; i++)
        for (j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = (pu_real)((b[i * n + j] + b[j * n + i]) / 2);
    return a;
}

/* a few far outliers over a tight bulk, or a tight bulk alone */
static pu_real *outlier_matrix(pu_int n, int outliers, double far, uint64_t seed)
{
    double *lambda = tc_doubles(n);
    pu_int i;
    for (i = 0; i < n; i++) lambda[i] = 1 + 3 * (double)i / (double)n;
    for (i = 0; i < outliers; i++) lambda[i] = far * (double)(i + 1);
    return with_spectrum(n, lambda, seed);
}

/* The oracle below needs `wide`: a difference over 2 h loses eps cond / h, so 64 bits would not do. */

static wide wide_sqrt(wide x)
{
    wide root = (wide)sqrtl((long double)x);
    return (root + x / root) / 2; /* Newton's step doubles the digits */
}

/* F = -1/2 u'x_I with x_I the exact I-th CG iterate: the best point of the Krylov space, whose basis is orthogonalised
   twice. The matrix is a + t e. */
static wide exact_cg_value(pu_int n, pu_int I, const pu_real *a, const pu_real *e, wide t, const pu_real *u)
{
    wide *q = (wide *)tc_bytes((size_t)(n * (I + 1)) * sizeof(wide));
    wide *w = (wide *)tc_bytes((size_t)n * sizeof(wide));
    wide *at = (wide *)tc_bytes((size_t)(n * n) * sizeof(wide));
    wide diagonal[64] = {0}, off[64] = {0}, y[64] = {0}, norm = 0;
    pu_int i, j, k, l;
    for (i = 0; i < n * n; i++) at[i] = (wide)a[i] + t * (wide)e[i];
    for (i = 0; i < n; i++) norm += (wide)u[i] * (wide)u[i];
    norm = wide_sqrt(norm);
    for (i = 0; i < n; i++) q[i] = (wide)u[i] / norm;
    for (k = 0; k < I; k++) {
        wide s = 0;
        for (i = 0; i < n; i++) {
            w[i] = 0;
            for (j = 0; j < n; j++) w[i] += at[i * n + j] * q[k * n + j];
        }
        diagonal[k] = 0;
        for (i = 0; i < n; i++) diagonal[k] += w[i] * q[k * n + i];
        for (l = 0; l < 2 * (k + 1); l++) {
            const wide *b = q + (l % (k + 1)) * n;
            s = 0;
            for (i = 0; i < n; i++) s += w[i] * b[i];
            for (i = 0; i < n; i++) w[i] -= s * b[i];
        }
        s = 0;
        for (i = 0; i < n; i++) s += w[i] * w[i];
        off[k] = wide_sqrt(s);
        for (i = 0; i < n; i++) q[(k + 1) * n + i] = w[i] / off[k];
    }
    /* T y = norm e_1 by elimination from the end: y_0 = norm / (T_00 - off^2 / (..)) */
    y[I - 1] = diagonal[I - 1];
    for (k = I - 2; k >= 0; k--) y[k] = diagonal[k] - off[k] * off[k] / y[k + 1];
    return -norm * norm / y[0] / 2;
}

/* d/dt of that value. Truncation is h^2 = 1e-20, rounding 2^-113 cond / h = 2e-20 for a condition of 18,000. */
static double exact_cg_slope(pu_int n, pu_int I, const pu_real *a, const pu_real *e, const pu_real *u)
{
    const wide h = (wide)1e-10;
    return (double)((exact_cg_value(n, I, a, e, h, u) - exact_cg_value(n, I, a, e, -h, u)) / (2 * h));
}

/* Directional derivative of the network objective along a symmetric matrix, against the oracle. */
static double gradient_error(const pu_real *a, pu_int n, pu_int I, pu_adjoint adjoint, pu_column *column)
{
    pu_op op = pu_op_spd(n, a, NULL);
    pu_real *u = tc_normal(3, n), *x = tc_reals(n), *grad = tc_reals(n * n), *e = tc_reals(n * n);
    pu_real *p = tc_normal(4, n), *q = tc_normal(5, n);
    pu_solve_options o;
    double got = 0, want, size = 0, direction = 0;
    pu_int i, j;
    memset(&o, 0, sizeof o);
    o.iterations = I;
    o.adjoint = adjoint;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            e[i * n + j] = (pu_real)(((double)p[i] * (double)q[j] + (double)p[j] * (double)q[i]) / (double)n);
    if (tc_pu_solve(&op, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, grad, NULL, column, NULL) != PU_OK) return HUGE_VAL;
    want = exact_cg_slope(n, I, a, e, u);
    for (i = 0; i < n * n; i++) {
        got += (double)grad[i] * (double)e[i];
        size += (double)grad[i] * (double)grad[i];
        direction += (double)e[i] * (double)e[i];
    }
    return fabs(got - want) / sqrt(size * direction);
}

/* Every adjoint must be right on every spectrum, in float too: what is unstable is repeated. The bound is 300 eps: sums of 80
   terms and a relative error per step of a few eps, I = 2 .. 14 of them. FULL is trusted up to a growth of eps^-1/2, where its
   local corrections lose some digits: 3000 eps. Where the tape has no room for a repeated solve the status says so. */
TEST reverse_pass_survives_outliers(void)
{
    static const struct { int outliers; double far; } spectra[] = {{0, 0}, {5, 100}, {2, 1e3}, {3, 6000}};
    static const pu_int steps[] = {2, 5, 8, 11, 14};
    const pu_int n = 80;
    size_t s, i;
    if (WIDE_DIGITS < 100) SKIPm("the compiler has no numbers of 113 bits");
    for (s = 0; s < sizeof spectra / sizeof *spectra; s++)
        for (i = 0; i < sizeof steps / sizeof *steps; i++) {
            const pu_real *a = outlier_matrix(n, spectra[s].outliers, spectra[s].far, 50 + s);
            pu_column column;
            double error;
            tc_set_case("%d outliers to %g, I = %d", spectra[s].outliers, spectra[s].far * spectra[s].outliers, (int)steps[i]);
            error = gradient_error(a, n, steps[i], PU_ADJOINT_REORTHOGONAL, &column);
            TC_CLOSE(error, 0, 300 * PU_TEST_EPS);
            TC_ASSERT(column.adjoint == PU_ADJOINT_REORTHOGONAL);
            error = gradient_error(a, n, steps[i], PU_ADJOINT_AUTO, &column);
            TC_CLOSE(error, 0, 300 * PU_TEST_EPS);
            TC_ASSERT(column.orthogonality >= 0);
            TC_ASSERT((column.adjoint == PU_ADJOINT_SHORTCUT) ==
                      (column.orthogonality <= 16 * PU_TEST_EPS && column.growth <= 100));
            error = gradient_error(a, n, steps[i], PU_ADJOINT_FULL, &column);
            TC_CLOSE(error, 0, (spectra[s].outliers ? 3000 : 300) * PU_TEST_EPS);
            TC_ASSERT((column.adjoint == PU_ADJOINT_FULL) == (column.growth <= 1 / sqrt(PU_TEST_EPS)));
            TC_ASSERT(spectra[s].outliers || column.adjoint == PU_ADJOINT_FULL);
            error = gradient_error(a, n, steps[i], PU_ADJOINT_SHORTCUT, &column);
            TC_CLOSE(error, 0, 300 * PU_TEST_EPS);
            TC_ASSERT((column.adjoint == PU_ADJOINT_SHORTCUT) == (column.growth <= 100));
            tc_release(NULL);
        }
    PASS();
}

/* Spectra that are not kind: 0 uniform, 1 log-uniform, 2 clusters, 3 a few large outliers, 4 a few small ones, 5 geometric. */
static void draw_spectrum(pu_int n, int kind, double cond, uint64_t seed, pu_real *a)
{
    pu_int i;
    for (i = 0; i < n; i++) {
        double u = (double)(tc_hash(seed + 2 * (uint64_t)i) % 100000) / 100000;
        double v = (double)(tc_hash(seed + 2 * (uint64_t)i + 1) % 100000) / 100000;
        double x = pow(cond, kind == 5 ? (double)i / (double)(n - 1) : u);
        if (kind == 0) x = 1 + (cond - 1) * u;
        if (kind == 2) x = pow(cond, floor(4 * u) / 3) * (1 + 1e-3 * v);
        if (kind == 3) x = i < 5 ? cond * (0.1 + v) : 1 + 3 * u;
        if (kind == 4) x = i < 3 ? (1 + v) / cond : 1 + 3 * u;
        a[i] = (pu_real)x;
    }
}

/* A solve of random size, steps, tolerance and solver; n is returned, 0 where it broke down. */
typedef struct {
    pu_real a[120], u[120], m[120], x[120], grad[120], grad_u[120];
    pu_solve_options o;
    pu_report report;
} hard;

static pu_int draw_hard(hard *h, uint64_t seed)
{
    const pu_int n = 2 + (pu_int)(tc_hash(seed) % 119);
    const double digits = PU_TEST_EPS < 1e-10 ? 14 : 7;
    double cond = pow(10, 1 + (digits - 1) * (double)(tc_hash(seed + 1) % 1000) / 1000);
    pu_int i;
    draw_spectrum(n, (int)(tc_hash(seed + 2) % 6), cond, seed + 100, h->a);
    pu_normals(seed, 0, 0, 0, 3, 0, n, h->u);
    pu_normals(seed, 1, 0, 0, 3, 0, n, h->m);
    for (i = 0; i < n; i++) h->u[i] *= (pu_real)pow((double)h->a[i], (double)(tc_hash(seed + 3) % 3) / 2);
    for (i = 0; i < n; i++) h->m[i] = (pu_real)exp(2 * (double)h->m[i]);
    memset(&h->o, 0, sizeof h->o);
    if (tc_hash(seed + 4) % 3 == 0) h->o.solver = PU_PCG, h->o.precond = h->m;
    h->o.iterations = 2 + (pu_int)(tc_hash(seed + 5) % (uint64_t)(3 * n));
    if (tc_hash(seed + 6) % 5 < 2) {
        h->o.tolerance = pow(10, -2 - (double)(tc_hash(seed + 7) % (uint64_t)(digits - 4)));
        h->o.iterations = 1000;
    }
    return n;
}

static int solve_hard(hard *h, pu_int n, pu_adjoint adjoint)
{
    pu_op op = pu_op_diagonal(n, h->a);
    pu_status status;
    h->o.adjoint = adjoint;
    status = tc_pu_solve(&op, 1, h->u, 0, h->x, 0, NULL, NULL, &h->o, NULL, NULL, h->grad, h->grad_u, NULL, &h->report);
    return status >= 0 && status != PU_BREAKDOWN && status != PU_NONFINITE;
}

/* |got - want| / |want| for the gradient in diag(A), whose limit is x_j^2 / 2, or in u: -x_j; the output gradient if `output` */
static double distance(const hard *h, pu_int n, int in_u, int output)
{
    double off = 0, size = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        double x = (double)h->u[i] / (double)h->a[i], want = in_u ? -x : x * x / 2, y = (double)h->x[i];
        double got = in_u ? (double)h->grad_u[i] : (double)h->grad[i];
        if (output) got = in_u ? -y : y * y / 2;
        off += (got - want) * (got - want), size += want * want;
    }
    return sqrt(off / size);
}

/* On 1500 random problems (300 under sanitizers), conditioned up to 1/eps and worse, a full reverse pass that was not
   repeated is no further from the truth than three times the output gradient or the re-orthogonalised one, but for half
   of the digits. (Unguarded, one in six was off, by up to 1e150.) Those that were repeated are REORTHOGONAL's to the
   bit. */
TEST full_reverse_pass_does_not_explode(void)
{
    static hard full, other;
    const int problems = PU_TEST_SANITIZED ? 300 : 1500;
    int kept = 0, repeated = 0;
    uint64_t seed;
    for (seed = 1; seed <= (uint64_t)problems; seed++) {
        const pu_int n = draw_hard(&full, seed * 1000);
        int in_u;
        tc_set_case("seed %d", (int)seed);
        other = full;
        if (!solve_hard(&other, n, PU_ADJOINT_REORTHOGONAL) || !solve_hard(&full, n, PU_ADJOINT_FULL)) continue;
        TC_ASSERT(full.report.reorthogonalised == (full.report.worst_growth > 1 / sqrt(PU_TEST_EPS)));
        TC_ASSERT(full.report.status != PU_INEXACT);
        if (full.report.reorthogonalised) {
            repeated++;
            TC_ASSERT(memcmp(full.grad, other.grad, (size_t)n * sizeof(pu_real)) == 0);
            TC_ASSERT(memcmp(full.grad_u, other.grad_u, (size_t)n * sizeof(pu_real)) == 0);
            continue;
        }
        kept++;
        for (in_u = 0; in_u < 2; in_u++) {
            double allowed = distance(&full, n, in_u, 1);
            if (distance(&other, n, in_u, 0) > allowed) allowed = distance(&other, n, in_u, 0);
            TC_ASSERT(distance(&full, n, in_u, 0) <= 3 * allowed + sqrt(PU_TEST_EPS));
        }
    }
    TC_ASSERT(kept > problems / 5 && repeated > problems / 5);
    PASS();
}

/* Spectra without outliers keep the plain pass: nothing is repeated. */
TEST benign_spectra_are_not_repeated(void)
{
    static const double top[] = {4, 10, 100};
    static hard h;
    size_t t;
    int I;
    for (t = 0; t < 3; t++)
        for (I = 5; I <= 30; I += 25) {
            tc_set_case("to %g, I = %d", top[t], I);
            draw_spectrum(120, 0, top[t], 77, h.a);
            pu_normals(1, 0, 0, 0, 3, 0, 120, h.u);
            memset(&h.o, 0, sizeof h.o);
            h.o.iterations = I;
            TC_ASSERT(solve_hard(&h, 120, PU_ADJOINT_FULL));
            TC_ASSERT(h.report.reorthogonalised == 0 && h.report.worst_growth >= 1 && h.report.worst_growth < 100);
        }
    PASS();
}

/* A geometric spectrum, solved to a tolerance. Saved states leave no room to re-orthogonalise more than ten steps: then the
   status tells, and what to do. With ten steps and fewer they are no reason. */
TEST a_reverse_pass_that_cannot_be_repeated_says_so(void)
{
    static const pu_adjoint adjoints[] = {PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT};
    static hard h, whole;
    int i;
    draw_spectrum(30, 5, PU_TEST_EPS < 1e-10 ? 1e8 : 1e5, 0, h.a);
    pu_normals(1, 0, 0, 0, 3, 0, 30, h.u);
    for (i = 0; i < 2; i++) {
        memset(&h.o, 0, sizeof h.o);
        tc_set_case("adjoint %d", (int)adjoints[i]);
        h.o.tolerance = PU_TEST_EPS < 1e-10 ? 1e-10 : 1e-5, h.o.tape_every = PU_CHOOSE;
        TC_ASSERT(solve_hard(&h, 30, adjoints[i]));
        TC_STATUS(h.report.status, PU_INEXACT);
        TC_ASSERT(strstr(h.report.where.what, "adjoint") && strstr(h.report.where.what, "tape_every"));
        TC_ASSERT(h.report.worst_growth > 1 / sqrt(PU_TEST_EPS) && h.report.reorthogonalised == 0);
        h.o.tape_every = 0;
        TC_ASSERT(solve_hard(&h, 30, adjoints[i]));
        TC_STATUS(h.report.status, PU_OK);
        TC_ASSERT(h.report.reorthogonalised == 1);
        /* the exact gradient is -x: second order in the residual, which A^-1 enlarges, at most 1e-5 of x here */
        TC_ASSERT(distance(&h, 30, 1, 0) < 1e-4);
        h.o.tolerance = 0, h.o.iterations = 10;
        whole = h;
        h.o.tape_every = 3;
        TC_ASSERT(solve_hard(&h, 30, PU_ADJOINT_SHORTCUT) && solve_hard(&whole, 30, PU_ADJOINT_SHORTCUT));
        TC_STATUS(h.report.status, PU_OK);
        TC_ASSERT(h.report.reorthogonalised == 1 && memcmp(h.grad, whole.grad, 30 * sizeof(pu_real)) == 0);
    }
    PASS();
}

/* GD with a step above 2 / lambda_max: the residual grows, with a tolerance as without one. */
TEST divergence_is_told_in_tolerance_mode_too(void)
{
    pu_real a[2] = {1, 2}, u[2] = {1, 1}, x[2], step = 5;
    pu_op op = pu_op_diagonal(2, a);
    pu_solve_options o;
    int with;
    memset(&o, 0, sizeof o);
    o.solver = PU_GD, o.step = &step, o.iterations = 10;
    for (with = 0; with < 2; with++) {
        o.tolerance = with ? 1e-3 : 0;
        tc_set_case("tolerance %g", o.tolerance);
        TC_STATUS(tc_pu_solve(&op, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, NULL), PU_DIVERGED);
    }
    step = PU_R(0.1), o.tolerance = 1e-6; /* converges, too slowly */
    TC_STATUS(tc_pu_solve(&op, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, NULL), PU_CAP);
    PASS();
}

/* Numbers near the largest: what overflows is refused, and no array is touched. */
TEST solve_lets_nothing_infinite_out(void)
{
    const double most = PU_TEST_EPS < 1e-10 ? 1.7e308 : 3e38;
    pu_real a[3] = {1, 2, 3}, U[3] = {1, 1, PU_R(1e12)}, x[3], grad[3], weight = (pu_real)most;
    pu_op op = pu_op_diagonal(3, a);
    pu_solve_options o;
    pu_report report;
    pu_int I, i;
    memset(&o, 0, sizeof o);
    for (I = 0; I < 3; I++) {
        tc_set_case("I = %d", (int)I);
        o.iterations = I ? I : PU_ZERO;
        for (i = 0; i < 3; i++) x[i] = grad[i] = PU_R(7);
        if (tc_pu_solve(&op, 1, U, 0, x, 0, NULL, &weight, &o, NULL, NULL, NULL, grad, NULL, &report) == PU_OK) {
            for (i = 0; i < 3; i++) TC_ASSERT(fabs((double)grad[i]) <= most && fabs((double)x[i]) <= most);
            continue;
        }
        TC_STATUS(report.status, PU_NONFINITE);
        TC_ASSERT(strcmp(report.where.what, "grad_U") == 0 && report.where.index >= 0);
        for (i = 0; i < 3; i++) TC_ASSERT(x[i] == PU_R(7) && grad[i] == PU_R(7));
    }
    TC_STATUS(report.status, PU_NONFINITE); /* the last: weight times x */
    PASS();
}

/* ---- identities ---------------------------------------------------------------------------------------- */

typedef struct {
    pu_int n, k;
    pu_real *a, *u, *x, *grad_a, *grad_u;
    pu_op op;
} setup;

static void make_setup(setup *s, pu_int n, pu_int k)
{
    s->n = n, s->k = k;
    s->a = tc_random_spd(9, n);
    s->u = tc_normal(10, n * k);
    s->x = tc_reals(n * k), s->grad_a = tc_reals(n * n), s->grad_u = tc_reals(n * k);
    s->op = pu_op_spd(n, s->a, NULL);
}

static double dot(pu_int n, const pu_real *x, const pu_real *y)
{
    double s = 0;
    pu_int i;
    for (i = 0; i < n; i++) s += (double)x[i] * (double)y[i];
    return s;
}

/* GD: the network gradient in u after I steps is minus the iterate after 2I steps. */
TEST gd_network_is_gd_twice_as_long(void)
{
    setup s;
    pu_solve_options o;
    pu_real step = PU_R(0.2), *twice;
    pu_int I;
    memset(&o, 0, sizeof o);
    make_setup(&s, 23, 3);
    twice = tc_reals(23 * 3);
    o.solver = PU_GD;
    o.step = &step;
    for (I = 1; I < 12; I++) {
        pu_int i;
        tc_set_case("I = %d", (int)I);
        o.iterations = I;
        TC_STATUS(tc_pu_solve(&s.op, 3, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, s.grad_u, NULL, NULL), PU_OK);
        o.iterations = 2 * I;
        TC_STATUS(tc_pu_solve(&s.op, 3, s.u, 0, twice, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, NULL), PU_OK);
        for (i = 0; i < 69; i++) twice[i] = -twice[i];
        TC_ASSERT(pu_test_relerr(69, s.grad_u, twice) < 40 * PU_TEST_EPS);
    }
    PASS();
}

/* CG minimises 1/2 x'Ax - u'x over a Krylov space, so 1/2 x'Ax - u'x = -1/2 u'x, and dF/du = -x_I + (through the solver),
   with u'dF/du = 2F because F is quadratic in u. The same for SD and PCG: x_I is homogeneous in u. */
TEST value_identities(void)
{
    static const pu_solver solver[4] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    setup s;
    int v;
    pu_int I;
    make_setup(&s, 31, 2);
    for (v = 0; v < 4; v++)
        for (I = 0; I < 7; I++) {
            pu_solve_options o;
            pu_int i, j;
            memset(&o, 0, sizeof o);
            o.solver = solver[v];
            o.iterations = I ? I : PU_ZERO;
            tc_set_case("solver %d, I = %d", v, (int)I);
            TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, s.grad_u, NULL, NULL), PU_OK);
            for (j = 0; j < 2; j++) {
                const pu_real *u = s.u + j * 31, *x = s.x + j * 31;
                double xax = 0, ux = dot(31, u, x);
                for (i = 0; i < 31; i++) xax += (double)x[i] * dot(31, s.a + i * 31, x);
                if (v < 2) TC_CLOSE(xax, ux, 300 * PU_TEST_EPS * fabs(ux));
                TC_CLOSE(dot(31, u, s.grad_u + j * 31), xax - 2 * ux, 300 * PU_TEST_EPS * (fabs(ux) + dot(31, u, u)));
            }
        }
    PASS();
}

/* ---- stopping ------------------------------------------------------------------------------------------- */

/* More steps than a column needs: it freezes at rounding level, nothing divides by zero, and the gradient stays that of the
   solution. Two distinct eigenvalues: converged after two steps. One right-hand side is zero. */
TEST finished_columns_freeze(void)
{
    enum { n = 20, k = 3 };
    static const pu_solver solver[3] = {PU_CG, PU_PCG, PU_SD};
    double lambda[n];
    pu_real *a, *u = tc_normal(2, n * k), x[n * k], grad[n * n], grad_u[n * k], m[n];
    pu_op op;
    pu_int i, j, v;
    for (i = 0; i < n; i++) lambda[i] = i % 2 ? 1 : 3;
    for (i = 0; i < n; i++) m[i] = PU_R(0.7); /* a preconditioner that keeps the two eigenvalues two */
    a = with_spectrum(n, lambda, 1);
    op = pu_op_spd(n, a, NULL);
    for (i = 0; i < n; i++) u[n + i] = PU_R(0);
    for (v = 0; v < 3; v++) {
        pu_solve_options o;
        pu_column columns[k];
        pu_report report;
        memset(&o, 0, sizeof o);
        o.solver = solver[v];
        o.iterations = 200;
        if (o.solver == PU_PCG) o.precond = m;
        tc_set_case("solver %d", (int)v);
        TC_STATUS(tc_pu_solve(&op, k, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, grad, grad_u, columns, &report), PU_OK);
        TC_ASSERT(columns[1].stop == PU_STOP_ZERO && columns[1].steps == 0 && columns[1].true_residual == 0);
        for (j = 0; j < k; j += 2) {
            TC_ASSERT(columns[j].stop == PU_STOP_ROUNDING || columns[j].stop == PU_STOP_ZERO);
            TC_ASSERT(v == 2 ? columns[j].steps < 200 : columns[j].steps <= 4);
            TC_ASSERT(columns[j].true_residual <= 100 * PU_TEST_EPS * columns[j].rhs); /* floor: 45 eps */
            for (i = 0; i < n; i++) TC_CLOSE(grad_u[j * n + i], -x[j * n + i], 200 * PU_TEST_EPS * columns[j].rhs);
        }
        for (i = 0; i < n; i++) TC_ASSERT(x[n + i] == PU_R(0) && grad_u[n + i] == PU_R(0));
    }
    PASS();
}

TEST tolerance_mode_stops_each_column_by_itself(void)
{
    setup s;
    pu_solve_options o;
    pu_column columns[4], again[4];
    pu_report report;
    pu_backend device = *pu_backend_cpu(); /* looks at the flags only every so often */
    pu_int j, i, every;
    device.host = 0;
    make_setup(&s, 40, 4);
    memset(&o, 0, sizeof o);
    for (i = 0; i < 40; i++) s.u[80 + i] = s.a[i]; /* A e_1: x is a unit vector, found no sooner than others */
    for (i = 0; i < 40; i++) s.u[40 + i] *= PU_R(1e-3);
    o.tolerance = 1e-4;
    o.solver = PU_PCG;
    for (every = 1; every < 8; every += 3) {
        tc_set_case("every %d", (int)every);
        o.check_every = every;
        TC_STATUS(tc_pu_solve(&s.op, 4, s.u, 0, s.x, 0, NULL, NULL, &o, &device, NULL, s.grad_a, NULL, columns, &report), PU_OK);
        for (j = 0; j < 4; j++) {
            TC_ASSERT(columns[j].stop == PU_STOP_TOLERANCE);
            TC_ASSERT(columns[j].residual <= 1e-4 * columns[j].rhs && columns[j].true_residual <= 1.1e-4 * columns[j].rhs);
            if (every > 1) TC_ASSERT(columns[j].steps == again[j].steps); /* looking less often changes nothing */
        }
        memcpy(again, columns, sizeof again);
    }
    TC_ASSERT(report.stops[PU_STOP_TOLERANCE] == 4);
    o.tolerance = 0;
    o.absolute2 = 1e-2; /* the paper's rule, |r|^2 */
    tc_set_case("absolute");
    TC_STATUS(tc_pu_solve(&s.op, 4, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, columns, &report), PU_OK);
    for (j = 0; j < 4; j++) TC_ASSERT(columns[j].stop == PU_STOP_TOLERANCE && columns[j].residual <= 0.1);
    TC_ASSERT(columns[1].steps == 0 && columns[0].steps > 0); /* the small column starts below the target */
    o.tolerance = 1e-6;
    o.absolute2 = 0;
    o.iterations = 2;
    tc_set_case("cap");
    TC_STATUS(tc_pu_solve(&s.op, 4, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, columns, &report), PU_CAP);
    TC_ASSERT(report.where.column == 0 && report.where.index == 2 && columns[0].steps == 2);
    PASS();
}

/* A warm start at the solution takes no step; one near it beats a cold start. */
TEST warm_start(void)
{
    setup s;
    pu_solve_options o;
    pu_column cold[2], warm[2];
    pu_real *solution;
    pu_int i;
    make_setup(&s, 40, 2);
    memset(&o, 0, sizeof o);
    solution = tc_reals(80);
    tc_set_case("warm");
    o.tolerance = 100 * PU_TEST_EPS;
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, solution, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, cold, NULL), PU_OK);
    o.tolerance = 1e-4;
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, solution, NULL, &o, NULL, NULL, NULL, NULL, warm, NULL), PU_OK);
    TC_ASSERT(warm[0].steps == 0 && warm[1].steps == 0 && memcmp(solution, s.x, 80 * sizeof(pu_real)) == 0);
    for (i = 0; i < 80; i++) solution[i] *= PU_R(1.01);
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, cold, NULL), PU_OK);
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, solution, NULL, &o, NULL, NULL, NULL, NULL, warm, NULL), PU_OK);
    TC_ASSERT(warm[0].steps < cold[0].steps && warm[1].steps < cold[1].steps);
    PASS();
}

/* A GD step that is too large is told, not hidden; the estimated one converges. */
TEST gd_step_sizes(void)
{
    setup s;
    pu_solve_options o;
    pu_report report;
    pu_real step = PU_R(3);
    make_setup(&s, 40, 1);
    memset(&o, 0, sizeof o);
    o.solver = PU_GD;
    o.iterations = 5;
    o.step = &step;
    tc_set_case("step 3");
    TC_STATUS(tc_pu_solve(&s.op, 1, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, &report), PU_DIVERGED);
    o.step = NULL;
    o.iterations = 400;
    tc_set_case("estimated step");
    TC_STATUS(tc_pu_solve(&s.op, 1, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, &report), PU_OK);
    TC_ASSERT(report.worst_residual < 1e-5);
    PASS();
}

/* Results scale exactly with the right-hand side (powers of two), down to cotangents of 1e-13 and less: nothing in the
   reverse pass underflows in float. */
TEST small_right_hand_sides(void)
{
    setup s;
    pu_solve_options o;
    pu_real *x, *grad, factor = PU_R(1) / PU_R(1099511627776.0); /* 2^-40 */
    pu_int i;
    make_setup(&s, 33, 1);
    memset(&o, 0, sizeof o);
    x = tc_reals(33), grad = tc_reals(33);
    o.iterations = 9;
    tc_set_case("scale");
    TC_STATUS(tc_pu_solve(&s.op, 1, s.u, 0, x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, grad, NULL, NULL), PU_OK);
    for (i = 0; i < 33; i++) s.u[i] *= factor, x[i] *= factor, grad[i] *= factor;
    TC_STATUS(tc_pu_solve(&s.op, 1, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, s.grad_u, NULL, NULL), PU_OK);
    TC_ASSERT(memcmp(x, s.x, 33 * sizeof(pu_real)) == 0);
    TC_ASSERT(pu_test_relerr(33, s.grad_u, grad) < 20 * PU_TEST_EPS);
    PASS();
}

/* Columns do not see each other: solving them one at a time gives the same bits. */
TEST columns_are_independent(void)
{
    static const pu_solver solver[4] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    setup s;
    int v;
    pu_int j;
    make_setup(&s, 45, 5);
    for (v = 0; v < 4; v++) {
        pu_solve_options o;
        memset(&o, 0, sizeof o);
        o.solver = solver[v];
        o.iterations = 6;
        tc_set_case("solver %d", v);
        TC_STATUS(tc_pu_solve(&s.op, 5, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, NULL, s.grad_u, NULL, NULL), PU_OK);
        for (j = 0; j < 5; j++) {
            pu_real x[45], g[45];
            TC_STATUS(tc_pu_solve(&s.op, 1, s.u + j * 45, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, g, NULL, NULL), PU_OK);
            TC_ASSERT(memcmp(x, s.x + j * 45, sizeof x) == 0 && memcmp(g, s.grad_u + j * 45, sizeof g) == 0);
        }
    }
    PASS();
}

/* Checkpointed tapes of every interval give the gradient of the full tape to rounding. */
TEST checkpoints_change_memory_only(void)
{
    static const pu_solver solver[4] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    setup s;
    pu_real *full;
    int v;
    pu_int every;
    make_setup(&s, 37, 2);
    full = tc_reals(37 * 37);
    for (v = 0; v < 4; v++)
        for (every = 0; every < 12; every++) {
            pu_solve_options o;
            memset(&o, 0, sizeof o);
            o.solver = solver[v];
            o.iterations = 11;
            o.tape_every = every == 11 ? PU_CHOOSE : every;
            tc_set_case("solver %d, every %d", v, (int)o.tape_every);
            TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, s.grad_u, NULL, NULL), PU_OK);
            if (every == 0) memcpy(full, s.grad_a, 37 * 37 * sizeof(pu_real));
            else TC_ASSERT(pu_test_relerr(37 * 37, s.grad_a, full) < 20 * PU_TEST_EPS);
        }
    PASS();
}

/* Columns that stop at different steps, in tolerance mode: every reverse pass gives each its own gradient, and looking at the
   stop flags rarely or never (scalars on a device) gives the same bits as looking at every step. */
TEST columns_of_different_length_agree(void)
{
    static const pu_adjoint adjoint[4] = {PU_ADJOINT_FULL, PU_ADJOINT_SHORTCUT, PU_ADJOINT_REORTHOGONAL, PU_ADJOINT_AUTO};
    static const pu_solver solver[4] = {PU_CG, PU_PCG, PU_SD, PU_GD};
    pu_backend device = *pu_backend_cpu();
    setup s;
    pu_real *full_u, *x, *grad;
    pu_column columns[3], again[3];
    pu_report report;
    int v, a;
    pu_int i;
    make_setup(&s, 40, 3);
    device.host = 0;
    full_u = tc_reals(120), x = tc_reals(120), grad = tc_reals(120);
    for (v = 0; v < 6; v++) { /* power iteration: column 1 is mostly leading eigenvectors, and done sooner */
        for (i = 0; i < 40; i++) x[i] = (pu_real)dot(40, s.a + i * 40, s.u + 40);
        memcpy(s.u + 40, x, 40 * sizeof(pu_real));
    }
    for (i = 0; i < 40; i++) s.u[80 + i] *= PU_R(1e-2);
    for (v = 0; v < 4; v++)
        for (a = 0; a < (v < 2 ? 4 : 1); a++) {
            pu_solve_options o;
            memset(&o, 0, sizeof o);
            o.solver = solver[v];
            o.adjoint = adjoint[a];
            o.tolerance = 0.03;
            o.iterations = 300;
            tc_set_case("solver %d, adjoint %d", v, (int)adjoint[a]);
            TC_STATUS(tc_pu_solve(&s.op, 3, s.u, 0, s.x, 0, NULL, NULL, &o, NULL, NULL, s.grad_a, s.grad_u, columns, &report),
                      PU_OK);
            TC_ASSERT(report.status == PU_OK);
            if (v == 0) TC_ASSERT(columns[0].steps != columns[1].steps); /* otherwise this tests nothing */
            if (a == 0) memcpy(full_u, s.grad_u, 120 * sizeof(pu_real));
            else TC_ASSERT(pu_test_relerr(120, s.grad_u, full_u) < 100 * PU_TEST_EPS);
            for (i = 0; i < 3; i++) {
                TC_ASSERT(columns[i].stop == PU_STOP_TOLERANCE);
                TC_CLOSE(columns[i].residual, columns[i].true_residual, 100 * PU_TEST_EPS * columns[i].rhs);
            }
            for (o.check_every = 1; o.check_every < 9; o.check_every += 3) {
                TC_STATUS(tc_pu_solve(&s.op, 3, s.u, 0, x, 0, NULL, NULL, &o, &device, NULL, s.grad_a, grad, again, NULL), PU_OK);
                TC_ASSERT(memcmp(x, s.x, 120 * sizeof(pu_real)) == 0 && memcmp(grad, s.grad_u, 120 * sizeof(pu_real)) == 0);
                for (i = 0; i < 3; i++) TC_ASSERT(again[i].steps == columns[i].steps && again[i].stop == columns[i].stop);
            }
        }
    PASS();
}

/* u = 0 with a warm start away from it: the solution is zero, not a breakdown. */
TEST zero_right_hand_side_with_a_warm_start(void)
{
    setup s;
    pu_solve_options o;
    pu_column column;
    pu_int i;
    make_setup(&s, 12, 1);
    memset(&o, 0, sizeof o);
    o.iterations = 200;
    tc_set_case("u = 0");
    for (i = 0; i < 12; i++) s.u[i] = PU_R(0);
    TC_STATUS(tc_pu_solve(&s.op, 1, s.u, 0, s.x, 0, tc_normal(8, 12), NULL, &o, NULL, NULL, s.grad_a, s.grad_u, &column, NULL),
              PU_OK);
    for (i = 0; i < 12; i++) TC_CLOSE(s.x[i], 0, 1e3 * PU_TEST_EPS);
    PASS();
}

/* A repeated solve (AUTO) must not leave the first one's status behind; a tolerance beyond reach is told. */
TEST status_is_that_of_the_last_solve(void)
{
    const pu_int n = 60;
    pu_real *a = outlier_matrix(n, 5, 2000, 71), *u = tc_normal(3, n), *x = tc_reals(n), *grad = tc_reals(n * n);
    pu_op op = pu_op_spd(n, a, NULL);
    pu_solve_options o;
    pu_report report;
    pu_int I;
    int differ = 0;
    for (I = 4; I < 40; I++) {
        pu_status status;
        memset(&o, 0, sizeof o);
        o.tolerance = PU_TEST_PICK(1e-7, 1e-4);
        o.iterations = I;
        o.adjoint = PU_ADJOINT_AUTO;
        tc_set_case("I = %d", (int)I);
        status = tc_pu_solve(&op, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, grad, NULL, NULL, &report);
        TC_ASSERT(status == PU_OK || status == PU_CAP);
        TC_STATUS(report.status, status);
        differ |= status == PU_OK;
    }
    TC_ASSERT(differ);
    o.tolerance = 1e-3 * PU_TEST_EPS;
    o.iterations = 500;
    tc_set_case("tolerance below rounding");
    TC_STATUS(tc_pu_solve(&op, 1, u, 0, x, 0, NULL, NULL, &o, NULL, NULL, NULL, NULL, NULL, &report), PU_STAGNATED);
    PASS();
}

/* dF/dU alone needs no gradient of the operator, and is the same with one. A backend with a hole is refused. */
TEST gradient_of_the_right_hand_side_alone(void)
{
    setup s;
    pu_backend holed = *pu_backend_cpu();
    pu_report report;
    pu_real *alone;
    pu_op bare;
    make_setup(&s, 29, 2);
    alone = tc_reals(58);
    bare = s.op;
    bare.grad = NULL;
    tc_set_case("grad_U");
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, NULL, NULL, NULL, NULL, NULL, s.grad_a, s.grad_u, NULL, NULL), PU_OK);
    TC_STATUS(tc_pu_solve(&bare, 2, s.u, 0, s.x, 0, NULL, NULL, NULL, NULL, NULL, NULL, alone, NULL, NULL), PU_OK);
    TC_ASSERT(memcmp(alone, s.grad_u, 58 * sizeof(pu_real)) == 0);
    TC_STATUS(tc_pu_solve(&bare, 2, s.u, 0, s.x, 0, NULL, NULL, NULL, NULL, NULL, s.grad_a, NULL, NULL, &report),
              PU_E_UNSUPPORTED);
    holed.stage = NULL;
    TC_STATUS(tc_pu_solve(&s.op, 2, s.u, 0, s.x, 0, NULL, NULL, NULL, &holed, NULL, NULL, NULL, NULL, &report), PU_E_NULL);
    TC_ASSERT(strcmp(report.where.what, "backend") == 0);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SET_TEARDOWN(tc_release, NULL);
    RUN_TEST(reverse_pass_survives_outliers);
    RUN_TEST(full_reverse_pass_does_not_explode);
    RUN_TEST(benign_spectra_are_not_repeated);
    RUN_TEST(a_reverse_pass_that_cannot_be_repeated_says_so);
    RUN_TEST(divergence_is_told_in_tolerance_mode_too);
    RUN_TEST(solve_lets_nothing_infinite_out);
    RUN_TEST(gd_network_is_gd_twice_as_long);
    RUN_TEST(value_identities);
    RUN_TEST(finished_columns_freeze);
    RUN_TEST(tolerance_mode_stops_each_column_by_itself);
    RUN_TEST(warm_start);
    RUN_TEST(gd_step_sizes);
    RUN_TEST(small_right_hand_sides);
    RUN_TEST(columns_are_independent);
    RUN_TEST(checkpoints_change_memory_only);
    RUN_TEST(gradient_of_the_right_hand_side_alone);
    RUN_TEST(columns_of_different_length_agree);
    RUN_TEST(zero_right_hand_side_with_a_warm_start);
    RUN_TEST(status_is_that_of_the_last_solve);
    PU_TEST_MAIN_END();
}

/* test_engines.c - the exact engines against each other: dense, dual, banded, Kalman; auto; time series and other bands.

   Tolerances: every engine solves with A in double or in pu_real, so two of them differ by rounding times the condition
   of A, which is a few hundred for the models below; 1e4 eps of the largest entry allows for that and for sums over the
   series. The dense engine is the reference in pu_real itself, so its own rounding counts too. */
#include "pu_test.h"
#include "test_common.h"

enum { STEPS = 23, DATA = 3, STATES = 40 };

typedef struct {
    pu_ar ar;
    pu_ssm ssm;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
    pu_real *c, *psi;
} series;

typedef struct {
    pu_gradient_result out;
    pu_report report;
} answer;

/* z in D entries, N data with gaps, one datum wholly missing; a prior mean and an offset */
static void finish(series *s, uint64_t seed)
{
    const pu_int D = s->Gamma.rows, M = s->Phi.rows;
    pu_real *y = tc_normal(seed, DATA * M);
    pu_int i;
    for (i = 0; i < DATA * M; i++)
        if (i / M == 1 || tc_hash(seed * 1000 + (uint64_t)i) % 4 == 0) y[i] = PU_R(NAN);
    s->psi = tc_reals(M);
    for (i = 0; i < M; i++) s->psi[i] = PU_R(0.5) + (pu_real)(tc_hash((uint64_t)i) % 100) / PU_R(50);
    s->lgm.Gamma = &s->Gamma, s->lgm.Phi = &s->Phi, s->lgm.psi = s->psi;
    s->lgm.nu = tc_normal(seed + 1, D), s->lgm.eta = tc_normal(seed + 2, M);
    s->data = pu_data_nan(DATA, M, y);
}

static int make_ar(series *s, pu_int n, pu_int order)
{
    pu_real *gamma = tc_reals(order + 1), most = order > 16 ? PU_R(0.3) : PU_R(0.7); /* for a condition of a few hundred */
    pu_int i;
    size_t bytes;
    memset(s, 0, sizeof *s);
    for (i = 0; i < order; i++) gamma[i] = most * (i % 2 ? PU_R(-1) : PU_R(1)) / (pu_real)(1 + i / 2);
    if (pu_ar_bytes(order, &bytes) || (bytes && pu_ar_memory(&s->ar, tc_bytes(bytes), bytes))) return 0;
    if (pu_ar_set(&s->ar, n, order, gamma, PU_R(0.6), NULL)) return 0;
    s->Gamma = pu_op_ar(&s->ar), s->Phi = pu_op_identity(n);
    finish(s, (uint64_t)(n + 100 * order));
    return 1;
}

static int make_ssm(series *s, pu_int steps, pu_int S, pu_ssm_start start)
{
    pu_real A[STATES * STATES], Q[STATES * STATES], P0[STATES * STATES];
    pu_int i, j;
    size_t bytes;
    memset(s, 0, sizeof *s);
    for (i = 0; i < S; i++)
        for (j = 0; j < S; j++) {
            A[i * S + j] = i == j ? PU_R(0.6) : i - j < 4 && j - i < 4 ? PU_R(0.2) * (pu_real)(i - j) : 0;
            Q[i * S + j] = i == j ? PU_R(0.5) + PU_R(0.1) * (pu_real)(i % 3) : i / 3 == j / 3 ? PU_R(0.1) : 0;
            P0[i * S + j] = i == j ? PU_R(2) : i / 3 == j / 3 ? PU_R(0.3) : 0;
            if (S > 3 && i != j) A[i * S + j] /= 6;
        }
    if (pu_ssm_bytes(S, &bytes) || (bytes && pu_ssm_memory(&s->ssm, tc_bytes(bytes), bytes))) return 0;
    if (pu_ssm_set(&s->ssm, steps, S, A, Q, start, start == PU_SSM_GIVEN ? P0 : NULL, NULL)) return 0;
    s->c = tc_normal(77, S);
    s->Gamma = pu_op_ssm(&s->ssm), s->Phi = pu_op_readout(steps, S, s->c);
    finish(s, (uint64_t)(steps + 10 * S));
    return 1;
}

static answer ask(const series *s, pu_kind kind, pu_engine engine, pu_status *status)
{
    pu_options o;
    answer a;
    memset(&a, 0, sizeof a), memset(&o, 0, sizeof o);
    o.kind = kind, o.engine = engine, o.seed = 5;
    a.out.nu = tc_reals(s->Gamma.rows), a.out.Gamma = tc_reals(s->Gamma.params), a.out.Phi = tc_reals(s->Phi.params);
    a.out.eta = tc_reals(s->Phi.rows), a.out.psi = tc_reals(s->Phi.rows);
    a.out.x = tc_reals(DATA * (kind == PU_EXACT ? 1 : 11) * s->Gamma.rows);
    *status = pu_gradient(&s->lgm, &s->data, &o, NULL, &a.out, &a.report);
    return a;
}

/* largest |x - y|, relative to the largest |y|: more than tol? */
static int differ(pu_int n, const pu_real *x, const pu_real *y, double tol, const char *name)
{
    double worst = 0, size = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        const double e = fabs((double)x[i] - (double)y[i]);
        if (!(e <= worst)) worst = e;
        if (fabs((double)y[i]) > size) size = fabs((double)y[i]);
    }
    if (worst <= tol * size || (worst == 0 && size == 0)) return 0;
    snprintf(pu_test_message, sizeof pu_test_message, "%s: off by %g of %g, allowed %g", name, worst, size, tol * size);
    return 1;
}

static int answers_differ(const series *s, const answer *a, const answer *b, pu_int columns, double tol)
{
    return differ(s->Gamma.rows, a->out.nu, b->out.nu, tol, "nu") ||
           differ(s->Gamma.params, a->out.Gamma, b->out.Gamma, tol, "Gamma") ||
           differ(s->Phi.params, a->out.Phi, b->out.Phi, tol, "Phi") ||
           differ(s->Phi.rows, a->out.eta, b->out.eta, tol, "eta") ||
           differ(s->Phi.rows, a->out.psi, b->out.psi, tol, "psi") ||
           differ(DATA * columns * s->Gamma.rows, a->out.x, b->out.x, tol, "x");
}

/* Of series that are ill-conditioned for float the engines say that they lost half of the digits; they agree all the same
   to the tolerance, which knows the condition. */
static int fine(pu_status status) { return status == PU_OK || (status == PU_INEXACT && sizeof(pu_real) == sizeof(float)); }

static greatest_test_res agree(const series *s)
{
    static const pu_engine engines[] = {PU_DUAL, PU_BANDED, PU_KALMAN};
    const double tol = 1e4 * PU_TEST_EPS;
    pu_status status;
    answer dense = ask(s, PU_EXACT, PU_DENSE, &status);
    size_t e;
    TC_ASSERT(fine(status));
    for (e = 0; e < sizeof engines / sizeof *engines; e++) {
        answer a;
        if (engines[e] == PU_DUAL && !s->Gamma.solve) continue;
        a = ask(s, PU_EXACT, engines[e], &status);
        snprintf(tc_case + strlen(tc_case), sizeof tc_case - strlen(tc_case), ", %s", pu_engine_text(engines[e]));
        TC_ASSERT(fine(status));
        TC_ASSERT(a.report.served[engines[e]] == DATA && a.report.engine == engines[e] && strstr(a.report.plan, "as asked"));
        TC_CLOSE(a.report.nll, dense.report.nll, tol * (1 + fabs(dense.report.c)));
        TC_CLOSE(a.report.q, dense.report.q, tol * (1 + fabs(dense.report.c)));
        TC_ASSERT(a.report.worst_residual < tol);
        if (answers_differ(s, &a, &dense, 1, tol)) FAILm(tc_say(pu_test_message));
        if (engines[e] == PU_KALMAN) continue;
        { /* K direct solves */
            answer mc = ask(s, PU_MONTE_CARLO, engines[e], &status), want;
            TC_ASSERT(fine(status));
            want = ask(s, PU_MONTE_CARLO, PU_DENSE, &status);
            TC_ASSERT(fine(status));
            TC_CLOSE(mc.report.q, want.report.q, tol * (1 + fabs(dense.report.c)));
            if (answers_differ(s, &mc, &want, 11, tol)) FAILm(tc_say(pu_test_message));
            TC_ASSERT(differ(s->Gamma.params, mc.out.Gamma, dense.out.Gamma, 1e-3, "")); /* it is an estimate */
        }
    }
    PASS();
}

TEST autoregressions_agree(void)
{
    static const pu_int orders[] = {0, 1, 2, 5, 9, 16, 17, 33, 64};
    size_t i;
    pu_int n;
    for (i = 0; i < sizeof orders / sizeof *orders; i++)
        for (n = orders[i] > 0 ? orders[i] : 1; n <= 40 || n <= 3 * orders[i]; n += 1 + orders[i] / 2 + n / 3) {
            series s;
            tc_set_case("AR(%d), n = %d", (int)orders[i], (int)n);
            TC_ASSERT(make_ar(&s, n, orders[i]));
            CHECK_CALL(agree(&s));
        }
    PASS();
}

TEST state_spaces_agree(void)
{
    static const pu_ssm_start starts[] = {PU_SSM_ZERO, PU_SSM_STATIONARY, PU_SSM_GIVEN};
    pu_int S, steps;
    size_t i;
    for (i = 0; i < 3; i++)
        for (S = 1; S <= STATES; S += S < 3 ? 1 : S == 3 ? 14 : 23) /* 1, 2, 3, 17, 40 */
            for (steps = S > 3 ? 2 : 1; steps <= (S > 3 ? 5 : STEPS); steps += S > 3 ? 3 : 11) {
                series s;
                tc_set_case("S = %d, T = %d, start %d", (int)S, (int)steps, (int)i);
                TC_ASSERT(make_ssm(&s, steps, S, starts[i]));
                CHECK_CALL(agree(&s));
            }
    PASS();
}

/* Diagonal bands are bands too: sparse Bayesian learning with one reading per coefficient. */
TEST diagonals_agree(void)
{
    const pu_int D = 17;
    pu_real *alpha = tc_reals(D), *scale = tc_reals(D), one = PU_R(1.5);
    pu_int i;
    int which;
    for (i = 0; i < D; i++) alpha[i] = PU_R(0.3) + (pu_real)i, scale[i] = PU_R(2) - (pu_real)i / 7;
    for (which = 0; which < 2; which++) {
        series s;
        pu_status status;
        answer dense, banded;
        tc_set_case("diagonal %d", which);
        memset(&s, 0, sizeof s);
        s.Gamma = which ? pu_op_scaled_identity(D, &one) : pu_op_diagonal(D, alpha);
        s.Phi = which ? pu_op_diagonal(D, scale) : pu_op_scaled_identity(D, &one);
        finish(&s, 40 + (uint64_t)which);
        dense = ask(&s, PU_EXACT, PU_DENSE, &status);
        TC_STATUS(status, PU_OK);
        banded = ask(&s, PU_EXACT, PU_BANDED, &status);
        TC_STATUS(status, PU_OK);
        if (answers_differ(&s, &banded, &dense, 1, 1e3 * PU_TEST_EPS)) FAILm(tc_say(pu_test_message));
        ask(&s, PU_EXACT, PU_KALMAN, &status);
        TC_STATUS(status, PU_E_UNSUPPORTED);
    }
    PASS();
}

/* A long series that CG has solved to rounding: the banded engine is its limit. */
TEST banded_is_the_limit_of_cg(void)
{
    series s;
    pu_options o;
    pu_gradient_result out;
    pu_report report;
    pu_real *x, *y;
    const pu_int n = 2000;
    memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
    tc_set_case("AR(5), n = 2000");
    TC_ASSERT(make_ar(&s, n, 5));
    x = out.x = tc_reals(DATA * n);
    o.kind = PU_EXACT, o.engine = PU_BANDED;
    TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
    y = out.x = tc_reals(DATA * 2 * n);
    o.kind = PU_MONTE_CARLO, o.engine = PU_ITERATIVE, o.samples = 1;
    TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
    {
        pu_int d;
        for (d = 0; d < DATA; d++)
            if (differ(n, x + d * n, y + d * 2 * n, 1e4 * PU_TEST_EPS, "mean")) FAILm(tc_say(pu_test_message));
    }
    { /* the same probes, solved by CG to rounding and by the factor: the same gradient */
        pu_real cg[6], band[6];
        out.x = NULL, out.Gamma = cg, o.samples = 3;
        TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
        out.Gamma = band, o.engine = PU_BANDED;
        TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_OK);
        if (differ(6, cg, band, 1e5 * PU_TEST_EPS, "gradient")) FAILm(tc_say(pu_test_message));
    }
    PASS();
}

/* auto: exact where that is cheaper, and it says so; the same gradient as the engine it names, to the last bit */
TEST auto_says_what_it_chose(void)
{
    series s;
    pu_status status;
    answer chosen, banded;
    tc_set_case("auto on a series");
    TC_ASSERT(make_ar(&s, 400, 5));
    chosen = ask(&s, PU_NETWORK, PU_ENGINE_AUTO, &status);
    TC_STATUS(status, PU_OK);
    banded = ask(&s, PU_EXACT, PU_BANDED, &status);
    TC_STATUS(status, PU_OK);
    TC_ASSERT(chosen.report.served[PU_BANDED] == DATA && chosen.report.nll_se == 0 && chosen.report.nll == banded.report.nll);
    TC_ASSERT(strstr(chosen.report.plan, "3 of 3 data by banded, the cheapest") != NULL);
    TC_ASSERT(memcmp(chosen.out.Gamma, banded.out.Gamma, (size_t)s.Gamma.params * sizeof(pu_real)) == 0);
    PASS();
}

/* With D observed entries or more the dual engine is left out, however cheap. The plan says so where its figure is the
   smaller one, as in 30 entries of 5 factors, and is silent where dense is cheaper anyway. */
TEST auto_says_why_not_dual(void)
{
    enum { M = 30, N = 3 };
    static const char reason[] = ", not from D observed entries on: rounding";
    pu_int D, n;
    for (D = 5; D <= 40; D += 35) {
        pu_real *Phi = tc_normal(1, M * D), *psi = tc_reals(M), *y = tc_normal(2, N * M);
        pu_op prior = pu_op_identity(D), map = pu_op_dense(M, D, Phi);
        pu_lgm lgm = {&prior, &map, NULL, NULL, NULL, 0};
        pu_data data = pu_data_full(N, M, y);
        pu_gradient_result out;
        pu_options o;
        pu_report report;
        const char *at;
        memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
        tc_fill(M, psi, PU_R(2)), lgm.psi = psi;
        o.kind = PU_EXACT;
        out.psi = tc_reals(M);
        tc_set_case("D %d", (int)D);
        for (n = 0; n < N * M; n++) y[n] = n % M < 24 ? y[n] : PU_R(NAN);
        data = pu_data_nan(N, M, y);
        TC_STATUS(pu_gradient(&lgm, &data, &o, NULL, &out, &report), PU_OK);
        at = strstr(report.plan, reason);
        TC_ASSERT(report.served[D == 5 ? PU_DENSE : PU_DUAL] == N);
        TC_ASSERT((at != NULL) == (D == 5));
        TC_ASSERT(!at || strstr(at + 1, reason) == NULL);
    }
    PASS();
}

/* Factor model with very ragged data: a few entries by the dual engine, many by CG, all in one call. The gradient is the sum
   of what the two give apart. */
TEST auto_mixes(void)
{
    enum { M = 1200, D = 24 };
    const pu_int sizes[] = {3, 1100, 0, 900, 5};
    pu_int start[6], *index = (pu_int *)tc_bytes(3000 * sizeof *index), n, i, at = 0;
    pu_real *Phi = tc_normal(1, M * D), *psi = tc_reals(M), *y = tc_normal(2, 3000), *grad[3], *sum = tc_reals(M * D);
    pu_op prior = pu_op_identity(D), map = pu_op_dense(M, D, Phi);
    pu_lgm lgm = {&prior, &map, NULL, NULL, NULL, 0};
    pu_options o;
    pu_gradient_result out;
    pu_report report;
    double nll = 0;
    memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
    tc_set_case("ragged factors");
    tc_fill(M, psi, PU_R(2)), lgm.psi = psi;
    for (n = 0; n < 5; n++) {
        start[n] = at;
        for (i = 0; i < sizes[n]; i++) index[at++] = i;
    }
    start[5] = at;
    o.kind = PU_OUTPUT, o.engine = PU_ENGINE_AUTO, o.solve.iterations = 4, o.samples = 2;
    for (i = 0; i < 3; i++) grad[i] = tc_reals(M * D);
    {
        pu_data data = pu_data_lists(5, M, start, index, y);
        pu_real alpha[5 * 3 * 4], beta[5 * 3 * 4];
        tc_fill(60, alpha, PU_R(7)), tc_fill(60, beta, PU_R(7));
        out.Phi = grad[0], out.alpha = alpha, out.beta = beta;
        TC_STATUS(pu_gradient(&lgm, &data, &o, NULL, &out, &report), PU_OK);
        TC_ASSERT(report.served[PU_DUAL] == 3 && report.served[PU_ITERATIVE] == 2 && report.nll_se > 0);
        TC_ASSERT(strstr(report.plan, "2 of 5 data by iterative") && strstr(report.plan, "3 of 5 data by dual"));
        nll = report.nll;
        for (i = 0; i < 60; i++) /* no steps for those served exactly */
            TC_ASSERT(sizes[i / 12] > 100 ? alpha[i] > PU_R(0) : alpha[i] == PU_R(0) && beta[i] == PU_R(0));
        out.alpha = out.beta = NULL;
    }
    for (n = 0; n < 5; n++) { /* one by one, by the engine named, with the same stream of random numbers */
        pu_data data = pu_data_lists(1, M, start + n, index, y);
        pu_int id = n;
        data.id = &id;
        o.engine = sizes[n] > 100 ? PU_ITERATIVE : PU_DUAL, o.kind = sizes[n] > 100 ? PU_OUTPUT : PU_EXACT;
        out.Phi = grad[1];
        TC_STATUS(pu_gradient(&lgm, &data, &o, NULL, &out, &report), PU_OK);
        for (i = 0; i < M * D; i++) sum[i] += grad[1][i] / 5;
        nll -= report.nll / 5;
    }
    TC_CLOSE(nll, 0, 1e4 * PU_TEST_EPS * 1100);
    if (differ(M * D, grad[0], sum, 1e3 * PU_TEST_EPS, "Phi")) FAILm(tc_say(pu_test_message));
    PASS();
}

/* A random walk that hardly moves: A is nearly singular. The band, factored in double, has the right answer in float too; the
   dual engine, which has not, says so. */
TEST nearly_singular(void)
{
    const pu_int T = 1000;
    pu_real A = PU_R(1), Q = PU_TEST_PICK(PU_R(1e-14), PU_R(1e-7)), P0 = PU_R(1), c = PU_R(1), *psi = tc_reals(T),
            *y = tc_normal(3, T), x0;
    series s;
    pu_options o;
    pu_gradient_result out;
    pu_report report;
    pu_real *x = tc_reals(T);
    double mean = 0;
    pu_int i;
    memset(&s, 0, sizeof s), memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
    tc_set_case("nearly singular");
    tc_fill(T, psi, PU_R(1));
    TC_STATUS(pu_ssm_set(&s.ssm, T, 1, &A, &Q, PU_SSM_GIVEN, &P0, NULL), PU_OK);
    s.Gamma = pu_op_ssm(&s.ssm), s.Phi = pu_op_readout(T, 1, &c);
    s.lgm.Gamma = &s.Gamma, s.lgm.Phi = &s.Phi, s.lgm.psi = psi, s.data = pu_data_full(1, T, y);
    out.x = x;
    o.kind = PU_EXACT, o.engine = PU_BANDED;
    /* A_ii / pivot is about 2 / Q times a posterior variance of 1e-3: more than half of the digits of a double */
    TC_STATUS(pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report), PU_TEST_PICK(PU_INEXACT, PU_OK));
    TC_ASSERT(report.rounding_error > 1e-8 && report.rounding_error < 1);
    for (i = 0; i < T; i++) mean += (double)y[i] / (double)(T + 1); /* a constant of prior variance 1 */
    x0 = x[T / 2];
    TC_CLOSE(x0, mean, 0.002); /* it moves by sqrt(T Q) */
    o.engine = PU_DUAL;
    {
        const pu_status status = pu_gradient(&s.lgm, &s.data, &o, NULL, &out, &report);
        TC_ASSERT(status == PU_E_NOT_DEFINITE || status == PU_INEXACT || fabs((double)x[T / 2] - mean) < 0.01);
    }
    PASS();
}

/* NLL of an AR(1) about nu with noise 1/psi: innovations of a scalar filter, where nothing cancels. */
static double innovations(pu_int T, double phi, double kappa, double psi, const pu_real *y, const pu_real *nu)
{
    double m = 0, P = kappa / (1 - phi * phi), sum = 0;
    pu_int t;
    for (t = 0; t < T; t++, m *= phi, P = phi * phi * P + kappa) {
        const double S = P + 1 / psi, v = (double)y[t] - (double)nu[t] - m;
        if (y[t] != y[t]) continue;
        sum += (log(2 * 3.14159265358979323846 * S) + v * v / S) / 2;
        m += P / S * v, P *= 1 / (psi * S);
    }
    return sum;
}

/* Little noise, far from zero: c and b'mu are about 1e10 times the likelihood (float: 1e6 times), which would leave 6 digits
   of it (float: one). Formed as a sum of squares it keeps the digits of its terms: e - Phi mu is rounded by eps |e|, and
   multiplied by W (e - Phi mu), of order one; in float the entries of Gamma, rounded to eps and added up, are what is left. */
TEST little_noise(void)
{
    enum { T = 300 };
    static const pu_engine engines[] = {PU_DENSE, PU_DUAL, PU_BANDED, PU_KALMAN};
    const pu_real gamma = PU_R(0.9), kappa = PU_R(0.7), precision = PU_TEST_PICK(PU_R(1e6), PU_R(1e4));
    pu_real *nu = tc_reals(T), *psi = tc_reals(T), *z = tc_normal(5, T), *y = tc_reals(T), last = PU_R(0);
    series s;
    pu_exact_result dense;
    const double tol = PU_TEST_PICK(1e-12, 16 * PU_TEST_EPS);
    double want;
    size_t e;
    pu_int t;
    tc_set_case("little noise");
    memset(&s, 0, sizeof s), memset(&dense, 0, sizeof dense);
    tc_fill(T, psi, precision);
    for (t = 0; t < T; t++) {
        nu[t] = PU_TEST_PICK(PU_R(100), PU_R(10));
        last = gamma * last + z[t];
        y[t] = t % 7 == 3 ? PU_R(NAN) : nu[t] + last;
    }
    TC_STATUS(pu_ar_set(&s.ar, T, 1, &gamma, kappa, NULL), PU_OK);
    s.Gamma = pu_op_ar(&s.ar), s.Phi = pu_op_identity(T), s.data = pu_data_nan(1, T, y);
    s.lgm.Gamma = &s.Gamma, s.lgm.Phi = &s.Phi, s.lgm.nu = nu, s.lgm.psi = psi;
    want = innovations(T, (double)gamma, (double)kappa, (double)precision, y, nu);
    for (e = 0; e < sizeof engines / sizeof *engines; e++) {
        pu_options o;
        pu_report report;
        double got;
        memset(&o, 0, sizeof o);
        o.kind = PU_EXACT, o.engine = engines[e];
        tc_set_case("little noise, engine %d", (int)engines[e]);
        TC_STATUS(pu_nll(&s.lgm, &s.data, &o, NULL, &got, NULL, &report), PU_OK);
        if (getenv("PU_SHOW")) printf("engine %d: NLL %.12g, off by %.1e of it\n", (int)engines[e], got, fabs(got / want - 1));
        TC_CLOSE(got / want, 1, tol);
        TC_CLOSE(report.q - report.network, 0, 0); /* no probes */
    }
    tc_set_case("little noise, pu_exact");
    TC_STATUS(pu_exact(&s.lgm, &s.data, 0, NULL, &dense, NULL), PU_OK);
    if (getenv("PU_SHOW")) printf("pu_exact: off by %.1e\n", fabs(dense.nll / want - 1));
    TC_CLOSE(dense.nll / want, 1, tol);
    PASS();
}

/* psi up to 1e16 (float: 1e8), ten observations of eight numbers: A is as good as Phi'Phi, but the dual engine's matrix
   I + psi Phi Phi' has no digit of its ones left. */
TEST auto_leaves_an_engine_that_loses_the_digits(void)
{
    enum { D = 8, M = 20 };
    pu_real *phi = tc_normal(1, M * D), *y = tc_normal(2, M), *psi = tc_reals(M);
    pu_real eta[2][M], variance[2][D];
    unsigned char mask[M] = {0};
    pu_op prior = pu_op_identity(D), map = pu_op_dense(M, D, phi);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_masked(1, M, y, mask);
    memset(mask, 1, 10);
    for (double precision = 1e4; precision < PU_TEST_PICK(1e17, 1e9); precision *= 100) {
        pu_report report[2];
        tc_fill(M, psi, (pu_real)precision);
        for (int e = 0; e < 2; e++) {
            pu_options o;
            pu_gradient_result out;
            pu_posterior_result moments;
            memset(&o, 0, sizeof o);
            memset(&out, 0, sizeof out);
            memset(&moments, 0, sizeof moments);
            o.kind = PU_EXACT;
            o.engine = e ? PU_ENGINE_AUTO : PU_DENSE;
            o.samples = PU_ZERO;
            out.eta = eta[e];
            moments.variance = variance[e];
            tc_set_case("psi %g, %s", precision, pu_engine_text(o.engine));
            TC_STATUS(pu_posterior(&model, &data, &o, NULL, &moments, &report[e]), PU_OK);
            TC_STATUS(pu_gradient(&model, &data, &o, NULL, &out, &report[e]), PU_OK);
        }
        /* the same engine in the end, or one that is as good: PU_OK promises half of the digits */
        TC_CLOSE(report[1].nll / report[0].nll, 1, sqrt(PU_TEST_EPS));
        TC_ASSERT(pu_test_relerr(10, eta[1], eta[0]) <= 10 * sqrt(PU_TEST_EPS));
        for (int i = 0; i < D; i++)
            TC_CLOSE(variance[1][i] / variance[0][i], 1, 10 * sqrt(PU_TEST_EPS));
    }
    PASS();
}

/* A random walk seen almost exactly: variances are 1/A_ii, but for 2/psi^2. Filters that subtract covariances end with 0. */
TEST little_noise_leaves_little_variance(void)
{
    enum { T = 5 };
    static const pu_engine engines[] = {PU_DENSE, PU_DUAL, PU_BANDED, PU_KALMAN, PU_ENGINE_AUTO};
    pu_real A = PU_R(0.9), Q = 1, c = 1, psi[T], y[T] = {1, 2, 1, 0, 1};
    pu_ssm m;
    pu_op prior, map = pu_op_readout(T, 1, &c);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, T, y);
    TC_STATUS(pu_ssm_set(&m, T, 1, &A, &Q, PU_SSM_ZERO, NULL, NULL), PU_OK);
    prior = pu_op_ssm(&m);
    for (double precision = PU_TEST_PICK(1e6, 1e4); precision < PU_TEST_PICK(2e18, 2e9); precision *= 100) {
        tc_fill(T, psi, (pu_real)precision);
        for (int e = 0; e < 5; e++) {
            pu_options o;
            pu_posterior_result out;
            pu_report report;
            pu_real variance[T];
            pu_status status;
            double error = 0;
            memset(&o, 0, sizeof o);
            memset(&out, 0, sizeof out);
            o.kind = PU_EXACT;
            o.engine = engines[e];
            o.samples = PU_ZERO;
            out.variance = variance;
            status = pu_posterior(&model, &data, &o, NULL, &out, &report);
            for (int i = 0; i < T; i++)
                error = fmax(error, fabs((double)variance[i] * ((double)psi[i] + (i < T - 1 ? 1.81 : 1)) - 1));
            tc_set_case("psi %g, %s: off by %.2g, told %.2g", precision, pu_engine_text(engines[e]), error,
                        report.rounding_error);
            if (engines[e] == PU_DUAL && status == PU_INEXACT) {
                TC_ASSERT(report.rounding_error >= 1 || report.rounding_error >= error / 10);
                continue;
            }
            TC_STATUS(status, PU_OK);
            TC_ASSERT(error <= (engines[e] == PU_DUAL ? 10 * sqrt(PU_TEST_EPS) : 16 * PU_TEST_EPS + 2 / precision / precision));
        }
    }
    PASS();
}

/* What cannot be, is refused by name; a band that is not the operator is seen. */
static pu_status wrong_band(const pu_op *op, pu_int width, double *B, pu_real *work)
{
    pu_int i;
    (void)work;
    for (i = 0; i < op->rows; i++) B[i * (width + 1)] += 3;
    return PU_OK;
}

TEST refusals(void)
{
    series s;
    pu_status status;
    answer a;
    static const pu_kind kinds[] = {PU_NETWORK, PU_OUTPUT, PU_MONTE_CARLO};
    size_t i;
    tc_set_case("refusals");
    TC_ASSERT(make_ar(&s, 12, 2));
    for (i = 0; i < 3; i++) {
        a = ask(&s, kinds[i], PU_KALMAN, &status);
        TC_STATUS(status, PU_E_ARGUMENT);
        TC_ASSERT(tc_named(a.report.where.what, "options.engine"));
    }
    s.Gamma.band_add = wrong_band;
    a = ask(&s, PU_EXACT, PU_BANDED, &status);
    TC_STATUS(status, PU_E_OPERATOR);
    TC_ASSERT(strstr(a.report.where.what, "band_add") != NULL);
    s.Gamma.band_add = NULL;
    a = ask(&s, PU_EXACT, PU_BANDED, &status);
    TC_STATUS(status, PU_E_UNSUPPORTED);
    TC_ASSERT(tc_named(a.report.where.what, "Gamma.band_add"));
    PASS();
}

/* ---- matrices of every size around the edges of blocks, against plain loops in double ---- */

static const pu_int edges[] = {1, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
enum { EDGES = sizeof edges / sizeof *edges };

/* A factor entry by entry, and a pivot that is not positive at every place that matters. */
TEST factors_of_all_sizes(void)
{
    size_t e;
    for (e = 0; e < EDGES; e++) {
        const pu_int n = edges[e];
        pu_real *a = tc_random_spd((uint64_t)n, n), *L = tc_reals(n * n);
        double *want = tc_doubles(n * n);
        pu_int i, index, bad;
        tc_set_case("factor, n = %d", (int)n);
        for (i = 0; i < n * n; i++) want[i] = (double)a[i];
        TC_ASSERT(tc_cholesky(n, want));
        TC_STATUS(pu_spd_factor(n, a, L, &index), PU_OK);
        for (i = 0; i < n * n; i++) TC_CLOSE(L[i], want[i], 100 * PU_TEST_EPS * sqrt((double)a[i / n * (n + 1)]));
        for (bad = 0; bad < n; bad += bad / 4 + 1) { /* A_bad,bad just below what the rows before it leave */
            const pu_real keep = a[bad * (n + 1)];
            double used = 0;
            for (i = 0; i < bad; i++) used += want[bad * n + i] * want[bad * n + i];
            a[bad * (n + 1)] = (pu_real)(bad ? used * 0.99 : 0.5);
            if (bad == 0) a[0] = PU_R(-1);
            TC_STATUS(pu_spd_factor(n, a, L, &index), PU_E_NOT_DEFINITE);
            TC_ASSERT(index == bad * n + bad);
            a[bad * (n + 1)] = keep;
        }
    }
    PASS();
}

/* One datum, m of M rows seen, z = D entries with a diagonal prior: everything there is, in loops. */
static greatest_test_res sizes_agree(pu_int D, pu_int m, int whole)
{
    static const pu_engine engines[] = {PU_DENSE, PU_DUAL};
    const pu_int M = m + (whole ? 0 : m / 3 + 2);
    double tol = 200 * PU_TEST_EPS;
    pu_real *Phi = tc_normal((uint64_t)(1000 * D + m), M * D), *psi = tc_random_positive(3, M),
            *gamma = tc_random_positive(4, D), *y = tc_normal(5, M);
    pu_real *gPhi = tc_reals(M * D), *gpsi = tc_reals(M), *ggamma = tc_reals(D), *Sigma = tc_reals(D * D);
    pu_real *want_Phi = tc_reals(M * D), *want_psi = tc_reals(M), *want_gamma = tc_reals(D), *want_Sigma = tc_reals(D * D);
    double *A = tc_doubles(D * D), *S = tc_doubles(D * D), *mu = tc_doubles(D), logdet;
    pu_op prior = pu_op_diagonal(D, gamma), map = pu_op_dense(M, D, Phi);
    pu_lgm lgm = {&prior, &map, NULL, NULL, NULL, 0};
    pu_data data = pu_data_nan(1, M, y);
    pu_exact_result exact;
    pu_report report;
    pu_int i, j, k, seen = 0;
    size_t e;
    tc_set_case("D = %d, m = %d of %d", (int)D, (int)m, (int)M);
    lgm.psi = psi;
    for (i = 0; i < M * D; i++) Phi[i] /= (pu_real)sqrt((double)D);
    for (i = 0; i < M; i++) { /* m rows, spread out */
        if (i * m / M == seen && seen < m) seen++;
        else y[i] = PU_R(NAN);
    }
    for (i = 0; i < D; i++) A[i * D + i] = (double)gamma[i];
    for (k = 0, seen = 0; k < M; k++) {
        if (y[k] != y[k]) continue;
        seen++;
        for (i = 0; i < D; i++) {
            mu[i] += (double)Phi[k * D + i] * (double)psi[k] * (double)y[k];
            for (j = 0; j < D; j++) A[i * D + j] += (double)Phi[k * D + i] * (double)psi[k] * (double)Phi[k * D + j];
        }
    }
    TC_ASSERT(seen == m);
    TC_ASSERT(tc_cholesky(D, A));
    logdet = tc_logdet(D, A);
    tc_solve(D, A, mu);
    tc_inverse(D, A, S);
    for (i = 0; i < D * D; i++) want_Sigma[i] = (pu_real)S[i], S[i] += mu[i / D] * mu[i % D];
    for (i = 0; i < D; i++) want_gamma[i] = (pu_real)(S[i * D + i] / 2);
    for (k = 0; k < M; k++) {
        double fit = 0, spread = 0;
        if (y[k] != y[k]) continue;
        for (i = 0; i < D; i++) {
            double row = 0;
            for (j = 0; j < D; j++) row += (double)Phi[k * D + j] * S[j * D + i];
            want_Phi[k * D + i] = (pu_real)((double)psi[k] * (row - (double)y[k] * mu[i]));
            spread += row * (double)Phi[k * D + i], fit += (double)Phi[k * D + i] * mu[i];
        }
        want_psi[k] = (pu_real)(spread / 2 - (double)y[k] * fit + (double)y[k] * (double)y[k] / 2 - 1 / (2 * (double)psi[k]));
    }
    memset(&exact, 0, sizeof exact);
    exact.Sigma = Sigma;
    TC_STATUS(pu_exact(&lgm, &data, 0, NULL, &exact, &report), PU_OK);
    TC_CLOSE(exact.logdet, logdet, tol * (1 + fabs(logdet)));
    if (differ(D * D, Sigma, want_Sigma, tol, "Sigma")) FAILm(tc_say(pu_test_message));
    for (e = 0; e < 2; e++) {
        pu_options o;
        pu_gradient_result out;
        memset(&o, 0, sizeof o), memset(&out, 0, sizeof out);
        tc_set_case("D = %d, m = %d of %d, %s", (int)D, (int)m, (int)M, pu_engine_text(engines[e]));
        if (engines[e] == PU_DUAL) tol *= 1 + (double)m / (double)D; /* about the condition of I + R Gamma^-1 R' */
        o.kind = PU_EXACT, o.engine = engines[e], out.Phi = gPhi, out.psi = gpsi, out.Gamma = ggamma;
        /* with more observations than unknowns the dual matrix is ill-conditioned, and says so when it is */
        if (pu_gradient(&lgm, &data, &o, NULL, &out, &report) != PU_INEXACT || engines[e] != PU_DUAL || m < D)
            TC_STATUS(report.status, PU_OK);
        for (i = 0; i < D; i++) ggamma[i] += PU_R(1) / (2 * gamma[i]); /* where m is small they nearly cancel */
        if (differ(M * D, gPhi, want_Phi, tol, "Phi") || differ(M, gpsi, want_psi, tol, "psi") ||
            differ(D, ggamma, want_gamma, tol, "Gamma"))
            FAILm(tc_say(pu_test_message));
    }
    PASS();
}

TEST engines_of_all_sizes(void)
{
    size_t e;
    for (e = 0; e < EDGES; e++) {
        const size_t mark = tc_kept_count;
        CHECK_CALL(sizes_agree(edges[e], edges[EDGES - 1 - e], e % 2 != 0));
        CHECK_CALL(sizes_agree(edges[e], edges[e] / 2 + 3, e % 2 == 0));
        CHECK_CALL(sizes_agree(edges[e] / 2 + 3, edges[e], 1));
        tc_release_to(mark);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(autoregressions_agree);
    RUN_TEST(state_spaces_agree);
    RUN_TEST(diagonals_agree);
    RUN_TEST(banded_is_the_limit_of_cg);
    RUN_TEST(auto_says_what_it_chose);
    RUN_TEST(auto_says_why_not_dual);
    RUN_TEST(auto_mixes);
    RUN_TEST(nearly_singular);
    RUN_TEST(little_noise);
    RUN_TEST(auto_leaves_an_engine_that_loses_the_digits);
    RUN_TEST(little_noise_leaves_little_variance);
    RUN_TEST(refusals);
    RUN_TEST(factors_of_all_sizes);
    RUN_TEST(engines_of_all_sizes);
    PU_TEST_MAIN_END();
}

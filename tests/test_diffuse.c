/* test_diffuse.c - diffuse starts of state spaces: the likelihood and its gradient against proper starts that are wide, in
   wide arithmetic; data that do not identify a state; calls that need a covariance. */
#include "pu_test.h"
#include "test_common.h"
#include "wide.h"

enum { MOST_S = 4, MOST_T = 24 };

/* A start in wide arithmetic has this variance. What it leaves out is of order 1/WIDE, what it rounds of order WIDE eps. */
#define WIDE  (WIDE_DIGITS > 100 ? 1e15 : 1e9)
#define STEP  (WIDE_DIGITS > 100 ? 1e-8 : 1e-4)
#define LIMIT (WIDE_DIGITS > 100 ? 1e-13 : 1e-7)

typedef struct {
    pu_int T, S;
    pu_ssm_start start;
    unsigned diffuse; /* states, by bit, but for PU_SSM_DIFFUSE */
    int gaps;         /* 0: none, 1: the first steps, 2: every third, 3: all but a few at the end */
} start_case;

/* Two diffuse states of a start that is otherwise stationary do not drive the others: see build. */
static const start_case cases[] = {{1, 1, PU_SSM_DIFFUSE, 0, 0},     {2, 1, PU_SSM_DIFFUSE, 0, 0},
                                   {9, 1, PU_SSM_DIFFUSE, 0, 2},     {12, 2, PU_SSM_DIFFUSE, 0, 0},
                                   {20, 2, PU_SSM_DIFFUSE, 0, 1},    {24, 3, PU_SSM_DIFFUSE, 0, 3},
                                   {24, 4, PU_SSM_DIFFUSE, 0, 2},    {14, 2, PU_SSM_STATIONARY, 2, 0},
                                   {20, 3, PU_SSM_STATIONARY, 6, 1}, {20, 4, PU_SSM_STATIONARY, 8, 3},
                                   {12, 2, PU_SSM_ZERO, 1, 0},       {15, 3, PU_SSM_ZERO, 5, 2},
                                   {12, 2, PU_SSM_GIVEN, 1, 1},      {15, 3, PU_SSM_GIVEN, 2, 2},
                                   {15, 4, PU_SSM_GIVEN, 9, 3},      {10, 2, PU_SSM_STATIONARY, 3, 0}};
#define CASES ((int)(sizeof cases / sizeof *cases))

typedef struct {
    start_case c;
    pu_int params;       /* A, Q, P0 if given, c, psi */
    int open[MOST_S];
    pu_real theta[3 * MOST_S * MOST_S + MOST_S + MOST_T], P0[MOST_S * MOST_S], y[MOST_T];
    pu_ssm ssm;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
} model;

static pu_real *q_of(model *m) { return m->theta + m->c.S * m->c.S; }
static pu_real *c_of(model *m) { return m->theta + (m->c.start == PU_SSM_GIVEN ? 3 : 2) * m->c.S * m->c.S; }

/* A that forgets slowly: a level, a state that changes its sign at every step, and a rotation, all of them diffuse; proper
   states forget. A full Q, and noise of its own at every step. */
static model *build(const start_case *c)
{
    model *m = (model *)tc_bytes(sizeof *m);
    pu_int S = c->S, SS = S * S;
    pu_real *Q, *psi;
    int opened = 0;
    memset(m, 0, sizeof *m);
    m->c = *c;
    Q = q_of(m);
    psi = c_of(m) + S;
    m->params = (c_of(m) - m->theta) + S + c->T;
    tc_fill_normal(7 + (uint64_t)S, m->params, m->theta);
    for (pu_int i = 0; i < S; i++) m->open[i] = c->start == PU_SSM_DIFFUSE || (c->diffuse >> i & 1);
    for (pu_int i = 0; i < SS; i++) {
        pu_int row = i / S, col = i % S;
        m->theta[i] = (pu_real)(0.05 * (double)m->theta[i]);
        if (c->start == PU_SSM_STATIONARY && m->open[col] && !m->open[row]) m->theta[i] = 0;
        if (row == col) m->theta[i] = PU_R(0.6);
        if (row == col && m->open[row]) m->theta[i] = opened++ ? PU_R(-0.96875) : 1;
        if (c->start == PU_SSM_DIFFUSE && S > 2 && row >= S - 2 && col >= S - 2) { /* by a quarter of a turn, nearly */
            m->theta[i] = row == col ? PU_R(0.125) : PU_R(0.96875);
            if (col > row) m->theta[i] *= -1;
        }
        Q[i] = row == col ? PU_R(0.5) + PU_R(0.25) * (pu_real)row : PU_R(0.125);
        if (c->start == PU_SSM_GIVEN) Q[SS + i] = row == col ? PU_R(2.0) : PU_R(0.25);
        m->P0[i] = 0;
    }
    for (pu_int i = 0; i < SS; i++) {
        int either = m->open[i / S] || m->open[i % S];
        if (c->start == PU_SSM_GIVEN && either) Q[SS + i] = 0;
        if (c->start == PU_SSM_GIVEN) m->P0[i] = Q[SS + i];
        if (i / S == i % S && m->open[i / S]) m->P0[i] = (pu_real)INFINITY;
    }
    for (pu_int i = 0; i < S; i++) c_of(m)[i] = PU_R(1.0) + PU_R(0.25) * (pu_real)i;
    for (pu_int t = 0; t < c->T; t++) psi[t] = PU_R(0.5) + PU_R(0.125) * (pu_real)(t % 5);
    tc_fill_normal(91, c->T, m->y);
    for (pu_int t = 0; t < c->T; t++) {
        m->y[t] += (pu_real)t / 8;
        if ((c->gaps == 1 && t < 5) || (c->gaps == 2 && t % 3 == 1) || (c->gaps == 3 && t < c->T - S - 1)) m->y[t] = PU_R(NAN);
    }
    m->data = pu_data_nan(1, c->T, m->y);
    if (pu_ssm_set(&m->ssm, c->T, S, m->theta, Q, c->start, c->start == PU_SSM_DIFFUSE ? NULL : m->P0, NULL)) return NULL;
    m->Gamma = pu_op_ssm(&m->ssm);
    m->Phi = pu_op_readout(c->T, S, c_of(m));
    m->lgm.Gamma = &m->Gamma;
    m->lgm.Phi = &m->Phi;
    m->lgm.psi = psi;
    tc_set_case("T %d, S %d, start %d, diffuse %u, gaps %d", (int)c->T, (int)S, (int)c->start, c->diffuse, c->gaps);
    return m;
}

/* Outputs are written. */
static int ran(pu_status s) { return s == PU_OK || s == PU_CAP || s == PU_STAGNATED || s == PU_INEXACT; }

/* ---- the likelihood with a wide start --------------------------------------------------------- */

static wide root_of(wide x)
{
    wide r = (wide)sqrt((double)x);
    for (int i = 0; i < 3; i++) r = (r + x / r) / 2;
    return r;
}

/* out = a x a' + add */
static void step_covariance(pu_int S, const wide *a, const wide *x, const wide *add, wide *out)
{
    for (pu_int i = 0; i < S; i++) {
        for (pu_int j = 0; j < S; j++) {
            wide sum = add[i * S + j];
            for (pu_int k = 0; k < S * S; k++) sum += a[i * S + k / S] * x[k] * a[j * S + k % S];
            out[i * S + j] = sum;
        }
    }
}

/* P0 of the proper states; WIDE on the diagonal of the others. A of the stationary ones is closed. */
static void start_of(const model *m, const wide *theta, wide *P)
{
    pu_int S = m->c.S, SS = S * S;
    const wide *Q = theta + SS;
    wide A[MOST_S * MOST_S], q[MOST_S * MOST_S], next[MOST_S * MOST_S];
    for (pu_int i = 0; i < SS; i++) {
        int either = m->open[i / S] || m->open[i % S];
        A[i] = either ? 0 : theta[i];
        q[i] = either ? 0 : (Q[i] + Q[i % S * S + i / S]) / 2;
        P[i] = q[i];
        if (m->c.start == PU_SSM_GIVEN && !either) P[i] = (Q[SS + i] + Q[SS + i % S * S + i / S]) / 2;
    }
    for (int k = 0; k < 400 && m->c.start == PU_SSM_STATIONARY; k++) { /* 0.6^800 */
        step_covariance(S, A, P, q, next);
        memcpy(P, next, sizeof next);
    }
    for (pu_int i = 0; i < S; i++) {
        if (m->open[i]) P[i * (S + 1)] = (wide)WIDE;
    }
}

/* -log p(y) of the observed entries, less 1/2 log WIDE for each diffuse state: from the covariance of y. */
static double limit_nll(const model *m, const wide *theta)
{
    pu_int S = m->c.S, SS = S * S, T = m->c.T, n = 0, at[MOST_T];
    const wide *c = theta + (c_of((model *)(uintptr_t)m) - m->theta), *psi = c + S;
    static wide V[MOST_T * MOST_T];
    wide P[MOST_S * MOST_S], next[MOST_S * MOST_S], Q[MOST_S * MOST_S], x[MOST_S], moved[MOST_S], e[MOST_T];
    double nll = 0;
    for (pu_int i = 0; i < SS; i++) Q[i] = (theta[SS + i] + theta[SS + i % S * S + i / S]) / 2;
    start_of(m, theta, P);
    for (pu_int t = 0; t < T; t++) {
        for (pu_int i = 0; i < S; i++) {
            x[i] = 0;
            for (pu_int j = 0; j < S; j++) x[i] += P[i * S + j] * c[j];
        }
        for (pu_int u = t; u < T; u++) { /* cov(z_u, c'z_t) = A^(u-t) P c */
            wide sum = u == t ? 1 / psi[t] : 0;
            for (pu_int i = 0; i < S; i++) {
                sum += c[i] * x[i];
                moved[i] = 0;
                for (pu_int j = 0; j < S; j++) moved[i] += theta[i * S + j] * x[j];
            }
            V[u * T + t] = sum;
            memcpy(x, moved, sizeof x);
        }
        step_covariance(S, theta, P, Q, next);
        memcpy(P, next, sizeof next);
    }
    for (pu_int t = 0; t < T; t++) {
        if (m->y[t] == m->y[t]) at[n++] = t;
    }
    /* L L' = V of the observed, and L e = y, row by row */
    for (pu_int i = 0; i < n; i++) {
        wide *row = V + at[i] * T;
        e[i] = (wide)m->y[at[i]];
        for (pu_int j = 0; j <= i; j++) {
            const wide *other = V + at[j] * T;
            wide sum = row[at[j]];
            for (pu_int k = 0; k < j; k++) sum -= row[at[k]] * other[at[k]];
            row[at[j]] = j < i ? sum / other[at[j]] : root_of(sum);
            e[i] -= j < i ? row[at[j]] * e[j] : 0;
        }
        e[i] /= row[at[i]];
        nll += log((double)row[at[i]]) + (double)(e[i] * e[i]) / 2 + log(2 * 3.14159265358979323846) / 2;
    }
    for (pu_int i = 0; i < S; i++) nll -= m->open[i] ? log(WIDE) / 2 : 0;
    return nll;
}

static void widen(const model *m, wide *theta)
{
    for (pu_int i = 0; i < m->params; i++) theta[i] = (wide)m->theta[i];
}

/* ---- tests ------------------------------------------------------------------------------------ */

/* Squares of numbers up to T/8 times psi, a factor whose condition is below 1e3 here: a thousand roundings of the value. */
TEST likelihood_is_the_limit_of_wide_starts(int which)
{
    static const pu_engine engines[] = {PU_DENSE, PU_BANDED, PU_ENGINE_AUTO};
    model *m = build(&cases[which]);
    wide theta[sizeof m->theta / sizeof *m->theta];
    double want;
    TC_ASSERT(m != NULL);
    widen(m, theta);
    want = limit_nll(m, theta);
    for (int e = 0; e < 3; e++) {
        pu_options o;
        pu_report report;
        double nll;
        memset(&o, 0, sizeof o);
        o.engine = engines[e];
        TC_STATUS(pu_nll(&m->lgm, &m->data, &o, NULL, &nll, NULL, &report), PU_OK);
        TC_CLOSE(nll, want, (1000 * PU_TEST_EPS + LIMIT) * (fabs(want) + 10));
        TC_ASSERT(report.served[PU_KALMAN] == 0 && report.served[PU_DUAL] == 0);
    }
    PASS();
}

/* Exact gradients, which are those of Fisher's identity, against differences of that likelihood in all parameters. */
TEST gradient_is_that_of_the_likelihood(int which, pu_engine engine)
{
    model *m = build(&cases[which]);
    pu_int G, S;
    pu_real grad[sizeof m->theta / sizeof *m->theta];
    wide theta[sizeof m->theta / sizeof *m->theta];
    pu_gradient_result out;
    pu_options o;
    pu_report report;
    double size = 0;
    TC_ASSERT(m != NULL);
    S = m->c.S;
    G = m->Gamma.params;
    memset(&out, 0, sizeof out);
    memset(&o, 0, sizeof o);
    o.engine = engine;
    o.kind = PU_EXACT;
    out.Gamma = grad;
    out.Phi = grad + G;
    out.psi = grad + G + S;
    TC_STATUS(pu_gradient(&m->lgm, &m->data, &o, NULL, &out, &report), PU_OK);
    TC_ASSERT(report.rounding_error >= 0 && report.rounding_error < 0.1);
    for (pu_int i = 0; i < m->params; i++) size = fmax(size, fabs((double)grad[i]));
    for (pu_int i = 0; i < m->params; i++) {
        double up, down;
        widen(m, theta);
        theta[i] += (wide)STEP;
        up = limit_nll(m, theta);
        theta[i] -= 2 * (wide)STEP;
        down = limit_nll(m, theta);
        /* the values are doubles: eps / STEP */
        TC_CLOSE(grad[i], (up - down) / (2 * STEP),
                 5000 * PU_TEST_EPS * size + 40 * DBL_EPSILON * (fabs(up) + 10) / STEP + LIMIT / STEP * 1e-3 + STEP);
    }
    PASS();
}

/* The iterative engine: its log det is an estimate for A, which is definite, less the log det of Gamma's proper part. */
TEST probes_agree_with_the_exact_numbers(int which)
{
    enum { K = 200 };
    model *m = build(&cases[which]);
    pu_options o;
    pu_report report, estimated;
    pu_gradient_result exact, out;
    pu_real *want, *got, *se;
    double nll = 0, want_nll = 0;
    TC_ASSERT(m != NULL);
    want = tc_reals(m->Gamma.params);
    got = tc_reals(m->Gamma.params);
    se = tc_reals(m->Gamma.params);
    memset(&exact, 0, sizeof exact);
    memset(&out, 0, sizeof out);
    memset(&o, 0, sizeof o);
    o.engine = PU_DENSE;
    o.kind = PU_EXACT;
    exact.Gamma = want;
    TC_STATUS(pu_gradient(&m->lgm, &m->data, &o, NULL, &exact, &report), PU_OK);
    want_nll = report.nll;
    o.engine = PU_ITERATIVE;
    o.kind = PU_MONTE_CARLO;
    o.samples = K;
    o.groups = 20;
    o.solve.solver = PU_PCG;
    out.Gamma = got;
    out.se_Gamma = se;
    TC_ASSERT(ran(pu_gradient(&m->lgm, &m->data, &o, NULL, &out, &estimated)));
    for (pu_int i = 0; i < m->Gamma.params; i++)
        TC_CLOSE(got[i], want[i], 6 * (double)se[i] + PU_TEST_PICK(1e-8, 1e-3) * (1 + fabs((double)want[i])));
    TC_ASSERT(ran(pu_nll(&m->lgm, &m->data, &o, NULL, &nll, NULL, &estimated)));
    TC_CLOSE(nll, want_nll, 5 * estimated.nll_se + PU_TEST_PICK(1e-8, 1e-3) * (1 + fabs(want_nll)));
    PASS();
}

/* ---- data that do not identify a state -------------------------------------------------------- */

/* A model of two states with unit noise; psi, y: T entries. */
typedef struct {
    pu_ssm ssm;
    pu_op Gamma, Phi;
    pu_lgm lgm;
} two;

static pu_status set_two(two *m, pu_int T, const pu_real *A, const pu_real *c, const pu_real *psi)
{
    /* a state that enters in small units moves in small units */
    pu_real Q[4] = {1, 0, 0, 1};
    if (A[1] == PU_R(1e-9)) Q[3] = PU_R(1e18);
    pu_status status = pu_ssm_set(&m->ssm, T, 2, A, Q, PU_SSM_DIFFUSE, NULL, NULL);
    memset(&m->lgm, 0, sizeof m->lgm);
    m->Gamma = pu_op_ssm(&m->ssm);
    m->Phi = pu_op_readout(T, 2, c);
    m->lgm.Gamma = &m->Gamma;
    m->lgm.Phi = &m->Phi;
    m->lgm.psi = psi;
    return status;
}

TEST unidentified_states_are_named(pu_engine engine, int dense_map)
{
    enum { T = 60 };
    static const pu_real trend[4] = {1, 1, 0, 1}, slow[4] = {1, 0, 0, PU_R(0.5)}, level[2] = {1, 0}, both[2] = {1, 1};
    /* the same as slow, turned by 0.6, 0.8: rounding keeps no entry at zero */
    static const pu_real turned[4] = {PU_R(0.68), PU_R(0.24), PU_R(0.24), PU_R(0.82)}, seen[2] = {PU_R(0.6), PU_R(0.8)};
    static const pu_real short_steps[4] = {1, PU_R(1e-9), 0, 1};
    static const struct {
        const char *name;
        const pu_real *A, *c;
        int first, last, state; /* observed steps; -1: identified */
    } tries[] = {{"nothing is observed", trend, level, 1, 0, 0},  {"one observation of a trend", trend, level, 7, 7, 1},
                 {"two of them", trend, level, 7, 8, -1},         {"a state that is not seen", slow, level, 0, T - 1, 1},
                 {"two that look alike", slow, both, 0, 0, 1},    {"and soon do not", slow, both, 0, 1, -1},
                 {"not seen, turned", turned, seen, 0, T - 1, 1}, {"a small unit", short_steps, level, 0, T - 1, -1},
                 {"forgotten before it is seen", slow, both, T - 3, T - 1, 1}};
    pu_real psi[T], y[2 * T];
    tc_fill(T, psi, 1);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        two m;
        pu_real *matrix = tc_reals(T * 2 * T), grad[8];
        pu_data data = pu_data_nan(2, T, y);
        pu_gradient_result out;
        pu_options o;
        pu_report report;
        pu_status status;
        tc_set_case("%s, engine %d, dense map %d", tries[i].name, (int)engine, dense_map);
        TC_STATUS(set_two(&m, T, tries[i].A, tries[i].c, psi), PU_OK);
        memset(matrix, 0, T * 2 * T * sizeof *matrix);
        for (int t = 0; t < T; t++) {
            matrix[t * 2 * T + 2 * t] = tries[i].c[0];
            matrix[t * 2 * T + 2 * t + 1] = tries[i].c[1];
            y[t] = (pu_real)t; /* the first datum identifies whatever can be */
            y[T + t] = t >= tries[i].first && t <= tries[i].last ? 1 : PU_R(NAN);
        }
        if (tries[i].A != trend) data = pu_data_nan(1, T, y + T);
        if (dense_map) m.Phi = pu_op_dense(T, 2 * T, matrix);
        memset(&out, 0, sizeof out);
        memset(&o, 0, sizeof o);
        o.engine = engine;
        o.kind = engine == PU_ITERATIVE ? PU_OUTPUT : PU_EXACT;
        out.Gamma = grad;
        tc_fill(8, grad, 77);
        status = pu_gradient(&m.lgm, &data, &o, NULL, &out, &report);
        if (tries[i].state < 0) {
            TC_ASSERT(ran(status));
            continue;
        }
        TC_STATUS(status, PU_E_NOT_DEFINITE);
        TC_ASSERT(strstr(report.where.what, "diffuse start") != NULL);
        TC_ASSERT(report.where.index == tries[i].state && report.where.datum == data.n - 1);
        for (int j = 0; j < 8; j++) TC_ASSERT(grad[j] == 77);
    }
    PASS();
}

/* ---- what a diffuse start is not for ---------------------------------------------------------- */

TEST calls_that_need_a_covariance_are_refused(void)
{
    static const pu_engine engines[] = {PU_DUAL, PU_KALMAN};
    model *m = build(&cases[3]);
    pu_real z[MOST_S * MOST_T];
    pu_op one = pu_op_identity(1), again, pair;
    pu_report report;
    pu_lgm lgm;
    double nll = 0;
    TC_ASSERT(m != NULL && m->Gamma.solve == NULL && m->ssm.P0[0] == HUGE_VAL);
    for (int i = 0; i < 2; i++) {
        pu_options o;
        memset(&o, 0, sizeof o);
        o.engine = engines[i];
        TC_STATUS(pu_nll(&m->lgm, &m->data, &o, NULL, &nll, NULL, &report), PU_E_UNSUPPORTED);
        TC_ASSERT(strstr(report.where.what, "diffuse") != NULL);
    }
    TC_STATUS(pu_simulate(&m->lgm, 1, 1, NULL, z, NULL, &report), PU_E_UNSUPPORTED);
    TC_ASSERT(strstr(report.where.what, "no draws") != NULL);
    /* operators made of it */
    lgm = m->lgm;
    pair = pu_op_kronecker(&m->Gamma, &one);
    lgm.Gamma = &pair;
    TC_STATUS(pu_nll(&lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_E_UNSUPPORTED);
    again = m->Gamma;
    pair = pu_op_sum(&m->Gamma, &again);
    TC_STATUS(pu_gradient(&lgm, &m->data, NULL, NULL, NULL, &report), PU_E_UNSUPPORTED);
    /* an operator that was made before the start was diffuse, or has functions of others */
    TC_STATUS(pu_ssm_set(&m->ssm, m->c.T, 2, m->theta, q_of(m), PU_SSM_ZERO, NULL, NULL), PU_OK);
    m->Gamma = pu_op_ssm(&m->ssm);
    TC_STATUS(pu_ssm_set(&m->ssm, m->c.T, 2, m->theta, q_of(m), PU_SSM_DIFFUSE, NULL, NULL), PU_OK);
    TC_STATUS(pu_nll(&m->lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_E_ARGUMENT);
    m->Gamma = pu_op_ssm(&m->ssm);
    m->Gamma.diag = NULL;
    TC_STATUS(pu_nll(&m->lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_E_ARGUMENT);
    m->Gamma = pu_op_ssm(&m->ssm);
    TC_STATUS(pu_nll(&m->lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_OK);
    /* numbers that were changed since */
    m->ssm.P0[0] = 1;
    TC_STATUS(pu_nll(&m->lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_E_ARGUMENT);
    m->ssm.P0[0] = (double)NAN;
    TC_STATUS(pu_nll(&m->lgm, &m->data, NULL, NULL, &nll, NULL, &report), PU_E_NONFINITE);
    PASS();
}

TEST set_refuses_what_nothing_would_read(void)
{
    static const pu_real A[4] = {PU_R(0.5), 0, PU_R(0.25), 1}, driven[4] = {PU_R(0.5), PU_R(0.25), 0, 1}, Q[4] = {1, 0, 0, 1};
    const pu_real inf = (pu_real)INFINITY, nan = PU_R(NAN);
    const struct {
        pu_ssm_start start;
        const pu_real *A;
        pu_real P0[4];
        pu_status want;
        pu_int index;
    } tries[] = {{PU_SSM_STATIONARY, A, {0, 0, 0, inf}, PU_OK, -1},
                 {PU_SSM_STATIONARY, A, {0, 0, 0, 0}, PU_E_NOT_DEFINITE, 0},
                 {PU_SSM_STATIONARY, driven, {0, 0, 0, inf}, PU_E_NOT_DEFINITE, 1},
                 {PU_SSM_STATIONARY, A, {1, 0, 0, inf}, PU_E_ARGUMENT, -1},
                 {PU_SSM_ZERO, A, {inf, 0, 0, 0}, PU_OK, -1},
                 {PU_SSM_ZERO, A, {inf, 1, 1, 0}, PU_E_ARGUMENT, -1},
                 {PU_SSM_ZERO, A, {0, 0, 0, nan}, PU_E_ARGUMENT, -1},
                 {PU_SSM_DIFFUSE, A, {inf, 0, 0, inf}, PU_OK, -1},
                 {PU_SSM_DIFFUSE, A, {inf, 0, 0, 1}, PU_E_ARGUMENT, -1},
                 {PU_SSM_GIVEN, A, {inf, 0, 0, 2}, PU_OK, -1},
                 {PU_SSM_GIVEN, A, {inf, 0, 0, inf}, PU_OK, -1},
                 {PU_SSM_GIVEN, A, {inf, 1, 1, 2}, PU_E_ARGUMENT, 9},
                 {PU_SSM_GIVEN, A, {inf, 0, 0, 0}, PU_E_NOT_DEFINITE, 11},
                 {PU_SSM_GIVEN, A, {-inf, 0, 0, 1}, PU_E_NONFINITE, 8},
                 {PU_SSM_GIVEN, A, {2, inf, inf, 2}, PU_E_NONFINITE, 9}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        pu_ssm m;
        pu_int index = 77;
        memset(&m, 0x5a, sizeof m); /* it need not be zeroed */
        tc_set_case("try %d", (int)i);
        TC_STATUS(pu_ssm_set(&m, 5, 2, tries[i].A, Q, tries[i].start, tries[i].P0, &index), tries[i].want);
        TC_ASSERT(index == tries[i].index);
        TC_ASSERT((m.states == 2) == (tries[i].want == PU_OK));
        for (int j = 0; j < 2 && tries[i].want == PU_OK; j++)
            TC_ASSERT((m.P0[3 * j] == HUGE_VAL) == (tries[i].P0[3 * j] == inf));
    }
    PASS();
}

/* ---- the model -------------------------------------------------------------------------------- */

/* theta = [A | c | L | log sigma2]: gradients against differences of the likelihood, of which float has too few digits. */
TEST model_has_the_gradient_of_its_likelihood(pu_int S)
{
    enum { T = 40 };
    pu_model m;
    pu_real y[2 * T] = {0}, *theta, *grad;
    pu_data data = pu_data_nan(2, T, y);
    pu_report report;
    double size = 0;
    tc_set_case("S %d", (int)S);
    memset(&m, 0, sizeof m);
    m.memory = tc_workspace();
    TC_STATUS(pu_model_state_space(&m, T, S, PU_SSM_DIFFUSE, &report), PU_OK);
    TC_ASSERT(m.params == S * S + S + S * (S + 1) / 2 + 1);
    theta = tc_reals(m.params);
    grad = tc_reals(m.params);
    tc_fill_normal(3, 2 * T, y);
    for (int t = 1; t < 2 * T; t++) y[t] += t % T ? PU_R(0.9) * y[t - 1] : 0;
    y[3] = y[T + 9] = PU_R(NAN);
    TC_STATUS(pu_model_start(&m, &data, 1, theta, &report), PU_OK);
    TC_STATUS(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &report), PU_OK);
    TC_ASSERT(report.served[PU_BANDED] == 2 && pu_model_get_ssm(&m)->P0[0] == HUGE_VAL);
    for (pu_int i = 0; i < m.params; i++) size = fmax(size, fabs((double)grad[i]));
    for (pu_int i = 0; i < m.params; i++) {
        /* third order: h^2; and rounding of the values: eps nll / h */
        double h = PU_TEST_PICK(1e-5, 1e-2), value[2];
        pu_real kept = theta[i];
        for (int k = 0; k < 2; k++) {
            theta[i] = kept + (pu_real)(k ? -h : h);
            TC_STATUS(pu_model_nll(&m, theta, &data, NULL, NULL, value + k, NULL, &report), PU_OK);
        }
        theta[i] = kept;
        TC_CLOSE(grad[i], (value[0] - value[1]) / (2 * h), 100 * h * h * (1 + size) + 20 * PU_TEST_EPS * fabs(value[0]) / h);
    }
    TC_STATUS(pu_model_simulate(&m, theta, 1, 1, NULL, NULL, y, &report), PU_E_UNSUPPORTED);
    pu_model_free(&m);
    PASS();
}

/* A local level: the first state is as uncertain as its first observation makes it, and a fit finds the variances. */
TEST level_is_fitted_and_smoothed(void)
{
    enum { T = 400 };
    pu_model m;
    pu_real *y = tc_normal(5, T), *steps = tc_normal(6, T), *variance = tc_reals(T), theta[4], level = 1000;
    pu_data data = pu_data_nan(1, T, y);
    pu_fit_options o;
    pu_fit_report fit;
    pu_posterior_result out;
    pu_report report;
    memset(&m, 0, sizeof m);
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    m.memory = tc_workspace();
    TC_STATUS(pu_model_state_space(&m, T, 1, PU_SSM_DIFFUSE, &report), PU_OK);
    for (int t = 0; t < T; t++) {
        level += PU_R(0.5) * steps[t];
        y[t] += level;
    }
    theta[0] = theta[1] = 1;
    theta[2] = (pu_real)log(0.5);
    theta[3] = 0;
    out.variance = variance;
    TC_STATUS(pu_model_posterior(&m, theta, &data, NULL, NULL, &out, &report), PU_OK);
    /* steady state of the smoother: P (1 - P / (P + 1))^.. = q / (1 + 4/q)^1/2 .. in the middle, and at the ends the filtered
       variance P / (P + 1) with P = (q + (q^2 + 4 q)^1/2) / 2 */
    {
        double q = 0.25, P = (q + sqrt(q * q + 4 * q)) / 2;
        TC_CLOSE(variance[0], P / (P + 1), 50 * PU_TEST_EPS);
        TC_CLOSE(variance[T - 1], P / (P + 1), 50 * PU_TEST_EPS);
        TC_CLOSE(variance[T / 2], 1 / sqrt(1 + 4 / q), 50 * PU_TEST_EPS);
    }
    TC_ASSERT(ran(pu_fit(&m, &data, &o, NULL, theta, &fit)));
    TC_CLOSE(fabs((double)theta[1]) * exp((double)theta[2]), 0.5, 0.15); /* three standard errors */
    TC_CLOSE(exp((double)theta[3] / 2), 1, 0.15);
    pu_model_free(&m);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (int i = 0; i < CASES; i++) {
        RUN_TESTp(likelihood_is_the_limit_of_wide_starts, i);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_DENSE);
        RUN_TESTp(gradient_is_that_of_the_likelihood, i, PU_BANDED);
        RUN_TESTp(probes_agree_with_the_exact_numbers, i);
    }
    for (int dense_map = 0; dense_map < 2; dense_map++) {
        RUN_TESTp(unidentified_states_are_named, PU_DENSE, dense_map);
        RUN_TESTp(unidentified_states_are_named, PU_ITERATIVE, dense_map);
        RUN_TESTp(unidentified_states_are_named, PU_ENGINE_DEFAULT, dense_map);
    }
    RUN_TESTp(unidentified_states_are_named, PU_BANDED, 0);
    RUN_TEST(calls_that_need_a_covariance_are_refused);
    RUN_TEST(set_refuses_what_nothing_would_read);
    RUN_TESTp(model_has_the_gradient_of_its_likelihood, 1);
    RUN_TESTp(model_has_the_gradient_of_its_likelihood, 2);
    RUN_TEST(level_is_fitted_and_smoothed);
    PU_TEST_MAIN_END();
}

/* test_wide_starts.c - structural time series whose start is hardly known: P0 up to 1e12 times the variance of a step,
   and states that no observation tells apart. Every direct engine against dense arithmetic in wide numbers.

   Each result is within CLOSE of what is right, or the status is PU_INEXACT and report.rounding_error at least a tenth
   of the error; dense and banded, asked for by name, may also find that rounding has left A not positive. The Kalman
   engine's likelihood, mean and variances are always within CLOSE. No variance is ever zero or negative. -v prints the
   errors. */
#include "pu_test.h"
#include "test_common.h"

#define MOST_STATES 13
#include "wide_models.h"

/* 1e-6 in double, 2.3e-2 in float. PU_INEXACT begins at the root of eps, by an estimate that may be off by ten. It does
   not see that the terms of the gradient in Phi cancel over time when the level is free, here by another ten. */
#define CLOSE (67 * sqrt(PU_TEST_EPS))

#define UNSEEN_MONTHS 4 /* the last ones of every year */

/* ---- models: level, slope, seasonal dummies; y_t = level + season + noise of variance 0.0035 ---- */

typedef struct {
    const char *name;
    pu_int steps, slope, period; /* period 0: no seasons */
    pu_int first, hidden;        /* steps before `first` are not observed, nor the last `hidden` ones of each period */
} shape;

static const shape shapes[] = {{"level", 24, 0, 0, 3, 0},
                               {"level, slope", 24, 1, 0, 3, 0},
                               {"level, slope, one observation", 24, 1, 0, 23, 0},
                               {"level, slope, 4 seasons, one unseen", 24, 1, 4, 0, 1},
                               {"level, slope, 4 seasons, late", 24, 1, 4, 16, 2},
                               {"level, slope, 12 seasons, 4 unseen", 24, 1, 12, 0, UNSEEN_MONTHS}};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static int is_seen(const shape *s, pu_int t)
{
    return t >= s->first && (s->period == 0 || t % s->period < s->period - s->hidden);
}

/* z_t = (level, slope, season now, before, ..). Q must be positive definite: the dummies that only move on get 1e-8. */
static void make_model(const shape *s, double ratio, model *m)
{
    pu_int seasons = s->period > 0 ? s->period - 1 : 0, at = 1 + s->slope, S = at + seasons, SS = S * S;
    node *G = new_node(SSM), *P = new_node(READOUT);
    pu_real *Q, *P0;
    memset(m, 0, sizeof *m);
    chance_state = 1;
    G->order = P->order = S;
    G->theta = tc_reals(3 * SS);
    P->theta = tc_reals(S);
    Q = G->theta + SS;
    P0 = Q + SS;
    for (pu_int i = 0; i < S; i++) {
        Q[i * S + i] = PU_R(1e-8);
        P0[i * S + i] = (pu_real)(1e-3 * ratio);
        if (i < at) G->theta[i * S + i] = 1;
        else if (i > at) G->theta[i * S + i - 1] = 1;
        else Q[i * S + i] = PU_R(1e-4);
    }
    for (pu_int j = at; j < S; j++)
        G->theta[at * S + j] = -1;
    Q[0] = PU_R(1e-3);
    P->theta[0] = 1;
    if (s->slope) {
        G->theta[1] = 1;
        Q[S + 1] = PU_R(1e-5);
    }
    if (seasons) P->theta[at] = 1;
    G->ssm = (pu_ssm *)tc_bytes(sizeof *G->ssm);
    (void)pu_ssm_set(G->ssm, s->steps, S, G->theta, Q, PU_SSM_GIVEN, P0, NULL);
    G->op = pu_op_ssm(G->ssm);
    P->op = pu_op_readout(s->steps, S, P->theta);
    m->Gamma = G;
    m->Phi = P;
    m->N = 1;
    m->M = s->steps;
    m->D = S * s->steps;
    m->psi = tc_reals(m->M);
    m->y = tc_reals(m->M);
    m->mask = (unsigned char *)tc_bytes((size_t)m->M);
    for (pu_int t = 0; t < m->M; t++) {
        double season = s->period > 0 ? 0.1 * cos(6.283185307179586 * (double)t / (double)s->period) : 0;
        m->psi[t] = (pu_real)(1 / 0.0035);
        m->y[t] = (pu_real)(7.4 + 0.002 * (double)t + season + 0.06 * normal());
        m->mask[t] = (unsigned char)is_seen(s, t);
    }
    m->lgm.Gamma = &G->op;
    m->lgm.Phi = &P->op;
    m->lgm.psi = m->psi;
    m->data = pu_data_masked(1, m->M, m->y, m->mask);
}

/* ---- what is right without a dense matrix: A within its band ---- */

typedef struct {
    pu_int D, width;
    wide *L, *Z, *mu; /* factor and Sigma: entry (i, j), i - width <= j <= i, at i (width + 1) + i - j */
    wide nll;
} band;

static wide *entry(const band *b, wide *a, pu_int i, pu_int j)
{
    pu_int row = i > j ? i : j, column = i > j ? j : i;
    return a + row * (b->width + 1) + row - column;
}

/* L := A = Gamma + Phi'W Phi, mu := b, from the definition of the process; the datum's constants into the NLL. */
static void band_matrix(const model *m, band *b)
{
    ssm_parts s;
    pu_int S = m->Gamma->order, T = m->M;
    wide NA[MOST_STATES * MOST_STATES] = {0}, ANA[MOST_STATES * MOST_STATES];
    wide L[2][MOST_STATES * MOST_STATES];
    ssm_of(m->Gamma, &s);
    wide_product(S, S, S, s.N, s.A, 0, NA);
    wide_product(S, S, S, s.A, NA, 1, ANA);
    for (pu_int t = 0; t < T; t++) {
        for (pu_int i = 0; i < S; i++) {
            for (pu_int j = 0; j < S; j++) {
                wide phi = (wide)m->Phi->theta[i] * (wide)m->Phi->theta[j] * (wide)m->psi[t];
                if (j <= i)
                    *entry(b, b->L, t * S + i, t * S + j) += (t == 0 ? s.N0 : s.N)[i * S + j] +
                                                             (t + 1 < T ? ANA[i * S + j] : 0) + (m->mask[t] ? phi : 0);
                if (t + 1 < T) *entry(b, b->L, (t + 1) * S + i, t * S + j) -= NA[i * S + j];
            }
            if (m->mask[t]) b->mu[t * S + i] = (wide)m->Phi->theta[i] * (wide)m->psi[t] * (wide)m->y[t];
        }
        if (m->mask[t])
            b->nll += ((wide)m->psi[t] * (wide)m->y[t] * (wide)m->y[t] - wide_log((wide)m->psi[t]) +
                       (wide)log(2 * acos(-1.0))) / 2;
    }
    for (pu_int i = 0; i < S * S; i++) {
        L[0][i] = (wide)m->Gamma->theta[S * S + i];
        L[1][i] = s.P0[i];
    }
    if (!wide_cholesky(S, L[0]) || !wide_cholesky(S, L[1])) exit(2);
    b->nll += (wide_logdet(S, L[1]) + (wide)(T - 1) * wide_logdet(S, L[0])) / 2;
}

/* The factor, log det A, mu, and Sigma within the band: Z_ij = [i = j]/L_ii^2 - sum_{l > j} L_lj Z_li / L_jj. */
static void band_solve(const model *m, band *b)
{
    pu_int D = m->D, w = 2 * m->Gamma->order - 1;
    wide fit = 0, logdet = 0;
    memset(b, 0, sizeof *b);
    b->D = D;
    b->width = w;
    b->L = wides(D * (w + 1));
    b->Z = wides(D * (w + 1));
    b->mu = wides(D);
    band_matrix(m, b);
    for (pu_int j = 0; j < D; j++) {
        pu_int end = j + w < D ? j + w + 1 : D;
        for (pu_int i = j; i < end; i++) {
            wide *at = entry(b, b->L, i, j);
            for (pu_int l = i > w ? i - w : 0; l < j; l++)
                *at -= *entry(b, b->L, i, l) * *entry(b, b->L, j, l);
            *at = i == j ? wide_sqrt(*at) : *at / *entry(b, b->L, j, j);
        }
        logdet += 2 * wide_log(*entry(b, b->L, j, j));
    }
    for (pu_int i = 0; i < D; i++) {
        for (pu_int j = i > w ? i - w : 0; j < i; j++)
            b->mu[i] -= *entry(b, b->L, i, j) * b->mu[j];
        b->mu[i] /= *entry(b, b->L, i, i);
        fit += b->mu[i] * b->mu[i]; /* b'A^-1 b */
    }
    for (pu_int j = D - 1; j >= 0; j--) {
        pu_int end = j + w < D ? j + w + 1 : D;
        wide pivot = *entry(b, b->L, j, j);
        for (pu_int i = j + 1; i < end; i++)
            b->mu[j] -= *entry(b, b->L, i, j) * b->mu[i];
        b->mu[j] /= pivot;
        for (pu_int i = end - 1; i >= j; i--) {
            wide sum = i == j ? 1 / pivot : 0;
            for (pu_int l = j + 1; l < end; l++)
                sum -= *entry(b, b->L, l, j) * *entry(b, b->Z, l, i);
            *entry(b, b->Z, i, j) = sum / pivot;
        }
    }
    b->nll += (logdet - fit) / 2;
}

/* ---- calls and comparisons ---- */

enum { E_NLL, E_SHIFT, E_VARIANCE, E_MEAN, E_NU, E_A, E_Q, E_P0, E_PHI, E_ETA, E_PSI, E_COUNT };
static const char *const error_name[E_COUNT] = {"nll", "shift", "variance", "mean", "nu", "A", "Q", "P0", "Phi", "eta", "psi"};

typedef struct {
    pu_status status, posterior_status;
    double rounding, posterior_rounding;
    double error[E_COUNT]; /* -1: not compared */
    int positive;          /* all variances */
} outcome;

static const pu_engine engines[] = {PU_KALMAN, PU_BANDED, PU_DENSE, PU_ENGINE_AUTO};

static pu_options exact_by(pu_engine engine)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT;
    o.engine = engine;
    o.samples = PU_ZERO;
    o.threads = 1;
    return o;
}

/* The likelihood, relative to its size or 1; the mean to its largest entry; variances each to itself. shift: the mean,
   relative to its largest entry or its own standard deviation, whichever is larger. More cannot be had: changing the rows
   of Phi by eps, each by its own sign, moves a state with a standard deviation of 1e6 by 3e-4 (192 months). */
static void run_posterior(const model *m, double nll, const wide *mu, const wide *variance, pu_engine engine, outcome *o)
{
    pu_options options = exact_by(engine);
    pu_workspace ws = tc_workspace();
    pu_posterior_result out;
    pu_report report;
    wide size = largest(m->D, mu);
    memset(&out, 0, sizeof out);
    for (int i = 0; i < E_COUNT; i++)
        o->error[i] = -1;
    out.mean = tc_reals(m->D);
    out.variance = tc_reals(m->D);
    o->posterior_status = pu_posterior(&m->lgm, &m->data, &options, &ws, &out, &report);
    o->status = o->posterior_status;
    o->rounding = o->posterior_rounding = report.rounding_error;
    o->positive = 1;
    o->error[E_NLL] = fabs(report.nll - nll) / fmax(1, fabs(nll));
    for (pu_int i = 0; i < m->D; i++) {
        wide distance = wide_abs((wide)out.mean[i] - mu[i]);
        double mean = (double)(distance / size), shift = (double)(distance / wide_max(size, wide_sqrt(variance[i])));
        double spread = (double)(wide_abs((wide)out.variance[i] - variance[i]) / variance[i]);
        o->error[E_MEAN] = fmax(o->error[E_MEAN], mean == mean ? mean : HUGE_VAL);
        o->error[E_SHIFT] = fmax(o->error[E_SHIFT], shift == shift ? shift : HUGE_VAL);
        o->error[E_VARIANCE] = fmax(o->error[E_VARIANCE], spread == spread ? spread : HUGE_VAL);
        if (!(out.variance[i] > 0)) o->positive = 0;
    }
}

/* max |got - right| / max size of the terms */
static double part_error(pu_int n, const pu_real *got, const wide *value, const wide *scale)
{
    wide worst = 0;
    for (pu_int i = 0; i < n; i++) {
        if (!(fabs((double)got[i]) <= DBL_MAX)) return HUGE_VAL;
        worst = wide_max(worst, wide_abs((wide)got[i] - value[i]));
    }
    return (double)(worst / largest(n, scale));
}

static void run_gradient(const model *m, const gradient *want, pu_engine engine, outcome *o)
{
    pu_options options = exact_by(engine);
    pu_workspace ws = tc_workspace();
    pu_gradient_result out;
    pu_report report;
    pu_int SS = m->Gamma->order * m->Gamma->order;
    memset(&out, 0, sizeof out);
    out.nu = tc_reals(m->D);
    out.Gamma = tc_reals(3 * SS);
    out.Phi = tc_reals(m->Gamma->order);
    out.eta = tc_reals(m->M);
    out.psi = tc_reals(m->M);
    o->status = pu_gradient(&m->lgm, &m->data, &options, &ws, &out, &report);
    o->rounding = report.rounding_error;
    o->error[E_NU] = part_error(m->D, out.nu, want->value[NU], want->scale[NU]);
    o->error[E_ETA] = part_error(m->M, out.eta, want->value[ETA], want->scale[ETA]);
    o->error[E_PSI] = part_error(m->M, out.psi, want->value[PSI], want->scale[PSI]);
    o->error[E_PHI] = part_error(m->Gamma->order, out.Phi, want->value[PHI], want->scale[PHI]);
    for (int i = 0; i < 3; i++)
        o->error[E_A + i] = part_error(SS, out.Gamma + i * SS, want->value[GAMMA] + i * SS, want->scale[GAMMA] + i * SS);
}

static void tell(const char *name, double start, pu_engine engine, const outcome *o)
{
    if (!greatest_get_verbosity()) return;
    printf("%-36s P0 %.0e %-7s %-10s %.0e, gradient %-10s %.0e:", name, start, pu_engine_text(engine),
           pu_status_name(o->posterior_status), o->posterior_rounding, pu_status_name(o->status), o->rounding);
    for (int i = 0; i < E_COUNT; i++) {
        if (o->error[i] >= 0) printf(" %s %.0e", error_name[i], o->error[i]);
    }
    printf("\n");
}

/* An error is small, or the status says that it may not be and by how much. */
static int is_told(double error, pu_engine engine, pu_status status, double rounding)
{
    if (status == PU_E_NOT_DEFINITE) return engine == PU_BANDED || engine == PU_DENSE;
    if (error <= CLOSE) return status == PU_OK || status == PU_INEXACT;
    return status == PU_INEXACT && (rounding >= 1 || rounding >= error / 10);
}

static enum greatest_test_res check_outcome(const char *name, double start, pu_engine engine, const outcome *o)
{
    tell(name, start, engine, o);
    for (int i = 0; i < E_COUNT; i++) {
        int first = i <= E_MEAN;
        tc_set_case("%s, P0 %.0e, %s, %s: error %.2g, %s, rounding_error %.2g", name, start, pu_engine_text(engine),
                    error_name[i], o->error[i], pu_status_name(first ? o->posterior_status : o->status),
                    first ? o->posterior_rounding : o->rounding);
        TC_ASSERT(is_told(o->error[i], engine, first ? o->posterior_status : o->status,
                          first ? o->posterior_rounding : o->rounding));
        if (engine == PU_KALMAN && i <= E_VARIANCE) TC_ASSERT(o->error[i] <= CLOSE);
    }
    TC_ASSERT(o->positive || o->posterior_status == PU_E_NOT_DEFINITE);
    /* up to there no mean has lost half of its digits: no alarm */
    if (engine == PU_KALMAN && start <= 1e3) TC_ASSERT(o->posterior_status == PU_OK);
    PASS();
}

static wide *diagonal(pu_int n, const wide *a)
{
    wide *d = wides(n);
    for (pu_int i = 0; i < n; i++)
        d[i] = a[i * (n + 1)];
    return d;
}

/* ---- tests ---- */

TEST every_engine_is_right_or_says_that_it_is_not(void)
{
    for (int i = 0; i < SHAPES; i++) {
        int far = shapes[i].period == 12 ? 6 : 3; /* these take seconds */
        for (int power = 0; power <= 12; power += far) {
            model m;
            reference f;
            gradient g;
            pool_used = 0;
            make_model(&shapes[i], pow(10, power), &m);
            ASSERT(solve_model(&m, &f));
            reference_gradient(&m, &f, NULL, &g);
            for (int e = 0; e < 4; e++) {
                outcome o;
                run_posterior(&m, f.nll, f.mu[0], diagonal(m.D, f.Sigma[0]), engines[e], &o);
                run_gradient(&m, &g, engines[e], &o);
                CHECK_CALL(check_outcome(shapes[i].name, 1e-3 * pow(10, power), engines[e], &o));
            }
            tc_release_to(0);
        }
    }
    PASS();
}

/* The reference of the next test against the one of the test before. */
TEST band_and_dense_references_agree(void)
{
    for (int i = 0; i < SHAPES - 1; i++) {
        model m;
        reference f;
        band b;
        pool_used = 0;
        make_model(&shapes[i], 1e9, &m);
        ASSERT(solve_model(&m, &f));
        band_solve(&m, &b);
        tc_set_case("%s", shapes[i].name);
        TC_CLOSE(b.nll, f.nll, 1e-12 * fabs(f.nll)); /* both end in double */
        for (pu_int j = 0; j < m.D; j++) {
            wide variance = f.Sigma[0][j * (m.D + 1)];
            TC_CLOSE(b.mu[j], f.mu[0][j], 1e-12 * (double)largest(m.D, f.mu[0]));
            TC_CLOSE(*entry(&b, b.Z, j, j), variance, 1e-12 * (double)variance);
        }
    }
    PASS();
}

/* 16 years of months, September to December never observed, as with road casualties that nobody counted then. */
TEST years_without_autumn(void)
{
    static const shape drivers = {"192 months, 12 seasons, 4 unseen", 192, 1, 12, 0, UNSEEN_MONTHS};
    static const double starts[] = {1, 1e3, 1e7, 1e9, 1e12};
    for (int i = 0; i < 5; i++) {
        model m;
        band b;
        wide *variance;
        pool_used = 0;
        make_model(&drivers, 1e3 * starts[i], &m);
        band_solve(&m, &b);
        variance = wides(m.D);
        for (pu_int j = 0; j < m.D; j++)
            variance[j] = *entry(&b, b.Z, j, j);
        for (int e = 0; e < 4; e++) {
            outcome o;
            if (engines[e] == PU_DENSE) continue; /* D = 2496 */
            run_posterior(&m, (double)b.nll, b.mu, variance, engines[e], &o);
            for (int k = E_MEAN + 1; k < E_COUNT; k++)
                o.error[k] = 0;
            CHECK_CALL(check_outcome(drivers.name, starts[i], engines[e], &o));
        }
        tc_release_to(0);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (WIDE_DIGITS < 100) { /* conditions reach 1e20 */
        printf("skipped: no floating point type here is wide enough for the reference\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    pool_room = (size_t)1 << 21;
    pool = (wide *)malloc(pool_room * sizeof *pool);
    if (!pool) return 2;
    RUN_TEST(every_engine_is_right_or_says_that_it_is_not);
    RUN_TEST(band_and_dense_references_agree);
    RUN_TEST(years_without_autumn);
    free(pool);
    tc_release(NULL);
    PU_TEST_MAIN_END();
}

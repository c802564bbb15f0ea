/* test_threads.c - the same bits at any number of threads and on every repetition; lanes change
   rounding only.

   Without OpenMP the option `threads` is accepted and has no effect, so all of this must hold as
   well. */
#include "pu_test.h"
#include "test_common.h"
#ifdef _OPENMP
#include <omp.h>
#define THREADS_STEP 1
#else
#define THREADS_STEP 4 /* nothing to vary: only see that the option is accepted */
#endif

enum { D = 40, M = 27, N = 13, K = 7, STEPS = 11, CAP = 4 * D };

typedef struct {
    const char *name;
    pu_kind kind;
    pu_engine engine;
    pu_solver solver;
    pu_adjoint adjoint;
    pu_int checkpoint;
    double tolerance;
} setting;

static const setting settings[] = {
    {"network cg", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, 0},
    {"network pcg", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 0, 0},
    {"network sd", PU_NETWORK, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL, 0, 0},
    {"network gd", PU_NETWORK, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 0, 0},
    {"network cg shortcut", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_SHORTCUT, 0, 0},
    {"network cg reorthogonal", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_REORTHOGONAL, 0, 0},
    {"network pcg auto", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_AUTO, 0, 0},
    {"network cg checkpoint", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, PU_CHOOSE, 0},
    {"network gd checkpoint", PU_NETWORK, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 3, 0},
    {"network cg tolerance", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, 1e-4},
    {"output cg", PU_OUTPUT, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, 0},
    {"output pcg", PU_OUTPUT, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 0, 0},
    {"output sd", PU_OUTPUT, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL, 0, 0},
    {"output gd", PU_OUTPUT, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 0, 0},
    {"monte carlo cg", PU_MONTE_CARLO, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, 0},
    {"monte carlo pcg", PU_MONTE_CARLO, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 0, 1e-5},
    {"monte carlo dense", PU_MONTE_CARLO, PU_DENSE, PU_CG, PU_ADJOINT_FULL, 0, 0},
    {"exact", PU_EXACT, PU_DENSE, PU_CG, PU_ADJOINT_FULL, 0, 0},
};

#define SETTINGS ((int)(sizeof settings / sizeof settings[0]))

typedef struct {
    tc_model model;
    pu_options options;
    tc_outputs o;
    pu_report report;
} job;

static void make_job(job *t, const setting *s, tc_prior prior)
{
    memset(t, 0, sizeof *t);
    tc_random_model(&t->model, prior, D, M, N, 31);
    t->options.samples = s->kind == PU_EXACT ? PU_ZERO : K;
    t->options.kind = s->kind;
    t->options.engine = s->engine;
    t->options.solve.solver = s->solver;
    t->options.solve.adjoint = s->adjoint;
    t->options.solve.tape_every = s->checkpoint;
    t->options.solve.tolerance = s->tolerance;
    /* with a tolerance, or Monte Carlo, the number of steps is a cap and must leave room to
       converge */
    t->options.solve.iterations = s->tolerance > 0 || s->kind == PU_MONTE_CARLO ? CAP : STEPS;
    t->options.seed = 2;
    t->options.step = 3;
    t->options.columns = 3; /* K + 1 = 8 columns: three groups, the last one short */
    t->o = tc_make_outputs(&t->model.lgm, N, K, CAP);
    /* only CG and PCG have the coefficients that estimate log det A */
    if (s->engine == PU_DENSE || s->solver == PU_SD || s->solver == PU_GD) t->o.out.logdet = NULL;
}

static pu_status run(job *t, int threads, int lanes, pu_workspace *ws)
{
    t->options.threads = threads;
    t->options.lanes = lanes;
    tc_spoil_outputs(&t->o);
    memset(&t->report, TC_PATTERN, sizeof t->report);
    return pu_gradient(&t->model.lgm, &t->model.data, &t->options, ws, &t->o.out, &t->report);
}

#define SAME(field) (memcmp(&a->field, &b->field, sizeof a->field) == 0)

/* Everything the report says about the numbers; threads and bytes may differ. */
static int same_report(const pu_report *a, const pu_report *b)
{
    return SAME(status) && SAME(kind) && SAME(engine) && SAME(solver) && SAME(samples) &&
           SAME(iterations) && SAME(tape_every) && SAME(lanes) && SAME(columns) &&
           SAME(has_objective) && SAME(c) && SAME(q) && SAME(network) && SAME(has_nll) &&
           SAME(nll) && SAME(nll_se) && SAME(nll_gap) && SAME(nll_converged) && SAME(stops) &&
           SAME(reorthogonalised) && SAME(worst_orthogonality) && SAME(worst_growth) && SAME(worst_residual) &&
           SAME(worst_datum) && SAME(worst_column) && SAME(products);
}

TEST same_bits_at_any_thread_count(const setting *s, tc_prior prior)
{
    job first, again;
    pu_workspace ws = tc_workspace();
    int threads, repeat;
    tc_set_case("%s, prior %d", s->name, (int)prior);
    make_job(&first, s, prior);
    make_job(&again, s, prior);
    TC_STATUS(run(&first, 1, 0, NULL), PU_OK);
    TC_ASSERT(tc_gaps_untouched(&first.o));
    for (threads = 0; threads <= 4; threads += THREADS_STEP) {
        for (repeat = 0; repeat < 2; repeat++) {
            tc_set_case("%s, prior %d, %d threads", s->name, (int)prior, threads);
            TC_STATUS(run(&again, threads, 0, repeat ? &ws : NULL), PU_OK);
            TC_ASSERT(memcmp(first.o.bytes, again.o.bytes, first.o.size) == 0);
            TC_ASSERT(same_report(&first.report, &again.report));
        }
    }
    PASS();
}

/* The report tells the threads that ran: no more than lanes, and one without OpenMP or where nobody asks and the job is
   short. */
static int threads_expected(int asked, int lanes)
{
#ifdef _OPENMP
    int threads = asked ? asked : 1;
    return threads < lanes ? threads : lanes;
#else
    (void)asked, (void)lanes;
    return 1;
#endif
}

TEST report_tells_the_threads(void)
{
    job t;
    int threads;
    make_job(&t, &settings[0], TC_DIAGONAL);
    for (threads = 0; threads <= 6; threads++) {
        tc_set_case("%d threads asked for", threads);
        TC_STATUS(run(&t, threads, 0, NULL), PU_OK);
        TC_ASSERT(t.report.lanes == 4);
        TC_CLOSE(t.report.threads, threads_expected(threads, 4), 0);
    }
    PASS();
}

/* Sums over N data and K + 1 columns in another order: that many roundings, with room for the size
   of the terms against the size of their sum. */
#define LANES_TOLERANCE (8.0 * N * (K + 1) * PU_TEST_EPS)

TEST close_reports(const pu_report *a, const pu_report *b)
{
    TC_CLOSE(a->c, b->c, LANES_TOLERANCE * (1 + fabs(b->c)));
    TC_CLOSE(a->q, b->q, LANES_TOLERANCE * (1 + fabs(b->q)));
    TC_CLOSE(a->network, b->network, LANES_TOLERANCE * (1 + fabs(b->network)));
    TC_CLOSE(a->nll, b->nll, LANES_TOLERANCE * (1 + fabs(b->nll)));
    TC_CLOSE(a->nll_se, b->nll_se, LANES_TOLERANCE * (1 + fabs(b->nll_se)));
    TC_ASSERT(memcmp(a->stops, b->stops, sizeof a->stops) == 0);
    TC_ASSERT(a->worst_datum == b->worst_datum && a->worst_column == b->worst_column);
    PASS();
}

TEST close_outputs(const job *a, const job *b)
{
    const pu_gradient_result *x = &a->o.out, *y = &b->o.out;
    pu_int params = a->model.Gamma.params;
    PU_CHECK_VECTOR(D, x->nu, y->nu, LANES_TOLERANCE);
    PU_CHECK_VECTOR(params, x->Gamma, y->Gamma, LANES_TOLERANCE);
    PU_CHECK_VECTOR(M * D, x->Phi, y->Phi, LANES_TOLERANCE);
    PU_CHECK_VECTOR(M, x->eta, y->eta, LANES_TOLERANCE);
    PU_CHECK_VECTOR(M, x->psi, y->psi, LANES_TOLERANCE);
    PU_CHECK_VECTOR(N * (a->report.samples + 1) * D, x->x, y->x, LANES_TOLERANCE);
    PASS();
}

TEST lanes_change_rounding_only(const setting *s, tc_prior prior)
{
    static const int lanes[] = {1, 3, 13, 64};
    job first, other;
    size_t i;
    tc_set_case("%s, prior %d", s->name, (int)prior);
    make_job(&first, s, prior);
    make_job(&other, s, prior);
    TC_STATUS(run(&first, 2, 4, NULL), PU_OK);
    for (i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        tc_set_case("%s, prior %d, %d lanes", s->name, (int)prior, lanes[i]);
        TC_STATUS(run(&other, 2, lanes[i], NULL), PU_OK);
        CHECK_CALL(close_outputs(&other, &first));
        CHECK_CALL(close_reports(&other.report, &first.report));
    }
    PASS();
}

/* One datum's numbers depend on its own columns: how many are solved at a time changes rounding at
   most. */
TEST columns_change_rounding_only(const setting *s)
{
    static const pu_int columns[] = {0, 1, 8};
    job first, other;
    size_t i;
    make_job(&first, s, TC_DIAGONAL);
    make_job(&other, s, TC_DIAGONAL);
    TC_STATUS(run(&first, 2, 4, NULL), PU_OK);
    for (i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        tc_set_case("%s, %d columns at a time", s->name, (int)columns[i]);
        other.options.columns = columns[i];
        TC_STATUS(run(&other, 2, 4, NULL), PU_OK);
        CHECK_CALL(close_outputs(&other, &first));
        CHECK_CALL(close_reports(&other.report, &first.report));
    }
    PASS();
}

/* pu_nll goes through the same lanes. */
TEST nll_same_bits(pu_engine engine)
{
    double first[2], again[2];
    job t;
    int threads;
    make_job(&t, &settings[0], TC_SPD);
    t.options.engine = engine;
    for (threads = 1; threads <= 4; threads++) {
        double *to = threads == 1 ? first : again;
        tc_set_case("engine %d, %d threads", (int)engine, threads);
        t.options.threads = threads;
        TC_STATUS(pu_nll(&t.model.lgm, &t.model.data, &t.options, NULL, &to[0], &to[1], &t.report),
                  PU_OK);
        TC_ASSERT(threads == 1 || memcmp(first, again, sizeof first) == 0);
    }
    PASS();
}

/* A short job takes one thread, whatever OpenMP offers: idle threads spin. A long one takes more (by its plan, nothing runs), and
   who asks for a number gets it. */
TEST threads_only_where_the_work_is_worth_them(void)
{
    const pu_int effects = 600, m = 3000;
    pu_op Gamma = pu_op_identity(effects), Phi = pu_op_dense(m, effects, tc_normal(5, m * effects));
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_data data = pu_data_full(8, m, tc_normal(6, 8 * m));
    pu_gradient_result none;
    pu_report report;
    job t;
    model.psi = tc_reals(m);
    memset(&none, 0, sizeof none);
    make_job(&t, &settings[0], TC_DIAGONAL);
#ifdef _OPENMP
    omp_set_num_threads(4);
#endif
    TC_STATUS(pu_plan(&t.model.lgm, &t.model.data, &t.options, &t.o.out, &report), PU_OK);
    TC_ASSERT(report.seconds > 1e-3 && report.seconds < 0.01 && report.threads == 1);
    t.options.threads = 3;
    TC_STATUS(pu_plan(&t.model.lgm, &t.model.data, &t.options, &t.o.out, &report), PU_OK);
#ifdef _OPENMP
    TC_ASSERT(report.threads == 3);
#endif
    t.options.threads = 0;
    TC_STATUS(pu_plan(&model, &data, &t.options, &none, &report), PU_OK);
    TC_ASSERT(report.seconds > 0.04);
#ifdef _OPENMP
    TC_ASSERT(report.threads == 4);
#endif
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        RUN_TESTp(same_bits_at_any_thread_count, s, TC_DIAGONAL);
        RUN_TESTp(same_bits_at_any_thread_count, s, TC_SPD);
        RUN_TESTp(lanes_change_rounding_only, s, TC_IDENTITY);
        RUN_TESTp(lanes_change_rounding_only, s, TC_SPD);
        RUN_TESTp(columns_change_rounding_only, s);
    }
    RUN_TEST(report_tells_the_threads);
    RUN_TEST(threads_only_where_the_work_is_worth_them);
    RUN_TESTp(nll_same_bits, PU_ITERATIVE);
    RUN_TESTp(nll_same_bits, PU_DENSE);
    PU_TEST_MAIN_END();
}

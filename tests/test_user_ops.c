/* test_user_ops.c - operators that a user wrote (user_operators.h) against the built-in ones of the same numbers: gradients
   of every kind, all solvers, all exact engines, with the form stated and without. How fast they are is counted with
   bench/user_ops.c.

   TOLERANCE. Each run perturbs A by its roundings, which add up like a random walk over the terms of a product, and every step
   of the solver passes that on times the condition of A: 4 I sqrt(2 (M + D) + 8) eps cond. A gradient is the difference of the
   gradient of c, which is what a solver that takes no step returns, and of terms in x: the error is relative to the larger of
   the gradient and the gradient of c. */
#include "pu_test.h"
#include "test_common.h"
#include "user_operators.h"

enum { SAMPLES = 4, STEPS = 4, OURS = 0, THEIRS = 1 };

/* ---- models in two ways ---------------------------------------------------------------------- */

/* Which operators are the user's, and what they are. */
typedef enum { BUILT_IN_AR, IDENTITY, SCALED, DIAGONAL, DENSE } op_kind;

typedef struct {
    const char *name;
    op_kind Gamma, Phi; /* BUILT_IN_AR: the same operator in both models */
} pair_case;

static const pair_case pair_cases[] = {
    {"AR seen through the identity", BUILT_IN_AR, IDENTITY},
    {"AR seen through a scaled identity", BUILT_IN_AR, SCALED},
    {"AR seen through a diagonal", BUILT_IN_AR, DIAGONAL},
    {"factor analysis", IDENTITY, DENSE},
    {"factor analysis, scaled identity as prior", SCALED, DENSE},
    {"factor analysis, diagonal prior", DIAGONAL, DENSE},
    {"identity seen through a diagonal", IDENTITY, DIAGONAL},
    {"diagonal seen through the identity", DIAGONAL, IDENTITY},
};

#define PAIR_CASES (sizeof pair_cases / sizeof pair_cases[0])

/* One model written twice: [OURS] with built-in operators, [THEIRS] with the user's. */
typedef struct {
    pu_int N, M, D;
    pu_ar ar;
    pu_op Gamma[2], Phi[2];
    pu_lgm lgm[2];
    pu_data data;
    double tolerance;
    /* largest entries of the gradient of c */
    double nu, eta, psi, grad_Gamma, grad_Phi;
} pair;

/* The two versions of an operator of rows x cols numbers. */
static void make_operator(pu_op op[2], op_kind kind, pu_int rows, pu_int cols, uint64_t seed)
{
    pu_real *a;
    pu_int i;
    switch (kind) {
    case IDENTITY:
        op[OURS] = pu_op_identity(rows);
        op[THEIRS] = user_diagonal(rows, 0, NULL);
        break;
    case SCALED:
        a = tc_random_positive(seed, 1);
        op[OURS] = pu_op_scaled_identity(rows, a);
        op[THEIRS] = user_diagonal(rows, 1, a);
        break;
    case DIAGONAL:
        a = tc_random_positive(seed, rows);
        op[OURS] = pu_op_diagonal(rows, a);
        op[THEIRS] = user_diagonal(rows, rows, a);
        break;
    case DENSE:
        a = tc_normal(seed, rows * cols);
        for (i = 0; i < rows * cols; i++) a[i] = (pu_real)((double)a[i] / sqrt((double)cols));
        op[OURS] = pu_op_dense(rows, cols, a);
        op[THEIRS] = user_dense(rows, cols, a);
        break;
    case BUILT_IN_AR: break;
    }
}

/* The operator's matrix in double, from its products with unit vectors. */
static double *matrix_of(const pu_op *op)
{
    pu_real *E = tc_reals(op->cols * op->cols), *Y = tc_reals(op->rows * op->cols);
    pu_real *work = tc_reals(op->cols * op->work);
    double *a = tc_doubles(op->rows * op->cols);
    pu_int i, j;
    for (i = 0; i < op->cols; i++) E[i * op->cols + i] = 1;
    if (op->apply(op, op->cols, tc_block(E, op->cols), tc_block(Y, op->rows), 0, work) != PU_OK) exit(2);
    for (i = 0; i < op->rows; i++) {
        for (j = 0; j < op->cols; j++) a[i * op->cols + j] = (double)Y[j * op->rows + i];
    }
    return a;
}

/* Means, precisions and data with about a quarter missing; the same for both models. */
static void make_rest(pair *p, uint64_t seed)
{
    pu_real *nu = tc_normal(seed + 3, p->D), *eta = tc_normal(seed + 4, p->M);
    pu_real *psi = tc_random_positive(seed + 5, p->M), *y = tc_normal(seed + 6, p->N * p->M);
    double cond;
    pu_int i;
    for (i = 0; i < p->N * p->M; i++) {
        if (tc_hash(seed + (uint64_t)i) % 4 == 0) y[i] = PU_R(NAN);
    }
    p->data = pu_data_nan(p->N, p->M, y);
    for (i = 0; i < 2; i++) {
        p->lgm[i].Gamma = &p->Gamma[i];
        p->lgm[i].Phi = &p->Phi[i];
        p->lgm[i].nu = nu;
        p->lgm[i].eta = eta;
        p->lgm[i].psi = psi;
    }
    cond = tc_posterior_condition(matrix_of(&p->Gamma[OURS]), matrix_of(&p->Phi[OURS]), psi, p->D, p->M);
    p->tolerance = 4 * STEPS * sqrt(2 * (double)(p->M + p->D) + 8) * PU_TEST_EPS * cond;
    if (p->tolerance > 0.02) exit(2); /* a comparison would say nothing */
}

/* Fills *p; the struct must stay where it is, the models point into it. */
static void make_pair(pair *p, const pair_case *c, uint64_t seed)
{
    static const pu_real gamma[3] = {PU_R(0.5), PU_R(-0.3), PU_R(0.2)};
    memset(p, 0, sizeof *p);
    p->N = 3;
    p->D = c->Phi == DENSE ? 7 : 24;
    p->M = c->Phi == DENSE ? 18 : 24;
    if (c->Gamma == BUILT_IN_AR) {
        if (pu_ar_set(&p->ar, p->D, 3, gamma, PU_R(0.7), NULL) != PU_OK) exit(2);
        p->Gamma[OURS] = pu_op_ar(&p->ar);
        p->Gamma[THEIRS] = p->Gamma[OURS];
    } else {
        make_operator(p->Gamma, c->Gamma, p->D, p->D, seed + 1);
    }
    make_operator(p->Phi, c->Phi, p->M, p->D, seed + 2);
    make_rest(p, seed);
}

/* ---- comparing two gradients ----------------------------------------------------------------- */

/* max |x_i| */
static double largest(pu_int n, const pu_real *x)
{
    double most = 0;
    pu_int i;
    for (i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Two blocks of n results agree to the pair's tolerance, relative to the larger of `want` and `terms`. */
static greatest_test_res same_block(const pair *p, const char *name, pu_int n, const pu_real *got, const pu_real *want,
                                    double terms)
{
    const double scale = fmax(terms, largest(n, want));
    double error = 0;
    pu_int i;
    for (i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= error)) error = off; /* a NaN stays */
    }
    if (error <= p->tolerance * scale) PASS();
    snprintf(pu_test_message, sizeof pu_test_message, "%s: differs by %.3g, largest term %.3g, allowed %.3g of it", name, error,
             scale, p->tolerance);
    FAILm(tc_say(pu_test_message));
}

static greatest_test_res same_gradient(const pair *p, const tc_outputs *got, const tc_outputs *want, pu_int columns)
{
    CHECK_CALL(same_block(p, "nu", p->D, got->out.nu, want->out.nu, p->nu));
    CHECK_CALL(same_block(p, "eta", p->M, got->out.eta, want->out.eta, p->eta));
    CHECK_CALL(same_block(p, "psi", p->M, got->out.psi, want->out.psi, p->psi));
    CHECK_CALL(same_block(p, "Gamma", p->Gamma[OURS].params, got->out.Gamma, want->out.Gamma, p->grad_Gamma));
    CHECK_CALL(same_block(p, "Phi", p->Phi[OURS].params, got->out.Phi, want->out.Phi, p->grad_Phi));
    CHECK_CALL(same_block(p, "x", columns * p->D, got->out.x, want->out.x, 0));
    PASS();
}

/* Room for the gradients and x alone: exact engines have no step sizes. */
static tc_outputs make_outputs(const pu_lgm *lgm, const pair *p, pu_int samples)
{
    tc_outputs o = tc_make_outputs(lgm, p->N, samples, STEPS);
    o.out.residual = NULL;
    o.out.alpha = NULL;
    o.out.beta = NULL;
    o.out.logdet = NULL;
    o.out.columns = NULL;
    return o;
}

/* The gradient of c: no step is taken from x = 0. */
static greatest_test_res measure_terms(pair *p)
{
    tc_outputs o = make_outputs(&p->lgm[OURS], p, SAMPLES);
    pu_options options;
    pu_workspace ws = tc_workspace();
    pu_report report;
    memset(&options, 0, sizeof options);
    options.kind = PU_OUTPUT;
    options.samples = SAMPLES;
    options.solve.iterations = PU_ZERO;
    TC_STATUS(pu_gradient(&p->lgm[OURS], &p->data, &options, &ws, &o.out, &report), PU_OK);
    p->nu = largest(p->D, o.out.nu);
    p->eta = largest(p->M, o.out.eta);
    p->psi = largest(p->M, o.out.psi);
    p->grad_Gamma = largest(p->Gamma[OURS].params, o.out.Gamma);
    p->grad_Phi = largest(p->Phi[OURS].params, o.out.Phi);
    PASS();
}

/* ---- the runs -------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    pu_kind kind;
    pu_engine engine;
    pu_solver solver;
    pu_adjoint adjoint;
} run_case;

static const run_case run_cases[] = {
    {"network, CG", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL},
    {"network, PCG", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL},
    {"network, SD", PU_NETWORK, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL},
    {"network, GD", PU_NETWORK, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL},
    {"network, CG, auto", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_AUTO},
    {"network, CG, reorthogonal", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_REORTHOGONAL},
    {"network, PCG, shortcut", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_SHORTCUT},
    {"output, CG", PU_OUTPUT, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL},
    {"output, PCG", PU_OUTPUT, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL},
    {"output, SD", PU_OUTPUT, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL},
    {"output, GD", PU_OUTPUT, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL},
    {"Monte Carlo, iterative", PU_MONTE_CARLO, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL},
    {"Monte Carlo, dense", PU_MONTE_CARLO, PU_DENSE, PU_CG, PU_ADJOINT_FULL},
    {"Monte Carlo, dual", PU_MONTE_CARLO, PU_DUAL, PU_CG, PU_ADJOINT_FULL},
    {"Monte Carlo, banded", PU_MONTE_CARLO, PU_BANDED, PU_CG, PU_ADJOINT_FULL},
    {"exact, dense", PU_EXACT, PU_DENSE, PU_CG, PU_ADJOINT_FULL},
    {"exact, dual", PU_EXACT, PU_DUAL, PU_CG, PU_ADJOINT_FULL},
    {"exact, banded", PU_EXACT, PU_BANDED, PU_CG, PU_ADJOINT_FULL},
    {"exact, Kalman", PU_EXACT, PU_KALMAN, PU_CG, PU_ADJOINT_FULL},
    {"exact, auto", PU_EXACT, PU_ENGINE_AUTO, PU_CG, PU_ADJOINT_FULL},
};

#define RUN_CASES (sizeof run_cases / sizeof run_cases[0])

/* Does this engine serve these operators? The banded and Kalman engines want short rows of Phi, Kalman a time series. */
static int is_served(const pair_case *c, pu_engine engine)
{
    if (engine == PU_BANDED) return c->Phi != DENSE;
    if (engine == PU_KALMAN) return c->Gamma == BUILT_IN_AR;
    return 1;
}

static pu_options run_options(const run_case *r, const pu_real *delta)
{
    pu_options o;
    memset(&o, 0, sizeof o);
    o.kind = r->kind;
    o.engine = r->engine;
    o.samples = r->kind == PU_EXACT ? PU_ZERO : SAMPLES;
    o.delta = r->kind == PU_EXACT ? NULL : delta;
    o.solve.solver = r->solver;
    o.solve.adjoint = r->adjoint;
    o.solve.iterations = r->kind == PU_NETWORK || r->kind == PU_OUTPUT ? STEPS : 0;
    return o;
}

/* One run of both models: the same status, gradients, x and values. */
static greatest_test_res check_run(const pair *p, const pair_case *c, const run_case *r)
{
    const pu_int samples = r->kind == PU_EXACT ? 0 : SAMPLES;
    const pu_status expected = is_served(c, r->engine) ? PU_OK : PU_E_UNSUPPORTED;
    pu_options o = run_options(r, tc_normal(17, p->N * SAMPLES * p->D));
    tc_outputs want = make_outputs(&p->lgm[OURS], p, samples);
    tc_outputs got = make_outputs(&p->lgm[THEIRS], p, samples);
    pu_workspace ws = tc_workspace();
    pu_report ours, theirs;
    double scale;
    TC_STATUS(pu_gradient(&p->lgm[OURS], &p->data, &o, &ws, &want.out, &ours), expected);
    TC_STATUS(pu_gradient(&p->lgm[THEIRS], &p->data, &o, &ws, &got.out, &theirs), expected);
    if (expected != PU_OK) {
        TC_ASSERT(tc_outputs_untouched(&got));
        PASS();
    }
    CHECK_CALL(same_gradient(p, &got, &want, p->N * (samples + 1)));
    TC_ASSERT(ours.has_objective && theirs.has_objective);
    scale = p->tolerance * (1 + fabs(ours.c) + fabs(ours.q));
    TC_CLOSE(theirs.c, ours.c, scale);
    TC_CLOSE(theirs.q, ours.q, scale);
    if (r->kind == PU_EXACT) TC_CLOSE(theirs.nll, ours.nll, scale);
    if (o.delta) { /* and with probes that Gamma draws itself */
        o.delta = NULL;
        TC_STATUS(pu_gradient(&p->lgm[OURS], &p->data, &o, &ws, &want.out, &ours), PU_OK);
        TC_STATUS(pu_gradient(&p->lgm[THEIRS], &p->data, &o, &ws, &got.out, &theirs), PU_OK);
        CHECK_CALL(same_gradient(p, &got, &want, p->N * (samples + 1)));
    }
    PASS();
}

/* All runs of a case; stated: the user's operators say what they are. */
static greatest_test_res check_runs(const pair_case *c, int stated)
{
    const char *how = stated ? "stated" : "not stated";
    pair p;
    size_t i;
    make_pair(&p, c, 100);
    tc_set_case("%s", c->name);
    if (!stated) {
        p.Phi[THEIRS].form = PU_FORM_GENERAL;
        if (c->Gamma != BUILT_IN_AR) p.Gamma[THEIRS].form = PU_FORM_GENERAL;
    }
    CHECK_CALL(measure_terms(&p));
    for (i = 0; i < RUN_CASES; i++) {
        tc_set_case("%s, form %s, %s", c->name, how, run_cases[i].name);
        CHECK_CALL(check_run(&p, c, &run_cases[i]));
    }
    PASS();
}

TEST a_stated_form_gives_the_gradient_of_the_built_in_operator(const pair_case *c)
{
    CHECK_CALL(check_runs(c, 1));
    PASS();
}

TEST without_a_form_the_gradient_is_the_same(const pair_case *c)
{
    CHECK_CALL(check_runs(c, 0));
    PASS();
}

/* A, b, mu, Sigma and the values of one datum, from pu_exact. */
TEST the_posterior_is_that_of_the_built_in_operator(const pair_case *c)
{
    pair p;
    pu_exact_result e[2];
    pu_workspace ws = tc_workspace();
    pu_report report;
    double scale;
    int i;
    make_pair(&p, c, 200);
    tc_set_case("%s", c->name);
    memset(e, 0, sizeof e);
    for (i = 0; i < 2; i++) {
        e[i].A = tc_reals(p.D * p.D);
        e[i].Sigma = tc_reals(p.D * p.D);
        e[i].b = tc_reals(p.D);
        e[i].mu = tc_reals(p.D);
        TC_STATUS(pu_exact(&p.lgm[i], &p.data, 1, &ws, &e[i], &report), PU_OK);
    }
    CHECK_CALL(same_block(&p, "A", p.D * p.D, e[THEIRS].A, e[OURS].A, 0));
    CHECK_CALL(same_block(&p, "Sigma", p.D * p.D, e[THEIRS].Sigma, e[OURS].Sigma, 0));
    CHECK_CALL(same_block(&p, "b", p.D, e[THEIRS].b, e[OURS].b, 0));
    CHECK_CALL(same_block(&p, "mu", p.D, e[THEIRS].mu, e[OURS].mu, 0));
    scale = p.tolerance * (1 + fabs(e[OURS].c));
    TC_CLOSE(e[THEIRS].c, e[OURS].c, scale);
    TC_CLOSE(e[THEIRS].logdet, e[OURS].logdet, scale);
    TC_CLOSE(e[THEIRS].nll, e[OURS].nll, scale);
    PASS();
}

/* ---- forms that are not true ----------------------------------------------------------------- */

/* Twice the product that `data` stands for; right in everything else. */
static pu_status twice_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_status status = op->form == PU_FORM_MATRIX ? user_dense_apply(op, k, X, Y, add, work)
                                                  : user_diagonal_apply(op, k, X, Y, add, work);
    if (status != PU_OK) return status;
    if (op->form == PU_FORM_MATRIX) return user_dense_apply(op, k, X, Y, 1, work);
    return user_diagonal_apply(op, k, X, Y, 1, work);
}

static pu_status twice_dense_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_status status = user_dense_apply_t(op, k, X, Y, add, work);
    return status == PU_OK ? user_dense_apply_t(op, k, X, Y, 1, work) : status;
}

/* The gradient is refused, the report names the form, and nothing is written. */
static greatest_test_res is_refused(const pair *p, const char *what)
{
    tc_outputs out = make_outputs(&p->lgm[THEIRS], p, SAMPLES);
    pu_options o;
    pu_workspace ws = tc_workspace();
    pu_report report;
    pu_status status;
    memset(&o, 0, sizeof o);
    o.samples = SAMPLES;
    o.solve.iterations = STEPS;
    status = pu_gradient(&p->lgm[THEIRS], &p->data, &o, &ws, &out.out, &report);
    TC_ASSERT(status == PU_E_OPERATOR || status == PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, what, strlen(what)) == 0);
    TC_ASSERT(tc_outputs_untouched(&out));
    PASS();
}

/* The matrix that the form stands for is not the one that apply multiplies by. */
TEST a_form_with_other_products_is_refused(const pair_case *c)
{
    pair p;
    make_pair(&p, c, 300);
    tc_set_case("%s, Phi", c->name);
    p.Phi[THEIRS].apply = twice_apply;
    p.Phi[THEIRS].apply_t = c->Phi == DENSE ? twice_dense_apply_t : twice_apply;
    CHECK_CALL(is_refused(&p, "Phi.form"));
    if (c->Gamma == BUILT_IN_AR) PASS();
    make_pair(&p, c, 300);
    tc_set_case("%s, Gamma", c->name);
    p.Gamma[THEIRS].apply = twice_apply;
    CHECK_CALL(is_refused(&p, "Gamma.form"));
    PASS();
}

/* Sizes that no such operator has, and parameters without data. */
TEST a_form_that_cannot_be_is_refused(void)
{
    pair p;
    tc_set_case("a diagonal that is not square");
    make_pair(&p, &pair_cases[3], 400);
    p.Phi[THEIRS].form = PU_FORM_DIAGONAL;
    CHECK_CALL(is_refused(&p, "Phi.form"));
    tc_set_case("a matrix with too few parameters");
    make_pair(&p, &pair_cases[2], 400);
    p.Phi[THEIRS].form = PU_FORM_MATRIX;
    CHECK_CALL(is_refused(&p, "Phi.form"));
    tc_set_case("a diagonal with two parameters");
    make_pair(&p, &pair_cases[2], 400);
    p.Phi[THEIRS].params = 2;
    CHECK_CALL(is_refused(&p, "Phi.form"));
    tc_set_case("a form that is not in the list");
    make_pair(&p, &pair_cases[2], 400);
    p.Phi[THEIRS].form = (pu_form)99;
    CHECK_CALL(is_refused(&p, "Phi.form"));
    tc_set_case("a diagonal with as many parameters as a matrix");
    make_pair(&p, &pair_cases[5], 400);
    p.Gamma[THEIRS].params = p.D * p.D;
    CHECK_CALL(is_refused(&p, "Gamma.form"));
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < PAIR_CASES; i++) {
        RUN_TESTp(a_stated_form_gives_the_gradient_of_the_built_in_operator, &pair_cases[i]);
        RUN_TESTp(without_a_form_the_gradient_is_the_same, &pair_cases[i]);
        RUN_TESTp(the_posterior_is_that_of_the_built_in_operator, &pair_cases[i]);
    }
    for (i = 0; i < PAIR_CASES; i++) RUN_TESTp(a_form_with_other_products_is_refused, &pair_cases[i]);
    RUN_TEST(a_form_that_cannot_be_is_refused);
    PU_TEST_MAIN_END();
}

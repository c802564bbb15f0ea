/* test_priors.c - priors on theta (model.priors): the objective of a fit is NLL + penalty / N, for all data and for
   mini-batches, its gradient is that of both, optima and standard errors are those of the sum, bounds under a noise hold
   where maximum likelihood has no optimum, and a prior that makes no sense is refused. */
#include "pu_test.h"
#include "test_common.h"

#include <stdio.h>

/* Variants of this program may run side by side. */
#if PU_TEST_SANITIZED
static const char *const FILE_NAME = PU_TEST_PICK("test_priors.double_asan", "test_priors.float_asan");
#else
static const char *const FILE_NAME = PU_TEST_PICK("test_priors.double", "test_priors.float");
#endif

enum { M = 9, D = 2, N = 30, PARAMS = M * D + 2 * M, PSI = M * D + M };

typedef struct {
    pu_model model;
    pu_data data;
    pu_real theta[PARAMS], *y;
    pu_prior prior[6];
} problem;

static pu_prior prior(pu_prior_kind kind, pu_int first, pu_int count)
{
    pu_prior p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.first = first, p.count = count;
    return p;
}

static pu_prior gaussian(pu_int first, pu_int count, double mean, double precision)
{
    pu_prior p = prior(PU_PRIOR_GAUSSIAN, first, count);
    p.mean = mean, p.precision = precision;
    return p;
}

static pu_prior gamma_prior(pu_prior_kind kind, pu_int first, pu_int count, double shape, double rate)
{
    pu_prior p = prior(kind, first, count);
    p.shape = shape, p.rate = rate;
    return p;
}

static pu_prior bound(pu_prior_kind kind, pu_int first, pu_int count, double value, double observations)
{
    pu_prior p = prior(kind, first, count);
    p.bound = value, p.observations = observations;
    return p;
}

/* Factor analysis with gaps, and priors of all kinds that overlap; one of them is on the second column of Phi. */
static int factors(problem *p)
{
    pu_int i;
    memset(p, 0, sizeof *p);
    p->model.memory = tc_workspace();
    p->y = tc_normal(5, N * M);
    for (i = 0; i < N * M; i++)
        if (tc_hash((uint64_t)i) % 4 == 0) p->y[i] = PU_R(NAN);
    p->data = pu_data_nan(N, M, p->y);
    p->prior[0] = gaussian(1, M, 0.5, 3), p->prior[0].stride = D;
    p->prior[1] = gaussian(0, M * D + M, -0.1, 0.7);
    p->prior[2] = gamma_prior(PU_PRIOR_GAMMA, PSI, M, 1.5, 2);
    p->prior[3] = gamma_prior(PU_PRIOR_INVERSE_GAMMA, PSI + 2, 3, 0.5, 0.25);
    p->prior[4] = bound(PU_PRIOR_CEILING, PSI, M, 4, 0);
    p->prior[5] = bound(PU_PRIOR_FLOOR, PSI + 4, 1, 0.3, 5);
    if (pu_model_factors(&p->model, M, D, NULL) || pu_model_start(&p->model, &p->data, 1, p->theta, NULL)) return 0;
    p->model.priors = p->prior, p->model.prior_count = 6;
    return 1;
}

/* The penalty by its definition, in whole. */
static double penalty(const problem *p, const pu_real *theta)
{
    double sum = 0, entries = 0;
    pu_int i, k;
    for (i = 0; i < N * M; i++) entries += p->y[i] == p->y[i];
    for (k = 0; k < p->model.prior_count; k++)
        for (i = 0; i < p->prior[k].count; i++) {
            const pu_prior *q = &p->prior[k];
            const double t = (double)theta[q->first + i * (q->stride ? q->stride : 1)];
            const double m = q->observations > 0 ? q->observations : entries / (double)q->count;
            switch (q->kind) {
            case PU_PRIOR_GAUSSIAN: sum += q->precision / 2 * (t - q->mean) * (t - q->mean); break;
            case PU_PRIOR_GAMMA: sum += -q->shape * t + q->rate * exp(t); break;
            case PU_PRIOR_INVERSE_GAMMA: sum += q->shape * t + q->rate * exp(-t); break;
            case PU_PRIOR_FLOOR: sum += m / 2 * q->bound * exp(-t); break;
            case PU_PRIOR_CEILING: sum += m / 2 / q->bound * exp(t); break;
            }
        }
    return sum;
}

/* Mean NLL and penalty / N. */
static double objective(problem *p, const pu_real *theta)
{
    pu_options o;
    double nll = (double)NAN;
    memset(&o, 0, sizeof o);
    o.kind = PU_EXACT, o.engine = PU_DENSE;
    pu_model_nll(&p->model, theta, &p->data, &o, NULL, &nll, NULL, NULL);
    return nll + penalty(p, theta) / N;
}

static pu_fit_options exact(pu_optimizer optimizer, pu_int steps)
{
    pu_fit_options o;
    memset(&o, 0, sizeof o);
    o.optimizer = optimizer, o.steps = steps, o.gradient.kind = PU_EXACT, o.gradient.engine = PU_DENSE;
    return o;
}

/* pu_fit from the start of the problem. */
static pu_status fit(problem *p, const pu_fit_options *o, pu_real *theta, pu_fit_report *report)
{
    memcpy(theta, p->theta, (size_t)p->model.params * sizeof *theta);
    return pu_fit(&p->model, &p->data, o, NULL, theta, report);
}

/* Looks at every step of L-BFGS: objective and penalty are those of the point that is told. */
typedef struct {
    problem *p;
    double worst;
    int steps;
} watcher;

static int watch(const pu_fit_report *now, void *user)
{
    watcher *w = (watcher *)user;
    double at = objective(w->p, now->theta), part = penalty(w->p, now->theta) / N;
    w->worst = fmax(w->worst, fabs(now->objective - at) / (1 + fabs(at)));
    w->worst = fmax(w->worst, fabs(now->penalty - part) / (1 + fabs(part)));
    w->steps++;
    return 0;
}

TEST the_objective_is_nll_and_penalty(void)
{
    static const pu_optimizer list[] = {PU_ADAM, PU_SGD, PU_LBFGS};
    int i;
    for (i = 0; i < 3; i++) {
        problem p;
        watcher w;
        pu_real theta[PARAMS];
        pu_fit_options o = exact(list[i], 20);
        pu_fit_report report;
        char text[2000];
        double told;
        tc_set_case("optimiser %d", (int)list[i]);
        TC_ASSERT(factors(&p));
        memset(&w, 0, sizeof w);
        w.p = &p;
        if (list[i] == PU_LBFGS) o.progress = watch, o.user = &w;
        TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
        TC_ASSERT(list[i] != PU_LBFGS || w.steps >= 3);
        TC_ASSERT(w.worst <= 200 * PU_TEST_EPS); /* sums of a hundred terms of size one */
        TC_CLOSE(report.best, objective(&p, theta), 200 * PU_TEST_EPS * (1 + fabs(report.best)));
        TC_ASSERT(strstr(pu_fit_explain(&report, text, sizeof text), ", of which penalty ") != NULL);
        told = report.penalty; /* likelihoods of a model are without it */
        TC_ASSERT(told > 0.1);
        p.model.prior_count = 0;
        TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
        TC_ASSERT(report.penalty == 0);
        TC_CLOSE(report.best, objective(&p, theta), 200 * PU_TEST_EPS * (1 + fabs(report.best)));
    }
    PASS();
}

/* A step of SGD at rate one without momentum is the gradient, against differences of the objective. */
TEST the_gradient_is_that_of_the_objective(void)
{
    problem p;
    pu_real theta[PARAMS], moved[PARAMS];
    pu_fit_options o = exact(PU_SGD, 1);
    pu_fit_report report;
    const double h = PU_TEST_PICK(1e-5, 0.03);
    pu_int i;
    tc_set_case("gradient");
    TC_ASSERT(factors(&p));
    o.rate = 1, o.momentum = -1, o.batch = N; /* the last point, not the best, with a batch of all data */
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    for (i = 0; i < PARAMS; i++) {
        double up, down, g;
        memcpy(moved, p.theta, sizeof moved);
        moved[i] = p.theta[i] + (pu_real)h, up = objective(&p, moved);
        moved[i] = p.theta[i] - (pu_real)h, down = objective(&p, moved);
        g = (double)p.theta[i] - (double)theta[i];
        /* h^2 times a third derivative of about one, and rounding of the values over h */
        TC_CLOSE(g, (up - down) / (2 * h), h * h + 100 * PU_TEST_EPS / h);
    }
    PASS();
}

/* Batches of all sizes see the same penalty / N: their mean over an epoch is the objective. */
static double epoch_sum, epoch_penalty;
static int add_up(const pu_fit_report *now, void *user)
{
    (void)user;
    epoch_sum += now->objective, epoch_penalty += now->penalty;
    return 0;
}

TEST mini_batches_share_the_penalty(void)
{
    problem p;
    pu_real theta[PARAMS];
    pu_fit_options o = exact(PU_SGD, 6);
    pu_fit_report report;
    tc_set_case("mini-batches");
    TC_ASSERT(factors(&p));
    o.rate = 1e-30, o.momentum = -1, o.batch = N / 6, o.progress = add_up; /* theta stays where it is */
    epoch_sum = epoch_penalty = 0;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_CLOSE(epoch_sum / 6, objective(&p, p.theta), 200 * PU_TEST_EPS * (1 + fabs(epoch_sum)));
    TC_CLOSE(epoch_penalty / 6, penalty(&p, p.theta) / N, 200 * PU_TEST_EPS * (1 + epoch_penalty));
    PASS();
}

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    (void)model, (void)user;
    return (double)theta[0];
}

/* What a model says of itself, copies that its fast path saves, threads, and a second fit change nothing. */
TEST the_way_of_the_gradient_does_not_matter(void)
{
    problem p;
    pu_real theta[3][PARAMS];
    pu_fit_options o = exact(PU_ADAM, 15);
    pu_fit_report report;
    int i;
    tc_set_case("ways");
    TC_ASSERT(factors(&p));
    for (i = 0; i < 3; i++) {
        o.gradient.threads = i == 2 ? 3 : 1;
        if (i == 1) p.model.begins_with_Phi = 0, p.model.grad_is_finite = NULL;
        TC_STATUS(fit(&p, &o, theta[i], &report), PU_OK);
        TC_ASSERT(memcmp(theta[i], theta[0], sizeof theta[0]) == 0);
    }
    o.validate = validate, o.validate_every = 1;
    TC_STATUS(fit(&p, &o, theta[0], &report), PU_OK);
    TC_ASSERT(report.best == (double)theta[0][0]);
    PASS();
}

/* ---- one that can be solved by hand: y ~ N(0, 1/beta), since the dictionary is zero; alpha has no influence ---- */

enum { ROWS = 5, SETS = 8 };

typedef struct {
    pu_model model;
    pu_real Phi[ROWS], y[SETS * ROWS], theta[2];
    pu_op map;
    pu_data data;
    pu_prior prior[2];
    double m, squares;
} noise;

static int make_noise(noise *p, double size)
{
    pu_int i;
    memset(p, 0, sizeof *p);
    p->model.memory = tc_workspace();
    tc_fill_normal(4, SETS * ROWS, p->y);
    p->m = SETS * ROWS;
    for (i = 0; i < SETS * ROWS; i++) {
        p->y[i] *= (pu_real)size;
        p->squares += (double)p->y[i] * (double)p->y[i];
    }
    p->map = pu_op_dense(ROWS, 1, p->Phi);
    p->data = pu_data_full(SETS, ROWS, p->y);
    p->prior[0] = gaussian(0, 1, 0.3, 4);
    p->model.priors = p->prior;
    if (pu_model_regression(&p->model, &p->map, NULL)) return 0;
    p->model.priors = p->prior, p->model.prior_count = 2;
    return 1;
}

/* From theta 0: the optimum is alpha = exp(0.3) and this beta; the standard errors are these. */
static greatest_test_res solved(noise *p, double beta, double curvature)
{
    pu_fit_options o = exact(PU_LBFGS, 0);
    pu_fit_report report;
    pu_report told;
    pu_real se[2], covariance[4];
    /* An optimum is found to the square root of rounding of the objective, at most, times that of the error bars. */
    const double tol = sqrt(PU_TEST_PICK(1e-10, 4e-5)), step = pow(PU_TEST_EPS, 2.0 / 3);
    TC_STATUS(pu_fit(&p->model, &p->data, &o, NULL, p->theta, &report), PU_OK);
    TC_ASSERT(report.stop == PU_FIT_CONVERGED);
    TC_CLOSE(p->theta[0], 0.3, tol);
    TC_CLOSE(p->theta[1], log(beta), tol);
    TC_STATUS(pu_fit_errors(&p->model, &p->data, &o.gradient, NULL, p->theta, se, &told), PU_OK);
    TC_CLOSE(se[0], 0.5, 0.5 * (tol + 100 * step));
    TC_CLOSE(se[1], 1 / sqrt(curvature), (tol + 100 * step) / sqrt(curvature));
    TC_STATUS(pu_fit_covariance(&p->model, &p->data, &o.gradient, NULL, p->theta, covariance, &told), PU_OK);
    TC_CLOSE(covariance[3], 1 / curvature, 2 * (tol + 100 * step) / curvature);
    PASS();
}

TEST optima_and_errors_are_those_of_the_sum(void)
{
    noise p;
    double variance;
    tc_set_case("gamma"); /* as 2 shape more observations with the sum of squares 2 rate */
    TC_ASSERT(make_noise(&p, 2));
    p.prior[1] = gamma_prior(PU_PRIOR_GAMMA, 1, 1, 6, 9);
    CHECK_CALL(solved(&p, (p.m / 2 + 6) / (p.squares / 2 + 9), p.m / 2 + 6));
    tc_set_case("ceiling"); /* the variance is larger by 1 / bound */
    TC_ASSERT(make_noise(&p, 2));
    p.prior[1] = bound(PU_PRIOR_CEILING, 1, 1, 10, 0);
    variance = p.squares / p.m + 0.1;
    CHECK_CALL(solved(&p, 1 / variance, p.m / 2));
    tc_set_case("ceiling, nothing but zeros"); /* maximum likelihood: beta is infinite */
    TC_ASSERT(make_noise(&p, 0));
    p.prior[1] = bound(PU_PRIOR_CEILING, 1, 1, 10, 0);
    CHECK_CALL(solved(&p, 10, p.m / 2));
    tc_set_case("gaussian");
    TC_ASSERT(make_noise(&p, 2));
    p.prior[1] = gaussian(1, 1, log(p.m / p.squares), 7); /* where the likelihood has its maximum, too */
    CHECK_CALL(solved(&p, p.m / p.squares, p.m / 2 + 7));
    PASS();
}

/* y_t = z_t + N(0, lambda), where a prior holds the variance of z near nothing. */
TEST variances_have_floors_and_inverse_gammas(void)
{
    enum { LENGTH = 40 };
    int is_floor;
    for (is_floor = 0; is_floor < 2; is_floor++) {
        pu_model model;
        pu_real *y = tc_normal(6, LENGTH), theta[2] = {PU_R(-14), PU_R(0)};
        pu_data data = pu_data_full(1, LENGTH, y);
        pu_prior list[2];
        pu_fit_options o = exact(PU_LBFGS, 0);
        pu_fit_report report;
        double squares = 0, want;
        pu_int i;
        tc_set_case("floor %d", is_floor);
        memset(&model, 0, sizeof model);
        model.memory = tc_workspace();
        for (i = 0; i < LENGTH; i++) squares += (double)y[i] * (double)y[i];
        TC_STATUS(pu_model_noisy_ar(&model, LENGTH, 0, NULL), PU_OK);
        list[0] = gaussian(0, 1, -14, 1e4);
        list[1] = is_floor ? bound(PU_PRIOR_FLOOR, 1, 1, 0.2, 0) : gamma_prior(PU_PRIOR_INVERSE_GAMMA, 1, 1, 3, 5);
        want = is_floor ? squares / LENGTH + 0.2 : (squares / 2 + 5) / (LENGTH / 2.0 + 3);
        model.priors = list, model.prior_count = 2;
        o.gradient.engine = PU_BANDED;
        TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &report), PU_OK);
        TC_CLOSE(theta[1], log(want), PU_TEST_PICK(2e-5, 6e-3)); /* exp(-14) = 8e-7 beside it, and the optimum's error */
    }
    PASS();
}

/* Sparse learning with free noise and more columns than rows: the NLL falls without end as beta grows. A ceiling ends that,
   and the noise is not below the bound. */
TEST a_ceiling_ends_the_flight_of_the_noise(void)
{
    enum { R = 12, C = 24 };
    int with_prior;
    for (with_prior = 0; with_prior < 2; with_prior++) {
        pu_real *Phi = tc_normal(11, R * C), *y = tc_reals(R), theta[C + 1];
        pu_op map = pu_op_dense(R, C, Phi);
        pu_data data = pu_data_full(1, R, y);
        pu_prior list = bound(PU_PRIOR_CEILING, C, 1, 1e3, 0);
        pu_model model;
        pu_fit_options o;
        pu_fit_report report;
        double beta;
        pu_int i;
        tc_set_case("prior %d", with_prior);
        memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
        model.memory = tc_workspace();
        for (i = 0; i < R; i++) y[i] = Phi[i * C] - 2 * Phi[i * C + 7];
        TC_STATUS(pu_model_sparse(&model, &map, NULL), PU_OK);
        TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
        model.priors = &list, model.prior_count = with_prior;
        o.optimizer = PU_LBFGS;
        (void)pu_fit(&model, &data, &o, NULL, theta, &report);
        beta = exp((double)theta[C]);
        if (with_prior) TC_STATUS(report.status, PU_OK);
        TC_ASSERT(with_prior ? beta < 1e3 && beta > 100 : beta > 1e5);
    }
    PASS();
}

/* ---- what is refused ---- */

TEST what_makes_no_sense_is_refused(void)
{
    static const double bad[] = {(double)NAN, HUGE_VAL, -1};
    static const char *const what[] = {"kind",   "first", "first", "first", "first", "first",   "first",
                                       "mean",   "mean",  "mean",  "mean",  "mean",  "shape",   "shape",
                                       "shape",  "rate",  "rate",  "rate",  "bound", "bound",   "bound",
                                       "bound",  "bound", "bound", "bound", "bound", "another", "another",
                                       "another", "no logarithms", "no logarithms"};
    enum { CASES = sizeof what / sizeof *what };
    pu_real theta[PARAMS], se[PARAMS];
    pu_fit_options o = exact(PU_ADAM, 2);
    pu_fit_report report;
    pu_report told;
    pu_model around;
    pu_int from[PARAMS];
    problem p;
    int i;
    TC_ASSERT(factors(&p));
    for (i = 0; i < CASES; i++) {
        pu_prior *q = &p.prior[3];
        tc_set_case("case %d", i);
        *q = gaussian(1, 2, 0, 1);
        if (i >= 12 && i < 18) *q = gamma_prior(PU_PRIOR_GAMMA, PSI, 1, 1, 1);
        if (i >= 18 && i < 25) *q = bound(PU_PRIOR_FLOOR, PSI, 1, 1, 1);
        switch (i) {
        case 0: q->kind = (pu_prior_kind)5; break;
        case 1: q->first = -1; break;
        case 2: q->first = PARAMS; break;
        case 3: q->count = 0; break;
        case 4: q->count = PARAMS; break;
        case 5: q->stride = -1; break;
        case 6: q->stride = PARAMS - 1; break;
        case 7: q->mean = bad[0]; break;
        case 8: q->mean = bad[1]; break;
        case 9: case 10: case 11: q->precision = bad[i - 9]; break;
        case 12: case 13: case 14: q->shape = bad[i - 12]; break;
        case 15: case 16: case 17: q->rate = bad[i - 15]; break;
        case 18: case 19: case 20: q->bound = bad[i - 18]; break;
        case 21: case 22: case 23: q->observations = bad[i - 21]; break;
        case 24: q->bound = 0; break;
        case 25: q->bound = 1; break;        /* of a gaussian */
        case 26: q->shape = 1; break;        /* .. */
        case 27: q->observations = 1; break; /* .. */
        case 28: *q = gamma_prior(PU_PRIOR_GAMMA, PSI, 1, 1, 1), q->precision = 1; break;
        case 29: *q = gamma_prior(PU_PRIOR_GAMMA, PSI - 1, 1, 1, 1); break;
        case 30: *q = bound(PU_PRIOR_CEILING, PSI - D, 2, 1, 0), q->stride = D; break;
        }
        TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
        TC_ASSERT(tc_named(report.where.what, "model.priors") && report.where.index == 3);
        TC_ASSERT(strstr(report.where.what, what[i]) != NULL && report.gradients == 0);
        TC_ASSERT(memcmp(theta, p.theta, sizeof theta) == 0);
        TC_STATUS(pu_fit_errors(&p.model, &p.data, NULL, NULL, p.theta, se, &told), PU_E_ARGUMENT);
        TC_ASSERT(strcmp(told.where.what, report.where.what) == 0 && told.where.index == 3);
    }
    tc_set_case("list");
    TC_ASSERT(factors(&p));
    p.model.prior_count = -1;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(report.where.what, "model.prior_count"));
    p.model.prior_count = 1, p.model.priors = NULL;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_NULL);
    TC_ASSERT(tc_named(report.where.what, "model.priors"));
    p.model.prior_count = 0;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    tc_set_case("inside another model");
    memset(&around, 0, sizeof around);
    around.memory = tc_workspace();
    for (i = 0; i < PARAMS; i++) from[i] = i;
    p.model.priors = p.prior, p.model.prior_count = 1;
    TC_STATUS(pu_model_fix(&around, &p.model, from, NULL, &told), PU_E_ARGUMENT);
    TC_ASSERT(tc_named(told.where.what, "inner.priors"));
    p.model.prior_count = 0;
    TC_STATUS(pu_model_fix(&around, &p.model, from, NULL, &told), PU_OK);
    tc_set_case("taken");
    p.model.priors = p.prior, p.model.prior_count = 1; /* the longest stretch, a stride that is not used, no strength */
    p.prior[0] = gaussian(0, PARAMS, 0, 0);
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    p.prior[0] = gaussian(PARAMS - 1, 1, 0, 1), p.prior[0].stride = PARAMS;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    PASS();
}

/* A step to where the penalty overflows is too far: halved and counted, never a failure. */
TEST an_infinite_penalty_is_stepped_back_from(void)
{
    static const pu_optimizer list[] = {PU_ADAM, PU_SGD, PU_LBFGS};
    const double high = PU_TEST_PICK(1e60, 1e6);
    int i;
    for (i = 0; i < 3; i++) {
        problem p;
        pu_real theta[PARAMS];
        pu_fit_options o = exact(list[i], 30);
        pu_fit_report report;
        pu_int j;
        tc_set_case("optimiser %d", (int)list[i]);
        TC_ASSERT(factors(&p));
        for (j = 0; j < M; j++) p.theta[PSI + j] = 0;
        /* Uphill by the second one, where the first one waits: rate exp(600), in float exp(80), is no number. The optimum is at
           the square root of ten. */
        p.prior[0] = gamma_prior(PU_PRIOR_GAMMA, PSI, M, 0, high);
        p.prior[1] = gamma_prior(PU_PRIOR_INVERSE_GAMMA, PSI, M, 0, 10 * high);
        p.model.prior_count = 2;
        if (list[i] == PU_ADAM) o.rate = PU_TEST_PICK(600, 80);
        if (list[i] == PU_SGD) o.rate = PU_TEST_PICK(600, 80) * N / (9 * high), o.momentum = -1;
        TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
        TC_ASSERT(list[i] == PU_LBFGS || report.rejected > 0);
        TC_ASSERT(report.best < 11.01 * high * M / N && pu_model_set(&p.model, theta, NULL) == PU_OK);
    }
    PASS();
}

/* A checkpoint goes on only with the priors that it was made with. */
TEST checkpoints_know_their_priors(void)
{
    problem p;
    pu_real whole[PARAMS], theta[PARAMS];
    pu_fit_options o = exact(PU_ADAM, 12);
    pu_fit_report report;
    pu_prior keep;
    tc_set_case("checkpoint");
    TC_ASSERT(factors(&p));
    TC_STATUS(fit(&p, &o, whole, &report), PU_OK);
    remove(FILE_NAME);
    o.checkpoint = FILE_NAME, o.resume = 1, o.steps = 5;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    keep = p.prior[0], o.steps = 12;
    p.prior[0].precision += 1e-9;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_FILE);
    TC_ASSERT(strncmp(report.where.what, "checkpoint: model.priors (a number of them) is ", 46) == 0);
    p.prior[0] = keep, p.model.prior_count = 5;
    TC_STATUS(fit(&p, &o, theta, &report), PU_E_FILE);
    TC_ASSERT(strncmp(report.where.what, "checkpoint: model.priors (a number of them) is ", 46) == 0);
    p.model.prior_count = 6;
    TC_STATUS(fit(&p, &o, theta, &report), PU_OK);
    TC_ASSERT(report.resumed == 5 && memcmp(theta, whole, sizeof theta) == 0);
    remove(FILE_NAME);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(the_objective_is_nll_and_penalty);
    RUN_TEST(the_gradient_is_that_of_the_objective);
    RUN_TEST(mini_batches_share_the_penalty);
    RUN_TEST(the_way_of_the_gradient_does_not_matter);
    RUN_TEST(optima_and_errors_are_those_of_the_sum);
    RUN_TEST(variances_have_floors_and_inverse_gammas);
    RUN_TEST(a_ceiling_ends_the_flight_of_the_noise);
    RUN_TEST(what_makes_no_sense_is_refused);
    RUN_TEST(an_infinite_penalty_is_stepped_back_from);
    RUN_TEST(checkpoints_know_their_priors);
    PU_TEST_MAIN_END();
}

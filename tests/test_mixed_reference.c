/* test_mixed_reference.c - mixed effects against lme4 1.1 (R): likelihood, REML criterion, variances, fixed effects and their
   standard errors, effects and their standard deviations. tests/bench/mixed_reference.R makes the same data and the table here. */
#include "pu_test.h"
#include "test_common.h"

enum { SHAPE_CROSSED, SHAPE_NESTED, SHAPE_UNBALANCED, SHAPE_SLOPES, GROUPS = 3, ROWS = 200 };

typedef struct {
    const char *name;
    int seed, rows, levels[2], shape;
    pu_method method;
    int p;
    double nll; /* REML: half of the criterion */
    double variance[GROUPS + 1], b[2], se[2];
    double mean[GROUPS], sd[GROUPS]; /* of the effects in the first row */
} answer;

static const answer answers[] = {
    {"crossed", 1, 120, {12, 7}, SHAPE_CROSSED, PU_ML, 1, 177.329496177524,
     {0.78678729132848, 0.423171400517219, 0.788683417320986}, {1.87274681202349}, {0.364642082597084},
     {-1.05616733108303, 0.913589186197659}, {0.32574930158992, 0.262368174334053}},
    {"crossed", 2, 120, {12, 7}, SHAPE_CROSSED, PU_REML, 2, 147.069226867595,
     {0.581145880713222, 0.459821105449703, 0.442644215989184}, {0.448826547418833, 0.525851398007764},
     {0.366901383982016, 0.0639457862849271}, {-0.25847809141113, -0.990833845705326},
     {0.260250260105939, 0.222557205504307}},
    {"nested", 3, 150, {8, 24}, SHAPE_NESTED, PU_ML, 2, 187.509686201687,
     {0.727307547948556, 0.295176471192999, 0.507031038185039}, {0.331389929542918, 0.477995147056141},
     {0.344882644475234, 0.0582786394646671}, {0.217407889255604, 0.977688521961273},
     {0.325100595919612, 0.35539364184895}},
    {"nested", 3, 150, {8, 24}, SHAPE_NESTED, PU_REML, 2, 189.597379023497,
     {0.849652530872134, 0.295235493831639, 0.510948877539768}, {0.331529852713099, 0.478200012250208},
     {0.366555849097831, 0.0585072986885015}, {0.22176179435117, 0.972387546990005},
     {0.328803249817306, 0.357801708029333}},
    {"unbalanced", 4, 140, {20, 9}, SHAPE_UNBALANCED, PU_REML, 1, 193.513654082989,
     {0.531587392045158, 0.650901446443441, 0.629455463208139}, {1.80665128083629}, {0.33076552720658},
     {0.386883719831285, -0.186247899455721}, {0.299188810164553, 0.249222240960058}},
    {"slopes", 5, 160, {11, 6}, SHAPE_SLOPES, PU_ML, 2, 199.741431691011,
     {0.246740574417236, 0.414696369753072, 0.136898087018103, 0.491369849916939},
     {0.945720440485208, 0.458268635833245}, {0.335760613695617, 0.129623518990444},
     {0.115856193691385, -1.16578490212932, 0.498304801500095},
     {0.301999204774824, 0.194414402310068, 0.120547226261199}},
    {"slopes", 6, 160, {11, 6}, SHAPE_SLOPES, PU_REML, 2, 206.993120389412,
     {0.460196446012123, 0.325308306968967, 0.199771400744528, 0.515689549194002},
     {0.462482197053405, 0.627140315692758}, {0.33810014844434, 0.148420162847053},
     {-0.0877103868250302, -0.35775117749154, 0.0366717618423394},
     {0.301266849295878, 0.210909473380938, 0.121952533205375}},
};
enum { ANSWERS = (int)(sizeof answers / sizeof *answers) };

/* The data of an answer. */
typedef struct {
    int32_t a[ROWS], b[ROWS];
    pu_real x[ROWS], X[2 * ROWS], y[ROWS];
    pu_group group[GROUPS];
    int groups;
} sample;

static int64_t state;

static double uniform(void)
{
    state = state * 16807 % 2147483647;
    return (double)state / 2147483647;
}

static double about_normal(void)
{
    double sum = uniform();
    for (int i = 0; i < 3; i++) sum += uniform();
    return (sum - 2) * sqrt(3.0);
}

static void make_sample(const answer *w, sample *s)
{
    double ua[32], va[32], ub[32];
    const int na = w->levels[0], nb = w->levels[1];
    state = w->seed;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < na; i++) ua[i] = 0.8 * about_normal();
    for (int i = 0; i < na; i++) va[i] = 0.5 * about_normal();
    for (int i = 0; i < nb; i++) ub[i] = 0.6 * about_normal();
    for (int m = 0; m < w->rows; m++) {
        double p = uniform(), q = uniform(), x, y;
        if (w->shape == SHAPE_UNBALANCED) p = p * p, q = q * q * q;
        const int a = (int)(p * na), b = w->shape == SHAPE_NESTED ? a * (nb / na) + (int)(q * (nb / na)) : (int)(q * nb);
        x = 2 + about_normal();
        y = 1 + 0.5 * x + ua[a] + ub[b] + (w->shape == SHAPE_SLOPES ? va[a] * x : 0) + 0.7 * about_normal();
        s->a[m] = a, s->b[m] = b, s->x[m] = (pu_real)x, s->y[m] = (pu_real)y;
        s->X[m * w->p] = 1;
        if (w->p > 1) s->X[m * w->p + 1] = (pu_real)x;
    }
    s->groups = w->shape == SHAPE_SLOPES ? 3 : 2;
    s->group[0].levels = na, s->group[0].level = s->a;
    s->group[1].levels = nb, s->group[1].level = s->b;
    s->group[2].levels = na, s->group[2].level = s->a, s->group[2].slope = s->x;
}

static void make_model(const answer *w, const sample *s, pu_method method, pu_model *model, pu_real *theta, pu_status *status)
{
    const int at = method == PU_ML ? w->p : 0;
    pu_report r;
    memset(model, 0, sizeof *model);
    model->memory = tc_workspace();
    for (int i = 0; i < at; i++) theta[i] = (pu_real)w->b[i];
    for (int g = 0; g <= s->groups; g++) theta[at + g] = (pu_real)log(w->variance[g]);
    *status = pu_model_effects(model, w->rows, s->groups, s->group, w->p, s->X, method, &r);
}

/* The library's REML likelihood counts a 2 pi for each row, lme4's one less for each coefficient. */
static double constant(const answer *w) { return w->method == PU_REML ? w->p * log(6.28318530717958647692) / 2 : 0; }

/* eps times the condition of A, below 1e3 here (rows of a level times its variance over the noise's, of both groups), times 10 for
   the sums on the way, y, x and theta being rounded to pu_real as well. lme4's numbers are good to 1e-10. */
static const double close_to = 1e4 * PU_TEST_EPS + 1e-10;

TEST likelihood_and_effects_at_the_estimates_of_lme4(void)
{
    for (int i = 0; i < ANSWERS; i++) {
        const answer *w = answers + i;
        static sample s;
        pu_model model, reml;
        pu_real theta[8], given[8], grad[8], *mean, *variance;
        pu_posterior_result post;
        pu_options o = {0};
        pu_report r;
        pu_status status;
        double nll;
        int at = 0;
        tc_set_case("%s, %s", w->name, w->method ? "REML" : "ML");
        make_sample(w, &s);
        o.engine = PU_ENGINE_AUTO, o.kind = PU_EXACT;
        pu_data data = pu_data_full(1, w->rows, s.y);
        make_model(w, &s, w->method, &model, theta, &status);
        TC_STATUS(status, PU_OK);
        TC_STATUS(pu_model_nll(&model, theta, &data, &o, NULL, &nll, NULL, &r), PU_OK);
        TC_CLOSE(nll - constant(w), w->nll, close_to * w->nll);
        /* Its optimiser ends where theirs would: the gradient in standard errors of a log variance, about (2 / levels)^1/2, is
           what 1e-11 in a standard deviation leaves of a flat maximum, 1e-5 or so, and our rounding. */
        TC_STATUS(pu_model_gradient(&model, theta, &data, &o, NULL, grad, NULL, &r), PU_OK);
        for (int k = w->method ? 0 : w->p; k < model.params; k++) TC_CLOSE(grad[k], 0, 1e-4 + 1e2 * close_to);
        /* Effects: lme4's standard deviations take b for known, as ML has it; those of b are of REML's z. */
        make_model(w, &s, PU_ML, &model, theta, &status);
        make_model(w, &s, PU_REML, &reml, given, &status);
        mean = tc_reals(reml.Gamma.rows), variance = tc_reals(reml.Gamma.rows);
        memset(&post, 0, sizeof post);
        post.mean = mean, post.variance = variance;
        TC_STATUS(pu_model_posterior(&model, theta, &data, &o, NULL, &post, &r), PU_OK);
        for (int g = 0; g < s.groups; at += (int)s.group[g++].levels) {
            TC_CLOSE(mean[at + s.group[g].level[0]], w->mean[g], 10 * close_to);
            TC_CLOSE(sqrt((double)variance[at + s.group[g].level[0]]), w->sd[g], close_to);
        }
        TC_STATUS(pu_model_posterior(&reml, given, &data, &o, NULL, &post, &r), PU_OK);
        for (int k = 0; k < w->p; k++) {
            TC_CLOSE(mean[at + k], w->b[k], 10 * close_to);
            TC_CLOSE(sqrt((double)variance[at + k]), w->se[k], close_to);
        }
    }
    PASS();
}

/* A fit ends within 1e-5 squared standard errors of the minimum (pu_fit), so within 3e-3 of one, (2 / levels)^1/2 < 0.6 of a variance;
   rounding of a float objective of 200 leaves more. */
TEST fits_end_where_lme4_ends(void)
{
    for (int i = 0; i < ANSWERS; i++) {
        const answer *w = answers + i;
        static sample s;
        pu_model model;
        pu_real theta[8];
        pu_fit_options fit = {0};
        pu_fit_report report;
        pu_report r;
        pu_status status;
        const double loose = PU_TEST_EPS > 2e-16 ? 0.05 : 2e-3;
        tc_set_case("%s, %s", w->name, w->method ? "REML" : "ML");
        make_sample(w, &s);
        pu_data data = pu_data_full(1, w->rows, s.y);
        make_model(w, &s, w->method, &model, theta, &status);
        TC_STATUS(status, PU_OK);
        TC_STATUS(pu_model_start(&model, &data, 0, theta, &r), PU_OK);
        fit.gradient.engine = PU_ENGINE_AUTO, fit.gradient.kind = PU_EXACT, fit.optimizer = PU_LBFGS;
        TC_STATUS(pu_fit(&model, &data, &fit, NULL, theta, &report), PU_OK);
        TC_ASSERT(report.stop == PU_FIT_CONVERGED || PU_TEST_EPS > 2e-16);
        TC_CLOSE(report.best - constant(w), w->nll, 1e-5 + close_to * w->nll);
        const int at = w->method ? 0 : w->p;
        for (int k = 0; k < at; k++) TC_CLOSE(theta[k], w->b[k], loose * w->se[k]);
        for (int g = 0; g <= s.groups; g++) TC_CLOSE(exp((double)theta[at + g]), w->variance[g], loose * w->variance[g]);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(likelihood_and_effects_at_the_estimates_of_lme4);
    RUN_TEST(fits_end_where_lme4_ends);
    PU_TEST_MAIN_END();
}

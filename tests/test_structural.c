/* test_structural.c - structural models against their definition in wide numbers (structural_reference.h), every kind of part
   and start, singular noise, gaps, forecasts; refusals; fits of simulated series. */
#include "pu_test.h"
#include "test_common.h"

#include "structural_reference.h"

#define MOST_PARAMS 16

typedef struct {
    const char *name;
    int T, count;
    pu_part parts[REF_PARTS];
} shape;

/* kind, size, constant */
static const shape shapes[] = {
    {"level", 20, 1, {{PU_PART_LEVEL, 0, 0}}},
    {"constant level", 20, 1, {{PU_PART_LEVEL, 0, 1}}},
    {"one step", 1, 1, {{PU_PART_LEVEL, 0, 0}}},
    {"level and slope", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}}},
    {"smooth trend", 20, 2, {{PU_PART_LEVEL, 0, 1}, {PU_PART_SLOPE, 0, 0}}},
    {"straight line", 20, 2, {{PU_PART_LEVEL, 0, 1}, {PU_PART_SLOPE, 0, 1}}},
    {"season", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}}},
    {"season of 2", 12, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 2, 0}}},
    {"constant season", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 5, 1}}},
    {"basic structural", 30, 3, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 7, 0}}},
    {"trigonometric, even", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON_TRIG, 6, 0}}},
    {"trigonometric, odd", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON_TRIG, 5, 0}}},
    {"constant trigonometric", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON_TRIG, 4, 1}}},
    {"cycle", 20, 1, {{PU_PART_CYCLE, 0, 0}}},
    {"level and cycle", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_CYCLE, 0, 0}}},
    {"autoregression 1", 20, 1, {{PU_PART_AR, 1, 0}}},
    {"autoregression 3", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_AR, 3, 0}}},
    {"shorter than its order", 3, 1, {{PU_PART_AR, 5, 0}}},
    {"moving average 1", 20, 1, {{PU_PART_MA, 1, 0}}},
    {"moving average 4", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_MA, 4, 0}}},
    {"ARMA(1,1)", 20, 2, {{PU_PART_AR, 1, 0}, {PU_PART_MA, 1, 0}}},
    {"ARMA(3,1)", 20, 3, {{PU_PART_LEVEL, 0, 1}, {PU_PART_AR, 3, 0}, {PU_PART_MA, 1, 0}}},
    {"ARMA(1,3), longer than the series", 3, 2, {{PU_PART_AR, 1, 0}, {PU_PART_MA, 3, 0}}},
    {"two of them", 24, 5, {{PU_PART_AR, 2, 0}, {PU_PART_MA, 2, 0}, {PU_PART_MA, 1, 0}, {PU_PART_AR, 1, 0}, {PU_PART_MATERN12, 0, 0}}},
    {"Matern 1/2", 20, 1, {{PU_PART_MATERN12, 0, 0}}},
    {"Matern 3/2", 20, 1, {{PU_PART_MATERN32, 0, 0}}},
    {"Matern 5/2", 20, 1, {{PU_PART_MATERN52, 0, 0}}},
    {"AR(2) alone", 20, 2, {{PU_PART_AR, 2, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"MA(1) alone", 20, 2, {{PU_PART_MA, 1, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"ARMA(2,3) alone", 20, 3, {{PU_PART_AR, 2, 0}, {PU_PART_MA, 3, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"ARMA(3,1) about a level", 20, 4, {{PU_PART_NO_IRREGULAR, 0, 0}, {PU_PART_LEVEL, 0, 1}, {PU_PART_AR, 3, 0}, {PU_PART_MA, 1, 0}}},
    {"level, trend, ARMA(1,1), no noise",
     20,
     5,
     {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_AR, 1, 0}, {PU_PART_MA, 1, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"random walk", 20, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"level and seasons, no noise", 24, 4, {{PU_PART_SEASON, 4, 0}, {PU_PART_SEASON_TRIG, 5, 0}, {PU_PART_LEVEL, 0, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"one step, no noise", 1, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"cycle, Matern, MA, no noise",
     20,
     4,
     {{PU_PART_CYCLE, 0, 0}, {PU_PART_MATERN32, 0, 0}, {PU_PART_MA, 2, 0}, {PU_PART_NO_IRREGULAR, 0, 0}}},
    {"two seasons", 30, 3, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}, {PU_PART_SEASON_TRIG, 7, 0}}},
    {"six parts",
     24,
     6,
     {{PU_PART_LEVEL, 0, 0},
      {PU_PART_SLOPE, 0, 0},
      {PU_PART_SEASON, 4, 0},
      {PU_PART_CYCLE, 0, 0},
      {PU_PART_AR, 2, 0},
      {PU_PART_MATERN32, 0, 0}}}};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* gaps: none, some, a block at the start and the last steps */
enum { WHOLE, GAPS, ENDS, PATTERNS };

static ref_model reference;
static ref_result expected;

/* theta at random: variances about e^-1, gamma and the others moderate. */
static void make_theta(const pu_model *m, uint64_t seed, pu_real *theta)
{
    tc_fill_normal(seed, m->params, theta);
    for (pu_int i = 0; i < m->params; i++) theta[i] = (pu_real)(0.7 * (double)theta[i] - 0.3);
}

/* A series about 100 where there is a level, else about 0, that moves by a few; NaN where missing. */
static void make_series(const pu_part *parts, int T, int pattern, uint64_t seed, pu_real *y)
{
    double centre = parts->kind == PU_PART_LEVEL ? 100 : 0;
    tc_fill_normal(seed, T, y);
    for (int t = 0; t < T; t++) {
        y[t] = (pu_real)(centre + 2 * (double)y[t] + t / 5.0);
        if (pattern == GAPS && (t % 11 == 2 || t % 11 == 6)) y[t] = PU_R(NAN);
        if (pattern == ENDS && T > 4 && (t < T / 10 || t >= T - T / 5)) y[t] = PU_R(NAN);
    }
}

/* The reference at theta: likelihood, gradient, posterior. Returns 0 where the data do not identify a state. */
static int run_reference(const shape *s, const pu_real *theta, pu_int params, const pu_real *y)
{
    wide at[REF_PARAMS], e[REF_T];
    for (pu_int i = 0; i < params; i++) at[i] = (wide)theta[i];
    for (int t = 0; t < s->T; t++) e[t] = (wide)y[t];
    ref_make(&reference, s->T, NULL, s->parts, s->count, at);
    if (ref_run(&reference, e, &expected) != 1) return 0;
    ref_gradient(&reference, &expected);
    ref_posterior(&reference, &expected);
    return 1;
}

/* One shape and pattern: likelihood, gradient, all parts with their variances. */
static enum greatest_test_res compare(const shape *s, int pattern)
{
    pu_model m;
    pu_report r;
    pu_real y[REF_T], theta[MOST_PARAMS], grad[MOST_PARAMS], mean[REF_T], fit[REF_T];
    double size;
    pu_data data;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural(&m, s->T, s->parts, s->count, &r) == PU_OK);
    TC_ASSERT(m.params <= MOST_PARAMS);
    make_theta(&m, (uint64_t)(7 * s->T + s->count), theta);
    make_series(s->parts, s->T, pattern, 3, y);
    TC_ASSERT(run_reference(s, theta, m.params, y));
    data = pu_data_nan(1, s->T, y);
    TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
    TC_ASSERT(r.served[PU_KALMAN] == 1 && r.has_nll && r.nll_se == 0);
    /* psi is rounded to pu_real, which is in every square */
    size = 100 * PU_TEST_EPS * (fabs(expected.nll) + s->T);
    PU_CHECK_CLOSE(r.nll, expected.nll, size);
    for (int part = 0; part <= s->count; part++) {
        pu_op map = pu_model_part(&m, part);
        pu_predict_result out;
        memset(&out, 0, sizeof out);
        out.mean = mean;
        out.fit = fit;
        if (part < s->count) out.map = &map;
        TC_ASSERT(pu_model_predict(&m, theta, &data, NULL, NULL, &out, &r) == PU_OK);
        TC_ASSERT(out.exact);
        for (int t = 0; t < s->T; t++) {
            PU_CHECK_CLOSE(mean[t], expected.mean[part][t], 2000 * PU_TEST_EPS * (100 + fabs(expected.mean[part][t])));
            PU_CHECK_CLOSE(fit[t], expected.variance[part][t], 2000 * PU_TEST_EPS * (1e-3 + expected.variance[part][t]));
        }
    }
    for (pu_int i = 0; i < m.params; i++) PU_CHECK_CLOSE(grad[i], expected.grad[i], size + 100 * PU_TEST_EPS * expected.size[i]);
    pu_model_free(&m);
    PASS();
}

TEST every_part_agrees_with_its_definition(void)
{
    for (int i = 0; i < SHAPES; i++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            tc_set_case("%s, pattern %d", shapes[i].name, pattern);
            CHECK_CALL(compare(shapes + i, pattern));
        }
    PASS();
}

/* Where numbers are at their ends: rho that double cannot tell from 1 but for a few bits, a frequency at pi, steps over which a process
   forgets so much that e^-x is below DBL_MIN, partial autocorrelations near 1 in float. Likelihood and gradient as above. */
TEST ends_of_parameters(void)
{
    static const struct {
        const char *name;
        pu_part part;
        double theta[5], level;
    } ends[] = {{"rho near 1", {PU_PART_CYCLE, 0, 0}, {-0.5, PU_TEST_PICK(30, 13), -1.3, 0}, 0},
                {"frequency near pi", {PU_PART_CYCLE, 0, 0}, {-0.5, 23, 14, 0}, 1},
                {"numbers below DBL_MIN", {PU_PART_MATERN52, 0, 0}, {2.7, -5.7814, -0.2}, 6000},
                {"gamma near 1", {PU_PART_AR, 3, 0}, {-6, 5, 4.5, 0, 0}, 0}};
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        shape s = {ends[k].name, 20, 1, {ends[k].part}};
        pu_real y[REF_T], theta[MOST_PARAMS], grad[MOST_PARAMS];
        pu_data data = pu_data_full(1, s.T, y);
        pu_model m;
        pu_report r;
        memset(&m, 0, sizeof m);
        tc_set_case("%s", s.name);
        TC_ASSERT(pu_model_structural(&m, s.T, s.parts, 1, &r) == PU_OK);
        tc_fill_normal(8, s.T, y);
        for (int t = 0; t < s.T; t++) y[t] = (pu_real)((double)y[t] + ends[k].level);
        for (pu_int i = 0; i < m.params; i++) theta[i] = (pu_real)ends[k].theta[i];
        TC_ASSERT(run_reference(&s, theta, m.params, y));
        TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
        PU_CHECK_CLOSE(r.nll, expected.nll, 10 * r.rounding_error * expected.scale);
        for (pu_int i = 0; i < m.params; i++) PU_CHECK_CLOSE(grad[i], expected.grad[i], 10 * r.rounding_error * expected.size[i]);
        pu_model_free(&m);
    }
    PASS();
}

/* ---- what the data do not identify ---- */

TEST unidentified_states_are_named(void)
{
    static const pu_part trend[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 4, 0}};
    pu_real y[12] = {0}, theta[4] = {0, 0, 0, 0}, grad[4] = {9, 9, 9, 9};
    pu_data data = pu_data_nan(1, 12, y);
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural(&m, 12, trend, 3, &r) == PU_OK);
    /* five first states: level, slope, three seasons; with so many observations all but `left` of them are known */
    for (int seen = 0; seen <= 6; seen++) {
        tc_set_case("%d observations", seen);
        for (int t = 0; t < 12; t++) y[t] = t < seen ? (pu_real)(t * t % 5) : PU_R(NAN);
        pu_status status = pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r);
        if (seen >= 5) {
            TC_ASSERT(status == PU_OK);
            continue;
        }
        TC_ASSERT(status == PU_E_NOT_DEFINITE);
        TC_ASSERT(strstr(r.where.what, "diffuse start") != NULL);
        TC_ASSERT(r.where.index >= 0 && r.where.index < 5 && r.where.datum == 0);
        TC_ASSERT(grad[0] == 9);
    }
    /* a quarter that is never seen: level and season cannot be told apart */
    for (int t = 0; t < 12; t++) y[t] = t % 4 == 1 ? PU_R(NAN) : (pu_real)t;
    TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_E_NOT_DEFINITE);
    y[5] = 5;
    TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
    pu_model_free(&m);
    PASS();
}

/* ---- misuse ---- */

TEST wrong_parts_are_refused(void)
{
    static const struct {
        pu_part part;
        const char *named;
    } wrong[] = {{{(pu_part_kind)99, 0, 0}, "kind"},
                 {{PU_PART_SLOPE, 0, 0}, "slope must follow"},
                 {{PU_PART_SEASON, 0, 0}, "period"},
                 {{PU_PART_SEASON_TRIG, 1, 0}, "period"},
                 {{PU_PART_SEASON, 1000, 0}, "longer than the series"},
                 {{PU_PART_AR, 0, 0}, "order"},
                 {{PU_PART_AR, 1000, 0}, "longer than the series"},
                 {{PU_PART_MA, 0, 0}, "order"},
                 {{PU_PART_MA, 1000, 0}, "longer than the series"},
                 {{PU_PART_MA, 1, 1}, "constant"},
                 {{PU_PART_LEVEL, 3, 0}, "size"},
                 {{PU_PART_NO_IRREGULAR, 0, 1}, "constant"},
                 {{PU_PART_NO_IRREGULAR, 1, 0}, "size"},
                 {{PU_PART_CYCLE, 0, 1}, "constant"}};

    pu_model m;
    pu_report r;
    pu_part level = {PU_PART_LEVEL, 0, 0};
    memset(&m, 0, sizeof m);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tc_set_case("part %d", (int)i);
        TC_ASSERT(pu_model_structural(&m, 20, &wrong[i].part, 1, &r) == PU_E_ARGUMENT);
        TC_ASSERT(strstr(r.where.what, wrong[i].named) != NULL);
        TC_ASSERT(r.where.index == 0);
        TC_ASSERT(m.params == 0 && m.data == NULL);
    }
    /* nothing that would move y */
    pu_part still[3] = {{PU_PART_LEVEL, 0, 1}, {PU_PART_SLOPE, 0, 0}, {PU_PART_NO_IRREGULAR, 0, 0}};
    TC_ASSERT(pu_model_structural(&m, 20, still, 3, &r) == PU_E_ARGUMENT);
    TC_ASSERT(strstr(r.where.what, "must move y") != NULL);
    TC_ASSERT(pu_model_structural(&m, 20, still + 2, 1, &r) == PU_E_ARGUMENT);
    TC_ASSERT(pu_model_structural(NULL, 20, &level, 1, &r) == PU_E_NULL);
    TC_ASSERT(pu_model_structural(&m, 20, NULL, 1, &r) == PU_E_NULL);
    TC_ASSERT(pu_model_structural(&m, 0, &level, 1, &r) == PU_E_ARGUMENT);
    TC_ASSERT(pu_model_structural(&m, 20, &level, 0, &r) == PU_E_ARGUMENT);
    TC_ASSERT(pu_model_structural(&m, PTRDIFF_MAX / 16, &level, 1, &r) < 0);
    TC_ASSERT(pu_model_part(NULL, 0).rows == 0);
    TC_ASSERT(pu_model_part(&m, 0).rows == 0);
    PASS();
}

TEST other_engines_are_refused(void)
{
    static const pu_part level = {PU_PART_LEVEL, 0, 0};
    static const pu_engine engines[] = {PU_ITERATIVE, PU_DENSE, PU_DUAL, PU_BANDED};
    pu_real y[5] = {1, 2, 3, 2, 1}, theta[2] = {0, 0}, grad[2];
    pu_data data = pu_data_full(1, 5, y);
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural(&m, 5, &level, 1, &r) == PU_OK);
    for (int i = 0; i < 4; i++) {
        pu_options o;
        memset(&o, 0, sizeof o);
        o.engine = engines[i];
        o.kind = i == 0 ? PU_NETWORK : PU_EXACT;
        TC_ASSERT(pu_model_gradient(&m, theta, &data, &o, NULL, grad, NULL, &r) == PU_E_UNSUPPORTED);
        TC_ASSERT(strstr(r.where.what, "structural model") != NULL);
    }
    theta[1] = PU_R(1e5);
    TC_ASSERT(pu_model_set(&m, theta, &r) == PU_E_ARGUMENT);
    TC_ASSERT(r.where.index == 1);
    TC_ASSERT(pu_model_part(&m, 1).rows == 0 && pu_model_part(&m, -1).rows == 0);
    pu_model_free(&m);
    PASS();
}

/* ---- draws ---- */

/* Draws from the posterior have its mean and variances: 4,000 of them, 5 standard errors. */
TEST draws_have_the_moments_of_the_posterior(void)
{
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 3, 0}, {PU_PART_CYCLE, 0, 0}};
    enum { T = 8, S = 5, DRAWS = 4000 };
    pu_model m;
    pu_report r;
    pu_options o;
    pu_posterior_result out;
    pu_real y[T], theta[MOST_PARAMS], mean[T * S], variance[T * S], *samples = tc_reals(DRAWS * T * S);
    pu_data data = pu_data_nan(1, T, y);
    memset(&m, 0, sizeof m);
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    TC_ASSERT(pu_model_structural(&m, T, parts, 3, &r) == PU_OK);
    make_theta(&m, 5, theta);
    make_series(parts, T, WHOLE, 4, y);
    y[3] = PU_R(NAN);
    o.samples = DRAWS;
    o.engine = PU_KALMAN;
    o.kind = PU_EXACT;
    out.mean = mean;
    out.variance = variance;
    out.samples = samples;
    TC_ASSERT(pu_model_posterior(&m, theta, &data, &o, NULL, &out, &r) == PU_OK);
    TC_ASSERT(out.exact && out.probes == DRAWS);
    for (int i = 0; i < T * S; i++) {
        double sum = 0, square = 0, var = (double)variance[i];
        for (int k = 0; k < DRAWS; k++) {
            double x = (double)samples[k * T * S + i] - (double)mean[i];
            sum += x / DRAWS;
            square += x * x / DRAWS;
        }
        TC_ASSERT(var > 0);
        PU_CHECK_CLOSE(sum, 0, 5 * sqrt(var / DRAWS));
        PU_CHECK_CLOSE(square, var, 5 * var * sqrt(2.0 / DRAWS));
    }
    pu_model_free(&m);
    PASS();
}

/* Without an irregular draws agree with what is observed, to rounding, and have the moments of the posterior in a gap. */
TEST draws_without_noise_keep_to_the_data(void)
{
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_AR, 1, 0}, {PU_PART_MA, 2, 0}, {PU_PART_NO_IRREGULAR, 0, 0}};
    enum { T = 8, S = 4, DRAWS = 4000 };
    pu_model m;
    pu_report r;
    pu_options o;
    pu_posterior_result out;
    pu_predict_result seen;
    pu_real y[T], theta[MOST_PARAMS], fit[T], mean[T], variance[T], *samples = tc_reals(DRAWS * T * S);
    pu_data data = pu_data_nan(1, T, y);
    memset(&m, 0, sizeof m);
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    memset(&seen, 0, sizeof seen);
    TC_ASSERT(pu_model_structural(&m, T, parts, 4, &r) == PU_OK);
    make_theta(&m, 5, theta);
    make_series(parts, T, WHOLE, 4, y);
    y[3] = PU_R(NAN);
    o.samples = DRAWS;
    o.engine = PU_KALMAN;
    o.kind = PU_EXACT;
    out.samples = samples;
    seen.mean = mean;
    seen.fit = fit;
    seen.variance = variance;
    TC_ASSERT(pu_model_posterior(&m, theta, &data, &o, NULL, &out, &r) == PU_OK);
    TC_ASSERT(pu_model_predict(&m, theta, &data, NULL, NULL, &seen, &r) == PU_OK);
    for (int t = 0; t < T; t++) {
        const pu_real *c = (const pu_real *)m.Phi.data;
        double sum = 0, square = 0;
        for (int k = 0; k < DRAWS; k++) {
            double x = -(double)mean[t];
            for (int i = 0; i < S; i++) x += (double)c[i] * (double)samples[(k * T + t) * S + i];
            sum += x / DRAWS;
            square += x * x / DRAWS;
        }
        /* no noise: what is forecast is what is there */
        TC_ASSERT(fit[t] == variance[t]);
        if (t != 3) {
            TC_ASSERT(fit[t] == 0);
            PU_CHECK_CLOSE(mean[t], y[t], 1000 * PU_TEST_EPS * 100);
            PU_CHECK_CLOSE(square, 0, pow(1000 * PU_TEST_EPS * 100, 2));
            continue;
        }
        TC_ASSERT(fit[t] > 0);
        PU_CHECK_CLOSE(sum, 0, 5 * sqrt((double)fit[t] / DRAWS));
        PU_CHECK_CLOSE(square, (double)fit[t], 5 * (double)fit[t] * sqrt(2.0 / DRAWS));
    }
    pu_model_free(&m);
    PASS();
}

/* ---- ARMA ---- */

/* gamma.ma to theta: 1 + theta_1 L for order one, Levinson's recursion beyond; what is told is what y sees. */
TEST coefficients_are_those_of_the_process(void)
{
    static const pu_part parts[] = {{PU_PART_AR, 2, 0}, {PU_PART_MA, 2, 0}, {PU_PART_LEVEL, 0, 0}, {PU_PART_MA, 1, 0}};
    const double g[5] = {0.5, -0.3, 0.2, 0.4, -0.6};
    pu_real theta[9] = {0}, phi[2], ma[2], one[1];
    pu_param param;
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural(&m, 9, parts, 4, &r) == PU_OK);
    TC_ASSERT(m.params == 9);
    for (int i = 0; i < 2; i++) theta[i] = (pu_real)atanh(g[i]), theta[3 + i] = (pu_real)atanh(g[2 + i]);
    theta[6] = (pu_real)atanh(g[4]);
    TC_ASSERT(pu_model_set(&m, theta, &r) == PU_OK);
    TC_ASSERT(pu_model_param(&m, 4, &param) == PU_OK && !strcmp(param.name, "gamma.ma[1]") && param.scale == PU_SCALE_ATANH);
    TC_ASSERT(pu_model_param(&m, 6, &param) == PU_OK && !strcmp(param.name, "gamma.ma2[0]"));
    TC_ASSERT(pu_model_param(&m, 7, &param) == PU_OK && !strcmp(param.name, "var.ma2") && param.scale == PU_SCALE_LOG);
    TC_ASSERT(pu_model_coefficients(&m, 0, phi) == 2 && pu_model_coefficients(&m, 1, ma) == 2);
    TC_ASSERT(pu_model_coefficients(&m, 3, one) == 1 && pu_model_coefficients(&m, 2, NULL) == 0);
    TC_ASSERT(pu_model_coefficients(&m, 4, NULL) == 0 && pu_model_coefficients(NULL, 0, NULL) == 0);
    PU_CHECK_CLOSE(phi[0], g[0] * (1 - g[1]), 10 * PU_TEST_EPS);
    PU_CHECK_CLOSE(phi[1], g[1], 10 * PU_TEST_EPS);
    PU_CHECK_CLOSE(ma[0], g[2] * (1 + g[3]), 10 * PU_TEST_EPS);
    PU_CHECK_CLOSE(ma[1], g[3], 10 * PU_TEST_EPS);
    PU_CHECK_CLOSE(one[0], g[4], 10 * PU_TEST_EPS);
    pu_model_free(&m);
    PASS();
}

/* Simulated ARMA(2,1), 2,000 steps with gaps: the start is near, the fit converges without an irregular, the truth is within 4
   standard errors; forecasts tend to the mean and their variance to that of the process. */
TEST arma_is_found_again(void)
{
    enum { T = 2000, AHEAD = 200 };
    static const pu_part parts[] = {{PU_PART_AR, 2, 0}, {PU_PART_MA, 1, 0}, {PU_PART_NO_IRREGULAR, 0, 0}};
    pu_real *y = tc_reals(T), *mean = tc_reals(T), *variance = tc_reals(T), theta[4], se[4];
    pu_real truth[4] = {PU_R(0.9), PU_R(-0.8), PU_R(0.3), PU_R(-0.5)};
    pu_data data = pu_data_nan(1, T, y);
    pu_predict_result out;
    pu_fit_report fit;
    pu_report r;
    pu_model m;
    pu_real phi[2], ma[1];
    double psi[2], all = 0;
    memset(&m, 0, sizeof m);
    memset(&out, 0, sizeof out);
    TC_ASSERT(pu_model_structural(&m, T, parts, 3, &r) == PU_OK);
    TC_ASSERT(m.params == 4);
    TC_ASSERT(pu_model_simulate(&m, truth, 1, 17, NULL, NULL, y, &r) == PU_OK);
    for (int t = 0; t < T; t++)
        if (t % 17 == 4 || (t > 900 && t < 950) || t >= T - AHEAD) y[t] = PU_R(NAN);
    TC_ASSERT(pu_model_start(&m, &data, 0, theta, &r) == PU_OK);
    for (int i = 0; i < 4; i++) PU_CHECK_CLOSE(theta[i], truth[i], 0.3);
    TC_ASSERT(pu_fit(&m, &data, NULL, NULL, theta, &fit) == PU_OK);
    TC_ASSERT(fit.stop == PU_FIT_CONVERGED);
    TC_ASSERT(pu_fit_errors(&m, &data, NULL, NULL, theta, se, &r) == PU_OK);
    for (int i = 0; i < 4; i++) PU_CHECK_CLOSE(theta[i], truth[i], 4 * (double)se[i]);
    out.mean = mean;
    out.variance = variance;
    TC_ASSERT(pu_model_predict(&m, theta, &data, NULL, NULL, &out, &r) == PU_OK);
    /* the variance of the process from its response to e, until that is below rounding */
    TC_ASSERT(pu_model_coefficients(&m, 0, phi) == 2 && pu_model_coefficients(&m, 1, ma) == 1);
    psi[0] = 1;
    psi[1] = (double)phi[0] + (double)ma[0];
    all = 1 + psi[1] * psi[1];
    for (int k = 2; k < 2000; k++) {
        double next = (double)phi[0] * psi[1] + (double)phi[1] * psi[0];
        psi[0] = psi[1];
        psi[1] = next;
        all += next * next;
    }
    all *= exp((double)theta[2]);
    PU_CHECK_CLOSE(variance[T - 1], all, PU_TEST_PICK(1e-6, 1e-4) * all);
    PU_CHECK_CLOSE(mean[T - 1], 0, 1e-3 * sqrt(all));
    /* one step ahead it is that of e; a gap 11 steps before leaves theta^20 */
    PU_CHECK_CLOSE(variance[T - AHEAD], exp((double)theta[2]), PU_TEST_PICK(1e-6, 1e-5));
    pu_model_free(&m);
    PASS();
}

/* Long series whose steps come to rest, against the same cut into two data at a long gap: the states forget. Finite noise on either side
   of what makes gradients be made of prices, and none. */
TEST long_series_without_noise_come_to_rest(void)
{
    enum { T = 1200, GAP = 500 };
    static const pu_part parts[] = {{PU_PART_AR, 2, 0}, {PU_PART_MA, 2, 0}, {PU_PART_NO_IRREGULAR, 0, 0}};
    pu_real *y = tc_normal(77, 2 * T), theta[6] = {PU_R(0.4), PU_R(-0.5), PU_R(0.2), PU_R(0.6), PU_R(-0.3), 0}, whole[6], apart[6];
    for (int noise = 0; noise < 3; noise++) {
        const int count = noise ? 2 : 3, params = noise ? 6 : 5;
        pu_data one = pu_data_nan(1, T, y + T), two = pu_data_nan(2, T, y);
        pu_model m;
        pu_report r;
        double nll, sum;
        tc_set_case("noise %d", noise);
        memset(&m, 0, sizeof m);
        theta[5] = noise == 1 ? 1 : -6;
        TC_ASSERT(pu_model_structural(&m, T, parts, count, &r) == PU_OK);
        TC_ASSERT(m.params == params);
        /* datum 0: the first part alone; datum 1: the last part alone; then both parts in one series */
        tc_fill_normal(77, T, y + T);
        for (int t = 0; t < T; t++) {
            y[t] = t < 350 ? y[T + t] : PU_R(NAN);
            if (t < 350 + GAP) y[T + t] = PU_R(NAN);
        }
        TC_ASSERT(pu_model_gradient(&m, theta, &two, NULL, NULL, apart, NULL, &r) == PU_OK);
        sum = 2 * r.nll;
        for (int t = 0; t < 350; t++) y[T + t] = y[t];
        TC_ASSERT(pu_model_gradient(&m, theta, &one, NULL, NULL, whole, NULL, &r) == PU_OK);
        nll = r.nll;
        PU_CHECK_CLOSE(nll, sum, PU_TEST_PICK(1e-9, 1e-3));
        for (int i = 0; i < params; i++)
            PU_CHECK_CLOSE(whole[i], 2 * (double)apart[i], PU_TEST_PICK(1e-8, 1e-3) * (T + fabs((double)whole[i])) / 10);
        pu_model_free(&m);
    }
    PASS();
}

/* ---- fits ---- */

/* A slope that does not move, as of many series: var.slope is often best at 0. The fit then gets there soon, and ends where that of
   a constant slope ends, whose likelihood is the limit: each to 1e-9 squared standard errors and what a leap leaves, 1e-8 (double). Float
   has the objective to some 16 eps, and gradients that lose their digits on the way; it may take it for converged. */
TEST fits_get_to_their_boundaries_soon(void)
{
    enum { T = 150, FITS = 8 };
    pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 4, 0}};
    int bounded = 0, gradients = 0, of_limits = 0;
    for (int seed = 1; seed <= FITS; seed++) {
        pu_model m, limit;
        pu_fit_report fit, fixed;
        pu_real *y = tc_reals(T), truth[4] = {0, PU_R(-20), PU_R(-2), PU_R(0.5)}, theta[4];
        pu_data data = pu_data_full(1, T, y);
        double least;
        tc_set_case("seed %d", seed);
        memset(&m, 0, sizeof m), memset(&limit, 0, sizeof limit);
        parts[1].constant = 0;
        TC_STATUS(pu_model_structural(&m, T, parts, 3, NULL), PU_OK);
        TC_STATUS(pu_model_simulate(&m, truth, 1, (uint64_t)seed, NULL, NULL, y, NULL), PU_OK);
        TC_STATUS(pu_model_start(&m, &data, 0, theta, NULL), PU_OK);
        TC_ASSERT(pu_fit(&m, &data, NULL, NULL, theta, &fit) == PU_OK && fit.stop != PU_FIT_STEPS);
        parts[1].constant = 1;
        TC_STATUS(pu_model_structural(&limit, T, parts, 3, NULL), PU_OK);
        TC_STATUS(pu_model_start(&limit, &data, 0, theta, NULL), PU_OK);
        TC_ASSERT(pu_fit(&limit, &data, NULL, NULL, theta, &fixed) == PU_OK && fixed.stop != PU_FIT_STEPS);
        least = PU_TEST_PICK(1e-7, 64 * PU_TEST_EPS * fabs(fixed.objective));
        TC_ASSERT(fit.objective <= fixed.objective + least);
        if (fit.stop == PU_FIT_BOUNDARY && strcmp(fit.boundary_name, "var.slope") == 0 && fit.boundaries == 1) {
            TC_ASSERT(fixed.objective - fit.objective < 1e-3 + least); /* what is no influence, see pu_fit */
            bounded++;
        }
        gradients += (int)fit.gradients, of_limits += (int)fixed.gradients;
        pu_model_free(&m), pu_model_free(&limit);
    }
    TC_ASSERT(bounded >= PU_TEST_PICK(2, 1) && bounded < FITS);
    TC_ASSERT(sizeof(pu_real) == sizeof(float) || (gradients <= 25 * FITS && of_limits <= 15 * FITS));
    PASS();
}

/* Short series, parameters of little influence: where a fit says that it has converged, at a boundary or not, no variance that is next to
   nothing gains 2e-7 by going further, nor 2e-5 (twice what a fit calls no gain) by coming back. */
TEST boundaries_leave_nothing_to_be_gained(void)
{
    static const pu_part trend[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}}, mixed[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_AR, 1, 0}};
    enum { T = 60, FITS = 30 };
    int bounded = 0;
    for (int seed = 1; seed <= 2 * FITS && sizeof(pu_real) > sizeof(float); seed++) {
        const pu_part *parts = seed > FITS ? mixed : trend;
        pu_model m;
        pu_fit_report fit;
        pu_real *y = tc_reals(T), theta[4], there[4], grad[4];
        pu_data data = pu_data_full(1, T, y);
        tc_set_case("seed %d", seed);
        memset(&m, 0, sizeof m);
        TC_STATUS(pu_model_structural(&m, T, parts, 2, NULL), PU_OK);
        for (int i = 0; i < (int)m.params; i++) theta[i] = PU_R(0.5);
        theta[0] = -3;
        if (parts == trend) theta[1] = -14;
        TC_STATUS(pu_model_simulate(&m, theta, 1, (uint64_t)seed, NULL, NULL, y, NULL), PU_OK);
        TC_STATUS(pu_model_start(&m, &data, 0, theta, NULL), PU_OK);
        TC_ASSERT(pu_fit(&m, &data, NULL, NULL, theta, &fit) == PU_OK && (fit.stop == PU_FIT_CONVERGED || fit.stop == PU_FIT_BOUNDARY));
        bounded += fit.stop == PU_FIT_BOUNDARY;
        for (int i = 0; i < (int)m.params; i++)
            for (int k = -10; k <= 5 && theta[i] < -5; k++) {
                pu_report r;
                memcpy(there, theta, sizeof there);
                there[i] += PU_R(3) * (pu_real)k;
                /* far off digits may go, and it says so */
                if (pu_model_gradient(&m, there, &data, NULL, NULL, grad, NULL, &r) == PU_INEXACT) continue;
                TC_ASSERT(r.status == PU_OK && r.nll > fit.objective - (k < 0 ? 2e-7 : 2e-5));
            }
        pu_model_free(&m);
    }
    TC_ASSERT(bounded >= PU_TEST_PICK(20, 0));
    PASS();
}

/* A series may grow by its level or by its slope, and the likelihood may have a maximum for each: starts of seed 0 and of even seeds give
   the level the larger noise, those of odd seeds the slope. */
TEST starts_let_level_or_slope_move(void)
{
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}};
    enum { T = 80, SEEDS = 20 };
    pu_model m;
    pu_real *y = tc_reals(T), theta[3];
    pu_data data = pu_data_full(1, T, y);
    double lead[2] = {0, 0};
    memset(&m, 0, sizeof m);
    tc_fill_normal(3, T, y);
    TC_STATUS(pu_model_structural(&m, T, parts, 2, NULL), PU_OK);
    TC_STATUS(pu_model_start(&m, &data, 0, theta, NULL), PU_OK);
    PU_CHECK_CLOSE(theta[0] - theta[1], log(20.0), 1e-5);
    for (int seed = 1; seed <= SEEDS; seed++) {
        TC_STATUS(pu_model_start(&m, &data, (uint64_t)seed, theta, NULL), PU_OK);
        lead[seed % 2] += 2 * (double)(theta[0] - theta[1]) / SEEDS;
    }
    /* two normals each, means of ten: 3 standard deviations */
    PU_CHECK_CLOSE(lead[0], log(20.0), 1.4);
    PU_CHECK_CLOSE(lead[1], -log(200.0), 1.4);
    pu_model_free(&m);
    PASS();
}

/* Simulated series, several at once: the fit converges to a gradient of zero, whatever the threads, and its errors are there. */
TEST fits_converge(void)
{
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 4, 0}};
    enum { T = 120, N = 3 };
    pu_model m;
    pu_report r;
    pu_fit_options o;
    pu_fit_report fit;
    pu_real *y = tc_reals(N * T), truth[4], theta[4], again[4], grad[4], se[4];
    pu_data data = pu_data_full(N, T, y);
    memset(&m, 0, sizeof m);
    memset(&o, 0, sizeof o);
    TC_ASSERT(pu_model_structural(&m, T, parts, 3, &r) == PU_OK);
    truth[0] = 0;
    truth[1] = PU_R(-3);
    truth[2] = PU_R(-2);
    truth[3] = PU_R(0.5);
    TC_ASSERT(pu_model_simulate(&m, truth, N, 11, NULL, NULL, y, &r) == PU_OK);
    TC_ASSERT(pu_model_start(&m, &data, 0, theta, &r) == PU_OK);
    memcpy(again, theta, sizeof again);
    TC_ASSERT(pu_fit(&m, &data, &o, NULL, theta, &fit) == PU_OK);
    TC_ASSERT(fit.stop == PU_FIT_CONVERGED);
    o.gradient.threads = 2;
    TC_ASSERT(pu_fit(&m, &data, &o, NULL, again, &fit) == PU_OK);
    TC_ASSERT(memcmp(theta, again, sizeof theta) == 0);
    TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
    TC_ASSERT(pu_fit_errors(&m, &data, NULL, NULL, theta, se, &r) == PU_OK);
    for (int i = 0; i < 4; i++) {
        /* converged: |g| below 1e-2 of a standard error, see pu_fit; the truth within 4 of them */
        TC_ASSERT(fabs((double)grad[i]) * (double)se[i] * N < PU_TEST_PICK(0.02, 0.2));
        PU_CHECK_CLOSE(theta[i], truth[i], 4 * (double)se[i]);
    }
    pu_model_free(&m);
    PASS();
}

/* The likelihood does not depend on the level of the series, and the smoothed level follows it: a diffuse start. */
TEST level_of_the_series_does_not_matter(void)
{
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON_TRIG, 4, 0}};
    pu_real y[24] = {0}, theta[3] = {0, -1, -1};
    pu_data data = pu_data_full(1, 24, y);
    pu_model m;
    pu_report r;
    double low, high;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural(&m, 24, parts, 2, &r) == PU_OK);
    for (int t = 0; t < 24; t++) y[t] = (pu_real)(t * t % 7);
    TC_ASSERT(pu_model_nll(&m, theta, &data, NULL, NULL, &low, NULL, &r) == PU_OK);
    for (int t = 0; t < 24; t++) y[t] += 4096; /* exact in float */
    TC_ASSERT(pu_model_nll(&m, theta, &data, NULL, NULL, &high, NULL, &r) == PU_OK);
    PU_CHECK_CLOSE(high, low, 1e-11);
    pu_model_free(&m);
    PASS();
}

/* ---- Gaussian processes ---- */

#define POINTS 500

/* The likelihood of a dense Gaussian process with a Matern covariance of k + 1/2 and, where `level`, a random walk of variance
   exp(walk) per unit of time that begins flat. theta = [log variance | log length | log noise]. */
static double dense_nll(int points, int k, const double *times, const double *theta, int level, double walk, const pu_real *y)
{
    double *V = tc_doubles(points * points), *x = tc_doubles(points), *ones = tc_doubles(points), nll, sum = 0, cross = 0, square = 0;
    for (int i = 0; i < points; i++) {
        for (int j = 0; j < points; j++) {
            double d = sqrt(2.0 * k + 1) * fabs(times[i] - times[j]) / exp(theta[1]);
            double poly = k == 0 ? 1 : k == 1 ? 1 + d : 1 + d + d * d / 3;
            V[i * points + j] = exp(theta[0]) * poly * exp(-d) + (i == j ? exp(theta[2]) : 0);
            if (level) V[i * points + j] += exp(walk) * ((i < j ? times[i] : times[j]) - times[0]);
        }
        x[i] = (double)y[i];
        ones[i] = 1;
    }
    tc_cholesky(points, V);
    nll = tc_logdet(points, V) / 2 + points * log(2 * acos(-1.0)) / 2;
    tc_solve(points, V, x);
    tc_solve(points, V, ones);
    for (int i = 0; i < points; i++) {
        square += x[i] * (double)y[i];
        cross += x[i];
        sum += ones[i];
    }
    nll += square / 2;
    return level ? nll + (log(sum) - cross * cross / sum) / 2 : nll;
}

/* On a grid and at any times it is the same model: likelihood to 10 digits, gradient against differences
   (of 60 points; of 500 the likelihood alone, on the grid). */
TEST matern_is_the_gaussian_process(void)
{
    static const pu_part_kind kinds[] = {PU_PART_MATERN12, PU_PART_MATERN32, PU_PART_MATERN52};
    pu_real y[POINTS] = {0}, theta[4], grad[4];
    double times[POINTS];
    tc_fill_normal(9, POINTS, y);
    for (int k = 0; k < 3; k++)
        for (int variant = 0; variant < 4; variant++)
            for (int length = 1; length <= 1000; length *= 10) {
                int uneven = variant % 2, level = variant / 2, points = variant == 0 ? POINTS : 60;
                pu_data data = pu_data_full(1, points, y);
                pu_part parts[2] = {{kinds[k], 0, 0}, {PU_PART_LEVEL, 0, 0}};
                pu_model m;
                pu_report r;
                double at[3], want, h = 1e-4;
                tc_set_case("Matern %d/2, length %d, variant %d", 2 * k + 1, length, variant);
                memset(&m, 0, sizeof m);
                for (int i = 0; i < points; i++) times[i] = 0.5 * i + (uneven ? 0.2 * (i % 3) - 7 : 0);
                TC_ASSERT(pu_model_structural_at(&m, points, times, parts, 1 + level, &r) == PU_OK);
                at[0] = 0.5;
                at[1] = (double)(pu_real)log((double)length);
                at[2] = -2;
                for (int i = 0; i < 2; i++) theta[i] = (pu_real)at[i];
                theta[2] = (pu_real)(level ? -1 : at[2]);
                theta[3] = (pu_real)at[2];
                want = dense_nll(points, k, times, at, level, -1, y);
                TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
                PU_CHECK_CLOSE(r.nll, want, PU_TEST_PICK(1e-10, 1e-6) * (fabs(want) + points));
                for (int i = 0; i < 3 && points < POINTS; i++) {
                    double up, down;
                    at[i] += h;
                    up = dense_nll(points, k, times, at, level, -1, y);
                    at[i] -= 2 * h;
                    down = dense_nll(points, k, times, at, level, -1, y);
                    at[i] += h;
                    PU_CHECK_CLOSE(grad[i == 2 ? 2 + level : i], (up - down) / (2 * h), PU_TEST_PICK(1e-5, 1e-4) * (1 + fabs(want)));
                }
                pu_model_free(&m);
                tc_release_to(0);
            }
    PASS();
}

/* Long series, whose steps come to rest and are then taken by one linear map, against steps that all differ by a hair. */
TEST steps_at_rest_change_nothing(void)
{
    enum { T = 1500 };
    pu_part parts[2] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_MATERN52, 0, 0}};
    pu_real *y = tc_reals(T), theta[4], grad[2][4], *mean[2], *fit[2];
    double *times = tc_doubles(T), nll[2];
    pu_data data = pu_data_nan(1, T, y);
    tc_fill_normal(21, T, y);
    for (int t = 0; t < T; t++) y[t] = (pu_real)(10 * sin(t / 50.0) + (double)y[t]);
    y[700] = PU_R(NAN); /* a gap wakes them up */
    theta[0] = PU_R(-3);
    theta[1] = PU_R(-1);
    theta[2] = PU_R(0.7);
    theta[3] = PU_R(-0.2);
    for (int uneven = 0; uneven < 2; uneven++) {
        pu_model m;
        pu_report r;
        pu_predict_result out;
        memset(&m, 0, sizeof m);
        memset(&out, 0, sizeof out);
        for (int t = 0; t < T; t++) times[t] = t + (uneven && t % 2 ? 1e-11 : 0);
        out.mean = mean[uneven] = tc_reals(T);
        out.fit = fit[uneven] = tc_reals(T);
        TC_ASSERT(pu_model_structural_at(&m, T, times, parts, 2, &r) == PU_OK);
        TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad[uneven], NULL, &r) == PU_OK);
        nll[uneven] = r.nll;
        TC_ASSERT(pu_model_predict(&m, theta, &data, NULL, NULL, &out, &r) == PU_OK);
        pu_model_free(&m);
    }
    /* 1e-11 of a step times 1,500 steps */
    PU_CHECK_CLOSE(nll[0], nll[1], 1e-7);
    for (int i = 0; i < 4; i++) PU_CHECK_CLOSE(grad[0][i], grad[1][i], PU_TEST_PICK(1e-7, 1e-4) * (1 + fabs((double)grad[1][i])));
    for (int t = 0; t < T; t++) {
        PU_CHECK_CLOSE(mean[0][t], mean[1][t], PU_TEST_PICK(1e-8, 1e-4));
        PU_CHECK_CLOSE(fit[0][t], fit[1][t], PU_TEST_PICK(1e-9, 1e-5));
    }
    PASS();
}

TEST times_are_checked(void)
{
    pu_part parts[2] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}};
    double times[3] = {0, 1, 3};
    pu_model m;
    pu_report r;
    memset(&m, 0, sizeof m);
    TC_ASSERT(pu_model_structural_at(&m, 3, times, parts, 2, &r) == PU_E_UNSUPPORTED);
    TC_ASSERT(r.where.index == 1);
    times[2] = 1;
    TC_ASSERT(pu_model_structural_at(&m, 3, times, parts, 1, &r) == PU_E_ARGUMENT);
    TC_ASSERT(r.where.index == 2);
    times[1] = (double)NAN;
    TC_ASSERT(pu_model_structural_at(&m, 3, times, parts, 1, &r) == PU_E_NONFINITE);
    TC_ASSERT(r.where.index == 1);
    TC_ASSERT(m.data == NULL);
    PASS();
}

/* Models with the same sizes and other parts or times have other names: a checkpoint of one is not for the other. */
TEST names_tell_models_apart(void)
{
    static const pu_part dummy[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}};
    static const pu_part trig[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON_TRIG, 4, 0}};
    static const double even[3] = {1, 2, 3}, uneven[3] = {1, 2, 4}, far[3] = {1e16, 1e16 + 2, 1e16 + 8};
    pu_model a, b;
    pu_report r;
    double near[3], nll[2];
    pu_real y[3] = {1, 3, 2}, theta[2] = {0, 0};
    pu_data data = pu_data_full(1, 3, y);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    TC_ASSERT(pu_model_structural(&a, 20, dummy, 2, &r) == PU_OK);
    TC_ASSERT(pu_model_structural(&b, 20, trig, 2, &r) == PU_OK);
    TC_ASSERT(strcmp(a.name, b.name) != 0);
    pu_model_free(&a);
    pu_model_free(&b);
    TC_ASSERT(pu_model_structural_at(&a, 3, even, dummy, 1, &r) == PU_OK);
    TC_ASSERT(pu_model_structural_at(&b, 3, uneven, dummy, 1, &r) == PU_OK);
    TC_ASSERT(strcmp(a.name, b.name) != 0);
    pu_model_free(&a);
    pu_model_free(&b);
    /* gaps of 2 and 6 are not equal, however far from zero they are */
    for (int i = 0; i < 3; i++) near[i] = far[i] - far[0];
    TC_ASSERT(pu_model_structural_at(&a, 3, far, dummy, 1, &r) == PU_OK);
    TC_ASSERT(pu_model_structural_at(&b, 3, near, dummy, 1, &r) == PU_OK);
    TC_ASSERT(pu_model_nll(&a, theta, &data, NULL, NULL, &nll[0], NULL, &r) == PU_OK);
    TC_ASSERT(pu_model_nll(&b, theta, &data, NULL, NULL, &nll[1], NULL, &r) == PU_OK);
    PU_CHECK_CLOSE(nll[0], nll[1], 1e-12);
    pu_model_free(&a);
    pu_model_free(&b);
    TC_ASSERT(pu_model_structural(&a, PTRDIFF_MAX - 5, dummy, 1, &r) == PU_E_OVERFLOW);
    PASS();
}

/* The level of a series is not to be explained by a regressor at the start: a shift of y changes nothing. */
TEST regressors_do_not_stand_in_for_the_level(void)
{
    enum { T = 120 };
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 1}};
    pu_real *x = tc_normal(31, T), *y = tc_normal(32, T);
    double first = 0;
    for (int t = 0; t < T; t++) {
        x[t] += 3;
        y[t] += 2 * x[t];
    }
    for (int shift = 0; shift < 2; shift++) {
        pu_model m, around;
        pu_report r;
        pu_fit_options o;
        pu_fit_report fit;
        pu_real theta[3];
        pu_data data = pu_data_full(1, T, y);
        memset(&m, 0, sizeof m);
        memset(&around, 0, sizeof around);
        memset(&o, 0, sizeof o);
        TC_ASSERT(pu_model_structural(&m, T, parts, 2, &r) == PU_OK);
        TC_ASSERT(pu_model_regressors(&around, &m, 1, x, 0, &r) == PU_OK);
        TC_ASSERT(pu_model_start(&around, &data, 0, theta, &r) == PU_OK);
        TC_ASSERT(pu_fit(&around, &data, &o, NULL, theta, &fit) == PU_OK);
        TC_ASSERT(fit.stop == PU_FIT_CONVERGED || fit.stop == PU_FIT_BOUNDARY);
        if (shift == 0) first = fit.best;
        /* y is rounded to pu_real at its new level */
        PU_CHECK_CLOSE(fit.best, first, PU_TEST_PICK(1e-4, 0.1));
        PU_CHECK_CLOSE(theta[2], 2, 0.5);
        pu_model_free(&around);
        pu_model_free(&m);
        for (int t = 0; t < T; t++) y[t] += PU_R(PU_TEST_PICK(1e6, 1e3));
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(every_part_agrees_with_its_definition);
    RUN_TEST(ends_of_parameters);
    RUN_TEST(unidentified_states_are_named);
    RUN_TEST(wrong_parts_are_refused);
    RUN_TEST(other_engines_are_refused);
    RUN_TEST(draws_have_the_moments_of_the_posterior);
    RUN_TEST(fits_get_to_their_boundaries_soon);
    RUN_TEST(boundaries_leave_nothing_to_be_gained);
    RUN_TEST(starts_let_level_or_slope_move);
    RUN_TEST(draws_without_noise_keep_to_the_data);
    RUN_TEST(coefficients_are_those_of_the_process);
    RUN_TEST(arma_is_found_again);
    RUN_TEST(long_series_without_noise_come_to_rest);
    RUN_TEST(fits_converge);
    RUN_TEST(level_of_the_series_does_not_matter);
    RUN_TEST(matern_is_the_gaussian_process);
    RUN_TEST(steps_at_rest_change_nothing);
    RUN_TEST(times_are_checked);
    RUN_TEST(names_tell_models_apart);
    RUN_TEST(regressors_do_not_stand_in_for_the_level);
    PU_TEST_MAIN_END();
}

/* test_calibration.c - are intervals of 95 % what they say? SETS simulated series of every model of series: parameters are fitted,
   then it is counted how often theta +- 1.96 standard errors (pu_fit_errors) holds the truth, and how often the parts of the series
   lie within mean +- 1.96 (fit)^1/2 of pu_model_predict, at steps that are observed and at steps that are not: scattered ones, a
   block, and the last ones, which are forecasts.

       build/tests/calibration.double -v        with the table; with PU_TEST_SMALL in the environment fewer sets

   WHAT IS ALLOWED
   90 to 99 %. The count of a parameter is binomial over the sets: at 95 % its standard deviation is 1.5 % with 200 sets, so that is
   3.2 of them below and 2.6 above; with 40 sets, 3.2 standard deviations are 84 %, and all may be. Errors of hidden entries of one
   set are correlated, so the share that each set has is averaged: over sets that is independent, with a standard deviation of 0.1
   to 0.2 each, 1.4 % at most of the mean. A little less than 95 % is expected: the intervals of entries take theta for known. Seeds
   are fixed.
   A parameter that went to a boundary (a variance to 0: PU_UNIDENTIFIED, no standard error) has no interval; that must be rare. */
#include "pu_test.h"
#include "test_common.h"

#define EPS        PU_TEST_EPS
#define ALL_SETS   200
#define SMALL_SETS 40
#define MOST       12 /* parameters, parts */
#define OUTPUTS    3  /* of dynamic factors, at each step */

typedef enum { STRUCTURAL, NOISY_AR, STATE_SPACE, DYNAMIC_FACTORS } family;

typedef struct {
    const char *name;
    family kind;
    pu_int T;     /* entries of y */
    pu_int count; /* parts; order; states */
    pu_part parts[3];
    double truth[MOST];
} problem;

/* kind, size, constant */
static const problem problems[] = {
    {"level", STRUCTURAL, 150, 1, {{PU_PART_LEVEL, 0, 0}}, {-1, 0}},
    {"level, slope", STRUCTURAL, 200, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}}, {1, -2.5, 1}},
    {"level, season of 4", STRUCTURAL, 150, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}}, {-1, -1.5, 0}},
    {"level, cycle", STRUCTURAL, 200, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_CYCLE, 0, 0}}, {-1, 0.5, 2.5, -1.4, 0}},
    {"level, AR(2)", STRUCTURAL, 200, 2, {{PU_PART_LEVEL, 0, 0}, {PU_PART_AR, 2, 0}}, {-0.5, 0.6, -1.1, 0.5, -0.5}},
    {"Matern 3/2", STRUCTURAL, 200, 1, {{PU_PART_MATERN32, 0, 0}}, {0, 1.2, -1.5}},
    {"noisy AR(2)", NOISY_AR, 200, 2, {{PU_PART_LEVEL, 0, 0}}, {1, -0.8, 0, -0.5}},
    {"state space of 2", STATE_SPACE, 200, 2, {{PU_PART_LEVEL, 0, 0}}, {1.2, -0.6, 0, -0.5}},
    {"dynamic factor, 3 outputs", DYNAMIC_FACTORS, 600, 1, {{PU_PART_LEVEL, 0, 0}}, {0.6, 1, -0.7, 0.5, 1, 2, 3, 0, -0.5, -1}}};
#define PROBLEMS ((int)(sizeof problems / sizeof problems[0]))

/* A state space has any basis: this one fixes it, [A | c | L | log sigma2] with A = (a 1; b 0), c = (1 0), L = diag(l, 0.3). */
static const pu_int basis[10] = {0, PU_ZERO, 1, PU_ZERO, PU_ZERO, PU_ZERO, 2, PU_ZERO, PU_ZERO, 3};
static const double basis_value[10] = {0, 1, 0, 0, 1, 0, 0, 0, -1.2, 0};
/* And a factor any unit: L = 1 in [A | C | L | d | log sigma2]. Its sign stays open. */
static const pu_int unit[11] = {0, 1, 2, 3, PU_ZERO, 4, 5, 6, 7, 8, 9};
static const double unit_value[11] = {0};

static int sets;

/* Counts of one model. */
typedef struct {
    double inside[MOST]; /* sets whose interval holds the parameter */
    double counted[MOST];
    double entries[MOST][2], sets_with[MOST][2]; /* sum of shares of entries, of sets that have any; [1]: not observed */
    int unconverged;
} counts;

static pu_model inner; /* the state space or factor, whose basis is free */

static pu_status make(const problem *p, pu_model *m, pu_report *r)
{
    int factor = p->kind == DYNAMIC_FACTORS, params = factor ? 11 : 10;
    pu_real value[11];
    pu_status status;
    memset(m, 0, sizeof *m);
    memset(&inner, 0, sizeof inner);
    if (p->kind == STRUCTURAL) return pu_model_structural(m, p->T, p->parts, p->count, r);
    if (p->kind == NOISY_AR) return pu_model_noisy_ar(m, p->T, p->count, r);
    if (factor) status = pu_model_dynamic_factors(&inner, p->T / OUTPUTS, OUTPUTS, p->count, PU_SSM_STATIONARY, r);
    else status = pu_model_state_space(&inner, p->T, p->count, PU_SSM_STATIONARY, r);
    for (int i = 0; i < params; i++) value[i] = (pu_real)(factor ? unit_value[i] : basis_value[i]);
    return status ? status : pu_model_fix(m, &inner, factor ? unit : basis, value, r);
}

/* Is step t observed in set k? */
static int is_seen(const problem *p, int k, pu_int t)
{
    if (t >= p->T - 8 || (t >= p->T / 2 && t < p->T / 2 + 6)) return 0;
    return tc_hash((uint64_t)(k * 1000 + t)) % 10 != 0;
}

/* What a map makes of z. */
static void see(const pu_op *map, pu_real *z, pu_real *out)
{
    pu_real *work = tc_reals(map->work + 1);
    (void)map->apply(map, 1, tc_block(z, map->cols), tc_block(out, map->rows), 0, work);
}

/* Shares of the entries of part i, in truth these, that lie within their intervals. */
static pu_status count_entries(const problem *p, pu_model *m, pu_int i, const pu_real *theta, const pu_data *data,
                               const pu_real *truth, counts *c)
{
    pu_op map = pu_model_part(m, i);
    pu_real *mean = tc_reals(p->T), *fit = tc_reals(p->T);
    double inside[2] = {0, 0}, all[2] = {0, 0};
    pu_predict_result out;
    pu_report r;
    pu_status status;
    memset(&out, 0, sizeof out);
    out.mean = mean;
    out.fit = fit;
    if (map.rows > 0) out.map = &map;
    status = pu_model_predict(m, theta, data, NULL, NULL, &out, &r);
    if (status < 0) return status;
    for (pu_int t = 0; t < p->T; t++) {
        int hidden = data->y[t] != data->y[t];
        all[hidden]++;
        inside[hidden] += fabs((double)(mean[t] - truth[t])) <= 1.96 * sqrt((double)fit[t]);
    }
    for (int hidden = 0; hidden < 2; hidden++) {
        c->entries[i][hidden] += inside[hidden] / all[hidden];
        c->sets_with[i][hidden]++;
    }
    return PU_OK;
}

/* Set k: fitted, and counted. */
static enum greatest_test_res run_set(const problem *p, pu_model *m, const pu_real *truth, int k, pu_real *z, pu_real *y, counts *c)
{
    pu_data data = pu_data_nan(1, p->T, y);
    pu_int parts = p->kind == STRUCTURAL ? p->count : 1;
    pu_real theta[MOST], se[MOST], *part[MOST];
    pu_fit_options o;
    pu_fit_report fit;
    pu_report r;
    pu_status status;
    memset(&o, 0, sizeof o);
    TC_ASSERT(pu_model_set(m, truth, &r) == PU_OK);
    for (pu_int i = 0; i < parts; i++) {
        pu_op map = pu_model_part(m, i);
        part[i] = tc_reals(p->T);
        see(map.rows > 0 ? &map : m->lgm.Phi, z, part[i]);
        for (pu_int t = 0; m->lgm.eta && t < p->T; t++) part[i][t] += m->lgm.eta[t];
    }
    for (pu_int t = 0; t < p->T; t++)
        if (!is_seen(p, k, t)) y[t] = PU_R(NAN);
    TC_ASSERT(pu_model_start(m, &data, 0, theta, &r) == PU_OK);
    /* in float a gradient on the way may have lost digits; what counts is where the fit ended */
    status = pu_fit(m, &data, &o, NULL, theta, &fit);
    TC_ASSERT(status == PU_OK || (EPS > 1e-10 && status == PU_INEXACT));
    c->unconverged += fit.stop != PU_FIT_CONVERGED;
    for (int i = OUTPUTS; p->kind == DYNAMIC_FACTORS && i > 0; i--)
        if (theta[1] < 0) theta[i] = -theta[i];
    status = pu_fit_errors(m, &data, NULL, NULL, theta, se, &r);
    TC_ASSERT(status == PU_OK || status == PU_UNIDENTIFIED || status == PU_INEXACT || status == PU_E_NOT_DEFINITE);
    for (pu_int i = 0; status >= 0 && i < m->params; i++) {
        if (se[i] != se[i]) continue;
        c->counted[i]++;
        c->inside[i] += fabs((double)(theta[i] - truth[i])) <= 1.96 * (double)se[i];
    }
    for (pu_int i = 0; i < parts; i++) {
        if (p->kind == STRUCTURAL && p->parts[i].kind == PU_PART_SLOPE) continue; /* is seen in its level */
        TC_ASSERT(count_entries(p, m, i, theta, &data, part[i], c) == PU_OK);
    }
    PASS();
}

static void print_counts(const problem *p, const pu_model *m, const counts *c)
{
    if (greatest_get_verbosity() < 1) return;
    printf("| %s |", p->name);
    for (int i = 0; i < MOST; i++)
        if (c->sets_with[i][0] > 0)
            printf(" %.1f, %.1f;", 100 * c->entries[i][0] / c->sets_with[i][0], 100 * c->entries[i][1] / c->sets_with[i][1]);
    printf(" |");
    for (pu_int i = 0; i < m->params; i++) {
        pu_param param;
        memset(&param, 0, sizeof param);
        (void)pu_model_param(m, i, &param);
        printf(" %s %.1f", param.name, 100 * c->inside[i] / c->counted[i]);
        if (c->counted[i] < sets) printf(" (of %.0f)", c->counted[i]);
        printf(";");
    }
    printf(" | %d |\n", c->unconverged);
}

TEST intervals_hold(int number)
{
    const problem *p = problems + number;
    pu_model m;
    pu_report r;
    pu_real truth[MOST] = {0}, *z, *y;
    counts c;
    double low = sets < ALL_SETS ? 0.84 : 0.90, high = sets < ALL_SETS ? 1 : 0.99;
    memset(&c, 0, sizeof c);
    tc_set_case("%s", p->name);
    TC_ASSERT(make(p, &m, &r) == PU_OK);
    for (pu_int i = 0; i < m.params; i++) truth[i] = (pu_real)p->truth[i];
    TC_ASSERT(pu_model_set(&m, truth, &r) == PU_OK);
    z = tc_reals(sets * m.lgm.Gamma->rows);
    y = tc_reals(sets * p->T);
    TC_ASSERT(pu_model_simulate(&m, truth, sets, 7, NULL, z, y, &r) == PU_OK);
    for (int k = 0; k < sets; k++) {
        size_t mark = tc_kept_count;
        CHECK_CALL(run_set(p, &m, truth, k, z + k * m.lgm.Gamma->rows, y + k * p->T, &c));
        tc_release_to(mark);
    }
    print_counts(p, &m, &c);
    for (int i = 0; i < MOST; i++)
        for (int hidden = 0; hidden < 2 && c.sets_with[i][0] > 0; hidden++) {
            double share = c.entries[i][hidden] / c.sets_with[i][hidden];
            tc_set_case("%s: part %d, %s, %.3f", p->name, i, hidden ? "hidden" : "observed", share);
            TC_ASSERT(share >= low && share <= high);
        }
    for (pu_int i = 0; i < m.params; i++) {
        double share = c.inside[i] / c.counted[i];
        tc_set_case("%s: parameter %d, %.3f of %.0f", p->name, (int)i, share, c.counted[i]);
        TC_ASSERT(c.counted[i] >= 0.9 * sets);
        TC_ASSERT(share >= low && share <= high);
    }
    pu_model_free(&m);
    pu_model_free(&inner);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    sets = getenv("PU_TEST_SMALL") || PU_TEST_SANITIZED ? SMALL_SETS : ALL_SETS;
    if (greatest_get_verbosity() > 0)
        printf("| model | entries observed, hidden, in %% | parameters, in %% | fits that stopped otherwise |\n");
    for (int i = 0; i < PROBLEMS; i++) RUN_TESTp(intervals_hold, i);
    PU_TEST_MAIN_END();
}

/* test_differential_series.c - random structural models against dense arithmetic that is wide enough to be right
   (structural_reference.h). Nothing may leave the library as PU_OK with an error above ten times what the report says.

   RUN
       build/tests/differential_series.double                     DEFAULT_COUNT models, seed 1: `./build.sh test rest`; with
                                                                  PU_TEST_SMALL in the environment SMALL_COUNT: `./build.sh test`
       build/tests/differential_series.double -- -n 100000 -s 7   more of them, another seed
       build/tests/differential_series.double -- -m 1234 -s 1     one model, told in full

   MODELS
   1 to 6 parts of all kinds, some constant, up to 24 steps, 1 to 3 series with gaps, blocks missing or all missing, about a
   level of up to 1e6 times the noise; levels and Matern parts also at times of their own. Half of the models are mild; in the others variances are 1e-12 to 1e6 of the noise, rho,
   frequency, partial autocorrelations and lengths anywhere up to their ends. Some are inside of pu_model_fix (entries fixed or
   tied), pu_model_regressors, or both.

   WHAT IS AN ERROR
       nll        |got - ref| / sum of the sizes of its terms (ref_result.scale), both means over data
       gradient   of the entries of theta that belong to a part: max |got - ref| / max size of the terms that they are the sums of
                  (ref_gradient); of coefficients of regressors: / sum_t |x_t r_t|, r the derivative in eta
       means      of each part, and of their sum: max_t |got - ref| / (max_t (|ref| + standard deviation) + the largest mean of a
                  part that is no level: parts are told apart by differences, but what a level stands at costs no digits)
       variances  max_t |got - ref| / max_t ref
   What is allowed under PU_OK: ten times report.rounding_error, at least ten times C eps, C = 16 sqrt(T). Compared only where
   the reference's own error is below a tenth of that. PU_INEXACT must come with finite numbers, and rounding_error be at least a
   tenth of the error (but for 1 %), and must not come for mild models, which must not be refused either. Where the data do not
   identify a first state the call must be refused. Draws must have the same bits with any number of threads.

   Models without diffuse states are also state spaces and noisy autoregressions: other engines must agree. */
#include "pu_test.h"
#include "test_common.h"

#include "chance.h"
#include "structural_reference.h"

#define DEFAULT_COUNT (PU_TEST_SANITIZED ? 2000 : 20000)
#define SMALL_COUNT   (PU_TEST_SANITIZED ? 500 : 2000)

#define EPS       PU_TEST_EPS
#define MOST_T    24
#define MOST_N    3
#define MOST_B    2
#define MILD      PU_TEST_PICK(1e5, 1e3) /* condition of a mild model's equations, at most */

/* ---- random models ---- */

typedef struct {
    uint64_t number;
    int T, N, count, extreme, own_times, quiet; /* quiet: without an irregular */
    double times[MOST_T];
    pu_part parts[REF_PARTS];
    double unit;                    /* standard deviation of the noise, about */
    int inner_params, params, p, fixed;
    pu_int from[REF_PARAMS];        /* pu_model_fix: where the inner entries come from */
    pu_real value[REF_PARAMS];
    pu_real theta[REF_PARAMS];      /* as the outermost model has it */
    wide inner[REF_PARAMS];         /* of the structural model */
    pu_real X[MOST_N * MOST_T * MOST_B], y[MOST_N * MOST_T];
    int own_X;                      /* each series has regressors of its own */
    pu_model structural, around, fix;
    pu_model *outer;
} series;

static series model;
static ref_model reference;
static ref_result expected[MOST_N];
static int telling;

static double log_uniform(double low, double high) { return log(low) + (log(high) - log(low)) * uniform(); }

/* Does a part move y at once? */
static int moves_y(const pu_part *p) { return !p->constant && p->kind != PU_PART_SLOPE; }

static pu_part random_part(const series *m, int n)
{
    pu_part p;
    memset(&p, 0, sizeof p);
    p.kind = (pu_part_kind)pick(10);
    if (n == 0 && often(0.5)) p.kind = PU_PART_LEVEL;
    if (n > 0 && m->parts[n - 1].kind == PU_PART_LEVEL && often(0.4)) p.kind = PU_PART_SLOPE;
    if (p.kind == PU_PART_SLOPE && (n == 0 || m->parts[n - 1].kind != PU_PART_LEVEL)) p.kind = PU_PART_CYCLE;
    /* two levels are not identified: seldom */
    for (int i = 0; i < n; i++)
        if (p.kind == PU_PART_LEVEL && m->parts[i].kind == PU_PART_LEVEL && often(0.9)) p.kind = PU_PART_AR;
    if (p.kind == PU_PART_SEASON || p.kind == PU_PART_SEASON_TRIG) {
        p.size = 2 + pick(6);
        if (p.size > m->T) p.size = m->T;
        if (m->T < 2) p.kind = PU_PART_AR;
    }
    if (n > 0 && m->parts[n - 1].kind == PU_PART_AR && often(0.5)) p.kind = PU_PART_MA;
    if (p.kind == PU_PART_AR || p.kind == PU_PART_MA) p.size = 1 + pick(often(0.2) ? 8 : 3);
    if (p.kind <= PU_PART_SEASON_TRIG) p.constant = often(0.25);
    /* at any times only these */
    if (m->own_times) {
        p.kind = n == 0 && often(0.5) ? PU_PART_LEVEL : (pu_part_kind)(PU_PART_MATERN12 + pick(3));
        p.size = 0;
        p.constant = p.kind == PU_PART_LEVEL && often(0.25);
    }
    return p;
}

static int has_lags(const pu_part *p) { return p->kind == PU_PART_AR || p->kind == PU_PART_MA; }
static int is_variance(const pu_part *p, int i) { return has_lags(p) ? i == p->size : i == 0; }

/* Entry i of a part's theta. */
static double random_entry(const series *m, const pu_part *p, int i)
{
    int wild = m->extreme && often(0.5);
    double noise = 2 * log(m->unit);
    if (is_variance(p, i)) return noise + (wild ? log_uniform(1e-12, 1e6) : normal() - 0.5);
    if (has_lags(p)) return wild ? between(-1, 1) * PU_TEST_PICK(17, 8) : 0.7 * normal();
    if (p->kind == PU_PART_CYCLE) return wild ? between(-1, 1) * PU_TEST_PICK(34, 15) : 1.2 * normal();
    return wild ? log_uniform(1e-4, 1e6) : normal() + 0.5;
}

/* Fixes or ties some entries of the inner theta; from[] without gaps. */
static void random_wrapping(series *m)
{
    pu_int next = 0;
    m->fixed = often(0.3);
    for (int i = 0; i < m->inner_params; i++) {
        int variance = i == m->inner_params - 1; /* one is left to be fitted */
        m->value[i] = 0;
        m->from[i] = m->fixed && !variance && often(0.3) ? PU_ZERO : next++;
        if (m->from[i] == PU_ZERO) m->value[i] = m->theta[i];
    }
    for (int i = 0; i < m->inner_params; i++)
        if (m->from[i] != PU_ZERO) m->theta[m->from[i]] = m->theta[i];
    m->params = (int)next;
    m->p = often(0.3) ? 1 + pick(MOST_B) : 0;
    m->own_X = often(0.3);
}

static void random_data(series *m)
{
    double level = often(0.5) ? 0 : exp(log_uniform(1, m->extreme ? 1e6 : 1e2));
    for (int k = 0; k < m->N; k++) {
        int gaps = pick(5), begin = pick(m->T), end = begin + pick(m->T);
        for (int t = 0; t < m->T; t++) {
            pu_real *y = m->y + k * m->T + t;
            *y = (pu_real)(m->unit * (level + 2 * normal() + between(0, 1) * t));
            if ((gaps == 1 && often(0.3)) || (gaps == 2 && t >= begin && t < end)) *y = PU_R(NAN);
        }
        for (int t = 0; often(0.02) && t < m->T; t++) m->y[k * m->T + t] = PU_R(NAN);
    }
    for (int i = 0; i < (m->own_X ? m->N : 1) * m->T * m->p; i++) m->X[i] = (pu_real)normal();
    for (int i = 0; i < m->p; i++) m->theta[m->params + i] = (pu_real)(m->unit * normal());
    m->params += m->p;
}

static void random_series(series *m, uint64_t seed, uint64_t number)
{
    int at = 0;
    chance_state = tc_hash(seed * UINT64_C(1000003) + number);
    memset(m, 0, sizeof *m);
    m->number = number;
    m->extreme = often(0.5);
    m->unit = m->extreme && often(0.3) ? exp(log_uniform(1e-4, 1e4)) : 1;
    m->T = often(0.1) ? 1 + pick(4) : 4 + pick(MOST_T - 3);
    m->N = 1 + (often(0.3) ? pick(MOST_N) : 0);
    m->count = 1 + (often(0.5) ? pick(2) : pick(REF_PARTS));
    m->own_times = often(0.15);
    m->times[0] = normal();
    for (int t = 1; t < m->T; t++) m->times[t] = m->times[t - 1] + exp(m->extreme ? log_uniform(1e-3, 1e3) : 0.5 * normal());
    for (int n = 0; n < m->count; n++) {
        m->parts[n] = random_part(m, n);
        for (int i = 0; i < ref_part_params(m->parts, n); i++, at++) m->theta[at] = (pu_real)random_entry(m, m->parts + n, i);
    }
    /* now and then the last part gives way to none */
    for (int n = 0; n + 1 < m->count && !m->quiet; n++) m->quiet = moves_y(m->parts + n) && often(0.2);
    if (m->quiet) {
        at -= ref_part_params(m->parts, m->count - 1);
        memset(m->parts + m->count - 1, 0, sizeof *m->parts);
        m->parts[m->count - 1].kind = PU_PART_NO_IRREGULAR;
    } else m->theta[at++] = (pu_real)(2 * log(m->unit) + 0.3 * normal());
    m->inner_params = at;
    for (int i = 0; i < at; i++) m->inner[i] = (wide)m->theta[i];
    random_wrapping(m);
    random_data(m);
}

/* ---- what is counted ---- */

enum { NLL_ERROR, GRAD_ERROR, B_ERROR, MEAN_ERROR, VARIANCE_ERROR, ERRORS };
static const char *const error_name[ERRORS] = {"nll", "gradient", "coefficients", "means", "variances"};

#define LISTED 5
typedef struct {
    long count;
    uint64_t number[LISTED];
} found;

static long calls, ok, inexact, refused, unjudged, judged, kinds[11], steps_one;
static found wrong, understated, false_alarms, false_refusals, not_refused, draws_differ;
static double worst[ERRORS];
static uint64_t worst_model[ERRORS];

static void find(found *f, const series *m, const char *text)
{
    if (telling) printf("  !! %s\n", text);
    if (f->count < LISTED) f->number[f->count] = m->number;
    f->count++;
}

static void print_found(const char *text, const found *f)
{
    printf("%8ld %s", f->count, text);
    for (int i = 0; i < LISTED && i < f->count; i++) printf("%s %llu", i ? "," : ": models", (unsigned long long)f->number[i]);
    printf("\n");
}

static int is_refused(pu_status s) { return s < 0 || (s != PU_OK && s != PU_INEXACT); }

/* Is the model mild: equations well conditioned, parameters moderate, and more data than diffuse states? With as many the residuals
   are zero, and none of their digits is right. */
static int is_mild(const series *m)
{
    if (m->extreme) return 0;
    for (int k = 0; k < m->N; k++)
        if (expected[k].condition > MILD || expected[k].n <= reference.d) return 0;
    return 1;
}

static double least_share(const series *m)
{
    double most = 1;
    for (int k = 0; k < m->N; k++) most = fmax(most, expected[k].condition);
    return 1 / most;
}

/* One call: errors are -1 where not compared. */
static void judge(const series *m, const char *what, pu_status status, const pu_report *r, const double *error)
{
    double base = 16 * sqrt((double)m->T) * EPS, allowed = 10 * fmax(base, r->rounding_error);
    double own = (WIDE_DIGITS >= 113 ? 1e-33 : 1e-18) / least_share(m) * 100;
    int off = 0;
    char text[300];
    calls++;
    if (telling) {
        printf("  %-9s %-12s rounding_error %.1e allowed %.1e own %.1e:", what, pu_status_name(status), r->rounding_error, allowed, own);
        for (int i = 0; i < ERRORS; i++)
            if (error[i] >= 0) printf(" %s %.1e", error_name[i], error[i]);
        if (status != PU_OK) printf(" (%s)", pu_explain(r, text, sizeof text));
        printf("\n");
    }
    if (is_refused(status)) {
        refused++;
        if (is_mild(m)) find(&false_refusals, m, "a mild model refused");
        return;
    }
    if (status == PU_OK) ok++;
    else inexact++;
    if (status == PU_INEXACT && is_mild(m)) find(&false_alarms, m, "PU_INEXACT of a mild model");
    if (10 * own > allowed) {
        unjudged++;
        return;
    }
    judged++;
    for (int i = 0; i < ERRORS; i++) {
        double ratio = error[i] / allowed;
        if (error[i] < 0) continue;
        if (!(error[i] <= DBL_MAX)) off = 1;
        if (allowed >= 10) continue; /* no digit is claimed */
        if (status == PU_OK && ratio > worst[i]) {
            worst[i] = ratio;
            worst_model[i] = m->number;
        }
        off |= ratio > 1;
    }
    if (off && status == PU_OK) find(&wrong, m, what);
    if (off && status == PU_INEXACT) find(&understated, m, what);
}

static void no_errors(double *error)
{
    for (int i = 0; i < ERRORS; i++) error[i] = -1;
}

static void raise(double *error, double off, double size)
{
    double e = off == 0 ? 0 : off / size;
    if (!(e <= *error)) *error = e <= DBL_MAX ? e : HUGE_VAL;
}

/* ---- calls ---- */

static pu_data data_of(const series *m) { return pu_data_nan(m->N, m->T, m->y); }

/* The model and what is around it. Returns a status. */
static pu_status make_model(series *m, pu_report *r)
{
    pu_status status = pu_model_structural_at(&m->structural, m->T, m->own_times ? m->times : NULL, m->parts, m->count, r);
    m->outer = &m->structural;
    if (status == PU_OK && m->fixed) {
        status = pu_model_fix(&m->fix, m->outer, m->from, m->value, r);
        m->outer = &m->fix;
    }
    if (status == PU_OK && m->p > 0) {
        status = pu_model_regressors(&m->around, m->outer, m->p, m->X, m->own_X ? m->N : 0, r);
        m->outer = &m->around;
    }
    return status;
}

static void free_model(series *m)
{
    pu_model_free(&m->around);
    pu_model_free(&m->fix);
    pu_model_free(&m->structural);
}

static double coefficient(const series *m, int k, int t, int j)
{
    return (double)m->X[((m->own_X ? k : 0) * m->T + t) * m->p + j];
}

/* Likelihood, gradient, posterior of every series. Returns 0 where one has a state that is not identified, -1 where the
   reference cannot tell. */
static int run_reference(const series *m)
{
    int outcome, worst_outcome = 1;
    ref_make(&reference, m->T, m->own_times ? m->times : NULL, m->parts, m->count, m->inner);
    for (int k = 0; k < m->N; k++) {
        wide e[REF_T];
        for (int t = 0; t < m->T; t++) {
            e[t] = (wide)m->y[k * m->T + t];
            for (int j = 0; j < m->p; j++)
                e[t] -= (wide)coefficient(m, k, t, j) * (wide)m->theta[m->params - m->p + j];
        }
        outcome = ref_run(&reference, e, expected + k);
        if (outcome != 1) {
            worst_outcome = outcome < worst_outcome ? outcome : worst_outcome;
            continue;
        }
        ref_gradient(&reference, expected + k);
        ref_posterior(&reference, expected + k);
    }
    return worst_outcome;
}

static void compare_gradient(const series *m, const pu_real *grad, double *error)
{
    double want[REF_PARAMS] = {0}, size[REF_PARAMS] = {0}, unsure[REF_PARAMS] = {0};
    int inner_free = m->params - m->p;
    for (int k = 0; k < m->N; k++) {
        for (int n = 0; n < m->count; n++) {
            double most = 0, *sizes = expected[k].size + reference.first[n];
            for (int i = 0; i < ref_part_params(m->parts, n); i++) most = fmax(most, sizes[i]);
            for (int i = 0; i < ref_part_params(m->parts, n); i++) sizes[i] = most;
        }
        for (int i = 0; i < m->inner_params; i++) {
            if (m->from[i] == PU_ZERO) continue;
            want[m->from[i]] += expected[k].grad[i] / m->N;
            size[m->from[i]] += expected[k].size[i] / m->N;
            unsure[m->from[i]] += expected[k].unsure[i] / m->N;
        }
        for (int j = 0; j < m->p; j++)
            for (int t = 0; t < m->T; t++) {
                double term = coefficient(m, k, t, j) * expected[k].residual[t] / m->N;
                want[inner_free + j] -= term;
                size[inner_free + j] += fabs(term);
            }
    }
    for (int i = 0; i < m->params; i++) {
        double *e = error + (i < inner_free ? GRAD_ERROR : B_ERROR);
        /* what the reference does not know is no error */
        raise(e, fmax(fabs((double)grad[i] - want[i]) - unsure[i], 0), size[i]);
        if (telling) printf("    theta[%d] %.9g: %.17g, want %.17g +- %.1g, size %.2g\n", i, (double)m->theta[i], (double)grad[i], want[i],
                   unsure[i], size[i]);
    }
}

static void compare_nll(const series *m, double nll, double *error)
{
    double want = 0, scale = 0;
    for (int k = 0; k < m->N; k++) {
        want += expected[k].nll / m->N;
        scale += expected[k].scale / m->N;
    }
    raise(error + NLL_ERROR, fabs(nll - want), scale);
    if (telling) printf("    nll %.17g, want %.17g, scale %.2g\n", nll, want, scale);
}

static void run_gradient(series *m, int identified)
{
    pu_real grad[REF_PARAMS];
    pu_data data = data_of(m);
    pu_report r;
    double error[ERRORS], nll = 0;
    pu_status status = pu_model_gradient(m->outer, m->theta, &data, NULL, NULL, grad, NULL, &r);
    no_errors(error);
    if (!identified) {
        calls++;
        refused++;
        if (telling) printf("  not identified: %s\n", pu_status_name(status));
        if (!is_refused(status) && r.rounding_error < 0.1) find(&not_refused, m, "not refused");
        return;
    }
    if (!is_refused(status)) {
        compare_nll(m, r.nll, error);
        compare_gradient(m, grad, error);
    }
    judge(m, "gradient", status, &r, error);
    no_errors(error);
    status = pu_model_nll(m->outer, m->theta, &data, NULL, NULL, &nll, NULL, &r);
    if (!is_refused(status)) compare_nll(m, nll, error);
    judge(m, "nll", status, &r, error);
}

/* Without an irregular what is observed has variance zero: the smallest of a shock is what its rounding is compared with. */
static double quiet_variance(const series *m)
{
    double least = DBL_MAX;
    for (int n = 0, at = 0; n < m->count; n++)
        for (int i = 0; i < ref_part_params(m->parts, n); i++, at++)
            if (is_variance(m->parts + n, i)) least = fmin(least, exp((double)m->inner[at]));
    return m->quiet ? least : 0;
}

/* Moments of part n, or of their sum with what regressors add. */
static void run_part(series *m, int n)
{
    pu_real mean[MOST_N * MOST_T], fit[MOST_N * MOST_T];
    pu_op map = pu_model_part(&m->structural, n);
    pu_data data = data_of(m);
    pu_predict_result out;
    pu_report r;
    pu_status status;
    double error[ERRORS];
    no_errors(error);
    memset(&out, 0, sizeof out);
    out.mean = mean;
    out.fit = fit;
    if (n < m->count) out.map = &map;
    status = pu_model_predict(m->outer, m->theta, &data, NULL, NULL, &out, &r);
    for (int k = 0; !is_refused(status) && k < m->N; k++) {
        double off = 0, size = 0, off_variance = 0, size_variance = 0, others = 0;
        for (int other = 0; other < m->count; other++)
            for (int t = 0; m->parts[other].kind != PU_PART_LEVEL && t < m->T; t++) others = fmax(others, fabs(expected[k].mean[other][t]));
        for (int t = 0; t < m->T; t++) {
            double want = expected[k].mean[n][t], variance = expected[k].variance[n][t];
            for (int j = 0; n == m->count && j < m->p; j++) want += coefficient(m, k, t, j) * (double)m->theta[m->params - m->p + j];
            off = fmax(off, fabs((double)mean[k * m->T + t] - want));
            off_variance = fmax(off_variance, fabs((double)fit[k * m->T + t] - variance) - expected[k].doubt[n][t]);
            size = fmax(size, fabs(want) + sqrt(fmax(variance, 0)));
            size_variance = fmax(size_variance, variance);
            if (mean[k * m->T + t] != mean[k * m->T + t] || fit[k * m->T + t] != fit[k * m->T + t]) off = HUGE_VAL;
        }
        raise(error + MEAN_ERROR, off, size + others);
        raise(error + VARIANCE_ERROR, off_variance, size_variance + quiet_variance(m));
    }
    judge(m, n < m->count ? "part" : "sum", status, &r, error);
}

/* Draws: the same bits with one thread and with two. */
static void run_draws(series *m)
{
    pu_data data = data_of(m);
    pu_int D = m->structural.lgm.Gamma ? m->structural.lgm.Gamma->rows : 0;
    pu_real *samples[2];
    pu_status status[2];
    for (int i = 0; i < 2; i++) {
        pu_posterior_result out;
        pu_options o;
        pu_report r;
        memset(&o, 0, sizeof o);
        memset(&out, 0, sizeof out);
        samples[i] = tc_reals(m->N * 2 * D);
        o.engine = PU_KALMAN;
        o.kind = PU_EXACT;
        o.samples = 2;
        o.threads = i + 1;
        out.samples = samples[i];
        status[i] = pu_model_posterior(m->outer, m->theta, &data, &o, NULL, &out, &r);
    }
    if (status[0] != status[1] ||
        (!is_refused(status[0]) && memcmp(samples[0], samples[1], (size_t)(m->N * 2 * D) * sizeof(pu_real)) != 0))
        find(&draws_differ, m, "draws differ");
}

static void tell_model(const series *m)
{
    printf("model %llu: %d steps, %d series, %s, noise %.2g, %d regressors%s%s\n", (unsigned long long)m->number, m->T, m->N,
           m->extreme ? "extreme" : "mild", m->unit, m->p, m->fixed ? ", fixed parameters" : "",
           m->own_times ? ", at times of its own" : "");
    for (int n = 0, at = 0; n < m->count; n++) {
        printf("  kind %d size %d constant %d:", (int)m->parts[n].kind, (int)m->parts[n].size, m->parts[n].constant);
        for (int i = 0; i < ref_part_params(m->parts, n); i++, at++) printf(" %.9g", (double)m->inner[at]);
        printf("\n");
    }
    for (int k = 0; k < m->N; k++) {
        printf("  y:");
        for (int t = 0; t < m->T; t++) printf(" %.17g", (double)m->y[k * m->T + t]);
        printf("\n  condition %.2g\n", expected[k].condition);
    }
}

static void run_series(uint64_t seed, uint64_t number)
{
    series *m = &model;
    pu_report r;
    pu_status status;
    size_t mark = tc_kept_count;
    int identified;
    random_series(m, seed, number);
    status = make_model(m, &r);
    if (status == PU_OK && m->outer->params > 0) {
        memset(expected, 0, sizeof expected);
        identified = run_reference(m);
        if (telling) tell_model(m);
        for (int n = 0; n < m->count; n++) kinds[m->parts[n].kind]++;
        steps_one += m->T == 1;
        if (identified >= 0) run_gradient(m, identified);
        for (int n = 0; identified > 0 && n <= m->count; n++)
            if (n == m->count || number % 2 == 0) run_part(m, n);
        if (number % 8 == 0) run_draws(m);
    } else if (status != PU_OK) {
        char text[300];
        if (telling) printf("model %llu not made: %s\n", (unsigned long long)number, pu_explain(&r, text, sizeof text));
        find(&false_refusals, m, "not made");
    }
    free_model(m);
    tc_release_to(mark);
}

static long count_wanted;
static uint64_t first_seed = 1, only_model;
static int one_only;

static void run_all(void)
{
    telling = one_only;
    if (one_only) {
        run_series(first_seed, only_model);
        return;
    }
    for (long i = 0; i < count_wanted; i++) run_series(first_seed, (uint64_t)i);
    printf("%ld models: %ld calls, %ld PU_OK, %ld PU_INEXACT, %ld refused; %ld judged, %ld not\n", count_wanted, calls, ok, inexact,
           refused, judged, unjudged);
    for (int i = 0; i < ERRORS; i++)
        printf("%10.2g of what is allowed, at most: %s, model %llu\n", worst[i], error_name[i], (unsigned long long)worst_model[i]);
    print_found("wrong under PU_OK", &wrong);
    print_found("PU_INEXACT with more than is told", &understated);
    print_found("mild, but PU_INEXACT", &false_alarms);
    print_found("mild, but refused", &false_refusals);
    print_found("not identified, but not refused", &not_refused);
    print_found("draws that depend on threads", &draws_differ);
}

/* ---- other engines ---- */

/* The matrices of a part without diffuse states, as a state space: F, and the lower factor of Q = P - F P F', by its autocovariances.
   Mild parameters, in double. Returns the number of states. */
static int as_state_space(const pu_part *p, const double *theta, double *F, double *L)
{
    double P[9] = {0}, Q[9], FP[9];
    int S = p->kind == PU_PART_CYCLE ? 2 : (int)p->kind - (int)PU_PART_MATERN12 + 1;
    if (p->kind == PU_PART_CYCLE) {
        double rho = 1 / (1 + exp(-theta[1])), angle = acos(-1.0) / (1 + exp(-theta[2]));
        F[0] = F[3] = rho * cos(angle);
        F[1] = rho * sin(angle);
        F[2] = -F[1];
        P[0] = P[3] = exp(theta[0]) / (1 - rho * rho);
    } else {
        /* of f, f'/l, f''/l^2: the exponential of the generator, which has the only eigenvalue -1 */
        double x = sqrt(2.0 * S - 1) / exp(theta[1]), e = exp(-x), v = exp(theta[0]);
        const double one[9] = {e}, two[9] = {e * (1 + x), e * x, -e * x, e * (1 - x)};
        const double three[9] = {e * (1 + x + x * x / 2), e * (x + x * x),     e * x * x / 2,
                                 -e * x * x / 2,          e * (1 + x - x * x), e * (x - x * x / 2),
                                 e * (x * x / 2 - x),     e * (x * x - 3 * x), e * (1 - 2 * x + x * x / 2)};
        memcpy(F, S == 1 ? one : S == 2 ? two : three, (size_t)(S * S) * sizeof *F);
        for (int i = 0; i < S; i++) P[i * S + i] = S == 3 && i == 1 ? v / 3 : v;
        if (S == 3) P[2] = P[6] = -v / 3;
    }
    for (int i = 0; i < S * S; i++) {
        FP[i] = 0;
        for (int l = 0; l < S; l++) FP[i] += F[i / S * S + l] * P[l * S + i % S];
    }
    for (int i = 0; i < S * S; i++) {
        Q[i] = P[i];
        for (int l = 0; l < S; l++) Q[i] -= FP[i / S * S + l] * F[i % S * S + l];
    }
    if (!tc_cholesky(S, Q)) return 0;
    memcpy(L, Q, (size_t)(S * S) * sizeof *L);
    return S;
}

/* A cycle or a Matern part is a stationary state space: the likelihood, and its derivatives in log variance (through L) and in log
   sigma2, by the engines that those have. Tolerance: Q is a difference, of which its condition is lost; up to 1e4 here. */
TEST state_spaces_agree(void)
{
    static const pu_part_kind which[] = {PU_PART_CYCLE, PU_PART_MATERN12, PU_PART_MATERN32, PU_PART_MATERN52};
    static const pu_engine engines[] = {PU_KALMAN, PU_BANDED, PU_DENSE};
    enum { T = 15 };
    for (int trial = 0; trial < 40; trial++) {
        pu_part part = {which[trial % 4], 0, 0};
        double at[3] = {0.3 * normal(), 0.5 * normal() + 0.5, 0.7 * normal()}, F[9], L[9], variance;
        pu_real theta[4] = {(pu_real)at[0], (pu_real)at[1], (pu_real)at[2], 0}, grad[4], other[24], other_grad[24], y[T];
        pu_data data = pu_data_nan(1, T, y);
        int params = part.kind == PU_PART_CYCLE ? 4 : 3, S, n = 0;
        pu_model m, space;
        pu_report r, r2;
        memset(&m, 0, sizeof m);
        memset(&space, 0, sizeof space);
        for (int i = 0; i < 3; i++) at[i] = (double)theta[i];
        theta[params - 1] = PU_R(-0.5);
        for (int t = 0; t < T; t++) y[t] = t % 6 == 2 ? PU_R(NAN) : (pu_real)normal();
        S = as_state_space(&part, at, F, L);
        TC_ASSERT(S > 0);
        for (int i = 0; i < S * S; i++) other[n++] = (pu_real)F[i];
        for (int i = 0; i < S; i++) other[n++] = i == 0;
        for (int i = 0; i < S; i++)
            for (int j = 0; j <= i; j++) other[n++] = (pu_real)(i == j ? log(L[i * S + i]) : L[i * S + j]);
        other[n++] = theta[params - 1];
        TC_ASSERT(pu_model_structural(&m, T, &part, 1, &r) == PU_OK);
        TC_ASSERT(pu_model_state_space(&space, T, S, PU_SSM_STATIONARY, &r) == PU_OK && space.params == n);
        TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
        for (int e = 0; e < 3; e++) {
            double tolerance = 1e4 * 100 * EPS * T;
            pu_options o;
            pu_status status;
            memset(&o, 0, sizeof o);
            o.engine = engines[e];
            o.kind = PU_EXACT;
            tc_set_case("trial %d, kind %d, engine %d", trial, (int)part.kind, e);
            status = pu_model_gradient(&space, other, &data, &o, NULL, other_grad, NULL, &r2);
            TC_ASSERT(status == PU_OK || status == PU_INEXACT);
            tolerance += 10 * T * r2.rounding_error;
            if (tolerance > 0.25) continue; /* says nothing: float */
            PU_CHECK_CLOSE(r2.nll, r.nll, tolerance);
            PU_CHECK_CLOSE(other_grad[n - 1], grad[params - 1], tolerance);
            variance = 0;
            for (int i = 0, place = S * S + S; i < S; i++)
                for (int j = 0; j <= i; j++, place++)
                    variance += (double)other_grad[place] * (i == j ? 0.5 : L[i * S + j] / 2);
            PU_CHECK_CLOSE(variance, grad[0], tolerance);
        }
        pu_model_free(&space);
        pu_model_free(&m);
    }
    PASS();
}

/* The same theta, the same likelihood and gradient, whatever the order. */
TEST noisy_autoregressions_agree(void)
{
    enum { T = 24 };
    for (int trial = 0; trial < 60; trial++) {
        pu_part part = {PU_PART_AR, 1 + trial % 6, 0};
        pu_real theta[8], grad[8], other[8], y[T];
        pu_data data = pu_data_nan(1, T, y);
        pu_model m, noisy;
        pu_report r, r2;
        double tolerance;
        memset(&m, 0, sizeof m);
        memset(&noisy, 0, sizeof noisy);
        tc_set_case("trial %d", trial);
        for (int t = 0; t < T; t++) y[t] = t % 5 == 2 ? PU_R(NAN) : (pu_real)(2 * normal());
        for (int i = 0; i < part.size + 2; i++) theta[i] = (pu_real)(0.6 * normal());
        TC_ASSERT(pu_model_structural(&m, T, &part, 1, &r) == PU_OK);
        TC_ASSERT(pu_model_noisy_ar(&noisy, T, part.size, &r) == PU_OK && noisy.params == m.params);
        TC_ASSERT(pu_model_gradient(&m, theta, &data, NULL, NULL, grad, NULL, &r) == PU_OK);
        TC_ASSERT(pu_model_gradient(&noisy, theta, &data, NULL, NULL, other, NULL, &r2) == PU_OK);
        tolerance = 10 * (r.rounding_error + r2.rounding_error) * (T + fabs(r.nll));
        PU_CHECK_CLOSE(r.nll, r2.nll, tolerance);
        for (int i = 0; i < m.params; i++) PU_CHECK_CLOSE(grad[i], other[i], tolerance);
        pu_model_free(&noisy);
        pu_model_free(&m);
    }
    PASS();
}

TEST all_kinds_were_there(void)
{
    if (one_only || count_wanted < 500) SKIP();
    for (int i = 0; i < 11; i++) {
        tc_set_case("kind %d", i);
        TC_ASSERT(kinds[i] > 0);
    }
    TC_ASSERT(steps_one > 0);
    TC_ASSERT(2 * judged > calls);
    PASS();
}

/* None of the 20,000 models of seed 1, in double and in float, with gcc 12. Estimates stay estimates: another seed had one in 37,000
   calls (an autoregression of order 3 with two roots within 1e-12 of 1), and other compilers round differently. */
TEST ok_is_not_wrong(void)
{
    tc_set_case("%ld of %ld", wrong.count, ok);
    TC_ASSERT(50000 * wrong.count <= ok);
    PASS();
}

TEST inexact_tells_by_how_much(void)
{
    tc_set_case("%ld of %ld", understated.count, inexact);
    TC_ASSERT(100 * understated.count <= inexact);
    PASS();
}

TEST mild_models_pass(void)
{
    tc_set_case("%ld alarms, %ld refusals", false_alarms.count, false_refusals.count);
    TC_ASSERT(500 * false_alarms.count <= ok); /* as in test_differential.c */
    TC_ASSERT(false_refusals.count == 0);
    PASS();
}

TEST what_is_not_identified_is_refused(void)
{
    tc_set_case("%ld", not_refused.count);
    TC_ASSERT(not_refused.count == 0);
    PASS();
}

TEST draws_do_not_depend_on_threads(void)
{
    TC_ASSERT(draws_differ.count == 0);
    PASS();
}

/* What stands behind "--", which greatest leaves alone. */
static void own_arguments(int argc, char **argv)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") != 0) i++;
    for (i++; i + 1 < argc; i += 2) {
        unsigned long long value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "-s") == 0) first_seed = value;
        else if (strcmp(argv[i], "-n") == 0) count_wanted = (long)value;
        else if (strcmp(argv[i], "-m") == 0) {
            one_only = 1;
            only_model = value;
        }
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    count_wanted = getenv("PU_TEST_SMALL") ? SMALL_COUNT : DEFAULT_COUNT;
    own_arguments(argc, argv);
    if (WIDE_DIGITS < 113) {
        printf("skipped: no floating point type here is wide enough for the reference\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    if (!GREATEST_LIST_ONLY()) run_all();
    RUN_TEST(all_kinds_were_there);
    RUN_TEST(ok_is_not_wrong);
    RUN_TEST(inexact_tells_by_how_much);
    RUN_TEST(mild_models_pass);
    RUN_TEST(what_is_not_identified_is_refused);
    RUN_TEST(draws_do_not_depend_on_threads);
    RUN_TEST(state_spaces_agree);
    RUN_TEST(noisy_autoregressions_agree);
    PU_TEST_MAIN_END();
}

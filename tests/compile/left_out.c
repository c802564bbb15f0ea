/* What is there when storeys are left out (PU_NO_SERIES and the like) gives the numbers that the whole library gives, and what is
   not is refused in words. Prints a line for each thing that is there; tests/jobs.sh builds this with the switches and without,
   and compares. sizes.h, which it makes of pu.h, has a line SIZE(pu_op) for each public type. */
#ifdef LEFT_OUT_ALONE
#define PU_STATIC
#define PU_IMPLEMENTATION
#endif
#include "pu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
#define ZERO {}
#else
#define ZERO {0}
#endif

enum { ROWS = 12, FACTORS = 3, DATA = 6, LENGTH = 40, WIDE = 6, HIGH = 5, PIXELS = WIDE * HIGH };

static int failed;
static pu_real y[DATA * ROWS], Phi[ROWS * FACTORS], psi[2 * PIXELS], ones[2 * PIXELS];

/* A line that the whole library prints, too: a hash of n reals and of the likelihood. */
static void tell(const char *what, pu_status status, const pu_real *x, pu_int n, double nll)
{
    unsigned long hash = 2166136261u;
    unsigned char bytes[sizeof(pu_real)];
    for (pu_int i = 0; i < n; i++) {
        memcpy(bytes, x + i, sizeof bytes);
        for (size_t b = 0; b < sizeof bytes; b++)
            hash = (hash ^ bytes[b]) * 16777619u & 0xffffffffu;
    }
    printf("%s: status %d, hash %08lx, first %.9g, nll %.17g\n", what, (int)status, hash, n > 0 ? (double)x[0] : 0.0, nll);
    if (status < 0 || !(fabs(nll) < 1e9) || (n > 0 && !(fabs((double)x[0]) > 0))) {
        printf("FAIL  %s\n", what);
        failed = 1;
    }
}

static void expect(const char *what, int is_right)
{
    if (is_right)
        return;
    printf("FAIL  %s\n", what);
    failed = 1;
}

/* Refused, with this in the message? */
static int says(const pu_report *report, pu_status status, const char *words)
{
    char text[400];
    int right = report->status == status && strstr(pu_explain(report, text, sizeof text), words) != NULL;
    if (!right)
        printf("it says: %s\n", pu_explain(report, text, sizeof text));
    return right;
}

/* The gradient of psi, and of Gamma where that has parameters. */
static pu_status gradient(const char *what, const pu_op *prior, const pu_op *map, pu_options options, pu_report *report)
{
    pu_real grad[2 * PIXELS + 8] = {0};
    pu_lgm model = {prior, map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, map->rows, ones);
    pu_gradient_result out = ZERO;
    pu_status status;
    options.threads = 1;
    out.psi = grad;
    if (prior->params > 0 && prior->params <= 8)
        out.Gamma = grad + map->rows;
    status = pu_gradient(&model, &data, &options, NULL, &out, report);
    if (what)
        tell(what, status, grad, map->rows + (out.Gamma ? prior->params : 0), report->nll);
    return status;
}

static void solve(void)
{
    pu_real A[9] = {4, 1, 0, 1, 4, 1, 0, 1, 4}, U[3] = {1, 2, 3}, X[3];
    pu_op op = pu_op_spd(3, A, NULL);
    pu_solve_arrays arrays = ZERO;
    pu_report report;
    arrays.k = 1;
    arrays.U = U;
    arrays.X = X;
    tell("solve", pu_solve(&op, &arrays, NULL, NULL, NULL, NULL), X, 3, 0);
    arrays.k = -1;
    (void)pu_solve(&op, &arrays, NULL, NULL, NULL, &report);
    expect("a mistake is told as ever", says(&report, PU_E_ARGUMENT, "k (at least 1)"));
}

static void factors(void)
{
    pu_op prior = pu_op_identity(FACTORS), map = pu_op_dense(ROWS, FACTORS, Phi);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_nan(DATA, ROWS, y);
    pu_real grad[ROWS * FACTORS];
    pu_options options = ZERO;
    pu_gradient_result out = ZERO;
    pu_report report;
    pu_status status;
    out.Phi = grad;
    options.threads = 1;
    status = pu_gradient(&model, &data, &options, NULL, &out, &report);
#ifdef PU_NO_EXACT
    expect("zeroed options are the iterative engine", status >= 0 && report.engine == PU_ITERATIVE);
    expect("the plan names PU_NO_EXACT", strstr(report.plan, "PU_NO_EXACT") != NULL);
    options.engine = PU_ENGINE_AUTO;
    expect("so is auto", pu_gradient(&model, &data, &options, NULL, &out, &report) >= 0 && report.engine == PU_ITERATIVE);
    for (int engine = PU_DENSE; engine < PU_ENGINE_AUTO; engine++) {
        options.kind = engine % 2 ? PU_EXACT : PU_MONTE_CARLO;
        options.engine = (pu_engine)engine;
        (void)pu_gradient(&model, &data, &options, NULL, &out, &report);
        expect("an exact engine is refused", says(&report, PU_E_UNSUPPORTED, "PU_NO_EXACT"));
    }
    options.kind = PU_EXACT;
    options.engine = PU_ENGINE_DEFAULT;
    (void)pu_gradient(&model, &data, &options, NULL, &out, &report);
    expect("PU_EXACT is refused", says(&report, PU_E_UNSUPPORTED, "PU_NO_EXACT"));
    options.kind = PU_NETWORK;
#else
    tell("factors, zeroed options", status, grad, ROWS * FACTORS, report.nll);
#endif
    options.engine = PU_ITERATIVE;
    status = pu_gradient(&model, &data, &options, NULL, &out, &report);
    tell("factors, iterative", status, grad, ROWS * FACTORS, report.nll);
}

static void series(void)
{
    pu_op map = pu_op_identity(LENGTH), prior;
    pu_options options = ZERO;
    pu_report report;
#ifdef PU_NO_SERIES
    pu_op claims = pu_op_identity(LENGTH);
    (void)prior;
    claims.form = PU_FORM_AR;
    claims.data = ones;
    (void)gradient(NULL, &claims, &map, options, &report);
    expect("the form of an AR is refused", says(&report, PU_E_UNSUPPORTED, "PU_NO_SERIES"));
#ifndef PU_NO_EXACT
    options.kind = PU_EXACT;
    options.engine = PU_KALMAN;
    (void)gradient(NULL, &map, &map, options, &report);
    expect("the Kalman engine is refused", says(&report, PU_E_UNSUPPORTED, "PU_NO_SERIES"));
#endif
#else
    static pu_ar ar;
    pu_real gamma[2] = {PU_R(0.6), PU_R(-0.3)};
    expect("pu_ar_set", pu_ar_set(&ar, LENGTH, 2, gamma, 1, NULL) == PU_OK);
    prior = pu_op_ar(&ar);
    options.engine = PU_ITERATIVE;
    (void)gradient("AR, iterative", &prior, &map, options, &report);
#ifndef PU_NO_EXACT
    options.kind = PU_EXACT;
    options.engine = PU_KALMAN;
    (void)gradient("AR, Kalman", &prior, &map, options, &report);
#endif
#endif
}

static void fourier(void)
{
    pu_op prior = pu_op_diagonal(PIXELS, ones);
    pu_options options = ZERO;
    pu_report report;
#ifdef PU_NO_FOURIER
    pu_op claims = prior;
    claims.form = PU_FORM_LATTICE;
    (void)gradient(NULL, &claims, &prior, options, &report);
    expect("the form of a lattice is refused", says(&report, PU_E_UNSUPPORTED, "PU_NO_FOURIER"));
#else
    static pu_real tables[4096];
    pu_fourier f;
    pu_op map;
    expect("pu_fourier_init", pu_fourier_init(&f, HIGH, WIDE, tables, sizeof tables) == PU_OK);
    map = pu_op_fourier(&f);
    options.engine = PU_ITERATIVE;
    (void)gradient("Fourier sensing", &prior, &map, options, &report);
    pu_fourier_free(&f);
#endif
}

/* pu_fit by the iterative engine, which all builds have. */
static void fit(void)
{
#ifndef PU_NO_MODELS
    pu_model model = ZERO;
    pu_real theta[ROWS * FACTORS + 2 * ROWS] = {0};
    pu_data data = pu_data_nan(DATA, ROWS, y);
    pu_report report;
#ifndef PU_NO_FIT
    pu_fit_options options = ZERO;
    pu_fit_report fitted;
#endif
    expect("pu_model_factors", pu_model_factors(&model, ROWS, FACTORS, &report) == PU_OK);
    tell("start", pu_model_start(&model, &data, 1, theta, &report), theta, model.params, 0);
#ifndef PU_NO_FIT
    options.optimizer = PU_ADAM;
    options.steps = 5;
    options.gradient.engine = PU_ITERATIVE;
    options.gradient.threads = 1;
    tell("fit", pu_fit(&model, &data, &options, NULL, theta, &fitted), theta, model.params, fitted.last.nll);
#endif
    pu_model_free(&model);
#if !defined(PU_NO_SERIES) && (defined(PU_NO_FIT) || defined(PU_NO_EXACT))
    data = pu_data_full(1, LENGTH, ones);
    expect("pu_model_noisy_ar", pu_model_noisy_ar(&model, LENGTH, 2, &report) == PU_OK);
    expect("its start", pu_model_start(&model, &data, 1, theta, &report) == PU_OK);
    expect("which tells that it is from moments", strstr(report.plan, "PU_NO_FIT or PU_NO_EXACT") != NULL);
    pu_model_free(&model);
#endif
#endif
}

int main(void)
{
    pu_normals(7, 0, 0, 0, 3, 0, DATA * ROWS, y);
    pu_normals(7, 1, 0, 0, 3, 0, ROWS * FACTORS, Phi);
    pu_normals(7, 2, 0, 0, 3, 0, 2 * PIXELS, ones);
    for (int i = 0; i < 2 * PIXELS; i++) {
        psi[i] = PU_R(2) + PU_R(i % 3);
        ones[i] = PU_R(1) + ones[i] * ones[i];
    }
    y[5] = y[17] = PU_R(NAN);
#define SIZE(type) printf("sizeof %s %d\n", #type, (int)sizeof(type));
#include "sizes.h"
    solve();
    factors();
    series();
    fourier();
    fit();
    return failed;
}

/* noisy_ar.c - an autoregression seen through noise, with gaps: fit, standard errors, imputation, forecast.

   cc -O3 -march=native -fopenmp -I. examples/noisy_ar.c -o noisy_ar -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/noisy_ar.c -o noisy_ar -lcublas -lcufft -lcurand       (for --device cuda)
   ./noisy_ar --length 3000 --hide 0.1 --forecast 24 --svg ar.svg       simulated: what comes back of the truth
   ./noisy_ar --data air.csv --columns PM2.5 --transform log --order 5  columns of a file

   z_t = phi_1 z_{t-1} + .. + phi_P z_{t-P} + N(0, kappa),   y_t = z_t + N(0, lambda),   entries of y missing at will.

   The precision of z is banded, so the automatic engine finds the exact likelihood and its gradient in O(P^2) per entry, and
   the default is L-BFGS on it, begun at moments of the data. The paper's experiment is --paper, which stands for
   --optimizer adam --start zero --engine iterative (K = 10 probes, I = 30 steps of CG, network gradient, 200 steps, rate 0.1).
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/series.h"
#include "common/ar.h"

enum { P_MAX = PU_AR_MAX, THETA = P_MAX + 2 };

/* Standard errors of the natural values from the covariance C of theta: the diagonal of J C J', J = d natural / d theta. */
static void delta_method(const pu_ar *ar, pu_real lambda, const pu_real *C, pu_real *se)
{
    const int P = (int)ar->order, n = P + 2;
    double J[THETA][THETA], phi[P_MAX], J_phi[P_MAX * P_MAX];
    int k, i, j;
    memset(J, 0, sizeof J);
    ar_derivatives(P, ar->gamma, phi, J_phi);
    for (i = 0; i < P; i++)
        for (j = 0; j < P; j++) J[i][j] = J_phi[i * P + j];
    J[P][P] = (double)ar->kappa, J[P + 1][P + 1] = (double)lambda;
    for (k = 0; k < n; k++) {
        double sum = 0;
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) /* C is NaN where a parameter is not identified, which matters only where it enters */
                if (J[k][i] != 0 && J[k][j] != 0) sum += J[k][i] * J[k][j] * (double)C[i * n + j];
        se[k] = (pu_real)sqrt(sum);
    }
}

int main(int argc, char **argv)
{
    static series s;
    static pu_real C[THETA * THETA];
    pu_real theta[THETA], x[THETA], se[THETA], truth[THETA];
    fit_flags flags;
    option list[FIT_FLAGS + SERIES_FLAGS + 9];
    long length = 1000, count = 5, order = 5;
    double missing = 0.1, nll = 0, nll_se = 0, nll_exact = 0, error[3] = {0, 0, 0}, began;
    int paper = option_given(argc, argv, "paper", strlen("paper")), optimizer = paper, start = paper, options = 0, P, i, has_se;
    pu_model model;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_options exact;
    pu_report told;
    json j;

    series_default(&s), fit_flags_default(&flags);
    flags.rate = 0, flags.engine = paper; /* adam, zero, iterative are the second of their words */
    list[options++] = opt_flag("paper", "the paper's recipe: adam from zero, iterative engine; other flags count beside it", &paper);
    list[options++] = opt_number("order", "P of the autoregression", &order, 1, P_MAX);
    list[options++] = opt_number("length", "simulate: entries of a series", &length, 1, 100000000);
    list[options++] = opt_number("series", "simulate: how many", &count, 1, CSV_COLUMNS);
    list[options++] = opt_real("missing", "simulate: share of missing entries", &missing, 0, 0.99);
    list[options++] = opt_choice("optimizer", "of the fit; without --rate its own: 1, 0.1, 0.01", &optimizer, "lbfgs,adam,sgd");
    list[options++] = opt_choice("start", "of the fit: from the data, at gamma = 0 and kappa = lambda = 1, or at the truth of a simulation", &start, "moments,zero,truth");
    options += series_flags_table(&s, list + options);
    options += fit_flags_table(&flags, list + options);
    options_read(argc, argv, "noisy_ar", "Fits an autoregression with observation noise to series with gaps.", options, list);
    options_apart(argc, argv, "data", "length,series,missing");
    device_open();
    P = (int)order;

    /* the series: --forecast more entries than are known, all missing */
    memset(&model, 0, sizeof model);
    if (s.data) series_load(&s);
    if (!s.data && length < order) fail(2, "--length", "must be at least --order");
    need(pu_model_noisy_ar(&model, s.data ? s.length : (pu_int)(length + s.forecast), P, &told), &told);
    if (!s.data) {
        ar_truth(P, (uint64_t)flags.seed, theta);
        series_simulate(&s, &model, theta, (pu_int)count, missing, (uint64_t)flags.seed);
        ar_natural(&model, theta, truth);
    }
    series_hide(&s, (uint64_t)flags.seed);
    data = pu_data_nan(s.count, s.length, s.y);

    /* the fit */
    fit_flags_options(&flags, &fit);
    fit.optimizer = optimizer == 0 ? PU_LBFGS : optimizer == 1 ? PU_ADAM : PU_SGD;
    fit.fixed_probes = fit.optimizer == PU_LBFGS; /* it needs a deterministic gradient */
    if (start == 2 && s.data) fail(2, "--start truth", "is for simulated series");
    if (start < 2) memset(theta, 0, sizeof theta);
    if (start == 0) need(pu_model_start(&model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_run(&model, &data, &fit, NULL, theta, &report);

    /* what came out: NLL as the fit sees it, the rest by an exact engine */
    began = seconds();
    memset(&exact, 0, sizeof exact);
    exact.engine = PU_ENGINE_AUTO, exact.kind = PU_EXACT, exact.threads = fit.gradient.threads;
    fit_nll(&model, theta, &data, &fit.gradient, NULL, &nll, &nll_se, &told);
    need(pu_model_nll(&model, theta, &data, &exact, NULL, &nll_exact, NULL, &told), &told);
    ar_natural(&model, theta, x);
    has_se = report.stop == PU_FIT_CONVERGED || report.stop == PU_FIT_BOUNDARY || report.stop == PU_FIT_GRADIENT;
    if (has_se) { /* they are those of a minimum */
        const pu_status status = pu_fit_covariance(&model, &data, &exact, NULL, theta, C, &told);
        has_se = status == PU_OK || status == PU_UNIDENTIFIED;
    }
    if (has_se) delta_method(pu_model_get_ar(&model), x[P + 1], C, se);
    for (i = 0; i < P + 2 && !has_se; i++) se[i] = (pu_real)NAN;
    series_look(&s, &model, theta, &exact);
    if (!s.data) ar_errors(P, x, truth, error);

    if (!flags.quiet) {
        printf("noisy autoregression of order %d: %ld series of %ld entries\n", P, (long)s.count, (long)s.known);
        printf("  %ld steps, %ld gradients in %.2f s (%s); %.2f s for errors and posterior\n  device %s: %s\n\n", (long)report.step,
               (long)report.gradients, report.seconds, pu_fit_stop_text(report.stop), seconds() - began, device_name,
               report.last.plan);
        printf("              estimate   std. error%s\n", s.data ? "" : "        truth");
        for (i = 0; i < P + 2; i++) {
            if (i < P) printf("  phi %-4d", i + 1);
            else printf("  %-8s", i == P ? "kappa" : "lambda");
            printf(" %12.5g", (double)x[i]);
            if (has_se && se[i] == se[i]) printf(" %12.2g", (double)se[i]);
            else printf(" %12s", "-");
            if (!s.data) printf(" %12.5g", (double)truth[i]);
            printf("\n");
        }
        if (!has_se) printf("  no standard errors: the fit has not converged (more --steps?)\n");
        if (report.stop == PU_FIT_BOUNDARY) printf("  %s is at its boundary, and has no standard error\n", report.boundary_name);
        printf("\n  NLL per series %.6f", nll);
        if (nll_se > 0) printf(" +- %.2g from %s", nll_se, report.last.served[PU_ITERATIVE] ? "probes" : "rounding");
        if (nll_se > 0 && report.last.served[PU_ITERATIVE]) printf(", exactly %.6f", nll_exact);
        if (!s.data) printf("\n  NRMSE: phi %.2f %%, kappa %.2f %%, lambda %.2f %%", error[0], error[1], error[2]);
        printf("\n");
        series_print(&s);
    }
    j = json_open(flags.json);
    json_fit(&j, &flags, &report, nll, nll_se);
    json_number(&j, "nll_exact", nll_exact);
    json_number(&j, "order", (double)P);
    json_number(&j, "gradients", (double)report.gradients);
    json_number(&j, "gradient", report.gradient);
    json_array(&j, "phi", P, x);
    json_number(&j, "kappa", (double)x[P]);
    json_number(&j, "lambda", (double)x[P + 1]);
    json_array(&j, "standard_errors", P + 2, se); /* of phi, kappa, lambda */
    if (!s.data) {
        json_array(&j, "truth", P + 2, truth);
        json_key(&j, "nrmse");
        if (j.file) fprintf(j.file, "{\"phi\": %.6g, \"kappa\": %.6g, \"lambda\": %.6g}", error[0], error[1], error[2]);
    }
    series_json(&s, &j);
    json_close(&j);
    series_draw(&s, "series, posterior band and forecast");
    series_free(&s);
    pu_model_free(&model);
    device_close();
    return fit_code();
}

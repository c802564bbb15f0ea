/* state_space.c - a hidden linear system seen through noise, with gaps: fit, imputation, forecast.

   cc -O3 -march=native -fopenmp -I. examples/state_space.c -o state_space -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/state_space.c -o state_space -lcublas -lcufft -lcurand       (for --device cuda)
   ./state_space --length 2000 --states 2 --hide 0.1 --forecast 24 --svg ss.svg     simulated
   ./state_space --data lynx.csv --columns value --transform log --states 3          columns of a file

   z_t = A z_{t-1} + N(0, Q),   y_t = c'z_t + N(0, sigma2),   z_t of S states, begun in its stationary distribution.

   Other coordinates of the states give the same y, so A, c, Q are not to be compared with a truth one by one (nor have they
   standard errors); sigma2, the eigenvalues of A, the likelihood and what is said about y are.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/series.h"

enum { S_MAX = PU_SSM_MAX };

/* Damped rotations, two states each, with their own frequencies, and a slow decay when a state is left over: theta = [A | c | L
   | log sigma2], see pu_model_state_space. */
static void make_truth(int S, pu_real *theta)
{
    pu_real *c = theta + S * S, *L = c + S;
    int i;
    for (i = 0; i + 1 < S; i += 2) {
        const double radius = 0.97, angle = 0.5 / (1 + i / 2);
        theta[i * S + i] = theta[(i + 1) * S + i + 1] = (pu_real)(radius * cos(angle));
        theta[i * S + i + 1] = (pu_real)(-radius * sin(angle)), theta[(i + 1) * S + i] = (pu_real)(radius * sin(angle));
    }
    if (S % 2) theta[S * S - 1] = PU_R(0.9);
    for (i = 0; i < S; i++) c[i] = i % 2 ? PU_R(0) : PU_R(1), L[i * (i + 1) / 2 + i] = (pu_real)log(0.3);
    L[S * (S + 1) / 2] = (pu_real)log(0.25);
}

/* |largest eigenvalue| of A, by its powers: the memory of the system. */
static double radius_of(const pu_ssm *m)
{
    const int S = (int)m->states;
    double B[S_MAX * S_MAX], T[S_MAX * S_MAX], log_scale = 0, power = 1;
    int i, j, l, step;
    for (i = 0; i < S * S; i++) B[i] = (double)m->A[i];
    for (step = 0; step < 30; step++, power *= 2) { /* A^(2^step) = exp(log_scale) B */
        double size = 0;
        for (i = 0; i < S * S; i++) size = fmax(size, fabs(B[i]));
        if (!(size > 0)) return 0;
        log_scale += log(size);
        for (i = 0; i < S * S; i++) B[i] /= size;
        for (i = 0; i < S; i++)
            for (j = 0; j < S; j++)
                for (T[i * S + j] = 0, l = 0; l < S; l++) T[i * S + j] += B[i * S + l] * B[l * S + j];
        memcpy(B, T, sizeof B), log_scale *= 2;
    }
    return exp(log_scale / power);
}

int main(int argc, char **argv)
{
    static series s;
    fit_flags flags;
    option list[FIT_FLAGS + SERIES_FLAGS + 5];
    long length = 1000, count = 3, states = 2;
    double missing = 0.1, nll = 0, nll_se = 0, nll_truth = 0;
    int optimizer = 0, options = 0, i;
    pu_real *theta;
    pu_model model;
    pu_data data;
    pu_fit_options fit;
    pu_fit_report report;
    pu_options exact;
    pu_report told;
    pu_int at_noise;
    json j;

    series_default(&s), fit_flags_default(&flags);
    flags.rate = 0;
    list[options++] = opt_number("states", "S, size of the hidden state", &states, 1, S_MAX);
    list[options++] = opt_number("length", "simulate: entries of a series", &length, 1, 100000000);
    list[options++] = opt_number("series", "simulate: how many", &count, 1, CSV_COLUMNS);
    list[options++] = opt_real("missing", "simulate: share of missing entries", &missing, 0, 0.99);
    list[options++] = opt_choice("optimizer", "of the fit; without --rate its own: 1, 0.1, 0.01", &optimizer, "lbfgs,adam,sgd");
    options += series_flags_table(&s, list + options);
    options += fit_flags_table(&flags, list + options);
    options_read(argc, argv, "state_space", "Fits a linear state space model to series with gaps.", options, list);
    options_apart(argc, argv, "data", "length,series,missing");
    device_open();

    memset(&model, 0, sizeof model), memset(&exact, 0, sizeof exact);
    exact.engine = PU_ENGINE_AUTO, exact.kind = PU_EXACT, exact.threads = (int)flags.threads;
    if (s.data) series_load(&s);
    need(pu_model_state_space(&model, s.data ? s.length : (pu_int)(length + s.forecast), (pu_int)states, PU_SSM_STATIONARY,
                              &told), &told);
    theta = need_reals(model.params), at_noise = model.params - 1;
    if (!s.data) {
        make_truth((int)states, theta);
        series_simulate(&s, &model, theta, (pu_int)count, missing, (uint64_t)flags.seed);
    }
    series_hide(&s, (uint64_t)flags.seed);
    data = pu_data_nan(s.count, s.length, s.y);
    if (!s.data) need(pu_model_nll(&model, theta, &data, &exact, NULL, &nll_truth, NULL, &told), &told);

    fit_flags_options(&flags, &fit);
    fit.optimizer = optimizer == 0 ? PU_LBFGS : optimizer == 1 ? PU_ADAM : PU_SGD;
    fit.fixed_probes = fit.optimizer == PU_LBFGS; /* it needs a deterministic gradient */
    need(pu_model_start(&model, &data, 0, theta, &told), &told); /* 0: that from the moments of the data, nothing random */
    fit_run(&model, &data, &fit, NULL, theta, &report);
    fit_nll(&model, theta, &data, &fit.gradient, NULL, &nll, &nll_se, &told);
    series_look(&s, &model, theta, &exact);

    if (!flags.quiet) {
        const pu_ssm *m = pu_model_get_ssm(&model);
        printf("state space model of %ld states: %ld series of %ld entries\n", states, (long)s.count, (long)s.known);
        printf("  %ld steps, %ld gradients in %.2f s (%s)\n  device %s: %s\n\n  A", (long)report.step, (long)report.gradients, report.seconds,
               pu_fit_stop_text(report.stop), device_name, report.last.plan);
        for (i = 0; i < states * states; i++) printf("%s %9.4f", i && i % states == 0 ? "\n   " : "", (double)m->A[i]);
        printf("\n  c");
        for (i = 0; i < states; i++) printf(" %9.4f", (double)theta[states * states + i]);
        printf("\n\n  spectral radius %.4f, sigma2 %.5g%s\n", radius_of(m), exp((double)theta[at_noise]),
               s.data ? "" : states == 1 ? " (truth 0.9, 0.25)" : " (truth 0.97, 0.25)");
        printf("  NLL per series %.6f", nll);
        if (nll_se > 0) printf(" +- %.2g from %s", nll_se, report.last.served[PU_ITERATIVE] ? "probes" : "rounding");
        if (!s.data) printf(" (at the truth %.6f)", nll_truth);
        printf("\n");
        series_print(&s);
    }
    j = json_open(flags.json);
    json_fit(&j, &flags, &report, nll, nll_se);
    json_number(&j, "states", (double)states);
    json_array(&j, "A", (pu_int)(states * states), theta);
    json_array(&j, "c", (pu_int)states, theta + states * states);
    json_array(&j, "Q", (pu_int)(states * states), pu_model_get_ssm(&model)->Q);
    json_number(&j, "sigma2", exp((double)theta[at_noise]));
    json_number(&j, "spectral_radius", radius_of(pu_model_get_ssm(&model)));
    if (!s.data) json_number(&j, "nll_truth", nll_truth);
    series_json(&s, &j);
    json_close(&j);
    series_draw(&s, "series, posterior band and forecast");
    series_free(&s);
    free(theta);
    pu_model_free(&model);
    device_close();
    return fit_code();
}

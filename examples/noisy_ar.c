/* noisy_ar.c - an autoregression seen through noise, with gaps: fit, standard errors, imputation, forecast.

   cc -O3 -march=native -fopenmp -I. examples/noisy_ar.c -o noisy_ar -lm
   mpicc -O3 -march=native -DPU_MPI -I. examples/noisy_ar.c -o noisy_ar_mpi -lm                 (then mpirun -n 4 ./noisy_ar_mpi ..)
   nvcc -O3 -x cu -DPU_CUDA -I. examples/noisy_ar.c -o noisy_ar -lcublas -lcufft -lcurand       (for --device cuda)
   ./noisy_ar --length 3000 --hide 0.1 --forecast 24 --svg ar.svg       simulated: what comes back of the truth
   ./noisy_ar --data air.csv --columns PM2.5 --transform log --order 5  columns of a file
   ./noisy_ar --data huron.csv --columns level --order 2 --intercept --regress year --no-noise

   z_t = phi_1 z_{t-1} + .. + phi_P z_{t-P} + N(0, kappa),   y_t = z_t + x_t'b + N(0, lambda),   entries of y missing at will.
   x_t: 1 (--intercept), columns of the file (--regress). Several columns are several series that share all parameters.
   --no-noise: a regression with autoregressive errors, as arima(xreg) of R has it. lambda is then fixed at 1e-7 of the variance
   that y has about the regressors, which changes the likelihood in about the seventh digit of what a value adds to it.

   The precision of z is banded, so the automatic engine finds the exact likelihood and its gradient in O(P^2) per entry, and
   the default is L-BFGS on it, begun at moments of the data. The paper's experiment is --paper, which stands for
   --optimizer adam --start zero --engine iterative (K = 10 probes, I = 30 steps of CG, network gradient, 200 steps, rate 0.1).
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/team_mpi.h"
#include "common/series.h"
#include "common/ar.h"
#include "common/estimates.h"
#include "common/series_report.h"

/* What stands for zero, a share of the variance; of a build with PU_FLOAT what its digits allow. */
static const double no_noise = sizeof(pu_real) < sizeof(double) ? 1e-4 : 1e-7;

/* The autoregression, its noise fixed where that is asked for, regressors around it: theta = [gamma | kappa | lambda unless it is
   fixed | b]. */
typedef struct {
    pu_model ar, fixed, around;
    pu_model *model; /* the one that is fitted */
    double noise;    /* lambda where it is fixed, else NaN */
} process;

/* Variance of the series about their regressors: that of the start of white noise. */
static double variance_of(series *s)
{
    const pu_data data = series_data(s);
    pu_real *theta = need_reals(2 + s->regressors);
    pu_model white, around, *model = &white;
    pu_report told;
    double variance;
    memset(&white, 0, sizeof white), memset(&around, 0, sizeof around);
    need(pu_model_noisy_ar(&white, s->length, 0, &told), &told);
    if (s->regressors) {
        need(pu_model_regressors(&around, &white, s->regressors, s->X, 0, &told), &told);
        model = &around;
    }
    need(pu_model_start(model, &data, 0, theta, &told), &told);
    variance = exp((double)theta[0]) + exp((double)theta[1]);
    free(theta);
    pu_model_free(&around);
    pu_model_free(&white);
    return variance;
}

static void make_process(process *m, const series *s, pu_int length, int P, double noise)
{
    pu_int *from = (pu_int *)need_bytes((size_t)(P + 2) * sizeof *from);
    pu_real *value = need_reals(P + 2); /* zeros */
    pu_report told;
    int i;
    need(pu_model_noisy_ar(&m->ar, length, P, &told), &told);
    m->model = &m->ar;
    m->noise = noise;
    if (noise == noise) {
        for (i = 0; i < P + 1; i++) from[i] = i;
        from[P + 1] = PU_ZERO, value[P + 1] = (pu_real)log(noise);
        need(pu_model_fix(&m->fixed, &m->ar, from, value, &told), &told);
        m->model = &m->fixed;
    }
    free(from), free(value);
    if (s->regressors) {
        need(pu_model_regressors(&m->around, m->model, s->regressors, s->X, 0, &told), &told);
        m->model = &m->around;
    }
}

/* phi, kappa, lambda, b: P + 2 + regressors lines. truth: theta of a simulation, or NULL. */
static void make_estimates(const process *m, const series *s, int P, const pu_real *theta, const pu_real *truth, const pu_real *C,
                           estimate *e)
{
    const pu_int n = m->model->params;
    estimate *gamma = (estimate *)need_bytes((size_t)P * sizeof *gamma);
    pu_int i;
    for (i = 0; i < n - s->regressors; i++) {
        estimate *one = i < P ? gamma + i : e + i;
        pu_param param;
        if (pu_model_param(m->model, i, &param)) fail(1, "pu_model_param", "failed");
        estimate_make(&param, theta[i], C[i * (n + 1)], truth ? (double)truth[i] : (double)NAN, one);
        snprintf(one->name, sizeof one->name, "%s", param.name);
    }
    estimate_last(s, theta, C, n, truth, e + P + 2);
    estimate_phi(P, 1, C, n, gamma, e, "phi");
    free(gamma);
    if (m->noise != m->noise) return;
    estimate_fixed("lambda", m->noise, e + P + 1);
    if (truth) e[P + 1].truth = m->noise;
}

/* ---- the page of --report ---- */

/* After how many steps a shock is below half of its size for good; beyond `most`: -1. */
static int half_life(int P, const estimate *phi, int most)
{
    double *psi = (double *)need_bytes((size_t)(most + 1) * sizeof *psi);
    int h, k, last = 0;
    for (psi[0] = 1, h = 1; h <= most; h++) {
        for (k = 1; k <= P && k <= h; k++) psi[h] += phi[k - 1].value * psi[h - k];
        if (fabs(psi[h]) >= 0.5) last = h;
    }
    free(psi);
    return last == most ? -1 : last + 1;
}

/* Variance of z by that of its innovations and the partial autocorrelations. */
static double process_variance(const pu_ar *ar)
{
    double variance = (double)ar->kappa;
    pu_int i;
    for (i = 0; i < ar->order; i++) variance /= 1 - (double)ar->gamma[i] * (double)ar->gamma[i];
    return variance;
}

/* What kind of process it is, in words. */
static void say_process(const process *m, int P, const estimate *e, char *text, size_t size)
{
    const double variance = process_variance(pu_model_get_ar(m->model)), noise = e[P + 1].value;
    const int half = half_life(P, e, 2000);
    if (m->noise == m->noise) report_add(text, size, "The noise is fixed at a variance of %.3g.", noise);
    else if (noise < 1e-4 * variance) report_add(text, size, "Next to nothing of the variance about the level is noise.");
    else report_add(text, size, "%.3g %% of the variance about the level is noise.", 100 * noise / (noise + variance));
    if (half < 0) report_add(text, size, "A shock still has half of its size after 2000 steps.");
    else report_add(text, size, "A shock has lost half of its size for good after %d step%s.", half, half == 1 ? "" : "s");
}

/* phi by lag, with 95 % intervals. */
static void report_phi(const report_page *r, int P, const estimate *e)
{
    enum { MOST = 100 };
    const int shown = P < MOST ? P : MOST;
    int i, clear = 0, known = 0;
    char list[200] = "", text[600] = "";
    svg_plot p;
    memset(&p, 0, sizeof p);
    for (i = 0; i < shown; i++) {
        p.y0 = fmin(p.y0, fmin(e[i].value, e[i].low)), p.y1 = fmax(p.y1, fmax(e[i].value, e[i].high));
        known += e[i].se == e[i].se;
        if (!(e[i].low > 0 || e[i].high < 0)) continue;
        if (clear++ < 12) snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", *list ? ", " : "", i + 1);
    }
    report_section(r, "How each value depends on those before it");
    report_figure(r);
    p.file = r->file, p.title = "coefficients of the autoregression", p.x_label = "lag in steps", p.y_label = "phi";
    p.x0 = 0.5, p.x1 = shown + 0.5, p.top = 14, p.height = 170, p.whole_x = 1;
    p.y1 += 0.05 * (p.y1 - p.y0), p.y0 -= 0.05 * (p.y1 - p.y0);
    svg_begin(&p);
    svg_level(&p, 0);
    for (i = 0; i < shown; i++)
        svg_interval(&p, i + 1, e[i].se == e[i].se ? e[i].low : e[i].value, e[i].value, e[i].se == e[i].se ? e[i].high : e[i].value,
                     "c2");
    svg_end(&p);
    if (P > shown) report_add(text, sizeof text, "The first %d of %d lags.", shown, P);
    if (known == 0) report_add(text, sizeof text, "There are no intervals, see above.");
    else if (clear == 0) report_add(text, sizeof text, "Every 95 %% interval holds 0.");
    else if (clear == shown) report_add(text, sizeof text, "No 95 %% interval holds 0.");
    else
        report_add(text, sizeof text, "The 95 %% intervals that do not hold 0 are those of lag%s %s%s.", clear > 1 ? "s" : "", list,
                   clear > 12 ? " .." : "");
    report_caption(r, "%s", text);
}

static void report_spectrum(const report_page *r, const process *m, const series *s, int P, const estimate *e)
{
    const double pi = 3.14159265358979323846;
    double density[SPECTRUM];
    int i, k;
    for (i = 0; i < SPECTRUM; i++) {
        double re = 1, im = 0;
        for (k = 0; k < P; k++) {
            const double turn = fmod((k + 1) * (i + 0.5) / (2 * SPECTRUM), 1) * 2 * pi;
            re -= e[k].value * cos(turn), im += e[k].value * sin(turn);
        }
        density[i] = e[P].value / (re * re + im * im);
    }
    series_report_spectrum(r, s, 1, density, m->noise == m->noise ? 0 : e[P + 1].value);
}

static void report_innovations(const report_page *r, const process *m, const series *s, int P, double nll)
{
    const pu_lgm *lgm = &m->model->lgm;
    double *room = (double *)need_bytes((size_t)(3 * P * P + P) * sizeof *room), found = 0;
    double *y = (double *)need_bytes((size_t)s->length * sizeof *y), *e = (double *)need_bytes((size_t)(s->count * s->length) * sizeof *e);
    const innovations_system system = innovations_ar(pu_model_get_ar(m->model), lgm->psi, room);
    innovations_check check;
    pu_int n, t;
    if (innovations_work(&system, s->length) * (double)s->count < 3e9) {
        for (n = 0; n < s->count; n++) {
            for (t = 0; t < s->length; t++) y[t] = (double)s->y[n * s->length + t] - (lgm->eta ? (double)lgm->eta[t] : 0);
            found += innovations(&system, s->length, y, e + n * s->length) / (double)s->count;
        }
        innovations_look(s->count, s->length, e, &check);
        innovations_report(r, s, &check, found, nll);
    }
    free(room), free(y), free(e);
}

static void write_report(const process *m, const series *s, int P, const outcome *o)
{
    const estimate *e = o->e;
    const int fixed = m->noise == m->noise;
    report_page r;
    char text[1000];
    if (!s->report) return;
    r = series_report_open(s);
    series_say_forecast(s, text, sizeof text);
    if (!*text) say_process(m, P, e, text, sizeof text);
    report_answer(&r, "%s", text);
    report_doubts(&r, o->report, o->has_errors, fixed ? P + 1 : o->count, e);
    series_report_pictures(&r, s);
    *text = 0;
    report_add(text, sizeof text, "An autoregression of order %d%s, %ld series of %ld values.", P,
               s->regressors ? " about regressors" : "", (long)s->count, (long)s->known);
    say_process(m, P, e, text, sizeof text);
    report_text(&r, "%s", text);
    report_phi(&r, P, e);
    report_spectrum(&r, m, s, P, e);
    report_innovations(&r, m, s, P, o->nll);
    series_report_forecast(&r, s);
    report_section(&r, "Parameters");
    snprintf(
        text, sizeof text,
        "phi: of the values before; kappa: variance of the innovations; lambda: of the noise%s%s. Negative log-likelihood per series: %.6g.",
        fixed ? ", fixed" : "", s->transform ? "; all of the transformed numbers" : "", o->nll);
    report_estimates(&r, o->count, e, !s->data, text);
    report_end(&r);
}

int main(int argc, char **argv)
{
    static series s;
    static process m;
    pu_real *theta, *drawn, *C, *x, *se, *truth;
    estimate *e;
    fit_flags flags;
    option list[FIT_FLAGS + FIT_KEEP + SERIES_FLAGS + 12];
    long length = 1000, count = 5, order = 5;
    double missing = 0.1, nll = 0, nll_se = 0, nll_exact = 0, error[3] = {0, 0, 0}, noise = (double)NAN, began;
    int paper = option_given(argc, argv, "paper", strlen("paper")), optimizer = paper, start = paper, options = 0, P, i, has_se;
    int noiseless = 0, all, width;
    pu_data data, share;
    pu_fit_options fit;
    pu_fit_report report;
    pu_options exact;
    pu_report told;
    outcome o;
    json j;

    team_open(&argc, &argv);
    series_default(&s), fit_flags_default(&flags);
    flags.rate = 0, flags.engine = paper; /* adam, zero, iterative are the second of their words */
    list[options++] = opt_heading("the model");
    list[options++] = opt_flag("paper", "the paper's recipe: adam from zero, iterative engine; other flags count beside it", &paper);
    list[options++] = opt_number("order", "P of the autoregression", &order, 1, 2000);
    list[options++] = opt_number("length", "simulate: entries of a series", &length, 1, 100000000);
    list[options++] = opt_number("series", "simulate: how many", &count, 1, CSV_COLUMNS);
    list[options++] = opt_real("missing", "simulate: share of missing entries", &missing, 0, 0.99);
    list[options++] = opt_choice("optimizer", "of the fit; without --rate its own: 1, 0.1, 0.01", &optimizer, "lbfgs,adam,sgd");
    list[options++] =
        opt_choice("start", "of the fit: from the data, at gamma = 0 and kappa = lambda = 1, or at the truth of a simulation", &start,
                   "moments,zero,truth");
    list[options++] = opt_real("noise", "fix lambda, the variance of the noise, at this", &noise, 1e-300, 1e300);
    list[options++] = opt_flag("no-noise", "fix it at next to nothing, 1e-7 of the variance", &noiseless);
    options += series_flags_table(&s, list + options);
    options += series_regress_table(&s, list + options);
    options += fit_flags_table(&flags, list + options);
    options += fit_keep_table(&flags, list + options);
    list[options++] = team_option();
    program_more =
        "--data is a CSV file: names in the first line, then a row for each time, in order; empty cells, NA and NaN are gaps. Each column is\n"
        "a series, and all of them share the parameters. Without --data series are simulated, and the tables have the truth beside.\n\n"
        "  noisy_ar --data lynx.csv --time time --columns value --transform log --order 4 --forecast 20 --report lynx.html\n"
        "  noisy_ar --data huron.csv --columns level --order 2 --intercept --regress year --no-noise    R's arima(xreg = year)\n"
        "  noisy_ar --length 3000 --hide 0.1 --svg ar.svg     simulated: what comes back of the truth\n\n"
        "Tables go to standard output, progress to stderr, files only where an option names one: --report, --svg, --json, --save,\n"
        "--checkpoint.";
    options_read(argc, argv, "noisy_ar",
                 "Fits an autoregression seen through noise to series with gaps: parameters with standard errors, gaps filled in, forecasts.\n"
                 "z_t = phi_1 z_{t-1} + .. + phi_P z_{t-P} + N(0, kappa),  y_t = z_t + N(0, lambda)", options, list);
    options_apart(argc, argv, "data", "length,series,missing");
    if (noise == noise && noiseless) fail(2, "--no-noise", "and --noise say different things");
    series_regress_check(&s);
    team_quiet(&flags.quiet, &flags.json);
    device_open();
    P = (int)order;

    /* the series: --forecast more entries than are known, all missing */
    if (s.data) series_load(&s);
    else s.known = (pu_int)length, s.length = s.known + (pu_int)s.forecast;
    if (!s.data && length < order) fail(2, "--length", "must be at least --order");
    series_regressors(&s, s.intercept);
    drawn = need_reals(P + 2 + s.regressors);
    x = need_reals(3 * (P + 2)), se = x + P + 2, truth = se + P + 2;
    if (!s.data) {
        ar_truth(P, (uint64_t)flags.seed, drawn);
        if (noiseless) noise = no_noise * exp((double)drawn[P]);
        if (noise == noise) drawn[P + 1] = 1; /* lambda is not in theta: b.intercept, if there is one, is 1 */
        else if (s.intercept) drawn[P + 2] = 1;
        make_process(&m, &s, s.length, P, noise);
        series_simulate(&s, m.model, drawn, (pu_int)count, missing, (uint64_t)flags.seed);
    }
    series_hide(&s, (uint64_t)flags.seed);
    data = series_data(&s);
    if (s.data) {
        if (noiseless) noise = no_noise * variance_of(&s);
        make_process(&m, &s, s.length, P, noise);
    }
    all = P + 2 + (int)s.regressors;
    theta = need_reals(m.model->params), C = need_reals(m.model->params * m.model->params);
    e = (estimate *)need_bytes((size_t)all * sizeof *e);

    /* the fit */
    fit_flags_options(&flags, &fit);
    fit.optimizer = optimizer == 0 ? PU_LBFGS : optimizer == 1 ? PU_ADAM : PU_SGD;
    fit.fixed_probes = fit.optimizer == PU_LBFGS; /* it needs a deterministic gradient */
    if (start == 2 && s.data) fail(2, "--start truth", "is for simulated series");
    if (start == 2) memcpy(theta, drawn, (size_t)m.model->params * sizeof *theta);
    if (start == 0) need(pu_model_start(m.model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_keep(&flags, team_rank() == 0, &fit);
    fit.team = team_of(data.n, PU_TEAM_DATA);
    share = team_data(data, fit.team);
    fit_run(m.model, &share, &fit, NULL, theta, &report);
    if (team_rank() > 0) return team_close();

    /* what came out: NLL as the fit sees it, the rest by an exact engine */
    began = seconds();
    memset(&exact, 0, sizeof exact);
    exact.engine = PU_ENGINE_AUTO, exact.kind = PU_EXACT, exact.threads = fit.gradient.threads;
    has_se = estimates_errors(m.model, &data, &exact, &flags, &report, theta, C);
    fit_nll(m.model, theta, &data, &fit.gradient, NULL, &nll, &nll_se, &told);
    need(pu_model_nll(m.model, theta, &data, &exact, NULL, &nll_exact, NULL, &told), &told);
    make_estimates(&m, &s, P, theta, s.data ? NULL : drawn, C, e);
    for (i = 0; i < P + 2; i++) x[i] = (pu_real)e[i].value, se[i] = (pu_real)e[i].se, truth[i] = (pu_real)e[i].truth;
    series_look(&s, m.model, theta, &exact);
    if (!s.data) ar_errors(P, x, truth, error);

    if (!flags.quiet) {
        printf("noisy autoregression of order %d: %ld series of %ld entries\n", P, (long)s.count, (long)s.known);
        printf("  %ld steps, %ld gradients in %.2f s (%s); %.2f s for errors and posterior\n  device %s: %s\n\n", (long)report.step,
               (long)report.gradients, report.seconds, pu_fit_stop_text(report.stop), seconds() - began, device_name,
               report.last.plan);
        for (i = P + 2, width = 8; i < all; i++) width = strlen(e[i].name) > (size_t)width ? (int)strlen(e[i].name) : width;
        printf("  %-*s %11s %12s%s\n", width, "", "estimate", "std. error", s.data ? "" : "        truth");
        for (i = 0; i < all; i++) {
            if (i < P) printf("  phi %-*d", width - 4, i + 1);
            else printf("  %-*s", width, e[i].name);
            printf(" %12.5g", e[i].value);
            if (i == P + 1 && noise == noise) printf(" %12s", "fixed");
            else print_number(e[i].se, 12, 2);
            if (!s.data) printf(" %12.5g", e[i].truth);
            printf("\n");
        }
        estimates_explain(&report, has_se);
        if (noiseless) printf("  no noise: lambda is fixed at %g of the variance of %s\n", no_noise, s.data ? "the series" : "the innovations");
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
    json_converged(&j, &report);
    json_estimates(&j, "parameters", all, e, 0);
    json_estimates(&j, "parameter_errors", all, e, 1);
    if (!s.data) {
        json_array(&j, "truth", P + 2, truth);
        json_key(&j, "nrmse");
        if (j.file) fprintf(j.file, "{\"phi\": %.6g, \"kappa\": %.6g, \"lambda\": %.6g}", error[0], error[1], error[2]);
    }
    series_json(&s, &j);
    team_json(&j, m.model->params, theta);
    json_close(&j);
    series_draw(&s, "series, posterior band and forecast");
    o.report = &report, o.has_errors = has_se, o.count = all, o.e = e, o.nll = nll_exact;
    write_report(&m, &s, P, &o);
    series_free(&s);
    free(theta), free(drawn), free(C), free(e), free(x);
    pu_model_free(&m.around);
    pu_model_free(&m.fixed);
    pu_model_free(&m.ar);
    device_close();
    (void)team_close();
    return fit_code();
}

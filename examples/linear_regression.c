/* linear_regression.c - Bayesian linear regression: how stiff a curve should be, and how noisy its points are, from the points
   alone.

   cc -O3 -march=native -fopenmp -I. examples/linear_regression.c -o linear_regression -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/linear_regression.c -o linear_regression -lcublas -lcufft -lcurand       (for --device cuda)

   y = Phi z + noise of precision beta, z ~ N(0, 1/alpha), the columns of Phi being bumps along x. alpha and beta maximise the
   likelihood with z integrated out; no validation set is needed. `--svg FILE` draws the curve with its 95 % band: wide where
   there are no points. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/curve.h"

int main(int argc, char **argv)
{
    long points = 80, features = 40, targets = 1;
    const char *svg = NULL;
    fit_flags flags;
    option list[FIT_FLAGS + 4];
    int count = 0;
    curve c;
    pu_int i, j;
    pu_real *bumps, theta[2], se[2];
    pu_op Phi;
    pu_model model = {0};
    pu_data data;
    pu_fit_options options;
    pu_fit_report report;
    pu_report told;
    pu_predict_result prediction = {0};
    double nll = 0, nll_se = 0, error, inside;
    nll_words words;
    json out;

    fit_flags_default(&flags);
    flags.gradient = 0, flags.steps = 60, flags.rate = 1; /* exact, L-BFGS */
    list[count++] = opt_number("points", "of the curve", &points, 5, 1000000);
    list[count++] = opt_number("features", "bumps", &features, 1, 100000);
    list[count++] = opt_number("targets", "curves that share alpha and beta", &targets, 1, 1000);
    list[count++] = opt_text("svg", "draw the first curve into this file", &svg);
    count += fit_flags_table(&flags, list + count);
    options_read(argc, argv, "linear_regression", "Bayesian linear regression of a simulated curve on bumps.", count, list);
    device_open();

    curve_make(&c, points, targets, (uint64_t)flags.seed);
    bumps = need_reals(c.all * features);
    for (i = 0; i < c.all; i++)
        for (j = 0; j < features; j++) {
            const double width = 9.0 / (double)features + 0.15,
                         u = ((double)c.x[i] + 3 - 6 * ((double)j + 0.5) / (double)features) / width;
            bumps[i * features + j] = (pu_real)exp(-u * u / 2);
        }
    Phi = pu_op_dense(c.all, features, bumps);
    data = pu_data_nan(targets, c.all, c.y);

    need(pu_model_regression(&model, &Phi, &told), &told);
    need(pu_model_start(&model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_flags_options(&flags, &options);
    if (options.gradient.kind == PU_EXACT) options.optimizer = PU_LBFGS;
    fit_run(&model, &data, &options, NULL, theta, &report);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &nll, &nll_se, &told);
    words = nll_error(&told);
    need(pu_fit_errors(&model, &data, &options.gradient, NULL, theta, se, &told), &told);

    prediction.mean = c.mean, prediction.fit = c.variance;
    need(pu_model_predict(&model, theta, &data, &options.gradient, NULL, &prediction, &told), &told);
    curve_error(&c, &error, &inside);
    if (!flags.quiet) {
        printf("device %s\n", device_name);
        printf("%ld points of %ld curve%s, %ld bumps: %s, %ld steps, %.3f s\n", points, targets, targets > 1 ? "s" : "",
               features, report.last.plan, (long)report.step, report.seconds);
        printf("prior precision alpha %.3g (+- %.0f %%), noise %.3f (+- %.0f %%; truth %.3f)\nNLL per curve %.3f%s\n",
               exp((double)theta[0]), 100 * (double)se[0], exp(-(double)theta[1] / 2), 50 * (double)se[1], CURVE_NOISE, nll,
               words.text);
        printf("error on [-3, 3] %.3f, of which the 95 %% band holds %.1f %%\n", error, 100 * inside);
    }
    curve_draw(&c, svg, "Bayesian linear regression");
    out = json_open(flags.json);
    json_fit(&out, &flags, &report, nll, nll_se);
    json_number(&out, "alpha", exp((double)theta[0]));
    json_number(&out, "beta", exp((double)theta[1]));
    json_number(&out, "error", error);
    json_number(&out, "coverage", inside);
    json_close(&out);
    pu_model_free(&model);
    curve_free(&c);
    free(bumps);
    device_close();
    return fit_code();
}

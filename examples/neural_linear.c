/* neural_linear.c - a neural linear model: learnt features below, Bayesian regression above, several targets sharing the
   features.

   cc -O3 -march=native -fopenmp -I. examples/neural_linear.c -o neural_linear -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/neural_linear.c -o neural_linear -lcublas -lcufft -lcurand       (for --device cuda)

   y_t = Phi_w z_t + noise, Phi_w = tanh(x W1' + b1) (with --features: times W2' + b2), z_t ~ N(0, 1/alpha). The weights w,
   alpha and beta maximise the likelihood with all z_t integrated out, so the band is honest about z, though not about w. `--svg
   FILE` draws the first target. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/curve.h"

int main(int argc, char **argv)
{
    long points = 80, hidden = 20, features = 0, targets = 3;
    const char *svg = NULL;
    fit_flags flags;
    option list[FIT_FLAGS + 5];
    int count = 0;
    curve c;
    pu_real *theta;
    pu_model model = {0};
    pu_data data;
    pu_fit_options options;
    pu_fit_report report;
    pu_report told;
    pu_predict_result prediction = {0};
    double nll = 0, nll_se = 0, first = 0, error, inside;
    nll_words words;
    json out;

    fit_flags_default(&flags);
    flags.gradient = 0, flags.steps = 1500, flags.rate = 0.02; /* exact */
    list[count++] = opt_number("points", "of the curve", &points, 5, 1000000);
    list[count++] = opt_number("hidden", "units with tanh", &hidden, 1, 100000);
    list[count++] = opt_number("features", "of a linear layer on top; 0 = none", &features, 0, 100000);
    list[count++] = opt_number("targets", "curves that share the features", &targets, 1, 1000);
    list[count++] = opt_text("svg", "draw the first curve into this file", &svg);
    count += fit_flags_table(&flags, list + count);
    options_read(argc, argv, "neural_linear", "Bayesian regression of simulated curves on learnt features.", count, list);
    device_open();

    curve_make(&c, points, targets, (uint64_t)flags.seed);
    data = pu_data_nan(targets, c.all, c.y);
    need(pu_model_neural(&model, c.all, 1, c.x, hidden, features, &told), &told);
    theta = need_reals(model.params);
    need(pu_model_start(&model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_flags_options(&flags, &options);
    options.schedule = PU_RATE_COSINE;
    fit_nll(&model, theta, &data, &options.gradient, NULL, &first, &nll_se, &told);
    fit_run(&model, &data, &options, NULL, theta, &report);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &nll, &nll_se, &told);
    words = nll_error(&told);

    prediction.mean = c.mean, prediction.fit = c.variance;
    need(pu_model_predict(&model, theta, &data, &options.gradient, NULL, &prediction, &told), &told);
    curve_error(&c, &error, &inside);
    if (!flags.quiet) {
        printf("device %s\n", device_name);
        printf("%ld points of %ld curves, %ld hidden units, %ld parameters: %s, %ld steps, %.2f s\n", points, targets, hidden,
               (long)model.params, report.last.plan, (long)report.step, report.seconds);
        printf("NLL per curve %.3f at the start, %.3f%s at the end; noise %.3f (truth %.3f)\n", first, nll, words.text,
               exp(-(double)theta[model.params - 1] / 2), CURVE_NOISE);
        printf("error on [-3, 3] %.3f, of which the 95 %% band holds %.1f %%\n", error, 100 * inside);
    }
    curve_draw(&c, svg, "Neural linear model");
    out = json_open(flags.json);
    json_fit(&out, &flags, &report, nll, nll_se);
    json_number(&out, "alpha", exp((double)theta[model.params - 2]));
    json_number(&out, "beta", exp((double)theta[model.params - 1]));
    json_number(&out, "error", error);
    json_number(&out, "coverage", inside);
    json_close(&out);
    pu_model_free(&model);
    curve_free(&c);
    free(theta);
    device_close();
    return fit_code();
}

/* neural_linear.c - a neural linear model: learnt features below, Bayesian regression above, several targets sharing the
   features.

   cc -O3 -march=native -fopenmp -I. examples/neural_linear.c -o neural_linear -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/neural_linear.c -o neural_linear -lcublas -lcufft -lcurand       (for --device cuda)

   y_t = Phi_w z_t + noise, Phi_w = tanh(x W1' + b1) (with --features: times W2' + b2), z_t ~ N(0, 1/alpha). All z_t are
   integrated out. Plain maximum likelihood (--prior 0) for w, alpha and beta fits the noise, too, and its band knows nothing of
   the uncertainty of w: of the truth it holds 59 to 81 %, where 95 % are meant. So the weights have a prior, N(0, 1/0.3) in
   units of a random start, of four starts the best is taken, and the band is that of z and w: the variance of the curve for
   these w, and J C J', with J the derivative of its mean in theta and C = pu_fit_covariance: 87 to 92 %. `--svg FILE` draws the
   first target. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/curve.h"

enum { MOST_PARAMS = 500 }; /* beyond, C would take long, and the band is that of z alone */

/* Priors on the weights: N(0, 1/precision), in units of the start's: for every tanh a sum of about unit variance, whatever the
   scale of the inputs. Returns how many. */
static pu_int weight_priors(const curve *c, double precision, pu_int hidden, pu_int features, pu_prior *list)
{
    double square = 0;
    pu_int i;
    if (!(precision > 0)) return 0;
    for (i = 0; i < c->all; i++) square += (double)c->x[i] * (double)c->x[i] / (double)c->all;
    memset(list, 0, 3 * sizeof *list);
    list[0].count = hidden, list[0].precision = precision * square;                      /* W1, one input */
    list[1].first = hidden, list[1].count = hidden, list[1].precision = precision;       /* b1 */
    list[2].first = 2 * hidden, list[2].count = features * hidden + features;            /* W2, b2 */
    list[2].precision = precision * (double)hidden;
    return features ? 3 : 2;
}

/* Adds to the variances what the uncertainty of theta is worth, J C J' with J by differences. Returns 0 where the covariance C
   is not known. */
static int add_uncertainty(pu_model *model, const pu_real *theta, const pu_data *data, const pu_options *options, curve *c)
{
    const pu_int P = model->params, n = c->targets * c->all;
    const double step = 1e-4;
    pu_real *C, *J, *at, *mean;
    pu_report told;
    pu_int i, j, k;
    int side, known;
    if (P > MOST_PARAMS) return 0;
    C = need_reals(P * P), J = need_reals(P * n), at = need_reals(P), mean = need_reals(n);
    known = pu_fit_covariance(model, data, options, NULL, theta, C, &told) == PU_OK;
    for (i = 0; i < P && known; i++)
        for (side = -1; side < 2; side += 2) {
            pu_predict_result out = {0};
            out.mean = mean;
            memcpy(at, theta, (size_t)P * sizeof *at);
            at[i] += (pu_real)(side * step);
            need_result(pu_model_predict(model, at, data, options, NULL, &out, &told), &told);
            for (k = 0; k < n; k++) J[i * n + k] += (pu_real)(side * (double)mean[k] / (2 * step));
        }
    for (i = 0; i < P && known; i++)
        for (j = 0; j < P; j++)
            for (k = 0; k < n; k++) c->variance[k] += J[i * n + k] * C[i * P + j] * J[j * n + k];
    need(pu_model_set(model, theta, &told), &told);
    free(C), free(J), free(at), free(mean);
    return known;
}

int main(int argc, char **argv)
{
    long points = 80, hidden = 20, features = 0, targets = 3;
    const char *svg = NULL;
    fit_flags flags;
    option list[FIT_FLAGS + 6];
    int count = 0, known;
    double prior = 0.3;
    pu_prior priors[3];
    curve c;
    pu_real *theta;
    pu_model model = {0};
    pu_data data;
    pu_fit_options options;
    pu_fit_report report;
    pu_report told;
    pu_predict_result prediction = {0};
    double nll = 0, nll_se = 0, first = 0, error, inside, inside_z;
    nll_words words;
    json out;

    fit_flags_default(&flags);
    flags.gradient = 0, flags.steps = 1500, flags.rate = 0; /* exact; L-BFGS, or Adam at a rate of 0.02 */
    list[count++] = opt_number("points", "of the curve", &points, 5, 1000000);
    list[count++] = opt_number("hidden", "units with tanh", &hidden, 1, 100000);
    list[count++] = opt_number("features", "of a linear layer on top; 0 = none", &features, 0, 100000);
    list[count++] = opt_number("targets", "curves that share the features", &targets, 1, 1000);
    list[count++] = opt_real("prior", "precision of a weight, in units of the start's; 0 = maximum likelihood", &prior, 0, 1e9);
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
    model.priors = priors, model.prior_count = weight_priors(&c, prior, hidden, features, priors);
    if (options.gradient.kind == PU_EXACT && flags.rate == 0)
        options.optimizer = PU_LBFGS, options.starts = 4;
    else
        options.optimizer = PU_ADAM, options.schedule = PU_RATE_COSINE, options.rate = flags.rate > 0 ? flags.rate : 0.02;
    fit_nll(&model, theta, &data, &options.gradient, NULL, &first, &nll_se, &told);
    fit_run(&model, &data, &options, NULL, theta, &report);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &nll, &nll_se, &told);
    words = nll_error(&told);

    prediction.mean = c.mean, prediction.fit = c.variance;
    need(pu_model_predict(&model, theta, &data, &options.gradient, NULL, &prediction, &told), &told);
    curve_error(&c, &error, &inside_z);
    known = add_uncertainty(&model, theta, &data, &options.gradient, &c);
    curve_error(&c, &error, &inside);
    if (!flags.quiet) {
        printf("device %s\n", device_name);
        printf("%ld points of %ld curves, %ld hidden units, %ld parameters: %s, %ld steps, %.2f s\n", points, targets, hidden,
               (long)model.params, report.last.plan, (long)report.step, report.seconds);
        printf("NLL per curve %.3f at the start, %.3f%s at the end; noise %.3f (truth %.3f)\n", first, nll, words.text,
               exp(-(double)theta[model.params - 1] / 2), CURVE_NOISE);
        if (report.starts)
            printf("start %ld of %ld is the best, %ld end as low; with the prior %.3f per curve, the worst %.3f\n",
                   (long)report.start, (long)report.starts, (long)report.near_best, report.best, report.worst);
        printf("error on [-3, 3] %.3f, of which the 95 %% band holds %.1f %%", error, 100 * inside);
        if (known) printf(" (without the uncertainty of the weights %.1f %%)\n", 100 * inside_z);
        else printf(" (that of the weights is not known, and not in it)\n");
    }
    curve_draw(&c, svg, "Neural linear model");
    out = json_open(flags.json);
    json_fit(&out, &flags, &report, nll, nll_se);
    json_number(&out, "alpha", exp((double)theta[model.params - 2]));
    json_number(&out, "beta", exp((double)theta[model.params - 1]));
    json_number(&out, "error", error);
    json_number(&out, "coverage", inside);
    json_number(&out, "coverage_fixed_weights", inside_z);
    json_close(&out);
    pu_model_free(&model);
    curve_free(&c);
    free(theta);
    device_close();
    return fit_code();
}

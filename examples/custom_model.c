/* custom_model.c - a model of your own: growth curves that differ from child to child.

   cc -O3 -march=native -fopenmp -I. examples/custom_model.c -o custom_model -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/custom_model.c -o custom_model -lcublas -lcufft -lcurand       (for --device cuda)

   Child n is measured at times t_0 .. t_7, now and then not at all. It has its own intercept and slope, z = (z_0, z_1), and
   the measurements get better, or worse, with time:

       z ~ N((a, b), C),   C = [s0^2, r s0 s1; r s0 s1, s1^2]        y_m | z ~ N(z_0 + z_1 t_m, exp(-g0 - g1 t_m))

   pu_model_effects has random intercepts and slopes; that they are correlated, and the noise depends on time, it has not. In the
   library's terms: nu = (a, b), Gamma = C^-1, Phi = [1 t], psi_m = exp(g0 + g1 t_m). A pu_model is a struct with two
   functions: `set` fills in nu, Gamma, psi from theta = (a, b, log s0, log s1, atanh r, g0, g1), and `grad` takes the
   gradient in (nu, Gamma, psi) back to theta. All else is calls: pu_model_check looks for mistakes in them, pu_model_simulate
   draws children, pu_fit and pu_fit_errors fit theta to them. The exit code is 1 where the check finds a mistake or an
   estimate is more than four standard errors from the truth.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"

enum { TIMES = 8, CHILDREN = 200, A = 0, B, LOG_S0, LOG_S1, ATANH_R, G0, G1, PARAMS };

typedef struct { /* what model.data points to: the canonical form, and what grad needs besides */
    pu_real t[TIMES], Phi[TIMES * 2], nu[2], Gamma[4], factor[4], psi[TIMES];
    double s0, s1, r;
} growth;

/* ---- the model ---- */

/* theta is finite when this is called. Anything that cannot be is refused, with the index of the culprit. */
static pu_status growth_set(pu_model *model, const pu_real *theta, pu_int *index)
{
    growth *w = (growth *)model->data;
    const double s0 = exp((double)theta[LOG_S0]), s1 = exp((double)theta[LOG_S1]), r = tanh((double)theta[ATANH_R]);
    const double det = s0 * s0 * s1 * s1 * (1 - r * r);
    pu_status status;
    pu_int m;
    w->nu[0] = theta[A], w->nu[1] = theta[B];
    w->Gamma[0] = (pu_real)(s1 * s1 / det), w->Gamma[3] = (pu_real)(s0 * s0 / det);
    w->Gamma[1] = w->Gamma[2] = (pu_real)(-r * s0 * s1 / det);
    for (m = 0; m < TIMES; m++) w->psi[m] = (pu_real)exp((double)(theta[G0] + theta[G1] * w->t[m]));
    w->s0 = s0, w->s1 = s1, w->r = r;
    status = pu_spd_factor(2, w->Gamma, w->factor, NULL); /* also finds what overflowed */
    if (status != PU_OK) *index = ATANH_R;
    return status; /* psi that overflowed is found by pu_gradient */
}

/* Chain rule. With G = d/dGamma, Gamma = C^-1 makes d/dC = -Gamma G Gamma =: H. */
static pu_status growth_pull(const pu_model *model, const pu_gradient_result *g, pu_real *grad)
{
    const growth *w = (const growth *)model->data;
    double H[4] = {0, 0, 0, 0}, off, g0 = 0, g1 = 0;
    pu_int i, j, k, l, m;
    for (i = 0; i < 2; i++)
        for (j = 0; j < 2; j++)
            for (k = 0; k < 2; k++)
                for (l = 0; l < 2; l++)
                    H[2 * i + j] -= (double)w->Gamma[2 * i + k] * (double)g->Gamma[2 * k + l] * (double)w->Gamma[2 * l + j];
    off = (H[1] + H[2]) * w->s0 * w->s1; /* both entries of C hold r s0 s1 */
    for (m = 0; m < TIMES; m++) {
        const double d = (double)w->psi[m] * (double)g->psi[m];
        g0 += d, g1 += d * (double)w->t[m];
    }
    grad[A] = g->nu[0], grad[B] = g->nu[1];
    grad[LOG_S0] = (pu_real)(2 * H[0] * w->s0 * w->s0 + off * w->r);
    grad[LOG_S1] = (pu_real)(2 * H[3] * w->s1 * w->s1 + off * w->r);
    grad[ATANH_R] = (pu_real)(off * (1 - w->r * w->r));
    grad[G0] = (pu_real)g0, grad[G1] = (pu_real)g1;
    return PU_OK;
}

/* Optional: names and scales, so that results can be shown in natural units, and a fit knows them. */
static void growth_describe(const pu_model *model, pu_int i, pu_param *param)
{
    static const char *const name[PARAMS] = {"intercept a", "slope b", "sd of intercepts s0", "sd of slopes s1",
                                             "correlation r", "log noise precision g0", "its trend g1"};
    (void)model;
    snprintf(param->name, sizeof param->name, "%s", name[i]);
    if (i == LOG_S0 || i == LOG_S1) param->scale = PU_SCALE_LOG, param->lower = 0;
    if (i == ATANH_R) param->scale = PU_SCALE_ATANH, param->lower = -1, param->upper = 1;
}

/* What does not depend on theta. *w is borrowed and must outlive the model. */
static void growth_model(pu_model *model, growth *w)
{
    pu_int m;
    for (m = 0; m < TIMES; m++) {
        w->t[m] = (pu_real)m / PU_R(TIMES - 1);
        w->Phi[2 * m] = PU_R(1), w->Phi[2 * m + 1] = w->t[m];
    }
    memset(model, 0, sizeof *model);
    model->name = "growth curves", model->params = PARAMS, model->data = w;
    model->uses = PU_USES_NU | PU_USES_GAMMA | PU_USES_PSI; /* the canonical gradients that grad wants to see */
    model->Gamma = pu_op_spd(2, w->Gamma, w->factor), model->Phi = pu_op_dense(TIMES, 2, w->Phi);
    model->lgm.nu = w->nu, model->lgm.psi = w->psi;
    model->set = growth_set, model->grad = growth_pull, model->describe = growth_describe;
}

/* ---- what can be done with it ---- */

/* The library tries out all functions of the model and of its operators. Worth a line in the tests of any model. */
static void look_for_mistakes(pu_model *model, const pu_data *data, const pu_real *theta, int quiet)
{
    static pu_check_report found;
    char line[300];
    pu_status status = pu_model_check(model, theta, data, NULL, &found);
    pu_check_explain(&found, 0, line, sizeof line);
    if (status != PU_OK) fail(1, "pu_model_check", line);
    if (!quiet) printf("%s\n\n", line);
}

int main(int argc, char **argv)
{
    static const char *const key[PARAMS] = {"a", "b", "s0", "s1", "r", "g0", "g1"};
    const pu_real truth[PARAMS] = {1, 2, PU_R(-0.5), PU_R(0.2), PU_R(-0.6), 2, -1};
    static pu_real y[CHILDREN * TIMES];
    pu_real theta[PARAMS] = {0}, se[PARAMS]; /* zeros will do as a start */
    const pu_data data = pu_data_nan(CHILDREN, TIMES, y);
    growth state;
    pu_model model;
    pu_fit_options fit;
    pu_fit_report report;
    pu_report told;
    fit_flags flags;
    option list[FIT_FLAGS];
    double nll, worst = 0;
    pu_int i;
    json j;
    fit_flags_default(&flags);
    flags.gradient = 0 /* exact */, flags.rate = 0;
    options_read(argc, argv, "custom_model", "Fits a user-defined model, random growth curves, to simulated data.",
                 fit_flags_table(&flags, list), list);
    fit_flags_options(&flags, &fit);
    device_open();
    fit.gradient.backend = device_backend();

    growth_model(&model, &state);
    need(pu_model_simulate(&model, truth, CHILDREN, (uint64_t)flags.seed, NULL, NULL, y, &told), &told);
    for (i = 0; i < CHILDREN; i++) { /* everyone misses a visit, half of them two */
        y[i * TIMES + i % (2 * TIMES) / 2] = (pu_real)NAN;
        if (i % 2) y[i * TIMES + (i + 5) % TIMES] = (pu_real)NAN;
    }
    look_for_mistakes(&model, &data, theta, flags.quiet);
    fit_run(&model, &data, &fit, NULL, theta, &report);
    need(pu_fit_errors(&model, &data, NULL, NULL, theta, se, &told), &told);
    need(pu_model_nll(&model, theta, &data, NULL, NULL, &nll, NULL, &told), &told);

    j = json_open(flags.json);
    json_fit(&j, &flags, &report, nll, 0);
    if (!flags.quiet) printf("%-24s %10s %10s   %s\n", "", "truth", "estimate", "error / its standard error");
    for (i = 0; i < PARAMS; i++) {
        const double z = ((double)theta[i] - (double)truth[i]) / (double)se[i];
        pu_param param;
        pu_model_param(&model, i, &param);
        if (!(fabs(z) <= worst)) worst = fabs(z); /* a NaN stays */
        json_number(&j, key[i], pu_param_natural(&param, (double)theta[i]));
        if (!flags.quiet) printf("%-24s %10.4f %10.4f   %+.1f\n", param.name, pu_param_natural(&param, (double)truth[i]),
                                 pu_param_natural(&param, (double)theta[i]), z);
    }
    json_number(&j, "largest_error", worst); /* in standard errors */
    json_close(&j);
    if (!flags.quiet) printf("\nNLL per child: %.4f after %ld steps (%s)\n%s\n", nll, (long)report.step,
                             pu_fit_stop_text(report.stop), report.last.plan);
    device_close();
    if (!(worst <= 4)) fail(1, "estimates", "more than four standard errors from the truth");
    return fit_code();
}

/* custom_model.c - a model of your own: growth curves that differ from child to child.

   cc -O3 -march=native -fopenmp -I. examples/custom_model.c -o custom_model -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/custom_model.c -o custom_model -lcublas -lcufft -lcurand       (for --device cuda)

   Child n is measured at times t_0 .. t_7, now and then not at all. It has its own intercept and slope, z = (z_0, z_1), and
   the measurements get better, or worse, with time:

       z ~ N((a, b), C),   C = [s0^2, r s0 s1; r s0 s1, s1^2]        y_m | z ~ N(z_0 + z_1 t_m, exp(-g0 - g1 t_m))

   In the library's terms: nu = (a, b), Gamma = C^-1, Phi = [1 t], psi_m = exp(g0 + g1 t_m). A pu_model is a struct with two
   functions: `set` fills in nu, Gamma, psi from theta = (a, b, log s0, log s1, atanh r, g0, g1), and `grad` takes the
   gradient in (nu, Gamma, psi) back to theta. The program lets pu_model_check look for mistakes, checks `grad` once more by
   finite differences of the likelihood of its own, then fits theta to simulated children by a few hundred gradient steps. The exit code is 1 when the gradient is wrong or an
   estimate is more than four standard errors from the truth.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include <float.h>
#include <math.h>

#include "common/program.h"
#include "common/fit.h"

enum { TIMES = 8, CHILDREN = 200, STEPS = 300, A = 0, B, LOG_S0, LOG_S1, ATANH_R, G0, G1, PARAMS };

typedef struct { /* what model.data points to: the canonical form, and what grad needs besides */
    pu_real t[TIMES], Phi[TIMES * 2], nu[2], Gamma[4], factor[4], psi[TIMES];
    double s0, s1, r;
} growth;

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

/* Optional: a start. Everything flat; the spread of all measurements goes to intercepts, slopes and noise alike. */
static pu_status growth_start(const pu_model *model, const pu_data *data, uint64_t seed, pu_real *theta)
{
    double mean = 0, square = 0, count = 0;
    pu_int i;
    (void)model, (void)seed;
    for (i = 0; i < data->n * data->m; i++) {
        const double y = (double)data->y[i];
        if (y != y) continue; /* missing */
        count += 1, mean += y, square += y * y;
    }
    mean /= count, square = square / count - mean * mean;
    for (i = 0; i < PARAMS; i++) theta[i] = PU_R(0);
    theta[A] = (pu_real)mean;
    theta[LOG_S0] = theta[LOG_S1] = (pu_real)(log(square) / 2), theta[G0] = (pu_real)-log(square);
    return PU_OK;
}

/* Optional: names and scales, so that results can be shown in natural units. */
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
    model->set = growth_set, model->grad = growth_pull, model->start = growth_start, model->describe = growth_describe;
}

/* ---- the experiment ---------------------------------------------------------------------------------- */

static void simulate(const growth *w, uint64_t seed, pu_real *y)
{
    pu_int n, m;
    for (n = 0; n < CHILDREN; n++) {
        pu_real e[2 + TIMES]; /* stream 3 is the user's */
        double z0, z1;
        pu_normals(seed, (uint32_t)n, 0, 0, 3, 0, 2 + TIMES, e);
        z0 = (double)w->nu[0] + w->s0 * (double)e[0];
        z1 = (double)w->nu[1] + w->s1 * (w->r * (double)e[0] + sqrt(1 - w->r * w->r) * (double)e[1]);
        for (m = 0; m < TIMES; m++)
            y[n * TIMES + m] = (pu_real)(z0 + z1 * (double)w->t[m] + (double)e[2 + m] / sqrt((double)w->psi[m]));
        y[n * TIMES + n % (2 * TIMES) / 2] = (pu_real)NAN; /* everyone misses a visit, half of them two */
        if (n % 2) y[n * TIMES + (n + 5) % TIMES] = (pu_real)NAN;
    }
}

static pu_options exact; /* of all that follows but the fit */

static double nll_at(pu_model *model, const pu_data *data, pu_workspace *ws, const pu_real *theta, int i, double by)
{
    pu_real moved[PARAMS];
    pu_report report;
    double nll;
    memcpy(moved, theta, sizeof moved);
    moved[i] = (pu_real)((double)moved[i] + by);
    need(pu_model_nll(model, moved, data, &exact, ws, &nll, NULL, &report), &report);
    return nll;
}

/* Largest difference between the model's gradient and the four-point rule on the likelihood. */
static double gradient_error(pu_model *model, const pu_data *data, pu_workspace *ws, const pu_real *theta, double h)
{
    pu_real grad[PARAMS];
    pu_report report;
    double worst = 0;
    int i;
    need(pu_model_gradient(model, theta, data, &exact, ws, grad, NULL, &report), &report);
    for (i = 0; i < PARAMS; i++) {
        const double near = nll_at(model, data, ws, theta, i, h) - nll_at(model, data, ws, theta, i, -h);
        const double far = nll_at(model, data, ws, theta, i, 2 * h) - nll_at(model, data, ws, theta, i, -2 * h);
        const double error = fabs((8 * near - far) / (12 * h) - (double)grad[i]);
        if (!(error <= worst)) worst = error; /* a NaN stays */
    }
    return worst;
}

/* The library tries out all functions of the model and of its operators. Worth a line in the tests of any model. */
static void look_for_mistakes(pu_model *model, const pu_data *data, const pu_real *theta, int quiet)
{
    static pu_check_report found;
    char line[300];
    pu_status status = pu_model_check(model, theta, data, NULL, &found);
    pu_check_explain(&found, 0, line, sizeof line);
    if (status != PU_OK) fail(1, "pu_model_check", line);
    if (!quiet) printf("%s\n", line);
}

/* Standard errors of the estimates: diagonal of the inverse of N times the Hessian, which is made of gradient differences. */
static void standard_errors(pu_model *model, const pu_data *data, pu_workspace *ws, const pu_real *theta, double *se)
{
    const double h = 0.02;
    double T[PARAMS][2 * PARAMS]; /* [Hessian | I] -> [I | inverse] */
    pu_report report;
    int i, j, k;
    for (j = 0; j < PARAMS; j++) {
        pu_real moved[PARAMS], up[PARAMS], down[PARAMS];
        memcpy(moved, theta, sizeof moved);
        moved[j] = (pu_real)((double)theta[j] + h);
        need(pu_model_gradient(model, moved, data, &exact, ws, up, NULL, &report), &report);
        moved[j] = (pu_real)((double)theta[j] - h);
        need(pu_model_gradient(model, moved, data, &exact, ws, down, NULL, &report), &report);
        for (i = 0; i < PARAMS; i++) T[i][j] = CHILDREN * ((double)up[i] - (double)down[i]) / (2 * h);
        for (i = 0; i < PARAMS; i++) T[i][PARAMS + j] = i == j;
    }
    for (k = 0; k < PARAMS; k++) /* positive definite at a maximum: no pivoting */
        for (i = 0; i < PARAMS; i++) {
            const double f = i == k ? 1 - 1 / T[k][k] : T[i][k] / T[k][k];
            for (j = 0; j < 2 * PARAMS; j++) T[i][j] -= f * T[k][j];
        }
    for (i = 0; i < PARAMS; i++) se[i] = sqrt(T[i][PARAMS + i]);
}

/* Adam, with steps that shrink to nothing at the end. Fresh probes at every step. */
static void fit(pu_model *model, const pu_data *data, pu_workspace *ws, long seed, long threads, pu_real *theta,
                pu_report *report)
{
    double mean[PARAMS] = {0}, square[PARAMS] = {0};
    pu_options options = {0}; /* the network gradient of the iterative engine */
    int i, k;
    options.seed = (uint64_t)seed, options.threads = (int)threads, options.samples = 5;
    options.backend = device_backend();
    options.solve.iterations = 2; /* two unknowns per child: two steps of CG */
    for (k = 1; k <= STEPS; k++) {
        pu_real grad[PARAMS];
        options.step = (uint32_t)k;
        need(pu_model_gradient(model, theta, data, &options, ws, grad, NULL, report), report);
        for (i = 0; i < PARAMS; i++) {
            const double g = (double)grad[i];
            mean[i] += 0.1 * (g - mean[i]), square[i] += 0.01 * (g * g - square[i]);
            theta[i] -= (pu_real)(0.1 * (1 - (k - 1.0) / STEPS) * mean[i] / (1 - pow(0.9, k)) /
                                  (sqrt(square[i] / (1 - pow(0.99, k))) + 1e-12));
        }
    }
}

int main(int argc, char **argv)
{
    static pu_real y[CHILDREN * TIMES];
    const double eps = sizeof(pu_real) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON;
    const double h = sizeof(pu_real) == sizeof(float) ? 0.05 : 0.002;
    pu_real truth[PARAMS] = {1, 2, PU_R(-0.5), PU_R(0.2), PU_R(-0.6), 2, -1}, theta[PARAMS];
    growth state;
    pu_model model;
    pu_data data = pu_data_nan(CHILDREN, TIMES, y);
    pu_workspace ws = {0};
    pu_report report;
    static const char *const key[PARAMS] = {"a", "b", "s0", "s1", "r", "g0", "g1"};
    double se[PARAMS], error, allowed, first, last, worst = 0, began, spent;
    long seed = 1, threads = 0;
    const char *path = NULL;
    int quiet = 0;
    const option list[] = {opt_number("seed", "of all random numbers", &seed, 0, 1000000000),
                           opt_number("threads", "0 = as many as there are cores", &threads, 0, 1024),
                           opt_device(), opt_text("json", "write the results to this file", &path),
                           opt_flag("quiet", "print nothing unless something is wrong", &quiet)};
    int i;
    json j;
    options_read(argc, argv, "custom_model", "Fits a user-defined model, random growth curves, to simulated data.",
                 (int)(sizeof list / sizeof *list), list);
    file_ready(path);
    device_open();
    exact.engine = PU_DENSE, exact.kind = PU_EXACT, exact.threads = (int)threads;

    growth_model(&model, &state);
    need(pu_model_set(&model, truth, &report), &report);
    simulate(&state, (uint64_t)seed, y);

    need(pu_model_start(&model, &data, (uint64_t)seed, theta, &report), &report);
    look_for_mistakes(&model, &data, theta, quiet);
    first = nll_at(&model, &data, &ws, theta, 0, 0);
    error = gradient_error(&model, &data, &ws, theta, h);
    allowed = 100 * h * h * h * h + 20 * eps * fabs(first) / h; /* of the rule itself, and of rounding */
    if (!quiet) printf("gradient at the start: off by %.1e, allowed %.1e\n\n", error, allowed);
    if (!(error <= allowed)) fail(1, "gradient", "the gradient disagrees with finite differences");

    began = seconds();
    fit(&model, &data, &ws, seed, threads, theta, &report);
    spent = seconds() - began;
    if (!quiet) printf("device %s; gradients of the fit: %s\n\n", device_name, report.plan);
    last = nll_at(&model, &data, &ws, theta, 0, 0);
    standard_errors(&model, &data, &ws, theta, se);

    j = json_open(path);
    json_text(&j, "engine", pu_engine_text(PU_ITERATIVE));
    json_text(&j, "device", device_name);
    json_number(&j, "seed", (double)seed);
    json_number(&j, "steps", STEPS);
    json_number(&j, "seconds", spent); /* of the fit */
    json_number(&j, "seconds_per_step", spent / STEPS);
    json_number(&j, "peak_mb", peak_mb());
    json_number(&j, "nll", last);
    json_number(&j, "nll_se", 0); /* exact */
    json_text(&j, "status", pu_status_name(PU_OK)); /* the program ends where a call fails */
    if (!quiet) printf("%-24s %10s %10s   %s\n", "", "truth", "estimate", "error / its standard error");
    for (i = 0; i < PARAMS; i++) {
        const double z = ((double)theta[i] - (double)truth[i]) / se[i];
        pu_param param;
        pu_model_param(&model, i, &param);
        if (!(fabs(z) <= worst)) worst = fabs(z);
        json_number(&j, key[i], pu_param_natural(&param, (double)theta[i]));
        if (!quiet) printf("%-24s %10.4f %10.4f   %+.1f\n", param.name, pu_param_natural(&param, (double)truth[i]),
                           pu_param_natural(&param, (double)theta[i]), z);
    }
    json_number(&j, "largest_error", worst); /* in standard errors */
    json_close(&j);
    if (!quiet) printf("\nNLL per child: %.4f at the start, %.4f after %d steps, %.4f at the truth\n", first, last, STEPS,
                       nll_at(&model, &data, &ws, truth, 0, 0));
    pu_workspace_free(&ws);
    device_close();
    if (!(worst <= 4)) fail(1, "estimates", "more than four standard errors from the truth");
    return 0;
}

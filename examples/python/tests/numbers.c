/* numbers.c - fits by the structs of pu.h, one number per line, for test_bits.py: Python has the same bits. */
#include "pu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 30, M = 6, T = 48, ROWS = 40 };

/* Numbers that are exact in float, with gaps where asked. */
static pu_real value(int i, int gaps)
{
    if (gaps && i % 7 == 3) return (pu_real)NAN;
    return (pu_real)((i * i * 7 + 3 * i) % 41 - 20) / 8;
}

static void print(const pu_real *x, pu_int count)
{
    for (pu_int i = 0; i < count; i++) printf("%a\n", (double)x[i]);
}

/* Start, fit, gradient, likelihood, posterior, prediction, draws of one model. */
static void tell(pu_model *model, const pu_data *data, const pu_fit_options *options, pu_int latent)
{
    pu_options converged = options->gradient; /* means by as many steps as they take: the default of Python */
    static pu_real theta[200], grad[200], se[200], a[4000], b[4000], c[4000];
    pu_posterior_result posterior;
    pu_predict_result predict;
    pu_fit_report report;
    double nll, nll_se;
    int status = 0;
    memset(&posterior, 0, sizeof posterior);
    memset(&predict, 0, sizeof predict);
    status |= pu_model_start(model, data, options->gradient.seed, theta, NULL);
    print(theta, model->params);
    status |= pu_fit(model, data, options, NULL, theta, &report);
    print(theta, model->params);
    status |= pu_model_gradient(model, theta, data, &options->gradient, NULL, grad, se, NULL);
    print(grad, model->params);
    print(se, model->params);
    status |= pu_model_nll(model, theta, data, &options->gradient, NULL, &nll, &nll_se, NULL);
    printf("%a\n%a\n%a\n", report.objective, nll, nll_se);
    if (converged.engine == PU_ITERATIVE) converged.kind = PU_MONTE_CARLO;
    posterior.mean = a;
    posterior.variance = b;
    status |= pu_model_posterior(model, theta, data, &converged, NULL, &posterior, NULL);
    print(a, data->n * latent);
    print(b, data->n * latent);
    predict.mean = a;
    predict.fit = b;
    predict.variance = c;
    status |= pu_model_predict(model, theta, data, &converged, NULL, &predict, NULL);
    print(a, data->n * data->m);
    print(b, data->n * data->m);
    print(c, data->n * data->m);
    status |= pu_model_simulate(model, theta, 2, 17, NULL, a, b, NULL);
    print(a, 2 * latent);
    print(b, 2 * data->m);
    pu_model_free(model);
    if (status) {
        printf("status %d\n", status);
        exit(1);
    }
}

int main(void)
{
    static pu_real table[N * M], series[T], y[ROWS], X[ROWS * 2];
    static int32_t level[ROWS];
    pu_part parts[2] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}};
    pu_group group = {5, level, NULL, "g"};
    pu_fit_options options;
    pu_data data;
    pu_model model;
    int status = 0;
    for (int i = 0; i < N * M; i++) table[i] = value(i, 1);
    for (int i = 0; i < T; i++) series[i] = value(i, 1);
    for (int i = 0; i < ROWS; i++) {
        y[i] = value(i, 0);
        level[i] = i % 5;
        X[2 * i] = 1;
        X[2 * i + 1] = (pu_real)(i % 8);
    }
    memset(&options, 0, sizeof options);
    memset(&model, 0, sizeof model);
    data = pu_data_nan(N, M, table);
    options.steps = 8;
    status |= pu_model_factors(&model, M, 2, NULL);
    tell(&model, &data, &options, 2);
    options.optimizer = PU_ADAM;
    options.rate = 0.05;
    options.gradient.engine = PU_ITERATIVE;
    options.gradient.samples = 4;
    options.gradient.seed = 3;
    options.gradient.solve.solver = PU_PCG;
    status |= pu_model_ppca(&model, M, 2, NULL);
    tell(&model, &data, &options, 2);
    memset(&options, 0, sizeof options);
    data = pu_data_nan(1, T, series);
    status |= pu_model_structural(&model, T, parts, 2, NULL);
    tell(&model, &data, &options, 4 * T);
    data = pu_data_full(1, ROWS, y);
    status |= pu_model_effects(&model, ROWS, 1, &group, 2, X, PU_ML, NULL);
    tell(&model, &data, &options, 5);
    return status != 0;
}

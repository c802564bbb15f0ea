/* ppca.c - probabilistic PCA of a table with gaps: principal directions, and what the gaps probably held.

   cc -O3 -march=native -fopenmp -I. examples/ppca.c -o ppca -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/ppca.c -o ppca -lcublas -lcufft -lcurand       (for --device cuda)

   Rows are data, y = Phi z + eta + noise of one precision beta, z ~ N(0, I). The table is simulated: `--rank` directions of
   falling strength under noise; a share of the entries is lost, another is hidden to see how well it is filled in.
   After the fit Phi is turned to the principal axes (its right singular vectors): a likelihood does not see rotations of z. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define _DEFAULT_SOURCE 1       /* getrusage in fit.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"

#include <math.h>

/* Simulated table: direction d has strength 3 / (d + 1) in every column; noise 0.5; NaN where lost; truth = what was hidden. */
static void simulate(pu_int n, pu_int m, pu_int rank, double missing, double hidden, uint64_t seed, pu_real *y, pu_real *truth)
{
    pu_real *phi = need_reals(m * rank), *z = need_reals(rank), *noise = need_reals(m), *coin = need_reals(m);
    pu_int i, j, d;
    pu_normals(seed, 0, 0, 0, 3, 0, m * rank, phi);
    for (i = 0; i < n; i++) {
        pu_normals(seed, (uint32_t)i, 1, 0, 3, 0, rank, z);
        pu_normals(seed, (uint32_t)i, 2, 0, 3, 0, m, noise);
        pu_normals(seed, (uint32_t)i, 3, 0, 3, 0, m, coin);
        for (j = 0; j < m; j++) {
            const double u = 0.5 * erfc(-(double)coin[j] / sqrt(2.0)); /* uniform */
            double sum = 10 + 0.5 * (double)noise[j];
            for (d = 0; d < rank; d++) sum += 3.0 / (double)(d + 1) * (double)phi[j * rank + d] * (double)z[d];
            y[i * m + j] = u < missing + hidden ? PU_R(NAN) : (pu_real)sum;
            truth[i * m + j] = u < missing ? PU_R(NAN) : (pu_real)sum;
        }
    }
    free(phi), free(z), free(noise), free(coin);
}

/* Strength of each principal direction: the eigenvalues of Phi'Phi, by Jacobi rotations of the columns of Phi. */
static void principal(pu_int m, pu_int k, pu_real *phi, double *strength)
{
    pu_int p, q, i;
    int sweep;
    for (sweep = 0; sweep < 30; sweep++)
        for (p = 0; p < k; p++)
            for (q = p + 1; q < k; q++) {
                double a = 0, b = 0, c = 0, t, cs, sn;
                for (i = 0; i < m; i++) {
                    const double x = (double)phi[i * k + p], y = (double)phi[i * k + q];
                    a += x * x, b += y * y, c += x * y;
                }
                if (fabs(c) < 1e-12 * sqrt(a * b) && a >= b) continue;
                t = 0.5 * atan2(2 * c, a - b), cs = cos(t), sn = sin(t); /* the larger one comes first */
                for (i = 0; i < m; i++) {
                    const double x = (double)phi[i * k + p], y = (double)phi[i * k + q];
                    phi[i * k + p] = (pu_real)(cs * x + sn * y), phi[i * k + q] = (pu_real)(cs * y - sn * x);
                }
            }
    for (p = 0; p < k; p++)
        for (i = 0, strength[p] = 0; i < m; i++) strength[p] += (double)phi[i * k + p] * (double)phi[i * k + p];
}

int main(int argc, char **argv)
{
    long rows = 400, columns = 30, rank = 3, factors = 5;
    double missing = 0.2, hidden = 0.1, error = 0, flat = 0, checked = 0, inside = 0;
    fit_flags flags;
    option list[FIT_FLAGS + 6];
    int count = 0;
    pu_int i, j;
    pu_model model = {0};
    pu_fit_options options;
    pu_fit_report report;
    pu_predict_result prediction = {0};
    pu_report told;
    pu_data data;
    pu_real *y, *truth, *theta, *mean, *variance;
    double *strength, nll = 0, nll_se = 0;
    nll_words words;
    json out;

    fit_flags_default(&flags);
    flags.steps = 300, flags.gradient = 0; /* exact: these are small */
    list[count++] = opt_number("rows", "of the table", &rows, 2, 10000000);
    list[count++] = opt_number("columns", "of the table", &columns, 2, 100000);
    list[count++] = opt_number("rank", "directions in the simulated table", &rank, 1, 1000);
    list[count++] = opt_number("factors", "directions to look for", &factors, 1, 1000);
    list[count++] = opt_real("missing", "share of entries that are lost", &missing, 0, 0.95);
    list[count++] = opt_real("hidden", "share of entries to hide and compare with", &hidden, 0, 0.9);
    count += fit_flags_table(&flags, list + count);
    options_read(argc, argv, "ppca", "Probabilistic PCA of a simulated table with gaps.", count, list);
    device_open();

    y = need_reals(rows * columns), truth = need_reals(rows * columns);
    mean = need_reals(rows * columns), variance = need_reals(rows * columns);
    strength = (double *)calloc((size_t)factors, sizeof *strength);
    if (!strength) fail(1, "memory", "there is not enough");
    simulate(rows, columns, rank, missing, hidden, (uint64_t)flags.seed, y, truth);
    data = pu_data_nan(rows, columns, y);

    need(pu_model_ppca(&model, columns, factors, &told), &told);
    theta = need_reals(model.params);
    need(pu_model_start(&model, &data, (uint64_t)flags.seed, theta, &told), &told);
    fit_flags_options(&flags, &options);
    options.schedule = PU_RATE_COSINE;
    fit_run(&model, &data, &options, NULL, theta, &report);
    fit_nll(&model, theta, &data, &options.gradient, NULL, &nll, &nll_se, &told);
    words = nll_error(&told);

    prediction.mean = mean, prediction.variance = variance;
    need(pu_model_predict(&model, theta, &data, &options.gradient, NULL, &prediction, &told), &told);
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) {
            const pu_int at = i * columns + j;
            const double off = (double)truth[at] - (double)mean[at], eta = (double)theta[columns * factors + j];
            if (y[at] == y[at] || truth[at] != truth[at]) continue; /* seen, or never there */
            error += off * off, flat += pow((double)truth[at] - eta, 2), checked++;
            inside += off * off <= 1.96 * 1.96 * (double)variance[at];
        }
    principal(columns, factors, theta, strength);

    if (!flags.quiet) {
        printf("device %s\n", device_name);
        printf("%ld x %ld table of rank %ld, %g lost, %g hidden; %ld factors, %s, %.2f s\n", rows, columns, rank, missing,
               hidden, factors, report.last.plan, report.seconds);
        printf("noise precision beta %.3f (truth 4);  NLL per row %.4f%s\nstrength of the principal directions:",
               exp((double)theta[model.params - 1]), nll, words.text);
        for (i = 0; i < factors; i++) printf(" %.2f", strength[i]);
        if (checked > 0)
            printf("\nhidden entries: error %.3f (column mean %.3f, noise 0.5), 95 %% interval holds %.1f %%\n",
                   sqrt(error / checked), sqrt(flat / checked), 100 * inside / checked);
        else printf("\n");
    }
    out = json_open(flags.json);
    json_fit(&out, &flags, &report, nll, nll_se);
    json_number(&out, "beta", exp((double)theta[model.params - 1]));
    json_number(&out, "hidden_error", checked > 0 ? sqrt(error / checked) : (double)NAN);
    json_number(&out, "coverage", checked > 0 ? inside / checked : (double)NAN);
    json_close(&out);
    pu_model_free(&model);
    free(y), free(truth), free(theta), free(mean), free(variance), free(strength);
    device_close();
    return fit_code();
}

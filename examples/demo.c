/* demo.c - what pu.h does, in a few seconds: a fit, the accuracy of its gradients, their cost.

   cc -O3 -march=native -fopenmp -I. examples/demo.c -o demo -lm
   ./demo --out build/demo

   Prints tables and leaves a page with pictures, report.html. Plain ./build.sh builds and runs this program.
*/
#define _POSIX_C_SOURCE 200809L /* mkdir, and the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include <sys/stat.h>

#include "common/program.h"
#include "common/problem.h"
#include "common/svg.h"
#include "common/convergence.h"

/* ---- 1. a factor model with missing entries, fitted by Adam on the network gradient ------------------ */

enum { FIT_N = 400, FIT_M = 16, FIT_D = 4, FIT_STEPS = 200, FIT_POINTS = FIT_STEPS + 1 };
enum { FIT_PHI = FIT_M * FIT_D, FIT_THETA = FIT_PHI + FIT_M }; /* theta = [Phi | log psi] */

typedef struct {
    double step[FIT_POINTS], nll[FIT_POINTS], se[FIT_POINTS], exact[FIT_POINTS];
    double truth; /* exact NLL at the parameters that made the data */
    pu_real true_psi[FIT_M], psi[FIT_M];
    double psi_error; /* root mean square of log(psi / true psi) */
} fit_record;

/* A step of Adam (Kingma and Ba 2015): theta -= rate m / sqrt(v), m and v running means of g and g^2. */
static void adam(double *theta, const double *grad, double *mean, double *square, int step, double rate)
{
    const double m_scale = 1 - pow(0.9, step), v_scale = 1 - pow(0.99, step);
    int i;
    for (i = 0; i < FIT_THETA; i++) {
        mean[i] = 0.9 * mean[i] + 0.1 * grad[i];
        square[i] = 0.99 * square[i] + 0.01 * grad[i] * grad[i];
        theta[i] -= rate * (mean[i] / m_scale) / (sqrt(square[i] / v_scale) + 1e-8);
    }
}

static void fit(fit_record *f, uint64_t seed)
{
    static pu_real Phi[FIT_PHI], grad_Phi[FIT_PHI], grad_psi[FIT_M], y[FIT_N * FIT_M];
    static double theta[FIT_THETA], grad[FIT_THETA], mean[FIT_THETA], square[FIT_THETA];
    pu_op prior = pu_op_identity(FIT_D), map = pu_op_dense(FIT_M, FIT_D, Phi);
    pu_lgm model = {&prior, &map, NULL, NULL, NULL};
    pu_data data = pu_data_nan(FIT_N, FIT_M, y);
    pu_options options, dense;
    pu_results out;
    pu_workspace ws;
    pu_report report;
    int i, n, step;
    memset(&options, 0, sizeof options), memset(&dense, 0, sizeof dense);
    memset(&out, 0, sizeof out), memset(&ws, 0, sizeof ws);

    normals(seed, 0, 2, FIT_PHI, Phi);
    normals(seed, 0, 3, FIT_M, f->true_psi);
    for (i = 0; i < FIT_M; i++) f->true_psi[i] = (pu_real)(2 * exp(0.5 * (double)f->true_psi[i]));
    for (n = 0; n < FIT_N; n++) {
        pu_real z[FIT_D];
        normals(seed, n, 0, FIT_D, z);
        observe(seed, n, FIT_M, FIT_D, Phi, f->true_psi, z, y + n * FIT_M);
    }
    dense.engine = PU_DENSE;
    model.psi = f->true_psi;
    need(pu_nll(&model, &data, &dense, &ws, &f->truth, NULL, &report), &report);

    /* Start elsewhere: a small random Phi, psi = 1. */
    normals(seed, 0, 4, FIT_PHI, Phi);
    for (i = 0; i < FIT_PHI; i++) theta[i] = 0.3 * (double)Phi[i];
    model.psi = f->psi;
    out.Phi = grad_Phi, out.psi = grad_psi;
    options.seed = seed, options.samples = 5, options.solve.iterations = FIT_D;
    printf("   step      NLL from probes       exact\n");
    for (step = 0; step <= FIT_STEPS; step++) {
        for (i = 0; i < FIT_PHI; i++) Phi[i] = (pu_real)theta[i];
        for (i = 0; i < FIT_M; i++) f->psi[i] = (pu_real)exp(theta[FIT_PHI + i]);
        options.step = (uint32_t)step; /* fresh probes */
        need(pu_gradient(&model, &data, &options, &ws, &out, &report), &report);
        f->step[step] = step, f->nll[step] = report.nll, f->se[step] = report.nll_se;
        need(pu_nll(&model, &data, &dense, &ws, &f->exact[step], NULL, &report), &report);
        if (step % 25 == 0)
            printf("   %4d   %9.3f +- %.3f   %9.3f\n", step, f->nll[step], f->se[step], f->exact[step]);
        for (i = 0; i < FIT_PHI; i++) grad[i] = (double)grad_Phi[i];
        for (i = 0; i < FIT_M; i++) grad[FIT_PHI + i] = (double)f->psi[i] * (double)grad_psi[i];
        if (step < FIT_STEPS) adam(theta, grad, mean, square, step + 1, step < 100 ? 0.1 : 0.02);
    }
    pu_workspace_free(&ws);

    printf("   truth                       %9.3f\n\n   noise precision, truth : fitted", f->truth);
    f->psi_error = 0;
    for (i = 0; i < FIT_M; i++) {
        f->psi_error += pow(log((double)f->psi[i] / (double)f->true_psi[i]), 2) / (double)FIT_M;
        printf("%s%5.2f : %.2f", i % 4 ? "    " : "\n     ", (double)f->true_psi[i], (double)f->psi[i]);
    }
    f->psi_error = sqrt(f->psi_error);
    printf("\n   typical relative error %.0f %%\n", 100 * f->psi_error);
}

static void fit_draw(const fit_record *f, FILE *file)
{
    const double ends[2] = {0, FIT_STEPS}, truth[2] = {f->truth, f->truth};
    double low[FIT_POINTS], high[FIT_POINTS];
    svg_plot p;
    int i;
    for (i = 0; i < FIT_POINTS; i++) low[i] = f->nll[i] - 2 * f->se[i], high[i] = f->nll[i] + 2 * f->se[i];
    memset(&p, 0, sizeof p);
    p.file = file, p.title = "negative log-likelihood during the fit", p.top = 50;
    p.x_label = "steps of Adam", p.y_label = "mean negative log-likelihood";
    p.x1 = FIT_STEPS, p.y0 = f->truth - 0.4, p.y1 = f->truth + 1.6; /* the end; the start is far above */
    svg_begin(&p);
    svg_key(&p, p.left, 16, "c2", 0, "from probes, &#177; 2 standard errors");
    svg_key(&p, p.left, 38, "c1", 1, "exact");
    svg_key(&p, p.left + 102, 38, "note", 1, "exact, at the true parameters");
    svg_line(&p, 2, ends, truth, "note", 1, 0);
    svg_band(&p, FIT_POINTS, f->step, low, high, "c2");
    svg_line(&p, FIT_POINTS, f->step, f->nll, "c2", 0, 0);
    svg_line(&p, FIT_POINTS, f->step, f->exact, "c1", 1, 0);
    svg_end(&p);
}

/* ---- 3. cost against the exact gradient --------------------------------------------------------------- */

enum { SIZES = 4, METHODS = 6, METHODS_D = 400 };

typedef struct {
    int D[SIZES];
    double exact[SIZES], network[SIZES]; /* seconds */
    const char *method[METHODS];         /* at D = METHODS_D: */
    double solver_error[METHODS];        /* against the Monte Carlo gradient with the same probes; -1: none */
    double error[METHODS];               /* against the exact gradient */
    double time[METHODS];
    int threads;
} cost_record;

/* Best of three, and of more while that takes less than 0.2 s: short times are easily disturbed. */
static double best_time(problem *p, const pu_options *options, pu_real *grad, pu_report *report)
{
    double best = 0, sum = 0;
    int i;
    for (i = 0; i < 3 || sum < 0.2; i++) {
        const double start = seconds();
        double t;
        problem_gradient(p, options, grad, report);
        t = seconds() - start;
        best = i == 0 || t < best ? t : best;
        sum += t;
    }
    return best;
}

static void cost_measure(cost_record *c, uint64_t seed)
{
    int i;
    printf("      D       exact     network   exact : network\n");
    for (i = 0; i < SIZES; i++) {
        pu_options options;
        pu_report report;
        problem p;
        pu_real *grad;
        memset(&options, 0, sizeof options);
        c->D[i] = 100 << i;
        problem_open(&p, c->D[i], c->D[i] / 2, 2, seed);
        grad = need_reals(p.params);
        options.kind = PU_EXACT;
        c->exact[i] = best_time(&p, &options, grad, &report);
        options.kind = PU_NETWORK; /* K = 10, I = 30 of CG are the defaults */
        c->network[i] = best_time(&p, &options, grad, &report);
        printf("   %4d   %6.1f ms   %6.1f ms   %.2f\n", c->D[i], 1e3 * c->exact[i], 1e3 * c->network[i],
               c->exact[i] / c->network[i]);
        c->threads = report.threads;
        free(grad);
        problem_close(&p);
    }
}

static void methods_measure(cost_record *c, uint64_t seed)
{
    static const struct {
        const char *name;
        pu_kind kind;
        pu_solver solver;
        int steps;
    } list[METHODS] = {
        {"exact, dense", PU_EXACT, PU_CG, 0},
        {"Monte Carlo, CG to the end", PU_MONTE_CARLO, PU_CG, 0},
        {"output, CG 10 steps", PU_OUTPUT, PU_CG, 10},
        {"network, CG 10 steps", PU_NETWORK, PU_CG, 10},
        {"output, PCG 10 steps", PU_OUTPUT, PU_PCG, 10},
        {"network, PCG 10 steps", PU_NETWORK, PU_PCG, 10},
    };
    pu_real *exact, *limit, *grad;
    pu_report report;
    problem p;
    int i;
    problem_open(&p, METHODS_D, METHODS_D / 2, 2, seed);
    exact = need_reals(3 * p.params), limit = exact + p.params, grad = limit + p.params;
    for (i = 0; i < METHODS; i++) {
        pu_real *to = i == 0 ? exact : i == 1 ? limit : grad;
        pu_options options;
        memset(&options, 0, sizeof options);
        options.kind = list[i].kind;
        options.solve.solver = list[i].solver, options.solve.iterations = list[i].steps;
        c->method[i] = list[i].name;
        c->time[i] = best_time(&p, &options, to, &report);
        c->error[i] = i == 0 ? 0 : relative_error(p.params, to, exact);
        c->solver_error[i] = i == 0 ? -1 : i == 1 ? 0 : relative_error(p.params, to, limit);
    }
    free(exact);
    problem_close(&p);
}

/* The rows of the table of methods, as text or as HTML. */
static void methods_write(const cost_record *c, FILE *file, const char *format)
{
    int i, j;
    for (i = 0; i < METHODS; i++) {
        const double error[2] = {c->solver_error[i], c->error[i]};
        char text[2][32];
        for (j = 0; j < 2; j++) snprintf(text[j], sizeof text[j], error[j] > 0 ? "%.1e" : "%.0f", error[j]);
        if (error[0] < 0) strcpy(text[0], "-");
        fprintf(file, format, c->method[i], text[0], text[1], 1e3 * c->time[i]);
    }
}

/* ---- the report --------------------------------------------------------------------------------------- */

/* The directory and its parents, as far as they are missing. */
static void make_directory(const char *path)
{
    char part[1024];
    const size_t length = strlen(path);
    size_t i;
    if (length >= sizeof part) fail(1, path, "the path is too long");
    for (i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) && errno != EEXIST) fail_errno("cannot create the directory", part);
    }
}

static const char *const page_head =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>pu: demo report</title>\n";

static const char *const page_style =
    "body{max-width:40rem;margin:0 auto;padding:1rem;font:16px/1.5 system-ui,sans-serif}\n"
    "body{color:#222;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\n"
    ".plot{display:block;width:100%;max-width:34rem;margin:auto}small{color:#666}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;vertical-align:bottom;padding:.3rem;border-bottom:1px solid #ddd}\n"
    "th:first-child,td:first-child{text-align:left}td+td{white-space:nowrap}\n"
    "@media (prefers-color-scheme:dark){body{color:#ddd;background:#16181c}\n"
    "th,td{border-color:#33373d}small{color:#999}}\n"
    "@media (max-width:30rem){table{font-size:.85rem}}\n";

static void page_write(FILE *f, const fit_record *r, const convergence *e, const cost_record *c, long seed)
{
    int i;
    fprintf(f, "%s<style>\n%s%s</style>\n", page_head, svg_style, page_style);
    fprintf(f, "<h1>pu: demo report</h1>\n"
               "<p>Latent Gaussian models fitted without inverting a matrix: a few solver steps for the\n"
               "posterior mean and for random probes, and the gradient taken through the solver.</p>\n");

    fprintf(f, "<h2>A factor model with missing entries</h2>\n"
               "<p>%d data of %d entries, a fifth of them missing, %d factors. Adam on the network gradient\n"
               "brings the mean negative log-likelihood from %.2f to %.2f; ",
            FIT_N, FIT_M, FIT_D, r->exact[0], r->exact[FIT_STEPS]);
    fprintf(f, "at the parameters that made the data it is %.2f.\n"
               "The noise precisions come out with a typical error of %.0f&nbsp;%%. The first steps are\n"
               "above the frame.</p>\n",
            r->truth, 100 * r->psi_error);
    fit_draw(r, f);

    fprintf(f, "<h2>Two gradients, four solvers</h2>\n"
               "<p>D&nbsp;=&nbsp;200. Relative error against the limit, the Monte Carlo gradient with the\n"
               "same probes. With every step the network gradient, taken through the solver, gains\n"
               "nearly twice the digits of the gradient formed from the solver's output.</p>\n");
    convergence_draw(e, f, 0);

    fprintf(f, "<h2>Cost against the exact gradient</h2>\n"
               "<p>Two data, a dense map to D/2 entries, 10 probes, 30 steps of CG. The exact gradient\n"
               "grows as D<sup>3</sup>, the network gradient as D<sup>2</sup>; where the ratio is below 1,\n"
               "the exact one is the better choice.</p>\n"
               "<table>\n<tr><th>D<th>exact<th>network<th>exact : network\n");
    for (i = 0; i < SIZES; i++)
        fprintf(f, "<tr><td>%d<td>%.1f ms<td>%.1f ms<td>%.2f\n", c->D[i], 1e3 * c->exact[i],
                1e3 * c->network[i], c->exact[i] / c->network[i]);
    fprintf(f, "</table>\n");

    fprintf(f, "<h2>Methods side by side</h2>\n"
               "<p>D&nbsp;=&nbsp;%d. Solver error: against the Monte Carlo gradient with the same probes.\n"
               "Total error: against the exact gradient; it contains the sampling error of 10 probes on two\n"
               "data, which falls as more of either are used.</p>\n"
               "<table>\n<tr><th>method<th>solver error<th>total error<th>time\n", METHODS_D);
    methods_write(c, f, "<tr><td>%s<td>%s<td>%s<td>%.1f ms\n");
    fprintf(f, "</table>\n<p><small>pu %s, %s precision, threads: %d, seed: %ld. ", pu_version(),
            sizeof(pu_real) == sizeof(float) ? "single" : "double", c->threads, seed);
    fprintf(f, "Times are the best of three runs or more.</small></p>\n</html>\n");
}

int main(int argc, char **argv)
{
    static fit_record fitted;
    static convergence errors;
    static cost_record cost;
    const double start = seconds();
    const char *out = "build/demo";
    long seed = 1;
    const option list[] = {
        opt_text("out", "directory for report.html", &out),
        opt_number("seed", "of all random numbers", &seed, 0, 1000000000),
    };
    char path[1100];
    problem p;
    FILE *file;
    options_read(argc, argv, "demo",
                 "A fit, the accuracy of its gradients and their cost; writes a page with pictures.",
                 (int)(sizeof list / sizeof *list), list);
    make_directory(out);
    snprintf(path, sizeof path, "%s/report.html", out);
    file = file_open(path); /* better to fail now than after the work */

    printf("1. Factor model: %d data of %d entries, a fifth missing, %d factors; Adam, network gradient\n\n",
           FIT_N, FIT_M, FIT_D);
    fit(&fitted, (uint64_t)seed);

    printf("\n2. Relative error of the gradient after a number of solver steps, D = 200\n\n");
    problem_open(&p, 200, 200, 1, (uint64_t)seed);
    convergence_measure(&errors, &p, 10, seed);
    problem_close(&p);
    convergence_print(&errors, 3);

    printf("\n3. Time of a gradient: 2 data of D/2 entries, 10 probes, 30 steps of CG\n\n");
    cost_measure(&cost, (uint64_t)seed);
    methods_measure(&cost, (uint64_t)seed);

    printf("\n4. In short, at D = %d\n\n", METHODS_D);
    printf("   %-28s %12s %12s %10s\n", "method", "solver error", "total error", "time");
    methods_write(&cost, stdout, "   %-28s %12s %12s %7.1f ms\n");

    page_write(file, &fitted, &errors, &cost, seed);
    file_close(file, path);
    printf("\n%.1f s. Report with pictures: %s\n", seconds() - start, path);
    return 0;
}

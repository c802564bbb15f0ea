/* convergence.h - how fast the output and the network gradient approach their limit with the solver's steps:
   measured, printed as a table, drawn; where Ctrl-C came in between, as far as it is known. Include after pu.h, program.h,
   fit.h, problem.h and svg.h.
*/
#ifndef EXAMPLES_CONVERGENCE_H
#define EXAMPLES_CONVERGENCE_H

#include <float.h>

enum { CONVERGENCE_SOLVERS = 4, CONVERGENCE_CURVES = 2 * CONVERGENCE_SOLVERS, CONVERGENCE_POINTS = 16 };

typedef struct {
    int threads; /* to be set before measuring: 0 = as many as there are cores */
    const pu_backend *backend; /* likewise; NULL: the CPU */
    fit_flags *told;           /* likewise: who is told of the progress; NULL: nobody */
    int curves; /* that were measured, of CONVERGENCE_CURVES: number 2 s + network is of solver s */
    int points;
    double steps[CONVERGENCE_POINTS]; /* I */
    double error[CONVERGENCE_SOLVERS][2][CONVERGENCE_POINTS]; /* relative; [0] output, [1] network */
    double rate[CONVERGENCE_SOLVERS][2]; /* decimal digits gained per step, fitted; 0: too few points */
    double seconds[CONVERGENCE_SOLVERS][2]; /* of all points together */
    char plan[600];                      /* who made the gradients: of the last one */
} convergence;

static const pu_solver convergence_solver[CONVERGENCE_SOLVERS] = {PU_GD, PU_SD, PU_CG, PU_PCG};
static const char *const convergence_name[CONVERGENCE_SOLVERS] = {"GD", "SD", "CG", "PCG"};
static const char *const convergence_colour[CONVERGENCE_SOLVERS] = {"c0", "c1", "c2", "c3"};

/* Minus the slope of a line fitted to log10(error) against I, between the first steps, which are not typical,
   and the level where rounding takes over. */
static inline double convergence_rate(int n, const double *steps, const double *error)
{
    const double eps = sizeof(pu_real) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON;
    double count = 0, x = 0, y = 0, xx = 0, xy = 0;
    int i;
    for (i = 0; i < n; i++)
        if (error[i] < 0.3 && error[i] > 100 * eps) {
            const double digits = log10(error[i]);
            count++, x += steps[i], y += digits, xx += steps[i] * steps[i], xy += steps[i] * digits;
        }
    return count < 2 ? 0 : -(count * xy - x * y) / (count * xx - x * x);
}

/* Errors relative to the Monte Carlo gradient: the same probes, solved to convergence. It has a sampling
   error of its own, which more probes cure and more steps do not. */
static inline void convergence_measure(convergence *c, problem *p, long samples, long seed)
{
    static const int steps[CONVERGENCE_POINTS] = {1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 25, 29, 33, 37, 41};
    pu_real *limit = need_reals(2 * p->params), *grad = limit + p->params;
    pu_options options;
    pu_report report;
    int curve, i;
    memset(&options, 0, sizeof options);
    options.samples = (pu_int)samples;
    options.seed = (uint64_t)seed, options.threads = c->threads, options.backend = c->backend;
    options.kind = PU_MONTE_CARLO;
    problem_gradient(p, &options, limit, &report);
    c->points = CONVERGENCE_POINTS, c->curves = 0;
    for (i = 0; i < c->points; i++) c->steps[i] = steps[i];
    for (curve = 0; curve < CONVERGENCE_CURVES; curve++) {
        const int s = curve / 2, network = curve % 2;
        options.kind = network ? PU_NETWORK : PU_OUTPUT;
        options.solve.solver = convergence_solver[s];
        c->seconds[s][network] = 0;
        for (i = 0; i < c->points && !fit_interrupted; i++) {
            double start;
            if (c->told)
                work_progress(c->told, "  %s, %s gradient: %d steps", convergence_name[s], network ? "network" : "output", steps[i]);
            options.solve.iterations = steps[i];
            start = seconds();
            problem_gradient(p, &options, grad, &report);
            c->seconds[s][network] += seconds() - start;
            c->error[s][network][i] = relative_error(p->params, grad, limit);
        }
        if (i == c->points) c->curves = curve + 1;
        while (i < c->points) c->error[s][network][i++] = (double)NAN;
        c->rate[s][network] = curve < c->curves ? convergence_rate(c->points, c->steps, c->error[s][network]) : (double)NAN;
    }
    if (c->told) work_progress(c->told, "");
    snprintf(c->plan, sizeof c->plan, "%s", report.plan);
    free(limit);
}

/* How many times the digits per step the network gradient gains; NAN: one of the two is not known. */
static inline double convergence_ratio(const convergence *c, int solver)
{
    return c->rate[solver][0] > 0 && c->rate[solver][1] > 0 ? c->rate[solver][1] / c->rate[solver][0] : (double)NAN;
}

/* A number of the table, or that there is none. */
static inline void convergence_cell(const char *format, double x)
{
    char text[16] = "-";
    if (x - x == 0) snprintf(text, sizeof text, format, x);
    printf(" %8s", text);
}

/* The table, every `every`-th row, and the fitted rates below. */
static inline void convergence_print(const convergence *c, int every)
{
    int s, i;
    printf("        ");
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) printf("  ------ %-3s ------", convergence_name[s]);
    printf("\n  steps ");
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) printf("  %8s %8s", "output", "network");
    printf("\n");
    for (i = 0; i < c->points; i++) {
        if (i % every) continue;
        printf("  %5.0f ", c->steps[i]);
        for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
            printf(" ");
            convergence_cell("%.1e", c->error[s][0][i]), convergence_cell("%.1e", c->error[s][1][i]);
        }
        printf("\n");
    }
    printf("  digits");
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
        printf(" ");
        convergence_cell("%.3f", c->rate[s][0]), convergence_cell("%.3f", c->rate[s][1]);
    }
    printf("  per step, fitted\n  ratio ");
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
        printf("  %8s", "");
        convergence_cell("%.2f", convergence_ratio(c, s));
    }
    printf("  of the two\n");
}

static inline void convergence_draw(const convergence *c, FILE *file, int standalone)
{
    double low = 0.1;
    svg_plot p;
    int s, network, i;
    for (s = 0; s < CONVERGENCE_SOLVERS; s++)
        for (network = 0; network < 2; network++)
            for (i = 0; i < c->points; i++)
                if (c->error[s][network][i] > 0) low = fmin(low, c->error[s][network][i]);
    memset(&p, 0, sizeof p);
    p.file = file, p.standalone = standalone;
    p.title = "relative error of the gradient against solver steps", p.x_label = "solver steps";
    p.y_label = "relative error";
    p.x0 = 0, p.x1 = c->steps[c->points - 1] + 1;
    p.y0 = low / 3, p.y1 = 1, p.log_y = 1;
    p.top = 50;
    svg_begin(&p);
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
        if (2 * s < c->curves) svg_key(&p, p.left + 84 * s, 16, convergence_colour[s], 0, convergence_name[s]);
        for (network = 0; network < 2 && 2 * s + network < c->curves; network++)
            svg_line(&p, c->points, c->steps, c->error[s][network], convergence_colour[s], !network, 1);
    }
    if (c->curves > 0) svg_key(&p, p.left, 38, "note", 1, "output gradient");
    if (c->curves > 1) svg_key(&p, p.left + 168, 38, "note", 0, "network gradient");
    svg_end(&p);
}

#endif /* EXAMPLES_CONVERGENCE_H */

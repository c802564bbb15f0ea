/* gradient_error.c - the network gradient against the output gradient: error after I steps of four solvers.

   cc -O3 -march=native -fopenmp -I. examples/gradient_error.c -o gradient_error -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/gradient_error.c -o gradient_error -lcublas -lcufft -lcurand       (for --device cuda)
   ./gradient_error --dim 200 --svg error.svg --report error.html

   As the solver converges, both tend to the same limit, the Monte Carlo gradient. The output gradient is made
   from the solver's result, so its error is that of the result. The network gradient differentiates through
   the solver, and its error is about that error squared: nearly twice the digits at the same I, for twice the
   products with A and the gradient terms of every step.
*/
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#define PU_IMPLEMENTATION
#include "pu.h"

#include "common/program.h"
#include "common/fit.h"
#include "common/problem.h"
#include "common/report.h"
#include "common/convergence.h"

enum { CG = 2 }; /* its place among the solvers */

/* Per solver and gradient the digits per step, and the errors after each number of steps. */
static void write_json(const convergence *c, json *j)
{
    static const char *const gradient[2] = {"output", "network"};
    char key[40];
    pu_real values[CONVERGENCE_POINTS];
    int s, g, i;
    for (i = 0; i < c->points; i++) values[i] = (pu_real)c->steps[i];
    json_array(j, "solver_steps", c->points, values);
    for (s = 0; s < CONVERGENCE_SOLVERS; s++)
        for (g = 0; g < 2; g++) {
            snprintf(key, sizeof key, "%s_%s_rate", convergence_name[s], gradient[g]);
            json_number(j, key, c->rate[s][g]);
            snprintf(key, sizeof key, "%s_%s_errors", convergence_name[s], gradient[g]);
            for (i = 0; i < c->points; i++) values[i] = (pu_real)c->error[s][g][i];
            json_array(j, key, c->points, values);
        }
}

/* ---- the page ---- */

/* Least and largest ratio of the rates over the solvers, and how many solvers have one. */
static int ratios(const convergence *c, double *least, double *most)
{
    int s, count = 0;
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
        const double ratio = convergence_ratio(c, s);
        if (!(ratio > 0)) continue;
        *least = count ? fmin(*least, ratio) : ratio, *most = count ? fmax(*most, ratio) : ratio;
        count++;
    }
    return count;
}

/* What the run found, in large letters; then what it costs. */
static void page_answer(const report_page *page, const convergence *c)
{
    const double ratio = convergence_ratio(c, CG), time = c->seconds[CG][1] / c->seconds[CG][0];
    if (!(ratio > 0)) {
        report_answer(page, "How fast the error falls with the steps of CG cannot be told: too few of its errors lie between the first "
                            "steps and rounding.");
        return;
    }
    report_answer(page, "With CG, the network gradient gains %.2f times the digits per step of the output gradient.", ratio);
    report_text(page, "Theory has 2: the network gradient's error is about the square of the solver's. As many steps take %.1f times the time, "
                      "since it goes back through them; per second it gains %.2f times the digits here. %s",
                time, ratio / time,
                ratio > 1.05 * time   ? "So it pays by time as well."
                : ratio < time / 1.05 ? "So by time alone the output gradient is ahead; by steps and products with A going forward it is not."
                                      : "By time the two are even.");
}

static void page_errors(const report_page *page, const convergence *c)
{
    static const char *const heading[2] = {"Errors of the output gradient", "Errors of the network gradient"};
    char text[40];
    int s, g, i;
    for (g = 0; g < 2; g++) {
        report_section(page, heading[g]);
        report_table(page, "steps|GD|SD|CG|PCG");
        for (i = 0; i < c->points; i++) {
            double least = HUGE_VAL;
            for (s = 0; s < CONVERGENCE_SOLVERS; s++)
                if (c->error[s][g][i] < least) least = c->error[s][g][i];
            snprintf(text, sizeof text, "%.0f", c->steps[i]);
            report_row(page, text);
            for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
                const double error = c->error[s][g][i];
                if (error - error == 0) report_cell(page, error <= least, "%.1e", error);
                else report_cell(page, 0, "-");
            }
        }
        report_table_end(page, "Green: the least error after as many steps.");
    }
}

/* The rates of all solvers; a dash where one is not known. */
static void page_rates(const report_page *page, const convergence *c)
{
    int s, g;
    report_section(page, "Digits per step");
    report_table(page, "solver|output|network|ratio|ratio of times");
    for (s = 0; s < CONVERGENCE_SOLVERS; s++) {
        const double ratio = convergence_ratio(c, s);
        report_row(page, convergence_name[s]);
        for (g = 0; g < 2; g++) {
            if (c->rate[s][g] > 0) report_cell(page, 0, "%.3f", c->rate[s][g]);
            else report_cell(page, 0, "-");
        }
        if (ratio > 0) report_cell(page, 0, "%.2f", ratio), report_cell(page, 0, "%.1f", c->seconds[s][1] / c->seconds[s][0]);
        else report_cell(page, 0, "-"), report_cell(page, 0, "-");
    }
    report_table_end(page, "Slopes of straight lines through log10 of the errors, between the first steps (error above 0.3) and rounding. Times: "
                           "on the wall, all numbers of steps together.");
}

static void page_write(const char *path, const convergence *c, long dim, long samples, int argc, char **argv, int count, const option *list)
{
    report_page page = report_open(path, "gradient_error: report");
    double least = 0, most = 0;
    const int known = ratios(c, &least, &most);
    if (!path) return;
    page_answer(&page, c);
    if (fit_interrupted) report_text(&page, "Interrupted after %d of %d curves.", c->curves, CONVERGENCE_CURVES);
    report_figure(&page);
    convergence_draw(c, page.file, 0);
    if (known > 0)
        report_caption(&page, "Error relative to the Monte Carlo gradient with the same %ld probes, D = %ld. Look at the lines of one colour: the solid "
                              "one (network) falls %.2f to %.2f times as fast as the dashed one (output).", samples, dim, least, most);
    else report_caption(&page, "Error relative to the Monte Carlo gradient with the same %ld probes, D = %ld.", samples, dim);
    page_rates(&page, c);
    page_errors(&page, c);
    report_text(&page, "The limit that both gradients tend to has a sampling error of its own, which more probes make smaller and more steps do not. "
                       "Device %s: %s.", device_name, c->plan);
    report_close(&page, argc, argv, count, list);
}

int main(int argc, char **argv)
{
    long dim = 200, samples = 10, seed = 1, threads = 0;
    const char *path = NULL, *json_path = NULL, *page_path = NULL;
    fit_flags told; /* who is told of the progress */
    const option list[] = {
        opt_number("dim", "hidden dimensions D, and entries of y", &dim, 1, 4000),
        opt_number("samples", "probes per datum K", &samples, 1, 1000),
        opt_number("seed", "of the model and the probes", &seed, 0, 1000000000),
        opt_number("threads", "0 = as many as there are cores", &threads, 0, 1024),
        opt_device(),
        opt_text("svg", "draw the errors into this file", &path),
        opt_text("report", "write a page with the figure and the tables to this file (HTML)", &page_path),
        opt_text("json", "write the results to this file", &json_path),
        opt_real("progress", "seconds between lines of progress where stderr is no terminal; 0 = none", &told.every, 0, 1e9),
        opt_flag("quiet", "no progress, no table", &told.quiet),
    };
    const int options = (int)(sizeof list / sizeof *list);
    problem p;
    convergence c;
    double start;
    json j;
    fit_flags_default(&told);
    options_read(argc, argv, "gradient_error",
                 "Error of the output and of the network gradient after I steps of four solvers.", options, list);
    fit_listen();
    file_ready(path), file_ready(json_path), file_ready(page_path);
    device_open();

    start = seconds();
    c.threads = (int)threads, c.backend = device_backend(), c.told = &told;
    problem_open(&p, dim, dim, 2, (uint64_t)seed);
    convergence_measure(&c, &p, samples, seed);
    problem_close(&p);
    if (fit_interrupted)
        fprintf(stderr, "gradient_error: interrupted after %d of %d curves; what follows is what there is\n", c.curves, CONVERGENCE_CURVES);
    if (!told.quiet) {
        printf("relative error against the Monte Carlo gradient with the same probes; D = %ld, K = %ld\n\n", dim, samples);
        convergence_print(&c, 1);
        printf("\ndevice %s: %s\n", device_name, c.plan);
    }

    j = json_open(json_path);
    json_text(&j, "engine", pu_engine_text(PU_ITERATIVE));
    json_text(&j, "device", device_name);
    json_number(&j, "dim", (double)dim);
    json_number(&j, "samples", (double)samples);
    json_number(&j, "seed", (double)seed);
    json_number(&j, "seconds", seconds() - start);
    json_number(&j, "peak_mb", peak_mb());
    json_text(&j, "status", pu_status_name(PU_OK)); /* the program ends where a call fails */
    json_text(&j, "stopped", pu_fit_stop_text(fit_interrupted ? PU_FIT_CALLBACK : PU_FIT_STEPS));
    write_json(&c, &j);
    json_close(&j);
    if (path) {
        FILE *file = file_open(path);
        convergence_draw(&c, file, 1);
        file_close(file, path);
        if (!told.quiet) printf("\npicture: %s\n", path);
    }
    page_write(page_path, &c, dim, samples, argc, argv, options, list);
    if (!told.quiet && page_path) printf("%spage: %s\n", path ? "" : "\n", page_path);
    device_close();
    return fit_code();
}

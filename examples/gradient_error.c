/* gradient_error.c - the network gradient against the output gradient: error after I steps of four solvers.

   cc -O3 -march=native -fopenmp -I. examples/gradient_error.c -o gradient_error -lm
   nvcc -O3 -x cu -DPU_CUDA -I. examples/gradient_error.c -o gradient_error -lcublas -lcufft -lcurand       (for --device cuda)
   ./gradient_error --dim 200 --svg error.svg

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
#include "common/svg.h"
#include "common/convergence.h"

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

int main(int argc, char **argv)
{
    long dim = 200, samples = 10, seed = 1, threads = 0;
    const char *path = NULL, *json_path = NULL;
    int quiet = 0;
    const option list[] = {
        opt_number("dim", "hidden dimensions D, and entries of y", &dim, 1, 4000),
        opt_number("samples", "probes per datum K", &samples, 1, 1000),
        opt_number("seed", "of the model and the probes", &seed, 0, 1000000000),
        opt_number("threads", "0 = as many as there are cores", &threads, 0, 1024),
        opt_device(),
        opt_text("svg", "draw the table into this file", &path),
        opt_text("json", "write the results to this file", &json_path),
        opt_flag("quiet", "no table", &quiet),
    };
    problem p;
    convergence c;
    double start;
    json j;
    options_read(argc, argv, "gradient_error",
                 "Error of the output and of the network gradient after I steps of four solvers.",
                 (int)(sizeof list / sizeof *list), list);
    fit_listen();
    file_ready(path), file_ready(json_path);
    device_open();

    start = seconds();
    c.threads = (int)threads, c.backend = device_backend();
    problem_open(&p, dim, dim, 2, (uint64_t)seed);
    convergence_measure(&c, &p, samples, seed);
    problem_close(&p);
    if (fit_interrupted)
        fprintf(stderr, "gradient_error: interrupted after %d of %d curves; what follows is what there is\n", c.curves, CONVERGENCE_CURVES);
    if (!quiet) {
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
        if (!quiet) printf("\npicture: %s\n", path);
    }
    device_close();
    return fit_code();
}

/* gradient_error.c - the network gradient against the output gradient: error after I steps of four solvers.

   cc -O3 -march=native -fopenmp -I. examples/gradient_error.c -o gradient_error -lm
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
#include "common/problem.h"
#include "common/svg.h"
#include "common/convergence.h"

int main(int argc, char **argv)
{
    long dim = 200, samples = 10, seed = 1;
    const char *path = NULL;
    const option list[] = {
        opt_number("dim", "hidden dimensions D, and entries of y", &dim, 1, 4000),
        opt_number("samples", "probes per datum K", &samples, 1, 1000),
        opt_number("seed", "of the model and the probes", &seed, 0, 1000000000),
        opt_text("svg", "draw the table into this file", &path),
    };
    FILE *file = NULL;
    problem p;
    convergence c;
    options_read(argc, argv, "gradient_error",
                 "Error of the output and of the network gradient after I steps of four solvers.",
                 (int)(sizeof list / sizeof *list), list);
    if (path) file = file_open(path); /* better to fail now than after the work */

    problem_open(&p, dim, dim, 2, (uint64_t)seed);
    convergence_measure(&c, &p, samples, seed);
    problem_close(&p);
    printf("relative error against the Monte Carlo gradient with the same probes; D = %ld, K = %ld\n\n", dim,
           samples);
    convergence_print(&c, 1);

    if (file) {
        convergence_draw(&c, file, 1);
        file_close(file, path);
        printf("\npicture: %s\n", path);
    }
    return 0;
}

/* first.c - a first program: factor analysis of a small table with gaps, and what the gaps probably held. The head of pu.h has the same.

   cc -O3 -march=native -fopenmp -I. examples/first.c -o first -lm        (-fopenmp is optional)
*/
#define PU_IMPLEMENTATION /* in one file of a program; the others only include pu.h */
#include "pu.h"
#include <math.h>
#include <stdio.h>
int main(void)
{
    /* Eight people, a row each: height, weight, size of shoes. NaN marks a gap. */
    const pu_real gap = (pu_real)NAN;
    pu_real y[8 * 3] = {170, 62, 41, 172, 70, 41, gap, 56, 37, 166, 55, gap, 169, 55, 40, 160, 61, 39, 172, gap, 39, 186, 82, 43};
    pu_real theta[9], mean[8 * 3], variance[8 * 3];
    pu_data data = pu_data_nan(8, 3, y); /* borrows y; also by a byte mask or as lists */
    pu_model model = {0};
    pu_fit_report fit = {0};
    pu_predict_result out = {0};
    out.mean = mean;
    out.variance = variance;
    /* y = Phi z + eta + noise, z ~ N(0, 1): what the three columns have in common is one factor. Every call returns a status;
       0 is success, and zeroed structs and NULL are the defaults throughout. */
    pu_status status = pu_model_factors(&model, 3, 1, NULL);
    if (!status) status = pu_model_start(&model, &data, 1, theta, NULL);                 /* theta: loadings, means, log precisions */
    if (!status) status = pu_fit(&model, &data, NULL, NULL, theta, &fit);                /* maximum likelihood of what is observed */
    if (!status) status = pu_model_predict(&model, theta, &data, NULL, NULL, &out, NULL); /* of every entry, given its row */
    if (status) {
        puts(pu_status_text(status));
        return 1;
    }
    printf("NLL per person %.4f, %s\n", fit.objective, pu_fit_stop_text(fit.stop));
    for (int i = 0; i < 8 * 3; i++)
        if (y[i] != y[i]) printf("person %d, column %d: %.1f +- %.1f\n", i / 3, i % 3, (double)mean[i], sqrt((double)variance[i]));
    pu_model_free(&model);
    return fflush(stdout) ? 1 : 0; /* a full disk, say: output that is lost is no success */
}

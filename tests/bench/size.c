/* The programs whose size `./build.sh bench size` tells, each as small as it can be: PROGRAM is 1 a linear system, 2 a gradient of
   factors, 3 a gradient of an autoregression, 4 a fit of a noisy one. Built with PU_STATIC there, and not run. */
#define PU_IMPLEMENTATION
#include "pu.h"

#ifndef PROGRAM
#define PROGRAM 1
#endif

enum { ROWS = 8, FACTORS = 2, ORDER = 2 };

int main(void)
{
    static pu_real y[ROWS] = {1, 2, 1, 0, 1, 1, 2, 3};
#if PROGRAM == 1
    static pu_real A[4] = {2, 1, 1, 2}, x[2];
    pu_op op = pu_op_spd(2, A, NULL);
    pu_solve_arrays arrays = {0};
    arrays.k = 1;
    arrays.U = y;
    arrays.X = x;
    return (int)pu_solve(&op, &arrays, NULL, NULL, NULL, NULL);
#elif PROGRAM == 4
    static pu_real theta[ORDER + 2];
    pu_model model = {0};
    pu_data data = pu_data_full(1, ROWS, y);
    if (pu_model_noisy_ar(&model, ROWS, ORDER, NULL) || pu_model_start(&model, &data, 0, theta, NULL))
        return 1;
    return (int)pu_fit(&model, &data, NULL, NULL, theta, NULL);
#else
    static pu_real psi[ROWS] = {4, 4, 4, 4, 4, 4, 4, 4}, grad[ROWS * FACTORS];
    pu_lgm model = {NULL, NULL, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, ROWS, y);
    pu_gradient_result out = {0};
#if PROGRAM == 2
    static pu_real Phi[ROWS * FACTORS] = {1, 0, 1, 1, 0, 1};
    pu_op prior = pu_op_identity(FACTORS), map = pu_op_dense(ROWS, FACTORS, Phi);
    out.Phi = grad;
#else
    static pu_real gamma[ORDER];
    static pu_ar ar;
    pu_op prior, map = pu_op_identity(ROWS);
    if (pu_ar_set(&ar, ROWS, ORDER, gamma, 1, NULL))
        return 1;
    prior = pu_op_ar(&ar);
    out.Gamma = grad;
#endif
    model.Gamma = &prior;
    model.Phi = &map;
    return (int)pu_gradient(&model, &data, NULL, NULL, &out, NULL);
#endif
}

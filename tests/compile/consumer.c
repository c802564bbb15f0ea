/* A program of somebody who has the package alone: a gradient whose NLL is known in closed form. The
   implementation is another unit's. Compiled as C99; consumer.cpp is the same in C++. */
#include <math.h>
#include <stdio.h>

#include <pu.h>

int main(void)
{
    pu_real Phi[3 * 2] = {1, 0, 1, 1, 0, 1};
    pu_real psi[3] = {4, 4, 4};
    pu_real y[3] = {1, 2, 1};
    pu_op prior = pu_op_identity(2);
    pu_op map = pu_op_dense(3, 2, Phi);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(1, 3, y);
    pu_real grad_psi[3];
    pu_gradient_result out = {0};
    pu_report report;
    /* A = [9 4; 4 9] and b = (12, 12), so that mu = 12/13 (1, 1), and c = 1/2 psi y'y - 3/2 log psi. */
    double expected = 0.5 * 4 * 6 - 1.5 * log(4.0) + 0.5 * log(65.0) - 0.5 * 24 * 12 / 13.0 + 1.5 * log(2 * 3.14159265358979324);
    out.psi = grad_psi;
    if (pu_gradient(&model, &data, NULL, NULL, &out, &report) != PU_OK)
        return 1;
    printf("pu %s, reals of %d bytes: NLL %.6f, expected %.6f\n", pu_version(), (int)sizeof(pu_real), report.nll, expected);
    return !(fabs(report.nll - expected) < 1e-5 * fabs(expected)); /* about 80 eps of a float */
}

/* test_op_toeplitz.c - Toeplitz and circulant matrices, each against the dense matrix built from the same parameters by
   plain loops in double. */
#include "pu_test.h"
#include "test_common.h"
#include "op_fixtures.h"

static const op_case op_cases[] = {
    {"toeplitz 1", TOEPLITZ, 1, 1, 0},
    {"toeplitz 2", TOEPLITZ, 2, 2, 0},
    {"toeplitz 3", TOEPLITZ, 3, 3, 0},
    {"toeplitz 8", TOEPLITZ, 8, 8, 0},
    {"toeplitz 37", TOEPLITZ, 37, 37, 0},
    {"circulant 1", CIRCULANT, 1, 1, 0},
    {"circulant 2", CIRCULANT, 2, 2, 0},
    {"circulant 3", CIRCULANT, 3, 3, 0},
    {"circulant 8", CIRCULANT, 8, 8, 0},
    {"circulant 37", CIRCULANT, 37, 37, 0},
};

TEST check_of_toeplitz(void)
{
    pu_real t[4] = {1, PU_R(0.5), PU_R(-0.75), 0}, factor[8];
    fixture *f = toeplitz(6);
    pu_int index = -5, i;
    pu_op op;
    /* the 2 x 2 part is definite, the 3 x 3 part is not: kappa_2 = (-3/4 - 1/4) / (3/4) = -4/3 */
    TC_STATUS(pu_toeplitz_factor(4, t, factor, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    t[0] = 0;
    TC_STATUS(pu_toeplitz_factor(4, t, factor, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 0);
    t[0] = t[1] = 1; /* singular */
    TC_STATUS(pu_toeplitz_factor(2, t, factor, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 1);
    t[3] = PU_R(NAN);
    TC_STATUS(pu_toeplitz_factor(4, t, factor, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 3);
    TC_STATUS(pu_toeplitz_factor(4, NULL, factor, &index), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(4, t, NULL, NULL), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(0, t, factor, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_toeplitz_factor(PTRDIFF_MAX, t, factor, NULL), PU_E_OVERFLOW);
    for (i = 0; i < 6; i++) {
        pu_real old = f->theta[i];
        f->theta[i] += PU_R(0.25);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->theta[i] = old;
    }
    op = pu_op_toeplitz(6, f->theta, NULL);
    ASSERT(!op.sample && !op.logdet && !op.logdet_grad && op.diag);
    TC_STATUS(op.check(&op, &index), PU_OK);
    op = pu_op_toeplitz(6, NULL, NULL);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    PASS();
}

TEST check_of_circulant(void)
{
    pu_real c[3] = {1, PU_R(0.5), PU_R(0.25)}, factor[12];
    fixture *f = circulant(7);
    pu_int index = -5, i;
    pu_op op;
    c[2] = PU_R(-0.5); /* n = 4: eigenvalues 1.5, 1.5, -0.5 */
    TC_STATUS(pu_circulant_factor(4, c, factor, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    c[2] = PU_R(INFINITY);
    TC_STATUS(pu_circulant_factor(4, c, factor, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 2);
    TC_STATUS(pu_circulant_factor(4, NULL, factor, &index), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(4, c, NULL, NULL), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(-1, c, factor, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_circulant_factor(PTRDIFF_MAX, c, factor, NULL), PU_E_OVERFLOW);
    for (i = 0; i < 4; i++) {
        pu_real old = f->theta[i];
        f->theta[i] += PU_R(0.25);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->theta[i] = old;
    }
    op = pu_op_circulant(7, f->theta, NULL);
    ASSERT(!op.sample && !op.logdet && !op.logdet_grad && op.diag);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < sizeof op_cases / sizeof *op_cases; i++) run_case(&op_cases[i]);
    RUN_TEST(check_of_toeplitz);
    RUN_TEST(check_of_circulant);
    print_worst();
    PU_TEST_MAIN_END();
}

/* test_op_kronecker.c - Kronecker products of all kinds of operators, also nested, against the dense matrix built from
   the same parameters by plain loops in double. */
#include "pu_test.h"
#include "test_common.h"
#include "op_fixtures.h"

static const op_case op_cases[] = {
    {"dense 3x2 (x) dense 4x5", KRONECKER, 12, 10, 0},
    {"dense 1x1 (x) dense 3x1", KRONECKER, 3, 1, 1},
    {"csr 5x3 (x) dense 2x4", KRONECKER, 10, 12, 2},
    {"spd 3 (x) diagonal 5", KRONECKER, 15, 15, 3},
    {"low rank 4, 2 (x) spd 3", KRONECKER, 12, 12, 4},
    {"spd 3 (x) low rank 2, 3", KRONECKER, 6, 6, 5},
    {"toeplitz 4 (x) circulant 5", KRONECKER, 20, 20, 6},
    {"identity 3 (x) low rank 3, 1", KRONECKER, 9, 9, 7},
    {"diagonal 2 (x) (toeplitz 3 (x) spd 2)", KRONECKER, 12, 12, 8},
    {"dense 17x3 (x) csr 2x19", KRONECKER, 34, 57, 9},
};

TEST kronecker_misfits(void)
{
    fixture *a = spd(3), *d = diagonal(2), *m = dense(2, 3);
    pu_op huge = pu_op_identity(PTRDIFF_MAX / 2), op, bare = pu_op_spd(3, a->theta, NULL);
    ASSERT(pu_op_kronecker(NULL, &a->op).rows == 0 && pu_op_kronecker(&a->op, NULL).rows == 0);
    op = pu_op_kronecker(&a->op, &huge);
    ASSERT(op.params < 0 && op.apply == NULL);
    op = pu_op_kronecker(&m->op, &d->op);
    ASSERT(op.apply && op.gram_diag && !op.diag && !op.sample && !op.logdet && op.trusted == 1);
    op = pu_op_kronecker(&bare, &d->op);
    ASSERT(op.diag && !op.sample && !op.logdet && !op.logdet_grad && op.trusted == 2);
    op = pu_op_kronecker(&a->op, &huge);
    op.rows = op.cols = 0;
    op = pu_op_kronecker(&op, &d->op);
    ASSERT(op.rows == 0);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < sizeof op_cases / sizeof *op_cases; i++) run_case(&op_cases[i]);
    RUN_TEST(kronecker_misfits);
    print_worst();
    PU_TEST_MAIN_END();
}

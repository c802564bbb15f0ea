/* test_op_sparse.c - sparse rows (pu_op_csr) and diagonal plus low rank (pu_op_low_rank), each against the dense matrix
   built from the same parameters by plain loops in double. */
#include "pu_test.h"
#include "test_common.h"
#include "op_fixtures.h"

static const op_case op_cases[] = {
    {"csr 1x1", CSR, 1, 1, 0},
    {"csr 3x5", CSR, 3, 5, 0},
    {"csr 9x2", CSR, 9, 2, 0},
    {"csr 17x17", CSR, 17, 17, 0},
    {"csr 2x1301", CSR, 2, 1301, 0},
    {"low rank 1, 1", LOW_RANK, 1, 1, 0},
    {"low rank 1, 3", LOW_RANK, 1, 3, 0},
    {"low rank 7, 2", LOW_RANK, 7, 2, 0},
    {"low rank 5, 9", LOW_RANK, 5, 9, 0},
    {"low rank 19, 17", LOW_RANK, 19, 17, 0},
};

TEST check_of_csr(void)
{
    fixture *f = csr(7, 6);
    pu_int index = -5, s, old, m;
    pu_csr changed;
    pu_op op;
    for (s = 0; s < f->op.params; s++) { /* a column out of range, and one that repeats or runs back */
        old = f->index[s];
        tc_set_case("entry %d", (int)s);
        f->index[s] = 6;
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = -1;
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = old;
    }
    for (m = 0; m < 7; m++) {
        if (f->start[m + 1] < f->start[m] + 2) continue;
        s = f->start[m] + 1;
        old = f->index[s];
        f->index[s] = f->index[s - 1];
        TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
        TC_ASSERT(index == s);
        f->index[s] = old;
    }
    old = f->start[2];
    f->start[2] = f->start[3] + 1;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    TC_ASSERT(index == 3);
    f->start[2] = old;
    f->start[0] = 1;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    TC_ASSERT(index == 0);
    f->start[0] = 0;
    f->start[7]--;
    TC_STATUS(f->op.check(&f->op, &index), PU_E_SIZE);
    f->start[7]++;
    TC_STATUS(f->op.check(&f->op, &index), PU_OK);
    changed = f->csr;
    changed.value = NULL;
    op = pu_op_csr(&changed);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    changed = f->csr;
    changed.start = NULL;
    op = pu_op_csr(&changed);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    ASSERT(pu_op_csr(NULL).rows == 0);
    changed = f->csr;
    changed.rows = -3;
    ASSERT(pu_op_csr(&changed).rows == 0);
    PASS();
}

TEST check_of_low_rank(void)
{
    fixture *f = low_rank(5, 3);
    pu_low_rank bare = f->low_rank;
    pu_int i, index = -5;
    pu_op op;
    for (i = 0; i < 5; i++) {
        pu_real old = f->theta[i];
        tc_set_case("d %d", (int)i);
        f->theta[i] = i % 2 ? PU_R(0) : PU_R(-1);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_NOT_POSITIVE);
        TC_ASSERT(index == i);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_E_NOT_POSITIVE);
        TC_ASSERT(index == i);
        f->theta[i] = old * PU_R(1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT); /* stale */
        f->theta[i] = old;
    }
    for (i = 5; i < 20; i++) {
        pu_real old = f->theta[i];
        tc_set_case("u %d", (int)i);
        f->theta[i] = old * PU_R(1.5);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == (i - 5) % 3 * 4);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_OK);
        TC_STATUS(f->op.check(&f->op, &index), PU_OK);
        f->theta[i] = PU_R(NAN);
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_E_NONFINITE);
        TC_ASSERT(index == i);
        f->theta[i] = old;
        TC_STATUS(pu_low_rank_factor(&f->low_rank, &index), PU_OK);
    }
    TC_STATUS(pu_low_rank_factor(NULL, &index), PU_E_NULL);
    bare.factor = NULL;
    TC_STATUS(pu_low_rank_factor(&bare, &index), PU_E_NULL);
    op = pu_op_low_rank(&bare);
    TC_ASSERT(op.sample && op.diag && !op.logdet && !op.logdet_grad);
    TC_STATUS(op.check(&op, &index), PU_OK);
    bare = f->low_rank;
    bare.r = 0;
    TC_STATUS(pu_low_rank_factor(&bare, NULL), PU_E_ARGUMENT);
    TC_ASSERT(pu_op_low_rank(&bare).rows == 0 && pu_op_low_rank(NULL).rows == 0);
    bare.n = bare.r = PTRDIFF_MAX / 4;
    TC_STATUS(pu_low_rank_factor(&bare, NULL), PU_E_OVERFLOW);
    PASS();
}

/* Bad numbers are refused by name before anything runs. */
TEST gradient_refuses(void)
{
    fixture *prior = low_rank(6, 2), *map = csr(5, 6);
    pu_real *psi = tc_random_positive(1, 5), *y = tc_normal(2, 5);
    pu_lgm model;
    pu_data data = pu_data_full(1, 5, y);
    pu_gradient_result out;
    pu_report report;
    pu_workspace ws = tc_workspace();
    memset(&model, 0, sizeof model);
    memset(&out, 0, sizeof out);
    model.Gamma = &prior->op;
    model.Phi = &map->op;
    model.psi = psi;
    prior->theta[6] *= PU_R(2);
    ASSERT_EQ(pu_gradient(&model, &data, NULL, &ws, &out, &report), PU_E_ARGUMENT);
    ASSERT_STR_EQ("Gamma (stale factor)", report.where.what);
    ASSERT_EQ(pu_low_rank_factor(&prior->low_rank, NULL), PU_OK);
    map->index[2] = 99;
    ASSERT_EQ(pu_gradient(&model, &data, NULL, &ws, &out, &report), PU_E_SIZE);
    ASSERT_STR_EQ("Phi", report.where.what);
    ASSERT_EQ(report.where.index, 2);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < sizeof op_cases / sizeof *op_cases; i++) run_case(&op_cases[i]);
    RUN_TEST(check_of_csr);
    RUN_TEST(check_of_low_rank);
    RUN_TEST(gradient_refuses);
    print_worst();
    PU_TEST_MAIN_END();
}

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
    {"toeplitz 64", TOEPLITZ, 64, 64, 0}, /* from here on by transforms */
    {"toeplitz 101", TOEPLITZ, 101, 101, 0},
    {"circulant 1", CIRCULANT, 1, 1, 0},
    {"circulant 2", CIRCULANT, 2, 2, 0},
    {"circulant 3", CIRCULANT, 3, 3, 0},
    {"circulant 8", CIRCULANT, 8, 8, 0},
    {"circulant 37", CIRCULANT, 37, 37, 0},
    {"circulant 64", CIRCULANT, 64, 64, 0},
    {"circulant 101", CIRCULANT, 101, 101, 0},
};

TEST check_of_toeplitz(void)
{
    pu_real t[4] = {1, PU_R(0.5), PU_R(-0.75), 0}, memory[400];
    fixture *f = toeplitz(6);
    pu_int index = -5, i;
    pu_lags lags;
    size_t bytes = 0;
    pu_op op;
    /* the 2 x 2 part is definite, the 3 x 3 part is not: kappa_2 = (-3/4 - 1/4) / (3/4) = -4/3 */
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    ASSERT(pu_op_toeplitz(4, t, &lags).rows == 0);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 0, memory, sizeof memory, &index), PU_OK);
    op = pu_op_toeplitz(4, t, &lags);
    ASSERT(op.rows == 4 && op.apply && !op.sample && !op.logdet && !op.logdet_grad);
    ASSERT(pu_op_toeplitz(3, t, &lags).rows == 0 && pu_op_circulant(4, t, &lags).rows == 0);
    t[0] = 0;
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 0);
    t[0] = t[1] = 1; /* singular */
    TC_STATUS(pu_toeplitz_factor(&lags, 2, t, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 1);
    t[3] = PU_R(NAN);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, sizeof memory, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 3);
    TC_STATUS(pu_toeplitz_factor(NULL, 4, t, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, NULL, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, NULL, 0, NULL), PU_E_NULL);
    TC_STATUS(pu_toeplitz_factor(&lags, 0, t, 1, memory, sizeof memory, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_toeplitz_factor(&lags, PTRDIFF_MAX, t, 1, memory, sizeof memory, NULL), PU_E_OVERFLOW);
    TC_STATUS(pu_toeplitz_bytes(4, &bytes), PU_OK);
    TC_STATUS(pu_toeplitz_factor(&lags, 4, t, 1, memory, bytes - 1, NULL), PU_E_BLOCK);
    TC_STATUS(pu_toeplitz_bytes(4, NULL), PU_E_NULL);
    TC_STATUS(pu_toeplitz_bytes(0, &bytes), PU_E_ARGUMENT);
    TC_STATUS(pu_toeplitz_bytes(PTRDIFF_MAX, &bytes), PU_E_OVERFLOW);
    for (i = 0; i < 6; i++) {
        pu_real old = f->theta[i];
        f->theta[i] += PU_R(0.25);
        TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT);
        TC_ASSERT(index == i);
        f->theta[i] = old;
    }
    TC_STATUS(pu_toeplitz_factor(&f->lags, 6, f->theta, 1, memory, 1, NULL), PU_E_BLOCK);
    TC_STATUS(f->op.check(&f->op, &index), PU_E_ARGUMENT); /* its factor is gone */
    op = pu_op_toeplitz(6, f->theta, NULL);
    ASSERT(!op.sample && !op.logdet && !op.logdet_grad && op.diag);
    TC_STATUS(op.check(&op, &index), PU_OK);
    op = pu_op_toeplitz(6, NULL, NULL);
    TC_STATUS(op.check(&op, &index), PU_E_NULL);
    PASS();
}

TEST check_of_circulant(void)
{
    pu_real c[3] = {1, PU_R(0.5), PU_R(0.25)}, memory[400];
    fixture *f = circulant(7);
    pu_int index = -5, i;
    pu_lags lags;
    pu_op op;
    c[2] = PU_R(-0.5); /* n = 4: eigenvalues 1.5, 1.5, -0.5 */
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, memory, sizeof memory, &index), PU_E_NOT_DEFINITE);
    ASSERT_EQ(index, 2);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 0, memory, sizeof memory, &index), PU_OK);
    op = pu_op_circulant(4, c, &lags);
    ASSERT(op.rows == 4 && !op.sample && !op.logdet);
    c[2] = PU_R(INFINITY);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, memory, sizeof memory, &index), PU_E_NONFINITE);
    ASSERT_EQ(index, 2);
    TC_STATUS(pu_circulant_factor(&lags, 4, NULL, 1, memory, sizeof memory, &index), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(&lags, 4, c, 1, NULL, 0, NULL), PU_E_NULL);
    TC_STATUS(pu_circulant_factor(&lags, -1, c, 1, memory, sizeof memory, NULL), PU_E_ARGUMENT);
    TC_STATUS(pu_circulant_factor(&lags, PTRDIFF_MAX, c, 1, memory, sizeof memory, NULL), PU_E_OVERFLOW);
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

/* An operator with a factor against the direct sums of one without: products, also beside a column that is smaller by a factor of
   a million and beside one that is not finite, gradients, gram_diag. Errors of transforms are relative to the largest entry
   of a column times the sum of the lags. */
TEST transforms_are_the_direct_sums(op_kind kind, pu_int n)
{
    enum { K = 3 };
    fixture *f = kind == TOEPLITZ ? toeplitz(n) : circulant(n);
    pu_op direct = kind == TOEPLITZ ? pu_op_toeplitz(n, f->theta, NULL) : pu_op_circulant(n, f->theta, NULL);
    pu_block X = tc_random_block(&next_seed, n, K, n), P = tc_random_block(&next_seed, n, K, n);
    pu_block Y = tc_block(tc_reals(n * K), n), want = tc_block(tc_reals(n * K), n);
    pu_real *grad = tc_reals(f->op.params), *other = tc_reals(f->op.params), weight[K] = {1, PU_R(-0.5), 2};
    double sum = 0, unit = 4 * log2((double)n + 1) * PU_TEST_EPS;
    pu_int i, j;
    tc_set_case("kind %d, n %d", (int)kind, (int)n);
    for (i = 0; i < n; i++) {
        sum += fabs(leaf_entry(f, 0, i, 1));
        X.at[n + i] *= PU_R(1e-6);
        if (i % 3 == 1) X.at[i] = PU_R(0);
    }
    TC_STATUS(f->op.apply(&f->op, K, X, Y, 0, scratch(&f->op, K)), PU_OK);
    TC_STATUS(direct.apply(&direct, K, X, want, 0, scratch(&direct, K)), PU_OK);
    for (j = 0; j < K; j++) {
        for (i = 0; i < n; i++)
            TC_CLOSE(Y.at[j * n + i], want.at[j * n + i], unit * sum * (j == 1 ? 5e-6 : 5));
    }
    TC_STATUS(f->op.grad(&f->op, K, P, X, weight, grad, scratch(&f->op, K)), PU_OK);
    TC_STATUS(direct.grad(&direct, K, P, X, weight, other, scratch(&direct, K)), PU_OK);
    for (i = 0; i < f->op.params; i++) TC_CLOSE(grad[i], other[i], unit * 8 * 3 * (double)n);
    memset(Y.at, 0, (size_t)n * sizeof *Y.at);
    memset(want.at, 0, (size_t)n * sizeof *Y.at);
    TC_STATUS(f->op.gram_diag(&f->op, X.at + 2 * n, Y.at, scratch(&f->op, 1)), PU_OK);
    TC_STATUS(direct.gram_diag(&direct, X.at + 2 * n, want.at, scratch(&direct, 1)), PU_OK);
    for (i = 0; i < n; i++) TC_CLOSE(Y.at[i], want.at[i], unit * 5 * sum * sum);
    X.at[n / 2] = PU_R(INFINITY);
    TC_STATUS(f->op.apply(&f->op, 2, X, Y, 0, scratch(&f->op, 2)), PU_OK);
    TC_STATUS(direct.apply(&direct, 1, tc_block(X.at + n, n), want, 0, scratch(&direct, 1)), PU_OK);
    for (i = 0; i < n; i++) {
        TC_ASSERT(!isfinite(Y.at[i]));
        TC_CLOSE(Y.at[n + i], want.at[i], unit * sum * 5e-6);
    }
    PASS();
}

/* F F' = T for lags that can be embedded and for lags that cannot; the factor says which. */
TEST draws_of_toeplitz(pu_int n, int embedded)
{
    pu_real *t = tc_reals(n), *unit;
    pu_int i, j, l;
    pu_lags lags;
    pu_block E, F;
    pu_op op;
    tc_set_case("n %d, embedded %d", (int)n, embedded);
    for (i = 0; i < n; i++) {
        double x = (double)i;
        t[i] = (pu_real)(embedded ? exp(-x / 20) : (i == 0 ? 0.3 : 0) + cos(0.7 * x) * exp(-x / 200));
    }
    TC_STATUS(factor(&lags, TOEPLITZ, n, t, 1, NULL), PU_OK);
    ASSERT_EQ(lags.embedded, embedded);
    op = pu_op_toeplitz(n, t, &lags);
    ASSERT(op.noise >= 2 * n && op.noise <= 3 * n);
    unit = tc_reals(op.noise);
    E = tc_block(unit, op.noise);
    F = tc_block(tc_reals(op.noise * n), n);
    for (l = 0; l < op.noise; l++) {
        unit[l] = PU_R(1);
        TC_STATUS(op.sample(&op, 1, E, tc_block(F.at + l * n, n), scratch(&op, 1)), PU_OK);
        unit[l] = PU_R(0);
    }
    for (i = 0; i < n; i += 1 + n / 37) {
        for (j = 0; j <= i; j += 1 + n / 41) {
            double sum = 0;
            for (l = 0; l < op.noise; l++) sum += (double)F.at[l * n + i] * (double)F.at[l * n + j];
            TC_CLOSE(sum, t[i - j], 400 * PU_TEST_EPS * (double)t[0]);
        }
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const pu_int lengths[] = {1, 2, 63, 64, 65, 97, 128, 129, 211, 1000, 1009};
    size_t i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    for (i = 0; i < sizeof op_cases / sizeof *op_cases; i++) run_case(&op_cases[i]);
    RUN_TEST(check_of_toeplitz);
    RUN_TEST(check_of_circulant);
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        RUN_TESTp(transforms_are_the_direct_sums, TOEPLITZ, lengths[i]);
        RUN_TESTp(transforms_are_the_direct_sums, CIRCULANT, lengths[i]);
    }
    RUN_TESTp(draws_of_toeplitz, 101, 1);
    RUN_TESTp(draws_of_toeplitz, 101, 0);
    RUN_TESTp(draws_of_toeplitz, 1000, 1);
    print_worst();
    PU_TEST_MAIN_END();
}

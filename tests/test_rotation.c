/* rotation.h and reduce.h of the examples: coordinates of factors and their standard errors, many rows as a triangle. */
#define _POSIX_C_SOURCE 200809L
#include "pu_test.h"
#include "../examples/common/program.h"
#include "../examples/common/rotation.h"
#include "../examples/common/reduce.h"

enum { M = 7, D = 3, ROWS = 1000, WIDTH = 6, WIDE = 800 };

static double L[M * D], before[M * D], psi[M];

/* Random loadings, columns of strengths 3, 2, 1, and precisions from 1 to 2. */
static void draw(uint64_t seed)
{
    pu_real normal[M * D];
    pu_normals(seed, 0, 0, 0, 3, 0, M * D, normal);
    for (int i = 0; i < M * D; i++) before[i] = L[i] = (double)normal[i] * (D - i % D);
    for (int i = 0; i < M; i++) psi[i] = 1 + (double)i / M;
}

static double product(const double *X, const double *weight, int p, int q)
{
    double sum = 0;
    for (int i = 0; i < M; i++) sum += (weight ? weight[i] : 1) * X[i * D + p] * X[i * D + q];
    return sum;
}

/* L L' stays, whatever the rotation: to rounding of some hundred turns, each of a few eps. */
static int same_covariance(void)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            double a = 0, b = 0;
            for (int d = 0; d < D; d++) a += L[i * D + d] * L[j * D + d], b += before[i * D + d] * before[j * D + d];
            if (!(fabs(a - b) < 1e-11 * (1 + fabs(b)))) return 0;
        }
    return 1;
}

static int positive_sums(void)
{
    for (int d = 0; d < D; d++) {
        double sum = 0;
        for (int i = 0; i < M; i++) sum += L[i * D + d];
        if (!(sum > 0)) return 0;
    }
    return 1;
}

TEST canonical_coordinates_are_orthogonal_and_ordered(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        draw(seed);
        rotation_find(ROTATION_CANONICAL, M, D, L, psi);
        ASSERT(same_covariance() && positive_sums());
        for (int p = 0; p < D; p++)
            for (int q = 0; q < p; q++) {
                ASSERT(fabs(product(L, psi, p, q)) < 1e-9 * product(L, psi, q, q));
                ASSERT(product(L, psi, q, q) > product(L, psi, p, p));
            }
    }
    PASS();
}

/* Kaiser's criterion of normalised rows. */
static double varimax(const double *X)
{
    double all = 0;
    for (int d = 0; d < D; d++) {
        double sum = 0, square = 0;
        for (int i = 0; i < M; i++) {
            double row = 0;
            for (int e = 0; e < D; e++) row += X[i * D + e] * X[i * D + e];
            const double x = X[i * D + d] * X[i * D + d] / row;
            sum += x / M, square += x * x / M;
        }
        all += square - sum * sum;
    }
    return all;
}

TEST varimax_is_at_a_maximum(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        draw(seed);
        rotation_find(ROTATION_VARIMAX, M, D, L, psi);
        ASSERT(same_covariance() && positive_sums());
        const double best = varimax(L);
        ASSERT(best >= varimax(before));
        for (int p = 0; p < D; p++)
            for (int q = 0; q < p; q++)
                for (int side = -1; side < 2; side += 2) { /* a turn of 0.01 costs about its square */
                    double turned[M * D];
                    memcpy(turned, L, sizeof L);
                    rotation_turn(M, D, turned, p, q, 0.01 * side);
                    ASSERT(varimax(turned) < best);
                }
    }
    PASS();
}

/* With C = (small) I in all free entries the delta method is that of the map from T to L: checked against draws. */
TEST standard_errors_are_those_of_draws(void)
{
    enum { DRAWS = 4000, P = M * D - D * (D - 1) / 2 + M };
    static pu_real C[P * P], normal[P];
    double Q[D * D], T[M * D], variance[M * D], sum[M * D], square[M * D], work[M];
    pu_int pivot[D], place[M * D + M], n = 0;
    for (int kind = 0; kind < 2; kind++) {
        draw(3);
        rotation_find(kind, M, D, L, psi);
        rotation_triangle(M, D, L, pivot, Q, T);
        for (int i = 0; i < M * D; i++) place[i] = 0;
        for (int k = 0; k < D; k++)
            for (int e = k + 1; e < D; e++) {
                place[pivot[k] * D + e] = -1;
                ASSERT(fabs(T[pivot[k] * D + e]) <= 0);
            }
        n = 0;
        for (int i = 0; i < M * D + M; i++) place[i] = i < M * D && place[i] < 0 ? -1 : n++;
        ASSERT_EQ(P, n);
        for (int i = 0; i < P * P; i++) C[i] = i % (P + 1) ? PU_R(0) : PU_R(1e-6);
        rotation_errors(kind, M, D, T, psi, Q, place, n, C, 0, variance);
        memset(sum, 0, sizeof sum), memset(square, 0, sizeof square);
        for (int draws = 0; draws < DRAWS; draws++) {
            double moved[M * D], noise[M], found[M * D];
            pu_normals(7, (uint32_t)draws, 0, 0, 3, 0, P, normal);
            for (int i = 0; i < M * D; i++) moved[i] = T[i] + (place[i] < 0 ? 0 : 1e-3 * (double)normal[place[i]]);
            for (int i = 0; i < M; i++) noise[i] = psi[i] * exp(1e-3 * (double)normal[place[M * D + i]]);
            rotation_back(kind, M, D, moved, noise, Q, found, work);
            for (int i = 0; i < M * D; i++) sum[i] += (found[i] - L[i]) / DRAWS, square[i] += pow(found[i] - L[i], 2) / DRAWS;
        }
        /* a variance from 4000 draws is known to 1/45; five of these */
        for (int i = 0; i < M * D; i++) ASSERT(fabs(square[i] - sum[i] * sum[i] - variance[i]) < 0.11 * variance[i]);
    }
    PASS();
}

static double X[ROWS * WIDTH];

static void row_of(void *user, long row, double *to)
{
    (void)user;
    memcpy(to, X + row * WIDTH, WIDTH * sizeof *to);
}

/* R'R = X'X, to rounding of ROWS reflections; also of fewer rows than columns, and of none. */
TEST rows_become_a_triangle(void)
{
    static const long counts[] = {0, 1, 3, WIDTH, 63, 64, 65, 257, ROWS};
    pu_real normal[WIDTH];
    for (int i = 0; i < ROWS; i++) {
        pu_normals(4, (uint32_t)i, 0, 0, 3, 0, WIDTH, normal);
        for (int j = 0; j < WIDTH; j++) X[i * WIDTH + j] = (double)normal[j] * pow(10, j - 3) + (j == 2 ? 5 : 0);
        X[i * WIDTH + 4] = 0; /* a column that is nothing */
    }
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        double *R = reduce_rows(counts[k], WIDTH, row_of, NULL);
        for (int p = 0; p < WIDTH; p++)
            for (int q = 0; q < WIDTH; q++) {
                double a = 0, b = 0, p_square = 0, q_square = 0;
                for (int i = 0; i < WIDTH; i++) a += R[i * WIDTH + p] * R[i * WIDTH + q];
                for (long i = 0; i < counts[k]; i++) {
                    b += X[i * WIDTH + p] * X[i * WIDTH + q];
                    p_square += X[i * WIDTH + p] * X[i * WIDTH + p], q_square += X[i * WIDTH + q] * X[i * WIDTH + q];
                }
                ASSERT(q >= p || fabs(R[p * WIDTH + q]) <= 0);
                ASSERT(fabs(a - b) <= 1e-13 * ROWS * sqrt(p_square * q_square));
            }
        free(R);
    }
    PASS();
}

/* Far more columns than a block has rows: each pivot is about the root of the rows that are left for it. */
static void wide_row(void *user, long row, double *to)
{
    pu_real normal[WIDE];
    (void)user;
    pu_normals(5, (uint32_t)row, 0, 0, 3, 0, WIDE, normal);
    for (int j = 0; j < WIDE; j++) to[j] = (double)normal[j];
}

TEST wide_rows_become_a_triangle(void)
{
    double *R = reduce_rows(4 * WIDE, WIDE, wide_row, NULL);
    for (int j = 0; j < WIDE; j++) {
        const double want = sqrt(4.0 * WIDE - j), pivot = fabs(R[j * WIDE + j]);
        ASSERT(pivot > 0.8 * want && pivot < 1.2 * want);
    }
    free(R);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(canonical_coordinates_are_orthogonal_and_ordered);
    RUN_TEST(varimax_is_at_a_maximum);
    RUN_TEST(standard_errors_are_those_of_draws);
    RUN_TEST(rows_become_a_triangle);
    RUN_TEST(wide_rows_become_a_triangle);
    PU_TEST_MAIN_END();
}

/* reduce.h - many rows as a triangle: R with R'R = X'X, by Householder reflections of a block of rows at a time.

       R = reduce_rows(n, width, row, user);               row(user, i, to) writes row i, width doubles
       .. R: width x width, upper triangular, to be freed ..

   An orthogonal transform of the rows, so that no digit is squared away, as it is in X'X. Memory does not grow with n. Rows go to a fixed
   number of lanes, whose triangles are then joined: the bits do not depend on the number of threads. Include after program.h. */
#ifndef EXAMPLES_REDUCE_H
#define EXAMPLES_REDUCE_H

enum { REDUCE_LANES = 4, REDUCE_BLOCK = 64 };

typedef void (*reduce_row_of)(void *user, long row, double *to);

/* R and `count` more rows become R. work: 2 width. What is left of a column below 1e-18 of its length is rounding, and taken for zero:
   reflections of rounding would make it smaller again and again, until numbers give out. */
static inline void reduce_block(int width, double *R, int count, double *block, double *work)
{
    double *w = work, *least = work + width;
    int i, j, c;
    for (c = 0; c < width; c++) least[c] = 0;
    for (i = 0; i < count; i++)
        for (c = 0; c < width; c++) least[c] += 1e-36 * block[i * width + c] * block[i * width + c];
    for (j = 0; j < width; j++) {
        double square = 0, pivot, length, head, factor;
        for (i = 0; i < count; i++) square += block[i * width + j] * block[i * width + j];
        if (square <= least[j]) {
            for (i = 0; i < count; i++) block[i * width + j] = 0;
            continue;
        }
        pivot = R[j * width + j], length = sqrt(pivot * pivot + square);
        head = pivot > 0 ? pivot + length : pivot - length; /* no cancellation */
        factor = 2 / (head * head + square);
        for (c = j; c < width; c++) w[c] = head * R[j * width + c];
        for (i = 0; i < count; i++) {
            const double b = block[i * width + j], *from = block + i * width;
            for (c = j; c < width; c++) w[c] += b * from[c];
        }
        for (c = j; c < width; c++) R[j * width + c] -= factor * head * w[c];
        for (i = 0; i < count; i++) {
            const double b = factor * block[i * width + j];
            double *to = block + i * width;
            for (c = j; c < width; c++) to[c] -= b * w[c];
        }
    }
}

/* Rows of one lane: number `lane` of every REDUCE_LANES blocks. */
static inline void reduce_lane(long n, int width, reduce_row_of row, void *user, int lane, double *R, double *block)
{
    double *w = block + REDUCE_BLOCK * width;
    long first;
    for (first = (long)lane * REDUCE_BLOCK; first < n; first += (long)REDUCE_LANES * REDUCE_BLOCK) {
        const int count = n - first < REDUCE_BLOCK ? (int)(n - first) : (int)REDUCE_BLOCK;
        int i;
        for (i = 0; i < count; i++) row(user, first + i, block + i * width);
        reduce_block(width, R, count, block, w);
    }
}

static inline double *reduce_rows(long n, int width, reduce_row_of row, void *user)
{
    const size_t triangle = (size_t)width * (size_t)width, scratch = (size_t)(REDUCE_BLOCK + 2) * (size_t)width;
    double *R = (double *)need_bytes(REDUCE_LANES * (triangle + scratch) * sizeof *R), *block = R + REDUCE_LANES * triangle, *only;
    int lane, i;
#ifdef _OPENMP
#pragma omp parallel for schedule(static, 1) if ((double)n * (double)width * (double)width > 1e7)
#endif
    for (lane = 0; lane < REDUCE_LANES; lane++) reduce_lane(n, width, row, user, lane, R + (size_t)lane * triangle, block + (size_t)lane * scratch);
    for (lane = 1; lane < REDUCE_LANES; lane++)
        for (i = 0; i < width; i++) { /* rows of the other triangle one by one */
            memcpy(block, R + (size_t)lane * triangle + (size_t)i * (size_t)width, (size_t)width * sizeof *block);
            reduce_block(width, R, 1, block, block + width);
        }
    only = (double *)need_bytes(triangle * sizeof *only);
    memcpy(only, R, triangle * sizeof *only);
    free(R);
    return only;
}

#endif /* EXAMPLES_REDUCE_H */

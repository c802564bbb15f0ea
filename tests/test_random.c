/* test_random.c - Philox4x32-10 and the normals made from it. */
#define PU_IMPLEMENTATION
#include "pu_test.h"
#include "test_common.h"

/* ---- Philox ---------------------------------------------------------------------------------- */

typedef struct {
    uint32_t counter[4], key[2], want[4];
} philox_vector;

/* Published with Random123. */
static const philox_vector philox_vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST philox_known_answers(void)
{
    size_t i;
    for (i = 0; i < sizeof philox_vectors / sizeof philox_vectors[0]; i++) {
        const philox_vector *v = &philox_vectors[i];
        uint32_t got[4];
        tc_set_case("vector %d", (int)i);
        pu_philox(v->key, v->counter, got);
        TC_ASSERT(memcmp(got, v->want, sizeof got) == 0);
    }
    PASS();
}

/* Ten rounds written from the definition, against the library on many keys and counters. */
static void naive_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1], c[4];
    int round;
    memcpy(c, counter, sizeof c);
    for (round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c[0], p1 = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0;
        c[1] = (uint32_t)p1;
        c[2] = n2;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}

TEST philox_against_definition(void)
{
    uint64_t i;
    for (i = 0; i < 2000; i++) {
        uint32_t key[2], counter[4], got[4], want[4];
        uint64_t a = tc_hash(3 * i), b = tc_hash(3 * i + 1), c = tc_hash(3 * i + 2);
        key[0] = (uint32_t)a;
        key[1] = (uint32_t)(a >> 32);
        counter[0] = (uint32_t)b;
        counter[1] = (uint32_t)(b >> 32);
        counter[2] = (uint32_t)c;
        counter[3] = (uint32_t)(c >> 32);
        tc_set_case("input %d", (int)i);
        pu_philox(key, counter, got);
        naive_philox(key, counter, want);
        TC_ASSERT(memcmp(got, want, sizeof got) == 0);
    }
    PASS();
}

/* ---- normals: a pure function of its arguments ----------------------------------------------- */

static int same_bits(const pu_real *a, const pu_real *b, pu_int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Every piece (first, n) of a range, placed at any alignment, holds the bits of the whole, and
   nothing beyond it. */
TEST any_split_gives_the_same_bits(void)
{
    static const uint64_t origins[] = {0, 1, 2, 3, 1000003, UINT64_C(0xfffffff0) - 64};
    pu_real whole[64], piece[66];
    size_t o;
    pu_int first, n;
    for (o = 0; o < sizeof origins / sizeof origins[0]; o++) {
        pu_normals(42, 3, 5, 7, 1, origins[o], 64, whole);
        for (first = 0; first < 64; first++) {
            for (n = 0; first + n <= 64; n++) {
                tc_set_case("origin %.0f first %d n %d", (double)origins[o], (int)first, (int)n);
                piece[0] = piece[n + 1] = PU_R(77);
                pu_normals(42, 3, 5, 7, 1, origins[o] + (uint64_t)first, n, piece + 1);
                TC_ASSERT(same_bits(piece + 1, whole + first, n));
                TC_ASSERT(!(piece[0] < PU_R(77)) && !(piece[0] > PU_R(77)));
                TC_ASSERT(!(piece[n + 1] < PU_R(77)) && !(piece[n + 1] > PU_R(77)));
            }
        }
    }
    PASS();
}

/* Streams drawn backwards and mixed with others: nothing may depend on what was drawn before. */
TEST order_of_calls_is_irrelevant(void)
{
    enum { STREAMS = 24, LENGTH = 37 };
    pu_real forward[STREAMS][LENGTH], backward[STREAMS][LENGTH], other[LENGTH];
    uint32_t s;
    for (s = 0; s < STREAMS; s++) pu_normals(9, s, 2 * s, 1, s % 4, s, LENGTH, forward[s]);
    for (s = STREAMS; s-- > 0;) {
        pu_normals(1000 + s, 1, 1, 1, 0, 0, LENGTH, other);
        pu_normals(9, s, 2 * s, 1, s % 4, s, LENGTH, backward[s]);
    }
    ASSERT(memcmp(forward, backward, sizeof forward) == 0);
    PASS();
}

/* ---- normals: independence ------------------------------------------------------------------- */

typedef struct {
    uint64_t seed;
    uint32_t datum, sample, step, stream;
} stream_id;

static const stream_id base_stream = {5, 6, 7, 8, 1};

/* Each differs from the base in one argument, by one or by one bit at the far end. */
static const stream_id other_streams[] = {
    {4, 6, 7, 8, 1},
    {5 + (UINT64_C(1) << 32), 6, 7, 8, 1},
    {5 + (UINT64_C(1) << 63), 6, 7, 8, 1},
    {5, 5, 7, 8, 1},
    {5, 7, 7, 8, 1},
    {5, 6 + (UINT32_C(1) << 31), 7, 8, 1},
    {5, 6, 6, 8, 1},
    {5, 6, 8, 8, 1},
    {5, 6, 7 + (UINT32_C(1) << 31), 8, 1},
    {5, 6, 7, 7, 1},
    {5, 6, 7, 9, 1},
    {5, 6, 7, 8 + (UINT32_C(1) << 31), 1},
    {5, 6, 7, 8, 0},
    {5, 6, 7, 8, 2},
    {5, 6, 7, 8, 3},
    {5, 7, 6, 8, 1}, /* arguments exchanged: a sum of them must not be the key */
    {6, 5, 7, 8, 1},
    {5, 6, 8, 7, 1},
};

static void draw(const stream_id *s, uint64_t first, pu_int n, pu_real *x)
{
    pu_normals(s->seed, s->datum, s->sample, s->step, s->stream, first, n, x);
}

static double correlation(pu_int n, const pu_real *x, const pu_real *y)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum / (double)n;
}

static pu_int equal_entries(pu_int n, const pu_real *x, const pu_real *y)
{
    pu_int i, count = 0;
    for (i = 0; i < n; i++) count += !(x[i] < y[i]) && !(x[i] > y[i]);
    return count;
}

/* The mean of n products of independent normals has standard deviation 1/sqrt(n); 5 of them are
   exceeded once in 1.7 million. Equal entries: fewer than one in 10^5 draws is expected in float,
   none in double. */
TEST streams_are_uncorrelated(void)
{
    enum { LENGTH = 100000 };
    pu_real *x = tc_reals(LENGTH), *y = tc_reals(LENGTH);
    double bound = 5 / sqrt((double)LENGTH);
    size_t s;
    draw(&base_stream, 0, LENGTH, x);
    for (s = 0; s < sizeof other_streams / sizeof other_streams[0]; s++) {
        tc_set_case("stream %d", (int)s);
        draw(&other_streams[s], 0, LENGTH, y);
        TC_CLOSE(correlation(LENGTH, x, y), 0, bound);
        TC_ASSERT(equal_entries(LENGTH, x, y) <= PU_TEST_PICK(0, 5));
    }
    PASS();
}

/* Within one stream, also of the squares: Box-Muller pairs share a radius if they are made wrongly.
   */
TEST lags_are_uncorrelated(void)
{
    enum { LENGTH = 200000, LAGS = 9 };
    pu_real *x = tc_reals(LENGTH + LAGS), *square = tc_reals(LENGTH + LAGS);
    pu_int lag, i;
    draw(&base_stream, 12345, LENGTH + LAGS, x);
    for (i = 0; i < LENGTH + LAGS; i++) square[i] = (x[i] * x[i] - PU_R(1)) / (pu_real)sqrt(2.0);
    for (lag = 1; lag <= LAGS; lag++) {
        tc_set_case("lag %d", (int)lag);
        TC_CLOSE(correlation(LENGTH, x, x + lag), 0, 5 / sqrt((double)LENGTH));
        TC_CLOSE(correlation(LENGTH, square, square + lag), 0, 5 / sqrt((double)LENGTH));
        TC_CLOSE(correlation(LENGTH, x, square + lag), 0, 5 / sqrt((double)LENGTH));
    }
    PASS();
}

/* Entry 0 of many data, samples or steps: the library uses streams a few numbers at a time. */
TEST short_streams_are_uncorrelated(void)
{
    enum { COUNT = 100000 };
    pu_real *by_datum = tc_reals(COUNT + 1), *by_sample = tc_reals(COUNT + 1);
    pu_real *by_step = tc_reals(COUNT + 1);
    double bound = 5 / sqrt((double)COUNT);
    uint32_t i;
    for (i = 0; i <= COUNT; i++) {
        pu_normals(1, i, 0, 0, 0, 0, 1, by_datum + i);
        pu_normals(1, 0, i, 0, 0, 0, 1, by_sample + i);
        pu_normals(1, 0, 0, i, 0, 0, 1, by_step + i);
    }
    PU_CHECK_CLOSE(correlation(COUNT, by_datum, by_datum + 1), 0, bound);
    PU_CHECK_CLOSE(correlation(COUNT, by_sample, by_sample + 1), 0, bound);
    PU_CHECK_CLOSE(correlation(COUNT, by_step, by_step + 1), 0, bound);
    PU_CHECK_CLOSE(correlation(COUNT, by_datum + 1, by_sample + 1), 0, bound);
    PU_CHECK_CLOSE(correlation(COUNT, by_datum + 1, by_step + 1), 0, bound);
    PU_CHECK_CLOSE(correlation(COUNT, by_sample + 1, by_step + 1), 0, bound);
    PASS();
}

/* ---- normals: distribution over a million draws ---------------------------------------------- */

enum { MANY = 1000000 };

static pu_real *many_draws(void)
{
    pu_real *x = tc_reals(MANY);
    pu_normals(2024, 1, 2, 3, 0, 0, MANY, x);
    return x;
}

TEST all_finite(void)
{
    pu_real *x = many_draws();
    pu_int i;
    for (i = 0; i < MANY; i++) ASSERT(fabs((double)x[i]) < 10);
    PASS();
}

/* x^p has mean (p-1)!! or 0 and variance E x^2p - (E x^p)^2: 1, 2, 15, 96. Five standard
   deviations. */
TEST moments(void)
{
    static const double mean[4] = {0, 1, 0, 3}, variance[4] = {1, 2, 15, 96};
    pu_real *x = many_draws();
    double sum[4] = {0, 0, 0, 0};
    pu_int i;
    int p;
    for (i = 0; i < MANY; i++) {
        double power = 1;
        for (p = 0; p < 4; p++) sum[p] += power *= (double)x[i];
    }
    for (p = 0; p < 4; p++) {
        tc_set_case("moment %d", p + 1);
        TC_CLOSE(sum[p] / MANY, mean[p], 5 * sqrt(variance[p] / MANY));
    }
    PASS();
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

/* sqrt(n) D exceeds t with probability 2 exp(-2 t^2): t = 2.23 is one in ten thousand. */
TEST kolmogorov_smirnov(void)
{
    pu_real *x = many_draws();
    double *sorted = tc_doubles(MANY), distance = 0;
    pu_int i;
    for (i = 0; i < MANY; i++) sorted[i] = (double)x[i];
    qsort(sorted, MANY, sizeof *sorted, compare_doubles);
    for (i = 0; i < MANY; i++) {
        double f = normal_cdf(sorted[i]);
        double above = (double)(i + 1) / MANY - f, below = f - (double)i / MANY;
        if (above > distance) distance = above;
        if (below > distance) distance = below;
    }
    PU_CHECK_CLOSE(distance, 0, 2.23 / sqrt((double)MANY));
    /* and not suspiciously small: below 0.3 has probability under 1e-5 */
    ASSERT(distance > 0.3 / sqrt((double)MANY));
    PASS();
}

/* Each tail's count is binomial; 5 standard deviations, and one count more where few are expected.
   */
TEST tails(void)
{
    static const double cuts[] = {1, 2, 3, 4, 4.5};
    pu_real *x = many_draws();
    size_t c;
    for (c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        double p = normal_cdf(-cuts[c]), upper = 0, lower = 0;
        double bound = 5 * sqrt(MANY * p * (1 - p)) + 1;
        pu_int i;
        for (i = 0; i < MANY; i++) {
            upper += (double)x[i] > cuts[c];
            lower += (double)x[i] < -cuts[c];
        }
        tc_set_case("beyond %g", cuts[c]);
        TC_CLOSE(upper, MANY * p, bound);
        TC_CLOSE(lower, MANY * p, bound);
    }
    PASS();
}

/* ---- normals: against Box and Muller by libm ------------------------------------------------- */

/* The words' meaning, from the library's own description: radius from u = (w0 with its last bit
   set) / 2^32, angle from w1: two bits of quadrant, thirty bits of position within it. All in
   double. */
static void naive_pair(uint32_t w0, uint32_t w1, double *z, double *radius)
{
    double u = (double)(w0 | 1) / 4294967296.0, half_pi = 1.57079632679489661923;
    double within = (2 * (double)(w1 & 0x3fffffff) + 1) / 2147483648.0 - 0.5; /* in (-1/2, 1/2) */
    double cosine = cos(within * half_pi), sine = sin(within * half_pi);
    *radius = sqrt(-2 * log(u));
    switch (w1 >> 30) {
    case 0: z[0] = cosine, z[1] = sine; break;
    case 1: z[0] = -sine, z[1] = cosine; break;
    case 2: z[0] = -cosine, z[1] = -sine; break;
    default: z[0] = sine, z[1] = -cosine; break;
    }
    z[0] *= *radius;
    z[1] *= *radius;
}

/* Roundings: the logarithm's terms may cancel to a third of their size, the root halves a relative
   error, the angle and its polynomial add two, the product one; and the reference has as many of
   its own in a double build. */
#define PAIR_TOLERANCE (8 * PU_TEST_EPS)

TEST check_pair(uint32_t w0, uint32_t w1)
{
    pu_real z[2];
    double want[2], radius;
    tc_set_case("words %08lx %08lx", (unsigned long)w0, (unsigned long)w1);
    pu__normal_pair(w0, w1, z);
    naive_pair(w0, w1, want, &radius);
    TC_CLOSE(z[0], want[0], PAIR_TOLERANCE * fabs(want[0]) + PU_TEST_EPS * PU_TEST_EPS);
    TC_CLOSE(z[1], want[1], PAIR_TOLERANCE * fabs(want[1]) + PU_TEST_EPS * PU_TEST_EPS);
    PASS();
}

/* All words with few bits set or cleared: u next to 0 and to 1, every quadrant's edges. None of the
   values may be zero, infinite, or less accurate for being small. */
TEST pairs_at_the_edges(void)
{
    uint32_t words[140];
    size_t count = 0, i, j;
    uint32_t bit;
    for (bit = 0; bit < 32; bit++) {
        words[count++] = UINT32_C(1) << bit;
        words[count++] = (UINT32_C(1) << bit) - 1;
        words[count++] = ~(UINT32_C(1) << bit);
        words[count++] = UINT32_C(0) - (UINT32_C(1) << bit);
    }
    words[count++] = 0xB504F333; /* around sqrt(1/2), where the logarithm's reduction changes */
    words[count++] = 0xB504F334;
    words[count++] = 0x5A827999;
    words[count++] = 0x5A82799A;
    for (i = 0; i < count; i++) {
        for (j = 0; j < count; j++) CHECK_CALL(check_pair(words[i], words[j]));
    }
    PASS();
}

TEST pairs_at_random(void)
{
    uint64_t i;
    for (i = 0; i < 200000; i++) {
        uint64_t h = tc_hash(i + 555);
        CHECK_CALL(check_pair((uint32_t)h, (uint32_t)(h >> 32)));
    }
    PASS();
}

/* pu_normals reads the words in this order: counter (block + stream 2^30, sample, datum, step), key
   the seed. */
TEST normals_come_from_these_words(void)
{
    const uint64_t seed = UINT64_C(0xfedcba9876543210);
    const uint32_t datum = 17, sample = 4000000000u, step = 99, stream = 3;
    uint32_t block;
    for (block = 0; block < 5000; block++) {
        uint32_t key[2], counter[4], w[4];
        pu_real got[4];
        double want[4], radius;
        int i;
        key[0] = (uint32_t)seed;
        key[1] = (uint32_t)(seed >> 32);
        counter[0] = block | stream << 30;
        counter[1] = sample;
        counter[2] = datum;
        counter[3] = step;
        naive_philox(key, counter, w);
        naive_pair(w[0], w[1], want, &radius);
        naive_pair(w[2], w[3], want + 2, &radius);
        pu_normals(seed, datum, sample, step, stream, 4 * (uint64_t)block, 4, got);
        tc_set_case("block %d", (int)block);
        for (i = 0; i < 4; i++) TC_CLOSE(got[i], want[i], PAIR_TOLERANCE * fabs(want[i]));
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    RUN_TEST(philox_known_answers);
    RUN_TEST(philox_against_definition);
    RUN_TEST(any_split_gives_the_same_bits);
    RUN_TEST(order_of_calls_is_irrelevant);
    RUN_TEST(streams_are_uncorrelated);
    RUN_TEST(lags_are_uncorrelated);
    RUN_TEST(short_streams_are_uncorrelated);
    RUN_TEST(all_finite);
    RUN_TEST(moments);
    RUN_TEST(kolmogorov_smirnov);
    RUN_TEST(tails);
    RUN_TEST(pairs_at_the_edges);
    RUN_TEST(pairs_at_random);
    RUN_TEST(normals_come_from_these_words);
    PU_TEST_MAIN_END();
}

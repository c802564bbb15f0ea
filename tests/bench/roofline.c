/* roofline.c - what this machine can do, and the share of it that each kernel reaches. One thread.

   Limits, measured here: bytes per second in arrays that fit the second-level cache (192 kB in all) and in arrays that do not
   (128 MB, what a dot below reads), the better of a triad a = b + c d and of a sum that only reads; multiply-adds per second of 12 independent chains
   in registers, the better of 32 and 64 bytes a vector. A kernel's limit is
   the larger of its bytes over the bandwidth and its flops over the peak rate; the share is that limit over the time it took.
   Bytes: every array read or written once, and once more where it is written without having been read, since the cache
   fetches it first. A Fourier transform is set at 5 n log2 n flops. Shares a little above 100 % happen: neighbours on the
   machine disturb one measurement and not the other.
   Times are processor time, the best of many runs. Build: ./build.sh bench roofline (FFTW beside ours where it is there). */
#define _POSIX_C_SOURCE 200809L
#define PU_IMPLEMENTATION
#include "pu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef BENCH_FFTW
#include <fftw3.h>
#ifdef PU_FLOAT
#define FFTW(name) fftwf_##name
#else
#define FFTW(name) fftw_##name
#endif
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 64)) { fprintf(stderr, "roofline: out of memory\n"); exit(1); }
    memset(p, 0, bytes);
    return p;
}

static pu_real *reals(pu_int n)
{
    pu_real *x = (pu_real *)take((size_t)n * sizeof *x);
    pu_normals(1, 0, 0, 0, 3, 0, n, x);
    return x;
}

static void must(pu_status status)
{
    if (status != PU_OK) { fprintf(stderr, "roofline: %s\n", pu_status_text(status)); exit(1); }
}

/* Best seconds of one call: batches of at least a millisecond, for about a fifth of a second. */
static double best_of(void (*run)(void *), void *user)
{
    double best = 1e30, spent = 0, t;
    long batch = 1, i;
    int rounds;
    run(user);
    for (rounds = 0; rounds < 3 || spent < 0.2; rounds++) {
        double start = now();
        for (i = 0; i < batch; i++) run(user);
        t = now() - start, spent += t;
        if (t < 1e-3 && batch < 1 << 24) { batch *= 2, rounds = -1; continue; }
        if (t / (double)batch < best) best = t / (double)batch;
    }
    return best;
}

/* ---- limits ---- */

typedef struct {
    pu_int n;
    pu_real *a, *b, *c;
} triad;

static void triad_run(void *user)
{
    const triad *t = (const triad *)user;
    pu_real *a = t->a;
    const pu_real *b = t->b, *c = t->c;
    pu_int i;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (i = 0; i < t->n; i++) a[i] = b[i] + PU_R(0.999) * c[i];
}

#if defined(__GNUC__)
#define VECTOR(bytes) pu_real __attribute__((vector_size(bytes)))
#else
#define VECTOR(bytes) pu_real
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast"))) /* -std=c99 keeps multiplication and addition apart */
#else
#define FUSED
#endif
typedef VECTOR(32) vector32;
typedef VECTOR(64) vector64;
enum { CHAINS = 12, ROUNDS = 1000 };

static void sum_run(void *user) /* reads only: all of one array, eight sums abreast */
{
    const triad *t = (const triad *)user;
    const vector64 *x = (const vector64 *)(const void *)t->a;
    const pu_int n = t->n * (pu_int)sizeof(pu_real) / (pu_int)sizeof *x / 8;
    vector64 s[8];
    pu_int i;
    memset(s, 0, sizeof s);
    for (i = 0; i < n; i++, x += 8) {
        s[0] += x[0], s[1] += x[1], s[2] += x[2], s[3] += x[3];
        s[4] += x[4], s[5] += x[5], s[6] += x[6], s[7] += x[7];
    }
    *(vector64 *)(void *)t->b = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static double bandwidth(size_t bytes) /* bytes per second, three arrays of this many bytes together; then one */
{
    triad t;
    double s, r;
    t.n = (pu_int)(bytes / (3 * sizeof(pu_real))), t.a = reals(t.n), t.b = reals(t.n), t.c = reals(t.n);
    s = 4 * (double)t.n * (double)sizeof(pu_real) / best_of(triad_run, &t);
    free(t.a), free(t.b), free(t.c);
    t.n = (pu_int)(bytes / sizeof(pu_real)), t.a = reals(t.n), t.b = reals(64);
    r = (double)t.n * (double)sizeof(pu_real) / best_of(sum_run, &t);
    free(t.a), free(t.b);
    return r > s ? r : s;
}

/* 12 chains, each a vector of its own, so that they stay in registers: what no compiler promises of arrays. */
#define PEAK_RUN(name, vector)                                                                                                     \
    FUSED static void name(void *user)                                                                                             \
    {                                                                                                                              \
        vector *v = (vector *)user, x = v[12], y = v[13];                                                                          \
        vector a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5];                                                         \
        vector g = v[6], h = v[7], i = v[8], j = v[9], k = v[10], l = v[11];                                                       \
        int r;                                                                                                                     \
        for (r = 0; r < ROUNDS; r++) {                                                                                             \
            a = a * x + y, b = b * x + y, c = c * x + y, d = d * x + y, e = e * x + y, f = f * x + y;                              \
            g = g * x + y, h = h * x + y, i = i * x + y, j = j * x + y, k = k * x + y, l = l * x + y;                              \
        }                                                                                                                          \
        v[0] = a, v[1] = b, v[2] = c, v[3] = d, v[4] = e, v[5] = f;                                                                \
        v[6] = g, v[7] = h, v[8] = i, v[9] = j, v[10] = k, v[11] = l;                                                              \
    }
PEAK_RUN(peak_run32, vector32)
PEAK_RUN(peak_run64, vector64)

static double peak(void (*run)(void *), size_t vector) /* flops per second */
{
    const pu_int n = 14 * (pu_int)(vector / sizeof(pu_real));
    pu_real *v = (pu_real *)take((size_t)n * sizeof *v);
    double flops;
    pu_int i;
    for (i = 0; i < n; i++) v[i] = PU_R(0.5); /* settles at 1 */
    flops = 2.0 * CHAINS * ROUNDS * (double)(vector / sizeof(pu_real)) / best_of(run, v);
    free(v);
    return flops;
}

/* ---- kernels ---- */

typedef struct {
    const pu_backend *b;
    pu_int n, k;
    pu_block x, y, z, w;
    pu_real *s, *m, *work;
    pu_op op;
    pu_int *rows, count;
    pu_real *a, *keep;
    pu_fourier f;
#ifdef BENCH_FFTW
    FFTW(plan) there, back;
#endif
} kernel;

static double bytes_per_second, flops_per_second;

static void line(const char *name, double seconds, double bytes, double flops)
{
    const double memory = bytes / bytes_per_second, arithmetic = flops / flops_per_second;
    const double limit = memory > arithmetic ? memory : arithmetic;
    printf("  %-44s %10.2f us %8.1f GB/s %8.2f GF/s  %5.1f %% of %s\n", name, 1e6 * seconds, 1e-9 * bytes / seconds,
           1e-9 * flops / seconds, 100 * limit / seconds, memory > arithmetic ? "bandwidth" : "arithmetic");
}

static void run_dot(void *u) { kernel *k = (kernel *)u; k->b->dot(NULL, k->n, k->k, NULL, k->x, k->y, k->s); }

static void run_combine(void *u)
{
    kernel *k = (kernel *)u;
    pu_term t[2];
    memset(t, 0, sizeof t);
    t[0].x = k->x, t[0].scale = PU_R(0.5), t[1].x = k->y, t[1].scale = PU_R(0.25);
    k->b->combine(NULL, k->n, k->k, k->z, 2, t);
}

static void run_advance(void *u)
{
    kernel *k = (kernel *)u;
    k->b->advance(NULL, k->n, k->k, k->m, NULL, k->x, k->y, k->z, k->w, k->s);
}

static void run_retreat(void *u)
{
    kernel *k = (kernel *)u;
    k->b->retreat(NULL, k->n, k->k, k->m, k->m, NULL, k->x, k->w, k->z);
}

static void run_ar(void *u) { kernel *k = (kernel *)u; must(k->op.apply(&k->op, k->k, k->x, k->y, 0, NULL)); }

static void run_rows(void *u)
{
    kernel *k = (kernel *)u;
    must(k->op.apply_rows(&k->op, k->count, k->rows, k->k, k->x, k->y, 0, k->work));
}

static void run_rows_t(void *u)
{
    kernel *k = (kernel *)u;
    must(k->op.apply_rows_t(&k->op, k->count, k->rows, k->k, k->y, k->x, 0, k->work));
}

static void run_cholesky(void *u)
{
    kernel *k = (kernel *)u;
    must(pu_spd_factor(k->n, k->a, k->keep, NULL));
}

static void run_fourier(void *u)
{
    kernel *k = (kernel *)u;
    must(pu_fourier_run(&k->f, 0, k->a, k->keep, k->work));
    must(pu_fourier_run(&k->f, 1, k->a, k->keep, k->work));
}

#ifdef BENCH_FFTW
static void run_fftw(void *u)
{
    kernel *k = (kernel *)u;
    const pu_int n = k->n * k->n;
    const pu_real scale = PU_R(1) / (pu_real)n;
    pu_int i;
    FFTW(execute)(k->there);
    FFTW(execute)(k->back);
    for (i = 0; i < 2 * n; i++) k->a[i] *= scale; /* ours is unitary */
}
#endif

static pu_block block(pu_int n, pu_int k)
{
    pu_block b;
    b.at = reals(n * k), b.ld = n;
    return b;
}

static void vectors(pu_int n, pu_int columns)
{
    const double size = (double)sizeof(pu_real), all = (double)n * (double)columns;
    kernel k;
    char name[80];
    pu_int j;
    memset(&k, 0, sizeof k);
    k.b = pu_backend_cpu(), k.n = n, k.k = columns;
    k.x = block(n, columns), k.y = block(n, columns), k.z = block(n, columns), k.w = block(n, columns);
    k.s = reals(columns), k.m = reals(columns);
    for (j = 0; j < columns; j++) k.m[j] = PU_R(1e-3); /* so that nothing grows over many runs */
    snprintf(name, sizeof name, "dot, %ld x %ld", (long)n, (long)columns);
    line(name, best_of(run_dot, &k), 2 * all * size, 2 * all);
    snprintf(name, sizeof name, "combine of 2, %ld x %ld", (long)n, (long)columns);
    line(name, best_of(run_combine, &k), 4 * all * size, 3 * all);
    snprintf(name, sizeof name, "advance, %ld x %ld", (long)n, (long)columns);
    line(name, best_of(run_advance, &k), 6 * all * size, 6 * all);
    snprintf(name, sizeof name, "retreat, %ld x %ld", (long)n, (long)columns);
    line(name, best_of(run_retreat, &k), 5 * all * size, 4 * all);
    free(k.x.at), free(k.y.at), free(k.z.at), free(k.w.at), free(k.s), free(k.m);
}

static void ar_product(pu_int n, pu_int columns)
{
    static const pu_real gamma[5] = {PU_R(0.5), PU_R(-0.4), PU_R(0.3), PU_R(-0.2), PU_R(0.1)};
    const double all = (double)n * (double)columns;
    static pu_ar ar;
    kernel k;
    char name[80];
    memset(&k, 0, sizeof k);
    must(pu_ar_set(&ar, n, 5, gamma, PU_R(0.5), NULL));
    k.op = pu_op_ar(&ar), k.k = columns, k.x = block(n, columns), k.y = block(n, columns), k.s = reals(columns);
    k.keep = reals(n);
    snprintf(name, sizeof name, "AR(5) product + x'Ax, %ld x %ld", (long)n, (long)columns);
    line(name, best_of(run_ar, &k), 3 * all * (double)sizeof(pu_real), all * (2 * 11 + 2 + 2));
    free(k.x.at), free(k.y.at), free(k.s), free(k.keep);
}

static void gathered(pu_int D, pu_int rows, pu_int columns)
{
    const double flops = 2.0 * (double)D * (double)rows * (double)columns, size = (double)sizeof(pu_real);
    const double bytes = size * ((double)(D * rows) + (double)(D * columns) + (double)(rows * columns));
    kernel k;
    char name[80];
    pu_int i;
    memset(&k, 0, sizeof k);
    k.a = reals(20 * rows * D), k.op = pu_op_dense(20 * rows, D, k.a), k.k = columns, k.count = rows;
    k.rows = (pu_int *)take((size_t)rows * sizeof *k.rows);
    for (i = 0; i < rows; i++) k.rows[i] = 20 * i + i % 7;
    k.x = block(D, columns), k.y = block(rows, columns), k.work = reals(columns * (k.op.work + 1));
    snprintf(name, sizeof name, "gathered product %ld of rows, D %ld, %ld columns", (long)rows, (long)D, (long)columns);
    line(name, best_of(run_rows, &k), bytes, flops);
    snprintf(name, sizeof name, "  its transpose, %ld columns", (long)columns);
    line(name, best_of(run_rows_t, &k), bytes, flops);
    free(k.a), free(k.rows), free(k.x.at), free(k.y.at), free(k.work);
}

static void cholesky(pu_int n)
{
    kernel k;
    char name[80];
    pu_int i;
    memset(&k, 0, sizeof k);
    k.n = n, k.a = (pu_real *)take((size_t)(n * n) * sizeof(pu_real)), k.keep = reals(n * n);
    for (i = 0; i < n * n; i++) k.a[i] = i % (n + 1) == 0 ? PU_R(2) : PU_R(1) / (pu_real)n;
    snprintf(name, sizeof name, "Cholesky (spd_factor, checks included), %ld", (long)n);
    line(name, best_of(run_cholesky, &k), 1.5 * (double)(n * n) * (double)sizeof(pu_real), (double)(n * n) * (double)n / 3);
    free(k.a), free(k.keep);
}

static void fourier(pu_int side)
{
    const double n = (double)side * (double)side, flops = 2 * 5 * n * log2(n), bytes = 2 * 4 * n * (double)sizeof(pu_real);
    size_t size = 0;
    void *memory;
    kernel k;
    char name[80];
    memset(&k, 0, sizeof k);
    must(pu_fourier_bytes(side, side, &size));
    memory = take(size);
    must(pu_fourier_init(&k.f, side, side, memory, size));
    k.a = reals(side * side), k.keep = reals(side * side), k.work = reals(k.f.work), k.n = side;
    snprintf(name, sizeof name, "FFT %ld x %ld there and back", (long)side, (long)side);
    line(name, best_of(run_fourier, &k), bytes, flops);
    pu_fourier_free(&k.f);
    free(k.a), free(k.keep), free(k.work), free(memory);
#ifdef BENCH_FFTW
    {
        FFTW(complex) *at;
        k.a = reals(2 * side * side), at = (FFTW(complex) *)(void *)k.a;
        k.there = FFTW(plan_dft_2d)((int)side, (int)side, at, at, FFTW_FORWARD, FFTW_MEASURE);
        k.back = FFTW(plan_dft_2d)((int)side, (int)side, at, at, FFTW_BACKWARD, FFTW_MEASURE);
        pu_normals(1, 0, 0, 0, 3, 0, 2 * side * side, k.a);
        line("  the same by FFTW (measured plans, in place)", best_of(run_fftw, &k), bytes, flops);
        FFTW(destroy_plan)(k.there), FFTW(destroy_plan)(k.back);
        free(k.a);
    }
#endif
}

int main(void)
{
    const double cache = bandwidth(192 << 10), memory = bandwidth((size_t)128 << 20);
    const double narrow = peak(peak_run32, sizeof(vector32)), wide = peak(peak_run64, sizeof(vector64));
    flops_per_second = wide > narrow ? wide : narrow;
    printf("%s, one thread: %.1f GB/s in the second-level cache, %.1f GB/s beyond; multiply-adds %.1f GF/s\n",
           sizeof(pu_real) == 4 ? "float" : "double", 1e-9 * cache, 1e-9 * memory, 1e-9 * flops_per_second);
    bytes_per_second = cache;
    printf(" in the cache\n");
    vectors(2048, 11 * 4 / (pu_int)sizeof(pu_real));
    ar_product(2048, 11);
    gathered(100, 134, 4), gathered(100, 134, 11), gathered(100, 134, 16);
    gathered(1000, 134, 4), gathered(1000, 134, 11), gathered(1000, 134, 16); /* half a megabyte in float */
    cholesky(134);
    fourier(128);
    bytes_per_second = memory;
    printf(" beyond the cache\n");
    vectors(4000000, 4);
    ar_product(4000000, 4);
    cholesky(1000);
    return 0;
}

/* test_common.h - what several unit tests share: memory released after each test, messages that
   name the case, dense linear algebra in double written for plainness, and random models.

   Include after pu_test.h. Every array comes from its own allocation of the exact size, so that
   AddressSanitizer sees one element too many.
*/
#ifndef TEST_COMMON_H
#define TEST_COMMON_H

#include <stdlib.h>
#include <stdarg.h>
#include <string.h>

/* Is this the culprit's name, alone or with what would do in brackets behind it? */
PU_TEST_FN int tc_named(const char *what, const char *name)
{
    size_t length = strlen(name);
    return strcmp(what, name) == 0 || (strncmp(what, name, length) == 0 && strncmp(what + length, " (", 2) == 0);
}

/* ---- memory: kept until the test ends, however it ends --------------------------------------- */

static void **tc_kept;
static size_t tc_kept_count, tc_kept_room;

PU_TEST_FN void tc_keep(void *block)
{
    if (tc_kept_count == tc_kept_room) {
        tc_kept_room = 2 * tc_kept_room + 64;
        tc_kept = (void **)realloc(tc_kept, tc_kept_room * sizeof *tc_kept);
    }
    if (block == NULL || tc_kept == NULL) {
        fprintf(stderr, "test_common: out of memory\n");
        exit(2);
    }
    tc_kept[tc_kept_count++] = block;
}

PU_TEST_FN void *tc_bytes(size_t bytes)
{
    void *block = calloc(bytes > 0 ? bytes : 1, 1);
    tc_keep(block);
    return block;
}

/* Frees what was taken since the count stood at `mark`: for loops that take a lot. */
PU_TEST_FN void tc_release_to(size_t mark)
{
    while (tc_kept_count > mark) free(tc_kept[--tc_kept_count]);
}

/* For GREATEST_SET_TEARDOWN_CB. */
PU_TEST_FN void tc_release(void *unused)
{
    (void)unused;
    tc_release_to(0);
    free(tc_kept);
    tc_kept = NULL;
    tc_kept_room = 0;
}

PU_TEST_FN pu_real *tc_reals(pu_int n)
{
    return (pu_real *)tc_bytes((size_t)n * sizeof(pu_real));
}

PU_TEST_FN double *tc_doubles(pu_int n)
{
    return (double *)tc_bytes((size_t)n * sizeof(double));
}

PU_TEST_FN void *tc_hook_alloc(size_t bytes, void *user)
{
    (void)user;
    return tc_bytes(bytes);
}

PU_TEST_FN void tc_hook_free(void *block, size_t bytes, void *user)
{
    (void)block, (void)bytes, (void)user; /* goes with the rest when the test ends */
}

/* A workspace that needs no pu_workspace_free, so that a test may fail anywhere. */
PU_TEST_FN pu_workspace tc_workspace(void)
{
    pu_workspace ws;
    memset(&ws, 0, sizeof ws);
    ws.allocator.alloc = tc_hook_alloc;
    ws.allocator.free = tc_hook_free;
    return ws;
}

/* ---- messages: which case failed ------------------------------------------------------------- */

static char tc_case[256];
static char tc_text[1024];

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
PU_TEST_FN void
tc_set_case(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tc_case, sizeof tc_case, format, arguments);
    va_end(arguments);
}

PU_TEST_FN const char *tc_say(const char *message)
{
    snprintf(tc_text, sizeof tc_text, "[%s] %s", tc_case, message);
    return tc_text;
}

/* Assertions whose message starts with the case. */
#define TC_ASSERT(condition) GREATEST_ASSERTm(tc_say(#condition), condition)
#define TC_CLOSE(got, want, tol)                                                                   \
    GREATEST_ASSERTm(tc_say(pu_test_message),                                                      \
                     pu_test_close(#got, (double)(got), (double)(want), (double)(tol)))
#define TC_STATUS(got, want)                                                                       \
    do {                                                                                           \
        pu_status tc_got = (got), tc_want = (want);                                                \
        if (tc_got != tc_want) {                                                                   \
            snprintf(pu_test_message, sizeof pu_test_message, "%s: status %s, want %s", #got,      \
                     pu_status_name(tc_got), pu_status_name(tc_want));                             \
            GREATEST_FAILm(tc_say(pu_test_message));                                               \
        }                                                                                          \
    } while (0)

/* ---- numbers --------------------------------------------------------------------------------- */

/* A hash of 64 bits (splitmix64): masks and shapes must not depend on the library's own generator.
   */
PU_TEST_FN uint64_t tc_hash(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

PU_TEST_FN void tc_fill(pu_int n, pu_real *x, pu_real value)
{
    pu_int i;
    for (i = 0; i < n; i++) x[i] = value;
}

PU_TEST_FN void tc_fill_normal(uint64_t seed, pu_int n, pu_real *x)
{
    pu_normals(seed, 0, 0, 0, 0, 0, n, x);
}

PU_TEST_FN pu_real *tc_normal(uint64_t seed, pu_int n)
{
    pu_real *x = tc_reals(n);
    tc_fill_normal(seed, n, x);
    return x;
}

PU_TEST_FN pu_block tc_block(pu_real *at, pu_int ld)
{
    pu_block block;
    block.at = at;
    block.ld = ld;
    return block;
}

/* n x k normals, leading dimension ld, NaN between the columns; *seed moves on. */
PU_TEST_FN pu_block tc_random_block(uint64_t *seed, pu_int n, pu_int k, pu_int ld)
{
    pu_block b = tc_block(tc_reals(ld * (k - 1) + n), ld);
    pu_int j;
    tc_fill(ld * (k - 1) + n, b.at, PU_R(NAN));
    for (j = 0; j < k; j++) tc_fill_normal(++*seed, n, b.at + j * ld);
    return b;
}

/* column j in double */
PU_TEST_FN double *tc_column(pu_block b, pu_int n, pu_int j)
{
    double *x = tc_doubles(n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = (double)b.at[j * b.ld + i];
    return x;
}

/* ---- dense linear algebra, row-major, in double ---------------------------------------------- */

/* y = A x, A: rows x cols. */
PU_TEST_FN void tc_matvec(pu_int rows, pu_int cols, const double *a, const double *x, double *y)
{
    pu_int i, j;
    for (i = 0; i < rows; i++) {
        y[i] = 0;
        for (j = 0; j < cols; j++) y[i] += a[i * cols + j] * x[j];
    }
}

/* C = A B, A: n x m, B: m x k. */
PU_TEST_FN void tc_matmul(pu_int n, pu_int m, pu_int k, const double *a, const double *b, double *c)
{
    pu_int i, j, l;
    for (i = 0; i < n; i++) {
        for (j = 0; j < k; j++) {
            c[i * k + j] = 0;
            for (l = 0; l < m; l++) c[i * k + j] += a[i * m + l] * b[l * k + j];
        }
    }
}

/* Lower Cholesky factor in place, zeros above; 0 when A is not positive definite. */
PU_TEST_FN int tc_cholesky(pu_int n, double *a)
{
    pu_int i, j, l;
    for (j = 0; j < n; j++) {
        for (i = 0; i < j; i++) a[i * n + j] = 0;
        for (l = 0; l < j; l++) a[j * n + j] -= a[j * n + l] * a[j * n + l];
        if (!(a[j * n + j] > 0)) return 0;
        a[j * n + j] = sqrt(a[j * n + j]);
        for (i = j + 1; i < n; i++) {
            for (l = 0; l < j; l++) a[i * n + j] -= a[i * n + l] * a[j * n + l];
            a[i * n + j] /= a[j * n + j];
        }
    }
    return 1;
}

/* x := (L L')^-1 x */
PU_TEST_FN void tc_solve(pu_int n, const double *l, double *x)
{
    pu_int i, j;
    for (i = 0; i < n; i++) {
        for (j = 0; j < i; j++) x[i] -= l[i * n + j] * x[j];
        x[i] /= l[i * n + i];
    }
    for (i = n - 1; i >= 0; i--) {
        for (j = i + 1; j < n; j++) x[i] -= l[j * n + i] * x[j];
        x[i] /= l[i * n + i];
    }
}

PU_TEST_FN double tc_logdet(pu_int n, const double *l)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < n; i++) sum += 2 * log(l[i * n + i]);
    return sum;
}

/* inverse := (L L')^-1 */
PU_TEST_FN void tc_inverse(pu_int n, const double *l, double *inverse)
{
    double *column = tc_doubles(n);
    pu_int i, j;
    for (j = 0; j < n; j++) {
        for (i = 0; i < n; i++) column[i] = i == j;
        tc_solve(n, l, column);
        for (i = 0; i < n; i++) inverse[i * n + j] = column[i];
    }
}

PU_TEST_FN double tc_norm(pu_int n, const double *a)
{
    double sum = 0;
    pu_int i;
    for (i = 0; i < n; i++) sum += a[i] * a[i];
    return sqrt(sum);
}

/* Largest eigenvalue of a positive definite matrix, by a few hundred steps of the power method. */
PU_TEST_FN double tc_largest_eigenvalue(pu_int n, const double *a)
{
    double *x = tc_doubles(n), *y = tc_doubles(n), size = 1;
    pu_int i, step;
    for (i = 0; i < n; i++) x[i] = 1 + 0.1 * (double)(i % 3);
    for (step = 0; step < 300; step++) {
        tc_matvec(n, n, a, x, y);
        size = tc_norm(n, y);
        for (i = 0; i < n; i++) x[i] = y[i] / size;
    }
    return size;
}

/* Largest eigenvalue of the posterior precision with everything observed, times that of the prior's covariance: no
   datum's condition is larger, since Gamma <= A. */
PU_TEST_FN double tc_posterior_condition(const double *gamma, const double *phi, const pu_real *psi, pu_int D, pu_int M)
{
    double *a = tc_doubles(D * D), *inverse = tc_doubles(D * D), size, prior;
    pu_int i, j, m;
    memcpy(a, gamma, (size_t)(D * D) * sizeof *a);
    if (!tc_cholesky(D, a)) exit(2);
    tc_inverse(D, a, inverse);
    prior = tc_largest_eigenvalue(D, inverse);
    memcpy(a, gamma, (size_t)(D * D) * sizeof *a);
    for (m = 0; m < M; m++) {
        for (i = 0; i < D; i++) {
            for (j = 0; j < D; j++) a[i * D + j] += (double)psi[m] * phi[m * D + i] * phi[m * D + j];
        }
    }
    size = tc_largest_eigenvalue(D, a);
    return size * prior;
}

/* ---- random models --------------------------------------------------------------------------- */

typedef enum { TC_IDENTITY, TC_DIAGONAL, TC_SPD } tc_prior;

/* A model with everything switched on: nu, eta, unequal psi, about a quarter of the entries
   missing. */
typedef struct {
    pu_int D, M, N;
    pu_real *gamma; /* the prior's parameters: D (diagonal) or D x D (spd) */
    pu_real *factor, *phi, *nu, *eta, *psi, *y;
    unsigned char *mask;
    pu_op Gamma, Phi;
    pu_lgm lgm;
    pu_data data;
} tc_model;

/* Symmetric, eigenvalues above 1: B B' / n + I. */
PU_TEST_FN pu_real *tc_random_spd(uint64_t seed, pu_int n)
{
    pu_real *b = tc_normal(seed, n * n), *a = tc_reals(n * n);
    pu_int i, j, l;
    for (i = 0; i < n; i++) {
        for (j = 0; j <= i; j++) {
            double sum = i == j;
            for (l = 0; l < n; l++) sum += (double)b[i * n + l] * (double)b[j * n + l] / (double)n;
            a[i * n + j] = a[j * n + i] = (pu_real)sum;
        }
    }
    return a;
}

/* Positive, between about 1/5 and 5. */
PU_TEST_FN pu_real *tc_random_positive(uint64_t seed, pu_int n)
{
    pu_real *x = tc_normal(seed, n);
    pu_int i;
    for (i = 0; i < n; i++) x[i] = (pu_real)exp(0.5 * (double)x[i]);
    return x;
}

PU_TEST_FN void tc_random_prior(tc_model *t, tc_prior prior, uint64_t seed)
{
    switch (prior) {
    case TC_IDENTITY: t->Gamma = pu_op_identity(t->D); break;
    case TC_DIAGONAL:
        t->gamma = tc_random_positive(seed, t->D);
        t->Gamma = pu_op_diagonal(t->D, t->gamma);
        break;
    case TC_SPD:
        t->gamma = tc_random_spd(seed, t->D);
        t->factor = tc_reals(t->D * t->D);
        if (pu_spd_factor(t->D, t->gamma, t->factor, NULL) != PU_OK) exit(2);
        t->Gamma = pu_op_spd(t->D, t->gamma, t->factor);
        break;
    }
}

/* Fills *t; the struct must stay where it is, the model points into it. */
PU_TEST_FN void tc_random_model(tc_model *t, tc_prior prior, pu_int D, pu_int M, pu_int N,
                                uint64_t seed)
{
    double scale = 1 / sqrt((double)D);
    pu_int i;
    memset(t, 0, sizeof *t);
    t->D = D;
    t->M = M;
    t->N = N;
    tc_random_prior(t, prior, seed + 1);
    t->phi = tc_normal(seed + 2, M * D);
    for (i = 0; i < M * D; i++) t->phi[i] = (pu_real)(scale * (double)t->phi[i]);
    t->Phi = pu_op_dense(M, D, t->phi);
    t->nu = tc_normal(seed + 3, D);
    t->eta = tc_normal(seed + 4, M);
    t->psi = tc_random_positive(seed + 5, M);
    t->y = tc_normal(seed + 6, N * M);
    t->mask = (unsigned char *)tc_bytes((size_t)(N * M));
    for (i = 0; i < N * M; i++) t->mask[i] = tc_hash(seed + 7 + (uint64_t)i * 1000) % 4 != 0;
    t->lgm.Gamma = &t->Gamma;
    t->lgm.Phi = &t->Phi;
    t->lgm.nu = t->nu;
    t->lgm.eta = t->eta;
    t->lgm.psi = t->psi;
    t->data = pu_data_masked(N, M, t->y, t->mask);
}

/* ---- all the arrays a gradient can fill ------------------------------------------------------ */

/* One block holds them all, 16 or more bytes apart, so that one memcmp compares two runs and a
   write beyond the end of an array shows in the gap. */
typedef struct {
    pu_gradient_result out;
    unsigned char *bytes;
    size_t size;
    size_t gap[16], gap_end[16];
    int arrays;
} tc_outputs;

#define TC_PATTERN 0xa5

/* Hands out n elements from the block; without a block (first pass) it only counts. */
PU_TEST_FN void *tc_take(tc_outputs *o, pu_int n, size_t element)
{
    void *at = o->bytes ? o->bytes + o->size : NULL;
    o->gap[o->arrays] = o->size + (size_t)n * element;
    o->size = (o->gap[o->arrays] + 31) / 16 * 16;
    o->gap_end[o->arrays++] = o->size;
    return at;
}

PU_TEST_FN void tc_place_outputs(tc_outputs *o, const pu_lgm *lgm, pu_int N, pu_int K, pu_int I)
{
    pu_int D = lgm->Gamma->rows, M = lgm->Phi->rows, columns = N * (K + 1);
    size_t real = sizeof(pu_real);
    o->size = 0;
    o->arrays = 0;
    o->out.nu = (pu_real *)tc_take(o, D, real);
    o->out.Gamma = (pu_real *)tc_take(o, lgm->Gamma->params, real);
    o->out.Phi = (pu_real *)tc_take(o, lgm->Phi->params, real);
    o->out.eta = (pu_real *)tc_take(o, M, real);
    o->out.psi = (pu_real *)tc_take(o, M, real);
    o->out.x = (pu_real *)tc_take(o, columns * D, real);
    o->out.residual = (pu_real *)tc_take(o, columns * D, real);
    o->out.alpha = (pu_real *)tc_take(o, columns * I, real);
    o->out.beta = (pu_real *)tc_take(o, columns * I, real);
    o->out.logdet = (pu_real *)tc_take(o, N * K, real);
    o->out.columns = (pu_column *)tc_take(o, columns, sizeof(pu_column));
}

/* Every byte gets a pattern, so that a write of any value but this one shows. */
PU_TEST_FN void tc_spoil_outputs(tc_outputs *o)
{
    memset(o->bytes, TC_PATTERN, o->size);
}

/* Room for N data, K probes and I steps. */
PU_TEST_FN tc_outputs tc_make_outputs(const pu_lgm *lgm, pu_int N, pu_int K, pu_int I)
{
    tc_outputs o;
    memset(&o, 0, sizeof o);
    tc_place_outputs(&o, lgm, N, K, I);
    o.bytes = (unsigned char *)tc_bytes(o.size);
    tc_place_outputs(&o, lgm, N, K, I);
    tc_spoil_outputs(&o);
    return o;
}

PU_TEST_FN int tc_is_pattern(const unsigned char *bytes, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        if (bytes[i] != TC_PATTERN) return 0;
    }
    return 1;
}

PU_TEST_FN int tc_outputs_untouched(const tc_outputs *o)
{
    return tc_is_pattern(o->bytes, o->size);
}

PU_TEST_FN int tc_gaps_untouched(const tc_outputs *o)
{
    int i, ok = 1;
    for (i = 0; i < o->arrays; i++) {
        ok &= tc_is_pattern(o->bytes + o->gap[i], o->gap_end[i] - o->gap[i]);
    }
    return ok;
}

/* pu_solve with its arrays as arguments. */
PU_TEST_FN pu_status tc_pu_solve(const pu_op *A, pu_int k, const pu_real *U, pu_int ldu, pu_real *X, pu_int ldx, const pu_real *x0,
                              const pu_real *weight, const pu_solve_options *options, const pu_backend *backend,
                              pu_workspace *ws, pu_real *grad_A, pu_real *grad_U, pu_column *columns, pu_report *report)
{
    pu_solve_arrays arrays;
    memset(&arrays, 0, sizeof arrays);
    arrays.k = k;
    arrays.U = U;
    arrays.ldu = ldu;
    arrays.X = X;
    arrays.ldx = ldx;
    arrays.x0 = x0;
    arrays.weight = weight;
    arrays.grad_A = grad_A;
    arrays.grad_U = grad_U;
    arrays.columns = columns;
    return pu_solve(A, &arrays, options, backend, ws, report);
}

#endif /* TEST_COMMON_H */

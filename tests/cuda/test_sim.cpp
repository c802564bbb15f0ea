/* test_sim.cpp - the test of the tests: does the engine run correct CUDA programs right, and catch incorrect ones?

       test_sim                    all tests; the last line is "N passed, N failed"
       test_sim --fault NAME       one planted fault, in this process (the tests start themselves like this)
       test_sim --list             names of the planted faults
       test_sim --speed            launches per second

   Correct programs run in every order of threads and of streams. Each planted fault runs in a process of its own, which
   has to end badly and to say why.

   CONTENTS: >>harness  >>kernels  >>correct  >>streams  >>graphs  >>errors  >>libraries  >>faults  >>speed  >>main
*/
#include "sim.h"

#include <cublas_v2.h>
#include <cufft.h>
#ifdef PU_HAVE_CURAND
#include <curand.h>
#endif

#include <float.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <complex>
#include <string>
#include <thread>
#include <vector>

/* ------------------------------------------------------------------------------------------------
   >>harness
   ------------------------------------------------------------------------------------------------ */

static int n_passed, n_failed;
static const char *current_test;
static bool current_ok;

static void check(bool ok, const char *text, int line)
{
    if (ok) return;
    if (current_ok) printf("FAIL %s\n", current_test);
    printf("     line %d: %s\n", line, text);
    current_ok = false;
}
#define CHECK(x)                          check((x), #x, __LINE__)
#define CHECK_CUDA(x)                     check((x) == cudaSuccess, #x, __LINE__)
#define CHECK_CLOSE(got, want, tolerance) check(fabs((double)(got) - (double)(want)) <= (tolerance), #got " = " #want, __LINE__)

static void run_test(const char *name, void (*test)())
{
    current_test = name;
    current_ok = true;
    sim_reset();
    test();
    CHECK(cudaGetLastError() == cudaSuccess);
    sim_reset();
    CHECK(sim_leaks(stdout) == 0);
    (current_ok ? n_passed : n_failed)++;
}

template <class T> static T *device_new(size_t n)
{
    T *p = NULL;
    CHECK_CUDA(cudaMalloc(&p, n * sizeof(T)));
    return p;
}

template <class T> static T *to_device(const std::vector<T> &v)
{
    T *p = device_new<T>(v.size());
    CHECK_CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <class T> static std::vector<T> to_host(const T *p, size_t n)
{
    std::vector<T> v(n);
    CHECK_CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

/* Reproducible numbers in (-1, 1) */
static std::vector<double> numbers(size_t n, unsigned seed)
{
    std::vector<double> v(n);
    for (double &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = (double)(seed >> 8) / (1 << 23) - 1;
    }
    return v;
}

/* ------------------------------------------------------------------------------------------------
   >>kernels
   ------------------------------------------------------------------------------------------------ */

const unsigned ALL_LANES = 0xffffffffu;

__global__ void k_add(int n, const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += (int)(gridDim.x * blockDim.x))
        c[i] = __ldg(a + i) + b[i];
}

__global__ void k_scale(int n, double factor, double *x)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] *= factor;
}

__global__ void k_fill(int n, double value, double *x)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] = value;
}

/* One sum per block, by a tree in static shared memory. BARRIER = 0 plants the fault. */
template <int BARRIER> __global__ void __launch_bounds__(128) k_tree(int n, const double *x, double *sums)
{
    PU_SHARED_ARRAY(double, s, 128);
    int t = (int)threadIdx.x, i = (int)blockIdx.x * 128 + t;
    static_assert(sizeof(s) == 128 * sizeof(double), "an array, not a pointer");
    s[t] = i < n ? x[i] : 0;
    if (BARRIER) __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        if (BARRIER) __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

/* The same by shuffles, and one value per warp through dynamic shared memory */
template <class T> __global__ void k_warp_sum(int n, const T *x, T *sums)
{
    PU_DYN_SMEM(T, s);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    T v = 0;
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += (int)(gridDim.x * blockDim.x)) v += x[i];
    for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(ALL_LANES, v, (unsigned)k);
    if (lane == 0) s[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < warps ? s[lane] : T(0);
        for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(ALL_LANES, v, k);
        if (lane == 0) sums[blockIdx.x] = v;
    }
}

/* Sums of all blocks, added in order by the block that finishes last */
__global__ void k_last_block(int n, const double *x, double *sums, unsigned *ticket, double *total)
{
    PU_SHARED_ARRAY(unsigned, turn, 1);
    if (threadIdx.x == 0) {
        double v = 0;
        for (int i = (int)blockIdx.x; i < n; i += (int)gridDim.x) v += x[i];
        sums[blockIdx.x] = v;
        __threadfence();
        turn[0] = atomicAdd(ticket, 1u);
        __threadfence();
    }
    __syncthreads();
    if (turn[0] != gridDim.x - 1 || threadIdx.x != 0) return;
    double v = 0;
    for (unsigned b = 0; b < gridDim.x; b++) v += sums[b];
    *total = v;
}

/* Every kind of shuffle and vote, 16 results per lane. Lanes from 20 on have left before the second half. */
__global__ void k_votes(long long *out)
{
    int lane = (int)threadIdx.x;
    long long *o = out + 16 * lane;
    o[0] = __shfl_sync(ALL_LANES, lane * 10, 3);
    o[1] = __shfl_sync(ALL_LANES, lane * 10, 9, 8);
    o[2] = __shfl_up_sync(ALL_LANES, (long long)lane, 2);
    o[3] = __shfl_down_sync(ALL_LANES, lane, 5, 16);
    o[4] = __shfl_xor_sync(ALL_LANES, (unsigned)lane, 7);
    o[5] = __ballot_sync(ALL_LANES, lane % 3 == 0);
    o[6] = __any_sync(ALL_LANES, lane == 31);
    o[7] = __all_sync(ALL_LANES, lane < 31);
    o[8] = __popc(__activemask());
    if (lane >= 20) return;
    o[9] = __ballot_sync(ALL_LANES, 1); /* those that returned are not waited for */
    if (lane < 4) o[10] = __shfl_sync(0xfu, lane, 2);
    if (lane >= 4 && lane < 12) o[10] = __shfl_sync(0xff0u, lane, 11);
    __syncwarp(0xfffffu);
    o[11] = (long long)__shfl_sync(0xfffffu, (float)lane / 2, 19);
}

__global__ void k_exchange(int *out) /* through shared memory, with __syncwarp only */
{
    PU_SHARED_ARRAY(int, s, 64);
    int t = (int)threadIdx.x;
    s[t] = t;
    __syncwarp();
    int neighbour = s[t ^ 1];
    __syncwarp();
    s[t] = neighbour;
    __syncwarp();
    out[t] = s[t ^ 2];
}

__global__ void k_geometry(int *out)
{
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[b * blockDim.x * blockDim.y * blockDim.z + t] += (int)(b * 1000 + t);
}

struct vector_view {
    double *at;
    int n;
    double factor;
};
__global__ void k_view(vector_view v, const double *shift, float x)
{
    v.factor += x; /* a copy of each thread's own */
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < v.n) v.at[i] = v.at[i] * v.factor + (shift ? shift[i] : 0);
}

__global__ void k_nothing()
{
}

enum { BOUND = 64 };
static __global__ void __launch_bounds__(BOUND, 2) k_bounds()
{
}

__global__ void k_atomics(int *a, unsigned *b)
{
    atomicAdd(a, (int)threadIdx.x);
    atomicMax(a + 1, (int)threadIdx.x);
    atomicMin(a + 2, (int)threadIdx.x);
    atomicOr(b, 1u << threadIdx.x % 32);
    atomicAdd(b + 1, 2u);
    atomicCAS(b + 2, 7u, threadIdx.x);
}

__global__ void k_arithmetic(double *o)
{
    double s, c;
    float e = ldexpf(1, -12);
    o[0] = rsqrt(16.0);
    o[1] = rsqrtf(4.0f);
    sincospi(1e9 + 0.25, &s, &c);
    o[2] = s - sqrt(0.5);
    o[3] = c - sqrt(0.5);
    o[4] = __fma_rn(1 + DBL_EPSILON, 1 - DBL_EPSILON, -1);
    o[5] = __dadd_rn(__dmul_rn(1 + DBL_EPSILON, 1 - DBL_EPSILON), -1);
    o[6] = __fmaf_rn(1 + e, 1 - e, -1);
    o[7] = __umulhi(0xD2511F53u, 0xffffffffu);
    o[8] = __clz(1) + 100 * __clz(0) + 10000 * __ffs(8);
    o[9] = min(3, -2) + max(2.5, 1.5) + max(3u, 4u);
    o[10] = __popc(0xf0f0u) + __popcll(~0ull);
    o[11] = __uint_as_float(__float_as_uint(1.5f)) + __longlong_as_double(__double_as_longlong(2.5));
    o[12] = (double)__umul64hi(1ull << 63, 6);
    o[13] = __brev(1) == 0x80000000u;
}

__device__ static void philox_round(unsigned c[4], unsigned k0, unsigned k1)
{
    unsigned lo0 = 0xD2511F53u * c[0], hi0 = __umulhi(0xD2511F53u, c[0]);
    unsigned lo1 = 0xCD9E8D57u * c[2], hi1 = __umulhi(0xCD9E8D57u, c[2]);
    c[0] = hi1 ^ c[1] ^ k0;
    c[1] = lo1;
    c[2] = hi0 ^ c[3] ^ k1;
    c[3] = lo0;
}

/* Philox4x32-10 of the counters (c0, c1, c2 + thread, c3) */
__global__ void k_philox(int n, unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1, unsigned *out)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    unsigned c[4] = {c0, c1, c2 + (unsigned)i, c3};
    for (int r = 0; r < 10; r++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int r = 0; r < 4; r++) out[4 * i + r] = c[r];
}

/* ------------------------------------------------------------------------------------------------
   >>correct
   ------------------------------------------------------------------------------------------------ */

static void test_elementwise()
{
    for (int n : {1, 31, 32, 1000}) {
        std::vector<double> a = numbers((size_t)n, 1), b = numbers((size_t)n, 2);
        double *da = to_device(a), *db = to_device(b), *dc = device_new<double>((size_t)n);
        PU_LAUNCH(k_add, 3, 64, 0, 0, n, da, db, dc);
        std::vector<double> c = to_host(dc, (size_t)n);
        for (size_t i = 0; i < c.size(); i++) CHECK(c[i] == a[i] + b[i]);
        cudaFree(da), cudaFree(db), cudaFree(dc);
    }
}

static void test_reductions()
{
    const int n = 500;
    std::vector<double> x = numbers(n, 3);
    std::vector<float> xf(x.begin(), x.end());
    double sum = 0;
    for (double v : x) sum += v;
    double *dx = to_device(x), *ds = device_new<double>(4);
    float *dxf = to_device(xf), *dsf = device_new<float>(2);
    PU_LAUNCH(k_tree<1>, 4, 128, 0, 0, n, dx, ds);
    double got = 0;
    for (double v : to_host(ds, 4)) got += v;
    CHECK_CLOSE(got, sum, 1e-13);
    PU_LAUNCH(k_warp_sum<double>, 2, 96, 3 * sizeof(double), 0, n, dx, ds);
    got = 0;
    for (double v : to_host(ds, 2)) got += v;
    CHECK_CLOSE(got, sum, 1e-13);
    PU_LAUNCH((k_warp_sum<float>), 2, 96, 3 * sizeof(float), 0, n, dxf, dsf);
    got = 0;
    for (float v : to_host(dsf, 2)) got += v;
    CHECK_CLOSE(got, sum, 1e-4);
    cudaFree(dx), cudaFree(ds), cudaFree(dxf), cudaFree(dsf);
}

/* More blocks than the engine has fibers and shared memory for at a time, and blocks as large as they may be */
static void test_many_blocks()
{
    const int blocks = 100, n = 128 * blocks;
    std::vector<double> x(n), ones(4096, 1.0);
    for (int i = 0; i < n; i++) x[(size_t)i] = i % 128 + i / 128;
    double *dx = to_device(x), *ds = device_new<double>(blocks), *done = to_device(ones);
    PU_LAUNCH(k_tree<1>, blocks, 128, 0, 0, n, dx, ds);
    std::vector<double> s = to_host(ds, blocks);
    for (int b = 0; b < blocks; b++) CHECK(s[(size_t)b] == 127 * 64 + 128.0 * b);
    PU_LAUNCH(k_warp_sum<double>, 1, 1024, 32 * sizeof(double), 0, 4096, done, ds);
    CHECK(to_host(ds, 1)[0] == 4096);
    cudaFree(dx), cudaFree(ds), cudaFree(done);
}

static void test_last_block()
{
    const int n = 100, blocks = 7;
    std::vector<double> x = numbers(n, 4);
    double sum = 0, *dx = to_device(x), *ds = device_new<double>(blocks), *total = device_new<double>(1);
    unsigned *ticket = device_new<unsigned>(1);
    for (int b = 0; b < blocks; b++) {
        double v = 0;
        for (int i = b; i < n; i += blocks) v += x[(size_t)i];
        sum += v;
    }
    cudaMemset(ticket, 0, sizeof *ticket);
    PU_LAUNCH(k_last_block, blocks, 32, 0, 0, n, dx, ds, ticket, total);
    CHECK(to_host(total, 1)[0] == sum); /* the same order of additions whatever block is last */
    cudaFree(dx), cudaFree(ds), cudaFree(total), cudaFree(ticket);
}

static void test_warp_operations()
{
    long long *d = device_new<long long>(16 * 32);
    PU_LAUNCH(k_votes, 1, 32, 0, 0, d);
    std::vector<long long> o = to_host(d, 16 * 32);
    unsigned thirds = 0;
    for (int l = 0; l < 32; l += 3) thirds |= 1u << l;
    for (int l = 0; l < 32; l++) {
        const long long *p = &o[(size_t)(16 * l)];
        CHECK(p[0] == 30);
        CHECK(p[1] == 10 * (l / 8 * 8 + 1));
        CHECK(p[2] == (l < 2 ? l : l - 2));
        CHECK(p[3] == (l % 16 + 5 < 16 ? l + 5 : l));
        CHECK(p[4] == (l ^ 7));
        CHECK(p[5] == thirds);
        CHECK(p[6] == 1 && p[7] == 0);
        CHECK(p[8] >= 1 && p[8] <= 32);
        if (l >= 20) continue;
        CHECK(p[9] == 0xfffff);
        if (l < 12) CHECK(p[10] == (l < 4 ? 2 : 11));
        CHECK(p[11] == 9);
    }
    cudaFree(d);
    int *e = device_new<int>(64);
    PU_LAUNCH(k_exchange, 1, 64, 0, 0, e);
    std::vector<int> x = to_host(e, 64);
    for (int t = 0; t < 64; t++) CHECK(x[(size_t)t] == (t ^ 3));
    cudaFree(e);
}

static void test_geometry_and_arguments()
{
    const int n = 2 * 3 * 2 * 4 * 2 * 3;
    int *d = to_device(std::vector<int>(n, 7));
    PU_LAUNCH(k_geometry, dim3(2, 3, 2), dim3(4, 2, 3), 0, 0, d);
    std::vector<int> o = to_host(d, n);
    for (int i = 0; i < n; i++) CHECK(o[(size_t)i] == 7 + i / 24 * 1000 + i % 24);
    cudaFree(d);

    double *x = to_device(std::vector<double>(10, 2.0));
    vector_view view = {x, 10, 3};
    PU_LAUNCH(k_view, 2, 5, 0, NULL, view, NULL, 1);          /* int to float, NULL to pointer */
    PU_LAUNCH(k_view, 2, 5, 0, NULL, view, (double *)x, 0.5); /* double to float, double * to const double * */
    view.n = 0;                                               /* launched with the value it had */
    for (double v : to_host(x, 10)) CHECK(v == 8 * 3.5 + 8);
    cudaFree(x);
    PU_LAUNCH(k_nothing, 1, 1, 0, 0);
    CHECK_CUDA(cudaDeviceSynchronize());
}

static void test_atomics_and_arithmetic()
{
    int *a = to_device(std::vector<int>{0, -1, 99});
    unsigned *b = to_device(std::vector<unsigned>{0, 0, 7});
    PU_LAUNCH(k_atomics, 1, 40, 0, 0, a, b);
    std::vector<int> ha = to_host(a, 3);
    std::vector<unsigned> hb = to_host(b, 3);
    CHECK(ha[0] == 780 && ha[1] == 39 && ha[2] == 0);
    CHECK(hb[0] == ALL_LANES && hb[1] == 80 && hb[2] < 40);
    double *o = device_new<double>(14);
    PU_LAUNCH(k_arithmetic, 1, 1, 0, 0, o);
    std::vector<double> v = to_host(o, 14);
    CHECK(v[0] == 0.25 && v[1] == 0.5);
    CHECK(fabs(v[2]) < 1e-15 && fabs(v[3]) < 1e-15);
    CHECK(v[4] == -DBL_EPSILON * DBL_EPSILON && v[5] == 0);
    CHECK(v[6] == -ldexp(1, -24));
    CHECK(v[7] == 0xD2511F52u && v[8] == 31 + 3200 + 40000 && v[9] == -2 + 2.5 + 4 && v[10] == 8 + 64);
    CHECK(v[11] == 4 && v[12] == 3 && v[13] == 1);
    cudaFree(a), cudaFree(b), cudaFree(o);
}

static void test_philox()
{
    unsigned *d = device_new<unsigned>(4),
             pi[] = {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u};
    struct {
        unsigned c[4], k[2], want[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
        {{pi[0], pi[1], pi[2], pi[3]}, {pi[4], pi[5]}, {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
    };
    for (auto &k : known) {
        PU_LAUNCH(k_philox, 1, 1, 0, 0, 1, k.c[0], k.c[1], k.c[2], k.c[3], k.k[0], k.k[1], d);
        std::vector<unsigned> o = to_host(d, 4);
        for (size_t i = 0; i < 4; i++) CHECK(o[i] == k.want[i]);
    }
    cudaFree(d);
}

/* ------------------------------------------------------------------------------------------------
   >>streams
   ------------------------------------------------------------------------------------------------ */

struct two_streams {
    cudaStream_t a, b;
    cudaEvent_t event;
    two_streams()
    {
        CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    ~two_streams()
    {
        CHECK_CUDA(cudaStreamDestroy(a));
        CHECK_CUDA(cudaStreamDestroy(b));
        CHECK_CUDA(cudaEventDestroy(event));
    }
};

template <class T> static T *pinned_new(size_t n)
{
    T *p = NULL;
    CHECK_CUDA(cudaMallocHost(&p, n * sizeof(T)));
    return p;
}

static void test_streams_with_events()
{
    const int n = 100;
    two_streams s;
    double *x = device_new<double>(n), *host = pinned_new<double>(n);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < n; i++) host[i] = i + round;
        CHECK_CUDA(cudaMemcpyAsync(x, host, sizeof(double) * n, cudaMemcpyHostToDevice, s.a));
        PU_LAUNCH(k_scale, 4, 32, 0, s.a, n, 3.0, x);
        CHECK_CUDA(cudaEventRecord(s.event, s.a));
        CHECK_CUDA(cudaStreamWaitEvent(s.b, s.event, 0));
        PU_LAUNCH(k_scale, 4, 32, 0, s.b, n, 2.0, x);
        CHECK_CUDA(cudaMemcpyAsync(host, x, sizeof(double) * n, cudaMemcpyDeviceToHost, s.b));
        CHECK_CUDA(cudaEventRecord(s.event, s.b));
        if (round % 2) {
            CHECK_CUDA(cudaEventSynchronize(s.event));
        } else {
            cudaError_t e;
            while ((e = cudaEventQuery(s.event)) == cudaErrorNotReady) CHECK(cudaGetLastError() == cudaErrorNotReady);
            CHECK_CUDA(e);
        }
        for (int i = 0; i < n; i++) CHECK(host[i] == 6.0 * (i + round));
    }
    CHECK_CUDA(cudaStreamQuery(s.b));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFreeHost(host));
}

static void test_pageable_copies()
{
    cudaStream_t s;
    CHECK_CUDA(cudaStreamCreate(&s));
    double source[4] = {1, 2, 3, 4}, result[4] = {0}, *x = device_new<double>(4);
    CHECK_CUDA(cudaMemcpyAsync(x, source, sizeof source, cudaMemcpyHostToDevice, s));
    source[2] = 30; /* read already */
    PU_LAUNCH(k_scale, 1, 4, 0, s, 4, 10.0, x);
    CHECK_CUDA(cudaMemcpyAsync(result, x, sizeof result, cudaMemcpyDeviceToHost, s));
    for (int i = 0; i < 4; i++) CHECK(result[i] == 10.0 * (i + 1)); /* into pageable memory: has waited */
    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK_CUDA(cudaFree(x));
}

/* Stream 0 waits for streams that were made without the non-blocking flag, and they for it. */
static void test_default_stream()
{
    cudaStream_t s;
    CHECK_CUDA(cudaStreamCreate(&s));
    double *x = device_new<double>(8);
    CHECK_CUDA(cudaMemset(x, 0, 8 * sizeof(double)));
    PU_LAUNCH(k_fill, 1, 8, 0, s, 8, 3.0, x);
    PU_LAUNCH(k_scale, 1, 8, 0, 0, 8, 5.0, x);
    PU_LAUNCH(k_scale, 1, 8, 0, s, 8, 7.0, x);
    for (double v : to_host(x, 8)) CHECK(v == 105);
    PU_LAUNCH(k_scale, 1, 8, 0, s, 8, 2.0, x);
    CHECK_CUDA(cudaStreamDestroy(s)); /* its work is still done */
    for (double v : to_host(x, 8)) CHECK(v == 210);
    CHECK_CUDA(cudaFree(x));
}

static void test_rectangles()
{
    std::vector<double> a = numbers(5 * 7, 5), b(3 * 4);
    double *x = to_device(a), *y = device_new<double>(3 * 4);
    size_t d = sizeof(double);
    CHECK_CUDA(cudaMemcpy2DAsync(y, 4 * d, x + 1, 7 * d, 4 * d, 3, cudaMemcpyDeviceToDevice, 0));
    CHECK_CUDA(cudaMemcpy2D(b.data(), 4 * d, y, 4 * d, 4 * d, 3, cudaMemcpyDefault));
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++) CHECK(b[i * 4 + j] == a[i * 7 + j + 1]);
    cudaFree(x), cudaFree(y);
}

static void test_host_threads()
{
    auto work = [](double value) {
        cudaStream_t s;
        double *x = NULL, result[10] = {0};
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaMalloc(&x, sizeof result);
        for (int i = 0; i < 20; i++) {
            PU_LAUNCH(k_fill, 1, 10, 0, s, 10, value, x);
            PU_LAUNCH(k_scale, 1, 10, 0, s, 10, 2.0, x);
            cudaMemcpyAsync(result, x, sizeof result, cudaMemcpyDeviceToHost, s);
            for (double r : result)
                if (r != 2 * value) abort();
        }
        cudaFree(x);
        cudaStreamDestroy(s);
    };
    std::thread a(work, 1.0), b(work, 2.0);
    a.join();
    b.join();
}

/* ------------------------------------------------------------------------------------------------
   >>graphs
   ------------------------------------------------------------------------------------------------ */

static void test_graph_replayed()
{
    const int n = 10;
    cudaStream_t s;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    cudaStreamCaptureStatus status;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    double *x = device_new<double>(n), *host = pinned_new<double>(n);
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK_CUDA(cudaMemcpyAsync(x, host, n * sizeof(double), cudaMemcpyHostToDevice, s));
    PU_LAUNCH(k_scale, 1, 32, 0, s, n, 3.0, x);
    CHECK_CUDA(cudaMemcpyAsync(host, x, n * sizeof(double), cudaMemcpyDeviceToHost, s));
    CHECK_CUDA(cudaStreamEndCapture(s, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&run, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK(sim_count().launches == 0); /* recorded, not done */
    for (int i = 0; i < n; i++) host[i] = i;
    CHECK_CUDA(cudaGraphLaunch(run, s));
    CHECK_CUDA(cudaGraphLaunch(run, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) CHECK(host[i] == 9.0 * i);
    CHECK(sim_count().launches == 2 && sim_count().graph_launches == 2 && sim_count().copies_to_host == 2);
    CHECK_CUDA(cudaGraphExecDestroy(run));
    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFreeHost(host));
}

static void test_graph_fork_and_join()
{
    const int n = 10;
    two_streams s;
    cudaEvent_t joined;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    CHECK_CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    double *x = device_new<double>(n), *y = device_new<double>(n);
    CHECK_CUDA(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
    PU_LAUNCH(k_fill, 1, 32, 0, s.a, n, 1.0, x);
    CHECK_CUDA(cudaEventRecord(s.event, s.a));
    CHECK_CUDA(cudaStreamWaitEvent(s.b, s.event, 0)); /* fork */
    PU_LAUNCH(k_add, 1, 32, 0, s.b, n, x, x, y);
    PU_LAUNCH(k_scale, 1, 32, 0, s.b, n, 5.0, y);
    CHECK_CUDA(cudaEventRecord(joined, s.b));
    CHECK_CUDA(cudaStreamWaitEvent(s.a, joined, 0)); /* join */
    PU_LAUNCH(k_add, 1, 32, 0, s.a, n, x, y, x);
    CHECK_CUDA(cudaStreamEndCapture(s.a, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&run, graph, 0));
    for (int i = 0; i < 2; i++) CHECK_CUDA(cudaGraphLaunch(run, s.b));
    CHECK_CUDA(cudaStreamSynchronize(s.b));
    for (double v : to_host(x, n)) CHECK(v == 11);
    CHECK_CUDA(cudaGraphExecDestroy(run));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaEventDestroy(joined));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
}

/* Begins a capture, does something forbidden, and expects that error from it and `end` from the end of the capture. */
template <class F> static void check_capture(F forbidden, cudaError_t error, cudaError_t end)
{
    cudaStream_t s;
    cudaGraph_t graph = NULL;
    CHECK_CUDA(cudaStreamCreate(&s));
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(forbidden(s) == error);
    CHECK(cudaStreamEndCapture(s, &graph) == end);
    CHECK(graph == NULL);
    cudaGetLastError();
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void test_forbidden_in_captures()
{
    static double pageable[4];
    two_streams other;
    void *x = device_new<double>(4), *y = NULL;
    const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported, spoilt = cudaErrorStreamCaptureInvalidated;
    cudaEventRecord(other.event, other.a);
    check_capture([&](cudaStream_t s) { return cudaStreamSynchronize(s); }, unsupported, spoilt);
    check_capture([&](cudaStream_t s) { return cudaStreamQuery(s); }, unsupported, spoilt);
    check_capture([&](cudaStream_t) { return cudaDeviceSynchronize(); }, unsupported, spoilt);
    check_capture([&](cudaStream_t) { return cudaMalloc(&y, 8); }, unsupported, spoilt);
    check_capture([&](cudaStream_t) { return cudaMallocHost(&y, 8); }, unsupported, spoilt);
    check_capture([&](cudaStream_t) { return cudaFree(x); }, unsupported, spoilt);
    check_capture([&](cudaStream_t) { return cudaMemcpy(x, pageable, 8, cudaMemcpyHostToDevice); }, unsupported, spoilt);
    check_capture([&](cudaStream_t s) { return cudaMemcpyAsync(x, pageable, 8, cudaMemcpyHostToDevice, s); }, unsupported,
                  spoilt);
    check_capture([&](cudaStream_t s) { return cudaMemcpyAsync(pageable, x, 8, cudaMemcpyDeviceToHost, s); }, unsupported,
                  spoilt);
    check_capture([&](cudaStream_t) { return cudaMemsetAsync(x, 0, 8, 0), cudaGetLastError(); }, cudaErrorStreamCaptureImplicit,
                  spoilt);
    check_capture([&](cudaStream_t s) { return cudaStreamWaitEvent(s, other.event, 0); }, cudaErrorStreamCaptureIsolation,
                  spoilt);
    check_capture(
        [&](cudaStream_t s) {
            cudaEventRecord(other.event, s);
            return cudaEventSynchronize(other.event);
        },
        cudaErrorCapturedEvent, spoilt);
    check_capture(
        [&](cudaStream_t s) {
            cudaEventRecord(other.event, s);
            cudaStreamWaitEvent(other.b, other.event, 0);
            return cudaMemsetAsync(x, 0, 8, other.b);
        },
        cudaSuccess, cudaErrorStreamCaptureUnjoined);
    CHECK_CUDA(cudaFree(x));
}

/* ------------------------------------------------------------------------------------------------
   >>errors
   ------------------------------------------------------------------------------------------------ */

static void check_refused_launch(dim3 grid, dim3 block, size_t shared, cudaError_t error)
{
    PU_LAUNCH(k_nothing, grid, block, shared, 0);
    CHECK(cudaPeekAtLastError() == error);
    CHECK(cudaGetLastError() == error);
    CHECK(cudaGetLastError() == cudaSuccess);
}

static void test_refused_launches()
{
    check_refused_launch(0, 32, 0, cudaErrorInvalidConfiguration);
    check_refused_launch(1, 0, 0, cudaErrorInvalidConfiguration);
    check_refused_launch(1, 1025, 0, cudaErrorInvalidConfiguration);
    check_refused_launch(1, dim3(32, 33), 0, cudaErrorInvalidConfiguration);
    check_refused_launch(1, dim3(1, 1, 65), 0, cudaErrorInvalidConfiguration);
    check_refused_launch(dim3(1, 65536), 1, 0, cudaErrorInvalidConfiguration);
    check_refused_launch(1, 1, (48 << 10) + 1, cudaErrorInvalidValue);
    check_refused_launch(1, 1, 48 << 10, cudaSuccess);
    CHECK(cudaFuncSetAttribute(k_nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK_CUDA(cudaFuncSetAttribute(k_nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10));
    check_refused_launch(1, 1, 60 << 10, cudaSuccess);
    check_refused_launch(1, 1, (60 << 10) + 1, cudaErrorInvalidValue);
    CHECK_CUDA(cudaFuncSetAttribute(k_nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 << 10));
    PU_LAUNCH(k_tree<1>, 1, 129, 0, 0, 0, NULL, NULL); /* its __launch_bounds__ are 128 */
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    PU_LAUNCH(k_bounds, 1, 65, 0, 0);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    PU_LAUNCH(k_bounds, 1, dim3(8, 8), 0, 0);
    CHECK(cudaGetLastError() == cudaSuccess);
    PU_LAUNCH(k_nothing, 1, 1, 0, (cudaStream_t)&n_failed);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
}

static void test_refused_calls()
{
    static double host[4];
    double *x = device_new<double>(4), *y = device_new<double>(4);
    cudaStream_t s;
    CHECK(cudaMemcpy(x, host, 33, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(x + 1, host, 32, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(x, host, 32, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(host, x, 32, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(x, host, 32, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(x, host, 32, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    CHECK(cudaMemset(x, 0, 33) == cudaErrorInvalidValue);
    CHECK(cudaMemset(host, 0, 8) == cudaErrorInvalidValue);
    CHECK(cudaFree(x + 1) == cudaErrorInvalidValue);
    CHECK(cudaFree(host) == cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(x));
    CHECK(cudaFree(x) == cudaErrorInvalidValue);
    CHECK(cudaMemset(x, 0, 8) == cudaErrorInvalidValue);
    CHECK(cudaFreeHost(host) == cudaErrorInvalidValue);
    CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
    CHECK_CUDA(cudaStreamCreate(&s));
    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaStreamDestroy(s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaMemcpyAsync(y, host, 8, cudaMemcpyHostToDevice, s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaFree(NULL));
    CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
    CHECK(strlen(cudaGetErrorString(cudaErrorMemoryAllocation)) > 0);
}

/* Streams and events belong to a device: another one that is current does not serve. */
static void test_devices()
{
    cudaStream_t s;
    cudaEvent_t e;
    int n = 0;
    sim_devices(2);
    CHECK_CUDA(cudaGetDeviceCount(&n));
    CHECK(n == 2 && cudaSetDevice(2) == cudaErrorInvalidDevice);
    CHECK_CUDA(cudaStreamCreate(&s));
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_CUDA(cudaEventCreate(&e));
    CHECK(cudaGetDevice(&n) == cudaSuccess && n == 1);
    CHECK(cudaEventRecord(e, s) == cudaErrorInvalidResourceHandle);
    double *x = device_new<double>(4);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    PU_LAUNCH(k_fill, 1, 32, 0, s, 4, 2.0, x);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    PU_LAUNCH(k_fill, 1, 32, 0, 0, 4, 2.0, x);
    CHECK(cudaGetLastError() == cudaSuccess && to_host(x, 4)[3] == 2);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaStreamDestroy(s));
    sim_reset();
    CHECK(cudaGetDevice(&n) == cudaSuccess && n == 0);
}

static void test_pointers()
{
    double *x = device_new<double>(4), *h = pinned_new<double>(4), stack;
    cudaPointerAttributes a;
    CHECK_CUDA(cudaPointerGetAttributes(&a, x + 3));
    CHECK(a.type == cudaMemoryTypeDevice);
    CHECK_CUDA(cudaPointerGetAttributes(&a, h));
    CHECK(a.type == cudaMemoryTypeHost);
    CHECK_CUDA(cudaPointerGetAttributes(&a, &stack));
    CHECK(a.type == cudaMemoryTypeUnregistered);
    CHECK(sim_is_device(x, 32) && !sim_is_device(x, 33) && !sim_is_device(x - 1, 8) && !sim_is_device(h, 1));
    CHECK(sim_is_pinned(h, 32) && !sim_is_pinned(h, 33) && !sim_is_pinned(x, 1));
    PU_LAUNCH(k_fill, 1, 4, 0, 0, 4, 3.0, h); /* pinned memory can be written by kernels */
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(h[3] == 3);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFreeHost(h));
}

/* A program that allocates in every way; returns whether something failed, and cleans up. */
static bool allocate_everything()
{
    void *x = NULL, *h = NULL;
    cudaStream_t s = NULL;
    cudaEvent_t e = NULL;
    cublasHandle_t b = NULL;
    cufftHandle f = CUFFT_PLAN_NULL;
    bool failed = cudaMalloc(&x, 100) != cudaSuccess || cudaMallocHost(&h, 100) != cudaSuccess ||
                  cudaStreamCreate(&s) != cudaSuccess || cudaEventCreate(&e) != cudaSuccess ||
                  cublasCreate(&b) != CUBLAS_STATUS_SUCCESS || cufftPlan1d(&f, 8, CUFFT_Z2Z, 1) != CUFFT_SUCCESS;
    if (x) cudaFree(x);
    if (h) cudaFreeHost(h);
    if (s) cudaStreamDestroy(s);
    if (e) cudaEventDestroy(e);
    if (b) cublasDestroy(b);
    if (f != CUFFT_PLAN_NULL) cufftDestroy(f);
    return failed;
}

static void test_injected_failures()
{
    int n = 0;
    for (n = 1; n < 50; n++) {
        sim_fail_allocation(n);
        bool failed = allocate_everything();
        CHECK(sim_leaks(stdout) == 0);
        cudaGetLastError();
        if (!failed) break;
        CHECK(!allocate_everything()); /* once only */
    }
    CHECK(n == 8); /* seven allocations: a cuFFT plan has a work area */
    sim_fail_allocation(-2);
    CHECK(allocate_everything() && allocate_everything());
    sim_fail_allocation(0);
    CHECK(!allocate_everything());
    cudaGetLastError();

    double *x = device_new<double>(4);
    sim_fail_launch(2);
    PU_LAUNCH(k_fill, 1, 4, 0, 0, 4, 1.0, x);
    CHECK_CUDA(cudaGetLastError());
    PU_LAUNCH(k_fill, 1, 4, 0, 0, 4, 2.0, x);
    CHECK(cudaGetLastError() == cudaErrorLaunchOutOfResources);
    for (double v : to_host(x, 4)) CHECK(v == 1);
    sim_fail_copy(1);
    CHECK(cudaMemset(x, 0, 8) != cudaSuccess);
    CHECK_CUDA(cudaMemset(x, 0, 8));
    cudaGetLastError();

    sim_fail_execution(1); /* accepted, fails when it runs, and takes the device with it */
    sim_stream_order(SIM_LAZY);
    PU_LAUNCH(k_fill, 1, 4, 0, 0, 4, 1.0, x);
    CHECK_CUDA(cudaGetLastError());
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure && cudaGetLastError() == cudaErrorLaunchFailure);
    void *y = NULL;
    CHECK(cudaMalloc(&y, 8) == cudaErrorLaunchFailure);
    CHECK(cudaFree(x) == cudaErrorLaunchFailure);
    sim_reset();
    CHECK(sim_leaks(stdout) == 0); /* freed all the same */
}

static void test_no_device()
{
    int n = -1;
    void *x = NULL;
    cublasHandle_t b;
    cufftHandle f;
    sim_no_device(1);
    CHECK(cudaGetDeviceCount(&n) == cudaErrorNoDevice && n == 0);
    CHECK(cudaMalloc(&x, 8) == cudaErrorNoDevice);
    CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
    CHECK(cublasCreate(&b) != CUBLAS_STATUS_SUCCESS && cufftCreate(&f) != CUFFT_SUCCESS);
    PU_LAUNCH(k_nothing, 1, 1, 0, 0);
    CHECK(cudaGetLastError() == cudaErrorNoDevice);
    sim_no_device(cudaErrorInsufficientDriver);
    CHECK(cudaGetDeviceCount(&n) == cudaErrorInsufficientDriver);
    sim_no_device(0);
    cudaGetLastError();
    CHECK_CUDA(cudaGetDeviceCount(&n));
    CHECK(n == 1);
    CHECK_CUDA(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0));
    CHECK(n > 0);
    cudaDeviceProp p;
    CHECK_CUDA(cudaGetDeviceProperties(&p, 0));
    CHECK(p.warpSize == 32);
}

static void test_memory_and_counters()
{
    size_t free_bytes, total;
    double *x, *y = NULL;
    sim_device_memory(1 << 20);
    CHECK_CUDA(cudaMalloc(&x, 1 << 19));
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == 1 << 20 && free_bytes == 1 << 19);
    CHECK(cudaMalloc(&y, (1 << 19) + 1) == cudaErrorMemoryAllocation && y == NULL);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(sim_count().live_allocations == 1 && sim_count().live_bytes == 1 << 19 && sim_count().allocations == 1);
    CHECK(sim_leaks(NULL) == 1);
    double h[2] = {1, 2};
    CHECK_CUDA(cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice));
    PU_LAUNCH(k_scale, 1, 32, 0, 0, 2, 2.0, x);
    CHECK_CUDA(cudaMemcpy(h, x, 8, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaDeviceSynchronize());
    sim_counters c = sim_count();
    CHECK(c.copies_to_device == 1 && c.bytes_to_device == 16 && c.copies_to_host == 1 && c.bytes_to_host == 8);
    CHECK(c.launches == 1 && c.synchronisations == 3);
    CHECK_CUDA(cudaFree(x));
    CHECK(sim_count().live_bytes == 0 && sim_count().peak_bytes == 1 << 19);

    /* Many allocations of odd sizes, given back in another order: none may overlap. */
    sim_device_memory((size_t)1 << 30);
    std::vector<unsigned char *> p(300);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < p.size(); i++) {
            CHECK_CUDA(cudaMalloc(&p[i], i * 37 + 1));
            CHECK((uintptr_t)p[i] % 256 == 0);
            CHECK_CUDA(cudaMemset(p[i], (int)i, i * 37 + 1));
        }
        for (size_t i = 0; i < p.size(); i++) {
            size_t k = i * 7 % p.size();
            unsigned char last;
            CHECK_CUDA(cudaMemcpy(&last, p[k] + k * 37, 1, cudaMemcpyDeviceToHost));
            CHECK(last == (unsigned char)k);
            CHECK_CUDA(cudaFree(p[k]));
        }
    }
    for (int i = 0; i < 40; i++) { /* more than is kept back */
        CHECK_CUDA(cudaMalloc(&x, 8 << 20));
        CHECK_CUDA(cudaFree(x));
    }
}

/* ------------------------------------------------------------------------------------------------
   >>libraries
   ------------------------------------------------------------------------------------------------ */

template <class T>
static cublasStatus_t any_gemm(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m, int n, int k, const T *alpha,
                               const T *A, int lda, long long sa, const T *B, int ldb, long long sb, const T *beta, T *C,
                               int ldc, long long sc, int batch)
{
    if constexpr (sizeof(T) == 8)
        return batch == 1 ? cublasDgemm(h, a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)
                          : cublasDgemmStridedBatched(h, a, b, m, n, k, alpha, A, lda, sa, B, ldb, sb, beta, C, ldc, sc, batch);
    else
        return batch == 1 ? cublasSgemm(h, a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)
                          : cublasSgemmStridedBatched(h, a, b, m, n, k, alpha, A, lda, sa, B, ldb, sb, beta, C, ldc, sc, batch);
}

template <class T> static void check_gemm(int batch, bool device_scalars)
{
    const int m = 5, n = 4, k = 3, ld = 7, plane = ld * 7;
    std::vector<double> r = numbers((size_t)(3 * plane * batch), 6);
    std::vector<T> a(r.begin(), r.begin() + plane * batch), b(r.begin() + plane * batch, r.begin() + 2 * plane * batch);
    std::vector<T> c(r.begin() + 2 * plane * batch, r.end()), scalars = {(T)1.5, (T)-0.5};
    T *da = to_device(a), *db = to_device(b), *dc = device_new<T>(c.size()), *ds = to_device(scalars);
    cublasHandle_t h;
    cudaStream_t s;
    CHECK(cublasCreate(&h) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaStreamCreate(&s));
    CHECK(cublasSetStream(h, s) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasSetMathMode(h, CUBLAS_PEDANTIC_MATH) == CUBLAS_STATUS_SUCCESS);
    cublasSetPointerMode(h, device_scalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
    const T *alpha = device_scalars ? ds : scalars.data(), *beta = alpha + 1;
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            CHECK_CUDA(cudaMemcpyAsync(dc, c.data(), c.size() * sizeof(T), cudaMemcpyHostToDevice, s));
            CHECK(any_gemm<T>(h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, alpha, da, ld, plane,
                              db, ld, plane, beta, dc, ld, plane, batch) == CUBLAS_STATUS_SUCCESS);
            std::vector<T> got = to_host(dc, c.size());
            for (int q = 0; q < batch; q++)
                for (int j = 0; j < n; j++)
                    for (int i = 0; i < m; i++) {
                        const T *A = &a[(size_t)(q * plane)], *B = &b[(size_t)(q * plane)];
                        double sum = 0;
                        for (int l = 0; l < k; l++)
                            sum += (double)A[ta ? l + i * ld : i + l * ld] * (double)B[tb ? j + l * ld : l + j * ld];
                        size_t at = (size_t)(q * plane + i + j * ld);
                        CHECK_CLOSE(got[at], 1.5 * sum - 0.5 * (double)c[at], sizeof(T) == 8 ? 1e-14 : 1e-5);
                    }
        }
    CHECK(any_gemm<T>(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha, da, m - 1, 0, db, ld, 0, beta, dc, ld, 0, 1) ==
          CUBLAS_STATUS_INVALID_VALUE);
    sim_fail_launch(1);
    CHECK(any_gemm<T>(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha, da, ld, 0, db, ld, 0, beta, dc, ld, 0, 1) ==
          CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(cublasDestroy(h) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaStreamDestroy(s));
    cudaFree(da), cudaFree(db), cudaFree(dc), cudaFree(ds);
}

static void test_gemm()
{
    check_gemm<double>(1, false);
    check_gemm<double>(3, true);
    check_gemm<float>(1, true);
    check_gemm<float>(2, false);
}

typedef std::complex<double> complex_double;

/* Sum over all points of an n1 by n2 array, straight from the definition */
static complex_double slow_dft(const complex_double *x, int n1, int n2, int stride, int row, int f1, int f2, int sign)
{
    complex_double sum = 0;
    for (int i = 0; i < n1; i++)
        for (int j = 0; j < n2; j++)
            sum += x[i * row + j * stride] * std::polar(1.0, sign * 2 * M_PI * ((double)f1 * i / n1 + (double)f2 * j / n2));
    return sum;
}

static void test_fft()
{
    /* A batch of 3 transforms of 6 points, interleaved with stride 3 and distance 1, in place, work area of our own */
    int n = 6, batch = 3, embed = 6;
    std::vector<double> r = numbers((size_t)(4 * n * batch), 9);
    std::vector<complex_double> x((size_t)(n * batch));
    for (size_t i = 0; i < x.size(); i++) x[i] = {r[2 * i], r[2 * i + 1]};
    complex_double *dx = to_device(x), *dy = device_new<complex_double>(x.size());
    cufftHandle plan;
    cudaStream_t s;
    size_t bytes = 0;
    void *work = NULL;
    CHECK_CUDA(cudaStreamCreate(&s));
    CHECK(cufftCreate(&plan) == CUFFT_SUCCESS);
    CHECK(cufftSetAutoAllocation(plan, 0) == CUFFT_SUCCESS);
    CHECK(cufftMakePlanMany(plan, 1, &n, &embed, 3, 1, &embed, 3, 1, CUFFT_Z2Z, batch, &bytes) == CUFFT_SUCCESS);
    CHECK(cufftSetStream(plan, s) == CUFFT_SUCCESS);
    cufftDoubleComplex *z = (cufftDoubleComplex *)dx;
    CHECK(cufftExecZ2Z(plan, z, z, CUFFT_FORWARD) == CUFFT_NO_WORKSPACE);
    CHECK_CUDA(cudaMalloc(&work, bytes));
    CHECK(cufftSetWorkArea(plan, work) == CUFFT_SUCCESS);
    CHECK(cufftExecZ2Z(plan, z, z, CUFFT_FORWARD) == CUFFT_SUCCESS);
    std::vector<complex_double> y = to_host(dx, x.size());
    for (int b = 0; b < batch; b++)
        for (int f = 0; f < n; f++)
            CHECK(std::abs(y[(size_t)(f * 3 + b)] - slow_dft(&x[(size_t)b], 1, n, 3, 0, 0, f, -1)) < 1e-13);
    CHECK(cufftExecZ2Z(plan, z, (cufftDoubleComplex *)dy, CUFFT_INVERSE) == CUFFT_SUCCESS);
    y = to_host(dy, x.size());
    for (size_t i = 0; i < x.size(); i++) CHECK(std::abs(y[i] - (double)n * x[i]) < 1e-13);
    CHECK(cufftDestroy(plan) == CUFFT_SUCCESS);

    /* 3 by 6 in two dimensions; float in one */
    CHECK(cufftCreate(&plan) == CUFFT_SUCCESS);
    CHECK(cufftMakePlan2d(plan, 3, 6, CUFFT_Z2Z, &bytes) == CUFFT_SUCCESS);
    CHECK_CUDA(cudaMemcpy(dx, x.data(), x.size() * sizeof x[0], cudaMemcpyHostToDevice));
    CHECK(cufftExecZ2Z(plan, z, (cufftDoubleComplex *)dy, CUFFT_FORWARD) == CUFFT_SUCCESS);
    y = to_host(dy, x.size());
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 6; j++) CHECK(std::abs(y[(size_t)(i * 6 + j)] - slow_dft(x.data(), 3, 6, 1, 6, i, j, -1)) < 1e-13);
    CHECK(cufftDestroy(plan) == CUFFT_SUCCESS);

    std::vector<std::complex<float>> xf(x.begin(), x.end());
    std::complex<float> *df = to_device(xf);
    CHECK(cufftPlanMany(&plan, 1, &n, NULL, 1, 0, NULL, 1, 0, CUFFT_C2C, batch) == CUFFT_SUCCESS);
    CHECK(cufftExecC2C(plan, (cufftComplex *)df, (cufftComplex *)df, CUFFT_FORWARD) == CUFFT_SUCCESS);
    CHECK(cufftExecZ2Z(plan, z, z, CUFFT_FORWARD) == CUFFT_INVALID_TYPE);
    std::vector<std::complex<float>> yf = to_host(df, xf.size());
    for (int b = 0; b < batch; b++)
        for (int f = 0; f < n; f++)
            CHECK(std::abs(complex_double(yf[(size_t)(b * n + f)]) - slow_dft(&x[(size_t)(b * n)], 1, n, 1, 0, 0, f, -1)) <
                  1e-5);
    CHECK(cufftDestroy(plan) == CUFFT_SUCCESS);
    CHECK_CUDA(cudaStreamDestroy(s));
    cudaFree(dx), cudaFree(dy), cudaFree(work), cudaFree(df);
}

/* Libraries are part of captures and wait for their streams like kernels. */
static void test_libraries_in_graphs()
{
    const int n = 4;
    cudaStream_t s;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    cublasHandle_t h;
    double one = 1, zero = 0, *a = device_new<double>(n * n), *x = device_new<double>(n), *y = device_new<double>(n);
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cublasCreate(&h) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasSetStream(h, s) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    PU_LAUNCH(k_fill, 1, 32, 0, s, n * n, 2.0, a);
    CHECK(cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, 1, n, &one, a, n, x, n, &zero, y, n) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaMemcpyAsync(x, y, n * sizeof(double), cudaMemcpyDeviceToDevice, s));
    CHECK_CUDA(cudaStreamEndCapture(s, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&run, graph, 0));
    one = 7; /* was read when it was recorded */
    PU_LAUNCH(k_fill, 1, 32, 0, s, n, 1.0, x);
    CHECK_CUDA(cudaGraphLaunch(run, s));
    CHECK_CUDA(cudaGraphLaunch(run, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    for (double v : to_host(x, n)) CHECK(v == 64);
    CHECK(cublasDestroy(h) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaGraphExecDestroy(run));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaStreamDestroy(s));
    cudaFree(a), cudaFree(x), cudaFree(y);
}

#ifdef PU_HAVE_CURAND
/* The real cuRAND on the host. Its default order: words 4 i .. 4 i + 3 are Philox of the counter (0, 0, i, 0). */
static void test_curand()
{
    const int n = 1000;
    const unsigned long long seed = 0x123456789abcdefull;
    std::vector<unsigned> want(4 * n);
    curandGenerator_t generator;
    CHECK(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10) == CURAND_STATUS_SUCCESS);
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, seed) == CURAND_STATUS_SUCCESS);
    CHECK(curandGenerate(generator, want.data(), want.size()) == CURAND_STATUS_SUCCESS);
    CHECK(curandDestroyGenerator(generator) == CURAND_STATUS_SUCCESS);
    unsigned *d = device_new<unsigned>(want.size());
    PU_LAUNCH(k_philox, (n + 63) / 64, 64, 0, 0, n, 0, 0, 0, 0, (unsigned)seed, (unsigned)(seed >> 32), d);
    CHECK(to_host(d, want.size()) == want);
    cudaFree(d);
}
#endif

/* ------------------------------------------------------------------------------------------------
   >>faults   Each of these programs is wrong. It has to end with a message, and not with exit status 0.
   ------------------------------------------------------------------------------------------------ */

[[noreturn]] static void wrong_numbers()
{
    fprintf(stderr, "wrong numbers\n");
    exit(1);
}

/* Runs the program in the three orders. Not the same three times: somebody depends on luck. */
template <class F> static void compare_orders(F program)
{
    sim_thread_order(SIM_FORWARD);
    auto forward = program();
    sim_thread_order(SIM_REVERSE);
    auto reverse = program();
    sim_thread_order(SIM_RANDOM);
    auto random = program();
    size_t bytes = forward.size() * sizeof forward[0];
    if (memcmp(forward.data(), reverse.data(), bytes) == 0 && memcmp(forward.data(), random.data(), bytes) == 0) return;
    fprintf(stderr, "results differ between the orders of threads\n");
    exit(1);
}

__global__ void k_neighbour(const int *values, int *out) /* reads what another thread writes, with nothing between */
{
    PU_SHARED_ARRAY(int, s, 64);
    int t = (int)threadIdx.x;
    s[t] = values[t];
    out[t] = s[(t + 1) % 64];
}

static void fault_race_in_block()
{
    std::vector<int> v(64, 3);
    int *in = to_device(v), *out = device_new<int>(64);
    compare_orders([=]() {
        PU_LAUNCH(k_neighbour, 1, 64, 0, 0, in, out);
        return to_host(out, 64);
    });
}

static void fault_missing_barrier()
{
    double *x = to_device(numbers(128, 1)), *sum = device_new<double>(1);
    compare_orders([=]() {
        PU_LAUNCH(k_tree<0>, 1, 128, 0, 0, 128, x, sum);
        return to_host(sum, 1);
    });
}

/* Between two barriers one thread writes what others read: quick threads must not hide slow ones */
__global__ void k_missing_middle(int *out)
{
    PU_SHARED_ARRAY(int, s, 32);
    int t = (int)threadIdx.x;
    s[t] = t;
    __syncthreads();
    int v = s[(t + 1) % 32];
    s[t] = v + 1;
    __syncthreads();
    out[t] = s[t];
}

static void fault_missing_middle_barrier()
{
    int *out = device_new<int>(32);
    compare_orders([=]() {
        PU_LAUNCH(k_missing_middle, 1, 32, 0, 0, out);
        return to_host(out, 32);
    });
}

__global__ void k_no_syncwarp(int *out)
{
    PU_SHARED_ARRAY(int, s, 32);
    int t = (int)threadIdx.x;
    s[t] = t;
    __syncwarp();
    s[t] += s[t ^ 1];
    out[t] = s[t];
}

static void fault_missing_syncwarp()
{
    int *out = device_new<int>(32);
    compare_orders([=]() {
        PU_LAUNCH(k_no_syncwarp, 1, 32, 0, 0, out);
        return to_host(out, 32);
    });
}

__global__ void k_all_write(int *out)
{
    *out = (int)blockIdx.x;
}

static void fault_race_between_blocks()
{
    int *out = device_new<int>(1);
    compare_orders([=]() {
        PU_LAUNCH(k_all_write, 5, 1, 0, 0, out);
        return to_host(out, 1);
    });
}

__global__ void k_write_at(double *x, long at)
{
    if (threadIdx.x == 1) x[at] = 1;
}

__global__ void k_read_at(const double *x, long at, double *out)
{
    if (threadIdx.x == 0) *out = x[at];
}

static void fault_global_write_after_end()
{
    double *x = device_new<double>(10);
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, x, 10);
    cudaDeviceSynchronize();
}

static void fault_global_write_before_begin()
{
    double *x = device_new<double>(10);
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, x, -1);
    cudaDeviceSynchronize();
}

static void fault_global_write_odd_size()
{
    double *x = NULL;
    cudaMalloc(&x, 77); /* nine and a half: byte 77 and on are out */
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, x, 9);
    cudaDeviceSynchronize();
}

static void fault_global_read()
{
    std::vector<double> v(10, 1.0);
    double *x = to_device(v), *out = device_new<double>(1);
    PU_LAUNCH(k_read_at, 1, 1, 0, 0, x, 10, out);
    if (to_host(out, 1)[0] != 1) wrong_numbers();
}

static void fault_global_far()
{
    double *x = device_new<double>(10);
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, x, 1 << 28);
    cudaDeviceSynchronize();
}

static void fault_global_uninitialised()
{
    double *x = device_new<double>(10), *out = device_new<double>(1);
    PU_LAUNCH(k_read_at, 1, 1, 0, 0, x, 3, out);
    if (!(fabs(to_host(out, 1)[0]) < 1)) wrong_numbers();
}

static void fault_null_pointer()
{
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, NULL, 0);
    cudaDeviceSynchronize();
}

static void fault_read_after_free()
{
    std::vector<double> v(10, 1.0);
    double *x = to_device(v), *out = device_new<double>(1);
    cudaFree(x);
    PU_LAUNCH(k_read_at, 1, 1, 0, 0, x, 3, out);
    if (to_host(out, 1)[0] != 1) wrong_numbers();
}

static void fault_write_after_free()
{
    double *x = device_new<double>(10);
    cudaFree(x);
    PU_LAUNCH(k_write_at, 1, 32, 0, 0, x, 3);
    cudaDeviceSynchronize();
    sim_leaks(NULL);
}

__global__ void k_shared_write(int at)
{
    PU_SHARED_ARRAY(int, first, 10);
    PU_SHARED_ARRAY(int, second, 10);
    int *p = second; /* through a pointer, where the compiler knows no bounds */
    first[threadIdx.x] = 1;
    p[at] = 1;
}

static void fault_shared_write_after_end()
{
    PU_LAUNCH(k_shared_write, 1, 2, 0, 0, 10);
    cudaDeviceSynchronize();
}

static void fault_shared_write_before_begin()
{
    PU_LAUNCH(k_shared_write, 1, 2, 0, 0, -1);
    cudaDeviceSynchronize();
}

__global__ void k_dynamic_write(int at)
{
    PU_DYN_SMEM(double, s);
    s[at] = 1;
}

static void fault_dynamic_shared_write()
{
    PU_LAUNCH(k_dynamic_write, 1, 1, 10 * sizeof(double), 0, 10);
    cudaDeviceSynchronize();
}

__global__ void k_shared_uninitialised(double *out)
{
    PU_SHARED_ARRAY(double, s, 4);
    if (threadIdx.x < 3) s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}

static void fault_shared_uninitialised()
{
    double *out = device_new<double>(2);
    PU_LAUNCH(k_shared_uninitialised, 2, 32, 0, 0, out); /* the second block does not get the first one's numbers */
    if (!(fabs(to_host(out, 2)[1]) < 100)) wrong_numbers();
}

__global__ void k_large_shared(double *out)
{
    PU_DYN_SMEM(double, d);
    PU_SHARED_ARRAY(double, s, 4000);
    s[0] = d[0] = 1;
    *out = s[0];
}

static void fault_shared_too_large()
{
    double *out = device_new<double>(1);
    PU_LAUNCH(k_large_shared, 1, 1, 17 << 10, 0, out);
    cudaDeviceSynchronize();
}

__global__ void k_divergent(int kind)
{
    if (kind == 0 && threadIdx.x < 5) __syncthreads();
    if (kind == 1) {
        if (threadIdx.x >= 60) return;
        __syncthreads();
    }
    if (kind == 2) {
        if (threadIdx.x % 2)
            __syncthreads();
        else
            __syncthreads();
    }
    if (kind == 3) {
        if (threadIdx.x < 32)
            __syncthreads();
        else if (threadIdx.x > 40)
            __shfl_sync(ALL_LANES, 1, 0);
    }
}

static void fault_barrier_in_branch()
{
    PU_LAUNCH(k_divergent, 1, 64, 0, 0, 0);
    cudaDeviceSynchronize();
}

static void fault_barrier_after_return()
{
    PU_LAUNCH(k_divergent, 1, 64, 0, 0, 1);
    cudaDeviceSynchronize();
}

static void fault_two_barriers()
{
    PU_LAUNCH(k_divergent, 1, 64, 0, 0, 2);
    cudaDeviceSynchronize();
}

static void fault_barrier_and_shuffle()
{
    PU_LAUNCH(k_divergent, 1, 64, 0, 0, 3);
    cudaDeviceSynchronize();
}

__global__ void k_wrong_mask(int kind, int *out)
{
    int lane = (int)threadIdx.x, v = 0;
    if (kind == 0) v = __shfl_sync(0xffu, lane, 0); /* lanes 8 .. 31 are not in it */
    if (kind == 1) {                                /* some wait for others that do not wait for them */
        v = lane < 16 ? __shfl_sync(0xffffu, lane, 0) : __shfl_sync(ALL_LANES, lane, 0);
        __syncthreads();
    }
    if (kind == 2) { /* the same mask at two places */
        if (lane < 16)
            v = __shfl_sync(ALL_LANES, lane, 0);
        else
            v = (int)__ballot_sync(ALL_LANES, 1);
    }
    if (kind == 3) { /* half of the lanes never come */
        if (lane < 16) v = __shfl_xor_sync(ALL_LANES, lane, 1);
        __syncthreads();
    }
    if (kind == 4) v = lane < 31 ? __shfl_sync(0x7fffffffu, 1, 31) : 1; /* reads a lane that is not there */
    out[lane] = v;
}

template <int KIND> static void fault_mask()
{
    int *out = device_new<int>(32);
    PU_LAUNCH(k_wrong_mask, 1, 32, 0, 0, KIND, out);
    for (int v : to_host(out, 32))
        if (v != 1) wrong_numbers();
}

__device__ static int dig(volatile int *p, int depth)
{
    volatile int hole[1000];
    hole[depth % 1000] = *p;
    return depth == 0 ? hole[0] : dig(hole + depth % 1000, depth - 1) + hole[depth % 1000];
}

__global__ void k_deep(int *out)
{
    *out = dig(out, 100000);
}

static void fault_stack_overflow()
{
    int *out = device_new<int>(1);
    PU_LAUNCH(k_deep, 1, 1, 0, 0, out);
    cudaDeviceSynchronize();
}

static void fault_host_reads_device()
{
    volatile double *x = to_device(numbers(10, 1));
    if (x[3] > 5) exit(2);
}

static void fault_host_writes_device()
{
    double *x = device_new<double>(10);
    PU_LAUNCH(k_fill, 1, 32, 0, 0, 10, 1.0, x);
    cudaDeviceSynchronize();
    *(volatile double *)x = 1;
}

static void fault_host_pointer_parameter()
{
    double x[10];
    PU_LAUNCH(k_fill, 1, 32, 0, 0, 10, 1.0, x);
    cudaDeviceSynchronize();
}

static void fault_memory_of_another_device()
{
    double *x = device_new<double>(4);
    sim_devices(2);
    cudaSetDevice(1);
    PU_LAUNCH(k_fill, 1, 32, 0, 0, 4, 2.0, x);
    cudaDeviceSynchronize();
}

static void fault_host_pointer_in_structure()
{
    static double x[6 << 20];
    vector_view view = {x, 10, 1};
    if (((uintptr_t)x & 0xffffffffu) < 1 << 24) view.at += 3 << 20; /* such an address is not taken for one */
    PU_LAUNCH(k_view, 1, 32, 0, 0, view, NULL, 0);
    cudaDeviceSynchronize();
}

static void fault_missing_event_wait()
{
    two_streams s;
    double *x = device_new<double>(10), *out = pinned_new<double>(10);
    PU_LAUNCH(k_fill, 1, 32, 0, s.a, 10, 1.0, x);
    PU_LAUNCH(k_scale, 1, 32, 0, s.b, 10, 2.0, x);
    cudaMemcpyAsync(out, x, 80, cudaMemcpyDeviceToHost, s.b);
    cudaStreamSynchronize(s.b);
    if (out[5] != 2) wrong_numbers();
}

static void fault_missing_wait_in_graph()
{
    two_streams s;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t end;
    double *x = device_new<double>(10);
    cudaEventCreate(&end);
    cudaStreamBeginCapture(s.a, cudaStreamCaptureModeGlobal);
    cudaEventRecord(s.event, s.a); /* too early: before the work the other stream needs */
    cudaStreamWaitEvent(s.b, s.event, 0);
    PU_LAUNCH(k_fill, 1, 32, 0, s.a, 10, 1.0, x);
    PU_LAUNCH(k_scale, 1, 32, 0, s.b, 10, 2.0, x);
    cudaEventRecord(end, s.b);
    cudaStreamWaitEvent(s.a, end, 0);
    cudaStreamEndCapture(s.a, &graph);
    cudaGraphInstantiate(&run, graph, 0);
    cudaGraphLaunch(run, s.a);
    cudaStreamSynchronize(s.a);
    if (to_host(x, 10)[5] != 2) wrong_numbers();
}

static void fault_staging_reused()
{
    cudaStream_t s;
    double *x = device_new<double>(20), *stage = pinned_new<double>(10);
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 10; i++) stage[i] = half; /* while the first copy may not have read it */
        cudaMemcpyAsync(x + 10 * half, stage, 80, cudaMemcpyHostToDevice, s);
    }
    cudaStreamSynchronize(s);
    if (to_host(x, 20)[5] != 0) wrong_numbers();
}

static void fault_result_read_early()
{
    cudaStream_t s;
    double *x = device_new<double>(10), *out = pinned_new<double>(10);
    cudaStreamCreate(&s);
    PU_LAUNCH(k_fill, 1, 32, 0, s, 10, 1.0, x);
    cudaMemcpyAsync(out, x, 80, cudaMemcpyDeviceToHost, s);
    if (out[5] != 1) wrong_numbers(); /* without waiting for the stream */
}

static void fault_stream_zero_does_not_wait()
{
    two_streams s; /* non-blocking */
    double *x = to_device(std::vector<double>(10, 0.0));
    PU_LAUNCH(k_fill, 1, 32, 0, s.a, 10, 1.0, x);
    if (to_host(x, 10)[5] != 1) wrong_numbers();
}

static void fault_synchronise_in_capture()
{
    cudaStream_t s;
    cudaGraph_t graph;
    double *x = device_new<double>(10);
    cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    PU_LAUNCH(k_fill, 1, 32, 0, s, 10, 1.0, x);
    cudaError_t first = cudaStreamSynchronize(s), second = cudaStreamEndCapture(s, &graph);
    fprintf(stderr, "%s, then %s\n", cudaGetErrorName(first), cudaGetErrorName(second));
    exit(first != cudaSuccess && second != cudaSuccess);
}

static void fault_gemm_outside()
{
    cublasHandle_t h;
    double one = 1, *x = device_new<double>(15);
    cublasCreate(&h);
    cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x, 4, x, 4, &one, x, 4);
}

static void fault_fft_outside()
{
    cufftHandle plan;
    cufftDoubleComplex *x = device_new<cufftDoubleComplex>(15);
    cufftPlan1d(&plan, 16, CUFFT_Z2Z, 1);
    cufftExecZ2Z(plan, x, x, CUFFT_FORWARD);
}

static void fault_scalar_of_wrong_kind()
{
    cublasHandle_t h;
    double *one = to_device(std::vector<double>(1, 1.0)), *x = device_new<double>(16);
    cublasCreate(&h); /* expects alpha and beta on the host */
    cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, one, x, 4, x, 4, one, x, 4);
}

static void fault_trap()
{
    struct {
        static void kernel()
        {
            if (threadIdx.x == 7) __trap();
        }
    } local;
    PU_LAUNCH(local.kernel, 1, 32, 0, 0);
    cudaDeviceSynchronize();
}

/* What each has to say. NULL for a sanitizer: as without one. */
static const char DIFFER[] = "results differ between the orders of threads", RACE[] = "ThreadSanitizer: data race";
static const char ADDRESS[] = "AddressSanitizer", WRONG[] = "wrong numbers";

struct planted_fault {
    const char *name;
    void (*run)();
    const char *says, *says_asan, *says_tsan;
};

static const planted_fault faults[] = {
    {"race in block", fault_race_in_block, DIFFER, NULL, RACE},
    {"missing barrier", fault_missing_barrier, DIFFER, NULL, RACE},
    {"missing middle barrier", fault_missing_middle_barrier, DIFFER, NULL, RACE},
    {"missing syncwarp", fault_missing_syncwarp, DIFFER, NULL, RACE},
    {"race between blocks", fault_race_between_blocks, DIFFER, NULL, RACE},
    {"global write after end", fault_global_write_after_end, "out-of-bounds write to device memory", ADDRESS, NULL},
    {"global write before begin", fault_global_write_before_begin, "out-of-bounds write to device memory", ADDRESS, NULL},
    {"global write, odd size", fault_global_write_odd_size, "out-of-bounds write to device memory", ADDRESS, NULL},
    {"global read", fault_global_read, WRONG, ADDRESS, NULL},
    {"global far away", fault_global_far, "device code touched memory it does not own", NULL, NULL},
    {"global uninitialised", fault_global_uninitialised, WRONG, NULL, NULL},
    {"null pointer", fault_null_pointer, "a kernel touches an invalid address", "null pointer", NULL},
    {"read after free", fault_read_after_free, WRONG, ADDRESS, NULL},
    {"write after free", fault_write_after_free, "write to freed device memory", ADDRESS, NULL},
    {"shared write after end", fault_shared_write_after_end, "out-of-bounds write to shared memory", ADDRESS, NULL},
    {"shared write before begin", fault_shared_write_before_begin, "out-of-bounds write to shared memory", ADDRESS, NULL},
    {"dynamic shared write", fault_dynamic_shared_write, "out-of-bounds write to shared memory", ADDRESS, NULL},
    {"shared uninitialised", fault_shared_uninitialised, WRONG, NULL, NULL},
    {"shared too large", fault_shared_too_large, "over 48 KiB", NULL, NULL},
    {"barrier in branch", fault_barrier_in_branch, "divergent barrier: kernel k_divergent", NULL, NULL},
    {"barrier after return", fault_barrier_after_return, "divergent barrier: kernel k_divergent", NULL, NULL},
    {"two barriers", fault_two_barriers, "divergent barrier: kernel k_divergent", NULL, NULL},
    {"barrier and shuffle", fault_barrier_and_shuffle, "divergent barrier: kernel k_divergent", NULL, NULL},
    {"caller not in mask", fault_mask<0>, "wrong warp mask", NULL, NULL},
    {"masks differ", fault_mask<1>, "wrong warp mask", NULL, NULL},
    {"operations differ", fault_mask<2>, "divergent warp operation", NULL, NULL},
    {"lanes missing", fault_mask<3>, "wrong warp mask", NULL, NULL},
    {"absent lane read", fault_mask<4>, WRONG, NULL, NULL},
    {"stack overflow", fault_stack_overflow, "stack overflow", NULL, NULL},
    {"host reads device", fault_host_reads_device, "host code touched device memory", NULL, NULL},
    {"host writes device", fault_host_writes_device, "host code touched device memory", NULL, NULL},
    {"host pointer parameter", fault_host_pointer_parameter, "host pointer given to a kernel", NULL, NULL},
    {"memory of another device", fault_memory_of_another_device, "memory of another device given to a kernel", NULL, NULL},
    {"host pointer in structure", fault_host_pointer_in_structure, "host pointer given to a kernel", NULL, NULL},
    {"missing event wait", fault_missing_event_wait, WRONG, NULL, NULL},
    {"missing wait in graph", fault_missing_wait_in_graph, WRONG, NULL, NULL},
    {"staging reused", fault_staging_reused, WRONG, NULL, NULL},
    {"result read early", fault_result_read_early, WRONG, NULL, NULL},
    {"stream 0 does not wait", fault_stream_zero_does_not_wait, WRONG, NULL, NULL},
    {"synchronise in capture", fault_synchronise_in_capture, "cudaErrorStreamCaptureUnsupported", NULL, NULL},
    {"gemm outside", fault_gemm_outside, "library call outside device memory", NULL, NULL},
    {"fft outside", fault_fft_outside, "library call outside device memory", NULL, NULL},
    {"scalar of wrong kind", fault_scalar_of_wrong_kind, "host code touched device memory", NULL, NULL},
    {"trap", fault_trap, "trap: kernel local.kernel", NULL, NULL},
};

static const char *expected(const planted_fault &f)
{
    const char *says = NULL;
#if defined(__SANITIZE_ADDRESS__)
    says = f.says_asan;
#elif defined(__SANITIZE_THREAD__)
    says = f.says_tsan;
#endif
    return says ? says : f.says;
}

/* Runs this program again with one fault; returns its exit status and what it wrote to stderr. */
static int run_child(const char *fault, std::string *text)
{
    int ends[2];
    if (pipe(ends) != 0) return 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "test_sim", "--fault", fault, (char *)NULL);
        _exit(0);
    }
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text->append(buffer, (size_t)n);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

static void test_fault(const planted_fault &f)
{
    std::string text;
    int status = run_child(f.name, &text);
    bool said = text.find(expected(f)) != std::string::npos, failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    ((said && failed) ? n_passed : n_failed)++;
    if (said && failed) return;
    printf("FAIL fault \"%s\": %s, expected \"%s\", said:\n%s\n", f.name, failed ? "it failed" : "it did not fail", expected(f),
           text.c_str());
}

/* ------------------------------------------------------------------------------------------------
   >>speed
   ------------------------------------------------------------------------------------------------ */

__global__ void k_speed_plain(double *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void k_speed_barrier(double *x)
{
    __syncthreads();
    x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void k_speed_shuffle(double *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] += __shfl_xor_sync(ALL_LANES, 1.0, 1);
}

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(const char *what, void (*kernel)(double *), int grid, int block, int launches_per_wait)
{
    double *x = device_new<double>((size_t)(grid * block)), begin = seconds(), now;
    long n = 0;
    do {
        for (int i = 0; i < launches_per_wait; i++, n++) PU_LAUNCH(kernel, grid, block, 0, 0, x);
        cudaDeviceSynchronize();
        now = seconds();
    } while (now - begin < 1);
    printf("%-24s %4d x %4d, %4d per wait: %8.0f launches per second\n", what, grid, block, launches_per_wait,
           (double)n / (now - begin));
    cudaFree(x);
}

static void measure_speed()
{
    for (int wait : {1, 100}) {
        measure("without barrier", k_speed_plain, 1, 32, wait);
        measure("without barrier", k_speed_plain, 256, 32, wait);
        measure("without barrier", k_speed_plain, 32, 256, wait);
        measure("one barrier", k_speed_barrier, 256, 32, wait);
        measure("one barrier", k_speed_barrier, 32, 256, wait);
        measure("one shuffle", k_speed_shuffle, 256, 32, wait);
    }
}

/* ------------------------------------------------------------------------------------------------
   >>main
   ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)();
} tests[] = {
    {"elementwise", test_elementwise},
    {"reductions", test_reductions},
    {"many blocks", test_many_blocks},
    {"last block", test_last_block},
    {"warp operations", test_warp_operations},
    {"geometry and arguments", test_geometry_and_arguments},
    {"atomics and arithmetic", test_atomics_and_arithmetic},
    {"Philox", test_philox},
    {"streams with events", test_streams_with_events},
    {"pageable copies", test_pageable_copies},
    {"default stream", test_default_stream},
    {"rectangles", test_rectangles},
    {"host threads", test_host_threads},
    {"graph replayed", test_graph_replayed},
    {"graph, fork and join", test_graph_fork_and_join},
    {"forbidden in captures", test_forbidden_in_captures},
    {"refused launches", test_refused_launches},
    {"refused calls", test_refused_calls},
    {"pointers", test_pointers},
    {"devices", test_devices},
    {"injected failures", test_injected_failures},
    {"no device", test_no_device},
    {"memory and counters", test_memory_and_counters},
    {"gemm", test_gemm},
    {"fft", test_fft},
    {"libraries in graphs", test_libraries_in_graphs},
#ifdef PU_HAVE_CURAND
    {"cuRAND", test_curand},
#endif
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--speed") == 0) {
        measure_speed();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const planted_fault &f : faults) printf("%s\n", f.name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--fault") == 0) {
        sim_stream_order(SIM_LAZY);
        for (const planted_fault &f : faults)
            if (strcmp(argv[2], f.name) == 0) f.run();
        return 0;
    }
    for (int threads = SIM_FORWARD; threads <= SIM_RANDOM; threads++)
        for (int order = SIM_EAGER; order <= SIM_SHUFFLED; order++)
            for (auto &t : tests) {
                sim_thread_order(threads);
                sim_stream_order(order);
                run_test(t.name, t.run);
            }
    for (const planted_fault &f : faults) test_fault(f);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed > 0;
}

/* pu_cuda.cuh - the CUDA side of pu.h: the same calls on a GPU
   MIT licence, as pu.h. CUDA C++11, needs cuBLAS, cuFFT and cuRAND of the CUDA Toolkit.

USE
    In exactly one .cu file:                         In every other file, C or C++, that wants a device:
        #define PU_CUDA                                  #define PU_CUDA
        #define PU_IMPLEMENTATION                        #include "pu.h"
        #include "pu.h"      (includes this file)
    nvcc -O3 program.cu -lcublas -lcufft -lcurand

EXAMPLE
        pu_cuda cuda = {};                                        // zeroed; one per host thread that uses it
        pu_cuda_options o = {};
        if (pu_cuda_open(&cuda, &o, &report) != PU_OK) { puts(pu_explain(&report, text, sizeof text)); return 1; }
        options.backend = &cuda.backend;                          // pu_gradient, pu_fit, pu_solve run there from now on
        ...
        pu_cuda_close(&cuda);

WHAT RUNS WHERE
    The iterative engine runs on the device: probes, products, solver, reverse pass, gradient sums, for as many data side by side
    as memory allows. The loop is pu.h's own; this file supplies its vector functions and the operators' device sides:
        Gamma   any with band_add, band_grad and a sample whose root lies within the band (AR, state space, diagonal, identity),
                pu_op_spd, pu_op_dense
        Phi     pu_op_dense (all rows, or the observed ones alone), pu_op_fourier, pu_op_csr, any with row and row_grad (diagonal,
                readout)
        yours   give op.device: see pu_cuda_each and pu_cuda_sums below
    Exact engines, operators without a device side, and moments (pu_posterior, pu_predict) are the host's; a call that would need
    one there is refused, or runs on the host and says so in report.plan.
    Inputs and results are host arrays, as ever; pu_cuda_solve is the exception.

GUARANTEES
    No call waits for the device except where a result must reach the host: once per batch of data in fixed-I mode. Nothing is
    allocated after the first call of a size. Sums are made in an order that depends on sizes alone, without atomic additions:
    same bits at every run on one device. Philox words are those of the CPU; the normals made of them agree to rounding (to the bit
    with -fmad=false). TF32 is off unless asked for. Errors of CUDA and its libraries become PU_E_DEVICE, with the library's words
    in report.where.what; none is lost, none exits.

DEVICES
    Every call works on the device of its context, whichever is current, and leaves that one current: several contexts, on one device
    or on several, need no cudaSetDevice between calls. Memory, streams and kernels of yours are on the device that you made current.

ERRORS
    An error that other code of the host thread has left behind (a cudaMalloc whose result nobody looked at) is no failure of a call
    here: the call takes it, as cudaGetLastError would, keeps its number in cuda.left_behind, where it stays until you clear it or
    there is another, and goes on. pu_cuda_close leaves it where it is. Where the error is one that stays because the device is lost (a kernel of yours that used a bad address), the call
    ends with PU_E_DEVICE and says that this was so before it began; left_behind has the number, cudaGetErrorString its words.
*/
#ifndef PU_CUDA_CUH
#define PU_CUDA_CUH

#ifdef PU_FLOAT
#define pu_cuda puf_cuda
#define pu_cuda_options puf_cuda_options
#define pu_cuda_side puf_cuda_side
#define pu_cuda_open puf_cuda_open
#define pu_cuda_close puf_cuda_close
#define pu_cuda_solve puf_cuda_solve
#define pu_cuda_solve_bytes puf_cuda_solve_bytes
#define pu_cuda_bulk_normals puf_cuda_bulk_normals
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t without NVIDIA's headers */
struct CUevent_st;

typedef struct {
    int device;                 /* number of the device; 0 is the first */
    struct CUstream_st *stream; /* work is enqueued here; NULL: a stream of its own */
    size_t budget;              /* bytes of device memory that calls may use, cuFFT's work area included; 0 = 9/10 of what is free,
                                   or `bytes` below */
    void *memory;               /* a block of device memory of yours, `bytes` long, to be used instead of cudaMalloc; NULL: none */
    size_t bytes;
    int tf32;                   /* float: let cuBLAS round to TF32 (10 bits) in products of dense operators */
} pu_cuda_options;

#define PU_CUDA_PLANS 8

typedef struct { /* private: what a device side knows of itself */
    void *cuda;
    const pu_op *op; /* of the host */
    pu_int width;    /* of a band */
    pu_real *value, *factor;
    pu_int *start, *index, *row_of, *turned_start, *turned_place;
} pu_cuda_side;

typedef struct {
    pu_backend backend; /* what options.backend points at; valid between open and close */
    struct CUstream_st *stream; /* where work is enqueued: for operators and kernels of yours */
    int left_behind;            /* see ERRORS above: the last cudaError_t that was pending when a call began; 0: none */
    /* private from here on */
    int device, before, inside, capturing, own_stream, own_memory, open;
    struct CUstream_st *copy; /* uploads for the next batch */
    struct CUevent_st *uploaded, *done[2], *half[2][2];
    int turning, turned[2], half_used[2][2];
    void *blas, *random;
    void *blas_memory;
    struct {
        int made, plan, kept;
        pu_int rows, cols, pairs;
        size_t work;
        uint64_t used;
    } plans[PU_CUDA_PLANS];
    uint64_t clock;
    pu_int image[2];       /* rows and columns of the images that */
    size_t image_area[2];  /* cuFFT was asked about: work area of one pair, and of one of many */
    unsigned char *memory;
    size_t bytes;
    unsigned char *pinned; /* staging for uploads: two halves */
    size_t pinned_at;
    int pinned_half;
    void *partial;         /* sums of parts of columns */
    void *host;            /* scratch for the making of device sides */
    size_t host_bytes;
    pu_int count;          /* data side by side */
    pu_cuda_side side[2];
    pu_status status;
    const char *what;
    size_t allocations;    /* how many times memory was asked for, ever */
} pu_cuda;

/* Takes the device and what it needs there: two streams, handles, about 20 MB. *cuda must be zeroed; on failure it is so again, but
   for left_behind. The current device stays what it was.
   options may be NULL. Statuses: PU_OK; PU_E_NULL; PU_E_ARGUMENT (options.device: no such device);
   PU_E_NO_DEVICE (no driver or no device: where.what has CUDA's words); PU_E_MEMORY; PU_E_DEVICE. */
PU_DEF pu_status pu_cuda_open(pu_cuda *cuda, const pu_cuda_options *options, pu_report *report);
/* Waits for all work and gives everything back. NULL, or one that was never opened, is fine. */
PU_DEF void pu_cuda_close(pu_cuda *cuda);

/* A X = U with everything on the device, fixed I, nothing read back and nothing waited for: may be captured in a CUDA graph.
     A          an operator of device functions (op.device of yours, or a side made by pu_backend.side), n x n
     U, X       n x k, columns ldu, ldx apart, device memory; X need not be set before
     x0         n x k packed, or NULL
     weight     k, device memory: of the columns in grad_A, and needed with it
     grad_A     A.params sums, added to: gradient of sum_j w_j (1/2 x_j'A x_j - u_j'x_j) through the solver; may be NULL
     options    iterations, solver (PU_CG, PU_SD, or PU_PCG with m: n, device memory), adjoint (not PU_ADJOINT_AUTO), checkpoint
     memory     device block of pu_cuda_solve_bytes() bytes
     stop       k, device memory, or NULL: receives the pu_stop of each column
   Statuses: PU_E_NULL, PU_E_ARGUMENT, PU_E_UNSUPPORTED (a tolerance, GD, PU_ADJOINT_AUTO), PU_E_BLOCK, PU_E_OPERATOR, PU_E_DEVICE: a
   launch failed. What happens later on the stream is yours to look at. */
PU_DEF pu_status pu_cuda_solve(pu_cuda *cuda, const pu_op *A, pu_int k, const pu_real *U, pu_int ldu, pu_real *X, pu_int ldx,
                               const pu_real *x0, const pu_real *weight, const pu_solve_options *options, void *memory,
                               size_t bytes, pu_real *grad_A, int32_t *stop, pu_report *report);
PU_DEF pu_status pu_cuda_solve_bytes(const pu_cuda *cuda, const pu_op *A, pu_int k, const pu_solve_options *options, int gradient,
                                     size_t *bytes, pu_report *report);

/* n standard normals (n even) from cuRAND's Philox generator, for bulk use outside of the library's own numbered streams: another
   sequence than pu_normals, a function of seed and offset. x: device memory. Enqueued on cuda's stream. */
PU_DEF pu_status pu_cuda_bulk_normals(pu_cuda *cuda, pu_int n, pu_real *x, uint64_t seed, uint64_t offset);

#ifdef __cplusplus
}
#endif
#endif /* PU_CUDA_CUH */
/* ==================================== end of the header part ==================================== */

#ifdef PU_IMPLEMENTATION
#ifndef PU_CUDA_IMPLEMENTATION_ONCE
#define PU_CUDA_IMPLEMENTATION_ONCE

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cufft.h>
#include <curand.h>

/* How kernels are launched and get shared memory; a test that runs them on a CPU brings its own three. */
#ifndef PU_LAUNCH
#define PU_LAUNCH(kernel, grid, block, bytes, stream, ...) kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#define PU_DYN_SMEM(T, name)                                         \
    extern __shared__ __align__(16) unsigned char pu__cuda_dynamic[]; \
    T *name = (T *)pu__cuda_dynamic
#define PU_SHARED_ARRAY(T, name, N) __shared__ T name[N]
#endif

/* before a loop of a few turns that is not worth unrolling */
#ifdef __CUDACC__
#define PU__CUDA_ROLLED _Pragma("unroll 1")
#else
#define PU__CUDA_ROLLED
#endif

#ifndef PU_CUDA_THREADS
#define PU_CUDA_THREADS 256 /* of a block: a multiple of 32 */
#endif

enum {
    PU__CUDA_THREADS = PU_CUDA_THREADS, /* a second number in __launch_bounds__ is there because ptxas spills without it for
                                           some architecture */
    PU__CUDA_EACH = 16,      /* entries of a column that a thread takes before sums are closed */
    PU__CUDA_PARTS = 64,     /* partial sums of a column at most */
    PU__CUDA_COLUMNS = 4096, /* columns of that many parts whose sums are made at a time */
    PU__CUDA_SHORT = 512,    /* entries of a column that some lanes of a warp add up */
    PU__CUDA_SUMS = 4,       /* kinds of them */
    PU__CUDA_GRID = 65535
};
#define PU__CUDA_PINNED ((size_t)4 << 20) /* bytes of one half of the staging memory */
#define PU__CUDA_BLAS ((size_t)8 << 20)   /* of cuBLAS's workspace */
#define PU__CUDA_PARTIAL ((size_t)PU__CUDA_SUMS * PU__CUDA_PARTS * PU__CUDA_COLUMNS * sizeof(double))

/* ------------------------------------------------------------------------------------------------
   >>errors
   ------------------------------------------------------------------------------------------------ */

static pu_cuda *pu__cuda(void *user) { return (pu_cuda *)user; }

/* the first failure stays */
static void pu__cuda_failed(pu_cuda *c, pu_status status, const char *what)
{
    if (!c->status) c->status = status, c->what = what;
}

static int pu__cuda_ok(pu_cuda *c, cudaError_t error)
{
    if (error == cudaSuccess) return 1;
    pu__cuda_failed(c, error == cudaErrorMemoryAllocation ? PU_E_MEMORY : PU_E_DEVICE, cudaGetErrorString(error));
    return 0;
}

static int pu__cublas_ok(pu_cuda *c, cublasStatus_t error)
{
    if (error == CUBLAS_STATUS_SUCCESS) return 1;
    pu__cuda_failed(c, error == CUBLAS_STATUS_ALLOC_FAILED ? PU_E_MEMORY : PU_E_DEVICE,
                    error == CUBLAS_STATUS_NOT_INITIALIZED ? "cuBLAS: not initialised"
                    : error == CUBLAS_STATUS_ALLOC_FAILED  ? "cuBLAS: out of memory"
                    : error == CUBLAS_STATUS_INVALID_VALUE ? "cuBLAS: invalid value" : "cuBLAS: execution failed");
    return 0;
}

static int pu__cufft_ok(pu_cuda *c, cufftResult error)
{
    if (error == CUFFT_SUCCESS) return 1;
    pu__cuda_failed(c, error == CUFFT_ALLOC_FAILED ? PU_E_MEMORY : PU_E_DEVICE,
                    error == CUFFT_ALLOC_FAILED    ? "cuFFT: out of memory"
                    : error == CUFFT_INVALID_SIZE  ? "cuFFT: invalid size"
                    : error == CUFFT_INVALID_VALUE ? "cuFFT: invalid value" : "cuFFT: execution failed");
    return 0;
}

/* What was launched just now: accepted? */
static void pu__cuda_launched(pu_cuda *c) { (void)pu__cuda_ok(c, cudaGetLastError()); }

#define PU__CUDA_LOST                                                                 \
    "the device was lost before this call: a kernel or copy enqueued earlier has failed " \
    "(cuda.left_behind is CUDA's number for it)"

/* A public call, or one of the backend's, begins: until it ends our device is the current one and errors are ours. What was pending is
   of others. Returns whether that is new: calls within calls have nothing to leave. Failures are in c->status. */
static int pu__cuda_enter(pu_cuda *c)
{
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t error;
    if (c->inside) return 0;
    c->inside = 1;
    c->before = c->device;
    error = cudaGetLastError();
    if (error != cudaSuccess) c->left_behind = (int)error;
    error = cudaGetDevice(&c->before);
    if (error == cudaSuccess) error = cudaSetDevice(c->device);
    if (error == cudaSuccess) error = cudaStreamIsCapturing(c->stream, &capture);
    c->capturing = capture != cudaStreamCaptureStatusNone;
    if (error == cudaSuccess) return 1;
    (void)cudaGetLastError();
    c->left_behind = (int)error;
    pu__cuda_failed(c, PU_E_DEVICE, PU__CUDA_LOST);
    return 1;
}

/* Such a call ends. What is pending now is ours. */
static void pu__cuda_leave(pu_cuda *c)
{
    pu__cuda_launched(c);
    if (c->before != c->device) (void)cudaSetDevice(c->before);
    c->inside = 0;
}

static dim3 pu__cuda_grid(pu_int x, pu_int y, pu_int z)
{
    return dim3((unsigned)(x < 1 ? 1 : x > INT32_MAX ? INT32_MAX : x), (unsigned)(y < 1 ? 1 : pu__min(y, PU__CUDA_GRID)),
                (unsigned)(z < 1 ? 1 : pu__min(z, PU__CUDA_GRID)));
}

/* ------------------------------------------------------------------------------------------------
   >>vectors   kernels of the vector backend. A thread has row i of some columns; a sum over a long column is made of `parts` parts, each
   of them by one block in the same order whatever else runs, and added up by one warp; that over a short one by some lanes of a warp.
   ------------------------------------------------------------------------------------------------ */

/* parts of a column of n entries, and the entries of each */
static pu_int pu__cuda_parts(pu_int n)
{
    const pu_int tile = PU__CUDA_THREADS * PU__CUDA_EACH, tiles = (n + tile - 1) / tile;
    return tiles < 1 ? 1 : pu__min(tiles, PU__CUDA_PARTS);
}

/* Quotient and remainder of numbers below 2^32: those of 64 bits are calls of a function on a device. */
static __device__ __forceinline__ pu_int pu__quotient(pu_int a, pu_int b) { return (pu_int)((uint32_t)a / (uint32_t)b); }
static __device__ __forceinline__ pu_int pu__remainder(pu_int a, pu_int b) { return (pu_int)((uint32_t)a % (uint32_t)b); }

/* which datum's piece of m belongs to column j, where each datum has `each` columns */
static __device__ __forceinline__ const pu_real *pu__piece_of(const pu_real *m, pu_int n, pu_int j, pu_int each)
{
    return m ? m + pu__quotient(j, each) * n : NULL;
}

static __device__ __forceinline__ pu_real pu__times(const pu_real *m, pu_int i, pu_real x) { return m ? m[i] * x : x; }

/* Where a thread is: which row and which column it begins with, and how far apart the next ones are. A block has threadIdx.x along a
   column and threadIdx.y across columns, so that short columns fill it, too. */
static __device__ __forceinline__ pu_int pu__thread_row(void) { return (pu_int)blockIdx.x * (pu_int)blockDim.x + (pu_int)threadIdx.x; }
static __device__ __forceinline__ pu_int pu__rows_apart(void) { return (pu_int)gridDim.x * (pu_int)blockDim.x; }
static __device__ __forceinline__ pu_int pu__thread_column(void) { return (pu_int)blockIdx.y * (pu_int)blockDim.y + (pu_int)threadIdx.y; }
static __device__ __forceinline__ pu_int pu__columns_apart(void) { return (pu_int)gridDim.y * (pu_int)blockDim.y; }

/* ---- sums: twice the digits of pu_real, without its arithmetic in double where that is float, which most devices do at 1/32 or 1/64
   of the speed. There a sum is a number and what its rounding has lost (two-sum), which is as good as double for the sums here. */
#ifdef PU_FLOAT
typedef struct {
    float high, low;
} pu__adder;

static __device__ __forceinline__ pu__adder pu__adder_of(float x)
{
    pu__adder s;
    s.high = x;
    s.low = 0;
    return s;
}

static __device__ __forceinline__ void pu__adder_add(pu__adder *s, float x)
{
    const float total = s->high + x, part = total - s->high;
    s->low += (s->high - (total - part)) + (x - part);
    s->high = total;
}

static __device__ __forceinline__ void pu__adder_join(pu__adder *s, pu__adder other)
{
    pu__adder_add(s, other.high);
    s->low += other.low;
}

/* w s; a product and what its rounding has lost. fmaf(w, x, 0) is w x, but no compiler makes it part of a sum. */
static __device__ __forceinline__ pu__adder pu__adder_times(float w, pu__adder s)
{
    pu__adder t;
    t.high = fmaf(w, s.high, 0.0f);
    t.low = fmaf(w, s.high, -t.high) + w * s.low;
    return t;
}

static __device__ __forceinline__ pu__adder pu__adder_over(pu__adder s, float a)
{
    pu__adder t;
    t.high = s.high / a;
    t.low = (fmaf(-t.high, a, s.high) + s.low) / a;
    return t;
}

/* beyond the range of float what was lost is a NaN */
static __device__ __forceinline__ float pu__adder_value(pu__adder s) { return s.low == s.low ? s.high + s.low : s.high; }

static __device__ __forceinline__ pu__adder pu__adder_down(pu__adder s, int step)
{
    s.high = __shfl_down_sync(0xffffffffu, s.high, step);
    s.low = __shfl_down_sync(0xffffffffu, s.low, step);
    return s;
}
#else
typedef double pu__adder;
static __device__ __forceinline__ pu__adder pu__adder_of(double x) { return x; }
static __device__ __forceinline__ void pu__adder_add(pu__adder *s, double x) { *s += x; }
static __device__ __forceinline__ void pu__adder_join(pu__adder *s, pu__adder other) { *s += other; }
static __device__ __forceinline__ pu__adder pu__adder_times(double w, pu__adder s) { return w * s; }
static __device__ __forceinline__ pu__adder pu__adder_over(pu__adder s, double a) { return s / a; }
static __device__ __forceinline__ double pu__adder_value(pu__adder s) { return s; }
static __device__ __forceinline__ pu__adder pu__adder_down(pu__adder s, int step) { return __shfl_down_sync(0xffffffffu, s, step); }
#endif

/* Sum over `lanes` neighbours of a warp (a power of two), in the first of them; a tree of fixed shape. */
static __device__ __forceinline__ pu__adder pu__lanes_sum(pu__adder v, int lanes)
{
    for (int step = lanes / 2; step > 0; step >>= 1) pu__adder_join(&v, pu__adder_down(v, step));
    return v;
}

/* Sum over the block, in its first thread. scratch: 8 of them in shared memory. */
static __device__ pu__adder pu__block_sum(pu__adder v, pu__adder *scratch)
{
    const int thread = (int)(threadIdx.x + blockDim.x * threadIdx.y);
    v = pu__lanes_sum(v, 32);
    __syncthreads(); /* scratch may still be read from the last time */
    if (thread % 32 == 0) scratch[thread / 32] = v;
    __syncthreads();
    v = pu__adder_of(PU_R(0));
    if (thread == 0)
        for (int w = 0; w < PU__CUDA_THREADS / 32; w++) pu__adder_join(&v, scratch[w]);
    return v;
}

/* ---- sums over columns, of whatever kinds an F has: F.at(j) reads what belongs to column j, its entry(i, s) adds the terms of row i
   to s, and F.close(j, total) writes the results. Long columns are made of parts, a block each; of several parts there are sums in
   memory, to be closed by pu__cuda_close. */
template <class F> static __global__ void __launch_bounds__(PU__CUDA_THREADS, 3) pu__cuda_long_sums(pu_int n, pu_int k, F f, pu__adder *sums)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS / 32);
    const pu_int tile = PU__CUDA_THREADS * PU__CUDA_EACH, parts = gridDim.x;
    for (pu_int j = blockIdx.y; j < k; j += gridDim.y) {
        const typename F::column column = f.at(j);
        pu__adder total[F::KINDS];
        for (int t = 0; t < F::KINDS; t++) total[t] = pu__adder_of(PU_R(0));
        for (pu_int from = (pu_int)blockIdx.x * tile; from < n; from += parts * tile) {
            pu_real s[F::KINDS];
            for (int t = 0; t < F::KINDS; t++) s[t] = PU_R(0);
            for (int l = 0; l < PU__CUDA_EACH; l++) {
                const pu_int i = from + l * PU__CUDA_THREADS + (pu_int)threadIdx.x;
                if (i < n) column.entry(i, s);
            }
            for (int t = 0; t < F::KINDS; t++) pu__adder_add(&total[t], s[t]);
        }
        for (int t = 0; t < F::KINDS; t++) {
            total[t] = pu__block_sum(total[t], scratch);
            if (parts > 1 && threadIdx.x == 0) sums[(t * k + j) * parts + (pu_int)blockIdx.x] = total[t];
        }
        if (parts == 1 && threadIdx.x == 0) f.close(j, total);
    }
}

/* Short columns: blockDim.x lanes of a warp each, whose number depends on n alone. */
template <class F> static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_short_sums(pu_int n, pu_int k, F f)
{
    const int lanes = (int)blockDim.x, lane = (int)threadIdx.x;
    const pu_int j = (pu_int)blockIdx.x * (pu_int)blockDim.y + (pu_int)threadIdx.y;
    pu__adder total[F::KINDS];
    for (int t = 0; t < F::KINDS; t++) total[t] = pu__adder_of(PU_R(0));
    if (j < k) {
        const typename F::column column = f.at(j);
        pu_real s[F::KINDS];
        for (int t = 0; t < F::KINDS; t++) s[t] = PU_R(0);
        PU__CUDA_ROLLED
        for (int i = lane; i < (int)n; i += lanes) column.entry(i, s);
        for (int t = 0; t < F::KINDS; t++) total[t] = pu__adder_of(s[t]);
    }
    for (int t = 0; t < F::KINDS; t++) total[t] = pu__lanes_sum(total[t], lanes);
    if (j < k && lane == 0) f.close(j, total);
}

/* one warp a column: the sums of its parts */
template <class F> static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_close(pu_int k, pu_int parts, const pu__adder *sums, F f)
{
    const pu_int j = ((pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x) / 32;
    const int lane = threadIdx.x & 31;
    pu__adder total[F::KINDS];
    for (int t = 0; t < F::KINDS; t++) {
        total[t] = pu__adder_of(PU_R(0));
        if (j < k)
            for (pu_int p = lane; p < parts; p += 32) pu__adder_join(&total[t], sums[(t * k + j) * parts + p]);
        total[t] = pu__lanes_sum(total[t], 32);
    }
    if (j < k && lane == 0) f.close(j, total);
}

/* s_j = sum_i m_i x_ij y_ij */
typedef struct pu__dot_sums {
    enum { KINDS = 1 };
    struct column {
        const pu_real *m, *x, *y;
        __device__ __forceinline__ void entry(pu_int i, pu_real *s) const { s[0] += pu__times(m, i, x[i]) * y[i]; }
    };
    pu_int n, each;
    const pu_real *m;
    pu_block x, y;
    pu_real *out;
    __device__ __forceinline__ column at(pu_int j) const
    {
        column c;
        c.m = pu__piece_of(m, n, j, each);
        c.x = pu__col(x, j);
        c.y = pu__col(y, j);
        return c;
    }
    __device__ __forceinline__ void close(pu_int j, const pu__adder *total) const { out[j] = pu__adder_value(total[0]); }
} pu__dot_sums;

/* x += a d;  r -= a q;  sums of m r r */
typedef struct pu__advance_sums {
    enum { KINDS = 1 };
    struct column {
        const pu_real *m, *d, *q;
        pu_real *x, *r, a;
        __device__ __forceinline__ void entry(pu_int i, pu_real *s) const
        {
            pu_real v = r[i];
            if (a != PU_R(0)) {
                v -= a * q[i];
                r[i] = v;
                if (x) x[i] += a * d[i];
            }
            s[0] += pu__times(m, i, v) * v;
        }
    };
    pu_int n, each;
    const pu_real *a, *m;
    pu_block d, q, x, r;
    pu_real *out;
    __device__ __forceinline__ column at(pu_int j) const
    {
        column c;
        c.a = a[j];
        c.m = pu__piece_of(m, n, j, each);
        c.d = pu__col(d, j);
        c.q = pu__col(q, j);
        c.x = x.at ? pu__col(x, j) : NULL;
        c.r = pu__col(r, j);
        return c;
    }
    __device__ __forceinline__ void close(pu_int j, const pu__adder *total) const { out[j] = pu__adder_value(total[0]); }
} pu__advance_sums;

/* Sums over all columns: partial sums of w_j f(i, j), one a block, as many as the grid has. */
template <class F> static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_total(pu_int n, pu_int k, F f, const pu_real *w, pu__adder *sums)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS / 32);
    const pu_int apart = pu__rows_apart();
    pu__adder total = pu__adder_of(PU_R(0));
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int from = pu__thread_row(); from < n; from += PU__CUDA_EACH * apart) {
            pu_real s = PU_R(0);
            for (int l = 0; l < PU__CUDA_EACH; l++)
                if (from + l * apart < n) s += (pu_real)f(from + l * apart, j);
            pu__adder_add(&total, w ? w[j] * s : s);
        }
    total = pu__block_sum(total, scratch);
    if (threadIdx.x + threadIdx.y == 0) sums[(pu_int)blockIdx.y * (pu_int)gridDim.x + (pu_int)blockIdx.x] = total;
}

/* out += scale (sum of the partial sums); one block */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_close_total(pu_int count, const pu__adder *sums, pu_real scale, pu_real *out)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS / 32);
    pu__adder v = pu__adder_of(PU_R(0));
    for (pu_int i = threadIdx.x; i < count; i += PU__CUDA_THREADS) pu__adder_join(&v, sums[i]);
    v = pu__block_sum(v, scratch);
    if (threadIdx.x == 0) *out += pu__adder_value(pu__adder_times(scale, v));
}

/* m x y, entry by entry */
typedef struct {
    pu_int n, each;
    const pu_real *m;
    pu_block x, y;
    __device__ __forceinline__ pu_real operator()(pu_int i, pu_int j) const
    {
        return pu__times(pu__piece_of(m, n, j, each), i, pu__col(x, j)[i]) * pu__col(y, j)[i];
    }
} pu__product_of;

typedef struct {
    pu_term t[4];
    int count;
} pu__cuda_terms;

static __global__ void __launch_bounds__(PU__CUDA_THREADS, 3)
    pu__cuda_combine(pu_int n, pu_int k, pu_int each, pu_block y, pu__cuda_terms terms)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart()) {
        pu_real c[4];
        const pu_real *x[4], *m[4];
        for (int t = 0; t < 4; t++) {
            c[t] = t >= terms.count ? PU_R(0) : terms.t[t].c ? terms.t[t].scale * terms.t[t].c[j] : terms.t[t].scale;
            x[t] = c[t] != PU_R(0) ? pu__col(terms.t[t].x, j) : NULL;
            m[t] = c[t] != PU_R(0) ? pu__piece_of(terms.t[t].m, n, j, each) : NULL;
        }
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            pu_real s = PU_R(0);
            for (int t = 0; t < 4; t++)
                if (x[t]) s += c[t] * pu__times(m[t], i, x[t][i]);
            pu__col(y, j)[i] = s;
        }
    }
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_stage(pu_state s, pu_stage stage, pu_int i)
{
    const pu_int j = (pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x;
    if (j < s.k) pu__stage_column(&s, stage, i, j);
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_retreat(pu_int n, pu_int k, pu_int each, const pu_real *a, const pu_real *be, const pu_real *m, pu_block xbar,
                     pu_block rbar, pu_block dbar)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart()) {
        const pu_real aj = a[j], bj = be[j], *mj = pu__piece_of(m, n, j, each);
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu_real d = pu__col(dbar, j)[i];
            pu_real now = PU_R(0);
            pu__col(rbar, j)[i] += pu__times(mj, i, d);
            if (bj != PU_R(0)) now = bj * d;
            if (aj != PU_R(0)) now += aj * pu__col(xbar, j)[i];
            pu__col(dbar, j)[i] = now;
        }
    }
}

/* r_i: kept, or 1/m o (d - be before) */
static __device__ __forceinline__ pu_real pu__before(const pu_unwinding *v, pu_int n, pu_int i, pu_int j, pu_int each, pu_real be)
{
    const pu_real *minv = pu__piece_of(v->minv, n, j, each);
    if (v->r_i.at) return pu__col(v->r_i, j)[i];
    return pu__times(minv, i, be == PU_R(0) ? pu__col(v->d, j)[i] : pu__col(v->d, j)[i] - be * pu__col(v->before, j)[i]);
}

/* s0 = dbar'd,  s1 = xbar'd - (rbar + m o dbar)'q,  s2 = r'(m o q),  q = (r_i - r) / a;  zero where a is */
typedef struct pu__unwind_sums {
    enum { KINDS = PU__CUDA_SUMS };
    struct column {
        const pu_real *m, *minv, *d, *before, *r_i, *r, *xbar, *rbar, *dbar;
        pu_real a, be;
        __device__ __forceinline__ void entry(pu_int i, pu_real *s) const
        {
            if (a == PU_R(0)) return;
            const pu_real here = d[i], back = dbar[i], now = r[i];
            const pu_real then = r_i ? r_i[i] : pu__times(minv, i, be == PU_R(0) ? here : here - be * before[i]), q = then - now;
            s[0] += back * here;
            s[1] += xbar[i] * here;
            s[2] += (rbar[i] + pu__times(m, i, back)) * q;
            s[3] += pu__times(m, i, now) * q;
        }
    };
    pu_int n, each;
    pu_unwinding v;
    pu_real *s0, *s1, *s2;
    __device__ __forceinline__ column at(pu_int j) const
    {
        column c;
        c.a = v.a[j];
        c.be = v.be_before ? v.be_before[j] : PU_R(0);
        c.m = pu__piece_of(v.m, n, j, each);
        c.minv = pu__piece_of(v.minv, n, j, each);
        c.d = pu__col(v.d, j);
        c.before = pu__col(v.before, j);
        c.r_i = v.r_i.at ? pu__col(v.r_i, j) : NULL;
        c.r = pu__col(v.r, j);
        c.xbar = pu__col(v.xbar, j);
        c.rbar = pu__col(v.rbar, j);
        c.dbar = pu__col(v.dbar, j);
        return c;
    }
    __device__ __forceinline__ void close(pu_int j, const pu__adder *total) const
    {
        const pu_real a = v.a[j];
        pu__adder s = total[1];
        s0[j] = pu__adder_value(total[0]);
        s1[j] = s2[j] = PU_R(0);
        if (a == PU_R(0)) return;
        pu__adder_join(&s, pu__adder_times(PU_R(-1), pu__adder_over(total[2], a)));
        s1[j] = pu__adder_value(s);
        s2[j] = pu__adder_value(pu__adder_over(total[3], a));
    }
} pu__unwind_sums;

/* mbar is left to pu__cuda_mbar, before this one */
static __global__ void __launch_bounds__(PU__CUDA_THREADS, 3) pu__cuda_unwind(pu_int n, pu_int k, pu_int each, pu_unwinding v)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart()) {
        const pu_real a = v.a[j], be = v.be[j], pib = v.pib[j], two = v.twice_rhobar[j];
        const pu_real before = v.be_before ? v.be_before[j] : PU_R(0), *m = pu__piece_of(v.m, n, j, each);
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            if (a == PU_R(0)) {
                pu__col(v.qbar, j)[i] = PU_R(0);
                continue;
            }
            const pu_real d = pu__col(v.d, j)[i], dbar = pu__col(v.dbar, j)[i], r = pu__col(v.r, j)[i];
            const pu_real ri = pu__before(&v, n, i, j, each, before);
            const pu_real rbar = pu__col(v.rbar, j)[i] + pu__times(m, i, dbar + two * r);
            pu__col(v.rbar, j)[i] = rbar;
            pu__col(v.qbar, j)[i] = pib * d - a * rbar;
            pu__col(v.dbar, j)[i] = be * dbar + a * pu__col(v.xbar, j)[i] + pib / a * (ri - r);
            pu__col(v.r, j)[i] = ri;
        }
    }
}

/* mbar_i += sum_j weight_j r (dbar + rhobar r) over the columns that took the step: a row each */
static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_mbar(pu_int n, pu_int k, pu_unwinding v)
{
    for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
        pu_real s = PU_R(0);
        for (pu_int j = 0; j < k; j++) {
            const pu_real r = v.a[j] != PU_R(0) ? pu__col(v.r, j)[i] : PU_R(0);
            if (v.a[j] != PU_R(0)) s += v.weight[j] * (r * (pu__col(v.dbar, j)[i] + PU_R(0.5) * v.twice_rhobar[j] * r));
        }
        v.mbar[i] += s;
    }
}

enum { PU__CUDA_ROWS = 32, PU__CUDA_ACROSS = PU__CUDA_THREADS / PU__CUDA_ROWS };

/* Adds up what the threads of a row (blockDim = rows x across) have, in order; valid where threadIdx.y = 0. */
static __device__ pu__adder pu__along_row(pu__adder v, pu__adder *scratch)
{
    __syncthreads();
    scratch[threadIdx.y * PU__CUDA_ROWS + threadIdx.x] = v;
    __syncthreads();
    v = pu__adder_of(PU_R(0));
    if (threadIdx.y == 0)
        for (int t = 0; t < PU__CUDA_ACROSS; t++) pu__adder_join(&v, scratch[t * PU__CUDA_ROWS + (int)threadIdx.x]);
    return v;
}

/* out_r += sum_j w_j m_i p_ij q_ij. 32 rows a block, columns shared out among 8 threads a row. With a list (see pu_backend): the row is
   one of M, and i runs over its places */
static __global__ void __launch_bounds__(PU__CUDA_THREADS, 4)
    pu__cuda_row_dot(pu_int n, pu_int k, pu_int each, const pu_real *m, const pu_real *w, pu_block p, pu_block q, pu_int M,
                     const pu_int *rows, pu_real *out)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS);
    const pu_int *start = rows ? rows + n * pu__quotient(k, each) : NULL, *place = rows ? start + M + 1 : NULL, all = rows ? M : n;
    for (pu_int from = (pu_int)blockIdx.x * PU__CUDA_ROWS; from < all; from += (pu_int)gridDim.x * PU__CUDA_ROWS) {
        const pu_int r = from + (pu_int)threadIdx.x;
        pu__adder v = pu__adder_of(PU_R(0));
        if (r < all) {
            const pu_int first = rows ? start[r] : 0, end = rows ? start[r + 1] : 1;
            for (pu_int s = first; s < end; s++) {
                const pu_int i = rows ? pu__remainder(place[s], n) : r, j0 = rows ? pu__quotient(place[s], n) * each : 0;
                const pu_int j1 = rows ? j0 + each : k;
                for (pu_int j = j0 + (pu_int)threadIdx.y; j < j1; j += PU__CUDA_ACROSS) {
                    const pu_real term = pu__times(pu__piece_of(m, n, j, each), i, pu__col(p, j)[i]);
                    if (!w || w[j] != PU_R(0)) pu__adder_add(&v, (w ? w[j] : PU_R(1)) * (q.at ? term * pu__col(q, j)[i] : term));
                }
            }
        }
        v = pu__along_row(v, scratch);
        if (r < all && threadIdx.y == 0) out[r] += pu__adder_value(v);
    }
}

/* eta_r -= w (t + e);  psibar_r += mask ((t + e/2) e - 1/(2 psi_r)), summed over the data */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_row_terms(pu_int n, pu_int k, pu_block t, const pu_real *w, const pu_real *mask, const pu_real *e, const pu_real *psi,
                       pu_int M, const pu_int *rows, pu_real *eta, pu_real *psibar)
{
    const pu_int *start = rows ? rows + n * k : NULL, *place = rows ? start + M + 1 : NULL, all = rows ? M : n;
    for (pu_int r = pu__thread_row(); r < all; r += pu__rows_apart()) {
        const pu_int first = rows ? start[r] : 0, end = rows ? start[r + 1] : k;
        pu__adder a = pu__adder_of(PU_R(0)), b = pu__adder_of(PU_R(0));
        for (pu_int s = first; s < end; s++) {
            const pu_int i = rows ? pu__remainder(place[s], n) : r, j = rows ? pu__quotient(place[s], n) : s;
            const pu_real ti = pu__col(t, j)[i], ei = e[j * n + i];
            pu__adder_add(&a, -(w[j * n + i] * (ti + ei)));
            if (mask[j * n + i] != PU_R(0)) pu__adder_add(&b, (ti + ei / 2) * ei - PU_R(1) / (2 * psi[r]));
        }
        eta[r] += pu__adder_value(a);
        psibar[r] += pu__adder_value(b);
    }
}

/* Four normals a thread, or with a list one */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_normals(pu_int n, const pu_int *rows, pu_int k, pu_int each, pu_block x, uint64_t seed, const uint32_t *datum,
                     uint32_t sample, uint32_t step, uint32_t stream)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const pu_int wide = rows ? 1 : 4;
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int at = wide * pu__thread_row(); at < n; at += wide * pu__rows_apart()) {
            const pu_int datum_of = pu__quotient(j, each), row = rows ? rows[datum_of * n + at] : at;
            uint32_t counter[4], word[4];
            pu_real z[4];
            if (row < 0) {
                pu__col(x, j)[at] = PU_R(0);
                continue;
            }
            counter[0] = pu__counter((uint64_t)row / 4, stream), counter[1] = sample + (uint32_t)pu__remainder(j, each);
            counter[2] = datum[datum_of], counter[3] = step;
            pu__philox_words(key, counter, word);
            pu__normal_pair(word[0], word[1], z), pu__normal_pair(word[2], word[3], z + 2);
            if (rows) pu__col(x, j)[at] = row % 4 < 2 ? (row % 4 ? z[1] : z[0]) : (row % 4 == 2 ? z[2] : z[3]);
            else
                for (int l = 0; l < 4 && at + l < n; l++) pu__col(x, j)[at + l] = z[l];
        }
}

/* ---- their launchers ---- */

static pu_int pu__cuda_each(const pu_cuda *c, pu_int k) { return k / c->count > 0 ? k / c->count : 1; }
static pu_int pu__cuda_blocks(pu_int n, pu_int each) { return (n + each - 1) / each; }

/* A block for columns of n rows, and a launch of a kernel that looks after rows and columns by pu__thread_row and pu__thread_column. */
static dim3 pu__cuda_shape(pu_int n)
{
    unsigned along = PU__CUDA_THREADS;
    while (along > 4 && (pu_int)along / 2 >= n) along /= 2;
    return dim3(along, PU__CUDA_THREADS / along);
}

static dim3 pu__cuda_cover(pu_int n, pu_int k, dim3 shape)
{
    return pu__cuda_grid(pu__cuda_blocks(n, (pu_int)shape.x), pu__cuda_blocks(k, (pu_int)shape.y), 1);
}

#define PU__CUDA_EACH_ENTRY(kernel, c, n, k, ...) \
    PU_LAUNCH(kernel, pu__cuda_cover(n, k, pu__cuda_shape(n)), pu__cuda_shape(n), 0, (c)->stream, __VA_ARGS__)

/* Lanes of a warp for a short column; each takes 16 entries at most. */
static unsigned pu__cuda_lanes(pu_int n)
{
    unsigned lanes = 4;
    while (lanes < 32 && (pu_int)lanes * PU__CUDA_EACH < n) lanes *= 2;
    return lanes;
}

/* columns from j on whose parts have room: those of whole data, or a part of one datum's */
static pu_int pu__cuda_slice(pu_int k, pu_int each, pu_int j, pu_int room)
{
    return each <= room ? pu__min(room / each * each, k - j) : pu__min(room, each - j % each);
}

/* Sums over columns, of those that f tells from the columns j on: make(j) is an F for them. */
template <class F, class G> static void pu__cuda_column_sums(pu_cuda *c, pu_int n, pu_int k, G make)
{
    const pu_int parts = pu__cuda_parts(n), each = pu__cuda_each(c, k);
    const pu_int room = PU__CUDA_SUMS * PU__CUDA_PARTS * PU__CUDA_COLUMNS / (parts * F::KINDS);
    pu__adder *sums = (pu__adder *)c->partial;
    if (n <= PU__CUDA_SHORT) {
        const dim3 shape(pu__cuda_lanes(n), PU__CUDA_THREADS / pu__cuda_lanes(n));
        if (k > 0)
            PU_LAUNCH(pu__cuda_short_sums<F>, pu__cuda_grid(pu__cuda_blocks(k, (pu_int)shape.y), 1, 1), shape, 0, c->stream, n, k, make(0));
    } else
        for (pu_int j = 0, some; j < k; j += some) {
            some = parts > 1 ? pu__cuda_slice(k, each, j, room) : k;
            PU_LAUNCH(pu__cuda_long_sums<F>, pu__cuda_grid(parts, some, 1), PU__CUDA_THREADS, 0, c->stream, n, some, make(j), sums);
            if (parts > 1)
                PU_LAUNCH(pu__cuda_close<F>, pu__cuda_grid(pu__cuda_blocks(32 * some, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0,
                          c->stream, some, parts, sums, make(j));
        }
    pu__cuda_launched(c);
}

/* *out += scale sum_j w_j sum_i f(i, j) */
template <class F> static void pu__cuda_sum_all(pu_cuda *c, pu_int n, pu_int k, F f, const pu_real *w, double scale, pu_real *out)
{
    const dim3 shape = pu__cuda_shape(n);
    const pu_int parts = n > (pu_int)shape.x ? pu__cuda_parts(n) : 1;
    const dim3 grid = pu__cuda_grid(parts, pu__min(pu__cuda_blocks(k, (pu_int)shape.y), PU__CUDA_COLUMNS / parts), 1);
    if (n < 1 || k < 1) return;
    PU_LAUNCH(pu__cuda_total<F>, grid, shape, 0, c->stream, n, k, f, w, (pu__adder *)c->partial);
    PU_LAUNCH(pu__cuda_close_total, 1, PU__CUDA_THREADS, 0, c->stream, (pu_int)(grid.x * grid.y), (const pu__adder *)c->partial,
              (pu_real)scale, out);
    pu__cuda_launched(c);
}

static void pu__cuda_dots(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, pu_real *s)
{
    pu_cuda *c = pu__cuda(user);
    const pu_int each = pu__cuda_each(c, k);
    pu__cuda_column_sums<pu__dot_sums>(c, n, k, [=](pu_int j) {
        pu__dot_sums f;
        memset(&f, 0, sizeof f);
        f.n = n;
        f.each = each;
        f.m = m ? m + j / each * n : NULL;
        f.x = pu__from(x, j);
        f.y = pu__from(y, j);
        f.out = s + j;
        return f;
    });
}

static void pu__cuda_sum_dot(void *user, pu_int n, pu_int k, const pu_real *m, pu_block x, pu_block y, const pu_real *w,
                             double scale, pu_real *out)
{
    pu_cuda *c = pu__cuda(user);
    pu__product_of f;
    memset(&f, 0, sizeof f);
    f.n = n;
    f.each = pu__cuda_each(c, k);
    f.m = m;
    f.x = x;
    f.y = y;
    pu__cuda_sum_all(c, n, k, f, w, scale, out);
}

static void pu__cuda_combination(void *user, pu_int n, pu_int k, pu_block y, int count, const pu_term *terms)
{
    pu_cuda *c = pu__cuda(user);
    pu__cuda_terms t;
    memset(&t, 0, sizeof t);
    t.count = count;
    for (int l = 0; l < count; l++) /* not the padding */
        t.t[l].x = terms[l].x, t.t[l].c = terms[l].c, t.t[l].scale = terms[l].scale, t.t[l].m = terms[l].m;
    if (n < 1 || k < 1) return;
    PU__CUDA_EACH_ENTRY(pu__cuda_combine, c, n, k, n, k, pu__cuda_each(c, k), y, t);
    pu__cuda_launched(c);
}

static void pu__cuda_advances(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *m, pu_block d, pu_block q, pu_block x,
                              pu_block r, pu_real *rho)
{
    pu_cuda *c = pu__cuda(user);
    const pu_int each = pu__cuda_each(c, k);
    pu__cuda_column_sums<pu__advance_sums>(c, n, k, [=](pu_int j) {
        pu__advance_sums f;
        memset(&f, 0, sizeof f);
        f.n = n;
        f.each = each;
        f.a = a + j;
        f.m = m ? m + j / each * n : NULL;
        f.d = pu__from(d, j);
        f.q = pu__from(q, j);
        f.x = x.at ? pu__from(x, j) : x;
        f.r = pu__from(r, j);
        f.out = rho + j;
        return f;
    });
}

static void pu__cuda_stages(void *user, const pu_state *s, pu_stage stage, pu_int i)
{
    pu_cuda *c = pu__cuda(user);
    PU_LAUNCH(pu__cuda_stage, pu__cuda_grid(pu__cuda_blocks(s->k, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0, c->stream, *s,
              stage, i);
    pu__cuda_launched(c);
}

static void pu__cuda_row_dots(void *user, pu_int n, pu_int k, const pu_real *m, const pu_real *w, pu_block p, pu_block q, pu_int M,
                              const pu_int *rows, pu_real *out)
{
    pu_cuda *c = pu__cuda(user);
    if (n < 1 || k < 1) return;
    PU_LAUNCH(pu__cuda_row_dot, pu__cuda_grid(pu__cuda_blocks(rows ? M : n, PU__CUDA_ROWS), 1, 1),
              dim3(PU__CUDA_ROWS, PU__CUDA_ACROSS), 0, c->stream, n, k, pu__cuda_each(c, k), m, w, p, q, M, rows, out);
    pu__cuda_launched(c);
}

static void pu__cuda_rows_terms(void *user, pu_int n, pu_int k, pu_block t, const pu_real *w, const pu_real *mask, const pu_real *e,
                                const pu_real *psi, pu_int M, const pu_int *rows, pu_real *eta, pu_real *psibar)
{
    pu_cuda *c = pu__cuda(user);
    if (n < 1) return;
    PU_LAUNCH(pu__cuda_row_terms, pu__cuda_grid(pu__cuda_blocks(rows ? M : n, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0,
              c->stream, n, k, t, w, mask, e, psi, M, rows, eta, psibar);
    pu__cuda_launched(c);
}

static void pu__cuda_draw(void *user, pu_int n, const pu_int *rows, pu_int k, pu_block x, uint64_t seed, const uint32_t *datum,
                          uint32_t sample, uint32_t step, uint32_t stream)
{
    pu_cuda *c = pu__cuda(user);
    if (n < 1 || k < 1) return;
    PU__CUDA_EACH_ENTRY(pu__cuda_normals, c, rows ? n : pu__cuda_blocks(n, 4), k, n, rows, k, pu__cuda_each(c, k), x, seed, datum,
                        sample, step, stream);
    pu__cuda_launched(c);
}

static void pu__cuda_retreats(void *user, pu_int n, pu_int k, const pu_real *a, const pu_real *be, const pu_real *m, pu_block xbar,
                              pu_block rbar, pu_block dbar)
{
    pu_cuda *c = pu__cuda(user);
    PU__CUDA_EACH_ENTRY(pu__cuda_retreat, c, n, k, n, k, pu__cuda_each(c, k), a, be, m, xbar, rbar, dbar);
    pu__cuda_launched(c);
}

/* the columns of a reverse step from j on */
static pu_unwinding pu__cuda_unwinding(const pu_unwinding *v, pu_int j, pu_int n, pu_int each)
{
    pu_unwinding u = *v;
    u.d = pu__from(u.d, j), u.before = pu__from(u.before, j), u.xbar = pu__from(u.xbar, j), u.r = pu__from(u.r, j);
    u.rbar = pu__from(u.rbar, j), u.dbar = pu__from(u.dbar, j), u.qbar = pu__from(u.qbar, j);
    if (u.r_i.at) u.r_i = pu__from(u.r_i, j);
    u.a += j, u.be += j, u.twice_rhobar += j, u.pib += j;
    if (u.be_before) u.be_before += j;
    if (u.m) u.m += j / each * n, u.minv += j / each * n;
    if (u.mbar) u.weight += j;
    return u;
}

static void pu__cuda_unwinds_sums(void *user, pu_int n, pu_int k, const pu_unwinding *v, pu_real *s0, pu_real *s1, pu_real *s2)
{
    pu_cuda *c = pu__cuda(user);
    const pu_int each = pu__cuda_each(c, k);
    pu__cuda_column_sums<pu__unwind_sums>(c, n, k, [=](pu_int j) {
        pu__unwind_sums f;
        memset(&f, 0, sizeof f);
        f.n = n;
        f.each = each;
        f.v = pu__cuda_unwinding(v, j, n, each);
        f.s0 = s0 + j;
        f.s1 = s1 + j;
        f.s2 = s2 + j;
        return f;
    });
}

static void pu__cuda_unwinds(void *user, pu_int n, pu_int k, const pu_unwinding *v)
{
    pu_cuda *c = pu__cuda(user);
    if (v->mbar)
        PU_LAUNCH(pu__cuda_mbar, pu__cuda_grid(pu__cuda_blocks(n, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0, c->stream, n, k, *v);
    PU__CUDA_EACH_ENTRY(pu__cuda_unwind, c, n, k, n, k, pu__cuda_each(c, k), *v);
    pu__cuda_launched(c);
}

/* ------------------------------------------------------------------------------------------------
   >>memory   uploads go through pinned memory of two halves, so that the host may go on at once; those of a batch (between turn and
   batch) take a stream of their own and may overtake the work on the batch before
   ------------------------------------------------------------------------------------------------ */

/* Room for `bytes`, at most half of the staging memory, that no pending copy reads; NULL: failed. */
static unsigned char *pu__cuda_room(pu_cuda *c, size_t bytes)
{
    if (c->pinned_at + bytes > PU__CUDA_PINNED) { /* on to the other half, once its copies are done */
        c->pinned_half = !c->pinned_half, c->pinned_at = 0;
        for (int s = 0; s < 2; s++) {
            if (!c->half_used[c->pinned_half][s]) continue;
            if (!pu__cuda_ok(c, cudaEventSynchronize(c->half[c->pinned_half][s]))) return NULL;
            c->half_used[c->pinned_half][s] = 0;
        }
    }
    return c->pinned + (size_t)c->pinned_half * PU__CUDA_PINNED + c->pinned_at;
}

static void pu__cuda_write(void *user, void *to, const void *from, size_t bytes)
{
    pu_cuda *c = pu__cuda(user);
    const int s = c->turning; /* 1: the copy stream */
    struct CUstream_st *stream = s ? c->copy : c->stream;
    while (bytes > 0 && !c->status) {
        const size_t some = bytes < PU__CUDA_PINNED / 4 ? bytes : PU__CUDA_PINNED / 4;
        unsigned char *room = pu__cuda_room(c, some);
        if (!room) return;
        memcpy(room, from, some);
        c->pinned_at += (some + 15) / 16 * 16;
        if (!pu__cuda_ok(c, cudaMemcpyAsync(to, room, some, cudaMemcpyHostToDevice, stream))) return;
        if (!pu__cuda_ok(c, cudaEventRecord(c->half[c->pinned_half][s], stream))) return;
        c->half_used[c->pinned_half][s] = 1;
        to = (unsigned char *)to + some, from = (const unsigned char *)from + some, bytes -= some;
    }
}

/* After a failure the host must not go on with garbage: zeros, and `status` tells. */
static void pu__cuda_read(void *user, void *to, const void *from, size_t bytes)
{
    pu_cuda *c = pu__cuda(user);
    if (bytes == 0) return;
    if (c->status || !pu__cuda_ok(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c->stream)) ||
        !pu__cuda_ok(c, cudaStreamSynchronize(c->stream)))
        memset(to, 0, bytes);
}

static void pu__cuda_turn(void *user, int slot)
{
    pu_cuda *c = pu__cuda(user);
    /* all that used the other slot is enqueued by now; what used this one was by the last turn */
    if (pu__cuda_ok(c, cudaEventRecord(c->done[!slot], c->stream))) c->turned[!slot] = 1;
    if (c->turned[slot]) (void)pu__cuda_ok(c, cudaStreamWaitEvent(c->copy, c->done[slot], 0));
    c->turning = 1;
}

static void pu__cuda_batch(void *user, pu_int count)
{
    pu_cuda *c = pu__cuda(user);
    c->count = count;
    if (!c->turning) return;
    c->turning = 0;
    if (pu__cuda_ok(c, cudaEventRecord(c->uploaded, c->copy))) (void)pu__cuda_ok(c, cudaStreamWaitEvent(c->stream, c->uploaded, 0));
}

static void *pu__cuda_memory(void *user, size_t bytes)
{
    pu_cuda *c = pu__cuda(user);
    if (c->inside) pu__cuda_leave(c);
    (void)pu__cuda_enter(c); /* until `status`, with which every call ends */
    if (c->status) return NULL;
    /* uploads must not overtake what others have enqueued on the stream, with this block maybe */
    if (pu__cuda_ok(c, cudaEventRecord(c->uploaded, c->stream))) (void)pu__cuda_ok(c, cudaStreamWaitEvent(c->copy, c->uploaded, 0));
    if (bytes <= c->bytes) return c->memory;
    if (!c->own_memory) return NULL;
    if (!pu__cuda_ok(c, cudaStreamSynchronize(c->stream))) return NULL;
    if (c->memory) (void)pu__cuda_ok(c, cudaFree(c->memory));
    c->memory = NULL, c->bytes = 0, c->allocations++;
    if (!pu__cuda_ok(c, cudaMalloc((void **)&c->memory, bytes))) {
        c->memory = NULL, c->status = PU_OK; /* the caller says so */
        (void)cudaGetLastError();
        return NULL;
    }
    c->bytes = bytes;
    return c->memory;
}

/* host memory for the making of device sides: kept from call to call */
static void *pu__cuda_host(pu_cuda *c, size_t bytes)
{
    if (bytes <= c->host_bytes) return c->host;
    free(c->host);
    c->host = malloc(bytes), c->host_bytes = c->host ? bytes : 0, c->allocations++;
    if (!c->host) pu__cuda_failed(c, PU_E_MEMORY, "workspace (more of it, to make the device sides of operators)");
    return c->host;
}

static pu_status pu__cuda_status(void *user, const char **what)
{
    pu_cuda *c = pu__cuda(user);
    pu_status status;
    (void)pu__cuda_enter(c);
    (void)pu__cuda_ok(c, cudaStreamSynchronize(c->copy));
    (void)pu__cuda_ok(c, cudaStreamSynchronize(c->stream));
    pu__cuda_leave(c);
    status = c->status;
    if (status) *what = c->what;
    c->status = PU_OK, c->what = NULL;
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>banded   Gamma by diagonals, which neighbouring threads read side by side: entry (i, i - t), t = 0 .. w, at band[t n + i], and a
   factor F with F F' = Gamma, entries (i, i + t), t = -w .. w, at factor[(w + t) n + i]. Serves autoregressions, state spaces and
   diagonals alike. Its grad adds up S_{i,i-t} = sum_c w_c (p_i q_{i-t} + q_i p_{i-t}) / 2 at S[t n + i], and the host's band_grad makes
   the gradient of that.
   ------------------------------------------------------------------------------------------------ */

enum {
    PU__CUDA_ABREAST = 4, /* columns that a thread of a banded product has in registers: an entry of the band is read once for them */
    PU__CUDA_REACH = 32   /* widest band whose products take vectors from shared memory */
};

/* The 256 rows from `first` on of some columns, and w rows to either side, into shared memory; zeros beyond the ends. */
static __device__ __forceinline__ void pu__window(pu_int n, int w, pu_int first, pu_block X, pu_int j, int columns, pu_real *window)
{
    const int wide = PU__CUDA_THREADS + 2 * w;
    __syncthreads();
    for (int c = 0; c < columns; c++) {
        const pu_real *x = pu__col(X, j + c);
        for (int l = (int)threadIdx.x; l < wide; l += PU__CUDA_THREADS) {
            const pu_int i = first - w + l;
            window[c * wide + l] = i >= 0 && i < n ? x[i] : PU_R(0);
        }
    }
    __syncthreads();
}

/* Y = (Gamma + diag(shift)) X; sums of x'y, or NULL. A thread has a row of some columns. */
static __global__ void __launch_bounds__(PU__CUDA_THREADS, 2)
    pu__cuda_band_apply(pu_int n, pu_int w, const pu_real *band, const pu_real *shift, pu_int k, pu_int each, pu_block X, pu_block Y,
                        int add, pu__adder *sums, pu_real *out)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS / 32);
    PU_SHARED_ARRAY(pu_real, window, PU__CUDA_ABREAST * (PU__CUDA_THREADS + 2 * PU__CUDA_REACH));
    const pu_int tile = PU__CUDA_THREADS * PU__CUDA_EACH, parts = gridDim.x;
    const int reach = (int)w, wide = PU__CUDA_THREADS + 2 * reach;
    for (pu_int j = (pu_int)blockIdx.y * PU__CUDA_ABREAST; j < k; j += (pu_int)gridDim.y * PU__CUDA_ABREAST) {
        const int columns = (int)pu__min(PU__CUDA_ABREAST, k - j);
        pu__adder total[PU__CUDA_ABREAST];
        for (int c = 0; c < PU__CUDA_ABREAST; c++) total[c] = pu__adder_of(PU_R(0));
        for (pu_int from = (pu_int)blockIdx.x * tile; from < n; from += parts * tile) {
            pu_real part[PU__CUDA_ABREAST];
            for (int c = 0; c < PU__CUDA_ABREAST; c++) part[c] = PU_R(0);
            for (pu_int first = from; first < n && first < from + tile; first += PU__CUDA_THREADS) {
                const pu_int i = first + (pu_int)threadIdx.x;
                const pu_real *x = window + threadIdx.x + reach, *entry = band + i;
                pu_real y[PU__CUDA_ABREAST];
                pu__window(n, reach, first, X, j, columns, window);
                if (i >= n) continue;
                const int up = n - 1 - i < w ? (int)(n - 1 - i) : reach;
                for (int c = 0; c < PU__CUDA_ABREAST; c++) y[c] = c < columns ? entry[0] * x[c * wide] : PU_R(0);
                for (int t = 1; t <= reach; t++) {
                    entry += n; /* (i, i - t), and in row i + t (i + t, i) */
                    const pu_real down_entry = entry[0], up_entry = t <= up ? entry[t] : PU_R(0);
                    for (int c = 0; c < PU__CUDA_ABREAST; c++)
                        if (c < columns) y[c] += down_entry * x[c * wide - t] + up_entry * x[c * wide + t];
                }
                for (int c = 0; c < PU__CUDA_ABREAST; c++)
                    if (c < columns) {
                        const pu_real here = x[c * wide];
                        pu_real *to = pu__col(Y, j + c) + i;
                        if (shift) y[c] += pu__piece_of(shift, n, j + c, each)[i] * here;
                        part[c] += here * y[c];
                        *to = add ? *to + y[c] : y[c];
                    }
            }
            for (int c = 0; c < PU__CUDA_ABREAST; c++) pu__adder_add(&total[c], part[c]);
        }
        if (!out) continue;
        for (int c = 0; c < PU__CUDA_ABREAST; c++) { /* a constant number, so that they stay in registers */
            if (c >= columns) break;
            const pu__adder sum = pu__block_sum(total[c], scratch);
            if (threadIdx.x == 0 && parts > 1) sums[(j + c) * parts + (pu_int)blockIdx.x] = sum;
            if (threadIdx.x == 0 && parts == 1) out[j + c] = pu__adder_value(sum);
        }
    }
}

/* The same for short columns, and for wide bands: an entry a thread. */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_band_short(pu_int n, pu_int w, const pu_real *band, const pu_real *shift, pu_int k, pu_int each, pu_block X, pu_block Y,
                        int add)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu_int down = i < w ? i : w, up = n - 1 - i < w ? n - 1 - i : w;
            const pu_real *x = pu__col(X, j) + i, *entry = band + i;
            pu_real y = (entry[0] + (shift ? pu__piece_of(shift, n, j, each)[i] : PU_R(0))) * x[0];
            for (pu_int t = 1; t <= down; t++) y += entry[t * n] * x[-t];
            for (pu_int t = 1; t <= up; t++) y += entry[t * n + t] * x[t];
            pu__col(Y, j)[i] = add ? pu__col(Y, j)[i] + y : y;
        }
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_band_sample(pu_int n, pu_int w, const pu_real *factor, pu_int k, pu_block E, pu_block Y)
{
    for (pu_int j = PU__CUDA_ABREAST * pu__thread_column(); j < k; j += PU__CUDA_ABREAST * pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu_int from = i < w ? -i : -w, to = n - 1 - i < w ? n - 1 - i : w;
            const int columns = (int)pu__min(PU__CUDA_ABREAST, k - j);
            const pu_real *e = pu__col(E, j) + i, *entry = factor + (w + from) * n + i;
            pu_real y[PU__CUDA_ABREAST];
            for (int c = 0; c < PU__CUDA_ABREAST; c++) y[c] = PU_R(0);
            for (pu_int t = from; t <= to; t++, entry += n) {
                const pu_real f = *entry;
                if (f == PU_R(0)) continue; /* half of them where the factor is a triangle */
                for (int c = 0; c < PU__CUDA_ABREAST; c++)
                    if (c < columns) y[c] += f * e[c * E.ld + t];
            }
            for (int c = 0; c < PU__CUDA_ABREAST; c++)
                if (c < columns) pu__col(Y, j + c)[i] = y[c];
        }
}

enum { PU__CUDA_LAGS = 8 };

/* 32 rows a block, columns shared out among 8 threads a row, some lags at a time: a vector is read from memory once for them. Four
   columns are added plainly before a sum that keeps what rounding loses takes them. */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_band_grad(pu_int n, pu_int w, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *S)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS);
    const int first = (int)blockIdx.y * PU__CUDA_LAGS, lags = (int)pu__min(PU__CUDA_LAGS, w + 1 - first);
    for (pu_int from = (pu_int)blockIdx.x * PU__CUDA_ROWS; from < n; from += (pu_int)gridDim.x * PU__CUDA_ROWS) {
        const pu_int i = from + (pu_int)threadIdx.x;
        const int reach = i < n ? (int)pu__min(lags, i - first + 1) : 0; /* lags that stay inside */
        pu__adder v[PU__CUDA_LAGS];
        pu_real s[PU__CUDA_LAGS];
        for (int l = 0; l < PU__CUDA_LAGS; l++) v[l] = pu__adder_of(PU_R(0));
        for (pu_int begin = threadIdx.y; begin < k && reach > 0; begin += PU__CUDA_ABREAST * PU__CUDA_ACROSS) {
            for (int l = 0; l < PU__CUDA_LAGS; l++) s[l] = PU_R(0);
            for (pu_int j = begin; j < k && j < begin + PU__CUDA_ABREAST * PU__CUDA_ACROSS; j += PU__CUDA_ACROSS) {
                const pu_real *p = pu__col(P, j) + i, *q = pu__col(Q, j) + i, c = weight[j], pi = c * p[0], qi = c * q[0];
                if (c == PU_R(0)) continue;
                for (int l = 0; l < PU__CUDA_LAGS; l++)
                    if (l < reach) s[l] += pi * q[-first - l] + qi * p[-first - l];
            }
            for (int l = 0; l < PU__CUDA_LAGS; l++) pu__adder_add(&v[l], s[l]);
        }
        for (int l = 0; l < PU__CUDA_LAGS; l++) {
            if (l >= lags) break;
            const pu__adder sum = pu__along_row(v[l], scratch);
            if (l < reach && threadIdx.y == 0) S[(first + l) * n + i] += pu__adder_value(sum) / 2;
        }
    }
}

static const pu_cuda_side *pu__cuda_side(const pu_op *side) { return (const pu_cuda_side *)side->data; }
static pu_cuda *pu__cuda_of(const pu_op *side) { return (pu_cuda *)pu__cuda_side(side)->cuda; }
static pu_status pu__cuda_said(const pu_cuda *c) { return c->status ? PU_E_DEVICE : PU_OK; }

static pu_status pu__cuda_banded_plus(const pu_op *op, const pu_real *shift, pu_int k, pu_block X, pu_block Y, int add, pu_real *s)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    const pu_int n = op->rows, parts = pu__cuda_parts(n), each = pu__cuda_each(c, k);
    pu__adder *sums = (pu__adder *)c->partial;
    if (n <= PU__CUDA_SHORT || b->width > PU__CUDA_REACH) {
        PU__CUDA_EACH_ENTRY(pu__cuda_band_short, c, n, k, n, b->width, b->value, shift, k, each, X, Y, add);
        pu__cuda_launched(c);
        if (s) pu__cuda_dots(c, n, k, NULL, X, Y, s);
        return pu__cuda_said(c);
    }
    for (pu_int j = 0, some; j < k; j += some) {
        some = s && parts > 1 ? pu__cuda_slice(k, each, j, PU__CUDA_SUMS * PU__CUDA_PARTS * PU__CUDA_COLUMNS / parts) : k;
        PU_LAUNCH(pu__cuda_band_apply, pu__cuda_grid(parts, pu__cuda_blocks(some, PU__CUDA_ABREAST), 1), PU__CUDA_THREADS, 0,
                  c->stream, n, b->width, b->value, shift ? shift + j / each * n : NULL, some, each, pu__from(X, j), pu__from(Y, j), add,
                  sums, s ? s + j : NULL);
        if (s && parts > 1) {
            pu__dot_sums f;
            memset(&f, 0, sizeof f);
            f.out = s + j;
            PU_LAUNCH(pu__cuda_close<pu__dot_sums>, pu__cuda_grid(pu__cuda_blocks(32 * some, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS,
                      0, c->stream, some, parts, sums, f);
        }
    }
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_banded_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    (void)work;
    return pu__cuda_banded_plus(op, NULL, k, X, Y, add, NULL);
}

static pu_status pu__cuda_banded_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    PU__CUDA_EACH_ENTRY(pu__cuda_band_sample, c, op->rows, pu__cuda_blocks(k, PU__CUDA_ABREAST), op->rows, b->width, b->factor, k, E, Y);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_banded_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                      pu_real *work)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    PU_LAUNCH(pu__cuda_band_grad,
              pu__cuda_grid(pu__cuda_blocks(op->rows, PU__CUDA_ROWS), pu__cuda_blocks(b->width + 1, PU__CUDA_LAGS), 1),
              dim3(PU__CUDA_ROWS, PU__CUDA_ACROSS), 0, c->stream, op->rows, b->width, k, P, Q, weight, grad);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_banded_pull(const pu_side *side, const pu_real *sums, pu_real *grad)
{
    const pu_cuda_side *b = pu__cuda_side(&side->op);
    const pu_int n = side->op.rows, all = n * (b->width + 1);
    double *S = (double *)pu__cuda_host(pu__cuda_of(&side->op),
                                        (size_t)all * sizeof *S + (size_t)b->op->work * sizeof(pu_real));
    if (!S) return PU_E_MEMORY;
    for (pu_int i = 0; i < n; i++)
        for (pu_int t = 0; t <= b->width; t++) S[i * (b->width + 1) + t] = (double)sums[t * n + i];
    return b->op->band_grad(b->op, b->width, S, 1, grad, (pu_real *)(S + all));
}

/* The factor, diagonal by diagonal, from what the host's sample makes of 2 w + 1 combs: entry (i, i + t) answers to the comb that has a tooth at
   i + t, and to no other. An autoregression knows it. */
static pu_status pu__cuda_band_factor(const pu_op *op, pu_int w, pu_real *factor, pu_real *comb, pu_real *answer, pu_real *work)
{
    const pu_int n = op->rows, wide = 2 * w + 1;
    pu_block E, Y;
    memset(factor, 0, (size_t)(n * wide) * sizeof *factor);
    if (op->form == PU_FORM_AR) {
        const pu_ar *ar = (const pu_ar *)op->data;
        for (pu_int i = 0; i < n; i++)
            for (pu_int t = 0; t <= w && i + t < n; t++)
                if (t <= pu__min(i + t, ar->order)) factor[(w + t) * n + i] = pu__ar_x(ar, i + t)[t];
        return PU_OK;
    }
    E.at = comb, Y.at = answer, E.ld = Y.ld = n;
    for (pu_int phase = 0; phase < wide; phase++) {
        pu_status status;
        for (pu_int i = 0; i < n; i++) comb[i] = i % wide == phase ? PU_R(1) : PU_R(0);
        status = op->sample(op, 1, E, Y, work);
        if (status) return status;
        for (pu_int i = 0; i < n; i++) { /* the tooth within w of i */
            pu_int t = (phase - i) % wide;
            t = t > w ? t - wide : t < -w ? t + wide : t;
            factor[(w + t) * n + i] = answer[i];
        }
    }
    pu_normals(0, 5, 0, 0, PU__STREAM_TEST, 0, n, comb); /* is that all of it? A root that reaches beyond the band is none for us */
    if (op->sample(op, 1, E, Y, work)) return PU_E_OPERATOR;
    for (pu_int i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (pu_int t = -w; t <= w; t++)
            if (i + t >= 0 && i + t < n) {
                const double term = (double)factor[(w + t) * n + i] * (double)comb[i + t];
                sum += term, size += fabs(term);
            }
        if (!(fabs(sum - (double)answer[i]) <= 16 * (double)(wide + 4) * (double)PU__EPS * (size + fabs((double)answer[i]))))
            return PU_E_UNSUPPORTED;
    }
    return PU_OK;
}

static pu_status pu__cuda_make_banded(pu_cuda *c, pu_cuda_side *b, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_op *side = &made->op;
    const pu_int n = op->rows, w = op->band, band = n * (w + 1), factor = op->sample ? n * (2 * w + 1) : 0;
    const pu_int scratch = factor + 2 * n + op->work;
    double *B;
    pu_real *to;
    pu_status status = PU_OK;
    if ((op->noise && op->noise != n && op->sample) || w > 8 * PU__CUDA_GRID / 2) return PU_E_UNSUPPORTED;
    *bytes = (size_t)(band + factor) * sizeof(pu_real);
    side->params = op->params ? band : 0;
    side->apply = side->apply_t = pu__cuda_banded_apply, made->apply_plus = pu__cuda_banded_plus;
    if (op->sample) side->sample = pu__cuda_banded_sample;
    if (op->params) side->grad = pu__cuda_banded_grad, made->grad_from_sums = pu__cuda_banded_pull;
    if (!memory) return PU_OK;
    b->width = w, b->value = (pu_real *)memory, b->factor = b->value + band;
    B = (double *)pu__cuda_host(c, (size_t)band * sizeof *B + (size_t)(band + scratch) * sizeof(pu_real));
    if (!B) return PU_E_MEMORY;
    to = (pu_real *)(B + band);
    memset(B, 0, (size_t)band * sizeof *B);
    status = op->band_add(op, w, B, to + band + factor + 2 * n);
    for (pu_int i = 0; i < n; i++)
        for (pu_int t = 0; t <= w; t++) to[t * n + i] = (pu_real)B[i * (w + 1) + t];
    pu__cuda_write(c, b->value, to, (size_t)band * sizeof(pu_real));
    to += band;
    if (!status && op->sample) status = pu__cuda_band_factor(op, w, to, to + factor, to + factor + n, to + factor + 2 * n);
    if (op->sample) pu__cuda_write(c, b->factor, to, (size_t)factor * sizeof(pu_real));
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>dense   all rows by cuBLAS, which is column-major: a row-major Phi is its Phi'. Some rows: kernels of our own.
   ------------------------------------------------------------------------------------------------ */

#ifdef PU_FLOAT
#define pu__cublas_gemm cublasSgemm
#else
#define pu__cublas_gemm cublasDgemm
#endif

/* C (m x n) = beta C + op(A) op(B), inner dimension k, column-major */
static pu_status pu__cuda_gemm(pu_cuda *c, int turn_a, int turn_b, pu_int m, pu_int n, pu_int k, const pu_real *A, pu_int lda,
                               const pu_real *B, pu_int ldb, pu_real beta, pu_real *C, pu_int ldc)
{
    const pu_real one = PU_R(1);
    if (m < 1 || n < 1) return pu__cuda_said(c);
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX || lda > INT32_MAX || ldb > INT32_MAX || ldc > INT32_MAX) {
        pu__cuda_failed(c, PU_E_OVERFLOW, "cuBLAS: sizes beyond int");
        return pu__cuda_said(c);
    }
    (void)pu__cublas_ok(c, pu__cublas_gemm((cublasHandle_t)c->blas, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                           turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, (int)m, (int)n, (int)k, &one, A, (int)lda, B,
                                           (int)ldb, &beta, C, (int)ldc));
    return pu__cuda_said(c);
}

static pu_status pu__cuda_dense_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    (void)work;
    return pu__cuda_gemm(pu__cuda_of(op), 1, 0, op->rows, k, op->cols, pu__cuda_side(op)->value, op->cols, X.at, X.ld,
                         add ? PU_R(1) : PU_R(0), Y.at, Y.ld);
}

static pu_status pu__cuda_dense_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    (void)work;
    return pu__cuda_gemm(pu__cuda_of(op), 0, 0, op->cols, k, op->rows, pu__cuda_side(op)->value, op->cols, X.at, X.ld,
                         add ? PU_R(1) : PU_R(0), Y.at, Y.ld);
}

/* sum_j w_j p_j q_j', row-major; work = Q diag(w) */
static pu_status pu__cuda_dense_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                     pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    pu_term t;
    t.x = Q, t.c = weight, t.scale = PU_R(1), t.m = NULL;
    pu__cuda_combination(c, op->cols, k, pu__rows(work, op->cols), 1, &t);
    return pu__cuda_gemm(c, 0, 1, op->cols, op->rows, k, work, op->cols, P.at, P.ld, PU_R(1), grad, op->cols);
}

static pu_status pu__cuda_spd_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    (void)work;
    return pu__cuda_gemm(pu__cuda_of(op), 1, 0, op->rows, k, op->rows, pu__cuda_side(op)->factor, op->rows, E.at, E.ld, PU_R(0),
                         Y.at, Y.ld);
}

static pu_status pu__cuda_spd_pull(const pu_side *side, const pu_real *sums, pu_real *grad)
{
    const pu_int n = side->op.rows;
    for (pu_int i = 0; i < n; i++)
        for (pu_int j = 0; j < n; j++) grad[i * n + j] += (sums[i * n + j] + sums[j * n + i]) / 2;
    return PU_OK;
}

/* above the diagonal of a row-major factor may be anything */
static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_lower(pu_int n, pu_real *a)
{
    const pu_int at = (pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x;
    if (at < n * n && at % n > at / n) a[at] = PU_R(0);
}

enum {
    PU__CUDA_TILE = 12,   /* columns that a thread of the gathered products has in registers */
    PU__CUDA_ALONG = 8,   /* lanes of a warp along a row of Phi; the others have other rows */
    PU__CUDA_STRIP = 16   /* rows of a list that a block has in shared memory */
};

/* Y (n x k) = Phi[rows] X: 8 lanes a row of Phi, two rows each. Grid: tiles of rows, data, tiles of columns */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_gather_apply(pu_int n, const pu_int *rows, pu_int cols, const pu_real *Phi, pu_int each, pu_block X, pu_block Y, int add)
{
    const int lane = (int)threadIdx.x % PU__CUDA_ALONG;
    const pu_int group = (pu_int)blockIdx.x * (PU__CUDA_THREADS / PU__CUDA_ALONG) + (pu_int)threadIdx.x / PU__CUDA_ALONG;
    const pu_int datum = blockIdx.y, i0 = 2 * group, i1 = i0 + 1;
    const pu_int row0 = i0 < n ? rows[datum * n + i0] : -1, row1 = i1 < n ? rows[datum * n + i1] : -1;
    const pu_real *phi0 = Phi + (row0 < 0 ? 0 : row0) * cols, *phi1 = Phi + (row1 < 0 ? 0 : row1) * cols;
    for (pu_int from = (pu_int)blockIdx.z * PU__CUDA_TILE; from < each; from += (pu_int)gridDim.z * PU__CUDA_TILE) {
        const int wide = (int)pu__min(PU__CUDA_TILE, each - from);
        const pu_real *x = pu__col(X, datum * each + from);
        pu_real *y = pu__col(Y, datum * each + from);
        pu_real s0[PU__CUDA_TILE], s1[PU__CUDA_TILE];
        for (int t = 0; t < PU__CUDA_TILE; t++) s0[t] = s1[t] = PU_R(0);
        for (int d = lane; d < (int)cols && row0 >= 0; d += PU__CUDA_ALONG) { /* empty places are last: row 0 is there first */
            const pu_real a0 = phi0[d], a1 = phi1[d], *at = x + d;
            for (int t = 0; t < PU__CUDA_TILE; t++)
                if (t < wide) {
                    const pu_real v = *at;
                    s0[t] += a0 * v;
                    s1[t] += a1 * v;
                    at += X.ld;
                }
        }
        for (int t = 0; t < PU__CUDA_TILE; t++) {
            if (t >= wide) break; /* all lanes alike */
            for (int step = PU__CUDA_ALONG / 2; step > 0; step >>= 1) {
                s0[t] += __shfl_down_sync(0xffffffffu, s0[t], step);
                s1[t] += __shfl_down_sync(0xffffffffu, s1[t], step);
            }
            if (lane == 0 && i0 < n) y[i0] = add ? y[i0] + s0[t] : s0[t];
            if (lane == 0 && i1 < n) y[i1] = (add ? y[i1] : PU_R(0)) + (row1 >= 0 ? s1[t] : PU_R(0));
            y += Y.ld;
        }
    }
}

/* Y (cols x k) = Phi[rows]' X: a thread an entry of Y for some columns; a strip of X and of the list is in shared memory. Grid: tiles of
   entries, data, tiles of columns */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_gather_apply_t(pu_int n, const pu_int *rows, pu_int cols, const pu_real *Phi, pu_int each, pu_block X, pu_block Y,
                            int add)
{
    PU_SHARED_ARRAY(pu_real, strip, PU__CUDA_STRIP * PU__CUDA_TILE);
    PU_SHARED_ARRAY(pu_int, list, PU__CUDA_STRIP);
    const pu_int d = (pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x, datum = blockIdx.y;
    const pu_real *phi = Phi + (d < cols ? d : 0);
    for (pu_int from = (pu_int)blockIdx.z * PU__CUDA_TILE; from < each; from += (pu_int)gridDim.z * PU__CUDA_TILE) {
        const int wide = (int)pu__min(PU__CUDA_TILE, each - from);
        const pu_real *x = pu__col(X, datum * each + from);
        pu_real *y = pu__col(Y, datum * each + from) + d;
        pu_real s[PU__CUDA_TILE];
        int more = 1;
        for (int t = 0; t < PU__CUDA_TILE; t++) s[t] = PU_R(0);
        for (pu_int first = 0; first < n && more; first += PU__CUDA_STRIP) {
            __syncthreads();
            for (int l = (int)threadIdx.x; l < PU__CUDA_STRIP * PU__CUDA_TILE; l += PU__CUDA_THREADS) {
                const int t = l / PU__CUDA_STRIP, i = l % PU__CUDA_STRIP;
                strip[i * PU__CUDA_TILE + t] = t < wide && first + i < n ? x[t * X.ld + first + i] : PU_R(0);
                if (t == 0) list[i] = first + i < n ? rows[datum * n + first + i] : -1;
            }
            __syncthreads();
            for (int i = 0; i < PU__CUDA_STRIP && more; i++) {
                const pu_int row = list[i];
                more = row >= 0; /* the rest of the list is empty */
                if (!more) break;
                const pu_real a = phi[row * cols];
                for (int t = 0; t < PU__CUDA_TILE; t++) s[t] += a * strip[i * PU__CUDA_TILE + t];
            }
        }
        for (int t = 0; t < PU__CUDA_TILE; t++, y += Y.ld)
            if (t < wide && d < cols) *y = add ? *y + s[t] : s[t];
    }
}

/* grad_{m,d} += sum over the places of row m and the columns of their data of w_j p_ij q_dj. The block makes the w_j p_ij of some places
   at a time. Grid: tiles of d, rows of Phi */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_gather_grad(pu_int n, const pu_int *rows, pu_int count, pu_int M, pu_int cols, pu_int each, pu_block P, pu_block Q,
                         const pu_real *weight, pu_real *grad)
{
    PU_SHARED_ARRAY(pu_real, coefficient, PU__CUDA_THREADS);
    PU_SHARED_ARRAY(pu_int, column, PU__CUDA_THREADS); /* the first one of a place */
    const pu_int *start = rows + n * count, *place = start + M + 1;
    const pu_int d = (pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x;
    const int wide = (int)pu__min(PU__CUDA_THREADS, each), places = PU__CUDA_THREADS / wide;
    const int mine = (int)threadIdx.x / wide, mine_column = (int)threadIdx.x % wide;
    for (pu_int m = blockIdx.y; m < M; m += gridDim.y) {
        const pu_int first = start[m], end = start[m + 1];
        pu_real s = PU_R(0);
        for (pu_int from = 0; from < each; from += wide) {
            const int some = (int)pu__min(wide, each - from);
            for (pu_int at = first; at < end; at += places) {
                const int now = (int)pu__min(places, end - at);
                __syncthreads();
                if (mine < now && mine_column < some) {
                    const pu_int i = pu__remainder(place[at + mine], n), j = pu__quotient(place[at + mine], n) * each + from;
                    coefficient[mine * wide + mine_column] = weight[j + mine_column] * pu__col(P, j + mine_column)[i];
                    if (mine_column == 0) column[mine] = j;
                }
                __syncthreads();
                for (int l = 0; l < now && d < cols; l++) {
                    const pu_real *q = pu__col(Q, column[l]) + d, *c = coefficient + l * wide;
                    for (int t = 0; t < some; t++, q += Q.ld) s += c[t] * *q;
                }
            }
        }
        if (d < cols && end > first) grad[m * cols + d] += s;
    }
}

static pu_status pu__cuda_dense_apply_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y, int add,
                                           pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu_int each = pu__cuda_each(c, k);
    (void)work;
    if (n < 1) return pu__cuda_said(c);
    for (pu_int d = 0; d < c->count; d += PU__CUDA_GRID) /* as many data as a grid has room for */
        PU_LAUNCH(pu__cuda_gather_apply,
                  pu__cuda_grid(pu__cuda_blocks(PU__CUDA_ALONG * pu__cuda_blocks(n, 2), PU__CUDA_THREADS), c->count - d,
                                pu__cuda_blocks(each, PU__CUDA_TILE)),
                  PU__CUDA_THREADS, 0, c->stream, n, rows + d * n, op->cols, pu__cuda_side(op)->value, each, pu__from(X, d * each),
                  pu__from(Y, d * each), add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_dense_apply_rows_t(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block X, pu_block Y,
                                             int add, pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu_int each = pu__cuda_each(c, k);
    (void)work;
    for (pu_int d = 0; d < c->count; d += PU__CUDA_GRID)
        PU_LAUNCH(pu__cuda_gather_apply_t,
                  pu__cuda_grid(pu__cuda_blocks(op->cols, PU__CUDA_THREADS), c->count - d, pu__cuda_blocks(each, PU__CUDA_TILE)),
                  PU__CUDA_THREADS, 0, c->stream, n, rows + d * n, op->cols, pu__cuda_side(op)->value, each, pu__from(X, d * each),
                  pu__from(Y, d * each), add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_dense_grad_rows(const pu_op *op, pu_int n, const pu_int *rows, pu_int k, pu_block P, pu_block Q,
                                          const pu_real *weight, pu_real *grad, pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    if (n < 1) return pu__cuda_said(c);
    PU_LAUNCH(pu__cuda_gather_grad, pu__cuda_grid(pu__cuda_blocks(op->cols, PU__CUDA_THREADS), op->rows, 1), PU__CUDA_THREADS, 0,
              c->stream, n, rows, c->count, op->rows, op->cols, pu__cuda_each(c, k), P, Q, weight, grad);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_make_dense(pu_cuda *c, pu_cuda_side *b, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_op *side = &made->op;
    const int spd = op->form == PU_FORM_SYMMETRIC;
    const pu_int all = op->rows * op->cols, factor = spd && op->aux ? all : 0;
    *bytes = (size_t)(all + factor) * sizeof(pu_real);
    side->params = all, side->work = op->cols;
    side->apply = pu__cuda_dense_apply, side->apply_t = pu__cuda_dense_apply_t, side->grad = pu__cuda_dense_grad;
    if (spd) side->apply_t = pu__cuda_dense_apply, made->grad_from_sums = pu__cuda_spd_pull;
    if (factor) side->sample = pu__cuda_spd_sample;
    if (!spd && op->apply_rows) {
        side->apply_rows = pu__cuda_dense_apply_rows, side->apply_rows_t = pu__cuda_dense_apply_rows_t;
        side->grad_rows = pu__cuda_dense_grad_rows;
    }
    if (!memory) return PU_OK;
    b->value = (pu_real *)memory, b->factor = factor ? b->value + all : NULL;
    pu__cuda_write(c, b->value, op->data, (size_t)all * sizeof(pu_real));
    if (factor) {
        struct CUstream_st *stream = c->turning ? c->copy : c->stream;
        pu__cuda_write(c, b->factor, op->aux, (size_t)all * sizeof(pu_real));
        PU_LAUNCH(pu__cuda_lower, pu__cuda_grid(pu__cuda_blocks(all, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0, stream,
                  op->rows, b->factor);
        pu__cuda_launched(c);
    }
    return pu__cuda_said(c);
}

/* ------------------------------------------------------------------------------------------------
   >>sparse   Phi with few entries a row: compressed rows, and where the entries of each column are. Its grad adds up the gradients of
   the entries; of them the host makes those of the parameters, by row_grad where it has one.
   ------------------------------------------------------------------------------------------------ */

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_sparse_apply(pu_int n, const pu_int *start, const pu_int *index, const pu_real *value, pu_int k, pu_block X, pu_block Y,
                          int add)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            pu_real s = PU_R(0);
            for (pu_int at = start[i]; at < start[i + 1]; at++) s += value[at] * pu__col(X, j)[index[at]];
            pu__col(Y, j)[i] = add ? pu__col(Y, j)[i] + s : s;
        }
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_sparse_apply_t(pu_int n, const pu_int *start, const pu_int *place, const pu_int *row_of, const pu_real *value, pu_int k,
                            pu_block X, pu_block Y, int add)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            pu_real s = PU_R(0);
            for (pu_int at = start[i]; at < start[i + 1]; at++) s += value[place[at]] * pu__col(X, j)[row_of[place[at]]];
            pu__col(Y, j)[i] = add ? pu__col(Y, j)[i] + s : s;
        }
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_sparse_grad(pu_int entries, const pu_int *row_of, const pu_int *index, pu_int k, pu_block P, pu_block Q,
                         const pu_real *weight, pu_real *grad)
{
    PU_SHARED_ARRAY(pu__adder, scratch, PU__CUDA_THREADS);
    for (pu_int from = (pu_int)blockIdx.x * PU__CUDA_ROWS; from < entries; from += (pu_int)gridDim.x * PU__CUDA_ROWS) {
        const pu_int at = from + (pu_int)threadIdx.x;
        pu__adder v = pu__adder_of(PU_R(0));
        for (pu_int j = threadIdx.y; j < k && at < entries; j += PU__CUDA_ACROSS)
            if (weight[j] != PU_R(0)) pu__adder_add(&v, weight[j] * (pu__col(P, j)[row_of[at]] * pu__col(Q, j)[index[at]]));
        v = pu__along_row(v, scratch);
        if (at < entries && threadIdx.y == 0) grad[at] += pu__adder_value(v);
    }
}

static pu_status pu__cuda_csr_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    PU__CUDA_EACH_ENTRY(pu__cuda_sparse_apply, c, op->rows, k, op->rows, b->start, b->index, b->value, k, X, Y, add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_csr_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    PU__CUDA_EACH_ENTRY(pu__cuda_sparse_apply_t, c, op->cols, k, op->cols, b->turned_start, b->turned_place, b->row_of, b->value, k, X, Y,
                        add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_csr_grad(const pu_op *op, pu_int k, pu_block P, pu_block Q, const pu_real *weight, pu_real *grad,
                                   pu_real *work)
{
    const pu_cuda_side *b = pu__cuda_side(op);
    pu_cuda *c = pu__cuda_of(op);
    (void)work;
    PU_LAUNCH(pu__cuda_sparse_grad, pu__cuda_grid(pu__cuda_blocks(op->params, PU__CUDA_ROWS), 1, 1),
              dim3(PU__CUDA_ROWS, PU__CUDA_ACROSS), 0, c->stream, op->params, b->row_of, b->index, k, P, Q, weight, grad);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

/* entries row by row to the parameters */
static pu_status pu__cuda_rows_pull(const pu_side *side, const pu_real *sums, pu_real *grad)
{
    const pu_op *op = pu__cuda_side(&side->op)->op;
    double *g = (double *)pu__cuda_host(pu__cuda_of(&side->op), (size_t)(op->band + 1) * (sizeof(double) + sizeof(pu_real)));
    pu_real *value = (pu_real *)(g + op->band + 1);
    pu_int at = 0, first;
    if (!g) return PU_E_MEMORY;
    for (pu_int m = 0; m < op->rows; m++) {
        const pu_int count = op->row(op, m, &first, value);
        for (pu_int l = 0; l < count; l++) g[l] = (double)sums[at++];
        if (count > 0 && op->row_grad(op, m, g, grad)) return PU_E_OPERATOR;
    }
    return PU_OK;
}

/* entries of the host's operator: rows one after the other; value, index and start may be NULL. Returns how many, -1: bad rows */
static pu_int pu__cuda_entries(const pu_op *op, pu_real *value, pu_int *index, pu_int *start, pu_real *row)
{
    pu_int at = 0, first = 0;
    for (pu_int m = 0; m < op->rows; m++) {
        const pu_int count = op->row(op, m, &first, row);
        if (count < 0 || count > op->band + 1 || first < 0 || first + count > op->cols) return -1;
        if (start) start[m] = at;
        for (pu_int l = 0; l < count && value; l++) value[at + l] = row[l], index[at + l] = first + l;
        at += count;
    }
    if (start) start[op->rows] = at;
    return at;
}

static pu_status pu__cuda_make_sparse(pu_cuda *c, pu_cuda_side *b, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_op *side = &made->op;
    const int csr = op->form == PU_FORM_SPARSE;
    const pu_csr *a = csr ? (const pu_csr *)op->data : NULL;
    const pu_int rows = op->rows, cols = op->cols;
    pu_int entries, ints, *host, *start, *index, *row_of, *turned, *place;
    pu_real *row = (pu_real *)pu__cuda_host(c, (size_t)(op->band + 1) * sizeof *row), *value;
    if (!row) return PU_E_MEMORY;
    if (csr && (!a->start || !a->index || !a->value)) return PU_E_NULL;
    entries = csr ? op->params : pu__cuda_entries(op, NULL, NULL, NULL, row);
    if (entries < 0 || (csr && memory && a->start[rows] != entries)) return PU_E_OPERATOR;
    ints = rows + 1 + cols + 1 + 3 * entries;
    *bytes = (size_t)ints * sizeof(pu_int) + (size_t)entries * sizeof(pu_real);
    side->params = op->params ? entries : 0;
    side->apply = pu__cuda_csr_apply, side->apply_t = pu__cuda_csr_apply_t;
    if (op->params) side->grad = pu__cuda_csr_grad, made->grad_from_sums = csr ? NULL : pu__cuda_rows_pull;
    if (!memory) return PU_OK;
    b->start = (pu_int *)memory, b->index = b->start + rows + 1, b->row_of = b->index + entries;
    b->turned_start = b->row_of + entries, b->turned_place = b->turned_start + cols + 1;
    b->value = (pu_real *)(b->turned_place + entries);
    host = (pu_int *)pu__cuda_host(c, *bytes + (size_t)(op->band + 1) * sizeof *row);
    if (!host) return PU_E_MEMORY;
    start = host, index = start + rows + 1, row_of = index + entries, turned = row_of + entries, place = turned + cols + 1;
    value = (pu_real *)(place + entries), row = value + entries;
    if (csr) {
        memcpy(start, a->start, (size_t)(rows + 1) * sizeof *start);
        memcpy(index, a->index, (size_t)entries * sizeof *index);
        memcpy(value, a->value, (size_t)entries * sizeof *value);
    } else (void)pu__cuda_entries(op, value, index, start, row);
    for (pu_int m = 0; m < rows; m++)
        for (pu_int at = start[m]; at < start[m + 1]; at++) row_of[at] = m;
    for (pu_int d = 0; d <= cols; d++) turned[d] = 0;
    for (pu_int at = 0; at < entries; at++) turned[index[at] + 1]++;
    for (pu_int d = 0; d < cols; d++) turned[d + 1] += turned[d];
    for (pu_int at = 0; at < entries; at++) place[turned[index[at]]++] = at;
    for (pu_int d = cols; d > 0; d--) turned[d] = turned[d - 1];
    turned[0] = 0;
    pu__cuda_write(c, memory, host, *bytes);
    return pu__cuda_said(c);
}

/* ------------------------------------------------------------------------------------------------
   >>fourier   two real columns are the real and imaginary part of one complex image; cuFFT transforms all pairs at a time. With
   A, B the transforms of the two and Z = A + i B:  A(k) = (Z(k) + conj Z(-k)) / 2,  B(k) = (Z(k) - conj Z(-k)) / 2i.
   ------------------------------------------------------------------------------------------------ */

typedef struct {
    pu_real re, im;
} pu__cuda_complex;

#ifdef PU_FLOAT
#define PU__CUFFT_TYPE CUFFT_C2C
#define pu__cufft_run cufftExecC2C
#define pu__cufft_number cufftComplex
#else
#define PU__CUFFT_TYPE CUFFT_Z2Z
#define pu__cufft_run cufftExecZ2Z
#define pu__cufft_number cufftDoubleComplex
#endif

enum { PU__CUDA_PAIRS = 16, PU__CUDA_ALIGN = 256 }; /* of images, asked for to know the work area of many; bytes, of that area */

/* the frequency opposite to i */
static __device__ __forceinline__ pu_int pu__opposite(pu_int i, pu_int rows, pu_int cols)
{
    const pu_int r = pu__quotient(i, cols), c = pu__remainder(i, cols);
    return (r ? rows - r : 0) * cols + (c ? cols - c : 0);
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_pack(pu_int n, pu_int k, pu_block X, pu__cuda_complex *Z)
{
    for (pu_int p = pu__thread_column(); 2 * p < k; p += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            Z[p * n + i].re = pu__col(X, 2 * p)[i];
            Z[p * n + i].im = 2 * p + 1 < k ? pu__col(X, 2 * p + 1)[i] : PU_R(0);
        }
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_unpack(pu_int n, pu_int k, const pu__cuda_complex *Z, pu_real scale, pu_block Y, int add)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart()) {
        const pu_real *z = &Z[(j >> 1) * n].re + (j & 1);
        const pu_int i = pu__thread_row(); /* the grid covers a column */
        pu_real *y = pu__col(Y, j);
        if (i < n) y[i] = scale * z[2 * i] + (add ? y[i] : PU_R(0));
    }
}

/* Y = [Re A; Im A] of every column */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_spectra(pu_int rows, pu_int cols, pu_int k, const pu__cuda_complex *Z, pu_real scale, pu_block Y, int add)
{
    const pu_int n = rows * cols;
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu__cuda_complex z = Z[j / 2 * n + i], o = Z[j / 2 * n + pu__opposite(i, rows, cols)];
            const pu_real half = scale / 2, re = half * (j % 2 ? z.im + o.im : z.re + o.re),
                          im = half * (j % 2 ? o.re - z.re : z.im - o.im);
            pu_real *y = pu__col(Y, j);
            y[i] = add ? y[i] + re : re, y[n + i] = add ? y[n + i] + im : im;
        }
}

/* the other way: Z = h(a) + i h(b), h(c)(k) = (c(k) + conj c(-k)) / 2 */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_pack_spectra(pu_int rows, pu_int cols, pu_int k, pu_block X, pu__cuda_complex *Z)
{
    const pu_int n = rows * cols;
    for (pu_int p = pu__thread_column(); 2 * p < k; p += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu_int o = pu__opposite(i, rows, cols);
            const pu_real *a = pu__col(X, 2 * p), *b = 2 * p + 1 < k ? pu__col(X, 2 * p + 1) : NULL;
            pu__cuda_complex z;
            z.re = (a[i] + a[o]) / 2, z.im = (a[n + i] - a[n + o]) / 2;
            if (b) z.re -= (b[n + i] - b[n + o]) / 2, z.im += (b[i] + b[o]) / 2;
            Z[p * n + i] = z;
        }
}

/* Re A and Im A times the symbols of w, whose halves weigh them: a frequency and its opposite a thread */
static __global__ void __launch_bounds__(PU__CUDA_THREADS)
    pu__cuda_weigh_spectra(pu_int rows, pu_int cols, pu_int k, pu_int each, const pu_real *w, pu_real scale, pu__cuda_complex *Z)
{
    const pu_int n = rows * cols;
    for (pu_int p = pu__thread_column(); 2 * p < k; p += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart()) {
            const pu_int o = pu__opposite(i, rows, cols);
            if (o < i) continue; /* its opposite does it */
            const pu__cuda_complex z = Z[p * n + i], y = Z[p * n + o];
            pu_real a_re = (z.re + y.re) / 2, a_im = (z.im - y.im) / 2, b_re = (z.im + y.im) / 2, b_im = (y.re - z.re) / 2;
            const pu_real *wa = w + pu__quotient(2 * p, each) * (2 * n);
            const pu_real *wb = 2 * p + 1 < k ? w + pu__quotient(2 * p + 1, each) * (2 * n) : wa;
            a_re *= scale * (wa[i] + wa[o]) / 2, a_im *= scale * (wa[n + i] + wa[n + o]) / 2;
            b_re *= scale * (wb[i] + wb[o]) / 2, b_im *= scale * (wb[n + i] + wb[n + o]) / 2;
            Z[p * n + i].re = a_re - b_im, Z[p * n + i].im = a_im + b_re;
            if (o != i) Z[p * n + o].re = a_re + b_im, Z[p * n + o].im = b_re - a_im;
        }
}

/* Bytes of cuFFT's work area for so many pairs of images, as cuFFT tells them. What it does not tell is taken for four times the data;
   where that is too little, pu__cuda_transform goes on with fewer pairs at a time. */
static size_t pu__cuda_fft_area(const pu_fourier *f, pu_int pairs)
{
    long long size[2];
    size_t area = 0;
    cufftHandle plan;
    cufftResult told;
    size[0] = (long long)f->rows;
    size[1] = (long long)f->cols;
    if (cufftCreate(&plan) != CUFFT_SUCCESS) return 4 * sizeof(pu__cuda_complex) * (size_t)(f->rows * f->cols * pairs);
    told = cufftGetSizeMany64(plan, 2, size, NULL, 1, 0, NULL, 1, 0, PU__CUFFT_TYPE, (long long)pairs, &area);
    (void)cufftDestroy(plan);
    return told == CUFFT_SUCCESS ? area : 4 * sizeof(pu__cuda_complex) * (size_t)(f->rows * f->cols * pairs);
}

/* The two numbers that a side needs, kept for the images of the last call. */
static void pu__cuda_fft_areas(pu_cuda *c, const pu_fourier *f)
{
    if (c->image[0] == f->rows && c->image[1] == f->cols) return;
    c->image[0] = f->rows;
    c->image[1] = f->cols;
    c->image_area[0] = pu__cuda_fft_area(f, 1);
    c->image_area[1] = (pu__cuda_fft_area(f, PU__CUDA_PAIRS) + PU__CUDA_PAIRS - 1) / PU__CUDA_PAIRS;
    (void)cudaGetLastError();
}

/* The place of a plan for so many pairs; -1: failed. A plan that a captured graph runs stays until the context is closed: the graph knows
   the plan's own memory. */
static int pu__cuda_plan(pu_cuda *c, const pu_fourier *f, pu_int pairs)
{
    int use = -1, oldest = -1;
    long long size[2];
    cufftHandle plan;
    for (int l = 0; l < PU_CUDA_PLANS; l++) {
        if (c->plans[l].made && c->plans[l].rows == f->rows && c->plans[l].cols == f->cols && c->plans[l].pairs == pairs) use = l;
        if (!c->plans[l].kept && (oldest < 0 || c->plans[l].used < c->plans[oldest].used)) oldest = l;
    }
    if (use < 0 && c->capturing) {
        pu__cuda_failed(c, PU_E_DEVICE, "cuFFT: no plan of this size yet, and none can be made in a capture: solve once before it begins");
        return -1;
    }
    if (use < 0 && oldest < 0) {
        pu__cuda_failed(c, PU_E_DEVICE, "cuFFT: captured graphs run all plans that a context has; this size needs a context of its own");
        return -1;
    }
    if (use < 0) { /* in the place of the one that was not used for longest */
        use = oldest;
        size[0] = (long long)f->rows;
        size[1] = (long long)f->cols;
        if (c->plans[use].made) (void)pu__cufft_ok(c, cufftDestroy((cufftHandle)c->plans[use].plan));
        c->plans[use].made = 0;
        c->allocations++;
        if (!pu__cufft_ok(c, cufftCreate(&plan))) return -1;
        c->plans[use].made = 1;
        c->plans[use].plan = (int)plan;
        c->plans[use].rows = f->rows;
        c->plans[use].cols = f->cols;
        c->plans[use].pairs = 0; /* until it is whole */
        if (!pu__cufft_ok(c, cufftSetAutoAllocation(plan, 0)) ||
            !pu__cufft_ok(c, cufftMakePlanMany64(plan, 2, size, NULL, 1, 0, NULL, 1, 0, PU__CUFFT_TYPE, (long long)pairs,
                                                 &c->plans[use].work)) ||
            !pu__cufft_ok(c, cufftSetStream(plan, c->stream)))
            return -1;
        c->plans[use].pairs = pairs;
    }
    c->plans[use].used = ++c->clock;
    c->plans[use].kept |= c->capturing;
    return use;
}

/* Where cuFFT works: what a call's scratch has left beside the images of k columns, or the side's own room for one pair. Both are memory
   of whoever called, who owns it as long as a captured graph may run. */
typedef struct {
    unsigned char *at;
    size_t bytes;
} pu__cuda_area;

static pu__cuda_area pu__cuda_fft_room(const pu_op *op, pu_int k, pu_real *work)
{
    const pu_cuda *c = pu__cuda_of(op);
    const size_t images = (size_t)((k + 1) / 2 * 2 * op->cols) * sizeof(pu_real), all = (size_t)(k * op->work) * sizeof(pu_real);
    pu__cuda_area left = {(unsigned char *)work + images, all - images}, own = {(unsigned char *)pu__cuda_side(op)->value, 0};
    pu__cuda_area *use = &left;
    size_t skip;
    own.bytes = c->image_area[0] + PU__CUDA_ALIGN;
    if (own.bytes > left.bytes) use = &own;
    skip = (PU__CUDA_ALIGN - (uintptr_t)use->at % PU__CUDA_ALIGN) % PU__CUDA_ALIGN;
    if (skip > use->bytes) skip = use->bytes;
    use->at += skip;
    use->bytes -= skip;
    return *use;
}

/* All pairs of images there (or back), unscaled; as many at a time as the work area has room for. */
static pu_status pu__cuda_transform(const pu_op *op, const pu_fourier *f, pu_int k, int back, pu__cuda_complex *Z)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu__cuda_area room = pu__cuda_fft_room(op, k, &Z->re);
    const pu_int pairs = (k + 1) / 2;
    pu_int most = pairs, some;
    for (pu_int done = 0; done < pairs && !c->status; done += some) {
        int use;
        some = pu__min(most, pairs - done);
        use = pu__cuda_plan(c, f, some);
        while (use >= 0 && some > 1 && c->plans[use].work > room.bytes) {
            some = most = (some + 1) / 2;
            use = pu__cuda_plan(c, f, some);
        }
        if (use < 0) break;
        if (c->plans[use].work > room.bytes) {
            pu__cuda_failed(c, PU_E_MEMORY, "cuFFT: its work area for one image is larger than it had said");
            break;
        }
        (void)pu__cufft_ok(c, cufftSetWorkArea((cufftHandle)c->plans[use].plan, room.at));
        (void)pu__cufft_ok(c, pu__cufft_run((cufftHandle)c->plans[use].plan, (pu__cufft_number *)(Z + done * op->cols),
                                            (pu__cufft_number *)(Z + done * op->cols), back ? CUFFT_INVERSE : CUFFT_FORWARD));
    }
    return pu__cuda_said(c);
}

static const pu_fourier *pu__cuda_image(const pu_op *op) { return (const pu_fourier *)pu__cuda_side(op)->op->data; }

static pu_status pu__cuda_fourier_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu_fourier *f = pu__cuda_image(op);
    const pu_int n = op->cols, pairs = (k + 1) / 2;
    pu__cuda_complex *Z = (pu__cuda_complex *)work;
    PU__CUDA_EACH_ENTRY(pu__cuda_pack, c, n, pairs, n, k, X,
              Z);
    pu__cuda_launched(c);
    if (pu__cuda_transform(op, f, k, 0, Z)) return PU_E_DEVICE;
    PU__CUDA_EACH_ENTRY(pu__cuda_spectra, c, n, k, f->rows,
              f->cols, k, Z, f->scale, Y, add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_fourier_apply_t(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu_fourier *f = pu__cuda_image(op);
    const pu_int n = op->cols, pairs = (k + 1) / 2;
    pu__cuda_complex *Z = (pu__cuda_complex *)work;
    PU_LAUNCH(pu__cuda_pack_spectra, pu__cuda_grid(pu__cuda_blocks(n, PU__CUDA_THREADS), pairs, 1), PU__CUDA_THREADS, 0, c->stream,
              f->rows, f->cols, k, X, Z);
    pu__cuda_launched(c);
    if (pu__cuda_transform(op, f, k, 1, Z)) return PU_E_DEVICE;
    PU__CUDA_EACH_ENTRY(pu__cuda_unpack, c, n, k, n, k, Z,
              f->scale, Y, add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

static pu_status pu__cuda_fourier_gram(const pu_op *op, const pu_real *w, pu_int k, pu_block X, pu_block Y, int add, pu_real *work)
{
    pu_cuda *c = pu__cuda_of(op);
    const pu_fourier *f = pu__cuda_image(op);
    const pu_int n = op->cols, pairs = (k + 1) / 2;
    pu__cuda_complex *Z = (pu__cuda_complex *)work;
    PU__CUDA_EACH_ENTRY(pu__cuda_pack, c, n, pairs, n, k, X, Z);
    pu__cuda_launched(c);
    if (pu__cuda_transform(op, f, k, 0, Z)) return PU_E_DEVICE;
    PU__CUDA_EACH_ENTRY(pu__cuda_weigh_spectra, c, n, pairs, f->rows, f->cols, k, pu__cuda_each(c, k), w, f->scale * f->scale, Z);
    pu__cuda_launched(c);
    if (pu__cuda_transform(op, f, k, 1, Z)) return PU_E_DEVICE;
    PU__CUDA_EACH_ENTRY(pu__cuda_unpack, c, n, k, n, k, Z,
              PU_R(1), Y, add);
    pu__cuda_launched(c);
    return pu__cuda_said(c);
}

/* Scratch of a column: (k + 1) / 2 complex images, k of them at the most, and its share of cuFFT's work area. Where a single column
   leaves too little, the side's own memory has room for one pair. */
static void pu__cuda_make_fourier(pu_cuda *c, pu_cuda_side *b, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_op *side = &made->op;
    pu_int share;
    pu__cuda_fft_areas(c, (const pu_fourier *)op->data);
    share = (pu_int)((c->image_area[1] + PU__CUDA_ALIGN) / (2 * sizeof(pu_real))) + 1;
    *bytes = c->image_area[0] + PU__CUDA_ALIGN;
    b->value = (pu_real *)memory;
    side->params = 0;
    side->work = pu__most(2 * op->cols, op->cols + share);
    side->apply = pu__cuda_fourier_apply, side->apply_t = pu__cuda_fourier_apply_t, made->gram = pu__cuda_fourier_gram;
}

/* ------------------------------------------------------------------------------------------------
   >>sides
   ------------------------------------------------------------------------------------------------ */

static pu_status pu__cuda_any_side(pu_cuda *c, int slot, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_op *side = &made->op;
    pu_cuda_side *b = &c->side[slot];
    const int dense = op->form == PU_FORM_MATRIX || op->form == PU_FORM_SYMMETRIC;
    if (op->params > 0 && !op->data) return PU_E_NULL;
    memset(made, 0, sizeof *made);
    side->rows = op->rows, side->cols = op->cols, side->noise = op->noise, side->trusted = 2, side->flops = op->flops;
    side->data = b;
    if (memory) memset(b, 0, sizeof *b);
    b->cuda = c, b->op = op;
    *bytes = 0;
    if (dense) return pu__cuda_make_dense(c, b, op, memory, bytes, made);
    if (slot == 0 && op->band_add && (op->band_grad || !op->params) && op->band >= 0)
        return pu__cuda_make_banded(c, b, op, memory, bytes, made);
    if (op->form == PU_FORM_SPARSE || (slot == 1 && op->row && (op->row_grad || !op->params) && op->band >= 0))
        return pu__cuda_make_sparse(c, b, op, memory, bytes, made);
    if (op->form == PU_FORM_FOURIER) {
        pu__cuda_make_fourier(c, b, op, memory, bytes, made);
        return PU_OK;
    }
    return PU_E_UNSUPPORTED;
}

static pu_status pu__cuda_make_side(void *user, int slot, const pu_op *op, void *memory, size_t *bytes, pu_side *made)
{
    pu_cuda *c = pu__cuda(user);
    const int outermost = pu__cuda_enter(c);
    const pu_status status = pu__cuda_any_side(c, slot, op, memory, bytes, made);
    if (outermost) pu__cuda_leave(c);
    return status;
}

/* ------------------------------------------------------------------------------------------------
   >>context
   ------------------------------------------------------------------------------------------------ */

PU_DEF void pu_cuda_close(pu_cuda *c)
{
    const int theirs = cudaPeekAtLastError() != cudaSuccess;
    int before = 0;
    if (!c) return;
    if (c->open) {
        if (cudaGetDevice(&before) != cudaSuccess) before = c->device;
        (void)cudaSetDevice(c->device);
        if (c->stream) (void)cudaStreamSynchronize(c->stream);
        if (c->copy) (void)cudaStreamSynchronize(c->copy);
        for (int l = 0; l < PU_CUDA_PLANS; l++)
            if (c->plans[l].made) (void)cufftDestroy((cufftHandle)c->plans[l].plan);
        if (c->blas) (void)cublasDestroy((cublasHandle_t)c->blas);
        if (c->random) (void)curandDestroyGenerator((curandGenerator_t)c->random);
        if (c->uploaded) (void)cudaEventDestroy(c->uploaded);
        for (int l = 0; l < 2; l++) {
            if (c->done[l]) (void)cudaEventDestroy(c->done[l]);
            for (int s = 0; s < 2; s++)
                if (c->half[l][s]) (void)cudaEventDestroy(c->half[l][s]);
        }
        if (c->own_memory && c->memory) (void)cudaFree(c->memory);
        if (c->blas_memory) (void)cudaFree(c->blas_memory);
        if (c->partial) (void)cudaFree(c->partial);
        if (c->pinned) (void)cudaFreeHost(c->pinned);
        if (c->copy) (void)cudaStreamDestroy(c->copy);
        if (c->own_stream && c->stream) (void)cudaStreamDestroy(c->stream);
        (void)cudaSetDevice(before);
        if (!theirs) (void)cudaGetLastError();
        free(c->host);
    }
    memset(c, 0, sizeof *c);
}

static void pu__cuda_events(pu_cuda *c)
{
    struct CUevent_st **events[] = {&c->uploaded, &c->done[0], &c->done[1], &c->half[0][0], &c->half[0][1], &c->half[1][0],
                                    &c->half[1][1]};
    for (size_t l = 0; l < sizeof events / sizeof *events && !c->status; l++)
        (void)pu__cuda_ok(c, cudaEventCreateWithFlags(events[l], cudaEventDisableTiming));
}

static void pu__cuda_take(pu_cuda *c, const pu_cuda_options *o)
{
    size_t free_bytes = 0, total = 0;
    if (o->stream) c->stream = o->stream;
    else if (pu__cuda_ok(c, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking))) c->own_stream = 1;
    if (!c->status) (void)pu__cuda_ok(c, cudaStreamCreateWithFlags(&c->copy, cudaStreamNonBlocking));
    pu__cuda_events(c);
    if (!c->status && !pu__cuda_ok(c, cudaMalloc(&c->partial, PU__CUDA_PARTIAL))) c->partial = NULL;
    if (!c->status && !pu__cuda_ok(c, cudaMallocHost((void **)&c->pinned, 2 * PU__CUDA_PINNED))) c->pinned = NULL;
    if (!c->status && !pu__cublas_ok(c, cublasCreate((cublasHandle_t *)&c->blas))) c->blas = NULL;
    if (!c->status && !pu__cuda_ok(c, cudaMalloc(&c->blas_memory, PU__CUDA_BLAS))) c->blas_memory = NULL;
    if (!c->status) (void)pu__cublas_ok(c, cublasSetStream((cublasHandle_t)c->blas, c->stream));
    if (!c->status) (void)pu__cublas_ok(c, cublasSetWorkspace((cublasHandle_t)c->blas, c->blas_memory, PU__CUDA_BLAS));
    if (!c->status)
        (void)pu__cublas_ok(c, cublasSetMathMode((cublasHandle_t)c->blas, o->tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
    if (c->status) return;
    c->own_memory = !o->memory;
    if (o->memory) c->memory = (unsigned char *)o->memory, c->bytes = o->bytes;
    if (!pu__cuda_ok(c, cudaMemGetInfo(&free_bytes, &total))) return;
    c->backend.budget = o->budget ? o->budget : o->memory ? o->bytes : free_bytes / 10 * 9;
    if (o->memory && c->backend.budget > o->bytes) c->backend.budget = o->bytes;
}

PU_DEF pu_status pu_cuda_open(pu_cuda *c, const pu_cuda_options *options, pu_report *report)
{
    pu_report local;
    pu_cuda_options o;
    int devices = 0, before = 0, left_behind;
    cudaError_t error;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!c) return pu__fail(report, PU_E_NULL, "cuda", -1, -1);
    memset(c, 0, sizeof *c), memset(&o, 0, sizeof o);
    if (options) o = *options;
    c->left_behind = left_behind = (int)cudaGetLastError();
    error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices < 1) {
        (void)cudaGetLastError();
        if (left_behind && error != cudaSuccess && error != cudaErrorNoDevice && error != cudaErrorInsufficientDriver)
            return pu__fail(report, PU_E_DEVICE, PU__CUDA_LOST, -1, -1);
        return pu__fail(report, PU_E_NO_DEVICE, error != cudaSuccess ? cudaGetErrorString(error) : "no device", -1, -1);
    }
    if (o.device < 0 || o.device >= devices) return pu__fail(report, PU_E_ARGUMENT, "options.device", -1, -1);
    if (o.memory && o.bytes == 0) return pu__fail(report, PU_E_ARGUMENT, "options.bytes", -1, -1);
    error = cudaGetDevice(&before);
    if (error == cudaSuccess) error = cudaSetDevice(o.device);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return pu__fail(report, PU_E_DEVICE, cudaGetErrorString(error), -1, -1);
    }
    report->device_bytes = PU__CUDA_PARTIAL + PU__CUDA_BLAS;
    c->open = c->inside = 1, c->device = o.device, c->before = before, c->count = 1;
    pu__cuda_take(c, &o);
    pu__cuda_leave(c);
    if (c->status) {
        const pu_status status = c->status;
        const char *what = c->what;
        pu_cuda_close(c);
        c->left_behind = left_behind;
        return pu__fail(report, status, what, -1, -1);
    }
    c->backend.user = c;
    c->backend.dot = pu__cuda_dots, c->backend.combine = pu__cuda_combination, c->backend.advance = pu__cuda_advances;
    c->backend.stage = pu__cuda_stages, c->backend.row_dot = pu__cuda_row_dots, c->backend.normals = pu__cuda_draw;
    c->backend.read = pu__cuda_read, c->backend.write = pu__cuda_write, c->backend.retreat = pu__cuda_retreats;
    c->backend.unwind_sums = pu__cuda_unwinds_sums, c->backend.unwind = pu__cuda_unwinds;
    c->backend.sum_dot = pu__cuda_sum_dot, c->backend.row_terms = pu__cuda_rows_terms;
    c->backend.memory = pu__cuda_memory, c->backend.batch = pu__cuda_batch, c->backend.use_slot = pu__cuda_turn;
    c->backend.side = pu__cuda_make_side, c->backend.status = pu__cuda_status;
    return PU_OK;
}

/* ---- everything on the device ---- */

typedef struct {
    pu__operator A;
    pu__system system;
    pu__run run;
    pu_real *ones;
} pu__cuda_solve_memory;

/* What a solve needs, in device memory (memory NULL: measured). The host's part, which nobody reads, is measured only. */
static size_t pu__cuda_solve_layout(pu__cuda_solve_memory *w, const pu_backend *B, const pu_op *A, const pu__plan *plan, pu_int k,
                                    int gradient, void *memory, int *overflow)
{
    pu__arena arena = PU__ZERO;
    arena.B = B, arena.far = (unsigned char *)memory;
    if (memory) arena.far += (PU__ALIGN - (uintptr_t)memory % PU__ALIGN) % PU__ALIGN;
    memset(&w->A, 0, sizeof w->A);
    w->A.side.op = *A;
    w->system = pu__operator_system(&w->A);
    pu__run_layout(&w->run, &arena, &w->system, B, plan, k, 1, gradient);
    w->A.work = pu__far_reals(&arena, A->work, k);
    *overflow = arena.overflow;
    return arena.far_used + PU__ALIGN;
}

static pu_status pu__cuda_solve_plan(const pu_cuda *c, const pu_op *A, pu_int k, const pu_solve_options *options, int gradient,
                                     pu__plan *plan, pu_report *report)
{
    const pu_solve_options *o = pu__solve_defaults(options);
    pu_status status;
    if (!c || !c->open) return pu__fail(report, c ? PU_E_ARGUMENT : PU_E_NULL, "cuda", -1, -1);
    status = pu__solve_check(A, k, report);
    if (!status) status = pu__plan_make(o, A->rows, 0, gradient, plan, report);
    if (status) return status;
    if (plan->tolerance_mode) return pu__fail(report, PU_E_UNSUPPORTED, "options.tolerance (fixed steps only)", -1, -1);
    if (plan->solver == PU_GD) return pu__fail(report, PU_E_UNSUPPORTED, "options.solver (CG, PCG, SD)", -1, -1);
    if (gradient && plan->adjoint == PU_ADJOINT_AUTO)
        return pu__fail(report, PU_E_UNSUPPORTED, "options.adjoint (auto must look at its check)", -1, -1);
    if (o->M || o->preconditioner || o->compare) return pu__fail(report, PU_E_UNSUPPORTED, "options.solve.M, compare (not on a device)", -1, -1);
    if (plan->solver == PU_PCG && !o->precond) return pu__fail(report, PU_E_NULL, "options.precond", -1, -1);
    if (gradient && !A->grad) return pu__fail(report, PU_E_UNSUPPORTED, "A.grad", -1, -1);
    return PU_OK;
}

PU_DEF pu_status pu_cuda_solve_bytes(const pu_cuda *c, const pu_op *A, pu_int k, const pu_solve_options *options, int gradient,
                                     size_t *bytes, pu_report *report)
{
    pu_report local;
    pu__plan plan;
    pu__cuda_solve_memory w;
    pu_status status;
    int overflow;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!bytes) return pu__fail(report, PU_E_NULL, "bytes", -1, -1);
    status = pu__cuda_solve_plan(c, A, k, options, gradient, &plan, report);
    if (status) return status;
    *bytes = pu__cuda_solve_layout(&w, &c->backend, A, &plan, k, gradient, NULL, &overflow);
    return overflow ? pu__fail(report, PU_E_OVERFLOW, "memory", -1, -1) : PU_OK;
}

static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_inverse(pu_int n, const pu_real *m, pu_real *minv)
{
    const pu_int i = (pu_int)blockIdx.x * PU__CUDA_THREADS + (pu_int)threadIdx.x;
    if (i < n) minv[i] = PU_R(1) / m[i];
}

/* pu_cuda_solve, once its device is current */
static pu_status pu__cuda_solve_here(pu_cuda *c, const pu_op *A, pu_int k, const pu_real *U, pu_int ldu, pu_real *X, pu_int ldx,
                                     const pu_real *x0, const pu_real *weight, const pu_solve_options *options, void *memory,
                                     size_t bytes, pu_real *grad_A, int32_t *stop, pu_report *report)
{
    const pu_solve_options *o = pu__solve_defaults(options);
    const int gradient = grad_A != NULL;
    pu__plan plan;
    pu__cuda_solve_memory w;
    pu__run *g = &w.run;
    pu_status status;
    pu_term t;
    pu_block start;
    size_t need;
    int overflow;
    status = pu__cuda_solve_plan(c, A, k, options, gradient, &plan, report);
    if (status) return status;
    if (!U || !X || !memory || (gradient && !weight))
        return pu__fail(report, PU_E_NULL, !U ? "U" : !X ? "X" : !memory ? "memory" : "weight", -1, -1);
    ldu = ldu ? ldu : A->rows, ldx = ldx ? ldx : A->rows;
    if (ldu < A->rows || ldx < A->rows) return pu__fail(report, PU_E_SIZE, ldu < A->rows ? "ldu" : "ldx", -1, -1);
    need = pu__cuda_solve_layout(&w, &c->backend, A, &plan, k, gradient, NULL, &overflow);
    if (overflow) return pu__fail(report, PU_E_OVERFLOW, "memory", -1, -1);
    report->device_bytes = need;
    if (bytes < need) return pu__fail(report, PU_E_BLOCK, "memory", -1, -1);
    (void)pu__cuda_solve_layout(&w, &c->backend, A, &plan, k, gradient, memory, &overflow);
    c->count = 1;
    pu__run_set(g, plan.solver, k);
    if (g->m) {
        g->m = (pu_real *)(uintptr_t)o->precond;
        PU_LAUNCH(pu__cuda_inverse, pu__cuda_grid(pu__cuda_blocks(g->n, PU__CUDA_THREADS), 1, 1), PU__CUDA_THREADS, 0, c->stream,
                  g->n, g->m, g->minv);
        pu__cuda_launched(c);
    }
    t = pu__term(pu__rows(U, ldu));
    pu__cuda_combination(c, g->n, k, g->u, 1, &t);
    start = pu__rows(x0, g->n);
    g->s.detach = gradient && plan.adjoint != PU_ADJOINT_FULL;
    g->reorthogonal = gradient && plan.adjoint == PU_ADJOINT_REORTHOGONAL;
    status = pu__forward(g, x0 ? &start : NULL, plan.I);
    if (!status) status = pu__residual(g);
    if (!status && gradient) {
        t = pu__term_scaled(pu__rows(weight, k), PU_R(0.5));
        pu__cuda_combination(c, k, 1, pu__rows(g->s.scale, k), 1, &t);
        status = A->grad(A, k, g->x, g->x, g->s.scale, grad_A, w.A.work);
        t.scale = PU_R(1);
        pu__cuda_combination(c, k, 1, pu__rows(g->s.scale, k), 1, &t);
        if (!status) status = pu__reverse(g, x0 ? &start : NULL, grad_A);
    }
    if (status && !c->status) return pu__fail(report, PU_E_OPERATOR, "A.apply or A.grad", -1, -1);
    t = pu__term(g->x);
    if (!status) pu__cuda_combination(c, g->n, k, pu__rows(X, ldx), 1, &t);
    if (stop && !status) (void)pu__cuda_ok(c, cudaMemcpyAsync(stop, g->s.stop, (size_t)k * sizeof *stop, cudaMemcpyDeviceToDevice, c->stream));
    report->solver = plan.solver, report->iterations = plan.I, report->tape_every = plan.every, report->products = g->products;
    return PU_OK;
}

PU_DEF pu_status pu_cuda_solve(pu_cuda *c, const pu_op *A, pu_int k, const pu_real *U, pu_int ldu, pu_real *X, pu_int ldx,
                               const pu_real *x0, const pu_real *weight, const pu_solve_options *options, void *memory,
                               size_t bytes, pu_real *grad_A, int32_t *stop, pu_report *report)
{
    pu_report local;
    pu_status status;
    int outermost;
    if (!report) report = &local;
    pu__report_clear(report);
    if (!c || !c->open) return pu__fail(report, c ? PU_E_ARGUMENT : PU_E_NULL, "cuda", -1, -1);
    outermost = pu__cuda_enter(c);
    status = c->status;
    if (!status)
        status = pu__cuda_solve_here(c, A, k, U, ldu, X, ldx, x0, weight, options, memory, bytes, grad_A, stop, report);
    if (outermost) pu__cuda_leave(c);
    if (c->status) {
        const char *what = c->what;
        status = c->status, c->status = PU_OK, c->what = NULL;
        return pu__fail(report, status, what, -1, -1);
    }
    return status;
}

static curandStatus_t pu__cuda_bulk_here(pu_cuda *c, pu_int n, pu_real *x, uint64_t seed, uint64_t offset)
{
    curandStatus_t error = CURAND_STATUS_SUCCESS;
    if (!c->random) {
        c->allocations++;
        error = curandCreateGenerator((curandGenerator_t *)&c->random, CURAND_RNG_PSEUDO_PHILOX4_32_10);
        if (error != CURAND_STATUS_SUCCESS) c->random = NULL;
    }
    if (error == CURAND_STATUS_SUCCESS) error = curandSetStream((curandGenerator_t)c->random, c->stream);
    if (error == CURAND_STATUS_SUCCESS) error = curandSetPseudoRandomGeneratorSeed((curandGenerator_t)c->random, seed);
    if (error == CURAND_STATUS_SUCCESS) error = curandSetGeneratorOffset((curandGenerator_t)c->random, offset);
#ifdef PU_FLOAT
    if (error == CURAND_STATUS_SUCCESS) error = curandGenerateNormal((curandGenerator_t)c->random, x, (size_t)n, 0, 1);
#else
    if (error == CURAND_STATUS_SUCCESS) error = curandGenerateNormalDouble((curandGenerator_t)c->random, x, (size_t)n, 0, 1);
#endif
    return error;
}

PU_DEF pu_status pu_cuda_bulk_normals(pu_cuda *c, pu_int n, pu_real *x, uint64_t seed, uint64_t offset)
{
    curandStatus_t error = CURAND_STATUS_SUCCESS;
    pu_status status;
    int outermost;
    if (!c || !x) return PU_E_NULL;
    if (!c->open || n < 0 || n % 2) return PU_E_ARGUMENT;
    if (n == 0) return PU_OK;
    outermost = pu__cuda_enter(c);
    if (!c->status) error = pu__cuda_bulk_here(c, n, x, seed, offset);
    if (error != CURAND_STATUS_SUCCESS)
        pu__cuda_failed(c, error == CURAND_STATUS_ALLOCATION_FAILED ? PU_E_MEMORY : PU_E_DEVICE, "cuRAND: execution failed");
    if (outermost) pu__cuda_leave(c);
    status = c->status, c->status = PU_OK, c->what = NULL;
    return status;
}

/* ---- operators of yours ----

   The functions of op.device enqueue work on cuda->stream. Two ways, in the file with PU_IMPLEMENTATION, without a kernel of your own, for any function object f with a
   __device__ call operator, handed over by value:
     pu_cuda_each(cuda, n, k, f)                     f(i, j) for i < n, j < k: write what you like, e.g. entry i of column j
     pu_cuda_sums(cuda, n, k, f, weight, out)        *out += sum_j weight[j] sum_i f(i, j), always in the same order */

template <class F> static __global__ void __launch_bounds__(PU__CUDA_THREADS) pu__cuda_call_each(pu_int n, pu_int k, F f)
{
    for (pu_int j = pu__thread_column(); j < k; j += pu__columns_apart())
        for (pu_int i = pu__thread_row(); i < n; i += pu__rows_apart())
            f(i, j);
}

template <class F> static pu_status pu_cuda_each(pu_cuda *cuda, pu_int n, pu_int k, F f)
{
    const int outermost = pu__cuda_enter(cuda);
    if (n > 0 && k > 0)
        PU__CUDA_EACH_ENTRY(pu__cuda_call_each<F>, cuda, n, k, n, k, f);
    pu__cuda_launched(cuda);
    if (outermost) pu__cuda_leave(cuda);
    return pu__cuda_said(cuda);
}

template <class F> static pu_status pu_cuda_sums(pu_cuda *cuda, pu_int n, pu_int k, F f, const pu_real *weight, pu_real *out)
{
    const int outermost = pu__cuda_enter(cuda);
    pu__cuda_sum_all(cuda, n, k, f, weight, 1.0, out);
    if (outermost) pu__cuda_leave(cuda);
    return pu__cuda_said(cuda);
}

#endif /* PU_CUDA_IMPLEMENTATION_ONCE */
#endif /* PU_IMPLEMENTATION */

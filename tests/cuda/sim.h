/* sim.h - CUDA device code under g++, executed on the CPU by sim.cpp

   Include this file (or give it with -include) before pu_cuda.cuh. NVIDIA's own headers supply the types and the
   prototypes of the host calls; this file supplies what only nvcc knows: the built-in variables, barriers, warp
   operations, device arithmetic, and the three macros a kernel and its launch are written with:

       PU_LAUNCH(kernel, grid, block, dynamic_bytes, stream, arguments...)
       PU_DYN_SMEM(T, name)             dynamic shared memory as T *name
       PU_SHARED_ARRAY(T, name, N)      static shared memory as T name[N]

   sim.cpp runs the threads of a block, sim_runtime.cpp is the CUDA runtime, sim_libs.cpp is cuBLAS and cuFFT.
   README.md says how to compile all of it and what it can and cannot find.

   CONTENTS: >>tests  >>launch  >>shared  >>threads  >>atomics  >>arithmetic
*/
#ifndef PU_SIM_H
#define PU_SIM_H

#ifdef __CUDACC__
#error "sim.h stands in for nvcc; compile this with g++"
#endif

#include <cuda_runtime.h>

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tuple>
#include <type_traits>
#include <utility>

#define PU_SIM 1 /* code may ask whether it runs here */

/* ------------------------------------------------------------------------------------------------
   >>tests   what a test program may ask of the engine
   ------------------------------------------------------------------------------------------------ */

/* Order in which threads and blocks get to run, and in which lanes go on after they met.
   Start value: environment PU_SIM_ORDER = 0, 1, 2, else forward. */
enum { SIM_FORWARD = 0, SIM_REVERSE = 1, SIM_RANDOM = 2 };
void sim_thread_order(int order);

/* When the work of a stream is done. Eager: at once. Lazy: when something waits for it, and then only what that needs,
   the youngest stream and the latest node of a graph first. Random: some of it at every call, in an order that
   respects streams and events only. Start value: environment PU_SIM_STREAMS = 0, 1, 2, else lazy. */
enum { SIM_EAGER = 0, SIM_LAZY = 1, SIM_SHUFFLED = 2 };
void sim_stream_order(int order);

/* Seed of the random orders. Start value: environment PU_SIM_SEED, else 1. */
void sim_seed(unsigned seed);

/* Failures to order. The n-th such call from now fails, once; n = 0 cancels; n < 0: the |n|-th and all after it.
   Allocation: cudaMalloc, cudaMallocHost, cudaHostAlloc, creation of streams, events, executable graphs, cuBLAS handles
   and cuFFT plans. Launch: kernels, cuBLAS and cuFFT executions, graph launches. Copy: cudaMemcpy.., cudaMemset...
   Execution: the call succeeds, but what it enqueued fails when it runs, and the device is lost: every call from then
   on returns cudaErrorLaunchFailure, as after a kernel that crashed, until sim_reset. */
void sim_fail_allocation(long n);
void sim_fail_launch(long n);
void sim_fail_copy(long n);
void sim_fail_execution(long n);

/* 1: every call returns cudaErrorNoDevice; another non-zero cudaError_t: every call returns that one; 0: there is a
   device. */
void sim_no_device(int error);

/* How much memory the device has. Default, and at most, 4 GiB. */
void sim_device_memory(size_t bytes);

/* How many devices there are; 1 at the beginning and after sim_reset. They share the memory. The first is current. */
void sim_devices(int n);

/* cuFFT's work area, in units of the data: what it tells beforehand, and what a plan needs then. Both are 1 at the beginning. */
void sim_fft_work(int told, int needed);

/* Off (0): members of structures handed to kernels may be host pointers. A kernel's own pointer parameters may not. */
void sim_check_structures(int on);

struct sim_counters {
    long allocations;      /* successful calls that count for sim_fail_allocation */
    long live_allocations; /* device and pinned blocks not freed yet */
    size_t live_bytes;     /* device bytes in them */
    size_t peak_bytes;     /* highest value of live_bytes since the counters were reset */
    long launches;         /* kernels, those of launched graphs included */
    long library_calls;    /* cuBLAS and cuFFT executions, likewise */
    long graph_launches;
    long copies_to_device;
    long copies_to_host;
    long copies_on_device;
    size_t bytes_to_device;
    size_t bytes_to_host;
    long memsets;
    long synchronisations; /* calls that made the host wait: stream, event, device, and blocking copies */
};
sim_counters sim_count(void);
void sim_reset_counters(void); /* live_allocations and live_bytes stay what they are */

/* Everything that was made and not given back, one line each to out (may be NULL). Returns how many. Also looks for
   damage that device code did outside its allocations. */
int sim_leaks(FILE *out);

/* Ends all pending work and forgets ordered failures, errors and counters. Orders, seed and live objects stay. */
void sim_reset(void);

/* 1 when p .. p + bytes lies within one live device allocation (sim_is_pinned: cudaMallocHost allocation). */
int sim_is_device(const void *p, size_t bytes);
int sim_is_pinned(const void *p, size_t bytes);

/* ------------------------------------------------------------------------------------------------
   >>launch
   ------------------------------------------------------------------------------------------------ */

namespace sim {

/* Where in the source something happens. */
struct site {
    const char *file;
    int line;
};

/* One launch: kernel, geometry and a copy of the arguments. */
struct kernel_call {
    const char *name;
    site where;
    const void *function;
    dim3 grid, block;
    size_t dynamic_bytes;
    virtual void run_thread() = 0;
    virtual void check_arguments() = 0;
    virtual ~kernel_call()
    {
    }
};

void enqueue_kernel(kernel_call *call, cudaStream_t stream); /* takes the call */
void check_argument(const kernel_call *call, int index, const void *bytes, size_t n, bool is_pointer);

template <class... P> struct typed_call final : kernel_call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    typed_call(void (*k)(P...), P... p) : kernel(k), arguments(p...)
    {
    }
    void run_thread() override
    {
        std::apply(kernel, arguments); /* every thread gets its own copies */
    }
    void check_arguments() override
    {
        check_each(std::index_sequence_for<P...>());
    }
    template <size_t... I> void check_each(std::index_sequence<I...>)
    {
        (check_argument(this, (int)I, &std::get<I>(arguments), sizeof(P), std::is_pointer<P>::value), ...);
    }
};

template <class T> struct as_is {
    typedef T type;
};

/* The arguments' types come from the kernel alone (as_is keeps the compiler from deducing them a second time), so they
   convert as in a plain call, which is what <<<>>> does. */
template <class... P>
void launch(const char *name, site where, void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_bytes,
            cudaStream_t stream, typename as_is<P>::type... p)
{
    kernel_call *call = new typed_call<P...>(kernel, p...);
    call->name = name;
    call->where = where;
    call->function = (const void *)kernel;
    call->grid = grid;
    call->block = block;
    call->dynamic_bytes = dynamic_bytes;
    enqueue_kernel(call, stream);
}

} // namespace sim

#define PU_LAUNCH(kernel, ...) sim::launch(#kernel, sim::site{__FILE__, __LINE__}, kernel, __VA_ARGS__)

/* nvcc's headers have this overload for device code only. */
template <class T> static inline cudaError_t cudaFuncSetAttribute(T *function, enum cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute((const void *)function, attribute, value);
}

/* A kernel must not be launched with more threads than its bounds say. g++ can be made to remember the number: it puts as
   many no-operations in front of the kernel and lists the places, and sim_runtime.cpp reads the list. The bound must be a
   constant that is no template parameter (PU_SIM_NO_BOUNDS if it is); an enumerator alone crashes g++ 12, hence the + 0. */
#undef __launch_bounds__
#if defined(__x86_64__) && !defined(__clang__) && !defined(PU_SIM_NO_BOUNDS)
#define __launch_bounds__(...)          SIM_LAUNCH_BOUNDS(__VA_ARGS__, 0)
#define SIM_LAUNCH_BOUNDS(threads, ...) __attribute__((patchable_function_entry((threads) + 0, (threads) + 0)))
#else
#define __launch_bounds__(...)
#endif

/* ------------------------------------------------------------------------------------------------
   >>shared
   ------------------------------------------------------------------------------------------------ */

namespace sim {

/* One per PU_SHARED_ARRAY in the source: where the array is in the block that runs now. */
struct shared_key {
    unsigned long block_serial;
    void *address;
};

void *static_shared(shared_key *key, size_t bytes, size_t alignment, const char *name, site where);
void *dynamic_shared(size_t alignment, site where);

} // namespace sim

#define PU_SHARED_ARRAY(T, name, N)                                                                                            \
    static sim::shared_key name##_key;                                                                                         \
    T(&name)                                                                                                                   \
    [N] = *reinterpret_cast<T(*)[N]>(                                                                                          \
        sim::static_shared(&name##_key, sizeof(T[N]), alignof(T), #name, sim::site{__FILE__, __LINE__}))

#define PU_DYN_SMEM(T, name) T *name = reinterpret_cast<T *>(sim::dynamic_shared(alignof(T), sim::site{__FILE__, __LINE__}))

/* A plain __shared__ would become a local variable of each thread. Make that an error. */
#undef __shared__
#define __shared__ error_use_PU_SHARED_ARRAY_or_PU_DYN_SMEM

/* ------------------------------------------------------------------------------------------------
   >>threads   The last two parameters of these functions are the caller's place in the source.
   ------------------------------------------------------------------------------------------------ */

extern uint3 threadIdx, blockIdx; /* set by the engine whenever another thread gets to run */
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace sim {

enum warp_op { SHFL, SHFL_UP, SHFL_DOWN, SHFL_XOR, BALLOT, ANY, ALL, SYNCWARP };

void barrier(site where);
uint64_t warp(warp_op op, unsigned mask, uint64_t value, int argument, int width, site where);
unsigned active_lanes(site where);
void fence();
void trap(site where);

template <class T> static inline T shuffle(warp_op op, unsigned mask, T value, int argument, int width, site where)
{
    static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = warp(op, mask, bits, argument, width, where);
    memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace sim

#define SIM_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIM_SITE                                                                                                               \
    sim::site                                                                                                                  \
    {                                                                                                                          \
        file, line                                                                                                             \
    }

static inline void __syncthreads(SIM_CALLER)
{
    sim::barrier(SIM_SITE);
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, SIM_CALLER)
{
    sim::warp(sim::SYNCWARP, mask, 0, 0, 32, SIM_SITE);
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIM_CALLER)
{
    return sim::shuffle(sim::SHFL, mask, value, lane, width, SIM_SITE);
}

template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIM_CALLER)
{
    return sim::shuffle(sim::SHFL_UP, mask, value, (int)delta, width, SIM_SITE);
}

template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIM_CALLER)
{
    return sim::shuffle(sim::SHFL_DOWN, mask, value, (int)delta, width, SIM_SITE);
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, SIM_CALLER)
{
    return sim::shuffle(sim::SHFL_XOR, mask, value, bits, width, SIM_SITE);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, SIM_CALLER)
{
    return (unsigned)sim::warp(sim::BALLOT, mask, predicate != 0, 0, 32, SIM_SITE);
}

static inline int __any_sync(unsigned mask, int predicate, SIM_CALLER)
{
    return (int)sim::warp(sim::ANY, mask, predicate != 0, 0, 32, SIM_SITE);
}

static inline int __all_sync(unsigned mask, int predicate, SIM_CALLER)
{
    return (int)sim::warp(sim::ALL, mask, predicate != 0, 0, 32, SIM_SITE);
}

static inline unsigned __activemask(SIM_CALLER)
{
    return sim::active_lanes(SIM_SITE);
}

static inline void __trap(SIM_CALLER)
{
    sim::trap(SIM_SITE);
}

static inline void __threadfence_block(void)
{
    sim::fence();
}

static inline void __threadfence(void)
{
    sim::fence();
}

static inline void __threadfence_system(void)
{
    sim::fence();
}

/* ------------------------------------------------------------------------------------------------
   >>atomics   Integers only: the order of floating-point atomics, hence their rounding, is nobody's choice.
   ------------------------------------------------------------------------------------------------ */

#define SIM_ATOMICS(T)                                                                                                         \
    static inline T atomicAdd(T *p, T v)                                                                                       \
    {                                                                                                                          \
        return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                                                     \
    }                                                                                                                          \
    static inline T atomicSub(T *p, T v)                                                                                       \
    {                                                                                                                          \
        return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);                                                                     \
    }                                                                                                                          \
    static inline T atomicOr(T *p, T v)                                                                                        \
    {                                                                                                                          \
        return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                                                                      \
    }                                                                                                                          \
    static inline T atomicAnd(T *p, T v)                                                                                       \
    {                                                                                                                          \
        return __atomic_fetch_and(p, v, __ATOMIC_RELAXED);                                                                     \
    }                                                                                                                          \
    static inline T atomicExch(T *p, T v)                                                                                      \
    {                                                                                                                          \
        return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                                                                    \
    }                                                                                                                          \
    static inline T atomicCAS(T *p, T compare, T v)                                                                            \
    {                                                                                                                          \
        __atomic_compare_exchange_n(p, &compare, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                                    \
        return compare;                                                                                                        \
    }                                                                                                                          \
    static inline T atomicMax(T *p, T v)                                                                                       \
    {                                                                                                                          \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                                          \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}                  \
        return old;                                                                                                            \
    }                                                                                                                          \
    static inline T atomicMin(T *p, T v)                                                                                       \
    {                                                                                                                          \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                                          \
        while (old > v && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}                  \
        return old;                                                                                                            \
    }
SIM_ATOMICS(int)
SIM_ATOMICS(unsigned)
SIM_ATOMICS(unsigned long long)
#undef SIM_ATOMICS

/* ------------------------------------------------------------------------------------------------
   >>arithmetic   sqrt, exp, fma, fmax, isnan ... come from <math.h>
   ------------------------------------------------------------------------------------------------ */

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline unsigned __brev(unsigned x)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

namespace sim {
template <class To, class From> static inline To same_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "a reinterpretation keeps the size");
    To r;
    memcpy(&r, &x, sizeof r);
    return r;
}
} // namespace sim

static inline int __float_as_int(float x)
{
    return sim::same_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return sim::same_bits<unsigned>(x);
}
static inline float __int_as_float(int x)
{
    return sim::same_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return sim::same_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return sim::same_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return sim::same_bits<double>(x);
}

/* min and max of like types, as CUDA has them for integers and reals (fmin and fmax for the latter: a NaN loses). */
#define SIM_MIN_MAX(T)                                                                                                         \
    static inline T min(T a, T b)                                                                                              \
    {                                                                                                                          \
        return b < a ? b : a;                                                                                                  \
    }                                                                                                                          \
    static inline T max(T a, T b)                                                                                              \
    {                                                                                                                          \
        return a < b ? b : a;                                                                                                  \
    }
SIM_MIN_MAX(int)
SIM_MIN_MAX(unsigned)
SIM_MIN_MAX(long)
SIM_MIN_MAX(unsigned long)
SIM_MIN_MAX(long long)
SIM_MIN_MAX(unsigned long long)
#undef SIM_MIN_MAX
static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

/* glibc got these functions one after the other. */
#if !defined(__GLIBC_PREREQ) || !__GLIBC_PREREQ(2, 42)
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline float rsqrtf(float x)
{
    return (float)(1.0 / sqrt((double)x));
}
#endif
static inline float rsqrt(float x)
{
    return (float)(1.0 / sqrt((double)x));
}

/* sin and cos of pi x. The remainder modulo 2 is exact, so large x keep their digits, as on the device. */
static inline void sincospi(double x, double *s, double *c)
{
    const double pi = 3.14159265358979323846;
    double r = remainder(x, 2.0), quarter = rint(2.0 * r), y = pi * (r - 0.5 * quarter), sy = sin(y), cy = cos(y);
    switch ((int)quarter & 3) {
    case 0: *s = sy, *c = cy; break;
    case 1: *s = cy, *c = -sy; break;
    case 2: *s = -sy, *c = -cy; break;
    default: *s = -cy, *c = sy; break;
    }
}
static inline void sincospif(float x, float *s, float *c)
{
    double ds, dc;
    sincospi((double)x, &ds, &dc);
    *s = (float)ds;
    *c = (float)dc;
}
#if !defined(__GLIBC_PREREQ) || !__GLIBC_PREREQ(2, 41)
static inline double sinpi(double x)
{
    double s, c;
    sincospi(x, &s, &c);
    return s;
}
static inline double cospi(double x)
{
    double s, c;
    sincospi(x, &s, &c);
    return c;
}
static inline float sinpif(float x)
{
    return (float)sinpi((double)x);
}
static inline float cospif(float x)
{
    return (float)cospi((double)x);
}
#endif

/* Operations that the compiler must not contract: the result passes through a register it cannot see into. */
namespace sim {
static inline double rounded(double x)
{
    __asm__("" : "+m"(x));
    return x;
}
static inline float rounded(float x)
{
    __asm__("" : "+m"(x));
    return x;
}
} // namespace sim

static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline double __dadd_rn(double a, double b)
{
    return sim::rounded(a + b);
}
static inline double __dsub_rn(double a, double b)
{
    return sim::rounded(a - b);
}
static inline double __dmul_rn(double a, double b)
{
    return sim::rounded(a * b);
}
static inline double __ddiv_rn(double a, double b)
{
    return sim::rounded(a / b);
}
static inline double __drcp_rn(double a)
{
    return sim::rounded(1.0 / a);
}
static inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return sim::rounded(a + b);
}
static inline float __fsub_rn(float a, float b)
{
    return sim::rounded(a - b);
}
static inline float __fmul_rn(float a, float b)
{
    return sim::rounded(a * b);
}
static inline float __fdiv_rn(float a, float b)
{
    return sim::rounded(a / b);
}
static inline float __frcp_rn(float a)
{
    return sim::rounded(1.0f / a);
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}

#endif /* PU_SIM_H */

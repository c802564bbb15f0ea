/* sim_internal.h - what sim.cpp, sim_runtime.cpp and sim_libs.cpp tell each other. Tests do not include it. */
#ifndef PU_SIM_INTERNAL_H
#define PU_SIM_INTERNAL_H

#include "sim.h"

#include <functional>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define SIM_POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define SIM_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define SIM_SEES_POISON    __attribute__((no_sanitize("address")))
#else
#define SIM_POISON(p, n)   ((void)(p), (void)(n))
#define SIM_UNPOISON(p, n) ((void)(p), (void)(n))
#define SIM_SEES_POISON
#endif

namespace sim {

/* Words that memory is filled with. Each is a NaN as a float, and two of them are one as a double. */
const uint32_t UNINITIALISED = 0xffffffffu; /* allocated, never written */
const uint32_t RED_ZONE = 0xfffadeadu;      /* around allocations, and freed */

void fill(void *p, size_t bytes, uint32_t word);                 /* p a multiple of 4; the last word may be cut */
size_t first_change(const void *p, size_t bytes, uint32_t word); /* offset of the first other byte, bytes when none */

/* sim.cpp */
void run_kernel(kernel_call *call);
bool in_kernel();
int order_of_threads();
unsigned random_number(unsigned below);   /* uniform in 0 .. below - 1 */
bool in_fiber_guard(const void *address); /* below the end of a CUDA thread's stack */

const char *file_name(const char *path);

/* Says in one line what is wrong and where, and aborts. The kernel, block, thread and line are added when one runs. */
[[noreturn]] void fault(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sim_runtime.cpp, for the libraries */
enum library_object { CUBLAS_HANDLE, CUFFT_PLAN };
bool allocation_fails();                        /* counts one allocation, and says whether it has to fail */
void count_object(library_object kind, int by); /* for sim_leaks */
cudaError_t device_status();                    /* not cudaSuccess: no device, or it is lost */
cudaError_t enqueue_library_call(cudaStream_t stream, const char *name, std::function<void()> run);
bool valid_stream(cudaStream_t stream);

} // namespace sim

#endif /* PU_SIM_INTERNAL_H */

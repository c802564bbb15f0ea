/* sim.cpp - runs the threads of a CUDA block on the CPU, one at a time

   Each CUDA thread is a fiber: a stack of its own that can be left in the middle of a kernel and entered again. A thread
   runs until it returns, or must wait at a barrier or a warp operation; then the next one gets its turn. A thread that
   never waits costs no switch: its fiber takes up the next thread when it is done.

   Who goes first is the choice of sim_thread_order. A correct kernel gives the same numbers in every order; one that
   lacks a barrier mostly does not. What cannot be right in any order is a fault: one line on stderr, then abort().

   Under ThreadSanitizer this file is compiled WITHOUT -fsanitize=thread and with -DPU_TSAN. It then declares each fiber
   to the sanitizer as a thread, and tells it at every barrier, warp operation and launch who has waited for whom.

   CONTENTS: >>faults  >>fibers  >>tsan  >>shared  >>schedule  >>barrier  >>warp  >>kernel
*/
#undef _FORTIFY_SOURCE

#include "sim_internal.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__) && !defined(PU_SIM_UCONTEXT)
#define PU_SIM_UCONTEXT
#endif
#ifdef PU_SIM_UCONTEXT
#include <ucontext.h>
#endif

#include <algorithm>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

#ifdef PU_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
}
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace sim {
namespace {

const int MAX_THREADS = 1024; /* per block */
const int WARP = 32;
const size_t SHARED_LIMIT = 48 << 10;               /* per block, unless the kernel asked for more */
const size_t SHARED_MOST = 64 << 10;                /* dynamic bytes a kernel can ask for */
const size_t SHARED_RED = 64;                       /* red zone before and after each shared array */
const size_t ARENA_BYTES = 256 << 10;               /* shared arrays of one block with their red zones */
const int MAX_SHARED_ARRAYS = 64;                   /* per block */
const int MAX_FIBERS = 1500;                        /* more than threads of a block; ThreadSanitizer can bear a few thousand */
const size_t STACK_BYTES = 256 << 10;               /* per fiber, guard page included */
const uint64_t ABSENT_LANE = 0xfff8deadfff8deadull; /* a NaN in either precision */

enum thread_state { NOT_STARTED, RUNNABLE, AT_BARRIER, IN_WARP_OP, IN_ACTIVEMASK, FINISHED };

struct fiber {
#ifdef PU_SIM_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer;
#endif
    char *stack;
    size_t stack_bytes;
    void *asan_stack; /* what AddressSanitizer wants back when the fiber goes on */
    void *tsan;
};

struct cuda_thread {
    uint3 index;
    thread_state state;
    fiber *on;
    site where;    /* of the operation it waits in */
    char *meeting; /* ThreadSanitizer's name for that operation */
    warp_op op;
    unsigned mask;
    uint64_t value, result;
    int argument, width;
};

/* The block that runs now. */
struct {
    kernel_call *call; /* NULL: none runs */
    unsigned long serial;
    cuda_thread threads[MAX_THREADS];
    int n, n_started, n_finished, n_at_barrier;
    int current;
    int start_order[MAX_THREADS];
    int runnable[MAX_THREADS], first_runnable, n_runnable;                 /* ring buffer */
    unsigned in_warp_op[MAX_THREADS / WARP], returned[MAX_THREADS / WARP]; /* lanes in that state; absent ones have returned */
    site barrier_site;
    char *barrier_meeting;
} block;

int thread_order = -1;
unsigned random_state;

} // namespace

/* ------------------------------------------------------------------------------------------------
   >>faults
   ------------------------------------------------------------------------------------------------ */

bool in_kernel()
{
    return block.call != NULL;
}

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "kernel k, block (0,0,0), thread (3,0,0), f.cuh:12": as much of it as is known */
static void print_place(FILE *out)
{
    if (!block.call) return;
    fprintf(out, "kernel %s (launched at %s:%d), block (%u,%u,%u)", block.call->name, file_name(block.call->where.file),
            block.call->where.line, blockIdx.x, blockIdx.y, blockIdx.z);
    if (block.current < 0) return;
    fprintf(out, ", thread (%u,%u,%u)", threadIdx.x, threadIdx.y, threadIdx.z);
    const site &where = block.threads[block.current].where;
    if (where.file) fprintf(out, ", %s:%d", file_name(where.file), where.line);
}

void fault(const char *kind, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "pu_sim: %s: ", kind);
    print_place(stderr);
    if (block.call) fprintf(stderr, ": ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

/* The sanitizers' reports know stacks and addresses; this adds which CUDA thread it was. */
static void __attribute__((unused)) sanitizer_dies()
{
    if (!block.call) return;
    fprintf(stderr, "pu_sim: sanitizer report: ");
    print_place(stderr);
    fprintf(stderr, "\n");
}

void trap(site where)
{
    if (!block.call) fault("trap", "outside a kernel");
    block.threads[block.current].where = where;
    fault("trap", "the kernel called __trap");
}

void fill(void *p, size_t bytes, uint32_t word)
{
    typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
    const four words = {word, word, word, word};
    uint32_t *w = (uint32_t *)p, *end = w + bytes / 4;
    for (; end - w >= 4; w += 4) {
        *(four *)w = words;
        __asm__ volatile("" ::: "memory"); /* or it becomes memset, which the sanitizers take for an access of the thread */
    }
    for (; w < end; w++) {
        *w = word;
        __asm__ volatile("" ::: "memory");
    }
    for (size_t i = bytes / 4 * 4; i < bytes; i++) ((volatile unsigned char *)p)[i] = (unsigned char)(word >> 8 * (i & 3));
}

SIM_SEES_POISON size_t first_change(const void *p, size_t bytes, uint32_t word)
{
    const unsigned char *b = (const unsigned char *)p;
    const unsigned char want[4] = {(unsigned char)word, (unsigned char)(word >> 8), (unsigned char)(word >> 16),
                                   (unsigned char)(word >> 24)};
    size_t i = 0, phase = (size_t)p & 3;
    for (; i < bytes && ((size_t)(b + i) & 7); i++)
        if (b[i] != want[(i + phase) & 3]) return i;
    const uint64_t two = (uint64_t)word << 32 | word;
    for (; i + 8 <= bytes && *(const uint64_t *)(b + i) == two; i += 8) {}
    for (; i < bytes; i++)
        if (b[i] != want[(i + phase) & 3]) return i;
    return bytes;
}

/* ------------------------------------------------------------------------------------------------
   Orders
   ------------------------------------------------------------------------------------------------ */

static void read_environment()
{
    if (thread_order >= 0) return;
    const char *order = getenv("PU_SIM_ORDER"), *seed = getenv("PU_SIM_SEED");
    thread_order = order ? atoi(order) : SIM_FORWARD;
    if (thread_order < SIM_FORWARD || thread_order > SIM_RANDOM) thread_order = SIM_FORWARD;
    random_state = seed ? (unsigned)atoi(seed) : 1;
}

unsigned random_number(unsigned below)
{
    read_environment();
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)random_state * below >> 32);
}

/* Puts v into the order of the mode. */
static void arrange(int *v, int n)
{
    if (thread_order == SIM_REVERSE) std::reverse(v, v + n);
    if (thread_order == SIM_RANDOM)
        for (int i = n - 1; i > 0; i--) std::swap(v[i], v[random_number((unsigned)i + 1)]);
}

/* ------------------------------------------------------------------------------------------------
   >>fibers
   ------------------------------------------------------------------------------------------------ */

/* The engine's own data are plain arrays. What a standard container does with memory, ThreadSanitizer would see through
   memmove and the like, and take for an access of the CUDA thread in whose place it happens. */
namespace {
struct fiber_list {
    fiber *at[MAX_FIBERS];
    int n;
};
fiber host; /* the thread that called run_kernel */
fiber fibers[MAX_FIBERS];
int n_fibers;
fiber_list idle; /* ready to take up a new CUDA thread */
#ifdef PU_TSAN
fiber_list retired; /* used in this launch, and again when none is idle */
#endif
fiber *previous; /* who ran before the last switch */
} // namespace

static void push(fiber_list *list, fiber *f)
{
    list->at[list->n++] = f;
}

static void run_threads();

#ifdef PU_SIM_UCONTEXT
static void exchange_stacks(fiber *from, fiber *to)
{
    swapcontext(&from->context, &to->context);
}

static void prepare_stack(fiber *f, size_t)
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = f->stack_bytes;
    f->context.uc_link = NULL;
    makecontext(&f->context, run_threads, 0);
}
#else
/* Saves what a called function must preserve on the old stack, and takes it from the new one. ucontext would do the
   same with two system calls; longjmp is watched by the sanitizers. It jumps where it could return, because the
   processor would look for the way back in the order of the calls. */
__asm__(".pushsection .text\n"
        ".type pu_sim_exchange_stacks, @function\n"
        "pu_sim_exchange_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n"
        "    jmpq *%rcx\n"
        ".size pu_sim_exchange_stacks, . - pu_sim_exchange_stacks\n"
        ".popsection\n");
extern "C" void pu_sim_exchange_stacks(void **save, void *load);

static void exchange_stacks(fiber *from, fiber *to)
{
    pu_sim_exchange_stacks(&from->stack_pointer, to->stack_pointer);
}

/* Makes the stack look as if run_threads had been called, and had left it just before its first instruction. */
static void prepare_stack(fiber *f, size_t skip)
{
    void **top = (void **)(f->stack + f->stack_bytes - skip);
    *--top = NULL; /* nobody to return to: ends backtraces */
    *--top = (void *)run_threads;
    for (int i = 0; i < 6; i++) *--top = NULL;
    f->stack_pointer = top;
}
#endif

static void arrived_on_this_stack(fiber *me)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(me ? me->asan_stack : NULL, &bottom, &bytes);
    if (previous == &host) {
        host.stack = (char *)bottom;
        host.stack_bytes = bytes;
    }
#else
    (void)me;
#endif
}

static void switch_fiber(fiber *from, fiber *to)
{
    previous = from;
#ifdef PU_TSAN
    __tsan_switch_to_fiber(to->tsan, 1 /* a switch orders nothing */);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->asan_stack, to->stack, to->stack_bytes);
#endif
    exchange_stacks(from, to);
    arrived_on_this_stack(from);
}

static fiber *new_fiber()
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = (char *)mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fault("engine", "no memory for the stack of a thread");
    mprotect(memory, page, PROT_NONE);
    fiber *f = &fibers[n_fibers];
    f->stack = memory + page;
    f->stack_bytes = STACK_BYTES - page;
#ifdef PU_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    /* Stacks of the same address modulo a page would fight for the same cache lines. */
    prepare_stack(f, (size_t)n_fibers * 9 % 256 * 64);
    n_fibers++;
    return f;
}

bool in_fiber_guard(const void *address)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < n_fibers; i++)
        if ((char *)address >= fibers[i].stack - page && (char *)address < fibers[i].stack) return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------
   >>tsan

   ThreadSanitizer takes for a race what no chain of release and acquire orders. The chains of CUDA are: launch -> every
   thread -> end of the launch; all threads up to a barrier -> all threads after it; likewise the lanes of a warp
   operation. Every barrier and operation needs an address of its own: with one for all, a thread that goes on from
   barrier 1 would also acquire what a quicker one released at barrier 2, and the race between them would not be seen.
   ------------------------------------------------------------------------------------------------ */

namespace {
char launch_begins, launch_ends, fences;

#ifdef PU_TSAN
const int MEETINGS = 4096; /* addresses per block; used in turn, so that reuse can only hide a race, not invent one */
const size_t ARENAS_MOST = 64;
std::vector<char *> arenas; /* shared memory of each block of a launch: a block must not see another one's accesses */
char meetings[64][MEETINGS];
int next_meeting;
#endif
} // namespace

static inline void acquire(char *address)
{
#ifdef PU_TSAN
    __tsan_acquire(address);
#else
    (void)address;
#endif
}

static inline void release(char *address)
{
#ifdef PU_TSAN
    __tsan_release(address);
#else
    (void)address;
#endif
}

static char *new_meeting()
{
#ifdef PU_TSAN
    next_meeting = (next_meeting + 8) % MEETINGS;
    return &meetings[block.serial % 64][next_meeting];
#else
    return NULL;
#endif
}

/* A fence makes earlier writes visible, together with an atomic that the sanitizer sees as unordered. Ordering all
   fences hides races in kernels that use them, and invents none. */
void fence()
{
    release(&fences);
    acquire(&fences);
}

/* ------------------------------------------------------------------------------------------------
   >>shared

   An arena holds the shared arrays of a block: red zone, dynamic memory, red zone, first static array, red zone, ...
   Arrays come into being when the first thread reaches their declaration. Outside ThreadSanitizer there is one arena,
   which each block uses from the start.
   ------------------------------------------------------------------------------------------------ */

namespace {
struct shared_array {
    char *begin;
    size_t bytes;
    const char *name;
    site where;
};
char *arena;
size_t arena_used;   /* red zones included */
size_t shared_bytes; /* without them */
shared_array shared_arrays[MAX_SHARED_ARRAYS];
int n_shared_arrays;
} // namespace

static char *new_arena()
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = (char *)mmap(NULL, ARENA_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, ARENA_BYTES, PROT_READ | PROT_WRITE) != 0)
        fault("engine", "no memory for shared arrays");
    return memory + page;
}

static void *add_shared_array(size_t bytes, const char *name, site where)
{
    size_t whole = (bytes + 15) & ~(size_t)15;
    if (arena_used + whole + 2 * SHARED_RED > ARENA_BYTES || n_shared_arrays == MAX_SHARED_ARRAYS)
        fault("shared memory", "no room for %s of %zu bytes", name, bytes);
    if (arena_used == 0) {
        fill(arena, SHARED_RED, RED_ZONE);
        SIM_POISON(arena, SHARED_RED);
        arena_used = SHARED_RED;
    }
    char *begin = arena + arena_used;
    fill(begin, bytes, UNINITIALISED);
    /* The red zone begins right behind the last byte. Its pattern is laid out from a multiple of 4. */
    for (size_t i = bytes; i < whole; i++) ((volatile unsigned char *)begin)[i] = (unsigned char)(RED_ZONE >> 8 * (i & 3));
    fill(begin + whole, SHARED_RED, RED_ZONE);
    SIM_POISON(begin + bytes, whole - bytes + SHARED_RED);
    arena_used += whole + SHARED_RED;
    shared_arrays[n_shared_arrays++] = {begin, bytes, name, where};
    return begin;
}

/* Blocks come one after the other; each gets shared memory nobody wrote to. */
static void begin_shared(size_t block_of_launch)
{
#ifdef PU_TSAN
    size_t slot = block_of_launch % ARENAS_MOST;
    if (block_of_launch > 0 && slot == 0) acquire(&launch_ends); /* arenas are used again: order them */
    while (arenas.size() <= slot) arenas.push_back(new_arena());
    arena = arenas[slot];
#else
    (void)block_of_launch;
    if (!arena) arena = new_arena();
#endif
    SIM_UNPOISON(arena, ARENA_BYTES);
    arena_used = 0;
    n_shared_arrays = 0;
    shared_bytes = block.call->dynamic_bytes;
    add_shared_array(block.call->dynamic_bytes, "dynamic shared memory", block.call->where);
}

static void end_shared()
{
    const char *at = arena;
    for (int i = 0; i <= n_shared_arrays; i++) {
        const char *end = i < n_shared_arrays ? shared_arrays[i].begin : arena + arena_used;
        size_t bytes = (size_t)(end - at), change = first_change(at, bytes, RED_ZONE);
        if (change < bytes) {
            /* Which of its neighbours was meant? The nearer one. */
            bool after = i > 0 && (change < bytes - change || i == n_shared_arrays);
            const shared_array &a = shared_arrays[after ? i - 1 : i];
            fault("out-of-bounds write to shared memory", "%s of %zu bytes (%s:%d) was written at byte %td", a.name, a.bytes,
                  file_name(a.where.file), a.where.line, at + change - a.begin);
        }
        if (i < n_shared_arrays) at = shared_arrays[i].begin + shared_arrays[i].bytes;
    }
}

void *static_shared(shared_key *key, size_t bytes, size_t alignment, const char *name, site where)
{
    if (!block.call) fault("shared memory", "%s at %s:%d outside a kernel", name, file_name(where.file), where.line);
    if (key->block_serial == block.serial) return key->address;
    if (alignment > 16) fault("shared memory", "%s needs an alignment of %zu, given are 16", name, alignment);
    shared_bytes = ((shared_bytes + alignment - 1) & ~(alignment - 1)) + bytes;
    size_t limit = block.call->dynamic_bytes > SHARED_LIMIT ? SHARED_MOST : SHARED_LIMIT;
    if (shared_bytes > limit)
        fault("shared memory", "over %zu KiB: %zu bytes with %s at %s:%d", limit >> 10, shared_bytes, name,
              file_name(where.file), where.line);
    key->address = add_shared_array(bytes, name, where);
    key->block_serial = block.serial;
    return key->address;
}

void *dynamic_shared(size_t alignment, site where)
{
    if (!block.call) fault("shared memory", "at %s:%d outside a kernel", file_name(where.file), where.line);
    if (alignment > 16)
        fault("shared memory", "alignment of %zu at %s:%d, given are 16", alignment, file_name(where.file), where.line);
    return shared_arrays[0].begin;
}

/* ------------------------------------------------------------------------------------------------
   >>schedule
   ------------------------------------------------------------------------------------------------ */

static void make_runnable(int i)
{
    block.threads[i].state = RUNNABLE;
    block.runnable[(block.first_runnable + block.n_runnable++) % MAX_THREADS] = i;
}

/* These may continue; the mode says in which order. */
static void make_all_runnable(int *v, int n)
{
    arrange(v, n);
    for (int i = 0; i < n; i++) make_runnable(v[i]);
}

static void make_current(int i)
{
    block.current = i;
    threadIdx = block.threads[i].index;
}

static void start_thread(int i, fiber *f)
{
    block.threads[i].state = RUNNABLE;
    block.threads[i].on = f;
    make_current(i);
}

#ifdef PU_TSAN
static void reuse_retired()
{
    while (retired.n > 0) push(&idle, retired.at[--retired.n]);
}
#endif

static fiber *take_idle_fiber()
{
#ifdef PU_TSAN
    if (idle.n == 0 && n_fibers == MAX_FIBERS) reuse_retired();
#endif
    return idle.n > 0 ? idle.at[--idle.n] : new_fiber();
}

static void release_waiting_threads();

/* Decides who runs next, makes that thread the current one, and returns its fiber; the host's when all are done. */
static fiber *next_fiber()
{
    for (;;) {
        if (block.n_started < block.n) {
            fiber *f = take_idle_fiber();
            start_thread(block.start_order[block.n_started++], f);
            return f;
        }
        if (block.n_runnable > 0) {
            int i = block.runnable[block.first_runnable];
            block.first_runnable = (block.first_runnable + 1) % MAX_THREADS;
            block.n_runnable--;
            make_current(i);
            return block.threads[i].on;
        }
        if (block.n_finished == block.n) return &host;
        release_waiting_threads();
    }
}

static void give_way(fiber *me)
{
    fiber *next = next_fiber();
    if (next != me) switch_fiber(me, next);
}

/* What every fiber does: runs the current thread to its end, then the next one. */
static void run_threads()
{
    arrived_on_this_stack(NULL);
    for (;;) {
        acquire(&launch_begins);
        block.call->run_thread();
        release(&launch_ends);
        cuda_thread &t = block.threads[block.current];
        fiber *me = t.on;
        t.state = FINISHED;
        block.returned[block.current / WARP] |= 1u << block.current % WARP;
        block.n_finished++;
#ifdef PU_TSAN
        push(&retired, me); /* threads on one fiber would look ordered: take others as long as there are any */
#else
        if (block.n_started < block.n) {
            start_thread(block.start_order[block.n_started++], me);
            continue;
        }
        push(&idle, me);
#endif
        give_way(me);
    }
}

/* The current thread waits, in a state that its caller has set, until somebody makes it runnable. */
static void wait_here()
{
    give_way(block.threads[block.current].on);
}

static bool same_site(const site &a, const site &b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static const char *op_name(warp_op op)
{
    static const char *const names[] = {"__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
                                        "__ballot_sync", "__any_sync",     "__all_sync",       "__syncwarp"};
    return names[op];
}

/* "waits at the barrier in f.cuh:12" and the like, into text */
static const char *describe(int i, char *text, size_t size)
{
    const cuda_thread &t = block.threads[i];
    const char *file = t.where.file ? file_name(t.where.file) : "?";
    int k = snprintf(text, size, "thread (%u,%u,%u) ", t.index.x, t.index.y, t.index.z);
    text += k;
    size -= (size_t)k;
    switch (t.state) {
    case AT_BARRIER: snprintf(text, size, "waits at __syncthreads in %s:%d", file, t.where.line); break;
    case IN_WARP_OP:
        snprintf(text, size, "waits in %s of mask %08x in %s:%d", op_name(t.op), t.mask, file, t.where.line);
        break;
    case FINISHED: snprintf(text, size, "has returned"); break;
    default: snprintf(text, size, "runs"); break;
    }
    return text - k;
}

/* Nothing can go on, yet not all have finished. Says why. */
[[noreturn]] static void explain_standstill()
{
    char text[200];
    for (int i = 0; i < block.n; i++) { /* a warp operation whose lanes do not come */
        const cuda_thread &t = block.threads[i];
        if (t.state != IN_WARP_OP) continue;
        make_current(i);
        for (int l = 0, base = i & ~(WARP - 1); l < WARP && base + l < block.n; l++) {
            const cuda_thread &other = block.threads[base + l];
            if (!(t.mask >> l & 1) || other.state == FINISHED || (other.state == IN_WARP_OP && other.mask == t.mask)) continue;
            fault("wrong warp mask", "%s waits for all lanes of mask %08x, but %s", op_name(t.op), t.mask,
                  describe(base + l, text, sizeof text));
        }
    }
    int at_barrier = 0, elsewhere = 0;
    while (at_barrier < block.n && block.threads[at_barrier].state != AT_BARRIER) at_barrier++;
    while (elsewhere < block.n && block.threads[elsewhere].state == AT_BARRIER) elsewhere++;
    if (at_barrier == block.n || elsewhere == block.n) fault("deadlock", "no thread can go on");
    make_current(at_barrier);
    fault("divergent barrier", "%d of %d threads wait at __syncthreads, but %s", block.n_at_barrier, block.n,
          describe(elsewhere, text, sizeof text));
}

static bool release_warps();
static bool release_active_masks();
static void release_barrier();

/* Called when no thread can run: those that have met go on. */
static void release_waiting_threads()
{
    if (release_warps() || release_active_masks()) return;
    if (block.n_at_barrier < block.n) explain_standstill();
    release_barrier();
}

/* ------------------------------------------------------------------------------------------------
   >>barrier
   ------------------------------------------------------------------------------------------------ */

void barrier(site where)
{
    if (!block.call) fault("divergent barrier", "__syncthreads at %s:%d outside a kernel", file_name(where.file), where.line);
    cuda_thread &t = block.threads[block.current];
    t.where = where;
    if (block.n_at_barrier == 0) {
        block.barrier_site = where;
        block.barrier_meeting = new_meeting();
    } else if (!same_site(where, block.barrier_site)) {
        fault("divergent barrier", "others wait at the __syncthreads in %s:%d", file_name(block.barrier_site.file),
              block.barrier_site.line);
    }
    t.state = AT_BARRIER;
    t.meeting = block.barrier_meeting;
    block.n_at_barrier++;
    release(t.meeting);
    wait_here();
    acquire(t.meeting);
}

static void release_barrier()
{
    int all[MAX_THREADS];
    for (int i = 0; i < block.n; i++) all[i] = i;
    block.n_at_barrier = 0;
    make_all_runnable(all, block.n);
}

/* ------------------------------------------------------------------------------------------------
   >>warp
   ------------------------------------------------------------------------------------------------ */

/* Which lane a shuffle reads from: -1 when that is outside the segment, and the lane keeps its own value. */
static int source_lane(const cuda_thread &t, int lane)
{
    int segment = lane & ~(t.width - 1), source = lane;
    switch (t.op) {
    case SHFL: return segment | (t.argument & (t.width - 1));
    case SHFL_UP: source = lane - t.argument; return source >= segment ? source : -1;
    case SHFL_DOWN: source = lane + t.argument; return source < segment + t.width ? source : -1;
    default: source = lane ^ t.argument; return source < segment + t.width ? source : -1;
    }
}

/* If all lanes of the mask that have not returned wait here, gives each its result and lets them go on. */
static void meet(int warp_begin, unsigned mask)
{
    cuda_thread *t = block.threads + warp_begin;
    unsigned present = mask & ~block.returned[warp_begin / WARP], yes = 0;
    if (present & ~block.in_warp_op[warp_begin / WARP]) return;
    int here[WARP], n_here = 0;
    for (int l = 0; l < WARP; l++) {
        if (!(present >> l & 1)) continue;
        if (t[l].mask != mask) return;
        here[n_here++] = l;
    }
    for (int k = 0; k < n_here; k++) {
        const cuda_thread &a = t[here[0]], &b = t[here[k]];
        if (a.op != b.op || !same_site(a.where, b.where)) {
            char text[200];
            make_current(warp_begin + here[0]);
            fault("divergent warp operation", "%s of mask %08x, but %s", op_name(a.op), mask,
                  describe(warp_begin + here[k], text, sizeof text));
        }
        if (b.value) yes |= 1u << here[k];
    }
    for (int k = 0; k < n_here; k++) {
        cuda_thread &a = t[here[k]];
        switch (a.op) {
        case BALLOT: a.result = yes; break;
        case ANY: a.result = yes != 0; break;
        case ALL: a.result = yes == present; break;
        case SYNCWARP: break;
        default: {
            int source = source_lane(a, here[k]);
            a.result = source < 0 ? a.value : present >> source & 1 ? t[source].value : ABSENT_LANE;
        }
        }
        here[k] += warp_begin;
    }
    block.in_warp_op[warp_begin / WARP] &= ~present;
    make_all_runnable(here, n_here);
}

/* A lane that returns can be the last one its warp waited for. */
static bool release_warps()
{
    for (int i = 0; i < block.n; i++)
        if (block.threads[i].state == IN_WARP_OP) meet(i & ~(WARP - 1), block.threads[i].mask);
    return block.n_runnable > 0;
}

/* The lanes of one operation have to agree on ThreadSanitizer's address for it: the first to come chooses. */
static char *warp_meeting(int warp_begin, unsigned mask)
{
    for (int i = warp_begin; i < warp_begin + WARP && i < block.n; i++)
        if (block.threads[i].state == IN_WARP_OP && block.threads[i].mask == mask) return block.threads[i].meeting;
    return new_meeting();
}

uint64_t warp(warp_op op, unsigned mask, uint64_t value, int argument, int width, site where)
{
    if (!block.call) fault("wrong warp mask", "%s at %s:%d outside a kernel", op_name(op), file_name(where.file), where.line);
    int lane = block.current % WARP, warp_begin = block.current - lane;
    cuda_thread &t = block.threads[block.current];
    t.where = where;
    if (!(mask >> lane & 1))
        fault("wrong warp mask", "%s of mask %08x called by lane %d, which is not in it", op_name(op), mask, lane);
    if (width < 1 || width > WARP || (width & (width - 1)))
        fault("warp operation", "width %d is not a power of two up to 32", width);
#ifdef PU_TSAN
    t.meeting = warp_meeting(warp_begin, mask);
#else
    (void)warp_meeting;
#endif
    t.op = op;
    t.mask = mask;
    t.value = value;
    t.argument = argument;
    t.width = width;
    t.state = IN_WARP_OP;
    block.in_warp_op[block.current / WARP] |= 1u << lane;
    release(t.meeting);
    meet(warp_begin, mask);
    wait_here();
    acquire(t.meeting);
    return t.result;
}

/* __activemask promises nothing: any set of lanes that includes the caller is a legal answer. It is all lanes of the
   warp that came to the same place before the rest of the block stood still or, in random order, the caller alone. */
unsigned active_lanes(site where)
{
    if (!block.call) fault("wrong warp mask", "__activemask at %s:%d outside a kernel", file_name(where.file), where.line);
    cuda_thread &t = block.threads[block.current];
    if (thread_order == SIM_RANDOM) return 1u << block.current % WARP;
    t.where = where;
    t.state = IN_ACTIVEMASK;
    wait_here();
    return (unsigned)t.result;
}

static bool release_active_masks()
{
    bool any = false;
    for (int w = 0; w < block.n; w += WARP) {
        int end = std::min(w + WARP, block.n);
        for (int i = w; i < end; i++) {
            if (block.threads[i].state != IN_ACTIVEMASK) continue;
            int here[WARP], n_here = 0;
            unsigned mask = 0;
            for (int k = i; k < end; k++) {
                const cuda_thread &a = block.threads[i], &b = block.threads[k];
                if (b.state != IN_ACTIVEMASK || !same_site(a.where, b.where)) continue;
                here[n_here++] = k;
                mask |= 1u << (k - w);
            }
            for (int k = 0; k < n_here; k++) block.threads[here[k]].result = mask;
            make_all_runnable(here, n_here);
            any = true;
        }
    }
    return any;
}

/* ------------------------------------------------------------------------------------------------
   >>kernel
   ------------------------------------------------------------------------------------------------ */

static void run_block(size_t number, size_t block_of_launch)
{
    const dim3 &grid = block.call->grid;
    blockIdx =
        make_uint3((unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y), (unsigned)(number / grid.x / grid.y));
    block.serial++;
    block.n_started = block.n_finished = block.n_at_barrier = block.n_runnable = block.first_runnable = 0;
    for (int i = 0; i < block.n; i++) {
        block.threads[i].state = NOT_STARTED;
        block.threads[i].where.file = NULL;
    }
    for (int w = 0; w * WARP < block.n; w++) {
        int lanes = block.n - w * WARP;
        block.in_warp_op[w] = 0;
        block.returned[w] = lanes >= WARP ? 0 : ~0u << lanes;
    }
    if (thread_order == SIM_RANDOM) arrange(block.start_order, block.n);
    begin_shared(block_of_launch);
    release(&launch_begins);
    give_way(&host);
    block.current = -1;
    end_shared();
}

void run_kernel(kernel_call *call)
{
    read_environment();
    gridDim = call->grid;
    blockDim = call->block;
    block.call = call;
    block.current = -1;
    block.n = (int)(call->block.x * call->block.y * call->block.z);
    for (int i = 0; i < block.n; i++) {
        unsigned u = (unsigned)i;
        block.threads[i].index = make_uint3(u % blockDim.x, u / blockDim.x % blockDim.y, u / (blockDim.x * blockDim.y));
        block.start_order[i] = i;
    }
    if (thread_order == SIM_REVERSE) arrange(block.start_order, block.n);
#ifdef PU_TSAN
    host.tsan = __tsan_get_current_fiber();
#endif
    size_t n_blocks = (size_t)gridDim.x * gridDim.y * gridDim.z;
    if (thread_order == SIM_RANDOM && n_blocks > 1) {
        std::vector<size_t> order(n_blocks);
        for (size_t i = 0; i < n_blocks; i++) order[i] = i;
        for (size_t i = n_blocks - 1; i > 0; i--) std::swap(order[i], order[random_number((unsigned)i + 1)]);
        for (size_t i = 0; i < n_blocks; i++) run_block(order[i], i);
    } else {
        for (size_t i = 0; i < n_blocks; i++) run_block(thread_order == SIM_REVERSE ? n_blocks - 1 - i : i, i);
    }
    acquire(&launch_ends);
#ifdef PU_TSAN
    reuse_retired();
#endif
    block.call = NULL;
}

int order_of_threads()
{
    read_environment();
    return thread_order;
}

} // namespace sim

void sim_thread_order(int order)
{
    sim::read_environment();
    sim::thread_order = order == SIM_REVERSE || order == SIM_RANDOM ? order : SIM_FORWARD;
}

void sim_seed(unsigned seed)
{
    sim::read_environment();
    sim::random_state = seed;
}

/* ------------------------------------------------------------------------------------------------
   Sanitizers: the first report ends the program, and says which CUDA thread it was.
   ------------------------------------------------------------------------------------------------ */

#ifdef PU_TSAN
extern "C" const char *__tsan_default_options(void);
extern "C" const char *__tsan_default_options(void)
{
    return "halt_on_error=1:report_thread_leaks=0:atexit_sleep_ms=0";
}
extern "C" void __tsan_on_report(void *report);
extern "C" void __tsan_on_report(void *)
{
    sim::sanitizer_dies();
}
#endif

#if defined(__SANITIZE_ADDRESS__)
static int set_death_callback = (__sanitizer_set_death_callback(sim::sanitizer_dies), 0);
#endif

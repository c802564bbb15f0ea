/* sim_runtime.cpp - the CUDA runtime of a device that is not there

   The prototypes are NVIDIA's, from cuda_runtime_api.h: a call with a wrong signature does not compile, a definition with
   one does not either. Results are those of a real device; the timing is chosen to be inconvenient:

   Streams    What is enqueued runs late, when something waits for it (sim_stream_order). Only the order within a stream
              and waits on events hold. A copy reads pinned memory when it runs, and pageable memory when it is enqueued.
              Stream 0 waits for the streams made without cudaStreamNonBlocking, and they for it.
   Memory     Device memory is one region of addresses that the host cannot touch: it is opened while work runs and closed
              when the call that ran it returns. New memory is full of NaNs, between allocations lie red zones that are
              looked at after every piece of work, freed memory is kept back for a while and is full of other NaNs.
   Errors     The last error is kept per host thread. What would be undefined on a device ends the program with a line on
              stderr; what a device reports is reported the same way.

   One lock around every call makes it safe to call from several host threads.

   CONTENTS: >>state  >>memory  >>work  >>capture  >>errors-api  >>device-api  >>memory-api  >>copy-api  >>stream-api
             >>graph-api  >>launch-api  >>tests-api
*/
#include "sim_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

/* Made by the linker where a kernel has __launch_bounds__ */
extern "C" {
extern const unsigned char *__start___patchable_function_entries[] __attribute__((weak));
extern const unsigned char *__stop___patchable_function_entries[] __attribute__((weak));
}

namespace sim {
namespace {

/* ------------------------------------------------------------------------------------------------
   >>state
   ------------------------------------------------------------------------------------------------ */

const int MULTIPROCESSORS = 4;
const size_t SHARED_DEFAULT = 48 << 10; /* bytes per block a launch may ask for */
const size_t SHARED_OPT_IN = 64 << 10;  /* after cudaFuncSetAttribute */

std::recursive_mutex lock;
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t lost = cudaSuccess;   /* set: the device is lost, and every call returns this */
cudaError_t absent = cudaSuccess; /* set: there is no device */
int devices = 1;                  /* they differ in what is theirs: streams, events, memory */
thread_local int current_device;
int stream_order = -1;
bool check_structures = true;
sim_counters counters;

/* An ordered failure: at which of the coming calls, and whether all after it fail too. */
struct ordered_failure {
    long in;
    bool stays;
};
ordered_failure allocation_failure, launch_failure, copy_failure, execution_failure;

void order_failure(ordered_failure *f, long n)
{
    f->in = n < 0 ? -n : n;
    f->stays = n < 0;
}

bool happens_now(ordered_failure *f)
{
    if (f->in == 0) return false;
    if (f->in > 1) {
        f->in--;
        return false;
    }
    if (!f->stays) f->in = 0;
    return true;
}

cudaError_t failed(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

void close_device_memory();

/* Every call of the runtime holds one of these: the lock, and device memory closed at the end. */
int calls_open;
struct api_call {
    api_call()
    {
        lock.lock();
        calls_open++;
    }
    ~api_call()
    {
        if (--calls_open == 0) close_device_memory();
        lock.unlock();
    }
};

/* ------------------------------------------------------------------------------------------------
   >>memory

   The region is cut into chunks: red zone, data, red zone. Chunks are live, freed but kept back (so that a late access
   meets NaNs instead of somebody else's data), or free. They cover the region up to region_top; the rest is never opened.
   All that is not live is filled with RED_ZONE, and has to be still when it is used.
   ------------------------------------------------------------------------------------------------ */

const size_t REGION_BYTES = (size_t)4 << 30;
const size_t HUGE_PAGE = 2 << 20;
const size_t RED_BYTES = 256;            /* on each side; also the alignment of allocations */
const size_t KEPT_BACK_BYTES = 16 << 20; /* of freed memory */
const size_t KEPT_BACK_CHUNKS = 1000;

enum chunk_state { FREE, LIVE, KEPT_BACK };

struct chunk {
    char *begin;
    size_t span;  /* red zones included */
    size_t bytes; /* of data */
    chunk_state state;
    size_t live_index;
    int device;
    char *data() const
    {
        return begin + RED_BYTES;
    }
};

char *region;
size_t region_top; /* chunks reach up to here, a multiple of a huge page */
bool region_open;
size_t device_limit = REGION_BYTES;
std::map<char *, chunk> chunks; /* by their first address */
std::vector<chunk *> live_chunks;
std::deque<chunk *> kept_back;
size_t kept_back_bytes;
std::map<char *, size_t> pinned; /* cudaMallocHost: address and size */

chunk *chunk_at(const void *address)
{
    if (!region || (char *)address < region || (char *)address >= region + region_top) return NULL;
    auto after = chunks.upper_bound((char *)address);
    return &std::prev(after)->second;
}

bool in_region(const void *address)
{
    return region && (char *)address >= region && (char *)address < region + REGION_BYTES;
}

bool is_device(const void *p, size_t bytes)
{
    const chunk *c = chunk_at(p);
    if (!c || c->state != LIVE) return false;
    size_t offset = (size_t)((const char *)p - c->data());
    return (const char *)p >= c->data() && offset <= c->bytes && bytes <= c->bytes - offset;
}

bool is_pinned(const void *p, size_t bytes)
{
    auto after = pinned.upper_bound((char *)p);
    if (after == pinned.begin()) return false;
    auto block = std::prev(after);
    size_t offset = (size_t)((const char *)p - block->first);
    return offset <= block->second && bytes <= block->second - offset;
}

struct sigaction earlier_handler;

/* Says where an address is, for messages. */
const char *describe_address(const void *address, char *text, size_t size)
{
    const chunk *c = chunk_at(address);
    if (!c)
        snprintf(text, size, "beyond all allocations");
    else if (c->state == FREE)
        snprintf(text, size, "not allocated");
    else
        snprintf(text, size, "byte %td of %s allocation of %zu bytes", (const char *)address - c->data(),
                 c->state == LIVE ? "an" : "a freed", c->bytes);
    return text;
}

void on_bad_address(int signal_number, siginfo_t *info, void *context)
{
    char text[100];
    const void *address = info->si_addr;
    if (in_region(address)) {
        describe_address(address, text, sizeof text);
        if (in_kernel()) fault("device code touched memory it does not own", "at %p, %s", address, text);
        if (!region_open) fault("host code touched device memory", "at %p, %s", address, text);
        fault("a copy or library call touched memory it does not own", "at %p, %s", address, text);
    }
    if (in_fiber_guard(address)) fault("stack overflow", "of a CUDA thread, at %p", address);
    if (in_kernel()) fprintf(stderr, "pu_sim: a kernel touches an invalid address, %p\n", address);
    if (earlier_handler.sa_flags & SA_SIGINFO)
        earlier_handler.sa_sigaction(signal_number, info, context);
    else if (earlier_handler.sa_handler != SIG_DFL && earlier_handler.sa_handler != SIG_IGN)
        earlier_handler.sa_handler(signal_number);
    if (in_kernel()) fault("invalid address", "%p", address);
    signal(SIGSEGV, SIG_DFL); /* the access is repeated, and ends the program as usual */
}

void reserve_region()
{
    /* It is opened and closed all the time. That is cheap with huge pages, which have to be opened as a whole. */
    size_t bytes = REGION_BYTES + HUGE_PAGE;
    region = (char *)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) fault("engine", "no addresses for device memory");
    region = (char *)(((uintptr_t)region + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    madvise(region, REGION_BYTES, MADV_HUGEPAGE);
    madvise(region, REGION_BYTES, MADV_DONTDUMP);

    /* The stack of a CUDA thread may be what has run out, so the handler gets another one, if none is set. */
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_DISABLE)) {
        static char handler_stack[64 << 10];
        memset(&stack, 0, sizeof stack);
        stack.ss_sp = handler_stack;
        stack.ss_size = sizeof handler_stack;
        sigaltstack(&stack, NULL);
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bad_address;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &earlier_handler);
}

void open_device_memory()
{
    if (region_open || region_top == 0) return;
    if (mprotect(region, region_top, PROT_READ | PROT_WRITE) != 0) fault("engine", "mprotect: %s", strerror(errno));
    region_open = true;
}

void close_device_memory()
{
    if (!region_open) return;
    if (mprotect(region, region_top, PROT_NONE) != 0) fault("engine", "mprotect: %s", strerror(errno));
    region_open = false;
}

/* A red zone that is not what it was: somebody wrote past the end of an allocation. */
void check_red_zones(const char *culprit)
{
    for (const chunk *c : live_chunks) {
        size_t before = first_change(c->begin, RED_BYTES, RED_ZONE);
        const char *end = c->data() + c->bytes;
        size_t after_bytes = (size_t)(c->begin + c->span - end), after = first_change(end, after_bytes, RED_ZONE);
        if (before == RED_BYTES && after == after_bytes) continue;
        fault("out-of-bounds write to device memory", "%s wrote byte %td of an allocation of %zu bytes", culprit,
              before < RED_BYTES ? (ptrdiff_t)before - (ptrdiff_t)RED_BYTES : (ptrdiff_t)(c->bytes + after), c->bytes);
    }
}

/* Nobody may have written to memory that is free, or was freed. */
void check_freed(const chunk *c)
{
    size_t change = first_change(c->begin, c->span, RED_ZONE);
    if (change == c->span) return;
    if (c->state == FREE) fault("write to device memory that is not allocated", "at %p", (void *)(c->begin + change));
    fault("write to freed device memory", "byte %td of a freed allocation of %zu bytes",
          (ptrdiff_t)change - (ptrdiff_t)RED_BYTES, c->bytes);
}

/* Makes a chunk free and joins it to free neighbours. */
void make_free(std::map<char *, chunk>::iterator c)
{
    c->second.state = FREE;
    auto next = std::next(c);
    if (next != chunks.end() && next->second.state == FREE) {
        c->second.span += next->second.span;
        chunks.erase(next);
    }
    if (c != chunks.begin() && std::prev(c)->second.state == FREE) {
        std::prev(c)->second.span += c->second.span;
        chunks.erase(c);
    }
}

/* The first free chunk that is large enough, cut to the size; NULL when there is none. */
chunk *take_free(size_t span)
{
    for (auto &entry : chunks) {
        chunk &c = entry.second;
        if (c.state != FREE || c.span < span) continue;
        if (c.span > span) chunks[c.begin + span] = {c.begin + span, c.span - span, 0, FREE, 0, 0};
        c.span = span;
        return &c;
    }
    return NULL;
}

void give_up_oldest()
{
    open_device_memory();
    chunk *c = kept_back.front();
    kept_back.pop_front();
    kept_back_bytes -= c->span;
    check_freed(c);
    make_free(chunks.find(c->begin));
}

bool grow(size_t span)
{
    size_t bytes = (span + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (bytes > REGION_BYTES - region_top) return false;
    char *begin = region + region_top;
    close_device_memory(); /* opening it again includes what is new */
    region_top += bytes;
    open_device_memory();
    fill(begin, bytes, RED_ZONE);
    SIM_POISON(begin, bytes);
    make_free(chunks.insert({begin, {begin, bytes, 0, FREE, 0, 0}}).first);
    return true;
}

chunk *take_chunk(size_t span)
{
    chunk *c;
    while (!(c = take_free(span))) {
        if (grow(span)) continue;
        if (kept_back.empty()) return NULL;
        give_up_oldest();
    }
    return c;
}

void *allocate(size_t bytes)
{
    if (!region) reserve_region();
    if (bytes > device_limit || counters.live_bytes > device_limit - bytes) return NULL;
    size_t span = ((bytes + RED_BYTES - 1) & ~(RED_BYTES - 1)) + 2 * RED_BYTES;
    chunk *c = take_chunk(span);
    if (!c) return NULL;
    open_device_memory();
    check_freed(c);
    SIM_UNPOISON(c->data(), bytes);
    memset(c->data(), 0xff, bytes);
    c->bytes = bytes;
    c->state = LIVE;
    c->device = current_device;
    c->live_index = live_chunks.size();
    live_chunks.push_back(c);
    counters.live_allocations++;
    counters.live_bytes += bytes;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.live_bytes);
    return c->data();
}

void deallocate(chunk *c)
{
    open_device_memory();
    fill(c->data(), c->bytes, RED_ZONE);
    SIM_POISON(c->data(), c->bytes);
    c->state = KEPT_BACK;
    live_chunks[c->live_index] = live_chunks.back();
    live_chunks[c->live_index]->live_index = c->live_index;
    live_chunks.pop_back();
    counters.live_allocations--;
    counters.live_bytes -= c->bytes;
    kept_back.push_back(c);
    kept_back_bytes += c->span;
    while (kept_back_bytes > KEPT_BACK_BYTES || kept_back.size() > KEPT_BACK_CHUNKS) give_up_oldest();
}

/* ------------------------------------------------------------------------------------------------
   >>work

   A stream is a queue of entries, each with a number. Whether an entry is done is seen from the number its stream has
   finished, so a place in a stream, a stream and a number, is all that a wait has to remember.
   ------------------------------------------------------------------------------------------------ */

enum work_kind { KERNEL, LIBRARY_CALL, TO_DEVICE, TO_HOST, ON_DEVICE, MEMSET, GRAPH, NOTHING };

struct work {
    work_kind kind;
    std::string name; /* for messages */
    size_t bytes;
    std::function<void()> run; /* empty: only a mark, or a wait */
};
typedef std::shared_ptr<const work> work_ref;

struct stream;
struct place {
    stream *of;
    uint64_t number;
};

struct entry {
    uint64_t number;
    work_ref what;
    std::vector<place> after; /* earlier places in other streams that must be done */
};

struct node { /* of a graph; nodes are listed in an order in which they can run */
    work_ref what;
    std::vector<int> after;
};
typedef std::vector<node> node_list;

struct capture {
    stream *origin;
    cudaStreamCaptureMode mode;
    void *host_thread;
    std::shared_ptr<node_list> nodes;
    std::vector<stream *> streams;
    bool broken;
};

struct stream {
    bool blocking; /* waits for stream 0, and stream 0 for it */
    bool destroyed;
    int device;
    uint64_t enqueued, finished;
    std::deque<entry> queue;
    std::shared_ptr<capture> recording;
    std::vector<int> tail; /* nodes that the next recorded one has to follow */
};

struct event {
    int device;
    bool recorded;
    place at;
    std::shared_ptr<capture> recording; /* the record was captured, ... */
    std::vector<int> tail;              /* ... after these nodes */
};

struct graph {
    std::shared_ptr<node_list> nodes;
};

/* Objects that are destroyed leave these sets. Their memory is never given back, so that no new object gets an old
   address and an old handle is noticed. (The sets outlive main, which is why they are made with new.) */
auto &events = *new std::set<event *>();
auto &graphs = *new std::set<graph *>();
auto &executables = *new std::set<graph *>();
auto &streams = *new std::vector<stream *>(); /* the first is stream 0; destroyed ones stay until their work is done */
auto &graves = *new std::vector<std::shared_ptr<void>>();
std::vector<std::shared_ptr<capture>> captures; /* going on */
int library_objects[2];

thread_local char this_host_thread; /* its address names the thread */

void read_environment()
{
    if (stream_order >= 0) return;
    const char *order = getenv("PU_SIM_STREAMS");
    stream_order = order ? atoi(order) : SIM_LAZY;
    if (stream_order < SIM_EAGER || stream_order > SIM_SHUFFLED) stream_order = SIM_LAZY;
}

stream *add_stream(bool blocking)
{
    streams.push_back(new stream());
    streams.back()->blocking = blocking;
    streams.back()->device = current_device;
    return streams.back();
}

stream *legacy_stream()
{
    if (streams.empty()) add_stream(true);
    return streams[0];
}

/* The stream of a handle, NULL when it is none. Stream 0 is one for all devices. */
stream *find_stream(cudaStream_t handle)
{
    legacy_stream()->device = current_device;
    if (handle == NULL || handle == cudaStreamLegacy) return streams[0];
    for (size_t i = streams.size(); i-- > 1;)
        if ((cudaStream_t)streams[i] == handle) return streams[i]->destroyed ? NULL : streams[i];
    return NULL;
}

template <class T, class H> T *find_object(const std::set<T *> &all, H handle)
{
    auto found = all.find((T *)handle);
    return found == all.end() ? NULL : *found;
}

bool done(const place &p)
{
    return p.of->finished >= p.number;
}

void count(const work &w)
{
    switch (w.kind) {
    case KERNEL: counters.launches++; break;
    case LIBRARY_CALL: counters.library_calls++; break;
    case TO_DEVICE: counters.copies_to_device++, counters.bytes_to_device += w.bytes; break;
    case TO_HOST: counters.copies_to_host++, counters.bytes_to_host += w.bytes; break;
    case ON_DEVICE: counters.copies_on_device++; break;
    case MEMSET: counters.memsets++; break;
    case GRAPH: counters.graph_launches++; break;
    case NOTHING: break;
    }
}

void perform(const work &w)
{
    if (!w.run || lost != cudaSuccess) return;
    if (w.kind == GRAPH) { /* its nodes come here one by one */
        w.run();
        return;
    }
    if (happens_now(&execution_failure)) {
        lost = cudaErrorLaunchFailure;
        return;
    }
    open_device_memory();
    w.run();
    check_red_zones(w.name.c_str());
}

void perform_graph(const node_list &nodes)
{
    int n = (int)nodes.size();
    std::vector<int> missing(nodes.size()), ready;
    for (int i = 0; i < n; i++) {
        missing[(size_t)i] = (int)nodes[(size_t)i].after.size();
        if (missing[(size_t)i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
        size_t k = 0; /* ready is sorted */
        if (stream_order == SIM_LAZY) k = ready.size() - 1;
        if (stream_order == SIM_SHUFFLED) k = random_number((unsigned)ready.size());
        int now = ready[k];
        ready.erase(ready.begin() + (ptrdiff_t)k);
        perform(*nodes[(size_t)now].what);
        for (int i = now + 1; i < n; i++)
            for (int a : nodes[(size_t)i].after)
                if (a == now && --missing[(size_t)i] == 0) ready.insert(std::lower_bound(ready.begin(), ready.end(), i), i);
    }
}

bool head_can_run(const stream *s)
{
    if (s->queue.empty()) return false;
    for (const place &p : s->queue.front().after)
        if (!done(p)) return false;
    return true;
}

void run_head(stream *s)
{
    entry e = std::move(s->queue.front());
    s->queue.pop_front();
    perform(*e.what);
    s->finished = e.number;
}

/* One entry of a stream that can run, chosen at random; false when there is none. */
bool run_any()
{
    std::vector<stream *> able;
    for (stream *s : streams)
        if (head_can_run(s)) able.push_back(s);
    if (able.empty()) return false;
    run_head(able[random_number((unsigned)able.size())]);
    return true;
}

/* Runs one entry that has to be done before p is. */
void step_towards(const place &p)
{
    for (const place &q : p.of->queue.front().after)
        if (!done(q)) {
            step_towards(q);
            return;
        }
    run_head(p.of);
}

/* Works until p is done. What p does not need is left alone, or done now and then in random order. */
void finish(const place &p)
{
    while (!done(p)) {
        if (stream_order == SIM_SHUFFLED)
            run_any();
        else
            step_towards(p);
    }
}

void finish_stream(stream *s)
{
    finish({s, s->enqueued});
}

void finish_all()
{
    legacy_stream();
    for (size_t i = streams.size(); i-- > 0;) finish_stream(streams[i]);
    for (size_t i = streams.size(); i-- > 1;) {
        if (!streams[i]->destroyed) continue;
        graves.emplace_back(streams[i]);
        streams.erase(streams.begin() + (ptrdiff_t)i);
    }
}

cudaError_t break_capture(capture *c, cudaError_t error)
{
    c->broken = true;
    return error;
}

/* The end of every call that enqueues: into the recording of the stream, or its queue. */
cudaError_t enqueue(stream *s, work_ref what, std::vector<place> after = {})
{
    read_environment();
    if (s->recording) {
        if (s->recording->broken) return cudaErrorStreamCaptureInvalidated;
        s->recording->nodes->push_back({what, s->tail});
        s->tail.assign(1, (int)s->recording->nodes->size() - 1);
        return cudaSuccess;
    }
    if (s == legacy_stream())
        for (auto &c : captures)
            if (c->origin->blocking) return break_capture(c.get(), cudaErrorStreamCaptureImplicit);
    count(*what);
    if (s == legacy_stream()) {
        for (stream *other : streams)
            if (other != s && other->blocking && other->finished < other->enqueued) after.push_back({other, other->enqueued});
    } else if (s->blocking && streams[0]->finished < streams[0]->enqueued) {
        after.push_back({streams[0], streams[0]->enqueued});
    }
    s->queue.push_back({++s->enqueued, std::move(what), std::move(after)});
    if (stream_order == SIM_EAGER) finish_stream(s);
    if (stream_order == SIM_SHUFFLED)
        while (random_number(2) && run_any()) {}
    return cudaSuccess;
}

work_ref make_work(work_kind kind, std::string name, size_t bytes, std::function<void()> run)
{
    return std::make_shared<const work>(work{kind, std::move(name), bytes, std::move(run)});
}

/* ------------------------------------------------------------------------------------------------
   >>capture
   ------------------------------------------------------------------------------------------------ */

/* Calls that could touch work which is only recorded, such as allocations, may not be made during a capture, except by
   host threads that it does not concern. */
cudaError_t not_while_capturing()
{
    cudaError_t error = cudaSuccess;
    for (auto &c : captures) {
        if (c->mode == cudaStreamCaptureModeRelaxed) continue;
        if (c->mode == cudaStreamCaptureModeThreadLocal && c->host_thread != &this_host_thread) continue;
        error = break_capture(c.get(), cudaErrorStreamCaptureUnsupported);
    }
    return error;
}

cudaError_t status()
{
    return absent != cudaSuccess ? absent : lost;
}

} // namespace

/* ------------------------------------------------------------------------------------------------
   For sim_libs.cpp
   ------------------------------------------------------------------------------------------------ */

bool allocation_fails()
{
    api_call call;
    if (happens_now(&allocation_failure)) return true;
    counters.allocations++;
    return false;
}

void count_object(library_object kind, int by)
{
    api_call call;
    library_objects[kind] += by;
}

cudaError_t device_status()
{
    api_call call;
    return status();
}

bool valid_stream(cudaStream_t handle)
{
    api_call call;
    return find_stream(handle) != NULL;
}

cudaError_t enqueue_library_call(cudaStream_t handle, const char *name, std::function<void()> run)
{
    api_call call;
    if (status() != cudaSuccess) return status();
    stream *s = find_stream(handle);
    if (!s || s->device != current_device) return cudaErrorInvalidResourceHandle;
    if (happens_now(&launch_failure)) return cudaErrorLaunchOutOfResources;
    return enqueue(s, make_work(LIBRARY_CALL, name, 0, std::move(run)));
}

/* ------------------------------------------------------------------------------------------------
   >>launch-api
   ------------------------------------------------------------------------------------------------ */

namespace {

std::map<const void *, size_t> opted_in; /* kernels that may use more dynamic shared memory than 48 KiB */

/* Whether a word of a structure is the address of host memory. An integer and four bytes of padding with the upper half of
   an old pointer in them are not: their lower half is small. Nor is a float beside four bytes of zeros, though sanitizers keep
   memory of theirs at such addresses: programs that can be moved have none below 4 GiB. */
bool looks_like_host_pointer(uintptr_t word)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (word % 4 != 0 || word >> 47 != 0 || word >> 32 == 0 || (word & 0xffffffffu) < 1 << 24) return false;
    return msync((void *)(word / page * page), 1, MS_ASYNC) == 0;
}

/* The threads of a kernel's __launch_bounds__, or 1024: the distance from the kernel back to its entry in the list. */
unsigned launch_bound(const void *function)
{
    static std::map<const void *, unsigned> known;
    auto found = known.find(function);
    if (found != known.end()) return found->second;
    unsigned bound = 1024;
    const unsigned char *begin = (const unsigned char *)function;
    for (const unsigned char **e = __start___patchable_function_entries; e != __stop___patchable_function_entries; e++) {
        if (begin <= *e || begin - *e > 1024) continue;
        const unsigned char *p = *e;
        while (p < begin && *p == 0x90) p++; /* nothing else lies between */
        if (p == begin) bound = (unsigned)(begin - *e);
    }
    return known[function] = bound;
}

cudaError_t check_geometry(const kernel_call *k)
{
    const dim3 &g = k->grid, &b = k->block;
    if (g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0) return cudaErrorInvalidConfiguration;
    if (b.x > 1024 || b.y > 1024 || b.z > 64 || (size_t)b.x * b.y * b.z > 1024) return cudaErrorInvalidConfiguration;
    if (b.x * b.y * b.z > launch_bound(k->function)) return cudaErrorInvalidValue;
    if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
    auto own = opted_in.find(k->function);
    if (k->dynamic_bytes > (own != opted_in.end() ? own->second : SHARED_DEFAULT)) return cudaErrorInvalidValue;
    return cudaSuccess;
}

} // namespace

static std::string name_of(const kernel_call *k)
{
    return std::string("kernel ") + k->name + " (launched at " + file_name(k->where.file) + ":" +
           std::to_string(k->where.line) + ")";
}

/* On a device, a kernel that follows a host pointer crashes; here it would not notice. Parameters that are pointers must
   be device or pinned memory. Members of structures are looked at as words that may be pointers. */
void check_argument(const kernel_call *call, int index, const void *bytes, size_t n, bool is_pointer)
{
    if (!is_pointer && !check_structures) return;
    for (size_t i = 0; i + sizeof(uintptr_t) <= n; i += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)bytes + i, sizeof word);
        const void *address = (const void *)word;
        const chunk *owner = is_pointer ? chunk_at(address) : NULL;
        if (owner && owner->state == LIVE && owner->device != current_device)
            fault("memory of another device given to a kernel", "%s, parameter %d", name_of(call).c_str(), index + 1);
        if (word < 4096 || in_region(address) || is_pinned(address, 0)) continue;
        if (is_pointer)
            fault("host pointer given to a kernel", "%s, parameter %d is %p", name_of(call).c_str(), index + 1, address);
        if (looks_like_host_pointer(word))
            fault("host pointer given to a kernel",
                  "%s, byte %zu of parameter %d looks like one, %p (sim_check_structures(0) allows it)", name_of(call).c_str(),
                  i, index + 1, address);
    }
}

void enqueue_kernel(kernel_call *taken, cudaStream_t handle)
{
    api_call call;
    std::shared_ptr<kernel_call> k(taken); /* after the lock, so that it is given up within it */
    if (!region) reserve_region();         /* and be ready for bad addresses */
    cudaError_t error = status();
    if (error == cudaSuccess) error = check_geometry(taken);
    stream *s = find_stream(handle);
    if (error == cudaSuccess && (!s || s->device != current_device)) error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && happens_now(&launch_failure)) error = cudaErrorLaunchOutOfResources;
    if (error == cudaSuccess) {
        k->check_arguments();
        error = enqueue(s, make_work(KERNEL, name_of(k.get()), 0, [k]() { run_kernel(k.get()); }));
    }
    failed(error);
}

} // namespace sim

using namespace sim;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!function) return failed(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return failed(cudaErrorNotSupported);
    if (value < 0 || (size_t)value > SHARED_OPT_IN) return failed(cudaErrorInvalidValue);
    opted_in[function] = (size_t)value;
    return cudaSuccess;
}

/* ------------------------------------------------------------------------------------------------
   >>errors-api
   ------------------------------------------------------------------------------------------------ */

cudaError_t cudaGetLastError(void)
{
    api_call call;
    cudaError_t error = lost != cudaSuccess ? lost : last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    api_call call;
    return lost != cudaSuccess ? lost : last_error;
}

#define SIM_ERRORS(X)                                                                                                          \
    X(cudaSuccess, "no error")                                                                                                 \
    X(cudaErrorInvalidValue, "a parameter is out of range")                                                                    \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                              \
    X(cudaErrorInitializationError, "the driver could not be initialised")                                                     \
    X(cudaErrorInvalidConfiguration, "the launch has an impossible grid or block")                                             \
    X(cudaErrorInvalidMemcpyDirection, "the direction of the copy is unknown")                                                 \
    X(cudaErrorInsufficientDriver, "the driver is too old, or there is none")                                                  \
    X(cudaErrorInvalidDeviceFunction, "not a kernel")                                                                          \
    X(cudaErrorNoDevice, "there is no CUDA device")                                                                            \
    X(cudaErrorInvalidDevice, "no device has this number")                                                                     \
    X(cudaErrorInvalidResourceHandle, "not a handle, or one of something destroyed")                                           \
    X(cudaErrorIllegalState, "not possible in the present state")                                                              \
    X(cudaErrorNotReady, "not finished yet")                                                                                   \
    X(cudaErrorIllegalAddress, "a kernel used an invalid address")                                                             \
    X(cudaErrorLaunchOutOfResources, "the launch needs more than the device has")                                              \
    X(cudaErrorLaunchTimeout, "a kernel took too long")                                                                        \
    X(cudaErrorLaunchFailure, "a kernel failed, the device is lost")                                                           \
    X(cudaErrorNotSupported, "not supported")                                                                                  \
    X(cudaErrorStreamCaptureUnsupported, "not permitted while a stream is captured")                                           \
    X(cudaErrorStreamCaptureInvalidated, "an earlier error spoilt the capture")                                                \
    X(cudaErrorStreamCaptureMerge, "two captures would become one")                                                            \
    X(cudaErrorStreamCaptureUnmatched, "the capture was not begun on this stream")                                             \
    X(cudaErrorStreamCaptureUnjoined, "a stream was drawn into the capture and did not rejoin its origin")                     \
    X(cudaErrorStreamCaptureIsolation, "captured work would wait for work that is not")                                        \
    X(cudaErrorStreamCaptureImplicit, "stream 0 would wait for a captured stream")                                             \
    X(cudaErrorCapturedEvent, "the event was recorded in a capture")                                                           \
    X(cudaErrorStreamCaptureWrongThread, "another host thread began the capture")                                              \
    X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define X(name, text)                                                                                                          \
    case name: return #name;
        SIM_ERRORS(X)
#undef X
    default: return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define X(name, text)                                                                                                          \
    case name: return text;
        SIM_ERRORS(X)
#undef X
    default: return "unrecognized error code";
    }
}

/* ------------------------------------------------------------------------------------------------
   >>device-api
   ------------------------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *n)
{
    api_call call;
    if (!n) return failed(cudaErrorInvalidValue);
    *n = absent == cudaSuccess ? devices : 0;
    return failed(status());
}

cudaError_t cudaSetDevice(int device)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (device < 0 || device >= devices) return failed(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (device < 0 || device >= devices) return failed(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)SHARED_DEFAULT; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)SHARED_OPT_IN; break;
    case cudaDevAttrMultiProcessorCount: *value = MULTIPROCESSORS; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 7; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 5; break;
    default: return failed(cudaErrorNotSupported); /* a device knows more; better noticed than guessed */
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (device < 0 || device >= devices) return failed(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "pu_sim, kernels on the CPU");
    p->totalGlobalMem = device_limit;
    p->sharedMemPerBlock = SHARED_DEFAULT;
    p->sharedMemPerBlockOptin = SHARED_OPT_IN;
    p->sharedMemPerMultiprocessor = SHARED_OPT_IN;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 1024;
    p->multiProcessorCount = MULTIPROCESSORS;
    p->major = 7;
    p->minor = 5;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->unifiedAddressing = 1;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = absent == cudaSuccess ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    cudaError_t error = not_while_capturing();
    if (error != cudaSuccess) return failed(error);
    read_environment();
    counters.synchronisations++;
    finish_all();
    return failed(status());
}

/* ------------------------------------------------------------------------------------------------
   >>memory-api
   ------------------------------------------------------------------------------------------------ */

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (free_bytes) *free_bytes = device_limit - std::min(device_limit, counters.live_bytes);
    if (total_bytes) *total_bytes = device_limit;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!p) return failed(cudaErrorInvalidValue);
    cudaError_t error = not_while_capturing();
    if (error != cudaSuccess) return failed(error);
    *p = NULL;
    if (allocation_fails()) return failed(cudaErrorMemoryAllocation);
    if (bytes == 0) return cudaSuccess;
    *p = allocate(bytes);
    if (*p) return cudaSuccess;
    counters.allocations--;
    return failed(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    api_call call;
    if (absent != cudaSuccess) return failed(absent);
    if (!p) return failed(lost);
    cudaError_t error = not_while_capturing();
    if (error != cudaSuccess) return failed(error);
    chunk *c = chunk_at(p);
    if (!c || c->state != LIVE || c->data() != (char *)p) return failed(cudaErrorInvalidValue);
    read_environment();
    finish_all(); /* freeing waits for the device */
    deallocate(c);
    return failed(lost);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!p) return failed(cudaErrorInvalidValue);
    cudaError_t error = not_while_capturing();
    if (error != cudaSuccess) return failed(error);
    *p = NULL;
    if (allocation_fails()) return failed(cudaErrorMemoryAllocation);
    if (bytes == 0) return cudaSuccess;
    char *block = (char *)malloc(bytes);
    if (!block) return failed(cudaErrorMemoryAllocation);
    memset(block, 0xff, bytes);
    pinned[block] = bytes;
    counters.live_allocations++;
    *p = block;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    api_call call;
    if (absent != cudaSuccess) return failed(absent);
    if (!p) return failed(lost);
    cudaError_t error = not_while_capturing();
    if (error != cudaSuccess) return failed(error);
    if (pinned.find((char *)p) == pinned.end()) return failed(cudaErrorInvalidValue);
    read_environment();
    finish_all();
    pinned.erase((char *)p);
    counters.live_allocations--;
    free(p);
    return failed(lost);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!attributes) return failed(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = is_device(p, 0)   ? cudaMemoryTypeDevice
                       : is_pinned(p, 0) ? cudaMemoryTypeHost
                                         : cudaMemoryTypeUnregistered;
    attributes->device = attributes->type == cudaMemoryTypeUnregistered ? -2 : 0;
    if (attributes->type != cudaMemoryTypeUnregistered) attributes->devicePointer = (void *)p;
    if (attributes->type != cudaMemoryTypeDevice) attributes->hostPointer = (void *)p;
    return cudaSuccess;
}

} // extern "C"

/* ------------------------------------------------------------------------------------------------
   >>copy-api
   ------------------------------------------------------------------------------------------------ */

namespace {

/* height rows of width bytes, pitches apart. A plain copy is one row. */
struct rectangle {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;

    size_t to_span() const
    {
        return width && height ? (height - 1) * to_pitch + width : 0;
    }
    size_t from_span() const
    {
        return width && height ? (height - 1) * from_pitch + width : 0;
    }
    void copy() const
    {
        for (size_t i = 0; i < height; i++) memmove(to + i * to_pitch, from + i * from_pitch, width);
    }
};

cudaError_t copy(rectangle r, enum cudaMemcpyKind kind, cudaStream_t handle, bool host_waits)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (r.width > r.to_pitch || r.width > r.from_pitch) return failed(cudaErrorInvalidValue);
    if (happens_now(&copy_failure)) return failed(cudaErrorInvalidValue);
    if (r.width == 0 || r.height == 0) return cudaSuccess;

    bool to_device = in_region(r.to), from_device = in_region(r.from);
    if (kind == cudaMemcpyDefault)
        kind = to_device     ? from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
               : from_device ? cudaMemcpyDeviceToHost
                             : cudaMemcpyHostToHost;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDeviceToDevice) return failed(cudaErrorInvalidMemcpyDirection);
    if (to_device != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)) return failed(cudaErrorInvalidValue);
    if (from_device != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice))
        return failed(cudaErrorInvalidValue);
    if (to_device && !is_device(r.to, r.to_span())) return failed(cudaErrorInvalidValue);
    if (from_device && !is_device(r.from, r.from_span())) return failed(cudaErrorInvalidValue);

    size_t bytes = r.width * r.height;
    bool pageable_from = !from_device && !is_pinned(r.from, r.from_span());
    bool pageable_to = !to_device && !is_pinned(r.to, r.to_span());
    if (host_waits) { /* a blocking copy */
        cudaError_t error = not_while_capturing();
        if (error != cudaSuccess) return failed(error);
    }
    if (s->recording && (pageable_from || pageable_to))
        return failed(break_capture(s->recording.get(), cudaErrorStreamCaptureUnsupported));

    std::function<void()> run = [r]() { r.copy(); };
    if (pageable_from && !host_waits) { /* the source is read now: the caller may overwrite it at once */
        auto staged = std::make_shared<std::vector<char>>(bytes);
        rectangle in = {staged->data(), r.from, r.width, r.from_pitch, r.width, r.height};
        in.copy();
        rectangle out = {r.to, staged->data(), r.to_pitch, r.width, r.width, r.height};
        run = [out, staged]() { out.copy(); };
    }
    work_kind work = to_device ? from_device ? ON_DEVICE : TO_DEVICE : from_device ? TO_HOST : NOTHING;
    cudaError_t error = enqueue(s, make_work(work, "a copy", bytes, run));
    if (error != cudaSuccess) return failed(error);
    if ((host_waits && kind != cudaMemcpyDeviceToDevice) || pageable_to) {
        counters.synchronisations++;
        finish_stream(s);
    }
    return failed(status());
}

cudaError_t set(void *p, int value, size_t bytes, cudaStream_t handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (happens_now(&copy_failure)) return failed(cudaErrorInvalidValue);
    if (bytes == 0) return cudaSuccess;
    if (!is_device(p, bytes) && !is_pinned(p, bytes)) return failed(cudaErrorInvalidValue);
    failed(enqueue(s, make_work(MEMSET, "cudaMemset", bytes, [p, value, bytes]() { memset(p, value, bytes); })));
    return failed(status());
}

} // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy({(char *)to, (const char *)from, bytes, bytes, bytes, 1}, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy({(char *)to, (const char *)from, bytes, bytes, bytes, 1}, kind, NULL, true);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy({(char *)to, (const char *)from, to_pitch, from_pitch, width, height}, kind, stream, false);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    return copy({(char *)to, (const char *)from, to_pitch, from_pitch, width, height}, kind, NULL, true);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return set(p, value, bytes, stream);
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    return set(p, value, bytes, NULL);
}

/* ------------------------------------------------------------------------------------------------
   >>stream-api
   ------------------------------------------------------------------------------------------------ */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned int flags)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!handle || flags > cudaStreamNonBlocking) return failed(cudaErrorInvalidValue);
    if (allocation_fails()) return failed(cudaErrorMemoryAllocation);
    legacy_stream();
    *handle = (cudaStream_t)add_stream(!(flags & cudaStreamNonBlocking));
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *handle)
{
    return cudaStreamCreateWithFlags(handle, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    api_call call;
    if (absent != cudaSuccess) return failed(absent);
    stream *s = find_stream(handle);
    if (!s || s == legacy_stream()) return failed(cudaErrorInvalidResourceHandle);
    if (s->recording) return failed(break_capture(s->recording.get(), cudaErrorStreamCaptureUnsupported));
    s->destroyed = true; /* what it holds will still be done */
    return failed(lost);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (s->recording) return failed(break_capture(s->recording.get(), cudaErrorStreamCaptureUnsupported));
    if (s == legacy_stream())
        for (auto &c : captures)
            if (c->origin->blocking) return failed(break_capture(c.get(), cudaErrorStreamCaptureImplicit));
    read_environment();
    counters.synchronisations++;
    if (s == legacy_stream())
        for (stream *other : streams)
            if (other->blocking) finish_stream(other);
    finish_stream(s);
    return failed(status());
}

/* Asking makes a little progress, so that a loop of questions ends. */
static cudaError_t ask(const place &p)
{
    read_environment();
    if (done(p)) return failed(status());
    if (stream_order == SIM_SHUFFLED)
        run_any();
    else
        step_towards(p);
    return failed(status() != cudaSuccess ? status() : cudaErrorNotReady);
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (s->recording) return failed(break_capture(s->recording.get(), cudaErrorStreamCaptureUnsupported));
    return ask({s, s->enqueued});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned int)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    if (!handle) return failed(cudaErrorInvalidValue);
    if (allocation_fails()) return failed(cudaErrorMemoryAllocation);
    event *e = new event();
    e->device = current_device;
    events.insert(e);
    *handle = (cudaEvent_t)e;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
    return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    api_call call;
    if (absent != cudaSuccess) return failed(absent);
    event *e = find_object(events, handle);
    if (!e) return failed(cudaErrorInvalidResourceHandle);
    events.erase(e);
    graves.emplace_back(e);
    return failed(lost);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    event *e = find_object(events, handle);
    stream *s = find_stream(stream_handle);
    if (!e || !s || e->device != s->device) return failed(cudaErrorInvalidResourceHandle);
    if (s->recording) {
        if (s->recording->broken) return failed(cudaErrorStreamCaptureInvalidated);
        e->recorded = true;
        e->recording = s->recording;
        e->tail = s->tail;
        return cudaSuccess;
    }
    cudaError_t error = enqueue(s, make_work(NOTHING, "an event", 0, nullptr));
    if (error != cudaSuccess) return failed(error);
    e->recorded = true;
    e->recording = nullptr;
    e->at = {s, s->enqueued};
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    event *e = find_object(events, handle);
    stream *s = find_stream(stream_handle);
    if (!e || !s) return failed(cudaErrorInvalidResourceHandle);
    if (e->recording) {
        capture *c = e->recording.get();
        if (std::find(captures.begin(), captures.end(), e->recording) == captures.end()) return failed(cudaErrorCapturedEvent);
        if (c->broken) return failed(cudaErrorStreamCaptureInvalidated);
        if (s == legacy_stream()) return failed(break_capture(c, cudaErrorStreamCaptureImplicit));
        if (s->recording && s->recording != e->recording) return failed(break_capture(c, cudaErrorStreamCaptureMerge));
        if (!s->recording) { /* the stream joins the capture */
            s->recording = e->recording;
            s->tail.clear();
            c->streams.push_back(s);
        }
        for (int t : e->tail)
            if (std::find(s->tail.begin(), s->tail.end(), t) == s->tail.end()) s->tail.push_back(t);
        return cudaSuccess;
    }
    if (s->recording) { /* captured work cannot wait for what happened before */
        if (!e->recorded) return cudaSuccess;
        return failed(break_capture(s->recording.get(), cudaErrorStreamCaptureIsolation));
    }
    if (!e->recorded) return cudaSuccess;
    return failed(enqueue(s, make_work(NOTHING, "a wait", 0, nullptr), {e->at}));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    event *e = find_object(events, handle);
    if (!e) return failed(cudaErrorInvalidResourceHandle);
    if (e->recording) {
        e->recording->broken = true;
        return failed(cudaErrorCapturedEvent);
    }
    read_environment();
    counters.synchronisations++;
    if (e->recorded) finish(e->at);
    return failed(status());
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    event *e = find_object(events, handle);
    if (!e) return failed(cudaErrorInvalidResourceHandle);
    if (e->recording) {
        e->recording->broken = true;
        return failed(cudaErrorCapturedEvent);
    }
    return e->recorded ? ask(e->at) : cudaSuccess;
}

/* ------------------------------------------------------------------------------------------------
   >>graph-api
   ------------------------------------------------------------------------------------------------ */

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (s == legacy_stream()) return failed(cudaErrorStreamCaptureUnsupported);
    if (s->recording) return failed(cudaErrorIllegalState);
    auto c = std::make_shared<capture>();
    c->origin = s;
    c->mode = mode;
    c->host_thread = &this_host_thread;
    c->nodes = std::make_shared<node_list>();
    c->streams.push_back(s);
    s->recording = c;
    s->tail.clear();
    captures.push_back(c);
    return cudaSuccess;
}

/* All recorded work must be waited for by the stream the capture began on. */
static bool all_joined(const capture &c)
{
    std::vector<char> reached(c.nodes->size());
    for (int t : c.origin->tail) reached[(size_t)t] = 1;
    for (size_t i = reached.size(); i-- > 0;) {
        if (!reached[i]) return false;
        for (int a : (*c.nodes)[i].after) reached[(size_t)a] = 1;
    }
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *result)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (!result) return failed(cudaErrorInvalidValue);
    *result = NULL;
    if (!s->recording) return failed(cudaErrorIllegalState);
    std::shared_ptr<capture> c = s->recording;
    if (c->origin != s) return failed(break_capture(c.get(), cudaErrorStreamCaptureUnmatched));
    if (c->mode != cudaStreamCaptureModeRelaxed && c->host_thread != &this_host_thread)
        return failed(cudaErrorStreamCaptureWrongThread);
    bool joined = all_joined(*c);
    for (stream *member : c->streams) {
        member->recording = nullptr;
        member->tail.clear();
    }
    captures.erase(std::find(captures.begin(), captures.end(), c));
    if (c->broken) return failed(cudaErrorStreamCaptureInvalidated);
    if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
    graph *g = new graph{c->nodes};
    graphs.insert(g);
    *result = (cudaGraph_t)g;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *result)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    stream *s = find_stream(handle);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (!result) return failed(cudaErrorInvalidValue);
    *result = !s->recording          ? cudaStreamCaptureStatusNone
              : s->recording->broken ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t handle, unsigned long long)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    graph *g = find_object(graphs, handle);
    if (!result || !g) return failed(cudaErrorInvalidValue);
    if (allocation_fails()) return failed(cudaErrorMemoryAllocation);
    graph *e = new graph{g->nodes};
    executables.insert(e);
    *result = (cudaGraphExec_t)e;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *result, cudaGraph_t handle, unsigned long long flags)
{
    return cudaGraphInstantiate(result, handle, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle)
{
    api_call call;
    if (status() != cudaSuccess) return failed(status());
    graph *g = find_object(executables, handle);
    stream *s = find_stream(stream_handle);
    if (!g) return failed(cudaErrorInvalidValue);
    if (!s) return failed(cudaErrorInvalidResourceHandle);
    if (s->recording) return failed(break_capture(s->recording.get(), cudaErrorNotSupported)); /* graphs in graphs */
    if (happens_now(&launch_failure)) return failed(cudaErrorLaunchOutOfResources);
    auto nodes = g->nodes;
    for (const node &n : *nodes) count(*n.what);
    failed(enqueue(s, make_work(GRAPH, "a graph", 0, [nodes]() { perform_graph(*nodes); })));
    return failed(status());
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle)
{
    api_call call;
    graph *g = find_object(graphs, handle);
    if (!g) return failed(cudaErrorInvalidValue);
    graphs.erase(g);
    g->nodes = nullptr;
    graves.emplace_back(g);
    return failed(status());
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle)
{
    api_call call;
    graph *g = find_object(executables, handle);
    if (!g) return failed(cudaErrorInvalidValue);
    executables.erase(g);
    g->nodes = nullptr;
    graves.emplace_back(g);
    return failed(status());
}

} // extern "C"

/* ------------------------------------------------------------------------------------------------
   >>tests-api
   ------------------------------------------------------------------------------------------------ */

void sim_stream_order(int order)
{
    api_call call;
    read_environment();
    stream_order = order == SIM_EAGER || order == SIM_SHUFFLED ? order : SIM_LAZY;
    if (stream_order == SIM_EAGER) finish_all();
}

void sim_fail_allocation(long n)
{
    api_call call;
    order_failure(&allocation_failure, n);
}

void sim_fail_launch(long n)
{
    api_call call;
    order_failure(&launch_failure, n);
}

void sim_fail_copy(long n)
{
    api_call call;
    order_failure(&copy_failure, n);
}

void sim_fail_execution(long n)
{
    api_call call;
    order_failure(&execution_failure, n);
}

void sim_no_device(int error)
{
    api_call call;
    absent = error == 1 ? cudaErrorNoDevice : (cudaError_t)error;
}

void sim_device_memory(size_t bytes)
{
    api_call call;
    device_limit = std::min(bytes, REGION_BYTES);
}

void sim_devices(int n)
{
    api_call call;
    devices = n;
    current_device = 0;
}

void sim_check_structures(int on)
{
    api_call call;
    check_structures = on != 0;
}

sim_counters sim_count(void)
{
    api_call call;
    return counters;
}

void sim_reset_counters(void)
{
    api_call call;
    sim_counters old = counters;
    counters = sim_counters();
    counters.live_allocations = old.live_allocations;
    counters.live_bytes = counters.peak_bytes = old.live_bytes;
}

int sim_leaks(FILE *out)
{
    api_call call;
    int n = 0;
    open_device_memory();
    check_red_zones("somebody");
    for (auto &entry : chunks)
        if (entry.second.state != LIVE) check_freed(&entry.second);
    for (const chunk *c : live_chunks) {
        n++;
        if (out) fprintf(out, "pu_sim: not freed: %zu bytes of device memory at %p\n", c->bytes, (void *)c->data());
    }
    for (auto &p : pinned) {
        n++;
        if (out) fprintf(out, "pu_sim: not freed: %zu bytes of pinned memory at %p\n", p.second, (void *)p.first);
    }
    struct {
        const char *name;
        int n;
    } objects[] = {{"stream", 0}, {"event", 0}, {"graph", 0}, {"executable graph", 0}, {"cuBLAS handle", 0}, {"cuFFT plan", 0}};
    for (size_t i = 1; i < streams.size(); i++) objects[0].n += !streams[i]->destroyed;
    objects[1].n = (int)events.size();
    objects[2].n = (int)graphs.size();
    objects[3].n = (int)executables.size();
    objects[4].n = library_objects[CUBLAS_HANDLE];
    objects[5].n = library_objects[CUFFT_PLAN];
    for (auto &o : objects) {
        n += o.n;
        if (out && o.n) fprintf(out, "pu_sim: not destroyed: %d of %s\n", o.n, o.name);
    }
    return n;
}

void sim_reset(void)
{
    api_call call;
    read_environment();
    for (auto &c : captures) { /* given up */
        for (stream *s : c->streams) s->recording = nullptr;
        c->broken = true;
    }
    captures.clear();
    finish_all();
    allocation_failure = launch_failure = copy_failure = execution_failure = ordered_failure();
    absent = lost = last_error = cudaSuccess;
    device_limit = REGION_BYTES;
    check_structures = true;
    sim_devices(1);
    sim_reset_counters();
}

int sim_is_device(const void *p, size_t bytes)
{
    api_call call;
    return is_device(p, bytes);
}

int sim_is_pinned(const void *p, size_t bytes)
{
    api_call call;
    return is_pinned(p, bytes);
}

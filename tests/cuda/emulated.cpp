/* A CUDA driver that runs mica's kernels on the processor, for machines without a GPU: a library
 * that MICA_CUDA_LIBRARY names. It knows the kernels by their names, compiled here as C++, and no
 * others; MICA_EMULATED_TRACE prints them as they run. What is started is computed when somebody
 * waits for it, as late as the driver may; the threads of a block take turns, each until it waits
 * for the others. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <deque>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <vector>

#include "cuda/driver.h"

#include "emulation.h"
#include "fibers.h"

#include "cuda/kern/attention.cu"
#include "cuda/kern/delta.cu"
#include "cuda/kern/elements.cu"
#include "cuda/kern/gated.cu"
#include "cuda/kern/heads.cu"
#include "cuda/kern/matmul.cu"
#include "cuda/kern/move.cu"
#include "cuda/kern/norms.cu"
#include "cuda/kern/rows.cu"
#include "cuda/kern/topk.cu"

/* Kernels that may have all shared memory (kern/file_list.h) name none of their own: the driver
 * would refuse to set that aside beside it. */
#undef __shared__
#include "cuda/kern/attention_back.cu"
#include "cuda/kern/attention_row.cu"
#include "cuda/kern/attention_tiles.cu"
#include "cuda/kern/gemm.cu"
#include "cuda/kern/gemv.cu"
#include "cuda/kern/planes.cu"
#include "cuda/kern/tiles.cu"

dim3_of gridDim, blockDim, blockIdx;
thread_local dim3_of emulated_threadIdx;
alignas(256) unsigned char emulated_shared[256 * 1024];

namespace {

/* ---- the threads of a block ---- */

enum { MOST_THREADS = MOST_FIBERS, LANES_OF_WARP = 32, MOST_BLOCKS = 65535 /* along y and z */ };
enum { NOBODY, WARP, BLOCK };

struct fiber {
    bool done;
    int waits; /* for nobody, its warp, its block */
    dim3_of index;
};

fiber fibers[MOST_THREADS];
int current;
void (*entry)(const void *args);
const void *entry_args;
uint64_t exchanged[MOST_THREADS];
uint32_t given[2][MOST_THREADS][8]; /* in turn */
unsigned exchanges[MOST_THREADS];

/* A thread is used again by the next block. */
void run_fiber() {
    for (;;) {
        entry(entry_args);
        fibers[current].done = true;
        fiber_leave(current);
    }
}

/* Goes on with a thread until it waits, or ends. */
void resume(int i) {
    current = i;
    emulated_threadIdx = fibers[i].index;
    fiber_resume(i, run_fiber);
}

/* Lets every thread that waits for nobody go as far as it can; whether one is left. */
bool run_all(unsigned threads) {
    bool left = false;
    for (unsigned i = 0; i < threads; i++) {
        if (!fibers[i].done && fibers[i].waits == NOBODY) resume(static_cast<int>(i));
        left = left || !fibers[i].done;
    }
    return left;
}

/* Those that wait for each other go on where all of them that live do. */
void release(unsigned first, unsigned end, int scope) {
    for (unsigned i = first; i < end; i++)
        if (!fibers[i].done && fibers[i].waits != scope) return;
    for (unsigned i = first; i < end; i++)
        fibers[i].waits = NOBODY;
}

void run_block(unsigned threads) {
    for (unsigned i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        f.done = false;
        f.waits = NOBODY;
        exchanges[i] = 0;
        f.index = {i % blockDim.x, i / blockDim.x, 0};
    }
    while (run_all(threads)) {
        for (unsigned first = 0; first < threads; first += LANES_OF_WARP)
            release(first, first + LANES_OF_WARP < threads ? first + LANES_OF_WARP : threads, WARP);
        release(0, threads, BLOCK);
    }
}

/* ---- kernels ---- */

struct kernel {
    const char *name;
    size_t args_bytes;
    void (*run)(const void *args);
    unsigned most_threads; /* of a block, that it was compiled for */
    unsigned most_shared;  /* of a block, until it is set otherwise */
    uint64_t runs;
};

#define KERNEL_ROW(file, ENUM, name)                                                               \
    {#name, sizeof(args_of_##name),                                                                \
     [](const void *a) { name(*static_cast<const args_of_##name *>(a)); }, most_threads_of_##name, \
     48 * 1024},
kernel kernels[] = {
#include "cuda/kern/kernel_list.h"
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void run_grid(const kernel &k, const void *args) {
    unsigned threads = blockDim.x * blockDim.y;
    entry = k.run;
    entry_args = args;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                run_block(threads);
            }
}

} // namespace

static void wait_for(int scope) {
    fibers[current].waits = scope;
    fiber_leave(current);
    emulated_threadIdx = fibers[current].index;
}

void emulated_wait() {
    wait_for(BLOCK);
}

void emulated_sync_warp() {
    wait_for(WARP);
}

const uint32_t (*emulated_exchange(const uint32_t *mine, int n))[8] {
    int me = current;
    uint32_t(*turn)[8] = given[exchanges[me]++ % 2];
    memcpy(turn[me], mine, static_cast<size_t>(n) * sizeof *mine);
    wait_for(WARP);
    return turn + (me - me % LANES_OF_WARP);
}

template <typename T> static T shuffle(T x, int other) {
    int me = current, lane = me % LANES_OF_WARP;
    memcpy(&exchanged[me], &x, sizeof x);
    wait_for(WARP);
    T y;
    memcpy(&y, &exchanged[me - lane + (lane ^ other)], sizeof y);
    wait_for(WARP);
    return y;
}

float emulated_shuffle(float x, int other) {
    return shuffle(x, other);
}

double emulated_shuffle(double x, int other) {
    return shuffle(x, other);
}

/* ---- the driver ---- */

/* Every call counts; the n-th may fail. What lives: memory, streams, events, modules. */
static uint64_t calls, fails_at;
static int64_t living;
static bool unreachable;
static enum { THERE, LOST, LOST_FOR_GOOD } gpu;

/* Lets the n-th call from now on fail; 0: none, and a GPU that was lost is there again. */
extern "C" void emulated_fail_at(uint64_t n) {
    calls = 0;
    fails_at = n;
    gpu = THERE;
}

/* From now on every call fails, until the context is released; or for good. */
extern "C" void emulated_lose(bool for_good) {
    gpu = for_good ? LOST_FOR_GOOD : LOST;
}

extern "C" uint64_t emulated_calls() {
    return calls;
}

extern "C" int64_t emulated_living() {
    return living;
}

enum { FINE, NO_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, UNKNOWN = 999 };

static bool fails() {
    return ++calls == fails_at || gpu != THERE;
}

static int succeed() {
    return !fails() ? FINE : gpu == LOST_FOR_GOOD ? NO_DEVICE : UNKNOWN;
}

static int give(void **to, size_t bytes) {
    *to = nullptr;
    if (!fails()) *to = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*to) living++;
    return *to ? FINE : NO_MEMORY;
}

/* Frees even where it fails, for nobody can do it again. */
static int take(void *from) {
    living--;
    free(from);
    return succeed();
}

/* The GPU's memory, by its blocks, and what other processes have of it. $MICA_EMULATED_MEMORY: how
 * large it is, in bytes (default: 8 GB). */
static std::map<uint64_t, size_t> blocks;
static size_t blocks_bytes, others_bytes;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t total_bytes() {
    const char *text = getenv("MICA_EMULATED_MEMORY");
    return text ? strtoull(text, nullptr, 10) : size_t(8) << 30;
}

static size_t free_bytes() {
    size_t taken = blocks_bytes + others_bytes, total = total_bytes();
    return taken < total ? total - taken : 0;
}

/* Lets other processes have so much. */
extern "C" void emulated_take(uint64_t bytes) {
    others_bytes = bytes;
}

/* A kernel with what it takes. */
struct kernel_node {
    kernel *k;
    unsigned grid[3], block[3], shared;
    std::vector<uint64_t> args;
    explicit kernel_node(const mc_cuda_kernel_params &p)
        : k(static_cast<kernel *>(p.kernel)), shared(p.shared_bytes),
          args((k->args_bytes + 7) / 8) {
        memcpy(grid, p.grid, sizeof grid);
        memcpy(block, p.block, sizeof block);
        memcpy(args.data(), p.params[0], k->args_bytes);
    }
};
typedef std::vector<kernel_node> graph;

static bool fits(const kernel_node &n) {
    return n.block[0] * n.block[1] <= n.k->most_threads && n.block[2] == 1 &&
           n.grid[1] <= MOST_BLOCKS && n.grid[2] <= MOST_BLOCKS && n.shared <= n.k->most_shared;
}

static void run_kernel(const kernel_node &n) {
    static const char *traces = getenv("MICA_EMULATED_TRACE");
    if (traces) fprintf(stderr, "%s %u %u %u\n", n.k->name, n.grid[0], n.grid[1], n.grid[2]);
    memset(emulated_shared, 0x5a, sizeof emulated_shared); /* of anything */
    gridDim = {n.grid[0], n.grid[1], n.grid[2]};
    blockDim = {n.block[0], n.block[1], n.block[2]};
    run_grid(*n.k, n.args.data());
    n.k->runs++;
}

/* ---- streams ---- */

/* What a stream has to do, and how much it has done. */
struct stream {
    std::deque<std::function<void()>> work;
    uint64_t done;
};

/* A place in a stream. */
struct event {
    stream *of;
    uint64_t at;
};

static std::set<stream *> streams;
static std::set<const void *> pinned;
static uint64_t graphs_launched, graph_kernels;

/* Does what a stream has to do up to a place in it; the lock is held. */
static void run_to(stream *s, uint64_t at) {
    while (s->done < at && !s->work.empty()) {
        std::function<void()> next = std::move(s->work.front());
        s->work.pop_front();
        next();
        s->done++;
    }
}

static int push(void *to, std::function<void()> work) {
    if (fails()) return UNKNOWN;
    pthread_mutex_lock(&lock);
    static_cast<stream *>(to)->work.push_back(std::move(work));
    pthread_mutex_unlock(&lock);
    return FINE;
}

/* Work for a stream, of nccl.cpp. */
int emulated_push(void *stream, std::function<void()> work);
int emulated_push(void *stream, std::function<void()> work) {
    return push(stream, std::move(work));
}

/* How much there is to do, in all streams: launches and copies that nobody has waited for. */
extern "C" uint64_t emulated_pending() {
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (const stream *s : streams)
        n += s->work.size();
    pthread_mutex_unlock(&lock);
    return n;
}

/* Memory is freed when nothing may use it any more. */
static void end_all() {
    pthread_mutex_lock(&lock);
    for (stream *s : streams)
        run_to(s, UINT64_MAX);
    pthread_mutex_unlock(&lock);
}

extern "C" uint64_t emulated_graphs() {
    return graphs_launched;
}

/* How many kernels ran whose names begin like this. */
extern "C" uint64_t emulated_runs(const char *prefix) {
    uint64_t n = 0;
    for (const kernel &k : kernels)
        if (strncmp(k.name, prefix, strlen(prefix)) == 0) n += k.runs;
    return n;
}

/* Of the graph that was launched last. */
extern "C" uint64_t emulated_graph_kernels() {
    return graph_kernels;
}

static void *host_of(uint64_t address) {
    return reinterpret_cast<void *>(address);
}

extern "C" {

int cuInit(unsigned) {
    return succeed();
}
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return succeed();
}
int cuGetErrorName(int error, const char **name) {
    *name = error == NO_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
                                 : "CUDA_ERROR_UNKNOWN";
    return FINE;
}
int cuDeviceGetCount(int *count) {
    *count = 1;
    return succeed();
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return succeed();
}
int cuDeviceGetName(char *name, int size, int) {
    snprintf(name, static_cast<size_t>(size), "emulated");
    return succeed();
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == 16   ? 2 /* multiprocessors; capability 9.0; shared memory of a block */
             : attribute == 75 ? 9
             : attribute == 97 ? 227 * 1024
                               : 0;
    return succeed();
}
int cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = total_bytes();
    return succeed();
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    static int one;
    *context = &one;
    return succeed();
}
/* What could not be freed, for its context was out of reach, ends with it. */
int cuDevicePrimaryCtxRelease_v2(int) {
    int error = succeed();
    if (unreachable) {
        living = 0;
        blocks.clear();
        blocks_bytes = 0;
        streams.clear();
    }
    unreachable = false;
    if (gpu == LOST) gpu = THERE;
    return error;
}
int cuCtxPushCurrent_v2(void *) {
    if (!fails()) return FINE;
    unreachable = true;
    return UNKNOWN;
}
int cuCtxPopCurrent_v2(void **) {
    return succeed();
}
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    pthread_mutex_lock(&blocks_lock);
    *left = free_bytes();
    pthread_mutex_unlock(&blocks_lock);
    *total = total_bytes();
    return succeed();
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *host = nullptr;
    pthread_mutex_lock(&blocks_lock);
    bool fits = bytes <= free_bytes();
    int error = fits ? give(&host, bytes) : fails() ? UNKNOWN : NO_MEMORY;
    *address = reinterpret_cast<uintptr_t>(host);
    if (!error) blocks_bytes += blocks[*address] = bytes;
    pthread_mutex_unlock(&blocks_lock);
    return error;
}
int cuMemFree_v2(uint64_t address) {
    end_all();
    pthread_mutex_lock(&blocks_lock);
    blocks_bytes -= blocks[address];
    blocks.erase(address);
    pthread_mutex_unlock(&blocks_lock);
    return take(host_of(address));
}
int cuMemHostAlloc(void **host, size_t bytes, unsigned) {
    int error = give(host, bytes);
    if (!error) pinned.insert(*host);
    return error;
}
int cuMemFreeHost(void *host) {
    end_all();
    pinned.erase(host);
    return take(host);
}
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned) {
    *address = reinterpret_cast<uintptr_t>(host);
    return succeed();
}
/* Memory of the host is read at once, but where it is pinned. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *on) {
    const char *data = static_cast<const char *>(from);
    if (pinned.count(from)) return push(on, [=] { memcpy(host_of(to), from, bytes); });
    std::vector<char> staged(data, data + bytes);
    return push(on, [=] { memcpy(host_of(to), staged.data(), bytes); });
}
/* Into memory that is not pinned, which the caller may free whatever becomes of the wait, the
 * driver has copied when it returns. */
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *on) {
    int error = push(on, [=] { memcpy(to, host_of(from), bytes); });
    pthread_mutex_lock(&lock);
    if (!error && !pinned.count(to)) run_to(static_cast<stream *>(on), UINT64_MAX);
    pthread_mutex_unlock(&lock);
    return error;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *on) {
    return push(on, [=] { memcpy(host_of(to), host_of(from), bytes); });
}
int cuStreamCreate(void **made, unsigned) {
    int error = give(made, sizeof(stream));
    if (error) return error;
    pthread_mutex_lock(&lock);
    streams.insert(new (*made) stream());
    pthread_mutex_unlock(&lock);
    return FINE;
}
int cuStreamDestroy_v2(void *of) {
    stream *s = static_cast<stream *>(of);
    pthread_mutex_lock(&lock);
    run_to(s, UINT64_MAX);
    streams.erase(s);
    pthread_mutex_unlock(&lock);
    s->~stream();
    return take(of);
}
int cuStreamSynchronize(void *of) {
    if (fails()) return UNKNOWN;
    pthread_mutex_lock(&lock);
    run_to(static_cast<stream *>(of), UINT64_MAX);
    pthread_mutex_unlock(&lock);
    return FINE;
}
int cuStreamWaitEvent(void *of, void *on, unsigned) {
    event e = *static_cast<event *>(on);
    return push(of, [=] {
        if (e.of) run_to(e.of, e.at);
    });
}
int cuEventCreate(void **made, unsigned) {
    int error = give(made, sizeof(event));
    if (!error) new (*made) event();
    return error;
}
int cuEventDestroy_v2(void *of) {
    return take(of);
}
int cuEventRecord(void *of, void *on) {
    if (fails()) return UNKNOWN;
    stream *s = static_cast<stream *>(on);
    pthread_mutex_lock(&lock);
    *static_cast<event *>(of) = {s, s->done + s->work.size()};
    pthread_mutex_unlock(&lock);
    return FINE;
}
int cuEventSynchronize(void *of) {
    if (fails()) return UNKNOWN;
    pthread_mutex_lock(&lock);
    event e = *static_cast<event *>(of);
    if (e.of) run_to(e.of, e.at);
    pthread_mutex_unlock(&lock);
    return FINE;
}
int cuEventQuery(void *of) { /* where it is not over, it is now */
    return cuEventSynchronize(of);
}
int cuEventElapsedTime_v2(float *milliseconds, void *, void *) {
    *milliseconds = 0;
    return succeed();
}
int cuModuleLoadData(void **module, const void *) {
    return give(module, 1);
}
int cuModuleUnload(void *module) {
    return take(module);
}
int cuModuleGetFunction(void **function, void *, const char *name) {
    if (fails()) return UNKNOWN;
    for (kernel &k : kernels) {
        if (strcmp(k.name, name) != 0) continue;
        *function = &k;
        return FINE;
    }
    return NOT_FOUND;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    if (fails()) return UNKNOWN;
    if (attribute == 9) return value <= 100 ? FINE : UNKNOWN;
    if (attribute != 8 || value > 227 * 1024) return UNKNOWN;
    static_cast<kernel *>(function)->most_shared = static_cast<unsigned>(value);
    return FINE;
}
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void *on,
                   void **params, void **) {
    kernel_node n({function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared,
                   params,
                   nullptr,
                   nullptr,
                   nullptr});
    return fits(n) ? push(on, [=] { run_kernel(n); }) : UNKNOWN;
}
int cuGraphCreate(void **made, unsigned) {
    int error = give(made, sizeof(graph));
    if (!error) new (*made) graph();
    return error;
}
int cuGraphDestroy(void *of) {
    static_cast<graph *>(of)->~graph();
    return take(of);
}
/* A node is the number of the kernel, from 1 on, in a line: each waits for the one before it. */
int cuGraphAddNode_v2(void **node, void *of, void *const *before, const mc_cuda_edge *edges,
                      size_t n_before, mc_cuda_node_params *params) {
    graph *g = static_cast<graph *>(of);
    size_t n = g->size();
    if (fails() || params->type != 0 || n_before != (n > 0) || (edges && edges->type != 1) ||
        (n > 0 && before[0] != reinterpret_cast<void *>(n)))
        return UNKNOWN;
    g->push_back(kernel_node(params->as.kernel));
    *node = reinterpret_cast<void *>(n + 1);
    return FINE;
}
int cuGraphInstantiateWithFlags(void **exec, void *of, uint64_t) {
    int error = give(exec, sizeof(graph));
    if (!error) new (*exec) graph(*static_cast<graph *>(of));
    return error;
}
int cuGraphExecDestroy(void *exec) {
    return cuGraphDestroy(exec);
}
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const mc_cuda_kernel_params *params) {
    graph *g = static_cast<graph *>(exec);
    size_t n = reinterpret_cast<uintptr_t>(node);
    if (fails() || n < 1 || n > g->size()) return UNKNOWN;
    (*g)[n - 1] = kernel_node(*params);
    return FINE;
}
int cuGraphLaunch(void *exec, void *on) {
    const graph nodes = *static_cast<graph *>(exec);
    for (const kernel_node &n : nodes)
        if (!fits(n)) return UNKNOWN;
    graphs_launched++;
    graph_kernels = nodes.size();
    return push(on, [=] {
        if (getenv("MICA_EMULATED_TRACE")) fprintf(stderr, "a graph\n");
        for (const kernel_node &n : nodes)
            run_kernel(n);
    });
}
}

/* A CUDA driver that runs mica's kernels on the processor, for machines without a GPU: a library
 * that MICA_CUDA_LIBRARY names. It knows the kernels by their names, compiled here as C++, and no
 * others; MICA_EMULATED_TRACE prints them as they run. What is started is computed before the call
 * returns; the threads of a block take turns, each until it waits for the others. */
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <new>
#include <vector>

#include "cuda/driver.h"

#include "emulation.h"

#include "cuda/kern/attention.cu"
#include "cuda/kern/attention_row.cu"
#include "cuda/kern/attention_tiles.cu"
#include "cuda/kern/elements.cu"
#include "cuda/kern/gated.cu"
#include "cuda/kern/gemm.cu"
#include "cuda/kern/heads.cu"
#include "cuda/kern/matmul.cu"
#include "cuda/kern/move.cu"
#include "cuda/kern/norms.cu"
#include "cuda/kern/planes.cu"
#include "cuda/kern/rows.cu"
#include "cuda/kern/tiles.cu"
#include "cuda/kern/topk.cu"

dim3_of gridDim, blockDim, blockIdx;
thread_local dim3_of emulated_threadIdx;
alignas(256) unsigned char emulated_shared[256 * 1024];

namespace {

/* ---- the threads of a block ---- */

enum { MOST_THREADS = 1024, STACK = 64 * 1024, LANES_OF_WARP = 32 };
enum { NOBODY, WARP, BLOCK };

struct fiber {
    ucontext_t context;
    jmp_buf at;
    bool started, done;
    int waits; /* for nobody, its warp, its block */
    dim3_of index;
    char *stack;
};

fiber fibers[MOST_THREADS];
jmp_buf scheduler;
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
        if (_setjmp(fibers[current].at) == 0) _longjmp(scheduler, 1);
    }
}

/* A stack, on which the thread begins. */
void start(fiber &f) {
    f.started = true;
    f.stack = static_cast<char *>(malloc(STACK));
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = STACK;
    makecontext(&f.context, run_fiber, 0);
    setcontext(&f.context);
}

/* Goes on with a thread until it waits, or ends. */
void resume(int i) {
    fiber &f = fibers[i];
    current = i;
    emulated_threadIdx = f.index;
    if (_setjmp(scheduler) != 0) return;
    if (f.started) _longjmp(f.at, 1);
    start(f);
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
    unsigned most_shared; /* of a block, until it is set otherwise */
};

#define KERNEL_ROW(file, ENUM, name) \
    {#name, sizeof(args_of_##name),  \
     [](const void *a) { name(*static_cast<const args_of_##name *>(a)); }, 48 * 1024},
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
    if (_setjmp(fibers[current].at) == 0) _longjmp(scheduler, 1);
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

/* Lets the n-th call from now on fail; 0: none. */
extern "C" void emulated_fail_at(uint64_t n) {
    calls = 0;
    fails_at = n;
}

extern "C" uint64_t emulated_calls() {
    return calls;
}

extern "C" int64_t emulated_living() {
    return living;
}

enum { FINE, NO_MEMORY = 2, NOT_FOUND = 500, UNKNOWN = 999 };

static bool fails() {
    return ++calls == fails_at;
}

static int succeed() {
    return fails() ? UNKNOWN : FINE;
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

static int copy(void *to, const void *from, size_t bytes) {
    if (fails()) return UNKNOWN;
    memcpy(to, from, bytes);
    return FINE;
}

static int run_kernel(const kernel *k, const unsigned *grid, const unsigned *block, unsigned shared,
                      const void *args) {
    static const char *traces = getenv("MICA_EMULATED_TRACE");
    if (block[0] * block[1] > MOST_THREADS || block[2] != 1 || shared > k->most_shared)
        return UNKNOWN;
    if (traces) fprintf(stderr, "%s %u %u %u\n", k->name, grid[0], grid[1], grid[2]);
    pthread_mutex_lock(&lock);
    memset(emulated_shared, 0x5a, sizeof emulated_shared); /* of anything */
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    run_grid(*k, args);
    pthread_mutex_unlock(&lock);
    return FINE;
}

/* A kernel in a graph, with what it takes. */
struct kernel_node {
    const kernel *k;
    unsigned grid[3], block[3], shared;
    std::vector<uint64_t> args;
    explicit kernel_node(const mc_cuda_kernel_params &p)
        : k(static_cast<const kernel *>(p.kernel)), shared(p.shared_bytes),
          args((k->args_bytes + 7) / 8) {
        memcpy(grid, p.grid, sizeof grid);
        memcpy(block, p.block, sizeof block);
        memcpy(args.data(), p.params[0], k->args_bytes);
    }
};
typedef std::vector<kernel_node> graph;

static uint64_t graphs_launched;

extern "C" uint64_t emulated_graphs() {
    return graphs_launched;
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
    *name = error == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
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
    *bytes = size_t(8) << 30;
    return succeed();
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    static int one;
    *context = &one;
    return succeed();
}
/* What could not be freed, for its context was out of reach, ends with it. */
int cuDevicePrimaryCtxRelease_v2(int) {
    if (unreachable) living = 0;
    unreachable = false;
    return succeed();
}
int cuCtxPushCurrent_v2(void *) {
    if (!fails()) return FINE;
    unreachable = true;
    return UNKNOWN;
}
int cuCtxPopCurrent_v2(void **) {
    return succeed();
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *free_bytes = *total = size_t(8) << 30;
    return succeed();
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *host;
    int error = give(&host, bytes);
    *address = reinterpret_cast<uintptr_t>(host);
    return error;
}
int cuMemFree_v2(uint64_t address) {
    return take(host_of(address));
}
int cuMemHostAlloc(void **host, size_t bytes, unsigned) {
    return give(host, bytes);
}
int cuMemFreeHost(void *host) {
    return take(host);
}
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned) {
    *address = reinterpret_cast<uintptr_t>(host);
    return succeed();
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
    return copy(host_of(to), from, bytes);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
    return copy(to, host_of(from), bytes);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *) {
    return copy(host_of(to), host_of(from), bytes);
}
int cuStreamCreate(void **stream, unsigned) {
    return give(stream, 1);
}
int cuStreamDestroy_v2(void *stream) {
    return take(stream);
}
int cuStreamSynchronize(void *) {
    return succeed();
}
int cuEventCreate(void **event, unsigned) {
    return give(event, 1);
}
int cuEventDestroy_v2(void *event) {
    return take(event);
}
int cuEventRecord(void *, void *) {
    return succeed();
}
int cuEventSynchronize(void *) {
    return succeed();
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
    if (fails() || attribute != 8 || value > 227 * 1024) return UNKNOWN;
    static_cast<kernel *>(function)->most_shared = static_cast<unsigned>(value);
    return FINE;
}
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void *,
                   void **params, void **) {
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    if (fails()) return UNKNOWN;
    return run_kernel(static_cast<const kernel *>(function), grid, block, shared, params[0]);
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
int cuGraphAddNode_v2(void **node, void *of, void *const *before, const void *edges,
                      size_t n_before, mc_cuda_node_params *params) {
    graph *g = static_cast<graph *>(of);
    size_t n = g->size();
    if (fails() || params->type != 0 || n_before != (n > 0) || edges ||
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
int cuGraphLaunch(void *exec, void *) {
    if (fails()) return UNKNOWN;
    graphs_launched++;
    if (getenv("MICA_EMULATED_TRACE")) fprintf(stderr, "a graph\n");
    for (const kernel_node &n : *static_cast<graph *>(exec)) {
        int error = run_kernel(n.k, n.grid, n.block, n.shared, n.args.data());
        if (error) return error;
    }
    return FINE;
}
}

/* The cuda backend: NVIDIA's GPUs, through the driver alone. Its executables are plans of steps
 * (exec/steps/steps.h), each of which starts kernels on the device's stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cuda/cuda.h"
#include "cuda/image.h"
#include "cuda/nccl.h"
#include "cuda/profile.h"
#include "exec/steps/steps.h"
#include "graph/attr.h"

typedef struct step_row {
    mc_kernel kernel;
    mc_cuda_supports supports;
} step_row;

static const step_row step_table[MC_OP_COUNT] = {
    [MC_OP_LEAF] = {NULL, NULL}, /* data, which never runs, as PART is */
#define STEP(op, function, supports) [MC_OP_##op] = {function, supports},
#include "cuda/step_list.h"
};

/* ---- opening ---- */

/* $OMPI_COMM_WORLD_LOCAL_RANK, $MPI_LOCALRANKID, $SLURM_LOCALID, $LOCAL_RANK: set by mpirun, srun
 * and torchrun: this process's number on its machine: which GPU `cuda` is (default: the first) */
static const char *const places[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                     "SLURM_LOCALID", "LOCAL_RANK"};

/* The GPU of a process that does not name one: processes of one job have one each. */
static long own_gpu(int count) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *place = getenv(places[i]);
        long n = place ? strtol(place, NULL, 10) : -1;
        if (n >= 0 && count > 0) return n % count;
    }
    return 0;
}

/* The GPU that a variant names: "" for the process's own, else its number. */
static mica_status find_device(const char *variant, int *device) {
    int count = 0;
    char *end = NULL;
    MC_TRY(mc_cuda_load());
    MC_TRY(mc_cuda_check(mc_cuda.device_count(&count), "the GPUs"));
    long n = variant[0] == '\0' ? own_gpu(count) : strtol(variant, &end, 10);
    if (n < 0 || n >= count || (end && *end != '\0'))
        return mc_fail(MICA_EDEVICE, "cuda: there is no \"cuda:%s\"; there are %d, from cuda:0 on",
                       variant, count);
    *device = (int)n;
    return MICA_OK;
}

static mica_status check_kernels(void) {
    const char *named = getenv("MICA_CUDA_LIBRARY");
    if (mc_cuda_images[0].is_there || (named && named[0] != '\0')) return MICA_OK;
    return mc_fail(MICA_EDEVICE, "cuda: this mica was built without the kernels for NVIDIA's GPUs: "
                                 "run `tools/setup-cuda` and build it again");
}

static mica_status cuda_available(const char *variant) {
    int device;
    MC_TRY(check_kernels());
    return find_device(variant, &device);
}

/* A block of a kernel may have all shared memory of a multiprocessor, which is set aside for them:
 * the next one's begins beside it. */
static int set_shared(const mc_cuda_state *st, void *kernel) {
    int error = mc_cuda.kernel_set(kernel, MC_CUDA_KERNEL_MAX_SHARED, st->shared_bytes);
    return error ? error : mc_cuda.kernel_set(kernel, MC_CUDA_KERNEL_CARVEOUT, 100);
}

static mica_status load_kernels(mc_cuda_state *st) {
    static const struct {
        mc_cuda_file file;
        const char *name;
    } kernels[] = {
#define KERNEL_ROW(file, ENUM, name) {MC_CUDA_FILE_##file, #name},
#include "cuda/kern/kernel_list.h"
    };
    int error = 0;
    for (int i = 0; i < MC_CUDA_FILES && !error; i++)
        error = mc_cuda.module_load(&st->modules[i], mc_cuda_images[i].bytes);
    for (int i = 0; i < MC_CUDA_KERNELS && !error; i++)
        error =
            mc_cuda.module_kernel(&st->kernels[i], st->modules[kernels[i].file], kernels[i].name);
    for (int i = 0; i < MC_CUDA_KERNELS && !error; i++)
        if (mc_cuda_images[kernels[i].file].takes_shared) error = set_shared(st, st->kernels[i]);
    return mc_cuda_check(error, "loading its kernels");
}

static mica_status describe(mc_cuda_state *st) {
    int major = 0, minor = 0;
    char name[96] = "";
    MC_TRY(mc_cuda_check(mc_cuda.device_name(name, (int)sizeof name, st->device), "a GPU's name"));
    MC_TRY(mc_cuda_check(mc_cuda.device_memory(&st->memory_bytes, st->device), "a GPU's memory"));
    (void)mc_cuda.device_attribute(&major, MC_CUDA_CAPABILITY_MAJOR, st->device);
    (void)mc_cuda.device_attribute(&minor, MC_CUDA_CAPABILITY_MINOR, st->device);
    (void)mc_cuda.device_attribute(&st->multiprocessors, MC_CUDA_MULTIPROCESSORS, st->device);
    (void)mc_cuda.device_attribute(&st->shared_bytes, MC_CUDA_SHARED_OF_BLOCK, st->device);
    if (st->multiprocessors < 1) st->multiprocessors = 1;
    st->has_wgmma = major == 9;
    /* $MICA_CUDA_GRAPHS: off: launches are not kept as graphs */
    const char *graphs = getenv("MICA_CUDA_GRAPHS");
    st->keeps_graphs = !graphs || strcmp(graphs, "off") != 0;
    (void)snprintf(st->name, sizeof st->name, "cuda:%d", st->device);
    (void)snprintf(st->description, sizeof st->description, "%s", name);
    (void)snprintf(st->architecture, sizeof st->architecture, "sm_%d%d", major, minor);
    return MICA_OK;
}

static void cuda_close(void *own) {
    mc_cuda_state *st = own;
    if (!st) return;
    bool entered = st->context && mc_cuda_enter(st) == 0;
    if (st->context) { /* of a GPU that is lost, the driver frees nothing, and what is here goes */
        if (st->stream) (void)mc_cuda.stream_wait(st->stream);
        mc_cuda_comms_free(st);
        mc_cuda_launches_free(st);
        mc_cuda_buffers_free(st);
        mc_cuda_profile_close(st->profile);
        if (st->done) (void)mc_cuda.free(st->done);
        for (int i = 0; i < st->n_rates; i++)
            (void)mc_cuda.free(st->rates[i].address);
        for (int i = 0; i < MC_CUDA_FILES; i++)
            if (st->modules[i]) (void)mc_cuda.module_unload(st->modules[i]);
        if (st->copied) (void)mc_cuda.event_free(st->copied);
        if (st->reads) (void)mc_cuda.stream_free(st->reads);
        if (st->stream) (void)mc_cuda.stream_free(st->stream);
    }
    if (entered) mc_cuda_leave();
    if (st->context) (void)mc_cuda.context_release(st->device);
    (void)pthread_mutex_destroy(&st->upload_lock);
    (void)pthread_mutex_destroy(&st->lock);
    mc_free(st);
}

static mica_status make_counters(mc_cuda_state *st) {
    static const uint32_t zeros[MC_CUDA_DONE] = {0};
    int error = mc_cuda.alloc(&st->done, sizeof zeros);
    if (!error) error = mc_cuda.to_device(st->done, zeros, sizeof zeros, st->stream);
    return mc_cuda_check(error, "opening the GPU");
}

static mica_status open_context(mc_cuda_state *st) {
    MC_TRY(mc_cuda_check(mc_cuda.context_retain(&st->context, st->device), "opening the GPU"));
    MC_TRY(mc_cuda_check(mc_cuda_enter(st), "opening the GPU"));
    int error = mc_cuda.stream_new(&st->stream, MC_CUDA_STREAM_NON_BLOCKING);
    if (!error) error = mc_cuda.stream_new(&st->reads, MC_CUDA_STREAM_NON_BLOCKING);
    if (!error) error = mc_cuda.event_new(&st->copied, MC_CUDA_EVENT_UNTIMED);
    mica_status status = mc_cuda_check(error, "opening the GPU");
    if (status == MICA_OK) status = load_kernels(st);
    if (status == MICA_OK) status = make_counters(st);
    if (status == MICA_OK) mc_cuda_profile_open(&st->profile);
    if (st->profile) st->keeps_graphs = false;
    mc_cuda_leave();
    return status;
}

static mica_status cuda_open(const mica_device_options *options, const char *variant, void **own) {
    int device;
    (void)options;
    *own = NULL;
    MC_TRY(check_kernels());
    MC_TRY(find_device(variant, &device));
    mc_cuda_state *st = mc_calloc(1, sizeof *st);
    if (!st) return mc_fail_nomem("the cuda device");
    (void)pthread_mutex_init(&st->lock, NULL);
    (void)pthread_mutex_init(&st->upload_lock, NULL);
    st->device = device;
    mica_status status = describe(st);
    if (status == MICA_OK) status = open_context(st);
    if (status != MICA_OK) {
        cuda_close(st);
        return status;
    }
    *own = st;
    return MICA_OK;
}

static void cuda_info(const void *own, mica_device_info *info) {
    const mc_cuda_state *st = own;
    *info = (mica_device_info){
        .name = st->name,
        .description = st->description,
        .architecture = st->architecture,
        .threads = 1,
        .memory_bytes = st->memory_bytes,
    };
}

/* ---- memory ---- */

static void *cuda_alloc(void *own, size_t bytes) {
    uint64_t address = 0;
    if (mc_cuda_enter(own) != 0) return NULL;
    int error = mc_cuda.alloc(&address, bytes);
    mc_cuda_leave();
    return error ? NULL : (void *)(uintptr_t)address;
}

/* The driver waits for what uses the memory. */
static void cuda_free(void *own, void *address, size_t bytes) {
    (void)bytes;
    if (mc_cuda_enter(own) != 0) return;
    (void)mc_cuda.free((uint64_t)(uintptr_t)address);
    mc_cuda_leave();
}

/* Freeing waits for the device, so most of what it has is kept. */
static uint64_t cuda_cache_bytes(const void *own) {
    return ((const mc_cuda_state *)own)->memory_bytes / 4;
}

static uint64_t cuda_free_bytes(const void *own) {
    size_t free_bytes = 0, total = 0;
    if (mc_cuda_enter(own) != 0) return UINT64_MAX;
    int error = mc_cuda.memory_info(&free_bytes, &total);
    mc_cuda_leave();
    return error ? UINT64_MAX : free_bytes;
}

static int read_by(void *stream, void *to, const void *from, size_t bytes) {
    int error = mc_cuda.to_host(to, (uint64_t)(uintptr_t)from, bytes, stream);
    return error ? error : mc_cuda.stream_wait(stream);
}

static int copy_on_stream(mc_cuda_state *st, mc_direction direction, char *to, const char *from,
                          size_t bytes) {
    int error;
    if (direction == MC_TO_HOST) return read_by(st->stream, to, from, bytes);
    if (direction == MC_TO_DEVICE)
        error = mc_cuda_upload(st, (uint64_t)(uintptr_t)to, from, bytes);
    else
        error =
            mc_cuda.within((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, st->stream);
    return error ? error : mc_cuda.event_record(st->copied, st->stream);
}

static mica_status cuda_copy(void *own, mc_direction direction, void *to, size_t to_offset,
                             const void *from, size_t from_offset, size_t bytes) {
    int error = mc_cuda_enter(own);
    if (error) return mc_cuda_check(error, "a copy");
    error = copy_on_stream(own, direction, (char *)to + to_offset, (const char *)from + from_offset,
                           bytes);
    mc_cuda_leave();
    return mc_cuda_check(error, "a copy");
}

/* What a copy left may still be on its way. */
static mica_status cuda_read_ended(void *own, void *to, const void *from, size_t from_offset,
                                   size_t bytes) {
    const mc_cuda_state *st = own;
    int error = mc_cuda_enter(st);
    if (error) return mc_cuda_check(error, "a copy");
    error = mc_cuda.stream_wait_event(st->reads, st->copied, 0);
    if (!error) error = read_by(st->reads, to, (const char *)from + from_offset, bytes);
    mc_cuda_leave();
    return mc_cuda_check(error, "a copy");
}

/* ---- steps ---- */

static bool is_collective(mc_op op) {
    return step_table[op].kernel == mc_cuda_collect;
}

/* Codes, scales and biases are read by rows. */
static uint32_t dense_operands(mc_op op) {
    if (op == MC_OP_QUANTIZED_MATMUL || op == MC_OP_GATHER_QMM) return 2 | 4 | 8;
    if (is_collective(op)) return 1;
    return op == MC_OP_DEQUANTIZE ? 1 | 2 | 4 : 0;
}

static mc_support cuda_supports_op(const void *own, mc_op op, const void *attr,
                                   const mc_layout *const *in, int n_in, const mc_layout *out,
                                   int n_out) {
    const step_row *row = &step_table[op];
    mc_support support = {.yes = row->kernel || mc_cuda_element_row(op) >= 0};
    (void)n_out;
    if (is_collective(op)) support.yes = mc_cuda_has_group(own, attr);
    if (!support.yes || !in) return support;
    support.yes = row->kernel ? row->supports(attr, in, n_in, out)
                              : mc_cuda_supports_any(attr, in, n_in, out);
    support.dense = dense_operands(op);
    return support;
}

static mc_kernel find_step(const void *own, mc_op op, const void *attr, const mc_layout *const *in,
                           int n_in, const mc_layout *out, int n_out) {
    (void)own, (void)attr, (void)in, (void)n_in, (void)out, (void)n_out;
    return step_table[op].kernel ? step_table[op].kernel : mc_cuda_run_elements;
}

/* Matmuls of one x follow each other, and what is between them can be a chain. */
static mc_joint joint_of(const void *own, mc_op op) {
    (void)own;
    return op == MC_OP_QUANTIZED_MATMUL || op == MC_OP_MATMUL || op == MC_OP_GATHER_MM ||
                   op == MC_OP_GATHER_QMM
               ? MC_JOINT_FIRST
               : MC_JOINT_NONE;
}

static bool takes_memory(const void *own, mc_op op) {
    (void)own;
    static const bool takes[MC_OP_COUNT] = {
        [MC_OP_SDPA] = true,         [MC_OP_SDPA_LSE] = true,  [MC_OP_PAGED_SDPA] = true,
        [MC_OP_MAX] = true,          [MC_OP_MIN] = true,       [MC_OP_ARGMAX] = true,
        [MC_OP_ARGMIN] = true,       [MC_OP_MATMUL] = true,    [MC_OP_QUANTIZED_MATMUL] = true,
        [MC_OP_TOPK_INDICES] = true, [MC_OP_GATHER_MM] = true, [MC_OP_GATHER_QMM] = true,
    };
    return takes[op];
}

static const mc_step_ops steps = {
    .begin = mc_cuda_begin,
    .end = mc_cuda_end,
    .repeat = mc_cuda_repeat,
    .forget = mc_cuda_forget,
    .kept_bytes = mc_cuda_kept_bytes,
    .find = find_step,
    .joint = joint_of,
    .rows = mc_cuda_rows,
    .enough_rows = mc_cuda_enough_rows,
    .chain = mc_cuda_run_chain,
    .takes_memory = takes_memory,
    .long_row = 32768, /* about as long as a kernel takes to start */
};

static mica_status cuda_compile(mica_device *device, mc_lowered *graph,
                                mc_executable **executable) {
    return mc_steps_compile(device, &steps, graph, executable);
}

const mc_backend mc_backend_cuda = {
    .name = "cuda",
    .late = true,
    .keys_together = MC_CUDA_PART,
    .prompt_tokens = 2048,
    .available = cuda_available,
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .cache_bytes = cuda_cache_bytes,
    .free_bytes = cuda_free_bytes,
    .copy = cuda_copy,
    .read_ended = cuda_read_ended,
    .supports = cuda_supports_op,
    .compile = cuda_compile,
    .discard = mc_steps_discard,
    .measure = mc_steps_measure,
    .launch = mc_steps_launch,
    .wait = mc_cuda_wait,
    .join = mc_cuda_join,
};

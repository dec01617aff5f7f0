/* The cpu backend: opens a pool and chooses kernels. Ops run by the table of eval_list.h. */
#include "cpu/cpu.h"
#include "cpu/fft_tables.h"

#include "base/alloc.h"
#include "base/system.h"
#include "cpu/attention.h"
#include "cpu/eval.h"
#include "cpu/eval_chain.h"
#include "cpu/kern/ahead.h"
#include "cpu/kern/whole.h"
#include "cpu/matmul.h"
#include "cpu/quant.h"
#include "exec/steps/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u
/* bytes from which an array gets its own pages, outside the heap */
#define PAGES_FROM ((size_t)1 << 20)

/* What *state points to. cpu is first, so that mc_cpu_of finds it. */
typedef struct cpu_state {
    mc_cpu cpu;
    mk_kernels kernels;
} cpu_state;

static const mc_kernel eval_table[MC_OP_COUNT] = {
    [MC_OP_LEAF] = NULL, /* data, which never runs, as PART is */
#define EVAL(op, fn) [MC_OP_##op] = fn,
#define STAGE(op, fn, by_row)
#include "cpu/eval_list.h"
};

/* A build for one machine has no kernels that its processor does not need. */
static mica_status check_whole(mk_isa isa) {
    if (mk_isa_whole(isa)) return MICA_OK;
    return mc_fail(MICA_EDEVICE,
                   "cpu: this build, for another machine alone, left out kernels of %s; `make` "
                   "builds all",
                   mk_isa_name(isa));
}

/* Chooses the instruction set that MICA_CPU names; if it is unset, the best one. */
static mica_status choose_isa(mk_isa *isa) {
    /* $MICA_CPU: the set of kernels, as `mica devices` names it: ref, avx2, avx512, neon ...
     * (default: the best that the machine has) */
    const char *wanted = getenv("MICA_CPU");
    *isa = mk_isa_best();
    if (!wanted || wanted[0] == '\0') return check_whole(*isa);
    for (int i = 0; i < MK_ISA_COUNT; i++) {
        if (strcmp(wanted, mk_isa_name((mk_isa)i)) != 0) continue;
        if (!mk_isa_has((mk_isa)i))
            return mc_fail(MICA_EDEVICE,
                           "cpu: MICA_CPU is %s, which this machine cannot run; the "
                           "best it can is %s",
                           wanted, mk_isa_name(*isa));
        *isa = (mk_isa)i;
        return check_whole(*isa);
    }
    return mc_fail(MICA_EDEVICE, "cpu: MICA_CPU is %s, which is no instruction set that mica knows:"
#define ISA(name) " " #name
#include "cpu/kern/isa_list.h"
                   ,
                   wanted);
}

/* How far ahead kernels prefetch, in bytes, if MICA_AHEAD says it. */
static mica_status choose_ahead(void) {
    /* $MICA_AHEAD: bytes that kernels prefetch ahead (default: what the processor is known for) */
    const char *wanted = getenv("MICA_AHEAD");
    if (!wanted || wanted[0] == '\0') {
        mk_ahead_set(0);
        return MICA_OK;
    }
    char *end;
    long bytes = strtol(wanted, &end, 10);
    if (*end != '\0' || bytes < MK_AHEAD_MIN || bytes > MK_AHEAD_MAX)
        return mc_fail(MICA_EINVAL, "cpu: MICA_AHEAD is %s: must be %d to %d, in bytes", wanted,
                       MK_AHEAD_MIN, MK_AHEAD_MAX);
    mk_ahead_set(bytes);
    return MICA_OK;
}

static void describe(mc_cpu *cpu) {
    char name[64];
    mk_cpu_name(name);
    (void)snprintf(cpu->description, sizeof cpu->description, "%s, %d thread%s", name, cpu->threads,
                   cpu->threads == 1 ? "" : "s");
}

static void cpu_close(void *state) {
    if (!state) return;
    cpu_state *st = state;
    mc_pool_close(&st->cpu.pool);
    mc_fft_cache_close(&st->cpu.fft);
    mc_free(st);
}

static mica_status check_variant(const char *variant) {
    if (variant[0] == '\0') return MICA_OK;
    return mc_fail(MICA_EDEVICE, "cpu: the device has no variants, and so no \"%s\"", variant);
}

static mica_status cpu_available(const char *variant) {
    mk_isa isa;
    MC_TRY(check_variant(variant));
    return choose_isa(&isa);
}

static mica_status cpu_open(const mica_device_options *options, const char *variant, void **state) {
    *state = NULL;
    MC_TRY(check_variant(variant));
    int threads = options ? options->threads : 0;
    if (threads < 0) return mc_fail(MICA_EINVAL, "cpu: %d threads; 0 takes all cores", threads);
    mk_isa isa;
    MC_TRY(choose_isa(&isa));
    MC_TRY(choose_ahead());
    cpu_state *st = mc_calloc(1, sizeof *st);
    if (!st) return mc_fail_nomem("the cpu device");
    mk_kernels_fill(&st->kernels, isa);
    st->cpu.kern = &st->kernels;
    st->cpu.threads = threads > 0 ? threads : mc_core_count();
    mica_status status = mc_pool_open(st->cpu.threads, &st->cpu.pool);
    if (status == MICA_OK) status = mc_fft_cache_open(&st->cpu.fft);
    if (status != MICA_OK) {
        cpu_close(st);
        return status;
    }
    describe(&st->cpu);
    *state = st;
    return MICA_OK;
}

static void cpu_info(const void *state, mica_device_info *info) {
    const cpu_state *st = state;
    *info = (mica_device_info){
        .name = "cpu",
        .description = st->cpu.description,
        .architecture = mk_isa_name(st->kernels.isa),
        .threads = st->cpu.threads,
        .memory_bytes = mc_memory_bytes(),
        .unified_memory = 1,
    };
}

static void *cpu_alloc(void *state, size_t bytes) {
    (void)state;
    return bytes < PAGES_FROM ? mc_aligned_alloc(ALIGNMENT, bytes) : mc_pages_alloc(bytes);
}

static void cpu_free(void *state, void *data, size_t bytes) {
    (void)state;
    if (bytes < PAGES_FROM)
        mc_free(data);
    else
        mc_pages_free(data, bytes);
}

/* More than the temporaries of most decode steps, less than buffers that were outgrown. */
static uint64_t cpu_cache_bytes(const void *state) {
    (void)state;
    return UINT64_C(32) << 20;
}

/* An array of the host is one of the device. */
static mica_status cpu_adopt(void *state, const void *host, size_t bytes, void **address) {
    (void)state;
    (void)bytes;
    *address = (void *)(uintptr_t)host; /* only ever read */
    return MICA_OK;
}

static mica_status cpu_copy(void *state, mc_direction direction, void *to, size_t to_offset,
                            const void *from, size_t from_offset, size_t bytes) {
    (void)state;
    (void)direction;
    memcpy((char *)to + to_offset, (const char *)from + from_offset, bytes);
    return MICA_OK;
}

static mc_support cpu_supports(const void *state, mc_op op, const void *attr,
                               const mc_layout *const *in, int n_in, const mc_layout *out,
                               int n_out) {
    (void)state;
    (void)attr;
    mc_support support = {.yes = eval_table[op] || mc_is_stage(op)};
    if (!in) return support;
    if (op == MC_OP_QUANTIZED_MATMUL || op == MC_OP_GATHER_QMM)
        support.dense = mc_quant_dense_operands(in, n_in, MC_QUANT_CODES);
    if (op == MC_OP_INTEGER_MATMUL || op == MC_OP_INTEGER_CONV)
        support.dense = MC_DENSE_REST | (MC_DENSE_REST - 1);
    bool attends = op == MC_OP_SDPA_LSE || op == MC_OP_SDPA_GRADIENT;
    for (int i = 0; attends && i < n_out; i++)
        if (mc_layout_size(&out[i]) == 0) support.yes = false; /* the kernels divide by sizes */
    if (op == MC_OP_DEQUANTIZE) support.dense = mc_quant_dense_operands(in, n_in, 0);
    return support;
}

static mica_status cpu_wait(void *state, mc_fence fence) {
    (void)state;
    (void)fence; /* launches are over when they return */
    return MICA_OK;
}

static mc_kernel cpu_find(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out, int n_out) {
    (void)state;
    (void)attr;
    (void)in;
    (void)n_in;
    (void)out;
    (void)n_out;
    return !eval_table[op] && mc_is_stage(op) ? mc_eval_chain : eval_table[op];
}

static mc_kernel_choice cpu_kernel_choice(const void *state, mc_op op, const void *attr,
                                          mica_dtype w) {
    const mk_kernels *kern = &((const cpu_state *)state)->kernels;
    if (op == MC_OP_QUANTIZED_MATMUL) return mc_quantized_matmul_choice(kern, attr);
    return op == MC_OP_MATMUL ? mc_matmul_choice(kern, attr, w) : mc_sdpa_choice(kern, w);
}

static mc_joint cpu_joint(const void *state, mc_op op) {
    (void)state;
    if (op == MC_OP_SDPA) return MC_JOINT_ANY;
    return mc_is_matmul(op) || mc_is_picked_matmul(op) ? MC_JOINT_FIRST : MC_JOINT_NONE;
}

static bool cpu_takes_memory(const void *state, mc_op op) {
    static const bool takes[MC_OP_COUNT] = {
#define EVAL(op, fn)
#define STAGE(op, fn, by_row)
#define SCRATCH(op) [MC_OP_##op] = true,
#include "cpu/eval_list.h"
    };
    (void)state;
    return takes[op];
}

static mc_prepare cpu_prepares(const mc_call *call) {
    if (call->op == MC_OP_CONV_GENERAL) return mc_conv_prepares(call);
    bool integers = call->op == MC_OP_INTEGER_MATMUL || call->op == MC_OP_INTEGER_CONV;
    return integers ? mc_integer_prepares(call) : (mc_prepare){.bytes = 0};
}

static void cpu_prepare(const mc_call *call, const mc_prepare *what, void *scratch, void *to) {
    if (call->op == MC_OP_CONV_GENERAL)
        mc_conv_prepare(call, what, scratch, to);
    else
        mc_integer_prepare(call, to);
}

const mc_step_ops mc_cpu_steps = {
    .prepares = cpu_prepares,
    .prepare = cpu_prepare,
    .find = cpu_find,
    .takes_memory = cpu_takes_memory,
    .touch = mc_chain_touches,
    .joint = cpu_joint,
    .rows = mc_chain_form,
    .enough_rows = mc_chain_enough_rows,
    .chain = mc_eval_chain,
};

static mica_status cpu_compile(mica_device *device, mc_lowered *graph, mc_executable **executable) {
    return mc_steps_compile(device, &mc_cpu_steps, graph, executable);
}

const mc_backend mc_backend_cpu = {
    .name = "cpu",
    .host_memory = true,
    .complete = true,
    .skips_unwritten = true,
    .on_caller = true,
    .joins_steps = true,
    .keys_together = MC_KEYS_TOGETHER,
    .available = cpu_available,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .cache_bytes = cpu_cache_bytes,
    .adopt = cpu_adopt,
    .copy = cpu_copy,
    .supports = cpu_supports,
    .compile = cpu_compile,
    .discard = mc_steps_discard,
    .measure = mc_steps_measure,
    .launch = mc_steps_launch,
    .wait = cpu_wait,
    .kernel_choice = cpu_kernel_choice,
};

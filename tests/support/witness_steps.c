#include "support/witness.h"

#include "base/alloc.h"
#include "cpu/attention.h"
#include "cpu/cpu.h"
#include "device/device.h"
#include "exec/steps/run.h"
#include "exec/steps/steps.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct task task;

/* A launch: done with its last task. */
typedef struct launch {
    struct launch *next; /* of those that were not waited for */
    task *last;
    mc_fence fence;
    bool ended, dropped; /* dropped: nobody waits */
    mica_status status;
    char error[256];
} launch;

/* What is to be done, in order: the calls of a kernel, the end of a launch, or to free memory. */
struct task {
    task *next;
    launch *of;       /* NULL: memory */
    void *freed;      /* NULL: calls, or an end */
    mc_kernel kernel; /* NULL: an end */
    mc_call calls[MC_MAX_CHAIN + MC_MAX_JOINT];
    mc_operand *operands; /* of all calls */
    uint64_t *numbers;    /* copied */
};

typedef struct state {
    witness_failures failures; /* first */
    mica_device *inner;
    uintptr_t distance;   /* of an address from the host's pointer */
    pthread_mutex_t lock; /* guards what follows, and computing */
    task *first, *last;
    launch *launches;
    mc_fence fences;
} state;

/* ---- addresses ---- */

#define DISPLACEMENT (UINT64_C(1) << 62) /* no address of the host */

static void *displaced(const state *w, const void *host) {
    return (void *)((uintptr_t)host + w->distance);
}

static void *host_of(const state *w, const void *address) {
    return (void *)((uintptr_t)address - w->distance);
}

/* ---- computing ---- */

static void append(state *w, task *t) {
    pthread_mutex_lock(&w->lock);
    if (w->last)
        w->last->next = t;
    else
        w->first = t;
    w->last = t;
    pthread_mutex_unlock(&w->lock);
}

static void free_task(task *t) {
    mc_free(t->operands);
    mc_free(t->numbers);
    mc_free(t);
}

static void compute(const state *w, task *t) {
    mc_run run = {.device = w->inner};
    launch *l = t->of;
    if (l->status != MICA_OK || l->dropped) return; /* what was dropped has no plan any more */
    for (int i = 0; i < t->calls->span; i++)
        t->calls[i].run = &run;
    l->status = t->kernel(t->calls);
    if (l->status != MICA_OK) (void)snprintf(l->error, sizeof l->error, "%s", mica_last_error());
    mc_run_release_scratch(&run);
}

/* Under the lock: a launch is done. It fails behind what it has written, as a device's does. */
static void finish(state *w, launch *l) {
    l->ended = true;
    if (l->status != MICA_OK || l->dropped || !witness_fails(w, WITNESS_LAUNCH)) return;
    l->status = MICA_EDEVICE;
    (void)snprintf(l->error, sizeof l->error, "witness: a launch failed");
}

/* Under the lock: computes until a launch has ended; NULL: all. As late as may be: nobody does
 * before somebody waits or copies. */
static void drain(state *w, const launch *until) {
    while (w->first && !(until && until->ended)) {
        task *t = w->first;
        w->first = t->next;
        if (!w->first) w->last = NULL;
        if (t->freed)
            mc_free(t->freed);
        else if (t->kernel)
            compute(w, t);
        else
            finish(w, t->of);
        if (t->of && t->of->ended && t->of->dropped) mc_free(t->of);
        free_task(t);
    }
}

/* ---- kernels: copies of their calls, for later ---- */

static int count_operands(const mc_call *call) {
    return call->n_in + (call->more ? mc_op_n_out(mc_op_get(call->op)) - 1 : 0);
}

/* An operand for the inner kernel: memory as it sees it, numbers as they are now. */
static void copy_operand(const state *w, const task *t, const mc_run *run, const mc_operand *from,
                         mc_operand *to) {
    *to = *from;
    if (mc_run_is_number(run, from))
        to->data = (char *)t->numbers + ((char *)from->data - (char *)run->scalars);
    else if (from->data)
        to->data = host_of(w, from->data);
}

static void copy_call(const state *w, task *t, const mc_call *from, mc_call *to, mc_operand *next) {
    int all = count_operands(from);
    *to = *from;
    to->state = w->inner->state;
    to->in = next;
    to->more = from->more ? next + from->n_in : NULL;
    copy_operand(w, t, from->run, &from->out, &to->out);
    for (int k = 0; k < from->n_in; k++)
        copy_operand(w, t, from->run, &from->in[k], &next[k]);
    for (int k = from->n_in; k < all; k++)
        copy_operand(w, t, from->run, &from->more[k - from->n_in], &next[k]);
}

static task *new_task(int operands, size_t numbers) {
    task *t = mc_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->operands = mc_calloc((size_t)operands + 1, sizeof *t->operands);
    t->numbers = mc_calloc(numbers + 1, sizeof *t->numbers);
    if (t->operands && t->numbers) return t;
    free_task(t);
    return NULL;
}

static mica_status start(const mc_call *calls, mc_kernel kernel) {
    const mc_run *run = calls->run;
    state *w = calls->state;
    int n = 0;
    for (int i = 0; i < calls->span; i++)
        n += count_operands(&calls[i]);
    task *t = new_task(n, run->plan->n_scalars);
    if (!t) return mc_fail_nomem("the witness");
    t->of = mc_run_launched(run);
    t->kernel = kernel;
    memcpy(t->numbers, run->scalars, run->plan->n_scalars * sizeof *t->numbers);
    mc_operand *next = t->operands;
    for (int i = 0; i < calls->span; i++) {
        copy_call(w, t, &calls[i], &t->calls[i], next);
        t->calls[i].left = calls->span - i;
        next += count_operands(&calls[i]);
    }
    append(w, t);
    return MICA_OK;
}

static mica_status start_op(const mc_call *calls) {
    const state *w = calls->state;
    return start(calls, mc_cpu_steps.find(w->inner->state, calls->op, calls->attr, NULL,
                                          calls->n_in, NULL, 1));
}

static mica_status start_chain(const mc_call *calls) {
    return start(calls, mc_cpu_steps.chain);
}

static mc_kernel find(const void *own, mc_op op, const void *attr, const mc_layout *const *in,
                      int n_in, const mc_layout *out, int n_out) {
    const state *w = own;
    return mc_cpu_steps.find(w->inner->state, op, attr, in, n_in, out, n_out) ? start_op : NULL;
}

static mc_joint joint(const void *own, mc_op op) {
    return mc_cpu_steps.joint(((const state *)own)->inner->state, op);
}

static mc_row_form rows(const void *own, mc_op op, const void *attr, const mc_layout *const *in,
                        int n_in) {
    return mc_cpu_steps.rows(((const state *)own)->inner->state, op, attr, in, n_in);
}

static int64_t enough_rows(const void *own) {
    return mc_cpu_steps.enough_rows(((const state *)own)->inner->state);
}

static mica_status begin(void *own, mc_run *run, void **launched) {
    launch *l = mc_calloc(1, sizeof *l);
    (void)own, (void)run;
    *launched = l;
    if (!l) return mc_fail_nomem("the witness");
    l->last = new_task(0, 0);
    if (l->last) return MICA_OK;
    mc_free(l);
    return mc_fail_nomem("the witness");
}

static mc_fence end(void *own, void *launched, mica_status *status) {
    state *w = own;
    launch *l = launched;
    pthread_mutex_lock(&w->lock);
    mc_fence fence = l->fence = ++w->fences;
    l->dropped = *status != MICA_OK;
    if (!l->dropped) {
        l->next = w->launches;
        w->launches = l;
    }
    pthread_mutex_unlock(&w->lock);
    l->last->of = l;
    append(w, l->last);
    return fence;
}

static const mc_step_ops steps = {
    .begin = begin,
    .end = end,
    .find = find,
    .joint = joint,
    .rows = rows,
    .enough_rows = enough_rows,
    .chain = start_chain,
};

static mica_status compile(mica_device *device, mc_lowered *graph, mc_executable **executable) {
    return mc_steps_compile(device, &steps, graph, executable);
}

static mc_support supports(const void *own, mc_op op, const void *attr, const mc_layout *const *in,
                           int n_in, const mc_layout *out, int n_out) {
    const state *w = own;
    return w->inner->backend->supports(w->inner->state, op, attr, in, n_in, out, n_out);
}

static mica_status wait_for(void *own, mc_fence fence) {
    state *w = own;
    pthread_mutex_lock(&w->lock);
    launch **at = &w->launches;
    while ((*at)->fence != fence)
        at = &(*at)->next;
    launch *l = *at;
    drain(w, l);
    for (at = &w->launches; *at != l;)
        at = &(*at)->next;
    *at = l->next;
    pthread_mutex_unlock(&w->lock);
    mica_status status = l->status;
    if (status != MICA_OK) (void)mc_fail(status, "%s", l->error);
    mc_free(l);
    return status;
}

/* ---- memory ---- */

/* What frees memory lies before it. */
enum { BEFORE = 64 };

static void *alloc(void *own, size_t bytes) {
    if (witness_fails(own, WITNESS_ALLOC)) return NULL;
    task *t = new_task(0, 0);
    char *host = t ? mc_aligned_alloc(64, BEFORE + bytes) : NULL;
    if (!host) {
        if (t) free_task(t);
        return NULL;
    }
    t->freed = host;
    memcpy(host, &t, sizeof t);
    return displaced(own, host + BEFORE);
}

/* Behind what was started: that may use it. */
static void free_late(void *own, void *address, size_t bytes) {
    task *t;
    (void)bytes;
    memcpy(&t, (char *)host_of(own, address) - BEFORE, sizeof t);
    append(own, t);
}

static uint64_t cache_bytes(const void *own) {
    (void)own;
    return WITNESS_CACHE;
}

static mica_status copy(void *own, mc_direction direction, void *to, size_t to_offset,
                        const void *from, size_t from_offset, size_t bytes) {
    state *w = own;
    if (direction != MC_WITHIN_DEVICE && bytes > WITNESS_STAGING)
        return mc_fail(MICA_EINTERNAL, "witness: a copy of %zu bytes", bytes);
    if (witness_fails(w, WITNESS_COPY)) return mc_fail(MICA_EDEVICE, "witness: a copy failed");
    pthread_mutex_lock(&w->lock);
    drain(w, NULL);
    if (direction != MC_TO_HOST) to = host_of(w, to);
    if (direction != MC_TO_DEVICE) from = host_of(w, from);
    memcpy((char *)to + to_offset, (const char *)from + from_offset, bytes);
    pthread_mutex_unlock(&w->lock);
    return MICA_OK;
}

static mica_status adopt(void *own, const void *host, size_t bytes, void **address) {
    (void)own, (void)bytes;
    *address = (void *)(uintptr_t)host; /* never written: read_only */
    return MICA_OK;
}

/* ---- opening ---- */

static void close_device(void *own) {
    state *w = own;
    if (!w) return;
    drain(w, NULL);
    pthread_mutex_destroy(&w->lock);
    witness_failures_deinit(&w->failures);
    mica_device_close(&w->inner);
    mc_free(w);
}

static mica_status open_device(const mica_device_options *options, const char *variant,
                               void **own) {
    const mica_device_options inner = {.threads = options ? options->threads : 0};
    *own = NULL;
    state *w = mc_calloc(1, sizeof *w);
    if (!w) return mc_fail_nomem("the witness");
    mica_status status = mica_device_open("cpu", &inner, &w->inner);
    if (status != MICA_OK) {
        mc_free(w);
        return status;
    }
    w->distance = strcmp(variant, "unified") == 0 ? 0 : DISPLACEMENT;
    witness_failures_init(&w->failures);
    pthread_mutex_init(&w->lock, NULL);
    *own = w;
    return MICA_OK;
}

static void info(const void *own, mica_device_info *info) {
    const state *w = own;
    *info = (mica_device_info){.struct_bytes = sizeof *info};
    mica_device_get_info(w->inner, info);
    info->name = "witness:steps";
    info->description = "a device for tests";
    info->unified_memory = 0;
}

/* What both are. */
#define COMMON                                                                                   \
    .name = "witness", .late = true, .complete = true, .skips_unwritten = true,                  \
    .keys_together = MC_KEYS_TOGETHER, .open = open_device, .close = close_device, .info = info, \
    .alloc = alloc, .free = free_late, .cache_bytes = cache_bytes, .copy = copy,                 \
    .staging_bytes = WITNESS_STAGING, .supports = supports, .compile = compile,                  \
    .discard = mc_steps_discard, .launch = mc_steps_launch, .wait = wait_for

const mc_backend witness_steps_backend = {COMMON};

const mc_backend witness_unified_backend = {COMMON, .host_memory = true, .adopt = adopt};

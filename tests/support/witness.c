#include "support/witness.h"

#include "base/alloc.h"
#include "cpu/attention.h"
#include "device/device.h"
#include "exec/lower.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What an address names. The bytes are of the inner device, and are there once what makes them was
 * computed. */
typedef struct block {
    mc_storage *inner; /* NULL: nothing was written yet, or a launch took what was */
    int64_t offset;    /* of the bytes in it */
    size_t bytes;
} block;

typedef struct job job;
struct job {
    job *next;
    mc_executable *executable;
    mc_storage **args; /* [n_params] references; NULL: a scalar */
    int64_t *offsets;  /* [n_params] */
    bool *taken;       /* [n_params] */
    uint64_t *scalars;
    mc_storage **results; /* [n_results] references */
    mc_fence fence;
    bool done;
    mica_status status;
    char error[256];
};

typedef struct witness {
    witness_failures failures; /* first */
    mica_device *inner;
    bool fused;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t due_one;  /* for the thread: a launch is due, or all ends */
    pthread_cond_t computed; /* for who waits while another computes */
    job *first, *last;       /* guarded: submitted and not yet waited for, in order */
    mc_fence fences;         /* guarded */
    mc_fence due;            /* guarded: launches up to here are the thread's to compute */
    bool busy;               /* guarded: somebody computes the first launch that is not done */
    bool ending;             /* guarded */
} witness;

typedef struct witness_executable {
    mc_executable base; /* first */
    mica_device *device;
    mc_executable *inner;
    uint32_t n_scalars;
    bool *donated; /* [n_params] */
} witness_executable;

/* ---- addresses ---- */

#define DISPLACEMENT (UINT64_C(1) << 62) /* no address of the host */

static void *address_of(const block *b) {
    return (void *)((uintptr_t)b + DISPLACEMENT);
}

static block *block_of(const void *address) {
    return (block *)((uintptr_t)address - DISPLACEMENT);
}

/* ---- failing ---- */

void witness_failures_init(witness_failures *f) {
    pthread_mutex_init(&f->lock, NULL);
}

void witness_failures_deinit(witness_failures *f) {
    pthread_mutex_destroy(&f->lock);
}

/* Under the lock. */
static bool is_lost(const witness_failures *f) {
    return f->lose_at && f->counts[WITNESS_LAUNCH] >= f->lose_at;
}

bool witness_fails(void *state, witness_call call) {
    witness_failures *f = state;
    pthread_mutex_lock(&f->lock);
    bool fail = ++f->counts[call] == f->fail_at[call] || is_lost(f);
    pthread_mutex_unlock(&f->lock);
    return fail;
}

void witness_lose(mica_device *device, uint64_t n) {
    witness_failures *f = device->state;
    pthread_mutex_lock(&f->lock);
    f->lose_at = f->counts[WITNESS_LAUNCH] + n;
    pthread_mutex_unlock(&f->lock);
}

bool witness_is_lost(mica_device *device) {
    witness_failures *f = device->state;
    pthread_mutex_lock(&f->lock);
    bool lost = is_lost(f);
    pthread_mutex_unlock(&f->lock);
    return lost;
}

void witness_fail(mica_device *device, witness_call call, uint64_t n) {
    witness_failures *f = device->state;
    pthread_mutex_lock(&f->lock);
    f->fail_at[call] = n ? f->counts[call] + n : 0;
    pthread_mutex_unlock(&f->lock);
}

bool witness_has_failed(mica_device *device, witness_call call) {
    witness_failures *f = device->state;
    pthread_mutex_lock(&f->lock);
    bool has = f->fail_at[call] && f->counts[call] >= f->fail_at[call];
    pthread_mutex_unlock(&f->lock);
    return has;
}

uint64_t witness_count(mica_device *device, witness_call call) {
    witness_failures *f = device->state;
    pthread_mutex_lock(&f->lock);
    uint64_t count = f->counts[call];
    pthread_mutex_unlock(&f->lock);
    return count;
}

/* ---- blocks ---- */

/* Where the host writes to. The device may keep a block whose bytes were taken for reuse. */
static mica_status write_to(witness *w, block *b, char **to) {
    if (!b->inner) MC_TRY(mc_storage_new(w->inner, b->bytes, &b->inner));
    *to = (char *)b->inner->address + b->offset;
    return MICA_OK;
}

/* ---- computing ---- */

/* Every so-many-th launch, and those before it that are not computed, are the thread's. To wake it
 * for each would take longer than the launches of a small model. */
enum { EACH_LATE = 8 };

/* What the inner device computes with: references. A block that was taken is empty from here on;
 * one that is not taken is held twice, so that the inner device does not take it either. */
static mica_status bind(witness *w, const job *j, uint32_t n, mc_binding *args) {
    for (uint32_t i = 0; i < n; i++) {
        char *data;
        if (!j->args[i]) continue;
        block *b = block_of(j->args[i]->address);
        MC_TRY(write_to(w, b, &data)); /* nobody writes an array without elements */
        args[i] = (mc_binding){.storage = b->inner,
                               .address = b->inner->address,
                               .offset_bytes = b->offset + j->offsets[i]};
        if (j->taken[i])
            *b = (block){.bytes = b->bytes};
        else
            mc_storage_retain(b->inner);
    }
    return MICA_OK;
}

static void fill_block(block *b, const mc_result *result) {
    mc_storage_release(b->inner);
    b->inner = result->storage;
    b->offset = result->offset_bytes;
}

/* Gives a block a copy of bytes of the inner device; without memory for that it stays empty. */
static void fill_with_copy(witness *w, block *b, const mc_storage *from, int64_t offset) {
    mc_storage *copy;
    if (mc_storage_new(w->inner, b->bytes, &copy) != MICA_OK) return;
    memcpy(copy->address, (const char *)from->address + offset, b->bytes);
    fill_block(b, &(mc_result){copy, 0});
}

/* After a failure: memory that was taken is where it was, and is what a result of its size is, too,
 * half written perhaps. So it is where memory is not moved. */
static void keep_taken(witness *w, const job *j, const mc_binding *args) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < j->executable->n_params; i++) {
        if (!j->taken[i] || !args[i].storage) continue;
        block *b = block_of(j->args[i]->address);
        int64_t offset = args[i].offset_bytes - j->offsets[i];
        fill_with_copy(w, b, args[i].storage, offset);
        uint32_t k = next;
        while (k < j->executable->n_results && block_of(j->results[k]->address)->bytes != b->bytes)
            k++;
        if (k == j->executable->n_results) continue;
        block *result = block_of(j->results[k]->address);
        if (!result->inner) fill_with_copy(w, result, args[i].storage, offset);
        next = k + 1;
    }
}

/* A launch that is to fail does so behind what it writes. */
static mica_status compute(witness *w, const job *j) {
    const witness_executable *x = (const witness_executable *)(const void *)j->executable;
    uint32_t n_args = x->base.n_params, n_results = x->base.n_results;
    mc_fence fence;
    bool fail = witness_fails(w, WITNESS_LAUNCH);
    mc_binding *args = mc_calloc(n_args + 1, sizeof *args);
    mc_result *results = mc_calloc(n_results + 1, sizeof *results);
    mica_status status = args && results ? bind(w, j, n_args, args) : mc_fail_nomem("the witness");
    if (status == MICA_OK)
        status = w->inner->backend->launch(x->inner, args, j->scalars, results, &fence);
    for (uint32_t i = 0; status == MICA_OK && i < n_results; i++)
        fill_block(block_of(j->results[i]->address), &results[i]);
    if (status == MICA_OK && fail) status = mc_fail(MICA_EDEVICE, "witness: a launch failed");
    if (status != MICA_OK && args) keep_taken(w, j, args);
    for (uint32_t i = 0; args && i < n_args; i++)
        mc_storage_release(args[i].storage);
    mc_free(args);
    mc_free(results);
    return status;
}

/* The caller of wait frees a job. Its storages are released behind it, as late as may be. */
static void release_storages(const job *j) {
    for (uint32_t i = 0; i < j->executable->n_params; i++)
        mc_storage_release(j->args[i]);
    for (uint32_t i = 0; i < j->executable->n_results; i++)
        mc_storage_release(j->results[i]);
}

static job *next_job(const witness *w) {
    job *j = w->first;
    while (j && j->done)
        j = j->next;
    return j;
}

/* Whether the next launch is the thread's to compute. */
static bool is_due(const witness *w) {
    const job *j = next_job(w);
    return j && !w->busy && (j->fence <= w->due || w->ending);
}

/* Under the lock, which it leaves while it computes. Nobody else computes then. */
static void compute_next(witness *w, job *j) {
    w->busy = true;
    pthread_mutex_unlock(&w->lock);
    mica_status status = compute(w, j);
    if (status != MICA_OK) (void)snprintf(j->error, sizeof j->error, "%s", mica_last_error());
    release_storages(j);
    pthread_mutex_lock(&w->lock);
    w->busy = false;
    j->status = status;
    j->done = true;
    pthread_cond_broadcast(&w->computed);
    if (is_due(w)) pthread_cond_signal(&w->due_one);
}

static void *run(void *state) {
    witness *w = state;
    pthread_mutex_lock(&w->lock);
    while (!w->ending || next_job(w)) {
        if (is_due(w))
            compute_next(w, next_job(w));
        else
            pthread_cond_wait(&w->due_one, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Under the lock: ends all launches up to a fence, and computes those itself that are not the
 * thread's. */
static void finish(witness *w, mc_fence fence) {
    for (job *j; (j = next_job(w)) && j->fence <= fence;) {
        if (w->busy || is_due(w))
            pthread_cond_wait(&w->computed, &w->lock);
        else
            compute_next(w, j);
    }
}

/* Copies see what launches before them wrote. */
static void drain(witness *w) {
    pthread_mutex_lock(&w->lock);
    finish(w, w->fences);
    pthread_mutex_unlock(&w->lock);
}

/* ---- opening ---- */

static void free_witness(witness *w) {
    pthread_cond_destroy(&w->computed);
    pthread_cond_destroy(&w->due_one);
    pthread_mutex_destroy(&w->lock);
    witness_failures_deinit(&w->failures);
    mica_device_close(&w->inner);
    mc_free(w);
}

static void witness_close(void *state) {
    witness *w = state;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->due_one);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free_witness(w);
}

static mica_status witness_open(const mica_device_options *options, const char *variant,
                                void **state) {
    const mica_device_options inner = {.threads = options ? options->threads : 0};
    *state = NULL;
    witness *w = mc_calloc(1, sizeof *w);
    if (!w) return mc_fail_nomem("the witness");
    w->fused = strcmp(variant, "fused") == 0;
    mica_status status = mica_device_open("cpu", &inner, &w->inner);
    if (status != MICA_OK) {
        mc_free(w);
        return status;
    }
    witness_failures_init(&w->failures);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->due_one, NULL);
    pthread_cond_init(&w->computed, NULL);
    if (pthread_create(&w->thread, NULL, run, w) == 0) {
        *state = w;
        return MICA_OK;
    }
    free_witness(w);
    return mc_fail(MICA_EDEVICE, "witness: cannot start a thread");
}

static void witness_info(const void *state, mica_device_info *info) {
    const witness *w = state;
    *info = (mica_device_info){.struct_bytes = sizeof *info};
    mica_device_get_info(w->inner, info);
    info->name = "witness";
    info->description = "a device for tests";
    info->unified_memory = 0;
    info->max_array_bytes = WITNESS_MAX_ARRAY;
    info->working_set_bytes = WITNESS_WORKING_SET;
}

/* ---- memory ---- */

static void *witness_alloc(void *state, size_t bytes) {
    witness *w = state;
    if (witness_fails(w, WITNESS_ALLOC)) return NULL;
    block *b = mc_calloc(1, sizeof *b);
    if (!b) return NULL;
    b->bytes = bytes;
    return address_of(b);
}

/* What still uses the block holds a reference on its storage. */
static void witness_free(void *state, void *address, size_t bytes) {
    (void)state, (void)bytes;
    block *b = block_of(address);
    mc_storage_release(b->inner);
    mc_free(b);
}

static uint64_t witness_cache_bytes(const void *state) {
    (void)state;
    return WITNESS_CACHE;
}

static mica_status witness_copy(void *state, mc_direction direction, void *to, size_t to_offset,
                                const void *from, size_t from_offset, size_t bytes) {
    witness *w = state;
    drain(w);
    if (direction != MC_WITHIN_DEVICE && bytes > WITNESS_STAGING)
        return mc_fail(MICA_EINTERNAL, "witness: a copy of %zu bytes", bytes);
    if (witness_fails(w, WITNESS_COPY)) return mc_fail(MICA_EDEVICE, "witness: a copy failed");
    if (direction != MC_TO_DEVICE) {
        const block *b = block_of(from);
        if (!b->inner) return mc_fail(MICA_EDEVICE, "witness: an array that was never computed");
        from = (const char *)b->inner->address + b->offset;
    }
    char *at = to;
    if (direction != MC_TO_HOST) MC_TRY(write_to(w, block_of(to), &at));
    memcpy(at + to_offset, (const char *)from + from_offset, bytes);
    return MICA_OK;
}

/* ---- graphs ---- */

static bool lists(const mc_op *ops, size_t n, mc_op op) {
    for (size_t i = 0; i < n; i++)
        if (ops[i] == op) return true;
    return false;
}

static mc_support witness_supports(const void *state, mc_op op, const void *attr,
                                   const mc_layout *const *in, int n_in, const mc_layout *out,
                                   int n_out) {
    static const mc_op few[] = {MC_OP_CONTIGUOUS, MC_OP_ADD,    MC_OP_MULTIPLY,
                                MC_OP_ASTYPE,     MC_OP_MATMUL, MC_OP_SLICE_UPDATE_AT};
    static const mc_op fused[] = {MC_OP_RMS_NORM, MC_OP_ROPE, MC_OP_SDPA, MC_OP_QUANTIZED_MATMUL};
    const witness *w = state;
    bool has = lists(few, sizeof few / sizeof *few, op) ||
               (w->fused && lists(fused, sizeof fused / sizeof *fused, op));
    if (has) return w->inner->backend->supports(w->inner->state, op, attr, in, n_in, out, n_out);
    return (mc_support){.yes = false};
}

/* Makes every result the memory of its own that a launch promises before anything is computed:
 * views, parameters, and what is twice a result, become copies. */
static mica_status list_results(const mc_lowered *graph) {
    for (uint32_t i = 0; i < graph->n_results; i++) {
        mica_array x = {graph->graph, graph->results[i]};
        x = mc_record(graph->graph, MC_OP_CONTIGUOUS, NULL, &x, 1);
        if (!mica_valid(x)) return mica_scope_status(graph->graph);
        graph->results[i] = x.node;
    }
    return MICA_OK;
}

static void witness_discard(mc_executable *executable) {
    witness_executable *x = (witness_executable *)(void *)executable;
    if (!x) return;
    witness *w = x->device->state;
    w->inner->backend->discard(x->inner);
    mc_free(x->donated);
    mc_free(x);
}

static mica_status witness_compile(mica_device *device, mc_lowered *graph,
                                   mc_executable **executable) {
    witness *w = device->state;
    witness_executable *x = mc_calloc(1, sizeof *x);
    *executable = NULL;
    mica_status status = x ? list_results(graph) : mc_fail_nomem("the witness");
    if (status == MICA_OK) {
        x->device = device;
        x->n_scalars = graph->n_scalars;
        x->donated = mc_calloc(graph->n_params + 1, sizeof *x->donated);
        if (!x->donated) status = mc_fail_nomem("the witness");
    }
    for (uint32_t i = 0; status == MICA_OK && i < graph->n_params; i++)
        x->donated[i] = graph->params[i].donated;
    if (status == MICA_OK)
        status = w->inner->backend->compile(w->inner, graph, &x->inner);
    else
        mc_lowered_free(graph);
    if (status != MICA_OK) {
        if (x) mc_free(x->donated);
        mc_free(x);
        return status;
    }
    x->base = *x->inner;
    *executable = &x->base;
    return MICA_OK;
}

/* ---- launching ---- */

static void free_job(job *j) {
    if (!j) return;
    mc_free(j->args);
    mc_free(j->offsets);
    mc_free(j->taken);
    mc_free(j->scalars);
    mc_free(j->results);
    mc_free(j);
}

static job *new_job(const witness_executable *x) {
    job *j = mc_calloc(1, sizeof *j);
    if (!j) return NULL;
    j->args = mc_calloc(x->base.n_params + 1, sizeof *j->args);
    j->offsets = mc_calloc(x->base.n_params + 1, sizeof *j->offsets);
    j->taken = mc_calloc(x->base.n_params + 1, sizeof *j->taken);
    j->scalars = mc_calloc(x->n_scalars + 1, sizeof *j->scalars);
    j->results = mc_calloc(x->base.n_results + 1, sizeof *j->results);
    if (j->args && j->offsets && j->taken && j->scalars && j->results) return j;
    free_job(j);
    return NULL;
}

static mica_status fill_job(const witness_executable *x, job *j, mc_binding *args,
                            const uint64_t *scalars) {
    for (uint32_t i = 0; i < x->base.n_results; i++)
        MC_TRY(mc_storage_new(x->device, (size_t)mc_layout_bytes(&x->base.results[i]),
                              &j->results[i]));
    if (x->n_scalars > 0) memcpy(j->scalars, scalars, x->n_scalars * sizeof *scalars);
    for (uint32_t i = 0; i < x->base.n_params; i++) {
        mc_storage *storage = args[i].storage;
        if (!storage) continue;
        j->taken[i] = x->donated[i] && !storage->read_only && mc_storage_count(storage) == 1;
        args[i].taken = j->taken[i];
        j->args[i] = mc_storage_retain(storage);
        j->offsets[i] = args[i].offset_bytes;
    }
    return MICA_OK;
}

static mc_fence submit(witness *w, job *j) {
    pthread_mutex_lock(&w->lock);
    mc_fence fence = j->fence = ++w->fences;
    if (w->last)
        w->last->next = j;
    else
        w->first = j;
    w->last = j;
    if (fence % EACH_LATE == 0) {
        w->due = fence;
        pthread_cond_signal(&w->due_one);
    }
    pthread_mutex_unlock(&w->lock);
    return fence;
}

static mica_status witness_launch(mc_executable *executable, mc_binding *args,
                                  const uint64_t *scalars, mc_result *results, mc_fence *fence) {
    const witness_executable *x = (const witness_executable *)(const void *)executable;
    job *j = new_job(x);
    *fence = 0;
    if (!j) return mc_fail_nomem("the witness");
    j->executable = executable;
    mica_status status = fill_job(x, j, args, scalars);
    if (status != MICA_OK) {
        release_storages(j);
        free_job(j);
        return status;
    }
    for (uint32_t i = 0; i < x->base.n_results; i++)
        results[i] = (mc_result){mc_storage_retain(j->results[i]), 0};
    *fence = submit(x->device->state, j);
    return MICA_OK;
}

/* Takes the job of a fence out of the list, once it is done. */
static job *take_done(witness *w, mc_fence fence) {
    finish(w, fence);
    job *before = NULL, *j = w->first;
    while (j->fence != fence)
        j = j->next;
    for (job *k = w->first; k != j; k = k->next)
        before = k;
    if (before)
        before->next = j->next;
    else
        w->first = j->next;
    if (w->last == j) w->last = before;
    return j;
}

static mica_status witness_wait(void *state, mc_fence fence) {
    witness *w = state;
    pthread_mutex_lock(&w->lock);
    job *j = take_done(w, fence);
    pthread_mutex_unlock(&w->lock);
    mica_status status = j->status;
    if (status != MICA_OK) (void)mc_fail(status, "%s", j->error);
    free_job(j);
    return status;
}

const mc_backend witness_backend = {
    .name = "witness",
    .host_memory = false,
    .late = true,
    .keys_together = MC_KEYS_TOGETHER, /* its matmul adds up as the cpu's does */
    .open = witness_open,
    .close = witness_close,
    .info = witness_info,
    .alloc = witness_alloc,
    .free = witness_free,
    .cache_bytes = witness_cache_bytes,
    .copy = witness_copy,
    .staging_bytes = WITNESS_STAGING,
    .supports = witness_supports,
    .compile = witness_compile,
    .discard = witness_discard,
    .launch = witness_launch,
    .wait = witness_wait,
};

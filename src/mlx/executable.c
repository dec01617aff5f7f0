#include "mlx/executable.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "mlx/graph.h"

typedef struct launch launch;

typedef struct executable {
    mc_executable base; /* first */
    mica_device *device;
    mc_lowered *lowered;
    mc_mlx_graph graph;
    mica_mode mode;     /* never default */
    mc_layout *layouts; /* [n_results] */
    uint32_t *viewed;   /* [n_results] the parameter that it is a view of; MC_ABSENT: none */
    int64_t *offsets;   /* [n_results] of such a view's first element, in bytes */

    /* On the thread. */
    mlx_closure closure; /* of compiled mode; ctx NULL: not made yet */
    launch *running;     /* while the closure is applied */
    mc_buffer checks;    /* mc_mlx_check, of the last time that the graph was built, if in part */
    uint64_t traces;
} executable;

/* A launch, and what it holds until it is over. Its task hands MLX's graph over, which MLX's own
 * threads or the GPU compute. The task of its end waits for that. */
struct launch {
    mc_mlx_task task; /* first */
    mc_mlx_task end;
    executable *x;
    mc_storage **args; /* [n_params] references; NULL for scalars */
    int64_t *offsets;  /* [n_params] */
    bool *taken;       /* [n_params] */
    uint64_t *scalars;
    mc_storage **results;    /* [n_results] shared; NULL for a view of a parameter */
    mlx_array *casts;        /* [n_params] of the arguments, while it runs; NULL: compiled */
    mlx_vector_array waited; /* the arrays of the checks, or, without any, a result */
    mc_mlx_check *checks;    /* [n_checks] what they check */
    size_t n_checks;
    bool began;        /* donated arguments may be gone */
    mica_status built; /* of the graph, within the closure */
};

/* A storage that a launch makes. */
typedef struct result_storage {
    mc_storage storage; /* first */
    mc_mlx_garbage garbage;
    mc_mlx_cell cell;
    mc_storage *lender; /* a reference: the array is in this one's memory; NULL: in its own */
    /* Who the struct lives for: all references to the storage, and the launch. A reference of the
     * launch's own would keep the next launch from writing in place. */
    atomic_int holders;
} result_storage;

static mc_mlx_state *state_of(const executable *x) {
    return x->device->state;
}

/* ---- compiling ---- */

/* Finds the parameter that a result is a view of, and where its first element lies. */
static mica_status find_viewed(executable *x, uint32_t i) {
    uint32_t at = x->lowered->results[i];
    int64_t offset = 0;
    const mc_node *node = mc_scope_node(x->lowered->graph, at);
    x->layouts[i] = node->layout;
    x->viewed[i] = MC_ABSENT;
    while (mc_op_get(node->op)->view) {
        const mc_node *in = mc_scope_node(x->lowered->graph, node->in[0]);
        mc_layout layout = node->layout;
        int64_t more;
        if (!mc_op_get(node->op)->view(node->attr, &in->layout, &layout, &more))
            return mc_fail(MICA_EINTERNAL, "mlx: %s: no view", mc_op_get(node->op)->name);
        offset += more;
        node = in;
    }
    bool is_param = node->op == MC_OP_LEAF && !node->scalar;
    if (is_param && !x->lowered->params[node->value].scalar) {
        x->viewed[i] = (uint32_t)node->value;
        x->offsets[i] = offset;
    } else {
        mc_layout_set_dense(&x->layouts[i]);
    }
    return MICA_OK;
}

static mica_status fill(executable *x) {
    uint32_t n = x->lowered->n_results;
    x->layouts = mc_calloc(n + 1, sizeof *x->layouts);
    x->viewed = mc_calloc(n + 1, sizeof *x->viewed);
    x->offsets = mc_calloc(n + 1, sizeof *x->offsets);
    if (!x->layouts || !x->viewed || !x->offsets) return mc_fail_nomem("an executable");
    for (uint32_t i = 0; i < n; i++)
        MC_TRY(find_viewed(x, i));
    MC_TRY(mc_mlx_graph_init(&x->graph, x->lowered));
    x->base = (mc_executable){.n_params = x->lowered->n_params,
                              .n_results = n,
                              .results = x->layouts,
                              .bytes = sizeof *x + x->graph.n_nodes * 2 * sizeof(mc_node)};
    return MICA_OK;
}

static mica_mode choose_mode(const mc_mlx_state *state, const mc_lowered *lowered) {
    if (state->mode) return state->mode;
    return lowered->mode ? lowered->mode : MICA_MODE_LAZY;
}

mica_status mc_mlx_compile(mica_device *device, mc_lowered *lowered, mc_executable **out) {
    *out = NULL;
    executable *x = mc_calloc(1, sizeof *x);
    if (!x) {
        mc_lowered_free(lowered);
        return mc_fail_nomem("an executable");
    }
    x->device = device;
    x->lowered = lowered;
    x->mode = choose_mode(state_of(x), lowered);
    mica_status status = fill(x);
    if (status != MICA_OK) {
        mc_mlx_discard(&x->base);
        return status;
    }
    *out = &x->base;
    return MICA_OK;
}

typedef struct closure_task {
    mc_mlx_task task; /* first */
    mlx_closure closure;
} closure_task;

static mica_status free_closure(mc_mlx_task *task) {
    return mc_mlx.closure_free(((closure_task *)(void *)task)->closure) ? MICA_EDEVICE : MICA_OK;
}

void mc_mlx_discard(mc_executable *base) {
    if (!base) return;
    executable *x = (executable *)(void *)base;
    closure_task task = {.task.run = free_closure, .closure = x->closure};
    if (x->closure.ctx) (void)mc_mlx_call_on_thread(&task.task);
    mc_mlx_graph_deinit(&x->graph);
    mc_lowered_free(x->lowered);
    mc_buffer_deinit(&x->checks);
    mc_free(x->layouts);
    mc_free(x->viewed);
    mc_free(x->offsets);
    mc_free(x);
}

uint64_t mc_mlx_traces(const mc_executable *base) {
    return ((const executable *)(const void *)base)->traces;
}

/* ---- launching: on the thread ---- */

static const mc_layout *layout_of(const executable *x, uint32_t param) {
    return &mc_scope_node(x->lowered->graph, x->graph.leaf[param])->layout;
}

static mica_status bind_param(launch *l, uint32_t i, mlx_array *array) {
    const executable *x = l->x;
    const mc_lowered_param *param = &x->lowered->params[i];
    int none = 0;
    if (x->graph.leaf[i] == MC_ABSENT) return MICA_OK;
    const mc_layout *layout = layout_of(x, i);
    if (param->scalar) {
        *array =
            mc_mlx.array_new_data(&l->scalars[param->index], &none, 0, mc_mlx_dtype(layout->dtype));
        return array->ctx ? MICA_OK : mc_mlx_fail("a number");
    }
    mc_mlx_cell *cell = l->args[i]->address;
    const mc_mlx_state *state = state_of(x);
    MC_TRY(mc_mlx_cell_view(cell, layout, l->offsets[i], state->stream, array));
    if (state->place == MC_MLX_ON_CUDA && l->offsets[i] % MC_MLX_ALIGN_BYTES &&
        mc_mlx_copy(array, state->stream))
        return mc_mlx_fail("a copy of an argument");
    if (l->taken[i]) mc_mlx_cell_clear(cell); /* the array holds the memory alone now */
    return MICA_OK;
}

static mica_status build(launch *l, mlx_array *params, mlx_vector_array results) {
    executable *x = l->x;
    const mc_mlx_state *state = state_of(x);
    const uint64_t *known = x->mode == MICA_MODE_COMPILED ? NULL : l->scalars;
    x->traces++;
    return mc_mlx_graph_build(&x->graph, params, l->casts, known, state->stream, state->place,
                              x->mode == MICA_MODE_EAGER, &x->checks, results);
}

/* What MLX calls to build the graph of an executable that it compiles. */
static int trace(mlx_vector_array *results, const mlx_vector_array inputs, void *payload) {
    executable *x = payload;
    launch *l = x->running;
    uint32_t n = x->base.n_params;
    mlx_array *params = mc_calloc(n + 1, sizeof *params);
    *results = mc_mlx.vector_array_new();
    l->built = params ? MICA_OK : mc_fail_nomem("a graph for MLX");
    size_t next = 0;
    for (uint32_t i = 0; i < n && l->built == MICA_OK; i++)
        if (x->graph.leaf[i] != MC_ABSENT && mc_mlx.vector_array_get(&params[i], inputs, next++))
            l->built = mc_mlx_fail("the inputs of a compiled graph");
    if (l->built == MICA_OK) l->built = build(l, params, *results);
    for (uint32_t i = 0; params && i < n; i++)
        if (params[i].ctx) mc_mlx.array_free(params[i]); /* build has zeroed what it took */
    mc_free(params);
    return l->built == MICA_OK ? 0 : 1;
}

static mica_status make_closure(executable *x) {
    if (x->closure.ctx) return MICA_OK;
    mlx_closure plain = mc_mlx.closure_new_func_payload(trace, x, NULL);
    int failed = mc_mlx.compile(&x->closure, plain, false);
    mc_mlx.closure_free(plain);
    return failed ? mc_mlx_fail("compiling a graph") : MICA_OK;
}

/* Takes params over, as build does. */
static mica_status replay(launch *l, mlx_array *params, mlx_vector_array *results) {
    executable *x = l->x;
    mlx_vector_array inputs = mc_mlx.vector_array_new();
    int failed = 0;
    for (uint32_t i = 0; i < x->base.n_params; i++) {
        if (!params[i].ctx) continue;
        failed |= mc_mlx.vector_array_append_value(inputs, params[i]);
        mc_mlx.array_free(params[i]);
        params[i] = (mlx_array){0};
    }
    mica_status status = failed ? mc_mlx_fail("the inputs of a compiled graph") : make_closure(x);
    /* Fusion on the CPU runs a C++ compiler, in a folder that all users share: it stays off. */
    if (status == MICA_OK)
        failed = mc_mlx.set_compile_mode(state_of(x)->on_cpu ? MLX_COMPILE_MODE_NO_FUSE
                                                             : MLX_COMPILE_MODE_ENABLED);
    if (failed) status = mc_mlx_fail("a compiled graph");
    if (status == MICA_OK) {
        x->running = l;
        failed = mc_mlx.closure_apply(results, x->closure, inputs);
        x->running = NULL;
        if (failed) status = l->built != MICA_OK ? l->built : mc_mlx_fail("a compiled graph");
    }
    mc_mlx.vector_array_free(inputs);
    return status;
}

static void release_result(mc_storage *storage);

/* The memory of the host, such as a mapped weight, that a result is in: that of an argument, or of
 * one that is such a result itself. */
static mc_storage *find_lender(const launch *l, const char *at) {
    for (uint32_t i = 0; i < l->x->base.n_params; i++) {
        mc_storage *storage = l->args[i];
        if (storage && storage->release == release_result)
            storage = ((result_storage *)(void *)storage)->lender;
        if (!storage || !storage->read_only) continue;
        const char *first = storage->host;
        if (at >= first && at < first + storage->bytes) return storage;
    }
    return NULL;
}

static mica_status store_result(launch *l, uint32_t i, mlx_vector_array results) {
    result_storage *r = (result_storage *)(void *)l->results[i];
    mc_mlx_cell *cell = &r->cell;
    if (mc_mlx.vector_array_get(&cell->array, results, i)) return mc_mlx_fail("a result");
    cell->size = cell->used = mc_mlx.array_nbytes(cell->array);
    if (!state_of(l->x)->host_reads || cell->used == 0) return MICA_OK;
    r->storage.host = (void *)(uintptr_t)mc_mlx_host_pointer(cell->array);
    mc_storage *lender = find_lender(l, r->storage.host);
    if (lender) r->lender = mc_storage_retain(lender);
    return MICA_OK;
}

static mica_status store_results(launch *l, mlx_vector_array results) {
    for (uint32_t i = 0; i < l->x->base.n_results; i++)
        if (l->results[i]) MC_TRY(store_result(l, i, results));
    return MICA_OK;
}

/* MLX takes its limit as advice: whether the results pass it. */
static mica_status check_memory(const launch *l) {
    uint64_t limit = state_of(l->x)->memory_limit, bytes = 0;
    size_t active = 0;
    for (uint32_t i = 0; i < l->x->base.n_results; i++)
        if (l->results[i]) bytes += l->results[i]->bytes;
    if (limit == 0) return MICA_OK;
    mc_mlx.get_active_memory(&active);
    if (active + bytes <= limit) return MICA_OK;
    if (mc_mlx.synchronize(state_of(l->x)->stream)) return mc_mlx_fail("waiting for it");
    mc_mlx.get_active_memory(&active); /* without what was about to be freed */
    if (active + bytes <= limit) return MICA_OK;
    return mc_fail(MICA_ENOMEM,
                   "memory limit: %llu bytes more than the %zu in use would pass the limit of %llu "
                   "(mica_device_set_memory_limit)",
                   (unsigned long long)bytes, active, (unsigned long long)limit);
}

/* Which result to wait for where nothing is checked: a small one, since it cannot be written in
 * place until then. */
static size_t find_smallest(const launch *l) {
    size_t smallest = 0;
    for (size_t i = 1; i < l->x->base.n_results; i++)
        if (mc_layout_bytes(&l->x->layouts[i]) < mc_layout_bytes(&l->x->layouts[smallest]))
            smallest = i;
    return smallest;
}

static void drop_waited(launch *l) {
    if (l->waited.ctx) mc_mlx.vector_array_free(l->waited);
    l->waited = (mlx_vector_array){0};
}

/* Keeps what is checked: the graph may be built again before the end of this launch. */
static mica_status keep_checks(launch *l) {
    size_t n = MC_BUFFER_COUNT(&l->x->checks, mc_mlx_check);
    if (n == 0) return MICA_OK;
    l->checks = mc_array_alloc(n, sizeof *l->checks);
    if (!l->checks) return mc_fail_nomem("a launch");
    memcpy(l->checks, MC_BUFFER_AT(&l->x->checks, mc_mlx_check), n * sizeof *l->checks);
    l->n_checks = n;
    return MICA_OK;
}

/* Keeps what tells of the end: all that is evaluated together is there together. */
static mica_status keep_waited(launch *l, mlx_vector_array results) {
    size_t n_results = l->x->base.n_results, n = l->n_checks;
    size_t first = n > 0 ? n_results : find_smallest(l), end = n > 0 ? n_results + n : first + 1;
    int failed = 0;
    l->waited = mc_mlx.vector_array_new();
    for (size_t i = first; i < end && n_results + n > 0; i++) {
        mlx_array array = {0};
        failed |= mc_mlx.vector_array_get(&array, results, i) ||
                  mc_mlx.vector_array_append_value(l->waited, array);
        if (array.ctx) mc_mlx.array_free(array);
    }
    return failed ? mc_mlx_fail("a graph that was handed over") : MICA_OK;
}

static mica_status compute(launch *l, mlx_array *params) {
    executable *x = l->x;
    bool compiled = x->mode == MICA_MODE_COMPILED;
    mlx_vector_array results = mc_mlx.vector_array_new();
    mica_status status = compiled ? replay(l, params, &results) : build(l, params, results);
    if (status == MICA_OK) status = keep_checks(l);
    if (status == MICA_OK && mc_mlx.async_eval(results)) status = mc_mlx_fail("evaluating a graph");
    if (status == MICA_OK) status = keep_waited(l, results);
    if (status == MICA_OK) status = store_results(l, results);
    mc_mlx.vector_array_free(results);
    return status;
}

static mica_status read_checks(const launch *l) {
    mica_status status = MICA_OK;
    for (size_t i = 0; i < l->n_checks && status == MICA_OK; i++) {
        mlx_array array = {0};
        if (mc_mlx.vector_array_get(&array, l->waited, i)) return mc_mlx_fail("a check");
        status = mc_mlx_check_read(&l->checks[i], array);
        mc_mlx.array_free(array);
    }
    return status;
}

static mica_status end_launch(mc_mlx_task *task) {
    launch *l = (launch *)(void *)((char *)task - offsetof(launch, end));
    mica_status status = l->task.status;
    if (status != MICA_OK)
        status = mc_fail(status, "%s", l->task.error);
    else if (mc_mlx.eval(l->waited))
        status = mc_mlx_fail("evaluating a graph");
    else
        status = read_checks(l);
    drop_waited(l);
    mc_mlx_thread_stop_at_exit(MC_MLX_LAUNCHED + (unsigned)l->x->mode);
    return status;
}

/* Whether casts of a parameter are kept from one launch to the next. */
static bool keeps_casts(const launch *l, uint32_t i) {
    return l->casts && l->args[i] && !l->x->lowered->params[i].donated &&
           l->x->graph.leaf[i] != MC_ABSENT;
}

static void find_casts(launch *l) {
    for (uint32_t i = 0; i < l->x->base.n_params; i++)
        if (keeps_casts(l, i))
            mc_mlx_cell_find_cast(l->args[i]->address, layout_of(l->x, i), l->offsets[i],
                                  &l->casts[i]);
}

static void keep_casts(launch *l, bool computed) {
    for (uint32_t i = 0; l->casts && i < l->x->base.n_params; i++) {
        if (!l->casts[i].ctx) continue;
        if (computed && keeps_casts(l, i))
            mc_mlx_cell_keep_cast(l->args[i]->address, layout_of(l->x, i), l->offsets[i],
                                  l->casts[i]);
        else
            mc_mlx.array_free(l->casts[i]);
    }
}

static mica_status run_launch(mc_mlx_task *task) {
    launch *l = (launch *)(void *)task;
    executable *x = l->x;
    mlx_array *params = mc_calloc(2 * (size_t)x->base.n_params + 1, sizeof *params);
    if (!params) return mc_fail_nomem("a launch");
    l->casts = x->mode == MICA_MODE_COMPILED ? NULL : params + x->base.n_params;
    mica_status status = check_memory(l);
    l->began = status == MICA_OK;
    if (status == MICA_OK && mc_mlx.set_default_device(state_of(x)->device))
        status = mc_mlx_fail("choosing the device");
    for (uint32_t i = 0; i < x->base.n_params && status == MICA_OK; i++)
        status = bind_param(l, i, &params[i]);
    find_casts(l);
    if (status == MICA_OK) status = compute(l, params);
    keep_casts(l, status == MICA_OK);
    for (uint32_t i = 0; i < x->base.n_params; i++)
        if (params[i].ctx) mc_mlx.array_free(params[i]);
    mc_free(params);
    if (status != MICA_OK) drop_waited(l);
    return status;
}

/* ---- launching: on the caller's thread ---- */

static void free_result(mc_mlx_garbage *garbage) {
    result_storage *r =
        (result_storage *)(void *)((char *)garbage - offsetof(result_storage, garbage));
    mc_mlx_cell_clear(&r->cell);
    mc_free(r);
}

/* One holder less. */
static void leave_result(result_storage *r) {
    if (atomic_fetch_sub(&r->holders, 1) > 1) return;
    mica_device *device = r->storage.owner;
    mc_storage *lender = r->lender;
    r->garbage.free = free_result;
    mc_mlx_free_later(&r->garbage);
    mc_storage_release(lender); /* whose memory is freed behind the garbage */
    mc_device_release(device);
}

static void release_result(mc_storage *storage) {
    leave_result((result_storage *)(void *)storage);
}

static mica_status new_result(launch *l, uint32_t i, const mc_binding *args, mc_result *result) {
    const executable *x = l->x;
    if (x->viewed[i] != MC_ABSENT) {
        const mc_binding *arg = &args[x->viewed[i]];
        *result = (mc_result){mc_storage_retain(arg->storage), arg->offset_bytes + x->offsets[i]};
        return MICA_OK;
    }
    result_storage *r = mc_calloc(1, sizeof *r);
    if (!r) return mc_fail_nomem("a result");
    atomic_init(&r->storage.count, 1u);
    atomic_init(&r->holders, 2);
    if (state_of(x)->place == MC_MLX_ON_CUDA) r->cell.mover = state_of(x)->stream;
    r->storage.address = &r->cell;
    r->storage.bytes = (size_t)mc_layout_bytes(&x->layouts[i]);
    r->storage.release = release_result;
    r->storage.owner = x->device;
    mc_device_retain(x->device);
    l->results[i] = &r->storage;
    *result = (mc_result){.storage = &r->storage};
    return MICA_OK;
}

static bool is_viewed(const executable *x, uint32_t param) {
    for (uint32_t i = 0; i < x->base.n_results; i++)
        if (x->viewed[i] == param) return true;
    return false;
}

/* Holds the arguments, and takes donated ones that nobody else holds. */
static void hold_args(launch *l, mc_binding *args) {
    const executable *x = l->x;
    for (uint32_t i = 0; i < x->base.n_params; i++) {
        mc_storage *storage = args[i].storage;
        if (!storage) continue;
        l->taken[i] = x->lowered->params[i].donated && !storage->read_only &&
                      mc_storage_count(storage) == 1 && !is_viewed(x, i);
        args[i].taken = l->taken[i];
    }
    for (uint32_t i = 0; i < x->base.n_params; i++) {
        if (args[i].storage) l->args[i] = mc_storage_retain(args[i].storage);
        l->offsets[i] = args[i].offset_bytes;
    }
}

static launch *new_launch(executable *x) {
    size_t params = x->base.n_params, results = x->base.n_results, scalars = x->lowered->n_scalars;
    launch *l = mc_calloc(1, sizeof *l + params * (sizeof *l->args + sizeof *l->offsets + 1) +
                                 results * sizeof *l->results + scalars * sizeof *l->scalars);
    if (!l) return NULL;
    l->task.run = run_launch;
    l->end.run = end_launch;
    l->x = x;
    l->args = (mc_storage **)(void *)(l + 1);
    l->results = l->args + params;
    l->offsets = (int64_t *)(void *)(l->results + results);
    l->scalars = (uint64_t *)(void *)(l->offsets + params);
    l->taken = (bool *)(void *)(l->scalars + scalars);
    return l;
}

static void free_launch(launch *l) {
    for (uint32_t i = 0; i < l->x->base.n_params; i++)
        mc_storage_release(l->args[i]);
    for (uint32_t i = 0; i < l->x->base.n_results; i++)
        if (l->results[i]) leave_result((result_storage *)(void *)l->results[i]);
    mc_free(l->checks);
    mc_free(l);
}

/* Hands the launch over. Where a limit may refuse it, waits for it, so that a refused one takes no
 * argument. */
static mica_status start(launch *l, mc_binding *args) {
    hold_args(l, args);
    mica_status status = mc_mlx_submit(&l->task);
    bool taken = status == MICA_OK;
    if (taken && state_of(l->x)->memory_limit > 0) {
        status = mc_mlx_wait(&l->task);
        taken = l->began;
    }
    for (uint32_t i = 0; i < l->x->base.n_params && !taken; i++)
        args[i].taken = false;
    return status;
}

mica_status mc_mlx_launch(mc_executable *base, mc_binding *args, const uint64_t *scalars,
                          mc_result *results, mc_fence *fence) {
    executable *x = (executable *)(void *)base;
    *fence = 0;
    launch *l = new_launch(x);
    if (!l) return mc_fail_nomem("a launch");
    mica_status status = MICA_OK;
    memset(results, 0, base->n_results * sizeof *results);
    if (x->lowered->n_scalars > 0)
        memcpy(l->scalars, scalars, x->lowered->n_scalars * sizeof *scalars);
    for (uint32_t i = 0; i < base->n_results && status == MICA_OK; i++)
        status = new_result(l, i, args, &results[i]);
    if (status == MICA_OK) status = start(l, args);
    if (status == MICA_OK) {
        *fence = (mc_fence)(uintptr_t)l;
        return MICA_OK;
    }
    for (uint32_t i = 0; i < base->n_results; i++) {
        mc_storage_release(results[i].storage);
        results[i] = (mc_result){0};
    }
    free_launch(l);
    return status;
}

mica_status mc_mlx_wait_fence(void *state, mc_fence fence) {
    (void)state;
    launch *l = (launch *)(uintptr_t)fence;
    mica_status status = mc_mlx_call_on_thread(&l->end);
    free_launch(l);
    return status;
}

#include "exec/control.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/pass.h"
#include "graph/subgraph.h"

/* A subgraph, compiled. Parameters are donated, also those without axes: they are bound as memory,
 * and a run says which may be written over by how many references it holds. */
typedef struct routine {
    mc_compiled *compiled; /* NULL: there is no such routine */
    uint32_t n_params, n_results;
    uint32_t n_leaves;
    uint32_t *leaf;    /* [n_params] of the compiled graph; MC_ABSENT: nothing reads it */
    uint64_t *scalars; /* the constants */
} routine;

/* What a run needs in memory. */
typedef struct frame frame;
struct frame {
    frame *next;
    mc_binding *values;  /* [max params] of the routine at hand */
    mc_binding *args;    /* [max leaves] */
    mc_result *made;     /* [max results] */
    mc_storage **stacks; /* [results] of a scan: the ys */
};

struct mc_control {
    mica_device *device;
    const mc_graph_runner *runner;
    mc_op op;
    int64_t n_carried, n_xs, length, max_rounds;
    bool reverse;
    mc_arena arena; /* the lists below */
    uint32_t n_in, n_out;
    int64_t *row_bytes; /* [n_in or n_out] of a scan: of a row of each x, by operand */
    int64_t *out_bytes; /* [n_out] of each result; of ys a row */
    routine routines[2];
    uint32_t max_params, max_leaves, max_results;
    pthread_mutex_t lock;
    bool has_lock;
    frame *spare; /* guarded by lock */
    size_t bytes;
    uint32_t passes_off, changed[MC_PASS_COUNT];
    mica_mode mode;
};

/* ---- compiling ---- */

/* The subgraph in a scope of its own whose parameters are donated. */
static mica_status copy_graph(mica_device *device, const mc_subgraph *g, mc_arena *arena,
                              mica_scope **s, mica_array *results) {
    mica_array *params = mc_arena_alloc(arena, g->n_params * sizeof *params);
    if (!params) return mc_fail_nomem("compiling control flow");
    MC_TRY(mc_scope_open(device, s));
    for (uint32_t i = 0; i < g->n_params; i++) {
        params[i] = mc_leaf_param(*s, mc_subgraph_param(g, i), true);
        if (!mica_valid(params[i])) return mica_scope_status(*s);
    }
    return mc_subgraph_record(g, *s, params, results);
}

/* Where the parameters are among the leaves, and the values of the others. */
static mica_status list_leaves(mc_control *c, routine *r, const mc_trace *trace) {
    uint32_t n = 0;
    r->n_leaves = trace->n_leaves;
    r->leaf = mc_arena_alloc(&c->arena, r->n_params * sizeof *r->leaf);
    r->scalars = mc_arena_alloc(&c->arena, trace->n_leaves * sizeof *r->scalars);
    if (!r->leaf || !r->scalars) return mc_fail_nomem("compiling control flow");
    for (uint32_t i = 0; i < r->n_params; i++)
        r->leaf[i] = MC_ABSENT;
    for (uint32_t i = 0; i < trace->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(trace->scope, trace->leaves[i]);
        if (leaf->param)
            r->leaf[trace->leaves[i]] = i;
        else
            r->scalars[n++] = leaf->value;
    }
    return MICA_OK;
}

static mica_status compile_in(mc_control *c, const mc_subgraph *g, mc_arena *arena, mica_scope **s,
                              mc_trace *trace, routine *r) {
    mica_array *results = mc_arena_alloc(arena, g->n_results * sizeof *results);
    if (!results) return mc_fail_nomem("compiling control flow");
    MC_TRY(copy_graph(c->device, g, arena, s, results));
    const mc_passed from = {*s, g->n_params, g->n_results, results};
    uint32_t off = c->passes_off | UINT32_C(1) << MC_PASS_FOLD; /* it would have data then */
    mc_passed to;
    MC_TRY(mc_passes_run(&from, off, arena, c->changed, &to));
    if (to.scope != *s) mica_scope_close(s);
    *s = to.scope;
    MC_TRY(mc_trace_make(trace, arena, *s, to.results, g->n_results));
    trace->dense_results = true;
    trace->passes_off = c->passes_off;
    trace->mode = c->mode;
    MC_TRY(list_leaves(c, r, trace));
    return c->runner->make(c->device, trace, &r->compiled);
}

static mica_status compile_routine(mc_control *c, const mc_subgraph *g, routine *r) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mica_scope *s = NULL;
    r->n_params = g->n_params;
    r->n_results = g->n_results;
    mica_status status = compile_in(c, g, &arena, &s, &trace, r);
    mica_scope_close(&s);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    if (status != MICA_OK) return status;
    c->runner->tell(r->compiled, &c->bytes, c->changed);
    if (r->n_params > c->max_params) c->max_params = r->n_params;
    if (r->n_leaves > c->max_leaves) c->max_leaves = r->n_leaves;
    if (r->n_results > c->max_results) c->max_results = r->n_results;
    return MICA_OK;
}

/* What the attributes say. */
static void read_attr(mc_control *c, const mc_node *node, const mc_subgraph *graphs[2]) {
    if (node->op == MC_OP_IF) {
        const mc_attr_if *a = node->attr;
        graphs[0] = a->then_graph.graph;
        graphs[1] = a->else_graph.graph;
    } else if (node->op == MC_OP_WHILE) {
        const mc_attr_while *a = node->attr;
        graphs[0] = a->cond.graph;
        graphs[1] = a->body.graph;
        c->n_carried = graphs[1]->n_results;
        c->max_rounds = a->max_rounds;
    } else {
        const mc_attr_scan_over *a = node->attr;
        graphs[0] = a->body.graph;
        graphs[1] = NULL;
        c->n_carried = a->n_carried;
        c->n_xs = a->n_xs;
        c->length = a->length;
        c->reverse = a->reverse != 0;
    }
}

/* Bytes of a row, or of all. */
static mica_status measure(mc_control *c, const mc_subgraph *body) {
    c->row_bytes = mc_arena_alloc(&c->arena, c->n_in * sizeof *c->row_bytes);
    c->out_bytes = mc_arena_alloc(&c->arena, c->n_out * sizeof *c->out_bytes);
    if (!c->row_bytes || !c->out_bytes) return mc_fail_nomem("compiling control flow");
    for (uint32_t i = 0; c->op == MC_OP_SCAN && i < c->n_in; i++)
        c->row_bytes[i] = mc_layout_bytes(mc_subgraph_param(body, i));
    for (uint32_t i = 0; i < c->n_out; i++) {
        bool rounds = c->op == MC_OP_WHILE && i == c->n_carried;
        c->out_bytes[i] =
            rounds ? (int64_t)sizeof(int32_t) : mc_layout_bytes(mc_subgraph_result(body, i));
    }
    return MICA_OK;
}

static mica_status compile(mc_control *c, const mc_node *node) {
    const mc_subgraph *graphs[2];
    c->op = node->op;
    c->n_in = node->n_in;
    c->n_out = (uint32_t)mc_node_n_out(node);
    read_attr(c, node, graphs);
    MC_TRY(measure(c, graphs[c->op == MC_OP_WHILE]));
    for (int i = 0; i < 2 && graphs[i]; i++)
        MC_TRY(compile_routine(c, graphs[i], &c->routines[i]));
    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for control flow");
    c->has_lock = true;
    c->bytes += sizeof *c + mc_arena_bytes(&c->arena);
    return MICA_OK;
}

mica_status mc_control_compile(mica_device *device, const mc_node *node, const mc_lowered *lowered,
                               const mc_graph_runner *runner, mc_control **control) {
    mc_control *c = mc_calloc(1, sizeof *c);
    *control = NULL;
    if (!c) return mc_fail_nomem("compiling control flow");
    c->device = device;
    c->runner = runner;
    c->passes_off = lowered->passes_off;
    c->mode = lowered->mode;
    mica_status status = compile(c, node);
    if (status == MICA_OK)
        *control = c;
    else
        mc_control_free(c);
    return status;
}

void mc_control_free(mc_control *c) {
    if (!c) return;
    while (c->spare) {
        frame *f = c->spare;
        c->spare = f->next;
        mc_free(f);
    }
    for (int i = 0; i < 2; i++)
        c->runner->free(c->routines[i].compiled);
    if (c->has_lock) pthread_mutex_destroy(&c->lock);
    mc_arena_deinit(&c->arena);
    mc_free(c);
}

void mc_control_tell(const mc_control *control, size_t *bytes, uint32_t *changed) {
    *bytes += control->bytes;
    for (int i = 0; i < MC_PASS_COUNT; i++)
        changed[i] += control->changed[i];
}

/* ---- memory ---- */

static uint64_t sum_of(const mc_launch_memory *memory) {
    return memory->results + memory->others;
}

/* What is carried, or what a branch gives, and the rows that a scan stacks. */
static uint64_t result_bytes(const mc_control *c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        bool stacked = c->op == MC_OP_SCAN && i >= c->n_carried;
        bytes += (uint64_t)c->out_bytes[i] * (stacked ? (uint64_t)c->length : 1);
    }
    return bytes;
}

/* A round makes what is carried next while what was carried is still there. */
mica_status mc_control_measure(const mc_control *c, mc_launch_memory *memory) {
    mc_launch_memory own[2] = {{0}, {0}};
    uint64_t results = result_bytes(c), most = 0;
    for (int i = 0; i < 2; i++) {
        if (c->routines[i].compiled) MC_TRY(c->runner->measure(c->routines[i].compiled, &own[i]));
        if (sum_of(&own[i]) > most) most = sum_of(&own[i]);
    }
    if (c->op == MC_OP_IF && most < results) most = results;
    *memory = (mc_launch_memory){.results = results,
                                 .others = c->op == MC_OP_IF ? most - results : most + results,
                                 .prepared = own[0].prepared + own[1].prepared};
    return MICA_OK;
}

/* ---- frames ---- */

static frame *new_frame(const mc_control *c) {
    size_t values = c->max_params * sizeof(mc_binding), args = c->max_leaves * sizeof(mc_binding);
    size_t made = c->max_results * sizeof(mc_result), stacks = c->n_out * sizeof(mc_storage *);
    frame *f = mc_calloc(1, sizeof *f + values + args + made + stacks);
    if (!f) return NULL;
    char *next = (char *)(f + 1);
    f->values = (mc_binding *)(void *)next;
    f->args = (mc_binding *)(void *)(next + values);
    f->made = (mc_result *)(void *)(next + values + args);
    f->stacks = (mc_storage **)(void *)(next + values + args + made);
    return f;
}

static frame *take_frame(mc_control *c) {
    pthread_mutex_lock(&c->lock);
    frame *f = c->spare;
    if (f) c->spare = f->next;
    pthread_mutex_unlock(&c->lock);
    return f ? f : new_frame(c);
}

static void give_back(mc_control *c, frame *f) {
    pthread_mutex_lock(&c->lock);
    f->next = c->spare;
    c->spare = f;
    pthread_mutex_unlock(&c->lock);
}

/* ---- running ---- */

/* Runs a routine on f->values, into f->made. The first n_free of them may be written over where
 * nobody else holds them. */
static mica_status run_routine(const mc_control *c, frame *f, int which, int64_t n_free,
                               const mica_cancel *cancel) {
    const routine *r = &c->routines[which];
    memset(f->args, 0, r->n_leaves * sizeof *f->args);
    for (uint32_t i = 0; i < r->n_params; i++) {
        if (r->leaf[i] == MC_ABSENT) continue;
        f->args[r->leaf[i]] = f->values[i];
        if ((int64_t)i >= n_free) mc_storage_retain(f->values[i].storage);
    }
    mica_status status = c->runner->run(r->compiled, f->args, r->scalars, f->made, cancel);
    for (uint32_t i = 0; i < r->n_params; i++)
        if (r->leaf[i] != MC_ABSENT && (int64_t)i >= n_free)
            mc_storage_release(f->values[i].storage);
    return status;
}

static mica_status read_bool(const mc_control *c, const mc_storage *storage, int64_t offset,
                             bool *value) {
    uint8_t byte = 0;
    MC_TRY(mc_storage_read(c->device, storage, (size_t)offset, &byte, 1));
    *value = byte != 0;
    return MICA_OK;
}

static mica_status run_if(mc_control *c, frame *f, const mc_binding *args, mc_result *results,
                          const mica_cancel *cancel) {
    bool pred;
    MC_TRY(read_bool(c, args[0].storage, args[0].offset_bytes, &pred));
    memcpy(f->values, args + 1, (c->n_in - 1) * sizeof *args);
    MC_TRY(run_routine(c, f, pred ? 0 : 1, 0, cancel));
    memcpy(results, f->made, c->n_out * sizeof *results);
    return MICA_OK;
}

/* Loops begin with references to what is carried, and to nothing else. */
static void hold_carried(const mc_control *c, frame *f, const mc_binding *args) {
    memcpy(f->values, args, c->n_in * sizeof *args);
    for (int64_t i = 0; i < c->n_carried; i++)
        mc_storage_retain(f->values[i].storage);
}

static void release_carried(const mc_control *c, frame *f) {
    for (int64_t i = 0; i < c->n_carried; i++)
        mc_storage_release(f->values[i].storage);
}

/* What the round made is carried from here on. */
static void carry(const mc_control *c, frame *f) {
    for (int64_t i = 0; i < c->n_carried; i++) {
        mc_storage_release(f->values[i].storage);
        f->values[i] = (mc_binding){.storage = f->made[i].storage,
                                    .address = f->made[i].storage->address,
                                    .offset_bytes = f->made[i].offset_bytes};
    }
}

/* The references to what is carried go to the results. */
static void give_carried(const mc_control *c, const frame *f, mc_result *results) {
    for (int64_t i = 0; i < c->n_carried; i++)
        results[i] = (mc_result){f->values[i].storage, f->values[i].offset_bytes};
}

static mica_status ask(const mc_control *c, frame *f, const mica_cancel *cancel, bool *more) {
    MC_TRY(run_routine(c, f, 0, 0, cancel));
    mica_status status = read_bool(c, f->made[0].storage, f->made[0].offset_bytes, more);
    mc_storage_release(f->made[0].storage);
    return status;
}

static mica_status run_rounds(mc_control *c, frame *f, const mica_cancel *cancel, int64_t *rounds) {
    for (*rounds = 0; c->max_rounds == 0 || *rounds < c->max_rounds; ++*rounds) {
        bool more = false;
        MC_TRY(mc_cancel_check(cancel));
        MC_TRY(ask(c, f, cancel, &more));
        if (!more) return MICA_OK;
        if (*rounds == INT32_MAX) return mc_fail(MICA_EINVAL, "while: more than 2^31 - 1 rounds");
        MC_TRY(run_routine(c, f, 1, c->n_carried, cancel));
        carry(c, f);
    }
    return MICA_OK;
}

static mica_status run_while(mc_control *c, frame *f, const mc_binding *args, mc_result *results,
                             const mica_cancel *cancel) {
    int64_t rounds;
    mc_storage *count;
    MC_TRY(mc_storage_new(c->device, sizeof(int32_t), &count));
    hold_carried(c, f, args);
    mica_status status = run_rounds(c, f, cancel, &rounds);
    if (status != MICA_OK && status != MICA_ECANCELLED)
        status = mc_fail_context(status, "while, round %lld", (long long)rounds);
    const int32_t number = (int32_t)rounds;
    if (status == MICA_OK) status = mc_storage_write(c->device, count, 0, &number, sizeof number);
    if (status != MICA_OK) {
        release_carried(c, f);
        mc_storage_release(count);
        return status;
    }
    give_carried(c, f, results);
    results[c->n_carried] = (mc_result){count, 0};
    return MICA_OK;
}

/* ---- scan ---- */

static mica_status copy_row(const mc_control *c, mc_storage *to, int64_t offset,
                            const mc_result *from, size_t bytes) {
    if (bytes == 0) return MICA_OK;
    if (to->host && from->storage->host) {
        memcpy((char *)to->host + offset, (const char *)from->storage->host + from->offset_bytes,
               bytes);
        return MICA_OK;
    }
    return c->device->backend->copy(c->device->state, MC_WITHIN_DEVICE, to->address, (size_t)offset,
                                    from->storage->address, (size_t)from->offset_bytes, bytes);
}

/* Puts the rows that step t made into the ys. */
static mica_status stack_rows(const mc_control *c, frame *f, int64_t t) {
    mica_status status = MICA_OK;
    for (uint32_t i = (uint32_t)c->n_carried; i < c->n_out; i++) {
        if (status == MICA_OK)
            status = copy_row(c, f->stacks[i], t * c->out_bytes[i], &f->made[i],
                              (size_t)c->out_bytes[i]);
        mc_storage_release(f->made[i].storage);
    }
    return status;
}

static mica_status run_steps(const mc_control *c, frame *f, const mc_binding *args,
                             const mica_cancel *cancel, int64_t *step) {
    for (*step = 0; *step < c->length; ++*step) {
        int64_t t = c->reverse ? c->length - 1 - *step : *step;
        MC_TRY(mc_cancel_check(cancel));
        for (int64_t i = c->n_carried; i < c->n_carried + c->n_xs; i++)
            f->values[i].offset_bytes = args[i].offset_bytes + t * c->row_bytes[i];
        MC_TRY(run_routine(c, f, 0, c->n_carried, cancel));
        carry(c, f);
        MC_TRY(stack_rows(c, f, t));
    }
    return MICA_OK;
}

static mica_status open_stacks(const mc_control *c, frame *f) {
    for (uint32_t i = 0; i < c->n_out; i++)
        f->stacks[i] = NULL;
    for (uint32_t i = (uint32_t)c->n_carried; i < c->n_out; i++)
        MC_TRY(mc_storage_new(c->device, (size_t)(c->length * c->out_bytes[i]), &f->stacks[i]));
    return MICA_OK;
}

static mica_status run_scan(mc_control *c, frame *f, const mc_binding *args, mc_result *results,
                            const mica_cancel *cancel) {
    int64_t step = 0;
    hold_carried(c, f, args);
    mica_status status = open_stacks(c, f);
    if (status == MICA_OK) {
        status = run_steps(c, f, args, cancel, &step);
        if (status != MICA_OK && status != MICA_ECANCELLED)
            status = mc_fail_context(status, "scan, step %lld", (long long)step);
    }
    if (status != MICA_OK) {
        release_carried(c, f);
        for (uint32_t i = 0; i < c->n_out; i++)
            mc_storage_release(f->stacks[i]);
        return status;
    }
    give_carried(c, f, results);
    for (uint32_t i = (uint32_t)c->n_carried; i < c->n_out; i++)
        results[i] = (mc_result){f->stacks[i], 0};
    return MICA_OK;
}

mica_status mc_control_run(mc_control *c, const mc_binding *args, mc_result *results,
                           const mica_cancel *cancel) {
    frame *f = take_frame(c);
    if (!f) return mc_fail_nomem("running control flow");
    mica_status status = c->op == MC_OP_IF      ? run_if(c, f, args, results, cancel)
                         : c->op == MC_OP_WHILE ? run_while(c, f, args, results, cancel)
                                                : run_scan(c, f, args, results, cancel);
    give_back(c, f);
    return status;
}

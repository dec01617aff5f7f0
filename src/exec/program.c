/* Programs: a graph of their own, found compiled, and runs of it. */
#include "exec/program.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/options.h"
#include "base/utf8.h"
#include "device/device.h"
#include "exec/bind.h"

/* What does not change between runs is filled in once. */
struct mc_program_buffers {
    mc_program_buffers *next; /* in the list of those that nobody uses */
    mc_binding *args;         /* [leaves] */
    uint64_t *scalars;
    mc_result *results;
};

typedef mc_program_buffers buffers;
typedef mc_program_place place;

mica_array mica_program_param(mica_scope *s, mica_dtype dtype, const int64_t *shape, int ndim) {
    mc_layout layout;
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "program_param: the scope is NULL");
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mica_status status = mc_layout_init(&layout, dtype, shape, ndim);
    for (int k = 0; status == MICA_OK && mc_dims_live() && k < ndim; k++)
        status = mc_scope_check_dim(s, shape[k]);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    return mc_leaf_param(s, &layout, false);
}

/* ---- building: the graph ---- */

static mica_status check_param(mica_scope *s, const mica_param *param, size_t i) {
    char what[48];
    snprintf(what, sizeof what, "program_build: parameter %zu", i);
    MC_TRY(mc_check_valid(param->array, what));
    if (param->array.scope != s) return mc_fail(MICA_EINVAL, "%s is of another scope", what);
    const mc_node *node = mc_node_of(param->array);
    if (node->state == MC_READY) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   node->state == MC_GONE ? "%s was moved away, overwritten or released"
                                          : "%s is computed from others and has no value yet",
                   what);
}

/* The name, or the number where it has none; seen: names of its kind before. */
static mica_status set_name(mica_program *p, const char *what, const char *name, size_t number,
                            mc_map *seen, const char **out) {
    char text[24];
    uint64_t first;
    snprintf(text, sizeof text, "%zu", number);
    if (!name) name = text;
    if (!*name || !mc_utf8_valid(name, strlen(name)))
        return mc_fail(MICA_EINVAL, "program_build: the name of %s %zu is empty, or no UTF-8", what,
                       number);
    if (mc_map_find(seen, mc_str_of(name), &first))
        return mc_fail(MICA_EINVAL, "program_build: %ss %zu and %zu have the same name, %.60s",
                       what, (size_t)first, number, name);
    *out = mc_arena_strndup(&p->arena, name, strlen(name));
    bool kept = *out && mc_map_put(seen, mc_str_of(*out), number);
    return kept ? MICA_OK : mc_fail_nomem("a program");
}

/* The parameters, as the first nodes of the program's graph; made, by node of s, tells them. */
static mica_status add_params(mica_program *p, mica_scope *s, const mica_param *params,
                              mc_map *seen, mica_array *made) {
    for (size_t i = 0; i < p->n_params; i++) {
        MC_TRY(check_param(s, &params[i], i));
        const mc_node *node = mc_node_of(params[i].array);
        if (mica_valid(made[params[i].array.node]))
            return mc_fail(MICA_EINVAL, "program_build: parameter %zu is there twice", i);
        MC_TRY(set_name(p, "parameter", params[i].name, i, seen, &p->names[i]));
        mc_layout layout = node->layout;
        mc_layout_set_dense(&layout); /* so that any argument can be laid out for it */
        mica_array leaf = mc_leaf_param(p->graph, &layout, params[i].donate);
        if (!mica_valid(leaf)) return mica_scope_status(p->graph);
        made[params[i].array.node] = leaf;
    }
    return MICA_OK;
}

static mica_array copy_value(mica_program *p, const mc_node *node, uint32_t i) {
    if (node->param && !node->storage)
        return mc_scope_fail(p->graph, MICA_EINVAL,
                             "program_build: results need a parameter that is not among params "
                             "(node %u of the scope)",
                             i);
    return mc_copy_leaf(p->graph, node);
}

/* What results need of s, copied behind the parameters. */
static mica_status copy_nodes(mica_program *p, const mc_trace *trace, mica_array *made,
                              mc_arena *arena) {
    uint32_t max = 1;
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        uint32_t n = mc_scope_node(trace->scope, trace->nodes[i])->n_in;
        if (n > max) max = n;
    }
    mica_array *in = mc_arena_alloc(arena, max * sizeof *in);
    if (!in) return mc_fail_nomem("a program");
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        uint32_t from = trace->nodes[i];
        const mc_node *node = mc_scope_node(trace->scope, from);
        if (mica_valid(made[from])) continue; /* a parameter */
        for (uint32_t k = 0; !mc_is_leaf(node) && k < node->n_in; k++)
            in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : made[node->in[k]];
        made[from] = mc_is_leaf(node)
                         ? copy_value(p, node, from)
                         : mc_record(p->graph, node->op, node->attr, in, (int)node->n_in);
        if (!mica_valid(made[from])) return mica_scope_status(p->graph);
    }
    return MICA_OK;
}

static mica_status check_results(mica_scope *s, const mica_array *results, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char what[48];
        snprintf(what, sizeof what, "program_build: result %zu", i);
        MC_TRY(mc_check_valid(results[i], what));
        if (results[i].scope != s) return mc_fail(MICA_EINVAL, "%s is of another scope", what);
    }
    return MICA_OK;
}

static mica_status open_lists(mica_program *p) {
    p->names = mc_arena_calloc(&p->arena, p->n_params * sizeof *p->names);
    p->places = mc_arena_calloc(&p->arena, p->n_params * sizeof *p->places);
    p->results = mc_arena_calloc(&p->arena, p->n_results * sizeof *p->results);
    p->result_names = mc_arena_calloc(&p->arena, p->n_results * sizeof *p->result_names);
    bool done = p->names && p->places && p->results && p->result_names;
    return done ? MICA_OK : mc_fail_nomem("a program");
}

static mica_status copy_graph(mica_program *p, mica_scope *s, const mica_param *params,
                              const mica_array *results, mc_arena *arena, mc_trace *trace) {
    MC_TRY(check_results(s, results, p->n_results));
    mica_array *made = mc_arena_calloc(arena, (mc_scope_count(s) + 1) * sizeof *made);
    if (!made) return mc_fail_nomem("a program");
    mc_map seen = {0};
    mica_status status = add_params(p, s, params, &seen, made);
    mc_map_deinit(&seen);
    MC_TRY(status);
    MC_TRY(mc_trace_make(trace, arena, s, results, p->n_results));
    MC_TRY(copy_nodes(p, trace, made, arena));
    for (size_t i = 0; i < p->n_results; i++)
        p->results[i] = made[results[i].node];
    return MICA_OK;
}

/* ---- building: the executable ---- */

/* Which leaf of the compiled graph each parameter is. */
static void find_places(mica_program *p) {
    uint32_t scalars = 0;
    for (size_t i = 0; i < p->n_params; i++)
        p->places[i] = (place){.leaf = MC_ABSENT};
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        bool scalar = mc_is_scalar(mc_scope_node(p->graph, p->leaves[i]));
        if (p->leaves[i] < p->n_params)
            p->places[p->leaves[i]] = (place){.leaf = i, .scalar = scalar, .number = scalars};
        scalars += scalar;
    }
}

static mica_status compile(mica_program *p, mc_arena *arena, mc_trace *trace) {
    MC_TRY(mc_trace_make(trace, arena, p->graph, p->results, p->n_results));
    p->n_leaves = trace->n_leaves;
    p->leaves = mc_arena_alloc(&p->arena, p->n_leaves * sizeof *p->leaves);
    if (!p->leaves) return mc_fail_nomem("a program");
    memcpy(p->leaves, trace->leaves, p->n_leaves * sizeof *p->leaves);
    find_places(p);
    return mc_cached_get(p->device, trace, &p->cached);
}

static mica_status name_results(mica_program *p, const char *const *names) {
    mc_map seen = {0};
    mica_status status = MICA_OK;
    for (size_t i = 0; i < p->n_results && status == MICA_OK; i++)
        status = set_name(p, "result", names ? names[i] : NULL, i, &seen, &p->result_names[i]);
    mc_map_deinit(&seen);
    return status;
}

static mica_status build(mica_program *p, mica_scope *s, const mica_param *params,
                         const mica_array *results, const mica_program_options *options) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    MC_TRY(mica_scope_open(p->device, &p->graph));
    mica_status status = mc_scope_take_symbols(p->graph, s);
    if (status == MICA_OK) status = open_lists(p);
    if (status == MICA_OK) status = name_results(p, options->result_names);
    if (status == MICA_OK) status = copy_graph(p, s, params, results, &arena, &trace);
    if (status == MICA_OK) status = mc_program_find_symbols(p);
    if (status == MICA_OK && p->n_symbols == 0) status = compile(p, &arena, &trace);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

mica_status mica_program_build(mica_scope *s, const mica_param *params, size_t n_params,
                               const mica_array *results, size_t n_results,
                               const mica_program_options *options, mica_program **program) {
    mica_program_options o;
    if (!program) return mc_fail(MICA_EINVAL, "program_build: program is NULL");
    *program = NULL;
    if (!s || (!params && n_params > 0) || (!results && n_results > 0))
        return mc_fail(MICA_EINVAL, "program_build: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_program_options, result_names, &o, options));
    MC_TRY(mica_wait(s));
    MC_TRY(mica_scope_status(s));
    mica_program *p = mc_calloc(1, sizeof *p);
    if (!p) return mc_fail_nomem("a program");
    atomic_init(&p->users, 1u);
    p->device = mica_scope_device(s);
    p->n_params = n_params;
    p->n_results = n_results;
    mica_status status = MICA_OK;
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        mc_free(p);
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for a program");
    }
    status = build(p, s, params, results, &o);
    if (status != MICA_OK) mica_program_close(&p);
    *program = p;
    return status;
}

mica_program *mc_program_retain(const mica_program *p) {
    mica_program *own = (mica_program *)(uintptr_t)p; /* the count alone changes */
    atomic_fetch_add_explicit(&own->users, 1, memory_order_relaxed);
    return own;
}

void mica_program_close(mica_program **program) {
    if (!program || !*program) return;
    mica_program *p = *program;
    *program = NULL;
    if (atomic_fetch_sub_explicit(&p->users, 1, memory_order_acq_rel) > 1) return;
    while (p->spare) {
        buffers *b = p->spare;
        p->spare = b->next;
        mc_free(b);
    }
    mc_cached_put(p->device, p->cached);
    mica_scope_close(&p->graph); /* which keeps the device */
    mc_arena_deinit(&p->arena);
    pthread_mutex_destroy(&p->lock);
    mc_free(p);
}

/* ---- running ---- */

/* New buffers; the leaves that have values are bound. */
static buffers *new_buffers(const mica_program *p) {
    const mc_compiled *c = p->cached->compiled;
    size_t args = c->n_params * sizeof(mc_binding), scalars = c->n_scalars * sizeof(uint64_t);
    size_t results = c->n_results * sizeof(mc_result);
    buffers *b = mc_calloc(1, sizeof *b + args + scalars + results);
    if (!b) return NULL;
    char *next = (char *)(b + 1);
    b->args = (mc_binding *)(void *)next;
    b->results = (mc_result *)(void *)(next + args);
    b->scalars = (uint64_t *)(void *)(next + args + results);
    uint64_t *scalar = b->scalars;
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(p->graph, p->leaves[i]);
        if (leaf->param)
            scalar += mc_is_scalar(leaf);
        else
            (void)mc_bind_leaf(leaf, &b->args[i], &scalar); /* it has a value */
    }
    return b;
}

static buffers *take_buffers(mica_program *p) {
    pthread_mutex_lock(&p->lock);
    buffers *b = p->spare;
    if (b) p->spare = b->next;
    pthread_mutex_unlock(&p->lock);
    return b ? b : new_buffers(p);
}

static void give_back(mica_program *p, buffers *b) {
    pthread_mutex_lock(&p->lock);
    b->next = p->spare;
    p->spare = b;
    pthread_mutex_unlock(&p->lock);
}

/* Evaluates argument i, which may not write over the others for that. */
static mica_status eval_arg(const mica_program *p, size_t i, const mica_array *args) {
    char what[96];
    snprintf(what, sizeof what, "program_run: argument %.60s", p->names[i]);
    MC_TRY(mc_check_valid(args[i], what));
    for (size_t k = 0; k < p->n_params; k++)
        if (args[k].scope == args[i].scope && mica_valid(args[k]))
            mc_node_of(args[k])->movable = false;
    return mica_eval(args[i].scope, args[i]);
}

static mica_status check_arg(const mica_program *p, size_t i, const mica_array *args) {
    const mc_layout *want = &mc_scope_node(p->graph, (uint32_t)i)->layout;
    mica_array arg = args[i];
    /* What runs in the background may read a donated argument, or write over any. */
    if (mica_valid(arg) && mc_scope_run(arg.scope)) MC_TRY(mica_wait(arg.scope));
    if (!mica_valid(arg) || mc_node_of(arg)->state != MC_READY) MC_TRY(eval_arg(p, i, args));
    if (mica_scope_device(arg.scope) != p->device)
        return mc_fail(MICA_EINVAL, "program_run: argument %s is of another device", p->names[i]);
    const mc_node *node = mc_node_of(arg);
    if ((node->param && !node->storage) || node->length)
        return mc_fail(MICA_EINVAL,
                       "program_run: argument %s is a parameter, or the length of a symbol, "
                       "without a value",
                       p->names[i]);
    const mc_layout *got = &node->layout;
    if (got->dtype == want->dtype && mc_layout_same_shape(got, want)) return MICA_OK;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(got->dtype != want->dtype ? MICA_EDTYPE : MICA_ESHAPE,
                   "program_run: argument %s is %s, want %s", p->names[i], mc_layout_text(got, a),
                   mc_layout_text(want, b));
}

/* The argument with memory and dense, as the parameter is: itself, or a copy in `into`. */
static mica_status lay_out(const mica_program *p, size_t i, mica_scope *into, mica_array *arg) {
    const mc_layout *want = &mc_scope_node(p->graph, (uint32_t)i)->layout;
    const mc_node *node = mc_node_of(*arg);
    if (node->scalar) {
        *arg = mica_from_data(into, &node->value, want->dtype, want->shape, want->ndim);
        return mica_scope_status(into);
    }
    if (mc_layout_is_dense(&node->layout)) return MICA_OK;
    *arg = mc_record(into, MC_OP_CONTIGUOUS, NULL, arg, 1);
    MC_TRY(mica_scope_status(into));
    return mica_eval(into, *arg);
}

/* One number's bits, from wherever it is. */
static mica_status read_scalar(mica_array arg, uint64_t *bits) {
    const mc_node *node = mc_node_of(arg);
    *bits = node->value;
    if (node->scalar) return MICA_OK;
    *bits = 0;
    return mc_storage_read(mica_scope_device(arg.scope), node->storage, (size_t)node->offset_bytes,
                           bits, mica_dtype_bytes(node->layout.dtype));
}

static mica_status bind_arg(const mica_program *p, buffers *b, size_t i, mica_scope *into,
                            mica_array arg) {
    const place *at = &p->places[i];
    if (at->leaf == MC_ABSENT) return MICA_OK;
    if (at->scalar) return read_scalar(arg, &b->scalars[at->number]);
    MC_TRY(lay_out(p, i, into, &arg));
    uint64_t *none = NULL;
    MC_TRY(mc_bind_leaf(mc_node_of(arg), &b->args[at->leaf], &none));
    /* So that no donated argument that shares its memory is written over. */
    if (!mc_scope_node(p->graph, (uint32_t)i)->movable)
        mc_storage_retain(b->args[at->leaf].storage);
    return MICA_OK;
}

/* Ends the bindings of parameters [0, n). */
static void unbind_args(const mica_program *p, buffers *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const place *at = &p->places[i];
        if (at->leaf == MC_ABSENT || at->scalar) continue;
        if (!mc_scope_node(p->graph, (uint32_t)i)->movable)
            mc_storage_release(b->args[at->leaf].storage);
        b->args[at->leaf] = (mc_binding){.storage = NULL};
    }
}

/* Checks that no donated argument is there twice, which a mark on its node tells. */
static mica_status mark_donated(const mica_program *p, const mica_array *args, bool mark) {
    mica_status status = MICA_OK;
    for (size_t i = 0; i < p->n_params; i++) {
        if (!mc_scope_node(p->graph, (uint32_t)i)->movable) continue;
        mc_node *node = mc_node_of(args[i]);
        if (mark && node->kept)
            status = mc_fail(MICA_EINVAL, "program_run: argument %s is donated twice", p->names[i]);
        node->kept = mark;
    }
    return status;
}

static mica_status check_args(const mica_program *p, const mica_array *args) {
    for (size_t i = 0; i < p->n_params; i++)
        MC_TRY(check_arg(p, i, args));
    mica_status status = mark_donated(p, args, true);
    (void)mark_donated(p, args, false);
    return status;
}

static void give_up_donated(const mica_program *p, const mica_array *args) {
    for (size_t i = 0; i < p->n_params; i++)
        if (mc_scope_node(p->graph, (uint32_t)i)->movable && !mc_node_of(args[i])->scalar)
            mc_node_leave(mc_node_of(args[i]), MC_GONE);
}

/* The results as arrays of `into`; their references are taken over. */
static mica_status hand_out(const mica_program *p, buffers *b, mica_scope *into,
                            mica_array *results) {
    const mc_compiled *c = p->cached->compiled;
    for (size_t i = 0; i < p->n_results; i++) {
        results[i] =
            mc_leaf(into, &c->results[i], b->results[i].storage, b->results[i].offset_bytes);
        b->results[i] = (mc_result){0};
    }
    return mica_scope_status(into);
}

/* How a program is run. fence NULL: waits. keep: donated arguments stay if it fails. */
typedef struct manner {
    mc_fence *fence;
    bool keep;
} manner;

static mica_status run(mica_program *p, buffers *b, mica_scope *into, const mica_array *args,
                       mica_array *results, manner how) {
    mc_fence *fence = how.fence;
    const mc_compiled *c = p->cached->compiled;
    size_t bound = 0;
    mica_status status = MICA_OK;
    while (bound < p->n_params && status == MICA_OK) {
        status = bind_arg(p, b, bound, into, args[bound]);
        if (status == MICA_OK) bound++;
    }
    if (status == MICA_OK) {
        const mica_cancel *cancel = mc_scope_cancel(into);
        status = fence ? mc_compiled_launch(c, b->args, b->scalars, b->results, cancel, fence)
                       : mc_compiled_run(c, b->args, b->scalars, b->results, cancel);
        unbind_args(p, b, bound);
        if (status == MICA_OK) status = hand_out(p, b, into, results);
        if (status == MICA_OK || !how.keep) give_up_donated(p, args);
        if (status != MICA_OK && fence) {
            (void)mc_device_wait(p->device, *fence);
            *fence = 0;
        }
        return status;
    }
    unbind_args(p, b, bound);
    return status;
}

static void make_invalid(const mica_program *p, mica_scope *into, mica_array *results) {
    for (size_t i = 0; i < p->n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
}

/* Runs a program with symbols, bound to the arguments' lengths. */
static mica_status run_bound(const mica_program *p, mica_scope *into, const mica_array *args,
                             mica_array *results, mc_fence *fence) {
    int64_t lengths[MC_MAX_SYMBOLS];
    mica_program *bound;
    for (size_t i = 0; i < p->n_symbols; i++)
        lengths[i] = -1;
    for (size_t i = 0; i < p->n_params; i++) {
        char what[96];
        snprintf(what, sizeof what, "program_run: argument %.60s", p->names[i]);
        MC_TRY(mc_check_valid(args[i], what));
        mica_status status = mc_program_match(p, i, mc_layout_of(args[i]), lengths);
        if (status != MICA_OK) return mc_fail_context(status, "program_run");
    }
    MC_TRY(mc_program_bind(p, lengths, &bound));
    mica_status status = fence ? mc_program_launch(bound, into, args, results, fence)
                               : mica_program_run(bound, into, args, results);
    if (status == MICA_OK && fence && *fence) status = mc_device_wait(p->device, *fence);
    if (fence) *fence = 0; /* the plan goes with the program */
    if (status != MICA_OK) make_invalid(p, into, results);
    mica_program_close(&bound);
    return status;
}

/* mica_program_run, and mc_program_launch where there is a fence. */
static mica_status start(const mica_program *program, mica_scope *into, const mica_array *args,
                         mica_array *results, manner how) {
    mica_program *p = (mica_program *)(uintptr_t)program; /* only the list of buffers changes */
    if (!p || !into || (!args && p->n_params > 0) || (!results && p->n_results > 0))
        return mc_fail(MICA_EINVAL, "program_run: NULL");
    make_invalid(p, into, results);
    MC_TRY(mica_wait(into));
    MC_TRY(mica_scope_status(into));
    if (mica_scope_device(into) != p->device)
        return mc_fail(MICA_EINVAL, "program_run: the scope is of another device");
    if (p->n_symbols > 0) return run_bound(p, into, args, results, how.fence);
    MC_TRY(check_args(p, args));
    buffers *b = take_buffers(p);
    if (!b) return mc_fail_nomem("running a program");
    mica_status status = run(p, b, into, args, results, how);
    give_back(p, b);
    if (status == MICA_OK) return MICA_OK;
    make_invalid(p, into, results);
    mc_scope_forget_error(into); /* what was recorded in it is the run's own */
    return status;
}

mica_status mica_program_run(const mica_program *program, mica_scope *into, const mica_array *args,
                             mica_array *results) {
    return start(program, into, args, results, (manner){.fence = NULL});
}

mica_status mc_program_run_kept(const mica_program *program, mica_scope *into,
                                const mica_array *args, mica_array *results) {
    return start(program, into, args, results, (manner){.keep = true});
}

mica_status mc_program_launch(const mica_program *program, mica_scope *into, const mica_array *args,
                              mica_array *results, mc_fence *fence) {
    *fence = 0;
    return start(program, into, args, results, (manner){.fence = fence});
}

/* ---- asking ---- */

size_t mica_program_param_count(const mica_program *program) {
    return program ? program->n_params : 0;
}

size_t mica_program_result_count(const mica_program *program) {
    return program ? program->n_results : 0;
}

/* open: what symbols leave open; NULL: nothing. */
static void fill_port(mica_port *port, const char *name, const mc_node *node,
                      const mica_port *open) {
    const mica_port found = {.name = name,
                             .dtype = node->layout.dtype,
                             .donate = node->movable,
                             .ndim = node->layout.ndim,
                             .shape = open ? open->shape : node->layout.shape,
                             .symbols = open ? open->symbols : NULL};
    MC_INFO_COPY(mica_port, symbols, port, &found);
}

mica_status mica_program_get_param(const mica_program *program, size_t i, mica_port *port) {
    if (!program || !port) return mc_fail(MICA_EINVAL, "program_get_param: NULL");
    if (i >= program->n_params)
        return mc_fail(MICA_EINVAL, "program_get_param: there is no parameter %zu of %zu", i,
                       program->n_params);
    fill_port(port, program->names[i], mc_scope_node(program->graph, (uint32_t)i),
              program->ports ? &program->ports[i] : NULL);
    return MICA_OK;
}

mica_status mica_program_get_result(const mica_program *program, size_t i, mica_port *port) {
    if (!program || !port) return mc_fail(MICA_EINVAL, "program_get_result: NULL");
    if (i >= program->n_results)
        return mc_fail(MICA_EINVAL, "program_get_result: there is no result %zu of %zu", i,
                       program->n_results);
    fill_port(port, program->result_names[i], mc_node_of(program->results[i]),
              program->ports ? &program->ports[program->n_params + i] : NULL);
    return MICA_OK;
}

/* The elements that the leaves of the compiled graph have, by whether they are parameters. */
static void add_leaves(const mica_program *p, mica_program_memory *memory) {
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(p->graph, p->leaves[i]);
        uint64_t bytes = mc_is_scalar(leaf) ? 0 : (uint64_t)mc_layout_bytes(&leaf->layout);
        *(leaf->param ? &memory->argument_bytes : &memory->constant_bytes) += bytes;
    }
}

mica_status mica_program_get_memory(const mica_program *program, mica_program_memory *memory) {
    if (!program || !memory) return mc_fail(MICA_EINVAL, "program_get_memory: NULL");
    if (program->n_symbols > 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "program_get_memory: symbol %s has no value (mica_program_bind)",
                       program->symbols[0].name);
    const mc_compiled *c = program->cached->compiled;
    const mc_backend *backend = program->device->backend;
    mc_launch_memory launch = {0};
    if (!c->whole || !backend->measure)
        return mc_fail(MICA_EUNSUPPORTED,
                       "program_get_memory: before a run nobody knows what %s takes%s",
                       backend->name, c->whole ? "" : " for control flow, or beside other devices");
    MC_TRY(backend->measure(c->segments->executable, &launch));
    mica_program_memory found = {.peak_bytes = launch.results + launch.others,
                                 .result_bytes = launch.results};
    add_leaves(program, &found);
    MC_INFO_COPY(mica_program_memory, constant_bytes, memory, &found);
    return MICA_OK;
}

void mc_program_mark_needed(const mica_program *p, bool *needed) {
    for (size_t i = 0; i < p->n_results; i++)
        needed[p->results[i].node] = true;
    for (uint32_t i = mc_scope_count(p->graph); i-- > 0;) {
        const mc_node *node = mc_scope_node(p->graph, i);
        for (uint32_t k = 0; needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) needed[node->in[k]] = true;
    }
}

mica_status mc_program_ports(const mica_program *p, mc_arena *arena, mc_graph_ports *ports) {
    mc_graph_port *params = mc_arena_alloc(arena, p->n_params * sizeof *params);
    uint32_t *results = mc_arena_alloc(arena, p->n_results * sizeof *results);
    if (!params || !results) return mc_fail_nomem("a program");
    for (uint32_t i = 0; i < p->n_params; i++)
        params[i] = (mc_graph_port){p->names[i], i, mc_scope_node(p->graph, i)->movable};
    for (size_t i = 0; i < p->n_results; i++)
        results[i] = p->results[i].node;
    *ports = (mc_graph_ports){.params = params,
                              .n_params = p->n_params,
                              .results = results,
                              .result_names = p->result_names,
                              .n_results = p->n_results,
                              .symbols = p->symbols,
                              .n_symbols = p->n_symbols};
    return MICA_OK;
}

mica_status mica_program_verify(const mica_program *program) {
    if (!program) return mc_fail(MICA_EINVAL, "program_verify: NULL");
    return mc_graph_verify(program->graph);
}

mica_status mica_program_print(const mica_program *program, char **text) {
    mc_buffer buffer = {0};
    mc_arena arena = {0};
    mc_graph_ports ports;
    if (!program || !text) return mc_fail(MICA_EINVAL, "program_print: NULL");
    *text = NULL;
    mica_status status = mc_program_ports(program, &arena, &ports);
    if (status == MICA_OK) status = mc_graph_print(program->graph, &ports, &buffer);
    if (status == MICA_OK && !mc_buffer_cstr(&buffer)) status = mc_fail_nomem("printing a program");
    if (status == MICA_OK)
        *text = buffer.data; /* the caller's */
    else
        mc_buffer_deinit(&buffer);
    mc_arena_deinit(&arena);
    return status;
}

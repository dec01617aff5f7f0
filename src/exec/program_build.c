/* Building programs: a graph of their own, found compiled. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/options.h"
#include "base/utf8.h"
#include "exec/bind.h"
#include "exec/program.h"

/* ---- the graph ---- */

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
        mc_node_of(leaf)->fallback = mc_leaf_falls_back(node);
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

/* ---- the executable ---- */

/* Which leaf of the compiled graph each parameter is. */
static void find_places(mica_program *p) {
    uint32_t scalars = 0;
    for (size_t i = 0; i < p->n_params; i++)
        p->places[i] = (mc_program_place){.leaf = MC_ABSENT};
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        bool scalar = mc_is_scalar(mc_scope_node(p->graph, p->leaves[i]));
        if (p->leaves[i] < p->n_params)
            p->places[p->leaves[i]] =
                (mc_program_place){.leaf = i, .scalar = scalar, .number = scalars};
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
        mc_program_buffers *b = p->spare;
        p->spare = b->next;
        mc_free(b);
    }
    mc_cached_put(p->device, p->cached);
    mica_scope_close(&p->graph); /* which keeps the device */
    mc_arena_deinit(&p->arena);
    pthread_mutex_destroy(&p->lock);
    mc_free(p);
}

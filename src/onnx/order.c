/* The order in which the nodes of a graph are built: each behind those whose results it reads, else
 * as the file has them. */
#include "onnx/import.h"

#include "base/alloc.h"

/* What nodes read of each other: the nodes that node i waits for are list[first[i]] to
 * list[first[i + 1]]. */
typedef struct waits {
    mc_map makers;   /* by name: the node that makes it */
    mc_buffer list;  /* uint32_t */
    mc_buffer first; /* size_t */
    bool sorted;     /* each node waits for earlier ones alone */
} waits;

static mica_status add_reads(waits *w, const mc_onnx_proto_node *node, uint32_t at) {
    uint64_t maker;
    for (size_t k = 0; k < node->n_input; k++) {
        if (!mc_map_find(&w->makers, mc_str_of(node->input[k]), &maker) || maker == at) continue;
        w->sorted = w->sorted && maker < at;
        if (!MC_BUFFER_PUSH(&w->list, uint32_t, (uint32_t)maker)) return mc_fail_nomem("a graph");
    }
    for (size_t k = 0; k < node->n_attribute; k++) { /* no deeper than MC_ONNX_DEPTH */
        const mc_onnx_graph *graph = node->attribute[k]->g;
        for (size_t i = 0; graph && i < graph->n_node; i++)
            MC_TRY(add_reads(w, graph->node[i], at));
    }
    return MICA_OK;
}

static mica_status list_waits(waits *w, const mc_onnx_graph *graph) {
    w->sorted = true;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            if (*graph->node[i]->output[k] &&
                !mc_map_put(&w->makers, mc_str_of(graph->node[i]->output[k]), i))
                return mc_fail_nomem("a graph");
    for (size_t i = 0; i <= graph->n_node; i++) {
        if (!MC_BUFFER_PUSH(&w->first, size_t, MC_BUFFER_COUNT(&w->list, uint32_t)))
            return mc_fail_nomem("a graph");
        if (i < graph->n_node) MC_TRY(add_reads(w, graph->node[i], (uint32_t)i));
    }
    return MICA_OK;
}

enum { NEW, OPEN, DONE };

/* A node and all that it waits for, depth first, with a stack of its own.
 *
 * next   [n] place in the list that each open node goes on at
 * stack  [n] */
static mica_status visit(const waits *w, const mc_onnx_graph *graph, uint32_t root, uint8_t *state,
                         size_t *next, uint32_t *stack, uint32_t *order, size_t *n) {
    const size_t *first = MC_BUFFER_AT(&w->first, size_t);
    size_t depth = 0;
    if (state[root] == DONE) return MICA_OK;
    stack[depth++] = root;
    state[root] = OPEN;
    next[root] = first[root];
    while (depth > 0) {
        uint32_t at = stack[depth - 1];
        if (next[at] == first[at + 1]) {
            state[at] = DONE;
            order[(*n)++] = at;
            depth--;
            continue;
        }
        uint32_t on = MC_BUFFER_AT(&w->list, uint32_t)[next[at]++];
        if (state[on] == OPEN)
            return mc_fail(MICA_EFORMAT, "node %u, %s, waits for its own results", on,
                           graph->node[on]->op_type);
        if (state[on] == DONE) continue;
        state[on] = OPEN;
        next[on] = first[on];
        stack[depth++] = on;
    }
    return MICA_OK;
}

mica_status mc_onnx_order(const mc_onnx_graph *graph, uint32_t *order) {
    waits w = {.sorted = false};
    size_t n = graph->n_node, done = 0;
    mica_status status = list_waits(&w, graph);
    if (status == MICA_OK && w.sorted) {
        for (size_t i = 0; i < n; i++)
            order[i] = (uint32_t)i;
    } else if (status == MICA_OK) {
        size_t *next = mc_calloc(n + 1, sizeof *next);
        uint32_t *stack = mc_calloc(n + 1, sizeof *stack);
        uint8_t *state = mc_calloc(n + 1, sizeof *state);
        if (!next || !stack || !state) status = mc_fail_nomem("a graph");
        for (size_t i = 0; status == MICA_OK && i < n; i++)
            status = visit(&w, graph, (uint32_t)i, state, next, stack, order, &done);
        mc_free(next);
        mc_free(stack);
        mc_free(state);
    }
    mc_map_deinit(&w.makers);
    mc_buffer_deinit(&w.list);
    mc_buffer_deinit(&w.first);
    return status;
}

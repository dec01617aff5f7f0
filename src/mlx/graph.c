#include "mlx/graph.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "mlx/emit.h"

/* ---- looking at the graph ---- */

void mc_mlx_graph_deinit(mc_mlx_graph *g) {
    mc_free(g->value);
    mc_free(g->last);
    mc_free(g->needed);
    mc_free(g->leaf);
}

static const mc_node *node_at(const mc_mlx_graph *g, uint32_t i) {
    return mc_scope_node(g->lowered->graph, i);
}

static void mark_needed(mc_mlx_graph *g) {
    for (uint32_t i = 0; i < g->lowered->n_results; i++) {
        g->needed[g->lowered->results[i]] = true;
        g->last[g->lowered->results[i]] = g->n_nodes;
    }
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const mc_node *node = node_at(g, i);
        for (uint32_t k = 0; g->needed[i] && k < node->n_in; k++) {
            if (node->in[k] == MC_ABSENT) continue;
            g->needed[node->in[k]] = true;
            if (g->last[node->in[k]] < i) g->last[node->in[k]] = i;
        }
    }
}

static mica_status look_at(mc_mlx_graph *g, uint32_t i) {
    const mc_node *node = node_at(g, i);
    char text[MC_LAYOUT_TEXT];
    g->value[i] = g->n_values;
    g->n_values += (uint32_t)mc_op_n_out(mc_op_get(node->op));
    if (node->n_in > g->max_in) g->max_in = node->n_in;
    if (node->op == MC_OP_LEAF && !node->scalar) g->leaf[node->value] = i;
    for (int k = 0; k < node->layout.ndim; k++)
        if (node->layout.shape[k] > INT_MAX)
            return mc_fail(MICA_EUNSUPPORTED, "mlx: %s: %s: lengths are at most 2147483647",
                           mc_op_get(node->op)->name, mc_layout_text(&node->layout, text));
    return MICA_OK;
}

mica_status mc_mlx_graph_init(mc_mlx_graph *g, const mc_lowered *lowered) {
    *g = (mc_mlx_graph){.lowered = lowered, .n_nodes = mc_scope_count(lowered->graph), .max_in = 1};
    g->value = mc_calloc(g->n_nodes + 1, sizeof *g->value);
    g->last = mc_calloc(g->n_nodes + 1, sizeof *g->last);
    g->needed = mc_calloc(g->n_nodes + 1, sizeof *g->needed);
    g->leaf = mc_array_alloc(lowered->n_params + 1, sizeof *g->leaf);
    if (!g->value || !g->last || !g->needed || !g->leaf) return mc_fail_nomem("a graph for MLX");
    for (uint32_t i = 0; i < lowered->n_params; i++)
        g->leaf[i] = MC_ABSENT;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        MC_TRY(look_at(g, i));
    mark_needed(g);
    return MICA_OK;
}

/* ---- building ---- */

typedef struct builder {
    const mc_mlx_graph *graph;
    mlx_array *values;        /* [n_values] */
    mlx_array *casts;         /* [n_values] each in another dtype, if an op asked for it */
    mlx_array *param_casts;   /* [n_params] where those of parameters go; NULL: nowhere */
    mlx_array *in;            /* [max_in] of the op at hand */
    mlx_array **to;           /* [max_in] where casts of these are */
    const uint64_t **numbers; /* [max_in] the bits of these, of those that are known */
    const uint64_t *scalars;  /* the run's; NULL: they are not known */
    const mc_layout **from;
    mlx_stream stream;
    mc_mlx_place place;
    bool eager;
    mc_mlx_checks checks;
    mc_mlx_masks masks;
    mc_mlx_bounds bounds;
} builder;

static void drop(mlx_array *array) {
    if (array->ctx) mc_mlx.array_free(*array);
    *array = (mlx_array){0};
}

/* Frees the cast of a node's first result, or hands it out. */
static void leave_cast(builder *b, uint32_t i) {
    const mc_node *node = node_at(b->graph, i);
    mlx_array *cast = &b->casts[b->graph->value[i]];
    if (b->param_casts && node->op == MC_OP_LEAF && !node->scalar) {
        b->param_casts[node->value] = *cast;
        *cast = (mlx_array){0};
    }
    drop(cast);
}

/* Frees the operands that nothing reads after node i: then the op may overwrite them. */
static void drop_read(builder *b, uint32_t i) {
    const mc_mlx_graph *g = b->graph;
    const mc_node *node = node_at(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
        uint32_t in = node->in[k];
        if (in == MC_ABSENT || g->last[in] != i) continue;
        int n_out = mc_op_n_out(mc_op_get(node_at(g, in)->op));
        leave_cast(b, in);
        for (int r = 0; r < n_out; r++) {
            drop(&b->values[g->value[in] + (uint32_t)r]);
            drop(&b->casts[g->value[in] + (uint32_t)r]);
        }
    }
}

static mica_status evaluate_op(const builder *b, uint32_t i) {
    const mc_node *node = node_at(b->graph, i);
    char what[MC_LAYOUT_TEXT + 96], text[MC_LAYOUT_TEXT];
    for (int r = 0; r < mc_op_n_out(mc_op_get(node->op)); r++) {
        if (mc_mlx.array_eval(b->values[b->graph->value[i] + (uint32_t)r]) == 0) continue;
        snprintf(what, sizeof what, "%s (node %u, %s)", mc_op_get(node->op)->name, i,
                 mc_layout_text(&node->layout, text));
        return mc_mlx_fail(what);
    }
    return MICA_OK;
}

/* The bits of a value that is a number and known now; NULL: it is not. */
static const uint64_t *find_number(const builder *b, uint32_t i) {
    const mc_node *node = node_at(b->graph, i);
    if (node->op != MC_OP_LEAF) return NULL;
    if (node->scalar) return &node->value;
    const mc_lowered_param *param = &b->graph->lowered->params[node->value];
    return param->scalar && b->scalars ? &b->scalars[param->index] : NULL;
}

static mica_status build_op(builder *b, uint32_t i) {
    const mc_mlx_graph *g = b->graph;
    const mc_node *node = node_at(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
        bool absent = node->in[k] == MC_ABSENT;
        b->in[k] = absent ? (mlx_array){0} : b->values[g->value[node->in[k]]];
        b->to[k] = absent ? NULL : &b->casts[g->value[node->in[k]]];
        b->from[k] = absent ? NULL : &node_at(g, node->in[k])->layout;
        b->numbers[k] = absent ? NULL : find_number(b, node->in[k]);
    }
    mc_mlx_call call = {
        .op = node->op,
        .attr = node->attr,
        .n_in = (int)node->n_in,
        .nodes = node->in,
        .in = b->in,
        .casts = b->to,
        .numbers = b->numbers,
        .from = b->from,
        .to = mc_node_results(node),
        .out = &b->values[g->value[i]],
        .stream = b->stream,
        .on_cpu = b->place == MC_MLX_ON_CPU,
        .on_cuda = b->place == MC_MLX_ON_CUDA,
        .checks = &b->checks,
        .masks = &b->masks,
        .bounds = &b->bounds,
    };
    MC_TRY(mc_mlx_emit(&call));
    drop_read(b, i);
    return b->eager ? evaluate_op(b, i) : MICA_OK;
}

static mica_status build_node(builder *b, uint32_t i) {
    const mc_mlx_graph *g = b->graph;
    const mc_node *node = node_at(g, i);
    mlx_array *value = &b->values[g->value[i]];
    int none = 0, failed = 0;
    if (node->op == MC_OP_PART) {
        const mc_attr_part *part = node->attr;
        failed = mc_mlx.array_set(value, b->values[g->value[node->in[0]] + (uint32_t)part->index]);
        drop_read(b, i);
    } else if (node->op != MC_OP_LEAF) {
        return build_op(b, i);
    } else if (node->scalar) {
        *value = mc_mlx.array_new_data(&node->value, &none, 0, mc_mlx_dtype(node->layout.dtype));
        failed = !value->ctx;
    }
    return failed ? mc_mlx_fail("a value of the graph") : MICA_OK;
}

/* A value as its node has it: dense, and of its dtype. */
static int finish(const builder *b, uint32_t node, mlx_array *x) {
    mlx_dtype dtype = mc_mlx_dtype(node_at(b->graph, node)->layout.dtype);
    return mc_mlx.astype(x, b->values[b->graph->value[node]], dtype, b->stream) ||
           mc_mlx.contiguous(x, *x, false, b->stream);
}

/* Adds the results, and the arrays of the checks. */
static mica_status hand_out(builder *b, mlx_vector_array results) {
    const mc_lowered *l = b->graph->lowered;
    mlx_array x = {0};
    int failed = 0;
    for (uint32_t i = 0; i < l->n_results && !failed; i++) {
        failed = finish(b, l->results[i], &x) || mc_mlx.vector_array_append_value(results, x);
        drop(&x);
    }
    for (size_t i = 0; i < mc_mlx.vector_array_size(b->checks.arrays) && !failed; i++) {
        failed = mc_mlx.vector_array_get(&x, b->checks.arrays, i) ||
                 mc_mlx.vector_array_append_value(results, x);
        drop(&x);
    }
    return failed ? mc_mlx_fail("the results") : MICA_OK;
}

/* What drop_read left: those of results, or after an error. */
static void leave_cast_of(builder *b, uint32_t param) {
    uint32_t leaf = b->graph->leaf[param];
    if (b->casts[b->graph->value[leaf]].ctx) leave_cast(b, leaf);
}

static void close_builder(builder *b, mc_buffer *checks) {
    bool room = b->values && b->casts;
    for (uint32_t i = 0; room && i < b->graph->lowered->n_params; i++)
        if (b->graph->leaf[i] != MC_ABSENT) leave_cast_of(b, i);
    for (uint32_t i = 0; room && i < b->graph->n_values; i++) {
        drop(&b->values[i]);
        drop(&b->casts[i]);
    }
    for (int i = 0; i < b->masks.n; i++) {
        drop(&b->masks.list[i].keys);
        drop(&b->masks.list[i].any);
    }
    for (int i = 0; i < b->bounds.n; i++)
        drop(&b->bounds.list[i].index);
    mc_mlx.vector_array_free(b->checks.arrays);
    *checks = b->checks.texts;
    mc_free(b->values);
    mc_free(b->casts);
    mc_free(b->in);
    mc_free(b->to);
    mc_free(b->numbers);
    mc_free(b->from);
}

/* Takes the parameters over, and their casts. */
static void take_params(builder *b, mlx_array *params, bool room) {
    const mc_mlx_graph *g = b->graph;
    for (uint32_t i = 0; i < g->lowered->n_params; i++) {
        if (room && g->leaf[i] != MC_ABSENT) {
            uint32_t value = g->value[g->leaf[i]];
            b->values[value] = params[i];
            params[i] = (mlx_array){0};
            if (!b->param_casts) continue;
            b->casts[value] = b->param_casts[i];
            b->param_casts[i] = (mlx_array){0};
        }
        drop(&params[i]);
    }
}

mica_status mc_mlx_graph_build(const mc_mlx_graph *g, mlx_array *params, mlx_array *casts,
                               const uint64_t *scalars, mlx_stream stream, mc_mlx_place place,
                               bool eager, mc_buffer *checks, mlx_vector_array results) {
    builder b = {.graph = g,
                 .param_casts = casts,
                 .scalars = scalars,
                 .stream = stream,
                 .place = place,
                 .eager = eager};
    b.values = mc_calloc(g->n_values + 1, sizeof *b.values);
    b.casts = mc_calloc(g->n_values + 1, sizeof *b.casts);
    b.in = mc_calloc(g->max_in, sizeof *b.in);
    b.to = mc_calloc(g->max_in, sizeof *b.to);
    b.numbers = mc_calloc(g->max_in, sizeof *b.numbers);
    b.from = mc_calloc(g->max_in, sizeof *b.from);
    b.checks.arrays = mc_mlx.vector_array_new();
    b.checks.texts = *checks;
    mc_buffer_clear(&b.checks.texts);
    bool room = b.values && b.casts && b.in && b.to && b.numbers && b.from;
    mica_status status = room ? MICA_OK : mc_fail_nomem("a graph for MLX");
    take_params(&b, params, room);
    for (uint32_t i = 0; status == MICA_OK && i < g->n_nodes; i++)
        if (g->needed[i]) status = build_node(&b, i);
    if (status == MICA_OK) status = hand_out(&b, results);
    close_builder(&b, checks);
    return status;
}

#include "exec/again.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/bind.h"
#include "graph/subgraph.h"
#include "op/require.h"

#include <mica/ops.h>

/* A graph that is recorded again. */
typedef struct again {
    const mc_recorded *from;
    mc_recorded *into;
    mica_array *made; /* [nodes of from] */
    mica_array *in;   /* room for the operands */
    const mc_dim_values *values;
    const mc_precision *precision;
    const mc_layout **was; /* room for those of operands, as recorded */
} again;

/* ---- attributes ---- */

static mica_status bind_real(const again *a, int64_t *word) {
    double real;
    int64_t dim;
    memcpy(&real, word, sizeof real);
    dim = mc_dim_of_real(real);
    if (dim == 0) return MICA_OK;
    MC_TRY(mc_dim_value(dim, a->values, &dim));
    real = (double)dim;
    memcpy(word, &real, sizeof real);
    return MICA_OK;
}

/* As the builder leaves parts of one element, or none. */
static void tidy_slice(mc_attr_slice *slice) {
    for (int k = 0; k < MICA_MAX_NDIM; k++) {
        if (slice->count[k] == 0) slice->start[k] = 0;
        if (slice->count[k] <= 1 && slice->step[k] != 0) slice->step[k] = 1;
    }
}

static mica_status bind_attr(const again *a, mc_op op, int64_t *attr) {
    const mc_attr_field *f = mc_op_get(op)->attr_fields;
    for (; f && f->name; f++)
        for (int i = 0; i < f->words && mc_attr_has_dims(f->kind); i++) {
            int64_t *word = &attr[f->at + i];
            MC_TRY(f->kind == MC_ATTR_REAL ? bind_real(a, word)
                                           : mc_dim_value(*word, a->values, word));
        }
    if (op == MC_OP_SLICE || op == MC_OP_SLICE_UPDATE) tidy_slice((mc_attr_slice *)(void *)attr);
    return MICA_OK;
}

static bool attr_depends(const mc_node *node, int64_t symbol, int but) {
    const int64_t *attr = node->attr;
    const mc_attr_field *f = mc_op_get(node->op)->attr_fields;
    for (; node->attr_bytes > 0 && f && f->name; f++)
        for (int i = f->at; i < f->at + f->words; i++) {
            double real;
            memcpy(&real, &attr[i], sizeof real);
            int64_t dim = f->kind == MC_ATTR_REAL ? mc_dim_of_real(real) : attr[i];
            if (i != but && mc_attr_has_dims(f->kind) && mc_dim_depends(dim, symbol)) return true;
        }
    return false;
}

bool mc_node_depends(const mc_node *node, int64_t symbol, int but) {
    const mc_op_def *def = mc_op_get(node->op);
    if (mc_dim_depends(node->length, symbol) || attr_depends(node, symbol, but)) return true;
    for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        const mica_scope *s = mc_attr_graph(node->attr, f)->graph; /* nest to MC_SUBGRAPH_DEPTH */
        for (uint32_t i = 0; i < mc_scope_count(s); i++)
            if (mc_node_depends(mc_scope_node(s, i), symbol, -1)) return true;
    }
    return false;
}

/* ---- control flow ---- */

/* The arrays of a subgraph, as what was recorded. The caller frees the lists. */
static mica_status list_graph(const mc_subgraph *g, mc_recorded *from, mc_recorded *into) {
    *from = *into = (mc_recorded){.n_params = g->n_params, .n_results = g->n_results};
    from->s = g->graph;
    from->params = mc_array_alloc(g->n_params, sizeof *from->params);
    from->results = mc_array_alloc(g->n_results, sizeof *from->results);
    into->params = mc_array_alloc(g->n_params, sizeof *into->params);
    into->results = mc_array_alloc(g->n_results, sizeof *into->results);
    if (!from->params || !from->results || !into->params || !into->results)
        return mc_fail_nomem("a graph of other lengths");
    for (uint32_t i = 0; i < g->n_params; i++)
        from->params[i] = (mica_array){g->graph, i};
    for (uint32_t i = 0; i < g->n_results; i++)
        from->results[i] = (mica_array){g->graph, g->results[i]};
    return mc_scope_open(mica_scope_device(g->graph), &into->s);
}

/* Results of the shapes of a branch, which a run that takes it does not get. */
static mica_status refuse_branch(const again *a, const mc_subgraph *g, mc_recorded *into) {
    for (uint32_t i = 0; i < g->n_results; i++) {
        mc_layout l = *mc_subgraph_result(g, i);
        for (int k = 0; k < l.ndim; k++)
            MC_TRY(mc_dim_value(l.shape[k], a->values, &l.shape[k]));
        mica_array x = mica_zeros(into->s, l.shape, l.ndim, l.dtype);
        into->results[i] =
            mc_require(into->s, x, mica_scalar(into->s, 0, MICA_BOOL), MC_REQUIRE_BRANCH);
    }
    return mica_scope_status(into->s);
}

/* The subgraph for the operands a->in of a node. refused: nothing of it, but an error. */
static mica_status graph_again(const again *a, const mc_node *node, const void *attr,
                               const mc_subgraph *g, bool refused, const mc_subgraph **made) {
    mc_recorded from, into;
    mica_status status = list_graph(g, &from, &into);
    for (uint32_t i = 0; i < g->n_params && status == MICA_OK; i++) {
        mc_layout layout;
        size_t operand = (size_t)mc_control_first(node->op) + i;
        mc_control_param(node->op, attr, i, mc_layout_of(a->in[operand]), &layout);
        into.params[i] = mc_leaf_param(into.s, &layout, false);
        status = mica_scope_status(into.s);
    }
    if (status == MICA_OK)
        status = refused ? refuse_branch(a, g, &into)
                         : mc_record_again(&from, &into, a->values, a->precision);
    if (status == MICA_OK)
        status = mc_subgraph_make(into.s, into.params, NULL, into.n_params, into.results,
                                  into.n_results, made);
    mica_scope_close(&into.s);
    mc_free(from.params);
    mc_free(from.results);
    mc_free(into.params);
    mc_free(into.results);
    return status;
}

/* Records a node of control flow. One branch of an if may not fit the values: a run that takes it
 * fails. Subgraphs nest to MC_SUBGRAPH_DEPTH. */
static mica_status record_control(again *a, uint32_t i, const mc_node *node, mc_graph_ref *attr) {
    const mc_attr_field *fields = mc_op_get(node->op)->attr_fields;
    mica_status status = MICA_OK;
    int refused = 0;
    for (const mc_attr_field *f = fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) attr[f->at].graph = NULL;
    for (const mc_attr_field *f = fields; f->name && status == MICA_OK; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        const mc_subgraph *g = mc_attr_graph(node->attr, f);
        status = graph_again(a, node, attr, g, false, &attr[f->at].graph);
        if (status != MICA_ESHAPE || node->op != MC_OP_IF || refused++ > 0) continue;
        status = graph_again(a, node, attr, g, true, &attr[f->at].graph);
    }
    if (status == MICA_OK)
        a->made[i] = mc_record(a->into->s, node->op, attr, a->in, (int)node->n_in);
    for (const mc_attr_field *f = fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) mc_subgraph_release(attr[f->at].graph);
    return status;
}

/* ---- nodes ---- */

static mica_status check_size(const mc_layout *l) {
    char text[MC_LAYOUT_TEXT];
    if (mc_layout_bytes(l) <= (int64_t)1 << 46) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "an array %s is larger than 2^46 bytes", mc_layout_text(l, text));
}

/* That a result has the shape that its lengths with symbols say. */
static mica_status check_shape(const again *a, const mc_layout *was, const mc_layout *now) {
    char text[MC_LAYOUT_TEXT], dim[MC_DIM_TEXT];
    int64_t length;
    for (int k = 0; k < now->ndim; k++) {
        MC_TRY(mc_dim_value(was->shape[k], a->values, &length));
        if (length != now->shape[k])
            return mc_fail(MICA_ESHAPE, "axis %d of %s is not %s, which is %lld", k,
                           mc_layout_text(now, text), mc_dim_text(was->shape[k], dim),
                           (long long)length);
    }
    return check_size(now);
}

static void cast_operands(again *a, const mc_node *node, int64_t *attr) {
    for (uint32_t k = 0; k < node->n_in; k++)
        a->was[k] =
            node->in[k] == MC_ABSENT ? NULL : &mc_scope_node(a->from->s, node->in[k])->layout;
    mc_precision_cast(a->precision, a->into->s, node, a->was, a->in, attr);
}

static mica_status record_op(again *a, uint32_t i, const mc_node *node) {
    union {
        int64_t words[MC_ATTR_MAX_WORDS];
        mc_graph_ref graphs[MC_ATTR_MAX_WORDS];
    } attr;
    for (uint32_t k = 0; k < node->n_in; k++)
        a->in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : a->made[node->in[k]];
    if (node->attr_bytes > 0) memcpy(&attr, node->attr, node->attr_bytes);
    if (a->precision) cast_operands(a, node, attr.words);
    MC_TRY(mica_scope_status(a->into->s));
    MC_TRY(bind_attr(a, node->op, attr.words));
    if (mc_op_is_control(mc_op_get(node->op))) return record_control(a, i, node, attr.graphs);
    a->made[i] = mc_record(a->into->s, node->op, node->attr_bytes > 0 ? &attr : NULL, a->in,
                           (int)node->n_in);
    return MICA_OK;
}

static mica_status record_node(again *a, uint32_t i, const mc_node *node) {
    mica_status status = record_op(a, i, node);
    if (status == MICA_OK && !mica_valid(a->made[i])) status = mica_scope_status(a->into->s);
    const mc_layout *was = mc_node_results(node);
    for (int k = 0; status == MICA_OK && k < mc_node_n_out(node); k++)
        status = check_shape(a, &was[k], &mc_node_results(mc_node_of(a->made[i]))[k]);
    return status == MICA_OK ? status
                             : mc_fail_context(status, "%s %%%u", mc_op_get(node->op)->name, i);
}

/* A leaf that has a value. */
static mica_status record_leaf(again *a, uint32_t i, const mc_node *node) {
    int64_t length;
    if (node->length == 0) {
        a->made[i] = mc_copy_leaf(a->into->s, node);
        return MICA_OK;
    }
    MC_TRY(mc_dim_value(node->length, a->values, &length));
    a->made[i] = mica_scalar(a->into->s, (double)length, node->layout.dtype);
    return MICA_OK;
}

static mica_status record_nodes(again *a, const mc_trace *trace) {
    for (uint32_t t = 0; t < trace->n_nodes; t++) {
        uint32_t i = trace->nodes[t];
        const mc_node *node = mc_scope_node(a->from->s, i);
        if (mica_valid(a->made[i])) continue; /* a parameter */
        MC_TRY(mc_is_leaf(node) ? record_leaf(a, i, node) : record_node(a, i, node));
        if (!mica_valid(a->made[i])) return mica_scope_status(a->into->s);
    }
    return MICA_OK;
}

mica_status mc_record_again(const mc_recorded *from, mc_recorded *into, const mc_dim_values *values,
                            const mc_precision *precision) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    again a = {.from = from, .into = into, .values = values, .precision = precision};
    uint32_t max = 1;
    mica_status status = mc_trace_make(&trace, &arena, from->s, from->results, from->n_results);
    for (uint32_t t = 0; status == MICA_OK && t < trace.n_nodes; t++) {
        uint32_t n = mc_scope_node(from->s, trace.nodes[t])->n_in;
        if (n > max) max = n;
    }
    a.made = mc_arena_calloc(&arena, ((size_t)mc_scope_count(from->s) + 1) * sizeof *a.made);
    a.in = mc_arena_alloc(&arena, max * sizeof *a.in);
    a.was = mc_arena_alloc(&arena, max * sizeof *a.was);
    if (status == MICA_OK && (!a.made || !a.in || !a.was))
        status = mc_fail_nomem("a graph of other lengths");
    for (size_t i = 0; status == MICA_OK && i < from->n_params; i++)
        a.made[from->params[i].node] = into->params[i];
    if (status == MICA_OK) status = record_nodes(&a, &trace);
    for (size_t i = 0; status == MICA_OK && i < from->n_results; i++)
        into->results[i] = mc_precision_restore(into->s, a.made[from->results[i].node],
                                                mica_array_dtype(from->results[i]));
    if (status == MICA_OK) status = mica_scope_status(into->s);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

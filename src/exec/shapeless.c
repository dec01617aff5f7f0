#include "exec/shapeless.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/bind.h"
#include "graph/subgraph.h"

/* What must hold for an op's attributes to be right for other lengths. */
typedef enum rule {
    HOLDS_LENGTHS, /* all lengths of its operands are as they were: the rule of ops without a row */
    NEVER,         /* it has none whose lengths would tell */
    ANY,           /* nothing: they say nothing of lengths */
    ELEMENTWISE,   /* axes that met meet again */
    SAME_LAST_AXIS, /* the last axis of the first operand is as it was */
    SAME_REDUCED,   /* the reduced axes are as they were: a mean divides by their number */
    SUBGRAPHS       /* the rules of the nodes within */
} rule;

static const unsigned char rules[MC_OP_COUNT] = {
    [MC_OP_PART] = ANY,
    [MC_OP_ABS] = ANY,
    [MC_OP_NEGATIVE] = ANY,
    [MC_OP_SQUARE] = ANY,
    [MC_OP_SIGN] = ANY,
    [MC_OP_FLOOR] = ANY,
    [MC_OP_CEIL] = ANY,
    [MC_OP_ROUND] = ANY,
    [MC_OP_EXP] = ANY,
    [MC_OP_EXPM1] = ANY,
    [MC_OP_LOG] = ANY,
    [MC_OP_LOG2] = ANY,
    [MC_OP_LOG10] = ANY,
    [MC_OP_LOG1P] = ANY,
    [MC_OP_SQRT] = ANY,
    [MC_OP_RSQRT] = ANY,
    [MC_OP_RECIPROCAL] = ANY,
    [MC_OP_SIN] = ANY,
    [MC_OP_COS] = ANY,
    [MC_OP_TAN] = ANY,
    [MC_OP_SINH] = ANY,
    [MC_OP_COSH] = ANY,
    [MC_OP_TANH] = ANY,
    [MC_OP_ARCSIN] = ANY,
    [MC_OP_ARCCOS] = ANY,
    [MC_OP_ARCTAN] = ANY,
    [MC_OP_ARCSINH] = ANY,
    [MC_OP_ARCCOSH] = ANY,
    [MC_OP_ARCTANH] = ANY,
    [MC_OP_ERF] = ANY,
    [MC_OP_ERFINV] = ANY,
    [MC_OP_SIGMOID] = ANY,
    [MC_OP_ISNAN] = ANY,
    [MC_OP_ISINF] = ANY,
    [MC_OP_ISFINITE] = ANY,
    [MC_OP_LOGICAL_NOT] = ANY,
    [MC_OP_BITWISE_INVERT] = ANY,
    [MC_OP_SILU] = ANY,
    [MC_OP_GELU] = ANY,
    [MC_OP_GELU_APPROX] = ANY,
    [MC_OP_ASTYPE] = ANY,
    [MC_OP_TO_FP8] = ANY,
    [MC_OP_FROM_FP8] = ANY,
    [MC_OP_ADD] = ELEMENTWISE,
    [MC_OP_SUBTRACT] = ELEMENTWISE,
    [MC_OP_MULTIPLY] = ELEMENTWISE,
    [MC_OP_DIVIDE] = ELEMENTWISE,
    [MC_OP_FLOOR_DIVIDE] = ELEMENTWISE,
    [MC_OP_REMAINDER] = ELEMENTWISE,
    [MC_OP_POWER] = ELEMENTWISE,
    [MC_OP_MAXIMUM] = ELEMENTWISE,
    [MC_OP_MINIMUM] = ELEMENTWISE,
    [MC_OP_LOGADDEXP] = ELEMENTWISE,
    [MC_OP_ARCTAN2] = ELEMENTWISE,
    [MC_OP_EQUAL] = ELEMENTWISE,
    [MC_OP_NOT_EQUAL] = ELEMENTWISE,
    [MC_OP_LESS] = ELEMENTWISE,
    [MC_OP_LESS_EQUAL] = ELEMENTWISE,
    [MC_OP_GREATER] = ELEMENTWISE,
    [MC_OP_GREATER_EQUAL] = ELEMENTWISE,
    [MC_OP_LOGICAL_AND] = ELEMENTWISE,
    [MC_OP_LOGICAL_OR] = ELEMENTWISE,
    [MC_OP_BITWISE_AND] = ELEMENTWISE,
    [MC_OP_BITWISE_OR] = ELEMENTWISE,
    [MC_OP_BITWISE_XOR] = ELEMENTWISE,
    [MC_OP_LEFT_SHIFT] = ELEMENTWISE,
    [MC_OP_RIGHT_SHIFT] = ELEMENTWISE,
    [MC_OP_WHERE] = ELEMENTWISE,
    [MC_OP_ARANGE] = NEVER,
    [MC_OP_RANDOM_BITS] = NEVER,
    [MC_OP_BROADCAST_TO] = NEVER,
    [MC_OP_SUM] = SAME_REDUCED,
    [MC_OP_PROD] = ANY,
    [MC_OP_MAX] = ANY,
    [MC_OP_MIN] = ANY,
    [MC_OP_ALL] = ANY,
    [MC_OP_ANY] = ANY,
    [MC_OP_LOGSUMEXP] = ANY,
    [MC_OP_ARGMAX] = ANY,
    [MC_OP_ARGMIN] = ANY,
    [MC_OP_CUMSUM] = ANY,
    [MC_OP_CUMPROD] = ANY,
    [MC_OP_CUMMAX] = ANY,
    [MC_OP_CUMMIN] = ANY,
    [MC_OP_LOGCUMSUMEXP] = ANY,
    [MC_OP_SORT] = ANY,
    [MC_OP_ARGSORT] = ANY,
    [MC_OP_TOPK] = SAME_LAST_AXIS,
    [MC_OP_TOPK_INDICES] = SAME_LAST_AXIS,
    [MC_OP_SOFTMAX] = ANY,
    [MC_OP_TRANSPOSE] = ANY,
    [MC_OP_CONTIGUOUS] = ANY,
    [MC_OP_CONCATENATE] = ANY,
    [MC_OP_SLICE_UPDATE_AT] = ANY,
    [MC_OP_TAKE] = ANY,
    [MC_OP_TAKE_ALONG_AXIS] = ANY,
    [MC_OP_MATMUL] = ANY,
    [MC_OP_QUANTIZED_MATMUL] = ANY,
    [MC_OP_GATHER_MM] = ANY,
    [MC_OP_GATHER_QMM] = ANY,
    [MC_OP_RMS_NORM] = ANY,
    [MC_OP_LAYER_NORM] = ANY,
    [MC_OP_ROPE] = SAME_LAST_AXIS,
    [MC_OP_SDPA] = SAME_LAST_AXIS,
    [MC_OP_SDPA_LSE] = SAME_LAST_AXIS,
    [MC_OP_KV_WRITE] = ANY,
    [MC_OP_PAGED_SDPA] = SAME_LAST_AXIS,
    [MC_OP_CROSS_ENTROPY] = ANY,
    [MC_OP_IF] = SUBGRAPHS,
    [MC_OP_WHILE] = SUBGRAPHS,
    [MC_OP_SCAN] = SUBGRAPHS,
    [MC_OP_IDENTITY] = ANY,
    [MC_OP_STOP_GRADIENT] = ANY,
    [MC_OP_SDPA_GRADIENT] = SAME_LAST_AXIS,
    [MC_OP_CROSS_ENTROPY_GRADIENT] = ANY,
    [MC_OP_RMS_NORM_GRADIENT] = ANY,
    [MC_OP_LAYER_NORM_GRADIENT] = ANY,
    [MC_OP_SELECTIVE_SCAN] = ANY,
    [MC_OP_SELECTIVE_SCAN_GRADIENT] = ANY,
    [MC_OP_GATED_DELTA] = ANY,
    [MC_OP_DENSE_SOLVE] = ANY,
    [MC_OP_REQUIRE] = ANY,
};

/* One node that is recorded again. */
typedef struct again {
    const mc_recorded *from;
    mc_recorded *into;
    mica_array *made;              /* [nodes of from]; of a derived BROADCAST_TO: what it reads */
    mica_array *in;                /* room for the operands */
    mc_lengths *lengths;           /* of a graph with symbols; NULL: by rules */
    const mc_precision *precision; /* NULL: as recorded */
    const mc_layout **was;         /* room for those of operands, as recorded */
} again;

static mica_status refuse(const again *a, uint32_t i, const char *why) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    char text[MC_LAYOUT_TEXT];
    return mc_fail(MICA_ESHAPE,
                   "%s (%%%u, recorded as %s): %s; compile the function without shapeless",
                   mc_op_get(node->op)->name, i, mc_layout_text(&node->layout, text), why);
}

static const mc_layout *old_layout(const again *a, uint32_t i) {
    return &mc_scope_node(a->from->s, i)->layout;
}

static bool is_aligning(const again *a, uint32_t i) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    return node->op == MC_OP_BROADCAST_TO && node->derived;
}

static bool has_changed(const again *a, uint32_t i) {
    return !mc_layout_same_shape(old_layout(a, i), mc_layout_of(a->made[i]));
}

static bool any_changed(const again *a, const mc_node *node) {
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] != MC_ABSENT && has_changed(a, node->in[k])) return true;
    return false;
}

static bool axis_changed(const again *a, uint32_t i, int axis) {
    return old_layout(a, i)->shape[axis] != mc_layout_of(a->made[i])->shape[axis];
}

/* ---- elementwise ---- */

/* Operand k before it was aligned: its node in the recorded graph. */
static uint32_t unaligned(const again *a, const mc_node *node, uint32_t k) {
    uint32_t i = node->in[k];
    return is_aligning(a, i) ? mc_scope_node(a->from->s, i)->in[0] : i;
}

/* Axes that had the result's length still have it; those of length 1 that were repeated still have
 * length 1. */
static bool meets_again(const mc_layout *old, const mc_layout *old_result, const mc_layout *now,
                        const mc_layout *result) {
    for (int k = 1; k <= now->ndim; k++) {
        bool met = old->shape[old->ndim - k] == old_result->shape[old_result->ndim - k];
        if (now->shape[now->ndim - k] != (met ? result->shape[result->ndim - k] : 1)) return false;
    }
    return true;
}

static mica_status align(again *a, uint32_t i, const mc_node *node) {
    mc_layout result = {.ndim = 0};
    for (uint32_t k = 0; k < node->n_in; k++) {
        const mc_layout *l = mc_layout_of(a->made[unaligned(a, node, k)]);
        mc_layout both = {.ndim = 0};
        MC_TRY(mc_broadcast_shapes(mc_op_get(node->op)->name, &result, l, both.shape, &both.ndim));
        result = both;
    }
    for (uint32_t k = 0; k < node->n_in; k++) {
        uint32_t from = unaligned(a, node, k);
        const mc_layout *l = mc_layout_of(a->made[from]);
        if (!meets_again(old_layout(a, from), &node->layout, l, &result))
            return refuse(a, i, "axes that had the same length have not the same any more");
        a->in[k] = a->made[from];
        mc_attr_shape attr = {.ndim = result.ndim};
        memcpy(attr.shape, result.shape, (size_t)result.ndim * sizeof *attr.shape);
        if (!mc_layout_same_shape(l, &result))
            a->in[k] = mc_record(a->into->s, MC_OP_BROADCAST_TO, &attr, &a->in[k], 1);
    }
    return mica_scope_status(a->into->s);
}

/* ---- reshape ---- */

/* Axes [from, from + n) of an operand, which are axes [to, to + m) of the result. Lengths of 1 are
 * left out before them, not within. */
typedef struct axis_group {
    int from, n, to, m;
} axis_group;

static int skip_ones(const int64_t *shape, int ndim, int k) {
    while (k < ndim && shape[k] == 1)
        k++;
    return k;
}

/* The next axes of both that have as many elements. False: there are none. */
static bool next_group(const mc_layout *old, const mc_attr_shape *result, axis_group *g) {
    int from = skip_ones(old->shape, old->ndim, g->from + g->n), ndim = (int)result->ndim;
    int to = skip_ones(result->shape, ndim, g->to + g->m);
    *g = (axis_group){from, 1, to, 1};
    if (from == old->ndim || to == ndim) return false;
    int64_t a = old->shape[from], b = result->shape[to];
    while (a < b ? from + g->n < old->ndim : a > b && to + g->m < ndim) {
        if (a < b)
            a *= old->shape[from + g->n++];
        else
            b *= result->shape[to + g->m++];
    }
    return a == b;
}

/* The lengths of a RESHAPE whose shape follows from that of its operand: of one axis, and of
 * several that became one. An axis that became several must have its old length. */
static mica_status reshape(const again *a, uint32_t i, const mc_node *node, mc_attr_shape *attr) {
    static const char *const holds = "it holds lengths, and those of its operands have changed";
    const mc_layout *old = old_layout(a, node->in[0]), *now = mc_layout_of(a->made[node->in[0]]);
    const mc_attr_shape *recorded = node->attr;
    axis_group g = {0, 0, 0, 0};
    *attr = *recorded;
    for (int k = 0; k < old->ndim; k++)
        if (old->shape[k] == 1 && now->shape[k] != 1)
            return refuse(a, i, "an axis of length 1 has another length now");
    while (next_group(old, recorded, &g)) {
        int64_t length = 1;
        bool changed = false;
        for (int k = g.from; k < g.from + g.n; k++) {
            length *= now->shape[k];
            changed = changed || now->shape[k] != old->shape[k];
        }
        if (changed && g.m > 1) return refuse(a, i, holds);
        if (changed) attr->shape[g.to] = length;
    }
    bool all = g.from == old->ndim && g.to == recorded->ndim;
    return all || !has_changed(a, node->in[0]) ? MICA_OK : refuse(a, i, holds);
}

/* ---- slice ---- */

/* Axes that the SLICE leaves whole may have any length. */
static mica_status slice(const again *a, uint32_t i, const mc_node *node, mc_attr_slice *attr) {
    const mc_layout *old = old_layout(a, node->in[0]), *now = mc_layout_of(a->made[node->in[0]]);
    memcpy(attr, node->attr, sizeof *attr);
    for (int k = 0; k < old->ndim; k++) {
        if (old->shape[k] == now->shape[k]) continue;
        if (attr->start[k] != 0 || attr->step[k] != 1 || attr->count[k] != old->shape[k])
            return refuse(a, i, "it holds lengths of an axis that has another length now");
        attr->count[k] = now->shape[k];
    }
    return MICA_OK;
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

/* The subgraph for the operands a->in of a node. */
static mica_status graph_again(const again *a, const mc_node *node, const void *attr,
                               const mc_subgraph *g, const mc_subgraph **made) {
    mc_recorded from, into;
    mica_status status = list_graph(g, &from, &into);
    for (uint32_t i = 0; i < g->n_params && status == MICA_OK; i++) {
        mc_layout layout;
        size_t operand = (size_t)mc_control_first(node->op) + i;
        mc_control_param(node->op, attr, i, mc_layout_of(a->in[operand]), &layout);
        into.params[i] = mc_leaf_param(into.s, &layout, false);
        status = mica_scope_status(into.s);
    }
    if (status == MICA_OK) status = mc_record_again(&from, &into, a->lengths, a->precision);
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

/* Records a node of control flow over other lengths; subgraphs nest to MC_SUBGRAPH_DEPTH. */
static mica_status record_control(again *a, uint32_t i, const mc_node *node) {
    mc_graph_ref attr[MC_ATTR_MAX_WORDS];
    const mc_attr_field *fields = mc_op_get(node->op)->attr_fields;
    mica_status status = MICA_OK;
    memcpy(attr, node->attr, node->attr_bytes);
    if (a->lengths) MC_TRY(mc_lengths_attr(a->lengths, node->op, NULL, NULL, (void *)attr));
    if (node->op == MC_OP_SCAN) {
        mc_attr_scan_over *scan = (mc_attr_scan_over *)(void *)attr;
        if (scan->n_xs > 0) scan->length = mica_array_dim(a->in[scan->n_carried], 0);
    }
    for (const mc_attr_field *f = fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) attr[f->at].graph = NULL;
    for (const mc_attr_field *f = fields; f->name && status == MICA_OK; f++)
        if (f->kind == MC_ATTR_GRAPH)
            status = graph_again(a, node, attr, mc_attr_graph(node->attr, f), &attr[f->at].graph);
    if (status == MICA_OK)
        a->made[i] = mc_record(a->into->s, node->op, attr, a->in, (int)node->n_in);
    for (const mc_attr_field *f = fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) mc_subgraph_release(attr[f->at].graph);
    return status;
}

/* ---- all nodes ---- */

static mica_status check_rule(const again *a, uint32_t i, const mc_node *node) {
    static const char *const holds = "it holds lengths, and those of its operands have changed";
    switch ((rule)rules[node->op]) {
    case ANY:
    case ELEMENTWISE:
    case SUBGRAPHS:
        return MICA_OK;
    case NEVER:
        return refuse(a, i, "it holds lengths");
    case SAME_LAST_AXIS: {
        int last = old_layout(a, node->in[0])->ndim - 1;
        return last >= 0 && axis_changed(a, node->in[0], last)
                   ? refuse(a, i, "the last axis of its operand has another length")
                   : MICA_OK;
    }
    case SAME_REDUCED: {
        int64_t mask = ((const mc_attr_reduce *)node->attr)->axes;
        for (int k = 0; k < node->layout.ndim; k++)
            if ((mask >> k & 1) && axis_changed(a, node->in[0], k))
                return refuse(a, i,
                              "an axis that it sums has another length, by which a mean "
                              "divides");
        return MICA_OK;
    }
    default:
        return any_changed(a, node) ? refuse(a, i, holds) : MICA_OK;
    }
}

/* ---- with symbols ---- */

static mica_status check_size(const mc_layout *l) {
    char text[MC_LAYOUT_TEXT];
    if (mc_layout_bytes(l) <= (int64_t)1 << 46) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "an array %s is larger than 2^46 bytes", mc_layout_text(l, text));
}

static void cast_operands(again *a, const mc_node *node, int64_t *attr) {
    for (uint32_t k = 0; k < node->n_in; k++)
        a->was[k] = node->in[k] == MC_ABSENT ? NULL : old_layout(a, node->in[k]);
    mc_precision_cast(a->precision, a->into->s, node, a->was, a->in, attr);
}

/* Records a node whose numbers follow the lengths. */
static mica_status follow_node(again *a, uint32_t i) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    int64_t attr[MC_ATTR_MAX_WORDS];
    for (uint32_t k = 0; k < node->n_in; k++)
        a->in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : a->made[node->in[k]];
    if (node->attr_bytes > 0) memcpy(attr, node->attr, node->attr_bytes);
    if (a->precision) cast_operands(a, node, attr);
    if (rules[node->op] == SUBGRAPHS) return record_control(a, i, node);
    bool first = node->n_in > 0 && node->in[0] != MC_ABSENT;
    MC_TRY(mc_lengths_attr(a->lengths, node->op, first ? old_layout(a, node->in[0]) : NULL,
                           first ? mc_layout_of(a->in[0]) : NULL, attr));
    MC_TRY(mica_scope_status(a->into->s));
    a->made[i] =
        mc_record(a->into->s, node->op, node->attr_bytes > 0 ? attr : NULL, a->in, (int)node->n_in);
    return MICA_OK;
}

static mica_status record_with_symbols(again *a, uint32_t i) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    mica_status status = follow_node(a, i);
    if (status == MICA_OK && !mica_valid(a->made[i])) status = mica_scope_status(a->into->s);
    const mc_layout *before = mc_node_results(node);
    for (int k = 0; status == MICA_OK && k < mc_node_n_out(node); k++) {
        const mc_layout *now = &mc_node_results(mc_node_of(a->made[i]))[k];
        status = check_size(now);
        if (status == MICA_OK) status = mc_lengths_add(a->lengths, &before[k], now);
    }
    return status == MICA_OK ? status
                             : mc_fail_context(status, "%s %%%u", mc_op_get(node->op)->name, i);
}

/* A leaf that has a value. */
static mica_status record_leaf(again *a, uint32_t i) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    uint64_t bits = node->value;
    if (!a->lengths || !node->scalar) {
        a->made[i] = mc_copy_leaf(a->into->s, node);
        return MICA_OK;
    }
    MC_TRY(mc_lengths_scalar(a->lengths, node->layout.dtype, &bits));
    a->made[i] = mc_scalar_bits(a->into->s, node->layout.dtype, bits);
    return MICA_OK;
}

/* ---- all nodes, again ---- */

static mica_status record_node(again *a, uint32_t i) {
    const mc_node *node = mc_scope_node(a->from->s, i);
    mc_attr_shape shape;
    mc_attr_slice part;
    const void *attr = node->attr;
    if (a->lengths) return record_with_symbols(a, i);
    if (is_aligning(a, i)) { /* made by the op that reads it */
        a->made[i] = a->made[node->in[0]];
        return MICA_OK;
    }
    for (uint32_t k = 0; k < node->n_in; k++) {
        bool absent = node->in[k] == MC_ABSENT;
        a->in[k] = absent ? MICA_NONE : a->made[node->in[k]];
    }
    if (node->op == MC_OP_RESHAPE && node->derived) {
        MC_TRY(reshape(a, i, node, &shape));
        attr = &shape;
    } else if (node->op == MC_OP_SLICE && node->derived) {
        MC_TRY(slice(a, i, node, &part));
        attr = &part;
    } else {
        MC_TRY(check_rule(a, i, node));
    }
    if (rules[node->op] == ELEMENTWISE) MC_TRY(align(a, i, node));
    if (rules[node->op] == SUBGRAPHS)
        MC_TRY(record_control(a, i, node));
    else
        a->made[i] = mc_record(a->into->s, node->op, attr, a->in, (int)node->n_in);
    if (!mica_valid(a->made[i]))
        return mc_fail_context(mica_scope_status(a->into->s), "shapeless: %%%u", i);
    return MICA_OK;
}

static mica_status record_nodes(again *a, const mc_trace *trace) {
    for (uint32_t t = 0; t < trace->n_nodes; t++) {
        uint32_t i = trace->nodes[t];
        const mc_node *node = mc_scope_node(a->from->s, i);
        if (mica_valid(a->made[i])) continue; /* a parameter */
        MC_TRY(mc_is_leaf(node) ? record_leaf(a, i) : record_node(a, i));
        if (!mica_valid(a->made[i])) return mica_scope_status(a->into->s);
    }
    /* Nodes that a builder did not change for their lengths. */
    for (uint32_t t = 0; !a->lengths && t < trace->n_nodes; t++) {
        uint32_t i = trace->nodes[t];
        if (mc_scope_node(a->from->s, i)->fixed && has_changed(a, i))
            return refuse(a, i,
                          "reshape, broadcast_to, slice or roll of it did nothing, which "
                          "holds for its lengths only");
    }
    return MICA_OK;
}

mica_status mc_record_again(const mc_recorded *from, mc_recorded *into, mc_lengths *lengths,
                            const mc_precision *precision) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    again a = {.from = from, .into = into, .lengths = lengths, .precision = precision};
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
    for (size_t i = 0; status == MICA_OK && lengths && i < from->n_params; i++)
        status =
            mc_lengths_add(lengths, mc_layout_of(from->params[i]), mc_layout_of(into->params[i]));
    if (status == MICA_OK) status = record_nodes(&a, &trace);
    for (size_t i = 0; status == MICA_OK && i < from->n_results; i++)
        into->results[i] = mc_precision_restore(into->s, a.made[from->results[i].node],
                                                mica_array_dtype(from->results[i]));
    if (status == MICA_OK) status = mica_scope_status(into->s);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

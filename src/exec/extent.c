#include "exec/extent.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/again.h"
#include "graph/attr.h"
#include "graph/subgraph.h"

/* How an op keeps rows, the elements along axis 0, apart. */
typedef enum rule {
    MIXES,      /* or nobody has said how: ops without a row */
    BY_ELEMENT, /* operands have the result's axes */
    REDUCES,    /* the axes of its mask */
    ALONG_LAST, /* works along the last axis of its first operand */
    ALONG_AXIS, /* along that of its attributes */
    BY_EXAMPLE, /* axis 0 is that of examples, which meet only weights */
    MULTIPLIES,
    WEIGHTS, /* a product with weights: rows are those of the first operand */
    TAKES,
    RESHAPES,
    TRANSPOSES,
    SLICES,
    MAKES, /* from lengths alone */
    PICKS
} rule;

static const unsigned char rules[MC_OP_COUNT] = {
    [MC_OP_ASTYPE] = BY_ELEMENT,
    [MC_OP_TO_FP8] = BY_ELEMENT,
    [MC_OP_FROM_FP8] = BY_ELEMENT,
    [MC_OP_CONTIGUOUS] = BY_ELEMENT,
    [MC_OP_IDENTITY] = BY_ELEMENT,
    [MC_OP_STOP_GRADIENT] = BY_ELEMENT,
    [MC_OP_SUM] = REDUCES,
    [MC_OP_PROD] = REDUCES,
    [MC_OP_MAX] = REDUCES,
    [MC_OP_MIN] = REDUCES,
    [MC_OP_ALL] = REDUCES,
    [MC_OP_ANY] = REDUCES,
    [MC_OP_LOGSUMEXP] = REDUCES,
    [MC_OP_CUMSUM] = ALONG_LAST,
    [MC_OP_CUMPROD] = ALONG_LAST,
    [MC_OP_CUMMAX] = ALONG_LAST,
    [MC_OP_CUMMIN] = ALONG_LAST,
    [MC_OP_LOGCUMSUMEXP] = ALONG_LAST,
    [MC_OP_SORT] = ALONG_LAST,
    [MC_OP_ARGSORT] = ALONG_LAST,
    [MC_OP_TOPK] = ALONG_LAST,
    [MC_OP_TOPK_INDICES] = ALONG_LAST,
    [MC_OP_SOFTMAX] = ALONG_LAST,
    [MC_OP_RMS_NORM] = ALONG_LAST,
    [MC_OP_LAYER_NORM] = ALONG_LAST,
    [MC_OP_FFT] = ALONG_LAST,
    [MC_OP_CONCATENATE] = ALONG_AXIS,
    [MC_OP_TAKE_ALONG_AXIS] = ALONG_AXIS,
    [MC_OP_REDUCE_WINDOW] = ALONG_AXIS,
    [MC_OP_SDPA] = BY_EXAMPLE,
    [MC_OP_ROPE] = BY_EXAMPLE,
    [MC_OP_CONV_GENERAL] = BY_EXAMPLE,
    [MC_OP_INTEGER_CONV] = BY_EXAMPLE,
    [MC_OP_SELECTIVE_SCAN] = BY_EXAMPLE,
    [MC_OP_GATED_DELTA] = BY_EXAMPLE,
    [MC_OP_MATMUL] = MULTIPLIES,
    [MC_OP_QUANTIZED_MATMUL] = WEIGHTS,
    [MC_OP_INTEGER_MATMUL] = WEIGHTS,
    [MC_OP_TAKE] = TAKES,
    [MC_OP_RESHAPE] = RESHAPES,
    [MC_OP_TRANSPOSE] = TRANSPOSES,
    [MC_OP_SLICE] = SLICES,
    [MC_OP_SLICE_UPDATE] = SLICES,
    [MC_OP_ARANGE] = MAKES,
    [MC_OP_BROADCAST_TO] = MAKES,
    [MC_OP_PART] = PICKS,
};

typedef struct extent {
    const mica_program *p;
    int64_t symbol;
    bool *rows;   /* [nodes] has rows of it, along axis 0 */
    bool *needed; /* [nodes] */
} extent;

/* Those of one or two operands, or of where, lie side by side in op_list.h. */
static rule rule_of(mc_op op) {
    bool unary = op >= MC_OP_ABS && op <= MC_OP_GELU_APPROX;
    return unary || (op >= MC_OP_ADD && op <= MC_OP_WHERE) ? BY_ELEMENT : (rule)rules[op];
}

/* Whether the symbol is in axis 0 alone, of which it is a factor, or nowhere. */
static bool leads(const extent *e, const mc_layout *l, bool *rows) {
    *rows = l->ndim > 0 && mc_dim_depends(l->shape[0], e->symbol);
    for (int k = 1; k < l->ndim; k++)
        if (mc_dim_depends(l->shape[k], e->symbol)) return false;
    if (!*rows) return true;
    int64_t factor = mc_dim_div(l->shape[0], e->symbol);
    return factor != MC_DIM_NONE && !mc_dim_depends(factor, e->symbol);
}

static const mc_node *operand(const extent *e, const mc_node *node, uint32_t k) {
    return mc_scope_node(e->p->graph, node->in[k]);
}

/* Whether all operands with rows have as many as the result, in as many axes or more. */
static bool rows_meet(const extent *e, const mc_node *node, int ndim) {
    const mc_layout *l = mc_node_results(node);
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT || !e->rows[node->in[k]]) continue;
        const mc_layout *in = &operand(e, node, k)->layout;
        if (l->ndim == 0 || in->ndim < ndim || in->shape[0] != l->shape[0]) return false;
    }
    return true;
}

static bool multiplies_apart(const extent *e, const mc_node *node) {
    int ndim = node->layout.ndim;
    bool right = e->rows[node->in[1]];
    return ndim >= (right ? 3 : 2) && rows_meet(e, node, ndim);
}

static bool takes_apart(const extent *e, const mc_node *node) {
    int64_t axis = ((const mc_attr_axis *)node->attr)->axis;
    bool x = e->rows[node->in[0]], indices = e->rows[node->in[1]];
    return x ? axis > 0 && !indices : axis == 0;
}

static bool slices_apart(const mc_node *node, const mc_layout *in) {
    const mc_attr_slice *a = node->attr;
    return in->ndim > 0 && a->start[0] == 0 && a->step[0] == 1 && a->count[0] == in->shape[0];
}

static int64_t axis_of(const mc_node *node) {
    return node->op == MC_OP_REDUCE_WINDOW ? ((const mc_attr_window *)node->attr)->axis
                                           : ((const mc_attr_axis *)node->attr)->axis;
}

/* Whether an op that rows go into keeps them apart. */
static bool keeps_apart(const extent *e, const mc_node *node) {
    const mc_layout *in = node->in[0] == MC_ABSENT ? NULL : &operand(e, node, 0)->layout;
    int ndim = mc_node_results(node)->ndim;
    switch (rule_of(node->op)) {
    case BY_ELEMENT:
        return rows_meet(e, node, ndim);
    case MAKES:
        return in && rows_meet(e, node, ndim);
    case REDUCES:
        return !(((const mc_attr_reduce *)node->attr)->axes & 1) && rows_meet(e, node, ndim);
    case ALONG_LAST:
        return in && e->rows[node->in[0]] && in->ndim > 1 && rows_meet(e, node, 2);
    case ALONG_AXIS:
        return axis_of(node) > 0 && rows_meet(e, node, ndim);
    case BY_EXAMPLE:
        return in && e->rows[node->in[0]] && rows_meet(e, node, 1) && ndim > 2;
    case MULTIPLIES:
        return multiplies_apart(e, node);
    case WEIGHTS:
        return in && e->rows[node->in[0]] && in->ndim > 1 && rows_meet(e, node, ndim);
    case TAKES:
        return takes_apart(e, node);
    case TRANSPOSES:
        return ((const mc_attr_transpose *)node->attr)->axes[0] == 0;
    case SLICES:
        return in && slices_apart(node, in) && rows_meet(e, node, ndim);
    case RESHAPES:
    case PICKS:
        return true;
    default:
        return false;
    }
}

/* The word of a node's attributes that is the number of rows of its result; -1: none. */
static int rows_word(mc_op op) {
    switch (op) {
    case MC_OP_RESHAPE:
    case MC_OP_BROADCAST_TO:
        return offsetof(mc_attr_shape, shape) / sizeof(int64_t);
    case MC_OP_SLICE:
    case MC_OP_SLICE_UPDATE:
        return offsetof(mc_attr_slice, count) / sizeof(int64_t);
    case MC_OP_ARANGE:
        return offsetof(mc_attr_range, count) / sizeof(int64_t);
    default:
        return -1;
    }
}

/* Sets e->rows[i], and says whether rows stay apart in node i. */
static bool look_at(extent *e, uint32_t i) {
    const mc_node *node = mc_scope_node(e->p->graph, i);
    bool any = false, apart = true;
    for (uint32_t k = 0; k < node->n_in; k++)
        any = any || (node->in[k] != MC_ABSENT && e->rows[node->in[k]]);
    for (int k = 0; k < mc_node_n_out(node); k++) {
        bool rows = false;
        apart = apart && leads(e, &mc_node_results(node)[k], &rows) && (rows || !any);
        e->rows[i] = e->rows[i] || rows;
    }
    bool made = e->rows[i] && !any && node->op != MC_OP_LEAF && rule_of(node->op) != MAKES;
    return apart && !made && (!any || keeps_apart(e, node)) &&
           !mc_node_depends(node, e->symbol, e->rows[i] ? rows_word(node->op) : -1);
}

mica_status mc_extent_check(const mica_program *p, size_t symbol, char *cause) {
    uint32_t count = mc_scope_count(p->graph);
    bool *lists = mc_calloc(2 * (size_t)count + 1, sizeof *lists), apart = true;
    if (!lists) return mc_fail_nomem("an extent");
    extent e = {p, p->symbols[symbol].dim, lists, lists + count};
    *cause = 0;
    mc_program_mark_needed(p, e.needed);
    for (uint32_t i = 0; i < count && apart; i++) {
        if (!e.needed[i] && i >= p->n_params) continue;
        apart = look_at(&e, i);
        if (apart) continue;
        if (i < p->n_params)
            snprintf(cause, MC_EXTENT_TEXT, "parameter %.100s", p->names[i]);
        else
            snprintf(cause, MC_EXTENT_TEXT, "%s %%%u",
                     mc_op_get(mc_scope_node(p->graph, i)->op)->name, i);
    }
    mc_free(lists);
    return MICA_OK;
}

/* Looking at a graph: its text, and the check of its invariants. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "graph/graph.h"

static bool print_node(const mica_scope *s, uint32_t i, mc_buffer *text) {
    const mc_node *node = mc_scope_node(s, i);
    char layout[MC_LAYOUT_TEXT];
    bool ok = mc_buffer_printf(text, "%%%u = %s %s", i, mc_op_get(node->op)->name,
                               mc_layout_text(&node->layout, layout));
    for (uint32_t k = 0; ok && k < node->n_in; k++)
        ok = node->in[k] == MC_ABSENT ? mc_buffer_add_text(text, " -")
                                      : mc_buffer_printf(text, " %%%u", node->in[k]);
    static const char *const states[] = {"", " ready", " gone"};
    return ok && mc_buffer_add_text(text, states[node->state]) && mc_buffer_add_byte(text, '\n');
}

mica_status mc_graph_print(const mica_scope *s, mc_buffer *text) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++)
        if (!print_node(s, i, text)) return mc_fail_nomem("printing a graph");
    return MICA_OK;
}

static const char *node_fault(const mica_scope *s, uint32_t i) {
    const mc_node *node = mc_scope_node(s, i);
    const mc_op_def *def = mc_op_get(node->op);
    if (node->state == MC_PENDING && (node->op == MC_OP_LEAF || node->storage))
        return "is pending and has data";
    if (node->state == MC_READY && (!node->storage) != node->scalar)
        return "is ready and has no data";
    if (node->state == MC_GONE && node->storage) return "is gone and has data";
    if (node->op == MC_OP_LEAF) return NULL;
    if ((int)node->n_in < (def->variadic ? def->min_in : def->max_in) ||
        (int)node->n_in > def->max_in)
        return "has the wrong number of inputs";
    if (node->attr_bytes != def->attr_bytes) return "has attributes of the wrong size";
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT ? (int)k < def->min_in || def->variadic : node->in[k] >= i)
            return "has an input that does not come before it";
    }
    return NULL;
}

/* Whether dtype and shape are what the op's rule says; a fault is said as node_fault says one. */
static mica_status check_shape(const mica_scope *s, const mc_node *node, const char **fault) {
    *fault = NULL;
    if (node->op == MC_OP_LEAF) return MICA_OK;
    const mc_layout **in = mc_array_alloc(node->n_in, sizeof *in);
    if (!in) return mc_fail_nomem("checking a graph");
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? NULL : &mc_scope_node(s, node->in[k])->layout;
    mc_layout out = {0};
    if (mc_op_get(node->op)->infer(node->attr, in, (int)node->n_in, &out) != MICA_OK ||
        out.dtype != node->layout.dtype || !mc_layout_same_shape(&out, &node->layout))
        *fault = "has another shape than its op's rule gives";
    mc_free(in);
    return MICA_OK;
}

mica_status mc_graph_verify(const mica_scope *s) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const char *fault = node_fault(s, i);
        if (!fault) MC_TRY(check_shape(s, mc_scope_node(s, i), &fault));
        if (fault)
            return mc_fail(MICA_EINTERNAL, "node %%%u (%s) %s", i,
                           mc_op_get(mc_scope_node(s, i)->op)->name, fault);
    }
    return MICA_OK;
}

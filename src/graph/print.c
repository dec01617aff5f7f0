/* Looking at a graph: its text, and the check of its invariants. */
#include <string.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/integer.h"
#include "graph/attr.h"
#include "graph/graph.h"
#include "graph/subgraph.h"

enum { INDENT = 4 }; /* spaces, of subgraphs */

/* ---- attributes ---- */

static bool print_word(mc_buffer *text, mc_attr_kind kind, int64_t word) {
    double real;
    memcpy(&real, &word, sizeof real);
    if (kind == MC_ATTR_REAL && mc_dim_of_real(real))
        word = mc_dim_of_real(real);
    else if (kind == MC_ATTR_REAL)
        return mc_buffer_printf(text, "%g", real);
    if (kind == MC_ATTR_DTYPE) return mc_buffer_add_text(text, mica_dtype_name((mica_dtype)word));
    return mc_dim_print(text, word);
}

static bool print_list(mc_buffer *text, const int64_t *words, int64_t n) {
    bool ok = mc_buffer_add_byte(text, '[');
    for (int64_t i = 0; ok && i < n; i++)
        ok = (i == 0 || mc_buffer_add_byte(text, ',')) && mc_dim_print(text, words[i]);
    return ok && mc_buffer_add_byte(text, ']');
}

static bool print_mask(mc_buffer *text, int64_t mask) {
    int64_t axes[MICA_MAX_NDIM], n = 0;
    for (int k = 0; k < MICA_MAX_NDIM; k++)
        if (mask >> k & 1) axes[n++] = k;
    return print_list(text, axes, n);
}

/* " shape=[2,3]", and so on, but for subgraphs; x is the first operand, if there is one. */
static bool print_attr(mc_buffer *text, const mc_node *node, const mc_layout *x) {
    const mc_attr_field *f = mc_op_get(node->op)->attr_fields;
    int64_t words[MC_ATTR_MAX_WORDS], count = 0;
    bool ok = true;
    if (!f) return true;
    memcpy(words, node->attr, node->attr_bytes);
    for (; ok && f->name; f++) {
        const int64_t *word = words + f->at;
        if (f->kind == MC_ATTR_GRAPH) continue;
        if (f->kind == MC_ATTR_COUNT) count = *word;
        if (f->kind == MC_ATTR_COUNT) continue;
        ok = mc_buffer_printf(text, " %s=", f->name);
        if (f->kind == MC_ATTR_MASK)
            ok = ok && print_mask(text, *word);
        else if (f->kind == MC_ATTR_LIST || f->kind == MC_ATTR_NUMBERS)
            ok = ok && print_list(text, word, mc_min(count, f->words));
        else if (f->kind == MC_ATTR_AXES)
            ok = ok && print_list(text, word, x ? mc_min(x->ndim, f->words) : 0);
        else
            ok = ok && print_word(text, f->kind, *word);
    }
    return ok;
}

/* ---- nodes ---- */

/* "f32[2,n]", and not cut. */
static bool print_layout(mc_buffer *text, const mc_layout *l) {
    return mc_buffer_add_text(text, mica_dtype_name(l->dtype)) &&
           print_list(text, l->shape, l->ndim);
}

static bool print_graphs(const mc_node *node, int depth, mc_buffer *text);

/* A node's line, and its subgraphs, indented. */
static bool print_node(const mica_scope *s, uint32_t i, int depth, mc_buffer *text) {
    const mc_node *node = mc_scope_node(s, i);
    const mc_op_def *def = mc_op_get(node->op);
    const mc_layout *results = mc_node_results(node);
    bool ok = mc_buffer_printf(text, "%*s%%%u = %s", INDENT * depth, "", i, def->name);
    for (int k = 0; ok && k < mc_node_n_out(node); k++)
        ok = mc_buffer_add_byte(text, ' ') && print_layout(text, &results[k]);
    if (node->length)
        ok = ok && mc_buffer_add_text(text, " length=") && mc_dim_print(text, node->length);
    for (uint32_t k = 0; ok && k < node->n_in; k++)
        ok = node->in[k] == MC_ABSENT ? mc_buffer_add_text(text, " -")
                                      : mc_buffer_printf(text, " %%%u", node->in[k]);
    const mc_layout *x = node->n_in > 0 ? &mc_scope_node(s, node->in[0])->layout : NULL;
    static const char *const states[] = {"", " ready", " gone"};
    return ok && print_attr(text, node, x) && mc_buffer_add_text(text, states[node->state]) &&
           mc_buffer_add_byte(text, '\n') && print_graphs(node, depth, text);
}

/* "then_graph: %0 %1 -> %5", and its nodes behind the parameters. */
static bool print_graph(const char *name, const mc_subgraph *g, int depth, mc_buffer *text) {
    bool ok = mc_buffer_printf(text, "%*s%s:", INDENT * depth, "", name);
    for (uint32_t i = 0; ok && i < g->n_params; i++)
        ok = mc_buffer_printf(text, " %%%u ", i) && print_layout(text, mc_subgraph_param(g, i));
    ok = ok && mc_buffer_add_text(text, " ->");
    for (uint32_t i = 0; ok && i < g->n_results; i++)
        ok = mc_buffer_printf(text, " %%%u", g->results[i]);
    ok = ok && mc_buffer_add_byte(text, '\n');
    for (uint32_t i = g->n_params; ok && i < mc_scope_count(g->graph); i++)
        ok = print_node(g->graph, i, depth + 1, text);
    return ok;
}

static bool print_graphs(const mc_node *node, int depth, mc_buffer *text) {
    const mc_op_def *def = mc_op_get(node->op);
    bool ok = true;
    for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && ok && f->name; f++)
        if (f->kind == MC_ATTR_GRAPH)
            ok = print_graph(f->name, mc_attr_graph(node->attr, f), depth + 1, text);
    return ok;
}

mica_status mc_graph_print(const mica_scope *s, const mc_graph_ports *ports, mc_buffer *text) {
    bool ok = true;
    for (size_t i = 0; ports && ok && i < ports->n_symbols; i++)
        ok = mc_buffer_printf(text, "symbol %s\n", ports->symbols[i].name);
    for (size_t i = 0; ports && ok && i < ports->n_params; i++) {
        const mc_graph_port *p = &ports->params[i];
        ok = mc_buffer_printf(text, "param %%%u %s%s\n", p->node, p->name,
                              p->donate ? " donated" : "");
    }
    for (uint32_t i = 0; ok && i < mc_scope_count(s); i++)
        ok = print_node(s, i, 0, text);
    for (size_t i = 0; ports && ok && i < ports->n_results; i++) {
        const char *name = ports->result_names ? ports->result_names[i] : "";
        ok = mc_buffer_printf(text, "result %%%u%s%s\n", ports->results[i], *name ? " " : "", name);
    }
    return ok ? MICA_OK : mc_fail_nomem("printing a graph");
}

/* ---- invariants ---- */

static const char *node_fault(const mica_scope *s, uint32_t i) {
    const mc_node *node = mc_scope_node(s, i);
    const mc_op_def *def = mc_op_get(node->op);
    if (node->state == MC_PENDING && (node->op == MC_OP_LEAF || node->storage))
        return "is pending and has data";
    if (node->state == MC_READY && (!node->storage) != (node->scalar || node->param))
        return "is ready and has no data";
    if (node->state == MC_GONE && node->storage) return "is gone and has data";
    bool several = def->n_out > 1 || mc_op_is_control(def);
    if ((node->results != NULL) != several || (node->results && node->state != MC_PENDING))
        return "has the wrong number of results, or is evaluated as a whole";
    if (node->op == MC_OP_LEAF) return NULL;
    if ((int)node->n_in < (def->variadic ? def->min_in : def->max_in) ||
        (int)node->n_in > def->max_in)
        return "has the wrong number of inputs";
    if (node->attr_bytes != def->attr_bytes) return "has attributes of the wrong size";
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT ? (int)k < def->min_in || def->variadic : node->in[k] >= i)
            return "has an input that does not come before it";
        if (node->in[k] == MC_ABSENT) continue;
        if (!mc_operand_layout(node->op, node->attr, mc_scope_node(s, node->in[k])))
            return "has an input of several results, or one that is no part of its input";
    }
    return NULL;
}

/* Whether dtypes and shapes are what the op's rule says; a fault is said as node_fault says one. */
static mica_status check_shapes(const mica_scope *s, const mc_node *node, const char **fault) {
    *fault = NULL;
    if (node->op == MC_OP_LEAF) return MICA_OK;
    const mc_op_def *def = mc_op_get(node->op);
    int n = mc_op_is_control(def) ? def->count_out(node->attr) : mc_op_n_out(def);
    if (n != mc_node_n_out(node)) *fault = "has the wrong number of results";
    if (*fault) return MICA_OK;
    const mc_layout **in = mc_array_alloc(node->n_in, sizeof *in), *are = mc_node_results(node);
    mc_layout *out = mc_calloc((size_t)n, sizeof *out);
    mica_status status = in && out ? MICA_OK : mc_fail_nomem("checking a graph");
    for (uint32_t k = 0; status == MICA_OK && k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT
                    ? NULL
                    : mc_operand_layout(node->op, node->attr, mc_scope_node(s, node->in[k]));
    bool same = status == MICA_OK && def->infer(node->attr, in, (int)node->n_in, out) == MICA_OK;
    for (int i = 0; same && i < n; i++)
        same = out[i].dtype == are[i].dtype && mc_layout_same_shape(&out[i], &are[i]);
    if (status == MICA_OK && !same) *fault = "has another shape than its op's rule gives";
    mc_free(in);
    mc_free(out);
    return status;
}

/* Verifies the subgraphs of a node; they nest MC_SUBGRAPH_DEPTH deep at most. */
static mica_status verify_graphs(uint32_t i, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        const mc_subgraph *g = mc_attr_graph(node->attr, f);
        mica_status status = g ? mc_graph_verify(g->graph) : mc_fail(MICA_EINTERNAL, "is missing");
        if (status != MICA_OK)
            return mc_fail_context(status, "node %%%u (%s), %s", i, def->name, f->name);
    }
    return MICA_OK;
}

mica_status mc_graph_verify(const mica_scope *s) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const char *fault = node_fault(s, i);
        if (!fault) MC_TRY(verify_graphs(i, mc_scope_node(s, i)));
        if (!fault) MC_TRY(check_shapes(s, mc_scope_node(s, i), &fault));
        if (fault)
            return mc_fail(MICA_EINTERNAL, "node %%%u (%s) %s", i,
                           mc_op_get(mc_scope_node(s, i)->op)->name, fault);
    }
    return MICA_OK;
}

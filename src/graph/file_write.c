/* Graphs to files. */
#include "graph/file.h"

#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "graph/attr.h"
#include "graph/custom.h"
#include "graph/file_format.h"
#include "graph/subgraph.h"

typedef struct writer {
    mica_scope *s;
    const mc_graph_ports *ports;
    const mc_graph_saver *saver;
    mc_buffer *out;
    size_t begin;       /* of the file in *out */
    mc_arena arena;     /* the two lists */
    uint32_t *index;    /* [count] MC_ABSENT: left out; else its number */
    mc_leaf_kind *kind; /* [count] of those that are written as leaves; MC_LEAF_KINDS: as ops */
    uint32_t ops[MC_OP_COUNT]; /* number of each, or MC_GRAPH_LEAF */
    mc_buffer customs;         /* const mica_custom_op * */
    mc_buffer graphs;          /* const mc_subgraph *, those within others first */
    mc_buffer dims;            /* int64_t: symbols, and expressions behind what they consist of */
    uint64_t control;          /* bytes that control flow takes */
    uint32_t n_ops, n_nodes;
    uint32_t count; /* of s, before the saver reads: that may record more */
} writer;

static bool add_word(writer *w, uint64_t word) {
    return mc_buffer_add(w->out, &word, sizeof word);
}

static bool add_halves(writer *w, uint32_t low, uint32_t high) {
    return add_word(w, (uint64_t)high << 32 | low);
}

/* Zeros up to a multiple of `step` bytes of the file. */
static bool add_padding(writer *w, size_t step) {
    static const char zeros[MC_GRAPH_ALIGN] = {0};
    size_t over = (w->out->len - w->begin) % step;
    return over == 0 || mc_buffer_add(w->out, zeros, step - over);
}

static bool add_text(writer *w, const char *text) {
    return add_word(w, strlen(text)) && mc_buffer_add_text(w->out, text) &&
           add_padding(w, MC_GRAPH_WORD);
}

static mica_status check_name(const char *name) {
    size_t n = strlen(name);
    if (n <= MC_GRAPH_MAX_NAME && mc_utf8_valid(name, n)) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "saving a graph: the name \"%.60s\" is no UTF-8, or longer than %d bytes", name,
                   MC_GRAPH_MAX_NAME);
}

static const char *result_name(const mc_graph_ports *ports, size_t i) {
    return ports->result_names ? ports->result_names[i] : "";
}

static mica_status check_node(const writer *w, uint32_t node) {
    if (node < w->count) return mc_check_array((mica_array){w->s, node}, "saving a graph");
    return mc_fail(MICA_EINVAL, "saving a graph: there is no node %%%u", node);
}

/* Marks parameters and what the results need; inputs come before users. */
static mica_status mark(writer *w) {
    const mc_graph_ports *p = w->ports;
    for (uint32_t i = 0; i < w->count; i++) {
        w->index[i] = MC_ABSENT;
        w->kind[i] = MC_LEAF_KINDS;
    }
    for (size_t i = 0; i < p->n_params; i++) {
        MC_TRY(check_node(w, p->params[i].node));
        MC_TRY(check_name(p->params[i].name));
        if (w->kind[p->params[i].node] == MC_LEAF_PARAM)
            return mc_fail(MICA_EINVAL, "saving a graph: parameter %s is listed twice",
                           p->params[i].name);
        w->kind[p->params[i].node] = MC_LEAF_PARAM;
        w->index[p->params[i].node] = 0;
    }
    for (size_t i = 0; i < p->n_results; i++) {
        MC_TRY(check_node(w, p->results[i]));
        MC_TRY(check_name(result_name(p, i)));
        w->index[p->results[i]] = 0;
    }
    for (uint32_t i = w->count; i-- > 0;) {
        const mc_node *node = mc_scope_node(w->s, i);
        if (w->index[i] == MC_ABSENT || w->kind[i] == MC_LEAF_PARAM) continue;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) w->index[node->in[k]] = 0;
    }
    return MICA_OK;
}

static const char *constant_name(const writer *w, uint32_t i) {
    const mc_graph_saver *saver = w->saver;
    return saver->name ? saver->name(saver->context, (mica_array){w->s, i}) : NULL;
}

/* ---- lengths with symbols ---- */

/* What the file has in the place of a dimension that is a number or listed. */
static int64_t dim_word(const writer *w, int64_t d) {
    const int64_t *dims = MC_BUFFER_AT(&w->dims, int64_t);
    int64_t i = 0, n = (int64_t)MC_BUFFER_COUNT(&w->dims, int64_t);
    if (!mc_dim_has_symbols(d)) return d;
    while (i < n && dims[i] != d)
        i++;
    return i == n ? 0 : MC_DIM_FIRST + i;
}

/* Quotients nest to MC_DIM_DEPTH. */
static bool list_dim(writer *w, int64_t d) {
    mc_dim_parts parts;
    bool ok = true;
    if (!mc_dim_has_symbols(d) || dim_word(w, d) != 0) return true;
    mc_dim_get(d, &parts);
    if (parts.kind == MC_DIM_QUOTIENT || parts.kind == MC_DIM_COMPUTED)
        ok = list_dim(w, parts.over) && list_dim(w, parts.under);
    for (int64_t i = 0; ok && i < parts.n; i++)
        for (int64_t k = 0; ok && k < parts.terms[i].degree; k++)
            ok = list_dim(w, parts.terms[i].atoms[k]);
    return ok && mc_buffer_add(&w->dims, &d, sizeof d);
}

static int64_t word_of_real(const writer *w, int64_t word, int64_t *dim) {
    double real;
    memcpy(&real, &word, sizeof real);
    *dim = mc_dim_of_real(real);
    if (*dim == 0) return word;
    real = (double)dim_word(w, *dim);
    memcpy(&word, &real, sizeof real);
    return word;
}

/* A word of a node's attributes as the file has it. */
static int64_t attr_word(const writer *w, mc_attr_kind kind, int64_t word) {
    int64_t dim;
    if (!mc_attr_has_dims(kind)) return word;
    return kind == MC_ATTR_REAL ? word_of_real(w, word, &dim) : dim_word(w, word);
}

/* Lists what a node has of lengths with symbols; symbols are there already. */
static bool list_dims(writer *w, const mc_node *node) {
    bool ok = list_dim(w, node->length);
    if (node->op == MC_OP_LEAF)
        for (int k = 0; ok && k < node->layout.ndim; k++)
            ok = list_dim(w, node->layout.shape[k]);
    for (const mc_attr_field *f = mc_op_get(node->op)->attr_fields; ok && f && f->name; f++)
        for (int i = 0; ok && i < f->words && mc_attr_has_dims(f->kind); i++) {
            int64_t word = ((const int64_t *)node->attr)[f->at + i];
            if (f->kind == MC_ATTR_REAL) (void)word_of_real(w, word, &word);
            ok = list_dim(w, word);
        }
    return ok;
}

static bool add_dim(writer *w, int64_t d) {
    mc_dim_parts parts;
    mc_dim_get(d, &parts);
    if (parts.kind == MC_DIM_QUOTIENT)
        return add_word(w, MC_DIM_QUOTIENT) && add_word(w, (uint64_t)dim_word(w, parts.over)) &&
               add_word(w, (uint64_t)dim_word(w, parts.under));
    if (parts.kind == MC_DIM_COMPUTED)
        return add_word(w, MC_DIM_COMPUTED) && add_word(w, parts.op) &&
               add_word(w, (uint64_t)dim_word(w, parts.over)) &&
               add_word(w, (uint64_t)dim_word(w, parts.under));
    bool ok = add_word(w, MC_DIM_SUM) && add_word(w, (uint64_t)parts.n);
    for (int64_t i = 0; ok && i < parts.n; i++) {
        const mc_dim_term *t = &parts.terms[i];
        ok = add_word(w, (uint64_t)t->factor) && add_word(w, (uint64_t)t->degree);
        for (int64_t k = 0; ok && k < t->degree; k++)
            ok = add_word(w, (uint64_t)dim_word(w, t->atoms[k]));
    }
    return ok;
}

/* Symbols and expressions. */
static bool add_dims(writer *w) {
    const mc_graph_ports *p = w->ports;
    size_t n = MC_BUFFER_COUNT(&w->dims, int64_t);
    bool ok = add_word(w, p->n_symbols);
    for (size_t i = 0; ok && i < p->n_symbols; i++)
        ok = add_text(w, p->symbols[i].name);
    ok = ok && add_word(w, n - p->n_symbols);
    for (size_t i = p->n_symbols; ok && i < n; i++)
        ok = add_dim(w, MC_BUFFER_AT(&w->dims, int64_t)[i]);
    return ok;
}

static bool add_shape(writer *w, const mc_layout *l) {
    bool ok = add_halves(w, (uint32_t)l->dtype, (uint32_t)l->ndim);
    for (int k = 0; ok && k < l->ndim; k++)
        ok = add_word(w, (uint64_t)dim_word(w, l->shape[k]));
    return ok;
}

/* ---- subgraphs ---- */

static uint64_t graph_index(const writer *w, const mc_subgraph *g) {
    const mc_subgraph *const *graphs = MC_BUFFER_AT(&w->graphs, const mc_subgraph *);
    uint64_t i = 0, n = MC_BUFFER_COUNT(&w->graphs, const mc_subgraph *);
    while (i < n && graphs[i] != g)
        i++;
    return i;
}

static mica_status list_graph(writer *w, const mc_subgraph *g);

static mica_status list_custom(writer *w, const mc_attr_custom *attr) {
    const mica_custom_op *op;
    MC_TRY(mc_custom_find(attr, &op));
    for (size_t i = 0; i < MC_BUFFER_COUNT(&w->customs, const mica_custom_op *); i++)
        if (MC_BUFFER_AT(&w->customs, const mica_custom_op *)[i] == op) return MICA_OK;
    bool ok = MC_BUFFER_PUSH(&w->customs, const mica_custom_op *, op);
    return ok ? MICA_OK : mc_fail_nomem("saving a graph");
}

/* Numbers the node's op, and lists its subgraphs, and it if it is the application's. */
static mica_status number_op(writer *w, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    if (w->ops[node->op] == MC_GRAPH_LEAF) w->ops[node->op] = w->n_ops++;
    if (node->op == MC_OP_CUSTOM) MC_TRY(list_custom(w, node->attr));
    MC_TRY(mc_control_charge(&w->control, node->op, node->attr));
    for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) MC_TRY(list_graph(w, mc_attr_graph(node->attr, f)));
    return MICA_OK;
}

/* They nest MC_SUBGRAPH_DEPTH deep at most. */
static mica_status list_graph(writer *w, const mc_subgraph *g) {
    if (graph_index(w, g) < MC_BUFFER_COUNT(&w->graphs, const mc_subgraph *)) return MICA_OK;
    for (uint32_t i = 0; i < mc_scope_count(g->graph); i++) {
        const mc_node *node = mc_scope_node(g->graph, i);
        if (!list_dims(w, node)) return mc_fail_nomem("saving a graph");
        if (node->op != MC_OP_LEAF) MC_TRY(number_op(w, node));
    }
    bool ok = MC_BUFFER_PUSH(&w->graphs, const mc_subgraph *, g);
    return ok ? MICA_OK : mc_fail_nomem("saving a graph");
}

/* ---- nodes ---- */

/* Numbers the marked nodes and their ops, and decides what leaves are. */
static mica_status number(writer *w) {
    for (uint32_t i = 0; i < w->count; i++) {
        const mc_node *node = mc_scope_node(w->s, i);
        if (w->index[i] == MC_ABSENT) continue;
        w->index[i] = w->n_nodes++;
        if (!list_dims(w, node)) return mc_fail_nomem("saving a graph");
        if (w->kind[i] == MC_LEAF_PARAM) continue;
        if (node->op != MC_OP_LEAF) {
            MC_TRY(number_op(w, node));
            continue;
        }
        if (node->state != MC_READY)
            return mc_fail(MICA_EINVAL,
                           "saving a graph: leaf %%%u has no data, and is no parameter", i);
        w->kind[i] = node->length          ? MC_LEAF_LENGTH
                     : node->scalar        ? MC_LEAF_SCALAR
                     : constant_name(w, i) ? MC_LEAF_NAMED
                                           : MC_LEAF_INSIDE;
    }
    return MICA_OK;
}

static bool add_op(writer *w, const mc_op_def *def) {
    const mc_attr_field *f = def->attr_fields;
    uint64_t n = 0;
    while (f && f[n].name)
        n++;
    bool ok = add_text(w, def->name) && add_word(w, n);
    for (uint64_t i = 0; ok && i < n; i++)
        ok = add_text(w, f[i].name) && add_word(w, (uint64_t)f[i].words);
    return ok;
}

/* In the order of their numbers, which is that of their first use. */
static bool add_ops(writer *w) {
    bool ok = true;
    for (uint32_t next = 0; ok && next < w->n_ops; next++)
        for (int op = 0; op < MC_OP_COUNT; op++)
            if (w->ops[op] == next) ok = ok && add_op(w, mc_op_get((mc_op)op));
    return ok;
}

static bool add_customs(writer *w) {
    uint64_t n = MC_BUFFER_COUNT(&w->customs, const mica_custom_op *);
    bool ok = add_word(w, n);
    for (uint64_t i = 0; ok && i < n; i++)
        ok = add_text(w, MC_BUFFER_AT(&w->customs, const mica_custom_op *)[i]->name);
    return ok;
}

static mica_status add_leaf(writer *w, uint32_t i) {
    const mc_node *node = mc_scope_node(w->s, i);
    const mc_layout *l = &node->layout;
    bool ok = add_halves(w, MC_GRAPH_LEAF, (uint32_t)w->kind[i]) && add_shape(w, l);
    if (w->kind[i] == MC_LEAF_LENGTH) ok = ok && add_word(w, (uint64_t)dim_word(w, node->length));
    if (w->kind[i] == MC_LEAF_SCALAR) ok = ok && add_word(w, mc_scalar_low(l->dtype, node->value));
    if (w->kind[i] == MC_LEAF_NAMED) {
        const char *name = constant_name(w, i);
        MC_TRY(check_name(name));
        ok = ok && add_text(w, name);
    }
    return ok ? MICA_OK : mc_fail_nomem("saving a graph");
}

static bool add_attr(writer *w, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    bool ok = true;
    for (const mc_attr_field *f = def->attr_fields; ok && f && f->name; f++)
        for (int i = 0; ok && i < f->words; i++) {
            int64_t word = ((const int64_t *)node->attr)[f->at + i];
            ok = add_word(w, f->kind == MC_ATTR_GRAPH ? graph_index(w, mc_attr_graph(node->attr, f))
                                                      : (uint64_t)attr_word(w, f->kind, word));
        }
    return ok;
}

/* index: the numbers of nodes; NULL: they have their own. */
static bool add_op_node(writer *w, const mc_node *node, const uint32_t *index) {
    bool ok = add_halves(w, w->ops[node->op], node->n_in);
    for (uint32_t k = 0; ok && k < node->n_in; k++) {
        uint32_t in = node->in[k];
        ok = add_word(w, in != MC_ABSENT && index ? index[in] : in);
    }
    return ok && add_attr(w, node);
}

static mica_status add_node(writer *w, uint32_t i) {
    if (w->kind[i] != MC_LEAF_KINDS) return add_leaf(w, i);
    bool ok = add_op_node(w, mc_scope_node(w->s, i), w->index);
    return ok ? MICA_OK : mc_fail_nomem("saving a graph");
}

static bool add_graph_leaf(writer *w, const mc_node *node) {
    const mc_layout *l = &node->layout;
    mc_leaf_kind kind = node->length   ? MC_LEAF_LENGTH
                        : node->scalar ? MC_LEAF_SCALAR
                                       : MC_LEAF_PARAM;
    if (!add_halves(w, MC_GRAPH_LEAF, kind) || !add_shape(w, l)) return false;
    if (kind == MC_LEAF_LENGTH) return add_word(w, (uint64_t)dim_word(w, node->length));
    return kind == MC_LEAF_PARAM || add_word(w, mc_scalar_low(l->dtype, node->value));
}

static bool add_graphs(writer *w) {
    uint64_t n = MC_BUFFER_COUNT(&w->graphs, const mc_subgraph *);
    bool ok = add_word(w, n);
    for (uint64_t i = 0; ok && i < n; i++) {
        const mc_subgraph *g = MC_BUFFER_AT(&w->graphs, const mc_subgraph *)[i];
        uint32_t count = mc_scope_count(g->graph);
        ok = add_word(w, g->n_params) && add_word(w, count) && add_word(w, g->n_results);
        for (uint32_t k = 0; ok && k < g->n_results; k++)
            ok = add_word(w, g->results[k]);
        for (uint32_t k = 0; ok && k < count; k++) {
            const mc_node *node = mc_scope_node(g->graph, k);
            ok = node->op == MC_OP_LEAF ? add_graph_leaf(w, node) : add_op_node(w, node, NULL);
        }
    }
    return ok;
}

static mica_status add_constants(writer *w) {
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->index[i] == MC_ABSENT || w->kind[i] != MC_LEAF_INSIDE) continue;
        size_t bytes = (size_t)mc_layout_bytes(&mc_scope_node(w->s, i)->layout);
        if (!mc_buffer_reserve(w->out, bytes + MC_GRAPH_ALIGN))
            return mc_fail_nomem("saving a graph");
        MC_TRY(w->saver->read(w->saver->context, (mica_array){w->s, i}, w->out->data + w->out->len,
                              bytes));
        w->out->len += bytes;
        if (!add_padding(w, MC_GRAPH_ALIGN)) return mc_fail_nomem("saving a graph");
    }
    return MICA_OK;
}

static mica_status write_graph(writer *w) {
    const mc_graph_ports *p = w->ports;
    mc_graph_header head = {.version = MC_GRAPH_VERSION, .byte_order = MC_GRAPH_ORDER};
    for (size_t i = 0; i < p->n_symbols; i++)
        if (!mc_buffer_add(&w->dims, &p->symbols[i].dim, sizeof p->symbols[i].dim))
            return mc_fail_nomem("saving a graph");
    MC_TRY(mark(w));
    MC_TRY(number(w));
    memcpy(head.magic, MC_GRAPH_MAGIC, sizeof head.magic);
    head.n_ops = w->n_ops;
    head.n_nodes = w->n_nodes;
    head.n_params = p->n_params;
    head.n_results = p->n_results;
    bool ok = mc_buffer_add(w->out, &head, sizeof head) && add_dims(w);
    for (size_t i = 0; ok && i < p->n_params; i++)
        ok = add_text(w, p->params[i].name) &&
             add_halves(w, w->index[p->params[i].node], p->params[i].donate);
    for (size_t i = 0; ok && i < p->n_results; i++)
        ok = add_text(w, result_name(p, i)) && add_word(w, w->index[p->results[i]]);
    ok = ok && add_ops(w) && add_customs(w) && add_graphs(w);
    for (uint32_t i = 0; ok && i < w->count; i++)
        if (w->index[i] != MC_ABSENT) MC_TRY(add_node(w, i));
    if (!ok || !add_padding(w, MC_GRAPH_ALIGN)) return mc_fail_nomem("saving a graph");
    head.data = w->out->len - w->begin;
    MC_TRY(add_constants(w));
    char *file = w->out->data + w->begin;
    head.bytes = w->out->len - w->begin;
    memcpy(file, &head, sizeof head);
    head.hash = mc_hash(file + MC_GRAPH_HASHED, head.bytes - MC_GRAPH_HASHED, 0);
    memcpy(file, &head, sizeof head);
    return MICA_OK;
}

mica_status mc_graph_write(mica_scope *s, const mc_graph_ports *ports, const mc_graph_saver *saver,
                           mc_buffer *out) {
    writer w = {.s = s, .ports = ports, .saver = saver, .out = out, .begin = out->len};
    w.count = mc_scope_count(s);
    for (int op = 0; op < MC_OP_COUNT; op++)
        w.ops[op] = MC_GRAPH_LEAF;
    w.index = mc_arena_alloc(&w.arena, w.count * sizeof *w.index);
    w.kind = mc_arena_alloc(&w.arena, w.count * sizeof *w.kind);
    mica_status status = w.index && w.kind ? write_graph(&w) : mc_fail_nomem("saving a graph");
    mc_arena_deinit(&w.arena);
    mc_buffer_deinit(&w.graphs);
    mc_buffer_deinit(&w.customs);
    mc_buffer_deinit(&w.dims);
    if (status != MICA_OK) out->len = w.begin;
    return status;
}

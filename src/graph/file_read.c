/* Graphs from files. */
#include "graph/file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "graph/attr.h"
#include "graph/custom.h"
#include "graph/file_format.h"
#include "graph/file_primes.h"
#include "graph/subgraph.h"

/* Expressions that one file may add to those of the process, and lists. */
enum { MAX_DIMS = 4096 };

#define MAX_ARRAY_BYTES ((int64_t)1 << 46) /* so that no kernel's count of bytes overflows */

typedef struct file_op { /* how the file has an op */
    mc_op op;
    uint32_t words; /* of its attributes */
    uint32_t n_fields;
    struct {
        uint32_t at, words; /* in the attributes as they are here, and how many there are */
    } fields[MC_ATTR_MAX_FIELDS];
} file_op;

typedef struct graph_refs {   /* references of the reader */
    const mc_subgraph **list; /* [n] */
    uint64_t n;
} graph_refs;

typedef struct reader {
    const char *data, *name;
    size_t at, end; /* of what is read word by word; behind it are the data */
    size_t size;
    size_t constant; /* where the next one begins */
    mc_graph_header head;
    mica_scope *into;
    const mc_graph_loader *loader;
    mc_arena *arena;   /* the caller's */
    file_op *ops;      /* [n_ops] */
    mica_array *nodes; /* [n_nodes] */
    mica_array *in;    /* operands of the node at hand, room for n_in */
    size_t max_in;
    const mc_symbol *symbols; /* [n_symbols] of into */
    size_t n_symbols;
    int64_t *dims; /* [n_dims] of the symbols, and expressions */
    size_t n_dims;
    uint64_t dims_made;    /* by the thread, before the file */
    mc_primes *primes;     /* of an old file with symbols; NULL: of others */
    mc_graph_port *params; /* [n_params] */
    uint32_t *param_of;    /* [n_nodes] number of the parameter that a node is, or MC_ABSENT */
    graph_refs graphs;     /* so far */
    uint64_t graph_params; /* within a subgraph: of its first nodes, which are parameters */
    bool is_graph;         /* a subgraph is read */
    uint64_t control;      /* bytes that control flow takes so far */
} reader;

static mica_status malformed(const reader *r, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s: %s (byte %zu of a graph's file)", r->name, what, r->at);
}

static mica_status take_bytes(reader *r, uint64_t bytes, const char **data) {
    *data = NULL;
    if (bytes > r->end - r->at) return malformed(r, "ends too early");
    *data = r->data + r->at;
    r->at += (size_t)bytes;
    return MICA_OK;
}

static mica_status take_word(reader *r, uint64_t *word) {
    const char *data;
    MC_TRY(take_bytes(r, sizeof *word, &data));
    memcpy(word, data, sizeof *word);
    return MICA_OK;
}

static mica_status take_halves(reader *r, uint32_t *low, uint32_t *high) {
    uint64_t word;
    MC_TRY(take_word(r, &word));
    *low = (uint32_t)word;
    *high = (uint32_t)(word >> 32);
    return MICA_OK;
}

/* A text, copied to the arena. */
static mica_status take_text(reader *r, const char **text) {
    uint64_t n;
    const char *data;
    MC_TRY(take_word(r, &n));
    if (n > MC_GRAPH_MAX_NAME) return malformed(r, "a name is too long");
    MC_TRY(take_bytes(r, (n + MC_GRAPH_WORD - 1) / MC_GRAPH_WORD * MC_GRAPH_WORD, &data));
    if (memchr(data, 0, (size_t)n) || !mc_utf8_valid(data, (size_t)n))
        return malformed(r, "a name is no text");
    *text = mc_arena_strndup(r->arena, data, (size_t)n);
    return *text ? MICA_OK : mc_fail_nomem("a graph's file");
}

/* Room for `n` of them, each of which takes `words` or more of the file. */
static mica_status take_room(reader *r, uint64_t n, size_t words, size_t each, void *list) {
    if (n > (r->end - r->at) / (words * MC_GRAPH_WORD)) return malformed(r, "ends too early");
    void *room = mc_arena_alloc(r->arena, (size_t)n * each);
    memcpy(list, &room, sizeof room);
    return room ? MICA_OK : mc_fail_nomem("a graph's file");
}

static mica_status take_field(reader *r, const mc_op_def *def, file_op *op) {
    const char *name;
    uint64_t words;
    const mc_attr_field *f = def->attr_fields;
    MC_TRY(take_text(r, &name));
    MC_TRY(take_word(r, &words));
    while (f && f->name && strcmp(f->name, name) != 0)
        f++;
    if (!f || !f->name || words > (uint64_t)f->words || op->n_fields == MC_ATTR_MAX_FIELDS)
        return mc_fail(MICA_EUNSUPPORTED, "%s: %llu numbers of attribute %s of %s are unknown",
                       r->name, (unsigned long long)words, name, def->name);
    op->fields[op->n_fields].at = (uint32_t)f->at;
    op->fields[op->n_fields++].words = (uint32_t)words;
    op->words += (uint32_t)words;
    return MICA_OK;
}

static mica_status take_op(reader *r, file_op *op) {
    const char *name;
    uint64_t n;
    MC_TRY(take_text(r, &name));
    *op = (file_op){.op = mc_op_find(name)};
    if (op->op == MC_OP_COUNT)
        return mc_fail(MICA_EUNSUPPORTED, "%s: the op %s is unknown", r->name, name);
    MC_TRY(take_word(r, &n));
    for (uint64_t i = 0; i < n; i++)
        MC_TRY(take_field(r, mc_op_get(op->op), op));
    return MICA_OK;
}

/* The application's ops. */
static mica_status take_customs(reader *r) {
    uint64_t n = 0;
    const char *name;
    if (r->head.version > MC_GRAPH_NUMBERED) MC_TRY(take_word(r, &n));
    for (uint64_t i = 0; i < n; i++) {
        MC_TRY(take_text(r, &name));
        if (!mc_custom_is_known(name))
            return mc_fail(MICA_EUNSUPPORTED, "%s: the op \"%.63s\" is not registered", r->name,
                           name);
    }
    return MICA_OK;
}

/* ---- lengths with symbols ---- */

/* The dimension that a word of the file is. */
static mica_status dim_of(const reader *r, int64_t word, int64_t *dim) {
    *dim = word;
    if (!mc_dim_in_range(word) || r->n_dims == 0) return MICA_OK;
    if ((uint64_t)(word - MC_DIM_FIRST) >= r->n_dims)
        return malformed(r, "a length with symbols is not listed");
    *dim = r->dims[word - MC_DIM_FIRST];
    return MICA_OK;
}

static mica_status take_dim(reader *r, int64_t *dim) {
    uint64_t word;
    MC_TRY(take_word(r, &word));
    return dim_of(r, (int64_t)word, dim);
}

static mica_status take_whole(reader *r, int64_t *dim) {
    MC_TRY(take_dim(r, dim));
    return mc_dim_is_whole(*dim) ? MICA_OK : malformed(r, "a part of a length has a fraction");
}

static mica_status take_quotient(reader *r, int64_t *dim) {
    int64_t over, under;
    MC_TRY(take_whole(r, &over));
    MC_TRY(take_whole(r, &under));
    if (under <= 0 || (mc_dim_numbers(over, under)))
        return malformed(r, "a length is divided by 0, or has no symbol");
    *dim = mc_dim_div(over, under);
    return MICA_OK;
}

static mica_status take_computed(reader *r, int64_t *dim) {
    uint64_t op;
    int64_t a, b;
    MC_TRY(take_word(r, &op));
    if (op >= MC_DIM_OPS) return malformed(r, "a length is computed in an unknown way");
    MC_TRY(take_dim(r, &a));
    MC_TRY(take_dim(r, &b));
    bool one = op == MC_DIM_CONSTANT || op >= MC_DIM_FLOOR;
    if ((one && b != 0) || (op == MC_DIM_CONSTANT && (a < 0 || a > UINT32_MAX)))
        return malformed(r, "a length is computed from something else");
    *dim = op == MC_DIM_CONSTANT ? mc_dim_real_of(a) : mc_dim_compute((mc_dim_op)op, a, b);
    return MICA_OK;
}

static mica_status take_term(reader *r, mc_dim_term *term) {
    uint64_t degree;
    MC_TRY(take_word(r, (uint64_t *)&term->factor));
    MC_TRY(take_word(r, &degree));
    if (degree > MC_DIM_DEGREE) return malformed(r, "a length has too large a term");
    term->degree = (int64_t)degree;
    for (uint64_t k = 0; k < degree; k++)
        MC_TRY(take_whole(r, &term->atoms[k]));
    return MICA_OK;
}

static mica_status take_expression(reader *r, int64_t *dim) {
    uint64_t kind, n;
    mc_dim_term terms[MC_DIM_TERMS];
    MC_TRY(take_word(r, &kind));
    if (kind == MC_DIM_QUOTIENT) return take_quotient(r, dim);
    if (kind == MC_DIM_COMPUTED) return take_computed(r, dim);
    MC_TRY(take_word(r, &n));
    if (kind != MC_DIM_SUM || n > MC_DIM_TERMS)
        return malformed(r, "a length is of an unknown kind, or has too many terms");
    for (uint64_t i = 0; i < n; i++)
        MC_TRY(take_term(r, &terms[i]));
    *dim = mc_dim_of_terms(terms, (int64_t)n);
    return MICA_OK;
}

/* So that no file fills the table of the process. */
static mica_status check_made_dims(const reader *r) {
    return mc_dims_made() - r->dims_made <= MAX_DIMS
               ? MICA_OK
               : malformed(r, "too many different lengths with symbols");
}

static mica_status take_dims(reader *r) {
    uint64_t n;
    MC_TRY(take_word(r, &n));
    if (n > MAX_DIMS) return malformed(r, "too many different lengths with symbols");
    int64_t *dims;
    MC_TRY(take_room(r, n, 2, sizeof *dims, &dims));
    r->dims = mc_arena_alloc(r->arena, ((size_t)n + r->n_symbols) * sizeof *r->dims);
    if (!r->dims) return mc_fail_nomem("a graph's file");
    for (size_t i = 0; i < r->n_symbols; i++)
        r->dims[r->n_dims++] = r->symbols[i].dim;
    for (uint64_t i = 0; i < n; i++) {
        int64_t dim;
        MC_TRY(take_expression(r, &dim));
        mica_status status = mc_dim_check(dim);
        if (status != MICA_OK && status != MICA_ENOMEM) status = MICA_EFORMAT;
        if (status != MICA_OK) return mc_fail_context(status, "%s", r->name);
        r->dims[r->n_dims++] = dim;
        MC_TRY(check_made_dims(r));
    }
    return MICA_OK;
}

/* ---- nodes ---- */

/* With symbols, arrays have their size once these have values: it is checked then. */
static mica_status check_size(const reader *r, const mc_layout *l) {
    if (r->n_symbols > 0) return MICA_OK;
    int64_t bytes = (int64_t)mica_dtype_bytes(l->dtype);
    for (int k = 0; k < l->ndim; k++)
        bytes *= l->shape[k] > 0 ? l->shape[k] : 1; /* mc_layout_init saw that this fits */
    char text[MC_LAYOUT_TEXT];
    if (bytes <= MAX_ARRAY_BYTES) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: an array %s is larger than 2^46 bytes", r->name,
                   mc_layout_text(l, text));
}

/* What a callback or an op recorded in r->into. */
static mica_status check_made(const reader *r, mica_array x) {
    if (mica_valid(x) && x.scope == r->into) return MICA_OK;
    mica_status status = mica_scope_status(r->into);
    if (status == MICA_OK)
        return mc_fail(MICA_EINTERNAL, "%s: a leaf is in another scope", r->name);
    bool wrong = status == MICA_EINVAL || status == MICA_ESHAPE || status == MICA_EDTYPE;
    if (wrong) status = MICA_EFORMAT; /* what the file says of an op; others are the loader's */
    return mc_fail_context(status, "%s", r->name);
}

static mica_status take_layout(reader *r, mc_layout *l) {
    uint32_t dtype, ndim;
    const char *shape;
    int64_t lengths[MICA_MAX_NDIM] = {0};
    MC_TRY(take_halves(r, &dtype, &ndim));
    if (dtype >= MICA_DTYPE_COUNT || ndim > MICA_MAX_NDIM)
        return malformed(r, "a leaf of an unknown dtype, or with too many axes");
    MC_TRY(take_bytes(r, ndim * sizeof *lengths, &shape));
    memcpy(lengths, shape, ndim * sizeof *lengths);
    for (uint32_t k = 0; k < ndim; k++)
        MC_TRY(r->primes ? mc_primes_dim(r->primes, lengths[k], &lengths[k])
                         : dim_of(r, lengths[k], &lengths[k]));
    if (mc_layout_init(l, (mica_dtype)dtype, lengths, (int)ndim) != MICA_OK)
        return mc_fail_context(MICA_EFORMAT, "%s: a leaf", r->name);
    return check_size(r, l);
}

/* The next constant of the data. */
static mica_status take_constant(reader *r, const mc_layout *l, const char **data) {
    size_t bytes = (size_t)mc_layout_bytes(l), left = r->size - r->constant;
    size_t padded = (bytes + MC_GRAPH_ALIGN - 1) / MC_GRAPH_ALIGN * MC_GRAPH_ALIGN;
    if (padded > left) return malformed(r, "a constant lies behind the end");
    *data = r->data + r->constant;
    r->constant += padded;
    return MICA_OK;
}

/* A number, which may be a length with symbols. */
static mica_status make_scalar(reader *r, mc_leaf_kind kind, const mc_layout *l, mica_array *x) {
    uint64_t value;
    int64_t dim;
    if (l->ndim != 0) return malformed(r, "a number has axes");
    if (kind == MC_LEAF_LENGTH) {
        MC_TRY(take_dim(r, &dim));
        if (!mc_dim_has_symbols(dim)) return malformed(r, "a length has no symbol");
        *x = mc_scalar_length(r->into, l->dtype, dim);
        return MICA_OK;
    }
    MC_TRY(take_word(r, &value));
    value = mc_scalar_low(l->dtype, value);
    if (r->primes) return mc_primes_scalar(r->primes, r->into, l->dtype, value, x);
    *x = mc_scalar_bits(r->into, l->dtype, value);
    return MICA_OK;
}

/* A leaf of a subgraph. */
static mica_status make_graph_leaf(reader *r, mc_leaf_kind kind, uint32_t i, const mc_layout *l,
                                   mica_array *x) {
    bool number = kind == MC_LEAF_SCALAR || kind == MC_LEAF_LENGTH;
    if (!number && kind != MC_LEAF_PARAM) return malformed(r, "a subgraph has data");
    if ((kind == MC_LEAF_PARAM) != (i < r->graph_params))
        return malformed(r, "a parameter of a subgraph is not in its place");
    if (kind == MC_LEAF_PARAM) {
        *x = mc_leaf_param(r->into, l, false);
        return MICA_OK;
    }
    return make_scalar(r, kind, l, x);
}

static mica_status make_leaf(reader *r, mc_leaf_kind kind, uint32_t i, const mc_layout *l,
                             mica_array *x) {
    const mc_graph_loader *loader = r->loader;
    const char *data = NULL;
    const mc_graph_port *port = r->param_of[i] == MC_ABSENT ? NULL : &r->params[r->param_of[i]];
    if ((kind == MC_LEAF_PARAM) != (port != NULL))
        return malformed(r, "a leaf without data is no parameter");
    switch (kind) {
    case MC_LEAF_PARAM:
        *x = loader->param ? loader->param(loader->context, r->into, port, l)
                           : mc_leaf_param(r->into, l, port->donate);
        return MICA_OK;
    case MC_LEAF_SCALAR:
    case MC_LEAF_LENGTH:
        return make_scalar(r, kind, l, x);
    case MC_LEAF_NAMED:
        MC_TRY(take_text(r, &data));
        if (!loader->named)
            return mc_fail(MICA_ENOENT, "%s: the constant %s is not in the file", r->name, data);
        *x = loader->named(loader->context, r->into, data, l);
        return MICA_OK;
    default:
        MC_TRY(take_constant(r, l, &data));
        *x = loader->inside(loader->context, r->into, l, data);
        return MICA_OK;
    }
}

static mica_status take_leaf(reader *r, uint32_t kind, uint32_t i) {
    mc_layout l;
    mica_array x = MICA_NONE;
    if (kind >= MC_LEAF_KINDS) return malformed(r, "a leaf of an unknown kind");
    MC_TRY(take_layout(r, &l));
    if (kind != MC_LEAF_PARAM && mc_layout_has_symbols(&l))
        return malformed(r, "a constant has the length of a symbol");
    MC_TRY(r->is_graph ? make_graph_leaf(r, (mc_leaf_kind)kind, i, &l, &x)
                       : make_leaf(r, (mc_leaf_kind)kind, i, &l, &x));
    MC_TRY(check_made(r, x));
    const mc_node *node = mc_node_of(x);
    bool number = kind == MC_LEAF_SCALAR; /* an old file's may have become an op */
    if ((node->op != MC_OP_LEAF && !number) || node->layout.dtype != l.dtype ||
        !mc_layout_same_shape(&node->layout, &l)) {
        char want[MC_LAYOUT_TEXT], got[MC_LAYOUT_TEXT];
        return mc_fail(MICA_EFORMAT, "%s: a leaf is %s, and the graph wants %s", r->name,
                       mc_layout_text(&node->layout, got), mc_layout_text(&l, want));
    }
    r->nodes[i] = x;
    return MICA_OK;
}

/* The operands of node i, which are nodes before it. */
static mica_status take_operands(reader *r, uint32_t i, uint32_t n_in) {
    if (n_in > INT32_MAX) return malformed(r, "too many operands");
    if (n_in > r->max_in) {
        MC_TRY(take_room(r, n_in, 1, sizeof *r->in, &r->in));
        r->max_in = n_in;
    }
    for (uint32_t k = 0; k < n_in; k++) {
        uint64_t in;
        MC_TRY(take_word(r, &in));
        if (in != MC_ABSENT && in >= i)
            return malformed(r, "an operand does not come before its op");
        r->in[k] = in == MC_ABSENT ? MICA_NONE : r->nodes[in];
    }
    return MICA_OK;
}

/* Puts subgraphs into attributes in the place of their indices; NULL where the file has none. */
static mica_status find_graphs(reader *r, const file_op *op, int64_t *attr) {
    for (const mc_attr_field *f = mc_op_get(op->op)->attr_fields; f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        mc_graph_ref ref = {.word = 0};
        for (uint32_t k = 0; k < op->n_fields; k++) {
            if (op->fields[k].at != (uint32_t)f->at || op->fields[k].words == 0) continue;
            if ((uint64_t)attr[f->at] >= r->graphs.n)
                return malformed(r, "a subgraph does not come before its op");
            ref.graph = r->graphs.list[attr[f->at]];
        }
        memcpy(attr + f->at, &ref, sizeof *attr);
    }
    mica_status status = mc_control_charge(&r->control, op->op, attr);
    return status == MICA_OK ? status : mc_fail_context(MICA_EFORMAT, "%s", r->name);
}

/* Puts dimensions in the place of the file's words for them. */
static mica_status find_dims(const reader *r, const file_op *op, int64_t *attr) {
    double real;
    for (const mc_attr_field *f = mc_op_get(op->op)->attr_fields; f && f->name; f++)
        for (int i = 0; i < f->words && mc_attr_has_dims(f->kind); i++) {
            int64_t *word = &attr[f->at + i];
            memcpy(&real, word, sizeof real);
            bool is_real = f->kind == MC_ATTR_REAL;
            if (is_real && !(real >= (double)MC_DIM_FIRST && real < (double)MC_DIM_END)) continue;
            MC_TRY(dim_of(r, is_real ? (int64_t)real : *word, word));
            real = (double)*word;
            if (is_real) memcpy(word, &real, sizeof real);
        }
    return MICA_OK;
}

static mica_status take_attr(reader *r, const file_op *op, int64_t attr[MC_ATTR_MAX_WORDS]) {
    const char *words;
    memset(attr, 0, MC_ATTR_MAX_WORDS * sizeof *attr);
    MC_TRY(take_bytes(r, (uint64_t)op->words * MC_GRAPH_WORD, &words));
    for (uint32_t f = 0; f < op->n_fields; f++) {
        memcpy(attr + op->fields[f].at, words, op->fields[f].words * sizeof *attr);
        words += op->fields[f].words * sizeof *attr;
    }
    MC_TRY(find_dims(r, op, attr));
    return mc_op_is_control(mc_op_get(op->op)) ? find_graphs(r, op, attr) : MICA_OK;
}

/* A slice of small elements may begin where larger ones may not: mica_view copies it, and so does
 * who reads a view that somebody else made. */
static mica_array align_for_view(reader *r, mica_array x, const mc_attr_dtype *attr) {
    const mc_node *node = mc_node_of(x);
    if (!node || attr->dtype < 0 || attr->dtype >= MICA_DTYPE_COUNT ||
        mica_dtype_bytes(node->layout.dtype) >= mica_dtype_bytes((mica_dtype)attr->dtype) ||
        node->op == MC_OP_CONTIGUOUS)
        return x;
    return mc_record(r->into, MC_OP_CONTIGUOUS, NULL, &x, 1);
}

static mica_status take_node(reader *r, uint32_t i) {
    uint32_t index, n_in;
    int64_t attr[MC_ATTR_MAX_WORDS];
    MC_TRY(take_halves(r, &index, &n_in));
    if (index == MC_GRAPH_LEAF) return take_leaf(r, n_in, i);
    bool param = r->is_graph ? i < r->graph_params : r->param_of[i] != MC_ABSENT;
    if (index >= r->head.n_ops || param)
        return malformed(r, "an op is not in the table, or is a parameter");
    const file_op *op = &r->ops[index];
    MC_TRY(take_operands(r, i, n_in));
    MC_TRY(take_attr(r, op, attr));
    if (op->op == MC_OP_VIEW && n_in == 1)
        r->in[0] = align_for_view(r, r->in[0], (const mc_attr_dtype *)(const void *)attr);
    if (r->primes) MC_TRY(mc_primes_attr(r->primes, op->op, n_in > 0 ? r->in[0] : MICA_NONE, attr));
    r->nodes[i] = mc_record(r->into, op->op, attr, r->in, (int)n_in);
    MC_TRY(check_made(r, r->nodes[i]));
    MC_TRY(check_made_dims(r));
    const mc_layout *results = mc_node_results(mc_node_of(r->nodes[i]));
    for (int k = 0; k < mc_node_n_out(mc_node_of(r->nodes[i])); k++)
        MC_TRY(check_size(r, &results[k]));
    return r->primes ? mc_primes_add(r->primes, r->nodes[i]) : MICA_OK;
}

/* ---- subgraphs, read ---- */

/* Reads the nodes of a subgraph with a reader of its own, and makes it. */
static mica_status take_graph_nodes(reader *r, uint64_t n_nodes, const uint64_t *results,
                                    uint64_t n_results, const mc_subgraph **graph) {
    mica_array *made;
    MC_TRY(take_room(r, n_nodes, 2, sizeof *r->nodes, &r->nodes));
    for (uint32_t i = 0; i < n_nodes; i++)
        MC_TRY(take_node(r, i));
    made = mc_arena_alloc(r->arena, n_results * sizeof *made);
    if (!made) return mc_fail_nomem("a graph's file");
    for (uint64_t i = 0; i < n_results; i++) {
        made[i] = r->nodes[results[i]];
        if (mc_check_array(made[i], "a result") != MICA_OK)
            return malformed(r, "a result is an op of several");
    }
    mica_status status =
        mc_subgraph_make(r->into, r->nodes, NULL, r->graph_params, made, n_results, graph);
    if (status == MICA_EINVAL) status = MICA_EFORMAT;
    return status == MICA_OK ? status : mc_fail_context(status, "%s", r->name);
}

static mica_status take_graph(reader *r, const mc_subgraph **graph) {
    uint64_t n_params, n_nodes, n_results, *results;
    MC_TRY(take_word(r, &n_params));
    MC_TRY(take_word(r, &n_nodes));
    MC_TRY(take_word(r, &n_results));
    if (n_nodes > MC_SUBGRAPH_NODES || n_params > n_nodes)
        return malformed(r, "a subgraph has too many nodes or parameters");
    MC_TRY(take_room(r, n_results, 1, sizeof *results, &results));
    for (uint64_t i = 0; i < n_results; i++) {
        MC_TRY(take_word(r, &results[i]));
        if (results[i] >= n_nodes) return malformed(r, "a result of a subgraph is no node");
    }
    reader inner = *r;
    inner.is_graph = true;
    inner.graph_params = n_params;
    MC_TRY(mc_scope_open(mica_scope_device(r->into), &inner.into));
    mica_status status = mc_scope_take_symbols(inner.into, r->into);
    if (status == MICA_OK) status = take_graph_nodes(&inner, n_nodes, results, n_results, graph);
    mica_scope_close(&inner.into);
    r->at = inner.at;
    r->in = inner.in;
    r->control = inner.control;
    r->max_in = inner.max_in;
    return status;
}

static mica_status take_graphs(reader *r) {
    uint64_t n = 0;
    if (r->head.version > MC_GRAPH_FLAT) MC_TRY(take_word(r, &n));
    MC_TRY(take_room(r, n, 3, sizeof *r->graphs.list, &r->graphs.list));
    while (r->graphs.n < n) {
        MC_TRY(take_graph(r, &r->graphs.list[r->graphs.n]));
        r->graphs.n++;
    }
    return MICA_OK;
}

/* ---- the whole ---- */

static mica_status check_header(reader *r, size_t bytes) {
    mc_graph_header *head = &r->head;
    if (bytes < sizeof *head || memcmp(r->data, MC_GRAPH_MAGIC, sizeof head->magic) != 0)
        return mc_fail(MICA_EFORMAT, "%s: no graph's file", r->name);
    memcpy(head, r->data, sizeof *head);
    if (head->byte_order != MC_GRAPH_ORDER || head->version < MC_GRAPH_NAMELESS ||
        head->version > MC_GRAPH_VERSION)
        return mc_fail(
            MICA_EUNSUPPORTED,
            "%s: a graph of version %u, or from a computer of another kind; versions %d to %d are "
            "known",
            r->name, (unsigned)head->version, MC_GRAPH_NAMELESS, MC_GRAPH_VERSION);
    if (head->bytes != bytes || bytes % MC_GRAPH_ALIGN != 0 || head->data > bytes ||
        head->data % MC_GRAPH_ALIGN != 0 || head->data < sizeof *head ||
        mc_hash(r->data + MC_GRAPH_HASHED, bytes - MC_GRAPH_HASHED, 0) != head->hash)
        return mc_fail(MICA_EFORMAT, "%s: the graph's file was cut short or altered", r->name);
    r->at = sizeof *head;
    r->end = r->constant = (size_t)head->data;
    r->size = bytes;
    return MICA_OK;
}

static mica_status take_symbol(reader *r) {
    const char *name;
    uint64_t length;
    mc_symbol symbol;
    size_t n = mc_scope_symbols(r->into, &r->symbols);
    MC_TRY(take_text(r, &name));
    mica_status status = mc_scope_symbol(r->into, name, &symbol);
    r->n_symbols = mc_scope_symbols(r->into, &r->symbols);
    if (status == MICA_EINVAL || (status == MICA_OK && r->n_symbols == n))
        return malformed(r, "a symbol is there twice, or has no name");
    if (status != MICA_OK || !r->primes) return status;
    MC_TRY(take_word(r, &length));
    return mc_primes_symbol(r->primes, (int64_t)length, symbol.dim)
               ? MICA_OK
               : malformed(r, "another length than symbols have");
}

static mica_status take_symbols(reader *r) {
    uint64_t n = 0;
    bool numbers = r->head.version <= MC_GRAPH_PRIMES;
    if (r->head.version > MC_GRAPH_FIXED) MC_TRY(take_word(r, &n));
    if (n > MC_MAX_SYMBOLS) return malformed(r, "too many symbols");
    if (numbers && n > 0) MC_TRY(mc_primes_open(r->arena, r->name, &r->primes));
    for (uint64_t i = 0; i < n; i++)
        MC_TRY(take_symbol(r));
    return numbers ? MICA_OK : take_dims(r);
}

/* Each symbol is the length of a parameter, so that it has a value when the program runs. */
static mica_status check_symbols(const reader *r) {
    for (size_t i = 0; i < r->n_symbols; i++) {
        bool found = false;
        for (uint64_t k = 0; k < r->head.n_params && !found; k++) {
            const mc_layout *l = &mc_scope_node(r->into, r->params[k].node)->layout;
            for (int axis = 0; axis < l->ndim; axis++)
                found = found || l->shape[axis] == r->symbols[i].dim;
        }
        if (!found) return malformed(r, "no parameter has a symbol");
    }
    return MICA_OK;
}

static mica_status take_param(reader *r, uint32_t i) {
    uint32_t node, donate;
    MC_TRY(take_text(r, &r->params[i].name));
    MC_TRY(take_halves(r, &node, &donate));
    if (node >= r->head.n_nodes || donate > 1 || r->param_of[node] != MC_ABSENT)
        return malformed(r, "a parameter is no node, or one twice");
    r->params[i].donate = donate != 0;
    r->param_of[node] = i;
    return MICA_OK;
}

/* Room for the lists, and all parameters. */
static mica_status take_params(reader *r) {
    const mc_graph_header *head = &r->head;
    if (head->n_nodes >= MC_ABSENT) return malformed(r, "too many nodes");
    MC_TRY(take_room(r, head->n_params, 2, sizeof *r->params, &r->params));
    MC_TRY(take_room(r, head->n_nodes, 2, sizeof *r->nodes, &r->nodes));
    MC_TRY(take_room(r, head->n_nodes, 2, sizeof *r->param_of, &r->param_of));
    for (uint64_t i = 0; i < head->n_nodes; i++)
        r->param_of[i] = MC_ABSENT;
    for (uint32_t i = 0; i < head->n_params; i++)
        MC_TRY(take_param(r, i));
    return MICA_OK;
}

/* Results are numbers of the file's nodes until these are there. */
static mica_status take_results(reader *r, uint32_t *results, const char **names) {
    for (uint64_t i = 0; i < r->head.n_results; i++) {
        uint64_t node;
        names[i] = "";
        if (r->head.version != MC_GRAPH_NAMELESS) MC_TRY(take_text(r, &names[i]));
        MC_TRY(take_word(r, &node));
        if (node >= r->head.n_nodes) return malformed(r, "a result is no node");
        results[i] = (uint32_t)node;
    }
    return MICA_OK;
}

static mica_status read_graph(reader *r, mc_graph_ports *ports) {
    uint32_t *results;
    const char **names;
    MC_TRY(take_symbols(r));
    MC_TRY(take_params(r));
    MC_TRY(take_room(r, r->head.n_results, 1, sizeof *results, &results));
    MC_TRY(take_room(r, r->head.n_results, 1, sizeof *names, &names));
    MC_TRY(take_results(r, results, names));
    if (r->head.n_ops > MC_OP_COUNT)
        return mc_fail(MICA_EUNSUPPORTED, "%s: has %llu ops, and %d are known", r->name,
                       (unsigned long long)r->head.n_ops, MC_OP_COUNT);
    MC_TRY(take_room(r, r->head.n_ops, 2, sizeof *r->ops, &r->ops));
    for (uint64_t i = 0; i < r->head.n_ops; i++)
        MC_TRY(take_op(r, &r->ops[i]));
    MC_TRY(take_customs(r));
    MC_TRY(take_graphs(r));
    for (uint32_t i = 0; i < r->head.n_nodes; i++)
        MC_TRY(take_node(r, i));
    if (r->end - r->at >= MC_GRAPH_ALIGN || r->constant != r->size)
        return malformed(r, "something follows that belongs to no node");
    for (uint32_t i = 0; i < r->head.n_nodes; i++)
        if (r->param_of[i] != MC_ABSENT) r->params[r->param_of[i]].node = r->nodes[i].node;
    for (uint64_t i = 0; i < r->head.n_results; i++) {
        if (mc_check_array(r->nodes[results[i]], "a result") != MICA_OK)
            return malformed(r, "a result is an op of several");
        results[i] = r->nodes[results[i]].node;
    }
    *ports = (mc_graph_ports){.params = r->params,
                              .n_params = (size_t)r->head.n_params,
                              .results = results,
                              .result_names = names,
                              .n_results = (size_t)r->head.n_results,
                              .symbols = r->symbols,
                              .n_symbols = r->n_symbols};
    return check_symbols(r);
}

mica_status mc_graph_read(const void *data, size_t bytes, const char *name, mica_scope *into,
                          const mc_graph_loader *loader, mc_arena *arena, mc_graph_ports *ports) {
    reader r = {.data = data, .name = name, .into = into, .loader = loader, .arena = arena};
    *ports = (mc_graph_ports){0};
    MC_TRY(mica_scope_status(into));
    MC_TRY(check_header(&r, bytes));
    r.dims_made = mc_dims_made();
    mica_status status = read_graph(&r, ports);
    mc_primes_close(r.primes);
    for (uint64_t i = 0; i < r.graphs.n; i++)
        mc_subgraph_release(r.graphs.list[i]);
    return status;
}

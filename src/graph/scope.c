#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/utf8.h"
#include "graph/attr.h"
#include "graph/graph.h"
#include "graph/subgraph.h"

enum {
    BLOCK = 64,       /* nodes a block: blocks never move, so that node pointers hold */
    FIRST_BLOCK = 8,  /* nodes, where few are expected */
    SMALL_BLOCKS = 4, /* of 8, 8, 16 and 32 nodes then, which are BLOCK together */
    FEW_OPERANDS = 8, /* whose layouts need no memory while an op is recorded */
};

/* The leaves that arrays of other scopes have here, by scope and node: open addressing. An entry is
 * empty where its stamp is not the table's. */
typedef struct import_entry {
    const mica_scope *scope;
    uint32_t node, leaf;
    uint64_t stamp;
} import_entry;

typedef struct import_table {
    import_entry *entries; /* [cap] */
    uint32_t count, cap;   /* cap: a power of two, or 0 */
    uint64_t stamp;        /* from 1 on */
} import_table;

/* A subgraph that a node holds. */
typedef struct held_graph {
    struct held_graph *next;
    const mc_subgraph *graph;
} held_graph;

struct mica_scope {
    mica_device *device;
    mc_arena arena; /* input lists and attributes of nodes */
    mc_node **blocks;
    uint32_t n_blocks;
    uint32_t n_split; /* blocks that the first BLOCK nodes have beyond one */
    uint32_t count;
    mica_status status;
    char error[1024]; /* the text of status */
    void *run;
    mc_wait_fn wait;
    void *space;
    void (*free_space)(void *space);
    import_table imports;
    void (*release)(mica_device *device);
    mc_region *regions; /* in the arena */
    int recordings;     /* functions that record into it */
    int inner;          /* open scopes within it */
    bool fallback;      /* mc_scope_set_fallback */
    held_graph *held;   /* in the arena */
    mica_scope *outer;  /* of a scope within another */
    mc_buffer captures; /* mc_capture */
    mc_buffer symbols;  /* mc_symbol */
    const struct mica_cancel *cancel;
};

mica_status mc_scope_open(mica_device *device, mica_scope **scope) {
    if (!scope) return mc_fail(MICA_EINVAL, "mica_scope_open: scope is NULL");
    *scope = NULL;
    if (!device) return mc_fail(MICA_EINVAL, "mica_scope_open: device is NULL");
    mica_scope *s = mc_calloc(1, sizeof *s);
    if (!s) return mc_fail_nomem("a scope");
    s->device = device;
    s->imports.stamp = 1;
    *scope = s;
    return MICA_OK;
}

void mc_scope_expect_few(mica_scope *s) {
    s->arena.first = 512;
    s->n_split = SMALL_BLOCKS - 1;
}

mica_status mc_scope_open_within(mica_scope *outer, mica_scope **scope) {
    MC_TRY(mc_scope_open(outer->device, scope));
    (*scope)->outer = outer;
    outer->inner++;
    return MICA_OK;
}

size_t mc_scope_captures(const mica_scope *s, const mc_capture **captures) {
    *captures = MC_BUFFER_AT(&s->captures, mc_capture);
    return MC_BUFFER_COUNT(&s->captures, mc_capture);
}

static void release_held(mica_scope *s) {
    for (; s->held; s->held = s->held->next)
        mc_subgraph_release(s->held->graph);
}

static void wait_for_run(mica_scope *s) {
    if (s->run) mc_scope_set_status(s, s->wait(s, s->run));
}

static void forget_imports(mica_scope *s) {
    s->imports.stamp++;
    s->imports.count = 0;
}

void mc_scope_reset(mica_scope *s) {
    wait_for_run(s);
    uint32_t count = s->run ? 0 : s->count; /* in a fork, what a run holds that never ends stays */
    s->run = NULL;
    /* The last first: the next storage of a size is the one that was released last, and the same
     * graph recorded again lies where it lay. */
    for (uint32_t i = count; i-- > 0;)
        mc_storage_release(mc_scope_node(s, i)->storage);
    s->count = 0;
    s->status = MICA_OK;
    s->regions = NULL;
    release_held(s);
    mc_buffer_clear(&s->captures);
    forget_imports(s);
    mc_arena_reset(&s->arena);
}

/* Node `from` as the leaf number `to`, which is not behind it. */
static void keep_node(mica_scope *s, uint32_t from, uint32_t to) {
    mc_node *node = mc_scope_node(s, to);
    *node = *mc_scope_node(s, from);
    node->op = MC_OP_LEAF;
    node->n_in = node->attr_bytes = 0;
    node->in = NULL;
    node->attr = NULL;
    node->kept = false;
}

mica_status mc_scope_keep(mica_scope *s, mica_array *live, size_t n) {
    wait_for_run(s);
    uint32_t *place = mc_arena_alloc(&s->arena, (size_t)s->count * sizeof *place);
    if (!place) return mc_fail_nomem("collecting a scope");
    for (size_t i = 0; i < n; i++)
        mc_scope_node(s, live[i].node)->kept = true;
    for (uint32_t i = s->count; i-- > 0;) { /* the last first, as in mc_scope_reset */
        mc_node *node = mc_scope_node(s, i);
        if (node->kept) continue;
        mc_storage_release(node->storage);
        node->storage = NULL;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!mc_scope_node(s, i)->kept) continue;
        place[i] = count;
        keep_node(s, i, count++);
    }
    for (size_t i = 0; i < n; i++)
        live[i].node = place[live[i].node];
    s->count = count;
    s->regions = NULL;
    release_held(s);
    forget_imports(s);
    mc_arena_reset(&s->arena);
    return MICA_OK;
}

void mica_scope_close(mica_scope **scope) {
    if (!scope || !*scope) return;
    mica_scope *s = *scope;
    *scope = NULL;
    mc_scope_reset(s);
    if (s->outer) s->outer->inner--;
    for (uint32_t i = 0; i < s->n_blocks; i++)
        mc_free(s->blocks[i]);
    mc_free(s->blocks);
    mc_arena_deinit(&s->arena);
    mc_free(s->imports.entries);
    mc_buffer_deinit(&s->captures);
    if (s->symbols.len > 0) mc_dims_release();
    mc_buffer_deinit(&s->symbols);
    if (s->space) s->free_space(s->space);
    mica_device *device = s->device;
    void (*release)(mica_device *) = s->release;
    mc_free(s);
    if (release) release(device);
}

mica_status mica_scope_status(const mica_scope *scope) {
    if (!scope) return mc_fail(MICA_EINVAL, "mica_scope_status: scope is NULL");
    return scope->status == MICA_OK ? MICA_OK : mc_fail(scope->status, "%s", scope->error);
}

void mica_scope_set_cancel(mica_scope *s, const struct mica_cancel *cancel) {
    if (s) s->cancel = cancel;
}

const struct mica_cancel *mc_scope_cancel(const mica_scope *s) {
    return s->cancel;
}

mica_device *mica_scope_device(const mica_scope *scope) {
    return scope ? scope->device : NULL;
}

mica_status mc_scope_set_status(mica_scope *s, mica_status status) {
    if (status == MICA_OK || s->status != MICA_OK) return status;
    s->status = status;
    snprintf(s->error, sizeof s->error, "%s", mica_last_error());
    return status;
}

void mica_scope_clear_error(mica_scope *scope) {
    if (scope) scope->status = MICA_OK;
}

mica_array mc_scope_fail(mica_scope *s, mica_status status, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mc_fail(status, "%s", text);
    if (s) mc_scope_set_status(s, status);
    return mc_invalid(s);
}

mica_array mc_invalid(mica_scope *s) {
    if (s) mica_scope_status(s);
    return (mica_array){s, MC_ABSENT};
}

mica_status mc_check_valid(mica_array x, const char *what) {
    if (mica_valid(x)) return MICA_OK;
    if (x.scope) MC_TRY(mica_scope_status(x.scope));
    return mc_fail(MICA_EINVAL, "%s: the invalid array", what);
}

uint32_t mc_scope_count(const mica_scope *s) {
    return s->count;
}

/* How many nodes the first n blocks hold. */
static uint32_t room_of(const mica_scope *s, uint32_t n) {
    if (n > s->n_split) return (n - s->n_split) * BLOCK;
    return n == 0 ? 0 : (uint32_t)FIRST_BLOCK << (n - 1);
}

size_t mc_scope_bytes(const mica_scope *s) {
    return sizeof *s + mc_arena_bytes(&s->arena) + s->n_blocks * sizeof *s->blocks +
           room_of(s, s->n_blocks) * sizeof **s->blocks;
}

mc_node *mc_scope_node(const mica_scope *s, uint32_t index) {
    if (index >= BLOCK) return &s->blocks[index / BLOCK + s->n_split][index % BLOCK];
    if (s->n_split == 0 || index < FIRST_BLOCK) return &s->blocks[0][index];
    uint32_t block = index < 2 * FIRST_BLOCK ? 1 : index < 4 * FIRST_BLOCK ? 2 : 3;
    return &s->blocks[block][index - room_of(s, block)];
}

mc_node *mc_node_of(mica_array x) {
    return mica_valid(x) ? mc_scope_node(x.scope, x.node) : NULL;
}

void mc_scope_set_run(mica_scope *s, void *run, mc_wait_fn wait) {
    s->run = run;
    s->wait = wait;
}

void *mc_scope_run(const mica_scope *s) {
    return s->run;
}

void *mc_scope_space(const mica_scope *s) {
    return s->space;
}

void mc_scope_set_space(mica_scope *s, void *space, void (*free_space)(void *space)) {
    s->space = space;
    s->free_space = free_space;
}

void mc_scope_set_release(mica_scope *s, void (*release)(mica_device *device)) {
    s->release = release;
}

/* ---- symbols ---- */

size_t mc_scope_symbols(const mica_scope *s, const mc_symbol **symbols) {
    while (s->outer)
        s = s->outer;
    *symbols = MC_BUFFER_AT(&s->symbols, mc_symbol);
    return MC_BUFFER_COUNT(&s->symbols, mc_symbol);
}

mica_status mc_scope_symbol(mica_scope *s, const char *name, mc_symbol *symbol) {
    const mc_symbol *symbols;
    size_t n = mc_scope_symbols(s, &symbols), bytes = strlen(name);
    if (bytes == 0 || bytes >= sizeof symbol->name || !mc_utf8_valid(name, bytes))
        return mc_fail(MICA_EINVAL, "program_dim: the name is no UTF-8, empty, or too long");
    for (size_t i = 0; i < n; i++)
        if (strcmp(symbols[i].name, name) == 0) {
            *symbol = symbols[i];
            return MICA_OK;
        }
    if (n == MC_MAX_SYMBOLS)
        return mc_fail(MICA_EINVAL, "program_dim: %.63s is one symbol too many; %d is the limit",
                       name, MC_MAX_SYMBOLS);
    while (s->outer)
        s = s->outer;
    if (n == 0) mc_dims_retain();
    *symbol = (mc_symbol){.dim = mc_dim_symbol(name)};
    memcpy(symbol->name, name, bytes);
    mica_status status = mc_dim_check(symbol->dim);
    if (status == MICA_OK && !mc_buffer_add(&s->symbols, symbol, sizeof *symbol))
        status = mc_fail_nomem("a symbol");
    if (status != MICA_OK && n == 0) mc_dims_release();
    return status;
}

mica_status mc_scope_take_symbols(mica_scope *s, const mica_scope *from) {
    const mc_symbol *symbols;
    mc_symbol same;
    size_t n = mc_scope_symbols(from, &symbols);
    for (size_t i = 0; i < n; i++)
        MC_TRY(mc_scope_symbol(s, symbols[i].name, &same));
    return MICA_OK;
}

mica_status mc_scope_check_dim(const mica_scope *s, int64_t d) {
    const mc_symbol *symbols;
    size_t n = mc_scope_symbols(s, &symbols);
    if (n > 0) MC_TRY(mc_dim_check(d));
    if (!mc_dim_is_whole(d)) return mc_fail(MICA_EINVAL, "a length has a fraction");
    return !mc_dim_has_symbols(d) || mc_dim_is_of(d, symbols, n)
               ? MICA_OK
               : mc_fail(MICA_EINVAL, "a length has a symbol of another scope (mica_program_dim)");
}

/* A real number is a length, or has nothing of one. */
static mica_status check_real(const mica_scope *s, double real) {
    const mc_symbol *symbols;
    int64_t dim = real == (double)MC_DIM_NONE ? MC_DIM_NONE : mc_dim_of_real(real);
    if (dim != 0) return mc_scope_check_dim(s, dim);
    if (!mc_dim_lost(real) || mc_scope_symbols(s, &symbols) == 0) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%.17g was computed from the length of a symbol by C's operators: "
                   "mica_dim_add, subtract, multiply and divide do it",
                   real);
}

static mica_status check_word(const mica_scope *s, const mc_attr_field *f, int64_t word) {
    double real;
    if (!mc_attr_has_dims(f->kind)) return MICA_OK;
    if (f->kind == MC_ATTR_NUMBERS) return check_real(s, (double)word);
    if (f->kind != MC_ATTR_REAL) return mc_scope_check_dim(s, word);
    memcpy(&real, &word, sizeof real);
    return check_real(s, real);
}

static mica_status check_recorded(const mica_scope *s, const mc_op_def *def, const void *attr,
                                  const mc_node *node) {
    const mc_layout *results = mc_node_results(node);
    const int64_t *words = attr;
    for (const mc_attr_field *f = def->attr_fields; f && f->name; f++)
        for (int i = 0; i < f->words; i++)
            MC_TRY(check_word(s, f, words[f->at + i]));
    for (int i = 0; i < mc_node_n_out(node); i++)
        for (int k = 0; k < results[i].ndim; k++)
            MC_TRY(mc_scope_check_dim(s, results[i].shape[k]));
    return MICA_OK;
}

/* ---- nodes ---- */

static mica_status add_block(mica_scope *s) {
    mc_node **blocks = mc_realloc(s->blocks, (s->n_blocks + 1) * sizeof *blocks);
    if (!blocks) return mc_fail_nomem("a scope's nodes");
    s->blocks = blocks;
    size_t room = room_of(s, s->n_blocks + 1) - room_of(s, s->n_blocks);
    blocks[s->n_blocks] = mc_array_alloc(room, sizeof(mc_node));
    if (!blocks[s->n_blocks]) return mc_fail_nomem("a scope's nodes");
    s->n_blocks++;
    return MICA_OK;
}

mica_status mc_scope_reserve(mica_scope *s, size_t n) {
    while (room_of(s, s->n_blocks) - s->count < n)
        MC_TRY(add_block(s));
    return MICA_OK;
}

/* A new, zeroed node at the end; NULL: no memory, which s keeps as its error. */
static mc_node *add_node(mica_scope *s, mica_array *handle) {
    if (s->count == room_of(s, s->n_blocks) && mc_scope_set_status(s, add_block(s)) != MICA_OK)
        return NULL;
    *handle = (mica_array){s, s->count};
    mc_node *node = mc_scope_node(s, s->count++);
    memset(node, 0, sizeof *node);
    return node;
}

mica_array mc_leaf(mica_scope *s, const mc_layout *layout, mc_storage *storage,
                   int64_t offset_bytes) {
    mica_array x = MICA_NONE;
    mc_node *node = s->status == MICA_OK ? add_node(s, &x) : NULL;
    if (!node) {
        mc_storage_release(storage);
        return mc_invalid(s);
    }
    node->op = MC_OP_LEAF;
    node->state = MC_READY;
    node->layout = *layout;
    node->storage = storage;
    node->offset_bytes = offset_bytes;
    return x;
}

bool mc_leaf_falls_back(const mc_node *leaf) {
    return leaf->storage ? leaf->storage->fallback : leaf->fallback;
}

void mc_scope_set_fallback(mica_scope *s, bool fallback) {
    s->fallback = fallback;
}

bool mc_scope_falls_back(const mica_scope *s) {
    return s->fallback;
}

mica_array mc_leaf_param(mica_scope *s, const mc_layout *layout, bool movable) {
    mica_array x = mc_leaf(s, layout, NULL, 0);
    if (!mica_valid(x)) return x;
    mc_node_of(x)->param = true;
    mc_node_of(x)->movable = movable;
    mc_node_of(x)->fallback = s->fallback;
    return x;
}

static mica_array add_scalar(mica_scope *s, mica_dtype dtype, uint64_t value, int64_t length) {
    mica_array x = MICA_NONE;
    mc_node *node = s->status == MICA_OK ? add_node(s, &x) : NULL;
    if (!node) return mc_invalid(s);
    node->op = MC_OP_LEAF;
    node->state = MC_READY;
    node->scalar = true;
    node->layout.dtype = dtype;
    node->value = value;
    node->length = length;
    return x;
}

mica_array mc_scalar_bits(mica_scope *s, mica_dtype dtype, uint64_t bits) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "scalar: the scope is NULL");
    return add_scalar(s, dtype, bits, 0);
}

mica_array mc_scalar_length(mica_scope *s, mica_dtype dtype, int64_t length) {
    mica_status status = mc_scope_check_dim(s, length);
    if (status != MICA_OK) {
        mc_scope_set_status(s, mc_fail_context(status, "scalar"));
        return mc_invalid(s);
    }
    return add_scalar(s, dtype, 0, length);
}

mica_array mc_scalar_like(mica_scope *s, const mc_node *scalar) {
    if (scalar->length) return mc_scalar_length(s, scalar->layout.dtype, scalar->length);
    return mc_scalar_bits(s, scalar->layout.dtype, scalar->value);
}

/* ---- operands of other scopes ---- */

/* The place of an array in the table, empty or its own; cap > count. */
static import_entry *import_place(const import_table *t, mica_array x) {
    uint64_t hash = ((uint64_t)(uintptr_t)x.scope ^ x.node) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t i = (uint32_t)(hash >> 32) & (t->cap - 1);
    while (t->entries[i].stamp == t->stamp &&
           (t->entries[i].scope != x.scope || t->entries[i].node != x.node))
        i = (i + 1) & (t->cap - 1);
    return &t->entries[i];
}

static bool grow_imports(import_table *t) {
    import_table larger = {.cap = t->cap ? 2 * t->cap : 64, .stamp = t->stamp, .count = t->count};
    larger.entries = mc_calloc(larger.cap, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (uint32_t i = 0; i < t->cap; i++) {
        const import_entry *e = &t->entries[i];
        if (e->stamp != t->stamp) continue;
        mica_array x = {(mica_scope *)(uintptr_t)e->scope, e->node};
        *import_place(&larger, x) = *e;
    }
    mc_free(t->entries);
    *t = larger;
    return true;
}

/* Whether the leaf is still the array: its scope may have been emptied and filled since. */
static bool is_same(const mc_node *leaf, const mc_node *node) {
    if (leaf->op != MC_OP_LEAF || leaf->state != MC_READY || leaf->scalar != node->scalar ||
        leaf->layout.dtype != node->layout.dtype)
        return false;
    if (leaf->scalar) return leaf->value == node->value && leaf->length == node->length;
    const size_t bytes = (size_t)node->layout.ndim * sizeof *node->layout.strides;
    return leaf->storage == node->storage && leaf->offset_bytes == node->offset_bytes &&
           mc_layout_same_shape(&leaf->layout, &node->layout) &&
           memcmp(leaf->layout.strides, node->layout.strides, bytes) == 0;
}

static mica_array leaf_of(mica_scope *s, const mc_node *node) {
    if (node->scalar) return mc_scalar_like(s, node);
    return mc_leaf(s, &node->layout, mc_storage_retain(node->storage), node->offset_bytes);
}

/* Room for one import more. */
static bool reserve_import(mica_scope *s) {
    import_table *t = &s->imports;
    if (4 * (t->count + 1) <= 3 * t->cap || grow_imports(t)) return true;
    mc_scope_fail(s, MICA_ENOMEM, "out of memory: operands of other scopes");
    return false;
}

/* An array of an outer scope, or of one that those import, as a parameter of s. */
static mica_array capture(mica_scope *s, const char *op, mica_array x) {
    x = mc_import(s->outer, op, x);
    if (!mica_valid(x)) {
        mc_scope_set_status(s, mica_scope_status(s->outer));
        return mc_invalid(s);
    }
    if (mc_node_of(x)->state == MC_GONE)
        return mc_scope_fail(s, MICA_EINVAL, "%s: an operand was moved away or released", op);
    if (mc_scope_set_status(s, mc_check_array(x, op)) != MICA_OK || !reserve_import(s))
        return mc_invalid(s);
    import_entry *e = import_place(&s->imports, x);
    if (e->stamp == s->imports.stamp) return (mica_array){s, e->leaf};
    mc_layout layout = *mc_layout_of(x);
    mc_layout_set_dense(&layout);
    mica_array leaf = mc_leaf_param(s, &layout, false);
    if (!mica_valid(leaf)) return leaf;
    if (!MC_BUFFER_PUSH(&s->captures, mc_capture, ((mc_capture){x, leaf})))
        return mc_scope_fail(s, MICA_ENOMEM, "out of memory: operands of other scopes");
    s->imports.count++;
    *e = (import_entry){x.scope, x.node, leaf.node, s->imports.stamp};
    return leaf;
}

/* An array of another scope as a leaf of s, always the same one. */
mica_array mc_import(mica_scope *s, const char *op, mica_array x) {
    if (x.scope == s) return x;
    if (s->outer) return capture(s, op, x);
    if (mica_scope_device(x.scope) != s->device)
        return mc_scope_fail(s, MICA_EINVAL, "%s: an operand belongs to another device", op);
    wait_for_run(x.scope);
    const mc_node *node = mc_node_of(x);
    if (node->state == MC_PENDING)
        return mc_scope_fail(s, MICA_EINVAL,
                             "%s: an operand of another scope is not evaluated yet; call mica_eval "
                             "or mica_materialize on it first",
                             op);
    if (node->state == MC_GONE)
        return mc_scope_fail(s, MICA_EINVAL, "%s: an operand was moved away or released", op);
    if (node->param)
        return mc_scope_fail(s, MICA_EINVAL, "%s: an operand is a parameter of another scope", op);
    import_table *t = &s->imports;
    if (!reserve_import(s)) return mc_invalid(s);
    import_entry *e = import_place(t, x);
    if (e->stamp == t->stamp && is_same(mc_scope_node(s, e->leaf), node))
        return (mica_array){s, e->leaf};
    mica_array leaf = leaf_of(s, node);
    if (!mica_valid(leaf)) return leaf;
    if (e->stamp != t->stamp) t->count++;
    *e = (import_entry){x.scope, x.node, leaf.node, t->stamp};
    return leaf;
}

/* ---- recording ---- */

static mica_status check_operand(const char *op, int i, mica_array x) {
    char what[64];
    if (mica_valid(x)) return MICA_OK;
    snprintf(what, sizeof what, "%s: operand %d", op, i);
    return mc_check_valid(x, what);
}

bool mc_operands_ok(mica_scope *s, const char *op, const mica_array *in, int n_in) {
    if (!s) {
        mc_fail(MICA_EINVAL, "%s: the scope is NULL", op);
        return false;
    }
    if (s->status != MICA_OK) return false;
    for (int i = 0; i < n_in; i++)
        if (mc_scope_set_status(s, check_operand(op, i, in[i])) != MICA_OK) return false;
    return true;
}

/* Fills indices [n_in] of operands within s, and their layouts. */
static mica_status bring_operands(mica_scope *s, mc_op op, const void *attr, const mica_array *in,
                                  int n_in, uint32_t *indices, const mc_layout **layouts) {
    const mc_op_def *def = mc_op_get(op);
    for (int i = 0; i < n_in; i++) {
        mica_array x = in[i];
        indices[i] = MC_ABSENT;
        layouts[i] = NULL;
        if (i >= def->min_in && !x.scope && !def->variadic) continue; /* absent */
        MC_TRY(check_operand(def->name, i, x));
        if (x.scope != s) x = mc_import(s, def->name, x);
        if (s->status != MICA_OK) return s->status;
        const mc_node *node = mc_scope_node(s, x.node);
        if (node->state == MC_GONE)
            return mc_fail(MICA_EINVAL, "%s: operand %d was moved away, overwritten or released",
                           def->name, i);
        indices[i] = x.node;
        layouts[i] = mc_operand_layout(op, attr, node);
        if (!layouts[i])
            return mc_fail(MICA_EINVAL, "%s: operand %d has several results, or not that part",
                           def->name, i);
    }
    return MICA_OK;
}

/* Keeps the subgraphs that attributes hold. */
static mica_status hold_graphs(mica_scope *s, const mc_op_def *def, const void *attr) {
    for (const mc_attr_field *f = def->attr_fields; f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        held_graph *held = mc_arena_alloc(&s->arena, sizeof *held);
        if (!held) return mc_fail_nomem("recording an op");
        *held = (held_graph){s->held, mc_subgraph_retain(mc_attr_graph(attr, f))};
        s->held = held;
    }
    return MICA_OK;
}

/* Ops that move elements, or pass them on, take complex numbers and f64. Arithmetic on complex ones
 * is recorded as ops on their parts; f64 is only converted. */
static const bool takes_wide[MC_OP_COUNT] = {
    [MC_OP_LEAF] = true,          [MC_OP_PART] = true,         [MC_OP_VIEW] = true,
    [MC_OP_WHERE] = true,         [MC_OP_RESHAPE] = true,      [MC_OP_TRANSPOSE] = true,
    [MC_OP_BROADCAST_TO] = true,  [MC_OP_SLICE] = true,        [MC_OP_CONTIGUOUS] = true,
    [MC_OP_CONCATENATE] = true,   [MC_OP_SLICE_UPDATE] = true, [MC_OP_IDENTITY] = true,
    [MC_OP_STOP_GRADIENT] = true, [MC_OP_IF] = true,           [MC_OP_WHILE] = true,
    [MC_OP_SCAN] = true,
};

static const char *wide_name(mica_dtype dtype) {
    return dtype == MICA_F64 ? "f64, which is read, written and converted alone"
                             : "complex numbers";
}

static mica_status check_wide(const mc_op_def *def, mc_op op, const mc_layout *const *in,
                              int n_in) {
    char text[MC_LAYOUT_TEXT];
    for (int i = 0; i < n_in && !takes_wide[op]; i++)
        if (in[i] && (in[i]->dtype == MICA_C64 || (in[i]->dtype == MICA_F64 && op != MC_OP_ASTYPE)))
            return mc_fail(MICA_EDTYPE, "%s: %s: it does not take %s", def->name,
                           mc_layout_text(in[i], text), wide_name(in[i]->dtype));
    return MICA_OK;
}

static mica_status check_wide_result(const mc_op_def *def, mc_op op, const mc_node *node) {
    char text[MC_LAYOUT_TEXT];
    mica_dtype dtype = node->layout.dtype;
    bool converted = dtype == MICA_F64 && op == MC_OP_ASTYPE;
    if (takes_wide[op] || converted || (dtype != MICA_C64 && dtype != MICA_F64)) return MICA_OK;
    return mc_fail(MICA_EDTYPE, "%s: %s: it gives no %s", def->name,
                   mc_layout_text(&node->layout, text), wide_name(dtype));
}

/* Runs the shape rule, which fills the node's layouts. */
static mica_status infer(mica_scope *s, const mc_op_def *def, const void *attr,
                         const mc_layout *const *in, int n_in, mc_node *node) {
    if (def->n_out < 2 && !mc_op_is_control(def)) { /* nearly every op */
        MC_TRY(def->infer(attr, in, n_in, &node->layout));
        return mc_layout_finish(&node->layout);
    }
    int n = mc_op_is_control(def) ? def->count_out(attr) : def->n_out;
    mc_layout *out = mc_arena_calloc(&s->arena, (size_t)n * sizeof *out);
    if (!out) return mc_fail_nomem("recording an op");
    MC_TRY(def->infer(attr, in, n_in, out));
    for (int i = 0; i < n; i++)
        MC_TRY(mc_layout_finish(&out[i]));
    node->layout = out[0];
    node->results = out;
    node->n_out = (uint32_t)n;
    return mc_op_is_control(def) ? hold_graphs(s, def, attr) : MICA_OK;
}

static mica_status record(mica_scope *s, mc_op op, const void *attr, const mica_array *in, int n_in,
                          mica_array *out) {
    const mc_op_def *def = mc_op_get(op);
    int min = def->variadic ? def->min_in : def->max_in;
    if (n_in < min || n_in > def->max_in)
        return mc_fail(MICA_EINVAL, "%s: %d operands, it takes %d to %d", def->name, n_in, min,
                       def->max_in);
    const mc_layout *few[FEW_OPERANDS], **layouts = few;
    if (n_in > FEW_OPERANDS) layouts = mc_arena_alloc(&s->arena, (size_t)n_in * sizeof *layouts);
    uint32_t *indices = mc_arena_alloc(&s->arena, (size_t)n_in * sizeof *indices);
    void *attr_copy = def->attr_bytes > 0 ? mc_arena_alloc(&s->arena, def->attr_bytes) : NULL;
    if (!indices || !layouts || (def->attr_bytes > 0 && !attr_copy))
        return mc_fail_nomem("recording an op");
    MC_TRY(bring_operands(s, op, attr, in, n_in, indices, layouts));

    mc_node *node = add_node(s, out);
    if (!node) return s->status;
    mica_status status = check_wide(def, op, layouts, n_in);
    if (status == MICA_OK) status = infer(s, def, attr, layouts, n_in, node);
    if (status == MICA_OK) status = check_wide_result(def, op, node);
    if (status == MICA_OK && mc_dims_live()) {
        status = check_recorded(s, def, attr, node);
        if (status != MICA_OK) status = mc_fail_context(status, "%s", def->name);
    }
    if (status != MICA_OK) {
        s->count--; /* the node */
        return status;
    }
    if (attr_copy) memcpy(attr_copy, attr, def->attr_bytes);
    node->op = op;
    node->state = MC_PENDING;
    node->n_in = (uint32_t)n_in;
    node->in = indices;
    node->attr = attr_copy;
    node->attr_bytes = (uint32_t)def->attr_bytes;
    return MICA_OK;
}

mica_array mc_record(mica_scope *s, mc_op op, const void *attr, const mica_array *in, int n_in) {
    mica_array out = MICA_NONE;
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "%s: the scope is NULL", mc_op_get(op)->name);
    if (s->status != MICA_OK) return mc_invalid(s);
    mica_status status = mc_scope_set_status(s, record(s, op, attr, in, n_in, &out));
    return status == MICA_OK ? out : mc_invalid(s);
}

mica_array mc_record_part(mica_scope *s, mica_array node, int index) {
    if (!mica_valid(node)) return mc_invalid(s);
    return mc_record(s, MC_OP_PART, &(mc_attr_part){index}, &node, 1);
}

mica_status mc_check_array(mica_array x, const char *what) {
    const mc_node *node = mc_node_of(x);
    if (!node || !node->results) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: node %u (%s) has several results", what, x.node,
                   mc_op_get(node->op)->name);
}

/* ---- regions ---- */

mica_status mc_scope_add_region(mica_scope *s, const mc_region *region) {
    mc_region *r = mc_arena_alloc(&s->arena, sizeof *r);
    mica_array *args = mc_arena_alloc(&s->arena, region->n_args * sizeof *args);
    mica_array *results = mc_arena_alloc(&s->arena, region->n_results * sizeof *results);
    if (!r || !args || !results) return mc_fail_nomem("recording a function");
    for (size_t i = 0; i < region->n_args; i++)
        args[i] = region->args[i];
    for (size_t i = 0; i < region->n_results; i++)
        results[i] = region->results[i];
    *r = *region;
    r->args = args;
    r->results = results;
    r->older = s->regions;
    s->regions = r;
    return MICA_OK;
}

const mc_region *mc_scope_regions(const mica_scope *s) {
    return s->regions;
}

/* A function that calls itself without end would overflow the stack. */
mica_status mc_scope_begin_recording(mica_scope *s) {
    int depth = 0;
    for (const mica_scope *at = s; at; at = at->outer)
        depth += at->recordings;
    if (depth >= MC_RECORDING_DEPTH)
        return mc_fail(MICA_EINVAL,
                       "functions that record nest more than %d deep; does one call itself?",
                       MC_RECORDING_DEPTH);
    s->recordings++;
    return MICA_OK;
}

void mc_scope_end_recording(mica_scope *s) {
    s->recordings--;
}

bool mc_scope_is_recording(const mica_scope *s) {
    return s->recordings > 0;
}

bool mc_scope_is_within_call(const mica_scope *s) {
    return s->recordings > 0 || s->inner > 0;
}

/* ---- what builders ask and use ---- */

const mc_layout *mc_layout_of(mica_array x) {
    const mc_node *node = mc_node_of(x);
    return node ? &node->layout : NULL;
}

const void *mc_data(mica_array x) {
    const mc_node *node = mc_node_of(x);
    if (!node || node->state != MC_READY) return NULL;
    if (node->scalar) return &node->value;
    if (!node->storage || !node->storage->host) return NULL;
    return (const char *)node->storage->host + node->offset_bytes;
}

mica_status mc_axis(const char *op, const mc_layout *l, int axis, int *out) {
    int from_front = axis < 0 ? axis + l->ndim : axis;
    if (from_front < 0 || from_front >= l->ndim) {
        char text[MC_LAYOUT_TEXT];
        return mc_fail(MICA_EINVAL, "%s: there is no axis %d in %s", op, axis,
                       mc_layout_text(l, text));
    }
    *out = from_front;
    return MICA_OK;
}

mica_status mc_broadcast_shapes(const char *op, const mc_layout *a, const mc_layout *b,
                                int64_t shape[MICA_MAX_NDIM], int *ndim) {
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 1; i <= *ndim; i++) {
        int64_t x = i <= a->ndim ? a->shape[a->ndim - i] : 1;
        int64_t y = i <= b->ndim ? b->shape[b->ndim - i] : 1;
        if (x != y && x != 1 && y != 1) {
            char left[MC_LAYOUT_TEXT], right[MC_LAYOUT_TEXT];
            return mc_fail(MICA_ESHAPE, "%s: %s and %s do not broadcast", op,
                           mc_layout_text(a, left), mc_layout_text(b, right));
        }
        shape[*ndim - i] = x == 1 ? y : x;
    }
    return MICA_OK;
}

bool mica_valid(mica_array x) {
    return x.scope != NULL && x.node < x.scope->count;
}

mica_dtype mica_array_dtype(mica_array x) {
    return mica_valid(x) ? mc_layout_of(x)->dtype : MICA_BOOL;
}

int mica_array_ndim(mica_array x) {
    return mica_valid(x) ? mc_layout_of(x)->ndim : 0;
}

int64_t mica_array_dim(mica_array x, int axis) {
    const mc_layout *l = mc_layout_of(x);
    if (!l) return 0;
    int i = axis < 0 ? axis + l->ndim : axis;
    return i >= 0 && i < l->ndim ? l->shape[i] : 0;
}

const int64_t *mica_array_shape(mica_array x) {
    return mica_valid(x) ? mc_layout_of(x)->shape : NULL;
}

int64_t mica_array_size(mica_array x) {
    return mica_valid(x) ? mc_layout_size(mc_layout_of(x)) : 0;
}

size_t mica_array_bytes(mica_array x) {
    return mica_valid(x) ? (size_t)mc_layout_bytes(mc_layout_of(x)) : 0;
}

bool mica_array_is_contiguous(mica_array x) {
    const mc_node *node = mc_node_of(x);
    return node && node->state == MC_READY && mc_layout_is_dense(&node->layout);
}

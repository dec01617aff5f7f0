#include "exec/pass.h"

#include "base/map.h"
#include "exec/trace.h"
#include "graph/subgraph.h"

/* A constant that is computed takes at most so much more memory than what it is computed from, and
 * all of them than the graph's constants. */
#define FOLD_BYTES (1 << 16)
#define FOLD_BYTES_OF_ALL (1 << 24)

/* ---- recording a graph anew ---- */

/* What a node of the old graph is recorded as; in: its operands, of the new one. */
typedef mica_array (*record_fn)(mc_copying *c, void *pass, uint32_t i, mica_array *in);

static mica_status open_copying(mc_copying *c, const mc_passed *g) {
    c->from = g->scope;
    c->count = mc_scope_count(g->scope);
    c->needed = mc_arena_calloc(c->arena, c->count + 1);
    c->made = mc_arena_calloc(c->arena, (c->count + 1) * sizeof *c->made);
    if (!c->needed || !c->made) return mc_fail_nomem("a pass");
    for (uint32_t i = 0; i < g->n_results; i++)
        c->needed[g->results[i].node] = true;
    for (uint32_t i = c->count; i-- > 0;) {
        const mc_node *node = mc_scope_node(c->from, i);
        if (!c->needed[i] || mc_is_leaf(node)) continue;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) c->needed[node->in[k]] = true;
    }
    return mc_scope_open(mica_scope_device(g->scope), &c->to);
}

static mica_array copy_leaf(mc_copying *c, const mc_node *node, uint32_t i) {
    if (node->scalar) return mc_scalar_like(c->to, node);
    if (node->param) return mc_leaf_param(c->to, &node->layout, node->movable);
    return mc_import(c->to, "a pass", (mica_array){c->from, i});
}

mica_array mc_pass_keep(mc_copying *c, uint32_t i, const mica_array *in) {
    const mc_node *node = mc_scope_node(c->from, i);
    return mc_record(c->to, node->op, node->attr, in, (int)node->n_in);
}

static mica_array keep(mc_copying *c, void *pass, uint32_t i, mica_array *in) {
    (void)pass;
    return mc_pass_keep(c, i, in);
}

static mica_status record_node(mc_copying *c, record_fn record, void *pass, uint32_t i) {
    const mc_node *node = mc_scope_node(c->from, i);
    mica_array *in = mc_arena_alloc(c->arena, (node->n_in + 1) * sizeof *in);
    if (!in) return mc_fail_nomem("a pass");
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : c->made[node->in[k]];
    c->made[i] = record(c, pass, i, in);
    return mica_valid(c->made[i]) ? MICA_OK : mica_scope_status(c->to);
}

/* Records all that is needed, and every parameter. */
static mica_status record_all(mc_copying *c, const mc_passed *g, record_fn record, void *pass) {
    for (uint32_t i = 0; i < c->count; i++) {
        const mc_node *node = mc_scope_node(c->from, i);
        if (!c->needed[i] && i >= g->n_params) continue;
        if (!mc_is_leaf(node)) {
            MC_TRY(record_node(c, record, pass, i));
            continue;
        }
        c->made[i] = copy_leaf(c, node, i);
        if (!mica_valid(c->made[i])) return mica_scope_status(c->to);
    }
    return MICA_OK;
}

/* ---- fold: what is computed from constants ---- */

/* Which nodes of the new graph are constants, and which of them others read. */
typedef struct folding {
    bool *constant, *wanted; /* [count] of the new graph */
} folding;

static bool is_view(const mc_node *node) {
    return mc_op_get(node->op)->view != NULL;
}

static double bytes_of(const mc_node *node) {
    double sum = 0;
    for (int k = 0; k < mc_node_n_out(node); k++)
        sum += (double)mc_layout_bytes(&mc_node_results(node)[k]);
    return sum;
}

/* Whether it takes no more memory than its operands do. A view may show what it views many times:
 * it is as large as what it shows, since that is what is computed from it. */
static bool is_small(const mica_scope *s, const mc_node *node) {
    double in = FOLD_BYTES;
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT) continue;
        const mc_node *x = mc_scope_node(s, node->in[k]);
        if (mc_is_leaf(x) || is_view(node)) in += bytes_of(x);
    }
    return bytes_of(node) <= in;
}

/* Whether the host may compute it before anybody asks: control flow may go on for ever, and some
 * ops do more than compute. */
static bool may_fold(const mica_scope *s, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    if (mc_op_is_control(def) || def->acts || node->op == MC_OP_REQUIRE) return false;
    return node->op == MC_OP_PART || is_small(s, node);
}

static void find_constants(const mica_scope *s, folding *f) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const mc_node *node = mc_scope_node(s, i);
        f->constant[i] = mc_is_leaf(node) ? !node->param : may_fold(s, node);
        for (uint32_t k = 0; !mc_is_leaf(node) && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) f->constant[i] &= f->constant[node->in[k]];
    }
}

/* Marks the constants that others than constants read, or views of them, and results; returns how
 * many are still to be computed. A node of several results is nothing that can be asked for. */
static size_t find_wanted(const mica_scope *s, folding *f) {
    size_t n = 0;
    for (uint32_t i = mc_scope_count(s); i-- > 0;) {
        const mc_node *node = mc_scope_node(s, i);
        if (mc_is_leaf(node)) continue;
        bool computed = f->constant[i] && !is_view(node);
        n += computed && f->wanted[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT && !computed && (f->wanted[i] || !f->constant[i]))
                f->wanted[node->in[k]] = true;
    }
    return n;
}

/* Lists the constants that are computed, n at most, and returns how many there is room for. */
static size_t list_folded(mica_scope *s, const folding *f, size_t n, mica_array *xs) {
    double room = FOLD_BYTES_OF_ALL;
    size_t k = 0;
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const mc_node *node = mc_scope_node(s, i);
        if (mc_is_leaf(node) && !node->param) room += bytes_of(node);
    }
    for (uint32_t i = 0; i < mc_scope_count(s) && k < n; i++) {
        const mc_node *node = mc_scope_node(s, i);
        if (mc_is_leaf(node) || !f->constant[i] || !f->wanted[i] || is_view(node) || node->results)
            continue;
        room -= bytes_of(node);
        if (room < 0) break;
        xs[k++] = (mica_array){s, i};
    }
    return k;
}

/* Computes the constants of a graph that others need. One that cannot be computed stays: its error
 * comes where the graph is run. */
static mica_status fold(mc_copying *c, const mica_array *results, size_t n_results) {
    uint32_t count = mc_scope_count(c->to);
    folding f = {mc_arena_calloc(c->arena, count + 1), mc_arena_calloc(c->arena, count + 1)};
    if (!f.constant || !f.wanted) return mc_fail_nomem("a pass");
    find_constants(c->to, &f);
    for (size_t i = 0; i < n_results; i++)
        f.wanted[results[i].node] = true;
    size_t n = find_wanted(c->to, &f);
    if (n == 0) return MICA_OK;
    mica_array *xs = mc_arena_alloc(c->arena, n * sizeof *xs);
    if (!xs) return mc_fail_nomem("a pass");
    size_t k = list_folded(c->to, &f, n, xs);
    if (k > 0 && mica_eval_n(c->to, xs, k) == MICA_OK) *c->changed += (uint32_t)k;
    return MICA_OK;
}

/* ---- common: nodes that compute the same ---- */

static bool add_node_key(mc_buffer *key, const mc_node *node, const mica_array *in) {
    const uint64_t head = (uint64_t)node->op << 32 | node->n_in;
    bool ok = mc_buffer_add(key, &head, sizeof head);
    for (uint32_t k = 0; ok && k < node->n_in; k++) {
        const mc_node *x = node->in[k] == MC_ABSENT ? NULL : mc_node_of(in[k]);
        uint64_t words[2] = {0, x ? in[k].node : MC_ABSENT};
        if (x && x->scalar) { /* equal numbers are one */
            words[0] = 1 + (uint64_t)x->layout.dtype;
            words[1] = x->value;
        }
        ok = mc_buffer_add(key, words, sizeof words);
    }
    return ok && mc_add_attr_key(key, node);
}

/* Whether it does more than compute, also in subgraphs. */
static bool acts(const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    bool found = def->acts;
    for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) continue;
        mica_scope *s = mc_attr_graph(node->attr, f)->graph;
        for (uint32_t i = 0; i < mc_scope_count(s) && !found; i++)
            found = acts(mc_scope_node(s, i));
    }
    return found;
}

/* The node of the new graph with this op, these operands and attributes, or a new one. What
 * does more than compute is done as often as it is there. */
static mica_array record_common(mc_copying *c, void *map, uint32_t i, mica_array *in) {
    const mc_node *node = mc_scope_node(c->from, i);
    mc_buffer key = {0};
    uint64_t found;
    if (acts(node)) return mc_pass_keep(c, i, in);
    bool ok = add_node_key(&key, node, in);
    char *bytes = ok ? mc_arena_strndup(c->arena, (const char *)key.data, key.len) : NULL;
    mc_str text = {bytes, key.len};
    mc_buffer_deinit(&key);
    if (!bytes) return mc_scope_fail(c->to, MICA_ENOMEM, "out of memory: a pass");
    if (mc_map_find(map, text, &found)) {
        ++*c->changed;
        return (mica_array){c->to, (uint32_t)found};
    }
    mica_array x = mc_pass_keep(c, i, in);
    if (mica_valid(x) && !mc_map_put(map, text, x.node))
        return mc_scope_fail(c->to, MICA_ENOMEM, "out of memory: a pass");
    return x;
}

/* ---- running them ---- */

static mica_status run_pass(mc_copying *c, const mc_passed *from, mc_pass pass) {
    mc_map map = {0};
    mc_dead dead = {0};
    mica_status status = open_copying(c, from);
    if (status == MICA_OK && pass == MC_PASS_FOLD) status = record_all(c, from, keep, NULL);
    if (status == MICA_OK && pass == MC_PASS_COMMON)
        status = record_all(c, from, record_common, &map);
    if (status == MICA_OK && pass == MC_PASS_DEAD) {
        status = mc_dead_open(c, &dead);
        if (status == MICA_OK) status = record_all(c, from, mc_dead_record, &dead);
    }
    mc_map_deinit(&map);
    return status;
}

static mica_status finish_pass(mc_copying *c, const mc_passed *from, mc_pass pass, mc_passed *to) {
    *to = (mc_passed){.scope = c->to, .n_params = from->n_params, .n_results = from->n_results};
    to->results = mc_arena_alloc(c->arena, (from->n_results + 1) * sizeof *to->results);
    if (!to->results) return mc_fail_nomem("a pass");
    for (uint32_t i = 0; i < from->n_results; i++)
        to->results[i] = c->made[from->results[i].node];
    if (pass == MC_PASS_FOLD) MC_TRY(fold(c, to->results, to->n_results));
    mica_status status = MC_VERIFY_PASSES ? mc_graph_verify(to->scope) : MICA_OK;
    return status == MICA_OK ? status : mc_fail_context(status, "the pass %s", mc_pass_name(pass));
}

mica_status mc_passes_run(const mc_passed *from, uint32_t off, mc_arena *arena, uint32_t *changed,
                          mc_passed *to) {
    static const mc_pass passes[] = {MC_PASS_FOLD, MC_PASS_COMMON, MC_PASS_DEAD};
    mc_passed at = *from;
    mica_status status = MICA_OK;
    for (size_t k = 0; k < sizeof passes / sizeof *passes && status == MICA_OK; k++) {
        if (mc_pass_is_off(off, passes[k])) continue;
        mc_copying c = {.arena = arena, .changed = &changed[passes[k]]};
        mc_passed next = at;
        status = run_pass(&c, &at, passes[k]);
        if (status == MICA_OK) status = finish_pass(&c, &at, passes[k], &next);
        if (status != MICA_OK) mica_scope_close(&c.to);
        if (at.scope != from->scope && status == MICA_OK) mica_scope_close(&at.scope);
        if (status == MICA_OK) at = next;
    }
    if (status != MICA_OK && at.scope != from->scope) mica_scope_close(&at.scope);
    *to = at;
    return status;
}

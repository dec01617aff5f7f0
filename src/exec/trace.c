#include "exec/trace.h"

#include "base/map.h"
#include "graph/subgraph.h"

/* Marks with ordinal 0 what the targets need; walks backwards, for inputs come before users. */
static mica_status mark(mc_trace *t, const mica_array *xs, size_t n, uint32_t last) {
    for (size_t i = 0; i < n; i++)
        t->ordinal[xs[i].node] = 0;
    for (uint32_t i = last + 1; i-- > 0;) {
        if (t->ordinal[i] == MC_ABSENT) continue;
        const mc_node *node = mc_scope_node(t->scope, i);
        if (node->state == MC_GONE)
            return mc_fail(
                MICA_EINVAL,
                "eval: needs a value that was moved away, overwritten or released (node %u, %s)", i,
                mc_op_get(node->op)->name);
        t->n_nodes++;
        if (mc_is_leaf(node)) {
            t->n_leaves++;
            t->placed = t->placed || mc_leaf_falls_back(node);
            continue;
        }
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) t->ordinal[node->in[k]] = 0;
    }
    return MICA_OK;
}

static bool add_words(mc_buffer *key, const int64_t *words, int n) {
    return mc_buffer_add(key, words, (size_t)n * sizeof *words);
}

/* The first word of a node tells how many follow. */
static bool add_key(mc_trace *t, const mc_node *node) {
    const mc_layout *l = &node->layout;
    bool leaf = mc_is_leaf(node);
    uint64_t head = (uint64_t)(leaf ? MC_OP_LEAF : node->op) | (uint64_t)l->dtype << 16 |
                    (uint64_t)l->ndim << 24 | (uint64_t)(leaf && mc_is_scalar(node)) << 30 |
                    (uint64_t)(leaf && node->movable) << 31 |
                    (uint64_t)(leaf && mc_leaf_falls_back(node)) << 29 |
                    (uint64_t)(leaf && t->placed && !node->param) << 28 |
                    (uint64_t)(leaf ? 0 : node->n_in) << 32;
    bool ok = mc_buffer_add(&t->key, &head, sizeof head) && add_words(&t->key, l->shape, l->ndim);
    if (leaf) return ok && add_words(&t->key, l->strides, l->ndim);
    for (uint32_t k = 0; ok && k < node->n_in; k++) {
        uint64_t in = node->in[k] == MC_ABSENT ? MC_ABSENT : t->ordinal[node->in[k]];
        ok = mc_buffer_add(&t->key, &in, sizeof in);
    }
    return ok && mc_add_attr_key(&t->key, node);
}

/* Numbers the marked nodes and writes the key. */
static mica_status number(mc_trace *t, uint32_t last) {
    uint32_t next = 0, next_leaf = 0;
    uint64_t counts = (uint64_t)t->n_nodes << 32 | (uint64_t)t->falls_back << 31 | t->n_targets;
    if (!mc_buffer_add(&t->key, &counts, sizeof counts)) return mc_fail_nomem("tracing a graph");
    for (uint32_t i = 0; i <= last; i++) {
        if (t->ordinal[i] == MC_ABSENT) continue;
        const mc_node *node = mc_scope_node(t->scope, i);
        if (mc_is_leaf(node)) t->leaves[next_leaf++] = i;
        t->ordinal[i] = next;
        t->nodes[next++] = i;
        if (!add_key(t, node)) return mc_fail_nomem("tracing a graph");
    }
    return MICA_OK;
}

mica_status mc_trace_make(mc_trace *t, mc_arena *arena, mica_scope *s, const mica_array *xs,
                          size_t n) {
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) {
        MC_TRY(mc_check_array(xs[i], "eval"));
        if (xs[i].node > last) last = xs[i].node;
    }
    mc_buffer key = t->key;
    mc_buffer_clear(&key);
    *t =
        (mc_trace){.scope = s, .n_targets = (uint32_t)n, .key = key, .passes_off = MC_GRAPH_PASSES};
    t->falls_back = t->placed = mc_scope_falls_back(s);
    t->ordinal = mc_arena_alloc(arena, (last + 1) * sizeof *t->ordinal);
    t->targets = mc_arena_alloc(arena, n * sizeof *t->targets);
    if (!t->ordinal || !t->targets) return mc_fail_nomem("tracing a graph");
    for (uint32_t i = 0; i <= last; i++)
        t->ordinal[i] = MC_ABSENT;
    MC_TRY(mark(t, xs, n, last));

    t->nodes = mc_arena_alloc(arena, t->n_nodes * sizeof *t->nodes);
    t->leaves = mc_arena_alloc(arena, t->n_leaves * sizeof *t->leaves);
    if (!t->nodes || !t->leaves) return mc_fail_nomem("tracing a graph");
    MC_TRY(number(t, last));
    for (size_t i = 0; i < n; i++) {
        t->targets[i] = t->ordinal[xs[i].node];
        uint64_t target = t->targets[i];
        if (!mc_buffer_add(&t->key, &target, sizeof target))
            return mc_fail_nomem("tracing a graph");
    }
    t->hash = mc_hash(t->key.data, t->key.len, 0);
    return MICA_OK;
}

/* Whether a graph that was loaded is soon evaluated, for the targets that do so. */
#ifndef FUZZ_SMALL_H
#define FUZZ_SMALL_H

#include "graph/subgraph.h"

enum { MAX_ELEMENTS = 1 << 10, MAX_NODES = 256, MAX_ROUNDS = 1 << 8 };

static inline bool fuzz_is_small(const mica_scope *s, int64_t rounds);

/* How often a node of control flow runs its subgraphs, at most; 0: any number. */
static inline int64_t fuzz_rounds(const mc_node *node) {
    if (node->op == MC_OP_WHILE) return ((const mc_attr_while *)node->attr)->max_rounds;
    if (node->op == MC_OP_SCAN) return ((const mc_attr_scan_over *)node->attr)->length + 1;
    return 1;
}

static inline bool fuzz_is_small_node(const mc_node *node, int64_t rounds) {
    const mc_op_def *def = mc_op_get(node->op);
    for (int k = 0; k < mc_node_n_out(node); k++)
        if (mc_layout_size(&mc_node_results(node)[k]) > MAX_ELEMENTS) return false;
    if (!mc_op_is_control(def)) return true;
    int64_t own = fuzz_rounds(node);
    if (own <= 0 || own > MAX_ROUNDS / rounds) return false;
    for (const mc_attr_field *f = def->attr_fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH &&
            !fuzz_is_small(mc_attr_graph(node->attr, f)->graph, rounds * own))
            return false;
    return true;
}

/* rounds: how often it runs. */
static inline bool fuzz_is_small(const mica_scope *s, int64_t rounds) {
    if (mc_scope_count(s) > MAX_NODES) return false;
    for (uint32_t i = 0; i < mc_scope_count(s); i++)
        if (!fuzz_is_small_node(mc_scope_node(s, i), rounds)) return false;
    return true;
}

#endif

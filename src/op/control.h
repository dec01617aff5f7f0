/* What the builders of control flow and its gradients share. */
#ifndef OP_CONTROL_H
#define OP_CONTROL_H

#include "graph/subgraph.h"

/* The value of an attribute that is a subgraph. */
static inline mc_graph_ref mc_graph_ref_of(const mc_subgraph *g) {
    mc_graph_ref ref = {.word = 0};
    ref.graph = g;
    return ref;
}

#endif

/* Subgraphs: graphs within a node of control flow, in its attributes.
 *
 * A subgraph is parameters, nodes and results in a scope of its own. What it is computed from comes
 * through its parameters: it has numbers, and no other data. It never changes, so that nodes share
 * it: it is counted, and every scope with a node that has it holds it.
 *
 * A function becomes one by recording into a scope within another (mc_scope_open_within); the
 * arrays that it takes from outside are parameters behind its arguments.
 *
 * Threads: any, once it is made. */
#ifndef GRAPH_SUBGRAPH_H
#define GRAPH_SUBGRAPH_H

#include <stdatomic.h>

#include "graph/attr.h"
#include "graph/graph.h"

enum { MC_SUBGRAPH_DEPTH = 16, MC_SUBGRAPH_NODES = 1 << 20, MC_CONTROL_BYTES = 1 << 26 };

typedef struct mc_subgraph {
    atomic_uint users;
    mica_scope *graph; /* nodes [0, n_params) are the parameters */
    uint32_t n_params, n_results;
    uint32_t *results; /* [n_results] nodes */
    uint32_t depth;    /* 1: no node of it has subgraphs */
    uint32_t n_nodes;  /* with those of its subgraphs */
    mc_buffer key;     /* equal for equal ones */
} mc_subgraph;

/* Makes one from what results in a scope need, with the caller's reference.
 *
 *  params   [n_params] leaves of the scope without values; MICA_NONE: a parameter that nothing
 *           reads, whose layout is in layouts.
 *  results  [n_results] arrays of the scope.
 *  errors   MICA_EINVAL they need a parameter that is not listed, or data; subgraphs nest more than
 *           MC_SUBGRAPH_DEPTH deep, or have more than MC_SUBGRAPH_NODES nodes; MICA_ENOMEM */
mica_status mc_subgraph_make(mica_scope *from, const mica_array *params, const mc_layout *layouts,
                             size_t n_params, const mica_array *results, size_t n_results,
                             const mc_subgraph **subgraph);

/* A reference more; NULL for NULL. */
const mc_subgraph *mc_subgraph_retain(const mc_subgraph *g);
void mc_subgraph_release(const mc_subgraph *g); /* takes NULL */

const mc_layout *mc_subgraph_param(const mc_subgraph *g, size_t i);
const mc_layout *mc_subgraph_result(const mc_subgraph *g, size_t i);

/* Records the nodes of a subgraph in a scope: results [n_results] of params [n_params]. Functions
 * with gradients of their own (mc_region) stay what they are.
 * errors  the scope's; MICA_ENOMEM */
mica_status mc_subgraph_record(const mc_subgraph *g, mica_scope *into, const mica_array *params,
                               mica_array *results);

/* The layout of parameter i of the subgraphs of a node, from that of its operand, which is
 * *operand; operand number mc_control_first(op) is parameter 0. */
int mc_control_first(mc_op op);
void mc_control_param(mc_op op, const void *attr, size_t i, const mc_layout *operand,
                      mc_layout *param);

/* Adds a node's attributes to a key: subgraphs by what they are. False: no memory. */
bool mc_add_attr_key(mc_buffer *key, const mc_node *node);

/* Adds to *bytes what a node of control flow takes, if it is one: its results, and its subgraphs as
 * a part of keys. Many nodes may share a subgraph, so that a small file holds a graph of any size.
 * errors  MICA_EINVAL more than MC_CONTROL_BYTES */
mica_status mc_control_charge(uint64_t *bytes, mc_op op, const void *attr);

#endif

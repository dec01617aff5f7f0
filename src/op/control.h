/* Recording control flow from functions: what the public builders and the gradients share. */
#ifndef OP_CONTROL_H
#define OP_CONTROL_H

#include <mica/control.h>

#include "base/arena.h"
#include "graph/subgraph.h"

/* A function that was recorded into a scope within another. */
typedef struct mc_body {
    mica_scope *s;
    size_t n_params, n_results;
    mica_array *params;  /* [n_params] of s */
    mica_array *results; /* [n_results] of s */
} mc_body;

/* Calls fn over parameters of these layouts. The caller ends the body, after an error too, before
 * it uses `outer` again.
 *
 *  what    the op's name, for errors
 *  arena   memory of the lists
 *  errors  those of fn; MICA_EINVAL a result is invalid; MICA_ENOMEM */
mica_status mc_body_record(mica_scope *outer, const char *what, mica_compile_fn fn, void *user,
                           const mc_layout *params, size_t n_params, size_t n_results,
                           mc_arena *arena, mc_body *body);
void mc_body_close(mc_body *body);

/* Makes the subgraphs of n bodies, 1 or 2, with the same parameters: theirs, and behind these all
 * that any of them takes from outside.
 *
 *  captures    receives the arrays of `outer` that are taken, [*n_captures], in memory of the arena
 *  graphs [n]  receives references of the caller
 *  errors      those of mc_subgraph_make */
mica_status mc_bodies_make(const mc_body *bodies, size_t n, mc_arena *arena,
                           const mc_subgraph **graphs, const mica_array **captures,
                           size_t *n_captures);

/* Records a node of control flow; takes the references to the subgraphs in attr over.
 *
 *  in       n_lists lists of operands, one after the other
 *  results  receives its results, as many as the op has
 *  errors   the scope's; MICA_ENOMEM */
typedef struct mc_operands {
    const mica_array *list;
    size_t n;
} mc_operands;
mica_status mc_control_record(mica_scope *s, mc_op op, const void *attr, const mc_operands *in,
                              size_t n_lists, mica_array *results);

/* The value of an attribute that is a subgraph. */
static inline mc_graph_ref mc_graph_ref_of(const mc_subgraph *g) {
    mc_graph_ref ref = {.word = 0};
    ref.graph = g;
    return ref;
}

#endif

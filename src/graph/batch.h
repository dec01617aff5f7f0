/* How ops are recorded for several examples at once: what mica_vmap asks of them.
 *
 * A rule stands in the table of op/batch.c. An op without one has none for lists of examples. */
#ifndef GRAPH_BATCH_H
#define GRAPH_BATCH_H

#include "graph/graph.h"

/* A node of one example, with operands of several: these have a new first axis, of length n. */
typedef struct mc_batch_node {
    mica_scope *s; /* where rules record */
    mc_op op;
    const void *attr;
    int64_t n;
    int n_in;
    const mica_array *in;    /* [n_in]; MICA_NONE: absent */
    const bool *batched;     /* [n_in] which have the new axis, one at least */
    const mc_layout *result; /* of one example */
    mica_array *parts;       /* of an op of several results, [n_out]: a rule may set them; else they
                                are those of what it returns */
} mc_batch_node;

/* Returns the result with the new axis; MICA_NONE: the op has no rule for such operands. Errors are
 * in the scope. */
typedef mica_array (*mc_batch_rule)(const mc_batch_node *node);

/* NULL: the op has none. */
mc_batch_rule mc_op_batch_rule(mc_op op);

/* x of one example for n of them, repeated: a view. */
mica_array mc_batch_repeat(mica_scope *s, mica_array x, int64_t n);

#endif

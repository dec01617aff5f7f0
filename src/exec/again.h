/* A recorded graph, recorded again for values of its symbols, or in another precision.
 *
 * What holds a length with symbols gets its value: shapes, attributes, numbers. Then each op's rule
 * is applied once more, so that whatever was left open while symbols had no values is checked: what
 * comes is, node by node, what would have been recorded for these values, or an error. */
#ifndef EXEC_AGAIN_H
#define EXEC_AGAIN_H

#include "exec/precision.h"
#include "exec/trace.h"

/* A graph that was recorded: what comes from params [n_params]. */
typedef struct mc_recorded {
    mica_scope *s;
    mica_array *params;
    size_t n_params;
    mica_array *results;
    size_t n_results;
} mc_recorded;

/* Records the graph of `from` in the scope into->s, for params of into, parameters that stand there
 * already; sets into's results, for which there is room.
 *
 *  values     of its symbols
 *  precision  what floats are computed in. NULL: as they were
 *  errors     MICA_ESHAPE an op does not fit the values, or an array is of more than 2^46 bytes;
 *             MICA_ENOMEM */
mica_status mc_record_again(const mc_recorded *from, mc_recorded *into, const mc_dim_values *values,
                            const mc_precision *precision);

/* Whether what a node is, but for its results' shapes, depends on a symbol: the number that it is,
 * its attributes, or its subgraphs. but: a word of the attributes that may; -1: none. */
bool mc_node_depends(const mc_node *node, int64_t symbol, int but);

#endif

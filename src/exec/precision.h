/* The dtypes that floats are computed in, where they are not those that were recorded: casts are
 * inserted where a graph is recorded again (exec/again.h). Parameters, constants and results
 * keep theirs, those of subgraphs too. */
#ifndef EXEC_PRECISION_H
#define EXEC_PRECISION_H

#include <mica/executable.h>

#include "graph/graph.h"

/* For each op the dtype of its floats; MICA_BOOL: as recorded. */
typedef struct mc_precision {
    bool any; /* some are not as recorded */
    unsigned char dtype[MC_OP_COUNT];
} mc_precision;

/* From options. errors  MICA_EINVAL no such policy, or no float; MICA_ENOENT no such op */
mica_status mc_precision_choose(mica_precision policy, const mica_op_precision *ops, size_t n,
                                mc_precision *precision);

/* Casts the operands of a node that is recorded again in s, and attributes that are a dtype.
 *
 *  was  [n_in] the operands as they were recorded
 *  in   [n_in] changed to what is to be recorded. Errors are kept in s */
void mc_precision_cast(const mc_precision *precision, mica_scope *s, const mc_node *node,
                       const mc_layout *const *was, mica_array *in, int64_t *attr);

/* x of s in the dtype that was recorded, where both are floats. */
mica_array mc_precision_restore(mica_scope *s, mica_array x, mica_dtype dtype);

#endif

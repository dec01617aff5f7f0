/* A recorded graph with other lengths: each node is recorded anew from operands of other shapes.
 *
 * Whatever the graph's builders took from lengths must follow from the new ones, or the graph is
 * refused: views that a builder marked as derived are made for the new lengths, ops whose
 * attributes hold lengths are refused where the lengths of their operands changed (shapeless.c has
 * the rule of each op), and axes that met elementwise must still have equal lengths. The graph of
 * a program with symbols goes by exec/lengths.h instead. */
#ifndef EXEC_SHAPELESS_H
#define EXEC_SHAPELESS_H

#include "exec/lengths.h"
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
 *  lengths    what numbers became, to which those of all nodes are added; NULL: ops have rules
 *  precision  with lengths: what floats are computed in. NULL: as they were
 *  errors     MICA_ESHAPE an op that the new lengths do not fit, or that holds lengths, or an array
 *             of more than 2^46 bytes; MICA_ENOMEM */
mica_status mc_record_again(const mc_recorded *from, mc_recorded *into, mc_lengths *lengths,
                            const mc_precision *precision);

#endif

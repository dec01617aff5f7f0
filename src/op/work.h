/* Work (mc_op_def.work) that several ops have alike. */
#ifndef OP_WORK_H
#define OP_WORK_H

#include "graph/graph.h"

#define MC_WORK_RULE(name)                                                                  \
    void name(const void *attr, const mc_layout *const *in, int n_in, const mc_layout *out, \
              mc_work *work)

MC_WORK_RULE(mc_work_function); /* a function such as exp, once for each element of the result */
MC_WORK_RULE(mc_work_reduce);   /* every element of the first operand once */
MC_WORK_RULE(mc_work_sort);     /* n log2 n comparisons of the first operand's rows */
MC_WORK_RULE(mc_work_pick);     /* of the first operand, only what goes into the result is read */
MC_WORK_RULE(mc_work_update);   /* of the first operand, only what the second one is written over */

#endif

/* What computing a node takes, and work (mc_op_def.work) that several ops have alike. */
#ifndef OP_WORK_H
#define OP_WORK_H

#include "graph/graph.h"

/* The bytes of a view that are there: those of a broadcast axis once. */
double mc_work_bytes(const mc_layout *layout);

/* The work of a node that is no view. in: [n_in] layouts of its operands, NULL: absent. */
mc_work mc_work_of(const mc_node *node, const mc_layout *const *in);

#define MC_WORK_RULE(name)                                                                  \
    void name(const void *attr, const mc_layout *const *in, int n_in, const mc_layout *out, \
              mc_work *work)

MC_WORK_RULE(mc_work_function); /* a function such as exp, once for each element of the result */
MC_WORK_RULE(mc_work_reduce);   /* every element of the first operand once */
MC_WORK_RULE(mc_work_sort);     /* n log2 n comparisons of the first operand's rows */
MC_WORK_RULE(mc_work_pick);     /* of the first operand, only what goes into the result is read */
MC_WORK_RULE(mc_work_update);   /* of the first operand, only what the second one is written over */

#endif

/* Chains as the planner makes them: stages, and the matmuls that may end them. */
#ifndef CPU_EVAL_CHAIN_H
#define CPU_EVAL_CHAIN_H

#include "cpu/cpu.h"

/* The kernel of calls [0, call->span): row-by-row ops, and the matmuls that end the chain. */
mica_status mc_eval_chain(const mc_call *call);

/* mc_step_ops.touch */
void mc_chain_touches(const mc_call *call);

/* mc_step_ops.rows */
mc_row_form mc_chain_form(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                          int n_in);

#endif

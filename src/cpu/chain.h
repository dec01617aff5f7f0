/* Row-by-row ops, alone or in a chain. In a chain of consecutive steps, each step reads from the
 * results of the others only the rows that it computes (mc_step_ops.rows).
 *
 * A chain is one parallel region. A worker takes its share of the rows through all stages, and does
 * not wait for the other workers between stages. Each result has its own memory and the same bits
 * as if the steps ran one after the other. */
#ifndef CPU_CHAIN_H
#define CPU_CHAIN_H

#include "cpu/fuse.h"
#include "cpu/stage.h"

/* Stages that run together. */
typedef struct mc_chain {
    const mc_call *call; /* the first call */
    int n, n_calls;      /* stages; the calls' stages come first */
    int span;            /* calls from the first on that run together, also behind the chain */
    size_t bytes;        /* of memory for the calls' stages */
    mc_stage stages[MC_MAX_CHAIN + 1];
} mc_chain;

/* Measures the stages of calls [0, n), n <= MC_MAX_CHAIN: sets bytes. errors  those of the ops */
mica_status mc_chain_measure(mc_chain *chain, const mc_call *call, int n);
/* Prepares the stages, in memory [bytes] aligned to 64. errors  those of the ops */
mica_status mc_chain_prepare(mc_chain *chain, void *memory);
/* Adds a stage that reads x by its rows along `axis`. */
void mc_chain_add(mc_chain *chain, const mc_layout *x, int axis, mc_range_fn fn, void *context,
                  int64_t units, int64_t grain);
/* Replaces stages by loops where they can be. The chain refers to `fusion`. */
void mc_chain_fuse(mc_chain *chain, mc_fusion *fusion);
/* Tells mc_run_touch what the loops of calls [from, from + n) of a span, which are a chain, read
 * and write. */
void mc_chain_touch(const mc_call *call, int from, int n);
/* Fuses and runs the chain. */
void mc_chain_run(mc_chain *chain);
/* Takes rows begin .. end - 1 through all stages, in this thread. */
void mc_chain_rows(const mc_chain *chain, int64_t begin, int64_t end, int worker);

/* mc_step_ops.enough_rows */
int64_t mc_chain_enough_rows(const void *state);

/* Whether the op has a STAGE row in eval_list.h. */
bool mc_is_stage(mc_op op);
/* The form in which an op's stage goes row by row (mc_step_ops.rows). Requires mc_is_stage. */
mc_row_form mc_stage_form(mc_op op, const mc_layout *const *in, int n_in);

#endif

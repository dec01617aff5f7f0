/* Ops that go row by row, alone or in a chain: consecutive steps of which each reads of the others'
 * results no more than the rows that it computes (mc_backend.rows).
 *
 * A chain is one parallel region: a worker takes its share of the rows through all stages, and
 * nobody waits for the others between two of them. Each result has memory of its own, as if the
 * steps ran one after the other, and the same bits. */
#ifndef CPU_CHAIN_H
#define CPU_CHAIN_H

#include "cpu/stage.h"

/* Stages that run together. */
typedef struct mc_chain {
    const mc_call *call; /* the first */
    int n, n_calls;      /* stages; those of calls come first */
    size_t bytes;        /* of memory, for the stages of calls */
    mc_stage stages[MC_MAX_CHAIN + 1];
} mc_chain;

/* The stages of calls [0, n), n <= MC_MAX_CHAIN: sets bytes. errors  those of the ops */
mica_status mc_chain_measure(mc_chain *chain, const mc_call *call, int n);
/* In memory [bytes], aligned to 64. errors  those of the ops */
mica_status mc_chain_prepare(mc_chain *chain, void *memory);
/* One more stage, which reads x by the rows along `axis`. */
void mc_chain_add(mc_chain *chain, const mc_layout *x, int axis, mc_range_fn fn, void *context,
                  int64_t units, int64_t grain);
void mc_chain_run(mc_chain *chain);
/* Rows begin .. end - 1 through all stages, in this thread. */
void mc_chain_rows(const mc_chain *chain, int64_t begin, int64_t end, int worker);

/* mc_backend.enough_rows */
int64_t mc_chain_enough_rows(const void *state);

/* Whether the op has a STAGE row in eval_list.h. */
bool mc_is_stage(mc_op op);
/* The form in which the stage of an op goes by rows (mc_backend.rows). Only where mc_is_stage. */
mc_row_form mc_stage_form(mc_op op, const mc_layout *const *in, int n_in);

#endif

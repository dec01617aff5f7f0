/* Ops that go row by row, alone or in a chain: consecutive steps of which each reads of the others'
 * results no more than the rows that it computes (mc_backend.rows).
 *
 * A chain is one parallel region: a worker takes its share of the rows through all stages, and nobody
 * waits for the others between two of them. Each result has memory of its own, as if the steps ran
 * one after the other, and the same bits. */
#ifndef CPU_CHAIN_H
#define CPU_CHAIN_H

#include "cpu/cpu.h"

/* An op that is ready to run. */
typedef struct mc_stage {
    mc_range_fn fn; /* takes ranges of the units: it may run on several threads */
    void *context;
    int64_t
        units; /* of the operand that leads, in logical order: elements, or rows of its last axis */
    int64_t grain;       /* units that are worth a thread */
    size_t bytes;        /* of memory */
    void *memory;        /* NULL while it is measured */
    int64_t outer, rows; /* units: [outer, rows, the same number each] */
} mc_stage;

/* Prepares an op. Called twice: first only mc_stage_memory is asked, and gives NULL; then memory is
 * there, the operands that do not go by rows are computed, and mc_stage_set ends it. */
typedef mica_status (*mc_stage_fn)(const mc_call *call, mc_stage *stage);

static inline void *mc_stage_memory(mc_stage *stage, size_t bytes) {
    stage->bytes = bytes;
    return stage->memory;
}

static inline void mc_stage_set(mc_stage *stage, mc_range_fn fn, void *context, int64_t units,
                                int64_t grain) {
    stage->fn = fn;
    stage->context = context;
    stage->units = units;
    stage->grain = grain < 1 ? 1 : grain;
}

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

/* The kernel of calls [0, call->span): ops that go row by row, and what they end in. */
mica_status mc_eval_chain(const mc_call *call);

/* mc_backend.rows */
mc_row_form mc_chain_form(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                          int n_in);

/* mc_backend.enough_rows */
int64_t mc_chain_enough_rows(const void *state);

/* Whether the op has a STAGE row in eval_list.h. */
bool mc_is_stage(mc_op op);

#endif

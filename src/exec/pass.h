/* Passes over graphs: a graph to another one with the same parameters and the same bits.
 *
 * Each pass records the graph anew in a scope of its own: what results need, in the old order, with
 * one change. In debug builds the verifier checks each. What a pass may change is a matter of ops
 * and operands alone; how ops are run together is the planner's (exec/steps/plan.h). */
#ifndef EXEC_PASS_H
#define EXEC_PASS_H

#include "base/arena.h"
#include "device/pass.h"
#include "graph/graph.h"

/* A graph: nodes [0, n_params) of the scope are its parameters. */
typedef struct mc_passed {
    mica_scope *scope;
    uint32_t n_params, n_results;
    mica_array *results; /* [n_results] */
} mc_passed;

/* Runs the passes that are not off.
 *
 *  from     stays as it is.
 *  to       receives the graph, whose scope the caller closes; nothing after an error
 *  changed  [MC_PASS_COUNT] to each element, what that pass changed is added
 *  arena    memory of lists, and of to->results
 *  errors   MICA_ENOMEM; MICA_EINTERNAL the verifier's */
mica_status mc_passes_run(const mc_passed *from, uint32_t off, mc_arena *arena, uint32_t *changed,
                          mc_passed *to);

/* ---- for passes ---- */

/* A graph that is being recorded anew. */
typedef struct mc_copying {
    mica_scope *from, *to;
    mc_arena *arena;
    uint32_t count;    /* nodes of from */
    bool *needed;      /* [count] by a result */
    mica_array *made;  /* [count] what each became, of `to` */
    uint32_t *changed; /* what the pass counts in */
} mc_copying;

/* Records node i over operands `in` of `to`, as it is. */
mica_array mc_pass_keep(mc_copying *c, uint32_t i, const mica_array *in);

/* Nodes of control flow without results that nobody reads, and without operands that their
 * subgraphs do not read (exec/pass_dead.c). */
typedef struct mc_dead {
    uint32_t **place; /* [count] of a node that became smaller: what the number of each result is */
} mc_dead;
mica_status mc_dead_open(mc_copying *c, mc_dead *dead);
mica_array mc_dead_record(mc_copying *c, void *dead, uint32_t i, mica_array *in);

#endif

/* Which states the layers of a model have (session/state.h).
 *
 * Threads: a plan does not change. */
#ifndef SESSION_PLAN_H
#define SESSION_PLAN_H

#include "session/state.h"

/* What a layer carries, where it is not what its blocks say. */
typedef struct mc_layer_state {
    const mc_state_ops *kind;  /* NULL: keys and values */
    int of;                    /* the layer, this one or an earlier one, whose slot it has */
    const mc_carried *carried; /* [n_carried], kept by the caller: for the kind */
    int n_carried;
} mc_layer_state;

#define MC_NO_STATE (-1)

/* Where a layer's part is; MC_NO_STATE: it carries nothing. */
typedef struct mc_place {
    int state, slot;
} mc_place;

typedef struct mc_planned_state {
    const mc_state_ops *kind;
    mc_entry_span span;
    mc_entry_shape shape;
    int layer, slots;          /* the first layer that has it; slots */
    bool elsewhere;            /* another stage of a pipeline has that layer */
    const mc_carried *carried; /* [n_carried] of the model, or of the given states */
    int n_carried;
} mc_planned_state;

typedef struct mc_state_plan {
    int layers, n;
    mc_place *places;         /* [layers] */
    mc_planned_state *states; /* [n]: those of a pool first */
    int together;             /* how many these are */
} mc_state_plan;

/* Of a rank's stage of a pipeline: its layers alone have states, where there is no pool. On a pool
 * all have, so that all ranks have the same tables and count the same; those of other stages'
 * layers have no arrays. A plan points into `lm` and `states`: both are kept as long as it.
 *
 *  states   [n_layers]; NULL: as the blocks and mc_spec_source say
 *  context  max tokens that a layer attends to; 0: no limit
 *  chunk    max tokens of a pass
 *  block    of a pool, whose states of one shape have as many slots each, the greatest common
 *           divisor of the numbers of layers that attend to the same entries; 0: there is no pool
 *  errors   MICA_EUNSUPPORTED a layer has attention, and a kind that takes no keys, or shares a
 *           state of another window or shape; MICA_ENOMEM */
mica_status mc_state_plan_init(mc_state_plan *plan, const mc_lm *lm, const mc_layer_state *states,
                               int64_t context, int64_t chunk, int64_t block);
void mc_state_plan_deinit(mc_state_plan *plan);

/* Whether a layer has no slot, or an earlier one's. */
bool mc_state_plan_skips(const mc_state_plan *plan, int layer);

/* An empty state as planned, without what belongs to a cache. */
mc_state mc_state_planned(const mc_state_plan *plan, int i, const mc_lm *lm);

#endif

/* One run of a plan: where everything lies this time.
 *
 * All of it is one block whose size the plan tells; it is kept with the plan between runs, so that
 * a replay allocates nothing. Threads: a run belongs to the thread that runs it. */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H

#include "exec/plan.h"
#include "device/worker.h"

typedef struct mc_cached_plan mc_cached_plan;

#define MC_MAX_KEPT 4

typedef struct mc_kept { /* mc_run_keep: the memory, its key behind it */
    mc_storage *storage;
    size_t bytes, key_bytes;
} mc_kept;

/* A root that may lie elsewhere when the same is computed again: a storage of its own, or a leaf
 * that may be overwritten. What is asked of it between runs is told here, for it is in no cache
 * then. */
typedef struct mc_moving {
    uint32_t root;
    uint32_t leaf; /* which leaf it is, or may take over; MC_ABSENT: none */
    bool own;
} mc_moving;

struct mc_run {
    mc_job job; /* first: the worker hands it back */
    mica_device *device;
    mica_scope *scope;
    mc_cached_plan *entry; /* keeps the plan alive */
    const mc_plan *plan;
    mc_storage *temp;    /* the block of temporaries */
    mc_storage *scratch; /* of the kernel that runs */
    mc_kept kept[MC_MAX_KEPT];
    int n_kept;
    mica_array *targets; /* [n_targets] */
    void **roots;        /* [n_roots] where each root lies */
    mc_moving *moving;   /* [n_moving] */
    uint32_t n_moving;
    bool moved;           /* any root may lie elsewhere than it did, or than the operands say */
    void *temp_data;      /* where the block of temporaries was last */
    mc_storage **own;     /* [n_roots] storages of OWN roots */
    mc_operand *operands; /* [n_operands] of all steps, one after the other */
    mc_call *calls;       /* [n_steps] */
    uint32_t *leaves;     /* [n_leaves] nodes of the scope */
    mica_status status;   /* of the steps */
    char error[1024];     /* its text, which the worker's thread leaves behind */
};

/* A run with everything set that does not change between runs; NULL: no memory. */
mc_run *mc_run_new(mica_device *device, const mc_plan *plan);

#endif

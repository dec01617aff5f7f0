/* One run of a plan: where everything lies this time.
 *
 * All of it is one block whose size the plan tells; it is kept between runs, so that a replay
 * allocates nothing. Threads: a run belongs to the thread that runs it. */
#ifndef EXEC_STEPS_RUN_H
#define EXEC_STEPS_RUN_H

#include "exec/steps/plan.h"

#define MC_MAX_KEPT 4

typedef struct mc_kept { /* mc_run_keep: the memory, where the host sees it its key behind it */
    mc_storage *storage;
    void *key; /* NULL: behind the memory */
    size_t bytes, key_bytes;
} mc_kept;

/* What the kernels of a run ask for, in bytes as the device counts them. */
typedef struct mc_measured {
    uint64_t scratch; /* the largest */
    uint64_t kept;
    uint64_t keys[MC_MAX_KEPT]; /* hashes, of what was kept */
    int n_keys;
    bool *touched; /* [n_roots] by kernels; NULL: that is not asked */
} mc_measured;

struct mc_run {
    mica_device *device;
    const mc_plan *plan;
    mc_storage *temp;     /* the block of temporaries */
    mc_storage *scratch;  /* of the kernel that runs */
    size_t scratch_bytes; /* the most that a kernel has asked for: the next launch has it at once */
    void *scratch_address; /* of the last launch */
    bool repeats;          /* all lies where it lay in the last launch */
    mc_kept kept[MC_MAX_KEPT];
    int n_kept;
    void *launched;  /* by mc_step_ops.begin */
    void *kept_own;  /* mc_run_own */
    void **roots;    /* [n_roots] where each root lies */
    uint32_t *bound; /* [n_bound] roots that may move between runs: parameters that are no
                             scalars, and roots with a storage of their own */
    uint32_t n_bound;
    mc_measured *measured; /* NULL, but in a run that is measured */
    bool moved;            /* a root lies elsewhere than the operands say */
    void *temp_address;    /* where the block of temporaries was last */
    mc_storage **own;      /* [n_roots] storages of OWN roots */
    uint64_t *scalars;     /* [n_scalars] of the plan, one block */
    mc_operand *operands;  /* [n_operands] of all steps, one after the other */
    mc_call *calls;        /* [n_steps] */
};

/* A run with everything set that does not change between runs; NULL: no memory. */
mc_run *mc_run_new(mica_device *device, const mc_plan *plan);
void mc_run_free(mc_run *run);               /* takes NULL */
size_t mc_run_kept_bytes(const mc_run *run); /* of mc_run_own */

/* Lets kernels prepare the plan's constants: sets steps' `prepared`, to be given back with
 * mc_run_forget, after an error too. errors  MICA_ENOMEM */
mica_status mc_run_prepare(mica_device *device, mc_plan *plan);
void mc_run_forget(mica_device *device, mc_plan *plan);

/* What runs of the plan take of the device's memory. errors  MICA_ENOMEM */
mica_status mc_run_measure(mica_device *device, const mc_plan *plan, mc_launch_memory *memory);

/* Finds the temporaries that no kernel touches, and places the others again. errors  MICA_ENOMEM */
mica_status mc_run_place(mica_device *device, mc_plan *plan);

/* Runs the plan once, as mc_backend.launch says. */
mica_status mc_run_launch(mc_run *run, mc_binding *args, const uint64_t *scalars,
                          mc_result *results, mc_fence *fence);

/* Gives back the memory that kernels asked for. */
void mc_run_release_scratch(mc_run *run);

#endif

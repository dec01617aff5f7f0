/* Masks that are computed ahead: once a token is accepted, its constraint says which tokens may
 * come next, so a thread of its own computes that mask while the device computes the step that
 * gives the logits.
 *
 * A worker has one thread and a queue of jobs. A job that its stream needs before the thread has
 * begun it is computed by the stream's thread, so masks never wait for each other. The thread
 * starts with the first job; where it cannot, all masks are computed by those who need them.
 *
 * Threads: jobs of one worker may belong to any threads. A constraint is used by the worker from
 * mc_mask_job_begin until mc_mask_job_finish or mc_mask_job_drop returns, and by nobody else
 * meanwhile. */
#ifndef SESSION_MASK_WORKER_H
#define SESSION_MASK_WORKER_H

#include "session/constraint.h"

typedef struct mc_mask_worker mc_mask_worker;

/* Of the worker: how far a job is. */
typedef enum mc_mask_job_state {
    MC_MASK_NONE, /* not begun, or finished */
    MC_MASK_QUEUED,
    MC_MASK_RUNS,
    MC_MASK_DONE
} mc_mask_job_state;

/* The mask of one constraint. Zero but for its first two members before it is begun. */
typedef struct mc_mask_job {
    mc_constraint *constraint;
    mc_token_mask mask; /* as for mc_constraint_ops.mask */
    mc_mask_job_state state;
    mica_status status;
    char error[1024]; /* the text of status */
    struct mc_mask_job *next;
} mc_mask_job;

/* Seconds that masks took, and that streams waited for them; the first without the second is what
 * the steps hid. */
typedef struct mc_mask_times {
    double computed, waited;
} mc_mask_times;

/* errors  MICA_ENOMEM */
mica_status mc_mask_worker_open(mc_mask_worker **worker);
/* All jobs are finished or dropped. Takes NULL inside. */
void mc_mask_worker_close(mc_mask_worker **worker);

/* Begins to compute a mask. Does nothing if it was begun. */
void mc_mask_job_begin(mc_mask_worker *worker, mc_mask_job *job);
/* Waits for the mask, or computes it if nobody has begun to. Returns the constraint's status, with
 * its error text. */
mica_status mc_mask_job_finish(mc_mask_worker *worker, mc_mask_job *job);
/* The mask is not needed any more: waits if it is being computed. */
void mc_mask_job_drop(mc_mask_worker *worker, mc_mask_job *job);

mc_mask_times mc_mask_worker_times(mc_mask_worker *worker);

#endif

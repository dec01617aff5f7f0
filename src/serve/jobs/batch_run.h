/* The work of a batch: its lines are checked, answered, and the answers written. Threads: that of
 * the queue. */
#ifndef SERVE_JOBS_BATCH_RUN_H
#define SERVE_JOBS_BATCH_RUN_H

#include "serve/common/batch_queue.h"

/* Runs a batch to its end; its state says which. */
void mc_batch_run(mc_batch_queue *queue, mc_queued_batch *batch);

#endif

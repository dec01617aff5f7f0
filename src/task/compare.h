/* The divergence of two models' predictions: see mica_compare_ids. Threads: any, each with
 * arguments of its own. */
#ifndef TASK_COMPARE_H
#define TASK_COMPARE_H

#include "session/session.h"

#include <mica/tasks.h>

/* errors  MICA_EINVAL, MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_compare(const mc_session_model *reference, const mc_session_model *model,
                       const int32_t *ids, size_t n, const mica_task_options *options,
                       mica_comparison *sums);

#endif

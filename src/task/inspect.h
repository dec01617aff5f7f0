/* Queries and keys of layers: see mica_inspect_attention. Threads: any, each with arguments of its
 * own. */
#ifndef TASK_INSPECT_H
#define TASK_INSPECT_H

#include "session/session.h"

#include <mica/tasks.h>

/* layers  [count], each below n_layers and at most once; NULL: all.
 * found   freed with mica_attention_free; NULL after an error.
 * errors  MICA_EUNSUPPORTED a layer has no attention, or heads unlike those of most; MICA_EINVAL,
 *         MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_inspect(const mc_session_model *model, const int32_t *ids, size_t n,
                       const int64_t *layers, size_t count, const mica_task_options *options,
                       mica_attention **found);

#endif

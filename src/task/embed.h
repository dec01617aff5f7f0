/* A text as one vector: see mica_embed. Threads: any, each with arguments of its own. */
#ifndef TASK_EMBED_H
#define TASK_EMBED_H

#include "session/session.h"

#include <mica/tasks.h>

/* vector  f32 [hidden], freed with mc_free; NULL after an error.
 * errors  MICA_EINVAL, MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_embed(const mc_session_model *model, const int32_t *ids, size_t n,
                     const mica_embed_options *options, float **vector);

#endif

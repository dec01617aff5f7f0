/* Texts as vectors: see mica_embed. Threads: any, each with arguments of its own. */
#ifndef TASK_EMBED_H
#define TASK_EMBED_H

#include "task/texts.h"

#include <mica/tasks.h>

/* vector  f32 [hidden], freed with mc_free; NULL after an error.
 * errors  MICA_EINVAL, MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_embed(const mc_session_model *model, const mc_text *text,
                     const mica_embed_options *options, float **vector);

/* The same for many texts, short ones as rows of passes. options' progress counts texts.
 *
 *  texts    [count]
 *  results  freed with mica_embed_texts_free; NULL after an error. Its rows have the errors of
 *           mc_embed
 *  errors   MICA_EINVAL the pooling; MICA_ENOMEM */
mica_status mc_embed_texts(const mc_session_model *model, const mc_text *texts, size_t count,
                           const mica_embed_options *options, mica_embed_results **results);

#endif

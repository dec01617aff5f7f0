/* Documents by their relevance to a query, by a cross-encoder. Threads: any. */
#ifndef TASK_RERANK_H
#define TASK_RERANK_H

#include "base/str.h"
#include "session/session.h"

#include <mica/tasks.h>

typedef struct mc_pairs {
    mc_str query;
    const mc_str *documents; /* [count]. Borrowed */
    size_t count;
    size_t max_document; /* only so many tokens of a document's beginning; 0: all */
    bool logits;         /* scores are logits, whatever the model's config says */
} mc_pairs;

/* Scores the query with each document, some hundred pairs at a time.
 *
 *  options  progress is called between parts of the work
 *  scores   f32 [count]
 *  tokens   receives those of all pairs; may be NULL
 *  errors   those of mica_rerank; MICA_EUNSUPPORTED the model is no cross-encoder */
mica_status mc_rerank_pairs(const mc_session_model *model, const mc_pairs *pairs,
                            const mica_task_options *options, float *scores, int64_t *tokens);

#endif

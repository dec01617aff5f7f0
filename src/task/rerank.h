/* Documents by their relevance to a query: by a cross-encoder, or a language model that is asked.
 * Threads: any. */
#ifndef TASK_RERANK_H
#define TASK_RERANK_H

#include "base/str.h"
#include "session/session.h"

#include <mica/tasks.h>

typedef struct mc_pairs {
    mc_str query;
    const mc_str *documents; /* [count]. Borrowed */
    size_t count;
    size_t max_document;     /* only so many tokens of a document's beginning; 0: all */
    bool logits;             /* a cross-encoder's scores are logits, whatever its config says */
    const char *instruction; /* to a language model; NULL: mica_rerank's default. Borrowed */
} mc_pairs;

/* Whether a model is a cross-encoder, or a language model that is asked: one with ChatML's format,
 * or a LogitScore module. */
bool mc_reranks(const mc_lm *lm);

/* Scores the query with each document, some hundred pairs at a time, by a model of mc_reranks.
 *
 *  options  progress is called between parts of the work
 *  scores   f32 [count]
 *  tokens   receives those of all pairs; may be NULL
 *  errors   those of mica_rerank */
mica_status mc_rerank(const mc_session_model *model, const mc_pairs *pairs,
                      const mica_task_options *options, float *scores, int64_t *tokens);

#endif

/* The log-probability of a text: see mica_score. Threads: any, each with arguments of its own. */
#ifndef TASK_SCORE_H
#define TASK_SCORE_H

#include "task/texts.h"

#include <mica/tasks.h>

/* The maximum size of the logits computed at a time; a single row may be larger. */
#define MC_SCORE_BYTES (16 << 20)

/* result  freed with mica_score_free; NULL after an error.
 * errors  MICA_EINVAL, MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_score(const mc_session_model *model, const int32_t *ids, size_t n,
                     const mica_task_options *options, mica_score_result **result);

/* The same, with the likeliest tokens in the place of each.
 *
 *  top           number of them, at most the vocabulary's size; 0: none.
 *  alternatives  receives [n, top], the likeliest first, freed with mc_free; those of the first
 *                token are zero. NULL with top 0 and after an error. */
mica_status mc_score_top(const mc_session_model *model, const int32_t *ids, size_t n, int64_t top,
                         const mica_task_options *options, mica_score_result **result,
                         mica_alternative **alternatives);

/* mc_score for many texts, short ones as rows of passes. options' progress counts texts.
 *
 *  texts    [count]
 *  results  freed with mica_score_texts_free; NULL after an error. Its rows have the errors of
 *           mc_score
 *  errors   MICA_ENOMEM */
mica_status mc_score_texts(const mc_session_model *model, const mc_text *texts, size_t count,
                           const mica_task_options *options, mica_score_results **results);

#endif

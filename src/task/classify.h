/* The next token's probabilities after many prompts: see mica_classify.
 *
 * Short prompts are computed together, as the rows of one pass. Those that share a beginning with
 * the one before, and long ones, are computed by one session, whose caches hold the beginning.
 * Threads: any, each with arguments of its own. */
#ifndef TASK_CLASSIFY_H
#define TASK_CLASSIFY_H

#include "session/session.h"

#include <mica/tasks.h>

typedef struct mc_classify_task {
    const mc_session_model *model;
    /* The ids of prompt i, freed with mc_free. */
    mica_status (*encode)(void *context, size_t i, int32_t **ids, size_t *n);
    void *context;
    size_t count; /* prompts, 1 or more */
    const int32_t
        *labels; /* [options->label_count]: each label's first token, below the vocabulary */
} mc_classify_task;

/* results  freed with mica_classify_free; NULL after an error.
 * errors   MICA_EINVAL an option of the draw is out of range; MICA_ENOMEM; rows have the others */
mica_status mc_classify(const mc_classify_task *task, const mica_classify_options *options,
                        mica_classify_results **results);

#endif

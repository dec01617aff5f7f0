/* Many answers at once: see mica_batch_generate.
 *
 * Each row is an ordinary session with an ordinary stream. Prompts are prefilled one by one. Then,
 * step by step, the tokens that the streams would compute next are computed together: [B, 1,
 * hidden] through the matrices, each row over its own caches in attention. The streams find their
 * logits there (mc_session_knows) and go on as if they had computed them. A row that ends leaves
 * its slot to the next item.
 *
 * As a session has two scopes that alternate, so has a batch: a step moves the caches of all its
 * rows out of the one that holds them (or out of a new row's session) into the other. So every row
 * that lives is part of every step. A step of the same rows as the last is not recorded again.
 *
 * Threads: any, each with arguments of its own. */
#ifndef TASK_BATCH_H
#define TASK_BATCH_H

#include "session/session.h"

#include <mica/tasks.h>

/* A batch's part of the computing. */
typedef struct mc_batch {
    const mc_session_model *model;
    mica_scope *scopes[2];
    int current;              /* scopes[current] is the one that holds the rows' caches */
    mc_buffer arrays;         /* mica_array: the rows' caches and results of a step */
    mc_buffer rows;           /* mc_session *: whose step is recorded in scopes[current] */
    bool greedy;              /* it leaves the rows' best tokens, no logits */
    mica_array ids, position; /* its leaves, [n, 1] and [n] i32 */
    mc_buffer logits;         /* float [rows, vocab]: of a step */
} mc_batch;

/* After an error the batch must be deinited too. errors  MICA_ENOMEM */
mica_status mc_batch_init(mc_batch *batch, const mc_session_model *model);
void mc_batch_deinit(mc_batch *batch);

/* Makes room for the next token of a session, in a scope of its own: a batch's errors are all
 * sessions'.
 * errors  MICA_ENOMEM: this one is empty then */
mica_status mc_batch_reserve(mc_session *session);

/* Computes a token of each of n sessions that have room for it, 1 <= n <= MC_MAX_ROWS: what
 * mc_session_feed would. Their next mc_session_feed gives its logits and computes nothing. Every
 * session that was part of the step before must be part of this one, unless it was reset.
 *
 * errors  those of mc_session_feed; all of these sessions are empty then. */
mica_status mc_batch_feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                          size_t n);

typedef struct mc_batch_task {
    const mc_session_model *model;
    const mica_batch_item *items; /* [count]: their options; count is 1 or more */
    size_t count;
    /* The ids of item i, freed with mc_free. */
    mica_status (*encode)(void *context, size_t i, int32_t **ids, size_t *n);
    void *context;
} mc_batch_task;

/* results  freed with mica_batch_free; NULL after an error.
 * errors   MICA_EINVAL parallel is out of range; MICA_ENOMEM; the others are in the rows */
mica_status mc_batch_generate(const mc_batch_task *task, const mica_batch_options *options,
                              mica_batch_results **results);

#endif

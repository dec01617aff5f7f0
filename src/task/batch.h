/* Many answers at once: see mica_batch_generate.
 *
 * Each row is an ordinary session with an ordinary stream. Prompts are prefilled one by one. Then
 * each step computes the next token of all streams together: [B, 1, hidden] through the matmuls,
 * while attention of each row reads its own caches. The streams find their logits computed
 * (mc_session_knows) and continue as usual. When a row ends, its slot is free for the next item.
 *
 * A step is a pass (session/pass.h), whose program is kept as long as the number of rows and the
 * sizes of their buffers stay. Rows on a pool (session/pool.h) are read through one table; lengths
 * are data then, and programs are kept for numbers of rows and for lengths of the table, which are
 * powers of two.
 *
 * On a device that launches late, a step of rows whose tokens the device chooses, the best or those
 * that it draws, can be followed by another, launched over these tokens before anybody has read
 * them (mc_batch.follow): the device goes on while the host hands them out. If other rows come
 * next, those of the follower are taken first, by themselves; a row that has ended by then was
 * computed in vain.
 *
 * Threads: any, each with arguments of its own. */
#ifndef TASK_BATCH_H
#define TASK_BATCH_H

#include "session/constraint.h"
#include "session/session.h"

#include <mica/tasks.h>

/* The state of computing steps. */
typedef struct mc_batch {
    const mc_session_model *model;
    mica_scope *scope; /* of the results of the last step */
    mc_passes passes;
    mc_pass_program last; /* of the last step, without a pool */
    mc_buffer tops;       /* mc_largest [rows] of a step */
    /* Set by the owner before a step of one token each of sessions on a pool with room for a token
     * more, that are greedy, or of which each has a draw: the tokens after it are fed next. */
    bool follow;
    mc_device_draws draws;
    mc_session_launch follower;
    mica_program *program; /* of the follower, held until its end; NULL: there is none */
    mc_session *followed[MC_MAX_ROWS];
    int32_t chosen[MC_MAX_ROWS]; /* the tokens of its rows, once they were read */
    size_t n_followed;
    uint64_t follows; /* steps that were launched so and taken */
} mc_batch;

/* After an error the batch must be deinited too. errors  MICA_ENOMEM */
mica_status mc_batch_init(mc_batch *batch, const mc_session_model *model);
void mc_batch_deinit(mc_batch *batch);

/* Computes a token of each of n sessions that have room for it (mc_session_reserve), 1 <= n <=
 * MC_MAX_ROWS, as mc_session_feed does. The sessions' next mc_session_feed returns these logits
 * without computing.
 *
 * errors  those of mc_session_feed; all these sessions are then empty, but those of which all is on
 *         a pool (mc_cache_is_together), which are as before */
mica_status mc_batch_feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                          size_t n);

/* Whether the follower has the session's next token, for which that then needs no room. Where any
 * has, a step is of such sessions alone. */
bool mc_batch_follows(const mc_batch *batch, const mc_session *session);

/* Ends a follower whose tokens nobody takes. */
void mc_batch_drop_follower(mc_batch *batch);

/* The same with guesses behind the tokens (mc_session_look_ahead) of sessions of which all is on a
 * pool: each token is a row of the step, and those of one session have one table.
 *
 *  ids     of all sessions, one session's after the other's: its next token, then guesses
 *  counts  [n] how many of them are each session's, 1 to MC_MAX_AHEAD, MC_MAX_ROWS together, for
 *          which it has room; NULL: 1 of each
 *  errors  those of mc_batch_feed, which leave the sessions as those do */
mica_status mc_batch_look_ahead(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                                const int64_t *counts, size_t n);

typedef struct mc_batch_task {
    const mc_session_model *model; /* NULL: for mc_batch_in_turn */
    const mica_batch_item *items;  /* [count], count >= 1; only their options are read */
    size_t count;
    /* The ids of item i, freed with mc_free. */
    mica_status (*encode)(void *context, size_t i, int32_t **ids, size_t *n);
    void *context;
    /* What the answer of item i to these ids is constrained to; NULL: to nothing. NULL itself: no
     * answer is constrained. */
    mica_status (*constrain)(void *context, size_t i, const int32_t *ids, size_t n,
                             const mica_generate_options *options, mc_constraint **constraint);
} mc_batch_task;

/* results  freed with mica_batch_free; NULL after an error.
 * errors   MICA_EINVAL parallel is out of range; MICA_ENOMEM; rows have the others */
mica_status mc_batch_generate(const mc_batch_task *task, const mica_batch_options *options,
                              mica_batch_results **results);

/* The same with any engine's model: one row after another, by mica_generate_ids. errors  also those
 * of mica_session_open */
mica_status mc_batch_in_turn(const mica_model *model, const mc_batch_task *task,
                             const mica_batch_options *options, mica_batch_results **results);

#endif

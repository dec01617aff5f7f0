/* A session: a model's caches and the tokens that they hold.
 *
 * Two scopes alternate. A pass is recorded in the one that is empty, moves the caches out of the
 * other, which is emptied afterwards, and leaves them, grown, in its own: nothing is copied, and
 * steady decoding allocates nothing. A pass like the one before (as many tokens, the same buffers)
 * is not recorded: that one is computed again in its scope, with other tokens (device/eval.h).
 *
 * A session can compute ahead: tokens behind its history that may turn out to be the next ones, or
 * not. Their entries lie in the caches, not counted, and their logits wait. Fed one by one, those
 * that were right cost nothing; the first that is another drops the rest. Whether a session has
 * computed ahead shows in nothing but time.
 *
 * Threads: one at a time. */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/buffer.h"
#include "base/status.h"
#include "model/lm.h"
#include "session/cache.h"
#include "session/tokens.h"

#include <mica/model.h>

/* A model as sessions see it. Borrowed by them, and shared. */
typedef struct mc_session_model {
    const mc_lm *lm;
    mica_device *device;
    const mica_tokenizer *tokenizer; /* NULL: tokens have no text */
    int64_t
        context; /* tokens that a layer sees at most, the first 4 among them; 0: prompt and answer
                        may have no more than lm->spec.context tokens */
    const int32_t *stop_ids; /* [stop_count] */
    size_t stop_count;
} mc_session_model;

/* Of a row of logits: the largest, NaN where any of them is, and the first token that has it. */
typedef struct mc_best {
    int32_t id;
    float logit;
} mc_best;

enum { MC_MAX_AHEAD = 64 };

/* The graph of a pass. */
typedef struct mc_session_graph {
    mica_array ids, position; /* its leaves, [1, n] and [] i32 */
    int64_t n;                /* 0: none, or one that nobody wants again */
    mc_wanted wanted;
    bool best;
} mc_session_graph;

typedef struct mc_session {
    const mc_session_model *model;
    struct mc_session *draft; /* of a draft model, in step as far as it was asked; NULL: none */
    mc_cache cache;
    mica_scope *scopes[2];
    int current;            /* scopes[current] is the one that holds the caches */
    mc_session_graph graph; /* of the pass in scopes[current] */
    int64_t chunk;          /* tokens of a pass of prefill */
    int64_t to_come; /* tokens that passes are to bring, for which caches get room at once; 0: those
                        of the next pass. Set by mc_session_reuse; the owner may add to it */
    mc_tokens history; /* that the caches have seen; with a context, those that these go back to */
    mc_buffer arrays;  /* mica_array: results of a pass */
    mc_buffer logits; /* float [rows, vocab]: of the last pass; one row, or that of each in ahead */
    bool greedy;      /* the owner's to set: passes leave a row's best token, no logits */
    bool has_best;    /* the last pass that left either did */
    mc_best best[MC_MAX_AHEAD]; /* as the rows of logits */
    mc_buffer ahead;  /* int32: tokens computed behind the history, those since fed among them */
    size_t taken;     /* of ahead: how many were fed */
    uint64_t streams; /* begun so far, resets counted too: only the last one may go on */
} mc_session;

/* chunk 0: 512. errors MICA_EINVAL a chunk below 0; MICA_ENOMEM */
mica_status mc_session_open(const mc_session_model *model, int64_t chunk, mc_session **session);
void mc_session_close(mc_session **session); /* takes NULL */

/* Gives a session a draft model, which must outlive it: session/draft.h.
 * errors  MICA_EINVAL its vocabulary is another (the text says where); MICA_ENOMEM */
mica_status mc_session_set_draft(mc_session *session, const mc_session_model *draft);

/* Bytes of the caches of a session with the default chunk once it has seen `tokens`. */
uint64_t mc_session_bytes(const mc_session_model *model, int64_t tokens);

/* Forgets the history and frees the caches; a stream that has begun is over. */
void mc_session_reset(mc_session *session);

/* The tokens that the caches have seen, and the most that they may (INT32_MAX: no limit). */
int64_t mc_session_count(const mc_session *session);
int64_t mc_session_room(const mc_session *session);

/* Goes back to what the history and ids[n], or a text, begin with in common, and returns how many
 * tokens that is. At least one token is left to compute. Where caches with a window cannot go back
 * so far, the session forgets everything. */
int64_t mc_session_reuse(mc_session *session, const int32_t *ids, int64_t n);
int64_t mc_session_reuse_text(mc_session *session, const mc_tokens *text);

/* Computes one chunk: n tokens, 1 <= n <= the session's chunk, all below the vocabulary. A single
 * one that was computed ahead is only taken.
 *
 * logits  receives the last token's [vocab], alive until the next pass, or NULL where there is only
 *         its best token (mc_session_best); NULL: neither is wanted.
 * errors  those of mica_eval; MICA_ENOMEM. The session is empty then. */
mica_status mc_session_feed(mc_session *session, const int32_t *ids, int64_t n,
                            const float **logits);

/* The logits that mc_session_feed gave last; the caller's to change. NULL: it left the best
 * token. */
float *mc_session_logits(mc_session *session);

/* The best token of the last one that was fed; NULL: there are logits. */
const mc_best *mc_session_best(const mc_session *session);

/* Computes n tokens ahead, in one pass, 1 <= n <= MC_MAX_AHEAD; what was ahead before is dropped.
 * errors  as mc_session_feed */
mica_status mc_session_look_ahead(mc_session *session, const int32_t *ids, int64_t n);

/* For who computed tokens behind the history in its own way: they are ahead, their logits are in
 * session->logits, or has_best is set and the best ones are in session->best.
 * errors  MICA_ENOMEM; the session is empty then */
mica_status mc_session_set_ahead(mc_session *session, const int32_t *ids, int64_t n);

/* Whether anything is ahead; whether the token is the next one ahead, so that to feed it costs
 * nothing. */
bool mc_session_is_ahead(const mc_session *session);
bool mc_session_knows(const mc_session *session, int32_t id);

/* The best tokens of logits [..., vocab] without the logits: recorded, and read after the
 * evaluation. */
enum { MC_BEST_ARRAYS = 2 };
void mc_best_record(mica_scope *s, mica_array logits, mica_array arrays[MC_BEST_ARRAYS]);
mica_status mc_best_read(const mica_array arrays[MC_BEST_ARRAYS], mc_best *best, size_t rows);

/* What a pass shall leave beside the caches. */
typedef struct mc_session_wish {
    mc_wanted wanted;
    bool best;             /* of the wanted logits, only the best ones (mc_best_record) */
    const int64_t *layers; /* [n_layers], each once: whose queries and keys are wanted */
    size_t n_layers;
} mc_session_wish;

/* The same, for those who want more than the last logits.
 *
 * results  receive evaluated arrays that live until the next pass: what mc_lm_forward returns, or
 *          the best of it, unless nothing is wanted; then of each layer q [1, heads, L, head_dim]
 *          and k [1, kv_heads, L, head_dim], in the order of wish->layers. */
mica_status mc_session_pass(mc_session *session, const int32_t *ids, int64_t n,
                            const mc_session_wish *wish, mica_array *results);

#endif

/* A session: a model's KV cache and the tokens that it holds.
 *
 * What it computes are passes of one row (session/pass.h): steady decoding allocates nothing.
 *
 * A session can compute tokens ahead: guesses for the tokens after its history. Their entries are
 * in the caches, not yet counted, and their logits are kept. When such a token is fed, nothing is
 * computed. The first token that differs from its guess drops the guesses left. Results do not
 * depend on what was computed ahead. Where a state cannot go back (session/state.h), those that
 * were fed are computed again then.
 *
 * On a device that launches late (mc_backend.late) a pass whose token the device chooses, the best
 * or one that it draws (session/device_draw.h), can be followed by another over that token before
 * anybody has read it: the device goes on while the host looks at the token. Such a follower is one
 * token ahead, and dropped like a guess.
 *
 * Threads: one at a time. */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "device/device.h"
#include "model/lm.h"
#include "session/device_draw.h"
#include "session/lead.h"
#include "session/pass.h"
#include "session/swap.h"
#include "session/tokens.h"

#include <mica/model.h>

/* A model, as sessions use it. Borrowed by them, and shared. */
typedef struct mc_session_model {
    const mc_lm *lm;
    mica_device *device;
    const mica_tokenizer *tokenizer; /* NULL: tokens have no text */
    /* Max tokens that a layer attends to, the first 4 among them; 0: prompt and answer together
     * have no more than lm->spec.context tokens. */
    int64_t context;
    const int32_t *stop_ids; /* [stop_count] */
    size_t stop_count;
    mc_kv_pool *pool; /* of the sessions' caches, which it outlives; NULL: arrays of their own */
    const mc_layer_state *states; /* mc_state_plan_init's; NULL: all layers have keys and values */
    /* The processor does not read the device's memory. Where a few logits are enough, the others
     * stay there, and caches are swapped out of it. */
    bool far_memory;
    uint64_t fingerprint; /* of the model of which lm is a rank's part; 0: lm is whole */
    struct mc_lead *lead; /* who tells other ranks what its sessions do; NULL: nobody */
} mc_session_model;

enum { MC_MAX_AHEAD = 64 };

/* Programs that a session keeps: one token, a chunk of prefill and a few numbers of drafts
 * alternate. Sessions on a pool share those of the pool. */
enum { MC_SESSION_PROGRAMS = 4 };

/* A pass that was launched: what it leaves is the best token, and that as ids of another pass; or
 * the logits, where tokens are drawn. */
typedef struct mc_session_launch {
    mc_fence fence;
    mica_array results[MC_LAUNCH_ARRAYS]; /* [n_results] */
    size_t n_results;
    mica_status status; /* of launching: an error is told when the pass is asked for */
    char error[512];    /* its text */
} mc_session_launch;

typedef struct mc_session {
    const mc_session_model *model;
    int64_t number; /* by which a lead names it */
    /* Of the draft model, with the history of its last guesses; NULL: none. */
    struct mc_session *draft;
    mc_cache cache;
    mc_swap swap;      /* what mc_session_swap_out saved of it */
    mica_scope *scope; /* of the caches' buffers, and of the last pass's results */
    mc_passes passes;
    mc_pass_program programs[MC_SESSION_PROGRAMS]; /* without a pool; the one used last first */
    int64_t chunk;                                 /* max tokens of a prefill pass */
    bool has_read; /* the last pass was one over a text: states are noted behind it */
    /* Tokens that later passes bring, for which the caches get room at once; 0: those of the next
     * pass. mc_session_reuse sets it, and the owner may add to it. */
    int64_t to_come;
    /* Tokens that the caches have seen. With a limited context the oldest are forgotten. */
    mc_tokens history;
    /* float [rows, vocab]: of the last pass, one row or one for each token ahead */
    mc_buffer logits;
    bool greedy;   /* set by the owner: passes leave the best token of a row, not its logits */
    bool has_best; /* the last pass that left logits or best tokens left best tokens */
    /* Set by the owner of a session that is not greedy: passes leave the largest logits of a row,
     * and the row on the device, from which it may be read. */
    bool largest;
    bool has_largest;  /* the last pass did */
    mc_buffer tops;    /* mc_largest of each row of it */
    mica_array rows;   /* [.., .., vocab]: the rows themselves; MICA_NONE: they are gone */
    int64_t first_row; /* the session's, of these */
    /* Set by the owner before a token is fed: the best token after it is fed next, unless it ends
     * the text. */
    bool follow;
    /* Set by the owner of a session that is not greedy before a token is fed, and cleared behind
     * it: what the next token is drawn by, for passes that follow. NULL: none do. Borrowed */
    const mc_device_draw *draw;
    mc_device_draws draws;
    bool has_follower;
    int32_t chosen; /* the token of the follower */
    /* A step of a batch was launched over the token that the last one chose; set by that, and
     * cleared where the session does anything else with its caches. */
    bool followed;
    mc_session_launch follower; /* over the token `chosen` */
    mc_best best[MC_MAX_AHEAD]; /* one for each row of logits */
    mc_buffer ahead;            /* int32: tokens computed ahead, with those fed since */
    size_t taken;               /* how many tokens of `ahead` were fed */
    uint64_t streams;           /* streams begun, and resets; only the last stream may go on */
} mc_session;

/*  chunk   max tokens of a prefill pass; 0: 512, or as many as the device is fast with
 *  errors  MICA_EINVAL a chunk below 0; MICA_ENOMEM */
mica_status mc_session_open(const mc_session_model *model, int64_t chunk, mc_session **session);
void mc_session_close(mc_session **session); /* takes NULL */

/* Opens a session with the history, the caches and the last logits of another one, whose memory it
 * shares until one of them writes there. Tokens ahead are not taken along.
 *  errors  MICA_ENOMEM; those of mc_session_settle */
mica_status mc_session_fork(mc_session *from, mc_session **session);

/* Gives a session a draft model, which must outlive it (session/draft.h).
 *  errors  MICA_EINVAL another vocabulary: the text says where it differs; MICA_ENOMEM */
mica_status mc_session_set_draft(mc_session *session, const mc_session_model *draft);

/* Bytes of the caches after `tokens` tokens, in a session with the default chunk. */
uint64_t mc_session_bytes(const mc_session_model *model, int64_t tokens);

/* Clears the history and frees the caches. A stream that has begun cannot go on. */
void mc_session_reset(mc_session *session);

/* The same; but on a pool that has room for copies the caches are saved to one first, if that goes
 * well. mc_session_reuse of a text that begins with its tokens takes it; it is dropped by that of
 * another text, and by mc_session_reset. */
void mc_session_swap_out(mc_session *session);

/* The number of tokens that the caches have seen, and its limit (INT32_MAX: none). */
int64_t mc_session_count(const mc_session *session);
int64_t mc_session_room(const mc_session *session);

/* Goes back to the longest common prefix of the history and a text, and returns its length. At
 * least one token of the text is left to compute. If the caches cannot go back so far, the session
 * goes back further, where it can, or forgets everything, as for a sliding window. On a pool
 * that keeps prefixes it goes on from what the pool has of the text, if that is more. */
int64_t mc_session_reuse(mc_session *session, const int32_t *ids, int64_t n);
int64_t mc_session_reuse_text(mc_session *session, const mc_tokens *text);

/* On a pool that keeps prefixes: says that other texts may begin with the session's first
 * `position` tokens, before or after these are fed: the end of a system prompt, or of a message. A
 * model without windows needs no marks, and the end of each text is one. mc_session_reset drops
 * them. errors  MICA_ENOMEM */
mica_status mc_session_mark(mc_session *session, int64_t position);

/* Prefixes are shared among sessions of one salt; a new session's is "". Resets the session. */
void mc_session_set_salt(mc_session *session, const char *salt);

/* Computes one chunk: n tokens, 1 <= n <= the session's chunk, all below the vocabulary. If a
 * single token was computed ahead, it is only counted.
 *
 *  logits  receives the last token's [vocab], valid until the next pass, or NULL if the pass left
 *          only its best token (mc_session_best). NULL: neither is wanted.
 *  errors  those of mica_eval; MICA_ENOMEM. The session is empty then. */
mica_status mc_session_feed(mc_session *session, const int32_t *ids, int64_t n,
                            const float **logits);

/* The logits that mc_session_feed gave last; the caller may change them. NULL: the pass left the
 * best token, or the largest logits. */
float *mc_session_logits(mc_session *session);

/* Whether passes leave the largest logits: a vocabulary of few tokens is read as it is. */
bool mc_session_wants_largest(const mc_session *session);

/* The largest logits of the row after the token fed last; NULL: the pass left none. */
const mc_largest *mc_session_largest(const mc_session *session);

/* Reads that row from the device, before the next pass: *logits receives [vocab], which the caller
 * may change.
 *  errors  MICA_ENOMEM; MICA_EDEVICE; MICA_EINVAL the row is gone. The session is empty then */
mica_status mc_session_read_row(mc_session *session, float **logits);

/* The best token after the token fed last; NULL: there are logits. */
const mc_best *mc_session_best(const mc_session *session);

/* Computes n tokens ahead in one pass, 1 <= n <= MC_MAX_AHEAD. Tokens ahead before are dropped.
 *  errors  as mc_session_feed */
mica_status mc_session_look_ahead(mc_session *session, const int32_t *ids, int64_t n);

/* Makes room for n tokens that the caller is about to compute. errors  MICA_ENOMEM; the session is
 * as before */
mica_status mc_session_reserve_ahead(mc_session *session, int64_t n);

/* Says that the caller has computed n tokens behind the history, for which there is room. Their
 * logits are in session->logits; or has_best is set and their best tokens are in session->best; or
 * has_largest is set and session->tops and rows have them. */
void mc_session_set_ahead(mc_session *session, const int32_t *ids, int64_t n);

/* Makes room for the next n tokens, which the caller is about to compute in a pass of several rows.
 *  errors  those of mc_session_settle; MICA_ENOMEM. The session is empty then */
mica_status mc_session_reserve(mc_session *session, int64_t n);

/* Makes room for n tokens in place of that for fewer, if the pool has blocks for them. errors
 * MICA_ENOMEM: the room is as before, or more */
mica_status mc_session_reserve_more(mc_session *session, int64_t n);

/* Says that n more tokens will come than mc_session_reuse knew: room is made for all at once. */
void mc_session_expect(mc_session *session, int64_t n);

/* Its number and what passes leave, as a lead tells it. */
enum { MC_SESSION_GREEDY = 1, MC_SESSION_LARGEST = 2, MC_SESSION_FLAGS = 4 };
int64_t mc_session_told(const mc_session *session);

/* Notes how states are after `total` tokens, the last of which may not be counted, that can only go
 * back to where that was noted: a step may be computed in vain behind them. Drops what nobody needs
 * of the last one.
 *  errors  MICA_ENOMEM: it was not noted */
mica_status mc_session_note(mc_session *session, int64_t total);

/* For who looks at the caches: drops the follower, if there is one, and the tokens ahead; where
 * states have seen these and cannot go back, computes the history again from where they can.
 *  errors  those of passes; the session is empty then */
mica_status mc_session_settle(mc_session *session);

/* mc_session_is_ahead: whether any token is ahead. mc_session_knows: whether `id` is the next one
 * ahead, so that feeding it computes nothing. */
bool mc_session_is_ahead(const mc_session *session);
bool mc_session_knows(const mc_session *session, int32_t id);

/* mc_session_feed with more results.
 *
 *  results  those of mc_pass_compute, evaluated and valid until the next pass */
mica_status mc_session_pass(mc_session *session, const int32_t *ids, int64_t n,
                            const mc_session_wish *wish, mica_array *results);

#endif

/* A stream: one answer of a session, token by token. mica/model.h says what callers may rely on.
 *
 * Threads: one at a time; mc_stream_cancel from any thread and from a signal handler. */
#ifndef SESSION_STREAM_H
#define SESSION_STREAM_H

#include "session/answer.h"
#include "session/constraint.h"
#include "session/mask_worker.h"
#include "session/sampler.h"
#include "session/session.h"

typedef struct mc_stream mc_stream;

/* Prepares an answer to ids[n]; nothing is computed yet. Copies what it needs of ids and options.
 *
 *  options  NULL: the defaults. The constraint is not read: mc_stream_constrain is there.
 *  errors   MICA_EINVAL no ids, one past the vocabulary, an option out of range; MICA_ECONTEXT;
 *           MICA_ENOMEM */
mica_status mc_stream_open(mc_session *session, const int32_t *ids, size_t n,
                           const mica_generate_options *options, mc_stream **stream);
void mc_stream_close(mc_stream **stream); /* takes NULL */

/* Constrains the answer, before its first token. Where the constraint lets the answer end, the
 * stop ids may be drawn, and nowhere else; where nothing else may come, the answer ends without
 * one, also below min_tokens. Log-probabilities stay those of the unchanged logits.
 *
 *  constraint  taken over, also with an error.
 *  worker      computes masks ahead, where mc_stream_mask_ahead asks for it. NULL: nobody does.
 *              Borrowed
 *  errors      MICA_EINVAL the answer has begun, or has a constraint; MICA_ENOMEM */
mica_status mc_stream_constrain(mc_stream *stream, mc_constraint *constraint,
                                mc_mask_worker *worker);

/* Says, between two tokens, that what the next one is drawn from will be computed now: the worker
 * computes its mask meanwhile. Changes no bit. */
void mc_stream_mask_ahead(mc_stream *stream);

bool mc_stream_next(mc_stream *stream, mica_token *token);

/* Computes some of the prompt before the first mc_stream_next, which computes what is left of it.
 * The first call goes back to what the session has of the prompt. The size of the parts changes no
 * bit. Does nothing once it is read.
 *
 *  max     tokens, 0 or more; the session's chunk is another limit
 *  left    receives how many tokens are not computed yet
 *  errors  MICA_ECANCELLED; MICA_EINVAL the session was reset meanwhile; those of mc_session_feed.
 *          The stream must be closed then */
mica_status mc_stream_read(mc_stream *stream, int64_t max, int64_t *left);

/* Resets the session, which others may need the memory of, in the middle of an answer: the prompt
 * and what was drawn are read again, by mc_stream_read and mc_stream_next, before the answer goes
 * on; or they come back from a copy (mc_session_swap_out). That changes no bit. false: its text is
 * not known any more, for the context slides. */
bool mc_stream_pause(mc_stream *stream);

/* Says, between two tokens, whether others compute tokens of the stream, with those of others
 * (mc_stream_pending): no pass of its own runs ahead then. At first nobody does. */
void mc_stream_share(mc_stream *stream, bool shared);

/* Whether the next mc_stream_next begins by computing one more token in the session. *id receives
 * that token. */
bool mc_stream_pending(const mc_stream *stream, int32_t *id);

/* Whether the token after that one is likely to be computed next, and the device can tell it:
 * another pass may follow over it before it is read. */
bool mc_stream_goes_on(const mc_stream *stream);

/* Says, before that token is computed, what the next one is drawn by: sets session->draw to `draw`,
 * or to NULL. The caller clears it again. */
void mc_stream_plan_draw(mc_stream *stream, mc_device_draw *draw);

/* Guesses, where mc_stream_pending is true, the tokens after that one, for who computes them with
 * it (mc_session_set_ahead): the answer gets no other bit by that.
 *  max, rows  as in mc_draft_make; the stream's draft_tokens is another limit
 *  ids        [max] receives the guesses
 *  returns    how many there are; they count as computed */
int64_t mc_stream_guess(mc_stream *stream, int64_t max, int64_t rows, int32_t *ids);

mica_finish mc_stream_finish(const mc_stream *stream);
mica_status mc_stream_status(const mc_stream *stream);
void mc_stream_cancel(mc_stream *stream);
mica_metrics mc_stream_metrics(const mc_stream *stream);

#endif

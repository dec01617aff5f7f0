/* A model's pass over tokens, recorded like any other op: for gradients, losses, samplers and loops
 * of one's own.
 *
 *     mica_scope *s = NULL;
 *     mica_scope_open(mica_model_device(model), &s);
 *     mica_array ids = mica_from_data(s, tokens, MICA_I32, (int64_t[]){1, n}, 2);
 *     mica_array logits = mica_model_forward(s, model, ids, NULL);       // [1, n, vocab]
 *     mica_array loss = mica_mean(s, mica_cross_entropy(s, logits, targets), NULL, 0, false);
 *     mica_status status = mica_eval(s, loss);
 *
 * A pass has the bits of the model's answers and scores, whatever is beside it in the batch. It is
 * recorded in the caller's scope, and so becomes a part of programs (mica/program.h), compiled
 * functions and gradients (mica/grad.h). A model's weights are constants: gradients go to
 * embeddings (mica_model_embed), and through mica_tuner_forward (mica/tune.h) to what of a model is
 * trained.
 *
 * A recorded pass has no states: its tokens attend to one another, or to keys and values that the
 * caller keeps (mica_kv_store). mica_session_feed computes tokens behind those that a session has
 * in its caches, and leaves them there: a session is the states of a model, which can be opened,
 * counted, cut, forked, saved and loaded (mica/model.h).
 *
 * Threads: those of the scope, or of the session. Any number of threads may record passes over one
 * model, each in a scope of its own. */
#ifndef MICA_FORWARD_H
#define MICA_FORWARD_H

#include <mica/array.h>
#include <mica/model.h>

#include <stdbool.h>
#include <stddef.h>

MICA_BEGIN

/** What a chunk attends to in a layer. */
typedef struct mica_kv {
    mica_array k;    /* [B, kv_heads, N, width], in the order of positions: the chunk's own are the
                        last of them */
    mica_array v;    /* as k */
    mica_array mask; /* bool [B, 1, L, N]: what a token sees of these, none behind itself, nor
                        before its layer's window, in any case; MICA_NONE: all others */
} mica_kv;

/** A cache of one's own: keys and values that passes leave to the caller. */
typedef struct mica_kv_store {
    /** Called once for each layer that has keys, in their order, while the pass is recorded.
     *
     *  k, v  [B, kv_heads, L, width]: of the chunk, RoPE applied, in the dtype of the model's
     *        caches (mica_cache_type; of int8 rows of mica_to_q8). Arrays of s, without values yet.
     *  seen  receives what the chunk attends to, such as the keys of earlier chunks and k behind
     *        them: arrays of s, or evaluated ones of other scopes. It is zeros.
     *  returns  MICA_OK; else s keeps the error */
    mica_status (*update)(void *user, mica_scope *s, int64_t layer, mica_array k, mica_array v,
                          mica_kv *seen);
    void *user; /* given to update */
} mica_kv_store;

/** Options of a pass; zero means the default. */
typedef struct mica_forward_options {
    size_t struct_bytes; /* see mica/api.h */
    bool hidden;         /* the input of the head, behind the last norm, instead of logits */
    mica_array position; /* i32 [], or [B]: position in the text of each row's first token;
                            MICA_NONE: 0 */
    mica_array mask;     /* bool [B, 1, L, L]: whether the token of the third axis sees that of the
                            fourth. It sees none behind itself, nor before its layer's window, in
                            any case; MICA_NONE: all others */
    mica_array at;       /* i32 [n], 0 to L - 1: the tokens for which results are wanted, in this
                            order; MICA_NONE: all */
    const mica_kv_store *store; /* keys and values that the tokens attend to beside their own, which
                                   begin at `position`; without a mask. NULL: none. Borrowed until
                                   the pass is recorded */
} mica_forward_options;

/** Records a pass of a model over B rows of L tokens.
 *
 *  model    must be open until what is recorded was evaluated.
 *  ids      integer [B, L], each below the model's vocab_size; or embeddings f32 [B, L, hidden], as
 *           mica_model_embed gives them. The scope is one of the model's device.
 *  options  NULL for the defaults. Borrowed.
 *  returns  logits [B, L, vocab] f32: of the token that comes next, before sampling; with `at`
 *           [B, n, vocab]; with `hidden` [..., hidden_size]. An invalid array after an error, which
 *           s keeps.
 *  errors   MICA_EINVAL the model is NULL, an option is out of range, the scope is of another
 *           device; MICA_EUNSUPPORTED the model's engine computes elsewhere, or with a store
 *           or a mask, a layer carries more than keys and values; MICA_ESHAPE, MICA_EDTYPE ids or
 *           an array of the options, or of the store; those of the store; an id below 0 or past the
 *           vocabulary, and a number of `at` out of range, are errors of mica_eval, MICA_EINVAL;
 *           MICA_ENOMEM
 *  grad     embeddings. That of matmuls whose activations are rounded (mica_arithmetic) is that of
 *           the matmuls without rounding. */
MICA_API mica_array mica_model_forward(mica_scope *s, const mica_model *model, mica_array ids,
                                       const mica_forward_options *options);

/** Records the embeddings of tokens: rows of the model's table, times the factor that its family
 *  has.
 *
 *  ids      integer [B, L]. Borrowed.
 *  returns  [B, L, hidden_size] f32, for mica_model_forward, perhaps with others put between.
 *  errors   those of mica_model_forward */
MICA_API mica_array mica_model_embed(mica_scope *s, const mica_model *model, mica_array ids);

/** Records the head: logits of hidden states.
 *
 *  hidden   f32 [..., hidden_size], of mica_model_forward with options.hidden.
 *  returns  [..., vocab] f32.
 *  errors   those of mica_model_forward
 *  grad     hidden */
MICA_API mica_array mica_model_head(mica_scope *s, const mica_model *model, mica_array hidden);

/** Computes tokens behind those of a session, and adds them to it: for samplers and loops of one's
 *  own. A stream that has begun on the session cannot go on; one that begins later finds the
 *  tokens in the caches.
 *
 *  s        receives the result. A scope of the model's device.
 *  ids      [n]. Borrowed.
 *  options  `at` and `hidden` are as of mica_model_forward; position, mask and store must not be
 *           set, for the session has them. NULL for the defaults. Borrowed.
 *  results  receives an evaluated array of s: logits [1, n, vocab] f32 of the tokens that come
 *           next, with `at` [1, n_at, vocab], with `hidden` [.., .., hidden_size]; MICA_NONE after
 *           an error. They have the bits of the session's answers. NULL: none are wanted.
 *  errors   MICA_EINVAL a NULL argument, an id or a number of `at` out of range, the scope is of
 *           another device, or an option is not for sessions; MICA_ECONTEXT the context has no room
 *           for the tokens; MICA_EUNSUPPORTED the engine computes elsewhere; those of mica_eval,
 *           behind which the session may be empty; MICA_ENOMEM */
MICA_API mica_status mica_session_feed(mica_session *session, mica_scope *s, const int32_t *ids,
                                       size_t n, const mica_forward_options *options,
                                       mica_array *results);

/** The number of tokens that a session has computed: of prompts, answers, and those fed. 0 for NULL
 *  and where the engine computes elsewhere. */
MICA_API int64_t mica_session_count(const mica_session *session);

/** Goes back to a session's first `count` tokens, or as far below that as its states can: layers
 *  with windows cannot go back to what they have dropped. What is missing is fed again.
 *
 *  left    receives the number of tokens that are left; may be NULL.
 *  errors  MICA_EINVAL a count below 0 or above mica_session_count; MICA_EUNSUPPORTED the engine
 *          computes elsewhere; MICA_ENOMEM */
MICA_API mica_status mica_session_cut(mica_session *session, int64_t count, int64_t *left);

MICA_END

#endif

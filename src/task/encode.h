/* Encoders and embedders: texts of one pass, side by side, each a row that is padded to the
 * longest. Texts are sorted by length, so that little is padded. What a text becomes does not
 * depend on the others. Threads: any, each with arguments of its own. */
#ifndef TASK_ENCODE_H
#define TASK_ENCODE_H

#include "session/session.h"

#include <mica/tasks.h>

/* A text as the model reads it. */
typedef struct mc_encode_text {
    const int32_t *ids;   /* [n]. Borrowed */
    const int32_t *types; /* [n]; NULL: all are 0. Borrowed */
    size_t n;
    size_t skip; /* the first tokens, which are not pooled */
} mc_encode_text;

/* Whether a model's vectors are made here: it is an encoder, or its folder has the files of
 * sentence-transformers. */
bool mc_encodes(const mc_lm *lm);

/* The numbers of a vector. */
int64_t mc_encode_width(const mc_lm *lm);

/* The same of an open model; where its engine computes elsewhere, its hidden size. */
int64_t mc_encode_model_width(const mica_model *model);

/* Whether a text can be encoded.
 * errors  MICA_EINVAL no ids, one past the vocabulary, or a type that the model does not have;
 *         MICA_ECONTEXT */
mica_status mc_encode_check(const mc_session_model *model, const mc_encode_text *text);

/* Scales a vector to a Euclidean length of 1; zeros stay zeros. */
void mc_vector_normalise(float *vector, size_t n);

/* Keeps options->dimensions numbers of a vector of mc_encode_width, in place: one that was
 * normalised, by the options or the model's files, is normalised anew. vector may be NULL.
 * returns  how many are left */
size_t mc_vector_shorten(const mc_lm *lm, const mica_embed_options *options, float *vector);

/* errors  MICA_EINVAL no such pooling */
mica_status mc_pooling_check(mica_pooling pooling);

/* The hidden states of one text after the last norm: f32 [n, hidden]. */
mica_status mc_encode_states(const mc_session_model *model, const mc_encode_text *text,
                             float *states);

/* Called when the vector of a text is made, or its error is the thread's last one. */
typedef void (*mc_encode_end)(void *user, size_t text, mica_status status);

/* The vectors of texts: f32 [count, width], pooled and projected as the model's files say.
 *  options  another pooling than the default goes before the files' own; progress counts texts
 *  end      may be NULL: then the first failure of a text is that of all
 *  errors   MICA_EINVAL, MICA_ECONTEXT, MICA_ECANCELLED, MICA_ENOMEM; those of mica_eval */
mica_status mc_encode_vectors(const mc_session_model *model, const mc_encode_text *texts,
                              size_t count, const mica_embed_options *options, float *vectors,
                              mc_encode_end end, void *user);

/* The logits of pairs by a cross-encoder of one label, or their scores: f32 [count].
 *  options  progress counts pairs */
mica_status mc_encode_scores(const mc_session_model *model, const mc_encode_text *texts,
                             size_t count, bool logits, const mica_task_options *options,
                             float *scores);

#endif

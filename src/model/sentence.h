/* What stands behind an encoder: the modules of sentence-transformers, which make a vector of the
 * hidden states of a text, and the head of a cross-encoder, which makes a score of those of a pair.
 *
 * Sources: Reimers & Gurevych 2019 (arXiv:1908.10084); the behaviour of sentence-transformers 5 and
 * transformers 5. Immutable once loaded. */
#ifndef MODEL_SENTENCE_H
#define MODEL_SENTENCE_H

#include "io/config.h"
#include "io/safetensors.h"
#include "model/linear.h"

typedef enum mc_sentence_pooling {
    MC_SENTENCE_MEAN,
    MC_SENTENCE_CLS,
    MC_SENTENCE_LAST,
    MC_SENTENCE_MAX,
    MC_SENTENCE_MEAN_SQRT, /* the sum over the root of the number of tokens */
    MC_SENTENCE_WEIGHTED   /* the mean, token i weighing i + 1 */
} mc_sentence_pooling;

typedef enum mc_sentence_activation {
    MC_SENTENCE_IDENTITY,
    MC_SENTENCE_TANH,
    MC_SENTENCE_GELU,
    MC_SENTENCE_SILU,
    MC_SENTENCE_RELU
} mc_sentence_activation;

typedef struct mc_sentence_dense {
    mc_linear linear;
    mc_sentence_activation activation;
    bool normalise;      /* what it reads is normalised */
    mc_weights *weights; /* of its own folder */
} mc_sentence_dense;

#define MC_SENTENCE_DENSE 8

typedef struct mc_sentence {
    mc_sentence_pooling pooling;
    bool skip_prompt; /* the prompt's tokens are not pooled */
    bool normalise;
    int64_t max_tokens; /* longer texts are cut, special tokens included; 0: none is */
    mc_sentence_dense dense[MC_SENTENCE_DENSE];
    size_t n_dense;
    mc_config *settings; /* config_sentence_transformers.json; NULL: there is none */
    bool answers;        /* a language model ranks by these tokens */
    int64_t yes, no;
    mica_status status; /* why the files make no vectors; MICA_OK: they do */
    char *error;        /* its text */
} mc_sentence;

/* errors  sentence->status: its files cannot be followed */
mica_status mc_sentence_check(const mc_sentence *sentence);

/* The head of a cross-encoder: out(norm(activation(dense x))), x being the first token's state, or
 * the mean of all. */
typedef struct mc_ranker {
    mc_linear dense, out;
    mica_array norm, norm_bias; /* [hidden] f32; MICA_NONE: there is none */
    mc_sentence_activation activation;
    double norm_eps;
    bool mean;
    bool sigmoid; /* scores are the logits' sigmoid */
} mc_ranker;

/* How files call the parts of such a head. */
typedef struct mc_ranker_names {
    const char *dense, *norm, *out; /* norm NULL: there is none */
    bool inner;                     /* the decoder's prefix is before `dense` */
    bool outs;                      /* `out` alone tells that it is this one */
} mc_ranker_names;

/* The i-th way; NULL past the end. A model has the first of which it has `out`, and, unless that
 * tells, `dense`. */
const mc_ranker_names *mc_ranker_names_at(size_t i);

/* Vectors [B, hidden] f32, pooled, through the dense modules. */
mica_array mc_sentence_project(mica_scope *s, const mc_sentence *sentence, mica_array x);

/* Pooled states [B, hidden] f32 -> logits [B, labels]. */
mica_array mc_ranker_apply(mica_scope *s, const mc_ranker *ranker, mica_array x);

/* The text that is put before texts: that of a name; "" for none; without a ptr:
 * default_prompt_name's.
 * errors  MICA_EINVAL the model has no prompt of that name (the text lists those that it has) */
mica_status mc_sentence_prompt(const mc_sentence *sentence, mc_str name, mc_str *prompt);

/* The numbers of a vector, for hidden states of `hidden`. */
int64_t mc_sentence_width(const mc_sentence *sentence, int64_t hidden);

void mc_sentence_close(mc_sentence **sentence); /* takes NULL */

#endif

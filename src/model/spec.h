/* A decoder as data: what a family's file says of a model, and all that the shared decoder knows.
 *
 * The topology is the one that Llama, Qwen and Gemma share: an embedding; layers of attention and a
 * gated MLP; a norm; a head. Attention and MLP each have a norm before them and a residual
 * connection. Where families differ, the difference is a number or a name in the spec. All norms
 * are RMS norms. */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

/* Limits of a config: larger than any model's, and small enough that the product of two fits
 * int64. */
#define MC_MAX_LAYERS 1024
#define MC_MAX_WIDTH (1 << 24) /* of hidden, intermediate, vocabulary, heads, head_dim */

typedef enum mc_activation { MC_SILU, MC_GELU, MC_GELU_APPROX } mc_activation;

/* How RoPE rotates queries and keys. */
typedef struct mc_rope_spec {
    double base;
    double factor; /* positions are divided by it; 1: none */
    /* Llama 3: only low frequencies are divided by factor, middle ones are blended. */
    bool llama3;
    double low_freq_factor, high_freq_factor;
    double original_context; /* in tokens */
} mc_rope_spec;

typedef struct mc_layer_spec {
    int64_t window; /* tokens that a query attends to, itself included; 0: all up to itself */
    int rope;       /* index into mc_decoder_spec.ropes */
} mc_layer_spec;

/* Names of tensors, without ".weight". `embed` and `norm` follow the decoder's prefix, the others
 * their layer's. A norm whose name is NULL is absent. */
typedef struct mc_decoder_names {
    const char *embed, *norm, *head;
    const char *q, *k, *v, *o;
    const char *q_norm, *k_norm; /* over head_dim, before RoPE */
    const char *gate, *up, *down;
    /* before the block; after it, before it is added */
    const char *attention_norm, *attention_post_norm;
    const char *mlp_norm, *mlp_post_norm;
} mc_decoder_names;

typedef enum mc_tied { MC_TIED_UNSAID, MC_TIED_YES, MC_TIED_NO } mc_tied;

typedef struct mc_decoder_spec {
    const char *family; /* "gemma3" */
    const char *chat;   /* built-in chat format: "gemma" */
    int64_t hidden, intermediate, heads, kv_heads, head_dim;
    int64_t query_rows; /* of the files' first q_proj; 0: not known */
    int64_t vocab;      /* 0: the number of the embedding's rows */
    int64_t context;    /* positions that the model was trained for */
    int n_layers;
    mc_layer_spec layers[MC_MAX_LAYERS];
    mc_rope_spec ropes[2];
    mc_activation activation;
    double norm_eps;
    double norm_offset;       /* added to norm weights on loading: Gemma's 1 + w */
    double embed_scale;       /* factor of embeddings */
    double attention_scale;   /* factor of q k^T */
    double attention_softcap; /* of the scores; 0: none */
    double final_softcap;     /* of the logits; 0: none */
    bool qkv_bias, o_bias, mlp_bias;
    /* Whether the head is the embedding. Unsaid: it is if the files hold no head. A head in the
     * files that differs from the embedding wins over yes. */
    mc_tied tied;
    mc_decoder_names names;
} mc_decoder_spec;

#endif

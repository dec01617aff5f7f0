/* A decoder as data: what a family's file says of a model, and all that the shared decoder knows.
 *
 * A decoder is an embedding, layers, a norm, a head. A layer is a list of blocks, which are kept
 * once for all layers that have the same. */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include "base/str.h"
#include "model/block.h"
#include "model/rope.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits of a config: larger than any model's, and small enough that the product of two fits
 * int64. */
#define MC_MAX_LAYERS 1024
#define MC_MAX_WIDTH (1 << 24) /* of hidden, intermediate, vocabulary, heads, head_dim */
#define MC_MAX_EXPERTS (1 << 14)
#define MC_MAX_BLOCKS 64 /* that differ */
#define MC_LAYER_BLOCKS 4
#define MC_MAX_ROPES 8
#define MC_MAX_STREAMS 8
#define MC_MAX_SOURCES 8 /* layers whose keys and values later ones read */

/* Indices into mc_decoder_spec.blocks, in the order of a pass. */
typedef struct mc_layer_spec {
    uint8_t count, blocks[MC_LAYER_BLOCKS];
    uint8_t source; /* 1 + index into mc_decoder_spec.sources: mc_spec_share; 0: none */
} mc_layer_spec;

/* Names of tensors outside the layers, without ".weight". All but `head` follow the decoder's
 * prefix. NULL: there is none; of `layers`, which is in front of a layer's number: "layers". */
typedef struct mc_decoder_names {
    const char *embed, *norm, *head, *layers;
    const char *embed_norm, *positions, *types; /* of encoders: what is added to embeddings */
    /* Of a model with layer_width: the table of layers' inputs, the matrix that makes the rest of
     * them from embeddings, and that one's norm. */
    const char *layer_embed, *layer_projection, *layer_norm;
    /* Of a model with streams: what makes the others of the first, and brings them back; behind
     * these is a number from 0. */
    const char *streams, *unstreams;
} mc_decoder_names;

typedef enum mc_tied { MC_TIED_UNSAID, MC_TIED_YES, MC_TIED_NO } mc_tied;

typedef struct mc_decoder_spec {
    const char *family; /* "gemma3" */
    const char *chat;   /* built-in chat format: "gemma" */
    int64_t hidden;
    /* What the config says of most blocks. */
    int64_t intermediate, heads, kv_heads, head_dim;
    int64_t query_rows; /* of the files' first q_proj; 0: not known */
    bool converted;     /* the files have mlx-lm's layout, by the kernels of their convolutions */
    int64_t vocab;      /* 0: the number of the embedding's rows */
    int64_t context;    /* positions that the model was trained for */
    /* Those that it has when its RoPE takes the divisors for long texts (mc_lm_stretch); 0: no
     * others. */
    int64_t long_context;
    int n_layers, n_blocks;
    int64_t
        layers_ahead; /* layers behind the last, of files: they guess tokens, and are left out */
    mc_layer_spec layers[MC_MAX_LAYERS];
    mc_block_spec blocks[MC_MAX_BLOCKS];
    mc_rope_spec ropes[MC_MAX_ROPES];
    int n_sources, sources[MC_MAX_SOURCES]; /* layers */
    double norm_eps;    /* of the last norm, and of blocks unless they say another */
    double norm_offset; /* the same; added to norm weights on loading: Gemma's 1 + w */
    bool both_ways;     /* an encoder: tokens attend to those behind them, too */
    bool centred;       /* norms outside the layers are LayerNorms, */
    bool norm_bias;     /* with biases */
    int64_t positions, first_position; /* learned positions, and that of the first token */
    int64_t types;                     /* of tokens: rows of names.types */
    int64_t layer_width, layer_rows; /* of a token's input to each layer, and its table; 0: none */
    int64_t streams;      /* residual streams, of MC_MAX_STREAMS: block_altup.c; 0: one */
    double embed_scale;   /* factor of embeddings */
    double logit_scale;   /* factor of the logits; 0: none */
    double final_softcap; /* of them then; 0: none */
    /* Whether the head is the embedding. Unsaid: it is if the files hold no head. A head in the
     * files that differs from the embedding wins over yes. */
    mc_tied tied;
    mc_decoder_names names;
} mc_decoder_spec;

/* Adds a block of a kind: with the kind's usual names but for what is optional, with the spec's
 * width and norms, no biases, and a factor of 1. Its numbers are 0. Returns its index, which is
 * below MC_MAX_BLOCKS: a family adds fewer. */
int mc_spec_add(mc_decoder_spec *spec, const mc_block *kind);

/* Adds a copy of a block. Returns its index. */
int mc_spec_copy(mc_decoder_spec *spec, int block);

/* Appends a block to a layer, of MC_LAYER_BLOCKS. */
void mc_spec_append(mc_decoder_spec *spec, int layer, int block);

/* The i-th block of a layer; NULL past the end. */
const mc_block_spec *mc_spec_block(const mc_decoder_spec *spec, int layer, int i);

/* What is in front of a layer's number: "layers". */
const char *mc_spec_layers(const mc_decoder_spec *spec);

/* A slot of a decoder. */
typedef struct mc_spec_slot {
    int layer, block; /* block: its number in the layer */
    const mc_block_spec *spec;
    int slot;
} mc_spec_slot;

/* The layer of "layers.7.mlp.up_proj", and what follows its number and a dot; -1: it is another
 * name. */
int mc_spec_layer(const mc_decoder_spec *spec, mc_str module, mc_str *rest);

/* What a module is, by its name behind the decoder's prefix: "layers.7.mlp.up_proj". false: it is
 * nothing in a layer. */
bool mc_spec_find(const mc_decoder_spec *spec, mc_str module, mc_spec_slot *found);

/* The block of a layer that carries arrays; NULL: none does. */
const mc_block_spec *mc_spec_carrier(const mc_decoder_spec *spec, int layer);

/* Lets a layer's attention read the keys and values of an earlier layer that has its own: its block
 * has no slots for them, and the window and the shape of that layer's. Of MC_MAX_SOURCES. */
void mc_spec_share(mc_decoder_spec *spec, int layer, int from);

/* The layer whose keys and values a layer reads: itself, unless it shares another's. */
int mc_spec_source(const mc_decoder_spec *spec, int layer);

/* Where mc_decoder_spec.sources has a layer; -1: nobody shares what it has. */
int mc_spec_shared(const mc_decoder_spec *spec, int layer);

/* The numbers of a layer's attention, the first block with keys and values; all 0: it has none. */
const mc_attention_spec *mc_spec_attention(const mc_decoder_spec *spec, int layer);

#endif

/* A family whose layers differ in the number and the width of their heads of keys, with and without
 * a sliding window, and of which the last two may share the keys and values of the two before. */
#ifndef MODEL_OWN_HEADS_H
#define MODEL_OWN_HEADS_H

#include "model/own_family.h"

extern const mc_family own_heads;

enum { OWN_HEADS_LAYERS = 7 };

/* share: "true" or "false". */
#define OWN_HEADS_CONFIG(share)                                                              \
    "{\"model_type\": \"own_heads\", \"share\": " share                                      \
    ", \"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 7, "           \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "             \
    "\"vocab_size\": 448, \"tie_word_embeddings\": true, \"max_position_embeddings\": 512, " \
    "\"rms_norm_eps\": 1e-6}"

#endif

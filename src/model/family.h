/* Model families: telling which one a folder holds, and reading its config.
 *
 * A family is one row of family_list.h and one file: from config.json to a mc_decoder_spec. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "base/status.h"
#include "io/config.h"
#include "io/safetensors.h"
#include "model/spec.h"

#include <stddef.h>

typedef struct mc_family {
    const char *name;
    const char *const *model_types;   /* of config.json; all three lists end with NULL */
    const char *const *architectures; /* of config.json, where it has no model_type */
    const char *const *tensors; /* of layer 0, where it has neither: all of them must be there */
    const char *chat;           /* its built-in chat format, a row of text/chat.h */

    /* Fills what is zero in spec; spec->family is set.
     * errors  those of the config readers; MICA_EUNSUPPORTED */
    mica_status (*read)(const mc_config_scope *root, mc_decoder_spec *spec);
} mc_family;

#define FAMILY(name) extern const mc_family mc_family_##name;
#include "model/family_list.h"

/* The prefix of the decoder's tensors, such as "language_model.model.": static storage, NULL where
 * none of those known has an embedding. */
const char *mc_family_prefix(const mc_weights *weights);

/* The i-th family, NULL past the end. */
const mc_family *mc_family_at(size_t i);

/* Finds the family by model_type, else by architectures, else by the tensors that are there.
 * errors  MICA_EUNSUPPORTED naming what was found and the families there are; MICA_EFORMAT */
mica_status mc_family_find(const mc_config_scope *root, const mc_weights *weights,
                           const mc_family **family);

/* ---- for the families' files ---- */

/* The object that holds the decoder's keys: text_config where it is there, else the root. */
mica_status mc_family_text(const mc_config_scope *root, mc_config_scope *text);

/* Reads the keys that all families share where they are there: hidden_size, intermediate_size,
 * num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, vocab_size (text, else
 * root), max_position_embeddings, rms_norm_eps, tie_word_embeddings (text, else root). Values that
 * are in spec before are the defaults. */
mica_status mc_family_sizes(const mc_config_scope *root, const mc_config_scope *text,
                            mc_decoder_spec *spec);

/* hidden_activation, else hidden_act: "gelu_pytorch_tanh", "gelu_new" (the same), "gelu",
 * "silu". */
mica_status mc_family_activation(const mc_config_scope *text, mc_decoder_spec *spec);

/* An object that describes a rope: rope_type (or type), factor, rope_theta and Llama 3's keys. What
 * it lacks keeps its value. errors  MICA_EUNSUPPORTED another rope_type */
mica_status mc_family_rope(const mc_config_scope *scope, mc_rope_spec *rope);

/* A rope that all layers share: rope_theta, rope_scaling, and version 5's rope_parameters. */
mica_status mc_family_ropes(const mc_config_scope *text, mc_rope_spec *rope);

/* attn_logit_softcapping and final_logit_softcapping; null is none. */
mica_status mc_family_softcaps(const mc_config_scope *text, mc_decoder_spec *spec);

/* Everything that Llama and Qwen share: sizes, silu, one rope, two norms a layer, the names. */
mica_status mc_family_plain(const mc_config_scope *root, mc_decoder_spec *spec);

/* What Gemma 2 and 3 share before a config is read: the sizes that transformers assumes, norms with
 * 1 + w before and after attention and MLP, the names. */
void mc_family_gemma_defaults(mc_decoder_spec *spec);

/* Qwen's windows: none but where use_sliding_window says so and sliding_window is not null, then on
 * the layers of layer_types, or on those from max_window_layers on. */
mica_status mc_family_late_windows(const mc_config_scope *text, mc_decoder_spec *spec);

/* The windows of the layers: `window` on those that layer_types calls sliding_attention; where
 * there is no layer_types, on those whose number, counted from 1, is no multiple of `pattern`. */
mica_status mc_family_windows(const mc_config_scope *text, int64_t window, int64_t pattern,
                              mc_decoder_spec *spec);

#endif

/* Model families: finds the family of a folder's model, and reads its config.
 *
 * A family is one row of family_list.h and one file, which turns config.json into a
 * mc_decoder_spec. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "base/status.h"
#include "io/config.h"
#include "io/safetensors.h"
#include "model/spec.h"

#include <stddef.h>

typedef struct mc_family {
    const char *name;
    const char *const *model_types;   /* values in config.json; all three lists end with NULL */
    const char *const *architectures; /* values in config.json, if it has no model_type */
    /* Names in layer 0, if config.json has neither: a model must have all of them. */
    const char *const *tensors;
    const char *chat; /* built-in chat format: a row of text/chat/chat.h; NULL: none */

    /* Fills the spec, which is zero but for family, chat and what mc_family_look sets.
     *  errors  those of the config readers; MICA_EUNSUPPORTED */
    mica_status (*read)(const mc_config_scope *root, mc_decoder_spec *spec);
} mc_family;

#define MC_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Defines the family `family`, with its other members by name. */
#define MC_FAMILY(family, READ, MODEL_TYPES, ARCHITECTURES, ...)          \
    const mc_family mc_family_##family = {.name = #family,                \
                                          .model_types = MODEL_TYPES,     \
                                          .architectures = ARCHITECTURES, \
                                          .read = READ,                   \
                                          __VA_ARGS__}

#define FAMILY(name) extern const mc_family mc_family_##name;
#include "model/family_list.h"

/* The prefix of the decoder's tensors, such as "language_model.model.". Static storage. NULL if the
 * embedding has none of the known prefixes. */
const char *mc_family_prefix(const mc_weights *weights);

/* The i-th prefix that decoders' tensors have; NULL past the end. */
const char *mc_family_prefix_at(size_t i);

/* A name behind the prefix of the decoder, which programs spell in several ways: of
 * "model.layers.0.mlp.up_proj.weight" it is "layers.0.mlp.up_proj.weight". */
mc_str mc_decoder_name(mc_str name);

/* Names of tensors outside the layers. spec NULL, a family that mica does not know: those of most
 * families. */
const mc_decoder_names *mc_family_names(const mc_decoder_spec *spec);

/* Sets what the files alone say: query_rows, converted. weights  NULL: none */
void mc_family_look(const mc_weights *weights, mc_decoder_spec *spec);

/* The i-th family, of the list and those that were added; NULL past the end. */
const mc_family *mc_family_at(size_t i);

/* Adds a family behind those of the list, which must outlive all use; at most MC_MORE_FAMILIES. For
 * programs of tests, before they open models. */
#define MC_MORE_FAMILIES 8
void mc_family_add(const mc_family *family);

/* Finds the family by model_type, else by architectures, else by the tensors present.
 *  errors  MICA_EUNSUPPORTED naming what was found and mc_family_nearest; MICA_EFORMAT */
mica_status mc_family_find(const mc_config_scope *root, const mc_weights *weights,
                           const mc_family **family);

/* Says which family a model of an unknown one, `wanted`, is nearest to, by its config, its tensors
 * and its name, and what differs; without weights, which families there are. */
void mc_family_nearest(const mc_config_scope *root, const mc_weights *weights, mc_str wanted,
                       char *text, size_t bytes);

/* Whether the files hold what a slot of a layer is called, with ".weight" or bare; of experts that
 * are tensors of their own, the first. */
bool mc_family_holds(const mc_weights *weights, const mc_decoder_spec *spec, int layer,
                     const char *slot, bool bare);

/* Gives blocks the names of the form that the files have. */
void mc_family_find_forms(const mc_weights *weights, mc_decoder_spec *spec);

/* Gives a block the names of a form. */
void mc_family_use_form(const mc_form *form, mc_block_spec *block);

/* Finds the family of a folder's model and reads its config. Blocks get the names of the form that
 * the files have. weights  NULL: the blocks' own names
 *  errors  those of mc_family_find and of the family */
mica_status mc_family_read(const mc_config_scope *root, const mc_weights *weights,
                           mc_decoder_spec *spec);

/* ---- helpers for the families' files ---- */

/* The object that holds the decoder's keys: text_config if present, else the root. */
mica_status mc_family_text(const mc_config_scope *root, mc_config_scope *text);

/* Reads the keys that all families share, if present: hidden_size, intermediate_size,
 * num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, vocab_size (text, else
 * root), max_position_embeddings, rms_norm_eps, tie_word_embeddings (text, else root). The values
 * in spec are the defaults; a head_dim that is absent is what query_rows say. */
mica_status mc_family_sizes(const mc_config_scope *root, const mc_config_scope *text,
                            mc_decoder_spec *spec);

/* The plain topology's blocks; MC_PLAIN_SLIDING, attention with a window, is there if some layers
 * have it. */
enum { MC_PLAIN_ATTENTION, MC_PLAIN_MLP, MC_PLAIN_SLIDING };

/* Gives all layers attention and a gated MLP of the spec's sizes, one RoPE, and scores scaled by
 * 1 / sqrt(head_dim). */
void mc_family_layers(mc_decoder_spec *spec);

/* Which matrices of the plain topology have biases. */
void mc_family_biases(mc_decoder_spec *spec, bool qkv, bool o, bool mlp);

/* hidden_activation, else hidden_act, of the plain MLP: "gelu_pytorch_tanh", "gelu_new" (the
 * same), "gelu", "silu". */
mica_status mc_family_activation(const mc_config_scope *text, mc_decoder_spec *spec);

/* Reads the RoPE of a kind of layers ("full_attention"), or of all (NULL): keys at the top,
 * rope_scaling, and rope_parameters of transformers 5, where each kind may have an object of its
 * own. Sizes are read before; absent keys keep their values. errors  those of mc_rope_read */
mica_status mc_family_rope(const mc_config_scope *text, const mc_decoder_spec *spec,
                           const char *layers, mc_rope_spec *rope);

/* The same where only an object of its own in rope_parameters is about it. */
mica_status mc_family_unscaled_rope(const mc_config_scope *text, const mc_decoder_spec *spec,
                                    const char *layers, mc_rope_spec *rope);

/* Reads attn_logit_softcapping and final_logit_softcapping; null means none. */
mica_status mc_family_softcaps(const mc_config_scope *text, mc_decoder_spec *spec);

/* Reads all that Llama and Qwen share: sizes, silu, one RoPE, two norms a layer, the tensors'
 * names. */
mica_status mc_family_plain(const mc_config_scope *root, mc_decoder_spec *spec);

/* Reads Granite's factors: of embeddings, of scores, of what blocks add, of logits. The layers are
 * there. */
mica_status mc_family_granite_factors(const mc_config_scope *root, mc_decoder_spec *spec);

/* Reads all that a Llama has. */
mica_status mc_family_llama_spec(const mc_config_scope *root, mc_decoder_spec *spec);

/* Reads all that dense Granites share: what Llama has, and factors of embeddings, of scores, of
 * what blocks add, of logits. */
mica_status mc_family_multiplied(const mc_config_scope *root, mc_decoder_spec *spec);

/* Sets what Gemma 2 and 3 share before a config is read: the sizes that transformers assumes, norms
 * with 1 + w. */
void mc_family_gemma_defaults(mc_decoder_spec *spec);

/* Reads what they share: sizes, activation, scale, biases; norms before and after attention and
 * MLP. */
mica_status mc_family_gemma(const mc_config_scope *root, const mc_config_scope *text,
                            mc_decoder_spec *spec);

/* Reads the RoPEs of Gemma 3 and 3n: rope_scaling is for the global layers only; rope_parameters of
 * transformers 5 have an object for each kind of layer. */
mica_status mc_family_gemma_ropes(const mc_config_scope *text, const mc_decoder_spec *spec,
                                  mc_rope_spec *global, mc_rope_spec *local);

/* Lets the last num_kv_shared_layers layers read the keys and values of the last one of their kind
 * that has its own; their MLP has twice the width then, if use_double_wide_mlp says so.
 *  count   num_kv_shared_layers, if it is absent
 *  kinds   [n_layers]: 0 or 1
 *  blocks  the attention of each kind
 *  mlp     the block behind it
 *  errors  MICA_EFORMAT there is none before them */
mica_status mc_family_share_keys(const mc_config_scope *text, int64_t count, const int *kinds,
                                 const int blocks[2], int mlp, mc_decoder_spec *spec);

/* Reads what tokens give to each layer, whose width is `least` or more; 0: nothing. */
mica_status mc_family_layer_width(const mc_config_scope *text, int64_t least, mc_decoder_spec *spec,
                                  mc_layer_input_spec *input);

/* The same, and appends its block to all, unless
 * hidden_size_per_layer_input is 0 or null. */
mica_status mc_family_layer_inputs(const mc_config_scope *text, mc_decoder_spec *spec);

/* Appends a new block to all layers. */
mc_block_spec *mc_family_append(mc_decoder_spec *spec, const mc_block *kind);

/* What layer_types, or the like, calls a kind of layer. */
typedef struct mc_layer_type {
    const char *name;
    int kind;
} mc_layer_type;

/* Reads a list of the kinds of all layers, by the names of `types`, which end with NULL. Configs
 * call linear_attention mamba, too, and full_attention attention; or there is a text with a letter
 * for each layer: M, * for full_attention, E for moe, - for mlp.
 *  kinds   [n_layers] receives them; without the key they are unchanged
 *  errors  MICA_EFORMAT another number of layers; MICA_EUNSUPPORTED another name */
mica_status mc_family_layer_types(const mc_config_scope *text, const char *key,
                                  const mc_layer_type *types, const mc_decoder_spec *spec,
                                  int *kinds);

/* Whether a list has an entry for each layer. errors  MICA_EFORMAT */
mica_status mc_family_check_count(const mc_config_scope *text, const char *key, size_t count,
                                  const mc_decoder_spec *spec);

/* Reads what LFM 2 and 3 share: plain attention with norms of queries and keys, and MLP, as they
 * call them. */
mica_status mc_family_lfm(const mc_config_scope *root, mc_decoder_spec *spec);

/* Adds a short convolution, of so many taps unless conv_L_cache says another number. */
mica_status mc_family_short_conv(const mc_config_scope *root, int64_t taps, mc_decoder_spec *spec,
                                 int *block);

/* Reads what Qwen 3.5 and Qwen 3 Next share, of blocks: attention and its RoPE, and the norms. */
mica_status mc_family_gated_qwen(const mc_config_scope *root, const mc_config_scope *text,
                                 mc_decoder_spec *spec);

/* Adds a gated delta net, which has no projections yet, and puts it into all layers but those that
 * have attention. */
mica_status mc_family_delta_net(const mc_config_scope *text, mc_decoder_spec *spec, int *block);

/* Names of a form whose experts are gated, in tensors of their own, or of one kind in one. */
#define MC_EXPERT_NAMES(prefix, gate, up, down)                               \
    {                                                                         \
        [MC_EXPERTS_GATE] = prefix "." gate, [MC_EXPERTS_UP] = prefix "." up, \
        [MC_EXPERTS_DOWN] = prefix "." down                                   \
    }

/* Keys for the number of experts, of those that a token has, and their width. */
typedef struct mc_expert_keys {
    const char *count, *picks, *width;
} mc_expert_keys;

/* Reads them; absent keys keep their values. errors  MICA_EFORMAT more are picked than there are */
mica_status mc_family_experts(const mc_config_scope *text, const mc_expert_keys *keys,
                              mc_block_spec *block);

/* Reads n_group and topk_group. errors  MICA_EFORMAT groups that do not divide the experts, or have
 * too few for those that are picked */
mica_status mc_family_expert_groups(const mc_config_scope *text, mc_experts_spec *experts);

/* Puts experts in the place of the MLP into every decoder_sparse_step-th layer, counted from 1, but
 * not into mlp_only_layers. */
mica_status mc_family_sparse_layers(const mc_config_scope *text, mc_decoder_spec *spec,
                                    int experts);

/* The same into all layers. */
void mc_family_all_sparse(mc_decoder_spec *spec, int experts);

/* Puts Granite's experts, as the files call them, in the place of the MLP into all layers.
 *  block  receives them; NULL: nobody asks */
mica_status mc_family_granite_experts(const mc_config_scope *root, mc_decoder_spec *spec,
                                      mc_block_spec **block);

/* Reads LFM2 without the adjustment of the MLP's width. */
mica_status mc_family_lfm2_layers(const mc_config_scope *root, mc_decoder_spec *spec);

/* Adds experts beside a shared one with a factor of its own; the files may have a form. */
mica_status mc_family_shared_experts(const mc_config_scope *text, int64_t count, int64_t picks,
                                     const mc_form *form, mc_decoder_spec *spec, int *block);

/* Reads Llama's topology with MLA in the place of attention; absent keys of it keep the defaults.
 * What RoPE rotates are pairs of neighbours, unless rope_interleave says no. */
mica_status mc_family_mla(const mc_config_scope *root, mc_mla_spec defaults, mc_decoder_spec *spec);

/* Puts experts beside a shared one, chosen by sigmoids, of groups, in the place of the MLP into all
 * layers but the first `dense`, or into those that the config says. */
mica_status mc_family_grouped_experts(const mc_config_scope *root, mc_experts_spec defaults,
                                      int64_t dense, mc_decoder_spec *spec);

/* The keys of Mamba-2's sizes in a config. head_dim  NULL: none is read */
typedef struct mc_mamba2_keys {
    const char *heads, *head_dim, *groups, *state, *taps, *kernel_bias, *bias;
} mc_mamba2_keys;

/* Adds a block of Mamba-2; its sizes without the keys are those of `m`. */
mica_status mc_family_mamba2(const mc_config_scope *text, const mc_mamba2_keys *keys,
                             mc_mamba2_spec m, mc_decoder_spec *spec, int *block);

/* Reads Qwen's sliding windows. There are none unless use_sliding_window is true and sliding_window
 * is not null. Then they are on the layers that layer_types names, or on the layers from
 * max_window_layers on. */
mica_status mc_family_late_windows(const mc_config_scope *text, mc_decoder_spec *spec);

/* Whether a key is null, which means none, though an absent key has a default. */
bool mc_family_is_null(const mc_config_scope *text, const char *key);

/* Whether it is a list: a number for each layer. */
bool mc_family_is_list(const mc_config_scope *text, const char *key);

/* Which layers layer_types calls sliding_attention: slides [n_layers], 1 or 0. Without layer_types
 * all but the layers `full`, full + pattern ... */
mica_status mc_family_sliding(const mc_config_scope *text, int64_t pattern, int64_t full,
                              const mc_decoder_spec *spec, int *slides);

/* Gives a layer the plain attention, as it is then, but for the window and the RoPE. */
void mc_family_vary(mc_decoder_spec *spec, int layer, int64_t window, int64_t rope);

/* Gives all layers the window that sliding_window says; null: none, absent: `window`. */
mica_status mc_family_window(const mc_config_scope *text, int64_t window, mc_decoder_spec *spec);

/* Gives layers that slide (mc_family_sliding; without layer_types all but every `pattern`-th,
 * counted from 1) a copy of the plain attention, as it is then, with a window. */
mica_status mc_family_windows(const mc_config_scope *text, int64_t window, int64_t pattern,
                              mc_decoder_spec *spec);

#endif

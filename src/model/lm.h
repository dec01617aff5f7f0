/* A language model: a decoder's spec with its weights, and the forward pass.
 *
 * Weights are views of the files; norms and biases, small as they are, are copied to f32.
 * Activations are f32 throughout. In `fast` arithmetic a matmul with quantised weights may see its
 * input quantised to 8 bits, by groups, or rounded to bf16, as may one with bf16 weights; in
 * `exact` none does.
 *
 * Threads: an open model never changes; any number of threads may record passes over it, each in a
 * scope of its own. */
#ifndef MODEL_LM_H
#define MODEL_LM_H

#include "base/arena.h"
#include "base/status.h"
#include "io/config.h"
#include "io/safetensors.h"
#include "model/linear.h"
#include "model/spec.h"

#include <mica/model.h>

typedef struct mc_lm_layer {
    mc_linear q, k, v, o, gate, up, down;
    mica_array q_norm, k_norm; /* [head_dim] f32; all norms: MICA_NONE where there is none */
    mica_array attention_norm, attention_post_norm, mlp_norm, mlp_post_norm; /* [hidden] f32 */
} mc_lm_layer;

typedef struct mc_lm {
    mc_decoder_spec spec;
    mc_config *config;
    mc_weights *weights;
    mica_scope *scope; /* of all arrays here */
    mc_lm_layer *layers;
    mc_linear embed, head; /* [vocab, hidden] */
    bool tied;             /* the head is the embedding's weight */
    mica_array norm;       /* [hidden] f32 */
    mica_array freqs[2];   /* of spec.ropes: [head_dim / 2] f32, or MICA_NONE for a plain one */
    char model_type[64];   /* as config.json has it, "" where it has none */
    uint64_t parameters, weight_bytes;
    mica_dtype kv_dtype; /* of keys and values as queries meet them; u8: mica_to_q8 */
    mica_dtype dtype;    /* of most weights that are not quantised */
    char quantization[MC_PACKING_TEXT]; /* "4 bit, groups of 64 (affine)", "none" */
    char *adapter;                      /* its folder; NULL: none */
    uint64_t adapter_parameters;
    mc_buffer notes; /* what a user may want to know, in lines: tensors that nothing reads */
} mc_lm;

/* Opens the model in a folder for a device, which must outlive it.
 *
 * options of its weights, NULL for the defaults. Weights that are neither read nor read ahead are
 *         watched as they are found. Looked at until this returns.
 * lm      owned by the caller; NULL after an error.
 * errors  those of io/config.h and io/safetensors.h; MICA_EUNSUPPORTED an unknown family or kind;
 *         MICA_ENOENT tensors are missing (the text lists them); MICA_ESHAPE, MICA_EDTYPE a tensor
 *         is not as the config says; MICA_ENOMEM */
mica_status mc_lm_open(const char *folder, mica_device *device, const mc_weights_options *options,
                       mc_lm **lm);

/* Adds the low-rank adapter in a folder, mlx-lm's or PEFT's, to the matrices that it names. Once a
 * model, before its first pass; after an error the model can only be closed. An adapter of a tied
 * embedding is the head's too if it is mlx-lm's, not if it is PEFT's, as in these.
 *
 * errors  those of io/adapter.h; MICA_ENOENT it names modules that the model lacks, or lacks some
 *         that its config names (the text lists them); MICA_EFORMAT it has more blocks than its
 *         config says; MICA_ESHAPE, MICA_EDTYPE a factor is not as the model and the config say;
 *         MICA_EINVAL the model has an adapter; MICA_ENOMEM */
mica_status mc_lm_adapt(mc_lm *lm, const char *folder);

/* How matmuls with weights are computed: MICA_ARITHMETIC_DEFAULT is fast. A model that was
 * just opened is exact. Before its first pass. */
void mc_lm_set_arithmetic(mc_lm *lm, mica_arithmetic arithmetic);

/* In what attention meets keys and values: MICA_CACHE_DEFAULT goes by the arithmetic. A model that
 * was just opened has f32. Before its first pass. */
void mc_lm_set_cache(mc_lm *lm, mica_cache_type cache);

/* How many numbers of kv_dtype a head's key or value is. */
int64_t mc_lm_kv_width(const mc_lm *lm);

/* Adds a line to the notes, cut at 1,023 bytes; a NUL follows it. errors  MICA_ENOMEM */
mica_status mc_lm_note(mc_lm *lm, const char *fmt, ...) MC_PRINTF(2, 3);

/* Whether a tensor or module that a decoder does not have needs no mention: parts for images and
 * sound, and what is worked out from the config. */
bool mc_lm_ignores(const char *name);

/* Closes *lm and sets it to NULL; nothing for NULL. */
void mc_lm_close(mc_lm **lm);

/* What the queries of a layer attend to. */
typedef struct mc_attended {
    mica_array k, v;   /* [B, kv_heads, N, kv width] lm->kv_dtype, in the order of positions */
    mica_array offset; /* i32 []: where in k the first query's own key is */
    int64_t window;    /* keys that a query sees, its own included; 0: all up to its own */
    int64_t keep;      /* with a window: so many first keys in k that it sees too */
} mc_attended;

#define MC_MAX_ROWS 256 /* of a batch whose rows have stores of their own */

/* Who keeps keys and values between passes. */
typedef struct mc_kv_store {
    /* Takes the keys (turned to their positions) and values of a chunk, both
     * [B, kv_heads, L, kv width] lm->kv_dtype in s, and gives what the chunk attends to. Errors go
     * to s. */
    mc_attended (*append)(void *context, mica_scope *s, int layer, mica_array k, mica_array v);
    void *context;
    /* Not NULL: [B] stores, one a row of the batch, B <= MC_MAX_ROWS; row b is appended to rows[b]
     * as a batch of one, and attends to what that holds. append and context are not used. */
    const struct mc_kv_store *rows;
    /* Not NULL: told each layer's queries [B, heads, L, head_dim] and keys, both turned. */
    void (*look)(void *context, int layer, mica_array q, mica_array k);
    void *look_context;
} mc_kv_store;

typedef enum mc_wanted { MC_ALL_LOGITS, MC_LAST_LOGITS, MC_NO_LOGITS, MC_HIDDEN } mc_wanted;

/* Records a pass over a chunk of tokens.
 *
 *  ids       [B, L] i32, each below spec.vocab.
 *  position  i32 [], or [B]: of ids[:, 0] in the text.
 *  store     NULL: the chunk attends to itself alone, within the layers' windows.
 *  wanted    which rows get to the head.
 *  returns   logits [B, L, vocab] f32, or [B, 1, vocab] of the last position; with MC_NO_LOGITS
 *            nothing (MICA_NONE): only the store has grown; with MC_HIDDEN what the head is given,
 *            [B, L, hidden] f32 behind the last norm. Errors are in s. */
mica_array mc_lm_forward(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array position,
                         const mc_kv_store *store, mc_wanted wanted);

/* The head: hidden states [..., hidden] f32, as MC_HIDDEN gives them -> logits [..., vocab] f32. */
mica_array mc_lm_head(mica_scope *s, const mc_lm *lm, mica_array hidden);

#endif

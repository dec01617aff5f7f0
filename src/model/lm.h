/* A language model: a decoder's spec with its weights, and the forward pass.
 *
 * Weights are views of the mapped files. Norms and biases are copied to f32: they are small.
 * Activations are f32 throughout. In `fast` arithmetic a matmul with quantised weights may quantise
 * its activations to 8 bits, by groups, or round them to bf16; a matmul with bf16 weights may round
 * them to bf16. In `exact` arithmetic no matmul does.
 *
 * Threads: an open model never changes. Any number of threads may record passes over it, each in
 * its own scope. */
#ifndef MODEL_LM_H
#define MODEL_LM_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/config.h"
#include "io/safetensors.h"
#include "model/linear.h"
#include "model/packing.h"
#include "model/spec.h"

#include <mica/model.h>

/* What a model has of a slot of a block. */
typedef struct mc_lm_slot {
    const mc_slot *slot;
    const char *name;   /* in its layer: "mlp.up_proj"; NULL: the model has none */
    const char *module; /* what adapters call it: of experts in tensors of their own, their usual
                           name */
    int layer, block;   /* block: its number in the layer */
    mc_linear linear;   /* of a matrix */
    mica_array vector;  /* [rows] f32, or [rows, columns, 1] of a kernel; MICA_NONE: none */
    double offset;      /* that was added to the file's values */
} mc_lm_slot;

typedef struct mc_lm_rope {
    mica_array freqs;      /* [dims / 2] f32; MICA_NONE: from the base alone */
    mica_array amplitudes; /* [head_dim] f32, factors of a head's elements; MICA_NONE: 1 */
} mc_lm_rope;

typedef struct mc_lm {
    mc_decoder_spec spec;
    mc_config *config;
    mc_weights *weights;
    mica_scope *scope; /* of all arrays here */
    mc_lm_slot *slots; /* [n_slots] of all blocks, in the order of a pass */
    size_t n_slots;
    size_t (*firsts)[MC_LAYER_BLOCKS];      /* [n_layers] each block's first slot */
    mc_linear embed, head;                  /* [vocab, hidden] */
    bool tied;                              /* the head has the embedding's weight */
    mica_array norm, norm_bias;             /* [hidden] f32; MICA_NONE: there is none */
    mica_array embed_norm, embed_norm_bias; /* the same, of the embeddings */
    mc_linear positions, types;             /* [spec.positions, hidden], [spec.types, hidden] */
    mc_linear layer_embed;                  /* [spec.layer_rows, n_layers * layer_width] */
    mc_linear layer_projection;             /* [n_layers * layer_width, hidden] */
    mica_array layer_norm;                  /* [layer_width] f32 */
    mc_linear streams[MC_MAX_STREAMS];      /* [spec.streams - 1] of [hidden, hidden] */
    mc_linear unstreams[MC_MAX_STREAMS];
    mc_lm_rope ropes[MC_MAX_ROPES];     /* of spec.ropes */
    mc_lm_rope far_ropes[MC_MAX_ROPES]; /* the same, with the fallback device */
    int far_layers;    /* the first ones, which lie with the fallback device, and run there */
    int far_experts;   /* of the layers below this number the experts do, too */
    bool far_measured; /* how many was decided by measured rates */
    struct mc_sentence *sentence; /* of an embedder with files of sentence-transformers, or NULL */
    struct mc_ranker *ranker;     /* of a cross-encoder, or NULL */
    char model_type[64];          /* as in config.json; "": it has none */
    uint64_t parameters, weight_bytes;
    /* mica_checkpoint: each layer is computed again in a backward pass; NULL: none is. */
    mica_status (*checkpoint)(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                              size_t n_args, mica_array *results, size_t n_results);
    mica_dtype kv_dtype;                /* dtype of keys and values in attention; u8: mica_to_q8 */
    mica_dtype dtype;                   /* dtype of most weights that are not quantised */
    mica_quant quant;                   /* of most quantised weights; bits 0: none is quantised */
    char quantization[MC_PACKING_TEXT]; /* the same: "4 bit, groups of 64 (affine)", "none" */
    struct mica_group *group;           /* of which it has a rank's part; NULL: it is whole */
    struct mica_group *stages;          /* of a pipeline, a rank each; NULL: there is one */
    struct mica_group *peers;           /* the ranks of its stage; NULL: all, or itself */
    int before, behind;                 /* the first and last layers, which other stages have */
    mc_block_spec *whole;            /* [spec.n_blocks] as all ranks have them; NULL: as in spec */
    char *adapter;                   /* its folder; NULL: no adapter */
    struct mc_adapter *replacements; /* weights are mapped in it; NULL: none are */
    uint64_t adapter_parameters;
    mc_buffer notes; /* lines that a user may want to know: tensors that are not read */
} mc_lm;

/* The slots of a block of a layer, in the order of its kind's table. */
mc_lm_slot *mc_lm_block(const mc_lm *lm, int layer, int block);

/* The next matrix at or after slots[*at], which is counted on; NULL: there is none.
 *     for (size_t i = 0; (m = mc_lm_next_matrix(lm, &i));) */
mc_lm_slot *mc_lm_next_matrix(const mc_lm *lm, size_t *at);

/* Whether a layer is computed here, and not by another stage of a pipeline. */
bool mc_lm_has_layer(const mc_lm *lm, int layer);

/* Whether a layer's weights lie with the device's fallback, so that it runs there, and what it
 * carries. */
bool mc_lm_layer_falls_back(const mc_lm *lm, int layer);

/* Whether a pass gives what it computes to a stage behind this one. */
bool mc_lm_passes_on(const mc_lm *lm);

/* Heads of keys and values in a layer, those of other ranks among them. */
int64_t mc_lm_kv_heads(const mc_lm *lm, int layer);

/* What a slot holds, by its name behind the decoder's prefix: "layers.7.mlp.up_proj". NULL: it is
 * nothing in a layer. */
mc_lm_slot *mc_lm_find(const mc_lm *lm, mc_str module);

#define MC_MODULE_BYTES 320

/* The whole name of what a slot holds: "model.layers.7.mlp.up_proj", and of an encoder that has a
 * name for its layers "encoder.layer.7.output.dense". */
const char *mc_lm_module(const mc_lm *lm, const mc_lm_slot *slot, char text[MC_MODULE_BYTES]);

/* Sets how matmuls with weights are computed, before the first pass. MICA_ARITHMETIC_DEFAULT is
 * fast. A model that was just opened is exact. */
void mc_lm_set_arithmetic(mc_lm *lm, mica_arithmetic arithmetic);

/* Sets the type of keys and values in attention, before the first pass. MICA_CACHE_DEFAULT depends
 * on the arithmetic. A model that was just opened has f32. */
void mc_lm_set_cache(mc_lm *lm, mica_cache_type cache);

/* Elements of kv_dtype in a head's key, or value, of head_dim numbers. */
int64_t mc_lm_kv_width(const mc_lm *lm, int64_t head_dim);

/* Adds a line to the notes, cut at 1,023 bytes; a NUL follows it. errors  MICA_ENOMEM */
mica_status mc_lm_note(mc_lm *lm, const char *fmt, ...) MC_PRINTF(2, 3);

/* What the model is, but for its folder and its engine; the arithmetic is that which was set.
 * Strings are the model's. */
mica_model_info mc_lm_describe(const mc_lm *lm);

/* Closes *lm and sets it to NULL; nothing for NULL. */
void mc_lm_close(mc_lm **lm);

/* What the queries of a layer attend to. */
typedef struct mc_attended {
    mica_array k, v;   /* [B, kv_heads, N, kv width] lm->kv_dtype, in the order of positions */
    mica_array offset; /* i32 []: index in k of the first query's own key */
    int64_t window;    /* keys that a query attends to, its own included; 0: all up to its own */
    int64_t keep;      /* with a window: this many first keys are attended to beside it */
    mica_array mask;   /* bool [B, 1, L, N], what a query sees of these; MICA_NONE: all */
    /* i32 [B, M]: k and v are in blocks, and row b of the batch attends to those that row b of the
     * table names (mica_paged_sdpa); offset is i32 [B], and there is no mask. MICA_NONE: they are
     * in a row. */
    mica_array table;
} mc_attended;

#define MC_MAX_ROWS 256 /* of a batch whose rows have their own stores */

/* A store of keys and values between passes. */
typedef struct mc_kv_store {
    /* Takes the keys, RoPE applied, and the values of a chunk, both [B, kv_heads, L, kv width]
     * lm->kv_dtype in s. Returns what the chunk attends to. Of a layer that shares those of another
     * (mc_spec_share) both are MICA_NONE: that layer's were appended before, unless the store
     * keeps_nothing. Of a layer whose values are in its keys (mc_attention_spec.latent) v is k, and
     * so may be what is returned. Errors are in s. NULL: the chunk attends to itself, as without a
     * store. */
    mc_attended (*append)(void *context, mica_scope *s, int layer, mica_array k, mica_array v);
    void *context;
    bool keeps_nothing; /* layers that share keys and values append these again */
    /* Not NULL: [B] stores, one for each row of the batch, B <= MC_MAX_ROWS. Row b is appended to
     * rows[b] as a batch of one, and attends to its keys and values. */
    const struct mc_kv_store *rows;
    /* Not NULL: whether the rows of a layer are appended together all the same, to this store. */
    bool (*together)(const void *context, int layer);
    /* Array i of those that a layer carries (mc_carried) as the pass finds it, and as it
     * leaves it: each with the batch's axis in front, whatever `rows` is. */
    mica_array (*before)(void *context, mica_scope *s, int layer, int i);
    void (*after)(void *context, mica_scope *s, int layer, int i, mica_array next);
    /* Not NULL: receives each layer's queries [B, heads, L, head_dim] and keys, RoPE applied to
     * both. */
    void (*observe)(void *context, int layer, mica_array q, mica_array k);
    /* Not NULL: called with what each layer leaves, which it may evaluate. */
    void (*leave)(void *observer, mica_scope *s, mica_array x);
    void *observer;
} mc_kv_store;

typedef enum mc_wanted { MC_ALL_LOGITS, MC_LAST_LOGITS, MC_NO_LOGITS, MC_HIDDEN } mc_wanted;

/* Records a pass over a chunk of tokens.
 *
 *  ids       [B, L] integers, each below spec.vocab; or their embeddings.
 *  position  i32 [], or [B]: position in the text of ids[:, 0].
 *  store     NULL: the chunk attends to itself alone, within the layers' windows.
 *  wanted    rows for which the head is computed.
 *  returns   logits [B, L, vocab] f32, or [B, 1, vocab] of the last position. With MC_NO_LOGITS
 *            the pass only fills the store: MICA_NONE, but of a stage of a pipeline u8 [], to be
 *            evaluated, so that it takes and sends. With MC_HIDDEN the input of the head,
 *            [B, L, hidden] f32 after the last norm. Errors are in s. */
mica_array mc_lm_forward(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array position,
                         const mc_kv_store *store, mc_wanted wanted);

/* The embeddings of tokens: ids [B, L] integers -> [B, L, hidden] f32. An encoder's have positions
 * and types in them: types [B, L] integers, or MICA_NONE: all are 0. */
mica_array mc_lm_embed(mica_scope *s, const mc_lm *lm, mica_array ids);
mica_array mc_lm_embed_typed(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array types);

/* The head: hidden states [..., hidden] f32, of MC_HIDDEN -> logits [..., vocab] f32. */
mica_array mc_lm_head(mica_scope *s, const mc_lm *lm, mica_array hidden);

#endif

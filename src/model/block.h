/* Blocks: what a layer of a decoder is made of.
 *
 * A block reads the residual stream and adds to it: x + factor * post_norm(f(norm(x))). Its kind is
 * a row of block_list.h and a file: what f computes, and a table of slots, which are the tensors
 * that it has. All that walks over a model's tensors walks over slots. */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include <mica/array.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mc_lm_pass;
struct mc_block_at;

#define MC_MAX_SLOTS 24
#define MC_BLOCK_NUMBERS 16 /* of a kind's own */
#define MC_BLOCK_CARRIED 2

typedef enum mc_activation { MC_SILU, MC_GELU, MC_GELU_APPROX, MC_RELU2 } mc_activation;

typedef enum mc_slot_kind {
    MC_SLOT_MATRIX, /* quantised, adapted, fused, calibrated: mc_linear */
    MC_SLOT_NORM,   /* f32; the norm's offset is added on loading */
    MC_SLOT_VECTOR, /* f32 */
    /* f32 [rows, columns, 1], of a depthwise convolution. Its tensor is that (mlx-lm), or
     * [rows, 1, columns] (the hub). */
    MC_SLOT_KERNEL
} mc_slot_kind;

/* ---- the numbers of a block; whatever a kind does not have is 0 ---- */

typedef struct mc_attention_spec {
    int64_t heads, kv_heads, head_dim;
    /* Tokens that a query attends to, itself included; 0: all up to itself. Of an encoder those on
     * each side of it; 0: all. */
    int64_t window;
    int64_t rope;       /* index into mc_decoder_spec.ropes; MC_NO_ROPE: nothing is rotated */
    double scale;       /* factor of q k^T */
    double soft_cap;    /* of the scores; 0: none */
    int64_t gated;      /* head by head, rows of the output's gate follow those of the queries */
    int64_t wide_norms; /* 1: norms of queries and keys are over all heads at once */
    int64_t value_norm; /* 1: each head's values have an RMS norm without weight */
    /* Queries at position t are multiplied by 1 + growth * ln(1 + floor(t / period)); 0: none. */
    double growth;
    int64_t period;
    /* Values are the first so many elements of the one head of keys, and are not kept beside them;
     * 0: they are of their own. */
    int64_t latent;
} mc_attention_spec;

#define MC_NO_ROPE (-1)

/* Of MLA, attention over latents. The head of keys has attention.latent elements, then those that
 * RoPE rotates. */
typedef struct mc_mla_spec {
    mc_attention_spec attention;
    int64_t plain;        /* elements of a query's head, before the rotated ones */
    int64_t value_dim;    /* of a head */
    int64_t query_latent; /* what queries are made of; 0: of the input */
} mc_mla_spec;

typedef struct mc_gated_spec {
    int64_t width;
    int64_t activation; /* mc_activation, of the gate */
    double sparse;      /* the part of a token's gates that is 0, were they distributed normally */
} mc_gated_spec;

/* How a router makes weights of its logits. */
typedef enum mc_scoring {
    MC_SCORE_SOFTMAX,        /* over all experts */
    MC_SCORE_PICKED_SOFTMAX, /* over those that are picked */
    MC_SCORE_SIGMOID         /* of each; a bias may be added for the choice */
} mc_scoring;

typedef struct mc_experts_spec {
    int64_t count, picks; /* experts, and how many of them a token has */
    int64_t width, shared_width;
    int64_t activation;   /* mc_activation */
    int64_t interleaved;  /* 1: rows of gate and up take turns in the matrix of both */
    int64_t scoring;      /* mc_scoring */
    int64_t renormalised; /* 1: weights are divided by their sum */
    double least_sum;     /* which this is added to */
    double factor;        /* of the weights then */
    /* With groups > 1, of sigmoids: only experts of so many groups are picked. */
    int64_t groups, top_groups;
    double limit; /* not 0: (up + 1) gate sigmoid(1.702 gate), of numbers up to it */
} mc_experts_spec;

typedef struct mc_short_conv_spec {
    int64_t taps; /* of the kernel; at least 2 */
} mc_short_conv_spec;

typedef struct mc_layer_input_spec {
    int64_t width;      /* of a layer's input: mc_decoder_spec.layer_width */
    int64_t activation; /* mc_activation, of the gate */
} mc_layer_input_spec;

typedef struct mc_altup_spec {
    int64_t streams, active; /* mc_decoder_spec.streams; the one that the other blocks see */
    mc_layer_input_spec input;
} mc_altup_spec;

typedef struct mc_laurel_spec {
    int64_t rank;
} mc_laurel_spec;

/* How some files call what a block has. Names are of slots, and NULL where they are as the block
 * says; MC_NO_SLOT: these files have no such tensor. Matrices of several usual names may be rows
 * of one tensor: that is a slot of its own, whose results the block divides (mc_block_part). */
typedef struct mc_form {
    const char *names[MC_MAX_SLOTS];
    bool bare;           /* tensors that are called with ".weight" do not fit */
    uint64_t transposed; /* bit i: the matrix of slot i lies as [columns, rows] */
} mc_form;

#define MC_NO_SLOT ""

typedef struct mc_delta_net_spec {
    int64_t key_heads, value_heads; /* the former divide the latter */
    int64_t key_dim, value_dim;     /* of a head */
    int64_t taps;                   /* of the convolution; at least 2 */
} mc_delta_net_spec;

typedef struct mc_mamba2_spec {
    int64_t heads, head_dim;
    int64_t groups;            /* of heads, which they divide */
    int64_t state;             /* its rows, of a head */
    int64_t taps;              /* of the convolution; at least 2 */
    double min_step, max_step; /* limits of a step; the latter may be infinite */
} mc_mamba2_spec;

/* An array that a layer carries from token to token: of one row of a batch. It begins as zeros. */
typedef struct mc_carried {
    mica_dtype dtype;
    int ndim; /* below MICA_MAX_NDIM */
    int64_t shape[MICA_MAX_NDIM];
} mc_carried;

typedef struct mc_block_spec {
    const struct mc_block *kind;
    int64_t hidden;                  /* width of the residual stream */
    const char *names[MC_MAX_SLOTS]; /* of slots, without ".weight", in a layer; NULL: absent */
    const char *usual[MC_MAX_SLOTS]; /* names that the form has replaced; adapters may use them */
    const mc_form *forms;            /* [n_forms] other names, which the files' tensors show */
    int n_forms;
    uint64_t biases;              /* bit i: the matrix, or the norm, of slot i has a bias */
    uint64_t transposed;          /* of the form that fits */
    double norm_eps, norm_offset; /* Gemma's 1 + w has offset 1 */
    bool centred;                 /* norms are LayerNorms, of which `biases` tells, not RMS norms */
    bool norm_last;               /* the first norm is of the sum: norm(x + factor * f(x)) */
    double factor;                /* of what is added to the stream */
    int n_carried;                /* of a kind with MC_STATE_CARRIED */
    mc_carried carried[MC_BLOCK_CARRIED];
    union {
        mc_attention_spec attention;
        mc_mla_spec mla;
        mc_gated_spec gated;
        mc_short_conv_spec short_conv;
        mc_layer_input_spec layer_input;
        mc_altup_spec altup;
        mc_laurel_spec laurel;
        mc_delta_net_spec delta_net;
        mc_experts_spec experts;
        mc_mamba2_spec mamba2;
        int64_t own[MC_BLOCK_NUMBERS]; /* kinds outside of this file; fingerprints read all */
    };
} mc_block_spec;

/* ---- kinds ---- */

/* What becomes of a matrix's rows in a group of ranks (model/split.h). */
typedef enum mc_slot_split {
    MC_SPLIT_GATHERED, /* each rank has a part of them, and all get all results */
    MC_SPLIT_KEPT,     /* results stay parts, where the block's numbers are divided: `divide` */
    MC_SPLIT_OWN,      /* the same, or it is whole: the block does not only apply it */
    MC_SPLIT_JOINED    /* its input is such parts; then as gathered */
} mc_slot_split;

/* A number of rows or columns. */
typedef int64_t mc_extent(const mc_block_spec *block);

typedef struct mc_slot {
    mc_slot_kind kind;
    const char *name;          /* what most families call it: "self_attn.q_proj" */
    bool optional;             /* only models whose family says so have it */
    bool bare;                 /* of a vector: no ".weight" follows in its tensor's name */
    mc_extent *rows, *columns; /* a vector has rows alone */
    /* Not NULL: so many such matrices, with an axis before the rows; or, if the name has a '*' for
     * their numbers, in tensors of their own. */
    mc_extent *experts;
    mc_extent *rotated; /* not NULL: its rows are so many heads, which RoPE rotates */
    bool sensitive;     /* recipes of several bits give it more in some layers */
    bool exact;         /* its matmuls round nothing, and recipes leave it as it is: a router */
    mc_slot_split split;
    int first, last; /* its rows are those of these slots; 0: of no others */
    bool by_heads;   /* and those of a head lie together, one head after another */
    /* Its name in GGUF's layers, to which ".weight" or ".bias" is added unless the slot is bare:
     * "attn_q", "ssm_dt.bias"; NULL: it has none. */
    const char *gguf;
    const char *parameter; /* of experts: what transformers calls the parameter of all of them */
} mc_slot;

/* Rows of a table of slots, each with its other members by name. */
#define MC_MATRIX(NAME, ROWS, COLUMNS, ...) \
    { .name = NAME, .rows = ROWS, .columns = COLUMNS, __VA_ARGS__ }
#define MC_KERNEL(NAME, ROWS, COLUMNS, ...) \
    MC_MATRIX(NAME, ROWS, COLUMNS, .kind = MC_SLOT_KERNEL, __VA_ARGS__)
#define MC_VECTOR(NAME, ROWS, ...) \
    { .kind = MC_SLOT_VECTOR, .name = NAME, .rows = ROWS, __VA_ARGS__ }
#define MC_NORM(NAME, ROWS, ...) \
    { .kind = MC_SLOT_NORM, .name = NAME, .rows = ROWS, __VA_ARGS__ }

enum { MC_BLOCK_NORM, MC_BLOCK_POST_NORM, MC_BLOCK_SLOTS }; /* every kind's first slots */

/* These of most kinds: the norm before the block, and the one behind it that some families have, by
 * their names and those of GGUF; NULL: GGUF has none. */
#define MC_BLOCK_NORMS(before, gguf_before, behind, gguf_behind)             \
    [MC_BLOCK_NORM] = MC_NORM(before, mc_block_hidden, .gguf = gguf_before), \
    [MC_BLOCK_POST_NORM] = MC_NORM(behind, mc_block_hidden, .optional = true, .gguf = gguf_behind)

/* What a block carries from token to token. */
typedef enum mc_state_kind {
    MC_STATE_NONE,   /* a token is computed by itself */
    MC_STATE_KEYS,   /* keys and values; the block's numbers begin with mc_attention_spec */
    MC_STATE_CARRIED /* arrays of one size, which each token changes: the block's `carried` */
} mc_state_kind;

typedef struct mc_block {
    const char *name; /* "attention" */
    const mc_slot *slots;
    int n_slots;
    mc_state_kind state;
    bool replaces; /* the stream becomes f(x), of x as it is: the block has its own norms */
    /* f: x [B, L, hidden], normalised -> rows [first, L) of [B, L, hidden], from all rows of x.
     * Without a state, first is 0. Errors are in the pass's scope. */
    mica_array (*forward)(const struct mc_lm_pass *p, const struct mc_block_at *at, mica_array x);
    /* Not NULL: what becomes of the stream behind the layer's other blocks. */
    mica_array (*finish)(const struct mc_lm_pass *p, const struct mc_block_at *at, mica_array x);
    /* Not NULL: makes the numbers of a block those of one of `ranks`, or leaves them and returns
     * false. */
    bool (*divide)(mc_block_spec *block, int64_t ranks);
    /* f32 numbers that it keeps of a token for a backward pass: inputs and results of matmuls,
     * norms, activation functions and attention. */
    mc_extent *kept;
} mc_block;

#define BLOCK(name) extern const mc_block mc_block_##name;
#include "model/block_list.h"
#undef BLOCK

/* Slots of each kind. */
enum {
    MC_ATTENTION_Q = MC_BLOCK_SLOTS,
    MC_ATTENTION_K,
    MC_ATTENTION_V, /* without it values are what K gives, before the norm of keys */
    MC_ATTENTION_O,
    MC_ATTENTION_Q_NORM, /* over head_dim, or all heads, before RoPE */
    MC_ATTENTION_K_NORM,
    MC_ATTENTION_QKV,   /* rows of q, k, v, in the place of these */
    MC_ATTENTION_SINKS, /* a logit of each head, which takes a share of the weights and no value */
    MC_ATTENTION_GATE,  /* a number for each head: its output is multiplied by the sigmoid */
    MC_ATTENTION_SLOTS
};
enum {
    MC_MLA_Q = MC_BLOCK_SLOTS, /* instead of the next three */
    MC_MLA_Q_DOWN,
    MC_MLA_Q_NORM, /* over query_latent */
    MC_MLA_Q_UP,
    MC_MLA_KV_DOWN, /* the latent, then what RoPE rotates */
    MC_MLA_KV_NORM, /* over the latent */
    MC_MLA_KV_UP,   /* of each head rows that give a key's plain part, then those of values */
    MC_MLA_K_UP,    /* instead of it: the former, transposed, a matrix for each head, */
    MC_MLA_V_UP,    /* and the latter */
    MC_MLA_O,
    MC_MLA_SLOTS
};
enum {
    MC_GATED_GATE = MC_BLOCK_SLOTS,
    MC_GATED_UP,
    MC_GATED_DOWN,
    MC_GATED_GATE_UP, /* rows of gate and up, in the place of these */
    MC_GATED_SLOTS
};
enum { MC_LAYER_INPUT_GATE = MC_BLOCK_SLOTS, MC_LAYER_INPUT_PROJECTION, MC_LAYER_INPUT_SLOTS };
enum { MC_SCALE_FACTOR = MC_BLOCK_SLOTS, MC_SCALE_SLOTS };
enum { MC_LAUREL_LEFT = MC_BLOCK_SLOTS, MC_LAUREL_RIGHT, MC_LAUREL_SLOTS };
enum {
    MC_ALTUP_ROUTER = MC_BLOCK_SLOTS, /* behind the first norm: of both sets of coefficients */
    MC_ALTUP_PREDICTION,
    MC_ALTUP_CORRECTION,
    MC_ALTUP_SCALE, /* of what lets the layer's input in */
    MC_ALTUP_GATE,
    MC_ALTUP_PROJECTION,
    MC_ALTUP_SLOTS
};
enum {
    MC_SHORT_CONV_IN = MC_BLOCK_SLOTS,
    MC_SHORT_CONV_KERNEL,
    MC_SHORT_CONV_BIAS, /* of the kernel */
    MC_SHORT_CONV_OUT,
    MC_SHORT_CONV_SLOTS
};

enum {
    MC_DELTA_NET_QKV = MC_BLOCK_SLOTS, /* queries, keys, values */
    MC_DELTA_NET_Z,                    /* of the output's gate */
    MC_DELTA_NET_A,                    /* of the decay */
    MC_DELTA_NET_B,                    /* of beta */
    MC_DELTA_NET_QKVZ,                 /* instead of the first two, one key head after another */
    MC_DELTA_NET_BA,                   /* instead of the other two */
    MC_DELTA_NET_KERNEL,
    MC_DELTA_NET_A_LOG,
    MC_DELTA_NET_DT_BIAS,
    MC_DELTA_NET_INNER_NORM, /* over value_dim */
    MC_DELTA_NET_OUT,
    MC_DELTA_NET_SLOTS
};

enum {
    MC_EXPERTS_ROUTER = MC_BLOCK_SLOTS,
    MC_EXPERTS_CHOICE,  /* added to scores for the choice */
    MC_EXPERTS_FACTORS, /* of the weights, one an expert */
    MC_EXPERTS_GATE,
    MC_EXPERTS_UP,
    MC_EXPERTS_GATE_UP, /* rows of gate and up, in the place of these */
    MC_EXPERTS_DOWN,
    MC_EXPERTS_SHARED_GATE,
    MC_EXPERTS_SHARED_UP,
    MC_EXPERTS_SHARED_DOWN,
    MC_EXPERTS_SHARED_GATE_UP, /* rows of gate and up, in the place of these */
    MC_EXPERTS_SHARED_SWITCH,  /* the logit of the shared expert's factor */
    MC_EXPERTS_ROUTER_NORM,    /* of what the router sees; that is divided by sqrt(hidden) then */
    MC_EXPERTS_INPUT_NORM,     /* of what the experts see, */
    MC_EXPERTS_OUTPUT_NORM,    /* and of their weighted sum */
    MC_EXPERTS_SHARED_INPUT_NORM,
    MC_EXPERTS_SHARED_OUTPUT_NORM,
    MC_EXPERTS_SLOTS
};

enum {
    MC_MAMBA2_IN = MC_BLOCK_SLOTS,
    MC_MAMBA2_KERNEL,
    MC_MAMBA2_BIAS, /* of the kernel */
    MC_MAMBA2_A_LOG,
    MC_MAMBA2_D,
    MC_MAMBA2_DT_BIAS,
    MC_MAMBA2_INNER_NORM,
    MC_MAMBA2_OUT,
    MC_MAMBA2_SLOTS
};

/* The width of the residual stream, an extent. */
mc_extent mc_block_hidden;

/* Gives a block an optional slot, or those of [first, last], by their usual names. */
void mc_block_use(mc_block_spec *block, int slot);
void mc_block_use_all(mc_block_spec *block, int first, int last);

/* Gives it one whose rows are those of slots [first, last], which go: q, k and v of phi3. */
void mc_block_use_joined(mc_block_spec *block, int slot, int first, int last);

/* What a part of a normal distribution is below, in deviations from its mean: mc_gated_spec.sparse.
 * Within -8 and 8. */
double mc_normal_quantile(double part);

/* Whether the matrix of a slot has a bias. */
bool mc_block_has_bias(const mc_block_spec *block, int slot);

/* Whether a module of any family is called as a slot is to which recipes give more bits. */
bool mc_block_is_sensitive(const char *module);

#endif

/* A pass over a chunk of tokens, as the files of blocks record it. */
#ifndef MODEL_PASS_H
#define MODEL_PASS_H

#include "model/lm.h"

/* What a layer's blocks leave to later ones. */
typedef struct mc_layer_notes {
    mica_array seen;    /* [B, L, hidden]: what the last norm before a block gave */
    mica_array streams; /* [B, L, spec.streams, hidden], as the layer's beginning predicts them */
} mc_layer_notes;

/* What every step of a pass needs. */
typedef struct mc_lm_pass {
    mica_scope *s;
    const mc_lm *lm;
    const mc_kv_store *store; /* NULL: none */
    mica_array position;      /* i32 [], or [B] */
    int64_t batch, length;
    /* Keys, RoPE applied, and values of the chunk in the layers of spec.sources, both
     * [B, kv_heads, L, head_dim]: a block of such a layer sets them, those that share read them. */
    mica_array (*shared)[2];
    mica_array input; /* [B, L, layer_width], of the layer at hand; MICA_NONE: the model has none */
    mc_layer_notes *notes; /* of the layer at hand */
    mica_array *order;     /* of what ranks do together: mica/group.h */
} mc_lm_pass;

/* A block in a pass. */
typedef struct mc_block_at {
    int layer;
    const mc_block_spec *spec;
    const mc_lm_slot *slots; /* [kind->n_slots] */
    int64_t first;           /* the first row that is wanted */
} mc_block_at;

/* The matmul with the matrix of a slot, of x [..., columns] -> [..., rows]. */
mica_array mc_block_apply(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x);

/* The same with the experts that each row of x picks: mc_linear_pick. */
mica_array mc_block_pick(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x,
                         mica_array picks);

/* Array i of those that the block carries, as the chunk finds it: [B, ...]. Zeros without a
 * store. */
mica_array mc_block_carried(const mc_lm_pass *p, const mc_block_at *at, int i);

/* Leaves it to the next chunk. */
void mc_block_carry(const mc_lm_pass *p, const mc_block_at *at, int i, mica_array next);

/* A causal depthwise convolution with the kernel of a slot, over what the block has carried in
 * array i and x [B, L, channels]: [B, L, channels]. The last inputs are left to the next chunk. */
mica_array mc_block_convolve(const mc_lm_pass *p, const mc_block_at *at, int slot, int i,
                             mica_array x);
/* Whether the model has a slot. */
bool mc_block_has(const mc_block_at *at, int slot);

/* Elements [from, to) of the last axis of x: what one of several matrices gives that are rows of
 * one tensor. */
mica_array mc_block_part(const mc_lm_pass *p, mica_array x, int64_t from, int64_t to);

/* The norm of a slot; x, if the model has none there. */
mica_array mc_block_normalise(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x);

/* Rows [first, L) of x [B, L, ...]. */
mica_array mc_block_rows_from(const mc_lm_pass *p, mica_array x, int64_t first);

/* The last rows of what another block left, [B, n, ...]: as many as x has. */
mica_array mc_block_last_rows(const mc_lm_pass *p, mica_array left, mica_array x);

/* What the layer's input gives, let through by x: projection(activation(gate x) * input). */
mica_array mc_block_let_in(const mc_lm_pass *p, const mc_block_at *at, int gate, int projection,
                           const mc_layer_input_spec *spec, mica_array x);

/* x, as activated. */
mica_array mc_block_activate(const mc_lm_pass *p, int64_t activation, mica_array x);

/* position + rows, i32 [], or [B]. */
mica_array mc_block_advance(const mc_lm_pass *p, mica_array position, int64_t rows);

/* x [B, heads, L, D], the first row at `position`, rotated by the RoPE of the block's attention. */
mica_array mc_block_rotate(const mc_lm_pass *p, const mc_block_at *at, mica_array x,
                           mica_array position);

/* [B, L, heads, D] -> [B, heads, L, D], and back. */
mica_array mc_block_swap_heads(const mc_lm_pass *p, mica_array x);

/* Appends a chunk's keys and values, both [B, kv_heads, L, D] f32, to the store, and attends to all
 * that is in it then. Where values are in the keys, v is k, and the result has attention.latent
 * columns.
 *
 *  q        [B, heads, L - first, D]
 *  k, v     MICA_NONE: the store has those of the layer that this one shares
 *  sinks    [heads], or MICA_NONE
 *  returns  [B, heads, L - first, ..] */
mica_array mc_block_attend_to(const mc_lm_pass *p, const mc_block_at *at, mica_array q,
                              mica_array k, mica_array v, mica_array sinks);

/* Attention before its last matrix: x [B, L, hidden], normalised -> rows [first, L) of
 * [B, L, heads * head_dim]. All rows of x get keys and values, or
 * have those of the layer that this one shares. For kinds that have attention's
 * slots and numbers, and more. */
mica_array mc_block_attend(const mc_lm_pass *p, const mc_block_at *at, mica_array x);

#endif

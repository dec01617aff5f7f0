/* Laurel: a low-rank path beside attention. The stream that attention has added to becomes
 * (stream + x + norm(W_r W_l x)) / sqrt(2), where x is what attention saw.
 *
 * Source: Menghani et al. 2024 (arXiv:2411.07501); the behaviour of transformers 5, of Gemma 3n. */
#include "model/pass.h"

#include <math.h>

static int64_t rank(const mc_block_spec *b) {
    return b->laurel.rank;
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 2 * b->laurel.rank;
}

static const mc_slot slots[MC_LAUREL_SLOTS] = {
    [MC_BLOCK_NORM] = MC_NORM("laurel.pre_laurel_norm", mc_block_hidden, .optional = true),
    [MC_BLOCK_POST_NORM] =
        MC_NORM("laurel.post_laurel_norm", mc_block_hidden, .gguf = "laurel_post_norm"),
    [MC_LAUREL_LEFT] = MC_MATRIX("laurel.linear_left", rank, mc_block_hidden, .gguf = "laurel_l"),
    [MC_LAUREL_RIGHT] = MC_MATRIX("laurel.linear_right", mc_block_hidden, rank, .gguf = "laurel_r"),
};

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array seen = mc_block_last_rows(p, p->notes->seen, x);
    mica_array y = mc_block_apply(p, at, MC_LAUREL_LEFT, seen);
    y = mc_block_apply(p, at, MC_LAUREL_RIGHT, y);
    y = mica_add(p->s, seen, mc_block_normalise(p, at, MC_BLOCK_POST_NORM, y));
    return mica_multiply(p->s, mica_add(p->s, x, y), mica_f32(p->s, (float)sqrt(0.5)));
}

const mc_block mc_block_laurel = {
    .name = "laurel",
    .slots = slots,
    .n_slots = MC_LAUREL_SLOTS,
    .replaces = true,
    .forward = forward,
    .kept = kept,
};

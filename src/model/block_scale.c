/* The whole stream times one number of the model. */
#include "model/pass.h"

static int64_t one(const mc_block_spec *b) {
    (void)b;
    return 1;
}

static const mc_slot slots[MC_SCALE_SLOTS] = {
    [MC_BLOCK_NORM] = MC_NORM("input_layernorm", mc_block_hidden, .optional = true),
    [MC_BLOCK_POST_NORM] = MC_NORM("post_layernorm", mc_block_hidden, .optional = true),
    [MC_SCALE_FACTOR] =
        MC_VECTOR("layer_scalar", one, .bare = true, .gguf = "layer_output_scale.weight"),
};

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    return mica_multiply(p->s, x, at->slots[MC_SCALE_FACTOR].vector);
}

const mc_block mc_block_scale = {
    .name = "scale",
    .slots = slots,
    .n_slots = MC_SCALE_SLOTS,
    .replaces = true,
    .forward = forward,
    .kept = mc_block_hidden,
};

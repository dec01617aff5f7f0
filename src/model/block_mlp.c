/* The MLP without a gate: down(activation(up x)).
 *
 * Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.3. */
#include "model/pass.h"

static int64_t width(const mc_block_spec *b) {
    return b->gated.width;
}

static int64_t kept(const mc_block_spec *b) {
    return 3 * b->hidden + 2 * b->gated.width;
}

static const mc_slot slots[MC_MLP_SLOTS] = {
    [MC_BLOCK_NORM] = {.kind = MC_SLOT_NORM,
                       .name = "post_attention_layernorm",
                       .rows = mc_block_hidden,
                       .gguf = "ffn_norm"},
    [MC_BLOCK_POST_NORM] = {.kind = MC_SLOT_NORM,
                            .name = "post_feedforward_layernorm",
                            .optional = true,
                            .rows = mc_block_hidden,
                            .gguf = "post_ffw_norm"},
    [MC_MLP_UP] = {.name = "mlp.up_proj",
                   .rows = width,
                   .columns = mc_block_hidden,
                   .gguf = "ffn_up"},
    [MC_MLP_DOWN] = {.name = "mlp.down_proj",
                     .rows = mc_block_hidden,
                     .columns = width,
                     .sensitive = true,
                     .gguf = "ffn_down"},
};

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    x = mc_block_apply(p, at, MC_MLP_UP, x);
    return mc_block_apply(p, at, MC_MLP_DOWN, mc_block_activate(p, at->spec->gated.activation, x));
}

const mc_block mc_block_mlp = {
    .name = "mlp",
    .slots = slots,
    .n_slots = MC_MLP_SLOTS,
    .forward = forward,
    .kept = kept,
};

/* The gated MLP: down(activation(gate x) * up x); without a gate down(activation(up x)).
 *
 * Source: Shazeer 2020 (arXiv:2002.05202); Vaswani et al. 2017 (arXiv:1706.03762). */
#include "model/pass.h"

static int64_t width(const mc_block_spec *b) {
    return b->gated.width;
}

static int64_t twice_width(const mc_block_spec *b) {
    return 2 * b->gated.width;
}

static int64_t kept(const mc_block_spec *b) {
    bool gated = b->names[MC_GATED_GATE] || b->names[MC_GATED_GATE_UP];
    return gated ? 4 * b->hidden + 4 * b->gated.width : 3 * b->hidden + 2 * b->gated.width;
}

static const mc_slot slots[MC_GATED_SLOTS] = {
    [MC_BLOCK_NORM] = {.kind = MC_SLOT_NORM,
                       .name = "post_attention_layernorm",
                       .rows = mc_block_hidden,
                       .gguf = "ffn_norm"},
    [MC_BLOCK_POST_NORM] = {.kind = MC_SLOT_NORM,
                            .name = "post_feedforward_layernorm",
                            .optional = true,
                            .rows = mc_block_hidden,
                            .gguf = "post_ffw_norm"},
    [MC_GATED_GATE] = {.name = "mlp.gate_proj",
                       .rows = width,
                       .columns = mc_block_hidden,
                       .gguf = "ffn_gate"},
    [MC_GATED_UP] = {.name = "mlp.up_proj",
                     .rows = width,
                     .columns = mc_block_hidden,
                     .gguf = "ffn_up"},
    [MC_GATED_DOWN] = {.name = "mlp.down_proj",
                       .rows = mc_block_hidden,
                       .columns = width,
                       .sensitive = true,
                       .gguf = "ffn_down"},
    [MC_GATED_GATE_UP] = {.name = "mlp.gate_up_proj",
                          .optional = true,
                          .rows = twice_width,
                          .columns = mc_block_hidden,
                          .gguf = "ffn_up"},
};

/* *gate is MICA_NONE if there is none. */
static void project(const mc_lm_pass *p, const mc_block_at *at, mica_array x, mica_array *gate,
                    mica_array *up) {
    int64_t n = width(at->spec);
    if (!mc_block_has(at, MC_GATED_GATE_UP)) {
        *gate =
            mc_block_has(at, MC_GATED_GATE) ? mc_block_apply(p, at, MC_GATED_GATE, x) : MICA_NONE;
        *up = mc_block_apply(p, at, MC_GATED_UP, x);
        return;
    }
    mica_array both = mc_block_apply(p, at, MC_GATED_GATE_UP, x);
    *gate = mc_block_part(p, both, 0, n);
    *up = mc_block_part(p, both, n, 2 * n);
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array gate, up;
    project(p, at, x, &gate, &up);
    int64_t activation = at->spec->gated.activation;
    if (mica_valid(gate))
        up = mica_multiply(p->s, mc_block_activate(p, activation, gate), up);
    else
        up = mc_block_activate(p, activation, up);
    return mc_block_apply(p, at, MC_GATED_DOWN, up);
}

const mc_block mc_block_gated = {
    .name = "gated",
    .slots = slots,
    .n_slots = MC_GATED_SLOTS,
    .forward = forward,
    .kept = kept,
};

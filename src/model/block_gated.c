/* The gated MLP: down(activation(gate x) * up x); without a gate down(activation(up x)). Gates may
 * be sparse: then what is below a quantile of a token's gates is 0, and the rest less by it.
 *
 * Source: Shazeer 2020 (arXiv:2002.05202); Vaswani et al. 2017 (arXiv:1706.03762). */
#include "model/pass.h"

#include <math.h>

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

/* A sparse token's gates are counted together. */
static bool divide(mc_block_spec *b, int64_t ranks) {
    if (b->gated.width % ranks != 0 || b->gated.sparse > 0) return false;
    b->gated.width /= ranks;
    return true;
}

static const mc_slot slots[MC_GATED_SLOTS] = {
    MC_BLOCK_NORMS("post_attention_layernorm", "ffn_norm", "post_feedforward_layernorm",
                   "post_ffw_norm"),
    [MC_GATED_GATE] = MC_MATRIX("mlp.gate_proj", width, mc_block_hidden, .split = MC_SPLIT_KEPT,
                                .gguf = "ffn_gate"),
    [MC_GATED_UP] =
        MC_MATRIX("mlp.up_proj", width, mc_block_hidden, .split = MC_SPLIT_KEPT, .gguf = "ffn_up"),
    [MC_GATED_DOWN] = MC_MATRIX("mlp.down_proj", mc_block_hidden, width, .sensitive = true,
                                .split = MC_SPLIT_JOINED, .gguf = "ffn_down"),
    [MC_GATED_GATE_UP] = MC_MATRIX("mlp.gate_up_proj", twice_width, mc_block_hidden,
                                   .optional = true, .split = MC_SPLIT_KEPT, .first = MC_GATED_GATE,
                                   .last = MC_GATED_UP, .gguf = "ffn_up"),
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

double mc_normal_quantile(double part) {
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < part ? &low : &high) = middle;
    }
    return high;
}

/* What of the gates of a token, [..., width], is above the quantile of its own. */
static mica_array thin_out(const mc_lm_pass *p, const mc_block_at *at, mica_array gate) {
    static const int last[] = {-1};
    if (at->spec->gated.sparse <= 0) return gate;
    mica_array mean = mica_mean(p->s, gate, last, 1, true);
    mica_array bound = mica_std(p->s, gate, last, 1, true, 0);
    bound = mica_multiply(p->s, bound,
                          mica_f32(p->s, (float)mc_normal_quantile(at->spec->gated.sparse)));
    return mica_relu(p->s, mica_subtract(p->s, gate, mica_add(p->s, mean, bound)));
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array gate, up;
    project(p, at, x, &gate, &up);
    int64_t activation = at->spec->gated.activation;
    if (mica_valid(gate))
        up = mica_multiply(p->s, mc_block_activate(p, activation, thin_out(p, at, gate)), up);
    else
        up = mc_block_activate(p, activation, up);
    return mc_block_apply(p, at, MC_GATED_DOWN, up);
}

const mc_block mc_block_gated = {
    .name = "gated",
    .slots = slots,
    .n_slots = MC_GATED_SLOTS,
    .forward = forward,
    .divide = divide,
    .kept = kept,
};

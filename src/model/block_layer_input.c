/* What a token gives to the layer at hand, let through by the stream: W_p(activation(W_g x) * p).
 *
 * Source: the behaviour of transformers 5, of Gemma 3n and 4. */
#include "model/pass.h"

static int64_t width(const mc_block_spec *b) {
    return b->layer_input.width;
}

static int64_t kept(const mc_block_spec *b) {
    return 2 * b->hidden + 3 * b->layer_input.width;
}

static const mc_slot slots[MC_LAYER_INPUT_SLOTS] = {
    [MC_BLOCK_NORM] = MC_NORM("pre_per_layer_input_norm", mc_block_hidden, .optional = true),
    [MC_BLOCK_POST_NORM] =
        MC_NORM("post_per_layer_input_norm", mc_block_hidden, .gguf = "post_norm"),
    [MC_LAYER_INPUT_GATE] =
        MC_MATRIX("per_layer_input_gate", width, mc_block_hidden, .gguf = "inp_gate"),
    [MC_LAYER_INPUT_PROJECTION] =
        MC_MATRIX("per_layer_projection", mc_block_hidden, width, .gguf = "proj"),
};

mica_array mc_block_let_in(const mc_lm_pass *p, const mc_block_at *at, int gate, int projection,
                           const mc_layer_input_spec *spec, mica_array x) {
    mica_array input = mc_block_last_rows(p, p->input, x);
    mica_array open = mc_block_activate(p, spec->activation, mc_block_apply(p, at, gate, x));
    return mc_block_apply(p, at, projection, mica_multiply(p->s, open, input));
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    return mc_block_let_in(p, at, MC_LAYER_INPUT_GATE, MC_LAYER_INPUT_PROJECTION,
                           &at->spec->layer_input, x);
}

const mc_block mc_block_layer_input = {
    .name = "layer_input",
    .slots = slots,
    .n_slots = MC_LAYER_INPUT_SLOTS,
    .forward = forward,
    .kept = kept,
};

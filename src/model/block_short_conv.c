/* The short convolution: [b | c | x] = in x, out (c * conv(b * x)), a causal depthwise convolution
 * of a few taps.
 *
 * It carries the inputs of the last taps - 1 tokens. Source: the behaviour of transformers 5. */
#include "model/pass.h"

static int64_t three_hidden(const mc_block_spec *b) {
    return 3 * b->hidden;
}

static int64_t taps(const mc_block_spec *b) {
    return b->short_conv.taps;
}

static int64_t kept(const mc_block_spec *b) {
    return 9 * b->hidden;
}

static const mc_slot slots[MC_SHORT_CONV_SLOTS] = {
    MC_BLOCK_NORMS("operator_norm", "attn_norm", "post_operator_norm", NULL),
    [MC_SHORT_CONV_IN] =
        MC_MATRIX("conv.in_proj", three_hidden, mc_block_hidden, .gguf = "shortconv.in_proj"),
    [MC_SHORT_CONV_KERNEL] =
        MC_KERNEL("conv.conv", mc_block_hidden, taps, .gguf = "shortconv.conv"),
    [MC_SHORT_CONV_BIAS] = MC_VECTOR("conv.conv.bias", mc_block_hidden, .optional = true,
                                     .bare = true, .gguf = "shortconv.conv.bias"),
    [MC_SHORT_CONV_OUT] =
        MC_MATRIX("conv.out_proj", mc_block_hidden, mc_block_hidden, .gguf = "shortconv.out_proj"),
};

/* A third of x [.., 3 hidden]. */
static mica_array third(const mc_lm_pass *p, const mc_block_at *at, mica_array x, int i) {
    int64_t n = at->spec->hidden;
    return mica_slice_axis(p->s, x, -1, i * n, (i + 1) * n);
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array in = mc_block_apply(p, at, MC_SHORT_CONV_IN, x);
    mica_array y = mica_multiply(p->s, third(p, at, in, 0), third(p, at, in, 2));
    y = mc_block_convolve(p, at, MC_SHORT_CONV_KERNEL, 0, y);
    mica_array bias = at->slots[MC_SHORT_CONV_BIAS].vector;
    if (mica_valid(bias)) y = mica_add(p->s, y, bias);
    y = mica_multiply(p->s, third(p, at, in, 1), y);
    return mc_block_apply(p, at, MC_SHORT_CONV_OUT, mc_block_rows_from(p, y, at->first));
}

const mc_block mc_block_short_conv = {
    .name = "short_conv",
    .slots = slots,
    .n_slots = MC_SHORT_CONV_SLOTS,
    .state = MC_STATE_CARRIED,
    .forward = forward,
    .kept = kept,
};

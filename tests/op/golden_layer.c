/* Goldens of layers, losses, quantised values, sampling and linear equations: ops/layer.json, which
 * tools/make_layer_goldens.py makes, and ops/int8.json, of tools/make_int8_goldens.py. Backward ops
 * are held against the same gradients. */
#include <string.h>

#include "op/golden.h"

static mica_array x_of(const golden *g) {
    return golden_in(g, "x");
}

/* The result, and the gradients, if the record has them. */
static bool finish(golden *g, mica_array y, double relative) {
    if (golden_in(g, "dy").scope) return golden_differentiate(g, y, relative);
    g->out[0] = y;
    g->by_row = true;
    g->relative = relative;
    return true;
}

/* ---- attention and layers ---- */

static mica_masked_attention_options attention_options(const golden *g) {
    static const char *const names[] = {"none", "causal", "window", "custom", "bias"};
    mica_masked_attention_options o = {.softcap = (float)golden_float(g, "softcap", 0),
                                       .heads = (int)golden_int(g, "heads", 0),
                                       .window = golden_int(g, "window", 0),
                                       .mask = golden_in(g, "mask")};
    char text[64];
    int kind = 0;
    assert_true(golden_text(g, "mask", text));
    while (strcmp(names[kind], text) != 0)
        assert_true(++kind < 5);
    o.kind = (mica_mask_kind)kind;
    return o;
}

static bool run_attention(golden *g) {
    const mica_masked_attention_options o = attention_options(g);
    mica_array q = golden_in(g, "q"), k = golden_in(g, "k"), v = golden_in(g, "v");
    finish(g, mica_masked_attention(g->s, q, k, v, &o), 2e-5);
    mica_array dx[3], dy = golden_in(g, "dy");
    if (mica_masked_attention_backward(g->s, q, k, v, dy, &o, &dx[0], &dx[1], &dx[2]) != MICA_OK)
        return false;
    return golden_is_also(g, 1, dx[0]) && golden_is_also(g, 2, dx[1]) &&
           golden_is_also(g, 3, dx[2]);
}

static bool run_transformer_layer(golden *g) {
    const mica_masked_attention_options o = attention_options(g);
    const mica_layer_weights w = {
        .attention = {.qkv = golden_in(g, "wqkv"),
                      .qkv_bias = golden_in(g, "bqkv"),
                      .out = golden_in(g, "wo"),
                      .out_bias = golden_in(g, "bo")},
        .norm1 = golden_in(g, "g1"),
        .norm1_bias = golden_in(g, "b1"),
        .up = golden_in(g, "w1"),
        .up_bias = golden_in(g, "bias1"),
        .down = golden_in(g, "w2"),
        .down_bias = golden_in(g, "bias2"),
        .norm2 = golden_in(g, "g2"),
        .norm2_bias = golden_in(g, "b2"),
    };
    mica_array y = mica_transformer_layer(g->s, x_of(g), &w, MICA_ACT_GELU, 1e-5f, &o);
    return finish(g, y, 5e-5);
}

static bool run_matmul_bias_act(golden *g) {
    mica_activation act = (mica_activation)golden_int(g, "act", 0);
    mica_array y = mica_matmul_bias_act(g->s, x_of(g), golden_in(g, "w"), golden_in(g, "b"), act);
    return finish(g, y, 1e-5);
}

static bool run_residual_layer_norm(golden *g) {
    mica_array gamma = golden_in(g, "g"), beta = golden_in(g, "beta");
    return finish(g,
                  mica_residual_layer_norm(g->s, x_of(g), golden_in(g, "r"), golden_in(g, "b"),
                                           gamma, beta, 1e-5f),
                  1e-5);
}

static bool run_residual_rms_norm(golden *g) {
    return finish(g,
                  mica_residual_rms_norm(g->s, x_of(g), golden_in(g, "r"), MICA_NONE,
                                         golden_in(g, "g"), 1e-5f),
                  1e-5);
}

static bool run_swiglu(golden *g) {
    return finish(g, mica_swiglu(g->s, x_of(g), golden_bool(g, "gate_first", false)), 1e-5);
}

static bool run_lora_matmul(golden *g) {
    return finish(g,
                  mica_lora_matmul(g->s, x_of(g), golden_in(g, "w"), golden_in(g, "a"),
                                   golden_in(g, "b"), (float)golden_float(g, "scale", 1)),
                  1e-5);
}

/* ---- losses, activations, equations ---- */

static bool run_softmax_cross_entropy(golden *g) {
    int64_t ignore = golden_int(g, "ignore", 0);
    const int64_t *p = golden_has(g, "ignore") ? &ignore : NULL;
    mica_array labels = golden_in(g, "labels"), dy = golden_in(g, "dy");
    finish(g, mica_softmax_cross_entropy(g->s, x_of(g), labels, p), 1e-5);
    return golden_is_also(g, 1, mica_softmax_cross_entropy_backward(g->s, x_of(g), labels, dy, p));
}

static bool run_activate(golden *g) {
    mica_activation kind = (mica_activation)golden_int(g, "kind", 0);
    finish(g, mica_activate(g->s, kind, x_of(g)), 2e-5);
    return golden_is_also(g, 1, mica_activation_backward(g->s, kind, x_of(g), golden_in(g, "dy")));
}

static bool run_solve(golden *g) {
    return finish(g, mica_solve(g->s, golden_in(g, "a"), golden_in(g, "b")), 2e-5);
}

/* ---- quantised values ---- */

static const int *axis_of(const golden *g, int *axis) {
    *axis = (int)golden_int(g, "axis", 0);
    return golden_has(g, "axis") ? axis : NULL;
}

static bool run_fake_quantize(golden *g) {
    int axis;
    const mica_fake_quantize_options o = {.bits = (int)golden_int(g, "bits", 0),
                                          .mode = (mica_scale_mode)golden_int(g, "mode", 0),
                                          .ste = (mica_ste)golden_int(g, "ste", 0),
                                          .decay = (float)golden_float(g, "decay", 0),
                                          .wide = golden_bool(g, "wide", false),
                                          .axis = axis_of(g, &axis),
                                          .scale = golden_in(g, "scale")};
    mica_array x = x_of(g), dy = golden_in(g, "dy");
    g->out[0] = mica_fake_quantize(g->s, x, &o, &g->out[1]);
    if (mica_grad(g->s, g->out[0], dy, &x, 1, &g->out[2]) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    return golden_is_also(g, 2, mica_fake_quantize_backward(g->s, x, dy, &o));
}

static bool run_fake_quantize_lsq(golden *g) {
    int axis;
    mica_array y =
        mica_fake_quantize_lsq(g->s, x_of(g), golden_in(g, "scale"), (int)golden_int(g, "bits", 0),
                               axis_of(g, &axis), (float)golden_float(g, "k", 0));
    finish(g, y, 1e-5);
    mica_array dx, dscale;
    if (mica_fake_quantize_lsq_backward(g->s, x_of(g), golden_in(g, "scale"), golden_in(g, "dy"),
                                        (int)golden_int(g, "bits", 0), axis_of(g, &axis),
                                        (float)golden_float(g, "k", 0), &dx, &dscale) != MICA_OK)
        return false;
    return golden_is_also(g, 1, dx) && golden_is_also(g, 2, dscale);
}

static bool run_quantize_int8(golden *g) {
    int axis;
    g->out[0] = mica_quantize_int8(g->s, x_of(g), golden_in(g, "scale"), golden_in(g, "zero"),
                                   axis_of(g, &axis));
    return true;
}

static bool run_dequantize_int8(golden *g) {
    int axis;
    g->out[0] = mica_dequantize_int8(g->s, golden_in(g, "q"), golden_in(g, "scale"),
                                     golden_in(g, "zero"), axis_of(g, &axis));
    return true;
}

static mica_qmatmul_options qmatmul_options(const golden *g) {
    return (mica_qmatmul_options){.x_zero_point = (int32_t)golden_int(g, "x_zero", 0),
                                  .w_zero_point = (int32_t)golden_int(g, "w_zero", 0),
                                  .zero_point = golden_int(g, "zero", 0),
                                  .multiplier = golden_in(g, "factor")};
}

static bool run_qmatmul(golden *g) {
    const mica_qmatmul_options o = qmatmul_options(g);
    g->out[0] = mica_qmatmul(g->s, x_of(g), golden_in(g, "w"), golden_in(g, "bias"), &o);
    return true;
}

static bool run_qconv2d(golden *g) {
    const mica_qmatmul_options o = qmatmul_options(g);
    mica_conv_options conv = {.groups = golden_int(g, "groups", 0)};
    golden_ints(g, "stride", conv.stride, 2);
    golden_ints(g, "padding_lo", conv.padding_lo, 2);
    golden_ints(g, "padding_hi", conv.padding_hi, 2);
    golden_ints(g, "dilation", conv.kernel_dilation, 2);
    g->out[0] = mica_qconv2d(g->s, x_of(g), golden_in(g, "w"), golden_in(g, "bias"), &conv, &o);
    return true;
}

static bool run_dequant_matmul(golden *g) {
    const mica_weight w = {.scheme = (mica_weight_scheme)golden_int(g, "scheme", 0),
                           .codes = golden_in(g, "codes"),
                           .scale = golden_in(g, "scale"),
                           .zero_point = golden_in(g, "zero"),
                           .global = golden_in(g, "global")};
    g->out[0] = mica_weight_dequantize(g->s, &w);
    g->out[1] = mica_dequant_matmul(g->s, x_of(g), &w);
    g->by_row = true;
    g->relative = 1e-4;
    return true;
}

static bool run_sample(golden *g) {
    const mica_sample_options o = {.temperature =
                                       mica_f32(g->s, (float)golden_float(g, "temperature", 1)),
                                   .top_k = mica_i32(g->s, (int32_t)golden_int(g, "top_k", 0)),
                                   .top_p = mica_f32(g->s, (float)golden_float(g, "top_p", 1)),
                                   .min_p = mica_f32(g->s, (float)golden_float(g, "min_p", 0))};
    g->out[0] = mica_sample(g->s, golden_in(g, "key"), x_of(g), &o);
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(attention),
    ROW(transformer_layer),
    ROW(matmul_bias_act),
    ROW(residual_layer_norm),
    ROW(residual_rms_norm),
    ROW(swiglu),
    ROW(lora_matmul),
    ROW(softmax_cross_entropy),
    ROW(activate),
    ROW(solve),
    ROW(fake_quantize),
    ROW(fake_quantize_lsq),
    ROW(quantize_int8),
    ROW(dequantize_int8),
    ROW(qmatmul),
    ROW(dequant_matmul),
    ROW(sample),
};

const golden_group golden_layer = {"layer", rows, sizeof rows / sizeof *rows, NULL};

static const golden_row int8_rows[] = {
    ROW(qmatmul),
    ROW(qconv2d),
};
const golden_group golden_int8 = {"int8", int8_rows, sizeof int8_rows / sizeof *int8_rows, NULL};

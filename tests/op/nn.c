/* What the ops of mica/nn.h refuse, and their edges. Their goldens are those of
 * tests/op/golden_nn.c. */
#include "op/floats.h"

#define ONES(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_F32)
#define INTS(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_I32)

static void norms_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array none = MICA_NONE;
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 4, 0), MICA_ESHAPE,
                   "group_norm: f32[2,6] in 4 groups");
    expect_failure(&b, mica_group_norm(b.s, ONES(6), none, none, 2, 0), MICA_ESHAPE, "f32[6]");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 0, 0), MICA_EINVAL, "0 groups");
    expect_failure(&b, mica_group_norm(b.s, INTS(2, 6), none, none, 2, 0), MICA_EDTYPE, "i32[2,6]");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), ONES(3), none, 2, 0), MICA_ESHAPE,
                   "f32[3] for the channels");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 2, -1), MICA_EINVAL, "eps");
    expect_failure(&b, mica_layer_norm_axis(b.s, ONES(2, 6), none, none, 2, 0), MICA_EINVAL,
                   "there is no axis 2");
    expect_failure(&b, mica_rms_norm_axis(b.s, ONES(2, 6), ONES(6), 0, 0), MICA_ESHAPE, "f32[6]");
    bench_close(&b);
}

static void positions_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(4, 4), ONES(4, 4)), MICA_ESHAPE,
                   "a row for each position");
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(5, 5), ONES(5, 5)), MICA_ESHAPE,
                   "rope_tables");
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(5, 4), ONES(6, 4)), MICA_ESHAPE,
                   "rope_tables");
    expect_failure(&b, mica_rope_tables(b.s, INTS(5, 8), ONES(5, 4), ONES(5, 4)), MICA_EDTYPE,
                   "not a float");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 8), 3, 5, NULL), MICA_ESHAPE, "3 by 5");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 6), 3, 4, NULL), MICA_ESHAPE, "3 by 4");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 8), INT64_MAX, INT64_MAX, NULL), MICA_ESHAPE,
                   "axial_rope2d");
    expect_failure(&b, mica_resize_nearest2x(b.s, ONES(12)), MICA_ESHAPE, "two axes");
    bench_close(&b);
}

static void linear_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_linear_weights w = {0};
    expect_failure(&b, mica_linear(b.s, ONES(2, 4), NULL), MICA_EINVAL, "linear: the weights");
    expect_failure(&b, mica_embedding(b.s, INTS(2), NULL), MICA_EINVAL, "embedding: the weights");
    expect_failure(&b, mica_linear(b.s, ONES(2, 4), &w), MICA_EINVAL, "the invalid array");
    expect_failure(&b, mica_embedding(b.s, INTS(2), &w), MICA_EINVAL, "the invalid array");
    w.weight = ONES(3, 4);
    expect_failure(&b, mica_linear(b.s, ONES(2, 5), &w), MICA_ESHAPE, "matmul");
    w.weight = ONES(3, 4);
    expect_failure(&b, mica_embedding(b.s, ONES(2), &w), MICA_EDTYPE, "take");
    w = (mica_linear_weights){.weight = mica_astype(b.s, ONES(3, 8), MICA_U32),
                              .scales = ONES(3, 2),
                              .biases = ONES(3, 2),
                              .quant = {MICA_QUANT_AFFINE, 4, 32}};
    expect_failure(&b, mica_linear(b.s, ONES(2, 5), &w), MICA_ESHAPE, "quantized_matmul");
    bench_close(&b);
}

static void refuse_sample(bench *b, const float *logits, const mica_sample_options *o,
                          const char *part) {
    mica_array x = f32s(b->s, logits, SHAPE(2, 3));
    expect_eval_failure(b, mica_sample(b->s, mica_random_key(b->s, 1), x, o), MICA_EINVAL, part);
}

static void sample_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_sample_options none = {0};
    refuse_sample(&b, (float[]){0, 0, 0, 1, NAN, 1}, &none, "sample: row 1 of logits has NaN");
    refuse_sample(&b, (float[]){-INFINITY, -INFINITY, -INFINITY, 1, 2, 1}, &none, "sample: row 0");
    mica_sample_options o = {.temperature = mica_f32(b.s, -1)};
    refuse_sample(&b, (float[]){0, 0, 0, 1, 2, 1}, &o, "sample: row 0 has a temperature");
    o.temperature = f32s(b.s, (float[]){1, NAN}, SHAPE(2));
    refuse_sample(&b, (float[]){0, 0, 0, 1, 2, 1}, &o, "sample: row 1 has a temperature");
    o = (mica_sample_options){.top_p = ONES(3)};
    mica_array x = ONES(2, 3), key = mica_random_key(b.s, 1);
    expect_failure(&b, mica_sample(b.s, key, x, &o), MICA_ESHAPE, "top_p is f32[3]");
    key = mica_zeros(b.s, SHAPE(3, 2), MICA_U32);
    expect_failure(&b, mica_sample(b.s, key, ONES(2, 3), NULL), MICA_ESHAPE, "a key u32[3,2]");
    key = mica_random_key(b.s, 1);
    expect_failure(&b, mica_sample(b.s, key, INTS(2, 3), NULL), MICA_EDTYPE, "logits i32[2,3]");
    key = mica_random_key(b.s, 1);
    expect_failure(&b, mica_sample(b.s, key, ONES(2, 0), NULL), MICA_ESHAPE, "no token");
    bench_close(&b);
}

static void expect_ids(mica_array ids, const int32_t *want, int64_t n) {
    expect_i32(ids, want, &n, 1);
}

/* Options and keys of each row; without filters what random_categorical draws. */
static void sample_by_rows(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(5, 40), 3), key = mica_random_key(b.s, 9);
    mica_array all = mica_sample(b.s, key, x, NULL);
    int32_t drawn[5];
    assert_int_equal(mica_read(all, drawn, sizeof drawn), MICA_OK);
    mica_array same = mica_astype(b.s, mica_random_categorical(b.s, key, x, 0), MICA_I32);
    expect_ids(same, drawn, 5);
    mica_array keys = mica_random_split(b.s, key, 5);
    mica_sample_options o = {.temperature = f32s(b.s, (float[]){0, 1, 0.5f, 2, 1}, SHAPE(5)),
                             .top_k = i32s(b.s, (int32_t[]){0, 1, 3, 0, 9}, SHAPE(5))};
    mica_array ids = mica_sample(b.s, keys, x, &o);
    int32_t got[5];
    assert_int_equal(mica_read(ids, got, sizeof got), MICA_OK);
    mica_array best = mica_astype(b.s, mica_argmax(b.s, x, -1, false), MICA_I32);
    int32_t largest[5];
    assert_int_equal(mica_read(best, largest, sizeof largest), MICA_OK);
    assert_int_equal(got[0], largest[0]);
    assert_int_equal(got[1], largest[1]);
    for (int64_t i = 2; i < 5; i++) { /* as each row alone */
        const int64_t two = 2;
        mica_sample_options one = {.temperature = mica_slice_axis(b.s, o.temperature, 0, i, i + 1),
                                   .top_k = mica_slice_axis(b.s, o.top_k, 0, i, i + 1)};
        mica_array row = mica_slice_axis(b.s, x, 0, i, i + 1);
        mica_array own = mica_reshape(b.s, mica_slice_axis(b.s, keys, 0, i, i + 1), &two, 1);
        expect_ids(mica_sample(b.s, own, row, &one), &got[i], 1);
    }
    bench_close(&b);
}

static void quantised_values_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    const int two = 2, one = 1;
    mica_array none = MICA_NONE;
    mica_array scale = f32s(b.s, (float[]){1, 0, 2}, SHAPE(3));
    expect_eval_failure(&b, mica_quantize_int8(b.s, ONES(2, 3), scale, none, &one), MICA_EINVAL,
                        "quantize_int8: scale 1 is not above 0");
    expect_failure(&b, mica_quantize_int8(b.s, ONES(2, 3), ONES(2), none, &one), MICA_ESHAPE,
                   "the scale is f32[2]");
    expect_failure(&b, mica_quantize_int8(b.s, ONES(2, 3), ONES(2), none, &two), MICA_EINVAL,
                   "there is no axis 2");
    expect_failure(&b, mica_quantize_int8(b.s, INTS(2, 3), ONES(1), none, NULL), MICA_EDTYPE,
                   "i32[2,3]");
    expect_failure(&b, mica_dequantize_int8(b.s, INTS(2, 3), ONES(1), none, NULL), MICA_EDTYPE,
                   "not i8");
    expect_failure(&b, mica_qmatmul(b.s, ONES(2, 3), ONES(3, 2), none, NULL), MICA_EDTYPE,
                   "are not i8");
    mica_array q = mica_zeros(b.s, SHAPE(1, 4, 5, 5), MICA_I8);
    mica_array w3 = mica_zeros(b.s, SHAPE(6, 3, 2, 2), MICA_I8);
    expect_failure(&b, mica_qconv2d(b.s, q, w3, none, NULL, NULL), MICA_ESHAPE,
                   "qconv2d: w i8[6,3,2,2] does not fit x i8[1,4,5,5] in 1 groups");
    q = mica_zeros(b.s, SHAPE(1, 4, 5, 5), MICA_I8);
    w3 = mica_zeros(b.s, SHAPE(6, 1, 2, 2), MICA_I8);
    const mica_conv_options groups = {.groups = 4}, back = {.groups = -1};
    expect_failure(&b, mica_qconv2d(b.s, q, w3, none, &groups, NULL), MICA_ESHAPE, "in 4 groups");
    q = mica_zeros(b.s, SHAPE(1, 4, 5, 5), MICA_I8);
    expect_failure(&b, mica_qconv2d(b.s, q, q, none, &back, NULL), MICA_ESHAPE, "-1 groups");
    q = mica_zeros(b.s, SHAPE(1, 4, 5), MICA_I8);
    expect_failure(&b, mica_qconv2d(b.s, q, q, none, NULL, NULL), MICA_ESHAPE, "qconv2d");
    expect_failure(&b, mica_qconv2d(b.s, ONES(1, 1, 2, 2), ONES(1, 1, 2, 2), none, NULL, NULL),
                   MICA_EDTYPE, "are not i8");
    q = mica_zeros(b.s, SHAPE(1, 1, 5, 5), MICA_I8);
    mica_qmatmul_options far = {.x_zero_point = INT32_MIN};
    expect_failure(&b, mica_qconv2d(b.s, q, q, none, NULL, &far), MICA_EINVAL, "-255 to 255");
    q = mica_zeros(b.s, SHAPE(1, 1, 5, 5), MICA_I8);
    expect_failure(&b, mica_qconv2d(b.s, q, q, ONES(1), NULL, NULL), MICA_EDTYPE, "bias");
    mica_fake_quantize_options o = {.bits = 9};
    expect_failure(&b, mica_fake_quantize(b.s, ONES(2), &o, NULL), MICA_EINVAL, "9 bits");
    o = (mica_fake_quantize_options){.mode = MICA_SCALE_FIXED, .scale = ONES(3)};
    expect_failure(&b, mica_fake_quantize(b.s, ONES(2), &o, NULL), MICA_ESHAPE,
                   "the scale is f32[3]");
    o = (mica_fake_quantize_options){.mode = (mica_scale_mode)7};
    expect_failure(&b, mica_fake_quantize(b.s, ONES(2), &o, NULL), MICA_EINVAL, "mode 7");
    o = (mica_fake_quantize_options){.mode = MICA_SCALE_EMA, .decay = 2, .scale = ONES(1)};
    expect_failure(&b, mica_fake_quantize(b.s, ONES(2), &o, NULL), MICA_EINVAL, "decay 2");
    expect_failure(&b, mica_fake_quantize_lsq(b.s, INTS(2), ONES(1), 8, NULL, 0), MICA_EDTYPE,
                   "i32[2]");
    mica_weight w = {.scheme = MICA_WEIGHT_Q4_K, .codes = mica_zeros(b.s, SHAPE(2, 145), MICA_U8)};
    expect_failure(&b, mica_weight_dequantize(b.s, &w), MICA_ESHAPE, "whole blocks");
    w = (mica_weight){.scheme = MICA_WEIGHT_INT8, .codes = mica_zeros(b.s, SHAPE(4, 3), MICA_I8)};
    expect_failure(&b, mica_weight_dequantize(b.s, &w), MICA_EDTYPE, "the scale is absent");
    w.codes = mica_zeros(b.s, SHAPE(4, 3), MICA_I8);
    w.scale = ONES(3, 3);
    expect_failure(&b, mica_weight_dequantize(b.s, &w), MICA_ESHAPE, "the scale is f32[3,3]");
    w.codes = ONES(4, 3);
    expect_failure(&b, mica_weight_dequantize(b.s, &w), MICA_EDTYPE, "codes is f32[4,3]");
    w.codes = mica_zeros(b.s, SHAPE(4, 3), MICA_U8);
    w.scheme = (mica_weight_scheme)40;
    expect_failure(&b, mica_weight_dequantize(b.s, &w), MICA_EINVAL, "no scheme 40");
    bench_close(&b);
}

/* NaN gives the zero point or stays, infinities the ends; gradients are finite. */
static void quantised_edges(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){NAN, INFINITY, -INFINITY, 0.5f, 1.5f}, SHAPE(5));
    mica_array zero = mica_astype(b.s, mica_i32(b.s, 3), MICA_I8);
    mica_array q = mica_quantize_int8(b.s, x, mica_f32(b.s, 1), zero, NULL);
    const int32_t want[5] = {3, 127, -128, 3, 5};
    expect_i32(mica_astype(b.s, q, MICA_I32), want, SHAPE(5));
    for (int ste = 0; ste < 4; ste++) {
        mica_fake_quantize_options o = {
            .bits = 8, .mode = MICA_SCALE_FIXED, .ste = (mica_ste)ste, .scale = ONES(1)};
        mica_array y = mica_fake_quantize(b.s, x, &o, NULL), dx;
        expect_f32(y, (float[]){NAN, 127, -127, 0, 2}, SHAPE(5), 0);
        assert_int_equal(mica_grad(b.s, y, ONES(5), &x, 1, &dx), MICA_OK);
        float *values = read_f32(dx);
        for (int i = 0; i < 5; i++)
            assert_true(isfinite(values[i]));
        free(values);
    }
    bench_close(&b);
}

static void layers_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    mica_masked_attention_options o = {.kind = MICA_MASK_WINDOW};
    mica_array x = ONES(1, 2, 3, 4);
    expect_failure(&b, mica_masked_attention(b.s, x, x, x, &o), MICA_EINVAL, "a window of 0 keys");
    x = ONES(1, 2, 3, 4);
    o = (mica_masked_attention_options){.kind = MICA_MASK_CUSTOM, .mask = ONES(3)};
    expect_failure(&b, mica_masked_attention(b.s, x, x, x, &o), MICA_ESHAPE, "a mask f32[3]");
    x = ONES(1, 2, 3, 4);
    o = (mica_masked_attention_options){.kind = MICA_MASK_BIAS, .mask = INTS(3, 3)};
    expect_failure(&b, mica_masked_attention(b.s, x, x, x, &o), MICA_EDTYPE, "a bias");
    x = ONES(1, 2, 3, 4);
    o = (mica_masked_attention_options){.kind = (mica_mask_kind)9};
    expect_failure(&b, mica_masked_attention(b.s, x, x, x, &o), MICA_EINVAL, "no mask 9");
    x = ONES(1, 2, 9);
    o = (mica_masked_attention_options){.heads = 2};
    expect_failure(&b, mica_masked_attention(b.s, x, x, x, &o), MICA_ESHAPE, "in 2 heads");
    expect_failure(&b, mica_swiglu(b.s, ONES(2, 3), false), MICA_ESHAPE, "is not even");
    expect_failure(&b, mica_activate(b.s, (mica_activation)99, ONES(2)), MICA_EINVAL,
                   "no activation 99");
    expect_failure(&b, mica_transformer_layer(b.s, ONES(2), NULL, MICA_ACT_RELU, 0, NULL),
                   MICA_EINVAL, "the weights are NULL");
    mica_array labels = i32s(b.s, (int32_t[]){0, -1}, SHAPE(2));
    expect_eval_failure(&b, mica_softmax_cross_entropy(b.s, ONES(2, 3), labels, NULL), MICA_EINVAL,
                        "label 1 is negative");
    labels = i32s(b.s, (int32_t[]){0, 3}, SHAPE(2));
    expect_eval_failure(&b, mica_softmax_cross_entropy(b.s, ONES(2, 3), labels, NULL), MICA_EINVAL,
                        "index 3");
    expect_failure(&b, mica_softmax_cross_entropy(b.s, ONES(2, 3), ONES(2), NULL), MICA_EDTYPE,
                   "labels of f32");
    mica_array dx;
    x = ONES(2, 3);
    assert_int_equal(mica_layer_norm_backward(b.s, x, ONES(4), x, 0, &dx, NULL, NULL), MICA_ESHAPE);
    expect_failure(&b, dx, MICA_ESHAPE, "layer_norm");
    bench_close(&b);
}

static void solve_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array a =
        mica_stack(b.s, (mica_array[]){mica_eye(b.s, 3, 3, 0, MICA_F32), ONES(3, 3)}, 2, 0);
    expect_eval_failure(&b, mica_solve(b.s, a, ONES(3)), MICA_EINVAL,
                        "matrix 1 of the batch is singular");
    expect_failure(&b, mica_solve(b.s, ONES(3, 4), ONES(3)), MICA_ESHAPE, "dense_solve");
    expect_failure(&b, mica_solve(b.s, ONES(3), ONES(3)), MICA_ESHAPE, "solve: f32[3]");
    expect_failure(&b, mica_solve(b.s, INTS(3, 3), ONES(3)), MICA_EDTYPE, "dense_solve");
    bench_close(&b);
}

/* Backward ops whose op has its goldens elsewhere. */
static void backward_ops(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){-1, 0, NAN, 2, 3, 4}, SHAPE(2, 3)), dx[3], grads[3];
    mica_array dy = f32s(b.s, (float[]){1, 2, 3, 4, 5, 6}, SHAPE(2, 3));
    expect_f32(mica_relu_backward(b.s, x, dy), (float[]){0, 0, 0, 4, 5, 6}, SHAPE(2, 3), 0);
    expect_f32(mica_activation_backward(b.s, MICA_ACT_ROUND, x, dy), (float[]){1, 2, 3, 4, 5, 6},
               SHAPE(2, 3), 0);
    expect_f32(mica_cumsum_backward(b.s, dy, 1, false, true), (float[]){6, 5, 3, 15, 11, 6},
               SHAPE(2, 3), 0);
    expect_f32(mica_cumsum_backward(b.s, dy, 1, false, false), (float[]){5, 3, 0, 11, 6, 0},
               SHAPE(2, 3), 0);
    mica_array at = i32s(b.s, (int32_t[]){1, 1, -3}, SHAPE(3));
    expect_f32(mica_take_backward(b.s, x, at, dy, 1), (float[]){3, 3, 0, 6, 9, 0}, SHAPE(2, 3), 0);
    x = noise(b.s, SHAPE(3, 8), 1);
    dy = noise(b.s, SHAPE(3, 8), 2);
    mica_array gamma = noise(b.s, SHAPE(8), 3), beta = mica_zeros(b.s, SHAPE(8), MICA_F32);
    const mica_array xs[3] = {x, gamma, beta};
    for (int kind = 0; kind < 3; kind++) {
        mica_array y = kind == 0   ? mica_layer_norm(b.s, x, gamma, beta, 1e-5f)
                       : kind == 1 ? mica_rms_norm(b.s, x, gamma, 1e-5f)
                                   : mica_group_norm(b.s, x, gamma, beta, 2, 1e-5f);
        mica_status status =
            kind == 0   ? mica_layer_norm_backward(b.s, x, gamma, dy, 1e-5f, dx, dx + 1, dx + 2)
            : kind == 1 ? mica_rms_norm_backward(b.s, x, gamma, dy, 1e-5f, dx, dx + 1)
                        : mica_group_norm_backward(b.s, x, gamma, dy, 2, 1e-5f, dx, dx + 1, dx + 2);
        size_t n = kind == 1 ? 2 : 3;
        assert_int_equal(status, MICA_OK);
        assert_int_equal(mica_grad(b.s, y, dy, xs, n, grads), MICA_OK);
        for (size_t i = 0; i < n; i++)
            expect_same(dx[i], grads[i]);
    }
    mica_array cos = noise(b.s, SHAPE(3, 4), 4), sin = noise(b.s, SHAPE(3, 4), 5);
    assert_int_equal(mica_grad(b.s, mica_rope_tables(b.s, x, cos, sin), dy, &x, 1, grads), MICA_OK);
    mica_array difference =
        mica_subtract(b.s, mica_rope_tables_backward(b.s, dy, cos, sin), grads[0]);
    float *off = read_f32(difference);
    for (int i = 0; i < 24; i++)
        assert_true(fabsf(off[i]) < 1e-5f);
    free(off);
    bench_close(&b);
}

/* Of each kind of composition, and of each op that has a kernel of its own, one. */
static bool compute(void *arg) {
    bench *b = arg;
    mica_scope *s = NULL;
    if (mica_scope_open(b->device, &s) != MICA_OK) return false;
    mica_array x = mica_reshape(s, mica_arange(s, 0, 1, 0.0625, MICA_F32), SHAPE(1, 4, 4)), last;
    mica_array xs[2] = {x, x}, y[6], dx;
    y[0] = mica_einsum(s, "bij,bjk->bik", xs, 2);
    y[1] = mica_selective_scan(s, x, x, mica_squeeze(s, x, 0), x, x, NULL, &last);
    y[2] = mica_sample(s, mica_random_key(s, 1), x, NULL);
    y[3] = mica_solve(s, mica_add(s, x, mica_eye(s, 4, 4, 0, MICA_F32)), x);
    y[4] = mica_fake_quantize(s, x, NULL, NULL);
    mica_array sum = mica_sum(s, mica_multiply(s, y[1], y[4]), NULL, 0, false);
    bool good = mica_grad(s, sum, MICA_NONE, &x, 1, &dx) == MICA_OK;
    y[5] = dx;
    good = good && mica_eval_n(s, y, 6) == MICA_OK;
    mica_scope_close(&s);
    test_forget_plans(b->device);
    return good;
}

static void each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    bench b = bench_open_with(&(mica_device_options){.threads = 1});
    assert_true(test_fail_each_allocation(compute, &b) > 20);
    bench_close(&b);
}

/* Empty arrays are legal everywhere. */
static void empty(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array none = MICA_NONE;
    mica_array results[] = {
        mica_elu(b.s, ONES(0), 1),
        mica_group_norm(b.s, ONES(0, 4, 3), none, none, 2, 1e-5f),
        mica_group_norm(b.s, ONES(2, 4, 0), none, none, 2, 1e-5f),
        mica_rope_tables(b.s, ONES(2, 0, 4), ONES(3, 2), ONES(3, 2)),
        mica_axial_rope2d(b.s, ONES(0, 8), 0, 4, NULL),
        mica_resize_nearest2x(b.s, ONES(0, 4)),
        mica_sample(b.s, mica_random_key(b.s, 1), ONES(0, 4), NULL),
        mica_quantize_int8(b.s, ONES(0, 4), ONES(1), none, NULL),
        mica_fake_quantize(b.s, ONES(0, 4), NULL, NULL),
        mica_fake_quantize_lsq(b.s, ONES(0, 4), ONES(1), 4, NULL, 0),
        mica_swiglu(b.s, ONES(3, 0), false),
        mica_softmax_cross_entropy(b.s, ONES(0, 4), INTS(0), NULL),
        mica_solve(b.s, ONES(0, 3, 3), ONES(0, 3)),
        mica_solve(b.s, ONES(0, 0), ONES(0)),
        mica_weight_dequantize(b.s, &(mica_weight){.scheme = MICA_WEIGHT_Q6_K,
                                                   .codes = mica_zeros(b.s, SHAPE(3, 0), MICA_U8)}),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (!mica_valid(results[i])) fail_msg("%zu: %s", i, mica_last_error());
        assert_int_equal(mica_array_size(results[i]), 0);
        if (mica_eval(b.s, results[i]) != MICA_OK) fail_msg("%zu: %s", i, mica_last_error());
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_refuse),          cmocka_unit_test(positions_refuse),
        cmocka_unit_test(linear_refuses),        cmocka_unit_test(sample_refuses),
        cmocka_unit_test(sample_by_rows),        cmocka_unit_test(quantised_values_refuse),
        cmocka_unit_test(quantised_edges),       cmocka_unit_test(layers_refuse),
        cmocka_unit_test(solve_refuses),         cmocka_unit_test(backward_ops),
        cmocka_unit_test(each_allocation_fails), cmocka_unit_test(empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

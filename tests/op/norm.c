/* rms_norm and layer_norm: compared with their decompositions, in place, with any strides. */
#include "op/fused.h"

static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
static const double slack[] = {1e-6, 1e-3, 8e-3};

static void as_decomposed(void **state) {
    (void)state;
    bench b = bench_open();
    for (int d = 0; d < 3; d++) {
        mica_array x = noise(b.s, 1, dtypes[d], SHAPE(3, 5, 67));
        mica_array w = noise(b.s, 2, dtypes[d], SHAPE(67)), c = noise(b.s, 3, dtypes[d], SHAPE(67));
        mica_array results[] = {
            mica_rms_norm(b.s, x, w, 1e-5f),
            mica_rms_norm(b.s, x, MICA_NONE, 1e-5f),
            mica_layer_norm(b.s, x, w, c, 1e-5f),
            mica_layer_norm(b.s, x, w, MICA_NONE, 1e-5f),
            mica_layer_norm(b.s, x, MICA_NONE, c, 1e-5f),
            mica_layer_norm(b.s, x, MICA_NONE, MICA_NONE, 1e-5f),
            mica_rms_norm(b.s, mica_swapaxes(b.s, mica_swapaxes(b.s, x, 0, 2), 0, 2), w, 1e-5f),
        };
        for (size_t i = 0; i < sizeof results / sizeof *results; i++)
            expect_near(b.s, results[i], decomposed(b.s, results[i]), slack[d]);
    }
    bench_close(&b);
}

static void known_values(void **state) {
    (void)state;
    bench b = bench_open();
    const float values[] = {3, 4, 0, 0};
    mica_array x = mica_from_data(b.s, values, MICA_F32, SHAPE(1, 4));
    float *y = floats_of(b.s, mica_rms_norm(b.s, x, MICA_NONE, 0));
    assert_float_equal(y[0], 1.2f, 1e-6f); /* rms 2.5 */
    assert_float_equal(y[1], 1.6f, 1e-6f);
    free(y);
    y = floats_of(b.s, mica_layer_norm(b.s, x, MICA_NONE, MICA_NONE, 0));
    assert_float_equal(y[0] + y[1] + y[2] + y[3], 0, 1e-6f);
    assert_float_equal(y[0] * y[0] + y[1] * y[1] + y[2] * y[2] + y[3] * y[3], 4, 1e-5f);
    free(y);
    bench_close(&b);
}

static void strided_columns_and_mixed_dtypes(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_swapaxes(b.s, noise(b.s, 4, MICA_BF16, SHAPE(40, 6)), 0, 1);
    mica_array w = mica_flip(b.s, noise(b.s, 5, MICA_F32, SHAPE(40)), 0);
    mica_array y = mica_rms_norm(b.s, x, w, 1e-6f);
    expect_shape(y, MICA_F32, SHAPE(6, 40));
    expect_near(b.s, y, decomposed(b.s, y), 1e-6);
    bench_close(&b);
}

static void rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 6, MICA_F32, SHAPE(500, 130));
    mica_array all = mica_rms_norm(b.s, x, MICA_NONE, 1e-6f);
    mica_array one = mica_rms_norm(b.s, mica_slice_axis(b.s, x, 0, 77, 78), MICA_NONE, 1e-6f);
    expect_same(b.s, one, mica_slice_axis(b.s, all, 0, 77, 78));
    bench_close(&b);
}

/* The gradient by x of a norm, as the node of its op. */
static mica_array gradient(bench *b, mica_array y, mica_array dy, mica_array x) {
    mica_array dx;
    if (mica_grad(b->s, y, dy, &x, 1, &dx) != MICA_OK) fail_msg("%s", mica_last_error());
    return dx;
}

/* With and without weights, of all dtypes, lying as they like; tests/grad/ops.c compares with
 * differences. */
static void gradients_as_decomposed(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < 12; i++) {
        const mica_dtype dtype = dtypes[i % 3];
        const bool weighted = i / 3 % 2, centred = i / 6;
        mica_array x = mica_swapaxes(b.s, noise(b.s, 1, dtype, SHAPE(5, 67, 3)), 1, 2);
        mica_array w = weighted ? noise(b.s, 2, dtype, SHAPE(67)) : MICA_NONE;
        mica_array y =
            centred ? mica_layer_norm(b.s, x, w, w, 1e-5f) : mica_rms_norm(b.s, x, w, 1e-5f);
        mica_array dx =
            gradient(&b, y, mica_flip(b.s, noise(b.s, 3, dtype, SHAPE(5, 3, 67)), 2), x);
        assert_int_equal(mc_node_of(dx)->op,
                         centred ? MC_OP_LAYER_NORM_GRADIENT : MC_OP_RMS_NORM_GRADIENT);
        expect_shape(dx, dtype, SHAPE(5, 3, 67));
        expect_near(b.s, dx, decomposed(b.s, dx), 2 * slack[i % 3]);
    }
    bench_close(&b);
}

/* By hand, of [3, 4] without eps: r^2 = 2 / 25, dx = r (g - x r^2 (g x) / 2). */
static void known_gradients(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_from_data(b.s, (const float[]){3, 4}, MICA_F32, SHAPE(2));
    mica_array dy = mica_from_data(b.s, (const float[]){1, 0}, MICA_F32, SHAPE(2));
    float *dx = floats_of(b.s, gradient(&b, mica_rms_norm(b.s, x, MICA_NONE, 0), dy, x));
    const double r = 1 / sqrt(12.5);
    assert_float_equal(dx[0], (float)(r * (1 - 3 * 3 / 25.0)), 1e-6f);
    assert_float_equal(dx[1], (float)(r * (0 - 4 * 3 / 25.0)), 1e-6f);
    free(dx);
    x = mica_zeros(b.s, SHAPE(0, 3), MICA_F32);
    assert_int_equal(mica_eval(b.s, x), MICA_OK);
    dx = floats_of(b.s, gradient(&b, mica_rms_norm(b.s, x, MICA_NONE, 0), x, x));
    free(dx);
    bench_close(&b);
}

static void edges_and_errors(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_ones(b.s, SHAPE(0, 3), MICA_F32);
    mica_array y = mica_rms_norm(b.s, x, MICA_NONE, 1e-6f);
    expect_shape(y, MICA_F32, SHAPE(0, 3));
    assert_int_equal(mica_eval(b.s, y), MICA_OK);
    mica_array w = mica_ones(b.s, SHAPE(4), MICA_F32);
    expect_failure(&b, mica_rms_norm(b.s, x, w, 1e-6f), MICA_ESHAPE, "rms_norm: f32[4]");
    x = mica_ones(b.s, SHAPE(2), MICA_I32);
    expect_failure(&b, mica_layer_norm(b.s, x, MICA_NONE, MICA_NONE, 0), MICA_EDTYPE, "layer_norm");
    x = mica_f32(b.s, 1);
    expect_failure(&b, mica_rms_norm(b.s, x, MICA_NONE, 0), MICA_ESHAPE, "no last axis");
    x = mica_ones(b.s, SHAPE(2), MICA_F32);
    expect_failure(&b, mica_rms_norm(b.s, x, MICA_NONE, -1), MICA_EINVAL, "eps");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_decomposed),
        cmocka_unit_test(known_values),
        cmocka_unit_test(strided_columns_and_mixed_dtypes),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(gradients_as_decomposed),
        cmocka_unit_test(known_gradients),
        cmocka_unit_test(edges_and_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

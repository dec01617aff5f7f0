/* Rotary position embedding: compared with its decomposition and with f64. */
#include "op/fused.h"

static void as_decomposed(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 1, MICA_F32, SHAPE(2, 3, 5, 24));
    const int32_t both[] = {4, 90};
    mica_array one = mica_i32(b.s, 7), each = mica_from_data(b.s, both, MICA_I32, SHAPE(2));
    mica_array freqs = mica_linspace(b.s, 1, 50, 8);
    for (int i = 0; i < 16; i++) {
        mica_rope_options options = {
            .dims = 16, .traditional = (i & 1) != 0, .base = 500, .scale = 0.5f};
        if ((i & 2) != 0) options.dims = (i & 4) != 0 ? 16 : 24;
        mica_array y =
            mica_rope(b.s, (i & 8) != 0 ? mica_swapaxes(b.s, x, 1, 2) : x,
                      (i & 2) != 0 ? each : one, (i & 4) != 0 ? freqs : MICA_NONE, &options);
        expect_near(b.s, y, decomposed(b.s, y), 2e-5);
    }
    mica_array y = mica_rope(b.s, mica_astype(b.s, x, MICA_BF16), one, MICA_NONE, NULL);
    expect_near(b.s, y, decomposed(b.s, y), 8e-3);
    bench_close(&b);
}

/* Far positions: every pair compared with cos and sin in f64. Other devices round the angle to f32,
 * which the cpu does not. */
static void far_positions(void **state) {
    (void)state;
    bench b = bench_open();
    enum { D = 64 };
    const int32_t positions[] = {0, 1, 4095, 131072, 1000003};
    for (int p = 0; p < 5; p++) {
        mica_array x = noise(b.s, 2, MICA_F32, SHAPE(1, D));
        float *in = floats_of(b.s, x);
        float *out =
            floats_of(b.s, mica_rope(b.s, x, mica_i32(b.s, positions[p]), MICA_NONE, NULL));
        for (int i = 0; i < D / 2; i++) {
            double angle = (double)positions[p] * pow(10000, -2.0 * i / D);
            double u = (double)in[i], v = (double)in[i + D / 2];
            double slack = 4e-7 + (test_device_is_other() ? 1e-6 * angle : 0);
            assert_true(fabs((double)out[i] - (u * cos(angle) - v * sin(angle))) < slack);
            assert_true(fabs((double)out[i + D / 2] - (u * sin(angle) + v * cos(angle))) < slack);
        }
        free(in);
        free(out);
    }
    bench_close(&b);
}

/* Positions one by one, as with a cache, have the bits of all at once. */
static void rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 3, MICA_F32, SHAPE(1, 4, 40, 32));
    mica_array all = mica_rope(b.s, x, mica_i32(b.s, 10), MICA_NONE, NULL);
    for (int i = 0; i < 40; i += 13) {
        mica_array one = mica_slice_axis(b.s, x, 2, i, i + 1);
        one = mica_rope(b.s, one, mica_i32(b.s, 10 + i), MICA_NONE, NULL);
        expect_same(b.s, one, mica_slice_axis(b.s, all, 2, i, i + 1));
    }
    bench_close(&b);
}

static void edges_and_errors(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_ones(b.s, SHAPE(1, 0, 8), MICA_F32), zero = mica_i32(b.s, 0);
    assert_int_equal(mica_eval(b.s, mica_rope(b.s, x, zero, MICA_NONE, NULL)), MICA_OK);
    x = mica_ones(b.s, SHAPE(2, 8), MICA_F32);
    expect_failure(&b, mica_rope(b.s, x, zero, MICA_NONE, &(mica_rope_options){.dims = 10}),
                   MICA_EINVAL, "rope: 10 elements of f32[2,8]");
    x = mica_ones(b.s, SHAPE(2, 7), MICA_F32);
    expect_failure(&b, mica_rope(b.s, x, mica_i32(b.s, 0), MICA_NONE, NULL), MICA_EINVAL, "even");
    x = mica_ones(b.s, SHAPE(2, 8), MICA_F32);
    expect_failure(&b, mica_rope(b.s, x, mica_f32(b.s, 0), MICA_NONE, NULL), MICA_EDTYPE, "i32");
    x = mica_ones(b.s, SHAPE(2, 8), MICA_F32);
    mica_array three = mica_zeros(b.s, SHAPE(3), MICA_I32);
    expect_failure(&b, mica_rope(b.s, x, three, MICA_NONE, NULL), MICA_ESHAPE, "offset is i32[3]");
    x = mica_ones(b.s, SHAPE(2, 8), MICA_F32);
    mica_array freqs = mica_ones(b.s, SHAPE(3), MICA_F32);
    expect_failure(&b, mica_rope(b.s, x, mica_i32(b.s, 0), freqs, NULL), MICA_ESHAPE, "freqs");
    bench_close(&b);
}

/* Several in one evaluation, which share equal tables, have the bits of each alone. */
static void many_at_once(void **state) {
    (void)state;
    bench b = bench_open();
    enum { N = 16 };
    const int32_t rows[] = {4, 90}, others[] = {4, 91};
    mica_array x = noise(b.s, 4, MICA_F32, SHAPE(2, 3, 5, 32)), y[N], alone[N];
    mica_array offsets[] = {mica_i32(b.s, 4), mica_i32(b.s, 5),
                            mica_from_data(b.s, rows, MICA_I32, SHAPE(2)),
                            mica_from_data(b.s, others, MICA_I32, SHAPE(2))};
    assert_int_equal(mica_eval(b.s, x), MICA_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < N; i++) {
            mica_rope_options options = {.base = (i & 4) != 0 ? 500 : 0};
            mica_array part = (i & 8) != 0 ? mica_slice_axis(b.s, x, 2, 1, 3) : x;
            y[i] = mica_rope(b.s, part, offsets[i & 3], MICA_NONE, &options);
            if (pass == 0) assert_int_equal(mica_eval(b.s, y[i]), MICA_OK);
        }
        if (pass == 0) memcpy(alone, y, sizeof y);
    }
    assert_int_equal(mica_eval_n(b.s, y, N), MICA_OK);
    for (int i = 0; i < N; i++)
        expect_same(b.s, y[i], alone[i]);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_decomposed),
        cmocka_unit_test(far_positions),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(edges_and_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

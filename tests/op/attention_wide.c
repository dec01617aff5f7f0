/* sdpa_gradient where rows are as wide as tensor cores take them: what a device may have a kernel
 * for. */
#include "op/attention_gradient.h"
#include "op/matmul.h"

static void kinds(void **state) {
    (void)state;
    bench b = bench_open();
    mica_scope *s = b.s;
    const sizes z = {2, 4, 2, 37, 50, 64, 64};
    attention a = operands(s, &z, MICA_F32);
    mica_array offset = mica_from_data(s, (const int32_t[]){13, 3}, MICA_I32, SHAPE(2));
    const mica_sdpa_options all[] = {
        {.scale = 0},
        {.causal = true, .window = 12, .softcap = 2},
        {.causal = true, .window = 9, .keep = 5, .offset = offset},
        {.causal = true, .offset = mica_i32(s, -20), .sinks = noise(s, 7, MICA_F32, SHAPE(4))},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        a.o = all[i];
        compare(&b, &a, i == 1, 5e-6);
    }
    bench_close(&b);
}

static void sizes_and_layouts(void **state) {
    (void)state;
    bench b = bench_open();
    static const sizes all[] = {{1, 2, 1, 33, 66, 100, 100}, {1, 1, 1, 70, 3, 20, 20}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        attention a = operands(b.s, &all[i], MICA_F32);
        compare(&b, &a, false, 5e-6);
    }
    const sizes z = {2, 2, 2, 9, 20, 18, 18}; /* rows apart, and across */
    attention a = operands(b.s, &z, MICA_F32);
    a.k = mica_swapaxes(b.s, noise(b.s, 2, MICA_F32, SHAPE(2, 20, 2, 18)), 1, 2);
    a.v = mica_swapaxes(b.s, noise(b.s, 3, MICA_F32, SHAPE(2, 2, 18, 20)), 2, 3);
    a.q = mica_slice_axis(b.s, noise(b.s, 1, MICA_F32, SHAPE(2, 2, 9, 19)), 3, 1, 19);
    compare(&b, &a, false, 5e-6);
    bench_close(&b);
}

/* What no query attends to may be anything: keys behind the last position, which share a tile with
 * others. */
static void unseen_keys(void **state) {
    (void)state;
    if (test_device_is_other() && !test_device_rounds_prompts()) skip(); /* others decompose it */
    bench b = bench_open();
    mica_scope *s = b.s;
    const sizes z = {1, 2, 1, 37, 50, 64, 64};
    attention a = operands(s, &z, MICA_F32);
    mica_array key = mica_arange(s, 0, 50, 1, MICA_I32), nan = mica_f32(s, NAN), g[3], want[3];
    key = mica_reshape(s, key, SHAPE(1, 1, 50, 1));
    mica_array seen = mica_less(s, key, mica_i32(s, 40));
    a.o = (mica_sdpa_options){.causal = true, .offset = mica_i32(s, 3)};
    differentiate(s, &a, false, g);
    for (int i = 0; i < 3; i++)
        want[i] = decomposed(s, part_of(s, g[i]));
    a.k = mica_where(s, seen, a.k, nan);
    a.v = mica_where(s, seen, a.v, nan);
    differentiate(s, &a, false, g);
    for (int i = 0; i < 3; i++)
        expect_near(s, part_of(s, g[i]), want[i], 5e-6);
    bench_close(&b);
}

/* Where a score is no number, dq and dk are none either: a loss that goes wrong is seen. */
static void nan_spreads(void **state) {
    (void)state;
    bench b = bench_open();
    mica_scope *s = b.s;
    const sizes z = {1, 2, 2, 20, 70, 64, 64};
    attention a = operands(s, &z, MICA_F32);
    mica_array key = mica_reshape(s, mica_arange(s, 0, 70, 1, MICA_I32), SHAPE(1, 1, 70, 1)), g[3];
    a.k = mica_where(s, mica_equal(s, key, mica_i32(s, 5)), mica_f32(s, NAN), a.k);
    differentiate(s, &a, false, g);
    for (int i = 0; i < 2; i++) {
        mica_array part = part_of(s, g[i]);
        float *x = floats_of(s, part);
        for (int64_t k = 0; k < mica_array_size(part); k++)
            if (!isnan(x[k])) fail_msg("element %lld of %d is %g", (long long)k, i, (double)x[k]);
        free(x);
    }
    bench_close(&b);
}

/* A batch of none. */
static void nothing(void **state) {
    (void)state;
    bench b = bench_open();
    const sizes z = {0, 2, 1, 37, 50, 64, 64};
    attention a = operands(b.s, &z, MICA_F32);
    mica_array g[3];
    differentiate(b.s, &a, false, g);
    for (int i = 0; i < 3; i++)
        free(floats_of(b.s, part_of(b.s, g[i])));
    bench_close(&b);
}

/* With a loss's gradient and a product that may be rounded, as in training, where a device may
 * round to bf16: near the decomposition. */
static void in_training(void **state) {
    (void)state;
    bench b = bench_open();
    mica_scope *s = b.s;
    static const sizes all[] = {{1, 4, 2, 70, 100, 64, 64}, {1, 2, 1, 40, 33, 100, 100}};
    const int32_t targets[] = {1, 3};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        attention a = operands(s, &all[i], MICA_F32);
        mica_array g[3], w = noise(s, 8, MICA_BF16, SHAPE(8, 16));
        a.o = (mica_sdpa_options){.causal = true, .window = i ? 20 : 0, .softcap = i ? 0 : 3};
        differentiate(s, &a, false, g);
        const mica_array loss[] = {noise(s, 9, MICA_F32, SHAPE(2, 4)),
                                   mica_from_data(s, targets, MICA_I32, SHAPE(2)),
                                   noise(s, 10, MICA_F32, SHAPE(2))};
        const mica_array together[] = {
            part_of(s, g[0]),
            part_of(s, g[1]),
            part_of(s, g[2]),
            mica_sdpa(s, a.q, a.k, a.v, &a.o),
            mc_record(s, MC_OP_CROSS_ENTROPY_GRADIENT, NULL, loss, 3),
            mc_matmul_rows(s, noise(s, 11, MICA_F32, SHAPE(2, 16)), w, true)};
        mica_array want[4];
        for (int k = 0; k < 4; k++)
            want[k] = decomposed(s, together[k]);
        assert_int_equal(mica_eval_n(s, together, 6), MICA_OK);
        for (int k = 0; k < 4; k++)
            expect_near(s, together[k], want[k], 1e-2);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),       cmocka_unit_test(sizes_and_layouts),
        cmocka_unit_test(unseen_keys), cmocka_unit_test(nan_spreads),
        cmocka_unit_test(nothing),     cmocka_unit_test(in_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sdpa_gradient: compared with its decomposition, which tests/grad/ops.c compares with differences.
 * Sizes are of several blocks of queries. */
#include "op/attention_gradient.h"

static void kinds_of_attention(void **state) {
    (void)state;
    bench b = bench_open();
    const sizes z = {2, 6, 2, 150, 170, 24, 40};
    mica_scope *s = b.s;
    attention a = operands(s, &z, MICA_F32);
    mica_array bias = noise(s, 5, MICA_F32, SHAPE(6, 1, 170));
    mica_array seen = mica_greater(s, noise(s, 6, MICA_F32, SHAPE(2, 1, 150, 170)), mica_f32(s, 0));
    mica_array offset = mica_from_data(s, (const int32_t[]){20, 3}, MICA_I32, SHAPE(2));
    const mica_sdpa_options kinds[] = {
        {.scale = 0},
        {.causal = true},
        {.causal = true, .window = 30, .softcap = 2},
        {.causal = true, .window = 30, .keep = 5, .offset = offset},
        {.causal = true, .offset = mica_i32(s, -60)}, /* queries without keys */
        {.mask = bias, .scale = 1.5f},
        {.mask = seen, .softcap = 3, .sinks = noise(s, 7, MICA_F32, SHAPE(6))},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        a.o = kinds[i];
        compare(&b, &a, false, 5e-6);
    }
    a.o = (mica_sdpa_options){.causal = true, .softcap = 3};
    compare(&b, &a, true, 5e-6);
    bench_close(&b);
}

static void sizes_dtypes_and_layouts(void **state) {
    (void)state;
    bench b = bench_open();
    static const sizes all[] = {{1, 1, 1, 1, 1, 1, 1},   {1, 4, 1, 65, 65, 3, 5},
                                {3, 2, 2, 7, 300, 8, 8}, {1, 2, 1, 130, 2, 8, 8},
                                {1, 2, 1, 0, 4, 8, 8},   {1, 2, 1, 4, 0, 8, 8},
                                {1, 2, 1, 0, 0, 8, 8},   {0, 2, 1, 4, 4, 8, 8}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        attention a = operands(b.s, &all[i], MICA_F32);
        compare(&b, &a, false, 5e-6);
        a.o.causal = true;
        compare(&b, &a, false, 5e-6);
    }
    const sizes z = {2, 4, 2, 70, 80, 16, 16};
    for (int half = 0; half < 2; half++) {
        attention a = operands(b.s, &z, half ? MICA_F16 : MICA_BF16);
        a.o.causal = true;
        compare(&b, &a, false, 5e-6); /* of the same halves, in f32 */
    }
    attention a = operands(b.s, &z, MICA_F32);
    a.k = mica_flip(b.s, mica_swapaxes(b.s, noise(b.s, 2, MICA_F32, SHAPE(2, 80, 2, 16)), 1, 2), 3);
    a.q = mica_broadcast_to(b.s, mica_slice_axis(b.s, a.q, 1, 0, 1), mica_array_shape(a.q), 4);
    compare(&b, &a, false, 5e-6);
    bench_close(&b);
}

/* A gradient is `value` everywhere. */
static void expect_all(mica_scope *s, mica_array g, float value) {
    float *values = floats_of(s, g);
    for (int64_t i = 0; i < mica_array_size(g); i++)
        if (!(fabsf(values[i] - value) <= 1e-6f)) fail_msg("%g", (double)values[i]);
    free(values);
}

/* Without heads, queries, keys or elements. */
static void nothing_to_attend(void **state) {
    (void)state;
    bench b = bench_open();
    static const sizes all[] = {{1, 0, 2, 2, 3, 4, 4},  {1, 0, 1, 0, 0, 4, 4},
                                {2, 2, 1, 0, 3, 4, 4},  {1, 2, 2, 0, 0, 1LL << 50, 4},
                                {2, 4, 2, 3, 0, 4, 4},  {1, 12, 3, 2, 5, 4, 0},
                                {1, 12, 12, 2, 5, 0, 4}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const sizes *z = &all[i];
        if (z->d > INT32_MAX && test_device_is_other()) continue; /* MLX refuses such an axis */
        attention a = operands(b.s, z, MICA_F32);
        a.o.scale = 1;
        a.dy = mica_ones(b.s, SHAPE(z->batch, z->heads, z->lq, z->dv), MICA_F32);
        mica_array g[3];
        for (int with_lse = 0; with_lse < 2; with_lse++) {
            if (with_lse && z->dv == 0) continue; /* lse has a gradient of its own */
            differentiate(b.s, &a, with_lse, g);
            /* without elements all weights are equal */
            bool even = z->d == 0 && z->heads * z->lq > 0 && z->lk > 0;
            int64_t met = z->heads / z->kv_heads * z->lq;
            expect_all(b.s, g[0], 0);
            expect_all(b.s, g[1], 0);
            expect_all(b.s, g[2], even ? (float)met / (float)z->lk : 0);
        }
    }
    bench_close(&b);
}

/* A head has the same bits in a batch and alone, with any number of threads. */
static void bits(void **state) {
    (void)state;
    float *first[3] = {NULL};
    for (int threads = 1; threads <= 5; threads += 2) {
        bench b = bench_open_with(&(mica_device_options){.threads = threads});
        const sizes z = {2, 6, 3, 140, 140, 16, 16};
        attention a = operands(b.s, &z, MICA_F32);
        mica_array g[3];
        a.o.causal = true;
        differentiate(b.s, &a, false, g);
        for (int i = 0; i < 3; i++) {
            float *values = floats_of(b.s, g[i]);
            size_t bytes = (size_t)mica_array_size(g[i]) * sizeof *values;
            if (first[i]) assert_memory_equal(first[i], values, bytes);
            if (first[i])
                free(values);
            else
                first[i] = values;
        }
        attention one = a;
        one.q = mica_slice_axis(b.s, a.q, 0, 1, 2);
        one.k = mica_slice_axis(b.s, a.k, 0, 1, 2);
        one.v = mica_slice_axis(b.s, a.v, 0, 1, 2);
        one.dy = mica_slice_axis(b.s, a.dy, 0, 1, 2);
        mica_array alone[3];
        differentiate(b.s, &one, false, alone);
        for (int i = 0; i < 3; i++)
            expect_same(b.s, alone[i], mica_slice_axis(b.s, g[i], 0, 1, 2));
        bench_close(&b);
    }
    for (int i = 0; i < 3; i++)
        free(first[i]);
}

/* No array of [Lq, Lk]. */
static void memory(void **state) {
    (void)state;
    bench b = bench_open_cpu(&(mica_device_options){.threads = 2});
    const sizes z = {1, 4, 4, 2048, 2048, 16, 16};
    attention a = operands(b.s, &z, MICA_F32);
    mica_array g[3];
    a.o.causal = true;
    differentiate(b.s, &a, false, g);
    const mica_array given[] = {a.q, a.k, a.v, a.dy};
    assert_int_equal(mica_eval_n(b.s, given, 4), MICA_OK);
    mica_device_reset_peak(b.device);
    assert_int_equal(mica_eval_n(b.s, g, 3), MICA_OK);
    assert_true(mica_device_peak_bytes(b.device) < 4 * 2048 * 2048 * sizeof(float) / 4);
    bench_close(&b);
}

/* By masks and sinks, and of q8 rows, the gradient is that of the decomposition. */
static void what_the_rule_declines(void **state) {
    (void)state;
    bench b = bench_open();
    const sizes z = {1, 2, 1, 3, 4, 32, 32};
    attention a = operands(b.s, &z, MICA_F32);
    mica_array mask = noise(b.s, 5, MICA_F32, SHAPE(3, 4)), g;
    mica_sdpa_options o = {.mask = mask};
    mica_array y = mica_sum(b.s, mica_sdpa(b.s, a.q, a.k, a.v, &o), NULL, 0, false);
    assert_int_equal(mica_grad(b.s, y, MICA_NONE, &mask, 1, &g), MICA_OK);
    assert_int_equal(mica_eval(b.s, g), MICA_OK);
    mica_array k8 = mica_to_q8(b.s, a.k), v8 = mica_to_q8(b.s, a.v), wide[2];
    for (int i = 0; i < 2; i++)
        wide[i] = mica_from_q8(b.s, i ? v8 : k8, 32, MICA_F32);
    mica_array want;
    y = mica_sum(b.s, mica_square(b.s, mica_sdpa(b.s, a.q, wide[0], wide[1], NULL)), NULL, 0,
                 false);
    assert_int_equal(mica_grad(b.s, y, MICA_NONE, &a.q, 1, &want), MICA_OK);
    y = mica_sum(b.s, mica_square(b.s, mica_sdpa(b.s, a.q, k8, v8, NULL)), NULL, 0, false);
    assert_int_equal(mica_grad(b.s, y, MICA_NONE, &a.q, 1, &g), MICA_OK);
    expect_near(b.s, g, want, 3e-2); /* forwards in 8 bits */
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_attention),
        cmocka_unit_test(sizes_dtypes_and_layouts),
        cmocka_unit_test(nothing_to_attend),
        cmocka_unit_test(bits),
        cmocka_unit_test(memory),
        cmocka_unit_test(what_the_rule_declines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

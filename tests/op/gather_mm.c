/* Matmuls with matrices that indices pick: each place of the result is a matmul of its own, of
 * floats and of quantised weights, exact and fast. */
#include "op/fused.h"

#include "device/device.h"
#include "op/matmul.h"
#include "op/quant.h"

enum { K = 256, N = 37, EXPERTS = 6, TOKENS = 11, PICKS = 3 };

static const mica_quant formats[] = {
    {MICA_QUANT_AFFINE, 2, 32},  {MICA_QUANT_AFFINE, 3, 64}, {MICA_QUANT_AFFINE, 4, 32},
    {MICA_QUANT_AFFINE, 4, 128}, {MICA_QUANT_AFFINE, 5, 32}, {MICA_QUANT_AFFINE, 6, 128},
    {MICA_QUANT_AFFINE, 8, 64},  {MICA_QUANT_MXFP4, 4, 32},  {MICA_QUANT_MXFP8, 8, 32},
    {MICA_QUANT_NVFP4, 4, 16},
};
#define FORMATS ((int)(sizeof formats / sizeof *formats))

/* Matrices [EXPERTS, n, k] of a format, or of floats where it has no bits. */
typedef struct weights {
    mica_quant quant;
    int fast;
    bool transpose;
    mica_array w[3];
} weights;

static weights quantized(bench *b, mica_quant quant, int fast, bool transpose, uint64_t seed) {
    weights w = {.quant = quant, .fast = fast, .transpose = transpose};
    mica_array x = noise(b->s, seed, MICA_BF16, SHAPE(EXPERTS, transpose ? N : K, K));
    if (mica_quantize(b->s, x, quant, &w.w[0], &w.w[1], &w.w[2]) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return w;
}

static weights floats(bench *b, mica_dtype dtype, int fast, bool transpose, uint64_t seed) {
    weights w = {.fast = fast, .transpose = transpose};
    w.w[0] = noise(b->s, seed, dtype, SHAPE(EXPERTS, transpose ? N : K, K));
    return w;
}

static mica_array gather(bench *b, const weights *w, mica_array x, mica_array lhs, mica_array rhs) {
    mica_scope *s = b->s;
    if (w->quant.bits == 0 && w->transpose) return mc_gather_rows(s, x, w->w[0], lhs, rhs, w->fast);
    if (w->quant.bits == 0) return mica_gather_mm(s, x, w->w[0], lhs, rhs);
    if (w->transpose)
        return mc_gather_qmm(s, x, w->w[0], w->w[1], w->w[2], w->quant, lhs, rhs, w->fast);
    return mica_gather_qmm(s, x, w->w[0], w->w[1], w->w[2], w->quant, false, lhs, rhs);
}

/* x [M, K] times matrix i. */
static mica_array multiply(bench *b, const weights *w, mica_array x, int32_t i) {
    mica_scope *s = b->s;
    mica_array at = mica_i32(s, i), one[3];
    for (int k = 0; k < 3; k++)
        one[k] = w->w[k].scope ? mica_take(s, w->w[k], at, 0) : MICA_NONE;
    if (w->quant.bits == 0 && w->transpose) return mc_matmul_rows(s, x, one[0], w->fast);
    if (w->quant.bits == 0) return mica_matmul(s, x, one[0]);
    if (w->transpose) return mc_quantized_matmul(s, x, one[0], one[1], one[2], w->quant, w->fast);
    return mica_quantized_matmul(s, x, one[0], one[1], one[2], w->quant, false);
}

/* The same, place by place: of x's matrix lhs[i], or i / each. [n, M, ..] */
static mica_array one_by_one(bench *b, const weights *w, mica_array x, const int32_t *lhs, int each,
                             const int32_t *rhs, int n) {
    mica_array parts[EXPERTS * TOKENS];
    assert_true(n <= EXPERTS * TOKENS);
    for (int i = 0; i < n; i++) {
        mica_array row = mica_take(b->s, x, mica_i32(b->s, lhs ? lhs[i] : i / each), 0);
        parts[i] =
            mica_expand_dims(b->s, multiply(b, w, row, rhs[i] < 0 ? rhs[i] + EXPERTS : rhs[i]), 0);
    }
    mica_array y = mica_concatenate(b->s, parts, n, 0);
    if (mica_eval(b->s, y) != MICA_OK) fail_msg("%s", mica_last_error());
    return y;
}

static void spread_picks(int32_t *picks, int n) {
    for (int i = 0; i < n; i++)
        picks[i] = i % 7 == 3 ? -1 : 5 * i % 11 % (EXPERTS - 1);
}

/* The same bits on the cpu. Other devices may copy the matrices first, and then sum otherwise. */
static void expect_same_matmuls(bench *b, mica_array got, mica_array want) {
    if (b->device->backend == &mc_backend_cpu)
        expect_same(b->s, got, want);
    else
        expect_near(b->s, got, want, 0.02);
}

/* Tokens of some experts each, as models have them, and rows that another list picks. */
static void check_picks(bench *b, const weights *w, mica_dtype dtype, int64_t rows) {
    mica_scope *s = b->s;
    int32_t picks[TOKENS * PICKS], lhs[TOKENS];
    spread_picks(picks, TOKENS * PICKS);
    int64_t k = K;
    mica_array x = noise(s, 3, dtype, SHAPE(TOKENS, rows, k));
    mica_array rhs = i32s(s, picks, SHAPE(TOKENS, PICKS));
    mica_array y = gather(b, w, mica_expand_dims(s, x, 1), MICA_NONE, rhs);
    y = mica_flatten(s, y, 0, 1);
    expect_same_matmuls(b, y, one_by_one(b, w, x, NULL, PICKS, picks, TOKENS * PICKS));

    for (int i = 0; i < TOKENS; i++)
        lhs[i] = i * i % 4; /* some of x are not picked */
    y = gather(b, w, x, i32s(s, lhs, SHAPE(TOKENS)), i32s(s, picks, SHAPE(TOKENS)));
    expect_same_matmuls(b, y, one_by_one(b, w, x, lhs, 1, picks, TOKENS));
}

static void each_place_is_a_matmul(void **state) {
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        bench b = bench_open();
        for (int fast = 0; fast < 3; fast++) {
            weights w = quantized(&b, formats[i], fast, true, 1);
            check_picks(&b, &w, i % 2 ? MICA_BF16 : MICA_F32, 1);
            check_picks(&b, &w, i % 2 ? MICA_F32 : MICA_F16, 3);
        }
        weights w = quantized(&b, formats[i], false, false, 2);
        check_picks(&b, &w, MICA_F32, 1);
        bench_close(&b);
    }
}

static void each_place_is_a_matmul_of_floats(void **state) {
    (void)state;
    for (mica_dtype dtype = MICA_F16; dtype <= MICA_F32; dtype++) {
        bench b = bench_open();
        for (int i = 0; i < 3; i++) { /* x w, x w^T, fast */
            weights w = floats(&b, dtype, i == 2, i > 0, 1);
            check_picks(&b, &w, MICA_F32, 1);
            check_picks(&b, &w, dtype, 3);
        }
        bench_close(&b);
    }
}

/* So many rows that a matrix has several blocks of them, in a place and over places. */
static void many_rows(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        bench b = bench_open();
        weights w = i == 2 ? floats(&b, MICA_BF16, true, true, 1)
                           : quantized(&b, formats[2 + 6 * i], 1 + i, true, 1);
        int32_t picks[] = {4, 4, 1, 4};
        mica_array x = noise(b.s, 3, MICA_F32, SHAPE(4, 300, K));
        mica_array y = gather(&b, &w, x, MICA_NONE, i32s(b.s, picks, SHAPE(4)));
        expect_same_matmuls(&b, y, one_by_one(&b, &w, x, NULL, 1, picks, 4));

        mica_array rows = mica_reshape(b.s, x, SHAPE(1200, 1, K));
        mica_array rhs = mica_broadcast_to(b.s, mica_i32(b.s, 4), SHAPE(1200));
        y = gather(&b, &w, rows, MICA_NONE, rhs);
        mica_array all = mica_expand_dims(b.s, mica_flatten(b.s, x, 0, 1), 0);
        int32_t four = 4;
        expect_same_matmuls(&b, mica_swapaxes(b.s, y, 0, 1),
                            one_by_one(&b, &w, all, NULL, 1, &four, 1));
        bench_close(&b);
    }
}

/* Several weights of one x in one evaluation: of the same picks, of other formats, of other picks,
 * of other numbers of matrices, and none at all. */
static void joint_matmuls(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 3, MICA_F32, SHAPE(TOKENS, 1, K));
    int32_t picks[2][TOKENS];
    mica_array rhs[2], y[8];
    weights w[8];
    const int format[] = {2, 2, 2, 6, 7, 8, 2, 2}, of[] = {0, 0, 1, 0, 0, 0, 0, 1};
    for (int i = 0; i < 2; i++) {
        spread_picks(picks[i], TOKENS);
        picks[i][5] = i;
        rhs[i] = i32s(b.s, picks[i], SHAPE(TOKENS));
    }
    for (int i = 0; i < 8; i++) {
        w[i] = quantized(&b, formats[format[i]], i != 6, true, 10 + (uint64_t)i);
        for (int k = 0; k < 3; k++)
            if (w[i].w[k].scope) assert_int_equal(mica_eval(b.s, w[i].w[k]), MICA_OK);
    }
    for (int i = 0; i < 8; i++)
        y[i] = gather(&b, &w[i], x, MICA_NONE, rhs[of[i]]);
    if (mica_eval_n(b.s, y, 8) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int i = 0; i < 8; i++)
        expect_same_matmuls(&b, y[i], one_by_one(&b, &w[i], x, NULL, 1, picks[of[i]], TOKENS));

    /* -1 is another matrix there */
    mica_array last = i32s(b.s, (int32_t[]){-1}, SHAPE(1)), row = mica_slice_axis(b.s, x, 0, 0, 1);
    mica_array v = noise(b.s, 4, MICA_F32, SHAPE(2, K, 5)),
               u = noise(b.s, 5, MICA_F32, SHAPE(3, K, 5));
    assert_int_equal(mica_eval_n(b.s, (mica_array[]){v, u}, 2), MICA_OK);
    mica_array some[3] = {
        mica_gather_mm(b.s, row, v, MICA_NONE, last), mica_gather_mm(b.s, row, u, MICA_NONE, last),
        mica_gather_mm(b.s, row, mica_zeros(b.s, SHAPE(3, K, 0), MICA_F32), MICA_NONE, last)};
    if (mica_eval_n(b.s, some, 3) != MICA_OK) fail_msg("%s", mica_last_error());
    expect_shape(some[2], MICA_F32, SHAPE(1, 1, 0));
    expect_same_matmuls(&b, some[0], mica_matmul(b.s, row, mica_slice_axis(b.s, v, 0, 1, 2)));
    expect_same_matmuls(&b, some[1], mica_matmul(b.s, row, mica_slice_axis(b.s, u, 0, 2, 3)));
    bench_close(&b);
}

/* The same bits with one thread and with three. */
static void threads_change_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        float *results[2];
        for (int t = 0; t < 2; t++) {
            bench b = bench_open_with(&(mica_device_options){.threads = t == 0 ? 1 : 3});
            weights w = quantized(&b, formats[i < 2 ? 2 : 8], i % 2, true, 1);
            int32_t picks[TOKENS * PICKS];
            spread_picks(picks, TOKENS * PICKS);
            mica_array x = noise(b.s, 2, MICA_F32, SHAPE(TOKENS, 1, 8, K));
            x = gather(&b, &w, x, MICA_NONE, i32s(b.s, picks, SHAPE(TOKENS, PICKS)));
            results[t] = floats_of(b.s, x);
            bench_close(&b);
        }
        assert_memory_equal(results[0], results[1], TOKENS * PICKS * 8 * N * sizeof(float));
        free(results[0]);
        free(results[1]);
    }
}

/* Fast and exact: by x, as of the decomposition. */
static void gradients(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < FORMATS; i += 2) {
        weights w = quantized(&b, formats[i], true, true, 1);
        int32_t picks[TOKENS * PICKS];
        spread_picks(picks, TOKENS * PICKS);
        mica_array x = noise(b.s, 2, MICA_F32, SHAPE(TOKENS, 1, 1, K)), dx[2];
        mica_array rhs = i32s(b.s, picks, SHAPE(TOKENS, PICKS));
        mica_array dy = noise(b.s, 3, MICA_F32, SHAPE(TOKENS, PICKS, 1, N));
        assert_int_equal(mica_eval(b.s, x), MICA_OK);
        for (int fast = 0; fast < 2; fast++) {
            w.fast = fast != 0;
            mica_array y = gather(&b, &w, x, MICA_NONE, rhs);
            expect_near(b.s, y, decomposed(b.s, y), 0.02);
            if (mica_grad(b.s, y, dy, &x, 1, &dx[fast]) != MICA_OK)
                fail_msg("%s", mica_last_error());
        }
        expect_near(b.s, dx[1], dx[0], 0.02);
    }
    bench_close(&b);
}

/* By rows and by matrices, which lists pick, as of the decomposition. */
static void gradients_of_both(void **state) {
    (void)state;
    bench b = bench_open();
    int32_t picks[TOKENS * PICKS], lhs[TOKENS];
    spread_picks(picks, TOKENS * PICKS);
    for (int i = 0; i < TOKENS; i++)
        lhs[i] = i * i % 4;
    for (int listed = 0; listed < 2; listed++) {
        mica_array x[2] = {noise(b.s, 2, MICA_F32, SHAPE(TOKENS, 1, 2, 16)),
                           noise(b.s, 3, MICA_F32, SHAPE(EXPERTS, 16, 5))};
        mica_array rhs =
            listed ? i32s(b.s, picks, SHAPE(TOKENS)) : i32s(b.s, picks, SHAPE(TOKENS, PICKS));
        mica_array left = listed ? i32s(b.s, lhs, SHAPE(TOKENS)) : MICA_NONE, got[2], want[2];
        mica_array y = mica_gather_mm(b.s, x[0], x[1], left, rhs);
        mica_array dy = noise(b.s, 4, MICA_F32, mica_array_shape(y), mica_array_ndim(y));
        if (mica_grad(b.s, y, dy, x, 2, got) != MICA_OK ||
            mica_grad(b.s, decomposed(b.s, y), dy, x, 2, want) != MICA_OK)
            fail_msg("%s", mica_last_error());
        for (int i = 0; i < 2; i++)
            expect_near(b.s, got[i], want[i], 1e-4);
    }
    bench_close(&b);
}

/* K is 0: results are 0. Indices are read all the same. */
static void empty_sums_are_zero(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_quant quant = {MICA_QUANT_AFFINE, 4, 64};
    mica_array x = mica_zeros(b.s, SHAPE(2, 1, 0), MICA_F32);
    mica_array codes = mica_zeros(b.s, SHAPE(3, 4, 0), MICA_U32);
    mica_array scales = mica_zeros(b.s, SHAPE(3, 4, 0), MICA_F32);
    mica_array rhs = i32s(b.s, (int32_t[]){2, 0}, SHAPE(2));
    mica_array zeros = mica_zeros(b.s, SHAPE(2, 1, 4), MICA_F32);
    for (int fast = 0; fast < 2; fast++) {
        mica_array y =
            mc_gather_qmm(b.s, x, codes, scales, scales, quant, MICA_NONE, rhs, fast != 0);
        expect_same(b.s, y, zeros);
    }
    mica_array w = mica_zeros(b.s, SHAPE(3, 0, 4), MICA_F32);
    expect_same(b.s, mica_gather_mm(b.s, x, w, MICA_NONE, rhs), zeros);
    bench_close(&b);

    b = bench_open_cpu(NULL);
    x = mica_zeros(b.s, SHAPE(2, 1, 0), MICA_F32);
    w = mica_zeros(b.s, SHAPE(3, 0, 4), MICA_F32);
    expect_eval_failure(&b, mica_gather_mm(b.s, x, w, MICA_NONE, mica_i32(b.s, 3)), MICA_EINVAL,
                        "index 3");
    bench_close(&b);
}

/* Indices of different shapes broadcast, and count over all axes before the last two. */
static void indices_broadcast(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 1, MICA_F32, SHAPE(2, 3, 2, 5)), w;
    mica_array lhs = i32s(b.s, (int32_t[]){5, 0, 2, -1}, SHAPE(2, 2));
    mica_array rhs = i32s(b.s, (int32_t[]){1, 0}, SHAPE(2));
    w = noise(b.s, 2, MICA_F32, SHAPE(2, 5, 4));
    float *got = floats_of(b.s, mica_gather_mm(b.s, x, w, lhs, rhs));
    static const int32_t left[] = {5, 0, 2, 5}, right[] = {1, 0, 1, 0};
    for (int i = 0; i < 4; i++) {
        mica_array one = mica_take(b.s, mica_flatten(b.s, x, 0, 1), mica_i32(b.s, left[i]), 0);
        mica_array other = mica_take(b.s, w, mica_i32(b.s, right[i]), 0);
        float *want = floats_of(b.s, mica_matmul(b.s, one, other));
        for (int k = 0; k < 8; k++)
            assert_float_equal(got[8 * i + k], want[k], 1e-5);
        free(want);
    }
    free(got);
    mica_array all = mica_gather_mm(b.s, w, mica_swapaxes(b.s, w, -1, -2), MICA_NONE, MICA_NONE);
    expect_shape(all, MICA_F32, SHAPE(2, 5, 5));
    mica_array v = mica_ones(b.s, SHAPE(5), MICA_F32);
    expect_failure(&b, mica_gather_mm(b.s, v, v, MICA_NONE, MICA_NONE), MICA_ESHAPE, "gather_mm");
    w = mica_ones(b.s, SHAPE(2, 3, 3), MICA_F32);
    expect_eval_failure(&b, mica_gather_mm(b.s, w, w, MICA_NONE, mica_i32(b.s, 2)), MICA_EINVAL,
                        "index 2");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_is_a_matmul),
        cmocka_unit_test(each_place_is_a_matmul_of_floats),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(joint_matmuls),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_of_both),
        cmocka_unit_test(empty_sums_are_zero),
        cmocka_unit_test(indices_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

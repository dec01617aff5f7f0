/* Matmuls: every layout of the operands, batches. A row's bits do not depend on the rows beside
 * it. */
#include "op/fused.h"

#include "op/matmul.h"

static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
static const double slack[] = {2e-6, 2e-3, 2e-2};

static void expect_floats(mica_scope *s, mica_array x, const float *want, const int64_t *shape,
                          int ndim) {
    expect_shape(x, MICA_F32, shape, ndim);
    float *got = floats_of(s, x);
    for (int64_t i = 0; i < mica_array_size(x); i++)
        assert_true(got[i] == want[i]);
    free(got);
}

static void small_matmuls_are_exact(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_astype(b.s, counting(b.s, SHAPE(2, 3)), MICA_F32);
    mica_array y = mica_astype(b.s, counting(b.s, SHAPE(3, 2)), MICA_F32);
    mica_array v = mica_astype(b.s, counting(b.s, SHAPE(3)), MICA_F32);
    expect_floats(b.s, mica_matmul(b.s, x, y), (float[]){10, 13, 28, 40}, SHAPE(2, 2));
    expect_floats(b.s, mica_matmul(b.s, x, v), (float[]){5, 14}, SHAPE(2));
    expect_floats(b.s, mica_matmul(b.s, v, y), (float[]){10, 13}, SHAPE(2));
    expect_floats(b.s, mica_matmul(b.s, v, v), (float[]){5}, NULL, 0);
    expect_floats(b.s, mica_inner(b.s, x, v), (float[]){5, 14}, SHAPE(2));
    expect_floats(b.s, mica_outer(b.s, v, v), (float[]){0, 0, 0, 0, 1, 2, 0, 2, 4}, SHAPE(3, 3));
    expect_floats(b.s, mica_tensordot(b.s, x, y, 1), (float[]){10, 13, 28, 40}, SHAPE(2, 2));
    bench_close(&b);
}

static void addmm_scales_both(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_astype(b.s, counting(b.s, SHAPE(2, 3)), MICA_F32);
    mica_array y = mica_astype(b.s, counting(b.s, SHAPE(3, 2)), MICA_F32);
    mica_array c = mica_astype(b.s, counting(b.s, SHAPE(2)), MICA_F32);
    expect_floats(b.s, mica_addmm(b.s, c, x, y, 0.5f, 2), (float[]){5, 8.5f, 14, 22}, SHAPE(2, 2));
    expect_floats(b.s, mica_addmm(b.s, c, x, y, 1, 1), (float[]){10, 14, 28, 41}, SHAPE(2, 2));
    bench_close(&b);
}

/* The sum over k of a[.., m, k, 1] * b[.., 1, k, n], in f32. */
static mica_array by_sums(mica_scope *s, mica_array a, mica_array b) {
    const int k = -2;
    mica_dtype dtype = mica_dtype_promote(mica_array_dtype(a), mica_array_dtype(b));
    a = mica_expand_dims(s, mica_astype(s, a, MICA_F32), -1);
    b = mica_expand_dims(s, mica_astype(s, b, MICA_F32), -3);
    return mica_astype(s, mica_sum(s, mica_multiply(s, a, b), &k, 1, false), dtype);
}

/* The same values in another layout: 0 unchanged; 1 transposed; 2 every other element of a larger
 * array; 3 reversed. */
static mica_array laid_out(mica_scope *s, mica_array x, int layout) {
    if (layout == 1) {
        mica_array transposed = mica_swapaxes(s, x, -1, -2);
        transposed = mica_add(s, transposed, mica_scalar(s, 0, mica_array_dtype(x)));
        return mica_swapaxes(s, transposed, -1, -2);
    }
    int ndim = mica_array_ndim(x);
    int64_t start[MICA_MAX_NDIM], step[MICA_MAX_NDIM], stop[MICA_MAX_NDIM];
    for (int i = 0; i < ndim; i++) {
        start[i] = 0;
        stop[i] = MICA_END_OF_AXIS;
        step[i] = i >= ndim - 2 ? 2 : 1;
    }
    if (layout == 2)
        return mica_slice(s, mica_repeat(s, mica_repeat(s, x, 2, -1), 2, -2), start, stop, step);
    if (layout == 3) return mica_flip(s, mica_flip(s, x, -1), -1);
    return x;
}

static void any_layout_and_dtype(void **state) {
    (void)state;
    bench b = bench_open();
    for (int da = 0; da < 3; da++) {
        for (int db = 0; db < 3; db++) {
            mica_array x = noise(b.s, 1, dtypes[da], SHAPE(5, 37));
            mica_array y = noise(b.s, 2, dtypes[db], SHAPE(37, 70));
            mica_array want = by_sums(b.s, x, y);
            mica_dtype dtype = mica_array_dtype(want);
            double near = slack[dtype == MICA_F32 ? 0 : dtype == MICA_F16 ? 1 : 2];
            for (int layouts = 0; layouts < 16; layouts++) {
                mica_array p = laid_out(b.s, x, layouts % 4), q = laid_out(b.s, y, layouts / 4);
                expect_near(b.s, mica_matmul(b.s, p, q), want, near);
            }
        }
    }
    bench_close(&b);
}

static void batches_broadcast(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 3, MICA_F32, SHAPE(4, 1, 3, 20));
    mica_array y = noise(b.s, 4, MICA_F32, SHAPE(5, 20, 7));
    mica_array z = mica_matmul(b.s, x, y);
    expect_shape(z, MICA_F32, SHAPE(4, 5, 3, 7));
    expect_near(b.s, z, by_sums(b.s, x, y), 2e-6);
    mica_array w = noise(b.s, 5, MICA_BF16, SHAPE(20, 9));
    expect_near(b.s, mica_matmul(b.s, x, w), by_sums(b.s, x, w), 2e-6);
    expect_shape(mica_matmul(b.s, noise(b.s, 6, MICA_F32, SHAPE(20)), y), MICA_F32, SHAPE(5, 7));
    bench_close(&b);
}

static void empty_sums_are_zero(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_ones(b.s, SHAPE(2, 0), MICA_F32);
    mica_array y = mica_ones(b.s, SHAPE(0, 3), MICA_F32);
    expect_floats(b.s, mica_matmul(b.s, x, y), (float[6]){0}, SHAPE(2, 3));
    float none = 0; /* rows without elements, in an order that strides do not express */
    x = mica_from_data(b.s, &none, MICA_F32, SHAPE(2, 3, 0));
    x = mica_swapaxes(b.s, x, 0, 1);
    expect_floats(b.s, mica_matmul(b.s, x, y), (float[18]){0}, SHAPE(3, 2, 3));
    expect_shape(mica_matmul(b.s, y, mica_ones(b.s, SHAPE(3, 4), MICA_F32)), MICA_F32, SHAPE(0, 4));
    x = mica_ones(b.s, SHAPE(2, 0), MICA_F32);
    y = mc_matmul_rows(b.s, x, mica_ones(b.s, SHAPE(37, 0), MICA_BF16), true);
    expect_floats(b.s, y, (float[74]){0}, SHAPE(2, 37));
    assert_int_equal(mica_scope_status(b.s), MICA_OK);
    bench_close(&b);
}

/* What the products of each sum add up to without their signs. */
static mica_array sizes_of(mica_scope *s, mica_array x, mica_array y) {
    return mica_matmul(s, mica_abs(s, x), mica_abs(s, y));
}

/* A row has the same bits alone and in a batch, for every dtype and layout of the weights, also if
 * rows fill whole pages, so that copies of them have another stride. */
static void rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < 3 * 3 * 2; i++) {
        const int64_t k = i % 2 ? 2048 : 96;
        mica_array x = noise(b.s, 7, MICA_F32, SHAPE(45, k));
        mica_array y = laid_out(b.s, noise(b.s, 8, dtypes[i / 6], SHAPE(k, 133)), i / 2 % 3);
        mica_array all = mica_matmul(b.s, x, y), sizes = sizes_of(b.s, x, y);
        for (int64_t rows = 1; rows <= 13; rows += 4) {
            mica_array part = mica_matmul(b.s, mica_slice_axis(b.s, x, 0, 11, 11 + rows), y);
            expect_same_products(b.s, part, mica_slice_axis(b.s, all, 0, 11, 11 + rows),
                                 mica_slice_axis(b.s, sizes, 0, 11, 11 + rows), k);
        }
    }
    bench_close(&b);
}

/* With bf16 weights x may be rounded by up to 2^-9, and a row has the same bits alone. With other
 * weights a fast matmul has the bits of an exact one. */
static void fast_matmuls_round_x(void **state) {
    (void)state;
    bench b = bench_open();
    for (int d = 0; d < 4; d++) {
        const int64_t k = d < 3 ? 97 : 2048; /* rows of whole pages */
        mica_array x = noise(b.s, 7, MICA_F32, SHAPE(29, k));
        mica_array w = noise(b.s, 8, d < 3 ? dtypes[d] : MICA_BF16, SHAPE(133, k)),
                   transposed = mica_transpose(b.s, w, NULL);
        mica_array fast = mc_matmul_rows(b.s, x, w, true), exact = mica_matmul(b.s, x, transposed);
        mica_array sizes = sizes_of(b.s, x, transposed);
        if (d < 3 && dtypes[d] != MICA_BF16) {
            expect_same_products(b.s, fast, exact, sizes, k);
            continue;
        }
        mica_array off = mica_abs(b.s, mica_subtract(b.s, fast, exact));
        mica_array bound =
            mica_multiply(b.s, sizes, mica_f32(b.s, 0x1p-9f + (float)(2 * k + 8) * 0x1p-24f));
        mica_array worst = mica_max(b.s, mica_subtract(b.s, off, bound), NULL, 0, false);
        float *max = floats_of(b.s, worst);
        assert_true(max[0] <= 0);
        free(max);
        for (int64_t rows = 1; rows <= 13; rows += 4) {
            mica_array part = mica_slice_axis(b.s, x, 0, 11, 11 + rows);
            expect_same_products(b.s, mc_matmul_rows(b.s, part, w, true),
                                 mica_slice_axis(b.s, fast, 0, 11, 11 + rows),
                                 mica_slice_axis(b.s, sizes, 0, 11, 11 + rows), k);
        }
    }
    bench_close(&b);
}

/* x in bf16, in any layout, gives the bits of x in f32, rounded. */
static void fast_matmuls_of_bf16(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array w = noise(b.s, 8, MICA_BF16, SHAPE(133, 97));
    for (int64_t rows = 1; rows <= 40; rows += 13) {
        mica_array x = noise(b.s, 9, MICA_BF16, SHAPE(rows, 3, 97));
        x = mica_swapaxes(b.s, x, 0, 1);
        mica_array wide = mica_astype(b.s, x, MICA_F32);
        mica_array sizes = sizes_of(b.s, wide, mica_transpose(b.s, w, NULL));
        wide = mc_matmul_rows(b.s, wide, w, true);
        expect_same_products(b.s, mc_matmul_rows(b.s, x, w, true),
                             mica_astype(b.s, wide, MICA_BF16), sizes, 97);
    }
    bench_close(&b);
}

/* x times several weights at once, of all dtypes and layouts, some with a batch axis: the bits of
 * each matmul alone. */
static void joint_matmuls(void **state) {
    (void)state;
    enum { N = 7 };
    for (int64_t rows = 1; rows <= 40; rows = rows * 3 + 1) {
        for (int d = 0; d < 3; d++) {
            bench b = bench_open();
            mica_array x = noise(b.s, 1, dtypes[d], SHAPE(1, rows, 96)); /* as in models */
            mica_array alone[N], y[N], w[N];
            for (int i = 0; i < N; i++) {
                mica_dtype dtype = dtypes[i % 3];
                uint64_t seed = 20 + (uint64_t)i;
                w[i] = i == 4 ? noise(b.s, seed, dtype, SHAPE(3, 31, 96))
                              : noise(b.s, seed, dtype, SHAPE(i < 4 ? 133 : 31, 96));
                w[i] = laid_out(b.s, mica_swapaxes(b.s, w[i], -1, -2), i % 3);
            }
            assert_int_equal(mica_eval_n(b.s, w, N), MICA_OK);
            for (int together = 0; together < 2; together++) {
                mica_array *to = together ? y : alone;
                for (int i = 0; i < N; i++) {
                    to[i] = i % 2 == 0
                                ? mica_matmul(b.s, x, w[i])
                                : mc_matmul_rows(b.s, x, mica_swapaxes(b.s, w[i], -1, -2), true);
                    if (!together) assert_int_equal(mica_eval(b.s, to[i]), MICA_OK);
                }
            }
            assert_int_equal(mica_eval_n(b.s, y, N), MICA_OK);
            for (int i = 0; i < N; i++)
                expect_same_products(b.s, y[i], alone[i], sizes_of(b.s, x, w[i]), 96);
            bench_close(&b);
        }
    }
}

static void wrong_operands(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_ones(b.s, SHAPE(2, 3), MICA_F32);
    expect_failure(&b, mica_matmul(b.s, x, x), MICA_ESHAPE, "matmul: f32[2,3] and f32[2,3]");
    x = mica_ones(b.s, SHAPE(2, 2), MICA_I32);
    expect_failure(&b, mica_matmul(b.s, x, x), MICA_EDTYPE, "convert integers");
    x = mica_f32(b.s, 1);
    expect_failure(&b, mica_matmul(b.s, x, x), MICA_ESHAPE, "0-dimensional");
    x = mica_ones(b.s, SHAPE(2, 3, 3), MICA_F32);
    mica_array y = mica_ones(b.s, SHAPE(4, 3, 3), MICA_F32);
    expect_failure(&b, mica_matmul(b.s, x, y), MICA_ESHAPE, "batch axes do not broadcast");
    x = mica_ones(b.s, SHAPE(2, 3), MICA_F32);
    expect_failure(&b, mica_tensordot(b.s, x, x, 1), MICA_ESHAPE, "summed axes differ");
    x = mica_ones(b.s, SHAPE(2, 3), MICA_F32);
    expect_failure(&b, mica_tensordot(b.s, x, x, 3), MICA_EINVAL, "tensordot: 3 axes");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_matmuls_are_exact),
        cmocka_unit_test(addmm_scales_both),
        cmocka_unit_test(any_layout_and_dtype),
        cmocka_unit_test(batches_broadcast),
        cmocka_unit_test(empty_sums_are_zero),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(fast_matmuls_round_x),
        cmocka_unit_test(fast_matmuls_of_bf16),
        cmocka_unit_test(joint_matmuls),
        cmocka_unit_test(wrong_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

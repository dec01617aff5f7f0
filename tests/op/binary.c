/* Ops of two operands: broadcasting, the smallest and largest integers, views, results in an
 * operand's memory. */
#include "op/floats.h"

static void broadcasts(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array col = i32s(b.s, (int32_t[]){10, 20}, SHAPE(2, 1));
    mica_array row = i32s(b.s, (int32_t[]){1, 2, 3}, SHAPE(3));
    expect_i32(mica_add(b.s, col, row), (int32_t[]){11, 12, 13, 21, 22, 23}, SHAPE(2, 3));
    expect_i32(mica_subtract(b.s, row, col), (int32_t[]){-9, -8, -7, -19, -18, -17}, SHAPE(2, 3));
    assert_int_equal(mica_array_dim(mica_add(b.s, col, mica_zeros(b.s, SHAPE(0), MICA_I32)), 1), 0);
    expect_failure(&b, mica_add(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(2))),
                   MICA_ESHAPE, "add: i32[2,3]");
    expect_failure(&b, mica_less(b.s, mica_f32(b.s, 1), MICA_NONE), MICA_EINVAL, "less");
    expect_failure(&b, mica_bitwise_or(b.s, mica_f32(b.s, 1), mica_i32(b.s, 1)), MICA_EDTYPE,
                   "bitwise_or");
    expect_failure(&b, mica_left_shift(b.s, mica_i32(b.s, 1), mica_f32(b.s, 1)), MICA_EDTYPE,
                   "left_shift");
    bench_close(&b);
}

static void integer_ends(void **state) {
    (void)state;
    bench b = bench_open();
    const int32_t x[4] = {INT32_MIN, INT32_MIN, 7, -7}, y[4] = {-1, 0, 0, 2};
    mica_array a = i32s(b.s, x, SHAPE(4)), c = i32s(b.s, y, SHAPE(4));
    expect_i32(mica_floor_divide(b.s, a, c), (int32_t[]){INT32_MIN, 0, 0, -4}, SHAPE(4));
    expect_i32(mica_remainder(b.s, a, c), (int32_t[]){0, INT32_MIN, 7, 1}, SHAPE(4));
    expect_i32(mica_add(b.s, a, c), (int32_t[]){INT32_MAX, INT32_MIN, 7, -5}, SHAPE(4));
    const int32_t base[5] = {2, 3, -1, 0, 2}, power[5] = {31, -1, -3, -1, 40};
    expect_i32(mica_power(b.s, i32s(b.s, base, SHAPE(5)), i32s(b.s, power, SHAPE(5))),
               (int32_t[]){INT32_MIN, 0, -1, 0, 0}, SHAPE(5));
    const int32_t v[5] = {1, 1, -8, -8, -8}, by[5] = {32, -1, 1, 40, -1};
    mica_array s = i32s(b.s, v, SHAPE(5)), n = i32s(b.s, by, SHAPE(5));
    expect_i32(mica_left_shift(b.s, s, n), (int32_t[]){0, 0, -16, 0, 0}, SHAPE(5));
    expect_i32(mica_right_shift(b.s, s, n), (int32_t[]){0, 0, -4, -1, -1}, SHAPE(5));
    bench_close(&b);
}

/* The top bit of u64 is not a sign. */
static void unsigned_64(void **state) {
    (void)state;
    bench b = bench_open();
    const uint64_t x[2] = {UINT64_MAX, 1}, y[2] = {1, UINT64_MAX};
    mica_array a = mica_from_data(b.s, x, MICA_U64, SHAPE(2));
    mica_array c = mica_from_data(b.s, y, MICA_U64, SHAPE(2));
    uint8_t less[2];
    assert_int_equal(mica_read(mica_less(b.s, a, c), less, 2), MICA_OK);
    assert_int_equal(less[0], 0);
    assert_int_equal(less[1], 1);
    uint64_t got[2];
    assert_int_equal(mica_read(mica_maximum(b.s, a, c), got, sizeof got), MICA_OK);
    assert_true(got[0] == UINT64_MAX && got[1] == UINT64_MAX);
    assert_int_equal(mica_read(mica_floor_divide(b.s, a, c), got, sizeof got), MICA_OK);
    assert_true(got[0] == UINT64_MAX && got[1] == 0);
    mica_array four = mica_scalar(b.s, 4, MICA_U64);
    assert_int_equal(mica_read(mica_right_shift(b.s, a, four), got, sizeof got), MICA_OK);
    assert_true(got[0] == UINT64_MAX >> 4);
    bench_close(&b);
}

/* Chains whose intermediate results use each other's memory; operands given twice; views. */
static void in_place_and_views(void **state) {
    (void)state;
    bench b = bench_open();
    enum { R = 61, C = 47 };
    float x[R * C], y[R * C], want[R * C];
    fill(x, R * C, 1);
    fill(y, R * C, 2);
    for (int i = 0; i < R * C; i++) {
        float t = x[i] + y[i];
        want[i] = (t * t - x[i]) / (y[i] * y[i] + 1.0f);
    }
    mica_array a = f32s(b.s, x, SHAPE(R, C)), c = f32s(b.s, y, SHAPE(R, C));
    mica_array t = mica_add(b.s, a, c);
    mica_array up = mica_subtract(b.s, mica_multiply(b.s, t, t), a);
    mica_array down = mica_add(b.s, mica_multiply(b.s, c, c), mica_f32(b.s, 1));
    expect_f32(mica_divide(b.s, up, down), want, SHAPE(R, C), 0);

    mica_array ta = mica_transpose(b.s, a, NULL), tc = mica_transpose(b.s, c, NULL);
    expect_same(mica_transpose(b.s, mica_add(b.s, ta, tc), NULL), t);
    mica_array fa = mica_flip(b.s, a, 0), fc = mica_flip(b.s, c, 0);
    expect_same(mica_flip(b.s, mica_add(b.s, fa, fc), 0), t);
    expect_same(mica_add(b.s, a, tc = mica_transpose(b.s, tc, NULL)), t);
    bench_close(&b);
}

static void maximum_keeps_nan(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){NAN, 1, 2}, SHAPE(3));
    mica_array y = f32s(b.s, (float[]){1, NAN, 3}, SHAPE(3));
    expect_f32(mica_maximum(b.s, x, y), (float[]){NAN, NAN, 3}, SHAPE(3), 0);
    expect_f32(mica_minimum(b.s, x, y), (float[]){NAN, NAN, 2}, SHAPE(3), 0);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasts),        cmocka_unit_test(integer_ends),
        cmocka_unit_test(unsigned_64),       cmocka_unit_test(in_place_and_views),
        cmocka_unit_test(maximum_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

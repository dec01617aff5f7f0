/* Filled arrays and ranges. */
#include "op/floats.h"

static void ranges(void **state) {
    (void)state;
    bench b = bench_open();
    expect_i32(mica_arange(b.s, 2, 9, 3, MICA_I32), (int32_t[]){2, 5, 8}, SHAPE(3));
    expect_i32(mica_arange(b.s, 3, -2, -2, MICA_I32), (int32_t[]){3, 1, -1}, SHAPE(3));
    expect_f32(mica_arange(b.s, 0, 1, 0.25, MICA_F32), (float[]){0, 0.25f, 0.5f, 0.75f}, SHAPE(4),
               0);
    assert_int_equal(mica_array_size(mica_arange(b.s, 5, 5, 1, MICA_F32)), 0);
    assert_int_equal(mica_array_size(mica_arange(b.s, 5, 6, -1, MICA_F32)), 0);
    expect_f32(mica_linspace(b.s, -1, 3, 5), (float[]){-1, 0, 1, 2, 3}, SHAPE(5), 0);
    expect_f32(mica_linspace(b.s, 0.1, 0.7, 1), (float[]){0.1f}, SHAPE(1), 0);
    expect_failure(&b, mica_arange(b.s, 0, 1, 0, MICA_F32), MICA_EINVAL, "never ends");
    expect_failure(&b, mica_arange(b.s, 0, NAN, 1, MICA_F32), MICA_EINVAL, "arange");
    expect_failure(&b, mica_arange(b.s, 0, 3e9, 1, MICA_F32), MICA_EINVAL, "2^31");
    expect_failure(&b, mica_linspace(b.s, 0, 1, 0), MICA_EINVAL, "linspace");
    bench_close(&b);
}

static void filled(void **state) {
    (void)state;
    bench b = bench_open();
    expect_i32(mica_zeros(b.s, SHAPE(2, 2), MICA_I32), (int32_t[]){0, 0, 0, 0}, SHAPE(2, 2));
    expect_i32(mica_ones(b.s, SHAPE(3), MICA_I32), (int32_t[]){1, 1, 1}, SHAPE(3));
    mica_array row = i32s(b.s, (int32_t[]){4, 5}, SHAPE(2));
    expect_i32(mica_full(b.s, SHAPE(2, 2), row), (int32_t[]){4, 5, 4, 5}, SHAPE(2, 2));
    expect_i32(mica_zeros(b.s, NULL, 0, MICA_I32), (int32_t[]){0}, NULL, 0);
    assert_int_equal(mica_array_size(mica_zeros(b.s, SHAPE(0, 4), MICA_F32)), 0);
    expect_i32(mica_eye(b.s, 2, 3, 1, MICA_I32), (int32_t[]){0, 1, 0, 0, 0, 1}, SHAPE(2, 3));
    expect_i32(mica_eye(b.s, 3, 2, -1, MICA_I32), (int32_t[]){0, 0, 1, 0, 0, 1}, SHAPE(3, 2));
    expect_failure(&b, mica_eye(b.s, -1, 3, 0, MICA_F32), MICA_EINVAL, "eye");
    expect_failure(&b, mica_zeros(b.s, SHAPE(-1), MICA_F32), MICA_EINVAL, "");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(filled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

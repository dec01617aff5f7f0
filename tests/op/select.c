/* where and clip. */
#include "op/floats.h"

static void where_chooses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array c = i32s(b.s, (int32_t[]){0, 5}, SHAPE(2, 1));
    mica_array yes = i32s(b.s, (int32_t[]){1, 2, 3}, SHAPE(3)), no = mica_i32(b.s, -1);
    expect_i32(mica_where(b.s, c, yes, no), (int32_t[]){-1, -1, -1, 1, 2, 3}, SHAPE(2, 3));
    mica_array f = mica_where(b.s, c, yes, mica_f32(b.s, 0.5f));
    expect_f32(f, (float[]){0.5f, 0.5f, 0.5f, 1, 2, 3}, SHAPE(2, 3), 0);
    for (int d = 0; d < MICA_DTYPE_COUNT; d++) { /* every width */
        mica_array one = mica_ones(b.s, SHAPE(700), (mica_dtype)d);
        mica_array zero = mica_zeros(b.s, SHAPE(700), (mica_dtype)d);
        mica_array even = mica_equal(
            b.s, mica_remainder(b.s, mica_arange(b.s, 0, 700, 1, MICA_I32), mica_i32(b.s, 2)),
            mica_i32(b.s, 0));
        expect_same(mica_where(b.s, even, one, zero), mica_astype(b.s, even, (mica_dtype)d));
    }
    expect_failure(
        &b, mica_where(b.s, counting(b.s, SHAPE(2)), counting(b.s, SHAPE(3)), mica_i32(b.s, 0)),
        MICA_ESHAPE, "where");
    bench_close(&b);
}

static void clip_has_sides(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){-2, 0.5f, 3, NAN}, SHAPE(4));
    mica_array lo = mica_f32(b.s, 0), hi = mica_f32(b.s, 1);
    expect_f32(mica_clip(b.s, x, lo, hi), (float[]){0, 0.5f, 1, NAN}, SHAPE(4), 0);
    expect_f32(mica_clip(b.s, x, MICA_NONE, hi), (float[]){-2, 0.5f, 1, NAN}, SHAPE(4), 0);
    expect_f32(mica_clip(b.s, x, lo, MICA_NONE), (float[]){0, 0.5f, 3, NAN}, SHAPE(4), 0);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(where_chooses),
                                       cmocka_unit_test(clip_has_sides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

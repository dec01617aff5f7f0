/* Scans: in both directions, with and without the element itself, across blocks. */
#include "op/floats.h"

#define N 1301

/* Compared with the definition, as plain loops. */
static void as_defined(void **state) {
    (void)state;
    bench b = bench_open();
    float x[N], sum[N], max[N];
    const float near = test_device_keeps_order() ? 0 : 1e-4f;
    fill(x, N, 2);
    mica_array a = f32s(b.s, x, SHAPE(N));
    for (int mode = 0; mode < 4; mode++) {
        bool reverse = mode & 1, inclusive = mode & 2;
        float s = 0, m = -INFINITY;
        for (int j = 0; j < N; j++) {
            int i = reverse ? N - 1 - j : j;
            float s0 = s, m0 = m;
            s += x[i];
            m = fmaxf(m, x[i]);
            sum[i] = inclusive ? s : s0;
            max[i] = inclusive ? m : m0;
        }
        expect_f32(mica_cumsum(b.s, a, 0, reverse, inclusive), sum, SHAPE(N), near);
        expect_f32(mica_cummax(b.s, a, 0, reverse, inclusive), max, SHAPE(N), 0);
        mica_array low = mica_cummin(b.s, mica_negative(b.s, a), -1, reverse, inclusive);
        expect_f32(mica_negative(b.s, low), max, SHAPE(N), 0);
    }
    bench_close(&b);
}

static void integers(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = i32s(b.s, (int32_t[]){INT32_MAX, 1, 5}, SHAPE(3));
    expect_i32(mica_cumsum(b.s, x, 0, false, true),
               (int32_t[]){INT32_MAX, INT32_MIN, INT32_MIN + 5}, SHAPE(3));
    expect_i32(mica_cummax(b.s, x, 0, false, false), (int32_t[]){INT32_MIN, INT32_MAX, INT32_MAX},
               SHAPE(3));
    expect_i32(mica_cummin(b.s, x, 0, false, false), (int32_t[]){INT32_MAX, INT32_MAX, 1},
               SHAPE(3));
    expect_i32(mica_cumprod(b.s, counting(b.s, SHAPE(4)), 0, true, true), (int32_t[]){0, 6, 6, 3},
               SHAPE(4));
    const uint8_t small[2] = {200, 3};
    uint8_t got[2];
    mica_array u = mica_from_data(b.s, small, MICA_U8, SHAPE(2));
    assert_int_equal(mica_read(mica_cummin(b.s, u, 0, false, false), got, 2), MICA_OK);
    assert_int_equal(got[0], 255);
    assert_int_equal(got[1], 200);
    bench_close(&b);
}

static void any_axis(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3));
    expect_i32(mica_cumsum(b.s, x, 0, false, true), (int32_t[]){0, 1, 2, 3, 5, 7}, SHAPE(2, 3));
    expect_i32(mica_cumsum(b.s, x, 1, true, true), (int32_t[]){3, 3, 2, 12, 9, 5}, SHAPE(2, 3));
    mica_array none = mica_cumsum(b.s, mica_zeros(b.s, SHAPE(3, 0), MICA_F32), 1, false, true);
    assert_int_equal(mica_eval(b.s, none), MICA_OK);
    expect_failure(&b, mica_cumsum(b.s, counting(b.s, SHAPE(2)), 1, false, true), MICA_EINVAL,
                   "cumsum: there is no axis 1 in i32[2]");
    expect_failure(&b, mica_cumsum(b.s, mica_i32(b.s, 1), 0, false, true), MICA_EINVAL,
                   "cumsum: there is no axis 0 in i32[]");
    bench_close(&b);
}

static void logs(void **state) {
    (void)state;
    bench b = bench_open();
    float x[N], want[N];
    fill(x, N, 4);
    double sum = 0;
    for (int i = 0; i < N; i++)
        want[i] = (float)log(sum += exp((double)x[i]));
    expect_f32(mica_logcumsumexp(b.s, f32s(b.s, x, SHAPE(N)), 0, false, true), want, SHAPE(N),
               1e-5);
    mica_array inf = f32s(b.s, (float[]){-INFINITY, -INFINITY, 1}, SHAPE(3));
    expect_f32(mica_logcumsumexp(b.s, inf, 0, false, true), (float[]){-INFINITY, -INFINITY, 1},
               SHAPE(3), 0);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_defined), cmocka_unit_test(integers),
                                       cmocka_unit_test(any_axis), cmocka_unit_test(logs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

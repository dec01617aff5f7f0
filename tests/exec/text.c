/* Arrays as text. What is expected was printed by MLX 0.32, but for the dtype's name. */
#include <mica/mica.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/expect.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)

static mica_device *device;
static mica_scope *s;

static int open_scope(void **state) {
    (void)state;
    assert_int_equal(test_device_open(&(mica_device_options){.threads = 1}, &device), 0);
    return (int)mica_scope_open(device, &s);
}

static int close_scope(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_device_close(&device);
    return 0;
}

static void expect_with(mica_array x, const mica_text_options *options, const char *want) {
    char got[1024];
    size_t length;
    must(mica_array_text(x, options, got, sizeof got, &length));
    assert_string_equal(got, want);
    assert_int_equal(length, strlen(want));
}

static void expect(mica_array x, const char *want) {
    expect_with(x, NULL, want);
}

static mica_array floats(const float *values, int64_t n) {
    return mica_from_data(s, values, MICA_F32, &n, 1);
}
#define FLOATS(...) floats((const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / 4)

static mica_array counting(const int64_t *shape, int ndim) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    return mica_reshape(s, mica_arange(s, 0, (double)n, 1, MICA_I32), shape, ndim);
}

static void test_elements_of_every_dtype(void **state) {
    (void)state;
    static const mica_dtype whole[] = {MICA_I8, MICA_I16, MICA_I32, MICA_I64};
    char want[64];
    expect(FLOATS(1.5f, -2, 1e-5f, 1e20f, INFINITY, -INFINITY),
           "array([1.5, -2, 1e-05, 1e+20, inf, -inf], dtype=f32)");
    expect(FLOATS(NAN, -0.0f, 0.1f, 1 / 3.0f, 123456792, 0.000123456789f),
           "array([nan, -0, 0.1, 0.333333, 1.23457e+08, 0.000123457], dtype=f32)");
    expect(FLOATS(-NAN, 100000, 1e6f, 1234567, 16777216),
           "array([nan, 100000, 1e+06, 1.23457e+06, 1.67772e+07], dtype=f32)");
    mica_array x = FLOATS(1.1f, -2.25f, 3e4f);
    expect(mica_astype(s, x, MICA_F16), "array([1.09961, -2.25, 30000], dtype=f16)");
    expect(mica_astype(s, x, MICA_BF16), "array([1.10156, -2.25, 29952], dtype=bf16)");
    x = FLOATS(-100, 0, 100);
    for (int i = 0; i < 4; i++) {
        snprintf(want, sizeof want, "array([-100, 0, 100], dtype=%s)", mica_dtype_name(whole[i]));
        expect(mica_astype(s, x, whole[i]), want);
    }
    x = FLOATS(0, 200);
    for (mica_dtype dtype = MICA_U8; dtype <= MICA_U64; dtype++) {
        snprintf(want, sizeof want, "array([0, 200], dtype=%s)", mica_dtype_name(dtype));
        expect(mica_astype(s, x, dtype), want);
    }
    const uint64_t most = UINT64_MAX;
    const int64_t least = INT64_MIN;
    expect(mica_from_data(s, &most, MICA_U64, SHAPE(1)),
           "array([18446744073709551615], dtype=u64)");
    expect(mica_from_data(s, &least, MICA_I64, SHAPE(1)),
           "array([-9223372036854775808], dtype=i64)");
    expect(mica_from_data(s, (const bool[]){true, false}, MICA_BOOL, SHAPE(1, 2)),
           "array([[True, False]], dtype=bool)");
    expect(mica_from_data(s, (const double[]){0.1, -2e-300}, MICA_F64, SHAPE(2)),
           "array([0.1, -2e-300], dtype=f64)");
    const float parts[] = {1, 2, 1, -2.5f, 0, -INFINITY};
    expect(mica_from_data(s, parts, MICA_C64, SHAPE(3)),
           "array([1+2j, 1-2.5j, 0-infj], dtype=c64)");
}

static void test_axes(void **state) {
    (void)state;
    expect(mica_i32(s, 5), "array(5, dtype=i32)");
    expect(mica_reshape(s, FLOATS(2.5f), NULL, 0), "array(2.5, dtype=f32)");
    expect(mica_zeros(s, SHAPE(0, 3), MICA_F32), "array([], dtype=f32)");
    expect(mica_ones(s, SHAPE(1, 1, 1), MICA_F32), "array([[[1]]], dtype=f32)");
    mica_array x = mica_transpose(s, counting(SHAPE(2, 3, 4)), (const int[]){2, 0, 1});
    expect(mica_slice_axis(s, x, 0, 0, 2), "array([[[0, 4, 8],\n"
                                           "        [12, 16, 20]],\n"
                                           "       [[1, 5, 9],\n"
                                           "        [13, 17, 21]]], dtype=i32)");
    expect(mica_broadcast_to(s, mica_i32(s, 7), SHAPE(2, 2)), "array([[7, 7],\n"
                                                              "       [7, 7]], dtype=i32)");
}

static void test_long_axes_are_cut(void **state) {
    (void)state;
    mica_array x = mica_transpose(s, counting(SHAPE(7, 10)), NULL);
    expect(counting(SHAPE(6)), "array([0, 1, 2, 3, 4, 5], dtype=i32)");
    expect(counting(SHAPE(7)), "array([0, 1, 2, ..., 4, 5, 6], dtype=i32)");
    expect(x, "array([[0, 10, 20, ..., 40, 50, 60],\n"
              "       [1, 11, 21, ..., 41, 51, 61],\n"
              "       [2, 12, 22, ..., 42, 52, 62],\n"
              "       ...,\n"
              "       [7, 17, 27, ..., 47, 57, 67],\n"
              "       [8, 18, 28, ..., 48, 58, 68],\n"
              "       [9, 19, 29, ..., 49, 59, 69]], dtype=i32)");
    expect_with(x, &(mica_text_options){.edge = 1},
                "array([[0, ..., 60],\n"
                "       ...,\n"
                "       [9, ..., 69]], dtype=i32)");
    expect_with(counting(SHAPE(8)), &(mica_text_options){.edge = -1},
                "array([0, 1, 2, 3, 4, 5, 6, 7], dtype=i32)");
    expect_with(counting(SHAPE(3)), &(mica_text_options){.edge = INT64_MAX},
                "array([0, 1, 2], dtype=i32)");
    expect_with(FLOATS(1 / 3.0f, 1e6f), &(mica_text_options){.digits = 9},
                "array([0.333333343, 1000000], dtype=f32)");
    /* In a large array nothing else is read. */
    expect(mica_arange(s, 0, 1 << 20, 1, MICA_I32),
           "array([0, 1, 2, ..., 1048573, 1048574, 1048575], dtype=i32)");
}

/* As snprintf: what fits, ended by a NUL, and the length that it would have. */
static void test_room(void **state) {
    (void)state;
    static const char whole[] = "array([0, 1], dtype=i32)";
    mica_array x = counting(SHAPE(2));
    size_t length = 0;
    must(mica_array_text(x, NULL, NULL, 0, &length));
    assert_int_equal(length, sizeof whole - 1);
    for (size_t room = 1; room <= sizeof whole; room++) {
        char got[sizeof whole + 1];
        memset(got, '#', sizeof got);
        must(mica_array_text(x, NULL, got, room, NULL));
        assert_int_equal(strlen(got), room - 1);
        assert_memory_equal(got, whole, room - 1);
        assert_int_equal(got[room], '#');
    }
}

static void test_the_locale_changes_nothing(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE.utf8")) skip();
    mica_array x = FLOATS(1.5f);
    char got[64];
    mica_status status = mica_array_text(x, NULL, got, sizeof got, NULL);
    setlocale(LC_NUMERIC, "C");
    must(status);
    assert_string_equal(got, "array([1.5], dtype=f32)");
}

static void test_refused(void **state) {
    (void)state;
    char text[8] = "before";
    size_t length = 9;
    mica_array x = counting(SHAPE(2));
    expect_refused(mica_array_text(MICA_NONE, NULL, text, sizeof text, &length), MICA_EINVAL,
                   "array_text: the invalid array");
    assert_string_equal(text, "");
    assert_int_equal(length, 0);
    expect_refused(mica_array_text(x, NULL, NULL, 1, NULL), MICA_EINVAL, "buffer is NULL");
    expect_refused(mica_array_text(x, &(mica_text_options){.edge = -2}, text, 8, NULL), MICA_EINVAL,
                   "edge -2");
    expect_refused(mica_array_text(x, &(mica_text_options){.digits = 18}, text, 8, NULL),
                   MICA_EINVAL, "at most 17 digits");
    mica_array bad = mica_take(s, x, mica_i32(s, 5), 0);
    expect_refused(mica_array_text(bad, NULL, text, sizeof text, NULL), MICA_EINVAL, "take");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_scope, close_scope)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_elements_of_every_dtype),    TEST(test_axes),
        TEST(test_long_axes_are_cut),          TEST(test_room),
        TEST(test_the_locale_changes_nothing), TEST(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

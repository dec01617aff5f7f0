/* Layouts: dtypes, dense strides, broadcasting, walking, refusing absurd shapes. */
#include "graph/layout.h"

#include "support/support.h"

#include <string.h>

static mc_layout layout_of(mica_dtype dtype, const int64_t *shape, int ndim) {
    mc_layout l;
    assert_int_equal(mc_layout_init(&l, dtype, shape, ndim), MICA_OK);
    return l;
}

static void test_dtypes_have_names_and_sizes(void **state) {
    (void)state;
    assert_string_equal(mica_dtype_name(MICA_BF16), "bf16");
    assert_int_equal(mica_dtype_bytes(MICA_U64), 8);
    assert_true(mica_dtype_is_float(MICA_F16));
    assert_false(mica_dtype_is_float(MICA_I64));
    assert_true(mica_dtype_is_signed(MICA_I8));
    assert_false(mica_dtype_is_signed(MICA_U64));
    assert_string_equal(mica_dtype_name((mica_dtype)77), "?");
    assert_int_equal(mica_dtype_bytes((mica_dtype)-1), 0);
}

static void test_dense_strides_are_row_major(void **state) {
    (void)state;
    mc_layout l = layout_of(MICA_F32, (int64_t[]){2, 3, 4}, 3);
    assert_int_equal(l.strides[0], 12);
    assert_int_equal(l.strides[1], 4);
    assert_int_equal(l.strides[2], 1);
    assert_int_equal(mc_layout_size(&l), 24);
    assert_int_equal(mc_layout_bytes(&l), 96);
    assert_true(mc_layout_is_dense(&l));
    l.strides[0] = 13;
    assert_false(mc_layout_is_dense(&l));
    l.shape[0] = 1; /* the stride of an axis of length 1 says nothing */
    assert_true(mc_layout_is_dense(&l));
}

static void test_shapes_that_overflow_are_refused(void **state) {
    (void)state;
    mc_layout l;
    int64_t half = (int64_t)1 << 31;
    assert_int_equal(mc_layout_init(&l, MICA_F32, (int64_t[]){half, half}, 2), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "2^62"));
    /* A zero among them does not let the others overflow. */
    assert_int_equal(mc_layout_init(&l, MICA_F32, (int64_t[]){0, half, half}, 3), MICA_EINVAL);
    assert_int_equal(mc_layout_init(&l, MICA_F32, (int64_t[]){2, -1}, 2), MICA_EINVAL);
    assert_int_equal(mc_layout_init(&l, MICA_F32, NULL, 9), MICA_EINVAL);
    assert_int_equal(mc_layout_init(&l, MICA_F32, NULL, 1), MICA_EINVAL);
    assert_int_equal(mc_layout_init(&l, (mica_dtype)MICA_DTYPE_COUNT, NULL, 0), MICA_EINVAL);
    l = (mc_layout){.dtype = MICA_F32, .ndim = 2, .shape = {half, half}};
    assert_int_equal(mc_layout_finish(&l), MICA_EINVAL);
    l = (mc_layout){.dtype = MICA_F32, .ndim = 2, .shape = {2, 3}, .strides = {1, 2}};
    assert_int_equal(mc_layout_finish(&l), MICA_OK);
    assert_true(mc_layout_is_dense(&l));
}

static void test_broadcasting_stretches_with_stride_zero(void **state) {
    (void)state;
    mc_layout x = layout_of(MICA_F32, (int64_t[]){3, 1}, 2), y;
    assert_true(mc_layout_broadcast(&x, (int64_t[]){2, 3, 4}, 3, &y));
    assert_int_equal(y.strides[0], 0);
    assert_int_equal(y.strides[1], 1);
    assert_int_equal(y.strides[2], 0);
    assert_false(mc_layout_broadcast(&x, (int64_t[]){2, 4}, 2, &y));
    assert_false(mc_layout_broadcast(&x, (int64_t[]){3}, 1, &y));
}

static void test_a_walk_visits_a_transposed_view_in_logical_order(void **state) {
    (void)state;
    mc_layout l = layout_of(MICA_F32, (int64_t[]){3, 2}, 2);
    l.strides[0] = 1; /* the transpose of [2, 3] */
    l.strides[1] = 3;
    static const int64_t want[] = {0, 3, 1, 4, 2, 5};
    mc_walk w = mc_walk_begin(&l);
    int n = 0;
    do
        assert_int_equal(w.offset, want[n++]);
    while (mc_walk_next(&w));
    assert_int_equal(n, 6);
}

static void test_text_names_dtype_and_shape(void **state) {
    (void)state;
    char text[MC_LAYOUT_TEXT];
    mc_layout l = layout_of(MICA_BF16, (int64_t[]){2, 30}, 2);
    assert_string_equal(mc_layout_text(&l, text), "bf16[2,30]");
    l = layout_of(MICA_U8, NULL, 0);
    assert_string_equal(mc_layout_text(&l, text), "u8[]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes_have_names_and_sizes),
        cmocka_unit_test(test_dense_strides_are_row_major),
        cmocka_unit_test(test_shapes_that_overflow_are_refused),
        cmocka_unit_test(test_broadcasting_stretches_with_stride_zero),
        cmocka_unit_test(test_a_walk_visits_a_transposed_view_in_logical_order),
        cmocka_unit_test(test_text_names_dtype_and_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

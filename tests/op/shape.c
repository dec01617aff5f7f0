/* Views: shapes, negative axes, errors. That chains of views have the right elements is tested in
 * tests/graph/view.c. */
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/check.h"

static void reshape_fills_one_length(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3));
    expect_i32(mica_reshape(b.s, x, SHAPE(3, -1)), (int32_t[]){0, 1, 2, 3, 4, 5}, SHAPE(3, 2));
    expect_i32(mica_reshape(b.s, x, SHAPE(-1)), (int32_t[]){0, 1, 2, 3, 4, 5}, SHAPE(6));
    mica_array none = mica_reshape(b.s, counting(b.s, SHAPE(0, 4)), SHAPE(2, -1));
    assert_int_equal(mica_array_dim(none, 1), 0);
    /* the same shape records nothing */
    assert_int_equal(mica_reshape(b.s, x, SHAPE(2, 3)).node, x.node);
    bench_close(&b);
}

static void reshape_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(4, 2)), MICA_ESHAPE,
                   "reshape: i32[2,3] to i32[4,2]");
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(4, -1)), MICA_ESHAPE,
                   "do not divide by 4");
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(-1, -1)), MICA_EINVAL,
                   "both -1");
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(-2, 3)), MICA_EINVAL,
                   "length -2");
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(0)), SHAPE(0, -1)), MICA_ESHAPE,
                   "do not divide");
    int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40, -1};
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(2)), huge, 3), MICA_EINVAL,
                   "overflow");
    int64_t nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect_failure(&b, mica_reshape(b.s, counting(b.s, SHAPE(1)), nine, 9), MICA_EINVAL, "9 axes");
    expect_failure(&b, mica_reshape(b.s, MICA_NONE, SHAPE(1)), MICA_EINVAL, "invalid array");
    bench_close(&b);
}

/* ---- shape rules and views, as the planner uses them ---- */

/* Calls an op's shape rule and view. true: nothing needs to be copied; *out is filled. */
static bool look(mc_op op, const void *attr, const mc_layout *in, mc_layout *out,
                 int64_t *offset_bytes) {
    const mc_op_def *def = mc_op_get(op);
    memset(out, 0, sizeof *out);
    assert_int_equal(def->infer(attr, &in, 1, out), MICA_OK);
    return def->view(attr, in, out, offset_bytes);
}

static void expect_strides(const mc_layout *l, const int64_t *strides, int ndim) {
    assert_int_equal(l->ndim, ndim);
    for (int k = 0; k < ndim; k++)
        assert_int_equal(l->strides[k], strides[k]);
}

static mc_layout strided(const int64_t *shape, const int64_t *strides, int ndim) {
    mc_layout l;
    assert_int_equal(mc_layout_init(&l, MICA_F32, shape, ndim), MICA_OK);
    memcpy(l.strides, strides, (size_t)ndim * sizeof *strides);
    return l;
}

static void reshape_finds_strides_where_there_are(void **state) {
    (void)state;
    mc_layout out;
    int64_t offset;
    /* [B, L, H * D], a slice of a wider buffer: splitting the last axis copies nothing */
    mc_layout rows = strided(LIST(2, 5, 12), LIST(100, 20, 1), 3);
    mc_attr_shape heads = {.ndim = 4, .shape = {2, 5, 3, 4}};
    assert_true(look(MC_OP_RESHAPE, &heads, &rows, &out, &offset));
    expect_strides(&out, LIST(100, 20, 4, 1), 4);
    /* B and L are 5 * 20 apart and merge; L and H * D have a gap between them and do not */
    mc_attr_shape merged = {.ndim = 2, .shape = {10, 12}};
    assert_true(look(MC_OP_RESHAPE, &merged, &rows, &out, &offset));
    expect_strides(&out, LIST(20, 1), 2);
    mc_attr_shape gap = {.ndim = 2, .shape = {2, 60}};
    assert_false(look(MC_OP_RESHAPE, &gap, &rows, &out, &offset));
    /* axes of length 1 are added and dropped, whatever their strides */
    mc_layout ones = strided(LIST(1, 3, 1, 2), LIST(77, 2, 99, 1), 4);
    mc_attr_shape more = {.ndim = 3, .shape = {6, 1, 1}};
    assert_true(look(MC_OP_RESHAPE, &more, &ones, &out, &offset));
    assert_int_equal(out.strides[0], 1);
    /* reversed axes merge, transposed ones do not */
    mc_layout reversed = strided(LIST(3, 4), LIST(-4, -1), 2);
    mc_attr_shape flat = {.ndim = 1, .shape = {12}};
    assert_true(look(MC_OP_RESHAPE, &flat, &reversed, &out, &offset));
    expect_strides(&out, LIST(-1), 1);
    mc_layout transposed = strided(LIST(3, 4), LIST(1, 3), 2);
    assert_false(look(MC_OP_RESHAPE, &flat, &transposed, &out, &offset));
}

static void slices_are_offsets_and_strides(void **state) {
    (void)state;
    mc_layout out, x = strided(LIST(4, 6), LIST(6, 1), 2);
    int64_t offset;
    mc_attr_slice back = {.start = {3, 1}, .step = {-1, 2}, .count = {4, 3}};
    assert_true(look(MC_OP_SLICE, &back, &x, &out, &offset));
    expect_strides(&out, LIST(-6, 2), 2);
    assert_int_equal(offset, (3 * 6 + 1) * 4);
}

static void as_strided_is_over_the_dense_operand(void **state) {
    (void)state;
    mc_layout out, dense = strided(LIST(4, 6), LIST(6, 1), 2);
    mc_layout transposed = strided(LIST(6, 4), LIST(1, 6), 2);
    int64_t offset;
    mc_attr_strided attr = {.ndim = 2, .shape = {3, 3}, .strides = {1, 2}, .offset = 5};
    assert_true(look(MC_OP_AS_STRIDED, &attr, &dense, &out, &offset));
    expect_strides(&out, LIST(1, 2), 2);
    assert_int_equal(offset, 20);
    assert_false(look(MC_OP_AS_STRIDED, &attr, &transposed, &out, &offset));
}

/* ---- builders ---- */

static void flatten_and_unflatten(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3, 2));
    int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    expect_i32(mica_flatten(b.s, x, 1, -1), all, SHAPE(2, 6));
    expect_i32(mica_flatten(b.s, x, 0, 1), all, SHAPE(6, 2));
    expect_i32(mica_flatten(b.s, mica_i32(b.s, 7), 0, -1), (int32_t[]){7}, SHAPE(1));
    mica_array y = mica_unflatten(b.s, mica_flatten(b.s, x, 0, -1), -1, SHAPE(2, -1, 2));
    expect_i32(y, all, SHAPE(2, 3, 2));
    /* an empty axis elsewhere does not make every split valid */
    mica_array empty = counting(b.s, SHAPE(0, 6));
    expect_failure(&b, mica_unflatten(b.s, empty, 1, SHAPE(2, 2)), MICA_ESHAPE,
                   "axis 1 has 6 elements, the new axes have 4");
    expect_failure(&b, mica_unflatten(b.s, counting(b.s, SHAPE(2, 6)), 1, SHAPE(4, -1)),
                   MICA_ESHAPE, "unflatten: i32[6]: 6 elements do not divide by 4");
    expect_failure(&b, mica_flatten(b.s, counting(b.s, SHAPE(2, 3)), 1, 0), MICA_EINVAL,
                   "axis 1 is after axis 0");
    bench_close(&b);
}

static void squeeze_and_expand(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(3));
    expect_i32(mica_expand_dims(b.s, x, -1), (int32_t[]){0, 1, 2}, SHAPE(3, 1));
    expect_i32(mica_expand_dims(b.s, x, 0), (int32_t[]){0, 1, 2}, SHAPE(1, 3));
    expect_i32(mica_squeeze(b.s, mica_expand_dims(b.s, x, 1), -1), (int32_t[]){0, 1, 2}, SHAPE(3));
    expect_failure(&b, mica_squeeze(b.s, counting(b.s, SHAPE(2, 3)), 1), MICA_ESHAPE,
                   "axis 1 of i32[2,3]");
    expect_failure(&b, mica_expand_dims(b.s, counting(b.s, SHAPE(3)), 3), MICA_EINVAL, "axis 3");
    mica_array full = counting(b.s, SHAPE(1, 1, 1, 1, 1, 1, 1, 2));
    expect_failure(&b, mica_expand_dims(b.s, full, 0), MICA_EINVAL, "expand_dims");
    bench_close(&b);
}

static void transpositions(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 1, 3));
    expect_i32(mica_transpose(b.s, x, NULL), (int32_t[]){0, 3, 1, 4, 2, 5}, SHAPE(3, 1, 2));
    expect_i32(mica_swapaxes(b.s, x, 0, -1), (int32_t[]){0, 3, 1, 4, 2, 5}, SHAPE(3, 1, 2));
    expect_i32(mica_moveaxis(b.s, x, 0, 2), (int32_t[]){0, 3, 1, 4, 2, 5}, SHAPE(1, 3, 2));
    expect_i32(mica_moveaxis(b.s, x, -1, 0), (int32_t[]){0, 3, 1, 4, 2, 5}, SHAPE(3, 2, 1));
    expect_failure(&b, mica_transpose(b.s, counting(b.s, SHAPE(2, 3)), (int[]){0, -2}), MICA_EINVAL,
                   "axis 0 is listed twice");
    expect_failure(&b, mica_transpose(b.s, counting(b.s, SHAPE(2, 3)), (int[]){0, 2}), MICA_EINVAL,
                   "transpose");
    expect_failure(&b, mica_swapaxes(b.s, counting(b.s, SHAPE(2, 3)), 0, 5), MICA_EINVAL,
                   "swapaxes");
    expect_failure(&b, mica_moveaxis(b.s, counting(b.s, SHAPE(2, 3)), -3, 0), MICA_EINVAL,
                   "moveaxis");
    bench_close(&b);
}

static void broadcasts(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 1));
    expect_i32(mica_broadcast_to(b.s, x, SHAPE(2, 2, 3)),
               (int32_t[]){0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}, SHAPE(2, 2, 3));
    mica_array none = mica_broadcast_to(b.s, x, SHAPE(2, 0));
    assert_int_equal(mica_array_size(none), 0);
    assert_int_equal(mica_eval(b.s, none), MICA_OK);
    expect_failure(&b, mica_broadcast_to(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(2, 4)), MICA_ESHAPE,
                   "i32[2,3] does not stretch to i32[2,4]");
    expect_failure(&b, mica_broadcast_to(b.s, counting(b.s, SHAPE(2, 3)), SHAPE(3)), MICA_ESHAPE,
                   "broadcast_to");
    bench_close(&b);
}

static void slices_at_the_edges(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(5));
    int32_t back[] = {4, 3, 2, 1, 0};
    expect_i32(mica_slice(b.s, x, NULL, NULL, LIST(-1)), back, SHAPE(5));
    expect_i32(mica_slice(b.s, x, LIST(100), NULL, LIST(-2)), (int32_t[]){4, 2, 0}, SHAPE(3));
    expect_i32(mica_slice(b.s, x, LIST(-2), LIST(100), NULL), (int32_t[]){3, 4}, SHAPE(2));
    expect_i32(mica_slice(b.s, x, LIST(INT64_MIN), LIST(2), NULL), (int32_t[]){0, 1}, SHAPE(2));
    expect_i32(mica_slice(b.s, x, LIST(1), NULL, LIST(INT64_MAX)), (int32_t[]){1}, SHAPE(1));
    expect_i32(mica_slice(b.s, x, LIST(3), NULL, LIST(INT64_MIN)), (int32_t[]){3}, SHAPE(1));
    expect_i32(mica_slice(b.s, x, LIST(3), LIST(1), NULL), NULL, SHAPE(0));
    expect_i32(mica_slice_axis(b.s, x, -1, 1, -1), (int32_t[]){1, 2, 3}, SHAPE(3));
    assert_int_equal(mica_slice(b.s, x, LIST(0), LIST(9), NULL).node, x.node);
    expect_failure(&b, mica_slice(b.s, counting(b.s, SHAPE(5)), NULL, NULL, LIST(0)), MICA_EINVAL,
                   "the step of axis 0 is 0");
    bench_close(&b);
}

static void narrow_is_never_cut(void **state) {
    (void)state;
    bench b = bench_open();
    expect_i32(mica_narrow(b.s, counting(b.s, SHAPE(5)), 0, 1, 3), (int32_t[]){1, 2, 3}, SHAPE(3));
    expect_i32(mica_narrow(b.s, counting(b.s, SHAPE(2, 3)), -1, -2, 2), (int32_t[]){1, 2, 4, 5},
               SHAPE(2, 2));
    expect_i32(mica_narrow(b.s, counting(b.s, SHAPE(5)), 0, 5, 0), NULL, SHAPE(0));
    static const int64_t bad[][2] = {{3, 3},         {0, 6},         {6, 0},
                                     {-6, 1},        {2, -1},        {-1, 2},
                                     {INT64_MAX, 1}, {INT64_MIN, 1}, {1, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_failure(&b, mica_narrow(b.s, counting(b.s, SHAPE(5)), 0, bad[i][0], bad[i][1]),
                       MICA_EINVAL, "of axis 0 of i32[5]");
    expect_failure(&b, mica_narrow(b.s, counting(b.s, SHAPE(5)), 1, 0, 1), MICA_EINVAL,
                   "there is no axis 1");
    bench_close(&b);
}

static void as_strided_stays_inside(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_transpose(b.s, counting(b.s, SHAPE(2, 3)), NULL); /* 0 3 1 4 2 5 */
    expect_i32(mica_as_strided(b.s, x, LIST(2, 2), LIST(1, -1), 2, 2), (int32_t[]){1, 3, 4, 1},
               SHAPE(2, 2));
    expect_i32(mica_as_strided(b.s, x, NULL, NULL, 0, 5), (int32_t[]){5}, NULL, 0);
    expect_i32(mica_as_strided(b.s, x, LIST(0), LIST(1000), 1, 77), NULL, SHAPE(0));
    expect_failure(&b, mica_as_strided(b.s, counting(b.s, SHAPE(6)), LIST(4), LIST(2), 1, 0),
                   MICA_EINVAL, "reaches outside the 6 elements of i32[6]");
    expect_failure(&b, mica_as_strided(b.s, counting(b.s, SHAPE(6)), LIST(3), LIST(-1), 1, 1),
                   MICA_EINVAL, "reaches outside");
    expect_failure(
        &b, mica_as_strided(b.s, counting(b.s, SHAPE(6)), LIST(3, 3), LIST(INT64_MAX, 1), 2, 0),
        MICA_EINVAL, "reaches outside");
    expect_failure(&b, mica_as_strided(b.s, counting(b.s, SHAPE(6)), LIST(1), LIST(1), 1, -1),
                   MICA_EINVAL, "reaches outside");
    expect_failure(&b, mica_as_strided(b.s, counting(b.s, SHAPE(6)), LIST(1), NULL, 1, 0),
                   MICA_EINVAL, "NULL");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape_fills_one_length),
        cmocka_unit_test(reshape_refuses),
        cmocka_unit_test(reshape_finds_strides_where_there_are),
        cmocka_unit_test(slices_are_offsets_and_strides),
        cmocka_unit_test(as_strided_is_over_the_dense_operand),
        cmocka_unit_test(flatten_and_unflatten),
        cmocka_unit_test(squeeze_and_expand),
        cmocka_unit_test(transpositions),
        cmocka_unit_test(broadcasts),
        cmocka_unit_test(slices_at_the_edges),
        cmocka_unit_test(narrow_is_never_cut),
        cmocka_unit_test(as_strided_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Concatenating, padding, splitting, repeating, rolling, triangles and diagonals. */
#include "op/check.h"

static void concatenate_joins_views_and_promotes(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 2)), t = mica_transpose(b.s, x, NULL);
    mica_array none = mica_slice_axis(b.s, x, 1, 0, 0);
    mica_array parts[] = {x, none, t, mica_flip(b.s, x, 1)};
    expect_i32(mica_concatenate(b.s, parts, 4, -1), (int32_t[]){0, 1, 0, 2, 1, 0, 2, 3, 1, 3, 3, 2},
               SHAPE(2, 6));
    expect_i32(mica_concatenate(b.s, (mica_array[]){x, t}, 2, 0),
               (int32_t[]){0, 1, 2, 3, 0, 2, 1, 3}, SHAPE(4, 2));
    mica_array halves = mica_astype(b.s, x, MICA_F16);
    mica_array mixed = mica_concatenate(b.s, (mica_array[]){x, halves}, 2, 0);
    assert_int_equal(mica_array_dtype(mixed), MICA_F16);
    assert_int_equal(mica_eval(b.s, mixed), MICA_OK);
    /* concatenating one array records nothing */
    assert_int_equal(mica_concatenate(b.s, &x, 1, 0).node, x.node);
    bench_close(&b);
}

static void concatenate_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array parts[] = {counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(2, 4))};
    expect_failure(&b, mica_concatenate(b.s, parts, 2, 0), MICA_ESHAPE,
                   "i32[2,3] and i32[2,4] (operands 0 and 1) differ beside axis 0");
    mica_array two[] = {counting(b.s, SHAPE(2)), counting(b.s, SHAPE(2, 2))};
    expect_failure(&b, mica_concatenate(b.s, two, 2, 0), MICA_ESHAPE, "differ");
    mica_array x = counting(b.s, SHAPE(2));
    expect_failure(&b, mica_concatenate(b.s, &x, 1, 1), MICA_EINVAL, "axis 1");
    expect_failure(&b, mica_concatenate(b.s, NULL, 0, 0), MICA_EINVAL, "no array");
    expect_failure(&b, mica_stack(b.s, NULL, 0, 0), MICA_EINVAL, "no array");
    mica_array one = mica_i32(b.s, 1);
    expect_failure(&b, mica_stack(b.s, &one, 1, 2), MICA_EINVAL, "stack: a new axis 2 in i32[]");
    mica_array wide[2] = {mica_zeros(b.s, SHAPE((int64_t)1 << 59), MICA_I32)};
    wide[1] = wide[0];
    expect_failure(&b, mica_concatenate(b.s, wide, 2, 0), MICA_EINVAL, "concatenate: a shape");
    mica_array scalars[] = {mica_i32(b.s, 1), mica_i32(b.s, 2)};
    expect_failure(&b, mica_concatenate(b.s, scalars, 2, 0), MICA_EINVAL, "axis 0");
    bench_close(&b);
}

static void stack_makes_an_axis(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array xs[] = {counting(b.s, SHAPE(3)), mica_flip(b.s, counting(b.s, SHAPE(3)), 0)};
    expect_i32(mica_stack(b.s, xs, 2, 0), (int32_t[]){0, 1, 2, 2, 1, 0}, SHAPE(2, 3));
    expect_i32(mica_stack(b.s, xs, 2, -1), (int32_t[]){0, 2, 1, 1, 2, 0}, SHAPE(3, 2));
    mica_array scalars[] = {mica_i32(b.s, 5), mica_i32(b.s, 6)};
    expect_i32(mica_stack(b.s, scalars, 2, 0), (int32_t[]){5, 6}, SHAPE(2));
    bench_close(&b);
}

static void split_is_the_reverse_of_concatenate(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 5)), pieces[3];
    assert_int_equal(mica_split(b.s, x, LIST(2, -1), 2, 1, pieces), MICA_OK);
    expect_i32(pieces[0], (int32_t[]){0, 1, 5, 6}, SHAPE(2, 2));
    expect_i32(pieces[1], (int32_t[]){2, 3, 7, 8}, SHAPE(2, 2));
    expect_i32(pieces[2], (int32_t[]){4, 9}, SHAPE(2, 1));
    int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    expect_i32(mica_concatenate(b.s, pieces, 3, 1), all, SHAPE(2, 5));
    assert_int_equal(mica_split(b.s, x, LIST(2), 1, 7, pieces), MICA_EINVAL);
    assert_false(mica_valid(pieces[0]));
    bench_close(&b);
}

static void pads(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_transpose(b.s, counting(b.s, SHAPE(2, 2)), NULL); /* 0 2 / 1 3 */
    expect_i32(mica_pad(b.s, x, LIST(1, 0), LIST(0, 2), mica_i32(b.s, 9)),
               (int32_t[]){9, 9, 9, 9, 0, 2, 9, 9, 1, 3, 9, 9}, SHAPE(3, 4));
    expect_i32(mica_pad_edge(b.s, x, LIST(1, 0), LIST(0, 2)),
               (int32_t[]){0, 2, 2, 2, 0, 2, 2, 2, 1, 3, 3, 3}, SHAPE(3, 4));
    /* the value takes the array's dtype; an empty array is padded with it alone */
    mica_array empty = counting(b.s, SHAPE(0));
    expect_i32(mica_pad(b.s, empty, LIST(1), LIST(1), mica_f32(b.s, 3.0f)), (int32_t[]){3, 3},
               SHAPE(2));
    expect_i32(mica_pad(b.s, mica_i32(b.s, 4), NULL, NULL, mica_i32(b.s, 0)), (int32_t[]){4}, NULL,
               0);
    expect_failure(&b, mica_pad(b.s, counting(b.s, SHAPE(2)), LIST(-1), LIST(0), mica_i32(b.s, 0)),
                   MICA_EINVAL, "-1 and 0 elements along axis 0");
    expect_failure(&b, mica_pad_edge(b.s, counting(b.s, SHAPE(0)), LIST(1), LIST(0)), MICA_EINVAL,
                   "axis 0 is empty");
    expect_failure(
        &b, mica_pad(b.s, counting(b.s, SHAPE(2)), LIST(INT64_MAX), LIST(0), mica_i32(b.s, 0)),
        MICA_EINVAL, "overflows");
    bench_close(&b);
}

static void repeats_and_tiles(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_transpose(b.s, counting(b.s, SHAPE(2, 2)), NULL); /* 0 2 / 1 3 */
    expect_i32(mica_repeat(b.s, x, 2, 0), (int32_t[]){0, 2, 0, 2, 1, 3, 1, 3}, SHAPE(4, 2));
    expect_i32(mica_repeat(b.s, x, 2, -1), (int32_t[]){0, 0, 2, 2, 1, 1, 3, 3}, SHAPE(2, 4));
    expect_i32(mica_repeat(b.s, x, 0, 1), NULL, SHAPE(2, 0));
    expect_i32(mica_tile(b.s, x, LIST(2), 1), (int32_t[]){0, 2, 0, 2, 1, 3, 1, 3}, SHAPE(2, 4));
    expect_i32(mica_tile(b.s, x, LIST(2, 1, 1), 3), (int32_t[]){0, 2, 1, 3, 0, 2, 1, 3},
               SHAPE(2, 2, 2));
    expect_i32(mica_tile(b.s, mica_i32(b.s, 7), LIST(3), 1), (int32_t[]){7, 7, 7}, SHAPE(3));
    expect_i32(mica_tile(b.s, x, NULL, 0), (int32_t[]){0, 2, 1, 3}, SHAPE(2, 2));
    expect_failure(&b, mica_repeat(b.s, counting(b.s, SHAPE(2)), -1, 0), MICA_EINVAL, "-1 times");
    expect_failure(&b, mica_repeat(b.s, counting(b.s, SHAPE(4)), INT64_MAX / 2, 0), MICA_EINVAL,
                   "repeat");
    expect_failure(&b, mica_tile(b.s, counting(b.s, SHAPE(2)), LIST(-2), 1), MICA_EINVAL,
                   "-2 times along axis 0");
    bench_close(&b);
}

static void rolls_and_flips(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(5));
    expect_i32(mica_roll(b.s, x, 2, 0), (int32_t[]){3, 4, 0, 1, 2}, SHAPE(5));
    expect_i32(mica_roll(b.s, x, -1, 0), (int32_t[]){1, 2, 3, 4, 0}, SHAPE(5));
    expect_i32(mica_roll(b.s, x, 12, 0), (int32_t[]){3, 4, 0, 1, 2}, SHAPE(5));
    expect_i32(mica_roll(b.s, x, INT64_MIN, 0), (int32_t[]){3, 4, 0, 1, 2}, SHAPE(5));
    assert_int_equal(mica_roll(b.s, x, 5, 0).node, x.node);
    assert_int_equal(mica_array_size(mica_roll(b.s, counting(b.s, SHAPE(0)), 1, 0)), 0);
    expect_i32(mica_flip(b.s, x, -1), (int32_t[]){4, 3, 2, 1, 0}, SHAPE(5));
    bench_close(&b);
}

static void triangles(void **state) {
    (void)state;
    bench b = bench_open();
    int32_t ones[6] = {1, 1, 1, 1, 1, 1};
    mica_array x = i32s(b.s, ones, SHAPE(2, 3));
    expect_i32(mica_tril(b.s, x, 0), (int32_t[]){1, 0, 0, 1, 1, 0}, SHAPE(2, 3));
    expect_i32(mica_tril(b.s, x, -1), (int32_t[]){0, 0, 0, 1, 0, 0}, SHAPE(2, 3));
    expect_i32(mica_triu(b.s, x, 1), (int32_t[]){0, 1, 1, 0, 0, 1}, SHAPE(2, 3));
    expect_i32(mica_tril(b.s, x, INT64_MAX), ones, SHAPE(2, 3));
    expect_i32(mica_triu(b.s, x, INT64_MIN), ones, SHAPE(2, 3));
    expect_i32(mica_tril(b.s, x, INT64_MIN), (int32_t[6]){0}, SHAPE(2, 3));
    expect_failure(&b, mica_tril(b.s, counting(b.s, SHAPE(3)), 0), MICA_ESHAPE, "no two axes");
    bench_close(&b);
}

static void diagonals(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2));
    expect_i32(mica_diag(b.s, x, 0), (int32_t[]){0, 0, 0, 1}, SHAPE(2, 2));
    expect_i32(mica_diag(b.s, x, -1), (int32_t[]){0, 0, 0, 0, 0, 0, 0, 1, 0}, SHAPE(3, 3));
    expect_i32(mica_diag(b.s, x, 1), (int32_t[]){0, 0, 0, 0, 0, 1, 0, 0, 0}, SHAPE(3, 3));
    expect_i32(mica_diag(b.s, mica_slice_axis(b.s, x, 0, 0, 0), 2), (int32_t[4]){0}, SHAPE(2, 2));
    mica_array m = counting(b.s, SHAPE(3, 4));
    expect_i32(mica_diag(b.s, m, 0), (int32_t[]){0, 5, 10}, SHAPE(3));
    expect_i32(mica_diagonal(b.s, m, 2, 0, 1), (int32_t[]){2, 7}, SHAPE(2));
    expect_i32(mica_diagonal(b.s, m, -2, 0, 1), (int32_t[]){8}, SHAPE(1));
    expect_i32(mica_diagonal(b.s, m, -1, 1, 0), (int32_t[]){1, 6, 11}, SHAPE(3));
    expect_i32(mica_diagonal(b.s, m, 9, 0, 1), NULL, SHAPE(0));
    expect_i32(mica_diagonal(b.s, m, INT64_MIN, 0, 1), NULL, SHAPE(0));
    mica_array cube = counting(b.s, SHAPE(2, 2, 2));
    expect_i32(mica_diagonal(b.s, cube, 0, 0, -1), (int32_t[]){0, 5, 2, 7}, SHAPE(2, 2));
    expect_failure(&b, mica_diagonal(b.s, counting(b.s, SHAPE(2, 2)), 0, 1, -1), MICA_EINVAL,
                   "listed twice");
    expect_failure(&b, mica_diag(b.s, counting(b.s, SHAPE(2, 1, 1)), 0), MICA_ESHAPE, "diag");
    expect_failure(&b, mica_diag(b.s, counting(b.s, SHAPE(2)), INT64_MIN), MICA_EINVAL, "diagonal");
    bench_close(&b);
}

static bool join(void *arg) {
    bench *b = arg;
    mica_scope *s = NULL;
    if (mica_scope_open(b->device, &s) != MICA_OK) return false;
    const int32_t values[] = {1, 2, 3};
    mica_array x = mica_from_data(s, values, MICA_I32, SHAPE(3));
    mica_array y = mica_stack(s, (mica_array[]){x, mica_flip(s, x, 0)}, 2, 0);
    mica_status status = mica_eval(s, y);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_scope_close(&s);
    return status == MICA_OK;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    bench b = bench_open();
    test_fail_each_allocation(join, &b);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concatenate_joins_views_and_promotes),
        cmocka_unit_test(concatenate_refuses),
        cmocka_unit_test(stack_makes_an_axis),
        cmocka_unit_test(split_is_the_reverse_of_concatenate),
        cmocka_unit_test(pads),
        cmocka_unit_test(repeats_and_tiles),
        cmocka_unit_test(rolls_and_flips),
        cmocka_unit_test(triangles),
        cmocka_unit_test(diagonals),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

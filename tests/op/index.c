/* Slice updates, take, put, gather and scatter: compared with loops over plain C arrays, and
 * errors. */
#include "op/check.h"

/* ---- slice updates ---- */

static void slice_update_writes_a_slice(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(3, 4)), minus = mica_i32(b.s, -1);
    mica_array y = mica_slice_update(b.s, x, minus, LIST(0, -1), NULL, LIST(2, -2));
    expect_i32(y, (int32_t[]){0, -1, 2, -1, 4, 5, 6, 7, 8, -1, 10, -1}, SHAPE(3, 4));
    /* x has not changed, as others may use it */
    expect_i32(x, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, SHAPE(3, 4));
    /* the update is converted, and a row broadcasts */
    mica_array row = mica_from_data(b.s, (float[]){7.9f, 8.0f}, MICA_F32, SHAPE(2));
    y = mica_slice_update(b.s, x, row, LIST(1, 1), LIST(3, 3), NULL);
    expect_i32(y, (int32_t[]){0, 1, 2, 3, 4, 7, 8, 7, 8, 7, 8, 11}, SHAPE(3, 4));
    /* into a transposed and a broadcast array */
    y = mica_slice_update(b.s, mica_transpose(b.s, x, NULL), minus, NULL, LIST(1, 9), NULL);
    expect_i32(y, (int32_t[]){-1, -1, -1, 1, 5, 9, 2, 6, 10, 3, 7, 11}, SHAPE(4, 3));
    y = mica_slice_update(b.s, mica_broadcast_to(b.s, minus, SHAPE(4)), mica_i32(b.s, 5), LIST(2),
                          LIST(3), NULL);
    expect_i32(y, (int32_t[]){-1, -1, 5, -1}, SHAPE(4));
    /* an empty slice changes nothing */
    y = mica_slice_update(b.s, x, minus, LIST(2, 2), LIST(2, 2), NULL);
    expect_i32(y, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, SHAPE(3, 4));
    mica_array wide = counting(b.s, SHAPE(3));
    expect_failure(&b, mica_slice_update(b.s, x, wide, NULL, LIST(2, 2), NULL), MICA_ESHAPE,
                   "i32[3]");
    bench_close(&b);
}

/* The update may come from the updated array: its old elements are used. */
static void updates_from_the_array_itself(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_add(b.s, counting(b.s, SHAPE(5)), mica_i32(b.s, 10));
    expect_i32(mica_slice_update(b.s, x, x, NULL, NULL, LIST(-1)), (int32_t[]){14, 13, 12, 11, 10},
               SHAPE(5));
    x = mica_add(b.s, counting(b.s, SHAPE(5)), mica_i32(b.s, 20));
    mica_array moved = mica_slice_axis(b.s, x, 0, 0, 4);
    expect_i32(mica_slice_update(b.s, x, moved, LIST(1), NULL, NULL),
               (int32_t[]){20, 20, 21, 22, 23}, SHAPE(5));
    x = mica_add(b.s, counting(b.s, SHAPE(4)), mica_i32(b.s, 0));
    mica_array rotated = i32s(b.s, (int32_t[]){1, 2, 3, 0}, SHAPE(4));
    expect_i32(mica_put_along_axis(b.s, x, rotated, x, 0), (int32_t[]){3, 0, 1, 2}, SHAPE(4));
    x = mica_subtract(b.s, mica_i32(b.s, 3), counting(b.s, SHAPE(4)));
    expect_i32(mica_put_along_axis(b.s, x, x, mica_i32(b.s, 9), 0), (int32_t[]){9, 9, 9, 9},
               SHAPE(4));
    bench_close(&b);
}

/* A cache [B, H, L, D] that grows along L, as in a session. */
static void a_cache_grows_in_place(void **state) {
    (void)state;
    bench b = bench_open();
    enum { B = 2, H = 3, L = 4, D = 2, STEPS = 3 };
    static int32_t want[B * H * L * D];
    memset(want, 0, sizeof want);
    mica_array cache = i32s(b.s, want, SHAPE(B, H, L, D));
    for (int step = 0; step < STEPS; step++) {
        mica_scope *s = NULL;
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        /* rows of a projection: [B, 1, H, D], with heads and positions swapped */
        mica_array rows = mica_add(s, counting(s, SHAPE(B, 1, H, D)), mica_i32(s, 100 * step));
        rows = mica_swapaxes(s, rows, 1, 2);
        mica_array old = mica_move(s, cache);
        mica_array grown = mica_slice_update_at(s, old, rows, mica_i32(s, step), 2);
        cache = mica_materialize(b.s, grown);
        mica_scope_close(&s);
        for (int i = 0; i < B * H * D; i++)
            want[(i / D * L + step) * D + i % D] = i + 100 * step;
        expect_i32(cache, want, SHAPE(B, H, L, D));
    }
    bench_close(&b);
}

static void slice_update_at_stays_inside(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3)),
               two = i32s(b.s, (int32_t[]){7, 8, 9, 10}, SHAPE(2, 2));
    expect_i32(mica_slice_update_at(b.s, x, two, mica_i32(b.s, 1), -1),
               (int32_t[]){0, 7, 8, 3, 9, 10}, SHAPE(2, 3));
    expect_eval_failure(&b, mica_slice_update_at(b.s, x, two, mica_i32(b.s, 2), 1), MICA_EINVAL,
                        "2 elements from 2 on do not fit into axis 1, which has 3");
    x = counting(b.s, SHAPE(2, 3)), two = counting(b.s, SHAPE(2, 2));
    expect_eval_failure(&b, mica_slice_update_at(b.s, x, two, mica_i32(b.s, -1), 1), MICA_EINVAL,
                        "from -1 on");
    expect_failure(&b,
                   mica_slice_update_at(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(1, 2)),
                                        mica_i32(b.s, 0), 1),
                   MICA_ESHAPE, "i32[1,2] does not fit into i32[2,3] along axis 1");
    expect_failure(&b,
                   mica_slice_update_at(b.s, counting(b.s, SHAPE(2)), counting(b.s, SHAPE(1)),
                                        mica_f32(b.s, 0.0f), 0),
                   MICA_EDTYPE, "the start is f32[], not i32[]");
    bench_close(&b);
}

/* ---- take ---- */

static void take_by_any_integers(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(3, 4));
    const mica_dtype dtypes[] = {MICA_U8, MICA_U16, MICA_U32, MICA_U64,
                                 MICA_I8, MICA_I16, MICA_I32, MICA_I64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mica_array at = mica_astype(b.s, i32s(b.s, (int32_t[]){2, 0}, SHAPE(2)), dtypes[i]);
        expect_i32(mica_take(b.s, x, at, 0), (int32_t[]){8, 9, 10, 11, 0, 1, 2, 3}, SHAPE(2, 4));
        expect_i32(mica_take(b.s, x, at, 1), (int32_t[]){2, 0, 6, 4, 10, 8}, SHAPE(3, 2));
    }
    expect_i32(mica_take(b.s, x, mica_i32(b.s, -1), 0), (int32_t[]){8, 9, 10, 11}, SHAPE(4));
    mica_array none = mica_slice_axis(b.s, counting(b.s, SHAPE(3)), 0, 0, 0);
    expect_i32(mica_take(b.s, x, none, 1), NULL, SHAPE(3, 0));
    bench_close(&b);
}

static void take_reads_views(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3, 2));
    mica_array t = mica_transpose(b.s, x, NULL); /* [2, 3, 2]: t[i][j][k] = x[k][j][i] */
    mica_array at = mica_flip(b.s, i32s(b.s, (int32_t[]){0, 1, 2, 0}, SHAPE(2, 2)), 0);
    int32_t want[2 * 2 * 2 * 2], places[] = {2, 0, 0, 1};
    for (int i = 0, n = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 2; k++)
                want[n++] = k * 6 + places[j] * 2 + i;
    expect_i32(mica_take(b.s, t, at, 1), want, SHAPE(2, 2, 2, 2));
    bench_close(&b);
}

/* Enough rows for several threads. */
static void take_of_many_rows(void **state) {
    (void)state;
    bench b = bench_open();
    enum { ROWS = 50, WIDTH = 300, N = 900 };
    static uint16_t table[ROWS * WIDTH], got[N * WIDTH];
    static uint32_t at[N];
    for (int i = 0; i < ROWS * WIDTH; i++)
        table[i] = (uint16_t)(i * 7);
    for (int i = 0; i < N; i++)
        at[i] = (uint32_t)(i * 37 % ROWS);
    mica_array x = mica_from_data(b.s, table, MICA_BF16, SHAPE(ROWS, WIDTH));
    mica_array y = mica_take(b.s, x, mica_from_data(b.s, at, MICA_U32, SHAPE(N)), 0);
    assert_int_equal(mica_read(y, got, sizeof got), MICA_OK);
    for (int i = 0; i < N; i++)
        assert_memory_equal(got + i * WIDTH, table + at[i] * WIDTH, WIDTH * sizeof *got);
    bench_close(&b);
}

static void wrong_indices(void **state) {
    (void)state;
    bench b = bench_open();
    int32_t bad[] = {0, 3};
    expect_eval_failure(&b, mica_take(b.s, counting(b.s, SHAPE(3, 2)), i32s(b.s, bad, SHAPE(2)), 0),
                        MICA_EINVAL, "take: index 3 is outside axis 0, which has 3 elements");
    expect_eval_failure(&b, mica_take(b.s, counting(b.s, SHAPE(3)), mica_i32(b.s, -4), 0),
                        MICA_EINVAL, "index -4");
    mica_array huge = mica_from_data(b.s, (uint64_t[]){UINT64_MAX}, MICA_U64, SHAPE(1));
    expect_eval_failure(&b, mica_take(b.s, counting(b.s, SHAPE(3)), huge, 0), MICA_EINVAL, "take");
    mica_array lowest = mica_from_data(b.s, (int64_t[]){INT64_MIN}, MICA_I64, SHAPE(1));
    expect_eval_failure(&b, mica_take(b.s, counting(b.s, SHAPE(3)), lowest, 0), MICA_EINVAL,
                        "take");
    expect_eval_failure(&b, mica_take(b.s, counting(b.s, SHAPE(0, 2)), mica_i32(b.s, 0), 0),
                        MICA_EINVAL, "which has 0 elements");
    expect_eval_failure(
        &b, mica_take_along_axis(b.s, counting(b.s, SHAPE(2, 2)), i32s(b.s, bad, SHAPE(2, 1)), 1),
        MICA_EINVAL, "take_along_axis: index 3 is outside axis 1");
    expect_eval_failure(&b,
                        mica_put_along_axis(b.s, counting(b.s, SHAPE(2)), i32s(b.s, bad, SHAPE(2)),
                                            mica_i32(b.s, 0), 0),
                        MICA_EINVAL, "put_along_axis: index 3 is outside axis 0");
    int axis = 1;
    mica_array at = i32s(b.s, bad, SHAPE(2));
    expect_eval_failure(&b, mica_gather(b.s, counting(b.s, SHAPE(2, 2)), &at, 1, &axis, LIST(2, 1)),
                        MICA_EINVAL, "gather: index 3 is outside axis 1");
    at = i32s(b.s, bad, SHAPE(2));
    expect_eval_failure(&b,
                        mica_scatter(b.s, counting(b.s, SHAPE(2, 2)), &at, 1, &axis,
                                     counting(b.s, SHAPE(2, 2, 1)), MICA_SCATTER_ADD),
                        MICA_EINVAL, "scatter: index 3 is outside axis 1");
    expect_failure(&b, mica_take(b.s, counting(b.s, SHAPE(2)), mica_f32(b.s, 0.0f), 0), MICA_EDTYPE,
                   "indices f32[] are not integers");
    expect_failure(&b, mica_take(b.s, mica_i32(b.s, 0), mica_i32(b.s, 0), 0), MICA_EINVAL, "take");
    bench_close(&b);
}

/* ---- along an axis ---- */

static void take_and_put_along_an_axis(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3));
    mica_array at = i32s(b.s, (int32_t[]){2, -3, 1, 1}, SHAPE(2, 2));
    expect_i32(mica_take_along_axis(b.s, x, at, 1), (int32_t[]){2, 0, 4, 4}, SHAPE(2, 2));
    mica_array t = mica_transpose(b.s, x, NULL);
    expect_i32(mica_take_along_axis(b.s, t, at, 0), (int32_t[]){2, 3, 1, 4}, SHAPE(2, 2));
    /* the other axes broadcast */
    mica_array row = i32s(b.s, (int32_t[]){1}, SHAPE(1, 1));
    expect_i32(mica_take_along_axis(b.s, x, row, 1), (int32_t[]){1, 4}, SHAPE(2, 1));
    mica_array one = counting(b.s, SHAPE(1, 3));
    expect_i32(mica_take_along_axis(b.s, one, at, 1), (int32_t[]){2, 0, 1, 1}, SHAPE(2, 2));
    /* of two writes to one element the later one wins */
    mica_array values = i32s(b.s, (int32_t[]){70, 71, 72, 73}, SHAPE(2, 2));
    expect_i32(mica_put_along_axis(b.s, x, at, values, 1), (int32_t[]){71, 1, 70, 3, 73, 5},
               SHAPE(2, 3));
    expect_i32(mica_put_along_axis(b.s, x, row, mica_i32(b.s, 9), -1),
               (int32_t[]){0, 9, 2, 3, 9, 5}, SHAPE(2, 3));
    expect_failure(
        &b, mica_take_along_axis(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(3)), 0),
        MICA_ESHAPE, "differ in their number of axes");
    expect_failure(
        &b, mica_take_along_axis(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(3, 3)), 1),
        MICA_ESHAPE, "take_along_axis");
    expect_failure(&b,
                   mica_put_along_axis(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(3)),
                                       mica_i32(b.s, 0), 0),
                   MICA_ESHAPE, "differ in their number of axes");
    expect_failure(&b,
                   mica_put_along_axis(b.s, counting(b.s, SHAPE(2, 3)), counting(b.s, SHAPE(2, 2)),
                                       counting(b.s, SHAPE(3)), 1),
                   MICA_ESHAPE, "i32[3]");
    bench_close(&b);
}

/* ---- gather, scatter ---- */

static void gather_windows(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(3, 4, 2));
    mica_array at[] = {i32s(b.s, (int32_t[]){0, -1}, SHAPE(2, 1)),
                       i32s(b.s, (int32_t[]){1, 0, 1}, SHAPE(3))};
    mica_array y = mica_gather(b.s, x, at, 2, (int[]){0, -1}, LIST(1, 3, 1));
    int32_t want[2 * 3 * 3], rows[] = {0, 2}, columns[] = {1, 0, 1};
    for (int i = 0, n = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                want[n++] = rows[i] * 8 + k * 2 + columns[j];
    expect_i32(y, want, SHAPE(2, 3, 1, 3, 1));
    /* of a transposed array */
    y = mica_gather(b.s, mica_transpose(b.s, x, NULL), at, 1, (int[]){2}, LIST(2, 1, 1));
    expect_i32(y, (int32_t[]){0, 1, 16, 17}, SHAPE(2, 1, 2, 1, 1));

    mica_array i = mica_i32(b.s, 0);
    mica_array pair[] = {i, i};
    expect_failure(&b, mica_gather(b.s, x, &i, 1, (int[]){0}, LIST(2, 1, 1)), MICA_ESHAPE,
                   "slices of 2 along axis 0, which is indexed");
    x = counting(b.s, SHAPE(3, 2)), i = mica_i32(b.s, 0), pair[0] = pair[1] = i;
    expect_failure(&b, mica_gather(b.s, x, &i, 1, (int[]){0}, LIST(1, 3)), MICA_ESHAPE,
                   "slices of 3 along axis 1 of i32[3,2]");
    x = counting(b.s, SHAPE(3, 2)), i = mica_i32(b.s, 0), pair[0] = pair[1] = i;
    expect_failure(&b, mica_gather(b.s, x, pair, 2, (int[]){0, -2}, LIST(1, 1)), MICA_EINVAL,
                   "axis 0 is listed twice");
    x = counting(b.s, SHAPE(3, 2));
    expect_failure(&b, mica_gather(b.s, x, NULL, 0, NULL, LIST(1, 1)), MICA_EINVAL,
                   "0 index arrays");
    bench_close(&b);
}

static void scatter_combines(void **state) {
    (void)state;
    bench b = bench_open();
    int axis = 0;
    const struct {
        mica_scatter_mode mode;
        int32_t want[6];
    } cases[] = {
        {MICA_SCATTER_SET, {5, 6, 12, 13, 14, 15}},
        {MICA_SCATTER_ADD, {15, 16, 35, 37, 18, 19}},
        {MICA_SCATTER_MULTIPLY, {50, 60, 1584, 1859, 56, 60}},
        {MICA_SCATTER_MAXIMUM, {10, 10, 12, 13, 14, 15}},
        {MICA_SCATTER_MINIMUM, {5, 6, 11, 11, 4, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_array x = i32s(b.s, (int32_t[]){10, 10, 12, 13, 4, 4}, SHAPE(3, 2));
        /* row 1 is written twice; the updates are the transposed columns */
        mica_array at = i32s(b.s, (int32_t[]){0, 1, -1, 1}, SHAPE(4));
        mica_array u = i32s(b.s, (int32_t[]){5, 11, 14, 12, 6, 11, 15, 13}, SHAPE(2, 4));
        u = mica_expand_dims(b.s, mica_transpose(b.s, u, NULL), 1); /* [4, 1, 2] */
        mica_array y = mica_scatter(b.s, x, &at, 1, &axis, u, cases[i].mode);
        expect_i32(y, cases[i].want, SHAPE(3, 2));
    }
    bench_close(&b);
}

/* Every dtype can be added. Overflows wrap; halves are rounded at each step. */
static void scatter_of_every_dtype(void **state) {
    (void)state;
    bench b = bench_open();
    int axis = 0;
    for (int d = MICA_BOOL; d <= MICA_F32; d++) {
        mica_array x = mica_scalar(b.s, 1.0, (mica_dtype)d), one = mica_reshape(b.s, x, SHAPE(1));
        mica_array at = i32s(b.s, (int32_t[]){0, 0}, SHAPE(2));
        mica_array u = mica_broadcast_to(b.s, x, SHAPE(2, 1));
        double sum = -1.0, matmul = -1.0, max = -1.0;
        mica_array added = mica_scatter(b.s, one, &at, 1, &axis, u, MICA_SCATTER_ADD);
        assert_int_equal(mica_item_f64(added, &sum), MICA_OK);
        assert_true(sum == (d == MICA_BOOL ? 1.0 : 3.0));
        mica_array times =
            mica_scatter(b.s, added, &at, 1, &axis, mica_broadcast_to(b.s, added, SHAPE(2, 1)),
                         MICA_SCATTER_MULTIPLY);
        assert_int_equal(mica_item_f64(times, &matmul), MICA_OK);
        assert_true(matmul == (d == MICA_BOOL ? 1.0 : 27.0));
        mica_array larger =
            mica_scatter(b.s, one, &at, 1, &axis, mica_broadcast_to(b.s, times, SHAPE(2, 1)),
                         MICA_SCATTER_MAXIMUM);
        assert_int_equal(mica_item_f64(larger, &max), MICA_OK);
        assert_true(max == matmul);
    }
    mica_array top = mica_from_data(b.s, (int32_t[]){INT32_MAX}, MICA_I32, SHAPE(1));
    mica_array zero = mica_i32(b.s, 0), one = mica_reshape(b.s, mica_i32(b.s, 1), SHAPE(1));
    expect_i32(mica_scatter(b.s, top, &zero, 1, &axis, one, MICA_SCATTER_ADD),
               (int32_t[]){INT32_MIN}, SHAPE(1));
    bench_close(&b);
}

static void scatter_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    int axis = 0;
    mica_array at = i32s(b.s, (int32_t[]){0, 1}, SHAPE(2));
    expect_failure(&b,
                   mica_scatter(b.s, counting(b.s, SHAPE(3, 2)), &at, 1, &axis,
                                counting(b.s, SHAPE(2, 2)), MICA_SCATTER_SET),
                   MICA_ESHAPE, "updates i32[2,2] into i32[3,2] at indices i32[2]");
    at = i32s(b.s, (int32_t[]){0, 1}, SHAPE(2));
    expect_failure(&b,
                   mica_scatter(b.s, counting(b.s, SHAPE(3, 2)), &at, 1, &axis,
                                counting(b.s, SHAPE(2, 1, 3)), MICA_SCATTER_SET),
                   MICA_ESHAPE, "slices of 3 along axis 1");
    at = i32s(b.s, (int32_t[]){0, 1}, SHAPE(2));
    expect_failure(&b,
                   mica_scatter(b.s, counting(b.s, SHAPE(3)), &at, 1, &axis,
                                counting(b.s, SHAPE(2, 1)), (mica_scatter_mode)9),
                   MICA_EINVAL, "no mode 9");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice_update_writes_a_slice),
        cmocka_unit_test(updates_from_the_array_itself),
        cmocka_unit_test(a_cache_grows_in_place),
        cmocka_unit_test(slice_update_at_stays_inside),
        cmocka_unit_test(take_by_any_integers),
        cmocka_unit_test(take_reads_views),
        cmocka_unit_test(take_of_many_rows),
        cmocka_unit_test(wrong_indices),
        cmocka_unit_test(take_and_put_along_an_axis),
        cmocka_unit_test(gather_windows),
        cmocka_unit_test(scatter_combines),
        cmocka_unit_test(scatter_of_every_dtype),
        cmocka_unit_test(scatter_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

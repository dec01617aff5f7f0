/* Rows of operands: their offsets, when they are read in place, their contents. */
#include "cpu/rows.h"

#include <stdlib.h>

#include "support/support.h"

static mc_layout layout_of(mica_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides) {
    mc_layout l;
    assert_int_equal(mc_layout_init(&l, dtype, shape, ndim), MICA_OK);
    for (int i = 0; strides != NULL && i < ndim; i++)
        l.strides[i] = strides[i];
    return l;
}

static void offsets_follow_strides(void **state) {
    (void)state;
    const int64_t shape[] = {2, 3, 4}, strides[] = {100, -7, 1};
    mc_layout l = layout_of(MICA_F32, 3, shape, strides);
    assert_int_equal(mc_row_count(&l, 2), 6);
    assert_int_equal(mc_row_offset(&l, 2, 0), 0);
    assert_int_equal(mc_row_offset(&l, 2, 2), -14);
    assert_int_equal(mc_row_offset(&l, 2, 5), 86);
    assert_int_equal(mc_row_offset(&l, 0, 0), 0);
}

static void walks_go_as_offsets_do(void **state) {
    (void)state;
    const int64_t shape[] = {2, 3, 4}, strides[] = {100, -7, 1};
    mc_layout l = layout_of(MICA_F32, 3, shape, strides);
    for (int n_axes = 0; n_axes <= 3; n_axes++) {
        for (int64_t begin = 0; begin < mc_row_count(&l, n_axes); begin++) {
            mc_row_walk w = mc_row_walk_begin(&l, n_axes, begin);
            for (int64_t r = begin; r < mc_row_count(&l, n_axes); r++, mc_row_walk_next(&w)) {
                assert_int_equal(w.offset, mc_row_offset(&l, n_axes, r));
                if (n_axes > 0) assert_int_equal(w.coords[n_axes - 1], r % shape[n_axes - 1]);
            }
        }
    }
}

/* 24 values [2, 3, 4], the last axis 1 or 2 elements apart, the others with any strides. */
static void check_rows(mica_dtype dtype, const int64_t *strides, bool in_place) {
    void *cpu = NULL;
    assert_int_equal(mc_backend_cpu.open(&(mica_device_options){.threads = 2}, "", &cpu), MICA_OK);
    const int64_t shape[] = {2, 3, 4};
    mc_layout l = layout_of(dtype, 3, shape, strides);
    float values[64], scratch[24];
    uint16_t halves[64];
    for (int i = 0; i < 64; i++) {
        values[i] = (float)i;
        halves[i] = dtype == MICA_F16 ? mk_to_f16((float)i) : mk_to_bf16((float)i);
    }
    mc_operand x = {dtype == MICA_F32 ? (void *)values : (void *)halves, &l};
    mc_call call = {.state = cpu};
    assert_int_equal(mc_rows_scratch(&x), in_place ? 0 : 24);
    mc_rows rows = mc_rows_get(&call, &x, scratch);
    assert_int_equal(rows.count, 6);
    assert_int_equal(rows.length, 4);
    for (int64_t r = 0; r < 6; r++)
        for (int64_t i = 0; i < 4; i++)
            assert_true(rows.data[r * rows.stride + i] ==
                        values[mc_row_offset(&l, 2, r) + i * l.strides[2]]);
    mc_backend_cpu.close(cpu);
}

static void rows_of_every_kind(void **state) {
    (void)state;
    const int64_t dense[] = {12, 4, 1}, apart[] = {24, 8, 1}, uneven[] = {30, 8, 1};
    const int64_t wide[] = {24, 8, 2}, spread[] = {0, 0, 1}, spread_outer[] = {0, 4, 1};
    check_rows(MICA_F32, dense, true);
    check_rows(MICA_F32, apart, true);
    check_rows(MICA_F32, spread, true);
    check_rows(MICA_F32, uneven, false);
    check_rows(MICA_F32, wide, false);
    check_rows(MICA_F32, spread_outer, false);
    check_rows(MICA_F16, dense, false);
    check_rows(MICA_BF16, wide, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_follow_strides),
        cmocka_unit_test(walks_go_as_offsets_do),
        cmocka_unit_test(rows_of_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

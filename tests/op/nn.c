/* What the ops of mica/nn.h refuse, and their edges. Their goldens are those of
 * tests/op/golden_nn.c. */
#include "op/floats.h"

#define ONES(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_F32)
#define INTS(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_I32)

static void norms_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array none = MICA_NONE;
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 4, 0), MICA_ESHAPE,
                   "group_norm: f32[2,6] in 4 groups");
    expect_failure(&b, mica_group_norm(b.s, ONES(6), none, none, 2, 0), MICA_ESHAPE, "f32[6]");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 0, 0), MICA_EINVAL, "0 groups");
    expect_failure(&b, mica_group_norm(b.s, INTS(2, 6), none, none, 2, 0), MICA_EDTYPE, "i32[2,6]");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), ONES(3), none, 2, 0), MICA_ESHAPE,
                   "f32[3] for the channels");
    expect_failure(&b, mica_group_norm(b.s, ONES(2, 6), none, none, 2, -1), MICA_EINVAL, "eps");
    expect_failure(&b, mica_layer_norm_axis(b.s, ONES(2, 6), none, none, 2, 0), MICA_EINVAL,
                   "there is no axis 2");
    expect_failure(&b, mica_rms_norm_axis(b.s, ONES(2, 6), ONES(6), 0, 0), MICA_ESHAPE, "f32[6]");
    bench_close(&b);
}

static void positions_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(4, 4), ONES(4, 4)), MICA_ESHAPE,
                   "a row for each position");
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(5, 5), ONES(5, 5)), MICA_ESHAPE,
                   "rope_tables");
    expect_failure(&b, mica_rope_tables(b.s, ONES(5, 8), ONES(5, 4), ONES(6, 4)), MICA_ESHAPE,
                   "rope_tables");
    expect_failure(&b, mica_rope_tables(b.s, INTS(5, 8), ONES(5, 4), ONES(5, 4)), MICA_EDTYPE,
                   "not a float");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 8), 3, 5, NULL), MICA_ESHAPE, "3 by 5");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 6), 3, 4, NULL), MICA_ESHAPE, "3 by 4");
    expect_failure(&b, mica_axial_rope2d(b.s, ONES(12, 8), INT64_MAX, INT64_MAX, NULL), MICA_ESHAPE,
                   "axial_rope2d");
    expect_failure(&b, mica_resize_nearest2x(b.s, ONES(12)), MICA_ESHAPE, "two axes");
    bench_close(&b);
}

/* Empty arrays are legal everywhere. */
static void empty(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array none = MICA_NONE;
    mica_array results[] = {
        mica_elu(b.s, ONES(0), 1),
        mica_group_norm(b.s, ONES(0, 4, 3), none, none, 2, 1e-5f),
        mica_group_norm(b.s, ONES(2, 4, 0), none, none, 2, 1e-5f),
        mica_rope_tables(b.s, ONES(2, 0, 4), ONES(3, 2), ONES(3, 2)),
        mica_axial_rope2d(b.s, ONES(0, 8), 0, 4, NULL),
        mica_resize_nearest2x(b.s, ONES(0, 4)),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (!mica_valid(results[i])) fail_msg("%zu: %s", i, mica_last_error());
        assert_int_equal(mica_array_size(results[i]), 0);
        if (mica_eval(b.s, results[i]) != MICA_OK) fail_msg("%zu: %s", i, mica_last_error());
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_refuse),
        cmocka_unit_test(positions_refuse),
        cmocka_unit_test(empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The planner: which steps a plan has, and which of them run together. */
#include "device/plan.h"

#include "device/device.h"
#include "op/build.h"
#include "support/support.h"

#include <mica/ops.h>

static const mica_quant quant = {MICA_QUANT_AFFINE, 4, 64};

typedef struct fixture {
    mica_device *device;
    mica_scope *s;
    mica_array codes, scales;
} fixture;

static int open_fixture(void **state) {
    static fixture f;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &f.device), 0);
    assert_int_equal(mica_scope_open(f.device, &f.s), MICA_OK);
    f.codes = mica_zeros(f.s, (int64_t[]){64, 8}, 2, MICA_U32);
    f.scales = mica_ones(f.s, (int64_t[]){64, 1}, 2, MICA_F32);
    assert_int_equal(mica_eval_n(f.s, (mica_array[]){f.codes, f.scales}, 2), MICA_OK);
    *state = &f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    mica_scope_close(&f->s);
    mica_device_close(&f->device);
    return 0;
}

static mica_array product(const fixture *f, mica_array x) {
    return mc_quantized_matmul(f->s, x, f->codes, f->scales, f->scales, quant, true);
}

/* The plan of xs: how many steps each of its runs has, 0 after the last. */
static void plan_runs(const fixture *f, const mica_array *xs, size_t n, uint32_t *runs) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_plan *plan;
    assert_int_equal(mc_trace_make(&trace, &arena, f->s, xs, n), MICA_OK);
    assert_int_equal(mc_plan_make(f->device, &trace, &plan), MICA_OK);
    for (uint32_t i = 0; i < plan->n_steps; i += plan->steps[i].joint) {
        assert_true(plan->steps[i].joint >= 1);
        for (uint32_t k = 1; k < plan->steps[i].joint; k++)
            assert_int_equal(plan->steps[i + k].joint, 0);
        *runs++ = plan->steps[i].joint;
    }
    *runs = 0;
    mc_plan_free(plan);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
}

static void expect_runs(const fixture *f, const mica_array *xs, size_t n, const uint32_t *want) {
    uint32_t runs[32];
    plan_runs(f, xs, n, runs);
    for (int i = 0; i == 0 || want[i - 1] != 0; i++)
        assert_int_equal(runs[i], want[i]);
}

static void products_of_one_x_run_together(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array q = mica_rms_norm(f->s, product(f, x), MICA_NONE, 1e-6f);
    mica_array k = mica_rms_norm(f->s, product(f, x), MICA_NONE, 1e-6f);
    mica_array v = product(f, x);
    mica_array y = product(f, mica_add(f->s, mica_add(f->s, q, k), v));
    /* q k v, two norms, two additions, the last product */
    expect_runs(f, &y, 1, (uint32_t[]){3, 1, 1, 1, 1, 1, 0});
}

static void products_that_wait_for_others_do_not(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = product(f, x);
    /* the same x, but the scales come from a */
    mica_array scales = mica_add(f->s, f->scales, mica_transpose(f->s, a, (int[]){1, 0}));
    mica_array b = mc_quantized_matmul(f->s, x, f->codes, scales, f->scales, quant, true);
    expect_runs(f, &b, 1, (uint32_t[]){1, 1, 1, 0});
}

static void no_more_than_a_kernel_takes(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32), y[2 * MC_MOST_JOINT + 1];
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    for (int i = 0; i < 2 * MC_MOST_JOINT + 1; i++)
        y[i] = product(f, x);
    expect_runs(f, y, 2 * MC_MOST_JOINT + 1, (uint32_t[]){MC_MOST_JOINT, MC_MOST_JOINT, 1, 0});
}

/* x [1, 64] as one query, over itself. */
static mica_array attend(const fixture *f, mica_array x) {
    mica_array q = mica_reshape(f->s, x, (int64_t[]){1, 1, 1, 64}, 4);
    return mica_reshape(f->s, mica_sdpa(f->s, q, q, q, NULL), (int64_t[]){1, 64}, 2);
}

static void attention_of_rows_runs_together(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32), y[3];
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    for (int i = 0; i < 3; i++) /* each after a product of its own */
        y[i] = attend(f, product(f, mica_multiply(f->s, x, mica_f32(f->s, (float)i))));
    mica_array sum = mica_add(f->s, mica_add(f->s, y[0], y[1]), y[2]);
    /* three times x by i and a product, then attention, two additions */
    expect_runs(f, &sum, 1, (uint32_t[]){1, 1, 1, 1, 1, 1, 3, 1, 1, 0});
}

static void attention_keeps_other_joints(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = attend(f, x), z = mica_add(f->s, x, x);
    mica_array b = attend(f, mica_add(f->s, product(f, z), product(f, z)));
    mica_array y = mica_add(f->s, a, b);
    /* z, two products, their sum, attention twice, y */
    expect_runs(f, &y, 1, (uint32_t[]){1, 2, 1, 2, 1, 0});
}

static void attention_that_waits_does_not(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = attend(f, x), b = attend(f, mica_add(f->s, a, x));
    mica_array y = mica_add(f->s, b, attend(f, b));
    expect_runs(f, &y, 1, (uint32_t[]){1, 1, 1, 1, 1, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_of_one_x_run_together, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(products_that_wait_for_others_do_not, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(no_more_than_a_kernel_takes, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(attention_of_rows_runs_together, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(attention_keeps_other_joints, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(attention_that_waits_does_not, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Lowering, on a device that says it has no kernel for some ops: the decompositions run instead. */
#include "exec/lower.h"

#include "device/device.h"
#include "support/support.h"

#include <mica/ops.h>

#include <string.h>

static mica_device *device;
static mc_backend poor; /* the cpu's, without some kernels */

static mc_support supports_some(const void *state, mc_op op, const void *attr,
                                const mc_layout *const *in, int n_in, const mc_layout *out) {
    static const mc_op missing[] = {MC_OP_SDPA,     MC_OP_SOFTMAX, MC_OP_LOGSUMEXP,
                                    MC_OP_RMS_NORM, MC_OP_SILU,    MC_OP_SORT};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (op == missing[i]) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out);
}

static int open_device(void **state) {
    (void)state;
    poor = mc_backend_cpu;
    poor.supports = supports_some;
    return (int)mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device);
}

static int close_device(void **state) {
    (void)state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_array values(mica_scope *s, int64_t rows, int64_t columns) {
    float x[64];
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = (float)((i * 7) % 11) / 4.0f - 1.0f;
    return mica_from_data(s, x, MICA_F32, (int64_t[]){1, 1, rows, columns}, 4);
}

/* Attention and norms of moved, transposed and shared operands. */
static bool run_program(float *out, size_t bytes) {
    mica_scope *s = NULL, *outer = NULL;
    bool ok = mica_scope_open(device, &s) == MICA_OK && mica_scope_open(device, &outer) == MICA_OK;
    if (ok) {
        mica_array x = mica_move(s, values(outer, 4, 8));
        mica_array k = mica_swapaxes(s, values(s, 8, 4), 2, 3);
        mica_array h = mica_rms_norm(s, x, MICA_NONE, 1e-5f);
        mica_array y = mica_sdpa(s, h, k, mica_silu(s, k), &(mica_sdpa_options){.causal = true});
        mica_array z = mica_add(s, x, mica_softmax(s, y, -1));
        mica_array xs[] = {z, h, x};
        ok = mica_eval_n(s, xs, 3) == MICA_OK && mica_read(z, out, bytes) == MICA_OK;
    }
    mica_scope_close(&s);
    mica_scope_close(&outer);
    return ok;
}

static void test_decompositions_run_where_kernels_are_missing(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(run_program(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    device->backend = &poor;
    if (!run_program(got, sizeof got)) fail_msg("%s", mica_last_error());
    for (int i = 0; i < 32; i++)
        assert_float_equal(got[i], want[i], 1e-5);
}

/* sort has no decomposition either: the fallback device runs it, between what this one runs. */
static bool sort_squares(float *out, size_t bytes) {
    mica_scope *s = NULL;
    bool ok = mica_scope_open(device, &s) == MICA_OK;
    if (ok) {
        mica_array x = mica_square(s, values(s, 4, 8));
        mica_array y = mica_sort(s, mica_swapaxes(s, x, 2, 3), -1);
        mica_array z = mica_add(s, mica_flip(s, y, 3), mica_swapaxes(s, x, 2, 3));
        ok = mica_read(z, out, bytes) == MICA_OK;
    }
    mica_scope_close(&s);
    return ok;
}

static void test_an_op_with_neither_falls_back(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(sort_squares(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    device->backend = &poor;
    if (!sort_squares(got, sizeof got)) fail_msg("%s", mica_last_error());
    assert_memory_equal(got, want, sizeof want);
}

static mc_support supports_nothing(const void *state, mc_op op, const void *attr,
                                   const mc_layout *const *in, int n_in, const mc_layout *out) {
    (void)state, (void)op, (void)attr, (void)in, (void)n_in, (void)out;
    return (mc_support){.yes = false};
}

static void test_a_device_that_supports_nothing_runs_all(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(run_program(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    poor.supports = supports_nothing;
    device->backend = &poor;
    if (!run_program(got, sizeof got)) fail_msg("%s", mica_last_error());
    for (int i = 0; i < 32; i++)
        assert_float_equal(got[i], want[i], 1e-5);
}

static bool run_anew(void *arg) {
    (void)arg;
    float out[32];
    bool ok = run_program(out, sizeof out) && sort_squares(out, sizeof out);
    test_forget_plans(device);
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    device->backend = &poor;
    assert_true(test_fail_each_allocation(run_anew, NULL) > 40);
}

#define WITH_DEVICE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_decompositions_run_where_kernels_are_missing),
        WITH_DEVICE(test_an_op_with_neither_falls_back),
        WITH_DEVICE(test_a_device_that_supports_nothing_runs_all),
        WITH_DEVICE(test_every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

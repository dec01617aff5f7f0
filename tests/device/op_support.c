/* How devices say that they run ops. */
#include "device/device.h"
#include "support/support.h"

#include <mica/ops.h>

#include <string.h>

static mc_support supports_matmul(const void *state, mc_op op, const void *attr,
                                  const mc_layout *const *in, int n_in, const mc_layout *out,
                                  int n_out) {
    (void)state, (void)attr, (void)in, (void)n_in, (void)out, (void)n_out;
    return (mc_support){.yes = op == MC_OP_MATMUL};
}

static size_t find(const char *name) {
    for (size_t i = 0; i < mica_op_count(); i++)
        if (strcmp(mica_op_name(i), name) == 0) return i;
    fail_msg("there is no op %s", name);
    return 0;
}

/* The device that has to run everything has a way for every op. */
static void test_the_cpu_runs_all(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    for (size_t i = 0; i < mica_op_count(); i++) {
        mica_op_support support = mica_device_op_support(device, i);
        if (support == MICA_OP_UNKNOWN || support == MICA_OP_FALLBACK)
            fail_msg("%s: %d", mica_op_name(i), (int)support);
    }
    assert_int_equal(mica_device_op_support(device, find("matmul")), MICA_OP_NATIVE);
    assert_int_equal(mica_device_op_support(device, find("transpose")), MICA_OP_NO_WORK);
    mica_device_close(&device);
}

static void test_a_device_of_one_kernel(void **state) {
    (void)state;
    mica_device *device;
    mc_backend poor = mc_backend_cpu;
    poor.supports = supports_matmul;
    poor.complete = false;
    assert_int_equal(mc_device_open_backend(&poor, "", NULL, &device), MICA_OK);
    assert_int_equal(mica_device_op_support(device, find("leaf")), MICA_OP_NO_WORK);
    assert_int_equal(mica_device_op_support(device, find("part")), MICA_OP_NO_WORK);
    assert_int_equal(mica_device_op_support(device, find("transpose")), MICA_OP_NO_WORK);
    assert_int_equal(mica_device_op_support(device, find("matmul")), MICA_OP_NATIVE);
    assert_int_equal(mica_device_op_support(device, find("softmax")), MICA_OP_DECOMPOSED);
    assert_int_equal(mica_device_op_support(device, find("sort")), MICA_OP_FALLBACK);
    mica_device_close(&device);
}

static void test_what_is_not_there(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_null(mica_op_name(mica_op_count()));
    assert_int_equal(mica_device_op_support(device, mica_op_count()), MICA_OP_UNKNOWN);
    assert_int_equal(mica_device_op_support(NULL, 0), MICA_OP_UNKNOWN);
    assert_int_equal(mica_device_fallback_ops(NULL), 0);
    mica_device_close(&device);
}

/* square and sort fall back, matmul does not. */
static void test_fallbacks_are_counted(void **state) {
    (void)state;
    const float values[4] = {4, 3, 2, 1};
    float out[4];
    mica_device *device;
    mica_scope *s;
    mc_backend poor = mc_backend_cpu;
    poor.supports = supports_matmul;
    poor.complete = false;
    assert_int_equal(mc_device_open_backend(&poor, "", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_from_data(s, values, MICA_F32, (const int64_t[]){2, 2}, 2);
    assert_int_equal(mica_read(mica_matmul(s, x, x), out, sizeof out), MICA_OK);
    assert_int_equal(mica_device_fallback_ops(device), 0);
    for (uint64_t i = 1; i <= 2; i++) {
        mica_array y = mica_sort(s, mica_square(s, mica_matmul(s, x, x)), -1);
        assert_int_equal(mica_read(y, out, sizeof out), MICA_OK);
        assert_int_equal(mica_device_fallback_ops(device), 2 * i);
    }
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* What falls back has the memory limit, too, whenever it was set. */
static void test_fallbacks_keep_to_the_limit(void **state) {
    (void)state;
    const int64_t shape[] = {1000, 1000};
    const float row[1000] = {1};
    mc_backend poor = mc_backend_cpu;
    poor.supports = supports_matmul;
    poor.complete = false;
    for (int late = 0; late < 2; late++) {
        mica_device *device;
        mica_scope *s;
        const mica_device_options options = {.memory_limit_bytes = late ? 0 : 1000000};
        assert_int_equal(mc_device_open_backend(&poor, "", &options, &device), MICA_OK);
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        mica_array x = mica_from_data(s, row, MICA_F32, (const int64_t[]){1000}, 1);
        assert_int_equal(mica_eval(s, mica_sort(s, x, -1)), MICA_OK); /* opens the fallback */
        if (late) assert_int_equal(mica_device_set_memory_limit(device, 1000000), 0);
        mica_array y = mica_sort(s, mica_broadcast_to(s, x, shape, 2), -1);
        assert_int_equal(mica_eval(s, y), MICA_ENOMEM);
        assert_int_equal(mica_device_set_memory_limit(device, 0), 1000000);
        assert_int_equal(mica_eval(s, y), MICA_OK);
        mica_scope_close(&s);
        mica_device_close(&device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cpu_runs_all),
        cmocka_unit_test(test_a_device_of_one_kernel),
        cmocka_unit_test(test_what_is_not_there),
        cmocka_unit_test(test_fallbacks_are_counted),
        cmocka_unit_test(test_fallbacks_keep_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

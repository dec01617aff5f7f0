/* What the device mlx says that it computes, on MLX's CPU and on a GPU, which need not be here. */
#include "mlx/emit.h"

#include <mica/mica.h>

#include "support/support.h"

static bool says(bool on_cpu, mc_op op) {
    return mc_mlx_supports(on_cpu, op, NULL, NULL, 0, NULL);
}

/* Without layouts, an op is the device's if there are layouts for which it is. */
static void test_ops_without_layouts(void **state) {
    (void)state;
    const mc_op rows[] = {MC_OP_ADD, MC_OP_SDPA, MC_OP_ROPE, MC_OP_QUANTIZED_MATMUL};
    const mc_op others[] = {MC_OP_GELU, MC_OP_TO_Q8};
    for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_true(says(on_cpu, rows[i]));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            assert_false(says(on_cpu, others[i]));
        assert_int_equal(says(on_cpu, MC_OP_SCATTER), on_cpu);
        assert_int_equal(says(on_cpu, MC_OP_PUT_ALONG_AXIS), on_cpu);
    }
}

static mica_op_support support_of(const mica_device *device, mc_op op) {
    return mica_device_op_support(device, (size_t)op);
}

/* The column of `mica devices --ops`. */
static void test_the_table_of_ops(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("mlx:cpu", NULL, &device), MICA_OK);
    assert_int_equal(support_of(device, MC_OP_RESHAPE), MICA_OP_NO_WORK);
    assert_int_equal(support_of(device, MC_OP_SDPA), MICA_OP_NATIVE);
    assert_int_equal(support_of(device, MC_OP_SCATTER), MICA_OP_NATIVE);
    assert_int_equal(support_of(device, MC_OP_GELU), MICA_OP_DECOMPOSED);
    assert_int_equal(support_of(device, MC_OP_TO_Q8), MICA_OP_FALLBACK);
    for (size_t i = 0; i < mica_op_count(); i++)
        if (mica_device_op_support(device, i) == MICA_OP_UNKNOWN)
            fail_msg("%s has no way to run", mica_op_name(i));
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_without_layouts),
        cmocka_unit_test(test_the_table_of_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

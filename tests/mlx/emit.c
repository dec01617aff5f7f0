/* What the device mlx says that it computes, on MLX's CPU and on a GPU, which need not be here. */
#define _POSIX_C_SOURCE 200809L
#include "mlx/emit.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "mlx/executable.h"
#include "support/support.h"

static bool says(mc_mlx_place place, mc_op op) {
    return mc_mlx_supports(place, op, NULL, NULL, 0, NULL);
}

/* Without layouts, an op is the device's if there are layouts for which it is. */
static void test_ops_without_layouts(void **state) {
    (void)state;
    const mc_op rows[] = {MC_OP_ADD, MC_OP_SDPA, MC_OP_ROPE, MC_OP_QUANTIZED_MATMUL};
    const mc_op others[] = {MC_OP_GELU, MC_OP_TO_Q8};
    for (mc_mlx_place place = MC_MLX_ON_CPU; place <= MC_MLX_ON_CUDA; place++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_true(says(place, rows[i]));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            assert_false(says(place, others[i]));
        assert_int_equal(says(place, MC_OP_SCATTER), place == MC_MLX_ON_CPU);
        assert_int_equal(says(place, MC_OP_PUT_ALONG_AXIS), place == MC_MLX_ON_CPU);
    }
}

static mica_op_support support_of(const mica_device *device, mc_op op) {
    return mica_device_op_support(device, (size_t)op);
}

/* Ops without a row: a new one needs a row, or a place here and in docs/mlx.md. */
static const char *const decomposed[] = {
    "silu",
    "gelu",
    "gelu_approx",
    "logsumexp",
    "topk",
    "topk_indices",
    "identity",
    "stop_gradient",
    "sdpa_lse",
    "sdpa_gradient",
    "kv_write",
    "paged_sdpa",
    "cross_entropy",
    "cross_entropy_gradient",
    "reduce_window",
    "rms_norm_gradient",
    "gated_delta",
    "integer_matmul",
    "integer_conv",
    "layer_norm_gradient",
    "selective_scan",
    "selective_scan_gradient",
    "if",
    "while",
    "scan",
};
static const char *const on_cpu[] = {"to_q8",     "from_q8",    "dense_solve", "require",
                                     "custom",    "all_reduce", "all_gather",  "reduce_scatter",
                                     "broadcast", "send",       "recv"};

static bool lists(const char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}
#define LISTS(names, name) lists(names, sizeof names / sizeof *names, name)

/* The column of `mica devices --ops`, the same in all modes. */
static void test_the_table_of_ops(void **state) {
    (void)state;
    static const char *const modes[] = {"lazy", "eager", "compiled"};
    for (int mode = 0; mode < 3; mode++) {
        mica_device *device;
        setenv("MICA_MLX_MODE", modes[mode], 1);
        assert_int_equal(mica_device_open("mlx:cpu", NULL, &device), MICA_OK);
        assert_int_equal(support_of(device, MC_OP_RESHAPE), MICA_OP_NO_WORK);
        assert_int_equal(support_of(device, MC_OP_SDPA), MICA_OP_NATIVE);
        assert_int_equal(support_of(device, MC_OP_SCATTER), MICA_OP_NATIVE);
        for (size_t i = 0; i < mica_op_count(); i++) {
            const char *name = mica_op_name(i);
            mica_op_support support = mica_device_op_support(device, i);
            if (support == MICA_OP_UNKNOWN) fail_msg("%s has no way to run", name);
            if ((support == MICA_OP_DECOMPOSED) != LISTS(decomposed, name) ||
                (support == MICA_OP_FALLBACK) != LISTS(on_cpu, name))
                fail_msg("%s is not where it is listed", name);
        }
        mica_device_close(&device);
    }
    unsetenv("MICA_MLX_MODE");
}

/* docs/mlx.md names them, as `mica devices --ops` does. */
static void test_what_has_no_row_is_documented(void **state) {
    (void)state;
    static char text[65536];
    FILE *file = fopen("docs/mlx.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (size_t i = 0; i < sizeof decomposed / sizeof *decomposed; i++)
        if (!strstr(text, decomposed[i])) fail_msg("%s is not in docs/mlx.md", decomposed[i]);
    for (size_t i = 0; i < sizeof on_cpu / sizeof *on_cpu; i++)
        if (!strstr(text, on_cpu[i])) fail_msg("%s is not in docs/mlx.md", on_cpu[i]);
}

/* As on a GPU, what a fast matmul gives is bf16, here parts of it, and is widened for an op with
 * more operands than a call has room for arrays of its own. */
static void test_many_narrow_operands(void **state) {
    (void)state;
    enum { N = 80, COLUMNS = 4 };
    const mc_attr_matmul fast = {.fast = 1};
    const int64_t x_shape[] = {N, COLUMNS}, w_shape[] = {COLUMNS, COLUMNS};
    mica_device *device;
    mica_scope *s;
    mica_array rows[N];
    float got[N * COLUMNS];
    assert_int_equal(mica_device_open("mlx:cpu", NULL, &device), MICA_OK);
    ((mc_mlx_state *)device->state)->on_cpu = false;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_reshape(s, mica_arange(s, 0, N * COLUMNS, 1, MICA_F32), x_shape, 2);
    mica_array w = mica_astype(s, mica_full(s, w_shape, 2, mica_f32(s, 0.25f)), MICA_BF16);
    mica_array y = mc_record(s, MC_OP_MATMUL, &fast, (mica_array[]){x, w}, 2);
    for (int64_t i = 0; i < N; i++)
        rows[i] = mica_slice(s, y, (int64_t[]){N - 1 - i, 0}, (int64_t[]){N - i, COLUMNS}, NULL);
    if (mica_read(mica_concatenate(s, rows, N, 0), got, sizeof got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (int i = 0; i < N * COLUMNS; i++) { /* the means of rows, the last first */
        float want = (float)(COLUMNS * (N - 1 - i / COLUMNS)) + 1.5f;
        assert_true(got[i] >= want * (1 - 0x1p-7f) && got[i] <= want * (1 + 0x1p-7f));
    }
    mica_scope_close(&s);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_without_layouts),
        cmocka_unit_test(test_the_table_of_ops),
        cmocka_unit_test(test_what_has_no_row_is_documented),
        cmocka_unit_test(test_many_narrow_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

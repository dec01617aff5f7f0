/* Cross-entropy and its gradient. Goldens are those of tests/op/golden_fast.c and golden_grad.c. */
#include <float.h>

#include "op/floats.h"

#include "graph/attr.h"
#include "graph/graph.h"

static void known_values(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array logits = f32s(b.s, (float[]){1, 2, 3, 0, 0, 1000}, SHAPE(2, 3)), dx;
    mica_array targets = i32s(b.s, (int32_t[]){2, -3}, SHAPE(2)); /* -3: from the end */
    float z = (float)(exp(1) + exp(2) + exp(3)), want = (float)(log((double)z) - 3);
    mica_array y = mica_cross_entropy(b.s, logits, targets);
    expect_f32(y, (float[]){want, 1000}, SHAPE(2), 1e-6);
    mica_array dy = f32s(b.s, (float[]){2, 3}, SHAPE(2));
    assert_int_equal(mica_grad(b.s, y, dy, &logits, 1, &dx), MICA_OK);
    const float gradient[6] = {
        2 * 2.7182817f / z, 2 * 7.3890561f / z, 2 * 20.085537f / z - 2, -3, 0, 3};
    expect_f32(dx, gradient, SHAPE(2, 3), 1e-6);
    bench_close(&b);
}

/* The results of the op's decomposition, over the same operands. */
static mica_array decomposed(mica_scope *s, mica_array y) {
    const mc_node *node = mc_node_of(y);
    mica_array in[3], out;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = (mica_array){s, node->in[i]};
    mc_op_get(node->op)->decompose(s, node->attr, in, (int)node->n_in, &out);
    return out;
}

static void compare(mica_scope *s, mica_array y, double slack) {
    mica_array want = mica_astype(s, decomposed(s, y), MICA_F32);
    float *a = read_f32(mica_astype(s, y, MICA_F32)), *b = read_f32(want);
    for (int64_t i = 0; i < mica_array_size(want); i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= slack * (1 + fabs((double)b[i]))))
            fail_msg("element %lld is %g, not %g", (long long)i, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

/* Rows of one block and of several, f16 and bf16, and logits that lie in other ways. */
static void as_decomposed(void **state) {
    (void)state;
    bench b = bench_open();
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
    static const double slack[] = {2e-6, 1e-3, 8e-3};
    for (int64_t classes = 1; classes < 3000; classes = 3 * classes + 1)
        for (int d = 0; d < 3; d++)
            for (int turned = 0; turned < 2; turned++) {
                mica_array x = noise(b.s, SHAPE(turned ? classes : 5, turned ? 5 : classes), 1), dx;
                if (turned) x = mica_swapaxes(b.s, mica_detach(b.s, x), 0, 1);
                x = mica_detach(b.s, mica_astype(b.s, x, dtypes[d]));
                mica_array at = i32s(b.s, (int32_t[]){0, -1, (int32_t)classes / 2, 0, 0}, SHAPE(5));
                mica_array y = mica_cross_entropy(b.s, x, mica_astype(b.s, at, MICA_I64));
                mica_array dy = mica_astype(b.s, noise(b.s, SHAPE(5), 2), dtypes[d]);
                assert_int_equal(mica_grad(b.s, y, dy, &x, 1, &dx), MICA_OK);
                assert_int_equal(mica_array_dtype(dx), dtypes[d]);
                compare(b.s, y, slack[d]);
                compare(b.s, dx, 4 * slack[d]);
            }
    bench_close(&b);
}

/* The gradient takes the memory of logits that nobody reads afterwards. */
static void in_place(void **state) {
    (void)state;
    for (int half = 0; half < 2; half++) {
        bench b = bench_open();
        mica_array x = noise(b.s, SHAPE(16, 4096), 1), dx[2];
        x = mica_detach(b.s, mica_astype(b.s, x, half ? MICA_F16 : MICA_F32));
        mica_array at = mica_zeros(b.s, SHAPE(16), MICA_I32),
                   dy = mica_ones(b.s, SHAPE(16), MICA_F32);
        dy = mica_astype(b.s, dy, mica_array_dtype(x));
        assert_int_equal(mica_grad(b.s, mica_cross_entropy(b.s, x, at), dy, &x, 1, &dx[0]),
                         MICA_OK);
        assert_int_equal(mica_eval(b.s, dx[0]), MICA_OK);
        mica_array copy = mica_move(b.s, mica_contiguous(b.s, x));
        mica_device_reset_peak(b.device);
        uint64_t before = mica_device_peak_bytes(b.device);
        const mica_array in[3] = {copy, at, dy};
        dx[1] = mc_record(b.s, MC_OP_CROSS_ENTROPY_GRADIENT, NULL, in, 3);
        assert_int_equal(mica_eval(b.s, dx[1]), MICA_OK);
        uint64_t more = mica_device_peak_bytes(b.device) - before;
        if (!test_device_is_other()) assert_true(more < 16 * 4096 * sizeof(uint16_t));
        expect_same(dx[1], dx[0]);
        bench_close(&b);
    }
}

static void edges_and_errors(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x =
        f32s(b.s, (float[]){NAN, 0, 1, INFINITY, 0, 1, FLT_MAX, 0, -INFINITY}, SHAPE(3, 3));
    mica_array at = i32s(b.s, (int32_t[]){1, 1, 1}, SHAPE(3)), dx;
    mica_array y = mica_cross_entropy(b.s, x, at), dy = mica_ones(b.s, SHAPE(3), MICA_F32);
    expect_f32(y, (float[]){NAN, INFINITY, FLT_MAX}, SHAPE(3), 0);
    assert_int_equal(mica_grad(b.s, y, dy, &x, 1, &dx), MICA_OK);
    float *values = read_f32(dx);
    assert_true(isnan(values[0]) && isnan(values[2]) && isnan(values[3]));
    assert_true(values[6] == 1 && values[7] == -1 && values[8] == 0);
    free(values);
    at = i32s(b.s, (int32_t[]){0, 3, 0}, SHAPE(3));
    expect_eval_failure(&b, mica_cross_entropy(b.s, x, at), MICA_EINVAL, "index 3 is outside");
    for (int by_parts = 0; by_parts < 2; by_parts++) {
        x = mica_zeros(b.s, SHAPE(3, 3), MICA_F32);
        at = i32s(b.s, (int32_t[]){0, -4, 0}, SHAPE(3));
        const mica_array in[] = {x, at, mica_ones(b.s, SHAPE(3), MICA_F32)};
        dx = mc_record(b.s, MC_OP_CROSS_ENTROPY_GRADIENT, NULL, in, 3);
        if (by_parts) dx = decomposed(b.s, dx);
        expect_eval_failure(&b, dx, MICA_EINVAL, "index -4 is outside");
    }
    y = mica_cross_entropy(b.s, mica_zeros(b.s, SHAPE(0, 3), MICA_F32),
                           mica_zeros(b.s, SHAPE(0), MICA_I32));
    assert_int_equal(mica_eval(b.s, y), MICA_OK);
    y = mica_cross_entropy(b.s, mica_ones(b.s, SHAPE(4), MICA_I32), mica_i32(b.s, 2));
    expect_f32(y, (float[]){1.3862944f}, NULL, 0, 1e-6); /* integers are converted; no rows */
    x = mica_zeros(b.s, SHAPE(2, 3), MICA_F32);
    expect_failure(&b, mica_cross_entropy(b.s, x, mica_i32(b.s, 1)), MICA_ESHAPE, "cross_entropy");
    x = mica_zeros(b.s, SHAPE(2, 3), MICA_F32);
    at = mica_zeros(b.s, SHAPE(2), MICA_F32);
    expect_failure(&b, mica_cross_entropy(b.s, x, at), MICA_EDTYPE, "give integers");
    bench_close(&b);
}

/* The same bits with any number of threads. */
static void threads(void **state) {
    (void)state;
    float *first = NULL;
    for (int n = 1; n <= 3; n += 2) {
        bench b = bench_open_with(&(mica_device_options){.threads = n});
        mica_array x = noise(b.s, SHAPE(64, 5000), 1), at = mica_zeros(b.s, SHAPE(64), MICA_I32),
                   dx;
        mica_array y = mica_sum(b.s, mica_cross_entropy(b.s, x, at), NULL, 0, false);
        assert_int_equal(mica_grad(b.s, y, MICA_NONE, &x, 1, &dx), MICA_OK);
        float *values = read_f32(dx);
        if (first) assert_memory_equal(first, values, 64 * 5000 * sizeof *values);
        free(first);
        first = values;
        bench_close(&b);
    }
    free(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values), cmocka_unit_test(as_decomposed),
        cmocka_unit_test(in_place),     cmocka_unit_test(edges_and_errors),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

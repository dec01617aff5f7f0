/* Ops of an application: values, errors, programs in files, other layouts. Gradients are checked
 * by tests/grad/ops.c. */
#include <stdlib.h>

#include "graph/graphs.h"
#include "op/floats.h"

static mica_array difference(mica_scope *s, int64_t number, mica_array a, mica_array b) {
    const mica_array in[2] = {a, b};
    return mica_custom(s, "test.difference", &number, 1, in, 2);
}

/* The same from plain ops. */
static mica_array plain(mica_scope *s, int64_t number, mica_array a, mica_array b) {
    a = mica_multiply(s, mica_square(s, a), mica_f32(s, (float)number));
    return mica_subtract(s, a, b);
}

static void values(void **state) {
    (void)state;
    bench b = bench_open();
    test_custom_register();
    mica_array x = noise(b.s, SHAPE(3, 5), 1), y = noise(b.s, SHAPE(5, 3), 2);
    mica_array turned = mica_transpose(b.s, mica_detach(b.s, y), NULL); /* copied for the op */
    expect_same(difference(b.s, 2, x, turned), plain(b.s, 2, x, turned));
    expect_same(difference(b.s, 4, mica_flip(b.s, x, 0), turned),
                plain(b.s, 4, mica_flip(b.s, x, 0), turned));
    x = mica_slice_axis(b.s, x, 0, 0, 0);
    assert_int_equal(mica_eval(b.s, difference(b.s, 2, x, x)), MICA_OK);
    bench_close(&b);
}

/* A program that holds the op is saved by the op's name, and loaded. */
static void in_a_file(void **state) {
    (void)state;
    bench b = bench_open();
    test_custom_register();
    mica_array x = mica_program_param(b.s, MICA_F32, SHAPE(4));
    const mica_param param = {"x", x, false};
    mica_array y = difference(b.s, 3, x, x), z;
    mica_program *program, *loaded;
    void *data;
    size_t bytes;
    if (mica_program_build(b.s, &param, 1, &y, 1, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_program_encode(program, NULL, &data, &bytes), MICA_OK);
    if (mica_program_decode(b.device, data, bytes, NULL, &loaded) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_array arg = f32s(b.s, (float[]){0, 1, 2, -1}, SHAPE(4));
    if (mica_program_run(loaded, b.s, &arg, &z) != MICA_OK) fail_msg("%s", mica_last_error());
    expect_f32(z, (float[]){0, 2, 10, 4}, SHAPE(4), 0);
    mica_program_close(&loaded);
    mica_program_close(&program);
    mica_free(data);
    bench_close(&b);
}

static mica_status infer_badly(void *user, const int64_t *numbers, int n_numbers,
                               const mica_shape *in, int n_in, mica_shape *out) {
    (void)user, (void)n_numbers, (void)n_in;
    *out = in[0];
    if (numbers[0] == 0) out->ndim = 99;
    if (numbers[0] == 1) out->dtype = (mica_dtype)99;
    if (numbers[0] == 2) out->shape[0] = -1;
    return MICA_OK;
}

static mica_status run_never(void *user, const int64_t *numbers, int n_numbers,
                             const mica_shape *in, const void *const *data, int n_in,
                             const mica_shape *out, void *result) {
    (void)user, (void)numbers, (void)n_numbers, (void)in, (void)data, (void)n_in, (void)out;
    (void)result;
    return MICA_EUNSUPPORTED;
}

static void errors(void **state) {
    (void)state;
    bench b = bench_open();
    test_custom_register();
    mica_array x = mica_ones(b.s, SHAPE(2), MICA_F32), dx;
    expect_failure(&b, mica_custom(b.s, "test.none", NULL, 0, &x, 1), MICA_EINVAL,
                   "there is no op \"test.none\"");
    x = mica_ones(b.s, SHAPE(2), MICA_I32);
    expect_failure(&b, difference(b.s, 1, x, x), MICA_EDTYPE,
                   "custom op \"test.difference\": its infer returned");
    x = f32s(b.s, (float[]){1, 1e9f}, SHAPE(2));
    expect_eval_failure(&b, difference(b.s, 1, x, x), MICA_EIO, "its run returned");
    x = mica_ones(b.s, SHAPE(2), MICA_F32);
    expect_failure(&b, mica_custom(b.s, "test.difference", NULL, 9, &x, 1), MICA_EINVAL,
                   "0 to 8 numbers");
    mica_custom_op op = {.name = "test.bad", .infer = infer_badly};
    assert_int_equal(mica_custom_register(&op), MICA_EINVAL);
    op.run = run_never;
    assert_int_equal(mica_custom_register(&op), MICA_OK);
    assert_int_equal(mica_custom_register(&op), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "is registered"));
    op.name = "";
    assert_int_equal(mica_custom_register(&op), MICA_EINVAL);
    for (int64_t kind = 0; kind < 3; kind++) {
        x = mica_ones(b.s, SHAPE(2), MICA_F32);
        mica_array y = mica_custom(b.s, "test.bad", &kind, 1, &x, 1);
        expect_failure(&b, y, kind == 1 ? MICA_EDTYPE : MICA_EINVAL, "custom");
    }
    const int64_t good = 3;
    x = mica_ones(b.s, SHAPE(2), MICA_F32);
    mica_array y = mica_sum(b.s, mica_custom(b.s, "test.bad", &good, 1, &x, 1), NULL, 0, false);
    assert_int_equal(mica_grad(b.s, y, MICA_NONE, &x, 1, &dx), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "has no vjp"));
    assert_false(mica_valid(dx));
    assert_int_equal(mica_scope_status(b.s), MICA_OK);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(in_a_file),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

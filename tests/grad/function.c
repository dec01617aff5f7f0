/* The public functions on gradients. That each op's gradient is right is tests/grad/ops.c's. */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grad/check.h"
#include "graph/graph.h"

static double item(mica_array x) {
    double value;
    MUST(mica_item_f64(x, &value));
    return value;
}

/* ---- arrays that were recorded ---- */

static void test_grad(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y = vector(b.s, 4, 5, 6), z = vector(b.s, 0, 0, 0);
    mica_array h = mica_square(b.s, x), loss = total(b.s, mica_multiply(b.s, h, y)), g[5];
    const mica_array xs[] = {x, y, z, h, x};
    MUST(mica_grad(b.s, loss, MICA_NONE, xs, 5, g));
    EXPECT3(g[0], 8, 20, 36);
    EXPECT3(g[1], 1, 4, 9);
    EXPECT3(g[2], 0, 0, 0); /* it does not reach the loss */
    EXPECT3(g[3], 4, 5, 6); /* an intermediate result */
    EXPECT3(g[4], 8, 20, 36);
    MUST(mica_grad(b.s, x, vector(b.s, 7, 8, 9), &x, 1, g)); /* of itself */
    EXPECT3(g[0], 7, 8, 9);
    MUST(mica_grad(b.s, loss, MICA_NONE, NULL, 0, NULL));
    bench_close(&b);
}

/* Weights of another scope, as a model's are. */
static void test_grad_of_another_scope(void **state) {
    (void)state;
    bench b = bench_open();
    mica_scope *other;
    MUST(mica_scope_open(b.device, &other));
    mica_array w = vector(other, 1, 2, 3), unused = vector(other, 1, 1, 1), g[2];
    mica_array loss = total(b.s, mica_exp(b.s, mica_multiply(b.s, w, mica_f32(b.s, 0))));
    loss = mica_add(b.s, loss, total(b.s, mica_square(b.s, w)));
    MUST(mica_grad(b.s, loss, MICA_NONE, (const mica_array[]){w, unused}, 2, g));
    EXPECT3(g[0], 2, 4, 6);
    EXPECT3(g[1], 0, 0, 0);
    assert_ptr_equal(g[0].scope, b.s);
    mica_scope_close(&other);
    bench_close(&b);
}

/* What was evaluated keeps its history; what was moved away or detached does not. */
static void test_grad_of_evaluated(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), h = mica_square(b.s, x), g;
    MUST(mica_eval(b.s, h));
    mica_array loss = total(b.s, mica_multiply(b.s, h, x));
    MUST(mica_eval(b.s, loss));
    MUST(mica_grad(b.s, loss, MICA_NONE, &x, 1, &g));
    EXPECT3(g, 3, 12, 27);
    MUST(mica_grad(b.s, total(b.s, mica_multiply(b.s, mica_detach(b.s, h), x)), MICA_NONE, &x, 1,
                   &g));
    EXPECT3(g, 1, 4, 9);
    mica_array moved = mica_move(b.s, mica_add(b.s, x, x));
    mica_array y = mica_square(b.s, moved);
    MUST(mica_eval(b.s, y)); /* in place, on devices that do that */
    if (mc_node_of(moved)->state == MC_GONE)
        REFUSED(mica_grad(b.s, total(b.s, y), MICA_NONE, &moved, 1, &g), MICA_EINVAL, "moved away");
    assert_true(test_device_is_other() || mc_node_of(moved)->state == MC_GONE);
    bench_close(&b);
}

/* A moved array that the backward pass reads, too, is not overwritten by the forward pass. */
static void test_grad_in_place(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_move(b.s, vector(b.s, 1, 2, 3)), g[2];
    mica_array y =
        mica_slice_update(b.s, mica_square(b.s, x), mica_f32(b.s, 5), LIST(1), LIST(2), NULL);
    mica_array z = mica_multiply(b.s, mica_view(b.s, y, MICA_F32), x);
    MUST(mica_grad(b.s, total(b.s, z), MICA_NONE, (const mica_array[]){x, y}, 2, g));
    MUST(mica_eval_n(b.s, (const mica_array[]){g[0], g[1], z}, 3));
    EXPECT3(g[0], 3, 5, 27);
    EXPECT3(g[1], 1, 2, 3);
    EXPECT3(z, 1, 10, 27);
    bench_close(&b);
}

static void test_bad_arrays(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), i = i32s(b.s, (const int32_t[]){1, 2, 3}, SHAPE(3)), g;
    mica_array loss = total(b.s, x), count = total(b.s, i);
    REFUSED(mica_grad(b.s, count, MICA_NONE, &x, 1, &g), MICA_EDTYPE, "only floats");
    assert_false(mica_valid(g));
    REFUSED(mica_grad(b.s, loss, MICA_NONE, &i, 1, &g), MICA_EDTYPE, "grad: x 0 is i32[3]");
    REFUSED(mica_grad(b.s, x, MICA_NONE, &x, 1, &g), MICA_ESHAPE, "not one element");
    REFUSED(mica_grad(b.s, x, loss, &x, 1, &g), MICA_ESHAPE, "grad: dy is f32[]");
    REFUSED(mica_grad(b.s, loss, i, &x, 1, &g), MICA_ESHAPE, "grad: dy is i32[3]");
    REFUSED(mica_grad(b.s, MICA_NONE, MICA_NONE, &x, 1, &g), MICA_EINVAL, "grad: y");
    REFUSED(mica_grad(b.s, loss, MICA_NONE, &g, 1, &g), MICA_EINVAL, "invalid array");
    REFUSED(mica_grad(NULL, loss, MICA_NONE, &x, 1, &g), MICA_EINVAL, "NULL");
    REFUSED(mica_grad(b.s, loss, MICA_NONE, NULL, 1, &g), MICA_EINVAL, "NULL");
    assert_int_equal(mica_scope_status(b.s), MICA_OK);
    /* Integers, comparisons and indices on the way: zeros. */
    mica_array sign = mica_astype(b.s, mica_greater(b.s, x, mica_f32(b.s, 0)), MICA_F32);
    MUST(mica_grad(b.s, total(b.s, mica_add(b.s, sign, mica_floor(b.s, x))), MICA_NONE, &x, 1, &g));
    EXPECT3(g, 0, 0, 0);
    /* Bits that are read as another float. */
    mica_array bits = mica_view(b.s, mica_astype(b.s, x, MICA_F16), MICA_BF16);
    REFUSED(mica_grad(b.s, total(b.s, bits), MICA_NONE, &x, 1, &g), MICA_EUNSUPPORTED, "view (%");
    expect_failure(&b, mica_add(b.s, MICA_NONE, x), MICA_EINVAL, "add");
    x = vector(b.s, 1, 2, 3);
    (void)mica_add(b.s, MICA_NONE, x);
    REFUSED(mica_grad(b.s, x, x, &x, 1, &g), MICA_EINVAL, "add"); /* the scope's first error */
    bench_close(&b);
}

/* ---- functions ---- */

/* args x, y: sum(x^2 y), and x + y */
static mica_status polynomial(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    (void)user, (void)n_args;
    results[0] = total(s, mica_multiply(s, mica_square(s, args[0]), args[1]));
    if (n_results > 1) results[1] = mica_add(s, args[0], args[1]);
    return MICA_OK;
}

static void test_value_and_grad(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_array args[] = {vector(b.s, 1, 2, 3), vector(b.s, 4, 5, 6)};
    mica_array y[2], g[2];
    const size_t second = 1, none = 2;
    MUST(mica_value_and_grad(b.s, polynomial, NULL, args, 2, NULL, 0, y, 2, g));
    assert_float_equal(item(y[0]), 78, 1e-5);
    EXPECT3(y[1], 5, 7, 9);
    EXPECT3(g[0], 8, 20, 36);
    EXPECT3(g[1], 1, 4, 9);
    MUST(mica_value_and_grad(b.s, polynomial, NULL, args, 2, &second, 1, y, 1, g));
    EXPECT3(g[0], 1, 4, 9);
    /* One array as two arguments. */
    const mica_array twice[] = {args[0], args[0]};
    MUST(mica_value_and_grad(b.s, polynomial, NULL, twice, 2, NULL, 0, y, 1, g));
    EXPECT3(g[0], 2, 8, 18);
    EXPECT3(g[1], 1, 4, 9);
    REFUSED(mica_value_and_grad(b.s, polynomial, NULL, args, 2, &none, 1, y, 1, g), MICA_EINVAL,
            "no argument 2 of 2");
    REFUSED(mica_value_and_grad(b.s, polynomial, NULL, args, 2, NULL, 0, y, 0, g), MICA_EINVAL,
            "no result");
    REFUSED(mica_value_and_grad(b.s, NULL, NULL, args, 2, NULL, 0, y, 1, g), MICA_EINVAL, "NULL");
    bench_close(&b);
}

/* args x f32 [3], i i32 [3]: x[i] * x, and i. What nobody needs has no gradient. */
static mica_status take(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_view(s, mica_astype(s, args[0], MICA_F16), MICA_BF16);
    results[0] = mica_multiply(s, mica_take(s, args[0], args[1], 0), args[0]);
    results[1] = args[1];
    return MICA_OK;
}

static void test_vjp_and_jvp(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), u = vector(b.s, 1, 10, 100), y[2], g[2], dy[2];
    mica_array i = i32s(b.s, (const int32_t[]){2, 2, 0}, SHAPE(3));
    const mica_array args[] = {x, i}, dys[] = {u, MICA_NONE}, dargs[] = {u, MICA_NONE};
    MUST(mica_vjp(b.s, take, NULL, args, 2, dys, y, 2, g));
    EXPECT3(y[0], 3, 6, 3);
    EXPECT3(g[0], 3 + 300, 30, 121); /* x2 + 100 x2, 10 x2, x0 + 10 x1 + 100 x0 */
    assert_null(g[1].scope);
    MUST(mica_jvp(b.s, take, NULL, args, 2, dargs, y, 2, dy));
    EXPECT3(dy[0], 103, 230, 103);
    assert_null(dy[1].scope);
    const mica_array wrong[] = {MICA_NONE, u};
    REFUSED(mica_vjp(b.s, take, NULL, args, 2, wrong, y, 2, g), MICA_EDTYPE, "vjp: result 1");
    REFUSED(mica_jvp(b.s, take, NULL, args, 2, wrong, y, 2, dy), MICA_EDTYPE, "jvp: argument 1");
    const mica_array scalars[] = {mica_f32(b.s, 1), MICA_NONE};
    REFUSED(mica_vjp(b.s, take, NULL, args, 2, scalars, y, 2, g), MICA_ESHAPE,
            "vjp: dy is f32[] for a result f32[3]");
    REFUSED(mica_jvp(b.s, take, NULL, args, 2, scalars, y, 2, dy), MICA_ESHAPE,
            "jvp: darg is f32[] for an argument f32[3]");
    const mica_array nothing[] = {MICA_NONE, MICA_NONE};
    MUST(mica_vjp(b.s, take, NULL, args, 2, nothing, y, 2, g));
    EXPECT3(g[0], 0, 0, 0);
    MUST(mica_jvp(b.s, take, NULL, args, 2, nothing, y, 2, dy));
    EXPECT3(dy[0], 0, 0, 0);
    bench_close(&b);
}

static mica_status fails(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                         mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    results[0] = mica_square(s, args[0]);
    if (*(const bool *)user) return mc_fail(MICA_ECANCELLED, "the function has had enough");
    results[0] = mica_matmul(s, args[0], mica_f32(s, 1));
    return MICA_OK;
}

static mica_status gives_nothing(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                 mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)args, (void)n_args, (void)results, (void)n_results;
    return MICA_OK;
}

static void test_functions_that_fail(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y, g;
    bool early = true;
    REFUSED(mica_value_and_grad(b.s, fails, &early, &x, 1, NULL, 0, &y, 1, &g), MICA_ECANCELLED,
            "had enough");
    assert_false(mica_valid(y) || mica_valid(g));
    REFUSED(mica_vjp(b.s, fails, &early, &x, 1, &x, &y, 1, &g), MICA_ECANCELLED, "had enough");
    REFUSED(mica_jvp(b.s, fails, &early, &x, 1, &x, &y, 1, &g), MICA_ECANCELLED, "had enough");
    REFUSED(mica_checkpoint(b.s, fails, &early, &x, 1, &y, 1), MICA_ECANCELLED, "had enough");
    REFUSED(mica_vjp(b.s, gives_nothing, NULL, &x, 1, &x, &y, 1, &g), MICA_EINVAL, "invalid array");
    EXPECT3(mica_square(b.s, x), 1, 4, 9); /* the scope goes on */
    early = false;
    REFUSED(mica_value_and_grad(b.s, fails, &early, &x, 1, NULL, 0, &y, 1, &g), MICA_ESHAPE,
            "matmul");
    assert_int_equal(mica_scope_status(b.s), MICA_OK);
    bench_close(&b);
}

/* Every output is invalid after an error, one that comes before anything is recorded, too. */
static void expect_invalid(mica_scope *s, bool missing, mica_status want) {
    const mica_array junk = {(mica_scope *)&junk, 12345};
    const mica_custom_gradient bad = {.fn = gives_nothing};
    mica_array x = mica_f32(s, 1), y, g;
    mica_compile_fn fn = missing ? NULL : gives_nothing;
    y = g = junk;
    assert_int_equal(mica_grad(s, x, MICA_NONE, missing ? NULL : &x, 1, &g), want);
    assert_false(mica_valid(g));
    y = g = junk;
    assert_int_equal(mica_value_and_grad(s, fn, NULL, &x, 1, NULL, 0, &y, 1, &g), want);
    assert_false(mica_valid(y) || mica_valid(g));
    y = g = junk;
    assert_int_equal(mica_vjp(s, fn, NULL, &x, 1, &x, &y, 1, &g), want);
    assert_false(mica_valid(y) || mica_valid(g));
    y = g = junk;
    assert_int_equal(mica_jvp(s, fn, NULL, &x, 1, &x, &y, 1, &g), want);
    assert_false(mica_valid(y) || mica_valid(g));
    y = junk;
    assert_int_equal(mica_checkpoint(s, fn, NULL, &x, 1, &y, 1), want);
    assert_false(mica_valid(y));
    y = junk;
    assert_int_equal(mica_custom_vjp(s, missing ? NULL : &bad, NULL, &x, 1, &y, 1), want);
    assert_false(mica_valid(y));
}

static void test_outputs_after_errors(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y, g = x;
    const mica_custom_gradient bad = {.fn = gives_nothing};
    const mica_custom_gradient newer = {.struct_bytes = 1, .fn = gives_nothing};
    expect_invalid(b.s, true, MICA_EINVAL);
    REFUSED(mica_value_and_grad(b.s, polynomial, NULL, &x, 1, NULL, 0, &y, 0, &g), MICA_EINVAL,
            "no result");
    assert_false(mica_valid(g));
    y = x;
    REFUSED(mica_custom_vjp(b.s, &bad, NULL, &x, 1, &y, 1), MICA_EINVAL, "vjp is NULL");
    assert_false(mica_valid(y));
    y = x;
    REFUSED(mica_custom_vjp(b.s, &newer, NULL, &x, 1, &y, 1), MICA_EINVAL, "custom_gradient");
    assert_false(mica_valid(y));
    (void)mica_matmul(b.s, x, mica_f32(b.s, 1));
    expect_invalid(b.s, false, MICA_ESHAPE);
    bench_close(&b);
}

static mica_status collects(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = total(s, args[0]);
    return mica_scope_collect(s, results, 1);
}

/* Handles that the call still needs, as its arguments, would be void. */
static void test_collecting_inside(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y, g;
    for (int i = 0; i < 3000; i++)
        (void)mica_exp(b.s, x);
    REFUSED(mica_value_and_grad(b.s, collects, NULL, &x, 1, NULL, 0, &y, 1, &g), MICA_EINVAL,
            "scope_collect: a function records");
    REFUSED(mica_checkpoint(b.s, collects, NULL, &x, 1, &y, 1), MICA_EINVAL, "scope_collect");
    EXPECT3(x, 1, 2, 3);
    MUST(mica_scope_collect(b.s, &x, 1)); /* afterwards */
    EXPECT3(x, 1, 2, 3);
    bench_close(&b);
}

/* ---- stop_gradient ---- */

static void test_stop_gradient(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), h = mica_exp(b.s, x), g;
    mica_array stopped = mica_stop_gradient(b.s, h);
    assert_int_equal(mc_node_of(h)->state, MC_PENDING);
    MUST(mica_grad(b.s, total(b.s, mica_multiply(b.s, stopped, x)), MICA_NONE, &x, 1, &g));
    expect_same(g, h);
    expect_same(mica_stop_gradient(b.s, x), x); /* of what has a value */
    mica_array moved = mica_move(b.s, mica_add(b.s, x, x));
    EXPECT3(mica_negative(b.s, mica_stop_gradient(b.s, moved)), -2, -4, -6);
    /* As variables: a constant of its own, and one whose op has no gradient. */
    mica_array bits = mica_view(b.s, mica_astype(b.s, x, MICA_F16), MICA_BF16), gs[3];
    mica_array y = mica_multiply(b.s, stopped, mica_astype(b.s, bits, MICA_F32));
    const mica_array xs[] = {stopped, bits, h};
    MUST(mica_grad(b.s, total(b.s, mica_multiply(b.s, y, h)), MICA_NONE, xs, 3, gs));
    expect_same(gs[0], gs[2]);
    EXPECT3(mica_multiply(b.s, mica_subtract(b.s, gs[1], gs[1]), stopped), 0, 0, 0);
    mica_array i = i32s(b.s, (const int32_t[]){1, 2}, SHAPE(2));
    expect_i32(mica_stop_gradient(b.s, i), (const int32_t[]){1, 2}, SHAPE(2));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad),
        cmocka_unit_test(test_grad_of_another_scope),
        cmocka_unit_test(test_grad_of_evaluated),
        cmocka_unit_test(test_grad_in_place),
        cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_value_and_grad),
        cmocka_unit_test(test_vjp_and_jvp),
        cmocka_unit_test(test_functions_that_fail),
        cmocka_unit_test(test_outputs_after_errors),
        cmocka_unit_test(test_collecting_inside),
        cmocka_unit_test(test_stop_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

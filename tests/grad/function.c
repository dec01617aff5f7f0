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
    assert_int_equal(mica_scope_status(b.s), MICA_ESHAPE);
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

/* ---- checkpoint ---- */

typedef struct layer {
    mica_array w;
    int inner; /* further layers, each a checkpoint in the one before it */
} layer;

/* args x [4, 8]: gelu(x w) w^T and, of an inner layer, that again */
static mica_status run_layer(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    layer l = *(const layer *)user;
    mica_array x = mica_gelu(s, mica_matmul(s, args[0], l.w)), order;
    x = mica_softmax(s, mica_matmul(s, x, mica_transpose(s, l.w, NULL)), -1);
    x = mica_add(
        s, x, mica_topk_indices(s, x, mica_array_dim(x, -1), -1, &order)); /* of several results */
    if (l.inner-- > 0) MC_TRY(mica_checkpoint(s, run_layer, &l, &x, 1, &x, 1));
    results[0] = mica_add(s, x, args[0]);
    return MICA_OK;
}

/* The loss of three layers, and its gradients by x and w, checkpointed or not. */
static void train(mica_scope *s, mica_array x, mica_array w, bool checkpointed, int inner,
                  mica_array out[3]) {
    layer l = {w, inner};
    const mica_array xs[] = {x, w};
    for (int i = 0; i < 3; i++)
        MUST(checkpointed ? mica_checkpoint(s, run_layer, &l, &x, 1, &x, 1)
                          : run_layer(&l, s, &x, 1, &x, 1));
    out[0] = total(s, mica_square(s, x));
    MUST(mica_grad(s, out[0], MICA_NONE, xs, 2, out + 1));
    MUST(mica_eval_n(s, out, 3));
}

static void test_checkpoint(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(4, 8), 1), w = noise(b.s, SHAPE(8, 8), 2);
    mica_array plain[3], again[3];
    for (int inner = 0; inner < 3; inner++) {
        train(b.s, x, w, false, inner, plain);
        train(b.s, x, w, true, inner, again);
        for (int i = 0; i < 3; i++)
            expect_same(plain[i], again[i]);
    }
    MUST(mc_graph_verify(b.s));
    bench_close(&b);
}

/* Twelve layers over [256, 64]: of each only its input is kept. */
static void test_checkpoint_memory(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* which has other memory than the planner's */
    uint64_t peak[2];
    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        bench b = bench_open();
        mica_array x = noise(b.s, SHAPE(256, 64), 1), w = noise(b.s, SHAPE(64, 64), 2), y = x, g;
        w = mica_detach(b.s, mica_multiply(b.s, w, mica_f32(b.s, 0.01f)));
        layer l = {w, 0};
        for (int i = 0; i < 12; i++)
            MUST(checkpointed ? mica_checkpoint(b.s, run_layer, &l, &y, 1, &y, 1)
                              : run_layer(&l, b.s, &y, 1, &y, 1));
        MUST(mica_grad(b.s, total(b.s, mica_square(b.s, y)), MICA_NONE, &x, 1, &g));
        MUST(mica_eval(b.s, g));
        peak[checkpointed] = mica_device_peak_bytes(b.device);
        bench_close(&b);
    }
    if (!(peak[1] * 2 < peak[0]))
        fail_msg("%llu bytes with checkpoints, %llu without", (unsigned long long)peak[1],
                 (unsigned long long)peak[0]);
}

/* The cross-entropy of a head's logits, a part of the rows at a time. */
typedef struct head {
    mica_array w, targets;
} head;

static mica_status part_loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    const head *h = user;
    mica_array logits = mica_matmul(s, args[0], mica_transpose(s, h->w, NULL));
    results[0] = total(s, mica_cross_entropy(s, logits, h->targets));
    return MICA_OK;
}

/* 512 rows over 4,096 classes in eight parts: never all logits, and the same loss and gradients. */
static void test_loss_in_parts(void **state) {
    (void)state;
    const int64_t rows = 512, classes = 4096;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(512, 16), 1), w = noise(b.s, SHAPE(4096, 16), 2), g[2][2];
    mica_array targets = mica_from_data(b.s, (int32_t[512]){5, 4095, 17}, MICA_I32, SHAPE(512));
    uint64_t peak[2];
    for (int in_parts = 0; in_parts < 2; in_parts++) {
        int64_t n = in_parts ? rows / 8 : rows;
        mica_array loss = mica_f32(b.s, 0);
        for (int64_t i = 0; i < rows; i += n) {
            head h = {w, mica_slice_axis(b.s, targets, 0, i, i + n)};
            mica_array part = mica_slice_axis(b.s, x, 0, i, i + n);
            MUST(mica_checkpoint(b.s, part_loss, &h, &part, 1, &part, 1));
            loss = mica_add(b.s, loss, part);
        }
        const mica_array xs[] = {x, w};
        MUST(mica_grad(b.s, loss, MICA_NONE, xs, 2, g[in_parts]));
        mica_device_reset_peak(b.device);
        MUST(mica_eval_n(b.s, g[in_parts], 2));
        peak[in_parts] = mica_device_peak_bytes(b.device);
    }
    if (!test_device_is_other()) {
        assert_true(peak[0] > (uint64_t)(rows * classes) * sizeof(float));
        assert_true(peak[1] < (uint64_t)(rows * classes) * sizeof(float) / 2);
    }
    /* A device may add up the 16 products of a logit in another order for other numbers of rows: by
     * that, 16^2 2^-24 at most, the logarithm of each class's share in a row differs. */
    const float bound = test_device_keeps_order() ? 1e-5f : 1e-4f;
    for (int i = 0; i < 2; i++) {
        float *a = read_f32(g[0][i]), *c = read_f32(g[1][i]);
        for (int64_t k = 0; k < mica_array_size(g[0][i]); k++)
            if (!(fabsf(a[k] - c[k]) <= bound * (1 + fabsf(a[k]))))
                fail_msg("element %lld is %g, not %g", (long long)k, (double)c[k], (double)a[k]);
        free(a);
        free(c);
    }
    bench_close(&b);
}

static mica_status nest(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    int *left = user;
    if ((*left)-- > 0) return mica_checkpoint(s, nest, user, args, n_args, results, n_results);
    results[0] = mica_sin(s, args[0]);
    return MICA_OK;
}

static void test_checkpoints_too_deep(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 0, 0, 0), y, g;
    int deep = 20;
    MUST(mica_checkpoint(b.s, nest, &deep, &x, 1, &y, 1));
    MUST(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g));
    EXPECT3(g, 1, 1, 1);
    deep = 100;
    MUST(mica_checkpoint(b.s, nest, &deep, &x, 1, &y, 1));
    REFUSED(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g), MICA_EINVAL, "deep");
    bench_close(&b);
}

/* A function that calls itself without end, in each way that there is. */
static mica_status endless(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    const int way = *(const int *)user;
    const mica_custom_gradient itself = {.fn = endless, .vjp = endless};
    mica_array other, yes;
    switch (way) {
    case 0:
        return mica_checkpoint(s, endless, user, args, n_args, results, n_results);
    case 1:
        return mica_custom_vjp(s, &itself, user, args, n_args, results, n_results);
    case 2:
        return mica_value_and_grad(s, endless, user, args, n_args, NULL, 0, &other, 1, results);
    case 3:
        return mica_vjp(s, endless, user, args, n_args, args, &other, 1, results);
    case 4:
        return mica_jvp(s, endless, user, args, n_args, args, &other, 1, results);
    case 5:
        other = mica_expand_dims(s, args[0], 0);
        return mica_vmap(s, endless, user, &other, 1, NULL, results, n_results);
    case 6:
        yes = mica_isfinite(s, total(s, args[0]));
        return mica_if(s, yes, endless, endless, user, args, n_args, results, n_results);
    default:
        yes = mica_isfinite(s, total(s, args[0]));
        return mica_if_each(s, yes, endless, endless, user, args, n_args, results, n_results);
    }
}

static void test_functions_too_deep(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        bench b = bench_open();
        mica_array x = vector(b.s, 1, 2, 3), y = x;
        REFUSED(endless(&way, b.s, &x, 1, &y, 1), MICA_EINVAL, "nest more than 256 deep");
        assert_false(mica_valid(y));
        MUST(mica_scope_status(b.s));
        EXPECT3(mica_square(b.s, x), 1, 4, 9); /* the scope goes on */
        bench_close(&b);
    }
}

/* Results that are arguments, leaves or each other; nothing recorded; what is evaluated inside. */
static mica_status odd_results(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = args[0];
    results[1] = mica_f32(s, 2);
    results[2] = results[3] = mica_square(s, args[0]);
    return MICA_OK;
}

static void test_odd_checkpoints(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y[4], g[2];
    MUST(mica_checkpoint(b.s, odd_results, NULL, &x, 1, y, 4));
    mica_array sum = mica_add(b.s, mica_multiply(b.s, y[0], y[1]),
                              mica_multiply(b.s, mica_add(b.s, y[2], y[3]), x));
    const mica_array xs[] = {x, y[2]};
    MUST(mica_grad(b.s, total(b.s, sum), MICA_NONE, xs, 2, g));
    EXPECT3(g[0], 2 + 6, 2 + 24, 2 + 54);
    EXPECT3(g[1], 2, 4, 6); /* an intermediate result in a checkpoint, which y[3] is, too */
    MUST(mica_checkpoint(b.s, gives_nothing, NULL, &x, 1, NULL, 0));
    bench_close(&b);
}

/* ---- rules of the caller ---- */

static mica_status rounded(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_round(s, args[0]);
    results[1] = mica_multiply(s, args[0], args[1]);
    return MICA_OK;
}

/* Straight through; the product's is three times too large. args: x, y, r0, r1, d0, d1 */
static mica_status rounded_vjp(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    if (n_args != 6 || n_results != 2) return mc_fail(MICA_EINTERNAL, "numbers");
    if (user && *(const bool *)user) return mc_fail(MICA_ECANCELLED, "no gradient today");
    mica_array dx = mica_multiply(s, mica_multiply(s, args[5], args[1]), mica_f32(s, 3));
    results[0] = mica_add(s, args[4], dx);
    return MICA_OK;
}

/* args: x, y, r0, r1, dx, dy */
static mica_status rounded_jvp(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = args[4];
    results[1] = mica_multiply(s, mica_multiply(s, args[4], args[1]), mica_f32(s, 3));
    return MICA_OK;
}

static mica_custom_gradient rule = {.fn = rounded, .vjp = rounded_vjp, .jvp = rounded_jvp};

static mica_status call_rounded(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    mica_array y[2];
    (void)n_results;
    MC_TRY(mica_custom_vjp(s, &rule, user, args, n_args, y, 2));
    results[0] = mica_add(s, y[0], y[1]);
    return MICA_OK;
}

static void test_custom(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1.2f, 1.7f, -0.4f), u = vector(b.s, 1, 10, 100), y, g[2], dy;
    const mica_array args[] = {x, vector(b.s, 2, 3, 4)}, du[] = {u, u};
    MUST(mica_vjp(b.s, call_rounded, NULL, args, 2, &u, &y, 1, g));
    EXPECT3(y, 1 + 2.4f, 2 + 5.1f, -1.6f);
    EXPECT3(g[0], 7, 100, 1300);
    EXPECT3(g[1], 0, 0, 0);
    MUST(mica_jvp(b.s, call_rounded, NULL, args, 2, du, &y, 1, &dy));
    EXPECT3(dy, 7, 100, 1300);
    /* in a checkpoint */
    MUST(mica_checkpoint(b.s, call_rounded, NULL, args, 2, &y, 1));
    MUST(mica_grad(b.s, y, u, &x, 1, g));
    EXPECT3(g[0], 7, 100, 1300);
    bool fail = true;
    MUST(call_rounded(&fail, b.s, args, 2, &y, 1));
    REFUSED(mica_grad(b.s, y, u, &x, 1, g), MICA_ECANCELLED, "no gradient today");
    mica_custom_gradient none = {.fn = rounded};
    mica_array two[2];
    REFUSED(mica_custom_vjp(b.s, &none, NULL, args, 2, two, 2), MICA_EINVAL, "vjp is NULL");
    rule.jvp = NULL;
    REFUSED(mica_jvp(b.s, call_rounded, NULL, args, 2, du, &y, 1, &dy), MICA_EUNSUPPORTED,
            "has no jvp");
    rule.jvp = rounded_jvp;
    bench_close(&b);
}

static mica_status same(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_args;
    for (size_t k = 0; k < n_results; k++)
        results[k] = args[0];
    return MICA_OK;
}

/* args: x, y0, y1, dy0, dy1 */
static mica_status reversed(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_negative(s, mica_add(s, args[3], mica_multiply(s, args[4], args[0])));
    return MICA_OK;
}

/* Results that are the argument, which others use, too: a gradient that is turned round. */
static void test_custom_of_its_argument(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_custom_gradient turned = {.fn = same, .vjp = reversed};
    mica_array x = vector(b.s, 1, 2, 3), y[2], g;
    MUST(mica_custom_vjp(b.s, &turned, NULL, &x, 1, y, 2));
    mica_array sum = mica_add(b.s, mica_multiply(b.s, y[0], mica_f32(b.s, 5)), y[1]);
    MUST(mica_grad(b.s, total(b.s, mica_add(b.s, sum, x)), MICA_NONE, &x, 1, &g));
    EXPECT3(g, -5 - 1 + 1, -5 - 2 + 1, -5 - 3 + 1);
    bench_close(&b);
}

static mica_array leaked;

static mica_status leaking(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    leaked = mica_exp(s, args[0]);
    results[0] = mica_log(s, leaked);
    return MICA_OK;
}

static mica_status wrong_shape(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = total(s, args[2]);
    return MICA_OK;
}

static void test_bad_custom(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_custom_gradient bad = {.fn = leaking, .vjp = wrong_shape};
    mica_array x = vector(b.s, 1, 2, 3), y, g;
    MUST(mica_custom_vjp(b.s, &bad, NULL, &x, 1, &y, 1));
    REFUSED(mica_grad(b.s, total(b.s, mica_add(b.s, y, leaked)), MICA_NONE, &x, 1, &g), MICA_EINVAL,
            "used outside");
    REFUSED(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g), MICA_ESHAPE,
            "custom_vjp: a gradient of f32[3] is f32[]");
    bench_close(&b);
}

/* ---- derivatives of derivatives ---- */

/* args w [6, 8], x [4, 6]: the mean of tanh(x w) x' ..., a small MLP */
static mica_status mlp(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                       mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array h = mica_silu(s, mica_matmul(s, args[1], args[0]));
    h = mica_rms_norm(s, h, MICA_NONE, 1e-5f);
    mica_array y = mica_matmul(s, h, mica_transpose(s, args[0], NULL));
    results[0] = mica_mean(s, mica_square(s, mica_softmax(s, y, -1)), NULL, 0, false);
    return MICA_OK;
}

/* The gradient by w, as a function. */
static mica_status mlp_gradient(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const size_t first = 0;
    mica_array y;
    (void)n_results;
    return mica_value_and_grad(s, mlp, user, args, n_args, &first, 1, &y, 1, results);
}

/* The second derivative in a direction, forwards over backwards, backwards over backwards, and by
 * differences of gradients. */
static void test_second_derivatives(void **state) {
    (void)state;
    bench b = bench_open();
    const float h = 0x1p-6f;
    mica_array w = noise(b.s, SHAPE(6, 8), 1), x = noise(b.s, SHAPE(4, 6), 2);
    mica_array u = noise(b.s, SHAPE(6, 8), 3), g, forwards, back[2], moved[2];
    mica_array args[] = {w, x};
    const mica_array du[] = {u, MICA_NONE};
    MUST(mica_jvp(b.s, mlp_gradient, NULL, args, 2, du, &g, 1, &forwards));
    MUST(mica_vjp(b.s, mlp_gradient, NULL, args, 2, &u, &g, 1, back));
    for (int i = 0; i < 2; i++) {
        args[0] = mica_add(b.s, w, mica_multiply(b.s, u, mica_f32(b.s, i ? h : -h)));
        MUST(mlp_gradient(NULL, b.s, args, 2, &moved[i], 1));
    }
    mica_array want =
        mica_divide(b.s, mica_subtract(b.s, moved[1], moved[0]), mica_f32(b.s, 2 * h));
    float *a = read_f32(forwards), *c = read_f32(back[0]), *d = read_f32(want);
    double largest = 0;
    for (int i = 0; i < 48; i++)
        largest = fmax(largest, fabs((double)d[i]));
    assert_true(largest > 1e-3);
    for (int i = 0; i < 48; i++) {
        if (!(fabs((double)a[i] - (double)c[i]) <= 2e-5 * largest))
            fail_msg("element %d: %g forwards, %g backwards", i, (double)a[i], (double)c[i]);
        if (!(fabs((double)a[i] - (double)d[i]) <= 2e-2 * largest))
            fail_msg("element %d: %g, by differences %g", i, (double)a[i], (double)d[i]);
    }
    free(a);
    free(c);
    free(d);
    bench_close(&b);
}

/* ---- programs ---- */

/* args w, x, lr: w - lr dw, the loss */
static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    mica_array g;
    MC_TRY(mlp_gradient(user, s, args, 2, &g, 1));
    results[0] = mica_subtract(s, args[0], mica_multiply(s, g, args[2]));
    return mlp(user, s, args, 2, &results[1], 1);
}

static mica_program *build_step(mica_scope *s) {
    const mica_array args[] = {mica_program_param(s, MICA_F32, SHAPE(6, 8)),
                               mica_program_param(s, MICA_F32, SHAPE(4, 6)),
                               mica_program_param(s, MICA_F32, NULL, 0)};
    const mica_param params[] = {
        {"w", args[0], true}, {"x", args[1], false}, {"lr", args[2], false}};
    mica_array results[2];
    mica_program *program = NULL;
    MUST(step(NULL, s, args, 3, results, 2));
    MUST(mica_program_build(s, params, 3, results, 2, NULL, &program));
    MUST(mica_program_verify(program));
    return program;
}

/* Three steps by a program, by one that was saved and loaded, by a compiled function, and one op
 * after the other. */
static void test_programs(void **state) {
    (void)state;
    bench b = bench_open();
    void *data;
    size_t bytes;
    mica_program *built = build_step(b.s), *loaded;
    mica_function *function;
    MUST(mica_program_encode(built, NULL, &data, &bytes));
    MUST(mica_program_decode(b.device, data, bytes, NULL, &loaded));
    MUST(mica_compile(b.device, step, NULL, NULL, &function));
    mica_array x = noise(b.s, SHAPE(4, 6), 2), lr = mica_f32(b.s, 0.5f), w[4][2];
    for (int i = 0; i < 4; i++)
        w[i][0] = noise(b.s, SHAPE(6, 8), 1);
    double before = 0;
    for (int i = 0; i < 3; i++) {
        mica_array args[4][3];
        for (int k = 0; k < 4; k++) {
            args[k][0] = k < 2 ? w[k][0] : mica_move(b.s, w[k][0]);
            args[k][1] = x;
            args[k][2] = lr;
        }
        MUST(mica_program_run(built, b.s, args[0], w[0]));
        MUST(mica_program_run(loaded, b.s, args[1], w[1]));
        MUST(mica_function_call(function, b.s, args[2], 3, w[2], 2));
        MUST(step(NULL, b.s, args[3], 3, w[3], 2));
        MUST(mica_eval_n(b.s, w[3], 2));
        for (int k = 1; k < 4; k++) {
            expect_same(w[0][0], w[k][0]);
            expect_same(w[0][1], w[k][1]);
        }
        if (i > 0) assert_true(item(w[0][1]) < before);
        before = item(w[0][1]);
    }
    assert_int_equal(mica_function_traces(function), 1);
    mica_free(data);
    mica_program_close(&built);
    mica_program_close(&loaded);
    mica_function_close(&function);
    bench_close(&b);
}

/* args x: the gradient of sum(sin(x)), and of sum(x^2 / the number of elements) */
static mica_status of_lengths(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    (void)user, (void)n_args;
    mica_array dy = mica_cos(s, args[0]), y = mica_sin(s, args[0]);
    if (n_results > 1)
        MC_TRY(mica_grad(s, mica_mean(s, mica_square(s, args[0]), NULL, 0, false), MICA_NONE, args,
                         1, &results[1]));
    return mica_grad(s, y, dy, args, 1, results);
}

/* Without shapes: other lengths are right, or refused. */
static void test_other_lengths(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_compile_options shapeless = {.shapeless = true};
    mica_array x = vector(b.s, 1, 2, 3), more = noise(b.s, SHAPE(7), 1), y[2], want;
    mica_function *f;
    MUST(mica_compile(b.device, of_lengths, NULL, &shapeless, &f));
    MUST(mica_function_call(f, b.s, &x, 1, y, 1));
    MUST(mica_function_call(f, b.s, &more, 1, y, 1));
    assert_int_equal(mica_function_traces(f), 1);
    want = mica_square(b.s, mica_cos(b.s, more));
    expect_same(y[0], want);
    MUST(mica_function_call(f, b.s, &x, 1, y, 2));
    EXPECT3(y[1], 2.0f / 3, 4.0f / 3, 2);
    REFUSED(mica_function_call(f, b.s, &more, 1, y, 2), MICA_ESHAPE, "without shapeless");
    mica_function_close(&f);
    bench_close(&b);
}

static mica_function *inner;

static mica_status calls_inner(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user;
    return mica_function_call(inner, s, args, n_args, results, n_results);
}

/* A compiled function that another calls is differentiated with it. */
static void test_compiled_functions(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_array args[] = {vector(b.s, 1, 2, 3), vector(b.s, 4, 5, 6)};
    mica_array y, g[2];
    MUST(mica_compile(b.device, polynomial, NULL, NULL, &inner));
    MUST(mica_value_and_grad(b.s, calls_inner, NULL, args, 2, NULL, 0, &y, 1, g));
    EXPECT3(g[0], 8, 20, 36);
    MUST(mica_checkpoint(b.s, calls_inner, NULL, args, 2, &y, 1));
    MUST(mica_grad(b.s, y, MICA_NONE, &args[1], 1, g));
    EXPECT3(g[0], 1, 4, 9);
    mica_function_close(&inner);
    bench_close(&b);
}

/* Random numbers are the same in the backward pass, also if they are drawn again. */
static mica_status dropout(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array kept = mica_random_bernoulli(s, args[1], SHAPE(100), 0.5);
    results[0] = mica_where(s, kept, mica_square(s, args[0]), mica_f32(s, 0));
    return MICA_OK;
}

static void test_random(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(100), 1), y, g;
    const mica_array args[] = {x, mica_random_key(b.s, 5)};
    MUST(mica_checkpoint(b.s, dropout, NULL, args, 2, &y, 1));
    MUST(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g));
    float *value = read_f32(y), *slope = read_f32(g), *at = read_f32(x);
    int kept = 0;
    for (int i = 0; i < 100; i++) {
        kept += value[i] != 0;
        assert_true(slope[i] == (value[i] != 0 ? 2 * at[i] : 0));
    }
    assert_in_range(kept, 20, 80);
    free(value);
    free(slope);
    free(at);
    bench_close(&b);
}

/* ---- failing allocations ---- */

typedef struct sweep {
    mica_device *device;
    mica_array x, w;
} sweep;

static bool everything(void *arg) {
    const sweep *given = arg;
    mica_scope *s;
    mica_status status = mica_scope_open(given->device, &s);
    if (status != MICA_OK) return false;
    mica_array w = given->w, x = given->x, y[2], g[2], dy;
    layer l = {w, 1};
    status = mica_checkpoint(s, run_layer, &l, &x, 1, &y[0], 1);
    const mica_array args[] = {y[0], y[0]};
    if (status == MICA_OK) status = mica_custom_vjp(s, &rule, NULL, args, 2, y, 2);
    if (status == MICA_OK) {
        const mica_array xs[] = {x, w};
        status = mica_grad(s, total(s, mica_add(s, y[0], y[1])), MICA_NONE, xs, 2, g);
    }
    if (status == MICA_OK) status = mica_eval_n(s, g, 2);
    if (status == MICA_OK) status = mica_jvp(s, run_layer, &l, &x, 1, &x, y, 1, &dy);
    if (status == MICA_OK) status = mica_vjp(s, run_layer, &l, &x, 1, &x, y, 1, g);
    if (status == MICA_OK) status = mica_eval(s, dy);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return status == MICA_OK;
}

static void test_failing_allocations(void **state) {
    (void)state;
    if (test_device_is_other()) skip();
    bench b = bench_open();
    sweep given = {b.device, noise(b.s, SHAPE(4, 8), 1), noise(b.s, SHAPE(8, 8), 2)};
    test_fail_each_allocation(everything, &given);
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
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_checkpoint_memory),
        cmocka_unit_test(test_loss_in_parts),
        cmocka_unit_test(test_checkpoints_too_deep),
        cmocka_unit_test(test_functions_too_deep),
        cmocka_unit_test(test_odd_checkpoints),
        cmocka_unit_test(test_custom),
        cmocka_unit_test(test_custom_of_its_argument),
        cmocka_unit_test(test_bad_custom),
        cmocka_unit_test(test_second_derivatives),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_other_lengths),
        cmocka_unit_test(test_compiled_functions),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

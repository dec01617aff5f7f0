/* mica_vmap: what it computes for all examples is what a loop over them does. */
#include "op/fused.h"

#include <mica/mica.h>

#include "base/alloc.h"

enum { N = 3 };

static int calls;

typedef mica_status recorder(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results);

#define RECORDER(name)                                                                        \
    static mica_status name(void *user, mica_scope *s, const mica_array *args, size_t n_args, \
                            mica_array *results, size_t n_results)
#define UNUSED (void)user, (void)n_args, (void)n_results

/* ---- functions: x [4, 6], k [4] integers, w [6, 5] ---- */

RECORDER(elements) {
    UNUSED;
    mica_array y = mica_add(s, mica_tanh(s, args[0]), mica_f32(s, 0.5f));
    y = mica_where(s, mica_greater(s, args[0], mica_f32(s, 0)), y, mica_square(s, args[0]));
    results[0] = mica_divide(s, y, mica_exp(s, mica_multiply(s, y, args[0])));
    return mica_scope_status(s);
}

RECORDER(reductions) {
    UNUSED;
    const int first = 0, both[2] = {0, 1};
    mica_array x = args[0];
    mica_array y = mica_sum(s, x, &first, 1, false);    /* [6] */
    y = mica_add(s, y, mica_max(s, x, both, 2, false)); /* [] to [6] */
    y = mica_add(s, y, mica_logsumexp(s, mica_square(s, x), &first, 1, false));
    mica_array at = mica_astype(s, mica_argmax(s, x, 0, false), MICA_F32);
    results[0] = mica_multiply(s, y, mica_add(s, at, mica_mean(s, x, NULL, 0, false)));
    return mica_scope_status(s);
}

RECORDER(along_axes) {
    UNUSED;
    mica_array x = args[0];
    mica_array y = mica_softmax(s, mica_cumsum(s, x, 0, false, true), 1);
    y = mica_add(s, y, mica_sort(s, x, 0));
    results[0] =
        mica_concatenate(s, (mica_array[]){y, x, mica_cumprod(s, x, 1, true, false)}, 3, 0);
    return mica_scope_status(s);
}

RECORDER(views) {
    UNUSED;
    mica_array x = args[0];
    mica_array y = mica_transpose(s, mica_reshape(s, x, SHAPE(2, 2, 6)), (const int[]){2, 0, 1});
    y = mica_reshape(s, mica_contiguous(s, y), SHAPE(6, 4));
    y = mica_slice_axis(s, mica_flip(s, y, 0), 0, 1, 5);
    mica_array row = mica_slice_axis(s, x, 1, 2, 3);
    y = mica_add(s, y, mica_broadcast_to(s, mica_reshape(s, row, SHAPE(4)), SHAPE(4, 4)));
    results[0] =
        mica_slice_update(s, y, mica_slice_axis(s, x, 1, 0, 2), LIST(0, 1), LIST(4, 3), NULL);
    return mica_scope_status(s);
}

RECORDER(indices) {
    UNUSED;
    mica_array w = args[2];
    mica_array rows = mica_take(s, w, args[1], 0);                /* [4, 5] */
    mica_array picked = mica_take(s, args[0], mica_i32(s, 2), 1); /* [4] */
    mica_array logits = mica_matmul(s, args[0], w);               /* [4, 5] */
    mica_array loss = mica_cross_entropy(s, logits, args[1]);
    mica_array along = mica_take_along_axis(s, logits, mica_expand_dims(s, args[1], -1), 1);
    loss = mica_add(s, mica_multiply(s, loss, picked), mica_squeeze(s, along, -1));
    results[0] = mica_add(s, rows, mica_expand_dims(s, loss, -1));
    return mica_scope_status(s);
}

RECORDER(layers) {
    UNUSED;
    mica_array x = mica_rms_norm(s, args[0], mica_ones(s, SHAPE(6), MICA_F32), 1e-5f);
    x = mica_rope(s, x, mica_i32(s, 1), MICA_NONE, NULL);
    x = mica_layer_norm(s, x, MICA_NONE, MICA_NONE, 1e-5f);
    mica_array y = mica_silu(s, mica_matmul(s, x, args[2]));
    mica_array stack = mica_reshape(s, y, SHAPE(2, 2, 5));
    mica_array by = mica_reshape(s, mica_slice_axis(s, y, 0, 0, 2), SHAPE(5, 2));
    results[0] = mica_matmul(s, stack, by); /* [2, 2, 2], of axes that broadcast */
    return mica_scope_status(s);
}

/* Of one array by the indices of each example, and of each example's by the same. */
RECORDER(gathers) {
    UNUSED;
    const int both[2] = {1, 0}, first = 0;
    mica_array x = args[0], at[2] = {args[1], mica_i32(s, 1)};
    mica_array y = mica_gather(s, x, at, 2, both, LIST(1, 1)); /* [4, 1, 1] */
    mica_array z = mica_gather(s, args[2], args + 1, 1, &first, LIST(1, 5));
    mica_array same = mica_from_data(s, (const int32_t[]){1, 0, 3, 2}, MICA_I32, SHAPE(4));
    mica_array rows = mica_gather(s, x, &same, 1, &first, LIST(1, 6)); /* [4, 1, 6] */
    results[0] = mica_add(s, mica_add(s, y, z), mica_slice_axis(s, rows, 2, 0, 5));
    return mica_scope_status(s);
}

RECORDER(scatters) {
    UNUSED;
    const int first = 0;
    mica_array updates = mica_reshape(s, mica_slice_axis(s, args[0], 1, 0, 5), SHAPE(4, 1, 5));
    mica_array y = mica_scatter(s, args[2], args + 1, 1, &first, updates, MICA_SCATTER_ADD);
    mica_array constant = mica_ones(s, SHAPE(4, 1, 5), MICA_F32);
    y = mica_scatter(s, y, args + 1, 1, &first, constant, MICA_SCATTER_MAXIMUM);
    results[0] = mica_scatter(s, args[2], args + 1, 1, &first, constant, MICA_SCATTER_SET);
    results[0] = mica_add(s, results[0], y);
    return mica_scope_status(s);
}

/* Two rows, two heads of queries and one of keys, of values from elsewhere. */
RECORDER(attends) {
    UNUSED;
    mica_array q = mica_reshape(s, args[0], SHAPE(2, 2, 2, 3));
    mica_array k = mica_reshape(s, mica_square(s, args[0]), SHAPE(2, 1, 4, 3));
    mica_array v = mica_reshape(s, mica_slice_axis(s, args[2], 0, 0, 4), SHAPE(1, 1, 4, 5));
    v = mica_broadcast_to(s, v, SHAPE(2, 1, 4, 5));
    mica_sdpa_options o = {
        .causal = true,
        .mask = mica_from_data(s, (const float[]){0, 1, -1, 0}, MICA_F32, SHAPE(1, 4))};
    mica_array lse, y = mica_sdpa_lse(s, q, k, v, &o, &lse);
    results[0] = mica_add(s, y, mica_expand_dims(s, lse, -1));
    return mica_scope_status(s);
}

RECORDER(selects) {
    UNUSED;
    mica_array at, y = mica_topk_indices(s, args[0], 3, -1, &at);
    results[0] = mica_add(s, y, mica_astype(s, at, MICA_F32));
    return mica_scope_status(s);
}

RECORDER(attends_loss) {
    MC_TRY(attends(user, s, args, n_args, results, n_results));
    results[0] = mica_sum(s, mica_square(s, results[0]), NULL, 0, false);
    return mica_scope_status(s);
}

RECORDER(attends_gradients) {
    (void)user, (void)n_results;
    return mica_value_and_grad(s, attends_loss, NULL, args, n_args, (const size_t[]){0, 2}, 2,
                               results, 1, results + 1);
}

RECORDER(constant) {
    UNUSED;
    calls++;
    results[0] = mica_negative(s, args[2]);
    return mica_scope_status(s);
}

/* The loss of an example, and its gradients by x and w. */
RECORDER(loss) {
    UNUSED;
    mica_array y =
        mica_gelu_approx(s, mica_matmul(s, mica_rms_norm(s, args[0], MICA_NONE, 1e-5f), args[2]));
    results[0] = mica_mean(s, mica_cross_entropy(s, y, args[1]), NULL, 0, false);
    return mica_scope_status(s);
}

RECORDER(loss_and_gradients) {
    (void)user, (void)n_results;
    return mica_value_and_grad(s, loss, NULL, args, n_args, (const size_t[]){0, 2}, 2, results, 1,
                               results + 1);
}

/* ---- a loop ---- */

typedef struct inputs {
    mica_array all[3];
    bool shared[3];
} inputs;

static inputs make_inputs(mica_scope *s) {
    static const int32_t targets[N * 4] = {0, 3, 1, 4, 2, 2, 0, 1, 4, 3, 0, 1};
    return (inputs){{noise(s, 1, MICA_F32, SHAPE(N, 4, 6)),
                     mica_from_data(s, targets, MICA_I32, SHAPE(N, 4)),
                     noise(s, 2, MICA_F32, SHAPE(6, 5))},
                    {false, false, true}};
}

/* The results of the function for each example, stacked. */
static void loop(mica_scope *s, recorder *fn, const inputs *in, size_t n, mica_array *results) {
    mica_array parts[3][N];
    for (int64_t i = 0; i < N; i++) {
        mica_array args[3], out[3];
        for (int k = 0; k < 3; k++)
            args[k] = in->shared[k]
                          ? in->all[k]
                          : mica_squeeze(s, mica_slice_axis(s, in->all[k], 0, i, i + 1), 0);
        if (fn(NULL, s, args, 3, out, n) != MICA_OK) fail_msg("%s", mica_last_error());
        for (size_t k = 0; k < n; k++)
            parts[k][i] = mica_expand_dims(s, out[k], 0);
    }
    for (size_t k = 0; k < n; k++)
        results[k] = mica_concatenate(s, parts[k], N, 0);
}

static void compare(mica_scope *s, recorder *fn, size_t n) {
    mica_array got[3], want[3];
    inputs in = make_inputs(s);
    if (mica_vmap(s, fn, NULL, in.all, 3, in.shared, got, n) != MICA_OK)
        fail_msg("%s", mica_last_error());
    loop(s, fn, &in, n, want);
    for (size_t k = 0; k < n; k++)
        expect_near(s, got[k], want[k], 2e-6);
}

static void as_a_loop(void **state) {
    (void)state;
    bench b = bench_open();
    recorder *const all[] = {elements, reductions, along_axes, views,   indices, layers,
                             gathers,  scatters,   attends,    selects, constant};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        compare(b.s, all[i], 1);
    bench_close(&b);
}

static void gradients_of_each_example(void **state) {
    (void)state;
    bench b = bench_open();
    compare(b.s, loss_and_gradients, 3);
    compare(b.s, attends_gradients, 3);
    bench_close(&b);
}

/* The gradient of the sum over examples is the sum of theirs. */
static void gradient_through_it(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array got, want, ys;
    const int first = 0;
    inputs in = make_inputs(b.s);
    assert_int_equal(mica_vmap(b.s, loss, NULL, in.all, 3, in.shared, &ys, 1), MICA_OK);
    assert_int_equal(
        mica_grad(b.s, mica_sum(b.s, ys, NULL, 0, false), MICA_NONE, &in.all[2], 1, &got), MICA_OK);
    mica_array each[3];
    loop(b.s, loss_and_gradients, &in, 3, each);
    want = mica_sum(b.s, each[2], &first, 1, false);
    expect_near(b.s, got, want, 2e-6);
    bench_close(&b);
}

/* Rows of rows: a function of vectors over both axes. */
RECORDER(norm_of_row) {
    UNUSED;
    results[0] = mica_sqrt(s, mica_sum(s, mica_square(s, args[0]), NULL, 0, false));
    return mica_scope_status(s);
}

RECORDER(norm_of_rows) {
    return mica_vmap(s, norm_of_row, user, args, n_args, NULL, results, n_results);
}

static void nested(void **state) {
    (void)state;
    bench b = bench_open();
    const int last = 2;
    mica_array x = noise(b.s, 1, MICA_F32, SHAPE(N, 4, 6)), y;
    assert_int_equal(mica_vmap(b.s, norm_of_rows, NULL, &x, 1, NULL, &y, 1), MICA_OK);
    mica_array want = mica_sqrt(b.s, mica_sum(b.s, mica_square(b.s, x), &last, 1, false));
    expect_near(b.s, y, want, 1e-6);
    bench_close(&b);
}

/* No examples, and the function is called once whatever their number. */
static void numbers(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_zeros(b.s, SHAPE(0, 4, 6), MICA_F32), y;
    assert_int_equal(mica_vmap(b.s, elements, NULL, &x, 1, NULL, &y, 1), MICA_OK);
    expect_shape(y, MICA_F32, SHAPE(0, 4, 6));
    assert_int_equal(mica_eval(b.s, y), MICA_OK);
    inputs in = make_inputs(b.s);
    calls = 0;
    assert_int_equal(mica_vmap(b.s, constant, NULL, in.all, 3, in.shared, &y, 1), MICA_OK);
    assert_int_equal(calls, 1);
    bench_close(&b);
}

/* ---- bad use ---- */

RECORDER(attention) { /* with a mask of each example */
    UNUSED;
    mica_array q = mica_reshape(s, args[0], SHAPE(1, 1, 4, 6));
    mica_sdpa_options o = {.mask = mica_slice_axis(s, args[0], 1, 0, 4)};
    results[0] = mica_sdpa(s, q, q, q, &o);
    return mica_scope_status(s);
}

RECORDER(branches) {
    UNUSED;
    mica_array yes = mica_isfinite(s, mica_sum(s, args[0], NULL, 0, false));
    return mica_if(s, yes, elements, elements, NULL, args, 2, results, 1);
}

RECORDER(not_done) {
    UNUSED;
    results[0] = mica_less(s, mica_sum(s, args[0], NULL, 0, false), mica_f32(s, 0));
    return mica_scope_status(s);
}

RECORDER(halves) {
    UNUSED;
    results[0] = mica_multiply(s, args[0], mica_f32(s, 0.5f));
    return mica_scope_status(s);
}

RECORDER(loops) {
    UNUSED;
    return mica_while(s, not_done, halves, NULL, args, 1, NULL, results, NULL);
}

RECORDER(convolves) {
    UNUSED;
    mica_array x = mica_expand_dims(s, args[0], 0);
    results[0] = mica_conv_general(s, x, x, NULL);
    return mica_scope_status(s);
}

RECORDER(own_rule) {
    const mica_custom_gradient rule = {.fn = elements, .vjp = elements};
    return mica_custom_vjp(s, &rule, user, args, n_args, results, n_results);
}

RECORDER(fails) {
    UNUSED;
    (void)s, (void)args, (void)results;
    return MICA_ECANCELLED;
}

static void refused(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array y, one = mica_f32(b.s, 1);
    inputs in = make_inputs(b.s);
    assert_int_equal(mica_eval_n(b.s, in.all, 3), MICA_OK);
    const struct {
        recorder *fn;
        mica_array args[2];
        bool shared[2];
        mica_status want;
        const char *text;
    } cases[] = {
        {attention, {in.all[0], in.all[0]}, {0, 0}, MICA_EUNSUPPORTED, "sdpa"},
        {branches, {in.all[0], in.all[0]}, {0, 0}, MICA_EUNSUPPORTED, "vmap: if has no rule"},
        {loops, {in.all[0], in.all[0]}, {0, 0}, MICA_EUNSUPPORTED, "vmap: while has no rule"},
        {convolves,
         {in.all[0], in.all[0]},
         {0, 0},
         MICA_EUNSUPPORTED,
         "vmap: conv_general has no rule"},
        {own_rule, {in.all[0], in.all[0]}, {0, 0}, MICA_EUNSUPPORTED, "custom_vjp"},
        {elements, {in.all[0], in.all[2]}, {0, 0}, MICA_ESHAPE, "argument 1 is f32[6,5]"},
        {elements, {in.all[0], one}, {0, 0}, MICA_ESHAPE, "no axis"},
        {elements, {in.all[0], in.all[2]}, {1, 1}, MICA_EINVAL, "no argument"},
        {elements, {in.all[0], MICA_NONE}, {0, 1}, MICA_EINVAL, "vmap"},
        {fails, {in.all[0], in.all[0]}, {0, 0}, MICA_ECANCELLED, ""},
        {NULL, {in.all[0], in.all[0]}, {0, 0}, MICA_EINVAL, "NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_scope *s;
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        mica_status status =
            mica_vmap(s, cases[i].fn, NULL, cases[i].args, 2, cases[i].shared, &y, 1);
        if (status != cases[i].want || !strstr(mica_last_error(), cases[i].text))
            fail_msg("case %zu: %s: %s", i, mica_status_name(status), mica_last_error());
        assert_false(mica_valid(y));
        mica_scope_close(&s);
    }
    bench_close(&b);
}

static void failing_allocations(void **state) {
    (void)state;
    bench b = bench_open();
    inputs in = make_inputs(b.s);
    assert_int_equal(mica_eval_n(b.s, in.all, 3), MICA_OK);
    mica_status status = MICA_ENOMEM;
    for (uint64_t n = 1; status != MICA_OK; n++) {
        mica_scope *s;
        mica_array y[3];
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        mc_alloc_fail_at(n);
        status = mica_vmap(s, loss_and_gradients, NULL, in.all, 3, in.shared, y, 3);
        mc_alloc_fail_at(0);
        if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
        mica_scope_close(&s);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_loop),
        cmocka_unit_test(gradients_of_each_example),
        cmocka_unit_test(gradient_through_it),
        cmocka_unit_test(nested),
        cmocka_unit_test(numbers),
        cmocka_unit_test(refused),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

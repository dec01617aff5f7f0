/* Gradients of gradients, and gradients in programs and compiled functions. */
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

/* Without shapes: other lengths, which the mean divides by. */
static void test_other_lengths(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_compile_options shapeless = {.shapeless = true};
    mica_array x = vector(b.s, 1, 2, 3), more = noise(b.s, SHAPE(7), 1), y[2], want;
    mica_function *f;
    MUST(mica_compile(b.device, of_lengths, NULL, &shapeless, &f));
    MUST(mica_function_call(f, b.s, &x, 1, y, 1));
    MUST(mica_function_call(f, b.s, &more, 1, y, 1));
    assert_int_equal(mica_function_traces(f), 2);
    want = mica_square(b.s, mica_cos(b.s, more));
    expect_same(y[0], want);
    MUST(mica_function_call(f, b.s, &x, 1, y, 2));
    EXPECT3(y[1], 2.0f / 3, 4.0f / 3, 2);
    MUST(mica_function_call(f, b.s, &more, 1, y, 2));
    MUST(of_lengths(NULL, b.s, &more, 1, &want, 1));
    expect_same(y[0], want);
    mica_array both[2];
    MUST(of_lengths(NULL, b.s, &more, 1, both, 2));
    expect_same(y[1], both[1]);
    for (int64_t n = 1; n < 6; n++) {
        more = noise(b.s, SHAPE(n), 1);
        MUST(mica_function_call(f, b.s, &more, 1, y, 2));
        MUST(of_lengths(NULL, b.s, &more, 1, both, 2));
        expect_same(y[1], both[1]);
    }
    assert_int_equal(mica_function_traces(f), 4);
    mica_function_close(&f);
    bench_close(&b);
}

/* args x, y: sum(x^2 y), and x + y */
static mica_status polynomial(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    (void)user, (void)n_args;
    results[0] = total(s, mica_multiply(s, mica_square(s, args[0]), args[1]));
    if (n_results > 1) results[1] = mica_add(s, args[0], args[1]);
    return MICA_OK;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_derivatives),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_other_lengths),
        cmocka_unit_test(test_compiled_functions),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

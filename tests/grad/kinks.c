/* Gradients where ops have kinks, poles or equal elements: what docs/gradients.md says. The values
 * are those of jax.grad, but for abs at 0, 0^0, and sums of nothing but -inf (1, NaN and NaN
 * there), and for equal elements of a running maximum (which share it there). */
#include <mica/mica.h>

#include <math.h>

#include "grad/check.h"

enum { N = 4 };

static bench b;

static int open_bench(void **state) {
    (void)state;
    b = bench_open();
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    bench_close(&b);
    return 0;
}

static mica_array row(float x0, float x1, float x2, float x3) {
    return f32s(b.s, (const float[]){x0, x1, x2, x3}, SHAPE(N));
}

/* The gradient of sum(y * (1, 2, 3, 4)) or of y, by x. */
static mica_array gradient(mica_array y, mica_array x) {
    mica_array dy = mica_array_ndim(y) == 0 ? MICA_NONE : row(1, 2, 3, 4), dx;
    MUST(mica_grad(b.s, y, dy, &x, 1, &dx));
    return dx;
}

#define EXPECT(x, a0, a1, a2, a3) expect_f32(x, (const float[]){a0, a1, a2, a3}, SHAPE(N), 1e-6)

static void test_elements(void **state) {
    (void)state;
    mica_array x = row(0, -1, 2, NAN), zero = row(0, 0, 2, 0);
    EXPECT(gradient(mica_relu(b.s, x), x), 0, 0, 3, 0); /* of NaN 0, too */
    EXPECT(gradient(mica_maximum(b.s, zero, x), x), 1, 0, 3, 0);
    EXPECT(gradient(mica_maximum(b.s, x, zero), x), 0, 0, 0, 0); /* the second of equal ones */
    EXPECT(gradient(mica_minimum(b.s, x, zero), x), 0, 2, 0, 0);
    EXPECT(gradient(mica_clip(b.s, x, mica_f32(b.s, -1), mica_f32(b.s, 2)), x), 1, 0, 0, 0);
    x = row(0, -0.0f, -2, 3);
    EXPECT(gradient(mica_abs(b.s, x), x), 0, 0, -3, 4);
    EXPECT(gradient(mica_sqrt(b.s, row(0, 0, 0, 0)), x), 0, 0, 0, 0); /* of another array */
    x = row(0, 1, 4, INFINITY);
    EXPECT(gradient(mica_sqrt(b.s, x), x), INFINITY, 1, 0.75f, 0);
    EXPECT(gradient(mica_round(b.s, x), x), 0, 0, 0, 0);
}

static void test_power(void **state) {
    (void)state;
    mica_array base = row(0, 0, 0, -2), to = row(0, 1, 2, 3), y = mica_power(b.s, base, to);
    EXPECT(gradient(y, base), 0, 2, 0, 48);
    EXPECT(gradient(y, to), 0, 0, 0, NAN); /* log of a negative number */
    base = row(0, 2, 2, 2);
    to = row(-1, 0, 1, 0.5f);
    y = mica_power(b.s, base, to);
    EXPECT(gradient(y, base), -INFINITY, 0, 3, 4 * 0.5f / sqrtf(2));
    /* a polynomial's second derivative */
    mica_array cube = mica_power(b.s, row(0, 1, 2, 3), mica_f32(b.s, 3));
    assert_true(mica_valid(cube));
    mica_array x = row(0, 1, 2, -3), dx, ddx;
    cube = mica_sum(b.s, mica_power(b.s, x, mica_f32(b.s, 3)), NULL, 0, false);
    MUST(mica_grad(b.s, cube, MICA_NONE, &x, 1, &dx));
    MUST(mica_grad(b.s, mica_sum(b.s, dx, NULL, 0, false), MICA_NONE, &x, 1, &ddx));
    EXPECT(ddx, 0, 6, 12, -18);
}

static void test_infinities(void **state) {
    (void)state;
    const float low = -INFINITY;
    mica_array x = row(low, low, 1, 0), y = row(low, 0, 1, low);
    EXPECT(gradient(mica_logaddexp(b.s, x, y), x), 0.5f, 0, 1.5f, 4);
    x = row(low, 0, low, 0);
    EXPECT(gradient(mica_logsumexp(b.s, x, NULL, 0, false), x), 0, 0.5f, 0, 0.5f);
    EXPECT(gradient(mica_logcumsumexp(b.s, x, 0, false, true), x), 0, 2 + 3 + 2, 0, 2);
    x = row(low, low, low, low); /* where others have NaN */
    EXPECT(gradient(mica_logsumexp(b.s, x, NULL, 0, false), x), 0, 0, 0, 0);
    EXPECT(gradient(mica_logcumsumexp(b.s, x, 0, false, true), x), 0, 0, 0, 0);
    x = row(64, -64, 64, 0);
    expect_f32(gradient(mica_logsumexp(b.s, x, NULL, 0, false), x),
               (const float[]){0.5f, 0, 0.5f, 8.0190191e-29f}, SHAPE(N), 1e-5);
    x = row(1000, -1000, 1000, 0);
    EXPECT(gradient(mica_softmax(b.s, x, -1), x), -0.5f, 0, 0.5f, 0);
}

/* +inf and NaN are not taken for -inf. */
static void test_what_is_no_number(void **state) {
    (void)state;
    mica_array x = row(INFINITY, 0, 1, -INFINITY), y, dx, dy;
    EXPECT(gradient(mica_logsumexp(b.s, x, NULL, 0, false), x), NAN, 0, 0, 0);
    x = row(0, 0, INFINITY, 1);
    EXPECT(gradient(mica_logcumsumexp(b.s, x, 0, false, true), x), 2, 1, NAN, 0);
    x = row(0, 1, 2, 3);
    y = mica_logcumsumexp(b.s, x, 0, false, true);
    dy = row(0, NAN, 0, 0);
    MUST(mica_grad(b.s, y, dy, &x, 1, &dx));
    EXPECT(dx, NAN, NAN, 0, 0);
    x = row(-INFINITY, INFINITY, -201, NAN);
    EXPECT(gradient(mica_silu(b.s, x), x), 0, 2, 0, NAN);
    EXPECT(gradient(mica_gelu(b.s, x), x), 0, 2, 0, NAN);
    EXPECT(gradient(mica_gelu_approx(b.s, x), x), 0, 2, 0, NAN);
}

static void test_products_with_zeros(void **state) {
    (void)state;
    mica_array x = row(2, 0, 3, 4);
    EXPECT(gradient(mica_prod(b.s, x, NULL, 0, false), x), 0, 24, 0, 0);
    /* 2, 0, 0, 0 times 1, 2, 3, 4 */
    EXPECT(gradient(mica_cumprod(b.s, x, 0, false, true), x), 1, 2 * 2 + 3 * 6 + 4 * 24, 0, 0);
    EXPECT(gradient(mica_cumprod(b.s, x, 0, true, false), x), 0, 12, 8, 2 * 3 + 3);
    x = row(2, 0, 0, 4);
    EXPECT(gradient(mica_prod(b.s, x, NULL, 0, false), x), 0, 0, 0, 0);
    EXPECT(gradient(mica_cumprod(b.s, x, 0, false, true), x), 1, 4, 0, 0);
}

static void test_equal_elements(void **state) {
    (void)state;
    mica_array x = row(3, 1, 3, 1), d;
    EXPECT(gradient(mica_max(b.s, x, NULL, 0, false), x), 0.5f, 0, 0.5f, 0);
    EXPECT(gradient(mica_min(b.s, x, NULL, 0, false), x), 0, 0.5f, 0, 0.5f);
    EXPECT(gradient(mica_sort(b.s, x, 0), x), 3, 1, 4, 2);                        /* stable */
    EXPECT(gradient(mica_cummax(b.s, x, 0, false, true), x), 1 + 2, 0, 3 + 4, 0); /* the last one */
    mica_array largest = mica_topk_indices(b.s, x, 1, 0, &d);
    EXPECT(gradient(mica_sum(b.s, largest, NULL, 0, false), x), 1, 0, 0, 0);
    x = row(1, NAN, 2, 0);
    EXPECT(gradient(mica_max(b.s, x, NULL, 0, false), x), 0, 0, 0, 0);
}

/* Elements that are read or written twice. */
static void test_indices(void **state) {
    (void)state;
    mica_array x = row(5, 6, 7, 8), u = row(1, 7, 9, 2);
    mica_array at = i32s(b.s, (const int32_t[]){1, -1, 1, 3}, SHAPE(N));
    const int axis = 0;
    EXPECT(gradient(mica_take(b.s, x, at, 0), x), 0, 1 + 3, 0, 2 + 4);
    EXPECT(gradient(mica_take_along_axis(b.s, x, at, 0), x), 0, 4, 0, 6);
    mica_array y = mica_put_along_axis(b.s, x, at, u, 0); /* 5 9 7 2 */
    EXPECT(gradient(y, x), 1, 0, 3, 0);
    EXPECT(gradient(y, u), 0, 0, 2, 4);
    mica_array updates = mica_expand_dims(b.s, u, 1);
    static const float of_x[5][N] = {
        {1, 0, 3, 0}, {1, 2, 3, 4}, {1, 2 * 9, 3, 4 * 14}, {1, 0, 3, 4}, {1, 0, 3, 0}};
    static const float of_u[5][N] = {{0, 0, 2, 4},
                                     {2, 4, 2, 4},
                                     {2 * 6 * 9, 4 * 8 * 2, 2 * 6, 4 * 8 * 7},
                                     {0, 0, 2, 0},
                                     {2, 0, 0, 4}};
    for (mica_scatter_mode mode = MICA_SCATTER_SET; mode <= MICA_SCATTER_MINIMUM; mode++) {
        y = mica_scatter(b.s, x, &at, 1, &axis, updates, mode);
        expect_f32(gradient(y, x), of_x[mode], SHAPE(N), 1e-6);
        expect_f32(gradient(y, u), of_u[mode], SHAPE(N), 1e-6);
    }
    /* x and updates that are equal: x; equal updates: the first. A factor of 0. */
    u = row(9, 8, 9, 8);
    y = mica_scatter(b.s, x, &at, 1, &axis, mica_expand_dims(b.s, u, 1), MICA_SCATTER_MAXIMUM);
    EXPECT(gradient(y, x), 1, 0, 3, 4);
    EXPECT(gradient(y, u), 2, 0, 0, 0);
    u = row(0, 2, 3, 4);
    y = mica_scatter(b.s, x, &at, 1, &axis, mica_expand_dims(b.s, u, 1), MICA_SCATTER_MULTIPLY);
    EXPECT(gradient(y, x), 1, 0, 3, 4 * 8);
    EXPECT(gradient(y, u), 2 * 6 * 3, 4 * 8 * 4, 0, 4 * 8 * 2);
}

/* A query that sees no key, in attention: no NaN. */
static void test_attention_without_keys(void **state) {
    (void)state;
    mica_array q = noise(b.s, SHAPE(1, 1, 2, 4), 1), k = noise(b.s, SHAPE(1, 1, 3, 4), 2);
    mica_array v = noise(b.s, SHAPE(1, 1, 3, 4), 3), g[3];
    const int32_t seen[] = {0, 0, 0, 1, 0, 1};
    mica_sdpa_options o = {.mask = mica_astype(b.s, i32s(b.s, seen, SHAPE(2, 3)), MICA_BOOL)};
    mica_array y = mica_sum(b.s, mica_square(b.s, mica_sdpa(b.s, q, k, v, &o)), NULL, 0, false);
    MUST(mica_grad(b.s, y, MICA_NONE, (const mica_array[]){q, k, v}, 3, g));
    for (int i = 0; i < 3; i++) {
        float *values = read_f32(g[i]), sum = 0;
        for (int64_t n = 0; n < mica_array_size(g[i]); n++) {
            assert_true(isfinite(values[n]));
            sum += fabsf(values[n]);
        }
        assert_true(sum > 0.01f);
        for (int64_t n = 0; n < 4; n++)
            if (i == 0)
                assert_true(values[n] == 0); /* the query that sees nothing */
            else
                assert_true(values[4 + n] == 0); /* the key that nobody sees */
        free(values);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_infinities),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_products_with_zeros),
        cmocka_unit_test(test_equal_elements),
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_attention_without_keys),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}

/* Gradients through control flow, where they meet what else there is: errors, rules of callers,
 * checkpoints, programs, and operands that are one array twice. Values are those of golden_control
 * and of central differences (tests/grad/ops.c). */
#include <mica/control.h>
#include <mica/grad.h>
#include <mica/program.h>

#include "grad/check.h"

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    test_forget_plans(device);
    mica_device_close(&device);
    return 0;
}

static mica_scope *open_scope(void) {
    mica_scope *s;
    MUST(mica_scope_open(device, &s));
    return s;
}

#define FUNCTION(name)                                                                  \
    static mica_status name(void *user, mica_scope *s, const mica_array *x, size_t n_x, \
                            mica_array *y, size_t n_y)
#define UNUSED (void)user, (void)s, (void)x, (void)n_x, (void)y, (void)n_y

FUNCTION(is_small) {
    UNUSED;
    y[0] = mica_less(s, mica_max(s, x[0], NULL, 0, false), mica_f32(s, 10));
    return MICA_OK;
}

FUNCTION(twice) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], mica_f32(s, 2));
    return MICA_OK;
}

FUNCTION(times) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], x[1]);
    if (n_y > 1) y[1] = x[1];
    return MICA_OK;
}

static void test_a_loop_without_a_bound(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = vector(s, 1, 2, 3), y, dx;
    MUST(mica_while(s, is_small, twice, NULL, &x, 1, NULL, &y, NULL));
    REFUSED(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx), MICA_EUNSUPPORTED,
            "without a bound has no gradient; give it max_rounds");
    mica_scope_close(&s);
}

/* A bound that ends the loop early, and one that does not; of the rounds run the gradient is. */
static void test_a_loop_with_a_bound(void **state) {
    (void)state;
    for (int bound = 1; bound < 5; bound++) {
        mica_scope *s = open_scope();
        mica_array x = vector(s, 1, 2, 3), y, dx;
        const mica_while_options o = {.max_rounds = bound};
        MUST(mica_while(s, is_small, twice, NULL, &x, 1, &o, &y, NULL));
        MUST(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx));
        float want = bound < 2 ? 2 : 4; /* 12 is not below 10 */
        EXPECT3(dx, want, want, want);
        mica_scope_close(&s);
    }
}

/* One array in two places: as two values, and as a value and a capture. */
static void test_an_operand_twice(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = vector(s, 1, 2, 3), both[2] = {x, x}, y[2], dx;
    const mica_while_options o = {.max_rounds = 2};
    MUST(mica_while(s, is_small, times, NULL, both, 2, &o, y, NULL)); /* x^3 where 3^2 < 10 */
    MUST(mica_grad(s, total(s, y[0]), MICA_NONE, &x, 1, &dx));
    EXPECT3(dx, 3, 12, 27);
    MUST(mica_if(s, mica_scalar(s, 1, MICA_BOOL), times, times, NULL, both, 2, y, 1));
    MUST(mica_grad(s, total(s, y[0]), MICA_NONE, &x, 1, &dx));
    EXPECT3(dx, 2, 4, 6);
    mica_scope_close(&s);
}

FUNCTION(times_capture) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], *(mica_array *)user);
    return MICA_OK;
}

FUNCTION(stays) {
    UNUSED;
    y[0] = x[0];
    return MICA_OK;
}

/* Zeros for what the branch taken does not read. */
static void test_captures_of_branches(void **state) {
    (void)state;
    for (int taken = 0; taken < 2; taken++) {
        mica_scope *s = open_scope();
        mica_array x = vector(s, 1, 2, 3), c = mica_square(s, x), w = vector(s, 5, 6, 7), y, d[2];
        c = mica_add(s, c, w);
        MUST(mica_if(s, mica_scalar(s, taken, MICA_BOOL), times_capture, stays, &c, &x, 1, &y, 1));
        MUST(mica_grad(s, total(s, y), MICA_NONE, (mica_array[]){x, w}, 2, d));
        if (taken) { /* x (x^2 + w) */
            EXPECT3(d[0], 8, 18, 34);
            EXPECT3(d[1], 1, 2, 3);
        } else {
            EXPECT3(d[0], 1, 1, 1);
            EXPECT3(d[1], 0, 0, 0);
        }
        mica_scope_close(&s);
    }
}

/* ---- rules of the caller's, and checkpoints, within ---- */

FUNCTION(square) {
    UNUSED;
    y[0] = mica_square(s, x[0]);
    return MICA_OK;
}

/* Says that the gradient is 100 dy. */
FUNCTION(hundredfold) {
    UNUSED;
    y[0] = mica_multiply(s, x[2], mica_f32(s, 100));
    return MICA_OK;
}

FUNCTION(custom_square) {
    UNUSED;
    static const mica_custom_gradient rule = {.fn = square, .vjp = hundredfold};
    return mica_custom_vjp(s, &rule, NULL, x, 1, y, 1);
}

FUNCTION(checkpointed) {
    UNUSED;
    return mica_checkpoint(s, square, NULL, x, 1, y, 1);
}

static void test_rules_within(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = vector(s, 1, 2, 3), y, dx;
    mica_array yes = mica_scalar(s, 1, MICA_BOOL);
    MUST(mica_if(s, yes, custom_square, stays, NULL, &x, 1, &y, 1));
    MUST(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx));
    EXPECT3(y, 1, 4, 9);
    EXPECT3(dx, 100, 100, 100);
    MUST(mica_scan(s, checkpointed, NULL, &x, 1, NULL, 0, &(mica_scan_options){.length = 3}, &y,
                   NULL, 0)); /* x^8 */
    MUST(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx));
    EXPECT3(dx, 8, 1024, 17496);
    mica_scope_close(&s);
}

/* ---- second derivatives, and programs ---- */

FUNCTION(cubed_by_steps) {
    UNUSED;
    mica_array both[2] = {x[0], x[0]}, out[2];
    mica_status status = mica_scan(s, times, NULL, both, 2, NULL, 0,
                                   &(mica_scan_options){.length = 2}, out, NULL, 0);
    y[0] = total(s, out[0]);
    return status;
}

FUNCTION(gradient_of_it) {
    UNUSED;
    mica_array value;
    return mica_value_and_grad(s, cubed_by_steps, NULL, x, 1, NULL, 0, &value, 1, y);
}

static void test_a_gradient_of_a_gradient_as_a_program(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = vector(s, 1, 2, 3), u = vector(s, 1, 1, 1), dx, ddx;
    MUST(mica_jvp(s, gradient_of_it, NULL, &x, 1, &u, &dx, 1, &ddx));
    EXPECT3(dx, 3, 12, 27);
    EXPECT3(ddx, 6, 12, 18);
    mica_function *f;
    MUST(mica_compile(device, gradient_of_it, NULL, NULL, &f));
    for (int i = 0; i < 2; i++) {
        MUST(mica_function_call(f, s, &x, 1, &dx, 1));
        EXPECT3(dx, 3, 12, 27);
    }
    assert_int_equal(mica_function_traces(f), 1);
    mica_function_close(&f);
    mica_scope_close(&s);
}

/* ---- checkpoints bound the memory of a long scan ---- */

FUNCTION(drift) {
    UNUSED;
    y[0] = mica_multiply(s, mica_sin(s, x[0]), mica_f32(s, 1.25f));
    return MICA_OK;
}

static uint64_t peak_of(int64_t checkpoints, int64_t length) {
    enum { WIDTH = 4096 };
    mica_scope *s = open_scope();
    mica_array x = mica_ones(s, (const int64_t[]){WIDTH}, 1, MICA_F32), y, dx;
    MUST(mica_eval(s, x));
    mica_device_reset_peak(device);
    const mica_scan_options o = {.length = length, .checkpoints = checkpoints};
    MUST(mica_scan(s, drift, NULL, &x, 1, NULL, 0, &o, &y, NULL, 0));
    MUST(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx));
    MUST(mica_eval(s, dx));
    uint64_t peak = mica_device_peak_bytes(device) / (WIDTH * sizeof(float));
    mica_scope_close(&s);
    return peak;
}

static void test_checkpoints_bound_memory(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* which has other memory than the planner's */
    uint64_t root = peak_of(0, 256), all = peak_of(1, 256);
    if (root > 2 * 16 + 24 || all < 256) /* in values that are carried */
        fail_msg("%d values at once, %d without checkpoints", (int)root, (int)all);
}

/* first(u, v) = u, second(u, v) = 3 u: what both give back reads v as well. */
FUNCTION(first) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], mica_f32(s, 1));
    return MICA_OK;
}

FUNCTION(first_back) {
    UNUSED;
    y[0] = mica_multiply(s, x[3], x[1]);
    y[1] = MICA_NONE;
    return MICA_OK;
}

FUNCTION(second) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], mica_f32(s, 3));
    return MICA_OK;
}

FUNCTION(second_back) {
    UNUSED;
    y[0] = y[1] = x[3];
    return MICA_OK;
}

/* The second's v is from the first, and the first's v is for its rule alone. */
FUNCTION(rules_for_each_other) {
    UNUSED;
    const mica_custom_gradient one = {.fn = first, .vjp = first_back};
    const mica_custom_gradient two = {.fn = second, .vjp = second_back};
    mica_array args[2] = {mica_square(s, x[0]), mica_add(s, x[0], mica_f32(s, 10))}, v;
    MUST(mica_custom_vjp(s, &one, NULL, args, 2, &v, 1));
    args[0] = x[0];
    args[1] = mica_negative(s, v);
    return mica_custom_vjp(s, &two, NULL, args, 2, y, n_y);
}

static void test_a_rule_that_needs_another(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = vector(s, 1, 2, 3), y, dx, pred = mica_scalar(s, 1, MICA_BOOL);
    MUST(mica_if(s, pred, rules_for_each_other, rules_for_each_other, NULL, &x, 1, &y, 1));
    MUST(mica_grad(s, total(s, y), MICA_NONE, &x, 1, &dx));
    EXPECT3(dx, 1 - 2 * 11, 1 - 4 * 12, 1 - 6 * 13);
    mica_scope_close(&s);
}

/* The longest scan: nobody runs it, but its gradient is recorded. */
static void test_the_longest_scan(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_f32(s, 1), y, dx;
    const mica_scan_options o = {.length = INT64_MAX};
    MUST(mica_scan(s, twice, NULL, &x, 1, NULL, 0, &o, &y, NULL, 0));
    MUST(mica_grad(s, y, MICA_NONE, &x, 1, &dx));
    mica_scope_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_without_a_bound),
        cmocka_unit_test(test_a_loop_with_a_bound),
        cmocka_unit_test(test_an_operand_twice),
        cmocka_unit_test(test_captures_of_branches),
        cmocka_unit_test(test_rules_within),
        cmocka_unit_test(test_a_rule_that_needs_another),
        cmocka_unit_test(test_the_longest_scan),
        cmocka_unit_test(test_a_gradient_of_a_gradient_as_a_program),
        cmocka_unit_test(test_checkpoints_bound_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

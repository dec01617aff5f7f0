/* Rules of the caller (mica_custom_vjp). */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grad/check.h"
#include "graph/graph.h"

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

/* ---- failing allocations ---- */

typedef struct sweep {
    mica_device *device;
    mica_array x;
} sweep;

static bool everything(void *arg) {
    const sweep *given = arg;
    mica_scope *s;
    if (mica_scope_open(given->device, &s) != MICA_OK) return false;
    mica_array x = given->x, y[2], g, dy;
    const mica_array args[] = {x, x}, du[] = {x, x};
    mica_status status = mica_custom_vjp(s, &rule, NULL, args, 2, y, 2);
    if (status == MICA_OK)
        status = mica_grad(s, total(s, mica_add(s, y[0], y[1])), MICA_NONE, &x, 1, &g);
    if (status == MICA_OK) status = mica_eval(s, g);
    if (status == MICA_OK) status = mica_jvp(s, call_rounded, NULL, args, 2, du, y, 1, &dy);
    if (status == MICA_OK) status = mica_eval(s, dy);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return status == MICA_OK;
}

static void test_failing_allocations(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    bench b = bench_open();
    sweep given = {b.device, vector(b.s, 1, 2, 3)};
    test_fail_each_allocation(everything, &given);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_custom),
        cmocka_unit_test(test_custom_of_its_argument),
        cmocka_unit_test(test_bad_custom),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

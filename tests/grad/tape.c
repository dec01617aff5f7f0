/* What passes know of nodes: custom gradients and checkpoints that begin or end at one node, and
 * the arrays that rules give. */
#include <mica/mica.h>

#include "grad/check.h"
#include "graph/graph.h"

/* A function whose own gradient is zero: whoever loses the rule gets zeros. */
static mica_status rounded(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_round(s, args[0]);
    return MICA_OK;
}

/* Both ways; args: x, y, and dy or dx. */
static mica_status through(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_results;
    results[0] = args[n_args - 1];
    return MICA_OK;
}

static mica_status doubled(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_results;
    results[0] = mica_multiply(s, args[n_args - 1], mica_f32(s, 2));
    return MICA_OK;
}

static mica_status custom(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                          mica_array *results, size_t n_results) {
    const mica_custom_gradient rule = {.fn = rounded, .vjp = through, .jvp = through};
    return mica_custom_vjp(s, &rule, user, args, n_args, results, n_results);
}

static mica_status checkpointed(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    return mica_checkpoint(s, custom, user, args, n_args, results, n_results);
}

static mica_status checkpointed_twice(void *user, mica_scope *s, const mica_array *args,
                                      size_t n_args, mica_array *results, size_t n_results) {
    return mica_checkpoint(s, checkpointed, user, args, n_args, results, n_results);
}

static mica_status custom_first(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    MC_TRY(custom(user, s, args, n_args, results, n_results));
    results[0] = mica_multiply(s, results[0], mica_f32(s, 1));
    return MICA_OK;
}

static mica_status custom_last(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    mica_array x = mica_multiply(s, args[0], mica_f32(s, 1));
    (void)n_args;
    return custom(user, s, &x, 1, results, n_results);
}

static mica_status checkpoint_of_first(void *user, mica_scope *s, const mica_array *args,
                                       size_t n_args, mica_array *results, size_t n_results) {
    return mica_checkpoint(s, custom_first, user, args, n_args, results, n_results);
}

static mica_status checkpoint_of_last(void *user, mica_scope *s, const mica_array *args,
                                      size_t n_args, mica_array *results, size_t n_results) {
    return mica_checkpoint(s, custom_last, user, args, n_args, results, n_results);
}

/* The outermost rule is the one that holds. */
static mica_status custom_of_custom(void *user, mica_scope *s, const mica_array *args,
                                    size_t n_args, mica_array *results, size_t n_results) {
    const mica_custom_gradient rule = {.fn = checkpointed, .vjp = doubled, .jvp = doubled};
    return mica_custom_vjp(s, &rule, user, args, n_args, results, n_results);
}

static mica_status checkpoint_of_both(void *user, mica_scope *s, const mica_array *args,
                                      size_t n_args, mica_array *results, size_t n_results) {
    return mica_checkpoint(s, custom_of_custom, user, args, n_args, results, n_results);
}

static void test_regions_that_meet(void **state) {
    (void)state;
    const struct {
        mica_compile_fn fn;
        float times;
    } cases[] = {
        {custom, 1},
        {checkpointed, 1},
        {checkpointed_twice, 1},
        {custom_first, 1},
        {custom_last, 1},
        {checkpoint_of_first, 1},
        {checkpoint_of_last, 1},
        {custom_of_custom, 2},
        {checkpoint_of_both, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b = bench_open();
        mica_array x = vector(b.s, 1.2f, 1.7f, -0.4f), u = vector(b.s, 1, 10, 100), y, g, dy;
        const float k = cases[i].times;
        print_message("case %zu\n", i);
        MUST(mica_vjp(b.s, cases[i].fn, NULL, &x, 1, &u, &y, 1, &g));
        EXPECT3(y, 1, 2, 0);
        EXPECT3(g, k, 10 * k, 100 * k);
        MUST(mica_jvp(b.s, cases[i].fn, NULL, &x, 1, &u, &y, 1, &dy));
        EXPECT3(y, 1, 2, 0);
        EXPECT3(dy, k, 10 * k, 100 * k);
        bench_close(&b);
    }
}

/* ---- arguments that the function does not use ---- */

/* args: x, z, y, dy */
static mica_status to_second(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_args, (void)n_results;
    results[1] = args[3];
    return MICA_OK;
}

/* args: x, z, y, dx, dz */
static mica_status from_second(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_args, (void)n_results;
    results[0] = args[4];
    return MICA_OK;
}

static mica_status of_second(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    const mica_custom_gradient rule = {.fn = rounded, .vjp = to_second, .jvp = from_second};
    const mica_array in[] = {mica_stop_gradient(s, args[0]),
                             mica_multiply(s, args[0], mica_f32(s, 5))};
    (void)n_args;
    return mica_custom_vjp(s, &rule, user, in, 2, results, n_results);
}

static mica_status checkpoint_of_second(void *user, mica_scope *s, const mica_array *args,
                                        size_t n_args, mica_array *results, size_t n_results) {
    return mica_checkpoint(s, of_second, user, args, n_args, results, n_results);
}

static void test_unused_arguments(void **state) {
    (void)state;
    const mica_compile_fn fns[] = {of_second, checkpoint_of_second};
    for (int i = 0; i < 2; i++) {
        bench b = bench_open();
        mica_array x = vector(b.s, 1.2f, 1.7f, -0.4f), u = vector(b.s, 1, 10, 100), y, g, dy;
        MUST(mica_vjp(b.s, fns[i], NULL, &x, 1, &u, &y, 1, &g));
        EXPECT3(g, 5, 50, 500);
        MUST(mica_jvp(b.s, fns[i], NULL, &x, 1, &u, &y, 1, &dy));
        EXPECT3(dy, 5, 50, 500);
        bench_close(&b);
    }
}

/* A rule without a jvp, whose result nobody needs. */
static mica_status drops_custom(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const mica_custom_gradient rule = {.fn = rounded, .vjp = through};
    MC_TRY(mica_custom_vjp(s, &rule, user, args, n_args, results, n_results));
    return doubled(user, s, args, n_args, results, n_results);
}

static void test_unused_results(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1.2f, 1.7f, -0.4f), u = vector(b.s, 1, 10, 100), y, dy;
    MUST(mica_jvp(b.s, drops_custom, NULL, &x, 1, &u, &y, 1, &dy));
    EXPECT3(dy, 2, 20, 200);
    bench_close(&b);
}

/* ---- arrays that rules give ---- */

static mica_status gives(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                         mica_array *results, size_t n_results) {
    (void)s, (void)args, (void)n_args, (void)n_results;
    results[0] = *(const mica_array *)user;
    return MICA_OK;
}

static void test_arrays_of_another_scope(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_custom_gradient rule = {.fn = rounded, .vjp = gives, .jvp = gives};
    mica_array given, x = vector(b.s, 1, 2, 3), y, g, k;
    mica_scope *other;
    MUST(mica_scope_open(b.device, &other));
    MUST(mica_custom_vjp(b.s, &rule, &given, &x, 1, &y, 1));
    given = vector(other, 4, 5, 6);
    MUST(mica_grad(b.s, y, x, &x, 1, &g));
    assert_ptr_equal(g.scope, b.s);
    mica_scope_close(&other);
    EXPECT3(g, 4, 5, 6);
    given = mica_topk_indices(b.s, x, 2, -1, &k); /* of several results, which is no array */
    given = (mica_array){b.s, mc_node_of(k)->in[0]};
    REFUSED(mica_grad(b.s, y, x, &x, 1, &g), MICA_EINVAL, "several results");
    MUST(mica_scope_open(b.device, &other));
    given = mica_exp(other, vector(other, 4, 5, 6));
    REFUSED(mica_grad(b.s, y, x, &x, 1, &g), MICA_EINVAL, "not evaluated yet");
    mica_scope_close(&other);
    bench_close(&b);
}

/* ---- variables inside of a custom gradient ---- */

static mica_status keeps(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                         mica_array *results, size_t n_results) {
    mica_array *inside = user;
    (void)n_args, (void)n_results;
    *inside = mica_exp(s, args[0]);
    results[0] = mica_log(s, *inside);
    return MICA_OK;
}

static mica_status custom_that_keeps(void *user, mica_scope *s, const mica_array *args,
                                     size_t n_args, mica_array *results, size_t n_results) {
    const mica_custom_gradient rule = {.fn = keeps, .vjp = through};
    return mica_custom_vjp(s, &rule, user, args, n_args, results, n_results);
}

static void test_variables_inside(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), inside, y, g[2];
    for (int i = 0; i < 2; i++) {
        if (i == 0) MUST(custom_that_keeps(&inside, b.s, &x, 1, &y, 1));
        if (i == 1) MUST(mica_checkpoint(b.s, custom_that_keeps, &inside, &x, 1, &y, 1));
        REFUSED(mica_grad(b.s, y, x, &inside, 1, g), MICA_EINVAL, "no gradient of its own");
        MUST(mica_grad(b.s, y, x, (const mica_array[]){x, y}, 2, g)); /* results have one */
        EXPECT3(g[0], 1, 2, 3);
        EXPECT3(g[1], 1, 2, 3);
        MUST(mica_grad(b.s, x, x, &inside, 1, g)); /* which the rule has nothing to do with */
        EXPECT3(g[0], 0, 0, 0);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions_that_meet), cmocka_unit_test(test_unused_arguments),
        cmocka_unit_test(test_unused_results),    cmocka_unit_test(test_arrays_of_another_scope),
        cmocka_unit_test(test_variables_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

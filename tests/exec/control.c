/* Branches and loops on every device: what they compute, what they leave alone, and how they
 * fail. */
#include <mica/mica.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/device.h"
#include "exec/expect.h"
#include "graph/attr.h"
#include "graph/subgraph.h"

enum { N = 6 };
#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

static mica_array numbers(mica_scope *s) {
    static const float x[N] = {1, -2, 3, 0.5f, -4, 8};
    return mica_from_data(s, x, MICA_F32, SHAPE(N));
}

static void expect(mica_array x, const float *want, size_t n) {
    float got[64];
    assert_true(n <= 64);
    must(mica_read(x, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}
#define EXPECT(x, ...) \
    expect(x, (const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

static int64_t item(mica_array x) {
    int64_t value;
    must(mica_item_i64(x, &value));
    return value;
}

/* ---- many ---- */

static mica_status add_one(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], mica_f32(s, 1));
    return MICA_OK;
}

static mica_status leave_it(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_negative(s, x[0]);
    return MICA_OK;
}

/* A chain of branches, each with two subgraphs of two nodes, which take little memory: a small file
 * has room for many. */
static void test_many_small_branches(void **state) {
    (void)state;
    enum { BRANCHES = 600, MAX_BYTES = 4500 };
    mica_scope *s = open_scope();
    mica_array x = numbers(s), pred = mica_scalar(s, 1, MICA_BOOL);
    for (int i = 0; i < BRANCHES; i++) {
        must(mica_if(s, pred, add_one, leave_it, NULL, &x, 1, &x, 1));
        if (i % 100 == 7) x = mica_multiply(s, x, mica_f32(s, 1));
    }
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const mc_node *node = mc_scope_node(s, i);
        if (node->op != MC_OP_IF) continue;
        const mc_attr_if *attr = node->attr;
        assert_in_range(mc_scope_bytes(attr->then_graph.graph->graph), 1, MAX_BYTES);
    }
    EXPECT(x, 601, 598, 603, 600.5f, 596, 608);
    mica_scope_close(&s);
}

/* ---- if ---- */

/* What branches take from around them. */
typedef struct around {
    mica_array a, b;
    int calls;
} around;

static mica_status twice(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                         size_t n_y) {
    around *u = user;
    assert_true(n == 1 && n_y == 2);
    u->calls++;
    y[0] = mica_multiply(s, x[0], mica_f32(s, 2));
    y[1] = mica_add(s, u->a, x[0]);
    return MICA_OK;
}

static mica_status same(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    around *u = user;
    assert_true(n == 1 && n_y == 2);
    u->calls++;
    y[0] = x[0];
    y[1] = mica_multiply(s, u->b, mica_transpose(s, mica_reshape(s, u->a, SHAPE(N, 1)), NULL));
    y[1] = mica_reshape(s, y[1], SHAPE(N));
    return MICA_OK;
}

static void test_one_branch_runs(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        mica_scope *s = open_scope();
        mica_array x = numbers(s), y[2];
        around u = {mica_square(s, x), mica_f32(s, 10), 0};
        mica_array pred =
            mica_greater(s, mica_sum(s, x, NULL, 0, false), mica_f32(s, which == 0 ? 0 : 10));
        must(mica_if(s, pred, twice, same, &u, &x, 1, y, 2));
        assert_int_equal(u.calls, 2);
        mica_array sum = mica_add(s, y[0], y[1]);
        must(mica_eval_n(s, (mica_array[]){sum, y[0], y[1]}, 3));
        if (which == 0) {
            EXPECT(y[0], 2, -4, 6, 1, -8, 16);
            EXPECT(y[1], 2, 2, 12, 0.75f, 12, 72);
            EXPECT(sum, 4, -2, 18, 1.75f, 4, 88);
        } else {
            EXPECT(y[0], 1, -2, 3, 0.5f, -4, 8);
            EXPECT(y[1], 10, 40, 90, 2.5f, 160, 640);
        }
        assert_int_equal(mc_graph_verify(s), MICA_OK);
        mica_scope_close(&s);
    }
}

static mica_status out_of_range(void *user, mica_scope *s, const mica_array *x, size_t n,
                                mica_array *y, size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_take(s, x[0], mica_i32(s, 100), 0);
    return MICA_OK;
}

static mica_status first(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                         size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_take(s, x[0], mica_i32(s, 0), 0);
    return MICA_OK;
}

/* What the other branch would do does not happen; what this one does is named. */
static void test_errors_of_branches(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = numbers(s), y, z;
    must(mica_if(s, mica_scalar(s, 0, MICA_BOOL), out_of_range, first, NULL, &x, 1, &y, 1));
    EXPECT(y, 1);
    must(mica_if(s, mica_scalar(s, 1, MICA_BOOL), out_of_range, first, NULL, &x, 1, &z, 1));
    expect_refused(mica_eval(s, z), MICA_EINVAL, "take");
    EXPECT(y, 1);
    mica_scope_close(&s);
}

/* ---- while ---- */

static mica_status below_limit(void *user, mica_scope *s, const mica_array *x, size_t n,
                               mica_array *y, size_t n_y) {
    (void)n, (void)n_y;
    around *u = user;
    y[0] = mica_less(s, mica_max(s, x[0], NULL, 0, false), u->a);
    return MICA_OK;
}

static mica_status grow(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, mica_multiply(s, x[0], mica_f32(s, 2)), x[1]);
    y[1] = mica_negative(s, x[1]);
    return MICA_OK;
}

static void test_while(void **state) {
    (void)state;
    static const struct {
        float limit;
        int64_t max, rounds;
        float want[3];
    } cases[] = {{100, 0, 4, {117, -27, 53}},
                 {8, 0, 0, {8, -1, 4}},
                 {100, 3, 3, {59, -13, 27}},
                 {100, 20, 4, {117, -27, 53}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_scope *s = open_scope();
        mica_array init[2] = {mica_from_data(s, (float[]){8, -1, 4}, MICA_F32, SHAPE(3)),
                              mica_from_data(s, (float[]){1, 1, 1}, MICA_F32, SHAPE(3))};
        mica_array out[2], rounds;
        around u = {mica_f32(s, cases[i].limit), MICA_NONE, 0};
        const mica_while_options o = {.max_rounds = cases[i].max};
        float want[3] = {8, -1, 4}, step = 1;
        for (int64_t r = 0; r < cases[i].rounds; r++, step = -step)
            for (int k = 0; k < 3; k++)
                want[k] = 2 * want[k] + step;
        must(mica_while(s, below_limit, grow, &u, init, 2, &o, out, &rounds));
        must(mica_eval_n(s, (mica_array[]){rounds, out[0], out[1]}, 3));
        assert_int_equal(item(rounds), cases[i].rounds);
        expect(out[0], want, 3);
        EXPECT(out[1], step, step, step);
        EXPECT(init[0], 8, -1, 4); /* nobody wrote over it */
        mica_scope_close(&s);
    }
}

/* Fibonacci by numbers that trade places, a branch within, and two loops within each other. */
static mica_status count_down(void *user, mica_scope *s, const mica_array *x, size_t n,
                              mica_array *y, size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_greater(s, x[0], mica_i32(s, 0));
    return MICA_OK;
}

static mica_status add_two(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_subtract(s, x[0], mica_i32(s, 1));
    y[1] = x[2];
    y[2] = mica_add(s, x[1], x[2]);
    return MICA_OK;
}

static mica_status fibonacci(void *user, mica_scope *s, const mica_array *x, size_t n,
                             mica_array *y, size_t n_y) {
    (void)n, (void)n_y;
    mica_array init[3] = {x[0], mica_i32(s, 0), mica_i32(s, 1)}, out[3];
    mica_status status = mica_while(s, count_down, add_two, user, init, 3, NULL, out, NULL);
    y[0] = mica_subtract(s, x[0], mica_i32(s, 1));
    y[1] = mica_add(s, x[1], out[1]);
    return status;
}

static void test_loops_nest(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array init[2] = {mica_i32(s, 10), mica_i32(s, 0)}, out[2], rounds;
    must(mica_while(s, count_down, fibonacci, NULL, init, 2, NULL, out, &rounds));
    assert_int_equal(item(out[1]), 143); /* F1 + ... + F10 */
    assert_int_equal(item(rounds), 10);
    mica_scope_close(&s);
}

/* ---- scan ---- */

static mica_status decay(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                         size_t n_y) {
    around *u = user;
    assert_true(n == 2 && n_y == 2);
    y[0] = mica_add(s, mica_multiply(s, x[0], u->a), x[1]);
    y[1] = mica_add(s, y[0], mica_sum(s, u->b, NULL, 0, false));
    return MICA_OK;
}

static void test_scan(void **state) {
    (void)state;
    for (int reverse = 0; reverse < 2; reverse++) {
        mica_scope *s = open_scope();
        const float rows[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
        /* A view whose rows do not lie one after the other. */
        const float columns[2][4] = {{1, 3, 5, 7}, {2, 4, 6, 8}};
        mica_array xs = mica_transpose(s, mica_from_data(s, columns, MICA_F32, SHAPE(2, 4)), NULL);
        mica_array init = mica_from_data(s, (float[]){16, -16}, MICA_F32, SHAPE(2)), carried, ys;
        around u = {mica_f32(s, 0.5f), numbers(s), 0};
        const mica_scan_options o = {.reverse = reverse};
        must(mica_scan(s, decay, &u, &init, 1, &xs, 1, &o, &carried, &ys, 1));
        float c[2] = {16, -16}, want[4][2];
        for (int k = 0; k < 4; k++) {
            int t = reverse ? 3 - k : k;
            for (int i = 0; i < 2; i++) {
                c[i] = c[i] * 0.5f + rows[t][i];
                want[t][i] = c[i] + 6.5f;
            }
        }
        must(mica_eval_n(s, (mica_array[]){carried, ys}, 2));
        expect(carried, c, 2);
        expect(ys, &want[0][0], 8);
        EXPECT(init, 16, -16);
        mica_scope_close(&s);
    }
}

static mica_status give_row(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n_y;
    y[0] = n > 0 ? x[0] : mica_f32(s, 3);
    return MICA_OK;
}

/* Rows that are numbers, no rows, no values that are carried, and a length of its own. */
static mica_status accumulate(void *user, mica_scope *s, const mica_array *x, size_t n,
                              mica_array *y, size_t n_y) {
    (void)user, (void)n;
    y[0] = mica_add(s, x[0], n > 1 ? x[1] : mica_f32(s, 1));
    if (n_y > 1) y[1] = mica_broadcast_to(s, x[0], SHAPE(2));
    return MICA_OK;
}

static void test_scans_of_little(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array xs = numbers(s), zero = mica_f32(s, 0), sum, ys, empty;
    must(mica_scan(s, accumulate, NULL, &zero, 1, &xs, 1, NULL, &sum, &ys, 1));
    EXPECT(sum, 6.5f);
    EXPECT(ys, 0, 0, 1, 1, -1, -1, 2, 2, 2.5f, 2.5f, -1.5f, -1.5f);
    must(mica_scan(s, give_row, NULL, NULL, 0, &xs, 1, &(mica_scan_options){.reverse = true}, NULL,
                   &ys, 1));
    EXPECT(ys, 1, -2, 3, 0.5f, -4, 8);
    must(mica_scan(s, accumulate, NULL, &zero, 1, NULL, 0, &(mica_scan_options){.length = 7}, &sum,
                   NULL, 0));
    EXPECT(sum, 7);
    empty = mica_zeros(s, SHAPE(0, 3), MICA_F32);
    mica_array init = mica_zeros(s, SHAPE(3), MICA_F32);
    must(mica_scan(s, accumulate, NULL, &init, 1, &empty, 1, NULL, &sum, NULL, 0));
    EXPECT(sum, 0, 0, 0);
    must(mica_scan(s, give_row, NULL, NULL, 0, &empty, 1, NULL, NULL, &ys, 1));
    assert_int_equal(mica_array_dim(ys, 0), 0);
    must(mica_eval(s, ys));
    mica_scope_close(&s);
}

/* ---- programs ---- */

static void test_programs(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array params[2] = {mica_program_param(s, MICA_F32, SHAPE(3)),
                            mica_program_param(s, MICA_F32, NULL, 0)};
    around u = {params[1], MICA_NONE, 0};
    mica_array init[2] = {mica_square(s, params[0]), mica_ones(s, SHAPE(3), MICA_F32)}, out[3];
    must(mica_while(s, below_limit, grow, &u, init, 2, NULL, out, &out[2]));
    const mica_param list[2] = {{.name = "x", .array = params[0], .donate = true},
                                {.name = "limit", .array = params[1]}};
    mica_program *program;
    must(mica_program_build(s, list, 2, out, 3, NULL, &program));
    must(mica_program_verify(program));
    mica_scope_close(&s);
    char *text;
    must(mica_program_print(program, &text));
    assert_non_null(strstr(text, " = while f32[3] f32[3] i32[] "));
    assert_non_null(strstr(text, "\n    body: %0 f32[3] %1 f32[3] %2 f32[] -> "));
    mica_free(text);
    for (int i = 0; i < 3; i++) {
        s = open_scope();
        mica_array args[2] = {mica_from_data(s, (float[]){1, 2, 3}, MICA_F32, SHAPE(3)),
                              mica_f32(s, i == 1 ? 5 : 100)};
        must(mica_program_run(program, s, args, out));
        assert_int_equal(item(out[2]), i == 1 ? 0 : 4);
        if (i == 1) EXPECT(out[0], 1, 4, 9);
        if (i != 1) EXPECT(out[0], 21, 69, 149);
        mica_scope_close(&s);
    }
    mica_program_close(&program);
}

/* A running sum over rows, and twice that where it is small: of any length. */
static mica_status is_small(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_less(s, mica_max(s, x[0], NULL, 0, false), mica_f32(s, 50));
    return MICA_OK;
}

static mica_status add_itself(void *user, mica_scope *s, const mica_array *x, size_t n,
                              mica_array *y, size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], x[0]);
    return MICA_OK;
}

static mica_status sum_rows(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    mica_array zero =
        mica_min(s, mica_multiply(s, x[0], mica_f32(s, 0)), (const int[]){0}, 1, false);
    mica_array sum, ys = MICA_NONE;
    mica_status status = mica_scan(s, accumulate, NULL, &zero, 1, x, 1, NULL, &sum, NULL, 0);
    if (status == MICA_OK)
        status = mica_while(s, is_small, add_itself, NULL, &sum, 1, NULL, &ys, NULL);
    y[0] = ys;
    return status;
}

static void test_functions_of_any_length(void **state) {
    (void)state;
    mica_function *f;
    must(mica_compile(device, sum_rows, NULL, &(mica_compile_options){.shapeless = true}, &f));
    for (int64_t rows = 3; rows < 6; rows++) {
        mica_scope *s = open_scope();
        const float values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
        mica_array x = mica_from_data(s, values, MICA_F32, SHAPE(rows, 2)), y;
        must(mica_function_call(f, s, &x, 1, &y, 1));
        if (rows == 3) EXPECT(y, 72, 96);
        if (rows == 4) EXPECT(y, 64, 80);
        if (rows == 5) EXPECT(y, 50, 60);
        mica_scope_close(&s);
    }
    assert_int_equal(mica_function_traces(f), 2);
    mica_function_close(&f);
}

/* Steady state: nothing is allocated. */
static void test_replays_allocate_nothing(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* what another device allocates is its own */
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3)), out[3];
    around u = {mica_f32(s, 1e6f), MICA_NONE, 0};
    mica_array init[2] = {x, mica_ones(s, SHAPE(3), MICA_F32)};
    must(mica_while(s, below_limit, grow, &u, init, 2, NULL, out, &out[2]));
    const mica_param param = {.array = x};
    mica_program *program;
    must(mica_program_build(s, &param, 1, out, 3, NULL, &program));
    x = mica_from_data(s, (float[]){1, 2, 3}, MICA_F32, SHAPE(3));
    for (int i = 0; i < 3; i++) {
        mc_alloc_fail_at(0);
        mica_scope *into = open_scope();
        uint64_t before = mc_alloc_count();
        must(mica_program_run(program, into, &x, out));
        if (i > 0 && mc_alloc_count() - before > 2) /* the scope's nodes */
            fail_msg("%d allocations", (int)(mc_alloc_count() - before));
        mica_scope_close(&into);
    }
    mica_program_close(&program);
    mica_scope_close(&s);
}

/* ---- cancelling ---- */

static mica_status forever(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_equal(s, x[0], x[0]);
    return MICA_OK;
}

static mica_status next(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], mica_i32(s, 1));
    return MICA_OK;
}

static void test_cancelling(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_cancel *cancel;
    mica_array x = mica_i32(s, 0), y;
    must(mica_cancel_open(&cancel));
    must(mica_while(s, forever, next, NULL, &x, 1, NULL, &y, NULL));
    mica_scope_set_cancel(s, cancel);
    must(mica_eval_async(s, &y, 1));
    mica_cancel_set(cancel);
    assert_int_equal(mica_wait(s), MICA_ECANCELLED);
    assert_int_equal(mica_eval(s, y), MICA_ECANCELLED);
    mica_scope_set_cancel(s, NULL);
    mica_scope_close(&s);
    mica_cancel_close(&cancel);
}

/* What is set when a run is asked for ends it, also where it begins later. */
static void test_cancelling_what_is_queued(void **state) {
    (void)state;
    mica_scope *first = open_scope(), *second = open_scope();
    mica_cancel *stop, *cancel;
    mica_array x = mica_i32(first, 0), y;
    must(mica_cancel_open(&stop));
    must(mica_cancel_open(&cancel));
    must(mica_while(first, forever, next, NULL, &x, 1, NULL, &y, NULL));
    mica_scope_set_cancel(first, stop);
    must(mica_eval_async(first, &y, 1));
    const mica_while_options o = {.max_rounds = 100};
    x = mica_i32(second, 0);
    must(mica_while(second, forever, next, NULL, &x, 1, &o, &y, NULL));
    mica_scope_set_cancel(second, cancel);
    must(mica_eval_async(second, &y, 1));
    mica_scope_set_cancel(second, NULL);
    mica_cancel_set(cancel);
    mica_cancel_set(stop);
    assert_int_equal(mica_wait(second), MICA_ECANCELLED);
    assert_int_equal(mica_wait(first), MICA_ECANCELLED);
    mica_scope_close(&first);
    mica_scope_close(&second);
    mica_cancel_close(&stop);
    mica_cancel_close(&cancel);
}

/* ---- refusals ---- */

static mica_status wrong_shape(void *user, mica_scope *s, const mica_array *x, size_t n,
                               mica_array *y, size_t n_y) {
    (void)user, (void)n;
    for (size_t i = 0; i < n_y; i++)
        y[i] = mica_reshape(s, x[0], SHAPE(N, 1));
    return MICA_OK;
}

static mica_status wrong_dtype(void *user, mica_scope *s, const mica_array *x, size_t n,
                               mica_array *y, size_t n_y) {
    (void)user, (void)n;
    for (size_t i = 0; i < n_y; i++)
        y[i] = mica_astype(s, x[0], MICA_F16);
    return MICA_OK;
}

static mica_status refuse(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                          size_t n_y) {
    (void)user, (void)s, (void)x, (void)n, (void)y, (void)n_y;
    return mc_fail(MICA_EUNSUPPORTED, "not today");
}

static mica_status nothing(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)s, (void)x, (void)n, (void)y, (void)n_y;
    return MICA_OK;
}

static mica_status evaluate(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_square(s, x[0]);
    return mica_eval(s, y[0]);
}

static mica_status nest(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    int *left = user;
    y[0] = x[0];
    if ((*left)-- == 0) return MICA_OK;
    const mica_scan_options o = {.length = 2};
    return mica_scan(s, nest, user, x, n, NULL, 0, &o, y, NULL, n_y - 1);
}

static mica_status count_beside(void *user, mica_scope *s, const mica_array *x, size_t n,
                                mica_array *y, size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_subtract(s, x[0], mica_i32(s, 1));
    y[1] = mica_add(s, x[1], x[1]);
    return MICA_OK;
}

/* A refusal leaves the scope as it was. */
static void refused(mica_scope *s, mica_status got, mica_status want, const char *text,
                    mica_array result) {
    expect_refused(got, want, text);
    assert_false(mica_valid(result));
    must(mica_eval(s, mica_add(s, numbers(s), mica_f32(s, 1))));
}

static mica_scope *reopen(mica_scope *s) {
    mica_scope_close(&s);
    return open_scope();
}

static void test_refused_branches(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = numbers(s), pred = mica_scalar(s, 1, MICA_BOOL), y = x;
    refused(s, mica_if(s, pred, wrong_shape, give_row, NULL, &x, 1, &y, 1), MICA_ESHAPE,
            "if: the other branch's result 0 is f32[6], want f32[6,1]", y);
    s = reopen(s);
    x = numbers(s), pred = mica_scalar(s, 1, MICA_BOOL);
    refused(s, mica_if(s, pred, give_row, wrong_dtype, NULL, &x, 1, &y, 1), MICA_EDTYPE,
            "result 0 is f16[6], want f32[6]", y);
    s = reopen(s);
    x = numbers(s);
    refused(s, mica_if(s, x, give_row, give_row, NULL, &x, 1, &y, 1), MICA_EDTYPE,
            "the condition is f32[6], want bool of one element", y);
    s = reopen(s);
    x = numbers(s), pred = mica_greater(s, x, x);
    refused(s, mica_if(s, pred, give_row, give_row, NULL, &x, 1, &y, 1), MICA_ESHAPE,
            "the condition is bool[6]", y);
    s = reopen(s);
    x = numbers(s), pred = mica_scalar(s, 1, MICA_BOOL);
    refused(s, mica_if(s, pred, give_row, refuse, NULL, &x, 1, &y, 1), MICA_EUNSUPPORTED,
            "not today", y);
    refused(s, mica_if(s, pred, give_row, nothing, NULL, &x, 1, &y, 1), MICA_EINVAL, "result 0", y);
    refused(s, mica_if(s, pred, evaluate, give_row, NULL, &x, 1, &y, 1), MICA_EINVAL, "parameter",
            y);
    refused(s, mica_if(s, pred, give_row, NULL, NULL, &x, 1, &y, 1), MICA_EINVAL, "if: NULL", y);
    refused(s, mica_if(s, pred, give_row, give_row, NULL, &x, 1, NULL, 0), MICA_EINVAL, "no result",
            MICA_NONE);
    mica_scope_close(&s);
}

static void test_refused_loops(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = numbers(s), y = x, rounds = x;
    around u = {mica_f32(s, 10), MICA_NONE, 0};
    refused(s, mica_while(s, below_limit, wrong_shape, &u, &x, 1, NULL, &y, &rounds), MICA_ESHAPE,
            "while: the body's result 0 is f32[6,1], want f32[6]", y);
    s = reopen(s);
    x = numbers(s);
    refused(s, mica_while(s, give_row, wrong_dtype, NULL, &x, 1, NULL, &y, NULL), MICA_EDTYPE,
            "the condition is f32[6]", y);
    s = reopen(s);
    x = numbers(s), u.a = mica_f32(s, 10);
    refused(s,
            mica_while(s, below_limit, give_row, &u, &x, 1, &(mica_while_options){.max_rounds = -1},
                       &y, NULL),
            MICA_EINVAL, "max_rounds is -1", y);
    s = reopen(s);
    refused(s, mica_while(s, below_limit, give_row, &u, NULL, 0, NULL, NULL, NULL), MICA_EINVAL,
            "no carried value", MICA_NONE);
    x = numbers(s);
    mica_array xs[2] = {x, mica_zeros(s, SHAPE(5, 2), MICA_F32)};
    refused(s, mica_scan(s, give_row, NULL, NULL, 0, xs, 2, NULL, NULL, &y, 1), MICA_ESHAPE,
            "x 1 is f32[5,2], want 6 rows", y);
    refused(s,
            mica_scan(s, give_row, NULL, NULL, 0, xs, 1, &(mica_scan_options){.length = 4}, NULL,
                      &y, 1),
            MICA_ESHAPE, "x 0 is f32[6], want 4 rows", y);
    refused(s,
            mica_scan(s, give_row, NULL, NULL, 0, xs, 1, &(mica_scan_options){.length = -4}, NULL,
                      &y, 1),
            MICA_EINVAL, "scan: length is -4, must be 0 or more", y);
    refused(s, mica_scan(s, wrong_dtype, NULL, xs, 1, NULL, 0, NULL, &y, NULL, 0), MICA_EDTYPE,
            "the body's result 0 is f16[6], want f32[6]", y);
    mica_scope_close(&s);
}

/* Collects its own scope, or the one that it is given. */
static mica_status collect(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)n, (void)n_y;
    y[0] = mica_square(s, x[0]);
    return mica_scope_collect(user ? user : s, NULL, 0);
}

/* Nodes of a scope stay while a function records into it or within it. */
static void test_collecting_inside(void **state) {
    (void)state;
    static const char text[] = "scope_collect: a function records";
    mica_scope *s = open_scope();
    mica_array x = numbers(s), yes = mica_scalar(s, 1, MICA_BOOL), y;
    for (int outer = 0; outer < 2; outer++) {
        void *user = outer ? s : NULL;
        refused(s, mica_if(s, yes, collect, collect, user, &x, 1, &y, 1), MICA_EINVAL, text, y);
        refused(s, mica_if_each(s, yes, collect, collect, user, &x, 1, &y, 1), MICA_EINVAL, text,
                y);
        refused(s, mica_while(s, collect, collect, user, &x, 1, NULL, &y, NULL), MICA_EINVAL, text,
                y);
        refused(s, mica_scan(s, collect, user, &x, 1, &x, 1, NULL, &y, NULL, 0), MICA_EINVAL, text,
                y);
    }
    must(mica_scope_collect(s, &x, 1)); /* afterwards */
    EXPECT(x, 1, -2, 3, 0.5f, -4, 8);
    mica_scope_close(&s);
}

static void test_nesting_has_an_end(void **state) {
    (void)state;
    const mica_scan_options o = {.length = 2};
    for (int depth = 16; depth <= 17; depth++) {
        mica_scope *s = open_scope();
        int left = depth - 1;
        mica_array x = numbers(s), y;
        mica_status status = mica_scan(s, nest, &left, &x, 1, NULL, 0, &o, &y, NULL, 0);
        if (depth == 16) must(status);
        if (depth == 16) EXPECT(y, 1, -2, 3, 0.5f, -4, 8);
        if (depth == 17) refused(s, status, MICA_EINVAL, "control flow nests more than 16 deep", y);
        mica_scope_close(&s);
    }
}

/* What is carried, and rows, without elements. */
static void test_no_elements(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, SHAPE(0, 2), MICA_F32), y, ys, rounds, i = mica_i32(s, 3);
    mica_array xs = mica_zeros(s, SHAPE(4, 0, 2), MICA_F32), pred = mica_scalar(s, 0, MICA_BOOL);
    must(mica_scan(s, accumulate, NULL, &x, 1, &xs, 1, NULL, &y, NULL, 0));
    must(mica_eval(s, y));
    must(mica_scan(s, give_row, NULL, NULL, 0, &xs, 1, NULL, NULL, &ys, 1));
    must(mica_eval(s, ys));
    must(mica_if(s, pred, give_row, give_row, NULL, &x, 1, &y, 1));
    must(mica_eval(s, y));
    mica_array init[2] = {i, x}, out[2];
    must(mica_while(s, count_down, count_beside, NULL, init, 2, NULL, out, &rounds));
    must(mica_eval(s, out[1]));
    assert_int_equal(item(rounds), 3);
    expect_refused(mica_if_each(s, pred, give_row, give_row, NULL, &x, 1, NULL, 0), MICA_EINVAL,
                   "no result");
    mica_scope_close(&s);
}

/* ---- memory that runs out ---- */

static bool compute(void *arg) {
    (void)arg;
    mica_scope *s = NULL;
    mica_array y[2], out[2], rounds, ys;
    float got[N];
    mica_status status = mica_scope_open(device, &s);
    if (status != MICA_OK) return false;
    mica_array x = numbers(s);
    around u = {mica_square(s, x), mica_f32(s, 10), 0};
    mica_array pred = mica_greater(s, mica_sum(s, x, NULL, 0, false), mica_f32(s, 1));
    status = mica_if(s, pred, twice, same, &u, &x, 1, y, 2);
    u.a = mica_f32(s, 100);
    if (status == MICA_OK) status = mica_while(s, below_limit, grow, &u, y, 2, NULL, out, &rounds);
    if (status == MICA_OK)
        status = mica_scan(s, accumulate, NULL, (mica_array[]){mica_f32(s, 0)}, 1, out, 1, NULL, &x,
                           &ys, 1);
    if (status == MICA_OK) status = mica_read(out[0], got, sizeof got);
    if (status == MICA_OK) status = mica_eval(s, ys);
    mica_scope_close(&s);
    test_forget_plans(device);
    return status == MICA_OK;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    test_fail_each_allocation(compute, NULL);
}

/* ---- threads ---- */

static void *run_often(void *arg) {
    mica_program *program = arg;
    for (int i = 0; i < 50; i++) {
        mica_scope *s = open_scope();
        mica_array x = mica_from_data(s, (float[]){1, 2, 3}, MICA_F32, SHAPE(3)), out[3];
        must(mica_program_run(program, s, &x, out));
        EXPECT(out[0], 43, 75, 107);
        mica_scope_close(&s);
    }
    return NULL;
}

static void test_threads_share_a_program(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3)), out[3];
    around u = {mica_f32(s, 100), MICA_NONE, 0};
    mica_array init[2] = {x, mica_ones(s, SHAPE(3), MICA_F32)};
    must(mica_while(s, below_limit, grow, &u, init, 2, NULL, out, &out[2]));
    const mica_param param = {.array = x};
    mica_program *program;
    must(mica_program_build(s, &param, 1, out, 3, NULL, &program));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, program), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    mica_program_close(&program);
    mica_scope_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_small_branches),
        cmocka_unit_test(test_one_branch_runs),
        cmocka_unit_test(test_errors_of_branches),
        cmocka_unit_test(test_while),
        cmocka_unit_test(test_loops_nest),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scans_of_little),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_functions_of_any_length),
        cmocka_unit_test(test_replays_allocate_nothing),
        cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_cancelling_what_is_queued),
        cmocka_unit_test(test_refused_branches),
        cmocka_unit_test(test_refused_loops),
        cmocka_unit_test(test_collecting_inside),
        cmocka_unit_test(test_nesting_has_an_end),
        cmocka_unit_test(test_no_elements),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_threads_share_a_program),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Goldens of further control flow: ops/loops.json, which tools/make_control_goldens.py makes with
 * JAX. Loops that count, of whole numbers, within scans and around them; scans without rows, of no
 * rows, and in branches. */
#include "op/golden_control.h"

static mica_array next(mica_scope *s, mica_array count) {
    return mica_add(s, count, mica_i32(s, 1));
}

static mica_array times(mica_scope *s, mica_array x, float factor) {
    return mica_multiply(s, x, mica_f32(s, factor));
}

static mica_array largest(mica_scope *s, mica_array x) {
    return mica_max(s, mica_abs(s, x), NULL, 0, false);
}

/* ---- loops ---- */

FUNCTION(is_far) {
    UNUSED;
    mica_array off = mica_subtract(s, mica_square(s, x[0]), golden_in(user, "a"));
    mica_array most = mica_i32(s, (int32_t)golden_int(user, "most", 0));
    y[0] = mica_logical_and(s, mica_greater(s, largest(s, off), mica_f32(s, 1e-3f)),
                            mica_less(s, x[1], most));
    return MICA_OK;
}

FUNCTION(nearer) {
    UNUSED;
    y[0] = times(s, mica_add(s, x[0], mica_divide(s, golden_in(user, "a"), x[0])), 0.5f);
    y[1] = next(s, x[1]);
    return MICA_OK;
}

static bool run_newton(golden *g) {
    mica_array init[2] = {golden_in(g, "a"), mica_i32(g->s, 0)};
    tell(g, mica_while(g->s, is_far, nearer, g, init, 2, NULL, g->out, NULL));
    return true;
}

FUNCTION(is_not_one) {
    UNUSED;
    y[0] = mica_not_equal(s, x[0], mica_i32(s, 1));
    return MICA_OK;
}

FUNCTION(half) {
    UNUSED;
    y[0] = mica_floor_divide(s, x[0], mica_i32(s, 2));
    return MICA_OK;
}

FUNCTION(thrice_and_one) {
    UNUSED;
    y[0] = next(s, mica_multiply(s, x[0], mica_i32(s, 3)));
    return MICA_OK;
}

FUNCTION(collatz) {
    UNUSED;
    mica_array rest = mica_remainder(s, x[0], mica_i32(s, 2));
    mica_array even = mica_equal(s, rest, mica_i32(s, 0));
    mica_status status = mica_if(s, even, half, thrice_and_one, user, x, 1, y, 1);
    y[1] = mica_maximum(s, x[1], y[0]);
    return status;
}

/* The rounds are those that the loop tells. */
static bool run_collatz(golden *g) {
    mica_array init[2] = {golden_in(g, "n"), golden_in(g, "n")};
    tell(g, mica_while(g->s, is_not_one, collatz, g, init, 2, NULL, g->out, &g->out[2]));
    return true;
}

FUNCTION(always) {
    UNUSED;
    y[0] = mica_scalar(s, true, MICA_BOOL);
    return MICA_OK;
}

FUNCTION(powered) {
    UNUSED;
    mica_array z = mica_matmul(s, x[0], golden_in(user, "w"));
    y[0] = mica_divide(s, z, mica_sqrt(s, mica_sum(s, mica_square(s, z), NULL, 0, false)));
    return MICA_OK;
}

static bool run_power(golden *g) {
    mica_array x = golden_in(g, "x"), y = MICA_NONE;
    const mica_while_options o = {.max_rounds = golden_int(g, "rounds", 0)};
    tell(g, mica_while(g->s, always, powered, g, &x, 1, &o, &y, NULL));
    return golden_differentiate(g, y, 5e-5);
}

/* ---- loops in scans, and scans in loops ---- */

FUNCTION(is_large) {
    UNUSED;
    y[0] = mica_greater(s, largest(s, x[0]), mica_f32(s, 1));
    return MICA_OK;
}

FUNCTION(halve) {
    UNUSED;
    y[0] = times(s, x[0], 0.5f);
    y[1] = next(s, x[1]);
    return MICA_OK;
}

FUNCTION(add_and_halve) {
    UNUSED;
    mica_array init[2] = {mica_add(s, x[0], x[1]), mica_i32(s, 0)}, out[2];
    mica_status status = mica_while(s, is_large, halve, user, init, 2, NULL, out, NULL);
    y[0] = out[0];
    y[1] = mica_sum(s, out[0], NULL, 0, false);
    y[2] = out[1];
    return status;
}

static bool run_halving(golden *g) {
    mica_array h = golden_in(g, "h"), xs = golden_in(g, "xs");
    tell(g, mica_scan(g->s, add_and_halve, g, &h, 1, &xs, 1, NULL, g->out, &g->out[1], 2));
    return true;
}

FUNCTION(is_not_settled) {
    UNUSED;
    mica_array size = mica_sum(s, mica_abs(s, x[0]), NULL, 0, false);
    y[0] = mica_greater(s, size, mica_f32(s, 1));
    return MICA_OK;
}

FUNCTION(fade) {
    UNUSED;
    y[0] = mica_add(s, times(s, x[0], 0.7f), times(s, mica_sin(s, x[1]), 0.1f));
    return MICA_OK;
}

FUNCTION(fade_by_rows) {
    UNUSED;
    mica_array w = golden_in(user, "w");
    y[1] = next(s, x[1]);
    return mica_scan(s, fade, user, x, 1, &w, 1, NULL, y, NULL, 0);
}

static bool run_settling(golden *g) {
    mica_array init[2] = {golden_in(g, "x"), mica_i32(g->s, 0)};
    tell(g, mica_while(g->s, is_not_settled, fade_by_rows, g, init, 2, NULL, g->out, NULL));
    return true;
}

/* ---- scans ---- */

FUNCTION(grow_and_die) {
    UNUSED;
    mica_array rest = mica_subtract(s, mica_f32(s, 1), x[0]);
    y[0] = y[1] = mica_multiply(s, mica_multiply(s, golden_in(user, "r"), x[0]), rest);
    return MICA_OK;
}

static bool run_logistic(golden *g) {
    mica_array x = golden_in(g, "x"), y[2] = {MICA_NONE, MICA_NONE};
    const mica_scan_options o = {.length = golden_int(g, "length", 0)};
    tell(g, mica_scan(g->s, grow_and_die, g, &x, 1, NULL, 0, &o, &y[0], &y[1], 1));
    return golden_differentiate(g, flat(g->s, y, 2), 2e-5);
}

FUNCTION(descend) {
    UNUSED;
    y[1] = mica_add(s, times(s, x[1], 0.9f), mica_multiply(s, x[2], x[0]));
    y[0] = y[2] = mica_subtract(s, x[0], times(s, y[1], 0.1f));
    y[3] = mica_square(s, y[1]);
    return MICA_OK;
}

static bool run_momentum(golden *g) {
    mica_array init[2] = {golden_in(g, "p"), golden_in(g, "v")}, gs = golden_in(g, "gs");
    mica_array y[4] = {MICA_NONE, MICA_NONE, MICA_NONE, MICA_NONE};
    const mica_scan_options o = {.reverse = golden_bool(g, "reverse", false)};
    tell(g, mica_scan(g->s, descend, g, init, 2, &gs, 1, &o, y, &y[2], 2));
    return golden_differentiate(g, flat(g->s, y, 4), 2e-5);
}

FUNCTION(multiply_row) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], x[1]);
    y[1] = mica_add(s, x[0], x[1]);
    return MICA_OK;
}

FUNCTION(largest_row) {
    UNUSED;
    y[0] = mica_maximum(s, x[0], x[1]);
    y[1] = mica_multiply(s, x[0], x[1]);
    return MICA_OK;
}

static mica_status scan_rows(mica_scope *s, mica_compile_fn body, void *user, mica_array x,
                             mica_array *ys) {
    const int64_t row = mica_array_dim(x, 1);
    mica_array first = mica_reshape(s, mica_slice_axis(s, x, 0, 0, 1), &row, 1), last;
    return mica_scan(s, body, user, &first, 1, &x, 1, NULL, &last, ys, 1);
}

FUNCTION(products) {
    UNUSED;
    return scan_rows(s, multiply_row, user, x[0], y);
}

FUNCTION(maxima) {
    UNUSED;
    return scan_rows(s, largest_row, user, x[0], y);
}

static bool run_branch_of_scans(golden *g) {
    mica_array x = golden_in(g, "x"), y = MICA_NONE;
    mica_array pred = mica_scalar(g->s, golden_bool(g, "pred", false), MICA_BOOL);
    tell(g, mica_if(g->s, pred, products, maxima, g, &x, 1, &y, 1));
    return golden_differentiate(g, y, 2e-5);
}

FUNCTION(count) {
    UNUSED;
    mica_array positive = mica_greater(s, x[2], mica_i32(s, 0));
    y[0] = mica_add(s, x[0], mica_where(s, positive, x[2], mica_i32(s, 0)));
    y[1] = mica_maximum(s, x[1], x[2]);
    y[2] = mica_subtract(s, mica_multiply(s, y[0], mica_i32(s, 2)), x[2]);
    return MICA_OK;
}

static bool run_counting(golden *g) {
    const int64_t two = 2;
    mica_array xs = golden_in(g, "xs"), zero = mica_zeros(g->s, &two, 1, MICA_I32);
    mica_array init[2] = {zero, mica_subtract(g->s, zero, mica_i32(g->s, 100))};
    tell(g, mica_scan(g->s, count, g, init, 2, &xs, 1, NULL, g->out, &g->out[2], 1));
    return true;
}

static const golden_row rows[] = {
    {.op = "newton", .run = run_newton},     {.op = "collatz", .run = run_collatz},
    {.op = "power", .run = run_power},       {.op = "halving", .run = run_halving},
    {.op = "settling", .run = run_settling}, {.op = "logistic", .run = run_logistic},
    {.op = "momentum", .run = run_momentum}, {.op = "branch_of_scans", .run = run_branch_of_scans},
    {.op = "counting", .run = run_counting},
};

const golden_group golden_loops = {"loops", rows, sizeof rows / sizeof *rows, NULL};

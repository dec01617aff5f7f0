/* Goldens of control flow and its gradients: ops/control.json, which tools/make_control_goldens.py
 * makes with JAX. */
#include "op/golden_control.h"

static mica_array truth(golden *g, const char *key) {
    return mica_scalar(g->s, golden_bool(g, key, false), MICA_BOOL);
}

/* ---- if ---- */

FUNCTION(cond_then) {
    UNUSED;
    y[0] = mica_tanh(s, mica_matmul(s, x[0], x[1]));
    y[1] = mica_sum(s, mica_multiply(s, x[0], golden_in(user, "b")), (const int[]){0}, 1, false);
    y[1] = mica_broadcast_to(s, y[1], mica_array_shape(x[0]), 2);
    return MICA_OK;
}

FUNCTION(cond_else) {
    UNUSED;
    const golden *g = user;
    y[0] = mica_multiply(s, mica_matmul(s, x[0], golden_in(g, "w")), mica_f32(s, 0.5f));
    y[1] = mica_exp(s, golden_in(g, "b"));
    return MICA_OK;
}

static bool run_if(golden *g) {
    mica_array args[] = {golden_in(g, "x"), golden_in(g, "w")}, y[2] = {MICA_NONE, MICA_NONE};
    tell(g, mica_if(g->s, truth(g, "pred"), cond_then, cond_else, g, args, 2, y, 2));
    return golden_differentiate(g, flat(g->s, y, 2), 2e-5);
}

FUNCTION(sine) {
    UNUSED;
    y[0] = mica_sin(s, mica_matmul(s, x[0], x[1]));
    return MICA_OK;
}

FUNCTION(doubled) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], mica_f32(s, 2));
    return MICA_OK;
}

FUNCTION(inner) {
    return mica_if(s, x[2], sine, doubled, user, x, n_x, y, n_y);
}

FUNCTION(squared) {
    UNUSED;
    y[0] = mica_matmul(s, mica_matmul(s, x[0], x[1]), x[1]);
    return MICA_OK;
}

static bool run_if_nested(golden *g) {
    mica_array args[] = {golden_in(g, "x"), golden_in(g, "w"), truth(g, "b")}, y = MICA_NONE;
    tell(g, mica_if(g->s, truth(g, "a"), inner, squared, g, args, 3, &y, 1));
    return golden_differentiate(g, y, 2e-5);
}

/* ---- scan ---- */

FUNCTION(recur) {
    UNUSED;
    const golden *g = user;
    mica_array h =
        mica_matmul(s, mica_reshape(s, x[0], (const int64_t[]){1, 3}, 2), golden_in(g, "u"));
    mica_array in =
        mica_matmul(s, mica_reshape(s, x[1], (const int64_t[]){1, 2}, 2), golden_in(g, "w"));
    y[0] = mica_tanh(s, mica_reshape(s, mica_add(s, h, in), (const int64_t[]){3}, 1));
    y[1] = mica_square(s, y[0]);
    return MICA_OK;
}

static bool run_scan(golden *g) {
    mica_array h = golden_in(g, "h"), xs = golden_in(g, "xs"), y[2] = {MICA_NONE, MICA_NONE};
    const mica_scan_options o = {.reverse = golden_bool(g, "reverse", false),
                                 .checkpoints = golden_int(g, "checkpoints", 0)};
    tell(g, mica_scan(g->s, recur, g, &h, 1, &xs, 1, &o, &y[0], &y[1], 1));
    return golden_differentiate(g, flat(g->s, y, 2), 2e-5);
}

FUNCTION(mix) {
    UNUSED;
    y[0] = mica_add(s, mica_matmul(s, x[0], golden_in(user, "w")), x[1]);
    return MICA_OK;
}

FUNCTION(scale) {
    UNUSED;
    y[0] = mica_multiply(s, x[0], x[1]);
    return MICA_OK;
}

FUNCTION(count_and_branch) {
    UNUSED;
    mica_array third = mica_equal(s, mica_remainder(s, x[0], mica_i32(s, 3)), mica_i32(s, 0));
    mica_status status = mica_if(s, third, mix, scale, user, x + 1, 2, &y[1], 1);
    y[0] = mica_add(s, x[0], mica_i32(s, 1));
    y[2] = mica_sin(s, y[1]);
    return status;
}

static bool run_scan_branch(golden *g) {
    mica_array init[2] = {mica_i32(g->s, 0), golden_in(g, "h")}, xs = golden_in(g, "xs");
    mica_array y[3] = {MICA_NONE, MICA_NONE, MICA_NONE};
    tell(g, mica_scan(g->s, count_and_branch, g, init, 2, &xs, 1, NULL, y, &y[2], 1));
    return golden_differentiate(g, flat(g->s, &y[1], 2), 2e-5);
}

FUNCTION(element) {
    UNUSED;
    y[0] = y[1] = mica_tanh(s, mica_add(s, mica_multiply(s, x[0], golden_in(user, "w")), x[1]));
    return MICA_OK;
}

FUNCTION(row) {
    UNUSED;
    mica_array ys;
    mica_status status = mica_scan(s, element, user, x, 1, x + 1, 1, NULL, y, &ys, 1);
    y[1] = mica_sum(s, ys, NULL, 0, false);
    return status;
}

static bool run_scan_nested(golden *g) {
    mica_array zero = mica_f32(g->s, 0), xs = golden_in(g, "xs"), y[2] = {MICA_NONE, MICA_NONE};
    tell(g, mica_scan(g->s, row, g, &zero, 1, &xs, 1, NULL, &y[0], &y[1], 1));
    return golden_differentiate(g, flat(g->s, y, 2), 2e-5);
}

/* ---- while ---- */

static mica_array peak(mica_scope *s, mica_array x) {
    return mica_max(s, mica_abs(s, x), NULL, 0, false);
}

FUNCTION(below_limit) {
    UNUSED;
    y[0] = mica_less(s, peak(s, x[0]), mica_f32(s, (float)golden_float(user, "limit", 0)));
    return MICA_OK;
}

FUNCTION(grow) {
    UNUSED;
    y[0] = mica_add(s, mica_sinh(s, mica_matmul(s, x[0], golden_in(user, "w"))), x[0]);
    return MICA_OK;
}

static bool run_while(golden *g) {
    mica_array x = golden_in(g, "x"), y = MICA_NONE;
    const mica_while_options o = {.max_rounds = golden_int(g, "rounds", 0)};
    tell(g, mica_while(g->s, below_limit, grow, g, &x, 1, &o, &y, NULL));
    return golden_differentiate(g, y, 5e-5);
}

FUNCTION(below_fifty) {
    UNUSED;
    y[0] = mica_less(s, peak(s, x[0]), mica_f32(s, 50));
    return MICA_OK;
}

FUNCTION(spread) {
    UNUSED;
    mica_array more = mica_multiply(s, x[0], mica_f32(s, 1.5f));
    y[0] = mica_add(s, mica_matmul(s, x[0], golden_in(user, "w")), more);
    return MICA_OK;
}

FUNCTION(loop) {
    UNUSED;
    return mica_while(s, below_fifty, spread, user, x, n_x, NULL, y, NULL);
}

/* A loop without a bound, forward. */
static bool run_while_forward(golden *g) {
    mica_array x = golden_in(g, "x"), u = golden_in(g, "u");
    tell(g, mica_jvp(g->s, loop, g, &x, 1, &u, &g->out[0], 1, &g->out[1]));
    g->by_row = true;
    g->relative = 5e-5;
    return true;
}

static const golden_row rows[] = {
    {.op = "if", .run = run_if},
    {.op = "if_nested", .run = run_if_nested},
    {.op = "scan", .run = run_scan},
    {.op = "scan_branch", .run = run_scan_branch},
    {.op = "scan_nested", .run = run_scan_nested},
    {.op = "while", .run = run_while},
    {.op = "while_forward", .run = run_while_forward},
};

const golden_group golden_control = {"control", rows, sizeof rows / sizeof *rows, NULL};

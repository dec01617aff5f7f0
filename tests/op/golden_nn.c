/* Goldens of mica/nn.h: ops/nn.json, which tools/make_nn_goldens.py makes. */
#include <string.h>

#include "op/golden.h"

/* The result, and the gradients, if the record has them. */
static bool finish(golden *g, mica_array y, double relative) {
    if (golden_in(g, "dy").scope) return golden_differentiate(g, y, relative);
    g->out[0] = y;
    g->by_row = true;
    g->relative = relative;
    return true;
}

static mica_array x_of(const golden *g) {
    return golden_in(g, "x");
}

/* ---- activations ---- */

static bool run_activation(golden *g) {
    static const struct {
        const char *name;
        mica_array (*f)(mica_scope *s, mica_array x);
    } kinds[] = {{"relu2", mica_relu2},       {"softplus", mica_softplus},
                 {"mish", mica_mish},         {"log_sigmoid", mica_log_sigmoid},
                 {"softsign", mica_softsign}, {"gelu_fast_approx", mica_gelu_fast_approx}};
    char kind[64];
    size_t i = 0;
    if (!golden_text(g, "kind", kind)) return false;
    while (strcmp(kinds[i].name, kind) != 0)
        assert_true(++i < sizeof kinds / sizeof *kinds);
    finish(g, kinds[i].f(g->s, x_of(g)), 1e-5);
    g->by_row = false;
    return true;
}

static bool run_elu(golden *g) {
    return finish(g, mica_elu(g->s, x_of(g), (float)golden_float(g, "alpha", 1)), 1e-6);
}

static bool run_leaky_relu(golden *g) {
    return finish(g, mica_leaky_relu(g->s, x_of(g), (float)golden_float(g, "slope", 0)), 1e-6);
}

/* ---- norms ---- */

static bool run_rms_norm_axis(golden *g) {
    int axis = (int)golden_int(g, "axis", 0);
    return finish(g, mica_rms_norm_axis(g->s, x_of(g), golden_in(g, "weight"), axis, 1e-5f), 1e-5);
}

static bool run_layer_norm_axis(golden *g) {
    mica_array w = golden_in(g, "weight"), b = golden_in(g, "bias");
    int axis = (int)golden_int(g, "axis", 0);
    return finish(g, mica_layer_norm_axis(g->s, x_of(g), w, b, axis, 1e-5f), 1e-5);
}

static bool run_group_norm(golden *g) {
    mica_array w = golden_in(g, "weight"), b = golden_in(g, "bias");
    return finish(g, mica_group_norm(g->s, x_of(g), w, b, golden_int(g, "groups", 1), 1e-5f), 2e-5);
}

/* ---- positions ---- */

static bool run_rope_tables(golden *g) {
    return finish(g, mica_rope_tables(g->s, x_of(g), golden_in(g, "cos"), golden_in(g, "sin")),
                  1e-5);
}

static bool run_axial_rope2d(golden *g) {
    return finish(g,
                  mica_axial_rope2d(g->s, x_of(g), golden_int(g, "height", 0),
                                    golden_int(g, "width", 0), NULL),
                  1e-5);
}

static bool run_resize_nearest2x(golden *g) {
    return finish(g, mica_resize_nearest2x(g->s, x_of(g)), 1e-6);
}

/* ---- recurrences ---- */

/* Two results, and the gradients of sum(y * dy) + sum(last * dlast) by all inputs but these. */
static bool finish_two(golden *g, mica_array y, mica_array last, double relative) {
    mica_scope *s = g->s;
    mica_array dy = golden_in(g, "dy"), dlast = golden_in(g, "dlast");
    mica_array sum = mica_sum(s, mica_multiply(s, y, dy), NULL, 0, false);
    sum = mica_add(s, sum, mica_sum(s, mica_multiply(s, last, dlast), NULL, 0, false));
    g->out[0] = y;
    g->out[1] = last;
    if (mica_grad(s, sum, MICA_NONE, g->in, (size_t)g->n_in - 2, g->out + 2) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    g->by_row = true;
    g->relative = relative;
    g->absolute = 2e-5;
    return true;
}

static bool run_selective_scan(golden *g) {
    const mica_selective_scan_options o = {.delta_softplus = golden_bool(g, "softplus", false),
                                           .d = golden_in(g, "d"),
                                           .z = golden_in(g, "z"),
                                           .initial = golden_in(g, "initial")};
    mica_array last;
    mica_array y = mica_selective_scan(g->s, x_of(g), golden_in(g, "delta"), golden_in(g, "a"),
                                       golden_in(g, "b"), golden_in(g, "c"), &o, &last);
    return finish_two(g, y, last, 2e-5);
}

static bool run_gated_delta(golden *g) {
    mica_array last;
    mica_array y =
        mica_gated_delta(g->s, golden_in(g, "q"), golden_in(g, "k"), golden_in(g, "v"),
                         golden_in(g, "g"), golden_in(g, "beta"), golden_in(g, "state"), &last);
    return finish_two(g, y, last, 5e-5);
}

static bool run_kv_write(golden *g) {
    return finish(g, mica_kv_write(g->s, golden_in(g, "pool"), x_of(g), golden_in(g, "slots")), 0);
}

static bool run_paged_sdpa(golden *g) {
    const mica_sdpa_options o = {
        .causal = true, .window = golden_int(g, "window", 0), .offset = golden_in(g, "offset")};
    mica_array y = mica_paged_sdpa(g->s, golden_in(g, "q"), golden_in(g, "k"), golden_in(g, "v"),
                                   golden_in(g, "table"), &o);
    return finish(g, y, 1e-5);
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(activation),       ROW(elu),
    ROW(leaky_relu),       ROW(rms_norm_axis),
    ROW(layer_norm_axis),  ROW(group_norm),
    ROW(rope_tables),      ROW(axial_rope2d),
    ROW(resize_nearest2x), ROW(selective_scan),
    ROW(gated_delta),      ROW(kv_write),
    ROW(paged_sdpa),
};

const golden_group golden_nn = {"nn", rows, sizeof rows / sizeof *rows, NULL};

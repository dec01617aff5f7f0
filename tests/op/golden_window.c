/* Goldens of pools and of reduce_window, and of their gradients: ops/window.json and ops/pool.json,
 * which tools/make_window_goldens.py and tools/make_pool_goldens.py make. Outputs are the result
 * and, with dy, the gradient of sum(result * dy). */
#include <mica/signal.h>

#include <string.h>

#include "op/golden.h"

static mica_window_kind kind_of(const golden *g) {
    static const char *const names[] = {"max", "min", "sum", "prod", "mean"};
    char text[64];
    assert_true(golden_text(g, "kind", text));
    for (int i = 0; i < 5; i++)
        if (!strcmp(text, names[i])) return (mica_window_kind)i;
    fail_msg("%s: kind %s", g->name, text);
    return MICA_WINDOW_MAX;
}

static bool finish(golden *g, mica_array y) {
    mica_array x = golden_in(g, "x");
    g->out[0] = y;
    g->by_row = true;
    if (g->n_out > 1 && mica_grad(g->s, y, golden_in(g, "dy"), &x, 1, &g->out[1]) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    return true;
}

static bool run_pool(golden *g) {
    mica_pool_options o = {.exclude_padding = golden_bool(g, "exclude_padding", false),
                           .ceil = golden_bool(g, "ceil", false)};
    golden_ints(g, "kernel", o.kernel, 3);
    golden_ints(g, "stride", o.stride, 3);
    golden_ints(g, "padding_lo", o.padding_lo, 3);
    golden_ints(g, "padding_hi", o.padding_hi, 3);
    golden_ints(g, "dilation", o.dilation, 3);
    mica_array x = golden_in(g, "x");
    mica_channels layout = golden_bool(g, "last", false) ? MICA_CHANNELS_LAST : MICA_CHANNELS_FIRST;
    int axes = mica_array_ndim(x) - 2;
    finish(g, mica_pool(g->s, x, axes, kind_of(g), layout, &o));
    if (g->n_out < 2) return true;
    mica_array dy = golden_in(g, "dy");
    return golden_is_also(g, 1, mica_pool_backward(g->s, x, dy, axes, kind_of(g), layout, &o));
}

static bool run_reduce_window(golden *g) {
    mica_window_options o = {.ceil = false};
    golden_ints(g, "window", o.window, MICA_MAX_NDIM);
    golden_ints(g, "stride", o.stride, MICA_MAX_NDIM);
    golden_ints(g, "dilation", o.dilation, MICA_MAX_NDIM);
    golden_ints(g, "base_dilation", o.base_dilation, MICA_MAX_NDIM);
    golden_ints(g, "padding_lo", o.padding_lo, MICA_MAX_NDIM);
    golden_ints(g, "padding_hi", o.padding_hi, MICA_MAX_NDIM);
    return finish(g, mica_reduce_window(g->s, golden_in(g, "x"), kind_of(g), &o));
}

static const golden_row rows[] = {
    {.op = "pool", .run = run_pool},
    {.op = "reduce_window", .run = run_reduce_window},
};

const golden_group golden_window = {"window", rows, sizeof rows / sizeof *rows, NULL};
const golden_group golden_pool = {"pool", rows, 1, NULL};

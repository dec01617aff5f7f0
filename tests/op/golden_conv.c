/* Goldens of convolutions and their gradients: ops/conv.json, which tools/make_conv_goldens.py
 * makes. Channels are first. Outputs are the result and the gradients of sum(result * dy) by x and
 * w. */
#include <math.h>
#include <string.h>

#include <mica/signal.h>

#include "op/golden.h"

/* The tolerance of f32 for sums of n products. */
static void allow_terms(golden *g, int64_t n) {
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)n);
    g->absolute = 1e-5;
}

static void differentiate(golden *g, mica_array y, const mica_array xs[2]) {
    g->out[0] = y;
    allow_terms(g, mica_array_size(xs[1]) + mica_array_size(y));
    if (mica_grad(g->s, y, golden_in(g, "dy"), xs, 2, g->out + 1) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
}

static bool run_conv(golden *g) {
    typedef mica_array (*conv)(mica_scope *, mica_array, mica_array, mica_channels,
                               const mica_conv_options *);
    static const conv by_axes[] = {mica_conv1d, mica_conv2d, mica_conv3d};
    mica_conv_options o = {.groups = golden_int(g, "groups", 1)};
    golden_ints(g, "stride", o.stride, 3);
    golden_ints(g, "padding", o.padding_lo, 3);
    golden_ints(g, "padding", o.padding_hi, 3);
    golden_ints(g, "dilation", o.kernel_dilation, 3);
    const mica_array xs[2] = {golden_in(g, "x"), golden_in(g, "w")};
    int axes = mica_array_ndim(xs[0]) - 2;
    differentiate(g, by_axes[axes - 1](g->s, xs[0], xs[1], MICA_CHANNELS_FIRST, &o), xs);
    mica_array dx, dw;
    if (mica_conv_backward(g->s, xs[0], xs[1], golden_in(g, "dy"), MICA_CHANNELS_FIRST, &o, &dx,
                           &dw) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    return golden_is_also(g, 1, dx) && golden_is_also(g, 2, dw);
}

static bool run_conv_transpose(golden *g) {
    typedef mica_array (*conv)(mica_scope *, mica_array, mica_array, mica_channels,
                               const mica_conv_transpose_options *);
    static const conv by_axes[] = {mica_conv_transpose1d, mica_conv_transpose2d,
                                   mica_conv_transpose3d};
    mica_conv_transpose_options o = {.groups = golden_int(g, "groups", 1)};
    golden_ints(g, "stride", o.stride, 3);
    golden_ints(g, "padding", o.padding, 3);
    golden_ints(g, "output_padding", o.output_padding, 3);
    golden_ints(g, "dilation", o.dilation, 3);
    const mica_array xs[2] = {golden_in(g, "x"), golden_in(g, "w")};
    int axes = mica_array_ndim(xs[0]) - 2;
    differentiate(g, by_axes[axes - 1](g->s, xs[0], xs[1], MICA_CHANNELS_FIRST, &o), xs);
    return true;
}

static const golden_row rows[] = {
    {.op = "conv", .run = run_conv},
    {.op = "conv_transpose", .run = run_conv_transpose},
};

const golden_group golden_conv = {"conv", rows, sizeof rows / sizeof *rows, NULL};

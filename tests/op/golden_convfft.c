/* Goldens of convolutions in MLX's layout, and of its transforms. */
#include <math.h>

#include <mica/signal.h>

#include "op/golden_complex.h"

/* A number for each axis, or one for all. */
static void numbers(const golden *g, const char *key, int64_t out[MICA_MAX_SPATIAL]) {
    if (golden_ints(g, key, out, MICA_MAX_SPATIAL) == 1) out[1] = out[2] = out[0];
}

static void allow_terms(golden *g, mica_array w) {
    int64_t n = mica_array_size(w) / (mica_array_dim(w, 0) > 0 ? mica_array_dim(w, 0) : 1);
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)n);
}

static bool run_conv(golden *g) {
    mica_conv_options o = {.groups = golden_int(g, "groups", 1)};
    numbers(g, "stride", o.stride);
    numbers(g, "padding", o.padding_lo);
    numbers(g, "padding", o.padding_hi);
    numbers(g, "dilation", o.kernel_dilation);
    mica_array w = golden_in(g, "w");
    allow_terms(g, w);
    g->out[0] = mica_conv_general(g->s, golden_in(g, "x"), w, &o);
    return true;
}

/* The record's padding is a list of numbers before x and one of numbers after it. */
static bool run_conv_general(golden *g) {
    mica_conv_options o = {.flip = golden_bool(g, "flip", false)};
    numbers(g, "stride", o.stride);
    numbers(g, "kernel_dilation", o.kernel_dilation);
    numbers(g, "input_dilation", o.input_dilation);
    int64_t *const sides[] = {o.padding_lo, o.padding_hi};
    int side = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(g->args, "padding")); mc_json_next(&it);) {
        int axis = 0;
        for (mc_json_iter at = mc_json_begin(it.value); mc_json_next(&at);)
            assert_true(side < 2 && axis < 3 && mc_json_get_int(at.value, &sides[side][axis++]));
        side++;
    }
    mica_array w = golden_in(g, "w");
    allow_terms(g, w);
    g->out[0] = mica_conv_general(g->s, golden_in(g, "x"), w, &o);
    return true;
}

static bool run_conv_transpose(golden *g) {
    typedef mica_array (*transpose)(mica_scope *, mica_array, mica_array, mica_channels,
                                    const mica_conv_transpose_options *);
    static const transpose by_axes[] = {mica_conv_transpose1d, mica_conv_transpose2d,
                                        mica_conv_transpose3d};
    mica_conv_transpose_options o = {.groups = 1};
    numbers(g, "stride", o.stride);
    numbers(g, "padding", o.padding);
    numbers(g, "dilation", o.dilation);
    mica_array x = golden_in(g, "x"), w = golden_in(g, "w");
    allow_terms(g, w);
    g->out[0] = by_axes[mica_array_ndim(x) - 3](g->s, x, w, MICA_CHANNELS_LAST, &o);
    return true;
}

static mica_array spectrum_of(golden *g) {
    mica_array x = golden_in(g, "X");
    if (!mica_valid(x)) x = golden_in(g, "x");
    golden_allow_points(g, mica_array_size(x));
    return x;
}

#define TRANSFORM(name)                                                                \
    static bool run_##name(golden *g) {                                                \
        mica_array y = mica_##name(g->s, spectrum_of(g), golden_int(g, "n", 0),        \
                                   (int)golden_int(g, "axis", -1), MICA_FFT_BACKWARD); \
        g->out[0] = y;                                                                 \
        return true;                                                                   \
    }
#define SEVERAL(name, ...)                                                         \
    static bool run_##name(golden *g) {                                            \
        mica_array y = mica_##name(g->s, spectrum_of(g), NULL, NULL, __VA_ARGS__); \
        g->out[0] = y;                                                             \
        return true;                                                               \
    }
TRANSFORM(fft)
TRANSFORM(ifft)
TRANSFORM(rfft)
TRANSFORM(irfft)
SEVERAL(fft2, MICA_FFT_BACKWARD)
SEVERAL(ifft2, MICA_FFT_BACKWARD)
SEVERAL(rfft2, MICA_FFT_BACKWARD)
SEVERAL(irfft2, MICA_FFT_BACKWARD)
SEVERAL(fftn, 0, MICA_FFT_BACKWARD)

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(fft),
    ROW(ifft),
    ROW(rfft),
    ROW(irfft),
    ROW(fft2),
    ROW(ifft2),
    ROW(rfft2),
    ROW(irfft2),
    ROW(fftn),
    {.op = "conv1d", .run = run_conv},
    {.op = "conv2d", .run = run_conv},
    {.op = "conv3d", .run = run_conv},
    {.op = "conv_general", .run = run_conv_general},
    {.op = "conv_transpose1d", .run = run_conv_transpose},
    {.op = "conv_transpose2d", .run = run_conv_transpose},
    {.op = "conv_transpose3d", .run = run_conv_transpose},
};

const golden_group golden_convfft = {"convfft", rows, sizeof rows / sizeof *rows, NULL};

#include "onnx/window.h"

#include "graph/dim.h"

mica_status mc_onnx_read_list(const mc_onnx_node *n, const char *name, int want, int64_t otherwise,
                              int64_t *list) {
    int count;
    MC_TRY(mc_onnx_ints(n, name, want, list, &count));
    if (count >= 0 && count != want) return mc_fail(MICA_EFORMAT, "%s has %d numbers", name, count);
    for (int i = 0; i < want; i++) {
        if (count < 0) list[i] = otherwise;
        if (list[i] < -INT32_MAX || list[i] > INT32_MAX)
            return mc_fail(MICA_EFORMAT, "%s is out of range", name);
    }
    return MICA_OK;
}

/* Padding such that a result is as long as the operand over the stride. */
static void pad_same(mc_onnx_window *w, int i, int64_t length, bool upper) {
    int64_t last = mc_dim_sub(mc_dim_div_up(length, w->stride[i]), 1);
    int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t total = mc_dim_sub(mc_dim_add(mc_dim_mul(last, w->stride[i]), reach), length);
    total = reach == 1 ? 0 : mc_dim_compute(MC_DIM_MAX, total, 0);
    int64_t half = mc_dim_div(total, 2);
    w->lo[i] = upper ? half : mc_dim_sub(total, half);
    w->hi[i] = mc_dim_sub(total, w->lo[i]);
}

mica_status mc_onnx_read_window(const mc_onnx_node *n, const int64_t *kernel, mc_onnx_window *w) {
    mica_array x = n->in[0].x;
    int64_t pads[2 * MICA_MAX_SPATIAL];
    mc_str how = mc_onnx_text(n, "auto_pad", "NOTSET");
    w->spatial = mica_array_ndim(x) - 2;
    if (w->spatial < 1 || w->spatial > MICA_MAX_SPATIAL)
        return mc_fail(MICA_EUNSUPPORTED, "its operand has %d axes; mica has 3 to %d of them",
                       w->spatial + 2, MICA_MAX_SPATIAL + 2);
    MC_TRY(mc_onnx_read_list(n, "kernel_shape", w->spatial, 0, w->kernel));
    MC_TRY(mc_onnx_read_list(n, "strides", w->spatial, 1, w->stride));
    MC_TRY(mc_onnx_read_list(n, "dilations", w->spatial, 1, w->dilation));
    MC_TRY(mc_onnx_read_list(n, "pads", 2 * w->spatial, 0, pads));
    bool same = mc_str_is(how, "SAME_UPPER") || mc_str_is(how, "SAME_LOWER");
    w->given = mc_str_is(how, "NOTSET");
    if (!same && !w->given && !mc_str_is(how, "VALID")) return mc_onnx_refuse("this auto_pad");
    for (int i = 0; i < w->spatial; i++) {
        if (kernel) w->kernel[i] = kernel[i];
        w->lo[i] = w->given ? pads[i] : 0;
        w->hi[i] = w->given ? pads[w->spatial + i] : 0;
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 ||
            w->kernel[i] > INT32_MAX / w->dilation[i])
            return mc_fail(MICA_EFORMAT, "its window is out of range");
        if (same) pad_same(w, i, mica_array_dim(x, 2 + i), mc_str_is(how, "SAME_UPPER"));
    }
    return MICA_OK;
}

mica_status mc_onnx_read_conv(const mc_onnx_node *n, mica_array w, mica_conv_options *options) {
    mc_onnx_window win;
    MC_TRY(mc_onnx_read_window(n, mica_array_shape(w) + 2, &win));
    options->groups = mc_onnx_int(n, "group", 1);
    if (options->groups < 1)
        return mc_fail(MICA_EFORMAT, "it has %lld groups", (long long)options->groups);
    for (int i = 0; i < win.spatial; i++) {
        options->stride[i] = win.stride[i];
        options->kernel_dilation[i] = win.dilation[i];
        options->padding_lo[i] = win.lo[i];
        options->padding_hi[i] = win.hi[i];
    }
    return MICA_OK;
}

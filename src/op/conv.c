/* Convolutions over one, two or three axes, and the transposed ones, which are the same op. */
#include <mica/signal.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/window.h"
#include "op/work.h"

/* ---- the shape rule ---- */

static mica_status check_operands(const mc_attr_conv *a, const mc_layout *x, const mc_layout *w) {
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    mc_layout_text(x, text_x);
    mc_layout_text(w, text_w);
    if (!mica_dtype_is_float(x->dtype) || !mica_dtype_is_float(w->dtype))
        return mc_fail(MICA_EDTYPE, "conv_general: x %s and w %s: both must be floats", text_x,
                       text_w);
    if (x->ndim != w->ndim || x->ndim < 3 || x->ndim > 2 + MICA_MAX_SPATIAL)
        return mc_fail(MICA_ESHAPE, "conv_general: x %s and w %s: both need 3, 4 or 5 axes", text_x,
                       text_w);
    if (a->spatial != x->ndim - 2 || a->groups < 1 || (a->flip != 0 && a->flip != 1))
        return mc_fail(MICA_EINVAL, "conv_general: %lld groups, attributes for %lld axes of x %s",
                       (long long)a->groups, (long long)a->spatial, text_x);
    int64_t c = x->shape[x->ndim - 1], o = w->shape[0];
    if (mc_dim_mod(c, a->groups) != 0 || mc_dim_mod(o, a->groups) != 0)
        return mc_fail(MICA_ESHAPE,
                       "conv_general: x %s and w %s: %lld groups divide not both the channels of x "
                       "(%lld) and of the result (%lld)",
                       text_x, text_w, (long long)a->groups, (long long)c, (long long)o);
    if (w->shape[w->ndim - 1] != mc_dim_div(c, a->groups))
        return mc_fail(MICA_ESHAPE,
                       "conv_general: w %s does not fit x %s in %lld groups: its last axis must "
                       "have %lld elements",
                       text_w, text_x, (long long)a->groups, (long long)mc_dim_div(c, a->groups));
    return MICA_OK;
}

static mica_status conv_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    const mc_attr_conv *a = attr;
    const mc_layout *x = in[0], *w = in[1];
    MC_TRY(check_operands(a, x, w));
    mc_window windows[MICA_MAX_SPATIAL];
    mc_conv_windows(a, x, w, windows);
    int64_t shape[MICA_MAX_NDIM] = {x->shape[0]};
    for (int k = 0; k < a->spatial; k++) {
        MC_TRY(mc_window_check("conv_general", &windows[k], 1 + k));
        shape[1 + k] = mc_window_count(&windows[k]);
    }
    shape[x->ndim - 1] = w->shape[0];
    return mc_set_result("conv_general", out, mica_dtype_promote(x->dtype, w->dtype), shape,
                         x->ndim);
}

/* ---- as a product ---- */

/* x with its spatial axes, 1 .. spatial, in the opposite order. */
static mica_array reversed(mica_scope *s, mica_array x, int spatial) {
    for (int k = 1; k <= spatial; k++)
        x = mica_flip(s, x, k);
    return x;
}

/* w [O, K.., C / groups] as [groups, K.. C / groups, O / groups]: the right side of a product */
static mica_array weights_as_matrix(mica_scope *s, mica_array w, int64_t groups, int64_t depth) {
    const int64_t shape[3] = {groups, mc_dim_div(mica_array_dim(w, 0), groups), depth};
    return mica_swapaxes(s, mica_reshape(s, w, shape, 3), 1, 2);
}

/* The windows of x, copied, times w, for each group. */
static void conv_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                           mica_array *out) {
    (void)n_in;
    const mc_attr_conv *a = attr;
    const mc_layout *x = mc_layout_of(in[0]), *w = mc_layout_of(in[1]);
    int spatial = (int)a->spatial;
    mc_window windows[MICA_MAX_SPATIAL];
    mc_conv_windows(a, x, w, windows);
    int64_t shape[MICA_MAX_NDIM] = {x->shape[0]}, places = x->shape[0], taps = 1;
    for (int k = 0; k < spatial; k++) {
        shape[1 + k] = mc_window_count(&windows[k]);
        places = mc_dim_mul(places, shape[1 + k]);
        taps = mc_dim_mul(taps, windows[k].size);
    }
    int64_t o = w->shape[0], each = w->shape[w->ndim - 1], depth = mc_dim_mul(taps, each);
    shape[1 + spatial] = o;
    mica_dtype dtype = mica_dtype_promote(x->dtype, w->dtype);
    if (places == 0 || o == 0 || depth == 0) {
        *out = mica_zeros(s, shape, 2 + spatial, dtype);
        return;
    }
    mica_array kernel = mc_cast(s, in[1], dtype);
    if (a->flip) kernel = reversed(s, kernel, spatial);
    mica_array cols = mc_window_pad(s, mc_cast(s, in[0], dtype), windows, spatial, 1, 0);
    cols = mc_window_view(s, cols, windows, spatial, 1);
    const int64_t split[4] = {places, taps, a->groups, each};
    const int64_t flat[3] = {a->groups, places, depth};
    cols = mica_transpose(s, mica_reshape(s, cols, split, 4), (const int[]){2, 0, 1, 3});
    mica_array y = mica_matmul(s, mica_reshape(s, cols, flat, 3),
                               weights_as_matrix(s, kernel, a->groups, depth));
    *out = mica_reshape(s, mica_swapaxes(s, y, 0, 1), shape, 2 + spatial);
}

static MC_WORK_RULE(conv_work) {
    (void)attr, (void)n_in;
    const mc_layout *w = in[1];
    double filters = w->shape[0] > 0 ? (double)w->shape[0] : 1;
    work->kind = MC_WORK_CONV;
    work->operations = 2 * (double)mc_layout_size(out) * (double)mc_layout_size(w) / filters;
}

MC_OP(conv_general, 2, 2, MC_ATTR(conv), .infer = conv_infer, .decompose = conv_decompose,
      .work = conv_work);

static mica_array record(mica_scope *s, const mc_attr_conv *a, mica_array x, mica_array w) {
    const mica_array in[2] = {x, w};
    return mc_record(s, MC_OP_CONV_GENERAL, a, in, 2);
}

/* ---- gradients ---- */

/* x [A, spatial.., groups B] as [groups B, spatial.., A] or, over_groups, as [B, spatial.., groups
 * A]: both outer axes exchange places. */
static mica_array exchange(mica_scope *s, mica_array x, int spatial, int64_t groups,
                           bool over_groups) {
    int64_t split[MICA_MAX_NDIM], joined[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n = 0, last = spatial + 1;
    int64_t a = mica_array_dim(x, 0), b = mc_dim_div(mica_array_dim(x, last), groups);
    for (int k = 0; k <= spatial; k++)
        split[k] = mica_array_dim(x, k);
    split[last] = groups;
    split[last + 1] = b;
    joined[0] = over_groups ? b : mc_dim_mul(groups, b);
    joined[last] = over_groups ? mc_dim_mul(groups, a) : a;
    if (!over_groups) axes[n++] = last;
    axes[n++] = last + 1;
    for (int k = 1; k <= spatial; k++) {
        axes[n++] = k;
        joined[k] = split[k];
    }
    if (over_groups) axes[n++] = last;
    axes[n++] = 0;
    x = mica_transpose(s, mica_reshape(s, x, split, spatial + 3), axes);
    return mica_reshape(s, x, joined, spatial + 2);
}

/* w [groups A, K.., B] as [groups B, K.., A]: the weights of the way back. */
static mica_array transposed_weights(mica_scope *s, mica_array w, int spatial, int64_t groups) {
    int64_t split[MICA_MAX_NDIM], joined[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM] = {0, spatial + 2}, last = spatial + 2;
    split[0] = groups;
    split[1] = mc_dim_div(mica_array_dim(w, 0), groups);
    split[last] = mica_array_dim(w, -1);
    joined[0] = mc_dim_mul(groups, split[last]);
    for (int k = 1; k <= spatial; k++) {
        split[1 + k] = joined[k] = mica_array_dim(w, k);
        axes[1 + k] = 1 + k;
    }
    axes[last] = 1;
    joined[spatial + 1] = split[1];
    w = mica_transpose(s, mica_reshape(s, w, split, spatial + 3), axes);
    return mica_reshape(s, w, joined, spatial + 2);
}

/* dy goes back through the flipped kernel: strides become zeros between elements. */
static mica_array gradient_of_x(const mc_gradient_node *n, const mc_window *windows,
                                mica_array dy) {
    const mc_attr_conv *a = n->attr;
    mc_attr_conv back = {.spatial = a->spatial, .groups = a->groups, .flip = !a->flip};
    for (int k = 0; k < a->spatial; k++) {
        const mc_window *w = &windows[k];
        int64_t end = mc_dim_mul(w->dilation, mc_dim_sub(w->size, 1));
        int64_t used = mc_dim_mul(w->stride, mc_dim_sub(mc_window_count(w), 1));
        back.stride[k] = w->base;
        back.kernel_dilation[k] = w->dilation;
        back.input_dilation[k] = w->stride;
        back.padding_lo[k] = mc_dim_sub(end, w->lo);
        back.padding_hi[k] = mc_dim_add(mc_dim_sub(mc_window_base(w), mc_dim_add(used, 1)), w->lo);
    }
    return record(n->s, &back, dy, transposed_weights(n->s, n->in[1], (int)a->spatial, a->groups));
}

/* The elements of the batch are summed, as channels are; places of dy are the kernel. */
static mica_array gradient_of_w(const mc_gradient_node *n, const mc_window *windows,
                                mica_array dy) {
    const mc_attr_conv *a = n->attr;
    int spatial = (int)a->spatial;
    mc_attr_conv sums = {.spatial = a->spatial, .groups = a->groups};
    for (int k = 0; k < spatial; k++) {
        const mc_window *w = &windows[k];
        int64_t used = mc_dim_mul(w->stride, mc_dim_sub(mc_window_count(w), 1));
        int64_t padded = mc_dim_add(mc_window_base(w), w->lo);
        sums.stride[k] = w->dilation;
        sums.kernel_dilation[k] = w->stride;
        sums.input_dilation[k] = w->base;
        sums.padding_lo[k] = w->lo;
        sums.padding_hi[k] = mc_dim_sub(mc_dim_add(used, mc_window_reach(w)), padded);
    }
    mica_scope *s = n->s;
    mica_array x = exchange(s, n->in[0], spatial, a->groups, true);
    mica_array dw = record(s, &sums, x, exchange(s, dy, spatial, 1, false));
    dw = exchange(s, dw, spatial, 1, false);
    return a->flip ? reversed(s, dw, spatial) : dw;
}

static bool conv_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_layout *x = mc_layout_of(n->in[0]), *w = mc_layout_of(n->in[1]);
    if (mc_layout_size(mc_layout_of(n->out[0])) == 0 || mc_layout_size(w) == 0 ||
        mc_layout_size(x) == 0)
        return true;
    mc_window windows[MICA_MAX_SPATIAL];
    mc_conv_windows(n->attr, x, w, windows);
    if (n->wanted[0]) dx[0] = gradient_of_x(n, windows, *dy);
    if (n->wanted[1]) dx[1] = gradient_of_w(n, windows, *dy);
    return true;
}

static bool conv_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    if (dx[0].scope) *dy = record(n->s, n->attr, dx[0], n->in[1]);
    if (dx[1].scope) *dy = mc_sum_of(n->s, *dy, record(n->s, n->attr, n->in[0], dx[1]));
    return true;
}
MC_GRADIENT(conv_general, conv_vjp, conv_jvp);

/* ---- builders ---- */

static void set_numbers(int64_t to[MICA_MAX_SPATIAL], const int64_t from[MICA_MAX_SPATIAL],
                        int spatial, bool zero_is_one) {
    for (int k = 0; k < spatial; k++)
        to[k] = zero_is_one && from[k] == 0 ? 1 : from[k];
}

mica_array mica_conv_general(mica_scope *s, mica_array x, mica_array w,
                             const mica_conv_options *options) {
    static const mica_conv_options none;
    const mica_conv_options *o = options ? options : &none;
    const mica_array in[2] = {x, w};
    if (!mc_operands_ok(s, "conv_general", in, 2)) return mc_invalid(s);
    int spatial = mica_array_ndim(x) - 2;
    mc_attr_conv a = {.spatial = spatial, .groups = o->groups ? o->groups : 1, .flip = o->flip};
    if (spatial > MICA_MAX_SPATIAL) spatial = MICA_MAX_SPATIAL; /* infer refuses it */
    set_numbers(a.stride, o->stride, spatial, true);
    set_numbers(a.padding_lo, o->padding_lo, spatial, false);
    set_numbers(a.padding_hi, o->padding_hi, spatial, false);
    set_numbers(a.kernel_dilation, o->kernel_dilation, spatial, true);
    set_numbers(a.input_dilation, o->input_dilation, spatial, true);
    return record(s, &a, x, w);
}

/* Whether x and w have the axes that the op's name says. */
static bool has_spatial(mica_scope *s, const char *name, mica_array x, mica_array w, int spatial) {
    const mica_array in[2] = {x, w};
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, name, in, 2)) return false;
    if (mica_array_ndim(x) == spatial + 2 && mica_array_ndim(w) == spatial + 2) return true;
    mc_scope_fail(s, MICA_ESHAPE, "%s: x %s and w %s: both need %d axes", name,
                  mc_layout_text(mc_layout_of(x), text_x), mc_layout_text(mc_layout_of(w), text_w),
                  spatial + 2);
    return false;
}

static mica_array conv(mica_scope *s, const char *name, mica_array x, mica_array w, int spatial,
                       mica_channels layout, const mica_conv_options *options) {
    if (!has_spatial(s, name, x, w, spatial)) return mc_invalid(s);
    if (layout == MICA_CHANNELS_LAST) return mica_conv_general(s, x, w, options);
    x = mica_moveaxis(s, x, 1, -1);
    w = mica_moveaxis(s, w, 1, -1);
    return mica_moveaxis(s, mica_conv_general(s, x, w, options), -1, 1);
}

/* Weights [C, O / groups, K..] of channels first as [C, K.., O / groups], and these as the op's. */
static mica_array weights_of_transposed(mica_scope *s, mica_array w, int spatial, int64_t groups) {
    return transposed_weights(s, mica_moveaxis(s, w, 1, -1), spatial, groups);
}

static mica_array conv_transpose(mica_scope *s, const char *name, mica_array x, mica_array w,
                                 int spatial, mica_channels layout,
                                 const mica_conv_transpose_options *options) {
    static const mica_conv_transpose_options none;
    const mica_conv_transpose_options *t = options ? options : &none;
    if (!has_spatial(s, name, x, w, spatial)) return mc_invalid(s);
    int64_t groups = t->groups ? t->groups : 1;
    bool first = layout != MICA_CHANNELS_LAST;
    if (first && (groups < 1 || mc_dim_mod(mica_array_dim(w, 0), groups) != 0))
        return mc_scope_fail(s, MICA_ESHAPE, "%s: %lld groups do not divide %lld channels", name,
                             (long long)groups, (long long)mica_array_dim(w, 0));
    mica_conv_options o = {.groups = groups, .flip = true};
    for (int k = 0; k < spatial; k++) {
        int64_t stride = t->stride[k] ? t->stride[k] : 1;
        int64_t dilation = t->dilation[k] ? t->dilation[k] : 1, more = t->output_padding[k];
        if (more < 0 || (more > 0 && more >= (stride > dilation ? stride : dilation)))
            return mc_scope_fail(s, MICA_EINVAL,
                                 "%s: output_padding %lld must be below the stride (%lld) or the "
                                 "dilation (%lld)",
                                 name, (long long)more, (long long)stride, (long long)dilation);
        mc_window window = {
            0, mica_array_dim(w, first ? 2 + k : 1 + k), 1, dilation, stride, t->padding[k], more};
        if (mc_window_check(name, &window, k) != MICA_OK) return mc_fail_in(s, MICA_EINVAL);
        o.input_dilation[k] = stride;
        o.kernel_dilation[k] = dilation;
        o.padding_lo[k] =
            mc_dim_sub(mc_dim_mul(dilation, mc_dim_sub(window.size, 1)), t->padding[k]);
        o.padding_hi[k] = mc_dim_add(o.padding_lo[k], more);
    }
    if (!first) return mica_conv_general(s, x, w, &o);
    x = mica_moveaxis(s, x, 1, -1);
    w = weights_of_transposed(s, w, spatial, groups);
    return mica_moveaxis(s, mica_conv_general(s, x, w, &o), -1, 1);
}

#define CONV(n)                                                                                 \
    mica_array mica_conv##n##d(mica_scope *s, mica_array x, mica_array w, mica_channels layout, \
                               const mica_conv_options *options) {                              \
        return conv(s, "conv" #n "d", x, w, n, layout, options);                                \
    }                                                                                           \
    mica_array mica_conv_transpose##n##d(mica_scope *s, mica_array x, mica_array w,             \
                                         mica_channels layout,                                  \
                                         const mica_conv_transpose_options *options) {          \
        return conv_transpose(s, "conv_transpose" #n "d", x, w, n, layout, options);            \
    }
CONV(1)
CONV(2)
CONV(3)

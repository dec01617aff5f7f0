/* Windows that are reduced: reduce_window, and pools. The op goes along one axis; several axes are
 * one op after the other. */
#include <mica/signal.h>

#include <float.h>
#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"
#include "op/gradient.h"
#include "op/window.h"
#include "op/work.h"

static mica_status window_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)n_in;
    const mc_attr_window *a = attr;
    const mc_layout *x = in[0];
    if (a->kind < MICA_WINDOW_MAX || a->kind > MICA_WINDOW_PROD)
        return mc_fail(MICA_EINVAL, "reduce_window: there is no kind %lld", (long long)a->kind);
    MC_TRY(mc_check_axis("reduce_window", x, a->axis));
    mc_window window = mc_window_of(a, x);
    MC_TRY(mc_window_check("reduce_window", &window, (int)a->axis));
    int64_t shape[MICA_MAX_NDIM];
    for (int k = 0; k < x->ndim; k++)
        shape[k] = k == a->axis ? mc_window_count(&window) : x->shape[k];
    return mc_set_result("reduce_window", out, x->dtype, shape, x->ndim);
}

/* What padding is: it changes no result. */
static double neutral(mica_window_kind kind, mica_dtype dtype) {
    bool is_float = mica_dtype_is_float(dtype);
    if (kind == MICA_WINDOW_SUM) return 0;
    if (kind == MICA_WINDOW_PROD) return 1;
    if (is_float) return kind == MICA_WINDOW_MAX ? -INFINITY : INFINITY;
    if (dtype == MICA_BOOL) return kind == MICA_WINDOW_MAX ? 0 : 1;
    int bits = 8 * (int)mica_dtype_bytes(dtype);
    bool has_sign = mica_dtype_is_signed(dtype);
    if (kind == MICA_WINDOW_MAX) return has_sign ? -ldexp(1, bits - 1) : 0;
    return ldexp(1, has_sign ? bits - 1 : bits) - 1;
}

/* The first extreme element along axis 2, NaN before all others, chosen by its index: so gradients
 * go to it alone. */
static mica_array first_extreme(mica_scope *s, mica_array x, bool largest) {
    const int axis = 2;
    mica_array at = largest ? mica_argmax(s, x, axis, true) : mica_argmin(s, x, axis, true);
    if (mica_dtype_is_float(mica_array_dtype(x))) {
        mica_array nan = mica_isnan(s, x);
        mica_array first = mica_argmax(s, mica_astype(s, nan, MICA_I32), axis, true);
        at = mica_where(s, mica_any(s, nan, &axis, 1, true), first, at);
    }
    return mica_take_along_axis(s, x, at, axis);
}

static void window_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                             mica_array *out) {
    (void)n_in;
    const mc_attr_window *a = attr;
    const mc_layout *l = mc_layout_of(in[0]);
    mc_window window = mc_window_of(a, l);
    int axis = (int)a->axis;
    int64_t flat[3] = {1, window.length, 1}, shape[MICA_MAX_NDIM];
    for (int k = 0; k < l->ndim; k++) {
        if (k != axis) flat[k < axis ? 0 : 2] = mc_dim_mul(flat[k < axis ? 0 : 2], l->shape[k]);
        shape[k] = k == axis ? mc_window_count(&window) : l->shape[k];
    }
    if (flat[0] == 0 || flat[2] == 0 || shape[axis] == 0) {
        *out = mica_zeros(s, shape, l->ndim, l->dtype);
        return;
    }
    const int taps = 2;
    mica_array x = mica_reshape(s, in[0], flat, 3);
    x = mc_window_pad(s, x, &window, 1, 1, neutral((mica_window_kind)a->kind, l->dtype));
    x = mc_window_view(s, x, &window, 1, 1);
    if (a->kind == MICA_WINDOW_SUM)
        x = mica_sum(s, x, &taps, 1, true);
    else if (a->kind == MICA_WINDOW_PROD)
        x = mica_prod(s, x, &taps, 1, true);
    else
        x = first_extreme(s, x, a->kind == MICA_WINDOW_MAX);
    *out = mica_reshape(s, mc_cast(s, x, l->dtype), shape, l->ndim);
}

static MC_WORK_RULE(window_work) {
    (void)in, (void)n_in, (void)out;
    work->operations *= (double)((const mc_attr_window *)attr)->size;
}

MC_OP(reduce_window, 1, 1, MC_ATTR(window), .infer = window_infer, .decompose = window_decompose,
      .work = window_work);
MC_DECOMPOSED_GRADIENT(reduce_window);

/* ---- builders ---- */

static mica_array record(mica_scope *s, mica_array x, mica_window_kind kind, int axis,
                         const mc_window *w) {
    mc_attr_window a = {.kind = kind,
                        .axis = axis,
                        .size = w->size,
                        .stride = w->stride,
                        .dilation = w->dilation,
                        .base = w->base,
                        .lo = w->lo,
                        .hi = w->hi};
    return mc_record(s, MC_OP_REDUCE_WINDOW, &a, &x, 1);
}

static int64_t or_one(int64_t number) {
    return number ? number : 1;
}

static mc_window window_along(const mica_window_options *o, mica_array x, int axis) {
    return (mc_window){.length = mica_array_dim(x, axis),
                       .size = or_one(o->window[axis]),
                       .stride = or_one(o->stride[axis]),
                       .dilation = or_one(o->dilation[axis]),
                       .base = or_one(o->base_dilation[axis]),
                       .lo = o->padding_lo[axis],
                       .hi = o->padding_hi[axis]};
}

/* Elements that the last window lacks where the number of windows is rounded up. A window that
 * begins behind the elements of x is none. */
static int64_t missing_elements(const mc_window *w) {
    int64_t begins = mc_dim_add(mc_window_base(w), w->lo), padded = mc_dim_add(begins, w->hi);
    int64_t room = mc_dim_sub(padded, mc_window_reach(w));
    if (mc_dim_sign(room) < 0 || w->stride == 1) return 0;
    int64_t last = mc_dim_compute(MC_DIM_MIN, mc_dim_div_up(room, w->stride),
                                  mc_dim_sub(mc_dim_div_up(begins, w->stride), 1));
    int64_t used = mc_dim_add(mc_dim_mul(last, w->stride), mc_window_reach(w));
    return mc_dim_compute(MC_DIM_MAX, mc_dim_sub(used, padded), 0);
}

/* How many elements the windows along an axis have, f32 [1.., count, 1..]; more: elements behind
 * the padding. */
static mica_array counts_along(mica_scope *s, const mc_window *w, int64_t more, bool excludes,
                               int axis, int ndim) {
    mc_window part = *w;
    int64_t shape[MICA_MAX_NDIM];
    for (int k = 0; k < ndim; k++)
        shape[k] = 1;
    if (!excludes) {
        part.length = mc_dim_add(mc_dim_add(mc_window_base(w), w->lo), w->hi);
        part.base = 1;
        part.lo = part.hi = 0;
    }
    part.hi = mc_dim_add(part.hi, more);
    shape[axis] = part.length;
    return record(s, mica_ones(s, shape, ndim, MICA_F32), MICA_WINDOW_SUM, axis, &part);
}

/* Sums, products and means of floats are in f32, rounded once; those of integers are widened. */
static mica_array operand_of(mica_scope *s, mica_array x, mica_window_kind kind) {
    mica_dtype dtype = mica_array_dtype(x);
    if (kind == MICA_WINDOW_MEAN) return mc_cast(s, x, MICA_F32);
    if (kind != MICA_WINDOW_SUM && kind != MICA_WINDOW_PROD) return x;
    if (mica_dtype_is_float(dtype)) return mc_cast(s, x, MICA_F32);
    if (dtype == MICA_BOOL || dtype == MICA_I8 || dtype == MICA_I16) return mc_cast(s, x, MICA_I32);
    return dtype == MICA_U8 || dtype == MICA_U16 ? mc_cast(s, x, MICA_U32) : x;
}

mica_array mica_reduce_window(mica_scope *s, mica_array x, mica_window_kind kind,
                              const mica_window_options *o) {
    if (!mc_operands_ok(s, "reduce_window", &x, 1)) return mc_invalid(s);
    if (!o) return mc_scope_fail(s, MICA_EINVAL, "reduce_window: options is NULL");
    if (kind < MICA_WINDOW_MAX || kind > MICA_WINDOW_MEAN)
        return mc_scope_fail(s, MICA_EINVAL, "reduce_window: there is no kind %d", (int)kind);
    mica_dtype given = mica_array_dtype(x);
    if (given == MICA_C64)
        return mc_scope_fail(s, MICA_EDTYPE, "reduce_window: it does not take complex numbers");
    bool mean = kind == MICA_WINDOW_MEAN;
    mica_window_kind each = mean ? MICA_WINDOW_SUM : kind;
    mica_array y = operand_of(s, x, kind), count = MICA_NONE;
    int ndim = mica_array_ndim(x);
    for (int axis = ndim - 1; axis >= 0 && mica_valid(y); axis--) {
        mc_window w = window_along(o, x, axis);
        if (mc_window_check("reduce_window", &w, axis) != MICA_OK)
            return mc_fail_in(s, MICA_EINVAL);
        int64_t more = o->ceil ? missing_elements(&w) : 0;
        if (w.size == 1 && w.stride == 1 && w.base == 1 && w.lo == 0 && w.hi == 0) continue;
        if (mean) {
            mica_array n = counts_along(s, &w, more, o->exclude_padding, axis, ndim);
            count = mica_valid(count) ? mica_multiply(s, count, n) : n;
        }
        w.hi = mc_dim_add(w.hi, more);
        y = record(s, y, each, axis, &w);
    }
    if (mica_valid(count)) y = mica_divide(s, y, count);
    bool narrow = mean || mica_dtype_is_float(given);
    return narrow && mica_valid(y) ? mc_cast(s, y, mc_inexact(given)) : y;
}

mica_array mica_pool(mica_scope *s, mica_array x, int spatial, mica_window_kind kind,
                     mica_channels layout, const mica_pool_options *options) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "pool", &x, 1)) return mc_invalid(s);
    if (!options || spatial < 1 || spatial > MICA_MAX_SPATIAL)
        return mc_scope_fail(s, MICA_EINVAL, "pool: options are needed, and 1 to 3 spatial axes");
    if (mica_array_ndim(x) != spatial + 2)
        return mc_scope_fail(s, MICA_ESHAPE, "pool: %s has not the %d axes of %d spatial ones",
                             mc_layout_text(mc_layout_of(x), text), spatial + 2, spatial);
    mica_window_options o = {.exclude_padding = options->exclude_padding, .ceil = options->ceil};
    for (int k = 0; k < spatial; k++) {
        int axis = k + (layout == MICA_CHANNELS_LAST ? 1 : 2);
        mc_window w = {.size = options->kernel[k], .dilation = or_one(options->dilation[k])};
        int64_t lo = options->padding_lo[k], hi = options->padding_hi[k];
        if (w.size < 1 || w.size >= MC_WINDOW_LIMIT || w.dilation >= MC_WINDOW_LIMIT ||
            w.dilation < 1 || mc_dim_sign(lo) < 0 || mc_dim_sign(hi) < 0 ||
            mc_dim_less(mc_window_reach(&w) - 1, lo) || mc_dim_less(mc_window_reach(&w) - 1, hi))
            return mc_scope_fail(s, MICA_EINVAL,
                                 "pool: spatial axis %d: kernel %lld must be 1 or more, padding "
                                 "%lld and %lld at least 0 and less than a window",
                                 k, (long long)w.size, (long long)lo, (long long)hi);
        o.window[axis] = w.size;
        o.stride[axis] = options->stride[k];
        o.dilation[axis] = w.dilation;
        o.padding_lo[axis] = lo;
        o.padding_hi[axis] = hi;
    }
    return mica_reduce_window(s, x, kind, &o);
}

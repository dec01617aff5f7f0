/* Affine int8, and products and convolutions of such arrays: compositions. */
#include <mica/nn.h>

#include <stdlib.h>

#include "base/options.h"
#include "op/build.h"
#include "op/require.h"

/* A scale or zero point [], [1], or [C] along an axis of x, to meet x: [C, 1, ..]. */
static bool along(mica_scope *s, const char *op, const char *name, const mc_layout *x, bool by_axis,
                  int axis, mica_array *v) {
    char text[MC_LAYOUT_TEXT], text_x[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, op, v, 1)) return false;
    const mc_layout *l = mc_layout_of(*v);
    int64_t shape[MICA_MAX_NDIM], wanted = by_axis ? x->shape[axis] : 1;
    bool fits = l->ndim <= 1 && mc_layout_size(l) == wanted && (l->ndim == 1 || !by_axis);
    if (!fits) {
        mc_scope_fail(s, MICA_ESHAPE, "%s: %s is %s for %s; it has %lld elements", op, name,
                      mc_layout_text(l, text), mc_layout_text(x, text_x), (long long)wanted);
        return false;
    }
    int ndim = by_axis ? x->ndim - axis : 0;
    for (int k = 0; k < ndim; k++)
        shape[k] = k == 0 ? wanted : 1;
    *v = mica_reshape(s, *v, shape, ndim);
    return mica_valid(*v);
}

static bool find_axis(mica_scope *s, const char *op, mica_array x, const int *axis, int *at) {
    *at = 0;
    if (!mc_operands_ok(s, op, &x, 1)) return false;
    return !axis || mc_find_axis(s, op, mc_layout_of(x), *axis, at);
}

mica_array mica_quantize_int8(mica_scope *s, mica_array x, mica_array scale, mica_array zero_point,
                              const int *axis) {
    static const char *const op = "quantize_int8";
    char text[MC_LAYOUT_TEXT];
    int at;
    if (!find_axis(s, op, x, axis, &at)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    if (!mica_dtype_is_float(l->dtype))
        return mc_scope_fail(s, MICA_EDTYPE, "%s: %s is not a float", op, mc_layout_text(l, text));
    mica_array zero = mica_f32(s, 0);
    if (!along(s, op, "the scale", l, axis, at, &scale)) return mc_invalid(s);
    if (zero_point.scope && !along(s, op, "the zero point", l, axis, at, &zero_point))
        return mc_invalid(s);
    scale = mc_cast(s, scale, MICA_F32);
    scale = mc_require(s, scale, mica_greater(s, scale, zero), MC_REQUIRE_SCALE);
    zero_point = zero_point.scope ? mc_cast(s, zero_point, MICA_F32) : zero;
    mica_array y = mica_round(s, mica_divide(s, mc_cast(s, x, MICA_F32), scale));
    y = mica_where(s, mica_isnan(s, y), zero, y);
    y = mica_add(s, y, zero_point);
    return mica_astype(s, mica_clip(s, y, mica_f32(s, -128), mica_f32(s, 127)), MICA_I8);
}

mica_array mica_dequantize_int8(mica_scope *s, mica_array q, mica_array scale,
                                mica_array zero_point, const int *axis) {
    static const char *const op = "dequantize_int8";
    char text[MC_LAYOUT_TEXT];
    int at;
    if (!find_axis(s, op, q, axis, &at)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(q);
    if (l->dtype != MICA_I8 && l->dtype != MICA_U8)
        return mc_scope_fail(s, MICA_EDTYPE, "%s: %s is not i8 or u8", op, mc_layout_text(l, text));
    if (!along(s, op, "the scale", l, axis, at, &scale)) return mc_invalid(s);
    if (zero_point.scope && !along(s, op, "the zero point", l, axis, at, &zero_point))
        return mc_invalid(s);
    mica_dtype dtype = mica_array_dtype(scale);
    if (!mica_dtype_is_float(dtype))
        return mc_scope_fail(s, MICA_EDTYPE, "%s: the scale is %s, not a float", op,
                             mica_dtype_name(dtype));
    mica_array y = mica_astype(s, q, MICA_F32);
    if (zero_point.scope) y = mica_subtract(s, y, mc_cast(s, zero_point, MICA_F32));
    return mc_cast(s, mica_multiply(s, y, mc_cast(s, scale, MICA_F32)), dtype);
}

/* ---- products ---- */

static bool copy_options(mica_scope *s, const mica_qmatmul_options *from,
                         mica_qmatmul_options *to) {
    mica_status status = MC_OPTIONS_COPY(mica_qmatmul_options, multiplier, to, from);
    if (status != MICA_OK) mc_scope_set_status(s, status);
    if (!to->multiplier.scope) to->multiplier = mica_f32(s, 1);
    return status == MICA_OK;
}

/* x and w are two i8. */
static bool both_i8(mica_scope *s, const char *op, mica_array x, mica_array w,
                    mica_array multiplier) {
    const mica_array in[3] = {x, w, multiplier};
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, op, in, 3)) return false;
    if (mica_array_dtype(x) == MICA_I8 && mica_array_dtype(w) == MICA_I8) return true;
    mc_scope_fail(s, MICA_EDTYPE, "%s: %s and %s are not i8", op,
                  mc_layout_text(mc_layout_of(x), text_x), mc_layout_text(mc_layout_of(w), text_w));
    return false;
}

/* i32 sums [.., N] as i8: clamp(round((bias + sum) multiplier) + zero_point). */
static mica_array round_sums(mica_scope *s, const char *op, mica_array sum, mica_array bias,
                             const mica_qmatmul_options *o) {
    if (bias.scope) sum = mica_add(s, sum, bias);
    if (mica_array_dtype(sum) != MICA_I32 && mica_valid(sum))
        return mc_scope_fail(s, MICA_EDTYPE, "%s: the bias is not i32", op);
    mica_array y = mica_astype(s, sum, MICA_F32);
    y = mica_round(s, mica_multiply(s, y, mc_cast(s, o->multiplier, MICA_F32)));
    y = mica_add(s, y, mica_f32(s, (float)o->zero_point));
    return mica_astype(s, mica_clip(s, y, mica_f32(s, -128), mica_f32(s, 127)), MICA_I8);
}

/* sum (x - zx)(w - wz) = sum x w - zx sum w - wz sum x + K zx wz, in i32 */
mica_array mica_qmatmul(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                        const mica_qmatmul_options *options) {
    mica_qmatmul_options o;
    if (!copy_options(s, options, &o) || !both_i8(s, "qmatmul", x, w, o.multiplier))
        return mc_invalid(s);
    const mc_layout *a = mc_layout_of(x), *b = mc_layout_of(w);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (a->ndim < 1 || b->ndim != 2)
        return mc_scope_fail(s, MICA_ESHAPE, "qmatmul: %s and %s; [.., K] and [K, N] are needed",
                             mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    const int inner[2] = {a->ndim - 1, 0};
    const mica_dot_axes axes = {NULL, NULL, 0, &inner[0], &inner[1], 1};
    double k = (double)b->shape[0];
    mica_array sum = mica_dot_general(s, x, w, &axes);
    if (o.x_zero_point != 0) {
        mica_array columns = mica_sum(s, w, &inner[1], 1, false);
        sum = mica_subtract(s, sum, mica_multiply(s, columns, mica_i32(s, o.x_zero_point)));
    }
    if (o.w_zero_point != 0) {
        mica_array rows = mica_sum(s, x, &inner[0], 1, true);
        sum = mica_subtract(s, sum, mica_multiply(s, rows, mica_i32(s, o.w_zero_point)));
        mica_array all = mica_scalar(s, k, MICA_I32);
        all = mica_multiply(s, all, mica_i32(s, o.x_zero_point));
        all = mica_multiply(s, all, mica_i32(s, o.w_zero_point));
        sum = mica_add(s, sum, all);
    }
    return round_sums(s, "qmatmul", sum, bias, &o);
}

/* ---- convolutions ---- */

/* Some taps of a kernel, rows and columns, and some channels of each group. */
typedef struct part {
    int64_t begin[3], n[3];
} part;

/* The convolution with this part of w [O, H, W, C / groups] alone: padding stands for the taps that
 * are left out. */
static mica_array conv_part(mica_scope *s, mica_array x, mica_array w, const part *p,
                            const mica_conv_options *options) {
    mica_conv_options o = *options;
    int64_t start[4] = {0}, stop[4] = {MICA_END_OF_AXIS}, each = mica_array_dim(w, 3);
    for (int k = 0; k < 2; k++) {
        int64_t step = o.kernel_dilation[k] ? o.kernel_dilation[k] : 1;
        o.padding_lo[k] -= step * p->begin[k];
        o.padding_hi[k] -= step * (mica_array_dim(w, 1 + k) - p->begin[k] - p->n[k]);
    }
    for (int k = 0; k < 3; k++) {
        start[1 + k] = p->begin[k];
        stop[1 + k] = p->begin[k] + p->n[k];
    }
    w = mica_slice(s, w, start, stop, NULL);
    if (p->n[2] != each) {
        const int64_t *shape = mica_array_shape(x);
        const int64_t split[5] = {shape[0], shape[1], shape[2], o.groups, each};
        const int64_t joined[4] = {shape[0], shape[1], shape[2], o.groups * p->n[2]};
        x = mica_slice_axis(s, mica_reshape(s, x, split, 5), 4, p->begin[2], stop[3]);
        x = mica_reshape(s, x, joined, 4);
    }
    /* Devices may transform before they multiply (Winograd), which is not exact: rounded. */
    return mica_astype(s, mica_round(s, mica_conv_general(s, x, w, &o)), MICA_I32);
}

/* f32 convolutions of integers, in i32; each has so few terms that it is exact. */
static mica_array conv_exact(mica_scope *s, mica_array x, mica_array w, int64_t terms,
                             const mica_conv_options *o) {
    const int64_t *shape = mica_array_shape(w);
    const int64_t size[3] = {shape[1], shape[2], shape[3]};
    for (int k = 0; k < 3; k++)
        if (mc_dim_has_symbols(size[k])) return mc_need_number(s, "qconv2d", size[k]);
    int64_t max[3];
    for (int k = 1; k < 4; k++) { /* columns, rows, channels */
        int64_t at = k == 1 ? 1 : k == 2 ? 0 : 2, n = size[at] > 1 ? size[at] : 1;
        max[at] = n < terms ? n : terms;
        terms /= max[at];
    }
    mica_array sum = MICA_NONE;
    part p;
    for (p.begin[0] = 0; p.begin[0] == 0 || p.begin[0] < size[0]; p.begin[0] += max[0])
        for (p.begin[1] = 0; p.begin[1] == 0 || p.begin[1] < size[1]; p.begin[1] += max[1])
            for (p.begin[2] = 0; p.begin[2] == 0 || p.begin[2] < size[2]; p.begin[2] += max[2]) {
                for (int k = 0; k < 3; k++) {
                    int64_t rest = size[k] - p.begin[k];
                    p.n[k] = rest < max[k] ? rest : max[k];
                }
                mica_array y = conv_part(s, x, w, &p, o);
                sum = sum.scope ? mica_add(s, sum, y) : y;
                if (!mica_valid(sum)) return mc_invalid(s);
            }
    return sum;
}

static bool check_qconv2d(mica_scope *s, mica_array x, mica_array w, const mica_conv_options *o,
                          const mica_qmatmul_options *q) {
    const mc_layout *a = mc_layout_of(x), *b = mc_layout_of(w);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    mc_layout_text(a, text_a);
    mc_layout_text(b, text_b);
    int32_t zx = q->x_zero_point, zw = q->w_zero_point;
    if (zx < -255 || zx > 255 || zw < -255 || zw > 255) {
        mc_scope_fail(s, MICA_EINVAL, "qconv2d: zero points %d and %d, -255 to 255 are possible",
                      (int)zx, (int)zw);
        return false;
    }
    for (int k = 0; k < 2; k++) {
        const int64_t parts[] = {o->kernel_dilation[k], o->padding_lo[k], o->padding_hi[k]};
        for (int i = 0; i < 3; i++) {
            if (parts[i] >= -INT32_MAX && parts[i] <= INT32_MAX) continue;
            mc_scope_fail(s, MICA_EINVAL, "qconv2d: a dilation or padding of %lld",
                          (long long)parts[i]);
            return false;
        }
    }
    bool fits = a->ndim == 4 && b->ndim == 4 && o->groups > 0;
    fits = fits && mc_dim_mod(a->shape[1], o->groups) == 0 &&
           b->shape[1] == mc_dim_div(a->shape[1], o->groups);
    if (fits && mc_dim_mod(b->shape[0], o->groups) == 0) return true;
    mc_scope_fail(s, MICA_ESHAPE, "qconv2d: w %s does not fit x %s in %lld groups", text_b, text_a,
                  (long long)o->groups);
    return false;
}

mica_array mica_qconv2d(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                        const mica_conv_options *conv, const mica_qmatmul_options *options) {
    mica_qmatmul_options o;
    mica_conv_options c = {.groups = 0};
    if (conv) c = *conv;
    if (c.groups == 0) c.groups = 1;
    if (!copy_options(s, options, &o) || !both_i8(s, "qconv2d", x, w, o.multiplier) ||
        !check_qconv2d(s, x, w, &c, &o))
        return mc_invalid(s);
    int64_t largest = (int64_t)(128 + abs(o.x_zero_point)) * (128 + abs(o.w_zero_point));
    x = mica_astype(s, mica_moveaxis(s, x, 1, -1), MICA_F32);
    w = mica_astype(s, mica_moveaxis(s, w, 1, -1), MICA_F32);
    x = mica_subtract(s, x, mica_f32(s, (float)o.x_zero_point));
    w = mica_subtract(s, w, mica_f32(s, (float)o.w_zero_point));
    if (c.flip) w = mica_flip(s, mica_flip(s, w, 1), 2);
    c.flip = false;
    mica_array sum = conv_exact(s, x, w, ((int64_t)1 << 24) / largest, &c);
    return mica_moveaxis(s, round_sums(s, "qconv2d", sum, bias, &o), -1, 1);
}

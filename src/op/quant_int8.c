/* Affine int8, products of such arrays, and fake quantisation: compositions. */
#include <mica/nn.h>

#include <math.h>

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

static bool find(mica_scope *s, const char *op, mica_array x, const int *axis, int *at) {
    *at = 0;
    if (!mc_operands_ok(s, op, &x, 1)) return false;
    return !axis || mc_find_axis(s, op, mc_layout_of(x), *axis, at);
}

mica_array mica_quantize_int8(mica_scope *s, mica_array x, mica_array scale, mica_array zero_point,
                              const int *axis) {
    static const char *const op = "quantize_int8";
    char text[MC_LAYOUT_TEXT];
    int at;
    if (!find(s, op, x, axis, &at)) return mc_invalid(s);
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
    if (!find(s, op, q, axis, &at)) return mc_invalid(s);
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

/* sum (x - zx)(w - wz) = sum x w - zx sum w - wz sum x + K zx wz, in i32 */
mica_array mica_qmatmul(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                        const mica_qmatmul_options *options) {
    mica_qmatmul_options o;
    mica_status status = MC_OPTIONS_COPY(mica_qmatmul_options, multiplier, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    mica_array factor = o.multiplier.scope ? o.multiplier : mica_f32(s, 1);
    const mica_array in[3] = {x, w, factor};
    if (!mc_operands_ok(s, "qmatmul", in, 3)) return mc_invalid(s);
    const mc_layout *a = mc_layout_of(x), *b = mc_layout_of(w);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (a->dtype != MICA_I8 || b->dtype != MICA_I8)
        return mc_scope_fail(s, MICA_EDTYPE, "qmatmul: %s and %s are not i8",
                             mc_layout_text(a, text_a), mc_layout_text(b, text_b));
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
    if (bias.scope) sum = mica_add(s, sum, bias);
    if (mica_array_dtype(sum) != MICA_I32 && mica_valid(sum))
        return mc_scope_fail(s, MICA_EDTYPE, "qmatmul: the bias is not i32");
    mica_array y = mica_multiply(s, mica_astype(s, sum, MICA_F32), mc_cast(s, factor, MICA_F32));
    y = mica_add(s, mica_round(s, y), mica_f32(s, (float)o.zero_point));
    return mica_astype(s, mica_clip(s, y, mica_f32(s, -128), mica_f32(s, 127)), MICA_I8);
}

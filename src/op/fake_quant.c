/* Fake quantisation with straight-through gradients, as compositions whose values are those of the
 * rounded numbers, and whose gradients are those of another function. */
#include <mica/grad.h>
#include <mica/nn.h>

#include <math.h>

#include "base/options.h"
#include "op/build.h"

/* What both ops share. x and its scale are f32. */
typedef struct levels {
    mica_array x, scale; /* scale [C, 1 ..] to meet x, or [1] */
    mica_dtype dtype;    /* of the result */
    float q;             /* the largest code */
    int axis;            /* -1: one scale */
    int64_t channels, ndim;
} levels;

static bool begin(mica_scope *s, const char *op, mica_array x, int bits, const int *axis,
                  levels *l) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, op, &x, 1)) return false;
    const mc_layout *layout = mc_layout_of(x);
    *l = (levels){.dtype = layout->dtype, .axis = -1, .channels = 1, .ndim = layout->ndim};
    if (!mica_dtype_is_float(layout->dtype)) {
        mc_scope_fail(s, MICA_EDTYPE, "%s: %s is not a float", op, mc_layout_text(layout, text));
        return false;
    }
    if (bits < 2 || bits > 8) {
        mc_scope_fail(s, MICA_EINVAL, "%s: %d bits, 2 to 8 are possible", op, bits);
        return false;
    }
    if (axis) {
        if (!mc_find_axis(s, op, layout, *axis, &l->axis)) return false;
        l->channels = layout->shape[l->axis];
    }
    l->q = (float)((1 << (bits - 1)) - 1);
    l->x = mc_cast(s, x, MICA_F32);
    return true;
}

/* [C] or [1] f32, at least 1e-12, so that it meets x. */
static mica_array as_scale(mica_scope *s, const levels *l, mica_array scale) {
    int64_t shape[MICA_MAX_NDIM] = {l->channels};
    int ndim = l->axis < 0 ? 1 : (int)l->ndim - l->axis;
    for (int k = 1; k < ndim; k++)
        shape[k] = 1;
    if (l->ndim == 0) ndim = 0;
    scale = mica_maximum(s, scale, mica_f32(s, 1e-12f));
    return mica_reshape(s, scale, shape, ndim);
}

/* max |x| / Q of each channel: [C] or [1]. */
static mica_array largest(mica_scope *s, const levels *l) {
    int axes[MICA_MAX_NDIM], n = 0;
    for (int k = 0; k < l->ndim; k++)
        if (k != l->axis) axes[n++] = k;
    mica_array y = mica_abs(s, l->x);
    if (mica_array_size(y) == 0) return mica_zeros(s, &l->channels, 1, MICA_F32);
    if (n > 0) y = mica_max(s, y, axes, n, false);
    y = mica_reshape(s, y, &l->channels, 1);
    return mica_divide(s, y, mica_f32(s, l->q));
}

/* Checks a given scale or state. */
static bool given(mica_scope *s, const char *op, const levels *l, mica_array *scale) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, op, scale, 1)) return false;
    const mc_layout *layout = mc_layout_of(*scale);
    if (layout->ndim == 1 && mica_dtype_is_float(layout->dtype) &&
        (layout->shape[0] == l->channels || layout->shape[0] == 1)) {
        *scale = mc_cast(s, *scale, MICA_F32);
        *scale = mc_broadcast(s, *scale, &l->channels, 1);
        return mica_valid(*scale);
    }
    mc_scope_fail(s, MICA_ESHAPE, "%s: the scale is %s; it has %lld elements, or one", op,
                  mc_layout_text(layout, text), (long long)l->channels);
    return false;
}

static mica_array rounded(mica_scope *s, const levels *l) {
    mica_array q = mica_round(s, mica_divide(s, l->x, l->scale));
    q = mica_clip(s, q, mica_f32(s, -l->q), mica_f32(s, l->q));
    return mica_multiply(s, q, l->scale);
}

/* The value of y with the gradient of f, which is finite: f - f is 0. */
static mica_array value_of(mica_scope *s, mica_array y, mica_array f) {
    mica_array nothing = mica_subtract(s, f, mica_stop_gradient(s, f));
    return mica_add(s, mica_stop_gradient(s, y), nothing);
}

/* The function whose gradient is taken, of x alone. Where x is infinite or NaN, that is 0. */
static mica_array estimate(mica_scope *s, const levels *l, mica_ste ste, bool wide) {
    mica_array scale = mica_stop_gradient(s, l->scale), zero = mica_f32(s, 0);
    mica_array x = mica_where(s, mica_isfinite(s, l->x), l->x, zero);
    mica_array end = mica_multiply(s, scale, mica_f32(s, l->q)), size = mica_abs(s, x);
    switch (ste) {
    case MICA_STE_CLIPPED:
        return mica_where(s, mica_less_equal(s, size, end), x, zero);
    case MICA_STE_TANH: /* s tanh(x / s) */
        if (wide) scale = end;
        return mica_multiply(s, scale, mica_tanh(s, mica_divide(s, x, scale)));
    case MICA_STE_HARD_TANH: { /* x - x |x| / (2 Q s), of x cut to where that rises */
        x = mica_clip(s, x, mica_negative(s, end), end);
        mica_array bend = mica_multiply(s, x, mica_abs(s, x));
        bend = mica_divide(s, bend, mica_multiply(s, end, mica_f32(s, 2)));
        return mica_subtract(s, x, bend);
    }
    default:
        return x;
    }
}

mica_array mica_fake_quantize(mica_scope *s, mica_array x,
                              const mica_fake_quantize_options *options, mica_array *new_state) {
    static const char *const op = "fake_quantize";
    mica_fake_quantize_options o;
    levels l;
    if (new_state) *new_state = mc_invalid(s);
    mica_status status = MC_OPTIONS_COPY(mica_fake_quantize_options, scale, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    if (!begin(s, op, x, o.bits ? o.bits : 8, o.axis, &l)) return mc_invalid(s);
    if (o.mode < MICA_SCALE_BATCH || o.mode > MICA_SCALE_EMA || o.ste < MICA_STE_IDENTITY ||
        o.ste > MICA_STE_HARD_TANH || !(o.decay >= 0 && o.decay <= 1))
        return mc_scope_fail(s, MICA_EINVAL, "%s: mode %d, estimator %d, decay %g", op, (int)o.mode,
                             (int)o.ste, (double)o.decay);
    mica_array scale = o.scale;
    if (o.mode != MICA_SCALE_BATCH && !given(s, op, &l, &scale)) return mc_invalid(s);
    if (o.mode == MICA_SCALE_BATCH) scale = largest(s, &l);
    if (o.mode == MICA_SCALE_EMA) {
        mica_array now = largest(s, &l), kept = mica_multiply(s, scale, mica_f32(s, o.decay));
        mica_array mixed = mica_add(s, kept, mica_multiply(s, now, mica_f32(s, 1 - o.decay)));
        mica_array starts = mica_less_equal(s, scale, mica_f32(s, 0));
        scale = mica_where(s, starts, now, mixed);
    }
    scale = mica_stop_gradient(s, scale);
    if (new_state) *new_state = scale;
    l.scale = as_scale(s, &l, scale);
    mica_array y = value_of(s, rounded(s, &l), estimate(s, &l, o.ste, o.wide));
    return mc_cast(s, y, l.dtype);
}

mica_array mica_fake_quantize_lsq(mica_scope *s, mica_array x, mica_array scale, int bits,
                                  const int *axis, float scale_gradient) {
    static const char *const op = "fake_quantize_lsq";
    levels l;
    if (!begin(s, op, x, bits, axis, &l) || !given(s, op, &l, &scale)) return mc_invalid(s);
    l.scale = as_scale(s, &l, scale);
    int64_t n = l.channels > 0 ? mc_dim_div(mica_array_size(x), l.channels) : 0;
    if (scale_gradient == 0 && mc_dim_has_symbols(n)) return mc_need_number(s, op, n);
    double factor = (double)scale_gradient;
    if (factor == 0) factor = n > 0 ? 1 / sqrt((double)n * (double)l.q) : 0;
    /* psi(z) = round(z) - z, beyond Q its sign times Q */
    mica_array z = mica_stop_gradient(s, mica_divide(s, l.x, l.scale));
    mica_array within = mica_less_equal(s, mica_abs(s, z), mica_f32(s, l.q));
    mica_array end = mica_multiply(s, mica_sign(s, z), mica_f32(s, l.q));
    mica_array psi = mica_where(s, within, mica_subtract(s, mica_round(s, z), z), end);
    psi = mica_where(s, mica_isfinite(s, z), psi, mica_f32(s, 0));
    psi = mica_multiply(s, psi, mica_f32(s, (float)factor));
    mica_array by_scale = mica_multiply(s, l.scale, mica_stop_gradient(s, psi));
    mica_array by_x = estimate(s, &l, MICA_STE_CLIPPED, false);
    mica_array y = value_of(s, rounded(s, &l), mica_add(s, by_x, by_scale));
    return mc_cast(s, y, l.dtype);
}

/* Fourier transforms. The op transforms rows of pairs of f32; cropping, padding, halves of
 * spectra and scales are plain ops around it. */
#include <mica/signal.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/complex.h"
#include "op/gradient.h"
#include "op/window.h"
#include "op/work.h"

/* x [..., n, 2] of floats -> f32 [..., n, 2], without a scale. */
static mica_status fft_infer(const void *attr, const mc_layout *const *in, int n_in,
                             mc_layout *out) {
    (void)n_in;
    const mc_attr_fft *a = attr;
    const mc_layout *x = in[0];
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(x->dtype) || x->ndim < 2 || x->shape[x->ndim - 1] != 2)
        return mc_fail(MICA_ESHAPE, "fft: %s is no rows of pairs of floats",
                       mc_layout_text(x, text));
    if (a->inverse != 0 && a->inverse != 1)
        return mc_fail(MICA_EINVAL, "fft: inverse must be 0 or 1");
    if (mc_dim_less(MC_WINDOW_LIMIT - 1, x->shape[x->ndim - 2]))
        return mc_fail(MICA_EINVAL, "fft: %s: rows of 2^30 - 1 numbers are possible",
                       mc_layout_text(x, text));
    *out = *x;
    out->dtype = MICA_F32;
    return MICA_OK;
}

/* 5 n log2 n for a row of n complex numbers. */
static MC_WORK_RULE(fft_work) {
    (void)attr, (void)n_in, (void)out;
    double n = (double)in[0]->shape[in[0]->ndim - 2];
    work->kind = MC_WORK_FFT;
    work->operations = 2.5 * (double)mc_layout_size(in[0]) * log2(n < 2 ? 2 : n);
}

MC_OP(fft, 1, 1, MC_ATTR(fft), .infer = fft_infer, .work = fft_work);

/* Without a scale, each direction is the other's adjoint. */
static bool fft_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_attr_fft *a = n->attr;
    *dx = mc_record(n->s, MC_OP_FFT, &(mc_attr_fft){!a->inverse}, dy, 1);
    return true;
}
MC_GRADIENT(fft, fft_vjp, mc_linear_jvp);

/* ---- along one axis ---- */

/* The scale, f32 []; MICA_NONE: there is none. */
static mica_array scale_of(mica_scope *s, mica_fft_norm norm, bool inverse, int64_t n) {
    bool ortho = norm == MICA_FFT_ORTHO;
    if (!ortho && norm != (inverse ? MICA_FFT_BACKWARD : MICA_FFT_FORWARD)) return MICA_NONE;
    if (!mc_dim_has_symbols(n))
        return mica_f32(s, (float)(1 / (ortho ? sqrt((double)n) : (double)n)));
    mica_array points = mica_scalar(s, (double)n, MICA_F32);
    if (ortho) points = mica_sqrt(s, points);
    return mica_divide(s, mica_f32(s, 1), points);
}

/* x cut, or with zeros behind it, to n elements along an axis. */
static mica_array with_length(mica_scope *s, mica_array x, int axis, int64_t n) {
    int64_t length = mica_array_dim(x, axis), before[MICA_MAX_NDIM] = {0},
            after[MICA_MAX_NDIM] = {0};
    if (length == n) return x;
    int64_t kept = mc_dim_compute(MC_DIM_MIN, n, length);
    if (kept != length) x = mica_slice_axis(s, x, axis, 0, kept);
    if (kept == n) return x;
    after[axis] = mc_dim_sub(n, kept);
    return mica_pad(s, x, before, after, mica_scalar(s, 0, mica_array_dtype(x)));
}

/* x c64 along its last axis, which has all its elements. */
static mica_array transform_rows(mica_scope *s, mica_array x, bool inverse, mica_fft_norm norm) {
    if (!mica_valid(x)) return mc_invalid(s);
    int64_t n = mica_array_dim(x, -1);
    int64_t count = 1;
    if (mica_array_size(x) == 0) return x;
    for (int k = 0; k < mica_array_ndim(x) - 1; k++)
        count = mc_dim_mul(count, mica_array_dim(x, k));
    const int64_t rows[3] = {count, n, 2};
    mica_array scale = scale_of(s, norm, inverse, n);
    mica_array y = mica_reshape(s, mc_complex_pairs(s, x), rows, 3);
    y = mc_record(s, MC_OP_FFT, &(mc_attr_fft){inverse}, &y, 1);
    if (scale.scope) y = mica_multiply(s, y, scale);
    return mc_complex_of(s, y, mica_array_shape(x), mica_array_ndim(x));
}

/* Checks x and finds the axis. n: the number of points of the transform; one with symbols is
 * checked when they get their values. */
static bool find_axis(mica_scope *s, const char *name, mica_array x, int axis, int64_t n, int *at) {
    if (!mc_operands_ok(s, name, &x, 1)) return false;
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, at)) return false;
    if (mc_dim_has_symbols(n)) return true;
    if (n >= 1 && n < MC_WINDOW_LIMIT) return true;
    mc_scope_fail(s, MICA_EINVAL, "%s: %lld points, 1 to 2^30 - 1 are possible", name,
                  (long long)n);
    return false;
}

static int64_t points(mica_array x, int axis, int64_t n) {
    return n != 0 ? n : mica_array_dim(x, axis);
}

static mica_array along(mica_scope *s, const char *name, mica_array x, int64_t n, int axis,
                        mica_fft_norm norm, bool inverse) {
    int at;
    n = points(x, axis, n);
    if (!find_axis(s, name, x, axis, n, &at)) return mc_invalid(s);
    x = mica_moveaxis(s, mica_astype(s, with_length(s, x, at, n), MICA_C64), at, -1);
    x = transform_rows(s, x, inverse, norm);
    return mica_moveaxis(s, x, -1, at);
}

static mica_array real_along(mica_scope *s, const char *name, mica_array x, int64_t n, int axis,
                             mica_fft_norm norm) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) == MICA_C64)
        return mc_scope_fail(s, MICA_EDTYPE, "%s: x must be of real numbers; use fft", name);
    n = points(x, axis, n);
    x = along(s, name, x, n, axis, norm, false);
    return mica_slice_axis(s, x, axis, 0, mc_dim_add(mc_dim_div(n, 2), 1));
}

/* The spectrum of real numbers from its first half. */
static mica_array inverse_real_along(mica_scope *s, const char *name, mica_array x, int64_t n,
                                     int axis, mica_fft_norm norm) {
    int at;
    if (n == 0) n = mc_dim_mul(2, mc_dim_sub(mica_array_dim(x, axis), 1));
    if (!find_axis(s, name, x, axis, n, &at)) return mc_invalid(s);
    int64_t bins = mc_dim_add(mc_dim_div(n, 2), 1);
    x = mica_moveaxis(s, mica_astype(s, with_length(s, x, at, bins), MICA_C64), at, -1);
    mica_array rest = mica_slice_axis(s, x, -1, 1, mc_dim_add(mc_dim_sub(n, bins), 1));
    const mica_array both[2] = {x, mica_conjugate(s, mica_flip(s, rest, -1))};
    x = transform_rows(s, mica_concatenate(s, both, 2, -1), true, norm);
    return mica_moveaxis(s, mica_real(s, x), -1, at);
}

mica_array mica_fft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm) {
    return along(s, "fft", x, n, axis, norm, false);
}

mica_array mica_ifft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm) {
    return along(s, "ifft", x, n, axis, norm, true);
}

mica_array mica_rfft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm) {
    return real_along(s, "rfft", x, n, axis, norm);
}

mica_array mica_irfft(mica_scope *s, mica_array x, int64_t n, int axis, mica_fft_norm norm) {
    return inverse_real_along(s, "irfft", x, n, axis, norm);
}

/* ---- along several axes ---- */

typedef enum family { FFT, IFFT, RFFT, IRFFT } family;

static mica_array along_all(mica_scope *s, const char *name, mica_array x, const int64_t *n,
                            const int *axes, int n_axes, mica_fft_norm norm, family f) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    int ndim = mica_array_ndim(x), all[MICA_MAX_NDIM];
    if (n_axes == 0 && !axes) n_axes = ndim;
    if (n_axes < 1 || n_axes > ndim)
        return mc_scope_fail(s, MICA_EINVAL, "%s: %d axes of an array with %d", name, n_axes, ndim);
    for (int i = 0; i < n_axes; i++)
        if (!mc_find_axis(s, name, mc_layout_of(x), axes ? axes[i] : ndim - n_axes + i, &all[i]))
            return mc_invalid(s);
    int last = n_axes - 1;
    int64_t end = n ? n[last] : 0;
    if (f == RFFT) x = real_along(s, name, x, end, all[last], norm);
    int count = f == RFFT || f == IRFFT ? last : n_axes;
    for (int i = count - 1; i >= 0 && mica_valid(x); i--)
        x = along(s, name, x, n ? n[i] : 0, all[i], norm, f == IFFT || f == IRFFT);
    return f == IRFFT && mica_valid(x) ? inverse_real_along(s, name, x, end, all[last], norm) : x;
}

#define SEVERAL(ENUM, name)                                                                    \
    mica_array mica_##name##2(mica_scope * s, mica_array x, const int64_t *n, const int *axes, \
                              mica_fft_norm norm) {                                            \
        return along_all(s, #name "2", x, n, axes, 2, norm, ENUM);                             \
    }                                                                                          \
    mica_array mica_##name##n(mica_scope *s, mica_array x, const int64_t *n, const int *axes,  \
                              int n_axes, mica_fft_norm norm) {                                \
        return along_all(s, #name "n", x, n, axes, n_axes, norm, ENUM);                        \
    }
SEVERAL(FFT, fft)
SEVERAL(IFFT, ifft)
SEVERAL(RFFT, rfft)
SEVERAL(IRFFT, irfft)

/* ---- helpers ---- */

static mica_array shift(mica_scope *s, const char *name, mica_array x, const int *axes, int n_axes,
                        bool back) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    bool all = !axes && n_axes == 0;
    if (all) n_axes = mica_array_ndim(x);
    for (int i = 0; i < n_axes; i++) {
        int at;
        if (!mc_find_axis(s, name, mc_layout_of(x), all ? i : axes[i], &at)) return mc_invalid(s);
        int64_t half = mc_dim_div(mica_array_dim(x, at), 2);
        x = mica_roll(s, x, back ? mc_dim_sub(0, half) : half, at);
        if (!mica_valid(x)) return x;
    }
    return x;
}

mica_array mica_fftshift(mica_scope *s, mica_array x, const int *axes, int n_axes) {
    return shift(s, "fftshift", x, axes, n_axes, false);
}

mica_array mica_ifftshift(mica_scope *s, mica_array x, const int *axes, int n_axes) {
    return shift(s, "ifftshift", x, axes, n_axes, true);
}

static bool is_length(mica_scope *s, const char *name, int64_t n) {
    if (mc_dim_has_symbols(n)) return mica_valid(mc_need_number(s, name, n));
    if (n >= 1 && n < MC_WINDOW_LIMIT) return true;
    mc_scope_fail(s, MICA_EINVAL, "%s: %lld points, 1 to 2^30 - 1 are possible", name,
                  (long long)n);
    return false;
}

mica_array mica_fftfreq(mica_scope *s, int64_t n) {
    if (!is_length(s, "fftfreq", n)) return mc_invalid(s);
    const mica_array both[2] = {mica_arange(s, 0, (double)((n + 1) / 2), 1, MICA_F32),
                                mica_arange(s, -(double)(n / 2), 0, 1, MICA_F32)};
    return mica_divide(s, mica_concatenate(s, both, 2, 0), mica_f32(s, (float)n));
}

mica_array mica_rfftfreq(mica_scope *s, int64_t n) {
    if (!is_length(s, "rfftfreq", n)) return mc_invalid(s);
    mica_array bins = mica_arange(s, 0, (double)(n / 2 + 1), 1, MICA_F32);
    return mica_divide(s, bins, mica_f32(s, (float)n));
}

mica_array mica_stft(mica_scope *s, mica_array x, int64_t frame, int64_t hop, mica_fft_norm norm) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "stft", &x, 1)) return mc_invalid(s);
    if (frame < 1 || hop < 1 || hop >= MC_WINDOW_LIMIT)
        return mc_scope_fail(s, MICA_EINVAL, "stft: frames of %lld, %lld apart", (long long)frame,
                             (long long)hop);
    int last = mica_array_ndim(x) - 1;
    if (last < 0 || last + 2 > MICA_MAX_NDIM || mc_dim_less(mica_array_dim(x, last), frame))
        return mc_scope_fail(s, MICA_ESHAPE, "stft: %s has no frame of %lld along its last axis",
                             mc_layout_text(mc_layout_of(x), text), (long long)frame);
    const mc_window w = {mica_array_dim(x, last), frame, hop, 1, 1, 0, 0};
    return mica_rfft(s, mc_window_view(s, x, &w, 1, last), 0, -1, norm);
}

mica_array mica_psd(mica_scope *s, mica_array x, int64_t n) {
    if (!is_length(s, "psd", n)) return mc_invalid(s);
    mica_array re = mica_square(s, mica_real(s, x)), im = mica_square(s, mica_imag(s, x));
    return mica_divide(s, mica_add(s, re, im), mica_f32(s, (float)n));
}

mica_array mica_fft_conv1d(mica_scope *s, mica_array a, mica_array b) {
    const mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "fft_conv1d", in, 2)) return mc_invalid(s);
    int64_t la = mica_array_dim(a, -1), lb = mica_array_dim(b, -1), n = 1;
    if (la < 1 || lb < 1)
        return mc_scope_fail(s, MICA_ESHAPE, "fft_conv1d: both need elements along the last axis");
    if (mc_dim_has_symbols(mc_dim_add(la, lb)))
        return mc_need_number(s, "fft_conv1d", mc_dim_add(la, lb));
    while (n < la + lb - 1)
        n *= 2;
    mica_array y = mica_multiply(s, mica_rfft(s, a, n, -1, MICA_FFT_BACKWARD),
                                 mica_rfft(s, b, n, -1, MICA_FFT_BACKWARD));
    y = mica_irfft(s, y, n, -1, MICA_FFT_BACKWARD);
    return mica_slice_axis(s, y, -1, 0, la + lb - 1);
}

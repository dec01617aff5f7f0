/* Resize: each axis by itself, by picking elements, or by sums of few of them; where one is a sum
 * of many, by a product with a matrix of weights that is made while importing. Where an axis has a
 * length with symbols the program computes the places and weights of the few elements that each one
 * comes from. */
#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/dim.h"

#include <mica/ops.h>

#include <math.h>
#include <stdlib.h>

#define MAX_WEIGHTS (INT64_C(1) << 24)

/* An axis: `length` elements become `out`. */
typedef struct axis {
    int64_t length, out;
    double scale, begin, end; /* begin, end: of the region of interest */
    int64_t first, count;     /* elements of the result that are made at a time */
} axis;

typedef struct resize {
    mc_str mode, place, nearest;
    double cubic, outside;
    bool antialias, exclude;
    size_t roi, scales, sizes; /* operands; SIZE_MAX: this version has none */
} resize;

enum { FULL_OPSET = 11 }; /* before it Resize had scales alone, and its places were Upsample's */

/* ---- where elements come from ---- */

/* The place in the operand of element i of the result. */
static double place_of(const resize *r, const axis *a, int64_t i) {
    double at = (double)i, length = (double)a->length, out = (double)a->out;
    if (mc_str_is(r->place, "asymmetric")) return at / a->scale;
    if (mc_str_is(r->place, "align_corners")) {
        out = a->scale * length; /* which need not be whole */
        return out == 1 ? 0 : at * (length - 1) / (out - 1);
    }
    if (mc_str_is(r->place, "pytorch_half_pixel") && a->out == 1) return 0;
    if (mc_str_is(r->place, "tf_crop_and_resize")) {
        if (a->out == 1) return 0.5 * (a->begin + a->end) * (length - 1);
        return a->begin * (length - 1) + at * (a->end - a->begin) * (length - 1) / (out - 1);
    }
    if (mc_str_is(r->place, "tf_half_pixel_for_nn")) return (at + 0.5) / a->scale;
    double offset = 0;
    if (mc_str_is(r->place, "half_pixel_symmetric"))
        offset = length / 2 * (1 - out / (a->scale * length));
    return offset + (at + 0.5) / a->scale - 0.5;
}

static bool is_place(mc_str text) {
    static const char *const names[] = {
        "asymmetric", "align_corners",        "pytorch_half_pixel",  "tf_crop_and_resize",
        "half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (mc_str_is(text, names[i])) return true;
    return false;
}

/* The nearest element by a mode; "simple" is that of the oldest files. */
static mc_str nearest_mode(const resize *r, const axis *a) {
    if (!mc_str_is(r->nearest, "simple")) return r->nearest;
    return mc_str_of(a->scale < 1 ? "ceil" : "floor");
}

static int64_t nearest_of(const resize *r, const axis *a, double at) {
    double whole = ceil(at - 0.5);
    mc_str mode = nearest_mode(r, a);
    if (mc_str_is(mode, "round_prefer_ceil")) whole = floor(at + 0.5);
    if (mc_str_is(mode, "floor")) whole = floor(at);
    if (mc_str_is(mode, "ceil")) whole = ceil(at);
    return mc_to_i64(fmax(0, fmin(whole, (double)(a->length - 1))));
}

/* Whether a place is one that has no element: of a region that leads out of the operand. */
static bool is_outside(const resize *r, const axis *a, double at) {
    return mc_str_is(r->place, "tf_crop_and_resize") && (at < 0 || at > (double)(a->length - 1));
}

/* ---- weights ---- */

/* Of an element at a distance. source  Keys 1981 for the cubic ones */
static double weight_of(const resize *r, double distance) {
    double d = fabs(distance), a = r->cubic;
    if (mc_str_is(r->mode, "linear")) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* A row of weights [length]: those of elements outside are the edge's, or none. */
static void fill_row(const resize *r, const axis *a, double at, float *row) {
    double scale = r->antialias ? fmin(a->scale, 1) : 1, sum = 0;
    double reach = (mc_str_is(r->mode, "linear") ? 1 : 2) / scale;
    int64_t from = (int64_t)floor(at - reach), to = (int64_t)ceil(at + reach);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = from; k <= to; k++) {
            double weight = weight_of(r, ((double)k - at) * scale);
            if (r->exclude && (k < 0 || k >= a->length)) continue;
            if (pass == 0) sum += weight;
            int64_t in = mc_max(0, mc_min(k, a->length - 1));
            if (pass == 1) row[in] += (float)(sum != 0 ? weight / sum : weight);
        }
}

static mica_status weights(mc_onnx_node *n, const resize *r, const axis *a, mica_array *w) {
    if (a->out > MAX_WEIGHTS / mc_max(a->length, 1)) return mc_onnx_refuse("images of this size");
    MC_TRY(mc_onnx_charge(n->import, (uint64_t)(a->out * a->length) * sizeof(float)));
    float *rows = mc_calloc((size_t)(a->out * a->length) + 1, sizeof *rows);
    if (!rows) return mc_fail_nomem("a resize");
    for (int64_t i = 0; i < a->out; i++) {
        double at = place_of(r, a, i);
        if (!is_outside(r, a, at) && fabs(at) < 1e15) fill_row(r, a, at, rows + i * a->length);
    }
    *w = mica_from_data(n->s, rows, MICA_F32, (int64_t[]){a->out, a->length}, 2);
    mc_free(rows);
    return mica_scope_status(n->s);
}

/* The most elements that one of the result is a sum of; 0: too many. */
static int taps_of(const resize *r, const axis *a) {
    if (r->antialias && a->scale < 1) return 0;
    return mc_str_is(r->mode, "linear") ? 2 : 4;
}

/* The weights of the elements that one of the result comes from, and their numbers: one set of
 * each of `taps`, which are `count` apart. */
static void fill_taps(const resize *r, const axis *a, double at, int taps, int64_t *from,
                      float *w) {
    double sum = 0, weight[4];
    int64_t first = (int64_t)floor(at) + 1 - taps / 2;
    for (int t = 0; t < taps; t++) {
        int64_t k = first + t;
        bool left_out = r->exclude && (k < 0 || k >= a->length);
        weight[t] = left_out ? 0 : weight_of(r, (double)k - at);
        sum += weight[t];
        from[t * a->count] = mc_max(0, mc_min(k, a->length - 1));
    }
    for (int t = 0; t < taps; t++)
        w[t * a->count] = (float)(sum != 0 ? weight[t] / sum : weight[t]);
}

/* x with axis k resized, as a sum of few elements along it, each times its weight. */
static mica_status sum_few(mc_onnx_node *n, const resize *r, const axis *a, int k, int taps,
                           mica_array x, mica_array *y) {
    if (a->out > MAX_WEIGHTS / taps) return mc_onnx_refuse("images of this size");
    size_t count = (size_t)(a->count * taps);
    MC_TRY(mc_onnx_charge(n->import, count * (sizeof(int64_t) + sizeof(float))));
    int64_t *from = mc_calloc(count + 1, sizeof *from);
    float *w = mc_calloc(count + 1, sizeof *w);
    if (!from || !w) {
        mc_free(from);
        mc_free(w);
        return mc_fail_nomem("a resize");
    }
    for (int64_t i = 0; i < a->count; i++) {
        double at = place_of(r, a, a->first + i);
        if (!is_outside(r, a, at) && fabs(at) < 1e15) fill_taps(r, a, at, taps, from + i, w + i);
    }
    for (int t = 0; t < taps; t++) {
        mica_array index = mica_from_data(n->s, from + t * a->count, MICA_I64, &a->count, 1);
        mica_array weight = mica_from_data(n->s, w + t * a->count, MICA_F32, &a->count, 1);
        weight = mc_onnx_along(n->s, weight, k, mica_array_ndim(x));
        mica_array part = mica_multiply(n->s, mica_take(n->s, x, index, k), weight);
        *y = t == 0 ? part : mica_add(n->s, *y, part);
    }
    mc_free(from);
    mc_free(w);
    return mica_scope_status(n->s);
}

/* Elements of axis k by their numbers; 0 where the number is -1. */
static mica_array take_or_0(mc_onnx_node *n, mica_array x, mica_array index, int k) {
    mica_array none = mica_less(n->s, index, mica_scalar(n->s, 0, MICA_I64));
    none = mc_onnx_along(n->s, none, k, mica_array_ndim(x));
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(x));
    return mica_where(n->s, none, zero, mica_take(n->s, x, index, k));
}

static mica_status pick(mc_onnx_node *n, const resize *r, const axis *a, int k, mica_array *x) {
    bool outside = false;
    if (a->out > MAX_WEIGHTS) return mc_onnx_refuse("images of this size");
    MC_TRY(mc_onnx_charge(n->import, (uint64_t)a->out * sizeof(int64_t)));
    int64_t *at = mc_array_alloc((size_t)a->out + 1, sizeof *at);
    if (!at) return mc_fail_nomem("a resize");
    for (int64_t i = 0; i < a->out; i++) {
        double place = place_of(r, a, i);
        bool none = is_outside(r, a, place);
        at[i] = none ? -1 : nearest_of(r, a, place);
        outside = outside || none;
    }
    mica_array index = mica_from_data(n->s, at, MICA_I64, (int64_t[]){a->out}, 1);
    mc_free(at);
    *x = outside ? take_or_0(n, *x, index, k) : mica_take(n->s, *x, index, k);
    return mica_scope_status(n->s);
}

/* ---- lengths with symbols ---- */

static mica_array plus(mc_onnx_node *n, mica_array x, double value) {
    return mica_add(n->s, x, mc_onnx_f32(n, value));
}

/* x / scale, as x length / out where that is how the scale is known. */
static mica_array unscaled(mc_onnx_node *n, const axis *a, mica_array x) {
    if (!isnan(a->scale)) return mica_divide(n->s, x, mc_onnx_f32(n, a->scale));
    x = mica_multiply(n->s, x, mc_onnx_f32(n, (double)a->length));
    return mica_divide(n->s, x, mc_onnx_f32(n, (double)a->out));
}

/* place_of for all elements of the result: f32 [out]. */
static mica_status open_places(mc_onnx_node *n, const resize *r, const axis *a, mica_array *at) {
    mica_array i = mica_arange(n->s, 0, (double)a->out, 1, MICA_F32), one = mc_onnx_f32(n, 1);
    bool pytorch = mc_str_is(r->place, "pytorch_half_pixel");
    if (mc_str_is(r->place, "asymmetric")) {
        *at = unscaled(n, a, i);
    } else if (mc_str_is(r->place, "align_corners")) {
        mica_array gaps = mica_maximum(n->s, plus(n, mc_onnx_f32(n, (double)a->out), -1), one);
        *at = mica_multiply(n->s, i, plus(n, mc_onnx_f32(n, (double)a->length), -1));
        *at = mica_divide(n->s, *at, gaps);
    } else if (mc_str_is(r->place, "tf_half_pixel_for_nn")) {
        *at = unscaled(n, a, plus(n, i, 0.5));
    } else if (mc_str_is(r->place, "half_pixel") || pytorch) {
        *at = plus(n, unscaled(n, a, plus(n, i, 0.5)), -0.5);
        mica_array several = mica_greater(n->s, mc_onnx_f32(n, (double)a->out), one);
        if (pytorch) *at = mica_where(n->s, several, *at, mc_onnx_f32(n, 0));
    } else {
        MC_TRY(mc_onnx_need_number(n->import, "an axis that is resized so", a->length));
        return mc_onnx_need_number(n->import, "an axis that is resized so", a->out);
    }
    return MICA_OK;
}

/* Elements of axis k at places f32 [out], which are whole; beyond an edge the edge. */
static mica_array take_at(mc_onnx_node *n, const axis *a, int k, mica_array x, mica_array at) {
    mica_array last = plus(n, mc_onnx_f32(n, (double)a->length), -1);
    at = mica_clip(n->s, at, mc_onnx_f32(n, 0), last);
    return mica_take(n->s, x, mica_astype(n->s, at, MICA_I32), k);
}

static mica_array open_nearest(mc_onnx_node *n, const resize *r, const axis *a, int k, mica_array x,
                               mica_array at) {
    mc_str mode = nearest_mode(r, a);
    if (mc_str_is(mode, "floor"))
        at = mica_floor(n->s, at);
    else if (mc_str_is(mode, "ceil"))
        at = mica_ceil(n->s, at);
    else if (mc_str_is(mode, "round_prefer_ceil"))
        at = mica_floor(n->s, plus(n, at, 0.5));
    else
        at = mica_ceil(n->s, plus(n, at, -0.5));
    return take_at(n, a, k, x, at);
}

/* weight_of a distance d >= 0 f32, which is at most 1 or lies between 1 and 2. */
static mica_array open_weight(mc_onnx_node *n, const resize *r, mica_array d, bool near) {
    double a = r->cubic;
    mica_scope *s = n->s;
    if (mc_str_is(r->mode, "linear")) return mica_subtract(s, mc_onnx_f32(n, 1), d);
    mica_array y =
        plus(n, mica_multiply(s, d, mc_onnx_f32(n, near ? a + 2 : a)), near ? -a - 3 : -5 * a);
    if (near) return plus(n, mica_multiply(s, mica_multiply(s, y, d), d), 1);
    y = plus(n, mica_multiply(s, y, d), 8 * a);
    return plus(n, mica_multiply(s, y, d), -4 * a);
}

/* The weighted sum of the 2 or 4 elements around each place. */
static mica_array open_sum(mc_onnx_node *n, const resize *r, const axis *a, int k, mica_array x,
                           mica_array at) {
    int reach = mc_str_is(r->mode, "linear") ? 1 : 2, ndim = mica_array_ndim(x);
    mica_array first = mica_floor(n->s, at), y = MICA_NONE;
    for (int i = 1 - reach; i <= reach; i++) {
        mica_array from = plus(n, first, i);
        mica_array d = mica_abs(n->s, mica_subtract(n->s, at, from));
        mica_array w = open_weight(n, r, d, i == 0 || i == 1);
        mica_array part =
            mica_multiply(n->s, take_at(n, a, k, x, from), mc_onnx_along(n->s, w, k, ndim));
        y = y.scope ? mica_add(n->s, y, part) : part;
    }
    return y;
}

static mica_status resize_open(mc_onnx_node *n, const resize *r, const axis *a, int k,
                               mica_array *x) {
    mica_array at;
    mica_dtype dtype = mica_array_dtype(*x);
    if (r->antialias || r->exclude) {
        MC_TRY(mc_onnx_need_number(n->import, "an axis that is resized so", a->length));
        MC_TRY(mc_onnx_need_number(n->import, "an axis that is resized so", a->out));
    }
    MC_TRY(open_places(n, r, a, &at));
    if (mc_str_is(r->mode, "nearest")) {
        *x = open_nearest(n, r, a, k, *x, at);
    } else {
        *x = open_sum(n, r, a, k, mica_astype(n->s, *x, MICA_F32), at);
        *x = mica_astype(n->s, *x, dtype);
    }
    return mica_scope_status(n->s);
}

/* x with axis k resized. */
static mica_status resize_axis(mc_onnx_node *n, const resize *r, const axis *a, int k,
                               mica_array *x) {
    if (a->length == 0) return mc_fail(MICA_ESHAPE, "an axis is empty");
    if (mc_dim_has_symbols(a->length) || mc_dim_has_symbols(a->out))
        return resize_open(n, r, a, k, x);
    if (mc_str_is(r->mode, "nearest")) return pick(n, r, a, k, x);
    mica_array w, y;
    mica_dtype dtype = mica_array_dtype(*x);
    int taps = taps_of(r, a);
    if (taps > 0) {
        MC_TRY(sum_few(n, r, a, k, taps, mica_astype(n->s, *x, MICA_F32), &y));
    } else {
        MC_TRY(weights(n, r, a, &w));
        y = mica_moveaxis(n->s, mica_astype(n->s, *x, MICA_F32), k, -1);
        y = mica_moveaxis(n->s, mica_matmul(n->s, y, mica_transpose(n->s, w, NULL)), -1, k);
    }
    *x = mica_astype(n->s, y, dtype);
    return mica_scope_status(n->s);
}

/* ---- lengths ---- */

/* The numbers of an operand; count: how many, 0 where it is absent. */
static mica_status read_reals(const mc_onnx_node *n, size_t i, int max, double *list, int *count) {
    mica_iter it = {0};
    *count = 0;
    if (!mc_onnx_has(n, i) || mica_array_size(n->in[i].x) == 0) return MICA_OK;
    MC_TRY(mc_onnx_need_known(n, i));
    if (mica_array_size(n->in[i].x) > max)
        return mc_fail(MICA_EFORMAT, "operand %zu is too long", i);
    mica_array x = mica_astype(n->import->constants, n->in[i].x, MICA_F32);
    while (mica_next(x, &it))
        list[(*count)++] = (double)*(const float *)it.value;
    return it.status;
}

/* Scales by sizes: of all axes one that keeps the aspect, where that is asked for. */
static mica_status set_sizes(const mc_onnx_node *n, axis *axes, int count) {
    mc_str policy = mc_onnx_text(n, "keep_aspect_ratio_policy", "stretch");
    double lo = INFINITY, hi = 0;
    for (int i = 0; i < count; i++) {
        bool open = mc_dim_has_symbols(axes[i].out) || mc_dim_has_symbols(axes[i].length);
        axes[i].scale = open ? NAN : (double)axes[i].out / (double)axes[i].length;
        if (open && !mc_str_is(policy, "stretch")) {
            MC_TRY(mc_onnx_need_number(n->import, "an axis that keeps the aspect", axes[i].out));
            MC_TRY(mc_onnx_need_number(n->import, "an axis that keeps the aspect", axes[i].length));
        }
        if (axes[i].out == axes[i].length) axes[i].scale = 1;
        lo = fmin(lo, axes[i].scale);
        hi = fmax(hi, axes[i].scale);
    }
    if (mc_str_is(policy, "stretch")) return MICA_OK;
    if (!mc_str_is(policy, "not_larger") && !mc_str_is(policy, "not_smaller"))
        return mc_onnx_refuse("this policy of aspect ratios");
    for (int i = 0; i < count; i++) {
        axes[i].scale = mc_str_is(policy, "not_larger") ? lo : hi;
        axes[i].out = mc_to_i64(floor(axes[i].scale * (double)axes[i].length + 0.5));
        if (axes[i].out < 0 || axes[i].out > INT32_MAX)
            return mc_fail(MICA_EFORMAT, "a size is out of range");
    }
    return MICA_OK;
}

/* length times a scale, rounded down; one with symbols in f32, unless the scale is a fraction of
 * small numbers. */
static mica_status scale_length(int64_t length, double scale, int64_t *out) {
    *out = mc_to_i64(floor((double)length * scale));
    if (!mc_dim_has_symbols(length)) return MICA_OK;
    for (int under = 1; under <= 64; under++) {
        double over = scale * under;
        if (over != floor(over) || !(over >= 1 && over <= 1 << 16)) continue;
        *out = mc_dim_div(mc_dim_mul(length, (int64_t)over), under);
        return mc_dim_check(*out);
    }
    int64_t product = mc_dim_compute(MC_DIM_MUL_F32, length, mc_dim_real((float)scale));
    *out = mc_dim_compute(MC_DIM_FLOOR, product, 0);
    return mc_dim_check(*out);
}

/* The scales of the oldest files are an attribute. */
static mica_status read_scales(const mc_onnx_node *n, size_t i, double *list, int *count) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, "scales");
    if (mc_onnx_has(n, i) || !a) return read_reals(n, i, MICA_MAX_NDIM, list, count);
    if (a->n_floats > MICA_MAX_NDIM) return mc_fail(MICA_EFORMAT, "it has too many scales");
    *count = (int)a->n_floats;
    for (int k = 0; k < *count; k++)
        list[k] = (double)a->floats[k];
    return MICA_OK;
}

static mica_status read_axes(const mc_onnx_node *n, const resize *r, axis *axes, const int *which,
                             int count) {
    double scales[MICA_MAX_NDIM], roi[2 * MICA_MAX_NDIM];
    int64_t sizes[MICA_MAX_NDIM];
    int n_scales, n_sizes, n_roi;
    bool cropped = mc_str_is(r->place, "tf_crop_and_resize"); /* else a region means nothing */
    MC_TRY(read_reals(n, cropped ? r->roi : SIZE_MAX, 2 * MICA_MAX_NDIM, roi, &n_roi));
    MC_TRY(mc_onnx_operand_dims(n, r->sizes, MICA_MAX_NDIM, sizes, &n_sizes));
    MC_TRY(read_scales(n, n_sizes > 0 ? SIZE_MAX : r->scales, scales, &n_scales));
    bool by_size = n_sizes > 0;
    if ((by_size ? n_sizes : n_scales) != count)
        return mc_fail(MICA_EFORMAT, "it has no scales, or too few");
    for (int i = 0; i < count; i++) {
        int64_t length = mica_array_dim(n->in[0].x, which[i]);
        axes[i] = (axis){.length = length, .end = 1};
        if (n_roi == 2 * count) axes[i].begin = roi[i], axes[i].end = roi[count + i];
        if (by_size) axes[i].out = sizes[i];
        if (!by_size) axes[i].scale = scales[i];
        if (!by_size) MC_TRY(scale_length(length, scales[i], &axes[i].out));
        if (axes[i].out < 0 || mc_dim_less(INT32_MAX, axes[i].out) ||
            (!by_size && !(scales[i] > 0)))
            return mc_fail(MICA_EFORMAT, "a size is out of range");
    }
    return by_size ? set_sizes(n, axes, count) : MICA_OK;
}

/* ---- results in parts ---- */

enum { MAX_PARTS = 16, PART_BYTES = 2 << 20 }; /* of f32 */

static mica_status resize_axes(mc_onnx_node *n, const resize *r, const axis *axes, const int *which,
                               int count, mica_array *x) {
    for (int i = 0; i < count; i++)
        MC_TRY(resize_axis(n, r, &axes[i], which[i], x));
    return MICA_OK;
}

/* How many parts the result is made in: one, unless it is of bytes, or of what was dequantised and
 * will be quantised, and sums of few elements, which are floats, are large. */
static int64_t count_parts(const mc_onnx_node *n, const resize *r, const axis *axes, int count,
                           mica_array x) {
    bool small = mica_dtype_bytes(mica_array_dtype(x)) == 1 || n->in[0].steps;
    double bytes = sizeof(float);
    if (!small || count == 0 || mc_str_is(r->mode, "nearest")) return 1;
    for (int k = 0; k < mica_array_ndim(x); k++) {
        if (mc_dim_has_symbols(mica_array_dim(x, k))) return 1;
        bytes *= (double)mica_array_dim(x, k);
    }
    for (int i = 0; i < count; i++) {
        if (mc_dim_has_symbols(axes[i].out) || taps_of(r, &axes[i]) == 0) return 1;
        bytes *= (double)axes[i].out / (double)mc_max(axes[i].length, 1);
    }
    return mc_min(mc_min((int64_t)fmin(bytes / PART_BYTES, MAX_PARTS), axes[0].out), MAX_PARTS);
}

static mica_status give_resized(mc_onnx_node *n, const resize *r, axis *axes, const int *which,
                                int count) {
    bool last = n->in[0].last.scope;
    mica_array x = last ? n->in[0].last : n->in[0].x, parts[MAX_PARTS];
    int64_t n_parts = count_parts(n, r, axes, count, x), out = count > 0 ? axes[0].out : 0;
    if (n_parts <= 1) {
        MC_TRY(resize_axes(n, r, axes, which, count, &x));
        return last ? mc_onnx_give_last(n, 0, x) : mc_onnx_give(n, 0, x);
    }
    for (int64_t i = 0; i < n_parts; i++) {
        axes[0].first = out * i / n_parts;
        axes[0].count = out * (i + 1) / n_parts - axes[0].first;
        parts[i] = x;
        MC_TRY(resize_axes(n, r, axes, which, count, &parts[i]));
    }
    mica_array y = mica_concatenate(n->s, parts, (int)n_parts, which[0]);
    MC_TRY(last ? mc_onnx_give_last(n, 0, y) : mc_onnx_give(n, 0, y));
    return mc_onnx_keep_parts(n, parts, (size_t)n_parts, which[0], last);
}

static mica_status resize_by(mc_onnx_node *n, const resize *r) {
    int64_t list[MICA_MAX_NDIM];
    int which[MICA_MAX_NDIM], count, ndim = mica_array_ndim(n->in[0].x);
    axis axes[MICA_MAX_NDIM];
    bool known = mc_str_is(r->mode, "nearest") || mc_str_is(r->mode, "linear") ||
                 mc_str_is(r->mode, "cubic");
    if (!known || !is_place(r->place)) return mc_onnx_refuse("this mode of resizing");
    if (mc_str_is(r->place, "tf_crop_and_resize") && r->outside != 0)
        return mc_onnx_refuse("values beyond the edges when resizing");
    MC_TRY(mc_onnx_ints(n, "axes", MICA_MAX_NDIM, list, &count));
    for (int i = 0; i < ndim && count < 0; i++)
        list[i] = i;
    if (count < 0) count = ndim;
    for (int i = 0; i < count; i++) {
        if (list[i] < -ndim || list[i] >= ndim)
            return mc_fail(MICA_EFORMAT, "there is no such axis");
        which[i] = (int)(list[i] < 0 ? list[i] + ndim : list[i]);
    }
    MC_TRY(read_axes(n, r, axes, which, count));
    int n_axes = 0;
    for (int i = 0; i < count; i++) { /* those that change */
        int k = which[i];
        if (n->in[0].last.scope) k = k == 1 ? ndim - 1 : k > 1 ? k - 1 : k;
        bool whole = axes[i].begin == 0 && axes[i].end == 1;
        if (axes[i].out == axes[i].length && axes[i].scale == 1 && whole) continue;
        axes[i].count = axes[i].out;
        which[n_axes] = k;
        axes[n_axes++] = axes[i];
    }
    return give_resized(n, r, axes, which, n_axes);
}

/* Scales alone, and places counted from the first element on. */
mica_status mc_onnx_upsample(mc_onnx_node *n) {
    mc_str mode = mc_onnx_text(n, "mode", "nearest");
    const resize r = {.mode = mc_str_is(mode, "bilinear") ? mc_str_of("linear") : mode,
                      .place = mc_str_of("asymmetric"),
                      .nearest = mc_str_of("simple"),
                      .roi = SIZE_MAX,
                      .scales = 1,
                      .sizes = SIZE_MAX};
    return resize_by(n, &r);
}

mica_status mc_onnx_resize(mc_onnx_node *n) {
    if (n->import->opset < FULL_OPSET) return mc_onnx_upsample(n);
    const resize r = {.mode = mc_onnx_text(n, "mode", "nearest"),
                      .place = mc_onnx_text(n, "coordinate_transformation_mode", "half_pixel"),
                      .nearest = mc_onnx_text(n, "nearest_mode", "round_prefer_floor"),
                      .cubic = mc_onnx_real(n, "cubic_coeff_a", -0.75),
                      .outside = mc_onnx_real(n, "extrapolation_value", 0),
                      .antialias = mc_onnx_int(n, "antialias", 0) != 0,
                      .exclude = mc_onnx_int(n, "exclude_outside", 0) != 0,
                      .roi = 1,
                      .scales = 2,
                      .sizes = 3};
    return resize_by(n, &r);
}

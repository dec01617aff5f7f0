/* Images read between their elements: GridSample, RoiAlign, DeformConv, and AffineGrid's grids.
 *
 * An image is read as rows of channels: elements at one place lie side by side, and a place is the
 * number of a row. A place between elements is a weighted sum of the elements around it. */
#include "onnx/window.h"

#include "base/integer.h"
#include "graph/dim.h"

#include <mica/control.h>
#include <mica/ops.h>

#include <math.h>

enum { MAX_AXES = 3, MAX_TAPS = 4 };

static mica_array plus(mc_onnx_node *n, mica_array x, double value) {
    return mica_add(n->s, x, mc_onnx_f32(n, value));
}

static mica_array times(mc_onnx_node *n, mica_array x, double value) {
    return mica_multiply(n->s, x, mc_onnx_f32(n, value));
}

/* ---- images ---- */

/* [N, lengths.., C] as rows [N * all lengths * groups, C / groups]. */
typedef struct image {
    mica_array rows;
    int axes;
    int64_t lengths[MAX_AXES], places, groups;
    mica_array group; /* i64: of each place that is read, where there are several groups; or none */
} image;

static mica_status read_image(mc_onnx_node *n, int64_t groups, image *m) {
    mica_array last = mc_onnx_last(n, 0);
    *m = (image){.axes = mica_array_ndim(last) - 2, .places = 1, .groups = groups};
    if (m->axes < 1 || m->axes > MAX_AXES)
        return mc_fail(MICA_EUNSUPPORTED, "its image has %d axes; mica has 3 to 5", m->axes + 2);
    int64_t channels = mica_array_dim(last, -1);
    if (mc_dim_mod(channels, groups) != 0)
        return mc_fail(MICA_ESHAPE, "its channels are no %lld groups", (long long)groups);
    for (int k = 0; k < m->axes; k++) {
        m->lengths[k] = mica_array_dim(last, 1 + k);
        if (!mc_dim_mul_to(&m->places, m->lengths[k]))
            return mc_fail(MICA_ESHAPE, "its image is out of range");
    }
    int64_t rows = mc_dim_mul(mc_dim_mul(m->places, mica_array_dim(last, 0)), groups);
    m->rows = mica_reshape(n->s, last, (int64_t[]){rows, mc_dim_div(channels, groups)}, 2);
    return mica_scope_status(n->s);
}

/* The rows of whole places, f32 of an axis each, which broadcast: [.., C]. Beyond an edge: the
 * edge.
 *
 * first  i64: the image of each place, which broadcasts with them */
static mica_array rows_at(mc_onnx_node *n, const image *m, mica_array first,
                          const mica_array *places) {
    mica_scope *s = n->s;
    mica_array at = mica_multiply(s, first, mica_scalar(s, (double)m->places, MICA_I64)), own;
    int64_t after = 1;
    for (int k = m->axes - 1; k >= 0; k--) {
        mica_array end =
            mica_maximum(s, plus(n, mc_onnx_f32(n, (double)m->lengths[k]), -1), mc_onnx_f32(n, 0));
        own = mica_astype(s, mica_clip(s, places[k], mc_onnx_f32(n, 0), end), MICA_I64);
        own = mica_multiply(s, own, mica_scalar(s, (double)after, MICA_I64));
        at = mica_add(s, at, own);
        after = mc_dim_mul(after, m->lengths[k]);
    }
    if (m->group.scope) {
        at = mica_multiply(s, at, mica_scalar(s, (double)m->groups, MICA_I64));
        at = mica_add(s, at, m->group);
    }
    return mica_take(s, m->rows, at, 0);
}

/* Whether whole places are in the image along an axis. */
static mica_array is_inside(mc_onnx_node *n, const image *m, int k, mica_array at) {
    return mica_logical_and(n->s, mica_greater_equal(n->s, at, mc_onnx_f32(n, 0)),
                            mica_less(n->s, at, mc_onnx_f32(n, (double)m->lengths[k])));
}

/* ---- elements around a place ---- */

typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

typedef struct sampling {
    int reach; /* elements on each side: 1 linear, 2 cubic; 0: the nearest */
    padding padding;
    bool aligned; /* the edges of a grid are those elements, not their outer ends */
    bool maximum; /* of the weighted elements, not their sum */
} sampling;

/* x between lo and hi, as a mirror at both ends has it. */
static mica_array reflect(mc_onnx_node *n, mica_array x, mica_array lo, mica_array hi) {
    mica_scope *s = n->s;
    mica_array range = mica_subtract(s, hi, lo),
               none = mica_less_equal(s, range, mc_onnx_f32(n, 0));
    mica_array period = mica_where(s, none, mc_onnx_f32(n, 1), times(n, range, 2));
    mica_array at = mica_remainder(s, mica_abs(s, mica_subtract(s, x, lo)), period);
    at = mica_minimum(s, at, mica_subtract(s, period, at));
    return mica_where(s, none, lo, mica_add(s, lo, at));
}

static mica_array pad(mc_onnx_node *n, const image *m, const sampling *how, int k, mica_array at) {
    double edge = how->aligned ? 0 : -0.5;
    mica_array length = mc_onnx_f32(n, (double)m->lengths[k]);
    if (how->padding == REFLECTION)
        return reflect(n, at, mc_onnx_f32(n, edge), plus(n, length, -1 - edge));
    if (how->padding == BORDER) return mica_clip(n->s, at, mc_onnx_f32(n, 0), plus(n, length, -1));
    return at;
}

/* The weight of the i-th element, at a distance d >= 0. source  Keys 1981, with -0.75 */
static mica_array weight_of(mc_onnx_node *n, const sampling *how, int i, mica_array d) {
    const double a = -0.75;
    if (how->reach == 1) return mica_subtract(n->s, mc_onnx_f32(n, 1), d);
    bool near = i == 0 || i == 1;
    mica_array y = plus(n, times(n, d, near ? a + 2 : a), near ? -a - 3 : -5 * a);
    if (near) return plus(n, mica_multiply(n->s, mica_multiply(n->s, y, d), d), 1);
    y = plus(n, mica_multiply(n->s, y, d), 8 * a);
    return plus(n, mica_multiply(n->s, y, d), -4 * a);
}

/* Elements along one axis: their places, and weights, 0 where there is none. */
typedef struct taps {
    mica_array at[MAX_TAPS], weight[MAX_TAPS];
} taps;

static void find_taps(mc_onnx_node *n, const image *m, const sampling *how, int k, mica_array at,
                      taps *t) {
    mica_scope *s = n->s;
    if (how->reach < 2) at = pad(n, m, how, k, at);
    mica_array first = how->reach == 0 ? mica_round(s, at) : mica_floor(s, at);
    int count = how->reach == 0 ? 1 : 2 * how->reach;
    for (int i = 0; i < count; i++) {
        int apart = how->reach == 0 ? 0 : i + 1 - how->reach;
        mica_array from = plus(n, first, apart), weight = mc_onnx_f32(n, 1);
        if (how->reach > 0)
            weight = weight_of(n, how, apart, mica_abs(s, mica_subtract(s, at, from)));
        t->at[i] = pad(n, m, how, k, from);
        t->weight[i] = weight;
        if (how->padding == ZEROS)
            t->weight[i] = mica_where(s, is_inside(n, m, k, from), weight, mc_onnx_f32(n, 0));
    }
}

/* The image at places, f32 of an axis each, which broadcast: [.., C] f32. */
static mica_array sample(mc_onnx_node *n, const image *m, const sampling *how, mica_array first,
                         const mica_array *places) {
    taps all[MAX_AXES];
    int each = how->reach == 0 ? 1 : 2 * how->reach, count = 1;
    mica_array y = MICA_NONE;
    for (int k = 0; k < m->axes; k++) {
        find_taps(n, m, how, k, places[k], &all[k]);
        count *= each;
    }
    for (int i = 0; i < count; i++) {
        mica_array at[MAX_AXES], weight = MICA_NONE;
        for (int k = m->axes - 1, rest = i; k >= 0; k--, rest /= each) {
            mica_array own = all[k].weight[rest % each];
            at[k] = all[k].at[rest % each];
            weight = weight.scope ? mica_multiply(n->s, weight, own) : own;
        }
        mica_array part = mica_astype(n->s, rows_at(n, m, first, at), MICA_F32);
        part = mica_multiply(n->s, part, mica_expand_dims(n->s, weight, -1));
        if (!y.scope)
            y = part;
        else
            y = how->maximum ? mica_maximum(n->s, y, part) : mica_add(n->s, y, part);
    }
    return y;
}

/* ---- GridSample ---- */

static mica_status read_sampling(const mc_onnx_node *n, sampling *how) {
    static const char *const pads[] = {"zeros", "border", "reflection"};
    static const struct {
        const char *name;
        int reach;
    } modes[] = {{"bilinear", 1}, {"linear", 1}, {"nearest", 0}, {"bicubic", 2}, {"cubic", 2}};
    mc_str mode = mc_onnx_text(n, "mode", "linear"),
           pads_of = mc_onnx_text(n, "padding_mode", "zeros");
    int found = 0;
    *how = (sampling){.aligned = mc_onnx_int(n, "align_corners", 0) != 0};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (mc_str_is(mode, modes[i].name)) how->reach = modes[i].reach, found |= 1;
    for (int i = 0; i < 3; i++)
        if (mc_str_is(pads_of, pads[i])) how->padding = (padding)i, found |= 2;
    return found == 3 ? MICA_OK : mc_onnx_refuse("this mode of sampling");
}

/* -1 to 1 as places of an axis: of its end elements, or of their outer ends. */
static mica_array place_of(mc_onnx_node *n, const image *m, const sampling *how, int k,
                           mica_array x) {
    mica_array length = mc_onnx_f32(n, (double)m->lengths[k]);
    x = plus(n, x, 1);
    if (how->aligned) return times(n, mica_multiply(n->s, x, plus(n, length, -1)), 0.5);
    return times(n, plus(n, mica_multiply(n->s, x, length), -1), 0.5);
}

/* image [N, C, lengths..], grid [N, out.., axes]: [N, C, out..] */
mica_status mc_onnx_grid_sample(mc_onnx_node *n) {
    image m;
    sampling how;
    mica_array grid = n->in[1].x, places[MAX_AXES];
    MC_TRY(read_sampling(n, &how));
    MC_TRY(read_image(n, 1, &m));
    if (mica_array_ndim(grid) != m.axes + 2 || mica_array_dim(grid, -1) != m.axes)
        return mc_fail(MICA_ESHAPE, "its grid does not fit its image");
    if (mica_dtype_is_float(mica_array_dtype(grid))) grid = mica_astype(n->s, grid, MICA_F32);
    for (int k = 0; k < m.axes; k++) { /* the last axis is first in a grid */
        mica_array x = mica_slice_axis(n->s, grid, -1, m.axes - 1 - k, m.axes - k);
        places[k] = place_of(n, &m, &how, k, mica_squeeze(n->s, x, -1));
    }
    mica_array first = mica_arange(n->s, 0, (double)mica_array_dim(n->in[0].x, 0), 1, MICA_I64);
    first = mc_onnx_along(n->s, first, 0, m.axes + 1);
    mica_array y = sample(n, &m, &how, first, places);
    return mc_onnx_give_last(n, 0, mica_astype(n->s, y, mica_array_dtype(n->in[0].x)));
}

/* theta [N, 2, 3] or [N, 3, 4], size: [N, out.., 2 or 3] */
mica_status mc_onnx_affine_grid(mc_onnx_node *n) {
    int64_t size[MAX_AXES + 2], shape[MAX_AXES + 1];
    int count, axes;
    mica_array theta = n->in[0].x, parts[MAX_AXES + 1];
    mica_dtype dtype = mica_array_dtype(theta);
    MC_TRY(mc_onnx_operand_dims(n, 1, MAX_AXES + 2, size, &count));
    axes = count - 2;
    if (axes < 2 || mica_array_ndim(theta) != 3 || mica_array_dim(theta, 1) != axes ||
        mica_array_dim(theta, 2) != axes + 1)
        return mc_fail(MICA_ESHAPE, "its matrices do not fit its size");
    for (int k = 0; k < axes; k++)
        shape[k] = size[2 + k];
    for (int k = 0; k < axes; k++) {
        mica_array i = mica_arange(n->s, 0, (double)shape[k], 1, MICA_F32);
        mica_array length = mc_onnx_f32(n, (double)shape[k]);
        if (mc_onnx_int(n, "align_corners", 0))
            i = mica_divide(n->s, times(n, i, 2),
                            mica_maximum(n->s, plus(n, length, -1), mc_onnx_f32(n, 1)));
        else
            i = mica_divide(n->s, plus(n, times(n, i, 2), 1), length);
        i = mc_onnx_along(n->s, plus(n, i, -1), k, axes);
        parts[axes - 1 - k] = mica_broadcast_to(n->s, i, shape, axes);
    }
    parts[axes] = mica_full(n->s, shape, axes, mc_onnx_f32(n, 1));
    mica_array points = mica_stack(n->s, parts, axes + 1, -1);
    points = mica_reshape(n->s, points, (int64_t[]){-1, axes + 1}, 2);
    theta = mica_swapaxes(n->s, mica_astype(n->s, theta, MICA_F32), 1, 2);
    mica_array y = mica_matmul(n->s, points, theta); /* [N, places, axes] */
    int64_t whole[MAX_AXES + 2] = {mica_array_dim(theta, 0)};
    for (int k = 0; k < axes; k++)
        whole[1 + k] = shape[k];
    whole[1 + axes] = axes;
    y = mica_reshape(n->s, y, whole, axes + 2);
    return mc_onnx_give(n, 0, mica_astype(n->s, y, dtype));
}

/* ---- RoiAlign ---- */

/* A column [R] of regions [R, 4], times the scale, moved. */
static mica_array edge_of(mc_onnx_node *n, int k, double scale, double offset) {
    mica_array x = mica_slice_axis(n->s, n->in[1].x, 1, k, k + 1);
    return plus(n, times(n, mica_astype(n->s, x, MICA_F32), scale), -offset);
}

/* Where a region is read along an axis: [R, out, samples], at the middle of equal parts. Places up
 * to one element beyond the image count as its edge, those further out are -2. */
static mica_array places_of(mc_onnx_node *n, int64_t length, mica_array lo, mica_array hi,
                            int64_t out, int64_t samples, bool half) {
    mica_scope *s = n->s;
    mica_array size = mica_subtract(s, hi, lo);
    if (!half) size = mica_maximum(s, size, mc_onnx_f32(n, 1));
    mica_array i = mica_arange(s, 0, (double)(out * samples), 1, MICA_F32);
    i = times(n, plus(n, i, 0.5), 1 / (double)(out * samples));
    mica_array at = mica_add(s, lo, mica_multiply(s, size, i)),
               end = mc_onnx_f32(n, (double)length);
    mica_array none =
        mica_logical_or(s, mica_less(s, at, mc_onnx_f32(n, -1)), mica_greater(s, at, end));
    at = mica_clip(s, at, mc_onnx_f32(n, 0), plus(n, end, -1));
    return mica_where(s, none, mc_onnx_f32(n, -2), at);
}

/* The samples of the parts of regions along an axis, where a part has as many as it has elements,
 * rounded up. They are up to one element and at least half of one apart, or one in a part. */
typedef struct samples {
    mica_array many, begin,
        each;              /* [R, 1, 1], [R, out, 1], [R, 1, 1]: how many, from where, apart */
    mica_array place, end; /* [length] elements, and how many there are */
    mica_array first;      /* [R, out, length] the first sample that may lie next to one */
} samples;

enum { NEXT = 6 }; /* samples that may lie next to an element */

/* lo and hi [R, 1] */
static samples samples_of(mc_onnx_node *n, int64_t length, mica_array lo, mica_array hi,
                          int64_t out, bool half) {
    mica_scope *s = n->s;
    mica_array zero = mc_onnx_f32(n, 0), one = mc_onnx_f32(n, 1);
    samples p = {.end = mc_onnx_f32(n, (double)length)};
    mica_array size = mica_subtract(s, hi, lo);
    if (!half) size = mica_maximum(s, size, one);
    mica_array part = mica_expand_dims(s, times(n, size, 1 / (double)out), 2);
    p.many = mica_ceil(s, part);
    p.each = mica_divide(s, part, mica_maximum(s, p.many, one));
    mica_array o =
        mica_reshape(s, mica_arange(s, 0, (double)out, 1, MICA_F32), (int64_t[]){1, out, 1}, 3);
    p.begin = mica_add(s, mica_expand_dims(s, lo, 2), mica_multiply(s, o, part));
    p.place = mica_arange(s, 0, (double)length, 1, MICA_F32);
    p.first = mica_divide(s, mica_subtract(s, plus(n, p.place, -1), p.begin), p.each);
    p.first = mica_maximum(s, mica_floor(s, plus(n, p.first, -0.5)), zero);
    return p;
}

/* Where samples j of each part are. */
static mica_array sample_at(mc_onnx_node *n, const samples *p, mica_array j) {
    return mica_add(n->s, p->begin, mica_multiply(n->s, plus(n, j, 0.5), p->each));
}

/* By how much the sample `first` + t reads each element: [R, out, length]. */
static mica_array weight_next(mc_onnx_node *n, const samples *p, int t) {
    mica_scope *s = n->s;
    mica_array zero = mc_onnx_f32(n, 0), j = plus(n, p->first, t), at = sample_at(n, p, j);
    mica_array there =
        mica_logical_and(s, mica_less(s, j, p->many), mica_less_equal(s, at, p->end));
    there = mica_logical_and(s, there, mica_greater_equal(s, at, mc_onnx_f32(n, -1)));
    at = mica_clip(s, at, zero, plus(n, p->end, -1));
    mica_array w = mica_subtract(s, mc_onnx_f32(n, 1), mica_abs(s, mica_subtract(s, at, p->place)));
    return mica_where(s, there, mica_maximum(s, w, zero), zero);
}

/* How much of each element of an axis the parts of regions read: [R, out, length]. */
static mica_array shares_of(mc_onnx_node *n, const samples *p) {
    mica_array sum = weight_next(n, p, 0);
    for (int t = 1; t < NEXT; t++)
        sum = mica_add(n->s, sum, weight_next(n, p, t));
    return mica_divide(n->s, sum, mica_maximum(n->s, p->many, mc_onnx_f32(n, 1)));
}

/* Means of as many samples as regions are large: [R, out[0], out[1], C]. A mean is the sum of rows
 * by their shares, of sums of columns by theirs. */
static mica_status give_means(mc_onnx_node *n, const image *m, const int64_t out[2], double scale,
                              double offset, bool half) {
    mica_scope *s = n->s;
    mica_array shares[2], x = mica_astype(s, mc_onnx_last(n, 0), MICA_F32);
    for (int k = 0; k < 2; k++) { /* x is first in a region */
        mica_array lo = edge_of(n, 1 - k, scale, offset), hi = edge_of(n, 3 - k, scale, offset);
        samples p = samples_of(n, m->lengths[k], lo, hi, out[k], half);
        shares[k] = shares_of(n, &p);
    }
    int64_t regions = mica_array_dim(n->in[1].x, 0), channels = mica_array_dim(x, -1);
    int64_t width = mc_dim_mul(m->lengths[1], channels);
    mica_array y;
    if (mica_array_dim(x, 0) == 1) { /* one image for all */
        x = mica_reshape(s, x, (int64_t[]){m->lengths[0], width}, 2);
        y = mica_reshape(s, shares[0], (int64_t[]){mc_dim_mul(regions, out[0]), m->lengths[0]}, 2);
        y = mica_matmul(s, y, x);
    } else {
        x = mica_take(s, x, mica_astype(s, n->in[2].x, MICA_I64), 0);
        y = mica_matmul(s, shares[0],
                        mica_reshape(s, x, (int64_t[]){regions, m->lengths[0], width}, 3));
    }
    y = mica_reshape(s, y, (int64_t[]){regions, out[0], m->lengths[1], channels}, 4);
    y = mica_matmul(s, mica_expand_dims(s, shares[1], 1), y);
    return mc_onnx_give_last(n, 0, mica_astype(s, y, mica_array_dtype(n->in[0].x)));
}

/* The largest and the least weight by which samples of a part read each element, [R, out, length],
 * 0 and infinity where none does; and whether one reads an element by nothing, as next to a sample
 * at the middle of another, or lies outside, [R, out]. */
static void extremes_of(mc_onnx_node *n, const samples *p, mica_array *most, mica_array *least,
                        mica_array *nothing) {
    mica_scope *s = n->s;
    mica_array zero = mc_onnx_f32(n, 0), none = mc_onnx_f32(n, INFINITY);
    *most = *least = MICA_NONE;
    for (int t = 0; t < NEXT; t++) {
        mica_array w = weight_next(n, p, t);
        mica_array low = mica_where(s, mica_greater(s, w, zero), w, none);
        *most = t == 0 ? w : mica_maximum(s, *most, w);
        *least = t == 0 ? low : mica_minimum(s, *least, low);
    }
    mica_array begin = sample_at(n, p, zero), end = sample_at(n, p, plus(n, p->many, -1));
    mica_array outside =
        mica_logical_or(s, mica_less(s, begin, mc_onnx_f32(n, -1)), mica_greater(s, end, p->end));
    *nothing = mica_greater_equal(s, mica_max(s, *most, (int[]){2}, 1, false), mc_onnx_f32(n, 1));
    *nothing = mica_logical_or(s, *nothing, mica_squeeze(s, outside, 2));
}

/* x [.., length, ..] times weights that broadcast with it, the largest product of each element and
 * a sample, of all along the axis. */
static mica_array largest(mc_onnx_node *n, mica_array x, mica_array most, mica_array least,
                          int axis) {
    mica_scope *s = n->s;
    mica_array zero = mc_onnx_f32(n, 0), high = mica_greater_equal(s, x, zero);
    mica_array y = mica_multiply(s, x, mica_where(s, high, most, least));
    y = mica_where(s, mica_greater(s, most, zero), y, mc_onnx_f32(n, -INFINITY));
    return mica_max(s, y, (int[]){axis}, 1, false);
}

typedef struct regions {
    mc_onnx_node *n;
    mica_array x; /* [N, H, W, C] */
} regions;

/* args: the image, and of each axis the largest and least weights [out, length], whether a sample
 * reads nothing [out], and how many there are [1, 1]; results: [out[0], out[1], C] */
static mica_status find_largest(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const regions *r = user;
    mc_onnx_node n = *r->n;
    (void)n_args, (void)n_results;
    n.s = s;
    const mica_array *rows = args + 1, *columns = args + 5;
    mica_array x = mica_expand_dims(s, mica_take(s, r->x, args[0], 0), 0);
    mica_array w[4] = {rows[0], rows[1], columns[0], columns[1]};
    for (int k = 0; k < 4; k++) /* [out[0], 1, H, 1] and [out[1], 1, W, 1] */
        w[k] = mica_expand_dims(s, mica_expand_dims(s, w[k], 1), 3);
    x = mica_expand_dims(s, largest(&n, x, w[2], w[3], 2), 0); /* [1, out[1], H, C] */
    mica_array y = largest(&n, x, w[0], w[1], 2), zero = mc_onnx_f32(&n, 0);
    mica_array nothing =
        mica_logical_or(s, mica_expand_dims(s, rows[2], 1), mica_expand_dims(s, columns[2], 0));
    nothing = mica_expand_dims(s, nothing, 2);
    y = mica_where(s, nothing, mica_maximum(s, y, zero), y);
    mica_array few = mica_minimum(s, rows[3], columns[3]);
    few = mica_less(s, mica_expand_dims(s, few, 2), mc_onnx_f32(&n, 1));
    results[0] = mica_where(s, few, zero, y);
    return mica_scope_status(s);
}

/* The largest of what as many samples as regions are large read of single elements: [R, out[0],
 * out[1], C]. Of an element that is not negative the largest weights of its row and of its column
 * make the largest product, of another one the least; and an axis follows the other. One region
 * after the other, for the products of one are [out[1], H, W, C]. */
static mica_status give_maxima(mc_onnx_node *n, const image *m, const int64_t out[2], double scale,
                               double offset, bool half) {
    mica_array xs[9] = {mica_astype(n->s, n->in[2].x, MICA_I64)}, y;
    for (int k = 0; k < 2; k++) { /* x is first in a region */
        mica_array lo = edge_of(n, 1 - k, scale, offset), hi = edge_of(n, 3 - k, scale, offset);
        samples p = samples_of(n, m->lengths[k], lo, hi, out[k], half);
        extremes_of(n, &p, &xs[1 + 4 * k], &xs[2 + 4 * k], &xs[3 + 4 * k]);
        xs[4 + 4 * k] = p.many;
    }
    regions r = {n, mica_astype(n->s, mc_onnx_last(n, 0), MICA_F32)};
    MC_TRY(mica_scope_status(n->s));
    MC_TRY(mica_scan(n->s, find_largest, &r, NULL, 0, xs, 9, NULL, NULL, &y, 1));
    return mc_onnx_give_last(n, 0, mica_astype(n->s, y, mica_array_dtype(n->in[0].x)));
}

/* image [N, C, H, W], regions [R, 4], their images [R]: [R, C, output_height, output_width] */
mica_status mc_onnx_roi_align(mc_onnx_node *n) {
    image m;
    mc_str mode = mc_onnx_text(n, "mode", "avg"), place;
    const char *otherwise = n->import->opset < 16 ? "output_half_pixel" : "half_pixel";
    place = mc_onnx_text(n, "coordinate_transformation_mode", otherwise);
    bool half = mc_str_is(place, "half_pixel"), maximum = mc_str_is(mode, "max");
    double scale = mc_onnx_real(n, "spatial_scale", 1), offset = half ? 0.5 : 0;
    int64_t out[] = {mc_onnx_int(n, "output_height", 1), mc_onnx_int(n, "output_width", 1)};
    int64_t count = mc_onnx_int(n, "sampling_ratio", 0);
    const sampling how = {.reach = 1, .maximum = maximum};
    if ((!half && !mc_str_is(place, "output_half_pixel")) || (!maximum && !mc_str_is(mode, "avg")))
        return mc_onnx_refuse("this mode of regions");
    if (out[0] < 1 || out[1] < 1 || mc_max(mc_max(out[0], out[1]), count) > 1 << 12)
        return mc_fail(MICA_EFORMAT, "its size is out of range");
    MC_TRY(read_image(n, 1, &m));
    if (m.axes != 2 || mica_array_ndim(n->in[1].x) != 2 || mica_array_dim(n->in[1].x, 1) != 4 ||
        mica_array_ndim(n->in[2].x) != 1)
        return mc_fail(MICA_ESHAPE, "its operands are not [N, C, H, W], [R, 4] and [R]");
    if (count < 1) return (maximum ? give_maxima : give_means)(n, &m, out, scale, offset, half);
    mica_array places[2];
    for (int k = 0; k < 2; k++) { /* x is first in a region */
        mica_array lo = edge_of(n, 1 - k, scale, offset), hi = edge_of(n, 3 - k, scale, offset);
        places[k] = places_of(n, m.lengths[k], lo, hi, out[k], count, half);
        places[k] = mica_expand_dims(n->s, places[k], k == 0 ? 2 : 1);
    }
    mica_array first = mc_onnx_along(n->s, mica_astype(n->s, n->in[2].x, MICA_I64), 0, 3);
    mica_array y = sample(n, &m, &how, first, places); /* [R, H samples, W samples, C] */
    const int64_t shape[] = {mica_array_dim(n->in[1].x, 0), out[0], count, out[1], count,
                             mica_array_dim(m.rows, 1)};
    y = mica_reshape(n->s, y, shape, 6);
    y = maximum ? mica_max(n->s, y, (int[]){2, 4}, 2, false)
                : mica_mean(n->s, y, (int[]){2, 4}, 2, false);
    return mc_onnx_give_last(n, 0, mica_astype(n->s, y, mica_array_dtype(n->in[0].x)));
}

/* ---- DeformConv ---- */

/* A part of offsets or masks [N, groups * taps * parts, H, W]: [N, H, W, groups, taps] f32. */
static mica_array part_of(mc_onnx_node *n, size_t operand, int64_t groups, int64_t tap_count,
                          int64_t parts, int64_t which) {
    mica_array x = mica_astype(n->s, n->in[operand].x, MICA_F32);
    const int64_t shape[] = {mica_array_dim(x, 0), groups, tap_count, parts, mica_array_dim(x, 2),
                             mica_array_dim(x, 3)};
    x = mica_slice_axis(n->s, mica_reshape(n->s, x, shape, 6), 3, which, which + 1);
    return mica_transpose(n->s, mica_squeeze(n->s, x, 3), (int[]){0, 3, 4, 1, 2});
}

/* Where the kernel's taps read along axis k, moved by offsets: [N, H, W, groups, taps]. */
static mica_array deformed(mc_onnx_node *n, const mc_onnx_window *w, int k, int64_t out,
                           mica_array moved) {
    mica_scope *s = n->s;
    int64_t grid[] = {1, 1, 1, 1, w->kernel[0] * w->kernel[1]};
    mica_array tap = mica_arange(s, 0, (double)w->kernel[k], 1, MICA_F32);
    tap = times(n, tap, (double)w->dilation[k]);
    tap = k == 0 ? mica_repeat(s, tap, w->kernel[1], 0)
                 : mica_tile(s, tap, (int64_t[]){w->kernel[0]}, 1);
    mica_array at = mica_arange(s, 0, (double)out, 1, MICA_F32);
    at = plus(n, times(n, at, (double)w->stride[k]), -(double)w->lo[k]);
    at = mc_onnx_along(s, at, 1 + k, 5);
    return mica_add(s, mica_add(s, at, mica_reshape(s, tap, grid, 5)), moved);
}

/* Products [N, H, W, C, taps] by weights [O, C / groups, kernel..]: [N, H, W, O]. */
static mica_array multiply_groups(mc_onnx_node *n, mica_array x, mica_array w, int64_t groups) {
    mica_scope *s = n->s;
    int64_t O = mica_array_dim(w, 0), depth = mica_array_size(w) / mc_max(O, 1);
    int64_t shape[] = {
        mica_array_dim(x, 0), mica_array_dim(x, 1), mica_array_dim(x, 2), groups, 1, depth};
    x = mica_reshape(s, x, shape, 6);
    w = mica_reshape(s, w, (int64_t[]){groups, O / groups, depth}, 3);
    mica_array y = mica_matmul(s, x, mica_swapaxes(s, w, 1, 2));
    shape[3] = O;
    return mica_reshape(s, y, shape, 4);
}

/* x [N, C, H, W], weights, offsets, bias, mask */
mica_status mc_onnx_deform_conv(mc_onnx_node *n) {
    mc_onnx_window w;
    image m;
    mica_scope *s = n->s;
    mica_array weights = n->in[1].x, offsets = n->in[2].x, places[2];
    int64_t groups = mc_onnx_int(n, "group", 1), own = mc_onnx_int(n, "offset_group", 1);
    const sampling how = {.reach = 1};
    if (mica_array_ndim(n->in[0].x) != 4 || mica_array_ndim(weights) != 4)
        return mc_onnx_refuse("this operator of images of other than two axes");
    for (int k = 0; k < 4; k++)
        MC_TRY(
            mc_onnx_need_number(n->import, "a length of its weights", mica_array_dim(weights, k)));
    MC_TRY(mc_onnx_need_number(n->import, "its number of channels", mica_array_dim(n->in[0].x, 1)));
    MC_TRY(mc_onnx_read_window(n, mica_array_shape(weights) + 2, &w));
    int64_t tap_count = w.kernel[0] * w.kernel[1], channels = mica_array_dim(n->in[0].x, 1);
    if (groups < 1 || own < 1 || tap_count > INT32_MAX || own > INT32_MAX ||
        mica_array_ndim(offsets) != 4 || mica_array_dim(offsets, 1) != 2 * own * tap_count ||
        mica_array_dim(weights, 0) % groups != 0 || channels % groups != 0 ||
        mica_array_dim(weights, 1) != channels / groups ||
        (mc_onnx_has(n, 4) &&
         (mica_array_ndim(n->in[4].x) != 4 || mica_array_dim(n->in[4].x, 1) != own * tap_count)))
        return mc_fail(MICA_ESHAPE, "its operands do not fit");
    MC_TRY(read_image(n, own, &m));
    m.group = mica_arange(s, 0, (double)own, 1, MICA_I64);
    m.group = mc_onnx_along(s, m.group, 3, 5);
    for (int k = 0; k < 2; k++)
        places[k] =
            deformed(n, &w, k, mica_array_dim(offsets, 2 + k), part_of(n, 2, own, tap_count, 2, k));
    mica_array first = mica_arange(s, 0, (double)mica_array_dim(n->in[0].x, 0), 1, MICA_I64);
    mica_array y = sample(n, &m, &how, mc_onnx_along(s, first, 0, 5), places);
    if (mc_onnx_has(n, 4))
        y = mica_multiply(s, y, mica_expand_dims(s, part_of(n, 4, own, tap_count, 1, 0), -1));
    y = mica_swapaxes(s, y, 4, 5); /* [N, H, W, offset groups, C / offset groups, taps] */
    y = multiply_groups(n, y, mica_astype(s, weights, MICA_F32), groups);
    if (mc_onnx_has(n, 3)) y = mica_add(s, y, mica_astype(s, n->in[3].x, MICA_F32));
    return mc_onnx_give_last(n, 0, mica_astype(s, y, mica_array_dtype(n->in[0].x)));
}

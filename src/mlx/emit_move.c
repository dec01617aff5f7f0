/* Views, which MLX keeps as views, and ops that make or move data. */
#include "mlx/emit.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/integer.h"

/* ---- views ---- */

void mc_mlx_emit_reshape(mc_mlx_call *c) {
    mc_mlx_give(c, 0, mc_mlx_reshape(c, c->in[0], c->to->shape, c->to->ndim));
}

void mc_mlx_emit_transpose(mc_mlx_call *c) {
    const mc_attr_transpose *a = c->attr;
    int axes[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    for (int k = 0; k < c->to->ndim; k++)
        axes[k] = (int)a->axes[k];
    int failed = mc_mlx.transpose_axes(&y, c->in[0], axes, (size_t)c->to->ndim, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_broadcast_to(mc_mlx_call *c) {
    int shape[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    for (int k = 0; k < c->to->ndim; k++)
        shape[k] = (int)c->to->shape[k];
    int failed = mc_mlx.broadcast_to(&y, c->in[0], shape, (size_t)c->to->ndim, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* Python's start:stop:step, as MLX takes slices. */
typedef struct ranges {
    int start[MICA_MAX_NDIM], stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM];
    size_t n;
} ranges;

static ranges ranges_of(const mc_attr_slice *a, const mc_layout *x) {
    ranges r = {.n = (size_t)x->ndim};
    for (int k = 0; k < x->ndim; k++) {
        int64_t stop = a->start[k] + a->count[k] * a->step[k];
        r.start[k] = (int)a->start[k];
        r.step[k] = (int)a->step[k];
        /* A step backwards may end before the first element, and -1 is the last one. */
        if (a->step[k] < 0 && stop < 0) stop = -x->shape[k] - 1;
        if (a->step[k] > 0 && stop > x->shape[k]) stop = x->shape[k];
        r.stop[k] = (int)stop;
    }
    return r;
}

/* A view that begins `offset` elements into x. */
static void give_view(mc_mlx_call *c, int64_t offset, mlx_array x) {
    bool shared = c->on_cuda && offset && x.ctx;
    if (shared && offset * (int64_t)mc_mlx.array_itemsize(x) % MC_MLX_ALIGN_BYTES)
        c->failed = c->failed || mc_mlx_copy(&x, c->stream);
    mc_mlx_give(c, 0, x);
}

void mc_mlx_emit_slice(mc_mlx_call *c) {
    ranges r = ranges_of(c->attr, c->from[0]);
    int64_t offset = 0;
    mlx_array y = {0};
    for (size_t k = 0; k < r.n; k++)
        offset += r.start[k] * c->from[0]->strides[k];
    int failed = mc_mlx.slice(&y, c->in[0], r.start, r.n, r.stop, r.n, r.step, r.n, c->stream);
    give_view(c, offset, mc_mlx_keep(c, failed, y));
}

/* Whether two elements may be the same one, apart from numbers that are repeated (strides of 0): an
 * axis begins again before the smaller steps have ended. */
static bool overlaps(const mc_attr_strided *a) {
    for (int64_t k = 0; k < a->ndim; k++) {
        int64_t step = llabs(a->strides[k]), reach = 0;
        if (step == 0 || a->shape[k] == 1) continue;
        for (int64_t i = 0; i < a->ndim; i++) {
            int64_t other = llabs(a->strides[i]);
            if (i != k && (other < step || (other == step && i < k)))
                reach += other * (a->shape[i] - 1);
        }
        if (reach >= step) return true;
    }
    return false;
}

/* Over rows that lie one after the other: MLX refuses others, such as a number that is repeated.
 * Its reductions take an inner axis that is dense for one that the others step over, and read and
 * write behind the end of what overlaps (0.32.4); so that is copied. */
void mc_mlx_emit_as_strided(mc_mlx_call *c) {
    const mc_attr_strided *a = c->attr;
    int shape[MICA_MAX_NDIM] = {0};
    size_t n = (size_t)c->to->ndim;
    mlx_array x = {0}, y = {0}, copy = {0};
    for (size_t k = 0; k < n; k++)
        shape[k] = (int)a->shape[k];
    int failed = mc_mlx.contiguous(&x, c->in[0], false, c->stream);
    x = mc_mlx_keep(c, failed, x);
    failed = mc_mlx.as_strided(&y, x, shape, n, a->strides, n, (size_t)a->offset, c->stream);
    y = mc_mlx_keep(c, failed, y);
    if (!y.ctx || mc_layout_size(c->to) == 0 || !overlaps(a)) {
        give_view(c, a->offset, y);
        return;
    }
    failed = mc_mlx.contiguous(&copy, y, false, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, copy));
}

/* Any byte but 0 is true, which MLX only knows of numbers. */
void mc_mlx_emit_view(mc_mlx_call *c) {
    mlx_array y = {0};
    mlx_dtype dtype = c->to->dtype == MICA_BOOL ? MLX_UINT8 : mc_mlx_dtype(c->to->dtype);
    int failed = mc_mlx.view(&y, c->in[0], dtype, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* ---- making ---- */

/* start + i step, computed as the cpu does: MLX adds up in the result's dtype. */
static mlx_array range_from_host(mc_mlx_call *c, const mc_attr_range *a, bool floats) {
    int count = (int)a->count;
    mlx_array y = {0};
    int64_t *data = mc_array_alloc((size_t)count, sizeof *data); /* floats take half of it */
    for (int64_t i = 0; data && i < count; i++) {
        double value = a->start + (double)i * a->step;
        if (floats)
            ((float *)(void *)data)[i] = (float)value;
        else
            data[i] = mc_to_i64(value);
    }
    if (data) y = mc_mlx.array_new_data(data, &count, 1, floats ? MLX_FLOAT32 : MLX_INT64);
    mc_free(data);
    return mc_mlx_keep(c, !y.ctx, y);
}

void mc_mlx_emit_arange(mc_mlx_call *c) {
    const mc_attr_range *a = c->attr;
    double stop = a->start + (double)a->count * a->step;
    bool whole = a->start == trunc(a->start) && a->step == trunc(a->step);
    if (!whole || fabs(a->start) > 0x1p24 || fabs(stop) > 0x1p24) {
        mc_mlx_give(c, 0, range_from_host(c, a, mica_dtype_is_float(c->to->dtype)));
        return;
    }
    mlx_array y = {0};
    int failed = mc_mlx.arange(&y, a->start, stop, a->step, MLX_INT32, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_random_bits(mc_mlx_call *c) {
    const mc_attr_bits *a = c->attr;
    int shape[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    for (int k = 0; k < a->ndim; k++)
        shape[k] = (int)a->shape[k];
    int failed =
        mc_mlx.random_bits(&y, shape, (size_t)a->ndim, (int)a->width_bytes, c->in[0], c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* ---- moving ---- */

void mc_mlx_emit_contiguous(mc_mlx_call *c) {
    mlx_array y = {0};
    int failed = mc_mlx.contiguous(&y, c->in[0], false, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_concatenate(mc_mlx_call *c) {
    const mc_attr_axis *a = c->attr;
    mlx_array y = {0};
    mlx_vector_array all = mc_mlx.vector_array_new_data(c->in, (size_t)c->n_in);
    int failed = mc_mlx.concatenate_axis(&y, all, (int)a->axis, c->stream);
    mc_mlx.vector_array_free(all);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_slice_update(mc_mlx_call *c) {
    ranges r = ranges_of(c->attr, c->from[0]);
    mlx_array y = {0};
    if (mc_layout_size(c->from[1]) == 0) {
        mc_mlx_give(c, 0, c->in[0]);
        return;
    }
    int failed = mc_mlx.slice_update(&y, c->in[0], c->in[1], r.start, r.n, r.stop, r.n, r.step, r.n,
                                     c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_slice_update_at(mc_mlx_call *c) {
    int axis = (int)((const mc_attr_axis *)c->attr)->axis;
    int64_t length = c->from[0]->shape[axis], count = c->from[1]->shape[axis];
    const int64_t one = 1;
    mlx_array y = {0};
    mlx_array start = mc_mlx_bound(c, axis, length, count, 2);
    start = mc_mlx_reshape(c, start, &one, 1);
    int failed = mc_mlx.slice_update_dynamic(&y, c->in[0], c->in[1], start, &axis, 1, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

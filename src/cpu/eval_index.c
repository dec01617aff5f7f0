/* Reading elements by index: take, take_along_axis, gather. Writing them: put_along_axis. */
#include <string.h>

#include "cpu/copy.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/index.h"
#include "cpu/region.h"
#include "graph/attr.h"

#define RUN_BYTES (64 * 1024) /* fewer are not worth another thread */

/* ---- take ---- */

/* Resolves all indices, in logical order, to distances from the front of the axis. */
static mica_status resolve_all(const char *op, const mc_operand *index, int64_t length, int axis,
                               int64_t *out) {
    const mc_layout *l = index->layout;
    int64_t item = (int64_t)mica_dtype_bytes(l->dtype), i = 0;
    mc_walk w = mc_walk_begin(l);
    do {
        const char *at = (const char *)index->data + w.offset * item;
        MC_TRY(mc_index_resolve(op, l->dtype, at, length, axis, &out[i++]));
    } while (mc_walk_next(&w));
    return MICA_OK;
}

/* x [outer..., axis, inner...] at n indices: [outer..., n, inner...]. */
typedef struct take_work {
    const mc_layout *x;
    const char *from;
    char *to;
    int axis;
    int64_t n;
    const int64_t *indices; /* [n] */
    int64_t row_bytes;      /* of `inner` in the result */
    mc_copy row;
} take_work;

/* The element offset of block `outer` of the axes before the indexed one. */
static int64_t outer_offset(const mc_layout *x, int axis, int64_t outer) {
    int64_t offset = 0;
    for (int k = axis - 1; k >= 0; k--) {
        offset += outer % x->shape[k] * x->strides[k];
        outer /= x->shape[k];
    }
    return offset;
}

static void take_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const take_work *w = context;
    int64_t outer = begin / w->n, j = begin % w->n, stride = w->x->strides[w->axis];
    int64_t base = outer_offset(w->x, w->axis, outer);
    for (int64_t row = begin; row < end; row++) {
        mc_copy_at(&w->row, w->to + row * w->row_bytes,
                   w->from + (base + w->indices[j] * stride) * w->row.item);
        if (++j < w->n) continue;
        j = 0;
        base = outer_offset(w->x, w->axis, ++outer);
    }
}

mica_status mc_eval_take(const mc_call *call) {
    const mc_layout *x = call->in[0].layout, *index = call->in[1].layout;
    if (mc_layout_size(index) == 0) return MICA_OK;
    take_work work = {.x = x, .from = call->in[0].data, .to = call->out.data};
    work.axis = (int)((const mc_attr_axis *)call->attr)->axis;
    work.n = mc_layout_size(index);
    int64_t *indices = mc_run_scratch(call->run, (size_t)work.n * sizeof *indices);
    if (!indices) return MICA_ENOMEM;
    MC_TRY(resolve_all("take", &call->in[1], x->shape[work.axis], work.axis, indices));
    int64_t size = mc_layout_size(call->out.layout);
    if (size == 0) return MICA_OK;

    mc_layout inner = {.dtype = x->dtype, .ndim = x->ndim - work.axis - 1};
    size_t bytes = (size_t)inner.ndim * sizeof *inner.shape;
    memcpy(inner.shape, x->shape + work.axis + 1, bytes);
    mc_layout row = inner;
    mc_layout_set_dense(&row);
    memcpy(inner.strides, x->strides + work.axis + 1, bytes);
    mc_copy_init(&work.row, &row, &inner);
    work.indices = indices;
    work.row_bytes = mc_layout_bytes(&row);
    mc_cpu_for(call, size / mc_layout_size(&row), RUN_BYTES / work.row_bytes, take_rows, &work);
    return MICA_OK;
}

/* ---- take_along_axis, put_along_axis ---- */

static inline void copy_item(char *to, const char *from, int64_t item) {
    switch (item) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
        break;
    }
}

/* The layout of the first elements along an axis. */
static mc_layout beside(const mc_layout *l, int axis) {
    mc_layout result = *l;
    result.shape[axis] = 1;
    return result;
}

/* `far` is indexed along the axis; `near` has the shape of the indices. */
typedef struct along {
    const char *op;
    int axis;
    const mc_operand *index;
    const mc_layout *far, *near;
    char *far_data, *near_data;
    bool put; /* near to far, else far to near */
} along;

/* Copies one line of the axis. The offsets of its first elements are in elements. */
static mica_status copy_along(const along *a, int64_t far_at, int64_t near_at, int64_t index_at) {
    const mc_layout *index = a->index->layout;
    int64_t item = (int64_t)mica_dtype_bytes(a->far->dtype);
    int64_t index_item = (int64_t)mica_dtype_bytes(index->dtype);
    for (int64_t j = 0; j < index->shape[a->axis]; j++) {
        const char *from =
            (const char *)a->index->data + (index_at + j * index->strides[a->axis]) * index_item;
        int64_t i;
        MC_TRY(mc_index_resolve(a->op, index->dtype, from, a->far->shape[a->axis], a->axis, &i));
        char *far = a->far_data + (far_at + i * a->far->strides[a->axis]) * item;
        char *near = a->near_data + (near_at + j * a->near->strides[a->axis]) * item;
        if (a->put) {
            copy_item(far, near, item);
        } else {
            copy_item(near, far, item);
        }
    }
    return MICA_OK;
}

static mica_status run_along(const along *a) {
    if (mc_layout_size(a->index->layout) == 0) return MICA_OK;
    mc_layout far = beside(a->far, a->axis), near = beside(a->near, a->axis);
    mc_layout index = beside(a->index->layout, a->axis);
    mc_walk wf = mc_walk_begin(&far), wn = mc_walk_begin(&near), wi = mc_walk_begin(&index);
    do {
        MC_TRY(copy_along(a, wf.offset, wn.offset, wi.offset));
        mc_walk_next(&wf);
        mc_walk_next(&wn);
    } while (mc_walk_next(&wi));
    return MICA_OK;
}

mica_status mc_eval_take_along_axis(const mc_call *call) {
    along a = {.op = "take_along_axis", .index = &call->in[1], .put = false};
    a.axis = (int)((const mc_attr_axis *)call->attr)->axis;
    a.far = call->in[0].layout;
    a.far_data = call->in[0].data;
    a.near = call->out.layout;
    a.near_data = call->out.data;
    return run_along(&a);
}

mica_status mc_eval_put_along_axis(const mc_call *call) {
    along a = {.op = "put_along_axis", .index = &call->in[1], .put = true};
    a.axis = (int)((const mc_attr_axis *)call->attr)->axis;
    a.far = call->out.layout;
    a.far_data = call->out.data;
    a.near = call->in[2].layout;
    a.near_data = call->in[2].data;
    mc_copy_base(call, &call->in[0]);
    return run_along(&a);
}

/* ---- gather ---- */

mica_status mc_eval_gather(const mc_call *call) {
    const mc_attr_gather *a = call->attr;
    const mc_layout *x = call->in[0].layout;
    if (mc_layout_size(call->out.layout) == 0) return MICA_OK;
    mc_layout slice, row;
    MC_TRY(mc_layout_init(&row, x->dtype, a->slice_sizes, x->ndim));
    slice = row;
    memcpy(slice.strides, x->strides, sizeof slice.strides);
    mc_copy copy;
    mc_copy_init(&copy, &row, &slice);
    int64_t row_bytes = mc_layout_bytes(&row);
    mc_index_walk w = mc_index_walk_begin("gather", call->in + 1, (int)a->n, a->axes, x);
    char *to = call->out.data;
    do {
        int64_t offset;
        MC_TRY(mc_index_walk_offset(&w, &offset));
        mc_copy_at(&copy, to, (const char *)call->in[0].data + offset * copy.item);
        to += row_bytes;
    } while (mc_index_walk_next(&w));
    return MICA_OK;
}

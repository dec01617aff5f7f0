/* Steps that go element by element, make numbers, or move them. */
#include <string.h>

#include "cuda/cuda.h"
#include "graph/attr.h"

/* ---- element by element ---- */

static const mc_op element_ops[] = {
#define ELEMENT(op, floats, integers) MC_OP_##op,
#include "cuda/kern/element_list.h"
};

int mc_cuda_element_row(mc_op op) {
    for (int i = 0; i < (int)(sizeof element_ops / sizeof *element_ops); i++)
        if (element_ops[i] == op) return i;
    return -1;
}

mc_cuda_elements mc_cuda_elements_of(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    mc_cuda_elements a = {.size = mc_layout_size(out), .op = mc_cuda_element_row(call->op)};
    mc_cuda_view *views[MC_CUDA_OPERANDS + 1];
    memcpy(a.shape, out->shape, sizeof a.shape);
    for (int i = 0; i < call->n_in; i++) {
        a.in[i] = mc_cuda_view_of(call, &call->in[i]);
        views[i] = &a.in[i];
    }
    a.out = mc_cuda_view_of(call, &call->out);
    views[call->n_in] = &a.out;
    a.ndim = mc_cuda_join_axes(out->ndim, a.shape, views, call->n_in + 1);
    return a;
}

mica_status mc_cuda_run_elements(const mc_call *call) {
    mc_cuda_elements a = mc_cuda_elements_of(call);
    return mc_cuda_start(call, MC_CUDA_ELEMENTS_KERNEL, mc_cuda_over(call, a.size), &a);
}

bool mc_cuda_supports_any(const void *attr, const mc_layout *const *in, int n_in,
                          const mc_layout *out) {
    (void)attr;
    for (int i = 0; i < n_in; i++)
        if (!mc_cuda_takes(in[i])) return false;
    return mc_cuda_takes(out);
}

mica_status mc_cuda_arange(const mc_call *call) {
    const mc_attr_range *attr = call->attr;
    mc_cuda_range a = {.size = attr->count, .start = attr->start, .step = attr->step};
    a.out = mc_cuda_view_of(call, &call->out);
    return mc_cuda_start(call, MC_CUDA_RANGE_KERNEL, mc_cuda_over(call, a.size), &a);
}

/* ---- copies ---- */

bool mc_cuda_supports_move(const void *attr, const mc_layout *const *in, int n_in,
                           const mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return true;
}

/* A copy of x into the result from an element on, with these strides; all of `a` but `start` and
 * what goes with it is set here. */
static void set_copy(const mc_call *call, const mc_operand *x, const int64_t *strides,
                     int64_t offset, mc_cuda_copy *a) {
    const mc_layout *l = x->layout;
    mc_cuda_view *views[] = {&a->in, &a->out};
    a->size = mc_layout_size(l);
    a->item = (int32_t)mica_dtype_bytes(l->dtype);
    memcpy(a->shape, l->shape, sizeof a->shape);
    a->in = mc_cuda_view_of(call, x);
    a->out = mc_cuda_view_of(call, &call->out);
    memcpy(a->out.strides, strides, (size_t)l->ndim * sizeof *strides);
    a->out.data = (char *)a->out.data + offset * a->item;
    a->ndim = mc_cuda_join_axes(l->ndim, a->shape, views, 2);
}

/* Items that lie side by side become one of 16 bytes, where all of them do. */
static void widen(mc_cuda_copy *a) {
    int last = a->ndim - 1;
    int64_t n = 16 / a->item;
    uintptr_t at = (uintptr_t)a->in.data | (uintptr_t)a->out.data;
    bool fits = a->ndim > 0 && a->in.data && at % 16 == 0 && a->shape[last] % n == 0 &&
                a->in.strides[last] == 1 && a->out.strides[last] == 1;
    for (int k = 0; k < last; k++)
        fits = fits && a->in.strides[k] % n == 0 && a->out.strides[k] % n == 0;
    if (!fits) return;
    for (int k = 0; k < last; k++) {
        a->in.strides[k] /= n;
        a->out.strides[k] /= n;
    }
    a->shape[last] /= n;
    a->size /= n;
    a->item = 16;
}

static mica_status copy_into(const mc_call *call, const mc_operand *x, const int64_t *strides,
                             int64_t offset, mc_cuda_copy *a) {
    set_copy(call, x, strides, offset, a);
    widen(a);
    return mc_cuda_start(call, MC_CUDA_COPY_KERNEL, mc_cuda_over(call, a->size), a);
}

/* The result begins as its first operand, in whose memory it may be. */
mica_status mc_cuda_copy_base(const mc_call *call) {
    mc_cuda_copy a = {0};
    if (call->in[0].data == call->out.data) return MICA_OK;
    return copy_into(call, &call->in[0], call->out.layout->strides, 0, &a);
}

mc_cuda_copy mc_cuda_contiguous_of(const mc_call *call) {
    mc_cuda_copy a = {0};
    set_copy(call, &call->in[0], call->out.layout->strides, 0, &a);
    return a;
}

mica_status mc_cuda_contiguous(const mc_call *call) {
    mc_cuda_copy a = mc_cuda_contiguous_of(call);
    widen(&a);
    return mc_cuda_start(call, MC_CUDA_COPY_KERNEL, mc_cuda_over(call, a.size), &a);
}

mica_status mc_cuda_concatenate(const mc_call *call) {
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    const int64_t *strides = call->out.layout->strides;
    int64_t at = 0;
    for (int i = 0; i < call->n_in; i++) {
        mc_cuda_copy a = {0};
        MC_TRY(copy_into(call, &call->in[i], strides, at * strides[axis], &a));
        at += call->in[i].layout->shape[axis];
    }
    return MICA_OK;
}

mica_status mc_cuda_slice_update(const mc_call *call) {
    const mc_attr_slice *attr = call->attr;
    const mc_layout *out = call->out.layout;
    int64_t strides[MICA_MAX_NDIM], offset = 0;
    mc_cuda_copy a = {0};
    for (int k = 0; k < out->ndim; k++) {
        strides[k] = out->strides[k] * attr->step[k];
        offset += out->strides[k] * attr->start[k];
    }
    MC_TRY(mc_cuda_copy_base(call));
    return copy_into(call, &call->in[1], strides, offset, &a);
}

mc_cuda_copy mc_cuda_slice_update_at_of(const mc_call *call) {
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    const mc_layout *out = call->out.layout;
    mc_cuda_copy a = {.start = mc_cuda_view_of(call, &call->in[2]),
                      .start_stride = out->strides[axis],
                      .length = out->shape[axis],
                      .count = call->in[1].layout->shape[axis],
                      .op = (int32_t)call->op,
                      .axis = axis,
                      .fault = mc_cuda_fault_of(call)};
    set_copy(call, &call->in[1], out->strides, 0, &a);
    return a;
}

mica_status mc_cuda_slice_update_at(const mc_call *call) {
    mc_cuda_copy a = mc_cuda_slice_update_at_of(call);
    MC_TRY(mc_cuda_copy_base(call));
    return mc_cuda_start(call, MC_CUDA_COPY_KERNEL, mc_cuda_over(call, a.size), &a);
}

/* ---- by index ---- */

mica_status mc_cuda_take_rows(const mc_call *call) {
    const mc_layout *x = call->in[0].layout, *index = call->in[1].layout;
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    mc_cuda_take a = {.size = mc_layout_size(call->out.layout),
                      .n = mc_layout_size(index),
                      .inner = 1,
                      .length = x->shape[axis],
                      .item = (int32_t)mica_dtype_bytes(x->dtype),
                      .outer_ndim = axis,
                      .inner_ndim = x->ndim - axis - 1,
                      .index_ndim = index->ndim,
                      .stride = x->strides[axis],
                      .x = mc_cuda_view_of(call, &call->in[0]),
                      .index = mc_cuda_view_of(call, &call->in[1]),
                      .out = mc_cuda_view_of(call, &call->out),
                      .op = (int32_t)call->op,
                      .axis = axis,
                      .fault = mc_cuda_fault_of(call)};
    for (int k = 0; k < axis; k++) {
        a.outer_shape[k] = x->shape[k];
        a.outer_strides[k] = x->strides[k];
    }
    for (int k = 0; k < a.inner_ndim; k++) {
        a.inner_shape[k] = x->shape[axis + 1 + k];
        a.inner_strides[k] = x->strides[axis + 1 + k];
        a.inner *= a.inner_shape[k];
    }
    memcpy(a.index_shape, index->shape, sizeof a.index_shape);
    return mc_cuda_start(call, MC_CUDA_TAKE_KERNEL, mc_cuda_over(call, a.size), &a);
}

mc_cuda_kv_write mc_cuda_kv_write_of(const mc_call *call) {
    enum { POOL, ROWS, SLOTS };
    const mc_layout *x = call->in[ROWS].layout, *pool = call->out.layout;
    mc_cuda_kv_write a = {.size = mc_layout_size(x),
                          .slots_in_pool = pool->shape[1] * pool->shape[2],
                          .entries = pool->shape[2],
                          .item = (int32_t)mica_dtype_bytes(x->dtype),
                          .op = (int32_t)call->op,
                          .x = mc_cuda_view_of(call, &call->in[ROWS]),
                          .slots = mc_cuda_view_of(call, &call->in[SLOTS]),
                          .pool = mc_cuda_view_of(call, &call->out),
                          .fault = mc_cuda_fault_of(call)};
    memcpy(a.shape, x->shape, sizeof a.shape);
    return a;
}

mica_status mc_cuda_write_rows(const mc_call *call) {
    mc_cuda_kv_write a = mc_cuda_kv_write_of(call);
    MC_TRY(mc_cuda_copy_base(call));
    return mc_cuda_start(call, MC_CUDA_KV_WRITE_KERNEL, mc_cuda_over(call, a.size), &a);
}

/* Ops that move data and leave it as it is: copies of views, joins, slices written. */
#include "cpu/copy.h"
#include "cpu/eval.h"
#include "cpu/index.h"
#include "graph/attr.h"

mica_status mc_eval_contiguous(const mc_call *call) {
    mc_copy copy;
    mc_copy_init(&copy, call->out.layout, call->in[0].layout);
    mc_copy_run(call, &copy, call->out.data, call->in[0].data);
    return MICA_OK;
}

/* Copies an operand into the result from an element offset on, with the result's strides. */
static void copy_into(const mc_call *call, const mc_operand *from, const int64_t *strides,
                      int64_t offset) {
    mc_layout to = *from->layout;
    for (int k = 0; k < to.ndim; k++)
        to.strides[k] = strides[k];
    mc_copy copy;
    mc_copy_init(&copy, &to, from->layout);
    if (copy.shape[0] == 0) return;
    mc_copy_run(call, &copy, (char *)call->out.data + offset * copy.item, from->data);
}

mica_status mc_eval_concatenate(const mc_call *call) {
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    const int64_t *strides = call->out.layout->strides;
    int64_t at = 0;
    for (int i = 0; i < call->n_in; i++) {
        copy_into(call, &call->in[i], strides, at * strides[axis]);
        at += call->in[i].layout->shape[axis];
    }
    return MICA_OK;
}

mica_status mc_eval_slice_update(const mc_call *call) {
    const mc_attr_slice *a = call->attr;
    const mc_layout *out = call->out.layout;
    int64_t strides[MICA_MAX_NDIM], offset = 0;
    for (int k = 0; k < out->ndim; k++) {
        strides[k] = out->strides[k] * a->step[k];
        offset += out->strides[k] * a->start[k];
    }
    mc_copy_base(call, &call->in[0]);
    copy_into(call, &call->in[1], strides, offset);
    return MICA_OK;
}

mica_status mc_eval_slice_update_at(const mc_call *call) {
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    const mc_layout *out = call->out.layout;
    int64_t start = mc_index_load(MICA_I32, call->in[2].data);
    int64_t length = out->shape[axis], n = call->in[1].layout->shape[axis];
    if (start < 0 || start > length - n)
        return mc_fail(MICA_EINVAL,
                       "slice_update_at: %lld elements from %lld on do not fit into axis %d, which "
                       "has %lld",
                       (long long)n, (long long)start, axis, (long long)length);
    mc_copy_base(call, &call->in[0]);
    copy_into(call, &call->in[1], out->strides, start * out->strides[axis]);
    return MICA_OK;
}

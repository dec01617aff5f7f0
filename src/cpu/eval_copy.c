/* Ops that move data and leave it as it is: copies of views, joins, slices written. */
#include <string.h>

#include "cpu/block.h"
#include "cpu/copy.h"
#include "cpu/eval.h"
#include "cpu/index.h"
#include "cpu/rows.h"
#include "graph/attr.h"

mica_status mc_eval_contiguous(const mc_call *call) {
    mc_copy copy;
    mc_copy_init(&copy, call->out.layout, call->in[0].layout);
    mc_copy_run(call, &copy, call->out.data, call->in[0].data);
    return MICA_OK;
}

typedef struct gather_work {
    const mc_operand *x;
    char *to;
    int64_t item;
} gather_work;

static void gather_range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const gather_work *w = context;
    mc_gather(w->x, begin, end - begin, w->to + begin * w->item);
}

/* In a chain: row by row, where the last axis lies dense. */
mica_status mc_stage_contiguous(const mc_call *call, mc_stage *stage) {
    gather_work *w = mc_stage_memory(stage, sizeof *w);
    if (w == NULL) return MICA_OK;
    int64_t item = (int64_t)mica_dtype_bytes(call->out.layout->dtype);
    *w = (gather_work){&call->in[0], call->out.data, item};
    mc_stage_set(stage, gather_range, w, mc_layout_size(call->out.layout), MC_COPY_GRAIN / item);
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

/* The element of the result from which on the update is written. */
static mica_status update_offset(const mc_call *call, int64_t *offset) {
    int axis = (int)((const mc_attr_axis *)call->attr)->axis;
    const mc_layout *out = call->out.layout;
    int64_t start = mc_index_load(MICA_I32, call->in[2].data);
    int64_t length = out->shape[axis], n = call->in[1].layout->shape[axis];
    *offset = start * out->strides[axis];
    if (start < 0 || start > length - n)
        return mc_fail(MICA_EINVAL,
                       "slice_update_at: %lld elements from %lld on do not fit into axis %d, which "
                       "has %lld",
                       (long long)n, (long long)start, axis, (long long)length);
    return MICA_OK;
}

mica_status mc_eval_slice_update_at(const mc_call *call) {
    int64_t offset;
    MC_TRY(update_offset(call, &offset));
    mc_copy_base(call, &call->in[0]);
    copy_into(call, &call->in[1], call->out.layout->strides, offset);
    return MICA_OK;
}

typedef struct update_work {
    const mc_operand *update;
    mc_layout to; /* of the update, with the result's strides */
    char *data;   /* the result from the update on */
} update_work;

/* Rows of the update's last axis. */
static void update_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const update_work *w = context;
    int last = w->to.ndim - 1;
    int64_t n = w->to.shape[last], item = (int64_t)mica_dtype_bytes(w->to.dtype);
    const mc_layout *l = w->update->layout;
    mc_row_walk from = mc_row_walk_begin(l, last, begin);
    mc_row_walk to = mc_row_walk_begin(&w->to, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&from), mc_row_walk_next(&to))
        memcpy(w->data + to.offset * item, (const char *)w->update->data + from.offset * item,
               (size_t)(n * item));
}

/* In a chain: the rest of the result, where it is not there already, is copied first. */
mica_status mc_stage_slice_update_at(const mc_call *call, mc_stage *stage) {
    update_work *w = mc_stage_memory(stage, sizeof *w);
    if (w == NULL) return MICA_OK;
    int64_t offset;
    MC_TRY(update_offset(call, &offset));
    mc_copy_base(call, &call->in[0]);
    *w = (update_work){.update = &call->in[1], .to = *call->in[1].layout};
    memcpy(w->to.strides, call->out.layout->strides, sizeof w->to.strides);
    int64_t item = (int64_t)mica_dtype_bytes(w->to.dtype), last = w->to.ndim - 1;
    w->data = (char *)call->out.data + offset * item;
    mc_stage_set(stage, update_rows, w, mc_row_count(&w->to, (int)last),
                 MC_COPY_GRAIN / (w->to.shape[last] * item));
    return MICA_OK;
}

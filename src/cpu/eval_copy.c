/* Ops that move data unchanged: copies of views, concatenation, slice updates. */
#include <string.h>

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

/* The element of the result at which the update begins. */
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

typedef struct rows_work {
    const mc_operand *from;
    mc_layout to; /* shape of `from`, with the target's strides */
    char *data;   /* address of its first element in the target */
} rows_work;

/* Copies rows of the last axis, whose elements are contiguous. */
static void copy_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rows_work *w = context;
    int last = w->to.ndim - 1;
    int64_t n = w->to.shape[last], item = (int64_t)mica_dtype_bytes(w->to.dtype);
    mc_row_walk from = mc_row_walk_begin(w->from->layout, last, begin);
    mc_row_walk to = mc_row_walk_begin(&w->to, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&from), mc_row_walk_next(&to)) {
        mc_row_walk_fetch(&from, w->from->data, n);
        memcpy(w->data + to.offset * item, (const char *)w->from->data + from.offset * item,
               (size_t)(n * item));
    }
}

static void set_rows(mc_stage *stage, rows_work *w, const mc_operand *from, const mc_call *call,
                     int64_t offset) {
    *w = (rows_work){.from = from, .to = *from->layout};
    memcpy(w->to.strides, call->out.layout->strides, sizeof w->to.strides);
    int64_t item = (int64_t)mica_dtype_bytes(w->to.dtype);
    int last = w->to.ndim - 1;
    w->data = (char *)call->out.data + offset * item;
    mc_stage_set(stage, copy_rows, w, mc_row_count(&w->to, last),
                 MC_COPY_GRAIN / (w->to.shape[last] * item));
}

/* As a stage of a chain. */
mica_status mc_stage_contiguous(const mc_call *call, mc_stage *stage) {
    rows_work *w = mc_stage_memory(stage, sizeof *w);
    if (w) set_rows(stage, w, &call->in[0], call, 0);
    return MICA_OK;
}

/* As a stage of a chain. First copies the rest of the result, unless it is there already. */
mica_status mc_stage_slice_update_at(const mc_call *call, mc_stage *stage) {
    rows_work *w = mc_stage_memory(stage, sizeof *w);
    if (!w) return MICA_OK;
    int64_t offset;
    MC_TRY(update_offset(call, &offset));
    mc_copy_base(call, &call->in[0]);
    set_rows(stage, w, &call->in[1], call, offset);
    return MICA_OK;
}

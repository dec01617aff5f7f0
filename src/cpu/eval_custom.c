/* Ops of the application: over dense operands, which are copied where they are not. */
#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/eval.h"
#include "graph/custom.h"

static int64_t bytes_of(const mc_layout *l) {
    return mc_round_up(mc_layout_size(l) * (int64_t)mica_dtype_bytes(l->dtype), 64);
}

mica_status mc_eval_custom(const mc_call *call) {
    const mc_attr_custom *a = call->attr;
    const void *data[MICA_CUSTOM_OPERANDS];
    mica_shape shapes[MICA_CUSTOM_OPERANDS], out = mc_custom_shape(call->out.layout);
    const mica_custom_op *op;
    int64_t copied = 0;
    MC_TRY(mc_custom_find(a, &op));
    for (int i = 0; i < call->n_in; i++)
        if (!mc_layout_is_dense(call->in[i].layout)) copied += bytes_of(call->in[i].layout);
    char *space = copied > 0 ? mc_run_scratch(call->run, (size_t)copied) : NULL;
    if (copied > 0 && !space) return MICA_ENOMEM;
    if (mc_run_is_measured(call->run)) return MICA_OK;
    for (int i = 0; i < call->n_in; i++) {
        const mc_layout *l = call->in[i].layout;
        shapes[i] = mc_custom_shape(l);
        data[i] = call->in[i].data;
        if (mc_layout_is_dense(l)) continue;
        if (mc_layout_size(l) > 0) mc_gather(&call->in[i], 0, mc_layout_size(l), space);
        data[i] = space;
        space += bytes_of(l);
    }
    mica_status status =
        op->run(op->user, a->numbers, (int)a->n, shapes, data, call->n_in, &out, call->out.data);
    return status == MICA_OK ? status : mc_custom_failed(op, status, "run");
}

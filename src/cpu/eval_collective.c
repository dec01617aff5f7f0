/* Collectives over dense operands, which are copied where they are not; the group does the rest. */
#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/eval.h"
#include "graph/attr.h"
#include "group/group.h"

static mica_status collect(const mc_call *call, mica_group *group, int rank, const void *x) {
    const mc_layout *in = call->in[0].layout, *out = call->out.layout;
    void *y = call->out.data;
    size_t n = (size_t)mc_layout_size(in), item = mica_dtype_bytes(in->dtype);
    if (mica_group_size(group) == 1) { /* what it sends to itself it has received as `like` */
        if (x != y) memcpy(y, x, n * item);
        return MICA_OK;
    }
    switch ((int)call->op) {
    case MC_OP_ALL_REDUCE:
        return mc_group_all_reduce(group, x, n, in->dtype, y);
    case MC_OP_ALL_GATHER:
        return mc_group_all_gather(group, x, n * item, y);
    case MC_OP_REDUCE_SCATTER:
        return mc_group_reduce_scatter(group, x, (size_t)mc_layout_size(out), in->dtype, y);
    case MC_OP_RECV:
        return mc_group_recv(group, y, n * item, rank);
    }
    if (x != y) memcpy(y, x, n * item);
    return call->op == MC_OP_SEND ? mc_group_send(group, y, n * item, rank)
                                  : mc_group_broadcast(group, y, n * item, rank);
}

mica_status mc_eval_collective(const mc_call *call) {
    const mc_attr_collective *a = call->attr;
    const mc_layout *l = call->in[0].layout;
    int64_t n = mc_layout_size(l);
    const void *x = call->in[0].data;
    mica_group *group;
    if (!mc_layout_is_dense(l) && n > 0) {
        void *dense = mc_run_scratch(call->run, (size_t)n * mica_dtype_bytes(l->dtype));
        if (!dense) return MICA_ENOMEM;
        if (!mc_run_is_measured(call->run)) mc_gather(&call->in[0], 0, n, dense);
        x = dense;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    MC_TRY(mc_group_find(a->group, &group));
    *(uint8_t *)call->more[0].data = 0;
    mica_status status = n > 0 ? collect(call, group, (int)a->rank, x) : MICA_OK;
    mc_group_release(group);
    return status;
}

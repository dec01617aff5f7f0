#include "op/work.h"

#include <math.h>

double mc_work_bytes(const mc_layout *l) {
    double size = (double)mc_layout_size(l);
    for (int k = 0; k < l->ndim && size > 0; k++)
        if (l->strides[k] == 0) size /= (double)l->shape[k];
    return size * (double)mica_dtype_bytes(l->dtype);
}

mc_work mc_work_of(const mc_node *node, const mc_layout *const *in) {
    const mc_op_def *def = mc_op_get(node->op);
    const mc_layout *out = mc_node_results(node);
    mc_work work = {.kind = MC_WORK_ELEMENTS};
    for (int i = 0; i < mc_node_n_out(node); i++) {
        work.operations += (double)mc_layout_size(&out[i]);
        work.bytes += (double)mc_layout_bytes(&out[i]);
    }
    for (uint32_t k = 0; k < node->n_in; k++)
        if (in[k]) work.bytes += mc_work_bytes(in[k]);
    if (def->work) def->work(node->attr, in, (int)node->n_in, out, &work);
    return work;
}

MC_WORK_RULE(mc_work_function) {
    (void)attr, (void)in, (void)n_in, (void)out;
    work->operations *= MC_WORK_FUNCTION;
}

MC_WORK_RULE(mc_work_reduce) {
    (void)attr, (void)n_in, (void)out;
    work->kind = MC_WORK_REDUCE;
    work->operations = (double)mc_layout_size(in[0]);
}

MC_WORK_RULE(mc_work_sort) {
    (void)attr, (void)n_in, (void)out;
    double n = in[0]->ndim > 0 ? (double)in[0]->shape[in[0]->ndim - 1] : 1;
    work->operations = MC_WORK_FUNCTION * (double)mc_layout_size(in[0]) * log2(n < 2 ? 2 : n);
}

MC_WORK_RULE(mc_work_pick) {
    (void)attr;
    work->bytes = 2 * (double)mc_layout_bytes(out);
    for (int i = 1; i < n_in; i++)
        if (in[i]) work->bytes += (double)mc_layout_bytes(in[i]);
}

MC_WORK_RULE(mc_work_update) {
    (void)attr, (void)out;
    work->operations = (double)mc_layout_size(in[1]);
    work->bytes = (double)mc_layout_bytes(in[1]);
    for (int i = 1; i < n_in; i++)
        if (in[i]) work->bytes += (double)mc_layout_bytes(in[i]);
}

#include "op/work.h"

#include <math.h>

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

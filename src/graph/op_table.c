/* The op table, made from the list, and the one op that is the graph's own: LEAF. */
#include "graph/graph.h"

static mica_status leaf_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return mc_fail(MICA_EINTERNAL, "leaf: leaves are not recorded by mc_record");
}

const mc_op_def mc_op_leaf = {.name = "leaf", .infer = leaf_infer};

const mc_op_def *mc_op_get(mc_op op) {
    static const mc_op_def *const table[MC_OP_COUNT] = {
#define OP(ENUM, name) [MC_OP_##ENUM] = &mc_op_##name,
#include "graph/op_list.h"
    };
    return table[op];
}

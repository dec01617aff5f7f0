/* The op table, made from the list, and the ops that are the graph's own: LEAF and PART. */
#include <string.h>

#include "graph/attr.h"
#include "graph/gradient.h"

static mica_status leaf_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return mc_fail(MICA_EINTERNAL, "leaf: leaves are not recorded by mc_record");
}

const mc_op_def mc_op_leaf = {.name = "leaf", .infer = leaf_infer};
MC_NO_GRADIENT(leaf, "it has no operands");

const mc_layout *mc_part_layout(const void *attr, const mc_node *operand) {
    const mc_attr_part *part = attr;
    int n = operand->results ? mc_node_n_out(operand) : 0;
    return part->index >= 0 && part->index < n ? &operand->results[part->index] : NULL;
}

static mica_status part_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    *out = *in[0]; /* mc_operand_layout chose it */
    return MICA_OK;
}

const mc_op_def mc_op_part = {
    .name = "part", .min_in = 1, .max_in = 1, MC_ATTR(part), .infer = part_infer};
MC_NO_GRADIENT(part, "it goes with the op that has the results");

int mc_node_part(const mc_node *node) {
    const mc_attr_part *part = node->attr;
    return node->op == MC_OP_PART ? (int)part->index : -1;
}

const mc_op_def *mc_op_get(mc_op op) {
    static const mc_op_def *const table[MC_OP_COUNT] = {
#define OP(ENUM, name) [MC_OP_##ENUM] = &mc_op_##name,
#include "graph/op_list.h"
    };
    return table[op];
}

const mc_op_gradient *mc_op_gradient_get(mc_op op) {
    static const mc_op_gradient *const table[MC_OP_COUNT] = {
#define OP(ENUM, name) [MC_OP_##ENUM] = &mc_gradient_##name,
#include "graph/op_list.h"
    };
    return table[op];
}

mc_op mc_op_find(const char *name) {
    int op = MC_OP_LEAF + 1;
    while (op < MC_OP_COUNT && strcmp(mc_op_get((mc_op)op)->name, name) != 0)
        op++;
    return (mc_op)op;
}

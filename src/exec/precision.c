#include "exec/precision.h"

#include <string.h>

#include "graph/attr.h"

/* Sums of products are in f32 and rounded once: their operands may be small. */
static const mc_op products[] = {MC_OP_MATMUL, MC_OP_QUANTIZED_MATMUL, MC_OP_GATHER_MM,
                                 MC_OP_GATHER_QMM, MC_OP_CONV_GENERAL};

mica_status mc_precision_choose(mica_precision policy, const mica_op_precision *ops, size_t n,
                                mc_precision *precision) {
    if (policy < MICA_PRECISION_RECORDED || policy > MICA_PRECISION_BF16_PRODUCTS)
        return mc_fail(MICA_EINVAL, "executable_open: there is no precision %d", (int)policy);
    if (!ops && n > 0) return mc_fail(MICA_EINVAL, "executable_open: op_precisions is NULL");
    bool recorded = policy == MICA_PRECISION_RECORDED;
    memset(precision->dtype, recorded ? MICA_BOOL : MICA_F32, sizeof precision->dtype);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (policy == MICA_PRECISION_BF16_PRODUCTS) precision->dtype[products[i]] = MICA_BF16;
    for (size_t i = 0; i < n; i++) {
        if (!ops[i].op) return mc_fail(MICA_EINVAL, "executable_open: the name of an op is NULL");
        const mc_op op = mc_op_find(ops[i].op);
        if (op == MC_OP_COUNT)
            return mc_fail(MICA_ENOENT, "executable_open: there is no op %.60s", ops[i].op);
        if (ops[i].dtype != MICA_BOOL && !mica_dtype_is_float(ops[i].dtype))
            return mc_fail(MICA_EINVAL, "executable_open: the precision of %s is no float",
                           ops[i].op);
        precision->dtype[op] = (unsigned char)ops[i].dtype;
    }
    precision->any = !recorded || n > 0;
    return MICA_OK;
}

mica_array mc_precision_restore(mica_scope *s, mica_array x, mica_dtype dtype) {
    const mc_layout *l = mc_layout_of(x);
    if (!l || l->dtype == dtype || !mica_dtype_is_float(l->dtype) || !mica_dtype_is_float(dtype))
        return x;
    const mc_attr_dtype attr = {.dtype = dtype};
    return mc_record(s, MC_OP_ASTYPE, &attr, &x, 1);
}

/* Ops of bits, of the application and of graphs: they take what was recorded. */
static bool is_exact(mc_op op) {
    return op == MC_OP_VIEW || op == MC_OP_TO_FP8 || op == MC_OP_TO_Q8 || op == MC_OP_CUSTOM ||
           mc_op_is_control(mc_op_get(op));
}

/* Ops that move one operand, in whatever dtype it has. */
static bool is_moving(const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    return node->op == MC_OP_PART || node->op == MC_OP_CONTIGUOUS || node->op == MC_OP_TAKE ||
           node->op == MC_OP_TAKE_ALONG_AXIS || node->op == MC_OP_GATHER ||
           (def->view && node->op != MC_OP_VIEW);
}

/* Of quantised weights, scales and biases stay as they are. */
static bool is_cast(mc_op op, uint32_t k) {
    return k == 0 ||
           (op != MC_OP_QUANTIZED_MATMUL && op != MC_OP_GATHER_QMM && op != MC_OP_DEQUANTIZE);
}

void mc_precision_cast(const mc_precision *precision, mica_scope *s, const mc_node *node,
                       const mc_layout *const *was, mica_array *in, int64_t *attr) {
    mica_dtype dtype = (mica_dtype)precision->dtype[node->op];
    bool as_recorded = dtype == MICA_BOOL || is_exact(node->op);
    if (is_moving(node)) return;
    if (node->op == MC_OP_ASTYPE) {
        mc_attr_dtype *cast = (mc_attr_dtype *)(void *)attr;
        bool wide = cast->dtype == MICA_F64 || was[0]->dtype == MICA_F64; /* f32 alone meets f64 */
        if (wide)
            in[0] = mc_precision_restore(s, in[0], was[0]->dtype);
        else if (!as_recorded && mica_dtype_is_float((mica_dtype)cast->dtype))
            cast->dtype = dtype;
        return;
    }
    for (uint32_t k = 0; k < node->n_in; k++)
        if (was[k] && is_cast(node->op, k))
            in[k] = mc_precision_restore(s, in[k], as_recorded ? was[k]->dtype : dtype);
}

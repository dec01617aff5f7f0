/* Elementwise ops of two operands. Builders convert both to one dtype and broadcast them to one
 * shape (a view), so the ops get two operands of one dtype and shape. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"

static mica_status alike(const char *what, const mc_layout *const *in) {
    if (in[0]->dtype == in[1]->dtype && mc_layout_same_shape(in[0], in[1])) return MICA_OK;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(MICA_ESHAPE, "%s: operands %s and %s are not alike", what,
                   mc_layout_text(in[0], a), mc_layout_text(in[1], b));
}

static mica_status same_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    MC_TRY(alike("arithmetic", in));
    *out = *in[0];
    return MICA_OK;
}

static mica_status bool_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    MC_TRY(alike("comparison", in));
    *out = *in[0];
    out->dtype = MICA_BOOL;
    return MICA_OK;
}

static mica_status float_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "arithmetic of floats: %s is none",
                       mc_layout_text(in[0], text));
    return same_infer(attr, in, n_in, out);
}

static mica_status logical_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    char text[MC_LAYOUT_TEXT];
    if (in[0]->dtype != MICA_BOOL)
        return mc_fail(MICA_EDTYPE, "logic: %s is not bool", mc_layout_text(in[0], text));
    return bool_infer(attr, in, n_in, out);
}

static mica_status bits_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    char text[MC_LAYOUT_TEXT];
    if (mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "bits: %s are floats", mc_layout_text(in[0], text));
    return same_infer(attr, in, n_in, out);
}

/* The dtype that both operands of an op are converted to. */
typedef enum kind {
    PROMOTED, /* their promoted dtype */
    INEXACT,  /* their promoted dtype, f32 unless that is a float */
    TRUTH,    /* bool */
    BITS,     /* their promoted dtype, which may not be a float */
    SHIFT     /* as BITS, u8 for bool */
} kind;

/* Sets *dtype, or fails with MICA_EDTYPE. */
static mica_status operand_dtype(const char *name, kind k, mica_dtype a, mica_dtype b,
                                 mica_dtype *dtype) {
    *dtype = mica_dtype_promote(a, b);
    if (k == TRUTH) *dtype = MICA_BOOL;
    if (k == INEXACT) *dtype = mc_inexact(*dtype);
    if (k == SHIFT && *dtype == MICA_BOOL) *dtype = MICA_U8;
    if ((k == BITS || k == SHIFT) && mica_dtype_is_float(*dtype))
        return mc_fail(MICA_EDTYPE, "%s: %s and %s: floats have no bits to work on; use integers",
                       name, mica_dtype_name(a), mica_dtype_name(b));
    return MICA_OK;
}

static mica_array record(mica_scope *s, mc_op op, const char *name, kind k, mica_array a,
                         mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, name, in, 2)) return mc_invalid(s);
    mica_dtype dtype;
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    mica_status status = operand_dtype(name, k, mica_array_dtype(a), mica_array_dtype(b), &dtype);
    if (!status) status = mc_broadcast_shapes(name, mc_layout_of(a), mc_layout_of(b), shape, &ndim);
    if (status) {
        mc_scope_set_status(s, status);
        return mc_invalid(s);
    }
    for (int i = 0; i < 2; i++)
        in[i] = mc_align(s, mc_cast(s, in[i], dtype), shape, ndim);
    return mc_record(s, op, NULL, in, 2);
}

#define BINARY(ENUM, name, kind, infer_fn)                                              \
    const mc_op_def mc_op_##name = {#name, .min_in = 2, .max_in = 2, .infer = infer_fn, \
                                    .in_place = 2};                                     \
    mica_array mica_##name(mica_scope *s, mica_array a, mica_array b) {                 \
        return record(s, MC_OP_##ENUM, #name, kind, a, b);                              \
    }
BINARY(ADD, add, PROMOTED, same_infer)
BINARY(SUBTRACT, subtract, PROMOTED, same_infer)
BINARY(MULTIPLY, multiply, PROMOTED, same_infer)
BINARY(DIVIDE, divide, INEXACT, float_infer)
BINARY(FLOOR_DIVIDE, floor_divide, PROMOTED, same_infer)
BINARY(REMAINDER, remainder, PROMOTED, same_infer)
BINARY(POWER, power, PROMOTED, same_infer)
BINARY(MAXIMUM, maximum, PROMOTED, same_infer)
BINARY(MINIMUM, minimum, PROMOTED, same_infer)
BINARY(LOGADDEXP, logaddexp, INEXACT, float_infer)
BINARY(ARCTAN2, arctan2, INEXACT, float_infer)
BINARY(EQUAL, equal, PROMOTED, bool_infer)
BINARY(NOT_EQUAL, not_equal, PROMOTED, bool_infer)
BINARY(LESS, less, PROMOTED, bool_infer)
BINARY(LESS_EQUAL, less_equal, PROMOTED, bool_infer)
BINARY(GREATER, greater, PROMOTED, bool_infer)
BINARY(GREATER_EQUAL, greater_equal, PROMOTED, bool_infer)
BINARY(LOGICAL_AND, logical_and, TRUTH, logical_infer)
BINARY(LOGICAL_OR, logical_or, TRUTH, logical_infer)
BINARY(BITWISE_AND, bitwise_and, BITS, bits_infer)
BINARY(BITWISE_OR, bitwise_or, BITS, bits_infer)
BINARY(BITWISE_XOR, bitwise_xor, BITS, bits_infer)
BINARY(LEFT_SHIFT, left_shift, SHIFT, bits_infer)
BINARY(RIGHT_SHIFT, right_shift, SHIFT, bits_infer)

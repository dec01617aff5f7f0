/* Elementwise ops of one operand. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"

static mica_status same_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    *out = *in[0];
    return MICA_OK;
}

static mica_status bool_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    *out = *in[0];
    out->dtype = MICA_BOOL;
    return MICA_OK;
}

static mica_status float_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    (void)attr, (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "a function of floats: %s is none; convert it first",
                       mc_layout_text(in[0], text));
    *out = *in[0];
    return MICA_OK;
}

static mica_status negative_infer(const void *attr, const mc_layout *const *in, int n_in,
                                  mc_layout *out) {
    (void)attr, (void)n_in;
    if (in[0]->dtype == MICA_BOOL)
        return mc_fail(MICA_EDTYPE, "negative: bool has no sign; use logical_not");
    *out = *in[0];
    return MICA_OK;
}

static mica_status invert_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)attr, (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (mica_dtype_is_float(in[0]->dtype) || in[0]->dtype == MICA_BOOL)
        return mc_fail(MICA_EDTYPE, "bitwise_invert: %s has no bits to invert; only integers have",
                       mc_layout_text(in[0], text));
    *out = *in[0];
    return MICA_OK;
}

static mica_array record_inexact(mica_scope *s, mc_op op, const char *name, mica_array x) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    return mc_record(s, op, NULL, &x, 1);
}

/* ---- ops that keep the dtype ---- */

#define KEEP(ENUM, name, infer_fn)                                                      \
    const mc_op_def mc_op_##name = {#name, .min_in = 1, .max_in = 1, .infer = infer_fn, \
                                    .in_place = 1};                                     \
    mica_array mica_##name(mica_scope *s, mica_array x) {                               \
        return mc_record(s, MC_OP_##ENUM, NULL, &x, 1);                                 \
    }
KEEP(ABS, abs, same_infer)
KEEP(NEGATIVE, negative, negative_infer)
KEEP(SQUARE, square, same_infer)
KEEP(SIGN, sign, same_infer)

/* Integers are returned unchanged. */
#define WHOLE(ENUM, name)                                                                  \
    const mc_op_def mc_op_##name = {#name, .min_in = 1, .max_in = 1, .infer = float_infer, \
                                    .in_place = 1};                                        \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                  \
        if (!mc_operands_ok(s, #name, &x, 1)) return mc_invalid(s);                        \
        if (!mica_dtype_is_float(mica_array_dtype(x))) return x;                           \
        return mc_record(s, MC_OP_##ENUM, NULL, &x, 1);                                    \
    }
WHOLE(FLOOR, floor)
WHOLE(CEIL, ceil)
WHOLE(ROUND, round)

const mc_op_def mc_op_bitwise_invert = {"bitwise_invert", .min_in = 1, .max_in = 1,
                                        .infer = invert_infer, .in_place = 1};
mica_array mica_bitwise_invert(mica_scope *s, mica_array x) {
    if (!mc_operands_ok(s, "bitwise_invert", &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) == MICA_BOOL) return mica_logical_not(s, x);
    return mc_record(s, MC_OP_BITWISE_INVERT, NULL, &x, 1);
}

/* ---- floats; integers are converted to f32 ---- */

#define INEXACT(ENUM, name)                                                                \
    const mc_op_def mc_op_##name = {#name, .min_in = 1, .max_in = 1, .infer = float_infer, \
                                    .in_place = 1};                                        \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                  \
        return record_inexact(s, MC_OP_##ENUM, #name, x);                                  \
    }
INEXACT(EXP, exp)
INEXACT(EXPM1, expm1)
INEXACT(LOG, log)
INEXACT(LOG2, log2)
INEXACT(LOG10, log10)
INEXACT(LOG1P, log1p)
INEXACT(SQRT, sqrt)
INEXACT(RSQRT, rsqrt)
INEXACT(RECIPROCAL, reciprocal)
INEXACT(SIN, sin)
INEXACT(COS, cos)
INEXACT(TAN, tan)
INEXACT(SINH, sinh)
INEXACT(COSH, cosh)
INEXACT(TANH, tanh)
INEXACT(ARCSIN, arcsin)
INEXACT(ARCCOS, arccos)
INEXACT(ARCTAN, arctan)
INEXACT(ARCSINH, arcsinh)
INEXACT(ARCCOSH, arccosh)
INEXACT(ARCTANH, arctanh)
INEXACT(ERF, erf)
INEXACT(ERFINV, erfinv)
INEXACT(SIGMOID, sigmoid)

/* ---- predicates ---- */

#define QUESTION(ENUM, name)                                                              \
    const mc_op_def mc_op_##name = {#name, .min_in = 1, .max_in = 1, .infer = bool_infer, \
                                    .in_place = 1};                                       \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                 \
        return mc_record(s, MC_OP_##ENUM, NULL, &x, 1);                                   \
    }
QUESTION(ISNAN, isnan)
QUESTION(ISINF, isinf)
QUESTION(ISFINITE, isfinite)
QUESTION(LOGICAL_NOT, logical_not)

/* ---- activation functions: fused, with their decomposition ---- */

/* A 0-dimensional constant of x's dtype. */
static mica_array constant(mica_scope *s, double value, mica_array x) {
    return mica_scalar(s, value, mica_array_dtype(x));
}

/* The decompositions compute in f32 and round once, like the kernels. */
#define ACTIVATION(ENUM, name)                                                                    \
    static mica_array name##_f32(mica_scope *s, mica_array x);                                    \
    static void name##_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in, \
                                 mica_array *out) {                                               \
        (void)attr, (void)n_in;                                                                   \
        mica_array y = name##_f32(s, mica_astype(s, in[0], MICA_F32));                            \
        *out = mica_astype(s, y, mica_array_dtype(in[0]));                                        \
    }                                                                                             \
    const mc_op_def mc_op_##name = {#name,                                                        \
                                    .min_in = 1,                                                  \
                                    .max_in = 1,                                                  \
                                    .infer = float_infer,                                         \
                                    .decompose = name##_decompose,                                \
                                    .in_place = 1};                                               \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                         \
        return record_inexact(s, MC_OP_##ENUM, #name, x);                                         \
    }
ACTIVATION(SILU, silu)
ACTIVATION(GELU, gelu)
ACTIVATION(GELU_APPROX, gelu_approx)

static mica_array silu_f32(mica_scope *s, mica_array x) {
    return mica_multiply(s, x, mica_sigmoid(s, x));
}

static mica_array gelu_f32(mica_scope *s, mica_array x) {
    mica_array t = mica_erf(s, mica_multiply(s, x, mica_f32(s, 0.70710678118654752f)));
    t = mica_multiply(s, mica_add(s, t, mica_f32(s, 1.0f)), mica_f32(s, 0.5f));
    return mica_multiply(s, x, t);
}

static mica_array gelu_approx_f32(mica_scope *s, mica_array x) {
    mica_array cube = mica_multiply(s, mica_square(s, x), x);
    mica_array u = mica_add(s, x, mica_multiply(s, cube, mica_f32(s, 0.044715f)));
    mica_array t = mica_tanh(s, mica_multiply(s, u, mica_f32(s, 0.79788456080286536f)));
    t = mica_multiply(s, mica_add(s, t, mica_f32(s, 1.0f)), mica_f32(s, 0.5f));
    return mica_multiply(s, x, t);
}

/* ---- compositions ---- */

mica_array mica_relu(mica_scope *s, mica_array x) {
    if (!mc_operands_ok(s, "relu", &x, 1)) return mc_invalid(s);
    x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    return mica_maximum(s, x, constant(s, 0.0, x));
}

static mica_array scaled(mica_scope *s, const char *name, mica_array x, double factor) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    return mica_multiply(s, x, constant(s, factor, x));
}

mica_array mica_degrees(mica_scope *s, mica_array x) {
    return scaled(s, "degrees", x, 57.295779513082321);
}

mica_array mica_radians(mica_scope *s, mica_array x) {
    return scaled(s, "radians", x, 0.017453292519943296);
}

/* Elementwise ops of one operand. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/complex.h"
#include "op/dtype.h"
#include "op/gradient.h"
#include "op/work.h"

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
        if (mica_array_dtype(x) == MICA_C64 && mc_complex_has_unary(MC_OP_##ENUM))      \
            return mc_complex_unary(s, MC_OP_##ENUM, x);                                \
        return mc_record(s, MC_OP_##ENUM, NULL, &x, 1);                                 \
    }
KEEP(ABS, abs, same_infer)
KEEP(NEGATIVE, negative, negative_infer)
KEEP(SQUARE, square, same_infer)
KEEP(SIGN, sign, same_infer)

static bool negative_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to) {
    *to = mica_negative(n->s, *from);
    return true;
}

MC_SLOPE(abs, mica_sign(s, x)); /* 0 at 0 */
MC_GRADIENT(negative, negative_rule, negative_rule);
MC_SLOPE(square, mica_multiply(s, x, mica_f32(s, 2)));
MC_ZERO_GRADIENT(sign);

/* Integers are returned unchanged. */
#define WHOLE(ENUM, name)                                                                  \
    const mc_op_def mc_op_##name = {#name, .min_in = 1, .max_in = 1, .infer = float_infer, \
                                    .in_place = 1};                                        \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                  \
        if (!mc_operands_ok(s, #name, &x, 1)) return mc_invalid(s);                        \
        if (!mc_dtype_has_gradient(mica_array_dtype(x))) return x; /* an integer */        \
        return mc_record(s, MC_OP_##ENUM, NULL, &x, 1);                                    \
    }
WHOLE(FLOOR, floor)
WHOLE(CEIL, ceil)
WHOLE(ROUND, round)
MC_ZERO_GRADIENT(floor);
MC_ZERO_GRADIENT(ceil);
MC_ZERO_GRADIENT(round);

MC_OP(bitwise_invert, 1, 1, .infer = invert_infer, .in_place = 1);
MC_NO_GRADIENT(bitwise_invert, "it is of integers");
mica_array mica_bitwise_invert(mica_scope *s, mica_array x) {
    if (!mc_operands_ok(s, "bitwise_invert", &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) == MICA_BOOL) return mica_logical_not(s, x);
    return mc_record(s, MC_OP_BITWISE_INVERT, NULL, &x, 1);
}

/* ---- floats; integers are converted to f32 ---- */

#define INEXACT(ENUM, name)                                                                     \
    const mc_op_def mc_op_##name = {                                                            \
        #name,        .min_in = 1, .max_in = 1, .infer = float_infer, .work = mc_work_function, \
        .in_place = 1};                                                                         \
    mica_array mica_##name(mica_scope *s, mica_array x) {                                       \
        return record_inexact(s, MC_OP_##ENUM, #name, x);                                       \
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

static mica_array times(mica_scope *s, double factor, mica_array x) {
    return mica_multiply(s, x, mica_f32(s, (float)factor));
}

static mica_array plus(mica_scope *s, double term, mica_array x) {
    return mica_add(s, x, mica_f32(s, (float)term));
}

/* 1 - x^2 */
static mica_array one_minus_square(mica_scope *s, mica_array x) {
    return mica_subtract(s, mica_f32(s, 1), mica_square(s, x));
}

MC_SLOPE(exp, y);
MC_SLOPE(expm1, mica_exp(s, x));
MC_SLOPE(log, mica_reciprocal(s, x));
MC_SLOPE(log2, mica_reciprocal(s, times(s, 0.69314718055994531, x)));
MC_SLOPE(log10, mica_reciprocal(s, times(s, 2.3025850929940457, x)));
MC_SLOPE(log1p, mica_reciprocal(s, plus(s, 1, x)));
MC_SLOPE(sqrt, mica_divide(s, mica_f32(s, 0.5f), y));
MC_SLOPE(rsqrt, times(s, -0.5, mica_divide(s, y, x)));
MC_SLOPE(reciprocal, mica_negative(s, mica_square(s, y)));
MC_SLOPE(sin, mica_cos(s, x));
MC_SLOPE(cos, mica_negative(s, mica_sin(s, x)));
MC_SLOPE(tan, plus(s, 1, mica_square(s, y)));
MC_SLOPE(sinh, mica_cosh(s, x));
MC_SLOPE(cosh, mica_sinh(s, x));
MC_SLOPE(tanh, one_minus_square(s, y));
MC_SLOPE(arcsin, mica_rsqrt(s, one_minus_square(s, x)));
MC_SLOPE(arccos, mica_negative(s, mica_rsqrt(s, one_minus_square(s, x))));
MC_SLOPE(arctan, mica_reciprocal(s, plus(s, 1, mica_square(s, x))));
MC_SLOPE(arcsinh, mica_rsqrt(s, plus(s, 1, mica_square(s, x))));
MC_SLOPE(arccosh, mica_rsqrt(s, plus(s, -1, mica_square(s, x))));
MC_SLOPE(arctanh, mica_reciprocal(s, one_minus_square(s, x)));
MC_SLOPE(erf, times(s, 1.1283791670955126, mica_exp(s, mica_negative(s, mica_square(s, x)))));
MC_SLOPE(erfinv, times(s, 0.88622692545275801, mica_exp(s, mica_square(s, y))));
MC_SLOPE(sigmoid, mica_subtract(s, y, mica_square(s, y)));

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
MC_NO_GRADIENT(isnan, "its result is a bool");
MC_NO_GRADIENT(isinf, "its result is a bool");
MC_NO_GRADIENT(isfinite, "its result is a bool");
MC_NO_GRADIENT(logical_not, "its result is a bool");

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
                                    .work = mc_work_function,                                     \
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

/* sigmoid(x) (1 + x (1 - sigmoid(x))) */
static mica_array slope_of_silu(mica_scope *s, mica_array x) {
    mica_array y = mica_sigmoid(s, x), rest = mica_subtract(s, mica_f32(s, 1), y);
    return mica_multiply(s, y, plus(s, 1, mica_multiply(s, x, rest)));
}

/* Phi(x) + x phi(x), of the standard normal distribution */
static mica_array slope_of_gelu(mica_scope *s, mica_array x) {
    mica_array all = plus(s, 1, mica_erf(s, times(s, 0.70710678118654752, x)));
    mica_array density = mica_exp(s, times(s, -0.5, mica_square(s, x)));
    return mica_add(s, times(s, 0.5, all),
                    mica_multiply(s, x, times(s, 0.39894228040143268, density)));
}

/* of x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3) */
static mica_array slope_of_gelu_approx(mica_scope *s, mica_array x) {
    mica_array square = mica_square(s, x);
    mica_array u = mica_multiply(s, x, plus(s, 1, times(s, 0.044715, square)));
    mica_array t = mica_tanh(s, times(s, 0.79788456080286536, u));
    mica_array du = times(s, 0.79788456080286536, plus(s, 1, times(s, 0.134145, square)));
    mica_array rise = mica_multiply(s, mica_multiply(s, x, one_minus_square(s, t)), du);
    return times(s, 0.5, mica_add(s, plus(s, 1, t), rise));
}

/* In f32 the slopes are 0 or 1 long before +-200; beyond, a factor would be infinite. */
static mica_array bounded(mica_scope *s, mica_array x) {
    return mica_clip(s, x, mica_f32(s, -200), mica_f32(s, 200));
}

MC_SLOPE(silu, slope_of_silu(s, bounded(s, x)));
MC_SLOPE(gelu, slope_of_gelu(s, bounded(s, x)));
MC_SLOPE(gelu_approx, slope_of_gelu_approx(s, bounded(s, x)));

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

/* Elementwise ops of two operands. Builders convert both to one dtype and broadcast them to one
 * shape (a view), so the ops get two operands of one dtype and shape. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/complex.h"
#include "op/dtype.h"
#include "op/gradient.h"
#include "op/work.h"

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
        in[i] = mc_broadcast(s, mc_cast(s, in[i], dtype), shape, ndim);
    if (dtype == MICA_C64 && mc_complex_has_binary(op))
        return mc_complex_binary(s, op, in[0], in[1]);
    return mc_record(s, op, NULL, in, 2);
}

#define BINARY_OF(ENUM, name, kind, infer_fn, work_fn)                                             \
    const mc_op_def mc_op_##name = {#name,           .min_in = 2,  .max_in = 2, .infer = infer_fn, \
                                    .work = work_fn, .in_place = 2};                               \
    mica_array mica_##name(mica_scope *s, mica_array a, mica_array b) {                            \
        return record(s, MC_OP_##ENUM, #name, kind, a, b);                                         \
    }
#define BINARY(ENUM, name, kind, infer_fn) BINARY_OF(ENUM, name, kind, infer_fn, NULL)
#define BINARY_FUNCTION(ENUM, name, kind, infer_fn) \
    BINARY_OF(ENUM, name, kind, infer_fn, mc_work_function)
BINARY(ADD, add, PROMOTED, same_infer)
BINARY(SUBTRACT, subtract, PROMOTED, same_infer)
BINARY(MULTIPLY, multiply, PROMOTED, same_infer)
BINARY(DIVIDE, divide, INEXACT, float_infer)
BINARY(FLOOR_DIVIDE, floor_divide, PROMOTED, same_infer)
BINARY(REMAINDER, remainder, PROMOTED, same_infer)
BINARY_FUNCTION(POWER, power, PROMOTED, same_infer)
BINARY(MAXIMUM, maximum, PROMOTED, same_infer)
BINARY(MINIMUM, minimum, PROMOTED, same_infer)
BINARY_FUNCTION(LOGADDEXP, logaddexp, INEXACT, float_infer)
BINARY_FUNCTION(ARCTAN2, arctan2, INEXACT, float_infer)
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

/* ---- gradients ---- */

static bool add_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    (void)n;
    dx[0] = dx[1] = *dy;
    return true;
}

static bool add_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    *dy = mc_sum_of(n->s, dx[0], dx[1]);
    return true;
}
MC_GRADIENT(add, add_vjp, add_jvp);

static bool subtract_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    dx[0] = *dy;
    if (n->wanted[1]) dx[1] = mica_negative(n->s, *dy);
    return true;
}

static bool subtract_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_array second = dx[1].scope ? mica_negative(n->s, dx[1]) : MICA_NONE;
    *dy = mc_sum_of(n->s, dx[0], second);
    return true;
}
MC_GRADIENT(subtract, subtract_vjp, subtract_jvp);

/* The derivative by operand i at a, b, where the result is y; all wide. */
typedef mica_array (*partial)(mica_scope *s, mica_array a, mica_array b, mica_array y, int i);

static mica_array partial_of(const mc_gradient_node *n, partial p, int i) {
    mica_scope *s = n->s;
    return p(s, mc_wide(s, n->in[0]), mc_wide(s, n->in[1]), mc_wide(s, n->out[0]), i);
}

static bool partial_vjp(const mc_gradient_node *n, partial p, const mica_array *dy,
                        mica_array *dx) {
    mica_array wide = mc_wide(n->s, *dy);
    for (int i = 0; i < 2; i++)
        if (n->wanted[i]) dx[i] = mica_multiply(n->s, wide, partial_of(n, p, i));
    return true;
}

static bool partial_jvp(const mc_gradient_node *n, partial p, const mica_array *dx,
                        mica_array *dy) {
    for (int i = 0; i < 2; i++)
        if (dx[i].scope)
            *dy = mc_sum_of(n->s, *dy,
                            mica_multiply(n->s, mc_wide(n->s, dx[i]), partial_of(n, p, i)));
    return true;
}

#define PARTIAL(name)                                                                         \
    static bool name##_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) { \
        return partial_vjp(n, name##_partial, dy, dx);                                        \
    }                                                                                         \
    static bool name##_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) { \
        return partial_jvp(n, name##_partial, dx, dy);                                        \
    }                                                                                         \
    MC_GRADIENT(name, name##_vjp, name##_jvp)

static mica_array multiply_partial(mica_scope *s, mica_array a, mica_array b, mica_array y, int i) {
    (void)s, (void)y;
    return i == 0 ? b : a;
}
PARTIAL(multiply);

static mica_array divide_partial(mica_scope *s, mica_array a, mica_array b, mica_array y, int i) {
    (void)a;
    return i == 0 ? mica_reciprocal(s, b) : mica_negative(s, mica_divide(s, y, b));
}
PARTIAL(divide);

/* of a - floor(a / b) b */
static mica_array remainder_partial(mica_scope *s, mica_array a, mica_array b, mica_array y,
                                    int i) {
    (void)y;
    if (i == 0) return mica_f32(s, 1);
    return mica_negative(s, mica_floor_divide(s, a, b));
}
PARTIAL(remainder);
MC_ZERO_GRADIENT(floor_divide);

/* b a^(b - 1), 0 where b is 0; log(a) a^b, 0 where a is 0 and b is not negative. */
static mica_array power_partial(mica_scope *s, mica_array a, mica_array b, mica_array y, int i) {
    mica_array zero = mica_f32(s, 0), one = mica_f32(s, 1);
    mica_array edge = mica_equal(s, i == 0 ? b : a, zero);
    if (i == 0) {
        mica_array slope = mica_multiply(s, b, mica_power(s, a, mica_subtract(s, b, one)));
        return mica_where(s, edge, zero, slope);
    }
    edge = mica_logical_and(s, edge, mica_greater_equal(s, b, zero));
    return mica_where(s, edge, zero, mica_multiply(s, mica_log(s, mica_where(s, edge, one, a)), y));
}
PARTIAL(power);

/* sigmoid(a - b), and of b - a; half where both are the same infinity. */
static mica_array logaddexp_partial(mica_scope *s, mica_array a, mica_array b, mica_array y,
                                    int i) {
    (void)y;
    mica_array d = i == 0 ? mica_subtract(s, a, b) : mica_subtract(s, b, a);
    return mica_sigmoid(s, mica_where(s, mica_isnan(s, d), mica_f32(s, 0), d));
}
PARTIAL(logaddexp);

static mica_array arctan2_partial(mica_scope *s, mica_array a, mica_array b, mica_array y, int i) {
    (void)y;
    mica_array square = mica_add(s, mica_square(s, a), mica_square(s, b));
    return mica_divide(s, i == 0 ? b : mica_negative(s, a), square);
}
PARTIAL(arctan2);

/* of the operand that is chosen; of b where they are equal, of neither where one is NaN */
static bool chosen_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx,
                       mica_array first, mica_array second) {
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(*dy));
    if (n->wanted[0]) dx[0] = mica_where(n->s, first, *dy, zero);
    if (n->wanted[1]) dx[1] = mica_where(n->s, second, *dy, zero);
    return true;
}

static bool chosen_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy,
                       mica_array first, mica_array second) {
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(n->out[0]));
    mica_array a = mc_or_zeros(n->s, dx[0], n->in[0]), b = mc_or_zeros(n->s, dx[1], n->in[1]);
    *dy = mica_where(n->s, first, a, mica_where(n->s, second, b, zero));
    return true;
}

#define CHOSEN(name, is_first, is_second)                                                     \
    static bool name##_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) { \
        return chosen_vjp(n, dy, dx, mica_##is_first(n->s, n->in[0], n->in[1]),               \
                          mica_##is_second(n->s, n->in[0], n->in[1]));                        \
    }                                                                                         \
    static bool name##_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) { \
        return chosen_jvp(n, dx, dy, mica_##is_first(n->s, n->in[0], n->in[1]),               \
                          mica_##is_second(n->s, n->in[0], n->in[1]));                        \
    }                                                                                         \
    MC_GRADIENT(name, name##_vjp, name##_jvp)
CHOSEN(maximum, greater, less_equal);
CHOSEN(minimum, less, greater_equal);

MC_NO_GRADIENT(equal, "its result is a bool");
MC_NO_GRADIENT(not_equal, "its result is a bool");
MC_NO_GRADIENT(less, "its result is a bool");
MC_NO_GRADIENT(less_equal, "its result is a bool");
MC_NO_GRADIENT(greater, "its result is a bool");
MC_NO_GRADIENT(greater_equal, "its result is a bool");
MC_NO_GRADIENT(logical_and, "its result is a bool");
MC_NO_GRADIENT(logical_or, "its result is a bool");
MC_NO_GRADIENT(bitwise_and, "it is of integers");
MC_NO_GRADIENT(bitwise_or, "it is of integers");
MC_NO_GRADIENT(bitwise_xor, "it is of integers");
MC_NO_GRADIENT(left_shift, "it is of integers");
MC_NO_GRADIENT(right_shift, "it is of integers");

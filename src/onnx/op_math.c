/* Operators that go element by element. */
#include "onnx/import.h"

#include <mica/nn.h>
#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* ---- one operand ---- */

#define UNARY(build, f)                            \
    mica_status mc_onnx_##build(mc_onnx_node *n) { \
        return mc_onnx_map(n, f);                  \
    }
UNARY(abs, mica_abs)
UNARY(neg, mica_negative)
UNARY(sign, mica_sign)
UNARY(floor, mica_floor)
UNARY(ceil, mica_ceil)
UNARY(round, mica_round)
UNARY(sqrt, mica_sqrt)
UNARY(reciprocal, mica_reciprocal)
UNARY(exp, mica_exp)
UNARY(log, mica_log)
UNARY(sin, mica_sin)
UNARY(cos, mica_cos)
UNARY(tan, mica_tan)
UNARY(asin, mica_arcsin)
UNARY(acos, mica_arccos)
UNARY(atan, mica_arctan)
UNARY(sinh, mica_sinh)
UNARY(cosh, mica_cosh)
UNARY(tanh, mica_tanh)
UNARY(asinh, mica_arcsinh)
UNARY(acosh, mica_arccosh)
UNARY(atanh, mica_arctanh)
UNARY(erf, mica_erf)
UNARY(sigmoid, mica_sigmoid)
UNARY(softplus, mica_softplus)
UNARY(softsign, mica_softsign)
UNARY(mish, mica_mish)
UNARY(not, mica_logical_not)
UNARY(bitwise_not, mica_bitwise_invert)
UNARY(isnan, mica_isnan)

static mica_array number(const mc_onnx_node *n, mica_array x, double value) {
    return mica_scalar(n->s, value, mica_array_dtype(x));
}

static mica_array relu(mica_scope *s, mica_array x) {
    return mica_maximum(s, x, mica_scalar(s, 0, mica_array_dtype(x)));
}

mica_status mc_onnx_relu(mc_onnx_node *n) {
    return mc_onnx_map(n, relu);
}

mica_status mc_onnx_gelu(mc_onnx_node *n) {
    mc_str how = mc_onnx_text(n, "approximate", "none");
    if (!mc_str_is(how, "none") && !mc_str_is(how, "tanh"))
        return mc_onnx_refuse("this approximation");
    return mc_onnx_map(n, mc_str_is(how, "tanh") ? mica_gelu_approx : mica_gelu);
}

static mica_array elu(mc_onnx_node *n, mica_array x, const double *v) {
    return mica_multiply(n->s, number(n, x, v[1]), mica_elu(n->s, x, (float)v[0]));
}

mica_status mc_onnx_elu(mc_onnx_node *n) {
    return mc_onnx_map_with(n, elu, (double[]){mc_onnx_real(n, "alpha", 1), 1});
}

mica_status mc_onnx_selu(mc_onnx_node *n) {
    const double v[] = {mc_onnx_real(n, "alpha", 1.67326319217681884765625),
                        mc_onnx_real(n, "gamma", 1.05070102214813232421875)};
    return mc_onnx_map_with(n, elu, v);
}

/* max(0, x) + min(0, alpha (exp(x / alpha) - 1)) */
static mica_array celu(mc_onnx_node *n, mica_array x, const double *v) {
    mica_array zero = number(n, x, 0), alpha = number(n, x, v[0]);
    mica_array e = mica_expm1(n->s, mica_divide(n->s, x, alpha));
    return mica_add(n->s, mica_maximum(n->s, x, zero),
                    mica_minimum(n->s, zero, mica_multiply(n->s, alpha, e)));
}

mica_status mc_onnx_celu(mc_onnx_node *n) {
    return mc_onnx_map_with(n, celu, (double[]){mc_onnx_real(n, "alpha", 1)});
}

static mica_array leaky_relu(mc_onnx_node *n, mica_array x, const double *v) {
    return mica_leaky_relu(n->s, x, (float)v[0]);
}

mica_status mc_onnx_leaky_relu(mc_onnx_node *n) {
    return mc_onnx_map_with(n, leaky_relu, (double[]){mc_onnx_real(n, "alpha", 0.01)});
}

/* clip(alpha x + beta, 0, 1) */
static mica_array hard_sigmoid(mc_onnx_node *n, mica_array x, const double *v) {
    mica_array y = mica_multiply(n->s, x, number(n, x, v[0]));
    y = mica_add(n->s, y, number(n, x, v[1]));
    return mica_clip(n->s, y, number(n, x, 0), number(n, x, 1));
}

mica_status mc_onnx_hard_sigmoid(mc_onnx_node *n) {
    const double v[] = {mc_onnx_real(n, "alpha", 0.2f), mc_onnx_real(n, "beta", 0.5)};
    return mc_onnx_map_with(n, hard_sigmoid, v);
}

static mica_array hard_swish(mc_onnx_node *n, mica_array x, const double *v) {
    return mica_multiply(n->s, x, hard_sigmoid(n, x, v));
}

mica_status mc_onnx_hard_swish(mc_onnx_node *n) {
    return mc_onnx_map_with(n, hard_swish, (double[]){1.0 / 6, 0.5});
}

static mica_array swish(mc_onnx_node *n, mica_array x, const double *v) {
    mica_array z = mica_multiply(n->s, x, number(n, x, v[0]));
    return mica_multiply(n->s, x, mica_sigmoid(n->s, z));
}

mica_status mc_onnx_swish(mc_onnx_node *n) {
    return mc_onnx_map_with(n, swish, (double[]){mc_onnx_real(n, "alpha", 1)});
}

mica_status mc_onnx_swiglu(mc_onnx_node *n) {
    mica_array a = n->in[0].x;
    a = swish(n, a, (double[]){mc_onnx_real(n, "alpha", 1)});
    return mc_onnx_give(n, 0, mica_multiply(n->s, a, n->in[1].x));
}

static mica_array thresholded_relu(mc_onnx_node *n, mica_array x, const double *v) {
    return mica_where(n->s, mica_greater(n->s, x, number(n, x, v[0])), x, number(n, x, 0));
}

mica_status mc_onnx_thresholded_relu(mc_onnx_node *n) {
    return mc_onnx_map_with(n, thresholded_relu, (double[]){mc_onnx_real(n, "alpha", 1)});
}

static mica_array shrink(mc_onnx_node *n, mica_array x, const double *v) {
    mica_array bias = number(n, x, v[0]), above = mica_greater(n->s, x, number(n, x, v[1]));
    mica_array below = mica_less(n->s, x, number(n, x, -v[1]));
    mica_array y = mica_where(n->s, above, mica_subtract(n->s, x, bias), number(n, x, 0));
    return mica_where(n->s, below, mica_add(n->s, x, bias), y);
}

mica_status mc_onnx_shrink(mc_onnx_node *n) {
    const double v[] = {mc_onnx_real(n, "bias", 0), mc_onnx_real(n, "lambd", 0.5)};
    return mc_onnx_map_with(n, shrink, v);
}

static mica_array isinf_signs(mc_onnx_node *n, mica_array x, const double *v) {
    mica_array y = mica_isinf(n->s, x), zero = number(n, x, 0);
    if (v[0] == 0) y = mica_logical_and(n->s, y, mica_greater(n->s, x, zero));
    if (v[1] == 0) y = mica_logical_and(n->s, y, mica_less(n->s, x, zero));
    return y;
}

mica_status mc_onnx_isinf(mc_onnx_node *n) {
    const double v[] = {(double)mc_onnx_int(n, "detect_negative", 1),
                        (double)mc_onnx_int(n, "detect_positive", 1)};
    return mc_onnx_map_with(n, isinf_signs, v);
}

/* ---- dtypes ---- */

static mica_status cast_to(mc_onnx_node *n, mica_dtype dtype) {
    if (n->in[0].last.scope)
        return mc_onnx_give_last(n, 0, mica_astype(n->s, n->in[0].last, dtype));
    return mc_onnx_give(n, 0, mica_astype(n->s, n->in[0].x, dtype));
}

static mica_status read_rounding(const mc_onnx_node *n, mc_onnx_rounding *rounding) {
    static const char *const names[] = {"nearest", "up", "down"};
    mc_str text = mc_onnx_text(n, "round_mode", "up");
    for (int i = 0; i < 3; i++) {
        if (!mc_str_is(text, names[i])) continue;
        *rounding = (mc_onnx_rounding)i;
        return MICA_OK;
    }
    return mc_onnx_refuse("this round_mode");
}

/* From a type of few bits, or to one. */
static mica_status cast_small(mc_onnx_node *n, const mc_onnx_small *to, mica_dtype dtype) {
    const mc_onnx_small *from = n->in[0].small;
    mc_onnx_rounding rounding = MC_ONNX_NEAREST;
    bool scale = to && mc_str_is(mc_str_of(mc_onnx_small_name(to)), "float8e8m0");
    mica_array x = n->in[0].x;
    MC_TRY(read_rounding(n, &rounding));
    if (from) x = mc_onnx_small_decode(n->s, from, x);
    if (to)
        x = mc_onnx_small_encode(n->s, to, x, mc_onnx_int(n, "saturate", 1) != 0,
                                 scale ? rounding : MC_ONNX_NEAREST);
    else
        x = mica_astype(n->s, x, dtype);
    MC_TRY(mc_onnx_give(n, 0, x));
    n->out[0].small = to;
    return MICA_OK;
}

mica_status mc_onnx_cast(mc_onnx_node *n) {
    mica_dtype dtype;
    const mc_onnx_small *small;
    bool done = false;
    MC_TRY(mc_onnx_any_dtype(mc_onnx_int(n, "to", 0), &dtype, &small));
    if (mc_onnx_int(n, "to", 0) == MC_ONNX_DOUBLE && !n->import->casts_to_f64) {
        n->import->casts_to_f64 = true;
        MC_TRY(mc_onnx_note(n->import, "what nodes make f64 is computed in f32, of 24 bits"));
    }
    if (small || n->in[0].small) return cast_small(n, small, dtype);
    MC_TRY(mc_onnx_join_cast(n, dtype, &done));
    return done ? MICA_OK : cast_to(n, dtype);
}

mica_status mc_onnx_bit_cast(mc_onnx_node *n) {
    mica_dtype dtype, own = mica_array_dtype(n->in[0].x);
    int64_t to = mc_onnx_int(n, "to", 0);
    MC_TRY(mc_onnx_dtype(to, &dtype));
    if (to == MC_ONNX_DOUBLE || mica_dtype_bytes(dtype) != mica_dtype_bytes(own) ||
        dtype == MICA_BOOL)
        return mc_onnx_refuse("these bits as another dtype");
    if (own == MICA_BOOL) return mc_onnx_give(n, 0, mica_astype(n->s, n->in[0].x, dtype));
    return mc_onnx_give(n, 0, mica_view(n->s, n->in[0].x, dtype));
}

mica_status mc_onnx_cast_like(mc_onnx_node *n) {
    mica_dtype dtype = mica_array_dtype(n->in[1].x);
    if (n->in[0].small || n->in[1].small) return cast_small(n, n->in[1].small, dtype);
    return cast_to(n, dtype);
}

/* ---- two operands ---- */

#define BINARY(build, f)                           \
    mica_status mc_onnx_##build(mc_onnx_node *n) { \
        return mc_onnx_map2(n, f);                 \
    }
BINARY(sub, mica_subtract)
BINARY(equal, mica_equal)
BINARY(less, mica_less)
BINARY(less_equal, mica_less_equal)
BINARY(greater, mica_greater)
BINARY(greater_equal, mica_greater_equal)
BINARY(and, mica_logical_and)
BINARY(or, mica_logical_or)
BINARY(xor, mica_not_equal)
BINARY(bitwise_and, mica_bitwise_and)
BINARY(bitwise_or, mica_bitwise_or)
BINARY(bitwise_xor, mica_bitwise_xor)

mica_status mc_onnx_add(mc_onnx_node *n) {
    bool done = false;
    MC_TRY(mc_onnx_join_bias(n, &done));
    return done ? MICA_OK : mc_onnx_map2(n, mica_add);
}

mica_status mc_onnx_mul(mc_onnx_node *n) {
    bool done = false;
    MC_TRY(mc_onnx_join_scale(n, &done));
    return done ? MICA_OK : mc_onnx_map2(n, mica_multiply);
}

static bool is_float(mica_array x) {
    return mica_dtype_is_float(mica_array_dtype(x)) || mica_array_dtype(x) == MICA_C64;
}

/* Integers are divided towards zero. */
static mica_array divide(mica_scope *s, mica_array a, mica_array b) {
    mica_dtype dtype = mica_array_dtype(a);
    if (is_float(a)) return mica_divide(s, a, b);
    mica_array q = mica_floor_divide(s, a, b);
    if (!mica_dtype_is_signed(dtype)) return q;
    mica_array zero = mica_scalar(s, 0, dtype);
    mica_array inexact = mica_not_equal(s, mica_multiply(s, q, b), a);
    mica_array negative = mica_not_equal(s, mica_less(s, a, zero), mica_less(s, b, zero));
    mica_array up = mica_astype(s, mica_logical_and(s, inexact, negative), dtype);
    return mica_add(s, q, up);
}

mica_status mc_onnx_div(mc_onnx_node *n) {
    return mc_onnx_map2(n, divide);
}

/* The remainder with the sign of a, as C's fmod. Floats are not corrected by b, which may be
 * infinite, or large beside a. */
static mica_array fmod_of(mica_scope *s, mica_array a, mica_array b) {
    mica_array zero = mica_scalar(s, 0, mica_array_dtype(a));
    if (is_float(a)) {
        mica_array r = mica_remainder(s, mica_abs(s, a), mica_abs(s, b));
        return mica_where(s, mica_less(s, a, zero), mica_negative(s, r), r);
    }
    mica_array r = mica_remainder(s, a, b);
    mica_array other = mica_not_equal(s, mica_less(s, a, zero), mica_less(s, b, zero));
    other = mica_logical_and(s, other, mica_not_equal(s, r, zero));
    return mica_where(s, other, mica_subtract(s, r, b), r);
}

mica_status mc_onnx_mod(mc_onnx_node *n) {
    return mc_onnx_map2(n, mc_onnx_int(n, "fmod", 0) ? fmod_of : mica_remainder);
}

static mica_array power(mica_scope *s, mica_array a, mica_array b) {
    mica_dtype dtype = mica_array_dtype(a);
    return mica_astype(s, mica_power(s, a, b), dtype);
}

mica_status mc_onnx_pow(mc_onnx_node *n) {
    double exponent = 0;
    bool one = mc_onnx_known(n, 1) && mica_array_size(n->in[1].x) == 1 &&
               mica_array_ndim(n->in[1].x) <= mica_array_ndim(n->in[0].x);
    if (one) MC_TRY(mc_onnx_operand_real(n, 1, 0, &exponent));
    if (one && exponent == 2) return mc_onnx_map(n, mica_square);
    return mc_onnx_map2(n, power);
}

static mica_array prelu(mica_scope *s, mica_array x, mica_array slope) {
    mica_array zero = mica_scalar(s, 0, mica_array_dtype(x));
    return mica_where(s, mica_less(s, x, zero), mica_multiply(s, x, slope), x);
}

/* Before opset 7 a vector of slopes belonged to channels. */
mica_status mc_onnx_prelu(mc_onnx_node *n) {
    mica_array slope = n->in[1].x;
    if (n->import->opset < 7 && mica_array_ndim(slope) == 1 && mica_array_ndim(n->in[0].x) > 1)
        n->in[1] =
            (mc_onnx_value){.x = mc_onnx_along(n->s, slope, 0, mica_array_ndim(n->in[0].x) - 1)};
    return mc_onnx_map2(n, prelu);
}

mica_status mc_onnx_bit_shift(mc_onnx_node *n) {
    mc_str direction = mc_onnx_text(n, "direction", "");
    bool left = mc_str_is(direction, "LEFT");
    if (!left && !mc_str_is(direction, "RIGHT")) return mc_onnx_refuse("this direction");
    return mc_onnx_map2(n, left ? mica_left_shift : mica_right_shift);
}

/* ---- more ---- */

/* A bound of Clip: an operand, before opset 11 an attribute, or none. */
static mica_array bound(mc_onnx_node *n, mica_array x, size_t i, const char *name) {
    mica_array v = mc_onnx_x(n, i);
    if (v.scope || !mc_onnx_attr(n, name)) return v;
    return number(n, x, mc_onnx_real(n, name, 0));
}

static mica_array clip(mc_onnx_node *n, mica_array x, const double *v) {
    (void)v;
    return mica_clip(n->s, x, bound(n, x, 1, "min"), bound(n, x, 2, "max"));
}

mica_status mc_onnx_clip(mc_onnx_node *n) {
    for (size_t i = 1; i < 3; i++)
        if (mc_onnx_has(n, i) && mica_array_size(n->in[i].x) != 1)
            return mc_fail(MICA_EFORMAT, "a bound is not one number");
    return mc_onnx_map_with(n, clip, NULL);
}

mica_status mc_onnx_where(mc_onnx_node *n) {
    mica_array x = n->in[1].x, y = mc_onnx_align(n->s, n->in[2].x, x);
    mica_array yes = mc_onnx_align(n->s, mc_onnx_align(n->s, n->in[0].x, x), y);
    return mc_onnx_give(n, 0, mica_where(n->s, yes, x, y));
}

/* f over all operands, one after the other. */
static mica_status fold(mc_onnx_node *n, mc_onnx_binary f, bool mean) {
    mica_array y = n->in[0].x;
    for (size_t i = 1; i < n->n_in; i++)
        y = f(n->s, y, mc_onnx_align(n->s, mc_onnx_x(n, i), y));
    if (mean) y = mica_divide(n->s, y, number(n, y, (double)n->n_in));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_sum(mc_onnx_node *n) {
    if (n->n_in == 2) return mc_onnx_map2(n, mica_add);
    return fold(n, mica_add, false);
}

mica_status mc_onnx_mean(mc_onnx_node *n) {
    return fold(n, mica_add, true);
}

mica_status mc_onnx_max(mc_onnx_node *n) {
    return fold(n, mica_maximum, false);
}

mica_status mc_onnx_min(mc_onnx_node *n) {
    return fold(n, mica_minimum, false);
}

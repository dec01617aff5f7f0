/* Ops that go element by element, where MLX's differ from mica's. */
#include "mlx/emit.h"

#include <math.h>

static bool is_float(const mc_mlx_call *c) {
    return mica_dtype_is_float(c->from[0]->dtype);
}

/* bool has no arithmetic in MLX: 0 and 1 do as well. */
static mlx_array without_bool(mc_mlx_call *c, int k) {
    return c->from[k]->dtype == MICA_BOOL ? mc_mlx_cast(c, c->in[k], MICA_U8) : c->in[k];
}

void mc_mlx_emit_abs(mc_mlx_call *c) {
    mc_mlx_give(c, 0, mc_mlx_apply(c, mc_mlx.abs, without_bool(c, 0)));
}

void mc_mlx_emit_square(mc_mlx_call *c) {
    mc_mlx_give(c, 0, mc_mlx_apply(c, mc_mlx.square, without_bool(c, 0)));
}

void mc_mlx_emit_sign(mc_mlx_call *c) {
    mc_mlx_give(c, 0, mc_mlx_apply(c, mc_mlx.sign, without_bool(c, 0)));
}

void mc_mlx_emit_round(mc_mlx_call *c) {
    mlx_array y = {0};
    int failed = mc_mlx.round(&y, c->in[0], 0, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_where(mc_mlx_call *c) {
    mc_mlx_give(c, 0, mc_mlx_where(c, c->in[0], c->in[1], c->in[2]));
}

/* ---- conversions ---- */

/* The range of an integer dtype, and the largest f32 within it. */
typedef struct range {
    int64_t least;
    uint64_t largest;
    float largest_f32;
} range;

static range range_of(mica_dtype dtype) {
    int bits = 8 * (int)mica_dtype_bytes(dtype);
    if (mica_dtype_is_signed(dtype)) bits--;
    range r = {.largest = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1};
    if (mica_dtype_is_signed(dtype)) r.least = -(int64_t)r.largest - 1;
    r.largest_f32 = bits > 24 ? ldexpf(1.0f, bits) - ldexpf(1.0f, bits - 24) : (float)r.largest;
    return r;
}

/* Floats to integers: towards zero, clamped, NaN to 0. C leaves all but the first open. */
static mlx_array to_integer(mc_mlx_call *c, mlx_array x, mica_dtype dtype) {
    range r = range_of(dtype);
    mlx_array top = mc_mlx_f32(c, r.largest_f32), bottom = mc_mlx_f32(c, (float)r.least);
    mlx_array above = mc_mlx_combine(c, mc_mlx.greater, x, top);
    mlx_array nan = mc_mlx_apply(c, mc_mlx.isnan, x);
    x = mc_mlx_combine(c, mc_mlx.maximum, mc_mlx_combine(c, mc_mlx.minimum, x, top), bottom);
    x = mc_mlx_where(c, nan, mc_mlx_f32(c, 0), x);
    mlx_array largest = mc_mlx_bits(c, r.largest, dtype);
    return mc_mlx_where(c, above, largest, mc_mlx_cast(c, x, dtype));
}

void mc_mlx_emit_astype(mc_mlx_call *c) {
    mica_dtype to = c->to->dtype;
    if (!is_float(c) || mica_dtype_is_float(to) || to == MICA_BOOL)
        mc_mlx_give(c, 0, c->in[0]); /* casts */
    else
        mc_mlx_give(c, 0, to_integer(c, mc_mlx_wide(c, 0), to));
}

static mlx_array read_as(mc_mlx_call *c, mlx_array x, mica_dtype dtype) {
    mlx_array y = {0};
    int failed = mc_mlx.view(&y, x, mc_mlx_dtype(dtype), c->stream);
    return mc_mlx_keep(c, failed, y);
}

/* MLX clamps NaN too. */
void mc_mlx_emit_to_fp8(mc_mlx_call *c) {
    mlx_array x = mc_mlx_cast(c, c->in[0], MICA_F32), y = mc_mlx_apply(c, mc_mlx.to_fp8, x);
    mlx_array below =
        mc_mlx_combine(c, mc_mlx.less, read_as(c, x, MICA_I32), mc_mlx_int(c, 0, MICA_I32));
    mlx_array nan =
        mc_mlx_where(c, below, mc_mlx_int(c, 0xff, MICA_U8), mc_mlx_int(c, 0x7f, MICA_U8));
    mc_mlx_give(c, 0, mc_mlx_where(c, mc_mlx_apply(c, mc_mlx.isnan, x), nan, y));
}

/* MLX reads the two bytes that stand for NaN as 480. */
void mc_mlx_emit_from_fp8(mc_mlx_call *c) {
    mlx_array y = {0}, most = mc_mlx_int(c, 0x7f, MICA_U8);
    int failed = mc_mlx.from_fp8(&y, c->in[0], MLX_FLOAT32, c->stream);
    y = mc_mlx_keep(c, failed, y);
    mlx_array magnitude = mc_mlx_combine(c, mc_mlx.bitwise_and, c->in[0], most);
    mlx_array nan = mc_mlx_combine(c, mc_mlx.equal, magnitude, most);
    mlx_array below = mc_mlx_combine(c, mc_mlx.greater, c->in[0], most);
    mlx_array as_nan = mc_mlx_where(c, below, mc_mlx_f32(c, -NAN), mc_mlx_f32(c, NAN));
    mc_mlx_give(c, 0, mc_mlx_where(c, nan, as_nan, y));
}

/* ---- integers: what C leaves open, and what a processor traps ---- */

static mlx_array both(mc_mlx_call *c, mlx_array a, mlx_array b) {
    return mc_mlx_combine(c, mc_mlx.logical_and, a, b);
}

static mlx_array either(mc_mlx_call *c, mlx_array a, mlx_array b) {
    return mc_mlx_combine(c, mc_mlx.logical_or, a, b);
}

/* floor(a / b); 0 where b is 0. The least integer divided by -1 traps, and is itself. */
static mlx_array divide_integers(mc_mlx_call *c, mlx_array a, mlx_array b, mica_dtype dtype) {
    mlx_array zero = mc_mlx_int(c, 0, dtype), one = mc_mlx_int(c, 1, dtype);
    mlx_array by_zero = mc_mlx_combine(c, mc_mlx.equal, b, zero);
    if (!mica_dtype_is_signed(dtype)) {
        mlx_array q = mc_mlx_combine(c, mc_mlx.floor_divide, a, mc_mlx_where(c, by_zero, one, b));
        return mc_mlx_where(c, by_zero, zero, q);
    }
    mlx_array by_minus_one = mc_mlx_combine(c, mc_mlx.equal, b, mc_mlx_int(c, -1, dtype));
    mlx_array safe = mc_mlx_where(c, either(c, by_zero, by_minus_one), one, b);
    mlx_array q = mc_mlx_combine(c, mc_mlx.floor_divide, a, safe);
    /* Where MLX rounds towards zero, the rest has the sign of a. */
    mlx_array rest =
        mc_mlx_combine(c, mc_mlx.subtract, a, mc_mlx_combine(c, mc_mlx.multiply, q, safe));
    mlx_array differ =
        mc_mlx_combine(c, mc_mlx.not_equal, mc_mlx_combine(c, mc_mlx.less, rest, zero),
                       mc_mlx_combine(c, mc_mlx.less, safe, zero));
    mlx_array down = both(c, differ, mc_mlx_combine(c, mc_mlx.not_equal, rest, zero));
    q = mc_mlx_combine(c, mc_mlx.subtract, q, mc_mlx_cast(c, down, dtype));
    q = mc_mlx_where(c, by_minus_one, mc_mlx_apply(c, mc_mlx.negative, a), q);
    return mc_mlx_where(c, by_zero, zero, q);
}

static mica_dtype integer_dtype(const mc_mlx_call *c) {
    return c->from[0]->dtype == MICA_BOOL ? MICA_U8 : c->from[0]->dtype;
}

void mc_mlx_emit_floor_divide(mc_mlx_call *c) {
    if (is_float(c)) {
        mlx_array q = mc_mlx_combine(c, mc_mlx.divide, mc_mlx_wide(c, 0), mc_mlx_wide(c, 1));
        mc_mlx_give(c, 0, mc_mlx_apply(c, mc_mlx.floor, q));
        return;
    }
    mlx_array a = without_bool(c, 0), b = without_bool(c, 1);
    mc_mlx_give(c, 0, divide_integers(c, a, b, integer_dtype(c)));
}

void mc_mlx_emit_remainder(mc_mlx_call *c) {
    if (is_float(c)) {
        mc_mlx_give(c, 0,
                    mc_mlx_combine(c, mc_mlx.remainder, mc_mlx_wide(c, 0), mc_mlx_wide(c, 1)));
        return;
    }
    mlx_array a = without_bool(c, 0), b = without_bool(c, 1);
    mlx_array q = divide_integers(c, a, b, integer_dtype(c));
    mc_mlx_give(c, 0,
                mc_mlx_combine(c, mc_mlx.subtract, a, mc_mlx_combine(c, mc_mlx.multiply, q, b)));
}

/* A negative power of an integer is 0, except of 1 and -1. */
static mlx_array negative_power(mc_mlx_call *c, mlx_array a, mlx_array b, mica_dtype dtype) {
    mlx_array zero = mc_mlx_int(c, 0, dtype), one = mc_mlx_int(c, 1, dtype);
    mlx_array minus_one = mc_mlx_int(c, -1, dtype);
    mlx_array odd = mc_mlx_combine(c, mc_mlx.bitwise_and, b, one);
    mlx_array sign = mc_mlx_where(c, mc_mlx_combine(c, mc_mlx.equal, odd, zero), one, minus_one);
    mlx_array y = mc_mlx_where(c, mc_mlx_combine(c, mc_mlx.equal, a, minus_one), sign, zero);
    return mc_mlx_where(c, mc_mlx_combine(c, mc_mlx.equal, a, one), one, y);
}

void mc_mlx_emit_power(mc_mlx_call *c) {
    if (is_float(c)) {
        mc_mlx_give(c, 0, mc_mlx_combine(c, mc_mlx.power, mc_mlx_wide(c, 0), mc_mlx_wide(c, 1)));
        return;
    }
    mlx_array a = without_bool(c, 0), b = without_bool(c, 1);
    mica_dtype dtype = integer_dtype(c);
    mlx_array zero = mc_mlx_int(c, 0, dtype);
    if (!mica_dtype_is_signed(dtype)) {
        mc_mlx_give(c, 0, mc_mlx_combine(c, mc_mlx.power, a, b));
        return;
    }
    mlx_array y = mc_mlx_combine(c, mc_mlx.power, a, mc_mlx_combine(c, mc_mlx.maximum, b, zero));
    mlx_array below = mc_mlx_combine(c, mc_mlx.less, b, zero);
    mc_mlx_give(c, 0, mc_mlx_where(c, below, negative_power(c, a, b, dtype), y));
}

/* Shifts by 0 to width - 1 alone; the others give `else`. */
static void shift(mc_mlx_call *c, mc_mlx_binary function, bool arithmetic) {
    mica_dtype dtype = c->from[0]->dtype;
    mlx_array a = c->in[0], b = c->in[1], zero = mc_mlx_int(c, 0, dtype);
    mlx_array width = mc_mlx_int(c, 8 * (int64_t)mica_dtype_bytes(dtype), dtype);
    mlx_array inside = mc_mlx_combine(c, mc_mlx.less, b, width);
    mlx_array rest = zero;
    if (mica_dtype_is_signed(dtype)) {
        inside = both(c, inside, mc_mlx_combine(c, mc_mlx.greater_equal, b, zero));
        mlx_array below = mc_mlx_combine(c, mc_mlx.less, a, zero);
        if (arithmetic) rest = mc_mlx_where(c, below, mc_mlx_int(c, -1, dtype), zero);
    }
    mlx_array y = mc_mlx_combine(c, function, a, mc_mlx_where(c, inside, b, zero));
    mc_mlx_give(c, 0, mc_mlx_where(c, inside, y, rest));
}

void mc_mlx_emit_left_shift(mc_mlx_call *c) {
    shift(c, mc_mlx.left_shift, false);
}

void mc_mlx_emit_right_shift(mc_mlx_call *c) {
    shift(c, mc_mlx.right_shift, true);
}

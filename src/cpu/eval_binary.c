/* Elementwise ops of two operands of one dtype and shape, a block at a time: in f32 (f16 and bf16
 * are converted) or in 64-bit integers. */
#include <math.h>

#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"

typedef void (*float_fn)(int64_t n, const float *a, const float *b, float *y);
typedef void (*int_fn)(int64_t n, const int64_t *a, const int64_t *b, int64_t *y);

typedef struct work {
    const mc_call *call;
    float_fn floats;
    int_fn ints;
} work;

static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    const mc_operand *in = w->call->in, *out = &w->call->out;
    bool floats = mica_dtype_is_float(in[0].layout->dtype);
    bool one_a = mc_block_is_one(in[0].layout), one_b = mc_block_is_one(in[1].layout);
    const float *as = NULL, *bs = NULL;
    mc_block a, b, y;
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = end - at < MC_BLOCK ? end - at : MC_BLOCK;
        if (floats) {
            float *to = mc_block_aim(out, at, &y);
            if (!as || !one_a) as = mc_block_f32(&in[0], at, n, &a);
            if (!bs || !one_b) bs = mc_block_f32(&in[1], at, n, &b);
            w->floats(n, as, bs, to);
            if (to == y.as.f32) mc_block_put_f32(out, at, n, to);
        } else {
            w->ints(n, mc_block_i64(&in[0], at, n, &a), mc_block_i64(&in[1], at, n, &b), y.as.i64);
            mc_block_put_i64(out, at, n, y.as.i64);
        }
    }
}

#define CHEAP_GRAIN 32768
#define GRAIN 4096

static mica_status run_elements(const mc_call *call, mc_stage *stage, int64_t grain,
                                float_fn floats, int_fn ints) {
    work *w = mc_stage_memory(stage, sizeof *w);
    if (!w) return MICA_OK;
    *w = (work){call, floats, ints};
    mc_stage_set(stage, range, w, mc_layout_size(call->out.layout), grain);
    return MICA_OK;
}

#define FLOATS(name, expr)                                                              \
    static void name##_floats(int64_t n, const float *as, const float *bs, float *ys) { \
        for (int64_t i = 0; i < n; i++) {                                               \
            float a = as[i], b = bs[i];                                                 \
            ys[i] = (expr);                                                             \
        }                                                                               \
    }
/* a and b are of type T: int64_t, or uint64_t if the top bit is not a sign or the sum may wrap. */
#define INTS(name, T, expr)                                                                   \
    static void name(int64_t n, const int64_t *as, const int64_t *bs, int64_t *restrict ys) { \
        for (int64_t i = 0; i < n; i++) {                                                     \
            T a = (T)as[i], b = (T)bs[i];                                                     \
            ys[i] = (int64_t)(expr);                                                          \
        }                                                                                     \
    }

static bool is_u64(const mc_call *call) {
    return call->in[0].layout->dtype == MICA_U64;
}

/* For results that depend on the sign: u64 has its own loop. */
#define EVAL_SIGNED(name, grain)                                             \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) {      \
        return run_elements(call, stage, grain, name##_floats,               \
                            is_u64(call) ? name##_unsigned : name##_signed); \
    }
#define EVAL_WRAP(name)                                                            \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) {            \
        return run_elements(call, stage, CHEAP_GRAIN, name##_floats, name##_wrap); \
    }
#define EVAL_FLOATS(name, grain)                                        \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) { \
        return run_elements(call, stage, grain, name##_floats, NULL);   \
    }
#define EVAL_INTS(name)                                                   \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) {   \
        return run_elements(call, stage, CHEAP_GRAIN, NULL, name##_wrap); \
    }

/* ---- arithmetic ---- */

FLOATS(add, a + b)
INTS(add_wrap, uint64_t, a + b)
EVAL_WRAP(add)
FLOATS(subtract, a - b)
INTS(subtract_wrap, uint64_t, a - b)
EVAL_WRAP(subtract)
FLOATS(multiply, a *b)
INTS(multiply_wrap, uint64_t, a *b)
EVAL_WRAP(multiply)
FLOATS(divide, a / b)
EVAL_FLOATS(divide, CHEAP_GRAIN)

/* As Python's: the quotient is rounded down, the remainder has the sign of b. Division by 0 gives
 * quotient 0 and remainder a. The smallest integer divided by -1 wraps. */
static int64_t floor_quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_remainder(int64_t a, int64_t b) {
    if (b == 0) return a;
    if (b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static float float_remainder(float a, float b) {
    float r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

FLOATS(floor_divide, floorf(a / b))
INTS(floor_divide_signed, int64_t, floor_quotient(a, b))
INTS(floor_divide_unsigned, uint64_t, b == 0 ? 0 : a / b)
EVAL_SIGNED(floor_divide, GRAIN)
FLOATS(remainder, float_remainder(a, b))
INTS(remainder_signed, int64_t, floor_remainder(a, b))
INTS(remainder_unsigned, uint64_t, b == 0 ? a : a % b)
EVAL_SIGNED(remainder, GRAIN)

/* a^b modulo 2^64 by squaring. A negative power of an integer is 0, except for 1 and -1. */
static uint64_t int_power(uint64_t a, uint64_t b) {
    uint64_t y = 1;
    for (; b != 0; b >>= 1, a *= a)
        if (b & 1) y *= a;
    return y;
}

static int64_t signed_power(int64_t a, int64_t b) {
    if (b >= 0) return (int64_t)int_power((uint64_t)a, (uint64_t)b);
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
}

FLOATS(power, powf(a, b))
INTS(power_signed, int64_t, signed_power(a, b))
INTS(power_unsigned, uint64_t, int_power(a, b))
EVAL_SIGNED(power, GRAIN)

FLOATS(maximum, a > b || a != a ? a : b)
INTS(maximum_signed, int64_t, a > b ? a : b)
INTS(maximum_unsigned, uint64_t, a > b ? a : b)
EVAL_SIGNED(maximum, CHEAP_GRAIN)
FLOATS(minimum, a < b || a != a ? a : b)
INTS(minimum_signed, int64_t, a < b ? a : b)
INTS(minimum_unsigned, uint64_t, a < b ? a : b)
EVAL_SIGNED(minimum, CHEAP_GRAIN)

/* log(e^a + e^b) = hi + log(1 + e^(lo - hi)); equal infinities would subtract to NaN. */
static float logaddexp(float a, float b) {
    if (a != a || b != b) return NAN;
    float hi = a > b ? a : b, lo = a > b ? b : a;
    return isinf(hi) || lo == -INFINITY ? hi : hi + log1pf(expf(lo - hi));
}

FLOATS(logaddexp, logaddexp(a, b))
EVAL_FLOATS(logaddexp, GRAIN)
FLOATS(arctan2, atan2f(a, b))
EVAL_FLOATS(arctan2, GRAIN)

/* ---- comparisons ---- */

#define COMPARE(name, op)                   \
    FLOATS(name, a op b ? 1.0f : 0.0f)      \
    INTS(name##_signed, int64_t, a op b)    \
    INTS(name##_unsigned, uint64_t, a op b) \
    EVAL_SIGNED(name, CHEAP_GRAIN)
COMPARE(equal, ==)
COMPARE(not_equal, !=)
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)

/* ---- bits and truth values ---- */

INTS(logical_and_wrap, uint64_t, a != 0 && b != 0)
EVAL_INTS(logical_and)
INTS(logical_or_wrap, uint64_t, a != 0 || b != 0)
EVAL_INTS(logical_or)
INTS(bitwise_and_wrap, uint64_t, a &b)
EVAL_INTS(bitwise_and)
INTS(bitwise_or_wrap, uint64_t, a | b)
EVAL_INTS(bitwise_or)
INTS(bitwise_xor_wrap, uint64_t, a ^ b)
EVAL_INTS(bitwise_xor)

/* Shifts by the width or more, or by a negative number, shift all bits out: the result is 0, or the
 * sign if a negative number is shifted right. */
INTS(left_shift_wrap, uint64_t, b < 64 ? a << b : 0)
EVAL_INTS(left_shift)

static int64_t shift_right(int64_t a, int64_t b) {
    uint64_t sign = a < 0 ? UINT64_MAX : 0;
    if (b < 0 || b > 63) return (int64_t)sign;
    return (int64_t)(((uint64_t)a ^ sign) >> b ^ sign);
}
INTS(right_shift_signed, int64_t, shift_right(a, b))
INTS(right_shift_unsigned, uint64_t, b < 64 ? a >> b : 0)
mica_status mc_stage_right_shift(const mc_call *call, mc_stage *stage) {
    return run_elements(call, stage, CHEAP_GRAIN, NULL,
                        is_u64(call) ? right_shift_unsigned : right_shift_signed);
}

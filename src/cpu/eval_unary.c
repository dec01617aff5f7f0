/* Elementwise ops of one operand, a block at a time: in f32 (f16 and bf16 are converted) or in
 * 64-bit integers. */
#include <math.h>

#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"

typedef void (*float_fn)(int64_t n, const float *x, float *y);
typedef void (*int_fn)(int64_t n, const int64_t *x, int64_t *y);

typedef struct work {
    const mc_call *call;
    float_fn floats; /* for floats */
    int_fn ints;     /* for integers and bool */
} work;

static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    const mc_operand *x = &w->call->in[0], *out = &w->call->out;
    bool floats = mica_dtype_is_float(x->layout->dtype);
    mc_block a, y;
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = end - at < MC_BLOCK ? end - at : MC_BLOCK;
        if (floats) {
            float *to = mc_block_aim(out, at, &y);
            w->floats(n, mc_block_f32(x, at, n, &a), to);
            if (to == y.as.f32) mc_block_put_f32(out, at, n, to);
        } else {
            w->ints(n, mc_block_i64(x, at, n, &a), y.as.i64);
            mc_block_put_i64(out, at, n, y.as.i64);
        }
    }
}

/* Min elements worth another thread. */
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

#define FLOATS(name, expr)                                             \
    static void name##_floats(int64_t n, const float *xs, float *ys) { \
        for (int64_t i = 0; i < n; i++) {                              \
            float x = xs[i];                                           \
            ys[i] = (expr);                                            \
        }                                                              \
    }
/* x is the value, u its bits. The result is cut to the operand's width. */
#define INTS(name, expr)                                                                   \
    static void name##_ints(int64_t n, const int64_t *restrict xs, int64_t *restrict ys) { \
        for (int64_t i = 0; i < n; i++) {                                                  \
            int64_t x = xs[i];                                                             \
            uint64_t u = (uint64_t)x;                                                      \
            (void)x, (void)u;                                                              \
            ys[i] = (int64_t)(expr);                                                       \
        }                                                                                  \
    }
#define EVAL_FLOATS(name, grain)                                        \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) { \
        return run_elements(call, stage, grain, name##_floats, NULL);   \
    }
#define EVAL_KERNEL(name, grain)                                                    \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) {             \
        return run_elements(call, stage, grain, mc_cpu_of(call)->kern->name, NULL); \
    }
#define EVAL_BOTH(name)                                                            \
    mica_status mc_stage_##name(const mc_call *call, mc_stage *stage) {            \
        return run_elements(call, stage, CHEAP_GRAIN, name##_floats, name##_ints); \
    }

/* ---- cheap ops, floats and integers ---- */

/* abs and sign of u64 differ: its top bit is not a sign. */
static void same_ints(int64_t n, const int64_t *restrict xs, int64_t *restrict ys) {
    for (int64_t i = 0; i < n; i++)
        ys[i] = xs[i];
}

static void nonzero_ints(int64_t n, const int64_t *restrict xs, int64_t *restrict ys) {
    for (int64_t i = 0; i < n; i++)
        ys[i] = xs[i] != 0;
}

FLOATS(abs, fabsf(x))
INTS(abs, x < 0 ? 0 - u : u)
FLOATS(sign, (float)((x > 0.0f) - (x < 0.0f))) /* 0 for NaN */
INTS(sign, (x > 0) - (x < 0))

mica_status mc_stage_abs(const mc_call *call, mc_stage *stage) {
    bool is_signed = mica_dtype_is_signed(call->in[0].layout->dtype);
    return run_elements(call, stage, CHEAP_GRAIN, abs_floats, is_signed ? abs_ints : same_ints);
}

mica_status mc_stage_sign(const mc_call *call, mc_stage *stage) {
    bool is_signed = mica_dtype_is_signed(call->in[0].layout->dtype);
    return run_elements(call, stage, CHEAP_GRAIN, sign_floats,
                        is_signed ? sign_ints : nonzero_ints);
}

FLOATS(negative, -x)
INTS(negative, 0 - u)
EVAL_BOTH(negative)
FLOATS(square, x *x)
INTS(square, u *u)
EVAL_BOTH(square)
FLOATS(logical_not, x == 0.0f ? 1.0f : 0.0f)
INTS(logical_not, x == 0)
EVAL_BOTH(logical_not)
FLOATS(isnan, x != x ? 1.0f : 0.0f)
INTS(isnan, 0)
EVAL_BOTH(isnan)
FLOATS(isinf, fabsf(x) == INFINITY ? 1.0f : 0.0f)
INTS(isinf, 0)
EVAL_BOTH(isinf)
FLOATS(isfinite, fabsf(x) < INFINITY ? 1.0f : 0.0f)
INTS(isfinite, 1)
EVAL_BOTH(isfinite)

INTS(bitwise_invert, ~u)
mica_status mc_stage_bitwise_invert(const mc_call *call, mc_stage *stage) {
    return run_elements(call, stage, CHEAP_GRAIN, NULL, bitwise_invert_ints);
}

/* ---- floats ---- */

/* The inverse of erf: Winitzki's closed form ("A handy approximation for the error function and
 * its inverse", 2008), then steps of Halley's method in double. */
static float erfinv(float v) {
    double x = (double)v;
    if (!(fabs(x) < 1.0)) return fabs(x) == 1.0 ? v * INFINITY : NAN;
    if (x == 0.0) return v;
    double l = log1p(-x * x), t = 4.3307467508 + l / 2.0; /* 2 / (pi 0.147) */
    double y = copysign(sqrt(sqrt(t * t - l / 0.147) - t), x);
    for (int i = 0; i < 2; i++) {
        /* erf y - x, by erfc where erf is near 1 */
        double off = x > 0.5 ? (1.0 - x) - erfc(y) : x < -0.5 ? erfc(-y) - (1.0 + x) : erf(y) - x;
        double step = off / (1.1283791670955126 * exp(-y * y)); /* 2 / sqrt(pi) */
        y -= step / (1.0 + y * step);
    }
    return (float)y;
}

FLOATS(floor, floorf(x))
EVAL_FLOATS(floor, CHEAP_GRAIN)
FLOATS(ceil, ceilf(x))
EVAL_FLOATS(ceil, CHEAP_GRAIN)
FLOATS(round, rintf(x)) /* to nearest even: the rounding mode is never changed */
EVAL_FLOATS(round, CHEAP_GRAIN)
FLOATS(sqrt, sqrtf(x))
EVAL_FLOATS(sqrt, CHEAP_GRAIN)
FLOATS(rsqrt, 1.0f / sqrtf(x))
EVAL_FLOATS(rsqrt, CHEAP_GRAIN)
FLOATS(reciprocal, 1.0f / x)
EVAL_FLOATS(reciprocal, CHEAP_GRAIN)
FLOATS(exp, mk_expf(x))
EVAL_FLOATS(exp, GRAIN)
FLOATS(sigmoid, mk_sigmoid(x))
EVAL_FLOATS(sigmoid, GRAIN)
EVAL_KERNEL(silu, GRAIN)
EVAL_KERNEL(gelu_approx, GRAIN)
FLOATS(gelu, mk_gelu(x))
EVAL_FLOATS(gelu, GRAIN)
FLOATS(expm1, expm1f(x))
EVAL_FLOATS(expm1, GRAIN)
FLOATS(log, mk_logf(x))
EVAL_FLOATS(log, GRAIN)
FLOATS(log2, log2f(x))
EVAL_FLOATS(log2, GRAIN)
FLOATS(log10, log10f(x))
EVAL_FLOATS(log10, GRAIN)
FLOATS(log1p, log1pf(x))
EVAL_FLOATS(log1p, GRAIN)
FLOATS(sin, sinf(x))
EVAL_FLOATS(sin, GRAIN)
FLOATS(cos, cosf(x))
EVAL_FLOATS(cos, GRAIN)
FLOATS(tan, tanf(x))
EVAL_FLOATS(tan, GRAIN)
FLOATS(sinh, sinhf(x))
EVAL_FLOATS(sinh, GRAIN)
FLOATS(cosh, coshf(x))
EVAL_FLOATS(cosh, GRAIN)
EVAL_KERNEL(tanh, GRAIN)
FLOATS(arcsin, asinf(x))
EVAL_FLOATS(arcsin, GRAIN)
FLOATS(arccos, acosf(x))
EVAL_FLOATS(arccos, GRAIN)
FLOATS(arctan, atanf(x))
EVAL_FLOATS(arctan, GRAIN)
FLOATS(arcsinh, asinhf(x))
EVAL_FLOATS(arcsinh, GRAIN)
FLOATS(arccosh, acoshf(x))
EVAL_FLOATS(arccosh, GRAIN)
FLOATS(arctanh, atanhf(x))
EVAL_FLOATS(arctanh, GRAIN)
FLOATS(erf, mk_erff(x))
EVAL_FLOATS(erf, GRAIN)
FLOATS(erfinv, erfinv(x))
EVAL_FLOATS(erfinv, GRAIN)

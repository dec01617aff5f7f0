/* The integer family in plain C: a template, compiled as FILL for each instruction set. A file that
 * has products of its own (set_int_products) defines INT_TAPS as its int_taps, which may be that in
 * plain C. */
#include <math.h>

#include "cpu/kern/integer/integer.h"

#ifdef INT_TAPS
#define INT_BLOCK 32 /* channels whose sums are in registers */

static inline void int_taps_block(int64_t taps, int64_t n, int64_t at, int64_t count,
                                  const uint8_t *const *rows, const int8_t *w, int32_t *y) {
    uint32_t sums[INT_BLOCK] = {0};
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = 0; i < count; i++)
            sums[i] += (uint32_t)(rows[t][at + i] * w[t * n + at + i]);
    for (int64_t i = 0; i < count; i++)
        y[at + i] = (int32_t)sums[i];
}

static void int_taps(int64_t m, int64_t n, int64_t taps, const uint8_t *const *rows,
                     const int8_t *w, int32_t *y, int64_t y_stride) {
    for (int64_t r = 0; r < m; r++, rows += taps, y += y_stride) {
        int64_t i = 0;
        for (; i + INT_BLOCK <= n; i += INT_BLOCK)
            int_taps_block(taps, n, i, INT_BLOCK, rows, w, y);
        if (i < n) int_taps_block(taps, n, i, n - i, rows, w, y);
    }
}
#endif

static void int_offset(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums, int32_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)x[i] - (uint32_t)zero * (uint32_t)sums[i]);
}

static inline float int_moved(int32_t x, int32_t zero, int32_t sum) {
    return (float)(int32_t)((uint32_t)x - (uint32_t)zero * (uint32_t)sum);
}

/* Which operands there are is constant everywhere: each way is a loop of its own. */
static inline void int_scale_of(bool moved, bool steps, bool adds, int64_t n,
                                const int32_t *restrict x, int32_t zero,
                                const int32_t *restrict sums, const float *restrict scale,
                                const float *restrict bias, float *restrict y) {
    for (int64_t i = 0; i < n; i++) {
        float v = moved ? int_moved(x[i], zero, sums[i]) : (float)x[i];
        v *= scale[steps ? i : 0];
        y[i] = adds ? v + bias[i] : v;
    }
}

static void int_scale(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums,
                      const float *scale, int64_t step, const float *bias, float *y) {
#define WAY(moved, steps, adds)                                     \
    if (!sums == !(moved) && !step == !(steps) && !bias == !(adds)) \
        int_scale_of(moved, steps, adds, n, x, zero, sums, scale, bias, y);
    WAY(0, 0, 0)
    WAY(0, 0, 1)
    WAY(0, 1, 0)
    WAY(0, 1, 1)
    WAY(1, 0, 0)
    WAY(1, 0, 1)
    WAY(1, 1, 0)
    WAY(1, 1, 1)
#undef WAY
}

/* Without branches, so that a loop of it becomes vector code. */
static inline int32_t int_saturated(float v, float lo, float hi) {
    v = v == v ? v : 0;
    v = v < hi ? v : hi;
    return (int32_t)(v > lo ? v : lo);
}

#define ROUND_AT_ONCE 128

static inline bool int_round_quickly(int64_t n, const mk_rounding *by, const float *restrict x,
                                     float *restrict y) {
    int32_t unsure = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * by->inverse, whole = rintf(v);
        unsure |= fabsf(v - whole) > MK_ROUND_SURE;
        y[i] = whole + by->zero;
    }
    return !unsure;
}

static void int_round(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums,
                      const float *scale, int64_t step, const float *bias, const mk_rounding *by,
                      uint8_t *restrict y) {
    float v[ROUND_AT_ONCE], whole[ROUND_AT_ONCE];
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < ROUND_AT_ONCE ? n - at : ROUND_AT_ONCE;
        int_scale(count, x + at, zero, sums ? sums + at : NULL, scale + at * step, step,
                  bias ? bias + at : NULL, v);
        if (!by->quick || !int_round_quickly(count, by, v, whole))
            for (int64_t i = 0; i < count; i++)
                whole[i] = rintf(v[i] / by->scale) + by->zero;
        for (int64_t i = 0; i < count; i++)
            y[at + i] = (uint8_t)int_saturated(whole[i], by->lo, by->hi);
    }
}

static void int_from_f32(int64_t n, bool is_signed, const float *restrict x, void *restrict y) {
    int8_t *restrict signs = y;
    uint8_t *restrict bytes = y;
    if (is_signed)
        for (int64_t i = 0; i < n; i++)
            signs[i] = (int8_t)int_saturated(x[i], INT8_MIN, INT8_MAX);
    else
        for (int64_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)int_saturated(x[i], 0, UINT8_MAX);
}

void FILL(mk_kernels *kernels) {
#ifdef INT_TAPS
    set_int_products(kernels);
    kernels->int_taps = INT_TAPS;
#endif
    kernels->int_scale = int_scale;
    kernels->int_round = int_round;
    kernels->int_from_f32 = int_from_f32;
    kernels->int_offset = int_offset;
}

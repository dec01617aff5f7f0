/* The integer family in plain C: a template, compiled as FILL for each instruction set. A file that
 * has products of its own (set_int_products) defines INT_TAPS as its int_taps, which may be that in
 * plain C. */
#include <math.h>
#include <string.h>

#include "cpu/kern/integer/integer.h"

#ifdef INT_TAPS
#define INT_BLOCK 32 /* channels whose sums are in registers */

/* [lines, width, n] */
static void int_pack_taps(int64_t n, int64_t lines, int64_t width, const int8_t *w,
                          int8_t *filters) {
    for (int64_t c = 0; c < n; c++)
        for (int64_t t = 0; t < lines * width; t++)
            filters[t * n + c] = w[c * lines * width + t];
}

static inline void int_taps_block(const mk_taps *f, int64_t at, int64_t count,
                                  const uint8_t *const *rows, int32_t *y) {
    uint32_t sums[INT_BLOCK] = {0};
    if (f->start) memcpy(sums, f->start + at, (size_t)count * sizeof *sums);
    for (int64_t t = 0; t < f->lines * f->width; t++)
        for (int64_t i = 0; i < count; i++)
            sums[i] += (uint32_t)(rows[t][at + i] * f->w[t * f->n + at + i]);
    memcpy(y, sums, (size_t)count * sizeof *sums);
}

static void int_taps(int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin,
                     int64_t end, int32_t *y, int64_t y_stride) {
    for (int64_t r = 0; r < m; r++, rows += filters->lines * filters->width, y += y_stride) {
        int64_t i = begin;
        for (; i + INT_BLOCK <= end; i += INT_BLOCK)
            int_taps_block(filters, i, INT_BLOCK, rows, y + i - begin);
        if (i < end) int_taps_block(filters, i, end - i, rows, y + i - begin);
    }
}
#endif

/* Which operands there are is constant everywhere: each way is a loop of its own. */
static inline void int_scale_of(bool steps, bool adds, int64_t n, const int32_t *restrict x,
                                const float *restrict scale, const float *restrict bias,
                                float *restrict y) {
    for (int64_t i = 0; i < n; i++) {
        float v = (float)x[i] * scale[steps ? i : 0];
        y[i] = adds ? v + bias[i] : v;
    }
}

static void int_scale(int64_t n, const int32_t *x, const float *scale, int64_t step,
                      const float *bias, float *y) {
#define WAY(steps, adds) \
    if (!step == !(steps) && !bias == !(adds)) int_scale_of(steps, adds, n, x, scale, bias, y);
    WAY(0, 0)
    WAY(0, 1)
    WAY(1, 0)
    WAY(1, 1)
#undef WAY
}

/* Without branches, so that a loop of it becomes vector code. */
static inline int32_t int_saturated(float v, float lo, float hi) {
    v = v == v ? v : 0;
    v = v < hi ? v : hi;
    return (int32_t)(v > lo ? v : lo);
}

#define ROUND_AT_ONCE 128

/* Before they are saturated; false: not all are sure. */
static inline bool int_round_quickly(int64_t n, const int32_t *restrict x,
                                     const mk_int_rounding *to, int64_t at, float *restrict y) {
    const float *restrict factor = to->factor + at, *restrict plus = to->plus + at;
    const float *restrict sure = to->sure + at;
    int32_t unsure = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = (float)x[i] * factor[i] + plus[i];
        y[i] = rintf(v);
        unsure |= fabsf(v - y[i]) > sure[i];
    }
    return !unsure;
}

static inline void int_round_exactly(int64_t n, const int32_t *x, const mk_int_rounding *to,
                                     int64_t at, float *y) {
    const float by = to->by.scale, zero = to->by.zero;
    int_scale(n, x, to->scale + at * to->step, to->step, to->bias ? to->bias + at : NULL, y);
    for (int64_t i = 0; i < n; i++)
        y[i] = rintf(y[i] / by) + zero;
}

static void int_round(int64_t m, int64_t n, const int32_t *x, int64_t x_stride,
                      const mk_int_rounding *to, uint8_t *restrict y, int64_t y_stride) {
    const float lo = to->by.lo, hi = to->by.hi;
    float v[ROUND_AT_ONCE];
    for (int64_t r = 0; r < m; r++, x += x_stride, y += y_stride)
        for (int64_t at = 0, count; at < n; at += count) {
            count = n - at < ROUND_AT_ONCE ? n - at : ROUND_AT_ONCE;
            if (!to->quick || !int_round_quickly(count, x + at, to, at, v))
                int_round_exactly(count, x + at, to, at, v);
            for (int64_t i = 0; i < count; i++)
                y[at + i] = (uint8_t)int_saturated(v[i], lo, hi);
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
    kernels->int_pack_taps = int_pack_taps;
    kernels->int_taps = INT_TAPS;
    kernels->int_lines = 1;
#endif
    kernels->int_scale = int_scale;
    kernels->int_round = int_round;
    kernels->int_from_f32 = int_from_f32;
}

/* The row family in plain C: a template, compiled as FILL for each instruction set. The compiler
 * may not contract or reorder sums and products, so all of them give the same bits. */
#include <math.h>

#include "cpu/kern/row/row.h"
#include "cpu/kern/vmath.h"

static void silu(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_silu(x[i]);
}

static void gelu_approx(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_gelu_approx(x[i]);
}

static void tanh_row(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_tanhf(x[i]);
}

#define LANES 16

/* The sum of x[i] y[i]: LANES sums, added by halves. The order is the same on every machine. */
static inline double sum_of_products(int64_t n, const float *x, const float *y) {
    double sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (double)x[i + lane] * (double)y[i + lane];
    for (int lane = 0; i + lane < n; lane++)
        sums[lane] += (double)x[i + lane] * (double)y[i + lane];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            sums[lane] += sums[half + lane];
    return sums[0];
}

static void rms_norm(int64_t n, const float *x, const float *weight, double eps, float *y) {
    float factor = (float)(1.0 / sqrt(sum_of_products(n, x, x) / (double)n + eps));
    if (!weight)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * factor;
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * factor * weight[i];
}

static void norm_gradient(int64_t n, const float *x, const float *g, double eps, float *y) {
    double f = 1.0 / sqrt(sum_of_products(n, x, x) / (double)n + eps);
    float factor = (float)f, along = (float)(f * f * sum_of_products(n, g, x) / (double)n);
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * (g[i] - x[i] * along);
}

static void rope(int64_t half, const float *restrict table, const float *restrict x,
                 float *restrict y) {
    const float *cosines = table, *sines = table + half;
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[half + i];
        y[i] = a * cosines[i] - b * sines[i];
        y[half + i] = a * sines[i] + b * cosines[i];
    }
}

#define WIDE (2 * LANES)

static float largest(int64_t n, const float *x) {
    float max[WIDE];
    uint32_t nan[WIDE] = {0}, any = 0;
    int64_t i = 0;
    for (int lane = 0; lane < WIDE; lane++)
        max[lane] = -INFINITY;
    for (; i + WIDE <= n; i += WIDE)
        for (int lane = 0; lane < WIDE; lane++) {
            max[lane] = x[i + lane] > max[lane] ? x[i + lane] : max[lane];
            nan[lane] |= x[i + lane] != x[i + lane];
        }
    for (int lane = 0; i + lane < n; lane++) {
        max[lane] = x[i + lane] > max[lane] ? x[i + lane] : max[lane];
        nan[lane] |= x[i + lane] != x[i + lane];
    }
    for (int half = WIDE / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            max[lane] = max[half + lane] > max[lane] ? max[half + lane] : max[lane];
    for (int lane = 0; lane < WIDE; lane++)
        any |= nan[lane];
    return any ? NAN : max[0];
}

/* Quantises n <= MK_Q8_GROUP numbers to codes, which are 0 before; returns the scale. */
static uint16_t narrow_group(int64_t n, const float *restrict x, uint8_t *restrict codes) {
    uint32_t max = 0; /* the largest magnitude, as bits: NaN is above infinity */
    for (int64_t i = 0; i < n; i++) {
        uint32_t size = mk_bits(x[i]) & 0x7fffffffu;
        max = size > max ? size : max;
    }
    uint32_t up = mk_bits(mk_from_bits(max) * (1.0f / 127.0f)) + 0xffffu;
    float scale = mk_from_bits(up & 0xffff0000u);
    if (max >= 0x7f800000u) return 0x7fc0u;
    if (scale < 0x1p-120f) return 0;
    float inverse = 1.0f / scale;
    for (int64_t i = 0; i < n; i++) { /* adding 1.5 * 2^23 leaves an integer in the low bits */
        float whole = x[i] * inverse + 0x1.8p23f;
        codes[i] = (uint8_t)mk_bits(whole);
    }
    return (uint16_t)(up >> 16);
}

static void narrow_q8(int64_t n, const float *x, uint8_t *row) {
    uint8_t *scales = row + mk_q8_scales(n);
    memset(row, 0, (size_t)mk_q8_bytes(n));
    for (int64_t i = 0; i < n; i += MK_Q8_GROUP, scales += 2) {
        int64_t count = n - i < MK_Q8_GROUP ? n - i : MK_Q8_GROUP;
        uint16_t scale = narrow_group(count, x + i, row + i);
        memcpy(scales, &scale, sizeof scale);
    }
}

static void widen_q8(int64_t n, const uint8_t *codes, const uint8_t *scales, float *y) {
    for (int64_t i = 0; i < n; i += MK_Q8_GROUP, scales += 2) {
        int64_t count = n - i < MK_Q8_GROUP ? n - i : MK_Q8_GROUP;
        const uint8_t *restrict from = codes + i;
        float *restrict to = y + i;
        uint16_t half;
        memcpy(&half, scales, sizeof half);
        float scale = mk_from_bf16(half);
        if (count == MK_Q8_GROUP)
            for (int l = 0; l < MK_Q8_GROUP; l++)
                to[l] = (float)(int8_t)from[l] * scale;
        else
            for (int64_t l = 0; l < count; l++)
                to[l] = (float)(int8_t)from[l] * scale;
    }
}

void FILL(mk_kernels *kernels) {
    kernels->silu = silu;
    kernels->gelu_approx = gelu_approx;
    kernels->tanh = tanh_row;
    kernels->rms_norm = rms_norm;
    kernels->norm_gradient = norm_gradient;
    kernels->rope = rope;
    kernels->largest = largest;
    kernels->narrow_q8 = narrow_q8;
    kernels->widen_q8 = widen_q8;
}

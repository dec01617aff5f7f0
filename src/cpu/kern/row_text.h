/* The row family in plain C: one text that is compiled for each instruction set, as FILL. No sum or
 * product is contracted or reordered by a compiler, so all of them give the same bits. */
#include <math.h>

#include "cpu/kern/row.h"
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

/* LANES sums side by side, then joined by halves: one order, whatever the machine. */
static double sum_of_squares(int64_t n, const float *x) {
    double sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (double)x[i + lane] * (double)x[i + lane];
    for (int lane = 0; i + lane < n; lane++)
        sums[lane] += (double)x[i + lane] * (double)x[i + lane];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            sums[lane] += sums[half + lane];
    return sums[0];
}

static void rms_norm(int64_t n, const float *x, const float *weight, double eps, float *y) {
    float factor = (float)(1.0 / sqrt(sum_of_squares(n, x) / (double)n + eps));
    if (weight == NULL)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * factor;
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * factor * weight[i];
}

static void turn(int64_t half, const float *restrict table, const float *restrict x,
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
    float most[WIDE];
    uint32_t nan[WIDE] = {0}, any = 0;
    int64_t i = 0;
    for (int lane = 0; lane < WIDE; lane++)
        most[lane] = -INFINITY;
    for (; i + WIDE <= n; i += WIDE)
        for (int lane = 0; lane < WIDE; lane++) {
            most[lane] = x[i + lane] > most[lane] ? x[i + lane] : most[lane];
            nan[lane] |= x[i + lane] != x[i + lane];
        }
    for (int lane = 0; i + lane < n; lane++) {
        most[lane] = x[i + lane] > most[lane] ? x[i + lane] : most[lane];
        nan[lane] |= x[i + lane] != x[i + lane];
    }
    for (int half = WIDE / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            most[lane] = most[half + lane] > most[lane] ? most[half + lane] : most[lane];
    for (int lane = 0; lane < WIDE; lane++)
        any |= nan[lane];
    return any ? NAN : most[0];
}

void FILL(mk_kernels *kernels) {
    kernels->silu = silu;
    kernels->gelu_approx = gelu_approx;
    kernels->tanh = tanh_row;
    kernels->rms_norm = rms_norm;
    kernels->turn = turn;
    kernels->largest = largest;
}

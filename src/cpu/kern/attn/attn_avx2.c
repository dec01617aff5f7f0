/* AVX2: the softmax. bf16 keys and values are widened and multiplied by dense_avx2.c. */
#include "cpu/kern/attn/attn.h"
#include "cpu/kern/avx2.h"

static float scale_max(int64_t n, float *x, float scale) {
    __m256 max = _mm256_set1_ps(-INFINITY), factor = _mm256_set1_ps(scale);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
        _mm256_storeu_ps(x + i, v);
        max = _mm256_max_ps(v, max); /* the second operand, if one is NaN */
    }
    float lanes[8];
    _mm256_storeu_ps(lanes, max);
    for (; i < n; i++) {
        x[i] *= scale;
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    }
    for (int l = 1; l < 8; l++)
        lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}

static int64_t sum_lanes(__m256i v) {
    int32_t lanes[8];
    int64_t total = 0;
    _mm256_storeu_si256((void *)lanes, v);
    for (int l = 0; l < 8; l++)
        total += lanes[l];
    return total;
}

static float exp_total(int64_t n, float *x, float shift) {
    __m256 max = _mm256_set1_ps(shift), unit = _mm256_set1_ps(0x1p24f);
    int64_t total = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = n - i < 8 * MK_ATTN_TERMS ? n : i + 8 * MK_ATTN_TERMS;
        __m256i sum = _mm256_setzero_si256();
        for (; i < end; i += 8) {
            __m256i mask = mk_first(n - i);
            __m256 y = mk_exp_negative(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), max));
            _mm256_maskstore_ps(x + i, mask, y);
            __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(y, unit));
            sum = _mm256_add_epi32(sum, _mm256_and_si256(whole, mask));
        }
        total += sum_lanes(sum);
    }
    return (float)total * 0x1p-24f;
}

void mk_attn_avx2(mk_kernels *kernels) {
    kernels->scale_max = scale_max;
    kernels->exp_total = exp_total;
}

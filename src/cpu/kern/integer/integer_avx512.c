/* Loops over rows, the ends of rows in masked registers; other products are AVX2's. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/integer/integer.h"

#define LANES 16

/* x - zero * sums of the lanes of m. */
MK_INLINE __m512i moved(__mmask16 m, const int32_t *x, __m512i zero, const int32_t *sums) {
    __m512i by = _mm512_mullo_epi32(zero, _mm512_maskz_loadu_epi32(m, sums));
    return _mm512_sub_epi32(_mm512_maskz_loadu_epi32(m, x), by);
}

static void int_offset(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums, int32_t *y) {
    const __m512i zeros = _mm512_set1_epi32(zero);
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 m = mk_first(n - i);
        _mm512_mask_storeu_epi32(y + i, m, moved(m, x + i, zeros, sums + i));
    }
}

static void int_scale(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums,
                      const float *scale, int64_t step, const float *bias, float *y) {
    const __m512i zeros = _mm512_set1_epi32(zero);
    __m512 by = _mm512_set1_ps(step ? 0 : scale[0]);
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 m = mk_first(n - i);
        __m512i v = sums ? moved(m, x + i, zeros, sums + i) : _mm512_maskz_loadu_epi32(m, x + i);
        if (step) by = _mm512_maskz_loadu_ps(m, scale + i);
        __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(v), by);
        if (bias) f = _mm512_add_ps(f, _mm512_maskz_loadu_ps(m, bias + i));
        _mm512_mask_storeu_ps(y + i, m, f);
    }
}

/* Bounds first: what does not fit 32 bits would become the smallest integer, as NaN does. */
static void int_from_f32(int64_t n, bool is_signed, const float *x, void *y) {
    const __m512 lo = _mm512_set1_ps(is_signed ? INT8_MIN : 0);
    const __m512 hi = _mm512_set1_ps(is_signed ? INT8_MAX : UINT8_MAX);
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 m = mk_first(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
        v = _mm512_maskz_min_ps(number, _mm512_max_ps(v, lo), hi);
        _mm512_mask_cvtepi32_storeu_epi8((char *)y + i, m, _mm512_cvttps_epi32(v));
    }
}

/* ---- a filter for each channel: pairs of taps, as in AVX2's ---- */

#define STEP 32
#define PLACES 4

MK_INLINE __m512i wide_x(const uint8_t *x) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

MK_INLINE __m512i wide_w(const int8_t *w) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)w));
}

MK_INLINE __m512i add_pairs(__m512i sum, __m512i a, __m512i b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}

MK_INLINE void taps_tile(int places, int64_t n, int64_t taps, const uint8_t *const *rows,
                         const int8_t *w, int64_t at, int32_t *y, int64_t y_stride) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i sum[PLACES][2];
    for (int r = 0; r < places; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_si512();
    for (int64_t t = 0; t < taps; t += 2) {
        const bool two = t + 1 < taps;
        __m512i a = wide_w(w + t * n + at), b = _mm512_setzero_si512();
        if (two) b = wide_w(w + (t + 1) * n + at);
        __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
        for (int r = 0; r < places; r++) {
            a = wide_x(rows[r * taps + t] + at);
            b = two ? wide_x(rows[r * taps + t + 1] + at) : a;
            sum[r][0] = add_pairs(sum[r][0], _mm512_unpacklo_epi16(a, b), low);
            sum[r][1] = add_pairs(sum[r][1], _mm512_unpackhi_epi16(a, b), high);
        }
    }
    for (int r = 0; r < places; r++) {
        int32_t *to = y + r * y_stride + at;
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(sum[r][0], first, sum[r][1]));
        _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(sum[r][0], second, sum[r][1]));
    }
}

/* The last block begins before the end of the one before it. */
MK_INLINE void taps_rows(int places, int64_t n, int64_t taps, const uint8_t *const *rows,
                         const int8_t *w, int32_t *y, int64_t y_stride) {
    for (int64_t i = 0; i < n; i += STEP)
        taps_tile(places, n, taps, rows, w, i + STEP <= n ? i : n - STEP, y, y_stride);
}

static void int_taps(int64_t m, int64_t n, int64_t taps, const uint8_t *const *rows,
                     const int8_t *w, int32_t *y, int64_t y_stride) {
    if (n < STEP) {
        mk_int_taps_avx2(m, n, taps, rows, w, y, y_stride);
        return;
    }
    for (int64_t i = 0; i < m; i += PLACES)
        MK_WITH_ROWS(m - i < PLACES ? m - i : PLACES, PLACES,
                     taps_rows(MK_R, n, taps, rows + i * taps, w, y + i * y_stride, y_stride));
}

void mk_integer_avx512(mk_kernels *kernels) {
    kernels->int_taps = int_taps;
    kernels->int_scale = int_scale;
    kernels->int_from_f32 = int_from_f32;
    kernels->int_offset = int_offset;
}

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

/* What int_round reads. */
typedef struct rounded {
    const int32_t *x, *sums;
    __m512i zeros;
    const float *scale, *bias;
    bool steps;
} rounded;

/* The values of the lanes of m from column i on. */
MK_INLINE __m512 scaled(const rounded *r, __mmask16 m, int64_t i) {
    __m512i sum =
        r->sums ? moved(m, r->x + i, r->zeros, r->sums + i) : _mm512_maskz_loadu_epi32(m, r->x + i);
    __m512 by = r->steps ? _mm512_maskz_loadu_ps(m, r->scale + i) : _mm512_set1_ps(*r->scale);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), by);
    return r->bias ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, r->bias + i)) : v;
}

/* Multiples of the scale by its reciprocal; *unsure: lanes that have to be divided, and NaN. */
MK_INLINE __m512 nearly(const mk_rounding *by, __m512 v, __mmask16 *unsure) {
    v = _mm512_mul_ps(v, _mm512_set1_ps(by->inverse));
    __m512 whole = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 apart = _mm512_abs_ps(_mm512_sub_ps(v, whole));
    *unsure |= _mm512_cmp_ps_mask(apart, _mm512_set1_ps(MK_ROUND_SURE), _CMP_NLE_UQ);
    return whole;
}

/* Bytes of the lanes of m. Bounds first, as in int_from_f32. */
MK_INLINE void round_lanes(const mk_rounding *by, __mmask16 m, __m512 v, uint8_t *y) {
    v = _mm512_roundscale_ps(_mm512_div_ps(v, _mm512_set1_ps(by->scale)),
                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    v = _mm512_add_ps(v, _mm512_set1_ps(by->zero));
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    v = _mm512_max_ps(v, _mm512_set1_ps(by->lo));
    v = _mm512_maskz_min_ps(number, v, _mm512_set1_ps(by->hi));
    _mm_mask_storeu_epi8(y, m, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
}

/* What is too small becomes the smallest integer. */
MK_INLINE __m512i integers(__m512 whole) {
    return _mm512_cvttps_epi32(_mm512_min_ps(whole, _mm512_set1_ps(INT16_MAX)));
}

/* 64 bytes; false: not all are sure. Packing saturates, and takes quarters in turns. */
MK_INLINE bool round_quickly(const mk_rounding *by, const rounded *r, int64_t i, uint8_t *y) {
    const __m512i quarters =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i plus = _mm512_set1_epi16((short)by->zero);
    const __mmask16 all = (__mmask16)-1;
    __mmask16 unsure = 0;
    __m512 a = nearly(by, scaled(r, all, i), &unsure);
    __m512 b = nearly(by, scaled(r, all, i + LANES), &unsure);
    __m512 c = nearly(by, scaled(r, all, i + 2 * LANES), &unsure);
    __m512 d = nearly(by, scaled(r, all, i + 3 * LANES), &unsure);
    if (unsure) return false;
    __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(integers(a), integers(b)), plus);
    __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(integers(c), integers(d)), plus);
    __m512i bytes = by->lo < 0 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(quarters, bytes));
    return true;
}

/* 16 bytes at most, of the lanes of m. */
MK_INLINE void round_some(const mk_rounding *by, const rounded *r, __mmask16 m, int64_t i,
                          uint8_t *y) {
    __mmask16 unsure = 0;
    __m512 v = scaled(r, m, i), whole = nearly(by, v, &unsure);
    if (!by->quick || (unsure & m)) {
        round_lanes(by, m, v, y + i);
        return;
    }
    __m512i at = _mm512_max_epi32(integers(whole), _mm512_set1_epi32(INT16_MIN));
    at = _mm512_add_epi32(at, _mm512_set1_epi32((int)by->zero));
    at = _mm512_max_epi32(at, _mm512_set1_epi32((int)by->lo));
    at = _mm512_min_epi32(at, _mm512_set1_epi32((int)by->hi));
    _mm_mask_storeu_epi8(y + i, m, _mm512_cvtepi32_epi8(at));
}

static void int_round(int64_t n, const int32_t *x, int32_t zero, const int32_t *sums,
                      const float *scale, int64_t step, const float *bias, const mk_rounding *to,
                      uint8_t *y) {
    const rounded r = {x, sums, _mm512_set1_epi32(zero), scale, bias, step != 0};
    const mk_rounding by = *to;
    int64_t i = 0;
    for (; by.quick && i + 4 * LANES <= n; i += 4 * LANES)
        if (!round_quickly(&by, &r, i, y))
            for (int64_t l = i; l < i + 4 * LANES; l += LANES)
                round_lanes(&by, (__mmask16)-1, scaled(&r, (__mmask16)-1, l), y + l);
    for (; i < n; i += LANES)
        round_some(&by, &r, mk_first(n - i), i, y);
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
        _mm_mask_storeu_epi8((char *)y + i, m, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
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
    kernels->int_round = int_round;
    kernels->int_from_f32 = int_from_f32;
    kernels->int_offset = int_offset;
}

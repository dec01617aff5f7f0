/* Loops over rows, the ends of rows in masked registers; other products are AVX2's. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/integer/integer.h"

#define LANES 16

static void int_scale(int64_t n, const int32_t *x, const float *scale, int64_t step,
                      const float *bias, float *y) {
    __m512 by = _mm512_set1_ps(step ? 0 : scale[0]);
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 m = mk_first(n - i);
        if (step) by = _mm512_maskz_loadu_ps(m, scale + i);
        __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(m, x + i)), by);
        if (bias) f = _mm512_add_ps(f, _mm512_maskz_loadu_ps(m, bias + i));
        _mm512_mask_storeu_ps(y + i, m, f);
    }
}

/* ---- bytes ---- */

#define EVEN (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define REGS 4 /* of words, whose bytes fill one */

/* The numbers of bytes, as `by` says, of the lanes of m in column j. Bounds first, as in
 * int_from_f32. */
MK_INLINE __m512i round_exactly(const mk_int_rounding *to, __mmask16 m, __m512 x, int64_t j) {
    const mk_rounding *by = &to->by;
    __m512 scale = to->step ? _mm512_maskz_loadu_ps(m, to->scale + j) : _mm512_set1_ps(*to->scale);
    __m512 v = _mm512_mul_ps(x, scale);
    if (to->bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, to->bias + j));
    v = _mm512_roundscale_ps(_mm512_div_ps(v, _mm512_set1_ps(by->scale)), EVEN);
    v = _mm512_add_ps(v, _mm512_set1_ps(by->zero));
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    v = _mm512_max_ps(v, _mm512_set1_ps(by->lo));
    return _mm512_cvttps_epi32(_mm512_maskz_min_ps(number, v, _mm512_set1_ps(by->hi)));
}

/* Columns of a mk_int_rounding, in registers. */
typedef struct columns {
    __m512 factor[REGS], plus[REGS], sure[REGS];
    __mmask16 some; /* lanes of the last one that are there */
} columns;

MK_INLINE void load_columns(int regs, const mk_int_rounding *to, int64_t j, int64_t n, columns *c) {
    c->some = mk_first(n - (regs - 1) * LANES);
#pragma GCC unroll 4
    for (int k = 0; k < regs; k++) {
        const __mmask16 m = k + 1 < regs ? (__mmask16)-1 : c->some;
        c->factor[k] = c->plus[k] = c->sure[k] = _mm512_setzero_ps();
        if (!to->quick) continue;
        c->factor[k] = _mm512_maskz_loadu_ps(m, to->factor + j + k * LANES);
        c->plus[k] = _mm512_maskz_loadu_ps(m, to->plus + j + k * LANES);
        c->sure[k] = _mm512_mask_loadu_ps(_mm512_set1_ps(1), m, to->sure + j + k * LANES);
    }
}

/* Words of a row as 64 bytes. Packing saturates, and takes quarters in turns. */
MK_INLINE __m512i packed(int regs, bool is_signed, const __m512i v[REGS]) {
    const __m512i quarters =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packs_epi32(v[0], v[regs > 1 ? 1 : 0]);
    __m512i high = regs > 2 ? _mm512_packs_epi32(v[2], v[regs > 3 ? 3 : 2]) : low;
    low = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    return _mm512_permutexvar_epi32(quarters, low);
}

/* The first n bytes, in pieces: a mask makes a store slow. */
MK_INLINE void store_bytes(int64_t n, __m512i v, uint8_t *y) {
    if (n >= 64) {
        _mm512_storeu_si512(y, v);
        return;
    }
    __m256i half = _mm512_castsi512_si256(v);
    if (n & 32) {
        _mm256_storeu_si256((__m256i *)(void *)y, half);
        half = _mm512_extracti64x4_epi64(v, 1);
        y += 32;
    }
    __m128i quarter = _mm256_castsi256_si128(half);
    if (n & 16) {
        _mm_storeu_si128((__m128i *)(void *)y, quarter);
        quarter = _mm256_extracti128_si256(half, 1);
        y += 16;
    }
    if (n & 8) {
        _mm_storel_epi64((__m128i *)(void *)y, quarter);
        quarter = _mm_unpackhi_epi64(quarter, quarter);
        y += 8;
    }
    if (n & 7) _mm_mask_storeu_epi8(y, (__mmask16)((1 << (n & 7)) - 1), quarter);
}

/* Columns [j, j + n) of all rows, n <= 64, which are in `regs` registers. */
MK_INLINE void round_columns(int regs, int64_t m, int64_t j, int64_t n, const int32_t *x,
                             int64_t x_stride, const mk_int_rounding *to, uint8_t *y,
                             int64_t y_stride) {
    const bool is_signed = to->by.lo < 0, quick = to->quick;
    columns c;
    load_columns(regs, to, j, n, &c);
    for (int64_t r = 0; r < m; r++, x += x_stride, y += y_stride) {
        __m512i bytes[REGS];
        __m512 numbers[REGS];
        __mmask16 unsure[REGS], any = 0;
#pragma GCC unroll 4
        for (int k = 0; k < regs; k++) {
            const int32_t *from = x + j + k * LANES;
            numbers[k] = _mm512_cvtepi32_ps(k + 1 < regs ? _mm512_loadu_si512(from)
                                                         : _mm512_maskz_loadu_epi32(c.some, from));
            __m512 v = _mm512_fmadd_ps(numbers[k], c.factor[k], c.plus[k]);
            __m512 apart = _mm512_reduce_ps(v, EVEN);
            unsure[k] = _mm512_cmp_ps_mask(_mm512_abs_ps(apart), c.sure[k], _CMP_NLE_UQ);
            bytes[k] = _mm512_cvt_roundps_epi32(v, EVEN);
            any |= unsure[k];
        }
        if (any || !quick)
#pragma GCC unroll 4
            for (int k = 0; k < regs; k++)
                if (unsure[k] || !quick)
                    bytes[k] = round_exactly(to, k + 1 < regs ? (__mmask16)-1 : c.some, numbers[k],
                                             j + k * LANES);
        store_bytes(n, packed(regs, is_signed, bytes), y + j);
    }
}

static void int_round(int64_t m, int64_t n, const int32_t *x, int64_t x_stride,
                      const mk_int_rounding *to, uint8_t *y, int64_t y_stride) {
    const mk_int_rounding by = *to;
    for (int64_t j = 0, count; j < n; j += count) {
        count = n - j < REGS * LANES ? n - j : REGS * LANES;
        MK_WITH_ROWS((count + LANES - 1) / LANES, REGS,
                     round_columns(MK_R, m, j, count, x, x_stride, &by, y, y_stride));
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

/* Channels from `at` on, of which y has the first one. */
MK_INLINE void taps_tile(int places, const mk_taps *f, const uint8_t *const *rows, int64_t at,
                         int32_t *y, int64_t y_stride) {
    const int64_t n = f->n, taps = f->lines * f->width;
    const int8_t *w = f->w;
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
    __m512i low = _mm512_setzero_si512(), high = low;
    if (f->start) {
        low = _mm512_loadu_si512(f->start + at);
        high = _mm512_loadu_si512(f->start + at + 16);
    }
    for (int r = 0; r < places; r++) {
        int32_t *to = y + r * y_stride;
        __m512i a = _mm512_permutex2var_epi64(sum[r][0], first, sum[r][1]);
        __m512i b = _mm512_permutex2var_epi64(sum[r][0], second, sum[r][1]);
        _mm512_storeu_si512(to, _mm512_add_epi32(a, low));
        _mm512_storeu_si512(to + 16, _mm512_add_epi32(b, high));
    }
}

/* The last block begins before the end of the one before it. */
MK_INLINE void taps_rows(int places, const mk_taps *f, const uint8_t *const *rows, int64_t begin,
                         int64_t end, int32_t *y, int64_t y_stride) {
    for (int64_t i = begin, at; i < end; i += STEP) {
        at = i + STEP <= end ? i : end - STEP;
        taps_tile(places, f, rows, at, y + at - begin, y_stride);
    }
}

static void int_taps(int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin,
                     int64_t end, int32_t *y, int64_t y_stride) {
    if (end - begin < STEP) {
        mk_int_taps_avx2(m, rows, filters, begin, end, y, y_stride);
        return;
    }
    const int64_t taps = filters->lines * filters->width;
    for (int64_t i = 0; i < m; i += PLACES)
        MK_WITH_ROWS(
            m - i < PLACES ? m - i : PLACES, PLACES,
            taps_rows(MK_R, filters, rows + i * taps, begin, end, y + i * y_stride, y_stride));
}

void mk_integer_avx512(mk_kernels *kernels) {
    kernels->int_taps = int_taps;
    kernels->int_scale = int_scale;
    kernels->int_round = int_round;
    kernels->int_from_f32 = int_from_f32;
}

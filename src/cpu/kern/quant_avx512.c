/* AVX-512, affine rows of 4 and 8 bits.
 *
 * 4 bits: a group's 16 values scale * code + bias are a table in one register, and a permutation
 * looks 16 codes up at once. Four words (32 codes) are spread to the four quarters of a register;
 * shifts by 0 4 8 12 and 16 20 24 28 bring codes 8 i + c to lane 4 c + i, which is the order that
 * arrange_q4 (AVX2) gives x. Bits above a code need no mask: the permutation ignores them.
 *
 * 8 bits: bytes widened, in their natural order. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/quant.h"

#include <stddef.h>

#define ROWS 4   /* in flight */
#define STAGE 32 /* groups whose scales are widened ahead */

typedef struct stage {
    float scales[ROWS][STAGE];
    float biases[ROWS][STAGE];
} stage;

MK_INLINE void widen_scales(const void *from, mk_type type, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m512 v;
        if (type == MK_F32) {
            v = _mm512_maskz_loadu_ps(mask, (const float *)from + i);
        } else {
            __m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)from + i);
            v = type == MK_BF16 ? mk_wide_bf16(h) : _mm512_cvtph_ps(h);
        }
        _mm512_mask_storeu_ps(to + i, mask, v);
    }
}

/* Scales and biases of groups g .. g + n - 1 of `rows` rows. */
static void fill_stage(const mk_qrows *w, int rows, int64_t g, int64_t n, stage *st) {
    int64_t bytes = mk_type_bytes(w->type);
    for (int r = 0; r < rows; r++) {
        ptrdiff_t at = (ptrdiff_t)((r * w->scales_stride + g) * bytes);
        widen_scales((const char *)w->scales + at, w->type, n, st->scales[r]);
        widen_scales((const char *)w->biases + at, w->type, n, st->biases[r]);
    }
}

MK_INLINE __m512 table_of(float scale, float bias) {
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_fmadd_ps(_mm512_set1_ps(scale), codes, _mm512_set1_ps(bias));
}

/* 32 codes of four words as two registers of values. */
MK_INLINE void look_up(const uint32_t *words, __m512 table, __m512 *lo, __m512 *hi) {
    const __m512i shift_lo = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m512i shift_hi =
        _mm512_setr_epi32(16, 16, 16, 16, 20, 20, 20, 20, 24, 24, 24, 24, 28, 28, 28, 28);
    __m512i spread = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)words));
    *lo = _mm512_permutexvar_ps(_mm512_srlv_epi32(spread, shift_lo), table);
    *hi = _mm512_permutexvar_ps(_mm512_srlv_epi32(spread, shift_hi), table);
}

/* y[rows] of rows that start at w. `ahead`: words from a row to the one to fetch meanwhile. */
MK_INLINE void q4_rows(const mk_qrows *w, int rows, int64_t ahead, const float *x, float *y) {
    int64_t groups = w->k / w->group, blocks = w->group / 32;
    __m512 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm512_setzero_ps();
    const uint32_t *words = w->codes;
    for (int64_t g = 0; g < groups; g += STAGE) {
        stage st;
        int64_t count = groups - g < STAGE ? groups - g : STAGE;
        fill_stage(w, rows, g, count, &st);
        for (int64_t i = 0; i < count; i++) {
            __m512 table[ROWS];
            for (int r = 0; r < rows; r++) {
                table[r] = table_of(st.scales[r][i], st.biases[r][i]);
                _mm_prefetch((const char *)(words + r * w->codes_stride + ahead), _MM_HINT_T1);
            }
            for (int64_t b = 0; b < blocks; b++, words += 4, x += 32) {
                __m512 x_lo = _mm512_loadu_ps(x), x_hi = _mm512_loadu_ps(x + 16);
                for (int r = 0; r < rows; r++) {
                    __m512 lo, hi;
                    look_up(words + r * w->codes_stride, table[r], &lo, &hi);
                    sum[r] = _mm512_fmadd_ps(x_lo, lo, sum[r]);
                    sum[r] = _mm512_fmadd_ps(x_hi, hi, sum[r]);
                }
            }
        }
    }
    _mm_mask_storeu_ps(y, (__mmask8)((1u << rows) - 1u), mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

static void matvec_q4(const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        /* The rows after these, where there are any: a prefetch elsewhere would be harmless, but
         * an address outside the array is not ours to form. */
        int64_t ahead = r + 2 * ROWS <= n ? ROWS * w->codes_stride : 0;
        q4_rows(&rows, ROWS, ahead, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        q4_rows(&row, 1, 0, x, y + r);
    }
}

static void unpack_q4(const mk_qrows *w, int64_t n, float *y) {
    int64_t groups = w->k / w->group, blocks = w->group / 32;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint32_t *words = row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m512 table =
                table_of(mk_load(row.scales, w->type, g), mk_load(row.biases, w->type, g));
            for (int64_t b = 0; b < blocks; b++, words += 4, y += 32) {
                __m512 lo, hi;
                look_up(words, table, &lo, &hi);
                _mm512_storeu_ps(y, lo);
                _mm512_storeu_ps(y + 16, hi);
            }
        }
    }
}

/* 16 values of 8 bits. */
MK_INLINE __m512 widen_q8(const uint32_t *words, __m512 scale, __m512 bias) {
    __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)words));
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(codes), bias);
}

MK_INLINE void q8_rows(const mk_qrows *w, int rows, int64_t ahead, const float *x, float *y) {
    int64_t groups = w->k / w->group, parts = w->group / 16;
    __m512 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm512_setzero_ps();
    const uint32_t *words = w->codes;
    for (int64_t g = 0; g < groups; g += STAGE) {
        stage st;
        int64_t count = groups - g < STAGE ? groups - g : STAGE;
        fill_stage(w, rows, g, count, &st);
        for (int64_t i = 0; i < count; i++) {
            __m512 scale[ROWS], bias[ROWS];
            for (int r = 0; r < rows; r++) {
                scale[r] = _mm512_set1_ps(st.scales[r][i]);
                bias[r] = _mm512_set1_ps(st.biases[r][i]);
                _mm_prefetch((const char *)(words + r * w->codes_stride + ahead), _MM_HINT_T1);
            }
            for (int64_t p = 0; p < parts; p++, words += 4, x += 16) {
                __m512 a = _mm512_loadu_ps(x);
                for (int r = 0; r < rows; r++) {
                    __m512 b = widen_q8(words + r * w->codes_stride, scale[r], bias[r]);
                    sum[r] = _mm512_fmadd_ps(a, b, sum[r]);
                }
            }
        }
    }
    _mm_mask_storeu_ps(y, (__mmask8)((1u << rows) - 1u), mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

static void matvec_q8(const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        int64_t ahead = r + 2 * ROWS <= n ? ROWS * w->codes_stride : 0;
        q8_rows(&rows, ROWS, ahead, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        q8_rows(&row, 1, 0, x, y + r);
    }
}

static void unpack_q8(const mk_qrows *w, int64_t n, float *y) {
    int64_t groups = w->k / w->group, parts = w->group / 16;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint32_t *words = row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m512 scale = _mm512_set1_ps(mk_load(row.scales, w->type, g));
            __m512 bias = _mm512_set1_ps(mk_load(row.biases, w->type, g));
            for (int64_t p = 0; p < parts; p++, words += 4, y += 16)
                _mm512_storeu_ps(y, widen_q8(words, scale, bias));
        }
    }
}

void mk_quant_avx512(mk_kernels *kernels) {
    kernels->matvec_q4 = matvec_q4;
    kernels->unpack_q4 = unpack_q4;
    kernels->matvec_q8 = matvec_q8;
    kernels->unpack_q8 = unpack_q8;
}

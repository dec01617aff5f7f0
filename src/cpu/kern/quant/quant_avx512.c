/* AVX-512: affine rows of 4 and 8 bits, then rows of any mode.
 *
 * 4 bits: a group's 16 values scale * code + bias are a table in one register, and a permutation
 * looks 16 codes up at once. Four words (32 codes) are spread to the four quarters of a register;
 * shifts by 0 4 8 12 and 16 20 24 28 bring codes 8 i + c to lane 4 c + i, which is the order that
 * arrange_q4 (AVX2) gives x. Bits above a code need no mask: the permutation ignores them.
 *
 * 8 bits: bytes widened, in their natural order. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/quant/quant.h"

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

/* ---- any mode: 16 codes at a time, in their natural order ---- */

/* How 16 codes become 16 lanes: their 2 * bits bytes are spread so that lane i holds the two bytes
 * that code i begins in, and shifted down. */
typedef struct decoder {
    __m512i bytes, shifts, mask;
    __mmask16 load;
} decoder;

MK_INLINE decoder decoder_of(int bits) {
    uint8_t bytes[64];
    uint32_t shifts[16];
    for (int i = 0; i < 16; i++) {
        int bit = i * bits, after = bit / 8 + 1;
        bytes[4 * i] = (uint8_t)(bit / 8);
        bytes[4 * i + 1] = (uint8_t)(after < 2 * bits ? after : 0x80);
        bytes[4 * i + 2] = bytes[4 * i + 3] = 0x80; /* gives 0 */
        shifts[i] = (uint32_t)(bit % 8);
    }
    return (decoder){
        .bytes = _mm512_loadu_si512(bytes),
        .shifts = _mm512_loadu_si512(shifts),
        .mask = _mm512_set1_epi32((1 << bits) - 1),
        .load = mk_first(2 * bits),
    };
}

MK_INLINE __m512i read_codes(const decoder *d, const uint8_t *codes) {
    __m512i spread = _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(d->load, codes));
    spread = _mm512_srlv_epi32(_mm512_shuffle_epi8(spread, d->bytes), d->shifts);
    return _mm512_and_si512(spread, d->mask);
}

/* 16 bytes of E4M3 by way of f16, whose exponent's bias is 8 more; 0x7f is NaN. */
MK_INLINE __m512 from_e4m3(const uint8_t *codes) {
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)codes));
    __m256i rest = _mm256_and_si256(b, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(b, rest), 8);
    __mmask16 nan = _mm256_cmpeq_epi16_mask(rest, _mm256_set1_epi16(0x7f));
    __m256i half = _mm256_or_si256(_mm256_slli_epi16(rest, 7), sign);
    half = _mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
}

/* 16 weights of a group. */
MK_INLINE __m512 weights_of(const decoder *d, mk_mode mode, const uint8_t *codes, __m512 scale,
                            __m512 bias) {
    const __m512 e2m1 = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                       -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    if (mode == MK_MXFP8) return _mm512_mul_ps(scale, from_e4m3(codes));
    __m512i numbers = read_codes(d, codes);
    if (mode == MK_AFFINE) return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(numbers), bias);
    return _mm512_mul_ps(scale, _mm512_permutexvar_ps(numbers, e2m1));
}

MK_INLINE void any_rows(const mk_qrows *w, mk_mode mode, int rows, const float *x, float *y) {
    decoder d = decoder_of(w->bits);
    int64_t groups = w->k / w->group, parts = w->group / 16, step = 2 * w->bits;
    int64_t row_bytes = w->codes_stride * 4;
    __m512 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm512_setzero_ps();
    const uint8_t *codes = (const uint8_t *)w->codes;
    for (int64_t g = 0; g < groups; g++) {
        __m512 scale[ROWS], bias[ROWS];
        for (int r = 0; r < rows; r++) {
            int64_t at = r * w->scales_stride + g;
            scale[r] = _mm512_set1_ps(mk_scale_of(w, mode, at));
            bias[r] = _mm512_set1_ps(mode == MK_AFFINE ? mk_load(w->biases, w->type, at) : 0);
        }
        for (int64_t p = 0; p < parts; p++, codes += step, x += 16) {
            __m512 a = _mm512_loadu_ps(x);
            for (int r = 0; r < rows; r++) {
                __m512 b = weights_of(&d, mode, codes + r * row_bytes, scale[r], bias[r]);
                sum[r] = _mm512_fmadd_ps(a, b, sum[r]);
            }
        }
    }
    _mm_mask_storeu_ps(y, (__mmask8)((1u << rows) - 1u), mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

MK_INLINE void matvec_mode(const mk_qrows *w, mk_mode mode, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        any_rows(&rows, mode, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        any_rows(&row, mode, 1, x, y + r);
    }
}

MK_INLINE void unpack_mode(const mk_qrows *w, mk_mode mode, int64_t n, float *y) {
    decoder d = decoder_of(w->bits);
    int64_t groups = w->k / w->group, parts = w->group / 16, step = 2 * w->bits;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint8_t *codes = (const uint8_t *)row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m512 scale = _mm512_set1_ps(mk_scale_of(&row, mode, g));
            __m512 bias = _mm512_set1_ps(mode == MK_AFFINE ? mk_load(row.biases, w->type, g) : 0);
            for (int64_t p = 0; p < parts; p++, codes += step, y += 16)
                _mm512_storeu_ps(y, weights_of(&d, mode, codes, scale, bias));
        }
    }
}

static void matvec(const mk_qrows *w, int64_t n, const float *x, float *y) {
    switch (w->mode) {
    case MK_AFFINE:
        matvec_mode(w, MK_AFFINE, n, x, y);
        break;
    case MK_MXFP4:
        matvec_mode(w, MK_MXFP4, n, x, y);
        break;
    case MK_MXFP8:
        matvec_mode(w, MK_MXFP8, n, x, y);
        break;
    case MK_NVFP4:
        matvec_mode(w, MK_NVFP4, n, x, y);
        break;
    }
}

static void unpack(const mk_qrows *w, int64_t n, float *y) {
    switch (w->mode) {
    case MK_AFFINE:
        unpack_mode(w, MK_AFFINE, n, y);
        break;
    case MK_MXFP4:
        unpack_mode(w, MK_MXFP4, n, y);
        break;
    case MK_MXFP8:
        unpack_mode(w, MK_MXFP8, n, y);
        break;
    case MK_NVFP4:
        unpack_mode(w, MK_NVFP4, n, y);
        break;
    }
}

void mk_quant_avx512(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->matvec_q4 = matvec_q4;
    kernels->unpack_q4 = unpack_q4;
    kernels->matvec_q8 = matvec_q8;
    kernels->unpack_q8 = unpack_q8;
}

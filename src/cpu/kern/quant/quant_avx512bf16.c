/* AVX-512 BF16 and VBMI: mxfp8 rows as bf16.
 *
 * A table of 128 entries (two registers of lower bytes, two of higher ones) converts 64 codes to
 * bf16 at once. The scale is added to the exponents of all but the zeros. Sums have the order of
 * matmul_bf16. No other instruction set has this kernel, so no text is shared with quant_tmpl.h. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/pages.h"
#include "cpu/kern/quant/quant.h"

#define ROWS 4 /* of activations at once */
#define COLS 4
#define GROUP 32 /* codes a scale; half of those converted at once */
#define STAGE 32 /* groups whose scales are read ahead */
#define PART (MK_PART / GROUP)
#define PREFETCH_DISTANCE 8192 /* bytes past the next rows */

_Static_assert(PART % STAGE == 0, "a part ends where a stage does");

/* bf16 of the codes 0 .. 127: E4M3's exponent has a bias that is 120 less. */
typedef struct table {
    __m512i low[2], high[2];
} table;

MK_INLINE table table_of(void) {
    const __m512i below = _mm512_castsi128_si512(/* the subnormals: multiples of 2^-9 */
                                                 _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00,
                                                                0x3c20, 0x3c40, 0x3c60));
    table t;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m256i low[2], high[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            uint8_t first[32];
            for (int c = 0; c < 32; c++)
                first[c] = (uint8_t)(64 * i + 32 * h + c);
            __m512i c = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)first));
            __m512i wide = _mm512_add_epi16(_mm512_slli_epi16(c, 4), _mm512_set1_epi16(0x3c00));
            if (i + h == 0) wide = _mm512_mask_mov_epi16(wide, 0xffu, below);
            low[h] = _mm512_cvtepi16_epi8(wide);
            high[h] = _mm512_cvtepi16_epi8(_mm512_srli_epi16(wide, 8));
        }
        t.low[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low[0]), low[1], 1);
        t.high[i] = _mm512_inserti64x4(_mm512_castsi256_si512(high[0]), high[1], 1);
    }
    return t;
}

/* Scales of n groups as what is added to exponents, in both halves of 32 bits. Returns whether a
 * scale is NaN. */
MK_INLINE bool read_scales(const uint8_t *scales, int64_t n, uint32_t *to) {
    __mmask16 nan = 0;
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m128i byte = _mm_maskz_loadu_epi8(mask, scales + i);
        nan |= _mm_cmpeq_epi8_mask(byte, _mm_set1_epi8(-1));
        byte = _mm_max_epu8(byte, _mm_set1_epi8(127 - MK_MXFP8_RANGE));
        byte = _mm_min_epu8(byte, _mm_set1_epi8((char)(127 + MK_MXFP8_RANGE)));
        __m512i e = _mm512_cvtepu8_epi32(byte);
        e = _mm512_or_si512(_mm512_slli_epi32(e, 7), _mm512_slli_epi32(e, 23));
        e = _mm512_sub_epi16(e, _mm512_set1_epi16(127 << 7));
        _mm512_mask_storeu_epi32(to + i, mask, e);
    }
    return nan != 0;
}

/* 64 codes, or 32 where not `two`, as bf16 in their order. `max` rises to the largest code with its
 * sign bit set: 255 is NaN. */
MK_INLINE void read_codes(const table *t, const uint8_t *codes, bool two, const uint32_t *scales,
                          __m512i *max, __m512i to[2]) {
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), sign = _mm512_set1_epi8(-128);
    __m512i v = two ? _mm512_loadu_si512(codes)
                    : _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)codes));
    __mmask64 some = _mm512_test_epi8_mask(v, _mm512_set1_epi8(127));
    *max = _mm512_max_epu8(*max, _mm512_or_si512(v, sign));
    v = _mm512_permutexvar_epi64(order, v);
    __m512i low = _mm512_permutex2var_epi8(t->low[0], v, t->low[1]);
    __m512i high = _mm512_permutex2var_epi8(t->high[0], v, t->high[1]);
    high = _mm512_ternarylogic_epi32(high, v, sign, 0xf8); /* high | (v & sign) */
    to[0] = _mm512_maskz_add_epi16((__mmask32)some, _mm512_unpacklo_epi8(low, high),
                                   _mm512_set1_epi32((int)scales[0]));
    if (!two) return;
    to[1] = _mm512_maskz_add_epi16((__mmask32)(some >> 32), _mm512_unpackhi_epi8(low, high),
                                   _mm512_set1_epi32((int)scales[1]));
}

MK_INLINE bool has_nan(__m512i max) {
    return _mm512_cmpeq_epi8_mask(max, _mm512_set1_epi8(-1)) != 0;
}

/* The sums of a tile: x [ROWS, k] w [COLS, k]^T. */
typedef struct sums {
    __m512 sum[ROWS][COLS];
    __m512i max[COLS]; /* of codes (read_codes) */
} sums;

/* Adds two groups, or one. stage: their scales; rows of weights are STAGE apart. */
MK_INLINE void add_groups(sums *s, const table *t, int rows, int cols, bool two,
                          const uint8_t *codes, int64_t row_bytes, const uint32_t *stage,
                          const uint16_t *x, int64_t x_stride) {
#pragma GCC unroll 4
    for (int j = 0; j < cols; j++) {
        __m512i b[2];
        read_codes(t, codes + j * row_bytes, two, stage + j * STAGE, &s->max[j], b);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int h = 0; h < 1 + (int)two; h++) {
                __m512i a = _mm512_loadu_si512(x + i * x_stride + h * GROUP);
                s->sum[i][j] = _mm512_dpbf16_ps(s->sum[i][j], (__m512bh)a, (__m512bh)b[h]);
            }
    }
}

MK_INLINE void clear(sums *s) {
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            s->sum[i][j] = _mm512_setzero_ps();
}

/* y [rows, cols] = x [rows, k] times `cols` rows of w. What follows these rows is prefetched, in
 * the order in memory. It may be past the last row: most often more follow, and a prefetch cannot
 * fail. */
MK_INLINE void mx_tile(const mk_qrows *w, const table *t, int rows, int cols, const uint16_t *x,
                       int64_t x_stride, float *y, int64_t y_stride) {
    const int64_t groups = w->k / GROUP, row_bytes = w->codes_stride * 4;
    const uint8_t *codes = (const uint8_t *)w->codes, *scales = w->scales;
    const intptr_t next = (intptr_t)codes + cols * row_bytes + mk_ahead(PREFETCH_DISTANCE);
    mk_find_next_pages(next, cols * row_bytes);
    bool nan[COLS] = {false};
    sums s;
    clear(&s);
#pragma GCC unroll 4
    for (int j = 0; j < COLS; j++)
        s.max[j] = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; g += STAGE) {
        if (g > 0 && g % PART == 0) {
            mk_add_dots(rows, cols, g == PART, s.sum, y, y_stride);
            clear(&s);
        }
        uint32_t stage[COLS * STAGE];
        int64_t count = groups - g < STAGE ? groups - g : STAGE, p = 0;
        for (int j = 0; j < cols; j++) {
            const uint8_t *from = scales + j * w->scales_stride + g;
            if (read_scales(from, count, stage + j * STAGE)) nan[j] = true;
            mk_prefetch((intptr_t)from + cols * w->scales_stride);
        }
        for (; p + 2 <= count; p += 2, codes += 2 * GROUP, x += 2 * GROUP) {
            for (int j = 0; j < cols; j++)
                mk_prefetch_line(next + ((g + p) * cols + 2 * j) * GROUP);
            add_groups(&s, t, rows, cols, true, codes, row_bytes, stage + p, x, x_stride);
        }
        if (p < count)
            add_groups(&s, t, rows, cols, false, codes, row_bytes, stage + p, x, x_stride);
    }
    mk_add_dots(rows, cols, groups <= PART, s.sum, y, y_stride);
#pragma GCC unroll 4
    for (int j = 0; j < cols; j++)
        for (int i = 0; (nan[j] || has_nan(s.max[j])) && i < rows; i++)
            y[i * y_stride + j] = NAN;
}

MK_INLINE void mx_rows(const mk_qrows *w, int64_t n, int rows, const uint16_t *x, int64_t x_stride,
                       float *y, int64_t y_stride) {
    const table t = table_of();
    int64_t j = 0;
    for (; j + COLS <= n; j += COLS) {
        mk_qrows from = mk_qrows_at(w, j);
        mx_tile(&from, &t, rows, COLS, x, x_stride, y + j, y_stride);
    }
    for (; j < n; j++) {
        mk_qrows from = mk_qrows_at(w, j);
        mx_tile(&from, &t, rows, 1, x, x_stride, y + j, y_stride);
    }
}

static void matmul_mxfp8(const mk_qrows *w, int64_t n, int64_t m, const uint16_t *x,
                         int64_t x_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i += ROWS, x += ROWS * x_stride, y += ROWS * y_stride) {
        MK_WITH_ROWS(m - i < ROWS ? m - i : ROWS, ROWS,
                     mx_rows(w, n, MK_R, x, x_stride, y, y_stride));
    }
}

void mk_unpack_mxfp8_avx512bf16(const mk_qrows *w, int64_t n, uint16_t *y) {
    const table t = table_of();
    int64_t groups = w->k / GROUP;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint8_t *codes = (const uint8_t *)row.codes, *scales = row.scales;
        uint16_t *to = y + r * w->k;
        __m512i max = _mm512_setzero_si512();
        bool nan = false;
        for (int64_t g = 0; g < groups; g += 2, codes += 2 * GROUP, to += 2 * GROUP) {
            uint32_t stage[2];
            bool two = g + 1 < groups;
            __m512i b[2];
            if (read_scales(scales + g, two ? 2 : 1, stage)) nan = true;
            read_codes(&t, codes, two, stage, &max, b);
            _mm512_storeu_si512(to, b[0]);
            if (two) _mm512_storeu_si512(to + GROUP, b[1]);
        }
        for (int64_t l = 0; (nan || has_nan(max)) && l < w->k; l++)
            y[r * w->k + l] = MK_BF16_NAN;
    }
}

void mk_quant_avx512bf16(mk_kernels *kernels) {
    kernels->matmul_mxfp8 = matmul_mxfp8;
    kernels->unpack_mxfp8 = mk_unpack_mxfp8_avx512bf16;
}

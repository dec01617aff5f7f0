/* AVX-512 with VNNI: sums of four products of bytes, in 32 bits, for each lane. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/integer/integer_words.h"

#define ROWS 4
#define COLS 4
#define STEP 64

MK_INLINE __m128i sum_quarters(__m512i v) {
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* The sums of the lanes of four registers. */
MK_INLINE __m128i sum_four(const __m512i v[COLS]) {
    __m512i ab =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i cd =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return sum_quarters(
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd)));
}

MK_INLINE void add_step(int rows, int cols, __mmask64 some, const uint8_t *x, int64_t x_stride,
                        const int8_t *w, int64_t w_stride, __m512i sum[ROWS][COLS]) {
    __m512i xs[ROWS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        xs[i] = _mm512_maskz_loadu_epi8(some, x + i * x_stride);
#pragma GCC unroll 4
    for (int j = 0; j < cols; j++) {
        __m512i v = _mm512_maskz_loadu_epi8(some, w + j * w_stride);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], xs[i], v);
    }
}

MK_INLINE void block(int rows, int cols, int64_t k, const uint8_t *x, int64_t x_stride,
                     const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    __m512i sum[ROWS][COLS];
    int64_t l = 0;
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm512_setzero_si512();
    for (; l + STEP <= k; l += STEP)
        add_step(rows, cols, ~(__mmask64)0, x + l, x_stride, w + l, w_stride, sum);
    if (l < k)
        add_step(rows, cols, ((__mmask64)1 << (k - l)) - 1, x + l, x_stride, w + l, w_stride, sum);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        _mm_mask_storeu_epi32(y + i * y_stride, (__mmask8)((1 << cols) - 1), sum_four(sum[i]));
}

static void columns(int cols, int64_t m, int64_t k, const uint8_t *x, int64_t x_stride,
                    const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    for (int64_t i = 0, rows; i < m; i += rows) {
        rows = m - i < ROWS ? m - i : ROWS;
        const uint8_t *from = x + i * x_stride;
        int32_t *to = y + i * y_stride;
        if (cols == COLS)
            MK_WITH_ROWS(rows, ROWS,
                         block(MK_R, COLS, k, from, x_stride, w, w_stride, to, y_stride));
        else
            MK_WITH_ROWS(rows, ROWS,
                         block(MK_R, cols, k, from, x_stride, w, w_stride, to, y_stride));
    }
}

static void matmul_vnni(int64_t m, int64_t n, int64_t k, const uint8_t *x, int64_t x_stride,
                        const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += COLS) {
        int cols = n - j < COLS ? (int)(n - j) : COLS;
        columns(cols, m, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
    }
}

/* ---- panels: words of four bytes ---- */

#define WORDS __m512i
#define WORDS_WIDTH 16
#define TILE_ROWS 6 /* 6 x 4 sums, 4 registers of panels and one of x fit 32 registers */
#define PANELS 4
#define words_zero _mm512_setzero_si512
#define words_load _mm512_loadu_si512
#define words_store _mm512_storeu_si512
#define words_dot _mm512_dpbusd_epi32

MK_INLINE __m512i words_spread(const char *x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_set1_epi32(word);
}

#include "cpu/kern/integer/integer_panels_tmpl.h"

static void int_form(int64_t n, const uint8_t *x, int32_t *words) {
    int_form_of(4, n, x, words);
}

/* Bytes [l, c) of a tap of up to MK_PANEL columns, at most 64 of each, `stride` bytes apart. */
MK_INLINE void pack_square(int64_t columns, int64_t c, int64_t l, int64_t stride, const int8_t *w,
                           int32_t *panel) {
    const __mmask64 some = c - l < 64 ? ((__mmask64)1 << (c - l)) - 1 : ~(__mmask64)0;
    const int64_t words = c - l < 64 ? (c - l + 3) / 4 : 16;
    __m512i r[MK_PANEL];
    for (int i = 0; i < MK_PANEL; i++)
        r[i] = i < columns ? _mm512_maskz_loadu_epi8(some, w + i * stride + l)
                           : _mm512_setzero_si512();
    mk_transpose(r);
    for (int i = 0; i < MK_PANEL; i++)
        if (i < words) words_store(panel + i * MK_PANEL, r[i]);
}

static void int_pack(int64_t n, int64_t taps, int64_t c, const int8_t *w, int32_t *panels) {
    for (int64_t j = 0; j < n; j += MK_PANEL)
        for (int64_t t = 0; t < taps; t++, panels += (c + 3) / 4 * MK_PANEL)
            for (int64_t l = 0; l < c; l += 64)
                pack_square(n - j, c, l, taps * c, w + (j * taps + t) * c,
                            panels + l / 4 * MK_PANEL);
}

void mk_int_panels_vnni256(int64_t m, int64_t n, int64_t taps, int64_t words,
                           const void *const *rows, const int32_t *panels, const int32_t *start,
                           int32_t *y, int64_t y_stride) {
    int_panels(m, n, taps, words, rows, panels, start, y, y_stride);
}

void mk_integer_vnni256(mk_kernels *kernels) {
    kernels->int_matmul = matmul_vnni;
    kernels->int_form = int_form;
    kernels->int_pack = int_pack;
    kernels->int_panels = int_panels;
    kernels->int_unit = 4;
}

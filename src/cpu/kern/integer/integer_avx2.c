/* AVX2: bytes are widened to 16 bits, whose products are added in pairs to 32 bits. vpmaddubsw adds
 * pairs of products of bytes in 16 bits, and saturates: it is not exact. */
#include <string.h>

#include "cpu/kern/avx2.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/integer/integer_words.h"

#define ROWS 3 /* 3 x 3 sums, 3 rows of x, a row of w and a product fit 16 registers */
#define COLS 3
#define STEP 16

MK_INLINE __m256i wide_x(const uint8_t *x) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)x));
}

MK_INLINE __m256i wide_w(const int8_t *w) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w));
}

MK_INLINE int32_t sum_lanes(__m256i v) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(half);
}

/* A step of sums: rows of x and of w from there on. */
MK_INLINE void add_step(int rows, int cols, const __m256i *xs, const int8_t *w, int64_t w_stride,
                        __m256i sum[ROWS][COLS]) {
#pragma GCC unroll 3
    for (int j = 0; j < cols; j++) {
        __m256i v = wide_w(w + j * w_stride);
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++)
            sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(xs[i], v));
    }
}

/* The elements from k on are zeros. */
MK_INLINE void add_tail(int rows, int cols, int64_t k, const uint8_t *x, int64_t x_stride,
                        const int8_t *w, int64_t w_stride, __m256i sum[ROWS][COLS]) {
    uint8_t x_tail[ROWS][STEP] = {{0}};
    int8_t w_tail[COLS][STEP] = {{0}};
    __m256i xs[ROWS];
    for (int i = 0; i < rows; i++) {
        memcpy(x_tail[i], x + i * x_stride, (size_t)k);
        xs[i] = wide_x(x_tail[i]);
    }
    for (int j = 0; j < cols; j++)
        memcpy(w_tail[j], w + j * w_stride, (size_t)k);
    add_step(rows, cols, xs, w_tail[0], STEP, sum);
}

MK_INLINE void block(int rows, int cols, int64_t k, const uint8_t *x, int64_t x_stride,
                     const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    __m256i sum[ROWS][COLS], xs[ROWS];
    int64_t l = 0;
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < cols; j++)
            sum[i][j] = _mm256_setzero_si256();
    for (; l + STEP <= k; l += STEP) {
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++)
            xs[i] = wide_x(x + i * x_stride + l);
        add_step(rows, cols, xs, w + l, w_stride, sum);
    }
    if (l < k) add_tail(rows, cols, k - l, x + l, x_stride, w + l, w_stride, sum);
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < cols; j++)
            y[i * y_stride + j] = sum_lanes(sum[i][j]);
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
        else if (cols == 2)
            MK_WITH_ROWS(rows, ROWS, block(MK_R, 2, k, from, x_stride, w, w_stride, to, y_stride));
        else
            MK_WITH_ROWS(rows, ROWS, block(MK_R, 1, k, from, x_stride, w, w_stride, to, y_stride));
    }
}

static void matmul_avx2(int64_t m, int64_t n, int64_t k, const uint8_t *x, int64_t x_stride,
                        const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += COLS) {
        int cols = n - j < COLS ? (int)(n - j) : COLS;
        columns(cols, m, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
    }
}

/* ---- panels: words of two numbers of 16 bits ---- */

#define WORDS __m256i
#define WORDS_WIDTH 8
#define TILE_ROWS \
    6 /* 6 x 2 sums, 2 registers of a panel, one of x and a product fit 16 registers */
#define PANELS 1

MK_INLINE __m256i words_zero(void) {
    return _mm256_setzero_si256();
}

MK_INLINE __m256i words_load(const int32_t *w) {
    return _mm256_loadu_si256((const __m256i *)(const void *)w);
}

MK_INLINE __m256i words_spread(const char *x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
}

MK_INLINE void words_store(int32_t *y, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)y, v);
}

MK_INLINE __m256i words_dot(__m256i sum, __m256i a, __m256i b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

#include "cpu/kern/integer/integer_panels_tmpl.h"

static void int_form(int64_t n, const uint8_t *x, int32_t *words) {
    int16_t *to = (int16_t *)(void *)words;
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        _mm256_storeu_si256((__m256i *)(void *)(to + i), wide_x(x + i));
    int_form_of(2, n - i, x + i, words + i / 2);
}

/* 8 words of 8 columns: pairs of bytes change places, then are widened. */
MK_INLINE void pack_square(int64_t stride, const int8_t *w, int32_t *panel) {
    __m128i a[8], b[8], c[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(const void *)(w + i * stride));
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
        b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            c[4 * h + 2 * i] = _mm_unpacklo_epi32(b[4 * i + h], b[4 * i + 2 + h]);
            c[4 * h + 2 * i + 1] = _mm_unpackhi_epi32(b[4 * i + h], b[4 * i + 2 + h]);
        }
    for (int i = 0; i < 8; i++) {
        __m128i x = c[i / 4 * 4 + i / 2 % 2], y = c[i / 4 * 4 + i / 2 % 2 + 2];
        __m128i row = i % 2 ? _mm_unpackhi_epi64(x, y) : _mm_unpacklo_epi64(x, y);
        words_store(panel + i * MK_PANEL, _mm256_cvtepi8_epi16(row));
    }
}

/* A whole panel of one tap; columns are `stride` bytes apart. */
static void pack_tap(int64_t c, int64_t stride, const int8_t *w, int32_t *panel) {
    int64_t l = 0;
    for (; l + 16 <= c; l += 16, panel += 8 * MK_PANEL) {
        pack_square(stride, w + l, panel);
        pack_square(stride, w + 8 * stride + l, panel + 8);
    }
    for (; l < c; l += 2, panel += MK_PANEL)
        for (int64_t column = 0; column < MK_PANEL; column++) {
            const int8_t *from = w + column * stride + l;
            panel[column] = int_put(2, 0, from[0]) | (l + 1 < c ? int_put(2, 1, from[1]) : 0);
        }
}

static void int_pack(int64_t n, int64_t taps, int64_t c, const int8_t *w, int32_t *panels) {
    const int64_t step = (c + 1) / 2 * MK_PANEL;
    int64_t j = 0;
    for (; j + MK_PANEL <= n; j += MK_PANEL)
        for (int64_t t = 0; t < taps; t++, panels += step)
            pack_tap(c, taps * c, w + (j * taps + t) * c, panels);
    if (j < n) int_pack_of(2, n - j, taps, c, w + j * taps * c, panels);
}

/* ---- a filter for each channel: pairs of taps ---- */

#define TAP_PLACES 4

/* Channels from `at` on, of which y has the first one. */
MK_INLINE void taps_tile(int places, const mk_taps *f, const uint8_t *const *rows, int64_t at,
                         int32_t *y, int64_t y_stride) {
    const int64_t n = f->n, taps = f->lines * f->width;
    const int8_t *w = f->w;
    __m256i sum[TAP_PLACES][2], first = words_zero(), second = first;
    if (f->start) {
        __m256i a = words_load(f->start + at), b = words_load(f->start + at + 8);
        first = _mm256_permute2x128_si256(a, b, 0x20);
        second = _mm256_permute2x128_si256(a, b, 0x31);
    }
    for (int r = 0; r < places; r++)
        sum[r][0] = first, sum[r][1] = second;
    for (int64_t t = 0; t < taps; t += 2) {
        const bool two = t + 1 < taps;
        __m256i a = wide_w(w + t * n + at), b = two ? wide_w(w + (t + 1) * n + at) : words_zero();
        __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
        for (int r = 0; r < places; r++) {
            a = wide_x(rows[r * taps + t] + at);
            b = two ? wide_x(rows[r * taps + t + 1] + at) : a;
            sum[r][0] = words_dot(sum[r][0], _mm256_unpacklo_epi16(a, b), low);
            sum[r][1] = words_dot(sum[r][1], _mm256_unpackhi_epi16(a, b), high);
        }
    }
    for (int r = 0; r < places; r++) {
        int32_t *to = y + r * y_stride;
        words_store(to, _mm256_permute2x128_si256(sum[r][0], sum[r][1], 0x20));
        words_store(to + 8, _mm256_permute2x128_si256(sum[r][0], sum[r][1], 0x31));
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
                     int64_t end, int32_t *y, int64_t y_stride);

void mk_int_taps_avx2(int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin,
                      int64_t end, int32_t *y, int64_t y_stride) {
    if (end - begin < STEP) {
        int_taps(m, rows, filters, begin, end, y, y_stride);
        return;
    }
    const int64_t taps = filters->lines * filters->width;
    for (int64_t i = 0; i < m; i += TAP_PLACES)
        MK_WITH_ROWS(
            m - i < TAP_PLACES ? m - i : TAP_PLACES, TAP_PLACES,
            taps_rows(MK_R, filters, rows + i * taps, begin, end, y + i * y_stride, y_stride));
}

static void set_int_products(mk_kernels *kernels) {
    kernels->int_matmul = matmul_avx2;
    kernels->int_form = int_form;
    kernels->int_pack = int_pack;
    kernels->int_panels = int_panels;
    kernels->int_unit = 2;
}

#define INT_TAPS mk_int_taps_avx2
#define FILL mk_integer_avx2
#include "cpu/kern/integer/integer_tmpl.h"

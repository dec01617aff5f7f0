/* AVX-512 BF16. One instruction multiplies 32 numbers: two of a row of q (or of weights), broadcast,
 * by two of each of 16 keys (or columns). Keys are turned into that order a tile at a time, values as
 * they are read; blocks of rows and tiles only share loads. */
#include "cpu/kern/attn_avx512.h"

#define ROWS 6 /* of q or weights at once: 6 x 4 sums and 4 operands fit 32 registers */
#define PAIRS 64

/* Keys of a tile, two elements of a key in 32 bits. */
typedef struct tile {
    uint32_t pairs[PAIRS][KEYS];
} tile;

MK_INLINE __m512bh as_pairs(__m512i a) {
    return (__m512bh)a;
}

/* What the pair of row r that begins at element l is to every lane. */
MK_INLINE __m512bh pair_of(const uint16_t *row) {
    int32_t pair;
    memcpy(&pair, row, sizeof pair);
    return as_pairs(_mm512_set1_epi32(pair));
}

/* y [rows, n] (+)= q [rows, 2 * pairs] times the tile. */
MK_INLINE void score_tile(int rows, int64_t n, int64_t pairs, const uint16_t *q, int64_t q_stride,
                          const tile *t, bool more, float *y, int64_t y_stride) {
    __m512 sum[ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(n, mask);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++)
            sum[i][j] = more ? _mm512_maskz_loadu_ps(mask[j], y + i * y_stride + 16 * j)
                             : _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++) {
        __m512bh b[COLS];
        for (int j = 0; j < COLS; j++)
            b[j] = as_pairs(_mm512_load_si512(&t->pairs[p][16 * j]));
        for (int i = 0; i < rows; i++) {
            __m512bh a = pair_of(q + i * q_stride + 2 * p);
            for (int j = 0; j < COLS; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[j]);
        }
    }
    store_sums(rows, mask, sum, y, y_stride);
}

static void score_rows(int64_t rows, int64_t n, int64_t pairs, const uint16_t *q, int64_t q_stride,
                       const tile *t, bool more, float *y, int64_t y_stride) {
    MK_WITH_ROWS(rows, ROWS, score_tile(MK_R, n, pairs, q, q_stride, t, more, y, y_stride));
}

static void attn_scores(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                        const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    _Alignas(64) tile t;
    int64_t step = mk_block_rows(m, ROWS);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t l = 0; l < d; l += 2 * PAIRS) {
            int64_t keys = least(KEYS, n - j), pairs = least(PAIRS, (d - l) / 2);
            turn_keys(keys, pairs, (const char *)(k + j * k_stride + l), 2 * k_stride, 4 * pairs,
                      _mm512_setzero_si512(), t.pairs);
            for (int64_t i = 0; i < m; i += step)
                score_rows(least(step, m - i), keys, pairs, q + i * q_stride + l, q_stride, &t,
                           l > 0, y + i * y_stride + j, y_stride);
        }
}

/* ---- values ---- */

/* Some columns of keys that follow each other: bf16, or codes of rows of 8 bits. */
typedef struct values {
    const char *first;
    const char *scales; /* of the codes' group; not read for bf16 */
    int64_t stride;     /* bytes from key to key */
} values;

/* The first n of 32 lanes of 16 bits. */
MK_INLINE __mmask32 first_halves(int64_t n) {
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1u;
}

/* Keys j and j + 1 in bf16, `cols` of 16 * COLS columns, into pairs. */
MK_INLINE void pair_halves(const values *v, int64_t j, int64_t cols, __m512bh pairs[COLS]) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __mmask32 mask[2] = {first_halves(cols), first_halves(cols - 32)};
    const char *a = v->first + j * v->stride, *b = a + v->stride;
    for (int h = 0; h < 2; h++) {
        __m512i x = _mm512_maskz_loadu_epi16(mask[h], a + 64 * h);
        __m512i y = _mm512_maskz_loadu_epi16(mask[h], b + 64 * h);
        pairs[2 * h] = as_pairs(_mm512_permutex2var_epi16(x, low, y));
        pairs[2 * h + 1] = as_pairs(_mm512_permutex2var_epi16(x, high, y));
    }
}

/* The same of codes times their scales, rounded to bf16. */
MK_INLINE void pair_codes(const values *v, int64_t j, int64_t cols, __m512bh pairs[COLS]) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const char *a = v->first + j * v->stride, *scales = v->scales + j * v->stride;
    __m512 scale[2][2];
    load_scales(scales, cols, scale[0]);
    load_scales(scales + v->stride, cols, scale[1]);
#pragma GCC unroll 4
    for (int c = 0; c < COLS; c++) {
        __mmask16 mask = mk_first(cols < 16 * c ? 0 : cols - 16 * c);
        __m512 x = scaled(a + 16 * c, mask, scale[0][c / 2]);
        __m512 y = scaled(a + v->stride + 16 * c, mask, scale[1][c / 2]);
        pairs[c] = as_pairs(_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x)));
    }
}

/* Asks for a key's columns. */
MK_INLINE void fetch_key(bool codes, const values *v, int64_t j) {
    fetch(v->first + j * v->stride, codes ? 16 * COLS : 32 * COLS);
    if (codes) fetch(v->scales + j * v->stride, 1);
}

/* y [rows, cols] += w [rows, n] v [n, cols], cols <= 16 * COLS, n even */
MK_INLINE void value_tile(bool codes, int rows, int64_t cols, int64_t n, const uint16_t *w,
                          int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    __m512 sum[ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
    load_sums(rows, mask, y, y_stride, sum);
    for (int64_t j = 0; j < n; j += 2) {
        __m512bh b[COLS];
        if (rows < ROWS) { /* there are few rows: memory is what takes time */
            fetch_key(codes, v, j + AHEAD);
            fetch_key(codes, v, j + AHEAD + 1);
        }
        if (codes)
            pair_codes(v, j, cols, b);
        else
            pair_halves(v, j, cols, b);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512bh a = pair_of(w + i * w_stride + j);
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_dpbf16_ps(sum[i][c], a, b[c]);
        }
    }
    store_sums(rows, mask, sum, y, y_stride);
}

MK_INLINE void value_rows(bool codes, int64_t rows, int64_t cols, int64_t n, const uint16_t *w,
                          int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    MK_WITH_ROWS(rows, ROWS, value_tile(codes, MK_R, cols, n, w, w_stride, v, y, y_stride));
}

static void half_rows(int64_t rows, int64_t cols, int64_t n, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    value_rows(false, rows, cols, n, w, w_stride, v, y, y_stride);
}

static void code_rows(int64_t rows, int64_t cols, int64_t n, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    value_rows(true, rows, cols, n, w, w_stride, v, y, y_stride);
}

/* One key, in bf16, and one of zeros. */
static void value_last(int64_t rows, int64_t cols, const uint16_t *w, int64_t w_stride,
                       const char *key, float *y, int64_t y_stride) {
    uint16_t weights[2 * ROWS] = {0}, keys[2 * 16 * COLS] = {0};
    const values v = {(const char *)keys, NULL, sizeof keys / 2};
    for (int64_t i = 0; i < rows; i++)
        weights[2 * i] = w[i * w_stride];
    memcpy(keys, key, (size_t)cols * sizeof *keys);
    half_rows(rows, cols, 2, weights, 2, &v, y, y_stride);
}

/* y [m, cols] += w [m, n] v [n, cols] in bf16, n <= KEYS, cols <= 16 * COLS */
static void half_values(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                        const values *v, float *y, int64_t y_stride) {
    int64_t step = mk_block_rows(m, ROWS), even = n / 2 * 2;
    for (int64_t i = 0; i < m; i += step) {
        int64_t rows = least(step, m - i);
        half_rows(rows, cols, even, w + i * w_stride, w_stride, v, y + i * y_stride, y_stride);
        if (even < n)
            value_last(rows, cols, w + i * w_stride + even, w_stride, v->first + even * v->stride,
                       y + i * y_stride, y_stride);
    }
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            const values part = {(const char *)(v + j * v_stride + c), NULL, 2 * v_stride};
            half_values(m, least(KEYS, n - j), least(16 * COLS, dv - c), w + j, w_stride, &part,
                        y + c, y_stride);
        }
}

/* n keys of codes, from *v on, to bf16 [n, 16 * COLS]. */
static void widen_keys(int64_t n, int64_t cols, const values *v, uint16_t *to) {
    for (int64_t j = 0; j < n; j++, to += 16 * COLS) {
        __m512 scale[2];
        fetch_key(true, v, j + AHEAD);
        load_scales(v->scales + j * v->stride, cols, scale);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++) {
            __mmask16 mask = mk_first(cols < 16 * c ? 0 : cols - 16 * c);
            __m512 x = scaled(v->first + j * v->stride + 16 * c, mask, scale[c / 2]);
            _mm256_storeu_si256((void *)(to + 16 * c), (__m256i)_mm512_cvtneps_pbh(x));
        }
    }
}

/* As half_values of codes: in registers for few rows, else by a tile. */
static void code_values(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                        const values *v, float *y, int64_t y_stride) {
    uint16_t keys[KEYS * 16 * COLS];
    const values wide = {(const char *)keys, NULL, 2 * 16 * COLS};
    int64_t even = m > 2 * ROWS ? 0 : n / 2 * 2;
    if (even > 0) {
        int64_t step = mk_block_rows(m, ROWS);
        for (int64_t i = 0; i < m; i += step)
            code_rows(least(step, m - i), cols, even, w + i * w_stride, w_stride, v,
                      y + i * y_stride, y_stride);
    }
    if (even == n) return;
    const values rest = {v->first + even * v->stride, v->scales + even * v->stride, v->stride};
    widen_keys(n - even, cols, &rest, keys);
    half_values(m, n - even, cols, w + even, w_stride, &wide, y, y_stride);
}

static void attn_values_q8_bf16(int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                                int64_t w_stride, const uint8_t *codes, const uint8_t *scales,
                                int64_t v_stride, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            const values part = {(const char *)(codes + j * v_stride + c),
                                 (const char *)(scales + j * v_stride + c / MK_Q8_GROUP * 2),
                                 v_stride};
            code_values(m, least(KEYS, n - j), least(16 * COLS, dv - c), w + j, w_stride, &part,
                        y + c, y_stride);
        }
}

static float exp_total_bf16(int64_t n, const float *x, float shift, uint16_t *w) {
    __m512 most = _mm512_set1_ps(shift), unit = _mm512_set1_ps(0x1p24f);
    int64_t total = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = least(n, i + 16 * MK_ATTN_TERMS);
        __m512i sum = _mm512_setzero_si512();
        for (; i < end; i += 16) {
            __mmask16 mask = mk_first(n - i);
            __m512 t = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), most);
            __m256i half = (__m256i)_mm512_cvtneps_pbh(mk_exp_negative(t));
            _mm256_mask_storeu_epi16(w + i, mask, half);
            __m512 rounded = _mm512_mul_ps(mk_wide_bf16(half), unit);
            sum = _mm512_add_epi32(sum, _mm512_maskz_cvtps_epi32(mask, rounded));
        }
        total += mk_sum_i32(sum);
    }
    return (float)total * 0x1p-24f;
}

void mk_attn_avx512bf16(mk_kernels *kernels) {
    kernels->attn_scores = attn_scores;
    kernels->attn_values = attn_values;
    kernels->attn_values_q8_bf16 = attn_values_q8_bf16;
    kernels->exp_total_bf16 = exp_total_bf16;
}

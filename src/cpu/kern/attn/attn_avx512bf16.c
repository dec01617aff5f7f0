/* AVX-512 BF16. One instruction multiplies two elements of a row of q (or weights) by two of each
 * of 16 keys (or columns). For many rows of q, tiles of keys are transposed. For few rows, 4 x 4
 * words of four keys are transposed at a time, and each quarter of a register has its own sum. The
 * tiles use four sums as well, so a score has the same bits in both variants. Values are packed in
 * pairs of keys as they are read. Blocks of rows and tiles only share loads. */
#include "cpu/kern/attn/attn_pairs.h"

#define ROWS 6      /* max rows of q or weights in registers: 6 x 4 sums and 4 operands fit 32 */
#define FEW 12      /* max rows for which keys and values are packed as they are read */
#define PAIRS 64    /* pairs of a key in a tile; each tile adds four sums */
#define SPREADS 4   /* spreads of q at once: 16 keys are read that far before the next ones */
#define TILE_COLS 2 /* registers of keys in a tile, for many rows */
#define NEAR 128    /* keys multiplied by all of few rows before the next ones */
#define LINE 16     /* pairs in a cache line; a quarter of them is four */
#define DEPTH 128   /* keys whose values are packed at once: 16 kB for 64 columns */

/* How far ahead keys are prefetched for few rows. */
#define PREFETCH_BYTES 8192
#define PREFETCH_KEYS 16 /* minimum */

/* A tile of transposed keys, two elements of a key in 32 bits. */
typedef struct tile {
    uint32_t pairs[PAIRS][KEYS];
} tile;

MK_INLINE __m512bh as_pairs(__m512i a) {
    return (__m512bh)a;
}

/* Broadcasts the first pair of a row. */
MK_INLINE __m512bh pair_of(const uint16_t *row) {
    int32_t pair;
    memcpy(&pair, row, sizeof pair);
    return as_pairs(_mm512_set1_epi32(pair));
}

/* ---- scores ---- */

/* y [rows, n] = q [rows, 2 * pairs] times the tile's keys from `first` on, n or 16 * cols; added to
 * y if `more`. */
MK_INLINE void score_tile(int rows, int cols, int64_t first, int64_t n, int64_t pairs,
                          const uint16_t *q, int64_t q_stride, const tile *t, bool more, float *y,
                          int64_t y_stride) {
    __m512 total[ROWS][TILE_COLS], sum[ROWS][TILE_COLS]; /* sum: of a quarter of the pairs */
    __mmask16 mask[TILE_COLS];
#pragma GCC unroll 2
    for (int j = 0; j < cols; j++)
        mask[j] = mk_first(n - 16 * j);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < cols; j++)
            total[i][j] = more ? _mm512_maskz_loadu_ps(mask[j], y + i * y_stride + 16 * j)
                               : _mm512_setzero_ps();
    for (int64_t quarter = 0; quarter < 4; quarter++) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int j = 0; j < cols; j++)
                sum[i][j] = _mm512_setzero_ps();
        for (int64_t l = 4 * quarter; l < pairs; l += LINE)
            for (int64_t p = l; p < min(pairs, l + 4); p++) {
                __m512bh b[TILE_COLS];
#pragma GCC unroll 2
                for (int j = 0; j < cols; j++)
                    b[j] = as_pairs(_mm512_load_si512(&t->pairs[p][first + 16 * j]));
#pragma GCC unroll 6
                for (int i = 0; i < rows; i++) {
                    __m512bh a = pair_of(q + i * q_stride + 2 * p);
#pragma GCC unroll 2
                    for (int j = 0; j < cols; j++)
                        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[j]);
                }
            }
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int j = 0; j < cols; j++)
                total[i][j] = _mm512_add_ps(total[i][j], sum[i][j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < cols; j++)
            _mm512_mask_storeu_ps(y + i * y_stride + 16 * j, mask[j], total[i][j]);
}

static void score_rows(int64_t rows, int64_t n, int64_t pairs, const uint16_t *q, int64_t q_stride,
                       const tile *t, bool more, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += 16 * TILE_COLS)
        if (n - j > 16)
            MK_WITH_ROWS(rows, ROWS,
                         score_tile(MK_R, TILE_COLS, j, n - j, pairs, q, q_stride, t, more, y + j,
                                    y_stride));
        else
            MK_WITH_ROWS(
                rows, ROWS,
                score_tile(MK_R, 1, j, n - j, pairs, q, q_stride, t, more, y + j, y_stride));
}

static void score_many(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                       const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    _Alignas(64) tile t;
    int64_t step = mk_block_rows(m, ROWS);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t l = 0; l < d; l += 2 * PAIRS) {
            int64_t keys = min(KEYS, n - j), pairs = min(PAIRS, (d - l) / 2);
            transpose_keys(keys, n - j, pairs, (const char *)(k + j * k_stride + l), 2 * k_stride,
                           4 * pairs, _mm512_setzero_si512(), t.pairs);
            for (int64_t i = 0; i < m; i += step)
                score_rows(min(step, m - i), keys, pairs, q + i * q_stride + l, q_stride, &t, l > 0,
                           y + i * y_stride + j, y_stride);
        }
}

/* Rows of q for few rows: four registers for each line, where register i repeats pair i of each
 * quarter. */
typedef struct spread {
    _Alignas(64) uint32_t pairs[PAIRS / LINE][ROWS][4][LINE];
} spread;

static void spread_rows(int64_t rows, int64_t pairs, const uint16_t *q, int64_t q_stride,
                        spread *to) {
    for (int64_t l = 0; l < pairs; l += LINE)
        for (int64_t i = 0; i < rows; i++) {
            __m512i line = mk_load_halves(q + i * q_stride + 2 * l, 2 * (pairs - l));
            uint32_t(*row)[LINE] = to->pairs[l / LINE][i];
            _mm512_store_si512(row[0], _mm512_shuffle_epi32(line, _MM_PERM_AAAA));
            _mm512_store_si512(row[1], _mm512_shuffle_epi32(line, _MM_PERM_BBBB));
            _mm512_store_si512(row[2], _mm512_shuffle_epi32(line, _MM_PERM_CCCC));
            _mm512_store_si512(row[3], _mm512_shuffle_epi32(line, _MM_PERM_DDDD));
        }
}

/* Transposes a line of four keys from `first` on, of n pairs, to pairs 0, 1, 2 and 3 of each
 * quarter. Keys after `last` repeat it. */
MK_INLINE void transpose_four(const uint16_t *k, int64_t k_stride, int64_t first, int64_t last,
                              int64_t n, __m512i to[4]) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        r[i] = mk_load_halves(k + min(first + i, last) * k_stride, 2 * n);
    mk_transpose_rows(r, to);
}

/* y [rows, n] = q [rows, 2 * pairs] times n <= 16 keys; added to y if `more`. Prefetches 16 keys
 * from `ahead` on, if they are before `left`. */
MK_INLINE void score_few(int rows, int64_t n, int64_t ahead, int64_t left, int64_t pairs,
                         const spread *q, const uint16_t *k, int64_t k_stride, bool more, float *y,
                         int64_t y_stride) {
    __m512 sum[ROWS][4]; /* sums of four keys each */
#pragma GCC unroll 4
    for (int four = 0; four < 4; four++) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            sum[i][four] = _mm512_setzero_ps();
        for (int64_t l = 0; l < pairs; l += LINE) {
            __m512i b[4];
            for (int64_t j = ahead + 4 * four; j < min(left, ahead + 4 * four + 4); j++)
                fetch((const char *)(k + j * k_stride + 2 * l), 1);
            transpose_four(k + 2 * l, k_stride, 4 * four, n - 1, pairs - l, b);
#pragma GCC unroll 4
            for (int w = 0; w < 4; w++)
#pragma GCC unroll 6
                for (int i = 0; i < rows; i++) {
                    __m512i a = _mm512_load_si512(q->pairs[l / LINE][i][w]);
                    sum[i][four] = _mm512_dpbf16_ps(sum[i][four], as_pairs(a), as_pairs(b[w]));
                }
        }
    }
    const __mmask16 mask = mk_first(n);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        __m512i fours[16], quarters[4]; /* every fourth is set: the input of mk_transpose_words */
#pragma GCC unroll 4
        for (int four = 0; four < 4; four++)
            fours[4 * four] = _mm512_castps_si512(sum[i][four]);
        mk_transpose_words(fours, 0, quarters);
        float *to = y + i * y_stride;
        __m512 total = more ? _mm512_maskz_loadu_ps(mask, to) : _mm512_setzero_ps();
#pragma GCC unroll 4
        for (int quarter = 0; quarter < 4; quarter++)
            total = _mm512_add_ps(total, _mm512_castsi512_ps(quarters[quarter]));
        _mm512_mask_storeu_ps(to, mask, total);
    }
}

/* As score_many, for rows <= ROWS, with `left` keys that may be prefetched. Of 16 keys, all pairs
 * that SPREADS hold are read before the next 16. */
static void score_directly(int64_t rows, int64_t n, int64_t left, int64_t d, const uint16_t *q,
                           int64_t q_stride, const uint16_t *k, int64_t k_stride, float *y,
                           int64_t y_stride) {
    spread s[SPREADS];
    const int64_t fit = PREFETCH_BYTES / (2 * d), ahead = fit < PREFETCH_KEYS ? PREFETCH_KEYS : fit;
    for (int64_t first = 0; first < d; first += 2 * PAIRS * SPREADS) {
        int64_t end = min(d, first + 2 * PAIRS * SPREADS);
        for (int64_t l = first; l < end; l += 2 * PAIRS)
            spread_rows(rows, min(PAIRS, (d - l) / 2), q + l, q_stride,
                        &s[(l - first) / (2 * PAIRS)]);
        for (int64_t j = 0; j < n; j += 16)
            for (int64_t l = first; l < end; l += 2 * PAIRS)
                MK_WITH_ROWS(rows, ROWS,
                             score_few(MK_R, min(16, n - j), ahead, left - j,
                                       min(PAIRS, (d - l) / 2), &s[(l - first) / (2 * PAIRS)],
                                       k + j * k_stride + l, k_stride, l > 0, y + j, y_stride));
    }
}

static void attn_scores(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                        const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    if (m > FEW) {
        score_many(m, n, d, q, q_stride, k, k_stride, y, y_stride);
        return;
    }
    int64_t step = mk_block_rows(m, ROWS);
    for (int64_t j = 0; j < n; j += NEAR)
        for (int64_t i = 0; i < m; i += step)
            score_directly(min(step, m - i), min(NEAR, n - j), i == 0 ? n - j : 0, d,
                           q + i * q_stride, q_stride, k + j * k_stride, k_stride,
                           y + i * y_stride + j, y_stride);
}

/* ---- values ---- */

/* Where pairs come from: packed from values as they are read, or packed before. */
typedef enum source { HALVES, CODES, PAIRED } source;

/* Values in pairs of keys, 16 * COLS columns. */
typedef struct paired {
    uint32_t columns[DEPTH / 2][16 * COLS];
} paired;

MK_INLINE void load_pairs(source from, const values *v, int64_t j, int64_t cols,
                          __m512i pairs[COLS]) {
    if (from == HALVES) pair_halves(v, j, cols, true, pairs);
    if (from == CODES) pair_codes(v, j, cols, true, pairs);
    if (from != PAIRED) return;
#pragma GCC unroll 4
    for (int c = 0; c < COLS; c++)
        pairs[c] = _mm512_load_si512(v->first + j / 2 * v->stride + 64 * c);
}

/* y [rows, cols] += w [rows, n] v [n, cols], cols <= 16 * COLS, n even */
MK_INLINE void value_tile(source from, int rows, int64_t cols, int64_t n, const uint16_t *w,
                          int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    __m512 sum[ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
    load_sums(rows, mask, y, y_stride, sum);
    for (int64_t j = 0; j < n; j += 2) {
        __m512i b[COLS];
        if (from != PAIRED && rows < ROWS) { /* few rows: memory limits the speed */
            fetch_key(from == CODES, v, j + PREFETCH);
            fetch_key(from == CODES, v, j + PREFETCH + 1);
        }
        load_pairs(from, v, j, cols, b);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512bh a = pair_of(w + i * w_stride + j);
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_dpbf16_ps(sum[i][c], a, as_pairs(b[c]));
        }
    }
    store_sums(rows, mask, sum, y, y_stride);
}

MK_INLINE void value_rows(source from, int64_t m, int64_t cols, int64_t n, const uint16_t *w,
                          int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    int64_t step = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += step, w += step * w_stride, y += step * y_stride)
        MK_WITH_ROWS(min(step, m - i), ROWS,
                     value_tile(from, MK_R, cols, n, w, w_stride, v, y, y_stride));
}

static void half_rows(int64_t m, int64_t cols, int64_t n, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    value_rows(HALVES, m, cols, n, w, w_stride, v, y, y_stride);
}

static void code_rows(int64_t m, int64_t cols, int64_t n, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    value_rows(CODES, m, cols, n, w, w_stride, v, y, y_stride);
}

/* Packs the pairs once for all rows. */
static void paired_rows(int64_t m, int64_t cols, int64_t n, const uint16_t *w, int64_t w_stride,
                        const values *v, float *y, int64_t y_stride) {
    _Alignas(64) paired p;
    const values pairs = {(const char *)p.columns, NULL, sizeof *p.columns, 0};
    for (int64_t j = 0; j < n; j += 2) {
        __m512i b[COLS];
        fetch_key(false, v, j + PREFETCH);
        fetch_key(false, v, j + PREFETCH + 1);
        pair_halves(v, j, cols, true, b);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            _mm512_store_si512(&p.columns[j / 2][16 * c], b[c]);
    }
    value_rows(PAIRED, m, cols, n, w, w_stride, &pairs, y, y_stride);
}

/* One key in bf16, paired with zeros. */
static void value_last(int64_t m, int64_t cols, const uint16_t *w, int64_t w_stride,
                       const char *key, float *y, int64_t y_stride) {
    uint16_t weights[2 * ROWS] = {0}, keys[2 * 16 * COLS] = {0};
    const values v = {(const char *)keys, NULL, sizeof keys / 2, 0};
    memcpy(keys, key, (size_t)cols * sizeof *keys);
    for (int64_t i = 0; i < m; i += ROWS) {
        int64_t rows = min(ROWS, m - i);
        for (int64_t r = 0; r < rows; r++)
            weights[2 * r] = w[(i + r) * w_stride];
        half_rows(rows, cols, 2, weights, 2, &v, y + i * y_stride, y_stride);
    }
}

/* y [m, cols] += w [m, n] v [n, cols] in bf16, n <= DEPTH, cols <= 16 * COLS */
static void half_values(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                        const values *v, float *y, int64_t y_stride) {
    int64_t even = n / 2 * 2;
    if (m > FEW)
        paired_rows(m, cols, even, w, w_stride, v, y, y_stride);
    else
        half_rows(m, cols, even, w, w_stride, v, y, y_stride);
    if (even < n) value_last(m, cols, w + even, w_stride, v->first + even * v->stride, y, y_stride);
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)v, NULL, 2 * v_stride, n};
    for (int64_t j = 0; j < n; j += DEPTH)
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            const values part = values_at(false, &all, j, c);
            half_values(m, min(DEPTH, n - j), min(16 * COLS, dv - c), w + j, w_stride, &part, y + c,
                        y_stride);
        }
}

/* Widens n keys of codes, from *v on, to bf16 [n, 16 * COLS]. */
static void widen_keys(int64_t n, int64_t cols, const values *v, uint16_t *to) {
    for (int64_t j = 0; j < n; j++, to += 16 * COLS) {
        __m512 scale[2];
        fetch_key(true, v, j + PREFETCH);
        load_scales(v->scales + j * v->stride, cols, scale);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++) {
            __mmask16 mask = mk_first(cols - 16 * c);
            __m512 x = scaled(v->first + j * v->stride + 16 * c, mask, scale[c / 2]);
            _mm256_storeu_si256((void *)(to + 16 * c), (__m256i)_mm512_cvtneps_pbh(x));
        }
    }
}

/* As half_values, for codes: in registers for few rows, else by a tile. */
static void code_values(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                        const values *v, float *y, int64_t y_stride) {
    uint16_t keys[DEPTH * 16 * COLS];
    const values wide = {(const char *)keys, NULL, 2 * 16 * COLS, 0};
    int64_t even = m > FEW ? 0 : n / 2 * 2;
    if (even > 0) code_rows(m, cols, even, w, w_stride, v, y, y_stride);
    if (even == n) return;
    const values rest = values_at(true, v, even, 0);
    widen_keys(n - even, cols, &rest, keys);
    half_values(m, n - even, cols, w + even, w_stride, &wide, y, y_stride);
}

static void attn_values_q8_bf16(int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                                int64_t w_stride, const uint8_t *codes, const uint8_t *scales,
                                int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)codes, (const char *)scales, v_stride, n};
    for (int64_t j = 0; j < n; j += DEPTH)
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            const values part = values_at(true, &all, j, c);
            code_values(m, min(DEPTH, n - j), min(16 * COLS, dv - c), w + j, w_stride, &part, y + c,
                        y_stride);
        }
}

/* ---- weights ---- */

MK_INLINE __m512i two_halves(__m512 a, __m512 b) {
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

#include "cpu/kern/attn/attn_exp_tmpl.h"

void mk_exp_avx512bf16(mk_kernels *kernels) {
    kernels->exp_total_bf16 = exp_total_bf16;
}

void mk_attn_avx512bf16(mk_kernels *kernels) {
    mk_exp_avx512bf16(kernels);
    kernels->attn_scores = attn_scores;
    kernels->attn_values = attn_values;
    kernels->attn_values_q8_bf16 = attn_values_q8_bf16;
    kernels->bf16_pairs = kernels->q8_pairs = true;
    kernels->int16 = false;
    kernels->values_together = 2;
}

/* AVX-512 VNNI: attention over q8 rows. For scores, one instruction multiplies four codes of a row
 * of q, broadcast, by four of each of 16 keys; tiles of keys are transposed for it. Values are
 * widened in registers for few rows of weights. For many rows a tile in memory is faster. */
#include "cpu/kern/attn/attn_avx512.h"

/* ---- scores ---- */

#define Q_ROWS 3    /* 3 x 4 sums of a group, 3 x 4 of all groups, 4 operands */
#define MAX_ROWS 48 /* max rows of q whose corrections are kept */
#define WORDS 64    /* words in a tile, of four codes each */
#define GROUPS (4 * WORDS / MK_Q8_GROUP)
#define GROUP_WORDS (MK_Q8_GROUP / 4)

/* Transposed keys: codes as code + 128; scales in pairs. */
typedef struct tile {
    uint32_t codes[WORDS][KEYS];
    uint32_t scales[GROUPS / 2][KEYS];
} tile;

/* Some columns of rows of q: codes and scales, q_stride bytes from a row to the next. */
typedef struct queries {
    const uint8_t *codes, *scales;
    int64_t stride, words;
    int32_t (*correction)[GROUPS]; /* [row][group]: -128 times the sum of the group's codes */
} queries;

MK_INLINE float scale_at(const uint8_t *scales, int64_t g) {
    uint16_t half;
    memcpy(&half, scales + 2 * g, sizeof half);
    return mk_from_bf16(half);
}

/* The scales of group g of 16 keys. */
MK_INLINE __m512 key_scales(const tile *t, int64_t g, int j) {
    __m512i two = _mm512_load_si512(&t->scales[g / 2][16 * j]);
    __m512i one = g % 2 == 0 ? _mm512_slli_epi32(two, 16)
                             : _mm512_and_si512(two, _mm512_set1_epi32((int32_t)0xffff0000));
    return _mm512_castsi512_ps(one);
}

/* sum[i][j] += scale * the dot products of group g. */
MK_INLINE void add_group(int rows, int64_t g, const queries *q, const tile *t,
                         __m512 sum[Q_ROWS][COLS]) {
    __m512i whole[Q_ROWS][COLS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            whole[i][j] = _mm512_set1_epi32(q->correction[i][g]);
    int64_t end = min(q->words, (g + 1) * GROUP_WORDS);
    for (int64_t p = g * GROUP_WORDS; p < end; p++) {
        __m512i b[COLS];
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            b[j] = _mm512_load_si512(&t->codes[p][16 * j]);
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, q->codes + i * q->stride + 4 * p, sizeof four);
            __m512i a = _mm512_set1_epi32(four);
#pragma GCC unroll 4
            for (int j = 0; j < COLS; j++)
                whole[i][j] = _mm512_dpbusd_epi32(whole[i][j], b[j], a);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < COLS; j++) {
        __m512 scales = key_scales(t, g, j);
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++) {
            __m512 scale = _mm512_set1_ps(scale_at(q->scales + i * q->stride, g));
            sum[i][j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[i][j]),
                                        _mm512_mul_ps(scales, scale), sum[i][j]);
        }
    }
}

/* y [rows, n] = q times the tile, n <= KEYS; added to y if `more`. */
MK_INLINE void score_tile(int rows, int64_t n, const queries *q, const tile *t, bool more, float *y,
                          int64_t y_stride) {
    __m512 sum[Q_ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(n, mask);
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            sum[i][j] = more ? _mm512_maskz_loadu_ps(mask[j], y + i * y_stride + 16 * j)
                             : _mm512_setzero_ps();
    for (int64_t g = 0; g * GROUP_WORDS < q->words; g++)
        add_group(rows, g, q, t, sum);
    store_sums(rows, mask, sum, y, y_stride);
}

static void score_rows(int64_t rows, int64_t n, const queries *q, const tile *t, bool more,
                       float *y, int64_t y_stride) {
    MK_WITH_ROWS(rows, Q_ROWS, score_tile(MK_R, n, q, t, more, y, y_stride));
}

static void correct_rows(int64_t rows, queries *q) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = 0; p < q->words; p += GROUP_WORDS) {
            const int8_t *codes = (const int8_t *)(q->codes + i * q->stride + 4 * p);
            int32_t sum = 0;
            for (int64_t l = 0; l < 4 * min(GROUP_WORDS, q->words - p); l++)
                sum += codes[l];
            q->correction[i][p / GROUP_WORDS] = -128 * sum;
        }
}

/* Scores from columns [l, l + 4 * WORDS), for up to MAX_ROWS rows of q and all keys. */
static void score_part(int64_t m, int64_t n, int64_t d, int64_t l, const uint8_t *q,
                       int64_t q_stride, const uint8_t *k, int64_t k_stride, float *y,
                       int64_t y_stride) {
    _Alignas(64) tile t;
    int32_t corrections[MAX_ROWS][GROUPS];
    int64_t step = mk_block_rows(m, Q_ROWS), scales = mk_q8_scales(d) + l / MK_Q8_GROUP * 2;
    int64_t words = min(WORDS, (d - l + 3) / 4), groups = (words - 1) / GROUP_WORDS + 1;
    queries rows = {q + l, q + scales, q_stride, words, corrections};
    correct_rows(m, &rows);
    for (int64_t j = 0; j < n; j += KEYS) {
        int64_t keys = min(KEYS, n - j);
        const char *first = (const char *)k + j * k_stride;
        transpose_keys(keys, n - j, words, first + l, k_stride, mk_q8_bytes(d),
                       _mm512_set1_epi8(-128), t.codes);
        transpose_keys(keys, n - j, (groups + 1) / 2, first + scales, k_stride, 0,
                       _mm512_setzero_si512(), t.scales);
        for (int64_t i = 0; i < m; i += step) {
            queries block = {rows.codes + i * q_stride, rows.scales + i * q_stride, q_stride, words,
                             corrections + i};
            score_rows(min(step, m - i), keys, &block, &t, l > 0, y + i * y_stride + j, y_stride);
        }
    }
}

static void attn_scores_q8(int64_t m, int64_t n, int64_t d, const uint8_t *q, int64_t q_stride,
                           const uint8_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i += MAX_ROWS)
        for (int64_t l = 0; l < d; l += 4 * WORDS)
            score_part(min(MAX_ROWS, m - i), n, d, l, q + i * q_stride, q_stride, k, k_stride,
                       y + i * y_stride, y_stride);
}

/* ---- values ---- */

#define W_ROWS 6 /* of weights: 6 x 4 sums and 5 operands */

/* y [rows, cols] += w [rows, n] v [n, cols], cols <= 16 * COLS */
MK_INLINE void value_tile(int rows, int64_t cols, int64_t n, const float *w, int64_t w_stride,
                          const uint8_t *codes, const uint8_t *scales, int64_t v_stride, float *y,
                          int64_t y_stride) {
    __m512 sum[W_ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
    load_sums(rows, mask, y, y_stride, sum);
    for (int64_t j = 0; j < n; j++, codes += v_stride, scales += v_stride) {
        __m512 b[COLS], scale[2];
        load_scales((const char *)scales, cols, scale);
        fetch((const char *)codes + PREFETCH * v_stride, 1);
        fetch((const char *)scales + PREFETCH * v_stride, 1);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            b[c] = scaled((const char *)codes + 16 * c, mask[c], scale[c / 2]);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_set1_ps(w[i * w_stride + j]);
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_fmadd_ps(a, b[c], sum[i][c]);
        }
    }
    store_sums(rows, mask, sum, y, y_stride);
}

static void value_rows(int64_t rows, int64_t cols, int64_t n, const float *w, int64_t w_stride,
                       const uint8_t *codes, const uint8_t *scales, int64_t v_stride, float *y,
                       int64_t y_stride) {
    MK_WITH_ROWS(rows, W_ROWS,
                 value_tile(MK_R, cols, n, w, w_stride, codes, scales, v_stride, y, y_stride));
}

static void attn_values_q8(int64_t m, int64_t n, int64_t dv, const float *w, int64_t w_stride,
                           const uint8_t *codes, const uint8_t *scales, int64_t v_stride, float *y,
                           int64_t y_stride) {
    int64_t step = mk_block_rows(m, W_ROWS);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t c = 0; c < dv; c += 16 * COLS)
            for (int64_t i = 0; i < m; i += step)
                value_rows(min(step, m - i), min(16 * COLS, dv - c), min(KEYS, n - j),
                           w + i * w_stride + j, w_stride, codes + j * v_stride + c,
                           scales + j * v_stride + c / MK_Q8_GROUP * 2, v_stride,
                           y + i * y_stride + c, y_stride);
}

void mk_attn_avx512vnni(mk_kernels *kernels) {
    kernels->attn_scores_q8 = attn_scores_q8;
    kernels->attn_values_q8 = attn_values_q8;
    kernels->q8_direct = true;
}

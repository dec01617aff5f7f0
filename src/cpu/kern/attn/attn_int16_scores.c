/* Scores in int16. For many rows of q keys are transposed, so that a register has the same two
 * elements of 16 keys. For few rows keys are used in place. Sums are exact, so both variants give
 * the same bits. */
#include "cpu/kern/attn/attn_int16.h"

#define PART MK_INT16_PART
#define ROWS 6        /* rows of q in registers: 6 x 4 sums and 4 operands fit 32 */
#define PARTS 192     /* max parts of rows of q converted at once: 48 KiB */
#define PARTS_A_ROW 4 /* maximum */
#define SOON 16       /* keys ahead, for few rows, prefetched to the first-level cache */
#define LATER 64      /* keys ahead prefetched to the second-level cache before that */

/* Parts of rows of q in codes, a row's parts next to each other. */
typedef struct queries {
    _Alignas(64) uint32_t codes[PARTS][PART / 2];
    float steps[PARTS];
} queries;

/* Converts n <= PART elements, an even number, to codes. Returns their step. */
static float load_query(int64_t n, const uint16_t *q, uint32_t codes[PART / 2]) {
    __m512i max = _mm512_setzero_si512();
    for (int64_t l = 0; l < n; l += 32)
        max = _mm512_max_epu16(max, magnitudes(mk_load_halves(q + l, n - l)));
    const steps s = steps_of(max_of_all(max), NARROW);
    for (int64_t l = 0; l < n; l += 32)
        _mm512_store_si512(codes + l / 2, codes_of(mk_load_halves(q + l, n - l), s.up));
    return _mm512_cvtss_f32(s.down);
}

/* y [n] = products of codes times both steps, n or 16; added to y if `more`. */
MK_INLINE void add_scores(int64_t n, __m512i whole, float step, __m512 down, bool more, float *y) {
    const __mmask16 mask = mk_first(n);
    __m512 sum = more ? _mm512_maskz_loadu_ps(mask, y) : _mm512_setzero_ps();
    __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), _mm512_set1_ps(step));
    _mm512_mask_storeu_ps(y, mask, _mm512_fmadd_ps(part, down, sum));
}

/* ---- many rows ---- */

/* One part of some keys, transposed, two codes in 32 bits. */
typedef struct tile {
    uint32_t codes[PART / 2][KEYS];
    float steps[KEYS];
} tile;

/* Converts a tile in place from bf16 to codes: `pairs` words of n keys. */
MK_INLINE void tile_to_codes(int64_t n, int64_t pairs, tile *t) {
    for (int64_t j = 0; j < n; j += 16) {
        __m512i max = _mm512_setzero_si512();
        for (int64_t p = 0; p < pairs; p++)
            max = _mm512_max_epu16(max, magnitudes(_mm512_load_si512(&t->codes[p][j])));
        const steps s = steps_of(max_of_pairs(max), NARROW);
        for (int64_t p = 0; p < pairs; p++) {
            __m512i halves = _mm512_load_si512(&t->codes[p][j]);
            _mm512_store_si512(&t->codes[p][j], codes_of(halves, s.up));
        }
        _mm512_store_ps(t->steps + j, s.down);
    }
}

/* y [rows, n] = parts of q from `part` on, `parts` apart, times the tile's n keys, or its first 16
 * * cols; added to y if `more`. */
MK_INLINE void score_tile(int rows, int cols, int64_t n, int64_t pairs, const queries *q,
                          int64_t part, int64_t parts, const tile *t, bool more, float *y,
                          int64_t y_stride) {
    __m512i whole[ROWS][COLS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            whole[i][j] = _mm512_setzero_si512();
    for (int64_t p = 0; p < pairs; p++)
        add_dots(rows, cols, &q->codes[part][p], parts * (PART / 2), t->codes[p], whole);
#pragma GCC unroll 4
    for (int j = 0; j < cols; j++)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            add_scores(n - 16 * j, whole[i][j], q->steps[part + i * parts],
                       _mm512_load_ps(t->steps + 16 * j), more, y + i * y_stride + 16 * j);
}

static void score_rows(int64_t rows, int64_t n, int64_t pairs, const queries *q, int64_t part,
                       int64_t parts, const tile *t, bool more, float *y, int64_t y_stride) {
    if (n > 32)
        MK_WITH_ROWS(rows, ROWS,
                     score_tile(MK_R, COLS, n, pairs, q, part, parts, t, more, y, y_stride));
    else
        MK_WITH_ROWS(rows, ROWS,
                     score_tile(MK_R, 2, n, pairs, q, part, parts, t, more, y, y_stride));
}

/* Scores of some keys of d elements, for all rows. */
static void score_many(int64_t m, int64_t n, int64_t d, const queries *q, const uint16_t *k,
                       int64_t k_stride, bool more, float *y, int64_t y_stride) {
    _Alignas(64) tile t;
    const int64_t parts = (d + PART - 1) / PART, step = mk_block_rows(m, ROWS);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t keys = min(KEYS, n - j), l = part * PART;
            const int64_t pairs = min(PART, d - l) / 2;
            transpose_keys(keys, n - j, pairs, (const char *)(k + j * k_stride + l), 2 * k_stride,
                           4 * pairs, _mm512_setzero_si512(), t.codes);
            tile_to_codes(keys, pairs, &t);
            for (int64_t i = 0; i < m; i += step)
                score_rows(min(step, m - i), keys, pairs, q, i * parts + part, parts, &t,
                           more || part > 0, y + i * y_stride + j, y_stride);
        }
}

/* ---- few rows ---- */

/* One part of some keys, as lines of 32 elements; the last line may be cut. */
typedef struct lines {
    const uint16_t *first;
    int64_t stride, last; /* elements from a key to the next; keys after `last` repeat it */
    int64_t n;
    __mmask32 tail;
} lines;

MK_INLINE const uint16_t *key_at(const lines *k, int64_t j) {
    return k->first + min(j, k->last) * k->stride;
}

/* The key to prefetch: j + `ahead`, or key j again if that is not below `left`. Memory behind the
 * last key mostly has room for later keys, and nothing to prefetch. */
MK_INLINE const uint16_t *prefetch_of(const lines *k, int64_t j, int64_t ahead, int64_t left) {
    return k->first + (j + ahead < left ? j + ahead : min(j, k->last)) * k->stride;
}

/* Loads line l of a key. whole: no line is cut. */
MK_INLINE __m512i load_line(bool whole, const lines *k, const uint16_t *key, int64_t l) {
    if (whole) return _mm512_loadu_si512(key + 32 * l);
    return _mm512_maskz_loadu_epi16(l + 1 < k->n ? 0xffffffffu : k->tail, key + 32 * l);
}

/* Sums (or maxima) of a part's words, for 16 keys, four keys in a register. Every fourth register
 * is set, as mk_transpose_words takes them. */
typedef struct reduced {
    __m512i fours[16];
} reduced;

/* The largest magnitude of each of 16 keys. n: the number of lines if they are whole, else 0. */
MK_INLINE __m512i max_of_keys(int n, const lines *k) {
    reduced to;
    __m512i quarters[4];
    for (int four = 0; four < 4; four++) {
        __m512i max[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const uint16_t *key = key_at(k, 4 * four + i);
            max[i] = magnitudes(load_line(n > 0, k, key, 0));
            for (int64_t l = 1; l < (n > 0 ? n : k->n); l++)
                max[i] = _mm512_max_epu16(max[i], magnitudes(load_line(n > 0, k, key, l)));
        }
        mk_transpose_rows(max, quarters);
        to.fours[4 * four] = _mm512_max_epu16(_mm512_max_epu16(quarters[0], quarters[1]),
                                              _mm512_max_epu16(quarters[2], quarters[3]));
    }
    mk_transpose_words(to.fours, 0, quarters);
    return max_of_pairs(_mm512_max_epu16(_mm512_max_epu16(quarters[0], quarters[1]),
                                         _mm512_max_epu16(quarters[2], quarters[3])));
}

MK_INLINE __m512i add_four(const __m512i a[4]) {
    return _mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_add_epi32(a[2], a[3]));
}

/* y [rows, left] = parts of q from `part` on, `parts` apart, times 16 keys, or `left` if that is
 * fewer; added to y if `more`. */
MK_INLINE void score_keys(int rows, int n, int64_t left, const queries *q, int64_t part,
                          int64_t parts, const lines *k, bool more, float *y, int64_t y_stride) {
    const steps s = steps_of(max_of_keys(n, k), NARROW);
    _Alignas(64) float up[16];
    reduced to[FEW];
    __m512i quarters[4];
    _mm512_store_ps(up, s.up);
    for (int four = 0; four < 4; four++) {
        __m512i whole[FEW][4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const uint16_t *key = key_at(k, 4 * four + i);
            const intptr_t soon = (intptr_t)prefetch_of(k, 4 * four + i, SOON, left);
            const intptr_t later = (intptr_t)prefetch_of(k, 4 * four + i, LATER, left);
            const __m512 step = _mm512_set1_ps(up[4 * four + i]);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                whole[r][i] = _mm512_setzero_si512();
            for (int64_t l = 0; l < (n > 0 ? n : k->n); l++) {
                mk_prefetch_near(soon + 64 * l);
                mk_prefetch(later + 64 * l);
                __m512i codes = codes_of(load_line(n > 0, k, key, l), step);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    whole[r][i] = dot2(whole[r][i], codes, &q->codes[part + r * parts][16 * l]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            mk_transpose_rows(whole[r], quarters);
            to[r].fours[4 * four] = add_four(quarters);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        mk_transpose_words(to[r].fours, 0, quarters);
        add_scores(left, add_four(quarters), q->steps[part + r * parts], s.down, more,
                   y + r * y_stride);
    }
}

/* As score_many, for m <= FEW. All elements of 16 keys are read before the next 16. */
static void score_few(int64_t m, int64_t n, int64_t d, const queries *q, const uint16_t *k,
                      int64_t k_stride, bool more, float *y, int64_t y_stride) {
    const int64_t parts = (d + PART - 1) / PART;
    for (int64_t j = 0; j < n; j += 16)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t elements = min(PART, d - part * PART);
            const int64_t cut = elements % 32 == 0 ? 32 : elements % 32;
            const lines keys = {k + j * k_stride + part * PART, k_stride, min(16, n - j) - 1,
                                (elements + 31) / 32, first_halves(cut)};
            const bool add = more || part > 0;
            if (elements == PART)
                MK_WITH_ROWS(
                    m, FEW,
                    score_keys(MK_R, 4, n - j, q, part, parts, &keys, add, y + j, y_stride));
            else if (elements == PART / 2)
                MK_WITH_ROWS(
                    m, FEW,
                    score_keys(MK_R, 2, n - j, q, part, parts, &keys, add, y + j, y_stride));
            else
                MK_WITH_ROWS(
                    m, FEW,
                    score_keys(MK_R, 0, n - j, q, part, parts, &keys, add, y + j, y_stride));
        }
}

/* Scores of d <= PARTS_A_ROW * PART elements of all keys, for m rows that have no more than PARTS
 * parts in all. */
static void score_some(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                       const uint16_t *k, int64_t k_stride, bool more, float *y, int64_t y_stride) {
    queries rows;
    const int64_t parts = (d + PART - 1) / PART;
    for (int64_t i = 0; i < m * parts; i++) {
        const int64_t l = i % parts * PART;
        rows.steps[i] = load_query(min(PART, d - l), q + i / parts * q_stride + l, rows.codes[i]);
    }
    if (m <= FEW)
        score_few(m, n, d, &rows, k, k_stride, more, y, y_stride);
    else
        score_many(m, n, d, &rows, k, k_stride, more, y, y_stride);
}

static void attn_scores(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                        const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    for (int64_t l = 0; l < d; l += PART * PARTS_A_ROW) {
        const int64_t elements = min(PART * PARTS_A_ROW, d - l);
        const int64_t step = mk_block_rows(m, PARTS / ((elements + PART - 1) / PART));
        for (int64_t i = 0; i < m; i += step)
            score_some(min(step, m - i), n, elements, q + i * q_stride + l, q_stride, k + l,
                       k_stride, l > 0, y + i * y_stride, y_stride);
    }
}

void mk_attn_int16_scores(mk_kernels *kernels) {
    kernels->attn_scores = attn_scores;
}

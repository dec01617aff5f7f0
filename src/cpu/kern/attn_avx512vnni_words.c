/* AVX-512 VNNI: keys and values in bf16 as whole numbers of 16 bits, for processors that multiply pairs of bf16 slower than
 * f32, or not at all: vpdpwssd makes two products where an instruction of f32 makes one, and its sums are exact.
 *
 * Numbers that share a step, a power of two, are codes times it. Those of a query's or a key's PART elements share one, by
 * the largest of them, and those of a weight's GROUP keys; of values each column of a GROUP of keys. Codes of the first two
 * have NARROW bits and a sign, those of values WIDE: sums of PART, or of GROUP, products fit 32 bits. So numbers of bf16
 * are exact down to a sixteenth of the largest (values: a sixty-fourth), and smaller ones are rounded as that one's last
 * bits are.
 *
 * A row's weights of a group may only be codes where all of them count: a value whose key the row does not see must not
 * choose the step of others. Groups with a weight of 0, or not whole, are summed in f32, one key after the other. */
#include "cpu/kern/attn_avx512.h"

#define PART MK_WORDS_PART
#define GROUP 32 /* keys whose weights, or values in a column, have one */
#define NARROW 12
#define WIDE 14

#define ROWS 6        /* of q: 6 x 4 sums and 4 operands fit 32 registers */
#define FEW 4         /* rows of q that meet keys as they lie */
#define PARTS 192     /* of rows of q that are codes at once: 48 KiB */
#define PARTS_A_ROW 4 /* at most */
#define W_ROWS 3      /* of weights: 3 x 4 sums, as many in f32, 4 operands */
#define MOST_ROWS 96  /* of weights that are codes at once: 24 KiB */
#define DEPTH 128     /* keys whose values are codes at once: 16 KiB for 64 columns */
#define GROUPS (DEPTH / GROUP)
#define LEAST_EXPONENT 16 /* of bf16: numbers far below the smallest normal ones get its step */

/* Two codes. */
typedef struct __attribute__((packed, may_alias)) code_pair {
    uint32_t word;
} code_pair;

/* What numbers are multiplied by to become codes, and codes to become numbers: NaN where one was not finite. */
typedef struct steps {
    __m512 up, down;
} steps;

/* most: the largest of the bits of magnitudes in bf16, in each lane. */
MK_INLINE steps steps_of(__m512i most, int bits) {
    __m512i whole = _mm512_srli_epi32(most, 7);
    __m512i e = _mm512_max_epi32(whole, _mm512_set1_epi32(LEAST_EXPONENT));
    __m512i up = _mm512_sub_epi32(_mm512_set1_epi32(253 + bits), e);
    __m512i down = _mm512_sub_epi32(e, _mm512_set1_epi32(bits - 1));
    __mmask16 lost = _mm512_cmpeq_epi32_mask(whole, _mm512_set1_epi32(255));
    down = _mm512_mask_mov_epi32(_mm512_slli_epi32(down, 23), lost, _mm512_set1_epi32(0x7fc00000));
    return (steps){_mm512_castsi512_ps(_mm512_slli_epi32(up, 23)), _mm512_castsi512_ps(down)};
}

MK_INLINE __m512i magnitudes(__m512i halves) {
    return _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
}

/* The larger of both halves of each lane. */
MK_INLINE __m512i most_of_pairs(__m512i most) {
    __m512i upper = _mm512_srli_epi32(most, 16);
    return _mm512_max_epu32(upper, _mm512_and_si512(most, _mm512_set1_epi32(0xffff)));
}

/* The largest of 32 magnitudes, to every lane. */
MK_INLINE __m512i most_of_all(__m512i most) {
    __m256i a = _mm256_max_epu16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    __m128i least = _mm_minpos_epu16(_mm_sub_epi16(_mm_set1_epi16(0x7fff), b));
    return _mm512_set1_epi32(0x7fff - (_mm_cvtsi128_si32(least) & 0xffff));
}

/* The lower numbers in bf16 of each lane, and the upper ones, to whole numbers in the lower 16 bits: an addition leaves the
 * last bits of a float no others. */
MK_INLINE __m512i lower_codes(__m512i halves, __m512 up) {
    __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
    return _mm512_castps_si512(_mm512_fmadd_ps(x, up, _mm512_set1_ps(0x1.8p23f)));
}

MK_INLINE __m512i upper_codes(__m512i halves, __m512 up) {
    __m512 x =
        _mm512_castsi512_ps(_mm512_and_si512(halves, _mm512_set1_epi32((int32_t)0xffff0000u)));
    return _mm512_castps_si512(_mm512_fmadd_ps(x, up, _mm512_set1_ps(0x1.8p23f)));
}

/* The lower 16 bits of each lane, a's below b's. */
MK_INLINE __m512i paired_codes(__m512i a, __m512i b) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, 16));
}

MK_INLINE __m512i codes_of(__m512i halves, __m512 up) {
    return paired_codes(lower_codes(halves, up), upper_codes(halves, up));
}

/* sum + the products of two codes, for all lanes, with two of each lane. gcc 12 moves the sum of the intrinsic to another
 * register and back. */
MK_INLINE __m512i dot2_all(__m512i sum, __m512i two, const uint32_t *all) {
    const code_pair *pair = (const void *)all;
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(two), "m"(*pair));
    return sum;
}

/* The same with two of each lane. */
MK_INLINE __m512i dot2(__m512i sum, __m512i two, const uint32_t *other) {
    const __m512i_u *pairs = (const void *)other;
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(two), "m"(*pairs));
    return sum;
}

/* ---- scores ---- */

/* Parts of rows of q, those of a row side by side. */
typedef struct queries {
    _Alignas(64) uint32_t codes[PARTS][PART / 2];
    float steps[PARTS];
} queries;

/* n <= PART elements, an even number. -> their step */
static float load_query(int64_t n, const uint16_t *q, uint32_t codes[PART / 2]) {
    __m512i most = _mm512_setzero_si512();
    for (int64_t l = 0; l < n; l += 32)
        most = _mm512_max_epu16(most, magnitudes(mk_load_halves(q + l, n - l)));
    const steps s = steps_of(most_of_all(most), NARROW);
    for (int64_t l = 0; l < n; l += 32)
        _mm512_store_si512(codes + l / 2, codes_of(mk_load_halves(q + l, n - l), s.up));
    return _mm512_cvtss_f32(s.down);
}

/* y [n], or 0 where not `more`, += products of codes times both steps, n or 16 */
MK_INLINE void add_scores(int64_t n, __m512i whole, float step, __m512 down, bool more, float *y) {
    const __mmask16 mask = mk_first(n);
    __m512 sum = more ? _mm512_maskz_loadu_ps(mask, y) : _mm512_setzero_ps();
    __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), _mm512_set1_ps(step));
    _mm512_mask_storeu_ps(y, mask, _mm512_fmadd_ps(part, down, sum));
}

/* Many rows: keys are turned over, so that a register has the same two elements of 16 keys. */

/* A part of some keys, two codes in 32 bits. */
typedef struct tile {
    uint32_t codes[PART / 2][KEYS];
    float steps[KEYS];
} tile;

/* The words of a tile, numbers in bf16, to codes: `pairs` of n keys. */
MK_INLINE void tile_to_codes(int64_t n, int64_t pairs, tile *t) {
    for (int64_t j = 0; j < n; j += 16) {
        __m512i most = _mm512_setzero_si512();
        for (int64_t p = 0; p < pairs; p++)
            most = _mm512_max_epu16(most, magnitudes(_mm512_load_si512(&t->codes[p][j])));
        const steps s = steps_of(most_of_pairs(most), NARROW);
        for (int64_t p = 0; p < pairs; p++) {
            __m512i halves = _mm512_load_si512(&t->codes[p][j]);
            _mm512_store_si512(&t->codes[p][j], codes_of(halves, s.up));
        }
        _mm512_store_ps(t->steps + j, s.down);
    }
}

/* y [rows, n], or 0 where not `more`, += parts of q from `part` on, `parts` apart, times the tile's n keys, or its first
 * 16 * cols */
MK_INLINE void score_tile(int rows, int cols, int64_t n, int64_t pairs, const queries *q,
                          int64_t part, int64_t parts, const tile *t, bool more, float *y,
                          int64_t y_stride) {
    __m512i whole[ROWS][COLS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            whole[i][j] = _mm512_setzero_si512();
    for (int64_t p = 0; p < pairs; p++) {
        __m512i b[COLS];
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++) {
            b[j] = _mm512_load_si512(&t->codes[p][16 * j]);
            __asm__("" : "+v"(b[j])); /* read once, not for each row */
        }
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < cols; j++)
                whole[i][j] = dot2_all(whole[i][j], b[j], &q->codes[part + i * parts][p]);
    }
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

/* Some keys of d elements, all rows. */
static void score_many(int64_t m, int64_t n, int64_t d, const queries *q, const uint16_t *k,
                       int64_t k_stride, bool more, float *y, int64_t y_stride) {
    _Alignas(64) tile t;
    const int64_t parts = (d + PART - 1) / PART, step = mk_block_rows(m, ROWS);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t keys = least(KEYS, n - j), l = part * PART;
            const int64_t pairs = least(PART, d - l) / 2;
            turn_keys(keys, n - j, pairs, (const char *)(k + j * k_stride + l), 2 * k_stride,
                      4 * pairs, _mm512_setzero_si512(), t.codes);
            tile_to_codes(keys, pairs, &t);
            for (int64_t i = 0; i < m; i += step)
                score_rows(least(step, m - i), keys, pairs, q, i * parts + part, parts, &t,
                           more || part > 0, y + i * y_stride + j, y_stride);
        }
}

/* Few rows: keys as they lie. */

/* A part of some keys: its lines of 32 elements, the last of which is cut. */
typedef struct lines {
    const uint16_t *first;
    int64_t stride, last; /* from key to key; keys after `last` are taken as it */
    int64_t n;
    __mmask32 tail;
} lines;

MK_INLINE const uint16_t *key_at(const lines *k, int64_t j) {
    return k->first + least(j, k->last) * k->stride;
}

/* whole: no line is cut. */
MK_INLINE __m512i load_line(bool whole, const lines *k, const uint16_t *key, int64_t l) {
    if (whole) return _mm512_loadu_si512(key + 32 * l);
    return _mm512_maskz_loadu_epi16(l + 1 < k->n ? 0xffffffffu : k->tail, key + 32 * l);
}

/* Of four registers of 16 words each, a fourth of a part's keys, every sum (or largest) of four words is on its way to
 * where mk_turn_words has it. */
typedef struct turned {
    __m512i fours[16];
} turned;

/* The largest magnitude of each of 16 keys; n: lines, where they are whole, else 0. */
MK_INLINE __m512i most_of_keys(int n, const lines *k) {
    turned to;
    __m512i quarters[4];
    for (int four = 0; four < 4; four++) {
        __m512i most[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const uint16_t *key = key_at(k, 4 * four + i);
            most[i] = magnitudes(load_line(n > 0, k, key, 0));
            for (int64_t l = 1; l < (n > 0 ? n : k->n); l++)
                most[i] = _mm512_max_epu16(most[i], magnitudes(load_line(n > 0, k, key, l)));
        }
        mk_turn_rows(most, quarters);
        to.fours[4 * four] = _mm512_max_epu16(_mm512_max_epu16(quarters[0], quarters[1]),
                                              _mm512_max_epu16(quarters[2], quarters[3]));
    }
    mk_turn_words(to.fours, 0, quarters);
    return most_of_pairs(_mm512_max_epu16(_mm512_max_epu16(quarters[0], quarters[1]),
                                          _mm512_max_epu16(quarters[2], quarters[3])));
}

MK_INLINE __m512i add_four(const __m512i a[4]) {
    return _mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_add_epi32(a[2], a[3]));
}

/* y [rows, left], or 0 where not `more`, += parts of q from `part` on, `parts` apart, times 16 keys, or as many as are left */
MK_INLINE void score_keys(int rows, int n, int64_t left, const queries *q, int64_t part,
                          int64_t parts, const lines *k, bool more, float *y, int64_t y_stride) {
    const steps s = steps_of(most_of_keys(n, k), NARROW);
    _Alignas(64) float up[16];
    turned to[FEW];
    __m512i quarters[4];
    _mm512_store_ps(up, s.up);
    for (int four = 0; four < 4; four++) {
        __m512i whole[FEW][4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const uint16_t *key = key_at(k, 4 * four + i);
            const uint16_t *soon = key + 16 * k->stride, *later = key + 64 * k->stride;
            const __m512 step = _mm512_set1_ps(up[4 * four + i]);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                whole[r][i] = _mm512_setzero_si512();
            for (int64_t l = 0; l < (n > 0 ? n : k->n); l++) {
                __builtin_prefetch(soon + 32 * l, 0, 3);
                __builtin_prefetch(later + 32 * l, 0, 2);
                __m512i codes = codes_of(load_line(n > 0, k, key, l), step);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    whole[r][i] = dot2(whole[r][i], codes, &q->codes[part + r * parts][16 * l]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            mk_turn_rows(whole[r], quarters);
            to[r].fours[4 * four] = add_four(quarters);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        mk_turn_words(to[r].fours, 0, quarters);
        add_scores(left, add_four(quarters), q->steps[part + r * parts], s.down, more,
                   y + r * y_stride);
    }
}

/* As score_many, m <= FEW; a key is read to its end before the next 16. */
static void score_few(int64_t m, int64_t n, int64_t d, const queries *q, const uint16_t *k,
                      int64_t k_stride, bool more, float *y, int64_t y_stride) {
    const int64_t parts = (d + PART - 1) / PART;
    for (int64_t j = 0; j < n; j += 16)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t elements = least(PART, d - part * PART);
            const int64_t cut = elements % 32 == 0 ? 32 : elements % 32;
            const lines keys = {k + j * k_stride + part * PART, k_stride, least(16, n - j) - 1,
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

/* Elements [0, d) of all keys, d <= PARTS_A_ROW * PART, and m rows, of no more than PARTS parts. */
static void score_some(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                       const uint16_t *k, int64_t k_stride, bool more, float *y, int64_t y_stride) {
    queries rows;
    const int64_t parts = (d + PART - 1) / PART;
    for (int64_t i = 0; i < m * parts; i++) {
        const int64_t l = i % parts * PART;
        rows.steps[i] = load_query(least(PART, d - l), q + i / parts * q_stride + l, rows.codes[i]);
    }
    if (m <= FEW)
        score_few(m, n, d, &rows, k, k_stride, more, y, y_stride);
    else
        score_many(m, n, d, &rows, k, k_stride, more, y, y_stride);
}

static void attn_scores(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                        const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    for (int64_t l = 0; l < d; l += PART * PARTS_A_ROW) {
        const int64_t elements = least(PART * PARTS_A_ROW, d - l);
        const int64_t step = PARTS / ((elements + PART - 1) / PART);
        for (int64_t i = 0; i < m; i += step)
            score_some(least(step, m - i), n, elements, q + i * q_stride + l, q_stride, k + l,
                       k_stride, l > 0, y + i * y_stride, y_stride);
    }
}

/* ---- values ---- */

/* Weights of up to DEPTH keys of a row. */
typedef struct weights {
    uint32_t codes[DEPTH / 2];
    float steps[GROUPS];
} weights;

/* Values of up to DEPTH keys in 64 columns: two keys' codes in 32 bits, of each 32 columns the even ones first. */
typedef struct panel {
    uint32_t codes[DEPTH / 2][16 * COLS];
    float steps[GROUPS][16 * COLS];
} panel;

/* Weights of GROUP keys to codes; where not all count, of step 0. -> whether they do */
MK_INLINE bool load_group(const uint16_t *w, uint32_t *codes, float *step) {
    const __m512i halves = _mm512_loadu_si512(w), bits = magnitudes(halves);
    const bool all = _mm512_test_epi16_mask(bits, bits) == 0xffffffffu;
    const steps s = steps_of(most_of_all(bits), NARROW);
    _mm512_storeu_si512(codes, codes_of(halves, s.up));
    *step = all ? _mm512_cvtss_f32(s.down) : 0;
    return all;
}

/* Weights of whole groups. -> for each of these, a bit: whether some rows' are left to f32 */
static unsigned load_weights(int64_t m, int64_t groups, const uint16_t *w, int64_t w_stride,
                             weights *to) {
    unsigned left = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t g = 0; g < groups; g++)
            if (!load_group(w + i * w_stride + g * GROUP, to[i].codes + g * GROUP / 2,
                            &to[i].steps[g]))
                left |= 1u << g;
    return left;
}

/* What values of GROUP keys in 32 columns, even and odd ones, are multiplied by. */
typedef struct column_steps {
    steps even, odd;
} column_steps;

/* 32 columns of a key, or as many as the mask has. */
MK_INLINE __m512i load_columns_of(bool whole, __mmask32 mask, const char *key) {
    return whole ? _mm512_loadu_si512(key) : _mm512_maskz_loadu_epi16(mask, key);
}

MK_INLINE column_steps steps_of_group(bool whole, __mmask32 mask, const char *first,
                                      int64_t stride) {
    __m512i most = _mm512_setzero_si512();
    for (int i = 0; i < GROUP; i++)
        most = _mm512_max_epu16(most, magnitudes(load_columns_of(whole, mask, first + i * stride)));
    return (column_steps){steps_of(_mm512_and_si512(most, _mm512_set1_epi32(0xffff)), WIDE),
                          steps_of(_mm512_srli_epi32(most, 16), WIDE)};
}

/* Two keys' codes of the even columns, and of the odd ones. Those of the next groups are asked for. */
MK_INLINE void pair_of_codes(bool whole, __mmask32 mask, const char *key, int64_t stride,
                             const column_steps *s, __m512i codes[2]) {
    const char *soon = key + GROUP * stride, *later = key + 3 * GROUP * stride;
    __m512i a = load_columns_of(whole, mask, key);
    __m512i b = load_columns_of(whole, mask, key + stride);
    __builtin_prefetch(soon, 0, 3);
    __builtin_prefetch(soon + stride, 0, 3);
    __builtin_prefetch(later, 0, 2);
    __builtin_prefetch(later + stride, 0, 2);
    codes[0] = paired_codes(lower_codes(a, s->even.up), lower_codes(b, s->even.up));
    codes[1] = paired_codes(upper_codes(a, s->odd.up), upper_codes(b, s->odd.up));
}

/* 32 columns, or as many as the mask has, of GROUP values. */
MK_INLINE void group_to_codes(bool whole, __mmask32 mask, const char *first, int64_t stride,
                              uint32_t *codes, float *to) {
    const column_steps s = steps_of_group(whole, mask, first, stride);
    for (int i = 0; i < GROUP; i += 2, codes += 16 * COLS) {
        __m512i pair[2];
        pair_of_codes(whole, mask, first + i * stride, stride, &s, pair);
        _mm512_store_si512(codes, pair[0]);
        _mm512_store_si512(codes + 16, pair[1]);
    }
    _mm512_store_ps(to, s.even.down);
    _mm512_store_ps(to + 16, s.odd.down);
}

static void load_panel(int64_t groups, int64_t cols, const values *v, panel *to) {
    for (int64_t g = 0; g < groups; g++)
        for (int64_t c = 0; c < cols; c += 32) {
            const char *first = v->first + g * GROUP * v->stride + 2 * c;
            uint32_t *codes = to->codes[g * GROUP / 2] + c;
            float *down = to->steps[g] + c;
            if (cols - c >= 32)
                group_to_codes(true, 0, first, v->stride, codes, down);
            else
                group_to_codes(false, first_halves(cols - c), first, v->stride, codes, down);
        }
}

/* 32 columns of y, the first `cols`, as even and odd ones. */
MK_INLINE void load_columns(int64_t cols, const float *y, __m512 to[2]) {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512 a = _mm512_maskz_loadu_ps(mk_first(cols), y);
    __m512 b = _mm512_maskz_loadu_ps(mk_first(cols - 16), y + 16);
    to[0] = _mm512_permutex2var_ps(a, even, b);
    to[1] = _mm512_permutex2var_ps(a, odd, b);
}

MK_INLINE void store_columns(int64_t cols, const __m512 from[2], float *y) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_mask_storeu_ps(y, mk_first(cols), _mm512_permutex2var_ps(from[0], low, from[1]));
    _mm512_mask_storeu_ps(y + 16, mk_first(cols - 16),
                          _mm512_permutex2var_ps(from[0], high, from[1]));
}

/* y [rows, cols] += groups [begin, end) of w, times those of the panel; cols <= 16 * n */
MK_INLINE void value_tile(int rows, int n, int64_t cols, int64_t begin, int64_t end,
                          const weights *w, const panel *v, float *y, int64_t y_stride) {
    __m512 sum[W_ROWS][COLS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < n; c += 2)
            load_columns(cols - 16 * c, y + i * y_stride + 16 * c, &sum[i][c]);
    for (int64_t g = begin; g < end; g++) {
        __m512i whole[W_ROWS][COLS];
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int c = 0; c < n; c++)
                whole[i][c] = _mm512_setzero_si512();
        for (int64_t p = g * GROUP / 2; p < (g + 1) * GROUP / 2; p++) {
            __m512i b[COLS];
#pragma GCC unroll 4
            for (int c = 0; c < n; c++) {
                b[c] = _mm512_load_si512(&v->codes[p][16 * c]);
                __asm__("" : "+v"(b[c])); /* read once, not for each row */
            }
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
                for (int c = 0; c < n; c++)
                    whole[i][c] = dot2_all(whole[i][c], b[c], &w[i].codes[p]);
        }
#pragma GCC unroll 4
        for (int c = 0; c < n; c++) {
            const __m512 down = _mm512_load_ps(&v->steps[g][16 * c]);
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++) {
                __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(whole[i][c]), down);
                sum[i][c] = _mm512_fmadd_ps(part, _mm512_set1_ps(w[i].steps[g]), sum[i][c]);
            }
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < n; c += 2)
            store_columns(cols - 16 * c, &sum[i][c], y + i * y_stride + 16 * c);
}

static void add_groups(int64_t m, int64_t cols, int64_t begin, int64_t end, const weights *w,
                       const panel *v, float *y, int64_t y_stride) {
    const int64_t step = mk_block_rows(m, W_ROWS);
    for (int64_t i = 0; i < m; i += step, w += step, y += step * y_stride)
        if (cols > 32)
            MK_WITH_ROWS(least(step, m - i), W_ROWS,
                         value_tile(MK_R, COLS, cols, begin, end, w, v, y, y_stride));
        else
            MK_WITH_ROWS(least(step, m - i), W_ROWS,
                         value_tile(MK_R, 2, cols, begin, end, w, v, y, y_stride));
}

/* y [rows, cols] += w [rows] v [cols] of a group, of which w has `codes` and `step`; cols <= 32 */
MK_INLINE void add_group(int rows, bool whole, int64_t cols, const weights *w, int64_t g,
                         const char *v, int64_t stride, float *y, int64_t y_stride) {
    const __mmask32 mask = first_halves(cols);
    const column_steps s = steps_of_group(whole, mask, v, stride);
    __m512i sums[FEW][2];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_si512();
    for (int64_t p = g * GROUP / 2; p < (g + 1) * GROUP / 2; p++, v += 2 * stride) {
        __m512i pair[2];
        pair_of_codes(whole, mask, v, stride, &s, pair);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            sums[i][0] = dot2_all(sums[i][0], pair[0], &w[i].codes[p]);
            sums[i][1] = dot2_all(sums[i][1], pair[1], &w[i].codes[p]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const __m512 step = _mm512_set1_ps(w[i].steps[g]);
        __m512 to[2];
        load_columns(cols, y + i * y_stride, to);
        __m512 even = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i][0]), s.even.down);
        __m512 odd = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i][1]), s.odd.down);
        to[0] = _mm512_fmadd_ps(even, step, to[0]);
        to[1] = _mm512_fmadd_ps(odd, step, to[1]);
        store_columns(cols, to, y + i * y_stride);
    }
}

/* All columns of a group, m <= FEW. */
static void add_few(int64_t m, int64_t dv, const weights *w, int64_t g, const values *v, float *y,
                    int64_t y_stride) {
    for (int64_t c = 0; c < dv; c += 32) {
        const char *first = v->first + 2 * c;
        if (dv - c >= 32)
            MK_WITH_ROWS(m, FEW,
                         add_group(MK_R, true, 32, w, g, first, v->stride, y + c, y_stride));
        else
            MK_WITH_ROWS(m, FEW,
                         add_group(MK_R, false, dv - c, w, g, first, v->stride, y + c, y_stride));
    }
}

/* ---- values in f32 ---- */

/* Rows that are left to f32, and those of y. */
typedef struct lefts {
    const uint16_t *w[ROWS];
    float *y[ROWS];
} lefts;

/* y [cols] += w [n] v [n, cols] for each, keys in rising order from `begin` on, before and behind which all weights are 0 */
MK_INLINE void left_tile(int rows, int64_t begin, int64_t end, int64_t cols, const lefts *left,
                         const values *v) {
    __m512 sum[ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            sum[i][c] = _mm512_maskz_loadu_ps(mask[c], left->y[i] + 16 * c);
    for (int64_t j = begin; j < end; j++) {
        const char *key = v->first + j * v->stride;
        __m512 b[COLS];
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            b[c] = mk_wide_bf16(_mm256_maskz_loadu_epi16(mask[c], key + 32 * c));
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m512 a = _mm512_set1_ps(mk_from_bf16(left->w[i][j]));
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_fmadd_ps(a, b[c], sum[i][c]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            _mm512_mask_storeu_ps(left->y[i] + 16 * c, mask[c], sum[i][c]);
}

/* The same, where it begins and ends being looked for among n <= GROUP keys. */
static void add_left(int64_t rows, int64_t n, int64_t cols, const lefts *left, const values *v) {
    uint32_t some = 0;
    for (int64_t i = 0; i < rows; i++) {
        const __m512i bits = magnitudes(mk_load_halves(left->w[i], n));
        some |= _mm512_test_epi16_mask(bits, bits);
    }
    if (some == 0) return;
    const int64_t begin = __builtin_ctz(some), end = 32 - __builtin_clz(some);
    MK_WITH_ROWS(rows, ROWS, left_tile(MK_R, begin, end, cols, left, v));
}

/* n <= GROUP keys of the rows whose step is 0; of all where there are no codes. */
static void add_lefts(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                      const weights *codes, int64_t g, const values *v, float *y,
                      int64_t y_stride) {
    lefts left;
    int64_t rows = 0;
    for (int64_t i = 0; i < m; i++) {
        if (codes != NULL && !(codes[i].steps[g] == 0)) continue;
        left.w[rows] = w + i * w_stride;
        left.y[rows++] = y + i * y_stride;
        if (rows < ROWS) continue;
        add_left(rows, n, cols, &left, v);
        rows = 0;
    }
    if (rows > 0) add_left(rows, n, cols, &left, v);
}

/* ---- both ---- */

/* y [m, cols] += w [m, n] v [n, cols], n <= DEPTH, cols <= 16 * COLS; codes are of w's whole groups. */
static void add_panel(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                      const weights *codes, unsigned left, const values *v, float *y,
                      int64_t y_stride) {
    _Alignas(64) panel p;
    const int64_t groups = n / GROUP;
    load_panel(groups, cols, v, &p);
    for (int64_t g = 0, next; g < groups; g = next) {
        next = g + 1; /* groups of which no row is left go together */
        while (next < groups && (left >> (next - 1) & 1) == 0)
            next++;
        add_groups(m, cols, g, next, codes, &p, y, y_stride);
        if ((left >> (next - 1) & 1) == 0) continue;
        const values at = values_at(false, v, (next - 1) * GROUP, 0);
        add_lefts(m, GROUP, cols, w + (next - 1) * GROUP, w_stride, codes, next - 1, &at, y,
                  y_stride);
    }
}

/* y [m, dv] += w [m, n] v [n, dv], n <= DEPTH, m <= MOST_ROWS */
static void add_depth(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    weights codes[MOST_ROWS];
    const int64_t groups = n / GROUP, rest = n - groups * GROUP;
    const unsigned left = load_weights(m, groups, w, w_stride, codes);
    for (int64_t g = 0; g < groups && m <= FEW; g++) {
        const values at = values_at(false, v, g * GROUP, 0);
        add_few(m, dv, codes, g, &at, y, y_stride);
        for (int64_t c = 0; c < dv && (left >> g & 1) != 0; c += 16 * COLS) {
            const values part = values_at(false, &at, 0, c);
            add_lefts(m, GROUP, least(16 * COLS, dv - c), w + g * GROUP, w_stride, codes, g, &part,
                      y + c, y_stride);
        }
    }
    for (int64_t c = 0; c < dv; c += 16 * COLS) {
        const int64_t cols = least(16 * COLS, dv - c);
        const values at = values_at(false, v, 0, c);
        if (m > FEW) add_panel(m, n, cols, w, w_stride, codes, left, &at, y + c, y_stride);
        if (rest == 0) continue;
        const values last = values_at(false, &at, groups * GROUP, 0);
        add_lefts(m, rest, cols, w + groups * GROUP, w_stride, NULL, 0, &last, y + c, y_stride);
    }
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)v, NULL, 2 * v_stride, n};
    for (int64_t i = 0; i < m; i += MOST_ROWS)
        for (int64_t j = 0; j < n; j += DEPTH) {
            const values at = values_at(false, &all, j, 0);
            add_depth(least(MOST_ROWS, m - i), least(DEPTH, n - j), dv, w + i * w_stride + j,
                      w_stride, &at, y + i * y_stride, y_stride);
        }
}

/* ---- weights ---- */

/* To nearest even, in the upper half; a NaN stays one. */
MK_INLINE __m512i rounded(__m512 x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                 _mm512_set1_epi32(0x7fc00000));
}

MK_INLINE __m512i two_halves(__m512 a, __m512 b) {
    const __m512i upper =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(rounded(a), upper, rounded(b));
}

#include "cpu/kern/attn_exp_text.h"

void mk_attn_avx512vnni_words(mk_kernels *kernels) {
    kernels->attn_scores = attn_scores;
    kernels->attn_values = attn_values;
    kernels->exp_total_bf16 = exp_total_bf16;
    kernels->bf16_pairs = kernels->words = true;
    kernels->values_together = GROUP;
}

/* Weighted sums of values in int16. For many rows of weights a panel of codes is made and
 * multiplied by all rows. For few rows values are converted as they are read. Sums are exact, so
 * both variants give the same bits.
 *
 * A row's weights of a group are codes only if none of them is 0: the value of a key that the row
 * does not attend to may not determine the step of the others. Groups with a weight of 0 and groups
 * that are not whole are summed in f32, in the order of their keys. */
#include "cpu/kern/attn/attn_int16.h"

#define GROUP MK_INT16_GROUP
#define ROWS 3      /* rows of weights in registers: 3 x 4 sums, as many in f32, 4 operands */
#define WIDE_ROWS 6 /* rows of weights in registers if they are f32 */
#define MAX_ROWS 96 /* max rows of weights converted at once: 24 KiB */
#define DEPTH 128   /* keys whose values are converted at once: 16 KiB for 64 columns */
#define GROUPS (DEPTH / GROUP)

/* ---- codes ---- */

/* A row's weights of up to DEPTH keys, in codes. */
typedef struct weights {
    uint32_t codes[DEPTH / 2];
    float steps[GROUPS];
} weights;

/* Values of up to DEPTH keys in 64 columns, in codes: two keys in 32 bits; of each 32 columns the
 * even ones come first. */
typedef struct panel {
    uint32_t codes[DEPTH / 2][16 * COLS];
    float steps[GROUPS][16 * COLS];
} panel;

/* Converts weights of GROUP keys to codes. If one is 0, sets their step to 0 and returns false. */
MK_INLINE bool load_group(const uint16_t *w, uint32_t *codes, float *step) {
    const __m512i halves = _mm512_loadu_si512(w), bits = magnitudes(halves);
    const bool all = _mm512_test_epi16_mask(bits, bits) == 0xffffffffu;
    const steps s = steps_of(max_of_all(bits), NARROW);
    _mm512_storeu_si512(codes, codes_of(halves, s.up));
    *step = all ? _mm512_cvtss_f32(s.down) : 0;
    return all;
}

/* Converts weights of whole groups. In the result, bit g is set if group g of some row is left to
 * f32. */
static unsigned load_weights(int64_t m, int64_t groups, const uint16_t *w, int64_t w_stride,
                             weights *to) {
    unsigned in_f32 = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t g = 0; g < groups; g++)
            if (!load_group(w + i * w_stride + g * GROUP, to[i].codes + g * GROUP / 2,
                            &to[i].steps[g]))
                in_f32 |= 1u << g;
    return in_f32;
}

/* The steps of GROUP values in 32 columns: even ones, odd ones. */
typedef struct column_steps {
    steps even, odd;
} column_steps;

/* Loads 32 columns of a key, or those that the mask has. */
MK_INLINE __m512i load_columns_of(bool whole, __mmask32 mask, const char *key) {
    return whole ? _mm512_loadu_si512(key) : _mm512_maskz_loadu_epi16(mask, key);
}

MK_INLINE column_steps steps_of_group(bool whole, __mmask32 mask, const char *first,
                                      int64_t stride) {
    __m512i max = _mm512_setzero_si512();
    for (int i = 0; i < GROUP; i++)
        max = _mm512_max_epu16(max, magnitudes(load_columns_of(whole, mask, first + i * stride)));
    return (column_steps){steps_of(_mm512_and_si512(max, _mm512_set1_epi32(0xffff)), WIDE),
                          steps_of(_mm512_srli_epi32(max, 16), WIDE)};
}

/* Packs two keys' codes of the even columns and of the odd ones. Prefetches the same columns of
 * later groups, if there are `left` keys enough. Memory behind the last key mostly has room for
 * later keys, and nothing to prefetch. */
MK_INLINE void pair_of_codes(bool whole, __mmask32 mask, const char *key, int64_t stride,
                             int64_t left, const column_steps *s, __m512i codes[2]) {
    const intptr_t soon = (intptr_t)key + (left > GROUP + 1 ? GROUP * stride : 0);
    const intptr_t later = (intptr_t)key + (left > 3 * GROUP + 1 ? 3 * GROUP * stride : 0);
    __m512i a = load_columns_of(whole, mask, key);
    __m512i b = load_columns_of(whole, mask, key + stride);
    mk_prefetch_near(soon);
    mk_prefetch_near(soon + stride);
    mk_prefetch(later);
    mk_prefetch(later + stride);
    codes[0] = paired_codes(lower_codes(a, s->even.up), lower_codes(b, s->even.up));
    codes[1] = paired_codes(upper_codes(a, s->odd.up), upper_codes(b, s->odd.up));
}

/* Converts GROUP keys' values of 32 columns, or of those that the mask has. */
MK_INLINE void group_to_codes(bool whole, __mmask32 mask, const char *first, int64_t stride,
                              int64_t left, uint32_t *codes, float *to) {
    const column_steps s = steps_of_group(whole, mask, first, stride);
    for (int i = 0; i < GROUP; i += 2, codes += 16 * COLS) {
        __m512i pair[2];
        pair_of_codes(whole, mask, first + i * stride, stride, left - i, &s, pair);
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
            const int64_t left = v->left - g * GROUP;
            uint32_t *codes = to->codes[g * GROUP / 2] + c;
            float *down = to->steps[g] + c;
            if (cols - c >= 32)
                group_to_codes(true, 0, first, v->stride, left, codes, down);
            else
                group_to_codes(false, first_halves(cols - c), first, v->stride, left, codes, down);
        }
}

/* Loads 32 columns of y, of which `cols` exist, as even and odd ones. */
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

/* y [rows, cols] += groups [begin, end) of w times those of the panel; cols <= 16 * n. */
MK_INLINE void value_tile(int rows, int n, int64_t cols, int64_t begin, int64_t end,
                          const weights *w, const panel *v, float *y, int64_t y_stride) {
    __m512 sum[ROWS][COLS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < n; c += 2)
            load_columns(cols - 16 * c, y + i * y_stride + 16 * c, &sum[i][c]);
    for (int64_t g = begin; g < end; g++) {
        __m512i whole[ROWS][COLS];
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int c = 0; c < n; c++)
                whole[i][c] = _mm512_setzero_si512();
        for (int64_t p = g * GROUP / 2; p < (g + 1) * GROUP / 2; p++)
            add_dots(rows, n, &w->codes[p], (int64_t)(sizeof *w / sizeof *w->codes), v->codes[p],
                     whole);
#pragma GCC unroll 4
        for (int c = 0; c < n; c++) {
            const __m512 down = _mm512_load_ps(&v->steps[g][16 * c]);
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++) {
                __m512 part = _mm512_cvtepi32_ps(whole[i][c]);
                part =
                    /* multiply by the smaller step first */
                    _mm512_mul_ps(part, _mm512_set1_ps(w[i].steps[g]));
                sum[i][c] = _mm512_fmadd_ps(part, down, sum[i][c]);
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
    const int64_t step = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += step, w += step, y += step * y_stride)
        if (cols > 32)
            MK_WITH_ROWS(min(step, m - i), ROWS,
                         value_tile(MK_R, COLS, cols, begin, end, w, v, y, y_stride));
        else
            MK_WITH_ROWS(min(step, m - i), ROWS,
                         value_tile(MK_R, 2, cols, begin, end, w, v, y, y_stride));
}

/* y [rows, cols] += group g of w times its values, v, of which `left` keys may be prefetched; cols
 * <= 32. */
MK_INLINE void add_group(int rows, bool whole, int64_t cols, const weights *w, int64_t g,
                         const char *v, int64_t stride, int64_t left, float *y, int64_t y_stride) {
    const __mmask32 mask = first_halves(cols);
    const column_steps s = steps_of_group(whole, mask, v, stride);
    __m512i sums[FEW][2];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_si512();
    for (int64_t p = g * GROUP / 2; p < (g + 1) * GROUP / 2; p++, v += 2 * stride, left -= 2) {
        __m512i pair[2];
        pair_of_codes(whole, mask, v, stride, left, &s, pair);
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
        __m512 even = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i][0]), step);
        __m512 odd = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i][1]), step);
        to[0] = _mm512_fmadd_ps(even, s.even.down, to[0]);
        to[1] = _mm512_fmadd_ps(odd, s.odd.down, to[1]);
        store_columns(cols, to, y + i * y_stride);
    }
}

/* Adds all columns of a group, for m <= FEW. */
static void add_few(int64_t m, int64_t dv, const weights *w, int64_t g, const values *v, float *y,
                    int64_t y_stride) {
    for (int64_t c = 0; c < dv; c += 32) {
        const char *first = v->first + 2 * c;
        if (dv - c >= 32)
            MK_WITH_ROWS(
                m, FEW,
                add_group(MK_R, true, 32, w, g, first, v->stride, v->left, y + c, y_stride));
        else
            MK_WITH_ROWS(
                m, FEW,
                add_group(MK_R, false, dv - c, w, g, first, v->stride, v->left, y + c, y_stride));
    }
}

/* ---- groups in f32 ---- */

/* The rows of weights left to f32, and their rows of y. */
typedef struct wide_rows {
    const uint16_t *w[WIDE_ROWS];
    float *y[WIDE_ROWS];
} wide_rows;

/* y [cols] += w [n] v [n, cols] for each row, keys in rising order. Weights before `begin` and from
 * `end` on are 0. */
MK_INLINE void wide_tile(int rows, int64_t begin, int64_t end, int64_t cols, const wide_rows *in,
                         const values *v) {
    __m512 sum[WIDE_ROWS][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            sum[i][c] = _mm512_maskz_loadu_ps(mask[c], in->y[i] + 16 * c);
    for (int64_t j = begin; j < end; j++) {
        const char *key = v->first + j * v->stride;
        __m512 b[COLS];
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            b[c] = mk_wide_bf16(_mm256_maskz_loadu_epi16(mask[c], key + 32 * c));
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m512 a = _mm512_set1_ps(mk_from_bf16(in->w[i][j]));
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_fmadd_ps(a, b[c], sum[i][c]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            _mm512_mask_storeu_ps(in->y[i] + 16 * c, mask[c], sum[i][c]);
}

/* The same, with begin and end found among n <= GROUP keys. */
static void add_wide_rows(int64_t rows, int64_t n, int64_t cols, const wide_rows *in,
                          const values *v) {
    uint32_t some = 0;
    for (int64_t i = 0; i < rows; i++) {
        const __m512i bits = magnitudes(mk_load_halves(in->w[i], n));
        some |= _mm512_test_epi16_mask(bits, bits);
    }
    if (some == 0) return;
    const int64_t begin = __builtin_ctz(some), end = 32 - __builtin_clz(some);
    MK_WITH_ROWS(rows, WIDE_ROWS, wide_tile(MK_R, begin, end, cols, in, v));
}

/* Adds n <= GROUP keys for the rows whose step is 0, or for all rows if there are no codes. */
static void add_wide(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                     const weights *codes, int64_t g, const values *v, float *y, int64_t y_stride) {
    wide_rows in;
    int64_t rows = 0;
    for (int64_t i = 0; i < m; i++) {
        if (codes && !(codes[i].steps[g] == 0)) continue;
        in.w[rows] = w + i * w_stride;
        in.y[rows++] = y + i * y_stride;
        if (rows < WIDE_ROWS) continue;
        add_wide_rows(rows, n, cols, &in, v);
        rows = 0;
    }
    if (rows > 0) add_wide_rows(rows, n, cols, &in, v);
}

/* ---- both variants ---- */

/* y [m, cols] += w [m, n] v [n, cols] of whole groups, n <= DEPTH, cols <= 16 * COLS. w is in
 * `codes`, except for groups g of rows left to f32, which bit g of `in_f32` shows. */
static void add_panel(int64_t m, int64_t n, int64_t cols, const uint16_t *w, int64_t w_stride,
                      const weights *codes, unsigned in_f32, const values *v, float *y,
                      int64_t y_stride) {
    _Alignas(64) panel p;
    const int64_t groups = n / GROUP;
    load_panel(groups, cols, v, &p);
    for (int64_t g = 0, next; g < groups; g = next) {
        next = g + 1; /* consecutive groups with no row left to f32 are added together */
        while (next < groups && (in_f32 >> (next - 1) & 1) == 0)
            next++;
        add_groups(m, cols, g, next, codes, &p, y, y_stride);
        if ((in_f32 >> (next - 1) & 1) == 0) continue;
        const values at = values_at(false, v, (next - 1) * GROUP, 0);
        add_wide(m, GROUP, cols, w + (next - 1) * GROUP, w_stride, codes, next - 1, &at, y,
                 y_stride);
    }
}

/* y [m, dv] += w [m, n] v [n, dv], n <= DEPTH, m <= MAX_ROWS */
static void add_depth(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                      const values *v, float *y, int64_t y_stride) {
    weights codes[MAX_ROWS];
    const int64_t groups = n / GROUP, rest = n - groups * GROUP;
    const unsigned in_f32 = load_weights(m, groups, w, w_stride, codes);
    for (int64_t g = 0; g < groups && m <= FEW; g++) {
        const values at = values_at(false, v, g * GROUP, 0);
        add_few(m, dv, codes, g, &at, y, y_stride);
        for (int64_t c = 0; c < dv && (in_f32 >> g & 1) != 0; c += 16 * COLS) {
            const values part = values_at(false, &at, 0, c);
            add_wide(m, GROUP, min(16 * COLS, dv - c), w + g * GROUP, w_stride, codes, g, &part,
                     y + c, y_stride);
        }
    }
    for (int64_t c = 0; c < dv; c += 16 * COLS) {
        const int64_t cols = min(16 * COLS, dv - c);
        const values at = values_at(false, v, 0, c);
        if (m > FEW) add_panel(m, n, cols, w, w_stride, codes, in_f32, &at, y + c, y_stride);
        if (rest == 0) continue;
        const values last = values_at(false, &at, groups * GROUP, 0);
        add_wide(m, rest, cols, w + groups * GROUP, w_stride, NULL, 0, &last, y + c, y_stride);
    }
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)v, NULL, 2 * v_stride, n};
    const int64_t step = mk_block_rows(m, MAX_ROWS);
    for (int64_t i = 0; i < m; i += step)
        for (int64_t j = 0; j < n; j += DEPTH) {
            const values at = values_at(false, &all, j, 0);
            add_depth(min(step, m - i), min(DEPTH, n - j), dv, w + i * w_stride + j, w_stride, &at,
                      y + i * y_stride, y_stride);
        }
}

void mk_attn_int16_values(mk_kernels *kernels) {
    kernels->attn_values = attn_values;
}

/* AVX-512 VNNI: fast products by way of tiles.
 *
 * Winograd tiles (int8_list.h) put two additions of bytes in the place of one multiplication. Where
 * additions have units of their own, beside those that multiply, products are a quarter faster. */
#include "cpu/kern/int8/int8_avx512vnni_rows.h"

/* Codes of 16 rows to a tile; offsets: NULL, or a Winograd tile's. */
MK_INLINE void unpack_codes(form f, bool winograd, const mk_qrows *w, lanes l, uint8_t *to,
                            int32_t *offsets) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    bool nibbles = f == NIBBLES || f == E2M1;
    __m512i sum = _mm512_setzero_si512();
    columns c;
    row_copy copy;
    columns_begin(&c, w, &l);
    for (int64_t at = 0; at < w->k;) {
        __m512i words[4];
        columns_copy(&c, c.at, 0, &copy);
        columns_next(f, &c, words);
        for (int i = 0; i < 4 && at < w->k; i += nibbles ? 1 : 2, at += 8) {
            __m512i even = words[i], odd = words[nibbles ? i : i + 1];
            if (nibbles) take_apart(f, words[i], &even, &odd);
            if (winograd) {
                odd = _mm512_or_si512(odd, top);
                sum = dot4(sum, odd, even);
            }
            _mm512_storeu_si512(to + at * LANES, even);
            _mm512_storeu_si512(to + (at + 4) * LANES, odd);
            if (!winograd || (at + 8) % w->group != 0) continue;
            _mm512_storeu_si512(offsets, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
            offsets += LANES;
            sum = _mm512_setzero_si512();
        }
    }
}

typedef void (*unpack_fn)(const mk_qrows *w, const lanes *l, uint8_t *to, int32_t *offsets);

#define UNPACK(form, winograd)                                                             \
    static void unpack_##form##_##winograd(const mk_qrows *w, const lanes *l, uint8_t *to, \
                                           int32_t *offsets) {                             \
        unpack_codes(form, winograd, w, *l, to, offsets);                                  \
    }
UNPACK(NIBBLES, false)
UNPACK(NIBBLES, true)
UNPACK(E2M1, false)
UNPACK(E2M1, true)
UNPACK(BYTES, false)
UNPACK(BITS, false)
UNPACK(BITS, true)

static const unpack_fn unpack_fns[][2] = {[NIBBLES] = {unpack_NIBBLES_false, unpack_NIBBLES_true},
                                          [E2M1] = {unpack_E2M1_false, unpack_E2M1_true},
                                          [BYTES] = {unpack_BYTES_false},
                                          [BITS] = {unpack_BITS_false, unpack_BITS_true}};

static void unpack_scales(const mk_qrows *w, const lanes *l, float *to) {
    int64_t groups = w->k / w->group;
    for (int64_t g = 0; g < groups; g += STAGE) {
        stage st;
        int64_t count = groups - g < STAGE ? groups - g : STAGE;
        fill_stage(w, l, g, count, true, &st);
        for (int64_t i = 0; i < count; i++, to += 2 * LANES) {
            _mm512_storeu_ps(to, st.scales[i]);
            _mm512_storeu_ps(to + LANES, st.biases[i]);
        }
    }
}

/* Lanes of words that are not there are 0. */
static void clear_lanes(__mmask16 there, void *words, int64_t count) {
    for (char *at = words; count > 0; count -= LANES, at += sizeof(__m512i))
        _mm512_storeu_si512(at, _mm512_maskz_loadu_epi32(there, at));
}

void mk_int8_pack_avx512vnni(const mk_qrows *w, int64_t n, mk_tiles *tiles) {
    int64_t groups = w->k / w->group;
    form f = form_of(w);
    tiles->max = mk_max_code(w->mode, w->bits);
    if (!mk_has_winograd(tiles->max)) tiles->winograd = false;
    for (int64_t r = 0; r < n; r += LANES) {
        lanes l = lanes_of(w, n, r);
        uint8_t *codes = tiles->codes + r * w->k;
        float *scales = tiles->scales + 2 * r * groups;
        int32_t *offsets = tiles->winograd ? tiles->offsets + r * groups : NULL;
        unpack_fns[f][tiles->winograd](w, &l, codes, offsets);
        unpack_scales(w, &l, scales);
        if (n - r >= LANES) continue;
        clear_lanes(mk_first(n - r), codes, w->k / 4 * LANES);
        clear_lanes(mk_first(n - r), scales, 2 * groups * LANES);
        if (tiles->winograd) clear_lanes(mk_first(n - r), offsets, groups * LANES);
    }
}

#define DEPTH 4096 /* codes of a tile that are met by all rows of x before the next */
#define HIGH 8     /* rows of x in flight */
#define WIDE 2     /* tiles */

/* A part of a product: groups first .. first + count - 1 of `wide` tiles, m rows of x. */
typedef struct part {
    mk_xrows x; /* from the first row */
    mk_tiles tiles;
    int64_t first, count;
    float *y;
    int64_t y_stride, n; /* columns of y that are there */
} part;

/* Loops over rows are unrolled, so that sums are in registers. gcc does so itself; clang, which
 * compiles what is published, keeps an array in memory where it leaves one of its loops. */
#if defined(__clang__)
#define MK_ROWS_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define MK_ROWS_UNROLLED
#endif

/* Sums of a group's codes, for m rows of x from a on, `count` tiles. */
MK_INLINE void dot_tiles(int m, int wide, const mk_xrows *x, const int8_t *a, const uint8_t *codes,
                         __m512i dot[HIGH][WIDE]) {
    MK_ROWS_UNROLLED
    for (int i = 0; i < m; i++)
        for (int j = 0; j < wide; j++)
            dot[i][j] = _mm512_setzero_si512();
    for (int l = 0; l < x->group; l += 4, a += 4, codes += 4 * LANES) {
        __m512i w[WIDE];
        for (int j = 0; j < wide; j++)
            w[j] = _mm512_loadu_si512(codes + j * LANES * x->k);
        MK_ROWS_UNROLLED
        for (int i = 0; i < m; i++) {
            __m512i all = all_of(a + i * x->k);
            __asm__("" : "+v"(all)); /* one load for all tiles, not one for each product */
            for (int j = 0; j < wide; j++)
                dot[i][j] = dot4(dot[i][j], w[j], all);
        }
    }
}

/* The same of Winograd tiles. winograd, offsets: the group's; rows and tiles are `groups` apart. */
MK_INLINE void dot_winograd(int m, int wide, const mk_xrows *x, const int8_t *a,
                            const uint8_t *codes, const int32_t *winograd, const int32_t *offsets,
                            int64_t groups, __m512i dot[HIGH][WIDE]) {
    for (int j = 0; j < wide; j++) {
        __m512i offset = _mm512_loadu_si512(offsets + j * LANES * groups);
        MK_ROWS_UNROLLED
        for (int i = 0; i < m; i++)
            dot[i][j] = _mm512_sub_epi32(offset, _mm512_set1_epi32(winograd[i * groups]));
    }
    for (int l = 0; l < x->group; l += 8, a += 8, codes += 8 * LANES) {
        __m512i even[WIDE], odd[WIDE];
        for (int j = 0; j < wide; j++) {
            even[j] = _mm512_loadu_si512(codes + j * LANES * x->k);
            odd[j] = _mm512_loadu_si512(codes + j * LANES * x->k + 4 * LANES);
        }
        MK_ROWS_UNROLLED
        for (int i = 0; i < m; i++) {
            __m512i x_even = all_of(a + i * x->k), x_odd = all_of(a + i * x->k + 4);
            for (int j = 0; j < wide; j++)
                dot[i][j] = dot4(dot[i][j], _mm512_add_epi8(x_even, odd[j]),
                                 _mm512_add_epi8(x_odd, even[j]));
        }
    }
}

MK_INLINE void tile_matmul(bool winograd, int m, int wide, const part *p) {
    const mk_xrows *x = &p->x;
    int64_t groups = x->k / x->group;
    __m512 sum[HIGH][WIDE];
    MK_ROWS_UNROLLED
    for (int i = 0; i < m; i++)
        for (int j = 0; j < wide; j++)
            sum[i][j] = p->first == 0 ? _mm512_setzero_ps()
                                      : _mm512_maskz_loadu_ps(mk_first(p->n - j * LANES),
                                                              p->y + i * p->y_stride + j * LANES);
    MK_ROWS_UNROLLED
    for (int i = 0; i < m; i++) /* a row's lines of y are a row apart: stores would wait for each */
        for (int j = 0; j < wide; j++)
            __builtin_prefetch(p->y + i * p->y_stride + j * LANES, 1);
    const uint8_t *codes = p->tiles.codes + p->first * x->group * LANES;
    const float *scales = p->tiles.scales + p->first * 2 * LANES;
    const int8_t *a = x->codes + p->first * x->group;
    for (int64_t g = p->first; g < p->first + p->count; g++, scales += 2 * LANES) {
        __m512i dot[HIGH][WIDE];
        if (winograd)
            dot_winograd(m, wide, x, a, codes, x->winograd + g, p->tiles.offsets + g * LANES,
                         groups, dot);
        else
            dot_tiles(m, wide, x, a, codes, dot);
        a += x->group;
        codes += x->group * LANES;
        __m512 scale[WIDE], bias[WIDE];
        for (int j = 0; j < wide; j++) {
            scale[j] = _mm512_loadu_ps(scales + j * LANES * 2 * groups);
            bias[j] = _mm512_loadu_ps(scales + j * LANES * 2 * groups + LANES);
        }
        const float *x_scale = x->scales + g, *x_sum = x->sums + g;
        MK_ROWS_UNROLLED
        for (int i = 0; i < m; i++, x_scale += groups, x_sum += groups) {
            __asm__("" : "+r"(x_scale), "+r"(x_sum)); /* not all rows' addresses at once */
            for (int j = 0; j < wide; j++)
                sum[i][j] = add_group(sum[i][j], dot[i][j], scale[j], bias[j], *x_scale, *x_sum);
        }
    }
    MK_ROWS_UNROLLED
    for (int i = 0; i < m; i++)
        for (int j = 0; j < wide; j++)
            _mm512_mask_storeu_ps(p->y + i * p->y_stride + j * LANES, mk_first(p->n - j * LANES),
                                  sum[i][j]);
}

#define TILES(m)                                  \
    static void tiles_##m##_1(const part *p) {    \
        tile_matmul(false, m, 1, p);              \
    }                                             \
    static void tiles_##m##_2(const part *p) {    \
        tile_matmul(false, m, 2, p);              \
    }                                             \
    static void winograd_##m##_1(const part *p) { \
        tile_matmul(true, m, 1, p);               \
    }                                             \
    static void winograd_##m##_2(const part *p) { \
        tile_matmul(true, m, 2, p);               \
    }
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
TILES(7)
TILES(8)

#define TILES_OF(m)                          \
    {                                        \
        {tiles_##m##_1, winograd_##m##_1}, { \
            tiles_##m##_2, winograd_##m##_2  \
        }                                    \
    }
static void (*const tile_fns[HIGH][WIDE][2])(const part *p) = {
    TILES_OF(1), TILES_OF(2), TILES_OF(3), TILES_OF(4),
    TILES_OF(5), TILES_OF(6), TILES_OF(7), TILES_OF(8)};

void mk_int8_matmul_avx512vnni(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles,
                               float *y, int64_t y_stride) {
    int64_t groups = x->k / x->group, depth = DEPTH / x->group;
    for (int64_t j = 0; j < n; j += WIDE * LANES) {
        int64_t wide = n - j > LANES ? 2 : 1;
        for (int64_t g = 0; g < groups; g += depth) {
            /* Rows in parts of like size: few rows keep the multipliers waiting. */
            int64_t parts = (m + HIGH - 1) / HIGH;
            for (int64_t i = 0, count; i < m; i += count, parts--) {
                count = (m - i + parts - 1) / parts;
                part p = {.x = mk_xrows_at(x, i),
                          .tiles = mk_tiles_at(tiles, j, x->k, x->group),
                          .first = g,
                          .count = groups - g < depth ? groups - g : depth,
                          .y = y + i * y_stride + j,
                          .y_stride = y_stride,
                          .n = n - j};
                tile_fns[count - 1][wide - 1][tiles->winograd](&p);
            }
        }
    }
}

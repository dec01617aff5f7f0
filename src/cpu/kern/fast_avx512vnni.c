/* AVX-512 VNNI: the fast products with a row of weights in each lane.
 *
 * 16 rows are turned over, so that a register holds four codes of each of them; vpdpbusd multiplies
 * these with four codes of x that are broadcast. A group's sums need no joining of lanes, and its
 * scales are a register too.
 *
 * Rows are read 128 codes at a time. Of 4 bits, 64 bytes of a row are turned over as they lie: a
 * register then holds words of 8 codes, whose even and odd ones are taken apart by masks. The odd
 * ones stay where they are, 16 times too large, and the sum is shifted. Of other widths, codes are
 * made bytes before they are turned over. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/fast.h"

#include <stddef.h>

#define LANES MK_TILE
#define BLOCK 128 /* codes of a row that are turned over together */
#define STAGE 16  /* groups whose scales are turned over together */
#define STREAMED 8

/* 16 rows of weights; those that are not there are others again, whose results are not stored. */
typedef struct lanes {
    const uint8_t *codes[LANES];
    int64_t row[LANES];
    const char *next;     /* the rows after these, fetched meanwhile, in the order they lie in */
    int64_t scales_ahead; /* from a row's scales to those to fetch */
} lanes;

/* Scales and biases of some groups, f32. */
typedef struct stage {
    __m512 scales[STAGE], biases[STAGE];
} stage;

static lanes lanes_of(const mk_qrows *w, int64_t n, int64_t r) {
    lanes l;
    for (int64_t i = 0; i < LANES; i++) {
        l.row[i] = r + i < n ? r + i : n - 1;
        l.codes[i] = (const uint8_t *)(w->codes + l.row[i] * w->codes_stride);
    }
    /* The last rows fetch themselves, or, where there are few, what follows: a fetch cannot fail. */
    l.next = (const char *)l.codes[0] + (r + 2 * LANES <= n ? LANES * w->codes_stride * 4 : 0);
    l.scales_ahead = r + 2 * LANES <= n ? LANES * w->scales_stride : 0;
    return l;
}

/* 16 x 16 words turned over. */
MK_INLINE void turn(__m512i r[16]) {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* r[4 i + c] has words c, 4 + c, 8 + c, 12 + c of rows 4 i .. 4 i + 3 */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        __m512i even_lo = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        __m512i even_hi = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        __m512i odd_lo = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        __m512i odd_hi = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
        r[c] = _mm512_shuffle_i32x4(even_lo, even_hi, 0x88);
        r[4 + c] = _mm512_shuffle_i32x4(odd_lo, odd_hi, 0x88);
        r[8 + c] = _mm512_shuffle_i32x4(even_lo, even_hi, 0xdd);
        r[12 + c] = _mm512_shuffle_i32x4(odd_lo, odd_hi, 0xdd);
    }
}

/* ---- scales ---- */

/* Scales and biases of 16 bits, a pair a word. */
MK_INLINE void stage_halves(const mk_qrows *w, const lanes *l, int64_t g, int64_t count,
                            stage *st) {
    __mmask16 mask = mk_first(count);
    __m512i r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        int64_t at = l->row[i] * w->scales_stride + g;
        __m256i scale = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)w->scales + at);
        __m256i bias = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)w->biases + at);
        int64_t ahead = 2 * (at + l->scales_ahead);
        _mm_prefetch((const char *)w->scales + ahead, _MM_HINT_T1);
        _mm_prefetch((const char *)w->biases + ahead, _MM_HINT_T1);
        r[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(scale),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(bias), 16));
    }
    turn(r);
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    for (int64_t i = 0; i < count; i++) {
        if (w->type == MK_BF16) {
            st->scales[i] = _mm512_castsi512_ps(_mm512_slli_epi32(r[i], 16));
            st->biases[i] = _mm512_castsi512_ps(_mm512_and_si512(r[i], high));
        } else {
            st->scales[i] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(r[i]));
            st->biases[i] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(r[i], 16)));
        }
    }
}

static void stage_floats(const mk_qrows *w, const lanes *l, int64_t g, int64_t count, stage *st) {
    __mmask16 mask = mk_first(count);
    __m512i scales[LANES], biases[LANES];
    for (int i = 0; i < LANES; i++) {
        int64_t at = l->row[i] * w->scales_stride + g;
        scales[i] = _mm512_maskz_loadu_epi32(mask, (const float *)w->scales + at);
        biases[i] = _mm512_maskz_loadu_epi32(mask, (const float *)w->biases + at);
    }
    turn(scales);
    turn(biases);
    for (int64_t i = 0; i < count; i++) {
        st->scales[i] = _mm512_castsi512_ps(scales[i]);
        st->biases[i] = _mm512_castsi512_ps(biases[i]);
    }
}

/* E8M0: 0 is 2^-127, 255 is NaN. */
MK_INLINE __m512 from_e8m0(__m512i v) {
    __m512i bits = _mm512_slli_epi32(v, 23);
    bits = _mm512_mask_mov_epi32(bits, _mm512_testn_epi32_mask(v, v), _mm512_set1_epi32(0x400000));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(v, _mm512_set1_epi32(255));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
}

MK_INLINE __m512 from_e4m3(__m512i v) {
    __m512i rest = _mm512_and_si512(v, _mm512_set1_epi32(0x7f));
    __m512 size = _mm512_castsi512_ps(_mm512_slli_epi32(rest, 20));
    size = _mm512_mul_ps(size, _mm512_set1_ps(0x1p120f));
    __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(v, rest), 24);
    __mmask16 nan = _mm512_cmpeq_epi32_mask(rest, _mm512_set1_epi32(0x7f));
    __m512i bits = _mm512_or_si512(_mm512_castps_si512(size), sign);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
}

static void stage_bytes(const mk_qrows *w, const lanes *l, int64_t g, int64_t count, stage *st) {
    __m512i r[LANES];
    for (int i = 0; i < LANES; i++) {
        const uint8_t *scales = (const uint8_t *)w->scales + l->row[i] * w->scales_stride + g;
        r[i] = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mk_first(count), scales));
    }
    turn(r);
    for (int64_t i = 0; i < count; i++) {
        __m512 scale = w->mode == MK_NVFP4 ? from_e4m3(r[i]) : from_e8m0(r[i]);
        st->scales[i] = _mm512_mul_ps(scale, _mm512_set1_ps(0.5f));
        st->biases[i] = _mm512_mul_ps(st->scales[i], _mm512_set1_ps(-MK_FAST_E2M1_ZERO));
    }
}

static void fill_stage(const mk_qrows *w, const lanes *l, int64_t g, int64_t count, stage *st) {
    if (w->mode != MK_AFFINE)
        stage_bytes(w, l, g, count, st);
    else if (w->type == MK_F32)
        stage_floats(w, l, g, count, st);
    else
        stage_halves(w, l, g, count, st);
}

/* ---- codes ---- */

/* How a block of codes becomes registers. */
typedef enum form {
    NIBBLES, /* words of 8 codes as they are */
    E2M1,    /* the same, codes of an fp mode */
    BYTES,   /* words of 4 codes of 8 bits */
    BITS     /* other widths, made bytes */
} form;

static form form_of(const mk_qrows *w) {
    if (w->mode != MK_AFFINE) return E2M1;
    return w->bits == 4 ? NIBBLES : w->bits == 8 ? BYTES : BITS;
}

/* 64 codes of `bits` bits: each 8 of them are `bits` bytes, which go to 8 bytes of their own. */
typedef struct spreader {
    __m512i bytes, shifts, mask;
    __mmask64 load;
} spreader;

static spreader spreader_of(int bits) {
    uint8_t bytes[64], shifts[64];
    for (int i = 0; i < 64; i++) {
        bytes[i] = (uint8_t)(i / 8 * bits + (i % 8 < bits ? i % 8 : 0));
        shifts[i] = (uint8_t)(i % 8 * bits);
    }
    return (spreader){
        .bytes = _mm512_loadu_si512(bytes),
        .shifts = _mm512_loadu_si512(shifts),
        .mask = _mm512_set1_epi8((char)((1 << bits) - 1)),
        .load = ~(__mmask64)0 >> (64 - 8 * bits),
    };
}

/* 64 bytes of codes of every row from byte `at`, of which `words` words are there. */
MK_INLINE void read_words(const lanes *l, int64_t at, int64_t words, __m512i r[LANES]) {
    __mmask16 mask = mk_first(words);
    const char *next = l->next + at * LANES;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const uint8_t *from = l->codes[i] + at;
        r[i] = words >= 16 ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(mask, from);
        _mm_prefetch(next + 64 * i, _MM_HINT_T1);
    }
    turn(r);
}

/* 64 codes of every row. Half of that or all are there: k is a multiple of 32. */
MK_INLINE void read_bits(const lanes *l, const spreader *s, int64_t at, bool whole,
                         __m512i r[LANES]) {
    __mmask64 load = whole ? s->load : s->load >> (__builtin_popcountll(s->load) / 2);
    const char *next = l->next + at * LANES;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const uint8_t *from = l->codes[i] + at;
        __m512i v = _mm512_maskz_loadu_epi8(load, from);
        v = _mm512_multishift_epi64_epi8(s->shifts, _mm512_permutexvar_epi8(s->bytes, v));
        r[i] = _mm512_and_si512(v, s->mask);
        _mm_prefetch(next + 64 * i, _MM_HINT_T1);
    }
    turn(r);
}

/* Codes at .. at + count - 1 of every row, count <= BLOCK, turned over: 16 registers of 8 codes for
 * 4 bits, 32 registers of 4 for the others. */
MK_INLINE void read_block(form f, const lanes *l, const spreader *s, int bits, int64_t at,
                          int64_t count, __m512i *block) {
    int64_t byte = at * bits / 8;
    if (f == NIBBLES || f == E2M1) {
        read_words(l, byte, count / 8, block);
    } else if (f == BYTES) {
        read_words(l, byte, count / 4, block);
        if (count > 64) read_words(l, byte + 64, count / 4 - 16, block + 16);
    } else {
        read_bits(l, s, byte, count >= 64, block);
        if (count > 64) read_bits(l, s, byte + 8 * bits, count >= 128, block + 16);
    }
}

/* The even codes of words of 8; the odd ones, for NIBBLES 16 times too large. */
MK_INLINE void take_apart(form f, __m512i words, __m512i *even, __m512i *odd) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    const __m512i low = _mm512_set1_epi8(0x0f);
    *even = _mm512_and_si512(words, low);
    *odd = _mm512_andnot_si512(low, words);
    if (f == NIBBLES) return;
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)e2m1));
    *even = _mm512_shuffle_epi8(table, *even);
    *odd = _mm512_shuffle_epi8(table, _mm512_srli_epi16(*odd, 4));
}

/* ---- products ---- */

MK_INLINE __m512i four_codes(const int8_t *x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_set1_epi32(word);
}

MK_INLINE __m512 add_group(__m512 y, __m512i dot, __m512 scale, __m512 bias, float x_scale,
                           float x_sum) {
    y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, _mm512_set1_ps(x_scale)), y);
    return _mm512_fmadd_ps(bias, _mm512_set1_ps(x_sum), y);
}

/* Sums of one group's products with m rows of x, `stride` codes apart. */
MK_INLINE void dot_group(form f, const __m512i *block, int group, int m, const int8_t *x,
                         int64_t stride, __m512i *dot) {
    __m512i even[STREAMED], odd[STREAMED];
    for (int i = 0; i < m; i++)
        even[i] = odd[i] = _mm512_setzero_si512();
    for (int at = 0; at < group; at += 8) {
        __m512i w_even, w_odd;
        if (f == NIBBLES || f == E2M1) {
            take_apart(f, block[at / 8], &w_even, &w_odd);
        } else {
            w_even = block[at / 4];
            w_odd = block[at / 4 + 1];
        }
        for (int i = 0; i < m; i++) {
            const int8_t *a = x + i * stride + at;
            even[i] = _mm512_dpbusd_epi32(even[i], w_even, four_codes(a));
            odd[i] = _mm512_dpbusd_epi32(odd[i], w_odd, four_codes(a + 4));
        }
    }
    for (int i = 0; i < m; i++) {
        __m512i rest = f == NIBBLES ? _mm512_srai_epi32(odd[i], 4) : odd[i];
        dot[i] = _mm512_add_epi32(even[i], rest);
    }
}

/* y[m, 16] of the rows in l. */
MK_INLINE void rows_product(form f, int group, const mk_qrows *w, const lanes *l, int m,
                            const mk_xrows *x, __m512 *y) {
    spreader s = spreader_of(f == BITS ? w->bits : 8);
    int64_t groups = w->k / group;
    __m512 sum[STREAMED];
    for (int i = 0; i < m; i++)
        sum[i] = _mm512_setzero_ps();
    for (int64_t first = 0; first < groups; first += STAGE) {
        stage st;
        int64_t staged = groups - first < STAGE ? groups - first : STAGE;
        fill_stage(w, l, first, staged, &st);
        for (int64_t g = 0; g < staged; g += BLOCK / group) {
            __m512i block[BLOCK / 4];
            int64_t at = (first + g) * group, count = w->k - at < BLOCK ? w->k - at : BLOCK;
            read_block(f, l, &s, w->bits, at, count, block);
            for (int b = 0; b < count / group; b++) {
                __m512i dot[STREAMED];
                int64_t in = first + g + b;
                dot_group(f, block + b * group / (f == NIBBLES || f == E2M1 ? 8 : 4), group, m,
                          x->codes + in * group, x->k, dot);
                for (int i = 0; i < m; i++)
                    sum[i] = add_group(sum[i], dot[i], st.scales[g + b], st.biases[g + b],
                                       x->scales[i * groups + in], x->sums[i * groups + in]);
            }
        }
    }
    for (int i = 0; i < m; i++)
        y[i] = sum[i];
}

/* Few rows of x have loops made for each group, which is worth a sixth of the time. */
MK_INLINE void rows_form(form f, const mk_qrows *w, const lanes *l, int m, const mk_xrows *x,
                         __m512 *y) {
    if (m > 4 || w->group == 16)
        rows_product(f, w->group, w, l, m, x, y);
    else if (w->group == 32)
        rows_product(f, 32, w, l, m, x, y);
    else if (w->group == 64)
        rows_product(f, 64, w, l, m, x, y);
    else
        rows_product(f, 128, w, l, m, x, y);
}

typedef void (*rows_fn)(const mk_qrows *w, const lanes *l, const mk_xrows *x, __m512 *y);

#define ROWS(form, m)                                                                   \
    static void rows_##form##_##m(const mk_qrows *w, const lanes *l, const mk_xrows *x, \
                                  __m512 *y) {                                          \
        rows_form(form, w, l, m, x, y);                                                 \
    }
#define EACH_ROWS(form) \
    ROWS(form, 1)       \
    ROWS(form, 2)       \
    ROWS(form, 3)       \
    ROWS(form, 4)       \
    ROWS(form, 5) ROWS(form, 6) ROWS(form, 7) ROWS(form, 8)
EACH_ROWS(NIBBLES)
EACH_ROWS(E2M1)
EACH_ROWS(BYTES)
EACH_ROWS(BITS)

#define ROWS_OF(form)                                                             \
    [form] = {rows_##form##_1, rows_##form##_2, rows_##form##_3, rows_##form##_4, \
              rows_##form##_5, rows_##form##_6, rows_##form##_7, rows_##form##_8}
static const rows_fn rows_fns[][STREAMED] = {ROWS_OF(NIBBLES), ROWS_OF(E2M1), ROWS_OF(BYTES),
                                             ROWS_OF(BITS)};

static void matvec(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                   int64_t y_stride) {
    form f = form_of(w);
    int64_t groups = w->k / w->group;
    for (int64_t i = 0; i < m; i += STREAMED) {
        int64_t count = m - i < STREAMED ? m - i : STREAMED;
        mk_xrows part = *x;
        part.codes += i * x->k;
        part.scales += i * groups;
        part.sums += i * groups;
        for (int64_t r = 0; r < n; r += LANES) {
            lanes l = lanes_of(w, n, r);
            __m512 sums[STREAMED];
            rows_fns[f][count - 1](w, &l, &part, sums);
            for (int64_t c = 0; c < count; c++)
                _mm512_mask_storeu_ps(y + (i + c) * y_stride + r, mk_first(n - r), sums[c]);
        }
    }
}

/* ---- tiles ---- */

MK_INLINE void unpack_codes(form f, const mk_qrows *w, const lanes *l, __mmask16 there,
                            uint8_t *to) {
    spreader s = spreader_of(f == BITS ? w->bits : 8);
    for (int64_t at = 0; at < w->k; at += BLOCK) {
        __m512i block[BLOCK / 4];
        int64_t count = w->k - at < BLOCK ? w->k - at : BLOCK;
        read_block(f, l, &s, w->bits, at, count, block);
        for (int64_t i = 0; i < count / 8; i++, to += 8 * LANES) {
            __m512i even, odd;
            if (f == NIBBLES || f == E2M1) {
                take_apart(f, block[i], &even, &odd);
                if (f == NIBBLES) odd = _mm512_srli_epi16(odd, 4);
            } else {
                even = block[2 * i];
                odd = block[2 * i + 1];
            }
            _mm512_storeu_si512(to, _mm512_maskz_mov_epi32(there, even));
            _mm512_storeu_si512(to + 4 * LANES, _mm512_maskz_mov_epi32(there, odd));
        }
    }
}

static void unpack(const mk_qrows *w, int64_t n, mk_tiles *tiles) {
    int64_t groups = w->k / w->group;
    form f = form_of(w);
    tiles->bits = f == E2M1 ? MK_FAST_E2M1_BITS : w->bits;
    for (int64_t r = 0; r < n; r += LANES) {
        lanes l = lanes_of(w, n, r);
        __mmask16 there = mk_first(n - r);
        uint8_t *to = tiles->codes + r * w->k;
        if (f == NIBBLES)
            unpack_codes(NIBBLES, w, &l, there, to);
        else if (f == E2M1)
            unpack_codes(E2M1, w, &l, there, to);
        else if (f == BYTES)
            unpack_codes(BYTES, w, &l, there, to);
        else
            unpack_codes(BITS, w, &l, there, to);
        float *scales = tiles->scales + 2 * r * groups;
        for (int64_t g = 0; g < groups; g += STAGE) {
            stage st;
            int64_t count = groups - g < STAGE ? groups - g : STAGE;
            fill_stage(w, &l, g, count, &st);
            for (int64_t i = 0; i < count; i++, scales += 2 * LANES) {
                _mm512_storeu_ps(scales, _mm512_maskz_mov_ps(there, st.scales[i]));
                _mm512_storeu_ps(scales + LANES, _mm512_maskz_mov_ps(there, st.biases[i]));
            }
        }
    }
}

#define DEPTH 512 /* codes of a tile that are met by all rows of x before the next */
#define HIGH 8    /* rows of x in flight */
#define WIDE 2    /* tiles */

/* A part of a product: groups first .. first + count - 1 of `wide` tiles, m rows of x. */
typedef struct part {
    const mk_xrows *x; /* from the first row */
    const mk_tiles *tiles;
    int64_t first, count;
    float *y;
    int64_t y_stride, n; /* columns of y that are there */
} part;

MK_INLINE void tile_product(int m, int wide, const part *p) {
    const mk_xrows *x = p->x;
    int64_t groups = x->k / x->group;
    __m512 sum[HIGH][WIDE];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < wide; j++)
            sum[i][j] = p->first == 0 ? _mm512_setzero_ps()
                                      : _mm512_maskz_loadu_ps(mk_first(p->n - j * LANES),
                                                              p->y + i * p->y_stride + j * LANES);
    const uint8_t *codes = p->tiles->codes + p->first * x->group * LANES;
    const float *scales = p->tiles->scales + p->first * 2 * LANES;
    const int8_t *a = x->codes + p->first * x->group;
    for (int64_t g = p->first; g < p->first + p->count; g++, scales += 2 * LANES) {
        __m512i dot[HIGH][WIDE];
        for (int i = 0; i < m; i++)
            for (int j = 0; j < wide; j++)
                dot[i][j] = _mm512_setzero_si512();
        for (int l = 0; l < x->group; l += 4, a += 4, codes += 4 * LANES) {
            __m512i w[WIDE];
            for (int j = 0; j < wide; j++)
                w[j] = _mm512_loadu_si512(codes + j * LANES * x->k);
            for (int i = 0; i < m; i++) {
                __m512i four = four_codes(a + i * x->k);
                for (int j = 0; j < wide; j++)
                    dot[i][j] = _mm512_dpbusd_epi32(dot[i][j], w[j], four);
            }
        }
        for (int j = 0; j < wide; j++) {
            __m512 scale = _mm512_loadu_ps(scales + j * LANES * 2 * groups);
            __m512 bias = _mm512_loadu_ps(scales + j * LANES * 2 * groups + LANES);
            for (int i = 0; i < m; i++)
                sum[i][j] = add_group(sum[i][j], dot[i][j], scale, bias, x->scales[i * groups + g],
                                      x->sums[i * groups + g]);
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < wide; j++)
            _mm512_mask_storeu_ps(p->y + i * p->y_stride + j * LANES, mk_first(p->n - j * LANES),
                                  sum[i][j]);
}

#define TILES(m)                               \
    static void tiles_##m##_1(const part *p) { \
        tile_product(m, 1, p);                 \
    }                                          \
    static void tiles_##m##_2(const part *p) { \
        tile_product(m, 2, p);                 \
    }
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
TILES(7)
TILES(8)

#define TILES_OF(m) \
    { tiles_##m##_1, tiles_##m##_2 }
static void (*const tile_fns[HIGH][WIDE])(const part *p) = {TILES_OF(1), TILES_OF(2), TILES_OF(3),
                                                            TILES_OF(4), TILES_OF(5), TILES_OF(6),
                                                            TILES_OF(7), TILES_OF(8)};

static void matmul(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y,
                   int64_t y_stride) {
    int64_t groups = x->k / x->group, depth = DEPTH / x->group;
    for (int64_t j = 0; j < n; j += WIDE * LANES) {
        mk_tiles at = {tiles->codes + j * x->k, tiles->scales + 2 * j * groups, tiles->bits};
        int64_t wide = n - j > LANES ? 2 : 1;
        for (int64_t g = 0; g < groups; g += depth) {
            for (int64_t i = 0; i < m; i += HIGH) {
                int64_t count = m - i < HIGH ? m - i : HIGH;
                mk_xrows rows = {.k = x->k,
                                 .group = x->group,
                                 .codes = x->codes + i * x->k,
                                 .scales = x->scales + i * groups,
                                 .sums = x->sums + i * groups};
                part p = {.x = &rows,
                          .tiles = &at,
                          .first = g,
                          .count = groups - g < depth ? groups - g : depth,
                          .y = y + i * y_stride + j,
                          .y_stride = y_stride,
                          .n = n - j};
                tile_fns[count - 1][wide - 1](&p);
            }
        }
    }
}

/* ---- x ---- */

/* A group of whole 16s. */
static void quantize_group(const float *x, int group, bool pairs, int8_t *codes, float *scale,
                           float *sum) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i top = _mm512_setzero_si512();
    for (int i = 0; i < group; i += 16)
        top = _mm512_max_epi32(top, _mm512_and_si512(_mm512_loadu_si512(x + i), size));
    uint32_t bits = (uint32_t)_mm512_reduce_max_epi32(top);
    float most = mk_from_bits(bits);
    bool finite = bits < 0x7f800000u, some = finite && most >= MK_FAST_SMALL;
    __m512 inverse = _mm512_set1_ps(some ? 127.0f / most : 0);
    __m512i total = _mm512_setzero_si512();
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (int i = 0; i < group; i += 16) {
        __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse));
        code = _mm512_maskz_mov_epi32(some ? 0xffff : 0, code);
        total = _mm512_add_epi32(total, code);
        __m128i bytes = _mm512_cvtepi32_epi8(code);
        if (pairs) bytes = _mm_shuffle_epi8(bytes, order);
        _mm_storeu_si128((void *)(codes + i), bytes);
    }
    *scale = some ? most / 127.0f : finite ? 0.0f : NAN;
    *sum = *scale * (float)_mm512_reduce_add_epi32(total);
}

static void quantize(int64_t m, const float *x, int64_t x_stride, int bits, const mk_xrows *y) {
    int64_t groups = y->k / y->group;
    for (int64_t i = 0; i < m; i++)
        for (int64_t g = 0; g < groups; g++)
            quantize_group(x + i * x_stride + g * y->group, y->group, bits == 4,
                           y->codes + i * y->k + g * y->group, y->scales + i * groups + g,
                           y->sums + i * groups + g);
}

void mk_fast_avx512vnni(mk_kernels *kernels) {
    kernels->fast_quantize = quantize;
    kernels->fast_matvec = matvec;
    kernels->fast_unpack = unpack;
    kernels->fast_matmul = matmul;
}

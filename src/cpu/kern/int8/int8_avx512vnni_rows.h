/* AVX-512 VNNI: what the fast products share.
 *
 * Most have a row of weights in each lane. 16 rows are transposed, so that a register holds four
 * codes of each of them; vpdpbusd multiplies these with four codes of x that are broadcast. A
 * group's sums need no joining of lanes, and its scales are a register too.
 *
 * Rows are transposed in place. Of 4 bits, a register then holds words of 8 codes, whose even
 * and odd ones are taken apart by masks. Codes of other widths are made bytes after that: 4 codes
 * of each of 16 rows at once. */
#ifndef CPU_KERN_INT8_INT8_AVX512VNNI_ROWS_H
#define CPU_KERN_INT8_INT8_AVX512VNNI_ROWS_H

#include "cpu/kern/avx512.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/pages.h"

#include <stddef.h>

#define LANES MK_TILE
#define STAGE 16               /* groups whose scales are transposed together */
#define PREFETCH_DISTANCE 8192 /* bytes past the next 16 rows */

/* Rows that lie so many bytes apart, or a multiple of that, have their lines in the same set of the
 * first-level cache, which loses a line before all of it has been read: rows are crowded. Many are,
 * for that is 8,192 codes of 4 bits or 4,096 of 8. */
#define CROWDED 4096

/* 16 rows of weights, the same distance apart. Where some are not there, their codes are read only
 * from a copy (columns_copy), which has the last again, as scales are; their results are not
 * stored. */
typedef struct lanes {
    const uint8_t *codes; /* of the first row */
    int64_t stride;       /* bytes */
    int64_t first, last;  /* the first row; the last of all that are there, maybe of later lanes */
    bool crowded, whole;  /* whole: all of them are there */
    intptr_t next;        /* what is fetched meanwhile, in the order it lies in */
    int64_t prefetch_scales; /* scales from a row's to those to fetch */
} lanes;

/* Scales and biases of some groups, f32. */
typedef struct stage {
    __m512 scales[STAGE], biases[STAGE];
} stage;

MK_INLINE int64_t row_of(const lanes *l, int64_t lane) {
    return l->first + lane < l->last ? l->first + lane : l->last;
}

static inline lanes lanes_of(const mk_qrows *w, int64_t n, int64_t r) {
    const int64_t stride = 4 * w->codes_stride, bytes = LANES * stride;
    lanes l = {.codes = (const uint8_t *)(w->codes + r * w->codes_stride),
               .stride = stride,
               .first = r,
               .last = n - 1,
               .crowded = stride % CROWDED == 0,
               .whole = r + LANES <= n,
               .prefetch_scales = 4 * LANES * w->scales_stride};
    l.next = (intptr_t)l.codes + bytes + mk_ahead(PREFETCH_DISTANCE);
    mk_find_next_pages(l.next, bytes);
    return l;
}

/* ---- scales ---- */

/* Scales and biases of 16 groups on their way into lanes, which takes PARTS steps: they may lie
 * between products, where the shuffling units have time. */
#define PARTS 8
typedef struct staging {
    __m512i half[2][LANES];
} staging;

/* How scales and biases are written. */
typedef enum scale_kind {
    BF16_SCALES,
    F16_SCALES,
    F32_SCALES,
    E8M0_SCALES,
    E4M3_SCALES,
    ANY_SCALES /* where it is not known beforehand */
} scale_kind;

static inline scale_kind scale_kind_of(const mk_qrows *w) {
    if (w->mode != MK_AFFINE) return w->mode == MK_NVFP4 ? E4M3_SCALES : E8M0_SCALES;
    return w->type == MK_F32 ? F32_SCALES : w->type == MK_F16 ? F16_SCALES : BF16_SCALES;
}

/* Words of two numbers of 16 bits: the lower and the upper ones. */
MK_INLINE void split_halves(scale_kind kind, __m512i words, __m512 *lower, __m512 *upper) {
    if (kind == BF16_SCALES) {
        *lower = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
        *upper = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u)));
    } else {
        *lower = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
        *upper = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16)));
    }
}

#define FEW_GROUPS 4 /* 8 bytes of scales */

/* The scales of at most FEW_GROUPS groups of a row, of 16 bits, then its biases. */
MK_INLINE __m128i few_halves(const mk_qrows *w, const lanes *l, int row, int64_t g, int64_t count) {
    int64_t at = row_of(l, row) * w->scales_stride + g;
    __mmask8 mask = (__mmask8)mk_first(count);
    return _mm_unpacklo_epi64(_mm_maskz_loadu_epi16(mask, (const uint16_t *)w->scales + at),
                              _mm_maskz_loadu_epi16(mask, (const uint16_t *)w->biases + at));
}

/* The same for 16 rows: what is left of rows of, say, 18 groups, whose lines have been asked
 * for. */
MK_INLINE void stage_few_halves(scale_kind kind, const mk_qrows *w, const lanes *l, int64_t g,
                                int64_t count, int part, __m512i *half, stage *st) {
    __m512i r[4];
    if (part < 4) {
        for (int i = 0; i < 4; i++)
            r[i] = _mm512_castsi128_si512(few_halves(w, l, part + 4 * i, g, count));
        r[0] = _mm512_inserti32x4(r[0], _mm512_castsi512_si128(r[1]), 1);
        r[2] = _mm512_inserti32x4(r[2], _mm512_castsi512_si128(r[3]), 1);
        half[part] = _mm512_inserti64x4(r[0], _mm512_castsi512_si256(r[2]), 1);
    } else if (part == 4) {
        mk_transpose_rows(half, r);
        for (int i = 0; i < 2; i++) {
            split_halves(kind, r[i], &st->scales[2 * i], &st->scales[2 * i + 1]);
            split_halves(kind, r[2 + i], &st->biases[2 * i], &st->biases[2 * i + 1]);
        }
    }
}

/* `count` of 16 numbers, zeros from there on. */
MK_INLINE __m256i load_scales_of(const uint16_t *from, int64_t count) {
    return count == STAGE ? _mm256_loadu_si256((const void *)from)
                          : _mm256_maskz_loadu_epi16(mk_first(count), from);
}

/* 16 bits: a row's scales of 16 groups, then its biases, as words of two groups. */
MK_INLINE void stage_halves(scale_kind kind, const mk_qrows *w, const lanes *l, int64_t g,
                            int64_t count, bool fetch, int part, __m512i *half, stage *st) {
    __m512i r[4];
    if (g > 0 && count <= FEW_GROUPS) { /* the first ones ask for the next rows' lines as well */
        stage_few_halves(kind, w, l, g, count, part, half, st);
        return;
    }
    if (part < 4) {
        for (int i = 0; i < 4; i++) {
            int64_t at = row_of(l, 4 * part + i) * w->scales_stride + g;
            const uint16_t *scales = (const uint16_t *)w->scales + at;
            const uint16_t *biases = (const uint16_t *)w->biases + at;
            __m256i scale = load_scales_of(scales, count), bias = load_scales_of(biases, count);
            if (fetch) mk_prefetch((intptr_t)scales + 2 * l->prefetch_scales);
            if (fetch) mk_prefetch((intptr_t)biases + 2 * l->prefetch_scales);
            r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(scale), bias, 1);
        }
        mk_transpose_rows(r, half + 4 * part);
        return;
    }
    int c = part - 4;
    mk_transpose_words(half, c, r);
    for (int i = 0; i < 2; i++) {
        int at = 2 * (4 * i + c);
        split_halves(kind, r[i], &st->scales[at], &st->scales[at + 1]);
        split_halves(kind, r[2 + i], &st->biases[at], &st->biases[at + 1]);
    }
}

MK_INLINE void stage_floats(const mk_qrows *w, const lanes *l, int64_t g, int64_t count, int part,
                            staging *on, stage *st) {
    for (int which = 0; which < 2; which++) {
        const float *from = which == 0 ? w->scales : w->biases;
        __m512 *to = which == 0 ? st->scales : st->biases;
        __m512i r[4];
        for (int i = 0; part < 4 && i < 4; i++) {
            int64_t at = row_of(l, 4 * part + i) * w->scales_stride + g;
            r[i] = _mm512_maskz_loadu_epi32(mk_first(count), from + at);
        }
        if (part < 4) {
            mk_transpose_rows(r, on->half[which] + 4 * part);
            continue;
        }
        mk_transpose_words(on->half[which], part - 4, r);
        for (int i = 0; i < 4; i++)
            to[4 * i + part - 4] = _mm512_castsi512_ps(r[i]);
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

/* Bytes of 16 groups of a row, zeros from `count` on. */
MK_INLINE __m128i row_bytes(const mk_qrows *w, const lanes *l, int row, int64_t g, int64_t count,
                            bool fetch) {
    const uint8_t *from = (const uint8_t *)w->scales + row_of(l, row) * w->scales_stride + g;
    if (fetch) mk_prefetch((intptr_t)from + l->prefetch_scales);
    return _mm_maskz_loadu_epi8(mk_first(count), from);
}

/* Rows 4 i + part of 16, i in the lanes of 16 bytes, then 4 groups a step: they are transposed as
 * bytes. */
MK_INLINE void stage_bytes(scale_kind kind, const mk_qrows *w, const lanes *l, int64_t g,
                           int64_t count, bool fetch, int part, __m512i *half, stage *st) {
    if (part < 4) {
        __m512i r = _mm512_castsi128_si512(row_bytes(w, l, part, g, count, fetch));
        r = _mm512_inserti32x4(r, row_bytes(w, l, 4 + part, g, count, fetch), 1);
        r = _mm512_inserti32x4(r, row_bytes(w, l, 8 + part, g, count, fetch), 2);
        half[part] = _mm512_inserti32x4(r, row_bytes(w, l, 12 + part, g, count, fetch), 3);
        return;
    }
    int first = 4 * (part - 4);
    __m512i a =
        first < 8 ? _mm512_unpacklo_epi8(half[0], half[1]) : _mm512_unpackhi_epi8(half[0], half[1]);
    __m512i b =
        first < 8 ? _mm512_unpacklo_epi8(half[2], half[3]) : _mm512_unpackhi_epi8(half[2], half[3]);
    __m512i words = first % 8 == 0 ? _mm512_unpacklo_epi16(a, b) : _mm512_unpackhi_epi16(a, b);
    const __m512i byte =
        _mm512_set4_epi32((int)0x80808003, (int)0x80808002, (int)0x80808001, (int)0x80808000);
    for (int i = 0; i < 4; i++) {
        __m512i r = _mm512_shuffle_epi8(words, _mm512_add_epi32(byte, _mm512_set1_epi32(4 * i)));
        __m512 scale = kind == E4M3_SCALES ? from_e4m3(r) : from_e8m0(r);
        scale = _mm512_mul_ps(scale, _mm512_set1_ps(0.5f));
        st->scales[first + i] = scale;
        st->biases[first + i] = _mm512_mul_ps(scale, _mm512_set1_ps(-MK_E2M1_ZERO));
    }
}

/* One of the steps that bring `count` groups from g on into st. kind: scale_kind_of(w), never
 * ANY_SCALES. fetch: those of the next 16 rows are asked for. */
MK_INLINE void stage_part(scale_kind kind, const mk_qrows *w, const lanes *l, int64_t g,
                          int64_t count, bool fetch, int part, staging *on, stage *st) {
    if (kind == E8M0_SCALES || kind == E4M3_SCALES)
        stage_bytes(kind, w, l, g, count, fetch, part, on->half[0], st);
    else if (kind == F32_SCALES)
        stage_floats(w, l, g, count, part, on, st);
    else
        stage_halves(kind, w, l, g, count, fetch, part, on->half[0], st);
}

/* The same where the kind is not known beforehand: bf16, the usual one, has code of its own. */
static inline void stage_any_part(const mk_qrows *w, const lanes *l, int64_t g, int64_t count,
                                  bool fetch, int part, staging *on, stage *st) {
    scale_kind kind = scale_kind_of(w);
    if (kind == BF16_SCALES)
        stage_part(BF16_SCALES, w, l, g, count, fetch, part, on, st);
    else
        stage_part(kind, w, l, g, count, fetch, part, on, st);
}

/* Groups from g on that are staged together. */
MK_INLINE int64_t staged_from(int64_t g, int64_t groups) {
    return groups - g < STAGE ? groups - g : STAGE;
}

/* All steps at once. Each file that needs it has its own, whose callers know what registers it
 * leaves alone. */
static __attribute__((noinline, unused)) void fill_stage(const mk_qrows *w, const lanes *l,
                                                         int64_t g, int64_t count, bool fetch,
                                                         stage *st) {
    const scale_kind kind = scale_kind_of(w);
    staging on;
    if (kind == BF16_SCALES && count == STAGE && l->whole) { /* the usual case */
        /* No row is looked for. */
        const lanes all = {
            .first = l->first, .last = INT64_MAX, .prefetch_scales = l->prefetch_scales};
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_part(BF16_SCALES, w, &all, g, STAGE, fetch, part, &on, st);
    } else if (kind == E8M0_SCALES) { /* what takes time of mxfp4 */
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_part(E8M0_SCALES, w, l, g, count, fetch, part, &on, st);
    } else {
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++)
            stage_any_part(w, l, g, count, fetch, part, &on, st);
    }
}

/* ---- codes ---- */

/* How a block of codes becomes registers. */
typedef enum form {
    NIBBLES, /* words of 8 codes as they are */
    E2M1,    /* the same, codes of an fp mode */
    BYTES,   /* words of 4 codes of 8 bits */
    BITS     /* other widths */
} form;

static inline form form_of(const mk_qrows *w) {
    if (w->mode != MK_AFFINE) return E2M1;
    return w->bits == 4 ? NIBBLES : w->bits == 8 ? BYTES : BITS;
}

/* A word of 8 codes as words of its even and its odd ones. */
MK_INLINE void take_apart(form f, __m512i words, __m512i *even, __m512i *odd) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    const __m512i low = _mm512_set1_epi8(0x0f);
    __m512i shifted = _mm512_srli_epi16(words, 4);
    if (f == E2M1) { /* four times the same table: bits 4 and 5 of an index do not matter */
        __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)e2m1));
        *even = _mm512_permutexvar_epi8(words, table);
        *odd = _mm512_permutexvar_epi8(shifted, table);
    } else {
        *even = _mm512_and_si512(words, low);
        *odd = _mm512_and_si512(shifted, low);
    }
}

/* 16 bytes, or the 8 that are there. */
MK_INLINE __m128i load_four(const uint8_t *from, bool whole) {
    return whole ? _mm_loadu_si128((const void *)from) : _mm_loadl_epi64((const void *)from);
}

/* Four words of each of the rows i, 4 + i, 8 + i and 12 + i, which begin at `rows`, `stride` bytes
 * apart. */
MK_INLINE __m512i read_quarter(const uint8_t *rows, int64_t stride, bool whole, int i) {
    const int64_t four = 4 * stride;
    int64_t twelve = 3 * four;
    rows += i * stride;
    /* For addresses of these two alone: not a register for each row's. */
    __asm__("" : "+r"(twelve));
    __asm__("" : "+r"(rows));
    __m256i lower = _mm256_castsi128_si256(load_four(rows, whole));
    __m256i upper = _mm256_castsi128_si256(load_four(rows + 2 * four, whole));
    lower = _mm256_inserti128_si256(lower, load_four(rows + four, whole), 1);
    upper = _mm256_inserti128_si256(upper, load_four(rows + twelve, whole), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

/* The same of 16 rows, transposed. What was put together from parts of 16 bytes needs transposing
 * within these only. */
MK_INLINE void read_column(const uint8_t *rows, int64_t stride, bool whole, __m512i words[4]) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        r[i] = read_quarter(rows, stride, whole, i);
    mk_transpose_rows(r, words);
}

/* 64 codes of `bits` bits, a constant, of each of 16 rows transposed, as bytes. */
MK_INLINE void read_bits(int bits, const uint8_t *rows, int64_t stride, __m512i codes[16]) {
    const __m512i mask = _mm512_set1_epi8((char)((1 << bits) - 1));
    __m512i words[12]; /* 2 * bits of them */
#pragma GCC unroll 3
    for (int i = 0; i < 2 * bits; i += 4)
        read_column(rows + 4 * i, stride, i + 4 <= 2 * bits, words + i);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        int word = i * bits / 8, first = i * bits % 8 * 4; /* bit of the word */
        __m512i v = words[word];
        if (first + 4 * bits > 32) { /* four codes in two words */
            v = _mm512_shrdv_epi32(v, words[word + 1], _mm512_set1_epi32(first));
            first = 0;
        }
        /* The bits at which codes begin, of both words of a lane of 64. */
        int64_t shifts = first * 0x01010101 + bits * 0x03020100;
        shifts |= (shifts + 0x20202020) << 32;
        v = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts), v);
        codes[i] = _mm512_and_si512(v, mask);
    }
}

/* Goes through the codes of 16 rows, in columns of four words. */
typedef struct columns {
    const mk_qrows *w;
    lanes *l;
    int64_t at;              /* code */
    __m512i codes[16];       /* of other widths: the 64 that `at` is among */
    uint8_t rest[LANES][64]; /* the last 32 codes of the rows, whose 64 would end past them */
} columns;

MK_INLINE void columns_begin(columns *c, const mk_qrows *w, lanes *l) {
    c->w = w;
    c->l = l;
    c->at = 0;
}

#define COPIED 512 /* codes of a row at once, beside those read ahead */
#define LINE 64    /* bytes */

/* Codes of rows that are crowded, where their lines have room, or of which some are not there. No
 * part of columns: the compiler would no longer keep these in registers. */
typedef struct row_copy {
    _Alignas(LINE) uint8_t codes[LANES][COPIED + LINE];
} row_copy;

/* At most `count` codes of 16 rows from `at` on; l finds them in the copy afterwards, at the same
 * offsets. */
static __attribute__((noinline)) void copy_codes(const mk_qrows *w, lanes *l, int64_t at,
                                                 int64_t count, row_copy *to) {
    int64_t byte = at / 8 * w->bits;
    int64_t bytes = (w->k - at < count ? w->k - at : count) / 8 * w->bits;
    for (int i = 0; i < LANES; i++) {
        const uint8_t *row = (const uint8_t *)(w->codes + row_of(l, i) * w->codes_stride) + byte;
        for (int64_t b = 0; b < bytes; b += LINE) {
            __mmask16 there = mk_first((bytes - b) / 4);
            _mm512_storeu_si512(to->codes[i] + b, _mm512_maskz_loadu_epi32(there, row + b));
        }
    }
    l->codes = (const uint8_t *)((uintptr_t)to->codes - (uintptr_t)byte);
    l->stride = sizeof to->codes[0];
}

/* Before codes from `at` on are read, at least for each COPIED of them: where rows are crowded or
 * not all there, copies as many and `ahead` more, at most a line of bytes. */
MK_INLINE void columns_copy(columns *c, int64_t at, int64_t ahead, row_copy *copy) {
    if ((c->l->crowded || !c->l->whole) && at % COPIED == 0)
        copy_codes(c->w, c->l, at, COPIED + ahead, copy);
}

/* 64 codes of `bits` bits from c->at on as words of 4 bytes; half of them, or all, are there: k is
 * a multiple of 32. The lines that the rows after these have where these have the codes are
 * fetched. */
MK_INLINE void columns_bits(int bits, columns *c, __m512i codes[16]) {
    const lanes *l = c->l;
    int64_t byte = c->at / 8 * bits, stride = l->stride;
    const uint8_t *rows = l->codes + byte;
    for (int i = 0; i < 2 * bits; i++)
        mk_prefetch_line(l->next + byte * LANES + 64 * i);
    if (c->w->k - c->at < 64) {
        for (int i = 0; i < LANES; i++)
            memcpy(c->rest[i], rows + i * stride, 4 * (size_t)bits);
        rows = (const uint8_t *)c->rest;
        stride = sizeof c->rest[0];
    }
    read_bits(bits, rows, stride, codes);
}

/* The same, of a width that is not known beforehand, into c->codes. */
static inline void columns_any_bits(columns *c) {
    switch (c->w->bits) {
    case 2:
        columns_bits(2, c, c->codes);
        break;
    case 3:
        columns_bits(3, c, c->codes);
        break;
    case 5:
        columns_bits(5, c, c->codes);
        break;
    default:
        columns_bits(6, c, c->codes);
    }
}

/* Of 4 and of 8 bits, not of other widths. */
MK_INLINE int codes_a_byte(form f) {
    return f == BYTES ? 1 : 2;
}

/* Codes of a column of words, likewise: of 8 codes, or of 4 as bytes. */
MK_INLINE int column_codes(form f) {
    return 16 * codes_a_byte(f);
}

/* Where the lines to fetch begin: those that the rows after these have where these have the column
 * at c->at. */
MK_INLINE intptr_t columns_fetched(form f, const columns *c) {
    return c->l->next + c->at / codes_a_byte(f) * LANES;
}

/* Reads quarter i of the column at c->at, and asks for line i from `fetched` on. */
MK_INLINE __m512i columns_quarter(form f, const columns *c, intptr_t fetched, int i) {
    mk_prefetch_line(fetched + 64 * i);
    return read_quarter(c->l->codes + c->at / codes_a_byte(f), c->l->stride,
                        f != E2M1 || c->at + 16 < c->w->k, i);
}

/* The next words; lines are fetched meanwhile. */
MK_INLINE void columns_next(form f, columns *c, __m512i words[4]) {
    if (f == BITS) {
        if (c->at % 64 == 0) columns_any_bits(c);
        for (int i = 0; i < 4; i++)
            words[i] = c->codes[c->at % 64 / 4 + i];
        c->at += 16;
        return;
    }
    __m512i quarters[4];
    intptr_t fetched = columns_fetched(f, c);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        quarters[i] = columns_quarter(f, c, fetched, i);
    mk_transpose_rows(quarters, words);
    c->at += column_codes(f);
}

/* ---- products ---- */

/* Four codes of x, anywhere. */
typedef struct __attribute__((packed, may_alias)) four_codes {
    int32_t word;
} four_codes;

/* sum + the products of four codes in each lane. gcc 12 moves the sum of the intrinsic to another
 * register and back, every time. */
MK_INLINE __m512i dot4(__m512i sum, __m512i w, __m512i x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
}

/* Four codes of x for all lanes. */
MK_INLINE __m512i all_of(const int8_t *x) {
    return _mm512_set1_epi32(((const four_codes *)(const void *)x)->word);
}

/* dot4 with four codes of x for all lanes. */
MK_INLINE __m512i dot4_all(__m512i sum, __m512i w, const int8_t *x) {
    const four_codes *four = (const void *)x;
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*four));
    return sum;
}

/* Neighbours among the lanes of a and of b added up: in each four lanes a's sums, then b's. most:
 * no lane is larger; one that fits 16 bits takes two steps instead of three. */
MK_INLINE __m512i join_two(int64_t max, __m512i a, __m512i b) {
    if (max <= INT16_MAX) return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
    __m512 left = _mm512_castsi512_ps(a), right = _mm512_castsi512_ps(b);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(left, right, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(left, right, 0xdd)));
}

/* Each four lanes of r[i] added up, of 4 rows or units of a row: sums of i are lanes i, 4 + i, 8 +
 * i, 12 + i. A lane is the sum of so many products. */
MK_INLINE __m512i join_four(form f, int matmuls, const __m512i r[4]) {
    const int64_t max = matmuls * 128 * (f == NIBBLES ? 15 : f == E2M1 ? MK_E2M1_MAX : 255);
    return join_two(2 * max, join_two(max, r[0], r[1]), join_two(max, r[2], r[3]));
}

MK_INLINE __m512 add_group(__m512 y, __m512i dot, __m512 scale, __m512 bias, float x_scale,
                           float x_sum) {
    y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, _mm512_set1_ps(x_scale)), y);
    return _mm512_fmadd_ps(bias, _mm512_set1_ps(x_sum), y);
}

#define MAX_TOGETHER \
    16 /* rows of x that share rows of weights which lie in quarters of registers */

/* y[m, n] = x w^T; n is a multiple of LANES, m at most MAX_TOGETHER. */
typedef void (*quarters_fn)(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                            int64_t y_stride);

/* For m rows of x, any number, that come in parts; NULL for groups of 16, and for widths that are
 * neither 4 nor 8 bits. */
quarters_fn mk_int8_quarters_avx512vnni(const mk_qrows *w, int64_t m);

void mk_int8_pack_avx512vnni(const mk_qrows *w, int64_t n, mk_tiles *tiles);
void mk_int8_matmul_avx512vnni(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles,
                               float *y, int64_t y_stride);

#endif

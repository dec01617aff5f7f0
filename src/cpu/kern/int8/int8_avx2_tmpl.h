/* The fast products of AVX2 and of VNNI on as many bits: a row of weights in each lane, 8 at a
 * time.
 *
 * Rows are transposed, as bytes, so that a register holds four codes of each, which meet four
 * codes of x that are broadcast. With one row of x, codes meet it in place, and the sums of a
 * group are transposed.
 *
 * One text for all: whoever includes it says before how registers of codes meet codes of x (room,
 * room_of, dot_words), how codes of one row meet as many of x (dot_row, dot_bytes, dot_two), how
 * many rows of x share what is transposed (STREAMED) and how many meet a tile at once (HIGH). */
#include "cpu/kern/pages.h"

#define LANES 8
#define PREFETCH_DISTANCE 4096 /* bytes past the next 8 rows */

/* 8 rows of weights; those that are not there are others again, whose results are not stored. */
typedef struct lanes {
    const uint8_t *codes[LANES];
    int64_t row[LANES];
    intptr_t next; /* the rows after these, fetched meanwhile, in the order they lie in */
} lanes;

static lanes lanes_of(const mk_qrows *w, int64_t n, int64_t r) {
    lanes l;
    for (int64_t i = 0; i < LANES; i++) {
        l.row[i] = r + i < n ? r + i : n - 1;
        l.codes[i] = (const uint8_t *)(w->codes + l.row[i] * w->codes_stride);
    }
    const int64_t bytes = LANES * w->codes_stride * 4;
    l.next = (intptr_t)(w->codes + r * w->codes_stride) + bytes + mk_ahead(PREFETCH_DISTANCE);
    mk_find_next_pages(l.next, bytes);
    return l;
}

/* 8 x 8 words transposed. */
MK_INLINE void transpose(__m256i r[8]) {
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* u[4 i + c] has words c, 4 + c of rows 4 i .. 4 i + 3 */
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x31);
    }
}

/* ---- scales ---- */

typedef struct stage { /* of 8 groups */
    __m256 scales[LANES], biases[LANES];
} stage;

MK_INLINE __m256 load_scales(const void *row, mk_type type, int64_t g, int64_t count) {
    if (type != MK_F32) return mk_load_half((const uint16_t *)row + g, count, type);
    return _mm256_maskload_ps((const float *)row + g, mk_first(count));
}

/* Halves of the first `count` of 8 scales of a byte each. */
MK_INLINE __m256 half_scales(mk_mode mode, const uint8_t *scales, int64_t count) {
    float row[LANES] = {0};
    if (mode == MK_MXFP4 &&
        count == LANES) { /* exponents; the smallest is a subnormal, 255 is NaN */
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)scales));
        __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
        __m256i none = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
        e = _mm256_or_si256(_mm256_slli_epi32(e, 23), _mm256_srli_epi32(nan, 1));
        e = _mm256_or_si256(e, _mm256_and_si256(none, _mm256_set1_epi32(0x400000)));
        return _mm256_mul_ps(_mm256_castsi256_ps(e), _mm256_set1_ps(0.5f));
    }
    for (int64_t c = 0; c < count; c++)
        row[c] = 0.5f * (mode == MK_NVFP4 ? mk_from_e4m3(scales[c]) : mk_from_e8m0(scales[c]));
    return _mm256_loadu_ps(row);
}

static void fill_stage(const mk_qrows *w, const lanes *l, int64_t g, int64_t count, stage *st) {
    __m256i scales[LANES], biases[LANES];
    for (int i = 0; i < LANES; i++) {
        int64_t at = l->row[i] * w->scales_stride;
        if (w->mode == MK_AFFINE) {
            int64_t bytes = at * mk_type_bytes(w->type);
            scales[i] = _mm256_castps_si256(
                load_scales((const char *)w->scales + bytes, w->type, g, count));
            biases[i] = _mm256_castps_si256(
                load_scales((const char *)w->biases + bytes, w->type, g, count));
            continue;
        }
        __m256 v = half_scales(w->mode, (const uint8_t *)w->scales + at + g, count);
        scales[i] = _mm256_castps_si256(v);
        biases[i] = _mm256_castps_si256(_mm256_mul_ps(v, _mm256_set1_ps((float)-MK_E2M1_ZERO)));
    }
    transpose(scales);
    transpose(biases);
    for (int i = 0; i < LANES; i++) {
        st->scales[i] = _mm256_castsi256_ps(scales[i]);
        st->biases[i] = _mm256_castsi256_ps(biases[i]);
    }
}

/* ---- codes ---- */

/* How codes become registers. */
typedef enum form {
    NIBBLES, /* words of 8 codes */
    E2M1,    /* the same, codes of an fp mode */
    BYTES,   /* words of 4 codes of 8 bits */
    BITS     /* other widths */
} form;

static form form_of(const mk_qrows *w) {
    if (w->mode != MK_AFFINE) return E2M1;
    return w->bits == 4 ? NIBBLES : w->bits == 8 ? BYTES : BITS;
}

/* 32 codes of 2, 3, 5 or 6 bits as bytes. A lane takes 16 of them, which lie in 2 * bits bytes: it
 * loads 8 or 16 bytes, all within the 32 codes. The two bytes that a code begins in go to 16 bits
 * of their own, where a product shifts the code to the top. */
typedef struct spreader {
    __m256i bytes[2], lift;
    __m128i lower;
    int64_t second; /* byte at which the second lane loads */
    int loaded;     /* bytes a lane */
} spreader;

static spreader spreader_of(int bits) {
    int loaded = bits >= 5 ? 16 : 8;
    spreader s = {.lower = _mm_cvtsi32_si128(16 - bits), .loaded = loaded};
    uint8_t bytes[32];
    uint16_t lift[16];
    s.second = 4 * bits - loaded;
    for (int half = 0; half < 2; half++) { /* codes 8 * half .. of each lane */
        for (int i = 0; i < 16; i++) {
            int bit = (8 * half + i % 8) * bits;
            int byte = bit / 8 + (i < 8 ? 0 : loaded - 2 * bits);
            bytes[2 * i] = (uint8_t)byte;
            bytes[2 * i + 1] = (uint8_t)(byte + 1);
            lift[i] = (uint16_t)(1u << (16 - bits - bit % 8));
        }
        s.bytes[half] = _mm256_loadu_si256((const void *)bytes);
    }
    s.lift = _mm256_loadu_si256((const void *)lift);
    return s;
}

MK_INLINE __m256i spread(const spreader *s, int loaded, const uint8_t *codes) {
    const void *first = codes, *second = codes + s->second;
    __m128i low = loaded == 16 ? _mm_loadu_si128(first) : _mm_loadl_epi64(first);
    __m128i high = loaded == 16 ? _mm_loadu_si128(second) : _mm_loadl_epi64(second);
    __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), half[2];
    for (int h = 0; h < 2; h++) {
        half[h] = _mm256_mullo_epi16(_mm256_shuffle_epi8(v, s->bytes[h]), s->lift);
        half[h] = _mm256_srl_epi16(half[h], s->lower);
    }
    return _mm256_packus_epi16(half[0], half[1]);
}

/* Asks for what follows 8 rows of 32 codes of `bits` from byte `byte` of each. */
MK_INLINE void fetch_next(const lanes *l, int bits, int64_t byte) {
    for (int i = 0; i < 4 * LANES * bits; i += 64)
        mk_prefetch_line(l->next + byte * LANES + i);
}

/* 16 bytes, or the 8 that are there. */
MK_INLINE __m128i load_four(const uint8_t *from, bool whole) {
    return whole ? _mm_loadu_si128((const void *)from) : _mm_loadl_epi64((const void *)from);
}

/* Four words of every row from byte `at` on transposed. What is put together from halves needs
 * transposing within these only. */
MK_INLINE void read_column(const lanes *l, int64_t at, bool whole, __m256i words[4]) {
    __m256i r[4], t[4];
    for (int i = 0; i < 4; i++) {
        __m128i lower = load_four(l->codes[i] + at, whole);
        __m128i upper = load_four(l->codes[4 + i] + at, whole);
        r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(lower), upper, 1);
    }
    for (int i = 0; i < 4; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        words[2 * i] = _mm256_unpacklo_epi64(t[i], t[2 + i]);
        words[2 * i + 1] = _mm256_unpackhi_epi64(t[i], t[2 + i]);
    }
}

/* A word of 8 codes as words of its even and its odd ones. */
MK_INLINE void take_apart(form f, __m256i words, __m256i *even, __m256i *odd) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    const __m256i low = _mm256_set1_epi8(0x0f);
    *even = _mm256_and_si256(words, low);
    *odd = _mm256_and_si256(_mm256_srli_epi16(words, 4), low);
    if (f != E2M1) return;
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)e2m1));
    *even = _mm256_shuffle_epi8(table, *even);
    *odd = _mm256_shuffle_epi8(table, *odd);
}

/* Codes at .. at + 31 of every row, as bytes transposed: of groups of 16, half of them may be
 * there. */
MK_INLINE void read_codes(form f, const mk_qrows *w, const lanes *l, const spreader *s, int64_t at,
                          __m256i codes[LANES]) {
    int64_t byte = f == BYTES ? at : f == BITS ? at / 8 * w->bits : at / 2;
    fetch_next(l, f == BITS ? w->bits : f == BYTES ? 8 : 4, byte);
    if (f == BITS) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++)
            codes[i] = spread(s, s->loaded, l->codes[i] + byte);
        transpose(codes);
    } else if (f == BYTES) {
        read_column(l, byte, true, codes);
        read_column(l, byte + 16, true, codes + 4);
    } else {
        __m256i words[4];
        read_column(l, byte, f != E2M1 || at + 16 < w->k, words);
        for (int i = 0; i < 4; i++)
            take_apart(f, words[i], &codes[2 * i], &codes[2 * i + 1]);
    }
}

/* ---- products ---- */

MK_INLINE __m256 add_group(__m256 y, __m256i dot, __m256 scale, __m256 bias, float x_scale,
                           float x_sum) {
    y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, _mm256_set1_ps(x_scale)), y);
    return _mm256_fmadd_ps(bias, _mm256_set1_ps(x_sum), y);
}

/* Adds group g's share to y[m]. */
MK_INLINE void add_dots(int m, const __m256i *dot, const mk_xrows *x, int64_t groups, int64_t g,
                        const stage *st, __m256 *y) {
    for (int i = 0; i < m; i++)
        y[i] = add_group(y[i], dot[i], st->scales[g % LANES], st->biases[g % LANES],
                         x->scales[i * groups + g], x->sums[i * groups + g]);
}

/* y[m, 8] of the rows in l. */
MK_INLINE void rows_matmul(form f, room fit, const mk_qrows *w, const spreader *s, const lanes *l,
                           int m, const mk_xrows *x, __m256 *y) {
    int64_t group = w->group, groups = w->k / group;
    bool halves = f == E2M1 && group < 32; /* a step has two groups */
    stage st;
    for (int i = 0; i < m; i++)
        y[i] = _mm256_setzero_ps();
    for (int64_t g = 0, at = 0; g < groups; g++) {
        __m256i codes[LANES], dot[STREAMED];
        if (g % LANES == 0) fill_stage(w, l, g, groups - g < LANES ? groups - g : LANES, &st);
        for (int i = 0; i < m; i++)
            dot[i] = _mm256_setzero_si256();
        for (int64_t c = 0; c < group; c += 32, at += 32) {
            read_codes(f, w, l, s, at, codes);
            if (!halves) {
                dot_words(fit, m, dot, codes, 8, x->codes + at, x->k);
                continue;
            }
            dot_words(fit, m, dot, codes, 4, x->codes + at, x->k);
            add_dots(m, dot, x, groups, g, &st, y);
            if (++g == groups) break; /* the last time maybe one */
            for (int i = 0; i < m; i++)
                dot[i] = _mm256_setzero_si256();
            dot_words(fit, m, dot, codes + 4, 4, x->codes + at + 16, x->k);
        }
        if (g < groups) add_dots(m, dot, x, groups, g, &st, y);
    }
}

MK_INLINE void rows_form(form f, room fit, const mk_qrows *w, const spreader *s, const lanes *l,
                         int64_t m, const mk_xrows *x, __m256 *y) {
    MK_WITH_ROWS(m, STREAMED, rows_matmul(f, fit, w, s, l, MK_R, x, y));
}

/* The first n of 8 floats. */
MK_INLINE void store_first(float *y, int64_t n, __m256 v) {
    if (n >= LANES)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, mk_first(n), v);
}

/* The sums of 8 registers: of their lower lanes, and of their upper ones. */
MK_INLINE void join(const __m256i part[LANES], __m256i sums[2]) {
    __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(part[0], part[1]), _mm256_hadd_epi32(part[2], part[3]));
    __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(part[4], part[5]), _mm256_hadd_epi32(part[6], part[7]));
    sums[0] = _mm256_permute2x128_si256(a, b, 0x20);
    sums[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

/* y[8] of the rows in l, of any bits but 4, and one row of x: codes meet it in place, and a
 * group's sums are transposed instead of its codes. loaded: spreader's, or 32 where codes are
 * bytes. */
MK_INLINE __m256 row_matmul(int loaded, const mk_qrows *w, const spreader *s, const lanes *l,
                            const mk_xrows *x) {
    int64_t group = w->group, groups = w->k / group, byte = 0;
    const int8_t *a = x->codes;
    stage st;
    __m256 y = _mm256_setzero_ps();
    for (int64_t g = 0; g < groups; g++) {
        __m256i part[LANES], sums[2];
        if (g % LANES == 0) fill_stage(w, l, g, groups - g < LANES ? groups - g : LANES, &st);
        for (int i = 0; i < LANES; i++)
            part[i] = _mm256_setzero_si256();
        for (int64_t at = 0; at < group; at += 32, a += 32, byte += 4 * w->bits) {
#pragma GCC unroll 8
            for (int i = 0; i < LANES; i++) {
                const uint8_t *codes = l->codes[i] + byte;
                part[i] = loaded == 32 ? dot_bytes(part[i], codes, a)
                                       : dot_row(part[i], spread(s, loaded, codes), a);
            }
            fetch_next(l, w->bits, byte);
        }
        join(part, sums);
        y = add_group(y, _mm256_add_epi32(sums[0], sums[1]), st.scales[g % LANES],
                      st.biases[g % LANES], x->scales[g], x->sums[g]);
    }
    return y;
}

/* 64 codes of x, each 8 of them the even ones first: all even ones, all odd ones. */
MK_INLINE void split_pairs(const int8_t *x, __m256i halves[2]) {
    __m256 a = _mm256_loadu_ps((const float *)(const void *)x);
    __m256 b = _mm256_loadu_ps((const float *)(const void *)(x + 32));
    halves[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    halves[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    for (int h = 0; h < 2; h++)
        halves[h] = _mm256_permute4x64_epi64(halves[h], 0xd8);
}

/* part plus the products of 64 codes of 4 bits with x, the even ones and the odd ones. */
MK_INLINE __m256i dot_nibbles(__m256i part, bool affine, const uint8_t *codes, const __m256i x[2]) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)e2m1));
    const __m256i low = _mm256_set1_epi8(0x0f);
    __m256i v = _mm256_loadu_si256((const void *)codes);
    __m256i even = _mm256_and_si256(v, low), odd = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    if (!affine) even = _mm256_shuffle_epi8(table, even), odd = _mm256_shuffle_epi8(table, odd);
    return dot_two(part, even, x[0], odd, x[1]);
}

/* y[8] of the rows in l, of 4 bits, and one row of x, as row_matmul. k is a multiple of 64: 64
 * codes are two groups of 32, one, or half a group. */
MK_INLINE __m256 nibble_matmul(bool affine, int group, const mk_qrows *w, const lanes *l,
                               const mk_xrows *x) {
    int64_t groups = w->k / group, g = 0, step = group > 64 ? group : 64;
    stage st;
    __m256 y = _mm256_setzero_ps();
    for (int64_t begin = 0; begin < w->k; begin += step) {
        __m256i part[LANES], sums[2];
        for (int i = 0; i < LANES; i++)
            part[i] = _mm256_setzero_si256();
        for (int64_t at = begin; at < begin + step; at += 64) {
            __m256i halves[2];
            split_pairs(x->codes + at, halves);
#pragma GCC unroll 8
            for (int i = 0; i < LANES; i++)
                part[i] = dot_nibbles(part[i], affine, l->codes[i] + at / 2, halves);
            for (int i = 0; i < LANES / 2; i++)
                mk_prefetch_line(l->next + at / 2 * LANES + 64 * i);
        }
        join(part, sums);
        if (group > 32) sums[0] = _mm256_add_epi32(sums[0], sums[1]);
        for (int h = 0; h < (group > 32 ? 1 : 2); h++, g++) {
            if (g % LANES == 0) fill_stage(w, l, g, groups - g < LANES ? groups - g : LANES, &st);
            y = add_group(y, sums[h], st.scales[g % LANES], st.biases[g % LANES], x->scales[g],
                          x->sums[g]);
        }
    }
    return y;
}

static void matvec_nibbles(const mk_qrows *w, int64_t n, const mk_xrows *x, float *y) {
    for (int64_t r = 0; r < n; r += LANES) {
        lanes l = lanes_of(w, n, r);
        __m256 sums;
        if (w->mode != MK_AFFINE)
            sums = nibble_matmul(false, 32, w, &l, x);
        else if (w->group == 32)
            sums = nibble_matmul(true, 32, w, &l, x);
        else if (w->group == 64)
            sums = nibble_matmul(true, 64, w, &l, x);
        else
            sums = nibble_matmul(true, 128, w, &l, x);
        store_first(y + r, n - r, sums);
    }
}

static void matvec_bytes(const mk_qrows *w, int64_t n, const mk_xrows *x, float *y) {
    const spreader s = spreader_of(w->bits == 8 ? 6 : w->bits);
    for (int64_t r = 0; r < n; r += LANES) {
        lanes l = lanes_of(w, n, r);
        __m256 sums;
        if (w->bits == 8)
            sums = row_matmul(32, w, &s, &l, x);
        else if (s.loaded == 16)
            sums = row_matmul(16, w, &s, &l, x);
        else
            sums = row_matmul(8, w, &s, &l, x);
        store_first(y + r, n - r, sums);
    }
}

static void matvec(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                   int64_t y_stride) {
    form f = form_of(w);
    room fit = room_of(mk_max_code(w->mode, w->bits));
    const spreader s = spreader_of(f == BITS ? w->bits : 6);
    mk_find_first_pages(w->codes, 4 * LANES * w->codes_stride + mk_ahead(PREFETCH_DISTANCE));
    if (m == 1 && w->bits != 4) {
        matvec_bytes(w, n, x, y);
        return;
    }
    if (m == 1 && w->bits == 4 && w->group >= 32 && w->k % 64 == 0) {
        matvec_nibbles(w, n, x, y);
        return;
    }
    for (int64_t r = 0; r < n; r += LANES) {
        lanes l = lanes_of(w, n, r);
        for (int64_t i = 0; i < m; i += STREAMED) {
            int64_t count = m - i < STREAMED ? m - i : STREAMED;
            mk_xrows part = mk_xrows_at(x, i);
            __m256 sums[STREAMED];
            if (f == NIBBLES)
                rows_form(NIBBLES, EIGHT, w, &s, &l, count, &part, sums);
            else if (f == E2M1)
                rows_form(E2M1, FOUR, w, &s, &l, count, &part, sums);
            else if (f == BYTES)
                rows_form(BYTES, HALVES, w, &s, &l, count, &part, sums);
            else if (fit == TWO)
                rows_form(BITS, TWO, w, &s, &l, count, &part, sums);
            else if (fit == FOUR)
                rows_form(BITS, FOUR, w, &s, &l, count, &part, sums);
            else
                rows_form(BITS, EIGHT, w, &s, &l, count, &part, sums);
            for (int64_t c = 0; c < count; c++)
                store_first(y + (i + c) * y_stride + r, n - r, sums[c]);
        }
    }
}

/* ---- tiles ---- */

MK_INLINE void unpack_codes(form f, const mk_qrows *w, const lanes *l, __m256i there, uint8_t *to) {
    const spreader s = spreader_of(f == BITS ? w->bits : 6);
    const __m256i none = _mm256_setzero_si256();
    for (int64_t at = 0; at < w->k; at += 32) {
        __m256i codes[LANES];
        read_codes(f, w, l, &s, at, codes);
        for (int i = 0; i < LANES && at + 4 * i < w->k; i++, to += 4 * MK_TILE)
            _mm256_storeu_si256((void *)to, _mm256_blendv_epi8(none, codes[i], there));
    }
}

/* Rows r .. r + 7 of n, to their half of a tile. */
static void unpack_half(const mk_qrows *w, int64_t n, int64_t r, uint8_t *codes, float *scales) {
    __m256i there = mk_first(n > r ? n - r : 0);
    lanes l = lanes_of(w, n, r);
    form f = form_of(w);
    if (f == NIBBLES)
        unpack_codes(NIBBLES, w, &l, there, codes);
    else if (f == E2M1)
        unpack_codes(E2M1, w, &l, there, codes);
    else if (f == BYTES)
        unpack_codes(BYTES, w, &l, there, codes);
    else
        unpack_codes(BITS, w, &l, there, codes);
    int64_t groups = w->k / w->group;
    for (int64_t g = 0; g < groups; g += LANES) {
        stage st;
        int64_t count = groups - g < LANES ? groups - g : LANES;
        fill_stage(w, &l, g, count, &st);
        __m256 mask = _mm256_castsi256_ps(there);
        for (int64_t i = 0; i < count; i++, scales += 2 * MK_TILE) {
            _mm256_storeu_ps(scales, _mm256_and_ps(st.scales[i], mask));
            _mm256_storeu_ps(scales + MK_TILE, _mm256_and_ps(st.biases[i], mask));
        }
    }
}

static void unpack(const mk_qrows *w, int64_t n, mk_tiles *tiles) {
    int64_t groups = w->k / w->group;
    tiles->max = mk_max_code(w->mode, w->bits);
    tiles->winograd = false;
    for (int64_t r = 0; r < n; r += MK_TILE) {
        uint8_t *codes = tiles->codes + r * w->k;
        float *scales = tiles->scales + 2 * r * groups;
        unpack_half(w, n, r, codes, scales);
        unpack_half(w, n, r + LANES, codes + 4 * LANES, scales + LANES);
    }
}

/* y[m, 16] of a tile. */
MK_INLINE void tile_matmul(room fit, int m, const mk_xrows *x, const uint8_t *codes,
                           const float *scales, __m256 y[][2]) {
    int64_t groups = x->k / x->group;
    for (int i = 0; i < m; i++)
        y[i][0] = y[i][1] = _mm256_setzero_ps();
    const int8_t *a = x->codes;
    for (int64_t g = 0; g < groups; g++, scales += 2 * MK_TILE) {
        __m256i dot[2][HIGH];
        for (int i = 0; i < m; i++)
            dot[0][i] = dot[1][i] = _mm256_setzero_si256();
        for (int l = 0; l < x->group; l += 16, a += 16, codes += 16 * MK_TILE)
            for (int half = 0; half < 2; half++) {
                __m256i four[4];
                for (int i = 0; i < 4; i++)
                    four[i] = _mm256_loadu_si256(
                        (const void *)(codes + i * 4 * MK_TILE + half * 4 * LANES));
                dot_words(fit, m, dot[half], four, 4, a, x->k);
            }
        for (int half = 0; half < 2; half++) {
            __m256 scale = _mm256_loadu_ps(scales + half * LANES);
            __m256 bias = _mm256_loadu_ps(scales + half * LANES + MK_TILE);
            for (int i = 0; i < m; i++)
                y[i][half] = add_group(y[i][half], dot[half][i], scale, bias,
                                       x->scales[i * groups + g], x->sums[i * groups + g]);
        }
    }
}

MK_INLINE void tile_rows(room fit, int64_t m, const mk_xrows *x, const uint8_t *codes,
                         const float *scales, __m256 y[][2]) {
    if (m == 1)
        tile_matmul(fit, 1, x, codes, scales, y);
    else if (m == 2)
        tile_matmul(fit, 2, x, codes, scales, y);
    else if (m == 3)
        tile_matmul(fit, HIGH > 2 ? 3 : 2, x, codes, scales, y);
    else
        tile_matmul(fit, HIGH, x, codes, scales, y);
}

static void matmul(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y,
                   int64_t y_stride) {
    int64_t groups = x->k / x->group;
    room fit = room_of(tiles->max);
    for (int64_t j = 0; j < n; j += MK_TILE) {
        const uint8_t *codes = tiles->codes + j * x->k;
        const float *scales = tiles->scales + 2 * j * groups;
        for (int64_t i = 0; i < m; i += HIGH) {
            int64_t count = m - i < HIGH ? m - i : HIGH;
            mk_xrows rows = mk_xrows_at(x, i);
            __m256 sums[HIGH][2];
            if (fit == EIGHT)
                tile_rows(EIGHT, count, &rows, codes, scales, sums);
            else if (fit == FOUR)
                tile_rows(FOUR, count, &rows, codes, scales, sums);
            else if (fit == TWO)
                tile_rows(TWO, count, &rows, codes, scales, sums);
            else
                tile_rows(HALVES, count, &rows, codes, scales, sums);
            for (int64_t c = 0; c < count; c++) {
                store_first(y + (i + c) * y_stride + j, n - j, sums[c][0]);
                if (n - j > LANES)
                    store_first(y + (i + c) * y_stride + j + LANES, n - j - LANES, sums[c][1]);
            }
        }
    }
}

/* ---- x ---- */

static mk_code_step step_of(const float *x, int group, int max) {
    const __m256i sign = _mm256_set1_epi32(INT32_MIN);
    __m256i highest = _mm256_setzero_si256(), lowest = highest;
    for (int i = 0; i < group; i += 8) {
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        highest = _mm256_max_epi32(highest, v);
        lowest = _mm256_max_epi32(lowest, _mm256_xor_si256(v, sign));
    }
    int32_t high[8], low[8];
    _mm256_storeu_si256((void *)high, highest);
    _mm256_storeu_si256((void *)low, lowest);
    for (int i = 1; i < 8; i++) {
        high[0] = high[i] > high[0] ? high[i] : high[0];
        low[0] = low[i] > low[0] ? low[i] : low[0];
    }
    return mk_code_step_of(high[0], low[0], max);
}

static void quantize_group(const float *x, int group, int max, int8_t *codes, float *scale,
                           float *sum) {
    mk_code_step step = step_of(x, group, max);
    __m256 inverse = _mm256_set1_ps(step.inverse);
    const __m256i keep = _mm256_set1_epi32(step.some ? -1 : 0);
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 0, 0, 0, 0, 0, 0, 0, 0);
    __m256i total = _mm256_setzero_si256();
    for (int i = 0; i < group; i += 8) {
        __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse));
        code = _mm256_and_si256(code, keep);
        total = _mm256_add_epi32(total, code);
        __m128i half =
            _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
        __m128i bytes = _mm_packs_epi16(half, half);
        if (mk_in_pairs(max)) bytes = _mm_shuffle_epi8(bytes, order);
        _mm_storel_epi64((void *)(codes + i), bytes);
    }
    int32_t totals[8], whole = 0;
    _mm256_storeu_si256((void *)totals, total);
    for (int i = 0; i < 8; i++)
        whole += totals[i];
    *scale = step.scale;
    *sum = *scale * (float)whole;
}

static void quantize(int64_t m, const float *x, int64_t x_stride, int max, const mk_xrows *y) {
    mk_quantize_rows(quantize_group, mk_winograd_plain, m, x, x_stride, max, y);
}

static void fill(mk_kernels *kernels) {
    kernels->int8_quantize = quantize;
    kernels->int8_matvec = matvec;
    kernels->int8_pack = unpack;
    kernels->int8_matmul = matmul;
    kernels->int8_streamed = 8;
}

/* AVX-512 VNNI: 2 to 16 rows of x, as a Zen 5 is fastest, and from 9 on, as an Intel is.
 *
 * A register has 16 codes of each of four rows of weights, a quarter a row, and meets 16 codes of x
 * that are loaded into all quarters: a fourth of the loads of the way that has a row of weights in
 * each lane (int8_avx512vnni.c), of which a Zen 5 has no more a cycle than multiplications. The
 * sums of four registers are then joined, so that a row has a lane: 7 to 9 operations for each 16
 * multiplications (8 where groups have 32 codes), for which it has units of its own. An Intel does
 * all of that in the same two units, and gains for certain only where the other way would read
 * weights twice. A Zen 4 multiplies half as fast: by count it would lose; not timed. The same whole
 * numbers, added up in the same order: the same bits. */
#include "cpu/kern/int8/int8_avx512vnni_stages.h"

/* ---- codes of weights ---- */

/* 32 bytes of each of two rows. */
MK_INLINE __m512i load_two(const uint8_t *a, const uint8_t *b) {
    __m256i lower = _mm256_loadu_si256((const void *)a),
            upper = _mm256_loadu_si256((const void *)b);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

/* bytes, 16, 32 or 64, of each of four rows, `stride` bytes apart: r[i] has the i-th 16 of each. */
MK_INLINE void load_quarters(int bytes, const uint8_t *from, int64_t stride, __m512i *r) {
    const uint8_t *rows[4] = {from, from + stride, from + 2 * stride, from + 3 * stride};
    if (bytes == 16) {
        r[0] = _mm512_castsi128_si512(load_four(rows[0], true));
        r[0] = _mm512_inserti32x4(r[0], load_four(rows[1], true), 1);
        r[0] = _mm512_inserti32x4(r[0], load_four(rows[2], true), 2);
        r[0] = _mm512_inserti32x4(r[0], load_four(rows[3], true), 3);
    } else if (bytes == 32) {
        __m512i lower = load_two(rows[0], rows[1]), upper = load_two(rows[2], rows[3]);
        r[0] = _mm512_shuffle_i32x4(lower, upper, 0x88);
        r[1] = _mm512_shuffle_i32x4(lower, upper, 0xdd);
    } else {
        __m512i even[2], odd[2];
        for (int i = 0; i < 2; i++) {
            __m512i a = _mm512_loadu_si512(rows[2 * i]), b = _mm512_loadu_si512(rows[2 * i + 1]);
            even[i] = _mm512_shuffle_i32x4(a, b, 0x88);
            odd[i] = _mm512_shuffle_i32x4(a, b, 0xdd);
        }
        r[0] = _mm512_shuffle_i32x4(even[0], even[1], 0x88);
        r[1] = _mm512_shuffle_i32x4(odd[0], odd[1], 0x88);
        r[2] = _mm512_shuffle_i32x4(even[0], even[1], 0xdd);
        r[3] = _mm512_shuffle_i32x4(odd[0], odd[1], 0xdd);
    }
}

/* `unit` codes of each of four rows as bytes, in the order that x has: codes[i] has the i-th 16. */
MK_INLINE void read_unit(form f, int unit, const uint8_t *from, int64_t stride, __m512i *codes) {
    if (f == BYTES) {
        load_quarters(unit, from, stride, codes);
        return;
    }
    __m512i words[2];
    load_quarters(unit / 2, from, stride, words);
    for (int i = 0; i < unit / 32; i++) {
        __m512i even, odd;
        take_apart(f, words[i], &even, &odd);
        codes[2 * i] = _mm512_unpacklo_epi32(even, odd);
        codes[2 * i + 1] = _mm512_unpackhi_epi32(even, odd);
    }
}

/* ---- products ---- */

/* How far weights are brought: with very few rows of x, which leave room for them there, into the
 * first-level cache alone, so that the others keep what else a token needs. */
#define VERY_FEW 4
typedef enum level { ALL_LEVELS, FIRST_LEVEL } level;

/* Asks for the lines from `at` to `end`, but when v is there: all lines of a unit at once would
 * fill the queue of misses. */
MK_INLINE void fetch_behind(level into, __m512i *v, intptr_t at, intptr_t end) {
    for (; at < end; at += 64) {
        const char *line = (const char *)at;
        if (into == FIRST_LEVEL)
            __asm__("prefetchnta %1" : "+v"(*v) : "m"(*line));
        else
            __asm__("prefetcht0 %1" : "+v"(*v) : "m"(*line));
    }
}

/* The sums of a unit of 16 rows, a row in each lane, whose codes[q] has rows q, 4 + q, 8 + q and 12
 * + q. */
MK_INLINE __m512i dot_unit(form f, level into, int unit, __m512i codes[4][4], const int8_t *x,
                           intptr_t fetched, intptr_t end) {
    __m512i sum[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++)
        sum[q] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 0; i < unit / 16; i++) {
        __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x + 16 * i)));
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++)
            sum[q] = dot4(sum[q], codes[q][i], all);
    }
    fetch_behind(into, &sum[0], fetched, end);
    return join_four(f, unit / 4, sum);
}

/* y[m, n] = x w^T; n is a multiple of LANES, m at most MAX_TOGETHER. f, into, kind and group:
 * constants. */
MK_INLINE void quarters_matmul(form f, level into, scale_kind kind, int group, const mk_qrows *w,
                               int64_t n, int64_t m, const mk_xrows *x, float *y,
                               int64_t y_stride) {
    const int unit = group < 64 ? group : 64, bytes = unit / codes_a_byte(f);
    const int64_t groups = w->k / group, stride = 4 * w->codes_stride;
    const intptr_t share = (LANES * bytes / 64 + m - 1) / m * 64; /* of lines, each row of x */
    stages scales;
    stages_begin(&scales, w, n);
    for (int64_t r = 0; r < n; r += LANES) {
        __m512 sum[MAX_TOGETHER];
        const stage *st = NULL;
        const uint8_t *from = (const uint8_t *)w->codes + r * stride;
        intptr_t fetched = (intptr_t)from + LANES * stride + mk_ahead(PREFETCH_DISTANCE);
        for (int64_t i = 0; i < m; i++)
            sum[i] = _mm512_setzero_ps();
        for (int64_t g = 0; g < groups; g++) {
            __m512i first[MAX_TOGETHER]; /* the sums of a group's first unit, where it has two */
            if (g % STAGE == 0)
                st = stages_next(&scales);
            else if (g % 2 == 1)
                stages_work(kind, &scales, 2);
#pragma GCC unroll 2
            for (int u = 0; u < group; u += unit, from += bytes, fetched += LANES * bytes) {
                const intptr_t stop = fetched + LANES * bytes;
                int64_t a = g * group + u; /* code of x */
                __m512i codes[4][4];
#pragma GCC unroll 4
                for (int q = 0; q < 4; q++)
                    read_unit(f, unit, from + q * stride, 4 * stride, codes[q]);
#pragma GCC unroll 1
                for (int64_t i = 0; i < m; i++, a += x->k) {
                    const intptr_t at = fetched + i * share, end = at + share;
                    __m512i dot =
                        dot_unit(f, into, unit, codes, x->codes + a, at, end < stop ? end : stop);
                    if (u + unit < group) {
                        first[i] = dot;
                        continue;
                    }
                    if (group > unit) dot = _mm512_add_epi32(dot, first[i]);
                    sum[i] = add_group(sum[i], dot, st->scales[g % STAGE], st->biases[g % STAGE],
                                       x->scales[i * groups + g], x->sums[i * groups + g]);
                }
            }
        }
        for (int64_t i = 0; i < m; i++)
            _mm512_storeu_ps(y + i * y_stride + r, sum[i]);
    }
}

#define QUARTERS(form, into, kind, group)                                                         \
    static void quarters_##form##_##into##_##kind##_##group(                                      \
        const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y, int64_t y_stride) { \
        quarters_matmul(form, into, kind, group, w, n, m, x, y, y_stride);                        \
    }
#define EACH_GROUP(form, into, kind) \
    QUARTERS(form, into, kind, 32) QUARTERS(form, into, kind, 64) QUARTERS(form, into, kind, 128)
#define EACH_KIND(form, into) EACH_GROUP(form, into, BF16_SCALES) EACH_GROUP(form, into, ANY_SCALES)
#define EACH_QUARTERS(into) \
    EACH_KIND(NIBBLES, into) EACH_KIND(BYTES, into) QUARTERS(E2M1, into, E8M0_SCALES, 32)
EACH_QUARTERS(ALL_LEVELS)
EACH_QUARTERS(FIRST_LEVEL)

/* By form, whether scales are bf16, and group. */
typedef quarters_fn quarters_fns[BITS][2][3];

#define GROUPS_OF(form, into, kind)                                                     \
    {                                                                                   \
        quarters_##form##_##into##_##kind##_32, quarters_##form##_##into##_##kind##_64, \
            quarters_##form##_##into##_##kind##_128                                     \
    }
#define KINDS_OF(form, into) \
    { GROUPS_OF(form, into, ANY_SCALES), GROUPS_OF(form, into, BF16_SCALES) }
#define QUARTERS_OF(into)                          \
    [into] = {[NIBBLES] = KINDS_OF(NIBBLES, into), \
              [BYTES] = KINDS_OF(BYTES, into),     \
              [E2M1] = {{quarters_E2M1_##into##_E8M0_SCALES_32}}}

quarters_fn mk_int8_quarters_avx512vnni(const mk_qrows *w, int64_t m) {
    static const quarters_fns fns[] = {QUARTERS_OF(ALL_LEVELS), QUARTERS_OF(FIRST_LEVEL)};
    form f = form_of(w);
    if (f == BITS || w->group < 32) return NULL;
    level into = m <= VERY_FEW ? FIRST_LEVEL : ALL_LEVELS;
    return fns[into][f][scale_kind_of(w) == BF16_SCALES][w->group / 64];
}

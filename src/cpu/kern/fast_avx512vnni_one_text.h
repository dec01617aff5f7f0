/* AVX-512 VNNI: one row of x, and the scales that are brought into lanes while codes are multiplied.
 * fast_avx512vnni.c includes it as it is, fast_avx512vnni_near.c with MK_NEAR true.
 *
 * A row meets 64 bytes of each row of weights as they lie; the 16 registers of partial sums are then added up in
 * pairs until a group's sums have a lane each. That is half the work of turning the codes over, which pays from two
 * rows of x on: those share it. Only so with codes of 4 bits and of 8: others are always turned over, and so are the
 * last rows of weights that are fewer than 16. */
#ifndef CPU_KERN_FAST_AVX512VNNI_ONE_TEXT_H
#define CPU_KERN_FAST_AVX512VNNI_ONE_TEXT_H

#include "cpu/kern/fast_avx512vnni.h"

/* ---- scales, while codes are multiplied ---- */

/* Goes through rows 16 at a time, and through their scales STAGE groups at a time: some are in use
 * while the ones after them are brought into lanes. */
typedef struct stages {
    const mk_qrows *w;
    int64_t n, groups;
    lanes blocks[2];
    lanes *now, *next;  /* of them: of the groups in use and of those in work */
    int64_t row, first; /* of those in work */
    int part, use;
    staging on;
    stage st[2];
} stages;

static void stages_begin(stages *s, const mk_qrows *w, int64_t n) {
    s->w = w;
    s->n = n;
    s->groups = w->k / w->group;
    s->now = s->next = &s->blocks[0];
    s->blocks[0] = lanes_of(w, n, 0);
    s->row = s->first = 0;
    s->part = s->use = 0;
}

/* Does a step of what is in work. kind: a constant. */
MK_INLINE void stages_part(scale_kind kind, stages *s) {
    int64_t count = staged_from(s->first, s->groups);
    stage *st = &s->st[1 - s->use];
    int part = s->part++;
    if (kind == ANY_SCALES)
        stage_any_part(s->w, s->next, s->first, count, part, &s->on, st);
    else
        stage_part(kind, s->w, s->next, s->first, count, part, &s->on, st);
}

/* To the groups after those in use, or at first to the first. */
MK_INLINE const stage *stages_next(scale_kind kind, stages *s) {
    while (s->part < PARTS)
        stages_part(kind, s);
    s->use = 1 - s->use;
    s->part = 0;
    if (s->first == 0) s->now = s->next;
    s->first += STAGE;
    if (s->first >= s->groups) {
        s->first = 0;
        s->row += s->row + LANES < s->n ? LANES : 0; /* the last ones again, which nobody uses */
        s->next = &s->blocks[s->now == &s->blocks[0]];
        *s->next = lanes_of(s->w, s->n, s->row);
    }
    return &s->st[s->use];
}

/* What is due after `groups` groups have been used. */
MK_INLINE void stages_work(scale_kind kind, stages *s, int groups) {
    for (int i = 0; i < (groups + 1) / 2; i++)
        if (s->part < PARTS) stages_part(kind, s);
}

/* ---- one row of x ---- */

/* Neighbours among the lanes of a and of b added up: in each four lanes a's sums, then b's. most: no lane is larger;
 * one that fits 16 bits takes two steps instead of three. */
MK_INLINE __m512i join_two(int64_t most, __m512i a, __m512i b) {
    if (most <= INT16_MAX) return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
    __m512 left = _mm512_castsi512_ps(a), right = _mm512_castsi512_ps(b);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(left, right, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(left, right, 0xdd)));
}

/* Each four lanes of r[i] added up, for 4 rows: row i's sums are lanes i, 4 + i, 8 + i, 12 + i. */
MK_INLINE __m512i join_four(form f, const __m512i r[4]) {
    const int64_t most = 8 * 128 * (f == NIBBLES ? 15 : f == E2M1 ? MK_E2M1_MOST : 255);
    return join_two(2 * most, join_two(most, r[0], r[1]), join_two(most, r[2], r[3]));
}

/* r[i] has rows 4 i .. 4 i + 3, a quarter of the sums in each four lanes. Quarters of one group are
 * added up: `span` groups. */
MK_INLINE void join_quarters(int span, const __m512i r[4], __m512i *dot) {
    __m512i even[2], odd[2];
    for (int i = 0; i < 2; i++) {
        even[i] = _mm512_shuffle_i32x4(r[2 * i], r[2 * i + 1], 0x88);
        odd[i] = _mm512_shuffle_i32x4(r[2 * i], r[2 * i + 1], 0xdd);
        if (span < 4) even[i] = _mm512_add_epi32(even[i], odd[i]);
    }
    dot[0] = _mm512_shuffle_i32x4(even[0], even[1], 0x88);
    __m512i next = _mm512_shuffle_i32x4(even[0], even[1], 0xdd);
    if (span == 1) {
        dot[0] = _mm512_add_epi32(dot[0], next);
        return;
    }
    dot[span / 2] = next;
    if (span == 2) return;
    dot[1] = _mm512_shuffle_i32x4(odd[0], odd[1], 0x88);
    dot[3] = _mm512_shuffle_i32x4(odd[0], odd[1], 0xdd);
}

/* Words of codes from `from` on, at most 16, of which `words` are there; all of them where whole. */
MK_INLINE __m512i load_words(bool whole, const void *from, int64_t words) {
    return whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(mk_first(words), from);
}

/* A unit is what is added up at once: a register of codes, of 8 bits two where a group has as many. */
MK_INLINE int unit_codes(form f, int group) {
    return f == BYTES && group < 128 ? 64 : 128;
}

/* What the codes of a unit meet: words of x are those that are there. */
MK_INLINE void load_x(form f, int lines, bool whole, const int8_t *codes, int64_t words,
                      __m512i x[2]) {
    x[0] = load_words(whole, codes, words);
    if (f == BYTES && lines == 1) return;
    x[1] = load_words(whole, codes + 64, words - 16);
    if (f == BYTES) return;
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i evens = _mm512_permutex2var_epi32(x[0], even, x[1]);
    x[1] = _mm512_permutex2var_epi32(x[0], _mm512_add_epi32(even, _mm512_set1_epi32(1)), x[1]);
    x[0] = evens;
}

/* Partial sums of a unit of a row: of its first codes in the first lanes. words: of x that are there. */
MK_INLINE __m512i dot_row(form f, int lines, bool whole, const uint8_t *from, int64_t words,
                          const __m512i x[2]) {
    __m512i codes = load_words(whole, from, words / codes_a_byte(f)), even, odd;
    const __m512i none = _mm512_setzero_si512();
    if (f == BYTES) {
        __m512i sum = dot4(none, codes, x[0]);
        return lines == 1 ? sum : dot4(sum, load_words(whole, from + 64, words - 16), x[1]);
    }
    take_apart(f, codes, &even, &odd);
    return dot4(dot4(none, even, x[0]), odd, x[1]);
}

#define RUN 4 /* units of a row that are read one after the other where rows are crowded */

/* Asks for a line as MK_NEAR says, but when v is there: gcc would ask for all lines of a run at once, which nothing has
 * room for. */
MK_INLINE void fetch_behind(__m512i *v, intptr_t line) {
    const char *first = (const char *)line, *again = (const char *)(line - MK_FETCHED_AGAIN);
    if (MK_NEAR)
        __asm__("prefetcht0 %1" : "+v"(*v) : "m"(*first));
    else
        __asm__("prefetcht1 %1\n\tprefetcht1 %2" : "+v"(*v) : "m"(*first), "m"(*again));
}

/* Sums of the groups of each of `units` units of 16 rows, which are all there, of which the first begins at
 * code `at`; they end within the row if whole. */
MK_INLINE void dot_units(form f, int group, int units, bool whole, const mk_qrows *w, int64_t row,
                         const mk_xrows *x, int64_t at, __m512i dot[][4]) {
    const int size = unit_codes(f, group), dense = codes_a_byte(f), lines = size / dense / 64;
    int64_t words = (w->k - at) / 4, stride = 4 * w->codes_stride, three = 3 * stride;
    uintptr_t from = (uintptr_t)w->codes + (uintptr_t)(row * stride + at / dense);
    intptr_t next =
        (intptr_t)w->codes + (row + LANES) * stride + FETCHED_AHEAD + at / dense * LANES;
    __m512i codes[RUN][2], part[RUN][4];
    for (int u = 0; u < units; u++)
        load_x(f, lines, whole, x->codes + at + u * size, words - u * size / 4, codes[u]);
    __asm__("" : "+r"(three)); /* for an address of its own; not a register for each row's */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, from += (uintptr_t)(4 * stride)) {
        __asm__("" : "+r"(from));
#pragma GCC unroll 4
        for (int u = 0; u < units; u++) {
            __m512i r[4];
            for (int j = 0; j < 4; j++) {
                uintptr_t unit =
                    from + (uintptr_t)((j == 3 ? three : j * stride) + u * size / dense);
                r[j] = dot_row(f, lines, whole, (const void *)unit, words - u * size / 4, codes[u]);
                for (int line = 0; line < lines; line++, next += 64)
                    fetch_behind(&r[j], next);
            }
            part[u][i] = join_four(f, r);
        }
    }
    for (int u = 0; u < units; u++)
        join_quarters(size / group, part[u], dot[u]);
}

/* sum plus what the groups of `units` units of 16 rows add: from group g on, whose scales are st's from `staged`
 * on. Not all of them are there unless whole. */
MK_INLINE __m512 add_units(form f, scale_kind kind, int group, int units, bool whole, stages *s,
                           const stage *st, int64_t staged, int64_t row, const mk_xrows *x,
                           int64_t g, __m512 sum) {
    const int span = unit_codes(f, group) / group;
    __m512i dot[RUN][4];
    stages_work(kind, s, units * span);
    dot_units(f, group, units, whole, s->w, row, x, g * group, dot);
    for (int i = 0; i < units * span && (whole || g + i < s->groups); i++)
        sum = add_group(sum, dot[i / span][i % span], st->scales[staged + i],
                        st->biases[staged + i], x->scales[g + i], x->sums[g + i]);
    return sum;
}

/* y[n] = the rows of w, of 4 or 8 bits, a multiple of 16, times x. */
MK_INLINE void one_product(form f, scale_kind kind, int group, const mk_qrows *w, int64_t n,
                           const mk_xrows *x, float *y) {
    const int span = unit_codes(f, group) / group;
    stages scales;
    stages_begin(&scales, w, n);
    const bool crowded = scales.now->crowded;
    for (int64_t r = 0; r < n; r += LANES) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t g = 0; g < scales.groups; g += STAGE) {
            const stage *st = stages_next(kind, &scales);
            int64_t count = staged_from(g, scales.groups), at = 0;
            for (; crowded && at + RUN * span <= count; at += RUN * span)
                sum = add_units(f, kind, group, RUN, true, &scales, st, at, r, x, g + at, sum);
            for (; at + span <= count; at += span)
                sum = add_units(f, kind, group, 1, true, &scales, st, at, r, x, g + at, sum);
            if (at < count)
                sum = add_units(f, kind, group, 1, false, &scales, st, at, r, x, g + at, sum);
        }
        _mm512_storeu_ps(y + r, sum);
    }
}

/* y[n] = the rows of w, a multiple of LANES, times x. */
typedef void (*one_fn)(const mk_qrows *w, int64_t n, const mk_xrows *x, float *y);

#define ONE(form, kind, group)                                                                 \
    static void one_##form##_##kind##_##group(const mk_qrows *w, int64_t n, const mk_xrows *x, \
                                              float *y) {                                      \
        one_product(form, kind, group, w, n, x, y);                                            \
    }
#define EACH_ONE(form, kind) ONE(form, kind, 32) ONE(form, kind, 64) ONE(form, kind, 128)
EACH_ONE(NIBBLES, BF16_SCALES)
EACH_ONE(NIBBLES, F16_SCALES)
EACH_ONE(NIBBLES, F32_SCALES)
EACH_ONE(BYTES, BF16_SCALES)
EACH_ONE(BYTES, F16_SCALES)
EACH_ONE(BYTES, F32_SCALES)
ONE(E2M1, E8M0_SCALES, 32)

#define ONE_OF(form, kind) \
    [form][kind] = {one_##form##_##kind##_32, one_##form##_##kind##_64, one_##form##_##kind##_128}

/* Groups of 16 and other widths have none (NULL): they are turned over. */
static one_fn one_of(const mk_qrows *w) {
    static const one_fn fns[BITS][ANY_SCALES][3] = {
        ONE_OF(NIBBLES, BF16_SCALES),
        ONE_OF(NIBBLES, F16_SCALES),
        ONE_OF(NIBBLES, F32_SCALES),
        ONE_OF(BYTES, BF16_SCALES),
        ONE_OF(BYTES, F16_SCALES),
        ONE_OF(BYTES, F32_SCALES),
        [E2M1][E8M0_SCALES] = {one_E2M1_E8M0_SCALES_32}};
    form f = form_of(w);
    return f == BITS || w->group < 32 ? NULL : fns[f][scale_kind_of(w)][w->group / 64];
}

/* one_of with MK_NEAR true, whatever it is here. */
one_fn mk_fast_one_avx512vnni_near(const mk_qrows *w);

#endif

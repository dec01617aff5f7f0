/* AVX-512 VNNI: one row of x, in the order in which the weights lie.
 *
 * A row of weights is read to its end before the next one, by which many processors are faster than
 * by 16 of them at once. The sums of 16 of its groups then have a lane each. They are kept until 16
 * rows have theirs, and transposed, so that a row has a lane, and multiplied by scales while the
 * next 16 rows are read. Groups are added up one after the other as in all other ways: the same
 * bits.
 *
 * What includes it says MK_TWICE: whether lines are asked for into the second-level cache and
 * again, less far ahead, into the first, by which an Intel is faster, or once, into the first
 * alone, as is best for a Zen 5: what else a token needs stays in the other caches. And with that,
 * which machine's steps of adding up (ADDED). */
#ifndef CPU_KERN_INT8_INT8_AVX512VNNI_IN_ORDER_TMPL_H
#define CPU_KERN_INT8_INT8_AVX512VNNI_IN_ORDER_TMPL_H

#include "cpu/kern/int8/int8_avx512vnni_one_tmpl.h"

/* Of the longest rows: the arrays below are on the stack, 96 KiB of them. */
#define MAX_CODES 32768
#define MAX_STAGES 32

#define SHORT_ROW 256 /* bytes: what follows costs it, and shorter ones, too much */

#define PREFETCH PREFETCH_DISTANCE /* bytes from what is read to what is asked for */
#define AGAIN 4096                 /* to what is asked for again */

/* 16 rows, and what has been made of their sums. */
typedef struct block {
    int64_t row;                     /* the first */
    __m512i dots[MAX_STAGES][LANES]; /* of STAGE groups, by rows */
} block;

/* How far scales have been asked for, and their biases, in the order in which they lie. */
typedef struct fetched {
    intptr_t scales, end; /* up to where, and up to where a row wants */
    intptr_t biases;      /* bytes from scales to biases; 0: there are none */
    int64_t row;          /* bytes */
} fetched;

/* ---- a row is read ---- */

/* x as units meet it: zeros from its end to that of a STAGE. */
MK_INLINE void lay_x(form f, int group, const mk_xrows *x, __m512i *laid) {
    const int size = unit_codes(f, group), lines = size / codes_a_byte(f) / 64;
    for (int64_t at = 0; at < x->k || at % (STAGE * group) != 0; at += size) {
        __m512i codes[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        int64_t words = (x->k - at) / 4;
        if (words > 0) load_x(f, lines, false, x->codes + at, words, codes);
        for (int i = 0; i < size / 64; i++)
            laid[at / 64 + i] = codes[i];
    }
}

/* Asks for lines, but when v, which was at `at`, is there: gcc would ask for all lines of a row at
 * once. */
MK_INLINE void fetch_behind(__m512i *v, intptr_t at) {
    const char *ahead = (const char *)(at + PREFETCH), *again = (const char *)(at + AGAIN);
    if (MK_TWICE)
        __asm__("prefetcht1 %1\n\tprefetcht0 %2" : "+v"(*v) : "m"(*ahead), "m"(*again));
    else
        __asm__("prefetchnta %1" : "+v"(*v) : "m"(*ahead));
}

/* Asks for those of one more row. */
MK_INLINE void fetch_scales(fetched *f) {
    f->end += f->row;
    for (; f->scales < f->end; f->scales += 64) {
        __builtin_prefetch((const void *)f->scales, 0, 3);
        if (f->biases != 0) __builtin_prefetch((const void *)(f->scales + f->biases), 0, 3);
    }
}

/* Lane of a group's sum among those of a STAGE, as dot_groups has them. */
MK_INLINE int lane_of(int span, int i) {
    return i % span * 4 + i / span % 4 + i / (4 * span) * (4 * span);
}

/* The sums of a STAGE of groups that begins at `from` and, unless whole, ends after as many words
 * of x. */
MK_INLINE __m512i dot_groups(form f, int group, bool whole, const uint8_t *from, int64_t words,
                             const __m512i *x) {
    const int size = unit_codes(f, group), bytes = size / codes_a_byte(f), span = size / group;
    const int parts =
        4 /
        span; /* not in the loop's condition: a sanitizer's check would part it from the pragma */
    __m512i part[4], dot;
#pragma GCC unroll 4
    for (int i = 0; i < parts; i++) {
        __m512i r[4];
        part[i] = _mm512_setzero_si512();
        if (!whole && words <= i * size) continue;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            int u = 4 * i + j;
            int64_t left = words - u * size / 4;
            r[j] = _mm512_setzero_si512();
            if (!whole && left <= 0) continue;
            r[j] = dot_row(f, bytes / 64, whole, from + u * bytes, left, x + u * size / 64);
            for (int l = 0; l < bytes; l += 64)
                fetch_behind(&r[j], (intptr_t)from + u * bytes + l);
        }
        part[i] = join_four(f, 8, r);
    }
    if (span == 4) return part[0];
    if (span == 2)
        return _mm512_add_epi32(_mm512_shuffle_i32x4(part[0], part[1], 0x88),
                                _mm512_shuffle_i32x4(part[0], part[1], 0xdd));
    join_quarters(1, part, &dot);
    return dot;
}

/* Row i of a block, of k codes from `from` on. */
MK_INLINE void read_row(form f, int group, int64_t k, const uint8_t *from, const __m512i *x,
                        block *b, int i) {
    const int codes = STAGE * group, bytes = codes / codes_a_byte(f);
    __m512i(*dots)[LANES] = b->dots;
    int64_t rest = k;
    for (; rest >= codes; rest -= codes, from += bytes, x += codes / 64)
        (*dots++)[i] = dot_groups(f, group, true, from, 0, x);
    if (rest > 0) (*dots)[i] = dot_groups(f, group, false, from, rest / 4, x);
}

/* ---- what follows ---- */

/* Groups of a step, one after the other: on a Zen 5 more of them take longer than what is read
 * meanwhile; an Intel gains by adding all of them up where they have been transposed. */
#define ADDED (MK_TWICE ? STAGE : 8)
#define STEPS (1 + STAGE / ADDED) /* of a STAGE */

/* What adds a block's sums up. */
typedef struct adding {
    const mk_qrows *w;
    const mk_xrows *x;
    int64_t groups;
    stage st;
    __m512 sum;
} adding;

/* Sums of a STAGE by rows transposed: by groups. */
MK_INLINE void turn_dots(int span, const __m512i *rows, __m512i *dots) {
    __m512i r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = rows[i];
    mk_transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < STAGE; i++)
        dots[i] = r[lane_of(span, i)];
}

/* Adds what group g adds, the one `at` of its stage. */
MK_INLINE void add_one(adding *a, __m512i dot, int64_t at, int64_t g) {
    a->sum =
        add_group(a->sum, dot, a->st.scales[at], a->st.biases[at], a->x->scales[g], a->x->sums[g]);
}

/* One of the STEPS of each of its stages. */
MK_INLINE void add_step(form f, int group, adding *a, block *b, int64_t step) {
    const int span = unit_codes(f, group) / group;
    int64_t s = step / STEPS, part = step % STEPS, g = s * STAGE, count = staged_from(g, a->groups);
    __m512i *dots = b->dots[s];
    if (part == 0) {
        const lanes rows = {.first = b->row, .last = INT64_MAX, .whole = true};
        fill_stage(a->w, &rows, g, count, false, &a->st);
        if (ADDED < STAGE) turn_dots(span, dots, dots);
        return;
    }
    int64_t at = (part - 1) * ADDED;
    if (at + ADDED <= count) {
        __m512i turned[STAGE]; /* registers */
        if (ADDED == STAGE) turn_dots(span, dots, turned);
#pragma GCC unroll 16
        for (int i = 0; i < ADDED; i++)
            add_one(a, ADDED == STAGE ? turned[i] : dots[at + i], at + i, g + at + i);
    } else {
        /* Not in registers, for which group is no constant. */
        if (ADDED == STAGE) turn_dots(span, dots, dots);
        for (; at < count; at++)
            add_one(a, dots[at], at, g + at);
    }
}

/* The kind of the scales is asked where they are staged: the rest is the same for all. */
MK_INLINE void one_matmul(form f, scale_kind any, int group, const mk_qrows *w, int64_t n,
                          const mk_xrows *x, float *y) {
    (void)any;
    const scale_kind kind = scale_kind_of(w);
    const int size = kind == E8M0_SCALES ? 1 : kind == F32_SCALES ? 4 : 2;
    __m512i laid[MAX_CODES / 64];
    block blocks[2], *next = &blocks[0], *read = NULL;
    fetched scales;
    scales.row = w->scales_stride * size;
    scales.scales = scales.end = (intptr_t)w->scales + LANES * scales.row;
    scales.biases = kind == E8M0_SCALES ? 0 : (intptr_t)w->biases - (intptr_t)w->scales;
    const int64_t stride = 4 * w->codes_stride;
    adding a;
    a.w = w;
    a.x = x;
    a.groups = w->k / group;
    lay_x(f, group, x, laid);
    for (int64_t row = 0; row < n || read; row += LANES) {
        const int64_t steps = read ? (a.groups + STAGE - 1) / STAGE * STEPS : 0;
        const uint8_t *from = (const uint8_t *)w->codes + (row < n ? row * stride : 0);
        a.sum = _mm512_setzero_ps();
        if (row < n) {
            next->row = row;
            mk_find_next_pages((intptr_t)from + LANES * stride + PREFETCH, LANES * stride);
        }
        for (int64_t i = 0, step = 0; i < LANES; i++) {
            if (row < n) {
                fetch_scales(&scales);
                read_row(f, group, w->k, from + i * stride, laid, next, (int)i);
            }
            for (; step * LANES < (i + 1) * steps; step++)
                add_step(f, group, &a, read, step);
        }
        if (read) _mm512_storeu_ps(y + row - LANES, a.sum);
        read = row < n ? next : NULL;
        next = &blocks[next == &blocks[0]];
    }
}

EACH_ONE(NIBBLES, ANY_SCALES)
EACH_ONE(BYTES, ANY_SCALES)
ONE(E2M1, ANY_SCALES, 32)

/* NULL for rows that are too long or too short, too. */
static one_fn in_order_of(const mk_qrows *w) {
    static const one_fn fns[BITS][3] = {[NIBBLES] = ONE_OF(NIBBLES, ANY_SCALES),
                                        [BYTES] = ONE_OF(BYTES, ANY_SCALES),
                                        [E2M1] = {one_E2M1_ANY_SCALES_32}};
    bool fits = w->k <= MAX_CODES && w->k / w->group <= MAX_STAGES * STAGE;
    fits = fits && w->k * w->bits / 8 > SHORT_ROW;
    return fits && has_one(w) ? fns[form_of(w)][w->group / 64] : NULL;
}

#endif

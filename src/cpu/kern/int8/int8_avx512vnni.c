/* AVX-512 VNNI: fast products from packed rows, and quantising x. */
#include "cpu/kern/int8/int8_avx512vnni_one_tmpl.h"
#include "cpu/kern/int8/int8_avx512vnni_stages.h"

/* ---- one row of x ---- */

#define RUN 4 /* units of a row that are read one after the other where rows are crowded */

/* mk_prefetch_line, but when v is there: gcc would prefetch all lines of a run at once, for which
 * there is no room. */
MK_INLINE void fetch_behind(__m512i *v, intptr_t line) {
    const char *first = (const char *)line, *again = (const char *)(line - MK_FETCHED_AGAIN);
    __asm__("prefetcht1 %1\n\tprefetcht1 %2" : "+v"(*v) : "m"(*first), "m"(*again));
}

/* Sums of the groups of each of `units` units of 16 rows, which are all there, of which the first
 * begins at code `at`; they end within the row if whole. */
MK_INLINE void dot_units(form f, int group, int units, bool whole, const mk_qrows *w, int64_t row,
                         const mk_xrows *x, int64_t at, __m512i dot[][4]) {
    const int size = unit_codes(f, group), dense = codes_a_byte(f), lines = size / dense / 64;
    int64_t words = (w->k - at) / 4, stride = 4 * w->codes_stride, three = 3 * stride;
    uintptr_t from = (uintptr_t)w->codes + (uintptr_t)(row * stride + at / dense);
    intptr_t next = (intptr_t)w->codes + (row + LANES) * stride + mk_ahead(PREFETCH_DISTANCE) +
                    at / dense * LANES;
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
            part[u][i] = join_four(f, 8, r);
        }
    }
    for (int u = 0; u < units; u++)
        join_quarters(size / group, part[u], dot[u]);
}

/* sum plus what the groups of `units` units of 16 rows add: from group g on, whose scales are st's
 * from `staged` on. Not all of them are there unless whole. */
MK_INLINE __m512 add_units(form f, scale_kind kind, int group, int units, bool whole, stages *s,
                           const stage *st, int64_t staged, int64_t row, const mk_xrows *x,
                           int64_t g, __m512 sum) {
    const int span = unit_codes(f, group) / group;
    __m512i dot[RUN][4];
    if (whole) stages_work(kind, s, units * span); /* else stages_next does what is left */
    dot_units(f, group, units, whole, s->w, row, x, g * group, dot);
    for (int i = 0; i < units * span && (whole || g + i < s->groups); i++)
        sum = add_group(sum, dot[i / span][i % span], st->scales[staged + i],
                        st->biases[staged + i], x->scales[g + i], x->sums[g + i]);
    return sum;
}

/* y[n] = the rows of w, of 4 or 8 bits, a multiple of 16, times x. */
MK_INLINE void one_matmul(form f, scale_kind kind, int group, const mk_qrows *w, int64_t n,
                          const mk_xrows *x, float *y) {
    const int span = unit_codes(f, group) / group;
    stages scales;
    stages_begin(&scales, w, n);
    const bool crowded = scales.now->crowded;
    for (int64_t r = 0; r < n; r += LANES) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t g = 0; g < scales.groups; g += STAGE) {
            const stage *st = stages_next(&scales);
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

/* Scales of 16 bits are brought into lanes by code of their own; f32, which are rare, share it. */
EACH_ONE(NIBBLES, BF16_SCALES)
EACH_ONE(NIBBLES, F16_SCALES)
EACH_ONE(NIBBLES, ANY_SCALES)
EACH_ONE(BYTES, BF16_SCALES)
EACH_ONE(BYTES, F16_SCALES)
EACH_ONE(BYTES, ANY_SCALES)
ONE(E2M1, E8M0_SCALES, 32)

#define KINDS_OF(form)                                                                      \
    {                                                                                       \
        [BF16_SCALES] = ONE_OF(form, BF16_SCALES), [F16_SCALES] = ONE_OF(form, F16_SCALES), \
        [F32_SCALES] = ONE_OF(form, ANY_SCALES)                                             \
    }

static one_fn one_of(const mk_qrows *w) {
    static const one_fn fns[BITS][ANY_SCALES][3] = {
        [NIBBLES] = KINDS_OF(NIBBLES),
        [BYTES] = KINDS_OF(BYTES),
        [E2M1] = {[E8M0_SCALES] = {one_E2M1_E8M0_SCALES_32}}};
    return has_one(w) ? fns[form_of(w)][scale_kind_of(w)][w->group / 64] : NULL;
}

/* ---- a few rows of x ---- */

#define STREAMED 8 /* rows of x that share what is transposed */

/* Sums of a group, for m rows of x: few of them have several each, which would wait for each
 * other. */
#define CHAINS 4
MK_INLINE int chains_of(int m) {
    return m <= 2 ? 4 : m <= 4 ? 2 : 1;
}

MK_INLINE void clear_dots(int m, __m512i dot[][CHAINS]) {
    for (int i = 0; i < m; i++)
        for (int c = 0; c < CHAINS; c++)
            dot[i][c] = _mm512_setzero_si512();
}

/* What a word of 8 or 4 codes, and x at a, add to dot. i: which word of a step; what follows each
 * other goes to different chains, where there are several. */
MK_INLINE void dot_word(form f, int m, int i, __m512i word, const int8_t *a, int64_t stride,
                        __m512i dot[][CHAINS]) {
    const int parts = f == NIBBLES || f == E2M1 ? 2 : 1;
    __m512i codes[2] = {word};
    if (parts == 2) take_apart(f, word, &codes[0], &codes[1]);
    for (int p = 0; p < parts; p++) {
        int chain = (parts * i + p) % chains_of(m);
        for (int r = 0; r < m; r++)
            dot[r][chain] = dot4_all(dot[r][chain], codes[p], a + r * stride + 4 * p);
    }
}

/* What is transposed at once: words, and how many codes of a row they have. */
MK_INLINE int step_words(form f) {
    return f == BITS ? 16 : 4;
}
MK_INLINE int step_codes(form f) {
    return f == BITS ? 64 : column_codes(f);
}

/* Adds group g's share to sum[m]. */
MK_INLINE void add_dots(int m, __m512i dot[][CHAINS], const mk_xrows *x, int64_t groups, int64_t g,
                        const stage *st, __m512 *sum) {
    for (int i = 0; i < m; i++) {
        __m512i d = dot[i][0];
        for (int c = 1; c < chains_of(m); c++)
            d = _mm512_add_epi32(d, dot[i][c]);
        sum[i] = add_group(sum[i], d, st->scales[g % STAGE], st->biases[g % STAGE],
                           x->scales[i * groups + g], x->sums[i * groups + g]);
    }
}

/* y[m, n] = x w^T; m and bits are constants. A column is read while the one before it is
 * multiplied, so that the multipliers need not wait for it; codes of other widths are read when
 * their turn comes. Scales are brought into lanes all at once: between groups, all registers would
 * be saved each time. */
MK_INLINE void few_matmul(form f, int bits, int m, const mk_qrows *w, int64_t n, const mk_xrows *x,
                          float *y, int64_t y_stride) {
    int64_t groups = w->k / w->group;
    const bool ahead = f != BITS;
    const int count = step_words(f), width = step_codes(f);
    const int64_t early = ahead ? width : 0; /* codes that are read before their turn */
    bool halves = (f == E2M1 || f == BITS) && w->group < width; /* a step has two groups */
    stages scales;
    columns codes;
    row_copy copy;
    stages_begin(&scales, w, n);
    columns_begin(&codes, w, scales.next);
    for (int64_t r = 0; r < n; r += LANES) {
        __m512 sum[STREAMED];
        __m512i words[16];
        const stage *st = NULL;
        const int8_t *a = x->codes;
        codes.l = scales.next;
        codes.at = 0;
        if (ahead) {
            columns_copy(&codes, 0, early, &copy);
            columns_next(f, &codes, words);
        }
        for (int i = 0; i < m; i++)
            sum[i] = _mm512_setzero_ps();
        for (int64_t g = 0; g < groups; g++) {
            __m512i dot[STREAMED][CHAINS];
            if (g % STAGE == 0) st = stages_next(&scales);
            clear_dots(m, dot);
            if (!ahead || g > 0) columns_copy(&codes, codes.at - early, early, &copy);
            for (int64_t l = 0; l < w->group; l += width, a += width) {
                __m512i quarters[4];
                if (!ahead)
                    columns_bits(bits, &codes, words);
                else if (codes.at >= w->k)
                    codes.at -= width; /* the last again, which nobody uses */
                intptr_t fetched = ahead ? columns_fetched(f, &codes) : 0;
                __asm__("" : "+r"(fetched)); /* not found anew for each line */
#pragma GCC unroll 16
                for (int i = 0; i < count; i++) {
                    if (i == count / 2 && halves) {
                        add_dots(m, dot, x, groups, g++, st, sum);
                        clear_dots(m, dot);
                    }
                    if (ahead) quarters[i] = columns_quarter(f, &codes, fetched, i);
                    if (!halves || g < groups) /* a row's last step has maybe one group */
                        dot_word(f, m, i, words[i], a + width / count * i, x->k, dot);
                }
                if (ahead) mk_transpose_rows(quarters, words);
                codes.at += width;
            }
            if (g < groups) add_dots(m, dot, x, groups, g, st, sum);
        }
        for (int i = 0; i < m; i++)
            _mm512_mask_storeu_ps(y + i * y_stride + r, mk_first(n - r), sum[i]);
    }
}

typedef void (*few_fn)(const mk_qrows *w, int64_t n, const mk_xrows *x, float *y, int64_t y_stride);

#define FEW(form, bits, m)                                                                 \
    static void few_##form##_##bits##_##m(const mk_qrows *w, int64_t n, const mk_xrows *x, \
                                          float *y, int64_t y_stride) {                    \
        few_matmul(form, bits, m, w, n, x, y, y_stride);                                   \
    }
#define EACH_FEW(form, bits) \
    FEW(form, bits, 1)       \
    FEW(form, bits, 2)       \
    FEW(form, bits, 3)       \
    FEW(form, bits, 4)       \
    FEW(form, bits, 5) FEW(form, bits, 6) FEW(form, bits, 7) FEW(form, bits, 8)
EACH_FEW(BITS, 2)
EACH_FEW(BITS, 3)
EACH_FEW(NIBBLES, 4)
EACH_FEW(E2M1, 4)
EACH_FEW(BITS, 5)
EACH_FEW(BITS, 6)
EACH_FEW(BYTES, 8)

#define FEW_OF(form, bits)                                                             \
    {                                                                                  \
        few_##form##_##bits##_1, few_##form##_##bits##_2, few_##form##_##bits##_3,     \
            few_##form##_##bits##_4, few_##form##_##bits##_5, few_##form##_##bits##_6, \
            few_##form##_##bits##_7, few_##form##_##bits##_8                           \
    }

/* By bits; those of an fp mode come first. */
static const few_fn few_fns[][STREAMED] = {
    [0] = FEW_OF(E2M1, 4), [2] = FEW_OF(BITS, 2), [3] = FEW_OF(BITS, 3), [4] = FEW_OF(NIBBLES, 4),
    [5] = FEW_OF(BITS, 5), [6] = FEW_OF(BITS, 6), [8] = FEW_OF(BYTES, 8)};

/* quarters: NULL where rows of weights are in lanes. */
static void matvec_several(quarters_fn quarters, const mk_qrows *w, int64_t n, int64_t m,
                           const mk_xrows *x, float *y, int64_t y_stride) {
    const few_fn *few = few_fns[form_of(w) == E2M1 ? 0 : w->bits];
    const int64_t max = mk_block_rows(m, quarters ? MAX_TOGETHER : STREAMED);
    for (int64_t i = 0; i < m; i += max) {
        int64_t rows = m - i < max ? m - i : max;
        mk_xrows part = mk_xrows_at(x, i);
        if (quarters)
            quarters(w, n, rows, &part, y + i * y_stride, y_stride);
        else
            few[rows - 1](w, n, &part, y + i * y_stride, y_stride);
    }
}

/* one: for one row of x, NULL: the way that every machine has; quarters: for several, NULL: they go
 * by lanes. */
static void matvec_by(one_fn one, quarters_fn quarters, const mk_qrows *w, int64_t n, int64_t m,
                      const mk_xrows *x, float *y, int64_t y_stride) {
    if (m == 0) return;
    if (!one) one = one_of(w);
    int64_t done = n / LANES * LANES;
    mk_find_first_pages(w->codes, 4 * LANES * w->codes_stride + mk_ahead(PREFETCH_DISTANCE));
    if (done > 0 && m == 1 && one)
        one(w, done, x, y);
    else if (done > 0 && m > 1 && quarters)
        matvec_several(quarters, w, done, m, x, y, y_stride);
    else
        done = 0;
    if (done == n) return;
    mk_qrows rest = mk_qrows_at(w, done);
    matvec_several(NULL, &rest, n - done, m, x, y + done, y_stride);
}

static void matvec(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                   int64_t y_stride) {
    matvec_by(NULL, NULL, w, n, m, x, y, y_stride);
}

/* A Zen 5's way: also with several rows of x. */
static void matvec_once(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                        int64_t y_stride) {
    matvec_by(mk_int8_one_avx512vnni_once(w), mk_int8_quarters_avx512vnni(w, m), w, n, m, x, y,
              y_stride);
}

/* An Intel's way: where weights in lanes would be read more than once, they are in quarters too. */
static void matvec_twice(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                         int64_t y_stride) {
    quarters_fn quarters = m > STREAMED ? mk_int8_quarters_avx512vnni(w, m) : NULL;
    matvec_by(mk_int8_one_avx512vnni_twice(w), quarters, w, n, m, x, y, y_stride);
}

/* ---- x ---- */

/* Words of codes that are shifted meet their neighbours, the others 0. */
static int32_t winograd_of(const int8_t *codes, int group) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    __m512i sum = _mm512_setzero_si512();
    for (int l = 0; l < group; l += 64) {
        __m512i v = _mm512_maskz_loadu_epi32(mk_first((group - l) / 4), codes + l);
        sum = dot4(sum, _mm512_xor_si512(v, top), _mm512_srli_epi64(v, 32));
    }
    return _mm512_reduce_add_epi32(sum);
}

static void quantize_group(const float *x, int group, int max, int8_t *codes, float *scale,
                           float *sum) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    __m512i highest = _mm512_setzero_si512(), lowest = highest;
    for (int i = 0; i < group; i += 16) {
        __m512i v = _mm512_loadu_si512(x + i);
        highest = _mm512_max_epi32(highest, v);
        lowest = _mm512_max_epi32(lowest, _mm512_xor_si512(v, sign));
    }
    mk_code_step step =
        mk_code_step_of(_mm512_reduce_max_epi32(highest), _mm512_reduce_max_epi32(lowest), max);
    __m512 inverse = _mm512_set1_ps(step.inverse);
    __m512i total = _mm512_setzero_si512();
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (int i = 0; i < group; i += 16) {
        __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse));
        code = _mm512_maskz_mov_epi32(step.some ? 0xffff : 0, code);
        total = _mm512_add_epi32(total, code);
        __m128i bytes = _mm512_cvtepi32_epi8(code);
        if (mk_in_pairs(max)) bytes = _mm_shuffle_epi8(bytes, order);
        _mm_storeu_si128((void *)(codes + i), bytes);
    }
    *scale = step.scale;
    *sum = *scale * (float)_mm512_reduce_add_epi32(total);
}

static void quantize(int64_t m, const float *x, int64_t x_stride, int max, const mk_xrows *y) {
    mk_quantize_rows(quantize_group, winograd_of, m, x, x_stride, max, y);
}

void mk_int8_avx512vnni(mk_kernels *kernels) {
    kernels->int8_quantize = quantize;
    kernels->int8_matvec = matvec;
    kernels->int8_pack = mk_int8_pack_avx512vnni;
    kernels->int8_matmul = mk_int8_matmul_avx512vnni;
    kernels->int8_streamed = 16;
}

void mk_int8_avx512vnni_once(mk_kernels *kernels) {
    kernels->int8_matvec = matvec_once;
}

void mk_int8_avx512vnni_twice(mk_kernels *kernels) {
    kernels->int8_matvec = matvec_twice;
}

/* AVX-512 VNNI: what the ways to multiply one row of x share.
 *
 * A row meets 64 bytes of a row of weights in place; registers of partial sums are then added up
 * in pairs until a group's sums have a lane each. That is half the work of transposing the codes,
 * which several rows of x share. Only so with codes of 4 bits and of 8: others are always turned
 * over, and so are the last rows of weights that are fewer than 16.
 *
 * What includes this defines one_matmul, and instantiates it. */
#ifndef CPU_KERN_INT8_INT8_AVX512VNNI_ONE_TMPL_H
#define CPU_KERN_INT8_INT8_AVX512VNNI_ONE_TMPL_H

#include "cpu/kern/int8/int8_avx512vnni_rows.h"

/* r[i] has rows 4 i .. 4 i + 3, or units, a quarter of the sums in each four lanes. Quarters of one
 * group are added up: `span` groups. */
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

/* Words of codes from `from` on, at most 16, of which `words` are there; all of them where
 * whole. */
MK_INLINE __m512i load_words(bool whole, const void *from, int64_t words) {
    return whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(mk_first(words), from);
}

/* A unit is what is added up at once: a register of codes, of 8 bits two where a group has as
 * many. */
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

/* Partial sums of a unit of a row: of its first codes in the first lanes. words: of x that are
 * there. */
MK_INLINE __m512i dot_row(form f, int lines, bool whole, const uint8_t *from, int64_t words,
                          const __m512i x[2]) {
    __m512i codes = load_words(whole, from, words / codes_a_byte(f)), even, odd;
    const __m512i none = _mm512_setzero_si512();
    if (f == BYTES) {
        __m512i sum = dot4(none, codes, x[0]);
        return lines == 1 ? sum : dot4(sum, load_words(whole, from + 64, words - 16), x[1]);
    }
    /* gcc would read memory for the even ones and again for the odd ones. */
    __asm__("" : "+v"(codes));
    take_apart(f, codes, &even, &odd);
    return dot4(dot4(none, even, x[0]), odd, x[1]);
}

/* y[n] = the rows of w, of 4 or 8 bits, a multiple of LANES, times x. f, kind and group:
 * constants. */
MK_INLINE void one_matmul(form f, scale_kind kind, int group, const mk_qrows *w, int64_t n,
                          const mk_xrows *x, float *y);

/* y[n] = the rows of w, a multiple of LANES, times x. */
typedef void (*one_fn)(const mk_qrows *w, int64_t n, const mk_xrows *x, float *y);

#define ONE(form, kind, group)                                                                 \
    static void one_##form##_##kind##_##group(const mk_qrows *w, int64_t n, const mk_xrows *x, \
                                              float *y) {                                      \
        one_matmul(form, kind, group, w, n, x, y);                                             \
    }
#define EACH_ONE(form, kind) ONE(form, kind, 32) ONE(form, kind, 64) ONE(form, kind, 128)
#define ONE_OF(form, kind) \
    { one_##form##_##kind##_32, one_##form##_##kind##_64, one_##form##_##kind##_128 }

/* Groups of 16 and other widths have none: they are transposed. */
static inline bool has_one(const mk_qrows *w) {
    return form_of(w) != BITS && w->group >= 32;
}

/* Weights in the order in which they lie, lines asked for once or twice; NULL for rows that are too
 * long or too short. */
one_fn mk_int8_one_avx512vnni_once(const mk_qrows *w);
one_fn mk_int8_one_avx512vnni_twice(const mk_qrows *w);

#endif

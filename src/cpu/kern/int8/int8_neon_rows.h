/* int8_matvec for NEON, for the file that includes this and defines before:
 *
 *   dot_codes(sum, w, x)     lane i of sum plus the products of bytes 4 i .. 4 i + 3 of both
 *   CODES_SIGNED             whether w is taken as signed: then 8-bit codes are given less 128
 *
 * A row's products are summed over the lanes of its own register. Sums are integers, so that
 * their order is free. */
#include "cpu/kern/int8/int8_neon_codes.h"

/* What 8-bit codes are given as, and by how much a sum is too large for that. */
MK_INLINE uint8x16_t lowered(uint8x16_t w) {
    return CODES_SIGNED ? veorq_u8(w, vdupq_n_u8(0x80)) : w;
}

MK_INLINE int32x4_t excess(int32x4_t sum, int8x16_t x) {
    return CODES_SIGNED ? dot_codes(sum, vdupq_n_u8(0x80), x) : sum;
}

/* How a product reads its weights. Constants everywhere: each makes code of its own. */
typedef struct way {
    mk_form form;
    bool pairs; /* 32 codes of 4 bits at once, as their even and their odd ones */
    bool table; /* and they are looked up */
} way;

/* dot[r][i] += the products of 32 codes of row r of weights and of row i of x. */
MK_INLINE void dot_pairs(way f, const mk_reader *d, const mk_lanes *l, int64_t at, int m,
                         const int8_t *x, int64_t k, int32x4_t dot[MK_FOUR_ROWS][MK_STREAMED]) {
    int8x16_t even[MK_STREAMED], odd[MK_STREAMED];
    for (int i = 0; i < m; i++) {
        uint8x16_t a = vld1q_u8((const uint8_t *)x + i * k);
        uint8x16_t b = vld1q_u8((const uint8_t *)x + i * k + 16);
        uint32x4_t words[2] = {vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)};
        even[i] = vreinterpretq_s8_u32(vuzp1q_u32(words[0], words[1]));
        odd[i] = vreinterpretq_s8_u32(vuzp2q_u32(words[0], words[1]));
    }
    for (int r = 0; r < MK_FOUR_ROWS; r++) {
        uint8x16_t both = vld1q_u8(l->codes[r] + at);
        uint8x16_t low = vandq_u8(both, d->mask), high = vshrq_n_u8(both, 4);
        if (f.table) low = vqtbl1q_u8(d->table, low), high = vqtbl1q_u8(d->table, high);
        for (int i = 0; i < m; i++) {
            dot[r][i] = dot_codes(dot[r][i], low, even[i]);
            dot[r][i] = dot_codes(dot[r][i], high, odd[i]);
        }
    }
}

/* The same of 16 codes. over[i]: what all rows have too much. */
MK_INLINE void dot_sixteen(way f, const mk_reader *d, const mk_lanes *l, int64_t at, int m,
                           const int8_t *x, int64_t k, int32x4_t dot[MK_FOUR_ROWS][MK_STREAMED],
                           int32x4_t over[MK_STREAMED]) {
    uint8x16_t v[MK_FOUR_ROWS];
    mk_read16(f.form, d, l, at, v);
    for (int i = 0; i < m; i++) {
        int8x16_t a = vld1q_s8(x + i * k);
        for (int r = 0; r < MK_FOUR_ROWS; r++)
            dot[r][i] = dot_codes(dot[r][i], f.form == MK_BYTES ? lowered(v[r]) : v[r], a);
        if (f.form == MK_BYTES) over[i] = excess(over[i], a);
    }
}

/* y[m], the rows in l being the lanes. The first block of rows of x prefetches (first): a step
 * reads 64 bytes of the four rows, or fewer. */
MK_INLINE void rows_matmul(way f, const mk_qrows *w, const mk_reader *d, const mk_lanes *l, int m,
                           bool first, const mk_xrows *x, float32x4_t *y) {
    int64_t groups = w->k / w->group, at = 0;
    const int8_t *a = x->codes;
    mk_stage st;
    for (int i = 0; i < m; i++)
        y[i] = vdupq_n_f32(0);
    for (int64_t g = 0; g < groups; g++) {
        int32x4_t dot[MK_FOUR_ROWS][MK_STREAMED], over[MK_STREAMED];
        if (g % 4 == 0) mk_stage_fill(&st, w, l, g, groups - g < 4 ? groups - g : 4);
        for (int i = 0; i < m; i++) {
            over[i] = vdupq_n_s32(0);
            for (int r = 0; r < MK_FOUR_ROWS; r++)
                dot[r][i] = vdupq_n_s32(0);
        }
        if (f.pairs)
            for (int c = 0; c < w->group; c += 32, a += 32, at += 16) {
                if (first) mk_prefetch(l->next + MK_FOUR_ROWS * at);
                dot_pairs(f, d, l, at, m, a, x->k, dot);
            }
        else
            for (int c = 0; c < w->group; c += 16, a += 16, at += d->step) {
                if (first) mk_prefetch(l->next + MK_FOUR_ROWS * at);
                dot_sixteen(f, d, l, at, m, a, x->k, dot, over);
            }
        for (int i = 0; i < m; i++) {
            int32x4_t low = vpaddq_s32(dot[0][i], dot[1][i]);
            int32x4_t sum = vpaddq_s32(low, vpaddq_s32(dot[2][i], dot[3][i]));
            if (f.form == MK_BYTES) sum = vsubq_s32(sum, vdupq_n_s32(vaddvq_s32(over[i])));
            y[i] = mk_add_group(y[i], sum, st.scales[g % 4], st.biases[g % 4],
                                x->scales[i * groups + g], x->sums[i * groups + g]);
        }
    }
}

MK_INLINE void rows_choice(way f, const mk_qrows *w, const mk_reader *d, const mk_lanes *l,
                           int64_t m, bool first, const mk_xrows *x, float32x4_t *y) {
    MK_WITH_ROWS(m, MK_STREAMED, rows_matmul(f, w, d, l, MK_R, first, x, y));
}

static void matvec(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                   int64_t y_stride) {
    mk_form form = mk_form_of(w);
    bool pairs = form == MK_HALVES && w->group >= 32;
    mk_reader d = mk_reader_of(w);
    for (int64_t r = 0; r < n; r += MK_FOUR_ROWS) {
        mk_lanes l;
        mk_lanes_init(&l, w, n, r);
        for (int64_t i = 0; i < m; i += MK_STREAMED) {
            int64_t count = m - i < MK_STREAMED ? m - i : MK_STREAMED;
            mk_xrows part = mk_xrows_at(x, i);
            float32x4_t sums[MK_STREAMED];
            if (pairs && w->mode == MK_AFFINE)
                rows_choice((way){MK_HALVES, true, false}, w, &d, &l, count, i == 0, &part, sums);
            else if (pairs)
                rows_choice((way){MK_HALVES, true, true}, w, &d, &l, count, i == 0, &part, sums);
            else if (form == MK_HALVES)
                rows_choice((way){MK_HALVES, false, true}, w, &d, &l, count, i == 0, &part, sums);
            else if (form == MK_BYTES)
                rows_choice((way){MK_BYTES, false, false}, w, &d, &l, count, i == 0, &part, sums);
            else
                rows_choice((way){MK_STREAM, false, false}, w, &d, &l, count, i == 0, &part, sums);
            for (int64_t c = 0; c < count; c++)
                mk_store_first(y + (i + c) * y_stride + r, n - r, sums[c]);
        }
    }
}

/* NEON: the fast products, without dot products of bytes; tiles and x for those that have them. */
#include "cpu/kern/int8/int8_neon_codes.h"

#define CODES_SIGNED 1

/* Two products of 128 * 127 fit 16 bits. */
MK_INLINE int32x4_t dot_codes(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    int8x16_t s = vreinterpretq_s8_u8(w);
    int16x8_t low = vmull_s8(vget_low_s8(s), vget_low_s8(x));
    return vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(s, x)));
}

#define dot_lane(sum, w, x, lane) \
    dot_codes(sum, w, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), lane)))

#include "cpu/kern/int8/int8_neon_rows.h"

#include "cpu/kern/int8/int8_neon_tiles.h"

/* ---- tiles ---- */

/* Rows r .. r + 3 of n, to their quarter of a tile. */
MK_INLINE void unpack_quad(mk_form f, const mk_reader *d, const mk_qrows *w, int64_t n, int64_t r,
                           uint8_t *codes, float *scales) {
    mk_lanes l;
    uint32_t there[MK_FOUR_ROWS];
    for (int i = 0; i < MK_FOUR_ROWS; i++)
        there[i] = r + i < n ? UINT32_MAX : 0;
    uint32x4_t mask = vld1q_u32(there);
    mk_lanes_init(&l, w, n, r);
    for (int64_t at = 0; at < w->k / 16 * d->step; at += d->step, codes += 16 * MK_TILE) {
        uint8x16_t v[MK_FOUR_ROWS];
        uint32x4_t words[MK_FOUR_ROWS];
        mk_read16(f, d, &l, at, v);
        for (int i = 0; i < MK_FOUR_ROWS; i++)
            words[i] = vreinterpretq_u32_u8(v[i]);
        mk_transpose(words);
        for (int i = 0; i < MK_FOUR_ROWS; i++)
            vst1q_u8(codes + i * 4 * MK_TILE, vreinterpretq_u8_u32(vandq_u32(words[i], mask)));
    }
    int64_t groups = w->k / w->group;
    for (int64_t g = 0; g < groups; g += 4) {
        mk_stage st;
        int64_t count = groups - g < 4 ? groups - g : 4;
        mk_stage_fill(&st, w, &l, g, count);
        for (int64_t i = 0; i < count; i++, scales += 2 * MK_TILE) {
            uint32x4_t scale = vandq_u32(vreinterpretq_u32_f32(st.scales[i]), mask);
            uint32x4_t bias = vandq_u32(vreinterpretq_u32_f32(st.biases[i]), mask);
            vst1q_f32(scales, vreinterpretq_f32_u32(scale));
            vst1q_f32(scales + MK_TILE, vreinterpretq_f32_u32(bias));
        }
    }
}

static void unpack(const mk_qrows *w, int64_t n, mk_tiles *tiles) {
    int64_t groups = w->k / w->group;
    mk_form form = mk_form_of(w);
    mk_reader d = mk_reader_of(w);
    tiles->max = mk_max_code(w->mode, w->bits);
    tiles->winograd = false;
    for (int64_t r = 0; r < (n + MK_TILE - 1) / MK_TILE * MK_TILE; r += MK_FOUR_ROWS) {
        uint8_t *codes = tiles->codes + r / MK_TILE * MK_TILE * w->k + r % MK_TILE * 4;
        float *scales = tiles->scales + r / MK_TILE * MK_TILE * 2 * groups + r % MK_TILE;
        if (form == MK_HALVES)
            unpack_quad(MK_HALVES, &d, w, n, r, codes, scales);
        else if (form == MK_BYTES)
            unpack_quad(MK_BYTES, &d, w, n, r, codes, scales);
        else
            unpack_quad(MK_STREAM, &d, w, n, r, codes, scales);
    }
}

/* ---- x ---- */

static void quantize_group(const float *x, int group, int max, int8_t *codes, float *scale,
                           float *sum) {
    static const uint8_t in_pairs[8] = {0, 2, 4, 6, 1, 3, 5, 7},
                         in_place[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint8x8_t order = vld1_u8(mk_in_pairs(max) ? in_pairs : in_place);
    int32x4_t highest = vdupq_n_s32(0), lowest = highest;
    for (int i = 0; i < group; i += 4) {
        float32x4_t v = vld1q_f32(x + i);
        highest = vmaxq_s32(highest, vreinterpretq_s32_f32(v));
        lowest = vmaxq_s32(lowest, vreinterpretq_s32_f32(vnegq_f32(v)));
    }
    mk_code_step step = mk_code_step_of(vmaxvq_s32(highest), vmaxvq_s32(lowest), max);
    int32x4_t keep = vdupq_n_s32(step.some ? -1 : 0), total = vdupq_n_s32(0);
    for (int i = 0; i < group; i += 8) {
        int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), step.inverse));
        int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), step.inverse));
        low = vandq_s32(low, keep), high = vandq_s32(high, keep);
        total = vaddq_s32(total, vaddq_s32(low, high));
        int8x8_t bytes = vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)));
        vst1_s8(codes + i, vtbl1_s8(bytes, vreinterpret_s8_u8(order)));
    }
    *scale = step.scale;
    *sum = *scale * (float)vaddvq_s32(total);
}

static void quantize(int64_t m, const float *x, int64_t x_stride, int max, const mk_xrows *y) {
    mk_quantize_rows(quantize_group, mk_winograd_plain, m, x, x_stride, max, y);
}

void mk_int8_neon(mk_kernels *kernels) {
    kernels->int8_quantize = quantize;
    kernels->int8_matvec = matvec;
    kernels->int8_pack = unpack;
    kernels->int8_matmul = matmul;
}

/* NEON with dot products of unsigned by signed bytes, and with products of matrices of them: two
 * rows of a tile and two of x, 8 codes each, give four sums. */
#include "cpu/kern/int8/int8_neon_codes.h"

#define CODES_SIGNED 0
#define dot_codes(sum, w, x) vusdotq_s32(sum, w, x)

#include "cpu/kern/int8/int8_neon_rows.h"

#define PAIRS (MK_STREAMED / 2) /* of rows of x */

/* y[m, 16] of a tile. An odd row of x is taken twice. */
MK_INLINE void tile_matmul(int m, const mk_xrows *x, const uint8_t *codes, const float *scales,
                           float32x4_t y[MK_STREAMED][MK_QUADS]) {
    const int pairs = (m + 1) / 2;
    int64_t groups = x->k / x->group, last = m % 2 == 0 ? x->k : 0;
    const int8_t *a = x->codes;
    for (int i = 0; i < m; i++)
        for (int q = 0; q < MK_QUADS; q++)
            y[i][q] = vdupq_n_f32(0);
    for (int64_t g = 0; g < groups; g++, scales += 2 * MK_TILE) {
        int32x4_t dot[PAIRS][2 * MK_QUADS];
        for (int p = 0; p < pairs; p++)
            for (int q = 0; q < 2 * MK_QUADS; q++)
                dot[p][q] = vdupq_n_s32(0);
        for (int l = 0; l < x->group; l += 8, a += 8, codes += 8 * MK_TILE) {
            int8x16_t b[PAIRS];
            for (int p = 0; p < pairs; p++) {
                const int8_t *row = a + 2 * p * x->k;
                b[p] = vcombine_s8(vld1_s8(row), vld1_s8(row + (p + 1 < pairs ? x->k : last)));
            }
            for (int q = 0; q < MK_QUADS; q++) {
                uint32x4_t v = vreinterpretq_u32_u8(vld1q_u8(codes + 16 * q));
                uint32x4_t w = vreinterpretq_u32_u8(vld1q_u8(codes + 16 * q + 4 * MK_TILE));
                uint8x16_t low = vreinterpretq_u8_u32(vzip1q_u32(v, w));
                uint8x16_t high = vreinterpretq_u8_u32(vzip2q_u32(v, w));
                for (int p = 0; p < pairs; p++) {
                    dot[p][2 * q] = vusmmlaq_s32(dot[p][2 * q], low, b[p]);
                    dot[p][2 * q + 1] = vusmmlaq_s32(dot[p][2 * q + 1], high, b[p]);
                }
            }
        }
        for (int i = 0; i < m; i++) {
            float x_scale = x->scales[i * groups + g], x_sum = x->sums[i * groups + g];
            for (int q = 0; q < MK_QUADS; q++) {
                int32x4_t low = dot[i / 2][2 * q], high = dot[i / 2][2 * q + 1];
                int32x4_t sum = i % 2 == 0 ? vuzp1q_s32(low, high) : vuzp2q_s32(low, high);
                y[i][q] = mk_add_group(y[i][q], sum, vld1q_f32(scales + 4 * q),
                                       vld1q_f32(scales + MK_TILE + 4 * q), x_scale, x_sum);
            }
        }
    }
}

static void matmul(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y,
                   int64_t y_stride) {
    for (int64_t j = 0; j < n; j += MK_TILE) {
        const uint8_t *codes = tiles->codes + j * x->k;
        const float *scales = tiles->scales + 2 * j * (x->k / x->group);
        for (int64_t i = 0; i < m; i += MK_STREAMED) {
            int64_t count = m - i < MK_STREAMED ? m - i : MK_STREAMED;
            mk_xrows rows = mk_xrows_at(x, i);
            float32x4_t sums[MK_STREAMED][MK_QUADS];
            MK_WITH_ROWS(count, MK_STREAMED, tile_matmul(MK_R, &rows, codes, scales, sums));
            mk_store_tile(count, n - j, sums, y + i * y_stride + j, y_stride);
        }
    }
}

void mk_int8_neon_i8mm(mk_kernels *kernels) {
    kernels->int8_matvec = matvec;
    kernels->int8_matmul = matmul;
}

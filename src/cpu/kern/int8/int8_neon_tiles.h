/* int8_matmul for NEON, for the file that includes this after int8_neon_rows.h and defines before:
 *
 *   dot_lane(sum, w, x, lane)     dot_codes with bytes 4 lane .. 4 lane + 3 of x, again and again
 *
 * Four rows of a tile are the lanes of a register. */

/* dot[i][q] += 16 codes of each row of a tile, from `codes` on, times those of row i of x. */
MK_INLINE void dot_tile(bool full, int m, const uint8_t *codes, const int8_t *x, int64_t k,
                        int32x4_t dot[MK_STREAMED][MK_QUADS], int32x4_t over[MK_STREAMED]) {
    int8x16_t a[MK_STREAMED];
    for (int i = 0; i < m; i++) {
        a[i] = vld1q_s8(x + i * k);
        if (full) over[i] = excess(over[i], a[i]);
    }
#define PART(lane)                                                      \
    for (int q = 0; q < MK_QUADS; q++) {                                \
        uint8x16_t v = vld1q_u8(codes + 4 * MK_TILE * (lane) + 16 * q); \
        if (full) v = lowered(v);                                       \
        for (int i = 0; i < m; i++)                                     \
            dot[i][q] = dot_lane(dot[i][q], v, a[i], lane);             \
    }
    PART(0)
    PART(1)
    PART(2)
    PART(3)
#undef PART
}

/* y[m, 16] of a tile. full: codes may have 8 bits. */
MK_INLINE void tile_matmul(bool full, int m, const mk_xrows *x, const uint8_t *codes,
                           const float *scales, float32x4_t y[MK_STREAMED][MK_QUADS]) {
    int64_t groups = x->k / x->group;
    const int8_t *a = x->codes;
    for (int i = 0; i < m; i++)
        for (int q = 0; q < MK_QUADS; q++)
            y[i][q] = vdupq_n_f32(0);
    for (int64_t g = 0; g < groups; g++, scales += 2 * MK_TILE) {
        int32x4_t dot[MK_STREAMED][MK_QUADS], over[MK_STREAMED];
        for (int i = 0; i < m; i++) {
            over[i] = vdupq_n_s32(0);
            for (int q = 0; q < MK_QUADS; q++)
                dot[i][q] = vdupq_n_s32(0);
        }
        for (int l = 0; l < x->group; l += 16, a += 16, codes += 16 * MK_TILE)
            dot_tile(full, m, codes, a, x->k, dot, over);
        for (int i = 0; i < m; i++) {
            int32x4_t less = vdupq_n_s32(full ? vaddvq_s32(over[i]) : 0);
            for (int q = 0; q < MK_QUADS; q++)
                y[i][q] =
                    mk_add_group(y[i][q], vsubq_s32(dot[i][q], less), vld1q_f32(scales + 4 * q),
                                 vld1q_f32(scales + MK_TILE + 4 * q), x->scales[i * groups + g],
                                 x->sums[i * groups + g]);
        }
    }
}

MK_INLINE void tile_rows(bool full, int64_t m, const mk_xrows *x, const uint8_t *codes,
                         const float *scales, float32x4_t y[MK_STREAMED][MK_QUADS]) {
    MK_WITH_ROWS(m, MK_STREAMED, tile_matmul(full, MK_R, x, codes, scales, y));
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
            if (tiles->max == 255)
                tile_rows(true, count, &rows, codes, scales, sums);
            else
                tile_rows(false, count, &rows, codes, scales, sums);
            mk_store_tile(count, n - j, sums, y + i * y_stride + j, y_stride);
        }
    }
}

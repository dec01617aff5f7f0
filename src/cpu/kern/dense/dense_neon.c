/* NEON, as every AArch64 has it. */
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/vec_neon.h"

#define ROWS 4 /* 4 x 4 sums and 5 operands fit 32 registers */
#define COLS 4
#define COLS_ALONE 8 /* enough sums to hide the latency of one */
#define OWN_AHEAD mk_core_ahead

MK_INLINE void store_dots(int rows, int cols, mk_vec sum[ROWS][COLS_ALONE], float *y,
                          int64_t y_stride) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j += 4)
            mk_store_sums(y + i * y_stride + j, cols, sum[i] + j);
}

/* To nearest even; NaN stays NaN. */
MK_INLINE uint16x4_t narrow_vec(mk_type type, float32x4_t v) {
    if (type == MK_F16) return vreinterpret_u16_f16(vcvt_f16_f32(v));
    uint32x4_t u = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), up, quiet), 16);
}

MK_INLINE void store_narrow(mk_type type, uint16_t *y, float32x4_t v) {
    vst1_u16(y, narrow_vec(type, v));
}

MK_INLINE void store_narrow_tail(mk_type type, uint16_t *y, mk_tail n, float32x4_t v) {
    uint16_t part[4];
    vst1_u16(part, narrow_vec(type, v));
    memcpy(y, part, (size_t)n * sizeof *part);
}

#include "cpu/kern/dense/dense_narrow_tmpl.h"
#include "cpu/kern/dense/dense_tmpl.h"

void mk_dense_neon(mk_kernels *kernels) {
    set_dense(kernels);
    set_narrow(kernels);
}

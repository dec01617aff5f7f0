/* The parts of the fast family, and what they share: each overlays the kernels it has. */
#ifndef CPU_KERN_FAST_H
#define CPU_KERN_FAST_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_fast_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

/* Groups whose largest element is smaller are taken as 0: its reciprocal would overflow. */
#define MK_FAST_SMALL 0x1p-100f

/* The fp modes of 4 bits as affine ones: code c stands for scale / 2 * (mk_fast_e2m1[c] - 12). */
#define MK_FAST_E2M1_ZERO 12
#define MK_FAST_E2M1_BITS 5
#define MK_FAST_E2M1 \
    { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0 }

/* A group of x, `group` elements, a multiple of 16; pairs: even codes before odd ones. */
typedef void (*mk_quantize_group)(const float *x, int group, bool pairs, int8_t *codes,
                                  float *scale, float *sum);

/* fast_quantize, by a function of an instruction set's own. */
static inline void mk_quantize_rows(mk_quantize_group quantize, int64_t m, const float *x,
                                    int64_t x_stride, int bits, const mk_xrows *y) {
    int64_t groups = y->k / y->group;
    for (int64_t i = 0; i < m; i++)
        for (int64_t g = 0; g < groups; g++)
            quantize(x + i * x_stride + g * y->group, y->group, bits == 4,
                     y->codes + i * y->k + g * y->group, y->scales + i * groups + g,
                     y->sums + i * groups + g);
}

#endif

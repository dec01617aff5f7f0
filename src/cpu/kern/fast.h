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

#endif

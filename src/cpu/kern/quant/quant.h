/* The parts of the quantised family, and what they share: each overlays the kernels it has. */
#ifndef CPU_KERN_QUANT_QUANT_H
#define CPU_KERN_QUANT_QUANT_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_quant_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

/* Of the scales that unpack_mxfp8 knows: 2^-100 to 2^100. */
#define MK_MXFP8_RANGE 100
#define MK_BF16_NAN 0x7fc0u

/* unpack_mxfp8 as AVX-512 BF16 has it. */
void mk_unpack_mxfp8_avx512bf16(const mk_qrows *w, int64_t n, uint16_t *y);

/* Scale `at` of rows whose mode is `mode`: a constant, where code is made for each. */
static inline float mk_scale_of(const mk_qrows *w, mk_mode mode, int64_t at) {
    if (mode == MK_AFFINE) return mk_load(w->scales, w->type, at);
    uint8_t byte = ((const uint8_t *)w->scales)[at];
    return mode == MK_NVFP4 ? mk_from_e4m3(byte) : mk_from_e8m0(byte);
}

#endif

/* The kernels of the dense family by instruction set: each overlays those it has. */
#ifndef CPU_KERN_DENSE_DENSE_H
#define CPU_KERN_DENSE_DENSE_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_dense_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

/* matmul_bf16 of AMX. */
void mk_matmul_bf16_amx(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride);

#endif

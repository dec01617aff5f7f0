/* The kernels of the integer family by instruction set: each overlays those it has. */
#ifndef CPU_KERN_INTEGER_INTEGER_H
#define CPU_KERN_INTEGER_INTEGER_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_integer_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

/* Kernels of weaker sets, for what a stronger one leaves over. */
void mk_int_taps_avx2(int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin,
                      int64_t end, int32_t *y, int64_t y_stride);
void mk_int_panels_vnni256(int64_t m, int64_t n, int64_t taps, int64_t words,
                           const void *const *rows, const int32_t *panels, const int32_t *start,
                           int32_t *y, int64_t y_stride);

#endif

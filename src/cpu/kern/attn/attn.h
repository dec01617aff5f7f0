/* The parts of the attention family: each overlays the kernels it has. */
#ifndef CPU_KERN_ATTN_ATTN_H
#define CPU_KERN_ATTN_ATTN_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_attn_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"
#define VARIANT(isa, fill) void fill(mk_kernels *kernels);
#include "cpu/kern/attn/attn_variant_list.h"

/* Weights rounded by instructions for that, whatever multiplies them. */
void mk_exp_avx512bf16(mk_kernels *kernels);

/* Weights are at most 1, so 32 bits hold this many a lane. */
#define MK_ATTN_TERMS 64

#endif

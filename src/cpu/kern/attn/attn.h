/* The files of the attention family. Each overlays the kernels that it has. */
#ifndef CPU_KERN_ATTN_ATTN_H
#define CPU_KERN_ATTN_ATTN_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_attn_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"
#define VARIANT(isa, fill) void fill(mk_kernels *kernels);
#include "cpu/kern/attn/attn_variant_list.h"

/* Rounds weights to bf16 by instructions for that, for any attn_values. */
void mk_exp_avx512bf16(mk_kernels *kernels);

/* Weights are at most 1, so this many fit a lane's 32-bit sum. */
#define MK_ATTN_TERMS 64

#endif

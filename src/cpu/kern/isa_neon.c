#include "cpu/kern/ahead.h"
#include "cpu/kern/attn/attn.h"
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/quant/quant.h"

/* Part of AArch64. */
bool mk_has_neon(void) {
    return true;
}

void mk_fill_neon(mk_kernels *kernels) {
    (void)mk_core_find();
    mk_conv_neon(kernels);
    mk_dense_neon(kernels);
    mk_attn_neon(kernels);
    mk_quant_neon(kernels);
    mk_int8_neon(kernels);
}

/* The instruction set `amx` as amx_in_c.h has it: of processors that have what it builds upon. */
#include "cpu/kern/dense.h"
#include "cpu/kern/fast.h"
#include "cpu/kern/quant.h"

bool mk_has_amx(void) {
    return mk_has_avx512bf16();
}

void mk_fill_amx(mk_kernels *kernels) {
    mk_dense_amx(kernels);
    mk_fast_amx(kernels);
    mk_quant_amx(kernels);
}

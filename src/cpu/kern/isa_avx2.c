#include "cpu/kern/dense.h"
#include "cpu/kern/quant.h"

bool mk_has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

void mk_fill_avx2(mk_kernels *kernels) {
    mk_dense_avx2(kernels);
    mk_quant_avx2(kernels);
}

#include "cpu/kern/attn/attn.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/elem/elem.h"
#include "cpu/kern/fft/fft.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/row/row.h"
#include "cpu/kern/scan/scan.h"

#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows the name. */
static bool has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

bool mk_has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

void mk_fill_avx2(mk_kernels *kernels) {
    mk_dense_avx2(kernels);
    mk_attn_avx2(kernels);
    mk_quant_avx2(kernels);
    mk_elem_avx2(kernels);
    mk_fft_avx2(kernels);
    mk_row_avx2(kernels);
    mk_scan_avx2(kernels);
    mk_int8_avx2(kernels);
}

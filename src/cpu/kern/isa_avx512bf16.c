#include "cpu/kern/attn.h"
#include "cpu/kern/dense.h"
#include "cpu/kern/quant.h"

#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows the name. */
bool mk_has_avx512bf16(void) {
    unsigned eax, ebx, ecx, edx;
    return mk_has_avx512vnni() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax & 1u << 5) != 0;
}

void mk_fill_avx512bf16(mk_kernels *kernels) {
    mk_attn_avx512bf16(kernels);
    mk_dense_avx512bf16(kernels);
    mk_quant_avx512bf16(kernels);
}

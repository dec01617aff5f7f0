#include "cpu/kern/attn/attn.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/x86.h"

#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows the name. */
bool mk_has_avx512bf16(void) {
    unsigned eax, ebx, ecx, edx;
    return mk_has_avx512vnni() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax & 1u << 5) != 0;
}

/* A Zen 4 multiplies bf16 twice as fast as f32, a Sapphire Rapids half as fast. So the latter uses
 * f32 kernels, int16 attention (attn_int16.h), or AMX. The choice is by name, not by a measurement
 * at start, because the bits of a result must not depend on other programs. */
void mk_fill_avx512bf16(mk_kernels *kernels) {
    const bool amd = mk_x86_is_amd();
    mk_exp_avx512bf16(kernels);
    if (amd) mk_attn_avx512bf16(kernels);
    mk_dense_avx512bf16(kernels);
    mk_quant_avx512bf16(kernels);
    kernels->bf16_matmul = amd;
}

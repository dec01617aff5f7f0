#include "cpu/kern/attn/attn.h"
#include "cpu/kern/elem/elem.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/x86.h"

#include <cpuid.h>

bool mk_has_avx512vnni(void) {
    return mk_has_avx512() && mk_x86_has(MK_X86_AVX512VNNI) && mk_x86_has(MK_X86_AVX512VBMI) &&
           mk_x86_has(MK_X86_AVX512VBMI2);
}

/* AMD's family 26. Later families are assumed to be like it. Not every compiler's __builtin_cpu_is
 * knows the name. */
static bool is_zen5(void) {
    unsigned eax, ebx, ecx, edx;
    return mk_x86_is_amd() && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
           (eax >> 8 & 15) + (eax >> 20 & 255) >= 26;
}

/* The variant is chosen by name, because the bits of a result must not depend on other programs
 * (isa_avx512bf16.c). An AMD has units for additions beside those for multiplications; an Intel
 * uses the same units for both. On a Zen 4, rows in sequential order were slower. Every AMD with
 * VNNI multiplies pairs of bf16 faster than f32. */
void mk_fill_avx512vnni(mk_kernels *kernels) {
    const bool amd = mk_x86_is_amd();
    mk_attn_avx512vnni(kernels);
    mk_elem_avx512vnni(kernels);
    if (!amd) mk_attn_avx512vnni_int16(kernels);
    mk_int8_avx512vnni(kernels);
    mk_integer_avx512vnni(kernels);
    if (is_zen5())
        mk_int8_avx512vnni_once(kernels);
    else if (!amd)
        mk_int8_avx512vnni_twice(kernels);
    kernels->int8_winograd = amd;
}

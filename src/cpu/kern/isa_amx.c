#include "cpu/kern/attn/attn.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/has_amx.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/quant/quant.h"

#include <cpuid.h>

/* Checks the processor, the system, which must save the tile registers when threads switch, and the
 * permission to use them. */
bool mk_has_amx(void) {
    unsigned eax, ebx, ecx, edx;
    const unsigned bf16 = 1u << 22, tile = 1u << 24, int8 = 1u << 25, all = bf16 | tile | int8;
    const unsigned kept = 3u << 17;
    if (!mk_has_avx512bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
    if ((edx & all) != all) return false;
    unsigned lower, upper;
    __asm__("xgetbv" : "=a"(lower), "=d"(upper) : "c"(0));
    return (lower & kept) == kept && mk_amx_allowed();
}

void mk_fill_amx(mk_kernels *kernels) {
    mk_attn_amx(kernels);
    mk_dense_amx(kernels);
    mk_int8_amx(kernels);
    mk_integer_amx(kernels);
    mk_quant_amx(kernels);
}

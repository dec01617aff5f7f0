#include "cpu/kern/int8/int8.h"

#include <cpuid.h>

/* The system saves these registers if it saves those of AVX2. */
bool mk_has_avxvnni(void) {
    unsigned eax, ebx, ecx, edx;
    return mk_has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 4) != 0;
}

void mk_fill_avxvnni(mk_kernels *kernels) {
    mk_int8_avxvnni(kernels);
}

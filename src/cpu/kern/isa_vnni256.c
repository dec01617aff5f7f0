#include "cpu/kern/int8/int8.h"

/* The strongest set of processors with VNNI and without VBMI: Cascade Lake, Cooper Lake. */
bool mk_has_vnni256(void) {
    return mk_has_avx512() && __builtin_cpu_supports("avx512vnni");
}

void mk_fill_vnni256(mk_kernels *kernels) {
    mk_int8_vnni256(kernels);
}

#include "cpu/kern/int8/int8.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/x86.h"

/* The strongest set of processors with VNNI and without VBMI: Cascade Lake, Cooper Lake. */
bool mk_has_vnni256(void) {
    return mk_has_avx512() && mk_x86_has(MK_X86_AVX512VNNI);
}

void mk_fill_vnni256(mk_kernels *kernels) {
    mk_int8_vnni256(kernels);
    mk_integer_vnni256(kernels);
}

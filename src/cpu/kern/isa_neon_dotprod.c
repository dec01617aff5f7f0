#include "cpu/kern/has_arm.h"
#include "cpu/kern/int8/int8.h"

bool mk_has_neon_dotprod(void) {
    return mk_arm_has_dotprod();
}

void mk_fill_neon_dotprod(mk_kernels *kernels) {
    mk_int8_neon_dotprod(kernels);
}

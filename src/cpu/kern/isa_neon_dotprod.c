#include "cpu/kern/fast.h"
#include "cpu/kern/has_arm.h"

bool mk_has_neon_dotprod(void) {
    return mk_arm_has_dotprod();
}

void mk_fill_neon_dotprod(mk_kernels *kernels) {
    mk_fast_neon_dotprod(kernels);
}

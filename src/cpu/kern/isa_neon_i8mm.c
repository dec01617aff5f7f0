#include "cpu/kern/has_arm.h"
#include "cpu/kern/int8/int8.h"

bool mk_has_neon_i8mm(void) {
    return mk_has_neon_dotprod() && mk_arm_has_i8mm();
}

void mk_fill_neon_i8mm(mk_kernels *kernels) {
    mk_int8_neon_i8mm(kernels);
}

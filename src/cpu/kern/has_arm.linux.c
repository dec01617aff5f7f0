#include "cpu/kern/has_arm.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

bool mk_arm_has_dotprod(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

bool mk_arm_has_i8mm(void) {
    return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

#include "cpu/kern/has_arm.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

/* The system answers for the register where it says so: Linux, Documentation/arch/arm64,
 * cpu-feature-registers.rst. */
uint64_t mk_arm_midr(void) {
    uint64_t midr = 0;
    if (getauxval(AT_HWCAP) & HWCAP_CPUID) __asm__("mrs %0, midr_el1" : "=r"(midr));
    return midr;
}

bool mk_arm_has_dotprod(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

bool mk_arm_has_i8mm(void) {
    return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

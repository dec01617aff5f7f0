#include "cpu/kern/has_arm.h"

#include <windows.h>

/* The registry has the register of each processor by the number that the architecture gives it:
 * op0 3, the rest 0. */
uint64_t mk_arm_midr(void) {
    uint64_t midr = 0;
    DWORD bytes = sizeof midr;
    LSTATUS status =
        RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                     L"CP 4000", RRF_RT_REG_QWORD, NULL, &midr, &bytes);
    return status == ERROR_SUCCESS ? midr : 0;
}

bool mk_arm_has_dotprod(void) {
    return IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE);
}

bool mk_arm_has_i8mm(void) {
    return IsProcessorFeaturePresent(PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE);
}

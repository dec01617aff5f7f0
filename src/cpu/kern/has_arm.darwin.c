#include "cpu/kern/has_arm.h"

#include <stddef.h>
#include <sys/types.h>

#include <sys/sysctl.h>

static bool has(const char *feature) {
    int value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(feature, &value, &bytes, NULL, 0) == 0 && value != 0;
}

/* Programs may not read the register. Apple's number does for all its cores (core_list.h). */
uint64_t mk_arm_midr(void) {
    return UINT64_C(0x61) << 24;
}

bool mk_arm_has_dotprod(void) {
    return has("hw.optional.arm.FEAT_DotProd");
}

bool mk_arm_has_i8mm(void) {
    return has("hw.optional.arm.FEAT_I8MM");
}

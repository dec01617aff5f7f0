#include <cpuid.h>

#include "cpu/kern/kern.h"

#define BRAND_FIRST 0x80000002u /* the first of three leaves with 16 characters each */

void mk_cpu_name(char text[64]) {
    uint32_t brand[3][4];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *part = brand[i];
        if (__get_cpuid(BRAND_FIRST + i, &part[0], &part[1], &part[2], &part[3]) == 0) {
            memcpy(text, "x86-64", sizeof "x86-64");
            return;
        }
    }
    memcpy(text, brand, sizeof brand);
    text[sizeof brand] = '\0';
}

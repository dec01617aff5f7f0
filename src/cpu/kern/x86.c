#include "cpu/kern/x86.h"

#include <cpuid.h>
#include <string.h>

enum { ECX, EBX, YMM = 0x6, ZMM = 0xe6 }; /* registers of cpuid; what the system saves of AVX */

/* Leaf, register and bit of cpuid, and the registers that the system must save. */
static const struct feature {
    unsigned leaf, reg, bit, saved;
} features[] = {
    [MK_X86_FMA] = {1, ECX, 12, YMM},        [MK_X86_F16C] = {1, ECX, 29, YMM},
    [MK_X86_AVX2] = {7, EBX, 5, YMM},        [MK_X86_AVX512F] = {7, EBX, 16, ZMM},
    [MK_X86_AVX512DQ] = {7, EBX, 17, ZMM},   [MK_X86_AVX512BW] = {7, EBX, 30, ZMM},
    [MK_X86_AVX512VL] = {7, EBX, 31, ZMM},   [MK_X86_AVX512VBMI] = {7, ECX, 1, ZMM},
    [MK_X86_AVX512VBMI2] = {7, ECX, 6, ZMM}, [MK_X86_AVX512VNNI] = {7, ECX, 11, ZMM},
};

/* Whether the system saves these registers when threads switch. */
static bool is_saved(unsigned registers) {
    unsigned eax, ebx, ecx, edx, lower, upper;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> 27 & 1u)) return false; /* OSXSAVE */
    __asm__("xgetbv" : "=a"(lower), "=d"(upper) : "c"(0));
    return (lower & registers) == registers;
}

bool mk_x86_has(mk_x86 feature) {
    const struct feature *f = &features[feature];
    unsigned eax, ebx, ecx, edx;
    if (!is_saved(f->saved) || !__get_cpuid_count(f->leaf, 0, &eax, &ebx, &ecx, &edx)) return false;
    return (f->reg == EBX ? ebx : ecx) >> f->bit & 1u;
}

bool mk_x86_is_amd(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(0, &eax, &ebx, &ecx, &edx) && memcmp(&ebx, "Auth", 4) == 0 &&
           memcmp(&edx, "enti", 4) == 0 && memcmp(&ecx, "cAMD", 4) == 0;
}

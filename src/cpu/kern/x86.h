/* What an x86 processor has and the system lets programs use, by cpuid and xgetbv themselves: some
 * compilers' __builtin_cpu_supports has nobody who fills it in, and then says that there is nothing
 * (zig's), or lacks names. */
#ifndef CPU_KERN_X86_H
#define CPU_KERN_X86_H

#include <stdbool.h>

typedef enum mk_x86 {
    MK_X86_FMA,
    MK_X86_F16C,
    MK_X86_AVX2,
    MK_X86_AVX512F,
    MK_X86_AVX512DQ,
    MK_X86_AVX512BW,
    MK_X86_AVX512VL,
    MK_X86_AVX512VBMI,
    MK_X86_AVX512VBMI2,
    MK_X86_AVX512VNNI
} mk_x86;

bool mk_x86_has(mk_x86 feature);
bool mk_x86_is_amd(void);

#endif

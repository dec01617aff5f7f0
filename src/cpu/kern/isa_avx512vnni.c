#include "cpu/kern/attn.h"
#include "cpu/kern/fast.h"

bool mk_has_avx512vnni(void) {
    return mk_has_avx512() && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}

/* An AMD adds in units of its own while it multiplies, an Intel in the same ones. */
void mk_fill_avx512vnni(mk_kernels *kernels) {
    mk_attn_avx512vnni(kernels);
    mk_fast_avx512vnni(kernels);
    kernels->fast_crossed = __builtin_cpu_is("amd");
}

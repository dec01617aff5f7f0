#include "cpu/kern/attn/attn.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/elem/elem.h"
#include "cpu/kern/fft/fft.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/row/row.h"
#include "cpu/kern/scan/scan.h"

bool mk_has_avx512(void) {
    return mk_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

void mk_fill_avx512(mk_kernels *kernels) {
    mk_dense_avx512(kernels);
    mk_attn_avx512(kernels);
    mk_quant_avx512(kernels);
    mk_elem_avx512(kernels);
    mk_fft_avx512(kernels);
    mk_row_avx512(kernels);
    mk_scan_avx512(kernels);
}

#include "cpu/kern/attn/attn.h"
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/elem/elem.h"
#include "cpu/kern/fft/fft.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/row/row.h"
#include "cpu/kern/scan/scan.h"
#include "cpu/kern/x86.h"

bool mk_has_avx512(void) {
    return mk_has_avx2() && mk_x86_has(MK_X86_AVX512F) && mk_x86_has(MK_X86_AVX512BW) &&
           mk_x86_has(MK_X86_AVX512DQ) && mk_x86_has(MK_X86_AVX512VL);
}

void mk_fill_avx512(mk_kernels *kernels) {
    mk_conv_avx512(kernels);
    mk_dense_avx512(kernels);
    mk_attn_avx512(kernels);
    mk_quant_avx512(kernels);
    mk_elem_avx512(kernels);
    mk_fft_avx512(kernels);
    mk_row_avx512(kernels);
    mk_scan_avx512(kernels);
    mk_integer_avx512(kernels);
}

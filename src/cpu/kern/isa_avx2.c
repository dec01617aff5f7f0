#include "cpu/kern/attn/attn.h"
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/elem/elem.h"
#include "cpu/kern/fft/fft.h"
#include "cpu/kern/int8/int8.h"
#include "cpu/kern/integer/integer.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/row/row.h"
#include "cpu/kern/scan/scan.h"
#include "cpu/kern/x86.h"

bool mk_has_avx2(void) {
    return mk_x86_has(MK_X86_AVX2) && mk_x86_has(MK_X86_FMA) && mk_x86_has(MK_X86_F16C);
}

void mk_fill_avx2(mk_kernels *kernels) {
    mk_conv_avx2(kernels);
    mk_dense_avx2(kernels);
    mk_attn_avx2(kernels);
    mk_quant_avx2(kernels);
    mk_elem_avx2(kernels);
    mk_fft_avx2(kernels);
    mk_row_avx2(kernels);
    mk_scan_avx2(kernels);
    mk_int8_avx2(kernels);
    mk_integer_avx2(kernels);
}

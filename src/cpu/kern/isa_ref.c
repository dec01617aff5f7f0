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

bool mk_has_ref(void) {
    return true;
}

void mk_fill_ref(mk_kernels *kernels) {
    mk_conv_ref(kernels);
    mk_dense_ref(kernels);
    mk_attn_ref(kernels);
    mk_quant_ref(kernels);
    mk_elem_ref(kernels);
    mk_fft_ref(kernels);
    mk_row_ref(kernels);
    mk_scan_ref(kernels);
    mk_int8_ref(kernels);
    mk_integer_ref(kernels);
}

#include "cpu/kern/attn.h"
#include "cpu/kern/dense.h"
#include "cpu/kern/fast.h"
#include "cpu/kern/quant.h"
#include "cpu/kern/row.h"

bool mk_has_ref(void) {
    return true;
}

void mk_fill_ref(mk_kernels *kernels) {
    mk_dense_ref(kernels);
    mk_attn_ref(kernels);
    mk_quant_ref(kernels);
    mk_row_ref(kernels);
    mk_fast_ref(kernels);
}

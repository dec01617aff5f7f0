/* NEON, as every AArch64 has it. */
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/vec_neon.h"

#define ROWS 6 /* 6 x 4 sums, 4 registers of a panel and one of x fit 32 registers */
#define PANELS 1
#define PLACES 4
#define BESIDE 4

#include "cpu/kern/conv/conv_tmpl.h"

void mk_conv_neon(mk_kernels *kernels) {
    set_conv(kernels);
}

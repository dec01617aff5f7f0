/* AVX-512. */
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/vec_avx512.h"

#define ROWS 6 /* 6 x 4 sums, 4 registers of panels and one of x fit 32 registers */
#define PANELS 4
#define PLACES 4
#define BESIDE 4

#include "cpu/kern/conv/conv_tmpl.h"

void mk_conv_avx512(mk_kernels *kernels) {
    set_conv(kernels);
}

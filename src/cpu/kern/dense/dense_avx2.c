/* AVX2 with FMA and F16C. */
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/vec_avx2.h"

#define ROWS 3 /* 3 x 4 sums and 4 operands fit 16 registers */
#define COLS 4
#define COLS_ALONE COLS
#define OWN_AHEAD 8192

MK_INLINE void store_dots(int rows, int cols, mk_vec sum[ROWS][COLS], float *y, int64_t y_stride) {
    for (int i = 0; i < rows; i++)
        mk_store_sums(y + i * y_stride, cols, sum[i]);
}

#include "cpu/kern/dense/dense_tmpl.h"

void mk_dense_avx2(mk_kernels *kernels) {
    set_dense(kernels);
}

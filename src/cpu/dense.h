/* Matmuls of floats: their description. */
#ifndef CPU_DENSE_H
#define CPU_DENSE_H

#include "cpu/matmul.h"

typedef struct mc_dense_matmul {
    mc_matmul p; /* first, so that both have the same address */
    const mk_kernels *kern;
    mc_layout b;     /* with batch axes broadcast; of a picked matmul its own */
    bool columns;    /* b has contiguous columns, or is copied to them: "nt"; else "nn" */
    bool paired;     /* b is bf16 in columns; a is rounded to bf16 */
    bool direct;     /* b is multiplied in place for any number of rows */
    bool streamed;   /* b has 16-bit columns, widened in registers */
    bool contiguous; /* b's rows (nn) or columns (nt) are contiguous */
    int64_t stride_k, stride_n;
} mc_dense_matmul;

/* Describes the matmul of m rows of GATHER_MM by one of its matrices (mc_matmul_init_picked). */
void mc_dense_describe_picked(const mc_call *call, int64_t m, mc_dense_matmul *d);

#endif

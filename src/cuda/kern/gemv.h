/* What kern/gemv.cu takes. */
#ifndef CUDA_KERN_GEMV_H
#define CUDA_KERN_GEMV_H

#include "cuda/kern/args.h"

enum {
    MC_CUDA_GEMV_MATRICES = 4,
    MC_CUDA_GEMV_BATCHES = 16,
    MC_CUDA_GEMV_MAX_K = 32768,  /* what x takes in shared memory is six bytes a number */
    MC_CUDA_GEMV_NORM_K = 4096,  /* the most of x that is normed before */
    MC_CUDA_GEMV_SCALES = 2 * 16 /* bytes of a row's scales and biases in a slot */
};

/* Rows of codes, or of bf16, and their product with x; of stacked matrices the first. */
typedef struct mc_cuda_gemv_matrix {
    const void *codes, *scales, *biases;
    float *out; /* [batches, n] */
    int32_t n, first_tile;
    int32_t code_stride, scale_stride; /* bytes between rows, */
    int64_t code_step, scale_step;     /* and between stacked matrices */
} mc_cuda_gemv_matrix;

/* Which of `count` a batch has: the number at i * stride. NULL: the first. */
typedef struct mc_cuda_gemv_index {
    const int32_t *data;
    int64_t stride;
    int32_t count, is_unsigned;
} mc_cuda_gemv_index;

/* Products of one row x [k] with matrices, and what is computed on the way: before, a norm by the
 * root of the mean square; behind, one of a sum and a gate. All of f32; NULL: it is left out. Or of
 * batches, for each of which indices pick a row of x and a matrix of those that are stacked: there
 * is a gate alone. */
typedef struct mc_cuda_gemv {
    mc_cuda_gemv_matrix matrices[MC_CUDA_GEMV_MATRICES];
    int32_t n_matrices, tiles; /* tiles: of 16 rows, of all matrices of a batch */
    int32_t k, units; /* k: a multiple of 8; units: of it, the last one may be part of one */
    int32_t batches, x_rows;
    int64_t x_stride;                   /* between rows of x */
    int32_t bits, mode, spread;         /* of weights; scales: 2^spread groups share one */
    int32_t unit_bytes, pitch;          /* of a row in a unit, and between rows of a slot */
    int32_t scale_bytes, scales_of_row; /* of a row in a unit, and of all of it */
    int32_t scale_width;  /* of them that are copied at once: 16, 4, or 1, where rows of scales
                             begin anywhere */
    int32_t bunch;        /* tiles of a block whose sums lie in shared memory at once: even */
    int32_t stages;       /* units that a warp has on their way, */
    int32_t early_stages; /* and so many of them before the row is there */
    int32_t scale_is_f16, weight_is_bf16, is_gelu;
    int32_t inner_is_bf16;
    mc_cuda_gemv_index lhs, rhs; /* of x, and of the matrices */
    int32_t each, none;          /* lhs NULL: so many batches in a row have the same row of x */
    int32_t op, form;            /* form: which kernel it is for, of MC_CUDA_GEMV_Q4_KERNEL on */
    mc_cuda_fault **fault;
    const float *x;
    /* x is inner_sum = inner_addend + inner_norm, the norm of x with inner_weight [k] */
    const void *inner_weight;
    const float *inner_addend;
    float *inner_norm, *inner_sum; /* written by the block that is last to have read x */
    uint32_t *done;                /* how many have; 0 before and behind a kernel */
    double inner_eps;
    const void *weight; /* [k] of the norm of x */
    float *written;     /* x, or its norm */
    double eps;
    const float *addend; /* sum = addend + product, of the first matrix */
    float *sum;
    float *gate, *gated; /* [batches, n]: silu(first product), times the second */
} mc_cuda_gemv;

#endif

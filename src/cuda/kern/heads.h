/* What kern/heads.cu takes. */
#ifndef CUDA_KERN_HEADS_H
#define CUDA_KERN_HEADS_H

#include "cuda/kern/args.h"

enum { MC_CUDA_TRACKS = 4, MC_CUDA_HEAD_LANES = 32, MC_CUDA_MAX_HEAD = 256 };

/* The strides of rows along two axes. */
typedef struct mc_cuda_head_rows {
    int64_t strides[2];
} mc_cuda_head_rows;

/* Rows [d] of f32 that go through some of these ops, in this order; what each gives is written,
 * too. A row is the same one in all of them, and its numbers follow each other. */
typedef struct mc_cuda_track {
    int64_t rows, d;
    int64_t inner; /* rows along the second axis */
    mc_cuda_view x;
    int32_t norms, rotates, converts, copies;
    int64_t position_axis; /* which tells positions; -1: all rows are at one */
    mc_cuda_head_rows x_rows, norm_rows, rope_rows, converted_rows, copy_rows; /* of the results */
    mc_cuda_norm norm; /* its weight, eps and result */
    mc_cuda_rope rope;
    mc_cuda_view converted;
    mc_cuda_copy copy;
} mc_cuda_track;

typedef struct mc_cuda_heads {
    int64_t n;
    int64_t blocks[MC_CUDA_TRACKS]; /* of each track */
    mc_cuda_track tracks[MC_CUDA_TRACKS];
} mc_cuda_heads;

#endif

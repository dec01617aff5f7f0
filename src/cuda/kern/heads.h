/* What kern/heads.cu takes. */
#ifndef CUDA_KERN_HEADS_H
#define CUDA_KERN_HEADS_H

#include "cuda/kern/args.h"

enum { MC_CUDA_TRACKS = 4, MC_CUDA_HEAD_LANES = 32, MC_CUDA_MAX_HEAD = 256 };

/* A view of few bytes, for what a kernel takes is waited for: the strides are those of rows along
 * two axes, or the first that of an operand's numbers. */
typedef struct mc_cuda_head_view {
    void *data; /* as mc_cuda_view has them */
    uint64_t number;
    int32_t dtype, is_there;
    int64_t strides[2];
} mc_cuda_head_view;

typedef struct mc_cuda_head_norm {
    double eps;
    mc_cuda_head_view weight, out;
} mc_cuda_head_norm;

typedef struct mc_cuda_head_rope { /* as mc_cuda_rope */
    int64_t half;
    double base, scale;
    const double *rates;
    mc_cuda_head_view offset, freqs, out;
    const float *turns; /* [half, 2] cosines and sines, where a kernel has computed them; or NULL */
} mc_cuda_head_rope;

/* Cosines and sines of a token, once for all of its layers. */
enum { MC_CUDA_TURNS = 4 };
typedef struct mc_cuda_turns {
    mc_cuda_head_rope ropes[MC_CUDA_TURNS]; /* what they turn is not read, nor `turns` */
    float *to;                              /* [n, MC_CUDA_MAX_HEAD / 2, 2] */
    int64_t n;
} mc_cuda_turns;

typedef struct mc_cuda_head_copy { /* as mc_cuda_copy */
    int64_t start_stride, length, count;
    mc_cuda_head_view start, out;
    mc_cuda_fault **fault;
    int32_t op, axis;
} mc_cuda_head_copy;

/* Rows [d] of f32 that go through some of these ops, in this order; what each gives is written,
 * too. A row is the same one in all of them, and its numbers follow each other. */
typedef struct mc_cuda_track {
    int64_t rows, d;
    int64_t inner; /* rows along the second axis */
    mc_cuda_head_view x;
    int32_t norms, rotates, converts, copies;
    int64_t position_axis; /* which tells positions; -1: all rows are at one */
    mc_cuda_head_norm norm;
    mc_cuda_head_rope rope;
    mc_cuda_head_view converted;
    mc_cuda_head_copy copy;
} mc_cuda_track;

typedef struct mc_cuda_heads {
    int32_t n, given; /* given: weights of norms, and positions, were there before the launch */
    int64_t blocks[MC_CUDA_TRACKS]; /* of each track */
    mc_cuda_track tracks[MC_CUDA_TRACKS];
} mc_cuda_heads;

#endif

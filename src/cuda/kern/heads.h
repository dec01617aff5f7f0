/* What kern/heads.cu takes. */
#ifndef CUDA_KERN_HEADS_H
#define CUDA_KERN_HEADS_H

#include "cuda/kern/args.h"

enum { MC_CUDA_TRACKS = 4, MC_CUDA_HEAD_LANES = 32, MC_CUDA_MAX_HEAD = 256 };

/* Rows [d] of f32 that go through some of these ops, in this order; what each gives is written,
 * too. A row is the same one in all of them. */
typedef struct mc_cuda_track {
    int64_t rows, d;
    mc_cuda_view x; /* stride 0 is that of rows; a row's numbers follow each other */
    int32_t norms, rotates, converts, copies;
    mc_cuda_norm norm; /* its weight, eps and result */
    mc_cuda_rope rope; /* of one position */
    mc_cuda_view converted;
    mc_cuda_copy copy;
    int64_t copy_stride; /* of rows, in its result */
} mc_cuda_track;

typedef struct mc_cuda_heads {
    int64_t n;
    int64_t blocks[MC_CUDA_TRACKS]; /* of each track */
    mc_cuda_track tracks[MC_CUDA_TRACKS];
} mc_cuda_heads;

#endif

/* What the kernels of attention's gradient are started with: kern/attention_back.cu. */
#ifndef CUDA_KERN_ATTENTION_BACK_H
#define CUDA_KERN_ATTENTION_BACK_H

#include "cuda/kern/args.h"

/* Rows of a block, and those of a tile that it goes over, of one term or of three. A row of D
 * numbers takes so many bytes of shared memory, for each term. */
#define MC_CUDA_BACK_OWN(TERMS) ((TERMS) == 1 ? 64 : 32)
#define MC_CUDA_BACK_OTHERS(TERMS) ((TERMS) == 1 ? 32 : 16)
#define MC_CUDA_BACK_PITCH(D) ((D)*2 + 16)

/* q, dy and dq [B, H, Lq, d], k, v, dk and dv [B, Hkv, Lk, d]: of f32, rows of the operands side by
 * side, results dense. */
typedef struct mc_cuda_attention_back {
    mc_cuda_attention attention; /* without results */
    mc_cuda_view dy, dlse;       /* dlse [B, H, Lq]; it may be absent */
    float *rows;                 /* [B, H, Lq, 2] of the first kernel, for the second */
    float *dq, *dk, *dv;
} mc_cuda_attention_back;

#endif

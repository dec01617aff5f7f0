/* What kern/attention_row.cu takes. */
#ifndef CUDA_KERN_ATTENTION_ROW_H
#define CUDA_KERN_ATTENTION_ROW_H

#include "cuda/kern/args.h"
#include "cuda/kern/heads.h"

enum { MC_CUDA_TRACK_Q, MC_CUDA_TRACK_K, MC_CUDA_TRACK_V, MC_CUDA_TOKEN_TRACKS };

/* Attention of one query a sequence. It may take over what goes before it, of one sequence: heads
 * of the query, and of the last key and value, on their way to it and into the cache. */
typedef struct mc_cuda_attention_row {
    mc_cuda_attention attention;
    int32_t takes_heads; /* by these tracks */
    int32_t has_keys;    /* all but the last key and value are there before the kernel begins */
    mc_cuda_track tracks[MC_CUDA_TOKEN_TRACKS];
} mc_cuda_attention_row;

#endif

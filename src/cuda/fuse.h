/* Kernels of a launch that are one: a pass over what it noted. */
#ifndef CUDA_FUSE_H
#define CUDA_FUSE_H

#include "cuda/nodes.h"

/* Puts the kernels of a list behind those of another, in order: where a product of one row, a gate,
 * a sum, a norm follow each other and can be one kernel, as that. All that they write is written,
 * but what the kernel writes over.
 *
 *  spare   address of memory for what lies between two kernels, of mc_cuda_spare_bytes; 0: there is
 *          none, and less is fused
 *  errors  MICA_ENOMEM */
mica_status mc_cuda_fuse(const mc_cuda_nodes *from, uint64_t spare, mc_cuda_nodes *to);
/* The memory that fusing a list of kernels may take. */
size_t mc_cuda_spare_bytes(const mc_cuda_nodes *list);

#endif

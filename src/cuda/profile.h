/* How long kernels take, for people who make them faster: where MICA_CUDA_PROFILE names a file,
 * each kernel is waited for, and the device's closing writes there a line a kernel and grid: how
 * often it ran, and how many microseconds it took, with those of its start. Launches are no graphs
 * then. */
#ifndef CUDA_PROFILE_H
#define CUDA_PROFILE_H

#include "cuda/cuda.h"

/* *profile NULL: the variable is not set, or there is no memory, or event, for it. */
void mc_cuda_profile_open(struct mc_cuda_profile **profile);
void mc_cuda_profile_close(struct mc_cuda_profile *profile); /* takes NULL */

/* Around the start of a kernel. */
void mc_cuda_profile_begin(struct mc_cuda_profile *profile, void *stream);
void mc_cuda_profile_end(struct mc_cuda_profile *profile, void *stream, mc_cuda_kernel kernel,
                         const mc_cuda_grid *grid);

#endif

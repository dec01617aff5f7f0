/* The compiled kernels, a fat binary for each file of kern/; empty in a build without nvcc. */
#ifndef CUDA_IMAGE_H
#define CUDA_IMAGE_H

#include <stddef.h>

typedef enum mc_cuda_file {
#define FILE_ROW(name, SHARED) MC_CUDA_FILE_##name,
#include "cuda/kern/file_list.h"
    MC_CUDA_FILES
} mc_cuda_file;

typedef struct mc_cuda_image {
    const unsigned char *bytes;
    int is_there;     /* 0: there was no nvcc */
    int takes_shared; /* kernels are started with more shared memory than each may have */
} mc_cuda_image;

extern const mc_cuda_image mc_cuda_images[MC_CUDA_FILES];

#endif

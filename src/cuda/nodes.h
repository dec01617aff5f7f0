/* Kernels of a launch, one after the other, with what they take. */
#ifndef CUDA_NODES_H
#define CUDA_NODES_H

#include "base/buffer.h"
#include "cuda/cuda.h"

typedef struct mc_cuda_node {
    mc_cuda_kernel kernel;
    mc_cuda_grid grid;
    uint32_t bytes; /* of what it takes */
    size_t at;      /* in the list's args, where that lies */
    void *node;     /* of the driver's graph, from which it was instantiated */
} mc_cuda_node;

typedef struct mc_cuda_nodes {
    mc_buffer nodes, args;
} mc_cuda_nodes;

/* Puts a kernel behind the others. errors  MICA_ENOMEM */
mica_status mc_cuda_nodes_add(mc_cuda_nodes *list, mc_cuda_kernel kernel, mc_cuda_grid grid,
                              const void *args, size_t bytes);
void mc_cuda_nodes_free(mc_cuda_nodes *list);

#endif

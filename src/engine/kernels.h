/* The kinds of matrices that a model has, and what its device computes matmuls with them with. */
#ifndef ENGINE_KERNELS_H
#define ENGINE_KERNELS_H

#include "base/buffer.h"
#include "model/lm.h"

/* Adds to an empty buffer the kinds of a model whose arithmetic and caches are set.
 * errors  MICA_ENOMEM */
mica_status mc_kernels_list(const mc_lm *lm, const mica_device *device, mc_buffer *kinds);

/* As mica_model_get_kernels, of such a buffer. */
mica_model_kernels mc_kernels_get(const mc_buffer *kinds, size_t i);

/* Fast where the matmuls with any kind of weights are. */
mica_arithmetic mc_kernels_arithmetic(const mc_buffer *kinds);

#endif

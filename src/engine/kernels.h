/* The kinds of matrices of a model, and the kernels that its device chooses for them. */
#ifndef ENGINE_KERNELS_H
#define ENGINE_KERNELS_H

#include "base/buffer.h"
#include "model/lm.h"

/* Fills an empty buffer with the kinds of a model whose arithmetic and cache type are set.
 * errors  MICA_ENOMEM */
mica_status mc_kernels_list(const mc_lm *lm, const mica_device *device, mc_buffer *kinds);

/* As mica_model_get_kernels, from such a buffer. */
mica_model_kernels mc_kernels_get(const mc_buffer *kinds, size_t i);

/* Fast if the matmuls with any kind of weights are fast. */
mica_arithmetic mc_kernels_arithmetic(const mc_buffer *kinds);

#endif

/* A safetensors file of tensors that are in memory: data has the bytes of kind and shape. */
#ifndef IO_SAVE_WEIGHTS_H
#define IO_SAVE_WEIGHTS_H

#include "io/safetensors_write.h"

static inline mica_status save_weights(const char *path, const mc_weight_tensor *tensors,
                                       size_t count, const mica_metadata *metadata,
                                       size_t n_metadata) {
    mc_weights_writer *w;
    mica_status status = mc_weights_writer_open(path, tensors, count, metadata, n_metadata, &w);
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        uint64_t bytes = 0;
        (void)mc_weight_bytes(&tensors[i], &bytes); /* opening has checked */
        status = mc_weights_writer_add(w, tensors[i].data, (size_t)bytes);
    }
    return mc_weights_writer_close(&w, status);
}

#endif

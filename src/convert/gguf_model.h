/* What GGUF's metadata says of a model, as files of the Hugging Face layout. */
#ifndef CONVERT_GGUF_MODEL_H
#define CONVERT_GGUF_MODEL_H

#include "base/buffer.h"
#include "base/status.h"
#include "convert/gguf_arch.h"
#include "io/gguf.h"

#include <stdbool.h>

/* Writes config.json's text.
 * errors  MICA_EFORMAT keys are missing; MICA_EUNSUPPORTED a RoPE that config.json cannot say */
mica_status mc_gguf_config(const mc_gguf *gguf, const mc_gguf_arch *arch, mc_buffer *out);

#endif

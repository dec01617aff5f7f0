/* The normalizer: rewrites text before it is split. Immutable once loaded. */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct mc_normalizer { /* zero leaves text as it is */
    mc_buffer steps;           /* of normal_step, in order */
} mc_normalizer;

/* Reads "normalizer". errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_normalizer_parse(mc_normalizer *n, mc_json v, mc_arena *arena);
void mc_normalizer_deinit(mc_normalizer *n);

/* *out is text itself where there are no steps, else lies in one of the two buffers.
 * errors  MICA_ENOMEM */
mica_status mc_normalize(const mc_normalizer *n, mc_str text, mc_buffer scratch[2], mc_str *out);

#endif

/* TensorBoard's event files: records of protocol buffers with checksums. Source: TensorFlow's
 * record_writer.h, event.proto and summary.proto. Threads: any. */
#ifndef TUNE_EVENTS_H
#define TUNE_EVENTS_H

#include "base/buffer.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mc_scalar {
    const char *tag; /* "loss/train" */
    double value;
} mc_scalar;

/* Adds the record that a file begins with. seconds: since 1970. false: no memory. */
bool mc_events_put_version(mc_buffer *out, double seconds);

/* Adds a record of values at a step. false: no memory. */
bool mc_events_put_scalars(mc_buffer *out, double seconds, int64_t step, const mc_scalar *scalars,
                           size_t n);

#endif

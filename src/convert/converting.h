/* A conversion that is under way, and what all kinds of targets share.
 *
 * Threads: a conversion belongs to one. */
#ifndef CONVERT_CONVERTING_H
#define CONVERT_CONVERTING_H

#include "base/str.h"
#include "convert/fuse.h"
#include "convert/plan.h"
#include "convert/source.h"

#include <mica/convert.h>

typedef struct mc_converting {
    const mica_convert_options *options;
    mc_str origin; /* marks the folder as made of GGUF files; empty: it is not marked */
    mc_source source;
    mc_plan plan;
    mc_fuse fuse;
    mica_device *device;
    mica_scope *s; /* of one part */
    uint64_t done, total;
} mc_converting;

/* mica_convert to a folder that is made of GGUF files. origin: of mc_gguf_origin_make. Borrowed. */
mica_status mc_convert_kept(const char *from, const char *to, const mica_convert_options *options,
                            mc_str origin);

/* Makes what is written of the i-th part, as its target says, in c->s. Scales are cast before a
 * part is dequantised, and elements before an adapter is added, as mlx-lm does. */
mica_status mc_make_value(mc_converting *c, size_t i, mc_value *value);

/* Ends the work on the i-th part: frees its memory, and tells the progress. */
void mc_end_part(mc_converting *c, size_t i);

/* Whether a GGUF file can be made of the source, before anything is planned.
 * errors  MICA_EINVAL it exists, the source is one, too, or its bits are to be calibrated */
mica_status mc_gguf_check_target(const mc_converting *c, const char *from, const char *to);

/* Writes the model as a GGUF file. errors  as mica_convert */
mica_status mc_write_gguf(mc_converting *c, const char *from, const char *to);

#endif

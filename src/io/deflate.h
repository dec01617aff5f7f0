/* Deflate, the compression of zip files. A build may lack it. */
#ifndef IO_DEFLATE_H
#define IO_DEFLATE_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unpacks the first out_bytes bytes of a stream. whole: it must end with them, and with the input.
 * errors  MICA_EFORMAT the stream is ill-formed or shorter; MICA_EUNSUPPORTED the build lacks
 *         zlib; MICA_ENOMEM. `name` goes into the texts */
mica_status mc_inflate(const char *name, const uint8_t *in, size_t in_bytes, uint8_t *out,
                       size_t out_bytes, bool whole);

/* Adds to `out` what a body of HTTP unpacks to: by gzip, zlib, or deflate without a header.
 * max     no more bytes than that; *too_large: it has more, and nothing failed
 * errors  as mc_inflate */
mica_status mc_inflate_body(const char *name, const uint8_t *in, size_t in_bytes, size_t max,
                            mc_buffer *out, bool *too_large);

/* A stream that is being packed: its pieces are given to `put`. */
typedef struct mc_deflater mc_deflater;
typedef mica_status (*mc_deflate_put)(void *context, const void *data, size_t bytes);

/* errors  MICA_EUNSUPPORTED the build lacks zlib; MICA_ENOMEM */
mica_status mc_deflater_open(mc_deflate_put put, void *context, mc_deflater **d);
/* Packs more; last: the stream ends. errors  those of put */
mica_status mc_deflater_add(mc_deflater *d, const void *data, size_t bytes, bool last);
void mc_deflater_close(mc_deflater **d);

#endif

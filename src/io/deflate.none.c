/* A build without zlib. */
#include "io/deflate.h"

mica_status mc_inflate(const char *name, const uint8_t *in, size_t in_bytes, uint8_t *out,
                       size_t out_bytes, bool whole) {
    (void)in;
    (void)in_bytes;
    (void)out;
    (void)out_bytes;
    (void)whole;
    return mc_fail(MICA_EUNSUPPORTED, "%s: is compressed, and this build of mica lacks zlib", name);
}

mica_status mc_inflate_body(const char *name, const uint8_t *in, size_t in_bytes, size_t max,
                            mc_buffer *out, bool *too_large) {
    (void)max;
    *too_large = false;
    return mc_inflate(name, in, in_bytes, NULL, out->len, true);
}

mica_status mc_deflater_open(mc_deflate_put put, void *context, mc_deflater **d) {
    (void)put;
    (void)context;
    *d = NULL;
    return mc_fail(MICA_EUNSUPPORTED, "this build of mica lacks zlib: it cannot compress");
}

mica_status mc_deflater_add(mc_deflater *d, const void *data, size_t bytes, bool last) {
    (void)d;
    (void)data;
    (void)bytes;
    (void)last;
    return mc_fail(MICA_EUNSUPPORTED, "this build of mica lacks zlib: it cannot compress");
}

void mc_deflater_close(mc_deflater **d) {
    (void)d;
}

/* gzip, by zlib. */
#include "tune/lines.h"

#include "base/alloc.h"

#include <zlib.h>

#include <limits.h>

static void *allocate(void *opaque, unsigned n, unsigned bytes) {
    (void)opaque;
    return mc_calloc(n, bytes);
}

static void release(void *opaque, void *memory) {
    (void)opaque;
    mc_free(memory);
}

static void *open_stream(void) {
    z_stream *z = mc_calloc(1, sizeof *z);
    if (!z) return NULL;
    z->zalloc = allocate;
    z->zfree = release;
    if (inflateInit2(z, 15 + 16) == Z_OK) return z; /* 16: gzip's header and checksum */
    mc_free(z);
    return NULL;
}

static const char *unpack(void *state, const unsigned char **in, size_t *in_bytes,
                          unsigned char *out, size_t *out_bytes, bool *done) {
    z_stream *z = state;
    if (*done && inflateReset(z) != Z_OK) return "zlib"; /* files may be joined */
    *done = false;
    z->next_in = (unsigned char *)(uintptr_t)*in;
    z->avail_in = *in_bytes < UINT_MAX ? (unsigned)*in_bytes : UINT_MAX;
    z->next_out = out;
    z->avail_out = *out_bytes < UINT_MAX ? (unsigned)*out_bytes : UINT_MAX;
    unsigned given = z->avail_in, room = z->avail_out;
    int code = inflate(z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return z->msg ? z->msg : "no memory, or no such format";
    *done = code == Z_STREAM_END;
    *in += given - z->avail_in;
    *in_bytes -= given - z->avail_in;
    *out_bytes -= room - z->avail_out;
    return NULL;
}

static void close_stream(void *state) {
    inflateEnd(state);
    mc_free(state);
}

const mc_unpacker mc_unpacker_gzip = {
    .name = "gzip",
    .magic = {0x1f, 0x8b},
    .magic_bytes = 2,
    .open = open_stream,
    .unpack = unpack,
    .close = close_stream,
};

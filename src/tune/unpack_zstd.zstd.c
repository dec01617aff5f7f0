/* zstd, by libzstd. */
#include "tune/lines.h"

#include <zstd.h>

static void *open_stream(void) {
    return ZSTD_createDStream();
}

static const char *unpack(void *state, const unsigned char **in, size_t *in_bytes,
                          unsigned char *out, size_t *out_bytes, bool *done) {
    ZSTD_inBuffer from = {*in, *in_bytes, 0};
    ZSTD_outBuffer to = {out, *out_bytes, 0};
    size_t code = ZSTD_decompressStream(state, &to, &from);
    if (ZSTD_isError(code)) return ZSTD_getErrorName(code);
    *done = code == 0;
    *in += from.pos;
    *in_bytes -= from.pos;
    *out_bytes -= to.pos;
    return NULL;
}

static void close_stream(void *state) {
    ZSTD_freeDStream(state);
}

const mc_unpacker mc_unpacker_zstd = {
    .name = "zstd",
    .magic = {0x28, 0xb5, 0x2f, 0xfd},
    .magic_bytes = 4,
    .open = open_stream,
    .unpack = unpack,
    .close = close_stream,
};

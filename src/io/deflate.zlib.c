/* Deflate, by zlib. */
#include "io/deflate.h"

#include "base/alloc.h"

#include <zlib.h>

#include <limits.h>

enum { PIECE = 1 << 16, RAW = -15 /* neither zlib's header nor gzip's */ };

static void *allocate(void *opaque, unsigned n, unsigned bytes) {
    (void)opaque;
    return mc_calloc(n, bytes);
}

static void release(void *opaque, void *memory) {
    (void)opaque;
    mc_free(memory);
}

static unsigned at_most(size_t bytes) {
    return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
}

/* Unpacks until out is full or the stream ends. */
static int inflate_all(z_stream *z, size_t in_bytes, size_t out_bytes, size_t *made) {
    size_t room = out_bytes;
    int code = Z_OK;
    while (code == Z_OK && room > 0) {
        unsigned in = z->avail_in = at_most(in_bytes), out = z->avail_out = at_most(room);
        code = inflate(z, Z_NO_FLUSH);
        in_bytes -= in - z->avail_in;
        room -= out - z->avail_out;
        if (code == Z_BUF_ERROR) break;
    }
    *made = out_bytes - room;
    return code;
}

/* Whether a stream that has given all of its bytes ends with the input. */
static bool ends(z_stream *z, int code, const uint8_t *end) {
    uint8_t more;
    if (code == Z_OK) {
        z->next_out = &more;
        z->avail_out = 1;
        z->avail_in = at_most((size_t)(end - z->next_in));
        code = inflate(z, Z_NO_FLUSH);
        if (z->avail_out == 0) return false;
    }
    return code == Z_STREAM_END && z->next_in == end;
}

mica_status mc_inflate(const char *name, const uint8_t *in, size_t in_bytes, uint8_t *out,
                       size_t out_bytes, bool whole) {
    uint8_t none;
    size_t made = 0;
    z_stream z = {.zalloc = allocate,
                  .zfree = release,
                  .next_in = (uint8_t *)(uintptr_t)in,
                  .next_out = out_bytes ? out : &none};
    if (inflateInit2(&z, RAW) != Z_OK) return mc_fail_nomem(name);
    int code = inflate_all(&z, in_bytes, out_bytes, &made);
    bool good = made == out_bytes && (!whole || ends(&z, code, in + in_bytes));
    inflateEnd(&z);
    if (code == Z_MEM_ERROR) return mc_fail_nomem(name);
    if (good) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: its compressed data is broken", name);
}

/* ---- bodies of HTTP ---- */

/* Of deflate some leave zlib's header out. */
static int window_of(const uint8_t *in, size_t n) {
    bool gzip = n > 1 && in[0] == 0x1f && in[1] == 0x8b;
    bool zlib = n > 1 && (in[0] & 15) == 8 && (in[0] << 8 | in[1]) % 31 == 0;
    return gzip ? 15 + 16 : zlib ? 15 : RAW;
}

/* Unpacks up to max + 1 bytes, piece by piece. returns zlib's code: Z_STREAM_END at the end */
static int unpack(z_stream *z, size_t in_bytes, size_t max, mc_buffer *out) {
    int code = Z_OK;
    while (code == Z_OK && out->len <= max) {
        if (!mc_buffer_reserve(out, PIECE)) return Z_MEM_ERROR;
        z->next_out = (uint8_t *)out->data + out->len;
        z->avail_out = PIECE;
        unsigned in = z->avail_in = at_most(in_bytes);
        code = inflate(z, Z_NO_FLUSH);
        in_bytes -= in - z->avail_in;
        out->len += PIECE - z->avail_out;
        if (code == Z_STREAM_END && in_bytes > 0) code = inflateReset(z); /* gzip may be joined */
    }
    return code;
}

mica_status mc_inflate_body(const char *name, const uint8_t *in, size_t in_bytes, size_t max,
                            mc_buffer *out, bool *too_large) {
    z_stream z = {.zalloc = allocate, .zfree = release, .next_in = (uint8_t *)(uintptr_t)in};
    if (inflateInit2(&z, window_of(in, in_bytes)) != Z_OK) return mc_fail_nomem(name);
    int code = unpack(&z, in_bytes, max, out);
    inflateEnd(&z);
    *too_large = out->len > max;
    if (code == Z_MEM_ERROR) return mc_fail_nomem(name);
    if (code == Z_STREAM_END || *too_large) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: its compressed data is broken", name);
}

struct mc_deflater {
    z_stream z;
    mc_deflate_put put;
    void *context;
    uint8_t out[PIECE];
};

mica_status mc_deflater_open(mc_deflate_put put, void *context, mc_deflater **d) {
    *d = mc_calloc(1, sizeof **d);
    if (!*d) return mc_fail_nomem("compressing");
    (*d)->put = put;
    (*d)->context = context;
    (*d)->z.zalloc = allocate;
    (*d)->z.zfree = release;
    if (deflateInit2(&(*d)->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, RAW, 8, Z_DEFAULT_STRATEGY) ==
        Z_OK)
        return MICA_OK;
    mc_free(*d);
    *d = NULL;
    return mc_fail_nomem("compressing");
}

mica_status mc_deflater_add(mc_deflater *d, const void *data, size_t bytes, bool last) {
    z_stream *z = &d->z;
    z->next_in = (uint8_t *)(uintptr_t)data;
    for (;;) {
        unsigned in = z->avail_in = at_most(bytes);
        z->next_out = d->out;
        z->avail_out = PIECE;
        int code = deflate(z, last && in == bytes ? Z_FINISH : Z_NO_FLUSH);
        bytes -= in - z->avail_in;
        MC_TRY(d->put(d->context, d->out, PIECE - z->avail_out));
        if (last ? code == Z_STREAM_END : bytes == 0 && z->avail_out > 0) return MICA_OK;
    }
}

void mc_deflater_close(mc_deflater **d) {
    if (!*d) return;
    deflateEnd(&(*d)->z);
    mc_free(*d);
    *d = NULL;
}

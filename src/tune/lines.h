/* The lines of a file, read piece by piece: plain, or compressed by gzip or zstd, which the file's
 * first bytes tell. Memory is that of the longest line. Threads: one at a time. */
#ifndef TUNE_LINES_H
#define TUNE_LINES_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    MC_LINE_MAX = 64 << 20, /* bytes of a line */
    MC_UNPACK_MAX = 200 /* bytes that each byte of a compressed file may become, beyond a line */
};

/* A decompressor. All are rows of lines.c; one that this build lacks has open NULL. */
typedef struct mc_unpacker {
    const char *name;       /* "gzip" */
    unsigned char magic[4]; /* the file's first bytes */
    size_t magic_bytes;
    void *(*open)(void); /* NULL: no memory */
    /* Unpacks what it can. in, in_bytes and out_bytes are moved on; done: a stream ended.
     * returns a text on what is wrong with the data, NULL if nothing is */
    const char *(*unpack)(void *state, const unsigned char **in, size_t *in_bytes,
                          unsigned char *out, size_t *out_bytes, bool *done);
    void (*close)(void *state);
} mc_unpacker;

extern const mc_unpacker mc_unpacker_gzip, mc_unpacker_zstd;

typedef struct mc_lines {
    FILE *file;
    const char *path; /* borrowed */
    const mc_unpacker *unpacker;
    void *state;
    mc_buffer packed; /* read and not unpacked yet, from packed_at on */
    size_t packed_at;
    uint64_t read, unpacked; /* bytes so far, of a compressed file */
    mc_buffer text;          /* unpacked, from `at` on */
    size_t at;
    uint64_t number; /* of the last line, from 1 */
    bool within;     /* the last part was not the end of its line */
    bool done;       /* of the compressed stream */
    bool ended;      /* of the file */
} mc_lines;

/* errors  MICA_ENOENT, MICA_EIO; MICA_EUNSUPPORTED compressed in a way that this build lacks;
 *         MICA_ENOMEM. Closed by mc_lines_close, after an error too */
mica_status mc_lines_open(mc_lines *lines, const char *path);
void mc_lines_close(mc_lines *lines);

/* The next line, without its line feed; it lives until the next call. line->ptr NULL: the end.
 * errors  MICA_EFORMAT corrupt data, a line too long, more text than such a file may
 *         unpack to; MICA_EIO, MICA_ENOMEM */
mica_status mc_lines_next(mc_lines *lines, mc_str *line);

/* The next line, or what is in memory of a long one. *ends: its line feed is behind it. Not mixed
 * with mc_lines_next. errors  as mc_lines_next */
mica_status mc_lines_part(mc_lines *lines, mc_str *part, bool *ends);

/* The first character of what follows, but for blanks, line feeds and a byte order mark. It is not
 * taken. '\0': there is none. errors  as mc_lines_next */
mica_status mc_lines_peek(mc_lines *lines, char *c);

#endif

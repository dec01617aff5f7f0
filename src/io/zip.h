/* Zip files: the files in them by name, and writing them, plain or compressed by deflate.
 *
 * Reading checks every position against the size of the file, and what it unpacks against the
 * stored length and checksum. All files together unpack to 1,032 times the zip file at most, for
 * those that share bytes are refused. The list at the end of the file counts; the headers before
 * the files only tell where data begins.
 *
 * Threads: a list may be read from any number of threads; a writer belongs to one.
 * Source: the format's description (APPNOTE 6.3), with its 64-bit fields. */
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/save.h"
#include "base/status.h"
#include "io/deflate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_zip_entry {
    const char *name;    /* UTF-8 */
    const uint8_t *data; /* as it is in the file */
    uint64_t packed;     /* its bytes there */
    uint64_t bytes;      /* its bytes unpacked; at most 1,032 times as many */
    uint32_t sum;        /* its checksum, if `summed` */
    bool summed, deflated;
} mc_zip_entry;

/* Lists the files in a zip file, which is in memory.
 *
 * name     goes into error texts.
 * entries  [*n] in the arena.
 * errors   MICA_EFORMAT; MICA_EUNSUPPORTED encrypted, in several parts, another compression;
 *          MICA_ENOMEM */
mica_status mc_zip_list(const uint8_t *bytes, size_t size, const char *name, mc_arena *arena,
                        mc_zip_entry **entries, size_t *n);

/* Unpacks the first `bytes` bytes of a file, which are all or fewer; of all the checksum is
 * checked. errors  MICA_EFORMAT, MICA_EUNSUPPORTED, MICA_ENOMEM */
mica_status mc_zip_read(const mc_zip_entry *entry, const char *name, uint8_t *out, size_t bytes);

/* The checksum (CRC-32) of bytes that follow others, whose checksum is `sum`; 0: none do. */
uint32_t mc_zip_sum(uint32_t sum, const void *data, size_t bytes);

/* ---- writing ---- */

typedef struct mc_zip_writer {
    mc_save save;
    mc_buffer list;     /* of the files, as it will be at the end */
    uint64_t count, at; /* number of files; position in the file */
    mc_deflater *deflater;
    fpos_t header; /* of the file that is being written */
    uint64_t begin, packed, bytes;
    uint32_t sum;
    const char *name;
    bool deflated;
} mc_zip_writer;

/* Begins to save a zip file, whole or not at all. path is borrowed until it is closed.
 * errors  MICA_ENOENT, MICA_EIO, MICA_ENOMEM; there is nothing to close then */
mica_status mc_zip_writer_open(mc_zip_writer *w, const char *path);

/* Begins a file in it. The name is borrowed until the file ends. errors  MICA_EIO, MICA_ENOMEM,
 * MICA_EUNSUPPORTED */
mica_status mc_zip_writer_begin(mc_zip_writer *w, const char *name, bool deflate);
mica_status mc_zip_writer_add(mc_zip_writer *w, const void *data, size_t bytes);
mica_status mc_zip_writer_end(mc_zip_writer *w); /* of the file */

/* Ends the zip file, or drops it if the status is not MICA_OK. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_zip_writer_close(mc_zip_writer *w, mica_status status);

#endif

/* Files of parts: what session files, files of prefixes and copies in memory have in common. Each
 * part is padded with zeros to whole words of 8 bytes. The last word is a checksum of all others.
 *
 * Threads: one at a time. */
#ifndef SESSION_FILE_PARTS_H
#define SESSION_FILE_PARTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MC_WORD = 8, MC_BYTE_ORDER_MARK = 0x01020304 };

size_t mc_padded(size_t bytes); /* to whole words */

/* ---- checksums: a sum so far, and what is added; sizes of words are multiples of 8 ---- */

uint64_t mc_sum_word(uint64_t sum, uint64_t word);
uint64_t mc_sum_words(uint64_t sum, const void *data, size_t size);
/* The same for any size, which counts, too. */
uint64_t mc_sum_bytes(uint64_t sum, const void *data, size_t size);
uint64_t mc_sum_text(uint64_t sum, const char *text);

/* The last word of a file whose other bytes are `data`. */
uint64_t mc_session_checksum(const void *data, size_t size);

/* ---- writing ---- */

typedef struct mc_part_writer {
    FILE *file;       /* NULL: to memory, without a checksum */
    char *memory;     /* where the next part goes; there is room */
    const char *path; /* path of the file, for error texts */
    uint64_t sum;     /* checksum of the `size` bytes so far, without the size itself */
    size_t size;
    bool whole; /* of keys and values all heads are written: ranks gather them */
} mc_part_writer;

/* Writes a part. errors  MICA_EIO */
mica_status mc_part_put(mc_part_writer *w, const void *data, size_t size);
/* Writes the checksum. errors  MICA_EIO */
mica_status mc_part_end(mc_part_writer *w);

/* ---- reading ---- */

typedef struct mc_part_reader {
    const char *kind, *name; /* "session file"; its path, for error texts */
    const char *data;
    size_t size, at; /* bytes, without the checksum */
    bool whole;      /* of keys and values all heads are there: a rank takes its own */
} mc_part_reader;

/* Gives the next part, and skips the padding after it. errors  MICA_EFORMAT it is not all there */
mica_status mc_part_take(mc_part_reader *r, uint64_t size, const void **data);
/* errors  MICA_EFORMAT: the file is too short */
mica_status mc_part_cut_short(const mc_part_reader *r);
/* Whether all was taken. errors  MICA_EFORMAT */
mica_status mc_part_done(const mc_part_reader *r);
/* Compares the checksum behind the data. errors  MICA_EFORMAT */
mica_status mc_part_check(const mc_part_reader *r);

#endif

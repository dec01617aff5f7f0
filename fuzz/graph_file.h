/* An input as the file of a graph, for the targets that load these. */
#ifndef FUZZ_GRAPH_FILE_H
#define FUZZ_GRAPH_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* The input's first *size bytes. If the input's length is even, what any mutation breaks is
 * corrected: magic, version, size and hash; and *size becomes a multiple of 64, as that of every
 * file. Freed with free(); NULL: no memory. */
static inline char *fuzz_graph_file(const uint8_t *data, size_t *size) {
    enum { HASHED = 32, ALIGN = 64 };
    static const uint32_t order = 0x01020304;
    bool mend = *size % 2 == 0;
    if (mend) *size = *size / ALIGN * ALIGN;
    char *file = malloc(*size ? *size : 1);
    if (!file || *size == 0) return file;
    memcpy(file, data, *size);
    if (!mend) return file;
    uint64_t bytes = *size;
    memcpy(file, "MICAGRPH", 8);
    const uint32_t version = file[8] >= 1 && file[8] <= 5 ? (uint32_t)file[8] : 3;
    memcpy(file + 8, &version, sizeof version);
    memcpy(file + 12, &order, sizeof order);
    memcpy(file + 16, &bytes, sizeof bytes);
    uint64_t hash = mc_hash(file + HASHED, *size - HASHED, 0);
    memcpy(file + 24, &hash, sizeof hash);
    return file;
}

#endif

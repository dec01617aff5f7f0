/* The format of graphs' files, which graph/file.h describes, for those who write and read it. */
#ifndef GRAPH_FILE_FORMAT_H
#define GRAPH_FILE_FORMAT_H

#include <stddef.h>

#include "graph/layout.h"

enum { MC_GRAPH_ORDER = 0x01020304, MC_GRAPH_WORD = 8, MC_GRAPH_ALIGN = 64 };

/* Versions: results without names; no subgraphs; no symbols; no names of the application's ops;
 * lengths with symbols as numbers (graph/file_primes.h); and the one that is written. */
enum {
    MC_GRAPH_NAMELESS = 1,
    MC_GRAPH_FLAT = 2,
    MC_GRAPH_FIXED = 3,
    MC_GRAPH_NUMBERED = 4,
    MC_GRAPH_PRIMES = 5,
    MC_GRAPH_VERSION = 6
};

#define MC_GRAPH_MAGIC "MICAGRPH"
#define MC_GRAPH_LEAF UINT32_MAX /* in the place of an op's index */

typedef enum mc_leaf_kind {
    MC_LEAF_PARAM,
    MC_LEAF_SCALAR,
    MC_LEAF_NAMED,
    MC_LEAF_INSIDE,
    MC_LEAF_LENGTH,
    MC_LEAF_KINDS
} mc_leaf_kind;

typedef struct mc_graph_header { /* whole words, no padding */
    char magic[8];
    uint32_t version, byte_order;
    uint64_t bytes;
    uint64_t hash; /* of what follows */
    uint64_t n_ops, n_nodes, n_params, n_results;
    uint64_t data; /* where they begin */
} mc_graph_header;

enum { MC_GRAPH_HASHED = offsetof(mc_graph_header, n_ops) };

/* The low bytes of a scalar, which are its value. */
static inline uint64_t mc_scalar_low(mica_dtype dtype, uint64_t value) {
    return value & (UINT64_MAX >> (64 - 8 * mica_dtype_bytes(dtype)));
}

#endif

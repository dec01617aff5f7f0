/* A tree of byte strings with a value for each: all those that a text begins with are found in one
 * walk. Immutable once filled; any number of threads may walk. Zero is empty. */
#ifndef TEXT_TOKENIZER_BYTE_TREE_H
#define TEXT_TOKENIZER_BYTE_TREE_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/pairs.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    MC_BYTE_TREE_MAX_LEN = 1024
}; /* bytes of a string: a byte of text is read at most this often */

typedef struct mc_byte_tree {
    mc_pairs edges;   /* (node, byte) to node; node 0 is the root */
    mc_buffer values; /* of int32, one for each node; -1: no string ends here */
} mc_byte_tree;

/* Adds a string, or replaces its value, which is not negative. *fits: it is neither empty nor too
 * long; else nothing is added. errors  MICA_ENOMEM */
mica_status mc_byte_tree_put(mc_byte_tree *t, mc_str text, int32_t value, bool *fits);
void mc_byte_tree_deinit(mc_byte_tree *t);

/* Goes from *node along a byte; false: no string goes on so. */
static inline bool mc_byte_tree_step(const mc_byte_tree *t, uint32_t *node, char byte) {
    uint64_t next;
    if (!mc_pairs_find(&t->edges, mc_pair_key(*node, (uint8_t)byte), &next)) return false;
    *node = (uint32_t)next;
    return true;
}

/* The value of the string that ends at a node; -1: none does. The tree is not empty. */
static inline int32_t mc_byte_tree_value(const mc_byte_tree *t, uint32_t node) {
    return MC_BUFFER_AT(&t->values, int32_t)[node];
}

#endif

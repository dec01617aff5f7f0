/* A hash map from 64-bit keys to 64-bit values: from a pair of ids to its merge, or from a tree's
 * node and a byte to the next node.
 *
 * Open addressing, no removal. Zero is an empty map. Threads: any number may find, one may put. */
#ifndef TEXT_TOKENIZER_PAIRS_H
#define TEXT_TOKENIZER_PAIRS_H

#include "text/tokenizer/prefetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_pair {
    uint64_t key;
    uint64_t value;
} mc_pair;

typedef struct mc_pairs {
    mc_pair *slots;
    size_t count;
    size_t mask; /* slots - 1; a power of two less one */
} mc_pairs;

/* Two 32-bit halves as one key. UINT64_MAX is not a valid key. */
static inline uint64_t mc_pair_key(uint32_t left, uint32_t right) {
    return (uint64_t)left << 32 | right;
}

static inline uint64_t mc_pair_hash(uint64_t key) {
    key ^= key >> 32;
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return key ^ key >> 29;
}

/* Prefetches the slot of a key that will be looked up or put soon. The map must not be empty. */
static inline void mc_pairs_prefetch(const mc_pairs *m, uint64_t key) {
    mc_prefetch(&m->slots[mc_pair_hash(key) & m->mask]);
}

bool mc_pairs_reserve(mc_pairs *m, size_t count); /* room for count keys; false: no memory */
bool mc_pairs_put(mc_pairs *m, uint64_t key, uint64_t value); /* replaces; false: no memory */
void mc_pairs_deinit(mc_pairs *m);

static inline bool mc_pairs_find(const mc_pairs *m, uint64_t key, uint64_t *value) {
    if (!m->slots) return false;
    for (size_t i = (size_t)mc_pair_hash(key) & m->mask;; i = (i + 1) & m->mask) {
        if (m->slots[i].key == key) {
            *value = m->slots[i].value;
            return true;
        }
        if (m->slots[i].key == UINT64_MAX) return false;
    }
}

#endif

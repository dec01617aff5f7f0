/* Prefixes of texts whose keys and values a pool still has: found by a hash of their tokens.
 *
 * An entry stands for a full block of tokens and all tokens before it: its hash is XXH3-128 of the
 * hash of the block before and the block's tokens; the chain begins with the hash of a salt. Equal
 * hashes are taken for equal tokens. So texts of different salts never meet, and nobody can make
 * two texts with one hash but by trying 2^64 of them.
 *
 * An entry names a block of the pool for each group of layers, or -1 where that was not kept. While
 * a session uses it, it is pinned; the others are in a list, the one used last first, from whose
 * end they go when the pool needs blocks. Who adds or drops entries counts the blocks' references.
 *
 * Threads: one at a time. */
#ifndef SESSION_PREFIX_H
#define SESSION_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mc_prefix_hash {
    uint64_t low, high;
} mc_prefix_hash;

/* What events call a block; who is told of them chooses it. */
typedef struct mc_kv_name {
    uint8_t bytes[32];
} mc_kv_name;

typedef struct mc_prefix_entry {
    mc_prefix_hash hash;
    uint32_t pins;
    bool told; /* mc_kv_events.stored was called for it, and gave the name */
    mc_kv_name name;
    int32_t newer, older; /* in the list of those without pins; -1: none */
    int32_t next;         /* in its bucket, or among the unused; -1: none */
} mc_prefix_entry;

typedef struct mc_prefixes {
    mc_prefix_entry *entries; /* [max] */
    int32_t *blocks;          /* [max, groups] */
    int32_t *buckets;         /* [n_buckets] the first entry of each; -1: none */
    uint32_t n_buckets;       /* a power of two */
    int32_t max, groups;
    int32_t unused;         /* the first; -1: none */
    int32_t newest, oldest; /* without pins; -1: none */
    int32_t count;          /* entries in use */
} mc_prefixes;

/* Whether there are hashes: mica was built with xxhash. */
bool mc_prefix_available(void);
mc_prefix_hash mc_prefix_seed(const char *salt);
/* The hash after n more tokens. */
mc_prefix_hash mc_prefix_next(mc_prefix_hash before, const int32_t *ids, int64_t n);

/* errors  MICA_ENOMEM; then deinit, too */
mica_status mc_prefixes_init(mc_prefixes *p, int32_t max, int32_t groups);
void mc_prefixes_deinit(mc_prefixes *p);

/* The entry with a hash; -1: there is none. */
int32_t mc_prefix_find(const mc_prefixes *p, mc_prefix_hash hash);
/* A new entry with one pin and no blocks, of a hash that no other has. -1: all are in use. */
int32_t mc_prefix_add(mc_prefixes *p, mc_prefix_hash hash);
/* The blocks of an entry: [groups]. */
int32_t *mc_prefix_blocks(const mc_prefixes *p, int32_t entry);

void mc_prefix_pin(mc_prefixes *p, int32_t entry);
/* Without pins an entry is the newest of the list. */
void mc_prefix_unpin(mc_prefixes *p, int32_t entry);

/* Removes an entry without pins. */
void mc_prefix_drop(mc_prefixes *p, int32_t entry);

/* Removes the oldest one, and returns it: its blocks may be read until the next one
 * is added. -1: there is none. */
int32_t mc_prefix_drop_oldest(mc_prefixes *p);

#endif

/* The caches of a session that waits, as a copy in the host's memory, while other sessions have its
 * blocks of the pool. Copied back, they are the same to the bit; nothing is computed again.
 *
 * All copies of a pool's sessions have a limit in bytes, mc_kv_pool_options.swap_bytes. It is 0
 * where the pool's arrays are in memory of the host, too.
 *
 * Threads: one at a time, with all sessions of the pool. */
#ifndef SESSION_SWAP_H
#define SESSION_SWAP_H

#include "session/cache.h"
#include "session/tokens.h"

typedef struct mc_swap {
    mc_buffer ids;    /* int32: the text that the caches have seen */
    mc_buffer counts; /* int64 [layers]: entries of each */
    char *data;       /* of each layer, keys then values; NULL: there is no copy */
    uint64_t bytes;   /* of data; they count as the pool's */
} mc_swap;

/* Copies a cache on a pool, which has seen `text`, a whole one.
 *  errors  MICA_ENOMEM also if the pool's copies have no room for it; those of mica_read. There is
 *          no copy then */
mica_status mc_swap_save(mc_swap *swap, mc_cache *cache, const mc_tokens *text);

/* How many tokens the copy has, if a text begins with them; else 0. */
int64_t mc_swap_reach(const mc_swap *swap, const mc_tokens *text);

/* Puts the copy into the empty cache, which has then seen its tokens.
 *  errors  MICA_ENOMEM also if the pool has too few blocks; MICA_EDEVICE. The cache must be cleared
 *          then */
mica_status mc_swap_load(const mc_swap *swap, mc_cache *cache, mica_scope *home);

/* Drops the copy, if there is one. pool: the cache's, or NULL. */
void mc_swap_drop(mc_swap *swap, mc_kv_pool *pool);

#endif

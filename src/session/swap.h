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
    mc_kv_pool *pool; /* whose copies it counts as */
    mc_buffer ids;    /* int32: the text that the caches have seen */
    char *data;       /* what mc_cache_write writes; NULL: there is no copy */
    uint64_t bytes;   /* of data */
} mc_swap;

/* Whether a cache is on a pool that copies. */
bool mc_swap_allowed(const mc_cache *cache);

/* Copies such a cache, which has seen `text`, a whole one.
 *  errors  MICA_ENOMEM also if the pool's copies have no room for it; those of mica_read. There is
 *          no copy then */
mica_status mc_swap_save(mc_swap *swap, mc_cache *cache, const mc_tokens *text);

/* How many tokens the copy has, if a text begins with them; else 0. */
int64_t mc_swap_reach(const mc_swap *swap, const mc_tokens *text);

/* Whether to take a copy that saves so many tokens: a block or more. */
bool mc_swap_pays(const mc_swap *swap, int64_t tokens);

/* Puts the copy into the empty cache, which has then seen its tokens.
 *  errors  MICA_ENOMEM also if the pool has too few blocks; MICA_EDEVICE. The cache must be cleared
 *          then */
mica_status mc_swap_load(const mc_swap *swap, mc_cache *cache, mica_scope *home);

/* Drops the copy, if there is one. */
void mc_swap_drop(mc_swap *swap);

#endif

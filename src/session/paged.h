/* Caches that live on a pool (session/pool.h): what the functions of session/cache.h do for these,
 * and passes over several of them.
 *
 * Entry i of a layer is in block i / block of its group's table. Entries are counted as in a cache
 * with buffers: behind the `head`, whole blocks that a window no longer sees are dropped, and those
 * after them move to the front. So queries see the same keys in the same groups of 32.
 *
 * A pass has the parameters: the pool's arrays, donated; for each group a table i32 [rows, blocks],
 * the slots i32 [rows, n] that new entries are written to, and the index i32 [rows] of each row's
 * first new entry. Tables have a power of two of blocks, so that few programs do for all lengths;
 * behind a row's blocks they name block 0, which no query sees. */
#ifndef SESSION_CACHE_POOL_H
#define SESSION_CACHE_POOL_H

#include "session/trail.h"

typedef struct mc_paged {
    mc_kv_pool *pool;
    mc_kv_table *tables;    /* [pool->groups] */
    mc_cache_layer *layers; /* the cache's, with the numbers of entries */
    int64_t chunk;          /* max tokens of a pass */
    mc_trail trail;
} mc_paged;

/*  layers  borrowed
 *  errors  MICA_EINVAL the pool is of another context; MICA_ENOMEM */
mica_status mc_paged_init(mc_paged *cache, mc_kv_pool *pool, mc_cache_layer *layers,
                          int64_t context, int64_t chunk);
void mc_paged_deinit(mc_paged *cache);
void mc_paged_clear(mc_paged *cache);
mica_status mc_paged_reserve(mc_paged *cache, int64_t n, int64_t later);
/* How many blocks its tables name. */
int64_t mc_paged_blocks(const mc_paged *cache);
/* How many blocks mc_paged_reserve takes for n tokens, less those that it gives back before. */
int64_t mc_paged_needed(const mc_paged *cache, int64_t n);
mica_status mc_paged_fork(const mc_paged *from, mc_paged *to);
/* Of a text, only the first `to` tokens are left: gives the blocks behind the last entry back. */
void mc_paged_cut(mc_paged *cache, int64_t to);
mica_status mc_paged_fill(mc_paged *cache, int layer, int64_t count, const void *k, const void *v);
/* A layer's keys, or values, [1, kv_heads, n, width] with all entries and what is behind them. */
mica_array mc_paged_entries(const mc_paged *cache, mica_scope *s, int layer, int which);

/* ---- passes over n caches of a pool, the rows of a batch ---- */

uint64_t mc_paged_shape(const mc_paged *const *rows, size_t n);
/* The store of the pass that is recorded, valid until the next one. */
mc_kv_store mc_paged_store(const mc_paged *const *rows, size_t n);
size_t mc_paged_param_count(const mc_kv_pool *pool);
size_t mc_paged_result_count(const mc_kv_pool *pool);
void mc_paged_params(const mc_kv_pool *pool, mica_param *params);
void mc_paged_results(const mc_kv_pool *pool, mica_array *results);
/* The arguments for `tokens` tokens a row, which are reserved; s keeps errors: MICA_ENOMEM, and
 * MICA_EINTERNAL where they are not.
 *  ahead  [n] tokens of the same cache in earlier rows of the pass; NULL: none */
void mc_paged_args(const mc_paged *const *rows, const int64_t *ahead, size_t n, mica_scope *s,
                   int64_t tokens, mica_array *args);

#endif

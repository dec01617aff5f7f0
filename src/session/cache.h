/* The KV cache of a session: the keys and values computed so far.
 *
 * Each layer has two buffers [1, kv_heads, cap, mc_lm_kv_width] of lm->kv_dtype. Entries are in the
 * order of their positions, the oldest first. A chunk is written behind the last entry, in place. A
 * layer that attends to all positions gets a larger buffer, by 256 entries or more, when its own is
 * full.
 *
 * A layer with a sliding window has room for the window, a chunk (256 or more) and 32 entries. When
 * the buffer is full, the last window - 1 entries move to its front, so one move serves many
 * tokens. Up to 64 entries more are kept where there is room: a text that changes near its end is
 * then not computed anew. Positions are absolute and rotate the keys; the index in the buffer is a
 * different number. Entries are dropped in multiples of 32, so that those whose values attention
 * sums together stay together (src/cpu/attention.c).
 *
 * A session may limit the context. A layer that would attend to all positions then attends to the
 * first 4 entries and to the last ones, `context` in all, as mlx-lm's
 * RotatingKVCache(max_size=context, keep=4) does. Models give much attention to the first tokens,
 * whatever they are; without them answers fall apart (Xiao et al. 2023, arXiv:2309.17453). Such a
 * layer never drops its first 32 entries.
 *
 * The buffers belong to a scope that the caller names. A pass is recorded over parameters in their
 * place, and the program that comes of it is run with the buffers donated, so it writes them in
 * place: mc_cache_store, mc_cache_params and mc_cache_results while it is recorded, mc_cache_args
 * and mc_cache_take when it runs. The caller then says how it ended: mc_cache_commit counts its
 * tokens, at once or a few at a time, and mc_cache_clear drops everything.
 *
 * A cache may live on a pool of blocks instead (session/pool.h), with the same functions and, on a
 * device that keeps an order of sums, the same bits. A layer's entries are then in the blocks of a
 * table, and are dropped by whole blocks; passes are over the pool's arrays, which they write in
 * place, and several caches of a pool are rows of one pass (session/paged.h).
 *
 * Threads: one at a time. */
#ifndef SESSION_CACHE_H
#define SESSION_CACHE_H

#include "base/status.h"
#include "model/lm.h"
#include "session/paged.h"

#include <mica/program.h>

typedef struct mc_cache {
    const mc_lm *lm;
    mc_paged paged;      /* pool NULL: the cache has buffers */
    mica_scope *scratch; /* for copying between buffers */
    mc_cache_layer *layers;
    mica_array *live; /* [2 * layers + MC_CACHE_MORE] for mc_cache_collect */
} mc_cache;

/*  pool     NULL: the cache has buffers of its own. It must outlive the cache, and be for such a
 *           context.
 *  context  max tokens that a layer attends to; 0: no limit
 *  chunk    max tokens of a pass
 *  errors   MICA_ENOMEM; MICA_EINVAL the pool is of another model or context */
mica_status mc_cache_init(mc_cache *cache, const mc_lm *lm, mica_device *device, mc_kv_pool *pool,
                          int64_t context, int64_t chunk);
void mc_cache_deinit(mc_cache *cache);

/* Drops all entries and the last references to the buffers, those of their scope aside. Blocks go
 * back to their pool. */
void mc_cache_clear(mc_cache *cache);

/* Makes room for n more tokens. A layer without room for them gets room for `later` >= n, the
 * tokens known to come, but never for more than its `max`. New buffers belong to `home`. Of a
 * pool, blocks for n tokens are taken, and those that others share become copies.
 *  errors  MICA_ENOMEM also if the pool has no more blocks (mc_cache_can_reserve); then a cache
 *          with buffers must be cleared, and one on a pool has the room that it had, or more */
mica_status mc_cache_reserve(mc_cache *cache, mica_scope *home, int64_t n, int64_t later);

/* Whether the pool has the blocks that mc_cache_reserve takes for n tokens; true without one. */
bool mc_cache_can_reserve(const mc_cache *cache, int64_t n);

/* Makes an empty cache of the same pool a copy of another one, which shares its blocks.
 *  errors  MICA_ENOMEM; then `to` is empty */
mica_status mc_cache_fork(const mc_cache *from, mc_cache *to);

/* The store that mc_lm_forward writes to, valid as long as the cache. */
mc_kv_store mc_cache_store(mc_cache *cache);

/* Two caches of a model with one context that have the same shape take the same program. */
uint64_t mc_cache_shape(const mc_cache *cache);

/* How many parameters and results a pass has. */
size_t mc_cache_param_count(const mc_cache *cache);
size_t mc_cache_result_count(const mc_cache *cache);

/* Of the pass that was recorded last: its parameters [mc_cache_param_count], and its results
 * [mc_cache_result_count]. */
void mc_cache_params(const mc_cache *cache, mica_param *params);
void mc_cache_results(const mc_cache *cache, mica_array *results);

/* The arguments of its program over n tokens now, as mc_cache_params orders them; numbers are made
 * in s, which keeps errors. */
void mc_cache_args(const mc_cache *cache, mica_scope *s, int64_t n, mica_array *args);

/* The buffers are what the program gave, as mc_cache_results orders them. They move to `home` where
 * they are not there.
 * errors  MICA_ENOMEM; then the cache must be cleared */
mica_status mc_cache_take(mc_cache *cache, mica_scope *home, const mica_array *results);

/* Drops all arrays of `home` but the buffers, which belong to it, and n more, n <= MC_CACHE_MORE,
 * which receive their new names.
 * errors  MICA_ENOMEM */
enum { MC_CACHE_MORE = 4 };
mica_status mc_cache_collect(mc_cache *cache, mica_scope *home, mica_array *more, size_t n);

/* Whether n more tokens fit into the buffers. */
bool mc_cache_has_room(const mc_cache *cache, int64_t n);

/* Counts n tokens of the evaluated pass. The next pass overwrites the others. */
void mc_cache_commit(mc_cache *cache, int64_t n);

/* How many of the last tokens mc_cache_cut may be able to drop. 0: all. */
int64_t mc_cache_reach(const mc_cache *cache);

/* mc_cache_can_cut says whether the cache, which has seen `total` tokens, can go back to the state
 * after the first `to` of them: a layer with a window must still hold the window - 1 entries before
 * that. mc_cache_cut goes back, where it can. */
bool mc_cache_can_cut(const mc_cache *cache, int64_t total, int64_t to);
void mc_cache_cut(mc_cache *cache, int64_t total, int64_t to);

/* Whether `count` entries are all that a layer needs after `total` tokens, and as many as the
 * layers before it have that are alike. */
bool mc_cache_can_hold(const mc_cache *cache, int layer, int64_t total, int64_t count);

/* Puts count > 0 entries into an empty layer, where mc_cache_can_hold them: k, v [kv_heads, count,
 * mc_lm_kv_width] of lm->kv_dtype.
 *  errors  MICA_ENOMEM; then the cache must be cleared */
mica_status mc_cache_fill(mc_cache *cache, mica_scope *home, int layer, int64_t count,
                          const void *k, const void *v);

/* Reads the entries of a layer's keys (which 0), or values (1), that a file of a session of `total`
 * tokens holds: count = mc_cache_saved_count, data [kv_heads, count, mc_lm_kv_width] of
 * lm->kv_dtype.
 *  errors  MICA_ENOMEM; those of mica_read */
int64_t mc_cache_saved_count(const mc_cache *cache, int64_t total, int layer);
mica_status mc_cache_read(mc_cache *cache, int64_t total, int layer, int which, void *data);

/* Bytes of the buffers after `tokens` tokens. */
uint64_t mc_cache_bytes(const mc_lm *lm, int64_t tokens, int64_t context, int64_t chunk);

#endif

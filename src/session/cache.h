/* The cache of a session: the states of a model's layers (session/state.h), of any mixture of
 * kinds.
 *
 * A session may limit the context. A layer that would attend to all positions then attends to the
 * first 4 entries and to the last ones, `context` in all, as mlx-lm's
 * RotatingKVCache(max_size=context, keep=4) does. Models give much attention to the first tokens,
 * whatever they are; without them answers fall apart (Xiao et al. 2023, arXiv:2309.17453). Such a
 * layer never drops its first 32 entries.
 *
 * Arrays of the cache alone belong to a scope that the caller names. Passes (session/pass.h) are
 * over the arrays of one or several caches, which are donated to their programs and written in
 * place. The caller then says how a pass ended: mc_cache_commit counts its tokens, at once or a few
 * at a time, and mc_cache_clear drops everything.
 *
 * On a pool of blocks (session/pool.h) the functions are the same and, on a device that keeps an
 * order of sums, so are the bits. Passes are then over the pool's arrays.
 *
 * Threads: one at a time. */
#ifndef SESSION_CACHE_H
#define SESSION_CACHE_H

#include "session/trail.h"

typedef struct mc_cache {
    const mc_lm *lm;
    mc_state_plan plan;
    mc_state **states;   /* [plan.n] */
    mc_trail trail;      /* of a pool's prefixes */
    mica_scope *scratch; /* for copying between buffers */
    mica_array **refs;   /* for mc_cache_collect: where arrays are named, */
    mica_array *live;    /* and the arrays, with MC_CACHE_MORE others */
} mc_cache;

/* What a cache is for. */
typedef struct mc_cache_options {
    mc_kv_pool *pool;             /* NULL: arrays of its own; else of such a context, outlives it */
    const mc_layer_state *states; /* mc_session_model's */
    int64_t context;              /* max tokens that a layer attends to; 0: no limit */
    int64_t chunk;                /* max tokens of a pass */
} mc_cache_options;

/* After an error it must be deinited, too.
 *  errors  those of mc_state_plan_init; MICA_EINVAL the pool is of another context */
mica_status mc_cache_init(mc_cache *cache, const mc_lm *lm, mica_device *device,
                          const mc_cache_options *options);
void mc_cache_deinit(mc_cache *cache);

/* Drops all entries and the last references to arrays, those of their scope aside. Blocks go back
 * to their pool. */
void mc_cache_clear(mc_cache *cache);

/* Makes room for n more tokens. A buffer without room for them gets room for `later` >= n, the
 * tokens known to come, but never for more than its `max`. New arrays belong to `home`. Of a pool,
 * blocks for n tokens are taken, and those that others share become copies.
 *  errors  MICA_ENOMEM also if the pool has no more blocks (mc_cache_can_reserve); then a cache
 *          without a pool must be cleared, and one on a pool has the room that it had, or more */
mica_status mc_cache_reserve(mc_cache *cache, mica_scope *home, int64_t n, int64_t later);

/* Whether the pool has the blocks that mc_cache_reserve takes for n tokens; true without one. */
bool mc_cache_can_reserve(const mc_cache *cache, int64_t n);

/* How many blocks of a pool it has, as the pool's accounts count. */
int64_t mc_cache_blocks(const mc_cache *cache);

/* Makes an empty cache of the same pool a copy of another one, which shares its blocks. New arrays
 * belong to `home`.
 *  errors  MICA_ENOMEM; then `to` is empty */
mica_status mc_cache_fork(const mc_cache *from, mc_cache *to, mica_scope *home);

/* Drops all arrays of `home` but the cache's, and n more, n <= MC_CACHE_MORE, which receive their
 * new names.
 * errors  MICA_ENOMEM */
enum { MC_CACHE_MORE = 4 };
mica_status mc_cache_collect(mc_cache *cache, mica_scope *home, mica_array *more, size_t n);

/* Whether n more tokens fit into arrays of the cache alone, as these are. */
bool mc_cache_has_room(const mc_cache *cache, int64_t n);

/* Counts n tokens of the evaluated pass. The next pass overwrites the others. */
void mc_cache_commit(mc_cache *cache, int64_t n);

/* How many of the last tokens mc_cache_back may be able to drop. 0: all. */
int64_t mc_cache_reach(const mc_cache *cache);

/* The last position, up to `to`, that all states can go back to, if the cache has seen `total`
 * tokens; 0: it has to be cleared. For to == total it is less if states have seen tokens that were
 * not counted, and cannot drop these. mc_cache_cut goes back to such a position. */
int64_t mc_cache_back(const mc_cache *cache, int64_t total, int64_t to);
void mc_cache_cut(mc_cache *cache, int64_t total, int64_t to);

/* Notes how states are that can only go back to where that was noted (mc_state_ops.snapshot). */
mica_status mc_cache_snapshot(mc_cache *cache, mica_scope *home, int64_t total, bool lasting);

/* Whether all rows of a pass may be tokens of one cache. */
bool mc_cache_is_together(const mc_cache *cache);

/* Bytes of all that mc_cache_write writes. */
uint64_t mc_cache_saved_bytes(const mc_cache *cache, int64_t total);

/* Writes the states of a cache that has seen `total` tokens, layer by layer; reads them into an
 * empty one.
 *  errors  those of mc_state_ops.write; of mc_state_ops.read: then the cache must be cleared */
mica_status mc_cache_write(mc_cache *cache, int64_t total, mc_part_writer *w);
mica_status mc_cache_read(mc_cache *cache, mica_scope *home, int64_t total, mc_part_reader *r);

/* The largest mc_cache_saved_bytes of any cache of the model after `tokens` tokens.
 *  errors  those of mc_state_plan_init */
mica_status mc_cache_max_saved_bytes(const mc_lm *lm, const mc_cache_options *options,
                                     int64_t tokens, uint64_t *bytes);

/* Bytes after `tokens` tokens, of what is not in a pool. errors  those of mc_state_plan_init */
mica_status mc_cache_bytes(const mc_lm *lm, const mc_cache_options *options, int64_t tokens,
                           uint64_t *bytes);

#endif

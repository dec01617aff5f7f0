/* The keys and values that a session has computed so far.
 *
 * Each layer has two buffers [1, kv_heads, cap, mc_lm_kv_width] of lm->kv_dtype, always in the
 * order of positions: what was seen first lies first. A chunk is written behind what is there, in
 * place. A layer that sees everything gets a larger buffer, by 256 entries or more, when its own is
 * full. A layer with a window has room for that, a chunk (of 256 or more) and 32 entries; when it
 * is full, the last window - 1 entries move to the front (and up to 64 more where there is room for
 * them, so that a text that is changed near its end need not be computed anew), so that the cost of
 * moving is shared by many tokens. Positions are absolute and go into the keys; an entry's place in
 * the buffer is another number. A multiple of 32 entries is dropped, so that those whose values
 * attention sums together stay together (src/cpu/attention.c).
 *
 * A layer that would see everything but for the session's context sees, of so many tokens, the
 * first 4 and the last, as mlx-lm's RotatingKVCache(max_size=context, keep=4): models give the
 * first tokens much of attention, whatever they are, and without them answers fall apart (Xiao et
 * al. 2023, arXiv:2309.17453). It never drops its first 32 entries.
 *
 * The arrays live in the scope of the last pass. A pass moves them into its own scope, so that they
 * are written in place, and the caller says how it ended: mc_cache_commit, for as many of its
 * tokens as shall count, at once or by and by, or mc_cache_clear. A pass that was recorded can be
 * computed again for the next tokens, of the same number, as long as the buffers are those that it
 * left: mc_cache_bind gives it, too, what it found when it was recorded.
 *
 * Threads: one at a time. */
#ifndef SESSION_CACHE_H
#define SESSION_CACHE_H

#include "base/status.h"
#include "model/lm.h"

typedef struct mc_cache_layer {
    mica_array k, v;                  /* MICA_NONE while empty */
    mica_array from_k, from_v, start; /* leaves of the last pass: the buffers that it found, and the
                                         place in them that it writes to */
    int64_t cap;                      /* entries that the buffers have room for */
    int64_t count;                    /* entries in them */
    int64_t window;                   /* of the last entries; 0: none */
    int64_t keep;                     /* first entries that are seen beside those */
    int64_t head;                     /* first entries that are never dropped */
    int64_t max;                      /* the greatest cap; 0: no limit */
} mc_cache_layer;

typedef struct mc_cache {
    const mc_lm *lm;
    mica_scope *scratch; /* for moving between buffers */
    mica_scope *pass;    /* where the pass was recorded that left the buffers; NULL: none did */
    mc_cache_layer *layers;
} mc_cache;

/* context: tokens that a layer sees at most; 0: no limit. chunk: the most tokens that a pass
 * brings. errors MICA_ENOMEM */
mica_status mc_cache_init(mc_cache *cache, const mc_lm *lm, mica_device *device, int64_t context,
                          int64_t chunk);
void mc_cache_deinit(mc_cache *cache);

/* Forgets everything and frees the buffers' last references (those of their scope aside). */
void mc_cache_clear(mc_cache *cache);

/* Makes room for n more tokens; a layer that has no room for them gets room for `later` >= n at
 * once, which are known to come, but never more than its `max`. Buffers that change are kept in
 * `home`. After an error the cache must be cleared. */
mica_status mc_cache_reserve(mc_cache *cache, mica_scope *home, int64_t n, int64_t later);

/* The store that mc_lm_forward writes to; valid while the cache is. */
mc_kv_store mc_cache_store(mc_cache *cache);

/* Whether the buffers are those that the pass recorded in s left, and as it found them. */
bool mc_cache_fits(const mc_cache *cache, const mica_scope *s);

/* Sets what a pass, once it is recorded, and again each time before it is computed `again`, reads
 * of the caches: their buffers, and where in them to write. errors  those of mc_leaf_set */
mica_status mc_cache_bind(mc_cache *cache, bool again);

/* The arrays that the pass must evaluate: 2 a layer, into arrays[2 * n_layers]. */
void mc_cache_arrays(const mc_cache *cache, mica_array *arrays);

/* The pass was evaluated: n tokens more of it count. The next pass writes over those that do
 * not. */
void mc_cache_commit(mc_cache *cache, int64_t n);

/* How many of the last tokens they may be able to forget: mc_cache_cut. 0: all. */
int64_t mc_cache_reach(const mc_cache *cache);

/* Whether the caches, which have seen `total` tokens, can go back to the state after the first `to`
 * of them: layers with a window must still hold the window - 1 entries before that. */
bool mc_cache_can_cut(const mc_cache *cache, int64_t total, int64_t to);
void mc_cache_cut(mc_cache *cache, int64_t total, int64_t to); /* where it can */

/* Whether a layer may hold `count` entries after `total` tokens: all that it needs. */
bool mc_cache_can_hold(const mc_cache *cache, int layer, int64_t total, int64_t count);

/* Puts count > 0 entries into an empty layer that can hold them: k, v [kv_heads, count,
 * mc_lm_kv_width] of lm->kv_dtype.
 * errors  MICA_ENOMEM. The cache must be cleared then */
mica_status mc_cache_fill(mc_cache *cache, mica_scope *home, int layer, int64_t count,
                          const void *k, const void *v);

/* Bytes of the buffers once `tokens` were seen. */
uint64_t mc_cache_bytes(const mc_lm *lm, int64_t tokens, int64_t context, int64_t chunk);

#endif

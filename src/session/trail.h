/* The way of a cache on a pool through its text, by which others find what it computed: the hashes
 * of the text's full blocks, and the entries of the pool's prefixes that stand for them
 * (session/prefix.h).
 *
 * A block's entry is added when the block is full. It names the blocks of groups that attend to all
 * positions, and is pinned while the cache has them. Blocks of groups with a window go as the
 * window moves on; a text that begins in the middle needs those before it. They are kept where the
 * caller marks a position, such as the end of a message, and where the cache is cleared: in entries
 * of their own, which are not pinned.
 *
 * States that are not in blocks are kept as snapshots (session/snapshots.h) at the last whole block
 * before a mark, and after every 16th block; passes over a text should stop there
 * (mc_trail_next_stop). A text goes on from the last one at or before the end of what is known.
 *
 * Whatever else the pool keeps in this way lies in its blocks, and goes when others need them.
 *
 * Threads: one at a time. */
#ifndef SESSION_TRAIL_H
#define SESSION_TRAIL_H

#include "base/buffer.h"
#include "session/state_blocks.h"

typedef struct mc_trail {
    mc_kv_pool *pool;    /* NULL: there is none */
    mc_state **states;   /* the cache's, of which the pool's groups are the first */
    bool keeps;          /* the pool does; else nothing is kept */
    mc_prefix_hash seed; /* of the text's salt */
    mc_buffer hashes;    /* mc_prefix_hash of each full block */
    mc_buffer pins;      /* int32: its entry; -1: there is none */
    mc_buffer marks;     /* int64 positions that the text has not reached */
    mc_buffer stops;     /* int64: of those at the ends of blocks, where states are kept */
    int64_t total;       /* tokens of the text */
    bool lost;           /* the text is not known: it came from a file */
} mc_trail;

void mc_trail_init(mc_trail *t, mc_kv_pool *pool, mc_state **states);
void mc_trail_deinit(mc_trail *t); /* after mc_trail_leave */

/* Makes room for n more tokens. errors  MICA_ENOMEM */
mica_status mc_trail_reserve(mc_trail *t, int64_t n);

/* The caches have the first `total` tokens of a text, of which ids holds those from `start` on. */
void mc_trail_extend(mc_trail *t, const int32_t *ids, int64_t start, int64_t total);
/* They have only the first `to` of them. */
void mc_trail_cut(mc_trail *t, int64_t to);
/* They are about to be cleared. */
void mc_trail_leave(mc_trail *t);

/* Says that other texts will share what is before a position, which the text may not have reached:
 * marks stay when the cache is cleared. mc_trail_unmark drops them. errors  MICA_ENOMEM */
mica_status mc_trail_mark(mc_trail *t, int64_t position);
void mc_trail_unmark(mc_trail *t);

/* Says that the cache is about to get the rest of a text of n tokens, more than it has: others may
 * share all of it, or what the pool has the blocks of. Without memory that is not kept. */
void mc_trail_expect(mc_trail *t, const int32_t *ids, int64_t n);

/* How many of the next n tokens to compute before the states are kept; 0: all of them. */
int64_t mc_trail_next_stop(const mc_trail *t, int64_t n);

/* Keeps the states where they are to be kept, with all tokens counted. */
void mc_trail_keep(mc_trail *t);

/* Makes an empty trail a copy. errors  MICA_ENOMEM; then it is empty */
mica_status mc_trail_copy(const mc_trail *from, mc_trail *to);

/* Counts a prompt's tokens as the pool's, and those of them that were known. */
void mc_trail_count(const mc_trail *t, int64_t asked, int64_t known);

/* How many of the first tokens of a text the pool has, for an empty cache: whole blocks. */
int64_t mc_trail_known(const mc_trail *t, const int32_t *ids, int64_t n);
/* Puts so many, from mc_trail_known, into the empty cache, whose arrays belong to `home`.
 * errors  MICA_ENOMEM; then the cache must be cleared */
mica_status mc_trail_take(mc_trail *t, mica_scope *home, const int32_t *ids, int64_t known);

#endif

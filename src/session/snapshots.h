/* Snapshots that a pool keeps of states which are not in its blocks, such as what recurrent layers
 * carry: one is of all such states of a text, after a whole number of blocks, and is found by the
 * hash of these (session/prefix.h). A session that begins with the text goes on from there.
 *
 * There is memory for so many of them; the one used longest ago goes for a new one. A snapshot is a
 * second name of arrays, which nobody writes to.
 *
 * Threads: as the pool. */
#ifndef SESSION_SNAPSHOTS_H
#define SESSION_SNAPSHOTS_H

#include "session/plan.h"
#include "session/prefix.h"

typedef struct mc_snapshots {
    mica_device *device;
    mc_prefixes known;   /* an entry's index is the snapshot's */
    int first, end;      /* the states that they are of, of a session's */
    size_t n_arrays;     /* of a snapshot */
    uint64_t bytes;      /* of a snapshot */
    mica_array *arrays;  /* [max, n_arrays] */
    mica_scope **scopes; /* [max] of the arrays; NULL: none so far */
} mc_snapshots;

/* Counts the arrays and bytes of a snapshot of a plan's states that are in no blocks, if there are
 * any. false: one of them has no snapshots that others can go on from. */
bool mc_snapshots_plan(mc_snapshots *s, const mc_state_plan *plan, const mc_lm *lm);

/* errors  MICA_ENOMEM; then deinit, too */
mica_status mc_snapshots_init(mc_snapshots *s, mica_device *device, int32_t max);
void mc_snapshots_deinit(mc_snapshots *s);

/* Whether sessions have states that are in no blocks. */
bool mc_snapshots_wanted(const mc_snapshots *s);

bool mc_snapshots_has(const mc_snapshots *s, mc_prefix_hash hash);

/* Keeps a session's states as they are, or were noted, after `total` tokens, if that is known.
 * Without memory it is not kept. */
void mc_snapshots_keep(mc_snapshots *s, mc_prefix_hash hash, mc_state *const *states,
                       int64_t total);

/* Drops the n that were used last. */
void mc_snapshots_drop_newest(mc_snapshots *s, int64_t n);

/* Gives a snapshot that there is to a session's empty states; arrays belong to `home`.
 *  errors  MICA_ENOMEM; then the cache must be cleared */
mica_status mc_snapshots_take(mc_snapshots *s, mc_prefix_hash hash, mc_state *const *states,
                              mica_scope *home, int64_t total);

#endif

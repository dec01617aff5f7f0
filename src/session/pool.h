/* A pool of KV blocks: the memory of the caches of many sessions, with a hard limit in bytes.
 *
 * A block has room for the keys and values of `block` tokens in the layers of a group. A group's
 * layers attend to the same entries, so that a session has one table of blocks for all of them. A
 * model whose layers are all alike is one group; if some have a sliding window, groups are as large
 * as the numbers of layers of each kind allow (their greatest common divisor), so that all groups
 * take blocks of one size.
 *
 * A pool has a part for each number and width of heads that layers have. A part has blocks of its
 * own, and of the memory as much as its layers need in a text of 8,192 tokens, or of the context.
 * Blocks are numbered through all parts.
 *
 * Memory of a part is two arrays [kv_heads, blocks, block, kv width] for each layer of a group, one
 * for keys and one for values, or one for both. Passes over sessions write them in place (kv_write)
 * and read them through tables (paged_sdpa). Blocks that follow each other in a table should do so
 * in memory, where attention reads them as one: a table grows by the block behind its last, if that
 * is free, and else goes on in an empty extent of blocks.
 *
 * Blocks are counted by reference: tables of several sessions may share them, and so may the cache
 * of prefixes (session/prefix.h). A block that is shared is never written: mc_pool_own copies it
 * first.
 *
 * Threads: one at a time, with all its sessions. */
#ifndef SESSION_POOL_H
#define SESSION_POOL_H

#include "base/arena.h"
#include "base/status.h"
#include "model/lm.h"
#include "session/plan.h"
#include "session/prefix.h"
#include "session/programs.h"
#include "session/snapshots.h"

#include <mica/program.h>

/* Who is told of the blocks that prompts to come can go on from: those of layers without a window,
 * a prefix each. A block that came from a file is told of when a text has it, which gives its
 * tokens. Functions may be NULL. Called by who uses the pool, and may not use it. */
typedef struct mc_kv_events {
    /* A block of `count` tokens stands for them and all before, in texts of one salt, which has a
     * seed (mc_prefix_seed). name: receives what it is called from now on. before: that of the
     * block before, which was told of; NULL: there is none. */
    void (*stored)(void *user, mc_prefix_hash seed, const mc_kv_name *before, const int32_t *ids,
                   int64_t count, mc_kv_name *name);
    /* One that was told of is gone; or the pool, and so all of them. */
    void (*removed)(void *user, const mc_kv_name *name);
    void *user;
} mc_kv_events;

typedef struct mc_kv_pool_options {
    uint64_t bytes;      /* limit of all blocks, and of what `sessions` have beside them */
    int64_t block;       /* tokens of a block, a multiple of mc_backend.keys_together; 0: 64 */
    int64_t context;     /* mc_session_model's, of all sessions */
    bool keep;           /* prefixes of texts, for other sessions (session/trail.h); none if some
                          * states are neither in blocks nor have snapshots with room for one */
    uint64_t swap_bytes; /* limit of copies of caches in the host's memory (session/swap.h) */
    const mc_layer_state *states; /* mc_session_model's */
    int64_t sessions; /* max that have tokens at once, with states that are not in blocks */
    mc_kv_events events;
} mc_kv_pool_options;

/* The blocks of a group's layers. */
typedef struct mc_kv_table {
    int32_t *ids; /* [n], with room for `cap` */
    int64_t n, cap;
} mc_kv_table;

/* errors  MICA_ENOMEM */
mica_status mc_kv_table_reserve(mc_kv_table *table, int64_t n);

/* A group in the pass that is recorded. */
typedef struct mc_kv_group {
    int part;
    bool here;                      /* a layer of it is: passes have its table */
    int64_t length;                 /* blocks of a table */
    mica_array table, slots, start; /* parameters; MICA_NONE: none so far */
    bool *written;                  /* [slots] */
} mc_kv_group;

/* The blocks of layers whose entries have one shape. */
typedef struct mc_kv_part {
    mc_entry_shape shape;
    int group;          /* the first, whose states have the arrays in passes */
    int slots;          /* layers of a group */
    int *at;            /* [slots] the place of a slot's arrays; -1: other ranks have them */
    int here;           /* slots whose arrays are here */
    int32_t first, end; /* numbers of its blocks */
    int32_t n_free;     /* blocks without references */
    int64_t idle;       /* blocks that only prefixes have which nobody uses */
    int32_t cursor;     /* the extent where the search for an empty one begins */
    uint64_t block_bytes;
    mica_array *arrays;         /* [shape.arrays * here]: keys and values of each slot */
    mica_array *params, *next;  /* the same of the pass that is recorded */
    mica_program *copy, *write; /* of a block, and `written` entries; NULL: none so far */
    int64_t written;
} mc_kv_part;

/* Programs that a pool keeps: for each number of rows a few lengths of tables. */
enum { MC_POOL_PROGRAMS = 48, MC_POOL_EXTENT = 4 };

typedef struct mc_kv_pool {
    const mc_lm *lm;
    mica_device *device;
    int64_t block, context;
    mc_state_plan plan; /* its first `n_groups` states are in blocks */
    int n_groups, n_parts;
    mc_kv_group *groups; /* [n_groups] */
    mc_kv_part *parts;   /* [n_parts] */
    mica_scope *scope;   /* of the arrays */
    mica_array *arrays;  /* [n_arrays] of all parts; behind them what a pass records */
    size_t n_arrays;
    bool *written;         /* of all groups */
    int32_t blocks;        /* the end of the last part's; some before it may be of none */
    uint32_t *refs;        /* [blocks] */
    int32_t *free_in;      /* of each extent: of MC_POOL_EXTENT blocks from a multiple of it on */
    size_t rows;           /* of the pass that is recorded */
    mica_scope *recording; /* empty but while a program is recorded */
    uint64_t swap_limit, swapped; /* bytes of copies of caches */
    uint64_t swaps;               /* caches that came back from copies */
    mc_pass_program programs[MC_POOL_PROGRAMS];
    mc_arena arena; /* lists of the pass at hand */
    mc_prefixes prefixes;
    mc_kv_events events;
    mc_snapshots snapshots;
    int32_t *owners;            /* [blocks] the prefix that names a block; -1: none */
    bool keeps;                 /* prefixes */
    bool has_full, has_windows; /* groups that attend to all positions, and others */
    uint64_t asked, found;      /* tokens of prompts that came, and those of them that were known */
} mc_kv_pool;

/* Opens a pool for the sessions of a model.
 *  errors  MICA_EINVAL a wrong block, or a limit below one block for each group; MICA_EUNSUPPORTED
 *          to keep prefixes in a build without xxhash; MICA_ENOMEM */
mica_status mc_kv_pool_open(const mc_lm *lm, mica_device *device, const mc_kv_pool_options *options,
                            mc_kv_pool **pool);
/* Closes *pool and sets it to NULL; nothing for NULL. After all of its sessions. */
void mc_kv_pool_close(mc_kv_pool **pool);

/* Blocks that tables of a part can take now: free ones, and those of prefixes that nobody uses. */
int64_t mc_kv_part_available(const mc_kv_part *part);

/* Accounts in blocks of the whole pool: of each part the same share as of the pool. With one part
 * they are exact, with several no part has less than was counted. */

/* What blocks of a part are in such, rounded down. */
int64_t mc_kv_pool_scaled(const mc_kv_pool *pool, const mc_kv_part *part, int64_t blocks);

/* Blocks that tables can take now. */
int64_t mc_kv_pool_available(const mc_kv_pool *pool);

/* Blocks that each group of a session may take beyond its tokens: a copy of a shared one, and the
 * next one. */
enum { MC_POOL_SPARE = 2 };

/* Blocks that a session of `tokens` tokens takes at most, over all groups, in passes of up to
 * `chunk` tokens; and `spare` more in each group. A pool that has as many bytes as that takes for
 * one text of the model's whole context has room for it. */
int64_t mc_kv_pool_needed(const mc_kv_pool *pool, int64_t tokens, int64_t chunk, int64_t spare);

/* Blocks that it takes for n more in each group. */
int64_t mc_kv_pool_more(const mc_kv_pool *pool, int64_t n);

/* Bytes of blocks in tables; of those that only prefixes have, and of snapshots. */
uint64_t mc_kv_pool_used_bytes(const mc_kv_pool *pool);
uint64_t mc_kv_pool_kept_bytes(const mc_kv_pool *pool);

/* ---- blocks ---- */

/* A block of a group with one reference, of unknown content; the one behind block `after`, if that
 * can be. -1: behind none. errors  MICA_ENOMEM all are in use */
mica_status mc_pool_take(mc_kv_pool *pool, int group, int32_t after, int32_t *id);
void mc_pool_retain(mc_kv_pool *pool, int32_t id);
void mc_pool_release(mc_kv_pool *pool, int32_t id);

/* Makes a shared block of a group, in a table, the table's alone: it becomes a copy.
 *  id      where the table names it
 *  errors  MICA_ENOMEM; MICA_EDEVICE. The table is as it was */
mica_status mc_pool_own(mc_kv_pool *pool, int group, int32_t *id);

/* ---- prefixes, of a pool that keeps them ---- */

/* A prefix without blocks, and with one pin; others go for it if there is no room. -1: there is
 * still none. */
int32_t mc_pool_add_prefix(mc_kv_pool *pool, mc_prefix_hash hash);
/* Gives a pinned prefix a reference to a block of a group. */
void mc_pool_name(mc_kv_pool *pool, int32_t prefix, int group, int32_t id);
/* Tells pool->events of a prefix, unless that was done, or not of the one before it. before: that;
 * -1: there is none. seed: of the text. ids: the tokens of its block. */
void mc_pool_tell(mc_kv_pool *pool, int32_t prefix, int32_t before, mc_prefix_hash seed,
                  const int32_t *ids);
void mc_pool_pin(mc_kv_pool *pool, int32_t prefix);
void mc_pool_unpin(mc_kv_pool *pool, int32_t prefix);

/* ---- arrays ---- */

/* The part of a group. */
mc_kv_part *mc_kv_part_of(const mc_kv_pool *pool, int group);

/* The number of a part's arrays, and where those of a slot begin among them. */
size_t mc_kv_part_arrays(const mc_kv_part *part);
int mc_kv_part_at(const mc_kv_part *part, int slot);

/* A parameter for an array of a part. */
mica_array mc_pool_param(const mc_kv_pool *pool, const mc_kv_part *part, mica_scope *s);

/* A part's arrays are what a pass left: results, which move to the pool. After those of
 * the last part, the old ones are gone.
 *  errors  MICA_ENOMEM; then the pool is lost */
mica_status mc_pool_set_arrays(mc_kv_pool *pool, mc_kv_part *part, const mica_array *results);

/* Array i of a part, in n blocks, as an array of s: [1, kv_heads,
 * n * block, kv width]. Errors are in s. */
mica_array mc_pool_entries(const mc_kv_part *part, mica_scope *s, int i, const int32_t *ids,
                           int64_t n);

/* Writes `count` entries into blocks of array i, from the first on: data of lm->kv_dtype,
 * [kv_heads, count, kv width]. The program stays for as many entries of others, until
 * mc_pool_end_writes.
 *  errors  MICA_ENOMEM; MICA_EDEVICE */
mica_status mc_pool_write(mc_kv_pool *pool, mc_kv_part *part, int i, const int32_t *ids,
                          int64_t count, const void *data);
void mc_pool_end_writes(mc_kv_pool *pool);

#endif

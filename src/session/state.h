/* States: what layers carry from one token to the next.
 *
 * A state is of a kind: a table of functions, of which state_list.h has those that mica comes with.
 *
 *     buffers   keys and values in buffers of a session (state_buffers.c)
 *     blocks    the same in blocks of a pool (state_blocks.c)
 *     carried   arrays of one size, which each token changes (state_carried.c)
 *
 * Whether keys and values of all positions are attended to, or a window of them, with the first
 * ones or without, are numbers of a state (mc_entry_span). Layers that attend to the same entries
 * have one state, each with a slot in it. A layer may also have the slot of another one.
 *
 * A state says how it goes back (`back`): those of keys and values to any position whose entries
 * they still hold, others to where there are snapshots, or nowhere. What goes back too far is
 * computed again by whoever asked; nobody else knows kinds.
 *
 * A pass is recorded over parameters in the place of a state's arrays. Rows of a batch have lists
 * of parameters of their own, or, where the kind says `together`, one for all.
 *
 * Threads: one at a time. */
#ifndef SESSION_STATE_H
#define SESSION_STATE_H

#include "base/status.h"
#include "model/lm.h"
#include "session/file_parts.h"

#include <mica/program.h>

/* STEP: entries by which buffers grow. SLACK: entries kept beyond a window. */
enum { MC_CACHE_STEP = 256, MC_CACHE_SLACK = 64 };

/* Which entries are attended to. */
typedef struct mc_entry_span {
    int64_t window; /* the last ones; 0: all */
    int64_t keep;   /* first entries that are attended to beside the window */
    int64_t head;   /* first entries that are never dropped */
    int64_t max;    /* limit of a buffer's entries; 0: none */
} mc_entry_span;

/* Of the keys, or values, of an entry in one slot: elements of lm->kv_dtype. */
typedef struct mc_entry_shape {
    int64_t heads, width; /* width: of a head */
    int64_t whole;        /* heads, with those that other ranks have */
    int arrays; /* 2: keys and values; 1: the latter are in the former (mc_attention_spec.latent) */
    bool fallback; /* they lie with the fallback device (mc_lm_layer_falls_back) */
} mc_entry_shape;

struct mc_kv_pool;

typedef struct mc_state {
    const struct mc_state_ops *kind;
    const mc_lm *lm;
    struct mc_kv_pool *pool; /* of the session; NULL: none */
    mica_scope *scratch;     /* for copying; empty between calls */
    int index;               /* of the session's states: the group of a pool */
    int layer;               /* the first that has it */
    int slots;               /* layers that have a part of it */
    bool elsewhere;          /* its layer is in another stage of a pipeline: it has no arrays; of
                                entries in a pool, its first layer */
    mc_entry_span span;
    mc_entry_shape shape;
    const mc_carried *carried; /* [n_carried] arrays of its layer, if that says so */
    int n_carried;
    int64_t chunk; /* max tokens of a pass */
    int64_t count; /* entries in it */
    int64_t cap;   /* entries that a pass may have; passes with other ones are other programs */
} mc_state;

/* Rows of a pass: the same state of n caches. */
typedef struct mc_state_rows {
    mc_state *const *states; /* [n] */
    const int64_t *ahead;    /* [n] tokens of the same cache in earlier rows of the pass */
    size_t n;                /* 1 where the kind is not `together` */
} mc_state_rows;

/* Functions that are NULL do nothing, or are not called for the kind. */
typedef struct mc_state_ops {
    const char *name;
    size_t bytes;  /* of its struct, which begins with an mc_state */
    bool entries;  /* of keys and values: layers that attend to the same ones have one state */
    bool together; /* rows of a pass are computed as one batch, over the pool's arrays */

    /* errors  MICA_ENOMEM; then deinit, too */
    mica_status (*init)(mc_state *state);
    void (*deinit)(mc_state *state);
    /* Drops all entries, and the last references to arrays, those of their scope aside. */
    void (*clear)(mc_state *state);

    /* ---- room ---- */

    /* Blocks of the pool that it has. */
    int64_t (*blocks)(const mc_state *state);
    /* Blocks that `reserve` takes from the pool for n more tokens, less those that `shed` gives. */
    int64_t (*needed)(const mc_state *state, int64_t n);
    /* Gives what no later token attends to back. */
    void (*shed)(mc_state *state);
    /* Makes room for n more tokens; where there is none for them, for `later` >= n that will come.
     * New arrays belong to `home`.
     *  errors  MICA_ENOMEM; then the cache must be cleared, unless it is on a pool */
    mica_status (*reserve)(mc_state *state, mica_scope *home, int64_t n, int64_t later);
    /* Bytes after `tokens` tokens, of what is not in a pool. */
    uint64_t (*bytes_after)(const mc_state *state, int64_t tokens);
    /* Makes an empty state a copy, which shares what it can; arrays belong to `home`.
     *  errors  MICA_ENOMEM; then the cache must be cleared */
    mica_status (*fork)(const mc_state *from, mc_state *to, mica_scope *home);

    /* ---- going back ---- */

    /* The last position, up to `to`, that a state which has seen `total` tokens can go back to; 0:
     * it has to be cleared. */
    int64_t (*back)(const mc_state *state, int64_t total, int64_t to);
    /* Goes back to such a position. */
    void (*cut)(mc_state *state, int64_t total, int64_t to);
    /* How many of the last tokens `back` may be able to drop. 0: all. */
    int64_t (*reach)(const mc_state *state);
    /* Notes how it is after `total` tokens. lasting: else only until the next one that is not.
     * errors  MICA_ENOMEM: there is no snapshot, then */
    mica_status (*snapshot)(mc_state *state, mica_scope *home, int64_t total, bool lasting);

    /* Names the arrays, n_carried, of a position that `back` says, in a scope; makes them those of
     * an empty state. NULL: other sessions cannot go on from a snapshot.
     *  errors  MICA_ENOMEM; of `resume`: then the cache must be cleared */
    mica_status (*share)(const mc_state *state, mica_scope *home, int64_t at, mica_array *arrays);
    mica_status (*resume)(mc_state *state, mica_scope *home, int64_t at, const mica_array *arrays);

    /* ---- passes ---- */

    /* Begins the recording of a pass. */
    void (*begin)(mc_state_rows rows);
    /* Takes keys and values of a slot, both [rows, kv_heads, L, kv width]; what they attend to.
     * MICA_NONE: the slot has taken those of the layer that is shared. */
    mc_attended (*append)(mc_state_rows rows, mica_scope *s, int slot, mica_array k, mica_array v);
    /* Array i as the pass finds it and leaves it, with an axis of one row in front. */
    mica_array (*before)(mc_state *state, mica_scope *s, int i);
    void (*after)(mc_state *state, mica_scope *s, int i, mica_array next);
    /* Equal for passes that can have one program, beside `cap`. */
    uint64_t (*shape)(mc_state_rows rows, uint64_t hash);
    size_t (*param_count)(const mc_state *state);
    size_t (*result_count)(const mc_state *state);
    /* Of the pass that was recorded last. */
    void (*params)(mc_state_rows rows, mica_param *params);
    void (*results)(mc_state_rows rows, mica_array *results);
    /* The program's arguments for n tokens a row; s keeps errors. */
    void (*args)(mc_state_rows rows, mica_scope *s, int64_t n, mica_array *args);
    /* The arrays are what the program left; they move to `home`. errors  MICA_ENOMEM */
    mica_status (*take)(mc_state *state, mica_scope *home, const mica_array *results);
    /* Lists where the state names arrays of its scope. refs NULL: how many there may be. */
    size_t (*arrays)(mc_state *state, mica_array **refs);

    /* ---- files ---- */

    /* Bytes of a slot of a state that has seen `total` tokens, as `write` writes it. The state may
     * be a planned one (session/plan.h), of which count and numbers are set. */
    uint64_t (*saved_bytes)(const mc_state *state, int64_t total);
    /* Writes a slot as parts. errors  those of mica_read and mc_part_put */
    mica_status (*write)(mc_state *state, int64_t total, int slot, mc_part_writer *w);
    /* Puts into an empty state's slot what `write` wrote; slots come in order.
     *  errors  MICA_EFORMAT; MICA_ENOMEM; then the cache must be cleared */
    mica_status (*read)(mc_state *state, mica_scope *home, int64_t total, int slot,
                        mc_part_reader *r);
} mc_state_ops;

#define STATE(name) extern const mc_state_ops mc_state_##name;
#include "session/state_list.h"
#undef STATE

/* All slots of a state, one after the other. errors  those of mc_state_ops.write and read */
mica_status mc_state_write(mc_state *state, int64_t total, mc_part_writer *w);
mica_status mc_state_read(mc_state *state, mica_scope *home, int64_t total, mc_part_reader *r);

/* ---- what kinds with keys and values have in common ---- */

/* Attention sums values in groups of so many keys. Entries are dropped in multiples of it, so that
 * groups stay whole. */
int64_t mc_state_group(const mc_lm *lm);

/* Bytes of the keys, or values, of an entry in one slot. */
size_t mc_entry_bytes(const mc_lm *lm, mc_entry_shape shape);

bool mc_entry_same_shape(mc_entry_shape a, mc_entry_shape b);

/* The smaller one of two limits, of which 0 is none. */
int64_t mc_entry_span_limit(int64_t a, int64_t b);

/* How many of its last entries a window keeps if entries are dropped in blocks. */
int64_t mc_entry_span_kept(const mc_entry_span *span, int64_t block);

/* `back` and `reach` of entries. */
int64_t mc_entries_back(const mc_state *state, int64_t total, int64_t to);
int64_t mc_entries_reach(const mc_state *state);

/* `saved_bytes` of entries. A file has those of the head without what fills up a pool's block. */
uint64_t mc_entries_saved_bytes(const mc_state *state, int64_t total);

/* Writes a slot's entries, of arrays [1, kv_heads, .., kv width] of the scratch scope. */
mica_status mc_entries_write(mc_state *state, int64_t total, const mica_array *arrays,
                             mc_part_writer *w);

/* Takes the entries of a slot, where the state can have so many: parts[2] are the arrays'
 * [kv_heads, count, kv width].
 *  errors  MICA_EFORMAT */
mica_status mc_entries_read(const mc_state *state, int64_t total, int slot, mc_part_reader *r,
                            int64_t *count, const void **parts);

#endif

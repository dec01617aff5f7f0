/* One pass: rows × tokens over the states of caches, or over none. What a session computes is one
 * row, a step of a batch several of one token or more.
 *
 * A pass is a program (mica/program.h). It is recorded once for a number of rows and tokens, for
 * what is wanted and for the sizes of arrays, and run as often as these come again. The arrays of
 * the states are donated to it, so nothing is copied.
 *
 * The parameters of the program are ids [rows, n] i32; the position of the first token of each row,
 * i32 [] for one row and [rows] for several; then those of the states. Its results are those of the
 * states, then what is wanted.
 *
 * Threads: one at a time. */
#ifndef SESSION_PASS_H
#define SESSION_PASS_H

#include "base/arena.h"
#include "device/device.h"
#include "session/cache.h"
#include "session/largest.h"

/* What a pass leaves beside the states. */
typedef struct mc_session_wish {
    mc_wanted wanted;
    bool best;             /* the best of the wanted logits (mc_best_record), MC_BEST_ARRAYS */
    bool largest;          /* the largest of them (mc_largest_record) */
    bool ends;             /* MC_LAST_LOGITS are those of mc_pass_rows.ends, [rows, 1, vocab] */
    bool both;             /* after the best, too, the logits themselves */
    const int64_t *layers; /* [n_layers], each once: layers whose queries and keys are wanted */
    size_t n_layers;
    /* Not NULL: the pass is only launched; with `best` it leaves MC_LAUNCH_ARRAYS. Receives what to
     * wait for (mc_device_wait); 0: the pass is over, as it is after an error. */
    mc_fence *fence;
} mc_session_wish;

/* A pass that is launched leaves at most: the best tokens; these also as ids [rows, 1] of another
 * pass; the logits. */
enum { MC_LAUNCH_ARRAYS = MC_BEST_ARRAYS + 2 };

/* How many arrays a pass leaves beside the states and wish.layers. */
size_t mc_session_wish_count(const mc_session_wish *wish);

typedef struct mc_pass_rows {
    const mc_lm *lm;
    size_t rows; /* 1 to MC_MAX_ROWS */
    int64_t n;   /* tokens of a row */
    mc_session_wish wish;
    /* Of each row: its cache, which has room for the tokens; where arrays of that are; the position
     * of its first token; and how many of these come from earlier rows with the same cache, which
     * only caches have for which mc_cache_is_together. */
    mc_cache *caches[MC_MAX_ROWS]; /* the first is NULL: rows attend to themselves alone */
    mica_scope *homes[MC_MAX_ROWS];
    int64_t positions[MC_MAX_ROWS], ahead[MC_MAX_ROWS];
    int64_t ends[MC_MAX_ROWS]; /* with wish.ends: the last token of each; padding is behind it */
} mc_pass_rows;

/* Who computes passes, one after the other. */
typedef struct mc_passes {
    mica_scope *scope;     /* of arguments and results; the owner's */
    mica_scope *recording; /* empty but while a pass is recorded */
    mc_pass_program *programs;
    size_t n_programs;
    mc_arena arena;       /* lists of the pass at hand */
    struct mc_lead *lead; /* other ranks compute the same passes when it has told them; NULL: none.
                             Set by the owner */
} mc_passes;

/*  programs  [n], zeros at first; whose owner closes them
 *  errors    MICA_ENOMEM; then deinit, too */
mica_status mc_passes_init(mc_passes *passes, mica_scope *scope, mc_pass_program *programs,
                           size_t n);
void mc_passes_deinit(mc_passes *passes);

/* Computes a pass, and gives the caches what it leaves of their states.
 *
 *  ids      [rows, n] i32 of the scope
 *  results  receives arrays of the scope: what is wished, in the order of the wish, then for each
 *           layer, in the order of wish.layers, q [rows, heads, n, head_dim] and k [rows, kv_heads,
 *           n, head_dim]
 *  errors   those of mica_eval; MICA_ENOMEM. Then the caches may be half written, but those of
 *           which all is in a pool are as before */
mica_status mc_pass_compute(mc_passes *passes, const mc_pass_rows *pass, mica_array ids,
                            mica_array *results);

#endif

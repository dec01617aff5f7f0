/* What a layer's keys and values in a cache are: how many, and which of them are attended to.
 *
 * Threads: one at a time. */
#ifndef SESSION_CACHE_LAYER_H
#define SESSION_CACHE_LAYER_H

#include "model/lm.h"

/* STEP: entries by which buffers grow. SLACK: entries kept beyond a window. */
enum { MC_CACHE_STEP = 256, MC_CACHE_SLACK = 64 };

typedef struct mc_cache_layer {
    mica_array k, v; /* MICA_NONE while empty */
    /* Of the pass that is recorded: the parameters for the buffers and for the entry at which it
     * begins to write, which layers that are alike share, and the buffers that it leaves. */
    mica_array param_k, param_v, start, next_k, next_v;
    int64_t cap;    /* entries that the buffers have room for */
    int64_t count;  /* entries in the buffers */
    int64_t window; /* entries attended to, the last ones; 0: all */
    int64_t keep;   /* first entries that are attended to beside the window */
    int64_t head;   /* first entries that are never dropped */
    int64_t max;    /* limit of cap; 0: none */
    int alike;      /* the first layer that has as many entries as this one, always */
} mc_cache_layer;

/* What the layers of a model attend to: [layers], without entries. Entries are dropped in multiples
 * of `group`. */
void mc_cache_plan(const mc_lm *lm, int64_t context, int64_t chunk, int64_t group,
                   mc_cache_layer *layers);

/* How many of its last entries a layer with a window keeps if entries are dropped in blocks. */
int64_t mc_cache_kept(const mc_cache_layer *layer, int64_t block);

/* The same of one layer, but for `alike`. */
void mc_cache_plan_layer(const mc_lm *lm, int index, int64_t context, int64_t chunk, int64_t group,
                         mc_cache_layer *layer);

/* The smaller one of two limits, of which 0 is none. */
int64_t mc_cache_limit(int64_t a, int64_t b);

#endif

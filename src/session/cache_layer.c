#include "session/cache_layer.h"

#include "base/integer.h"

enum { KEEP = 4 }; /* first entries that a context keeps */

int64_t mc_cache_limit(int64_t a, int64_t b) {
    if (!a || !b) return a ? a : b;
    return mc_min(a, b);
}

void mc_cache_plan_layer(const mc_lm *lm, int index, int64_t context, int64_t chunk, int64_t group,
                         mc_cache_layer *layer) {
    int64_t window = mc_spec_attention(&lm->spec, index)->window;
    layer->window = mc_cache_limit(window, context);
    if (!layer->window) return;
    if (layer->window != window) {
        layer->keep = mc_min(KEEP, context / 2);
        layer->head = mc_round_up(layer->keep, group);
        layer->window -= layer->keep;
    }
    layer->max = mc_round_up(layer->head + layer->window + chunk + group, MC_CACHE_STEP / 2);
}

/* Layers are alike that drop the same entries. */
static int find_alike(const mc_cache_layer *layers, int index) {
    const mc_cache_layer *layer = &layers[index];
    for (int i = 0; i < index; i++)
        if (layers[i].window == layer->window && layers[i].keep == layer->keep &&
            layers[i].head == layer->head && layers[i].max == layer->max)
            return i;
    return index;
}

void mc_cache_plan(const mc_lm *lm, int64_t context, int64_t chunk, int64_t group,
                   mc_cache_layer *layers) {
    for (int i = 0; i < lm->spec.n_layers; i++) {
        mc_cache_plan_layer(lm, i, context, chunk, group, &layers[i]);
        layers[i].alike = find_alike(layers, i);
    }
}

int64_t mc_cache_kept(const mc_cache_layer *layer, int64_t block) {
    return layer->window - 1 + mc_max(MC_CACHE_SLACK, block);
}

/* How many layers of a model a device has memory for. */
#include "base/integer.h"
#include "device/device.h"
#include "model/family.h"
#include "model/load/load.h"

#include <string.h>

enum { TOKENS = 8192 }; /* that a plan has room for, where nobody says how many */

/* What a layer takes, and of it its blocks of experts. */
typedef struct layer_bytes {
    uint64_t all, experts;
} layer_bytes;

/* Whether blocks of a kind have matrices of experts. */
static bool has_experts(const mc_block *kind) {
    for (int i = 0; i < kind->n_slots; i++)
        if (kind->slots[i].experts) return true;
    return false;
}

static bool is_of_experts(const mc_decoder_spec *spec, mc_str name) {
    mc_spec_slot at;
    size_t len = name.len;
    while (len > 0 && name.ptr[len - 1] != '.')
        len--; /* of "layers.7.mlp.up_proj.weight" all but the last word */
    if (len == 0 || !mc_spec_find(spec, (mc_str){name.ptr, len - 1}, &at)) return false;
    return has_experts(at.spec->kind);
}

/* layers [n_layers] and *others receive what tensors take. */
static void add_weights(const mc_decoder_spec *spec, const mc_weights *weights,
                        mc_lm_ignore ignores, layer_bytes *layers, uint64_t *others) {
    for (size_t i = 0; i < mc_weights_count(weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(weights, i);
        mc_str name = mc_decoder_name(mc_str_of(t->name)), rest;
        int layer = mc_spec_layer(spec, name, &rest);
        if (ignores(spec, t->name)) continue;
        if (layer < 0 || layer >= spec->n_layers) {
            *others += t->bytes;
            continue;
        }
        layers[layer].all += t->bytes;
        if (is_of_experts(spec, name)) layers[layer].experts += t->bytes;
    }
}

static uint64_t carried_bytes(const mc_block_spec *carrier) {
    uint64_t bytes = 0;
    for (int i = 0; carrier && i < carrier->n_carried; i++) {
        uint64_t n = mica_dtype_bytes(carrier->carried[i].dtype);
        for (int k = 0; k < carrier->carried[i].ndim; k++)
            n *= (uint64_t)carrier->carried[i].shape[k];
        bytes += n;
    }
    return bytes;
}

static void add_caches(const mc_decoder_spec *spec, const mc_lm_places *places,
                       layer_bytes *layers) {
    int64_t tokens = places->tokens ? places->tokens : TOKENS;
    if (spec->context > 0) tokens = mc_min(tokens, spec->context);
    for (int i = 0; i < spec->n_layers; i++) {
        const mc_attention_spec *a = mc_spec_attention(spec, i);
        int64_t entries = a->window ? mc_min(tokens, 2 * a->window) : tokens;
        double entry = (double)(a->kv_heads * a->head_dim * (a->latent ? 1 : 2));
        layers[i].all += carried_bytes(mc_spec_carrier(spec, i));
        if (mc_spec_source(spec, i) == i)
            layers[i].all += (uint64_t)(entry * (double)entries * places->element_bytes);
    }
}

/* What is left of the device's memory for weights and caches: a pass and the driver take some. */
static uint64_t usable_bytes(const mica_device *device) {
    uint64_t free_bytes = mc_device_free_bytes(device), eighth = free_bytes / 8;
    return free_bytes - (eighth < UINT64_C(1) << 30 ? eighth : UINT64_C(1) << 30);
}

/* The fewest layers, from the first on, without which the rest fits. */
static int count_far(const mc_decoder_spec *spec, const layer_bytes *layers, uint64_t others,
                     uint64_t usable, bool experts) {
    uint64_t left = others;
    int far = 0;
    for (int i = 0; i < spec->n_layers; i++)
        left += layers[i].all;
    for (; far < spec->n_layers && left > usable; far++)
        left -= experts ? layers[far].experts : layers[far].all;
    return left > usable ? spec->n_layers + 1 : far;
}

/* The kind of blocks that have experts; NULL: there is none. */
static const mc_block *find_experts(const mc_decoder_spec *spec) {
    const mc_block_spec *block;
    for (int i = 0; i < spec->n_layers; i++)
        for (int k = 0; (block = mc_spec_block(spec, i, k)); k++)
            if (has_experts(block->kind)) return block->kind;
    return NULL;
}

static mica_status plan(mc_lm *lm, const mc_weights *weights, const mica_device *device,
                        const mc_lm_places *places, mc_lm_ignore ignores) {
    const mc_decoder_spec *spec = &lm->spec;
    mc_arena arena = {0};
    uint64_t others = 0, usable = usable_bytes(device);
    layer_bytes *layers = mc_arena_calloc(&arena, (size_t)spec->n_layers * sizeof *layers);
    if (!layers) return mc_fail_nomem("a plan of layers");
    add_weights(spec, weights, ignores, layers, &others);
    add_caches(spec, places, layers);
    lm->far_kind = find_experts(spec);
    lm->far_layers = count_far(spec, layers, others, usable, lm->far_kind != NULL);
    if (lm->far_kind && lm->far_layers > spec->n_layers) {
        lm->far_kind = NULL;
        lm->far_layers = count_far(spec, layers, others, usable, false);
    }
    if (lm->far_layers > spec->n_layers) lm->far_layers = 0; /* the device says what is lacking */
    mc_arena_deinit(&arena);
    return MICA_OK;
}

mica_status mc_lm_place(mc_lm *lm, const mc_weights *weights, const mica_device *device,
                        const mc_lm_places *places, mc_lm_ignore ignores) {
    const mc_backend *backend = device->backend;
    if (!places || backend->complete) return MICA_OK;
    if (places->layers) {
        lm->far_layers = (int)mc_max(0, lm->spec.n_layers - mc_max(0, places->layers));
        return MICA_OK;
    }
    return backend->host_memory ? MICA_OK : plan(lm, weights, device, places, ignores);
}

/* Which layers of a model a device computes, where it has not the memory for all: the first ones
 * lie with its fallback, and of those behind them the experts may. Of all such plans that fit, that
 * is taken by which a token of an answer takes the least time. */
#include "base/integer.h"
#include "cost/rates.h"
#include "device/device.h"
#include "model/family.h"
#include "model/load/load.h"

#include <mica/cost.h>

#include <math.h>
#include <string.h>

enum { TOKENS = 8192 }; /* that a plan has room for, where nobody says how many */

/* Kinds of weights, by what their products are measured with. */
enum { WHOLE, HALF, CODES, KINDS };

/* What a layer, or a part of it, takes of memory, and which bytes of weights a token reads. */
typedef struct part_cost {
    uint64_t bytes;
    double read[KINDS];
} part_cost;

typedef struct layer_cost {
    part_cost all, experts; /* experts: of all, what its block of experts takes */
} layer_cost;

/* ---- rates ---- */

/* Seconds for a byte of weights, with the fallback less those with the device, and for a way to the
 * fallback and back. */
typedef struct rates {
    double more[KINDS], crossing;
    bool measured;
} rates;

static int kind_of(mica_dtype dtype) {
    if (dtype == MICA_F32) return WHOLE;
    return dtype == MICA_BF16 || dtype == MICA_F16 ? HALF : CODES;
}

/* Weights are read once a token: no cache of the processor has them, as it may have a probe's. */
static double seconds_a_byte(const mc_rates *r, int kind) {
    static const mc_rate products[KINDS] = {MC_RATE_MATVEC_F32, MC_RATE_MATVEC_BF16,
                                            MC_RATE_MATVEC_Q4};
    return 1 / fmin(r->of[products[kind]], r->of[MC_RATE_MEMORY_LARGE]);
}

static double copy_seconds(double bytes, double rate) {
    return rate > 0 ? bytes / rate : 0;
}

/* By what was measured; without it, what the fallback reads counts, and nothing else. */
static rates find_rates(mica_device *device, int64_t hidden) {
    const rates unmeasured = {.more = {1, 1, 1}};
    rates found = {.measured = true};
    mica_device *fallback;
    mc_rates near, far;
    double bytes = (double)hidden * 4;
    if (mica_device_calibrate(device, false) != MICA_OK || !mc_rates_get(device, &near) ||
        mc_device_fallback(device, &fallback) != MICA_OK || !mc_rates_get(fallback, &far))
        return unmeasured;
    for (int i = 0; i < KINDS; i++)
        found.more[i] = seconds_a_byte(&far, i) - seconds_a_byte(&near, i);
    found.crossing = near.of[MC_RATE_ROUNDTRIP] + copy_seconds(bytes, near.of[MC_RATE_UPLOAD]) +
                     copy_seconds(bytes, near.of[MC_RATE_DOWNLOAD]);
    return found;
}

/* ---- what layers take ---- */

static void add_tensor(part_cost *part, const mc_weight_tensor *t, double read) {
    part->bytes += t->bytes;
    part->read[kind_of(t->dtype)] += read * (double)t->bytes;
}

/* The slot of "layers.7.mlp.up_proj.weight", and of "layers.7.mlp.experts.up_proj_blocks". */
static bool find_slot(const mc_decoder_spec *spec, mc_str name, mc_spec_slot *at) {
    for (size_t len = name.len; len > 0; len--) {
        bool ends = len == name.len || name.ptr[len] == '.' || name.ptr[len] == '_';
        if (ends && mc_spec_find(spec, (mc_str){name.ptr, len}, at)) return true;
    }
    return false;
}

/* Of a tensor the part that a token reads; *experts: it is of a block of experts. */
static double part_read(const mc_decoder_spec *spec, mc_str name, bool *experts) {
    mc_spec_slot at;
    *experts = find_slot(spec, name, &at) && at.spec->kind == &mc_block_experts;
    if (!*experts || !at.spec->kind->slots[at.slot].experts) return 1;
    return (double)at.spec->experts.picks / (double)at.spec->experts.count;
}

/* layers [n_layers] and *others receive what tensors take. */
static void add_weights(const mc_decoder_spec *spec, const mc_weights *weights,
                        mc_lm_ignore ignores, layer_cost *layers, uint64_t *others) {
    for (size_t i = 0; i < mc_weights_count(weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(weights, i);
        mc_str name = mc_decoder_name(mc_str_of(t->name)), rest;
        int layer = mc_spec_layer(spec, name, &rest);
        bool experts;
        if (ignores(spec, t->name)) continue;
        if (layer < 0 || layer >= spec->n_layers) {
            *others += t->bytes;
            continue;
        }
        double read = part_read(spec, name, &experts);
        add_tensor(&layers[layer].all, t, read);
        if (experts) add_tensor(&layers[layer].experts, t, read);
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
                       layer_cost *layers) {
    int64_t tokens = places->tokens ? places->tokens : TOKENS;
    if (spec->context > 0) tokens = mc_min(tokens, spec->context);
    for (int i = 0; i < spec->n_layers; i++) {
        const mc_attention_spec *a = mc_spec_attention(spec, i);
        int64_t entries = a->window ? mc_min(tokens, 2 * a->window) : tokens;
        double entry = (double)(a->kv_heads * a->head_dim * (a->latent ? 1 : 2));
        layers[i].all.bytes += carried_bytes(mc_spec_carrier(spec, i));
        if (mc_spec_source(spec, i) == i)
            layers[i].all.bytes += (uint64_t)(entry * (double)entries * places->element_bytes);
    }
}

/* What is left of the device's memory for weights and caches: a pass and the driver take some. */
static uint64_t usable_bytes(const mica_device *device) {
    uint64_t free_bytes = mc_device_free_bytes(device), eighth = free_bytes / 8;
    return free_bytes - (eighth < UINT64_C(1) << 30 ? eighth : UINT64_C(1) << 30);
}

/* ---- the plan ---- */

/* The first layers are far, and the experts of those before another number. */
typedef struct division {
    int layers, experts;
    double seconds; /* that a token takes more than if all were near */
} division;

static void move(const part_cost *part, const rates *r, uint64_t *left, double *seconds) {
    *left -= part->bytes;
    for (int i = 0; i < KINDS; i++)
        *seconds += part->read[i] * r->more[i];
}

/* Of the divisions with so many far layers the fastest that fits, if that is faster than *best.
 * left: what the device has then. */
static void try_experts(const layer_cost *layers, int n, division at, uint64_t left,
                        uint64_t usable, const rates *r, division *best) {
    for (;; at.experts++) {
        if (left <= usable && at.seconds < best->seconds) *best = at;
        if (at.experts == n) return;
        const part_cost *experts = &layers[at.experts].experts;
        if (!experts->bytes) continue;
        move(experts, r, &left, &at.seconds);
        at.seconds += r->crossing;
    }
}

/* left: what the device has where all is near. Where nothing fits, that is so: the device says what
 * is lacking. */
static division divide(const layer_cost *layers, int n, uint64_t left, uint64_t usable,
                       const rates *r) {
    division best = {.seconds = INFINITY}, at = {.layers = 0};
    for (;; at.layers++) {
        at.experts = at.layers;
        try_experts(layers, n, at, left, usable, r, &best);
        if (at.layers == n) return best;
        if (at.layers == 0) at.seconds += r->crossing;
        move(&layers[at.layers].all, r, &left, &at.seconds);
    }
}

static mica_status plan(mc_lm *lm, const mc_weights *weights, mica_device *device,
                        const mc_lm_places *places, mc_lm_ignore ignores) {
    const mc_decoder_spec *spec = &lm->spec;
    mc_arena arena = {0};
    uint64_t left = 0, usable = usable_bytes(device);
    layer_cost *layers = mc_arena_calloc(&arena, (size_t)spec->n_layers * sizeof *layers);
    if (!layers) return mc_fail_nomem("a plan of layers");
    add_weights(spec, weights, ignores, layers, &left);
    add_caches(spec, places, layers);
    for (int i = 0; i < spec->n_layers; i++)
        left += layers[i].all.bytes;
    if (left > usable) {
        const rates r = find_rates(device, spec->hidden);
        const division d = divide(layers, spec->n_layers, left, usable, &r);
        lm->far_layers = d.layers;
        lm->far_experts = d.experts;
        lm->far_measured = r.measured;
    }
    mc_arena_deinit(&arena);
    return MICA_OK;
}

mica_status mc_lm_place(mc_lm *lm, const mc_weights *weights, mica_device *device,
                        const mc_lm_places *places, mc_lm_ignore ignores) {
    const mc_backend *backend = device->backend;
    if (!places || backend->complete) return MICA_OK;
    if (places->layers) {
        lm->far_layers = (int)mc_max(0, lm->spec.n_layers - mc_max(0, places->layers));
        return MICA_OK;
    }
    return backend->host_memory ? MICA_OK : plan(lm, weights, device, places, ignores);
}

bool mc_lm_block_falls_back(const mc_lm *lm, int layer, int block) {
    if (mc_lm_layer_falls_back(lm, layer)) return true;
    return layer < lm->far_experts &&
           mc_spec_block(&lm->spec, layer, block)->kind == &mc_block_experts;
}

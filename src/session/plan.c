#include "session/plan.h"

#include "base/alloc.h"
#include "base/integer.h"

enum { KEEP = 4 }; /* first entries that a context keeps */

/* What a plan is made from. */
typedef struct planning {
    const mc_lm *lm;
    const mc_layer_state *given; /* NULL: as the spec says */
    int64_t context, chunk, block;
    mc_state_plan *plan;
} planning;

static mc_entry_span span_of(const planning *p, int layer) {
    int64_t group = p->block ? p->block : mc_state_group(p->lm);
    int64_t window = mc_spec_attention(&p->lm->spec, layer)->window;
    mc_entry_span span = {.window = mc_entry_span_limit(window, p->context)};
    if (!span.window) return span;
    if (span.window != window) {
        span.keep = mc_min(KEEP, p->context / 2);
        span.head = mc_round_up(span.keep, group);
        span.window -= span.keep;
    }
    span.max = mc_round_up(span.head + span.window + p->chunk + group, MC_CACHE_STEP / 2);
    return span;
}

static bool same_span(mc_entry_span a, mc_entry_span b) {
    return a.window == b.window && a.keep == b.keep && a.head == b.head && a.max == b.max;
}

/* The layer whose slot a layer has. */
static int source_of(const planning *p, int layer) {
    return p->given ? p->given[layer].of : mc_spec_source(&p->lm->spec, layer);
}

static mc_entry_shape shape_of(const planning *p, int layer) {
    const mc_attention_spec *a = mc_spec_attention(&p->lm->spec, layer);
    return (mc_entry_shape){.heads = a->kv_heads,
                            .width = mc_lm_kv_width(p->lm, a->head_dim),
                            .whole = mc_lm_kv_heads(p->lm, layer),
                            .arrays = a->latent ? 1 : 2,
                            .fallback = mc_lm_layer_falls_back(p->lm, source_of(p, layer))};
}

static const mc_state_ops *kind_of(const planning *p, int layer) {
    if (p->given && p->given[layer].kind) return p->given[layer].kind;
    if (mc_spec_carrier(&p->lm->spec, layer)) return &mc_state_carried;
    return p->block ? &mc_state_blocks : &mc_state_buffers;
}

/* Whether what a layer computes of a token is of that token alone, or computed elsewhere. */
static bool is_stateless(const planning *p, int layer) {
    const mc_decoder_spec *spec = &p->lm->spec;
    if (!p->block && !mc_lm_has_layer(p->lm, layer)) return true;
    return !p->given && !mc_spec_attention(spec, layer)->heads && !mc_spec_carrier(spec, layer);
}

static bool has_slot(const planning *p, int layer) {
    return source_of(p, layer) == layer && !is_stateless(p, layer);
}

/* Whether two layers can have slots of one state. */
static bool alike(const planning *p, int a, int b) {
    return a == b || (kind_of(p, a) == kind_of(p, b) && kind_of(p, a)->entries &&
                      same_span(span_of(p, a), span_of(p, b)) &&
                      mc_entry_same_shape(shape_of(p, a), shape_of(p, b)));
}

/* Layers from `first` on that are alike to it and have slots; 0: an earlier one is alike. */
static int count_alike(const planning *p, int first) {
    int n = 0;
    for (int i = 0; i < p->plan->layers; i++) {
        if (!has_slot(p, i) || !alike(p, first, i)) continue;
        if (i < first) return 0;
        n++;
    }
    return n;
}

static int greatest_divisor(int a, int b) {
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Slots of a pool's states of a layer's shape. */
static int common_size(const planning *p, int layer) {
    int size = 0;
    for (int i = 0; i < p->plan->layers; i++)
        if (has_slot(p, i) && kind_of(p, i)->together &&
            mc_entry_same_shape(shape_of(p, i), shape_of(p, layer)))
            size = greatest_divisor(count_alike(p, i), size);
    return size;
}

static mc_planned_state new_state(const planning *p, int layer) {
    mc_planned_state state = {.kind = kind_of(p, layer),
                              .span = span_of(p, layer),
                              .shape = shape_of(p, layer),
                              .layer = layer,
                              .elsewhere = !mc_lm_has_layer(p->lm, layer)};
    const mc_block_spec *carrier = mc_spec_carrier(&p->lm->spec, layer);
    if (p->given) state.carried = p->given[layer].carried;
    if (p->given) state.n_carried = p->given[layer].n_carried;
    if (!p->given && carrier) state.carried = carrier->carried;
    if (!p->given && carrier) state.n_carried = carrier->n_carried;
    return state;
}

/* Adds the states of the layers that are alike to `first`, `size` slots each; 0: one for all. */
static void add_states(const planning *p, int first, int size) {
    mc_state_plan *plan = p->plan;
    for (int i = first, n = 0; i < plan->layers; i++) {
        if (!has_slot(p, i) || !alike(p, first, i)) continue;
        if (size ? n % size == 0 : n == 0) plan->states[plan->n++] = new_state(p, i);
        plan->places[i] = (mc_place){plan->n - 1, plan->states[plan->n - 1].slots++};
        n++;
    }
}

static void add_all(const planning *p, bool together) {
    for (int i = 0; i < p->plan->layers; i++)
        if (has_slot(p, i) && kind_of(p, i)->together == together && count_alike(p, i))
            add_states(p, i, together ? common_size(p, i) : 0);
}

/* Refuses a layer whose attention has nowhere to keep keys. */
static mica_status check_layer(const planning *p, int layer) {
    const mc_block_spec *block;
    for (int i = 0; (block = mc_spec_block(&p->lm->spec, layer, i)); i++)
        if (block->kind->state == MC_STATE_KEYS && !kind_of(p, layer)->append)
            return mc_fail(MICA_EUNSUPPORTED, "layer %d has attention, and carries arrays, too",
                           layer);
    int source = source_of(p, layer);
    if (alike(p, source, layer)) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "layer %d cannot share what layer %d carries: it has another window, or other "
                   "heads",
                   layer, source);
}

mica_status mc_state_plan_init(mc_state_plan *plan, const mc_lm *lm, const mc_layer_state *states,
                               int64_t context, int64_t chunk, int64_t block) {
    const planning p = {lm, states, context, chunk, block, plan};
    *plan = (mc_state_plan){.layers = lm->spec.n_layers};
    for (int i = 0; i < plan->layers; i++)
        MC_TRY(check_layer(&p, i));
    plan->places = mc_calloc((size_t)plan->layers, sizeof *plan->places);
    plan->states = mc_calloc((size_t)plan->layers, sizeof *plan->states);
    if (!plan->places || !plan->states) {
        mc_state_plan_deinit(plan);
        return mc_fail_nomem("a session's caches");
    }
    add_all(&p, true);
    plan->together = plan->n;
    add_all(&p, false);
    for (int i = 0; i < plan->layers; i++)
        plan->places[i] =
            is_stateless(&p, i) ? (mc_place){.state = MC_NO_STATE} : plan->places[source_of(&p, i)];
    return MICA_OK;
}

void mc_state_plan_deinit(mc_state_plan *plan) {
    mc_free(plan->places);
    mc_free(plan->states);
    *plan = (mc_state_plan){0};
}

bool mc_state_plan_skips(const mc_state_plan *plan, int layer) {
    if (plan->places[layer].state == MC_NO_STATE) return true;
    for (int i = 0; i < layer; i++)
        if (plan->places[i].state == plan->places[layer].state &&
            plan->places[i].slot == plan->places[layer].slot)
            return true;
    return false;
}

mc_state mc_state_planned(const mc_state_plan *plan, int i, const mc_lm *lm) {
    const mc_planned_state *planned = &plan->states[i];
    return (mc_state){.kind = planned->kind,
                      .lm = lm,
                      .index = i,
                      .layer = planned->layer,
                      .elsewhere = planned->elsewhere,
                      .slots = planned->slots,
                      .span = planned->span,
                      .shape = planned->shape,
                      .carried = planned->carried,
                      .n_carried = planned->n_carried};
}

#include "session/ranks.h"

#include "base/alloc.h"
#include "group/group.h"

#include <string.h>

/* ---- the file of rank 0 ---- */

mica_status mc_ranks_share(const mc_lm *lm, mica_status status, const void **data, size_t *size) {
    bool first = mica_group_rank(lm->group) == 0;
    int64_t bytes = (int64_t)*size;
    MC_TRY(mc_group_outcome(lm->group, status));
    MC_TRY(mica_group_share(lm->group, &bytes, sizeof bytes, 0));
    void *copy = first ? NULL : mc_alloc((size_t)bytes);
    bool has = first || copy;
    status = mc_group_outcome(lm->group, has ? MICA_OK : mc_fail_nomem("a session file"));
    *size = (size_t)bytes;
    if (!first) *data = copy;
    /* The back end reads what rank 0 gives, and writes to that of others. */
    if (status == MICA_OK) status = mica_group_share(lm->group, (void *)(uintptr_t)*data, *size, 0);
    if (status != MICA_OK && !first) mc_free(copy);
    return status;
}

/* ---- writing ---- */

/* A layer's part of a file. */
typedef struct layer_part {
    int64_t bytes;
    char *data;
} layer_part;

/* What `total` tokens have left in a layer, of all heads. */
static mica_status gather_layer(mc_cache *cache, int layer, int64_t total, layer_part *part) {
    if (mc_state_plan_skips(&cache->plan, layer)) return MICA_OK;
    mc_place at = cache->plan.places[layer];
    mc_state *state = cache->states[at.state], whole = *state;
    whole.shape.heads = state->shape.whole;
    part->bytes = (int64_t)state->kind->saved_bytes(&whole, total);
    part->data = mc_alloc((size_t)part->bytes);
    if (!part->data) return mc_fail_nomem("saving a session");
    mc_part_writer w = {.memory = part->data, .whole = true};
    return state->kind->write(state, total, at.slot, &w);
}

/* Brings a layer's part from the rank of a stage to that of the first one. */
static mica_status bring(const mc_lm *lm, int from, layer_part *part) {
    bool sends = mica_group_rank(lm->stages) == from;
    if (sends) {
        MC_TRY(mc_group_send(lm->stages, &part->bytes, sizeof part->bytes, 0));
        return mc_group_send(lm->stages, part->data, (size_t)part->bytes, 0);
    }
    MC_TRY(mc_group_recv(lm->stages, &part->bytes, sizeof part->bytes, from));
    part->data = mc_alloc((size_t)part->bytes);
    if (!part->data) return mc_fail_nomem("saving a session");
    return mc_group_recv(lm->stages, part->data, (size_t)part->bytes, from);
}

/* The stage that has a layer: the last one that begins at it or before. */
static int stage_of(const int32_t *starts, int stages, int layer) {
    int stage = stages - 1;
    while (stage > 0 && starts[stage] > layer)
        stage--;
    return stage;
}

/* status: of the file, which is that of rank 0 */
static mica_status write_layer(mc_cache *cache, int layer, int64_t total, int stage,
                               mc_part_writer *w, mica_status *status) {
    const mc_lm *lm = cache->lm;
    int own = mica_group_rank(lm->stages);
    layer_part part = {0};
    mica_status moved = MICA_OK;
    if (own == stage) moved = gather_layer(cache, layer, total, &part);
    if (moved == MICA_OK && stage != 0 && (own == stage || own == 0))
        moved = bring(lm, stage, &part);
    bool writes = mica_group_rank(lm->group) == 0 && part.bytes > 0;
    if (writes && moved == MICA_OK && *status == MICA_OK)
        *status = mc_part_put(w, part.data, (size_t)part.bytes);
    mc_free(part.data);
    return moved;
}

static mica_status write_layers(mc_cache *cache, int64_t total, mc_part_writer *w,
                                mica_status *status) {
    const mc_lm *lm = cache->lm;
    int stages = mica_group_size(lm->stages);
    int32_t start = lm->before, *starts = mc_array_alloc((size_t)stages, sizeof *starts);
    mica_status moved = MICA_OK;
    if (!starts) return mc_fail_nomem("saving a session");
    starts[0] = start;
    if (lm->stages) moved = mc_group_all_gather(lm->stages, &start, sizeof start, starts);
    for (int i = 0; i < lm->spec.n_layers && moved == MICA_OK; i++)
        moved = write_layer(cache, i, total, stage_of(starts, stages, i), w, status);
    mc_free(starts);
    return moved;
}

mica_status mc_ranks_write(mc_cache *cache, int64_t total, mc_part_writer *w) {
    mica_status status = MICA_OK;
    MC_TRY(mc_group_end_on(cache->lm->group, write_layers(cache, total, w, &status)));
    return status;
}

/* ---- reading ---- */

/* Skips the part of a layer that another stage has. */
static mica_status skip(const mc_state *state, int64_t total, mc_part_reader *r) {
    const void *data;
    int64_t count;
    if (!state->kind->entries)
        return mc_part_take(r, state->kind->saved_bytes(state, total), &data);
    MC_TRY(mc_part_take(r, sizeof count, &data));
    memcpy(&count, data, sizeof count);
    if (count < 0 || count > total)
        return mc_fail(MICA_EFORMAT, "%s: layer %d holds %lld entries of %lld tokens", r->name,
                       state->layer, (long long)count, (long long)total);
    uint64_t row = mc_entry_bytes(state->lm, state->shape);
    if (count && row > SIZE_MAX / (uint64_t)count) return mc_part_cut_short(r);
    for (int i = 0; i < state->shape.arrays; i++)
        MC_TRY(mc_part_take(r, row * (uint64_t)count, &data));
    return MICA_OK;
}

static mica_status read_layers(mc_cache *cache, const mc_state_plan *whole, mica_scope *home,
                               int64_t total, mc_part_reader *r) {
    const mc_lm *lm = cache->lm;
    for (int i = 0; i < whole->layers; i++) {
        if (mc_state_plan_skips(whole, i)) continue;
        if (!mc_lm_has_layer(lm, i)) {
            mc_state state = mc_state_planned(whole, whole->places[i].state, lm);
            state.shape.heads = state.shape.whole;
            MC_TRY(skip(&state, total, r));
            continue;
        }
        mc_place at = cache->plan.places[i];
        mc_state *state = cache->states[at.state];
        MC_TRY(state->kind->read(state, home, total, at.slot, r));
    }
    return MICA_OK;
}

mica_status mc_ranks_read(mc_cache *cache, mica_scope *home, int64_t total, mc_part_reader *r) {
    mc_state_plan whole;
    mc_lm *lm = mc_alloc(sizeof *lm); /* as if all layers were here */
    if (!lm) return mc_fail_nomem("a session's caches");
    *lm = *cache->lm;
    lm->before = lm->behind = 0;
    cache->trail.lost = true;
    r->whole = true;
    mica_status status = mc_state_plan_init(&whole, lm, NULL, 0, 1, 0);
    if (status == MICA_OK) {
        status = read_layers(cache, &whole, home, total, r);
        mc_state_plan_deinit(&whole);
    }
    mc_free(lm); /* the plan points into it */
    return status;
}

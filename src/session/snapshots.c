#include "session/snapshots.h"

#include "base/alloc.h"
#include "graph/graph.h"

bool mc_snapshots_plan(mc_snapshots *s, const mc_state_plan *plan, const mc_lm *lm) {
    *s = (mc_snapshots){.first = plan->together, .end = plan->n};
    for (int i = s->first; i < s->end; i++) {
        const mc_state state = mc_state_planned(plan, i, lm);
        if (!state.kind->share) return false;
        s->n_arrays += (size_t)state.n_carried;
        s->bytes += state.kind->saved_bytes(&state, 1);
    }
    return true;
}

mica_status mc_snapshots_init(mc_snapshots *s, mica_device *device, int32_t max) {
    s->device = device;
    s->arrays = mc_calloc((size_t)max * s->n_arrays, sizeof *s->arrays);
    s->scopes = mc_calloc((size_t)max, sizeof(mica_scope *));
    if (!s->arrays || !s->scopes) return mc_fail_nomem("a cache of prefixes");
    return mc_prefixes_init(&s->known, max, 0);
}

void mc_snapshots_deinit(mc_snapshots *s) {
    for (int32_t i = 0; i < s->known.max && s->scopes; i++)
        mica_scope_close(&s->scopes[i]);
    mc_prefixes_deinit(&s->known);
    mc_free(s->arrays);
    mc_free(s->scopes);
    *s = (mc_snapshots){0};
}

bool mc_snapshots_wanted(const mc_snapshots *s) {
    return s->first < s->end;
}

bool mc_snapshots_has(const mc_snapshots *s, mc_prefix_hash hash) {
    return mc_prefix_find(&s->known, hash) >= 0;
}

/* ---- keeping ---- */

static bool can_keep(const mc_snapshots *s, mc_state *const *states, int64_t total) {
    for (int i = s->first; i < s->end; i++)
        if (states[i]->kind->back(states[i], total, total) != total) return false;
    return true;
}

static void drop_oldest(mc_snapshots *s) {
    int32_t i = mc_prefix_drop_oldest(&s->known);
    if (i >= 0) mc_scope_reset(s->scopes[i]);
}

static mica_status name_arrays(mc_snapshots *s, int32_t i, mc_state *const *states, int64_t total) {
    mica_array *arrays = s->arrays + (size_t)i * s->n_arrays;
    if (!s->scopes[i]) MC_TRY(mica_scope_open(s->device, &s->scopes[i]));
    for (int k = s->first; k < s->end; k++) {
        MC_TRY(states[k]->kind->share(states[k], s->scopes[i], total, arrays));
        arrays += states[k]->n_carried;
    }
    return MICA_OK;
}

static void touch(mc_snapshots *s, int32_t i) {
    mc_prefix_pin(&s->known, i);
    mc_prefix_unpin(&s->known, i);
}

void mc_snapshots_drop_newest(mc_snapshots *s, int64_t n) {
    for (; n > 0; n--) {
        int32_t i = s->known.newest;
        mc_prefix_drop(&s->known, i);
        mc_scope_reset(s->scopes[i]);
    }
}

void mc_snapshots_keep(mc_snapshots *s, mc_prefix_hash hash, mc_state *const *states,
                       int64_t total) {
    int32_t i = mc_prefix_find(&s->known, hash);
    if (i >= 0) touch(s, i);
    if (i >= 0 || !can_keep(s, states, total)) return;
    if (s->known.unused < 0) drop_oldest(s);
    i = mc_prefix_add(&s->known, hash);
    if (i < 0) return;
    bool named = name_arrays(s, i, states, total) == MICA_OK;
    mc_prefix_unpin(&s->known, i);
    if (named) return;
    mc_prefix_drop(&s->known, i);
    if (s->scopes[i]) mc_scope_reset(s->scopes[i]);
}

mica_status mc_snapshots_take(mc_snapshots *s, mc_prefix_hash hash, mc_state *const *states,
                              mica_scope *home, int64_t total) {
    int32_t i = mc_prefix_find(&s->known, hash);
    const mica_array *arrays = s->arrays + (size_t)i * s->n_arrays;
    touch(s, i);
    for (int k = s->first; k < s->end; k++) {
        MC_TRY(states[k]->kind->resume(states[k], home, total, arrays));
        arrays += states[k]->n_carried;
    }
    return MICA_OK;
}

#include "session/state.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"

#include <mica/group.h>

#include <string.h>

enum { AXIS = 2 }; /* of entries */

int64_t mc_state_group(const mc_lm *lm) {
    return mc_max(1, mica_scope_device(lm->scope)->backend->keys_together);
}

size_t mc_entry_bytes(const mc_lm *lm, mc_entry_shape shape) {
    return (size_t)(shape.heads * shape.width) * mica_dtype_bytes(lm->kv_dtype);
}

static size_t entry_bytes(const mc_state *state, int64_t heads) {
    return (size_t)(heads * state->shape.width) * mica_dtype_bytes(state->lm->kv_dtype);
}

bool mc_entry_same_shape(mc_entry_shape a, mc_entry_shape b) {
    return a.heads == b.heads && a.width == b.width && a.arrays == b.arrays &&
           a.fallback == b.fallback;
}

int64_t mc_entry_span_limit(int64_t a, int64_t b) {
    if (!a || !b) return a ? a : b;
    return mc_min(a, b);
}

int64_t mc_entry_span_kept(const mc_entry_span *span, int64_t block) {
    return span->window - 1 + mc_max(MC_CACHE_SLACK, block);
}

/* ---- going back ---- */

int64_t mc_entries_back(const mc_state *state, int64_t total, int64_t to) {
    int64_t dropped = total - state->count;
    bool gone = dropped && to < state->span.head + dropped + state->span.window - 1;
    return gone ? 0 : to;
}

int64_t mc_entries_reach(const mc_state *state) {
    return state->span.max;
}

/* ---- files ---- */

mica_status mc_state_write(mc_state *state, int64_t total, mc_part_writer *w) {
    for (int slot = 0; slot < state->slots; slot++)
        MC_TRY(state->kind->write(state, total, slot, w));
    return MICA_OK;
}

mica_status mc_state_read(mc_state *state, mica_scope *home, int64_t total, mc_part_reader *r) {
    for (int slot = 0; slot < state->slots; slot++)
        MC_TRY(state->kind->read(state, home, total, slot, r));
    return MICA_OK;
}

/* The first entries that a file has in any case: those of the head, without what fills up the last
 * block of a pool. */
static int64_t head_of(const mc_state *state) {
    return mc_min(state->span.head, mc_round_up(state->span.keep, mc_state_group(state->lm)));
}

static int64_t saved_count(const mc_state *state, int64_t total) {
    return state->count - (total > state->count ? state->span.head - head_of(state) : 0);
}

uint64_t mc_entries_saved_bytes(const mc_state *state, int64_t total) {
    size_t bytes = (size_t)saved_count(state, total) * mc_entry_bytes(state->lm, state->shape);
    return MC_WORD + (uint64_t)state->shape.arrays * (uint64_t)mc_padded(bytes);
}

/* The heads of all ranks of a stage, of x [1, heads, ..]. Where ranks are more than heads, several
 * have the same. */
static mica_array gather_heads(const mc_state *state, mica_array x) {
    const mc_entry_shape *shape = &state->shape;
    mica_group *group = state->lm->peers ? state->lm->peers : state->lm->group;
    if (shape->heads == shape->whole) return x;
    int64_t ranks = mica_group_size(group), parts = shape->whole / shape->heads;
    x = mica_all_gather(state->scratch, group, x, 1, NULL);
    if (ranks == parts) return x;
    mica_array part = mica_arange(state->scratch, 0, (double)parts, 1, MICA_I32);
    mica_array first =
        mica_multiply(state->scratch, part, mica_i32(state->scratch, (int32_t)ranks));
    first = mica_floor_divide(state->scratch, first, mica_i32(state->scratch, (int32_t)parts));
    return mica_take(state->scratch, x, first, 1);
}

/* Writes `count` entries of x, without those between the file's head and the rest. */
static mica_status put_entries(mc_state *state, mica_array x, int64_t count, mc_part_writer *w) {
    mica_scope *s = state->scratch;
    int64_t head = head_of(state), heads = w->whole ? state->shape.whole : state->shape.heads;
    size_t bytes = (size_t)count * entry_bytes(state, heads);
    const mica_array parts[] = {
        mica_slice_axis(s, x, AXIS, 0, head),
        mica_slice_axis(s, x, AXIS, head + state->count - count, state->count)};
    if (count < state->count)
        x = mica_concatenate(s, parts, 2, AXIS);
    else
        x = mica_slice_axis(s, x, AXIS, 0, count);
    if (w->whole) x = gather_heads(state, x);
    void *data = mc_alloc(bytes);
    if (!data) return mc_fail_nomem("saving a session");
    mica_status status = mica_read(x, data, bytes);
    if (status == MICA_OK) status = mc_part_put(w, data, bytes);
    mc_free(data);
    return status;
}

mica_status mc_entries_write(mc_state *state, int64_t total, const mica_array *arrays,
                             mc_part_writer *w) {
    mica_status status = MICA_OK;
    int64_t count = saved_count(state, total);
    MC_TRY(mc_part_put(w, &count, sizeof count));
    if (!count) return MICA_OK;
    for (int i = 0; i < state->shape.arrays && status == MICA_OK; i++)
        status = put_entries(state, arrays[i], count, w);
    mc_scope_reset(state->scratch);
    return status;
}

/* Which of equal parts of so many heads a rank has. */
static int64_t own_part(const mc_state *state, int64_t heads) {
    const mica_group *group = state->lm->peers ? state->lm->peers : state->lm->group;
    if (heads == state->shape.heads) return 0;
    return mica_group_rank(group) * (heads / state->shape.heads) / mica_group_size(group);
}

/* Whether `count` entries are all that a slot needs after `total` tokens, and as many as the slots
 * before it have. */
static bool can_hold(const mc_state *state, int64_t total, int slot, int64_t count) {
    if (count < 0 || count > total || (slot && state->count != count)) return false;
    return count == total ||
           (state->span.window && count >= head_of(state) + state->span.window - 1);
}

mica_status mc_entries_read(const mc_state *state, int64_t total, int slot, mc_part_reader *r,
                            int64_t *count, const void **parts) {
    const void *data = NULL;
    MC_TRY(mc_part_take(r, sizeof *count, &data));
    memcpy(count, data, sizeof *count);
    if (!can_hold(state, total, slot, *count))
        return mc_fail(MICA_EFORMAT, "%s: layer %d holds %lld entries of %lld tokens", r->name,
                       state->layer, (long long)*count, (long long)total);
    /* total and count are below 2^31, kv_heads times the width is below 2^48 */
    int64_t heads = r->whole ? state->shape.whole : state->shape.heads;
    uint64_t row = entry_bytes(state, heads), own = entry_bytes(state, state->shape.heads);
    if (*count && row > SIZE_MAX / (uint64_t)*count) return mc_part_cut_short(r);
    for (int i = 0; i < state->shape.arrays; i++) {
        MC_TRY(mc_part_take(r, row * (uint64_t)*count, &parts[i]));
        uint64_t before = (uint64_t)own_part(state, heads) * own * (uint64_t)*count;
        parts[i] = (const char *)parts[i] + before;
    }
    return MICA_OK;
}

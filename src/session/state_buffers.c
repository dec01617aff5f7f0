/* Keys and values in buffers: each slot has two, or one for both, [1, kv_heads, cap, kv width] of
 * lm->kv_dtype.
 *
 * Entries are in the order of their positions, the oldest first. A chunk is written behind the last
 * one, in place. A state that attends to all positions gets larger buffers, by 256 entries or more,
 * when its own are full.
 *
 * One with a sliding window has room for the window, a chunk (256 or more) and 32 entries. When the
 * buffers are full, the last window - 1 entries move to their front, so one move serves many
 * tokens. Up to 64 entries more are kept where there is room: a text that changes near its end is
 * then not computed anew. Positions are absolute and rotate the keys; the index in the buffer is a
 * different number. Entries are dropped in multiples of 32, so that those whose values attention
 * sums together stay together (src/cpu/attention.c). */
#include "base/alloc.h"
#include "base/integer.h"
#include "graph/graph.h"
#include "session/state.h"

#include <string.h>

/* STEP: entries by which buffers grow. AXIS: the axis of entries. */
enum { STEP = MC_CACHE_STEP, AXIS = 2 };

typedef struct kv_slot {
    mica_array now[2]; /* keys and values; MICA_NONE while empty */
    /* Of the pass that is recorded: the parameters for the buffers, and the buffers it leaves. */
    mica_array params[2], next[2];
} kv_slot;

typedef struct buffers {
    mc_state base;
    kv_slot *slots;
    mica_array start; /* of the pass that is recorded: the entry at which it begins to write */
} buffers;

static buffers *of(const mc_state *state) {
    return (buffers *)(uintptr_t)state;
}

static buffers *row_of(mc_state_rows rows) {
    return of(rows.states[0]);
}

static mica_status init(mc_state *state) {
    of(state)->slots = mc_calloc((size_t)state->slots, sizeof(kv_slot));
    return of(state)->slots ? MICA_OK : mc_fail_nomem("a session's caches");
}

static void deinit(mc_state *state) {
    mc_free(of(state)->slots);
}

static void clear(mc_state *state) {
    for (int i = 0; i < state->slots; i++)
        of(state)->slots[i].now[0] = of(state)->slots[i].now[1] = MICA_NONE;
    state->cap = state->count = 0;
}

/* ---- room ---- */

/* Replaces *buffer, one of a slot's, by one of `cap` entries. It begins with the old entries,
 * without the `drop` entries behind the head. The old buffer is freed at once: no more than one
 * buffer exists twice. */
static mica_status replace(const mc_state *state, mica_scope *home, int64_t drop, int64_t cap,
                           mica_array *buffer) {
    const mc_lm *lm = state->lm;
    int64_t head = drop ? state->span.head : 0, rest = cap - (state->count - drop);
    const int64_t shape[] = {1, state->shape.heads, rest, state->shape.width};
    mica_scope *s = state->scratch;
    mc_scope_set_fallback(s, state->shape.fallback);
    mica_array joined = mica_zeros(s, shape, 4, lm->kv_dtype);
    if (state->count) {
        mica_array old = mica_move(s, *buffer);
        const mica_array parts[] = {
            mica_slice_axis(s, old, AXIS, 0, head),
            mica_slice_axis(s, old, AXIS, head + drop, state->count),
            joined,
        };
        joined = mica_concatenate(s, parts, 3, AXIS);
    }
    /* Evaluated in s, not in home: home keeps its errors, and it holds the other rows of a batch
     * too. */
    mica_status status = mica_eval(s, joined);
    if (status == MICA_OK) {
        *buffer = mica_materialize(home, joined);
        status = mica_scope_status(home);
    }
    mc_scope_set_fallback(s, false);
    mc_scope_reset(s);
    return status;
}

static mica_status reserve(mc_state *state, mica_scope *home, int64_t n, int64_t later) {
    const mc_entry_span *span = &state->span;
    if (state->count + n <= state->cap) return MICA_OK;
    int64_t group = mc_state_group(state->lm), drop = 0;
    int64_t cap = mc_entry_span_limit(mc_round_up(state->count + later, STEP), span->max);
    if (span->max && state->count + n > span->max) {
        int64_t rest = state->count - span->head, needed = span->window - 1;
        int64_t room = span->max - span->head - n - (group - 1);
        int64_t wanted = mc_max(needed, mc_min(needed + MC_CACHE_SLACK, room));
        drop = (rest - mc_min(wanted, rest)) / group * group;
    }
    for (int i = 0; i < state->slots; i++)
        for (int k = 0; k < state->shape.arrays; k++)
            MC_TRY(replace(state, home, drop, cap, &of(state)->slots[i].now[k]));
    state->count -= drop;
    state->cap = cap;
    return MICA_OK;
}

static size_t buffer_count(const mc_state *state) {
    return (size_t)state->shape.arrays * (size_t)state->slots;
}

/* Buffer i of a state: those of a slot follow each other. */
static mica_array *buffer_at(const mc_state *state, size_t i) {
    size_t arrays = (size_t)state->shape.arrays;
    return &of(state)->slots[i / arrays].now[i % arrays];
}

static uint64_t bytes_after(const mc_state *state, int64_t tokens) {
    int64_t entries = mc_entry_span_limit(mc_round_up(tokens, STEP), state->span.max);
    return (uint64_t)buffer_count(state) * (uint64_t)entries *
           mc_entry_bytes(state->lm, state->shape);
}

/* The copy gets buffers of its own when a pass writes to them. */
static mica_status fork(const mc_state *from, mc_state *to, mica_scope *home) {
    for (size_t i = 0; i < buffer_count(from) && from->cap; i++)
        *buffer_at(to, i) = mica_detach(home, *buffer_at(from, i));
    return mica_scope_status(home);
}

static void cut(mc_state *state, int64_t total, int64_t to) {
    state->count -= total - to;
}

/* ---- passes ---- */

static void begin(mc_state_rows rows) {
    buffers *b = row_of(rows);
    b->start = MICA_NONE;
    for (int i = 0; i < b->base.slots; i++)
        b->slots[i].next[0] = MICA_NONE;
}

static mc_attended append(mc_state_rows rows, mica_scope *s, int i, mica_array k, mica_array v) {
    buffers *b = row_of(rows);
    const mica_array kv[] = {k, v};
    kv_slot *slot = &b->slots[i];
    const int64_t shape[] = {1, b->base.shape.heads, b->base.cap, b->base.shape.width};
    if (!b->start.scope) b->start = mica_program_param(s, MICA_I32, NULL, 0);
    bool first = !slot->next[0].scope;
    for (int j = 0; j < b->base.shape.arrays && first; j++) {
        mc_scope_set_fallback(s, b->base.shape.fallback);
        slot->params[j] = mica_program_param(s, b->base.lm->kv_dtype, shape, 4);
        mc_scope_set_fallback(s, false);
        slot->next[j] = mica_slice_update_at(s, slot->params[j], kv[j], b->start, AXIS);
    }
    return (mc_attended){.k = slot->next[0],
                         .v = slot->next[b->base.shape.arrays - 1],
                         .offset = b->start,
                         .window = b->base.span.window,
                         .keep = b->base.span.keep};
}

static size_t param_count(const mc_state *state) {
    return buffer_count(state) + 1;
}

static size_t result_count(const mc_state *state) {
    return buffer_count(state);
}

static void params(mc_state_rows rows, mica_param *params) {
    const buffers *b = row_of(rows);
    *params++ = (mica_param){.array = b->start};
    for (int i = 0; i < b->base.slots; i++)
        for (int k = 0; k < b->base.shape.arrays; k++)
            *params++ = (mica_param){.array = b->slots[i].params[k], .donate = true};
}

static void results(mc_state_rows rows, mica_array *results) {
    const buffers *b = row_of(rows);
    for (int i = 0; i < b->base.slots; i++)
        for (int k = 0; k < b->base.shape.arrays; k++)
            *results++ = b->slots[i].next[k];
}

static void args(mc_state_rows rows, mica_scope *s, int64_t n, mica_array *args) {
    const buffers *b = row_of(rows);
    (void)n;
    *args++ = mica_i32(s, (int32_t)b->base.count);
    for (size_t i = 0; i < buffer_count(&b->base); i++)
        *args++ = *buffer_at(&b->base, i);
}

static mica_array moved(mica_scope *home, mica_array x) {
    return x.scope == home ? x : mica_materialize(home, x);
}

static mica_status take_results(mc_state *state, mica_scope *home, const mica_array *results) {
    for (size_t i = 0; i < buffer_count(state); i++)
        *buffer_at(state, i) = moved(home, results[i]);
    return mica_scope_status(home);
}

static size_t arrays(mc_state *state, mica_array **refs) {
    size_t n = state->cap || !refs ? buffer_count(state) : 0;
    for (size_t i = 0; i < n && refs; i++)
        refs[i] = buffer_at(state, i);
    return n;
}

/* ---- files ---- */

static mica_status write(mc_state *state, int64_t total, int i, mc_part_writer *w) {
    return mc_entries_write(state, total, of(state)->slots[i].now, w);
}

/* A buffer of `cap` entries that begins with `count` given ones. */
static mica_array fill(const mc_state *state, mica_scope *home, const void *entries) {
    mica_dtype dtype = state->lm->kv_dtype;
    const int64_t shape[] = {1, state->shape.heads, state->cap, state->shape.width};
    size_t entry = (size_t)shape[3] * mica_dtype_bytes(dtype);
    size_t row = (size_t)state->count * entry, stride = (size_t)state->cap * entry;
    char *data = mc_calloc((size_t)shape[1], stride);
    if (!data) {
        mc_fail_nomem("a session's caches");
        return MICA_NONE;
    }
    for (size_t i = 0; i < (size_t)shape[1]; i++)
        memcpy(data + i * stride, (const char *)entries + i * row, row);
    mc_scope_set_fallback(home, state->shape.fallback);
    mica_array buffer = mica_from_data(home, data, dtype, shape, 4);
    mc_scope_set_fallback(home, false);
    mc_free(data);
    return buffer;
}

static mica_status read(mc_state *state, mica_scope *home, int64_t total, int i,
                        mc_part_reader *r) {
    const void *parts[2];
    int64_t count;
    MC_TRY(mc_entries_read(state, total, i, r, &count, parts));
    if (!count) return MICA_OK;
    state->cap = mc_max(count, mc_entry_span_limit(mc_round_up(count, STEP), state->span.max));
    state->count = count;
    for (int k = 0; k < state->shape.arrays; k++) {
        of(state)->slots[i].now[k] = fill(state, home, parts[k]);
        if (!mica_valid(of(state)->slots[i].now[k])) return MICA_ENOMEM;
    }
    return MICA_OK;
}

const mc_state_ops mc_state_buffers = {
    .name = "buffers",
    .bytes = sizeof(buffers),
    .entries = true,
    .init = init,
    .deinit = deinit,
    .clear = clear,
    .reserve = reserve,
    .bytes_after = bytes_after,
    .fork = fork,
    .back = mc_entries_back,
    .cut = cut,
    .reach = mc_entries_reach,
    .begin = begin,
    .append = append,
    .param_count = param_count,
    .result_count = result_count,
    .params = params,
    .results = results,
    .args = args,
    .take = take_results,
    .arrays = arrays,
    .saved_bytes = mc_entries_saved_bytes,
    .write = write,
    .read = read,
};

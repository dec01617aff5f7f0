#include "session/pool.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"
#include "exec/program.h"

#include <mica/ops.h>

#include <string.h>

/* BLOCK: tokens. TEXT, CHUNK: tokens of a text that many are like, and of a pass.
 * SNAPSHOTS: how many at most, in a SHARE-th of the memory. */
enum { BLOCK = 64, TEXT = 8192, CHUNK = 512, SNAPSHOTS = 64, SHARE = 8 };

/* ---- the layout ---- */

size_t mc_kv_part_arrays(const mc_kv_part *part) {
    return (size_t)part->shape.arrays * (size_t)part->here;
}

int mc_kv_part_at(const mc_kv_part *part, int slot) {
    return part->shape.arrays * part->at[slot];
}

/* With what other stages of a pipeline have. */
static uint64_t block_bytes(const mc_kv_pool *pool, const mc_kv_part *part) {
    return (uint64_t)part->shape.arrays * (uint64_t)part->slots * (uint64_t)pool->block *
           (uint64_t)mc_entry_bytes(pool->lm, part->shape);
}

mc_kv_part *mc_kv_part_of(const mc_kv_pool *pool, int group) {
    return &pool->parts[pool->groups[group].part];
}

/* The part of a group: one that there is, or a new one. */
static int part_for(mc_kv_pool *pool, int group) {
    const mc_planned_state *state = &pool->plan.states[group];
    for (int c = 0; c < pool->n_parts; c++)
        if (mc_entry_same_shape(pool->parts[c].shape, state->shape)) return c;
    mc_kv_part *part = &pool->parts[pool->n_parts];
    *part = (mc_kv_part){.shape = state->shape, .group = group, .slots = state->slots};
    part->block_bytes = block_bytes(pool, part);
    return pool->n_parts++;
}

/* Finds which slots have arrays here: those of the layers that this rank computes. */
static mica_status place_slots(mc_kv_pool *pool) {
    for (int c = 0; c < pool->n_parts; c++) {
        mc_kv_part *part = &pool->parts[c];
        part->at = mc_array_alloc((size_t)part->slots, sizeof *part->at);
        if (!part->at) return mc_fail_nomem("a pool of caches");
        for (int i = 0; i < part->slots; i++)
            part->at[i] = -1;
    }
    for (int i = 0; i < pool->plan.layers; i++) {
        mc_place place = pool->plan.places[i];
        bool blocks = place.state != MC_NO_STATE && place.state < pool->n_groups;
        if (!blocks || !mc_lm_has_layer(pool->lm, i)) continue;
        mc_kv_part *part = mc_kv_part_of(pool, place.state);
        pool->groups[place.state].here = true;
        if (part->at[place.slot] < 0) part->at[place.slot] = part->here++;
    }
    return MICA_OK;
}

static mica_status plan(mc_kv_pool *pool, const mc_layer_state *states) {
    const mc_lm *lm = pool->lm;
    MC_TRY(mc_state_plan_init(&pool->plan, lm, states, pool->context, 0, pool->block));
    pool->n_groups = pool->plan.together;
    if (!pool->n_groups) return mc_fail(MICA_EINVAL, "a pool for a model without keys and values");
    pool->groups = mc_calloc((size_t)pool->n_groups, sizeof *pool->groups);
    pool->parts = mc_calloc((size_t)pool->n_groups, sizeof *pool->parts);
    if (!pool->groups || !pool->parts) return mc_fail_nomem("a pool of caches");
    for (int g = 0; g < pool->n_groups; g++) {
        bool windows = pool->plan.states[g].span.window > 0;
        pool->has_windows = pool->has_windows || windows;
        pool->has_full = pool->has_full || !windows;
        pool->groups[g].part = part_for(pool, g);
    }
    return place_slots(pool);
}

/* Bytes of a session's states that are not in blocks. */
static uint64_t bytes_beside(const mc_kv_pool *pool) {
    uint64_t bytes = 0;
    for (int i = pool->plan.together; i < pool->plan.n; i++) {
        const mc_state state = mc_state_planned(&pool->plan, i, pool->lm);
        bytes += state.kind->bytes_after(&state, 0);
    }
    return bytes;
}

/* Decides whether prefixes are kept; how many snapshots have room with `beside` bytes of others. */
static int32_t plan_snapshots(mc_kv_pool *pool, const mc_kv_pool_options *options,
                              uint64_t beside) {
    mc_snapshots *s = &pool->snapshots;
    uint64_t share = options->bytes > beside ? (options->bytes - beside) / SHARE : 0;
    pool->keeps = options->keep && mc_snapshots_plan(s, &pool->plan, pool->lm);
    if (!pool->keeps || !mc_snapshots_wanted(s)) return 0;
    pool->keeps = share >= s->bytes;
    return (int32_t)(share / s->bytes < SNAPSHOTS ? share / s->bytes : SNAPSHOTS);
}

mica_status mc_kv_table_reserve(mc_kv_table *table, int64_t n) {
    if (n <= table->cap) return MICA_OK;
    int64_t cap = mc_max(n, 2 * table->cap);
    int32_t *ids = mc_realloc(table->ids, (size_t)cap * sizeof *ids);
    if (!ids) return mc_fail_nomem("a session's caches");
    table->ids = ids;
    table->cap = cap;
    return MICA_OK;
}

/* ---- opening ---- */

static void shape_of(const mc_kv_pool *pool, const mc_kv_part *part, int64_t shape[4]) {
    shape[0] = part->shape.heads;
    shape[1] = part->end - part->first;
    shape[2] = pool->block;
    shape[3] = part->shape.width;
}

/* An array of the pool. Where no kernel reads what was not written it is not touched: a pool then
 * takes the memory that it uses. */
static mica_array make_array_there(mc_kv_pool *pool, const mc_kv_part *part) {
    const mc_lm *lm = pool->lm;
    int64_t shape[4];
    shape_of(pool, part, shape);
    mica_scope *s = pool->scope;
    mc_storage *storage = NULL;
    mica_device *device;
    mica_status status = mc_device_of_data(s, &device);
    if (status != MICA_OK) return mc_scope_fail(s, status, "%s", mica_last_error());
    if (!device->backend->skips_unwritten) {
        mica_array zeros = mica_contiguous(s, mica_zeros(s, shape, 4, lm->kv_dtype));
        mc_scope_set_status(s, mica_eval(s, zeros));
        return zeros;
    }
    mc_layout layout = {.dtype = lm->kv_dtype, .ndim = 4};
    memcpy(layout.shape, shape, sizeof shape);
    mc_layout_set_dense(&layout);
    status = mc_storage_new(device, (size_t)mc_layout_bytes(&layout), &storage);
    if (status != MICA_OK) return mc_scope_fail(s, status, "%s", mica_last_error());
    return mc_leaf(s, &layout, storage, 0);
}

static mica_array make_array(mc_kv_pool *pool, const mc_kv_part *part) {
    mc_scope_set_fallback(pool->scope, part->shape.fallback);
    mica_array array = make_array_there(pool, part);
    mc_scope_set_fallback(pool->scope, false);
    return array;
}

static int32_t extent_of(int32_t id) {
    return id / MC_POOL_EXTENT;
}

static int32_t extent_size(const mc_kv_part *part, int32_t extent) {
    return (int32_t)mc_min(MC_POOL_EXTENT, part->end - extent * MC_POOL_EXTENT);
}

/* Blocks of a group of `tokens` tokens, in passes of up to `chunk` tokens. */
static int64_t group_blocks(const mc_kv_pool *pool, int group, int64_t tokens, int64_t chunk) {
    const mc_entry_span *span = &pool->plan.states[group].span;
    int64_t entries = tokens;
    if (span->window)
        entries = mc_min(entries, span->head + mc_entry_span_kept(span, pool->block) + pool->block -
                                      1 + chunk);
    return (entries + pool->block - 1) / pool->block;
}

static int64_t part_blocks(const mc_kv_pool *pool, const mc_kv_part *part, int64_t tokens,
                           int64_t chunk) {
    int64_t blocks = 0;
    for (int g = 0; g < pool->n_groups; g++)
        if (mc_kv_part_of(pool, g) == part) blocks += group_blocks(pool, g, tokens, chunk);
    return blocks;
}

/* Bytes of a part in a text that many are like. */
static double typical_bytes(const mc_kv_pool *pool, const mc_kv_part *part) {
    int64_t tokens = mc_max(pool->block, mc_min(TEXT, pool->lm->spec.context));
    return (double)part_blocks(pool, part, tokens, CHUNK) * (double)part->block_bytes;
}

/* Blocks of a part for a text, and `spare` for each group. */
static int64_t blocks_with(const mc_kv_pool *pool, const mc_kv_part *part, int64_t tokens,
                           int64_t chunk, int64_t spare) {
    return part_blocks(pool, part, tokens, chunk) + spare * part_blocks(pool, part, 1, 0);
}

static uint64_t text_bytes(const mc_kv_pool *pool, int64_t tokens) {
    uint64_t bytes = 0;
    for (int c = 0; c < pool->n_parts; c++)
        bytes += (uint64_t)blocks_with(pool, &pool->parts[c], tokens, CHUNK, MC_POOL_SPARE) *
                 pool->parts[c].block_bytes;
    return bytes;
}

/* The length of the longest text for which there are so many bytes, up to the model's context; 0:
 * there are too few for any. */
static int64_t longest_text(const mc_kv_pool *pool, uint64_t bytes) {
    int64_t low = 0, high = mc_max(1, pool->lm->spec.context);
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (text_bytes(pool, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Gives a part blocks. false: less than one for each group. */
static bool take_blocks(mc_kv_pool *pool, mc_kv_part *part, uint64_t blocks) {
    uint64_t limit = (uint64_t)INT32_MAX / (uint64_t)(pool->block * pool->n_parts);
    blocks = blocks < limit ? blocks : limit; /* slots are i32 */
    part->first = (int32_t)mc_round_up(pool->blocks, MC_POOL_EXTENT);
    part->n_free = (int32_t)blocks;
    part->cursor = extent_of(part->first);
    pool->blocks = part->end = part->first + part->n_free;
    return (int64_t)blocks >= part_blocks(pool, part, 1, 0);
}

/* Gives the parts blocks for the longest text that there can be, so that they all end with it, and
 * then what a text that many are like takes of the rest. */
static bool share_blocks(mc_kv_pool *pool, uint64_t bytes) {
    int64_t longest = longest_text(pool, bytes);
    uint64_t rest = bytes - (longest ? text_bytes(pool, longest) : 0);
    double all = 0;
    bool fits = true;
    for (int c = 0; c < pool->n_parts; c++)
        all += typical_bytes(pool, &pool->parts[c]);
    for (int c = 0; c < pool->n_parts; c++) {
        mc_kv_part *part = &pool->parts[c];
        int64_t own = longest ? blocks_with(pool, part, longest, CHUNK, MC_POOL_SPARE) : 0;
        uint64_t more = (uint64_t)((double)rest * (typical_bytes(pool, part) / all));
        fits = take_blocks(pool, part, (uint64_t)own + more / part->block_bytes) && fits;
    }
    return fits;
}

/* beside: bytes of the limit that blocks do not get. */
static mica_status share_memory(mc_kv_pool *pool, uint64_t limit_bytes, uint64_t beside) {
    uint64_t bytes = limit_bytes > beside ? limit_bytes - beside : 0, least = 0;
    if (bytes > INT64_MAX) bytes = INT64_MAX; /* more than slots can be: it is to be a double */
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        least += (uint64_t)part_blocks(pool, part, 1, 0) * part->block_bytes;
    }
    if (share_blocks(pool, bytes)) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "a pool of caches of %llu bytes: %lld tokens take %llu at least, and what "
                   "sessions carry beside them %llu",
                   (unsigned long long)limit_bytes, (long long)pool->block,
                   (unsigned long long)least, (unsigned long long)beside);
}

static mica_status open_blocks(mc_kv_pool *pool) {
    size_t blocks = (size_t)pool->blocks;
    pool->refs = mc_calloc(blocks, sizeof *pool->refs);
    pool->free_in = mc_calloc((size_t)extent_of(pool->blocks - 1) + 1, sizeof *pool->free_in);
    if (!pool->refs || !pool->free_in) return mc_fail_nomem("a pool of caches");
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        for (int32_t i = extent_of(part->first); i <= extent_of(part->end - 1); i++)
            pool->free_in[i] = extent_size(part, i);
    }
    if (!pool->keeps) return MICA_OK;
    pool->owners = mc_array_alloc(blocks, sizeof *pool->owners);
    if (!pool->owners) return mc_fail_nomem("a pool of caches");
    for (int32_t i = 0; i < pool->blocks; i++)
        pool->owners[i] = -1;
    return mc_prefixes_init(&pool->prefixes, pool->blocks, pool->n_groups);
}

/* Rooms of arrays, and of a group's list of what was written. */
static mica_status open_lists(mc_kv_pool *pool) {
    mica_array *next;
    size_t written = 0;
    for (int c = 0; c < pool->n_parts; c++)
        pool->n_arrays += mc_kv_part_arrays(&pool->parts[c]);
    for (int g = 0; g < pool->n_groups; g++)
        written += (size_t)mc_kv_part_of(pool, g)->slots;
    pool->arrays = next = mc_calloc(3 * pool->n_arrays + 1, sizeof *next);
    pool->written = mc_calloc(written, sizeof *pool->written);
    if (!pool->arrays || !pool->written) return mc_fail_nomem("a pool of caches");
    for (int c = 0; c < pool->n_parts; c++) {
        mc_kv_part *part = &pool->parts[c];
        part->arrays = next;
        part->params = next + pool->n_arrays;
        part->next = next + 2 * pool->n_arrays;
        next += mc_kv_part_arrays(part);
    }
    bool *list = pool->written;
    for (int g = 0; g < pool->n_groups; g++) {
        pool->groups[g].written = list;
        list += mc_kv_part_of(pool, g)->slots;
    }
    return MICA_OK;
}

static mica_status open_arrays(mc_kv_pool *pool) {
    MC_TRY(open_lists(pool));
    MC_TRY(mica_scope_open(pool->device, &pool->scope));
    MC_TRY(mica_scope_open(pool->device, &pool->recording));
    for (int c = 0; c < pool->n_parts; c++)
        for (size_t i = 0; i < mc_kv_part_arrays(&pool->parts[c]); i++)
            pool->parts[c].arrays[i] = make_array(pool, &pool->parts[c]);
    MC_TRY(mica_scope_status(pool->scope));
    /* Once as after a pass: the scope then has room for what passes leave. */
    for (size_t i = 0; i < pool->n_arrays; i++)
        pool->arrays[i] = mica_materialize(pool->scope, pool->arrays[i]);
    MC_TRY(mica_scope_status(pool->scope));
    return mica_scope_collect(pool->scope, pool->arrays, pool->n_arrays);
}

mica_status mc_kv_pool_open(const mc_lm *lm, mica_device *device, const mc_kv_pool_options *options,
                            mc_kv_pool **out) {
    int64_t together = mc_max(1, device->backend->keys_together);
    int64_t block = options->block ? options->block : mc_round_up(BLOCK, together);
    *out = NULL;
    if (block < 1 || block > INT32_MAX / 2 || block % together != 0)
        return mc_fail(MICA_EINVAL, "a pool with blocks of %lld tokens: want a multiple of %lld",
                       (long long)block, (long long)together);
    if (options->keep && !mc_prefix_available())
        return mc_fail(MICA_EUNSUPPORTED, "mica was built without xxhash: no prefixes are kept");
    mc_kv_pool *pool = mc_calloc(1, sizeof *pool);
    if (!pool) return mc_fail_nomem("a pool of caches");
    pool->lm = lm;
    pool->device = device;
    pool->block = block;
    pool->context = options->context;
    pool->swap_limit = options->swap_bytes;
    pool->events = options->events;
    mica_status status = plan(pool, options->states);
    uint64_t beside = (uint64_t)options->sessions * bytes_beside(pool);
    int32_t snapshots = status == MICA_OK ? plan_snapshots(pool, options, beside) : 0;
    beside += (uint64_t)snapshots * pool->snapshots.bytes;
    if (status == MICA_OK && snapshots)
        status = mc_snapshots_init(&pool->snapshots, device, snapshots);
    if (status == MICA_OK) status = share_memory(pool, options->bytes, beside);
    if (status == MICA_OK) status = open_blocks(pool);
    if (status == MICA_OK) status = open_arrays(pool);
    if (status == MICA_OK)
        *out = pool;
    else
        mc_kv_pool_close(&pool);
    return status;
}

/* Tells pool->events that a prefix which was told of is gone. */
static void tell_removed(mc_kv_pool *pool, mc_prefix_entry *entry) {
    if (entry->told && pool->events.removed) pool->events.removed(pool->events.user, &entry->name);
    entry->told = false;
}

void mc_kv_pool_close(mc_kv_pool **out) {
    if (!out || !*out) return;
    mc_kv_pool *pool = *out;
    for (int32_t i = 0; pool->prefixes.entries && i < pool->prefixes.max; i++)
        tell_removed(pool, &pool->prefixes.entries[i]);
    mc_pass_close_all(pool->programs, MC_POOL_PROGRAMS);
    for (int c = 0; c < pool->n_parts; c++) {
        mica_program_close(&pool->parts[c].copy);
        mica_program_close(&pool->parts[c].write);
        mc_free(pool->parts[c].at);
    }
    mica_scope_close(&pool->recording);
    mica_scope_close(&pool->scope);
    mc_arena_deinit(&pool->arena);
    mc_free(pool->written);
    mc_free(pool->arrays);
    mc_free(pool->groups);
    mc_free(pool->parts);
    mc_prefixes_deinit(&pool->prefixes);
    mc_snapshots_deinit(&pool->snapshots);
    mc_free(pool->refs);
    mc_free(pool->owners);
    mc_free(pool->free_in);
    mc_state_plan_deinit(&pool->plan);
    mc_free(pool);
    *out = NULL;
}

/* ---- blocks ---- */

int64_t mc_kv_part_available(const mc_kv_part *part) {
    return part->n_free + part->idle;
}

int64_t mc_kv_pool_scaled(const mc_kv_pool *pool, const mc_kv_part *part, int64_t blocks) {
    return blocks * pool->blocks / (part->end - part->first);
}

/* Blocks of a part that are needed, as such of the pool. */
static int64_t scaled_up(const mc_kv_pool *pool, const mc_kv_part *part, int64_t blocks) {
    int64_t own = part->end - part->first;
    return (blocks * pool->blocks + own - 1) / own;
}

int64_t mc_kv_pool_available(const mc_kv_pool *pool) {
    int64_t least = pool->blocks;
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        least = mc_min(least, mc_kv_pool_scaled(pool, part, mc_kv_part_available(part)));
    }
    return least;
}

int64_t mc_kv_pool_needed(const mc_kv_pool *pool, int64_t tokens, int64_t chunk, int64_t spare) {
    int64_t most = 0;
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        int64_t blocks = blocks_with(pool, part, tokens, chunk, spare);
        most = mc_max(most, scaled_up(pool, part, blocks));
    }
    return most;
}

int64_t mc_kv_pool_more(const mc_kv_pool *pool, int64_t n) {
    int64_t most = 0;
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        most = mc_max(most, scaled_up(pool, part, n * part_blocks(pool, part, 1, 0)));
    }
    return most;
}

uint64_t mc_kv_pool_used_bytes(const mc_kv_pool *pool) {
    uint64_t bytes = 0;
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        int64_t used = part->end - part->first - mc_kv_part_available(part);
        bytes += (uint64_t)used * part->block_bytes;
    }
    return bytes;
}

uint64_t mc_kv_pool_kept_bytes(const mc_kv_pool *pool) {
    uint64_t bytes = (uint64_t)pool->snapshots.known.count * pool->snapshots.bytes;
    for (int c = 0; c < pool->n_parts; c++)
        bytes += (uint64_t)pool->parts[c].idle * pool->parts[c].block_bytes;
    return bytes;
}

static mc_kv_part *part_of(const mc_kv_pool *pool, int32_t id) {
    mc_kv_part *part = pool->parts;
    while (id >= part->end)
        part++;
    return part;
}

/* Whether only a prefix has a block, and nobody uses that. */
static bool is_idle(const mc_kv_pool *pool, int32_t id) {
    return pool->keeps && pool->refs[id] == 1 && pool->owners[id] >= 0 &&
           pool->prefixes.entries[pool->owners[id]].pins == 0;
}

void mc_pool_retain(mc_kv_pool *pool, int32_t id) {
    part_of(pool, id)->idle -= is_idle(pool, id);
    pool->refs[id]++;
}

void mc_pool_release(mc_kv_pool *pool, int32_t id) {
    mc_kv_part *part = part_of(pool, id);
    if (--pool->refs[id]) {
        part->idle += is_idle(pool, id);
        return;
    }
    pool->free_in[extent_of(id)]++;
    part->n_free++;
}

/* ---- prefixes ---- */

/* Counts the blocks of a prefix that are idle once more in their parts, or once less. */
static void count_idle(mc_kv_pool *pool, int32_t prefix, int sign) {
    for (int g = 0; g < pool->n_groups; g++) {
        int32_t id = mc_prefix_blocks(&pool->prefixes, prefix)[g];
        if (id >= 0 && is_idle(pool, id)) mc_kv_part_of(pool, g)->idle += sign;
    }
}

void mc_pool_pin(mc_kv_pool *pool, int32_t prefix) {
    count_idle(pool, prefix, -1);
    mc_prefix_pin(&pool->prefixes, prefix);
}

void mc_pool_unpin(mc_kv_pool *pool, int32_t prefix) {
    mc_prefix_unpin(&pool->prefixes, prefix);
    if (pool->prefixes.entries[prefix].pins == 0) count_idle(pool, prefix, 1);
}

void mc_pool_name(mc_kv_pool *pool, int32_t prefix, int group, int32_t id) {
    mc_prefix_blocks(&pool->prefixes, prefix)[group] = id;
    pool->owners[id] = prefix;
    mc_pool_retain(pool, id);
}

void mc_pool_tell(mc_kv_pool *pool, int32_t prefix, int32_t before, mc_prefix_hash seed,
                  const int32_t *ids) {
    mc_prefix_entry *entry = &pool->prefixes.entries[prefix];
    const mc_prefix_entry *previous = before < 0 ? NULL : &pool->prefixes.entries[before];
    if (!pool->events.stored || entry->told || (previous && !previous->told)) return;
    entry->told = true;
    pool->events.stored(pool->events.user, seed, previous ? &previous->name : NULL, ids,
                        pool->block, &entry->name);
}

/* Drops the prefix used longest ago, with its blocks. false: there is none that nobody uses. */
static bool forget_oldest(mc_kv_pool *pool) {
    int32_t prefix = pool->keeps ? pool->prefixes.oldest : -1;
    if (prefix < 0) return false;
    count_idle(pool, prefix, -1);
    tell_removed(pool, &pool->prefixes.entries[prefix]);
    (void)mc_prefix_drop_oldest(&pool->prefixes);
    for (int g = 0; g < pool->n_groups; g++) {
        int32_t id = mc_prefix_blocks(&pool->prefixes, prefix)[g];
        if (id < 0) continue;
        pool->owners[id] = -1;
        mc_pool_release(pool, id);
    }
    return true;
}

int32_t mc_pool_add_prefix(mc_kv_pool *pool, mc_prefix_hash hash) {
    int32_t prefix = mc_prefix_add(&pool->prefixes, hash);
    if (prefix < 0 && forget_oldest(pool)) prefix = mc_prefix_add(&pool->prefixes, hash);
    return prefix;
}

/* ---- taking blocks ---- */

/* The next extent of a part whose blocks are all free, or else one with as many as any; some block
 * is. */
static int32_t find_extent(const mc_kv_pool *pool, mc_kv_part *part) {
    int32_t first = extent_of(part->first), n = extent_of(part->end - 1) + 1 - first;
    int32_t best = first;
    for (int32_t i = 0; i < n; i++) {
        int32_t extent = first + (part->cursor - first + i) % n;
        if (pool->free_in[extent] == extent_size(part, extent)) {
            part->cursor = extent + 1;
            return extent;
        }
        if (pool->free_in[extent] > pool->free_in[best]) best = extent;
    }
    return best;
}

mica_status mc_pool_take(mc_kv_pool *pool, int group, int32_t after, int32_t *id) {
    mc_kv_part *part = mc_kv_part_of(pool, group);
    while (!part->n_free && forget_oldest(pool))
        ;
    if (!part->n_free)
        return mc_fail(MICA_ENOMEM, "all %lld blocks of the KV pool, of %lld tokens, are in use",
                       (long long)(part->end - part->first), (long long)pool->block);
    int32_t found = after + 1;
    if (after < 0 || found >= part->end || pool->refs[found])
        for (found = find_extent(pool, part) * MC_POOL_EXTENT; pool->refs[found];)
            found++;
    pool->free_in[extent_of(found)]--;
    part->n_free--;
    pool->refs[found] = 1;
    *id = found;
    return MICA_OK;
}

/* ---- arrays ---- */

/* Moves arrays to the pool's scope, which has room for them. */
static mica_status move_arrays(const mc_kv_pool *pool, mica_array *arrays,
                               const mica_array *results, size_t n) {
    for (size_t i = 0; i < n; i++)
        arrays[i] = mica_materialize(pool->scope, results[i]);
    return mica_scope_status(pool->scope);
}

static mica_status drop_old_arrays(mc_kv_pool *pool) {
    return mica_scope_collect(pool->scope, pool->arrays, pool->n_arrays);
}

mica_status mc_pool_set_arrays(mc_kv_pool *pool, mc_kv_part *part, const mica_array *results) {
    MC_TRY(move_arrays(pool, part->arrays, results, mc_kv_part_arrays(part)));
    return part == &pool->parts[pool->n_parts - 1] ? drop_old_arrays(pool) : MICA_OK;
}

mica_array mc_pool_param(const mc_kv_pool *pool, const mc_kv_part *part, mica_scope *s) {
    int64_t shape[4];
    shape_of(pool, part, shape);
    mc_scope_set_fallback(s, part->shape.fallback);
    mica_array param = mica_program_param(s, pool->lm->kv_dtype, shape, 4);
    mc_scope_set_fallback(s, false);
    return param;
}

/* Builds a program over n arrays, then two parameters more. */
static mica_status build(mc_kv_pool *pool, const mica_array *arrays, const mica_array *results,
                         size_t n, const mica_array *more, mica_program **program) {
    mc_arena_reset(&pool->arena);
    mica_param *params = mc_arena_calloc(&pool->arena, (n + 2) * sizeof *params);
    if (!params) return mc_fail_nomem("a pool of caches");
    for (size_t i = 0; i < n; i++)
        params[i] = (mica_param){.array = arrays[i], .donate = true};
    for (size_t i = 0; i < 2; i++)
        params[n + i] = (mica_param){.array = more[i]};
    MC_TRY(mica_scope_status(pool->recording));
    return mica_program_build(pool->recording, params, n + 2, results, n, NULL, program);
}

/* Runs such a program over n of the pool's arrays. They stay where it fails. */
static mica_status run_program(mc_kv_pool *pool, const mica_program *program, mica_array *arrays,
                               size_t n, const mica_array *more) {
    size_t bytes = n * sizeof(mica_array);
    mc_arena_reset(&pool->arena);
    mica_array *results = mc_arena_alloc(&pool->arena, bytes);
    mica_array *args = mc_arena_alloc(&pool->arena, bytes + 2 * sizeof *args);
    if (!results || !args) return mc_fail_nomem("a pool of caches");
    MC_TRY(mica_scope_status(pool->recording));
    memcpy(args, arrays, bytes);
    memcpy(args + n, more, 2 * sizeof *args);
    MC_TRY(mc_program_run_kept(program, pool->recording, args, results));
    MC_TRY(move_arrays(pool, arrays, results, n));
    return drop_old_arrays(pool);
}

/* The slots of entries [0, count) of the blocks: i32 [1, count]. */
static mica_array slots_of(const mc_kv_pool *pool, const mc_kv_part *part, const int32_t *ids,
                           int64_t count) {
    const int64_t shape[] = {1, count};
    int32_t *slots = mc_array_alloc((size_t)count, sizeof *slots);
    if (!slots) return mc_scope_fail(pool->recording, MICA_ENOMEM, "no memory for a KV pool");
    for (int64_t i = 0; i < count; i++)
        slots[i] = (int32_t)((ids[i / pool->block] - part->first) * pool->block + i % pool->block);
    mica_array array = mica_from_data(pool->recording, slots, MICA_I32, shape, 2);
    mc_free(slots);
    return array;
}

/* The numbers of blocks within their part: i32 [n]. */
static mica_array numbers_of(const mc_kv_part *part, mica_scope *s, const int32_t *ids, int64_t n) {
    mica_array all = mica_from_data(s, ids, MICA_I32, &n, 1);
    return part->first ? mica_subtract(s, all, mica_i32(s, part->first)) : all;
}

/* Builds the copy of a block in all arrays of a part: parameters the block i32 [1] and the slots
 * to write to i32 [1, block]. */
static mica_status build_copy(mc_kv_pool *pool, mc_kv_part *part) {
    mica_scope *s = pool->recording;
    const int64_t shape[] = {1, pool->block};
    const mica_array more[] = {mica_program_param(s, MICA_I32, shape, 1),
                               mica_program_param(s, MICA_I32, shape, 2)};
    for (size_t i = 0; i < mc_kv_part_arrays(part); i++) {
        mica_array x = part->params[i] = mc_pool_param(pool, part, s);
        mica_array from = mica_swapaxes(s, mica_take(s, x, more[0], 1), 0, 1);
        part->next[i] = mica_kv_write(s, x, from, more[1]);
    }
    mica_status status =
        build(pool, part->params, part->next, mc_kv_part_arrays(part), more, &part->copy);
    mc_scope_reset(s);
    return status;
}

static mica_status copy_block(mc_kv_pool *pool, mc_kv_part *part, int32_t from, int32_t to) {
    const int64_t one = 1;
    const int32_t number = from - part->first;
    if (!part->here) return MICA_OK;
    if (!part->copy) MC_TRY(build_copy(pool, part));
    const mica_array more[] = {mica_from_data(pool->recording, &number, MICA_I32, &one, 1),
                               slots_of(pool, part, &to, pool->block)};
    mica_status status = run_program(pool, part->copy, part->arrays, mc_kv_part_arrays(part), more);
    mc_scope_reset(pool->recording);
    return status;
}

mica_status mc_pool_own(mc_kv_pool *pool, int group, int32_t *id) {
    int32_t from = *id, to;
    MC_TRY(mc_pool_take(pool, group, -1, &to));
    mica_status status = copy_block(pool, mc_kv_part_of(pool, group), from, to);
    if (status == MICA_OK) *id = to;
    mc_pool_release(pool, status == MICA_OK ? from : to);
    return status;
}

mica_array mc_pool_entries(const mc_kv_part *part, mica_scope *s, int i, const int32_t *ids,
                           int64_t n) {
    mica_array x = mica_take(s, part->arrays[i], numbers_of(part, s, ids, n), 1);
    return mica_expand_dims(s, mica_flatten(s, x, 1, 2), 0);
}

/* Builds the writing of entries into an array: parameters the entries and their slots. */
static mica_status build_write(mc_kv_pool *pool, mc_kv_part *part, const int64_t shape[4]) {
    const int64_t row[] = {1, shape[2]};
    mica_scope *s = pool->recording;
    const mica_array params[] = {mica_program_param(s, pool->lm->kv_dtype, shape, 4),
                                 mica_program_param(s, MICA_I32, row, 2)};
    mica_array x = mc_pool_param(pool, part, s), y = mica_kv_write(s, x, params[0], params[1]);
    mica_status status = build(pool, &x, &y, 1, params, &part->write);
    part->written = shape[2];
    mc_scope_reset(s);
    return status;
}

mica_status mc_pool_write(mc_kv_pool *pool, mc_kv_part *part, int i, const int32_t *ids,
                          int64_t count, const void *data) {
    const int64_t shape[] = {1, part->shape.heads, count, part->shape.width};
    mica_scope *s = pool->recording;
    if (part->written != count) mica_program_close(&part->write);
    if (!part->write) MC_TRY(build_write(pool, part, shape));
    const mica_array args[] = {mica_from_data(s, data, pool->lm->kv_dtype, shape, 4),
                               slots_of(pool, part, ids, count)};
    mica_status status = run_program(pool, part->write, &part->arrays[i], 1, args);
    mc_scope_reset(s);
    return status;
}

void mc_pool_end_writes(mc_kv_pool *pool) {
    for (int c = 0; c < pool->n_parts; c++)
        mica_program_close(&pool->parts[c].write);
}

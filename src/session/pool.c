#include "session/pool.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"
#include "exec/program.h"

#include <mica/ops.h>

#include <string.h>

enum { BLOCK = 64 };

/* ---- the layout ---- */

static mica_status plan(mc_kv_pool *pool, const mc_layer_state *states, bool keep) {
    const mc_lm *lm = pool->lm;
    MC_TRY(mc_state_plan_init(&pool->plan, lm, states, pool->context, 0, pool->block));
    pool->groups = pool->plan.together;
    pool->keeps = keep && pool->plan.together == pool->plan.n;
    if (!pool->groups) return mc_fail(MICA_EINVAL, "a pool for a model without keys and values");
    pool->slots = pool->plan.states[0].slots;
    for (int g = 0; g < pool->groups; g++) {
        bool windows = pool->plan.states[g].span.window > 0;
        pool->has_windows = pool->has_windows || windows;
        pool->has_full = pool->has_full || !windows;
    }
    pool->block_bytes =
        2 * (uint64_t)pool->slots * (uint64_t)pool->block * (uint64_t)mc_entry_bytes(lm);
    return MICA_OK;
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

/* An array of the pool. Where no kernel reads what was not written it is not touched: a pool then
 * takes the memory that it uses. */
static mica_array make_array(mc_kv_pool *pool) {
    const mc_lm *lm = pool->lm;
    const int64_t shape[] = {lm->spec.kv_heads, pool->blocks, pool->block, mc_lm_kv_width(lm)};
    mica_scope *s = pool->scope;
    mc_storage *storage = NULL;
    if (!pool->device->backend->skips_unwritten) {
        mica_array zeros = mica_contiguous(s, mica_zeros(s, shape, 4, lm->kv_dtype));
        mc_scope_set_status(s, mica_eval(s, zeros));
        return zeros;
    }
    mc_layout layout = {.dtype = lm->kv_dtype, .ndim = 4};
    memcpy(layout.shape, shape, sizeof shape);
    mc_layout_set_dense(&layout);
    mica_status status = mc_storage_new(pool->device, (size_t)mc_layout_bytes(&layout), &storage);
    if (status != MICA_OK) return mc_scope_fail(s, status, "%s", mica_last_error());
    return mc_leaf(s, &layout, storage, 0);
}

static int32_t extent_of(int32_t id) {
    return id / MC_POOL_EXTENT;
}

static int32_t extent_size(const mc_kv_pool *pool, int32_t extent) {
    return (int32_t)mc_min(MC_POOL_EXTENT, pool->blocks - extent * MC_POOL_EXTENT);
}

/* beside: bytes of the limit that blocks do not get. */
static mica_status open_blocks(mc_kv_pool *pool, uint64_t limit_bytes, uint64_t beside) {
    uint64_t bytes = limit_bytes > beside ? limit_bytes - beside : 0;
    uint64_t limit = (uint64_t)INT32_MAX / (uint64_t)pool->block; /* slots are i32 */
    uint64_t blocks = bytes / pool->block_bytes < limit ? bytes / pool->block_bytes : limit;
    if (blocks < (uint64_t)pool->groups)
        return mc_fail(MICA_EINVAL,
                       "a pool of caches of %llu bytes: %lld tokens take %llu at least, and what "
                       "sessions carry beside them %llu",
                       (unsigned long long)limit_bytes, (long long)pool->block,
                       (unsigned long long)(pool->block_bytes * (uint64_t)pool->groups),
                       (unsigned long long)beside);
    pool->blocks = (int32_t)blocks;
    pool->n_free = pool->blocks;
    int32_t extents = extent_of(pool->blocks - 1) + 1;
    pool->refs = mc_calloc((size_t)blocks, sizeof *pool->refs);
    pool->free_in = mc_calloc((size_t)extents, sizeof *pool->free_in);
    if (!pool->refs || !pool->free_in) return mc_fail_nomem("a pool of caches");
    for (int32_t i = 0; i < extents; i++)
        pool->free_in[i] = extent_size(pool, i);
    if (!pool->keeps) return MICA_OK;
    pool->owners = mc_array_alloc((size_t)blocks, sizeof *pool->owners);
    if (!pool->owners) return mc_fail_nomem("a pool of caches");
    for (int32_t i = 0; i < pool->blocks; i++)
        pool->owners[i] = -1;
    return mc_prefixes_init(&pool->prefixes, pool->blocks, pool->groups);
}

static mica_status open_arrays(mc_kv_pool *pool) {
    size_t arrays = 2 * (size_t)pool->slots, groups = (size_t)pool->groups;
    pool->arrays = mc_calloc(arrays, sizeof *pool->arrays);
    pool->pass.params = mc_calloc(2 * arrays + 3 * groups, sizeof *pool->pass.params);
    pool->pass.lengths = mc_calloc(groups, sizeof *pool->pass.lengths);
    pool->pass.written = mc_calloc(groups * (size_t)pool->slots, sizeof *pool->pass.written);
    if (!pool->arrays || !pool->pass.params || !pool->pass.lengths || !pool->pass.written)
        return mc_fail_nomem("a pool of caches");
    pool->pass.next = pool->pass.params + arrays;
    pool->pass.tables = pool->pass.next + arrays;
    pool->pass.slots = pool->pass.tables + groups;
    pool->pass.start = pool->pass.slots + groups;
    MC_TRY(mica_scope_open(pool->device, &pool->scope));
    MC_TRY(mica_scope_open(pool->device, &pool->recording));
    for (size_t i = 0; i < arrays; i++)
        pool->arrays[i] = make_array(pool);
    MC_TRY(mica_scope_status(pool->scope));
    /* Once as after a pass: the scope then has room for what passes leave. */
    for (size_t i = 0; i < arrays; i++)
        pool->arrays[i] = mica_materialize(pool->scope, pool->arrays[i]);
    MC_TRY(mica_scope_status(pool->scope));
    return mica_scope_collect(pool->scope, pool->arrays, arrays);
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
    mica_status status = plan(pool, options->states, options->keep);
    uint64_t beside = (uint64_t)options->sessions * bytes_beside(pool);
    if (status == MICA_OK) status = open_blocks(pool, options->bytes, beside);
    if (status == MICA_OK) status = open_arrays(pool);
    if (status == MICA_OK)
        *out = pool;
    else
        mc_kv_pool_close(&pool);
    return status;
}

void mc_kv_pool_close(mc_kv_pool **out) {
    if (!out || !*out) return;
    mc_kv_pool *pool = *out;
    mc_pass_close_all(pool->programs, MC_POOL_PROGRAMS);
    mica_program_close(&pool->copy);
    mica_program_close(&pool->write);
    mica_scope_close(&pool->recording);
    mica_scope_close(&pool->scope);
    mc_arena_deinit(&pool->arena);
    mc_free(pool->pass.params);
    mc_free(pool->pass.lengths);
    mc_free(pool->pass.written);
    mc_free(pool->arrays);
    mc_prefixes_deinit(&pool->prefixes);
    mc_free(pool->refs);
    mc_free(pool->owners);
    mc_free(pool->free_in);
    mc_state_plan_deinit(&pool->plan);
    mc_free(pool);
    *out = NULL;
}

/* ---- blocks ---- */

int64_t mc_kv_pool_available(const mc_kv_pool *pool) {
    return pool->n_free + pool->idle;
}

int64_t mc_kv_pool_needed(const mc_kv_pool *pool, int64_t tokens, int64_t chunk) {
    int64_t blocks = 0;
    for (int g = 0; g < pool->groups; g++) {
        const mc_entry_span *span = &pool->plan.states[g].span;
        int64_t entries = tokens;
        if (span->window)
            entries = mc_min(entries, span->head + mc_entry_span_kept(span, pool->block) +
                                          pool->block - 1 + chunk);
        blocks += (entries + pool->block - 1) / pool->block;
    }
    return blocks;
}

/* Whether only a prefix has a block, and nobody uses that. */
static bool is_idle(const mc_kv_pool *pool, int32_t id) {
    return pool->keeps && pool->refs[id] == 1 && pool->owners[id] >= 0 &&
           pool->prefixes.entries[pool->owners[id]].pins == 0;
}

void mc_pool_retain(mc_kv_pool *pool, int32_t id) {
    pool->idle -= is_idle(pool, id);
    pool->refs[id]++;
}

void mc_pool_release(mc_kv_pool *pool, int32_t id) {
    if (--pool->refs[id]) {
        pool->idle += is_idle(pool, id);
        return;
    }
    pool->free_in[extent_of(id)]++;
    pool->n_free++;
}

/* ---- prefixes ---- */

static int64_t count_idle(const mc_kv_pool *pool, int32_t prefix) {
    int64_t n = 0;
    for (int g = 0; g < pool->groups; g++) {
        int32_t id = mc_prefix_blocks(&pool->prefixes, prefix)[g];
        n += id >= 0 && is_idle(pool, id);
    }
    return n;
}

void mc_pool_pin(mc_kv_pool *pool, int32_t prefix) {
    pool->idle -= count_idle(pool, prefix);
    mc_prefix_pin(&pool->prefixes, prefix);
}

void mc_pool_unpin(mc_kv_pool *pool, int32_t prefix) {
    mc_prefix_unpin(&pool->prefixes, prefix);
    if (pool->prefixes.entries[prefix].pins == 0) pool->idle += count_idle(pool, prefix);
}

void mc_pool_name(mc_kv_pool *pool, int32_t prefix, int group, int32_t id) {
    mc_prefix_blocks(&pool->prefixes, prefix)[group] = id;
    pool->owners[id] = prefix;
    mc_pool_retain(pool, id);
}

/* Drops the prefix used longest ago, with its blocks. false: there is none that nobody uses. */
static bool forget_oldest(mc_kv_pool *pool) {
    int32_t prefix = pool->keeps ? pool->prefixes.oldest : -1;
    if (prefix < 0) return false;
    pool->idle -= count_idle(pool, prefix);
    (void)mc_prefix_drop_oldest(&pool->prefixes);
    for (int g = 0; g < pool->groups; g++) {
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

/* The next extent whose blocks are all free, or else one with as many as any; some block is. */
static int32_t find_extent(mc_kv_pool *pool) {
    int32_t n = extent_of(pool->blocks - 1) + 1, best = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t extent = (pool->cursor + i) % n;
        if (pool->free_in[extent] == extent_size(pool, extent)) {
            pool->cursor = extent + 1;
            return extent;
        }
        if (pool->free_in[extent] > pool->free_in[best]) best = extent;
    }
    return best;
}

mica_status mc_pool_take(mc_kv_pool *pool, int32_t after, int32_t *id) {
    while (!pool->n_free && forget_oldest(pool))
        ;
    if (!pool->n_free)
        return mc_fail(MICA_ENOMEM, "all %lld blocks of the KV pool, of %lld tokens, are in use",
                       (long long)pool->blocks, (long long)pool->block);
    int32_t found = after + 1;
    if (after < 0 || found >= pool->blocks || pool->refs[found])
        for (found = find_extent(pool) * MC_POOL_EXTENT; pool->refs[found];)
            found++;
    pool->free_in[extent_of(found)]--;
    pool->n_free--;
    pool->refs[found] = 1;
    *id = found;
    return MICA_OK;
}

/* ---- arrays ---- */

/* Moves arrays to the pool's scope, which has room for them. */
static mica_status set_arrays(mc_kv_pool *pool, mica_array *arrays, const mica_array *results,
                              size_t n) {
    for (size_t i = 0; i < n; i++)
        arrays[i] = mica_materialize(pool->scope, results[i]);
    MC_TRY(mica_scope_status(pool->scope));
    return mica_scope_collect(pool->scope, pool->arrays, 2 * (size_t)pool->slots);
}

mica_status mc_pool_set_arrays(mc_kv_pool *pool, const mica_array *results) {
    return set_arrays(pool, pool->arrays, results, 2 * (size_t)pool->slots);
}

static mica_array array_param(const mc_kv_pool *pool, mica_scope *s) {
    const mc_lm *lm = pool->lm;
    const int64_t shape[] = {lm->spec.kv_heads, pool->blocks, pool->block, mc_lm_kv_width(lm)};
    return mica_program_param(s, lm->kv_dtype, shape, 4);
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
static mica_status run(mc_kv_pool *pool, const mica_program *program, mica_array *arrays, size_t n,
                       const mica_array *more) {
    size_t bytes = n * sizeof(mica_array);
    mc_arena_reset(&pool->arena);
    mica_array *results = mc_arena_alloc(&pool->arena, bytes);
    mica_array *args = mc_arena_alloc(&pool->arena, bytes + 2 * sizeof *args);
    if (!results || !args) return mc_fail_nomem("a pool of caches");
    MC_TRY(mica_scope_status(pool->recording));
    memcpy(args, arrays, bytes);
    memcpy(args + n, more, 2 * sizeof *args);
    MC_TRY(mc_program_run_kept(program, pool->recording, args, results));
    return set_arrays(pool, arrays, results, n);
}

/* The slots of entries [0, count) of the blocks: i32 [count / n, n]. */
static mica_array slots_of(const mc_kv_pool *pool, const int32_t *ids, int64_t count, int64_t n) {
    const int64_t shape[] = {count / n, n};
    int32_t *slots = mc_array_alloc((size_t)count, sizeof *slots);
    if (!slots) return mc_scope_fail(pool->recording, MICA_ENOMEM, "no memory for a KV pool");
    for (int64_t i = 0; i < count; i++)
        slots[i] = (int32_t)(ids[i / pool->block] * pool->block + i % pool->block);
    mica_array array = mica_from_data(pool->recording, slots, MICA_I32, shape, 2);
    mc_free(slots);
    return array;
}

/* Builds the copies of n blocks in all arrays: parameters the blocks i32 [n] and the slots to write
 * to i32 [n, block]. */
static mica_status build_copy(mc_kv_pool *pool, int64_t n) {
    mica_scope *s = pool->recording;
    size_t arrays = 2 * (size_t)pool->slots;
    const int64_t shape[] = {n, pool->block};
    const mica_array more[] = {mica_program_param(s, MICA_I32, shape, 1),
                               mica_program_param(s, MICA_I32, shape, 2)};
    for (size_t i = 0; i < arrays; i++) {
        mica_array x = pool->pass.params[i] = array_param(pool, s);
        mica_array from = mica_swapaxes(s, mica_take(s, x, more[0], 1), 0, 1);
        pool->pass.next[i] = mica_kv_write(s, x, from, more[1]);
    }
    mica_status status = build(pool, pool->pass.params, pool->pass.next, arrays, more, &pool->copy);
    pool->copied = n;
    mc_scope_reset(s);
    return status;
}

/* Copies blocks from [n] to others. */
static mica_status copy_blocks(mc_kv_pool *pool, const int32_t *from, const int32_t *to,
                               int64_t n) {
    if (pool->copied != n) mica_program_close(&pool->copy);
    if (!pool->copy) MC_TRY(build_copy(pool, n));
    const mica_array more[] = {mica_from_data(pool->recording, from, MICA_I32, &n, 1),
                               slots_of(pool, to, n * pool->block, pool->block)};
    mica_status status = run(pool, pool->copy, pool->arrays, 2 * (size_t)pool->slots, more);
    mc_scope_reset(pool->recording);
    return status;
}

mica_status mc_pool_own(mc_kv_pool *pool, int32_t *const *ids, size_t n) {
    int32_t *from = mc_array_alloc(2 * n, sizeof *from), *to = from ? from + n : NULL;
    size_t shared = 0, taken = 0;
    mica_status status = from ? MICA_OK : mc_fail_nomem("a pool of caches");
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        if (pool->refs[*ids[i]] > 1) from[shared++] = *ids[i];
    for (; taken < shared && status == MICA_OK; taken += status == MICA_OK)
        status = mc_pool_take(pool, -1, &to[taken]);
    if (status == MICA_OK && shared) status = copy_blocks(pool, from, to, (int64_t)shared);
    for (size_t i = 0; i < taken && status != MICA_OK; i++)
        mc_pool_release(pool, to[i]);
    for (size_t i = 0, k = 0; i < n && status == MICA_OK; i++) {
        if (k == shared || *ids[i] != from[k]) continue;
        *ids[i] = to[k];
        mc_pool_release(pool, from[k++]);
    }
    mc_free(from);
    return status;
}

mica_array mc_pool_entries(mc_kv_pool *pool, mica_scope *s, int slot, int which, const int32_t *ids,
                           int64_t n) {
    mica_array table = mica_from_data(s, ids, MICA_I32, &n, 1);
    mica_array x = mica_take(s, pool->arrays[2 * slot + which], table, 1);
    return mica_expand_dims(s, mica_flatten(s, x, 1, 2), 0);
}

/* Builds the writing of entries into an array: parameters the entries and their slots. */
static mica_status build_write(mc_kv_pool *pool, const int64_t shape[4]) {
    const int64_t row[] = {1, shape[2]};
    mica_scope *s = pool->recording;
    const mica_array params[] = {mica_program_param(s, pool->lm->kv_dtype, shape, 4),
                                 mica_program_param(s, MICA_I32, row, 2)};
    mica_array x = array_param(pool, s), y = mica_kv_write(s, x, params[0], params[1]);
    mica_status status = build(pool, &x, &y, 1, params, &pool->write);
    pool->written = shape[2];
    mc_scope_reset(s);
    return status;
}

mica_status mc_pool_write(mc_kv_pool *pool, int slot, int which, const int32_t *ids, int64_t count,
                          const void *data) {
    const mc_lm *lm = pool->lm;
    const int64_t shape[] = {1, lm->spec.kv_heads, count, mc_lm_kv_width(lm)};
    mica_scope *s = pool->recording;
    if (pool->written != count) mica_program_close(&pool->write);
    if (!pool->write) MC_TRY(build_write(pool, shape));
    const mica_array args[] = {mica_from_data(s, data, lm->kv_dtype, shape, 4),
                               slots_of(pool, ids, count, count)};
    mica_status status = run(pool, pool->write, &pool->arrays[2 * slot + which], 1, args);
    mc_scope_reset(s);
    return status;
}

void mc_pool_end_writes(mc_kv_pool *pool) {
    mica_program_close(&pool->write);
}

#include "session/paged.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "base/map.h"
#include "device/device.h"

#include <mica/ops.h>

#include <string.h>

enum { MIN_BLOCKS = 4 }; /* of a table that passes get */

static mc_cache_layer *leader(const mc_paged *cache, int group) {
    return &cache->layers[cache->pool->leaders[group]];
}

static int64_t blocks_of(const mc_kv_pool *pool, int64_t entries) {
    return (entries + pool->block - 1) / pool->block;
}

mica_status mc_paged_init(mc_paged *cache, mc_kv_pool *pool, mc_cache_layer *layers,
                          int64_t context, int64_t chunk) {
    if (pool->context != context)
        return mc_fail(MICA_EINVAL, "a session with another context than its pool");
    cache->tables = mc_calloc((size_t)pool->groups, sizeof *cache->tables);
    if (!cache->tables) return mc_fail_nomem("a session's caches");
    cache->pool = pool;
    cache->layers = layers;
    cache->chunk = chunk;
    mc_trail_init(&cache->trail, pool, cache->tables, layers);
    return MICA_OK;
}

/* Gives the blocks of a table from `from` on back. */
static void cut_table(mc_kv_pool *pool, mc_kv_table *table, int64_t from) {
    while (table->n > from)
        mc_pool_release(pool, table->ids[--table->n]);
}

void mc_paged_clear(mc_paged *cache) {
    mc_trail_leave(&cache->trail);
    for (int g = 0; g < cache->pool->groups; g++)
        cut_table(cache->pool, &cache->tables[g], 0);
}

void mc_paged_deinit(mc_paged *cache) {
    mc_paged_clear(cache);
    mc_trail_deinit(&cache->trail);
    for (int g = 0; g < cache->pool->groups; g++)
        mc_free(cache->tables[g].ids);
    mc_free(cache->tables);
}

void mc_paged_cut(mc_paged *cache, int64_t to) {
    mc_trail_cut(&cache->trail, to);
    for (int g = 0; g < cache->pool->groups; g++)
        cut_table(cache->pool, &cache->tables[g], blocks_of(cache->pool, leader(cache, g)->count));
}

/* ---- growing ---- */

/* How many entries behind the head a group's layers do not need any more, in whole blocks. */
static int64_t unseen(const mc_paged *cache, int group) {
    const mc_cache_layer *layer = leader(cache, group);
    int64_t block = cache->pool->block;
    if (!layer->window) return 0;
    int64_t rest = layer->count - layer->head - mc_cache_kept(layer, block);
    return rest > 0 ? rest / block * block : 0;
}

/* Whether the block that the next entry goes to has entries, and is in other tables, too. */
static bool is_shared(const mc_paged *cache, int group) {
    int64_t count = leader(cache, group)->count, block = cache->pool->block;
    return count % block != 0 && cache->pool->refs[cache->tables[group].ids[count / block]] > 1;
}

/* The first block behind the head. */
static int32_t *behind_head(const mc_paged *cache, int group) {
    return cache->tables[group].ids + leader(cache, group)->head / cache->pool->block;
}

int64_t mc_paged_blocks(const mc_paged *cache) {
    int64_t blocks = 0;
    for (int g = 0; g < cache->pool->groups; g++)
        blocks += cache->tables[g].n;
    return blocks;
}

int64_t mc_paged_needed(const mc_paged *cache, int64_t n) {
    int64_t needed = 0;
    for (int g = 0; g < cache->pool->groups; g++) {
        int64_t drop = unseen(cache, g), dropped = drop / cache->pool->block;
        int64_t have = cache->tables[g].n - dropped;
        needed += mc_max(0, blocks_of(cache->pool, leader(cache, g)->count - drop + n) - have);
        needed += is_shared(cache, g);
        for (int64_t i = 0; i < dropped; i++)
            needed -= cache->pool->refs[behind_head(cache, g)[i]] == 1;
    }
    return needed;
}

static void drop_unseen(mc_paged *cache, int group) {
    mc_kv_table *table = &cache->tables[group];
    int64_t drop = unseen(cache, group), block = cache->pool->block, n = drop / block;
    if (!drop) return;
    int32_t *first = behind_head(cache, group);
    for (int64_t i = 0; i < n; i++)
        mc_pool_release(cache->pool, first[i]);
    table->n -= n;
    memmove(first, first + n, (size_t)(table->ids + table->n - first) * sizeof *first);
    for (int i = 0; i < cache->pool->lm->spec.n_layers; i++)
        if (cache->pool->places[i].group == group) cache->layers[i].count -= drop;
}

/* Makes the blocks that the next entries go to the cache's own. */
static mica_status own_last(mc_paged *cache) {
    int groups = cache->pool->groups, n = 0;
    bool any = false;
    for (int g = 0; g < groups; g++)
        any = any || is_shared(cache, g);
    if (!any) return MICA_OK;
    int32_t **last = mc_array_alloc((size_t)groups, sizeof *last);
    if (!last) return mc_fail_nomem("a session's caches");
    for (int g = 0; g < groups; g++)
        if (is_shared(cache, g))
            last[n++] = &cache->tables[g].ids[leader(cache, g)->count / cache->pool->block];
    mica_status status = mc_pool_own(cache->pool, last, (size_t)n);
    mc_free(last);
    return status;
}

/* Takes blocks until the table has n; after an error it is as before. */
static mica_status grow_table(mc_kv_pool *pool, mc_kv_table *table, int64_t n) {
    int64_t had = table->n;
    MC_TRY(mc_kv_table_reserve(table, n));
    while (table->n < n) {
        int32_t last = table->n ? table->ids[table->n - 1] : -1;
        mica_status status = mc_pool_take(pool, last, &table->ids[table->n]);
        if (status != MICA_OK) {
            cut_table(pool, table, had);
            return status;
        }
        table->n++;
    }
    return MICA_OK;
}

/* Sets the length of the tables that passes get, for `later` tokens to come. */
static void choose_length(mc_paged *cache, int group, int64_t later) {
    const mc_cache_layer *layer = leader(cache, group);
    int64_t block = cache->pool->block, entries = layer->count + later, blocks = MIN_BLOCKS;
    if (layer->window)
        entries = mc_min(entries, layer->head + mc_cache_kept(layer, block) + block + cache->chunk);
    int64_t wanted = mc_max(cache->tables[group].n, blocks_of(cache->pool, entries));
    while (blocks < wanted)
        blocks *= 2;
    for (int i = 0; i < cache->pool->lm->spec.n_layers; i++)
        if (cache->pool->places[i].group == group)
            cache->layers[i].cap = mc_max(cache->layers[i].cap, blocks * block);
}

mica_status mc_paged_reserve(mc_paged *cache, int64_t n, int64_t later) {
    for (int g = 0; g < cache->pool->groups; g++)
        drop_unseen(cache, g);
    MC_TRY(own_last(cache));
    for (int g = 0; g < cache->pool->groups; g++) {
        int64_t blocks = blocks_of(cache->pool, leader(cache, g)->count + n);
        MC_TRY(grow_table(cache->pool, &cache->tables[g], blocks));
        choose_length(cache, g, later);
    }
    return mc_trail_reserve(&cache->trail, n);
}

mica_status mc_paged_fork(const mc_paged *from, mc_paged *to) {
    mica_status status = mc_trail_copy(&from->trail, &to->trail);
    for (int g = 0; g < from->pool->groups && status == MICA_OK; g++) {
        mc_kv_table *table = &to->tables[g];
        int64_t n = blocks_of(from->pool, leader(from, g)->count);
        status = mc_kv_table_reserve(table, n);
        for (int64_t i = 0; i < n && status == MICA_OK; i++) {
            table->ids[table->n++] = from->tables[g].ids[i];
            mc_pool_retain(from->pool, from->tables[g].ids[i]);
        }
    }
    for (int i = 0; i < from->pool->lm->spec.n_layers && status == MICA_OK; i++) {
        to->layers[i].count = from->layers[i].count;
        to->layers[i].cap = from->layers[i].cap;
    }
    if (status == MICA_OK) return MICA_OK;
    to->trail.lost = true; /* what was copied is not all there */
    mc_paged_clear(to);
    return status;
}

/* ---- files ---- */

mica_status mc_paged_fill(mc_paged *cache, int index, int64_t count, const void *k, const void *v) {
    mc_kv_pool *pool = cache->pool;
    int group = pool->places[index].group;
    mc_kv_table *table = &cache->tables[group];
    cache->trail.lost = true;
    MC_TRY(grow_table(pool, table, blocks_of(pool, count)));
    MC_TRY(mc_pool_write(pool, index, 0, table->ids, count, k));
    MC_TRY(mc_pool_write(pool, index, 1, table->ids, count, v));
    cache->layers[index].count = count;
    return MICA_OK;
}

mica_array mc_paged_entries(const mc_paged *cache, mica_scope *s, int index, int which) {
    const mc_kv_table *table = &cache->tables[cache->pool->places[index].group];
    return mc_pool_entries(cache->pool, s, index, which, table->ids, table->n);
}

/* ---- passes ---- */

/* Blocks of a group's table for all rows. */
static int64_t table_length(const mc_paged *const *rows, size_t n, int group) {
    int64_t cap = 0;
    for (size_t i = 0; i < n; i++)
        cap = mc_max(cap, leader(rows[i], group)->cap);
    return cap / rows[0]->pool->block;
}

uint64_t mc_paged_shape(const mc_paged *const *rows, size_t n) {
    uint64_t hash = 0;
    for (int g = 0; g < rows[0]->pool->groups; g++) {
        int64_t length = table_length(rows, n, g);
        hash = mc_hash(&length, sizeof length, hash);
    }
    return hash;
}

/* The parameters of a layer's group, and those for its arrays, where they are met first. */
static void add_params(mc_kv_pool *pool, mica_scope *s, mc_kv_place at, int64_t tokens) {
    mc_kv_pass *pass = &pool->pass;
    const mc_lm *lm = pool->lm;
    const int64_t rows = (int64_t)pass->rows;
    const int64_t shape[] = {lm->spec.kv_heads, pool->blocks, pool->block, mc_lm_kv_width(lm)};
    if (!pass->tables[at.group].scope) {
        const int64_t table[] = {rows, pass->lengths[at.group]}, slots[] = {rows, tokens};
        pass->tables[at.group] = mica_program_param(s, MICA_I32, table, 2);
        pass->slots[at.group] = mica_program_param(s, MICA_I32, slots, 2);
        pass->start[at.group] = mica_program_param(s, MICA_I32, &rows, 1);
    }
    for (int i = 2 * at.slot; i < 2 * at.slot + 2; i++)
        if (!pass->params[i].scope)
            pass->params[i] = pass->next[i] = mica_program_param(s, lm->kv_dtype, shape, 4);
}

static mc_attended append(void *context, mica_scope *s, int index, mica_array k, mica_array v) {
    mc_kv_pool *pool = context;
    mc_kv_pass *pass = &pool->pass;
    mc_kv_place at = pool->places[index];
    add_params(pool, s, at, mica_array_dim(k, 2));
    mica_array *next = &pass->next[2 * at.slot], slots = pass->slots[at.group];
    next[0] = mica_kv_write(s, next[0], k, slots);
    next[1] = mica_kv_write(s, next[1], v, slots);
    return (mc_attended){.k = next[0],
                         .v = next[1],
                         .table = pass->tables[at.group],
                         .offset = pass->start[at.group],
                         .window = pool->layers[index].window,
                         .keep = pool->layers[index].keep};
}

mc_kv_store mc_paged_store(const mc_paged *const *rows, size_t n) {
    mc_kv_pool *pool = rows[0]->pool;
    mc_kv_pass *pass = &pool->pass;
    pass->rows = n;
    for (int g = 0; g < pool->groups; g++) {
        pass->lengths[g] = table_length(rows, n, g);
        pass->tables[g] = MICA_NONE;
    }
    for (int i = 0; i < 2 * pool->slots; i++)
        pass->params[i] = pass->next[i] = MICA_NONE;
    return (mc_kv_store){.append = append, .context = pool};
}

size_t mc_paged_param_count(const mc_kv_pool *pool) {
    return 2 * (size_t)pool->slots + 3 * (size_t)pool->groups;
}

size_t mc_paged_result_count(const mc_kv_pool *pool) {
    return 2 * (size_t)pool->slots;
}

void mc_paged_params(const mc_kv_pool *pool, mica_param *params) {
    const mc_kv_pass *pass = &pool->pass;
    for (int i = 0; i < 2 * pool->slots; i++)
        *params++ = (mica_param){.array = pass->params[i], .donate = true};
    for (int g = 0; g < pool->groups; g++) {
        *params++ = (mica_param){.array = pass->tables[g]};
        *params++ = (mica_param){.array = pass->slots[g]};
        *params++ = (mica_param){.array = pass->start[g]};
    }
}

void mc_paged_results(const mc_kv_pool *pool, mica_array *results) {
    memcpy(results, pool->pass.next, mc_paged_result_count(pool) * sizeof *results);
}

/* Index of a row's first new entry. */
static int64_t first_entry(const mc_paged *const *rows, const int64_t *ahead, size_t row,
                           int group) {
    return leader(rows[row], group)->count + (ahead ? ahead[row] : 0);
}

/* Whether each row's table has the blocks that its new entries go to. What is behind a table's
 * length are blocks that others have: nothing may be written there. */
static bool has_blocks(const mc_paged *const *rows, const int64_t *ahead, size_t n, int group,
                       int64_t tokens) {
    for (size_t i = 0; i < n; i++) {
        int64_t end = first_entry(rows, ahead, i, group) + tokens;
        if (blocks_of(rows[i]->pool, end) > rows[i]->tables[group].n) return false;
    }
    return true;
}

/* The table of a group, the slots and the first index of its rows. room: of the longer list. */
static void group_args(const mc_paged *const *rows, const int64_t *ahead, size_t n, int group,
                       mica_scope *s, int64_t tokens, int32_t *room, mica_array *args) {
    const mc_kv_pool *pool = rows[0]->pool;
    const int64_t count = (int64_t)n, length = table_length(rows, n, group);
    const int64_t table[] = {count, length}, slots[] = {count, tokens};
    memset(room, 0, n * (size_t)length * sizeof *room);
    for (size_t i = 0; i < n; i++)
        memcpy(room + (int64_t)i * length, rows[i]->tables[group].ids,
               (size_t)rows[i]->tables[group].n * sizeof *room);
    args[0] = mica_from_data(s, room, MICA_I32, table, 2);
    for (size_t i = 0; i < n; i++) {
        const int32_t *ids = rows[i]->tables[group].ids;
        int64_t at = first_entry(rows, ahead, i, group);
        for (int64_t k = 0; k < tokens; k++, at++)
            room[(int64_t)i * tokens + k] =
                (int32_t)(ids[at / pool->block] * pool->block + at % pool->block);
    }
    args[1] = mica_from_data(s, room, MICA_I32, slots, 2);
    for (size_t i = 0; i < n; i++)
        room[i] = (int32_t)first_entry(rows, ahead, i, group);
    args[2] = mica_from_data(s, room, MICA_I32, &count, 1);
}

void mc_paged_args(const mc_paged *const *rows, const int64_t *ahead, size_t n, mica_scope *s,
                   int64_t tokens, mica_array *args) {
    mc_kv_pool *pool = rows[0]->pool;
    int64_t longest = mc_max(tokens, 1);
    memcpy(args, pool->arrays, mc_paged_result_count(pool) * sizeof *args);
    args += mc_paged_result_count(pool);
    for (int g = 0; g < pool->groups; g++)
        longest = mc_max(longest, table_length(rows, n, g));
    mc_arena_reset(&pool->arena);
    int32_t *room = mc_arena_alloc(&pool->arena, n * (size_t)longest * sizeof *room);
    for (int g = 0; g < pool->groups; g++, args += 3) {
        if (room && has_blocks(rows, ahead, n, g, tokens))
            group_args(rows, ahead, n, g, s, tokens, room, args);
        else if (room)
            args[0] = args[1] = args[2] =
                mc_scope_fail(s, MICA_EINTERNAL, "a session without blocks for its next tokens");
        else
            args[0] = args[1] = args[2] =
                mc_scope_fail(s, MICA_ENOMEM, "no memory for the tables of a KV pool");
    }
}

/* Keys and values in the blocks of a pool (session/pool.h): a state is a group of the pool.
 *
 * Entry i is in block i / block of the state's table. Entries are counted as in buffers: behind the
 * `head`, whole blocks that a window no longer sees are dropped, and those after them move to the
 * front. So queries see the same keys in the same groups of 32, and the bits are those of buffers
 * on a device that keeps an order of sums.
 *
 * Rows of a pass share its parameters: a part's arrays, donated, which are those of its first
 * group; for each group a table i32 [rows, blocks], the slots i32 [rows, n] that new entries are
 * written to, and the index i32 [rows] of each row's first new entry. Tables have a power of two of
 * blocks, so that few programs do for all lengths; behind a row's blocks they name block 0, which
 * no query sees. */
#include "session/state_blocks.h"
#include "base/alloc.h"
#include "base/integer.h"
#include "base/map.h"
#include "graph/graph.h"

#include <mica/ops.h>

#include <string.h>

enum { MIN_BLOCKS = 4 }; /* of a table that passes get */

static mc_blocks *of(const mc_state *state) {
    return (mc_blocks *)(uintptr_t)state;
}

static int64_t blocks_of(const mc_state *state, int64_t entries) {
    return (entries + state->pool->block - 1) / state->pool->block;
}

/* Gives the blocks of a state from `from` on back. */
static void cut_table(mc_state *state, int64_t from) {
    mc_kv_table *table = &of(state)->table;
    while (table->n > from)
        mc_pool_release(state->pool, table->ids[--table->n]);
}

static void clear(mc_state *state) {
    cut_table(state, 0);
    state->cap = state->count = 0;
}

static void deinit(mc_state *state) {
    cut_table(state, 0);
    mc_free(of(state)->table.ids);
}

static void cut(mc_state *state, int64_t total, int64_t to) {
    state->count -= total - to;
    cut_table(state, blocks_of(state, state->count));
}

/* ---- room ---- */

/* How many entries behind the head are not needed any more, in whole blocks. */
static int64_t unseen(const mc_state *state) {
    int64_t block = state->pool->block;
    if (!state->span.window) return 0;
    int64_t rest = state->count - state->span.head - mc_entry_span_kept(&state->span, block);
    return rest > 0 ? rest / block * block : 0;
}

/* Where the table names the block that the next entry goes to, if that has entries and is in other
 * tables, too; else NULL. */
static int32_t *shared_last(const mc_state *state) {
    int64_t block = state->pool->block;
    if (state->count % block == 0) return NULL;
    int32_t *last = &of(state)->table.ids[state->count / block];
    return state->pool->refs[*last] > 1 ? last : NULL;
}

/* The first block behind the head. */
static int32_t *behind_head(const mc_state *state) {
    return of(state)->table.ids + state->span.head / state->pool->block;
}

static int64_t blocks(const mc_state *state) {
    return of(state)->table.n;
}

static int64_t needed(const mc_state *state, int64_t n) {
    int64_t drop = unseen(state), dropped = drop / state->pool->block;
    int64_t have = of(state)->table.n - dropped;
    int64_t blocks = mc_max(0, blocks_of(state, state->count - drop + n) - have);
    blocks += shared_last(state) != NULL;
    for (int64_t i = 0; i < dropped; i++)
        blocks -= state->pool->refs[behind_head(state)[i]] == 1;
    return blocks;
}

static void shed(mc_state *state) {
    mc_kv_table *table = &of(state)->table;
    int64_t drop = unseen(state), n = drop / state->pool->block;
    if (!drop) return;
    int32_t *first = behind_head(state);
    for (int64_t i = 0; i < n; i++)
        mc_pool_release(state->pool, first[i]);
    table->n -= n;
    memmove(first, first + n, (size_t)(table->ids + table->n - first) * sizeof *first);
    state->count -= drop;
}

/* Takes blocks until the table has n; after an error it is as before. */
static mica_status grow_table(mc_state *state, int64_t n) {
    mc_kv_table *table = &of(state)->table;
    int64_t had = table->n;
    MC_TRY(mc_kv_table_reserve(table, n));
    while (table->n < n) {
        int32_t last = table->n ? table->ids[table->n - 1] : -1;
        mica_status status = mc_pool_take(state->pool, state->index, last, &table->ids[table->n]);
        if (status != MICA_OK) {
            cut_table(state, had);
            return status;
        }
        table->n++;
    }
    return MICA_OK;
}

/* Sets the length of the tables that passes get, for `later` tokens to come. */
static void choose_length(mc_state *state, int64_t later) {
    int64_t block = state->pool->block, entries = state->count + later, blocks = MIN_BLOCKS;
    if (state->span.window)
        entries = mc_min(entries, state->span.head + mc_entry_span_kept(&state->span, block) +
                                      block + state->chunk);
    int64_t wanted = mc_max(of(state)->table.n, blocks_of(state, entries));
    while (blocks < wanted)
        blocks *= 2;
    state->cap = mc_max(state->cap, blocks * block);
}

static mica_status reserve(mc_state *state, mica_scope *home, int64_t n, int64_t later) {
    int32_t *last = shared_last(state);
    (void)home;
    if (last) MC_TRY(mc_pool_own(state->pool, state->index, last));
    MC_TRY(grow_table(state, blocks_of(state, state->count + n)));
    choose_length(state, later);
    return MICA_OK;
}

static mica_status fork(const mc_state *from, mc_state *to, mica_scope *home) {
    mc_kv_table *table = &of(to)->table;
    int64_t n = blocks_of(from, from->count);
    (void)home;
    MC_TRY(mc_kv_table_reserve(table, n));
    for (int64_t i = 0; i < n; i++) {
        table->ids[table->n++] = of(from)->table.ids[i];
        mc_pool_retain(from->pool, of(from)->table.ids[i]);
    }
    return MICA_OK;
}

/* ---- passes ---- */

/* Blocks of the table for all rows. */
static int64_t table_length(mc_state_rows rows) {
    int64_t cap = 0;
    for (size_t i = 0; i < rows.n; i++)
        cap = mc_max(cap, rows.states[i]->cap);
    return cap / rows.states[0]->pool->block;
}

static uint64_t shape(mc_state_rows rows, uint64_t hash) {
    int64_t length = table_length(rows);
    return mc_hash(&length, sizeof length, hash);
}

static mc_kv_part *part_of(const mc_state *state) {
    return mc_kv_part_of(state->pool, state->index);
}

static mc_kv_group *group_of(const mc_state *state) {
    return &state->pool->groups[state->index];
}

/* Arrays that a state has in passes: those of its part, if it is the first of it. */
static size_t array_count(const mc_state *state) {
    return state->index == part_of(state)->group ? mc_kv_part_arrays(part_of(state)) : 0;
}

static void begin(mc_state_rows rows) {
    const mc_state *state = rows.states[0];
    mc_kv_group *group = group_of(state);
    mc_kv_part *part = part_of(state);
    state->pool->rows = rows.n;
    group->length = table_length(rows);
    group->table = MICA_NONE;
    memset(group->written, 0, (size_t)part->slots * sizeof(bool));
    for (size_t i = 0; i < array_count(state); i++)
        part->params[i] = part->next[i] = MICA_NONE;
}

/* The parameters of a group, and those for a slot's arrays, where they are met first. */
static void add_params(const mc_state *state, mica_scope *s, int slot, int64_t tokens) {
    mc_kv_part *part = part_of(state);
    mc_kv_group *group = group_of(state);
    const int64_t rows = (int64_t)state->pool->rows;
    if (!group->table.scope) {
        const int64_t table[] = {rows, group->length}, slots[] = {rows, tokens};
        group->table = mica_program_param(s, MICA_I32, table, 2);
        group->slots = mica_program_param(s, MICA_I32, slots, 2);
        group->start = mica_program_param(s, MICA_I32, &rows, 1);
    }
    int first = mc_kv_part_at(part, slot);
    for (int i = first; i < first + part->shape.arrays; i++)
        if (!part->params[i].scope)
            part->params[i] = part->next[i] = mc_pool_param(state->pool, part, s);
}

static mc_attended append(mc_state_rows rows, mica_scope *s, int slot, mica_array k, mica_array v) {
    const mc_state *state = rows.states[0];
    mc_kv_group *group = group_of(state);
    int arrays = state->shape.arrays;
    mica_array *next = &part_of(state)->next[mc_kv_part_at(part_of(state), slot)];
    const mica_array kv[] = {k, v};
    if (!group->written[slot]) {
        add_params(state, s, slot, mica_array_dim(k, 2));
        for (int i = 0; i < arrays; i++)
            next[i] = mica_kv_write(s, next[i], kv[i], group->slots);
    }
    group->written[slot] = true; /* other layers attend to the same */
    return (mc_attended){.k = next[0],
                         .v = next[arrays - 1],
                         .table = group->table,
                         .offset = group->start,
                         .window = state->span.window,
                         .keep = state->span.keep};
}

/* Beside the arrays: the table, the slots and the first index, which a stage of a pipeline without
 * layers of the group has not. */
static size_t list_count(const mc_state *state) {
    return group_of(state)->here ? 3 : 0;
}

static size_t param_count(const mc_state *state) {
    return array_count(state) + list_count(state);
}

static void params(mc_state_rows rows, mica_param *params) {
    const mc_state *state = rows.states[0];
    const mc_kv_group *group = group_of(state);
    for (size_t i = 0; i < array_count(state); i++)
        *params++ = (mica_param){.array = part_of(state)->params[i], .donate = true};
    if (!list_count(state)) return;
    *params++ = (mica_param){.array = group->table};
    *params++ = (mica_param){.array = group->slots};
    *params++ = (mica_param){.array = group->start};
}

static void results(mc_state_rows rows, mica_array *results) {
    const mc_state *state = rows.states[0];
    memcpy(results, part_of(state)->next, array_count(state) * sizeof *results);
}

/* Index of a row's first new entry. */
static int64_t first_entry(mc_state_rows rows, size_t i) {
    return rows.states[i]->count + rows.ahead[i];
}

/* Whether each row's table has the blocks that its new entries go to. What is behind a table's
 * length are blocks that others have: nothing may be written there. */
static bool has_blocks(mc_state_rows rows, int64_t tokens) {
    for (size_t i = 0; i < rows.n; i++)
        if (blocks_of(rows.states[i], first_entry(rows, i) + tokens) > of(rows.states[i])->table.n)
            return false;
    return true;
}

/* The table, the slots and the first index of the rows. room: of the longer list. */
static void list_args(mc_state_rows rows, mica_scope *s, int64_t tokens, int32_t *room,
                      mica_array *args) {
    const int64_t block = rows.states[0]->pool->block;
    const int64_t count = (int64_t)rows.n, length = table_length(rows);
    const int32_t first = part_of(rows.states[0])->first;
    const int64_t table[] = {count, length}, slots[] = {count, tokens};
    memset(room, 0, rows.n * (size_t)length * sizeof *room);
    for (size_t i = 0; i < rows.n; i++) {
        const mc_kv_table *ids = &of(rows.states[i])->table;
        for (int64_t k = 0; k < ids->n; k++)
            room[(int64_t)i * length + k] = ids->ids[k] - first;
    }
    args[0] = mica_from_data(s, room, MICA_I32, table, 2);
    for (size_t i = 0; i < rows.n; i++) {
        const int32_t *ids = of(rows.states[i])->table.ids;
        int64_t at = first_entry(rows, i);
        for (int64_t k = 0; k < tokens; k++, at++)
            room[(int64_t)i * tokens + k] =
                (int32_t)((ids[at / block] - first) * block + at % block);
    }
    args[1] = mica_from_data(s, room, MICA_I32, slots, 2);
    for (size_t i = 0; i < rows.n; i++)
        room[i] = (int32_t)first_entry(rows, i);
    args[2] = mica_from_data(s, room, MICA_I32, &count, 1);
}

static void args(mc_state_rows rows, mica_scope *s, int64_t tokens, mica_array *args) {
    const mc_state *state = rows.states[0];
    mc_kv_pool *pool = state->pool;
    size_t arrays = array_count(state);
    int64_t longest = mc_max(mc_max(tokens, 1), table_length(rows));
    memcpy(args, part_of(state)->arrays, arrays * sizeof *args);
    args += arrays;
    if (!list_count(state)) return;
    mc_arena_reset(&pool->arena);
    int32_t *room = mc_arena_alloc(&pool->arena, rows.n * (size_t)longest * sizeof *room);
    if (room && has_blocks(rows, tokens))
        list_args(rows, s, tokens, room, args);
    else if (room)
        args[0] = args[1] = args[2] =
            mc_scope_fail(s, MICA_EINTERNAL, "a session without blocks for its next tokens");
    else
        args[0] = args[1] = args[2] =
            mc_scope_fail(s, MICA_ENOMEM, "no memory for the tables of a KV pool");
}

static mica_status take_results(mc_state *state, mica_scope *home, const mica_array *results) {
    (void)home;
    bool first = state->index == part_of(state)->group;
    return first ? mc_pool_set_arrays(state->pool, part_of(state), results) : MICA_OK;
}

/* ---- files ---- */

static mica_status write(mc_state *state, int64_t total, int slot, mc_part_writer *w) {
    const mc_kv_table *table = &of(state)->table;
    mica_array parts[2] = {MICA_NONE, MICA_NONE};
    int arrays = state->shape.arrays;
    int first = mc_kv_part_at(part_of(state), slot);
    for (int i = 0; i < arrays && table->n; i++)
        parts[i] = mc_pool_entries(part_of(state), state->scratch, first + i, table->ids, table->n);
    return mc_entries_write(state, total, parts, w);
}

static mica_status read(mc_state *state, mica_scope *home, int64_t total, int slot,
                        mc_part_reader *r) {
    const mc_kv_table *table = &of(state)->table;
    const void *parts[2];
    int64_t count;
    (void)home;
    MC_TRY(mc_entries_read(state, total, slot, r, &count, parts));
    if (!count) return MICA_OK;
    MC_TRY(grow_table(state, blocks_of(state, count)));
    int first = mc_kv_part_at(part_of(state), slot);
    for (int i = 0; i < state->shape.arrays; i++)
        MC_TRY(mc_pool_write(state->pool, part_of(state), first + i, table->ids, count, parts[i]));
    state->count = count;
    return MICA_OK;
}

const mc_state_ops mc_state_blocks = {
    .name = "blocks",
    .bytes = sizeof(mc_blocks),
    .entries = true,
    .together = true,
    .deinit = deinit,
    .clear = clear,
    .blocks = blocks,
    .needed = needed,
    .shed = shed,
    .reserve = reserve,
    .fork = fork,
    .back = mc_entries_back,
    .cut = cut,
    .reach = mc_entries_reach,
    .begin = begin,
    .append = append,
    .shape = shape,
    .param_count = param_count,
    .result_count = array_count,
    .params = params,
    .results = results,
    .args = args,
    .take = take_results,
    .saved_bytes = mc_entries_saved_bytes,
    .write = write,
    .read = read,
};

#include "session/prefix_file.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/integer.h"
#include "base/save.h"
#include "device/device.h"
#include "session/cache.h"
#include "session/file_parts.h"
#include "session/session_file.h"

#include <mica/version.h>

#include <string.h>

/* PIECE: blocks of a piece of version 1. A snapshot is written as one after a single token. */
enum { VERSION = 2, PIECE = 256, SHAPE = 6, ONE = 1 };

static const char MAGIC[8] = {'M', 'I', 'C', 'A', 'P', 'R', 'E', 'F'};

typedef struct header { /* whole words, no padding */
    char magic[8];
    uint32_t version, byte_order;
    uint64_t fingerprint; /* of the model */
    uint64_t computed;    /* sum_computed */
    /* Context, tokens of a block, groups, states, dtype of keys and values, and sum_states. Of
     * version 1: context, tokens of a block, groups, slots, kv width, and dtype. */
    int64_t shape[SHAPE];
    int64_t entries;
    int64_t others; /* snapshots; of version 1: blocks */
} header;

/* The beginning of an entry, and of a snapshot. */
typedef struct entry_hash {
    mc_prefix_hash hash;
} entry_hash;

/* A sum over what else decides the bits of keys and values. */
static uint64_t sum_computed(const mc_session_model *model) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(model->device, &info);
    uint64_t sum = mc_sum_text(0, mica_version());
    sum = mc_sum_text(sum, info.name);
    sum = mc_sum_text(sum, info.architecture);
    return mc_sum_word(sum, model->lm->head.fast != 0);
}

/* A sum over what the states of a session are. */
static uint64_t sum_states(const mc_state_plan *plan) {
    uint64_t sum = 0;
    for (int i = 0; i < plan->n; i++) {
        const mc_planned_state *p = &plan->states[i];
        const int64_t numbers[] = {p->span.window, p->span.keep, p->span.head, p->shape.heads,
                                   p->shape.width, p->layer,     p->slots,     p->n_carried};
        sum = mc_sum_words(mc_sum_text(sum, p->kind->name), numbers, sizeof numbers);
        for (int k = 0; k < p->n_carried; k++) {
            const mc_carried *c = &p->carried[k];
            sum = mc_sum_word(mc_sum_word(sum, (uint64_t)c->dtype), (uint64_t)c->ndim);
            sum = mc_sum_words(sum, c->shape, (size_t)c->ndim * sizeof *c->shape);
        }
    }
    return sum;
}

static mica_status make_header(const mc_session_model *model, header *head) {
    const mc_kv_pool *pool = model->pool;
    *head = (header){
        .version = VERSION,
        .byte_order = MC_BYTE_ORDER_MARK,
        .computed = sum_computed(model),
        .shape = {pool->context, pool->block, pool->n_groups, pool->plan.n,
                  (int64_t)pool->lm->kv_dtype, (int64_t)sum_states(&pool->plan)},
    };
    memcpy(head->magic, MAGIC, sizeof head->magic);
    return mc_session_fingerprint(model, &head->fingerprint);
}

static mica_status check_keeps(const mc_session_model *model) {
    if (model->pool && model->pool->keeps) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, mc_prefix_available()
                                          ? "no prefixes are kept here"
                                          : "prefixes are not kept here: mica was built without "
                                            "xxhash");
}

/* ---- sizes ---- */

/* Bytes of the list of groups of an entry, a bit each. */
static size_t bits_bytes(const mc_kv_pool *pool) {
    return mc_padded(((size_t)pool->n_groups + 7) / 8);
}

/* Bytes of a block of a group, as its state writes it. */
static uint64_t group_bytes(const mc_kv_pool *pool, int group) {
    mc_state state = mc_state_planned(&pool->plan, group, pool->lm);
    state.count = pool->block;
    return (uint64_t)state.slots * state.kind->saved_bytes(&state, pool->block);
}

/* ---- one state after the other, in a cache that is used for nothing else ---- */

typedef struct holder {
    mc_cache cache;
    mica_scope *home;
} holder;

static void close_holder(holder *c) {
    mc_cache_deinit(&c->cache);
    mica_scope_close(&c->home);
}

static mica_status open_holder(const mc_session_model *model, holder *c) {
    const mc_cache_options options = {
        .pool = model->pool, .states = model->states, .context = model->context, .chunk = 1};
    *c = (holder){0};
    mica_status status = mc_cache_init(&c->cache, model->lm, model->device, &options);
    if (status == MICA_OK) status = mica_scope_open(model->device, &c->home);
    for (int g = 0; g < c->cache.plan.together && status == MICA_OK; g++)
        status = mc_kv_table_reserve(&((mc_blocks *)c->cache.states[g])->table, 1);
    if (status != MICA_OK) close_holder(c);
    return status;
}

/* Gives the state of a group a block, in which there are `count` tokens; takes it away. */
static mc_state *hold_block(const holder *c, int group, int32_t id, int64_t count) {
    mc_blocks *blocks = (mc_blocks *)c->cache.states[group];
    blocks->table.ids[blocks->table.n++] = id;
    blocks->base.count = count;
    return &blocks->base;
}

static void let_block_go(mc_state *state) {
    ((mc_blocks *)state)->table.n = 0;
    state->count = 0;
}

static void drop_arrays(holder *c) {
    mc_cache_clear(&c->cache);
    mc_scope_reset(c->home);
}

/* ---- writing ---- */

/* What is saved: indices, the one used longest ago first. */
typedef struct collection {
    mc_buffer entries, snapshots; /* int32 */
} collection;

static bool has_blocks(const mc_kv_pool *pool, int32_t entry) {
    const int32_t *ids = mc_prefix_blocks(&pool->prefixes, entry);
    int g = 0;
    while (g < pool->n_groups && ids[g] < 0)
        g++;
    return g < pool->n_groups;
}

static mica_status collect(const mc_kv_pool *pool, collection *c) {
    const mc_prefixes *blocks = &pool->prefixes, *snapshots = &pool->snapshots.known;
    bool kept = mc_snapshots_wanted(&pool->snapshots);
    for (int32_t i = blocks->oldest; i >= 0; i = blocks->entries[i].newer)
        if (has_blocks(pool, i) && !MC_BUFFER_PUSH(&c->entries, int32_t, i))
            return mc_fail_nomem("a file of prefixes");
    for (int32_t i = kept ? snapshots->oldest : -1; i >= 0; i = snapshots->entries[i].newer)
        if (!MC_BUFFER_PUSH(&c->snapshots, int32_t, i)) return mc_fail_nomem("a file of prefixes");
    return MICA_OK;
}

static mica_status put_hash(mc_part_writer *w, const mc_prefixes *p, int32_t i) {
    const entry_hash head = {p->entries[i].hash};
    return mc_part_put(w, &head, sizeof head);
}

/* Writes the hash of each entry and which groups have a block of it. */
static mica_status put_index(mc_part_writer *w, const mc_kv_pool *pool, const mc_buffer *entries) {
    char *bits = mc_alloc(bits_bytes(pool));
    mica_status status = bits ? MICA_OK : mc_fail_nomem("a file of prefixes");
    for (size_t i = 0; i < MC_BUFFER_COUNT(entries, int32_t) && status == MICA_OK; i++) {
        int32_t entry = MC_BUFFER_AT(entries, int32_t)[i];
        memset(bits, 0, bits_bytes(pool));
        for (int g = 0; g < pool->n_groups; g++)
            if (mc_prefix_blocks(&pool->prefixes, entry)[g] >= 0)
                bits[g / 8] = (char)(bits[g / 8] | 1 << g % 8);
        status = put_hash(w, &pool->prefixes, entry);
        if (status == MICA_OK) status = mc_part_put(w, bits, bits_bytes(pool));
    }
    mc_free(bits);
    return status;
}

static mica_status put_blocks(mc_part_writer *w, const mc_kv_pool *pool, const holder *c,
                              int32_t entry) {
    mica_status status = MICA_OK;
    for (int g = 0; g < pool->n_groups && status == MICA_OK; g++) {
        int32_t id = mc_prefix_blocks(&pool->prefixes, entry)[g];
        if (id < 0) continue;
        mc_state *state = hold_block(c, g, id, pool->block);
        status = mc_state_write(state, pool->block, w);
        let_block_go(state);
    }
    return status;
}

static mica_status put_snapshot(mc_part_writer *w, mc_kv_pool *pool, holder *c, int32_t i) {
    mc_snapshots *s = &pool->snapshots;
    mica_status status = put_hash(w, &s->known, i);
    if (status == MICA_OK)
        status = mc_snapshots_take(s, s->known.entries[i].hash, c->cache.states, c->home, ONE);
    for (int k = s->first; k < s->end && status == MICA_OK; k++)
        status = mc_state_write(c->cache.states[k], ONE, w);
    drop_arrays(c);
    return status;
}

static mica_status put_all(mc_part_writer *w, const mc_session_model *model, holder *h,
                           const collection *c) {
    header head;
    MC_TRY(make_header(model, &head));
    head.entries = (int64_t)MC_BUFFER_COUNT(&c->entries, int32_t);
    head.others = (int64_t)MC_BUFFER_COUNT(&c->snapshots, int32_t);
    MC_TRY(mc_part_put(w, &head, sizeof head));
    MC_TRY(put_index(w, model->pool, &c->entries));
    for (int64_t i = 0; i < head.entries; i++)
        MC_TRY(put_blocks(w, model->pool, h, MC_BUFFER_AT(&c->entries, int32_t)[i]));
    for (int64_t i = 0; i < head.others; i++)
        MC_TRY(put_snapshot(w, model->pool, h, MC_BUFFER_AT(&c->snapshots, int32_t)[i]));
    return mc_part_end(w);
}

static mica_status save(const mc_session_model *model, const char *path, const collection *c) {
    holder h;
    mc_save save;
    MC_TRY(open_holder(model, &h));
    mica_status status = mc_save_open(&save, path);
    if (status == MICA_OK) {
        mc_part_writer w = {.file = save.file, .path = path};
        status = mc_save_make_private(&save);
        if (status == MICA_OK) status = put_all(&w, model, &h, c);
        status = mc_save_close(&save, status);
    }
    close_holder(&h);
    return status;
}

mica_status mc_prefix_file_save(const mc_session_model *model, const char *path) {
    collection c = {0};
    MC_TRY(check_keeps(model));
    mica_status status = collect(model->pool, &c);
    if (status == MICA_OK) status = save(model, path, &c);
    mc_buffer_deinit(&c.entries);
    mc_buffer_deinit(&c.snapshots);
    return status;
}

/* ---- reading ---- */

/* A file, and where its prefixes go. */
typedef struct loader {
    mc_kv_pool *pool;
    const char *index;     /* [head.entries] of index_bytes */
    mc_part_reader blocks; /* stands at the first entry's; behind them come the snapshots */
    int32_t *ids;          /* [head.entries, groups] blocks of the pool; -1: not taken */
    char *room;            /* a block of version 1, as its state writes it */
    int64_t first;         /* the first entry that is taken */
    int64_t tokens;        /* of the blocks that were added */
    holder holder;
    header head;
} loader;

static bool is_old(const header *head) {
    return head->version == 1;
}

/* ---- version 1: entries with the numbers of their blocks, and the blocks in pieces: of each slot
 * the keys, then the values, both [kv_heads, blocks, block, kv width] ---- */

/* Bytes of n blocks in an array. */
static size_t array_bytes(const mc_kv_pool *pool, int64_t n) {
    return (size_t)n * (size_t)(pool->parts->block_bytes / (2 * (uint64_t)pool->parts->slots));
}

/* Bytes of all pieces of n blocks. */
static size_t pieces_bytes(const mc_kv_pool *pool, int64_t n) {
    size_t arrays = 2 * (size_t)pool->parts->slots;
    return (size_t)(n / PIECE) * arrays * mc_padded(array_bytes(pool, PIECE)) +
           arrays * mc_padded(array_bytes(pool, n % PIECE));
}

/* The header that such a file of the model has. false: it can have none. */
static bool make_old(const mc_kv_pool *pool, header *head) {
    const int64_t shape[SHAPE] = {pool->context,
                                  pool->block,
                                  pool->n_groups,
                                  pool->parts->slots,
                                  pool->parts->shape.width,
                                  (int64_t)pool->lm->kv_dtype};
    memcpy(head->shape, shape, sizeof shape);
    return pool->n_parts == 1 && pool->parts->shape.arrays == 2 &&
           !mc_snapshots_wanted(&pool->snapshots);
}

/* Puts block `number` of the file together. */
static void gather(const loader *l, int64_t number) {
    const mc_kv_pool *pool = l->pool;
    int64_t n = mc_min(l->head.others - number / PIECE * PIECE, PIECE), at = number % PIECE;
    size_t heads = (size_t)pool->parts->shape.heads, bytes = array_bytes(pool, 1) / heads;
    const char *from = l->blocks.data + l->blocks.at + pieces_bytes(pool, number - at);
    char *to = l->room;
    memset(to, 0, (size_t)group_bytes(pool, 0)); /* with the padding */
    for (int i = 0; i < 2 * pool->parts->slots; i++) {
        if (i % 2 == 0) {
            memcpy(to, &pool->block, MC_WORD);
            to += MC_WORD;
        }
        for (size_t h = 0; h < heads; h++)
            memcpy(to + h * bytes, from + (h * (size_t)n + (size_t)at) * bytes, bytes);
        to += mc_padded(heads * bytes);
        from += mc_padded(array_bytes(pool, n));
    }
}

/* ---- the index ---- */

static size_t index_bytes(const loader *l) {
    const mc_kv_pool *pool = l->pool;
    return sizeof(entry_hash) + (is_old(&l->head)
                                     ? mc_padded((size_t)pool->n_groups * sizeof(int32_t))
                                     : bits_bytes(pool));
}

static const char *entry_at(const loader *l, int64_t i) {
    return l->index + (size_t)i * index_bytes(l);
}

static mc_prefix_hash hash_of(const char *at) {
    entry_hash head;
    memcpy(&head, at, sizeof head);
    return head.hash;
}

/* Version 1: the number of an entry's block of a group. */
static int32_t number_of(const loader *l, int64_t i, int g) {
    int32_t number;
    memcpy(&number, entry_at(l, i) + sizeof(entry_hash) + (size_t)g * sizeof number, sizeof number);
    return number;
}

/* Whether an entry has a block of a group. */
static bool has(const loader *l, int64_t i, int g) {
    if (is_old(&l->head)) return number_of(l, i, g) >= 0;
    return entry_at(l, i)[sizeof(entry_hash) + (size_t)g / 8] >> g % 8 & 1;
}

static uint64_t entry_bytes(const loader *l, int64_t i) {
    uint64_t bytes = 0;
    for (int g = 0; g < l->pool->n_groups; g++)
        bytes += has(l, i, g) ? group_bytes(l->pool, g) : 0;
    return bytes;
}

/* Bytes of a snapshot, with its hash. */
static uint64_t snapshot_bytes(const mc_kv_pool *pool) {
    return sizeof(entry_hash) + pool->snapshots.bytes;
}

/* ---- checks ---- */

static mica_status check_header(const mc_session_model *model, const header *head,
                                const char *name) {
    header want;
    if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0)
        return mc_fail(MICA_EFORMAT, "%s: not a file of prefixes", name);
    if (head->byte_order != MC_BYTE_ORDER_MARK || head->version < 1 || head->version > VERSION)
        return mc_fail(MICA_EFORMAT,
                       "%s: a file of prefixes of version %u, or from a computer of another kind; "
                       "version %d is known",
                       name, (unsigned)head->version, VERSION);
    MC_TRY(make_header(model, &want));
    if (head->fingerprint != want.fingerprint)
        return mc_fail(MICA_EINVAL, "%s: saved from another model or adapter", name);
    if (head->computed != want.computed)
        return mc_fail(MICA_EINVAL,
                       "%s: saved by another version of mica, on another kind of device, or with "
                       "other arithmetic",
                       name);
    bool can_be = !is_old(head) || make_old(model->pool, &want);
    if (!can_be || memcmp(head->shape, want.shape, sizeof want.shape) != 0)
        return mc_fail(MICA_EINVAL, "%s: saved with another context or type of caches", name);
    return MICA_OK;
}

/* Whether so many bytes behind the index are those of its blocks, and of the snapshots. */
static bool fits(const loader *l, uint64_t bytes) {
    int64_t others = l->head.others;
    uint64_t one = is_old(&l->head) ? l->pool->parts->block_bytes : snapshot_bytes(l->pool);
    if (others < 0 || others > INT32_MAX || (uint64_t)others > bytes / one) return false;
    if (is_old(&l->head)) return bytes == pieces_bytes(l->pool, others);
    if (others && !mc_snapshots_wanted(&l->pool->snapshots)) return false;
    uint64_t sum = (uint64_t)others * one;
    for (int64_t i = 0; i < l->head.entries && sum <= bytes; i++)
        sum += entry_bytes(l, i);
    return sum == bytes;
}

/* Compares the file's size with what its counts say, before the checksum reads all of it. */
static mica_status check_size(loader *l, const mc_part_reader *r) {
    int64_t entries = l->head.entries, max = (int64_t)((r->size - r->at) / index_bytes(l));
    if (entries >= 0 && entries <= max) {
        l->index = r->data + r->at;
        if (fits(l, r->size - r->at - (size_t)entries * index_bytes(l))) return MICA_OK;
    }
    return mc_fail(MICA_EFORMAT, "%s: %zu bytes are not those of %lld prefixes and %lld %s",
                   r->name, r->size + MC_WORD, (long long)entries, (long long)l->head.others,
                   is_old(&l->head) ? "blocks" : "snapshots");
}

/* Checks that an entry has the blocks of all groups without a window, or only some of others. */
static mica_status check_entry(const loader *l, int64_t i, const char *name) {
    int full = 0, all = 0, windows = 0;
    bool good = true;
    for (int g = 0; g < l->pool->n_groups; g++) {
        bool window = l->pool->plan.states[g].span.window > 0, there = has(l, i, g);
        all += !window;
        full += there && !window;
        windows += there && window;
        if (is_old(&l->head)) good = good && number_of(l, i, g) < l->head.others;
    }
    if (good && ((windows && !full) || (full == all && full && !windows))) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: prefix %lld has blocks that it cannot have", name,
                   (long long)i);
}

/* ---- blocks ---- */

static int32_t *ids_of(const loader *l, int64_t i) {
    return l->ids + i * l->pool->n_groups;
}

static bool is_known(const loader *l, int64_t i) {
    return mc_prefix_find(&l->pool->prefixes, hash_of(entry_at(l, i))) >= 0;
}

/* Whether there are free blocks for an entry. */
static bool has_room(const loader *l, int64_t i) {
    for (int p = 0; p < l->pool->n_parts; p++) {
        const mc_kv_part *part = &l->pool->parts[p];
        int64_t count = 0;
        for (int g = 0; g < l->pool->n_groups; g++)
            count += has(l, i, g) && mc_kv_part_of(l->pool, g) == part;
        if (count > part->n_free) return false;
    }
    return true;
}

/* Takes free blocks for the entries used last. A text's blocks come one after the other: the
 * earlier ones are of entries that were used later. */
static mica_status take_blocks(loader *l) {
    mc_kv_pool *pool = l->pool;
    int32_t *after = ids_of(l, l->head.entries);
    for (l->first = l->head.entries; l->first > 0; l->first--) {
        int64_t i = l->first - 1;
        if (is_known(l, i)) continue;
        if (!has_room(l, i)) break;
        for (int g = 0; g < pool->n_groups; g++) {
            if (!has(l, i, g)) continue;
            MC_TRY(mc_pool_take(pool, g, after[g], &ids_of(l, i)[g]));
            after[g] = ids_of(l, i)[g];
        }
    }
    return MICA_OK;
}

/* Reads a block of an entry into one of the pool. */
static mica_status fill_block(const loader *l, int64_t i, int g) {
    mc_part_reader r = l->blocks;
    r.size = r.at + (size_t)group_bytes(l->pool, g);
    if (is_old(&l->head)) {
        gather(l, number_of(l, i, g));
        r.data = l->room;
        r.size -= r.at;
        r.at = 0;
    }
    mc_state *state = hold_block(&l->holder, g, ids_of(l, i)[g], 0);
    mica_status status = mc_state_read(state, l->holder.home, l->pool->block, &r);
    let_block_go(state);
    return status == MICA_OK ? mc_part_done(&r) : status;
}

static mica_status fill_blocks(loader *l) {
    for (int64_t i = 0; i < l->head.entries; i++)
        for (int g = 0; g < l->pool->n_groups; g++) {
            if (!has(l, i, g)) continue;
            if (ids_of(l, i)[g] >= 0) MC_TRY(fill_block(l, i, g));
            if (!is_old(&l->head)) l->blocks.at += (size_t)group_bytes(l->pool, g);
        }
    return MICA_OK;
}

/* Whether an entry stands for tokens, and not only for what windows see of them. */
static bool is_full(const mc_kv_pool *pool, int32_t entry) {
    bool full = false;
    for (int g = 0; g < pool->n_groups && !full; g++)
        full =
            !pool->plan.states[g].span.window && mc_prefix_blocks(&pool->prefixes, entry)[g] >= 0;
    return full;
}

/* Adds an entry whose blocks were taken, and gives their references to it. */
static void add_entry(loader *l, int64_t i) {
    mc_kv_pool *pool = l->pool;
    int32_t *ids = ids_of(l, i);
    int32_t entry = is_known(l, i) ? -1 : mc_pool_add_prefix(pool, hash_of(entry_at(l, i)));
    if (entry < 0) return;
    for (int g = 0; g < pool->n_groups; g++)
        if (ids[g] >= 0) mc_pool_name(pool, entry, g, ids[g]);
    l->tokens += !pool->has_full || is_full(pool, entry) ? pool->block : 0;
    mc_pool_unpin(pool, entry);
}

/* ---- snapshots ---- */

static mica_status read_snapshot(loader *l, mc_part_reader *r) {
    mc_snapshots *s = &l->pool->snapshots;
    holder *c = &l->holder;
    const void *hash = NULL;
    mica_status status = mc_part_take(r, sizeof(entry_hash), &hash);
    for (int k = s->first; k < s->end && status == MICA_OK; k++)
        status = mc_state_read(c->cache.states[k], c->home, ONE, r);
    if (status == MICA_OK) {
        mc_snapshots_keep(s, hash_of(hash), c->cache.states, ONE);
        if (!mc_snapshots_has(s, hash_of(hash))) status = mc_fail_nomem("a file of prefixes");
    }
    drop_arrays(c);
    return status;
}

/* Adds those used last, where there is room that no other has. */
static mica_status read_snapshots(loader *l) {
    mc_snapshots *s = &l->pool->snapshots;
    int64_t had = s->known.count, skipped = mc_max(0, l->head.others - (s->known.max - had));
    mica_status status = MICA_OK;
    for (int64_t i = 0; i < l->head.others && status == MICA_OK; i++) {
        mc_part_reader r = l->blocks;
        l->blocks.at += (size_t)snapshot_bytes(l->pool);
        if (i >= skipped && !mc_snapshots_has(s, hash_of(r.data + r.at)))
            status = read_snapshot(l, &r);
    }
    if (status != MICA_OK) mc_snapshots_drop_newest(s, s->known.count - had);
    return status;
}

/* ---- a file ---- */

static mica_status load(loader *l) {
    int64_t n = l->head.entries * l->pool->n_groups;
    mica_status status = take_blocks(l);
    if (status == MICA_OK) status = fill_blocks(l);
    mc_pool_end_writes(l->pool);
    if (status == MICA_OK && !is_old(&l->head)) status = read_snapshots(l);
    for (int64_t i = l->first; status == MICA_OK && i < l->head.entries; i++)
        add_entry(l, i);
    for (int64_t i = 0; i < n; i++) /* the entries hold what they have */
        if (l->ids[i] >= 0) mc_pool_release(l->pool, l->ids[i]);
    return status;
}

static mica_status check(const mc_session_model *model, loader *l, mc_part_reader *r) {
    memcpy(&l->head, r->data, sizeof l->head);
    MC_TRY(check_header(model, &l->head, r->name));
    MC_TRY(check_size(l, r));
    MC_TRY(mc_part_check(r));
    for (int64_t i = 0; i < l->head.entries; i++)
        MC_TRY(check_entry(l, i, r->name));
    l->blocks = *r;
    l->blocks.at += (size_t)l->head.entries * index_bytes(l);
    return MICA_OK;
}

static mica_status open_lists(loader *l) {
    size_t n = ((size_t)l->head.entries + 1) * (size_t)l->pool->n_groups;
    l->ids = mc_array_alloc(n, sizeof *l->ids);
    l->room = is_old(&l->head) ? mc_alloc((size_t)group_bytes(l->pool, 0)) : NULL;
    if (!l->ids || (is_old(&l->head) && !l->room)) return mc_fail_nomem("a file of prefixes");
    for (size_t i = 0; i < n; i++)
        l->ids[i] = -1;
    return MICA_OK;
}

mica_status mc_prefix_file_parse(const mc_session_model *model, const void *data, size_t size,
                                 const char *name, int64_t *tokens) {
    loader l = {.pool = model->pool};
    *tokens = 0;
    MC_TRY(check_keeps(model));
    if (size < sizeof l.head + MC_WORD)
        return mc_fail(MICA_EFORMAT, "%s: not a file of prefixes", name);
    mc_part_reader r = {.kind = "file of prefixes",
                        .name = name,
                        .data = data,
                        .size = size - MC_WORD,
                        .at = sizeof l.head};
    MC_TRY(check(model, &l, &r));
    MC_TRY(open_holder(model, &l.holder));
    mica_status status = open_lists(&l);
    if (status == MICA_OK) status = load(&l);
    if (status == MICA_OK) *tokens = l.tokens;
    close_holder(&l.holder);
    mc_free(l.ids);
    mc_free(l.room);
    return status;
}

mica_status mc_prefix_file_load(const mc_session_model *model, const char *path, int64_t *tokens) {
    mc_filemap map = {0};
    *tokens = 0;
    MC_TRY(mc_filemap_open(path, MC_FILE_PREFIXES, &map));
    mica_status status = mc_prefix_file_parse(model, map.data, map.size, path, tokens);
    mc_filemap_close(&map);
    return status;
}

#include "session/prefix_file.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/integer.h"
#include "base/save.h"
#include "device/device.h"
#include "session/file_parts.h"
#include "session/session_file.h"

#include <mica/ops.h>
#include <mica/version.h>

#include <string.h>

enum { VERSION = 1, PIECE = 256, SHAPE = 6 };

static const char MAGIC[8] = {'M', 'I', 'C', 'A', 'P', 'R', 'E', 'F'};

typedef struct header { /* whole words, no padding */
    char magic[8];
    uint32_t version, byte_order;
    uint64_t fingerprint; /* of the model */
    uint64_t computed;    /* sum_computed */
    /* Context, tokens of a block, groups, slots, kv width, and dtype of keys and values. */
    int64_t shape[SHAPE];
    int64_t entries, blocks;
} header;

/* The beginning of an entry's part; the blocks' numbers follow. */
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
    return mc_sum_word(sum, model->lm->head.fast);
}

static mica_status make_header(const mc_session_model *model, header *head) {
    const mc_kv_pool *pool = model->pool;
    *head = (header){
        .version = VERSION,
        .byte_order = MC_BYTE_ORDER_MARK,
        .computed = sum_computed(model),
        .shape = {pool->context, pool->block, pool->n_groups, pool->parts->slots,
                  pool->parts->shape.width, (int64_t)pool->lm->kv_dtype},
    };
    memcpy(head->magic, MAGIC, sizeof head->magic);
    return mc_session_fingerprint(model, &head->fingerprint);
}

static mica_status check_keeps(const mc_session_model *model) {
    if (model->pool && model->pool->n_parts > 1)
        return mc_fail(MICA_EUNSUPPORTED, "prefixes of layers with unlike heads are not saved");
    if (model->pool && mc_snapshots_wanted(&model->pool->snapshots))
        return mc_fail(MICA_EUNSUPPORTED, "prefixes of recurrent layers are not saved");
    if (model->pool && model->pool->keeps) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, mc_prefix_available()
                                          ? "no prefixes are kept here"
                                          : "prefixes are not kept here: mica was built without "
                                            "xxhash");
}

/* Bytes of n blocks in an array of the pool. */
static size_t array_bytes(const mc_kv_pool *pool, int64_t n) {
    return (size_t)n * (size_t)(pool->parts->block_bytes / (2 * (uint64_t)pool->parts->slots));
}

/* Bytes of all pieces of n blocks. */
static size_t pieces_bytes(const mc_kv_pool *pool, int64_t n) {
    size_t arrays = 2 * (size_t)pool->parts->slots;
    return (size_t)(n / PIECE) * arrays * mc_padded(array_bytes(pool, PIECE)) +
           arrays * mc_padded(array_bytes(pool, n % PIECE));
}

static size_t entry_bytes(const mc_kv_pool *pool) {
    return sizeof(entry_hash) + mc_padded((size_t)pool->n_groups * sizeof(int32_t));
}

/* ---- writing ---- */

/* What is saved. */
typedef struct collection {
    mc_buffer entries; /* int32: indices, the one used longest ago first */
    mc_buffer blocks;  /* int32: the pool's ids, in the order of the entries */
} collection;

static bool has_blocks(const mc_kv_pool *pool, const int32_t *ids) {
    int g = 0;
    while (g < pool->n_groups && ids[g] < 0)
        g++;
    return g < pool->n_groups;
}

static mica_status collect(const mc_kv_pool *pool, collection *c) {
    for (int32_t i = pool->prefixes.oldest; i >= 0; i = pool->prefixes.entries[i].newer) {
        const int32_t *ids = mc_prefix_blocks(&pool->prefixes, i);
        if (!has_blocks(pool, ids)) continue;
        if (!MC_BUFFER_PUSH(&c->entries, int32_t, i)) return mc_fail_nomem("a file of prefixes");
        for (int g = 0; g < pool->n_groups; g++)
            if (ids[g] >= 0 && !MC_BUFFER_PUSH(&c->blocks, int32_t, ids[g]))
                return mc_fail_nomem("a file of prefixes");
    }
    return MICA_OK;
}

static mica_status put_entries(mc_part_writer *w, const mc_kv_pool *pool, const collection *c) {
    size_t n = MC_BUFFER_COUNT(&c->entries, int32_t), groups = (size_t)pool->n_groups;
    int32_t *numbers = mc_array_alloc(groups, sizeof *numbers), block = 0;
    mica_status status = numbers ? MICA_OK : mc_fail_nomem("a file of prefixes");
    for (size_t i = 0; i < n && status == MICA_OK; i++) {
        int32_t entry = MC_BUFFER_AT(&c->entries, int32_t)[i];
        const entry_hash head = {pool->prefixes.entries[entry].hash};
        for (size_t g = 0; g < groups; g++)
            numbers[g] = mc_prefix_blocks(&pool->prefixes, entry)[g] >= 0 ? block++ : -1;
        status = mc_part_put(w, &head, sizeof head);
        if (status == MICA_OK) status = mc_part_put(w, numbers, groups * sizeof *numbers);
    }
    mc_free(numbers);
    return status;
}

/* Writes n blocks of array i. */
static mica_status put_array(mc_part_writer *w, mc_kv_pool *pool, int i, const int32_t *ids,
                             int64_t n, void *room) {
    mica_scope *s = NULL;
    MC_TRY(mica_scope_open(pool->device, &s));
    mica_array x = mc_pool_entries(pool->parts, s, i, ids, n);
    mica_status status = mica_read(x, room, array_bytes(pool, n));
    mica_scope_close(&s);
    return status == MICA_OK ? mc_part_put(w, room, array_bytes(pool, n)) : status;
}

static mica_status put_blocks(mc_part_writer *w, mc_kv_pool *pool, const collection *c) {
    int64_t n = (int64_t)MC_BUFFER_COUNT(&c->blocks, int32_t);
    void *room = n ? mc_alloc(array_bytes(pool, mc_min(n, PIECE))) : NULL;
    mica_status status = room || !n ? MICA_OK : mc_fail_nomem("a file of prefixes");
    for (int64_t at = 0; at < n; at += PIECE)
        for (int i = 0; i < 2 * pool->parts->slots && status == MICA_OK; i++)
            status = put_array(w, pool, i, MC_BUFFER_AT(&c->blocks, int32_t) + at,
                               mc_min(n - at, PIECE), room);
    mc_free(room);
    return status;
}

static mica_status put_all(mc_part_writer *w, const mc_session_model *model, const collection *c) {
    header head;
    MC_TRY(make_header(model, &head));
    head.entries = (int64_t)MC_BUFFER_COUNT(&c->entries, int32_t);
    head.blocks = (int64_t)MC_BUFFER_COUNT(&c->blocks, int32_t);
    MC_TRY(mc_part_put(w, &head, sizeof head));
    MC_TRY(put_entries(w, model->pool, c));
    MC_TRY(put_blocks(w, model->pool, c));
    return mc_part_end(w);
}

mica_status mc_prefix_file_save(const mc_session_model *model, const char *path) {
    collection c = {0};
    mc_save save;
    MC_TRY(check_keeps(model));
    mica_status status = collect(model->pool, &c);
    if (status == MICA_OK) status = mc_save_open(&save, path);
    if (status == MICA_OK) {
        mc_part_writer w = {.file = save.file, .path = path};
        status = mc_save_make_private(&save);
        if (status == MICA_OK) status = put_all(&w, model, &c);
        status = mc_save_close(&save, status);
    }
    mc_buffer_deinit(&c.entries);
    mc_buffer_deinit(&c.blocks);
    return status;
}

/* ---- reading ---- */

/* A file, and where its prefixes go. */
typedef struct loader {
    mc_kv_pool *pool;
    const char *entries; /* [head.entries] of entry_bytes */
    const char *pieces;  /* the blocks */
    int32_t *ids;        /* [head.blocks] blocks of the pool; -1: not taken */
    int64_t first;       /* the first entry that is taken */
    int64_t tokens;      /* of the blocks that were added */
    header head;
} loader;

static mica_status check_header(const mc_session_model *model, const header *head,
                                const char *name) {
    header want;
    if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0)
        return mc_fail(MICA_EFORMAT, "%s: not a file of prefixes", name);
    if (head->byte_order != MC_BYTE_ORDER_MARK || head->version != VERSION)
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
    if (memcmp(head->shape, want.shape, sizeof want.shape) != 0)
        return mc_fail(MICA_EINVAL, "%s: saved with another context or type of caches", name);
    return MICA_OK;
}

/* Compares the file's size with what its counts say, before the checksum reads all of it. */
static mica_status check_size(const mc_kv_pool *pool, const header *head, const mc_part_reader *r) {
    int64_t most = (int64_t)(r->size / entry_bytes(pool)), blocks = INT32_MAX;
    uint64_t fit = r->size / pool->parts->block_bytes;
    if (fit < INT32_MAX) blocks = (int64_t)fit;
    bool fits = head->entries >= 0 && head->entries <= most && head->blocks >= 0 &&
                head->blocks <= blocks &&
                r->size == sizeof *head + (size_t)head->entries * entry_bytes(pool) +
                               pieces_bytes(pool, head->blocks);
    return fits ? MICA_OK
                : mc_fail(MICA_EFORMAT,
                          "%s: %zu bytes are not those of %lld prefixes and %lld "
                          "blocks",
                          r->name, r->size + MC_WORD, (long long)head->entries,
                          (long long)head->blocks);
}

static const char *entry_at(const loader *l, int64_t i) {
    return l->entries + (size_t)i * entry_bytes(l->pool);
}

static const int32_t *numbers_of(const loader *l, int64_t i) {
    return (const int32_t *)(const void *)(entry_at(l, i) + sizeof(entry_hash));
}

static mc_prefix_hash hash_of(const loader *l, int64_t i) {
    entry_hash head;
    memcpy(&head, entry_at(l, i), sizeof head);
    return head.hash;
}

/* Checks that an entry has the blocks of all groups without a window, or only some of others, and
 * marks them: each block is of one entry. */
static mica_status check_entry(const loader *l, int64_t i, const char *name) {
    const mc_kv_pool *pool = l->pool;
    const int32_t *numbers = numbers_of(l, i);
    int full = 0, all = 0, windows = 0;
    bool good = true;
    for (int g = 0; g < pool->n_groups; g++) {
        int32_t number = numbers[g];
        bool window = pool->plan.states[g].span.window > 0, there = number >= 0;
        all += !window;
        full += there && !window;
        windows += there && window;
        good = good && number >= -1 && number < l->head.blocks;
        if (!good || !there) continue;
        good = l->ids[number] == -2;
        l->ids[number] = -1;
    }
    if (good && ((windows && !full) || (full == all && full && !windows))) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: prefix %lld has blocks that it cannot have", name,
                   (long long)i);
}

static mica_status check_entries(const loader *l, const char *name) {
    for (int64_t i = 0; i < l->head.blocks; i++)
        l->ids[i] = -2; /* of no entry so far */
    for (int64_t i = 0; i < l->head.entries; i++)
        MC_TRY(check_entry(l, i, name));
    for (int64_t i = 0; i < l->head.blocks; i++)
        if (l->ids[i] == -2)
            return mc_fail(MICA_EFORMAT, "%s: block %lld is of no prefix", name, (long long)i);
    return MICA_OK;
}

static bool is_known(const loader *l, int64_t i) {
    return mc_prefix_find(&l->pool->prefixes, hash_of(l, i)) >= 0;
}

/* Takes free blocks for the entries used last. A text's blocks come one after the other: the
 * earlier ones are of entries that were used later. */
static mica_status take_blocks(loader *l) {
    mc_kv_pool *pool = l->pool;
    int32_t after = -1;
    for (l->first = l->head.entries; l->first > 0; l->first--) {
        const int32_t *numbers = numbers_of(l, l->first - 1);
        int64_t count = 0;
        if (is_known(l, l->first - 1)) continue;
        for (int g = 0; g < pool->n_groups; g++)
            count += numbers[g] >= 0;
        if (count > pool->parts->n_free) break;
        for (int g = 0; g < pool->n_groups; g++) {
            if (numbers[g] < 0) continue;
            MC_TRY(mc_pool_take(pool, g, after, &l->ids[numbers[g]]));
            after = l->ids[numbers[g]];
        }
    }
    return MICA_OK;
}

/* Writes the blocks of a piece of n blocks that were taken, to an array of the pool. */
static mica_status fill_array(const loader *l, int64_t at, int64_t n, int array, const char *from,
                              char *room) {
    mc_kv_pool *pool = l->pool;
    int64_t heads = pool->parts->shape.heads, taken = 0, k = 0;
    size_t bytes = array_bytes(pool, 1) / (size_t)heads; /* of a head's block */
    int32_t ids[PIECE];
    for (int64_t i = 0; i < n; i++)
        if (l->ids[at + i] >= 0) ids[taken++] = l->ids[at + i];
    if (!taken) return MICA_OK;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++)
            if (l->ids[at + i] >= 0)
                memcpy(room + (size_t)k++ * bytes, from + (size_t)(h * n + i) * bytes, bytes);
    return mc_pool_write(pool, pool->parts, array, ids, taken * pool->block, room);
}

static mica_status fill_blocks(const loader *l) {
    int64_t blocks = l->head.blocks;
    const char *from = l->pieces;
    char *room = blocks ? mc_alloc(array_bytes(l->pool, mc_min(blocks, PIECE))) : NULL;
    mica_status status = room || !blocks ? MICA_OK : mc_fail_nomem("a file of prefixes");
    for (int64_t at = 0; at < blocks; at += PIECE) {
        int64_t n = mc_min(blocks - at, PIECE);
        for (int i = 0; i < 2 * l->pool->parts->slots && status == MICA_OK; i++) {
            status = fill_array(l, at, n, i, from, room);
            from += mc_padded(array_bytes(l->pool, n));
        }
    }
    mc_pool_end_writes(l->pool);
    mc_free(room);
    return status;
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
    const int32_t *numbers = numbers_of(l, i);
    int32_t entry = is_known(l, i) ? -1 : mc_pool_add_prefix(pool, hash_of(l, i));
    for (int g = 0; g < pool->n_groups; g++) {
        int32_t id = numbers[g] < 0 ? -1 : l->ids[numbers[g]];
        if (id < 0) continue;
        if (entry >= 0) mc_pool_name(pool, entry, g, id);
        mc_pool_release(pool, id);
        l->ids[numbers[g]] = -1;
    }
    if (entry < 0) return;
    l->tokens += !pool->has_full || is_full(pool, entry) ? pool->block : 0;
    mc_pool_unpin(pool, entry);
}

static mica_status load(loader *l, const char *name) {
    MC_TRY(check_entries(l, name));
    mica_status status = take_blocks(l);
    if (status == MICA_OK) status = fill_blocks(l);
    for (int64_t i = l->first; status == MICA_OK && i < l->head.entries; i++)
        add_entry(l, i);
    for (int64_t i = 0; i < l->head.blocks; i++) /* what no entry has, after an error all */
        if (l->ids[i] >= 0) mc_pool_release(l->pool, l->ids[i]);
    return status;
}

mica_status mc_prefix_file_parse(const mc_session_model *model, const void *data, size_t size,
                                 const char *name, int64_t *tokens) {
    loader l = {.pool = model->pool};
    const void *entries = NULL, *pieces = NULL;
    *tokens = 0;
    MC_TRY(check_keeps(model));
    if (size < sizeof l.head + MC_WORD)
        return mc_fail(MICA_EFORMAT, "%s: not a file of prefixes", name);
    mc_part_reader r = {"file of prefixes", name, data, size - MC_WORD, sizeof l.head};
    memcpy(&l.head, data, sizeof l.head);
    MC_TRY(check_header(model, &l.head, name));
    MC_TRY(check_size(l.pool, &l.head, &r));
    MC_TRY(mc_part_check(&r));
    MC_TRY(mc_part_take(&r, (size_t)l.head.entries * entry_bytes(l.pool), &entries));
    MC_TRY(mc_part_take(&r, pieces_bytes(l.pool, l.head.blocks), &pieces));
    l.entries = entries;
    l.pieces = pieces;
    l.ids = mc_array_alloc((size_t)mc_max(1, l.head.blocks), sizeof *l.ids);
    if (!l.ids) return mc_fail_nomem("a file of prefixes");
    mica_status status = load(&l, name);
    if (status == MICA_OK) *tokens = l.tokens;
    mc_free(l.ids);
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

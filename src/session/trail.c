#include "session/trail.h"

#include "base/alloc.h"
#include "base/integer.h"

#include <string.h>

enum { EVERY = 16 }; /* blocks from one snapshot to the next */

void mc_trail_init(mc_trail *t, mc_kv_pool *pool, mc_state **states) {
    *t = (mc_trail){
        .pool = pool, .states = states, .keeps = pool && pool->keeps, .seed = mc_prefix_seed("")};
}

void mc_trail_deinit(mc_trail *t) {
    mc_buffer_deinit(&t->hashes);
    mc_buffer_deinit(&t->pins);
    mc_buffer_deinit(&t->marks);
    mc_buffer_deinit(&t->stops);
}

static int64_t count_of(const mc_trail *t) {
    return (int64_t)MC_BUFFER_COUNT(&t->hashes, mc_prefix_hash);
}

static const mc_entry_span *span_of(const mc_trail *t, int group) {
    return &t->states[group]->span;
}

static mc_kv_table *table_of(const mc_trail *t, int group) {
    return &((mc_blocks *)t->states[group])->table;
}

static bool has_snapshots(const mc_trail *t) {
    return mc_snapshots_wanted(&t->pool->snapshots);
}

/* The hash under which blocks of groups with a window are kept. */
static mc_prefix_hash of_windows(mc_prefix_hash hash) {
    hash.high = ~hash.high;
    return hash;
}

mica_status mc_trail_reserve(mc_trail *t, int64_t n) {
    if (!t->keeps || t->lost) return MICA_OK;
    size_t blocks = (size_t)(n / t->pool->block + 1);
    if (mc_buffer_reserve(&t->hashes, blocks * sizeof(mc_prefix_hash)) &&
        mc_buffer_reserve(&t->pins, blocks * sizeof(int32_t)))
        return MICA_OK;
    return mc_fail_nomem("a session's caches");
}

/* ---- blocks and where they are ---- */

/* Blocks that a group needs of a text of n blocks: the first `head` ones, and from `first` on. */
typedef struct needed {
    int64_t head, first;
} needed;

static needed needed_of(const mc_trail *t, int group, int64_t n) {
    const mc_entry_span *span = span_of(t, group);
    int64_t block = t->pool->block, head = span->head / block;
    if (!span->window) return (needed){0, 0};
    int64_t first = mc_max(0, n * block - (span->window - 1)) / block;
    return first > head ? (needed){head, first} : (needed){0, 0};
}

static bool is_needed(needed part, int64_t i) {
    return i < part.head || i >= part.first;
}

/* The text's block i in a group's table; -1: the window has moved on. */
static int32_t block_at(const mc_trail *t, int group, int64_t i) {
    int64_t head = span_of(t, group)->head / t->pool->block;
    int64_t at = i < head ? i : i - (t->total - t->states[group]->count) / t->pool->block;
    if (i >= head && at < head) return -1;
    return table_of(t, group)->ids[at];
}

/* ---- entries ---- */

/* The entry of a hash that has the blocks of all groups without a window; -1: there is none. A file
 * may hold any hashes (session/prefix_file.h). */
static int32_t find_full(const mc_kv_pool *pool, mc_prefix_hash hash) {
    int32_t entry = mc_prefix_find(&pool->prefixes, hash);
    for (int g = 0; g < pool->n_groups && entry >= 0; g++)
        if (!pool->plan.states[g].span.window && mc_prefix_blocks(&pool->prefixes, entry)[g] < 0)
            entry = -1;
    return entry;
}

/* Finds, or adds, the entry of block i. Where it was known, the cache's own copy goes: its bits are
 * the same. */
static int32_t enter(mc_trail *t, mc_prefix_hash hash, int64_t i) {
    mc_kv_pool *pool = t->pool;
    if (!pool->has_full) return -1;
    int32_t entry = find_full(pool, hash);
    bool known = entry >= 0;
    if (known)
        mc_pool_pin(pool, entry);
    else if (mc_prefix_find(&pool->prefixes, hash) < 0)
        entry = mc_pool_add_prefix(pool, hash);
    for (int g = 0; g < pool->n_groups && entry >= 0; g++) {
        int32_t *own = &table_of(t, g)->ids[i], theirs;
        if (span_of(t, g)->window) continue;
        if (!known) {
            mc_pool_name(pool, entry, g, *own);
            continue;
        }
        theirs = mc_prefix_blocks(&pool->prefixes, entry)[g];
        mc_pool_retain(pool, theirs);
        mc_pool_release(pool, *own);
        *own = theirs;
    }
    return entry;
}

/* Tells of block i, which has these tokens, where it has an entry, as the one before it has. */
static void tell(const mc_trail *t, int64_t i, const int32_t *ids) {
    const int32_t *entries = MC_BUFFER_AT(&t->pins, int32_t);
    if (entries[i] < 0 || (i && entries[i - 1] < 0)) return;
    mc_pool_tell(t->pool, entries[i], i ? entries[i - 1] : -1, t->seed, ids);
}

/* Keeps the blocks of windows that block i of the text has. */
static void keep_block(mc_trail *t, int64_t i, int64_t boundary) {
    mc_kv_pool *pool = t->pool;
    mc_prefix_hash hash = of_windows(MC_BUFFER_AT(&t->hashes, mc_prefix_hash)[i]);
    int32_t entry = mc_prefix_find(&pool->prefixes, hash);
    if (entry >= 0)
        mc_pool_pin(pool, entry);
    else
        entry = mc_pool_add_prefix(pool, hash);
    for (int g = 0; g < pool->n_groups && entry >= 0; g++) {
        bool named = mc_prefix_blocks(&pool->prefixes, entry)[g] >= 0;
        if (!span_of(t, g)->window || named || !is_needed(needed_of(t, g, boundary), i)) continue;
        int32_t id = block_at(t, g, i);
        if (id >= 0) mc_pool_name(pool, entry, g, id);
    }
    if (entry >= 0) mc_pool_unpin(pool, entry);
}

/* Keeps what a text needs that goes on after the first `boundary` blocks. */
static void keep_windows(mc_trail *t, int64_t boundary) {
    mc_kv_pool *pool = t->pool;
    if (!pool->has_windows) return;
    for (int64_t i = boundary - 1; i >= 0; i--) {
        bool wanted = false;
        for (int g = 0; g < pool->n_groups && !wanted; g++)
            wanted = span_of(t, g)->window && is_needed(needed_of(t, g, boundary), i);
        if (wanted) keep_block(t, i, boundary);
    }
}

/* ---- along the text ---- */

/* Keeps windows at the marks that the text has reached. */
static void pass_marks(mc_trail *t) {
    int64_t *marks = MC_BUFFER_AT(&t->marks, int64_t);
    size_t n = MC_BUFFER_COUNT(&t->marks, int64_t), left = 0;
    for (size_t i = 0; i < n; i++) {
        if (marks[i] > t->total)
            marks[left++] = marks[i];
        else
            keep_windows(t, mc_min(marks[i] / t->pool->block, count_of(t)));
    }
    t->marks.len = left * sizeof *marks;
}

void mc_trail_extend(mc_trail *t, const int32_t *ids, int64_t start, int64_t total) {
    if (!t->keeps || t->lost) return;
    int64_t block = t->pool->block;
    t->total = total;
    for (int64_t i = count_of(t); (i + 1) * block <= total; i++) {
        mc_prefix_hash before = i ? MC_BUFFER_AT(&t->hashes, mc_prefix_hash)[i - 1] : t->seed;
        if (i * block < start) { /* forgotten */
            mc_trail_leave(t);
            t->lost = true;
            return;
        }
        mc_prefix_hash hash = mc_prefix_next(before, ids + (i * block - start), block);
        int32_t entry = enter(t, hash, i); /* there is room: mc_trail_reserve */
        (void)mc_buffer_add(&t->hashes, &hash, sizeof hash);
        (void)mc_buffer_add(&t->pins, &entry, sizeof entry);
        tell(t, i, ids + (i * block - start));
    }
    pass_marks(t);
}

/* Unpins blocks from n on; the first of them last, for without it the others cannot be found. */
static void unpin_from(mc_trail *t, int64_t n) {
    for (int64_t i = count_of(t) - 1; i >= n; i--) {
        int32_t entry = MC_BUFFER_AT(&t->pins, int32_t)[i];
        if (entry >= 0) mc_pool_unpin(t->pool, entry);
    }
    if (n >= count_of(t)) return;
    t->hashes.len = (size_t)n * sizeof(mc_prefix_hash);
    t->pins.len = (size_t)n * sizeof(int32_t);
}

void mc_trail_cut(mc_trail *t, int64_t to) {
    if (!t->keeps || t->lost) return;
    unpin_from(t, to / t->pool->block);
    t->total = to;
}

void mc_trail_leave(mc_trail *t) {
    if (!t->keeps) return;
    if (!t->lost) keep_windows(t, count_of(t));
    unpin_from(t, 0);
    t->total = 0;
    t->lost = false;
}

void mc_trail_unmark(mc_trail *t) {
    mc_buffer_clear(&t->marks);
    mc_buffer_clear(&t->stops);
}

static mica_status add_mark(mc_buffer *marks, int64_t position) {
    if (MC_BUFFER_PUSH(marks, int64_t, position)) return MICA_OK;
    return mc_fail_nomem("a session's caches");
}

mica_status mc_trail_mark(mc_trail *t, int64_t position) {
    if (!t->keeps || t->lost) return MICA_OK;
    int64_t stop = position / t->pool->block * t->pool->block;
    if (t->pool->has_windows) MC_TRY(add_mark(&t->marks, position));
    if (has_snapshots(t) && stop > t->total) MC_TRY(add_mark(&t->stops, stop));
    pass_marks(t);
    return MICA_OK;
}

/* ---- snapshots ---- */

int64_t mc_trail_next_stop(const mc_trail *t, int64_t n) {
    if (!t->keeps || t->lost || !has_snapshots(t)) return 0;
    const int64_t *stops = MC_BUFFER_AT(&t->stops, int64_t), every = EVERY * t->pool->block;
    int64_t next = (t->total / every + 1) * every;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&t->stops, int64_t); i++)
        if (stops[i] > t->total) next = mc_min(next, stops[i]);
    return next < t->total + n ? next - t->total : 0;
}

void mc_trail_keep(mc_trail *t) {
    if (!t->keeps || t->lost || !has_snapshots(t) || t->total < 1) return;
    int64_t *stops = MC_BUFFER_AT(&t->stops, int64_t), block = t->pool->block;
    size_t n = MC_BUFFER_COUNT(&t->stops, int64_t), left = 0;
    bool wanted = t->total % (EVERY * block) == 0;
    for (size_t i = 0; i < n; i++) {
        wanted = wanted || stops[i] == t->total;
        if (stops[i] > t->total) stops[left++] = stops[i];
    }
    t->stops.len = left * sizeof *stops;
    if (!wanted) return;
    keep_windows(t, t->total / block);
    mc_snapshots_keep(&t->pool->snapshots,
                      MC_BUFFER_AT(&t->hashes, mc_prefix_hash)[t->total / block - 1], t->states,
                      t->total);
}

mica_status mc_trail_copy(const mc_trail *from, mc_trail *to) {
    to->seed = from->seed;
    to->lost = from->lost;
    if (from->hashes.len && (!mc_buffer_add(&to->hashes, from->hashes.data, from->hashes.len) ||
                             !mc_buffer_add(&to->pins, from->pins.data, from->pins.len))) {
        mc_buffer_clear(&to->hashes);
        return mc_fail_nomem("a session's caches");
    }
    to->total = from->total;
    for (int64_t i = 0; i < count_of(to); i++) {
        int32_t entry = MC_BUFFER_AT(&to->pins, int32_t)[i];
        if (entry >= 0) mc_pool_pin(to->pool, entry);
    }
    return MICA_OK;
}

/* ---- what is known of a text ---- */

void mc_trail_count(const mc_trail *t, int64_t asked, int64_t known) {
    if (!t->pool) return;
    t->pool->asked += (uint64_t)asked;
    t->pool->found += (uint64_t)known;
}

/* The last of the first n blocks of a text that a group with a window needs and the pool does not
 * have; -1: there is none. */
static int64_t find_missing(const mc_trail *t, int group, const mc_prefix_hash *hashes, int64_t n) {
    const mc_prefixes *prefixes = &t->pool->prefixes;
    needed part = needed_of(t, group, n);
    for (int64_t i = n - 1; i >= 0; i--) {
        if (i < part.first && i >= part.head) i = part.head - 1;
        if (i < 0) break;
        int32_t entry = mc_prefix_find(prefixes, of_windows(hashes[i]));
        if (entry < 0 || mc_prefix_blocks(prefixes, entry)[group] < 0) return i;
    }
    return -1;
}

/* How many of the first n blocks of a text groups with a window can go on from. Between a block
 * that is missing and n there is no such place, for all need it. */
static int64_t windows_reach(const mc_trail *t, const mc_prefix_hash *hashes, int64_t n) {
    for (int g = 0; g < t->pool->n_groups && n > 0; g++) {
        int64_t missing = span_of(t, g)->window ? find_missing(t, g, hashes, n) : -1;
        if (missing < 0) continue;
        n = missing;
        g = -1; /* all again, for fewer */
    }
    return n;
}

/* The same for states that have snapshots. */
static int64_t snapshots_reach(const mc_trail *t, const mc_prefix_hash *hashes, int64_t n) {
    while (n > 0 && has_snapshots(t) && !mc_snapshots_has(&t->pool->snapshots, hashes[n - 1]))
        n--;
    return n;
}

/* Where all states can go on. */
static int64_t all_reach(const mc_trail *t, const mc_prefix_hash *hashes, int64_t n) {
    int64_t before;
    do {
        before = n;
        n = snapshots_reach(t, hashes, windows_reach(t, hashes, n));
    } while (n < before);
    return n;
}

/* How many of the first `max` blocks of a text layers without windows have: their hashes, to be
 * freed, go into *hashes. */
static int64_t find_shared(const mc_trail *t, const int32_t *ids, int64_t max,
                           mc_prefix_hash **hashes) {
    int64_t block = t->pool->block, found = 0;
    mc_prefix_hash *list = max > 0 ? mc_array_alloc((size_t)max, sizeof *list) : NULL;
    for (; list && found < max; found++) {
        list[found] = mc_prefix_next(found ? list[found - 1] : t->seed, ids + found * block, block);
        if (t->pool->has_full && find_full(t->pool, list[found]) < 0) break;
    }
    *hashes = list;
    return found;
}

int64_t mc_trail_known(const mc_trail *t, const int32_t *ids, int64_t n) {
    mc_prefix_hash *hashes;
    if (!t->keeps) return 0;
    int64_t block = t->pool->block, found = find_shared(t, ids, (n - 1) / block, &hashes);
    found = all_reach(t, hashes, found);
    mc_free(hashes);
    return found * block;
}

void mc_trail_expect(mc_trail *t, const int32_t *ids, int64_t n) {
    mc_prefix_hash *hashes;
    (void)mc_trail_mark(t, n);
    (void)mc_trail_mark(t, n - 1); /* so much is known of the same text */
    if (!t->keeps || t->lost || !has_snapshots(t) || !t->pool->has_full) return;
    (void)mc_trail_mark(t, find_shared(t, ids, (n - 1) / t->pool->block, &hashes) * t->pool->block);
    mc_free(hashes);
}

/* Puts block i of a text of n blocks into the tables. */
static void take_block(mc_trail *t, int64_t i, int64_t n, mc_prefix_hash hash) {
    mc_kv_pool *pool = t->pool;
    int32_t full = pool->has_full ? mc_prefix_find(&pool->prefixes, hash) : -1;
    int32_t part = pool->has_windows ? mc_prefix_find(&pool->prefixes, of_windows(hash)) : -1;
    if (full >= 0) mc_pool_pin(pool, full);
    (void)mc_buffer_add(&t->hashes, &hash, sizeof hash);
    (void)mc_buffer_add(&t->pins, &full, sizeof full);
    for (int g = 0; g < pool->n_groups; g++) {
        bool windows = span_of(t, g)->window > 0;
        if (windows && !is_needed(needed_of(t, g, n), i)) continue;
        int32_t id = mc_prefix_blocks(&pool->prefixes, windows ? part : full)[g];
        table_of(t, g)->ids[table_of(t, g)->n++] = id;
        mc_pool_retain(pool, id);
    }
    if (part < 0) return;
    mc_pool_pin(pool, part); /* used last */
    mc_pool_unpin(pool, part);
}

mica_status mc_trail_take(mc_trail *t, mica_scope *home, const int32_t *ids, int64_t known) {
    int64_t block = t->pool->block, n = known / block;
    MC_TRY(mc_trail_reserve(t, known));
    if (has_snapshots(t)) {
        mc_prefix_hash last = t->seed;
        for (int64_t i = 0; i < n; i++)
            last = mc_prefix_next(last, ids + i * block, block);
        MC_TRY(mc_snapshots_take(&t->pool->snapshots, last, t->states, home, known));
    }
    for (int g = 0; g < t->pool->n_groups; g++)
        MC_TRY(mc_kv_table_reserve(table_of(t, g), n));
    mc_prefix_hash hash = t->seed;
    for (int64_t i = 0; i < n; i++) {
        hash = mc_prefix_next(hash, ids + i * block, block);
        take_block(t, i, n, hash);
        tell(t, i, ids + i * block);
    }
    t->total = known;
    for (int g = 0; g < t->pool->n_groups; g++)
        t->states[g]->count = table_of(t, g)->n * block;
    return MICA_OK;
}

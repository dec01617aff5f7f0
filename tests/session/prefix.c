/* Prefixes that a pool keeps: which are found, that sessions which begin with them have the bits of
 * sessions that computed everything, and that they go when blocks are needed; and that events tell
 * of all this. The hashes are compared with those of python-xxhash. */
#include "model/fixture.h"

#include "session/session.h"
#include "session/session_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, CHUNK = 64, MAX_TEXT = 1000 };

typedef struct world {
    model_fixture f;
    mc_session_model model;
    uint64_t random;
} world;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static int64_t below(world *w, int64_t n) {
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((w->random >> 33) % (uint64_t)n);
}

static void open_world(world *w, const char *model, int64_t blocks, int64_t context) {
    *w = (world){.random = 11};
    if (!mc_prefix_available()) skip();
    fixture_open(model, &w->f);
    w->model = (mc_session_model){.lm = w->f.lm, .device = w->f.device, .context = context};
    mc_kv_pool_options options = {
        .bytes = 1 << 24, .block = BLOCK, .context = context, .keep = true};
    mc_kv_pool *pool;
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &pool));
    options.bytes = pool->parts->block_bytes * (uint64_t)(blocks * pool->n_groups);
    if (mc_snapshots_wanted(&pool->snapshots)) options.bytes += options.bytes / 7 + 4096;
    mc_kv_pool_close(&pool);
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &w->model.pool));
}

static void close_world(world *w) {
    const mc_kv_pool *pool = w->model.pool;
    assert_int_equal(mc_kv_pool_available(pool), pool->blocks); /* nothing is pinned */
    mc_kv_pool_close(&w->model.pool);
    fixture_close(&w->f);
}

/* Every block has as many references as tables and entries name it. */
static void check_accounts(const world *w, mc_session *const *sessions, size_t n) {
    mc_kv_pool *pool = w->model.pool;
    uint32_t *refs = calloc((size_t)pool->blocks, sizeof *refs);
    assert_non_null(refs);
    for (size_t i = 0; i < n; i++)
        for (int g = 0; g < pool->n_groups; g++) {
            const mc_kv_table *table = &((mc_blocks *)sessions[i]->cache.states[g])->table;
            for (int64_t k = 0; k < table->n; k++)
                refs[table->ids[k]]++;
        }
    int32_t entries = 0, unused = 0;
    for (uint32_t b = 0; b < pool->prefixes.n_buckets; b++)
        for (int32_t e = pool->prefixes.buckets[b]; e >= 0; e = pool->prefixes.entries[e].next) {
            entries++;
            for (int g = 0; g < pool->n_groups; g++) {
                int32_t id = mc_prefix_blocks(&pool->prefixes, e)[g];
                if (id >= 0) refs[id]++;
            }
        }
    assert_int_equal(entries, pool->prefixes.count);
    for (int32_t i = 0; i < pool->blocks; i++) {
        assert_int_equal(refs[i], pool->refs[i]);
        unused += refs[i] == 0;
    }
    assert_int_equal(unused, pool->parts->n_free);
    int64_t idle = 0;
    for (int32_t e = pool->prefixes.newest; e >= 0; e = pool->prefixes.entries[e].older)
        for (int g = 0; g < pool->n_groups; g++) {
            int32_t id = mc_prefix_blocks(&pool->prefixes, e)[g];
            idle += id >= 0 && pool->refs[id] == 1;
        }
    assert_int_equal(mc_kv_pool_available(pool), unused + idle);
    free(refs);
}

static mc_session *open_session(const mc_session_model *model) {
    mc_session *session;
    must(mc_session_open(model, CHUNK, &session));
    return session;
}

/* Reads a prompt, as streams do. *known receives how many tokens were not computed. */
static const float *prompt(mc_session *session, const int32_t *ids, int64_t n, int64_t *known) {
    const float *logits = NULL;
    int64_t at = mc_session_reuse(session, ids, n);
    if (known) *known = at;
    for (int64_t step; at < n; at += step) {
        step = n - at < CHUNK ? n - at : CHUNK;
        must(mc_session_feed(session, ids + at, step, &logits));
    }
    return logits;
}

/* Fails unless a prompt has the bits of one that is computed anew. */
static void compare(world *w, const int32_t *ids, int64_t n, const float *got, const char *what) {
    mc_session_model plain = w->model;
    plain.pool = NULL;
    mc_session *session = open_session(&plain);
    fixture_compare(got, prompt(session, ids, n, NULL), (size_t)w->f.lm->spec.vocab,
                    fixture_same(&w->f), "%s: %s", w->f.name, what);
    mc_session_close(&session);
}

static void make_text(world *w, int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)below(w, w->f.lm->spec.vocab);
}

static int recurrent_families;

/* ---- hashes ---- */

/* xxhash.xxh3_128_intdigest(b"") and of b"tenant"; then of that, little-endian, followed by the
 * tokens 0 .. 31 as int32, little-endian. Python's xxhash 4.1.0. */
static void hashes_are_xxh3(void **state) {
    (void)state;
    int32_t ids[32];
    if (!mc_prefix_available()) skip();
    for (int i = 0; i < 32; i++)
        ids[i] = i;
    mc_prefix_hash none = mc_prefix_seed(""), salted = mc_prefix_seed("tenant");
    assert_true(none.high == UINT64_C(0x99aa06d3014798d8));
    assert_true(none.low == UINT64_C(0x6001c324468d497f));
    mc_prefix_hash next = mc_prefix_next(salted, ids, 32);
    char text[100];
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64,
             salted.high, salted.low, next.high, next.low);
    assert_string_equal(text, "69401cc3ff6ed50015bc5af50bdf1263 5ce57f9890597c9dbce9e5bb349a6da3");
}

/* ---- what is found ---- */

/* Another session begins where the first one's full blocks end; of the own salt alone. */
static void a_prompt_is_read_once(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_tied", "gemma3_text_f32", "gemma2_f32"};
    for (int i = 0; i < 3; i++) {
        world w;
        int32_t ids[MAX_TEXT];
        int64_t known;
        open_world(&w, models[i], 60, 0);
        make_text(&w, ids, 400);
        mc_session *one = open_session(&w.model), *two = open_session(&w.model);
        must(mc_session_mark(one, 300)); /* a message ends there */
        compare(&w, ids, 350, prompt(one, ids, 350, &known), "the first");
        assert_int_equal(known, 0);
        compare(&w, ids, 350, prompt(two, ids, 350, &known), "the same prompt");
        assert_int_equal(known, 349 / BLOCK * BLOCK);
        mc_session_reset(two);
        ids[310] ^= 1; /* the text changes behind the mark */
        compare(&w, ids, 400, prompt(two, ids, 400, &known), "another end");
        assert_int_equal(known, 300 / BLOCK * BLOCK);
        mc_session_set_salt(two, "another tenant");
        compare(&w, ids, 400, prompt(two, ids, 400, &known), "another salt");
        assert_int_equal(known, 0);
        check_accounts(&w, (mc_session *[]){one, two}, 2);
        mc_session_close(&one);
        mc_session_close(&two);
        close_world(&w);
    }
}

/* The whole of an answered conversation is known to the next session. */
static void the_end_of_a_session_is_known(void **state) {
    (void)state;
    world w;
    int32_t ids[MAX_TEXT];
    int64_t known;
    open_world(&w, "gemma3_text_f32", 60, 0);
    make_text(&w, ids, 500);
    mc_session *session = open_session(&w.model);
    (void)prompt(session, ids, 100, NULL);
    for (int i = 100; i < 300; i++)
        must(mc_session_feed(session, ids + i, 1, NULL));
    mc_session_close(&session);
    session = open_session(&w.model);
    compare(&w, ids, 500, prompt(session, ids, 500, &known), "the next turn");
    assert_int_equal(known, 300 / BLOCK * BLOCK);
    mc_session_close(&session);
    close_world(&w);
}

/* Equal texts that were computed side by side end up in the same blocks. */
static void copies_become_one(void **state) {
    (void)state;
    world w;
    int32_t ids[MAX_TEXT];
    open_world(&w, "qwen3_tied", 60, 0);
    make_text(&w, ids, 320);
    mc_session *sessions[3];
    for (int i = 0; i < 3; i++)
        sessions[i] = open_session(&w.model);
    for (int at = 0; at < 320; at += 16)
        for (int i = 0; i < 3; i++)
            must(mc_session_feed(sessions[i], ids + at, 16, NULL));
    assert_int_equal(w.model.pool->parts->n_free, 60 - 10);
    check_accounts(&w, sessions, 3);
    for (int i = 0; i < 3; i++)
        mc_session_close(&sessions[i]);
    close_world(&w);
}

/* ---- recurrent layers ---- */

/* What a text has in common with those before: its end, or where it was seen to part from them. */
static void read_alike(world *w) {
    int32_t one[MAX_TEXT], two[MAX_TEXT];
    int64_t known;
    make_text(w, one, 700);
    make_text(w, two, 700);
    memcpy(two, one, 100 * sizeof *two);
    const struct {
        const int32_t *ids;
        int64_t n, known;
    } reads[] = {{one, 200, 0},  {one, 200, 192}, {one, 300, 192}, {one, 700, 288},
                 {two, 200, 0},  {two, 150, 96},  {two, 193, 192}, {one, 600, 512},
                 {one, 161, 96}, {one, 161, 160}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        mc_session *session = open_session(&w->model);
        const float *got = prompt(session, reads[i].ids, reads[i].n, &known);
        compare(w, reads[i].ids, reads[i].n, got, "a prompt that goes on from a snapshot");
        if (known != reads[i].known) fail_msg("%s: prompt %zu: %" PRId64, w->f.name, i, known);
        check_accounts(w, &session, 1);
        mc_session_close(&session);
    }
    assert_true(mc_kv_pool_kept_bytes(w->model.pool) >
                (uint64_t)w->model.pool->parts->idle * w->model.pool->parts->block_bytes);
}

/* Of every family with states that can only go back to snapshots. */
static void check_recurrent(const model_fixture *f) {
    world w = {.f = *f, .random = 11};
    const mc_kv_pool_options options = {.bytes = 1 << 26, .block = BLOCK, .keep = true};
    mc_state_plan plan;
    must(mc_state_plan_init(&plan, f->lm, NULL, 0, 0, BLOCK));
    bool wanted = plan.together && plan.together < plan.n && plan.states[0].shape.heads > 0;
    mc_state_plan_deinit(&plan);
    if (!wanted) return;
    w.model = (mc_session_model){.lm = f->lm, .device = f->device};
    must(mc_kv_pool_open(f->lm, f->device, &options, &w.model.pool));
    assert_true(w.model.pool->keeps);
    read_alike(&w);
    mc_kv_pool_close(&w.model.pool);
    recurrent_families++;
}

static void recurrent_layers_go_on(void **state) {
    (void)state;
    if (!mc_prefix_available()) skip();
    recurrent_families = 0;
    fixture_each(check_recurrent);
    if (!getenv("MICA_FIXTURES")) assert_true(recurrent_families >= 8);
}

/* A prompt of whole blocks, read again and again: all but its last block is known, however its
 * layers remember. */
static void check_whole_blocks(const model_fixture *f) {
    world w = {.f = *f, .random = 11};
    const mc_kv_pool_options options = {.bytes = 1 << 26, .block = BLOCK, .keep = true};
    int32_t ids[8 * BLOCK];
    w.model = (mc_session_model){.lm = f->lm, .device = f->device};
    must(mc_kv_pool_open(f->lm, f->device, &options, &w.model.pool));
    for (int64_t blocks = 1; blocks <= 8 && w.model.pool->keeps; blocks++) {
        make_text(&w, ids, blocks * BLOCK);
        for (int time = 0; time < 3; time++) {
            int64_t known, want = time ? (blocks - 1) * BLOCK : 0;
            mc_session *session = open_session(&w.model);
            const float *got = prompt(session, ids, blocks * BLOCK, &known);
            compare(&w, ids, blocks * BLOCK, got, "a prompt of whole blocks");
            if (known != want)
                fail_msg("%s: %" PRId64 " blocks: %" PRId64 " tokens known", f->name, blocks,
                         known);
            mc_session_close(&session);
        }
    }
    mc_kv_pool_close(&w.model.pool);
}

static void whole_blocks(void **state) {
    (void)state;
    if (!mc_prefix_available()) skip();
    fixture_each(check_whole_blocks);
}

/* Snapshots have a share of the limit; the one used longest ago goes, and what needs it is computed
 * again. */
static void few_snapshots(void **state) {
    (void)state;
    world w;
    int32_t texts[3][150];
    int64_t known;
    open_world(&w, "../families/granitehyb_dense_q4", 40, 0);
    mc_kv_pool_options options = {.block = BLOCK, .keep = true};
    options.bytes = 8 * 2 * w.model.pool->snapshots.bytes;
    mc_kv_pool_close(&w.model.pool);
    must(mc_kv_pool_open(w.f.lm, w.f.device, &options, &w.model.pool));
    const mc_kv_pool *pool = w.model.pool;
    assert_int_equal(pool->snapshots.known.max, 2);
    assert_true((uint64_t)pool->blocks * pool->parts->block_bytes + 2 * pool->snapshots.bytes <=
                options.bytes);
    mc_session *session = open_session(&w.model);
    static const int64_t order[] = {0, 1, 0, 2, 1}, want[] = {0, 0, 128, 0, 0};
    for (int i = 0; i < 3; i++)
        make_text(&w, texts[i], 150);
    for (int i = 0; i < 5; i++) {
        const int32_t *text = texts[order[i]];
        compare(&w, text, 150, prompt(session, text, 150, &known), "few snapshots");
        assert_int_equal(known, want[i]);
        mc_session_reset(session);
    }
    assert_int_equal(pool->snapshots.known.count, 2);
    mc_session_close(&session);
    close_world(&w);
}

/* The texts used longest ago go, their ends first. */
static void the_oldest_go_first(void **state) {
    (void)state;
    world w;
    int32_t texts[4][256];
    int64_t known;
    open_world(&w, "qwen3_tied", 21, 0);
    mc_session *session = open_session(&w.model);
    for (int i = 0; i < 3; i++) { /* 6 blocks each */
        make_text(&w, texts[i], 200);
        (void)prompt(session, texts[i], 200, NULL);
        mc_session_reset(session);
    }
    (void)prompt(session, texts[0], 200, &known); /* used again */
    assert_int_equal(known, 192);
    mc_session_reset(session);
    make_text(&w, texts[3], 256);
    (void)prompt(session, texts[3], 256, &known); /* takes 8 blocks: 3 are free */
    mc_session_reset(session);
    (void)prompt(session, texts[0], 200, &known); /* takes what was left of the second text */
    assert_int_equal(known, 192);
    mc_session_reset(session);
    (void)prompt(session, texts[2], 200, &known);
    assert_int_equal(known, 192);
    mc_session_reset(session);
    compare(&w, texts[1], 200, prompt(session, texts[1], 200, &known), "what went");
    assert_int_equal(known, 0);
    mc_session_close(&session);
    close_world(&w);
}

/* Texts that share random beginnings, in sessions that come and go, in a pool that is too small for
 * all: always the bits of a text alone, always the right accounts. */
static void random_conversations(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t blocks, context;
    } lives[] = {{"qwen3_tied", 40, 0},
                 {"gemma3_text_f32", 40, 0},
                 {"gemma2_f32", 30, 0},
                 {"gemma3_text_f32", 40, 100},
                 {"../families/lfm2_hf", 40, 0},
                 {"../families/qwen3_next_hf", 40, 0},
                 {"../families/granitehyb_dense_q4", 30, 0},
                 {"../families/nemotron_h_hf", 30, 0}};
    enum { SESSIONS = 3, TEXTS = 4 };
    for (size_t life = 0; life < sizeof lives / sizeof *lives; life += (size_t)test_case_step()) {
        world w;
        static int32_t texts[TEXTS][400];
        int64_t all_known = 0, known;
        open_world(&w, lives[life].model, lives[life].blocks, lives[life].context);
        mc_session *sessions[SESSIONS];
        for (int i = 0; i < SESSIONS; i++)
            sessions[i] = open_session(&w.model);
        for (int i = 0; i < TEXTS; i++)
            make_text(&w, texts[i], 400);
        for (int step = 0; step < (test_device_keeps_order() ? 80 : 10); step++) {
            int32_t *text = texts[below(&w, TEXTS)], *other = texts[below(&w, TEXTS)];
            mc_session **session = &sessions[below(&w, SESSIONS)];
            int64_t n = 1 + below(&w, 380);
            if (below(&w, 3) == 0) /* a text that goes another way from a place on */
                memcpy(other, text, (size_t)below(&w, n) * sizeof *text);
            if (below(&w, 4) == 0) mc_session_reset(*session);
            for (int i = 0; i < 3; i++)
                must(mc_session_mark(*session, below(&w, n)));
            compare(&w, text, n, prompt(*session, text, n, &known), "a conversation");
            all_known += known;
            for (int64_t i = 0; i < below(&w, 12); i++)
                must(mc_session_feed(*session, text + n + i, 1, NULL));
            if (below(&w, 6) == 0) {
                mc_session *fork;
                must(mc_session_fork(*session, &fork));
                mc_session_close(session);
                *session = fork;
            }
            check_accounts(&w, sessions, SESSIONS);
        }
        assert_true(all_known > 0);
        for (int i = 0; i < SESSIONS; i++)
            mc_session_close(&sessions[i]);
        check_accounts(&w, NULL, 0);
        close_world(&w);
    }
}

/* ---- events ---- */

/* What a reader of the events knows. */
typedef struct reader {
    world *w;
    mc_prefix_hash hashes[200];
    size_t count, stored, removed;
} reader;

static size_t place_of(const reader *r, mc_prefix_hash hash) {
    size_t i = 0;
    while (i < r->count && (r->hashes[i].low != hash.low || r->hashes[i].high != hash.high))
        i++;
    return i;
}

static mc_prefix_hash hash_of(const mc_kv_name *name) {
    mc_prefix_hash hash;
    memcpy(&hash, name->bytes, sizeof hash);
    return hash;
}

/* A block is told of once, after those before it; its name is the hash of all. */
static void on_stored(void *user, mc_prefix_hash seed, const mc_kv_name *before, const int32_t *ids,
                      int64_t count, mc_kv_name *name) {
    reader *r = user;
    const mc_prefix_hash plain = mc_prefix_seed("");
    assert_int_equal(count, BLOCK);
    assert_memory_equal(&seed, &plain, sizeof seed);
    if (before) assert_true(place_of(r, hash_of(before)) < r->count);
    mc_prefix_hash hash = mc_prefix_next(before ? hash_of(before) : seed, ids, count);
    memcpy(name->bytes, &hash, sizeof hash);
    assert_int_equal(place_of(r, hash), r->count);
    assert_true(r->count < sizeof r->hashes / sizeof *r->hashes);
    r->hashes[r->count++] = hash;
    r->stored++;
}

static void on_removed(void *user, const mc_kv_name *name) {
    reader *r = user;
    size_t i = place_of(r, hash_of(name));
    assert_true(i < r->count);
    r->hashes[i] = r->hashes[--r->count];
    r->removed++;
}

/* How many of the first tokens of a text a reader would find, in whole blocks. */
static int64_t found_by(const reader *r, const int32_t *ids, int64_t n) {
    mc_prefix_hash hash = mc_prefix_seed("");
    int64_t at = 0;
    for (; at + BLOCK < n; at += BLOCK) {
        hash = mc_prefix_next(hash, ids + at, BLOCK);
        if (place_of(r, hash) == r->count) break;
    }
    return at;
}

/* A reader of the events knows before each prompt how much of it the pool has. */
static void events_tell_what_is_known(void **state) {
    (void)state;
    enum { TEXTS = 4 };
    static int32_t texts[TEXTS][400];
    static reader r;
    world w;
    open_world(&w, "qwen3_tied", 12, 0);
    r = (reader){.w = &w};
    w.model.pool->events = (mc_kv_events){on_stored, on_removed, &r};
    for (int i = 0; i < TEXTS; i++)
        make_text(&w, texts[i], 400);
    mc_session *session = open_session(&w.model);
    for (int step = 0; step < (test_device_keeps_order() ? 40 : 10); step++) {
        int32_t *text = texts[below(&w, TEXTS)], *other = texts[below(&w, TEXTS)];
        int64_t n = 1 + below(&w, 200), known;
        if (below(&w, 3) == 0) memcpy(other, text, (size_t)below(&w, n) * sizeof *text);
        mc_session_reset(session);
        int64_t want = found_by(&r, text, n);
        (void)prompt(session, text, n, &known);
        assert_int_equal(known, want);
        assert_int_equal((int32_t)r.count, w.model.pool->prefixes.count);
    }
    if (test_device_keeps_order()) assert_true(r.stored > 20 && r.removed > 10);
    mc_session_close(&session);
    close_world(&w);
    assert_int_equal(r.count, 0);
}

static world *failing;
static int32_t failing_ids[200];

static bool read_twice(void *arg) {
    mc_session *one = NULL, *two = NULL;
    int64_t at = 0;
    (void)arg;
    bool ok = mc_session_open(&failing->model, CHUNK, &one) == MICA_OK &&
              mc_session_mark(one, 100) == MICA_OK &&
              mc_session_open(&failing->model, CHUNK, &two) == MICA_OK;
    for (mc_session *s = one; ok && s; s = s == one ? two : NULL) {
        at = mc_session_reuse(s, failing_ids, 200);
        for (; ok && at < 200; at += 50)
            ok = mc_session_feed(s, failing_ids + at, at + 50 > 200 ? 200 - at : 50, NULL) ==
                 MICA_OK;
    }
    mc_session_close(&one);
    mc_session_close(&two);
    check_accounts(failing, NULL, 0);
    return ok;
}

static void fail_each_allocation(const char *model) {
    world w;
    open_world(&w, model, 60, 0);
    failing = &w;
    make_text(&w, failing_ids, 200);
    for (uint64_t n = 1;; n++) {
        mc_alloc_fail_at(n);
        bool done = read_twice(NULL), failed = mc_alloc_count() >= n;
        mc_alloc_fail_at(0);
        if (!failed) {
            assert_true(done);
            break;
        }
    }
    mc_session *session = open_session(&w.model);
    compare(&w, failing_ids, 200, prompt(session, failing_ids, 200, NULL), "afterwards");
    mc_session_close(&session);
    close_world(&w);
}

/* Without memory nothing is known of a prompt, or reading it fails; what is kept stays right. */
static void each_allocation_may_fail(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    fail_each_allocation("gemma3_text_f32");
    fail_each_allocation("../families/lfm2_hf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_xxh3),
        cmocka_unit_test(a_prompt_is_read_once),
        cmocka_unit_test(the_end_of_a_session_is_known),
        cmocka_unit_test(copies_become_one),
        cmocka_unit_test(recurrent_layers_go_on),
        cmocka_unit_test(whole_blocks),
        cmocka_unit_test(few_snapshots),
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(random_conversations),
        cmocka_unit_test(events_tell_what_is_known),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

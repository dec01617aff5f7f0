/* Sessions on a pool of blocks, compared with sessions that have buffers of their own: the same
 * bits, whatever is fed, cut, forked and computed together; and the pool's accounts. */
#include "model/fixture.h"

#include "device/device.h"
#include "session/session.h"
#include "session/session_file.h"
#include "task/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 5, MAX_TEXT = 800, CHUNK = 96 };

/* A session on the pool, and the one that it is compared with. */
typedef struct pair {
    mc_session *paged, *plain;
    int32_t text[MAX_TEXT];
    int64_t n;
} pair;

typedef struct world {
    const model_fixture *f;
    mc_session_model plain, paged;
    mc_batch batch;
    pair pairs[PAIRS];
    uint64_t random;
    int64_t refused; /* how often the pool had no blocks left */
} world;

static int64_t below(world *w, int64_t n) {
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((w->random >> 33) % (uint64_t)n);
}

static int32_t any_token(world *w) {
    return (int32_t)below(w, w->f->lm->spec.vocab);
}

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static mc_kv_pool *open_pool(const model_fixture *f, int64_t blocks, int64_t block,
                             int64_t context) {
    /* How large a block is says a pool of a single group's blocks. */
    mc_kv_pool *pool;
    const mc_kv_pool_options large = {
        .bytes = UINT64_C(1) << 24, .block = block, .context = context};
    must(mc_kv_pool_open(f->lm, f->device, &large, &pool));
    const mc_kv_pool_options options = {
        .bytes = pool->parts->block_bytes * (uint64_t)blocks * (uint64_t)pool->n_groups + 100,
        .block = block,
        .context = context};
    mc_kv_pool_close(&pool);
    must(mc_kv_pool_open(f->lm, f->device, &options, &pool));
    assert_int_equal(pool->blocks, blocks * pool->n_groups);
    return pool;
}

/* Every block is free, or has as many references as tables name it. */
static void check_accounts(const world *w) {
    const mc_kv_pool *pool = w->paged.pool;
    uint32_t *refs = calloc((size_t)pool->blocks, sizeof *refs);
    assert_non_null(refs);
    for (int i = 0; i < PAIRS; i++) {
        for (int g = 0; g < pool->n_groups; g++) {
            const mc_kv_table *table =
                &((const mc_blocks *)w->pairs[i].paged->cache.states[g])->table;
            for (int64_t k = 0; k < table->n; k++)
                refs[table->ids[k]]++;
        }
    }
    int32_t unused = 0;
    for (int32_t i = 0; i < pool->blocks; i++) {
        assert_int_equal(refs[i], pool->refs[i]);
        unused += refs[i] == 0;
    }
    assert_int_equal(pool->parts->n_free, unused);
    free(refs);
}

static void forget(pair *p) {
    mc_session_reset(p->paged);
    mc_session_reset(p->plain);
    p->n = 0;
}

static void compare(const world *w, const float *got, const float *want, const char *what) {
    fixture_compare(got, want, (size_t)w->f->lm->spec.vocab, fixture_same(w->f), "%s: %s",
                    w->f->name, what);
}

/* Feeds a text from where a session has got to. NULL: the pool has no blocks left. */
static const float *feed_rest(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    for (int64_t at = mc_session_count(session), step; at < n; at += step) {
        step = n - at < CHUNK ? n - at : CHUNK;
        bool known = step == 1 && mc_session_knows(session, ids[at]);
        bool fits = known || mc_cache_can_reserve(&session->cache, step);
        mica_status status = mc_session_feed(session, ids + at, step, &logits);
        if (status == MICA_ENOMEM && !fits) return NULL;
        must(status);
        assert_true(fits);
    }
    return logits;
}

static void feed_pair(world *w, pair *p, const char *what) {
    const float *got = feed_rest(p->paged, p->text, p->n);
    if (!got) {
        assert_non_null(strstr(mica_last_error(), "blocks of the KV pool"));
        w->refused++;
        forget(p);
        return;
    }
    compare(w, got, feed_rest(p->plain, p->text, p->n), what);
}

/* ---- what may be done ---- */

static void do_feed(world *w, pair *p) {
    static const int64_t sizes[] = {1, 1, 2, 31, 32, 33, 63, 64, 65, 96};
    int64_t n = sizes[below(w, sizeof sizes / sizeof *sizes)];
    if (p->n + n > MAX_TEXT) return;
    while (n--)
        p->text[p->n++] = any_token(w);
    feed_pair(w, p, "a chunk");
}

/* A step of some sessions together. */
static void do_batch(world *w, pair *unused) {
    mc_session *sessions[PAIRS];
    int32_t ids[PAIRS];
    pair *rows[PAIRS];
    size_t n = 0;
    (void)unused;
    for (int i = 0; i < PAIRS; i++) {
        pair *p = &w->pairs[i];
        if (p->n == 0 || p->n + 1 > MAX_TEXT || below(w, 4) == 0) continue;
        if (!mc_cache_can_reserve(&p->paged->cache, 1)) continue;
        must(mc_session_reserve(p->paged, 1));
        rows[n] = p;
        sessions[n] = p->paged;
        ids[n++] = p->text[p->n++] = any_token(w);
    }
    if (n == 0) return;
    must(mc_batch_feed(&w->batch, sessions, ids, n));
    for (size_t i = 0; i < n; i++)
        feed_pair(w, rows[i], "a row of a batch");
}

/* A step of some sessions with guesses, of which the first few are right. */
static void do_batch_ahead(world *w, pair *unused) {
    mc_session *sessions[PAIRS];
    int32_t ids[8 * PAIRS], *at = ids;
    int64_t counts[PAIRS];
    pair *rows[PAIRS];
    size_t n = 0;
    (void)unused;
    for (int i = 0; i < PAIRS; i++) {
        pair *p = &w->pairs[i];
        int64_t count = 1 + below(w, 8);
        if (p->n == 0 || p->n + count > MAX_TEXT || below(w, 4) == 0) continue;
        if (!mc_cache_can_reserve(&p->paged->cache, count)) continue;
        must(mc_session_reserve(p->paged, count));
        for (int64_t k = 0; k < count; k++)
            *at++ = any_token(w);
        rows[n] = p;
        sessions[n] = p->paged;
        counts[n++] = count;
    }
    if (n == 0) return;
    must(mc_batch_look_ahead(&w->batch, sessions, ids, counts, n));
    at = ids;
    for (size_t i = 0; i < n; at += counts[i++])
        for (int64_t k = 0, right = 1 + below(w, counts[i]); k < right; k++) {
            assert_true(mc_session_knows(sessions[i], at[k]));
            rows[i]->text[rows[i]->n++] = at[k];
            feed_pair(w, rows[i], "a guess of a batch");
        }
}

/* Another end of the text. */
static void do_cut(world *w, pair *p) {
    if (p->n < 2) return;
    int64_t back = below(w, 3) ? below(w, p->n < 70 ? p->n : 70) : below(w, p->n);
    p->n -= back;
    p->text[p->n - 1] = any_token(w);
    (void)mc_session_reuse(p->paged, p->text, p->n);
    (void)mc_session_reuse(p->plain, p->text, p->n);
    feed_pair(w, p, "after a cut");
}

static void do_fork(world *w, pair *p) {
    pair *to = &w->pairs[below(w, PAIRS)];
    if (to == p || p->n == 0) return;
    forget(to);
    mc_session_close(&to->paged);
    must(mc_session_fork(p->paged, &to->paged));
    memcpy(to->text, p->text, sizeof to->text);
    to->n = p->n;
    assert_int_equal(mc_session_count(to->paged), p->n);
    compare(w, mc_session_logits(to->paged), feed_rest(to->plain, to->text, to->n), "a fork");
}

/* Guesses, of which the first few are right. */
static void do_ahead(world *w, pair *p) {
    int32_t ids[8];
    int64_t n = 1 + below(w, 8), right = 1 + below(w, n);
    if (p->n == 0 || p->n + n > MAX_TEXT || !mc_cache_can_reserve(&p->paged->cache, n)) return;
    for (int64_t i = 0; i < n; i++)
        ids[i] = any_token(w);
    must(mc_session_look_ahead(p->paged, ids, n));
    for (int64_t i = 0; i < right; i++) {
        p->text[p->n++] = ids[i];
        feed_pair(w, p, "a guess");
    }
}

static void do_reset(world *w, pair *p) {
    if (below(w, 3) == 0) forget(p);
}

static void live(world *w, int steps) {
    static void (*const acts[])(world *, pair *) = {
        do_feed, do_feed,  do_batch, do_batch,       do_batch,      do_cut,
        do_fork, do_ahead, do_reset, do_batch_ahead, do_batch_ahead};
    for (int i = 0; i < steps; i++) {
        acts[below(w, sizeof acts / sizeof *acts)](w, &w->pairs[below(w, PAIRS)]);
        check_accounts(w);
    }
}

static void open_world(world *w, const model_fixture *f, int64_t blocks, int64_t block,
                       int64_t context) {
    w->f = f;
    w->plain = (mc_session_model){.lm = f->lm, .device = f->device, .context = context};
    w->paged = w->plain;
    w->paged.pool = open_pool(f, blocks, block, context);
    must(mc_batch_init(&w->batch, &w->paged));
    for (int i = 0; i < PAIRS; i++) {
        w->pairs[i].n = 0;
        must(mc_session_open(&w->paged, CHUNK, &w->pairs[i].paged));
        must(mc_session_open(&w->plain, CHUNK, &w->pairs[i].plain));
    }
}

static void close_world(world *w) {
    for (int i = 0; i < PAIRS; i++) {
        mc_session_close(&w->pairs[i].paged);
        mc_session_close(&w->pairs[i].plain);
    }
    mc_batch_deinit(&w->batch);
    assert_int_equal(mc_kv_pool_available(w->paged.pool), w->paged.pool->blocks);
    mc_kv_pool_close(&w->paged.pool);
}

/* ---- tests ---- */

typedef struct life {
    const char *model;
    mica_cache_type cache;
    mica_arithmetic arithmetic;
    int64_t blocks, block, context;
} life;

/* Models with and without windows, all types of caches, limited contexts, large and small pools. */
static void sessions_have_the_same_bits(void **state) {
    (void)state;
    static const life lives[] = {
        {"qwen3_tied", MICA_CACHE_F32, MICA_ARITHMETIC_EXACT, 200, 32, 0},
        {"q4g64_qwen3", MICA_CACHE_BF16, MICA_ARITHMETIC_FAST, 200, 64, 0},
        {"q4g32_llama", MICA_CACHE_INT8, MICA_ARITHMETIC_FAST, 200, 32, 0},
        {"llama_untied_f32", MICA_CACHE_F16, MICA_ARITHMETIC_EXACT, 12, 64, 0},
        {"gemma3_text_f32", MICA_CACHE_F32, MICA_ARITHMETIC_EXACT, 200, 32, 0},
        {"gemma3_text_f32", MICA_CACHE_BF16, MICA_ARITHMETIC_FAST, 12, 64, 0},
        {"gemma2_f32", MICA_CACHE_INT8, MICA_ARITHMETIC_FAST, 200, 64, 0},
        {"qwen3_tied", MICA_CACHE_BF16, MICA_ARITHMETIC_EXACT, 200, 64, 130},
        {"gemma3_text_f32", MICA_CACHE_F32, MICA_ARITHMETIC_EXACT, 200, 32, 70},
        {"../families/deepseek_v3_hf", MICA_CACHE_F32, MICA_ARITHMETIC_EXACT, 12, 64, 0},
        {"../families/deepseek_v3_hf", MICA_CACHE_BF16, MICA_ARITHMETIC_FAST, 200, 64, 130},
        {"../families/glm4_moe_lite_q4", MICA_CACHE_INT8, MICA_ARITHMETIC_FAST, 200, 32, 0},
    };
    int64_t refused = 0;
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i += (size_t)test_case_step()) {
        const life *l = &lives[i];
        model_fixture f;
        fixture_open(l->model, &f);
        mc_lm_set_arithmetic(f.lm, l->arithmetic);
        mc_lm_set_cache(f.lm, l->cache);
        world w = {.random = i + 1};
        open_world(&w, &f, l->blocks, l->block, l->context);
        live(&w, test_device_keeps_order() ? 500 : 25);
        close_world(&w);
        refused += w.refused;
        fixture_close(&f);
    }
    assert_true(refused > 0 || test_device_is_other());
}

static void add_tokens(world *w, pair *p, int64_t n) {
    while (n--)
        p->text[p->n++] = any_token(w);
}

/* Steps of rows of any lengths are one program, as long as no table outgrows its power of two. */
static void lengths_are_data(void **state) {
    (void)state;
    model_fixture f;
    world w = {.random = 3};
    fixture_open("qwen3_tied", &f);
    open_world(&w, &f, 40, 32, 0);
    for (int i = 0; i < PAIRS; i++) {
        add_tokens(&w, &w.pairs[i], 1 + 13 * i);
        feed_pair(&w, &w.pairs[i], "a prompt");
    }
    for (int step = 0; step < 60; step++) {
        mc_session *sessions[PAIRS];
        int32_t ids[PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            add_tokens(&w, &w.pairs[i], 1);
            sessions[i] = w.pairs[i].paged;
            ids[i] = w.pairs[i].text[w.pairs[i].n - 1];
            must(mc_session_reserve(sessions[i], 1));
        }
        must(mc_batch_feed(&w.batch, sessions, ids, PAIRS));
        for (int i = 0; i < PAIRS; i++)
            feed_pair(&w, &w.pairs[i], "a step");
    }
    int of_batches = 0;
    for (int i = 0; i < MC_POOL_PROGRAMS; i++)
        of_batches += w.paged.pool->programs[i].program && w.paged.pool->programs[i].key.rows > 1;
    assert_int_equal(of_batches, 1); /* 53 + 60 tokens are four blocks */
    close_world(&w);
    fixture_close(&f);
}

/* Forks share what they have in common: only the block that is written becomes two. */
static void forks_share_blocks(void **state) {
    (void)state;
    model_fixture f;
    world w = {.random = 4};
    fixture_open("qwen3_tied", &f);
    open_world(&w, &f, 40, 32, 0);
    pair *p = &w.pairs[0];
    add_tokens(&w, p, 100);
    feed_pair(&w, p, "a prompt");
    assert_int_equal(mc_kv_pool_available(w.paged.pool), 40 - 4);
    for (int i = 1; i < PAIRS; i++) {
        mc_session_close(&w.pairs[i].paged);
        must(mc_session_fork(p->paged, &w.pairs[i].paged));
        memcpy(w.pairs[i].text, p->text, sizeof p->text);
        w.pairs[i].n = p->n;
    }
    assert_int_equal(mc_kv_pool_available(w.paged.pool), 40 - 4);
    check_accounts(&w);
    for (int i = 0; i < PAIRS; i++) {
        add_tokens(&w, &w.pairs[i], 1);
        feed_pair(&w, &w.pairs[i], "a fork's own token");
        assert_int_equal(mc_kv_pool_available(w.paged.pool), 40 - 4 - (i < 4 ? i + 1 : 4));
    }
    check_accounts(&w);
    close_world(&w);
    fixture_close(&f);
}

/* A window's blocks go back as it moves on: a text of any length takes what the pool says. */
static void windows_free_blocks(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    for (int64_t context = 0; context < 80; context += 70) {
        world w = {.random = 5};
        open_world(&w, &f, 100, 32, context);
        mc_kv_pool *pool = w.paged.pool;
        pair *p = &w.pairs[0];
        while (p->n + 64 < MAX_TEXT) {
            add_tokens(&w, p, 64);
            feed_pair(&w, p, "a chunk");
            int64_t used = pool->blocks - mc_kv_pool_available(pool);
            assert_true(used <= mc_kv_pool_needed(pool, p->n, 64, 0));
        }
        int64_t whole = (p->n + 31) / 32 * pool->n_groups;
        assert_true(pool->n_groups > (context ? 0 : 1));
        assert_true(mc_kv_pool_needed(pool, p->n, 64, 0) < whole);
        close_world(&w);
    }
    fixture_close(&f);
}

/* Saved from the pool and loaded into buffers, and the other way round. */
static void files_are_the_same(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_tied", "gemma3_text_f32"};
    for (int i = 0; i < 8; i++) {
        model_fixture f;
        world w = {.random = 6};
        fixture_open(models[i % 2], &f);
        mc_lm_set_cache(f.lm, i & 4 ? MICA_CACHE_INT8 : MICA_CACHE_F32);
        open_world(&w, &f, 100, 64, i & 2 ? 60 : 0);
        pair *p = &w.pairs[0];
        char *folder = test_temp_dir(), a[4096], b[4096];
        snprintf(a, sizeof a, "%s/a", folder);
        snprintf(b, sizeof b, "%s/b", folder);
        for (int64_t n = 0; n < 430; n += 43) {
            add_tokens(&w, p, 43);
            feed_pair(&w, p, "a prompt");
        }
        must(mc_session_save(p->paged, a));
        must(mc_session_save(p->plain, b));
        mc_session_close(&p->paged);
        mc_session_close(&p->plain);
        must(mc_session_load(&w.plain, a, CHUNK, &p->plain));
        must(mc_session_load(&w.paged, b, CHUNK, &p->paged));
        check_accounts(&w);
        for (int k = 0; k < 5; k++) {
            add_tokens(&w, p, 1 + 30 * k);
            feed_pair(&w, p, "loaded");
        }
        test_temp_dir_remove(folder);
        close_world(&w);
        fixture_close(&f);
    }
}

/* ---- errors ---- */

static world *failing;

/* Feeds a session, forks it and feeds both, beside others on the pool. */
static bool feed_and_fork(void *arg) {
    mc_session *one = NULL, *two = NULL;
    const float *logits;
    int32_t ids[70];
    (void)arg;
    mc_pass_close_all(failing->paged.pool->programs, MC_POOL_PROGRAMS);
    for (int i = 0; i < 70; i++)
        ids[i] = i;
    bool ok = mc_session_open(&failing->paged, CHUNK, &one) == MICA_OK &&
              mc_session_feed(one, ids, 70, &logits) == MICA_OK &&
              mc_session_fork(one, &two) == MICA_OK &&
              mc_session_feed(one, ids, 1, &logits) == MICA_OK &&
              mc_session_feed(two, ids, 2, &logits) == MICA_OK;
    mc_session_close(&one);
    mc_session_close(&two);
    check_accounts(failing);
    return ok;
}

/* What fails in one session does not harm the others. */
static void each_allocation_may_fail(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    model_fixture f;
    static world w = {.random = 8};
    fixture_open("gemma3_text_f32", &f);
    open_world(&w, &f, 40, 32, 0);
    failing = &w;
    for (int i = 0; i < PAIRS; i++) {
        add_tokens(&w, &w.pairs[i], 20 + 30 * i);
        feed_pair(&w, &w.pairs[i], "a prompt");
    }
    test_fail_each_allocation(feed_and_fork, NULL);
    for (int i = 0; i < PAIRS; i++) {
        add_tokens(&w, &w.pairs[i], 7);
        feed_pair(&w, &w.pairs[i], "after what failed");
    }
    close_world(&w);
    fixture_close(&f);
}

/* A table without blocks, behind whose length others' may stand, is never written through. */
static void no_blocks_no_writes(void **state) {
    (void)state;
    model_fixture f;
    world w = {.random = 12};
    const int32_t id = 5;
    const float *logits;
    fixture_open("gemma3_text_f32", &f);
    open_world(&w, &f, 40, 32, 0);
    pair *p = &w.pairs[0], *other = &w.pairs[1];
    add_tokens(&w, p, 40);
    feed_pair(&w, p, "a prompt");
    mc_session_close(&other->paged);
    must(mc_session_fork(p->paged, &other->paged));
    mc_session_reset(other->paged); /* its table still says where the blocks were */
    assert_int_equal(mc_batch_feed(&w.batch, &other->paged, &id, 1), MICA_EINTERNAL);
    mc_session *both[] = {p->paged, other->paged};
    must(mc_session_reserve(p->paged, 1));
    assert_int_equal(mc_batch_feed(&w.batch, both, (int32_t[]){id, id}, 2), MICA_EINTERNAL);
    add_tokens(&w, p, 1);
    feed_pair(&w, p, "beside one without blocks");
    must(mc_session_feed(other->paged, &id, 1, &logits));
    check_accounts(&w);
    close_world(&w);
    fixture_close(&f);
}

static bool open_and_close(void *arg) {
    const model_fixture *f = arg;
    mc_kv_pool *pool;
    const mc_kv_pool_options options = {.bytes = 1 << 20};
    bool ok = mc_kv_pool_open(f->lm, f->device, &options, &pool) == MICA_OK;
    mc_kv_pool_close(&pool);
    return ok;
}

static void wrong_pools_are_refused(void **state) {
    (void)state;
    model_fixture f;
    mc_kv_pool *pool;
    mc_session *session;
    fixture_open("gemma3_text_f32", &f);
    const mc_kv_pool_options bad[] = {{.bytes = 100},
                                      {.bytes = 0},
                                      {.bytes = 1 << 20, .block = -64},
                                      {.bytes = 1 << 20, .block = INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mc_kv_pool_open(f.lm, f.device, &bad[i], &pool), MICA_EINVAL);
        assert_null(pool);
    }
    test_fail_each_allocation(open_and_close, &f);
    must(mc_kv_pool_open(f.lm, f.device, &(mc_kv_pool_options){.bytes = 1 << 20}, &pool));
    const mc_session_model other = {.lm = f.lm, .device = f.device, .context = 50, .pool = pool};
    assert_int_equal(mc_session_open(&other, 0, &session), MICA_EINVAL);
    const mc_session_model plain = {.lm = f.lm, .device = f.device};
    must(mc_session_open(&plain, 0, &session));
    mc_session_close(&session);
    mc_kv_pool_close(&pool);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_have_the_same_bits), cmocka_unit_test(lengths_are_data),
        cmocka_unit_test(forks_share_blocks),          cmocka_unit_test(windows_free_blocks),
        cmocka_unit_test(files_are_the_same),          cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(no_blocks_no_writes),         cmocka_unit_test(wrong_pools_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

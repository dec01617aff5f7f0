/* Answers whose session is swapped out and in again: the same tokens, and the same caches to the
 * bit, as of one that never was. Copies keep to their limit. Errors cost a reading, no answer. */
#include "model/fixture.h"

#include "base/alloc.h"
#include "device/device.h"
#include "session/pool.h"
#include "session/session_file.h"
#include "session/stream.h"
#include "support/witness.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 20, PROMPT = 150, OTHER = 400 };

typedef struct world {
    model_fixture f;
    mc_session_model model; /* on a pool */
} world;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* A pool with so many blocks in each group. */
static void open_world(world *w, const char *name, mica_cache_type cache, uint64_t blocks,
                       mc_kv_pool_options options) {
    mc_kv_pool *pool;
    fixture_open(name, &w->f);
    mc_lm_set_cache(w->f.lm, cache);
    w->model = (mc_session_model){.lm = w->f.lm, .device = w->f.device};
    options.bytes = 1u << 20;
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &pool)); /* for the size of a block */
    options.bytes = pool->parts->block_bytes * blocks * (uint64_t)pool->n_groups;
    mc_kv_pool_close(&pool);
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &w->model.pool));
}

static void close_world(world *w) {
    assert_int_equal(w->model.pool->swapped, 0);
    assert_int_equal(mc_kv_pool_available(w->model.pool), w->model.pool->blocks);
    mc_kv_pool_close(&w->model.pool);
    fixture_close(&w->f);
}

static void make_ids(const world *w, unsigned seed, int32_t *ids, int n) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % (unsigned)w->f.lm->spec.vocab);
    }
}

static mc_stream *open_stream(const world *w, mc_session **session) {
    const mica_generate_options options = {
        .max_tokens = TOKENS, .temperature = 1.0f, .top_p = 0.9f, .seed = 9, .ignore_eos = true};
    int32_t prompt[PROMPT];
    mc_stream *stream;
    make_ids(w, 1, prompt, PROMPT);
    must(mc_session_open(&w->model, 64, session));
    must(mc_stream_open(*session, prompt, PROMPT, &options, &stream));
    mc_stream_share(stream, true);
    return stream;
}

/* Another session writes to as many blocks as it may get. */
static void use_blocks(const world *w, unsigned seed) {
    int32_t ids[OTHER];
    mc_session *other;
    make_ids(w, seed, ids, OTHER);
    must(mc_session_open(&w->model, 64, &other));
    for (int i = 0; i + 64 <= OTHER && mc_cache_can_reserve(&other->cache, 64); i += 64)
        must(mc_session_feed(other, ids + i, 64, NULL));
    mc_session_close(&other);
}

static char *save(mc_session *session, size_t *size) {
    char *dir = test_temp_dir(), *path = test_format("%s/session", dir);
    must(mc_session_save(session, path));
    char *bytes = test_read_file(path, size);
    free(path);
    test_temp_dir_remove(dir);
    return bytes;
}

/* What came of an answer: its tokens, and the file of its session. */
typedef struct outcome {
    int32_t ids[TOKENS];
    char *file;
    size_t size;
} outcome;

/* swaps: whether the caches are to come back from a copy, with nothing left to read but a token. */
static void pause(const world *w, mc_session *session, mc_stream *stream, bool swaps) {
    int64_t left, count = mc_session_count(session);
    uint64_t before = w->model.pool->swaps;
    assert_true(mc_stream_pause(stream));
    assert_int_equal(mc_session_count(session), 0);
    assert_int_equal(session->swap.data != NULL, swaps);
    assert_int_equal(w->model.pool->swapped, session->swap.bytes);
    use_blocks(w, (unsigned)count);
    must(mc_stream_read(stream, 0, &left));
    assert_int_equal(w->model.pool->swapped, 0);
    if (w->model.pool->keeps && w->model.pool->swaps == before) { /* nobody took the blocks */
        assert_true(!swaps || mc_session_count(session) > count - w->model.pool->block);
        return;
    }
    assert_int_equal(w->model.pool->swaps - before, swaps);
    if (!swaps) return;
    assert_true(mc_session_count(session) == count || (count == PROMPT && left == 1));
}

/* Pauses before each of the tokens of a list [n], -1 within the prompt. */
static outcome run(const world *w, const int *pauses, size_t n, bool swaps) {
    outcome o;
    mc_session *session;
    mica_token token;
    int64_t left;
    mc_stream *stream = open_stream(w, &session);
    must(mc_stream_read(stream, 64, &left));
    if (n && pauses[0] < 0) pause(w, session, stream, swaps);
    for (int i = 0; i < TOKENS; i++) {
        for (size_t k = 0; k < n; k++)
            if (pauses[k] == i && i) pause(w, session, stream, swaps);
        assert_true(mc_stream_next(stream, &token));
        o.ids[i] = token.id;
    }
    mc_stream_close(&stream);
    o.file = save(session, &o.size);
    mc_session_close(&session);
    return o;
}

static void expect_same(const world *w, outcome *got, const outcome *want) {
    assert_memory_equal(got->ids, want->ids, sizeof got->ids);
    const mc_kv_pool *pool = w->model.pool;
    /* From a kept prefix on, parts of other sizes are read: MLX adds up otherwise then. */
    if (pool->swap_limit && (!pool->keeps || test_device_keeps_order())) {
        assert_int_equal(got->size, want->size);
        assert_memory_equal(got->file, want->file, want->size);
    }
    free(got->file);
}

enum { BLOCKS = 5, MUCH = 1 << 24 };

static const int pauses[] = {-1, 1, 7, 8, TOKENS - 1};

static void check(const char *name, mica_cache_type cache, bool keep) {
    for (int swaps = 0; swaps < 2; swaps++) {
        world w;
        open_world(&w, name, cache, BLOCKS,
                   (mc_kv_pool_options){.keep = keep && mc_prefix_available(),
                                        .swap_bytes = swaps ? MUCH : 0});
        outcome want = run(&w, NULL, 0, false);
        for (size_t n = test_device_is_other() ? 5 : 1; n <= 5; n += 4) {
            outcome got = run(&w, pauses, n, swaps);
            expect_same(&w, &got, &want);
        }
        free(want.file);
        close_world(&w);
    }
}

static void test_swapped(void **state) {
    (void)state;
    check("gemma3_text_f32", MICA_CACHE_INT8, false); /* with windows */
    if (!test_device_is_other()) {
        check("q4g32_llama", MICA_CACHE_DEFAULT, false);
        check("gemma3_text_f32", MICA_CACHE_BF16, true);
    }
    check("llama_untied_f32", MICA_CACHE_DEFAULT, true);
}

/* Copies that have no room, and others that are not whole, are none: the text is read again. */
static void test_limit(void **state) {
    (void)state;
    world w;
    if (!test_device_keeps_order()) return; /* read again, an answer may be another */
    open_world(&w, "llama_untied_f32", MICA_CACHE_DEFAULT, BLOCKS,
               (mc_kv_pool_options){.swap_bytes = 1000});
    outcome want = run(&w, NULL, 0, false), got = run(&w, pauses, 5, false);
    w.model.pool->swap_limit = 0;
    expect_same(&w, &got, &want);
    free(want.file);
    close_world(&w);
}

/* A copy is dropped by another text, by a reset, and with its session. */
static void test_dropped(void **state) {
    (void)state;
    world w;
    int32_t ids[PROMPT];
    open_world(&w, "llama_untied_f32", MICA_CACHE_DEFAULT, BLOCKS,
               (mc_kv_pool_options){.swap_bytes = MUCH});
    make_ids(&w, 3, ids, PROMPT);
    for (int way = 0; way < 4; way++) {
        mc_session *session;
        must(mc_session_open(&w.model, 0, &session));
        must(mc_session_feed(session, ids, PROMPT, NULL));
        mc_session_swap_out(session);
        assert_true(w.model.pool->swapped > 0);
        if (way == 0) mc_session_reset(session);
        if (way == 1) assert_int_equal(mc_session_reuse(session, ids, PROMPT), PROMPT - 1);
        if (way == 2) assert_int_equal(mc_session_reuse(session, ids + 1, PROMPT - 1), 0);
        if (way < 3) assert_int_equal(w.model.pool->swapped, 0);
        mc_session_close(&session);
        assert_int_equal(w.model.pool->swapped, 0);
    }
    close_world(&w);
}

/* An answer that is cancelled while it is swapped out ends without its copy's coming back. */
static void test_cancelled(void **state) {
    (void)state;
    world w;
    mc_session *session;
    int64_t left;
    open_world(&w, "llama_untied_f32", MICA_CACHE_DEFAULT, BLOCKS,
               (mc_kv_pool_options){.swap_bytes = MUCH});
    mc_stream *stream = open_stream(&w, &session);
    must(mc_stream_read(stream, 64, &left));
    assert_true(mc_stream_pause(stream));
    mc_stream_cancel(stream);
    assert_int_equal(mc_stream_read(stream, 1, &left), MICA_ECANCELLED);
    assert_true(w.model.pool->swapped > 0);
    assert_int_equal(w.model.pool->swaps, 0);
    mc_stream_close(&stream);
    mc_session_close(&session);
    assert_int_equal(w.model.pool->swapped, 0);
    close_world(&w);
}

/* Whatever fails while an answer is swapped out and in, it goes on. */
static void check_failing(const world *w, const outcome *want, void (*arm)(const world *, int),
                          bool (*failed)(const world *, int)) {
    for (int n = 1, more = true; more; n += 1 + n / 4) {
        mc_session *session;
        mica_token token;
        int64_t left;
        int i = 0;
        mc_stream *stream = open_stream(w, &session);
        for (; i < 3; i++)
            assert_true(mc_stream_next(stream, &token));
        arm(w, n);
        assert_true(mc_stream_pause(stream));
        must(mc_stream_read(stream, 0, &left));
        more = failed(w, n);
        arm(w, 0);
        assert_int_equal(w->model.pool->swapped, 0);
        for (; i < TOKENS; i++) {
            if (!mc_stream_next(stream, &token)) fail_msg("%s", mica_last_error());
            assert_int_equal(token.id, want->ids[i]);
        }
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
}

static void fail_copy(const world *w, int n) {
    witness_fail(w->f.device, WITNESS_COPY, (uint64_t)n);
}

static bool copy_failed(const world *w, int n) {
    (void)n;
    return witness_has_failed(w->f.device, WITNESS_COPY);
}

static void fail_launch(const world *w, int n) {
    witness_fail(w->f.device, WITNESS_LAUNCH, (uint64_t)n);
}

static bool launch_failed(const world *w, int n) {
    (void)n;
    return witness_has_failed(w->f.device, WITNESS_LAUNCH);
}

static void fail_allocation(const world *w, int n) {
    (void)w;
    mc_alloc_fail_at((uint64_t)n);
}

static bool allocation_failed(const world *w, int n) {
    (void)w;
    return mc_alloc_count() >= (uint64_t)n;
}

static void test_failures(void **state) {
    (void)state;
    world w;
    if (!test_device_keeps_order()) return;
    open_world(&w, "llama_untied_f32", MICA_CACHE_DEFAULT, BLOCKS,
               (mc_kv_pool_options){.swap_bytes = MUCH});
    outcome want = run(&w, NULL, 0, false);
    free(want.file);
    if (w.f.device->backend == &witness_backend) {
        check_failing(&w, &want, fail_copy, copy_failed);
        check_failing(&w, &want, fail_launch, launch_failed);
    }
    check_failing(&w, &want, fail_allocation, allocation_failed);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swapped),  cmocka_unit_test(test_limit),
        cmocka_unit_test(test_dropped),  cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("session/swap", tests, NULL, NULL);
}

/* Layers whose heads differ in number and width, and layers that share the keys and values of
 * earlier ones: passes, sessions, pools, prefixes, files, copies and rows. */
#include "model/own_heads.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/graph.h"
#include "session/session.h"
#include "session/swap.h"
#include "task/batch.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

enum { TEXT = 120, CHUNK = 16, ROWS = 3 };

static char *folder;

static int make(void **state) {
    (void)state;
    folder = own_model(&own_heads, OWN_HEADS_CONFIG("true"));
    return 0;
}

static int discard(void **state) {
    (void)state;
    test_temp_dir_remove(folder);
    return 0;
}

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* ---- what is shared ---- */

enum { LAST = OWN_HEADS_LAYERS - 2, VOCAB = 448 };

/* A layer that adds nothing to the stream. */
static void silence(mc_lm *lm, int layer) {
    for (int k = 0; k < 2; k++) {
        uint8_t *block = &lm->spec.layers[layer].blocks[k];
        *block = (uint8_t)mc_spec_copy(&lm->spec, *block);
        lm->spec.blocks[*block].factor = 0.0;
    }
}

/* Logits of a model in which one of the last two layers reads the same stream as the layer that it
 * may share, by the same matrices. */
static float *logits_of(const char *dir, int layer) {
    static const int same[] = {MC_ATTENTION_K, MC_ATTENTION_V};
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, dir);
    mc_lm_slot *to = mc_lm_block(lm, layer, 0), *from = mc_lm_block(lm, layer - 2, 0);
    for (int i = LAST - 2; i < OWN_HEADS_LAYERS; i++)
        if (i != layer) silence(lm, i);
    to[MC_BLOCK_NORM].vector = from[MC_BLOCK_NORM].vector;
    for (int k = 0; k < 2; k++)
        if (to[same[k]].name) to[same[k]].linear = from[same[k]].linear;
    float *logits = fixture_logits(device, lm, own_text, OWN_TEXT);
    mc_lm_close(&lm);
    mica_device_close(&device);
    return logits;
}

/* A layer that shares keys and values is one that computes the same of its own. */
static void test_shared(void **state) {
    (void)state;
    char *dir = own_model(&own_heads, OWN_HEADS_CONFIG("false"));
    char *copy = fixture_copy_folder(dir, "config.json", "\"share\": false", "\"share\": true");
    for (int layer = LAST; layer < OWN_HEADS_LAYERS; layer++) {
        float *own = logits_of(dir, layer), *shared = logits_of(copy, layer);
        fixture_compare(shared, own, OWN_TEXT * VOCAB, 0.0, "layer %d", layer);
        free(own);
        free(shared);
    }
    test_temp_dir_remove(copy);
    test_temp_dir_remove(dir);
}

static void test_passes(void **state) {
    (void)state;
    own_check_passes(folder);
}

static void test_sessions(void **state) {
    (void)state;
    own_check_sessions(folder);
}

/* The last two layers have no keys, and gradients reach those of the layers that they share. */
static void test_weights(void **state) {
    (void)state;
    own_check_quantised(folder, "layers.4.self_attn.k_proj", NULL);
    own_check_tuned(folder, "layers.4.self_attn.k_proj");
    own_check_tuned(folder, "layers.6.self_attn.q_proj");
}

/* ---- sessions on a pool ---- */

typedef struct world {
    mica_device *device;
    mc_session_model model;
    int32_t text[TEXT];
} world;

static void open_world(world *w, mica_cache_type cache, uint64_t bytes, bool keep) {
    *w = (world){0};
    must(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &w->device));
    mc_lm *lm = own_open(w->device, folder);
    mc_lm_set_cache(lm, cache);
    w->model = (mc_session_model){.lm = lm, .device = w->device};
    const mc_kv_pool_options options = {.bytes = bytes,
                                        .block = 32,
                                        .sessions = ROWS,
                                        .keep = keep && mc_prefix_available(),
                                        .swap_bytes = 1 << 22};
    must(mc_kv_pool_open(lm, w->device, &options, &w->model.pool));
    for (int i = 0; i < TEXT; i++)
        w->text[i] = (i * i * 31 + i * 7 + 3) % VOCAB;
}

static void close_world(world *w) {
    const mc_kv_pool *pool = w->model.pool;
    mc_lm *lm = (mc_lm *)(uintptr_t)w->model.lm;
    assert_int_equal(mc_kv_pool_available(pool), pool->blocks);
    mc_kv_pool_close(&w->model.pool);
    mc_lm_close(&lm);
    mica_device_close(&w->device);
}

static mc_session *open_session(const mc_session_model *model) {
    mc_session *session;
    must(mc_session_open(model, CHUNK, &session));
    return session;
}

static const float *feed(mc_session *session, const int32_t *ids, int64_t n, int64_t step) {
    const float *logits = NULL;
    for (int64_t at = 0; at < n; at += step)
        must(mc_session_feed(session, ids + at, mc_min(step, n - at), &logits));
    return logits;
}

/* Fails unless logits are those of a session with buffers of its own. */
static void expect(const world *w, const float *got, int64_t n, const char *what) {
    mc_session_model alone = w->model;
    alone.pool = NULL;
    mc_session *session = open_session(&alone);
    fixture_compare(got, feed(session, w->text, n, CHUNK), VOCAB, 0.0, "%s, %d tokens", what,
                    (int)n);
    mc_session_close(&session);
}

static void check_pool(mica_cache_type cache) {
    world w;
    open_world(&w, cache, 1 << 22, true);
    assert_int_equal(w.model.pool->n_parts, 2);
    mc_session *one = open_session(&w.model), *two = open_session(&w.model), *fork;
    expect(&w, feed(one, w.text, 100, 7), 100, "a pool");
    must(mc_session_fork(one, &fork));
    expect(&w, feed(fork, w.text + 100, 10, 1), 110, "a fork");
    expect(&w, feed(one, w.text + 100, 20, 3), TEXT, "what was forked");
    must(mc_session_mark(one, 96));
    if (w.model.pool->keeps) assert_int_equal(mc_session_reuse(two, w.text, TEXT), 96);
    int64_t at = mc_session_count(two);
    expect(&w, feed(two, w.text + at, TEXT - at, 8), TEXT, "a prefix");
    mc_session_close(&fork);
    mc_session_close(&two);
    mc_session_close(&one);
    close_world(&w);
}

static void test_pool(void **state) {
    (void)state;
    static const mica_cache_type caches[] = {MICA_CACHE_F32, MICA_CACHE_BF16, MICA_CACHE_INT8};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        check_pool(caches[i]);
}

static void test_copies(void **state) {
    (void)state;
    world w;
    open_world(&w, MICA_CACHE_F32, 1 << 22, false);
    mc_session *session = open_session(&w.model);
    feed(session, w.text, 100, CHUNK);
    mc_session_swap_out(session);
    assert_int_equal(mc_session_reuse(session, w.text, TEXT), 100);
    assert_int_equal(w.model.pool->swaps, 1);
    expect(&w, feed(session, w.text + 100, 20, 9), TEXT, "a copy");
    mc_session_close(&session);
    close_world(&w);
}

static void test_rows(void **state) {
    (void)state;
    world w;
    mc_batch batch;
    mc_session *sessions[ROWS];
    int32_t ids[ROWS];
    open_world(&w, MICA_CACHE_F32, 1 << 22, true);
    for (int paged = 1; paged >= 0; paged--) {
        mc_session_model model = w.model;
        if (!paged) model.pool = NULL;
        must(mc_batch_init(&batch, &model));
        for (int i = 0; i < ROWS; i++) {
            sessions[i] = open_session(&model);
            feed(sessions[i], w.text, 30 + 9 * i, CHUNK);
        }
        for (int step = 0; step < 12; step++) {
            for (int i = 0; i < ROWS; i++) {
                ids[i] = w.text[30 + 9 * i + step];
                must(mc_session_reserve(sessions[i], 1));
            }
            must(mc_batch_feed(&batch, sessions, ids, ROWS));
            for (int i = 0; i < ROWS; i++)
                expect(&w, feed(sessions[i], &ids[i], 1, 1), 31 + 9 * i + step, "a row");
        }
        for (int i = 0; i < ROWS; i++)
            mc_session_close(&sessions[i]);
        mc_batch_deinit(&batch);
    }
    close_world(&w);
}

/* ---- memory ---- */

/* The least that a text of the whole context takes is enough for it, however long it is. */
static void test_one_text_has_room(void **state) {
    (void)state;
    enum { LONG = 1 << 15, CHUNK_MAX = 512 };
    mica_device *device;
    mc_kv_pool *pool;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, folder);
    for (int64_t context = 512; context <= LONG; context *= 8) {
        uint64_t bytes = 0;
        lm->spec.context = context;
        mc_kv_pool_options options = {.bytes = UINT64_C(1) << 26};
        must(mc_kv_pool_open(lm, device, &options, &pool));
        for (int g = 0; g < pool->n_groups; g++) {
            int64_t window = pool->plan.states[g].span.window, entries = context;
            if (window) entries = mc_min(context, window + 2 * pool->block + CHUNK_MAX);
            bytes += (uint64_t)((entries + pool->block - 1) / pool->block + MC_POOL_SPARE) *
                     mc_kv_part_of(pool, g)->block_bytes;
        }
        mc_kv_pool_close(&pool);
        options.bytes = bytes;
        must(mc_kv_pool_open(lm, device, &options, &pool));
        assert_true(mc_kv_pool_needed(pool, context, CHUNK_MAX, MC_POOL_SPARE) <= pool->blocks);
        mc_kv_pool_close(&pool);
    }
    mc_lm_close(&lm);
    mica_device_close(&device);
}

/* No more than what was said is taken, each part's blocks are enough for what the accounts allow,
 * and they are all used. */
static void test_accounts(void **state) {
    (void)state;
    world w;
    open_world(&w, MICA_CACHE_F32, 1000000, true);
    const mc_kv_pool *pool = w.model.pool;
    uint64_t bytes = 0;
    for (int c = 0; c < pool->n_parts; c++) {
        const mc_kv_part *part = &pool->parts[c];
        assert_int_equal(part->first % MC_POOL_EXTENT, 0);
        bytes += (uint64_t)(part->end - part->first) * part->block_bytes;
        assert_int_equal(mc_kv_part_available(part), part->end - part->first);
    }
    assert_in_range(bytes, 900000, 1000000);
    assert_int_equal(mc_kv_pool_used_bytes(pool), 0);
    mc_session *sessions[40];
    int n = 0;
    for (; n < 40 && mc_kv_pool_needed(pool, 64, CHUNK, 0) <= mc_kv_pool_available(pool); n++) {
        sessions[n] = open_session(&w.model);
        w.text[0] = n; /* another text */
        feed(sessions[n], w.text, 64, CHUNK);
    }
    assert_in_range(n, 3, 39);
    assert_true(mc_kv_pool_used_bytes(pool) > bytes / 2);
    while (n)
        mc_session_close(&sessions[--n]);
    close_world(&w);
    mc_kv_pool *small;
    const mc_kv_pool_options options = {.bytes = 10000, .block = 32};
    open_world(&w, MICA_CACHE_F32, 1 << 22, true);
    assert_int_equal(mc_kv_pool_open(w.model.lm, w.device, &options, &small), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "10000 bytes"));
    close_world(&w);
}

static bool use(void *context) {
    const world *w = context;
    mc_session *session = NULL, *fork = NULL;
    const float *logits;
    bool ok = mc_session_open(&w->model, CHUNK, &session) == MICA_OK &&
              mc_session_feed(session, w->text, 16, NULL) == MICA_OK &&
              mc_session_feed(session, w->text + 16, 16, NULL) == MICA_OK &&
              mc_session_fork(session, &fork) == MICA_OK &&
              mc_session_feed(fork, w->text + 32, 1, &logits) == MICA_OK;
    mc_session_close(&fork);
    mc_session_close(&session);
    return ok;
}

static bool open_pool(void *context) {
    const world *w = context;
    mc_kv_pool *pool;
    const mc_kv_pool_options options = {
        .bytes = 1 << 20, .block = 32, .keep = mc_prefix_available()};
    bool ok = mc_kv_pool_open(w->model.lm, w->device, &options, &pool) == MICA_OK;
    mc_kv_pool_close(&pool);
    return ok;
}

static void test_failures(void **state) {
    (void)state;
    world w;
    open_world(&w, MICA_CACHE_F32, 1 << 22, true);
    test_fail_each_allocation(use, &w);
    test_fail_each_allocation(open_pool, &w);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_accounts),
        cmocka_unit_test(test_one_text_has_room),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, make, discard);
}

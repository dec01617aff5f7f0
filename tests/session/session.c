/* Caches of every kind compared with computing the whole text again. */
#include "model/fixture.h"

#include "device/device.h"
#include "exec/cache.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MLX's CPU takes milliseconds for a token: of what others show at length, it shows a part. */
static bool is_brief(void) {
    return !test_device_keeps_order();
}

static mc_session_model shared_of(const model_fixture *f, int64_t context) {
    return (mc_session_model){.lm = f->lm, .device = f->device, .context = context};
}

static mc_session *open_session(const mc_session_model *shared, int64_t chunk) {
    mc_session *session;
    if (mc_session_open(shared, chunk, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

static const float *feed(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    if (mc_session_feed(session, ids, n, &logits) != MICA_OK) fail_msg("%s", mica_last_error());
    return logits;
}

/* Feeds a whole prompt, chunk by chunk. */
static const float *feed_all(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    for (int64_t at = 0; at < n; at += session->chunk)
        logits = feed(session, ids + at, n - at < session->chunk ? n - at : session->chunk);
    return logits;
}

static int32_t best_of(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* ---- caches compared with recomputing ---- */

typedef struct view {
    const mc_lm *lm;
    int64_t context;
} view;

/* What a pass over a whole text attends to. */
static mc_attended append_whole(void *context, mica_scope *s, int layer, mica_array k,
                                mica_array v) {
    const view *w = context;
    int64_t window = mc_spec_attention(&w->lm->spec, layer)->window, keep = 0;
    if (w->context && (!window || window > w->context)) {
        keep = w->context < 8 ? w->context / 2 : 4;
        window = w->context - keep;
    }
    return (mc_attended){.k = k, .v = v, .offset = mica_i32(s, 0), .window = window, .keep = keep};
}

/* The last row of logits of ids[n], without a cache. A layer attends to `context` tokens at
 * most. */
static float *recompute(const model_fixture *f, const int32_t *ids, int64_t n, int64_t context) {
    const int64_t shape[] = {1, n};
    view whole = {f->lm, context};
    const mc_kv_store store = {.append = append_whole, .context = &whole, .keeps_nothing = true};
    size_t bytes = (size_t)f->lm->spec.vocab * sizeof(float);
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array all = mica_from_data(s, ids, MICA_I32, shape, 2);
    mica_array y = mc_lm_forward(s, f->lm, all, mica_i32(s, 0), &store, MC_LAST_LOGITS);
    if (mica_read(y, logits, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

static void make_ids(const model_fixture *f, int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * i * 31 + i * 7 + 3) % f->lm->spec.vocab);
}

/* Feeds ids in chunks of the given sizes, repeatedly, and compares the logits of every chunk. */
static void check_chunks(const model_fixture *f, int64_t context, int64_t chunk, int64_t total,
                         const int64_t *sizes, size_t n_sizes, int64_t compare_from) {
    int32_t *ids = malloc((size_t)total * sizeof *ids);
    assert_non_null(ids);
    make_ids(f, ids, total);
    mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared, chunk);
    int64_t at = 0;
    for (size_t i = 0; at < total; i++) {
        int64_t n = sizes[i % n_sizes];
        if (n > total - at) n = total - at;
        const float *got = feed(session, ids + at, n);
        at += n;
        assert_int_equal(mc_session_count(session), at);
        if (at < compare_from) continue;
        float *want = recompute(f, ids, at, context);
        fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f),
                        "%s: context %lld, after %lld tokens", f->name, (long long)context,
                        (long long)at);
        free(want);
    }
    mc_session_close(&session);
    free(ids);
}

/* Chunks of any size give the same bits as one prefill. */
static void check_chunked(const model_fixture *f) {
    static const int64_t sizes[] = {5, 1, 1, 17, 2, 40, 1};
    check_chunks(f, 0, 64, 130, sizes, 7, 0);
}

static void test_chunked_prefill(void **state) {
    (void)state;
    fixture_each(check_chunked);
}

/* Far beyond the window of 16, after buffers dropped entries several times: single decode steps,
 * and chunks larger than the window and than the least room. */
static void test_windows(void **state) {
    (void)state;
    static const int64_t ones[] = {1}, large[] = {300, 1, 299}, mixed[] = {7, 1, 1, 250, 3, 64};
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    if (is_brief()) {
        check_chunks(&f, 0, 256, 700, mixed, 6, 600);
    } else {
        check_chunks(&f, 0, 512, 560, ones, 1, 535);
        check_chunks(&f, 0, 300, 1500, large, 3, 0);
        check_chunks(&f, 0, 256, 1100, mixed, 6, 700);
    }
    fixture_close(&f);
}

/* The same for every family: single steps and chunks, with and without windows. */
static void check_rotating(const model_fixture *f) {
    static const int64_t ones[] = {1}, mixed[] = {200, 1, 1, 70, 3, 64};
    check_chunks(f, 24, 200, is_brief() ? 450 : 560, mixed, 6, is_brief() ? 450 : 530);
    if (!is_brief()) check_chunks(f, 20, 64, 60, ones, 1, 56);
}

static void test_every_context_length(void **state) {
    (void)state;
    fixture_each(check_rotating);
}

/* With a context length every layer drops entries. */
static void test_context_length(void **state) {
    (void)state;
    static const int64_t ones[] = {1}, mixed[] = {7, 1, 1, 50, 3, 64};
    model_fixture f;
    fixture_open("gemma3_text_bf16_nohd", &f);
    check_chunks(&f, 24, 64, 700, mixed, 6, is_brief() ? 600 : 0);
    check_chunks(&f, 5, 64, 540, ones, 1, 515);
    check_chunks(&f, 1, 64, 20, mixed, 6, 0);
    fixture_close(&f);
}

/* The same with caches of every type, far beyond a context that keeps the first 4 tokens. */
static void test_context_in_every_cache(void **state) {
    (void)state;
    static const int64_t mixed[] = {7, 1, 1, 50, 3, 64};
    static const mica_cache_type types[] = {MICA_CACHE_F16, MICA_CACHE_BF16, MICA_CACHE_INT8};
    model_fixture f;
    fixture_open("llama_untied_f32", &f);
    for (int i = 0; i < 3; i++) {
        mc_lm_set_cache(f.lm, types[i]);
        check_chunks(&f, 24, 64, is_brief() ? 500 : 1000, mixed, 6, is_brief() ? 450 : 300);
        if (!is_brief()) check_chunks(&f, 100, 64, 1000, mixed, 6, 600);
    }
    fixture_close(&f);
}

/* ---- sessions ---- */

/* A text with `reused` tokens in the caches gets the same logits as a text computed from the
 * beginning. */
static void check_reused(const model_fixture *f, mc_session *session, const int32_t *ids, int64_t n,
                         int64_t reused) {
    int64_t context = session->model->context;
    assert_int_equal(mc_session_reuse(session, ids, n), reused);
    assert_int_equal(mc_session_count(session), reused);
    const float *got = feed(session, ids + reused, n - reused);
    float *want = recompute(f, ids, n, context);
    fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f),
                    "%lld of %lld tokens reused", (long long)reused, (long long)n);
    free(want);
}

static void test_reuse(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[40];
    make_ids(&f, ids, 40);
    assert_int_equal(mc_session_reuse(session, ids, 40), 0);
    feed(session, ids, 30);
    assert_int_equal(mc_session_reuse(session, ids, 40), 30);
    const float *got = feed(session, ids + 30, 10);
    float *want = recompute(&f, ids, 40, 0);
    fixture_compare(got, want, (size_t)f.lm->spec.vocab, fixture_same(&f), "a second turn");
    free(want);
    /* The same text again: its last token is computed anew. Then a text with a common prefix. */
    check_reused(&f, session, ids, 40, 39);
    check_reused(&f, session, ids, 25, 24);
    ids[3]++;
    check_reused(&f, session, ids, 40, 3);
    ids[0]++;
    assert_int_equal(mc_session_reuse(session, ids, 40), 0);
    assert_int_equal(mc_session_count(session), 0);
    mc_session_close(&session);
    mc_session_close(&session);
    fixture_close(&f);
}

/* A text goes on from the 25 tokens that it shares, or from the 20 behind which a snapshot is. */
static void check_reuse(const model_fixture *f) {
    enum { N = 40, PART = 20, SHARED = 25 };
    mc_session_model shared = shared_of(f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[N];
    make_ids(f, ids, N);
    feed(session, ids, PART);
    feed(session, ids + PART, N - PART);
    ids[SHARED] ^= 1;
    int64_t reused = mc_session_reuse(session, ids, N);
    if (reused != SHARED && reused != PART)
        fail_msg("%s: %lld tokens are reused", f->name, (long long)reused);
    const float *got = feed(session, ids + reused, N - reused);
    float *want = recompute(f, ids, N, 0);
    fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f), "%s: %lld tokens reused",
                    f->name, (long long)reused);
    free(want);
    mc_session_close(&session);
}

static void test_reuse_in_every_family(void **state) {
    (void)state;
    fixture_each(check_reuse);
}

/* The oldest token in buffers of 384 entries that were full once, when the last `kept` stayed. More
 * stayed where entries are dropped in multiples, of 32 on the cpu. */
static int oldest_token(const model_fixture *f, int kept) {
    int together = f->device->backend->keys_together;
    return 384 - kept - (together > 0 ? (384 - kept) % together : 0);
}

/* Windows of 16 have buffers of 384 entries. After 600 single steps entries were dropped once. */
static void test_going_back(void **state) {
    (void)state;
    enum { N = 600 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    const int oldest = oldest_token(&f, 15 + 64);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 256);
    int32_t ids[N + 1];
    make_ids(&f, ids, N + 1);
    for (int i = 0; i < N; i++)
        feed(session, ids + i, 1);
    ids[N - 50]++;
    check_reused(&f, session, ids, N - 40, N - 50);
    ids[oldest + 15]++;
    check_reused(&f, session, ids, N - 100, oldest + 15);
    ids[oldest + 14]++; /* one further back: the layers with a window lack an entry */
    assert_int_equal(mc_session_reuse(session, ids, N), 0);
    assert_int_equal(mc_session_count(session), 0);
    mc_session_close(&session);
    fixture_close(&f);
}

/* A context of 24 that keeps the first 4 tokens: behind these and those that stay beside them (32
 * on the cpu) the same buffers go on with the oldest of the others. */
static void test_going_back_in_a_context(void **state) {
    (void)state;
    enum { N = 600 };
    model_fixture f;
    fixture_open("llama_untied_f32", &f);
    const int oldest = oldest_token(&f, 19 + 64);
    mc_session_model shared = shared_of(&f, 24);
    mc_session *session = open_session(&shared, 256);
    int32_t ids[N + 1];
    make_ids(&f, ids, N + 1);
    for (int i = 0; i < N; i++)
        feed(session, ids + i, 1);
    ids[N - 50] ^= 1;
    check_reused(&f, session, ids, N - 40, N - 50);
    ids[oldest + 19] ^= 1;
    check_reused(&f, session, ids, N - 100, oldest + 19);
    ids[oldest + 18] ^= 1;
    assert_int_equal(mc_session_reuse(session, ids, N), 0);
    mc_session_close(&session);
    fixture_close(&f);
}

/* A session with a sliding context keeps only the last tokens of its text, and still recognises a
 * text that begins with all of it, also after it was saved and loaded. */
static void test_history_is_bounded(void **state) {
    (void)state;
    enum { N = 3000, CHUNK = 60 };
    model_fixture f;
    fixture_open("llama_untied_f32", &f);
    mc_session_model shared = shared_of(&f, 24);
    mc_session *session = open_session(&shared, CHUNK);
    int32_t ids[N + CHUNK];
    make_ids(&f, ids, N + CHUNK);
    feed_all(session, ids, N);
    int64_t start = session->history.start, limit = session->history.limit;
    assert_int_equal(mc_session_count(session), N);
    assert_true(limit > 24 && limit < 500 && start >= N - 2 * limit && start <= N - limit);
    check_reused(&f, session, ids, N + CHUNK, N);
    check_reused(&f, session, ids, N + CHUNK, N + CHUNK - 1);
    assert_int_equal(mc_session_reuse(session, ids, start), 0);
    assert_int_equal(mc_session_count(session), 0);
    feed_all(session, ids, N);
    ids[3] ^= 1; /* forgotten long ago */
    assert_int_equal(mc_session_reuse(session, ids, N + CHUNK), 0);
    mc_session_close(&session);
    fixture_close(&f);
}

/* Right guesses computed ahead give the same bits as feeding their tokens, and wrong ones change
 * nothing. Guesses are right 0 to 9 times, then wrong: beyond the window of 16, while buffers of
 * 384 entries drop entries, and with a context of 24. */
static void check_ahead(const model_fixture *f, int64_t context, int n, int from) {
    mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared, 64), *plain = open_session(&shared, 64);
    int32_t *ids = malloc((size_t)(n + MC_MAX_AHEAD) * sizeof *ids);
    assert_non_null(ids);
    make_ids(f, ids, n + MC_MAX_AHEAD);
    for (int at = 0; at < n; at += 64) {
        int64_t size = n - at < 64 ? n - at : 64;
        if (at < from) {
            feed(session, ids + at, size);
            feed(plain, ids + at, size);
            continue;
        }
        int32_t guesses[MC_MAX_AHEAD];
        for (int i = at; i < at + size; i++) {
            if (!mc_session_knows(session, ids[i])) {
                int count = 1 + i % MC_MAX_AHEAD;
                memcpy(guesses, ids + i, (size_t)count * sizeof *ids);
                int wrong = i % 10 + 1;
                if (wrong < count)
                    guesses[wrong] = (int32_t)((guesses[wrong] + 1) % f->lm->spec.vocab);
                assert_int_equal(mc_session_look_ahead(session, guesses, count), MICA_OK);
                assert_int_equal(mc_session_count(session), i);
                assert_true(mc_session_is_ahead(session));
            }
            assert_true(mc_session_knows(session, ids[i]));
            const float *got = feed(session, ids + i, 1), *want = feed(plain, ids + i, 1);
            assert_int_equal(mc_session_count(session), i + 1);
            fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f),
                            "%s: context %lld, token %d", f->name, (long long)context, i);
        }
    }
    assert_memory_equal(session->history.ids.data, ids, (size_t)n * sizeof *ids);
    free(ids);
    mc_session_close(&session);
    mc_session_close(&plain);
}

static void check_every_ahead(const model_fixture *f) {
    const int n = is_brief() ? 40 : 120;
    check_ahead(f, 0, n, 10);
    mc_lm_set_cache(f->lm, MICA_CACHE_INT8);
    check_ahead(f, 0, n, 10);
}

static void test_looking_ahead(void **state) {
    (void)state;
    const int n = test_device_is_other() ? 450 : 700; /* buffers of 384 entries drop some */
    model_fixture f;
    fixture_each(check_every_ahead);
    fixture_open("gemma3_text_f32", &f);
    check_ahead(&f, 24, n, is_brief() ? 360 : 200);
    if (is_brief()) {
        fixture_close(&f);
        return;
    }
    check_ahead(&f, 0, n, 300);
    mc_lm_set_cache(f.lm, MICA_CACHE_BF16);
    check_ahead(&f, 0, n, 300);
    check_ahead(&f, 23, n, 200);
    mc_lm_set_cache(f.lm, MICA_CACHE_F16);
    check_ahead(&f, 0, n, 420);
    mc_lm_set_cache(f.lm, MICA_CACHE_INT8);
    check_ahead(&f, 0, n, 300);
    check_ahead(&f, 23, n, 200);
    fixture_close(&f);
    fixture_open("llama_untied_f32", &f);
    check_ahead(&f, 24, n, 200);
    mc_lm_set_cache(f.lm, MICA_CACHE_BF16);
    check_ahead(&f, 45, n, 200);
    fixture_close(&f);
}

/* Tokens ahead are dropped by anything but feeding them. */
static void test_ahead_is_dropped(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[20];
    make_ids(&f, ids, 20);
    feed(session, ids, 10);
    assert_int_equal(mc_session_look_ahead(session, ids + 10, 5), MICA_OK);
    assert_int_equal(mc_session_reuse(session, ids, 11), 10);
    assert_false(mc_session_is_ahead(session));
    check_reused(&f, session, ids, 20, 10);
    assert_int_equal(mc_session_look_ahead(session, ids, 5), MICA_OK);
    assert_false(mc_session_knows(session, ids[1]));
    mc_session_reset(session);
    assert_false(mc_session_knows(session, ids[0]));
    check_reused(&f, session, ids, 20, 0);
    mc_session_close(&session);
    fixture_close(&f);
}

/* ---- recorded passes that are computed again ---- */

/* The session forgets its programs. */
static void force_recording(mc_session *session) {
    for (int i = 0; i < MC_SESSION_PROGRAMS; i++)
        mica_program_close(&session->programs[i].program);
}

static uint64_t looked_up(const model_fixture *f) {
    return mc_graph_cache_of(f->device)->hits + mc_graph_cache_of(f->device)->misses;
}

/* Only the first single token looks a plan up, and those for which buffers grow or drop entries. */
static void test_decoding_is_recorded_once(void **state) {
    (void)state;
    enum { PROMPT = 9, N = 600 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 256);
    int32_t ids[N];
    make_ids(&f, ids, N);
    feed(session, ids, PROMPT);
    for (int i = PROMPT; i < N; i++) {
        uint64_t before = looked_up(&f);
        feed(session, ids + i, 1);
        assert_int_equal(looked_up(&f) > before, i == PROMPT || i == 256 || i == 384 || i == 512);
    }
    mc_session_close(&session);
    fixture_close(&f);
}

/* Passes that give the queries and keys of layers leave the session's programs in their places. */
static void test_observed_passes_keep_the_programs(void **state) {
    (void)state;
    static const int64_t sizes[MC_SESSION_PROGRAMS] = {1, 2, 3, 4};
    const mc_session_wish wish = {
        .wanted = MC_LAST_LOGITS, .layers = (const int64_t[]){1}, .n_layers = 1};
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[64];
    mica_array results[3];
    make_ids(&f, ids, 64);
    for (int i = 0; i < MC_SESSION_PROGRAMS; i++)
        feed(session, ids, sizes[i]);
    assert_int_equal(mc_session_pass(session, ids, 5, &wish, results), MICA_OK);
    assert_int_equal(mc_session_pass(session, ids, 5, &wish, results), MICA_OK);
    for (int i = 0; i < MC_SESSION_PROGRAMS; i++) {
        uint64_t before = looked_up(&f);
        feed(session, ids, sizes[i]);
        assert_int_equal(looked_up(&f), before);
    }
    mc_session_close(&session);
    fixture_close(&f);
}

/* Chunks of a prompt, without logits, are one recorded pass as long as the buffers last. They give
 * the same bits as passes that are each recorded. */
static void check_prompt(const model_fixture *f, int64_t context) {
    enum { CHUNK = 30, CHUNKS = 12, N = CHUNK * CHUNKS + 1 };
    mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared, CHUNK), *plain = open_session(&shared, CHUNK);
    int32_t ids[N];
    int replayed = 0;
    make_ids(f, ids, N);
    for (int at = 0; at + 1 < N; at += CHUNK) {
        uint64_t before = looked_up(f);
        assert_int_equal(mc_session_feed(session, ids + at, CHUNK, NULL), MICA_OK);
        replayed += looked_up(f) == before;
        force_recording(plain);
        assert_int_equal(mc_session_feed(plain, ids + at, CHUNK, NULL), MICA_OK);
    }
    /* Not the first, and one for which the buffers grow. */
    assert_int_equal(replayed, CHUNKS - 2);
    const float *got = feed(session, ids + N - 1, 1), *want = feed(plain, ids + N - 1, 1);
    fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f), "%s: context %lld",
                    f->name, (long long)context);
    mc_session_close(&session);
    mc_session_close(&plain);
}

static void test_prompts_are_recorded_once(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    check_prompt(&f, 0);
    check_prompt(&f, 24);
    mc_lm_set_arithmetic(f.lm, MICA_ARITHMETIC_FAST);
    check_prompt(&f, 0);
    fixture_close(&f);
}

static void expect_same_best(const model_fixture *f, const mc_best *got, const mc_best *want) {
    assert_int_equal(got->id, want->id);
    fixture_compare(&got->logit, &want->logit, 1, fixture_same(f), "%s: best logit", f->name);
}

/* A session gives the same bits as one that records each pass, in all it does: single tokens while
 * buffers grow and drop entries, chunks, tokens ahead, going back, and best tokens in between. */
static void check_unrecorded(const model_fixture *f, int64_t context, int n) {
    enum { CHUNK = 30 };
    mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared, CHUNK), *plain = open_session(&shared, CHUNK);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    assert_non_null(ids);
    make_ids(f, ids, n);
    for (int at = 0, step = 0; at + CHUNK < n; step++) {
        int64_t size = step < 4 ? CHUNK : 1;
        int ahead = step % 50 > 40 ? 5 : 0; /* several equal passes in a row */
        if (step % 70 == 69) {
            int64_t to = mc_session_reuse(session, ids, at - 3);
            assert_int_equal(mc_session_reuse(plain, ids, at - 3), to);
            if (to < at - 4) break; /* the caches could not go back so far */
            at = (int)to;
        }
        session->greedy = plain->greedy = step % 90 > 80;
        force_recording(plain);
        if (ahead) {
            assert_int_equal(mc_session_look_ahead(session, ids + at, ahead), MICA_OK);
            assert_int_equal(mc_session_look_ahead(plain, ids + at, ahead), MICA_OK);
            size = 1 + step % 5;
        }
        for (int64_t i = 0, each = ahead ? 1 : size; i < size; i += each) {
            const float *got = feed(session, ids + at + i, each);
            const float *want = feed(plain, ids + at + i, each);
            assert_int_equal(got == NULL, session->greedy);
            if (got)
                fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f),
                                "%s: context %lld, step %d", f->name, (long long)context, step);
            else
                expect_same_best(f, mc_session_best(session), mc_session_best(plain));
        }
        at += (int)size;
    }
    free(ids);
    mc_session_close(&session);
    mc_session_close(&plain);
}

static void check_unrecorded_briefly(const model_fixture *f) {
    check_unrecorded(f, 0, is_brief() ? 190 : 250);
    if (!is_brief()) check_unrecorded(f, 24, 250);
}

static void test_unrecorded_passes_are_the_same(void **state) {
    (void)state;
    const int n = test_device_is_other() ? 450 : 1000; /* buffers of 384 entries drop some */
    model_fixture f;
    fixture_each(check_unrecorded_briefly);
    fixture_open("gemma3_text_f32", &f);
    check_unrecorded(&f, 24, n);
    if (is_brief()) {
        fixture_close(&f);
        return;
    }
    check_unrecorded(&f, 0, n);
    mc_lm_set_cache(f.lm, MICA_CACHE_BF16);
    check_unrecorded(&f, 23, n);
    fixture_close(&f);
}

/* ---- best tokens ---- */

/* Checks that a greedy session gives the first of the largest logits that a plain one gives. */
static void expect_best(const model_fixture *f, const mc_session *session, const float *logits) {
    const mc_best *best = mc_session_best(session);
    int32_t want = best_of(logits, f->lm->spec.vocab);
    assert_non_null(best);
    if (best->id != want) fail_msg("%s: %d is best, want %d", f->name, (int)best->id, (int)want);
    fixture_compare(&best->logit, &logits[want], 1, fixture_same(f), "%s: best logit", f->name);
}

static void check_best(const model_fixture *f) {
    mc_session_model shared = shared_of(f, 0);
    mc_session *session = open_session(&shared, 0), *plain = open_session(&shared, 0);
    int32_t ids[40];
    make_ids(f, ids, 40);
    session->greedy = true;
    assert_null(feed(session, ids, 20));
    expect_best(f, session, feed(plain, ids, 20));
    assert_int_equal(mc_session_look_ahead(session, ids + 20, 10), MICA_OK);
    for (int i = 20; i < 32; i++) {
        assert_int_equal(mc_session_knows(session, ids[i]), i < 30);
        assert_null(feed(session, ids + i, 1));
        expect_best(f, session, feed(plain, ids + i, 1));
    }
    assert_null(mc_session_best(plain));
    session->greedy = false;
    const float *got = feed(session, ids + 32, 1), *want = feed(plain, ids + 32, 1);
    fixture_compare(got, want, (size_t)f->lm->spec.vocab, fixture_same(f), "%s: logits again",
                    f->name);
    assert_null(mc_session_best(session));
    mc_session_close(&session);
    mc_session_close(&plain);
}

static void test_best(void **state) {
    (void)state;
    fixture_each(check_best);
}

/* The first of equals is found in any block of a kernel; NaN and infinities are reported. */
static void test_best_of_any_logits(void **state) {
    (void)state;
    enum { ROWS = 6, VOCAB = 3000 };
    static float logits[ROWS * VOCAB];
    static const int32_t want[ROWS] = {700, 0, 2999, 1024, 17, 0};
    const int64_t shape[] = {ROWS, 1, VOCAB};
    model_fixture f;
    mica_scope *s;
    mica_array arrays[MC_BEST_ARRAYS];
    mc_best best[ROWS];
    fixture_open("gemma3_text_f32", &f);
    assert_int_equal(mica_scope_open(f.device, &s), MICA_OK);
    for (int i = 0; i < ROWS * VOCAB; i++)
        logits[i] = (float)(i * 37 % 101) - 200.0f;
    for (int row = 0; row < ROWS; row++)
        for (int i = want[row]; i < VOCAB; i += 512)
            logits[row * VOCAB + i] = 3.5f;
    logits[3 * VOCAB + 1] = NAN;
    logits[4 * VOCAB + 17] = INFINITY;
    for (int i = 0; i < VOCAB; i++)
        logits[5 * VOCAB + i] = -INFINITY;
    mc_best_record(s, mica_from_data(s, logits, MICA_F32, shape, 3), arrays);
    assert_int_equal(mica_eval_n(s, arrays, MC_BEST_ARRAYS), MICA_OK);
    assert_int_equal(mc_best_read(arrays, best, ROWS), MICA_OK);
    for (int row = 0; row < ROWS; row++)
        assert_int_equal(best[row].id, want[row]);
    for (int row = 0; row < 3; row++)
        assert_true(best[row].logit == 3.5f);
    assert_true(isnan(best[3].logit));
    assert_true(best[4].logit == INFINITY);
    assert_true(best[5].logit == -INFINITY);
    mica_scope_close(&s);
    fixture_close(&f);
}

static void test_memory_is_as_told(void **state) {
    (void)state;
    model_fixture f;
    /* 2 of 6 layers are global, the others have a window of 16 */
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[300];
    make_ids(&f, ids, 300);
    feed(session, ids, 1); /* other devices copy weights when they are first used */
    mc_session_reset(session);
    uint64_t before = mica_device_active_bytes(f.device);
    feed_all(session, ids, 300);
    uint64_t told = mc_session_bytes(&shared, 300);
    assert_int_equal(told, 6u * 512 * 2 * 2 * 16 * sizeof(float));
    uint64_t used = mica_device_active_bytes(f.device) - before;
    assert_true(used >= told && used < told + 64 * 1024);
    /* Four layers keep 16 + 512 + 32 entries, rounded up; two grow. */
    assert_int_equal(mc_session_bytes(&shared, 5000),
                     (2u * 5120 + 4u * 640) * 2 * 2 * 16 * sizeof(float));
    mc_session_reset(session);
    assert_int_equal(mica_device_active_bytes(f.device), before);
    mc_session_close(&session);
    fixture_close(&f);
}

/* What every model takes for the tokens of a text, within a tenth: keys, values, and what is
 * carried from token to token, with the states that a session notes to go back to. */
static void check_memory(const model_fixture *f) {
    enum { N = 600, PART = 150 };
    mc_session_model shared = shared_of(f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[N];
    make_ids(f, ids, N);
    feed(session, ids, 1); /* other devices copy weights when they are first used */
    mc_session_reset(session);
    uint64_t before = mica_device_active_bytes(f->device);
    for (int i = 0; i < N; i += PART)
        feed(session, ids + i, PART);
    if (mc_session_look_ahead(session, ids, 2) != MICA_OK) fail_msg("%s", mica_last_error());
    double told = (double)mc_session_bytes(&shared, N + 2);
    double used = (double)(mica_device_active_bytes(f->device) - before);
    if (!(used >= 0.9 * told && used <= 1.1 * told))
        fail_msg("%s: %g bytes are used, %g were told", f->name, used, told);
    mc_session_close(&session);
}

static void test_memory_of_every_family(void **state) {
    (void)state;
    fixture_each(check_memory);
}

/* The caches of a known prompt get their room at once, also those with a window. */
static void test_room_for_a_prompt(void **state) {
    (void)state;
    enum { N = 900, CHUNK = 256 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, CHUNK);
    int32_t ids[N];
    make_ids(&f, ids, N);
    assert_int_equal(mc_session_reuse(session, ids, N), 0);
    feed(session, ids, CHUNK);
    assert_int_equal(session->cache.plan.n, 2);
    for (int i = 0; i < 2; i++) {
        const mc_state *one = session->cache.states[i];
        assert_int_equal(one->cap, one->span.window ? 384 : 1024); /* 16 and a chunk; 900 */
    }
    mc_session_close(&session);
    fixture_close(&f);
}

/* Active and peak bytes of decoding do not grow, except for the caches. */
static void test_decoding_is_flat(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_bf16_nohd", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[1000];
    uint64_t active[1000], peak[1000];
    make_ids(&f, ids, 1000);
    for (int i = 0; i < 1000; i++) {
        feed(session, ids + i, 1);
        active[i] = mica_device_active_bytes(f.device);
        peak[i] = mica_device_peak_bytes(f.device);
    }
    uint64_t grown = mc_session_bytes(&shared, 1000) - mc_session_bytes(&shared, 100);
    assert_int_equal(active[999], active[99] + grown);
    for (int i = 770; i < 1000; i++) { /* between two growths nothing changes */
        assert_int_equal(active[i], active[769]);
        assert_int_equal(peak[i], peak[769]);
    }
    mc_session_close(&session);
    fixture_close(&f);
}

/* Steady decoding allocates nothing. */
static void test_decoding_allocates_nothing(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* what another device allocates is its own */
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[64];
    make_ids(&f, ids, 64);
    feed_all(session, ids, 8);
    for (int i = 8; i < 16; i++)
        feed(session, ids + i, 1);
    mc_alloc_fail_at(0);
    for (int i = 16; i < 64; i++)
        feed(session, ids + i, 1);
    assert_true(mc_alloc_count() <= 4); /* the history's growth */
    mc_session_close(&session);
    fixture_close(&f);
}

enum { PROMPT = 24, TEXT = PROMPT + 3 };

/* A prompt in chunks without logits, then single tokens. */
static mica_status feed_text(const mc_session_model *shared, const int32_t *ids,
                             mc_session **session, const float **logits) {
    mica_status status = mc_session_open(shared, 8, session);
    for (int at = 0; at < PROMPT && status == MICA_OK; at += 8)
        status = mc_session_feed(*session, ids + at, 8, NULL);
    for (int at = PROMPT; at < TEXT && status == MICA_OK; at++)
        status = mc_session_feed(*session, ids + at, 1, logits);
    return status;
}

/* Opens a session and feeds it while allocation n fails; true: there was no allocation n. Logits of
 * a device may differ by `rounding`. */
static bool feed_without(const model_fixture *f, double rounding, uint64_t n) {
    mc_session_model shared = shared_of(f, 0);
    mc_session *session = NULL;
    const float *logits = NULL;
    int32_t ids[TEXT];
    make_ids(f, ids, TEXT);
    test_forget_plans(f->device);
    mc_alloc_fail_at(n);
    bool done = feed_text(&shared, ids, &session, &logits) == MICA_OK;
    bool failed = mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    assert_true(done || failed);
    if (failed && session) { /* it did without the allocation, or the session is empty and works */
        assert_int_equal(mc_session_count(session), done ? TEXT : 0);
        if (!done) logits = feed_all(session, ids, TEXT);
        float *want = recompute(f, ids, TEXT, 0);
        fixture_compare(logits, want, (size_t)f->lm->spec.vocab, fixture_same(f) + rounding,
                        "after a failure");
        free(want);
    }
    mc_session_close(&session);
    return !failed;
}

static void check_no_memory(const char *name, mica_arithmetic arithmetic) {
    model_fixture f;
    uint64_t n = 1;
    fixture_open(name, &f);
    mc_lm_set_arithmetic(f.lm, arithmetic);
    /* On MLX's GPU `fast` is bf16, with 8 bits; the largest logits are 10. */
    double rounding = arithmetic == MICA_ARITHMETIC_FAST && test_device_is_gpu() ? 0.2 : 0;
    while (!feed_without(&f, rounding, n))
        n += test_failure_step();
    assert_true(n > 100);
    fixture_close(&f);
}

static void test_no_memory(void **state) {
    (void)state;
    check_no_memory("gemma3_text_bf16_nohd", MICA_ARITHMETIC_EXACT);
    check_no_memory("q4g64_gemma3_mm", MICA_ARITHMETIC_FAST);
}

static void test_memory_limit(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model shared = shared_of(&f, 0);
    mc_session *session = open_session(&shared, 0);
    int32_t ids[300];
    const float *logits;
    make_ids(&f, ids, 300);
    mica_device_set_memory_limit(f.device, mica_device_active_bytes(f.device) + 100000);
    assert_int_equal(mc_session_feed(session, ids, 300, &logits), MICA_ENOMEM);
    assert_int_equal(mc_session_count(session), 0);
    mica_device_set_memory_limit(f.device, 0);
    feed(session, ids, 300);
    mc_session_close(&session);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunked_prefill),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_context_length),
        cmocka_unit_test(test_context_in_every_cache),
        cmocka_unit_test(test_every_context_length),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_reuse_in_every_family),
        cmocka_unit_test(test_going_back),
        cmocka_unit_test(test_going_back_in_a_context),
        cmocka_unit_test(test_history_is_bounded),
        cmocka_unit_test(test_looking_ahead),
        cmocka_unit_test(test_ahead_is_dropped),
        cmocka_unit_test(test_decoding_is_recorded_once),
        cmocka_unit_test(test_observed_passes_keep_the_programs),
        cmocka_unit_test(test_prompts_are_recorded_once),
        cmocka_unit_test(test_unrecorded_passes_are_the_same),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_best_of_any_logits),
        cmocka_unit_test(test_memory_is_as_told),
        cmocka_unit_test(test_memory_of_every_family),
        cmocka_unit_test(test_room_for_a_prompt),
        cmocka_unit_test(test_decoding_is_flat),
        cmocka_unit_test(test_decoding_allocates_nothing),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests_name("session/session", tests, NULL, NULL);
}

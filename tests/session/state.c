/* Any mixture of kinds of states: beside keys and values of all positions and of windows, a
 * recurrence, which can only go back to snapshots, and layers that share another's keys and values.
 * Whatever a session does, its logits are those of a new one that reads the text at once. */
#include "model/fixture.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "session/decay.h"
#include "session/session_file.h"
#include "session/stream.h"
#include "task/batch.h"

#include <mica/ops.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 8, CHUNK = 16, TEXT = 90, LARGE = 9999 };

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* ---- a model ---- */

typedef struct world {
    model_fixture f;
    mc_carried carried[2]; /* of a layer with a recurrence: the first one, or both */
    mc_layer_state states[MAX_LAYERS];
    mc_session_model model;
    int32_t text[TEXT];
} world;

/* An earlier layer with keys and values of the same window; else the layer itself. */
static int alike(const world *w, int layer) {
    for (int i = 0; i < layer; i++)
        if (!w->states[i].kind && mc_spec_attention(&w->f.lm->spec, i)->window ==
                                      mc_spec_attention(&w->f.lm->spec, layer)->window)
            return i;
    return layer;
}

static void open_world(world *w, const char *name) {
    *w = (world){0};
    fixture_open(name, &w->f);
    const mc_decoder_spec *spec = &w->f.lm->spec;
    open_decay();
    w->carried[0] = (mc_carried){MICA_F32, 3, {spec->kv_heads, 1, spec->head_dim}};
    w->carried[1] = (mc_carried){MICA_F32, 1, {LARGE}};
    assert_in_range(spec->n_layers, 2, MAX_LAYERS);
    for (int i = 0; i < spec->n_layers; i++) {
        w->states[i] = (mc_layer_state){.of = i};
        if (i == 1 || i == 4) w->states[i] = (mc_layer_state){&decay, i, w->carried, 1};
        if (i == 3) w->states[i].of = alike(w, i);
    }
    w->model = (mc_session_model){.lm = w->f.lm, .device = w->f.device, .states = w->states};
    for (int i = 0; i < TEXT; i++)
        w->text[i] = (int32_t)((i * i * 31 + i * 7 + 3) % spec->vocab);
}

static void open_pool(world *w, bool keep) {
    const mc_kv_pool_options options = {.bytes = 1 << 22,
                                        .block = 32,
                                        .states = w->states,
                                        .sessions = 4,
                                        .keep = keep && mc_prefix_available(),
                                        .swap_bytes = 1 << 22};
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &w->model.pool));
}

static void close_world(world *w) {
    const mc_kv_pool *pool = w->model.pool;
    if (pool) assert_int_equal(mc_kv_pool_available(pool), pool->blocks);
    mc_kv_pool_close(&w->model.pool);
    fixture_close(&w->f);
}

static mc_session *open_session(const world *w) {
    mc_session *session;
    must(mc_session_open(&w->model, CHUNK, &session));
    return session;
}

/* Feeds in passes of `step` tokens. */
static const float *feed(mc_session *session, const int32_t *ids, int64_t n, int64_t step) {
    const float *logits = NULL;
    for (int64_t at = 0; at < n; at += step)
        must(mc_session_feed(session, ids + at, mc_min(step, n - at), &logits));
    return logits;
}

/* Fails unless logits are those of a session of its own that reads the text. */
static void expect(const world *w, const float *got, const int32_t *ids, int64_t n,
                   const char *what) {
    world alone = *w;
    alone.model.pool = NULL;
    mc_session *session = open_session(&alone);
    fixture_compare(got, feed(session, ids, n, CHUNK), (size_t)w->f.lm->spec.vocab,
                    fixture_same(&w->f), "%s: %s, %d tokens", w->f.name, what, (int)n);
    mc_session_close(&session);
}

/* Runs a check for models with and without windows, with and without a pool. */
static void each(void (*check)(world *w)) {
    static const char *const names[] = {"gemma3_text_f32", "llama_untied_f32"};
    for (int i = 0; i < 4; i++) {
        world w;
        open_world(&w, names[i / 2]);
        if (i % 2) open_pool(&w, true);
        check(&w);
        close_world(&w);
    }
}

/* ---- the plan ---- */

static void test_plan(void **state) {
    (void)state;
    world w;
    mc_state_plan plan;
    open_world(&w, "gemma3_text_f32"); /* six layers: the last of three attends to all */
    for (int block = 0; block <= 32; block += 32) {
        must(mc_state_plan_init(&plan, w.f.lm, w.states, 0, CHUNK, block));
        const mc_state_ops *kind = block ? &mc_state_blocks : &mc_state_buffers;
        for (int i = 0; i < plan.layers; i++)
            assert_ptr_equal(plan.states[plan.places[i].state].kind,
                             i == 1 || i == 4 ? &decay : kind);
        assert_memory_equal(&plan.places[3], &plan.places[w.states[3].of], sizeof(mc_place));
        assert_int_not_equal(w.states[3].of, 3);
        assert_int_equal(plan.states[plan.places[1].state].slots, 1);
        assert_int_not_equal(plan.places[1].state, plan.places[4].state);
        assert_int_equal(plan.together, block ? plan.n - 2 : 0);
        mc_state_plan_deinit(&plan);
    }
    close_world(&w);
}

/* The states of the test are none of the model's own. */
static void test_states_matter(void **state) {
    (void)state;
    world w;
    open_world(&w, "gemma3_text_f32");
    size_t vocab = (size_t)w.f.lm->spec.vocab;
    float *first = malloc(vocab * sizeof *first);
    assert_non_null(first);
    for (int way = 0; way < 3; way++) {
        world other = w;
        if (way == 1) other.states[1] = (mc_layer_state){.of = 1};
        if (way == 2) other.states[3].of = 3;
        other.model.states = other.states;
        mc_session *session = open_session(&other);
        const float *logits = feed(session, w.text, 20, CHUNK);
        if (way == 0) memcpy(first, logits, vocab * sizeof *first);
        if (way) assert_memory_not_equal(first, logits, vocab * sizeof *first);
        mc_session_close(&session);
    }
    free(first);
    close_world(&w);
}

/* ---- sessions ---- */

static void check_parts(world *w) {
    mc_session *session = open_session(w);
    for (int64_t at = 0, i = 1; at + i <= TEXT; at += i, i = i % 7 + 1)
        expect(w, feed(session, w->text + at, i, i), w->text, at + i, "parts");
    mc_session_close(&session);
}

static void test_parts(void **state) {
    (void)state;
    each(check_parts);
}

/* A text that differs from position `common` on. */
static void reuse(world *w, mc_session *session, int64_t common, int64_t want) {
    int32_t other[TEXT];
    memcpy(other, w->text, sizeof other);
    other[common] = (other[common] + 1) % (int32_t)w->f.lm->spec.vocab;
    int64_t at = mc_session_reuse(session, other, TEXT);
    assert_int_equal(at, want);
    expect(w, feed(session, other + at, TEXT - at, 10), other, TEXT, "another end");
}

/* A session goes back to the last snapshot before the other text's beginning. */
static void check_back(world *w) {
    static const int64_t cases[][2] = {{40, 40}, {39, 30}, {30, 30}, {12, 10}, {9, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_session *session = open_session(w);
        feed(session, w->text, 40, 10);
        reuse(w, session, cases[i][0], cases[i][1]);
        mc_session_close(&session);
    }
    mc_session *session = open_session(w); /* token by token: there is one behind the prompt */
    feed(session, w->text, 10, 10);
    feed(session, w->text + 10, 30, 1);
    bool kept = w->model.pool && w->model.pool->keeps; /* behind a block, by those before */
    reuse(w, session, 35, kept ? 32 : 10);
    mc_session_close(&session);
}

static void test_back(void **state) {
    (void)state;
    each(check_back);
}

/* n tokens ahead, of which the first `right` are those that come. */
static void look(world *w, mc_session *session, int64_t at, int64_t n, int64_t right) {
    int32_t ids[CHUNK];
    const float *logits;
    memcpy(ids, w->text + at, (size_t)n * sizeof *ids);
    for (int64_t i = right; i < n; i++)
        ids[i] = (ids[i] + 1) % (int32_t)w->f.lm->spec.vocab;
    must(mc_session_look_ahead(session, ids, n));
    for (int64_t i = 0; i < right; i++) {
        assert_true(mc_session_knows(session, w->text[at + i]));
        must(mc_session_feed(session, w->text + at + i, 1, &logits));
        expect(w, logits, w->text, at + i + 1, "a right guess");
    }
}

static void check_ahead(world *w) {
    mc_session *session = open_session(w);
    int64_t at = 20;
    feed(session, w->text, at, 10);
    for (int64_t n = 1; n <= 6; n++)
        for (int64_t right = mc_min(n, 1); right <= n; right += n) {
            look(w, session, at, n, right);
            at += right;
            expect(w, feed(session, w->text + at, 1, 1), w->text, at + 1, "after guesses");
            at++;
        }
    mc_session_close(&session);
}

static void test_ahead(void **state) {
    (void)state;
    each(check_ahead);
}

/* An answer with drafts is the one without. */
static void check_drafts(world *w) {
    int32_t ids[2][60];
    for (int way = 0; way < 2; way++) {
        mc_session *session = open_session(w);
        mc_stream *stream;
        mica_token token;
        const mica_generate_options options = {.max_tokens = 60, .draft_tokens = way ? 8 : 0};
        int32_t prompt[30];
        for (int i = 0; i < 30; i++)
            prompt[i] = w->text[i % 5];
        must(mc_stream_open(session, prompt, 30, &options, &stream));
        for (int i = 0; i < 60; i++)
            ids[way][i] = mc_stream_next(stream, &token) ? token.id : -1;
        must(mc_stream_status(stream));
        mc_stream_close(&stream);
        mc_session_close(&session);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
}

static void test_drafts(void **state) {
    (void)state;
    each(check_drafts);
}

static void check_forks(world *w) {
    mc_session *session = open_session(w), *fork;
    int32_t other[TEXT];
    feed(session, w->text, 30, 10);
    must(mc_session_look_ahead(session, w->text + 31, 3)); /* wrong guesses, which it drops */
    must(mc_session_fork(session, &fork));
    memcpy(other, w->text, sizeof other);
    other[30] = 1;
    for (int i = 30; i < 40; i++) {
        expect(w, feed(session, w->text + i, 1, 1), w->text, i + 1, "what was forked");
        expect(w, feed(fork, other + i, 1, 1), other, i + 1, "a fork");
    }
    mc_session_close(&session);
    expect(w, feed(fork, other + 40, 10, 5), other, 50, "a fork that is left");
    mc_session_close(&fork);
}

static void test_forks(void **state) {
    (void)state;
    each(check_forks);
}

/* Right guesses over the end of a block, of which a fork drops those that are not fed: others may
 * have their blocks then. */
static void check_settled(world *w) {
    mc_session *session = open_session(w), *fork, *other = open_session(w);
    feed(session, w->text, 30, 10);
    must(mc_session_look_ahead(session, w->text + 30, 8));
    expect(w, feed(session, w->text + 30, 1, 1), w->text, 31, "a right guess");
    must(mc_session_fork(session, &fork));
    assert_false(mc_session_is_ahead(session));
    expect(w, mc_session_logits(session), w->text, 31, "what was forked");
    feed(other, w->text + 40, 40, 10);
    for (int i = 31; i < 70; i++) {
        expect(w, feed(session, w->text + i, 1, 1), w->text, i + 1, "behind guesses");
        expect(w, feed(fork, w->text + i, 1, 1), w->text, i + 1, "a fork behind guesses");
    }
    int64_t at = mc_session_reuse(other, w->text, TEXT);
    expect(w, feed(other, w->text + at, TEXT - at, 10), w->text, TEXT, "what it kept");
    mc_session_close(&other);
    mc_session_close(&fork);
    mc_session_close(&session);
}

static void test_settled(void **state) {
    (void)state;
    world w;
    each(check_settled);
    open_world(&w, "llama_untied_f32");
    for (int i = 0; i < w.f.lm->spec.n_layers; i++)
        w.states[i] = (mc_layer_state){.of = i};
    open_pool(&w, true);
    check_settled(&w);
    close_world(&w);
}

/* ---- rows ---- */

enum { ROWS = 3 };

static void check_rows(world *w) {
    mc_batch batch;
    mc_session *sessions[ROWS];
    must(mc_batch_init(&batch, &w->model));
    for (int i = 0; i < ROWS; i++) {
        sessions[i] = open_session(w);
        feed(sessions[i], w->text, 7 + 9 * i, 6);
    }
    for (int step = 0; step < 12; step++) {
        int32_t ids[ROWS];
        for (int i = 0; i < ROWS; i++) {
            ids[i] = w->text[7 + 9 * i + step];
            must(mc_session_reserve(sessions[i], 1));
        }
        must(mc_batch_feed(&batch, sessions, ids, ROWS));
        for (int i = 0; i < ROWS; i++)
            expect(w, feed(sessions[i], &ids[i], 1, 1), w->text, 8 + 9 * i + step, "a row");
    }
    for (int i = 0; i < ROWS; i++)
        mc_session_close(&sessions[i]);
    mc_batch_deinit(&batch);
}

static void test_rows(void **state) {
    (void)state;
    each(check_rows);
}

/* A pass of several rows with several tokens each. */
static void check_parts_of_rows(world *w) {
    const int64_t shape[] = {ROWS, 4};
    int32_t ids[ROWS * 4];
    float *logits = malloc(ROWS * (size_t)w->f.lm->spec.vocab * sizeof *logits);
    mc_pass_rows pass = {.lm = w->f.lm, .rows = ROWS, .n = 4, .wish = {.wanted = MC_LAST_LOGITS}};
    mc_session *sessions[ROWS];
    mc_batch batch;
    mica_array result;
    must(mc_batch_init(&batch, &w->model));
    assert_non_null(logits);
    for (int i = 0; i < ROWS; i++) {
        sessions[i] = open_session(w);
        int64_t n = pass.positions[i] = 5 + 8 * i;
        feed(sessions[i], w->text, n, 6);
        must(mc_session_reserve(sessions[i], 4));
        memcpy(ids + i * 4, w->text + n, 4 * sizeof *ids);
        pass.caches[i] = &sessions[i]->cache;
        pass.homes[i] = sessions[i]->scope;
    }
    must(mc_pass_compute(&batch.passes, &pass, mica_from_data(batch.scope, ids, MICA_I32, shape, 2),
                         &result));
    must(mica_read(result, logits, ROWS * (size_t)w->f.lm->spec.vocab * sizeof *logits));
    for (int i = 0; i < ROWS; i++) {
        expect(w, logits + (size_t)i * (size_t)w->f.lm->spec.vocab, w->text, 9 + 8 * i,
               "four tokens of a row");
        mc_session_close(&sessions[i]);
    }
    mc_batch_deinit(&batch);
    free(logits);
}

static void test_parts_of_rows(void **state) {
    (void)state;
    each(check_parts_of_rows);
}

/* A step in which the n-th allocation fails: all rows have their tokens, or none, and those with a
 * recurrence are empty. Returns whether one failed. */
static bool fail_step(world *w, bool paged, uint64_t n) {
    const int64_t counts[ROWS] = {1, 1, 1};
    mc_session *sessions[ROWS];
    mc_batch batch;
    int32_t ids[ROWS];
    test_forget_plans(w->f.device);
    if (paged) open_pool(w, false);
    must(mc_batch_init(&batch, &w->model));
    for (int i = 0; i < ROWS; i++) {
        sessions[i] = open_session(w);
        feed(sessions[i], w->text, 7 + 9 * i, CHUNK);
        ids[i] = w->text[7 + 9 * i];
        must(mc_session_reserve(sessions[i], 1));
    }
    mc_alloc_fail_at(n);
    mica_status status = mc_batch_look_ahead(&batch, sessions, ids, counts, ROWS);
    bool failed = mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    bool lost = status != MICA_OK;
    if (lost) assert_true(failed && status == MICA_ENOMEM);
    for (int i = 0; i < ROWS; i++) {
        int64_t end = 8 + 9 * i, at = mc_session_count(sessions[i]);
        assert_int_equal(at, lost ? 0 : end - 1);
        expect(w, feed(sessions[i], w->text + at, end - at, lost ? CHUNK : 1), w->text, end,
               "a row of a step");
        mc_session_close(&sessions[i]);
    }
    mc_batch_deinit(&batch);
    mc_kv_pool_close(&w->model.pool);
    return failed;
}

static void test_failing_steps(void **state) {
    (void)state;
    for (int paged = 0; paged < 2; paged++) {
        world w;
        uint64_t n = 1;
        open_world(&w, "llama_untied_f32");
        while (fail_step(&w, paged, n))
            n += test_is_brief() ? 17 : 1;
        assert_true(n > 2);
        close_world(&w);
    }
}

/* ---- files and copies ---- */

static void check_files(world *w) {
    mc_session *session = open_session(w), *loaded;
    char *folder = test_temp_dir(), *path = test_format("%s/session", folder);
    feed(session, w->text, 33, 10);
    must(mc_session_look_ahead(session, w->text + 34, 3)); /* wrong guesses, which it drops */
    must(mc_session_save(session, path));
    must(mc_session_load(&w->model, path, CHUNK, &loaded));
    assert_int_equal(mc_session_count(loaded), 33);
    expect(w, feed(loaded, w->text + 33, 7, 7), w->text, 40, "a file");
    expect(w, feed(session, w->text + 33, 7, 7), w->text, 40, "what was saved");
    mc_session_close(&loaded);
    mc_session_swap_out(session);
    uint64_t swaps = w->model.pool ? w->model.pool->swaps : 0;
    int64_t at = mc_session_reuse(session, w->text, TEXT);
    assert_int_equal(at, w->model.pool ? 40 : 0);
    if (w->model.pool) assert_int_equal(w->model.pool->swaps, swaps + 1);
    expect(w, feed(session, w->text + at, TEXT - at, CHUNK), w->text, TEXT, "a copy");
    mc_session_close(&session);
    free(path);
    test_temp_dir_remove(folder);
}

static void test_files(void **state) {
    (void)state;
    each(check_files);
}

/* A file of few tokens, of which most is what a layer carries. */
static void check_large_arrays(world *w) {
    mc_session *session = open_session(w), *loaded;
    char *folder = test_temp_dir(), *path = test_format("%s/session", folder);
    feed(session, w->text, 3, 3);
    must(mc_session_save(session, path));
    must(mc_session_load(&w->model, path, CHUNK, &loaded));
    expect(w, feed(loaded, w->text + 3, 7, 7), w->text, 10, "a file of a large array");
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(path);
    test_temp_dir_remove(folder);
}

static void test_large_arrays(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        world w;
        open_world(&w, "llama_untied_f32");
        w.states[1].n_carried = 2;
        if (i) open_pool(&w, false);
        check_large_arrays(&w);
        close_world(&w);
    }
}

/* ---- budgets and failures ---- */

/* A layer with attention whose state takes no keys. */
static void test_refused(void **state) {
    (void)state;
    world w;
    mc_session *session;
    open_world(&w, "llama_untied_f32");
    w.states[1].kind = &mc_state_carried;
    assert_int_equal(mc_session_open(&w.model, CHUNK, &session), MICA_EUNSUPPORTED);
    assert_null(session);
    assert_non_null(strstr(mica_last_error(), "layer 1 has attention"));
    close_world(&w);
}

/* A pool keeps prefixes of sessions of which all is in its blocks, or has snapshots that others can
 * go on from, if there is room for one. */
static void test_keeps(void **state) {
    (void)state;
    world w;
    open_world(&w, "llama_untied_f32");
    open_pool(&w, true);
    assert_int_equal(w.model.pool->keeps, mc_prefix_available());
    mc_kv_pool_close(&w.model.pool);
    decay.share = NULL;
    open_pool(&w, true);
    assert_false(w.model.pool->keeps);
    assert_null(w.model.pool->owners);
    mc_kv_pool_close(&w.model.pool);
    open_decay();
    w.states[1].carried = w.carried + 1;
    w.carried[1].shape[0] = 1 << 20;
    mc_kv_pool_options options = {
        .bytes = 1 << 22, .block = 32, .states = w.states, .keep = mc_prefix_available()};
    must(mc_kv_pool_open(w.f.lm, w.f.device, &options, &w.model.pool));
    assert_false(w.model.pool->keeps);
    mc_kv_pool_close(&w.model.pool);
    w.states[1] = (mc_layer_state){.of = 1};
    if (w.f.lm->spec.n_layers > 4) w.states[4] = (mc_layer_state){.of = 4};
    open_pool(&w, true);
    assert_int_equal(w.model.pool->keeps, mc_prefix_available());
    close_world(&w);
}

/* The error of a limit that is too low names that limit. */
static void test_low_limit(void **state) {
    (void)state;
    world w;
    open_world(&w, "llama_untied_f32");
    const mc_kv_pool_options options = {.bytes = 12345, .states = w.states, .sessions = 1000};
    assert_int_equal(mc_kv_pool_open(w.f.lm, w.f.device, &options, &w.model.pool), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "12345 bytes"));
    assert_non_null(strstr(mica_last_error(), "sessions carry beside"));
    close_world(&w);
}

static void test_bytes(void **state) {
    (void)state;
    world w, plain;
    open_world(&w, "llama_untied_f32");
    plain = w;
    plain.model.states = NULL;
    const mc_decoder_spec *spec = &w.f.lm->spec;
    int own = 0;
    for (int i = 0; i < spec->n_layers; i++)
        own += w.states[i].of == i && !w.states[i].kind;
    uint64_t one = (uint64_t)(spec->kv_heads * spec->head_dim) * sizeof(float);
    uint64_t carried = (uint64_t)(1 + (spec->n_layers > 4)) * 5 * one; /* with snapshots */
    assert_int_equal(mc_session_bytes(&plain.model, 1000),
                     (uint64_t)spec->n_layers * 2 * 1024 * one);
    assert_int_equal(mc_session_bytes(&w.model, 1000), (uint64_t)own * 2 * 1024 * one + carried);
    mc_kv_pool_options options = {.bytes = 1 << 20, .states = w.states};
    int32_t blocks[2];
    for (int i = 0; i < 2; i++) {
        options.sessions = i * 100;
        must(mc_kv_pool_open(w.f.lm, w.f.device, &options, &w.model.pool));
        blocks[i] = w.model.pool->blocks;
        uint64_t block = w.model.pool->parts->block_bytes;
        assert_true((uint64_t)blocks[i] * block <= (1u << 20) - (uint64_t)i * 100 * carried);
        assert_true((uint64_t)(blocks[i] + 1) * block > (1u << 20) - (uint64_t)i * 100 * carried);
        mc_kv_pool_close(&w.model.pool);
    }
    assert_true(blocks[1] <= blocks[0]);
    close_world(&w);
}

static bool use(void *context) {
    const world *w = context;
    mc_session *session = NULL, *fork = NULL;
    const float *logits;
    bool ok = mc_session_open(&w->model, CHUNK, &session) == MICA_OK &&
              mc_session_feed(session, w->text, 5, NULL) == MICA_OK &&
              mc_session_feed(session, w->text + 5, 5, &logits) == MICA_OK &&
              mc_session_look_ahead(session, w->text + 11, 2) == MICA_OK &&
              mc_session_fork(session, &fork) == MICA_OK &&
              mc_session_feed(fork, w->text + 10, 1, &logits) == MICA_OK &&
              mc_session_reuse(session, w->text, 8) <= 5 &&
              mc_session_feed(session, w->text + 5, 1, &logits) == MICA_OK;
    if (session) assert_true(mc_session_count(session) <= 10);
    mc_session_close(&fork);
    mc_session_close(&session);
    return ok;
}

static void test_failures(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        world w;
        open_world(&w, "llama_untied_f32");
        if (i) open_pool(&w, false);
        test_fail_each_allocation(use, &w);
        close_world(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),          cmocka_unit_test(test_states_matter),
        cmocka_unit_test(test_parts),         cmocka_unit_test(test_back),
        cmocka_unit_test(test_ahead),         cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_forks),         cmocka_unit_test(test_rows),
        cmocka_unit_test(test_parts_of_rows), cmocka_unit_test(test_files),
        cmocka_unit_test(test_bytes),         cmocka_unit_test(test_failures),
        cmocka_unit_test(test_settled),       cmocka_unit_test(test_failing_steps),
        cmocka_unit_test(test_large_arrays),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_keeps),         cmocka_unit_test(test_low_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

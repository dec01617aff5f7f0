/* Rows computed together: each is, bit for bit, what it is alone. */
#include "model/fixture.h"

#include "device/device.h"
#include "exec/cache.h"
#include "session/stream.h"
#include "task/batch.h"
#include "task/prompts.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 16, LONG = 300 }; /* LONG: a cache's first buffers hold 256 tokens */

static mica_status try_batch(const mc_session_model *model, const prompts *p,
                             const mica_batch_item *items, size_t count,
                             const mica_batch_options *options, mica_batch_results **results) {
    const mc_batch_task task = {model, items, count, encode, (void *)p, NULL};
    return mc_batch_generate(&task, options, results);
}

static mica_batch_results *batch(const mc_session_model *model, const prompts *p,
                                 const mica_batch_item *items, size_t count,
                                 const mica_batch_options *options) {
    mica_batch_results *results;
    if (try_batch(model, p, items, count, options, &results) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(results->count, count);
    return results;
}

static mc_session_model shared_of(const model_fixture *f) {
    return (mc_session_model){.lm = f->lm, .device = f->device};
}

/* ---- goldens ---- */

/* Every golden prompt of a model, of lengths 1 to 41, together: each row is its golden path. With
 * two slots rows leave and enter while others go on. */
static void check_greedy(const model_fixture *f, int parallel) {
    const mica_generate_options options = {.max_tokens = 24};
    mc_session_model model = shared_of(f);
    mica_batch_item items[MAX];
    const int32_t *want[MAX];
    prompts p = {0};
    size_t count = 0, steps = 0;
    for (int i = 0; i < MAX; i++) {
        p.ids[count] = fixture_ints(f, &p.lengths[count], "prompt%d.ids", i);
        want[count] = fixture_ints(f, &steps, "prompt%d.greedy", i);
        if (!p.ids[count] || !want[count]) continue;
        assert_int_equal(steps, 24);
        items[count++] = (mica_batch_item){.options = &options};
    }
    assert_true(count >= 4);
    mica_batch_results *results =
        batch(&model, &p, items, count, &(mica_batch_options){.parallel = parallel});
    for (size_t i = 0; i < count; i++) {
        const mica_batch_row *row = &results->rows[i];
        if (row->status != MICA_OK) fail_msg("%s: row %zu: %s", f->name, i, row->error);
        assert_int_equal(row->finish, MICA_FINISH_LENGTH);
        assert_int_equal(row->count, 24);
        if (memcmp(row->ids, want[i], 24 * sizeof *want[i]) != 0)
            fail_msg("%s: row %zu, %d together: not the golden path", f->name, i, parallel);
        assert_int_equal(row->metrics->prompt_tokens, p.lengths[i]);
        assert_int_equal(row->metrics->generated_tokens, 24);
    }
    assert_int_equal(results->generated_tokens, 24 * count);
    mica_batch_free(&results);
    mica_batch_free(&results);
    assert_null(results);
}

static void check_greedy_paths(const model_fixture *f) {
    check_greedy(f, 0);
    check_greedy(f, 2);
}

static void test_greedy_paths(void **state) {
    (void)state;
    fixture_each(check_greedy_paths);
}

/* The logits of a step are, bit for bit, those of feeding the sessions alone; the golden batch's
 * sequences are of different lengths. */
static void check_logits_within(const model_fixture *f, double tolerance) {
    size_t n_ids, rows, vocab = (size_t)f->lm->spec.vocab;
    const int32_t *ids = fixture_ints(f, &n_ids, "batch.ids");
    const int32_t *lengths = fixture_ints(f, &rows, "batch.lengths");
    const float *want = fixture_floats(f, NULL, "batch.last_logits");
    mc_session_model model = shared_of(f);
    mc_session *sessions[MAX], *alone;
    int32_t last[MAX];
    const float *got, *single;
    mc_batch b;
    assert_true(ids && lengths && want && rows <= MAX);
    size_t width = n_ids / rows;
    assert_int_equal(mc_batch_init(&b, &model), MICA_OK);
    for (size_t i = 0; i < rows; i++) { /* all but the last token */
        assert_int_equal(mc_session_open(&model, 0, &sessions[i]), MICA_OK);
        last[i] = ids[i * width + (size_t)lengths[i] - 1];
        if (lengths[i] > 1)
            assert_int_equal(mc_session_feed(sessions[i], ids + i * width, lengths[i] - 1, NULL),
                             MICA_OK);
        assert_int_equal(mc_session_reserve(sessions[i], 1), MICA_OK);
    }
    if (mc_batch_feed(&b, sessions, last, rows) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < rows; i++) {
        assert_int_equal(mc_session_feed(sessions[i], &last[i], 1, &got), MICA_OK);
        assert_int_equal(mc_session_count(sessions[i]), lengths[i]);
        fixture_compare(got, want + i * vocab, vocab, tolerance, "%s: row %zu", f->name, i);
        assert_int_equal(mc_session_open(&model, 0, &alone), MICA_OK);
        assert_int_equal(mc_session_feed(alone, ids + i * width, lengths[i], &single), MICA_OK);
        fixture_compare(got, single, vocab, 0.0, "%s: row %zu alone", f->name, i);
        mc_session_close(&alone);
    }
    mc_batch_deinit(&b);
    for (size_t i = 0; i < rows; i++)
        mc_session_close(&sessions[i]);
}

static bool has_router(const mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_blocks; i++)
        if (spec->blocks[i].kind == &mc_block_experts) return true;
    return false;
}

/* With int8 caches a router may pick another expert, so that no logit says anything of another
 * program's. Others are up to 14; bf16 caches are off by up to 0.24. */
static void check_logits(const model_fixture *f) {
    check_logits_within(f, f->tolerance);
    mc_lm_set_cache(f->lm, MICA_CACHE_INT8);
    check_logits_within(f, has_router(&f->lm->spec) ? INFINITY : 0.8);
}

static void test_logits(void **state) {
    (void)state;
    fixture_each(check_logits);
}

/* Steps of the same rows are recorded once, but where buffers grow: rows in another order, one
 * fewer, one more, some that want logits, tokens 250 to 300 of their caches. Each row is what it is
 * alone. */
typedef struct trio {
    const model_fixture *f;
    mc_batch b;
    mc_session *together[3], *alone[3];
    int32_t count[3]; /* tokens fed */
} trio;

static int32_t token_of(const trio *t, size_t row, int32_t i) {
    return (int32_t)(((size_t)i * (row + 7) + row) % (size_t)t->f->lm->spec.vocab);
}

static void prefill(trio *t, size_t row, int32_t n) {
    int32_t ids[LONG];
    for (int32_t i = 0; i < n; i++)
        ids[i] = token_of(t, row, i);
    mc_session_reset(t->together[row]);
    mc_session_reset(t->alone[row]);
    assert_int_equal(mc_session_feed(t->together[row], ids, n, NULL), MICA_OK);
    assert_int_equal(mc_session_feed(t->alone[row], ids, n, NULL), MICA_OK);
    t->count[row] = n;
}

/* A step of these rows; whether it looked a plan up. */
static bool decode_step(trio *t, const size_t *rows, size_t n) {
    const mc_graph_cache *plans = mc_graph_cache_of(t->f->device);
    mc_session *sessions[3];
    int32_t ids[3];
    for (size_t i = 0; i < n; i++) {
        sessions[i] = t->together[rows[i]];
        ids[i] = token_of(t, rows[i], t->count[rows[i]]);
        assert_int_equal(mc_session_reserve(sessions[i], 1), MICA_OK);
    }
    uint64_t before = plans->hits + plans->misses;
    if (mc_batch_feed(&t->b, sessions, ids, n) != MICA_OK) fail_msg("%s", mica_last_error());
    bool looked_up = plans->hits + plans->misses > before;
    for (size_t i = 0; i < n; i++) {
        const float *got, *want;
        mc_session *alone = t->alone[rows[i]];
        alone->greedy = !mc_session_logits(sessions[i]);
        assert_int_equal(mc_session_feed(sessions[i], &ids[i], 1, &got), MICA_OK);
        assert_int_equal(mc_session_feed(alone, &ids[i], 1, &want), MICA_OK);
        if (got)
            fixture_compare(got, want, (size_t)t->f->lm->spec.vocab, 0.0, "row %zu", rows[i]);
        else
            assert_memory_equal(mc_session_best(sessions[i]), mc_session_best(alone),
                                sizeof(mc_best));
        t->count[rows[i]]++;
    }
    return looked_up;
}

static void test_turns_are_recorded_once(void **state) {
    (void)state;
    static const size_t rows[] = {0, 1, 2}, others[] = {1, 0, 2};
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = shared_of(&f);
    trio t = {.f = &f};
    assert_int_equal(mc_batch_init(&t.b, &model), MICA_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mc_session_open(&model, 0, &t.together[i]), MICA_OK);
        assert_int_equal(mc_session_open(&model, 0, &t.alone[i]), MICA_OK);
        prefill(&t, i, (int32_t)(250 - 2 * i)); /* so that rows grow in steps 6, 8 and 10 */
    }
    for (int i = 0; i < 14; i++)
        assert_int_equal(decode_step(&t, rows, 3), i == 0 || i == 6 || i == 8 || i == 10);
    for (int i = 0; i < 3; i++) /* in another order, but with buffers of the same sizes */
        assert_false(decode_step(&t, others, 3));
    for (size_t i = 0; i < 3; i++)
        t.together[i]->greedy = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(decode_step(&t, others, 3), i == 0);
    t.together[1]->greedy = false; /* the others still get their best tokens alone */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(decode_step(&t, others, 3), i == 0);
        assert_non_null(mc_session_logits(t.together[1]));
        assert_non_null(mc_session_best(t.together[0]));
        assert_non_null(mc_session_best(t.together[2]));
    }
    t.together[1]->greedy = true;
    assert_true(decode_step(&t, others, 3));
    mc_session_reset(t.together[2]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(decode_step(&t, others, 2), i == 0);
    prefill(&t, 2, 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(decode_step(&t, others, 3), i == 0);
    prefill(&t, 0, 6); /* the same sessions, one of which began anew */
    for (int i = 0; i < 3; i++)
        assert_int_equal(decode_step(&t, others, 3), i == 0);
    mc_batch_deinit(&t.b);
    for (size_t i = 0; i < 3; i++) {
        mc_session_close(&t.together[i]);
        mc_session_close(&t.alone[i]);
    }
    fixture_close(&f);
}

/* ---- rows of their own ---- */

typedef struct room {
    model_fixture f; /* gemma3_text_f32: vocabulary 558, windows of 16 */
    mc_session_model model;
    prompts p;
    uint64_t idle; /* bytes of the device that the model holds */
} room;

static void open_room(room *r) {
    fixture_open("gemma3_text_f32", &r->f);
    r->model = shared_of(&r->f);
    r->p = (prompts){0};
    r->idle = mica_device_active_bytes(r->f.device);
    for (int i = 0; i < 4; i++)
        r->p.ids[i] = fixture_ints(&r->f, &r->p.lengths[i], "prompt%d.ids", i);
}

/* What a stream of its own hands out. */
static size_t run_alone(const room *r, size_t prompt, const mica_generate_options *options,
                        int32_t *ids, size_t max) {
    mc_session *session;
    mc_stream *stream;
    mica_token token;
    size_t n = 0;
    assert_int_equal(mc_session_open(&r->model, 0, &session), MICA_OK);
    assert_int_equal(
        mc_stream_open(session, r->p.ids[prompt], r->p.lengths[prompt], options, &stream), MICA_OK);
    while (n < max && mc_stream_next(stream, &token))
        if (token.id >= 0) ids[n++] = token.id;
    mc_stream_close(&stream);
    mc_session_close(&session);
    return n;
}

/* Rows whose context slides, for so long that their caches drop entries several times. */
static void test_contexts_that_slide(void **state) {
    (void)state;
    enum { N = 900 };
    const mica_generate_options options = {.max_tokens = N, .temperature = 1.0f, .seed = 5};
    mica_batch_item items[4];
    int32_t want[N];
    room r;
    open_room(&r);
    r.model.context = 20;
    for (int i = 0; i < 4; i++)
        items[i] = (mica_batch_item){.options = &options};
    mica_batch_results *results =
        batch(&r.model, &r.p, items, 4, &(mica_batch_options){.parallel = 3});
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(run_alone(&r, i, &options, want, N), N);
        assert_int_equal(results->rows[i].count, N);
        assert_memory_equal(results->rows[i].ids, want, sizeof want);
    }
    mica_batch_free(&results);
    fixture_close(&r.f);
}

static bool count_to_100(void *user, size_t row, const mica_token *token) {
    (void)token;
    return ++((int *)user)[row] < 100;
}

/* A context that slides has no end, but a row without a limit does. */
static void test_end_of_contexts_that_slide(void **state) {
    (void)state;
    const mica_generate_options options[] = {{.ignore_eos = true},
                                             {.max_tokens = 50, .ignore_eos = true}};
    mica_batch_item items[2];
    int counts[2] = {0};
    room r;
    open_room(&r);
    r.model.context = 20;
    for (int i = 0; i < 2; i++)
        items[i] = (mica_batch_item){.options = &options[i]};
    mica_batch_results *results = batch(
        &r.model, &r.p, items, 2, &(mica_batch_options){.token = count_to_100, .user = counts});
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(results->rows[i].finish, MICA_FINISH_LENGTH);
        assert_int_equal(results->rows[i].count, i ? 50 : 20);
    }
    mica_batch_free(&results);
    fixture_close(&r.f);
}

/* Rows with options of their own, for longer than a cache's first buffers and far past the
 * windows. */
static void test_own_options(void **state) {
    (void)state;
    room r;
    open_room(&r);
    size_t steps;
    const int32_t *golden = fixture_ints(&r.f, &steps, "prompt2.greedy");
    const int32_t stops[] = {golden[5]};
    const mica_generate_options options[] = {
        {.max_tokens = LONG, .temperature = 0.9f, .top_p = 0.9f, .seed = 3},
        {.max_tokens = LONG, .temperature = 1.5f, .seed = 3, .repetition_penalty = 1.3f},
        {.stop_ids = stops, .stop_count = 1},
        {.max_tokens = 1},
    };
    mica_batch_item items[4];
    for (int i = 0; i < 4; i++)
        items[i] = (mica_batch_item){.options = &options[i]};
    mica_batch_results *results =
        batch(&r.model, &r.p, items, 4, &(mica_batch_options){.parallel = 3});
    for (size_t i = 0; i < 4; i++) {
        int32_t want[LONG];
        size_t n = run_alone(&r, i, &options[i], want, LONG);
        assert_int_equal(results->rows[i].count, n);
        assert_memory_equal(results->rows[i].ids, want, n * sizeof *want);
    }
    assert_int_equal(results->rows[0].count, LONG);
    assert_int_equal(results->rows[0].finish, MICA_FINISH_LENGTH);
    assert_int_equal(results->rows[2].finish, MICA_FINISH_STOP);
    assert_true(results->rows[2].count <= 5);
    assert_int_equal(results->rows[3].count, 1);
    assert_true(results->rows[0].metrics->decode_rate > 0.0);
    mica_batch_free(&results);
    fixture_close(&r.f);
}

typedef struct listener {
    size_t heard[MAX], stop_row, done;
    mica_cancel *cancel; /* set once stop_row has had three tokens; NULL: only that row ends */
} listener;

static bool hear(void *user, size_t row, const mica_token *token) {
    listener *l = user;
    assert_true(token->id >= 0);
    if (row != l->stop_row || ++l->heard[row] < 3) return true;
    mica_cancel_set(l->cancel);
    return l->cancel != NULL;
}

static void hear_done(void *user, size_t row, const mica_batch_row *result) {
    listener *l = user;
    (void)row;
    assert_true(result->finish != MICA_FINISH_NONE);
    l->done++;
}

/* A broken prompt, a token past the vocabulary, wrong options, a cancelled row: the others are what
 * they are alone. */
static void test_failures_disturb_nobody(void **state) {
    (void)state;
    static const int32_t past[] = {3, 558};
    room r;
    open_room(&r);
    const mica_generate_options greedy = {.max_tokens = 24}, wrong = {.temperature = -1.0f};
    const mica_batch_item items[] = {
        {.options = &greedy}, {0}, {0}, {.options = &wrong}, {.options = &greedy},
        {.options = &greedy}};
    prompts p = {{r.p.ids[1], NULL, past, r.p.ids[1], r.p.ids[2], r.p.ids[3]},
                 {r.p.lengths[1], 0, 2, r.p.lengths[1], r.p.lengths[2], r.p.lengths[3]}};
    listener l = {.stop_row = 4};
    const mica_batch_options options = {
        .parallel = 2, .token = hear, .done = hear_done, .user = &l};
    mica_batch_results *results = batch(&r.model, &p, items, 6, &options);
    const mica_batch_row *rows = results->rows;
    assert_int_equal(l.done, 6);
    assert_memory_equal(rows[0].ids, fixture_ints(&r.f, NULL, "prompt1.greedy"), 24 * 4);
    assert_string_equal(rows[0].error, "");
    assert_int_equal(rows[1].status, MICA_EFORMAT);
    assert_string_equal(rows[1].error, "prompt 1 is broken");
    assert_int_equal(rows[1].finish, MICA_FINISH_ERROR);
    assert_string_equal(rows[1].text, "");
    assert_int_equal(rows[2].status, MICA_EINVAL);
    assert_non_null(strstr(rows[2].error, "558"));
    assert_int_equal(rows[3].status, MICA_EINVAL);
    assert_non_null(strstr(rows[3].error, "temperature"));
    assert_int_equal(rows[4].status, MICA_ECANCELLED);
    assert_int_equal(rows[4].finish, MICA_FINISH_CANCELLED);
    assert_int_equal(rows[4].count, 3);
    assert_memory_equal(rows[4].ids, fixture_ints(&r.f, NULL, "prompt2.greedy"), 3 * 4);
    assert_int_equal(rows[5].status, MICA_OK);
    assert_memory_equal(rows[5].ids, fixture_ints(&r.f, NULL, "prompt3.greedy"), 24 * 4);
    mica_batch_free(&results);
    fixture_close(&r.f);
}

typedef struct limiter {
    mica_device *device;
    size_t heard;
} limiter;

/* Row 0 gets no memory from its 100th token on, row 1 all it wants. */
static bool limit_row_0(void *user, size_t row, const mica_token *token) {
    limiter *l = user;
    (void)token;
    if (row == 1) mica_device_set_memory_limit(l->device, 0);
    if (row == 0 && ++l->heard >= 100)
        mica_device_set_memory_limit(l->device, mica_device_active_bytes(l->device));
    return true;
}

/* A row whose caches cannot grow ends alone, though the other's are in the same scope. */
static void test_no_room_for_one(void **state) {
    (void)state;
    room r;
    open_room(&r);
    const mica_generate_options both = {.max_tokens = LONG};
    const mica_batch_item items[] = {{.options = &both}, {.options = &both}};
    limiter l = {.device = r.f.device};
    const mica_batch_options options = {.parallel = 2, .token = limit_row_0, .user = &l};
    int32_t want[LONG];
    size_t n = run_alone(&r, 1, &both, want, LONG);
    mica_batch_results *results = batch(&r.model, &r.p, items, 2, &options);
    assert_int_equal(results->rows[0].status, MICA_ENOMEM);
    assert_true(results->rows[0].count > 100);
    assert_int_equal(results->rows[1].status, MICA_OK);
    assert_int_equal(results->rows[1].count, n);
    assert_memory_equal(results->rows[1].ids, want, n * sizeof *want);
    mica_batch_free(&results);
    fixture_close(&r.f);
}

/* Allocation n of making room for one session fails, if there are as many: the step of another is
 * not disturbed. Whether there were as many. */
static bool fail_one(const room *r, uint64_t n) {
    enum { FULL = 256 }; /* entries of a cache's first buffers */
    int32_t ids[FULL + 1];
    mc_session *well, *ill;
    mc_batch b;
    for (int i = 0; i <= FULL; i++)
        ids[i] = 1 + i % 20;
    assert_int_equal(mc_batch_init(&b, &r->model), MICA_OK);
    assert_int_equal(mc_session_open(&r->model, 0, &well), MICA_OK);
    assert_int_equal(mc_session_open(&r->model, 0, &ill), MICA_OK);
    assert_int_equal(mc_session_feed(well, ids, FULL, NULL), MICA_OK);
    assert_int_equal(mc_session_feed(ill, ids, FULL, NULL), MICA_OK);
    assert_int_equal(mc_session_reserve(well, 1), MICA_OK);
    while (mc_scope_count(ill->scope) % 256 !=
           0) /* as after some steps: its nodes' block is full */
        mica_i32(ill->scope, 0);
    mc_alloc_fail_at(n);
    mica_status status = mc_session_reserve(ill, 1);
    mc_alloc_fail_at(0);
    if (status != MICA_OK) assert_int_equal(mc_session_count(ill), 0);
    if (mc_batch_feed(&b, &well, &ids[FULL], 1) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mc_session_feed(well, &ids[FULL], 1, NULL), MICA_OK);
    assert_int_equal(mc_session_count(well), FULL + 1);
    mc_session_close(&well);
    mc_session_close(&ill);
    mc_batch_deinit(&b);
    return status != MICA_OK;
}

static void test_no_memory_for_one(void **state) {
    (void)state;
    room r;
    open_room(&r);
    uint64_t n = 1;
    while (fail_one(&r, n))
        n++;
    assert_true(n > 10);
    fixture_close(&r.f);
}

/* ---- cancelling ---- */

static void expect_cancelled(const mica_batch_results *results) {
    for (size_t i = 0; i < results->count; i++) {
        assert_int_equal(results->rows[i].status, MICA_ECANCELLED);
        assert_int_equal(results->rows[i].finish, MICA_FINISH_CANCELLED);
    }
}

static void test_cancelled(void **state) {
    (void)state;
    room r;
    open_room(&r);
    mica_cancel *cancel;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    const mica_generate_options endless = {.max_tokens = 100000};
    const mica_batch_item items[] = {
        {.options = &endless}, {.options = &endless}, {.options = &endless}};
    listener l = {.stop_row = 1, .cancel = cancel};
    const mica_batch_options options = {
        .parallel = 2, .token = hear, .done = hear_done, .user = &l, .cancel = cancel};
    mica_batch_results *results = batch(&r.model, &r.p, items, 3, &options);
    expect_cancelled(results);
    assert_int_equal(results->rows[1].count, 3);
    assert_int_equal(results->rows[2].count, 0); /* it had not begun */
    assert_int_equal(l.done, 3);
    mica_batch_free(&results);
    mica_cancel_close(&cancel);
    mica_cancel_close(&cancel);
    fixture_close(&r.f);
}

static void *set_cancel(void *cancel) {
    mica_cancel_set(cancel);
    return NULL;
}

typedef struct starter {
    pthread_t thread;
    mica_cancel *cancel;
    bool started;
} starter;

/* At the first token another thread cancels. */
static bool start_canceller(void *user, size_t row, const mica_token *token) {
    starter *s = user;
    (void)row;
    (void)token;
    if (!s->started) assert_int_equal(pthread_create(&s->thread, NULL, set_cancel, s->cancel), 0);
    s->started = true;
    return true;
}

static void test_cancelled_from_a_thread(void **state) {
    (void)state;
    room r;
    open_room(&r);
    starter s = {.started = false};
    assert_int_equal(mica_cancel_open(&s.cancel), MICA_OK);
    const mica_generate_options endless = {.max_tokens = 100000};
    const mica_batch_item items[] = {{.options = &endless}, {.options = &endless}};
    const mica_batch_options options = {.token = start_canceller, .user = &s, .cancel = s.cancel};
    mica_batch_results *results = batch(&r.model, &r.p, items, 2, &options);
    expect_cancelled(results);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    mica_batch_free(&results);
    mica_cancel_close(&s.cancel);
    fixture_close(&r.f);
}

/* ---- memory ---- */

static bool run_batch(void *arg) {
    const room *r = arg;
    const mica_generate_options options = {.max_tokens = 3};
    const mica_batch_item items[] = {
        {.options = &options}, {.options = &options}, {.options = &options}};
    mica_batch_results *results;
    bool good = true;
    test_forget_plans(r->f.device);
    mica_status status =
        try_batch(&r->model, &r->p, items, 3, &(mica_batch_options){.parallel = 2}, &results);
    if (status != MICA_OK) {
        assert_int_equal(status, MICA_ENOMEM);
        assert_null(results);
        good = false;
    } else {
        for (size_t i = 0; i < 3; i++) {
            good = good && results->rows[i].status == MICA_OK;
            assert_true(results->rows[i].status == MICA_OK ||
                        results->rows[i].status == MICA_ENOMEM);
        }
    }
    mica_batch_free(&results);
    assert_int_equal(mica_device_active_bytes(r->f.device), r->idle);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    room r;
    open_room(&r);
    uint64_t rounds = test_fail_each_allocation(run_batch, &r);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    fixture_close(&r.f);
}

static void test_refusals(void **state) {
    (void)state;
    room r;
    open_room(&r);
    const mica_batch_item item = {0};
    mica_batch_results *results;
    assert_int_equal(
        try_batch(&r.model, &r.p, &item, 1, &(mica_batch_options){.parallel = -1}, &results),
        MICA_EINVAL);
    assert_null(results);
    assert_int_equal(try_batch(&r.model, &r.p, &item, 1,
                               &(mica_batch_options){.parallel = MC_MAX_ROWS + 1}, &results),
                     MICA_EINVAL);
    fixture_close(&r.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_paths),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_turns_are_recorded_once),
        cmocka_unit_test(test_own_options),
        cmocka_unit_test(test_contexts_that_slide),
        cmocka_unit_test(test_end_of_contexts_that_slide),
        cmocka_unit_test(test_failures_disturb_nobody),
        cmocka_unit_test(test_no_room_for_one),
        cmocka_unit_test(test_no_memory_for_one),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cancelled_from_a_thread),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("task/batch", tests, NULL, NULL);
}

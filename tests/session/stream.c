/* Streams: what is handed out, why they end, what they refuse. Text is tested with the engine. */
#include "model/fixture.h"

#include "session/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static model_fixture fixture; /* gemma3_text_f32: vocabulary 558 */
static const int32_t *prompt; /* prompt1, 7 tokens */
static const int32_t *golden; /* its 24 greedy tokens */

static int open_fixture(void **state) {
    size_t n, steps;
    (void)state;
    fixture_open("gemma3_text_f32", &fixture);
    prompt = fixture_ints(&fixture, &n, "prompt1.ids");
    golden = fixture_ints(&fixture, &steps, "prompt1.greedy");
    return !(prompt && golden && n == 7 && steps == 24);
}

static int close_fixture(void **state) {
    (void)state;
    fixture_close(&fixture);
    return 0;
}

static mc_session_model shared_model(void) {
    return (mc_session_model){.lm = fixture.lm, .device = fixture.device};
}

static mc_session *open_session(const mc_session_model *shared) {
    mc_session *session;
    if (mc_session_open(shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

static mc_stream *open_stream(mc_session *session, const int32_t *ids, size_t n,
                              mica_generate_options options) {
    mc_stream *stream;
    if (mc_stream_open(session, ids, n, &options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return stream;
}

/* Pulls everything; returns how many tokens came. */
static size_t drain(mc_stream *stream, int32_t *ids, size_t room) {
    mica_token token;
    size_t n = 0;
    while (mc_stream_next(stream, &token)) {
        assert_true(n < room);
        ids[n++] = token.id;
    }
    return n;
}

static void test_greedy(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    int32_t ids[24];
    mica_token token;
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_NONE);
    assert_int_equal(drain(stream, ids, 24), 24);
    assert_memory_equal(ids, golden, sizeof ids);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
    assert_int_equal(mc_stream_status(stream), MICA_OK);
    assert_false(mc_stream_next(stream, &token));

    mica_metrics metrics = mc_stream_metrics(stream);
    assert_int_equal(metrics.prompt_tokens, 7);
    assert_int_equal(metrics.reused_tokens, 0);
    assert_int_equal(metrics.generated_tokens, 24);
    assert_true(metrics.prefill_seconds > 0.0 && metrics.prefill_rate > 0.0);
    assert_true(metrics.decode_seconds > 0.0 && metrics.decode_rate > 0.0);
    assert_true(metrics.active_bytes > 0 && metrics.peak_bytes >= metrics.active_bytes);
    mc_stream_close(&stream);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_stops(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    shared.stop_ids = &golden[5];
    shared.stop_count = 1;
    size_t first = 0, third = 0;
    while (golden[first] != golden[5])
        first++;
    while (golden[third] != golden[2])
        third++;
    mc_session *session = open_session(&shared);
    int32_t ids[24];

    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, ids, 24), first);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_STOP);
    mc_stream_close(&stream);

    stream = open_stream(session, prompt, 7,
                         (mica_generate_options){.max_tokens = 24, .ignore_eos = true});
    assert_int_equal(drain(stream, ids, 24), 24);
    mc_stream_close(&stream);

    stream = open_stream(session, prompt, 7,
                         (mica_generate_options){.stop_ids = &golden[2], .stop_count = 1});
    assert_int_equal(drain(stream, ids, 24), third);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_STOP);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_seeds(void **state) {
    (void)state;
    const mica_generate_options warm = {
        .max_tokens = 20, .temperature = 1.0f, .top_p = 0.95f, .seed = 11};
    mica_generate_options other = warm;
    other.seed = 12;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared), *second = open_session(&shared);
    int32_t a[20], b[20], c[20];
    mc_stream *stream = open_stream(session, prompt, 7, warm);
    assert_int_equal(drain(stream, a, 20), 20);
    mc_stream_close(&stream);
    stream = open_stream(second, prompt, 7, warm);
    assert_int_equal(drain(stream, b, 20), 20);
    mc_stream_close(&stream);
    stream = open_stream(second, prompt, 7, other);
    assert_int_equal(drain(stream, c, 20), 20);
    mc_stream_close(&stream);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    mc_session_close(&second);
    mc_session_close(&session);
}

/* A second turn computes only what is new, and answers as a fresh session would. */
static void test_second_turn(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared), *fresh = open_session(&shared);
    int32_t text[7 + 24 + 7], answer[24], again[24];
    memcpy(text, prompt, 7 * sizeof *text);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, text + 7, 24), 24);
    mc_stream_close(&stream);
    memcpy(text + 31, prompt, 7 * sizeof *text);

    stream = open_stream(session, text, 38, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, answer, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 30); /* the last was not computed */
    mc_stream_close(&stream);
    stream = open_stream(fresh, text, 38, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, again, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 0);
    mc_stream_close(&stream);
    assert_memory_equal(answer, again, sizeof answer);
    mc_session_close(&fresh);
    mc_session_close(&session);
}

static void expect_refused(mc_session *session, const int32_t *ids, size_t n,
                           mica_generate_options options, mica_status status, const char *word) {
    mc_stream *stream;
    assert_int_equal(mc_stream_open(session, ids, n, &options, &stream), status);
    assert_null(stream);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

static void test_refusals(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    const int32_t past[] = {3, 558}, negative[] = {-1};
    expect_refused(session, prompt, 0, (mica_generate_options){0}, MICA_EINVAL, "empty");
    expect_refused(session, past, 2, (mica_generate_options){0}, MICA_EINVAL, "558");
    expect_refused(session, negative, 1, (mica_generate_options){0}, MICA_EINVAL, "-1");
    expect_refused(session, prompt, 7, (mica_generate_options){.max_tokens = -1}, MICA_EINVAL,
                   "max_tokens");
    expect_refused(session, prompt, 7, (mica_generate_options){.temperature = -1.0f}, MICA_EINVAL,
                   "temperature");
    expect_refused(session, prompt, 7, (mica_generate_options){.stop_count = 1}, MICA_EINVAL,
                   "stop_ids");
    mc_session_close(&session);
}

/* A model made for 10 tokens: prompts beyond are refused, answers end there. */
static void test_context(void **state) {
    (void)state;
    mc_lm lm = *fixture.lm;
    lm.spec.context = 10;
    mc_session_model shared = shared_model();
    shared.lm = &lm;
    mc_session *session = open_session(&shared);
    int32_t ids[24];
    size_t n;
    const int32_t *longer = fixture_ints(&fixture, &n, "prompt2.ids");
    expect_refused(session, longer, n, (mica_generate_options){0}, MICA_ECONTEXT,
                   "33 tokens, the model's context 10");
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    assert_int_equal(drain(stream, ids, 24), 4); /* 10 computed, the last one gives another */
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_LENGTH);
    assert_memory_equal(ids, golden, 4 * sizeof *ids);
    mc_stream_close(&stream);
    mc_session_close(&session);

    shared.context = 10; /* forgets instead */
    session = open_session(&shared);
    stream = open_stream(session, longer, n, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, ids, 24), 24);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void test_only_the_last_stream_goes_on(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *first = open_stream(session, prompt, 7, (mica_generate_options){0});
    mc_stream *second = open_stream(session, prompt, 7, (mica_generate_options){0});
    mica_token token;
    assert_true(mc_stream_next(first, &token));
    assert_true(mc_stream_next(second, &token));
    assert_false(mc_stream_next(first, &token));
    assert_int_equal(mc_stream_status(first), MICA_EINVAL);
    assert_int_equal(mc_stream_finish(first), MICA_FINISH_ERROR);
    assert_true(mc_stream_next(second, &token));
    assert_int_equal(token.id, golden[1]);
    mc_stream_close(&first);
    mc_stream_close(&second);
    mc_session_close(&session);
}

/* ---- cancelling ---- */

static void cancel_at_half(void *user, uint64_t done, uint64_t total) {
    mc_stream **stream = user;
    if (2 * done >= total) mc_stream_cancel(*stream);
}

static void test_cancelled_prefill(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session;
    mica_token token;
    size_t n;
    int32_t ids[24];
    const int32_t *longer = fixture_ints(&fixture, &n, "prompt2.ids");
    const int32_t *want = fixture_ints(&fixture, NULL, "prompt2.greedy");
    assert_int_equal(mc_session_open(&shared, 4, &session), MICA_OK);
    mc_stream *stream = NULL;
    stream =
        open_stream(session, longer, n,
                    (mica_generate_options){.progress = cancel_at_half, .progress_user = &stream});
    assert_false(mc_stream_next(stream, &token));
    assert_int_equal(mc_stream_status(stream), MICA_ECANCELLED);
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
    assert_int_equal(mc_session_count(session), 20);
    mc_stream_close(&stream);

    /* What was computed is not lost. */
    stream = open_stream(session, longer, n, (mica_generate_options){.max_tokens = 24});
    assert_int_equal(drain(stream, ids, 24), 24);
    assert_int_equal(mc_stream_metrics(stream).reused_tokens, 20);
    assert_memory_equal(ids, want, sizeof ids);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

static void *cancel(void *stream) {
    mc_stream_cancel(stream);
    return NULL;
}

static void test_cancelled_from_a_thread(void **state) {
    (void)state;
    mc_session_model shared = shared_model();
    mc_session *session = open_session(&shared);
    mc_stream *stream = open_stream(session, prompt, 7, (mica_generate_options){0});
    mica_token token;
    pthread_t thread;
    assert_true(mc_stream_next(stream, &token));
    assert_int_equal(pthread_create(&thread, NULL, cancel, stream), 0);
    while (mc_stream_next(stream, &token)) {}
    assert_int_equal(mc_stream_finish(stream), MICA_FINISH_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mc_stream_close(&stream);
    mc_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_second_turn),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_only_the_last_stream_goes_on),
        cmocka_unit_test(test_cancelled_prefill),
        cmocka_unit_test(test_cancelled_from_a_thread),
    };
    return cmocka_run_group_tests_name("session/stream", tests, open_fixture, close_fixture);
}

/* One model, many threads; and answers cancelled from another one. Small, for ThreadSanitizer. */
#include "support/support.h"

#include "base/buffer.h"

#include <mica/mica.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_model *pebble; /* the default model */

static int open_default(void **state) {
    (void)state;
    char *path = test_format("%s/default", test_models_dir());
    mica_status status = mica_model_open(path, &(mica_model_options){.threads = 2}, &pebble);
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    free(path);
    return status != MICA_OK;
}

static int close_default(void **state) {
    (void)state;
    mica_model_close(&pebble);
    return 0;
}

static mica_session *open_session(const mica_model *model) {
    mica_session *session;
    if (mica_session_open(model, NULL, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

typedef struct worker {
    pthread_t thread;
    const mica_generate_options *options;
    mc_buffer text;
    mica_status status;
} worker;

static void *answer(void *arg) {
    worker *w = arg;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_token token;
    w->status = mica_session_open(pebble, NULL, &session);
    if (w->status == MICA_OK)
        w->status = mica_chat(session, &(mica_message){.role = "user", .content = "What is nginx?"},
                              1, w->options, &stream);
    while (stream && mica_stream_next(stream, &token))
        if (!mc_buffer_add(&w->text, token.text, token.len)) w->status = MICA_ENOMEM;
    if (stream) w->status = mica_stream_status(stream);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return NULL;
}

/* Answers in four threads at once, two by each of the options: these two are the same, and begin
 * with the text. */
static void check_threads(const mica_generate_options options[2], const char *const texts[2]) {
    enum { THREADS = 4 };
    worker workers[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        workers[i].options = &options[i % 2];
        assert_int_equal(pthread_create(&workers[i].thread, NULL, answer, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        const mc_buffer *text = &workers[i].text, *first = &workers[i % 2].text;
        assert_int_equal(workers[i].status, MICA_OK);
        assert_int_equal(text->len, first->len);
        assert_memory_equal(text->data, first->data, first->len);
        assert_true(text->len >= strlen(texts[i % 2]));
        assert_memory_equal(text->data, texts[i % 2], strlen(texts[i % 2]));
    }
    for (int i = 0; i < THREADS; i++)
        mc_buffer_deinit(&workers[i].text);
}

static void test_threads(void **state) {
    (void)state;
    static const mica_generate_options options[] = {{.max_tokens = 12}, {.max_tokens = 8}};
    static const char *const texts[] = {"nginx is a small", "nginx is"};
    check_threads(options, texts);
}

/* The first constraints of a model: what they share is made while all want it. */
static void test_constrained_threads(void **state) {
    (void)state;
    static const mica_generate_options options[] = {
        {.max_tokens = 12,
         .constraint = MICA_CONSTRAINT_REGEX,
         .constraint_text = "In short: [a-z ]+"},
        {.max_tokens = 12,
         .constraint = MICA_CONSTRAINT_JSON_SCHEMA,
         .constraint_text = "{\"type\": \"array\", \"items\": {\"type\": \"string\"}, "
                            "\"minItems\": 1}"}};
    static const char *const texts[] = {"In short: ", "["};
    check_threads(options, texts);
}

static void *cancel(void *stream) {
    mica_stream_cancel(stream);
    return NULL;
}

static void test_cancel(void **state) {
    (void)state;
    mica_session *session = open_session(pebble);
    mica_stream *stream;
    mica_token token;
    pthread_t thread;
    assert_int_equal(
        mica_generate(session, "GNU", 3, &(mica_generate_options){.ignore_eos = true}, &stream),
        MICA_OK);
    assert_true(mica_stream_next(stream, &token));
    assert_int_equal(pthread_create(&thread, NULL, cancel, stream), 0);
    while (mica_stream_next(stream, &token)) {}
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_CANCELLED);
    assert_int_equal(mica_stream_status(stream), MICA_ECANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mica_stream_close(&stream);
    mica_session_close(&session);
}

typedef struct batch_worker {
    pthread_t thread;
    mica_cancel *cancel; /* NULL: it runs to its end */
    mica_batch_results *results;
    mica_status status;
} batch_worker;

static void *run_batch(void *arg) {
    static const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true},
                                       endless = {.max_tokens = 1500, .ignore_eos = true};
    batch_worker *w = arg;
    const mica_generate_options *chosen = w->cancel ? &endless : &options;
    const mica_batch_item items[] = {{.prompt = "GNU is", .options = chosen},
                                     {.prompt = "\xff"},
                                     {.prompt = "The old lighthouse", .options = chosen}};
    w->status = mica_batch_generate(pebble, items, 3, &(mica_batch_options){.cancel = w->cancel},
                                    &w->results);
    return NULL;
}

/* A cancelled, a failing and running rows at once, in several threads, disturb nobody. */
static void test_batches(void **state) {
    (void)state;
    batch_worker workers[3] = {{0}};
    assert_int_equal(mica_cancel_open(&workers[1].cancel), MICA_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_batch, &workers[i]), 0);
    mica_cancel_set(workers[1].cancel);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, MICA_OK);
    }
    for (size_t row = 0; row < 3; row += 2) {
        const mica_batch_row *a = &workers[0].results->rows[row];
        const mica_batch_row *b = &workers[2].results->rows[row];
        assert_int_equal(workers[1].results->rows[row].status, MICA_ECANCELLED);
        assert_int_equal(a->status, MICA_OK);
        assert_int_equal(a->count, 8);
        assert_int_equal(b->count, 8);
        assert_memory_equal(a->ids, b->ids, 8 * sizeof *a->ids);
    }
    assert_int_equal(workers[0].results->rows[1].status, MICA_EFORMAT);
    for (int i = 0; i < 3; i++)
        mica_batch_free(&workers[i].results);
    mica_cancel_close(&workers[1].cancel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_constrained_threads),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests_name("engine/threads", tests, open_default, close_default);
}

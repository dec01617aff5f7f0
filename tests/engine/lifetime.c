/* Devices, models, sessions and streams closed in any order: what others use ends with the last of
 * them. Worth running under AddressSanitizer. */
#include "support/support.h"

#include <mica/mica.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path; /* of the default model */

static int find_default(void **state) {
    (void)state;
    path = test_format("%s/default", test_models_dir());
    return 0;
}

static int free_path(void **state) {
    (void)state;
    free(path);
    return 0;
}

/* What a caller holds. */
typedef struct handles {
    mica_device *device;
    mica_model *model, *draft;
    mica_session *session;
    mica_stream *stream;
} handles;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static handles open_all(void) {
    handles h = {0};
    must(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &h.device));
    const mica_model_options options = {.device = h.device};
    must(mica_model_open(path, &options, &h.model));
    must(mica_model_open(path, &options, &h.draft));
    must(mica_session_open(h.model, &(mica_session_options){.draft_model = h.draft}, &h.session));
    must(mica_chat(h.session, &(mica_message){.role = "user", .content = "What is nginx?"}, 1,
                   &(mica_generate_options){.max_tokens = 12}, &h.stream));
    return h;
}

/* Twice: the second time there is nothing to close. */
static void close_one(handles *h, char which) {
    for (int i = 0; i < 2; i++) {
        if (which == 'd') mica_device_close(&h->device);
        if (which == 'm') mica_model_close(&h->model);
        if (which == 'g') mica_model_close(&h->draft);
        if (which == 's') mica_session_close(&h->session);
        if (which == 't') mica_stream_close(&h->stream);
    }
}

static void read_answer(mica_stream *stream, char *text, size_t bytes) {
    mica_token token;
    size_t len = 0;
    while (mica_stream_next(stream, &token)) {
        assert_true(len + token.len < bytes);
        memcpy(text + len, token.text, token.len);
        len += token.len;
    }
    must(mica_stream_status(stream));
    text[len] = 0;
}

/* The handles named before the bar are closed at the beginning of an answer, those behind it at its
 * end: device, model, guesses' model, session, stream (t). */
static void test_any_order(void **state) {
    (void)state;
    static const char *const orders[] = {"|tsgmd", "|dmgst", "d|tsgm", "m|tsgd",
                                         "dmg|st", "gmds|t", "s|tmgd", "dsmg|t"};
    char want[1024] = "", text[1024];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        handles h = open_all();
        for (const char *order = orders[i]; *order; order++) {
            if (*order == '|')
                read_answer(h.stream, i ? text : want, sizeof text);
            else
                close_one(&h, *order);
        }
        assert_true(*want);
        if (i) assert_string_equal(text, want);
        assert_true(!h.device && !h.model && !h.draft && !h.session && !h.stream);
    }
}

/* A closed model's session answers again and again, and can be saved. */
static void test_session_goes_on(void **state) {
    (void)state;
    char first[1024], second[1024];
    handles h = open_all();
    close_one(&h, 'd'), close_one(&h, 'm'), close_one(&h, 'g'), close_one(&h, 't');
    for (int i = 0; i < 2; i++) {
        must(mica_generate(h.session, "GNU is", 0, &(mica_generate_options){.max_tokens = 8},
                           &h.stream));
        read_answer(h.stream, i ? second : first, sizeof first);
        close_one(&h, 't');
        mica_session_reset(h.session);
    }
    assert_string_equal(first, second);
    close_one(&h, 's');
}

/* A model's tokenizer lives on with its decoder streams, one of the caller's too. */
static void test_tokenizer(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        mica_model *model = NULL;
        mica_tokenizer *tokenizer = NULL;
        mica_decoder_stream *streams[2];
        const char *piece;
        char text[64] = "";
        int32_t *ids;
        size_t n, len;
        if (own)
            must(mica_tokenizer_open(path, &tokenizer));
        else
            must(mica_model_open(path, NULL, &model));
        const mica_tokenizer *used = own ? tokenizer : mica_model_tokenizer(model);
        must(mica_tokenizer_encode(used, "The sea is wide", 15, false, &ids, &n));
        for (int i = 0; i < 2; i++)
            must(mica_decoder_stream_open(used, true, &streams[i]));
        for (int i = 0; i < 2; i++) {
            mica_model_close(&model);
            mica_tokenizer_close(&tokenizer);
        }
        mica_decoder_stream_close(&streams[0]);
        for (size_t i = 0; i <= n; i++) {
            if (i < n)
                must(mica_decoder_stream_push(streams[1], ids[i], &piece, &len));
            else
                must(mica_decoder_stream_flush(streams[1], &piece, &len));
            strncat(text, piece, sizeof text - strlen(text) - 1);
        }
        mica_decoder_stream_close(&streams[1]);
        assert_string_equal(text, "The sea is wide");
        mica_free(ids);
    }
}

static bool close_model(void *user, size_t row, const mica_token *token) {
    (void)row, (void)token;
    mica_model_close(user);
    return true;
}

/* A task holds its model: what it tells of its progress may close it. */
static void test_batch_goes_on(void **state) {
    (void)state;
    mica_model *model;
    mica_batch_results *results;
    const mica_generate_options eight = {.max_tokens = 8, .ignore_eos = true};
    const mica_batch_item items[] = {{.prompt = "GNU is", .options = &eight},
                                     {.prompt = "Linux is", .options = &eight},
                                     {.prompt = "curl is", .options = &eight}};
    must(mica_model_open(path, NULL, &model));
    must(mica_batch_generate(
        model, items, 3, &(mica_batch_options){.parallel = 2, .token = close_model, .user = &model},
        &results));
    assert_null(model);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(results->rows[i].status, MICA_OK);
        assert_int_equal(results->rows[i].metrics->generated_tokens, 8);
    }
    mica_batch_free(&results);
}

static void *read_in_thread(void *arg) {
    char text[1024];
    handles *h = arg;
    read_answer(h->stream, text, sizeof text);
    close_one(h, 't');
    close_one(h, 's');
    return NULL;
}

/* Sessions of several threads, the last of which ends the model. */
static void test_last_of_many_threads(void **state) {
    (void)state;
    enum { THREADS = 3 };
    handles each[THREADS], first = open_all();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        each[i] = (handles){0};
        must(mica_session_open(first.model, NULL, &each[i].session));
        must(mica_generate(each[i].session, "GNU is", 0, &(mica_generate_options){.max_tokens = 4},
                           &each[i].stream));
        assert_int_equal(pthread_create(&threads[i], NULL, read_in_thread, &each[i]), 0);
    }
    for (const char *order = "dmgst"; *order; order++)
        close_one(&first, *order);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_session_goes_on),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_batch_goes_on),
        cmocka_unit_test(test_last_of_many_threads),
    };
    return cmocka_run_group_tests_name("engine/lifetime", tests, find_default, free_path);
}

/* Prompts that /v1/completions tells with their log-probabilities: they are scored beside the
 * answers of others, keep to the limits of time, and to that of what an answer holds. */
#define _POSIX_C_SOURCE 200809L
#include "engine/parrot.h"
#include "reading.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMPLETIONS "/v1/completions"
#define ECHO "\"echo\": true, \"logprobs\": 0, \"max_tokens\": 0"

/* A body of `count` prompts of `n` tokens, and more fields. Freed with free. */
static char *body_of(size_t count, size_t n, const char *fields) {
    size_t bytes = count * (n * 4 + 4) + strlen(fields) + 64, at = 0;
    char *body = malloc(bytes);
    assert_non_null(body);
    at += (size_t)snprintf(body, bytes, "{%s, \"prompt\": [", fields);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(body + at, bytes - at, "%s[", i ? "," : "");
        for (size_t j = 0; j < n; j++)
            at += (size_t)snprintf(body + at, bytes - at, "%s%d", j ? "," : "",
                                   300 + (int)((i + j * 7) % 200));
        at += (size_t)snprintf(body + at, bytes - at, "]");
    }
    snprintf(body + at, bytes - at, "]}");
    return body;
}

/* Sends a request, and reads nothing. */
static int begin(const mica_server *server, const char *body) {
    int fd = client_connect(server);
    assert_true(fd >= 0);
    client_print(fd,
                 "POST " COMPLETIONS " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 strlen(body));
    client_send(fd, body, strlen(body));
    return fd;
}

static bool is_answered(int fd) {
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) != 0;
}

/* ---- beside others ---- */

typedef struct chat_stream {
    int fd;
    atomic_int events; /* that have come */
    pthread_t thread;
} chat_stream;

static void *read_stream(void *context) {
    chat_stream *at = context;
    char bytes[4096];
    ssize_t n;
    while ((n = read(at->fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i + 1 < n; i++)
            if (bytes[i] == 'd' && bytes[i + 1] == 'a') atomic_fetch_add(&at->events, 1);
    return NULL;
}

/* A stream goes on while the longest prompt is scored. */
static void test_stream(void **state) {
    (void)state;
    chat_stream chat = {.fd = begin(shared.server, "{\"prompt\": \"a\", \"stream\": true, "
                                                   "\"ignore_eos\": true, \"max_tokens\": 2000}")};
    char *body = body_of(1, 1000, "\"echo\": true, \"logprobs\": 1, \"max_tokens\": 0");
    assert_int_equal(pthread_create(&chat.thread, NULL, read_stream, &chat), 0);
    while (atomic_load(&chat.events) < 10)
        poll(NULL, 0, 1);
    int before = atomic_load(&chat.events), fd = begin(shared.server, body);
    while (!is_answered(fd))
        poll(NULL, 0, 1);
    int more = atomic_load(&chat.events) - before;
    if (more < 20) fail_msg("%d events beside the prompt", more);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
    shutdown(chat.fd, SHUT_RDWR);
    pthread_join(chat.thread, NULL);
    close(chat.fd);
    free(body);
}

/* Many of them leave the threads of the server to others, and those that leave cost nothing. */
static void test_many(void **state) {
    (void)state;
    enum { CLIENTS = 24 }; /* more than the server has threads for requests */
    size_t files = client_files();
    char *body = body_of(400, 1000, ECHO);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = begin(shared.server, body);
    client_wait_metric(shared.server, "mica_evaluations_waiting", CLIENTS - 1);
    assert_true(client_metric_now(shared.server, "mica_evaluations_running") == 1);
    mc_json_doc *doc = client_json(shared.server, "POST", COMPLETIONS,
                                   "{\"prompt\": \"curl is\", \"max_tokens\": 4}", 200);
    mc_json_close(&doc);
    for (int i = 0; i < CLIENTS; i++) {
        assert_false(is_answered(fds[i]));
        close(fds[i]);
    }
    assert_true(client_files_back(files));
    doc =
        client_json(shared.server, "POST", COMPLETIONS, "{\"prompt\": \"curl is\", " ECHO "}", 200);
    mc_json_close(&doc);
    free(body);
}

/* ---- limits ---- */

/* What scoring takes is part of the time that a request may take. */
static void test_timeout(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_serving_options options = {.max_seconds = 0.2};
    char *body = body_of(500, 1000, ECHO);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "slow", shared.model, &options), MICA_OK);
    client_refused(server, COMPLETIONS, body, 504, "timeout", "");
    assert_true(
        client_metric_now(server, "mica_evaluations_total{kind=\"score\",end=\"timeout\"}") == 1);
    mica_server_close(&server);
    free(body);
}

/* Checks that a request is refused before anything is computed, and with which numbers. */
static void check_refused(size_t count, size_t n, const char *fields, const char *numbers) {
    static const char done[] = "mica_evaluation_seconds_total{kind=\"score\"}";
    double before = client_metric_now(shared.server, done);
    char *body = body_of(count, n, fields);
    client_refused(shared.server, COMPLETIONS, body, 400, "invalid_value", "echo");
    answer a = client_ask(shared.server, "POST", COMPLETIONS, body);
    if (!strstr(a.body, numbers)) fail_msg("%s: %s", fields, a.body);
    assert_true(client_metric_now(shared.server, done) == before);
    answer_free(&a);
    free(body);
}

/* What an answer would hold of its prompts has a limit, in a stream or not. */
static void test_size(void **state) {
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        char *fields = test_format("\"echo\": true, \"logprobs\": 20, \"n\": 128, "
                                   "\"max_tokens\": %d, \"stream\": %s",
                                   stream, stream ? "true" : "false");
        check_refused(1, 391, fields, "391 * 128 * 21 is above the limit, 1048576");
        free(fields);
    }
    check_refused(8, 1025, "\"echo\": true, \"n\": 128, \"max_tokens\": 0",
                  "8200 * 128 * 1 is above the limit, 1048576");
    /* As much as fits is scored; it is a stream that does not hold it. */
    char *body = body_of(1, 390,
                         "\"echo\": true, \"logprobs\": 20, \"n\": 128, \"max_tokens\": 0, "
                         "\"stream\": true");
    client_refused(shared.server, COMPLETIONS, body, 400, "invalid_value", "stream");
    free(body);
}

/* What the model could not read is not repeated, either. */
static void test_context(void **state) {
    (void)state;
    for (int logprobs = 0; logprobs < 2; logprobs++) {
        char *body = body_of(1, 2500, logprobs ? ECHO : "\"echo\": true, \"max_tokens\": 0");
        client_refused(shared.server, COMPLETIONS, body, 400, "context_length_exceeded", "prompt");
        free(body);
    }
}

/* ---- whole answers ---- */

/* A server of the parrot, whose tokens have many alternatives. */
typedef struct aviary {
    parrot bird;
    mica_server *server;
    mica_model *model;
} aviary;

static void aviary_open(aviary *a) {
    const mica_engine engine = parrot_engine("parrot", &a->bird);
    char *path = test_format("%s/default", test_models_dir());
    mica_model_options options = {.engine = "parrot", .context_length = 4096};
    a->bird.alternatives = PARROT_ALTERNATIVES;
    assert_int_equal(mica_engine_register(&engine), MICA_OK);
    assert_int_equal(mica_model_open(path, &options, &a->model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &a->server), MICA_OK);
    assert_int_equal(mica_server_add(a->server, "bird", a->model, NULL), MICA_OK);
    free(path);
}

static void aviary_close(aviary *a) {
    mica_server_close(&a->server);
    mica_model_close(&a->model);
    assert_int_equal(mica_engine_unregister("parrot"), MICA_OK);
}

/* Answers, too, have a limit where they are sent whole. */
static void test_whole(void **state) {
    (void)state;
    aviary birds = {.server = NULL};
    aviary_open(&birds);
    for (int n = 100; n <= 128; n += 28) { /* of ten tokens each */
        for (int stream = 0; stream < 2; stream++) {
            char *fields = test_format("\"temperature\": 0, \"logprobs\": 20, \"n\": %d, "
                                       "\"stream\": %s",
                                       n, stream ? "true" : "false");
            char *body = body_of(1, 10, fields);
            answer a = client_ask(birds.server, "POST", COMPLETIONS, body);
            assert_int_equal(a.status, n > 100 && !stream ? 400 : 200);
            if (a.status == 400)
                assert_non_null(strstr(a.body, "more than 1048576 log-probabilities"));
            answer_free(&a);
            free(fields);
            free(body);
        }
    }
    aviary_close(&birds);
}

/* The last events of a response repeat all of it, more than a stream holds: a client that reads
 * gets them. */
static void test_large_events(void **state) {
    (void)state;
    aviary birds = {.server = NULL};
    aviary_open(&birds);
    char *body = test_format("{\"input\": \"one two three four five six seven eight nine ten "
                             "eleven twelve\", \"temperature\": 0, \"stream\": true, "
                             "\"include\": [\"message.output_text.logprobs\"]}");
    answer a = client_ask(birds.server, "POST", "/v1/responses", body);
    assert_int_equal(a.status, 200);
    assert_false(a.closes);
    assert_non_null(strstr(a.body, "event: response.completed"));
    const char *done = strstr(a.body, "event: response.output_text.done");
    assert_non_null(done);
    assert_true(strlen(done) > 4 << 20);
    answer_free(&a);
    free(body);
    aviary_close(&birds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_timeout),      cmocka_unit_test(test_size),
        cmocka_unit_test(test_context),      cmocka_unit_test(test_whole),
        cmocka_unit_test(test_large_events),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}

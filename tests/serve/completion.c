/* A request with more prompts than may wait: they are computed as others end, and each gets what it
 * would get alone. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXTS "/v1/completions"
enum { ROWS = 4, QUEUE = 6, PROMPTS = 60 };

static served s;

static int open_server(void **state) {
    (void)state;
    mica_serving_options options = {.rows = ROWS, .queue = QUEUE};
    char *path = test_format("%s/default", test_models_dir());
    assert_int_equal(mica_model_open(path, &(mica_model_options){.threads = 2}, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, &options), MICA_OK);
    free(path);
    return 0;
}

static int close_server(void **state) {
    (void)state;
    served_close(&s);
    return 0;
}

/* The body of a request of `count` prompts, "one 0", "one 1" ..., and more fields. Freed with
 * free. */
static char *body_of(size_t count, const char *fields) {
    size_t bytes = count * 16 + strlen(fields) + 64;
    char *body = malloc(bytes);
    assert_non_null(body);
    size_t n = (size_t)snprintf(body, bytes, "{\"prompt\": [\"one 0\"");
    for (size_t i = 1; i < count; i++)
        n += (size_t)snprintf(body + n, bytes - n, ", \"one %zu\"", i);
    snprintf(body + n, bytes - n, "], \"temperature\": 0, %s}", fields);
    return body;
}

static mc_str text_of(mc_json root, size_t choice) {
    char path[40];
    snprintf(path, sizeof path, "choices.%zu.text", choice);
    return text_at(root, path);
}

static void test_many(void **state) {
    (void)state;
    char *body = body_of(PROMPTS, "\"max_tokens\": 3, \"n\": 2, \"stop\": [\"qqq\"]");
    mc_json_doc *doc = client_json(s.server, "POST", TEXTS, body, 200);
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(at(root, "choices")), 2 * PROMPTS);
    assert_int_equal(int_at(root, "usage.completion_tokens"), 2 * PROMPTS * 3);
    for (size_t i = 0; i < PROMPTS; i += 13) {
        char *alone = test_format("{\"prompt\": \"one %zu\", \"temperature\": 0, "
                                  "\"max_tokens\": 3}",
                                  i);
        mc_json_doc *one = client_json(s.server, "POST", TEXTS, alone, 200);
        for (size_t n = 0; n < 2; n++)
            assert_true(mc_str_eq(text_of(root, 2 * i + n), text_of(mc_json_root(one), 0)));
        mc_json_close(&one);
        free(alone);
    }
    mc_json_close(&doc);
    free(body);
}

static _Atomic bool answered;

static void *ask_many(void *context) {
    answer *a = context;
    char *body = body_of(PROMPTS, "\"max_tokens\": 12, \"ignore_eos\": true");
    *a = client_ask(s.server, "POST", TEXTS, body);
    atomic_store(&answered, true);
    free(body);
    return NULL;
}

static double running(void) {
    answer a = client_ask(s.server, "GET", "/metrics", NULL);
    double n = client_metric(a.body, "mica_requests_running{model=\"default\"}");
    answer_free(&a);
    return n;
}

/* Starts ask_many, and waits until it is computed; on a slow machine it may be over by then. */
static pthread_t begin_many(answer *a) {
    pthread_t thread;
    atomic_store(&answered, false);
    pthread_create(&thread, NULL, ask_many, a);
    while (running() < ROWS && !atomic_load(&answered))
        poll(NULL, 0, 2);
    return thread;
}

/* Others find room in the queue meanwhile. */
static void test_others(void **state) {
    (void)state;
    answer a;
    pthread_t thread = begin_many(&a);
    for (int i = 0; i < 5; i++) {
        mc_json_doc *doc =
            client_json(s.server, "POST", TEXTS, "{\"prompt\": \"a\", \"max_tokens\": 1}", 200);
        mc_json_close(&doc);
    }
    pthread_join(thread, NULL);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

/* What is wrong with the last prompt is said before the first one is computed. */
static void test_refused(void **state) {
    (void)state;
    char *body = malloc(100000);
    assert_non_null(body);
    size_t n = (size_t)sprintf(body, "{\"prompt\": [");
    for (int i = 0; i < 2 * QUEUE; i++)
        n += (size_t)sprintf(body + n, "[5, 6],");
    n += (size_t)sprintf(body + n, "[5");
    for (int i = 0; i < 9000; i++)
        n += (size_t)sprintf(body + n, ",%d", 5 + i % 90);
    sprintf(body + n, "]]}");
    client_refused(s.server, TEXTS, body, 400, "context_length_exceeded", "");
    free(body);
}

/* A client that leaves ends them all, those that had not begun, too. */
static void test_hangup(void **state) {
    (void)state;
    size_t files = client_files();
    for (int stream = 0; stream < 2; stream++) {
        char *body = body_of(PROMPTS, stream ? "\"max_tokens\": 500, \"stream\": true"
                                             : "\"max_tokens\": 500");
        int fd = client_connect(s.server);
        client_print(fd,
                     "POST " TEXTS " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                     strlen(body));
        client_send(fd, body, strlen(body));
        while (running() < ROWS)
            poll(NULL, 0, 2);
        close(fd);
        assert_true(client_files_back(files));
        while (running() > 0)
            poll(NULL, 0, 2);
        free(body);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    char *body = body_of(QUEUE + 2, "\"max_tokens\": 1");
    client_without_memory(s.server, TEXTS, body);
    free(body);
}

/* A server that is stopped answers all of what it has begun. */
static void test_drain(void **state) {
    (void)state;
    answer a;
    pthread_t thread = begin_many(&a);
    mica_server_stop(s.server);
    assert_int_equal(mica_server_run(s.server), MICA_OK);
    pthread_join(thread, NULL);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),      cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_hangup),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}

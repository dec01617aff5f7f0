/* Bad clients, full queues, no memory, and the end of a server under load. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHAT "/v1/chat/completions"
#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"

/* Sends a chat, and reads nothing. */
static int begin_chat(const mica_server *server, const char *fields) {
    char *body = test_format("{" HELLO ", %s}", fields);
    int fd = client_connect(server);
    assert_true(fd >= 0);
    client_print(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    free(body);
    return fd;
}

static int ask(const mica_server *server, const char *fields) {
    char *body = test_format("{" HELLO ", %s}", fields);
    answer a = client_ask(server, "POST", CHAT, body);
    free(body);
    answer_free(&a);
    return a.status;
}

static int health(const mica_server *server) {
    answer a = client_ask(server, "GET", "/health", NULL);
    answer_free(&a);
    return a.status;
}

/* Reads until the first bytes of an answer's body have come. */
static void wait_for_stream(int fd) {
    char bytes[4096];
    size_t len = 0;
    while (len < sizeof bytes - 1) {
        ssize_t n = recv(fd, bytes + len, sizeof bytes - 1 - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
        bytes[len] = '\0';
        if (strstr(bytes, "data: ")) return;
    }
}

#define LONG "\"ignore_eos\": true, \"stream\": true"

/* 200 streams are dropped at once, in all ways: their descriptors come back while idle connections
 * stay, and others are served. */
static void test_dropped(void **state) {
    (void)state;
    enum { STREAMS = 200, IDLE = 20 };
    served s = served_open(NULL);
    int idle[IDLE], fds[STREAMS];
    assert_int_equal(ask(s.server, "\"max_tokens\": 1"), 200);
    for (int i = 0; i < IDLE; i++) {
        idle[i] = client_connect(s.server);
        client_print(idle[i], "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer a = client_read(idle[i]);
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
    size_t files = client_files();
    for (int i = 0; i < STREAMS; i++)
        fds[i] = begin_chat(s.server, i % 3 ? LONG : LONG ", \"n\": 2");
    wait_for_stream(fds[0]);
    for (int i = 0; i < STREAMS; i++) {
        struct linger at_once = {.l_onoff = 1};
        if (i % 2) setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fds[i]);
    }
    assert_int_equal(health(s.server), 200);
    assert_true(client_files_back(files));
    assert_int_equal(ask(s.server, "\"max_tokens\": 1"), 200);
    for (int i = 0; i < IDLE; i++) {
        client_print(idle[i], "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer a = client_read(idle[i]);
        assert_int_equal(a.status, 200);
        answer_free(&a);
        close(idle[i]);
    }
    served_close(&s);
}

/* A client that does not read holds nobody up, and is cut off once it is far behind. */
static void test_slow_reader(void **state) {
    (void)state;
    served s = served_open(NULL);
    int fd = begin_chat(s.server, LONG ", \"n\": 8, \"logprobs\": true, \"top_logprobs\": 20");
    wait_for_stream(fd);
    assert_int_equal(ask(s.server, "\"max_tokens\": 4"), 200);
    mica_server_stop(s.server);
    assert_int_equal(mica_server_run(s.server), MICA_OK); /* it is not waited for */
    char bytes[65536];
    ssize_t n;
    char last[8] = "";
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        memcpy(last, bytes + (n > 7 ? n - 7 : 0), (size_t)(n > 7 ? 7 : n));
    assert_null(strstr(last, "0\r\n\r\n")); /* no end of the chunks: it was cut off */
    close(fd);
    served_close(&s);
}

/* One that closes its half while it is streamed to counts as gone. */
static void test_half_closed(void **state) {
    (void)state;
    served s = served_open(NULL);
    int fd = begin_chat(s.server, LONG);
    wait_for_stream(fd);
    shutdown(fd, SHUT_WR);
    char bytes[4096];
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
    close(fd);
    mica_server_stop(s.server);
    assert_int_equal(mica_server_run(s.server), MICA_OK);
    served_close(&s);
}

/* The same while its answer is computed whole: nothing is sent that looks like one. */
static void test_half_closed_whole(void **state) {
    (void)state;
    static const char *const requests[][2] = {
        {CHAT, "{" HELLO ", \"ignore_eos\": true}"},
        {"/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 1900, \"ignore_eos\": true}"},
    };
    served s = served_open(NULL);
    for (size_t i = 0; i < 40; i++) { /* it depends on the moment what happens */
        const char *const *request = requests[i % 2];
        int fd = client_connect(s.server);
        client_print(fd, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                     request[0], strlen(request[1]), request[1]);
        shutdown(fd, SHUT_WR);
        answer a = client_read(fd);
        if (a.status) assert_int_equal(a.status, 499);
        answer_free(&a);
        close(fd);
    }
    served_close(&s);
}

/* ---- a full queue ---- */

static void test_full_queue(void **state) {
    (void)state;
    served s = {0};
    char *path = test_format("%s/default", test_models_dir());
    mica_serving_options options = {.rows = 1, .queue = 2};
    assert_int_equal(mica_model_open(path, &(mica_model_options){.threads = 2}, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, &options), MICA_OK);
    free(path);
    int fds[3], refused = 0;
    for (int i = 0; i < 3; i++) {
        fds[i] = begin_chat(s.server, LONG);
        if (i == 0) wait_for_stream(fds[0]); /* it has the row */
    }
    for (int i = 0; i < 1000 && !refused; i++) { /* the other two are in the queue soon */
        answer a = client_ask(s.server, "POST", CHAT, "{" HELLO ", \"max_tokens\": 1, \"n\": 0}");
        assert_int_equal(a.status, 400); /* what is wrong is so, whatever the queue */
        answer_free(&a);
        int fd = begin_chat(s.server, "\"max_tokens\": 1");
        if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 20) == 1) {
            a = client_read(fd);
            refused = a.status == 503;
            if (refused) assert_non_null(strstr(a.head, "Retry-After: "));
            answer_free(&a);
        }
        close(fd);
    }
    assert_true(refused);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    served_close(&s);
}

/* ---- the end under load ---- */

typedef struct asking {
    const mica_server *server;
    pthread_t thread;
    int fd;
    answer a;
} asking;

static void *read_answer(void *context) {
    asking *at = context;
    at->a = client_read(at->fd);
    return NULL;
}

/* What was accepted before the stop is answered whole; what comes later is refused. */
static void test_drain(void **state) {
    (void)state;
    enum { CLIENTS = 12 };
    served s = served_open(NULL);
    asking clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].fd = begin_chat(s.server, "\"temperature\": 0, \"max_tokens\": 40, "
                                             "\"ignore_eos\": true, \"stream\": true");
        wait_for_stream(clients[i].fd);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i].thread, NULL, read_answer, &clients[i]);
    mica_server_stop(s.server);
    assert_int_equal(mica_server_run(s.server), MICA_OK);
    assert_int_equal(health(s.server), 503);
    assert_int_equal(ask(s.server, "\"max_tokens\": 1"), 503);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        answer_free(&clients[i].a);
        close(clients[i].fd);
    }
    served_close(&s);
}

/* Begins a chat whose body comes in two parts; what is left of it is at *rest, freed with free. */
static int begin_split(const mica_server *server, char **rest) {
    static const char body[] = "{" HELLO ", \"max_tokens\": 2}";
    size_t half = sizeof body / 2;
    int fd = client_connect(server), requests = 0;
    assert_true(fd >= 0);
    client_print(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%.*s",
                 sizeof body - 1, (int)half, body);
    for (int i = 0; i < CLIENT_PATIENCE && !requests; i++) {
        mica_server_under_way(server, &requests, NULL);
        if (!requests) poll(NULL, 0, 10);
    }
    assert_int_equal(requests, 1); /* its head was taken */
    *rest = test_format("%s", body + half);
    return fd;
}

static void *run_server(void *server) {
    assert_int_equal(mica_server_run(server), MICA_OK);
    return NULL;
}

/* A request whose body comes after the stop was accepted before it, and is answered. */
static void test_drain_split(void **state) {
    (void)state;
    served s = served_open(NULL);
    pthread_t thread;
    char *rest;
    int fd = begin_split(s.server, &rest);
    mica_server_stop(s.server);
    pthread_create(&thread, NULL, run_server, s.server);
    while (health(s.server) != 503)
        poll(NULL, 0, 10);
    assert_int_equal(ask(s.server, "\"max_tokens\": 1"), 503);
    poll(NULL, 0, 100);
    client_send(fd, rest, strlen(rest));
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    pthread_join(thread, NULL);
    answer_free(&a);
    close(fd);
    free(rest);
    served_close(&s);
}

/* One whose body does not come is not waited for longer than any other. */
static void test_drain_unsent(void **state) {
    (void)state;
    served s = served_open(&(mica_server_options){.request_seconds = 1});
    char *rest;
    int fd = begin_split(s.server, &rest);
    mica_server_stop(s.server);
    assert_int_equal(mica_server_run(s.server), MICA_OK);
    answer a = client_read(fd);
    assert_int_equal(a.status, 0);
    answer_free(&a);
    close(fd);
    free(rest);
    served_close(&s);
}

static void *stop_twice(void *context) {
    mica_server_stop(context);
    mica_server_stop(context);
    return NULL;
}

/* The second stop does not wait for a stream. */
static void test_stop_twice(void **state) {
    (void)state;
    served s = served_open(NULL);
    pthread_t thread;
    int fd = begin_chat(s.server, LONG);
    wait_for_stream(fd);
    pthread_create(&thread, NULL, stop_twice, s.server);
    mica_status status = mica_server_run(s.server);
    assert_true(status == MICA_ECANCELLED || status == MICA_OK);
    pthread_join(thread, NULL);
    served_close(&s); /* with the stream under way */
    close(fd);
}

/* ---- no model ---- */

/* A model whose files are deleted while it is served is served on: all of it is mapped or read. */
static void test_deleted(void **state) {
    (void)state;
    static const char *const files[] = {
        "config.json",         "tokenizer.json",         "tokenizer_config.json",
        "chat_template.jinja", "generation_config.json", "model.safetensors"};
    static const char *const requests[][2] = {
        {CHAT, "{" HELLO ", \"max_tokens\": 2}"},
        {CHAT, "{" HELLO ", \"max_tokens\": 8, \"response_format\": {\"type\": \"json_object\"}}"},
        {"/v1/completions",
         "{\"prompt\": \"a\", \"max_tokens\": 1, \"echo\": true, \"logprobs\": 1}"},
        {"/v1/embeddings", "{\"input\": \"a\"}"},
        {"/v1/score", "{\"input\": \"a b\"}"},
        {"/v1/classify", "{\"input\": \"a\", \"labels\": [\"b\"]}"},
    };
    served s = {0};
    char *folder = test_temp_dir();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *from = test_format("%s/default/%s", test_models_dir(), files[i]);
        char *to = test_format("%s/%s", folder, files[i]);
        test_copy_file(from, to);
        free(from);
        free(to);
    }
    assert_int_equal(mica_model_open(folder, &(mica_model_options){.threads = 2}, &s.model),
                     MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, NULL), MICA_OK);
    int fd = begin_chat(s.server, LONG);
    wait_for_stream(fd);
    test_temp_dir_remove(folder);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        answer a = client_ask(s.server, "POST", requests[i][0], requests[i][1]);
        if (a.status != 200) fail_msg("%s: %d %s", requests[i][0], a.status, a.body);
        answer_free(&a);
    }
    close(fd);
    served_close(&s);
}

/* ---- no memory ---- */

/* A request for which an allocation fails is refused or dropped; the next one is answered. */
static void test_no_memory(void **state) {
    (void)state;
    served s = served_open(NULL);
    for (int stream = 0; stream < 2; stream++) {
        const char *fields = stream ? "\"max_tokens\": 2, \"stream\": true, \"logprobs\": true"
                                    : "\"max_tokens\": 2, \"n\": 2";
        int status = 0;
        assert_int_equal(ask(s.server, fields), 200);
        for (uint64_t n = 1; n < 4000; n += 1 + n / 16) {
            mc_alloc_fail_at(n);
            status = ask(s.server, fields);
            uint64_t count = mc_alloc_count();
            mc_alloc_fail_at(0);
            if (status != 0 && status != 200 && status != 503)
                fail_msg("allocation %d: %d", (int)n, status);
            if (count < n) break;
        }
        assert_int_equal(health(s.server), 200);
        assert_int_equal(ask(s.server, fields), 200);
    }
    served_close(&s);
}

/* The same in the forms of other APIs, each with all that its conversations may hold. */
static void test_no_memory_elsewhere(void **state) {
    (void)state;
    static const char *const forms[][2] = {
        {"/v1/messages",
         "{\"model\": \"default\", \"max_tokens\": 2, \"stream\": %s, \"system\": [{\"type\": "
         "\"text\", \"text\": "
         "\"a\"}], \"stop_sequences\": [\"qq\"], \"messages\": [{\"role\": \"user\", "
         "\"content\": [{\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"user\", "
         "\"content\": \"What is curl?\"}]}"},
        {"/api/chat",
         "{\"model\": \"default\", \"stream\": %s, \"options\": {\"num_predict\": 2, \"stop\": "
         "[\"qq\"]}, \"logprobs\": true, \"messages\": [{\"role\": \"user\", \"content\": "
         "\"What is curl?\"}]}"},
    };
    served s = served_open(NULL);
    for (size_t i = 0; i < 4; i++) {
        char *body = test_format(forms[i / 2][1], i % 2 ? "true" : "false");
        client_without_memory(s.server, forms[i / 2][0], body);
        free(body);
    }
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropped),      cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_half_closed),  cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_drain),        cmocka_unit_test(test_stop_twice),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_half_closed_whole),
        cmocka_unit_test(test_deleted),      cmocka_unit_test(test_drain_split),
        cmocka_unit_test(test_drain_unsent), cmocka_unit_test(test_no_memory_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

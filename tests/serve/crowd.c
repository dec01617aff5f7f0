/* 64 clients at once ask all kinds of things, well-formed or not, and some leave in between. What
 * they get is what each would get alone. Then the server is stopped while they ask. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 64, ROUNDS = 4 };

#define CHAT "/v1/chat/completions"
#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"

/* What is asked, and the status that it gets; alone: its answer is compared with what it is alone.
 */
typedef struct request {
    const char *method, *path, *body;
    int status;
    bool alone;
    const char *end; /* of the answer */
} request;

static const request requests[] = {
    {"POST", "/v1/completions", "{\"prompt\": \"one\", \"temperature\": 0, \"max_tokens\": 3}", 200,
     false, "}"},
    {"POST", CHAT, "{" HELLO ", \"max_tokens\": 3, \"stream\": true, \"n\": 2}", 200, false,
     "data: [DONE]\n\n"},
    {"POST", "/v1/embeddings", "{\"input\": \"one\"}", 200, true, "}"},
    {"POST", "/v1/score", "{\"input\": \"one two three\"}", 200, false, "}"},
    {"POST", "/v1/responses", "{\"input\": \"one\", \"max_output_tokens\": 2, \"stream\": true}",
     200, false, "\n\n"},
    {"POST", "/v1/messages", "{" HELLO ", \"model\": \"default\", \"max_tokens\": 2}", 200, false,
     "}"},
    {"POST", "/api/generate",
     "{\"model\": \"default\", \"prompt\": \"one\", \"options\": {\"num_predict\": 2}}", 200, false,
     "}\n"},
    {"POST", "/v1/completions", "{\"prompt\": [\"a\", \"b\", \"c\"], \"max_tokens\": 1}", 200,
     false, "}"},
    {"POST", "/tokenize", "{\"prompt\": \"one two\"}", 200, true, "}"},
    {"POST", CHAT, "{" HELLO ", \"temprature\": 0}", 400, true, "}"},
    {"POST", CHAT, "{\"messages\": [", 400, true, "}"},
    {"GET", "/v1/responses/resp_none", NULL, 404, true, "}"},
    {"GET", "/metrics", NULL, 200, false, "\n"},
    {"GET", "/v1/files", NULL, 200, false, "}"},
    {"POST", "/apply-template", "{" HELLO "}", 200, true, "}"},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static char *alone[REQUESTS]; /* their answers; NULL: not compared */
static atomic_bool stopping;
static atomic_size_t refused;

typedef struct visitor {
    pthread_t thread;
    unsigned seed;
    const char *wrong; /* what went wrong; NULL: nothing */
    answer last;       /* where it did */
} visitor;

static unsigned draw(visitor *v, unsigned n) {
    v->seed = v->seed * 1664525u + 1013904223u;
    return (v->seed >> 16) % n;
}

/* Asks for a long answer, and leaves before it has come. */
static void leave(visitor *v) {
    static const char body[] = "{" HELLO ", \"ignore_eos\": true, \"stream\": true}";
    int fd = client_connect(shared.server);
    if (fd < 0) return;
    client_print(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 sizeof body - 1, body);
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)draw(v, 20));
    close(fd);
}

static const char *check(const request *r, size_t i, const answer *a, bool before) {
    if (a->status == 503) { /* it came too late */
        atomic_fetch_add(&refused, 1);
        return before ? "refused" : NULL;
    }
    if (a->status == 0) return before ? "no answer" : NULL;
    size_t len = strlen(r->end);
    if (a->status != r->status) return "status";
    if (a->len < len || memcmp(a->body + a->len - len, r->end, len) != 0) return "end";
    return alone[i] && strcmp(alone[i], a->body) != 0 ? "not what it is alone" : NULL;
}

static void *visit(void *context) {
    visitor *v = context;
    for (int n = 0; (n < ROUNDS || atomic_load(&stopping)) && !v->wrong; n++) {
        size_t i = draw(v, REQUESTS + 2);
        if (i >= REQUESTS) {
            leave(v);
            continue;
        }
        int fd = client_connect(shared.server);
        if (fd < 0) return NULL;
        const request *r = &requests[i];
        client_print(fd, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                     r->method, r->path, r->body ? strlen(r->body) : 0, r->body ? r->body : "");
        bool before = !atomic_load(&stopping);
        answer a = client_read(fd);
        close(fd);
        bool late = a.status == 503 || a.status == 0;
        v->wrong = check(r, i, &a, before && !atomic_load(&stopping));
        if (v->wrong)
            v->last = a;
        else
            answer_free(&a);
        if (late && atomic_load(&stopping)) break;
    }
    return NULL;
}

static void begin(visitor *visitors) {
    for (unsigned i = 0; i < CLIENTS; i++) {
        visitors[i] = (visitor){.seed = i * 77 + 1};
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
}

static void end(visitor *visitors) {
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(visitors[i].thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        if (visitors[i].wrong)
            fail_msg("%s: %d %s%s", visitors[i].wrong, visitors[i].last.status,
                     visitors[i].last.head, visitors[i].last.body);
}

static void test_crowd(void **state) {
    (void)state;
    visitor visitors[CLIENTS];
    for (size_t i = 0; i < REQUESTS; i++) {
        answer a =
            client_ask(shared.server, requests[i].method, requests[i].path, requests[i].body);
        assert_int_equal(a.status, requests[i].status);
        if (requests[i].alone)
            alone[i] = a.body;
        else
            free(a.body);
        free(a.head);
    }
    size_t files = client_files();
    begin(visitors);
    end(visitors);
    assert_true(client_files_back(files));
}

/* Each request that was accepted has its whole answer; later ones are refused. */
static void test_stop(void **state) {
    (void)state;
    visitor visitors[CLIENTS];
    atomic_store(&stopping, true); /* clients go on until they are refused */
    begin(visitors);
    poll(NULL, 0, 200);
    mica_server_stop(shared.server);
    assert_int_equal(mica_server_run(shared.server), MICA_OK);
    end(visitors);
    assert_true(atomic_load(&refused) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crowd), cmocka_unit_test(test_stop)};
    int code = cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
    for (size_t i = 0; i < REQUESTS; i++)
        free(alone[i]);
    return code;
}

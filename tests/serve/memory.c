/* A server's live memory: requests of a kind leave none behind, however many there are.
 *
 * Each kind of request is asked some times, then as often again: as many blocks of the heap live as
 * before (support/heap_count.c), and their bytes are the same but for what the allocator rounds up
 * now and then. So one block for a request shows, and so does a table that grows. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS = 6 };

typedef struct heap {
    long long bytes, blocks;
} heap;

#ifdef MICA_HEAP_COUNT
void heap_count(long long *bytes, long long *count);
enum { ROUNDS = 6, ROUNDED_BYTES = 512 };
#else
static void heap_count(long long *bytes, long long *count) {
    *bytes = (long long)test_heap_bytes(); /* a sanitizer's, which rounds nothing */
    *count = 0;
}
enum { ROUNDS = 3, ROUNDED_BYTES = 0 }; /* they take long */
#endif

#define CHAT "/v1/chat/completions"
#define TEXTS "/v1/completions"
#define MESSAGES(text) "\"messages\": [{\"role\": \"user\", \"content\": \"" text "\"}]"
#define HELLO MESSAGES("What is %d?") ", \"temperature\": 0"
#define SCHEMA(name)                                                                   \
    "{\"type\": \"object\", \"properties\": {\"" name "\": {\"type\": \"boolean\"}}, " \
    "\"required\": [\"" name "\"], \"additionalProperties\": false}"
#define TOOLS                                                                  \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"look\", " \
    "\"parameters\": " SCHEMA("a") "}}]"
#define FORM                                                                   \
    "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n" \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"

/* A kind of request. %d of the body or the path is the number of a round. */
typedef struct kind {
    const char *path, *body; /* body NULL: GET */
    int status;
    bool others; /* the second half asks by other numbers than the first */
} kind;

static const kind kinds[] = {
    {CHAT, "{" HELLO ", \"max_tokens\": 3}", 200, false},
    {CHAT, "{" HELLO ", \"max_tokens\": 3, \"n\": 2, \"logprobs\": true, \"top_logprobs\": 3}", 200,
     false},
    {CHAT, "{" HELLO ", \"max_tokens\": 3, \"n\": 2, \"stream\": true}", 200, false},
    {CHAT, "{" HELLO ", \"max_tokens\": 8, \"response_format\": {\"type\": \"json_object\"}}", 200,
     false},
    {CHAT,
     "{" HELLO ", \"max_tokens\": 8, \"response_format\": {\"type\": \"json_schema\", "
     "\"json_schema\": {\"name\": \"a\", \"schema\": " SCHEMA("a%d") "}}}",
     200, false},
    {CHAT, "{" HELLO ", \"max_tokens\": 4, " TOOLS "}", 200, false},
    {CHAT, "{" HELLO ", \"max_tokens\": 8, \"tool_choice\": \"required\", " TOOLS "}", 200, false},
    {CHAT,
     "{" HELLO ", \"max_tokens\": 8, \"stream\": true, \"tool_choice\": \"required\", " TOOLS "}",
     200, false},
    {TEXTS, "{\"prompt\": [\"a %d\", \"b\"], \"max_tokens\": 2, \"stop\": [\"x%d\"], \"seed\": 1}",
     200, false},
    {TEXTS, "{\"prompt\": \"a %d\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 2}", 200,
     false},
    {TEXTS, "{\"prompt\": \"a %d\", \"max_tokens\": 2, \"stream\": true}", 200, false},
    {"/v1/responses", "{\"input\": \"a %d\", \"max_output_tokens\": 2, \"store\": false}", 200,
     false},
    {"/v1/responses",
     "{\"input\": \"a %d\", \"max_output_tokens\": 2, \"stream\": true, "
     "\"store\": false}",
     200, false},
    {"/v1/messages", "{" HELLO ", \"max_tokens\": 2, \"model\": \"default\"}", 200, false},
    {"/v1/messages", "{" HELLO ", \"max_tokens\": 2, \"model\": \"default\", \"stream\": true}",
     200, false},
    {"/v1/messages/count_tokens", "{" MESSAGES("%d") ", \"model\": \"default\"}", 200, false},
    {"/api/chat", "{" MESSAGES("%d") ", \"model\": \"default\", \"options\": {\"num_predict\": 2}}",
     200, false},
    {"/api/generate",
     "{\"prompt\": \"%d\", \"model\": \"default\", \"stream\": false, "
     "\"options\": {\"num_predict\": 2}}",
     200, false},
    {"/api/embed", "{\"model\": \"default\", \"input\": \"a %d\"}", 200, false},
    {"/v1/embeddings", "{\"input\": [\"a %d\", \"b\"]}", 200, false},
    {"/v1/score", "{\"input\": \"a b %d\"}", 200, false},
    {"/v1/rerank", "{\"query\": \"a %d\", \"documents\": [\"b\", \"c\"]}", 200, false},
    {"/v1/classify", "{\"input\": \"a %d\", \"labels\": [\"b\", \"c\"]}", 200, false},
    {"/tokenize", "{\"prompt\": \"one %d\"}", 200, true},
    {"/detokenize", "{\"tokens\": [5, %d]}", 200, true},
    {"/apply-template", "{" MESSAGES("%d") "}", 200, true},
    /* refused: what a client makes up is not remembered */
    {CHAT, "{" HELLO ", \"model\": \"model-%d\"}", 404, true},
    {CHAT, "{" HELLO ", \"field_%d\": 1}", 400, true},
    {CHAT,
     "{" HELLO ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
     "{\"name\": \"a\", \"schema\": {\"keyword%d\": 1}}}}",
     400, true},
    {CHAT, "{" HELLO ", \"temperature\": [[%d", 400, true},
    {TEXTS, "{\"prompt\": [%d, -1]}", 400, true},
    {"/v1/responses", "{\"input\": \"a\", \"previous_response_id\": \"resp_%d\"}", 400, true},
    {"/nowhere/%d", "{}", 404, true},
    {"/v1/files/file-%d", NULL, 404, true},
    {"/v1/batches",
     "{\"input_file_id\": \"%d\", \"endpoint\": \"" TEXTS "\", "
     "\"completion_window\": \"24h\"}",
     400, true},
    {"/v1/models?x%d=1", NULL, 400, true},
    {"/v1/models", NULL, 200, true},
    {"/metrics", NULL, 200, true},
    {"/api/ps", NULL, 200, true},
    {"/api/tags", NULL, 200, true},
    {"/", NULL, 200, true},
};

static served s;

static char *numbered(const char *text, int number) {
    char *out = test_format("%s", text);
    for (char *at; (at = strstr(out, "%d"));) {
        *at = '\0';
        char *more = test_format("%s%d%s", out, number, at + 2);
        free(out);
        out = more;
    }
    return out;
}

static void ask_kind(const void *context, int number) {
    const kind *k = context;
    char *path = numbered(k->path, number), *body = k->body ? numbered(k->body, number) : NULL;
    answer a = client_ask(s.server, body ? "POST" : "GET", path, body);
    if (a.status != k->status) fail_msg("%s %s: %d %s", path, body ? body : "", a.status, a.body);
    answer_free(&a);
    free(path);
    free(body);
}

static bool is_more(heap a, heap b) {
    return a.blocks > b.blocks || a.bytes > b.bytes + ROUNDED_BYTES;
}

/* What lives once nothing is under way. Waits until that is no more than `before`, for what a
 * request has is freed a moment after its answer. */
static heap settle(heap before) {
    int requests = 1;
    heap now = {0};
    for (int i = 0; i < 3000; i++) {
        poll(NULL, 0, i < 3 ? 2 : 10);
        mica_server_under_way(s.server, &requests, NULL);
        heap_count(&now.bytes, &now.blocks);
        if (!requests && i >= 2 && !is_more(now, before)) break;
    }
    return now;
}

/* Does a work again and again, as often each time, and checks that it does not leave something each
 * time: a buffer that is kept may grow once. others: with other numbers. */
static void check(const char *what, bool others, void (*work)(const void *context, int number),
                  const void *context) {
    const heap any = {INT64_MAX / 2, INT64_MAX};
    heap before = any, now = any;
    for (int turn = 0; turn < TURNS; turn++) {
        before = now;
        for (int i = 0; i < ROUNDS; i++)
            work(context, 1000 + i + (others ? turn * ROUNDS : 0));
        now = settle(turn > 1 ? before : any);
        if (turn > 1 && !is_more(now, before)) return; /* the first one makes what is kept */
    }
    fail_msg("%s: %d requests leave %lld blocks, %lld bytes", what, ROUNDS,
             now.blocks - before.blocks, now.bytes - before.bytes);
}

static void test_kinds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *what = test_format("%s %s", kinds[i].path, kinds[i].body ? kinds[i].body : "");
        check(what, kinds[i].others, ask_kind, &kinds[i]);
        free(what);
    }
}

/* ---- what is made and removed again ---- */

/* The id that an answer tells. */
static char *make(const char *path, const char *body) {
    mc_json_doc *doc = client_json(s.server, "POST", path, body, 200);
    mc_str id = MC_STR("");
    mc_json_get_str(mc_json_find(mc_json_root(doc), "id"), &id);
    char *made = test_format("%s/%.*s", path, MC_STR_ARG(id));
    mc_json_close(&doc);
    return made;
}

static void make_and_remove(const void *context, int number) {
    const kind *k = context;
    char *body = numbered(k->body, number), *made = make(k->path, body);
    mc_json_doc *doc = client_json(s.server, "GET", made, NULL, 200);
    mc_json_close(&doc);
    doc = client_json(s.server, "DELETE", made, NULL, 200);
    mc_json_close(&doc);
    free(body);
    free(made);
}

static void test_removed(void **state) {
    (void)state;
    static const kind made[] = {
        {"/v1/files", FORM "{\"a\": %d}\r\n--b--\r\n", 200, true},
        {"/v1/responses", "{\"input\": \"a %d\", \"max_output_tokens\": 2}", 200, false},
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        check(made[i].path, made[i].others, make_and_remove, &made[i]);
}

/* ---- clients that go ---- */

/* Leaves after nothing, half of a request, a request, or the beginning of its stream; by an end or
 * by a reset. */
static const char streamed[] =
    "{" MESSAGES("a") ", \"stream\": true, \"ignore_eos\": true, \"max_tokens\": 300}";

static void leave(const void *context, int number) {
    int stage = *(const int *)context, fd = client_connect(s.server);
    char first;
    assert_true(fd >= 0);
    if (stage == 1) client_print(fd, "POST " CHAT " HTTP/1.1\r\nHost: local");
    if (stage > 1)
        client_print(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                     strlen(streamed));
    if (stage > 1) client_send(fd, streamed, stage == 2 ? 10 : strlen(streamed));
    if (stage == 4) assert_int_equal(recv(fd, &first, 1, 0), 1);
    struct linger at_once = {.l_onoff = 1};
    if (number % 2) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static void test_left(void **state) {
    (void)state;
    static const char *const what[] = {"nothing", "half a head", "half a body", "a request",
                                       "a stream"};
    answer a = client_ask(s.server, "POST", CHAT, streamed); /* as far as any of them may come */
    assert_int_equal(a.status, 200);
    answer_free(&a);
    for (int stage = 0; stage < 5; stage++)
        check(what[stage], false, leave, &stage);
}

/* Many names of keys, none of which is one. */
static void ask_by_key(const void *context, int number) {
    char *header = test_format("Authorization: Bearer key-%d\r\n", number);
    answer a = client_ask_with(context, header, "GET", "/v1/models", NULL);
    assert_int_equal(a.status, 401);
    answer_free(&a);
    free(header);
}

static void test_keys(void **state) {
    (void)state;
    const char *key = "sesame";
    const mica_server_options options = {
        .struct_bytes = sizeof options, .api_keys = &key, .api_key_count = 1};
    mica_server *server;
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    check("a wrong key", true, ask_by_key, server);
    mica_server_close(&server);
}

/* ---- the server ---- */

/* Its caches are small, and full. It computes one answer at a time: how many are under way, and so
 * which graphs are compiled, would be a matter of chance where clients leave. */
static int open_server(void **state) {
    (void)state;
    char *path = test_format("%s/default", test_models_dir());
    const mica_serving_options options = {
        .struct_bytes = sizeof options, .rows = 1, .cache_bytes = 4 << 20};
    assert_int_equal(mica_model_open(path, &(mica_model_options){.threads = 1}, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, &options), MICA_OK);
    free(path);
    for (int i = 0; i < 4; i++) {
        char *body = test_format("{\"prompt\": [%d", i + 5);
        for (int k = 0; k < 400; k++) {
            char *more = test_format("%s, %d", body, 7 + k % 9);
            free(body);
            body = more;
        }
        char *whole = test_format("%s], \"max_tokens\": 1}", body);
        answer a = client_ask(s.server, "POST", TEXTS, whole);
        if (a.status != 200) fail_msg("%s", a.body);
        answer_free(&a);
        free(body);
        free(whole);
    }
    return 0;
}

static int close_server(void **state) {
    (void)state;
    served_close(&s);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}

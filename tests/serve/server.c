/* The server over sockets: what it answers, what it refuses, and what bad clients cannot do. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include "serve/http/library.h"
#include "support/system.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sends a request as it is. Returns the answer's status; 0: none. */
static int ask_raw(const char *request) {
    int fd = client_connect(shared.server);
    client_send(fd, request, strlen(request));
    answer a = client_read(fd);
    close(fd);
    answer_free(&a);
    return a.status;
}

static int get(const mica_server *server, const char *path) {
    answer a = client_ask(server, "GET", path, NULL);
    answer_free(&a);
    return a.status;
}

/* ---- what it answers ---- */

static void test_health(void **state) {
    (void)state;
    mica_server *server = NULL;
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(get(server, "/health"), 503); /* no model yet */
    client_refused(server, "/tokenize", "{\"prompt\": \"a\"}", 503, "loading", "model");
    assert_int_equal(mica_server_add(server, "a", shared.model, NULL), MICA_OK);
    assert_int_equal(mica_server_add(server, "a", shared.model, NULL), MICA_EINVAL);
    assert_int_equal(mica_server_add(server, "", shared.model, NULL), MICA_EINVAL);
    assert_int_equal(get(server, "/health"), 200);
    mica_server_close(&server);
    assert_null(server);
}

static void test_models(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(shared.server, "GET", "/v1/models", NULL, 200);
    mc_json data = mc_json_find(mc_json_root(doc), "data");
    mc_str id;
    assert_int_equal(mc_json_count(data), 1);
    for (mc_json_iter it = mc_json_begin(data); mc_json_next(&it);)
        assert_true(mc_json_get_str(mc_json_find(it.value, "id"), &id) && mc_str_is(id, "default"));
    mc_json_close(&doc);
    assert_int_equal(get(shared.server, "/v1/models/default"), 200);
    assert_int_equal(get(shared.server, "/v1/models/other"), 404);
    assert_int_equal(get(shared.server, "/v1/models/"), 404);
}

/* Tokens are the tokenizer's, and their text is the text again. */
static void test_tokens(void **state) {
    (void)state;
    static const char text[] = "What is curl? \xc3\xa4\xe2\x82\xac";
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    int32_t *ids;
    size_t n, i = 0;
    assert_int_equal(mica_tokenizer_encode(tok, text, strlen(text), false, &ids, &n), MICA_OK);
    char *body = test_format("{\"prompt\": \"%s\", \"add_special_tokens\": false}", text);
    mc_json_doc *doc = client_json(shared.server, "POST", "/tokenize", body, 200);
    mc_json tokens = mc_json_find(mc_json_root(doc), "tokens");
    char *back = test_format("{\"tokens\": [");
    assert_int_equal(mc_json_count(tokens), n);
    for (mc_json_iter it = mc_json_begin(tokens); mc_json_next(&it); i++) {
        int64_t id;
        assert_true(mc_json_get_int(it.value, &id) && id == ids[i]);
        char *more = test_format("%s%s%d", back, i ? ", " : "", (int)id);
        free(back);
        back = more;
    }
    char *whole = test_format("%s]}", back);
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/detokenize", whole, 200);
    mc_str prompt;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(doc), "prompt"), &prompt));
    assert_true(mc_str_is(prompt, text));
    mc_json_close(&doc);
    mica_free(ids);
    free(body);
    free(back);
    free(whole);
}

/* What there is to know of the tokenizer, by the names of tokenizer_config.json. */
static void test_tokenizer_info(void **state) {
    (void)state;
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    const int32_t ids[] = {mica_tokenizer_bos(tok), mica_tokenizer_eos(tok),
                           mica_tokenizer_pad(tok), mica_tokenizer_unk(tok)};
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    mc_json_doc *doc =
        client_json(shared.server, "GET", "/tokenizer_info?model=default", NULL, 200);
    mc_json root = mc_json_root(doc);
    mc_str text;
    for (size_t i = 0; i < 4; i++) {
        size_t len = 0;
        const char *want = ids[i] >= 0 ? mica_tokenizer_token(tok, ids[i], &len) : NULL;
        bool told = mc_json_get_str(mc_json_find(root, names[i]), &text);
        assert_int_equal(told, want != NULL);
        if (told) assert_true(mc_str_eq(text, (mc_str){want, len}));
    }
    assert_true(mc_json_get_str(mc_json_find(root, "chat_template"), &text) && text.len > 100);
    mc_json_close(&doc);
    doc = client_json(shared.server, "GET", "/tokenizer_info?model=none", NULL, 404);
    mc_json_close(&doc);
}

/* ---- what it refuses ---- */

/* What the answer to a wrong address or method says to do. */
static void check_misspelt(void) {
    static const struct {
        const char *method, *path, *says, *allow;
    } wrong[] = {
        {"POST", "/chat/completions", "did you mean /v1/chat/completions?", NULL},
        {"GET", "/models", "did you mean /v1/models?", NULL},
        {"POST", "/v1/tokenize", "did you mean /tokenize?", NULL},
        {"POST", "/v1/tokenise", "there is no /v1/tokenise here\"", NULL},
        {"GET", "/v1/chat/completions", "which takes POST\"", "\r\nAllow: POST\r\n"},
        {"POST", "/v1/models", "which takes GET\"", "\r\nAllow: GET\r\n"},
        {"PUT", "/v1/files/x", "which takes GET, DELETE\"", "\r\nAllow: GET, DELETE\r\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        answer a = client_ask(shared.server, wrong[i].method, wrong[i].path,
                              wrong[i].method[0] == 'G' ? NULL : "{}");
        assert_int_equal(a.status, wrong[i].allow ? 405 : 404);
        if (!strstr(a.body, wrong[i].says)) fail_msg("%s: %s", wrong[i].path, a.body);
        assert_true(wrong[i].allow ? !!strstr(a.head, wrong[i].allow) : !strstr(a.head, "Allow:"));
        answer_free(&a);
    }
}

/* What is no endpoint is refused in the form of the API that it is of. */
static void check_forms(void) {
    static const struct {
        const char *method, *path, *begin;
        int status;
    } rows[] = {{"GET", "/v1/messages", "{\"type\":\"error\",\"error\":{", 405},
                {"GET", "/v1/messages/batches", "{\"type\":\"error\",\"error\":{", 404},
                {"GET", "/api/chat", "{\"error\":\"", 405},
                {"POST", "/api/push", "{\"error\":\"", 404},
                {"GET", "/v1/chat/completions", "{\"error\":{", 405},
                {"POST", "/v1/assistants", "{\"error\":{", 404},
                {"POST", "/apis", "{\"error\":{", 404}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        answer a = client_ask(shared.server, rows[i].method, rows[i].path,
                              *rows[i].method == 'P' ? "{}" : NULL);
        assert_int_equal(a.status, rows[i].status);
        if (strncmp(a.body, rows[i].begin, strlen(rows[i].begin)) != 0)
            fail_msg("%s: %s", rows[i].path, a.body);
        answer_free(&a);
    }
}

static void test_bodies(void **state) {
    (void)state;
    client_refused(shared.server, "/tokenize", "{}", 400, "missing_field", "prompt");
    client_refused(shared.server, "/tokenize", "{\"prompt\": \"\", \"promt\": 1}", 400,
                   "unknown_field", "promt");
    client_refused(shared.server, "/tokenize", "{\"prompt\": \"\", \"model\": \"x\"}", 404,
                   "model_not_found", "model");
    client_refused(shared.server, "/detokenize", "{\"tokens\": [1, -2]}", 400, "invalid_value",
                   "tokens");
    client_refused(shared.server, "/detokenize", "{\"tokens\": [1, 1e9]}", 400, "invalid_value",
                   "tokens");
    client_refused(shared.server, "/tokenize", "{\"prompt\": \"\"", 400, "invalid_json", "");
    client_refused(shared.server, "/tokenize", "\xff{}", 400, "invalid_json", "");
    client_refused(shared.server, "/tokenize", "", 400, "missing_body", "");
    client_refused(shared.server, "/tokenise", "{}", 404, "unknown_url", "");
    client_refused(shared.server, "/health", "{}", 405, "method_not_allowed", "");
    check_misspelt();
    check_forms();
    client_refused(shared.server, "/tokenize?prompt=a", "{}", 400, "unknown_field", "prompt");
    size_t depth = 100000; /* nothing recurses over it */
    char *deep = malloc(2 * depth + 32);
    assert_non_null(deep);
    strcpy(deep, "{\"prompt\": ");
    memset(deep + 11, '[', depth);
    memset(deep + 11 + depth, ']', depth);
    strcpy(deep + 11 + 2 * depth, "}");
    client_refused(shared.server, "/tokenize", deep, 400, "invalid_json", "");
    free(deep);
}

/* Where others may see another end of the head or of the body. */
#define BYTES(text) \
    { text, sizeof text - 1 }
static const struct {
    const char *bytes;
    size_t n;
} hidden[] = {
    BYTES("Transfer-Encoding: chunked\0x\r\n\r\n0\r\n\r\n"),
    BYTES("Transfer-Encoding: chunked\0\r\nX: y\r\n\r\n0\r\n\r\n"),
    BYTES("Transfer-Encoding\0: chunked\r\n\r\n0\r\n\r\n"),
    BYTES("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    BYTES("Content-Length:\r\n 2\r\n\r\n{}"),
    BYTES("Content-Length: 1\r\n\t2\r\n\r\n{}"),
    BYTES("X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"),
};

static void test_framing(void **state) {
    (void)state;
    assert_int_equal(ask_raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    assert_int_equal(ask_raw("GET /health HTTP/1.1\r\n\r\n"), 400);
    assert_int_equal(ask_raw("GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n"), 400);
    assert_int_equal(ask_raw("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    assert_int_equal(ask_raw("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(ask_raw("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                             "Content-Length: 3\r\n\r\n{}"),
                     400);
    assert_int_equal(ask_raw("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                             "gzip\r\n\r\n"),
                     400);
    assert_int_equal(ask_raw("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
                             "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(ask_raw("GET /health HTTP/1.1\r\nHost: localhost\r\nX: \x0b\r\n\r\n"), 400);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        int fd = client_connect(shared.server);
        client_print(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n");
        client_send(fd, hidden[i].bytes, hidden[i].n);
        answer a = client_read(fd);
        if (a.status != 400 || !a.closes) fail_msg("%zu: %d %s", i, a.status, a.body);
        answer_free(&a);
        close(fd);
    }
    assert_int_equal(get(shared.server, "/v1/models%00x"), 404);
    assert_int_equal(get(shared.server, "/v1/%6dodels"), 200);
    assert_int_equal(ask_raw("BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
    int status = ask_raw("\x16\x03\x01 nonsense\r\n\r\n");
    assert_true(status == 0 || status == 400);
    assert_int_equal(ask_raw("HEAD /health HTTP/1.1\r\nHost: localhost\r\n"
                             "Connection: close\r\n\r\n"),
                     200);
}

/* Heads beyond the limit, and bodies at it and beyond. */
static void test_sizes(void **state) {
    (void)state;
    char *name = malloc(100001);
    assert_non_null(name);
    memset(name, 'a', 100000);
    name[100000] = '\0';
    char *head = test_format("GET /health HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", name);
    int status = ask_raw(head);
    assert_true(status == 0 || (status >= 400 && status < 500));
    free(head);
    free(name);
    size_t limit = 10u << 20;
    char *body = malloc(limit + 2);
    assert_non_null(body);
    memset(body, ' ', limit + 1);
    body[limit] = '\0';
    memcpy(body, "{\"tokens\": []}", 14);
    answer a = client_ask(shared.server, "POST", "/detokenize", body);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    body[limit] = ' ';
    body[limit + 1] = '\0';
    client_refused(shared.server, "/detokenize", body, 413, "body_too_large", "");
    int fd = client_connect(shared.server); /* the same in chunks, whose sum is not told */
    client_print(fd, "POST /detokenize HTTP/1.1\r\nHost: localhost\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n");
    client_print(fd, "%zx\r\n", limit + 1);
    client_send(fd, body, limit + 1);
    client_print(fd, "\r\n0\r\n\r\n");
    a = client_read(fd);
    assert_int_equal(a.status, 413);
    answer_free(&a);
    close(fd);
    fd = client_connect(shared.server); /* one that does not end is ended */
    client_print(fd, "POST /detokenize HTTP/1.1\r\nHost: localhost\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 4; i++) {
        client_print(fd, "%zx\r\n", limit);
        client_send(fd, body, limit);
        client_print(fd, "\r\n");
    }
    a = client_read(fd);
    assert_int_equal(a.status, 0);
    answer_free(&a);
    close(fd);
    free(body);
}

/* The largest limit of all is no limit. */
static void test_no_limit(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_server_options options = {.max_body = (uint64_t)1 << 60};
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "a", shared.model, NULL), MICA_OK);
    char *body = test_format("{\"tokens\": []%300000s", "}");
    answer a = client_ask(server, "POST", "/detokenize", body);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    free(body);
    mica_server_close(&server);
}

static void keep_line(void *user, const char *line) {
    snprintf(user, 512, "%s", line);
}

/* What a client asks for cannot look like another line of the log. */
static void test_log(void **state) {
    (void)state;
    char line[512] = "", model[64] = "", id[64] = "", client[64] = "";
    int year = 0, status = 0;
    mica_server *server = NULL;
    mica_server_options options = {.log = keep_line, .log_user = line};
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    assert_int_equal(get(server, "/a%0d%0aGET%20/b%1b%7f%c2%9bx%zz"), 404);
    mica_server_close(&server);
    static const char start[] = "Z 127.0.0.1 GET /a%0D%0AGET /b%1B%7F%C2%9Bx%zz 404 ";
    if (!strstr(line, start)) fail_msg("%s", line);
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "a", shared.model, NULL), MICA_OK);
    answer a = client_ask_with(server, "X-Request-Id: trace-7\r\n", "POST", "/tokenize",
                               "{\"prompt\": \"a\"}");
    assert_int_equal(a.status, 200);
    answer_free(&a);
    mica_server_close(&server);
    int found = sscanf(line,
                       "%d-%*d-%*dT%*d:%*d:%*fZ %63s POST /tokenize %d %*f ms, 0 + 0 tokens, "
                       "model %63[^,], %63s",
                       &year, client, &status, model, id);
    if (found != 5 || year < 2025) fail_msg("%d %s", found, line);
    assert_string_equal(client, "127.0.0.1");
    assert_int_equal(status, 200);
    assert_string_equal(model, "a");
    assert_string_equal(id, "trace-7");
}

/* ---- how it is talked to ---- */

/* A request that arrives byte by byte, and two that arrive at once. */
static void test_pieces(void **state) {
    (void)state;
    static const char request[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 15\r\n\r\n{\"prompt\": \"a\"}";
    int fd = client_connect(shared.server);
    for (size_t i = 0; i < sizeof request - 1; i++)
        client_send(fd, request + i, 1);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    assert_false(a.closes);
    client_send(fd, request, sizeof request - 1); /* the connection is kept */
    answer b = client_read(fd);
    assert_int_equal(b.status, 200);
    assert_string_equal(a.body, b.body);
    client_print(fd, "%s%sGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", request, request);
    for (int i = 0; i < 2; i++) {
        answer_free(&b);
        b = client_read(fd);
        assert_string_equal(a.body, b.body);
    }
    answer_free(&b);
    b = client_read(fd);
    assert_string_equal(b.body, "{\"status\":\"ok\"}");
    answer_free(&a);
    answer_free(&b);
    close(fd);
}

/* A client that says that it has said all gets its answer. */
/* A long head in pieces of all sizes is taken as it is. */
static void test_long_head(void **state) {
    (void)state;
    char *head = test_format("GET /health HTTP/1.1\r\nHost: localhost\r\nEmpty:\r\nBlank: \r\n");
    for (int i = 0; i < 60; i++) {
        char *more = test_format("%sName-%d: %0*d\r\n", head, i, 1 + i * 8, i);
        free(head);
        head = more;
    }
    size_t n = strlen(head);
    assert_true(n > 14000);
    for (size_t piece = 1; piece < n; piece = piece * 3 + 1) {
        int fd = client_connect(shared.server);
        for (size_t i = 0; i < n; i += piece) {
            client_send(fd, head + i, n - i < piece ? n - i : piece);
            if (piece > 100) poll(NULL, 0, 1);
        }
        client_send(fd, "\r\n", 2);
        answer a = client_read(fd);
        assert_int_equal(a.status, 200);
        answer_free(&a);
        close(fd);
    }
    free(head);
}

static void test_half_closed(void **state) {
    (void)state;
    static const char request[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 15\r\n\r\n{\"prompt\": \"a\"}";
    int fd = client_connect(shared.server);
    client_send(fd, request, sizeof request - 1);
    shutdown(fd, SHUT_WR);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
}

/* Clients that leave in the middle of a request leave nothing behind. */
static void test_aborted(void **state) {
    (void)state;
    static const char request[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 15\r\n\r\n{\"prompt\": \"a\"}";
    size_t files = client_files();
    for (size_t n = 0; n < sizeof request; n++) {
        int fd = client_connect(shared.server);
        client_send(fd, request, n);
        close(fd);
    }
    assert_true(client_files_back(files));
    assert_int_equal(get(shared.server, "/health"), 200);
}

/* A connection whose request does not come is closed, and others are served meanwhile. */
static void test_slow(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_server_options options = {.request_seconds = 1};
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = client_connect(server);
        client_print(fds[i], "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n");
        if (i & 1) client_print(fds[i], "\r\n{\"pro");
    }
    assert_int_equal(get(server, "/health"), 503);
    for (int i = 0; i < 8; i++) {
        answer a = client_read(fds[i]);
        assert_true(a.status == 0 || a.status == 408);
        answer_free(&a);
        close(fds[i]);
    }
    mica_server_close(&server);
}

/* ---- who may ask ---- */

static void test_keys(void **state) {
    (void)state;
    mica_server_options options = {.api_keys = (const char *const[]){"sesame"}, .api_key_count = 1};
    served guarded = served_open(&options);
    static const char body[] = "{\"prompt\": \"a\"}";
    client_refused(guarded.server, "/tokenize", body, 401, "invalid_api_key", "");
    client_refused(guarded.server, "/nowhere", body, 401, "invalid_api_key", "");
    assert_int_equal(get(guarded.server, "/v1/models"), 401);
    assert_int_equal(get(guarded.server, "/health"), 200);
    int fd = client_connect(guarded.server);
    client_print(fd, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sesame\r\n\r\n");
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    client_print(fd, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sesam\r\n\r\n");
    a = client_read(fd);
    assert_int_equal(a.status, 401);
    assert_non_null(strstr(a.head, "WWW-Authenticate: Bearer"));
    answer_free(&a);
    /* Anthropic's clients understand Anthropic's errors, at paths of both APIs too. */
    static const char *const paths[] = {"/v1/models/nothing", "/v1/nowhere", "/v1/models?colour=1"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *ask = test_format("GET %s HTTP/1.1\r\nHost: x\r\nx-api-key: sesame\r\n"
                                "Anthropic-Version: 2023-06-01\r\n\r\n",
                                paths[i]);
        client_print(fd, "%s", ask);
        a = client_read(fd);
        assert_true(a.status == 404 || a.status == 400);
        assert_int_equal(strncmp(a.body, "{\"type\":\"error\"", 15), 0);
        answer_free(&a);
        free(ask);
    }
    close(fd);
    served_close(&guarded);
}

static void test_origins(void **state) {
    (void)state;
    mica_server_options options = {.origins = (const char *const[]){"https://app.example"},
                                   .origin_count = 1};
    served open = served_open(&options);
    int fd = client_connect(open.server);
    client_print(fd, "OPTIONS /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                     "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
                     "Access-Control-Request-Headers: content-type, x-test\r\n\r\n");
    answer a = client_read(fd);
    assert_int_equal(a.status, 204);
    assert_non_null(strstr(a.head, "Access-Control-Allow-Origin: https://app.example\r\n"));
    assert_non_null(strstr(a.head, "Access-Control-Allow-Headers: content-type, x-test\r\n"));
    answer_free(&a);
    client_print(fd, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                     "Origin: https://app.example\r\n\r\n");
    a = client_read(fd);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Access-Control-Allow-Origin: https://app.example\r\n"));
    answer_free(&a);
    client_print(fd, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                     "Origin: https://other.example\r\n\r\n");
    a = client_read(fd);
    assert_int_equal(a.status, 403);
    assert_null(strstr(a.head, "Access-Control-Allow-Origin"));
    answer_free(&a);
    close(fd);
    served_close(&open);
    static const char *const fetches[] = {"/tokenizer_info?model=other", "/v1/models", "/health",
                                          "/"};
    for (size_t i = 0; i < 4; i++) { /* <img src=...> on a page of another site */
        char *ask = test_format("GET %s HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: "
                                "cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n",
                                fetches[i]);
        assert_int_equal(ask_raw(ask), i < 2 ? 403 : 200);
        free(ask);
    }
    assert_int_equal(ask_raw("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                             "Sec-Fetch-Site: same-origin\r\n\r\n"),
                     200);
    assert_int_equal(ask_raw("OPTIONS /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                             "Origin: https://app.example\r\n\r\n"),
                     403);
}

static void test_addresses(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_server_options options = {.host = "0.0.0.0"};
    assert_int_equal(mica_server_open(&options, &server), MICA_EINVAL);
    assert_null(server);
    options.insecure = true;
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    mica_server_close(&server);
    options = (mica_server_options){.host = "localhost"};
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    assert_memory_equal(mica_server_address(server), "http://127.0.0.1:", 17);
    int port = atoi(mica_server_address(server) + 17);
    mica_server *other = NULL;
    options.port = port;
    assert_int_equal(mica_server_open(&options, &other), MICA_EIO); /* it is in use */
    mica_server_close(&server);
    options = (mica_server_options){.port = 65536};
    assert_int_equal(mica_server_open(&options, &server), MICA_EINVAL);
    options = (mica_server_options){.host = "no.such.host.invalid"};
    assert_int_equal(mica_server_open(&options, &server), MICA_EINVAL);
    options = (mica_server_options){.certificate = "a.pem"};
    assert_int_equal(mica_server_open(&options, &server), MICA_EINVAL);
    options.certificate_key = "b.pem";
    bool tls = mc_mhd.is_feature_supported(MHD_FEATURE_TLS) == MHD_YES; /* not on Windows */
    assert_int_equal(mica_server_open(&options, &server), tls ? MICA_ENOENT : MICA_EUNSUPPORTED);
    char *dir = test_temp_dir(), *empty = test_format("%s/empty.pem", dir);
    test_write_file(empty, "", 0);
    options.certificate = options.certificate_key = empty; /* no TLS is not plain HTTP */
    assert_int_equal(mica_server_open(&options, &server), tls ? MICA_EFORMAT : MICA_EUNSUPPORTED);
    assert_null(server);
    options.certificate = "";
    assert_int_equal(mica_server_open(&options, &server), MICA_EINVAL);
    free(empty);
    test_temp_dir_remove(dir);
    assert_int_equal(mica_server_open(NULL, NULL), MICA_EINVAL);
}

static void test_unix(void **state) {
    (void)state;
    if (!test_has_socket_files()) skip();
    char *dir = test_temp_dir(), *host = test_format("unix:%s/socket", dir);
    mica_server_options options = {.host = host};
    served file = served_open(&options);
    struct stat info;
    assert_string_equal(mica_server_address(file.server), host);
    assert_int_equal(stat(host + 5, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(get(file.server, "/v1/models"), 200);
    mica_server *other = NULL;
    assert_int_equal(mica_server_open(&options, &other), MICA_EIO); /* it is in use */
    served_close(&file);
    assert_int_not_equal(stat(host + 5, &info), 0);
    test_temp_dir_remove(dir);
    free(host);
}

/* ---- its end ---- */

static void *run(void *context) {
    mica_status *status = context;
    *status = mica_server_run(shared.server);
    return NULL;
}

/* A stopped server answers /health and refuses work; connections that are open are no hindrance. */
static void test_stop(void **state) {
    (void)state;
    mica_status status = MICA_EINTERNAL;
    pthread_t thread;
    int idle = client_connect(shared.server);
    assert_int_equal(pthread_create(&thread, NULL, run, &status), 0);
    mica_server_stop(shared.server);
    pthread_join(thread, NULL);
    assert_int_equal(status, MICA_OK);
    assert_int_equal(get(shared.server, "/health"), 503);
    client_refused(shared.server, "/tokenize", "{\"prompt\": \"a\"}", 503, "draining", "");
    close(idle);
    mica_server_stop(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health),    cmocka_unit_test(test_models),
        cmocka_unit_test(test_tokens),    cmocka_unit_test(test_tokenizer_info),
        cmocka_unit_test(test_bodies),    cmocka_unit_test(test_framing),
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_log),       cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_long_head), cmocka_unit_test(test_half_closed),
        cmocka_unit_test(test_aborted),   cmocka_unit_test(test_slow),
        cmocka_unit_test(test_keys),      cmocka_unit_test(test_origins),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_unix),
        cmocka_unit_test(test_stop), /* last: it stops the server */
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}

/* What is said to a client that speaks HTTP badly, or hardly: one answer, in JSON, with an id. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include "io/deflate.h"
#include "support/system.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GET "GET /health HTTP/1.1\r\n"
#define POST "POST /tokenize HTTP/1.1\r\n"
#define HOST "Host: localhost\r\n"
#define CHUNKED POST HOST "Transfer-Encoding: chunked\r\n\r\n"
#define BODY "{\"prompt\": \"a\"}"
#define BYTES(text) text, sizeof(text) - 1

typedef struct wrong {
    const char *bytes;
    size_t n;
    int status;
    const char *says; /* in the body; NULL: it is not read, the answer is of HEAD */
} wrong;

static const wrong requests[] = {
    {BYTES(GET "\r\n"), 400, "no Host"},
    {BYTES(GET HOST HOST "\r\n"), 400, "more than one Host"},
    {BYTES(POST HOST "Content-Length: 2x\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length: -2\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length: +2\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length: 2, 2\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length:\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length: 99999999999999999999\r\n\r\n"), 413, "body_too_large"},
    {BYTES(POST HOST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), 400, "invalid_length"},
    {BYTES(POST HOST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "both"},
    {BYTES(POST HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"), 400, "invalid_encoding"},
    {BYTES("POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
     "invalid_encoding"},
    {BYTES(CHUNKED "zz\r\n"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "-1\r\n"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "2 x\r\n{}"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "2\n{}\n"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "2\r\n{}x0\r\n\r\n"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "2;a=\0\r\n{}"), 400, "invalid_chunk"},
    {BYTES(CHUNKED "ffffffffffffffff\r\n"), 413, "body_too_large"},
    {BYTES("GET /he\0alth HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("GET /a b HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("GET  /health HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("GET health HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("GET http://a@b/health HTTP/1.1\r\n" HOST "\r\n"), 400, "invalid_target"},
    {BYTES("GET http://evil.example/v1/models HTTP/1.1\r\n" HOST "\r\n"), 403, "invalid_host"},
    {BYTES("GET /health HTTP/1.1\n"), 400, "CR LF"}, /* at once, before the head ends */
    {BYTES(GET "Host: localhost\nX: y\r\n\r\n"), 400, "CR LF"},
    {BYTES(GET "Host: localhost\rX: y\r\n\r\n"), 400, "CR LF"},
    {BYTES(GET HOST "X: a\r\n b\r\n\r\n"), 400, "obsolete"},
    {BYTES(GET HOST "X: a\0b\r\n"), 400, "invalid_header"},
    {BYTES(GET HOST "nonsense\r\n\r\n"), 400, "invalid_header"},
    {BYTES(GET HOST "X : y\r\n\r\n"), 400, "invalid_header"},
    {BYTES(GET HOST ": y\r\n\r\n"), 400, "invalid_header"},
    {BYTES("GET /health\r\n"), 400, "invalid_request"},
    {BYTES("GET /health HTTQ/1.1\r\n"), 400, "invalid_request"},
    {BYTES("\x01\xff\x02"), 400, "invalid_request"},
    {BYTES("\x16\x03\x01\x02"), 400, "TLS"},
    {BYTES("GET /health HTTP/2.0\r\n"), 505, "invalid_version"},
    {BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, "invalid_version"},
    {BYTES(POST HOST "Content-Length: 2\r\nExpect: magic\r\n\r\n{}"), 417, "invalid_expect"},
    {BYTES("BREW /pot HTTP/1.1\r\n" HOST "\r\n"), 501, "method_not_known"},
    {BYTES("BREW /health HTTP/1.1\r\n" HOST "\r\n"), 405, "this is not a method of /health"},
    {BYTES("get /health HTTP/1.1\r\n" HOST "\r\n"), 405, "method_not_allowed"},
    {BYTES("PATCH /v1/models HTTP/1.1\r\n" HOST "\r\n"), 405, "PATCH is not a method"},
    {BYTES(POST HOST "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"), 415,
     "unsupported_encoding"},
    {BYTES(POST HOST "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"), 400, "broken"},
    {BYTES("HEAD /nothing HTTP/1.1\r\n" HOST "\r\n"), 404, NULL},
};

static void check_head(const answer *a, const char *what) {
    const char *id = strstr(a->head, "\r\nX-Request-Id: req_");
    if (!id) fail_msg("%s: %s", what, a->head);
    if (!strstr(a->head, "\r\nContent-Type: application/json\r\n")) fail_msg("%s", a->head);
}

static void test_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const wrong *w = &requests[i];
        int fd = client_connect(shared.server);
        client_send(fd, w->bytes, w->n);
        answer a = {0};
        if (w->says) {
            a = client_read(fd);
            if (a.status != w->status || a.body[0] != '{' || !strstr(a.body, w->says))
                fail_msg("%zu: %d %s", i, a.status, a.body);
            check_head(&a, w->bytes);
        } else {
            char text[1024];
            ssize_t n = recv(fd, text, sizeof text - 1, 0);
            assert_true(n > 0);
            text[n] = '\0';
            assert_int_equal(atoi(text + 9), w->status);
        }
        shutdown(fd, SHUT_WR);
        char more[64]; /* nothing follows */
        if (w->says) assert_int_equal(recv(fd, more, sizeof more, 0), 0);
        answer_free(&a);
        close(fd);
    }
}

/* Sends begin, n times a text, end; checks the status of the answer. */
static void check_long(const char *begin, size_t n, const char *text, const char *end, int status) {
    int fd = client_connect(shared.server);
    client_send(fd, begin, strlen(begin));
    for (size_t i = 0; i < n; i++)
        client_send(fd, text, strlen(text));
    client_send(fd, end, strlen(end));
    answer a = client_read(fd);
    if (a.status != status) fail_msg("%.40s: %d %s", begin, a.status, a.body);
    if (status != 200) check_head(&a, begin);
    answer_free(&a);
    close(fd);
}

static void test_long(void **state) {
    (void)state;
    check_long("GET /", 100000, "a", " HTTP/1.1\r\n" HOST "\r\n", 414);
    check_long("GET /", 8000, "a", " HTTP/1.1\r\n" HOST "\r\n", 404);
    check_long("GET /v1/models?", 3500, "a&", " HTTP/1.1\r\n" HOST "\r\n", 414);
    check_long(GET HOST "Cookie: ", 5500, "a=b;", "\r\n\r\n", 200);
    check_long(GET HOST "X: ", 100000, "a", "\r\n\r\n", 431);
    check_long(GET HOST "X: ", 20000, "a", "\r\n\r\n", 200);
    check_long(GET HOST, 200, "X: y\r\n", "\r\n", 431);
    check_long(GET HOST, 120, "X: y\r\n", "\r\n", 200);
    check_long(CHUNKED "f;", 60000, "a", "\r\n" BODY "\r\n0\r\n\r\n", 400);
    check_long(CHUNKED "f;", 4000, "a", "\r\n" BODY "\r\n0\r\n\r\n", 200);
    check_long(CHUNKED "f\r\n" BODY "\r\n0\r\n", 20000, "X: y\r\n", "\r\n", 431);
    check_long(CHUNKED "f\r\n" BODY "\r\n0\r\n", 20, "X: y\r\n", "\r\n", 200);
}

/* What is unusual, and right. */
static void test_right(void **state) {
    (void)state;
    static const char *const asks[] = {
        "GET http://localhost/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET HTTPS://127.0.0.1:99/health?  HTTP/1.1\r\n" HOST "\r\n",
        "GET /health HTTP/1.0\r\n\r\n",
        "GET /health HTTP/1.9\r\n" HOST "\r\n",
        "\r\n\r\n" GET HOST "\r\n",
        GET HOST "mica-refused: 1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        POST HOST "Content-Length: 15\r\nExpect: 100-Continue\r\n\r\n" BODY,
        POST HOST "Content-Length:  15 \t\r\n\r\n" BODY,
        POST HOST "Transfer-Encoding:\tchunked \r\n\r\nf\r\n" BODY "\r\n0\r\n\r\n",
        CHUNKED "1;a=b\r\n{\r\n00E\r\n\"prompt\": \"a\"}\r\n0\r\nMica-Refused: 1\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        int fd = client_connect(shared.server);
        client_send(fd, asks[i], strlen(asks[i]));
        answer a = client_read(fd);
        if (a.status == 100) {
            answer_free(&a);
            a = client_read(fd);
        }
        if (a.status != (i == 1 ? 400 : 200)) fail_msg("%s: %d %s", asks[i], a.status, a.body);
        answer_free(&a);
        close(fd);
    }
    static const struct {
        const char *path, *allow;
    } options[] = {{"/v1/models", "\r\nAllow: GET, OPTIONS\r\n"},
                   {"*", "\r\nAllow: GET, POST, DELETE, OPTIONS\r\n"}};
    for (size_t i = 0; i < 2; i++) {
        answer a = client_ask(shared.server, "OPTIONS", options[i].path, NULL);
        assert_int_equal(a.status, 204);
        assert_non_null(strstr(a.head, options[i].allow));
        answer_free(&a);
    }
}

/* A bad request behind good ones leaves these their answers. */
static void test_pipelined(void **state) {
    (void)state;
    static const char asks[] =
        POST HOST "Content-Length: 15\r\n\r\n" BODY GET HOST "\r\n" GET "\r\n" GET HOST "\r\n";
    static const int statuses[] = {200, 200, 400, 0};
    int fd = client_connect(shared.server);
    client_send(fd, asks, sizeof asks - 1);
    for (size_t i = 0; i < 4; i++) {
        answer a = client_read(fd);
        assert_int_equal(a.status, statuses[i]);
        answer_free(&a);
    }
    close(fd);
}

/* ---- limits ---- */

/* Asks on a connection of its own, which stays open. returns it */
static int ask_and_stay(const mica_server *server, int status) {
    int fd = client_connect(server);
    client_send(fd, GET HOST "\r\n", sizeof(GET HOST "\r\n") - 1);
    answer a = client_read(fd);
    assert_int_equal(a.status, status);
    answer_free(&a);
    return fd;
}

/* Where there may be two connections, two come as soon as two have gone. */
static void test_full(void **state) {
    (void)state;
    served s =
        served_open(&(mica_server_options){.max_connections = 2, .max_connections_per_host = 2});
    for (int i = 0; i < 300; i++) {
        int fds[2] = {ask_and_stay(s.server, 200), ask_and_stay(s.server, 200)};
        close(fds[0]);
        close(fds[1]);
    }
    served_close(&s);
}

/* A connection takes three descriptors; half of those that there may be are for one address. */
static void test_descriptors(void **state) {
    (void)state;
    if (!test_limit_files(128 + 3 * 10)) skip();
    served s = served_open(NULL);
    int fds[6];
    for (int i = 0; i < 6; i++)
        fds[i] = ask_and_stay(s.server, i < 5 ? 200 : 0);
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    served_close(&s);
    test_limit_files(0);
}

/* ---- ids ---- */

static void test_ids(void **state) {
    (void)state;
    answer a = client_ask_with(shared.server, "x-request-id: my.id-1\r\n", "GET", "/health", NULL);
    assert_non_null(strstr(a.head, "\r\nX-Request-Id: my.id-1\r\n"));
    answer_free(&a);
    a = client_ask_with(shared.server, "x-request-id: \"<no>\"\r\n", "GET", "/health", NULL);
    check_head(&a, "not sane");
    answer_free(&a);
    for (int i = 0; i < 2; i++) { /* an error, and an answer */
        a = client_ask_with(shared.server, "anthropic-version: 2023-06-01\r\n", "POST",
                            "/v1/messages",
                            i ? "{\"model\": \"default\", \"max_tokens\": 1, \"messages\": "
                                "[{\"role\": \"user\", \"content\": \"a\"}]}"
                              : "{}");
        const char *id = strstr(a.head, "\r\nRequest-Id: "),
                   *again = strstr(a.head, "X-Request-Id: ");
        assert_true(id && again);
        size_t n = strcspn(id + 14, "\r");
        assert_memory_equal(id + 14, again + 14, n);
        char *named = test_format("\"request_id\":\"%.*s\"", (int)n, id + 14);
        assert_int_equal(strstr(a.body, named) != NULL, i == 0);
        free(named);
        answer_free(&a);
    }
}

/* ---- packed bodies ---- */

static mica_status keep(void *out, const void *bytes, size_t n) {
    return mc_buffer_add(out, bytes, n) ? MICA_OK : MICA_ENOMEM;
}

/* Deflate without a header, which some clients send. */
static mc_buffer pack(const char *text, size_t n) {
    mc_buffer out = {0};
    mc_deflater *d;
    assert_int_equal(mc_deflater_open(keep, &out, &d), MICA_OK);
    assert_int_equal(mc_deflater_add(d, text, n, true), MICA_OK);
    mc_deflater_close(&d);
    return out;
}

static answer ask_packed(const char *how, const char *bytes, size_t n) {
    int fd = client_connect(shared.server);
    client_print(fd, POST HOST "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n", how, n);
    client_send(fd, bytes, n);
    answer a = client_read(fd);
    close(fd);
    return a;
}

static void test_packed(void **state) {
    (void)state;
    mc_buffer packed = pack(BODY, sizeof BODY - 1), gzip = {0};
    assert_true(mc_buffer_add(&gzip, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10));
    assert_true(mc_buffer_add(&gzip, packed.data, packed.len));
    /* of BODY: its CRC-32 and length */
    uint32_t sum = UINT32_MAX;
    for (const char *c = BODY; *c; c++) {
        sum ^= (unsigned char)*c;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    const uint32_t end[2] = {~sum, sizeof BODY - 1}; /* little endian, as the machines are */
    assert_true(mc_buffer_add(&gzip, end, sizeof end));
    answer plain = client_ask(shared.server, "POST", "/tokenize", BODY);
    for (int i = 0; i < 2; i++) {
        answer a = i ? ask_packed("gzip", gzip.data, gzip.len)
                     : ask_packed("deflate", packed.data, packed.len);
        if (a.status != 200) fail_msg("%d %s", a.status, a.body);
        assert_string_equal(a.body, plain.body);
        answer_free(&a);
    }
    answer cut = ask_packed("gzip", gzip.data, gzip.len - 9);
    assert_int_equal(cut.status, 400);
    answer_free(&cut);
    answer_free(&plain);
    mc_buffer_deinit(&packed);
    mc_buffer_deinit(&gzip);
    size_t n = 64 << 20;
    char *bomb = calloc(1, n);
    assert_non_null(bomb);
    packed = pack(bomb, n);
    answer a = ask_packed("deflate", packed.data, packed.len);
    assert_int_equal(a.status, 413);
    assert_non_null(strstr(a.body, "unpacks to more than 10485760 bytes"));
    answer_free(&a);
    mc_buffer_deinit(&packed);
    free(bomb);
}

static void test_roles(void **state) {
    (void)state;
    static const struct {
        const char *path, *more, *list;
    } apis[] = {
        {"/v1/chat/completions", "", "messages"},
        {"/api/chat", "", "messages"},
        {"/v1/messages", "\"max_tokens\": 2, ", "messages"},
        {"/v1/responses", "", "input"},
    };
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        char *body = test_format("{\"model\": \"default\", %s\"%s\": [{\"role\": \"wizard\", "
                                 "\"content\": \"a\"}]}",
                                 apis[i].more, apis[i].list);
        char *want = test_format("%s[0].role: \\\"wizard\\\" is no role", apis[i].list);
        answer a = client_ask(shared.server, "POST", apis[i].path, body);
        assert_int_equal(a.status, 400);
        if (!strstr(a.body, want)) fail_msg("%s: %s", apis[i].path, a.body);
        answer_free(&a);
        free(want);
        free(body);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong),       cmocka_unit_test(test_long),
        cmocka_unit_test(test_right),       cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_ids),         cmocka_unit_test(test_packed),
        cmocka_unit_test(test_roles),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_descriptors),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}

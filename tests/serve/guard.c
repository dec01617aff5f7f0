/* What is checked of a request's head. */
#include "serve/http/guard.h"
#include "support/support.h"

#include <string.h>

static mc_guard guard;
static size_t key; /* of the head that was checked last */

/* headers: pairs of name and value, NULL at the end. Returns the HTTP status, 0: it may go on. */
static int check(bool open, const char *const *headers) {
    mc_head head = {0};
    mc_failure failure = {0};
    for (; *headers; headers += 2)
        mc_head_add(&head, headers[0], headers[1]);
    bool fine = mc_guard_check(&guard, &head, open, &key, &failure);
    assert_true(fine == (failure.status == 0));
    return failure.status;
}
#define CHECK(...) check(false, (const char *const[]){__VA_ARGS__, NULL})

static void open_guard(const mica_server_options *options, bool unix_socket) {
    assert_int_equal(mc_guard_open(&guard, options, unix_socket), MICA_OK);
}

static void test_hosts(void **state) {
    (void)state;
    mica_server_options options = {
        .host = "box.lan", .hosts = (const char *const[]){"api.example"}, .host_count = 1};
    open_guard(&options, false);
    static const char *const good[] = {"localhost",    "localhost:8080", "LOCALHOST",
                                       "127.0.0.1:80", "10.0.0.7:80",    "[::1]:8080",
                                       "[fe80::1]",    "box.lan",        "api.example:443"};
    static const char *const bad[] = {"evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil",
                                      "api.example.evil",
                                      "",
                                      "localhos",
                                      "1.2.3.4.",
                                      "a:1",
                                      ":80",
                                      "x://localhost",
                                      "localhost/",
                                      "localhost:80x",
                                      "[evil:com",
                                      "[::1]evil"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (CHECK("Host", good[i]) != 0) fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (CHECK("Host", bad[i]) != 403) fail_msg("%s", bad[i]);
    assert_int_equal(CHECK("X", "y"), 400);
    assert_int_equal(CHECK("Host", "localhost", "host", "localhost"), 400);
    mc_guard_close(&guard);
    open_guard(&options, true); /* nobody's page gets at a socket of the file system */
    assert_int_equal(CHECK("Host", "evil.example"), 0);
    mc_guard_close(&guard);
}

static void test_framing(void **state) {
    (void)state;
    open_guard(&(mica_server_options){0}, false);
    assert_int_equal(CHECK("Host", "localhost", "Content-Length", "3"), 0);
    assert_int_equal(CHECK("Host", "localhost", "Transfer-Encoding", "Chunked"), 0);
    assert_int_equal(
        CHECK("Host", "localhost", "Content-Length", "3", "Transfer-Encoding", "chunked"), 400);
    assert_int_equal(CHECK("Host", "localhost", "Content-Length", "3", "content-length", "3"), 400);
    assert_int_equal(CHECK("Host", "localhost", "Transfer-Encoding", "gzip, chunked"), 400);
    assert_int_equal(
        CHECK("Host", "localhost", "Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked"),
        400);
    assert_int_equal(CHECK("Host", "localhost", "X", "a\tb \xc3\xa4"), 0);
    assert_int_equal(CHECK("Host", "localhost", "Transfer-Encoding ", "chunked"), 400);
    assert_int_equal(CHECK("Host", "localhost", "", "a"), 400);
    assert_int_equal(CHECK("Host", "localhost", "X\xc3\xa4", "a"), 400);
    assert_int_equal(CHECK("Host", "localhost", "X", "a\nb"), 400);
    assert_int_equal(CHECK("Host", "localhost", "X", "\x7f"), 400);
    mc_guard_close(&guard);
}

static void test_origins(void **state) {
    (void)state;
    mica_server_options options = {.origins = (const char *const[]){"https://app.example"},
                                   .origin_count = 1};
    open_guard(&options, false);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "http://localhost:1"), 0);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "http://localhost:2"), 403);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "https://app.example"), 0);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "https://app.example.evil"), 403);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "null"), 403);
    static const char *const others[] = {"cross-site", "same-site", "Cross-Site"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) { /* an image has no Origin */
        assert_int_equal(CHECK("Host", "localhost", "Sec-Fetch-Site", others[i]), 403);
        assert_int_equal(CHECK("Host", "localhost", "Sec-Fetch-Site", others[i], "Origin",
                               "https://app.example"),
                         0);
        assert_int_equal(CHECK("Host", "localhost", "Sec-Fetch-Site", others[i], "Origin",
                               "https://other.example"),
                         403);
        assert_int_equal(check(true, (const char *const[]){"Host", "localhost", "sec-fetch-site",
                                                           others[i], NULL}),
                         0);
    }
    assert_int_equal(CHECK("Host", "localhost", "Sec-Fetch-Site", "same-origin"), 0);
    assert_int_equal(CHECK("Host", "localhost", "Sec-Fetch-Site", "none"), 0);
    assert_true(mc_guard_allows_origin(&guard, "https://app.example"));
    assert_false(mc_guard_allows_origin(&guard, "http://localhost:1"));
    mc_guard_close(&guard);
    options.origins = (const char *const[]){"*"};
    open_guard(&options, false);
    assert_int_equal(CHECK("Host", "localhost:1", "Origin", "null"), 0);
    assert_int_equal(CHECK("Host", "localhost:1", "Sec-Fetch-Site", "cross-site"), 0);
    mc_guard_close(&guard);
}

static void test_tags(void **state) {
    (void)state;
    static const char *const known[] = {"\"a\"", "W/\"a\"", "*", "\"b\", \"a\"",
                                        "\"b\",W/\"a\" ,\"c\""};
    static const char *const other[] = {"",   "a",  "\"b\"",      "\"a\"b",
                                        "\"", "W/", "\"b\\\"a\"", "b \"a"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(mc_head_knows(known[i], "\"a\""));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (mc_head_knows(other[i], "\"a\"")) fail_msg("%s", other[i]);
    assert_false(mc_head_knows(NULL, "\"a\""));
}

static void test_codings(void **state) {
    (void)state;
    static const char *const taken[] = {"gzip",
                                        "GZIP",
                                        "x-gzip",
                                        "deflate, gzip, br",
                                        "br;q=1.0, gzip;q=0.8, *;q=0.1",
                                        "gzip;q=0.01",
                                        "gzip ; q=0.001",
                                        "*",
                                        "identity, *;q=0.5",
                                        "*;q=0,gzip",
                                        ",gzip",
                                        "gzip,"};
    static const char *const other[] = {"",
                                        "identity",
                                        "br, deflate",
                                        "gzip;q=0",
                                        "gzip;q=0.",
                                        "gzip; Q=0.0",
                                        "gzip ;q=0.000",
                                        "*;q=0",
                                        "*, gzip;q=0",
                                        "gzippo",
                                        "agzip",
                                        "x;gzip"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!mc_head_takes_gzip(taken[i])) fail_msg("%s", taken[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (mc_head_takes_gzip(other[i])) fail_msg("%s", other[i]);
    assert_false(mc_head_takes_gzip(NULL));
}

static void test_keys(void **state) {
    (void)state;
    mica_server_options options = {.api_keys = (const char *const[]){"sesame", "other-key"},
                                   .api_key_count = 2};
    open_guard(&options, false);
    assert_int_equal(CHECK("Host", "any.example"), 401);
    assert_int_equal(key, 0);
    assert_int_equal(CHECK("Host", "any.example", "Authorization", "Bearer sesame"), 0);
    assert_int_equal(key, 1);
    assert_int_equal(CHECK("Host", "any.example", "Authorization", "bearer other-key"), 0);
    assert_int_equal(key, 2);
    assert_int_equal(CHECK("Host", "any.example", "X-Api-Key", "sesame"), 0);
    static const char *const bad[] = {
        "Bearer sesam",       "Bearer sesames", "Bearer ", "sesame",         "Basic sesame",
        "Bearer Sesame",      "Bearer",         "",        "Bearer sesame ", "Bearer  sesame",
        "Bearer sesamesesame"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (CHECK("Host", "any.example", "Authorization", bad[i]) != 401) fail_msg("%s", bad[i]);
    assert_int_equal(check(true, (const char *const[]){"Host", "any.example", NULL}), 0);
    mc_guard_close(&guard);
    options.api_keys = (const char *const[]){"sesame", ""};
    assert_int_equal(mc_guard_open(&guard, &options, false), MICA_EINVAL);
    mc_guard_close(&guard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),   cmocka_unit_test(test_framing),
        cmocka_unit_test(test_origins), cmocka_unit_test(test_tags),
        cmocka_unit_test(test_codings), cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

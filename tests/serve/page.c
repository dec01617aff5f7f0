/* The page at "/": whole, with its policy, without a key. */
#include "serve/page.h"

#include "client.h"

#include <stdlib.h>
#include <string.h>

static void expect_header(const answer *a, const char *name, const char *value) {
    char *line = test_format("\r\n%s: %s\r\n", name, value);
    if (!strstr(a->head, line)) fail_msg("no header%sin%s", line, a->head);
    free(line);
}

static void test_page(void **state) {
    (void)state;
    const mica_server_options options = {.api_keys = (const char *[]){"secret"},
                                         .api_key_count = 1};
    served s = served_open(&options);
    answer a = client_ask(s.server, "GET", "/", NULL);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, mc_page_bytes);
    assert_memory_equal(a.body, mc_page, mc_page_bytes);
    expect_header(&a, "Content-Type", "text/html; charset=utf-8");
    expect_header(&a, "Content-Security-Policy", mc_page_policy);
    expect_header(&a, "ETag", mc_page_etag);
    expect_header(&a, "X-Content-Type-Options", "nosniff");
    answer_free(&a);
    /* A browser that has it gets nothing but that. */
    char *known = test_format("If-None-Match: \"other\", %s\r\n", mc_page_etag);
    static const char *const methods[] = {"GET", "HEAD"};
    for (size_t i = 0; i < 2; i++) {
        a = client_ask_with(s.server, known, methods[i], "/", NULL);
        assert_int_equal(a.status, 304);
        assert_int_equal(a.len, 0);
        expect_header(&a, "ETag", mc_page_etag);
        answer_free(&a);
    }
    free(known);
    a = client_ask_with(s.server, "If-None-Match: \"other\"\r\n", "GET", "/", NULL);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, mc_page_bytes);
    answer_free(&a);
    a = client_ask(s.server, "GET", "/v1/models", NULL); /* the rest wants the key */
    assert_int_equal(a.status, 401);
    answer_free(&a);
    a = client_ask(s.server, "GET", "/index.html", NULL);
    assert_int_equal(a.status, 401);
    answer_free(&a);
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

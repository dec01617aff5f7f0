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

/* The page as it is, from the committed file. */
static char *page_file(size_t *bytes) {
    return test_read_file("web/dist/index.html", bytes);
}

static void expect_page(const answer *a, bool packed) {
    size_t bytes;
    char *file = page_file(&bytes);
    assert_int_equal(a->status, 200);
    if (packed) {
        assert_int_equal(a->len, mc_page_bytes);
        assert_memory_equal(a->body, mc_page, mc_page_bytes);
        expect_header(a, "Content-Encoding", "gzip");
    } else {
        assert_int_equal(a->len, bytes);
        assert_memory_equal(a->body, file, bytes);
        assert_null(strstr(a->head, "Content-Encoding"));
    }
    expect_header(a, "ETag", packed ? mc_page_gzip_etag : mc_page_etag);
    expect_header(a, "Vary", "Accept-Encoding");
    free(file);
}

static served open_with_key(void) {
    const mica_server_options options = {.api_keys = (const char *[]){"secret"},
                                         .api_key_count = 1};
    return served_open(&options);
}

static void test_page(void **state) {
    (void)state;
    served s = open_with_key();
    answer a = client_ask(s.server, "GET", "/", NULL);
    expect_page(&a, false);
    expect_header(&a, "Content-Type", "text/html; charset=utf-8");
    expect_header(&a, "Content-Security-Policy", mc_page_policy);
    expect_header(&a, "X-Content-Type-Options", "nosniff");
    answer_free(&a);
    a = client_ask(s.server, "GET", "/v1/models", NULL); /* the rest wants the key */
    assert_int_equal(a.status, 401);
    answer_free(&a);
    a = client_ask(s.server, "GET", "/index.html", NULL);
    assert_int_equal(a.status, 401);
    answer_free(&a);
    served_close(&s);
}

/* Compressed for who takes that, and each form has an ETag of its own. */
static void test_compressed(void **state) {
    (void)state;
    served s = open_with_key();
    bool packed = mc_page_plain_bytes > 0; /* the build has zlib */
    answer a =
        client_ask_with(s.server, "Accept-Encoding: gzip, deflate, br\r\n", "GET", "/", NULL);
    expect_page(&a, packed);
    expect_header(&a, "Content-Type", "text/html; charset=utf-8");
    answer_free(&a);
    a = client_ask_with(s.server, "Accept-Encoding: gzip;q=0, br\r\n", "GET", "/", NULL);
    expect_page(&a, false);
    answer_free(&a);
    served_close(&s);
}

/* A browser that has it gets nothing but that. */
static void test_known(void **state) {
    (void)state;
    served s = open_with_key();
    bool packed = mc_page_plain_bytes > 0;
    static const char *const methods[] = {"GET", "HEAD"};
    for (size_t i = 0; i < 4; i++) {
        const char *codings = i < 2 ? "" : "Accept-Encoding: gzip\r\n";
        const char *etag = i < 2 || !packed ? mc_page_etag : mc_page_gzip_etag;
        char *known = test_format("%sIf-None-Match: \"other\", %s\r\n", codings, etag);
        answer a = client_ask_with(s.server, known, methods[i % 2], "/", NULL);
        assert_int_equal(a.status, 304);
        assert_int_equal(a.len, 0);
        expect_header(&a, "ETag", etag);
        expect_header(&a, "Vary", "Accept-Encoding");
        answer_free(&a);
        free(known);
    }
    answer a = client_ask_with(s.server, "If-None-Match: \"other\"\r\n", "GET", "/", NULL);
    expect_page(&a, false);
    answer_free(&a);
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The page in the library: the committed file, with the policy that the file names itself. */
#include "support/support.h"

#include "serve/page.h"

#include <stdlib.h>
#include <string.h>

/* gzip's header has no name and no time, so that builds are equal; its end has the length. */
static void test_bytes(void **state) {
    (void)state;
    size_t bytes;
    char *file = test_read_file("web/dist/index.html", &bytes);
    if (mc_page_plain_bytes == 0) { /* a build without zlib */
        assert_int_equal(bytes, mc_page_bytes);
        assert_memory_equal(file, mc_page, bytes);
    } else {
        static const unsigned char head[MC_PAGE_HEAD] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff};
        const unsigned char *tail = mc_page + mc_page_bytes - MC_PAGE_TAIL;
        size_t length = tail[4] | (size_t)tail[5] << 8 | (size_t)tail[6] << 16;
        assert_memory_equal(mc_page, head, sizeof head);
        assert_int_equal(length, bytes);
        assert_int_equal(mc_page_plain_bytes, bytes);
        assert_true(mc_page_bytes < bytes / 2);
    }
    free(file);
}

/* Nothing but what the hashes name may run, and nothing be fetched from elsewhere. */
static void test_policy(void **state) {
    (void)state;
    static const char first[] = "default-src 'none'; script-src 'sha256-";
    static const char last[] = "; frame-ancestors 'none'";
    size_t length = strlen(mc_page_policy);
    assert_true(length > sizeof first + sizeof last);
    assert_memory_equal(mc_page_policy, first, sizeof first - 1);
    assert_string_equal(mc_page_policy + length - (sizeof last - 1), last);
    assert_null(strstr(mc_page_policy, "unsafe"));
    assert_null(strchr(mc_page_policy, '*'));

    char *file = test_read_file("web/dist/index.html", NULL);
    char *named = strstr(file, "\"Content-Security-Policy\" content=\"");
    assert_non_null(named);
    named = strchr(named, '=') + 2;
    assert_memory_equal(named, mc_page_policy, length - (sizeof last - 1));
    assert_int_equal(named[length - (sizeof last - 1)], '"');
    free(file);
}

static void test_etag(void **state) {
    (void)state;
    size_t length = strlen(mc_page_etag);
    assert_int_equal(length, 34);
    assert_int_equal(mc_page_etag[0], '"');
    assert_int_equal(mc_page_etag[33], '"');
    assert_int_equal(strspn(mc_page_etag + 1, "0123456789abcdef"), 32);
    assert_memory_equal(mc_page_gzip_etag, mc_page_etag, 33);
    assert_string_equal(mc_page_gzip_etag + 33, "-gzip\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_etag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Base64 against RFC 4648's examples; every length there and back; texts that are none. */
#include "base/base64.h"
#include "support/support.h"

#include <string.h>

static void check(const char *bytes, const char *text) {
    mc_buffer out = {0}, back = {0};
    assert_true(mc_base64_encode(bytes, strlen(bytes), &out));
    assert_true(mc_str_is((mc_str){out.data, out.len}, text));
    assert_int_equal(mc_base64_decode(mc_str_of(text), &back), MICA_OK);
    assert_true(mc_str_is((mc_str){back.data, back.len}, bytes));
    mc_buffer_deinit(&out);
    mc_buffer_deinit(&back);
}

static void test_examples(void **state) {
    (void)state;
    check("", "");
    check("f", "Zg==");
    check("fo", "Zm8=");
    check("foo", "Zm9v");
    check("foob", "Zm9vYg==");
    check("fooba", "Zm9vYmE=");
    check("foobar", "Zm9vYmFy");
    check("\xFB\xEF\xFF", "++//");
}

static void test_every_byte(void **state) {
    (void)state;
    char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t n = 0; n <= sizeof bytes; n++) {
        mc_buffer out = {0}, back = {0};
        assert_true(mc_base64_encode(bytes, n, &out));
        assert_int_equal(out.len, (n + 2) / 3 * 4);
        assert_int_equal(mc_base64_decode((mc_str){out.data, out.len}, &back), MICA_OK);
        assert_int_equal(back.len, n);
        assert_memory_equal(back.data, bytes, n);
        mc_buffer_deinit(&out);
        mc_buffer_deinit(&back);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zm 9vYg=", "Zg==Zg==", "Zm-_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mc_buffer out = {0};
        assert_int_equal(mc_base64_decode(mc_str_of(bad[i]), &out), MICA_EFORMAT);
        mc_buffer_deinit(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

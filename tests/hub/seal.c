/* Seals: a test case of the mode's authors, and what opens none. */
#include "hub/seal.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* McGrew and Viega, The Galois/Counter Mode of Operation, test case 16: key, nonce, what is only
 * authenticated, plaintext; then nonce, ciphertext and tag in base64. */
static const char key[] = "\xfe\xff\xe9\x92\x86\x65\x73\x1c\x6d\x6a\x8f\x94\x67\x30\x83\x08\xfe\xff"
                          "\xe9\x92\x86\x65\x73\x1c\x6d\x6a\x8f\x94\x67\x30\x83\x08";
static const char nonce[] = "\xca\xfe\xba\xbe\xfa\xce\xdb\xad\xde\xca\xf8\x88";
static const char owner_bytes[] =
    "\xfe\xed\xfa\xce\xde\xad\xbe\xef\xfe\xed\xfa\xce\xde\xad\xbe\xef\xab\xad\xda\xd2";
static const char text_bytes[] =
    "\xd9\x31\x32\x25\xf8\x84\x06\xe5\xa5\x59\x09\xc5\xaf\xf5\x26\x9a\x86\xa7\xa9\x53\x15\x34\xf7"
    "\xda\x2e\x4c\x30\x3d\x8a\x31\x8a\x72\x1c\x3c\x0c\x95\x95\x68\x09\x53\x2f\xcf\x0e\x24\x49\xa6"
    "\xb5\x25\xb1\x6a\xed\xf5\xaa\x0d\xe6\x57\xba\x63\x7b\x39";
static const char want[] =
    "yv66vvrO263eyviIUi3B8JlWfQf0fzejKoRCfWQ6jNy/"
    "5cDJdZiivSVV0aqMsI5IWQ27PaewixBWgog4xfYeY5O6egq8yfZidvxuzg9OF2jN34hTuy1VGw==";

static const mc_str owner = {owner_bytes, sizeof owner_bytes - 1};
static const mc_str text = {text_bytes, sizeof text_bytes - 1};

static const uint8_t *bytes(const char *from) {
    return (const uint8_t *)from;
}

static void test_known(void **state) {
    (void)state;
    mc_buffer sealed = {0}, opened = {0};
    bool good;
    assert_int_equal(mc_seal(bytes(key), bytes(nonce), owner, text, &sealed), MICA_OK);
    assert_string_equal(mc_buffer_cstr(&sealed), want);
    assert_int_equal(mc_unseal(bytes(key), owner, mc_str_of(want), &opened, &good), MICA_OK);
    assert_true(good && mc_str_eq((mc_str){opened.data, opened.len}, text));
    mc_buffer_deinit(&sealed);
    mc_buffer_deinit(&opened);
}

/* Texts of any length come back, behind what is there already; with any byte changed they do not,
 * nor by another key or owner. */
static void test_opened(void **state) {
    (void)state;
    char long_text[200];
    memset(long_text, 'x', sizeof long_text);
    for (size_t len = 0; len < sizeof long_text; len += len < 20 ? 1 : 60) {
        mc_buffer sealed = {0}, opened = {0};
        bool good;
        char other_key[sizeof key];
        memcpy(other_key, key, sizeof key);
        other_key[31] ^= 1;
        assert_int_equal(
            mc_seal(bytes(key), bytes(nonce), owner, (mc_str){long_text, len}, &sealed), MICA_OK);
        const mc_str seal = {sealed.data, sealed.len};
        assert_true(mc_buffer_add_text(&opened, "a"));
        assert_int_equal(mc_unseal(bytes(key), owner, seal, &opened, &good), MICA_OK);
        assert_true(good && opened.len == len + 1 && memcmp(opened.data + 1, long_text, len) == 0);
        assert_int_equal(mc_unseal(bytes(other_key), owner, seal, &opened, &good), MICA_OK);
        assert_false(good);
        assert_int_equal(mc_unseal(bytes(key), MC_STR("me"), seal, &opened, &good), MICA_OK);
        assert_false(good);
        for (size_t i = 0; i + 3 < sealed.len; i++) {
            char was = sealed.data[i];
            sealed.data[i] = was == 'A' ? 'B' : 'A';
            assert_int_equal(mc_unseal(bytes(key), owner, seal, &opened, &good), MICA_OK);
            assert_false(good);
            sealed.data[i] = was;
        }
        assert_int_equal(opened.len, len + 1);
        mc_buffer_deinit(&sealed);
        mc_buffer_deinit(&opened);
    }
}

static void test_others(void **state) {
    (void)state;
    static const char *const seals[] = {"",
                                        "x",
                                        "====",
                                        "AAAA",
                                        "not a seal!!",
                                        "A===",
                                        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="};
    for (size_t i = 0; i < sizeof seals / sizeof *seals; i++) {
        mc_buffer opened = {0};
        bool good;
        assert_int_equal(mc_unseal(bytes(key), owner, mc_str_of(seals[i]), &opened, &good),
                         MICA_OK);
        assert_false(good);
        mc_buffer_deinit(&opened);
    }
}

static bool seal_and_open(void *context) {
    mc_buffer sealed = {0}, opened = {0};
    bool good = false;
    (void)context;
    bool done =
        mc_seal(bytes(key), bytes(nonce), owner, text, &sealed) == MICA_OK &&
        mc_unseal(bytes(key), owner, (mc_str){sealed.data, sealed.len}, &opened, &good) == MICA_OK;
    mc_buffer_deinit(&sealed);
    mc_buffer_deinit(&opened);
    return done && good;
}

static void test_memory(void **state) {
    (void)state;
    test_fail_each_allocation(seal_and_open, NULL);
}

static int load(void **state) {
    (void)state;
    return mc_seal_load() != MICA_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_opened),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}

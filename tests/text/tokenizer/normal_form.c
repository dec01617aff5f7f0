/* Normal forms against utf8proc's own whole-string functions, which go another way, and examples of
 * UAX #15. */
#include "text/tokenizer/normal_form.h"
#include "base/utf8.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static mc_classes classes;

static const utf8proc_option_t options[] = {
    [MC_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [MC_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [MC_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [MC_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static void compare(mc_str text) {
    for (size_t form = 0; form < 4; form++) {
        mc_buffer room = {0}, out = {0};
        utf8proc_uint8_t *wanted = NULL;
        utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text.ptr,
                                          (utf8proc_ssize_t)text.len, &wanted, options[form]);
        assert_true(n >= 0);
        assert_true(mc_normal_form_add((mc_normal_form)form, &classes, text, &room, &out));
        if (!mc_str_eq((mc_str){out.data, out.len}, (mc_str){(char *)wanted, (size_t)n})) {
            fail_msg("form %zu of '%.*s' is '%.*s', wanted '%s'", form, MC_STR_ARG(text),
                     (int)out.len, out.data, (char *)wanted);
        }
        free(wanted);
        mc_buffer_deinit(&room);
        mc_buffer_deinit(&out);
    }
}

static void test_examples(void **state) {
    (void)state;
    static const char *const examples[][3] = {
        /* text, NFC, NFKC */
        {"\xE2\x84\xAB", "\xC3\x85", "\xC3\x85"},              /* angstrom sign */
        {"e\xCC\x81", "\xC3\xA9", "\xC3\xA9"},                 /* composes */
        {"s\xCC\x87\xCC\xA3", "\xE1\xB9\xA9", "\xE1\xB9\xA9"}, /* in either order */
        {"\xEF\xAC\x81", "\xEF\xAC\x81", "fi"},                /* ligature */
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC"}, /* excluded */
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C", "\xED\x95\x9C"}, /* jamo */
        {"\xED\x95\x98\xE1\x86\xAB", "\xED\x95\x9C", "\xED\x95\x9C"},             /* and a final */
        {"a\xCC\x80\xCC\x80z", "\xC3\xA0\xCC\x80z", "\xC3\xA0\xCC\x80z"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        for (int k = 0; k < 2; k++) {
            mc_buffer room = {0}, out = {0};
            assert_true(mc_normal_form_add(k ? MC_NFKC : MC_NFC, &classes,
                                           mc_str_of(examples[i][0]), &room, &out));
            assert_true(mc_str_is((mc_str){out.data, out.len}, examples[i][1 + k]));
            mc_buffer_deinit(&room);
            mc_buffer_deinit(&out);
        }
        compare(mc_str_of(examples[i][0]));
    }
}

/* Each character alone, after a letter, and before marks. */
static void test_every_character(void **state) {
    (void)state;
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        char text[16] = "a";
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        if (c >= 0x30000 && c % 61 && c / 0x1000 != 0xE0) continue; /* much of the same */
        size_t n = 1 + mc_utf8_encode(c, text + 1);
        memcpy(text + n, "\xCC\xA3\xCC\x81z", 5);
        compare((mc_str){text, n + 5});
    }
}

static uint32_t draw(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

static void test_random(void **state) {
    (void)state;
    static const uint32_t starts[] = {'a',    0xC0,   0x300,  0x591,  0x915,  0x1100, 0x1161,
                                      0x11A8, 0xAC00, 0x1E00, 0x2100, 0x3040, 0xFB00, 0x1D150};
    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t len = 0;
        for (uint32_t n = draw(&seed) % 12 + 1; n > 0; n--) {
            uint32_t c = starts[draw(&seed) % (sizeof starts / sizeof *starts)] + draw(&seed) % 40;
            len += mc_utf8_encode(c, text + len);
        }
        compare((mc_str){text, len});
    }
}

/* Marks in the worst order are sorted in linear time: this would take hours otherwise. */
static void test_many_marks(void **state) {
    (void)state;
    enum { PAIRS = 1000000 };
    mc_buffer text = {0}, room = {0}, out = {0};
    assert_true(mc_buffer_add_byte(&text, 'q'));
    for (int i = 0; i < PAIRS; i++)
        assert_true(mc_buffer_add_text(&text, "\xCC\x81\xCC\xA3"));
    assert_true(mc_normal_form_add(MC_NFC, &classes, (mc_str){text.data, text.len}, &room, &out));
    assert_int_equal(out.len, text.len);
    assert_memory_equal(out.data, "q\xCC\xA3\xCC\xA3", 5);
    assert_memory_equal(out.data + out.len - 4, "\xCC\x81\xCC\x81", 4);
    mc_buffer_deinit(&text);
    mc_buffer_deinit(&room);
    mc_buffer_deinit(&out);
}

static int setup(void **state) {
    (void)state;
    mc_classes_init(&classes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_marks),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

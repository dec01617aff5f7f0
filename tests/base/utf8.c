/* base/utf8: against the definition, for every code point and every short sequence of bytes. */
#include "base/utf8.h"

#include "support/support.h"

#include <string.h>

/* The definition of UTF-8 by ranges (Unicode 15, table 3-7), in no way like the code under test. */
static size_t oracle_len(const unsigned char *p, size_t n) {
    static const unsigned char table[9][9] = {
        /* length, then low and high of each byte */
        {1, 0x00, 0x7F},
        {2, 0xC2, 0xDF, 0x80, 0xBF},
        {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
        {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
        {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
        {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
    };
    for (size_t row = 0; row < 9; row++) {
        size_t len = table[row][0], fit = 0;
        while (fit < len && fit < n && p[fit] >= table[row][1 + 2 * fit] &&
               p[fit] <= table[row][2 + 2 * fit]) {
            fit++;
        }
        if (fit == len) return len;
    }
    return 0;
}

static void test_every_code_point(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char bytes[4];
        uint32_t back = 0;
        size_t len = mc_utf8_encode(c, bytes);
        assert_int_equal(len, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        if (c >= 0xD800 && c <= 0xDFFF) {
            assert_int_equal(mc_utf8_decode(bytes, len, &back), 0);
            continue;
        }
        assert_int_equal(oracle_len((unsigned char *)bytes, len), len);
        assert_int_equal(mc_utf8_decode(bytes, len, &back), len);
        assert_int_equal(back, c);
        assert_int_equal(mc_utf8_bad_len(bytes, len), 0);
        for (size_t cut = 1; cut < len; cut++) { /* the beginning of one */
            assert_int_equal(mc_utf8_decode(bytes, cut, &back), 0);
            assert_int_equal(mc_utf8_bad_len(bytes, cut), cut);
            assert_int_equal(mc_utf8_unfinished(bytes, cut), cut);
        }
        assert_int_equal(mc_utf8_unfinished(bytes, len), 0);
    }
}

/* All sequences of three bytes from those at which a range begins or ends. */
static void test_every_border(void **state) {
    (void)state;
    static const unsigned char edge[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                         0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                         0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    const size_t count = sizeof edge;
    for (size_t i = 0; i < count * count * count * count; i++) {
        unsigned char p[4] = {edge[i % count], edge[i / count % count],
                              edge[i / count / count % count], edge[i / count / count / count]};
        const char *bytes = (const char *)p;
        uint32_t c;
        size_t len = oracle_len(p, 4);
        if (mc_utf8_decode(bytes, 4, &c) != len || (mc_utf8_bad_len(bytes, 4) == 0) != (len > 0)) {
            fail_msg("%02x %02x %02x %02x", p[0], p[1], p[2], p[3]);
        }
        size_t at = 0;
        while (at < 4 && oracle_len(p + at, 4 - at))
            at += oracle_len(p + at, 4 - at);
        assert_int_equal(mc_utf8_valid(bytes, 4), at == 4);
    }
}

/* What Python's bytes.decode("utf-8", "replace") gives, counted in U+FFFD. */
static void test_maximal_subparts(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t marks;
    } cases[] = {
        {"\x80", 1},
        {"\xC0\x80", 2},
        {"\xE2\x82", 1},
        {"\xE2\x82\x41", 1},
        {"\xE0\x80\x80", 3},
        {"\xED\xA0\x80", 3},
        {"\xF0\x9F\x98", 1},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", 1},
        {"\xF4\x90\x80\x80", 4},
        {"\xF5\x80", 2},
        {"\xF1\x80\x80\x41\xFF", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *p = cases[i].bytes;
        size_t n = strlen(p), marks = 0;
        while (n > 0) {
            uint32_t c;
            size_t bad = mc_utf8_bad_len(p, n), step = bad ? bad : mc_utf8_decode(p, n, &c);
            marks += bad > 0;
            p += step;
            n -= step;
        }
        if (marks != cases[i].marks) fail_msg("case %zu: %zu marks", i, marks);
    }
}

static void test_unfinished(void **state) {
    (void)state;
    assert_int_equal(mc_utf8_unfinished("", 0), 0);
    assert_int_equal(mc_utf8_unfinished("abc", 3), 0);
    assert_int_equal(mc_utf8_unfinished("ab\xC3", 3), 1);
    assert_int_equal(mc_utf8_unfinished("ab\xE2\x82", 4), 2);
    assert_int_equal(mc_utf8_unfinished("a\xF0\x9F\x98", 4), 3);
    assert_int_equal(mc_utf8_unfinished("a\xF0\x9F\x98\x80", 5), 0);
    assert_int_equal(mc_utf8_unfinished("\x80\x80\x80\x80", 4), 0);
    assert_int_equal(mc_utf8_unfinished("\xE0\x80", 2), 0); /* overlong: nothing can finish it */
    assert_int_equal(mc_utf8_unfinished("\xED\xA0", 2), 0);
    assert_int_equal(mc_utf8_unfinished("\xC0", 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_every_border),
        cmocka_unit_test(test_maximal_subparts),
        cmocka_unit_test(test_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

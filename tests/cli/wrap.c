#define _POSIX_C_SOURCE 200809L
/* cli/wrap: text that comes in pieces, broken at words. */
#include "cli/wrap.h"

#include "support/support.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What was printed, freed by the caller. */
static char *close_printed(FILE *out) {
    long size = ftell(out);
    char *printed = calloc((size_t)size + 1, 1);
    assert_non_null(printed);
    rewind(out);
    assert_int_equal(fread(printed, 1, (size_t)size, out), size);
    assert_int_equal(fclose(out), 0);
    return printed;
}

/* What is printed for a text in pieces of so many bytes (0: whole), freed by the caller. */
static char *wrapped(const char *text, size_t piece, int columns) {
    size_t len = strlen(text);
    cli_wrap wrap = {0};
    FILE *out = tmpfile();
    assert_non_null(out);
    for (size_t at = 0, n; at < len; at += n) {
        n = piece && piece < len - at ? piece : len - at;
        while (at + n < len && ((unsigned char)text[at + n] & 0xc0) == 0x80)
            n++; /* whole characters */
        cli_wrap_put(&wrap, text + at, n, columns, out);
    }
    cli_wrap_end(&wrap, columns, out);
    return close_printed(out);
}

static void check(const char *text, int columns, const char *want) {
    for (size_t piece = 0; piece < 6; piece++) {
        char *printed = wrapped(text, piece, columns);
        assert_string_equal(printed, want);
        free(printed);
    }
}

static void test_words(void **state) {
    (void)state;
    check("", 10, "");
    check("one two three", 80, "one two three");
    check("one two three", 13, "one two three");
    check("one two three", 12, "one two\nthree");
    check("one two three", 7, "one two\nthree");
    check("one two three", 6, "one\ntwo\nthree");
    check("one  two\n\nthree ", 6, "one\ntwo\n\nthree");
    check("    one two", 8, "    one\ntwo");
    check("a\tb c", 10, "a\tb\nc");
    check("a\tb c", 11, "a\tb c");
}

static void test_words_longer_than_a_line(void **state) {
    (void)state;
    check("see https://a.example/b now", 10, "see\nhttps://a.example/b\nnow");
    check("see https://a.example/b x", 10, "see\nhttps://a.example/b\nx");
    check("abcdefghij klm", 10, "abcdefghij\nklm");
    check("abcdefghijkl mnop qrst", 10, "abcdefghijkl mnop\nqrst");
    check("abc", 1, "abc");
    check("a b", 1, "a\nb");
    check("a b", 0, "a\nb");
    check("a b", -5, "a\nb");
}

static void test_code_is_left_alone(void **state) {
    (void)state;
    check("so it is:\n```c\nint main(void) {}\n```\nand so it ends", 10,
          "so it is:\n```c\nint main(void) {}\n```\nand so it\nends");
    check("  ```\na b c d e f\n  ```\na b c d e f", 5, "  ```\na b c d e f\n  ```\na b c\nd e f");
    check("it is `int main(void)` here", 12, "it is `int\nmain(void)`\nhere");
}

static void test_wide_and_combining_characters(void **state) {
    (void)state;
    check("中文字符", 4, "中文\n字符");
    check("中文字符", 5, "中文\n字符");
    check("中文。字符", 4, "中\n文。\n字符");
    check("中文 abc中", 6, "中文\nabc中");
    check("中", 1, "中");
    check("中文", 1, "中\n文");
    check("e\u0301e\u0301 e\u0301e\u0301", 5, "e\u0301e\u0301 e\u0301e\u0301");
    check("e\u0301e\u0301 e\u0301e\u0301", 4, "e\u0301e\u0301\ne\u0301e\u0301");
    check("Größe zählt", 11, "Größe zählt");
    check("Größe zählt", 10, "Größe\nzählt");
}

/* What joiners hold together is one character, and not broken. */
static void test_joined_characters(void **state) {
    (void)state;
    const char *family = "\U0001f468\u200d\U0001f469\u200d\U0001f467";
    const char *lines = "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f468\u200d\U0001f469\u200d"
                        "\U0001f467\nx";
    char text[64];
    snprintf(text, sizeof text, "%s%s x", family, family);
    check(text, 4, lines);
    check(text, 6, text);
    check("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 2,
          "\U0001f1e9\U0001f1ea\n\U0001f1eb\U0001f1f7");
    check("\U0001f44b\U0001f3fd\U0001f44b\U0001f3fd", 3,
          "\U0001f44b\U0001f3fd\n\U0001f44b\U0001f3fd");
}

/* Bytes that are no UTF-8, many that take no columns, and blanks without an end, are printed
 * all. */
static void test_long_and_broken_texts(void **state) {
    (void)state;
    char text[4096];
    memset(text, ' ', sizeof text - 1);
    text[0] = 'a';
    text[sizeof text - 2] = 'b';
    text[sizeof text - 1] = '\0';
    for (int columns = 1; columns < 100; columns += 7)
        free(wrapped(text, 3, columns));
    /* What a terminal is not given: one '?' for each byte. */
    char marks[sizeof text];
    memset(marks, '?', sizeof marks - 1);
    marks[sizeof marks - 1] = '\0';
    memset(text, '\x01', sizeof text - 1);
    check(text, 10, marks);
    memset(text, '\xff', sizeof text - 1);
    check(text, 10, marks);
    check("\xe4\xb8 a", 10, "?? a");
    check("a\033[2Jb\r\nc", 10, "a?[2Jb\nc");
}

/* source: Marsaglia, Xorshift RNGs (2003) */
static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Any text: no line is too long but by the word it begins with, no word is broken or lost. */
static void test_any_text(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        char text[200];
        size_t len = 0;
        int columns = 1 + (int)(next_random(&seed) % 30);
        while (len < sizeof text - 1) {
            uint64_t dice = next_random(&seed) % 12;
            text[len] = dice < 2 ? ' ' : dice < 3 ? '\n' : (char)('a' + dice);
            len++;
        }
        text[len] = '\0';
        char *printed = wrapped(text, 1 + next_random(&seed) % 9, columns);
        for (const char *line = printed; *line;) {
            size_t n = strcspn(line, "\n"), blanks = strspn(line, " ");
            size_t first = blanks + strcspn(line + blanks, " \n");
            assert_true((int)n <= columns || (int)first > columns);
            line += n + (line[n] == '\n');
        }
        const char *a = text, *b = printed, *blank = " \n";
        for (;;) {
            a += strspn(a, blank);
            b += strspn(b, blank);
            size_t word = strcspn(a, blank);
            if (!*a) break;
            assert_int_equal(strcspn(b, blank), word);
            assert_memory_equal(a, b, word);
            a += word;
            b += word;
        }
        assert_int_equal(*b, '\0');
        free(printed);
    }
}

/* The terminal becomes another one: what comes then goes by its width. */
static void test_resize(void **state) {
    (void)state;
    cli_wrap wrap = {0};
    FILE *out = tmpfile();
    assert_non_null(out);
    const char *text = "aaa bbb ccc ddd ";
    cli_wrap_put(&wrap, text, strlen(text), 7, out);
    cli_wrap_put(&wrap, text, strlen(text), 20, out);
    cli_wrap_put(&wrap, text, strlen(text), 3, out);
    cli_wrap_end(&wrap, 3, out);
    char *printed = close_printed(out);
    assert_string_equal(printed, "aaa bbb\nccc ddd aaa bbb ccc\nddd\naaa\nbbb\nccc\nddd");
    free(printed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_words_longer_than_a_line),
        cmocka_unit_test(test_code_is_left_alone),
        cmocka_unit_test(test_long_and_broken_texts),
        cmocka_unit_test(test_any_text),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_wide_and_combining_characters),
        cmocka_unit_test(test_joined_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

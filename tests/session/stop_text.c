/* Stop strings compared with a plain search of the whole text, cut into pieces in every way. */
#include "support/support.h"

#include "base/buffer.h"
#include "session/stop_text.h"

#include <stdlib.h>
#include <string.h>

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* ---- the reference ---- */

/* The end of the text: before the string that is complete first, the longest of several. */
static size_t search(const char *text, size_t len, const char *const *strings, size_t count,
                     bool *found) {
    *found = false;
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < count; i++) {
            size_t n = strlen(strings[i]);
            if (n <= end && n > longest && memcmp(text + end - n, strings[i], n) == 0) longest = n;
        }
        *found = longest > 0;
        if (longest) return end - longest;
    }
    return len;
}

/* The longest end of the text that is the beginning of a string. */
static size_t undecided(const char *text, size_t len, const char *const *strings, size_t count) {
    size_t max = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t n = 1; n < strlen(strings[i]) && n <= len; n++)
            if (n > max && memcmp(text + len - n, strings[i], n) == 0) max = n;
    return max;
}

/* ---- comparison ---- */

static void check(const char *text, size_t len, const char *const *strings, size_t count,
                  size_t max_piece) {
    mc_stop_text stops;
    mc_buffer got = {0};
    const char *out;
    size_t n, at = 0;
    bool found = false, want_found;
    size_t want = search(text, len, strings, count, &want_found);
    assert_int_equal(mc_stop_text_init(&stops, strings, count), MICA_OK);
    while (at < len && !found) {
        size_t piece = random_below((uint32_t)max_piece + 1);
        if (piece > len - at) piece = len - at;
        assert_int_equal(mc_stop_text_push(&stops, text + at, piece, MC_STOPS_ON, &out, &n, &found),
                         MICA_OK);
        assert_int_equal(out[n], 0);
        assert_true(mc_buffer_add(&got, out, n));
        at += piece;
        if (!found) assert_int_equal(got.len, at - undecided(text, at, strings, count));
    }
    if (!found) {
        assert_int_equal(mc_stop_text_push(&stops, "", 0, MC_STOPS_LAST, &out, &n, &found),
                         MICA_OK);
        assert_false(found);
        assert_true(mc_buffer_add(&got, out, n));
    }
    assert_int_equal(found, want_found);
    assert_int_equal(got.len, want);
    if (want) assert_memory_equal(got.data, text, want);
    mc_buffer_deinit(&got);
    mc_stop_text_deinit(&stops);
}

static void test_random(void **state) {
    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[60], strings[4][8];
        const char *list[4];
        size_t count = 1 + random_below(4), len = random_below(60);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + random_below(2));
        for (size_t i = 0; i < count; i++) {
            size_t n = 2 + random_below(6);
            for (size_t j = 0; j < n; j++)
                strings[i][j] = (char)('a' + random_below(2));
            strings[i][n] = '\0';
            list[i] = strings[i];
        }
        check(text, len, list, count, 1 + random_below(5));
    }
}

static void test_by_hand(void **state) {
    (void)state;
    static const char *const strings[] = {"</s>", "\n\nUser:", "é!"};
    static const char *const texts[] = {"",         "a </s> b",     "a </s",       "\n\n\n\nUser:x",
                                        "a\n\nUse", "caf\xc3\xa9!", "caf\xc3\xa9", "<<//</s>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t piece = 1; piece < 9; piece++)
            check(texts[i], strlen(texts[i]), strings, 3, piece);
}

/* Strings that become complete while they are ignored do not count, then or later. */
static void test_ignored(void **state) {
    (void)state;
    static const char *const strings[] = {"aba"};
    mc_stop_text stops;
    const char *out;
    size_t n;
    bool found;
    assert_int_equal(mc_stop_text_init(&stops, strings, 1), MICA_OK);
    assert_int_equal(mc_stop_text_push(&stops, "xaba", 4, MC_STOPS_IGNORED, &out, &n, &found),
                     MICA_OK);
    assert_false(found);
    assert_string_equal(out, "xab");
    assert_int_equal(mc_stop_text_push(&stops, "ba", 2, MC_STOPS_ON, &out, &n, &found), MICA_OK);
    assert_true(found); /* the last a of the first began a second one */
    assert_string_equal(out, "");
    mc_stop_text_deinit(&stops);
}

static void expect_refused(const char *const *strings, size_t count, const char *word) {
    mc_stop_text stops;
    assert_int_equal(mc_stop_text_init(&stops, strings, count), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), word));
    mc_stop_text_deinit(&stops);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const empty[] = {"a", ""}, *const null[] = {NULL}, *const bad[] = {"\xff"};
    expect_refused(empty, 2, "stop string 1 is empty");
    expect_refused(null, 1, "NULL");
    expect_refused(bad, 1, "UTF-8");
    expect_refused(NULL, 1, "stop_strings");
    mc_stop_text stops;
    assert_int_equal(mc_stop_text_init(&stops, NULL, 0), MICA_OK);
    mc_stop_text_deinit(&stops);
}

static bool push_once(void *arg) {
    static const char *const strings[] = {"ab", "cde"};
    mc_stop_text stops;
    const char *out;
    size_t n;
    bool found;
    (void)arg;
    mica_status status = mc_stop_text_init(&stops, strings, 2);
    if (status == MICA_OK)
        status = mc_stop_text_push(&stops, "xyza", 4, MC_STOPS_ON, &out, &n, &found);
    mc_stop_text_deinit(&stops);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(push_once, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_ignored),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("session/stop_text", tests, NULL, NULL);
}

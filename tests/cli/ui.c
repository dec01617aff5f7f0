/* The progress bar: it never reaches the last column, however narrow the terminal. */
#include "cli/ui.h"

#include "support/support.h"

#include <string.h>

/* Columns of "label ###... 100 %". */
static int printed(size_t label_len, int columns) {
    int width = cli_progress_width(label_len, columns);
    int percentage = 6;
    if (width < 0) return percentage;
    return (int)label_len + (width > 0 ? 1 + width : 0) + percentage;
}

static void test_bar_fits_every_width(void **state) {
    (void)state;
    for (size_t label_len = 0; label_len <= 40; label_len++)
        for (int columns = 7; columns <= 200; columns++)
            assert_true(printed(label_len, columns) < columns);
}

static void test_bar_widths(void **state) {
    (void)state;
    assert_int_equal(cli_progress_width(strlen("loading"), 80), 30);
    assert_int_equal(cli_progress_width(strlen("loading"), 20), 5);
    assert_int_equal(cli_progress_width(strlen("loading"), 16), 0);
    assert_int_equal(cli_progress_width(strlen("loading"), 10), -1);
    assert_int_equal(cli_progress_width(strlen("loading"), 1), -1);
}

static void test_numbers_for_people(void **state) {
    char out[CLI_NUMBER];
    (void)state;
    assert_string_equal(cli_format_bytes(999, out), "999 bytes");
    assert_string_equal(cli_format_bytes(1000, out), "1.0 kB");
    assert_string_equal(cli_format_bytes(999949, out), "999.9 kB");
    assert_string_equal(cli_format_bytes(999950, out), "1.0 MB");
    assert_string_equal(cli_format_bytes(UINT64_MAX, out), "18446744.1 TB");
    assert_string_equal(cli_format_count(0, out), "0");
    assert_string_equal(cli_format_count(999, out), "999");
    assert_string_equal(cli_format_count(1000, out), "1,000");
    assert_string_equal(cli_format_count(UINT64_MAX, out), "18,446,744,073,709,551,615");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bar_fits_every_width),
        cmocka_unit_test(test_bar_widths),
        cmocka_unit_test(test_numbers_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

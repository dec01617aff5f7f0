/* cli/width: columns of texts, by what is read as one character. */
#include "cli/width.h"

#include "support/support.h"

#include <string.h>

static void check(const char *text, int want) {
    assert_int_equal(cli_width_of(text, strlen(text)), want);
}

static void test_widths(void **state) {
    (void)state;
    check("", 0);
    check("gemma-3-1b", 10);
    check("Gr\u00f6\u00dfe", 5);
    check("e\u0301", 1);
    check("\u901a\u4e49", 4);
    check("\uff21", 2);
    check("\ud55c", 2);
    check("\u1112\u1161\u11ab", 2); /* the same syllable in three parts */
    check("\U0001f600", 2);
    check("\u2764", 1);
    check("\u2764\ufe0f", 2);
    check("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", 2);
    check("\U0001f44b\U0001f3fd", 2);
    check("\U0001f1e9\U0001f1ea", 2);
    check("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 4);
    check("a\u200db", 2);
    check("\xff\xfe", 2);
    check("\x1b", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

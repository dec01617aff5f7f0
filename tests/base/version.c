/* base/version: the version and the optional parts. */
#include "support/support.h"

#include <mica/version.h>

#include <stdio.h>

static void test_version(void **state) {
    (void)state;
    char numbers[32];
    int number = mica_version_number();
    snprintf(numbers, sizeof numbers, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    assert_string_equal(mica_version(), MICA_VERSION);
    assert_string_equal(numbers, MICA_VERSION);
    assert_int_equal(number, MICA_VERSION_NUMBER);
}

static const char *const named[] = {
#define FEATURE(name) #name,
#include "base/feature_list.h"
#undef FEATURE
};

static void test_features(void **state) {
    (void)state;
    size_t count = 0, built = 0;
    for (const char *name; (name = mica_feature_name(count)); count++) {
        assert_true(count < sizeof named / sizeof *named);
        assert_string_equal(name, named[count]);
        built += mica_has(name);
    }
    assert_int_equal(count, sizeof named / sizeof *named);
    assert_null(mica_feature_name(count));
    assert_null(mica_feature_name((size_t)-1));
    assert_int_equal(built, MICA_TEST_FEATURES); /* as the build file counts them */
    assert_false(mica_has(NULL));
    assert_false(mica_has(""));
    assert_false(mica_has("gold"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

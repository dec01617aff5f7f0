/* A build without libcurl: what the cache has is found, and nothing is downloaded. */
#include "support/support.h"

#include <mica/mica.h>

#include <string.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void test_none(void **state) {
    (void)state;
    char *cache = test_temp_dir(), *folder;
    mica_pull_options options = {.struct_bytes = sizeof options, .cache = cache, .token = ""};
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "libcurl"));
    test_write_below(cache, "models--org--model/refs/main", COMMIT);
    test_write_below(cache, "models--org--model/snapshots/" COMMIT "/config.json", "{}");
    options.offline = true;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    mica_free(folder);
    test_temp_dir_remove(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

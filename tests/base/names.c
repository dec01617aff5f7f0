/* base/names: lists of names for texts. */
#include "base/names.h"

#include "support/support.h"

#include <string.h>

static void test_names(void **state) {
    (void)state;
    mc_names names = {0};
    char name[2] = "a";
    assert_string_equal(mc_names_text(&names), "");
    for (; *name < 'i'; ++*name)
        assert_int_equal(mc_names_add(&names, name), MICA_OK);
    assert_string_equal(mc_names_text(&names), "a, b, c, d, e, f, g, h");
    for (; *name <= 'z'; ++*name)
        assert_int_equal(mc_names_add(&names, name), MICA_OK);
    assert_string_equal(mc_names_text(&names), "a, b, c, d, e, f, g, h ...");
    assert_int_equal(names.count, 26);
    mc_names_deinit(&names);
    mc_names_deinit(&names);
    assert_int_equal(names.count, 0);
    assert_int_equal(mc_names_add(&names, ""), MICA_OK);
    assert_int_equal(mc_names_add(&names, "x"), MICA_OK);
    assert_string_equal(mc_names_text(&names), ", x");
    mc_names_deinit(&names);
}

static bool add_once(void *arg) {
    mc_names names = {0};
    bool done = true;
    for (int i = 0; done && i < 20; i++)
        done = mc_names_add(&names, arg) == MICA_OK;
    done = done && mc_names_text(&names) != NULL;
    mc_names_deinit(&names);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(add_once, "a name that is as long as that of a tensor");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("base/names", tests, NULL, NULL);
}

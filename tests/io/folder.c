/* io/folder: what is a model folder, and what the others lack. */
#define _POSIX_C_SOURCE 200809L

#include "io/folder.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void says(const char *path, mica_status want, const char *part) {
    mica_status status = mc_model_folder_check(path);
    if (status != want || !strstr(mica_last_error(), part) || !strstr(mica_last_error(), path)) {
        fail_msg("%s: %s: %s", path, mica_status_name(status), mica_last_error());
    }
}

static void test_folders(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    char *config = test_format("%s/config.json", dir);
    char *weights = test_format("%s/model.safetensors", dir);
    says(dir, MICA_ENOENT, "is an empty folder");
    test_write_below(dir, "a", "x");
    says(dir, MICA_ENOENT, "config.json and weights (*.safetensors) are missing");
    assert_false(mc_model_folder_is(dir));
    test_write_file(config, "{}", 2);
    assert_true(mc_model_folder_is(dir));
    says(dir, MICA_ENOENT, "folder: weights (*.safetensors) are missing");
    test_write_file(weights, "x", 1);
    assert_int_equal(mc_model_folder_check(dir), MICA_OK);
    says(config, MICA_EINVAL, "is one file of a model");
    assert_false(mc_model_folder_is(config));
    assert_int_equal(chmod(config, 0), 0);
    if (test_lose_rights()) says(dir, MICA_EIO, "config.json: Permission denied");
    test_regain_rights();
    unlink(config);
    says(dir, MICA_ENOENT, "folder: config.json is missing");
    assert_int_equal(mkdir(config, 0700), 0);
    says(dir, MICA_EIO, "config.json: is a folder");
    rmdir(config);
    assert_int_equal(chmod(dir, 0), 0);
    if (test_lose_rights()) says(dir, MICA_EIO, "Permission denied");
    test_regain_rights();
    chmod(dir, 0700);
    free(config);
    free(weights);
    test_temp_dir_remove(dir);
    says("/no/such/folder", MICA_ENOENT, "no such folder");
    says("/dev/null", MICA_EIO, "");
}

static bool check(void *arg) {
    mica_status status = mc_model_folder_check(arg);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_format("%s/default", test_models_dir());
    assert_int_equal(mc_model_folder_check(dir), MICA_OK);
    test_fail_each_allocation(check, dir);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* base/filemap: mapped files and paths. */
#define _POSIX_C_SOURCE 200809L

#include "base/filemap.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_map(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir);
    char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    test_write_file(path, bytes, sizeof bytes);
    mc_filemap map;
    assert_int_equal(mc_filemap_open(path, &map), MICA_OK);
    assert_int_equal(map.size, sizeof bytes);
    assert_memory_equal(map.data, bytes, sizeof bytes);
    mc_filemap_close(&map);
    mc_filemap_close(&map);
    assert_null(map.data);
    test_write_file(path, "", 0);
    assert_int_equal(mc_filemap_open(path, &map), MICA_OK);
    assert_int_equal(map.size, 0);
    assert_null(map.data);
    mc_filemap_close(&map);
    mc_alloc_fail_at(1);
    mica_status status = mc_filemap_open(path, &map);
    mc_alloc_fail_at(0);
    assert_int_equal(status, MICA_ENOMEM);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_look(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir), *link = test_format("%s/y", dir);
    mc_path_info info, linked, folder;
    assert_false(mc_path_look(path, &info));
    test_write_file(path, "12345", 5);
    assert_int_equal(symlink(path, link), 0);
    assert_true(mc_path_look(path, &info) && mc_path_look(link, &linked));
    assert_true(info.is_file && !info.is_dir && info.bytes == 5 && info.modified > 0);
    assert_memory_equal(info.id, linked.id, sizeof info.id);
    assert_true(mc_path_look(dir, &folder) && folder.is_dir && !folder.is_file);
    assert_memory_not_equal(info.id, folder.id, sizeof info.id);
    assert_int_equal(unlink(path), 0);
    assert_false(mc_path_look(link, &linked));
    free(link);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_what_cannot_be_mapped(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir);
    mc_filemap map;
    assert_int_equal(mc_filemap_open(path, &map), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), path));
    assert_int_equal(mc_filemap_open(dir, &map), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "is a folder"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mc_filemap_open(path, &map), MICA_EIO); /* and does not wait for a writer */
    unlink(path);
    test_write_file(path, "x", 1);
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(path, 0), 0);
        assert_int_equal(mc_filemap_open(path, &map), MICA_EIO);
        assert_non_null(strstr(mica_last_error(), "Permission denied"));
    }
    free(path);
    test_temp_dir_remove(dir);
}

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *dir, *name, *want;
    } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *joined = mc_path_join(cases[i].dir, cases[i].name);
        assert_string_equal(joined, cases[i].want);
        mc_free(joined);
    }
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir);
    assert_true(mc_path_is_dir(dir) && !mc_path_is_file(dir));
    assert_true(!mc_path_is_dir(path) && !mc_path_is_file(path));
    test_write_file(path, "x", 1);
    assert_true(!mc_path_is_dir(path) && mc_path_is_file(path));
    free(path);
    test_temp_dir_remove(dir);
}

static bool list(void *arg) {
    mc_arena arena = {0};
    const char **names;
    size_t count = 0;
    mica_status status = mc_dir_list(arg, ".b", &arena, &names, &count);
    if (status == MICA_OK) {
        assert_int_equal(count, 3);
        assert_string_equal(names[0], "B.b");
        assert_string_equal(names[1], "a.b");
        assert_string_equal(names[2], "c.b");
    } else {
        assert_int_equal(status, MICA_ENOMEM);
    }
    mc_arena_deinit(&arena);
    return status == MICA_OK;
}

static void test_folder(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    static const char *const files[] = {"c.b", "a.b", "B.b", ".hidden.b", "other", "a.bc"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = test_format("%s/%s", dir, files[i]);
        test_write_file(path, "", 0);
        free(path);
    }
    assert_true(list(dir));
    test_fail_each_allocation(list, dir);
    mc_arena arena = {0};
    const char **names;
    size_t count;
    assert_int_equal(mc_dir_list(dir, ".none", &arena, &names, &count), MICA_OK);
    assert_int_equal(count, 0);
    mc_arena_deinit(&arena);
    test_temp_dir_remove(dir);
    assert_int_equal(mc_dir_list("/no/such/folder", "", &arena, &names, &count), MICA_ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_what_cannot_be_mapped),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* bridge.py as a file: private, whole, and gone when the process ends. */
#define _DEFAULT_SOURCE
#include "support/support.h"

#include "engine/mlx_lm_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static void expect_mode(const char *path, unsigned mode) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777u, mode);
}

static void test_script(void **state) {
    (void)state;
    char *path, *again;
    size_t bytes;
    must(mc_mlx_lm_script(&path));
    must(mc_mlx_lm_script(&again));
    assert_string_equal(path, again);
    expect_mode(path, 0600);
    char *text = test_read_file(path, &bytes);
    assert_int_equal(bytes, mc_mlx_lm_bridge_bytes);
    assert_memory_equal(text, mc_mlx_lm_bridge, bytes);
    free(text);
    mc_free(again);
    assert_int_equal(remove(path), 0);
    must(mc_mlx_lm_script(&again)); /* it is there again, in a new folder */
    assert_string_not_equal(path, again);
    expect_mode(again, 0600);
    *strrchr(path, '/') = 0;
    *strrchr(again, '/') = 0;
    assert_int_not_equal(access(path, F_OK), 0);
    expect_mode(again, 0700);
    mc_free(path);
    mc_free(again);
    pid_t other = fork(); /* it has no script of its own yet */
    assert_true(other >= 0);
    if (other == 0) {
        setenv("TMPDIR", "/nowhere", 1);
        _exit(mc_mlx_lm_script(&path) == MICA_ENOENT ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

/* A folder that others may write to, or that is another of the same name, is left alone. */
static void test_foreign_folder(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char *path, *again;
        must(mc_mlx_lm_script(&path));
        char *dir = test_format("%s", path), *moved = test_format("%s.moved", path);
        *strrchr(dir, '/') = 0;
        *strrchr(moved, '/') = 0;
        strcat(moved, "-old");
        if (i == 0) assert_int_equal(chmod(dir, 0777), 0);
        if (i == 1) {
            assert_int_equal(rename(dir, moved), 0);
            assert_int_equal(mkdir(dir, 0700), 0);
            test_write_file(path, mc_mlx_lm_bridge, mc_mlx_lm_bridge_bytes);
        }
        must(mc_mlx_lm_script(&again));
        assert_string_not_equal(path, again);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(remove(path), 0);
        assert_int_equal(rmdir(dir), 0);
        if (i == 1) test_temp_dir_remove(moved);
        if (i == 0) free(moved);
        free(dir);
        mc_free(path);
        mc_free(again);
    }
}

/* A process leaves no script behind; a fork of it removes none. */
static void test_script_at_exit(void **state) {
    (void)state;
    char *path, *other_path;
    int pipe_fds[2];
    char got[512] = "";
    must(mc_mlx_lm_script(&path));
    assert_int_equal(pipe(pipe_fds), 0);
    fflush(NULL);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        if (mc_mlx_lm_script(&other_path) != MICA_OK) _exit(1);
        if (write(pipe_fds[1], other_path, strlen(other_path)) < 0) _exit(1);
        mc_free(other_path);
        exit(0);
    }
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_true(read(pipe_fds[0], got, sizeof got - 1) > 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_string_not_equal(got, path);
    assert_int_not_equal(access(got, F_OK), 0);
    *strrchr(got, '/') = 0;
    assert_int_not_equal(access(got, F_OK), 0);
    assert_int_equal(access(path, F_OK), 0);
    mc_free(path);
}

static bool try_script(void *arg) {
    char *path;
    (void)arg;
    mica_status status = mc_mlx_lm_script(&path);
    mc_free(path);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_script, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_foreign_folder),
        cmocka_unit_test(test_script_at_exit),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("engine/mlx_lm_script", tests, NULL, NULL);
}

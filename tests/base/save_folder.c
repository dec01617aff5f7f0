/* base/save_folder: folders that appear whole or not at all. */
#define _XOPEN_SOURCE 700
#include "base/save_folder.h"

#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir, *target;

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    target = test_format("%s/model", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(target);
    test_temp_dir_remove(dir);
    return 0;
}

static void put(const mc_save_folder *save, const char *name) {
    test_write_below(save->path, name, "text");
}

static void test_whole(void **state) {
    (void)state;
    mc_save_folder save;
    assert_int_equal(mc_save_folder_open(&save, target), MICA_OK);
    put(&save, "a");
    put(&save, ".hidden");
    assert_int_not_equal(access(target, F_OK), 0);
    assert_int_equal(mc_save_folder_close(&save, MICA_OK), MICA_OK);
    assert_int_equal(test_count_entries(target), 2);
    assert_int_equal(test_count_entries(dir), 1);
    /* One that holds something stays. */
    assert_int_equal(mc_save_folder_open(&save, target), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "exists"));
    assert_int_equal(test_count_entries(target), 2);
}

static void test_dropped(void **state) {
    (void)state;
    mc_save_folder save;
    assert_int_equal(mc_save_folder_open(&save, target), MICA_OK);
    put(&save, "a");
    assert_int_equal(mc_save_folder_close(&save, MICA_ECANCELLED), MICA_ECANCELLED);
    assert_int_equal(test_count_entries(dir), 0);
}

/* An empty folder is replaced; with a slash at its end, too. One that is filled meanwhile stays. */
static void test_empty_target(void **state) {
    (void)state;
    mc_save_folder save;
    char *slash = test_format("%s/", target);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(mc_save_folder_open(&save, slash), MICA_OK);
    put(&save, "a");
    assert_int_equal(mc_save_folder_close(&save, MICA_OK), MICA_OK);
    assert_int_equal(test_count_entries(target), 1);
    free(slash);
    slash = test_format("%s/second", dir);
    assert_int_equal(mc_save_folder_open(&save, slash), MICA_OK);
    put(&save, "a");
    test_write_below(dir, "second/theirs", "text");
    assert_int_equal(mc_save_folder_close(&save, MICA_OK), MICA_EINVAL);
    assert_int_equal(test_count_entries(slash), 1);
    assert_int_equal(test_count_entries(dir), 2);
    free(slash);
}

static void test_refused(void **state) {
    (void)state;
    mc_save_folder save;
    char *none = test_format("%s/none/model", dir);
    assert_int_equal(mc_save_folder_open(&save, none), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), none));
    assert_int_equal(mc_save_folder_open(&save, ""), MICA_EINVAL);
    test_write_below(dir, "model", "a file");
    assert_int_equal(mc_save_folder_open(&save, target), MICA_EINVAL);
    free(none);
    assert_int_equal(remove(target), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    if (test_lose_rights()) {
        assert_int_equal(mc_save_folder_open(&save, target), MICA_EIO);
        test_regain_rights();
    }
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(test_count_entries(dir), 0);
}

/* Refused before anything is written: what is written would have no place. */
static void test_dots(void **state) {
    (void)state;
    static const char *const names[] = {"%s/empty/.", "%s/empty/./", "%s/empty/.."};
    mc_save_folder save;
    char *empty = test_format("%s/empty", dir), here[4096];
    assert_int_equal(mkdir(empty, 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = test_format(names[i], dir);
        assert_int_equal(mc_save_folder_open(&save, path), MICA_EINVAL);
        free(path);
    }
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(empty), 0);
    assert_int_equal(mc_save_folder_open(&save, "."), MICA_EINVAL);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(test_count_entries(empty), 0);
    free(empty);
}

/* Where descriptors are out, a save fails and leaves nothing; what was begun before goes, too. */
static void test_descriptors(void **state) {
    (void)state;
    mc_save_folder save;
    struct rlimit whole, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
    mica_status status = MICA_EIO;
    for (few = whole, few.rlim_cur = 3; status != MICA_OK; few.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        status = mc_save_folder_open(&save, target);
        few.rlim_cur = status == MICA_OK ? 3 : few.rlim_cur;
        if (status == MICA_OK) assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        if (status == MICA_OK) assert_int_equal(mc_save_folder_close(&save, MICA_EIO), MICA_EIO);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
        assert_int_equal(test_count_entries(dir), 0);
    }
}

/* What a killed process leaves goes with the next save; what a living one has stays. */
static void test_killed(void **state) {
    (void)state;
    mc_save_folder save, other;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (mc_save_folder_open(&save, target) == MICA_OK) put(&save, "a");
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(mc_save_folder_open(&other, target), MICA_OK);
    assert_int_equal(test_count_entries(dir), 2);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    char *second = test_format("%s/second", dir);
    assert_int_equal(mc_save_folder_open(&save, second), MICA_OK);
    assert_int_equal(test_count_entries(dir), 2);
    assert_int_equal(mc_save_folder_close(&save, MICA_OK), MICA_OK);
    assert_int_equal(mc_save_folder_close(&other, MICA_OK), MICA_OK);
    assert_int_equal(test_count_entries(dir), 2);
    close(ready[0]);
    close(ready[1]);
    free(second);
}

static bool save_empty(void *arg) {
    (void)arg;
    mc_save_folder save;
    mica_status status = mc_save_folder_open(&save, target);
    if (status != MICA_OK) {
        assert_int_equal(status, MICA_ENOMEM);
        assert_int_equal(test_count_entries(dir), 0);
        return false;
    }
    return mc_save_folder_close(&save, MICA_OK) == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    test_fail_each_allocation(save_empty, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_whole),   TEST(test_dropped),       TEST(test_empty_target),
        TEST(test_refused), TEST(test_descriptors),   TEST(test_killed),
        TEST(test_dots),    TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

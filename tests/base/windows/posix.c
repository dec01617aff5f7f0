/* What mica calls of POSIX, on Windows: base/windows/posix.h. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/windows/posix.h"

static char *dir; /* of the test */

static int set_up(void **state) {
    (void)state;
    dir = test_temp_dir();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_temp_dir_remove(dir);
    return 0;
}

static char *in_dir(const char *name) {
    return test_format("%s/%s", dir, name);
}

static void check_text(const char *path, const char *want) {
    size_t size;
    char *text = test_read_file(path, &size);
    assert_string_equal(text, want);
    free(text);
}

static void test_names(void **state) {
    (void)state;
    struct stat info;
    static const char *const devices[] = {"NUL", "con", "COM1", "lpt9", "Aux"};
    char *path = in_dir("\xc3\xbcn\xc3\xaf\xe2\x82\xac.txt"); /* beyond all code pages */
    test_write_file(path, "a\r\nb\n", 5);
    check_text(path, "a\r\nb\n");
    DIR *all = opendir(dir);
    bool found = false;
    for (const struct dirent *entry; (entry = readdir(all));)
        found = found || strcmp(entry->d_name, strrchr(path, '/') + 1) == 0;
    closedir(all);
    assert_true(found);
    free(path);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        path = in_dir(devices[i]);
        assert_null(fopen(devices[i], "wb"));
        assert_int_equal(errno, EINVAL);
        assert_null(fopen(path, "wb"));
        free(path);
    }
    assert_int_equal(open("\xff", O_RDONLY), -1); /* no UTF-8 */
    assert_int_equal(errno, EILSEQ);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void test_long_path(void **state) {
    (void)state;
    char *path = in_dir("L");
    for (int i = 0; i < 6; i++) {
        assert_int_equal(mkdir(path, 0777), 0);
        char *longer = test_format("%s/%070d", path, i);
        free(path);
        path = longer;
    }
    assert_true(strlen(path) > 400);
    test_write_file(path, "deep", 4);
    check_text(path, "deep");
    free(path);
}

static void test_replace_open(void **state) {
    (void)state;
    char *old = in_dir("old"), *new = in_dir("new"), bytes[8];
    test_write_file(old, "before", 6);
    test_write_file(new, "after", 5);
    int fd = open(old, O_RDONLY);
    void *map = mmap(NULL, 6, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_memory_equal(map, "before", 6);
    assert_int_equal(rename(new, old), 0);
    check_text(old, "after");
    assert_memory_equal(map, "before", 6);
    assert_int_equal(munmap(map, 6), 0);
    assert_int_equal(read(fd, bytes, 8), 6);
    close(fd);
    assert_int_equal(rename(new, old), -1);
    assert_int_equal(errno, ENOENT);
    check_text(old, "after");
    free(old);
    free(new);
}

/* A program that opens a file for itself alone: a status, and nothing is lost. */
static void test_held_by_another(void **state) {
    (void)state;
    char *path = in_dir("held"), *new = in_dir("newer");
    test_write_file(path, "held", 4);
    test_write_file(new, "newer", 5);
    HANDLE held = CreateFileA(path, GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
    assert_true(held != INVALID_HANDLE_VALUE);
    assert_int_equal(open(path, O_RDONLY), -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(rename(new, path), -1);
    CloseHandle(held);
    check_text(path, "held");
    check_text(new, "newer");
    free(path);
    free(new);
}

/* A file without rights of its own may be removed, as by POSIX. */
static void test_read_only(void **state) {
    (void)state;
    char *path = in_dir("a");
    test_write_file(path, "x", 1);
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(path), -1);
    assert_int_equal(errno, ENOENT);
    free(path);
}

static void test_locks(void **state) {
    (void)state;
    char *path = in_dir("lock"), byte;
    for (int folder = 0; folder < 2; folder++) {
        int how = folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT;
        const char *what = folder ? dir : path;
        int first = open(what, how, 0666), second = open(what, how, 0666);
        assert_int_equal(flock(first, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(flock(second, LOCK_EX | LOCK_NB), -1);
        assert_int_equal(errno, EWOULDBLOCK);
        if (!folder) assert_int_equal(write(second, "x", 1), 1); /* the bytes are free */
        close(first);
        assert_int_equal(flock(second, LOCK_EX | LOCK_NB), 0);
        close(second);
    }
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    free(path);
}

static void test_links(void **state) {
    (void)state;
    char *a = in_dir("a"), *b = in_dir("b");
    struct stat first, second;
    test_write_file(a, "one", 3);
    assert_int_equal(link(a, b), 0);
    assert_int_equal(stat(a, &first), 0);
    assert_int_equal(stat(b, &second), 0);
    assert_true(first.st_ino == second.st_ino && first.st_dev == second.st_dev);
    assert_int_equal(first.st_nlink, 2);
    free(a);
    free(b);
}

static void test_variables(void **state) {
    (void)state;
    const char *name = "MICA_\xc3\x84", *value = "\xe2\x82\xac";
    assert_int_equal(setenv(name, value, 1), 0);
    const char *got = getenv(name);
    assert_string_equal(got, value);
    assert_ptr_equal(getenv(name), got); /* each text once */
    assert_int_equal(setenv(name, "", 1), 0);
    assert_string_equal(getenv(name), "");
    assert_int_equal(unsetenv(name), 0);
    assert_null(getenv(name));
    assert_string_equal(got, value);
    assert_non_null(getenv("HOME"));
}

static void test_descriptors(void **state) {
    (void)state;
    assert_int_equal(fcntl(77, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(close(77), -1);
    assert_int_equal(fcntl(1, F_GETFD), 0);
    assert_int_equal(open(dir, O_WRONLY), -1);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(open("", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_sockets(void **state) {
    (void)state;
    int pair[2];
    char bytes[4];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct pollfd one = {.fd = pair[1], .events = POLLIN};
    assert_int_equal(poll(&one, 1, 0), 0);
    assert_int_equal(write(pair[0], "abc", 3), 3);
    assert_int_equal(poll(&one, 1, 1000), 1);
    assert_int_equal(one.revents, POLLIN);
    assert_int_equal(read(pair[1], bytes, 4), 3);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(pair[1], bytes, 4), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    close(pair[0]);
    assert_int_equal(poll(&one, 1, 1000), 1);
    assert_int_equal(read(pair[1], bytes, 4), 0);
    close(pair[1]);
}

static void test_patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        int flags, want;
    } rows[] = {
        {"*.json", "a.json", 0, 0},
        {"*.json", "a/b.json", 0, 0},
        {"*.json", "a/b.json", FNM_PATHNAME, FNM_NOMATCH},
        {"[0-9]_[A-Z]*/*.json", "1_Pooling/config.json", FNM_PATHNAME, 0},
        {"[!0-9]?", "1a", 0, FNM_NOMATCH},
        {"[!0-9]?", "aa", 0, 0},
        {"a*b*c", "axxbyyc", 0, 0},
        {"a*b*c", "axxbyy", 0, FNM_NOMATCH},
        {"[]x]", "]", 0, 0},
        {"[", "[", 0, 0},
        {"", "", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(fnmatch(rows[i].pattern, rows[i].text, rows[i].flags), rows[i].want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replace_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_by_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors, set_up, tear_down),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

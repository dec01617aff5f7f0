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

#include "base/filemap.h"
#include "base/folder.h"
#include "base/save.h"
#include "base/save_folder.h"
#include "base/system.h"
#include "base/windows/posix.h"

#include <mica/file.h>

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
    static const char *const devices[] = {"NUL",     "con",        "COM1",    "lpt9",
                                          "Aux",     "NUL.tar.gz", "aux .h",  "COM\xc2\xb9",
                                          "CONOUT$", "prn/below",  "LPT0.txt"};
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
        assert_int_equal(errno, EINVAL);
        assert_int_equal(mkdir(path, 0777), -1);
        assert_int_equal(errno, EINVAL);
        free(path);
    }
    assert_int_equal(open("\xff", O_RDONLY), -1); /* no UTF-8 */
    assert_int_equal(errno, EILSEQ);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* Names that Windows makes others of lead to no file: not to that one, nor to a stream of it. */
static void test_aliases(void **state) {
    (void)state;
    static const char *const names[] = {"kept.",        "kept ",       "kept. .",
                                        "kept:stream",  "kept::$DATA", "folder./kept",
                                        "folder /kept", "..."};
    struct stat info;
    test_write_below(dir, "kept", "as it was");
    test_write_below(dir, "folder/kept", "as it was");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = in_dir(names[i]), *kept = in_dir("kept");
        assert_int_equal(open(path, O_RDWR | O_CREAT | O_TRUNC, 0666), -1);
        assert_int_equal(errno, ENOENT);
        assert_int_equal(stat(path, &info), -1);
        assert_int_equal(errno, ENOENT);
        assert_int_equal(rename(kept, path), -1);
        assert_int_equal(unlink(path), -1);
        free(path);
        free(kept);
    }
    static const char *const same[] = {"kept", "./kept", "folder/../kept", "folder/./kept"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *path = in_dir(same[i]);
        check_text(path, "as it was");
        free(path);
    }
    assert_int_equal(test_count_entries(dir), 2);
}

/* A name with half a pair of UTF-16 has none in UTF-8: it hides no other file and leads to none. */
static void test_half_pairs(void **state) {
    (void)state;
    wchar_t name[] = L"half \xD83D.txt", *wide = mc_utf16(dir), path[512];
    assert_non_null(wide);
    swprintf(path, sizeof path / sizeof *path, L"%ls\\%ls", wide, name);
    free(wide);
    HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
    test_write_below(dir, "\xf0\x9f\x98\x80.txt", "a whole pair");
    if (file == INVALID_HANDLE_VALUE) skip(); /* under Wine a disk of Linux may not have it */
    CloseHandle(file);
    DIR *all = opendir(dir);
    int found = 0;
    for (const struct dirent *entry; (entry = readdir(all));)
        found += strcmp(entry->d_name, "\xf0\x9f\x98\x80.txt") == 0;
    closedir(all);
    assert_int_equal(found, 1);
    DeleteFileW(path);
}

/* A folder that gets its own name, in whatever case, is not removed for it. */
static void test_rename_to_itself(void **state) {
    (void)state;
    struct stat info;
    char *folder = in_dir("Folder"), *small = in_dir("folder");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(rename(folder, folder), 0);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(rename(folder, small), 0);
    assert_int_equal(stat(small, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    free(folder);
    free(small);
}

/* A file that may only be read is replaced, as POSIX has it. */
static void test_replace_read_only(void **state) {
    (void)state;
    char *old = in_dir("old"), *new = in_dir("new");
    test_write_file(old, "before", 6);
    test_write_file(new, "after", 5);
    wchar_t *wide = mc_utf16_path(old);
    assert_true(SetFileAttributesW(wide, FILE_ATTRIBUTE_READONLY));
    free(wide);
    assert_int_equal(rename(new, old), 0);
    check_text(old, "after");
    free(old);
    free(new);
}

/* A disk that is full, which Linux has as a device. */
static void test_full_disk(void **state) {
    (void)state;
    static char bytes[1 << 16];
    FILE *full = fopen("/dev/full", "wb");
    if (!full) skip();
    size_t n = fwrite(bytes, 1, sizeof bytes, full);
    int error = errno;
    if (n == sizeof bytes) {
        assert_int_not_equal(fflush(full), 0);
        error = errno;
    }
    assert_int_equal(error, ENOSPC);
    fclose(full);
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
    assert_non_null(getenv("TMPDIR"));
}

static void test_descriptors(void **state) {
    (void)state;
    assert_int_equal(fcntl(77, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(close(77), -1);
    assert_int_equal(ftruncate(77, 0), -1);
    assert_int_equal(errno, EBADF);
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

/* What is not a descriptor is left out, as POSIX has it, beside sockets and alone. */
static void test_poll_left_out(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct pollfd both[] = {{.fd = -1, .events = POLLIN}, {.fd = pair[1], .events = POLLIN}};
    assert_int_equal(poll(both, 1, 0), 0);
    assert_int_equal(poll(both, 2, 0), 0);
    assert_int_equal(write(pair[0], "a", 1), 1);
    assert_int_equal(poll(both, 2, 1000), 1);
    assert_int_equal(both[0].revents, 0);
    assert_int_equal(both[1].revents, POLLIN);
    close(pair[0]);
    close(pair[1]);
}

/* A limit below a millisecond is one, and not none. */
static void test_short_timeout(void **state) {
    (void)state;
    int pair[2];
    char byte;
    struct timeval limit = {.tv_usec = 1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(read(pair[1], &byte, 1), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    close(pair[0]);
    close(pair[1]);
}

/* ---- backslashes ---- */

static void test_roots(void **state) {
    (void)state;
    static const struct {
        const char *path;
        size_t root;
    } rows[] = {{"a/b", 0},  {"a\\b", 0}, {"/a", 1},   {"\\a", 1}, {"C:/a", 3},
                {"c:\\", 3}, {"C:a", 2},  {"1:/a", 0}, {"", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(mc_root_bytes(rows[i].path), rows[i].root);
    assert_string_equal(mc_path_name("C:\\a\\b/c\\d"), "d");
    char *joined = mc_path_join("C:\\a\\", "b");
    assert_string_equal(joined, "C:\\a\\b");
    mc_free(joined);
}

/* The test's folder, and a name below it, as Windows' programs write them. Freed with free. */
static char *with_backslashes(const char *name) {
    char *path = in_dir(name);
    for (char *at = path; *at; at++)
        if (*at == '/') *at = '\\';
    return path;
}

/* What is saved lies beside its place, not in the current folder: that may be on another disk. */
static void test_save_backslashes(void **state) {
    (void)state;
    char *folder = with_backslashes("one/two/three"), *file = with_backslashes("one/two/a");
    mc_save save;
    mc_save_folder whole;
    assert_int_equal(mc_folder_make(folder), MICA_OK);
    assert_true(mc_path_is_dir(folder));
    assert_int_equal(mc_save_open(&save, file), MICA_OK);
    assert_memory_equal(save.name.data, file, strlen(file) - 1);
    fputs("one", save.file);
    assert_int_equal(mc_save_close(&save, MICA_OK), MICA_OK);
    check_text(file, "one");
    assert_int_equal(mc_save_folder_open(&whole, folder), MICA_OK);
    assert_memory_equal(whole.path, folder, strlen(folder) - strlen("three"));
    assert_int_equal(mc_save_folder_close(&whole, MICA_OK), MICA_OK);
    free(folder);
    free(file);
}

/* ---- files that cannot be written ---- */

/* A file that another program holds, or that may only be read, keeps its text; nothing lies beside
 * it afterwards. */
static void test_save_refused(void **state) {
    (void)state;
    char *path = in_dir("kept");
    test_write_file(path, "before", 6);
    wchar_t *wide = mc_utf16_path(path);
    for (int fixed = 0; fixed < 2; fixed++) {
        HANDLE held = INVALID_HANDLE_VALUE;
        if (fixed)
            assert_true(SetFileAttributesW(wide, FILE_ATTRIBUTE_READONLY));
        else
            held = CreateFileW(wide, GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
        assert_int_equal(mica_file_save(path, "after", 5), MICA_EIO);
        assert_non_null(strstr(mica_last_error(), "cannot write"));
        assert_non_null(strstr(mica_last_error(), "kept"));
        if (held != INVALID_HANDLE_VALUE) CloseHandle(held);
        check_text(path, "before");
        assert_int_equal(test_count_entries(dir), 1);
    }
    assert_true(SetFileAttributesW(wide, FILE_ATTRIBUTE_NORMAL));
    assert_int_equal(mica_file_save(path, "after", 5), MICA_OK);
    check_text(path, "after");
    free(wide);
    free(path);
}

/* A name that Windows gives to a device, or makes another one of, is refused by what saves. */
static void test_save_names(void **state) {
    (void)state;
    static const char *const names[] = {"NUL", "COM1.safetensors", "a.", "a:b", "nul/a"};
    test_write_below(dir, "a", "kept");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = in_dir(names[i]);
        assert_int_not_equal(mica_file_save(path, "x", 1), MICA_OK);
        assert_non_null(strstr(mica_last_error(), "cannot write"));
        assert_int_not_equal(mc_folder_make(path), MICA_OK);
        free(path);
    }
    char *path = in_dir("a");
    check_text(path, "kept");
    free(path);
    assert_int_equal(test_count_entries(dir), 1);
}

/* Names that differ by case alone are one file: a lock and a replaced file are the same by both. */
static void test_other_case(void **state) {
    (void)state;
    char *large = in_dir("Model.JSON"), *small = in_dir("model.json");
    test_write_file(large, "before", 6);
    int first = open(large, O_RDWR), second = open(small, O_RDWR);
    assert_int_equal(flock(first, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(flock(second, LOCK_EX | LOCK_NB), -1);
    close(first);
    close(second);
    assert_int_equal(mica_file_save(small, "after", 5), MICA_OK);
    check_text(large, "after");
    assert_int_equal(test_count_entries(dir), 1);
    free(large);
    free(small);
}

/* Saves, locks and folders leave no handles behind, where they fail neither. */
static void test_handles(void **state) {
    (void)state;
    char *path = in_dir("a"), *none = in_dir("NUL/x");
    size_t before = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 2) before = test_count_handles();
        assert_int_equal(mica_file_save(path, "x", 1), MICA_OK);
        assert_int_not_equal(mica_file_save(none, "x", 1), MICA_OK);
        int fd = open(dir, O_RDONLY | O_DIRECTORY), same = open(dir, O_RDONLY | O_DIRECTORY);
        assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(flock(same, LOCK_EX | LOCK_NB), -1);
        close(fd);
        close(same);
        closedir(opendir(dir));
        free(realpath(path, NULL));
        assert_int_equal(access(path, W_OK), 0);
    }
    assert_int_equal(test_count_handles(), before);
    free(path);
    free(none);
}

/* What a server keeps uploaded files in: its name goes with unlink, and the folder's name has any
 * letters. */
static void test_unnamed(void **state) {
    (void)state;
    char *below = in_dir("\xc3\xbcn\xe2\x82\xac"), *path = test_format("%s/x-XXXXXX", below);
    char *other = test_format("%s", path), text[5] = "";
    assert_int_equal(mkdir(below, 0777), 0);
    int fd = mkstemp(path), more = mkstemp(other);
    assert_true(fd >= 0 && more >= 0);
    assert_string_not_equal(path, other);
    assert_int_equal(strncmp(path + strlen(below), "/x-", 3), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(write(fd, "text", 4), 4);
    assert_int_equal(pread(fd, text, 4, 0), 4);
    assert_string_equal(text, "text");
    close(fd);
    close(more);
    assert_int_equal(test_count_entries(below), 0);
    strcpy(other, path);
    rmdir(below);
    assert_int_equal(mkstemp(other), -1);
    assert_int_equal(errno, ENOENT);
    free(below);
    free(path);
    free(other);
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
        cmocka_unit_test_setup_teardown(test_aliases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_pairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rename_to_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replace_read_only, set_up, tear_down),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test_setup_teardown(test_long_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replace_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_by_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors, set_up, tear_down),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_poll_left_out),
        cmocka_unit_test(test_short_timeout),
        cmocka_unit_test(test_roots),
        cmocka_unit_test_setup_teardown(test_save_backslashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_save_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_save_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_case, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_handles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unnamed, set_up, tear_down),
        cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

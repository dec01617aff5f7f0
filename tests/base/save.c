/* base/save: files that are written whole or not at all, and other things at their paths. */
#define _XOPEN_SOURCE 700
#include "base/save.h"

#include "support/support.h"

#include <mica/file.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char *dir, *path; /* a new folder, and "dir/file" */

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    path = test_format("%s/file", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(path);
    test_temp_dir_remove(dir);
    return 0;
}

static void save(const char *to, const char *text) {
    if (mica_file_save(to, text, strlen(text)) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void expect_text(const char *file, const char *text) {
    char *found = test_read_file(file, NULL);
    assert_string_equal(found, text);
    free(found);
}

static mode_t mode_of(const char *file) {
    struct stat info;
    assert_int_equal(lstat(file, &info), 0);
    return info.st_mode;
}

static void test_whole(void **state) {
    (void)state;
    mc_save open;
    save(path, "one");
    save(path, "");
    expect_text(path, "");
    save(path, "two");
    assert_int_equal(mc_save_open(&open, path), MICA_OK);
    assert_true(fputs("half of", open.file) >= 0);
    expect_text(path, "two");
    assert_int_equal(mc_save_close(&open, MICA_ECANCELLED), MICA_ECANCELLED);
    expect_text(path, "two");
    assert_int_equal(test_count_entries(dir), 1);
    assert_int_equal(mica_file_save(NULL, "", 0), MICA_EINVAL);
    assert_int_equal(mica_file_save(path, NULL, 1), MICA_EINVAL);
}

static void test_refused(void **state) {
    (void)state;
    char *none = test_format("%s/none/file", dir);
    assert_int_equal(mica_file_save(none, "a", 1), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), none));
    assert_int_equal(mica_file_save(dir, "a", 1), MICA_EIO);
    assert_int_equal(mica_file_save("", "a", 1), MICA_ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mica_file_save(path, "a", 1), MICA_EIO); /* and does not wait for a reader */
    assert_true(S_ISFIFO(mode_of(path)));
    assert_int_equal(test_count_entries(dir), 1);
    free(none);
}

/* ---- links and devices ---- */

static void test_links(void **state) {
    (void)state;
    char *deep = test_format("%s/deep", dir), *file = test_format("%s/deep/file", dir);
    char *second = test_format("%s/deep/second", dir);
    assert_int_equal(mkdir(deep, 0700), 0);
    assert_int_equal(symlink("deep/second", path), 0); /* dir/file -> deep/second -> deep/file */
    assert_int_equal(symlink("file", second), 0);
    save(path, "made"); /* nothing is there yet */
    expect_text(file, "made");
    save(path, "replaced");
    expect_text(file, "replaced");
    assert_true(S_ISLNK(mode_of(path)) && S_ISLNK(mode_of(second)) && S_ISREG(mode_of(file)));
    assert_int_equal(test_count_entries(deep), 2);
    remove(second);
    assert_int_equal(symlink(file, second), 0); /* from the root */
    save(path, "absolute");
    expect_text(file, "absolute");
    remove(second);
    assert_int_equal(symlink("second", second), 0); /* a circle */
    assert_int_equal(mica_file_save(path, "a", 1), MICA_EIO);
    free(second);
    free(file);
    free(deep);
}

/* Through links, so that no mistake replaces the system's own. */
static void test_devices(void **state) {
    (void)state;
    assert_int_equal(symlink("/dev/null", path), 0);
    save(path, "gone");
    assert_true(S_ISLNK(mode_of(path)));
    if (access("/dev/full", W_OK) != 0) return;
    remove(path);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(mica_file_save(path, "a", 1), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), strerror(ENOSPC)));
    assert_true(S_ISLNK(mode_of(path)));
}

/* What an open descriptor names is not opened anew: what was written there before stays, and a pipe
 * is no FIFO that nobody may read. */
static void test_descriptors(void **state) {
    (void)state;
    char *link = test_format("%s/link", dir), text[8] = {0};
    int pipes[2], fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && pipe(pipes) == 0);
    char *name = test_format("/dev/fd/%d", fd), *proc = test_format("/proc/self/fd/%d", fd);
    char *pipe_name = test_format("/dev/fd/%d", pipes[1]);
    if (access(name, F_OK) == 0) {
        assert_int_equal(symlink(name, link), 0);
        assert_int_equal(write(fd, "said ", 5), 5);
        save(name, "one ");
        save(link, "two ");
        assert_int_equal(write(fd, "three", 5), 5);
        expect_text(path, "said one two three");
        if (access(proc, F_OK) == 0) save(proc, " four");
        assert_int_equal(test_count_entries(dir), 2);
        save(pipe_name, "sent");
        assert_int_equal(read(pipes[0], text, sizeof text), 4);
        assert_string_equal(text, "sent");
    }
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(mica_file_save(name, "a", 1), MICA_EIO); /* it is closed */
    assert_int_equal(mica_file_save("/dev/fd/99999999999", "a", 1), MICA_ENOENT);
    free(pipe_name);
    free(proc);
    free(name);
    free(link);
}

/* A link of /proc to a file that was removed says a name that is none. */
static void test_removed_file(void **state) {
    (void)state;
    char *link = test_format("%s/link", dir), text[8] = {0};
    FILE *file = fopen(path, "w+b");
    assert_non_null(file);
    char *proc = test_format("/proc/%ld/fd/%d", (long)getpid(), fileno(file));
    assert_int_equal(symlink(proc, link), 0);
    if (access(link, F_OK) == 0) {
        remove(path);
        save(link, "kept");
        assert_int_equal(fread(text, 1, sizeof text, file), 4);
        assert_string_equal(text, "kept");
        assert_int_equal(test_count_entries(dir), 1);
    }
    fclose(file);
    free(proc);
    free(link);
}

/* ---- the disk ---- */

static struct {
    bool watches, fails;
    int files, folders; /* that were synced */
    bool early; /* a file was while the target was still the old one, and had all its bytes */
} disk;

/* In place of the C library's, which the library calls. */
int fsync(int fd) {
    struct stat info;
    if (!disk.watches) return 0;
    assert_int_equal(fstat(fd, &info), 0);
    if (S_ISDIR(info.st_mode)) {
        disk.folders++;
        return 0;
    }
    disk.files++;
    disk.early = info.st_size == 3;
    expect_text(path, "old");
    errno = EIO;
    return disk.fails ? -1 : 0;
}

/* A file has its name once the disk has its bytes; where the disk fails, the old one stays. */
static void test_synced(void **state) {
    (void)state;
    save(path, "old");
    disk.watches = true;
    disk.fails = true;
    assert_int_equal(mica_file_save(path, "new", 3), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), strerror(EIO)));
    assert_int_equal(disk.folders, 0);
    expect_text(path, "old");
    disk.fails = false;
    save(path, "new");
    disk.watches = false;
    assert_int_equal(disk.files, 2);
    assert_int_equal(disk.folders, 1);
    assert_true(disk.early);
    expect_text(path, "new");
    assert_int_equal(test_count_entries(dir), 1);
}

/* ---- modes and owners ---- */

static void test_modes(void **state) {
    (void)state;
    static const mode_t modes[] = {0600, 0640, 0664, 0666, 0755};
    mode_t mask = umask(027);
    save(path, "new");
    assert_int_equal(mode_of(path) & 07777, 0640);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        save(path, "again");
        assert_int_equal(mode_of(path) & 07777, modes[i]);
    }
    umask(mask);
}

static void test_owner(void **state) {
    (void)state;
    struct stat info;
    save(path, "theirs");
    if (chown(path, NOBODY, NOBODY) != 0) return; /* only root may */
    save(path, "still");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, NOBODY);
    assert_int_equal(info.st_gid, NOBODY);
}

/* Files of somebody else, and folders that take none. */
static void test_without_rights(void **state) {
    (void)state;
    struct stat info;
    save(path, "root's");
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    if (!test_lose_rights()) return;
    mica_status written = mica_file_save(path, "nobody's", 8);
    test_regain_rights();
    assert_int_equal(chmod(dir, 0555), 0);
    assert_true(test_lose_rights());
    mica_status closed = mica_file_save(path, "in place", 8);
    test_regain_rights();
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_true(test_lose_rights());
    mica_status protected = mica_file_save(path, "lost", 4);
    test_regain_rights();
    assert_int_equal(written, MICA_OK);
    assert_int_equal(closed, MICA_OK);
    assert_int_equal(protected, MICA_EIO);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, geteuid());
    expect_text(path, "in place");
    assert_int_equal(test_count_entries(dir), 1);
}

/* ---- processes that are killed, and several at once ---- */

/* Begins `count` saves, and ends without ending them. */
static void be_killed(int count) {
    pid_t child = fork();
    int code;
    assert_true(child >= 0);
    if (child == 0) {
        mc_save saves[8];
        for (int i = 0; i < count; i++)
            if (mc_save_open(&saves[i], path) != MICA_OK || fputs("half", saves[i].file) < 0 ||
                fflush(saves[i].file) != 0)
                _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

static void test_leftovers(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++)
        be_killed(1);
    assert_int_equal(test_count_entries(dir), 1);
    be_killed(8);
    assert_int_equal(test_count_entries(dir), 8);
    save(path, "whole");
    expect_text(path, "whole");
    assert_int_equal(test_count_entries(dir), 1);
}

static void test_several_at_once(void **state) {
    (void)state;
    mc_save first, second;
    assert_int_equal(mc_save_open(&first, path), MICA_OK);
    assert_int_equal(mc_save_open(&second, path), MICA_OK);
    be_killed(2);
    assert_true(fputs("first", first.file) >= 0);
    assert_true(fputs("second", second.file) >= 0);
    assert_int_equal(mc_save_close(&second, MICA_OK), MICA_OK);
    expect_text(path, "second");
    save(path, "third");
    expect_text(path, "third");
    assert_int_equal(mc_save_close(&first, MICA_OK), MICA_OK);
    expect_text(path, "first");
    save(path, "last");
    assert_int_equal(test_count_entries(dir), 1);
}

/* Every save ends well, and what is there is one of them, whole. */
static void test_many_processes(void **state) {
    (void)state;
    enum { PROCESSES = 4, SAVES = 200, BYTES = 5000 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0) continue;
        char text[BYTES];
        memset(text, 'a' + i, sizeof text);
        for (int j = 0; j < SAVES; j++)
            if (mica_file_save(path, text, sizeof text) != MICA_OK) _exit(1);
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int code;
        assert_int_equal(waitpid(children[i], &code, 0), children[i]);
        assert_int_equal(code, 0);
    }
    size_t size;
    char *text = test_read_file(path, &size);
    assert_int_equal(size, BYTES);
    for (size_t i = 1; i < size; i++)
        assert_int_equal(text[i], text[0]);
    free(text);
    assert_int_equal(test_count_entries(dir), 1);
}

/* ---- memory ---- */

static bool save_once(void *arg) {
    (void)arg;
    assert_true(test_count_entries(dir) <= 1);
    return mica_file_save(path, "text", 4) == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(save_once, NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_whole),          CASE(test_refused),     CASE(test_links),
        CASE(test_devices),        CASE(test_descriptors), CASE(test_removed_file),
        CASE(test_synced),         CASE(test_modes),       CASE(test_owner),
        CASE(test_without_rights), CASE(test_leftovers),   CASE(test_several_at_once),
        CASE(test_many_processes), CASE(test_no_memory),
    };
    return cmocka_run_group_tests_name("base/save", tests, NULL, NULL);
}

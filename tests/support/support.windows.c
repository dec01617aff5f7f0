/* What tests ask of the system. */
#include "support/support.h"
#include "support/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/windows/posix.h"

#include <shellapi.h>

bool test_process_lives(int64_t pid) {
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)pid);
    bool lives = process && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    if (process) CloseHandle(process);
    return lives;
}

size_t test_count_handles(void) {
    DWORD count = 0;
    return GetProcessHandleCount(GetCurrentProcess(), &count) ? count : 0;
}

bool test_has_links(void) {
    return false;
}

bool test_has_modes(void) {
    return false;
}

bool test_has_socket_files(void) {
    return false; /* Windows has them, Wine 8 has not */
}

bool test_frees_names(void) {
    return false; /* NTFS does since Windows 10 1809, Wine does not */
}

bool test_limit_files(uint64_t count) {
    (void)count;
    return false;
}

bool test_make_fifo(const char *path) {
    (void)path;
    return false;
}

bool test_limit_file_bytes(uint64_t bytes) {
    (void)bytes;
    return false;
}

char **test_utf8_arguments(char **argv) {
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **all = calloc((size_t)count + 1, sizeof *all);
    (void)argv;
    assert_true(wide && all);
    for (int i = 0; i < count; i++)
        assert_non_null(all[i] = mc_utf8_of(wide[i]));
    LocalFree(wide);
    return all;
}

void test_set_binary(void) {
    for (int fd = 0; fd <= 2; fd++)
        _setmode(fd, _O_BINARY);
}

void test_die(void) {
    TerminateProcess(GetCurrentProcess(), 1);
    abort();
}

void test_restore_signals(void) {}

bool test_spawn_tells(void) {
    return true;
}

/* A name that this program has not given yet, in the folder for temporary files. */
static char *new_name(void) {
    static int number;
    const char *base = getenv("TEMP");
    char *name = test_format("%s/mica-test-%d-%d", base ? base : ".", _getpid(), number++);
    for (char *at = name; *at; at++)
        if (*at == '\\') *at = '/';
    return name;
}

/* ---- files that go ---- */

static test_list aside; /* files that were mapped when they were removed */

static void remove_aside(void) {
    for (size_t i = 0; i < aside.count; i++)
        (void)remove(aside.names[i]);
}

/* A file that is mapped cannot be removed, but gets another name. */
static bool remove_file(const char *path) {
    if (remove(path) == 0) return true;
    char *to = new_name();
    char **names = realloc(aside.names, (aside.count + 1) * sizeof *names);
    assert_non_null(names);
    aside.names = names;
    if (rename(path, to) != 0) {
        free(to);
        return false;
    }
    if (aside.count == 0) assert_int_equal(atexit(remove_aside), 0);
    aside.names[aside.count++] = to;
    return true;
}

void test_remove_file(const char *path) {
    if (!remove_file(path)) fail_msg("%s: %s", path, strerror(errno));
}

char *test_temp_dir(void) {
    for (;;) {
        char *dir = new_name();
        if (mkdir(dir, 0700) == 0) return dir;
        if (errno != EEXIST) fail_msg("%s: %s", dir, strerror(errno));
        free(dir);
    }
}

/* Removes all below a path, and the path. */
static bool remove_tree(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) return false;
    DIR *dir = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    bool done = true;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *below = test_format("%s/%s", path, entry->d_name);
        done = remove_tree(below) && done;
        free(below);
    }
    if (dir) closedir(dir);
    return (S_ISDIR(info.st_mode) ? remove(path) == 0 : remove_file(path)) && done;
}

void test_temp_dir_remove(char *dir) {
    if (!dir) return;
    if (!remove_tree(dir)) fail_msg("%s: not removed", dir);
    free(dir);
}

bool test_lose_rights(void) {
    return false;
}

void test_regain_rights(void) {}

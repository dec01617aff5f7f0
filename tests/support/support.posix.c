/* What tests ask of the system. */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE /* mkdtemp */

#include "support/support.h"
#include "support/system.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool test_process_lives(int64_t pid) {
    char *path = test_format("/proc/%lld/stat", (long long)pid), text[256] = "";
    FILE *file = fopen(path, "r");
    free(path);
    if (!file) return access("/proc/self/stat", R_OK) != 0 && kill((pid_t)pid, 0) == 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] != 'Z' && state[2] != 'X';
}

size_t test_count_handles(void) {
    return access("/proc/self/fd", R_OK) == 0 ? test_count_entries("/proc/self/fd") : 0;
}

bool test_has_links(void) {
    return true;
}

bool test_has_modes(void) {
    return true;
}

bool test_has_socket_files(void) {
    return true;
}

bool test_frees_names(void) {
    return true;
}

void test_remove_file(const char *path) {
    if (unlink(path) != 0) fail_msg("%s: %s", path, strerror(errno));
}

/* Sets a limit of this process, and with 0 what it was before. */
static void limit(int what, struct rlimit *before, uint64_t to) {
    if (to) assert_int_equal(getrlimit(what, before), 0);
    struct rlimit now = *before;
    if (to) now.rlim_cur = to;
    assert_int_equal(setrlimit(what, &now), 0);
}

bool test_limit_files(uint64_t count) {
    static struct rlimit before;
    limit(RLIMIT_NOFILE, &before, count);
    return true;
}

bool test_make_fifo(const char *path) {
    if (mkfifo(path, 0666) != 0) fail_msg("%s: %s", path, strerror(errno));
    return true;
}

bool test_limit_file_bytes(uint64_t bytes) {
    static struct rlimit before;
    if (bytes) signal(SIGXFSZ, SIG_IGN); /* writing fails then */
    limit(RLIMIT_FSIZE, &before, bytes);
    return true;
}

char **test_utf8_arguments(char **argv) {
    return argv;
}

void test_set_binary(void) {}

void test_die(void) {
    raise(SIGKILL);
    abort();
}

void test_restore_signals(void) {
    signal(SIGPIPE, SIG_DFL);
}

bool test_spawn_tells(void) {
    extern char **environ;
    char *const nothing[] = {"mica-has-no-such-program", NULL};
    pid_t pid;
    if (posix_spawnp(&pid, nothing[0], NULL, NULL, nothing, environ) != 0) return true;
    waitpid(pid, NULL, 0);
    return false;
}

char *test_temp_dir(void) {
    const char *base = getenv("TMPDIR");
    char *dir = test_format("%s/mica-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(dir)) fail_msg("%s: %s", dir, strerror(errno));
    if (chmod(dir, 0755)) fail_msg("%s: %s", dir, strerror(errno)); /* see test_lose_rights */
    return dir;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

void test_temp_dir_remove(char *dir) {
    if (!dir) return;
    if (nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS)) fail_msg("%s: not removed", dir);
    free(dir);
}

bool test_lose_rights(void) {
    enum { NOBODY = 65534 };
    return geteuid() != 0 || seteuid(NOBODY) == 0;
}

void test_regain_rights(void) {
    if (getuid() == 0 && seteuid(0)) fail_msg("seteuid: %s", strerror(errno));
}

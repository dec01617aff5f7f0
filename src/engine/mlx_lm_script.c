#define _DEFAULT_SOURCE  /* mkdtemp */
#define _DARWIN_C_SOURCE /* the same there */

#include "engine/mlx_lm_script.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[4096], script[4096 + 16]; /* "": not written */
static dev_t folder_dev;
static ino_t folder_ino;
static pid_t writer; /* the process that wrote it: a fork of it removes nothing */

/* Whether the folder is still the one that was made: once a cleaner has removed it, anybody may
 * have made another of its name. */
static bool is_ours(void) {
    struct stat info;
    return *script && writer == getpid() && lstat(folder, &info) == 0 && S_ISDIR(info.st_mode) &&
           info.st_dev == folder_dev && info.st_ino == folder_ino && info.st_uid == geteuid() &&
           (info.st_mode & 07777) == 0700;
}

static void remove_script(void) {
    if (is_ours()) {
        unlink(script);
        rmdir(folder);
    }
    *script = 0;
}

/* At the process's end, or when the library is unloaded. */
__attribute__((destructor)) static void remove_at_end(void) {
    remove_script();
}

/* Whether the file is still there, whole. */
static bool is_there(void) {
    struct stat info;
    return is_ours() && lstat(script, &info) == 0 && S_ISREG(info.st_mode) &&
           info.st_size == (off_t)mc_mlx_lm_bridge_bytes;
}

static bool write_all(int fd) {
    const unsigned char *at = mc_mlx_lm_bridge;
    for (size_t left = mc_mlx_lm_bridge_bytes; left > 0;) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

static mica_status write_script(void) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    int n = snprintf(folder, sizeof folder, "%s/mica-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof folder)
        return mc_fail(MICA_EIO, "$TMPDIR is longer than %zu bytes", sizeof folder);
    if (!mkdtemp(folder)) return mc_fail_errno(errno, "cannot make a folder below %s", parent);
    struct stat info;
    if (lstat(folder, &info) != 0) return mc_fail_errno(errno, "cannot open %s", folder);
    folder_dev = info.st_dev;
    folder_ino = info.st_ino;
    snprintf(script, sizeof script, "%s/bridge.py", folder);
    writer = getpid();
    int fd = open(script, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write_all(fd);
    int error = errno;
    if (fd >= 0 && close(fd) != 0) written = false;
    if (written) return MICA_OK;
    mica_status status = mc_fail_errno(error, "cannot write %s", script);
    remove_script();
    return status;
}

mica_status mc_mlx_lm_script(char **path) {
    pthread_mutex_lock(&lock);
    mica_status status = MICA_OK;
    if (!is_there()) {
        remove_script();
        status = write_script();
    }
    *path = status == MICA_OK ? mc_strdup(script) : NULL;
    pthread_mutex_unlock(&lock);
    return status == MICA_OK && !*path ? mc_fail_nomem("the path of a script") : status;
}

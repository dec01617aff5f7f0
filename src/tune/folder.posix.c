#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE

#include "tune/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

mica_status mc_folder_check(const char *path) {
    if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0) return MICA_OK;
    return mc_fail_errno(errno, "%s: no file can be made in it", path);
}

mica_status mc_folder_lock(const char *path, int *lock) {
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return mc_fail_errno(errno, "%s", path);
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return MICA_OK;
    bool taken = errno == EWOULDBLOCK;
    mc_folder_unlock(lock);
    if (!taken) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%s: another training writes to this folder: name another one, or wait for its "
                   "end",
                   path);
}

void mc_folder_unlock(int *lock) {
    if (*lock >= 0) close(*lock);
    *lock = -1;
}

#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE

#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

mica_status mc_regular_open(const char *path, int *fd) {
    struct stat info;
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0) return mc_fail_errno(errno, "cannot write %s", path);
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) return MICA_OK;
    close(*fd);
    *fd = -1;
    return mc_fail(MICA_EIO, "cannot write %s: it is no regular file", path);
}

mica_status mc_lock_try(const char *path, int *lock) {
    int fd;
    struct stat ours, there;
    *lock = -1;
    MC_TRY(mc_regular_open(path, &fd));
    bool lost = (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
                fstat(fd, &ours) != 0 || lstat(path, &there) != 0 || ours.st_dev != there.st_dev ||
                ours.st_ino != there.st_ino;
    if (lost)
        close(fd);
    else
        *lock = fd;
    return MICA_OK;
}

void mc_lock_release(int *lock) {
    if (*lock >= 0) close(*lock);
    *lock = -1;
}

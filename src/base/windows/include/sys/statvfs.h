/* Windows: see windows/posix.h. */
#ifndef POSIX_SYS_STATVFS_H
#define POSIX_SYS_STATVFS_H

#include <stdint.h>

struct statvfs {
    uint64_t f_bavail, f_frsize; /* blocks of 1 byte */
};

int statvfs(const char *path, struct statvfs *info) __asm__("mc_posix_statvfs");

#endif

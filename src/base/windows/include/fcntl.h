/* Windows: see windows/posix.h. */
#ifndef POSIX_FCNTL_H
#define POSIX_FCNTL_H

#pragma GCC system_header /* include_next */
#include_next <fcntl.h>

#include <sys/types.h>

/* Bits that the C library's own _O_* leave free. */
#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0x4000000 /* of sockets alone */
#define O_NOCTTY 0
#define O_NOFOLLOW 0x1000000
#define O_DIRECTORY 0x2000000

#define AT_FDCWD (-100)
#define AT_EACCESS 0x200
#define AT_SYMLINK_NOFOLLOW 0x100

#define F_GETFD 1
#define F_SETFD 2
#define F_SETFL 4
#define FD_CLOEXEC 1
#define F_DUPFD_CLOEXEC 1030

#ifdef __cplusplus
extern "C" {
#endif

/* Files are shared also for renaming and removal, as POSIX has it, and bytes are never changed. */
int open(const char *path, int flags, ...) __asm__("mc_posix_open");
/* F_GETFD and F_DUPFD_CLOEXEC of files, F_SETFD and F_SETFL of sockets. */
int fcntl(int fd, int command, ...) __asm__("mc_posix_fcntl");
int faccessat(int at, const char *path, int mode, int flags) __asm__("mc_posix_faccessat");

#ifdef __cplusplus
}
#endif

#endif

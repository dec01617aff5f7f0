/* Windows: see windows/posix.h. */
#ifndef POSIX_UNISTD_H
#define POSIX_UNISTD_H

#define ftruncate mc_c_ftruncate
#define rmdir mc_c_rmdir
#pragma GCC system_header /* include_next */
#include_next <unistd.h>
#undef ftruncate
#undef rmdir

#include <sys/types.h>

#define F_OK 0
#define X_OK 1
#define W_OK 2
#define R_OK 4
#define _SC_PAGESIZE 30

#ifdef __cplusplus
extern "C" {
#endif

int access(const char *path, int mode) __asm__("mc_posix_access");
int unlink(const char *path) __asm__("mc_posix_unlink");
int rmdir(const char *path) __asm__("mc_posix_rmdir");
int link(const char *from, const char *to) __asm__("mc_posix_link"); /* or a copy */
int symlink(const char *target, const char *path) __asm__("mc_posix_symlink");
ssize_t readlink(const char *path, char *text, size_t bytes) __asm__("mc_posix_readlink");
ssize_t pread(int fd, void *bytes, size_t n, off_t at) __asm__("mc_posix_pread");
int close(int fd) __asm__("mc_posix_close");
int unlinkat(int folder, const char *name, int flags) __asm__("mc_posix_unlinkat"); /* flags: 0 */
int fchown(int fd, unsigned user, unsigned group) __asm__("mc_posix_fchown");       /* fails */
ssize_t read(int fd, void *bytes, size_t n) __asm__("mc_posix_read");
ssize_t write(int fd, const void *bytes, size_t n) __asm__("mc_posix_write");
off_t lseek(int fd, off_t by, int from) __asm__("_lseeki64");
int ftruncate(int fd, off_t bytes) __asm__("mc_posix_ftruncate");
int pipe(int ends[2]) __asm__("mc_posix_pipe"); /* sockets */
int fsync(int fd) __asm__("mc_posix_fsync");
int isatty(int fd) __asm__("mc_posix_isatty"); /* a console; not NUL */
int gethostname(char *text, size_t bytes) __asm__("mc_posix_gethostname");
long sysconf(int name) __asm__("mc_posix_sysconf"); /* _SC_PAGESIZE */

#ifdef __cplusplus
}
#endif

#endif

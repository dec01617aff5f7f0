/* Windows: see windows/posix.h. */
#ifndef POSIX_SYS_FILE_H
#define POSIX_SYS_FILE_H

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8

/* Of a file a byte far behind its end is locked: nobody reads or writes that. Of a folder, which
 * Windows does not lock, a system-wide name made of its number is taken. */
int flock(int fd, int operation) __asm__("mc_posix_flock");

#endif

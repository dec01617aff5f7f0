/* Windows: see windows/posix.h. The C library's has neither links nor the number of a file. */
#ifndef POSIX_SYS_STAT_H
#define POSIX_SYS_STAT_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct stat {
    uint64_t st_dev, st_ino;
    unsigned st_mode, st_nlink, st_uid, st_gid;
    int64_t st_size;
    struct timespec st_mtim, st_ctim;
};
#define st_mtime st_mtim.tv_sec
#define st_ctime st_ctim.tv_sec

#define S_IFMT 0xF000u
#define S_IFSOCK 0xC000u
#define S_IFLNK 0xA000u
#define S_IFREG 0x8000u
#define S_IFDIR 0x4000u
#define S_IFCHR 0x2000u
#define S_IFIFO 0x1000u
#define S_IRWXU 0700u
#define S_IRWXG 0070u
#define S_IRWXO 0007u
#define S_IRUSR 0400u
#define S_IWUSR 0200u
#define S_ISREG(mode) (((mode)&S_IFMT) == S_IFREG)
#define S_ISDIR(mode) (((mode)&S_IFMT) == S_IFDIR)
#define S_ISCHR(mode) (((mode)&S_IFMT) == S_IFCHR)
#define S_ISFIFO(mode) (((mode)&S_IFMT) == S_IFIFO)
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define S_ISSOCK(mode) (((mode)&S_IFMT) == S_IFSOCK)

#ifdef __cplusplus
extern "C" {
#endif

int stat(const char *path, struct stat *info) __asm__("mc_posix_stat");
int lstat(const char *path, struct stat *info) __asm__("mc_posix_lstat");
int fstat(int fd, struct stat *info) __asm__("mc_posix_fstat");
int fstatat(int folder, const char *name, struct stat *info, int flags) __asm__("mc_posix_fstatat");
/* 0600: for the user alone; other modes are not kept. */
int fchmod(int fd, mode_t mode) __asm__("mc_posix_fchmod");
int chmod(const char *path, mode_t mode) __asm__("mc_posix_chmod"); /* as fchmod */
mode_t umask(mode_t mask) __asm__("mc_posix_umask");                /* is not kept */
int mkdir(const char *path, mode_t mode) __asm__("mc_posix_mkdir"); /* the mode is not kept */

#ifdef __cplusplus
}
#endif

#endif

/* Windows: see windows/posix.h. */
#ifndef POSIX_DIRENT_H
#define POSIX_DIRENT_H

#include <sys/types.h>

struct dirent {
    char d_name[3 * 260]; /* UTF-8 */
};
typedef struct mc_posix_dir DIR;

DIR *opendir(const char *path) __asm__("mc_posix_opendir");
DIR *fdopendir(int fd) __asm__("mc_posix_fdopendir");
int dirfd(DIR *dir) __asm__("mc_posix_dirfd");
struct dirent *readdir(DIR *dir) __asm__("mc_posix_readdir");
void rewinddir(DIR *dir) __asm__("mc_posix_rewinddir");
int closedir(DIR *dir) __asm__("mc_posix_closedir");

#endif

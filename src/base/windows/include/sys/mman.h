/* Windows: see windows/posix.h. */
#ifndef POSIX_SYS_MMAN_H
#define POSIX_SYS_MMAN_H

#include <sys/types.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 32
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 4
#define POSIX_MADV_WILLNEED 3

/* A whole file to read, or new pages to read and write. */
void *mmap(void *at, size_t bytes, int rights, int flags, int fd,
           off_t from) __asm__("mc_posix_mmap");
int munmap(void *memory, size_t bytes) __asm__("mc_posix_munmap");
int mprotect(void *memory, size_t bytes, int rights) __asm__("mc_posix_mprotect");
int mlock(const void *memory, size_t bytes) __asm__("mc_posix_mlock");
int munlock(const void *memory, size_t bytes) __asm__("mc_posix_munlock");
int madvise(void *memory, size_t bytes, int advice) __asm__("mc_posix_madvise");
int posix_madvise(void *memory, size_t bytes, int advice) __asm__("mc_posix_posix_madvise");
int mincore(void *memory, size_t bytes, void *present) __asm__("mc_posix_mincore"); /* one page */

#endif

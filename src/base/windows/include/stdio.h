/* Windows: see windows/posix.h. */
#ifndef POSIX_STDIO_H
#define POSIX_STDIO_H

#pragma GCC system_header /* include_next */
#include_next <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

FILE *fopen(const char *path, const char *mode) __asm__("mc_posix_fopen");
int rename(const char *from, const char *to) __asm__("mc_posix_rename"); /* replaces a file */
int remove(const char *path) __asm__("mc_posix_remove");

#ifdef __cplusplus
}
#endif

#endif

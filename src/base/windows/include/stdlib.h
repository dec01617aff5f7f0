/* Windows: see windows/posix.h. */
#ifndef POSIX_STDLIB_H
#define POSIX_STDLIB_H

#pragma GCC system_header /* include_next */
#include_next <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The text lives as long as the program. HOME is also the user's folder (USERPROFILE), TMPDIR that
 * for temporary files (TEMP). */
char *getenv(const char *name) __asm__("mc_posix_getenv");
int setenv(const char *name, const char *value, int replace) __asm__("mc_posix_setenv");
int unsetenv(const char *name) __asm__("mc_posix_unsetenv");
char *realpath(const char *path, char *resolved) __asm__("mc_posix_realpath"); /* resolved: NULL */
int mkstemp(char *path) __asm__("mc_posix_mkstemp"); /* may be removed while it is open */

#ifdef __cplusplus
}
#endif

#endif

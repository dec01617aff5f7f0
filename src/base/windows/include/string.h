/* Windows: see windows/posix.h. */
#ifndef POSIX_STRING_H
#define POSIX_STRING_H

#pragma GCC system_header /* include_next */
#include_next <string.h>

#ifdef __cplusplus
extern "C" {
#endif

int strerror_r(int error, char *text, size_t bytes) __asm__("mc_posix_strerror_r");

#ifdef __cplusplus
}
#endif

#endif

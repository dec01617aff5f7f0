/* Windows: see windows/posix.h. */
#ifndef POSIX_SYS_RANDOM_H
#define POSIX_SYS_RANDOM_H

#include <stddef.h>

int getentropy(void *bytes, size_t n) __asm__("mc_posix_getentropy");

#endif

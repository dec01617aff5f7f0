/* Windows: see windows/posix.h. */
#ifndef POSIX_FNMATCH_H
#define POSIX_FNMATCH_H

#define FNM_PATHNAME 1
#define FNM_NOMATCH 1

/* *, ?, [a-z] and [!a-z], byte by byte. FNM_PATHNAME: none of them stands for a slash. */
int fnmatch(const char *pattern, const char *text, int flags) __asm__("mc_posix_fnmatch");

#endif

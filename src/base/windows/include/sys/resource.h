/* Windows: see windows/posix.h. */
#ifndef POSIX_SYS_RESOURCE_H
#define POSIX_SYS_RESOURCE_H

#include <stdint.h>

typedef uint64_t rlim_t;
struct rlimit {
    rlim_t rlim_cur, rlim_max;
};
#define RLIM_INFINITY UINT64_MAX
#define RLIMIT_CPU 0
#define RLIMIT_MEMLOCK 8
#define RLIMIT_NOFILE 7

/* The working set's limit is raised for locks, and handles have none: infinite. */
static inline int getrlimit(int what, struct rlimit *limit) {
    (void)what;
    limit->rlim_cur = limit->rlim_max = RLIM_INFINITY;
    return 0;
}

/* They stay so. */
static inline int setrlimit(int what, const struct rlimit *limit) {
    (void)what, (void)limit;
    return 0;
}

#endif

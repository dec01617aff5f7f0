/* A library for LD_PRELOAD that makes the n-th allocation of a process fail: malloc itself, whoever
 * calls it. Constructors and the linker's own work are not counted.
 *
 *   FAIL_MALLOC_AT    n; 1 is the first
 *   FAIL_MALLOC_REST  set: all after it fail too
 *   FAIL_MALLOC_FD    a descriptor to which a byte is written when the n-th is asked for */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

/* glibc's own names for what is replaced here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static _Atomic unsigned long count;
static unsigned long fail_at; /* 0: never */
static bool fail_rest;
static int told = -1;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_MALLOC_AT"), *fd = getenv("FAIL_MALLOC_FD");
    fail_rest = getenv("FAIL_MALLOC_REST") != NULL;
    told = fd ? atoi(fd) : -1;
    atomic_store(&count, 0);
    fail_at = at ? strtoul(at, NULL, 10) : 0;
}

static bool should_fail(void) {
    unsigned long mine = atomic_fetch_add(&count, 1) + 1;
    if (fail_at == 0 || mine < fail_at || (mine > fail_at && !fail_rest)) return false;
    if (mine == fail_at && told >= 0 && write(told, "!", 1) != 1) told = -1;
    errno = ENOMEM;
    return true;
}

SHOWN void *malloc(size_t bytes) {
    return should_fail() ? NULL : __libc_malloc(bytes);
}

SHOWN void *calloc(size_t n, size_t bytes) {
    return should_fail() ? NULL : __libc_calloc(n, bytes);
}

SHOWN void *realloc(void *ptr, size_t bytes) {
    return should_fail() ? NULL : __libc_realloc(ptr, bytes);
}

SHOWN void *aligned_alloc(size_t align, size_t bytes) {
    return should_fail() ? NULL : __libc_memalign(align, bytes);
}

SHOWN int posix_memalign(void **out, size_t align, size_t bytes) {
    if (should_fail()) return ENOMEM;
    void *made = __libc_memalign(align, bytes);
    if (!made) return ENOMEM;
    *out = made;
    return 0;
}

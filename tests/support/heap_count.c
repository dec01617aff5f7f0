/* Counts the bytes of a program's heap that live, without what the allocator keeps. For glibc.
 *
 * Linked into a test it gives heap_count. Preloaded (LD_PRELOAD) into another program, as
 * tools/check_serve.py does, it writes the number to the file that $HEAP_COUNT names, on SIGUSR2.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void heap_count(long long *bytes, long long *count);

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *ptr, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *ptr);

static atomic_llong live, blocks;
static char path[4096], part[4100];

static void *add(void *ptr) {
    if (!ptr) return NULL;
    atomic_fetch_add_explicit(&live, (long long)malloc_usable_size(ptr), memory_order_relaxed);
    atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    return ptr;
}

static void drop(void *ptr) {
    if (!ptr) return;
    atomic_fetch_sub_explicit(&live, (long long)malloc_usable_size(ptr), memory_order_relaxed);
    atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
}

void *malloc(size_t bytes) {
    return add(__libc_malloc(bytes));
}

void *calloc(size_t n, size_t bytes) {
    return add(__libc_calloc(n, bytes));
}

void *realloc(void *ptr, size_t bytes) {
    drop(ptr);
    void *moved = __libc_realloc(ptr, bytes);
    if (!moved && ptr && bytes) add(ptr); /* it is still there */
    return add(moved);
}

void *memalign(size_t align, size_t bytes) {
    return add(__libc_memalign(align, bytes));
}

void *aligned_alloc(size_t align, size_t bytes) {
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
    void *ptr = memalign(align, bytes);
    if (!ptr) return ENOMEM;
    *out = ptr;
    return 0;
}

void free(void *ptr) {
    drop(ptr);
    __libc_free(ptr);
}

void heap_count(long long *bytes, long long *count) {
    *bytes = atomic_load(&live);
    *count = atomic_load(&blocks);
}

/* In a file of its own first, so that whoever waits for the file reads all of it. */
static void write_count(int signal) {
    char text[64];
    int error = errno,
        n = snprintf(text, sizeof text, "%lld %lld\n", atomic_load(&live), atomic_load(&blocks));
    (void)signal;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, (size_t)n) == n) rename(part, path);
    if (fd >= 0) close(fd);
    errno = error;
}

__attribute__((constructor)) static void begin(void) {
    const struct sigaction action = {.sa_handler = write_count, .sa_flags = SA_RESTART};
    const char *file = getenv("HEAP_COUNT");
    if (!file) return;
    snprintf(path, sizeof path, "%s", file);
    snprintf(part, sizeof part, "%s.new", path);
    sigaction(SIGUSR2, &action, NULL);
}

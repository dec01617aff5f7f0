#define _POSIX_C_SOURCE 200809L /* posix_memalign */

#include "base/alloc.h"

#include <mica/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32 /* free does not take blocks of _aligned_malloc: all blocks are of that */
#include <malloc.h>
#define BLOCK_ALIGN 16
/* Wine's add what they need themselves to any size, and forget what does not fit. */
#define IS_SIZE(bytes) ((bytes) <= SIZE_MAX / 2)
#define malloc(bytes) (IS_SIZE(bytes) ? _aligned_malloc(bytes, BLOCK_ALIGN) : NULL)
#define realloc(ptr, bytes) (IS_SIZE(bytes) ? _aligned_realloc(ptr, bytes, BLOCK_ALIGN) : NULL)
#define free _aligned_free

static void *zeroed(size_t bytes) {
    void *ptr = malloc(bytes);
    return ptr ? memset(ptr, 0, bytes) : NULL;
}
#define calloc(n, bytes) zeroed((n) * (bytes))

static int posix_memalign(void **ptr, size_t align, size_t bytes) {
    *ptr = IS_SIZE(bytes) ? _aligned_malloc(bytes, align) : NULL;
    return *ptr ? 0 : 1;
}
#endif

static _Atomic uint64_t allocations; /* since the last mc_alloc_fail_at */
static _Atomic uint64_t fail_at;     /* 0: never */
static _Atomic uint64_t fail_to;     /* the last one that fails */

int mc_alloc_should_fail(void) {
    uint64_t mine = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    uint64_t limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return limit != 0 && mine >= limit &&
           mine <= atomic_load_explicit(&fail_to, memory_order_relaxed);
}

static void fail_from_to(uint64_t from, uint64_t to) {
    atomic_store(&allocations, 0);
    atomic_store(&fail_to, to);
    atomic_store(&fail_at, from);
}

void mc_alloc_fail_at(uint64_t n) {
    fail_from_to(n, UINT64_MAX);
}

void mc_alloc_fail_once(uint64_t n) {
    fail_from_to(n, n);
}

uint64_t mc_alloc_count(void) {
    return atomic_load(&allocations);
}

static bool multiply(size_t n, size_t bytes, size_t *out) {
    if (bytes != 0 && n > SIZE_MAX / bytes) return false;
    *out = n * bytes;
    return true;
}

void *mc_alloc(size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *mc_calloc(size_t n, size_t bytes) {
    size_t total;
    if (!multiply(n, bytes, &total) || mc_alloc_should_fail()) return NULL;
    return calloc(1, total ? total : 1);
}

void *mc_array_alloc(size_t n, size_t bytes) {
    size_t total;
    return multiply(n, bytes, &total) ? mc_alloc(total) : NULL;
}

void *mc_realloc(void *ptr, size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    return realloc(ptr, bytes ? bytes : 1);
}

void *mc_aligned_alloc(size_t align, size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    void *ptr = NULL;
    if (align < sizeof(void *)) align = sizeof(void *); /* posix_memalign takes no less */
    return posix_memalign(&ptr, align, bytes ? bytes : 1) == 0 ? ptr : NULL;
}

void mc_free(void *ptr) {
    free(ptr);
}

char *mc_strdup(const char *text) {
    return mc_strndup(text, strlen(text));
}

char *mc_strndup(const char *text, size_t len) {
    char *copy = len < SIZE_MAX ? mc_alloc(len + 1) : NULL;
    if (!copy) return NULL;
    if (len) memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

void mica_free(void *ptr) {
    mc_free(ptr);
}

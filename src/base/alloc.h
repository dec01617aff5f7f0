/* Allocation.
 *
 * All memory of the library comes from here, so that a test can make the n-th allocation fail. NULL
 * means that there is no memory: callers return mc_fail_nomem or pass NULL on.
 *
 * Threads: safe. The failure counter is for tests and counts over all threads. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <mica/api.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

void *mc_alloc(size_t bytes);                 /* 0 bytes count as 1 */
void *mc_calloc(size_t n, size_t bytes);      /* zeroed; NULL if n * bytes overflows */
void *mc_array_alloc(size_t n, size_t bytes); /* NULL if n * bytes overflows */
void *mc_realloc(void *ptr, size_t bytes);    /* on failure ptr stays valid */
/* align is a power of two; freed with mc_free. */
void *mc_aligned_alloc(size_t align, size_t bytes);
void mc_free(void *ptr); /* does nothing for NULL */
char *mc_strdup(const char *text);
char *mc_strndup(const char *text, size_t len); /* copies len bytes and adds the NUL */

/* Makes the n-th allocation from now (1 is the next) and all after it fail; 0: none. For tests. */
void mc_alloc_fail_at(uint64_t n);
/* Makes only the n-th fail: what is tried again works. */
void mc_alloc_fail_once(uint64_t n);
/* Allocations since the last call of these. */
uint64_t mc_alloc_count(void);
/* Counts an allocation. True if it is to fail. Called for memory that does not come from mc_alloc
 * (simdjson's). */
int mc_alloc_should_fail(void);

MICA_END

#endif

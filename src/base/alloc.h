/* The one door to the heap.
 *
 * All memory of the library comes from here, so that a test can make the n-th allocation fail. A
 * NULL answer means that there is no memory; callers return mc_fail_nomem or pass it on. Sizes are
 * checked: mc_array_alloc cannot overflow.
 *
 * Threads: safe. The failure counter is meant for tests and counts over all threads. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <mica/api.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

void *mc_alloc(size_t bytes);                 /* never zero bytes: 0 is taken as 1 */
void *mc_calloc(size_t n, size_t bytes);      /* zeroed; NULL where n * bytes overflows */
void *mc_array_alloc(size_t n, size_t bytes); /* NULL where n * bytes overflows */
void *mc_realloc(void *ptr, size_t bytes);    /* on failure ptr stays valid */
/* align is a power of two; freed with mc_free. */
void *mc_aligned_alloc(size_t align, size_t bytes);
void mc_free(void *ptr); /* takes NULL */
char *mc_strdup(const char *text);
char *mc_strndup(const char *text, size_t len); /* copies len bytes and adds the NUL */

/* The n-th allocation from now (1 is the next) fails, and every one after it; 0 never. For tests.
 */
void mc_alloc_fail_at(uint64_t n);
/* Allocations since the last mc_alloc_fail_at. */
uint64_t mc_alloc_count(void);
/* True at the allocations that shall fail: for memory that does not come from mc_alloc (simdjson).
 */
int mc_alloc_should_fail(void);

MICA_END

#endif

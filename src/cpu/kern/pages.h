/* Weights, fetched before their turn: lines of memory, and the pages that they lie in.
 *
 * What is asked for may lie past the last weights, for most often more follow, and a fetch cannot
 * fail. C has no pointers there, so such addresses are numbers.
 *
 * A mapped file lies in small pages where the system had no large ones. A core then waits for where
 * the next page is, again and again: what is fetched 8 KiB ahead comes too late. Asking for one
 * line of a page much earlier finds it, and costs nothing where pages are large. */
#ifndef CPU_KERN_PAGES_H
#define CPU_KERN_PAGES_H

#include <stdint.h>

#define MK_PAGE 4096            /* bytes: the smallest there is */
#define MK_PREFETCH_PAGES 65536 /* bytes */

/* The line at an address, to the second-level cache. Always inline, and the loop below unsigned,
 * which may never end for all that the compiler knows: GCC 12 leaves out loops that end and do
 * nothing but fetch. */
static inline __attribute__((always_inline)) void mk_fetch(intptr_t at) {
    __builtin_prefetch((const void *)at, 0, 2);
}

/* The same to the first-level cache. */
static inline __attribute__((always_inline)) void mk_fetch_near(intptr_t at) {
    __builtin_prefetch((const void *)at, 0, 3);
}

#define MK_FETCHED_AGAIN 4096 /* bytes from a line asked for again to the one asked for first */

/* The line at an address of what is read in the order it lies in, and once more one that was asked
 * for before: a Zen 4 forgets some of what it is asked for. */
static inline __attribute__((always_inline)) void mk_fetch_line(intptr_t at) {
    mk_fetch(at);
    mk_fetch(at - MK_FETCHED_AGAIN);
}

static inline void mk_find_pages(uintptr_t first, int64_t bytes) {
    for (uintptr_t at = first; at < first + (uintptr_t)bytes; at += MK_PAGE)
        mk_fetch((intptr_t)at);
}

/* Where rows begin to be read: the pages that mk_find_next_pages will not ask for, whose first
 * `next` is `bytes` past them. */
static inline void mk_find_first_pages(const void *rows, int64_t bytes) {
    mk_find_pages((uintptr_t)rows, bytes + MK_PREFETCH_PAGES);
}

/* The pages of `bytes` bytes, MK_PREFETCH_PAGES past `next`. */
static inline void mk_find_next_pages(intptr_t next, int64_t bytes) {
    mk_find_pages((uintptr_t)next + MK_PREFETCH_PAGES, bytes);
}

#endif

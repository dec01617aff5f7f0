/* Prefetches weights: cache lines, and the pages that hold them.
 *
 * A prefetched address may be past the last weights, because usually more weights follow, and a
 * prefetch cannot fault. C has no pointers there, so such addresses are integers.
 *
 * A mapped file is in small pages if the system had no large ones. Then the core waits for a page
 * walk at each page, and prefetching lines 8 KiB ahead is too late. Prefetching one line of each
 * page much earlier loads its address translation, and costs nothing with large pages. */
#ifndef CPU_KERN_PAGES_H
#define CPU_KERN_PAGES_H

#include <stdint.h>

#include "cpu/kern/ahead.h"

#define MK_PAGE 4096            /* bytes of the smallest page */
#define MK_PREFETCH_PAGES 65536 /* bytes */

/* Prefetches a line into the L2 cache. GCC 12 drops loops that end and only prefetch. So this is
 * always inline, and the loop below is unsigned, which for the compiler may never end. */
static inline __attribute__((always_inline)) void mk_prefetch(intptr_t at) {
    __builtin_prefetch((const void *)at, 0, 2);
}

/* Prefetches a line into the L1 cache. */
static inline __attribute__((always_inline)) void mk_prefetch_near(intptr_t at) {
    __builtin_prefetch((const void *)at, 0, 3);
}

#define MK_FETCHED_AGAIN 4096 /* bytes from the second prefetch of a line back to the first */

/* Prefetches a line of memory that is read sequentially, and on x86 an earlier line for the second
 * time, because a Zen 4 drops some prefetches. */
static inline __attribute__((always_inline)) void mk_prefetch_line(intptr_t at) {
    mk_prefetch(at);
#if defined(__x86_64__)
    mk_prefetch(at - MK_FETCHED_AGAIN);
#endif
}

static inline void mk_find_pages(uintptr_t first, int64_t bytes) {
    for (uintptr_t at = first; at < first + (uintptr_t)bytes; at += MK_PAGE)
        mk_prefetch((intptr_t)at);
}

/* Prefetches pages at the start of rows: those that mk_find_next_pages will not prefetch, because
 * its first `next` is `bytes` past them. */
static inline void mk_find_first_pages(const void *rows, int64_t bytes) {
    mk_find_pages((uintptr_t)rows, bytes + MK_PREFETCH_PAGES);
}

/* Prefetches the pages of `bytes` bytes that begin MK_PREFETCH_PAGES after `next`. */
static inline void mk_find_next_pages(intptr_t next, int64_t bytes) {
    mk_find_pages((uintptr_t)next + MK_PREFETCH_PAGES, bytes);
}

#endif

#include "heap.h"

#include <malloc.h>

/* glibc moves the limit from which a block has pages of its own up to the largest block that was
 * freed, so that large ones lie between small ones later, and it makes an arena for each thread,
 * none of which gives room to another. Others (musl) have neither. */
void cli_heap_give_back(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 4);
#endif
}

#define _GNU_SOURCE /* sched_getaffinity, madvise */

#include "base/system.h"
#include "base/alloc.h"
#include "base/cgroup.h"
#include "base/pool.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Machines may have more cores than a cpu_set_t has bits: the call fails until the set is large
 * enough. */
static int affinity_count(void) {
    for (int bits = CPU_SETSIZE; bits <= CPU_SETSIZE * 64; bits *= 2) {
        size_t bytes = CPU_ALLOC_SIZE((size_t)bits);
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (!set) return 0;
        int got = sched_getaffinity(0, bytes, set);
        int count = got == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (got == 0) return count;
    }
    return 0;
}

int mc_cpu_count(void) {
    int count = affinity_count();
    if (count < 1) count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = mc_cgroup_cpus("");
    if (quota > 0 && quota < count) count = quota;
    return count < 1 ? 1 : count;
}

uint64_t mc_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t physical = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
    uint64_t limit = mc_cgroup_memory_bytes("");
    return physical == 0 || limit < physical ? limit : physical;
}

#define LARGE_BYTES ((size_t)2 << 20) /* of a large page */

void mc_prefer_large_pages(void *memory, size_t bytes) {
    size_t before = (LARGE_BYTES - (uintptr_t)memory % LARGE_BYTES) % LARGE_BYTES;
    if (bytes < before + LARGE_BYTES) return;
    size_t whole = (bytes - before) / LARGE_BYTES * LARGE_BYTES;
    madvise((char *)memory + before, whole, MADV_HUGEPAGE); /* it may fail */
}

void *mc_table_alloc(size_t bytes) {
    if (bytes < LARGE_BYTES) return mc_alloc(bytes);
    void *memory = mc_aligned_alloc(LARGE_BYTES, bytes);
    if (memory) mc_prefer_large_pages(memory, bytes);
    return memory;
}

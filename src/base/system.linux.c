#define _GNU_SOURCE /* pthread_setaffinity_np, madvise, syscall */

#include "base/system.h"
#include "base/alloc.h"
#include "base/cgroup.h"
#include "base/numa.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The affinity mask, which the kernel limits to the CPUs of the process's control group. */
static bool usable_cpus(mc_bits *cpus) {
    *cpus = (mc_bits){0};
    return syscall(SYS_sched_getaffinity, 0, sizeof cpus->words, cpus->words) > 0;
}

static int within_quota(int count) {
    int quota = mc_cgroup_cpus("");
    if (quota > 0 && quota < count) count = quota;
    return count < 1 ? 1 : count;
}

int mc_cpu_count(void) {
    mc_bits cpus;
    bool known = usable_cpus(&cpus);
    return within_quota(known ? mc_bits_count(&cpus) : (int)sysconf(_SC_NPROCESSORS_ONLN));
}

int mc_core_count(void) {
    mc_bits cpus;
    return usable_cpus(&cpus) ? within_quota(mc_numa_cores("", &cpus)) : mc_cpu_count();
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
    madvise((char *)memory + before, whole, MADV_HUGEPAGE); /* a failure is harmless */
}

void *mc_table_alloc(size_t bytes) {
    if (bytes < LARGE_BYTES) return mc_alloc(bytes);
    void *memory = mc_aligned_alloc(LARGE_BYTES, bytes);
    if (memory) mc_prefer_large_pages(memory, bytes);
    return memory;
}

bool mc_sync(int fd) {
    return fsync(fd) == 0;
}

void mc_thread_hurry(pthread_attr_t *attr) {
    (void)attr; /* the scheduler goes by what threads do */
}

/* ---- memory nodes ---- */

/* Policies of get_mempolicy and set_mempolicy, which the C library does not declare. */
enum { POLICY_DEFAULT = 0, POLICY_INTERLEAVE = 3 };

static void bind_thread(pthread_t thread, const mc_bits *cpus) {
    pthread_setaffinity_np(thread, sizeof cpus->words, (const cpu_set_t *)cpus->words);
}

void mc_numa_here(mc_numa *numa) {
    /* $MICA_NUMA: off: threads and memory are not spread over memory nodes */
    const char *wanted = getenv("MICA_NUMA");
    mc_bits usable;
    bool known = usable_cpus(&usable) && !(wanted && strcmp(wanted, "off") == 0);
    if (known)
        mc_numa_read("", &usable, numa);
    else
        *numa = (mc_numa){.nodes = 1};
    numa->bind = bind_thread;
}

bool mc_pages_interleave(void) {
    mc_numa numa;
    int policy;
    mc_numa_here(&numa);
    if (mc_bits_count(&numa.memory) < 2) return false;
    if (syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) != 0) return false;
    if (policy != POLICY_DEFAULT) return false; /* the user has set a policy (numactl) */
    return syscall(SYS_set_mempolicy, POLICY_INTERLEAVE, numa.memory.words, MC_MAX_CPUS + 1) == 0;
}

void mc_pages_local(void) {
    syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0);
}

#include "base/system.h"
#include "base/alloc.h"
#include "base/numa.h"

#include <fcntl.h>
#include <pthread/qos.h>
#include <stddef.h>
#include <sys/sysctl.h>
#include <sys/types.h>
#include <unistd.h>

/* 0: the system does not tell. */
static int ask_count(const char *name) {
    int count = 0;
    size_t bytes = sizeof count;
    return sysctlbyname(name, &count, &bytes, NULL, 0) == 0 && count > 0 ? count : 0;
}

/* The number of fast cores if the machine has slow ones, too: those would delay a region. */
static int count_of(const char *fast, const char *all) {
    int count = ask_count(fast);
    if (count == 0) count = ask_count(all);
    return count > 0 ? count : 1;
}

int mc_cpu_count(void) {
    return count_of("hw.perflevel0.logicalcpu", "hw.logicalcpu");
}

int mc_core_count(void) {
    return count_of("hw.perflevel0.physicalcpu", "hw.physicalcpu");
}

uint64_t mc_memory_bytes(void) {
    uint64_t memory = 0;
    size_t bytes = sizeof memory;
    return sysctlbyname("hw.memsize", &memory, &bytes, NULL, 0) == 0 ? memory : 0;
}

void *mc_table_alloc(size_t bytes) {
    return mc_alloc(bytes);
}

void mc_prefer_large_pages(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

/* fsync leaves the data in the disk's own cache. Not every file system knows the first. */
bool mc_sync(int fd) {
    return fcntl(fd, F_FULLFSYNC) == 0 || fsync(fd) == 0;
}

/* Threads without a class may run on slow cores. */
void mc_thread_hurry(pthread_attr_t *attr) {
    (void)pthread_attr_set_qos_class_np(attr, QOS_CLASS_USER_INITIATED, 0);
}

static void bind_nothing(pthread_t thread, const mc_bits *cpus) {
    (void)thread, (void)cpus;
}

void mc_numa_here(mc_numa *numa) {
    *numa = (mc_numa){.nodes = 1, .bind = bind_nothing};
}

bool mc_pages_interleave(void) {
    return false;
}

void mc_pages_local(void) {}

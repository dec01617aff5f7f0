#include "base/system.h"
#include "base/alloc.h"
#include "base/numa.h"
#include "base/windows/posix.h"

#include <stdlib.h>
#include <unistd.h>

uint64_t mc_now_us(void) {
    LARGE_INTEGER ticks, second; /* neither fails since Windows XP */
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&second);
    uint64_t n = (uint64_t)ticks.QuadPart, each = (uint64_t)second.QuadPart;
    return n / each * 1000000 + n % each * 1000000 / each;
}

static uint64_t us_of(FILETIME time) { /* counted in 100 ns */
    return ((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) / 10;
}

uint64_t mc_thread_cpu_us(void) {
    FILETIME created, ended, system, user;
    if (!GetThreadTimes(GetCurrentThread(), &created, &ended, &system, &user)) return 0;
    return us_of(system) + us_of(user);
}

bool mc_local_time(struct tm *now) {
    time_t seconds = time(NULL);
    return seconds != (time_t)-1 && localtime_s(now, &seconds) == 0;
}

void mc_host_name(char *text, size_t bytes) {
    if (gethostname(text, bytes) != 0) text[0] = '?', text[1] = '\0';
}

/* ---- memory ---- */

/* The job's limit is what a container or a scheduler sets. */
static uint64_t job_bytes(void) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
    uint64_t limit = UINT64_MAX;
    if (!QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL))
        return limit;
    DWORD flags = job.BasicLimitInformation.LimitFlags;
    if (flags & JOB_OBJECT_LIMIT_JOB_MEMORY) limit = job.JobMemoryLimit;
    if (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY && job.ProcessMemoryLimit < limit)
        limit = job.ProcessMemoryLimit;
    return limit;
}

uint64_t mc_memory_bytes(void) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    uint64_t limit = job_bytes();
    bool known = GlobalMemoryStatusEx(&memory);
    return known && memory.ullTotalPhys < limit ? memory.ullTotalPhys : limit;
}

void *mc_pages_alloc(size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void mc_pages_free(void *memory, size_t bytes) {
    (void)bytes;
    if (memory) VirtualFree(memory, 0, MEM_RELEASE);
}

/* Large pages take a right that programs do not have unless an administrator gives it. */
void *mc_table_alloc(size_t bytes) {
    return mc_alloc(bytes);
}

void mc_prefer_large_pages(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

bool mc_sync(int fd) {
    return fsync(fd) == 0;
}

/* ---- processors ---- */

/* A machine with more than 64 CPUs has groups of them; an affinity mask is of one group. */
static bool is_usable(const GROUP_AFFINITY *core, KAFFINITY mask, bool one_group) {
    return !one_group || (core->Mask & mask) != 0;
}

/* Counts CPUs and cores that this process may use: those of the fastest kind that it has, as slow
 * ones would delay a region. False: the system does not tell. */
static bool count(int *cpus, int *cores) {
    DWORD bytes = 0;
    DWORD_PTR mask = 0, all = 0;
    GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, &bytes);
    char *rows = bytes ? malloc(bytes) : NULL;
    bool known = rows && GetLogicalProcessorInformationEx(
                             RelationProcessorCore,
                             (SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *)(void *)rows, &bytes);
    bool one_group = GetActiveProcessorGroupCount() == 1 &&
                     GetProcessAffinityMask(GetCurrentProcess(), &mask, &all);
    int fastest = -1;
    *cpus = *cores = 0;
    for (DWORD at = 0; known && at < bytes;) {
        const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = (void *)(rows + at);
        const PROCESSOR_RELATIONSHIP *core = &row->Processor;
        at += row->Size;
        if (core->EfficiencyClass < fastest || !is_usable(core->GroupMask, mask, one_group))
            continue;
        if (core->EfficiencyClass > fastest) *cpus = *cores = 0;
        fastest = core->EfficiencyClass;
        *cores += 1;
        *cpus +=
            __builtin_popcountll(one_group ? core->GroupMask->Mask & mask : core->GroupMask->Mask);
    }
    free(rows);
    return *cores > 0;
}

int mc_cpu_count(void) {
    int cpus, cores;
    if (count(&cpus, &cores)) return cpus;
    DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return n > 0 ? (int)n : 1;
}

int mc_core_count(void) {
    int cpus, cores;
    return count(&cpus, &cores) ? cores : mc_cpu_count();
}

/* ---- threads ---- */

void mc_thread_hurry(pthread_attr_t *attr) {
    (void)attr; /* the scheduler goes by what threads do */
}

int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    static const size_t stack = (size_t)4 << 20;
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) return error;
    (void)pthread_attr_setstacksize(&attr, stack);
    error = pthread_create(thread, &attr, run, context);
    pthread_attr_destroy(&attr);
    return error;
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

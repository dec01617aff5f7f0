#include "base/system.h"
#include "base/alloc.h"
#include "base/numa.h"
#include "base/windows/posix.h"
#include "base/windows/processors.h"

#include <stdlib.h>
#include <string.h>
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

bool mc_is_slash(char byte) {
    return byte == '/' || byte == '\\';
}

size_t mc_root_bytes(const char *path) {
    size_t n = ((*path | 32) >= 'a' && (*path | 32) <= 'z' && path[1] == ':') ? 2 : 0;
    return n + mc_is_slash(path[n]); /* "C:name" begins in that disk's current folder */
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

static pthread_once_t once = PTHREAD_ONCE_INIT;
static size_t large_page; /* 0: the user has no right to large pages */

/* "Lock pages in memory", which an administrator gives to users; a program has to ask for it. */
static void ask_large_pages(void) {
    HANDLE token;
    TOKEN_PRIVILEGES wanted = {.PrivilegeCount = 1,
                               .Privileges = {{.Attributes = SE_PRIVILEGE_ENABLED}}};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token))
        return;
    if (LookupPrivilegeValueW(NULL, L"SeLockMemoryPrivilege", &wanted.Privileges[0].Luid) &&
        AdjustTokenPrivileges(token, FALSE, &wanted, 0, NULL, NULL) &&
        GetLastError() == ERROR_SUCCESS) /* not ERROR_NOT_ALL_ASSIGNED */
        large_page = GetLargePageMinimum();
    CloseHandle(token);
}

/* Of a large block, whose last page may be empty for the most part. */
static void *large_alloc(size_t bytes) {
    enum { PAGES = 8 };
    pthread_once(&once, ask_large_pages);
    if (large_page == 0 || bytes / PAGES < large_page) return NULL;
    size_t rest = bytes % large_page;
    return VirtualAlloc(NULL, rest ? bytes + large_page - rest : bytes,
                        MEM_RESERVE | MEM_COMMIT | MEM_LARGE_PAGES, PAGE_READWRITE);
}

void *mc_pages_alloc(size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    void *pages = large_alloc(bytes); /* there may be none that lie together */
    return pages ? pages : VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void mc_pages_free(void *memory, size_t bytes) {
    (void)bytes;
    if (memory) VirtualFree(memory, 0, MEM_RELEASE);
}

/* They are freed as what malloc gave, which has no large pages. */
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

/* Rows of GetLogicalProcessorInformationEx, freed with free; NULL: the system does not tell. */
static char *rows_of(LOGICAL_PROCESSOR_RELATIONSHIP kind, DWORD *bytes) {
    *bytes = 0;
    GetLogicalProcessorInformationEx(kind, NULL, bytes);
    char *rows = malloc(*bytes > 0 ? *bytes : 1);
    if (rows && *bytes > 0 && GetLogicalProcessorInformationEx(kind, (void *)rows, bytes))
        return rows;
    free(rows);
    return NULL;
}

/* CPUs that this process may use, of the fastest kind. returns  the number of their cores; 0: the
 * system does not tell. Where there are several groups of CPUs, an affinity mask tells of one. */
static int count_cores(mc_bits *usable) {
    DWORD bytes;
    DWORD_PTR mask = 0, all = 0;
    mc_bits allowed = {0};
    char *rows = rows_of(RelationProcessorCore, &bytes);
    bool masked = GetActiveProcessorGroupCount() == 1 &&
                  GetProcessAffinityMask(GetCurrentProcess(), &mask, &all);
    for (int i = 0; masked && i < (int)(8 * sizeof mask); i++)
        if (mask >> i & 1) mc_bits_add(&allowed, i);
    int cores = rows ? mc_processor_cores(rows, bytes, masked ? &allowed : NULL, usable) : 0;
    free(rows);
    return cores;
}

int mc_cpu_count(void) {
    mc_bits usable;
    if (count_cores(&usable) > 0) return mc_bits_count(&usable);
    DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return n > 0 ? (int)n : 1;
}

int mc_core_count(void) {
    mc_bits usable;
    int cores = count_cores(&usable);
    return cores > 0 ? cores : mc_cpu_count();
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

/* ---- memory nodes ---- */

/* A thread runs in one group of CPUs: that of the first. */
static void bind_thread(pthread_t thread, const mc_bits *cpus) {
    GROUP_AFFINITY group = {.Mask = 0};
    for (int cpu = 0; cpu < MC_MAX_CPUS; cpu++) {
        if (!mc_bits_has(cpus, cpu)) continue;
        if (group.Mask == 0) group.Group = (WORD)(cpu / 64);
        if (cpu / 64 == group.Group) group.Mask |= (KAFFINITY)1 << cpu % 64;
    }
    if (group.Mask != 0) SetThreadGroupAffinity(pthread_gethandle(thread), &group, NULL);
}

void mc_numa_here(mc_numa *numa) {
    /* $MICA_NUMA: off: threads and memory are not spread over memory nodes */
    const char *wanted = getenv("MICA_NUMA");
    DWORD bytes;
    *numa = (mc_numa){.nodes = 1, .bind = bind_thread};
    if ((wanted && strcmp(wanted, "off") == 0) || count_cores(&numa->usable) == 0) return;
    char *rows = rows_of(RelationNumaNode, &bytes);
    if (rows) mc_processor_nodes(rows, bytes, numa);
    free(rows);
}

/* Windows has no such policy of memory. */
bool mc_pages_interleave(void) {
    return false;
}

void mc_pages_local(void) {}

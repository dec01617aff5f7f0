/* Memory and maps of files. */
#include "base/windows/posix.h"

#include <psapi.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

long sysconf(int name) {
    SYSTEM_INFO info;
    if (name != _SC_PAGESIZE) return -1;
    GetSystemInfo(&info);
    return (long)info.dwPageSize;
}

void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t from) {
    (void)at, (void)rights, (void)from;
    if (flags & MAP_ANONYMOUS) {
        void *pages = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        if (!pages) mc_set_errno(GetLastError());
        return pages ? pages : MAP_FAILED;
    }
    HANDLE file = mc_handle_of(fd);
    if (file == INVALID_HANDLE_VALUE) return MAP_FAILED;
    HANDLE section = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *memory = section ? MapViewOfFile(section, FILE_MAP_READ, 0, 0, bytes) : NULL;
    DWORD error = GetLastError();
    if (section) CloseHandle(section); /* the view holds it */
    if (memory) return memory;
    mc_set_errno(error);
    return MAP_FAILED;
}

int munmap(void *memory, size_t bytes) {
    MEMORY_BASIC_INFORMATION info;
    (void)bytes;
    bool known = VirtualQuery(memory, &info, sizeof info) == sizeof info;
    if (known && info.Type == MEM_PRIVATE)
        return VirtualFree(memory, 0, MEM_RELEASE) ? 0 : mc_set_errno(GetLastError());
    return UnmapViewOfFile(memory) ? 0 : mc_set_errno(GetLastError());
}

int mprotect(void *memory, size_t bytes, int rights) {
    DWORD before, now = rights & PROT_WRITE  ? PAGE_READWRITE
                        : rights & PROT_READ ? PAGE_READONLY
                                             : PAGE_NOACCESS;
    return VirtualProtect(memory, bytes, now, &before) ? 0 : mc_set_errno(GetLastError());
}

/* Windows locks no more than fits into the working set's lower limit, which is small. */
int mlock(const void *memory, size_t bytes) {
    SIZE_T least, most, more = bytes + ((SIZE_T)1 << 20);
    void *at = (void *)(uintptr_t)memory;
    if (VirtualLock(at, bytes)) return 0;
    if (GetProcessWorkingSetSize(GetCurrentProcess(), &least, &most))
        SetProcessWorkingSetSize(GetCurrentProcess(), least + more, most + more);
    if (VirtualLock(at, bytes)) return 0;
    mc_set_errno(GetLastError());
    errno = ENOMEM;
    return -1;
}

int munlock(const void *memory, size_t bytes) {
    return VirtualUnlock((void *)(uintptr_t)memory, bytes) ? 0 : mc_set_errno(GetLastError());
}

/* Pages that are not locked leave the working set when they are unlocked. */
int madvise(void *memory, size_t bytes, int advice) {
    if (advice == MADV_DONTNEED) (void)VirtualUnlock(memory, bytes);
    return 0;
}

int posix_madvise(void *memory, size_t bytes, int advice) {
    WIN32_MEMORY_RANGE_ENTRY range = {memory, bytes};
    if (advice == POSIX_MADV_WILLNEED)
        (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
    return 0;
}

int mincore(void *memory, size_t bytes, void *present) {
    (void)bytes;
    PSAPI_WORKING_SET_EX_INFORMATION page = {.VirtualAddress = memory};
    if (!QueryWorkingSetEx(GetCurrentProcess(), &page, sizeof page))
        return mc_set_errno(GetLastError());
    *(unsigned char *)present = page.VirtualAttributes.Valid != 0;
    return 0;
}

int statvfs(const char *path, struct statvfs *info) {
    wchar_t *wide = mc_utf16_path(path);
    ULARGE_INTEGER room;
    if (!wide) return -1;
    bool known = GetDiskFreeSpaceExW(wide, &room, NULL, NULL);
    DWORD error = GetLastError();
    free(wide);
    if (!known) return mc_set_errno(error);
    *info = (struct statvfs){.f_bavail = room.QuadPart, .f_frsize = 1};
    return 0;
}

int gethostname(char *text, size_t bytes) {
    wchar_t name[256];
    DWORD n = sizeof name / sizeof *name;
    if (!GetComputerNameExW(ComputerNameDnsHostname, name, &n)) return mc_set_errno(GetLastError());
    char *narrow = mc_utf8_of(name);
    if (!narrow) return -1;
    snprintf(text, bytes, "%s", narrow);
    free(narrow);
    return 0;
}

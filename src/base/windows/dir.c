/* Reading folders, and loading libraries. */
#include "base/windows/posix.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mc_posix_dir {
    int fd; /* of fdopendir; else -1 */
    HANDLE find;
    WIN32_FIND_DATAW next;
    bool ready; /* `next` was not given out yet */
    bool ended;
    struct dirent entry;
    wchar_t *path; /* without fd */
};

/* "folder\name" in new memory. Frees `folder`. */
static wchar_t *join(wchar_t *folder, const wchar_t *name) {
    size_t n = folder ? wcslen(folder) : 0;
    wchar_t *path = folder ? malloc((n + wcslen(name) + 2) * sizeof *path) : NULL;
    if (path) {
        wcscpy(path, folder);
        if (n > 0 && path[n - 1] != L'\\') wcscat(path, L"\\");
        wcscat(path, name);
    } else if (folder) {
        errno = ENOMEM;
    }
    free(folder);
    return path;
}

static wchar_t *path_of(int fd) {
    HANDLE folder = mc_handle_of(fd);
    return folder == INVALID_HANDLE_VALUE ? NULL : mc_path_of_handle(folder);
}

static bool begin(DIR *dir) {
    wchar_t *pattern = join(dir->fd >= 0 ? path_of(dir->fd) : _wcsdup(dir->path), L"*");
    dir->find = INVALID_HANDLE_VALUE;
    if (pattern)
        dir->find = FindFirstFileExW(pattern, FindExInfoBasic, &dir->next, FindExSearchNameMatch,
                                     NULL, FIND_FIRST_EX_LARGE_FETCH);
    DWORD error = dir->find == INVALID_HANDLE_VALUE ? GetLastError() : ERROR_SUCCESS;
    dir->ended = pattern && error == ERROR_FILE_NOT_FOUND; /* an empty disk: not even "." */
    if (pattern && error != ERROR_SUCCESS && !dir->ended) mc_set_errno(error);
    free(pattern);
    dir->ready = dir->find != INVALID_HANDLE_VALUE;
    return dir->ready || dir->ended;
}

/* Takes the path. */
static DIR *start(int fd, wchar_t *path) {
    DIR *dir = calloc(1, sizeof *dir);
    if (dir) {
        dir->fd = fd;
        dir->path = path;
        dir->find = INVALID_HANDLE_VALUE;
        /* An open folder can be read; while it is read, nobody can rename it. */
        if (fd >= 0 || begin(dir)) return dir;
    } else {
        errno = ENOMEM;
    }
    free(path);
    free(dir);
    return NULL;
}

DIR *opendir(const char *path) {
    wchar_t *wide = mc_utf16_path(path);
    return wide ? start(-1, wide) : NULL;
}

DIR *fdopendir(int fd) {
    return start(fd, NULL);
}

int dirfd(DIR *dir) {
    return dir->fd;
}

static void end(DIR *dir) {
    if (dir->find != INVALID_HANDLE_VALUE) FindClose(dir->find);
    dir->find = INVALID_HANDLE_VALUE;
}

struct dirent *readdir(DIR *dir) {
    if (!dir->ended && dir->find == INVALID_HANDLE_VALUE && !begin(dir)) return NULL;
    if (dir->ended) return NULL;
    if (!dir->ready && !FindNextFileW(dir->find, &dir->next)) {
        if (GetLastError() != ERROR_NO_MORE_FILES) mc_set_errno(GetLastError());
        dir->ended = true;
        end(dir);
        return NULL;
    }
    dir->ready = false;
    int n = WideCharToMultiByte(CP_UTF8, 0, dir->next.cFileName, -1, dir->entry.d_name,
                                sizeof dir->entry.d_name, NULL, NULL);
    if (n > 0) return &dir->entry;
    errno = EILSEQ;
    return NULL;
}

void rewinddir(DIR *dir) {
    end(dir);
    dir->ended = false;
}

int closedir(DIR *dir) {
    end(dir);
    if (dir->fd >= 0) close(dir->fd);
    free(dir->path);
    free(dir);
    return 0;
}

/* ---- names in an open folder ---- */

/* The path of a name, in UTF-8. */
static char *path_at(int folder, const char *name) {
    wchar_t *wide = mc_utf16(name), *path = wide ? join(path_of(folder), wide) : NULL;
    char *text = path ? mc_utf8_of(path) : NULL;
    free(wide);
    free(path);
    return text;
}

int unlinkat(int folder, const char *name, int flags) {
    (void)flags;
    char *path = path_at(folder, name);
    int code = path ? unlink(path) : -1;
    free(path);
    return code;
}

int fstatat(int folder, const char *name, struct stat *info, int flags) {
    char *path = path_at(folder, name);
    int code = !path ? -1 : flags & AT_SYMLINK_NOFOLLOW ? lstat(path, info) : stat(path, info);
    free(path);
    return code;
}

/* ---- libraries ---- */

static _Thread_local char load_error[128];

static void keep_error(void) {
    snprintf(load_error, sizeof load_error, "error %lu", GetLastError());
}

void *dlopen(const char *path, int mode) {
    (void)mode;
    bool has_folder = strpbrk(path, "/\\") != NULL; /* one without is not looked for everywhere */
    wchar_t *wide = has_folder ? mc_utf16_path(path) : mc_utf16(path);
    HMODULE library = NULL;
    if (wide)
        library = LoadLibraryExW(wide, NULL,
                                 has_folder ? LOAD_WITH_ALTERED_SEARCH_PATH
                                            : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    if (!library) keep_error();
    free(wide);
    return library;
}

void *dlsym(void *library, const char *name) {
    FARPROC found = GetProcAddress(library, name);
    void *address;
    if (!found) keep_error();
    memcpy(&address, &found, sizeof address);
    return address;
}

int dlclose(void *library) {
    return FreeLibrary(library) ? 0 : -1;
}

char *dlerror(void) {
    return load_error;
}

int dladdr(const void *address, Dl_info *info) {
    static _Thread_local char name[3 * MAX_PATH];
    wchar_t path[MAX_PATH];
    HMODULE library;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const wchar_t *)address, &library))
        return 0;
    DWORD n = GetModuleFileNameW(library, path, MAX_PATH);
    if (n == 0 || n == MAX_PATH ||
        !WideCharToMultiByte(CP_UTF8, 0, path, -1, name, sizeof name, NULL, NULL))
        return 0;
    for (char *at = name; *at; at++)
        if (*at == '\\') *at = '/';
    info->dli_fname = name;
    return 1;
}

/* Paths, and what is done by a path alone. */
#include "base/windows/posix.h"

#include <winioctl.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SHORT_PATH = 240
}; /* longer ones need a prefix: MAX_PATH is 260, and folders have 12 less */

static bool is_slash(wchar_t c) {
    return c == L'/' || c == L'\\';
}

/* Whether a name, of which n characters count, is a device's: in whatever folder, and with whatever
 * follows a dot. Versions of Windows differ in these, so that none is left to them. */
static bool is_device(const wchar_t *name, size_t n) {
    static const wchar_t *const whole[] = {L"CON", L"PRN", L"AUX", L"NUL", L"CONIN$", L"CONOUT$"};
    static const wchar_t digits[] = L"0123456789\xB9\xB2\xB3"; /* superscripts count */
    size_t base = 0;
    while (base < n && name[base] != L'.')
        base++;
    while (base > 0 && name[base - 1] == L' ')
        base--;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (wcslen(whole[i]) == base && _wcsnicmp(name, whole[i], base) == 0) return true;
    return base == 4 && (_wcsnicmp(name, L"COM", 3) == 0 || _wcsnicmp(name, L"LPT", 3) == 0) &&
           wcschr(digits, name[3]) != NULL;
}

/* An errno for a path with a name that Windows would take for another one; 0: there is none. It
 * drops dots and blanks at the end, and what follows a colon is another stream of the same file. */
static int refuse(const wchar_t *path) {
    bool prefixed = is_slash(path[0]) && is_slash(path[1]) && path[2] == L'?' && is_slash(path[3]);
    if (prefixed) path += 4;
    if (path[0] && path[1] == L':') path += 2;
    while (*path) {
        size_t n = 0;
        bool stream = false;
        for (; path[n] && !is_slash(path[n]); n++)
            stream = stream || path[n] == L':';
        bool dots = n <= 2 && wcsncmp(path, L"..", n) == 0; /* or nothing */
        if (is_device(path, n)) return EINVAL;
        if (!dots && (path[n - 1] == L'.' || path[n - 1] == L' ' || stream)) return ENOENT;
        path += n;
        while (is_slash(*path))
            path++;
    }
    return 0;
}

/* A full path, with the prefix that allows any length. Frees `full`. */
static wchar_t *make_long(wchar_t *full) {
    static const wchar_t prefix[] = L"\\\\?\\", shared[] = L"\\\\?\\UNC\\";
    size_t n = wcslen(full);
    bool is_shared = wcsncmp(full, L"\\\\", 2) == 0;
    if (n < SHORT_PATH || wcsncmp(full, prefix, 4) == 0) return full;
    wchar_t *path = malloc((n + sizeof shared / sizeof *shared) * sizeof *path);
    if (path) {
        wcscpy(path, is_shared ? shared : prefix);
        wcscat(path, full + (is_shared ? 2 : 0));
    }
    free(full);
    if (!path) errno = ENOMEM;
    return path;
}

wchar_t *mc_utf16_path(const char *path) {
    if (strcmp(path, "/dev/null") == 0) return mc_utf16("\\\\.\\NUL");
    if (!*path) {
        errno = ENOENT;
        return NULL;
    }
    wchar_t *given = mc_utf16(path), *full = NULL;
    if (!given) return NULL;
    int error = refuse(given);
    DWORD n = error ? 0 : GetFullPathNameW(given, 0, NULL, NULL);
    if (n > 0) full = malloc(n * sizeof *full);
    if (n > 0 && !full) error = ENOMEM;
    if (full && GetFullPathNameW(given, n, full, NULL) >= n) error = EAGAIN; /* a folder changed */
    if (full && wcsncmp(full, L"\\\\.\\", 4) == 0) error = EINVAL;
    if (!full && !error) error = ENOENT;
    free(given);
    if (!error) return make_long(full);
    free(full);
    errno = error;
    return NULL;
}

/* ---- what a path leads to ---- */

static void fill(const BY_HANDLE_FILE_INFORMATION *from, struct stat *info) {
    bool folder = (from->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    bool fixed = (from->dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0;
    *info = (struct stat){
        .st_dev = from->dwVolumeSerialNumber,
        .st_ino = (uint64_t)from->nFileIndexHigh << 32 | from->nFileIndexLow,
        .st_mode = folder ? S_IFDIR | 0777 : S_IFREG | (fixed ? 0444 : 0666),
        .st_nlink = from->nNumberOfLinks,
        .st_size = folder ? 0 : (int64_t)((uint64_t)from->nFileSizeHigh << 32 | from->nFileSizeLow),
    };
    mc_set_time(from->ftLastWriteTime, &info->st_mtim);
    mc_set_time(from->ftCreationTime, &info->st_ctim);
}

static int stat_handle(HANDLE file, struct stat *info) {
    BY_HANDLE_FILE_INFORMATION got;
    DWORD type = GetFileType(file);
    if (type == FILE_TYPE_DISK) {
        if (!GetFileInformationByHandle(file, &got)) return mc_set_errno(GetLastError());
        fill(&got, info);
        return 0;
    }
    if (type == FILE_TYPE_UNKNOWN && GetLastError() != NO_ERROR)
        return mc_set_errno(GetLastError());
    *info = (struct stat){.st_mode = type == FILE_TYPE_CHAR ? S_IFCHR : S_IFIFO, .st_nlink = 1};
    return 0;
}

static HANDLE open_to_look(const wchar_t *path, DWORD flags) {
    return CreateFileW(path, FILE_READ_ATTRIBUTES,
                       FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                       FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
}

static bool ends_in_slash(const char *path) {
    size_t n = strlen(path);
    return n > 0 && (path[n - 1] == '/' || path[n - 1] == '\\');
}

static int look(const char *path, struct stat *info, DWORD flags) {
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    HANDLE file = open_to_look(wide, flags);
    DWORD error = GetLastError();
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return mc_set_errno(error);
    int code = stat_handle(file, info);
    CloseHandle(file);
    if (code == 0 && ends_in_slash(path) && S_ISREG(info->st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    return code;
}

int stat(const char *path, struct stat *info) {
    return look(path, info, 0);
}

typedef union reparse {
    BYTE bytes[MAXIMUM_REPARSE_DATA_BUFFER_SIZE];
    struct {
        DWORD tag;
        WORD bytes, unused;
        WORD name_at, name_bytes, print_at, print_bytes;
        wchar_t rest[]; /* of a symbolic link flags, then both texts; of a junction the texts */
    } link;
} reparse;

/* The text of a symbolic link, or of a junction, which is one to a folder; NULL: it is neither. */
static wchar_t *copy_link(const reparse *got, size_t bytes) {
    bool symbolic = got->link.tag == IO_REPARSE_TAG_SYMLINK;
    if (!symbolic && got->link.tag != IO_REPARSE_TAG_MOUNT_POINT) return NULL;
    bool printed = got->link.print_bytes > 0;
    size_t n = printed ? got->link.print_bytes : got->link.name_bytes;
    size_t at = offsetof(reparse, link.rest) + (symbolic ? sizeof(DWORD) : 0) +
                (printed ? got->link.print_at : got->link.name_at);
    wchar_t *text = at + n <= bytes ? calloc(n / sizeof *text + 1, sizeof *text) : NULL;
    if (text) memcpy(text, got->bytes + at, n);
    if (text && wcsncmp(text, L"\\??\\", 4) == 0)
        memmove(text, text + 4, (wcslen(text) - 3) * sizeof *text);
    return text;
}

/* The same of a path. Freed with free. */
static wchar_t *read_link(const wchar_t *path) {
    reparse *got = malloc(sizeof *got);
    HANDLE file = open_to_look(path, FILE_FLAG_OPEN_REPARSE_POINT);
    DWORD n;
    wchar_t *text = NULL;
    if (got && file != INVALID_HANDLE_VALUE &&
        DeviceIoControl(file, FSCTL_GET_REPARSE_POINT, NULL, 0, got, sizeof *got, &n, NULL))
        text = copy_link(got, n);
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    free(got);
    return text;
}

int lstat(const char *path, struct stat *info) {
    if (look(path, info, FILE_FLAG_OPEN_REPARSE_POINT) != 0) return -1;
    wchar_t *wide = mc_utf16_path(path), *link = wide ? read_link(wide) : NULL;
    if (link) info->st_mode = S_IFLNK | 0777;
    free(wide);
    free(link);
    return 0;
}

int fstat(int fd, struct stat *info) {
    HANDLE file = mc_handle_of(fd);
    if (file == INVALID_HANDLE_VALUE) return -1;
    return stat_handle(file, info);
}

ssize_t readlink(const char *path, char *text, size_t bytes) {
    wchar_t *wide = mc_utf16_path(path), *link = wide ? read_link(wide) : NULL;
    char *target = link ? mc_utf8_of(link) : NULL;
    size_t n = target ? strlen(target) : 0;
    free(wide);
    free(link);
    if (!target) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (target[i] == '\\') target[i] = '/';
    if (n > bytes) n = bytes;
    memcpy(text, target, n);
    free(target);
    return (ssize_t)n;
}

/* Not all file systems have second names. */
int link(const char *from, const char *to) {
    wchar_t *old = mc_utf16_path(from), *new = old ? mc_utf16_path(to) : NULL;
    bool ready = new != NULL;
    bool made = ready && (CreateHardLinkW(new, old, NULL) || CopyFileW(old, new, TRUE));
    DWORD error = GetLastError();
    free(old);
    free(new);
    return made ? 0 : ready ? mc_set_errno(error) : -1;
}

/* Windows asks for a privilege, or for its developer mode. */
int symlink(const char *target, const char *path) {
    wchar_t *to = mc_utf16(target), *from = mc_utf16_path(path);
    for (wchar_t *at = to; at && *at; at++)
        if (*at == L'/') *at = L'\\';
    bool made =
        to && from && CreateSymbolicLinkW(from, to, SYMBOLIC_LINK_FLAG_ALLOW_UNPRIVILEGED_CREATE);
    DWORD error = GetLastError();
    bool ready = to && from;
    free(to);
    free(from);
    return made ? 0 : ready ? mc_set_errno(error) : -1;
}

int access(const char *path, int mode) {
    struct stat info;
    if (stat(path, &info) != 0) return -1;
    if (!(mode & W_OK) || S_ISCHR(info.st_mode)) return 0;
    if (S_ISREG(info.st_mode) && !(info.st_mode & 0222)) { /* whom Wine runs as may write to it */
        errno = EACCES;
        return -1;
    }
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    HANDLE file = CreateFileW(wide, S_ISDIR(info.st_mode) ? FILE_ADD_FILE : GENERIC_WRITE,
                              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    DWORD error = GetLastError();
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return mc_set_errno(error);
    CloseHandle(file);
    return 0;
}

wchar_t *mc_path_of_handle(HANDLE file) {
    DWORD n = GetFinalPathNameByHandleW(file, NULL, 0, FILE_NAME_NORMALIZED);
    wchar_t *path = n > 0 ? malloc((n + 1) * sizeof *path) : NULL;
    if (path && GetFinalPathNameByHandleW(file, path, n + 1, FILE_NAME_NORMALIZED) <= n)
        return path;
    mc_set_errno(GetLastError());
    free(path);
    return NULL;
}

char *realpath(const char *path, char *resolved) {
    (void)resolved;
    wchar_t *wide = mc_utf16_path(path);
    HANDLE file = wide ? open_to_look(wide, 0) : INVALID_HANDLE_VALUE;
    if (wide && file == INVALID_HANDLE_VALUE) mc_set_errno(GetLastError());
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return NULL;
    wchar_t *full = mc_path_of_handle(file);
    CloseHandle(file);
    bool shared = full && wcsncmp(full, L"\\\\?\\UNC\\", 8) == 0;
    bool prefixed = full && wcsncmp(full, L"\\\\?\\", 4) == 0;
    if (shared) full[6] = L'\\'; /* "\\?\UN\server" ends in "\\server" */
    char *text = full ? mc_utf8_of(full + (shared ? 6 : prefixed ? 4 : 0)) : NULL;
    free(full);
    for (char *at = text; at && *at; at++)
        if (*at == '\\') *at = '/';
    return text;
}

/* ---- changes ---- */

int mkdir(const char *path, mode_t mode) {
    (void)mode;
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    bool made = CreateDirectoryW(wide, NULL);
    DWORD error = GetLastError();
    free(wide);
    return made ? 0 : mc_set_errno(error);
}

int rmdir(const char *path) {
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    bool gone = RemoveDirectoryW(wide);
    DWORD error = GetLastError();
    free(wide);
    return gone ? 0 : mc_set_errno(error);
}

/* After DeleteFileW has failed: POSIX asks for the rights of the folder alone. A link to a folder
 * is removed as a folder, which leaves what it leads to. */
static bool delete_otherwise(const wchar_t *path) {
    DWORD error = GetLastError(), flags = GetFileAttributesW(path);
    DWORD link = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
    if (flags != INVALID_FILE_ATTRIBUTES && (flags & link) == link && RemoveDirectoryW(path))
        return true;
    if (flags != INVALID_FILE_ATTRIBUTES && flags & FILE_ATTRIBUTE_READONLY &&
        SetFileAttributesW(path, flags & ~(DWORD)FILE_ATTRIBUTE_READONLY)) {
        if (DeleteFileW(path)) return true;
        (void)SetFileAttributesW(path, flags);
    }
    SetLastError(error);
    return false;
}

int unlink(const char *path) {
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    bool gone = DeleteFileW(wide) || delete_otherwise(wide);
    DWORD error = GetLastError();
    free(wide);
    return gone ? 0 : mc_set_errno(error);
}

int remove(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) ? rmdir(path) : unlink(path);
}

/* Replaces a file that others have open, as POSIX does, from Windows 10 1809 on. */
static bool rename_posix(const wchar_t *from, const wchar_t *to) {
    enum { REPLACE = 1, POSIX_SEMANTICS = 2, IGNORE_READONLY = 64, INFO_EX = 22 };
    typedef struct rename_info {
        DWORD flags;
        HANDLE root;
        DWORD bytes;
        wchar_t name[1];
    } rename_info;
    size_t bytes = wcslen(to) * sizeof *to;
    rename_info *info = calloc(1, sizeof *info + bytes);
    HANDLE file = CreateFileW(
        from, DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
        OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    bool done = false;
    if (info && file != INVALID_HANDLE_VALUE) {
        info->flags = REPLACE | POSIX_SEMANTICS | IGNORE_READONLY;
        info->bytes = (DWORD)bytes;
        memcpy(info->name, to, bytes);
        done = SetFileInformationByHandle(file, INFO_EX, info, (DWORD)(sizeof *info + bytes));
    }
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    free(info);
    return done;
}

/* Where Windows is older, a file that somebody has open cannot be replaced, but gets another name,
 * by which it goes when it is closed. */
static bool rename_around(const wchar_t *from, const wchar_t *to) {
    static const wchar_t suffix[] = L".mica-old";
    size_t n = wcslen(to);
    wchar_t *aside = malloc(n * sizeof *to + sizeof suffix);
    if (!aside) return false;
    wcscpy(aside, to);
    wcscpy(aside + n, suffix);
    (void)DeleteFileW(aside); /* of an earlier time */
    bool done = MoveFileExW(to, aside, MOVEFILE_WRITE_THROUGH);
    if (done && !MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH)) {
        done = false;
        (void)MoveFileExW(aside, to, MOVEFILE_WRITE_THROUGH);
    }
    if (done && !DeleteFileW(aside)) (void)delete_otherwise(aside);
    free(aside);
    return done;
}

/* A folder takes the place of an empty one. */
int rename(const char *from, const char *to) {
    struct stat info, there;
    if (lstat(from, &info) != 0) return -1;
    bool taken = lstat(to, &there) == 0;
    bool itself = taken && info.st_dev == there.st_dev && info.st_ino == there.st_ino;
    if (S_ISDIR(info.st_mode) && taken && !itself && S_ISDIR(there.st_mode) && rmdir(to) != 0)
        return -1;
    wchar_t *old = mc_utf16_path(from), *new = old ? mc_utf16_path(to) : NULL;
    bool ready = new != NULL, done = ready &&rename_posix(old, new);
    DWORD error = ERROR_SUCCESS;
    if (ready && !done) {
        done = MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
        error = GetLastError();
        bool held = error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION ||
                    error == ERROR_USER_MAPPED_FILE;
        if (!done && held && taken && !itself && S_ISREG(there.st_mode))
            done = rename_around(old, new);
    }
    free(old);
    free(new);
    return done ? 0 : ready ? mc_set_errno(error) : -1;
}

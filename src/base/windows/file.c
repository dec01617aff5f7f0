/* Open files. */
#include <sys/socket.h>

#include "base/windows/posix.h"

#include <sddl.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* mingw does not declare it. */
_invalid_parameter_handler _set_thread_local_invalid_parameter_handler(
    _invalid_parameter_handler handler);

static void ignore(const wchar_t *expression, const wchar_t *function, const wchar_t *file,
                   unsigned line, uintptr_t reserved) {
    (void)expression, (void)function, (void)file, (void)line, (void)reserved;
}

/* For a number that is no descriptor the C library ends the program unless it is told not to. */
HANDLE mc_handle_of(int fd) {
    _invalid_parameter_handler before = _set_thread_local_invalid_parameter_handler(ignore);
    HANDLE file = (HANDLE)_get_osfhandle(fd);
    _set_thread_local_invalid_parameter_handler(before);
    if (file != (HANDLE)-2) return file; /* -2: a stream that leads nowhere */
    errno = EBADF;
    return INVALID_HANDLE_VALUE;
}

enum { SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

static DWORD rights_of(int flags) {
    switch (flags & _O_ACCMODE) {
    case _O_RDONLY:
        return GENERIC_READ;
    case _O_WRONLY:
        return GENERIC_WRITE | FILE_READ_ATTRIBUTES;
    default:
        return GENERIC_READ | GENERIC_WRITE;
    }
}

static DWORD creation_of(int flags) {
    if (flags & _O_CREAT)
        return flags & _O_EXCL ? CREATE_NEW : flags & _O_TRUNC ? CREATE_ALWAYS : OPEN_ALWAYS;
    return flags & _O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
}

/* Whether the file is of the type that the flags allow; sets errno. */
static bool is_allowed(HANDLE file, int flags) {
    FILE_ATTRIBUTE_TAG_INFO info;
    bool folder = false, link = false;
    if (GetFileType(file) == FILE_TYPE_DISK &&
        GetFileInformationByHandleEx(file, FileAttributeTagInfo, &info, sizeof info)) {
        folder = (info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
        link = (info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
               (info.ReparseTag == IO_REPARSE_TAG_SYMLINK ||
                info.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
    }
    if (link && flags & O_NOFOLLOW)
        errno = ELOOP;
    else if (folder && (flags & _O_ACCMODE) != _O_RDONLY)
        errno = EISDIR;
    else if (!folder && flags & O_DIRECTORY)
        errno = ENOTDIR;
    else
        return true;
    return false;
}

/* "/dev/fd/N" is that descriptor once more. */
static int find_number(const char *path) {
    int fd, end = 0;
    return sscanf(path, "/dev/fd/%9d%n", &fd, &end) == 1 && !path[end] ? fd : -1;
}

int open(const char *path, int flags, ...) {
    int number = find_number(path);
    if (number >= 0) return fcntl(number, F_DUPFD_CLOEXEC, 0);
    wchar_t *wide = mc_utf16_path(path);
    if (!wide) return -1;
    DWORD attributes = FILE_FLAG_BACKUP_SEMANTICS | FILE_ATTRIBUTE_NORMAL |
                       (flags & O_NOFOLLOW ? (DWORD)FILE_FLAG_OPEN_REPARSE_POINT : 0);
    HANDLE file =
        CreateFileW(wide, rights_of(flags), SHARED, NULL, creation_of(flags), attributes, NULL);
    DWORD error = GetLastError();
    DWORD there = file == INVALID_HANDLE_VALUE ? GetFileAttributesW(wide) : 0;
    free(wide);
    if (file == INVALID_HANDLE_VALUE) {
        mc_set_errno(error);
        if (there != INVALID_FILE_ATTRIBUTES && there & FILE_ATTRIBUTE_DIRECTORY &&
            errno == EACCES && (flags & _O_ACCMODE) != _O_RDONLY)
            errno = EISDIR;
        return -1;
    }
    int fd = -1;
    if (is_allowed(file, flags))
        fd = _open_osfhandle((intptr_t)file,
                             _O_BINARY | _O_NOINHERIT | (flags & (_O_ACCMODE | _O_APPEND)));
    if (fd < 0) {
        int kept = errno;
        CloseHandle(file);
        errno = kept;
    }
    return fd;
}

int mkstemp(char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567"; /* names have no case */
    enum { CHANCE = 6, TRIES = 100 };
    unsigned char chance[CHANCE];
    char *end = path + strlen(path) - CHANCE;
    for (int i = 0; i < TRIES; i++) {
        if (getentropy(chance, sizeof chance) != 0) return -1;
        for (int k = 0; k < CHANCE; k++)
            end[k] = letters[chance[k] % 32];
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

int fcntl(int fd, int command, ...) {
    if (fd >= MC_SOCKET) /* it is not inherited anyway */
        return command == F_SETFL ? mc_socket_set_nonblocking(fd) : 0;
    if (command == F_GETFD) return mc_handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : 0;
    if (command != F_DUPFD_CLOEXEC) {
        errno = EINVAL;
        return -1;
    }
    HANDLE from = mc_handle_of(fd), self = GetCurrentProcess(), copy;
    if (from == INVALID_HANDLE_VALUE) return -1;
    if (!DuplicateHandle(self, from, self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS))
        return mc_set_errno(GetLastError());
    int made = _open_osfhandle((intptr_t)copy, _O_BINARY | _O_NOINHERIT);
    if (made < 0) CloseHandle(copy);
    return made;
}

int faccessat(int at, const char *path, int mode, int flags) {
    (void)at, (void)flags;
    return access(path, mode);
}

ssize_t read(int fd, void *bytes, size_t n) {
    if (fd >= MC_SOCKET) return mc_posix_recv(fd, bytes, n, 0);
    return _read(fd, bytes, n < INT_MAX ? (unsigned)n : INT_MAX);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    if (fd >= MC_SOCKET) return mc_posix_send(fd, bytes, n);
    return _write(fd, bytes, n < INT_MAX ? (unsigned)n : INT_MAX);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at) {
    OVERLAPPED from = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
    HANDLE file = mc_handle_of(fd);
    DWORD got = 0;
    if (file == INVALID_HANDLE_VALUE) return -1;
    if (!ReadFile(file, bytes, n < INT_MAX ? (DWORD)n : INT_MAX, &got, &from)) {
        DWORD error = GetLastError();
        return error == ERROR_HANDLE_EOF ? 0 : mc_set_errno(error);
    }
    return (ssize_t)got;
}

int ftruncate(int fd, off_t bytes) {
    int error = mc_handle_of(fd) == INVALID_HANDLE_VALUE ? EBADF : _chsize_s(fd, bytes);
    if (error) errno = error;
    return error ? -1 : 0;
}

int fsync(int fd) {
    HANDLE file = mc_handle_of(fd);
    if (file == INVALID_HANDLE_VALUE) return -1;
    BY_HANDLE_FILE_INFORMATION info;
    if (!GetFileInformationByHandle(file, &info) ||
        info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) { /* NTFS keeps names in order itself */
        errno = EINVAL;
        return -1;
    }
    return FlushFileBuffers(file) ? 0 : mc_set_errno(GetLastError());
}

int isatty(int fd) {
    DWORD mode;
    HANDLE file = mc_handle_of(fd);
    return file != INVALID_HANDLE_VALUE && GetConsoleMode(file, &mode);
}

/* The rights of what is this user's alone, as text. */
enum { MAX_RIGHTS = 256 };
static bool find_own_rights(wchar_t *text) {
    union {
        TOKEN_USER user;
        BYTE bytes[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } of;
    HANDLE token;
    DWORD n;
    wchar_t *sid = NULL;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return false;
    bool found = GetTokenInformation(token, TokenUser, &of, sizeof of, &n) &&
                 ConvertSidToStringSidW(of.user.User.Sid, &sid);
    DWORD error = GetLastError();
    CloseHandle(token);
    if (found) swprintf(text, MAX_RIGHTS, L"D:P(A;;FA;;;%ls)", sid);
    LocalFree(sid);
    SetLastError(error);
    return found;
}

/* A new file is its folder's, for whom the folder is. 0600 is the user's alone. */
int fchmod(int fd, mode_t mode) {
    wchar_t own[MAX_RIGHTS];
    PSECURITY_DESCRIPTOR only = NULL;
    if (mode & 0077) return 0;
    HANDLE file = mc_handle_of(fd);
    if (file == INVALID_HANDLE_VALUE) return -1;
    HANDLE again = ReOpenFile(file, WRITE_DAC, SHARED, 0);
    bool set =
        again != INVALID_HANDLE_VALUE && find_own_rights(own) &&
        ConvertStringSecurityDescriptorToSecurityDescriptorW(own, SDDL_REVISION_1, &only, NULL) &&
        SetKernelObjectSecurity(again, DACL_SECURITY_INFORMATION, only);
    DWORD error = GetLastError();
    if (again != INVALID_HANDLE_VALUE) CloseHandle(again);
    LocalFree(only);
    return set ? 0 : mc_set_errno(error);
}

mode_t umask(mode_t mask) {
    return mask;
}

int chmod(const char *path, mode_t mode) {
    int fd = mode & 0077 ? -2 : open(path, O_RDONLY);
    int code = fd == -2 ? 0 : fd < 0 ? -1 : fchmod(fd, mode);
    if (fd >= 0) close(fd);
    return code;
}

int fchown(int fd, unsigned user, unsigned group) {
    (void)fd, (void)user, (void)group;
    errno = EPERM;
    return -1;
}

/* ---- locks ---- */

/* Locks of folders: by descriptor, the handle of a name. */
enum { MAX_FOLDER_LOCKS = 256 };
static struct {
    int fd;
    HANDLE name;
} folder_locks[MAX_FOLDER_LOCKS];
static SRWLOCK folder_lock = SRWLOCK_INIT;

static void unlock_folder(int fd) {
    AcquireSRWLockExclusive(&folder_lock);
    for (int i = 0; i < MAX_FOLDER_LOCKS; i++)
        if (folder_locks[i].name && folder_locks[i].fd == fd) {
            CloseHandle(folder_locks[i].name);
            folder_locks[i].name = NULL;
        }
    ReleaseSRWLockExclusive(&folder_lock);
}

static int lock_folder(int fd, const BY_HANDLE_FILE_INFORMATION *info) {
    wchar_t name[64];
    swprintf(name, sizeof name / sizeof *name, L"mica-folder-%08lx-%08lx%08lx",
             info->dwVolumeSerialNumber, info->nFileIndexHigh, info->nFileIndexLow);
    int at = 0;
    AcquireSRWLockExclusive(&folder_lock);
    while (at < MAX_FOLDER_LOCKS && folder_locks[at].name)
        at++;
    HANDLE made = at < MAX_FOLDER_LOCKS ? CreateMutexW(NULL, FALSE, name) : NULL;
    DWORD error = at < MAX_FOLDER_LOCKS ? GetLastError() : ERROR_TOO_MANY_OPEN_FILES;
    bool taken = made ? error == ERROR_ALREADY_EXISTS
                      : error == ERROR_ACCESS_DENIED; /* an administrator has it */
    if (made && taken) CloseHandle(made);
    if (made && !taken) {
        folder_locks[at].fd = fd;
        folder_locks[at].name = made;
    }
    ReleaseSRWLockExclusive(&folder_lock);
    errno = taken ? EWOULDBLOCK : ENOLCK;
    return made && !taken ? 0 : -1;
}

int flock(int fd, int operation) {
    OVERLAPPED at = {.Offset = 0, .OffsetHigh = 0x7FFFFFFF};
    BY_HANDLE_FILE_INFORMATION info;
    HANDLE file = mc_handle_of(fd);
    if (file == INVALID_HANDLE_VALUE) return -1;
    if (GetFileInformationByHandle(file, &info) &&
        info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
        unlock_folder(fd);
        return operation & LOCK_UN ? 0 : lock_folder(fd, &info);
    }
    if (operation & LOCK_UN)
        return UnlockFileEx(file, 0, 1, 0, &at) ? 0 : mc_set_errno(GetLastError());
    DWORD flags = (operation & LOCK_EX ? (DWORD)LOCKFILE_EXCLUSIVE_LOCK : 0) |
                  (operation & LOCK_NB ? (DWORD)LOCKFILE_FAIL_IMMEDIATELY : 0);
    if (LockFileEx(file, flags, 0, 1, 0, &at)) return 0;
    DWORD error = GetLastError();
    mc_set_errno(error);
    if (error == ERROR_IO_PENDING || error == ERROR_LOCK_VIOLATION) errno = EWOULDBLOCK;
    return -1;
}

int close(int fd) {
    if (fd >= MC_SOCKET) return mc_socket_close(fd);
    unlock_folder(fd);
    return mc_handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : _close(fd);
}

/* ---- waiting ---- */

/* Whether a read would return at once: with bytes, the end or an error. */
static bool is_ready(HANDLE file) {
    DWORD n = 0;
    switch (GetFileType(file)) {
    case FILE_TYPE_PIPE:
        return !PeekNamedPipe(file, NULL, 0, NULL, &n, NULL) || n > 0;
    case FILE_TYPE_CHAR:
        return WaitForSingleObject(file, 0) == WAIT_OBJECT_0;
    default:
        return true;
    }
}

int poll(struct pollfd *fds, unsigned n, int timeout_ms) {
    enum { LOOK_MS = 5 };
    ULONGLONG begin = GetTickCount64();
    unsigned sockets = 0;
    for (unsigned i = 0; i < n; i++)
        sockets += fds[i].fd >= MC_SOCKET;
    if (n > 0 && sockets == n) return mc_socket_poll(fds, n, timeout_ms);
    for (;;) {
        int ready = sockets > 0 ? mc_socket_poll(fds, n, 0) : 0;
        for (unsigned i = 0; i < n; i++) {
            if (fds[i].fd >= MC_SOCKET) continue;
            fds[i].revents = 0;
            if (fds[i].fd < 0) continue; /* left out, as POSIX has it */
            HANDLE file = mc_handle_of(fds[i].fd);
            bool now = file == INVALID_HANDLE_VALUE || is_ready(file);
            fds[i].revents = now ? POLLIN : 0;
            ready += now;
        }
        if (ready > 0 || (timeout_ms >= 0 && GetTickCount64() - begin >= (ULONGLONG)timeout_ms))
            return ready;
        Sleep(LOOK_MS);
    }
}

/* ---- streams ---- */

/* The flags of fopen's mode; -1: there is no such mode. */
static int flags_of(const char *mode) {
    bool both = strchr(mode, '+') != NULL;
    int flags = strchr(mode, 'x') ? _O_EXCL : 0;
    if (mode[0] == 'r') return flags | (both ? _O_RDWR : _O_RDONLY);
    if (mode[0] == 'w') return flags | _O_CREAT | _O_TRUNC | (both ? _O_RDWR : _O_WRONLY);
    if (mode[0] == 'a') return flags | _O_CREAT | _O_APPEND | (both ? _O_RDWR : _O_WRONLY);
    errno = EINVAL;
    return -1;
}

FILE *fopen(const char *path, const char *mode) {
    int flags = flags_of(mode), fd = flags < 0 ? -1 : open(path, flags, 0666);
    if (fd < 0) return NULL;
    char plain[4] = {mode[0], 'b', strchr(mode, '+') ? '+' : '\0', '\0'};
    FILE *file = _fdopen(fd, plain);
    if (!file) _close(fd);
    return file;
}

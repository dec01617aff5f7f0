/* Texts, errors and variables: UTF-8 inside, UTF-16 at the border. */
#include "base/windows/posix.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

wchar_t *mc_utf16(const char *text) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, n);
    if (!wide) errno = n > 0 ? ENOMEM : EILSEQ;
    return wide;
}

char *mc_utf8_of(const wchar_t *text) {
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *narrow = n > 0 ? malloc((size_t)n) : NULL;
    if (narrow) WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, n, NULL, NULL);
    if (!narrow) errno = n > 0 ? ENOMEM : EILSEQ;
    return narrow;
}

int mc_set_errno(DWORD error) {
    static const struct {
        DWORD windows;
        int posix;
    } rows[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_BAD_NET_NAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_MOD_NOT_FOUND, ENOENT},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EBUSY},
        {ERROR_LOCK_VIOLATION, EAGAIN},
        {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_DISK_QUOTA_EXCEEDED, ENOSPC},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG},
        {ERROR_BROKEN_PIPE, EPIPE},
        {ERROR_NO_DATA, EPIPE},
        {ERROR_NOT_SAME_DEVICE, EXDEV},
        {ERROR_PRIVILEGE_NOT_HELD, EPERM},
        {ERROR_INVALID_PARAMETER, EINVAL},
        {ERROR_NOT_SUPPORTED, ENOTSUP},
        {ERROR_DELETE_PENDING, EBUSY},
        {ERROR_USER_MAPPED_FILE, EBUSY},
    };
    errno = EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].windows == error) errno = rows[i].posix;
    return -1;
}

void mc_set_time(FILETIME from, struct timespec *to) {
    uint64_t ticks = (uint64_t)from.dwHighDateTime << 32 | from.dwLowDateTime; /* of 100 ns */
    const uint64_t to_1970 = UINT64_C(116444736000000000);
    ticks = ticks > to_1970 ? ticks - to_1970 : 0;
    to->tv_sec = (time_t)(ticks / 10000000);
    to->tv_nsec = (long)(ticks % 10000000) * 100;
}

int strerror_r(int error, char *text, size_t bytes) {
    return strerror_s(text, bytes, error);
}

/* ---- variables ---- */

/* All texts that getenv has given out, each once. */
typedef struct given {
    struct given *next;
    char text[];
} given;

static given *all_given;
static SRWLOCK given_lock = SRWLOCK_INIT;

static char *give(char *text) {
    AcquireSRWLockExclusive(&given_lock);
    given *at = all_given;
    while (at && strcmp(at->text, text) != 0)
        at = at->next;
    if (!at && (at = malloc(sizeof *at + strlen(text) + 1))) {
        strcpy(at->text, text);
        at->next = all_given;
        all_given = at;
    }
    ReleaseSRWLockExclusive(&given_lock);
    free(text);
    return at ? at->text : NULL;
}

static wchar_t *find_variable(const wchar_t *name) {
    DWORD room = 128;
    for (;;) {
        wchar_t *value = malloc(room * sizeof *value);
        if (!value) return NULL;
        value[0] = L'\0'; /* an empty one has no letters to write */
        SetLastError(ERROR_SUCCESS);
        DWORD n = GetEnvironmentVariableW(name, value, room);
        if (n < room && (n > 0 || GetLastError() == ERROR_SUCCESS)) return value;
        free(value);
        if (n == 0) return NULL;
        room = n;
    }
}

/* What Windows calls a variable that is not set; NULL: it has no such. */
static wchar_t *find_own(const char *name) {
    if (strcmp(name, "HOME") == 0) return find_variable(L"USERPROFILE");
    return strcmp(name, "TMPDIR") == 0 ? find_variable(L"TEMP") : NULL;
}

char *getenv(const char *name) {
    wchar_t *wide = mc_utf16(name), *value = wide ? find_variable(wide) : NULL;
    if (!value) value = find_own(name);
    char *text = value ? mc_utf8_of(value) : NULL;
    free(wide);
    free(value);
    return text ? give(text) : NULL;
}

int setenv(const char *name, const char *value, int replace) {
    if (!replace && getenv(name)) return 0;
    wchar_t *wide = mc_utf16(name), *text = value ? mc_utf16(value) : NULL;
    bool set = wide && (text || !value) && SetEnvironmentVariableW(wide, text);
    free(wide);
    free(text);
    return set || !value ? 0 : -1;
}

int unsetenv(const char *name) {
    return setenv(name, NULL, 1);
}

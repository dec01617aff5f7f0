/* Functions of POSIX that mica calls and Windows does not have, or has otherwise: over the Windows
 * API, by the same names for those who include <unistd.h> and so on from windows/include. Other
 * programs that are linked with mica keep their C library's.
 *
 * Names and texts are UTF-8; UTF-16 is at the border to Windows alone. Paths have slashes or
 * backslashes, and any length. Names that Windows keeps for devices (NUL, COM1) are refused, but
 * /dev/null is one. Errors are errno's. Threads: any, as in POSIX. */
#ifndef BASE_WINDOWS_POSIX_H
#define BASE_WINDOWS_POSIX_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <stdint.h>

/* The text in new memory, freed with free; NULL sets errno: no memory, or no UTF-8. */
wchar_t *mc_utf16(const char *text);
char *mc_utf8_of(const wchar_t *text);

/* A path for the Windows API, freed with free; NULL sets errno. */
wchar_t *mc_utf16_path(const char *path);

/* The path of an open file or folder, freed with free; NULL sets errno. */
wchar_t *mc_path_of_handle(HANDLE file);

/* What a descriptor stands for; INVALID_HANDLE_VALUE sets errno. */
HANDLE mc_handle_of(int fd);

/* Of sockets (sys/socket.h), for functions that take files, too. */
int mc_socket_close(int fd);
int mc_socket_set_nonblocking(int fd);
struct mc_posix_pollfd;
int mc_socket_poll(struct mc_posix_pollfd *fds, unsigned n, int timeout_ms);

/* Sets errno by the code of GetLastError. returns  -1 */
int mc_set_errno(DWORD error);

/* Seconds and nanoseconds since 1970. */
struct timespec;
void mc_set_time(FILETIME from, struct timespec *to);

#endif

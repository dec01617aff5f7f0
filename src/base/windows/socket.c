/* Sockets. */
#include <sys/socket.h>

#include "base/windows/posix.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <bcrypt.h>

#undef socket
#undef bind
#undef listen
#undef accept
#undef connect
#undef send
#undef recv
#undef shutdown
#undef setsockopt
#undef getsockname
#undef getaddrinfo

static SOCKET socket_of(int fd) {
    return (SOCKET)(fd & ~MC_SOCKET);
}

/* Sets errno by the last error. returns  -1 */
static int fail(void) {
    static const struct {
        int windows, posix;
    } rows[] = {{WSAEWOULDBLOCK, EWOULDBLOCK},
                {WSAETIMEDOUT, EWOULDBLOCK},
                {WSAEINTR, EINTR},
                {WSAECONNABORTED, ECONNABORTED},
                {WSAECONNRESET, ECONNRESET},
                {WSAECONNREFUSED, ECONNREFUSED},
                {WSAEADDRINUSE, EADDRINUSE},
                {WSAEADDRNOTAVAIL, EADDRNOTAVAIL},
                {WSAEACCES, EACCES},
                {WSAEMFILE, EMFILE},
                {WSAENOBUFS, ENOMEM},
                {WSAENOTSOCK, EBADF},
                {WSAEINVAL, EINVAL},
                {WSAEAFNOSUPPORT, EAFNOSUPPORT},
                {WSAENOTCONN, ENOTCONN},
                {WSAESHUTDOWN, EPIPE}};
    int error = WSAGetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].windows == error) errno = rows[i].posix;
    return -1;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
    WSADATA data;
    (void)WSAStartup(MAKEWORD(2, 2), &data); /* or sockets fail */
}

/* Children do not inherit it. */
static int made(SOCKET s) {
    if (s == INVALID_SOCKET) return fail();
    SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
    return (int)s | MC_SOCKET;
}

int mc_posix_socket(int family, int type, int protocol) {
    pthread_once(&once, start);
    return made(socket(family, type, protocol));
}

int mc_posix_bind(int fd, const struct sockaddr *address, socklen_t bytes) {
    return bind(socket_of(fd), address, bytes) == 0 ? 0 : fail();
}

int mc_posix_listen(int fd, int backlog) {
    return listen(socket_of(fd), backlog) == 0 ? 0 : fail();
}

int mc_posix_accept(int fd, struct sockaddr *address, socklen_t *bytes) {
    return made(accept(socket_of(fd), address, bytes));
}

int mc_posix_connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    return connect(socket_of(fd), address, bytes) == 0 ? 0 : fail();
}

ssize_t mc_posix_send(int fd, const void *data, size_t bytes) {
    int n = send(socket_of(fd), data, bytes < INT_MAX ? (int)bytes : INT_MAX, 0);
    return n >= 0 ? n : fail();
}

ssize_t mc_posix_recv(int fd, void *data, size_t bytes, int flags) {
    int n = recv(socket_of(fd), data, bytes < INT_MAX ? (int)bytes : INT_MAX, flags);
    return n >= 0 ? n : fail();
}

int mc_posix_shutdown(int fd, int how) {
    return shutdown(socket_of(fd), how) == 0 ? 0 : fail();
}

/* What POSIX calls SO_REUSEADDR is how Windows binds anyway; its own lets others take the port. */
int mc_posix_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes) {
    if (level == SOL_SOCKET && name == SO_REUSEADDR) return 0;
    struct timeval limit;
    DWORD ms;
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO) &&
        bytes == sizeof limit) {
        memcpy(&limit, value, sizeof limit);
        ms = (DWORD)limit.tv_sec * 1000 + ((DWORD)limit.tv_usec + 999) / 1000; /* 0: no limit */
        value = &ms;
        bytes = sizeof ms;
    }
    return setsockopt(socket_of(fd), level, name, value, bytes) == 0 ? 0 : fail();
}

int mc_posix_getsockname(int fd, struct sockaddr *address, socklen_t *bytes) {
    return getsockname(socket_of(fd), address, bytes) == 0 ? 0 : fail();
}

int mc_posix_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **found) {
    pthread_once(&once, start);
    return getaddrinfo(host, service, hints, found);
}

const char *mc_posix_gai_strerror(int error) {
    return error == EAI_NONAME ? "no such host" : "it cannot be looked up";
}

/* ---- for files' functions ---- */

int mc_socket_close(int fd) {
    return closesocket(socket_of(fd)) == 0 ? 0 : fail();
}

int mc_socket_set_nonblocking(int fd) {
    u_long on = 1;
    return ioctlsocket(socket_of(fd), (long)FIONBIO, &on) == 0 ? 0 : fail();
}

/* How many of the sockets among `fds` are ready. */
int mc_socket_poll(struct pollfd *fds, unsigned n, int timeout_ms) {
    enum { MOST = 64 };
    WSAPOLLFD rows[MOST];
    unsigned count = 0, at = 0;
    for (unsigned i = 0; i < n && count < MOST; i++)
        if (fds[i].fd >= MC_SOCKET)
            rows[count++] = (WSAPOLLFD){.fd = socket_of(fds[i].fd), .events = POLLRDNORM};
    int ready = WSAPoll(rows, count, timeout_ms);
    if (ready < 0) return fail();
    for (unsigned i = 0; i < n && at < count; i++) {
        if (fds[i].fd < MC_SOCKET) continue;
        fds[i].revents = rows[at].revents ? POLLIN : 0;
        at++;
    }
    return ready;
}

/* ---- pairs ---- */

static bool is_same(SOCKET from, SOCKET to) {
    struct sockaddr_in a, b;
    int an = sizeof a, bn = sizeof b;
    return getsockname(from, (struct sockaddr *)&a, &an) == 0 &&
           getpeername(to, (struct sockaddr *)&b, &bn) == 0 && a.sin_port == b.sin_port &&
           a.sin_addr.s_addr == b.sin_addr.s_addr;
}

/* Whoever else connects meanwhile is not ours. */
static bool make_pair(SOCKET listener, SOCKET pair[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    int bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &bytes) != 0 ||
        connect(pair[0], (struct sockaddr *)&at, sizeof at) != 0)
        return false;
    pair[1] = accept(listener, NULL, NULL);
    return pair[1] != INVALID_SOCKET && is_same(pair[0], pair[1]);
}

int mc_posix_socketpair(int pair[2]) {
    pthread_once(&once, start);
    SOCKET ends[2] = {socket(AF_INET, SOCK_STREAM, 0), INVALID_SOCKET};
    SOCKET listener = socket(AF_INET, SOCK_STREAM, 0);
    BOOL now = TRUE;
    bool whole = make_pair(listener, ends);
    if (!whole) (void)fail();
    closesocket(listener);
    for (int i = 0; i < 2; i++) {
        if (!whole) closesocket(ends[i]);
        if (!whole) continue;
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, (const char *)&now, sizeof now);
        pair[i] = made(ends[i]);
    }
    return whole ? 0 : -1;
}

int pipe(int ends[2]) {
    return mc_posix_socketpair(ends);
}

int getentropy(void *bytes, size_t n) {
    return BCryptGenRandom(NULL, bytes, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0 ? 0 : -1;
}

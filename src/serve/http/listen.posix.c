#define _POSIX_C_SOURCE 200809L
#include "serve/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static const char unix_prefix[] = "unix:";

static int open_socket(int family) {
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0) return fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static mica_status fail_at(mc_listen *out, const char *doing) {
    int error = errno;
    if (out->fd >= 0) close(out->fd);
    out->fd = -1;
    return mc_fail_errno(error, "cannot %s %s", doing, out->address);
}

/* ---- of the file system ---- */

/* Removes the socket of a program that has ended: nobody listens at it. */
static void remove_leftover(const struct sockaddr_un *name) {
    struct stat info;
    if (lstat(name->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return;
    int fd = open_socket(AF_UNIX);
    if (fd < 0) return;
    if (connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED)
        unlink(name->sun_path);
    close(fd);
}

static mica_status open_unix(const char *path, mc_listen *out) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof name.sun_path)
        return mc_fail(MICA_EINVAL, "unix:%s: want a path of 1 to %zu bytes", path,
                       sizeof name.sun_path - 1);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    snprintf(out->address, sizeof out->address, "unix:%s", path);
    out->loopback = true;
    remove_leftover(&name);
    out->fd = open_socket(AF_UNIX);
    if (out->fd < 0) return fail_at(out, "open");
    /* Before it listens nobody can connect. */
    if (bind(out->fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        chmod(path, S_IRUSR | S_IWUSR) != 0)
        return fail_at(out, "listen at");
    if (listen(out->fd, BACKLOG) != 0) return fail_at(out, "listen at");
    return MICA_OK;
}

void mc_listen_forget(const mc_listen *at) {
    if (strncmp(at->address, unix_prefix, sizeof unix_prefix - 1) == 0)
        unlink(at->address + sizeof unix_prefix - 1);
}

/* ---- of the network ---- */

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return memcmp(&in6.sin6_addr, &in6addr_loopback, sizeof in6.sin6_addr) == 0;
}

/* The port that the system chose, and the address as a client writes it. */
static bool describe(mc_listen *out) {
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char host[64], port[16];
    if (getsockname(out->fd, (struct sockaddr *)&bound, &len) != 0 ||
        getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    bool six = bound.ss_family == AF_INET6;
    out->port = 0;
    for (const char *digit = port; *digit; digit++)
        out->port = out->port * 10 + (*digit - '0');
    snprintf(out->address, sizeof out->address, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "",
             port);
    return true;
}

void mc_listen_print(const struct sockaddr *address, char *out, size_t bytes) {
    socklen_t len = 0;
    if (address && address->sa_family == AF_INET) len = sizeof(struct sockaddr_in);
    if (address && address->sa_family == AF_INET6) len = sizeof(struct sockaddr_in6);
    if (!len || getnameinfo(address, len, out, (socklen_t)bytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, bytes, "unix");
}

static mica_status open_address(const struct addrinfo *at, mc_listen *out) {
    out->loopback = is_loopback(at->ai_addr);
    out->fd = open_socket(at->ai_family);
    if (out->fd < 0) return fail_at(out, "open");
    int on = 1;
    setsockopt(out->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(out->fd, at->ai_addr, (socklen_t)at->ai_addrlen) != 0 ||
        listen(out->fd, BACKLOG) != 0 || !describe(out))
        return fail_at(out, "listen at");
    return MICA_OK;
}

mica_status mc_listen_open(const char *host, int port, mc_listen *out) {
    *out = (mc_listen){.fd = -1};
    if (!host) host = "127.0.0.1";
    if (strncmp(host, unix_prefix, sizeof unix_prefix - 1) == 0)
        return open_unix(host + sizeof unix_prefix - 1, out);
    if (port < 0 || port > 65535) return mc_fail(MICA_EINVAL, "port %d: want 0 to 65535", port);
    char service[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    snprintf(service, sizeof service, "%d", port);
    snprintf(out->address, sizeof out->address, "%s:%d", host, port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error != 0)
        return mc_fail(MICA_EINVAL, "there is no address %s: %s", host, gai_strerror(error));
    const struct addrinfo *best = found; /* "localhost" is 127.0.0.1 where it is both */
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        if (at->ai_family == AF_INET && best->ai_family != AF_INET) best = at;
    mica_status status = open_address(best, out);
    freeaddrinfo(found);
    return status;
}

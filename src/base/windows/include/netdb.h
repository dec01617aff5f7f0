/* Windows: see sys/socket.h. */
#ifndef POSIX_NETDB_H
#define POSIX_NETDB_H

#include <stdint.h>
#include <sys/socket.h>

#define getaddrinfo(host, service, hints, found) mc_posix_getaddrinfo(host, service, hints, found)
#undef gai_strerror
#define gai_strerror(error) mc_posix_gai_strerror(error)

int mc_posix_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **found);
const char *mc_posix_gai_strerror(int error);
static inline int mc_posix_getnameinfo(const struct sockaddr *address, socklen_t bytes, char *host,
                                       int64_t host_bytes, char *port, int64_t port_bytes,
                                       int flags) {
    return getnameinfo(address, bytes, host, (DWORD)host_bytes, port, (DWORD)port_bytes, flags);
}
#define getnameinfo mc_posix_getnameinfo

#endif

/* Windows: see windows/posix.h. A socket is an int here, MC_SOCKET beside the bits of its handle:
 * by that close, read, write, fcntl and poll tell it from a file. */
#ifndef POSIX_SYS_SOCKET_H
#define POSIX_SYS_SOCKET_H

#include <winsock2.h>

#include <ws2tcpip.h>

#include <sys/types.h>

#define MC_SOCKET 0x40000000
#define MSG_NOSIGNAL 0 /* there is no such signal */
#define SHUT_RD SD_RECEIVE
#define SHUT_WR SD_SEND
#define SHUT_RDWR SD_BOTH

#define socket(family, type, protocol) mc_posix_socket(family, type, protocol)
#define socketpair(family, type, protocol, pair) mc_posix_socketpair(pair)
#define bind(fd, address, bytes) mc_posix_bind(fd, address, bytes)
#define listen(fd, backlog) mc_posix_listen(fd, backlog)
#define accept(fd, address, bytes) mc_posix_accept(fd, address, bytes)
#define connect(fd, address, bytes) mc_posix_connect(fd, address, bytes)
#define send(fd, data, bytes, flags) mc_posix_send(fd, data, bytes)
#define recv(fd, data, bytes, flags) mc_posix_recv(fd, data, bytes, flags)
#define shutdown(fd, how) mc_posix_shutdown(fd, how)
#define setsockopt(fd, level, name, value, bytes) mc_posix_setsockopt(fd, level, name, value, bytes)
#define getsockname(fd, address, bytes) mc_posix_getsockname(fd, address, bytes)

int mc_posix_socket(int family, int type, int protocol);
int mc_posix_socketpair(int pair[2]); /* of two that are connected on this machine */
int mc_posix_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int mc_posix_listen(int fd, int backlog);
int mc_posix_accept(int fd, struct sockaddr *address, socklen_t *bytes);
int mc_posix_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t mc_posix_send(int fd, const void *data, size_t bytes);
ssize_t mc_posix_recv(int fd, void *data, size_t bytes, int flags);
int mc_posix_shutdown(int fd, int how);
/* SO_RCVTIMEO and SO_SNDTIMEO take a struct timeval, as elsewhere. */
int mc_posix_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int mc_posix_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);

#endif

/* Windows: see windows/posix.h. */
#ifndef POSIX_POLL_H
#define POSIX_POLL_H

#include <winsock2.h>

/* Winsock has a struct of this name, and constants: these are other ones. */
#undef POLLIN
#define POLLIN 1
#define pollfd mc_posix_pollfd

struct pollfd {
    int fd;
    short events, revents;
};

/* Waits until something can be read: of files, pipes, consoles and sockets. */
int poll(struct pollfd *fds, unsigned n, int timeout_ms) __asm__("mc_posix_poll");

#endif

/* The socket that a server listens at. */
#ifndef SERVE_HTTP_LISTEN_H
#define SERVE_HTTP_LISTEN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct mc_listen {
    int fd;
    int port;          /* 0: a socket of the file system */
    bool loopback;     /* only this machine reaches it */
    char address[256]; /* "127.0.0.1:8080", "[::1]:8080" or "unix:PATH" */
} mc_listen;

/* Opens a socket that listens. host "unix:PATH" makes a socket of the file system, which only its
 * owner may connect to; one that is left over from a program that has ended is replaced.
 *
 *  host    an address or name; NULL: "127.0.0.1"
 *  port    0: one that is free
 *  errors  MICA_EINVAL no such address, a path that is too long; MICA_EIO */
mica_status mc_listen_open(const char *host, int port, mc_listen *out);

struct sockaddr;

/* Writes a client's address without its port; "unix" for a socket of the file system. */
void mc_listen_print(const struct sockaddr *address, char *out, size_t bytes);

/* Removes a socket of the file system. The descriptor is the daemon's by then. */
void mc_listen_forget(const mc_listen *at);

#endif

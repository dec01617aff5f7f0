/* What stands between clients and libmicrohttpd: it accepts connections, checks the framing of what
 * they send (serve/http/request_head.h), and gives the library plain requests over a pair of
 * sockets. What the library sends goes to the client as it is.
 *
 * Why not the library alone: what it cannot read it answers by itself, and nothing lets a program
 * change that. Threads: one of its own. */
#ifndef SERVE_HTTP_FRONT_H
#define SERVE_HTTP_FRONT_H

#include "base/status.h"

#include <stdbool.h>

struct sockaddr;

typedef struct mc_front mc_front;

typedef struct mc_front_options {
    int listening;                                 /* a socket; stays the caller's */
    int max_connections, max_connections_per_host; /* of clients; a host is an address */
    /* Takes over the library's end of a connection, of the client with that address; it closes it
     * also where it fails. */
    void (*add)(void *user, int fd, const struct sockaddr *address, unsigned address_bytes);
    void *user;
} mc_front_options;

/* errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_front_open(const mc_front_options *options, mc_front **front);

/* Accepts no more connections: `add` is not called any more. Does nothing for NULL. */
void mc_front_refuse(mc_front *front);

/* The other ends are closed. What is still to be sent is, for a second. Does nothing for NULL. */
void mc_front_close(mc_front **front);

#endif

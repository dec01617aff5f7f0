/* The connections of a server, and one thread that watches them: it notices clients that hang up
 * while their connection is suspended, closes connections whose request does not come, and keeps
 * streams alive that have nothing to say. Four times a second it also calls a function of the
 * server's, for what is to be done by the clock.
 *
 * Threads: any. Its lock comes before that of a request. */
#ifndef SERVE_HTTP_WATCH_H
#define SERVE_HTTP_WATCH_H

#include "serve/http/exchange.h"

/* A connection. */
typedef struct mc_peer {
    struct mc_peer *next, **link;
    int fd;
    mc_exchange *http;    /* what it asked, once that is there; NULL: it asks nothing */
    uint64_t deadline_us; /* when its next request must be there; 0: it is */
    bool hung_up;
} mc_peer;

typedef struct mc_watch {
    pthread_mutex_t lock;
    pthread_t thread;
    mc_peer *peers;
    int watcher; /* hangup.h */
    int wake[2]; /* a pipe that ends the thread */
    uint64_t request_us, comment_us;
    void (*tick)(void *user);
    void *user;
} mc_watch;

/* request_seconds, comment_seconds: as in mica_server_options. tick: called with `user` and without
 * the lock; must not block.
 * errors  MICA_EIO, MICA_ENOMEM. After an error there is nothing to close. */
mica_status mc_watch_open(mc_watch *watch, int request_seconds, int comment_seconds,
                          void (*tick)(void *user), void *user);
void mc_watch_close(mc_watch *watch); /* all connections were removed */

mc_peer *mc_watch_add(mc_watch *watch, int fd);       /* NULL: no memory */
void mc_watch_remove(mc_watch *watch, mc_peer *peer); /* before the socket is closed */

/* The request of a connection is there whole, and has ended. */
void mc_watch_begin(mc_watch *watch, mc_peer *peer, mc_exchange *http);
void mc_watch_done(mc_watch *watch, mc_peer *peer);

/* Cuts all requests off: no connection is suspended from now on, but those of requests that begin
 * later. */
void mc_watch_cut_all(mc_watch *watch);

#endif

/* Noticing that the other side of a socket has hung up, whoever reads the socket meanwhile.
 *
 * A side that has closed its half of a connection counts as one that has hung up: what it wants to
 * say, it has said, and most clients that do so are gone. Threads: calls for one watcher by one at
 * a time, but for waiting on its descriptor by poll, which is readable while there is news. */
#ifndef SERVE_HTTP_HANGUP_H
#define SERVE_HTTP_HANGUP_H

#include <stdbool.h>
#include <stddef.h>

int mc_hangup_open(void); /* a descriptor; -1: errno says why */
void mc_hangup_close(int watcher);
bool mc_hangup_add(int watcher, int fd, void *user); /* false: errno says why */
void mc_hangup_remove(int watcher, int fd);
/* Takes the users of up to `max` sockets that have hung up, each told once. Does not wait. */
size_t mc_hangup_take(int watcher, void **users, size_t max);

#endif

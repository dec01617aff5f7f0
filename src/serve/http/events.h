/* Waiting for many sockets. Threads: one at a time. */
#ifndef SERVE_HTTP_EVENTS_H
#define SERVE_HTTP_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { MC_EVENT_READ = 1, MC_EVENT_WRITE = 2 };

int mc_events_open(void); /* names a set of sockets; -1: errno says why */
void mc_events_close(int events);

/* Waits for other things than before; 0: for nothing. false: errno says why. */
bool mc_events_set(int events, int fd, unsigned before, unsigned now, void *user);

/* Takes the users of up to `max` sockets for which there is news. ms -1: waits for some. */
size_t mc_events_wait(int events, int ms, void **users, size_t max);

#endif

#include "serve/http/events.h"

#include <sys/socket.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* All are asked for each time: WSAPoll has no lists that stay. */
typedef struct poller {
    WSAPOLLFD *rows;
    void **users;
    size_t count, room;
    size_t next; /* where the next wait begins to give out, so that none is left out for ever */
} poller;

enum { MAX_POLLERS = 256 };
static poller *pollers[MAX_POLLERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */

int mc_events_open(void) {
    poller *p = calloc(1, sizeof *p);
    int at = 0;
    pthread_mutex_lock(&lock);
    while (p && at < MAX_POLLERS && pollers[at])
        at++;
    if (p && at < MAX_POLLERS) pollers[at] = p;
    pthread_mutex_unlock(&lock);
    if (p && at < MAX_POLLERS) return at;
    free(p);
    errno = p ? EMFILE : ENOMEM;
    return -1;
}

void mc_events_close(int events) {
    pthread_mutex_lock(&lock);
    poller *p = pollers[events];
    pollers[events] = NULL;
    pthread_mutex_unlock(&lock);
    free(p->rows);
    free(p->users);
    free(p);
}

static bool grow(poller *p) {
    if (p->count < p->room) return true;
    size_t room = p->room ? 2 * p->room : 64;
    WSAPOLLFD *rows = realloc(p->rows, room * sizeof *rows);
    if (rows) p->rows = rows;
    void **users = rows ? realloc(p->users, room * sizeof *users) : NULL;
    if (users) p->users = users;
    if (users) p->room = room;
    if (!users) errno = ENOMEM;
    return users != NULL;
}

static short words_of(unsigned waits) {
    return (short)((waits & MC_EVENT_READ ? POLLRDNORM : 0) |
                   (waits & MC_EVENT_WRITE ? POLLWRNORM : 0));
}

bool mc_events_set(int events, int fd, unsigned before, unsigned now, void *user) {
    poller *p = pollers[events];
    SOCKET wanted = (SOCKET)(fd & ~MC_SOCKET);
    size_t at = 0;
    if (before == now) return true;
    while (at < p->count && p->rows[at].fd != wanted)
        at++;
    if (at == p->count) {
        if (!now) return true;
        if (!grow(p)) return false;
        p->count++;
    }
    p->rows[at] = (WSAPOLLFD){.fd = wanted, .events = words_of(now)};
    p->users[at] = user;
    if (now) return true;
    p->count--;
    p->rows[at] = p->rows[p->count];
    p->users[at] = p->users[p->count];
    return true;
}

size_t mc_events_wait(int events, int ms, void **users, size_t max) {
    poller *p = pollers[events];
    size_t found = 0;
    if (WSAPoll(p->rows, (ULONG)p->count, ms) <= 0) return 0;
    size_t begin = p->next % p->count;
    for (size_t i = 0; i < p->count && found < max; i++) {
        size_t at = (begin + i) % p->count;
        if (!p->rows[at].revents) continue;
        users[found++] = p->users[at];
        p->next = at + 1;
    }
    return found;
}

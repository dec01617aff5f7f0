#include "serve/http/hangup.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/event.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EVENTS = 64 };

int mc_hangup_open(void) {
    int watcher = kqueue();
    if (watcher >= 0) fcntl(watcher, F_SETFD, FD_CLOEXEC);
    return watcher;
}

/* So much must have come before a socket counts as readable: more than its buffer holds. Its end is
 * told nevertheless. */
void mc_hangup_close(int watcher) {
    close(watcher);
}

bool mc_hangup_add(int watcher, int fd, void *user) {
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_ADD | EV_CLEAR, NOTE_LOWAT, INT32_MAX, user);
    return kevent(watcher, &change, 1, NULL, 0, NULL) == 0;
}

void mc_hangup_remove(int watcher, int fd) {
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    kevent(watcher, &change, 1, NULL, 0, NULL);
}

size_t mc_hangup_take(int watcher, void **users, size_t max) {
    struct kevent events[MAX_EVENTS];
    struct timespec now = {0};
    int n = kevent(watcher, NULL, 0, events, max < MAX_EVENTS ? (int)max : MAX_EVENTS, &now);
    size_t count = 0;
    for (int i = 0; i < n; i++)
        if (events[i].flags & EV_EOF) users[count++] = events[i].udata;
    return count;
}

#include "serve/http/events.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/event.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EVENTS = 64 };

int mc_events_open(void) {
    int events = kqueue();
    if (events >= 0) fcntl(events, F_SETFD, FD_CLOEXEC);
    return events;
}

static bool set(int events, int fd, int16_t filter, bool on, void *user) {
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, filter, on ? EV_ADD : EV_DELETE, 0, 0, user);
    return kevent(events, &change, 1, NULL, 0, NULL) == 0;
}

void mc_events_close(int events) {
    close(events);
}

bool mc_events_set(int events, int fd, unsigned before, unsigned now, void *user) {
    unsigned differ = before ^ now;
    bool done = true;
    if (differ & MC_EVENT_READ) done = set(events, fd, EVFILT_READ, now & MC_EVENT_READ, user);
    if (differ & MC_EVENT_WRITE)
        done = set(events, fd, EVFILT_WRITE, now & MC_EVENT_WRITE, user) && done;
    return done;
}

size_t mc_events_wait(int events, int ms, void **users, size_t max) {
    struct kevent found[MAX_EVENTS];
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    int n = kevent(events, NULL, 0, found, max < MAX_EVENTS ? (int)max : MAX_EVENTS,
                   ms < 0 ? NULL : &wait);
    for (int i = 0; i < n; i++)
        users[i] = found[i].udata;
    return n > 0 ? (size_t)n : 0;
}

#include "serve/http/events.h"

#include <sys/epoll.h>
#include <unistd.h>

enum { MAX_EVENTS = 64 };

int mc_events_open(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

void mc_events_close(int events) {
    close(events);
}

bool mc_events_set(int events, int fd, unsigned before, unsigned now, void *user) {
    struct epoll_event event = {.data.ptr = user};
    if (now & MC_EVENT_READ) event.events |= EPOLLIN;
    if (now & MC_EVENT_WRITE) event.events |= EPOLLOUT;
    if (before == now) return true;
    int how = !now ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    return epoll_ctl(events, how, fd, &event) == 0;
}

size_t mc_events_wait(int events, int ms, void **users, size_t max) {
    struct epoll_event found[MAX_EVENTS];
    int n = epoll_wait(events, found, max < MAX_EVENTS ? (int)max : MAX_EVENTS, ms);
    for (int i = 0; i < n; i++)
        users[i] = found[i].data.ptr;
    return n > 0 ? (size_t)n : 0;
}

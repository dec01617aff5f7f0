#include "serve/http/hangup.h"

#include <sys/epoll.h>
#include <unistd.h>

enum { MAX_EVENTS = 64 };

int mc_hangup_open(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

void mc_hangup_close(int watcher) {
    close(watcher);
}

bool mc_hangup_add(int watcher, int fd, void *user) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = user};
    return epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &event) == 0;
}

void mc_hangup_remove(int watcher, int fd) {
    struct epoll_event unused = {0};
    epoll_ctl(watcher, EPOLL_CTL_DEL, fd, &unused);
}

size_t mc_hangup_take(int watcher, void **users, size_t max) {
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(watcher, events, max < MAX_EVENTS ? (int)max : MAX_EVENTS, 0);
    for (int i = 0; i < n; i++)
        users[i] = events[i].data.ptr;
    return n > 0 ? (size_t)n : 0;
}

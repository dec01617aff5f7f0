#define _POSIX_C_SOURCE 200809L
#include "serve/http/watch.h"

#include "base/alloc.h"
#include "base/system.h"
#include "serve/http/hangup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* GRACE_MS: what a client had sent before it hung up is read by then. */
enum { TICK_MS = 250, GRACE_MS = 250, MAX_TAKEN = 64 };

/* When a connection is closed if it asks nothing. libmicrohttpd learns of new bytes and of their
 * end at once, reads the bytes, and never hears of the end again. */
static uint64_t deadline_of(const mc_watch *watch, const mc_peer *peer) {
    return mc_now_us() + (peer->hung_up ? GRACE_MS * 1000u : watch->request_us);
}

static void take_hangups(mc_watch *watch) {
    void *users[MAX_TAKEN];
    pthread_mutex_lock(&watch->lock);
    size_t n = mc_hangup_take(watch->watcher, users, MAX_TAKEN);
    for (size_t i = 0; i < n; i++) {
        mc_peer *peer = users[i];
        peer->hung_up = true;
        if (peer->http)
            mc_exchange_hangup(peer->http, false);
        else
            peer->deadline_us = deadline_of(watch, peer);
    }
    pthread_mutex_unlock(&watch->lock);
}

static void look_round(mc_watch *watch, uint64_t now) {
    pthread_mutex_lock(&watch->lock);
    uint64_t since = now > watch->comment_us ? now - watch->comment_us : 0;
    for (mc_peer *peer = watch->peers; peer; peer = peer->next) {
        bool late = peer->deadline_us && now > peer->deadline_us;
        if (!late && !(peer->http && mc_exchange_look(peer->http, since))) continue;
        peer->deadline_us = 0;
        shutdown(peer->fd, SHUT_RDWR); /* it may wait for a client that does not read */
    }
    pthread_mutex_unlock(&watch->lock);
}

static void *run_watch(void *context) {
    mc_watch *watch = context;
    struct pollfd fds[2] = {{.fd = watch->watcher, .events = POLLIN},
                            {.fd = watch->wake[0], .events = POLLIN}};
    uint64_t looked = mc_now_us();
    for (;;) {
        poll(fds, 2, TICK_MS);
        if (fds[1].revents) return NULL;
        if (fds[0].revents) take_hangups(watch);
        uint64_t now = mc_now_us();
        if (now - looked < TICK_MS * 1000u) continue;
        looked = now;
        look_round(watch, now);
        watch->tick(watch->user);
    }
}

mica_status mc_watch_open(mc_watch *watch, int request_seconds, int comment_seconds,
                          void (*tick)(void *user), void *user) {
    *watch = (mc_watch){.request_us = (uint64_t)request_seconds * 1000000u,
                        .comment_us = (uint64_t)comment_seconds * 1000000u,
                        .tick = tick,
                        .user = user,
                        .watcher = mc_hangup_open()};
    if (watch->watcher < 0) return mc_fail_errno(errno, "cannot watch connections");
    if (pipe(watch->wake) != 0) {
        int error = errno;
        mc_hangup_close(watch->watcher);
        return mc_fail_errno(error, "cannot open a pipe");
    }
    for (int i = 0; i < 2; i++)
        fcntl(watch->wake[i], F_SETFD, FD_CLOEXEC);
    pthread_mutex_init(&watch->lock, NULL);
    if (mc_thread_start(&watch->thread, run_watch, watch) == 0) return MICA_OK;
    mc_hangup_close(watch->watcher);
    close(watch->wake[0]);
    close(watch->wake[1]);
    return mc_fail_nomem("a thread of the server");
}

void mc_watch_close(mc_watch *watch) {
    close(watch->wake[1]); /* the other end becomes readable */
    pthread_join(watch->thread, NULL);
    close(watch->wake[0]);
    mc_hangup_close(watch->watcher);
    pthread_mutex_destroy(&watch->lock);
}

mc_peer *mc_watch_add(mc_watch *watch, int fd) {
    mc_peer *peer = mc_calloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->fd = fd;
    peer->deadline_us = deadline_of(watch, peer);
    pthread_mutex_lock(&watch->lock);
    peer->next = watch->peers;
    peer->link = &watch->peers;
    if (peer->next) peer->next->link = &peer->next;
    watch->peers = peer;
    mc_hangup_add(watch->watcher, fd, peer); /* without, a client is noticed when it is sent to */
    pthread_mutex_unlock(&watch->lock);
    return peer;
}

void mc_watch_remove(mc_watch *watch, mc_peer *peer) {
    pthread_mutex_lock(&watch->lock);
    mc_hangup_remove(watch->watcher, peer->fd);
    *peer->link = peer->next;
    if (peer->next) peer->next->link = peer->link;
    pthread_mutex_unlock(&watch->lock);
    mc_free(peer);
}

void mc_watch_begin(mc_watch *watch, mc_peer *peer, mc_exchange *http) {
    pthread_mutex_lock(&watch->lock);
    peer->http = http;
    peer->deadline_us = 0;
    if (peer->hung_up) mc_exchange_hangup(http, false);
    pthread_mutex_unlock(&watch->lock);
}

void mc_watch_done(mc_watch *watch, mc_peer *peer) {
    pthread_mutex_lock(&watch->lock);
    peer->http = NULL;
    peer->deadline_us = deadline_of(watch, peer);
    pthread_mutex_unlock(&watch->lock);
}

void mc_watch_cut_all(mc_watch *watch) {
    pthread_mutex_lock(&watch->lock);
    for (mc_peer *peer = watch->peers; peer; peer = peer->next)
        if (peer->http) mc_exchange_hangup(peer->http, true);
    pthread_mutex_unlock(&watch->lock);
}

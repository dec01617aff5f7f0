#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* SO_NOSIGPIPE */

#include "serve/http/front.h"

#include "base/alloc.h"
#include "base/system.h"
#include "serve/http/events.h"
#include "serve/http/request_body.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* LINGER_MS: how long a client may go on sending when it was answered and the connection ends: what
 * it has sent and nobody read would take the answer from it. FLUSH_MS: how long it may take to read
 * the rest of an answer. */
enum {
    PIECE = 16 << 10,
    MAX_EVENTS = 64,
    MAX_TURNS = 16, /* of one connection before the others' */
    TICK_MS = 100,
    LINGER_MS = 1000,
    LINGER_BYTES = 1 << 20,
    FLUSH_MS = 5000,
    LAST_MS = 1000
};

typedef struct connection connection;

/* The address of a client, without its port; bytes 0: a socket of the file system has none. */
typedef struct host {
    unsigned bytes;
    unsigned char address[16];
} host;

typedef struct side {
    connection *of;
    int fd;
    unsigned waits;   /* for these events */
    mc_buffer out;    /* to be sent to it */
    size_t sent;      /* of that */
    bool ended, deaf; /* it sends nothing more; nothing more can be sent to it */
} side;

struct connection {
    connection *next, **link;
    side client, inner; /* inner: the library's */
    mc_buffer in;       /* of the client: what could not be taken yet, from `taken` on */
    size_t taken;
    mc_request_head head;
    mc_request_body body;
    bool refused; /* the client's bytes count no more */
    bool lingers; /* it was answered to the end */
    host from;
    bool told;         /* the library knows that the client has said all */
    uint64_t until_us; /* it ends; 0: not known yet */
    size_t dropped;    /* bytes of a client that is not listened to */
    bool dead;
};

struct mc_front {
    mc_front_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `closed` and the calls of add */
    bool closed;
    int events, wake[2];
    side listener, waker;
    connection *first, *dead;
    int count;
    uint64_t ticked_us;
    atomic_bool ending;
};

/* ---- sockets ---- */

static void set_up(int fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

/* Reads up to PIECE bytes. returns whether there was news */
static bool receive(side *from, char *bytes, size_t *n) {
    *n = 0;
    if (from->ended) return false;
    ssize_t got = recv(from->fd, bytes, PIECE, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (got <= 0) from->ended = true;
    if (got > 0) *n = (size_t)got;
    return true;
}

static size_t waiting(const side *to) {
    return to->out.len - to->sent;
}

/* A connection that waits has no buffers. */
static void free_sent(side *to) {
    if (!to->deaf && waiting(to)) return;
    mc_buffer_deinit(&to->out);
    to->sent = 0;
}

/* Sends what is to be sent. returns whether some of it went */
static bool give(side *to) {
    free_sent(to);
    if (!waiting(to)) return false;
    ssize_t n = send(to->fd, to->out.data + to->sent, waiting(to), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (n <= 0) to->deaf = true;
    if (n > 0) to->sent += (size_t)n;
    free_sent(to);
    return true;
}

/* ---- requests ---- */

static void refuse(connection *c, bool done) {
    c->refused = true;
    if (!done) c->dead = true; /* no memory */
}

/* Takes a head. returns whether there is more to take */
static bool take_head(connection *c) {
    bool nomem = false;
    const char *bytes = c->in.data + c->taken;
    size_t n = c->in.len - c->taken, len = c->inner.out.len;
    if (c->head.looked == 0 && bytes[0] == '\r') { /* RFC 9112 2.2: some end a body with CR LF */
        if (n > 1 && bytes[1] == '\n') c->taken += 2;
        if (n < 2 || bytes[1] == '\n') return n > 2;
    }
    mc_refusal why = mc_request_head_look(&c->head, bytes, n);
    if (why == MC_REFUSAL_NONE && !c->head.whole) return false;
    if (why == MC_REFUSAL_NONE) why = mc_request_head_put(&c->head, bytes, &c->inner.out, &nomem);
    if (nomem) c->dead = true;
    if (why != MC_REFUSAL_NONE) {
        c->inner.out.len = len;
        refuse(c, mc_request_head_refuse(bytes, n, why, &c->inner.out));
        return false;
    }
    c->taken += c->head.looked;
    c->body = mc_request_body_of(&c->head);
    c->head = (mc_request_head){0};
    return true;
}

/* Takes of what the client has sent what can be taken. */
static void take_requests(connection *c) {
    bool more = true;
    while (more && c->in.len > c->taken && !c->refused && !c->dead) {
        if (c->body.state == MC_BODY_NONE) {
            more = take_head(c);
            continue;
        }
        size_t used;
        bool nomem = false;
        mc_refusal why = mc_request_body_take(&c->body, c->in.data + c->taken, c->in.len - c->taken,
                                              &used, &c->inner.out, &nomem);
        if (nomem) c->dead = true;
        if (why != MC_REFUSAL_NONE) refuse(c, mc_request_body_refuse(why, &c->inner.out));
        c->taken += used;
        more = used > 0;
    }
    if (c->refused || c->dead || c->taken == c->in.len) {
        mc_buffer_deinit(&c->in);
    } else if (c->taken > 0) {
        memmove(c->in.data, c->in.data + c->taken, c->in.len - c->taken);
        c->in.len -= c->taken;
    }
    c->taken = 0;
}

/* ---- connections ---- */

static bool take_client(connection *c) {
    char bytes[PIECE];
    size_t n;
    if (waiting(&c->inner) || !receive(&c->client, bytes, &n)) return false;
    if (c->refused || c->inner.deaf) {
        c->dropped += n;
        if (c->dropped > LINGER_BYTES) c->client.ended = true;
    } else if (n > 0 && !mc_buffer_add(&c->in, bytes, n)) {
        c->dead = true;
    } else {
        take_requests(c);
    }
    return true;
}

static bool take_inner(connection *c) {
    char bytes[PIECE];
    size_t n;
    if (waiting(&c->client) || !receive(&c->inner, bytes, &n)) return false;
    if (n > 0 && !mc_buffer_add(&c->client.out, bytes, n)) c->dead = true;
    return true;
}

/* What follows when one side has ended. */
static void settle(connection *c, bool ending) {
    uint64_t now = mc_now_us();
    if (c->client.ended && !c->told && !waiting(&c->inner)) {
        c->told = true;
        if (!c->refused) shutdown(c->inner.fd, SHUT_WR);
    }
    if (c->client.deaf) c->dead = true;
    if (!c->inner.ended) return;
    if (!c->until_us) c->until_us = now + (waiting(&c->client) ? FLUSH_MS : LINGER_MS) * 1000u;
    if (now > c->until_us) c->dead = true;
    if (waiting(&c->client)) return;
    if (c->client.ended || ending) c->dead = true;
    if (c->lingers) return;
    c->lingers = c->inner.deaf = true;
    c->until_us = now + LINGER_MS * 1000u;
    shutdown(c->client.fd, SHUT_WR);
}

static void watch(mc_front *front, side *s, unsigned waits) {
    if (!mc_events_set(front->events, s->fd, s->waits, waits, s) && s->of) s->of->dead = true;
    s->waits = waits;
}

static unsigned wants(const side *s, const side *other) {
    return (!s->ended && !waiting(other) ? MC_EVENT_READ : 0u) | (waiting(s) ? MC_EVENT_WRITE : 0u);
}

/* Moves bytes in both directions, as far as they go. */
static void pump(mc_front *front, connection *c) {
    bool moved = true;
    for (int turn = 0; turn < MAX_TURNS && moved && !c->dead; turn++) {
        moved = take_client(c);
        moved |= give(&c->inner);
        moved |= take_inner(c);
        moved |= give(&c->client);
    }
    if (!c->dead) settle(c, atomic_load(&front->ending));
    if (!c->dead) watch(front, &c->client, wants(&c->client, &c->inner));
    if (!c->dead) watch(front, &c->inner, wants(&c->inner, &c->client));
}

/* Events at hand may still name it: it is freed after them. */
static void bury(mc_front *front, connection *c) {
    watch(front, &c->client, 0);
    watch(front, &c->inner, 0);
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    close(c->client.fd);
    close(c->inner.fd);
    c->next = front->dead;
    front->dead = c;
    front->count--;
}

static void free_dead(mc_front *front) {
    while (front->dead) {
        connection *c = front->dead;
        front->dead = c->next;
        mc_buffer_deinit(&c->in);
        mc_buffer_deinit(&c->client.out);
        mc_buffer_deinit(&c->inner.out);
        mc_free(c);
    }
}

/* ---- accepting ---- */

static host host_of(const struct sockaddr *address) {
    host from = {0};
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (address->sa_family == AF_INET) {
        memcpy(&in, address, sizeof in);
        from.bytes = sizeof in.sin_addr;
        memcpy(from.address, &in.sin_addr, from.bytes);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&in6, address, sizeof in6);
        from.bytes = sizeof in6.sin6_addr;
        memcpy(from.address, &in6.sin6_addr, from.bytes);
    }
    return from;
}

/* Whether a client may have one more connection. What it has closed does not count. */
static bool is_welcome(const mc_front *front, const host *from) {
    int count = 0;
    if (!from->bytes) return true;
    for (const connection *c = front->first; c; c = c->next)
        count += !c->client.ended && memcmp(&c->from, from, sizeof *from) == 0;
    return count < front->options.max_connections_per_host;
}

static void give_to_library(mc_front *front, int fd, const struct sockaddr *address,
                            socklen_t bytes) {
    pthread_mutex_lock(&front->lock);
    if (front->closed)
        close(fd);
    else
        front->options.add(front->options.user, fd, address, (unsigned)bytes);
    pthread_mutex_unlock(&front->lock);
}

/* fd: the client's, taken over. false: no memory or descriptors */
static bool add(mc_front *front, int fd, const struct sockaddr *address, socklen_t bytes,
                const host *from) {
    int pair[2], on = 1;
    connection *c = mc_calloc(1, sizeof *c);
    set_up(fd);
    if (!c || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        mc_free(c);
        close(fd);
        return false;
    }
    set_up(pair[0]);
    set_up(pair[1]);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a token does not wait */
    c->from = *from;
    c->client = (side){.of = c, .fd = fd};
    c->inner = (side){.of = c, .fd = pair[0]};
    c->next = front->first;
    c->link = &front->first;
    if (c->next) c->next->link = &c->next;
    front->first = c;
    front->count++;
    give_to_library(front, pair[1], address, bytes);
    pump(front, c);
    if (c->dead) bury(front, c);
    return true;
}

/* returns whether there is one more to accept. */
static bool accept_one(mc_front *front) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (front->count >= front->options.max_connections) return false;
    int fd = accept(front->listener.fd, (struct sockaddr *)&address, &bytes);
    if (fd < 0) return errno == EINTR || errno == ECONNABORTED;
    host from = host_of((const struct sockaddr *)&address);
    if (is_welcome(front, &from))
        return add(front, fd, (const struct sockaddr *)&address, bytes, &from);
    close(fd);
    return true;
}

/* ---- the thread ---- */

/* Looks, each tick, at connections that are about to end. returns whether there may be some */
static bool tick(mc_front *front) {
    bool some = false, ending = atomic_load(&front->ending);
    uint64_t now = mc_now_us();
    connection *next;
    if (!ending && now - front->ticked_us < TICK_MS * 1000u) return true;
    front->ticked_us = now;
    for (connection *c = front->first; c; c = next) {
        next = c->next;
        if (!c->until_us && !ending) continue;
        some = true;
        pump(front, c);
        if (c->dead) bury(front, c);
    }
    return some;
}

/* Where no connection can be accepted now, the listener is looked at once more after a tick. */
static bool listen_on(mc_front *front, bool again) {
    bool full = front->count >= front->options.max_connections || again;
    bool ending = atomic_load(&front->ending);
    watch(front, &front->listener, full || ending ? 0 : MC_EVENT_READ);
    return full && !ending;
}

/* Accepts those that wait. returns whether it got none: there are no descriptors */
static bool accept_some(mc_front *front) {
    int left = MAX_EVENTS;
    while (left > 0 && accept_one(front))
        left--;
    return left == MAX_EVENTS;
}

/* Clients that have gone make room for those that come. */
static void take_events(mc_front *front, void **users, size_t n, bool *full) {
    bool some = false;
    for (size_t i = 0; i < n; i++) {
        side *s = users[i];
        if (s == &front->listener) some = true;
        if (!s->of || s->of->dead) continue;
        pump(front, s->of);
        if (s->of->dead) bury(front, s->of);
    }
    if (some) *full = accept_some(front);
    free_dead(front);
}

static void *run_front(void *context) {
    mc_front *front = context;
    void *users[MAX_EVENTS];
    uint64_t last = 0;
    bool full = false, some = false;
    watch(front, &front->waker, MC_EVENT_READ);
    for (;;) {
        bool waits = listen_on(front, full);
        full = false;
        size_t n = mc_events_wait(front->events, waits || some ? TICK_MS : -1, users, MAX_EVENTS);
        take_events(front, users, n, &full);
        bool ending = atomic_load(&front->ending);
        if (ending && !last) {
            last = mc_now_us() + LAST_MS * 1000u;
            watch(front, &front->waker, 0);
        }
        some = tick(front) || ending;
        free_dead(front);
        if (ending && (!front->first || mc_now_us() > last)) return NULL;
    }
}

/* ---- opening and closing ---- */

static void free_front(mc_front *front) {
    while (front->first)
        bury(front, front->first);
    free_dead(front);
    if (front->events >= 0) mc_events_close(front->events);
    for (int i = 0; i < 2; i++)
        if (front->wake[i] >= 0) close(front->wake[i]);
    pthread_mutex_destroy(&front->lock);
    mc_free(front);
}

mica_status mc_front_open(const mc_front_options *options, mc_front **out) {
    mc_front *front = mc_calloc(1, sizeof *front);
    if (!front) return mc_fail_nomem("the server's front");
    front->options = *options;
    front->wake[0] = front->wake[1] = -1;
    front->events = mc_events_open();
    pthread_mutex_init(&front->lock, NULL);
    if (front->events < 0 || pipe(front->wake) != 0) {
        int error = errno;
        free_front(front);
        return mc_fail_errno(error, "cannot watch connections");
    }
    for (int i = 0; i < 2; i++)
        set_up(front->wake[i]);
    front->listener.fd = options->listening;
    front->waker.fd = front->wake[0];
    if (mc_thread_start(&front->thread, run_front, front) != 0) {
        free_front(front);
        return mc_fail_nomem("a thread of the server");
    }
    *out = front;
    return MICA_OK;
}

void mc_front_refuse(mc_front *front) {
    if (!front) return;
    pthread_mutex_lock(&front->lock);
    front->closed = true;
    pthread_mutex_unlock(&front->lock);
}

void mc_front_close(mc_front **front) {
    if (!*front) return;
    atomic_store(&(*front)->ending, true);
    ssize_t written = write((*front)->wake[1], "", 1);
    (void)written;
    pthread_join((*front)->thread, NULL);
    free_front(*front);
    *front = NULL;
}

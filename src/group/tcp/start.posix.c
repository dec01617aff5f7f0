/* How ranks find each other: rank 0 listens, and tells each one where the others are. */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* SO_NOSIGPIPE */

#include "group/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <mica/version.h>

#include "base/alloc.h"
#include "base/system.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* HELLO_US: how long one that has come is waited for to say who it is; GUESTS: how many are waited
 * for at a time; LATER_US: how much longer than rank 0 the others wait, which it tells why it gives
 * up. */
enum { MAX_SIZE = 4096, HELLO_US = 2000000, GUESTS = 64, LATER_US = 2000000, AGAIN_MS = 50 };

/* What a rank says to rank 0. */
typedef struct hello {
    char magic[8];
    int32_t rank, size;
    int32_t port; /* where it listens, at the address that its connection comes from; 0: nowhere */
    int32_t pid;
    char host[64], version[32];
} hello;

/* What rank 0 says to all, with `size` places behind it if they have started. */
typedef struct welcome {
    char magic[8];
    char nonce[16];
    int32_t started;
    char why[484];
} welcome;

typedef struct place {
    char address[64], port[8];
} place;

/* What a rank says to others than rank 0. */
typedef struct visit {
    char nonce[16];
    int32_t rank;
} visit;

static const char magic[8] = "micatcp";

/* ---- what launchers say ---- */

/* $RANK, $WORLD_SIZE: set by torchrun: this process is one of several, which start at $MASTER_ADDR;
 * $SLURM_PROCID and $SLURM_STEP_NUM_TASKS, which srun sets, say the same */
/* $MASTER_ADDR, $MASTER_PORT: the address and port at which rank 0 listens while ranks start
 * without MPI */
/* $TORCHELASTIC_USE_AGENT_STORE: True: torchrun has taken MASTER_PORT, so ranks start at the port
 * behind it */
static const struct {
    const char *rank, *size;
} launchers[] = {{"RANK", "WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

static bool number_of(const char *name, int *number) {
    const char *text = getenv(name);
    char *end;
    long n = text ? strtol(text, &end, 10) : -1;
    if (!text || !*text || *end || n < 0 || n > MAX_SIZE * 16) return false;
    *number = (int)n;
    return true;
}

bool mc_tcp_told(int *rank, int *size) {
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (!address || !*address || !port || !*port) return false;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number_of(launchers[i].rank, rank) && number_of(launchers[i].size, size))
            return *size > 1 && *size <= MAX_SIZE && *rank < *size;
    return false;
}

static bool port_of_start(char *text, size_t bytes) {
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int port = 0;
    bool told = number_of("MASTER_PORT", &port);
    if (store && strcmp(store, "True") == 0) port++;
    snprintf(text, bytes, "%d", port);
    return told && port > 0 && port <= UINT16_MAX;
}

/* ---- sockets with a limit ---- */

/* How long a call of poll may wait; what waits longer calls it again. */
static int ms_until(uint64_t until_us) {
    uint64_t now = mc_now_us(), ms = now < until_us ? (until_us - now) / 1000 + 1 : 0;
    return ms < 60000 ? (int)ms : 60000;
}

static bool wait_for(int fd, short events, uint64_t until_us) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do
        n = poll(&p, 1, ms_until(until_us));
    while (n <= 0 && mc_now_us() < until_us); /* a signal ends poll, too */
    return n > 0;
}

/* Sends, or receives, all of it. */
static bool move(int fd, void *data, size_t bytes, bool out, uint64_t until_us) {
    for (size_t at = 0; at < bytes;) {
        char *rest = (char *)data + at;
        ssize_t n = out ? send(fd, rest, bytes - at, MSG_NOSIGNAL) : recv(fd, rest, bytes - at, 0);
        if (n > 0) at += (size_t)n;
        bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (n == 0 || (n < 0 && !later)) return false;
        if (later && !wait_for(fd, out ? POLLOUT : POLLIN, until_us)) return false;
    }
    return true;
}

static int prepare(int fd) {
    if (fd < 0) return fd;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    return fd;
}

/* A socket that listens at an address; -1: errno says why. */
static int listen_at(const struct sockaddr *address, socklen_t bytes) {
    int fd = prepare(socket(address->sa_family, SOCK_STREAM, 0));
    if (fd < 0) return fd;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, address, bytes) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Whether a socket is connected to itself: TCP does that where nobody listens at a port, and it is
 * the one that the system has chosen for the socket. */
static bool is_own(int fd) {
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 && bytes == there_bytes &&
           memcmp(&here, &there, bytes) == 0;
}

static int connect_to(const struct addrinfo *at, uint64_t until_us) {
    int fd = prepare(socket(at->ai_family, SOCK_STREAM, 0)), error = 0;
    socklen_t bytes = sizeof error;
    if (fd < 0) return fd;
    bool made = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
                (errno == EINPROGRESS && wait_for(fd, POLLOUT, until_us) &&
                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0);
    if (made && !is_own(fd)) return fd;
    close(fd);
    return -1;
}

static struct addrinfo *find_address(const char *address, const char *port) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    return getaddrinfo(address, port, &hints, &found) == 0 ? found : NULL;
}

/* Tries again until somebody listens there. */
static int reach(const char *address, const char *port, uint64_t until_us) {
    int fd = -1;
    do {
        struct addrinfo *all = find_address(address, port);
        for (const struct addrinfo *at = all; at && fd < 0; at = at->ai_next)
            fd = connect_to(at, until_us);
        if (all) freeaddrinfo(all);
        if (fd < 0) (void)poll(NULL, 0, AGAIN_MS);
    } while (fd < 0 && mc_now_us() < until_us);
    return fd;
}

/* Listens where a connection comes from, on a free port. */
static int listen_beside(int fd, int32_t *port) {
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    char text[8];
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) != 0) return -1;
    in_port_t *at = own.ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&own)->sin6_port
                                              : &((struct sockaddr_in *)&own)->sin_port;
    *at = 0;
    int listening = listen_at((struct sockaddr *)&own, bytes);
    if (listening < 0) return -1;
    bytes = sizeof own;
    if (getsockname(listening, (struct sockaddr *)&own, &bytes) == 0 &&
        getnameinfo((struct sockaddr *)&own, bytes, NULL, 0, text, sizeof text, NI_NUMERICSERV) ==
            0)
        *port = atoi(text);
    return listening;
}

/* ---- those that come ---- */

/* One that has come, and has not said all. */
typedef struct guest {
    int fd;
    size_t came;
    uint64_t until_us;
    char said[sizeof(hello)];
} guest;

/* All are heard at a time, so one that says nothing keeps no other waiting. */
typedef struct hall {
    int listening;
    size_t bytes; /* that each has to say */
    int n;
    guest guests[GUESTS]; /* in the order in which they came */
} hall;

static int remove_guest(hall *h, int i) {
    int fd = h->guests[i].fd;
    memmove(&h->guests[i], &h->guests[i + 1], (size_t)(--h->n - i) * sizeof *h->guests);
    return fd;
}

/* Takes one more, in place of the one that has been here longest if there are too many. */
static void admit(hall *h) {
    int fd = prepare(accept(h->listening, NULL, NULL));
    if (fd < 0) {
        (void)poll(NULL, 0, AGAIN_MS);
        return;
    }
    if (h->n == GUESTS) close(remove_guest(h, 0));
    h->guests[h->n++] = (guest){.fd = fd, .until_us = mc_now_us() + HELLO_US};
}

/* The connection of the next one that has said all, at `said`; -1: none has in time. */
static int hear(hall *h, void *said, uint64_t until_us) {
    while (mc_now_us() < until_us) {
        struct pollfd p[GUESTS + 1] = {{.fd = h->listening, .events = POLLIN}};
        uint64_t next = until_us;
        for (int i = 0; i < h->n; i++) {
            p[i + 1] = (struct pollfd){.fd = h->guests[i].fd, .events = POLLIN};
            if (h->guests[i].until_us < next) next = h->guests[i].until_us;
        }
        if (poll(p, (nfds_t)h->n + 1, ms_until(next)) < 0) continue;
        for (int i = h->n - 1; i >= 0; i--) {
            guest *g = &h->guests[i];
            bool well = mc_now_us() < g->until_us;
            if (p[i + 1].revents) {
                ssize_t n = recv(g->fd, g->said + g->came, h->bytes - g->came, 0);
                if (n > 0) g->came += (size_t)n;
                well = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
            }
            if (g->came == h->bytes) {
                memcpy(said, g->said, h->bytes);
                return remove_guest(h, i);
            }
            if (!well) close(remove_guest(h, i));
        }
        if (p[0].revents) admit(h);
    }
    return -1;
}

/* Nobody is heard any more. */
static void end_hall(hall *h) {
    while (h->n)
        close(remove_guest(h, 0));
    if (h->listening >= 0) close(h->listening);
    h->listening = -1;
}

/* ---- rank 0 ---- */

typedef struct start {
    mc_tcp_start *out;
    const char *address;
    char port[8];
    uint64_t until_us;
    welcome hail;
    place *places; /* [size] */
} start;

static bool make_nonce(char nonce[16]) {
    FILE *random = fopen("/dev/urandom", "rb");
    bool made = random && fread(nonce, 1, 16, random) == 16;
    if (random) fclose(random);
    return made;
}

static bool listen_for_ranks(start *s, int *listening) {
    struct addrinfo *all = find_address(s->address, s->port);
    int error = 0;
    *listening = -1;
    for (const struct addrinfo *at = all; at && *listening < 0; at = at->ai_next) {
        *listening = listen_at(at->ai_addr, at->ai_addrlen);
        error = errno;
    }
    if (!all)
        snprintf(s->out->why, sizeof s->out->why, "there is no address '%s' (MASTER_ADDR)",
                 s->address);
    else if (*listening < 0)
        snprintf(s->out->why, sizeof s->out->why, "rank 0 cannot listen at %s:%s: %s", s->address,
                 s->port, strerror(error));
    if (all) freeaddrinfo(all);
    return *listening >= 0;
}

/* Whether a rank that has come is one of ours; else the start has failed. */
static bool check_hello(const start *s, const hello *h) {
    mc_tcp_start *o = s->out;
    const char *version = mica_version();
    if (strncmp(h->version, version, sizeof h->version - 1) != 0)
        snprintf(o->why, sizeof o->why, "process %d on %.63s is mica %.31s, and rank 0 %s", h->pid,
                 h->host, h->version, version);
    else if (h->size != o->size)
        snprintf(o->why, sizeof o->why, "process %d on %.63s is one of %d ranks, and rank 0 of %d",
                 h->pid, h->host, h->size, o->size);
    else if (h->rank < 1 || h->rank >= o->size || o->fds[h->rank] >= 0)
        snprintf(o->why, sizeof o->why, "process %d on %.63s is rank %d, which is here already",
                 h->pid, h->host, h->rank);
    return !o->why[0];
}

/* Takes one that has said `h`. What is no mica is not heard. false: the start has failed. */
static bool take(start *s, int fd, const hello *h) {
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    bool ours = memcmp(h->magic, magic, sizeof magic) == 0 &&
                getpeername(fd, (struct sockaddr *)&from, &bytes) == 0;
    if (!ours || !check_hello(s, h)) {
        snprintf(s->hail.why, sizeof s->hail.why, "%.400s", s->out->why);
        if (ours) (void)move(fd, &s->hail, sizeof s->hail, true, mc_now_us() + HELLO_US);
        close(fd);
        return !ours;
    }
    place *p = &s->places[h->rank];
    (void)getnameinfo((struct sockaddr *)&from, bytes, p->address, sizeof p->address, NULL, 0,
                      NI_NUMERICHOST);
    snprintf(p->port, sizeof p->port, "%d", (int)(uint16_t)h->port);
    s->out->fds[h->rank] = fd;
    return true;
}

static int find_missing(const mc_tcp_start *o) {
    int r = 1;
    while (r < o->size && o->fds[r] >= 0)
        r++;
    return r < o->size ? r : 0;
}

/* Waits for all, and tells them where the others are, or why not. */
static bool gather(start *s) {
    mc_tcp_start *o = s->out;
    hall ranks = {.bytes = sizeof(hello)};
    hello h;
    int missing;
    bool well = make_nonce(s->hail.nonce) && listen_for_ranks(s, &ranks.listening);
    if (!well) return false;
    while (well && (missing = find_missing(o))) {
        int fd = hear(&ranks, &h, s->until_us);
        well = fd >= 0 && take(s, fd, &h);
        if (fd < 0)
            snprintf(o->why, sizeof o->why, "rank %d of %d has not come to %s:%s in time", missing,
                     o->size, s->address, s->port);
    }
    end_hall(&ranks);
    s->hail.started = well;
    snprintf(s->hail.why, sizeof s->hail.why, "%.483s", o->why);
    for (int r = 1; r < o->size; r++) {
        uint64_t until = mc_now_us() + HELLO_US;
        if (o->fds[r] < 0) continue;
        bool told =
            move(o->fds[r], &s->hail, sizeof s->hail, true, until) &&
            (!well || move(o->fds[r], s->places, (size_t)o->size * sizeof *s->places, true, until));
        if (told || !well) continue;
        snprintf(o->why, sizeof o->why, "rank %d has ended", r);
        return false;
    }
    return well;
}

/* ---- the others ---- */

static bool greet(start *s, int *listening) {
    mc_tcp_start *o = s->out;
    hello h = {.rank = o->rank, .size = o->size, .pid = (int32_t)getpid()};
    memcpy(h.magic, magic, sizeof magic);
    mc_host_name(h.host, sizeof h.host);
    snprintf(h.version, sizeof h.version, "%s", mica_version());
    int fd = reach(s->address, s->port, s->until_us);
    o->fds[0] = fd;
    if (fd < 0) {
        snprintf(o->why, sizeof o->why, "rank 0 cannot be reached at %s:%s", s->address, s->port);
        return false;
    }
    if (o->rank < o->size - 1) *listening = listen_beside(fd, &h.port);
    if (move(fd, &h, sizeof h, true, s->until_us) &&
        move(fd, &s->hail, sizeof s->hail, false, s->until_us + LATER_US) &&
        memcmp(s->hail.magic, magic, sizeof magic) == 0) {
        s->hail.why[sizeof s->hail.why - 1] = '\0';
        snprintf(o->why, sizeof o->why, "%s", s->hail.why);
        if (!s->hail.started) return false;
        if (move(fd, s->places, (size_t)o->size * sizeof *s->places, false, s->until_us + LATER_US))
            return true;
    }
    snprintf(o->why, sizeof o->why, "what is at %s:%s has not answered as rank 0 of mica",
             s->address, s->port);
    return false;
}

/* Connections to the ranks before this one, and from those behind it. */
static bool meet_others(start *s, hall *others) {
    mc_tcp_start *o = s->out;
    visit own = {.rank = o->rank}, v;
    uint64_t until = s->until_us + LATER_US;
    memcpy(own.nonce, s->hail.nonce, sizeof own.nonce);
    for (int r = 1; r < o->rank; r++) {
        place *p = &s->places[r];
        p->address[sizeof p->address - 1] = p->port[sizeof p->port - 1] = '\0';
        o->fds[r] = reach(p->address, p->port, until);
        if (o->fds[r] >= 0 && move(o->fds[r], &own, sizeof own, true, until)) continue;
        snprintf(o->why, sizeof o->why, "rank %d cannot be reached at %s:%s", r, p->address,
                 p->port);
        return false;
    }
    for (int missing = o->size - 1 - o->rank; missing > 0;) {
        int fd = others->listening >= 0 ? hear(others, &v, until) : -1;
        bool ours = fd >= 0 && memcmp(v.nonce, own.nonce, sizeof v.nonce) == 0 &&
                    v.rank > o->rank && v.rank < o->size && o->fds[v.rank] < 0;
        if (ours) {
            o->fds[v.rank] = fd;
            missing--;
        } else if (fd >= 0)
            close(fd);
        if (fd >= 0) continue;
        snprintf(o->why, sizeof o->why, "rank %d has not come to rank %d", o->size - 1, o->rank);
        return false;
    }
    return true;
}

/* ---- both ---- */

static bool begin(start *s) {
    mc_tcp_start *o = s->out;
    hall others = {.listening = -1, .bytes = sizeof(visit)};
    if (o->rank == 0) return gather(s);
    bool well = greet(s, &others.listening) && meet_others(s, &others);
    end_hall(&others);
    return well;
}

bool mc_tcp_connect(uint64_t until_us, mc_tcp_start *out) {
    *out = (mc_tcp_start){0};
    if (!mc_tcp_told(&out->rank, &out->size)) {
        snprintf(out->why, sizeof out->why,
                 "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT do not say what to start");
        return false;
    }
    start s = {.out = out, .address = getenv("MASTER_ADDR"), .until_us = until_us};
    memcpy(s.hail.magic, magic, sizeof magic);
    if (!port_of_start(s.port, sizeof s.port)) {
        snprintf(out->why, sizeof out->why, "MASTER_PORT is '%.100s': want 1 to 65535",
                 getenv("MASTER_PORT"));
        return false;
    }
    out->fds = mc_array_alloc((size_t)out->size, sizeof *out->fds);
    s.places = mc_calloc((size_t)out->size, sizeof *s.places);
    for (int i = 0; out->fds && i < out->size; i++)
        out->fds[i] = -1;
    bool well = out->fds && s.places;
    if (!well) snprintf(out->why, sizeof out->why, "out of memory");
    well = well && begin(&s);
    mc_free(s.places);
    if (well) return true;
    for (int i = 0; out->fds && i < out->size; i++)
        if (out->fds[i] >= 0) close(out->fds[i]);
    mc_free(out->fds);
    out->fds = NULL;
    if (!out->why[0]) snprintf(out->why, sizeof out->why, "no random numbers");
    return false;
}

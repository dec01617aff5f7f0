/* Messages over the connections of group/tcp/start.posix.c. */
#define _POSIX_C_SOURCE 200809L

#include "group/tcp/tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/system.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* SMALL: bytes of messages that are sent unasked; MAX_KEPT: of those that nobody waits for */
enum { SMALL = 1 << 16, MAX_KEPT = 1 << 28, COLLECTIVE = -1, SPLIT_US = 20000000 };
enum { END_US = 2000000, NO_MEMORY = 1, NOT_STARTED, NOT_IN_STEP };

/* WHOLE, DATA: bytes follow. ASK: whether DATA may be sent, which READY answers. */
typedef enum kind { WHOLE, ASK, READY, DATA } kind;

typedef struct head {
    uint64_t comm, id; /* id: the sender's, of ASK, READY and DATA */
    int64_t bytes;
    int32_t tag, kind;
} head;

/* What is sent or received, of a request; or READY, which is nobody's. */
typedef struct op {
    struct op *next; /* of the list that it is in */
    head head;
    struct peer *peer;
    char *data;
    kind awaits; /* where it waits for a message: WHOLE stands for ASK, too */
    bool done, failed, unowned;
} op;

typedef struct request {
    int n;
    op ops[];
} request;

/* A message that nobody has waited for: the head of ASK, or all of WHOLE. */
typedef struct kept {
    struct kept *next;
    head head;
    char data[];
} kept;

/* Another rank. */
typedef struct peer {
    int fd;        /* -1: its connection has ended */
    op *out;       /* to be sent, in order */
    op *waiting;   /* for messages of it */
    kept *kept;    /* in the order in which they came */
    size_t sent;   /* bytes of the first of `out`, with its head */
    head in;       /* of the message that comes */
    size_t came;   /* bytes of it, with its head */
    char *to;      /* where its bytes go: */
    op *taker;     /* of this one, or */
    kept *filling; /* of the last that is kept */
    bool deaf;     /* nothing can be sent there; what has come before its end may say why */
} peer;

typedef struct comm {
    uint64_t id, made; /* how many were made of it */
    int rank, size;
    int ranks[]; /* of the start */
} comm;

static struct {
    uint64_t until_us;
    mc_tcp_start start;
    peer *peers;
    size_t kept_bytes; /* of all */
    uint64_t last_id;
    int first_lost; /* the rank, + 1: others may have ended as it has; 0: none */
} tcp;

void mc_tcp_set_limit(uint64_t until_us) {
    tcp.until_us = until_us;
}

/* ---- lists ---- */

static int rank_of(const peer *p) {
    return (int)(p - tcp.peers);
}

static void append(op **list, op *o) {
    o->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = o;
}

static void await(op *o, kind what) {
    o->awaits = what;
    append(&o->peer->waiting, o);
}

static bool has_id(kind k) {
    return k == READY || k == DATA;
}

/* The first op that waits for a message, taken out; NULL: none. */
static op *take_for(peer *p, const head *h) {
    kind wanted = has_id((kind)h->kind) ? (kind)h->kind : WHOLE;
    op **at = &p->waiting;
    for (; *at; at = &(*at)->next) {
        const head *own = &(*at)->head;
        bool same = has_id(wanted) ? own->id == h->id : own->comm == h->comm && own->tag == h->tag;
        if ((*at)->awaits == wanted && same) break;
    }
    op *found = *at;
    if (found) *at = found->next;
    return found;
}

static void finish(op *o, bool failed) {
    o->done = true;
    o->failed = failed;
    if (o->unowned) mc_free(o);
}

static void fail_all(op **list) {
    while (*list) {
        op *o = *list;
        *list = o->next;
        finish(o, true);
    }
}

/* ---- messages that nobody waits for ---- */

static size_t kept_bytes(const head *h) {
    return sizeof(kept) + (h->kind == WHOLE ? (size_t)h->bytes : 0);
}

static void drop(peer *p, kept *k) {
    kept **at = &p->kept;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    tcp.kept_bytes -= kept_bytes(&k->head);
    mc_free(k);
}

static bool keep(peer *p, const head *h) {
    size_t bytes = kept_bytes(h);
    kept *k = tcp.kept_bytes + bytes <= MAX_KEPT ? mc_alloc(bytes) : NULL;
    kept **end = &p->kept;
    if (!k) return false;
    *k = (kept){.head = *h};
    while (*end)
        end = &(*end)->next;
    *end = k;
    tcp.kept_bytes += bytes;
    if (h->kind == WHOLE) {
        p->filling = k;
        p->to = k->data;
    }
    return true;
}

/* The first one of a communicator and a tag that is there whole; NULL: none. */
static kept *find_kept(const peer *p, uint64_t id, int tag) {
    kept *k = p->kept;
    while (k && (k == p->filling || k->head.comm != id || k->head.tag != tag))
        k = k->next;
    return k;
}

static void deliver(peer *p, kept *k, op *o) {
    bool same = k->head.bytes == o->head.bytes;
    if (same) memcpy(o->data, k->data, (size_t)k->head.bytes);
    drop(p, k);
    finish(o, !same);
}

/* Ends a connection: nothing more comes from there, and what has not come whole never will. */
static void lose(peer *p) {
    if (p->fd < 0) return;
    close(p->fd);
    p->fd = -1;
    if (!tcp.first_lost) tcp.first_lost = rank_of(p) + 1;
    if (p->taker) finish(p->taker, true);
    fail_all(&p->out);
    fail_all(&p->waiting);
    for (kept *k = p->kept, *next; k; k = next) {
        next = k->next;
        if (k->head.kind == ASK || k == p->filling) drop(p, k);
    }
    p->taker = NULL;
    p->filling = NULL;
}

/* ---- sending ---- */

static bool has_bytes(const head *h) {
    return h->bytes && (h->kind == WHOLE || h->kind == DATA);
}

static bool is_later(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void end_sending(peer *p) {
    op *o = p->out;
    p->out = o->next;
    p->sent = 0;
    if (o->head.kind == ASK)
        await(o, READY);
    else
        finish(o, false);
}

static void send_to(peer *p) {
    while (p->fd >= 0 && p->out && !p->deaf) {
        const op *o = p->out;
        size_t head_bytes = sizeof o->head;
        bool in_head = p->sent < head_bytes;
        const char *from =
            in_head ? (const char *)&o->head + p->sent : o->data + (p->sent - head_bytes);
        size_t all = head_bytes + (has_bytes(&o->head) ? (size_t)o->head.bytes : 0);
        ssize_t n = send(p->fd, from, (in_head ? head_bytes : all) - p->sent, MSG_NOSIGNAL);
        if (n < 0 && is_later()) return;
        p->deaf = n < 0;
        if (p->deaf) return;
        p->sent += (size_t)n;
        if (p->sent == all) end_sending(p);
    }
}

static void enqueue(op *o) {
    append(&o->peer->out, o);
    send_to(o->peer);
}

/* Lets the sender of `ask` send it to an op. */
static void answer(op *o, const head *ask) {
    op *ready = o->head.bytes == ask->bytes ? mc_calloc(1, sizeof *ready) : NULL;
    if (!ready) {
        finish(o, true);
        return;
    }
    o->head.id = ask->id;
    await(o, DATA);
    *ready = (op){.head = {.id = ask->id, .kind = READY}, .peer = o->peer, .unowned = true};
    enqueue(ready);
}

/* ---- receiving ---- */

/* What a message is for, when its head has come. false: it cannot be taken. */
static bool begin_message(peer *p) {
    const head *h = &p->in;
    if (h->kind < WHOLE || h->kind > DATA) return false;
    if (h->bytes < 0 || (h->kind == WHOLE && h->bytes > SMALL)) return false;
    op *o = take_for(p, h);
    if (!o) return !has_id((kind)h->kind) && keep(p, h);
    if (h->kind == READY) {
        o->head.kind = DATA;
        enqueue(o);
    } else if (h->kind == ASK)
        answer(o, h);
    else if (o->head.bytes != h->bytes) {
        finish(o, true);
        return h->kind == WHOLE && keep(p, h); /* its bytes follow */
    } else {
        p->taker = o;
        p->to = o->data;
    }
    return true;
}

static void end_message(peer *p) {
    kept *k = p->filling;
    if (p->taker) finish(p->taker, false);
    op *o = k ? take_for(p, &k->head) : NULL; /* who has begun to wait meanwhile */
    p->taker = NULL;
    p->filling = NULL;
    p->came = 0;
    if (o) deliver(p, k, o);
}

static void receive_from(peer *p) {
    while (p->fd >= 0) {
        bool in_head = p->came < sizeof p->in;
        char *to = in_head ? (char *)&p->in + p->came : p->to + (p->came - sizeof p->in);
        size_t end = sizeof p->in + (in_head ? 0 : (size_t)p->in.bytes);
        ssize_t n = recv(p->fd, to, end - p->came, 0);
        if (n < 0 && is_later() && !p->deaf) return;
        if (n > 0) p->came += (size_t)n;
        if (n <= 0 || (in_head && p->came == end && !begin_message(p))) {
            lose(p);
            return;
        }
        if (p->came == end && (!in_head || !has_bytes(&p->in))) end_message(p);
    }
}

static void progress(void) {
    for (int r = 0; r < tcp.start.size; r++) {
        send_to(&tcp.peers[r]);
        receive_from(&tcp.peers[r]);
    }
}

/* ---- requests ---- */

static request *new_request(int n) {
    request *made = mc_calloc(1, sizeof *made + (size_t)n * sizeof *made->ops);
    if (made) made->n = n;
    return made;
}

static void start_send(op *o) {
    if (o->head.bytes > SMALL) o->head.kind = ASK;
    o->head.id = ++tcp.last_id;
    if (o->peer->fd < 0)
        finish(o, true);
    else
        enqueue(o);
}

/* What has come already is taken first. */
static void start_recv(op *o) {
    peer *p = o->peer;
    kept *k = find_kept(p, o->head.comm, o->head.tag);
    if (!k && p->fd < 0)
        finish(o, true);
    else if (!k)
        await(o, WHOLE);
    else if (k->head.kind == WHOLE)
        deliver(p, k, o);
    else {
        const head ask = k->head;
        drop(p, k); /* before its connection may end, which drops it, too */
        answer(o, &ask);
    }
}

/* Starts the next op of a request. */
static void start_op(request *made, int *i, const comm *c, int rank, int tag, const void *data,
                     int bytes, void (*start)(op *o)) {
    op *o = &made->ops[(*i)++];
    *o = (op){.head = {.comm = c->id, .bytes = bytes, .tag = tag},
              .peer = &tcp.peers[c->ranks[rank]],
              .data = (void *)(uintptr_t)data};
    start(o);
}

static int start_one(const comm *c, const void *data, int bytes, int rank, int tag,
                     void (*start)(op *o), void **out) {
    request *made = *out = new_request(1);
    if (made) start_op(made, &(int){0}, c, rank, tag, data, bytes, start);
    return made ? 0 : NO_MEMORY;
}

static int do_send(void *own, const void *data, int bytes, int to, int tag, void **out) {
    return start_one(own, data, bytes, to, tag, start_send, out);
}

static int do_recv(void *own, void *data, int bytes, int from, int tag, void **out) {
    return start_one(own, data, bytes, from, tag, start_recv, out);
}

/* step: between what each rank gets; 0: all get the same. */
static int exchange(const comm *c, const void *in, int bytes, size_t step, void *out,
                    void **made_out) {
    request *made = *made_out = new_request(2 * (c->size - 1));
    if (!made) return NO_MEMORY;
    for (int r = 0, i = 0; r < c->size; r++) {
        const char *from = (const char *)in + (size_t)r * step;
        char *to = (char *)out + (size_t)r * (size_t)bytes;
        if (r == c->rank) {
            memmove(to, from, (size_t)bytes);
            continue;
        }
        start_op(made, &i, c, r, COLLECTIVE, to, bytes, start_recv);
        start_op(made, &i, c, r, COLLECTIVE, from, bytes, start_send);
    }
    return 0;
}

static int do_all_gather(void *own, const void *in, int bytes, void *out, void **made) {
    return exchange(own, in, bytes, 0, out, made);
}

static int do_all_to_all(void *own, const void *in, int bytes, void *out, void **made) {
    return exchange(own, in, bytes, (size_t)bytes, out, made);
}

static int do_broadcast(void *own, void *data, int bytes, int root, void **out) {
    const comm *c = own;
    if (c->rank != root) return do_recv(own, data, bytes, root, COLLECTIVE, out);
    request *made = *out = new_request(c->size - 1);
    for (int r = 0, i = 0; made && r < c->size; r++)
        if (r != root) start_op(made, &i, c, r, COLLECTIVE, data, bytes, start_send);
    return made ? 0 : NO_MEMORY;
}

/* Where it has failed it stays: others of its ops may be in lists. A code below 0 says that rank
 * -1 - code does not do the same. */
static int do_test(void **own, int *done) {
    request *r = *own;
    progress();
    *done = 1;
    for (int i = 0; i < r->n; i++) {
        const op *o = &r->ops[i];
        if (!o->done) *done = 0;
        if (o->failed)
            return o->peer->fd < 0 ? MC_TCP_GONE + tcp.first_lost - 1 : -1 - rank_of(o->peer);
    }
    if (!*done) return 0;
    mc_free(r);
    *own = NULL;
    return 0;
}

static int do_probe(void *own, int tag, int *there, int *from) {
    const comm *c = own;
    progress();
    *there = 0;
    for (int r = 0; r < c->size && !*there; r++) {
        *there = find_kept(&tcp.peers[c->ranks[r]], c->id, tag) != NULL;
        *from = r;
    }
    return 0;
}

/* ---- communicators ---- */

/* All ranks make the same ones of a communicator, in the same order. */
static comm *new_comm(comm *of, int color, int size) {
    comm *c = mc_calloc(1, sizeof *c + (size_t)size * sizeof *c->ranks);
    const uint64_t name[] = {of->id, ++of->made, (uint64_t)color};
    if (!c) return NULL;
    c->id = mc_hash(name, sizeof name, 0);
    c->size = size;
    return c;
}

static int do_duplicate(void *own, void **copy, void **made) {
    comm *of = own, *c = new_comm(of, 0, of->size);
    *copy = c;
    *made = new_request(0);
    if (!c || !*made) return NO_MEMORY;
    c->rank = of->rank;
    memcpy(c->ranks, of->ranks, (size_t)of->size * sizeof *of->ranks);
    return 0;
}

typedef struct choice {
    int color, key;
} choice;

/* Whether rank i stands before rank k. */
static bool precedes(const choice *all, int i, int k) {
    return all[i].key != all[k].key ? all[i].key < all[k].key : i < k;
}

static int do_split(void *own, int color, int key, void **part, int *rank, int *size) {
    comm *of = own;
    choice *all = mc_array_alloc((size_t)of->size + 1, sizeof *all); /* the last one is sent */
    void *made = NULL;
    if (all) all[of->size] = (choice){color, key};
    int done = 0, code = NO_MEMORY;
    if (all) code = do_all_gather(of, &all[of->size], sizeof *all, all, &made);
    uint64_t until = mc_now_us() + SPLIT_US;
    while (!code && !done) {
        code = do_test(&made, &done);
        if (!done && mc_now_us() > until) code = NOT_IN_STEP;
    }
    comm *c = code ? NULL : new_comm(of, color + 1, of->size);
    *part = c;
    *size = *rank = 0;
    for (int i = 0; c && i < of->size; i++) {
        int at = 0;
        if (all[i].color != color) continue;
        for (int k = 0; k < of->size; k++)
            at += all[k].color == color && precedes(all, k, i);
        c->ranks[at] = of->ranks[i];
        if (i == of->rank) *rank = c->rank = at;
        ++*size;
    }
    if (c) c->size = *size;
    if (!made) mc_free(all); /* else ops still write to it */
    return code ? code : c ? 0 : NO_MEMORY;
}

static void do_free(void **own) {
    mc_free(*own);
    *own = NULL;
}

/* ---- beginning and end ---- */

static int do_init(void **own, int *rank, int *size) {
    if (!mc_tcp_connect(tcp.until_us, &tcp.start)) return NOT_STARTED;
    *rank = tcp.start.rank;
    *size = tcp.start.size;
    comm *c = mc_calloc(1, sizeof *c + (size_t)*size * sizeof *c->ranks);
    tcp.peers = mc_calloc((size_t)*size, sizeof *tcp.peers);
    *own = c;
    if (!c || !tcp.peers) return NO_MEMORY;
    c->rank = *rank;
    c->size = *size;
    for (int r = 0; r < *size; r++) {
        c->ranks[r] = r;
        tcp.peers[r].fd = tcp.start.fds[r];
    }
    return 0;
}

/* Waits until all is sent, or all connections have ended. */
static void settle(bool sent, uint64_t until_us) {
    bool busy = true;
    while (busy && mc_now_us() < until_us) {
        progress();
        busy = false;
        for (int r = 0; r < tcp.start.size; r++)
            busy = busy || (sent ? tcp.peers[r].out != NULL : tcp.peers[r].fd >= 0);
        if (busy) (void)poll(NULL, 0, 1);
    }
}

/* What was sent is on its way, and what the others send meanwhile is taken: where a connection is
 * closed before that, what it has carried may be lost. */
static void do_finalize(void) {
    uint64_t until = mc_now_us() + END_US;
    settle(true, until);
    for (int r = 0; r < tcp.start.size; r++)
        if (tcp.peers[r].fd >= 0) (void)shutdown(tcp.peers[r].fd, SHUT_WR);
    settle(false, until);
    for (int r = 0; r < tcp.start.size; r++) {
        lose(&tcp.peers[r]);
        while (tcp.peers[r].kept)
            drop(&tcp.peers[r], tcp.peers[r].kept);
    }
    mc_free(tcp.peers);
    mc_free(tcp.start.fds);
    tcp.start = (mc_tcp_start){0};
    tcp.peers = NULL;
}

static void do_abort(void *own, int code) {
    (void)own, (void)code;
}

static void do_error_text(int code, char *text, size_t bytes) {
    static const char *const texts[] = {
        [NO_MEMORY] = "out of memory", [NOT_IN_STEP] = "ranks do not do the same"};
    if (code >= MC_TCP_GONE)
        snprintf(text, bytes, "rank %d has ended, or its connection has", code - MC_TCP_GONE);
    else if (code < 0)
        snprintf(text, bytes, "rank %d does not do the same as this one", -1 - code);
    else
        snprintf(text, bytes, "%s", code == NOT_STARTED ? tcp.start.why : texts[code]);
}

const mc_mpi_shim mc_tcp_shim = {
    .version = MC_MPI_SHIM_VERSION,
    .library = "TCP",
#define CALL(result, name, arguments) .name = do_##name,
#include "group/mpi/call_list.h"
};

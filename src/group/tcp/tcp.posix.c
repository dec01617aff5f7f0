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
    int peer;
    char *data;
    bool done, failed, unowned;
} op;

typedef struct request {
    int n;
    op ops[];
} request;

/* A message that nobody has waited for. */
typedef struct kept {
    struct kept *next;
    head head;
    int peer;
    bool whole; /* all of it has come */
    op *taker;  /* gets it then */
    char data[];
} kept;

typedef struct peer {
    int fd;      /* -1: its connection has ended */
    op *out;     /* to be sent, in order */
    size_t sent; /* bytes of the first one, with its head */
    head in;
    size_t came; /* bytes of what is received, with its head */
    char *to;    /* where its bytes go */
    op *taker;
    kept *filling;
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
    op *posted;    /* to be received */
    op *asked;     /* to be sent when the receiver is ready */
    op *expecting; /* to be received as DATA */
    kept *kept;
    size_t kept_bytes;
    uint64_t last_id;
    int first_lost; /* the rank, + 1: others may have ended as it has; 0: none */
} tcp;

void mc_tcp_set_limit(uint64_t until_us) {
    tcp.until_us = until_us;
}

/* ---- lists ---- */

static void append(op **list, op *o) {
    o->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = o;
}

/* The first op of a list that a message is for, taken out; NULL: none. by_id: DATA and READY. */
static op *take_for(op **list, const head *h, int from, bool by_id) {
    for (; *list; list = &(*list)->next) {
        op *o = *list;
        bool same = by_id ? o->head.id == h->id : o->head.comm == h->comm && o->head.tag == h->tag;
        if (o->peer != from || !same) continue;
        *list = o->next;
        return o;
    }
    return NULL;
}

static void finish(op *o, bool failed) {
    if (o->unowned) {
        mc_free(o);
        return;
    }
    o->done = true;
    o->failed = failed;
}

static void fail_all(op **list, int from) {
    while (*list) {
        op *o = *list;
        if (o->peer != from) {
            list = &o->next;
            continue;
        }
        *list = o->next;
        finish(o, true);
    }
}

/* ---- messages that nobody waits for ---- */

static size_t kept_bytes(const head *h) {
    return sizeof(kept) + (h->kind == WHOLE ? (size_t)h->bytes : 0);
}

static void drop(kept *k) {
    kept **at = &tcp.kept;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    tcp.kept_bytes -= kept_bytes(&k->head);
    mc_free(k);
}

/* Drops what has not come whole, and never will. */
static void drop_rest(int from) {
    for (kept *k = tcp.kept, *next; k; k = next) {
        next = k->next;
        if (k->peer == from && (k->head.kind == ASK || !k->whole)) drop(k);
    }
}

/* Ends a connection: nothing more comes from there. */
static void lose(int r) {
    peer *p = &tcp.peers[r];
    if (p->fd < 0) return;
    close(p->fd);
    p->fd = -1;
    if (!tcp.first_lost) tcp.first_lost = r + 1;
    if (p->taker) finish(p->taker, true);
    if (p->filling && p->filling->taker) finish(p->filling->taker, true);
    p->taker = NULL;
    p->filling = NULL;
    fail_all(&p->out, r);
    fail_all(&tcp.posted, r);
    fail_all(&tcp.asked, r);
    fail_all(&tcp.expecting, r);
    drop_rest(r);
}

/* ---- sending ---- */

static bool has_bytes(const op *o) {
    return o->head.kind == WHOLE || o->head.kind == DATA;
}

static void end_sending(peer *p) {
    op *o = p->out;
    p->out = o->next;
    p->sent = 0;
    if (o->head.kind == ASK)
        append(&tcp.asked, o);
    else
        finish(o, false);
}

static void send_to(int r) {
    peer *p = &tcp.peers[r];
    while (p->fd >= 0 && p->out) {
        const op *o = p->out;
        size_t head_bytes = sizeof o->head, all = head_bytes;
        if (has_bytes(o)) all += (size_t)o->head.bytes;
        bool in_head = p->sent < head_bytes;
        const char *from =
            in_head ? (const char *)&o->head + p->sent : o->data + (p->sent - head_bytes);
        size_t end = in_head ? head_bytes : all;
        ssize_t n = send(p->fd, from, end - p->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (n < 0) {
            lose(r);
            return;
        }
        p->sent += (size_t)n;
        if (p->sent == all) end_sending(p);
    }
}

static void enqueue(op *o) {
    append(&tcp.peers[o->peer].out, o);
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
    append(&tcp.expecting, o);
    *ready = (op){.head = {.id = ask->id, .kind = READY}, .peer = o->peer, .unowned = true};
    enqueue(ready);
}

/* ---- receiving ---- */

static bool keep(int r, const head *h) {
    size_t bytes = kept_bytes(h);
    kept *k = tcp.kept_bytes + bytes <= MAX_KEPT ? mc_alloc(bytes) : NULL;
    kept **end = &tcp.kept;
    if (!k) return false;
    *k = (kept){.head = *h, .peer = r, .whole = h->kind == ASK};
    while (*end)
        end = &(*end)->next;
    *end = k;
    tcp.kept_bytes += bytes;
    if (h->kind == WHOLE) {
        tcp.peers[r].filling = k;
        tcp.peers[r].to = k->data;
    }
    return true;
}

/* What a message is for, when its head has come. false: it cannot be taken. */
static bool begin_message(int r) {
    peer *p = &tcp.peers[r];
    const head *h = &p->in;
    if (h->bytes < 0 || (h->kind == WHOLE && h->bytes > SMALL)) return false;
    bool by_id = h->kind == READY || h->kind == DATA;
    op **list = h->kind == READY ? &tcp.asked : h->kind == DATA ? &tcp.expecting : &tcp.posted;
    op *o = take_for(list, h, r, by_id);
    if (!o) return !by_id && keep(r, h);
    if (h->kind == READY) {
        o->head.kind = DATA;
        enqueue(o);
    } else if (h->kind == ASK)
        answer(o, h);
    else if (o->head.bytes != h->bytes) {
        finish(o, true);
        return h->kind == WHOLE && keep(r, h); /* its bytes follow */
    } else {
        p->taker = o;
        p->to = o->data;
    }
    return true;
}

static void end_message(peer *p) {
    kept *k = p->filling;
    if (p->taker) finish(p->taker, false);
    if (k) k->whole = true;
    if (k && k->taker) {
        memcpy(k->taker->data, k->data, (size_t)k->head.bytes);
        finish(k->taker, false);
        drop(k);
    }
    p->taker = NULL;
    p->filling = NULL;
    p->came = 0;
}

static void receive_from(int r) {
    peer *p = &tcp.peers[r];
    while (p->fd >= 0) {
        bool in_head = p->came < sizeof p->in;
        char *to = in_head ? (char *)&p->in + p->came : p->to + (p->came - sizeof p->in);
        size_t end = sizeof p->in + (in_head ? 0 : (size_t)p->in.bytes);
        ssize_t n = recv(p->fd, to, end - p->came, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (n > 0) p->came += (size_t)n;
        if (n <= 0 || (in_head && p->came == end && !begin_message(r))) {
            lose(r);
            return;
        }
        bool bytes = p->in.bytes && (p->in.kind == WHOLE || p->in.kind == DATA);
        if (p->came == end && (!in_head || !bytes)) end_message(p);
    }
}

static void progress(void) {
    for (int r = 0; r < tcp.start.size; r++) {
        send_to(r);
        receive_from(r);
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
    if (tcp.peers[o->peer].fd < 0)
        finish(o, true);
    else
        enqueue(o);
}

/* What has come already is taken first. */
static void start_recv(op *o) {
    kept *k = tcp.kept;
    while (k && (k->taker || k->peer != o->peer || k->head.comm != o->head.comm ||
                 k->head.tag != o->head.tag))
        k = k->next;
    if (!k && tcp.peers[o->peer].fd < 0)
        finish(o, true);
    else if (!k)
        append(&tcp.posted, o);
    else if (k->head.kind == ASK) {
        const head ask = k->head;
        drop(k); /* before its connection may end, which drops it, too */
        answer(o, &ask);
    } else if (k->head.bytes != o->head.bytes)
        finish(o, true);
    else if (!k->whole)
        k->taker = o;
    else {
        memcpy(o->data, k->data, (size_t)k->head.bytes);
        drop(k);
        finish(o, false);
    }
}

static void set_op(request *made, int i, const comm *c, int rank, int tag, void *data, int bytes) {
    made->ops[i] = (op){
        .head = {.comm = c->id, .bytes = bytes, .tag = tag}, .peer = c->ranks[rank], .data = data};
}

static int send_one(void *own, const void *data, int bytes, int to, int tag, void **out) {
    request *made = *out = new_request(1);
    if (!made) return NO_MEMORY;
    set_op(made, 0, own, to, tag, (void *)(uintptr_t)data, bytes);
    start_send(&made->ops[0]);
    return 0;
}

static int recv_one(void *own, void *data, int bytes, int from, int tag, void **out) {
    request *made = *out = new_request(1);
    if (!made) return NO_MEMORY;
    set_op(made, 0, own, from, tag, data, bytes);
    start_recv(&made->ops[0]);
    return 0;
}

/* step: between what each rank gets; 0: all get the same. */
static int exchange(comm *c, const void *in, int bytes, size_t step, void *out, void **made_out) {
    request *made = *made_out = new_request(2 * (c->size - 1));
    if (!made) return NO_MEMORY;
    for (int r = 0, i = 0; r < c->size; r++) {
        const char *from = (const char *)in + (size_t)r * step;
        char *to = (char *)out + (size_t)r * (size_t)bytes;
        if (r == c->rank) {
            memmove(to, from, (size_t)bytes);
            continue;
        }
        set_op(made, i, c, r, COLLECTIVE, to, bytes);
        start_recv(&made->ops[i++]);
        set_op(made, i, c, r, COLLECTIVE, (void *)(uintptr_t)from, bytes);
        start_send(&made->ops[i++]);
    }
    return 0;
}

static int all_gather(void *own, const void *in, int bytes, void *out, void **made) {
    return exchange(own, in, bytes, 0, out, made);
}

static int all_to_all(void *own, const void *in, int bytes, void *out, void **made) {
    return exchange(own, in, bytes, (size_t)bytes, out, made);
}

static int broadcast(void *own, void *data, int bytes, int root, void **out) {
    comm *c = own;
    if (c->rank != root) return recv_one(c, data, bytes, root, COLLECTIVE, out);
    request *made = *out = new_request(c->size - 1);
    if (!made) return NO_MEMORY;
    for (int r = 0, i = 0; r < c->size; r++) {
        if (r == root) continue;
        set_op(made, i, c, r, COLLECTIVE, data, bytes);
        start_send(&made->ops[i++]);
    }
    return 0;
}

/* Where it has failed it stays: others of its ops may be in lists. A code below 0 says that rank
 * -1 - code does not do the same. */
static int test(void **own, int *done) {
    request *r = *own;
    progress();
    *done = 1;
    for (int i = 0; i < r->n; i++) {
        const op *o = &r->ops[i];
        if (!o->done) *done = 0;
        if (o->failed)
            return tcp.peers[o->peer].fd < 0 ? MC_TCP_GONE + tcp.first_lost - 1 : -1 - o->peer;
    }
    if (!*done) return 0;
    mc_free(r);
    *own = NULL;
    return 0;
}

static int probe(void *own, int tag, int *there, int *from) {
    const comm *c = own;
    progress();
    *there = 0;
    for (const kept *k = tcp.kept; k && !*there; k = k->next) {
        if (!k->whole || k->head.comm != c->id || k->head.tag != tag) continue;
        *there = 1;
        for (int r = 0; r < c->size; r++)
            if (c->ranks[r] == k->peer) *from = r;
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

static int duplicate(void *own, void **copy, void **made) {
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

static int split(void *own, int color, int key, void **part, int *rank, int *size) {
    comm *of = own;
    choice *all = mc_array_alloc((size_t)of->size + 1, sizeof *all); /* the last one is sent */
    void *made = NULL;
    if (all) all[of->size] = (choice){color, key};
    int done = 0, code = NO_MEMORY;
    if (all) code = all_gather(of, &all[of->size], sizeof *all, all, &made);
    uint64_t until = mc_now_us() + SPLIT_US;
    while (!code && !done) {
        code = test(&made, &done);
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

static void free_comm(void **own) {
    mc_free(*own);
    *own = NULL;
}

/* ---- beginning and end ---- */

static int init(void **own, int *rank, int *size) {
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

static bool is_idle(void) {
    bool idle = true;
    for (int r = 0; r < tcp.start.size; r++)
        idle = idle && !tcp.peers[r].out;
    return idle;
}

static bool is_alone(void) {
    bool alone = true;
    for (int r = 0; r < tcp.start.size; r++)
        alone = alone && tcp.peers[r].fd < 0;
    return alone;
}

/* What was sent is on its way, and what the others send meanwhile is taken: where a connection is
 * closed before that, what it has carried may be lost. */
static void finalize(void) {
    uint64_t until = mc_now_us() + END_US;
    while (!is_idle() && mc_now_us() < until) {
        progress();
        (void)poll(NULL, 0, 1);
    }
    for (int r = 0; r < tcp.start.size; r++)
        if (tcp.peers[r].fd >= 0) (void)shutdown(tcp.peers[r].fd, SHUT_WR);
    while (!is_alone() && mc_now_us() < until) {
        progress();
        (void)poll(NULL, 0, 1);
    }
    for (int r = 0; r < tcp.start.size; r++)
        lose(r);
    while (tcp.kept)
        drop(tcp.kept);
    mc_free(tcp.peers);
    mc_free(tcp.start.fds);
    tcp.start = (mc_tcp_start){0};
    tcp.peers = NULL;
}

static void abort_all(void *own, int code) {
    (void)own, (void)code;
}

static void error_text(int code, char *text, size_t bytes) {
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
    .init = init,
    .duplicate = duplicate,
    .split = split,
    .free = free_comm,
    .finalize = finalize,
    .abort = abort_all,
    .all_gather = all_gather,
    .all_to_all = all_to_all,
    .broadcast = broadcast,
    .send = send_one,
    .recv = recv_one,
    .test = test,
    .probe = probe,
    .error_text = error_text,
};

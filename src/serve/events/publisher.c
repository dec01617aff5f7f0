#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "serve/events/publisher.h"

#include "base/alloc.h"
#include "base/system.h"
#include "serve/events/block_name.h"
#include "serve/events/library.h"
#include "serve/events/msgpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* KEPT, KEPT_BYTES: messages that can be asked for again. SLOW: how many wait for a reader that is
 * slow before some are lost. LINGER_MS: how long the last ones may take when it is closed.
 * FRAME: bytes of a frame from a reader; who sends a longer one is disconnected. */
enum {
    KEPT = 10000,
    KEPT_BYTES = 64 << 20,
    SLOW = 10000,
    LINGER_MS = 200,
    FRAME = 1 << 16,
    NUMBER = 8
};

/* Events that are not published yet. */
typedef struct batch {
    struct batch *next;
    const mc_kv_source *source; /* compared with only: it may be closed */
    char *topic;
    mc_msgpack events;
    size_t count;
} batch;

/* A message that was published. */
typedef struct kept {
    uint64_t number;
    char *data;
    size_t len;
} kept;

struct mc_kv_publisher {
    void *context, *out, *replay; /* of ZeroMQ; replay NULL: there is none */
    char *topic;
    mc_kv_name root; /* of texts */
    int wake[2];     /* a byte: there is something to do */
    pthread_t thread;
    bool started;
    atomic_bool ending;
    pthread_mutex_t lock; /* of these */
    batch *first, *last;
    uint64_t lost; /* events */
    /* Of the thread. */
    uint64_t number; /* of the next message */
    kept *ring;      /* [KEPT] */
    size_t oldest, n_kept, kept_bytes;
};

struct mc_kv_source {
    mc_kv_publisher *publisher;
    char *topic, *model, *adapter; /* model: NULL where the topic says it */
};

/* ---- events, in the threads of schedules ---- */

static void free_batch(batch *b) {
    mc_free(b->topic);
    mc_buffer_deinit(&b->events.out);
    mc_free(b);
}

/* A new last one; NULL: no memory. */
static batch *append(mc_kv_publisher *p, const mc_kv_source *source) {
    batch *b = mc_calloc(1, sizeof *b);
    if (b) b->topic = mc_strdup(source->topic);
    if (!b || !b->topic) {
        mc_free(b);
        return NULL;
    }
    b->source = source;
    *(p->last ? &p->last->next : &p->first) = b;
    p->last = b;
    return b;
}

static void wake(const mc_kv_publisher *p) {
    ssize_t written = write(p->wake[1], "", 1); /* a full pipe wakes as well */
    (void)written;
}

/* Adds an event in MessagePack to the batch that the thread takes next. */
static void add(const mc_kv_source *source, mc_msgpack *event) {
    mc_kv_publisher *p = source->publisher;
    pthread_mutex_lock(&p->lock);
    batch *b = p->last && p->last->source == source ? p->last : NULL;
    if (!b && !event->failed) b = append(p, source);
    if (!b || event->failed || !mc_buffer_add(&b->events.out, event->out.data, event->out.len))
        p->lost++;
    else
        b->count++;
    pthread_mutex_unlock(&p->lock);
    mc_buffer_deinit(&event->out);
    wake(p);
}

static void put_name(mc_msgpack *w, const mc_kv_name *name) {
    mc_msgpack_number(w, mc_block_name_number(name));
}

/* The model and the adapter are keys of all blocks, and a salt is one of the first block. */
static mc_kv_name name_of(const mc_kv_source *source, mc_prefix_hash seed, const mc_kv_name *before,
                          const int32_t *ids, int64_t count) {
    const mc_prefix_hash none = mc_prefix_seed("");
    const char *keys[3];
    char salt[33];
    size_t n = 0;
    if (source->model) keys[n++] = source->model;
    if (source->adapter) keys[n++] = source->adapter;
    if (!before && (seed.low != none.low || seed.high != none.high)) {
        snprintf(salt, sizeof salt, "%016" PRIx64 "%016" PRIx64, seed.high, seed.low);
        keys[n++] = salt;
    }
    return mc_block_name(before ? before : &source->publisher->root, ids, count, keys, n);
}

static void stored(void *user, mc_prefix_hash seed, const mc_kv_name *before, const int32_t *ids,
                   int64_t count, mc_kv_name *name) {
    const mc_kv_source *source = user;
    mc_msgpack w = {0};
    *name = name_of(source, seed, before, ids, count);
    mc_msgpack_array(&w, source->adapter ? 8 : 7);
    mc_msgpack_text(&w, "BlockStored");
    mc_msgpack_array(&w, 1);
    put_name(&w, name);
    if (before)
        put_name(&w, before);
    else
        mc_msgpack_nil(&w);
    mc_msgpack_array(&w, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        mc_msgpack_number(&w, (uint64_t)ids[i]);
    mc_msgpack_number(&w, (uint64_t)count);
    mc_msgpack_nil(&w);
    mc_msgpack_text(&w, "GPU");
    if (source->adapter) mc_msgpack_text(&w, source->adapter);
    add(source, &w);
}

static void removed(void *user, const mc_kv_name *name) {
    mc_msgpack w = {0};
    mc_msgpack_array(&w, 3);
    mc_msgpack_text(&w, "BlockRemoved");
    mc_msgpack_array(&w, 1);
    put_name(&w, name);
    mc_msgpack_text(&w, "GPU");
    add(user, &w);
}

mc_kv_events mc_kv_source_events(mc_kv_source *source) {
    return source ? (mc_kv_events){stored, removed, source} : (mc_kv_events){0};
}

/* The topic of a model; NULL: no memory. */
static char *make_topic(const char *pattern, const char *model) {
    static const char mark[] = "{model}";
    mc_buffer text = {0};
    bool done = true;
    for (const char *at; done && (at = strstr(pattern, mark)); pattern = at + sizeof mark - 1)
        done = mc_buffer_add(&text, pattern, (size_t)(at - pattern)) &&
               mc_buffer_add_text(&text, model);
    done = done && mc_buffer_add_text(&text, pattern) && mc_buffer_cstr(&text);
    char *topic = done ? mc_buffer_take(&text) : NULL;
    mc_buffer_deinit(&text);
    return topic;
}

/* Whether a topic is of one model: its name, alone or behind the last @. */
static bool is_of(const char *topic, const char *model) {
    const char *at = strrchr(topic, '@');
    return strcmp(at ? at + 1 : topic, model) == 0;
}

mica_status mc_kv_source_open(mc_kv_publisher *publisher, const char *model, const char *adapter,
                              mc_kv_source **out) {
    mc_kv_source *source = mc_calloc(1, sizeof *source);
    *out = source;
    if (!source) return mc_fail_nomem("KV events");
    source->publisher = publisher;
    source->topic = make_topic(publisher->topic, model);
    source->adapter = adapter ? mc_strdup(adapter) : NULL;
    bool told = source->topic && is_of(source->topic, model);
    source->model = told ? NULL : mc_strdup(model);
    if (source->topic && (told || source->model) && (source->adapter || !adapter)) return MICA_OK;
    mc_kv_source_close(out);
    return mc_fail_nomem("KV events");
}

void mc_kv_source_close(mc_kv_source **out) {
    mc_kv_source *source = *out;
    *out = NULL;
    if (!source) return;
    /* A new source may have its address, and must not add to its events. */
    pthread_mutex_lock(&source->publisher->lock);
    for (batch *b = source->publisher->first; b; b = b->next)
        if (b->source == source) b->source = NULL;
    pthread_mutex_unlock(&source->publisher->lock);
    mc_free(source->topic);
    mc_free(source->model);
    mc_free(source->adapter);
    mc_free(source);
}

/* ---- messages, in the publisher's thread ---- */

static void put_number(char bytes[NUMBER], uint64_t number) {
    for (int i = 0; i < NUMBER; i++)
        bytes[i] = (char)(number >> (8 * (NUMBER - 1 - i)));
}

static void send_frame(void *socket, const void *data, size_t len, bool more) {
    (void)mc_zmq.send(socket, data, len, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

static void forget_oldest(mc_kv_publisher *p) {
    kept *k = &p->ring[p->oldest];
    p->kept_bytes -= k->len;
    mc_free(k->data);
    p->oldest = (p->oldest + 1) % KEPT;
    p->n_kept--;
}

/* Keeps a message, whose memory it takes. */
static void keep(mc_kv_publisher *p, uint64_t number, mc_buffer *message) {
    if (!p->replay || message->len > KEPT_BYTES) return;
    while (p->n_kept == KEPT || (p->n_kept && p->kept_bytes + message->len > KEPT_BYTES))
        forget_oldest(p);
    p->ring[(p->oldest + p->n_kept++) % KEPT] = (kept){number, message->data, message->len};
    p->kept_bytes += message->len;
    *message = (mc_buffer){0};
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void publish(mc_kv_publisher *p, const batch *b) {
    char number[NUMBER];
    mc_msgpack w = {0};
    uint64_t own = p->number++;
    mc_msgpack_array(&w, 3);
    mc_msgpack_real(&w, now());
    mc_msgpack_array(&w, b->count);
    w.failed = w.failed || !mc_buffer_add(&w.out, b->events.out.data, b->events.out.len);
    mc_msgpack_number(&w, 0);
    if (!w.failed) {
        put_number(number, own);
        send_frame(p->out, b->topic, strlen(b->topic), true);
        send_frame(p->out, number, NUMBER, true);
        send_frame(p->out, w.out.data, w.out.len, false);
        keep(p, own, &w.out);
    }
    mc_buffer_deinit(&w.out);
}

static void publish_all(mc_kv_publisher *p) {
    pthread_mutex_lock(&p->lock);
    batch *b = p->first;
    p->first = p->last = NULL;
    p->number += p->lost; /* which readers notice */
    p->lost = 0;
    pthread_mutex_unlock(&p->lock);
    while (b) {
        batch *next = b->next;
        if (b->count) publish(p, b);
        free_batch(b);
        b = next;
    }
}

/* A request: who asks, an empty frame, and a number. Others are left unanswered. */
static void answer(const mc_kv_publisher *p) {
    char frame[256], who[256], number[NUMBER];
    int more = 1, lens[3] = {0}, n = 0, who_len;
    size_t bytes = sizeof more;
    uint64_t first = 0;
    for (; more; n++) {
        int len = mc_zmq.recv(p->replay, frame, sizeof frame, ZMQ_DONTWAIT);
        if (len < 0 || mc_zmq.getsockopt(p->replay, ZMQ_RCVMORE, &more, &bytes) != 0) return;
        if (n < 3) lens[n] = len;
        if (n == 0) memcpy(who, frame, sizeof who);
        for (int i = 0; n == 2 && i < NUMBER; i++)
            first = first << 8 | (unsigned char)frame[i];
    }
    if (n != 3 || lens[0] > (int)sizeof who || lens[1] != 0 || lens[2] != NUMBER) return;
    who_len = lens[0];
    for (size_t i = 0; i <= p->n_kept; i++) {
        bool last = i == p->n_kept;
        const kept *k = last ? NULL : &p->ring[(p->oldest + i) % KEPT];
        if (k && k->number < first) continue;
        put_number(number, k ? k->number : UINT64_MAX);
        send_frame(p->replay, who, (size_t)who_len, true);
        send_frame(p->replay, "", 0, true);
        send_frame(p->replay, number, NUMBER, true);
        send_frame(p->replay, k ? k->data : "", k ? k->len : 0, false);
    }
}

static void *work(void *user) {
    mc_kv_publisher *p = user;
    zmq_pollitem_t items[] = {{.fd = p->wake[0], .events = ZMQ_POLLIN},
                              {.socket = p->replay, .events = ZMQ_POLLIN}};
    bool ending = false;
    while (!ending) {
        char bytes[64];
        int ready = mc_zmq.poll(items, p->replay ? 2 : 1, -1); /* below 0: a signal, or an error */
        ending = atomic_load(&p->ending);
        while (read(p->wake[0], bytes, sizeof bytes) > 0)
            ;
        publish_all(p);
        if (ready > 0 && p->replay && items[1].revents) answer(p);
    }
    return NULL;
}

/* ---- opening ---- */

static mica_status fail_zmq(const char *what, const char *endpoint) {
    int error = errno; /* which is where zmq_errno looks, too */
    bool wrong = error == EINVAL || error == EPROTONOSUPPORT || error == ENOCOMPATPROTO;
    return mc_fail(wrong ? MICA_EINVAL : MICA_EIO, "KV events: cannot %s %s: %s", what, endpoint,
                   mc_zmq.strerror(error));
}

static mica_status set_number(void *socket, int option, int value) {
    if (mc_zmq.setsockopt(socket, option, &value, sizeof value) == 0) return MICA_OK;
    return fail_zmq("set options of", "a socket");
}

static mica_status limit_frames(void *socket) {
    const int64_t bytes = FRAME;
    if (mc_zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) == 0) return MICA_OK;
    return fail_zmq("set options of", "a socket");
}

static bool listens(const char *endpoint) {
    return strchr(endpoint, '*') || strstr(endpoint, "::") || strncmp(endpoint, "ipc:", 4) == 0;
}

static mica_status open_socket(mc_kv_publisher *p, int type, const char *endpoint, bool binds,
                               void **socket) {
    *socket = mc_zmq.socket(p->context, type);
    if (!*socket) return fail_zmq("open a socket for", endpoint);
    MC_TRY(set_number(*socket, ZMQ_LINGER, LINGER_MS));
    MC_TRY(set_number(*socket, ZMQ_SNDHWM, SLOW + 1));
    MC_TRY(set_number(*socket, ZMQ_IPV6, 1));
    MC_TRY(limit_frames(*socket));
    if (binds)
        return mc_zmq.bind(*socket, endpoint) == 0 ? MICA_OK : fail_zmq("listen at", endpoint);
    return mc_zmq.connect(*socket, endpoint) == 0 ? MICA_OK : fail_zmq("connect to", endpoint);
}

static mica_status open_sockets(mc_kv_publisher *p, const mc_kv_publisher_options *options) {
    const char *endpoint = options->endpoint;
    bool told = *endpoint == '@' || *endpoint == '>';
    bool binds = told ? *endpoint == '@' : listens(endpoint);
    p->context = mc_zmq.ctx_new();
    if (!p->context) return mc_fail_nomem("KV events");
    MC_TRY(open_socket(p, ZMQ_PUB, endpoint + told, binds, &p->out));
    if (!options->replay) return MICA_OK;
    p->ring = mc_calloc(KEPT, sizeof *p->ring);
    if (!p->ring) return mc_fail_nomem("KV events");
    return open_socket(p, ZMQ_ROUTER, options->replay + (*options->replay == '@'), true,
                       &p->replay);
}

static mica_status open_publisher(mc_kv_publisher *p, const mc_kv_publisher_options *options) {
    p->topic = mc_strdup(options->topic ? options->topic : "");
    if (!p->topic) return mc_fail_nomem("KV events");
    p->root = mc_block_name_of_seed(options->seed ? options->seed : "");
    MC_TRY(open_sockets(p, options));
    if (pipe(p->wake) != 0) {
        p->wake[0] = p->wake[1] = -1;
        return mc_fail_errno(errno, "KV events: cannot open a pipe");
    }
    for (int i = 0; i < 2; i++) {
        fcntl(p->wake[i], F_SETFD, FD_CLOEXEC);
        fcntl(p->wake[i], F_SETFL, O_NONBLOCK);
    }
    int error = mc_thread_start(&p->thread, work, p);
    if (error != 0) return mc_fail_errno(error, "KV events: cannot start a thread");
    p->started = true;
    return MICA_OK;
}

mica_status mc_kv_publisher_open(const mc_kv_publisher_options *options, mc_kv_publisher **out) {
    *out = NULL;
    MC_TRY(mc_zmq_load());
    mc_kv_publisher *p = mc_calloc(1, sizeof *p);
    if (!p) return mc_fail_nomem("KV events");
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        mc_free(p);
        return mc_fail_nomem("KV events");
    }
    atomic_init(&p->ending, false);
    p->wake[0] = p->wake[1] = -1;
    mica_status status = open_publisher(p, options);
    if (status == MICA_OK)
        *out = p;
    else
        mc_kv_publisher_close(&p);
    return status;
}

void mc_kv_publisher_close(mc_kv_publisher **out) {
    mc_kv_publisher *p = *out;
    *out = NULL;
    if (!p) return;
    if (p->started) {
        atomic_store(&p->ending, true);
        wake(p);
        pthread_join(p->thread, NULL);
    }
    while (p->n_kept)
        forget_oldest(p);
    mc_free(p->ring);
    if (p->replay) mc_zmq.close(p->replay);
    if (p->out) mc_zmq.close(p->out);
    if (p->context) mc_zmq.ctx_term(p->context);
    for (int i = 0; i < 2; i++)
        if (p->wake[i] >= 0) close(p->wake[i]);
    pthread_mutex_destroy(&p->lock);
    mc_free(p->topic);
    mc_free(p);
}

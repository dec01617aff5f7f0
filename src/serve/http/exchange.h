/* A request of HTTP and its answer, as the endpoints see them.
 *
 * An endpoint is a row of a table (mc_endpoint) with a handler, which runs in a thread of its own
 * and may block. It
 *
 *     reads the body     mc_exchange_read sets a struct by the endpoint's tables of fields
 *     answers            it writes http->out by serve/common/put.h, then calls mc_exchange_reply
 *     or streams         mc_exchange_stream, then mc_exchange_write or mc_exchange_event as often
 *                        as it likes, also after the handler has returned and from other threads;
 *                        mc_exchange_end
 *     or answers later   mc_exchange_attach gives it what is under way; mc_exchange_reply,
 *                        mc_exchange_refuse or mc_exchange_stream come from another thread
 *     or refuses         it sets http->failure and returns false
 *
 * A handler whose model must be loaded first returns false as well (mc_models_take), and is called
 * once more, from its beginning, when it is there.
 *
 * A stream that is not read fast enough is not waited for: what is written to it is kept up to
 * MC_EXCHANGE_BEHIND bytes; beyond that mc_exchange_write returns false, and the stream is cut off.
 * A single part may be larger, as the events that repeat a whole answer are, and is kept besides.
 *
 * When the client is gone, http->cancel is set, and what was attached is told. The request itself
 * lives until all of its work is closed. */
#ifndef SERVE_HTTP_EXCHANGE_H
#define SERVE_HTTP_EXCHANGE_H

#include "base/cancel.h"
#include "serve/common/failure.h"
#include "serve/common/fields.h"
#include "serve/common/put.h"
#include "serve/common/request_id.h"
#include "serve/http/handlers.h"

#include <mica/serve.h>

#include <pthread.h>
#include <stdatomic.h>

enum { MC_EXCHANGE_BEHIND = 1 << 20, MC_EXCHANGE_HEADERS = 8, MC_EXCHANGE_QUERY = 4 };

typedef struct mc_exchange mc_exchange;

enum {
    MC_ENDPOINT_OPEN = 1,    /* needs no key */
    MC_ENDPOINT_AT_ONCE = 2, /* the handler neither blocks nor reads a body: it may run in the
                                thread that serves all connections */
    MC_ENDPOINT_ALWAYS = 4   /* answered while the server drains, too */
};

/* A row of a list of endpoints (serve/http/endpoint.h). */
typedef struct mc_endpoint {
    const char *method; /* "GET" also answers HEAD */
    const char *path;   /* one that ends in a star stands for all that begin so: http->tail */
    mc_api api;         /* the form of its errors */
    unsigned flags;
    /* Returns false after it has set http->failure. */
    bool (*handle)(mc_exchange *http);
    mc_field_table tables[MC_FIELD_TABLES]; /* of the body; none: it has no body */
    const char *query;                      /* the arguments of the path's query that it takes:
                                               up to MC_EXCHANGE_QUERY words; NULL: none */
    const char *help;                       /* a line of docs/serve.md */
} mc_endpoint;

/* A row of a table, with its other members by name. */
#define MC_ENDPOINT(METHOD, PATH, HANDLE, ...) \
    { .method = METHOD, .path = PATH, .handle = HANDLE, __VA_ARGS__ }

/* What is under way for a request. */
typedef struct mc_exchange_work {
    /* The client is gone: end soon. Must not block; may be called more than once. */
    void (*hangup)(void *user);
    /* Frees it. No thread may touch the request through it any more. Called once, in a thread that
     * may block. */
    void (*close)(void *user);
    void *user;
} mc_exchange_work;

struct mc_exchange {
    mica_server *server;
    const mc_endpoint *endpoint;
    const char *method;
    char *path;                     /* without the query */
    const char *tail;               /* what the path's star stands for; "" */
    char *query[MC_EXCHANGE_QUERY]; /* the query's arguments, in the order of the endpoint's
                                             words; NULL: not given */
    mc_buffer body;                 /* as it came */
    mica_cancel cancel;             /* set when the client is gone */
    size_t key;                     /* which of the server's keys it has, from 1 on; 0: none */
    bool takes_gzip;                /* the client takes answers that are compressed so */
    mc_api api;                     /* the form of its errors */
    char request_id[MC_REQUEST_ID]; /* which answers and the log name it by */
    char client[48];                /* its address; "": of the server itself */
    mc_failure failure;             /* why it is refused */
    mc_buffer out;                  /* the answer; of a stream, what was not sent yet */
    int64_t prompt_tokens, answer_tokens; /* for the log */
    const char *left_out;                 /* for the log: the value of that header; NULL: none */
    uint64_t load_us;                     /* how long it waited for its model to be loaded */
    uint64_t evaluated_us;                /* how long what comes before its answer took */

    /* Of a request without a connection, which the server itself makes. */
    bool background;                                 /* what it computes comes after all else */
    void (*answered)(mc_exchange *http, void *user); /* the answer is there, or a stream has begun;
                                                        in any thread, must not block */
    void *answered_user;

    /* Of the models (serve/models/models.h). */
    struct mc_served *served;           /* its reference; NULL: it has none yet */
    struct mc_served *awaited;          /* its reference to one that is to be loaded; NULL: none */
    void (*release)(mc_exchange *http); /* ends the reference; NULL: it has none */
    struct mc_models *models;           /* whose it is */
    struct mc_exchange *next_waiting;   /* for the same one */
    struct mc_made *made; /* the one that it names (serve/models/made.h); NULL: another */
    uint64_t awaited_us;  /* since when */

    /* Private. */
    mc_json_doc *doc;
    struct { /* of the answer, besides Content-Type */
        const char *name;
        char value[512]; /* a policy of the page is this long */
    } headers[MC_EXCHANGE_HEADERS];
    int status; /* of the answer */
    int file;   /* the answer's body, [file_bytes]; -1: `out` is */
    uint64_t file_bytes;
    const char *content_type;
    bool packed;          /* the body is, by gzip or deflate */
    pthread_mutex_t lock; /* guards all that follows, and `out` of a stream */
    void *connection;     /* struct MHD_Connection; NULL: it has ended */
    bool suspended;       /* the connection waits for mc_exchange_reply or for more of the stream */
    bool ready;           /* the answer, or its beginning, is there */
    bool streaming, ended, broken;
    bool handling;     /* the handler runs */
    bool leaving;      /* the connection is about to be taken away: it is not resumed */
    size_t sent;       /* bytes at the beginning of `out` that were sent */
    size_t extra;      /* bytes of large parts in `out`, which do not count as behind */
    uint64_t wrote_us; /* when the stream was last written to */
    mc_exchange_work work;
    /* Of the connection. */
    uint64_t started_us, queued_us;
    size_t counted;     /* bytes of the body among the server's body_bytes */
    uint64_t discarded; /* bytes of a body that is not kept */
    bool accepted;      /* it is counted among those under way */
    bool dispatched;
    void *peer;
    mc_handler_item item;
};

/* ---- for endpoints ---- */

/* Parses the body, once, and sets `values` by the endpoint's tables. false: http->failure says
 * why. */
bool mc_exchange_read(mc_exchange *http, void *values);

/* Adds a header to the answer, before it begins. */
void mc_exchange_header(mc_exchange *http, const char *name, const char *value);

/* Tells what of the request was left out, in the header mica-left-out and in the log, before the
 * answer begins. text: printable ASCII. */
void mc_exchange_leave_out(mc_exchange *http, const char *text);

/* Sends http->out as the whole answer. content_type NULL: "application/json". */
void mc_exchange_reply(mc_exchange *http, int status, const char *content_type);
/* The same where all was written to it; false: that needed more memory. */
bool mc_exchange_send(mc_exchange *http, const mc_put *put);

/* Sends a file as the whole answer. fd: taken over. */
void mc_exchange_reply_file(mc_exchange *http, int fd, uint64_t bytes, const char *content_type);

/* Sends http->failure as the whole answer. */
void mc_exchange_refuse(mc_exchange *http);

/* Begins a stream; content_type NULL: "text/event-stream". */
void mc_exchange_stream(mc_exchange *http, const char *content_type);

/* Adds to a stream. false: the client is gone, or too slow; nothing more need be written. */
bool mc_exchange_write(mc_exchange *http, const void *bytes, size_t n);

/* Adds an event of server-sent events, whose data is a line. name NULL: it has none. */
bool mc_exchange_event(mc_exchange *http, const char *name, const char *data, size_t n);

/* Ends a stream. */
void mc_exchange_end(mc_exchange *http);

/* Takes over what is under way. If the client is gone already, it is told at once. */
void mc_exchange_attach(mc_exchange *http, const mc_exchange_work *work);

/* ---- for connections ---- */

mc_exchange *mc_exchange_new(mica_server *server, const char *method,
                             const char *path); /* NULL: no memory */
/* Its work was closed. Ends its reference to a model. */
void mc_exchange_free(mc_exchange *http);

/* The client is gone: cancels what is under way. Where something was attached, a connection that
 * waits goes on, so that it ends; else the answer is waited for, unless `cut`. */
void mc_exchange_hangup(mc_exchange *http, bool cut);

/* Looks after a request: adds a comment to an event stream that was not written to since then.
 * Returns whether it was cut off, so that its connection is of no use. */
bool mc_exchange_look(mc_exchange *http, uint64_t since_us);

/* Takes up to `max` bytes of a stream. Returns their number; 0: there are none yet, and the
 * connection is suspended; -1: the end; -2: it is cut off. */
int64_t mc_exchange_take(mc_exchange *http, char *bytes, size_t max);

/* Whether the answer is there. If not, the connection is suspended until it is, unless the client
 * is gone: *gone. */
bool mc_exchange_wait(mc_exchange *http, bool *gone);

#endif

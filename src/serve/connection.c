#define _POSIX_C_SOURCE 200809L
#include "serve/connection.h"

#include "base/alloc.h"
#include "base/system.h"
#include "io/deflate.h"
#include "serve/http/endpoint.h"
#include "serve/http/request_head.h"
#include "serve/jobs/state.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* HEAVY_BYTES: of a body whose document and tokens need much memory. */
enum { BLOCK_BYTES = 16 << 10, GONE_SECONDS = 1, HEAVY_BYTES = 1 << 20 };

/* ---- answers ---- */

static ssize_t read_stream(void *cls, uint64_t pos, char *bytes, size_t max) {
    (void)pos;
    int64_t n = mc_exchange_take(cls, bytes, max);
    if (n == -1) return MHD_CONTENT_READER_END_OF_STREAM;
    return n < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)n;
}

/* Lets pages of an allowed origin read the answer, and do what they ask for beforehand. */
static void add_origin(const mica_server *server, struct MHD_Connection *connection,
                       struct MHD_Response *response, const mc_exchange *http);

/* Whether the client has the answer already, by its ETag: then it is not sent again. */
static bool is_known(struct MHD_Connection *connection, const mc_exchange *http);

static struct MHD_Response *make_response(mc_exchange *http) {
    if (http->streaming)
        return mc_mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream,
                                                    http, NULL);
    if (http->file < 0)
        return mc_mhd.create_response_from_buffer(
            http->out.len, http->out.len ? http->out.data : "", MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response = mc_mhd.create_response_from_fd64(http->file_bytes, http->file);
    if (response) http->file = -1; /* the response closes it */
    return response;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, mc_exchange *http) {
    if (is_known(connection, http)) {
        http->status = 304;
        http->content_type = "";
        mc_buffer_clear(&http->out);
    }
    struct MHD_Response *response = make_response(http);
    if (!response) return MHD_NO;
    if (http->content_type[0])
        mc_mhd.add_response_header(response, "Content-Type", http->content_type);
    if (http->streaming) {
        mc_mhd.add_response_header(response, "Cache-Control", "no-cache");
        mc_mhd.add_response_header(response, "X-Accel-Buffering", "no"); /* nginx waits otherwise */
        mc_mhd.set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                     MC_IDLE_SECONDS + 1u);
    }
    for (int i = 0; i < MC_EXCHANGE_HEADERS && http->headers[i].name; i++)
        mc_mhd.add_response_header(response, http->headers[i].name, http->headers[i].value);
    mc_mhd.add_response_header(response, "X-Request-Id", http->request_id);
    if (http->api == MC_API_ANTHROPIC)
        mc_mhd.add_response_header(response, "Request-Id", http->request_id);
    if (atomic_load(&http->server->draining))
        mc_mhd.add_response_header(response, "Connection", "close");
    add_origin(http->server, connection, response, http);
    enum MHD_Result result = mc_mhd.queue_response(connection, (unsigned)http->status, response);
    mc_mhd.destroy_response(response);
    return result;
}

/* ---- heads ---- */

/* A head that is being read. */
typedef struct reading {
    mc_head head;
    uintptr_t end; /* of the last value, in the library's buffer; 0: none */
    bool places;   /* places in that buffer tell what the library hides */
} reading;

/* libmicrohttpd hides bytes up to 0.9.75: a value ends at a NUL, and the second line of a folded
 * header becomes a part of its name, which lies elsewhere then. In its buffer a value is behind its
 * name, and the next header behind the end of the line. What cannot be told is a NUL at the end of
 * the last header. */
static bool hides(const reading *at, const char *name, const char *value, size_t len) {
    uintptr_t begin = (uintptr_t)name;
    if ((uintptr_t)value < begin) return true;
    if (value[len + 1] && value[len + 1] != '\n') return true; /* "\r\n" has become NULs */
    return at->end && begin > at->end + 2 && begin - at->end < BLOCK_BYTES;
}

static enum MHD_Result add_head(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_len, const char *value, size_t value_len) {
    reading *at = cls;
    (void)kind;
    mc_head_add(&at->head, name, value);
    if (strlen(name) != name_len || (value && strlen(value) != value_len) ||
        (at->places && value && hides(at, name, value, value_len)))
        at->head.malformed = true;
    at->end = value ? (uintptr_t)value + value_len : 0;
    return MHD_YES;
}

/* The number of a word; -1: it is none of them. */
static int word_number(const char *words, const char *word) {
    size_t len = strlen(word);
    for (int i = 0; words && *words; i++) {
        size_t n = strcspn(words, " ");
        if (n == len && memcmp(words, word, n) == 0) return i;
        words += n + strspn(words + n, " ");
    }
    return -1;
}

static enum MHD_Result take_query(void *cls, enum MHD_ValueKind kind, const char *name,
                                  const char *value) {
    mc_exchange *http = cls;
    int i = word_number(http->endpoint->query, name);
    (void)kind;
    if (i < 0)
        mc_failure_set(&http->failure, 400, "unknown_field", name,
                       "%.60s: this endpoint's query takes %s", name,
                       http->endpoint->query ? http->endpoint->query : "nothing");
    else if (http->query[i])
        mc_failure_set(&http->failure, 400, "repeated_field", name, "%s is given twice", name);
    else if (!(http->query[i] = mc_strdup(value ? value : "")))
        mc_failure_of(&http->failure, mc_fail_nomem("a query"), NULL);
    return http->failure.status ? MHD_NO : MHD_YES;
}

static mc_head head_of(struct MHD_Connection *connection) {
    int major = 0, minor = 0, patch = 0;
    sscanf(mc_mhd.get_version(), "%d.%d.%d", &major, &minor, &patch);
    reading at = {.places = major == 0 && minor == 9 && patch <= 75};
    mc_mhd.get_connection_values_n(connection, MHD_HEADER_KIND, add_head, &at);
    return at.head;
}

static bool is_known(struct MHD_Connection *connection, const mc_exchange *http) {
    for (int i = 0; i < MC_EXCHANGE_HEADERS && http->headers[i].name; i++)
        if (strcmp(http->headers[i].name, "ETag") == 0)
            return http->status == 200 &&
                   mc_head_knows(head_of(connection).known_tags, http->headers[i].value);
    return false;
}

static void add_origin(const mica_server *server, struct MHD_Connection *connection,
                       struct MHD_Response *response, const mc_exchange *http) {
    if (!server->guard.origin_count) return;
    mc_head head = head_of(connection);
    mc_mhd.add_response_header(response, "Vary", "Origin");
    if (!head.origin || !mc_guard_allows_origin(&server->guard, head.origin)) return;
    mc_mhd.add_response_header(response, "Access-Control-Allow-Origin", head.origin);
    if (strcmp(http->method, "OPTIONS") != 0) return;
    mc_mhd.add_response_header(response, "Access-Control-Allow-Methods",
                               "GET, POST, DELETE, OPTIONS");
    if (head.asked_headers)
        mc_mhd.add_response_header(response, "Access-Control-Allow-Headers", head.asked_headers);
    mc_mhd.add_response_header(response, "Access-Control-Max-Age", "600");
}

/* ---- what the front has refused ---- */

static const struct {
    int status;
    const char *code, *message;
} refusals[MC_REFUSALS] = {
    {0, NULL, NULL},
#define REFUSAL(name, status, code, message) {status, code, message},
#include "serve/http/refusal_list.h"
};

/* A client that speaks TLS has none, and could send the front's header itself. */
static bool has_front(const mica_server *server) {
    return !server->options.certificate;
}

/* false: it was refused. */
static bool check_refusal(mc_exchange *http, const char *number) {
    int i = number && has_front(http->server) ? atoi(number) : 0;
    if (i <= 0 || i >= MC_REFUSALS) return true;
    return mc_failure_set(&http->failure, refusals[i].status, refusals[i].code, NULL, "%s",
                          refusals[i].message);
}

static enum MHD_Result take_trailer(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
    (void)kind;
    if (strcasecmp(name, MC_FRONT_HEADER) == 0 && !check_refusal(cls, value))
        mc_exchange_header(cls, "Connection", "close");
    return MHD_YES;
}

/* Answers OPTIONS: which methods a path has. false: there is no such path. */
static bool tell_methods(mc_exchange *http) {
    bool all = strcmp(http->path, "*") == 0;
    char methods[64];
    if (!all && !http->failure.allow[0]) return false;
    snprintf(methods, sizeof methods, "%s, OPTIONS",
             all ? "GET, POST, DELETE" : http->failure.allow);
    mc_exchange_header(http, "Allow", methods);
    http->failure = (mc_failure){0};
    return true;
}

/* How the body is packed. false: in a way that the server does not know. */
static bool check_packing(mc_exchange *http, const char *packing) {
    static const char *const known[] = {"gzip", "x-gzip", "deflate"};
    if (!packing || !*packing || strcasecmp(packing, "identity") == 0) return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(packing, known[i]) == 0) http->packed = true;
    if (http->packed) return true;
    mc_exchange_header(http, "Accept-Encoding", "gzip, deflate");
    return mc_failure_set(&http->failure, 415, "unsupported_encoding", NULL,
                          "the Content-Encoding %.40s is not known: want gzip or deflate", packing);
}

/* Whether a request may go on, by its head alone. If not, *at_once says that its body must not be
 * read: where it ends is not sure, or far away. */
static bool check_head(mica_server *server, struct MHD_Connection *connection, mc_exchange *http,
                       bool *at_once) {
    mc_head head = head_of(connection);
    mc_failure *failure = &http->failure;
    uint64_t limit = server->options.max_body;
    uint64_t length = head.length ? strtoull(head.length, NULL, 10) : 0;
    bool preflight = strcmp(http->method, "OPTIONS") == 0 && head.origin;
    bool open = preflight; /* a browser sends no key before it may ask */
    http->takes_gzip = mc_head_takes_gzip(head.codings);
    if (!preflight) {
        http->endpoint = mc_endpoint_find(http->method, http->path, &http->tail, failure);
        open = http->endpoint && http->endpoint->flags & MC_ENDPOINT_OPEN;
        http->api = http->endpoint ? http->endpoint->api : mc_endpoint_api(http->path);
        if (head.anthropic && http->api == MC_API_OPENAI) http->api = MC_API_ANTHROPIC;
        if (failure->status == 404 && strcmp(http->method, "other") == 0)
            mc_failure_set(failure, 501, "method_not_known", NULL, "the method is not known");
    }
    mc_failure unknown = *failure;
    mc_request_id_set(head.request_id, http->request_id);
    *at_once = true;
    if (!check_refusal(http, head.refusal)) return false;
    *at_once = head.malformed || length / 2 > limit || head.lengths + head.encodings > 1 ||
               (head.encoding && strcmp(head.encoding, "chunked") != 0);
    if (!mc_guard_check(&server->guard, &head, open, &http->key, failure)) return false;
    if (preflight) return true;
    *failure = unknown; /* only who may ask learns what there is */
    if (strcmp(http->method, "OPTIONS") == 0 && tell_methods(http)) return true;
    if (!http->endpoint) return false;
    if (atomic_load(&server->draining) && !(http->endpoint->flags & MC_ENDPOINT_ALWAYS))
        return mc_failure_set(failure, 503, "draining", NULL, "the server is being stopped");
    mc_mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_query, http);
    if (failure->status || !check_packing(http, head.packing)) return false;
    if (length > limit)
        return mc_failure_set(failure, 413, "body_too_large", NULL,
                              "the body has %.20s bytes; the limit is %" PRIu64, head.length,
                              limit);
    return true;
}

/* ---- bodies ---- */

static void drop_body(mc_exchange *http) {
    atomic_fetch_sub(&http->server->body_bytes, http->counted);
    http->counted = 0;
    mc_buffer_deinit(&http->body);
}

/* Adds a part of the body. What cannot be kept is read to its end, for the answer comes after it,
 * but not more than the limit twice more. false: the connection is closed. */
static bool add_body(mica_server *server, mc_exchange *http, const char *data, size_t size) {
    uint64_t limit = server->options.max_body;
    if (!http->failure.status && http->body.len + size > limit)
        mc_failure_set(&http->failure, 413, "body_too_large", NULL,
                       "the body has more than %" PRIu64 " bytes, which is the limit", limit);
    else if (!http->failure.status && atomic_load(&server->body_bytes) / MC_BODIES > limit)
        mc_failure_set(&http->failure, 503, "overloaded", NULL,
                       "too many large requests are under way");
    else if (!http->failure.status && !mc_buffer_add(&http->body, data, size))
        mc_failure_set(&http->failure, 503, "out_of_memory", NULL,
                       "there is no memory for the body");
    atomic_fetch_add(&server->body_bytes, http->body.cap - http->counted);
    http->counted = http->body.cap;
    if (!http->failure.status) return true;
    drop_body(http);
    http->discarded += size;
    return http->discarded / 2 <= limit;
}

/* ---- requests ---- */

static mc_exchange *http_of(mc_handler_item *item) {
    return (mc_exchange *)(void *)((char *)item - offsetof(mc_exchange, item));
}

/* A path as a line of a log has it: a client's control characters are spelled out. Those above
 * 0x7f are of two bytes in UTF-8, some of which a terminal obeys alone. */
static void print_path(const char *path, char *out, size_t bytes) {
    size_t len = 0;
    for (; *path && len + 4 <= bytes; path++) {
        unsigned char c = (unsigned char)*path;
        len += (size_t)snprintf(out + len, bytes - len, c < 0x20 || c >= 0x7f ? "%%%02X" : "%c", c);
    }
    out[len] = '\0';
}

static void log_request(const mica_server *server, const mc_exchange *http) {
    char line[1024], path[204], model[104], at[32];
    struct tm parts = {0};
    struct timespec now = {0};
    if (!server->options.log) return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", &parts);
    print_path(http->path, path, sizeof path);
    print_path(http->served ? http->served->name : "-", model, sizeof model);
    snprintf(line, sizeof line,
             "%s.%03dZ %s %s %s %d %.1f ms, %" PRId64 " + %" PRId64 " tokens, model %s, %s%s%s%s",
             at, (int)(now.tv_nsec / 1000000), http->client, http->method, path, http->status,
             (double)(mc_now_us() - http->started_us) / 1000, http->prompt_tokens,
             http->answer_tokens, model, http->request_id, http->broken ? ", cut off" : "",
             http->left_out ? ", left out: " : "", http->left_out ? http->left_out : "");
    server->options.log(server->options.log_user, line);
}

static void count_request(mica_server *server, const mc_exchange *http) {
    mc_server_counts *counts = &server->counts;
    atomic_fetch_add(&counts->requests, 1u);
    if (!http->ready || http->broken)
        atomic_fetch_add(&counts->dropped, 1u);
    else if (http->status < 400)
        atomic_fetch_add(&counts->ok, 1u);
    else if (http->status < 500)
        atomic_fetch_add(&counts->client_errors, 1u);
    else
        atomic_fetch_add(&counts->server_errors, 1u);
}

/* The end of a request: neither the connection nor the handler has it any more. */
static void finish(mc_handler_item *item) {
    mc_exchange *http = http_of(item);
    mica_server *server = http->server;
    bool accepted = http->accepted;
    if (http->work.close) http->work.close(http->work.user);
    http->work = (mc_exchange_work){0};
    count_request(server, http);
    log_request(server, http);
    drop_body(http);
    mc_exchange_free(http);
    if (accepted) atomic_fetch_sub(&server->under_way, 1);
}

/* Unpacks the body. */
static bool unpack(mc_exchange *http) {
    mc_buffer plain = {0};
    bool too_large = false;
    uint64_t limit = http->server->options.max_body;
    size_t max = limit < SIZE_MAX / 2 ? (size_t)limit : SIZE_MAX / 2;
    http->packed = false;
    mica_status status = mc_inflate_body("the body", (const uint8_t *)http->body.data,
                                         http->body.len, max, &plain, &too_large);
    drop_body(http);
    http->body = plain;
    http->counted = plain.cap;
    atomic_fetch_add(&http->server->body_bytes, http->counted);
    if (too_large)
        return mc_failure_set(&http->failure, 413, "body_too_large", NULL,
                              "the body unpacks to more than %" PRIu64 " bytes, which is the limit",
                              limit);
    if (status == MICA_EUNSUPPORTED)
        return mc_failure_set(&http->failure, 415, "unsupported_encoding", NULL, "%s",
                              mica_last_error());
    return status == MICA_OK || mc_failure_of(&http->failure, status, NULL);
}

/* Runs the handler, once more where it has waited for its model (serve/models/models.h). Who
 * leaves last, it or the connection, has the request finished. */
static void handle(mc_handler_item *item) {
    mc_exchange *http = http_of(item);
    /* A client that is gone long ago is spared the work; one that has only said all is not. */
    bool gone = mc_cancel_check(&http->cancel) != MICA_OK &&
                mc_now_us() - http->queued_us > GONE_SECONDS * 1000000u;
    if (gone) mc_failure_of(&http->failure, MICA_ECANCELLED, NULL);
    if (!gone && http->packed) (void)unpack(http);
    bool refused = http->failure.status || !http->endpoint->handle(http);
    if (refused && http->awaited) {
        mc_models_wait(http);
        return;
    }
    if (refused) mc_exchange_refuse(http);
    pthread_mutex_lock(&http->lock);
    http->handling = false;
    bool last = !http->connection;
    pthread_mutex_unlock(&http->lock);
    if (last) finish(item);
}

/* Whether a server that drains waits for the request. */
static void set_accepted(mica_server *server, mc_exchange *http, bool accepted) {
    http->accepted = accepted;
    atomic_fetch_add(&server->under_way, accepted ? 1 : -1);
}

/* A request is there whole. */
static void dispatch(mica_server *server, mc_exchange *http) {
    http->dispatched = true;
    if (has_front(server) && http->connection)
        mc_mhd.get_connection_values(http->connection, MHD_FOOTER_KIND, take_trailer, http);
    if (!http->accepted) set_accepted(server, http, true); /* its refusal is to be sent */
    mc_watch_begin(&server->watch, http->peer, http);
    if (atomic_load(&server->closing))
        mc_exchange_hangup(http, true); /* it was not among those cut */
    if (http->failure.status) {
        mc_exchange_refuse(http);
    } else if (!http->endpoint) { /* a page asks what it may do */
        http->content_type = "";
        mc_exchange_reply(http, 204, "");
    } else if (http->endpoint->flags & MC_ENDPOINT_AT_ONCE) {
        if (!http->endpoint->handle(http)) mc_exchange_refuse(http);
    } else {
        http->handling = true;
        http->queued_us = mc_now_us();
        http->item.heavy = http->body.len > HEAVY_BYTES;
        mc_handlers_add(&server->handlers, &http->item, handle);
    }
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t mc_connection_unescape(void *cls, struct MHD_Connection *connection, char *text) {
    char *out = text;
    (void)cls;
    (void)connection;
    for (const char *at = text; *at; at++) {
        int high = *at == '%' ? digit_of(at[1]) : -1, low = high < 0 ? -1 : digit_of(at[2]);
        if (low >= 0 && high + low > 0) {
            *out++ = (char)(high * 16 + low);
            at += 2;
        } else {
            *out++ = *at;
        }
    }
    *out = '\0';
    return (size_t)(out - text);
}

static enum MHD_Result begin(mica_server *server, struct MHD_Connection *connection,
                             const char *method, const char *url, void **request) {
    static const char *const methods[] = {"GET", "POST",  "HEAD",  "OPTIONS", "DELETE",
                                          "PUT", "PATCH", "TRACE", "CONNECT"};
    const char *known = "other";
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i], method) == 0) known = methods[i];
    mc_exchange *http = mc_exchange_new(server, known, url);
    if (!http) return MHD_NO;
    const union MHD_ConnectionInfo *info =
        mc_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http->peer = info ? info->socket_context : NULL;
    info = mc_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    mc_listen_print(info ? info->client_addr : NULL, http->client, sizeof http->client);
    http->connection = connection;
    *request = http;
    if (!http->peer) return MHD_NO;
    bool at_once;
    set_accepted(server, http, true); /* before its head is looked at: mica_server_run looks at both
                                         in the other order */
    if (check_head(server, connection, http, &at_once)) return MHD_YES;
    set_accepted(server, http, false);
    if (!at_once) return MHD_YES;
    mc_exchange_header(http, "Connection", "close");
    mc_exchange_refuse(http);
    mc_watch_begin(&server->watch, http->peer, http);
    return send_answer(connection, http);
}

enum MHD_Result mc_connection_handle(void *cls, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *size, void **request) {
    mica_server *server = cls;
    mc_exchange *http = *request;
    bool gone;
    (void)version;
    if (!http) return begin(server, connection, method, url, request);
    if (*size) {
        bool kept = add_body(server, http, data, *size);
        *size = 0;
        return kept ? MHD_YES : MHD_NO;
    }
    if (!http->dispatched) dispatch(server, http);
    if (mc_exchange_wait(http, &gone)) return send_answer(connection, http);
    return gone ? MHD_NO : MHD_YES;
}

/* Whether the client did not get the whole answer. A daemon that is stopped may have sent one
 * without having looked again. Called with the lock held. */
static bool is_cut_off(const mc_exchange *http, enum MHD_RequestTerminationCode how) {
    if (how == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN) return !http->ready || http->streaming;
    return how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
}

void mc_connection_done(void *cls, struct MHD_Connection *connection, void **request,
                        enum MHD_RequestTerminationCode how) {
    mica_server *server = cls;
    mc_exchange *http = *request;
    (void)connection;
    if (!http) return;
    *request = NULL;
    if (http->peer) mc_watch_done(&server->watch, http->peer);
    pthread_mutex_lock(&http->lock);
    http->leaving = true;
    pthread_mutex_unlock(&http->lock);
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK) mc_exchange_hangup(http, false);
    pthread_mutex_lock(&http->lock);
    if (is_cut_off(http, how)) http->broken = true;
    http->connection = NULL;
    bool last = !http->handling;
    pthread_mutex_unlock(&http->lock);
    if (!last) return;
    http->item.heavy = false; /* to free it needs no memory */
    mc_handlers_add(&server->handlers, &http->item, finish);
}

void mc_connection_notify(void *cls, struct MHD_Connection *connection, void **peer,
                          enum MHD_ConnectionNotificationCode what) {
    mica_server *server = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            mc_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *peer = info ? mc_watch_add(&server->watch, (int)info->connect_fd) : NULL;
        atomic_fetch_add(&server->taken, 1u);
    } else if (*peer) {
        mc_watch_remove(&server->watch, *peer);
        *peer = NULL;
    }
}

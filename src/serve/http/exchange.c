#include "serve/http/exchange.h"

#include "base/alloc.h"
#include "base/system.h"
#include "serve/http/library.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A part of a stream above this counts as much when it is asked how far a client is behind: what
 * repeats a whole answer comes at once. */
enum { LARGE_BYTES = 64 << 10 };

/* ---- the connection ---- */

/* Lets a suspended connection go on. Called with the lock held. */
static void resume(mc_exchange *http) {
    if (!http->suspended || !http->connection || http->leaving) return;
    http->suspended = false;
    mc_mhd.resume_connection(http->connection);
}

static void suspend(mc_exchange *http) {
    http->suspended = true;
    mc_mhd.suspend_connection(http->connection);
}

mc_exchange *mc_exchange_new(mica_server *server, const char *method, const char *path) {
    mc_exchange *http = mc_calloc(1, sizeof *http);
    if (!http) return NULL;
    http->server = server;
    http->method = method;
    http->path = mc_strdup(path);
    http->tail = "";
    http->file = -1;
    http->started_us = mc_now_us();
    mc_cancel_init_either(&http->cancel, NULL, NULL);
    pthread_mutex_init(&http->lock, NULL);
    if (http->path) return http;
    mc_exchange_free(http);
    return NULL;
}

void mc_exchange_free(mc_exchange *http) {
    if (http->release) http->release(http);
    for (int i = 0; i < MC_EXCHANGE_QUERY; i++)
        mc_free(http->query[i]);
    if (http->file >= 0) close(http->file);
    mc_json_close(&http->doc);
    mc_buffer_deinit(&http->body);
    mc_buffer_deinit(&http->out);
    pthread_mutex_destroy(&http->lock);
    mc_free(http->path);
    mc_free(http);
}

void mc_exchange_hangup(mc_exchange *http, bool cut) {
    mica_cancel_set(&http->cancel);
    pthread_mutex_lock(&http->lock);
    mc_exchange_work work = http->work;
    bool sent = http->ready && (!http->streaming || (http->ended && http->sent == http->out.len));
    if ((work.hangup || cut) && !sent) {
        http->broken = true;
        resume(http);
    }
    pthread_mutex_unlock(&http->lock);
    if (work.hangup)
        work.hangup(work.user); /* without the lock, which callbacks of the work take */
}

bool mc_exchange_wait(mc_exchange *http, bool *gone) {
    pthread_mutex_lock(&http->lock);
    bool ready = http->ready;
    *gone = http->broken; /* an answer that comes after that was cut short */
    if (!ready && !*gone) suspend(http);
    ready = ready && !*gone;
    pthread_mutex_unlock(&http->lock);
    return ready;
}

int64_t mc_exchange_take(mc_exchange *http, char *bytes, size_t max) {
    pthread_mutex_lock(&http->lock);
    size_t left = http->out.len - http->sent, n = left < max ? left : max;
    int64_t result = (int64_t)n;
    if (http->broken) {
        result = -2;
    } else if (n > 0) {
        memcpy(bytes, http->out.data + http->sent, n);
        http->sent += n;
        if (http->sent == http->out.len) {
            mc_buffer_clear(&http->out);
            http->sent = http->extra = 0;
        }
    } else if (http->ended) {
        result = -1;
    } else {
        suspend(http);
    }
    pthread_mutex_unlock(&http->lock);
    return result;
}

/* ---- endpoints ---- */

static bool parse_body(mc_exchange *http) {
    if (!http->body.len)
        return mc_failure_set(&http->failure, 400, "missing_body", NULL,
                              "the request has no body: want an object of JSON");
    mica_status status = mc_json_parse(http->body.data, http->body.len, "the body", &http->doc);
    if (status == MICA_EFORMAT)
        return mc_failure_set(&http->failure, 400, "invalid_json", NULL, "%s", mica_last_error());
    if (status != MICA_OK) return mc_failure_of(&http->failure, status, NULL);
    mc_buffer_deinit(&http->body); /* the document holds it all */
    return true;
}

bool mc_exchange_read(mc_exchange *http, void *values) {
    if (!http->doc && !parse_body(http)) return false;
    return mc_fields_read(http->endpoint->tables, mc_json_root(http->doc), values, &http->failure);
}

void mc_exchange_header(mc_exchange *http, const char *name, const char *value) {
    for (int i = 0; i < MC_EXCHANGE_HEADERS; i++) {
        if (http->headers[i].name) continue;
        http->headers[i].name = name;
        snprintf(http->headers[i].value, sizeof http->headers[i].value, "%s", value);
        return;
    }
}

void mc_exchange_leave_out(mc_exchange *http, const char *text) {
    static const char name[] = "mica-left-out";
    mc_exchange_header(http, name, text);
    for (int i = 0; i < MC_EXCHANGE_HEADERS; i++)
        if (http->headers[i].name == name) http->left_out = http->headers[i].value;
}

void mc_exchange_reply(mc_exchange *http, int status, const char *content_type) {
    pthread_mutex_lock(&http->lock);
    http->status = status;
    http->content_type = content_type ? content_type : "application/json";
    http->ready = true;
    resume(http);
    pthread_mutex_unlock(&http->lock);
    if (http->answered) http->answered(http, http->answered_user);
}

bool mc_exchange_send(mc_exchange *http, const mc_put *put) {
    if (put->failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, NULL);
    return true;
}

void mc_exchange_reply_file(mc_exchange *http, int fd, uint64_t bytes, const char *content_type) {
    http->file = fd;
    http->file_bytes = bytes;
    mc_exchange_reply(http, 200, content_type);
}

void mc_exchange_refuse(mc_exchange *http) {
    mc_failure *failure = &http->failure;
    if (!failure->status) mc_failure_set(failure, 500, NULL, NULL, "the request got no answer");
    mc_buffer_clear(&http->out);
    mc_put put = mc_put_into(&http->out);
    mc_failure_put(failure, http->api, http->request_id, &put);
    if (put.failed) mc_buffer_clear(&http->out);
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", failure->retry_seconds);
    if (failure->retry_seconds) mc_exchange_header(http, "Retry-After", seconds);
    if (failure->allow[0]) mc_exchange_header(http, "Allow", failure->allow);
    if (failure->status == 401) mc_exchange_header(http, "WWW-Authenticate", "Bearer");
    mc_exchange_reply(http, failure->status, NULL);
}

void mc_exchange_stream(mc_exchange *http, const char *content_type) {
    pthread_mutex_lock(&http->lock);
    http->status = 200;
    http->content_type = content_type ? content_type : "text/event-stream";
    http->streaming = http->ready = true;
    http->wrote_us = mc_now_us();
    resume(http);
    pthread_mutex_unlock(&http->lock);
    if (http->answered) http->answered(http, http->answered_user);
}

/* Adds parts to a stream, all of them or none. Called with the lock held. */
static bool add(mc_exchange *http, const mc_str *parts, int count) {
    size_t n = 0, waiting = http->out.len - http->sent;
    for (int i = 0; i < count; i++)
        n += parts[i].len;
    if (http->broken || !http->connection) return false;
    if (http->sent > waiting) { /* make room where most was sent */
        memmove(http->out.data, http->out.data + http->sent, waiting);
        http->out.len = waiting;
        http->sent = 0;
    }
    if (waiting > MC_EXCHANGE_BEHIND + http->extra || !mc_buffer_reserve(&http->out, n)) {
        http->broken = true;
        resume(http);
        return false;
    }
    if (n > LARGE_BYTES) http->extra += n - LARGE_BYTES; /* the client is not to blame */
    for (int i = 0; i < count; i++)
        mc_buffer_add(&http->out, parts[i].ptr, parts[i].len);
    http->wrote_us = mc_now_us();
    if (http->streaming) resume(http); /* else it waits for the stream's beginning */
    return true;
}

bool mc_exchange_write(mc_exchange *http, const void *bytes, size_t n) {
    pthread_mutex_lock(&http->lock);
    bool done = add(http, &(mc_str){bytes, n}, 1);
    pthread_mutex_unlock(&http->lock);
    return done;
}

bool mc_exchange_event(mc_exchange *http, const char *name, const char *data, size_t n) {
    mc_str parts[6];
    int count = 0;
    if (name) {
        parts[count++] = MC_STR("event: ");
        parts[count++] = mc_str_of(name);
        parts[count++] = MC_STR("\n");
    }
    parts[count++] = MC_STR("data: ");
    parts[count++] = (mc_str){data, n};
    parts[count++] = MC_STR("\n\n");
    pthread_mutex_lock(&http->lock);
    bool done = add(http, parts, count);
    pthread_mutex_unlock(&http->lock);
    return done;
}

bool mc_exchange_look(mc_exchange *http, uint64_t since_us) {
    pthread_mutex_lock(&http->lock);
    if (http->streaming && !http->ended && http->wrote_us < since_us &&
        strcmp(http->content_type, "text/event-stream") == 0)
        add(http, &MC_STR(": waiting\n\n"), 1);
    bool broken = http->broken;
    pthread_mutex_unlock(&http->lock);
    return broken;
}

void mc_exchange_end(mc_exchange *http) {
    pthread_mutex_lock(&http->lock);
    http->ended = true;
    resume(http);
    pthread_mutex_unlock(&http->lock);
}

void mc_exchange_attach(mc_exchange *http, const mc_exchange_work *work) {
    pthread_mutex_lock(&http->lock);
    http->work = *work;
    bool gone = mc_cancel_check(&http->cancel) != MICA_OK;
    if (gone) http->broken = true;
    pthread_mutex_unlock(&http->lock);
    if (gone && work->hangup) work->hangup(work->user);
}

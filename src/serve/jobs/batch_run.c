#define _POSIX_C_SOURCE 200809L /* clock_gettime, pread */
#include "serve/jobs/batch_run.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/system.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 8, MAX_PROBLEMS = 20, AGAIN_US = 1000000 };

/* A request that is being answered. */
typedef struct slot {
    struct run *run;
    mc_exchange *http; /* NULL: free, or it is begun again */
    mc_str line;       /* of the input, while it has no answer; ptr NULL: free */
    mc_str custom_id;
    uint64_t again_us; /* when it is begun again */
    bool answered;     /* guarded by the queue's lock */
} slot;

typedef struct run {
    mc_batch_queue *queue;
    mc_queued_batch *batch;
    const mc_endpoint *endpoint;
    mc_buffer input;
    mc_str rest;    /* of the input: lines that were not begun */
    mc_arena arena; /* of the ids */
    mc_file_writer output, errors;
    bool has_output, has_errors;
    mica_status status; /* of writing */
    slot slots[SLOTS];
    size_t slot_count;
} run;

/* ---- lines ---- */

/* Takes a line that is not blank off a text. */
static bool take_line(mc_str *text, mc_str *line, size_t *number) {
    while (text->len > 0) {
        const char *end = memchr(text->ptr, '\n', text->len);
        size_t n = end ? (size_t)(end - text->ptr) : text->len, blanks = 0;
        *line = (mc_str){text->ptr, n};
        text->ptr += end ? n + 1 : n;
        text->len -= end ? n + 1 : n;
        ++*number;
        while (blanks < n && strchr(" \t\r", line->ptr[blanks]))
            blanks++;
        if (blanks < n) return true;
    }
    return false;
}

/* Checks a line. The document is closed by the caller. Returns NULL, or what is wrong with it. */
static const char *check_line(const run *r, mc_str line, mc_json_doc **doc, mc_str *id) {
    mc_str method, url;
    if (mc_json_parse(line.ptr, line.len, "the line", doc) != MICA_OK) return mica_last_error();
    mc_json root = mc_json_root(*doc), body = mc_json_find(root, "body");
    bool stream = false;
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it);)
        if (!mc_str_is(it.key, "custom_id") && !mc_str_is(it.key, "method") &&
            !mc_str_is(it.key, "url") && !mc_str_is(it.key, "body"))
            return "it has a field other than custom_id, method, url and body";
    if (!mc_json_get_str(mc_json_find(root, "custom_id"), id) || !id->len)
        return "custom_id: want a string";
    if (!mc_json_get_str(mc_json_find(root, "method"), &method) || !mc_str_is(method, "POST"))
        return "method: want POST";
    if (!mc_json_get_str(mc_json_find(root, "url"), &url) || !mc_str_is(url, r->batch->endpoint))
        return "url: want the batch's endpoint";
    if (mc_json_get_type(body) != MC_JSON_OBJECT) return "body: want an object";
    mc_json_get_bool(mc_json_find(body, "stream"), &stream);
    return stream ? "body.stream: answers of a batch are not streamed" : NULL;
}

/* Notes what is wrong with the input. false: no memory */
static bool add_problem(mc_buffer *problems, const char *code, size_t line, const char *message) {
    mc_put put = mc_put_into(problems);
    put.comma = problems->len > 0;
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "code", code);
    if (line)
        mc_put_int(&put, "line", (int64_t)line);
    else
        mc_put_null(&put, "line");
    mc_put_text(&put, "message", message);
    mc_put_null(&put, "param");
    mc_put_close(&put, '}');
    return !put.failed;
}

static bool check_lines(run *r, mc_buffer *problems, size_t *total) {
    mc_str rest = {r->input.data, r->input.len}, line;
    mc_map ids = {0};
    size_t number = 0, found = 0;
    bool done = true;
    while (done && found < MAX_PROBLEMS && take_line(&rest, &line, &number)) {
        mc_json_doc *doc = NULL;
        mc_str id = MC_STR("");
        uint64_t other;
        const char *wrong = check_line(r, line, &doc, &id), *code = "invalid_line";
        char *kept = mc_arena_strndup(&r->arena, id.ptr, id.len);
        mc_str key = {kept, id.len};
        if (!wrong && kept && mc_map_find(&ids, key, &other)) {
            wrong = "custom_id: another line has the same";
            code = "duplicate_custom_id";
        }
        if (!wrong && ++*total > MC_BATCH_LINES) {
            wrong = "the file has more than 50000 lines";
            code = "too_many_lines";
            found = MAX_PROBLEMS;
        }
        done = kept &&
               (wrong ? add_problem(problems, code, number, wrong) : mc_map_put(&ids, key, number));
        found += wrong != NULL;
        mc_json_close(&doc);
    }
    if (done && !*total && !found) done = add_problem(problems, "empty_file", 0, "it has no lines");
    mc_map_deinit(&ids);
    return done;
}

/* ---- answers ---- */

/* Begins a line of a file. */
static mc_put begin_line(mc_buffer *out, mc_str custom_id) {
    char id[MC_NAME_BYTES];
    mc_put put = mc_put_into(out);
    mc_chance_name("batch_req", id);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "id", id);
    mc_put_str(&put, "custom_id", custom_id);
    return put;
}

/* Ends a line and writes it to one of the files, which is begun if it is not there yet. */
static void write_line(run *r, mc_put *put, bool good) {
    mc_file_writer *writer = good ? &r->output : &r->errors;
    bool *has = good ? &r->has_output : &r->has_errors;
    mc_put_close(put, '}');
    if (put->failed || !mc_buffer_add_byte(put->out, '\n')) r->status = mc_fail_nomem("a batch");
    if (r->status == MICA_OK && !*has) {
        mc_str name = good ? MC_STR("output.jsonl") : MC_STR("errors.jsonl");
        r->status = mc_file_writer_open(writer, &r->queue->server->files, r->batch->key, name,
                                        "batch_output");
        *has = r->status == MICA_OK;
    }
    if (r->status == MICA_OK) r->status = mc_file_writer_add(writer, put->out->data, put->out->len);
}

static void write_answer(run *r, const slot *at) {
    mc_exchange *http = at->http;
    bool good = http->status < 400;
    char id[MC_NAME_BYTES];
    mc_buffer line = {0};
    mc_put put = begin_line(&line, at->custom_id);
    mc_chance_name("req", id);
    mc_put_open(&put, "response", '{');
    mc_put_int(&put, "status_code", http->status);
    mc_put_text(&put, "request_id", id);
    mc_put_json(&put, "body", mc_buffer_cstr(&http->out) ? http->out.data : "null");
    mc_put_close(&put, '}');
    mc_put_null(&put, "error");
    write_line(r, &put, good);
    mc_buffer_deinit(&line);
    pthread_mutex_lock(&r->queue->lock);
    *(good ? &r->batch->completed : &r->batch->failed) += 1;
    pthread_mutex_unlock(&r->queue->lock);
}

/* A line whose request was not answered. */
static void write_missed(run *r, mc_str custom_id, const char *code) {
    mc_buffer line = {0};
    mc_put put = begin_line(&line, custom_id);
    mc_put_null(&put, "response");
    mc_put_open(&put, "error", '{');
    mc_put_text(&put, "code", code);
    mc_put_text(&put, "message", "the batch ended before this request was answered");
    mc_put_close(&put, '}');
    write_line(r, &put, false);
    mc_buffer_deinit(&line);
}

static void on_answered(mc_exchange *http, void *user) {
    slot *at = user;
    mc_batch_queue *queue = at->run->queue;
    (void)http;
    pthread_mutex_lock(&queue->lock);
    at->answered = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void free_slot(slot *at) {
    mc_exchange_work work = at->http->work;
    if (work.close) work.close(work.user);
    mc_exchange_free(at->http);
    at->http = NULL;
    at->answered = false;
}

/* Clients may fill the queues: then a line waits, rather than that it fails. */
static bool is_overloaded(const mc_exchange *http) {
    const char *code = http->failure.code;
    return http->status == 503 && code && strcmp(code, "overloaded") == 0;
}

/* Takes what was answered. */
static void finish(run *r, slot *at) {
    if (is_overloaded(at->http)) {
        at->again_us = mc_now_us() + AGAIN_US;
    } else {
        write_answer(r, at);
        at->line.ptr = NULL;
    }
    free_slot(at);
}

/* Begins the request of the slot's line, or of the next one. false: there is none, or no memory. */
static bool begin(run *r, slot *at) {
    mc_json_doc *doc = NULL;
    mc_str line = at->line, id;
    size_t number = 0;
    if (r->status != MICA_OK || (!line.ptr && !take_line(&r->rest, &line, &number))) return false;
    mc_exchange *http = mc_exchange_new(r->queue->server, "POST", r->batch->endpoint);
    bool done = http && !check_line(r, line, &doc, &id);
    if (done) {
        mc_put put = mc_put_into(&http->body);
        mc_put_value(&put, NULL, mc_json_find(mc_json_root(doc), "body"));
        if (!at->line.ptr)
            at->custom_id = (mc_str){mc_arena_strndup(&r->arena, id.ptr, id.len), id.len};
        done = !put.failed && at->custom_id.ptr;
    }
    mc_json_close(&doc);
    if (!done) {
        if (http) mc_exchange_free(http);
        at->line.ptr = NULL;
        r->status = mc_fail_nomem("a batch");
        return false;
    }
    http->endpoint = r->endpoint;
    http->background = true;
    http->key = r->batch->key;
    http->answered = on_answered;
    http->answered_user = at;
    at->http = http;
    at->line = line;
    if (!r->endpoint->handle(http)) mc_exchange_refuse(http);
    return true;
}

/* ---- the batch ---- */

/* Whether a line that waits is to be begun again. */
static bool is_due(const slot *at) {
    return !at->http && at->line.ptr && mc_now_us() >= at->again_us;
}

/* Whether some line has no answer yet. */
static bool is_under_way(const run *r) {
    for (size_t i = 0; i < r->slot_count; i++)
        if (r->slots[i].line.ptr) return true;
    return false;
}

/* Whether no more requests are to be begun, and those under way are to end. Called with the lock
 * held. */
static bool is_over(const run *r) {
    const mc_queued_batch *batch = r->batch;
    return r->queue->ending || batch->state != MC_BATCH_IN_PROGRESS || r->status != MICA_OK ||
           (int64_t)time(NULL) >= batch->since[MC_BATCH_VALIDATING] + MC_BATCH_HOURS * 3600;
}

/* Waits until some request is answered or begun again. false: the batch is over. */
static bool wait_for_answer(run *r) {
    bool over, any = false;
    pthread_mutex_lock(&r->queue->lock);
    while (!(over = is_over(r)) && !any) {
        for (size_t i = 0; i < r->slot_count; i++)
            any |= r->slots[i].answered || is_due(&r->slots[i]);
        if (any) break;
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec++; /* to look at the clock */
        pthread_cond_timedwait(&r->queue->changed, &r->queue->lock, &soon);
    }
    pthread_mutex_unlock(&r->queue->lock);
    return !over;
}

static void answer_all(run *r) {
    bool more = true;
    do {
        for (size_t i = 0; i < r->slot_count; i++) {
            slot *at = &r->slots[i];
            pthread_mutex_lock(&r->queue->lock);
            bool answered = at->answered, over = is_over(r);
            pthread_mutex_unlock(&r->queue->lock);
            if (answered) finish(r, at);
            if (over || at->http) continue;
            if (at->line.ptr ? is_due(at) : more) more = begin(r, at) && more;
        }
    } while (is_under_way(r) && wait_for_answer(r));
}

static bool is_ending(run *r) {
    pthread_mutex_lock(&r->queue->lock);
    bool ending = r->queue->ending;
    pthread_mutex_unlock(&r->queue->lock);
    return ending;
}

/* Ends the requests under way, and says of those and of the rest that they were missed. */
static void end_all(run *r, const char *code) {
    mc_str line, id;
    size_t number = 0;
    for (size_t i = 0; i < r->slot_count; i++) {
        slot *at = &r->slots[i];
        if (!at->line.ptr) continue;
        if (at->http) mc_exchange_hangup(at->http, true);
        write_missed(r, at->custom_id, code);
        if (at->http) free_slot(at);
    }
    while (r->status == MICA_OK && !is_ending(r) && take_line(&r->rest, &line, &number)) {
        mc_json_doc *doc = NULL;
        if (!check_line(r, line, &doc, &id)) write_missed(r, id, code);
        mc_json_close(&doc);
    }
}

/* Closes a file. With an error it is dropped. */
static void close_file(run *r, mc_file_writer *writer, bool has, char id[MC_NAME_BYTES]) {
    if (!has) return;
    mica_status status = mc_file_writer_close(writer, r->status);
    if (status != MICA_OK) r->status = status;
    pthread_mutex_lock(&r->queue->lock);
    if (status == MICA_OK) snprintf(id, MC_NAME_BYTES, "%s", writer->about.id);
    pthread_mutex_unlock(&r->queue->lock);
}

static void set_state(run *r, mc_batch_state state) {
    pthread_mutex_lock(&r->queue->lock);
    mc_batch_set_state(r->batch, state);
    pthread_mutex_unlock(&r->queue->lock);
}

/* Fails the batch for a reason that no line is to blame for. */
static void fail(run *r, const char *code, const char *message) {
    pthread_mutex_lock(&r->queue->lock);
    add_problem(&r->batch->problems, code, 0, message);
    mc_batch_set_state(r->batch, MC_BATCH_FAILED);
    pthread_mutex_unlock(&r->queue->lock);
}

static bool read_input(run *r) {
    mc_stored_file about;
    int fd = mc_file_store_open_file(&r->queue->server->files, r->batch->key,
                                     mc_str_of(r->batch->input), &about);
    if (fd < 0) return false;
    bool done = mc_buffer_reserve(&r->input, (size_t)about.bytes + 1);
    while (done && r->input.len < (size_t)about.bytes) {
        ssize_t n = pread(fd, r->input.data + r->input.len, (size_t)about.bytes - r->input.len,
                          (off_t)r->input.len);
        if (n > 0) r->input.len += (size_t)n;
        done = n > 0 || (n < 0 && errno == EINTR);
    }
    close(fd);
    r->rest = (mc_str){r->input.data, r->input.len};
    return done;
}

/* Reads and checks the input. false: the batch has failed, or was cancelled. */
static bool validate(run *r) {
    mc_failure unknown = {0};
    const char *tail;
    mc_buffer problems = {0};
    size_t total = 0;
    r->endpoint = mc_endpoint_find("POST", r->batch->endpoint, &tail, &unknown);
    if (!r->endpoint || !read_input(r)) {
        fail(r, "invalid_input_file", "the input file cannot be read");
        return false;
    }
    bool done = check_lines(r, &problems, &total);
    pthread_mutex_lock(&r->queue->lock);
    r->batch->total = total;
    bool cancelled = r->batch->state == MC_BATCH_CANCELLING;
    bool good = done && !problems.len && !cancelled;
    if (cancelled)
        mc_batch_set_state(r->batch, MC_BATCH_CANCELLED);
    else if (good)
        mc_batch_set_state(r->batch, MC_BATCH_IN_PROGRESS);
    r->batch->problems = problems;
    pthread_mutex_unlock(&r->queue->lock);
    if (!done)
        fail(r, "out_of_memory", "there is no memory to check the input");
    else if (!good && !cancelled)
        set_state(r, MC_BATCH_FAILED);
    return good;
}

/* Half of the rows that the first model computes together: the others are for clients. */
static size_t count_slots(mica_server *server) {
    size_t count;
    mc_served **held = mc_models_hold(&server->models, &count);
    mc_schedule_stats stats = {.rows = 2};
    if (count) mc_schedule_get_stats(held[0]->schedule, &stats);
    mc_models_drop(&server->models, held, count);
    size_t half = stats.rows / 2;
    return half < 1 ? 1 : half > SLOTS ? SLOTS : half;
}

void mc_batch_run(mc_batch_queue *queue, mc_queued_batch *batch) {
    run *r = mc_calloc(1, sizeof *r);
    if (!r) {
        run none = {.queue = queue, .batch = batch};
        fail(&none, "out_of_memory", "there is no memory for the batch");
        return;
    }
    *r = (run){.queue = queue, .batch = batch, .slot_count = count_slots(queue->server)};
    for (size_t i = 0; i < SLOTS; i++)
        r->slots[i].run = r;
    if (validate(r)) {
        answer_all(r);
        pthread_mutex_lock(&queue->lock);
        bool cancelled = batch->state == MC_BATCH_CANCELLING;
        pthread_mutex_unlock(&queue->lock);
        bool whole = !cancelled && !is_under_way(r) && !r->rest.len;
        if (!whole) end_all(r, cancelled ? "batch_cancelled" : "batch_expired");
        if (whole) set_state(r, MC_BATCH_FINALIZING);
        close_file(r, &r->output, r->has_output, batch->output);
        close_file(r, &r->errors, r->has_errors, batch->errors);
        if (r->status != MICA_OK)
            fail(r, "server_error", "the results cannot be written");
        else
            set_state(r, cancelled ? MC_BATCH_CANCELLED
                         : whole   ? MC_BATCH_COMPLETED
                                   : MC_BATCH_EXPIRED);
    }
    mc_buffer_deinit(&r->input);
    mc_arena_deinit(&r->arena);
    mc_free(r);
}

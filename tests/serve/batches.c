/* Files and batches over sockets: a batch's answers are those that clients get, and nothing of a
 * request becomes a path. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include "serve/common/batch_queue.h"
#include "serve/common/multipart.h"
#include "support/system.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static served s;
static char *folder; /* $TMPDIR of the server */

static int open_shared(void **state) {
    (void)state;
    folder = test_temp_dir();
    setenv("TMPDIR", folder, 1);
    s = served_open(NULL);
    return 0;
}

/* The server leaves nothing behind. */
static int close_shared(void **state) {
    (void)state;
    served_close(&s);
    assert_int_equal(test_count_entries(folder), 0);
    test_temp_dir_remove(folder);
    return 0;
}

/* ---- multipart ---- */

/* Splits a body of which each line ends with \r\n. */
static bool split(const char *body, mc_part *parts, size_t *n) {
    mc_failure failure = {0};
    bool done = mc_multipart_read(mc_str_of(body), parts, n, &failure);
    assert_int_equal(failure.status, done ? 0 : 400);
    return done;
}

static void test_multipart(void **state) {
    (void)state;
    mc_part parts[MC_PARTS];
    size_t n;
    assert_true(split("--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                      "--x\r\nContent-Type: text/plain\r\ncontent-disposition: form-data; "
                      "name=\"file\"; filename=\"../a;name=.b\"\r\n\r\n\r\n--y\r\n--x--\r\n",
                      parts, &n));
    assert_int_equal(n, 2);
    assert_true(mc_str_is(parts[0].name, "purpose") && mc_str_is(parts[0].content, "batch"));
    assert_null(parts[0].filename.ptr);
    assert_true(mc_str_is(parts[1].name, "file") && mc_str_is(parts[1].content, "\r\n--y"));
    assert_true(mc_str_is(parts[1].filename, "../a;name=.b"));
    static const char *const bad[] = {
        "",
        "{}",
        "--\r\n",
        "--x\r\n",
        "--x\r\n\r\na\r\n--x--",
        "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\na",
        "--x\r\nContent-Disposition: form-data; name=\"a\r\n\r\na\r\n--x--",
        "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\na\r\n--xy",
        "--x\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: "
        "base64\r\n\r\na\r\n--x--",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(split(bad[i], parts, &n));
}

/* ---- the queue ---- */

/* What a queue's thread does: it waits until all is added, and notes the keys. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool goes;
    size_t keys[16], count;
} order = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note_key(mc_batch_queue *queue, mc_queued_batch *batch) {
    pthread_mutex_lock(&order.lock);
    while (!order.goes)
        pthread_cond_wait(&order.changed, &order.lock);
    pthread_mutex_lock(&queue->lock);
    mc_batch_set_state(batch, MC_BATCH_COMPLETED);
    pthread_mutex_unlock(&queue->lock);
    order.keys[order.count++] = batch->key;
    pthread_cond_broadcast(&order.changed);
    pthread_mutex_unlock(&order.lock);
}

/* Who has many batches does not hold up others: the keys take turns. */
static void test_turns(void **state) {
    (void)state;
    static const size_t added[] = {1, 1, 1, 0, 3, 3, 0, 2}, want[] = {1, 2, 3, 0, 1, 3, 0, 1};
    enum { COUNT = sizeof added / sizeof *added };
    mc_batch_queue queue;
    mc_failure failure = {0};
    assert_int_equal(mc_batch_queue_open(&queue, NULL, note_key), MICA_OK);
    for (size_t i = 0; i < COUNT; i++) {
        mc_buffer out = {0}, metadata = {0};
        mc_put put = mc_put_into(&out);
        mc_put_open(&put, NULL, '[');
        assert_true(mc_batch_queue_add(&queue, added[i], "file", "/v1/embeddings", &metadata, &put,
                                       &failure));
        mc_buffer_deinit(&out);
    }
    pthread_mutex_lock(&order.lock);
    order.goes = true;
    pthread_cond_broadcast(&order.changed);
    while (order.count < COUNT)
        pthread_cond_wait(&order.changed, &order.lock);
    pthread_mutex_unlock(&order.lock);
    mc_batch_queue_close(&queue);
    for (size_t i = 0; i < COUNT; i++)
        if (order.keys[i] != want[i]) fail_msg("%zu: key %zu, not %zu", i, order.keys[i], want[i]);
}

/* ---- files ---- */

/* Uploads a file; freed with mc_json_close. */
static mc_json_doc *upload(const char *purpose, const char *filename, const char *content,
                           int status) {
    char *body = test_format("--bound\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n"
                             "%s\r\n--bound\r\nContent-Disposition: form-data; name=\"file\"; "
                             "filename=\"%s\"\r\nContent-Type: application/octet-stream\r\n\r\n"
                             "%s\r\n--bound--\r\n",
                             purpose, filename, content);
    mc_json_doc *doc = client_json(s.server, "POST", "/v1/files", body, status);
    free(body);
    return doc;
}

/* The id of a file with that content. */
static void add_file(const char *content, char id[64]) {
    mc_json_doc *doc = upload("batch", "in.jsonl", content, 200);
    snprintf(id, 64, "%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
    mc_json_close(&doc);
}

/* Checks that no file of the server has a name. Returns how many it has. */
static size_t count_files(void) {
    if (test_frees_names()) assert_int_equal(test_count_entries(folder), 0);
    mc_json_doc *doc = client_json(s.server, "GET", "/v1/files?limit=1000", NULL, 200);
    size_t count = mc_json_count(mc_json_find(mc_json_root(doc), "data"));
    mc_json_close(&doc);
    return count;
}

static void test_files(void **state) {
    (void)state;
    static const char content[] = "line\n\xff\xfe\nend";
    size_t before = count_files();
    mc_json_doc *doc = upload("batch", "../../etc/passwd", content, 200);
    mc_json root = mc_json_root(doc);
    assert_int_equal(int_at(root, "bytes"), sizeof content - 1);
    assert_true(mc_str_is(text_at(root, "filename"), "../../etc/passwd"));
    assert_true(mc_str_is(text_at(root, "purpose"), "batch"));
    assert_int_equal(count_files(), before + 1);
    char *path = test_format("/v1/files/%.*s", MC_STR_ARG(text_at(root, "id")));
    char *get = test_format("%s/content", path);
    answer a = client_ask(s.server, "GET", get, NULL);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, sizeof content - 1);
    assert_memory_equal(a.body, content, a.len);
    answer_free(&a);
    mc_json_doc *other = client_json(s.server, "GET", path, NULL, 200);
    assert_int_equal(int_at(mc_json_root(other), "bytes"), sizeof content - 1);
    mc_json_close(&other);
    other = client_json(s.server, "GET", "/v1/files", NULL, 200);
    assert_true(mc_json_count(mc_json_find(mc_json_root(other), "data")) >= 1);
    mc_json_close(&other);
    other = client_json(s.server, "DELETE", path, NULL, 200);
    mc_json_close(&other);
    assert_int_equal(count_files(), before);
    static const char *const methods[] = {"GET", "DELETE"};
    for (size_t i = 0; i < 2; i++) {
        other = client_json(s.server, methods[i], path, NULL, 404);
        mc_json_close(&other);
        other = client_json(s.server, methods[i], "/v1/files/../../etc/passwd", NULL, 404);
        mc_json_close(&other);
    }
    other = client_json(s.server, "GET", "/v1/files/..%2f..%2fetc%2fpasswd/content", NULL, 404);
    mc_json_close(&other);
    mc_json_close(&doc);
    free(path);
    free(get);
}

/* The ids of a list that a query gives, with commas between them, and "+" behind if it has more. */
static void list_files(const char *query, char ids[256]) {
    char *path = test_format("/v1/files%s", query);
    mc_json_doc *doc = client_json(s.server, "GET", path, NULL, 200);
    mc_json root = mc_json_root(doc), data = mc_json_find(root, "data");
    mc_str first = text_at(root, "first_id"), last = {0};
    bool more, any = false;
    *ids = '\0';
    for (mc_json_iter it = mc_json_begin(data); mc_json_next(&it); any = true) {
        last = text_at(it.value, "id");
        if (!any) assert_true(first.len == last.len && !memcmp(first.ptr, last.ptr, last.len));
        size_t len = strlen(ids);
        snprintf(ids + len, 256 - len, "%s%.*s", any ? "," : "", MC_STR_ARG(last));
    }
    mc_str told = text_at(root, "last_id");
    assert_true(told.len == last.len && (!last.len || !memcmp(told.ptr, last.ptr, last.len)));
    assert_true(mc_json_get_bool(mc_json_find(root, "has_more"), &more));
    if (more) snprintf(ids + strlen(ids), 256 - strlen(ids), "+");
    mc_json_close(&doc);
    free(path);
}

static void check_listed(const char *query, const char *expected) {
    char ids[256];
    list_files(query, ids);
    assert_string_equal(ids, expected);
}

static void test_files_listed(void **state) {
    (void)state;
    char a[64], b[64], c[64], expected[256], query[128];
    add_file("a\n", a);
    add_file("b\n", b);
    add_file("c\n", c);
    snprintf(expected, sizeof expected, "%s,%s+", c, b);
    check_listed("?limit=2", expected);
    check_listed("?limit=2&order=desc&purpose=batch", expected);
    snprintf(query, sizeof query, "?after=%s&order=asc", a);
    snprintf(expected, sizeof expected, "%s,%s", b, c);
    check_listed(query, expected);
    snprintf(query, sizeof query, "?limit=1&after=%s", c);
    snprintf(expected, sizeof expected, "%s+", b);
    check_listed(query, expected);
    check_listed("?purpose=assistants", "");
    static const char *const wrong[][2] = {{"?limit=0", "limit"},     {"?limit=", "limit"},
                                           {"?limit=99999", "limit"}, {"?order=up", "order"},
                                           {"?after=none", "after"},  {"?colour=1", "colour"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(query, sizeof query, "/v1/files%s", wrong[i][0]);
        mc_json_doc *doc = client_json(s.server, "GET", query, NULL, 400);
        mc_json error = mc_json_find(mc_json_root(doc), "error");
        assert_true(mc_str_is(text_at(error, "param"), wrong[i][1]));
        mc_json_close(&doc);
    }
    const char *const made[] = {a, b, c};
    for (size_t i = 0; i < 3; i++) {
        snprintf(query, sizeof query, "/v1/files/%s", made[i]);
        mc_json_doc *doc = client_json(s.server, "DELETE", query, NULL, 200);
        mc_json_close(&doc);
    }
}

static void test_files_refused(void **state) {
    (void)state;
    mc_json_doc *doc = upload("fine-tune", "a", "b", 400);
    assert_true(mc_str_is(text_at(mc_json_find(mc_json_root(doc), "error"), "param"), "purpose"));
    mc_json_close(&doc);
    client_refused(s.server, "/v1/files", "{\"file\": 1}", 400, "invalid_body", "");
    client_refused(s.server, "/v1/files",
                   "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x--",
                   400, "missing_field", "file");
    client_refused(s.server, "/v1/files",
                   "--x\r\nContent-Disposition: form-data; name=\"expires_after[anchor]\"\r\n\r\n"
                   "created_at\r\n--x--",
                   400, "unsupported_field", "expires_after");
    client_refused(s.server, "/v1/files",
                   "--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\na\r\n--x--", 400,
                   "unknown_field", "other");
#define PART(name, content) \
    "--x\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" content "\r\n"
    client_refused(s.server, "/v1/files",
                   PART("file", "a") PART("purpose", "batch") PART("file", "b") "--x--", 400,
                   "repeated_field", "file");
    client_refused(s.server, "/v1/files",
                   PART("purpose", "batch") PART("file", "a") PART("purpose", "batch") "--x--", 400,
                   "repeated_field", "purpose");
#undef PART
}

/* ---- batches ---- */

/* Makes a batch of lines; its id. */
static void add_batch(const char *lines, const char *endpoint, char id[64]) {
    char file[64];
    add_file(lines, file);
    char *body = test_format("{\"input_file_id\": \"%s\", \"endpoint\": \"%s\", "
                             "\"completion_window\": \"24h\", \"metadata\": {\"a\": \"b\"}}",
                             file, endpoint);
    mc_json_doc *doc = client_json(s.server, "POST", "/v1/batches", body, 200);
    mc_json root = mc_json_root(doc);
    assert_true(mc_str_is(text_at(root, "object"), "batch"));
    assert_true(mc_str_is(text_at(mc_json_find(root, "metadata"), "a"), "b"));
    snprintf(id, 64, "%.*s", MC_STR_ARG(text_at(root, "id")));
    mc_json_close(&doc);
    free(body);
}

/* Waits until a batch has that status; its object, for mc_json_close. */
static mc_json_doc *wait_for(const char *id, const char *status) {
    char *path = test_format("/v1/batches/%s", id);
    for (int i = 0;; i++) {
        mc_json_doc *doc = client_json(s.server, "GET", path, NULL, 200);
        mc_str now = text_at(mc_json_root(doc), "status");
        if (mc_str_is(now, status)) {
            free(path);
            return doc;
        }
        if (i == CLIENT_PATIENCE || mc_str_is(now, "failed"))
            fail_msg("%.*s, not %s", MC_STR_ARG(now), status);
        mc_json_close(&doc);
        poll(NULL, 0, 10);
    }
}

/* The lines of a file of a batch, by their custom_id. */
static mc_json_doc *line_of(mc_json batch, const char *key, const char *custom_id) {
    char *path = test_format("/v1/files/%.*s/content", MC_STR_ARG(text_at(batch, key)));
    answer a = client_ask(s.server, "GET", path, NULL);
    mc_json_doc *doc = NULL;
    assert_int_equal(a.status, 200);
    for (char *at = a.body, *end; !doc && (end = strchr(at, '\n')); at = end + 1) {
        assert_int_equal(mc_json_parse(at, (size_t)(end - at), "a line", &doc), MICA_OK);
        if (!mc_str_is(text_at(mc_json_root(doc), "custom_id"), custom_id)) mc_json_close(&doc);
    }
    if (!doc) fail_msg("%s is not in the %s", custom_id, key);
    answer_free(&a);
    free(path);
    return doc;
}

/* The embedding in an answer, as JSON. */
static char *embedding_of(mc_json body) {
    mc_buffer out = {0};
    mc_json_iter it = mc_json_begin(mc_json_find(body, "data"));
    assert_true(mc_json_next(&it));
    assert_true(mc_json_put_value(&out, mc_json_find(it.value, "embedding"), MC_JSON_ONE_LINE));
    return mc_buffer_take(&out);
}

static void test_embeddings(void **state) {
    (void)state;
    enum { LINES = 40 };
    char *lines = test_format("%s", ""), id[64];
    for (int i = 0; i < LINES; i++) {
        char *more = test_format("%s{\"custom_id\": \"c%d\", \"method\": \"POST\", \"url\": "
                                 "\"/v1/embeddings\", \"body\": {\"input\": \"text %d\"%s}}\r\n\n",
                                 lines, i, i, i == 7 ? ", \"colour\": 1" : "");
        free(lines);
        lines = more;
    }
    add_batch(lines, "/v1/embeddings", id);
    mc_json_doc *doc = wait_for(id, "completed");
    mc_json batch = mc_json_root(doc), counts = mc_json_find(batch, "request_counts");
    assert_int_equal(int_at(counts, "total"), LINES);
    assert_int_equal(int_at(counts, "completed"), LINES - 1);
    assert_int_equal(int_at(counts, "failed"), 1);
    assert_true(int_at(batch, "completed_at") >= int_at(batch, "created_at"));
    for (int i = 0; i < LINES; i += 13) {
        char *name = test_format("c%d", i), *body = test_format("{\"input\": \"text %d\"}", i);
        mc_json_doc *line = line_of(batch, "output_file_id", name);
        mc_json_doc *direct = client_json(s.server, "POST", "/v1/embeddings", body, 200);
        mc_json response = mc_json_find(mc_json_root(line), "response");
        assert_int_equal(int_at(response, "status_code"), 200);
        char *got = embedding_of(mc_json_find(response, "body"));
        char *want = embedding_of(mc_json_root(direct));
        assert_string_equal(got, want);
        mica_free(got);
        mica_free(want);
        mc_json_close(&line);
        mc_json_close(&direct);
        free(name);
        free(body);
    }
    mc_json_doc *line = line_of(batch, "error_file_id", "c7");
    mc_json response = mc_json_find(mc_json_root(line), "response");
    assert_int_equal(int_at(response, "status_code"), 400);
    mc_json error = mc_json_find(mc_json_find(response, "body"), "error");
    assert_true(mc_str_is(text_at(error, "param"), "colour"));
    mc_json_close(&line);
    mc_json_close(&doc);
    free(lines);
}

static double metric(const char *name) {
    answer a = client_ask(s.server, "GET", "/metrics", NULL);
    double value = client_metric(a.body, name);
    answer_free(&a);
    return value;
}

/* A client need not wait for all inputs of a line, but for one. */
static void test_way(void **state) {
    (void)state;
    enum { INPUTS = 120 };
    static const char done[] = "mica_evaluations_total{kind=\"embed\",end=\"done\"}";
    static const char one[] = "{\"input\": \"What is curl?\"}";
    mc_buffer line = {0};
    char id[64];
    mc_json_doc *alone = client_json(s.server, "POST", "/v1/embeddings", one, 200);
    assert_true(mc_buffer_add_text(&line, "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": "
                                          "\"/v1/embeddings\", \"body\": {\"input\": ["));
    for (int i = 0; i < INPUTS; i++)
        assert_true(mc_buffer_printf(&line,
                                     "%s\"The %dth text: curl transfers data from or to a "
                                     "server, by many protocols.\"",
                                     i ? ", " : "", i));
    assert_true(mc_buffer_add_text(&line, "]}}\n"));
    double before = metric(done);
    add_batch(mc_buffer_cstr(&line), "/v1/embeddings", id);
    while (metric("mica_evaluations_running") < 1 && metric(done) == before)
        poll(NULL, 0, 1);
    mc_json_doc *beside = client_json(s.server, "POST", "/v1/embeddings", one, 200);
    assert_true(metric(done) == before + 1); /* the client's */
    char *got = embedding_of(mc_json_root(beside)), *want = embedding_of(mc_json_root(alone));
    assert_string_equal(got, want);
    mc_json_doc *batch = wait_for(id, "completed");
    assert_int_equal(int_at(mc_json_find(mc_json_root(batch), "request_counts"), "completed"), 1);
    mica_free(got);
    mica_free(want);
    mc_json_close(&batch);
    mc_json_close(&beside);
    mc_json_close(&alone);
    mc_buffer_deinit(&line);
}

/* Answers, while a client gets its own. */
static void test_answers(void **state) {
    (void)state;
    static const char chat[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"What is "
                               "curl?\"}], \"temperature\": 0, \"max_tokens\": 12}";
    char *lines = test_format("%s", ""), id[64];
    for (int i = 0; i < 30; i++) {
        char *more = test_format("%s{\"custom_id\": \"%d\", \"method\": \"POST\", \"url\": "
                                 "\"/v1/chat/completions\", \"body\": %s}\n",
                                 lines, i, chat);
        free(lines);
        lines = more;
    }
    add_batch(lines, "/v1/chat/completions", id);
    mc_json_doc *direct = client_json(s.server, "POST", "/v1/chat/completions", chat, 200);
    mc_json_doc *doc = wait_for(id, "completed");
    mc_json_doc *line = line_of(mc_json_root(doc), "output_file_id", "29");
    mc_json bodies[] = {mc_json_root(direct),
                        mc_json_find(mc_json_find(mc_json_root(line), "response"), "body")};
    mc_str texts[2];
    for (int i = 0; i < 2; i++) {
        mc_json_iter it = mc_json_begin(mc_json_find(bodies[i], "choices"));
        assert_true(mc_json_next(&it));
        texts[i] = text_at(mc_json_find(it.value, "message"), "content");
    }
    assert_true(texts[0].len > 0 && mc_str_eq(texts[0], texts[1]));
    mc_json_close(&line);
    mc_json_close(&doc);
    mc_json_close(&direct);
    free(lines);
}

/* A line that finds the queue full waits until there is room for it. */
static void test_full_queue(void **state) {
    (void)state;
    static const char body[] =
        "{\"prompt\": \"a\", \"ignore_eos\": true, \"stream\": true, \"max_tokens\": 500}";
    enum { CLIENTS = 2 };
    served others = s;
    mica_serving_options options = {.rows = 1, .queue = 1};
    char *path = test_format("%s/default", test_models_dir()), id[64];
    assert_int_equal(mica_model_open(path, &(mica_model_options){.threads = 2}, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, &options), MICA_OK);
    free(path);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(s.server);
        client_print(fds[i],
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     strlen(body), body);
        poll(&(struct pollfd){.fd = fds[i], .events = POLLIN}, 1, 5000); /* its stream begins */
    }
    add_batch("{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", "
              "\"body\": {\"prompt\": \"a\", \"max_tokens\": 2}}",
              "/v1/completions", id);
    mc_json_doc *doc = wait_for(id, "completed");
    mc_json counts = mc_json_find(mc_json_root(doc), "request_counts");
    assert_int_equal(int_at(counts, "completed"), 1);
    mc_json_close(&doc);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    served_close(&s);
    s = others;
}

static void test_cancel(void **state) {
    (void)state;
    char *lines = test_format("%s", ""), id[64];
    for (int i = 0; i < 100; i++) {
        char *more = test_format("%s{\"custom_id\": \"%d\", \"method\": \"POST\", \"url\": "
                                 "\"/v1/completions\", \"body\": {\"prompt\": \"a\", "
                                 "\"max_tokens\": 1500, \"ignore_eos\": true}}\n",
                                 lines, i);
        free(lines);
        lines = more;
    }
    add_batch(lines, "/v1/completions", id);
    mc_json_doc *doc = wait_for(id, "in_progress");
    mc_json_close(&doc);
    char *path = test_format("/v1/batches/%s/cancel", id);
    doc = client_json(s.server, "POST", path, NULL, 200);
    mc_json_close(&doc);
    doc = wait_for(id, "cancelled");
    mc_json_doc *line = line_of(mc_json_root(doc), "error_file_id", "99");
    assert_true(
        mc_str_is(text_at(mc_json_find(mc_json_root(line), "error"), "code"), "batch_cancelled"));
    mc_json_close(&line);
    mc_json_close(&doc);
    doc = client_json(s.server, "POST", path, NULL, 409);
    mc_json_close(&doc);
    free(path);
    free(lines);
}

/* What is wrong with the lines of a file is said line by line. */
static void test_invalid(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{",
        "{}",
        "[]",
        "{\"custom_id\": \"a\", \"method\": \"GET\", \"url\": \"/v1/score\", \"body\": {}}",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/files\", \"body\": {}}",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/score\"}",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/score\", \"body\": {}, "
        "\"x\": 1}",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/score\", \"body\": "
        "{\"stream\": true}}",
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/score\", \"body\": {}}\n"
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/score\", \"body\": {}}",
        "",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char id[64];
        add_batch(lines[i], "/v1/score", id);
        char *path = test_format("/v1/batches/%s", id);
        mc_json_doc *doc = NULL;
        for (int tries = 0; tries < CLIENT_PATIENCE; tries++) {
            mc_json_close(&doc);
            doc = client_json(s.server, "GET", path, NULL, 200);
            if (mc_str_is(text_at(mc_json_root(doc), "status"), "failed")) break;
            poll(NULL, 0, 10);
        }
        mc_json errors = mc_json_find(mc_json_find(mc_json_root(doc), "errors"), "data");
        if (mc_json_count(errors) != 1) fail_msg("%s was not refused", lines[i]);
        mc_json_close(&doc);
        free(path);
    }
}

static void test_listed(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(s.server, "GET", "/v1/batches?limit=2", NULL, 200);
    mc_json root = mc_json_root(doc);
    bool more = false;
    assert_int_equal(mc_json_count(mc_json_find(root, "data")), 2);
    assert_true(mc_json_get_bool(mc_json_find(root, "has_more"), &more) && more);
    char *path =
        test_format("/v1/batches?after=%.*s&limit=100", MC_STR_ARG(text_at(root, "last_id")));
    mc_json_doc *rest = client_json(s.server, "GET", path, NULL, 200);
    mc_json_doc *all = client_json(s.server, "GET", "/v1/batches?limit=100", NULL, 200);
    assert_int_equal(mc_json_count(mc_json_find(mc_json_root(rest), "data")) + 2,
                     mc_json_count(mc_json_find(mc_json_root(all), "data")));
    mc_json_close(&all);
    mc_json_close(&rest);
    mc_json_close(&doc);
    free(path);
    static const char *const bad[] = {"/v1/batches?limit=0", "/v1/batches?limit=x",
                                      "/v1/batches?before=a", "/v1/batches?after=none",
                                      "/v1/batches?limit=1&limit=2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        doc = client_json(s.server, "GET", bad[i], NULL, 400);
        mc_json_close(&doc);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const char path[] = "/v1/batches";
    client_refused(s.server, path, "{}", 400, "missing_field", "input_file_id");
    client_refused(s.server, path,
                   "{\"input_file_id\": \"/etc/passwd\", \"endpoint\": \"/v1/score\", "
                   "\"completion_window\": \"24h\"}",
                   400, "file_not_found", "input_file_id");
    client_refused(s.server, path,
                   "{\"input_file_id\": \"a\", \"endpoint\": \"/v1/moderations\", "
                   "\"completion_window\": \"24h\"}",
                   400, "invalid_type", "endpoint");
    client_refused(s.server, path,
                   "{\"input_file_id\": \"a\", \"endpoint\": \"/v1/score\", "
                   "\"completion_window\": \"1h\"}",
                   400, "unsupported_value", "completion_window");
    client_refused(s.server, "/v1/batches/none/cancel", "", 404, "batch_not_found", "id");
    client_refused(s.server, "/v1/batches/none", "", 404, "batch_not_found", "id");
}

/* A batch for which an allocation fails ends, too. */
static void test_no_memory(void **state) {
    (void)state;
    static const char line[] = "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": "
                               "\"/v1/score\", \"body\": {\"input\": \"a b\"}}";
    char file[64];
    add_file(line, file);
    char *body = test_format("{\"input_file_id\": \"%s\", \"endpoint\": \"/v1/score\", "
                             "\"completion_window\": \"24h\"}",
                             file);
    for (uint64_t n = 1, count = n; count >= n; n += 1 + n / 8) {
        mc_alloc_fail_at(n);
        answer a = client_ask(s.server, "POST", "/v1/batches", body);
        if (a.status != 0 && a.status != 200 && a.status != 503)
            fail_msg("allocation %d: %d %s", (int)n, a.status, a.body);
        answer_free(&a);
        poll(NULL, 0, 20);
        count = mc_alloc_count();
        mc_alloc_fail_at(0);
        mc_json_doc *doc = NULL;
        bool ended = false;
        for (int tries = 0; tries < CLIENT_PATIENCE && !ended; tries++) {
            doc = client_json(s.server, "GET", "/v1/batches?limit=1", NULL, 200);
            mc_json_iter it = mc_json_begin(mc_json_find(mc_json_root(doc), "data"));
            assert_true(mc_json_next(&it));
            mc_str status = text_at(it.value, "status");
            ended = mc_str_is(status, "completed") || mc_str_is(status, "failed");
            mc_json_close(&doc);
            if (!ended) poll(NULL, 0, 10);
        }
        assert_true(ended);
    }
    free(body);
}

/* A server that is closed in the midst of a batch ends it. */
static void test_close(void **state) {
    (void)state;
    served other = served_open(NULL), kept = s;
    char id[64];
    s = other;
    add_batch("{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", "
              "\"body\": {\"prompt\": \"a\", \"max_tokens\": 1900, \"ignore_eos\": true, \"n\": "
              "16}}",
              "/v1/completions", id);
    mc_json_doc *doc = wait_for(id, "in_progress");
    mc_json_close(&doc);
    served_close(&other);
    s = kept;
}

static void *run_server(void *context) {
    atomic_int *status = context;
    atomic_store(status, (int)mica_server_run(s.server));
    return NULL;
}

/* A server that is stopped ends its batches, and keeps their results until they are read. */
static void test_drain(void **state) {
    (void)state;
    served other = served_open(NULL), kept = s;
    atomic_int status = MICA_EINVAL;
    char *lines = test_format("%s", ""), id[64];
    int requests, batches;
    pthread_t thread;
    for (int i = 0; i < 30; i++) {
        char *more = test_format("%s{\"custom_id\": \"%d\", \"method\": \"POST\", \"url\": "
                                 "\"/v1/completions\", \"body\": {\"prompt\": \"a\", "
                                 "\"max_tokens\": 20, \"ignore_eos\": true}}\n",
                                 lines, i);
        free(lines);
        lines = more;
    }
    s = other;
    mica_server_under_way(s.server, NULL, &batches);
    assert_int_equal(batches, 0);
    add_batch(lines, "/v1/completions", id);
    mica_server_under_way(s.server, &requests, &batches);
    assert_int_equal(batches, 1);
    pthread_create(&thread, NULL, run_server, &status);
    mica_server_stop(s.server);
    answer a;
    do {
        a = client_ask(s.server, "GET", "/health", NULL);
        answer_free(&a);
    } while (a.status != 503);
    client_refused(s.server, "/v1/batches", "{}", 503, "draining", "");
    mc_json_doc *doc = wait_for(id, "completed");
    assert_int_equal(int_at(mc_json_find(mc_json_root(doc), "request_counts"), "completed"), 30);
    mica_server_under_way(s.server, NULL, &batches);
    assert_int_equal(batches, 0);
    poll(NULL, 0, 50);
    assert_int_equal(atomic_load(&status), MICA_EINVAL); /* it goes on until the results are read */
    mc_json_doc *line = line_of(mc_json_root(doc), "output_file_id", "29");
    mc_json_close(&line);
    mc_json_close(&doc);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&status), MICA_OK);
    served_close(&other);
    s = kept;
    free(lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multipart),     cmocka_unit_test(test_turns),
        cmocka_unit_test(test_files),         cmocka_unit_test(test_files_listed),
        cmocka_unit_test(test_files_refused), cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_way),           cmocka_unit_test(test_answers),
        cmocka_unit_test(test_cancel),        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_listed),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_close),
        cmocka_unit_test(test_full_queue),    cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}

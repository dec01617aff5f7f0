/* Models that are loaded and closed while many threads ask for them, and while the server ends. */
#define _POSIX_C_SOURCE 200809L
#include "base/system.h"
#include "loading.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int close_group(void **state) {
    (void)state;
    goldens_close();
    return 0;
}

typedef struct asker {
    const mica_server *server;
    const char *body;
    int status;
    bool same;
} asker;

static void *ask(void *context) {
    asker *a = context;
    answer got = client_ask(a->server, "POST", GENERATE, a->body);
    mc_json_doc *doc = NULL;
    a->status = got.status;
    if (got.status == 200 && mc_json_parse(got.body, got.len, "a", &doc) == MICA_OK)
        a->same = is_golden(mc_json_root(doc));
    mc_json_close(&doc);
    answer_free(&got);
    return NULL;
}

enum { ASKERS = 20 };

/* Asks from as many threads, in turn by each of the bodies. */
static void ask_all(const mica_server *server, const char *const *bodies, size_t count,
                    asker askers[ASKERS]) {
    pthread_t threads[ASKERS];
    golden(0); /* read before there are threads */
    for (size_t i = 0; i < ASKERS; i++) {
        askers[i] = (asker){.server = server, .body = bodies[i % count]};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (size_t i = 0; i < ASKERS; i++)
        pthread_join(threads[i], NULL);
}

/* More requests than the server has threads wait for models that are loaded once each, and others
 * are answered meanwhile. */
static void test_once(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    static const char *const bodies[] = {ASK("a"), ASK("b"), ASK("default"), ASK("a"),
                                         ASK("broken")};
    asker askers[ASKERS];
    ask_all(f.server, bodies, 5, askers);
    for (size_t i = 0; i < ASKERS; i++) {
        assert_int_equal(askers[i].status, i % 5 == 4 ? 500 : 200);
        assert_int_equal(askers[i].same, i % 5 != 4);
    }
    assert_int_equal(metric(f.server, "mica_model_loads_total"), 3);
    assert_int_equal(metric(f.server, "mica_models"), 3);
    assert_int_equal(metric(f.server, "mica_model_load_failures_total"), 1);
    close_fixture(&f);
}

/* One with a request under way does not go: the other waits for its end. */
static void test_busy(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.max_models = 2});
    static const char body[] = "{\"model\": \"a\", \"prompt\": \"curl\", \"raw\": true, "
                               "\"options\": {\"temperature\": 0, \"num_predict\": 60}}";
    int fd = client_connect(f.server);
    client_print(fd, "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 strlen(body));
    client_send(fd, body, strlen(body));
    char first;
    assert_int_equal(recv(fd, &first, 1, MSG_PEEK), 1); /* it has begun */
    assert_true(answers(f.server, ASK("b")));
    answer a = client_read(fd);
    assert_non_null(strstr(a.body, "\"done\":true"));
    answer_free(&a);
    close(fd);
    wait_until_runs(f.server, "default,b,");
    close_fixture(&f);
}

/* Begins an answer of "a" that is as long as its context, so that it keeps its place. */
static int begin_long(const mica_server *server) {
    static const char body[] = "{\"model\": \"a\", \"prompt\": \"curl\", \"stream\": true, "
                               "\"ignore_eos\": true, \"max_tokens\": 2000}";
    char first;
    int fd = client_connect(server);
    client_print(
        fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    assert_int_equal(recv(fd, &first, 1, MSG_PEEK), 1); /* it has begun */
    return fd;
}

static int send_ask(const mica_server *server) {
    static const char body[] = ASK("b");
    int fd = client_connect(server);
    client_print(fd,
                 "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    return fd;
}

/* Waits until so many requests are under way. */
static void wait_for(const mica_server *server, const char *name, long count) {
    for (int i = 0; i < CLIENT_PATIENCE; i++) {
        if (metric(server, name) == count) return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("%s: %ld, not %ld", name, metric(server, name), count);
}

/* As many wait for a model as may wait in its queue; those whose clients are gone wait no more. One
 * that waits for room does not stop others. */
static void test_waiting(void **state) {
    (void)state;
    mica_serving_options serving = {.struct_bytes = sizeof serving, .queue = 3};
    fixture f = open_fixture((mica_loading_options){.serving = &serving, .max_models = 2});
    int busy = begin_long(f.server), fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = send_ask(f.server);
    wait_for(f.server, "mica_requests_loading", 3);
    check_says(f.server, ASK("b"), 503, "wait for the model");
    check_says(f.server, "{\"model\": \"default\", \"keep_alive\": 0}", 200, "unload");
    wait_until_runs(f.server, "a,b,"); /* room, without an end of the other */
    for (int i = 0; i < 3; i++) {
        answer a = client_read(fds[i]);
        assert_int_equal(a.status, 200);
        answer_free(&a);
        close(fds[i]);
    }
    close(busy);
    close_fixture(&f);
}

static void test_left(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.max_models = 2});
    int busy = begin_long(f.server), fds[8];
    long before = metric(f.server, "mica_http_requests");
    for (int i = 0; i < 8; i++)
        fds[i] = send_ask(f.server);
    wait_for(f.server, "mica_requests_loading", 8);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    wait_for(f.server, "mica_http_requests",
             before); /* while the model they wanted still has no room */
    assert_true(runs(f.server, "default,a,"));
    close(busy);
    close_fixture(&f);
}

/* Two models take turns in the place of one: every request is answered. */
static void test_turns(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.max_models = 2});
    static const char *const bodies[] = {ASK("a"), ASK("b"), ASK("c")};
    asker askers[ASKERS];
    ask_all(f.server, bodies, 3, askers);
    for (size_t i = 0; i < ASKERS; i++)
        assert_true(askers[i].status == 200 && askers[i].same);
    close_fixture(&f);
}

static void *run_server(void *context) {
    mica_server_run(context);
    return NULL;
}

/* A server that drains answers what it has accepted, also what waits for a model. */
static void test_drain(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    static const char body[] = ASK("a");
    pthread_t runner;
    golden(0);
    assert_int_equal(pthread_create(&runner, NULL, run_server, f.server), 0);
    int fd = client_connect(f.server);
    client_print(fd,
                 "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    for (int i = 0; i < CLIENT_PATIENCE && metric(f.server, "mica_http_requests") == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mica_server_stop(f.server);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
    pthread_join(runner, NULL);
    close_fixture(&f);
}

/* A server is closed while models are loaded, closed and asked for. */
static void test_close(void **state) {
    (void)state;
    for (long delay = 0; delay < 6; delay++) {
        fixture f = open_fixture((mica_loading_options){.max_models = 2});
        int fds[12];
        for (size_t i = 0; i < 12; i++) {
            char *body =
                test_format("{\"model\": \"%c\", \"prompt\": \"a\", " GREEDY "}", "abc"[i % 3]);
            fds[i] = client_connect(f.server);
            client_print(fds[i],
                         "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body);
            free(body);
        }
        nanosleep(&(struct timespec){.tv_nsec = delay * delay * 3000000}, NULL);
        close_fixture(&f);
        for (size_t i = 0; i < 12; i++)
            close(fds[i]);
    }
}

/* A server is closed while clients come, which its library has not taken up yet. */
static void test_close_at_once(void **state) {
    (void)state;
    for (size_t i = 0; i < 100; i++) {
        mica_server *server;
        int fds[8];
        assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
        for (size_t k = 0; k < 8; k++)
            fds[k] = client_connect(server);
        mica_server_close(&server);
        for (size_t k = 0; k < 8; k++)
            close(fds[k]);
    }
}

/* Clients that go while they wait leave nothing behind. */
static void test_gone(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    static const char body[] = ASK("a");
    size_t files = client_files();
    for (size_t i = 0; i < 20; i++) {
        int fd = client_connect(f.server);
        client_print(
            fd, "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
            strlen(body), body);
        close(fd);
    }
    assert_true(client_files_back(files + 4)); /* the loaded model's own, at most */
    assert_true(answers(f.server, ASK("a")));
    check_says(f.server, "{\"model\": \"a\", \"keep_alive\": 0}", 200, "unload");
    wait_until_runs(f.server, "default,");
    assert_true(client_files_back(files));
    close_fixture(&f);
}

/* ---- a load that takes long ---- */

/* A load under way that goes on once `open` is set. */
typedef struct held_load {
    mica_server *server;
    mica_serving_options serving;
    pthread_t thread;
    atomic_bool begun, open;
} held_load;

static void hold(void *user, uint64_t done, uint64_t total) {
    held_load *load = user;
    (void)done, (void)total;
    atomic_store(&load->begun, true);
    while (!atomic_load(&load->open))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *load_held(void *context) {
    held_load *load = context;
    mica_model_options model = exact;
    char *own = test_format("%s/default", test_models_dir());
    const char *name = "default", *folder = own;
    model.prefetch = true; /* which reports its progress */
    model.progress = hold;
    model.progress_user = load;
    const mica_loading_options loading = {.struct_bytes = sizeof loading,
                                          .names = &name,
                                          .folders = &folder,
                                          .count = 1,
                                          .model = &model,
                                          .serving = &load->serving};
    assert_int_equal(mica_server_load(load->server, &loading), MICA_OK);
    free(own);
    return NULL;
}

static void begin_held(held_load *load, double max_seconds) {
    load->serving =
        (mica_serving_options){.struct_bytes = sizeof load->serving, .max_seconds = max_seconds};
    assert_int_equal(mica_server_open(NULL, &load->server), MICA_OK);
    assert_int_equal(pthread_create(&load->thread, NULL, load_held, load), 0);
    while (!atomic_load(&load->begun))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void end_held(held_load *load) {
    atomic_store(&load->open, true);
    pthread_join(load->thread, NULL);
}

/* A request's time ends while its model is opened: it is refused then, not when that is done. */
static void test_late(void **state) {
    (void)state;
    held_load load = {0};
    begin_held(&load, 0.3);
    check_says(load.server, ASK("default"), 504, "took too long");
    end_held(&load);
    wait_until_runs(load.server, "default,"); /* an answer might take too long, too */
    mica_server_close(&load.server);
}

static int64_t ask_load_ns(const mica_server *server, int64_t *total) {
    mc_json_doc *doc = client_json(server, "POST", GENERATE, ASK("default"), 200);
    int64_t load = int_at(mc_json_root(doc), "load_duration");
    *total = int_at(mc_json_root(doc), "total_duration");
    mc_json_close(&doc);
    return load;
}

static void *end_later(void *context) {
    held_load *load = context;
    wait_for(load->server, "mica_requests_loading", 1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&load->open, true);
    return NULL;
}

/* An answer says how long its request waited for the model, which is a part of the whole time. */
static void test_load_duration(void **state) {
    (void)state;
    held_load load = {0};
    pthread_t other;
    int64_t total;
    begin_held(&load, 0);
    uint64_t began = mc_now_us();
    assert_int_equal(pthread_create(&other, NULL, end_later, &load), 0);
    int64_t waited = ask_load_ns(load.server, &total);
    assert_true(waited >= 50000000 && waited <= total);
    assert_true((uint64_t)total / 1000 <= mc_now_us() - began);
    pthread_join(other, NULL);
    end_held(&load);
    assert_int_equal(ask_load_ns(load.server, &total), 0);
    assert_true(total > 0);
    mica_server_close(&load.server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once),          cmocka_unit_test(test_busy),
        cmocka_unit_test(test_waiting),       cmocka_unit_test(test_left),
        cmocka_unit_test(test_turns),         cmocka_unit_test(test_drain),
        cmocka_unit_test(test_close),         cmocka_unit_test(test_close_at_once),
        cmocka_unit_test(test_gone),          cmocka_unit_test(test_late),
        cmocka_unit_test(test_load_duration),
    };
    return cmocka_run_group_tests(tests, NULL, close_group);
}

/* Several models: loaded when they are asked for, kept for a time, closed for the room of others.
 * What they say is what transformers' golden.json and mica's own sessions say. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE
#include "loading.h"

#include "session/prefix.h"
#include "support/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int close_group(void **state) {
    (void)state;
    goldens_close();
    return 0;
}

/* ---- names and lists ---- */

static void test_lists(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    static const char *const names[] = {"default", "a", "b", "broken", "c"};
    assert_true(answers(f.server, ASK("b")));
    mc_json_doc *doc = client_json(f.server, "GET", "/v1/models", NULL, 200);
    mc_json data = at(mc_json_root(doc), "data");
    bool seen[5] = {false};
    assert_int_equal(mc_json_count(data), 5);
    check_text(element(data, 0), "id", MC_STR("default"));
    for (mc_json_iter it = mc_json_begin(data); mc_json_next(&it);) {
        bool loaded = true;
        mc_str id = text_at(it.value, "id");
        for (size_t i = 0; i < 5; i++)
            seen[i] |= mc_str_is(id, names[i]);
        assert_true(mc_json_get_bool(at(it.value, "loaded"), &loaded));
        assert_int_equal(loaded, mc_str_is(id, "default") || mc_str_is(id, "b"));
        if (loaded) assert_true(int_at(it.value, "max_model_len") > 0);
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(seen[i]);
    mc_json_close(&doc);
    doc = client_json(f.server, "GET", "/api/tags", NULL, 200);
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "models")), 5);
    mc_json_close(&doc);
    doc = client_json(f.server, "GET", "/v1/models/c", NULL, 200);
    check_null(mc_json_root(doc), "max_model_len");
    check_null(mc_json_root(doc), "max_tokens");
    mc_json_close(&doc);
    doc = client_json(f.server, "POST", "/api/show", "{\"model\": \"c:latest\"}", 200);
    check_text(mc_json_root(doc), "details.family", MC_STR("gemma3"));
    mc_json_close(&doc);
    assert_true(runs(f.server, "default,b,")); /* nothing of this loads one */
    close_fixture(&f);
}

static void test_pages(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    char names[5][32], query[128];
    mc_json_doc *doc = client_json(f.server, "GET", "/v1/models", NULL, 200);
    for (size_t i = 0; i < 5; i++)
        snprintf(names[i], sizeof names[i], "%.*s",
                 MC_STR_ARG(text_at(element(at(mc_json_root(doc), "data"), i), "id")));
    mc_json_close(&doc);
    const struct {
        const char *limit, *after, *before;
        size_t first, count;
        bool more;
    } pages[] = {
        {"limit=2", NULL, NULL, 0, 2, true},         {"limit=5", NULL, NULL, 0, 5, false},
        {"limit=2", names[1], NULL, 2, 2, true},     {"limit=2", names[2], NULL, 3, 2, false},
        {"limit=1", NULL, names[4], 3, 1, true},     {"limit=9", NULL, names[2], 0, 2, false},
        {"limit=9", names[0], names[3], 1, 2, true}, {"limit=9", names[4], NULL, 5, 0, false},
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        snprintf(query, sizeof query, "/v1/models?%s%s%s%s%s", pages[i].limit,
                 pages[i].after ? "&after_id=" : "", pages[i].after ? pages[i].after : "",
                 pages[i].before ? "&before_id=" : "", pages[i].before ? pages[i].before : "");
        doc = client_json(f.server, "GET", query, NULL, 200);
        mc_json root = mc_json_root(doc);
        bool more;
        assert_int_equal(mc_json_count(at(root, "data")), pages[i].count);
        assert_true(mc_json_get_bool(at(root, "has_more"), &more) && more == pages[i].more);
        if (pages[i].count) {
            check_text(root, "first_id", mc_str_of(names[pages[i].first]));
            check_text(root, "last_id", mc_str_of(names[pages[i].first + pages[i].count - 1]));
        }
        mc_json_close(&doc);
    }
    static const char *const wrong[][2] = {
        {"limit=0", "limit"}, {"after_id=none", "after_id"}, {"before_id=none", "before_id"}};
    for (size_t i = 0; i < 3; i++) {
        snprintf(query, sizeof query, "/v1/models?%s", wrong[i][0]);
        doc = client_json(f.server, "GET", query, NULL, 400);
        check_text(mc_json_root(doc), "error.param", mc_str_of(wrong[i][1]));
        mc_json_close(&doc);
    }
    close_fixture(&f);
}

/* No path from a request reaches the file system, and no name but the list's is one. */
static void test_names(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    char *whole = test_format("%s/a", f.root);
    const char *const names[] = {whole, "./a", "../a", "a/", "a/../a", "A", "", "a:b", "a%00"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *body = test_format("{\"prompt\": \"a\", \"model\": \"%s\"}", names[i]);
        client_refused(f.server, "/tokenize", body, 404, "model_not_found", "model");
        free(body);
    }
    free(whole);
    assert_true(runs(f.server, "default,"));
    assert_true(answers(f.server, ASK("a:latest")));
    /* what was installed after the server was started */
    char *own = test_format("%s/default", test_models_dir());
    link_model(f.root, "new/org", own);
    free(own);
    wait_for_list();
    assert_true(answers(f.server, ASK("new/org")));
    close_fixture(&f);
}

/* A model that does not load is an error of its own requests, with the reason. */
static void test_broken(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    check_says(f.server, ASK("broken"), 500, "broken cannot be loaded: model.safetensors");
    client_refused(f.server, "/tokenize", "{\"prompt\": \"\", \"model\": \"broken\"}", 500,
                   "model_not_loaded", "model");
    assert_true(answers(f.server, ASK("default")));
    assert_true(runs(f.server, "default,"));
    mc_json_doc *doc = client_json(f.server, "GET", "/health", NULL, 200);
    mc_json_close(&doc);
    close_fixture(&f);
}

/* A model whose files go while it is in memory still answers; when it was closed, it is no more. */
static void test_deleted(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    assert_true(answers(f.server, ASK("a")));
    assert_true(answers(f.server, ASK("b")));
    test_list files = test_list_files(f.root, "");
    test_list_free(&files);
    char *folder = test_format("%s/a", f.root);
    files = test_list_files(folder, "");
    for (size_t i = 0; i < files.count; i++) {
        char *path = test_format("%s/%s", folder, files.names[i]);
        test_remove_file(path);
        free(path);
    }
    test_list_free(&files);
    free(folder);
    assert_true(answers(f.server, ASK("a")));
    check_says(f.server, "{\"model\": \"a\", \"keep_alive\": 0}", 200, "unload");
    wait_until_runs(f.server, "default,b,");
    wait_for_list();
    check_says(f.server, ASK("a"), 404, "there is no model a");
    assert_true(answers(f.server, ASK("b")));
    close_fixture(&f);
}

/* ---- how long they stay ---- */

static void generate(const fixture *f, const char *model, const char *keep) {
    char *body = test_format(
        "{\"model\": \"%s\", \"prompt\": \"a\", \"keep_alive\": %s, " GREEDY "}", model, keep);
    mc_json_doc *doc = client_json(f->server, "POST", GENERATE, body, 200);
    mc_json_close(&doc);
    free(body);
}

/* Seconds until the only one besides "default" is closed; -1: never. */
static long seconds_left(const fixture *f) {
    char list[256], expires[64];
    struct tm tm = {0};
    running(f->server, list, sizeof list, expires);
    if (strncmp(expires, "9999", 4) == 0) return -1;
    assert_int_equal(sscanf(expires, "%d-%d-%dT%d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                            &tm.tm_hour, &tm.tm_min, &tm.tm_sec),
                     6);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    return (long)difftime(mktime(&tm), mktime(&utc));
}

static void check_seconds(const fixture *f, long want) {
    long left = seconds_left(f);
    if (left < want - 10 || left > want + 1) fail_msg("%ld seconds, not %ld", left, want);
}

static void test_keep_alive(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){0});
    assert_true(answers(f.server, ASK("a")));
    check_seconds(&f, 300);
    generate(&f, "a", "\"1h1.5m\"");
    check_seconds(&f, 3690);
    generate(&f, "a", "60");
    check_seconds(&f, 60);
    assert_true(answers(f.server, ASK("a"))); /* without the field, it stays as it is */
    check_seconds(&f, 60);
    generate(&f, "a", "-1");
    assert_int_equal(seconds_left(&f), -1);
    generate(&f, "a", "\"-1m\"");
    assert_int_equal(seconds_left(&f), -1);
    generate(&f, "a", "\"300ms\"");
    wait_until_runs(f.server, "default,");
    generate(&f, "a", "0");
    wait_until_runs(f.server, "default,");
    check_says(f.server, "{\"model\": \"b\", \"keep_alive\": \"2m\"}", 200, "load");
    check_seconds(&f, 120);
    check_says(f.server, "{\"model\": \"b\", \"keep_alive\": \"0\"}", 200, "unload");
    wait_until_runs(f.server, "default,");
    check_says(f.server, "{\"model\": \"c\", \"keep_alive\": 0}", 200, "unload");
    assert_true(runs(f.server, "default,")); /* it is not loaded for that */
    check_says(f.server, "{\"model\": \"d\", \"keep_alive\": 0}", 404, "no model d");
    static const char *const wrong[] = {"\"5 parsecs\"", "\"5\"",  "\"\"",
                                        "\"-\"",         "\".s\"", "\"1h2\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *body = test_format("{\"model\": \"a\", \"keep_alive\": %s}", wrong[i]);
        check_says(f.server, body, 400, "keep_alive");
        free(body);
    }
    close_fixture(&f);
}

/* Those that were named stay, but for who asks them to go; then they come back. */
static void test_named(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.keep_alive_seconds = 1e-9, .max_models = 2});
    generate(&f, "default", "0.01");
    assert_int_equal(seconds_left(&f), -1);
    assert_true(answers(f.server, ASK("a")));
    wait_until_runs(f.server, "default,");
    generate(&f, "default", "0");
    wait_until_runs(f.server, "");
    mc_json_doc *doc = client_json(f.server, "GET", "/health", NULL, 200);
    mc_json_close(&doc);
    doc = client_json(f.server, "POST", "/tokenize", "{\"prompt\": \"a\"}", 200); /* the first */
    mc_json_close(&doc);
    assert_true(runs(f.server, "default,"));
    close_fixture(&f);
}

/* ---- room ---- */

/* At the limit the one goes that was used longest ago. */
static void test_oldest_goes(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.max_models = 3});
    assert_true(answers(f.server, ASK("a")));
    assert_true(answers(f.server, ASK("b")));
    assert_true(answers(f.server, ASK("a")));
    assert_true(answers(f.server, ASK("c")));
    assert_true(runs(f.server, "default,a,c,"));
    assert_true(answers(f.server, ASK("b")));
    assert_true(runs(f.server, "default,c,b,"));
    close_fixture(&f);
}

/* With memory for two: weights and caches of all count. */
static void test_memory(void **state) {
    (void)state;
    mica_serving_options serving = {.struct_bytes = sizeof serving, .cache_bytes = 8 << 20};
    fixture f = open_fixture((mica_loading_options){.serving = &serving, .memory_bytes = 60 << 20});
    mc_json_doc *doc = client_json(f.server, "GET", "/api/ps", NULL, 200);
    int64_t bytes = int_at(mc_json_root(doc), "models.0.size");
    mc_json_close(&doc);
    close_fixture(&f);
    assert_true(bytes > 1 << 20);
    serving.cache_bytes = 8 << 20;
    f = open_fixture((mica_loading_options){
        .serving = &serving, .memory_bytes = 2 * ((uint64_t)bytes + (8 << 20)) + (1 << 20)});
    assert_true(answers(f.server, ASK("a")));
    assert_true(answers(f.server, ASK("b")));
    assert_true(runs(f.server, "default,b,"));
    close_fixture(&f);
    f = open_fixture((mica_loading_options){.serving = &serving, .memory_bytes = 1 << 20});
    assert_true(answers(f.server, ASK("default"))); /* it was named */
    check_says(f.server, ASK("a"), 503, "and models may have");
    close_fixture(&f);
}

/* Without a number of its own a server has three quarters of its device's memory, whatever the
 * host has. */
static void test_memory_of_the_device(void **state) {
    (void)state;
    mica_model_options model = exact;
    mica_serving_options serving = {.struct_bytes = sizeof serving, .cache_bytes = 8 << 20};
    const mica_loading_options options = {.model = &model, .serving = &serving};
    assert_int_equal(mica_device_open("cpu", NULL, &model.device), MICA_OK);
    mica_device_set_memory_limit(model.device, 64 << 20);
    fixture f = open_fixture(options); /* 48 MiB: each takes 13 and 8 */
    assert_true(answers(f.server, ASK("a")));
    assert_true(runs(f.server, "default,a,"));
    assert_true(answers(f.server, ASK("b")));
    assert_true(runs(f.server, "default,b,"));
    close_fixture(&f);
    mica_device_close(&model.device);
}

/* What comes counts with its caches, too: there is room for the weights of a third, not for all of
 * it. */
static void test_memory_of_caches(void **state) {
    (void)state;
    mica_serving_options serving = {.struct_bytes = sizeof serving, .cache_bytes = 32 << 20};
    fixture f =
        open_fixture((mica_loading_options){.serving = &serving, .memory_bytes = 120 << 20});
    assert_true(answers(f.server, ASK("a")));
    assert_true(runs(f.server, "default,a,")); /* twice 13 and 32 MiB */
    assert_true(answers(f.server, ASK("b")));
    assert_true(runs(f.server, "default,b,"));
    close_fixture(&f);
}

/* A batch whose model finds no room ends with that, and the next one is answered. */
static void test_batch(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.memory_bytes = 1 << 20});
    static const char *const models[] = {"a", "default"};
    char *folder = test_temp_dir(), ids[2][64];
    setenv("TMPDIR", folder, 1);
    for (int i = 0; i < 2; i++) {
        char *body = test_format(
            "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n"
            "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
            "{\"custom_id\": \"1\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
            "{\"model\": \"%s\", \"prompt\": \"a\", \"max_tokens\": 1}}\n\r\n--x--\r\n",
            models[i]);
        mc_json_doc *doc = client_json(f.server, "POST", "/v1/files", body, 200);
        free(body);
        body = test_format("{\"input_file_id\": \"%.*s\", \"endpoint\": \"/v1/completions\", "
                           "\"completion_window\": \"24h\"}",
                           MC_STR_ARG(text_at(mc_json_root(doc), "id")));
        mc_json_close(&doc);
        doc = client_json(f.server, "POST", "/v1/batches", body, 200);
        snprintf(ids[i], 64, "%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
        mc_json_close(&doc);
        free(body);
    }
    for (int i = 0; i < 2; i++) {
        char *path = test_format("/v1/batches/%s", ids[i]);
        bool ended = false;
        for (int n = 0; !ended && n < CLIENT_PATIENCE; n++) {
            mc_json_doc *doc = client_json(f.server, "GET", path, NULL, 200);
            ended = mc_str_is(text_at(mc_json_root(doc), "status"), "completed");
            if (ended) {
                assert_int_equal(int_at(mc_json_root(doc), "request_counts.failed"), i == 0);
                assert_int_equal(int_at(mc_json_root(doc), "request_counts.completed"), i == 1);
            }
            mc_json_close(&doc);
            if (!ended) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
        if (!ended) fail_msg("the batch for %s does not end", models[i]);
        free(path);
    }
    close_fixture(&f);
    unsetenv("TMPDIR");
    test_temp_dir_remove(folder);
}

/* ---- the cache ---- */

static int delete (const fixture *f, const char *body) {
    answer a = client_ask(f->server, "DELETE", "/api/delete", body);
    answer_free(&a);
    return a.status;
}

/* A server that may load org/tiny of a cache, and delete it. serving: may be NULL. */
static fixture open_cache(const mica_serving_options *serving) {
    char *own = test_format("%s/default", test_models_dir());
    const mica_server_options may = {.struct_bytes = sizeof may, .downloads = true};
    const char *place = NULL;
    const mica_loading_options loading = {.struct_bytes = sizeof loading,
                                          .places = &place,
                                          .place_count = 1,
                                          .model = &exact,
                                          .serving = serving};
    fixture f = {.root = test_temp_dir()};
    test_write_below(f.root, "models--org--tiny/refs/main",
                     "0123456789abcdef0123456789abcdef01234567");
    link_model(f.root, "models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567", own);
    free(own);
    assert_int_equal(setenv("HF_HUB_CACHE", f.root, 1), 0);
    assert_int_equal(mica_server_open(&may, &f.server), MICA_OK);
    assert_int_equal(mica_server_load(f.server, &loading), MICA_OK);
    return f;
}

/* A model of the cache that is in memory: while it has a request it is not removed; else it is
 * closed first. */
static void test_delete(void **state) {
    (void)state;
    fixture f = open_cache(NULL);
    client_refused(f.server, "/tokenize", "{\"prompt\": \"a\"}", 400, "missing_field", "model");
    static const char body[] = "{\"model\": \"org/tiny\", \"prompt\": \"curl\", \"raw\": true, "
                               "\"options\": {\"temperature\": 0, \"num_predict\": 60}}";
    int fd = client_connect(f.server);
    client_print(fd,
                 "POST " GENERATE " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    char first;
    assert_int_equal(recv(fd, &first, 1, MSG_PEEK), 1); /* it has begun */
    assert_int_equal(delete (&f, "{\"model\": \"org/tiny\"}"), 409);
    answer a = client_read(fd);
    if (!strstr(a.body, "\"done\":true")) fail_msg("%s%s", a.head, a.body);
    answer_free(&a);
    close(fd);
    assert_true(answers(f.server, ASK("org/tiny")));
    while (delete (&f, "{\"model\": \"org/tiny\"}") == 409) /* the request's end is being seen to */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(runs(f.server, ""));
    check_says(f.server, ASK("org/tiny"), 404, "no model org/tiny");
    assert_int_equal(delete (&f, "{\"model\": \"org/tiny\"}"), 404);
    unsetenv("HF_HUB_CACHE");
    close_fixture(&f);
}

/* Others wait while a model is deleted: its kept prompts are not saved then, as they are when it is
 * closed otherwise. */
static void test_delete_saves_nothing(void **state) {
    (void)state;
    if (!mc_prefix_available()) skip();
    char *dir = test_temp_dir(), *folder = test_format("%s/kept", dir);
    const mica_serving_options serving = {.struct_bytes = sizeof serving, .prefix_cache = folder};
    fixture f = open_cache(&serving);
    char body[2048] = "{\"model\": \"org/tiny\", \"max_tokens\": 2, \"prompt\": \"";
    for (int i = 0; i < 200; i++)
        strcat(body, "curl ");
    strcat(body, "\"}");
    for (int deletes = 0; deletes < 2; deletes++) {
        mc_json_doc *doc = client_json(f.server, "POST", "/v1/completions", body, 200);
        mc_json_close(&doc);
        if (deletes) {
            while (delete (&f, "{\"model\": \"org/tiny\"}") == 409)
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            wait_until_runs(f.server, "");
        } else {
            check_says(f.server, "{\"model\": \"org/tiny\", \"keep_alive\": 0}", 200, "unload");
            wait_until_runs(f.server, ""); /* the end of the first request is being seen to */
            assert_true(answers(f.server, ASK("org/tiny"))); /* opened once it is closed */
        }
        test_list files = test_list_files(folder, "");
        assert_int_equal(files.count, deletes ? 0 : 1);
        for (size_t i = 0; i < files.count; i++) {
            char *path = test_format("%s/%s", folder, files.names[i]);
            assert_int_equal(unlink(path), 0);
            free(path);
        }
        test_list_free(&files);
    }
    unsetenv("HF_HUB_CACHE");
    close_fixture(&f);
    free(folder);
    test_temp_dir_remove(dir);
}

/* What cannot be removed stays in memory: a model that is not of the cache, one that is being
 * downloaded. */
static void test_delete_refused(void **state) {
    (void)state;
    fixture f = open_cache(NULL);
    char *own = test_format("%s/default", test_models_dir()), *root = test_temp_dir();
    const mica_server_options may = {.struct_bytes = sizeof may, .downloads = true};
    const mica_loading_options loading = {.struct_bytes = sizeof loading,
                                          .places = (const char *const[]){NULL, root},
                                          .place_count = 2,
                                          .model = &exact};
    link_model(root, "org/mine", own);
    mica_server_close(&f.server);
    assert_int_equal(mica_server_open(&may, &f.server), MICA_OK);
    assert_int_equal(mica_server_load(f.server, &loading), MICA_OK);
    assert_true(answers(f.server, ASK("org/mine")));
    assert_true(answers(f.server, ASK("org/tiny")));
    int status;
    while ((status = delete (&f, "{\"model\": \"org/mine\"}")) == 409) /* as above */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(status, 404);
    assert_true(runs(f.server, "org/mine,org/tiny,"));
    test_write_below(f.root, ".locks/models--org--tiny/a.lock", "");
    char *lock = test_format("%s/.locks/models--org--tiny/a.lock", f.root);
    int fd = open(lock, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    answer a = client_ask(f.server, "DELETE", "/api/delete", "{\"model\": \"org/tiny\"}");
    while (strstr(a.body, "served")) { /* as above */
        answer_free(&a);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        a = client_ask(f.server, "DELETE", "/api/delete", "{\"model\": \"org/tiny\"}");
    }
    if (a.status != 409 || !strstr(a.body, "is being downloaded")) fail_msg("%s", a.body);
    answer_free(&a);
    close(fd);
    assert_true(runs(f.server, "org/mine,org/tiny,"));
    assert_true(answers(f.server, ASK("org/tiny")));
    while ((status = delete (&f, "{\"model\": \"org/tiny\"}")) == 409)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(status, 200);
    assert_true(runs(f.server, "org/mine,"));
    unsetenv("HF_HUB_CACHE");
    close_fixture(&f);
    test_temp_dir_remove(root);
    free(lock);
    free(own);
}

/* ---- adapters ---- */

enum { NEW_TOKENS = 12 };

/* The text that a session of a model with an adapter (NULL: none) goes on with. */
static char *continue_local(const char *folder, const char *adapter) {
    mica_model_options options = exact;
    mica_generate_options greedy = {
        .struct_bytes = sizeof greedy, .max_tokens = NEW_TOKENS, .ignore_eos = true};
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    options.adapter = adapter;
    assert_int_equal(mica_model_open(folder, &options, &model), MICA_OK);
    assert_int_equal(mica_session_open(model, NULL, &session), MICA_OK);
    assert_int_equal(mica_generate(session, "abc", 0, &greedy, &stream), MICA_OK);
    char *text = test_format("%s", "");
    for (mica_token t; mica_stream_next(stream, &t);) {
        char *more = test_format("%s%.*s", text, (int)t.len, t.text);
        free(text);
        text = more;
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    return text;
}

static void check_continues(const mica_server *server, const char *model, const char *want) {
    char *body = test_format("{\"model\": \"%s\", \"prompt\": \"abc\", \"max_tokens\": %d, "
                             "\"temperature\": 0, \"ignore_eos\": true}",
                             model, NEW_TOKENS);
    mc_json_doc *doc = client_json(server, "POST", "/v1/completions", body, 200);
    check_text(mc_json_root(doc), "choices.0.text", mc_str_of(want));
    check_text(mc_json_root(doc), "model", mc_str_of(model));
    mc_json_close(&doc);
    free(body);
}

/* Each answers as it does alone; whoever asks after the other gets nothing of its caches. */
static void test_adapters(void **state) {
    (void)state;
    char *base = test_format("%s/models/qwen3_tied", test_cases_dir());
    char *paths[2] = {test_format("%s/lora/mlx_qwen3", test_cases_dir()),
                      test_format("%s/lora/peft_qwen3", test_cases_dir())};
    const char *adapter_names[] = {"mlx", "peft"}, *name = "tiny", *folder = base;
    char *texts[3] = {continue_local(base, NULL), continue_local(base, paths[0]),
                      continue_local(base, paths[1])};
    const mica_loading_options options = {.struct_bytes = sizeof options,
                                          .names = &name,
                                          .folders = &folder,
                                          .count = 1,
                                          .adapter_names = adapter_names,
                                          .adapter_folders = (const char *const *)paths,
                                          .adapter_count = 2,
                                          .model = &exact};
    mica_server *server = NULL;
    assert_string_not_equal(texts[0], texts[1]);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(mica_server_load(server, &options), MICA_OK);
    assert_int_equal(mica_server_load(server, &options), MICA_EINVAL);
    for (int again = 0; again < 2; again++) {
        check_continues(server, "tiny", texts[0]);
        check_continues(server, "tiny:mlx", texts[1]);
        check_continues(server, "tiny:peft", texts[2]);
    }
    client_refused(server, "/tokenize", "{\"prompt\": \"\", \"model\": \"tiny:other\"}", 404,
                   "model_not_found", "model");
    client_refused(server, "/tokenize", "{\"prompt\": \"\", \"model\": \"tiny:mlx:peft\"}", 404,
                   "model_not_found", "model");
    mc_json_doc *doc = client_json(server, "GET", "/v1/models", NULL, 200);
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "data")), 3);
    check_text(mc_json_root(doc), "data.1.id", MC_STR("tiny:mlx"));
    check_text(mc_json_root(doc), "data.1.parent", MC_STR("tiny"));
    mc_json_close(&doc);
    mica_server_close(&server);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    free(paths[0]);
    free(paths[1]);
    free(base);
}

/* An adapter of another model: an error of its own requests. */
static void test_other_adapter(void **state) {
    (void)state;
    char *path = test_format("%s/lora/mlx_qwen3", test_cases_dir());
    const char *name = "mlx";
    fixture f = open_fixture((mica_loading_options){
        .adapter_names = &name, .adapter_folders = (const char *const *)&path, .adapter_count = 1});
    answer a = client_ask(f.server, "POST", GENERATE, ASK("default:mlx"));
    if (a.status < 400 || !strstr(a.body, "default:mlx cannot be loaded")) fail_msg("%s", a.body);
    assert_null(strstr(a.body, path)); /* no folder is told */
    answer_free(&a);
    assert_true(answers(f.server, ASK("default")));
    close_fixture(&f);
    free(path);
}

/* ---- options and ends ---- */

static mica_status load(const mica_loading_options *options) {
    mica_server *server = NULL;
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    mica_status status = mica_server_load(server, options);
    mica_server_close(&server);
    return status;
}

static void test_options(void **state) {
    (void)state;
    char *own = test_format("%s/default", test_models_dir());
    const char *names[] = {"a", "a"}, *folders[] = {own, own}, *adapters[] = {"x:y", "z", "z"};
    mica_loading_options options = {.names = names, .folders = folders, .model = &exact};
    assert_int_equal(mica_server_load(NULL, NULL), MICA_EINVAL);
    assert_int_equal(load(NULL), MICA_OK);
    options.count = 1;
    assert_int_equal(load(&options), MICA_OK);
    options.count = 2;
    assert_int_equal(load(&options), MICA_EINVAL); /* one name twice */
    names[0] = "";
    assert_int_equal(load(&options), MICA_EINVAL);
    folders[0] = "nowhere";
    names[0] = "b";
    assert_int_equal(load(&options), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "nowhere"));
    options.count = 0;
    options.adapter_names = options.adapter_folders = adapters;
    options.adapter_count = 1;
    assert_int_equal(load(&options), MICA_EINVAL);
    options.adapter_names = options.adapter_folders = adapters + 1;
    options.adapter_count = 2;
    assert_int_equal(load(&options), MICA_EINVAL);
    options.adapter_count = 0;
    options.max_models = -1;
    assert_int_equal(load(&options), MICA_EINVAL);
    free(own);
}

/* Each allocation of a request that loads a model fails once. */
static void test_without_memory(void **state) {
    (void)state;
    fixture f = open_fixture((mica_loading_options){.keep_alive_seconds = 1e-9});
    int status = 0;
    for (uint64_t n = 1, count = n; status != 200 || count >= n; n += 1 + n / 2) {
        mc_alloc_fail_at(n);
        answer a =
            client_ask(f.server, "POST", "/tokenize", "{\"prompt\": \"a\", \"model\": \"a\"}");
        count = mc_alloc_count();
        mc_alloc_fail_at(0);
        status = a.status;
        if (status != 0 && status != 200 && status != 503)
            fail_msg("allocation %d: %d %s", (int)n, status, a.body);
        answer_free(&a);
        check_says(f.server, "{\"model\": \"a\", \"keep_alive\": 0}", 200, "unload");
        wait_until_runs(f.server, "default,");
        assert_true(status == 200 || n < 1 << 20);
    }
    assert_true(answers(f.server, ASK("a")));
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_deleted),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_oldest_goes),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_of_the_device),
        cmocka_unit_test(test_memory_of_caches),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_delete),
        cmocka_unit_test(test_delete_saves_nothing),
        cmocka_unit_test(test_delete_refused),
        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_other_adapter),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, close_group);
}

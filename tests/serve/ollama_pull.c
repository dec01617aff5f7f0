/* ollama's /api/pull and /api/delete, against a hub of the tests. */
#define _POSIX_C_SOURCE 200809L
#include "hub/hub_test.h"
#include "reading.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "{\"model\": \"org/model\"}"

/* A server that may download from a hub of its own. */
typedef struct fixture {
    hub_test hub;
    served s;
} fixture;

static fixture open_fixture(bool downloads) {
    fixture f = {.hub = hub_test_open()};
    mica_server_options options = {.downloads = downloads};
    assert_int_equal(setenv("HF_HUB_CACHE", f.hub.cache, 1), 0);
    assert_int_equal(setenv("HF_ENDPOINT", f.hub.endpoint, 1), 0);
    f.s = served_open(&options);
    const char *cache = NULL; /* what requests may name */
    mica_loading_options loading = {
        .struct_bytes = sizeof loading, .places = &cache, .place_count = 1};
    assert_int_equal(mica_server_load(f.s.server, &loading), MICA_OK);
    return f;
}

static void close_fixture(fixture *f) {
    served_close(&f->s);
    hub_test_close(&f->hub);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_ENDPOINT");
}

static void must_pull(const fixture *f, const char *body) {
    mc_json_doc *doc = client_json(f->s.server, "POST", "/api/pull", body, 200);
    check_text(mc_json_root(doc), "status", MC_STR("success"));
    mc_json_close(&doc);
}

/* The status of a request whose body must have an error that has that text. */
static int refused(const fixture *f, const char *method, const char *path, const char *body,
                   const char *text) {
    answer a = client_ask(f->s.server, method, path, body);
    int status = a.status;
    if (!strstr(a.body, "\"error\"") || !strstr(a.body, text)) fail_msg("%s", a.body);
    answer_free(&a);
    return status;
}

static int status_of(const fixture *f, const char *method, const char *path) {
    answer a = client_ask(f->s.server, method, path, NULL);
    answer_free(&a);
    return a.status;
}

static void test_pull(void **state) {
    (void)state;
    fixture f = open_fixture(true);
    char *folder = NULL;
    assert_int_equal(status_of(&f, "GET", "/v1/models/org/model"), 404);
    must_pull(&f, "{\"name\": \"org/model\", \"stream\": false}");
    assert_int_equal(status_of(&f, "GET", "/v1/models/org/model"), 200); /* at once */
    mica_pull_options options = hub_test_options(&f.hub);
    options.offline = true; /* so that what is there was there */
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    hub_test_check_model(&f.hub, folder);
    mc_json_doc *doc = client_json(f.s.server, "DELETE", "/api/delete", MODEL, 200);
    mc_json_close(&doc);
    assert_int_equal(status_of(&f, "GET", "/v1/models/org/model"), 404);
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    assert_int_equal(refused(&f, "DELETE", "/api/delete", MODEL, "org/model"), 404);
    close_fixture(&f);
}

/* Lines: what is done, up to all of it, then success. */
static void test_stream(void **state) {
    (void)state;
    fixture f = open_fixture(true);
    answer a = client_ask(f.s.server, "POST", "/api/pull", MODEL);
    int64_t last = 0, total = 0;
    size_t lines = 0;
    char *line = a.body;
    assert_int_equal(a.status, 200);
    for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        mc_json_doc *doc = NULL;
        assert_int_equal(mc_json_parse(line, (size_t)(end - line), "a", &doc), MICA_OK);
        mc_json root = mc_json_root(doc);
        if (lines == 0) check_text(root, "status", MC_STR("pulling manifest"));
        if (end[1] == '\0') check_text(root, "status", MC_STR("success"));
        if (mc_json_exists(at(root, "total"))) {
            assert_int_equal(text_at(root, "digest").len, 40);
            assert_true(int_at(root, "completed") >= last);
            last = int_at(root, "completed");
            total = int_at(root, "total");
        }
        mc_json_close(&doc);
    }
    assert_true(lines >= 3 && total > 300000 && last == total);
    answer_free(&a);
    close_fixture(&f);
}

static void test_errors(void **state) {
    (void)state;
    fixture f = open_fixture(true);
    assert_int_equal(refused(&f, "POST", "/api/pull",
                             "{\"model\": \"org/none\", \"stream\": false}", "org/none"),
                     404);
    assert_int_equal(
        refused(&f, "POST", "/api/pull", "{\"model\": \"../a\", \"stream\": false}", "../a"), 400);
    assert_int_equal(refused(&f, "POST", "/api/pull", "{\"stream\": false}", "model"), 400);
    assert_int_equal(refused(&f, "POST", "/api/pull",
                             "{\"model\": \"org/model\", \"insecure\": true}", "insecure"),
                     400);
    /* in a stream, which has begun, the error is a line */
    assert_int_equal(refused(&f, "POST", "/api/pull", "{\"model\": \"org/none\"}", "org/none"),
                     200);
    assert_int_equal(refused(&f, "DELETE", "/api/delete", "{\"model\": \"default\"}", "served"),
                     409);
    assert_int_equal(refused(&f, "DELETE", "/api/delete", "{\"model\": \"../..\"}", "../.."), 400);
    close_fixture(&f);
}

/* A page learns beforehand whether it may ask for downloads. */
static void test_told(void **state) {
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        fixture f = open_fixture(allowed);
        mc_json_doc *doc = client_json(f.s.server, "GET", "/v1/models", NULL, 200);
        bool told;
        assert_true(mc_json_get_bool(mc_json_find(mc_json_root(doc), "downloads"), &told));
        assert_int_equal(told, allowed);
        mc_json_close(&doc);
        close_fixture(&f);
    }
}

/* Nothing is asked of the hub, and nothing removed, unless the server was told so. */
static void test_not_allowed(void **state) {
    (void)state;
    fixture f = open_fixture(false);
    char *folder = NULL;
    assert_int_equal(refused(&f, "POST", "/api/pull", MODEL, "does not allow downloads"), 403);
    assert_int_equal(hub_test_pull(&f.hub, "org/model", &folder), MICA_OK);
    assert_int_equal(refused(&f, "DELETE", "/api/delete", MODEL, "does not allow downloads"), 403);
    hub_test_check_model(&f.hub, folder);
    close_fixture(&f);
}

/* Reads a stream of lines until one has that text. */
static void read_up_to(int fd, const char *text) {
    char got[8192];
    size_t len = 0;
    do {
        ssize_t n = read(fd, got + len, sizeof got - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
        got[len] = '\0';
    } while (!strstr(got, text));
}

/* A client that is gone ends its download, also one that brings nothing: the next one, which
 * continues it, does not wait for it. */
static void test_gone(void **state) {
    (void)state;
    fixture f = open_fixture(true);
    hub_test_fail(&f.hub, "stall model.safetensors 100000 1\n");
    size_t files = client_files();
    int fd = client_connect(f.s.server);
    client_print(fd, "POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(MODEL), MODEL);
    read_up_to(fd, "\"completed\":1000"); /* and some for the other files */
    close(fd);
    assert_true(client_files_back(files)); /* its connection to the hub is closed */
    must_pull(&f, "{\"model\": \"org/model\", \"stream\": false}");
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pull),        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_told),
        cmocka_unit_test(test_not_allowed), cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

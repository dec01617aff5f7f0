/* What requests of one key leave with the server is not there for those of another: files, batches
 * and responses are 404 to them, and none of their lists has them. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static served s;
static const char *const headers[] = {"Authorization: Bearer one\r\n", "x-api-key: two\r\n"};
enum { ONE, TWO };

static int open_server(void **state) {
    (void)state;
    static const char *const keys[] = {"one", "two"};
    s = served_open(&(mica_server_options){.api_keys = keys, .api_key_count = 2});
    return 0;
}

static int close_server(void **state) {
    (void)state;
    served_close(&s);
    return 0;
}

/* The document of an answer, for mc_json_close. Checks the status. */
static mc_json_doc *ask(int key, const char *method, const char *path, const char *body,
                        int status) {
    answer a = client_ask_with(s.server, headers[key], method, path, body);
    mc_json_doc *doc = NULL;
    if (a.status != status) fail_msg("%s %s: %d %s", method, path, a.status, a.body);
    assert_int_equal(mc_json_parse(a.body, a.len, path, &doc), MICA_OK);
    answer_free(&a);
    return doc;
}

static void check(int key, const char *method, const char *path, const char *body, int status) {
    mc_json_doc *doc = ask(key, method, path, body, status);
    mc_json_close(&doc);
}

/* Makes a thing with the first key; the path that it is found at: "/v1/files/file-..". */
static char *make(const char *path, const char *body) {
    mc_json_doc *doc = ask(ONE, "POST", path, body, 200);
    char *found = test_format("%s/%.*s", path, MC_STR_ARG(text_at(mc_json_root(doc), "id")));
    mc_json_close(&doc);
    return found;
}

static char *make_file(void) {
    return make("/v1/files",
                "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
                "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/responses\", "
                "\"body\": {\"input\": \"a\", \"max_output_tokens\": 1}}\r\n--b--\r\n");
}

static char *batch_of(const char *file) {
    return test_format("{\"input_file_id\": \"%s\", \"endpoint\": \"/v1/responses\", "
                       "\"completion_window\": \"24h\"}",
                       strrchr(file, '/') + 1);
}

static size_t count(int key, const char *path) {
    mc_json_doc *doc = ask(key, "GET", path, NULL, 200);
    size_t n = mc_json_count(mc_json_find(mc_json_root(doc), "data"));
    mc_json_close(&doc);
    return n;
}

static void test_files(void **state) {
    (void)state;
    char *file = make_file(), *content = test_format("%s/content", file);
    check(TWO, "GET", file, NULL, 404);
    check(TWO, "GET", content, NULL, 404);
    check(TWO, "DELETE", file, NULL, 404);
    assert_int_equal(count(TWO, "/v1/files"), 0);
    assert_int_equal(count(ONE, "/v1/files"), 1);
    check(ONE, "GET", file, NULL, 200);
    check(ONE, "DELETE", file, NULL, 200);
    free(file);
    free(content);
}

/* A batch, and the files that it makes, are its maker's. */
static void test_batches(void **state) {
    (void)state;
    char *file = make_file(), *body = batch_of(file);
    check(TWO, "POST", "/v1/batches", body, 400); /* there is no such file */
    char *batch = make("/v1/batches", body), *cancel = test_format("%s/cancel", batch);
    check(TWO, "GET", batch, NULL, 404);
    check(TWO, "POST", cancel, "", 404);
    char *after = test_format("/v1/batches?after=%s", strrchr(batch, '/') + 1);
    check(TWO, "GET", after, NULL, 400);
    assert_int_equal(count(TWO, "/v1/batches"), 0);
    assert_int_equal(count(ONE, "/v1/batches"), 1);
    mc_json_doc *doc = ask(ONE, "GET", batch, NULL, 200);
    while (!mc_str_is(text_at(mc_json_root(doc), "status"), "completed")) {
        mc_json_close(&doc);
        poll(NULL, 0, 10);
        doc = ask(ONE, "GET", batch, NULL, 200);
    }
    char *output = test_format("/v1/files/%.*s/content",
                               MC_STR_ARG(text_at(mc_json_root(doc), "output_file_id")));
    check(TWO, "GET", output, NULL, 404);
    mc_json_close(&doc);
    /* A response of a batch is remembered for that key. */
    doc = ask(ONE, "GET", output, NULL, 200);
    char *response = test_format("/v1/responses/%.*s",
                                 MC_STR_ARG(text_at(mc_json_root(doc), "response.body.id")));
    check(TWO, "GET", response, NULL, 404);
    check(ONE, "GET", response, NULL, 200);
    mc_json_close(&doc);
    free(response);
    free(output);
    free(after);
    free(cancel);
    free(batch);
    free(body);
    free(file);
}

static void test_responses(void **state) {
    (void)state;
    char *response = make("/v1/responses", "{\"input\": \"a\", \"max_output_tokens\": 1}");
    char *more = test_format("{\"input\": \"b\", \"max_output_tokens\": 1, "
                             "\"previous_response_id\": \"%s\"}",
                             strrchr(response, '/') + 1);
    check(TWO, "GET", response, NULL, 404);
    check(TWO, "DELETE", response, NULL, 404);
    check(TWO, "POST", "/v1/responses", more, 400);
    check(ONE, "POST", "/v1/responses", more, 200);
    check(ONE, "GET", response, NULL, 200);
    check(ONE, "DELETE", response, NULL, 200);
    free(more);
    free(response);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_responses),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}

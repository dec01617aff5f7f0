/* Asking a server: mica_server_ask says what a client over plain sockets sees. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static mica_status ask(const char *address, const char *path, const mica_ask_options *options,
                       int *status, char **text) {
    return mica_server_ask(address, "GET", path, NULL, options, status, text);
}

static void test_answers(void **state) {
    (void)state;
    static const char *const asked[][3] = {
        {"GET", "/v1/models", NULL},
        {"GET", "/nothing", NULL},
        {"POST", "/tokenize", "{\"prompt\": \"one two\"}"},
        {"POST", "/tokenize", "{\"prompt\": 1}"},
        {"DELETE", "/v1/files/file-none", NULL},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        int status;
        char *text;
        answer want = client_ask(shared.server, asked[i][0], asked[i][1], asked[i][2]);
        assert_int_equal(mica_server_ask(mica_server_address(shared.server), asked[i][0],
                                         asked[i][1], asked[i][2], NULL, &status, &text),
                         MICA_OK);
        assert_int_equal(status, want.status);
        assert_string_equal(text, want.body);
        answer_free(&want);
        mica_free(text);
    }
}

/* By a socket of the file system, and with a key. */
static void test_key(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *address = test_format("unix:%s/s", dir), *text;
    const char *key = "sesame";
    const mica_server_options options = {
        .struct_bytes = sizeof options, .host = address, .api_keys = &key, .api_key_count = 1};
    mica_ask_options with = {.struct_bytes = sizeof with, .key = key};
    mica_server *server;
    int status;
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    assert_int_equal(ask(address, "/api/ps", NULL, &status, &text), MICA_OK);
    assert_int_equal(status, 401);
    mica_free(text);
    assert_int_equal(ask(address, "/api/ps", &with, &status, &text), MICA_OK);
    assert_int_equal(status, 200);
    mica_free(text);
    with.key = "sesame\r\nHost: elsewhere";
    assert_int_equal(ask(address, "/api/ps", &with, &status, &text), MICA_EINVAL);
    assert_true(!text && !status);
    mica_server_close(&server);
    assert_int_equal(ask(address, "/api/ps", NULL, &status, &text), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "No such file"));
    free(address);
    test_temp_dir_remove(dir);
}

static void *answer_nonsense(void *context) {
    int fd = accept(*(int *)context, NULL, NULL);
    char bytes[4096];
    if (recv(fd, bytes, sizeof bytes, 0) > 0) client_send(fd, "220 mail\r\n", 10);
    close(fd);
    return NULL;
}

/* What is no address, and what is no server. */
static void test_refused(void **state) {
    (void)state;
    static const char *const addresses[] = {"", "localhost:80", "ftp://localhost", "file:///etc"};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0), status;
    char *text;
    pthread_t thread;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        assert_int_equal(ask(addresses[i], "/", NULL, &status, &text), MICA_EINVAL);
    assert_int_equal(ask("http://localhost", "x", NULL, &status, &text), MICA_EINVAL);
    assert_int_equal(ask(NULL, "/", NULL, &status, &text), MICA_EINVAL);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    char *address = test_format("http://127.0.0.1:%d", ntohs(in.sin_port));
    assert_int_equal(ask(address, "/", NULL, &status, &text), MICA_ENOENT);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_nonsense, &fd), 0);
    assert_int_equal(ask(address, "/", NULL, &status, &text), MICA_EFORMAT);
    assert_true(!text && !status);
    pthread_join(thread, NULL);
    close(fd);
    free(address);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}

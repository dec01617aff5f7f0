/* Asking a server: mica_server_ask says what a client over plain sockets sees. */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* INADDR_LOOPBACK */
#include "client.h"

#include "hub/library.h"
#include "support/system.h"

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

/* By a socket of the file system, where there is such, and with a key. */
static void test_key(void **state) {
    (void)state;
    bool file = test_has_socket_files();
    char *dir = test_temp_dir(), *address = file ? test_format("unix:%s/s", dir) : NULL, *text;
    const char *key = "sesame";
    const mica_server_options options = {
        .struct_bytes = sizeof options, .host = address, .api_keys = &key, .api_key_count = 1};
    mica_ask_options with = {.struct_bytes = sizeof with, .key = key};
    mica_server *server;
    int status;
    assert_int_equal(mica_server_open(&options, &server), MICA_OK);
    if (!file) address = test_format("%s", mica_server_address(server));
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
    if (file) assert_non_null(strstr(mica_last_error(), "No such file"));
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

/* ---- whom it trusts ---- */

static struct {
    bool folder, no_folder;
    char file[64];
} trusted;

static __typeof__(mc_hub.easy_setopt) set_option;

/* Notes what certificates are trusted. Values of options are longs, or as long as a pointer. */
static CURLcode note_option(CURL *easy, CURLoption option, ...) {
    va_list args;
    va_start(args, option);
    void *pointer = option < CURLOPTTYPE_OBJECTPOINT ? NULL : va_arg(args, void *);
    long number = option < CURLOPTTYPE_OBJECTPOINT ? va_arg(args, long) : 0;
    va_end(args);
    if (option == CURLOPT_CAPATH) trusted.folder = pointer != NULL;
    if (option == CURLOPT_CAPATH) trusted.no_folder = !pointer;
    if (option == CURLOPT_CAINFO)
        snprintf(trusted.file, sizeof trusted.file, "%s", (const char *)pointer);
    return option < CURLOPTTYPE_OBJECTPOINT ? set_option(easy, option, number)
                                            : set_option(easy, option, pointer);
}

/* Of a file's certificates alone: the system's, which libcurl would look for beside, are not. */
static void test_trust(void **state) {
    (void)state;
    const char *address = mica_server_address(shared.server);
    mica_ask_options options = {.struct_bytes = sizeof options, .certificates = "/none.pem"};
    int status;
    char *text;
    unsetenv("REQUESTS_CA_BUNDLE");
    unsetenv("SSL_CERT_FILE");
    unsetenv("CURL_CA_BUNDLE");
    assert_int_equal(mc_hub_load(), MICA_OK);
    set_option = mc_hub.easy_setopt;
    mc_hub.easy_setopt = note_option;
    for (int i = 0; i < 3; i++) { /* an option, a variable, neither */
        memset(&trusted, 0, sizeof trusted);
        if (i == 1) assert_int_equal(setenv("CURL_CA_BUNDLE", "/other.pem", 1), 0);
        if (i > 0) options.certificates = NULL;
        assert_int_equal(ask(address, "/health", &options, &status, &text), MICA_OK);
        mica_free(text);
        unsetenv("CURL_CA_BUNDLE");
        assert_string_equal(trusted.file, i == 0 ? "/none.pem" : i == 1 ? "/other.pem" : "");
        assert_int_equal(trusted.no_folder, i < 2);
        assert_false(trusted.folder);
    }
    mc_hub.easy_setopt = set_option;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_trust),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}

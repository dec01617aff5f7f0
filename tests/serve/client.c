#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* INADDR_LOOPBACK */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- servers ---- */

served served_open(const mica_server_options *options) {
    served s = {0};
    char *path = test_format("%s/default", test_models_dir());
    mica_model_options model = {.threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT};
    assert_int_equal(mica_model_open(path, &model, &s.model), MICA_OK);
    free(path);
    mica_status status = mica_server_open(options, &s.server);
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_server_add(s.server, "default", s.model, NULL), MICA_OK);
    return s;
}

void served_close(served *s) {
    mica_server_close(&s->server);
    mica_model_close(&s->model);
}

served shared;

int served_open_shared(void **state) {
    (void)state;
    shared = served_open(NULL);
    return 0;
}

int served_close_shared(void **state) {
    (void)state;
    served_close(&shared);
    return 0;
}

int client_connect(const mica_server *server) {
    const char *address = mica_server_address(server);
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool file = strncmp(address, "unix:", 5) == 0;
    int fd = socket(file ? AF_UNIX : AF_INET, SOCK_STREAM, 0), result;
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = CLIENT_PATIENCE / 100}; /* a test that would hang fails */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (file) {
        snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
        result = connect(fd, (struct sockaddr *)&un, sizeof un);
    } else {
        const char *port = strrchr(address, ':');
        in.sin_port = htons((uint16_t)atoi(port + 1));
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        result = connect(fd, (struct sockaddr *)&in, sizeof in);
    }
    if (result == 0) return fd;
    close(fd);
    return -1;
}

/* ---- requests ---- */

void client_send(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) return; /* what the server answered shows */
        bytes += sent;
        n -= (size_t)sent;
    }
}

void client_print(int fd, const char *fmt, ...) {
    char text[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof text);
    client_send(fd, text, (size_t)n);
}

/* ---- answers ---- */

/* Reads n bytes, or up to the end of a line where line is set. Returns their number. */
static size_t read_some(int fd, char *out, size_t n, bool line) {
    size_t got = 0;
    while (got < n) {
        ssize_t more = recv(fd, out + got, line ? 1 : n - got, 0);
        if (more < 0 && errno == EINTR) continue; /* a process that was stopped goes on */
        if (more <= 0) break;
        got += (size_t)more;
        if (line && out[got - 1] == '\n') break;
    }
    return got;
}

static char *read_head(int fd) {
    size_t cap = 1 << 16, len = 0, n;
    char *head = malloc(cap);
    assert_non_null(head);
    while ((n = read_some(fd, head + len, cap - 1 - len, true)) > 0) {
        len += n;
        if (n <= 2) break;
    }
    head[len] = '\0';
    return head;
}

static const char *header(const char *head, const char *name) {
    size_t len = strlen(name);
    for (const char *at = strchr(head, '\n'); at; at = strchr(at + 1, '\n'))
        if (strncasecmp(at + 1, name, len) == 0 && at[1 + len] == ':') return at + 2 + len;
    return NULL;
}

static void add(answer *a, const char *bytes, size_t n) {
    a->body = realloc(a->body, a->len + n + 1);
    assert_non_null(a->body);
    memcpy(a->body + a->len, bytes, n);
    a->len += n;
    a->body[a->len] = '\0';
}

static void read_chunks(int fd, answer *a) {
    char line[64];
    for (;;) {
        size_t n = read_some(fd, line, sizeof line - 1, true);
        line[n] = '\0';
        size_t size = strtoul(line, NULL, 16);
        if (n == 0) a->closes = true; /* cut off */
        if (n == 0) return;
        char *bytes = malloc(size + 2);
        assert_non_null(bytes);
        size_t got = read_some(fd, bytes, size + 2, false);
        add(a, bytes, got < size ? got : size);
        free(bytes);
        if (size == 0 || got < size + 2) return;
    }
}

answer client_read(int fd) {
    answer a = {.head = read_head(fd)};
    add(&a, "", 0);
    if (sscanf(a.head, "HTTP/1.%*d %d", &a.status) != 1) {
        a.closes = true;
        return a;
    }
    const char *length = header(a.head, "Content-Length");
    const char *connection = header(a.head, "Connection");
    a.closes = connection && strncasecmp(connection, " close", 6) == 0;
    if (header(a.head, "Transfer-Encoding")) {
        read_chunks(fd, &a);
    } else {
        size_t want = length ? strtoul(length, NULL, 10) : 0;
        char *bytes = malloc(want + 1);
        assert_non_null(bytes);
        add(&a, bytes, read_some(fd, bytes, want, false));
        free(bytes);
    }
    return a;
}

void answer_free(answer *a) {
    free(a->head);
    free(a->body);
}

answer client_ask_with(const mica_server *server, const char *headers, const char *method,
                       const char *path, const char *body) {
    int fd = client_connect(server);
    assert_true(fd >= 0);
    client_print(fd, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
    if (body) client_print(fd, "Content-Length: %zu\r\n", strlen(body));
    client_print(fd, "\r\n");
    if (body) client_send(fd, body, strlen(body));
    answer a = client_read(fd);
    close(fd);
    return a;
}

answer client_ask(const mica_server *server, const char *method, const char *path,
                  const char *body) {
    return client_ask_with(server, "", method, path, body);
}

mc_json_doc *client_json(const mica_server *server, const char *method, const char *path,
                         const char *body, int status) {
    answer a = client_ask(server, method, path, body);
    mc_json_doc *doc = NULL;
    if (a.status != status) fail_msg("%s: %d %s", path, a.status, a.body);
    if (mc_json_parse(a.body, a.len, path, &doc) != MICA_OK) fail_msg("%s", mica_last_error());
    answer_free(&a);
    return doc;
}

void client_refused(const mica_server *server, const char *path, const char *body, int status,
                    const char *code, const char *param) {
    mc_json_doc *doc = client_json(server, "POST", path, body, status);
    mc_json error = mc_json_find(mc_json_root(doc), "error");
    mc_str text = MC_STR("");
    if (mc_json_get_str(mc_json_find(error, "code"), &text) && !mc_str_is(text, code))
        fail_msg("%s: code %.*s", body, MC_STR_ARG(text));
    text = MC_STR("");
    mc_json_get_str(mc_json_find(error, "param"), &text);
    if (!mc_str_is(text, param)) fail_msg("%s: param %.*s", body, MC_STR_ARG(text));
    assert_true(mc_json_get_str(mc_json_find(error, "message"), &text) && text.len > 0);
    assert_true(mc_json_get_str(mc_json_find(error, "type"), &text));
    mc_json_close(&doc);
}

double client_metric(const char *page, const char *name) {
    size_t len = strlen(name);
    for (const char *at = strstr(page, name); at; at = strstr(at + 1, name))
        if ((at == page || at[-1] == '\n') && at[len] == ' ') return strtod(at + len, NULL);
    return -1;
}

double client_metric_now(const mica_server *server, const char *name) {
    answer a = client_ask(server, "GET", "/metrics", NULL);
    double value = client_metric(a.body, name);
    answer_free(&a);
    return value;
}

void client_wait_metric(const mica_server *server, const char *name, double value) {
    for (int i = 0; i < CLIENT_PATIENCE; i++) {
        if (client_metric_now(server, name) >= value) return;
        poll(NULL, 0, 10);
    }
    fail_msg("%s is below %g", name, value);
}

void client_without_memory(const mica_server *server, const char *path, const char *body) {
    uint64_t rounds = 0;
    bool lacked = true;
    for (uint64_t n = 1; lacked; n += 1 + n / 16) {
        mc_alloc_fail_at(n);
        answer a = client_ask(server, "POST", path, body);
        lacked = mc_alloc_count() >= n;
        mc_alloc_fail_at(0);
        rounds += lacked;
        if (a.status != 0 && a.status != 200 && a.status != 503)
            fail_msg("%s, allocation %d: %d %s", path, (int)n, a.status, a.body);
        answer_free(&a);
    }
    if (rounds < 20) fail_msg("%s: only %d rounds lacked memory", path, (int)rounds);
    /* What the last of them has left in the queue goes with the next step. */
    answer a = client_ask(server, "POST", path, body);
    for (int i = 0; i < 1000 && a.status == 503 && strstr(a.body, "\"overloaded\""); i++) {
        answer_free(&a);
        a = client_ask(server, "POST", path, body);
    }
    if (a.status != 200) fail_msg("%s: %d %s", path, a.status, a.body);
    answer_free(&a);
}

/* ---- descriptors ---- */

size_t client_files(void) {
    return test_count_entries("/dev/fd");
}

bool client_files_back(size_t files) {
    for (int i = 0; i < 2500; i++) { /* before a download that stalls ends by itself */
        if (client_files() <= files) return true;
        poll(NULL, 0, 10);
    }
    return false;
}

#define _POSIX_C_SOURCE 200809L
#include "remote.h"

#include "interrupt.h"
#include "report.h"
#include "serve_keys.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { WAIT_SECONDS = 60, MAX_ANSWER = 16 << 20 };

const cli_option cli_remote_options[CLI_REMOTE_OPTIONS] = {
    {.name = "host",
     .kind = CLI_TEXT,
     .placeholder = "ADDRESS",
     .initial = "127.0.0.1",
     .help = "where the server is: an address or a name, also as http://ADDRESS:PORT, or unix:PATH",
     .offset = offsetof(cli_remote_values, host)},
    {.name = "port",
     .letter = 'p',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "8080",
     .min = 1,
     .max = 65535,
     .help = "its port",
     .offset = offsetof(cli_remote_values, port)},
    {.name = "api-key",
     .kind = CLI_TEXT,
     .placeholder = "KEY",
     .help = "the key that it wants; others see a command line: better in the environment, or in a "
             "file",
     .offset = offsetof(cli_remote_values, api_key)},
    {.name = "api-key-file",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "the first key of FILE",
     .offset = offsetof(cli_remote_values, api_key_file)},
};

/* ---- the address ---- */

/* The parts of an address. */
typedef struct place {
    char host[256]; /* without brackets; of unix:PATH the path */
    char port[16];
    bool file; /* a socket of the file system */
} place;

static int find_place(const cli_remote_values *values, place *out) {
    const char *text = values->host;
    snprintf(out->port, sizeof out->port, "%d", (int)values->port);
    if (strncmp(text, "https://", 8) == 0)
        return cli_fail("%s: only servers without TLS can be asked; curl %s/api/ps asks others",
                        text, text);
    if (strncmp(text, "http://", 7) == 0) text += 7;
    out->file = strncmp(text, "unix:", 5) == 0;
    if (out->file) text += 5;
    bool bracket = text[0] == '[';
    size_t len = out->file ? strlen(text) : strcspn(text + bracket, bracket ? "]" : ":/");
    const char *end = text + bracket + len + (bracket && text[1 + len] == ']');
    bool bare = !out->file && !bracket && strchr(end + (*end != 0), ':'); /* ::1 */
    if (bare) end = text + (len = strlen(text));
    if (len == 0 || len >= sizeof out->host) return cli_fail("--host: '%s' is no address", text);
    memcpy(out->host, text + bracket, len);
    out->host[len] = '\0';
    if (*end == ':') {
        size_t digits = strspn(end + 1, "0123456789");
        if (digits == 0 || digits > 5 || (end[1 + digits] && end[1 + digits] != '/'))
            return cli_fail("--host: '%s' has no port behind its colon", text);
        snprintf(out->port, sizeof out->port, "%.*s", (int)digits, end + 1);
    }
    /* what a server listens at that listens everywhere */
    if (strcmp(out->host, "0.0.0.0") == 0) strcpy(out->host, "127.0.0.1");
    if (strcmp(out->host, "::") == 0) strcpy(out->host, "::1");
    return CLI_DONE;
}

static void set_limits(int fd) {
    const struct timeval limit = {.tv_sec = WAIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static int connect_file(const place *at) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(at->host) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, at->host);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Connects to the first address of the name that answers; -1 after it reported that none does. */
static int connect_to(const place *at) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int fd = -1, error = 0;
    if (at->file) {
        fd = connect_file(at);
        error = errno;
    } else {
        int failed = getaddrinfo(at->host, at->port, &hints, &list);
        if (failed) {
            cli_fail("there is no server %s: %s", at->host, gai_strerror(failed));
            return -1;
        }
        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
            fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
            error = errno;
            if (fd >= 0) close(fd);
            fd = -1;
        }
        freeaddrinfo(list);
    }
    if (fd >= 0) {
        set_limits(fd);
        return fd;
    }
    cli_fail("no server answers at %s%s%s: %s", at->host, at->file ? "" : " port ",
             at->file ? "" : at->port, strerror(error));
    cli_hint("mica serve starts one; --host and --port say where it is.");
    return -1;
}

/* ---- the request ---- */

static bool send_all(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, 0);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Reads all that the server sends. false: it breaks off, or never ends. */
static bool read_all(int fd, cli_text *out) {
    char bytes[16384];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || out->len > MAX_ANSWER || !cli_text_append(out, bytes, (size_t)n)) return false;
    }
    return true;
}

static bool write_request(cli_text *out, const place *at, const char *key, const char *method,
                          const char *path, const char *body) {
    bool numbers = strchr(at->host, ':') != NULL; /* of IPv6 */
    const char *host = at->file ? "localhost" : at->host;
    cli_text_printf(out, "%s %s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: close\r\n", method, path,
                    numbers ? "[" : "", host, numbers ? "]" : "");
    if (key) cli_text_printf(out, "Authorization: Bearer %s\r\n", key);
    if (body) cli_text_printf(out, "Content-Type: application/json\r\n");
    return cli_text_printf(out, "Content-Length: %zu\r\n\r\n%s", body ? strlen(body) : 0,
                           body ? body : "");
}

/* The length that a head tells of its body; SIZE_MAX: none. */
static size_t body_length(const char *head, const char *end) {
    static const char name[] = "\r\ncontent-length:";
    for (const char *at = head; at < end; at++)
        if (strncasecmp(at, name, sizeof name - 1) == 0)
            return strtoul(at + sizeof name - 1, NULL, 10);
    return SIZE_MAX;
}

/* Takes the head off an answer, and returns its status; 0: it is none, or cut off. */
static int take_head(cli_text *answer) {
    int status = 0;
    if (!answer->data || strlen(answer->data) != answer->len) return 0;
    char *end = strstr(answer->data, "\r\n\r\n");
    if (!end || sscanf(answer->data, "HTTP/1.%*d %d", &status) != 1) return 0;
    size_t head = (size_t)(end + 4 - answer->data), len = answer->len - head;
    if (body_length(answer->data, end) != len) return 0;
    memmove(answer->data, end + 4, len + 1);
    answer->len = len;
    return status;
}

static int exchange(int fd, const cli_text *request, cli_text *answer, int *status) {
    cli_interrupt_survive_pipe(); /* a server that goes away is an error, not the end */
    if (!send_all(fd, request->data, request->len) || !read_all(fd, answer))
        return cli_fail("the server does not answer: %s",
                        errno == EAGAIN || errno == EWOULDBLOCK ? "it is silent" : strerror(errno));
    *status = take_head(answer);
    return *status ? CLI_DONE : cli_fail("what answers there is no mica serve");
}

/* Reports what the server said is wrong. */
static int report(int status, const cli_json *json) {
    const cli_json_node *error = json->count ? cli_json_find(json, json->nodes, "error") : NULL;
    const cli_json_node *message = error ? cli_json_find(json, error, "message") : NULL;
    if (message) error = message;
    if (!error || error->kind != CLI_JSON_STRING)
        return cli_fail("the server refuses: status %d", status);
    cli_fail("%s", error->text);
    if (status == 401) cli_hint("--api-key-file FILE and MICA_API_KEY give the key.");
    return CLI_FAILED;
}

int cli_remote_ask(const cli_remote_values *values, const char *method, const char *path,
                   const char *body, cli_text *answer, cli_json *json) {
    cli_keys keys = {0};
    cli_text request = {0};
    place at = {.file = false};
    const char *why;
    int status = 0, code = find_place(values, &at);
    if (code == CLI_DONE) code = cli_keys_read(values->api_key, values->api_key_file, &keys);
    if (code != CLI_DONE) return code;
    int fd = connect_to(&at);
    if (fd < 0 ||
        !write_request(&request, &at, keys.count ? keys.texts[0] : NULL, method, path, body))
        code = CLI_FAILED;
    if (code == CLI_DONE) code = exchange(fd, &request, answer, &status);
    if (code == CLI_DONE && !cli_json_parse(json, answer->data, answer->len, &why))
        code = cli_fail("what answers there is no mica serve: %s", why);
    if (code == CLI_DONE && status != 200) code = report(status, json);
    if (fd >= 0) close(fd);
    free(request.data);
    cli_keys_free(&keys);
    return code;
}

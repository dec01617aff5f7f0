#define _GNU_SOURCE

#include "mock_hub.h"
#include "mock_digest.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 8192, PATH_BYTES = 1024, WORD_BYTES = 600, MAX_FAULTS = 32, MAX_CONNECTIONS = 64 };

/* Names chunks, not the file's bytes: no checksum of these. */
#define XET_HASH "8c1f0e9d7b6a5948372615040f3e2d1c8c1f0e9d7b6a5948372615040f3e2d1c"

typedef struct fault { /* how often a fault of a file has come */
    char key[256];
    int times;
} fault;

struct mock_hub {
    char root[PATH_BYTES];
    int sockets[2], ports[2]; /* the hub, the content network */
    pthread_t threads[2];
    pthread_mutex_t mutex;
    fault faults[MAX_FAULTS];
    size_t fault_count;
    atomic_bool stop, leaked;
    atomic_int bodies, connections, xet;
    atomic_llong bytes;
};

typedef struct request {
    mock_hub *hub;
    int fd;
    bool content; /* at the content network */
    bool head;    /* asks for headers only, as other clients do */
    char path[PATH_BYTES], token[256];
    long long from; /* of the header Range; -1: none */
} request;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- files ---- */

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, file) != *size) die(path);
    data[*size] = '\0';
    fclose(file);
    return data;
}

/* As the hub tells it: of a large file SHA-256, of others git's SHA-1 of a blob. */
static void digest(const char *data, size_t size, char text[65]) {
    unsigned char out[MOCK_DIGEST];
    char header[64];
    bool large = size >= MOCK_LARGE;
    size_t header_len = (size_t)snprintf(header, sizeof header, "blob %zu", size) + 1;
    size_t len = mock_digest(large, header, large ? 0 : header_len, data, size, out);
    for (size_t i = 0; i < len; i++)
        sprintf(text + 2 * i, "%02x", out[i]);
}

/* ---- faults ---- */

/* Whether a file has that fault now. number, word: its third word; may be NULL. */
static bool has_fault(mock_hub *hub, const char *repo, const char *file, const char *what,
                      long long *number, char word[WORD_BYTES]) {
    char path[PATH_BYTES + 16], line[2 * WORD_BYTES];
    bool found = false;
    snprintf(path, sizeof path, "%s/%s.faults", hub->root, repo);
    FILE *faults = fopen(path, "r");
    pthread_mutex_lock(&hub->mutex);
    while (faults && !found && fgets(line, sizeof line, faults)) {
        char kind[64] = "", name[128] = "", third[WORD_BYTES] = "", key[256];
        int times = 0;
        sscanf(line, "%63s %127s %599s %d", kind, name, third, &times);
        if (strcmp(kind, what) != 0 || strcmp(name, file) != 0) continue;
        snprintf(key, sizeof key, "%.60s %.60s %.60s %.40s", repo, what, file, third);
        size_t i = 0;
        while (i < hub->fault_count && strcmp(hub->faults[i].key, key) != 0)
            i++;
        if (i == hub->fault_count && i < MAX_FAULTS)
            strcpy(hub->faults[hub->fault_count++].key, key);
        found = !times || hub->faults[i].times < times;
        hub->faults[i].times += found;
        if (number) *number = atoll(third);
        if (word) strcpy(word, third);
    }
    pthread_mutex_unlock(&hub->mutex);
    if (faults) fclose(faults);
    return found;
}

/* ---- answers ---- */

static bool send_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool answer(const request *r, int code, const char *headers, const char *body) {
    char text[TEXT];
    int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n", code,
                     strlen(body), headers);
    return send_all(r->fd, text, (size_t)n) && send_all(r->fd, body, strlen(body));
}

static bool answer_missing(const request *r, const char *code) {
    char headers[128];
    snprintf(headers, sizeof headers, "X-Error-Code: %s\r\n", code);
    return answer(r, strcmp(code, "RepoNotFound") == 0 ? 401 : 404, headers, "{}");
}

/* Sends nothing more until the client or the test gives up. */
static void stall(const request *r) {
    struct pollfd poll_fd = {.fd = r->fd, .events = POLLIN};
    char byte;
    while (!r->hub->stop)
        if (poll(&poll_fd, 1, 20) != 0 && recv(r->fd, &byte, 1, MSG_PEEK) <= 0) return;
}

static bool send_body(const request *r, const char *repo, const char *file, const char *data,
                      size_t size) {
    char text[512];
    long long at = 0;
    mock_hub *hub = r->hub;
    bool part = r->from >= 0 && !has_fault(hub, repo, file, "whole", NULL, NULL);
    size_t from = part ? (size_t)r->from : 0;
    if (from >= size && size) return answer(r, 416, "", "");
    int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n",
                     part ? 206 : 200, size - from);
    if (part)
        n += snprintf(text + n, sizeof text - (size_t)n, "Content-Range: bytes %zu-%zu/%zu\r\n",
                      from, size - 1, size);
    n += snprintf(text + n, sizeof text - (size_t)n, "\r\n");
    if (!send_all(r->fd, text, (size_t)n)) return false;
    hub->bodies++;
    bool cut = has_fault(hub, repo, file, "cut", &at, NULL);
    bool stalled = !cut && has_fault(hub, repo, file, "stall", &at, NULL);
    size_t count = size - from;
    if ((cut || stalled) && (size_t)at < count) count = (size_t)at;
    hub->bytes += (long long)count;
    if (!send_all(r->fd, data + from, count)) return false;
    if (stalled) stall(r);
    return !cut && !stalled;
}

/* ---- the API ---- */

static void list_folder(const request *r, const char *repo, const char *below, char **out) {
    char folders[80];
    char path[4 * PATH_BYTES], name[PATH_BYTES], sum[65], *more;
    snprintf(path, sizeof path, "%s/%s/%s", r->hub->root, repo, below);
    DIR *dir = opendir(path);
    for (size_t i = 0; i < sizeof folders; i++)
        folders[i] = i % 2 ? '/' : 'd';
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat info;
        size_t size;
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%.500s%s%.255s", below, *below ? "/" : "", entry->d_name);
        snprintf(path, sizeof path, "%s/%s/%s", r->hub->root, repo, name);
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            list_folder(r, repo, name, out);
            continue;
        }
        char *data = read_file(path, &size);
        if (!data) die(path);
        digest(data, size, sum);
        bool outside = has_fault(r->hub, repo, name, "outside", NULL, NULL);
        bool deep = has_fault(r->hub, repo, name, "deep", NULL, NULL);
        long long told = (long long)size + has_fault(r->hub, repo, name, "short", NULL, NULL);
        (void)has_fault(r->hub, repo, name, "size", &told, NULL);
        bool xet = has_fault(r->hub, repo, name, "xet", NULL, NULL);
        if (size >= MOCK_LARGE)
            snprintf(path, sizeof path,
                     "\"oid\":\"%040d\",\"size\":%lld,\"lfs\":{\"oid\":\"%s\",\"size\":%lld,"
                     "\"pointerSize\":135}%s",
                     0, told, sum, told, xet ? ",\"xetHash\":\"" XET_HASH "\"" : "");
        else
            snprintf(path, sizeof path, "\"oid\":\"%s\",\"size\":%lld", sum, told);
        if (asprintf(&more, "%s%s{\"type\":\"file\",\"path\":\"%s%.*s%s\",%s}", *out,
                     (*out)[1] ? "," : "", outside ? "../" : "", deep ? (int)sizeof folders : 0,
                     folders, name, path) < 0)
            die("asprintf");
        free(*out);
        free(data);
        *out = more;
    }
    if (dir) closedir(dir);
}

/* A page of files that are not there: many/N.txt, of the contents that answer_many has. */
static bool answer_page(const request *r, const char *repo, long long from, long long count) {
    char headers[256] = "", sum[65], data[8];
    long long to = from + 1000 < count ? from + 1000 : count;
    char *list = malloc((size_t)(to - from) * 160 + 8), *at = list;
    if (!list) die("malloc");
    *at++ = '[';
    for (long long i = from; i < to; i++) {
        size_t n = (size_t)snprintf(data, sizeof data, "%lld", i % 100);
        digest(data, n, sum);
        at += sprintf(
            at, "%s{\"type\":\"file\",\"path\":\"many/%lld.txt\",\"oid\":\"%s\",\"size\":%zu}",
            i > from ? "," : "", i, sum, n);
    }
    strcpy(at, "]");
    if (to < count)
        snprintf(headers, sizeof headers,
                 "Link: <http://127.0.0.1:%d/api/models/%.100s/tree/" MOCK_COMMIT
                 "?from=%lld>; rel=\"next\"\r\n",
                 r->hub->ports[0], repo, to);
    bool on = answer(r, 200, headers, list);
    free(list);
    return on;
}

static bool answer_many(const request *r, const char *repo, const char *file) {
    char data[8];
    snprintf(data, sizeof data, "%lld", atoll(file + strlen("many/")) % 100);
    return send_body(r, repo, file, data, strlen(data));
}

static bool answer_tree(const request *r, const char *repo) {
    long long count = 0;
    const char *from = strstr(r->path, "?from=");
    bool many = has_fault(r->hub, repo, "*", "many", &count, NULL);
    if (many && from) return answer_page(r, repo, atoll(from + 6), count);
    char *list = strdup("["), word[WORD_BYTES], headers[WORD_BYTES + 32] = "";
    list_folder(r, repo, "", &list);
    list = realloc(list, strlen(list) + 2);
    strcat(list, "]");
    if (has_fault(r->hub, repo, "*", "next", NULL, word))
        snprintf(headers, sizeof headers, "Link: <%s>; rel=\"next\"\r\n", word);
    if (many)
        snprintf(headers, sizeof headers,
                 "Link: <http://127.0.0.1:%d/api/models/%.100s/tree/" MOCK_COMMIT
                 "?from=0>; rel=\"next\"\r\n",
                 r->hub->ports[0], repo);
    bool on = answer(r, 200, headers, list);
    free(list);
    return on;
}

/* Answers with the fault of a file, or of the repository as "*"; false: it has none. */
static bool answer_fault(const request *r, const char *repo, const char *file, bool *on) {
    long long code;
    char word[WORD_BYTES] = "", headers[WORD_BYTES + 32] = "";
    if (!has_fault(r->hub, repo, file, "status", &code, NULL)) return false;
    if (has_fault(r->hub, repo, file, "code", NULL, word))
        snprintf(headers, sizeof headers, "X-Error-Code: %s\r\n", word);
    if (has_fault(r->hub, repo, file, "after", NULL, word))
        snprintf(headers, sizeof headers, "Retry-After: %s\r\n", word);
    *on = answer(r, (int)code, headers, "{}");
    return true;
}

static bool answer_api(const request *r, char *rest) {
    bool on;
    char *what = strstr(rest, "/revision/"), *tree = strstr(rest, "/tree/");
    char *end = what ? what : tree;
    if (!end) return answer(r, 404, "", "");
    *end = '\0';
    const char *revision = end + (what ? 10 : 6);
    size_t len = strcspn(revision, "?");
    if (answer_fault(r, rest, "*", &on)) return on;
    if (strncmp(revision, "main", len) != 0 && strncmp(revision, "v1", len) != 0 &&
        strncmp(revision, MOCK_COMMIT, len) != 0)
        return answer_missing(r, "RevisionNotFound");
    if (tree) return answer_tree(r, rest);
    return answer(r, 200, "Content-Type: application/json\r\n",
                  "{\"id\":\"x\",\"sha\":\"" MOCK_COMMIT "\",\"siblings\":[]}");
}

static bool answer_head(const request *r, const char *repo, const char *file, const char *data,
                        size_t size) {
    char text[4 * PATH_BYTES], sum[65];
    bool large = size >= MOCK_LARGE && !r->content;
    digest(data, size, sum);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nETag: \"%s\"\r\n"
                     "X-Repo-Commit: " MOCK_COMMIT "\r\n",
                     large ? 302 : 200, large ? 0 : size, sum);
    if (large)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "X-Linked-Etag: \"%s\"\r\nX-Linked-Size: %zu\r\n"
                      "Location: http://127.0.0.1:%d/%s/resolve/x/%s\r\n",
                      sum, size, r->hub->ports[1], repo, file);
    n += snprintf(text + n, sizeof text - (size_t)n, "\r\n");
    return send_all(r->fd, text, (size_t)n);
}

/* The headers by which clients of xet find the chunks of a file. */
static void add_xet(const request *r, const char *repo, char *headers, size_t size) {
    const char *host = "http://127.0.0.1";
    snprintf(headers, size,
             "X-Xet-Hash: " XET_HASH "\r\n"
             "Link: <%s:%d/api/models/%s/xet-read-token/" MOCK_COMMIT ">; rel=\"xet-auth\", "
             "<%s:%d/v1/reconstructions/" XET_HASH ">; rel=\"xet-reconstruction-info\"\r\n",
             host, r->hub->ports[0], repo, host, r->hub->ports[1]);
}

static bool answer_file(const request *r, const char *repo, const char *file) {
    char path[4 * PATH_BYTES], headers[4 * PATH_BYTES];
    bool on;
    size_t size;
    if (answer_fault(r, repo, file, &on)) return on;
    if (has_fault(r->hub, repo, file, "loop", NULL, NULL)) {
        snprintf(headers, sizeof headers, "Location: %s\r\n", r->path);
        return answer(r, 302, headers, "");
    }
    if (strncmp(file, "many/", 5) == 0) return answer_many(r, repo, file);
    snprintf(path, sizeof path, "%s/%s/%s", r->hub->root, repo, file);
    char *data = read_file(path, &size);
    if (!data) return answer_missing(r, "EntryNotFound");
    if (r->head) {
        on = answer_head(r, repo, file, data, size);
    } else if (size >= MOCK_LARGE && !r->content) {
        int n =
            snprintf(headers, sizeof headers, "Location: http://127.0.0.1:%d/%s/resolve/x/%s\r\n",
                     r->hub->ports[1], repo, file);
        if (has_fault(r->hub, repo, file, "xet", NULL, NULL)) {
            add_xet(r, repo, headers + n, sizeof headers - (size_t)n);
            r->hub->xet++;
        }
        on = answer(r, 302, headers, "");
    } else {
        if (has_fault(r->hub, repo, file, "corrupt", NULL, NULL)) data[size / 2] ^= 1;
        on = send_body(r, repo, file, data, size);
    }
    free(data);
    return on;
}

/* ---- requests ---- */

static bool is_allowed(const request *r, const char *repo) {
    char path[4 * PATH_BYTES];
    size_t size;
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", r->hub->root, repo);
    if (stat(path, &info) != 0) return false;
    snprintf(path, sizeof path, "%s/%s/.token", r->hub->root, repo);
    char *token = read_file(path, &size);
    bool allowed = !token || r->content || strcmp(token, r->token) == 0;
    free(token);
    return allowed;
}

/* "/org/name/..." or "/api/models/org/name/...": whether the connection goes on. */
static bool handle(request *r) {
    char path[PATH_BYTES], repo[PATH_BYTES];
    bool api = strncmp(r->path, "/api/models/", 12) == 0;
    strcpy(path, r->path + (api ? 12 : 1));
    char *slash = strchr(path, '/'), *end = slash ? strchr(slash + 1, '/') : NULL;
    if (!end) return answer(r, 404, "", "");
    if (r->content && r->token[0]) {
        r->hub->leaked = true;
        return answer(r, 400, "", "");
    }
    snprintf(repo, sizeof repo, "%.*s", (int)(end - path), path);
    if (!is_allowed(r, repo)) return answer_missing(r, "RepoNotFound");
    if (api) return answer_api(r, path);
    char *file = strncmp(end, "/resolve/", 9) == 0 ? strchr(end + 9, '/') : NULL;
    return file ? answer_file(r, repo, file + 1) : answer(r, 404, "", "");
}

/* What follows a name of headers, in whatever case; NULL: it is not there. */
static const char *header(const char *text, const char *name) {
    size_t n = strlen(name);
    for (; (text = strstr(text, "\r\n")); text += 2)
        if (strncasecmp(text + 2, name, n) == 0) return text + 2 + n;
    return NULL;
}

static bool read_request(request *r) {
    char text[TEXT];
    size_t len = 0;
    r->from = -1;
    r->token[0] = '\0';
    while (len < sizeof text - 1) {
        struct pollfd poll_fd = {.fd = r->fd, .events = POLLIN};
        if (r->hub->stop) return false;
        if (poll(&poll_fd, 1, 20) <= 0) continue;
        ssize_t n = recv(r->fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0) return false;
        len += (size_t)n;
        text[len] = '\0';
        if (strstr(text, "\r\n\r\n")) break;
    }
    r->head = strncmp(text, "HEAD ", 5) == 0;
    if (sscanf(text, r->head ? "HEAD %1023s" : "GET %1023s", r->path) != 1) return false;
    const char *range = header(text, "Range: bytes="),
               *token = header(text, "Authorization: Bearer ");
    if (range) r->from = atoll(range);
    if (token) sscanf(token, "%255[^\r]", r->token);
    return true;
}

static void *serve(void *context) {
    request *r = context;
    while (read_request(r) && handle(r)) {}
    close(r->fd);
    r->hub->connections--;
    free(r);
    return NULL;
}

static void *listen_on(void *context) {
    request *which = context;
    mock_hub *hub = which->hub;
    bool content = which->content;
    free(which);
    while (!hub->stop) {
        struct pollfd poll_fd = {.fd = hub->sockets[content], .events = POLLIN};
        if (poll(&poll_fd, 1, 20) <= 0 || hub->connections >= MAX_CONNECTIONS) continue;
        pthread_t thread = 0;
        request *r = calloc(1, sizeof *r);
        if (!r) die("calloc");
        *r = (request){
            .hub = hub, .content = content, .fd = accept(hub->sockets[content], NULL, NULL)};
        hub->connections++;
        if (r->fd < 0 || pthread_create(&thread, NULL, serve, r) != 0) die("accept");
        pthread_detach(thread);
    }
    return NULL;
}

/* ---- starting and stopping ---- */

mock_hub *mock_hub_start(const char *root) {
    mock_hub *hub = calloc(1, sizeof *hub);
    if (!hub) die("calloc");
    snprintf(hub->root, sizeof hub->root, "%s", root);
    pthread_mutex_init(&hub->mutex, NULL);
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof address;
        hub->sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fcntl(hub->sockets[i], F_SETFD, FD_CLOEXEC) ||
            bind(hub->sockets[i], (struct sockaddr *)&address, len) ||
            listen(hub->sockets[i], 64) ||
            getsockname(hub->sockets[i], (struct sockaddr *)&address, &len))
            die("listen");
        hub->ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < 2; i++) {
        request *which = calloc(1, sizeof *which);
        if (!which) die("calloc");
        *which = (request){.hub = hub, .content = i};
        if (pthread_create(&hub->threads[i], NULL, listen_on, which) != 0) die("pthread_create");
    }
    return hub;
}

void mock_hub_stop(mock_hub *hub) {
    hub->stop = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(hub->threads[i], NULL);
        close(hub->sockets[i]);
    }
    while (hub->connections > 0)
        poll(NULL, 0, 1);
    pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

int mock_hub_port(const mock_hub *hub) {
    return hub->ports[0];
}

int mock_hub_bodies(mock_hub *hub) {
    return hub->bodies;
}

long long mock_hub_bytes(mock_hub *hub) {
    return hub->bytes;
}

int mock_hub_xet(mock_hub *hub) {
    return hub->xet;
}

bool mock_hub_leaked(mock_hub *hub) {
    return hub->leaked;
}

/* One request to a server of mica's, by libcurl. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/options.h"
#include "hub/http.h"
#include "hub/library.h"

#include <mica/serve.h>

#include <stdio.h>
#include <string.h>

enum { CONNECT_SECONDS = 15, SILENT_SECONDS = 60, MAX_ANSWER = 16 << 20 };

typedef struct question {
    const mica_ask_options *options;
    CURL *easy;
    struct curl_slist *headers;
    mc_buffer url, answer;
    bool too_long, nomem;
    char error[CURL_ERROR_SIZE];
} question;

static size_t take_bytes(char *bytes, size_t size, size_t count, void *user) {
    question *q = user;
    size_t n = size * count;
    q->too_long = q->answer.len + n > MAX_ANSWER;
    q->nomem = !q->too_long && !mc_buffer_add(&q->answer, bytes, n);
    return q->too_long || q->nomem ? n + 1 : n; /* more than there was ends the transfer */
}

static bool add_header(question *q, const char *name, const char *value) {
    mc_buffer line = {0};
    struct curl_slist *more = NULL;
    if (mc_buffer_printf(&line, "%s: %s", name, value) && mc_buffer_cstr(&line))
        more = mc_hub.slist_append(q->headers, line.data);
    mc_buffer_deinit(&line);
    if (more) q->headers = more;
    return more != NULL;
}

static mica_status check_key(const char *key) {
    for (const char *c = key; c && *c; c++)
        if (*c < ' ' || *c > '~')
            return mc_fail(MICA_EINVAL, "the key has a character that no key has");
    return MICA_OK;
}

static bool set_headers(question *q, const char *body) {
    mc_buffer bearer = {0};
    const char *key = q->options->key;
    bool done = !body || add_header(q, "Content-Type", "application/json");
    if (done && key)
        done = mc_buffer_printf(&bearer, "Bearer %s", key) && mc_buffer_cstr(&bearer) &&
               add_header(q, "Authorization", bearer.data);
    mc_buffer_deinit(&bearer);
    return done && (!q->headers || !mc_hub.easy_setopt(q->easy, CURLOPT_HTTPHEADER, q->headers));
}

/* Where the request goes: of "unix:PATH" through that socket, never by a proxy. */
static bool set_address(question *q, const char *address, const char *path) {
    bool file = strncmp(address, "unix:", 5) == 0;
    CURLcode bad = mc_hub.easy_setopt(q->easy, CURLOPT_PROXY, "");
    if (file) bad |= mc_hub.easy_setopt(q->easy, CURLOPT_UNIX_SOCKET_PATH, address + 5);
    return !bad && mc_buffer_printf(&q->url, "%s%s", file ? "http://localhost" : address, path) &&
           mc_buffer_cstr(&q->url) && !mc_hub.easy_setopt(q->easy, CURLOPT_URL, q->url.data);
}

/* The library would read all of what has no end. It tells of a file that is not there. */
static mica_status check_certificates(const char *path) {
    mc_filemap file = {0};
    mc_path_info info;
    if (!path || !mc_path_stat(path, &info)) return MICA_OK;
    mica_status status = mc_filemap_read(path, MC_FILE_CERTIFICATE, 0, NULL, &file);
    mc_filemap_close(&file);
    return status;
}

static bool set_certificates(question *q) {
    if (!q->options->any_certificate) return mc_http_trust(q->easy, q->options->certificates);
    return !mc_hub.easy_setopt(q->easy, CURLOPT_SSL_VERIFYPEER, 0L) &&
           !mc_hub.easy_setopt(q->easy, CURLOPT_SSL_VERIFYHOST, 0L);
}

static bool prepare(question *q, const char *method, const char *body) {
    CURL *easy = q->easy;
    int seconds = q->options->silent_seconds;
    CURLcode bad = mc_hub.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_ERRORBUFFER, q->error);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_WRITEDATA, q);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                              (long)(seconds > 0 ? seconds : SILENT_SECONDS));
    if (body) bad |= mc_hub.easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    return !bad && set_headers(q, body) && set_certificates(q);
}

static mica_status explain(const question *q, CURLcode result) {
    long error = 0;
    const char *text = q->error[0] ? q->error : mc_hub.easy_strerror(result);
    (void)mc_hub.easy_getinfo(q->easy, CURLINFO_OS_ERRNO, &error);
    if (q->nomem || result == CURLE_OUT_OF_MEMORY) return mc_fail_nomem("an answer");
    if (q->too_long) return mc_fail(MICA_EFORMAT, "the answer has more than 16 MiB");
    if (result == CURLE_COULDNT_CONNECT)
        return mc_fail(MICA_ENOENT, "%s", error ? strerror((int)error) : text);
    if (result == CURLE_COULDNT_RESOLVE_HOST) return mc_fail(MICA_ENOENT, "%s", text);
    if (result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_WEIRD_SERVER_REPLY)
        return mc_fail(MICA_EFORMAT, "what answers is no server of HTTP");
    return mc_fail(MICA_EIO, "%s", text);
}

static mica_status ask(question *q, const char *address, const char *method, const char *path,
                       const char *body, int *status) {
    long code = 0;
    q->easy = mc_hub.easy_init();
    if (!q->easy || !prepare(q, method, body) || !set_address(q, address, path))
        return mc_fail_nomem("a request");
    CURLcode result = mc_hub.easy_perform(q->easy);
    if (result != CURLE_OK) return explain(q, result);
    (void)mc_hub.easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &code);
    *status = (int)code;
    return mc_buffer_cstr(&q->answer) ? MICA_OK : mc_fail_nomem("an answer");
}

mica_status mica_server_ask(const char *address, const char *method, const char *path,
                            const char *body, const mica_ask_options *options, int *status,
                            char **answer) {
    mica_ask_options given;
    if (!answer || !status) return mc_fail(MICA_EINVAL, "mica_server_ask: nothing to fill");
    *answer = NULL;
    *status = 0;
    if (!address || !method || !path || *path != '/')
        return mc_fail(MICA_EINVAL, "mica_server_ask: want an address, a method and a path");
    if (strncmp(address, "http://", 7) != 0 && strncmp(address, "https://", 8) != 0 &&
        strncmp(address, "unix:", 5) != 0)
        return mc_fail(MICA_EINVAL, "%s is no address: want http://, https:// or unix:", address);
    MC_TRY(MC_OPTIONS_COPY(mica_ask_options, silent_seconds, &given, options));
    MC_TRY(check_key(given.key));
    if (!given.any_certificate) MC_TRY(check_certificates(given.certificates));
    MC_TRY(mc_hub_load());
    question q = {.options = &given};
    mica_status result = ask(&q, address, method, path, body, status);
    if (result == MICA_OK) *answer = mc_buffer_take(&q.answer);
    if (q.easy) mc_hub.easy_cleanup(q.easy);
    mc_hub.slist_free_all(q.headers);
    mc_buffer_deinit(&q.url);
    mc_buffer_deinit(&q.answer);
    return result;
}

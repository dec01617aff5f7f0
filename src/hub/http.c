#include "hub/http.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "base/system.h"
#include "hub/library.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <mica/version.h>

enum { MAX_REDIRECTS = 10, CONNECT_SECONDS = 15 };
enum { MAX_WAIT_SECONDS = 60, TRY_WAIT_US = 250000 };

struct mc_http {
    mc_http_options options;
    CURLM *multi;
    char *bearer;        /* the header with the token; NULL: none */
    uint64_t told_until; /* a wait until then was told */
};

/* ---- addresses ---- */

/* The file of certificates that the environment names; NULL: libcurl's own. */
static const char *find_certificates(void) {
    /* $CURL_CA_BUNDLE, $REQUESTS_CA_BUNDLE, $SSL_CERT_FILE: a file of certificates to trust; the
     * first that is set counts */
    static const char *const variables[] = {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                                            "SSL_CERT_FILE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value) return value;
    }
    return NULL;
}

bool mc_http_trust(void *easy, const char *file) {
    /* Windows asks who has signed a certificate for those that are revoked: where there is no such
     * list, or its server does not answer, the certificate counts. Other systems do not ask. */
    (void)mc_hub.easy_setopt(easy, CURLOPT_SSL_OPTIONS, (long)CURLSSLOPT_REVOKE_BEST_EFFORT);
    if (!file) file = find_certificates();
    if (!file) return true;
    /* The system's folder is looked into beside the file, unless libcurl has none. */
    CURLcode folder = mc_hub.easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (folder == CURLE_NOT_BUILT_IN || folder == CURLE_UNKNOWN_OPTION) folder = CURLE_OK;
    return !folder && !mc_hub.easy_setopt(easy, CURLOPT_CAINFO, file);
}

/* Whether two addresses have the same scheme, host and port. */
static bool same_origin(const char *a, const char *b) {
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *urls[2] = {mc_hub.url(), mc_hub.url()};
    bool same = urls[0] && urls[1] && !mc_hub.url_set(urls[0], CURLUPART_URL, a, 0) &&
                !mc_hub.url_set(urls[1], CURLUPART_URL, b, 0);
    for (size_t i = 0; same && i < sizeof parts / sizeof *parts; i++) {
        char *texts[2] = {NULL, NULL};
        same = !mc_hub.url_get(urls[0], parts[i], &texts[0], CURLU_DEFAULT_PORT) &&
               !mc_hub.url_get(urls[1], parts[i], &texts[1], CURLU_DEFAULT_PORT) &&
               strcasecmp(texts[0], texts[1]) == 0;
        mc_hub.free(texts[0]);
        mc_hub.free(texts[1]);
    }
    mc_hub.url_cleanup(urls[0]);
    mc_hub.url_cleanup(urls[1]);
    return same;
}

static bool starts(const char *text, const char *with) {
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* A plain address may lead to any of either kind, a safe one to safe ones only. libcurl knows more:
 * files, and other protocols. */
static bool may_follow(const char *from, const char *to) {
    return starts(to, "https://") || (starts(to, "http://") && starts(from, "http://"));
}

/* ---- headers ---- */

/* Copies the value of a header line that has that name. */
static void keep_header(const char *line, size_t len, const char *name, char *out, size_t bytes) {
    size_t name_len = strlen(name);
    if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':') return;
    const char *from = line + name_len + 1, *to = line + len;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (unsigned char)to[-1] <= ' ')
        to--;
    if ((size_t)(to - from) >= bytes) return;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
}

/* `<address>; rel="next"` becomes the address. */
static void keep_next(mc_http_transfer *t, const char *link) {
    const char *open = strchr(link, '<'), *close = open ? strchr(open, '>') : NULL;
    if (!close || !strstr(close, "rel=\"next\"")) return;
    snprintf(t->next, sizeof t->next, "%.*s", (int)(close - open - 1), open + 1);
}

static size_t on_header(char *line, size_t size, size_t count, void *user) {
    mc_http_transfer *t = user;
    char text[MC_HTTP_URL] = "", range[MC_HTTP_TEXT] = "";
    size_t len = size * count;
    if (len > 5 && memcmp(line, "HTTP/", 5) == 0) { /* of the next answer */
        t->partial = false;
        t->error_code[0] = t->error_text[0] = t->next[0] = '\0';
    }
    keep_header(line, len, "X-Error-Code", t->error_code, sizeof t->error_code);
    keep_header(line, len, "X-Error-Message", t->error_text, sizeof t->error_text);
    keep_header(line, len, "Content-Range", range, sizeof range);
    keep_header(line, len, "Link", text, sizeof text);
    if (range[0]) t->partial = starts(range, "bytes ") && strtoull(range + 6, NULL, 10) == t->from;
    if (text[0]) keep_next(t, text);
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user) {
    mc_http_transfer *t = user;
    long code = 0;
    size_t len = size * count;
    (void)mc_hub.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code < 200 || code > 299) return len; /* a page about a redirect or an error */
    if (code != 206) t->partial = false;
    if (code == 206 && !t->partial) {
        t->status = mc_fail(MICA_EFORMAT, "the answer is of another part than was asked for");
    } else {
        t->status = t->take(t, bytes, len);
    }
    if (t->status == MICA_OK) return len;
    mica_error_text(t->failure, sizeof t->failure);
    return len + 1; /* ends the transfer */
}

/* ---- transfers ---- */

/* Sets the address and what depends on it. */
static bool aim(mc_http_transfer *t, const char *url) {
    struct curl_slist *headers = NULL, *more;
    const mc_http *http = t->http;
    if (http->bearer && same_origin(url, http->options.endpoint)) {
        headers = mc_hub.slist_append(NULL, http->bearer);
        if (!headers) return false;
    }
    more = mc_hub.slist_append(headers, "Accept-Encoding: identity");
    if (!more || mc_hub.easy_setopt(t->easy, CURLOPT_URL, url) ||
        mc_hub.easy_setopt(t->easy, CURLOPT_HTTPHEADER, more)) {
        mc_hub.slist_free_all(more ? more : headers);
        return false;
    }
    mc_hub.slist_free_all(t->headers);
    t->headers = more;
    return true;
}

static bool prepare(mc_http_transfer *t) {
    char range[32];
    CURL *easy = t->easy;
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->from);
    CURLcode bad = mc_hub.easy_setopt(easy, CURLOPT_PRIVATE, t);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_USERAGENT, "mica/" MICA_VERSION);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_HEADERDATA, t);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_WRITEDATA, t);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    bad |= mc_hub.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)t->http->options.stall_seconds);
    if (t->from) bad |= mc_hub.easy_setopt(easy, CURLOPT_RANGE, range);
    return !bad && mc_http_trust(easy, NULL) && aim(t, t->url);
}

mica_status mc_http_start(mc_http *http, mc_http_transfer *t) {
    if (!may_follow(http->options.endpoint, t->url))
        return mc_fail(MICA_EFORMAT, "%s is no address of a hub: want one of https", t->url);
    t->http = http;
    t->ended = t->partial = false;
    t->status = MICA_OK;
    t->code = t->redirects = 0;
    t->retry_after = 0;
    t->failure[0] = t->error_code[0] = t->error_text[0] = t->next[0] = t->error[0] = '\0';
    t->easy = mc_hub.easy_init();
    if (t->easy && prepare(t) && !mc_hub.multi_add_handle(http->multi, t->easy)) return MICA_OK;
    if (t->easy) mc_hub.easy_cleanup(t->easy);
    mc_hub.slist_free_all(t->headers);
    t->easy = t->headers = NULL;
    return mc_fail_nomem("a transfer");
}

void mc_http_drop(mc_http *http, mc_http_transfer *t) {
    if (!t->easy) return;
    (void)mc_hub.multi_remove_handle(http->multi, t->easy);
    mc_hub.easy_cleanup(t->easy);
    mc_hub.slist_free_all(t->headers);
    t->easy = t->headers = NULL;
    t->ended = true;
}

/* ---- ends ---- */

static void fail_transfer(mc_http_transfer *t, mica_status status, const char *text) {
    t->status = status;
    snprintf(t->failure, sizeof t->failure, "%s", text);
}

/* Goes on at another address. Returns false if the transfer ends instead. */
static bool redirect(mc_http_transfer *t) {
    char *to = NULL;
    (void)mc_hub.easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    const char *from = NULL;
    (void)mc_hub.easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &from);
    if (t->code < 301 || t->code > 308 || !to) return false;
    if (t->redirects++ >= MAX_REDIRECTS)
        fail_transfer(t, MICA_EFORMAT, "too many redirects");
    else if (!from || !may_follow(from, to))
        fail_transfer(t, MICA_EFORMAT, "a redirect to an address that is not https");
    else {
        char *copy = mc_strdup(to); /* libcurl's own goes with the next address */
        (void)mc_hub.multi_remove_handle(t->http->multi, t->easy);
        bool on = copy && aim(t, copy) && !mc_hub.multi_add_handle(t->http->multi, t->easy);
        mc_free(copy);
        if (on) return true;
        fail_transfer(t, MICA_ENOMEM, "no memory for a redirect");
    }
    return false;
}

static void finish(mc_http_transfer *t, CURLcode result) {
    long code = 0;
    curl_off_t seconds = 0; /* a date as well, as the time until then */
    (void)mc_hub.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    (void)mc_hub.easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &seconds);
    t->code = (int)code;
    t->retry_after = seconds > 0 ? (int64_t)seconds : 0;
    if (result == CURLE_OK && redirect(t)) return;
    if (result != CURLE_OK && t->status == MICA_OK)
        fail_transfer(t, MICA_EIO, t->error[0] ? t->error : mc_hub.easy_strerror(result));
    t->ended = true;
}

mica_status mc_http_wait(mc_http *http, int max_ms) {
    int running, left;
    bool news = false; /* for the caller to look at */
    CURLMsg *message;
    CURLMcode bad = mc_hub.multi_perform(http->multi, &running);
    while (!bad && (message = mc_hub.multi_info_read(http->multi, &left))) {
        mc_http_transfer *t = NULL;
        if (message->msg != CURLMSG_DONE) continue;
        CURLcode result = message->data.result;
        (void)mc_hub.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        finish(t, result);
        news = true;
    }
    MC_TRY(mc_cancel_check(http->options.cancel));
    if (!bad && !news) bad = mc_hub.multi_poll(http->multi, NULL, 0, max_ms, NULL);
    return bad ? mc_fail(MICA_EIO, "libcurl: %s", mc_hub.multi_strerror(bad)) : MICA_OK;
}

bool mc_http_answered(const mc_http_transfer *t) {
    return t->status == MICA_OK && t->code >= 200 && t->code < 300;
}

bool mc_http_may_retry(const mc_http_transfer *t) {
    if (t->status != MICA_OK) return t->status == MICA_EIO; /* the network failed */
    return t->code == 0 || t->code == 408 || t->code == 416 || t->code == 429 || t->code >= 500 ||
           mc_http_answered(t); /* too short */
}

/* Several transfers that are sent away at once are told as one. */
static void tell_wait(mc_http *http, const mc_http_transfer *t, int64_t seconds) {
    char text[MC_HTTP_TEXT];
    uint64_t now = mc_now_us();
    if (!http->options.notice || now < http->told_until) return;
    http->told_until = now + (uint64_t)seconds * 1000000;
    snprintf(text, sizeof text, "%.100s answers %d and asks to wait %" PRId64 " s%s",
             http->options.endpoint, t->code, t->retry_after,
             seconds < t->retry_after ? "; it is asked again in a minute" : "");
    http->options.notice(http->options.notice_user, text);
}

uint64_t mc_http_retry_us(mc_http *http, const mc_http_transfer *t, int tries) {
    int64_t seconds = mc_min(t->retry_after, MAX_WAIT_SECONDS);
    if (seconds == 0) return tries > 1 ? (uint64_t)TRY_WAIT_US << (tries - 1) : 0;
    tell_wait(http, t, seconds);
    return (uint64_t)seconds * 1000000;
}

/* ---- opening and closing ---- */

static mica_status set_bearer(mc_http *http) {
    static const char begin[] = "Authorization: Bearer ";
    const char *token = http->options.token;
    if (!token || !*token) return MICA_OK;
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return mc_fail(MICA_EINVAL, "the token for the hub has a blank or another character "
                                        "that no token has");
    http->bearer = mc_alloc(sizeof begin + strlen(token));
    if (!http->bearer) return mc_fail_nomem("a token");
    strcpy(http->bearer, begin);
    strcat(http->bearer, token);
    return MICA_OK;
}

mica_status mc_http_open(const mc_http_options *options, mc_http **out) {
    *out = NULL;
    if (!starts(options->endpoint, "https://") && !starts(options->endpoint, "http://"))
        return mc_fail(MICA_EINVAL, "%s is no address of a hub: it begins with https:// or http://",
                       options->endpoint);
    MC_TRY(mc_hub_load());
    mc_http *http = mc_calloc(1, sizeof *http);
    if (!http) return mc_fail_nomem("a connection to the hub");
    http->options = *options;
    mica_status status = set_bearer(http);
    if (status == MICA_OK && !(http->multi = mc_hub.multi_init()))
        status = mc_fail_nomem("a connection to the hub");
    if (status == MICA_OK)
        *out = http;
    else
        mc_http_close(&http);
    return status;
}

void mc_http_close(mc_http **http) {
    if (!*http) return;
    if ((*http)->multi) (void)mc_hub.multi_cleanup((*http)->multi);
    mc_free((*http)->bearer);
    mc_free(*http);
    *http = NULL;
}

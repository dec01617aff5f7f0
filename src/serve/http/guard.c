#include "serve/http/guard.h"

#include "base/alloc.h"
#include "serve/http/request_head.h"

#include <string.h>
#include <strings.h>

/* ---- the guard ---- */

static bool copy(const char *const *from, size_t count, char ***out, size_t *n) {
    *out = mc_calloc(count ? count : 1, sizeof **out);
    if (!*out) return false;
    for (; *n < count; ++*n)
        if (!((*out)[*n] = mc_strdup(from[*n]))) return false;
    return true;
}

mica_status mc_guard_open(mc_guard *guard, const mica_server_options *options, bool unix_socket) {
    *guard = (mc_guard){.any_host = options->api_key_count > 0 || unix_socket};
    for (size_t i = 0; i < options->api_key_count; i++)
        if (!options->api_keys[i] || !*options->api_keys[i])
            return mc_fail(MICA_EINVAL, "a key is empty");
    if (options->host && !(guard->own = mc_strdup(options->host)))
        return mc_fail_nomem("the server's options");
    bool done =
        copy(options->api_keys, options->api_key_count, &guard->keys, &guard->key_count) &&
        copy(options->origins, options->origin_count, &guard->origins, &guard->origin_count) &&
        copy(options->hosts, options->host_count, &guard->hosts, &guard->host_count);
    return done ? MICA_OK : mc_fail_nomem("the server's options");
}

static void free_all(char **texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        mc_free(texts[i]);
    mc_free(texts);
}

void mc_guard_close(mc_guard *guard) {
    free_all(guard->keys, guard->key_count);
    free_all(guard->origins, guard->origin_count);
    free_all(guard->hosts, guard->host_count);
    mc_free(guard->own);
    *guard = (mc_guard){0};
}

/* ---- heads ---- */

/* Whether a name is a token (RFC 9110 5.6.2) and a value has no control characters but tabs. */
static bool is_header(const char *name, const char *value) {
    static const char marks[] = "!#$%&'*+-.^_`|~";
    if (!*name) return false;
    for (; *name; name++) {
        bool letter = (*name | 0x20) >= 'a' && (*name | 0x20) <= 'z';
        if (!letter && !(*name >= '0' && *name <= '9') && !strchr(marks, *name)) return false;
    }
    for (; *value; value++)
        if (((unsigned char)*value < 0x20 && *value != '\t') || *value == 0x7f) return false;
    return true;
}

void mc_head_add(mc_head *head, const char *name, const char *value) {
    if (!value) value = "";
    if (!is_header(name, value)) head->malformed = true;
    if (strcasecmp(name, "host") == 0) {
        head->host = value;
        head->hosts++;
    } else if (strcasecmp(name, "content-length") == 0) {
        head->length = value;
        head->lengths++;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        head->encoding = value;
        head->encodings++;
    } else if (strcasecmp(name, "origin") == 0) {
        head->origin = value;
    } else if (strcasecmp(name, "sec-fetch-site") == 0) {
        head->site = value;
    } else if (strcasecmp(name, "authorization") == 0) {
        head->authorization = value;
    } else if (strcasecmp(name, "x-api-key") == 0) {
        head->api_key = value;
    } else if (strcasecmp(name, "access-control-request-headers") == 0) {
        head->asked_headers = value;
    } else if (strcasecmp(name, "if-none-match") == 0) {
        head->known_tags = value;
    } else if (strcasecmp(name, "accept-encoding") == 0) {
        head->codings = value;
    } else if (strcasecmp(name, "x-request-id") == 0) {
        head->request_id = value;
    } else if (strcasecmp(name, "content-encoding") == 0) {
        head->packing = value;
    } else if (strcasecmp(name, MC_FRONT_HEADER) == 0) {
        head->refusal = value;
    } else if (strcasecmp(name, "anthropic-version") == 0) {
        head->anthropic = true;
    }
}

bool mc_head_knows(const char *tags, const char *etag) {
    size_t len = strlen(etag);
    while (tags && *tags) {
        tags += strspn(tags, " \t,");
        if (*tags == '*') return true;
        if (strncmp(tags, "W/", 2) == 0) tags += 2; /* weak ones are equal, too */
        bool same = strncmp(tags, etag, len) == 0 && strchr(" \t,", tags[len]);
        if (same) return true;
        tags += *tags == '"' ? 1 : 0;
        tags += strcspn(tags, "\"");
        tags += *tags == '"';
    }
    return false;
}

/* Whether a coding's parameters, up to a comma, give it a weight of 0: ";q=0.000". */
static bool is_refused(const char *at) {
    at += strspn(at, " \t");
    if (*at++ != ';') return false;
    at += strspn(at, " \t");
    if (strncasecmp(at, "q=0", 3) != 0) return false;
    at += 3;
    if (*at == '.') at += 1 + strspn(at + 1, "0");
    return *at < '1' || *at > '9';
}

bool mc_head_takes_gzip(const char *codings) {
    bool any = false;
    while (codings && *codings) {
        codings += strspn(codings, " \t,");
        size_t len = strcspn(codings, " \t,;");
        bool refused = is_refused(codings + len);
        if ((len == 4 && strncasecmp(codings, "gzip", len) == 0) ||
            (len == 6 && strncasecmp(codings, "x-gzip", len) == 0))
            return !refused; /* its own name counts more than "*" */
        if (len == 1 && *codings == '*') any = !refused;
        codings += len;
        codings += strcspn(codings, ",");
    }
    return any;
}

/* The name in a Host: without port, of [::1] what is in the brackets. Empty: it is no Host. */
static mc_str name_of(const char *host) {
    bool brackets = *host == '[';
    mc_str name = {host + brackets, strcspn(host + brackets, brackets ? "]" : ":")};
    const char *rest = name.ptr + name.len;
    if (brackets && *rest++ != ']') return MC_STR("");
    if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
    return *rest ? MC_STR("") : name;
}

static bool same_name(mc_str a, const char *b) {
    return a.len == strlen(b) && strncasecmp(a.ptr, b, a.len) == 0;
}

/* An address is no name that somebody else could make mean this machine. */
static bool is_address(mc_str name) {
    size_t digits = 0;
    bool colon = false;
    for (size_t i = 0; i < name.len; i++) {
        colon = colon || name.ptr[i] == ':';
        if (strchr("0123456789.", name.ptr[i])) digits++;
    }
    if (colon) return true; /* a name holds none, and a port's was cut off */
    return name.len > 0 && digits == name.len && name.ptr[name.len - 1] != '.';
}

static bool is_own_host(const mc_guard *guard, const char *host) {
    mc_str name = name_of(host);
    if (!name.len) return false;
    if (is_address(name) || same_name(name, "localhost")) return true;
    if (guard->own && same_name(name, guard->own)) return true;
    for (size_t i = 0; i < guard->host_count; i++)
        if (same_name(name, guard->hosts[i])) return true;
    return false;
}

bool mc_guard_allows_origin(const mc_guard *guard, const char *origin) {
    for (size_t i = 0; i < guard->origin_count; i++)
        if (strcmp(guard->origins[i], "*") == 0 || strcasecmp(guard->origins[i], origin) == 0)
            return true;
    return false;
}

/* A page of the server itself: its origin is the Host that it asks. */
static bool is_own_origin(const mc_head *head) {
    const char *scheme = strstr(head->origin, "://");
    return scheme && strcasecmp(scheme + 3, head->host) == 0;
}

/* What a page of another site has a browser fetch without its Origin; unless any page may ask. */
static bool is_strange(const mc_guard *guard, const mc_head *head) {
    if (head->origin || !head->site || mc_guard_allows_origin(guard, "*")) return false;
    return strcasecmp(head->site, "cross-site") == 0 || strcasecmp(head->site, "same-site") == 0;
}

/* ---- keys ---- */

/* Takes as long for every text of one length. */
static bool same_key(const char *key, const char *given, size_t len) {
    size_t key_len = strlen(key);
    unsigned differ = key_len != len;
    for (size_t i = 0; i < len; i++)
        differ |=
            (unsigned)((unsigned char)key[key_len ? i % key_len : 0] ^ (unsigned char)given[i]);
    return differ == 0;
}

/* Which of the keys the head has, from 1 on; 0: none. */
static size_t find_key(const mc_guard *guard, const mc_head *head) {
    const char *given = head->api_key;
    if (head->authorization && strncasecmp(head->authorization, "bearer ", 7) == 0)
        given = head->authorization + 7;
    if (!given) return 0;
    size_t len = strlen(given), found = 0;
    for (size_t i = 0; i < guard->key_count; i++) /* all of them, whichever fits */
        found = same_key(guard->keys[i], given, len) ? i + 1 : found;
    return found;
}

bool mc_guard_check(const mc_guard *guard, const mc_head *head, bool open, size_t *key,
                    mc_failure *failure) {
    *key = find_key(guard, head);
    if (head->malformed)
        return mc_failure_set(failure, 400, "invalid_header", NULL,
                              "a header's name is no token, or its value has control characters");
    if (head->hosts != 1)
        return mc_failure_set(failure, 400, "invalid_host", NULL, "the request has %s Host header",
                              head->hosts ? "more than one" : "no");
    if (head->lengths > 1)
        return mc_failure_set(failure, 400, "invalid_length", NULL,
                              "the request has more than one Content-Length");
    if (head->lengths && head->encodings)
        return mc_failure_set(failure, 400, "invalid_length", NULL,
                              "the request has both Content-Length and Transfer-Encoding");
    if (head->encodings > 1 || (head->encoding && strcasecmp(head->encoding, "chunked") != 0))
        return mc_failure_set(failure, 400, "invalid_encoding", NULL,
                              "the Transfer-Encoding must be chunked");
    if (!guard->any_host && !is_own_host(guard, head->host))
        return mc_failure_set(failure, 403, "invalid_host", NULL,
                              "the Host %.100s is no name of this server, nor one that it allows",
                              head->host);
    if (head->origin && !is_own_origin(head) && !mc_guard_allows_origin(guard, head->origin))
        return mc_failure_set(failure, 403, "invalid_origin", NULL,
                              "pages of %.100s may not use this server", head->origin);
    if (!open && is_strange(guard, head))
        return mc_failure_set(failure, 403, "invalid_origin", NULL,
                              "pages of other sites may not use this server");
    if (!open && guard->key_count && !*key)
        return mc_failure_set(failure, 401, "invalid_api_key", NULL,
                              "the request has no valid key: want Authorization: Bearer KEY");
    return true;
}

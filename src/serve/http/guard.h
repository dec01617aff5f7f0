/* Who may ask: what is checked of a request's head before anything else.
 *
 * Against pages of other sites, which a browser on this machine lets ask: the Host must be a name
 * of this server (a page's own name may be made to mean 127.0.0.1), and the Origin the server's own
 * or one that was allowed. What a page has fetched as an image or a script has no Origin, but
 * Sec-Fetch-Site says that it is of another site. Against servers in front that understand a head
 * otherwise: a length and a transfer encoding together, more than one length, more than one Host or
 * none, headers whose name is no token or whose value has control characters. Against others: keys,
 * compared in a time that does not depend on where they differ.
 *
 * Threads: an open guard never changes. */
#ifndef SERVE_HTTP_GUARD_H
#define SERVE_HTTP_GUARD_H

#include "serve/common/failure.h"

#include <mica/serve.h>

/* The parts of a head that count. NULL: absent. */
typedef struct mc_head {
    const char *host, *origin, *site, *authorization, *api_key, *encoding, *length;
    /* site: Sec-Fetch-Site */
    const char *asked_headers;     /* Access-Control-Request-Headers */
    const char *known_tags;        /* If-None-Match */
    const char *codings;           /* Accept-Encoding */
    const char *request_id;        /* X-Request-Id */
    const char *packing;           /* Content-Encoding */
    const char *refusal;           /* of the front (serve/http/request_head.h) */
    int hosts, lengths, encodings; /* numbers of these headers */
    bool anthropic;                /* it has Anthropic's version of its API */
    bool malformed;                /* a header is none: others may read the head otherwise */
} mc_head;

typedef struct mc_guard {
    char **keys, **origins, **hosts; /* [.._count] */
    size_t key_count, origin_count, host_count;
    char *own;     /* the name that it listens at; NULL: none */
    bool any_host; /* the Host proves nothing: there are keys, or a socket of the file system */
} mc_guard;

/* Copies the keys, origins and hosts of the options. after an error: mc_guard_close, too.
 * errors  MICA_EINVAL an empty key; MICA_ENOMEM */
mica_status mc_guard_open(mc_guard *guard, const mica_server_options *options, bool unix_socket);
void mc_guard_close(mc_guard *guard);

/* Adds a header's value to a head. Only the headers of mc_head count, but all must be
 * well-formed. value NULL: "". */
void mc_head_add(mc_head *head, const char *name, const char *value);

/* open: no key is needed.
 *
 *  key      receives which of the keys it has, from 1 on; 0: none.
 *  returns  false: *failure says why */
bool mc_guard_check(const mc_guard *guard, const mc_head *head, bool open, size_t *key,
                    mc_failure *failure);

/* Whether an ETag is among those of an If-None-Match (RFC 9110 13.1.2), tags; NULL: it has none. */
bool mc_head_knows(const char *tags, const char *etag);

/* Whether gzip is among the codings of an Accept-Encoding (RFC 9110 12.5.3), by its name or as "*",
 * and not with a weight of 0; NULL: it has none. */
bool mc_head_takes_gzip(const char *codings);

/* Whether pages of that origin may read answers: it was allowed by name or by "*". */
bool mc_guard_allows_origin(const mc_guard *guard, const char *origin);

#endif

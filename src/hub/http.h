/* HTTP transfers by libcurl, several at once, in the caller's thread.
 *
 *     mc_http *http;
 *     MC_TRY(mc_http_open(&options, &http));
 *     mc_http_transfer t = {.url = url, .take = take};
 *     mica_status status = mc_http_start(http, &t);
 *     while (status == MICA_OK && !t.ended) status = mc_http_wait(http, MC_HTTP_WAIT_MS);
 *     mc_http_drop(http, &t);
 *     mc_http_close(&http);
 *
 * Redirects are followed, from https to https only, and an endpoint of https leads to no other
 * addresses either. Those of other protocols than https and http are refused. The token goes to the
 * endpoint's own scheme, host and port, and to no other. */
#ifndef HUB_HTTP_H
#define HUB_HTTP_H

#include "base/cancel.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_http mc_http;

typedef struct mc_http_options { /* borrowed until mc_http_close */
    const char *endpoint;
    const char *token; /* NULL: none */
    int stall_seconds;
    const mica_cancel *cancel;
    void (*notice)(void *user, const char *text); /* of waiting for the hub; may be NULL */
    void *notice_user;
} mc_http_options;

enum { MC_HTTP_TEXT = 256, MC_HTTP_URL = 4096, MC_HTTP_WAIT_MS = 100 };

typedef struct mc_http_transfer {
    /* Set by the caller. */
    const char *url; /* borrowed until it ended */
    uint64_t from;   /* asks for the bytes from there on */
    /* Takes a piece of a body whose code is 2xx; another status than MICA_OK ends the transfer. */
    mica_status (*take)(struct mc_http_transfer *transfer, const void *bytes, size_t count);
    void *user; /* for take */

    /* Set by the answer: partial before the first call of take, the others when it ended. */
    bool partial;               /* the body begins at `from`; else at 0 */
    bool ended;                 /* there will be no more calls of take */
    mica_status status;         /* of take; MICA_EIO: the network failed; MICA_EFORMAT: a redirect
                                        that is not followed; MICA_ENOMEM */
    char failure[MC_HTTP_TEXT]; /* the error's text if status is not MICA_OK */
    int code;                   /* 200, 404; 0: there was no answer */
    char error_code[MC_HTTP_TEXT]; /* the header X-Error-Code: "GatedRepo"; "" */
    char error_text[MC_HTTP_TEXT]; /* the header X-Error-Message; "" */
    char next[MC_HTTP_URL];        /* the header Link's page with rel="next"; "" */
    int64_t retry_after;           /* seconds, of the header Retry-After; 0: none */

    /* Private. */
    mc_http *http;
    void *easy, *headers;
    int redirects;
    char error[MC_HTTP_TEXT]; /* libcurl's */
} mc_http_transfer;

/* Trusts the certificates of a file, and no others; file NULL: of the one that the environment
 * names, else those that libcurl trusts. easy: a CURL. false: libcurl has no memory, or no TLS. */
bool mc_http_trust(void *easy, const char *file);

/* errors  MICA_EINVAL the endpoint is no http or https address; MICA_ENOMEM */
mica_status mc_http_open(const mc_http_options *options, mc_http **http);
void mc_http_close(mc_http **http); /* after all transfers were dropped */

/* errors  MICA_EFORMAT an address that the endpoint may not lead to; MICA_ENOMEM */
mica_status mc_http_start(mc_http *http, mc_http_transfer *transfer);

/* Moves transfers on, and waits for something to do.
 * max_ms  no longer than that; 0: not at all, where the caller has other work
 * errors  MICA_ECANCELLED; MICA_EIO */
mica_status mc_http_wait(mc_http *http, int max_ms);

/* Whether an ended transfer brought a body. */
bool mc_http_answered(const mc_http_transfer *transfer);

/* Whether the same question may be answered another time. */
bool mc_http_may_retry(const mc_http_transfer *transfer);

/* How long to wait for that after so many tries: as long as the answer says, a minute at most,
 * which is told; else a connection that broke is replaced at once, and one that broke again later
 * and later. */
uint64_t mc_http_retry_us(mc_http *http, const mc_http_transfer *transfer, int tries);

/* Ends a transfer, if it has not ended, and frees what it has. Does nothing for one that was not
 * started. */
void mc_http_drop(mc_http *http, mc_http_transfer *transfer);

#endif

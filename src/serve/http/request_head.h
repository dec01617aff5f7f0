/* The framing of requests (RFC 9112): the first check of what a client sends, before libmicrohttpd
 * reads it.
 *
 * libmicrohttpd answers by itself what it cannot read: with pages of HTML, some of them sent twice,
 * and some of it, as a NUL in the target or a line feed alone, it reads as something else. So the
 * front (serve/http/front.h) gives it heads that are plain: origin-form targets, one Host, one
 * length or chunked, lines with CR LF, no more than its memory holds. Why a head is refused goes
 * with a header that no client can send, and the endpoints' own code answers.
 *
 * Threads: one at a time. */
#ifndef SERVE_HTTP_REQUEST_HEAD_H
#define SERVE_HTTP_REQUEST_HEAD_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mc_refusal {
    MC_REFUSAL_NONE,
#define REFUSAL(name, status, code, message) MC_REFUSAL_##name,
#include "serve/http/refusal_list.h"
    MC_REFUSALS
} mc_refusal;

enum {
    MC_HEAD_BYTES = 24 << 10,
    MC_HEAD_TARGET = 8 << 10,
    MC_HEAD_PARAMETERS = 64, /* of its query */
    MC_HEAD_LINES = 129
};

/* The header with a refusal's number. */
#define MC_FRONT_HEADER "Mica-Refused"

/* A head that is coming. Zero: nothing of it was looked at. */
typedef struct mc_request_head {
    size_t looked; /* bytes that were looked at */
    size_t line;   /* where the last line begins */
    int lines;     /* whole ones */
    bool whole;    /* its empty line is there: it has `looked` bytes */
    /* Of a whole one. */
    bool chunked;
    uint64_t length; /* of its body, unless it is chunked */
} mc_request_head;

/* Looks at what has come since. Refuses as early as it can: who sends something else than HTTP may
 * wait for an answer before it sends a line's end. */
mc_refusal mc_request_head_look(mc_request_head *head, const char *bytes, size_t n);

/* Adds a whole head to `out` as the library is to read it, and sets chunked and length.
 *
 *  *nomem  there is no memory */
mc_refusal mc_request_head_put(mc_request_head *head, const char *bytes, mc_buffer *out,
                               bool *nomem);

/* Adds a head that is answered with a refusal, of the same method and path if these can be told.
 * false: no memory. */
bool mc_request_head_refuse(const char *bytes, size_t n, mc_refusal why, mc_buffer *out);

#endif

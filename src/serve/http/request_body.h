/* The body of a request as libmicrohttpd is to read it: as it is where its length is known, else in
 * chunks that are plain, without extensions and trailers. Threads: one at a time. */
#ifndef SERVE_HTTP_REQUEST_BODY_H
#define SERVE_HTTP_REQUEST_BODY_H

#include "serve/http/request_head.h"

typedef enum mc_body_state {
    MC_BODY_NONE, /* there is none, or it has ended */
    MC_BODY_PLAIN,
    MC_BODY_SIZE, /* a chunk's first line */
    MC_BODY_CHUNK,
    MC_BODY_CHUNK_END,
    MC_BODY_TRAILERS
} mc_body_state;

typedef struct mc_request_body {
    mc_body_state state;
    uint64_t left;   /* bytes: of a body, or of a chunk */
    size_t trailers; /* bytes of them so far */
} mc_request_body;

mc_request_body mc_request_body_of(const mc_request_head *head);

/* Takes bytes of a body, and adds what they become to `out`.
 *
 *  *used   receives how many were taken: more are to come before the others can be
 *  *nomem  receives true where there is no memory */
mc_refusal mc_request_body_take(mc_request_body *body, const char *bytes, size_t n, size_t *used,
                                mc_buffer *out, bool *nomem);

/* Ends a body, in chunks, with a refusal. false: no memory. */
bool mc_request_body_refuse(mc_refusal why, mc_buffer *out);

#endif

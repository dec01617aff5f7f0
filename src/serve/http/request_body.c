#include "serve/http/request_body.h"

#include <string.h>

enum { LINE_BYTES = 4 << 10, TRAILER_BYTES = 4 << 10 };

mc_request_body mc_request_body_of(const mc_request_head *head) {
    if (head->chunked) return (mc_request_body){.state = MC_BODY_SIZE};
    return (mc_request_body){.state = head->length ? MC_BODY_PLAIN : MC_BODY_NONE,
                             .left = head->length};
}

/* A line up to its CR LF. *bytes: receives its length with these; 0: it has not ended yet. */
static mc_refusal find_line(const char *text, size_t n, size_t *bytes, mc_refusal too_long) {
    const char *end = memchr(text, '\n', n);
    *bytes = end ? (size_t)(end - text) + 1 : 0;
    if (end ? *bytes > LINE_BYTES : n > LINE_BYTES) return too_long;
    if (end && (end == text || end[-1] != '\r')) return MC_REFUSAL_CHUNK;
    return MC_REFUSAL_NONE;
}

/* "1f;name=value" is 31. */
static mc_refusal read_size(const char *line, size_t n, uint64_t *size) {
    static const char digits[] = "0123456789abcdef";
    size_t i = 0;
    *size = 0;
    for (; i < n; i++) {
        char c = line[i] >= 'A' && line[i] <= 'F' ? (char)(line[i] | 0x20) : line[i];
        const char *digit = memchr(digits, c, 16);
        if (!digit) break;
        if (*size > (uint64_t)INT64_MAX >> 4) return MC_REFUSAL_LONG_BODY;
        *size = *size << 4 | (uint64_t)(digit - digits);
    }
    if (i == 0 || memchr(line, '\0', n)) return MC_REFUSAL_CHUNK;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i == n || line[i] == ';' ? MC_REFUSAL_NONE : MC_REFUSAL_CHUNK;
}

static mc_refusal begin_chunk(mc_request_body *body, const char *bytes, size_t n, size_t *used) {
    mc_refusal why = find_line(bytes, n, used, MC_REFUSAL_LONG_CHUNK_LINE);
    if (why != MC_REFUSAL_NONE || !*used) return why;
    why = read_size(bytes, *used - 2, &body->left);
    body->state = body->left ? MC_BODY_CHUNK : MC_BODY_TRAILERS;
    return why;
}

static mc_refusal take_trailer(mc_request_body *body, const char *bytes, size_t n, size_t *used,
                               mc_buffer *out, bool *nomem) {
    mc_refusal why = find_line(bytes, n, used, MC_REFUSAL_LONG_TRAILERS);
    body->trailers += *used;
    if (why == MC_REFUSAL_NONE && body->trailers > TRAILER_BYTES) why = MC_REFUSAL_LONG_TRAILERS;
    if (why != MC_REFUSAL_NONE || *used != 2) return why;
    body->state = MC_BODY_NONE;
    *nomem = !mc_buffer_add_text(out, "0\r\n\r\n");
    return MC_REFUSAL_NONE;
}

static mc_refusal take_bytes(mc_request_body *body, const char *bytes, size_t n, size_t *used,
                             mc_buffer *out, bool *nomem) {
    bool chunk = body->state == MC_BODY_CHUNK;
    *used = n < body->left ? n : (size_t)body->left;
    body->left -= *used;
    if (body->left == 0) body->state = chunk ? MC_BODY_CHUNK_END : MC_BODY_NONE;
    *nomem = (chunk && !mc_buffer_printf(out, "%zx\r\n", *used)) ||
             !mc_buffer_add(out, bytes, *used) || (chunk && !mc_buffer_add_text(out, "\r\n"));
    return MC_REFUSAL_NONE;
}

mc_refusal mc_request_body_take(mc_request_body *body, const char *bytes, size_t n, size_t *used,
                                mc_buffer *out, bool *nomem) {
    *used = 0;
    if (n == 0) return MC_REFUSAL_NONE;
    switch (body->state) {
    case MC_BODY_NONE:
        break;
    case MC_BODY_PLAIN:
    case MC_BODY_CHUNK:
        return take_bytes(body, bytes, n, used, out, nomem);
    case MC_BODY_SIZE:
        return begin_chunk(body, bytes, n, used);
    case MC_BODY_CHUNK_END:
        if (bytes[0] != '\r' || (n > 1 && bytes[1] != '\n')) return MC_REFUSAL_CHUNK;
        if (n == 1) return MC_REFUSAL_NONE;
        *used = 2;
        body->state = MC_BODY_SIZE;
        break;
    case MC_BODY_TRAILERS:
        return take_trailer(body, bytes, n, used, out, nomem);
    }
    return MC_REFUSAL_NONE;
}

bool mc_request_body_refuse(mc_refusal why, mc_buffer *out) {
    return mc_buffer_printf(out, "0\r\n" MC_FRONT_HEADER ": %d\r\n\r\n", (int)why);
}

#include "serve/http/request_head.h"

#include "base/str.h"

#include <string.h>
#include <strings.h>

enum { METHOD_BYTES = 32 };

/* ---- characters ---- */

static bool is_token(mc_str text) {
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i], low = (char)(c | 0x20);
        bool letter = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (!c || !strchr(marks, c))) return false;
    }
    return text.len > 0;
}

static bool is_control(char c) {
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static bool is_word(mc_str text, const char *word) {
    return text.len == strlen(word) && strncasecmp(text.ptr, word, text.len) == 0;
}

/* Takes what is before a character off a text. false: it has none. */
static bool take_part(mc_str *text, char end, mc_str *part) {
    const char *at = memchr(text->ptr, end, text->len);
    if (!at) return false;
    *part = (mc_str){text->ptr, (size_t)(at - text->ptr)};
    text->ptr += part->len + 1;
    text->len -= part->len + 1;
    return true;
}

static mc_str trim(mc_str text) {
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* ---- the first line ---- */

typedef struct first_line {
    mc_str method, target;
    mc_str host; /* of an absolute target; ptr NULL: it has none */
    int minor;
} first_line;

/* "http://host/path?query" becomes host and path. */
static mc_refusal split_target(first_line *line) {
    mc_str *target = &line->target, scheme;
    for (size_t i = 0; i < target->len; i++)
        if (target->ptr[i] == ' ' || target->ptr[i] == '\t' || is_control(target->ptr[i]))
            return MC_REFUSAL_TARGET;
    if (target->len > MC_HEAD_TARGET) return MC_REFUSAL_LONG_TARGET;
    int parameters = 1;
    for (size_t i = 0; i < target->len; i++)
        parameters += target->ptr[i] == '&';
    if (parameters > MC_HEAD_PARAMETERS) return MC_REFUSAL_PARAMETERS;
    if (target->len > 0 && *target->ptr == '/') return MC_REFUSAL_NONE;
    if (mc_str_is(*target, "*"))
        return mc_str_is(line->method, "OPTIONS") ? MC_REFUSAL_NONE : MC_REFUSAL_TARGET;
    mc_str rest = *target;
    if (!take_part(&rest, ':', &scheme) ||
        (!is_word(scheme, "http") && !is_word(scheme, "https")) || rest.len < 3 ||
        memcmp(rest.ptr, "//", 2) != 0)
        return MC_REFUSAL_TARGET;
    line->host = (mc_str){rest.ptr + 2, 0};
    while (line->host.len < rest.len - 2 && !strchr("/?#@", line->host.ptr[line->host.len]))
        line->host.len++;
    *target = (mc_str){line->host.ptr + line->host.len, rest.len - 2 - line->host.len};
    bool path = target->len == 0 || *target->ptr == '/' || *target->ptr == '?';
    return line->host.len > 0 && path ? MC_REFUSAL_NONE : MC_REFUSAL_TARGET;
}

/* text: without its end. */
static mc_refusal read_first_line(mc_str text, first_line *line) {
    *line = (first_line){0};
    if (!take_part(&text, ' ', &line->method) || !is_token(line->method)) return MC_REFUSAL_LINE;
    if (line->method.len > METHOD_BYTES) return MC_REFUSAL_METHOD;
    size_t len = text.len; /* the version is behind the last blank */
    while (len > 0 && text.ptr[len - 1] != ' ')
        len--;
    mc_str version = {text.ptr + len, text.len - len};
    if (len < 2 || version.len != 8 || memcmp(version.ptr, "HTTP/", 5) != 0 ||
        version.ptr[6] != '.')
        return MC_REFUSAL_LINE;
    line->target = (mc_str){text.ptr, len - 1};
    line->minor = version.ptr[7] == '0' ? 0 : 1;
    if (version.ptr[5] != '1' || version.ptr[7] < '0' || version.ptr[7] > '9')
        return MC_REFUSAL_VERSION;
    return split_target(line);
}

/* ---- what has come ---- */

static mc_refusal look_at_byte(mc_request_head *head, const char *bytes, size_t i) {
    char c = bytes[i];
    bool first = head->lines == 0;
    if (i == 0 && c == 0x16) return MC_REFUSAL_TLS; /* how a TLS handshake begins */
    if (i > 0 && bytes[i - 1] == '\r' && c != '\n') return MC_REFUSAL_LINE_END;
    if (c == '\n') {
        if (i == 0 || bytes[i - 1] != '\r') return MC_REFUSAL_LINE_END;
        head->whole = i - head->line == 1;
        first_line line;
        mc_refusal why = first ? read_first_line((mc_str){bytes, i - 1}, &line) : MC_REFUSAL_NONE;
        head->line = i + 1;
        head->lines++;
        return why;
    }
    if (c == '\r' || !is_control(c)) return MC_REFUSAL_NONE;
    if (!first) return MC_REFUSAL_HEADER;
    return i > 0 && memchr(bytes, ' ', i) ? MC_REFUSAL_TARGET : MC_REFUSAL_LINE;
}

mc_refusal mc_request_head_look(mc_request_head *head, const char *bytes, size_t n) {
    while (head->looked < n && !head->whole) {
        mc_refusal why = look_at_byte(head, bytes, head->looked++);
        if (why != MC_REFUSAL_NONE) return why;
        if (head->lines == 0 && head->looked > MC_HEAD_TARGET + METHOD_BYTES + 16)
            return memchr(bytes, ' ', METHOD_BYTES + 1) ? MC_REFUSAL_LONG_TARGET : MC_REFUSAL_LINE;
        if (head->looked > MC_HEAD_BYTES || head->lines > MC_HEAD_LINES + head->whole)
            return MC_REFUSAL_LONG_HEAD;
    }
    return MC_REFUSAL_NONE;
}

/* ---- headers ---- */

typedef struct headers {
    const first_line *line;
    mc_request_head *head;
    mc_buffer *out;
    int hosts, lengths, encodings;
} headers;

static mc_refusal read_length(mc_str value, uint64_t *length) {
    *length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9') return MC_REFUSAL_LENGTH;
        if (*length > (uint64_t)INT64_MAX / 10 - 1) return MC_REFUSAL_LONG_BODY;
        *length = *length * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    return value.len ? MC_REFUSAL_NONE : MC_REFUSAL_LENGTH;
}

/* *kept: the library is to read it. Cookies it would take apart, in memory that it may not have. */
static mc_refusal read_header(headers *h, mc_str name, mc_str value, bool *kept) {
    *kept = true;
    if (is_word(name, "host")) {
        h->hosts++;
        *kept = !h->line->host.ptr; /* an absolute target's goes before (RFC 9112 3.2.2) */
    } else if (is_word(name, "content-length")) {
        h->lengths++;
        return read_length(value, &h->head->length);
    } else if (is_word(name, "transfer-encoding")) {
        h->encodings++;
        h->head->chunked = true;
        if (!is_word(value, "chunked") || h->line->minor == 0) return MC_REFUSAL_ENCODING;
    } else if (is_word(name, "expect")) {
        if (!is_word(value, "100-continue")) return MC_REFUSAL_EXPECT;
    } else {
        *kept = !is_word(name, MC_FRONT_HEADER) && !is_word(name, "cookie");
    }
    return MC_REFUSAL_NONE;
}

static mc_refusal check_counts(const headers *h) {
    if (h->hosts > 1) return MC_REFUSAL_HOSTS;
    if (h->hosts == 0 && h->line->minor > 0) return MC_REFUSAL_NO_HOST;
    if (h->lengths > 1) return MC_REFUSAL_LENGTHS;
    if (h->encodings > 1) return MC_REFUSAL_ENCODING;
    return h->lengths && h->encodings ? MC_REFUSAL_BOTH_LENGTHS : MC_REFUSAL_NONE;
}

/* Without the blanks around its value: libmicrohttpd takes those behind it for a part of it. */
static bool put_header(mc_buffer *out, mc_str name, mc_str value) {
    return mc_buffer_add(out, name.ptr, name.len) && mc_buffer_add_text(out, ": ") &&
           mc_buffer_add(out, value.ptr, value.len) && mc_buffer_add_text(out, "\r\n");
}

/* rest: the lines behind the first one. */
static mc_refusal put_headers(headers *h, mc_str rest, bool *nomem) {
    mc_str line;
    while (take_part(&rest, '\n', &line) && line.len > 1) {
        mc_str value = {line.ptr, line.len - 1}, name; /* without the CR */
        bool kept;
        if (*line.ptr == ' ' || *line.ptr == '\t') return MC_REFUSAL_FOLDED;
        if (!take_part(&value, ':', &name) || !is_token(name)) return MC_REFUSAL_HEADER;
        value = trim(value);
        mc_refusal why = read_header(h, name, value, &kept);
        if (why != MC_REFUSAL_NONE) return why;
        if (kept && !put_header(h->out, name, value)) *nomem = true;
    }
    return check_counts(h);
}

static bool put_first_line(const first_line *line, mc_buffer *out) {
    const mc_str *target = &line->target;
    bool root = target->len == 0 || *target->ptr == '?';
    return mc_buffer_printf(out, "%.*s %s%.*s HTTP/1.%d\r\n", MC_STR_ARG(line->method),
                            root ? "/" : "", MC_STR_ARG(*target), line->minor) &&
           (!line->host.ptr || mc_buffer_printf(out, "Host: %.*s\r\n", MC_STR_ARG(line->host)));
}

mc_refusal mc_request_head_put(mc_request_head *head, const char *bytes, mc_buffer *out,
                               bool *nomem) {
    first_line line;
    mc_str rest = {bytes, head->looked}, text = rest;
    take_part(&rest, '\n', &text);
    mc_refusal why = read_first_line((mc_str){text.ptr, text.len - 1}, &line);
    if (why != MC_REFUSAL_NONE) return why;
    headers h = {.line = &line, .head = head, .out = out};
    *nomem = !put_first_line(&line, out);
    why = put_headers(&h, rest, nomem);
    if (why != MC_REFUSAL_NONE) return why;
    if (h.hosts == 0 && !line.host.ptr && !mc_buffer_add_text(out, "Host: localhost\r\n"))
        *nomem = true; /* HTTP/1.0 has none */
    if (!mc_buffer_add_text(out, "\r\n")) *nomem = true;
    return MC_REFUSAL_NONE;
}

bool mc_request_head_refuse(const char *bytes, size_t n, mc_refusal why, mc_buffer *out) {
    const char *end = memchr(bytes, '\r', n);
    first_line line;
    bool told =
        end && read_first_line((mc_str){bytes, (size_t)(end - bytes)}, &line) == MC_REFUSAL_NONE;
    if (!told) line = (first_line){.method = MC_STR("GET"), .target = MC_STR("/"), .minor = 1};
    line.host = (mc_str){0};
    line.minor = 1;
    return put_first_line(&line, out) &&
           mc_buffer_printf(out, "Host: localhost\r\n" MC_FRONT_HEADER ": %d\r\n\r\n", (int)why);
}

#define _POSIX_C_SOURCE 200809L /* strerror_r that returns int */

#include "base/status.h"

#include "base/log.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MADE_BYTES = 1024 /* of what a call makes */, TEXT_BYTES = 1 << 14 /* with contexts */ };

static _Thread_local char last_error[TEXT_BYTES];

const char *mica_status_name(mica_status status) {
    switch (status) {
    case MICA_OK:
        return "MICA_OK";
    case MICA_EINVAL:
        return "MICA_EINVAL";
    case MICA_ESHAPE:
        return "MICA_ESHAPE";
    case MICA_EDTYPE:
        return "MICA_EDTYPE";
    case MICA_ENOMEM:
        return "MICA_ENOMEM";
    case MICA_ENOENT:
        return "MICA_ENOENT";
    case MICA_EIO:
        return "MICA_EIO";
    case MICA_EFORMAT:
        return "MICA_EFORMAT";
    case MICA_EUNSUPPORTED:
        return "MICA_EUNSUPPORTED";
    case MICA_ECONTEXT:
        return "MICA_ECONTEXT";
    case MICA_ECANCELLED:
        return "MICA_ECANCELLED";
    case MICA_EDEVICE:
        return "MICA_EDEVICE";
    case MICA_EINTERNAL:
        return "MICA_EINTERNAL";
    case MICA_EBUSY:
        return "MICA_EBUSY";
    }
    return "unknown status";
}

const char *mica_last_error(void) {
    return last_error;
}

size_t mica_error_text(char *buffer, size_t bytes) {
    size_t len = strlen(last_error);
    if (!buffer || bytes == 0) return len;
    size_t copied = len < bytes ? len : bytes - 1;
    if (copied < len) copied -= mc_utf8_unfinished(last_error, copied);
    memcpy(buffer, last_error, copied);
    buffer[copied] = 0;
    return len;
}

/* Whether it may be an order to a terminal. */
static bool is_control(uint32_t codepoint) {
    return (codepoint < ' ' && codepoint != '\n' && codepoint != '\t') ||
           (codepoint >= 0x7f && codepoint < 0xa0);
}

/* Makes text valid UTF-8 without control characters: file names and answers of servers may have any
 * bytes, and a text may be cut within a character. A character that is cut at the end is removed;
 * other bad bytes become '?'. */
static void make_printable(char *text) {
    size_t len = strlen(text);
    len -= mc_utf8_unfinished(text, len);
    text[len] = 0;
    for (size_t i = 0; i < len;) {
        uint32_t codepoint;
        size_t step = mc_utf8_decode(text + i, len - i, &codepoint);
        bool bad = step == 0 || is_control(codepoint);
        if (step == 0) step = 1;
        if (bad) memset(text + i, '?', step);
        i += step;
    }
}

/* "<context>: <text>"; the text may be last_error itself, but not the context, which is shorter. */
static mica_status set_text(mica_status status, const char *context, const char *text) {
    const char *between = *context && *text ? ": " : "";
    size_t head = strlen(context) + strlen(between), len = strlen(text);
    if (len > sizeof last_error - 1 - head) len = sizeof last_error - 1 - head;
    memmove(last_error + head, text, len);
    last_error[head + len] = 0;
    memcpy(last_error, context, strlen(context));
    memcpy(last_error + strlen(context), between, strlen(between));
    make_printable(last_error);
    mc_log_text(MICA_LOG_DEBUG, last_error);
    return status;
}

mica_status mc_fail(mica_status status, const char *fmt, ...) {
    char text[MADE_BYTES]; /* the arguments may point into last_error */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return set_text(status, "", text);
}

mica_status mc_fail_text(mica_status status, const char *text) {
    return set_text(status, "", text);
}

mica_status mc_fail_errno(int error, const char *fmt, ...) {
    char text[MADE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char why[128];
    if (strerror_r(error, why, sizeof why) != 0) snprintf(why, sizeof why, "error %d", error);
    mica_status status = error == ENOENT ? MICA_ENOENT : error == ENOMEM ? MICA_ENOMEM : MICA_EIO;
    return set_text(status, text, why);
}

mica_status mc_fail_nomem(const char *what) {
    return mc_fail(MICA_ENOMEM, "out of memory: %s", what);
}

mica_status mc_fail_context(mica_status status, const char *fmt, ...) {
    char text[MADE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return set_text(status, text, last_error);
}

mica_status mica_log_hook_set(mica_log_hook hook, void *user) {
    return mc_log_set(hook, user) ? MICA_OK
                                  : mc_fail(MICA_EINVAL, "a log hook cannot set another one");
}

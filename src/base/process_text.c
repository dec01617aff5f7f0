#include "base/process_text.h"

#include <string.h>

mica_status mc_process_text_init(mc_process_text *text, size_t max_line) {
    *text = (mc_process_text){.max_line = max_line};
    if (mc_buffer_reserve(&text->errors, 2 * MC_PROCESS_ERRORS)) return MICA_OK;
    return mc_fail_nomem("a process");
}

void mc_process_text_deinit(mc_process_text *text) {
    mc_buffer_deinit(&text->lines);
    mc_buffer_deinit(&text->errors);
}

char *mc_process_text_room(mc_process_text *text) {
    mc_buffer *lines = &text->lines;
    if (text->begin > 0) { /* lines that were given out go */
        lines->len -= text->begin;
        text->seen -= text->begin;
        memmove(lines->data, lines->data + text->begin, lines->len);
        text->begin = 0;
    }
    return mc_buffer_reserve(lines, MC_PROCESS_CHUNK) ? lines->data + lines->len : NULL;
}

/* Keeps the last of standard error. */
static void shorten(mc_buffer *errors) {
    if (errors->len <= MC_PROCESS_ERRORS) return;
    memmove(errors->data, errors->data + errors->len - MC_PROCESS_ERRORS, MC_PROCESS_ERRORS);
    errors->len = MC_PROCESS_ERRORS;
}

char *mc_process_text_errors_room(mc_process_text *text) {
    shorten(&text->errors);
    return text->errors.data + text->errors.len;
}

static mica_status too_long(const mc_process_text *text) {
    return mc_fail(MICA_EFORMAT, "the process printed a line of more than %zu bytes",
                   text->max_line);
}

mica_status mc_process_text_next(mc_process_text *text, mc_str *line, bool *found) {
    const mc_buffer *lines = &text->lines;
    const char *end = NULL;
    if (lines->len > text->seen)
        end = memchr(lines->data + text->seen, '\n', lines->len - text->seen);
    *found = end != NULL;
    if (!end) {
        text->seen = lines->len;
        return lines->len - text->begin > text->max_line ? too_long(text) : MICA_OK;
    }
    const char *begin = lines->data + text->begin;
    *line = (mc_str){begin, (size_t)(end - begin)};
    text->seen = text->begin = (size_t)(end + 1 - lines->data);
    return line->len > text->max_line ? too_long(text) : MICA_OK;
}

mc_str mc_process_text_rest(mc_process_text *text) {
    mc_buffer *lines = &text->lines;
    mc_str rest = {"", 0};
    if (lines->len > text->begin)
        rest = (mc_str){lines->data + text->begin, lines->len - text->begin};
    text->begin = text->seen = lines->len;
    return rest;
}

const char *mc_process_text_errors(mc_process_text *text) {
    shorten(&text->errors);
    text->errors.data[text->errors.len] = 0; /* there is room: it was reserved */
    return text->errors.data;
}

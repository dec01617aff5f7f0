/* Writing JSON to a buffer, member by member.
 *
 *     mc_put put = mc_put_into(&out);
 *     mc_put_open(&put, NULL, '{');
 *     mc_put_text(&put, "object", "list");
 *     mc_put_open(&put, "data", '[');
 *     mc_put_close(&put, ']');
 *     mc_put_close(&put, '}');
 *     if (put.failed) ...                  // no memory: the one check, at the end
 *
 * key NULL: an element of an array, or the whole. Commas come by themselves. Texts are written as
 * ASCII, without line feeds, so that the whole fits one line of an event stream. Threads: one. */
#ifndef SERVE_COMMON_PUT_H
#define SERVE_COMMON_PUT_H

#include "base/json_write.h"

typedef struct mc_put {
    mc_buffer *out;
    bool comma; /* something stands before the next member */
    bool failed;
} mc_put;

static inline mc_put mc_put_into(mc_buffer *out) {
    mc_put put = {.out = out};
    return put;
}

void mc_put_open(mc_put *put, const char *key, char bracket);
void mc_put_close(mc_put *put, char bracket);
/* An array of elements that are written, with commas between them. */
void mc_put_list(mc_put *put, const char *key, const mc_buffer *elements);
void mc_put_text(mc_put *put, const char *key, const char *text); /* NULL: null */
void mc_put_str(mc_put *put, const char *key, mc_str text);       /* U+FFFD for what is not UTF-8 */
void mc_put_int(mc_put *put, const char *key, int64_t value);
void mc_put_real(mc_put *put, const char *key, double value);
void mc_put_bool(mc_put *put, const char *key, bool value);
void mc_put_null(mc_put *put, const char *key);
void mc_put_json(mc_put *put, const char *key, const char *json); /* a text that is JSON */
/* The text of a value, perhaps on several lines: written on one. */
void mc_put_raw(mc_put *put, const char *key, mc_str json);
/* Members or elements that are JSON already, with commas between them; may be empty. */
void mc_put_members(mc_put *put, const mc_buffer *json);
void mc_put_value(mc_put *put, const char *key, mc_json value); /* a parsed one, on one line */
/* A member of a parsed object. */
void mc_put_member(mc_put *put, mc_str key, mc_json value);

#endif

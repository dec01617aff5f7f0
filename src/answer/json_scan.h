/* Checking JSON while it is written: how much of a text that is not complete belongs to a value.
 *
 * It is as strict as mc_json_parse (base/json.h), but takes MC_MARK within strings. Threads: a scan
 * belongs to one thread. */
#ifndef ANSWER_JSON_SCAN_H
#define ANSWER_JSON_SCAN_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>

enum { MC_JSON_SCAN_DEPTH = 255 }; /* brackets within brackets */

typedef enum mc_json_expect {
    MC_JSON_EXPECT_VALUE,
    MC_JSON_EXPECT_FIRST, /* a value, or the end of an array */
    MC_JSON_EXPECT_KEY,
    MC_JSON_EXPECT_MEMBER, /* a key, or the end of an object */
    MC_JSON_EXPECT_COLON,
    MC_JSON_EXPECT_COMMA, /* or a closing bracket */
    MC_JSON_EXPECT_STRING,
    MC_JSON_EXPECT_KEY_STRING,
    MC_JSON_EXPECT_END /* the value is complete */
} mc_json_expect;

typedef struct mc_json_scan { /* zero: before a value */
    mc_json_expect expect;
    size_t depth;                     /* brackets that are open */
    bool objects[MC_JSON_SCAN_DEPTH]; /* [depth] whether they are of objects */
} mc_json_scan;

/* A scan behind a member's value, within that many objects. */
mc_json_scan mc_json_scan_within(size_t objects);

/* Reads on.
 *
 *  used   bytes of the text that are read: characters, escapes, numbers and words are read once
 *         they are complete.
 *  good   false: what follows these bytes cannot belong to the value; the next call finds that
 *         again.
 *  errors MICA_ENOMEM */
mica_status mc_json_scan_push(mc_json_scan *scan, mc_str text, size_t *used, bool *good);

/* White space of JSON, and the place behind it. */
static inline bool mc_json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
static inline size_t mc_json_skip_space(mc_str text, size_t at) {
    while (at < text.len && mc_json_is_space(text.ptr[at]))
        at++;
    return at;
}

static inline bool mc_json_scan_is_done(const mc_json_scan *scan) {
    return scan->expect == MC_JSON_EXPECT_END;
}

#endif

/* JSON, read only: a facade over simdjson.
 *
 * A document owns everything; values are small handles into it. A look-up that finds nothing gives
 * a value of type MC_JSON_NONE. Every getter returns false for it, so that look-ups chain.
 * Documents deeper than 256 levels are MICA_EFORMAT.
 *
 * Threads: a parsed document may be read from any number of threads. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/filemap.h"
#include "base/status.h"
#include "base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mc_json_doc mc_json_doc;

typedef enum mc_json_type {
    MC_JSON_NONE, /* absent */
    MC_JSON_NULL,
    MC_JSON_BOOL,
    MC_JSON_INT,   /* fits int64 */
    MC_JSON_FLOAT, /* also an integer from 2^63 on: mc_json_get_uint */
    MC_JSON_STRING,
    MC_JSON_ARRAY,
    MC_JSON_OBJECT
} mc_json_type;

typedef struct mc_json { /* a value: plain data with private members */
    const void *doc;
    size_t at;
} mc_json;

/* Parses text. `name` (a path) goes into error texts.
 * errors  MICA_EFORMAT with the reason, line, column and field; MICA_ENOMEM */
mica_status mc_json_parse(const char *text, size_t len, const char *name, mc_json_doc **doc);
/* Reads and parses a file. Files that Python has written may hold the words NaN, Infinity and
 * -Infinity, which are no JSON: each becomes {"__float__": "NaN"}, as transformers spells it since
 * version 5. errors  also MICA_ENOENT, MICA_EIO */
mica_status mc_json_load(const char *path, mc_file_kind kind, mc_json_doc **doc);
void mc_json_close(mc_json_doc **doc);
mc_json mc_json_root(const mc_json_doc *doc);

mc_json_type mc_json_get_type(mc_json v);
bool mc_json_exists(mc_json v); /* neither NONE nor null */

/* The getters return false and leave *out unchanged if v has another type. get_int also takes a
 * whole float. */
bool mc_json_get_bool(mc_json v, bool *out);
bool mc_json_get_int(mc_json v, int64_t *out);
bool mc_json_get_uint(mc_json v,
                      uint64_t *out); /* what is written as an integer, of up to 64 bits */
bool mc_json_get_float(mc_json v, double *out); /* takes an int, too; never infinite or NaN */
bool mc_json_get_str(mc_json v, mc_str *out);   /* UTF-8, lives with the document */

/* The member of an object; NONE if v is not an object or has no such key. */
mc_json mc_json_find(mc_json v, const char *key);

/* Iterates over the elements of an array or the members of an object, in order of the text. A step
 * is O(1):
 *     for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) use(it.key, it.value); */
typedef struct mc_json_iter {
    mc_str key; /* objects only */
    mc_json value;
    size_t next, end;
    bool object;
} mc_json_iter;
mc_json_iter mc_json_begin(mc_json v); /* empty for scalars and NONE */
bool mc_json_next(mc_json_iter *it);
size_t mc_json_count(mc_json v); /* elements or members; 0 for others */

#ifdef __cplusplus
}
#endif

#endif

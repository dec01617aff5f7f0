/* Where a text stops being JSON, and why: for the error, after a parser has refused the text.
 * Threads: any. */
#ifndef BASE_JSON_FAULT_H
#define BASE_JSON_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MC_JSON_DEPTH = 256, MC_JSON_FIELD = 120 };

typedef struct mc_json_fault {
    size_t line, column;       /* from 1; columns are characters */
    const char *why;           /* words that follow "it": "has a malformed number" */
    char field[MC_JSON_FIELD]; /* the value that it is in: "text_config.layers[3]"; "": the root */
} mc_json_fault;

/* Finds the first fault of a text.
 *
 * python   the words Infinity, -Infinity and NaN are values
 * returns  false: the text has none */
bool mc_json_find_fault(const char *text, size_t len, bool python, mc_json_fault *fault);

#ifdef __cplusplus
}
#endif

#endif

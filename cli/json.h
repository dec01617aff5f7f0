/* Reads JSON, for instance a line of an input file. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "text.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum cli_json_kind {
    CLI_JSON_NULL,
    CLI_JSON_FALSE,
    CLI_JSON_TRUE,
    CLI_JSON_NUMBER,
    CLI_JSON_STRING,
    CLI_JSON_ARRAY,
    CLI_JSON_OBJECT
} cli_json_kind;

/* A value. Strings contain no NUL and end with one. */
typedef struct cli_json_node {
    cli_json_kind kind;
    const char *key;  /* for a member of an object, else NULL */
    const char *text; /* a decoded string; a number as written; else "" */
    size_t first;     /* index of the first value of an array or object; 0: it is empty */
    size_t next;      /* index of the next value; 0: this is the last one */
} cli_json_node;

/* A parsed text. Zeroed: none. nodes[0] is the root. */
typedef struct cli_json {
    cli_json_node *nodes; /* [count] */
    size_t count, room;
    char *strings;
    size_t fault; /* after an error: the place in the text where it was found */
} cli_json;

/** Parses a text. Frees the earlier contents of json.
 *
 *  text  [len]. Not kept.
 *  why   receives the reason, in static storage, if it returns false */
bool cli_json_parse(cli_json *json, const char *text, size_t len, const char **why);

/** Returns a member of an object; NULL if it is missing or `object` is not an object. */
const cli_json_node *cli_json_find(const cli_json *json, const cli_json_node *object,
                                   const char *key);

/** Return the first value in a node, and the value after a node; NULL if there is none. */
const cli_json_node *cli_json_first(const cli_json *json, const cli_json_node *node);
const cli_json_node *cli_json_next(const cli_json *json, const cli_json_node *node);

/** Appends a value as JSON to a text, without its key.  returns as cli_text_append */
bool cli_json_write(const cli_json *json, const cli_json_node *node, cli_text *out);

/** Frees the contents of json. */
void cli_json_deinit(cli_json *json);

#endif

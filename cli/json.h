/* Reading JSON: a line of an input file, most often. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

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

/* A value. Strings have no NUL within, and one behind. */
typedef struct cli_json_node {
    cli_json_kind kind;
    const char *key;  /* of an object's member, else NULL */
    const char *text; /* a string, decoded; a number, as it stands; else "" */
    size_t first;     /* index of an array's or object's first value, 0: it has none */
    size_t next;      /* of the value after this one, 0: it is the last */
} cli_json_node;

/* A parsed text; zeroed: none. nodes[0] is all of it. */
typedef struct cli_json {
    cli_json_node *nodes; /* [count] */
    size_t count, room;
    char *strings;
} cli_json;

/** Parses a text; what json held before is freed.
 *
 *  text  [len]. Not kept.
 *  why   receives the reason where it returns false: static storage */
bool cli_json_parse(cli_json *json, const char *text, size_t len, const char **why);

/** An object's member, NULL where there is none, or object is none. */
const cli_json_node *cli_json_find(const cli_json *json, const cli_json_node *object,
                                   const char *key);

/** The first value within a node, and the one after a node; NULL where there is none. */
const cli_json_node *cli_json_first(const cli_json *json, const cli_json_node *node);
const cli_json_node *cli_json_next(const cli_json *json, const cli_json_node *node);

/** Frees what json holds. */
void cli_json_deinit(cli_json *json);

#endif

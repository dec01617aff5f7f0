/* Names that other programs use: option names that mica takes, too (alias_list.h), and commands and
 * options that mica does not have (elsewhere_list.h). Option names include their dashes. */
#ifndef CLI_ALIAS_H
#define CLI_ALIAS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_alias {
    const char *name;   /* with dashes */
    const char *option; /* mica's long name, without dashes */
    const char *values; /* the values and mica's own ones, "8=int8 16=bf16"; NULL: the same
                           values */
} cli_alias;

/* At least the number of rows, and the bytes of what is printed of one: ", -NAME (--OPTION)". */
enum { CLI_MAX_ALIASES = 96, CLI_ALIAS_PRINTED = 64 };

/** The i-th row, or NULL past the end. */
const cli_alias *cli_alias_at(size_t i);

/** Whether the i-th row is the last one of its option: rows of one option are adjacent. */
bool cli_alias_is_last(size_t i);

/** Finds the row of a name.  returns NULL if there is none */
const cli_alias *cli_alias_find(const char *name);

/* Bytes of an option's long name, with dashes and the NUL. */
#define CLI_ALIAS_OPTION 64

/** Returns the long name of an option that is given without dashes, as in a chat or in JSON: top-k
 *  for top_k, temperature for temp. It is in `out`, or in static storage. */
const char *cli_alias_option(const char *name, char out[CLI_ALIAS_OPTION]);

/** Converts a value of an alias to mica's own value.
 *
 *  room     [room_bytes] may receive the value.
 *  returns  `value` itself if the row lists no values; NULL if the row does not list this one */
const char *cli_alias_value(const cli_alias *alias, const char *value, char *room,
                            size_t room_bytes);

/** Whether a flag's name in another program takes a value, such as --reasoning off.  alias: may be
 *  NULL. */
bool cli_alias_takes_value(const cli_alias *alias);

/** Writes the values that an alias takes, separated by blanks, to out [out_bytes]. */
void cli_alias_values(const cli_alias *alias, char *out, size_t out_bytes);

/* Commands and options that mica does not have: a row of elsewhere_list.h. */
typedef struct cli_other {
    const char *names;  /* separated by blanks */
    const char *advice; /* what to do instead, or why it is left out */
    enum {
        CLI_OTHER_REFUSED,
        CLI_OTHER_VALUE_NO, /* left out; it has no value */
        CLI_OTHER_VALUE_YES,
        CLI_OTHER_VALUE_MAY /* on, off and the like may follow */
    } kind;
} cli_other;

/** Finds the row of a name.  returns NULL if the name is unknown */
const cli_other *cli_other_find(const char *name);

/** Whether the next word is the value of an option that is left out. next: NULL: there is none. */
bool cli_other_takes(const cli_other *other, const char *next);

#endif

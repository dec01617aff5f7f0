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

/* At least the number of rows. */
#define CLI_MAX_ALIASES 64

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

/** Writes the values that an alias takes, separated by blanks, to out [out_bytes]. */
void cli_alias_values(const cli_alias *alias, char *out, size_t out_bytes);

/** Returns advice on a command or option that mica does not have; NULL if the name is unknown. */
const char *cli_elsewhere(const char *name);

#endif

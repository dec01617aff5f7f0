/* What other programs call things: names of options that mica takes too (alias_list.h), and
 * commands and options that it has not (elsewhere_list.h). Names of options come with their
 * dashes. */
#ifndef CLI_ALIAS_H
#define CLI_ALIAS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_alias {
    const char *name;   /* with its dashes */
    const char *option; /* the long name of ours, without */
    const char *values; /* what their values are here, "8=int8 16=bf16"; NULL: the same */
} cli_alias;

/* At least as many as there are rows. */
#define CLI_MAX_ALIASES 64

/** The i-th row, NULL past the end. */
const cli_alias *cli_alias_at(size_t i);

/** Whether the next row names another option than the i-th. */
bool cli_alias_is_last(size_t i);

/** The row of a name, NULL where there is none. */
const cli_alias *cli_alias_find(const char *name);

/* Room for an option's long name, with its NUL. */
#define CLI_ALIAS_OPTION 64

/** The long name here of an option that is not called by dashes, as in a chat or in JSON: top_k is
 *  top-k, temp is temperature.  returns out, or a name that lives as long as the program */
const char *cli_alias_option(const char *name, char out[CLI_ALIAS_OPTION]);

/** What a value given to an alias is here: value itself where the row has no values, NULL where it
 *  has none for this one.
 *
 *  room  [room_bytes] may receive it */
const char *cli_alias_value(const cli_alias *alias, const char *value, char *room,
                            size_t room_bytes);

/** The values that an alias with values takes, blanks between them, into out [out_bytes]. */
void cli_alias_values(const cli_alias *alias, char *out, size_t out_bytes);

/** What to do instead of a command or option that mica has not; NULL: it knows none of that
 *  name. */
const char *cli_elsewhere(const char *name);

#endif

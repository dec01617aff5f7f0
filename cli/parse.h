/* Reads the arguments of a verb by its tables (options.h). */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include "options.h"

typedef enum cli_parse { CLI_PARSED, CLI_PARSED_HELP, CLI_PARSE_FAILED } cli_parse;

/** Parses a verb's arguments: `--name value`, `--name=value`, `-n value`, `-nvalue`, `--no-flag`
 *  and `--flag=off`, in any order with other arguments. After `--` no argument is an option.
 *  Options that are not given are read from the environment; an empty variable counts as unset. An
 *  option of another program that changes no answer is left out with a note.
 *
 *  argv     [argc] the arguments after the verb. Those that are not options are moved to its front.
 *  values   the verb's struct; receives the defaults, then the given values.
 *  count    receives the number of arguments at the front of argv.
 *  returns  CLI_PARSE_FAILED after it reported a usage error; CLI_PARSED_HELP if --help was
 *  given */
cli_parse cli_options_parse(const cli_verb *verb, const char *verb_name, int argc, char **argv,
                            void *values, int *count);

#endif

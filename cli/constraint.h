/* What the options of a verb constrain answers to, and the fields of a line of `batch`. */
#ifndef CLI_CONSTRAINT_H
#define CLI_CONSTRAINT_H

#include "options.h"
#include "text.h"

#include <mica/mica.h>

typedef struct cli_constraint_values {
    bool json_object;
    const char *json_schema, *regex, *grammar; /* NULL: not given */
    cli_texts choice;
    const char *choices; /* a JSON array of texts instead, of a line; NULL: not given */
    const char *json_schema_file, *grammar_file; /* NULL: not given */
} cli_constraint_values;

/* The options of cli_constraint_values. Lines of `batch` have the first CLI_CONSTRAINT_FIELDS. */
enum { CLI_CONSTRAINT_FIELDS = 5, CLI_CONSTRAINT_OPTIONS = 7 };
extern const cli_option cli_constraint_options[CLI_CONSTRAINT_OPTIONS];

/* A constraint of answers. Zeroed: none. The text is owned. */
typedef struct cli_constraint {
    mica_constraint_kind kind;
    cli_text text; /* empty: none */
} cli_constraint;

/** Makes a constraint of the values, of which one is given or none.
 *
 *  out      receives it, freed with cli_constraint_deinit, also after an error.
 *  returns  CLI_DONE, or an exit code after it reported the error */
int cli_constraint_read(const char *verb_name, const cli_constraint_values *values,
                        cli_constraint *out);

/** The same of the fields of a line of `batch`. why: receives the reason if it returns false. */
bool cli_constraint_make(const cli_constraint_values *values, cli_constraint *out, char *why,
                         size_t why_bytes);

/** The option whose file is standard input, where prompts may be, too; NULL: there is none. */
const char *cli_constraint_stdin(const cli_constraint_values *values);

/** Sets the library's options, which borrow from the constraint, unless there is none. */
void cli_constraint_set(const cli_constraint *constraint, mica_generate_options *options);

void cli_constraint_deinit(cli_constraint *constraint);

#endif

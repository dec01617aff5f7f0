/* What shapes a conversation in the model's chat format: `chat` and `run`. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "options.h"
#include "text.h"

typedef struct cli_talk_values {
    const char *system;
    int think;
    cli_texts variables;
    bool history;
} cli_talk_values;

/* The table of cli_talk_values. */
enum { CLI_TALK_OPTIONS = 4 };
extern const cli_option cli_talk_options[CLI_TALK_OPTIONS];

/** Writes the variables of the chat template, those of --think and --variable, as a JSON object;
 *  nothing where there are none.
 *
 *  returns CLI_DONE, or an exit code after it reported the error */
int cli_talk_variables(const cli_talk_values *values, const char *verb_name, cli_text *out);

#endif

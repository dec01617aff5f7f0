/* `run` and `generate`: one answer to one prompt. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "answer.h"
#include "constraint.h"
#include "model.h"

#define CLI_STDIN_HELP(text)                                                                   \
    text " is read from standard input if it is -, or if it is missing and standard\n"         \
         "input is not a terminal; a line feed at its end is dropped. A single word is\n" text \
         ", unless it is a model's folder. With --model it is always " text ".\n"

typedef struct cli_prompt_values {
    const char *prompt, *file; /* both NULL: the prompt is a word, or standard input */
    bool json;
    cli_answer_values answer;
    cli_constraint_values constraint;
    cli_model_values model;
} cli_prompt_values;

/* The table of the options of prompt and output. Its first row (CLI_PROMPT_TEXT) is --prompt.
 * Answer and model have tables of their own. */
enum { CLI_PROMPT_TEXT = 1, CLI_PROMPT_OPTIONS = 3 };
extern const cli_option cli_prompt_options[CLI_PROMPT_OPTIONS];

/** Opens the stream of an answer in an empty session. user: the caller's. */
typedef mica_status (*cli_prompt_open)(mica_session *session, const cli_text *prompt,
                                       const mica_generate_options *options, const void *user,
                                       mica_stream **stream);

/** Finds model and prompt among the words, opens the model, prints the answer.  returns an exit
 *  code */
int cli_prompt_run(const char *verb_name, const cli_prompt_values *values, char **args, int count,
                   cli_prompt_open open, const void *user);

#define CLI_TEXT_INSTEAD "If it is the text, give it on standard input."

/* The sources of the text of a verb that takes [MODEL] [TEXT]. */
typedef struct cli_source {
    const char *noun;          /* the text's name in messages: "prompt", "text" */
    cli_text_kind kind;        /* limits its length */
    const char *instead;       /* advice for a word that looks like a model and is none */
    bool may_be_empty;         /* an empty text is not an error */
    const char *reads_stdin;   /* an option whose file is standard input, or NULL */
    const char *model;         /* of --model, or NULL */
    const char *prompt, *file; /* of --prompt and --file, or NULL */
} cli_source;

/** Reads the text: of --prompt, of --file, a word, or standard input if the word is "-" or missing.
 *
 *  model_word  receives the word that is the model, or NULL.
 *  returns     CLI_DONE, or an exit code after it reported the error */
int cli_prompt_read(const char *verb_name, const cli_source *source, char **args, int count,
                    const char **model_word, cli_text *out);

#endif

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

/* The same where texts are joined and a name is a model's (cli_source.joins). */
#define CLI_JOINED_HELP(text)                                                                 \
    text ", the text of --file and what is piped in are joined in this order, with a blank\n" \
         "line between. Any of them is enough; - also waits for a pipe that stays empty. A\n" \
         "single word that is a name, such as mistral, is MODEL, unless --model is given.\n"

typedef struct cli_prompt_values {
    const char *prompt, *file; /* both NULL: the prompt is a word, or standard input */
    bool json;
    const char *prefill; /* NULL: none */
    cli_answer_values answer;
    cli_constraint_values constraint;
    cli_model_values model;
} cli_prompt_values;

/* The table of the options of prompt and output. Its first rows (CLI_PROMPT_TEXTS) are those of the
 * prompt; `run` has all of them, `generate` the first CLI_PROMPT_OPTIONS. Answer and model have
 * tables of their own. */
enum { CLI_PROMPT_TEXTS = 2, CLI_PROMPT_OPTIONS = 3, CLI_PROMPT_RUN = 4 };
extern const cli_option cli_prompt_options[CLI_PROMPT_RUN];

/** Opens the stream of an answer in an empty session. user: the caller's. */
typedef mica_status (*cli_prompt_open)(mica_session *session, const cli_text *prompt,
                                       const mica_generate_options *options, const void *user,
                                       mica_stream **stream);

/** Finds model and prompt among the words, opens the model, prints the answer.  returns an exit
 *  code */
int cli_prompt_run(const char *verb_name, const cli_prompt_values *values, char **args, int count,
                   cli_prompt_open open, const void *user);

#define CLI_TEXT_INSTEAD \
    "If it is the text, give it on standard input; if it is a file with the text, put --file."
#define CLI_PROMPT_INSTEAD \
    "If it is the prompt, put --prompt before it; if it is a file with the prompt, put --file."

#define CLI_MESSAGE_INSTEAD \
    "If it is the message, put --prompt before it; if it is a file with the message, put --file."

/* The sources of the text of a verb that takes [MODEL] [TEXT]. */
typedef struct cli_source {
    const char *noun;          /* the text's name in messages: "prompt", "text" */
    cli_text_kind kind;        /* limits its length */
    const char *instead;       /* advice for a word that looks like a model or is a file */
    bool joins;                /* the texts of several sources are joined; a name is a model's */
    bool may_be_missing;       /* without a source the text is empty: nothing is read */
    bool may_be_empty;         /* an empty text is not an error */
    const char *reads_stdin;   /* an option whose file is standard input, or NULL */
    const char *model;         /* of --model, or NULL */
    const char *prompt, *file; /* of --prompt and --file, or NULL */
} cli_source;

/** Reads the text: of --prompt, a word, --file, or standard input if the word is "-" or there is no
 *  other source; where it joins, of all of them, in this order, with a blank line between. A word
 *  that is a file is asked about, or refused where nobody can be asked.
 *
 *  model_word  receives the word that is the model, or NULL.
 *  returns     CLI_DONE, or an exit code after it reported the error */
int cli_prompt_read(const char *verb_name, const cli_source *source, char **args, int count,
                    const char **model_word, cli_text *out);

#endif

/* `run` and `generate`: one answer to one prompt. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "answer.h"
#include "model.h"

#define CLI_STDIN_HELP(text)                                                                 \
    text " is read from standard input where it is - or where there is none and\n"           \
         "standard input is no terminal; a line feed at its end is dropped. A single word\n" \
         "is " text ", unless it is a model's folder; --model settles it.\n"

/** Opens the stream of an answer in an empty session. user: what the caller handed in. */
typedef mica_status (*cli_prompt_open)(mica_session *session, const cli_text *prompt,
                                       const mica_generate_options *options, const void *user,
                                       mica_stream **stream);

/** Finds model and prompt among the words, opens them, prints the answer.  returns an exit code */
int cli_prompt_run(const char *verb_name, const cli_model_values *model_values,
                   const cli_answer_values *answer_values, char **args, int count,
                   cli_prompt_open open, const void *user);

/** The text that a verb works on: word, or standard input where word is "-" or NULL.
 *
 *  returns CLI_DONE, or an exit code after it reported the error */
int cli_prompt_read(const char *verb_name, const char *word, cli_text *out);

/** The text of a verb that takes [MODEL] [TEXT] and --file: that of the file, or as cli_prompt_read.
 *  One that is empty is an error.
 *
 *  file        of --file, or NULL.
 *  model_word  receives the word that is the model's folder, or NULL.
 *  returns     CLI_DONE, or an exit code after it reported the error */
int cli_prompt_read_text(const char *verb_name, const char *model_option, const char *file,
                         char **args, int count, const char **model_word, cli_text *out);

#endif

/* Options of an answer, and printing an answer as it is generated. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "options.h"
#include "text.h"

#include <mica/mica.h>

typedef struct cli_answer_values {
    double temperature, top_p, min_p;
    double repetition_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, penalty_window, max_tokens, min_tokens, draft_tokens, logprobs;
    const char *draft_model; /* NULL: none */
    cli_seed seed;
    cli_biases logit_bias;
    cli_texts stop, eos_token;
    int32_t stop_ids[CLI_TEXTS_MAX]; /* those of eos_token, from cli_answer_check */
    bool ignore_eos, truncate, quiet, verbose, wrap, echo;
} cli_answer_values;

/* The options of cli_answer_values. /set takes the first CLI_ANSWER_SETTABLE, `batch` the first
 * CLI_ANSWER_BATCH, an answer in a conversation the first CLI_ANSWER_CHAT. */
enum {
    CLI_ANSWER_SETTABLE = 11,
    CLI_ANSWER_BATCH = 15,
    CLI_ANSWER_CHAT = 22,
    CLI_ANSWER_OPTIONS = 23
};
extern const cli_option cli_answer_options[CLI_ANSWER_OPTIONS];

/** Checks what the option table cannot: combinations of values, and token ids against the
 *  vocabulary. Looks up the tokens of --eos-token.
 *
 *  returns false after it reported an error */
bool cli_answer_check(cli_answer_values *values, const mica_model *model);

/** Converts the values to the library's options, which borrow from them. Adds a progress bar for
 *  the prefill. Draws a seed unless one was given. */
mica_generate_options cli_answer_generate_options(const cli_answer_values *values);

/** With --verbose, prints the sampling options and the seed on stderr. */
void cli_answer_print_options(const cli_answer_values *values,
                              const mica_generate_options *options);

/** Warns if the prompt is longer than --context, because the model does not see the beginning of
 *  such a prompt. The stream was just opened. */
void cli_answer_warn_of_forgotten(const mica_stream *stream, int64_t context);

/** Prints an answer on stdout, each token at once, and its rates on stderr unless quiet. With
 *  --logprobs it prints a line for each token. Closes the stream.
 *
 *  model    the stream's.
 *  stream   just opened; receives NULL.
 *  kept     receives the printed text, also if interrupted, but for thoughts between special
 *           tokens; may be NULL.
 *  used     receives the number of tokens of prompt and answer; may be NULL.
 *  returns  CLI_DONE; CLI_INTERRUPTED; CLI_FAILED after it reported the error */
int cli_answer_print(mica_stream **stream, const mica_model *model, const cli_answer_values *values,
                     cli_text *kept, int64_t *used);

/** Prints the answer of a stream as one JSON object, with counts, times and, with --logprobs, its
 *  tokens (answer_json.c). Prints nothing after an error. Closes the stream.
 *
 *  options  the options that the stream was opened with.
 *  returns  as cli_answer_print */
int cli_answer_print_json(mica_stream **stream, const mica_model *model,
                          const cli_answer_values *values, const mica_generate_options *options);

#endif

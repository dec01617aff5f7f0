/* Answers: the options of one, and printing it as it comes. */
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
    cli_texts stop;
    bool ignore_eos, truncate, quiet, verbose, wrap, echo;
} cli_answer_values;

/* The table of cli_answer_values. The first CLI_ANSWER_SETTABLE can be set within a chat. An answer
 * in a conversation takes the first CLI_ANSWER_CHAT, one of many (`batch`) the first
 * CLI_ANSWER_BATCH. */
enum {
    CLI_ANSWER_SETTABLE = 11,
    CLI_ANSWER_BATCH = 15,
    CLI_ANSWER_CHAT = 21,
    CLI_ANSWER_OPTIONS = 22
};
extern const cli_option cli_answer_options[CLI_ANSWER_OPTIONS];

/** Checks what the values' table cannot: one against another, and token ids against the vocabulary.
 *
 *  returns false after it reported an error */
bool cli_answer_check(const cli_answer_values *values, int64_t vocab_size);

/** The library's options for these values, which they borrow, with a progress bar for the prefill,
 *  and a seed that is drawn now where none is given. */
mica_generate_options cli_answer_generate_options(const cli_answer_values *values);

/** With --verbose, prints on stderr how the answer is drawn, its seed too. */
void cli_answer_print_options(const cli_answer_values *values,
                              const mica_generate_options *options);

/** Warns of a prompt that is longer than --context: it loses what comes first, and the answer is to
 *  less than was asked. The stream was just opened. */
void cli_answer_warn_of_forgotten(const mica_stream *stream, int64_t context);

/** Prints an answer on stdout, each token at once, and its rates on stderr unless quiet; with
 *  --logprobs a line for each token. Closes the stream.
 *
 *  tok      the model's tokenizer, which spells the tokens of --logprobs.
 *  stream   just opened; receives NULL.
 *  kept     receives what was printed, interrupted or not; may be NULL.
 *  used     receives how many tokens prompt and answer have; may be NULL.
 *  returns  CLI_DONE; CLI_INTERRUPTED; CLI_FAILED after it reported the error */
int cli_answer_print(mica_stream **stream, const mica_tokenizer *tok,
                     const cli_answer_values *values, cli_text *kept, int64_t *used);

/** The answer of a stream as one JSON object, with counts, times and, with --logprobs, its tokens;
 *  nothing where it fails (answer_json.c). Closes the stream.
 *
 *  options  which the stream was opened with.
 *  returns  as cli_answer_print */
int cli_answer_print_json(mica_stream **stream, const mica_model *model,
                          const cli_answer_values *values, const mica_generate_options *options);

#endif

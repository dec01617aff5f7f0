/* Answers: the options of one, and printing it as it comes. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "options.h"
#include "text.h"

#include <mica/mica.h>

typedef struct cli_answer_values {
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k, max_tokens;
    uint64_t seed;
    bool quiet;
} cli_answer_values;

/* The table of cli_answer_values. Those before CLI_ANSWER_SETTABLE can be set within a chat. */
enum { CLI_ANSWER_SETTABLE = 7, CLI_ANSWER_OPTIONS = 8 };
extern const cli_option cli_answer_options[CLI_ANSWER_OPTIONS];

/** The library's options for these values, with a progress bar for the prefill. */
mica_generate_options cli_answer_generate_options(const cli_answer_values *values);

/** Prints an answer on stdout, each token at once, and its rates on stderr unless quiet. Closes the
 *  stream.
 *
 *  stream   just opened; receives NULL.
 *  kept     receives what was printed, interrupted or not; may be NULL.
 *  used     receives how many tokens prompt and answer have; may be NULL.
 *  returns  CLI_DONE; CLI_INTERRUPTED; CLI_FAILED after it reported the error */
int cli_answer_print(mica_stream **stream, const cli_answer_values *values, cli_text *kept,
                     int64_t *used);

#endif

#include "answer.h"

#include "info.h"
#include "interrupt.h"
#include "parts.h"
#include "print.h"
#include "ranks.h"
#include "report.h"
#include "ui.h"
#include "verb.h"
#include "wrap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const cli_option cli_answer_options[CLI_ANSWER_OPTIONS] = {
    CLI_OPTION(REAL, "temperature", cli_answer_values, temperature, .letter = 'T',
               .placeholder = "X", .initial = "0", .max = 100,
               .help = "sampling temperature; 0: greedy, always the likeliest token"),
    CLI_OPTION(INT, "top-k", cli_answer_values, top_k, .letter = 'k', .placeholder = "N",
               .initial = "0", .max = 1e9,
               .help = "top-k sampling: only the N likeliest tokens; 0: all"),
    CLI_OPTION(
        REAL, "top-p", cli_answer_values, top_p, .placeholder = "P", .initial = "1", .max = 1,
        .help =
            "top-p (nucleus) sampling: only the fewest tokens whose probabilities reach P; 1: all"),
    CLI_OPTION(
        REAL, "min-p", cli_answer_values, min_p, .placeholder = "P", .initial = "0", .max = 1,
        .help = "min-p sampling: only tokens at least P times as likely as the likeliest; 0: all"),
    CLI_OPTION(REAL, "repetition-penalty", cli_answer_values, repetition_penalty,
               .placeholder = "X", .initial = "1", .max = 100,
               .help =
                   "repetition penalty: above 1, tokens in the penalty window become less likely"),
    CLI_OPTION(REAL, "presence-penalty", cli_answer_values, presence_penalty, .placeholder = "X",
               .initial = "0", .min = -100, .max = 100,
               .help = "presence penalty: subtracted from the logit of each of the answer's tokens "
                       "in the penalty window"),
    CLI_OPTION(REAL, "frequency-penalty", cli_answer_values, frequency_penalty, .placeholder = "X",
               .initial = "0", .min = -100, .max = 100,
               .help = "frequency penalty: subtracted once for each occurrence of the token there"),
    CLI_OPTION(INT, "penalty-window", cli_answer_values, penalty_window, .placeholder = "N",
               .initial = "0", .max = 1e9,
               .help = "number of last tokens that the penalties apply to; 0: 20"),
    CLI_OPTION(INT, "max-tokens", cli_answer_values, max_tokens, .letter = 'n', .placeholder = "N",
               .initial = "0", .min = -1, .max = 1e9,
               .help = "maximum number of tokens to generate; 0 or -1: until the model stops"),
    CLI_OPTION(INT, "min-tokens", cli_answer_values, min_tokens, .placeholder = "N", .initial = "0",
               .max = 1e9,
               .help = "minimum number of tokens to generate before the answer may stop"),
    CLI_OPTION(
        SEED, "seed", cli_answer_values, seed, .letter = 's', .placeholder = "N",
        .initial = "random",
        .help =
            "random seed: the same seed gives the same answer; random: a new seed for each answer"),
    CLI_OPTION(BIASES, "logit-bias", cli_answer_values, logit_bias, .placeholder = "ID=X",
               .help = "add X to the logit of token ID; -inf forbids the token; may be repeated"),
    CLI_OPTION(TEXTS, "stop", cli_answer_values, stop, .placeholder = "TEXT",
               .help = "end the answer before TEXT; may be repeated"),
    CLI_OPTION(FLAG, "ignore-eos", cli_answer_values, ignore_eos,
               .help = "continue where the model would end the answer"),
    CLI_OPTION(FLAG, "truncate", cli_answer_values, truncate,
               .help = "drop the oldest tokens of a prompt that does not fit the context"),
    CLI_OPTION(TEXTS, "eos-token", cli_answer_values, eos_token, .placeholder = "TOKEN",
               .help = "end the answer at this token, too: its text, or its id; may be repeated"),
    CLI_OPTION(INT, "draft-tokens", cli_answer_values, draft_tokens, .placeholder = "N",
               .initial = "0", .max = 63,
               .help = "speculative decoding: draft up to N tokens where the text repeats itself; "
                       "faster, the same answer; 0: none, with a draft model 7"),
    CLI_OPTION(
        FOLDER, "draft-model", cli_answer_values, draft_model, .placeholder = "FOLDER",
        .help =
            "speculative decoding: a smaller model with the same vocabulary that drafts tokens"),
    CLI_OPTION(INT, "logprobs", cli_answer_values, logprobs, .placeholder = "N", .initial = "0",
               .max = 1000,
               .help = "print each token on a line, with its log-probability and the N likeliest; "
                       "0: print text"),
    CLI_OPTION(FLAG, "quiet", cli_answer_values, quiet, .letter = 'q',
               .help = "print no rates and no progress on stderr"),
    CLI_OPTION(FLAG, "verbose", cli_answer_values, verbose, .letter = 'v',
               .help = "also print the model, the seed, the sampling options and times on stderr"),
    CLI_OPTION(FLAG, "wrap", cli_answer_values, wrap, .initial = "on",
               .help = "break lines between words when the answer is printed on a terminal"),
    CLI_OPTION(FLAG, "echo", cli_answer_values, echo, .help = "print the prompt, too"),
};

/* A number is an id, as in mlx-lm. */
static bool find_token(const char *text, const mica_model *model, int64_t vocab_size, int32_t *id) {
    size_t len = strlen(text);
    bool number = strspn(text, "0123456789") == len;
    long long value = number ? strtoll(text, NULL, 10)
                             : mica_tokenizer_find(mica_model_tokenizer(model), text, len);
    *id = (int32_t)value;
    if (value >= 0 && value < vocab_size) return true;
    cli_fail("--eos-token: '%s' is no token of the model", text);
    return false;
}

bool cli_answer_check(cli_answer_values *values, const mica_model *model) {
    int64_t vocab_size = cli_model_info(model).vocab_size;
    if (values->max_tokens > 0 && values->min_tokens > values->max_tokens) {
        cli_fail("--min-tokens %" PRId64 " is more than --max-tokens %" PRId64, values->min_tokens,
                 values->max_tokens);
        return false;
    }
    for (size_t i = 0; i < values->logit_bias.count; i++) {
        int32_t id = values->logit_bias.values[i].id;
        if (id < vocab_size) continue;
        cli_fail("--logit-bias: there is no token %" PRId32 "; the model's are 0 to %" PRId64, id,
                 vocab_size - 1);
        return false;
    }
    for (size_t i = 0; i < values->eos_token.count; i++)
        if (!find_token(values->eos_token.values[i], model, vocab_size, &values->stop_ids[i]))
            return false;
    return true;
}

/* A random seed of 32 bits, short enough to type. It is from the system, else from the clock. */
static uint64_t random_seed(void) {
    uint32_t seed;
    FILE *in = fopen("/dev/urandom", "rb");
    bool read = in && fread(&seed, sizeof seed, 1, in) == 1;
    if (in) fclose(in);
    if (!read) seed = (uint32_t)(cli_seconds() * 1e6);
    return cli_ranks_share(&seed, sizeof seed) ? seed : 0;
}

mica_generate_options cli_answer_generate_options(const cli_answer_values *values) {
    return (mica_generate_options){
        .max_tokens = values->max_tokens > 0 ? values->max_tokens : 0,
        .min_tokens = values->min_tokens,
        .temperature = (float)values->temperature,
        .top_k = (int)values->top_k,
        .top_p = (float)values->top_p,
        .min_p = (float)values->min_p,
        .repetition_penalty = (float)values->repetition_penalty,
        .presence_penalty = (float)values->presence_penalty,
        .frequency_penalty = (float)values->frequency_penalty,
        .penalty_window = (int)values->penalty_window,
        .logit_bias = values->logit_bias.values,
        .logit_bias_count = values->logit_bias.count,
        .seed = values->seed.given ? values->seed.value : random_seed(),
        .stop_ids = values->stop_ids,
        .stop_count = values->eos_token.count,
        .stop_strings = values->stop.values,
        .stop_string_count = values->stop.count,
        .ignore_eos = values->ignore_eos,
        .draft_tokens = (int)values->draft_tokens,
        .logprobs = values->logprobs > 0,
        .top_logprobs = (int)values->logprobs,
        .echo = values->echo,
        .truncate = values->truncate,
        .progress = cli_progress_tick,
    };
}

void cli_answer_print_options(const cli_answer_values *values,
                              const mica_generate_options *options) {
    if (!values->verbose) return;
    cli_set_style(CLI_DIM);
    fputs("answer  ", stderr);
    for (size_t i = 0; i < CLI_ANSWER_SETTABLE; i++) {
        const cli_option *option = &cli_answer_options[i];
        if (option->kind == CLI_SEED) continue;
        cli_print(stderr, "%s%s ", i > 0 ? ", " : "", option->name);
        cli_option_print(option, values, stderr);
    }
    if (options->temperature > 0) fprintf(stderr, ", seed %" PRIu64, options->seed);
    cli_set_style(CLI_PLAIN);
    fputc('\n', stderr);
}

void cli_answer_warn_of_forgotten(const mica_stream *stream, int64_t context) {
    mica_metrics m = cli_metrics(stream);
    if (m.forgotten_tokens > 0)
        cli_fail("--context %" PRId64 " forgets %" PRId64 " of the prompt's %" PRId64 " tokens",
                 context, m.forgotten_tokens, m.prompt_tokens);
}

static void print_rates(const mica_stream *stream, const cli_answer_values *values) {
    char bytes[CLI_NUMBER];
    cli_wrap line = {0};
    mica_metrics m = cli_metrics(stream);
    cli_set_style(CLI_DIM);
    cli_say(&line, "%" PRId64 " prompt tokens", m.prompt_tokens - m.reused_tokens);
    if (m.reused_tokens > 0) cli_say(&line, " (and %" PRId64 " known)", m.reused_tokens);
    if (m.truncated_tokens > 0) cli_say(&line, " (%" PRId64 " dropped)", m.truncated_tokens);
    cli_say(&line, " at %.1f tok/s, %" PRId64 " generated at %.1f tok/s", m.prefill_rate,
            m.generated_tokens, m.decode_rate);
    if (m.drafted_tokens > 0)
        cli_say(&line, ", %" PRId64 " of %" PRId64 " drafts right", m.accepted_tokens,
                m.drafted_tokens);
    switch (mica_stream_finish(stream)) {
    case MICA_FINISH_CANCELLED:
        cli_say(&line, ", interrupted");
        break;
    case MICA_FINISH_LENGTH:
        cli_say(&line, values->max_tokens > 0 && m.generated_tokens >= values->max_tokens
                           ? ", the end of --max-tokens"
                           : ", the context is full");
        break;
    default:
        break;
    }
    if (values->verbose && m.fallback_ops > 0)
        cli_say(&line, "\n%" PRIu64 " ops ran on the CPU: the device has no kernel for them",
                m.fallback_ops);
    if (values->verbose)
        cli_say(&line, "\n%.3f s prefill, %.3f s decode, %s of memory beside the weights",
                m.prefill_seconds, m.decode_seconds, cli_format_bytes(m.peak_bytes, bytes));
    cli_say_end(&line);
    cli_set_style(CLI_PLAIN);
}

static void print_token(const mica_tokenizer *tok, int32_t id, int width) {
    size_t len = 0;
    const char *piece = mica_tokenizer_token(tok, id, &len);
    int printed = cli_print_line(piece ? piece : "", piece ? len : 0, stdout);
    if (printed < width) cli_print(stdout, "%*s", width - printed, "");
}

/* Prints a line with a token and the likeliest tokens at its place. */
static void print_logprobs(const mica_tokenizer *tok, const mica_token *token) {
    enum { WIDTH = 16 };
    if (token->id < 0) return;
    if (token->prompt)
        cli_print(stdout, "%9s  ", "");
    else
        printf("%9.4f  ", (double)token->logprob);
    print_token(tok, token->id, token->alternative_count > 0 ? WIDTH : 0);
    for (size_t i = 0; i < token->alternative_count; i++) {
        fputs("  ", stdout);
        print_token(tok, token->alternatives[i].id, 0);
        printf(" %.4f", (double)token->alternatives[i].logprob);
    }
    putchar('\n');
}

/* Prints some of an answer's text, wrapped unless `wrap` is NULL. */
static void print_text(cli_wrap *wrap, const char *text, size_t len) {
    if (wrap)
        cli_wrap_put(wrap, text, len, cli_columns(stdout), stdout);
    else
        cli_print_result(text, len);
}

/* Finds what a token adds to what is printed; NULL: the answer's end. false: an error, reported. */
static bool find_shown(cli_parts *parts, const mica_token *token, cli_text *shown, cli_text *kept) {
    shown->len = 0;
    if (parts->answer) return cli_parts_take(parts, token, shown, kept);
    return !token || (cli_text_append(shown, token->text, token->len) &&
                      (!kept || cli_text_append(kept, token->text, token->len)));
}

int cli_answer_print(mica_stream **stream, const mica_model *model, const cli_answer_values *values,
                     cli_text *kept, int64_t *used) {
    mica_token token;
    cli_parts parts;
    cli_text shown = {0};
    bool printing = cli_parts_open(&parts, model), more = true;
    char last = '\n';
    cli_wrap lines = {0}, *wrap = values->wrap && cli_stdout_is_terminal() ? &lines : NULL;
    cli_progress_start("reading", values->quiet);
    cli_interrupt_watch(*stream);
    while (printing && more) {
        more = mica_stream_next(*stream, &token);
        cli_progress_clear();
        printing = find_shown(&parts, more ? &token : NULL, &shown, kept);
        if (values->logprobs > 0) {
            if (more) print_logprobs(mica_model_tokenizer(model), &token);
        } else if (shown.len > 0) {
            print_text(wrap, shown.data, shown.len);
            last = shown.data[shown.len - 1];
        }
        printing = cli_flush() && printing;
    }
    cli_parts_close(&parts);
    free(shown.data);
    cli_interrupt_watch(NULL);
    cli_progress_clear();

    mica_status status = mica_stream_status(*stream);
    mica_metrics metrics = cli_metrics(*stream);
    if (used) *used = metrics.prompt_tokens + metrics.generated_tokens;
    int code = CLI_FAILED;
    if (wrap) cli_wrap_end(wrap, cli_columns(stdout), stdout);
    if (last != '\n') putchar('\n');
    if (!cli_flush() || !printing)
        code = CLI_FAILED;
    else if (status != MICA_OK && status != MICA_ECANCELLED)
        code = cli_fail_status(status);
    else
        code = status == MICA_OK ? CLI_DONE : CLI_INTERRUPTED;
    if (code != CLI_FAILED && !values->quiet) print_rates(*stream, values);
    mica_stream_close(stream);
    return code;
}

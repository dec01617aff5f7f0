#define _POSIX_C_SOURCE 200809L
#include "answer.h"
#include "info.h"

#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>

/* An answer while it comes. */
typedef struct collected {
    cli_text text;
    cli_text logprobs; /* rows of the array of that name */
} collected;

static void put_token(const mica_tokenizer *tok, int32_t id, cli_text *out) {
    size_t len = 0;
    const char *piece = mica_tokenizer_token(tok, id, &len);
    cli_text_printf(out, "{\"id\": %" PRId32 ", \"token\": ", id);
    cli_text_append_json(out, piece ? piece : "", piece ? len : 0);
}

/* A token and the likeliest at its place. One of the prompt has no log-probability. */
static void put_logprobs(const mica_tokenizer *tok, const mica_token *token, cli_text *out) {
    if (token->id < 0) return;
    cli_text_printf(out, "%s", out->len > 0 ? ", " : "");
    put_token(tok, token->id, out);
    if (!token->prompt) cli_text_printf(out, ", \"logprob\": %.9g", (double)token->logprob);
    cli_text_printf(out, ", \"top\": [");
    for (size_t i = 0; i < token->alternative_count; i++) {
        cli_text_printf(out, "%s", i ? ", " : "");
        put_token(tok, token->alternatives[i].id, out);
        cli_text_printf(out, ", \"logprob\": %.9g}", (double)token->alternatives[i].logprob);
    }
    cli_text_printf(out, "]}");
}

/* Takes all of the stream.  returns false after it reported an error */
static bool collect(mica_stream *stream, const mica_tokenizer *tok, const cli_answer_values *values,
                    collected *c) {
    mica_token token;
    bool kept = cli_text_append(&c->text, "", 0);
    cli_progress_start("reading", values->quiet);
    cli_interrupt_watch(stream);
    while (kept && mica_stream_next(stream, &token)) {
        cli_progress_clear();
        kept = cli_text_append(&c->text, token.text, token.len);
        if (kept && values->logprobs > 0) put_logprobs(tok, &token, &c->logprobs);
        kept = kept && !c->logprobs.failed;
    }
    cli_interrupt_watch(NULL);
    cli_progress_clear();
    mica_status status = mica_stream_status(stream);
    if (kept && status != MICA_OK && status != MICA_ECANCELLED) {
        cli_fail_status(status);
        kept = false;
    }
    return kept;
}

static const char *finish_name(mica_finish finish) {
    return finish == MICA_FINISH_CANCELLED ? "interrupted" : mica_finish_name(finish);
}

static void print(const mica_stream *stream, const mica_model *model,
                  const cli_answer_values *values, const mica_generate_options *options,
                  const collected *c) {
    mica_metrics m = cli_metrics(stream);
    fputs("{\"model\": ", stdout);
    cli_print_json(cli_model_info(model).path, stdout);
    fputs(", \"text\": ", stdout);
    cli_print_json_bytes(c->text.data, c->text.len, stdout);
    cli_print(stdout, ", \"finish\": \"%s\"", finish_name(mica_stream_finish(stream)));
    if (options->temperature > 0) printf(", \"seed\": %" PRIu64, options->seed);
    printf(", \"prompt_tokens\": %" PRId64 ", \"truncated_tokens\": %" PRId64
           ", \"forgotten_tokens\": %" PRId64 ", \"generated_tokens\": %" PRId64,
           m.prompt_tokens, m.truncated_tokens, m.forgotten_tokens, m.generated_tokens);
    printf(", \"total_seconds\": %.6f, \"prefill_seconds\": %.6f, \"decode_seconds\": %.6f"
           ", \"prefill_rate\": %.2f, \"decode_rate\": %.2f",
           m.total_seconds, m.prefill_seconds, m.decode_seconds, m.prefill_rate, m.decode_rate);
    if (values->logprobs > 0)
        cli_print(stdout, ", \"logprobs\": [%s]", c->logprobs.data ? c->logprobs.data : "");
    puts("}");
}

int cli_answer_print_json(mica_stream **stream, const mica_model *model,
                          const cli_answer_values *values, const mica_generate_options *options) {
    collected c = {0};
    int code = CLI_FAILED;
    if (collect(*stream, mica_model_tokenizer(model), values, &c)) {
        print(*stream, model, values, options, &c);
        code = mica_stream_status(*stream) == MICA_OK ? CLI_DONE : CLI_INTERRUPTED;
        if (!cli_flush()) code = CLI_FAILED;
    }
    free(c.logprobs.data);
    free(c.text.data);
    mica_stream_close(stream);
    return code;
}

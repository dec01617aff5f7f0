/* mica score: how likely a text is according to the model. */
#include "print.h"
#include "prompt.h"
#include "report.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>

typedef struct score_values {
    cli_model_values model;
    const char *file;
    bool tokens, json, quiet;
} score_values;

static void print_text(const mica_score_result *r, const mica_tokenizer *tok, bool tokens) {
    for (size_t i = 0; tokens && i < r->count; i++) {
        size_t len = 0;
        const char *piece = mica_tokenizer_token(tok, r->ids[i], &len);
        if (i == 0)
            cli_print(stdout, "%9s  ", "");
        else
            printf("%9.4f  ", (double)r->logprobs[i]);
        cli_print_line(piece ? piece : "", piece ? len : 0, stdout);
        putchar('\n');
    }
    printf("tokens           %zu\nlog-probability  %.4f\nperplexity       %.4f\n", r->count,
           r->total, r->perplexity);
}

static void print_json(const mica_score_result *r, const mica_tokenizer *tok, bool tokens) {
    printf("{\"tokens\": %zu, \"log_probability\": %.9g, \"perplexity\": %.9g", r->count, r->total,
           r->perplexity);
    for (size_t i = 0; tokens && i < r->count; i++) {
        size_t len = 0;
        const char *piece = mica_tokenizer_token(tok, r->ids[i], &len);
        cli_print(stdout, "%s{\"id\": %ld, \"token\": ", i ? ", " : ", \"scores\": [",
                  (long)r->ids[i]);
        cli_print_json_bytes(piece ? piece : "", piece ? len : 0, stdout);
        if (i > 0) printf(", \"log_probability\": %.9g", (double)r->logprobs[i]);
        putchar('}');
    }
    cli_print(stdout, "%s\n", tokens ? "]}" : "}");
}

static int run(const void *verb_values, char **args, int count) {
    const score_values *values = verb_values;
    const char *model_word;
    cli_text text = {0};
    cli_task task = {0};
    mica_score_result *result = NULL;
    const cli_source source = {.noun = "text",
                               .kind = CLI_TEXT_OF_LONG,
                               .instead = CLI_TEXT_INSTEAD,
                               .model = values->model.model,
                               .file = values->file};
    int code = cli_prompt_read("score", &source, args, count, &model_word, &text);
    if (code == CLI_DONE)
        code = cli_task_open(&task, &values->model, model_word, "score", values->quiet);
    if (code != CLI_DONE) goto done;

    mica_task_options options = {.progress = cli_progress_tick, .cancel = task.cancel};
    cli_progress_start("reading", values->quiet);
    mica_status status = mica_score(task.model, text.data, text.len, &options, &result);
    cli_progress_clear();
    code = status == MICA_OK ? CLI_DONE : cli_task_fail(status);
    if (status == MICA_OK && values->json)
        print_json(result, mica_model_tokenizer(task.model), values->tokens);
    else if (status == MICA_OK)
        print_text(result, mica_model_tokenizer(task.model), values->tokens);
done:
    mica_score_free(&result);
    cli_task_close(&task);
    free(text.data);
    return code;
}

static const cli_option score_options[] = {
    CLI_OPTION(FILE, "file", score_values, file, .letter = 'f', .placeholder = "FILE",
               .help = "read the text from FILE"),
    CLI_OPTION(FLAG, "tokens", score_values, tokens,
               .help = "also print the log-probability of each token"),
    CLI_OPTION(FLAG, "json", score_values, json, .help = "print a JSON object"),
    CLI_OPTION(FLAG, "quiet", score_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_verb cli_verb_score = {
    .synopsis = "[MODEL] [TEXT]",
    .details = "Prints the natural logarithm of the probability that the model gives TEXT, and\n"
               "its perplexity: the lower, the better the model expects it.\n"
               "\n" CLI_STDIN_HELP("TEXT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica score \"curl is a command line tool\"\n"
                "  mica score ~/models/gemma-3-1b-it --file letter.txt --json\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .ranks = CLI_RANKS_TOGETHER,
    .values_bytes = sizeof(score_values),
    .groups = {{"Score", score_options, CLI_COUNT(score_options), 0},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(score_values, model)},
               {"Ranks", cli_model_ranks, CLI_MODEL_RANKS, offsetof(score_values, model)}},
    .run = run,
};

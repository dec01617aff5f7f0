#include "prompt.h"

#include "info.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const cli_option cli_prompt_options[CLI_PROMPT_OPTIONS] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = CLI_TEXT,
     .placeholder = "TEXT",
     .help = "the prompt; a word is then the model",
     .offset = offsetof(cli_prompt_values, prompt),
     .no_variable = true},
    {.name = "file",
     .letter = 'f',
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "read the prompt from FILE, without a line feed at its end",
     .offset = offsetof(cli_prompt_values, file),
     .no_variable = true},
    {.name = "json",
     .kind = CLI_FLAG,
     .help = "print a JSON object: the text, why it ended, token counts, times",
     .offset = offsetof(cli_prompt_values, json)},
};

/* Finds where the text is: in *word (a word, or the text of --prompt), else in a file. */
static int find(const char *verb_name, const cli_source *source, char **args, int count,
                const char **model_word, const char **word) {
    const char *option = source->file ? source->file : source->prompt;
    if (source->file && source->prompt)
        return cli_usage(verb_name, "two %ss: --prompt and --file", source->noun);
    if (option && count == 1) {
        *model_word = args[0];
        *word = NULL;
    } else {
        cli_model_split(source->model, args, count, model_word, word);
    }
    if (count == 1 && *word && !source->model && cli_model_is_missing(*word)) {
        cli_hint(source->instead);
        return CLI_FAILED;
    }
    if (option && *word)
        return cli_usage(verb_name, "two %ss: --%s %s and %s", source->noun,
                         source->file ? "file" : "prompt", option, *word);
    if (source->prompt) *word = source->prompt;
    return CLI_DONE;
}

int cli_prompt_read(const char *verb_name, const cli_source *source, char **args, int count,
                    const char **model_word, cli_text *out) {
    const char *word;
    int code = find(verb_name, source, args, count, model_word, &word);
    if (code != CLI_DONE) return code;
    bool from_stdin = !source->file && !source->prompt && (!word || strcmp(word, "-") == 0);
    bool read, file_is_stdin = source->file && strcmp(source->file, "-") == 0;
    if (source->reads_stdin && (from_stdin || file_is_stdin))
        return cli_usage(verb_name, "standard input has the %s, not the file of %s", source->noun,
                         source->reads_stdin);
    if (from_stdin && !word && cli_stdin_is_terminal())
        return cli_usage(verb_name, "%s needs a text", verb_name);
    if (source->file)
        read = cli_text_read_file(out, source->kind, source->file);
    else
        read = from_stdin ? cli_text_read_stdin(out, source->kind)
                          : cli_text_append(out, word, strlen(word));
    if (!read) return CLI_FAILED;
    return out->len > 0 || source->may_be_empty ? CLI_DONE
                                                : cli_fail("the %s is empty", source->noun);
}

/* Reads the prompt. Drops a line feed at the end of a file, and refuses NUL bytes. */
static int read_prompt(const char *verb_name, const cli_prompt_values *values, char **args,
                       int count, const char **model_word, cli_text *prompt) {
    const cli_source source = {.noun = "prompt",
                               .kind = CLI_TEXT_OF_PROMPT,
                               .instead = "If it is the prompt, put --prompt before it; if it is "
                                          "a file with the prompt, put --file.",
                               .may_be_empty = true, /* reported below */
                               .model = values->model.model,
                               .prompt = values->prompt,
                               .file = values->file,
                               .reads_stdin = cli_constraint_stdin(&values->constraint)};
    int code = cli_prompt_read(verb_name, &source, args, count, model_word, prompt);
    if (code != CLI_DONE) return code;
    if (values->file) cli_text_drop_line_feed(prompt);
    if (prompt->len == 0)
        return cli_fail(
            "the prompt is empty: give a text as an argument, by --file, or on standard input");
    const char *name = values->file ? values->file : "standard input";
    if (!cli_text_check(prompt, name)) return CLI_FAILED;
    return cli_is_utf8(prompt->data, prompt->len) ? CLI_DONE : cli_fail("the prompt is not UTF-8");
}

static void print_model(const mica_model *model, bool verbose) {
    char bytes[CLI_NUMBER];
    if (!verbose) return;
    mica_model_info info = cli_model_info(model);
    mica_device_info device = cli_device_info(mica_model_device(model));
    cli_set_style(CLI_DIM);
    cli_print(stderr, "model   %s, %s, %s, %s; ", info.path, info.architecture, info.quantization,
              cli_format_bytes(info.weight_bytes, bytes));
    if (mica_model_device(model))
        cli_print(stderr, "%s%s%s in %d thread%s", device.name, device.architecture[0] ? ", " : "",
                  device.architecture, device.threads, device.threads == 1 ? "" : "s");
    else
        cli_print(stderr, "engine %s", info.engine);
    cli_set_style(CLI_PLAIN);
    fputc('\n', stderr);
}

int cli_prompt_run(const char *verb_name, const cli_prompt_values *values, char **args, int count,
                   cli_prompt_open open, const void *user) {
    const cli_answer_values *answer = &values->answer;
    const char *model_word;
    cli_text prompt = {0};
    cli_constraint constraint = {0};
    mica_model *model = NULL, *draft = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_status status;

    int code = read_prompt(verb_name, values, args, count, &model_word, &prompt);
    if (code == CLI_DONE) code = cli_constraint_read(verb_name, &values->constraint, &constraint);
    if (code != CLI_DONE) goto done;
    model = cli_model_open_default(&values->model, model_word, verb_name, answer->quiet, &code);
    if (!model) goto done;

    code = CLI_FAILED;
    if (!cli_answer_check(answer, cli_model_info(model).vocab_size)) goto done;
    mica_generate_options options = cli_answer_generate_options(answer);
    cli_constraint_set(&constraint, &options);
    session =
        cli_model_open_session(model, &values->model, answer->draft_model, answer->quiet, &draft);
    if (!session) goto done;
    print_model(model, answer->verbose);
    cli_answer_print_options(answer, &options);
    status = open(session, &prompt, &options, user, &stream);
    if (status == MICA_OK) cli_answer_warn_of_forgotten(stream, values->model.context);
    if (status != MICA_OK)
        code = cli_fail_status(status);
    else if (values->json)
        code = cli_answer_print_json(&stream, model, answer, &options);
    else
        code = cli_answer_print(&stream, mica_model_tokenizer(model), answer, NULL, NULL);
done:
    mica_session_close(&session);
    mica_model_close(&draft);
    mica_model_close(&model);
    cli_constraint_deinit(&constraint);
    free(prompt.data);
    return code;
}

#define _POSIX_C_SOURCE 200809L
#include "prompt.h"

#include "info.h"
#include "path.h"
#include "print.h"
#include "report.h"
#include "stdin.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const cli_option cli_prompt_options[CLI_PROMPT_RUN] = {
    CLI_OPTION(TEXT, "prompt", cli_prompt_values, prompt, .letter = 'p', .placeholder = "TEXT",
               .no_variable = true, .help = "the prompt; a word is then the model"),
    CLI_OPTION(FILE, "file", cli_prompt_values, file, .letter = 'f', .placeholder = "FILE",
               .no_variable = true,
               .help = "read the prompt from FILE, without a line feed at its end; after a prompt "
                       "that is given, too"),
    CLI_OPTION(FLAG, "json", cli_prompt_values, json,
               .help = "print a JSON object: the text, why it ended, token counts, times"),
    CLI_OPTION(TEXT, "prefill", cli_prompt_values, prefill, .placeholder = "TEXT",
               .help = "the answer begins with TEXT, and what comes behind it is printed"),
};

/* Where a text comes from. */
typedef struct origin {
    const char *word, *file; /* a word or the text of --prompt; a file; NULL: none */
    bool dash;               /* - asks for standard input */
} origin;

/* Takes the words - out.  returns how many others there are */
static int take_dashes(char **args, int count, char **words, bool *dash) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(args[i], "-") == 0)
            *dash = true;
        else
            words[kept++] = args[i];
    }
    return kept;
}

/* A word that is a file is sooner a slip than a text. */
static int check_file(const cli_source *source, origin *from) {
    struct stat info;
    const char *path = cli_path_expand(from->word);
    if (!path) return CLI_FAILED;
    if (stat(path, &info) != 0 || S_ISDIR(info.st_mode)) return CLI_DONE;
    if (from->file || !cli_can_ask()) {
        cli_fail("%s is a file, and not read as the %s", path, source->noun);
        cli_hint(source->instead);
        return CLI_FAILED;
    }
    cli_wrap line = {0};
    cli_say(&line, "%s is a file. Read the %s from it? [Y/n]", path, source->noun);
    cli_wrap_end(&line, cli_columns(stderr), stderr);
    fputc(' ', stderr);
    if (!cli_read_yes()) return CLI_DONE;
    from->file = path;
    from->word = NULL;
    return CLI_DONE;
}

/* Finds the model's word and where the text is. */
static int find_prompt(const char *verb_name, const cli_source *source, char **args, int count,
                       const char **model_word, origin *from) {
    enum { MAX_WORDS = 3 };
    char *words[MAX_WORDS];
    const char *option = source->prompt ? source->prompt : source->joins ? NULL : source->file;
    *from = (origin){.file = source->file};
    count = take_dashes(args, count < MAX_WORDS ? count : MAX_WORDS, words, &from->dash);
    if (count == MAX_WORDS)
        return cli_usage(verb_name, "%s takes no '%s'; put quotes around a text of several words",
                         verb_name, words[MAX_WORDS - 1]);
    if (count == 1 && (option || (from->dash && !source->joins)))
        *model_word = words[0];
    else
        cli_model_split(source->model, words, count, model_word, &from->word);
    bool is_text_file = from->word && !cli_path_ends(from->word, ".gguf");
    int code = is_text_file ? check_file(source, from) : CLI_DONE;
    if (code != CLI_DONE) return code;
    if (count == 1 && from->word && !source->model &&
        cli_model_is_missing(from->word, source->joins)) {
        cli_hint(source->instead);
        return CLI_FAILED;
    }
    if (option && from->word)
        return cli_usage(verb_name, "two %ss: --%s %s and %s", source->noun,
                         source->prompt ? "prompt" : "file", option, from->word);
    if (!source->joins && from->dash && from->file)
        return cli_usage(verb_name, "two %ss: --file %s and -", source->noun, from->file);
    if (source->prompt) from->word = source->prompt;
    return CLI_DONE;
}

/* Appends a part of the text, read from a source of that name, with a blank line before it. */
static bool join(const cli_source *source, cli_text *out, cli_text *part, const char *name) {
    if (source->joins) cli_text_drop_line_feed(part);
    bool joined = (!source->joins || cli_text_check(part, name)) &&
                  (out->len == 0 || part->len == 0 || cli_text_append(out, "\n\n", 2)) &&
                  cli_text_append(out, part->data, part->len);
    free(part->data);
    *part = (cli_text){0};
    return joined;
}

int cli_prompt_read(const char *verb_name, const cli_source *source, char **args, int count,
                    const char **model_word, cli_text *out) {
    origin from;
    cli_text part = {0};
    int code = find_prompt(verb_name, source, args, count, model_word, &from);
    if (code != CLI_DONE) return code;
    bool alone = !from.word && !from.file, file_is_stdin = from.file && strcmp(from.file, "-") == 0;
    if (alone && !from.dash && source->may_be_missing) return CLI_DONE;
    if (source->reads_stdin && (alone || from.dash || file_is_stdin))
        return cli_usage(verb_name, "standard input has the %s, not the file of %s", source->noun,
                         source->reads_stdin);
    if (alone && !from.dash && cli_stdin_is_terminal())
        return cli_usage(verb_name, "%s needs a text", verb_name);
    bool from_stdin = alone || from.dash;
    bool read = !from.word || cli_text_append(out, from.word, strlen(from.word));
    if (from.file)
        read = read && cli_text_read_file(&part, source->kind, from.file) &&
               join(source, out, &part, from.file);
    if (source->joins && !from_stdin && !file_is_stdin && !source->reads_stdin)
        from_stdin = cli_stdin_has_text();
    if (from_stdin)
        read = read && cli_text_read_stdin(&part, source->kind) &&
               join(source, out, &part, "standard input");
    free(part.data);
    if (!read || !cli_text_check_length(out->len, source->kind, source->noun)) return CLI_FAILED;
    return out->len > 0 || source->may_be_empty ? CLI_DONE
                                                : cli_fail("the %s is empty", source->noun);
}

/* Reads the prompt. */
static int read_prompt(const char *verb_name, const cli_prompt_values *values, char **args,
                       int count, const char **model_word, cli_text *prompt) {
    const cli_source source = {.noun = "prompt",
                               .kind = CLI_TEXT_OF_PROMPT,
                               .instead = CLI_PROMPT_INSTEAD,
                               .joins = true,
                               .may_be_empty = true, /* reported below */
                               .model = values->model.model,
                               .prompt = values->prompt,
                               .file = values->file,
                               .reads_stdin = cli_constraint_stdin(&values->constraint)};
    int code = cli_prompt_read(verb_name, &source, args, count, model_word, prompt);
    if (code != CLI_DONE) return code;
    if (prompt->len == 0)
        return cli_fail(
            "the prompt is empty: give a text as an argument, by --file, or on standard input");
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
    cli_answer_values checked = values->answer, *answer = &checked;
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
    if (!cli_answer_check(answer, model)) goto done;
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
        code = cli_answer_print(&stream, model, answer, NULL, NULL);
done:
    mica_session_close(&session);
    mica_model_close(&draft);
    mica_model_close(&model);
    cli_constraint_deinit(&constraint);
    free(prompt.data);
    return code;
}

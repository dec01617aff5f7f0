/* mica tokenize: turns a text to token ids, and back. */
#include "model.h"
#include "print.h"
#include "prompt.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct tokenize_values {
    cli_model_values model;
    const char *file;
    bool ids, decode;
} tokenize_values;

static int encode(const mica_tokenizer *tok, const cli_text *text, bool ids_only) {
    int32_t *ids = NULL;
    size_t n = 0;
    mica_status status = mica_tokenizer_encode(tok, text->data, text->len, true, &ids, &n);
    if (status != MICA_OK) return cli_fail_status(status);
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *piece = mica_tokenizer_token(tok, ids[i], &len);
        if (ids_only) {
            cli_print(stdout, "%s%" PRId32, i ? " " : "", ids[i]);
            continue;
        }
        printf("%7" PRId32 "  ", ids[i]);
        cli_print_line(piece ? piece : "", piece ? len : 0, stdout);
        putchar('\n');
    }
    if (ids_only) putchar('\n');
    mica_free(ids);
    return CLI_DONE;
}

/* Parses token ids that are separated by blanks or commas. returns an exit code */
static int parse_ids(const mica_tokenizer *tok, const cli_text *text, int32_t *ids, size_t *n) {
    const char *at = text->data;
    for (*n = 0;;) {
        while (*at == ' ' || *at == ',' || *at == '\t' || *at == '\n' || *at == '\r')
            at++;
        if (!*at) return CLI_DONE;
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX)
            return cli_usage("tokenize", "'%.20s' is not a token id", at);
        if (!mica_tokenizer_token(tok, (int32_t)id, NULL))
            return cli_fail("there is no token %ld; the model's are 0 to %zu", id,
                            mica_tokenizer_vocab_size(tok) - 1);
        ids[(*n)++] = (int32_t)id;
        at = end;
    }
}

static int decode(const mica_tokenizer *tok, const cli_text *text) {
    char *out = NULL;
    size_t len = 0, n;
    int32_t *ids = malloc((text->len / 2 + 1) * sizeof *ids); /* an id has at least two bytes */
    if (!ids) return cli_fail("out of memory");
    int code = parse_ids(tok, text, ids, &n);
    if (code != CLI_DONE) goto done;
    mica_status status = mica_tokenizer_decode(tok, ids, n, false, &out, &len);
    code = status == MICA_OK ? CLI_DONE : cli_fail_status(status);
    if (status == MICA_OK) {
        cli_print_result(out, len);
        putchar('\n');
    }
done:
    mica_free(out);
    free(ids);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const tokenize_values *values = verb_values;
    const cli_source source = {.noun = "text",
                               .kind = CLI_TEXT_OF_LONG,
                               .instead = CLI_TEXT_INSTEAD,
                               .may_be_empty = true,
                               .model = values->model.model,
                               .file = values->file};
    const char *model_word, *path;
    cli_text text = {0};
    mica_tokenizer *tok = NULL;
    int code = cli_prompt_read("tokenize", &source, args, count, &model_word, &text);
    if (code != CLI_DONE) goto done;
    path = cli_model_find(values->model.model, model_word, values->model.yes, "tokenize", &code);
    if (!path) goto done;
    mica_status status = mica_tokenizer_open(path, &tok);
    if (status != MICA_OK)
        code = cli_fail_status(status);
    else
        code = values->decode ? decode(tok, &text) : encode(tok, &text, values->ids);
done:
    mica_tokenizer_close(&tok);
    free(text.data);
    return code;
}

static const cli_option tokenize_options[] = {
    CLI_OPTION(FILE, "file", tokenize_values, file, .letter = 'f', .placeholder = "FILE",
               .no_variable = true, .help = "read the text from FILE"),
    CLI_OPTION(FLAG, "ids", tokenize_values, ids, .help = "print only the ids, on one line"),
    CLI_OPTION(FLAG, "decode", tokenize_values, decode, .letter = 'd',
               .help = "TEXT is a list of ids: print their text"),
};

const cli_verb cli_verb_tokenize = {
    .synopsis = "[MODEL] [TEXT]",
    .details = "Prints the id and the spelling of each token of TEXT, and of the special tokens\n"
               "that the model's tokenizer puts around it, such as <bos>.\n"
               "\n" CLI_STDIN_HELP("TEXT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica tokenize \"What is curl?\"\n"
                "  mica tokenize --ids < letter.txt | mica tokenize --decode\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(tokenize_values),
    .groups = {{"Text", tokenize_options, CLI_COUNT(tokenize_options), 0},
               {"Model", cli_model_options, CLI_MODEL_FOLDER, offsetof(tokenize_values, model)}},
    .run = run,
};
